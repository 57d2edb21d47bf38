import type { Clock, Timer } from "../std/clock.ts"
import { identityWatch } from "./identity.ts"
import type { RedisKeys } from "./keys.ts"
import type { Redis } from "./redis.ts"
import { replicationsOf } from "./replication.ts"

/** One life of one process. A worker that was declared dead comes back as another incarnation. */
export interface Member {
  readonly id: string
  readonly role: "web" | "job"
  /** Host and slot survive a restart, so that a worker's successor is given its predecessor's shards. */
  readonly host: string
  readonly slot: number
}

/** The members as PostgreSQL records them. */
export interface MemberStore {
  /** Members recorded as living, so that one that never shows itself is noticed too. */
  living(): Promise<readonly Member[]>
  /**
   * Declares a member dead, finally, unless it has come back since it had `lives`.
   * @returns how many lives it has, if it is not dead
   */
  declareDead(id: string, lives: number): Promise<number | undefined>
  /** This worker was silent for too long: increments its lives, unless it was declared dead. */
  revive(): Promise<number | undefined>
}

export interface MembershipOptions {
  readonly redis: Redis
  readonly keys: RedisKeys
  readonly self: Member
  readonly timing: { readonly renewEveryMs: number; readonly serveForMs: number; readonly deadAfterMs: number }
  readonly clock: Clock
  readonly store: MemberStore
  readonly onChange: (members: readonly Member[]) => void
  readonly onDeath: (id: string) => void
  /** Another member has said that it has news. */
  readonly onNews: () => void
  /** The worker must end: it was declared dead, or Redis lost what it knew. */
  readonly onOver: (why: string) => void
  readonly trouble: (error: unknown) => void
}

/** What a member shows of itself, beside who it is. */
interface Shown {
  leaving: boolean
  lives: number
  readsShortRecords: boolean
  /** A former version says nothing of news. */
  news: number
  /** Whether it has others drop the sessions that it ends: see session-drops.ts. Not so in the version before. */
  hasDropped: boolean
  /** Whether it wakes the worker to whose log it has appended. Not so in the version before. */
  rings: boolean
}

interface Seen extends Shown {
  readonly member: Member
  value: string
  /** How long the member has stood still while this observer was well. */
  stoodStill: number
}

/**
 * Milliseconds for which what comes in a silence waits, in slices: a process that stands still once more loses one of them at most. With Redis
 * and PostgreSQL there, the silence is over sooner.
 */
const renewalWait = { sliceMs: 100, slices: 10 } as const
/** Milliseconds for which a member of an older version that is gone is still reckoned with. */
const olderKeptMs = 60_000

/**
 * Shows that this worker lives and watches the others. It keeps:
 *   ALIVE1  A worker serves only within `serveForMs` of a confirmed renewal.
 *   ALIVE2  An observer counts only time in which its own renewals were confirmed.
 *   ALIVE3  Wall clocks and expiries decide nothing.
 *   ALIVE4  After a longer silence a worker serves only once PostgreSQL has recorded its return,
 *       so that it cannot be declared dead for that silence any more.
 *   ALIVE5  A term ends before a worker that shows nothing new for `serveForMs` could serve again: another follows each
 *       silence and another Redis. There is none before the first renewal, after the end, and
 *       beside a web worker of a version that tells nobody which sessions it ends.
 *   ALIVE6  What comes in a silence waits for the renewal that ends it, for a second from the first that came; time in which the
 *       process stands still once more is not counted. So a worker refuses nothing because it stood still. Where Redis stays away, those
 *       who came in that second are refused at its end, and later ones at once.
 */
export class Membership {
  readonly #options: MembershipOptions
  readonly #seen = new Map<string, Seen>()
  readonly #dead = new Set<string>()
  readonly #declaring = new Set<string>()
  #counter = 0
  #lives = 0
  #leaving = false
  #hasNews = false
  #news = 0
  #renewedAt: number
  #lastRound: number | undefined
  #isSameRedis: () => Promise<boolean>
  #replications: string
  #wellFor = 0
  /** When a web worker was last there that reads only the older form of sessions' records. */
  #olderAt = -Infinity
  #term = 0
  #isBesideOlder = false
  /** Of those who wait in this silence. `isOver`: nobody waits any more. */
  #awaited: { readonly renewal: Promise<void>; isOver: boolean; end(): void } | undefined
  #timer: Timer | undefined
  #round: Promise<void> | undefined
  #stopped = false

  constructor(options: MembershipOptions) {
    this.#options = options
    this.#isSameRedis = identityWatch(options.redis, options.keys)
    this.#replications = replicationsOf(options.redis)
    this.#renewedAt = -Infinity
  }

  /** Shows itself and sees the others once before it returns. */
  async start(): Promise<void> {
    // One that died meanwhile may have been heard of before it was read.
    for (const member of await this.#options.store.living())
      if (member.id !== this.#options.self.id && !this.#dead.has(member.id)) this.#see(member, "")
    await this.#renewInTime()
    this.#timer = this.#options.clock.every(this.#options.timing.renewEveryMs, () => {
      this.#round ??= this.#renewInTime()
        .catch((error: unknown) => this.#options.trouble(error))
        .finally(() => {
          this.#round = undefined
        })
    })
  }

  /** ALIVE1 */
  get serving(): boolean {
    return this.#options.clock.monotonic() - this.#renewedAt < this.#options.timing.serveForMs
  }

  /** In a silence: resolves when it is over, or when its second is. Undefined after that second, and while this worker serves (ALIVE6). */
  renewal(): Promise<void> | undefined {
    if (this.#stopped || this.serving) return undefined
    const waiting = (this.#awaited ??= this.#awaitRenewal())
    return waiting.isOver ? undefined : waiting.renewal
  }

  #awaitRenewal() {
    const { clock } = this.#options
    let resolve: () => void = () => {}
    const renewal = new Promise<void>(resolved => (resolve = resolved))
    const wait = (slices: number): Timer =>
      clock.after(renewalWait.sliceMs, () => {
        if (slices > 1) timer = wait(slices - 1)
        else clock.soon(() => waiting.end()) // what has come from Redis by now is read before
      })
    let timer = wait(renewalWait.slices)
    const waiting = {
      renewal,
      isOver: false,
      end() {
        timer.stop()
        waiting.isOver = true
        resolve()
      },
    }
    return waiting
  }

  /** ALIVE5: what was true of other workers' changes goes on being true within one. */
  get term(): number | undefined {
    return this.serving && !this.#stopped && !this.#isBesideOlder ? this.#term : undefined
  }

  get self(): Member {
    return this.#options.self
  }

  /** Milliseconds in which Redis was seen to be there, and to be the same, from one renewal to the next. */
  get wellFor(): number {
    return this.#wellFor
  }

  /**
   * Whether every web worker reads the short form of sessions' records, and has for a while: one of an older version that
   * has ended may be started again. It can go one version after the short form came.
   */
  get readsShortRecords(): boolean {
    for (const { member, readsShortRecords } of this.#seen.values())
      if (member.role === "web" && !readsShortRecords) return false
    return this.#options.clock.monotonic() - this.#olderAt >= olderKeptMs
  }

  /**
   * Whether every other web worker wakes the one to whose log it has appended. It can go one version after they do. Between
   * the start of an older one and the next round what it appends may wait for a read to end.
   */
  get ringsLogs(): boolean {
    for (const { member, rings } of this.#seen.values()) if (member.role === "web" && !rings) return false
    return true
  }

  /** Declared dead: whatever is sent there is never answered. */
  isDead(id: string): boolean {
    return this.#dead.has(id)
  }

  isLiving(id: string): boolean {
    return id === this.#options.self.id || this.#seen.has(id)
  }

  /** Every member that is not known to be dead, this one included. */
  members(): readonly Member[] {
    return [this.#options.self, ...[...this.#seen.values()].map(seen => seen.member)]
  }

  /** Members that shards may be given to: web workers that are not on their way out. */
  candidates(): readonly Member[] {
    const others = [...this.#seen.values()].filter(seen => !seen.leaving).map(seen => seen.member)
    return (this.#leaving ? others : [this.#options.self, ...others]).filter(member => member.role === "web")
  }

  noteLeaving(id: string): void {
    const seen = this.#seen.get(id)
    if (!seen || seen.leaving) return
    seen.leaving = true
    this.#options.onChange(this.members())
  }

  /** The next renewal says that this worker has committed something, whatever it was: who follows the database looks there. */
  noteNews(): void {
    this.#hasNews = true
  }

  /** Says that this worker is on its way out, so that nobody gives it anything any more. */
  async announceLeaving(): Promise<void> {
    this.#leaving = true
    await this.#round
    await this.#renew()
  }

  /** Somebody, here or elsewhere, has declared a member dead. */
  noteDeath(id: string): void {
    if (id === this.#options.self.id) return this.#options.onOver("declared dead")
    const known = this.#seen.delete(id)
    if (!this.#dead.has(id)) {
      this.#dead.add(id)
      this.#options.onDeath(id)
    }
    if (known) this.#options.onChange(this.members())
  }

  /** Stops showing itself; the caller has given away what it owned. */
  async leave(): Promise<void> {
    this.stop()
    await this.#round
    await this.#options.redis.hdel(this.#options.keys.members, this.#options.self.id)
  }

  stop(): void {
    this.#stopped = true
    this.#timer?.stop()
    this.#awaited?.end()
  }

  /**
   * One that was under way while this process stood still shows a life that is long ago, or has failed because it took so long: another follows
   * at once (ALIVE6).
   */
  async #renewInTime(): Promise<void> {
    const { clock, timing } = this.#options
    const startedAt = clock.monotonic()
    try {
      if (!(await this.#renew())) return
    } catch (error) {
      if (clock.monotonic() - startedAt < timing.serveForMs) throw error
    }
    if (!this.serving) await this.#renew()
  }

  /** @returns whether it was confirmed; else this worker ends */
  async #renew(): Promise<boolean> {
    const { redis, keys, self, clock, timing } = this.#options
    const startedAt = clock.monotonic()
    if (this.#hasNews) this.#news++
    this.#hasNews = false
    const value = textOf(++this.#counter, self, {
      leaving: this.#leaving,
      lives: this.#lives,
      readsShortRecords: true,
      news: this.#news,
      hasDropped: true,
      rings: true,
    })
    const replications = replicationsOf(redis)
    if (replications !== this.#replications) {
      // Another Redis, or the one of before after a restart: what it still knows counts for nothing, so it may have lost it.
      this.#replications = replications
      this.#isSameRedis = identityWatch(redis, keys)
      this.#lastRound = undefined
      this.#term++
    }
    // In this order, and in one write.
    const [, everybody, isSame] = await Promise.all([
      redis.hset(keys.members, self.id, value),
      redis.hgetall(keys.members),
      this.#isSameRedis(),
    ])
    if (this.#stopped) return false
    if (!isSame) return this.#endBecause("Redis lost what it knew")
    if (!this.serving && this.#renewedAt !== -Infinity) {
      // ALIVE4
      const lives = await this.#options.store.revive()
      if (this.#stopped) return false
      if (lives === undefined) return this.#endBecause("declared dead")
      this.#lives = lives
      this.#term++
    }
    this.#renewedAt = startedAt
    if (this.serving) {
      this.#awaited?.end()
      this.#awaited = undefined
    }
    const elapsed = this.#lastRound === undefined ? 0 : Math.min(startedAt - this.#lastRound, 2 * timing.renewEveryMs) // ALIVE2
    this.#lastRound = startedAt
    this.#wellFor += elapsed

    let changed = false
    let hasNews = false
    for (const [id, text] of Object.entries(everybody)) {
      if (id === self.id || this.#dead.has(id)) continue
      const seen = this.#seen.get(id)
      if (seen === undefined) {
        const { role, host, slot } = shownIn(text)
        this.#see({ id, role, host, slot }, text)
        changed = hasNews = true
      } else if (seen.value !== text) {
        seen.value = text
        const { lives, readsShortRecords, news, hasDropped, rings, leaving } = shownIn(text)
        hasNews ||= news !== seen.news
        // What was said does not unsay itself: a notice may be ahead of the counter.
        changed ||= leaving && !seen.leaving
        seen.leaving ||= leaving
        seen.lives = lives
        seen.readsShortRecords = readsShortRecords
        seen.news = news
        seen.hasDropped = hasDropped
        seen.rings = rings
        seen.stoodStill = 0
      } else seen.stoodStill += elapsed
    }
    for (const [id, seen] of this.#seen) {
      if (!(id in everybody)) seen.stoodStill += elapsed
      if (seen.member.role === "web" && seen.value !== "" && !seen.readsShortRecords) this.#olderAt = startedAt
    }
    this.#lookForOlder()
    if (changed) this.#options.onChange(this.members())
    if (hasNews) this.#options.onNews()
    for (const [id, seen] of this.#seen) if (seen.stoodStill >= timing.deadAfterMs) this.#declareDead(id)
    return true
  }

  #endBecause(why: string): false {
    this.#options.onOver(why)
    return false
  }

  #lookForOlder(): void {
    const before = this.#isBesideOlder
    this.#isBesideOlder = [...this.#seen.values()].some(seen => seen.member.role === "web" && !seen.hasDropped)
    if (this.#isBesideOlder && !before) this.#term++
  }

  /** Beside the rounds: however slow the declaration is, this worker goes on showing itself. */
  #declareDead(id: string): void {
    if (this.#declaring.has(id)) return
    this.#declaring.add(id)
    const seen = this.#seen.get(id)!
    this.#options.store
      .declareDead(id, seen.lives)
      .then(async lives => {
        if (lives !== undefined) {
          // It has come back; if it stands still nevertheless, it counts from now.
          Object.assign(seen, { lives, stoodStill: 0 })
          return
        }
        this.noteDeath(id)
        await this.#options.redis.hdel(this.#options.keys.members, id)
      })
      .catch((error: unknown) => this.#options.trouble(error))
      .finally(() => this.#declaring.delete(id))
      .catch(() => {})
  }

  #see(member: Member, value: string): void {
    this.#seen.set(member.id, { member, value, stoodStill: 0, ...(value === "" ? unshown : shownIn(value)) })
  }
}

/** Of a member that has not shown itself. */
const unshown: Shown = {
  leaving: false,
  lives: 0,
  readsShortRecords: false,
  news: 0,
  hasDropped: false,
  rings: false,
}

const textOf = (counter: number, { role, host, slot }: Member, shown: Shown): string =>
  JSON.stringify([
    counter,
    role,
    host,
    slot,
    shown.leaving,
    shown.lives,
    shown.readsShortRecords ? 1 : 0,
    shown.news,
    shown.hasDropped,
    shown.rings,
  ])

type Value = [
  counter: number,
  role: Member["role"],
  host: string,
  slot: number,
  leaving: boolean,
  lives: number,
  shortRecords?: number,
  news?: number,
  hasDropped?: boolean,
  rings?: boolean,
]

function shownIn(text: string): Shown & Omit<Member, "id"> {
  const [, role, host, slot, leaving, lives, shortRecords, news, hasDropped, rings] = JSON.parse(text) as Value
  return {
    role,
    host,
    slot,
    leaving,
    lives,
    readsShortRecords: shortRecords === 1,
    news: news ?? 0,
    hasDropped: hasDropped === true,
    rings: rings === true,
  }
}
