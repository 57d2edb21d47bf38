import { z } from "zod"
import { sample } from "../core/examples.ts"
import { Snowflake, Success } from "../core/fields.ts"
import { limits } from "../core/limits.ts"
import { defineEvent, defineRoute } from "../core/registry.ts"

const byChannel = z.object({ channel_id: Snowflake })

export const ackMessages = defineRoute({
  method: "POST",
  path: "/channels/:channel_id/messages/ack",
  summary: "Mark everything up to a message as read. The position never goes back",
  tag: "Messages",
  auth: "user",
  permission: ["messages.read"],
  params: byChannel,
  query: z.object({
    message_id: z
      .string()
      .optional()
      .describe("If absent, in the body as well: the newest message")
      .meta({ example: "41771983423143937" }),
  }),
  body: z
    .object({ message_id: z.string().nullish().describe("The same as the query parameter, used if that is absent") })
    .meta({ id: "MessageAckRequest" }),
  bodyOptional: true,
  example: { message_id: sample.message },
  reply: z
    .object({
      success: z.literal(true),
      messages_marked: z.int().nonnegative().describe("Number of messages of others that became read"),
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
  summary:
    "Get the number of unread messages in a channel: messages of others after the caller's position and after they joined",
  tag: "Messages",
  auth: "user",
  permission: ["messages.read"],
  params: byChannel,
  reply: z
    .object({
      channel_id: Snowflake,
      unread_count: z.int().nonnegative(),
      mention_count: z.int().nonnegative().describe("Number of these messages that notified the caller of a mention"),
      last_read_id: Snowflake.nullable().describe(
        "Where the caller has got to: what is unread begins after it. There need not be a message with this id. Null: at the beginning",
      ),
    })
    .meta({ id: "UnreadResponse" }),
  fails: ["invalid_channel_id", "channel_not_found", "access_denied", "permission_denied"],
})

export const ackChannels = defineRoute({
  method: "POST",
  path: "/channels/ack/bulk",
  summary: "Mark several channels as read up to a message each. Invalid entries are ignored",
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
  example: { [sample.channel]: sample.message },
  reply: Success,
  fails: [],
})

const Counts = z.record(Snowflake, z.int().positive())

export const listUnread = defineRoute({
  method: "GET",
  path: "/users/@me/unread",
  summary:
    "Get unread counts by channel, for all channels in the caller's servers that they may read, and for their DMs",
  tag: "Users",
  auth: "user",
  reply: z
    .object({
      unread_counts: Counts.describe("Only channels with unread messages"),
      mention_counts: Counts.describe("Only channels with unread messages"),
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
    "A user has read a channel up to a message. Sent to the user's own sessions and, in DMs and in channels that at most 100 members may view, to others if the user shares read receipts",
  data: z.object({ channel_id: Snowflake, user_id: Snowflake, message_id: Snowflake.nullable() }),
})
