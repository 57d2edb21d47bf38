import type { Status } from "../../contract/social/presence.ts"

/** The presence that a user shows, or chose to. */
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

/**
 * The presence that others see of a connected user: an invisible user looks like one who is
 * offline.
 */
export const shownToOthers = ({ status, custom_status, custom_emoji }: Shown): Seen =>
  status === "invisible" || status === "offline" ? offline : { status, custom_status, custom_emoji }

export const looksSame = (a: Shown, b: Shown): boolean =>
  a.status === b.status && a.custom_status === b.custom_status && a.custom_emoji === b.custom_emoji

/** A change of what others see, on its way to them. */
export interface PresenceChange extends Seen {
  readonly user: string
  /** The epoch of the owner of the user's home, and its count: of two the higher is newer. */
  readonly version: readonly [epoch: number, count: number]
  /** Servers, and friends by their own homes, that are to hear of it. */
  readonly homes: readonly string[]
  /** Users who must not: members of the servers among them. */
  readonly except: readonly string[]
  /** For these homes alone, beside what the others see: it is neither newer nor older than that. */
  readonly isApart?: true
}

/** What one other, or a server, is to see of a user from now on. */
export type Regard = UserRegard | ServerRegard

interface UserRegard {
  readonly other: string
  readonly as: "friend" | "blocked"
  readonly wereFriends: boolean
  /** With the friendship, the other was told that the user is offline. */
  readonly isToldOffline: boolean
}

/** The members of a server that a user has joined are to see what the user shows. */
interface ServerRegard {
  readonly other: string
  readonly as: "member"
}

/** In portions with at most so many homes, as far as one change has no more. */
export function inPortions(changes: readonly PresenceChange[], homeBatchSize: number): PresenceChange[][] {
  const portions: PresenceChange[][] = []
  let size = Infinity
  for (const change of changes) {
    const mine = change.homes.length + change.except.length
    if (size + mine > homeBatchSize) {
      portions.push([])
      size = 0
    }
    portions.at(-1)!.push(change)
    size += mine
  }
  return portions
}

export const isNewer = (
  [epoch, count]: readonly [number, number],
  [otherEpoch, otherCount]: readonly [number, number],
) => epoch > otherEpoch || (epoch === otherEpoch && count > otherCount)
