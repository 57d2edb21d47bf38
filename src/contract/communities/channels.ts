import { z } from "zod"
import { sample } from "../core/examples.ts"
import { omittable, Seconds, Snowflake, SnowflakeInput, Success, text, nameText } from "../core/fields.ts"
import { limits } from "../core/limits.ts"
import { defineEvent, defineRoute } from "../core/registry.ts"
import { PublicUser } from "../accounts/users.ts"

export const ChannelType = z.enum(["text", "voice", "category", "announcement", "stage"])
export type ChannelType = z.infer<typeof ChannelType>

/**
 * Both `type` and `channel_type` name the kind, for clients that read either. `server_id` is "0"
 * for conversations outside servers.
 */
export const Channel = z
  .object({
    id: Snowflake,
    server_id: Snowflake,
    guild_id: Snowflake,
    name: z.string(),
    type: z.string(),
    channel_type: z.string(),
    topic: z.string().nullable(),
    position: z.int().nonnegative(),
    category_id: Snowflake.nullable(),
    nsfw: z.boolean(),
    slowmode_seconds: z.int(),
    read_receipts_enabled: z.boolean(),
    user_limit: z.int().describe("Maximum number of users in a voice channel. 0: no limit"),
    bitrate: z.int().describe("Bit rate of a voice channel, in bits per second"),
    created_at: Seconds,
    recipient_id: Snowflake.nullable(),
    recipient: PublicUser.nullable(),
  })
  .meta({ id: "ChannelResponse" })
export type Channel = z.infer<typeof Channel>

const byServer = z.object({ server_id: Snowflake })
const byChannel = z.object({ channel_id: Snowflake })

export const listChannels = defineRoute({
  method: "GET",
  path: "/servers/:server_id/channels",
  summary: "List the channels of a server that the caller may view, by position, then id",
  tag: "Channels",
  auth: "user",
  permission: "member",
  params: byServer,
  reply: z.array(Channel),
  fails: ["invalid_server_id", "server_not_found", "access_denied"],
})

const Name = z
  .string()
  .transform(name => name.trim())
  .pipe(nameText(limits.channelName.min, limits.channelName.max))

/** What can be said of a channel from its beginning to its end. */
const settings = {
  topic: omittable(text(0, limits.channelTopic)).describe("Empty string: none"),
  nsfw: omittable(z.boolean()),
  slowmode_seconds: omittable(z.int().min(0).max(limits.slowmodeSeconds)),
  read_receipts_enabled: omittable(z.boolean()),
  user_limit: omittable(z.int().min(0).max(limits.usersInVoiceChannel)).describe(
    "Only for voice and stage channels. 0: no limit",
  ),
  bitrate: omittable(z.int().min(limits.bitrate.min).max(limits.bitrate.max)).describe(
    "Only for voice and stage channels",
  ),
}

export const ChannelInput = z
  .object({
    name: Name,
    type: omittable(ChannelType),
    channel_type: omittable(ChannelType).describe("Alias of `type`. If both are given, `type` counts"),
    category_id: omittable(SnowflakeInput).describe("A category of the server. Categories have no parent"),
    ...settings,
  })
  .meta({ id: "ChannelCreateRequest" })
export type ChannelInput = z.output<typeof ChannelInput>

export const createChannel = defineRoute({
  method: "POST",
  path: "/servers/:server_id/channels",
  summary: "Create a channel at the end of the server's channel list",
  tag: "Channels",
  auth: "user",
  isAudited: true,
  permission: ["channels.manage"],
  params: byServer,
  body: ChannelInput,
  example: { name: "compilers", type: "text", topic: "Anything goes" },
  reply: Channel,
  fails: [
    "invalid_server_id",
    "server_not_found",
    "access_denied",
    "permission_denied",
    "invalid_category",
    "channel_limit",
  ],
})

export const getChannel = defineRoute({
  method: "GET",
  path: "/channels/:channel_id",
  summary: "Get a channel",
  tag: "Channels",
  auth: "user",
  permission: ["channels.view"],
  params: byChannel,
  reply: Channel,
  fails: ["invalid_channel_id", "channel_not_found", "access_denied"],
})

const Position = z.int().min(0).max(limits.channelPosition)
const Category = SnowflakeInput.describe('A category of the server. `"0"`: no category')

export const ChannelPatch = z
  .object({
    name: omittable(Name),
    position: omittable(Position).describe("Stored as sent. Lists sort by position, then id"),
    category_id: omittable(Category),
    ...settings,
  })
  .meta({ id: "ChannelUpdateRequest" })
export type ChannelPatch = z.output<typeof ChannelPatch>

export const editChannel = defineRoute({
  method: "PATCH",
  path: "/channels/:channel_id",
  summary:
    "Change a channel. Omitted fields stay unchanged. To change `position`, the permission is required in the server, not only in this channel",
  tag: "Channels",
  auth: "user",
  isAudited: true,
  permission: ["channels.manage"],
  params: byChannel,
  body: ChannelPatch,
  example: { topic: "Anything goes" },
  reply: Channel,
  fails: ["invalid_channel_id", "channel_not_found", "access_denied", "permission_denied", "invalid_category"],
})

export const deleteChannel = defineRoute({
  method: "DELETE",
  path: "/channels/:channel_id",
  summary: "Delete a channel and its messages. Channels in a deleted category stay, without a category",
  tag: "Channels",
  auth: "user",
  isAudited: true,
  permission: ["channels.manage"],
  params: byChannel,
  reply: Success,
  fails: ["invalid_channel_id", "channel_not_found", "access_denied", "permission_denied"],
})

export const ChannelMoves = z
  .object({
    channels: z
      .array(
        z.object({
          id: SnowflakeInput,
          position: omittable(Position).describe("Stored as sent. Lists sort by position, then id"),
          category_id: omittable(Category),
        }),
      )
      .min(1)
      .max(limits.channelsPerServer)
      .refine(moves => new Set(moves.map(({ id }) => id)).size === moves.length, "must name a channel once"),
  })
  .meta({ id: "ChannelMovesRequest" })
export type ChannelMoves = z.output<typeof ChannelMoves>

export const reorderChannels = defineRoute({
  method: "PATCH",
  path: "/servers/:server_id/channels",
  summary:
    "Change positions and categories of channels, all of them or none. Other channels stay unchanged. The response is the new list",
  tag: "Channels",
  auth: "user",
  isAudited: true,
  permission: ["channels.manage"],
  params: byServer,
  body: ChannelMoves,
  example: { channels: [{ id: sample.channel, position: 1 }] },
  reply: z.array(Channel),
  fails: [
    "invalid_server_id",
    "server_not_found",
    "channel_not_found",
    "access_denied",
    "permission_denied",
    "invalid_category",
  ],
})

export const startTyping = defineRoute({
  method: "POST",
  path: "/channels/:channel_id/typing",
  summary: "Show that the caller is typing, for 10 seconds",
  tag: "Channels",
  auth: "user",
  permission: ["channels.view"],
  params: byChannel,
  reply: Success,
  fails: ["invalid_channel_id", "channel_not_found", "access_denied"],
})

export const routes = {
  listChannels,
  createChannel,
  reorderChannels,
  getChannel,
  editChannel,
  deleteChannel,
  startTyping,
}

export const channelCreate = defineEvent({
  name: "CHANNEL_CREATE",
  intent: { server: "GUILDS", dm: null },
  delivery: "stored",
  summary: "A channel was created, or the user may view it from now on. Also sent when a DM is opened by either user",
  data: Channel.extend({
    last_message_id: Snowflake.nullable().optional().describe("Only in DMs"),
    last_message_at: Seconds.nullable().optional().describe("Only for the notes channel"),
  }),
})

export const channelUpdate = defineEvent({
  name: "CHANNEL_UPDATE",
  intent: { server: "GUILDS", dm: null },
  delivery: "stored",
  summary: "A channel or its permission overrides changed. Sent to everybody who may view the channel",
  data: Channel,
})

export const channelDelete = defineEvent({
  name: "CHANNEL_DELETE",
  intent: { server: "GUILDS", dm: null },
  delivery: "stored",
  summary: "A channel was deleted, or the user may no longer view it",
  data: z.object({ id: Snowflake, server_id: Snowflake, guild_id: Snowflake }),
})

export const typingStart = defineEvent({
  name: "TYPING_START",
  intent: { server: "GUILD_MESSAGE_TYPING", dm: "DIRECT_MESSAGE_TYPING" },
  delivery: "ephemeral",
  summary:
    "A user is typing. Sent to everybody who may view the channel, except to that user. A client that is typing repeats the request every 3 seconds at most. A client that receives the event hides the indicator after 7 seconds",
  data: z.object({
    channel_id: Snowflake,
    user_id: Snowflake,
    username: z.string(),
    server_id: Snowflake.nullable(),
    guild_id: Snowflake.nullable(),
  }),
})

export const typingStop = defineEvent({
  name: "TYPING_STOP",
  intent: null,
  delivery: "ephemeral",
  summary: "A user has stopped typing, or their last connection has ended. Sent to everybody who received TYPING_START",
  data: z.object({
    channel_id: Snowflake,
    user_id: Snowflake,
    server_id: Snowflake.nullable(),
    guild_id: Snowflake.nullable(),
  }),
})
