import type { Snowflake } from "../../../contract/core/fields.ts"
import { limits } from "../../../contract/core/limits.ts"
import { newAccount } from "../../../domain/accounts/accounts.ts"
import { isEmailAddress } from "../../../domain/accounts/email-addresses.ts"
import { insertUser } from "../../../storage/accounts/users.ts"
import type { ImportedUser, ImportStep } from "../../../storage/imports.ts"
import type { ForeignUser } from "./records.ts"
import { fitting, usernamesLike } from "./usernames.ts"
import type { Importing } from "./importing.ts"

/** Names that are tried for one person. */
const attempts = 200

/**
 * Makes accounts of people who have none yet. Nobody can sign in to one: it has no password. A person
 * who reads the mails of its address can set one, or whom an operator gives a link (`import claim`).
 */
export async function addUsers(importing: Importing, users: readonly ForeignUser[]): Promise<void> {
  const { state, report } = importing
  for (const { id, isBot, shownName, name } of users) if (isBot) state.bots.set(id, shownName ?? name)
  const fresh = [...new Map(users.map(user => [user.id, user])).values()].filter(
    ({ id, isBot }) => !isBot && !state.users.has(id) && !state.bots.has(id),
  )
  if (fresh.length === 0) return
  const added = await importing.step(async step => {
    const rows = await accountsOf(importing, step, fresh)
    await step.write(rows.map(({ account }) => insertUser(account)))
    await step.noteUsers(
      importing.id,
      rows.map(({ noted }) => noted),
    )
    return rows
  })
  for (const { noted } of added) state.users.set(noted.foreign_id, noted.user_id)
  report.count("users", added.length)
}

async function accountsOf(importing: Importing, step: ImportStep, users: readonly ForeignUser[]) {
  const { refusesName, report, ids, nowS } = importing
  const refuses = (name: string) => refusesName(name)
  const names = await freeNames(step, users, refuses)
  const emailOf = ({ email }: ForeignUser) => (email !== null && isEmailAddress(email) ? email : null)
  const { emails } = await step.taken(
    [],
    users.flatMap(user => emailOf(user)?.toLowerCase() ?? []),
  )
  const shards = await step.shards(users.length)
  return users.map((user, i) => {
    const id = ids.next(shards[i]!)
    const given = emailOf(user)
    const email = given !== null && !emails.has(given.toLowerCase()) ? given : null
    if (email !== null) emails.add(email.toLowerCase())
    else if (given !== null) report.skip("addresses that another account has", user.name)
    const username = names[i]!
    const shown = user.shownName === null ? null : fitting(user.shownName, limits.nickname)
    const noted: ImportedUser = {
      foreign_id: user.id,
      user_id: id,
      nickname: shown === "" || shown === username ? null : shown,
      roles: Object.fromEntries([...user.servers].map(([server, roles]) => [server, roles.map(role => role.id)])),
    }
    const account = newAccount({ username, email, password_hash: null, created_at: nowS(), email_verified: false })
    return { account: { id, ...account }, noted }
  })
}

/** A name for each that nobody has. */
async function freeNames(
  step: ImportStep,
  users: readonly ForeignUser[],
  refuses: (name: string) => boolean,
): Promise<string[]> {
  const sources = users.map(({ name }) => usernamesLike(name, refuses))
  const found: (string | undefined)[] = users.map(() => undefined)
  const given = new Set<string>()
  for (let attempt = 0; attempt < attempts && found.includes(undefined); attempt++) {
    const candidates = sources.map((source, i) => (found[i] === undefined ? source.next().value! : undefined))
    const { names: taken } = await step.taken(
      candidates.flatMap(name => name?.toLowerCase() ?? []),
      [],
    )
    for (const [i, name] of candidates.entries()) {
      if (name === undefined || taken.has(name.toLowerCase()) || given.has(name.toLowerCase())) continue
      given.add(name.toLowerCase())
      found[i] = name
    }
  }
  return found.map((name, i) => {
    if (name === undefined) throw new Error(`no free username was found for ${users[i]!.name}`)
    return name
  })
}

/** The one whom the export names as a server's owner. */
export const ownerIn = (
  users: readonly ForeignUser[],
  server: string,
  state: { users: ReadonlyMap<string, Snowflake> },
) => {
  const owner = users.find(({ owns }) => owns.has(server))
  return owner && state.users.get(owner.id)
}
