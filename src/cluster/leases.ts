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
  /** Web workers of the cluster, this one among them. */
  readonly workers: () => number
  /** What the scarcest of the buckets holds that every request meets; about, as a tier may scale it. */
  readonly capacity: number
  readonly ask: (question: BucketQuestion) => Promise<BucketAnswer>
}

type LeaseKey = Pick<BucketQuestion, "caller" | "percent" | "address" | "bucket" | "name">

/** A route's own bucket; where it has none, the text is "" and the capacity endless. */
export interface RouteCapacity {
  /** As the script reads it. */
  readonly text: string
  readonly capacity: number
}

/** Who asks. */
interface Asker {
  readonly user: string
  /** By the name of the route's bucket. */
  readonly leases: Map<string, Lease>
  /** Requests that may be let in without asking, by all of these leases. */
  held: number
  /** One of them is asked for in advance. */
  isTrying: boolean
}

/** What is lent of the buckets that the requests of one caller to one route meet. */
export class Lease {
  readonly asker: Asker
  readonly key: LeaseKey
  /** What the scarcest of its buckets holds, about. */
  readonly capacity: number
  /** Requests that may still be let in, before `until`. */
  unspent = 0
  until = -Infinity
  /** How much the lease was; 0 when it has been settled. */
  count = 0
  /** Lent before the caller had asked again. */
  isInAdvance = false
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

  constructor(asker: Asker, key: LeaseKey, capacity: number) {
    this.asker = asker
    this.key = key
    this.capacity = capacity
  }
}

/** Redis keeps what is lent for longer than a worker spends it, so that there is time to give it back. */
const keptFor = 1.5

/** LEASE4 */
const growth = 4

/** What is lent is at most one part in so many of what remains. */
const share = 3
/** In advance, all workers together are lent at most a half; and each as much as if there were at least two. */
const advanceShareOf = (workers: number): number => 2 * Math.max(2, workers)
/** In advance fewer are not worth that others have less; admit.lua says the same. */
const fewestInAdvance = 4

/** Leases in advance are asked for while so many in a hundred spare a question; else only one in `callersPerTrial` is. */
const worthwhilePercent = 40
const callersPerTrial = 16
/** Of so many the last are reckoned with. */
const advancesRemembered = 32

/**
 * Requests that are let in without asking Redis. A call of the script takes some more than the one request from all buckets
 * that it meets; they are spent here. It keeps:
 *   LEASE1  A lease is spent before it ends in Redis, which counts it until every use of it is out of the window: its time
 *       begins here before the call is sent.
 *   LEASE2  What is given back is spent by nobody afterwards, and given back once. Where it is not known whether Redis has
 *       heard of it, it is lost.
 *   LEASE3  A worker that is not within its lease as a member spends nothing, and one that is connected to another Redis
 *       nothing that it was lent before.
 *   LEASE4  A lease is at most four times what was let in within the lease before it. Who has not asked lately is lent something
 *       in advance for one route at a time, all workers together at most half of what remains; and nothing while few of those
 *       who come come again.
 */
export class Leases {
  readonly #options: LeasesOptions
  readonly #askers = new Map<string, Asker>()
  readonly #sweeping: SweepWhileAny
  #size = 0
  #held = 0
  /** How many in a hundred leases in advance have spared a question. */
  #sparing = 100
  #trials = 0

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
  of(
    user: string,
    { text: bucket, capacity }: RouteCapacity,
    percent: number,
    name: string,
    address: string,
  ): Lease | undefined {
    let asker = this.#askers.get(user)
    const known = asker?.leases.get(name)
    if (known) {
      const { key } = known
      if (key.percent === percent && key.bucket === bucket && key.address === address) return known
      this.#settle(known)
      this.#forget(known)
      asker = this.#askers.get(user)
    }
    if (this.#size >= this.#options.bounds.maxLeases) return undefined
    if (!asker) this.#askers.set(user, (asker = { user, leases: new Map(), held: 0, isTrying: false }))
    const most = Math.min(this.#options.capacity, Math.floor((capacity * percent) / 100))
    const lease = new Lease(asker, { caller: `u:${user}`, percent, address, bucket, name }, most)
    asker.leases.set(name, lease)
    this.#size++
    this.#sweeping.begin()
    return lease
  }

  /** Lets one request in, if it may be. */
  spend(lease: Lease, now: number): boolean {
    if (lease.unspent === 0 || now >= lease.until || !this.#options.isServing()) return false // LEASE1, LEASE3
    lease.unspent--
    lease.admitted++
    this.#hold(lease, -1)
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
    const answer = await (lease.asking ? this.#askFor(lease, "ok", 0, share, "") : this.#renew(lease))
    if (answer.verdict === "ok") lease.admitted++
    return answer
  }

  /** What was lent is spent by nobody any more, nor given back: it is not known who keeps it. */
  drop(): void {
    for (const { leases } of this.#askers.values()) for (const lease of leases.values()) lease.isForgotten = true
    this.#askers.clear()
    this.#size = 0
    this.#held = 0
    this.#sweeping.stop()
  }

  #askFor(
    { key }: Lease,
    kind: "ok" | "settle",
    more: number,
    lentShare: number,
    ended: string,
  ): Promise<BucketAnswer> {
    const { caller, percent, address, bucket, name } = key
    return this.#options.ask({ kind, caller, percent, address, bucket, name, more, share: lentShare, ended })
  }

  async #renew(lease: Lease): Promise<BucketAnswer> {
    const { asker } = lease
    const askedAt = this.#options.clock.monotonic()
    const inAdvance = this.#advance(lease, askedAt)
    const isInAdvance = inAdvance !== undefined
    const { more, lentShare } = inAdvance ?? { more: this.#demand(lease, askedAt) - 1, lentShare: share }
    const ended = this.#end(lease)
    lease.askedAt = askedAt
    lease.admitted = 0
    lease.seats = more
    if (isInAdvance) asker.isTrying = true
    const asking = this.#askFor(lease, "ok", more, lentShare, ended)
    lease.asking = asking
    try {
      const answer = await asking
      lease.said = answer
      if (answer.lent > 0 && !lease.isForgotten) this.#take(lease, answer, askedAt, isInAdvance)
      return answer
    } finally {
      lease.asking = undefined
      if (isInAdvance) asker.isTrying = false
    }
  }

  /** LEASE4. @returns what a caller who has not asked lately may be lent; undefined: nothing in advance */
  #advance({ asker, askedAt, capacity }: Lease, now: number): { more: number; lentShare: number } | undefined {
    const { leaseTokens, leaseMs } = this.#options.bounds
    if (now - askedAt < 2 * leaseMs || asker.held > 0 || asker.isTrying) return undefined
    const lentShare = advanceShareOf(this.#options.workers())
    const more = Math.min(leaseTokens - 1, Math.floor((capacity - 1) / lentShare))
    if (more < fewestInAdvance) return undefined
    const isWorthwhile = this.#sparing >= worthwhilePercent || ++this.#trials % callersPerTrial === 0
    return isWorthwhile ? { more, lentShare } : undefined
  }

  #take(lease: Lease, { lent, lentForMs, nowMs }: BucketAnswer, askedAt: number, isInAdvance: boolean): void {
    lease.count = lent
    lease.unspent = lent
    lease.isInAdvance = isInAdvance
    lease.until = askedAt + lentForMs / keptFor
    lease.takenAtMs = nowMs
    lease.endsAtMs = nowMs + lentForMs
    this.#hold(lease, lent)
  }

  #hold({ asker }: Lease, more: number): void {
    asker.held += more
    this.#held += more
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
    this.#judge(lease)
    lease.count = 0
    lease.unspent = 0
    this.#hold(lease, -unspent)
    return `${takenAtMs} ${endsAtMs} ${count} ${unspent}`
  }

  /** LEASE4 */
  #judge({ isInAdvance, count, unspent }: Lease): void {
    if (isInAdvance) this.#sparing += ((unspent < count ? 100 : 0) - this.#sparing) / advancesRemembered
  }

  /** Beside any request. */
  #settle(lease: Lease): void {
    const ended = this.#end(lease)
    if (ended !== "") this.#askFor(lease, "settle", 0, share, ended).catch(() => {})
  }

  #forget(lease: Lease): void {
    const { asker, key } = lease
    if (lease.count > 0) this.#judge(lease)
    lease.isForgotten = true
    asker.leases.delete(key.name)
    if (asker.leases.size === 0) this.#askers.delete(asker.user)
    this.#size--
  }

  /** Gives back what was not spent in time, and forgets who asks seldom. */
  #sweep(): boolean {
    const now = this.#options.clock.monotonic()
    for (const { leases } of this.#askers.values())
      for (const lease of leases.values()) {
        if (lease.asking) continue
        if (lease.unspent > 0 && now >= lease.until) this.#settle(lease)
        if (lease.unspent === 0 && now - lease.askedAt >= 2 * this.#options.bounds.leaseMs) this.#forget(lease)
      }
    return this.#size > 0
  }
}
