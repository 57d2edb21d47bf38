import type { Status } from "../contract/presence.ts"

/** What somebody shows of himself, or chose to. */
export interface Shown {
  readonly status: Status
  readonly custom_status: string | null
  readonly custom_emoji: string | null
}

/** As others see it: who is invisible is offline to them. */
export interface Seen extends Shown {
  readonly status: Exclude<Status, "invisible">
}

export const defaultPresence: Shown = { status: "online", custom_status: null, custom_emoji: null }
export const offline: Seen = { status: "offline", custom_status: null, custom_emoji: null }

/** What others see of somebody who is connected: whoever hides looks like somebody who is away. */
export const shownToOthers = ({ status, custom_status, custom_emoji }: Shown): Seen =>
  status === "invisible" || status === "offline" ? offline : { status, custom_status, custom_emoji }

export const looksSame = (a: Shown, b: Shown): boolean =>
  a.status === b.status && a.custom_status === b.custom_status && a.custom_emoji === b.custom_emoji

/** A change of what others see, on its way to them. */
export interface PresenceChange extends Seen {
  readonly user: string
  /** The epoch of whoever owned the user's home, and its count: of two the higher is newer. */
  readonly version: readonly [epoch: number, count: number]
  /** Servers, and friends by their own homes, that are to hear of it. */
  readonly homes: readonly string[]
  /** Users who must not. */
  readonly except: readonly string[]
}

export const isNewer = (
  [epoch, count]: readonly [number, number],
  [otherEpoch, otherCount]: readonly [number, number],
) => epoch > otherEpoch || (epoch === otherEpoch && count > otherCount)
