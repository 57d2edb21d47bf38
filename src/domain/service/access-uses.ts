import type { AccessUse } from "./access-tokens.ts"

/** One use, with where it came from. */
export interface PlacedUse extends AccessUse {
  /** Unix seconds. */
  readonly used_at: number
  readonly ip_address: string
  readonly user_agent: string
  /** Null: it was for no route. The path's parameters are names in braces. */
  readonly method: string | null
  readonly path: string | null
}

/** Uses of one token, of one of its addresses or of one route. */
export interface UseCounts {
  readonly token: string
  requests: number
  denied: number
  last_seen_at: number
}
export interface TokenUses extends UseCounts {
  /** The latest that was let in. */
  latest: PlacedUse | undefined
  first_at: number
}
export interface AddressUses extends UseCounts {
  readonly ip_address: string
}
export interface PathUses extends UseCounts {
  readonly method: string
  readonly path: string
}

export interface AccessUseBatch {
  readonly tokens: readonly TokenUses[]
  readonly addresses: readonly AddressUses[]
  readonly paths: readonly PathUses[]
  /** The latest, the oldest first. */
  readonly events: readonly PlacedUse[]
}

/** What is kept between two times that it is written down. */
const maxAddresses = 2_000
const maxPaths = 2_000
const maxEvents = 500
/** Of one token. */
const maxEventsOfToken = 100

const counted = (into: UseCounts, { allowed, used_at }: PlacedUse): void => {
  into.requests++
  if (!allowed) into.denied++
  into.last_seen_at = Math.max(into.last_seen_at, used_at)
}

/**
 * Uses of access tokens, summed up until they are written down. Each is counted for its token; of
 * addresses, routes and single events only so many are told apart.
 */
export class AccessUses {
  readonly #tokens = new Map<string, TokenUses>()
  readonly #addresses = new Map<string, AddressUses>()
  readonly #paths = new Map<string, PathUses>()
  #events: PlacedUse[] = []
  /** Of each token. */
  readonly #noted = new Map<string, number>()

  get isEmpty(): boolean {
    return this.#tokens.size === 0
  }

  note(use: PlacedUse): void {
    const { token, ip_address, used_at, allowed } = use
    const none = { token, requests: 0, denied: 0, last_seen_at: used_at }
    let ofToken = this.#tokens.get(token)
    if (!ofToken) this.#tokens.set(token, (ofToken = { ...none, latest: undefined, first_at: used_at }))
    counted(ofToken, use)
    if (allowed) ofToken.latest = use

    const place = `${token} ${ip_address}`
    let ofAddress = this.#addresses.get(place)
    if (!ofAddress && this.#addresses.size < maxAddresses)
      this.#addresses.set(place, (ofAddress = { ...none, ip_address }))
    if (ofAddress) counted(ofAddress, use)

    const [method, path] = [use.method ?? "", use.path ?? ""]
    const route = `${token} ${method} ${path}`
    let ofPath = this.#paths.get(route)
    if (!ofPath && this.#paths.size < maxPaths) this.#paths.set(route, (ofPath = { ...none, method, path }))
    if (ofPath) counted(ofPath, use)

    const noted = this.#noted.get(token) ?? 0
    if (noted >= maxEventsOfToken || this.#events.length >= maxEvents) return
    this.#noted.set(token, noted + 1)
    this.#events.push(use)
  }

  /** All of it, in the order in which every worker writes it down; from now on it counts from nothing. */
  take(): AccessUseBatch {
    const keys = <Value>(counts: Map<string, Value>) =>
      [...counts].toSorted(([one], [other]) => (one < other ? -1 : 1)).map(([, value]) => value)
    const batch = {
      tokens: keys(this.#tokens),
      addresses: keys(this.#addresses),
      paths: keys(this.#paths),
      events: this.#events,
    }
    this.#tokens.clear()
    this.#addresses.clear()
    this.#paths.clear()
    this.#noted.clear()
    this.#events = []
    return batch
  }
}
