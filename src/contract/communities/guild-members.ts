import { z } from "zod"
import { codePoints, omittable, Seconds, Snowflake, SnowflakeInput } from "../core/fields.ts"
import { limits } from "../core/limits.ts"
import { defineEvent } from "../core/registry.ts"

/** What is looked for or echoed: no more than so many characters, and nothing that is no text. */
const short = (max: number) =>
  z
    .string()
    .refine(
      value => codePoints(value) <= max && !/\p{Surrogate}|\0/u.test(value),
      `must have at most ${max} characters`,
    )

/**
 * `d` of REQUEST_GUILD_MEMBERS (op 8). What is malformed, or not the asker's to see, is not
 * answered.
 */
export const RequestGuildMembers = z
  .object({
    guild_id: omittable(SnowflakeInput),
    server_id: omittable(SnowflakeInput),
    /** Members whose username or nickname begins with this, in any case of letters. */
    query: omittable(short(limits.memberQuery)),
    /** The most members that are sent, of those with the lowest ids; 0 or left out: all. */
    limit: omittable(z.int().nonnegative()),
    /** These members only; `query` and `limit` do not matter then. */
    user_ids: omittable(
      z.preprocess(
        value => (Array.isArray(value) || value === undefined || value === null ? value : [value]),
        z.array(SnowflakeInput).max(limits.memberIdsPerRequest),
      ),
    ),
    /** False leaves `presence` out. */
    presences: omittable(z.boolean()),
    nonce: omittable(short(limits.nonceCharacters)),
  })
  .refine(({ guild_id, server_id }) => guild_id !== undefined || server_id !== undefined, "names no server")

export const GuildMember = z.object({
  user_id: Snowflake,
  username: z.string(),
  nickname: z.string().nullable(),
  avatar_url: z.string().nullable(),
  bot: z.boolean(),
  joined_at: Seconds,
  roles: z.array(Snowflake),
  presence: z.object({ status: z.enum(["online", "idle", "dnd", "offline"]) }).optional(),
})
export type GuildMember = z.infer<typeof GuildMember>

export const guildMembersChunk = defineEvent({
  name: "GUILD_MEMBERS_CHUNK",
  intent: "GUILD_MEMBERS",
  delivery: "ephemeral",
  summary:
    "Up to 1,000 members, ordered by id: one part of the response to REQUEST_GUILD_MEMBERS, for the connection that sent it. Missing parts are not sent again after the connection ends",
  data: z.object({
    guild_id: Snowflake,
    server_id: Snowflake,
    members: z.array(GuildMember),
    chunk_index: z.int(),
    chunk_count: z.int(),
    /** Asked for by id, and no members. */
    not_found: z.array(Snowflake),
    nonce: z.string().optional(),
  }),
})
