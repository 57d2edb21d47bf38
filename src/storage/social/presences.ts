import type { Snowflake } from "../../contract/core/fields.ts"
import type { Activity } from "../../contract/social/presence.ts"
import { defaultPresence, type Shown } from "../../domain/core/presences.ts"
import type { PersonalData } from "../../domain/core/personal-data.ts"
import type { Sql } from "../core/database.ts"
import { column, defineWrite, lastOf } from "../core/write.ts"

export const personalData: PersonalData = {
  personal: {
    presences: {
      userColumns: ["user_id"],
      key: { user_id: "bigint" },
      given: ["user_id", "status", "custom_status", "custom_emoji", "activities", "last_seen"],
      atPurge: "erased",
    },
  },
}

export interface PresenceRow extends Shown {
  readonly user_id: Snowflake
  /** Left out: they stay as they are. */
  readonly activities?: readonly Activity[] | undefined
}

/** Whom a user's presence concerns. */
export interface PresenceAudience {
  readonly servers: readonly Snowflake[]
  readonly friends: readonly Snowflake[]
  /** Whom they share a DM with, friends and people in a block left out; of very many the latest. */
  readonly partners: readonly Snowflake[]
  /** Members of these servers, and others in a DM, who are in a block with the user, made by either of them. */
  readonly blocked: readonly Snowflake[]
}

/** Blocks with one user among members of their servers. Beyond that those servers are told nothing, as large ones are. */
const maxBlocked = 5_000
const maxPartnersTold = 1_000

export const putPresence = defineWrite<PresenceRow>("putPresence", (sql, rows) => {
  const last = lastOf(rows, row => row.user_id)
  const activities = last.map(row => newestActivities(rows, row.user_id)) as string[]
  return sql`
    INSERT INTO presences (user_id, status, custom_status, custom_emoji, activities)
    SELECT p.user_id, p.status, p.custom_status, p.custom_emoji, coalesce(p.activities::jsonb, old.activities, '[]')
    FROM unnest(${column(last, "user_id")}::bigint[], ${column(last, "status")}::text[], ${column(last, "custom_status")}::text[],
                ${column(last, "custom_emoji")}::text[], ${activities}::text[])
      AS p (user_id, status, custom_status, custom_emoji, activities)
    LEFT JOIN presences old ON old.user_id = p.user_id
    ORDER BY p.user_id
    ON CONFLICT (user_id) DO UPDATE SET status = excluded.status, custom_status = excluded.custom_status,
      custom_emoji = excluded.custom_emoji, activities = excluded.activities`
})

/** The same user may have chosen several times within one batch. */
function newestActivities(rows: readonly PresenceRow[], user: Snowflake): string | null {
  const newest = rows.findLast(row => row.user_id === user && row.activities !== undefined)
  return newest ? JSON.stringify(newest.activities) : null
}

export const presencesStorage = (sql: Sql) => ({
  /** What users chose to show; ids that are no users are left out. */
  async chosen(users: readonly Snowflake[]): Promise<Map<Snowflake, Shown>> {
    const rows = await sql<(Shown & { id: Snowflake })[]>`
      SELECT u.id, coalesce(p.status, ${defaultPresence.status}) AS status, p.custom_status, p.custom_emoji
      FROM users u LEFT JOIN presences p ON p.user_id = u.id WHERE u.id = ANY(${[...users]}::bigint[])`
    return new Map(rows.map(({ id, ...shown }) => [id, shown]))
  },

  /** Whom each of these users concerns. Servers with more members than `largest` are told nothing. */
  async audiences(users: readonly Snowflake[], largest: number): Promise<Map<Snowflake, PresenceAudience>> {
    const rows = await sql<(PresenceAudience & { id: Snowflake })[]>`
      SELECT u.id,
             ARRAY(SELECT s.id::text FROM members m JOIN servers s ON s.id = m.server_id
                   WHERE m.user_id = u.id AND s.member_count <= ${largest} ORDER BY s.id) AS servers,
             ARRAY(SELECT other_id::text FROM relationships WHERE user_id = u.id AND status = 'friend') AS friends,
             ARRAY(SELECT d.partner::text
                   FROM (SELECT id, other_id AS partner FROM direct_channels WHERE user_id = u.id AND channel_type = 'dm'
                         UNION ALL SELECT id, user_id FROM direct_channels WHERE other_id = u.id) AS d
                   WHERE NOT EXISTS (SELECT FROM relationships r WHERE r.status IN ('friend', 'blocked')
                                     AND ((r.user_id = u.id AND r.other_id = d.partner) OR (r.user_id = d.partner AND r.other_id = u.id)))
                   ORDER BY d.id DESC LIMIT ${maxPartnersTold}) AS partners,
             ARRAY(SELECT b.id::text FROM (SELECT other_id AS id FROM relationships WHERE user_id = u.id AND status = 'blocked'
                                           UNION SELECT user_id FROM relationships WHERE other_id = u.id AND status = 'blocked') b
                   WHERE EXISTS (SELECT 1 FROM members m JOIN members own ON own.server_id = m.server_id JOIN servers s ON s.id = m.server_id
                                 WHERE m.user_id = b.id AND own.user_id = u.id AND s.member_count <= ${largest})
                      OR EXISTS (SELECT FROM direct_channels d
                                 WHERE d.user_id = least(b.id, u.id) AND coalesce(d.other_id, 0) = greatest(b.id, u.id))
                   LIMIT ${maxBlocked + 1}) AS blocked
      FROM unnest(${[...users]}::bigint[]) AS u (id)`
    return new Map(
      rows.map(({ id, servers, friends, partners, blocked }) => [
        id,
        blocked.length > maxBlocked
          ? { servers: [], friends, partners, blocked: [] }
          : { servers, friends, partners, blocked },
      ]),
    )
  },

  /** When others last saw a user, in Unix seconds; null: never, or nobody knows. */
  async lastSeen(user: Snowflake): Promise<number | null> {
    const [row] = await sql<{ last_seen: number | null }[]>`SELECT last_seen FROM presences WHERE user_id = ${user}`
    return row?.last_seen ?? null
  },

  /**
   * Others see these users for the last time for now. Rows are locked by rising ids, as where they are written with others'
   * changes; where one such commit writes twice that does not hold, so this gives up before PostgreSQL calls it a deadlock.
   */
  async noteLastSeen(users: readonly Snowflake[], at: number): Promise<void> {
    await sql`
      WITH timeout AS MATERIALIZED (SELECT set_config('lock_timeout', '300ms', true))
      INSERT INTO presences (user_id, last_seen)
      SELECT id, ${at} FROM timeout, users WHERE id = ANY(${[...users]}::bigint[]) AND deletion_status <> 'purged' ORDER BY id
      ON CONFLICT (user_id) DO UPDATE SET last_seen = greatest(presences.last_seen, excluded.last_seen)`
  },

  /** Whether the user exists and there is no block between them and the asker. */
  async isVisible(user: Snowflake, asker: Snowflake): Promise<boolean> {
    const rows = await sql`
      SELECT 1 FROM users WHERE id = ${user} AND NOT EXISTS (
        SELECT 1 FROM relationships WHERE status = 'blocked'
          AND ((user_id = ${user} AND other_id = ${asker}) OR (user_id = ${asker} AND other_id = ${user})))`
    return rows.length > 0
  },
})
