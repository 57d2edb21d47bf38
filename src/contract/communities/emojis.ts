import { z } from "zod"
import { omittable, Snowflake, Success } from "../core/fields.ts"
import { limits } from "../core/limits.ts"
import { Content, defineEvent, defineRoute, FormFile } from "../core/registry.ts"

export const Emoji = z
  .object({
    id: Snowflake,
    server_id: Snowflake,
    name: z.string(),
    animated: z.boolean(),
    url: z.string().describe("URL of the image"),
    available: z.boolean(),
    created_by: Snowflake,
    uploader_username: z.string().nullable().describe("Name of the user `created_by`. Null in events"),
    created_at: z.int().describe("Unix time in milliseconds"),
  })
  .meta({ id: "EmojiResponse" })
export type Emoji = z.infer<typeof Emoji>

export const EmojiCounts = z
  .object({ static: z.int(), animated: z.int(), max_static: z.int(), max_animated: z.int() })
  .meta({ id: "EmojiCountsResponse" })
export type EmojiCounts = z.infer<typeof EmojiCounts>

/** Where an emoji's picture is served; its bytes never change. */
export const emojiPath = (id: Snowflake) => `/api/v1/media/emojis/${id}`

const Name = z
  .string()
  .max(200)
  .describe(
    "2 to 32 characters of `a` to `z`, `0` to `9` and `_`, after surrounding spaces are removed and letters are lowercased. Anything else is refused with 400",
  )

const byServer = z.object({ server_id: Snowflake })
const byEmoji = z.object({ server_id: Snowflake, emoji_id: Snowflake })
const manages = ["emojis.manage", "server.manage"] as const

export const listEmojis = defineRoute({
  method: "GET",
  path: "/servers/:server_id/emojis",
  summary: "List the emoji of a server, by name",
  tag: "Emojis",
  auth: "user",
  permission: "member",
  params: byServer,
  reply: z.array(Emoji),
  fails: ["invalid_server_id", "server_not_found", "access_denied"],
})

export const countEmojis = defineRoute({
  method: "GET",
  path: "/servers/:server_id/emojis/counts",
  summary: "Get the number of emoji in a server and the maximum",
  tag: "Emojis",
  auth: "user",
  permission: "member",
  params: byServer,
  reply: EmojiCounts,
  fails: ["invalid_server_id", "server_not_found", "access_denied"],
})

export const getEmoji = defineRoute({
  method: "GET",
  path: "/servers/:server_id/emojis/:emoji_id",
  summary: "Get one emoji of a server",
  tag: "Emojis",
  auth: "user",
  permission: "member",
  params: byEmoji,
  reply: Emoji,
  fails: ["invalid_server_id", "invalid_emoji_id", "server_not_found", "access_denied", "emoji_not_found"],
})

export const createEmoji = defineRoute({
  method: "POST",
  path: "/servers/:server_id/emojis",
  summary:
    "Add an emoji: a PNG, GIF or WebP image of at most 256 KB and 1024 × 1024 pixels. The type is read from the content; the image is re-encoded, so its metadata is removed",
  tag: "Emojis",
  auth: "user",
  isAudited: true,
  permission: manages,
  params: byServer,
  body: z.object({ name: Name, image: FormFile }).meta({ id: "EmojiCreateRequest" }),
  form: { file: { name: "image", bytes: limits.emojiBytes, tooLarge: "file_too_large" } },
  example: { name: "party" },
  reply: Emoji,
  fails: [
    "invalid_server_id",
    "server_not_found",
    "access_denied",
    "permission_denied",
    "invalid_emoji_name",
    "file_too_large",
    "invalid_file",
    "picture_too_large",
    "emoji_exists",
    "emoji_limit",
  ],
})

export const renameEmoji = defineRoute({
  method: "PATCH",
  path: "/servers/:server_id/emojis/:emoji_id",
  summary: "Rename an emoji",
  tag: "Emojis",
  auth: "user",
  isAudited: true,
  permission: manages,
  params: byEmoji,
  body: z.object({ name: omittable(Name) }).meta({ id: "EmojiUpdateRequest" }),
  example: { name: "celebrate" },
  reply: Emoji,
  fails: [
    "invalid_server_id",
    "invalid_emoji_id",
    "server_not_found",
    "access_denied",
    "permission_denied",
    "emoji_not_found",
    "invalid_emoji_name",
    "emoji_exists",
  ],
})

export const deleteEmoji = defineRoute({
  method: "DELETE",
  path: "/servers/:server_id/emojis/:emoji_id",
  summary: "Delete an emoji and its image",
  tag: "Emojis",
  auth: "user",
  isAudited: true,
  permission: manages,
  params: byEmoji,
  reply: Success,
  fails: [
    "invalid_server_id",
    "invalid_emoji_id",
    "server_not_found",
    "access_denied",
    "permission_denied",
    "emoji_not_found",
  ],
})

export const getEmojiPicture = defineRoute({
  method: "GET",
  path: "/media/emojis/:emoji_id",
  summary: "Get the image of an emoji. No authentication; the response never changes",
  tag: "Emojis",
  auth: "public",
  isGated: false,
  isForAnyOrigin: true,
  params: z.object({ emoji_id: Snowflake }),
  produces: ["image/png", "image/gif", "image/webp"],
  reply: Content,
  fails: ["invalid_emoji_id", "emoji_not_found"],
})

export const routes = {
  listEmojis,
  countEmojis,
  getEmoji,
  createEmoji,
  renameEmoji,
  deleteEmoji,
  getEmojiPicture,
}

export const guildEmojisUpdate = defineEvent({
  name: "GUILD_EMOJIS_UPDATE",
  intent: "GUILD_EMOJIS",
  delivery: "stored",
  summary:
    "An emoji was added, renamed or deleted. The event has the whole list that changed: all emojis of the server, by name",
  data: z.object({ guild_id: Snowflake, server_id: Snowflake, emojis: z.array(Emoji) }),
})
