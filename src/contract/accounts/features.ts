import { z } from "zod"
import { omittable, Seconds, SecondsInput, Snowflake, text } from "../core/fields.ts"
import { limits } from "../core/limits.ts"
import { defineRoute } from "../core/registry.ts"

const bounded = z.int().min(-1).describe("-1: no limit")
export const TierLimits = z
  .object({
    name: z.string(),
    multiplier: z.number().positive().describe("Factor for the rate limits of the user's own requests"),
    max_voice_minutes_per_day: bounded,
    max_video_minutes_per_day: bounded,
    max_file_uploads_per_day: bounded,
    max_file_size_mb: z.int().describe("In mebibytes (1,048,576 bytes)"),
    max_servers: bounded.describe("Number of servers that the user may own. -1: no limit"),
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
    rate_limit_tier: z.string().describe("The current tier"),
    badges: z.array(z.string()),
    tier_limits: TierLimits,
    expires_at: Seconds.nullable().describe(
      "When the tier goes back to `standard`. Null: never, or it is `standard` already",
    ),
  })
  .meta({ id: "UserFeaturesResponse" })
export type UserFeatures = z.infer<typeof UserFeatures>

const Until = omittable(SecondsInput)
const byUser = z.object({ user_id: Snowflake })
const byBadge = z.object({ user_id: Snowflake, badge: z.string() })
const BadgesReply = z.object({ success: z.literal(true), badges: z.array(z.string()) }).meta({ id: "BadgesResponse" })

export const getMyFeatures = defineRoute({
  method: "GET",
  path: "/users/@me/features",
  summary: "Get the caller's badges, tier and limits",
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
  summary: "Get a user's tier and badges",
  tag: "Features",
  auth: "administrator",
  isGated: false,
  params: byUser,
  reply: UserFeatures,
  fails: ["invalid_user_id", "user_not_found"],
})

export const editUserFeatures = defineRoute({
  method: "PUT",
  path: "/admin/users/:user_id/features",
  summary:
    "Change a user's tier, its end, or the notes about it. Omitted fields stay unchanged, but a tier without `expires_at` has no end",
  tag: "Features",
  auth: "administrator",
  isGated: false,
  params: byUser,
  body: z
    .object({
      rate_limit_tier: omittable(text(1, 50)),
      expires_at: Until,
      notes: omittable(text(0, limits.tierNotes)).describe("Stored, but not shown by any route. Empty string: removed"),
    })
    .meta({ id: "UserFeaturesRequest" }),
  trail: { keeps: ["rate_limit_tier", "expires_at"] },
  example: { rate_limit_tier: "premium", expires_at: 1_893_456_000, notes: "Sponsor" },
  reply: UserFeatures,
  fails: ["invalid_user_id", "user_not_found", "unknown_tier"],
})

export const setTier = defineRoute({
  method: "PUT",
  path: "/admin/users/:user_id/tier",
  mount: "operators",
  summary: "Give a user a tier until `expires_at`, or permanently",
  tag: "Features",
  auth: "administrator",
  isGated: false,
  params: byUser,
  body: z.object({ tier: text(1, 50), expires_at: Until }).meta({ id: "TierRequest" }),
  trail: { keeps: ["tier", "expires_at"] },
  example: { tier: "premium", expires_at: 1_893_456_000 },
  reply: UserFeatures.extend({ success: z.literal(true) }).meta({ id: "TierResponse" }),
  fails: ["invalid_user_id", "user_not_found", "unknown_tier"],
})

export const addBadge = defineRoute({
  method: "POST",
  path: "/admin/users/:user_id/badges/:badge",
  mount: "operators",
  summary: "Give a user a badge. No effect if they have it",
  tag: "Features",
  auth: "administrator",
  isGated: false,
  params: byBadge,
  reply: BadgesReply,
  fails: ["invalid_user_id", "user_not_found", "invalid_badge"],
})

export const removeBadge = defineRoute({
  method: "DELETE",
  path: "/admin/users/:user_id/badges/:badge",
  mount: "operators",
  summary: "Remove a badge from a user. No effect if they do not have it",
  tag: "Features",
  auth: "administrator",
  isGated: false,
  params: byBadge,
  reply: BadgesReply,
  fails: ["invalid_user_id", "user_not_found"],
})

export const listTiers = defineRoute({
  method: "GET",
  path: "/admin/tiers",
  summary: "List all tiers and their limits",
  tag: "Features",
  auth: "administrator",
  isGated: false,
  reply: z.object({ tiers: z.record(z.string(), TierLimits), default: z.string() }).meta({ id: "TiersResponse" }),
  fails: [],
})

export const listBadges = defineRoute({
  method: "GET",
  path: "/admin/badges",
  summary: "List all badges",
  tag: "Features",
  auth: "administrator",
  isGated: false,
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
