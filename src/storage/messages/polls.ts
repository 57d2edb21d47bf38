import type { Snowflake } from "../../contract/core/fields.ts"
import { shardOf } from "../../domain/core/snowflake.ts"
import type { PollState } from "../../domain/messages/polls.ts"
import type { Actor } from "../../domain/accounts/accounts.ts"
import type { PersonalData } from "../../domain/core/personal-data.ts"
import type { Sql } from "../core/database.ts"
import { column, defineWrite, lastOf } from "../core/write.ts"

export const personalData: PersonalData = {
  personal: {
    poll_votes: {
      userColumns: ["user_id"],
      key: { poll_id: "bigint", user_id: "bigint" },
      given: ["poll_id", "user_id", "option_ids"],
      // The poll goes on counting them, as those of nobody.
      atPurge: "erased",
    },
  },
  others: {
    polls: { why: "Where polls are; what they say stands with their messages" },
  },
}

export interface PollRow {
  id: Snowflake
  channel_id: Snowflake
  message_id: Snowflake
  ends_at: number | null
}

export const insertPoll = defineWrite<PollRow>(
  "insertPoll",
  (sql, rows) => sql`
    INSERT INTO polls (id, channel_id, message_id, ends_at)
    SELECT * FROM unnest(${column(rows, "id")}::bigint[], ${column(rows, "channel_id")}::bigint[], ${column(rows, "message_id")}::bigint[],
      ${column(rows, "ends_at")}::bigint[])`,
)

/** What a message shows of its poll, with all that was counted; null: it has none any more. */
export const setPoll = defineWrite<{ channel_id: Snowflake; id: Snowflake; poll: PollState | null }>(
  "setPoll",
  (sql, rows) => {
    const last = lastOf(rows, row => `${row.channel_id}:${row.id}`)
    return sql`
      UPDATE messages SET poll = t.poll::json
      FROM unnest(${column(last, "channel_id")}::bigint[], ${column(last, "id")}::bigint[],
        ${last.map(({ poll }) => poll && JSON.stringify(poll))}::text[]) AS t (channel_id, id, poll)
      WHERE messages.channel_id = t.channel_id AND messages.id = t.id AND NOT messages.deleted`
  },
)

/** Ended polls are due no more. */
export const endPoll = defineWrite<{ id: Snowflake }>(
  "endPoll",
  (sql, rows) => sql`UPDATE polls SET ends_at = NULL WHERE id = ANY(${column(rows, "id")}::bigint[])`,
)

/** Gone for everybody; its votes may be many, so a job deletes them, or a sweep. */
export const deletePoll = defineWrite<{ id: Snowflake }>(
  "deletePoll",
  (sql, rows) => sql`UPDATE polls SET gone = true, ends_at = NULL WHERE id = ANY(${column(rows, "id")}::bigint[])`,
)

export const putPollVote = defineWrite<{ poll_id: Snowflake; user_id: Snowflake; option_ids: readonly Snowflake[] }>(
  "putPollVote",
  (sql, rows) => {
    const last = lastOf(rows, row => voteKey(row.poll_id, row.user_id))
    return sql`
      INSERT INTO poll_votes (poll_id, user_id, option_ids)
      SELECT t.poll_id, t.user_id, t.option_ids::bigint[]
      FROM unnest(${column(last, "poll_id")}::bigint[], ${column(last, "user_id")}::bigint[],
        ${last.map(({ option_ids }) => `{${option_ids.join(",")}}`)}::text[]) AS t (poll_id, user_id, option_ids)
      ON CONFLICT (poll_id, user_id) DO UPDATE SET option_ids = excluded.option_ids`
  },
)

/** Key of a vote among those of its server's home. */
export const voteKey = (poll: Snowflake, user: Snowflake) => `${poll}:${user}`

export const pollsStorage = (sql: Sql) => ({
  /** The channel of a poll, and its message's author with their current name. */
  async find(
    id: Snowflake,
  ): Promise<{ channel_id: Snowflake; message_id: Snowflake; author: Actor | undefined } | undefined> {
    const [row] = await sql<{ channel_id: Snowflake; message_id: Snowflake; author: Actor | null }[]>`
      SELECT p.channel_id, p.message_id,
        CASE WHEN u.id IS NOT NULL
          THEN json_build_object('id', u.id::text, 'username', u.username, 'bot', u.bot, 'badges', u.badges) END AS author
      FROM polls p
      LEFT JOIN messages m ON m.channel_id = p.channel_id AND m.id = p.message_id
      LEFT JOIN users u ON u.id = m.author_id
      WHERE p.id = ${id} AND NOT p.gone`
    return row && { ...row, author: row.author ?? undefined }
  },

  /**
   * The channel of a message, among the user's servers and conversations: its id names the shard.
   * Whether they may see it, its home decides.
   */
  async channelOf(user: Snowflake, message: Snowflake): Promise<Snowflake | undefined> {
    const shard = shardOf(message)
    const [row] = await sql<{ channel_id: Snowflake }[]>`
      (SELECT m.channel_id FROM members me JOIN channels c ON c.server_id = me.server_id
          JOIN messages m ON m.channel_id = c.id AND m.id = ${message}
        WHERE me.user_id = ${user} AND (me.server_id >> 12) & 1023 = ${shard} AND NOT m.deleted)
      UNION ALL
      (SELECT m.channel_id FROM direct_channels d JOIN messages m ON m.channel_id = d.id AND m.id = ${message}
        WHERE (d.user_id = ${user} OR d.other_id = ${user}) AND (d.id >> 12) & 1023 = ${shard} AND NOT m.deleted)
      LIMIT 1`
    return row?.channel_id
  },

  /** What users have voted for, by `voteKey`. */
  async votes(keys: readonly { poll: Snowflake; user: Snowflake }[]): Promise<Map<string, readonly Snowflake[]>> {
    const polls = keys.map(({ poll }) => poll),
      users = keys.map(({ user }) => user)
    const rows = await sql<{ poll_id: Snowflake; user_id: Snowflake; option_ids: Snowflake[] }[]>`
      SELECT v.poll_id, v.user_id, v.option_ids::text[] AS option_ids
      FROM unnest(${polls}::bigint[], ${users}::bigint[]) AS k (poll_id, user_id) JOIN poll_votes v USING (poll_id, user_id)`
    return new Map(rows.map(({ poll_id, user_id, option_ids }) => [voteKey(poll_id, user_id), option_ids]))
  },

  /** Open ones whose time is over. `before`: Unix seconds. */
  async due(
    before: number,
    limit: number,
  ): Promise<{ poll_id: Snowflake; channel_id: Snowflake; message_id: Snowflake }[]> {
    return sql<{ poll_id: Snowflake; channel_id: Snowflake; message_id: Snowflake }[]>`
      SELECT id AS poll_id, channel_id, message_id FROM polls WHERE ends_at <= ${before} ORDER BY ends_at LIMIT ${limit}`
  },

  async gone(limit: number): Promise<Snowflake[]> {
    const rows = await sql<{ id: Snowflake }[]>`SELECT id FROM polls WHERE gone ORDER BY id LIMIT ${limit}`
    return rows.map(({ id }) => id)
  },

  async isGone(id: Snowflake): Promise<boolean> {
    const rows = await sql`SELECT FROM polls WHERE id = ${id} AND gone`
    return rows.length > 0
  },

  async setGone(id: Snowflake): Promise<void> {
    await sql`UPDATE polls SET gone = true, ends_at = NULL WHERE id = ${id}`
  },

  /** Deletes some of a poll's votes. @returns how many */
  async forgetVotes(id: Snowflake, limit: number): Promise<number> {
    const { count } = await sql`
      DELETE FROM poll_votes WHERE poll_id = ${id} AND user_id = ANY(ARRAY(
        SELECT user_id FROM poll_votes WHERE poll_id = ${id} LIMIT ${limit}))`
    return count
  },

  async forget(id: Snowflake): Promise<void> {
    await sql`DELETE FROM polls WHERE id = ${id} AND gone`
  },
})
