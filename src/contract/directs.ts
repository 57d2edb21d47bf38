import { z } from "zod"
import { Channel } from "./channels.ts"
import { Seconds, Snowflake } from "./fields.ts"
import { limits } from "./limits.ts"
import { defineRoute } from "./registry.ts"

const Latest = Snowflake.nullable().describe("The newest message; null: none is there")

/** A conversation of two, as one of them sees it: named after the other. */
export const DirectChannel = Channel.extend({ last_message_id: Latest }).meta({ id: "DirectChannelResponse" })
export type DirectChannel = z.infer<typeof DirectChannel>

export const NotesChannel = Channel.extend({
  last_message_id: Latest,
  last_message_at: Seconds.nullable().describe("When that was sent"),
}).meta({ id: "NotesChannelResponse" })
export type NotesChannel = z.infer<typeof NotesChannel>

/** An id in whatever form. What is none is refused with 400, and so is none at all. */
const RecipientInput = z
  .preprocess(value => {
    if (value === null || typeof value === "string") return value ?? undefined
    // Beyond 53 bits a JSON number has lost its last digits: it is no id.
    return typeof value === "number" && Number.isSafeInteger(value) ? String(value) : "no id"
  }, z.string().optional())
  .optional()
  .meta({ description: "Id of the other; needed", example: "41771983423143937" })

export const listDirectChannels = defineRoute({
  method: "GET",
  path: "/users/@me/channels",
  summary: `The caller's conversations with others, that in which something was said last before the others; of more than ${limits.directsListed} the first so many`,
  tag: "Users",
  auth: "user",
  reply: z.array(DirectChannel),
  fails: [],
})

export const openDirectChannel = defineRoute({
  method: "POST",
  path: "/users/@me/channels",
  summary:
    "The caller's conversation with another, which is opened if there is none. Neither may have blocked the other then, and the other must take messages from the caller",
  tag: "Users",
  auth: "user",
  body: z
    .object({
      recipient_id: RecipientInput,
    })
    .meta({ id: "DirectChannelRequest" }),
  reply: DirectChannel,
  fails: ["recipient_required", "invalid_recipient_id", "self_message", "user_not_found", "cannot_message"],
})

export const getNotes = defineRoute({
  method: "GET",
  path: "/users/@me/notes",
  summary: "The channel in which the caller talks to himself; it is made by the first call",
  tag: "Users",
  auth: "user",
  reply: NotesChannel,
  fails: [],
})

export const routes = { listDirectChannels, openDirectChannel, getNotes }
