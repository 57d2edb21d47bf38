import { z } from "zod"
import { Snowflake, Success } from "../core/fields.ts"
import { refused, type LimitNotes } from "../core/limit-notes.ts"
import { Message } from "./messages.ts"
import { defineRoute } from "../core/registry.ts"

export const limits = { pinsPerChannel: 50 } as const
export const limitNotes: LimitNotes<typeof limits> = { pinsPerChannel: refused("messages", "pin_limit") }

export const auditActions = ["MESSAGE_PIN", "MESSAGE_UNPIN"] as const

const byChannel = z.object({ channel_id: Snowflake })
const byMessage = z.object({ channel_id: Snowflake, message_id: Snowflake })

export const listPins = defineRoute({
  method: "GET",
  path: "/channels/:channel_id/pins",
  summary: "List the pinned messages of a channel, latest pin first",
  tag: "Messages",
  auth: "user",
  permission: ["messages.read"],
  params: byChannel,
  query: z.object({
    cursor: z
      .string()
      .optional()
      .describe("The `X-Next-Cursor` header of the previous page, which ended early because of its size"),
  }),
  hasNextCursor: true,
  reply: z.array(Message),
  fails: ["invalid_channel_id", "channel_not_found", "access_denied", "permission_denied", "invalid_cursor"],
})

const fails = [
  "invalid_channel_id",
  "invalid_message_id",
  "channel_not_found",
  "access_denied",
  "permission_denied",
  "message_not_found",
  "cannot_message",
] as const

export const pinMessage = defineRoute({
  method: "PUT",
  path: "/channels/:channel_id/pins/:message_id",
  summary: "Pin a message. In a DM both users may",
  tag: "Messages",
  auth: "user",
  isAudited: true,
  permission: ["messages.manage"],
  params: byMessage,
  reply: Success,
  fails: [...fails, "pin_limit"],
})

export const unpinMessage = defineRoute({
  method: "DELETE",
  path: "/channels/:channel_id/pins/:message_id",
  summary: "Unpin a message",
  tag: "Messages",
  auth: "user",
  isAudited: true,
  permission: ["messages.manage"],
  params: byMessage,
  reply: Success,
  fails,
})

export const routes = { listPins, pinMessage, unpinMessage }
