import type { Snowflake } from "../../contract/core/fields.ts"
import { epochMs } from "../../domain/core/snowflake.ts"
import { type PersonalData, secretReason } from "../../domain/core/personal-data.ts"
import type { Sql } from "../core/database.ts"

export const personalData: PersonalData = {
  personal: {
    operator_requests: {
      userColumns: ["user_id"],
      key: { id: "bigint" },
      given: [
        "id",
        "kind",
        "user_id",
        "message",
        "until_id",
        "asked_at",
        "attempts",
        "done_at",
        "ended",
        "refusal",
        "failed",
      ],
      leftOut: {
        taken_by: "Which process of the server did it: nothing about the person",
        taken_until: "Until when that process had time: nothing about the person",
      },
      atPurge: "erased",
    },
    operator_commands: {
      userColumns: ["user_id"],
      key: { id: "bigint" },
      given: ["id", "user_id", "command", "input", "asked_at", "attempts", "done_at", "refusal"],
      leftOutOf: { input: { token_hash: secretReason } },
      leftOut: {
        answer: "What the operator was told; the new token of a bot is none of anybody else's",
        begun: "How far a process of the server had got: nothing about the person",
        taken_by: "Which process of the server did it: nothing about the person",
        taken_until: "Until when that process had time: nothing about the person",
      },
      atPurge: "erased",
    },
  },
}

/** What only running servers can do, because actors have to be asked. */
export type OperatorRequest = { readonly id: string } & (
  | { readonly kind: "force_logout"; readonly user_id: Snowflake; readonly message: string }
  | {
      readonly kind: "logout_all"
      readonly until_id: Snowflake
      /** Sessions that the request's earlier worker has ended. */
      readonly ended: number
    }
)

/** `ended`: sessions. `failed`: users whose sessions could not be ended. */
export type OperatorAnswer = { readonly ended: number; readonly failed?: number } | { readonly refusal: string }

/** An operator's command about an account, by a name that `OperatorRequests` knows. */
export interface OperatorCommand {
  readonly id: string
  readonly user_id: Snowflake
  readonly command: string
  readonly input: Readonly<Record<string, unknown>>
  /** A worker had begun to make the account that the command asks for. */
  readonly begun: boolean
}

/** The answer of the command, or the code of its refusal. */
export type CommandAnswer = { readonly reply: Readonly<Record<string, unknown>> } | { readonly refusal: string }

/** Seconds that a worker has a request to itself, unless it asks for more. */
const takenSeconds = 30
const retrySeconds = 2
/**
 * A request that fails, or whose worker ends before it is answered, is tried at most this often.
 */
const maxAttempts = 5
/** Days that answered requests are kept. */
const keptDays = 30

/** Requests that no worker has and that are not answered. */
export const openRequests = (sql: Sql) => sql`done_at IS NULL AND (taken_until IS NULL OR taken_until < now())`

export const operatorRequestsStorage = (sql: Sql) => ({
  async forceLogout(user: Snowflake, message: string): Promise<string> {
    const [row] = await sql<{ id: string }[]>`
      WITH old AS (DELETE FROM operator_requests WHERE done_at < now() - make_interval(days => ${keptDays}))
      INSERT INTO operator_requests (kind, user_id, message) VALUES ('force_logout', ${user}, ${message}) RETURNING id::text`
    return row!.id
  },

  /**
   * From here on the existing sessions are invalid; the request only deletes them. An id shows when
   * it was made by the clock of its worker, which may be ahead of this one.
   */
  async logoutAll(): Promise<string> {
    const [row] = await sql<{ id: string }[]>`
      WITH old AS (DELETE FROM operator_requests WHERE done_at < now() - make_interval(days => ${keptDays})),
           reset AS (
             UPDATE service SET resets = resets + 1, reset_until = GREATEST(
               (SELECT coalesce(max(id), 0) FROM sessions),
               (((extract(epoch FROM clock_timestamp()) * 1000)::bigint - ${epochMs}::bigint) << 22) | ${2 ** 22 - 1}::bigint)
             RETURNING reset_until)
      INSERT INTO operator_requests (kind, until_id) SELECT 'logout_all', reset_until FROM reset RETURNING id::text`
    return row!.id
  },

  /** The oldest request that no worker has. It belongs to this worker for a while. */
  async take(worker: string): Promise<OperatorRequest | undefined> {
    const [row] = await sql<(OperatorRequest & { isGivenUp: boolean })[]>`
      UPDATE operator_requests SET attempts = attempts + 1, taken_by = ${worker}, taken_until = now() + make_interval(secs => ${takenSeconds}),
        done_at = CASE WHEN attempts >= ${maxAttempts} THEN now() END,
        refusal = CASE WHEN attempts >= ${maxAttempts} THEN 'internal' END
      WHERE id = (SELECT id FROM operator_requests WHERE ${openRequests(sql)} ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)
      RETURNING id::text, kind, user_id::text, message, until_id::text, coalesce(ended, 0) AS ended, done_at IS NOT NULL AS "isGivenUp"`
    return row?.isGivenUp ? undefined : row
  },

  /**
   * `ended`: sessions so far, for a worker that takes it over. @returns false when somebody has
   * done so, or may have
   */
  async keep(id: string, worker: string, ended: number): Promise<boolean> {
    const rows = await sql`
      UPDATE operator_requests SET taken_until = now() + make_interval(secs => ${takenSeconds}), ended = ${ended}
      WHERE id = ${id} AND taken_by = ${worker} AND taken_until > now() AND done_at IS NULL RETURNING 1`
    return rows.length > 0
  },

  /**
   * Releases a request, to be tried again soon. `counts`: the attempt counts; otherwise nothing is
   * wrong with the request itself.
   */
  async putBack(id: string, worker: string, counts: boolean): Promise<void> {
    await sql`
      UPDATE operator_requests SET taken_until = now() + make_interval(secs => ${retrySeconds}), attempts = attempts - ${counts ? 0 : 1}
      WHERE id = ${id} AND taken_by = ${worker} AND done_at IS NULL`
  },

  async answer(id: string, answer: OperatorAnswer): Promise<void> {
    const {
      ended = null,
      failed = null,
      refusal = null,
    } = answer as {
      ended?: number
      failed?: number
      refusal?: string
    }
    await sql`
      UPDATE operator_requests SET done_at = now(), ended = ${ended}, failed = ${failed}, refusal = ${refusal}
      WHERE id = ${id} AND done_at IS NULL`
  },

  /** Undefined: not yet. */
  async answerTo(id: string): Promise<OperatorAnswer | undefined> {
    const [row] = await sql<{ ended: number | null; failed: number | null; refusal: string | null }[]>`
      SELECT ended, failed, refusal FROM operator_requests WHERE id = ${id} AND done_at IS NOT NULL`
    if (!row) return undefined
    if (row.refusal !== null) return { refusal: row.refusal }
    return { ended: row.ended ?? 0, ...(row.failed !== null && { failed: row.failed }) }
  },

  async command(user: Snowflake, command: string, input: object): Promise<string> {
    const [row] = await sql<{ id: string }[]>`
      WITH old AS (DELETE FROM operator_commands WHERE done_at < now() - make_interval(days => ${keptDays}))
      INSERT INTO operator_commands (user_id, command, input) VALUES (${user}, ${command}, ${JSON.stringify(input)}) RETURNING id::text`
    return row!.id
  },

  /**
   * As `take`, for commands about accounts. Commands about one account are carried out one after
   * another.
   */
  async takeCommand(worker: string): Promise<OperatorCommand | undefined> {
    const [row] = await sql<(Omit<OperatorCommand, "input"> & { input: string; isGivenUp: boolean })[]>`
      UPDATE operator_commands SET attempts = attempts + 1, taken_by = ${worker}, taken_until = now() + make_interval(secs => ${takenSeconds}),
        done_at = CASE WHEN attempts >= ${maxAttempts} THEN now() END,
        refusal = CASE WHEN attempts >= ${maxAttempts} THEN 'internal' END
      WHERE id = (
        SELECT id FROM operator_commands AS c WHERE ${openRequests(sql)}
          AND NOT EXISTS (SELECT 1 FROM operator_commands AS e WHERE e.user_id = c.user_id AND e.id < c.id AND e.done_at IS NULL)
        ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)
      RETURNING id::text, user_id::text, command, input, begun, done_at IS NOT NULL AS "isGivenUp"`
    if (!row || row.isGivenUp) return undefined
    const { id, user_id, command, input, begun } = row
    return { id, user_id, command, begun, input: JSON.parse(input) as OperatorCommand["input"] }
  },

  /**
   * Keeps a command for a while longer. `begins`: it counts as begun from now on. @returns false
   * when another worker has it by now, or may have it
   */
  async keepCommand(id: string, worker: string, begins: boolean): Promise<boolean> {
    const rows = await sql`
      UPDATE operator_commands SET taken_until = now() + make_interval(secs => ${takenSeconds}), begun = begun OR ${begins}
      WHERE id = ${id} AND taken_by = ${worker} AND taken_until > now() AND done_at IS NULL RETURNING 1`
    return rows.length > 0
  },

  /** As `putBack`. */
  async putCommandBack(id: string, worker: string, counts: boolean): Promise<void> {
    await sql`
      UPDATE operator_commands SET taken_until = now() + make_interval(secs => ${retrySeconds}), attempts = attempts - ${counts ? 0 : 1}
      WHERE id = ${id} AND taken_by = ${worker} AND done_at IS NULL`
  },

  /** @returns false when another worker has it by now */
  async answerCommand(id: string, worker: string, answer: CommandAnswer): Promise<boolean> {
    const [reply, refusal] = "reply" in answer ? [JSON.stringify(answer.reply), null] : [null, answer.refusal]
    const rows = await sql`
      UPDATE operator_commands SET done_at = now(), answer = ${reply}, refusal = ${refusal}
      WHERE id = ${id} AND taken_by = ${worker} AND done_at IS NULL RETURNING 1`
    return rows.length > 0
  },

  /** Undefined: not yet. */
  async answerToCommand(id: string): Promise<CommandAnswer | undefined> {
    const [row] = await sql<{ answer: string | null; refusal: string | null }[]>`
      SELECT answer, refusal FROM operator_commands WHERE id = ${id} AND done_at IS NOT NULL`
    if (!row) return undefined
    if (row.refusal !== null) return { refusal: row.refusal }
    return { reply: JSON.parse(row.answer ?? "{}") as Record<string, unknown> }
  },

  /**
   * Users that have sessions up to `until`, in order of their ids: bots, whose sessions have their
   * ids, or all others.
   */
  async usersWithSessions(bots: boolean, until: Snowflake, after: Snowflake, limit: number): Promise<Snowflake[]> {
    const rows = await sql<{ user_id: string }[]>`
      SELECT user_id::text FROM (
        SELECT DISTINCT user_id FROM sessions WHERE id <= ${until} AND user_id > ${after} AND (id = user_id) = ${bots} ORDER BY user_id LIMIT ${limit}) AS users`
    return rows.map(({ user_id }) => user_id)
  },
})
