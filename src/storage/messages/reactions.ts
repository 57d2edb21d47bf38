import type { Snowflake } from "../../contract/core/fields.ts"
import type { Reactor } from "../../contract/messages/reactions.ts"
import type { ReactionTally } from "../../domain/messages/reactions.ts"
import type { PersonalData } from "../../domain/core/personal-data.ts"
import type { Sql } from "../core/database.ts"
import { column, defineWrite, lastOf } from "../core/write.ts"

export const personalData: PersonalData = {
  personal: {
    reactors: {
      userColumns: ["user_id"],
      key: { channel_id: "bigint", message_id: "bigint", emoji: "text", user_id: "bigint" },
      given: ["channel_id", "message_id", "emoji", "user_id", "reacted_at"],
      atPurge: "erased",
    },
  },
}

export interface ReactionRow {
  channel_id: Snowflake
  message_id: Snowflake
  /** See `emojiKey`. */
  emoji: string
  user_id: Snowflake
  /** Unix seconds; null: the user takes it back. */
  reacted_at: number | null
  /** All that the message has from then on. */
  reactions: readonly Readonly<ReactionTally>[]
}

/**
 * What one user does with one emoji, and what the message's tallies have become: the last of a
 * batch is what counts of both.
 */
export const putReaction = defineWrite<ReactionRow>("putReaction", (sql, rows) => {
  const reactors = lastOf(rows, row => `${row.channel_id}:${row.message_id}:${row.user_id}:${row.emoji}`)
  const messages = lastOf(rows, row => `${row.channel_id}:${row.message_id}`)
  return sql`
    WITH t AS MATERIALIZED (
      SELECT * FROM unnest(${column(reactors, "channel_id")}::bigint[], ${column(reactors, "message_id")}::bigint[], ${column(reactors, "emoji")}::text[],
        ${column(reactors, "user_id")}::bigint[], ${column(reactors, "reacted_at")}::bigint[]) AS t (channel_id, message_id, emoji, user_id, reacted_at)),
    gone AS (
      DELETE FROM reactors r USING t WHERE t.reacted_at IS NULL
        AND r.channel_id = t.channel_id AND r.message_id = t.message_id AND r.emoji = t.emoji AND r.user_id = t.user_id),
    come AS (
      INSERT INTO reactors (channel_id, message_id, emoji, user_id, reacted_at) SELECT * FROM t WHERE reacted_at IS NOT NULL
      ON CONFLICT (channel_id, message_id, emoji, user_id) DO UPDATE SET reacted_at = excluded.reacted_at)
    UPDATE messages SET reactions = m.reactions::json
    FROM unnest(${column(messages, "channel_id")}::bigint[], ${column(messages, "message_id")}::bigint[],
      ${messages.map(row => (row.reactions.length === 0 ? null : JSON.stringify(row.reactions))) as string[]}::text[]) AS m (channel_id, id, reactions)
    WHERE messages.channel_id = m.channel_id AND messages.id = m.id`
})

/** Who reacted to messages that are gone. */
export const deleteReactors = defineWrite<{ channel_id: Snowflake; message_id: Snowflake }>(
  "deleteReactors",
  (sql, rows) => sql`
    DELETE FROM reactors r USING unnest(${column(rows, "channel_id")}::bigint[], ${column(rows, "message_id")}::bigint[]) AS t (channel_id, message_id)
    WHERE r.channel_id = t.channel_id AND r.message_id = t.message_id`,
)

/** Key of "has this user used this emoji on this message" among the facts of its home. */
export const reactorKey = (channel: Snowflake, message: Snowflake, user: Snowflake, emoji: string) =>
  `${channel}:${message}:${user}:${emoji}`

/** A reaction of somebody's; the next ones come after it. */
export type ReactionPlace = Pick<ReactionRow, "channel_id" | "message_id" | "emoji">

type ReactionUse = ReactionPlace & Pick<ReactionRow, "user_id">

export type MessagePlace = Pick<ReactionRow, "channel_id" | "message_id">

export const reactionsStorage = (sql: Sql) => ({
  /** Those of these reactions that are there. */
  async among(uses: readonly ReactionUse[]): Promise<ReactionUse[]> {
    return sql<ReactionUse[]>`
      SELECT r.channel_id, r.message_id, r.emoji, r.user_id
      FROM unnest(${uses.map(one => one.channel_id)}::bigint[], ${uses.map(one => one.message_id)}::bigint[],
        ${uses.map(one => one.emoji)}::text[], ${uses.map(one => one.user_id)}::bigint[]) AS k (channel_id, message_id, emoji, user_id)
      JOIN reactors r ON r.channel_id = k.channel_id AND r.message_id = k.message_id AND r.emoji = k.emoji AND r.user_id = k.user_id`
  },

  /**
   * Which emoji a user used, of those that messages of a channel have: one look into the index for
   * each.
   */
  async ownIn(
    channel: Snowflake,
    user: Snowflake,
    used: readonly { message_id: Snowflake; emoji: string }[],
  ): Promise<{ message_id: Snowflake; emoji: string }[]> {
    return sql<{ message_id: Snowflake; emoji: string }[]>`
      SELECT r.message_id, r.emoji FROM unnest(${used.map(one => one.message_id)}::bigint[], ${used.map(one => one.emoji)}::text[]) AS k (message_id, emoji)
      JOIN reactors r ON r.channel_id = ${channel} AND r.message_id = k.message_id AND r.emoji = k.emoji AND r.user_id = ${user}`
  },

  async reactors(
    place: ReactionPlace,
    { after = "0", limit }: { after?: Snowflake | undefined; limit: number },
  ): Promise<Reactor[]> {
    return sql<Reactor[]>`
      SELECT user_id, reacted_at FROM reactors
      WHERE channel_id = ${place.channel_id} AND message_id = ${place.message_id} AND emoji = ${place.emoji} AND user_id > ${after}
      ORDER BY user_id LIMIT ${limit}`
  },

  /** What somebody reacted to, in the order of channels. */
  async ofUser(user: Snowflake, after: ReactionPlace, limit: number): Promise<ReactionPlace[]> {
    return sql<ReactionPlace[]>`
      SELECT channel_id, message_id, emoji FROM reactors
      WHERE user_id = ${user} AND (channel_id, message_id, emoji) > (${after.channel_id}::bigint, ${after.message_id}::bigint, ${after.emoji}::text)
      ORDER BY channel_id, message_id, emoji LIMIT ${limit}`
  },

  /**
   * The next messages that reactions name, in the order of channels, and whether they are gone:
   * each is one look into an index.
   */
  async named(after: MessagePlace, limit: number): Promise<(MessagePlace & { is_gone: boolean })[]> {
    return sql<(MessagePlace & { is_gone: boolean })[]>`
      WITH RECURSIVE named (channel_id, message_id, place) AS (
        (SELECT channel_id, message_id, 1 FROM reactors
          WHERE (channel_id, message_id) > (${after.channel_id}::bigint, ${after.message_id}::bigint) ORDER BY channel_id, message_id LIMIT 1)
        UNION ALL
        SELECT following.channel_id, following.message_id, place + 1
        FROM named, LATERAL (SELECT channel_id, message_id FROM reactors r
          WHERE (r.channel_id, r.message_id) > (named.channel_id, named.message_id) ORDER BY channel_id, message_id LIMIT 1) AS following
        WHERE place < ${limit})
      SELECT channel_id, message_id,
        NOT EXISTS (SELECT FROM messages m WHERE m.channel_id = named.channel_id AND m.id = named.message_id AND NOT m.deleted) AS is_gone
      FROM named ORDER BY place`
  },

  /**
   * Deletes some of who reacted to a message that is gone, or to all of a channel that is. @returns
   * how many rows
   */
  async purge(channels: readonly Snowflake[], message: Snowflake | null, limit: number): Promise<number> {
    const { count } = await sql`
      DELETE FROM reactors WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM reactors WHERE channel_id = ANY(${[...channels]}::bigint[])
          ${message === null ? sql`` : sql`AND message_id = ${message}`} LIMIT ${limit}))`
    return count
  },
})
