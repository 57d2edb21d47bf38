import type { Snowflake } from "../../contract/core/fields.ts"
import type { PersonalData } from "../../domain/core/personal-data.ts"
import type { Sql } from "../core/database.ts"
import { column, defineWrite } from "../core/write.ts"

export const personalData: PersonalData = {
  others: {
    message_mentions: { why: "Whom messages call that say so themselves; gone once they are notified, within minutes" },
  },
}

/** Whom a message calls. */
export interface MentionRow {
  /** Null: in a conversation outside servers. */
  server_id: Snowflake | null
  channel_id: Snowflake
  message_id: Snowflake
  users: Snowflake[]
  roles: Snowflake[]
  everyone: boolean
  here: boolean
}

/** Until they are notified: the queue may forget what it was told. */
export const insertMention = defineWrite<MentionRow>("insertMention", (sql, rows) => {
  const lists = (key: "users" | "roles") => rows.map(row => `{${row[key].join(",")}}`)
  return sql`
    INSERT INTO message_mentions (server_id, channel_id, message_id, users, roles, everyone, here)
    SELECT server_id, channel_id, message_id, users::bigint[], roles::bigint[], everyone, here
    FROM unnest(${column(rows, "server_id")}::bigint[], ${column(rows, "channel_id")}::bigint[], ${column(rows, "message_id")}::bigint[],
      ${lists("users")}::text[], ${lists("roles")}::text[], ${column(rows, "everyone")}::text[]::boolean[], ${column(rows, "here")}::text[]::boolean[])
      AS t (server_id, channel_id, message_id, users, roles, everyone, here)`
})

/** A message that mentions people. */
interface Mentioning {
  readonly server_id: Snowflake | null
  readonly channel_id: Snowflake
  readonly message_id: Snowflake
  readonly author_id: Snowflake
}

/** A user who is mentioned by it, with their roles in the server. */
export interface Mentionable {
  user_id: Snowflake
  roles: Snowflake[]
  /** The user was notified of it already, or one of the two has blocked the other. */
  is_left_out: boolean
  /** The user has read the channel up to it by now. */
  has_read: boolean
}

export const mentionsStorage = (sql: Sql) => ({
  /**
   * The next in the order of ids whom a message mentions, but for its author: users, members with
   * any of the roles, or with `isAll` every member. By a role, or with all, are meant those who
   * were members when it was sent. What is found out about each is asked of so many at most,
   * however large the server is.
   */
  async called(
    { server_id, channel_id, message_id, author_id }: Mentioning,
    { users, roles, isAll }: { users: readonly Snowflake[]; roles: readonly Snowflake[]; isAll: boolean },
    { after, limit }: { after: Snowflake; limit: number },
  ): Promise<Mentionable[]> {
    const named = sql`${[...users]}::bigint[]`
    const wasThere = sql`coalesce(since_id, 0) <= ${message_id}`
    const isMentioned = isAll
      ? sql`(user_id = ANY(${named}) OR ${wasThere})`
      : roles.length === 0
        ? sql`user_id = ANY(${named})`
        : sql`(user_id = ANY(${named}) OR roles && ${[...roles]}::bigint[] AND ${wasThere})`
    const people =
      server_id === null
        ? sql`SELECT id AS user_id, '{}'::bigint[] AS roles FROM users WHERE id = ANY(${named}) AND id > ${after} AND id <> ${author_id}`
        : sql`SELECT user_id, roles FROM members WHERE server_id = ${server_id} AND ${isMentioned} AND user_id > ${after} AND user_id <> ${author_id}`
    return sql<Mentionable[]>`
      SELECT m.user_id, m.roles::text[] AS roles,
        EXISTS (SELECT FROM notifications n WHERE n.user_id = m.user_id AND n.channel_id = ${channel_id} AND n.message_id = ${message_id})
        OR EXISTS (SELECT FROM relationships r WHERE r.user_id = m.user_id AND r.other_id = ${author_id} AND r.status = 'blocked')
        OR EXISTS (SELECT FROM relationships r WHERE r.user_id = ${author_id} AND r.other_id = m.user_id AND r.status = 'blocked')
        AS is_left_out,
        EXISTS (SELECT FROM read_states r WHERE r.channel_id = ${channel_id} AND r.user_id = m.user_id AND r.message_id >= ${message_id}) AS has_read
      FROM (${people} ORDER BY user_id LIMIT ${limit}) AS m ORDER BY m.user_id`
  },

  /** Which of these users have read a channel as far as a message. */
  async readBy(channel: Snowflake, message: Snowflake, users: readonly Snowflake[]): Promise<Snowflake[]> {
    const rows = await sql<{ user_id: Snowflake }[]>`
      SELECT user_id FROM read_states
      WHERE channel_id = ${channel} AND user_id = ANY(${[...users]}::bigint[]) AND message_id >= ${message}`
    return rows.map(({ user_id }) => user_id)
  },

  /**
   * Of messages between two ids whose mentions nobody has been notified of to the end, the oldest
   * first.
   */
  async due(after: Snowflake, before: Snowflake, limit: number): Promise<MentionRow[]> {
    return sql<MentionRow[]>`
      SELECT server_id, channel_id, message_id, users::text[] AS users, roles::text[] AS roles, everyone, here FROM message_mentions
      WHERE message_id > ${after} AND message_id < ${before} ORDER BY message_id LIMIT ${limit}`
  },

  /**
   * Deletes some of what people were notified of with a message that is gone; of one that is being
   * deleted it waits for that. @returns how many rows
   */
  async purgeGone(channel: Snowflake, message: Snowflake, limit: number): Promise<number> {
    const { count } = await sql`
      WITH there AS MATERIALIZED (
        SELECT FROM messages WHERE channel_id = ${channel} AND id = ${message} AND NOT deleted FOR SHARE)
      DELETE FROM notifications WHERE NOT EXISTS (SELECT FROM there) AND id = ANY(ARRAY(
        SELECT id FROM notifications WHERE channel_id = ${channel} AND message_id = ${message} LIMIT ${limit}))`
    return count
  },

  /** Everybody whom it mentions has been notified. */
  async end(channel: Snowflake, message: Snowflake): Promise<void> {
    await sql`DELETE FROM message_mentions WHERE channel_id = ${channel} AND message_id = ${message}`
  },
})
