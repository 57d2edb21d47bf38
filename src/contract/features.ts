import { z } from "zod"
import { omittable, Seconds, Snowflake, text } from "./fields.ts"
import { limits } from "./limits.ts"
import { defineRoute } from "./registry.ts"

const bounded = z.int().min(-1).describe("-1: no bound")
export const TierLimits = z
  .object({
    name: z.string(),
    multiplier: z.number().positive().describe("Of the rate limits of the user's own requests"),
    max_voice_minutes_per_day: bounded,
    max_video_minutes_per_day: bounded,
    max_file_uploads_per_day: bounded,
    max_file_size_mb: z.int().describe("In units of 1,048,576 bytes"),
    max_servers: bounded.describe("Servers that one may own; -1: no bound"),
    max_message_length: z.int(),
    max_reactions_per_message: z.int(),
    max_pins_per_channel: z.int(),
    custom_emoji_slots: z.int(),
  })
  .meta({ id: "TierLimits" })
export type TierLimits = z.infer<typeof TierLimits>

export const Badge = z
  .object({
    name: z.string(),
    display_name: z.string(),
    description: z.string(),
    icon: z.string(),
    color: z.string().regex(/^#[0-9a-f]{6}$/),
  })
  .meta({ id: "BadgeDefinition" })
export type Badge = z.infer<typeof Badge>

/** What an administrator sees of somebody's tier and badges. */
export const UserFeatures = z
  .object({
    user_id: Snowflake,
    rate_limit_tier: z.string().describe("The tier that holds now"),
    badges: z.array(z.string()),
    tier_limits: TierLimits,
    expires_at: Seconds.nullable().describe("When `standard` holds again; null: never, or it does already"),
  })
  .meta({ id: "UserFeaturesResponse" })
export type UserFeatures = z.infer<typeof UserFeatures>

/** From this number on a time is in milliseconds: as seconds it would be in the year 5138. */
const leastMilliseconds = 100_000_000_000
const Expiry = omittable(
  z
    .int()
    .nonnegative()
    .transform(time => (time >= leastMilliseconds ? Math.floor(time / 1000) : time)),
).describe("Unix time in seconds; a number from 100,000,000,000 on is in milliseconds")

const byUser = z.object({ user_id: Snowflake })
const byBadge = z.object({ user_id: Snowflake, badge: z.string() })
const BadgesReply = z.object({ success: z.literal(true), badges: z.array(z.string()) }).meta({ id: "BadgesResponse" })

export const getMyFeatures = defineRoute({
  method: "GET",
  path: "/users/@me/features",
  summary: "The caller's badges, his tier and what it allows",
  tag: "Features",
  auth: "user",
  reply: z
    .object({ badges: z.array(Badge), tier: z.string(), tier_limits: TierLimits })
    .meta({ id: "OwnFeaturesResponse" }),
  fails: [],
})

export const getUserFeatures = defineRoute({
  method: "GET",
  path: "/admin/users/:user_id/features",
  summary: "A user's tier and badges",
  tag: "Features",
  auth: "administrator",
  params: byUser,
  reply: UserFeatures,
  fails: ["invalid_user_id", "user_not_found"],
})

export const editUserFeatures = defineRoute({
  method: "PUT",
  path: "/admin/users/:user_id/features",
  summary:
    "Change a user's tier, its end or the notes about it; what is left out stays as it is, but a tier given without an end has none",
  tag: "Features",
  auth: "administrator",
  params: byUser,
  body: z
    .object({
      rate_limit_tier: omittable(text(1, 50)),
      expires_at: Expiry,
      notes: omittable(text(0, limits.tierNotes)).describe("Kept, and shown by no route; empty: none from now on"),
    })
    .meta({ id: "UserFeaturesRequest" }),
  reply: UserFeatures,
  fails: ["invalid_user_id", "user_not_found", "unknown_tier"],
})

export const setTier = defineRoute({
  method: "PUT",
  path: "/admin/users/:user_id/tier",
  summary: "Give a user a tier, until `expires_at` or for good",
  tag: "Features",
  auth: "administrator",
  params: byUser,
  body: z.object({ tier: text(1, 50), expires_at: Expiry }).meta({ id: "TierRequest" }),
  reply: UserFeatures.extend({ success: z.literal(true) }).meta({ id: "TierResponse" }),
  fails: ["invalid_user_id", "user_not_found", "unknown_tier"],
})

export const addBadge = defineRoute({
  method: "POST",
  path: "/admin/users/:user_id/badges/:badge",
  summary: "Give a user a badge; one that he has stays",
  tag: "Features",
  auth: "administrator",
  params: byBadge,
  reply: BadgesReply,
  fails: ["invalid_user_id", "user_not_found", "invalid_badge"],
})

export const removeBadge = defineRoute({
  method: "DELETE",
  path: "/admin/users/:user_id/badges/:badge",
  summary: "Take a badge from a user, if he has it",
  tag: "Features",
  auth: "administrator",
  params: byBadge,
  reply: BadgesReply,
  fails: ["invalid_user_id", "user_not_found"],
})

export const listTiers = defineRoute({
  method: "GET",
  path: "/admin/tiers",
  summary: "Every tier with what it allows",
  tag: "Features",
  auth: "administrator",
  reply: z.object({ tiers: z.record(z.string(), TierLimits), default: z.string() }).meta({ id: "TiersResponse" }),
  fails: [],
})

export const listBadges = defineRoute({
  method: "GET",
  path: "/admin/badges",
  summary: "Every badge that can be given",
  tag: "Features",
  auth: "administrator",
  reply: z.object({ badges: z.array(Badge) }).meta({ id: "BadgeListResponse" }),
  fails: [],
})

export const routes = {
  getMyFeatures,
  getUserFeatures,
  editUserFeatures,
  setTier,
  addBadge,
  removeBadge,
  listTiers,
  listBadges,
}
