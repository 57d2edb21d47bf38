import { userActor } from "../actors/user.ts"
import { unavailable } from "../contract/core/errors.ts"
import type { Snowflake } from "../contract/core/fields.ts"
import { loginKeyOf, loginKeyOfName } from "../domain/accounts/failed-logins.ts"
import type { Page, Place } from "../storage/accounts/exports.ts"
import { personalTables } from "../storage/personal-data.ts"
import { type JobTools, type Processor, unlessGone } from "./processor.ts"
import { ending, forgetting, type Sweep } from "./sweep.ts"

/**
 * Rows of one statement, and of one part at most; characters of one part, about; messages that one
 * statement looks at.
 */
const page = 500
const partCharacters = 500_000
const slice = 2_000
/** Statements after which the export is said to be under way still. */
const statementsPerTouch = 50

/** One at a time in a process: each looks at every message there is. */
const busy = new WeakSet<JobTools>()

/**
 * Writes what is held about a user into parts, table by table, holding one page in memory. It
 * starts again after an interruption; a change meanwhile may be in it in its old or its new form.
 */
export const exportAccount: Processor<"exportAccount"> = async (tools, { user_id, export_id }) => {
  if (busy.has(tools)) throw unavailable("another export is being made")
  busy.add(tools)
  try {
    await unlessGone("user_not_found", make(tools, user_id, export_id))
  } finally {
    busy.delete(tools)
  }
}

/** The account is purged, or a later attempt has begun. */
class Superseded extends Error {}

async function make({ ask, storage, now, signal }: JobTools, user: Snowflake, export_id: Snowflake): Promise<void> {
  const { attempt } = await ask(userActor, user, { type: "beginExport", export_id })
  if (attempt === null) return
  const { exports } = storage
  const account = await storage.users.find(user)
  const named = [account?.username, account?.email].flatMap(name => (name ? [loginKeyOfName(name)] : []))
  const names = [loginKeyOf(user), ...named]
  const seconds = () => Math.floor(now() / 1000)
  let parts = 0
  let statements = 0

  async function add(name: string, rows: readonly Record<string, unknown>[]): Promise<void> {
    if (rows.length === 0) return
    const isCurrent = await exports.addPart({ export_id, attempt: attempt!, number: ++parts, name, rows }, seconds())
    if (!isCurrent) throw new Superseded()
  }

  async function addTable(name: string, look: (after: Place | undefined) => Promise<Page>): Promise<void> {
    let after: Place | undefined
    let gathered: Record<string, unknown>[] = []
    let characters = 0
    do {
      signal.throwIfAborted()
      const { rows, next } = await look(after)
      for (const row of rows) {
        gathered.push(row)
        characters += JSON.stringify(row).length
        if (gathered.length < page && characters < partCharacters) continue
        await add(name, gathered)
        gathered = []
        characters = 0
      }
      after = next
      if (++statements % statementsPerTouch === 0 && !(await exports.touch(export_id, attempt!, seconds())))
        throw new Superseded()
    } while (after)
    await add(name, gathered)
  }

  try {
    for (const [name, table] of Object.entries(personalTables))
      await addTable(name, after =>
        name === "messages"
          ? exports.messages(table, user, after, slice)
          : exports.rows(table, { user, names }, after, page),
      )
  } catch (error) {
    if (error instanceof Superseded) return
    throw error
  }
  const { finished } = await ask(userActor, user, { type: "finishExport", export_id, attempt })
  if (!finished) return
  await exports.forgetOtherAttempts(export_id, attempt)
  await exports.forgetEarlier(user, export_id)
}

/** Seconds without progress after which an export starts again. */
const quietS = 600
/** Exports that one statement deletes: each may be large. */
const expiredBatchSize = 20

export const sweeps: readonly Sweep[] = [
  forgetting(({ exports }, beforeS, limit) => exports.forgetExpired(beforeS, limit), expiredBatchSize),
  ending(
    ({ exports }, beforeS, limit) => exports.takeStuck(beforeS, quietS, limit),
    ({ ask }, { id, user_id }) =>
      unlessGone("user_not_found", ask(userActor, user_id, { type: "repeatExport", export_id: id })),
  ),
]
