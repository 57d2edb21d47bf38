import type { Snowflake } from "../../contract/core/fields.ts"
import type { ListedRelationship, RelationshipStatus } from "../../contract/social/relationships.ts"
import { avatarPath } from "../../contract/accounts/users.ts"
import { strangers, type Pair, type RelationshipCounts, type Side } from "../../domain/social/relationships.ts"
import type { PersonalData } from "../../domain/core/personal-data.ts"
import type { Sql } from "../core/database.ts"
import { column, defineWrite, lastOf } from "../core/write.ts"

export const personalData: PersonalData = {
  personal: {
    relationships: {
      userColumns: ["user_id"],
      key: { user_id: "bigint", other_id: "bigint" },
      given: ["user_id", "other_id", "status", "message", "created_at"],
      othersRows: { other_id: "What others made of this person, such as a block, is theirs to know" },
      atPurge: "ended",
    },
  },
}

interface Ends {
  user_id: Snowflake
  other_id: Snowflake
}
export type RelationshipRow = Ends & Side

const gone = { relationships_user_id_fkey: "user_not_found", relationships_other_id_fkey: "user_not_found" } as const

export const putRelationship = defineWrite<RelationshipRow>(
  "putRelationship",
  (sql, rows) => {
    const last = lastOf(rows, row => `${row.user_id}:${row.other_id}`)
    return sql`
      INSERT INTO relationships (user_id, other_id, status, message, created_at)
      SELECT * FROM unnest(${column(last, "user_id")}::bigint[], ${column(last, "other_id")}::bigint[], ${column(last, "status")}::text[],
        ${column(last, "message")}::text[], ${column(last, "created_at")}::bigint[])
      ON CONFLICT (user_id, other_id) DO UPDATE SET status = excluded.status, message = excluded.message, created_at = excluded.created_at`
  },
  gone,
)

export const deleteRelationship = defineWrite<Ends>(
  "deleteRelationship",
  (sql, rows) => sql`
    DELETE FROM relationships USING unnest(${column(rows, "user_id")}::bigint[], ${column(rows, "other_id")}::bigint[]) AS t (user_id, other_id)
    WHERE relationships.user_id = t.user_id AND relationships.other_id = t.other_id`,
)

const none: RelationshipCounts = { friend: 0, pending_incoming: 0, pending_outgoing: 0, blocked: 0 }

export const relationshipsStorage = (sql: Sql) => ({
  /** What a user and others with higher ids are to one another. */
  async pairs(lower: Snowflake, higher: readonly Snowflake[]): Promise<Map<Snowflake, Pair>> {
    const rows = await sql<RelationshipRow[]>`
      SELECT user_id, other_id, status, message, created_at FROM relationships WHERE user_id = ${lower} AND other_id = ANY(${[...higher]}::bigint[])
      UNION ALL
      SELECT user_id, other_id, status, message, created_at FROM relationships WHERE other_id = ${lower} AND user_id = ANY(${[...higher]}::bigint[])`
    const pairs = new Map<Snowflake, Pair>()
    for (const { user_id, other_id, ...side } of rows) {
      const [other, place] = user_id === lower ? ([other_id, "lower"] as const) : ([user_id, "higher"] as const)
      pairs.set(other, { ...(pairs.get(other) ?? strangers), [place]: side })
    }
    return pairs
  },

  /** What another is to a user by now. */
  async status(user: Snowflake, other: Snowflake): Promise<RelationshipStatus | undefined> {
    const [row] = await sql<{ status: RelationshipStatus }[]>`
      SELECT status FROM relationships WHERE user_id = ${user} AND other_id = ${other}`
    return row?.status
  },

  /** How many rows each of these users has. */
  async counts(users: readonly Snowflake[]): Promise<Map<Snowflake, RelationshipCounts>> {
    const rows = await sql<{ user_id: Snowflake; status: RelationshipStatus; count: number }[]>`
      SELECT user_id, status, count(*)::int AS count FROM relationships WHERE user_id = ANY(${[...users]}::bigint[]) GROUP BY user_id, status`
    const counts = new Map(users.map(user => [user, none]))
    for (const { user_id, status, count } of rows) counts.set(user_id, { ...counts.get(user_id)!, [status]: count })
    return counts
  },

  /** Friends, incoming, outgoing, blocked; of one status the oldest first. */
  async list(user: Snowflake): Promise<Omit<ListedRelationship, "presence">[]> {
    const rows = await sql<Omit<ListedRelationship, "presence" | "avatar_url">[]>`
      SELECT r.other_id AS user_id, u.username, r.status, r.message, r.created_at
      FROM relationships r JOIN users u ON u.id = r.other_id WHERE r.user_id = ${user}
      ORDER BY array_position(ARRAY['friend', 'pending_incoming', 'pending_outgoing', 'blocked'], r.status), r.created_at, r.other_id`
    return rows.map(row => ({ ...row, avatar_url: avatarPath(row.user_id) }))
  },
})
