import { z } from "zod"
import { AttachmentInputs, AttachmentMetadata } from "./attachments.ts"
import { Embeds } from "./embeds.ts"
import { sample } from "../core/examples.ts"
import { omittable, queryInt, Seconds, Snowflake, SnowflakeInput, Success, text } from "../core/fields.ts"
import { limits } from "../core/limits.ts"
import { Poll, PollInput, PollResults } from "./polls.ts"
import { defineEvent, defineRoute } from "../core/registry.ts"

export const auditActions = ["MESSAGE_DELETE", "MESSAGE_BULK_DELETE"] as const

const Thumbnails = z.object({ "64": z.string(), "128": z.string(), "256": z.string(), "512": z.string() })

export const Attachment = z
  .object({
    id: Snowflake,
    filename: z.string(),
    content_type: z.string(),
    size: z.int().nonnegative().describe("Bytes"),
    url: z.string().describe("A signed path on this server. It gives access to the file for a day"),
    hash: z.string().nullable().describe("SHA-256 of the file, in hex"),
    metadata: AttachmentMetadata.nullable().describe("As its sender gave it, for voice messages"),
    width: z.int().nullable().describe("Pixels of a picture as it is shown. Null until the thumbnails are ready"),
    height: z.int().nullable(),
    thumbhash: z
      .string()
      .nullable()
      .describe(
        "A ThumbHash in base64: about 25 bytes that a client can draw in the picture's place until it is there",
      ),
    thumbnails: Thumbnails.nullable().describe(
      "Signed paths of WebP pictures that fit into 64, 128, 256 and 512 pixels. Null for other files, and until they are ready: then MESSAGE_UPDATE has them",
    ),
  })
  .meta({ id: "AttachmentResponse" })
export type Attachment = z.infer<typeof Attachment>

export const Reaction = z
  .object({
    emoji: z.string().describe("As the first user wrote it"),
    count: z.int().positive(),
    me: z.boolean().describe("Whether the caller reacted with it. False in events"),
    url: z.string().nullable().describe("Only for custom emoji"),
    is_custom: z.boolean(),
    custom_emoji_id: Snowflake.nullable(),
  })
  .meta({ id: "ReactionResponse" })
export type Reaction = z.infer<typeof Reaction>

/**
 * A message. In events it is the same for every recipient: `read` is false and `read_by` empty
 * there.
 */
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
    author_bot: z
      .boolean()
      .describe("Whether a bot sent it. False for messages of webhooks, which have a `webhook_id`"),
    webhook_id: Snowflake.optional().describe("Only for messages of webhooks: the webhook is the author"),
    content: z.string().nullable(),
    created_at: Seconds,
    edited_at: Seconds.nullable(),
    reply_to_id: Snowflake.nullable(),
    attachments: z.array(Attachment),
    embeds: z.array(z.unknown()),
    pinned: z.boolean(),
    status: z.enum(["sent", "delivered", "read"]).nullable(),
    delivery_count: z.int(),
    read_count: z.int(),
    read: z.boolean(),
    read_by: z
      .array(z.string())
      .describe(
        `For the author: names of up to ${limits.readersNamed.toLocaleString("en")} readers, the furthest first`,
      ),
    reactions: z.array(Reaction),
    nonce: z.string().nullable(),
    metadata: z.record(z.string(), z.unknown()).nullable(),
    poll: Poll.nullable(),
    poll_results: PollResults.nullable(),
  })
  .meta({ id: "MessageResponse" })
export type Message = z.infer<typeof Message>

const byChannel = z.object({ channel_id: Snowflake })
const byMessage = z.object({ channel_id: Snowflake, message_id: Snowflake })

export const MessageInput = z
  .object({
    content: omittable(text(0, limits.messageCharacters)),
    reply_to_id: omittable(SnowflakeInput),
    attachments: omittable(AttachmentInputs),
    embeds: omittable(Embeds),
    poll: omittable(PollInput),
    nonce: omittable(text(0, limits.nonceCharacters))
      .transform(nonce => (nonce === "" ? undefined : nonce))
      .describe(
        "A request that repeats a nonce in the same channel returns the first message in its current state, at any time, and without content if it was deleted. The header Idempotency-Key does the same and is used if there is no nonce",
      ),
  })
  .meta({ id: "MessageCreateRequest" })
export type MessageInput = z.output<typeof MessageInput>

export const createMessage = defineRoute({
  method: "POST",
  path: "/channels/:channel_id/messages",
  summary:
    "Send a message: text, files that were uploaded before, embeds or a poll. When the response arrives it is stored; members receive MESSAGE_CREATE. A request that repeats the `nonce` returns the first message",
  tag: "Messages",
  auth: "user",
  permission: ["messages.send"],
  params: byChannel,
  body: MessageInput,
  example: { content: "Hello!", nonce: "1f9c0b" },
  reply: Message,
  fails: [
    "invalid_channel_id",
    "channel_not_found",
    "access_denied",
    "permission_denied",
    "timed_out",
    "cannot_message",
    "empty_message",
    "invalid_content",
    "too_many_attachments",
    "invalid_attachment",
    "too_many_embeds",
    "message_not_found",
    "not_a_text_channel",
    "slowmode",
    "message_blocked",
  ],
})

export const PageQuery = z.object({
  limit: queryInt(1, limits.pageSize).optional(),
  before: Snowflake.optional().describe("Messages with lower ids, newest first. Wins over `after`"),
  after: Snowflake.optional().describe("Messages with higher ids, oldest first"),
  around: Snowflake.optional().describe(
    "This message and messages around it, newest first: up to half of the rest of `limit` above it, the others below it. Wins over `before` and `after`",
  ),
})

export const listMessages = defineRoute({
  method: "GET",
  path: "/channels/:channel_id/messages",
  summary: `List messages of a channel, newest first unless only \`after\` is given. A page that would exceed ${limits.messagesPageBytes.toLocaleString("en")} bytes ends early, after one message at least: then the header X-Next-Cursor has the id of its last message, to go on with as \`before\` (or \`after\`)`,
  tag: "Messages",
  auth: "user",
  permission: ["messages.read"],
  params: byChannel,
  query: PageQuery,
  hasNextCursor: true,
  reply: z.array(Message),
  fails: ["invalid_channel_id", "channel_not_found", "access_denied", "permission_denied"],
})

export const getMessage = defineRoute({
  method: "GET",
  path: "/channels/:channel_id/messages/:message_id",
  summary: "Get a message",
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
  summary: "Edit one's own message. Members receive MESSAGE_UPDATE",
  tag: "Messages",
  auth: "user",
  openTo: "its author, with `messages.send`",
  permission: ["messages.send"],
  params: byMessage,
  body: z.object({ content: text(0, limits.messageCharacters) }).meta({ id: "MessageEditRequest" }),
  example: { content: "Hello, everybody!" },
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
    "cannot_message",
    "empty_message",
    "invalid_content",
    "message_blocked",
  ],
})

export const deleteMessage = defineRoute({
  method: "DELETE",
  path: "/channels/:channel_id/messages/:message_id",
  summary: "Delete a message: one's own, or any with `messages.manage`",
  tag: "Messages",
  auth: "user",
  openTo: "its author, or `messages.manage`",
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

export const bulkDeleteMessages = defineRoute({
  method: "POST",
  path: "/channels/:channel_id/messages/bulk-delete",
  summary: "Delete several messages. Ids of unknown messages are ignored",
  tag: "Messages",
  auth: "user",
  isAudited: true,
  permission: ["messages.manage"],
  params: byChannel,
  body: z
    .object({
      messages: z.array(SnowflakeInput).min(limits.messagesPerDeletion.min).max(limits.messagesPerDeletion.max),
    })
    .meta({ id: "MessageBulkDeleteRequest" }),
  example: { messages: [sample.message, "41771983431532547"] },
  reply: z.object({ success: z.literal(true), deleted: z.int().nonnegative() }).meta({ id: "BulkDeleteResponse" }),
  fails: ["invalid_channel_id", "channel_not_found", "access_denied", "permission_denied"],
})

export const routes = { createMessage, listMessages, getMessage, editMessage, deleteMessage, bulkDeleteMessages }

const messageIntent = { server: "GUILD_MESSAGES", dm: "DIRECT_MESSAGES" } as const

export const messageCreate = defineEvent({
  name: "MESSAGE_CREATE",
  intent: messageIntent,
  delivery: "stored",
  summary: "A message was sent",
  data: Message,
  about: ({ channel_id, id }) => [channel_id, id],
})
export const messageUpdate = defineEvent({
  name: "MESSAGE_UPDATE",
  intent: messageIntent,
  delivery: "stored",
  summary: "A message, its pin, its poll or the thumbnails of its attachments changed. The event has the whole message",
  data: Message,
  about: ({ channel_id, id }) => [channel_id, id],
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
    automod: z.literal(true).optional().describe("Present if auto-moderation deleted the message"),
  }),
  about: ({ channel_id, id }) => [channel_id, id],
})
export const messageDeleteBulk = defineEvent({
  name: "MESSAGE_DELETE_BULK",
  intent: messageIntent,
  delivery: "stored",
  summary: "Several messages were deleted",
  data: z.object({
    ids: z.array(Snowflake),
    channel_id: Snowflake,
    server_id: Snowflake.nullable(),
    guild_id: Snowflake.nullable(),
  }),
  about: ({ channel_id, ids }) => [channel_id, ...ids],
})
