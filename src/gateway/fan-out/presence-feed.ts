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
  readonly stream: Pick<Stream, "behind" | "lookAtBuffers" | "onceSent">
  readonly view: (server: Snowflake) => ServerView | undefined
  readonly timing: {
    /** Changes are gathered for so many milliseconds. */
    readonly gatherForMs: number
    /** Users whose changes may wait. */
    readonly gathered: number
  }
  /** Socket buffers are checked after so many bytes. */
  readonly slice: number
  readonly clock: Clock
  readonly metrics: Metrics
}

/**
 * The version of a user's newest change is remembered for so many milliseconds at least, and for so
 * many users at most.
 */
const remembered = 30_000
const maxRemembered = 100_000

/**
 * Sends changes of presence to this worker's sessions. The owners of all homes that a change
 * concerns report it: changes of one user are merged, and each session is sent the change once.
 * Under load presence is dropped first.
 */
export class PresenceFeed {
  readonly #options: PresenceFeedOptions
  /** By user; a change for one home only is kept by user and home. */
  readonly #waiting = new Map<string, PresenceChange>()
  /** The changes that are being sent, server by server. */
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

  /** Called now and then: what was remembered long enough is forgotten, whether or not more comes. */
  sweep(): void {
    if (this.#newest.size + this.#newestBefore.size > 0 && this.#isTurnDue) this.#turn()
  }

  stop(): void {
    this.#stopped = true
    this.#timer?.stop()
  }

  get #isTurnDue(): boolean {
    return this.#options.clock.monotonic() - this.#rememberedSince > remembered
  }

  #turn(): void {
    this.#newestBefore = this.#newest
    this.#newest = new Map()
    this.#rememberedSince = this.#options.clock.monotonic()
  }

  /**
   * Owners do not wait for one another: one may report an older state than another has reported.
   */
  #isOld({ user, version }: PresenceChange): boolean {
    const newest = this.#newest.get(user) ?? this.#newestBefore.get(user)
    if (newest && isNewer(newest, version)) return true
    if (this.#isTurnDue || this.#newest.size >= maxRemembered) this.#turn()
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

  /** Sends between two log items, once the log is read to its end: stored events go first. */
  #send(): void {
    const { subscriptions, stream, timing, slice } = this.#options
    // A look now and then would hardly meet a moment without anything to be sent while much is.
    if (stream.behind > 0) return stream.onceSent(() => (this.#stopped ? undefined : this.#send()))
    // A session that is being moved is ahead of the others, so a frame with their position would go
    // back.
    if (subscriptions.isMoving) return this.#schedule(timing.gatherForMs)
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
