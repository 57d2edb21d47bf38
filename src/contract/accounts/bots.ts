import { z } from "zod"
import { omittable, Snowflake, Success, text } from "../core/fields.ts"
import { limits } from "../core/limits.ts"
import { permissionNames } from "../core/permissions.ts"
import { pictureSummary } from "../core/pictures.ts"
import { defineRoute, FormFile } from "../core/registry.ts"
import { AvatarUpload } from "./avatars.ts"
import { PublicUser } from "./users.ts"

/** Names of a server's permissions. One that means nothing here is refused. */
export const PermissionNames = z
  .array(z.enum(permissionNames).meta({ id: "PermissionName" }))
  .max(permissionNames.length)

const asked = z.array(z.string()).describe("The permissions that the bot asks for in a server that it is added to")

/** A bot as its owner sees it. */
export const Bot = PublicUser.extend({
  owner_id: Snowflake,
  permissions: asked,
  public: z.boolean().describe("Whether others than its owner may add it to their servers"),
  has_token: z.boolean(),
}).meta({ id: "BotResponse" })
export type Bot = z.infer<typeof Bot>

/** A bot as those see it who may add it to a server. */
export const OfferedBot = PublicUser.extend({
  owner: z.object({ id: Snowflake, username: z.string() }),
  permissions: asked,
}).meta({ id: "BotPublicResponse" })
export type OfferedBot = z.infer<typeof OfferedBot>

const token = z.string().describe("Shown this once. Send it as `Authorization: Bot <token>`")
const settings = {
  permissions: omittable(PermissionNames).describe("What the bot asks for in a server. Nobody has granted it yet"),
  public: omittable(z.boolean()).describe("Whether others than the owner may add it to their servers. Default: false"),
}
const username = text(limits.username.min, limits.username.max)
const params = z.object({ bot_id: Snowflake })
const own = { tag: "Bots", auth: "person", params } as const
const nameRefusals = ["invalid_username", "reserved_username", "blocked_username", "user_exists"] as const

export const listBots = defineRoute({
  method: "GET",
  path: "/users/@me/bots",
  summary: "List the caller's bots, the oldest first",
  tag: "Bots",
  auth: "person",
  reply: z.array(Bot),
  fails: [],
})

export const createBot = defineRoute({
  method: "POST",
  path: "/users/@me/bots",
  summary:
    "Create a bot: an account of its own that a program uses. It shares the locks of the caller's account and its end",
  tag: "Bots",
  auth: "person",
  body: z.object({ username, ...settings }).meta({ id: "BotCreateRequest" }),
  example: { username: "weather_bot", permissions: ["messages.read", "messages.send"] },
  reply: Bot.extend({ token }).meta({ id: "BotCreatedResponse" }),
  fails: [...nameRefusals, "bot_limit", "account_deleted"],
})

export const getOwnBot = defineRoute({
  ...own,
  method: "GET",
  path: "/users/@me/bots/:bot_id",
  summary: "Get a bot of the caller",
  reply: Bot,
  fails: ["invalid_id", "bot_not_found"],
})

export const editBot = defineRoute({
  ...own,
  method: "PATCH",
  path: "/users/@me/bots/:bot_id",
  summary: "Change a bot's name or what it asks for. What servers have granted it stays as it is",
  body: z.object({ username: omittable(username), ...settings }).meta({ id: "BotUpdateRequest" }),
  example: { public: true },
  reply: Bot,
  fails: ["invalid_id", "bot_not_found", ...nameRefusals],
})

export const deleteBot = defineRoute({
  ...own,
  method: "DELETE",
  path: "/users/@me/bots/:bot_id",
  summary:
    "Delete a bot for good. Its token ends at once; it leaves its servers, and what it wrote stays, as with any account that is erased",
  reply: Success,
  fails: ["invalid_id", "bot_not_found"],
})

export const resetBotToken = defineRoute({
  ...own,
  method: "POST",
  path: "/users/@me/bots/:bot_id/token",
  summary: "Give a bot a new token. The one before is accepted nowhere any more, and its connections are closed",
  reply: z.object({ token }).meta({ id: "BotTokenResponse" }),
  fails: ["invalid_id", "bot_not_found"],
})

export const putBotAvatar = defineRoute({
  ...own,
  method: "POST",
  path: "/users/@me/bots/:bot_id/avatar",
  summary: `Set a bot's avatar from a file of at most 5 MB. ${pictureSummary}`,
  body: z
    .object({ file: FormFile.describe("A JPEG, PNG, GIF or WebP image. The type is read from the content") })
    .meta({ id: "BotAvatarUploadRequest" }),
  form: { file: { name: "file", bytes: limits.avatarBytes, tooLarge: "file_too_large", isStreamed: true } },
  reply: AvatarUpload,
  fails: ["invalid_id", "bot_not_found", "file_too_large", "invalid_file", "picture_too_large"],
})

export const deleteBotAvatar = defineRoute({
  ...own,
  method: "DELETE",
  path: "/users/@me/bots/:bot_id/avatar",
  summary: "Remove a bot's avatar. No effect if it has none",
  reply: Success,
  fails: ["invalid_id", "bot_not_found"],
})

export const getOfferedBot = defineRoute({
  ...own,
  method: "GET",
  path: "/bots/:bot_id",
  summary:
    "Get a bot that the caller may add to a server, with the permissions that it asks for: their own, or one that its owner has made public",
  reply: OfferedBot,
  fails: ["invalid_id", "bot_not_found"],
})

export const routes = {
  listBots,
  createBot,
  getOwnBot,
  editBot,
  deleteBot,
  resetBotToken,
  putBotAvatar,
  deleteBotAvatar,
  getOfferedBot,
}
