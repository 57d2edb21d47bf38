import type { Snowflake } from "../../contract/core/fields.ts"
import type { NotificationLevel, NotificationPatch } from "../../contract/accounts/notification-settings.ts"

/** What somebody has chosen for a server or one of its channels. */
export interface NotificationChoice {
  /** Null: a server's level is its default; a channel's is the user's choice for the server. */
  readonly level: NotificationLevel | null
  readonly muted: boolean
  /** Unix seconds at which it ends by itself; null: never. */
  readonly muted_until: number | null
}

export const noChoice: NotificationChoice = { level: null, muted: false, muted_until: null }

/** A server's own level for those who have chosen none: 0 all, 1 mentions. */
const levelOfDefault = (default_message_notifications: number): NotificationLevel =>
  default_message_notifications === 1 ? "mentions" : "all"

export const isMuted = ({ muted, muted_until }: NotificationChoice, now: number): boolean =>
  muted && (muted_until === null || muted_until > now)

/** The key of a choice among a user's own. */
export const choiceKey = (server: Snowflake, channel: Snowflake | null): string => `${server} ${channel ?? ""}`

export function placeOf(key: string): { readonly server: Snowflake; readonly channel: Snowflake | null } {
  const [server = "", channel = ""] = key.split(" ")
  return { server, channel: channel === "" ? null : channel }
}

/**
 * What a choice becomes. What is over is no choice any longer; without an end a mute is for ever.
 */
export function chosen(before: NotificationChoice, patch: Partial<NotificationPatch>, now: number): NotificationChoice {
  const level = patch.level === undefined ? before.level : patch.level === "default" ? null : patch.level
  const isSaid = patch.muted !== undefined || patch.muted_until !== undefined
  const muting: NotificationChoice = isSaid
    ? { level, muted: patch.muted ?? true, muted_until: patch.muted_until || null }
    : { ...before, level }
  return isMuted(muting, now) ? muting : { ...noChoice, level }
}

export const isNoChoice = ({ level, muted }: Pick<NotificationChoice, "level" | "muted">): boolean =>
  level === null && !muted

/**
 * What holds for a server, or with `channel` for one of its channels: the nearest level, and every
 * mute.
 */
export function effectiveLevel(
  choices: { readonly server: NotificationChoice; readonly channel: NotificationChoice | null },
  default_message_notifications: number,
  now: number,
): { level: NotificationLevel; muted: boolean } {
  const { server, channel } = choices
  return {
    level: channel?.level ?? server.level ?? levelOfDefault(default_message_notifications),
    muted: isMuted(server, now) || (channel !== null && isMuted(channel, now)),
  }
}

/** Whether a user is notified of a message, or of a mention in one. */
export const isNotified = (
  { level, muted }: { readonly level: NotificationLevel; readonly muted: boolean },
  isMention: boolean,
): boolean => !muted && (level === "all" || (level === "mentions" && isMention))
