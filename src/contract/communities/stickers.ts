import { z } from "zod"
import { sample } from "../core/examples.ts"
import { omittable, queryInt, Snowflake, SnowflakeInput, Success, text, nameText } from "../core/fields.ts"
import { limits } from "../core/limits.ts"
import { Content, defineEvent, defineRoute, FormFile } from "../core/registry.ts"

export const stickerFormats = ["png", "apng", "json"] as const
export const packTypes = ["default", "server", "purchased"] as const

export const Sticker = z
  .object({
    id: Snowflake,
    pack_id: Snowflake,
    name: z.string(),
    format: z.enum(stickerFormats).describe("Taken from the content. `json`: Lottie"),
    tags: z.array(z.string()),
    related_emoji: z.string().nullable(),
    url: z.string().describe("URL of the file"),
    width: z.int().nullable(),
    height: z.int().nullable(),
    available: z.boolean(),
  })
  .meta({ id: "StickerResponse" })
export type Sticker = z.infer<typeof Sticker>

export const StickerPack = z
  .object({
    id: Snowflake,
    name: z.string(),
    description: z.string().nullable(),
    pack_type: z.enum(packTypes),
    server_id: Snowflake.nullable(),
    sticker_count: z.int(),
    stickers: z.array(Sticker),
  })
  .meta({ id: "StickerPackResponse" })
export type StickerPack = z.infer<typeof StickerPack>

/** Where a sticker's file is served; its bytes never change. */
export const stickerPath = (id: Snowflake) => `/api/v1/media/stickers/${id}`

/** Words with commas, as they are kept: small, without blanks around them, each once. */
const Tags = text(0, 500)
  .transform(given => [
    ...new Set(
      given
        .split(",")
        .map(tag => tag.trim().toLowerCase())
        .filter(tag => tag !== ""),
    ),
  ])
  .pipe(z.array(nameText(1, limits.stickerTag)).max(limits.tagsPerSticker))

const byServer = z.object({ server_id: Snowflake })
const bySticker = z.object({ sticker_id: Snowflake })
const manages = ["emojis.manage", "server.manage"] as const

export const listStickers = defineRoute({
  method: "GET",
  path: "/servers/:server_id/stickers",
  summary: "List the sticker packs of a server, oldest first",
  tag: "Stickers",
  auth: "user",
  permission: "member",
  params: byServer,
  reply: z.array(StickerPack),
  fails: ["invalid_server_id", "server_not_found", "access_denied"],
})

export const createSticker = defineRoute({
  method: "POST",
  path: "/servers/:server_id/stickers",
  summary:
    "Add a sticker: a PNG, APNG or Lottie file of at most 512 KB. An image is re-encoded, so its metadata is removed. If all packs are full, a new one is created",
  tag: "Stickers",
  auth: "user",
  isAudited: true,
  permission: manages,
  params: byServer,
  body: z
    .object({
      name: nameText(limits.stickerName.min, limits.stickerName.max),
      image: FormFile,
      tags: omittable(Tags).describe("Comma-separated words by which it is suggested"),
    })
    .meta({ id: "StickerCreateRequest" }),
  form: { file: { name: "image", bytes: limits.stickerBytes, tooLarge: "file_too_large" } },
  example: { name: "wave", tags: "hello,greeting" },
  reply: Sticker,
  fails: [
    "invalid_server_id",
    "server_not_found",
    "access_denied",
    "permission_denied",
    "file_too_large",
    "invalid_file",
    "picture_too_large",
    "sticker_limit",
  ],
})

export const deleteSticker = defineRoute({
  method: "DELETE",
  path: "/stickers/:sticker_id",
  summary: "Delete a sticker and its file. An empty pack is deleted too",
  tag: "Stickers",
  auth: "user",
  isAudited: true,
  permission: manages,
  params: bySticker,
  reply: Success,
  fails: ["invalid_id", "sticker_not_found", "access_denied", "permission_denied"],
})

export const sendSticker = defineRoute({
  method: "POST",
  path: "/stickers/:sticker_id/send",
  summary:
    "Count a use of a sticker in the caller's message. A message carries a sticker as its text, `<sticker:name:id>` with letters, digits and `_` in the name; the page at /app shows such a message as the sticker. This is a hint that orders suggestions; duplicate requests are not detected",
  tag: "Stickers",
  auth: "user",
  params: bySticker,
  body: z.object({ message_id: SnowflakeInput }).meta({ id: "StickerSendRequest" }),
  form: {},
  example: { message_id: sample.message },
  reply: z.object({
    success: z
      .boolean()
      .describe("False: the sticker or the message does not exist, or the message is not the caller's"),
  }),
  fails: ["invalid_id"],
})

export const suggestStickers = defineRoute({
  method: "GET",
  path: "/stickers/suggestions",
  summary: `Suggest stickers from the caller's servers whose name or tags match a text, most used first. In each server the ${limits.stickersLookedUp} most used stickers are considered, unless \`server_id\` is given`,
  tag: "Stickers",
  auth: "user",
  query: z.object({
    content: text(0, limits.messageCharacters).default(""),
    server_id: omittable(Snowflake).describe("Only stickers of this server"),
    limit: queryInt(1, 20).default(5),
  }),
  reply: z.array(Sticker),
  fails: [],
})

export const getStickerFile = defineRoute({
  method: "GET",
  path: "/media/stickers/:sticker_id",
  summary: "Get the file of a sticker. No authentication; the response never changes",
  tag: "Stickers",
  auth: "public",
  isGated: false,
  isForAnyOrigin: true,
  params: bySticker,
  produces: ["image/png", "application/json"],
  reply: Content,
  fails: ["invalid_id", "sticker_not_found"],
})

export const routes = { listStickers, createSticker, deleteSticker, sendSticker, suggestStickers, getStickerFile }

export const guildStickersUpdate = defineEvent({
  name: "GUILD_STICKERS_UPDATE",
  intent: "GUILD_EMOJIS",
  delivery: "stored",
  summary:
    "A sticker was added or deleted. The event has the whole list that changed: the pack with all its stickers. A pack without stickers is deleted",
  data: z.object({
    guild_id: Snowflake,
    server_id: Snowflake,
    sticker_packs: z.array(StickerPack).describe("Only the changed packs. A new pack comes after all others"),
  }),
})
