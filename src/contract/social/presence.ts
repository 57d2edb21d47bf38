import { z } from "zod"
import { omittable, Seconds, Snowflake, text } from "../core/fields.ts"
import { defineEvent, defineRoute } from "../core/registry.ts"

export const Status = z.enum(["online", "idle", "dnd", "invisible", "offline"])
export type Status = z.infer<typeof Status>

const customStatusCharacters = 128
const customEmojiCharacters = 64

/** Cut to whole characters: no half of a surrogate pair is left over. */
const cutEmoji = (value: string): string =>
  Array.from(value.slice(0, 2 * customEmojiCharacters))
    .slice(0, customEmojiCharacters)
    .join("")

const customStatus = text(0, customStatusCharacters)
const customEmoji = z.string().transform(cutEmoji)
const staysOrNone = "Left out or null: stays as it is; empty: none from now on"

export const Presence = z
  .object({
    user_id: Snowflake,
    status: Status,
    custom_status: z.string().nullable(),
    custom_emoji: z.string().nullable(),
    last_seen: Seconds.nullable(),
  })
  .meta({ id: "PresenceResponse" })
export type Presence = z.infer<typeof Presence>

export const PresenceInput = z
  .object({
    status: z.string().describe(`One of ${Status.options.join(", ")}`),
    custom_status: omittable(customStatus).describe(staysOrNone),
    custom_emoji: omittable(customEmoji).describe(`Truncated to ${customEmojiCharacters} characters. ${staysOrNone}`),
  })
  .meta({ id: "PresenceUpdateRequest" })

export const updatePresence = defineRoute({
  method: "PUT",
  path: "/users/@me/presence",
  summary:
    "Set the caller's status. To others `invisible` and `offline` look the same. It is kept for later connections",
  tag: "Presence",
  auth: "user",
  body: PresenceInput,
  example: { status: "dnd", custom_status: "Away for tea", custom_emoji: "☕" },
  reply: Presence,
  fails: ["invalid_status"],
})

export const getPresence = defineRoute({
  method: "GET",
  path: "/users/:user_id/presence",
  summary:
    "Get the presence of a user as the caller may see it. Also `offline` if the user is unknown or either has blocked the other",
  tag: "Presence",
  auth: "user",
  params: z.object({ user_id: Snowflake }),
  reply: Presence,
  fails: ["invalid_user_id"],
})

export const routes = { updatePresence, getPresence }

/** No U+0000 and no lone surrogate: neither can be kept. */
const storable = (value: string | null | undefined) => !/\0|\p{Surrogate}/u.test(value ?? "")

/**
 * `d` of PRESENCE_UPDATE (op 3). What does not fit is ignored as a whole. Of the activities the
 * first is kept and shown to nobody.
 */
export const PresenceUpdate = z.object({
  status: Status.default("online"),
  /** Left out: they stay as they are; null or empty: none from now on. */
  custom_status: customStatus.nullish().refine(storable),
  custom_emoji: customEmoji.nullish().refine(storable),
  /** Left out: they stay as they are; null or empty: none from now on. */
  activities: z.array(z.unknown()).nullish(),
})

const line = text(0, 128).refine(storable)
export const Activity = z.object({
  type: z.enum(["playing", "streaming", "listening", "watching", "competing", "custom"]).default("custom"),
  name: text(1, 128).refine(storable),
  details: line.nullish(),
  state: line.nullish(),
})
export type Activity = z.infer<typeof Activity>

export const presenceUpdate = defineEvent({
  name: "PRESENCE_UPDATE",
  intent: "GUILD_PRESENCES",
  delivery: "ephemeral",
  summary:
    "The presence of a user changed, or the user has joined a server. Sent to friends and to members of common servers, except of large servers; of a user who joins, to that server. The user's own other sessions receive the real status, except the session that set it with op 3. If one of two users has blocked the other, each looks offline to the other. After RESUMED the presences that a client knows may be outdated: request them again",
  data: z.object({
    user_id: Snowflake,
    status: Status,
    custom_status: z.string().nullable(),
    custom_emoji: z.string().nullable(),
  }),
})
