import type { Clock } from "../std/clock.ts"
import { SweepWhileAny } from "../std/sweep-while-any.ts"
import type { BucketAnswer, BucketQuestion } from "./bucket-calls.ts"

export interface LeaseBounds {
  /** Requests of one caller and route that one call into Redis takes from the buckets, at most. 1: each request asks. */
  readonly leaseTokens: number
  /** Milliseconds in which they are spent. */
  readonly leaseMs: number
  /** Callers and routes of which a worker remembers how often they ask. */
  readonly maxLeases: number
}

export interface LeasesOptions {
  readonly bounds: LeaseBounds
  readonly clock: Pick<Clock, "monotonic" | "every">
  /** Whether this worker is within its lease as a member. */
  readonly isServing: () => boolean
  readonly ask: (question: BucketQuestion) => Promise<BucketAnswer>
}

type LeaseKey = Pick<BucketQuestion, "caller" | "percent" | "address" | "bucket" | "name">

/** What is lent of the buckets that the requests of one caller to one route meet. */
export class Lease {
  readonly user: string
  readonly key: LeaseKey
  /** Requests that may still be let in, before `until`. */
  unspent = 0
  until = -Infinity
  /** How much the lease was; 0 when it has been settled. */
  count = 0
  /** When it was taken and when it ends, by the clock of Redis. */
  takenAtMs = 0
  endsAtMs = 0
  /** What the script said last. */
  said: BucketAnswer | undefined
  askedAt = -Infinity
  /** Let in since `askedAt`. */
  admitted = 0
  /** A call that asks for a lease, and how many more requests may wait for it. */
  asking: Promise<BucketAnswer> | undefined
  seats = 0
  isForgotten = false
  /** `X-RateLimit-Bucket` of the buckets, by number. */
  readonly names: (string | undefined)[] = [undefined, undefined, undefined]

  constructor(user: string, key: LeaseKey) {
    this.user = user
    this.key = key
  }
}

/** Redis keeps what is lent for longer than a worker spends it, so that there is time to give it back. */
const keptFor = 1.5

/** LEASE4 */
const growth = 4

/**
 * Requests that are let in without asking Redis. A call of the script takes some more than the one request from all buckets
 * that it meets; they are spent here. It keeps:
 *   LEASE1  A lease is spent before it ends in Redis, which counts it until every use of it is out of the window: its time
 *       begins here before the call is sent.
 *   LEASE2  What is given back is spent by nobody afterwards, and given back once. Where it is not known whether Redis has
 *       heard of it, it is lost.
 *   LEASE3  A worker that is not within its lease as a member spends nothing, and one that is connected to another Redis
 *       nothing that it was lent before.
 *   LEASE4  A caller who asks seldom holds nothing: a lease is at most four times what was let in within the lease before it.
 */
export class Leases {
  readonly #options: LeasesOptions
  /** By user, then by the name of the route's bucket. */
  readonly #byUser = new Map<string, Map<string, Lease>>()
  readonly #sweeping: SweepWhileAny
  #size = 0
  #held = 0

  constructor(options: LeasesOptions) {
    this.#options = options
    const { clock, bounds } = options
    this.#sweeping = new SweepWhileAny(clock, Math.max(1, bounds.leaseMs / 4), () => this.#sweep())
  }

  /** For how long Redis keeps what is lent. */
  static msInRedis = ({ leaseMs }: LeaseBounds): number => Math.floor(leaseMs * keptFor)

  /** Requests that may be let in without asking. */
  get held(): number {
    return this.#held
  }

  /** How often a user asks for something; undefined when too many are remembered already. */
  of(user: string, percent: number, bucket: string, name: string, address: string): Lease | undefined {
    let byName = this.#byUser.get(user)
    const known = byName?.get(name)
    if (known) {
      const { key } = known
      if (key.percent === percent && key.bucket === bucket && key.address === address) return known
      this.#settle(known)
      this.#forget(known)
      byName = this.#byUser.get(user)
    }
    if (this.#size >= this.#options.bounds.maxLeases) return undefined
    if (!byName) this.#byUser.set(user, (byName = new Map()))
    const lease = new Lease(user, { caller: `u:${user}`, percent, address, bucket, name })
    byName.set(name, lease)
    this.#size++
    this.#sweeping.begin()
    return lease
  }

  /** Lets one request in, if it may be. */
  spend(lease: Lease, now: number): boolean {
    if (lease.unspent === 0 || now >= lease.until || !this.#options.isServing()) return false // LEASE1, LEASE3
    lease.unspent--
    lease.admitted++
    this.#held--
    return true
  }

  /**
   * Asks Redis whether a request is let in.
   * @returns undefined: the lease lets it in that somebody else asked for
   */
  async ask(lease: Lease): Promise<BucketAnswer | undefined> {
    if (lease.asking && lease.seats > 0) {
      lease.seats--
      await lease.asking
      if (this.spend(lease, this.#options.clock.monotonic())) return undefined
    }
    const answer = await (lease.asking ? this.#askFor(lease, "ok", 0, "") : this.#renew(lease))
    if (answer.verdict === "ok") lease.admitted++
    return answer
  }

  /** What was lent is spent by nobody any more, nor given back: it is not known who keeps it. */
  drop(): void {
    for (const byName of this.#byUser.values()) for (const lease of byName.values()) lease.isForgotten = true
    this.#byUser.clear()
    this.#size = 0
    this.#held = 0
    this.#sweeping.stop()
  }

  #askFor({ key }: Lease, kind: "ok" | "settle", more: number, ended: string): Promise<BucketAnswer> {
    const { caller, percent, address, bucket, name } = key
    return this.#options.ask({ kind, caller, percent, address, bucket, name, more, ended })
  }

  async #renew(lease: Lease): Promise<BucketAnswer> {
    const askedAt = this.#options.clock.monotonic()
    const more = this.#demand(lease, askedAt) - 1
    const ended = this.#end(lease)
    lease.askedAt = askedAt
    lease.admitted = 0
    lease.seats = more
    const asking = this.#askFor(lease, "ok", more, ended)
    lease.asking = asking
    try {
      const answer = await asking
      lease.said = answer
      if (answer.lent > 0 && !lease.isForgotten) this.#take(lease, answer, askedAt)
      return answer
    } finally {
      lease.asking = undefined
    }
  }

  #take(lease: Lease, { lent, lentForMs, nowMs }: BucketAnswer, askedAt: number): void {
    lease.count = lent
    lease.unspent = lent
    lease.until = askedAt + lentForMs / keptFor
    lease.takenAtMs = nowMs
    lease.endsAtMs = nowMs + lentForMs
    this.#held += lent
  }

  /** LEASE4 */
  #demand({ askedAt, admitted }: Lease, now: number): number {
    const { leaseTokens, leaseMs } = this.#options.bounds
    const passed = now - askedAt
    if (passed >= 2 * leaseMs) return 1
    return Math.max(1, Math.min(leaseTokens, passed < leaseMs ? growth * admitted : admitted))
  }

  /** LEASE2. @returns what Redis has to hear of it; what it does not hear of is lost */
  #end(lease: Lease): string {
    const { count, unspent, takenAtMs, endsAtMs } = lease
    if (count === 0) return ""
    lease.count = 0
    lease.unspent = 0
    this.#held -= unspent
    return `${takenAtMs} ${endsAtMs} ${count} ${unspent}`
  }

  /** Beside any request. */
  #settle(lease: Lease): void {
    const ended = this.#end(lease)
    if (ended !== "") this.#askFor(lease, "settle", 0, ended).catch(() => {})
  }

  #forget(lease: Lease): void {
    lease.isForgotten = true
    const byName = this.#byUser.get(lease.user)!
    byName.delete(lease.key.name)
    if (byName.size === 0) this.#byUser.delete(lease.user)
    this.#size--
  }

  /** Gives back what was not spent in time, and forgets who asks seldom. */
  #sweep(): boolean {
    const now = this.#options.clock.monotonic()
    for (const byName of this.#byUser.values())
      for (const lease of byName.values()) {
        if (lease.asking) continue
        if (lease.unspent > 0 && now >= lease.until) this.#settle(lease)
        if (lease.unspent === 0 && now - lease.askedAt >= 2 * this.#options.bounds.leaseMs) this.#forget(lease)
      }
    return this.#size > 0
  }
}
