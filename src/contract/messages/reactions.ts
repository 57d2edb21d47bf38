import { z } from "zod"
import { queryInt, Seconds, Snowflake, Success } from "../core/fields.ts"
import { limits } from "../core/limits.ts"
import { Reaction } from "./messages.ts"
import { defineEvent, defineRoute } from "../core/registry.ts"

export const Reactor = z.object({ user_id: Snowflake, reacted_at: Seconds }).meta({ id: "ReactionUserResponse" })
export type Reactor = z.infer<typeof Reactor>

const byMessage = z.object({ channel_id: Snowflake, message_id: Snowflake })
const byEmoji = byMessage.extend({
  emoji: z
    .string()
    .describe(
      "A Unicode emoji, a name such as `thumbsup` or `:thumbsup:`, or a server emoji as `<:name:id>`, `<a:name:id>` or its id. Percent-encoded once",
    ),
})

const notFound = ["invalid_channel_id", "invalid_message_id", "channel_not_found", "access_denied"] as const

export const addReaction = defineRoute({
  method: "PUT",
  path: "/channels/:channel_id/messages/:message_id/reactions/:emoji",
  summary: "React to a message. Repeating it has no effect",
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
  summary: "Remove one's own reaction. No effect if there is none",
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
  summary: "List the reactions of a message with counts, in the order of first use",
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
  summary: "List the users who reacted with an emoji, by user id",
  tag: "Reactions",
  auth: "user",
  permission: ["messages.read"],
  params: byEmoji,
  takesRest: true,
  query: z.object({
    limit: queryInt(1, limits.pageSize).optional(),
    after: Snowflake.optional().describe("Only users with a higher id"),
  }),
  reply: z.array(Reactor),
  fails: [...notFound, "permission_denied", "message_not_found", "invalid_emoji"],
})

export const routes = { addReaction, removeReaction, listReactions, listReactors }

const intent = { server: "GUILD_MESSAGE_REACTIONS", dm: "DIRECT_MESSAGE_REACTIONS" } as const

/**
 * `count` is how often the emoji is used from then on, so a client that receives an event twice
 * still counts right.
 */
const ReactionChange = z.object({
  user_id: Snowflake,
  message_id: Snowflake,
  channel_id: Snowflake,
  server_id: Snowflake.nullable(),
  guild_id: Snowflake.nullable(),
  emoji: z.string().describe("As the user wrote it"),
  url: z.string().nullable().describe("Only for custom emoji"),
  is_custom: z.boolean(),
  custom_emoji_id: Snowflake.nullable(),
  count: z.int().nonnegative().describe("The new number of reactions with this emoji"),
})
export type ReactionChange = z.infer<typeof ReactionChange>

export const messageReactionAdd = defineEvent({
  name: "MESSAGE_REACTION_ADD",
  intent,
  delivery: "stored",
  summary: "A user reacted to a message",
  data: ReactionChange,
})
export const messageReactionRemove = defineEvent({
  name: "MESSAGE_REACTION_REMOVE",
  intent,
  delivery: "stored",
  summary: "A user removed a reaction",
  data: ReactionChange,
})
