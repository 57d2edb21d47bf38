import type { Snowflake } from "../../contract/core/fields.ts"
import { presenceUpdate } from "../../contract/social/presence.ts"
import type { Clock, Timer } from "../../std/clock.ts"
import { isNewer, type PresenceChange } from "../../domain/core/presences.ts"
import type { Metrics } from "../../observability/metrics.ts"
import { Frame } from "../protocol/frames.ts"
import type { ServerView } from "../state/server-view.ts"
import type { Subscriptions } from "./subscriptions.ts"
import type { Stream } from "./stream.ts"

export interface PresenceFeedOptions {
  readonly subscriptions: Subscriptions
  readonly stream: Pick<Stream, "behind" | "lookAtBuffers">
  readonly view: (server: Snowflake) => ServerView | undefined
  readonly timing: {
    /** Milliseconds for which changes are gathered. */
    readonly gatherForMs: number
    /** Users whose changes may wait. */
    readonly gathered: number
  }
  /** Bytes after which socket buffers are looked at. */
  readonly slice: number
  readonly clock: Clock
  readonly metrics: Metrics
}

/** Which change of a user is the newest is remembered for so many milliseconds at least, and of so many users at most. */
const remembered = 30_000
const mostRemembered = 100_000

/**
 * Changes of presence on their way to this worker's sessions. They come from the owners of all the homes that they concern:
 * what is about one user is put together, and each session is sent it once. They are the first to go when there is too much.
 */
export class PresenceFeed {
  readonly #options: PresenceFeedOptions
  /** By user; what is for one home apart by both. */
  readonly #waiting = new Map<string, PresenceChange>()
  /** What is being sent, from server to server. */
  #spreading: Iterator<void> | undefined
  #newest = new Map<Snowflake, PresenceChange["version"]>()
  #newestBefore = new Map<Snowflake, PresenceChange["version"]>()
  #rememberedSince: number
  #timer: Timer | undefined
  #stopped = false

  constructor(options: PresenceFeedOptions) {
    this.#options = options
    this.#rememberedSince = options.clock.monotonic()
  }

  /** Whether everything that came is sent. */
  get settled(): boolean {
    return this.#waiting.size === 0 && !this.#spreading
  }

  take(changes: readonly PresenceChange[]): void {
    const { timing, metrics } = this.#options
    for (const change of changes) {
      if (!change.isApart && this.#isOld(change)) continue
      const key = change.isApart ? `${change.user} ${change.homes.join(" ")}` : change.user
      const waiting = this.#waiting.get(key)
      if (waiting) this.#waiting.set(key, { ...change, homes: [...new Set([...waiting.homes, ...change.homes])] })
      else if (this.#waiting.size < timing.gathered) this.#waiting.set(key, change)
      else metrics.presence.shed.inc()
    }
    this.#schedule(timing.gatherForMs)
  }

  stop(): void {
    this.#stopped = true
    this.#timer?.stop()
  }

  /** Owners do not wait for one another: what one says may be behind what another has said. */
  #isOld({ user, version }: PresenceChange): boolean {
    const newest = this.#newest.get(user) ?? this.#newestBefore.get(user)
    if (newest && isNewer(newest, version)) return true
    const now = this.#options.clock.monotonic()
    if (now - this.#rememberedSince > remembered || this.#newest.size >= mostRemembered) {
      this.#newestBefore = this.#newest
      this.#newest = new Map()
      this.#rememberedSince = now
    }
    this.#newest.set(user, version)
    return false
  }

  #schedule(inMilliseconds: number): void {
    if (this.#timer || this.#stopped || this.settled) return
    this.#timer = this.#options.clock.after(inMilliseconds, () => {
      this.#timer = undefined
      this.#send()
    })
  }

  /** Between two pieces of the log, once it is read to the end: what is stored goes first. */
  #send(): void {
    const { subscriptions, stream, timing, slice } = this.#options
    // A session that is being moved stands ahead of the others: what bears their position would step back.
    if (subscriptions.isMoving || stream.behind > 0) return this.#schedule(timing.gatherForMs)
    while ((this.#spreading ??= this.#next())) {
      if (subscriptions.unlookedBytes >= slice) {
        stream.lookAtBuffers()
        return this.#schedule(1)
      }
      if (this.#spreading.next().done) this.#spreading = undefined
    }
    stream.lookAtBuffers()
  }

  #next(): Iterator<void> | undefined {
    for (const [key, change] of this.#waiting) {
      this.#waiting.delete(key)
      return this.#spread(change)
    }
    return undefined
  }

  #spread({ user, status, custom_status, custom_emoji, homes, except }: PresenceChange): Iterator<void> {
    const { subscriptions, view } = this.#options
    const views: ServerView[] = []
    const friends: Snowflake[] = []
    for (const home of homes) {
      const server = view(home)
      if (!server) friends.push(home)
      else if (subscriptions.sessionsOf(server).size > 0) views.push(server)
    }
    views.sort((a, b) => subscriptions.sessionsOf(b).size - subscriptions.sessionsOf(a).size)
    const d = JSON.stringify({ user_id: user, status, custom_status, custom_emoji })
    let frame: Frame | undefined
    const now = () => {
      if (frame?.s !== subscriptions.position) frame = new Frame(presenceUpdate.name, subscriptions.position, d)
      return frame
    }
    return subscriptions.spread(now, views, friends, [user, ...except])
  }
}
