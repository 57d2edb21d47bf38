import type { Snowflake } from "../contract/core/fields.ts"
import { personalTables } from "./personal-data.ts"
import type { Sql } from "./core/database.ts"
import { column, defineWrite } from "./core/write.ts"

/** A table in which nothing of the user is left, and the columns each of which names the user. */
const tableOf = (name: string): { table: string; columns: string[] } | undefined => {
  const { table, userColumns, othersRows = {}, atPurge } = personalTables[name]!
  if ((atPurge !== "erased" && atPurge !== "ended") || userColumns === "names") return undefined
  return { table, columns: [...userColumns, ...Object.keys(othersRows)] }
}
/** One whose rows go with the account. */
const rowsOf = (name: string) => (personalTables[name]!.atPurge === "erased" ? tableOf(name) : undefined)

const emptied = Object.keys(personalTables).flatMap(name => tableOf(name) ?? [])

/** Tables whose rows go with the account. */
export const erasedTables = Object.keys(personalTables).filter(name => rowsOf(name))

// Column by column, each with its ids as an array: each finds its index, where two columns in one
// look would read it all.
const erasures = erasedTables
  .flatMap(name => {
    const { table, columns } = rowsOf(name)!
    return columns.map(
      column => `${name}_${column} AS (DELETE FROM ${table} WHERE ${column} = ANY(ARRAY(SELECT id FROM gone)))`,
    )
  })
  .join(", ")

/** What is left of what was a user's alone, in every table that no other home decides about. */
export const eraseAccount = defineWrite<{ user_id: Snowflake }>(
  "eraseAccount",
  (sql, rows) => sql`
    WITH gone AS MATERIALIZED (SELECT unnest(${column(rows, "user_id")}::bigint[]) AS id), ${sql.unsafe(erasures)} SELECT 1`,
)

/** Failed sign-ins under a name that is nobody's any longer. */
export const eraseFailedLogins = defineWrite<{ name: string }>(
  "eraseFailedLogins",
  (sql, rows) => sql`
    DELETE FROM failed_logins WHERE name IN (SELECT lower(given.name) FROM unnest(${column(rows, "name")}::text[]) AS given (name))`,
)

/** `deletion_at`: when its purge ended, in Unix seconds. */
export interface PurgedAccount {
  readonly id: Snowflake
  readonly deletion_at: number
}

/** Rows of one table and look: accounts behind them are found by a later one. */
const maxLeftRows = 1_000

export const accountDeletionStorage = (sql: Sql) => {
  const ids = async (rows: PromiseLike<readonly { id: Snowflake }[]>) => (await rows).map(({ id }) => id)
  return {
    /**
     * Accounts whose time is over, and those whose purge has begun and not ended. `before`: Unix
     * seconds.
     */
    due: (before: number, limit: number): Promise<Snowflake[]> =>
      ids(sql<{ id: Snowflake }[]>`
        (SELECT id FROM users WHERE deletion_status = 'frozen' AND deletion_at <= ${before} ORDER BY deletion_at LIMIT ${limit})
        UNION ALL
        (SELECT id FROM users WHERE deletion_status = 'purged' AND deletion_at IS NULL ORDER BY id LIMIT ${limit})
        LIMIT ${limit}`),

    /** Deletes some of what goes with an account. @returns how many rows */
    async eraseRows(name: string, user: Snowflake, limit: number): Promise<number> {
      const { table, columns } = rowsOf(name)!
      const isHis = columns.map(column => `${column} = $1::bigint`).join(" OR ")
      const { count } = await sql.unsafe(
        `DELETE FROM ${table} WHERE ctid = ANY(ARRAY(SELECT ctid FROM ${table} WHERE ${isHis} LIMIT ${limit}))`,
        [user],
      )
      return count
    },

    /** Deletes some of what is in the user's exports. @returns how many parts */
    async eraseExportParts(user: Snowflake, limit: number): Promise<number> {
      const { count } = await sql`
        DELETE FROM export_parts WHERE (export_id, attempt, number) IN (
          SELECT p.export_id, p.attempt, p.number FROM exports e JOIN export_parts p ON p.export_id = e.id
          WHERE e.user_id = ${user} LIMIT ${limit})`
      return count
    },

    /**
     * Accounts whose purge has ended, from a place on, up to a time, and whether anything is left of
     * them: a worker of an older version does not know the tables of this one.
     */
    async purgedAfter(
      after: PurgedAccount,
      until: number,
      limit: number,
    ): Promise<(PurgedAccount & { isLeft: boolean })[]> {
      const purged = await sql<PurgedAccount[]>`
        SELECT id, deletion_at FROM users WHERE deletion_status = 'purged' AND deletion_at IS NOT NULL
          AND (deletion_at, id) > (${after.deletion_at}::bigint, ${after.id}::bigint) AND deletion_at <= ${until}
        ORDER BY deletion_at, id LIMIT ${limit}`
      if (purged.length === 0) return []
      const users = purged.map(({ id }) => id)
      const left = new Set<Snowflake>()
      for (const { table, columns } of emptied)
        for (const column of columns) {
          const rows = await ids(sql<{ id: Snowflake }[]>`
            SELECT DISTINCT id FROM (
              SELECT ${sql(column)}::bigint AS id FROM ${sql(table)} WHERE ${sql(column)} = ANY(${users}::bigint[]) LIMIT ${maxLeftRows}) AS named`)
          for (const id of rows) left.add(id)
        }
      return purged.map(account => ({ ...account, isLeft: left.has(account.id) }))
    },

    botsOf: (user: Snowflake): Promise<Snowflake[]> =>
      ids(sql<{ id: Snowflake }[]>`SELECT id FROM users WHERE owner_id = ${user} ORDER BY id`),

    ownedServers: (user: Snowflake): Promise<Snowflake[]> =>
      ids(sql<{ id: Snowflake }[]>`SELECT id FROM servers WHERE owner_id = ${user} ORDER BY id`),

    /** Whether a user, or one of their bots, owns a server. */
    async isOwner(user: Snowflake): Promise<boolean> {
      const rows = await sql`
        SELECT FROM servers WHERE owner_id = ${user} OR owner_id = ANY(ARRAY(SELECT id FROM users WHERE owner_id = ${user})) LIMIT 1`
      return rows.length > 0
    },

    /** Servers that have rows of the user: as a member, as a banned user, or as a bot with a role of its own. */
    serversKnowing: (user: Snowflake): Promise<Snowflake[]> =>
      ids(sql<{ id: Snowflake }[]>`
        SELECT server_id AS id FROM members WHERE user_id = ${user} UNION SELECT server_id FROM bans WHERE user_id = ${user}
        UNION SELECT server_id FROM roles WHERE bot_id = ${user}
        ORDER BY id`),

    /** Deletes what is left of the user in deleted servers: no home removes them there. */
    async eraseLeft(user: Snowflake): Promise<void> {
      await sql`
        WITH memberships AS (
          DELETE FROM members m WHERE m.user_id = ${user} AND NOT EXISTS (SELECT FROM servers s WHERE s.id = m.server_id))
        DELETE FROM bans b WHERE b.user_id = ${user} AND NOT EXISTS (SELECT FROM servers s WHERE s.id = b.server_id)`
    },

    /** Channels with an override of the user. */
    channelsNaming: (user: Snowflake): Promise<Snowflake[]> =>
      ids(sql<{ id: Snowflake }[]>`
        SELECT channel_id AS id FROM channel_overrides WHERE target_id = ${user} AND type = 'member' ORDER BY id`),

    /** The user's notes, and DMs with purged accounts: nobody can read them any more. */
    deserted: (user: Snowflake): Promise<Snowflake[]> =>
      ids(sql<{ id: Snowflake }[]>`
        SELECT d.id FROM direct_channels d LEFT JOIN users u ON u.id = d.other_id
        WHERE d.user_id = ${user} AND (d.other_id IS NULL OR u.deletion_status = 'purged')
        UNION ALL
        SELECT d.id FROM direct_channels d JOIN users u ON u.id = d.user_id
        WHERE d.other_id = ${user} AND u.deletion_status = 'purged'
        ORDER BY id`),

    async eraseDirects(ids: readonly Snowflake[]): Promise<void> {
      await sql`
        WITH cursors AS (DELETE FROM deliveries WHERE home_id = ANY(${[...ids]}::bigint[]))
        DELETE FROM direct_channels WHERE id = ANY(${[...ids]}::bigint[])`
    },

    /** Everybody who has a relationship with the user, in either direction. */
    related: (user: Snowflake): Promise<Snowflake[]> =>
      ids(sql<{ id: Snowflake }[]>`
        SELECT other_id AS id FROM relationships WHERE user_id = ${user}
        UNION SELECT user_id FROM relationships WHERE other_id = ${user} ORDER BY id`),
  }
}
