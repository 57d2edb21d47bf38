import { z } from "zod"
import { Snowflake, Success } from "./fields.ts"
import { limits } from "./limits.ts"
import { defineEvent, defineRoute } from "./registry.ts"

const byChannel = z.object({ channel_id: Snowflake })

export const ackMessages = defineRoute({
  method: "POST",
  path: "/channels/:channel_id/messages/ack",
  summary: "Say that everything up to a message is read. The position never goes back",
  tag: "Messages",
  auth: "user",
  permission: ["messages.read"],
  params: byChannel,
  query: z.object({
    message_id: z
      .string()
      .optional()
      .describe("Absent, in the body as well: the newest message")
      .meta({ example: "41771983423143937" }),
  }),
  body: z
    .object({ message_id: z.string().nullish().describe("The same, for who does not give it in the query") })
    .meta({ id: "MessageAckRequest" }),
  bodyOptional: true,
  reply: z
    .object({
      success: z.literal(true),
      messages_marked: z.int().nonnegative().describe("Messages of others that were unread until now"),
    })
    .meta({ id: "MessageAckResponse" }),
  fails: [
    "invalid_channel_id",
    "invalid_message_id",
    "channel_not_found",
    "access_denied",
    "permission_denied",
    "message_not_found",
  ],
})

export const getUnread = defineRoute({
  method: "GET",
  path: "/channels/:channel_id/messages/unread",
  summary: "How much of a channel the caller has not read: messages of others after his position and after he joined",
  tag: "Messages",
  auth: "user",
  permission: ["messages.read"],
  params: byChannel,
  reply: z
    .object({
      channel_id: Snowflake,
      unread_count: z.int().nonnegative(),
      mention_count: z.int().nonnegative().describe("Messages among them that notified the caller of a mention"),
    })
    .meta({ id: "UnreadResponse" }),
  fails: ["invalid_channel_id", "channel_not_found", "access_denied", "permission_denied"],
})

export const ackChannels = defineRoute({
  method: "POST",
  path: "/channels/ack/bulk",
  summary: "Say of several channels up to where they are read; entries that cannot be used are left out",
  tag: "Messages",
  auth: "user",
  body: z
    .record(z.string(), z.unknown())
    .refine(
      entries => Object.keys(entries).length <= limits.channelsPerAck,
      `must have at most ${limits.channelsPerAck} entries`,
    )
    .meta({
      id: "BulkAckRequest",
      description: `Channel id to message id, or to null for the newest message; at most ${limits.channelsPerAck}`,
    }),
  reply: Success,
  fails: [],
})

const Counts = z.record(Snowflake, z.int().positive())

export const listUnread = defineRoute({
  method: "GET",
  path: "/users/@me/unread",
  summary: "What the caller has not read, by channel: channels of his servers that he may read, and his DMs",
  tag: "Users",
  auth: "user",
  reply: z
    .object({
      unread_counts: Counts.describe("Only channels with a count"),
      mention_counts: Counts.describe("Only channels with a count"),
    })
    .meta({ id: "UnreadCountsResponse" }),
  fails: [],
})

export const routes = { ackMessages, getUnread, ackChannels, listUnread }

export const messageAck = defineEvent({
  name: "MESSAGE_ACK",
  intent: null,
  delivery: "stored",
  summary:
    "Somebody has read a channel up to a message: the user himself elsewhere, or, in DMs and in servers of at most 100 members, another who shows it",
  data: z.object({ channel_id: Snowflake, user_id: Snowflake, message_id: Snowflake.nullable() }),
})
