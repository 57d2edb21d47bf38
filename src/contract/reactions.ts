import { z } from "zod"
import { queryInt, Seconds, Snowflake, Success } from "./fields.ts"
import { limits } from "./limits.ts"
import { Reaction } from "./messages.ts"
import { defineEvent, defineRoute } from "./registry.ts"

export const Reactor = z.object({ user_id: Snowflake, reacted_at: Seconds }).meta({ id: "ReactionUserResponse" })
export type Reactor = z.infer<typeof Reactor>

const byMessage = z.object({ channel_id: Snowflake, message_id: Snowflake })
const byEmoji = byMessage.extend({
  emoji: z
    .string()
    .describe(
      "An emoji, a name such as `thumbsup` or `:thumbsup:`, or one of a server as `<:name:id>`, `<a:name:id>` or its id, percent-encoded once",
    ),
})

const notFound = ["invalid_channel_id", "invalid_message_id", "channel_not_found", "access_denied"] as const

export const addReaction = defineRoute({
  method: "PUT",
  path: "/channels/:channel_id/messages/:message_id/reactions/:emoji",
  summary: "React to a message; a repeat changes nothing",
  tag: "Reactions",
  auth: "user",
  permission: ["messages.add_reactions"],
  params: byEmoji,
  takesRest: true,
  reply: Success,
  fails: [
    ...notFound,
    "cannot_message",
    "permission_denied",
    "timed_out",
    "message_not_found",
    "invalid_emoji",
    "reaction_limit",
  ],
})

export const removeReaction = defineRoute({
  method: "DELETE",
  path: "/channels/:channel_id/messages/:message_id/reactions/:emoji",
  summary: "Take an own reaction back; without one nothing happens",
  tag: "Reactions",
  auth: "user",
  permission: ["channels.view"],
  params: byEmoji,
  takesRest: true,
  reply: Success,
  fails: [...notFound, "cannot_message", "message_not_found", "invalid_emoji"],
})

export const listReactions = defineRoute({
  method: "GET",
  path: "/channels/:channel_id/messages/:message_id/reactions",
  summary: "How often each emoji was used, in the order of first use",
  tag: "Reactions",
  auth: "user",
  permission: ["messages.read"],
  params: byMessage,
  reply: z.array(Reaction),
  fails: [...notFound, "permission_denied", "message_not_found"],
})

export const listReactors = defineRoute({
  method: "GET",
  path: "/channels/:channel_id/messages/:message_id/reactions/:emoji",
  summary: "Who used an emoji, in the order of user ids",
  tag: "Reactions",
  auth: "user",
  permission: ["messages.read"],
  params: byEmoji,
  takesRest: true,
  query: z.object({
    limit: queryInt(1, limits.pageSize).optional(),
    after: Snowflake.optional().describe("Only users whose ids are above this one"),
  }),
  reply: z.array(Reactor),
  fails: [...notFound, "permission_denied", "message_not_found", "invalid_emoji"],
})

export const routes = { addReaction, removeReaction, listReactions, listReactors }

const intent = { server: "GUILD_MESSAGE_REACTIONS", dm: "DIRECT_MESSAGE_REACTIONS" } as const

/** `count` is how often the emoji is used from then on: whoever hears an event twice counts right. */
const ReactionChange = z.object({
  user_id: Snowflake,
  message_id: Snowflake,
  channel_id: Snowflake,
  server_id: Snowflake.nullable(),
  guild_id: Snowflake.nullable(),
  emoji: z.string().describe("As the user wrote it"),
  url: z.string().nullable().describe("Of a custom emoji"),
  is_custom: z.boolean(),
  custom_emoji_id: Snowflake.nullable(),
  count: z.int().nonnegative().describe("How often the emoji is used from now on"),
})
export type ReactionChange = z.infer<typeof ReactionChange>

export const messageReactionAdd = defineEvent({
  name: "MESSAGE_REACTION_ADD",
  intent,
  delivery: "stored",
  summary: "Somebody reacted to a message",
  data: ReactionChange,
})
export const messageReactionRemove = defineEvent({
  name: "MESSAGE_REACTION_REMOVE",
  intent,
  delivery: "stored",
  summary: "Somebody took a reaction back",
  data: ReactionChange,
})
