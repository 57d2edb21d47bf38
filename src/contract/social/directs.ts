import { z } from "zod"
import { Channel } from "../communities/channels.ts"
import { sample } from "../core/examples.ts"
import { Seconds, Snowflake } from "../core/fields.ts"
import { limits } from "../core/limits.ts"
import { defineRoute } from "../core/registry.ts"

const Latest = Snowflake.nullable().describe("Id of the newest message. Null: there is no message")

/** A conversation of two, as one of them sees it: named after the other. */
export const DirectChannel = Channel.extend({ last_message_id: Latest }).meta({ id: "DirectChannelResponse" })
export type DirectChannel = z.infer<typeof DirectChannel>

export const NotesChannel = Channel.extend({
  last_message_id: Latest,
  last_message_at: Seconds.nullable().describe("When the newest message was sent"),
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
  .meta({ description: "Id of the other user. Required", example: "41771983423143937" })

export const listDirectChannels = defineRoute({
  method: "GET",
  path: "/users/@me/channels",
  summary: `List the caller's DMs, latest message first, ${limits.directsListed} at most`,
  tag: "Users",
  auth: "user",
  reply: z.array(DirectChannel),
  fails: [],
})

export const openDirectChannel = defineRoute({
  method: "POST",
  path: "/users/@me/channels",
  summary:
    "Get the DM with another user. It is created if it does not exist. In that case neither user may have blocked the other, and the other user must accept DMs from the caller",
  tag: "Users",
  auth: "user",
  body: z
    .object({
      recipient_id: RecipientInput,
    })
    .meta({ id: "DirectChannelRequest" }),
  example: { recipient_id: sample.other },
  reply: DirectChannel,
  fails: ["recipient_required", "invalid_recipient_id", "self_message", "user_not_found", "cannot_message"],
})

export const getNotes = defineRoute({
  method: "GET",
  path: "/users/@me/notes",
  summary: "Get the caller's notes channel, which only they can read. The first call creates it",
  tag: "Users",
  auth: "user",
  reply: NotesChannel,
  fails: [],
})

export const routes = { listDirectChannels, openDirectChannel, getNotes }
