import type { TierLimits } from "../../contract/accounts/features.ts"
import { limits } from "../../contract/core/limits.ts"

type OfTier = Pick<
  TierLimits,
  | "multiplier"
  | "max_voice_minutes_per_day"
  | "max_video_minutes_per_day"
  | "max_file_uploads_per_day"
  | "max_file_size_mb"
  | "max_servers"
>

const tier = (name: string, own: OfTier): [string, TierLimits] => [
  name,
  {
    name,
    ...own,
    max_message_length: limits.messageCharacters,
    max_reactions_per_message: 20,
    max_pins_per_channel: 50,
    custom_emoji_slots: 50,
  },
]

export const defaultTier = "standard"

/** What each tier allows; -1: as much as one likes. */
export const tiers: ReadonlyMap<string, TierLimits> = new Map([
  tier("standard", {
    multiplier: 1,
    max_voice_minutes_per_day: 120,
    max_video_minutes_per_day: 60,
    max_file_uploads_per_day: 50,
    max_file_size_mb: 10,
    max_servers: 100,
  }),
  tier("alpha", {
    multiplier: 2,
    max_voice_minutes_per_day: 480,
    max_video_minutes_per_day: 240,
    max_file_uploads_per_day: 200,
    max_file_size_mb: 25,
    max_servers: 200,
  }),
  tier("premium", {
    multiplier: 3,
    max_voice_minutes_per_day: -1,
    max_video_minutes_per_day: -1,
    max_file_uploads_per_day: 500,
    max_file_size_mb: 100,
    max_servers: 500,
  }),
  tier("staff", {
    multiplier: 10,
    max_voice_minutes_per_day: -1,
    max_video_minutes_per_day: -1,
    max_file_uploads_per_day: -1,
    max_file_size_mb: 500,
    max_servers: -1,
  }),
])

/** A tier that is not in the table is worth the default one. */
export const limitsOf = (name: string): TierLimits => tiers.get(name) ?? tiers.get(defaultTier)!

/** Whether somebody with so many of something may have one more. */
export const isBelowLimit = (count: number, most: number): boolean => most === -1 || count < most

/**
 * How many servers a user may be in, their own included: a user who may own more than others may be
 * in as many as they own.
 */
export const maxServers = (name: string, bot: boolean): number => {
  const { max_servers } = limitsOf(name)
  return max_servers === -1 ? -1 : Math.max(max_servers, bot ? limits.serversPerBot : limits.serversPerUser)
}

/** Seconds that a user may spend in voice channels a day; null: no bound. */
export function voiceAllowance(name: string): number | null {
  const minutes = limitsOf(name).max_voice_minutes_per_day
  return minutes === -1 ? null : minutes * 60
}

/**
 * What the requests and the burst of a user's, route's or resource's limit are multiplied with, in
 * percent.
 */
export const limitPercent = (name: string, bot: boolean): number => limitsOf(name).multiplier * (bot ? 150 : 100)
