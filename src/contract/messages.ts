import { z } from "zod"
import { omittable, queryInt, Seconds, Snowflake, SnowflakeInput, Success, text } from "./fields.ts"
import { limits } from "./limits.ts"
import { defineEvent, defineRoute } from "./registry.ts"

/** A message. In events it is the same for every recipient: `read` is false and `read_by` empty there. */
export const Message = z
  .object({
    id: Snowflake,
    channel_id: Snowflake,
    server_id: Snowflake.nullable(),
    guild_id: Snowflake.nullable(),
    author_id: Snowflake,
    author_username: z.string(),
    author_avatar_url: z.string().nullable(),
    author_badges: z.array(z.string()),
    webhook_id: Snowflake.optional().describe("Of what a webhook sent: it is the author"),
    content: z.string().nullable(),
    created_at: Seconds,
    edited_at: Seconds.nullable(),
    reply_to_id: Snowflake.nullable(),
    attachments: z.array(z.unknown()),
    embeds: z.array(z.unknown()),
    pinned: z.boolean(),
    status: z.enum(["sent", "delivered", "read"]).nullable(),
    delivery_count: z.int(),
    read_count: z.int(),
    read: z.boolean(),
    read_by: z.array(z.string()),
    reactions: z.array(z.unknown()),
    nonce: z.string().nullable(),
    metadata: z.record(z.string(), z.unknown()).nullable(),
    poll: z.null(),
    poll_results: z.null(),
  })
  .meta({ id: "MessageResponse" })
export type Message = z.infer<typeof Message>

const byChannel = z.object({ channel_id: Snowflake })
const byMessage = z.object({ channel_id: Snowflake, message_id: Snowflake })

export const MessageInput = z
  .object({
    content: omittable(text(0, limits.messageCharacters)),
    reply_to_id: omittable(SnowflakeInput),
    nonce: omittable(text(1, limits.nonceCharacters)).describe(
      "Repeating a nonce in the same channel answers the first message, for ever; so does the header Idempotency-Key",
    ),
  })
  .meta({ id: "MessageCreateRequest" })
export type MessageInput = z.output<typeof MessageInput>

export const createMessage = defineRoute({
  method: "POST",
  path: "/channels/:channel_id/messages",
  summary: "Send a message",
  tag: "Messages",
  auth: "user",
  permission: ["messages.send"],
  params: byChannel,
  body: MessageInput,
  reply: Message,
  fails: [
    "invalid_channel_id",
    "channel_not_found",
    "access_denied",
    "permission_denied",
    "timed_out",
    "empty_message",
    "invalid_content",
    "message_not_found",
    "not_a_text_channel",
    "slowmode",
    "message_blocked",
  ],
})

export const PageQuery = z.object({
  limit: queryInt(1, limits.pageSize).optional(),
  before: Snowflake.optional().describe("Newest first, ids below this one; wins over `after`"),
  after: Snowflake.optional().describe("Oldest first, ids above this one"),
})

export const listMessages = defineRoute({
  method: "GET",
  path: "/channels/:channel_id/messages",
  summary: "A page of history, newest first unless only `after` is given",
  tag: "Messages",
  auth: "user",
  permission: ["messages.read"],
  params: byChannel,
  query: PageQuery,
  reply: z.array(Message),
  fails: ["invalid_channel_id", "channel_not_found", "access_denied", "permission_denied"],
})

export const getMessage = defineRoute({
  method: "GET",
  path: "/channels/:channel_id/messages/:message_id",
  summary: "One message",
  tag: "Messages",
  auth: "user",
  permission: ["messages.read"],
  params: byMessage,
  reply: Message,
  fails: [
    "invalid_channel_id",
    "invalid_message_id",
    "channel_not_found",
    "access_denied",
    "permission_denied",
    "message_not_found",
  ],
})

export const editMessage = defineRoute({
  method: "PATCH",
  path: "/channels/:channel_id/messages/:message_id",
  summary: "Change the content of an own message",
  tag: "Messages",
  auth: "user",
  permission: ["messages.send"],
  params: byMessage,
  body: z.object({ content: text(0, limits.messageCharacters) }).meta({ id: "MessageEditRequest" }),
  reply: Message,
  fails: [
    "invalid_channel_id",
    "invalid_message_id",
    "channel_not_found",
    "access_denied",
    "permission_denied",
    "timed_out",
    "message_not_found",
    "not_author",
    "empty_message",
    "message_blocked",
  ],
})

export const deleteMessage = defineRoute({
  method: "DELETE",
  path: "/channels/:channel_id/messages/:message_id",
  summary: "Delete a message: its author, or whoever may manage messages",
  tag: "Messages",
  auth: "user",
  isAudited: true,
  permission: ["channels.view"],
  params: byMessage,
  reply: Success,
  fails: [
    "invalid_channel_id",
    "invalid_message_id",
    "channel_not_found",
    "access_denied",
    "message_not_found",
    "cannot_delete_message",
  ],
})

export const routes = { createMessage, listMessages, getMessage, editMessage, deleteMessage }

const messageIntent = { server: "GUILD_MESSAGES", dm: "DIRECT_MESSAGES" } as const

export const messageCreate = defineEvent({
  name: "MESSAGE_CREATE",
  intent: messageIntent,
  delivery: "stored",
  summary: "A message was sent",
  data: Message,
})
export const messageUpdate = defineEvent({
  name: "MESSAGE_UPDATE",
  intent: messageIntent,
  delivery: "stored",
  summary: "A message was edited; the whole message",
  data: Message,
})
export const messageDelete = defineEvent({
  name: "MESSAGE_DELETE",
  intent: messageIntent,
  delivery: "stored",
  summary: "A message was deleted",
  data: z.object({
    id: Snowflake,
    channel_id: Snowflake,
    server_id: Snowflake.nullable(),
    guild_id: Snowflake.nullable(),
    automod: z.literal(true).optional().describe("Present: auto-moderation did it"),
  }),
})
export const messageDeleteBulk = defineEvent({
  name: "MESSAGE_DELETE_BULK",
  intent: messageIntent,
  delivery: "stored",
  summary: "Messages were deleted together",
  data: z.object({
    ids: z.array(Snowflake),
    channel_id: Snowflake,
    server_id: Snowflake.nullable(),
    guild_id: Snowflake.nullable(),
  }),
})
