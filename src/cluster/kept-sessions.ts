import type { Snowflake } from "../contract/core/fields.ts"
import type { Clock } from "../std/clock.ts"
import { SweepWhileAny } from "../std/sweep-while-any.ts"

/** How many sessions of how many bytes, and for how long at most. */
export interface KeptSessionsBounds {
  readonly sessions: number
  readonly bytes: number
  readonly forMs: number
}

export interface KeptSessionsOptions {
  readonly bounds: KeptSessionsBounds
  /** `Membership.term`. */
  readonly term: () => number | undefined
  readonly clock: Pick<Clock, "monotonic" | "now" | "every">
}

/** A session in the memory of this process. */
export interface KeptSession<Session> {
  readonly session: Session
  /** Of its token, as bytes of the hexadecimal text. */
  readonly hash: Buffer
  /** When its use was last written down, as far as is known here; Unix seconds. */
  activeAt: number
  readonly bytes: number
  /** Monotonic milliseconds. */
  readonly until: number
  /** Unix seconds. */
  readonly endsAt: number
}

/** A look at a session, from before anybody was asked. */
export interface Look {
  readonly at: number
  readonly term: number
  readonly drops: number
}

/**
 * The sessions that one worker keeps, so that a request with one of them asks nobody. It keeps:
 *   KEPT1  What was being looked up while sessions were dropped is not kept.
 *   KEPT2  What was kept in one term of the membership is not found in another, nor outside of any.
 *   KEPT3  Nothing is found longer than `forMs` after its look began, nor after its own end.
 */
export class KeptSessions<Session extends object> {
  readonly #options: KeptSessionsOptions
  /** In the order in which they came, which is nearly that in which they end. */
  readonly #kept = new Map<Snowflake, KeptSession<Session>>()
  #bytes = 0
  #term: number | undefined
  #drops = 0
  readonly #sweeper: SweepWhileAny

  constructor(options: KeptSessionsOptions) {
    this.#options = options
    // After a burst nobody comes whose session would take the place of one that is over.
    this.#sweeper = new SweepWhileAny(options.clock, options.bounds.forMs, () => {
      this.#evict()
      return this.#kept.size > 0
    })
  }

  get size(): number {
    return this.#kept.size
  }

  /** Undefined while nothing may be kept. */
  begin(): Look | undefined {
    const { term, clock } = this.#options
    const now = term()
    return now === undefined ? undefined : { at: clock.monotonic(), term: now, drops: this.#drops }
  }

  /** Whether what a look finds is true of now: nothing was dropped since it began, and it is the same term. */
  holds(look: Look): boolean {
    return look.drops === this.#drops && look.term === this.#options.term()
  }

  /** Keeps what a look has found, unless that may be out of date by now. */
  keep(
    look: Look | undefined,
    id: Snowflake,
    { bytes, ...found }: { session: Session; hash: Buffer; activeAt: number; endsAt: number; bytes: number },
  ): void {
    const { bounds } = this.#options
    if (!look || !this.holds(look)) return // KEPT1, KEPT2
    this.#enter(look.term)
    this.#forget(id)
    this.#kept.set(id, { ...found, bytes, until: look.at + bounds.forMs })
    this.#bytes += bytes
    this.#evict()
    this.#sweeper.begin()
  }

  find(id: Snowflake): KeptSession<Session> | undefined {
    const term = this.#options.term()
    if (term !== this.#term) this.#enter(term) // KEPT2
    const kept = this.#kept.get(id)
    if (!kept || this.#isCurrent(kept)) return kept
    this.#forget(id)
    return undefined
  }

  drop(ids: readonly Snowflake[]): void {
    this.#drops++
    for (const id of ids) this.#forget(id)
  }

  dropAll(): void {
    this.#drops++
    this.#kept.clear()
    this.#bytes = 0
  }

  stop(): void {
    this.#sweeper.stop()
  }

  /** KEPT3 */
  #isCurrent({ until, endsAt }: KeptSession<Session>): boolean {
    const { clock } = this.#options
    return clock.monotonic() < until && clock.now() < endsAt * 1000
  }

  #enter(term: number | undefined): void {
    if (term === this.#term) return
    this.#term = term
    this.#kept.clear()
    this.#bytes = 0
  }

  #forget(id: Snowflake): void {
    const kept = this.#kept.get(id)
    if (!kept) return
    this.#kept.delete(id)
    this.#bytes -= kept.bytes
  }

  #evict(): void {
    const { bounds, clock } = this.#options
    const now = clock.monotonic()
    for (const [id, { until }] of this.#kept) {
      const isWithin = this.#kept.size <= bounds.sessions && this.#bytes <= bounds.bytes
      if (isWithin && until > now) return
      this.#forget(id)
    }
  }
}
