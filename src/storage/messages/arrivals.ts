import type { Snowflake } from "../../contract/core/fields.ts"
import type { AccountBars } from "../../domain/accounts/accounts.ts"
import { shardOf } from "../../domain/core/snowflake.ts"
import type { Sql } from "../core/database.ts"
import { bars } from "../accounts/sessions.ts"
import type { Membership } from "../accounts/users.ts"
import { directs, type ReceivedBefore } from "./deliveries.ts"

/** An access session with which a gateway session begins, and what that needs to know of its user, as of one moment. */
export interface Arrival extends AccountBars {
  session_id: Snowflake
  token_hash: string
  user_id: Snowflake
  username: string
  badges: string[]
  bot: boolean
  /** In the order of the servers. */
  memberships: Membership[]
  received: ReceivedBefore[]
}

interface ArrivalRow extends Omit<Arrival, "memberships" | "received"> {
  /** Servers as "id:role,role", DM channels as "id". */
  homes: string | null
  /** "shard:id"; null but in the first row. */
  lasts: string | null
}

export const arrivalsStorage = (sql: Sql) => ({
  /**
   * One row for each session that is still there. What is said of servers is one text, which is read faster than a row for
   * each. Each shard is asked once for the last id that it made, however many of the servers are in it.
   */
  async find(sessions: readonly Snowflake[]): Promise<Arrival[]> {
    const rows = await sql<ArrivalRow[]>`
      WITH arriving AS MATERIALIZED (
        SELECT s.id AS session_id, s.token_hash, s.user_id, u.username, u.badges, u.bot, ${bars(sql)}
        FROM sessions s JOIN users u ON u.id = s.user_id LEFT JOIN users o ON o.id = u.owner_id
        WHERE s.id = ANY(${[...new Set(sessions)]}::bigint[])),
      arrived AS (SELECT DISTINCT user_id FROM arriving),
      homes AS MATERIALIZED (
        SELECT a.user_id, m.server_id AS id, m.roles
        FROM arrived a JOIN members m ON m.user_id = a.user_id JOIN servers v ON v.id = m.server_id
        UNION ALL SELECT a.user_id, d.id, NULL FROM arrived a CROSS JOIN LATERAL ${directs(sql, "a.user_id")} AS d),
      lasts AS (
        SELECT string_agg(h.shard || ':' || o.last_id, ' ') AS text
        FROM (SELECT DISTINCT ((id >> 12) & 1023)::smallint AS shard FROM homes) h
        CROSS JOIN LATERAL (SELECT last_id FROM outbox WHERE shard = h.shard ORDER BY number DESC LIMIT 1) o),
      places AS (
        SELECT user_id, string_agg(id || coalesce(':' || array_to_string(roles, ','), ''), ' ' ORDER BY id) AS homes
        FROM homes GROUP BY user_id)
      SELECT a.*, p.homes, CASE WHEN row_number() OVER () = 1 THEN (SELECT text FROM lasts) END AS lasts
      FROM arriving a LEFT JOIN places p ON p.user_id = a.user_id`
    const lasts = readLasts(rows.find(row => row.lasts !== null)?.lasts)
    return rows.map(row => arrivalOf(row, lasts))
  },
})

/** Field by field: a copy of all but some takes V8 several times as long. */
function arrivalOf(row: ArrivalRow, lasts: ReadonlyMap<number, Snowflake>): Arrival {
  const { memberships, received } = readHomes(row.homes, lasts)
  return {
    session_id: row.session_id,
    token_hash: row.token_hash,
    user_id: row.user_id,
    username: row.username,
    badges: row.badges,
    bot: row.bot,
    locked_until: row.locked_until,
    lock_reason: row.lock_reason,
    is_deleted: row.is_deleted,
    must_rename: row.must_rename,
    rename_reason: row.rename_reason,
    memberships,
    received,
  }
}

function readLasts(text: string | null | undefined): ReadonlyMap<number, Snowflake> {
  const lasts = new Map<number, Snowflake>()
  for (const part of partsOf(text, " ")) {
    const [shard, last] = part.split(":")
    lasts.set(Number(shard), last!)
  }
  return lasts
}

function readHomes(text: string | null, lasts: ReadonlyMap<number, Snowflake>) {
  const memberships: Membership[] = []
  const received: ReceivedBefore[] = []
  for (const part of partsOf(text, " ")) {
    const end = part.indexOf(":")
    const is_direct = end < 0
    const home_id = is_direct ? part : part.slice(0, end)
    if (!is_direct) memberships.push({ server_id: home_id, roles: partsOf(part.slice(end + 1), ",") })
    const message_id = lasts.size > 0 ? lasts.get(shardOf(home_id)) : undefined
    if (message_id !== undefined) received.push({ home_id, is_direct, message_id })
  }
  return { memberships, received }
}

const partsOf = (text: string | null | undefined, separator: string): string[] => (text ? text.split(separator) : [])
