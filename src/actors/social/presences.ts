import type { Bus } from "../../cluster/bus.ts"
import type { Directory } from "../../cluster/directory.ts"
import type { OwnedShard } from "../../cluster/shard-hash.ts"
import type { Announced, AnnouncedPresences } from "../../cluster/presences.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import type { Clock, Timer } from "../../std/clock.ts"
import {
  inPortions,
  looksSame,
  offline,
  shownToOthers,
  type PresenceChange,
  type Regard,
  type Seen,
  type Shown,
} from "../../domain/core/presences.ts"
import { shardOf } from "../../domain/core/snowflake.ts"
import type { Log } from "../../observability/log.ts"
import type { Metrics } from "../../observability/metrics.ts"
import type { Storage } from "../../storage/storage.ts"
import type { ClusterView } from "../../runtime/cluster-view.ts"
import type { Host } from "../../runtime/host.ts"
import type { EffectExtension, InterestObserver } from "../../runtime/plugs.ts"
import type { Shard } from "../../runtime/shard.ts"
import { byOwner, type PresenceAnswer } from "./presence-lookup.ts"
import { append } from "../../std/multi-map.ts"

export interface PresenceTiming {
  /** How long changes are gathered before they are sent. */
  readonly flushEveryMs: number
  /** How long a user without a session may take to appear on another worker. */
  readonly graceMs: number
  /**
   * Others hear of one user at most this often, and less often if the user concerns very many. They
   * hear at once that a user goes offline.
   */
  readonly spreadEveryMs: number
  readonly spreadAtLeastEveryMs: number
  /**
   * After this time what was sent has arrived, or the worker that carried it is known to be dead.
   */
  readonly settleAfterMs: number
  /** How long an asker waits for an answer. */
  readonly askTimeoutMs: number
  /** Servers with more members are told nothing. */
  readonly members: number
}

export interface PresencesOptions {
  readonly cluster: {
    readonly view: Pick<ClusterView, "serving" | "isDead"> & { readonly self: { readonly id: string } }
    readonly bus: Bus
    readonly directory: Directory
  }
  readonly host: Pick<Host, "shard" | "shards" | "release">
  readonly store: Storage["presences"]
  /** What the others are about to be told, recorded beside the shard. */
  readonly announced: Pick<AnnouncedPresences, "load" | "add" | "remove" | "replace">
  readonly temporaryMembers: {
    /**
     * These users have gone offline, and that is recorded. Their records stay while `isPending` says
     * so.
     */
    gone(users: readonly Snowflake[]): void
    /** The user is online again. It is called before anybody is told. */
    back(user: Snowflake): void
    isPending(user: Snowflake): boolean
  }
  /** Tells the sessions of this worker. */
  readonly deliver: (changes: readonly PresenceChange[]) => void
  readonly timing: PresenceTiming
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
}

/**
 * A change that is being sent, and how many attempts failed: it could not be sent, or reached a
 * worker that does not own the home.
 */
interface Spread {
  readonly attempt: number
  readonly changes: readonly PresenceChange[]
}

/**
 * How many users are compared in one go, how many shards are saved at a time, how many changes may
 * wait to be sent again, and how often and at which interval that is tried.
 */
const batch = 500
const saveBatchSize = 128
const maxWaiting = 10_000
const maxAttempts = 40
const lookAgainAfterMs = 250
/** A user with so many servers and friends may change half as often as a user with none. */
const homesAtHalfRate = 25
/** How many homes one message names: it is read in one go. */
const homeBatchSize = 10_000

interface Looked {
  readonly shard: Shard
  readonly user: Snowflake
  readonly regard: Regard
  /** Whether others saw the user online. */
  readonly wasSeen: boolean
}

interface Change {
  readonly shard: Shard
  readonly user: Snowflake
  readonly shown: Seen
  readonly before: Seen
  readonly isHere: boolean
}

/**
 * Says whether the users of this worker are online. A user is online while a worker takes the events
 * of their home, because one of their sessions lives or may still be resumed. Whenever that, or the
 * status that the user chose, may have changed, what others should see is compared with what they
 * were told. It keeps:
 *   PRES1  Nothing is announced that is not recorded beside the shard: its next owner knows what
 *       to correct.
 *   PRES2  What may be lost with a worker or a Redis is announced again, by the owner or by its
 *       successor.
 *   PRES3  A user who moves from one worker to another does not appear offline.
 */
export class Presences implements InterestObserver, EffectExtension {
  readonly #options: PresencesOptions
  /**
   * What the others were told of the users of each shard. A user who is absent was shown as
   * offline.
   */
  readonly #announced = new WeakMap<Shard, Map<Snowflake, Announced>>()
  /** The users to compare, with the time from which on they are compared. */
  readonly #due = new Map<Snowflake, number>()
  /**
   * When others were last told of a user, and when they may be told again. Removed once it has
   * settled.
   */
  readonly #told = new Map<Snowflake, { readonly at: number; readonly until: number }>()
  /** Users who were online a moment ago: they have gone, even if nobody was told that they came. */
  readonly #left = new Set<Snowflake>()
  /** Users of whom the others are to be told again. */
  readonly #again = new Set<Snowflake>()
  /** Users and servers who are to hear of a user, or to see them no more, independent of what the others were told. */
  readonly #regards = new Map<Snowflake, Map<Snowflake, Regard>>()
  #timer: Timer | undefined
  #timerAt = 0
  #isLooking = false
  /** The users who are being compared. */
  #looking: ReadonlySet<Snowflake> = new Set()
  /** More users are due than one batch holds. */
  #isMore = false
  #stopped = false
  #count = 0
  #waiting = 0

  constructor(options: PresencesOptions) {
    this.#options = options
    const { metrics } = options
    const { bus } = options.cluster
    bus.handle<{ users: Snowflake[] }, PresenceAnswer>("presencesOf", ({ users }) => this.#answer(users))
    bus.onNotice<Spread>("presence", ({ changes, attempt }) => this.#toWorkers(changes, attempt))
    bus.onNotice<readonly PresenceChange[]>("presences", changes => options.deliver(changes))
    metrics.presence.due.from(() => this.#due.size + this.#looking.size)
  }

  /**
   * Redis may have lost records: all of them are written again, and others are told again of the
   * users who were online.
   */
  async inherit(owned: readonly OwnedShard[]): Promise<(shard: Shard) => void> {
    const { announced } = this.#options
    const known = await announced.load(owned.map(({ number }) => number))
    await Promise.all(
      owned.flatMap(shard => {
        const { users, isComplete } = known.get(shard.number)!
        return isComplete ? [] : [announced.replace(shard, users)]
      }),
    )
    return shard => this.adopt(shard, known.get(shard.number)!.users)
  }

  #announcedOf(shard: Shard): Map<Snowflake, Announced> {
    let announced = this.#announced.get(shard)
    if (!announced) this.#announced.set(shard, (announced = new Map()))
    return announced
  }

  /** The shard is this worker's: all users who are or were online are compared. */
  adopt(shard: Shard, announced: ReadonlyMap<Snowflake, Announced> = new Map()): void {
    this.#announced.set(shard, new Map([...announced].map(([user, entry]) => [user, shared(entry)])))
    shard.onInterestChanged(home => {
      const isTaken = shard.interests.has(home)
      if (isTaken) this.#options.temporaryMembers.back(home)
      else this.#left.add(home)
      this.#look(home, isTaken ? 0 : this.#options.timing.graceMs) // PRES3
    })
    for (const home of shard.interests.keys()) this.#look(home)
    for (const [user, { isUnsettled }] of announced) {
      this.#look(user, shard.interests.has(user) ? 0 : this.#options.timing.graceMs)
      if (isUnsettled) this.#again.add(user) // PRES2
    }
  }

  /** What a turn decided about a user's presence is committed. */
  committed(user: Snowflake, regard: Regard | undefined): void {
    this.changed(user, regard)
  }

  /** A user has chosen something else to show, or another has come to see them or ceased to. */
  changed(user: Snowflake, regard?: Regard): void {
    if (regard) this.#regards.set(user, new Map(this.#regards.get(user)).set(regard.other, regard))
    this.#look(user)
  }

  /**
   * A user has no session any more, and that is committed. A dead worker takes the events of a home for as long as its
   * gateway sessions may be resumed; none of this user's can be.
   */
  signedOut(user: Snowflake): void {
    const { host, cluster } = this.#options
    const shard = host.shard(shardOf(user))
    for (const worker of shard?.interests.get(user)?.keys() ?? [])
      if (cluster.view.isDead(worker)) host.release(worker, shard!.number, [user])
  }

  /** PRES2. */
  noteDeath(): void {
    for (const user of this.#told.keys()) {
      this.#again.add(user)
      this.#look(user)
    }
  }

  /**
   * Redis may have lost what was written last and what was being sent: all of it is written and
   * sent again.
   */
  doubt(): void {
    this.noteDeath()
    this.#rewrite(new Set(this.#options.host.shards.values())).catch((error: unknown) =>
      this.#options.log.error({ err: error }, "presence error"),
    )
  }

  async #rewrite(left: Set<Shard>): Promise<void> {
    const { host, announced, clock, log } = this.#options
    while (left.size > 0 && !this.#stopped) {
      for (const shard of left)
        try {
          if (host.shard(shard.number) === shard) await announced.replace(shard, this.#announcedOf(shard))
          left.delete(shard)
        } catch (error) {
          log.debug({ err: error, shard: shard.number }, "presences not written again")
          break
        }
      if (left.size > 0) await clock.sleep(1_000)
    }
  }

  stop(): void {
    this.#stopped = true
    this.#timer?.stop()
  }

  /**
   * The answer for a user who is still to be compared is the state that the comparison will find.
   */
  async #answer(users: readonly Snowflake[]): Promise<PresenceAnswer> {
    const { host, cluster, store } = this.#options
    const answer: PresenceAnswer = { seen: [], elsewhere: [] }
    const unsure: Snowflake[] = []
    const say = (user: Snowflake, { status, custom_status, custom_emoji }: Seen) => {
      if (status !== "offline") answer.seen.push([user, status, custom_status, custom_emoji])
    }
    const canServe = cluster.view.serving
    for (const user of users) {
      const shard = host.shard(shardOf(user))
      const known = shard && this.#announcedOf(shard).get(user)
      if (!canServe || !shard || shard.closing) answer.elsewhere.push(user)
      else if ((this.#due.has(user) || this.#looking.has(user)) && shard.interests.has(user)) unsure.push(user)
      else if (known && !known.isGone) say(user, known)
    }
    if (unsure.length > 0) for (const [user, chosen] of await store.chosen(unsure)) say(user, shownToOthers(chosen))
    return answer
  }

  #look(user: Snowflake, inMilliseconds = 0): void {
    const at = this.#options.clock.monotonic() + inMilliseconds
    this.#due.set(user, Math.max(at, this.#due.get(user) ?? at))
    this.#schedule()
  }

  #schedule(): void {
    if (this.#isLooking || this.#stopped || this.#due.size + this.#told.size === 0) return
    const { clock, timing } = this.#options
    const gatherForMs = this.#isMore ? 0 : timing.flushEveryMs
    const wait = this.#due.size > 0 ? gatherForMs : timing.settleAfterMs / 4
    const at = clock.monotonic() + wait
    if (this.#timer && this.#timerAt <= at) return
    this.#timer?.stop()
    this.#timerAt = at
    this.#timer = clock.after(wait, () => {
      this.#timer = undefined
      this.#isLooking = true
      this.#lookAtAll()
        .catch((error: unknown) => this.#options.log.error({ err: error }, "presence error"))
        .finally(() => {
          this.#isLooking = false
          this.#schedule()
        })
    })
  }

  async #lookAtAll(): Promise<void> {
    const { clock, log, timing } = this.#options
    const now = clock.monotonic()
    const due: Snowflake[] = []
    for (const [user, at] of this.#due) {
      if (at > now) continue
      due.push(user)
      if (due.length === batch) break
    }
    for (const user of due) this.#due.delete(user)
    this.#looking = new Set(due)
    this.#isMore = due.length === batch
    try {
      if (due.length > 0) await this.#lookAt(due, now)
    } catch (error) {
      log.warn({ err: error, users: due.length }, "presences not sent")
      for (const user of due) this.#look(user, 2 * timing.flushEveryMs)
      this.#isMore = false
    } finally {
      this.#looking = new Set()
    }
    await this.#settle(now).catch((error: unknown) => log.warn({ err: error }, "presences not settled"))
  }

  async #lookAt(users: readonly Snowflake[], now: number): Promise<void> {
    const { store, timing, host } = this.#options
    const chosen = await store.chosen(users)
    const changes: Change[] = []
    const regards: Looked[] = []
    for (const user of users) {
      const shard = host.shard(shardOf(user))
      // The shard has another owner now, who compares everybody.
      if (!shard) this.#forget(user)
      else if (shard.closing) this.#look(user, timing.graceMs)
      else {
        const change = this.#changeOf(shard, user, chosen.get(user))
        const until = this.#told.get(user)?.until ?? 0
        const isEarly = until > now && change?.shown.status !== "offline" && !this.#again.has(user)
        regards.push(...this.#takeRegards(shard, user, change !== undefined && isEarly))
        if (!change) this.#again.delete(user)
        else if (isEarly) this.#due.set(user, until)
        else changes.push(change)
      }
    }
    if (changes.length + regards.length === 0) return
    try {
      await this.#tell(changes, regards, now)
    } catch (error) {
      for (const { user, regard } of regards)
        if (!this.#regards.get(user)?.has(regard.other)) this.changed(user, regard)
      throw error
    }
  }

  /** New friends and servers hear what the others hear, at the same time. A user who may no longer see another hears it at once. */
  #takeRegards(shard: Shard, user: Snowflake, isWaiting: boolean): Looked[] {
    const all = [...(this.#regards.get(user)?.values() ?? [])]
    const left = isWaiting ? all.filter(({ as }) => as !== "blocked") : []
    if (left.length > 0) this.#regards.set(user, new Map(left.map(regard => [regard.other, regard])))
    else this.#regards.delete(user)
    const wasSeen = (this.#announcedOf(shard).get(user) ?? offline).status !== "offline"
    return all.filter(regard => !left.includes(regard)).map(regard => ({ shard, user, regard, wasSeen }))
  }

  /**
   * What others are to be told of a user; undefined: they know it. The id of a server belongs to no
   * user.
   */
  #changeOf(shard: Shard, user: Snowflake, chosen: Shown | undefined): Change | undefined {
    const known = this.#announcedOf(shard).get(user)
    const isHere = chosen !== undefined && shard.interests.has(user)
    const hasLeft = this.#left.delete(user) && chosen !== undefined
    if (!isHere && !known && !hasLeft) return undefined
    const shown = isHere ? shownToOthers(chosen) : offline
    const before = known ?? offline
    const wasHere = known !== undefined && !known.isGone
    const isNews = isHere !== wasHere || (hasLeft && !isHere)
    if (!isNews && looksSame(shown, before) && !this.#again.has(user)) return undefined
    return { shard, user, shown, before, isHere }
  }

  async #tell(changes: readonly Change[], regards: readonly Looked[], now: number): Promise<void> {
    const { store, timing, clock, log, metrics } = this.#options
    const audiences = await store.audiences(
      [...new Set([...changes, ...regards].map(({ user }) => user))],
      timing.members,
    )
    const told: PresenceChange[] = []
    const unseen: Snowflake[] = []
    await eachBatch(byShard(changes), async (shard, mine) => {
      const entries = new Map(
        mine.map(({ user, shown, isHere }) => [user, shared({ ...shown, isGone: !isHere, isUnsettled: true })]),
      )
      if (!(await this.#isSaved(shard, entries))) {
        for (const { user } of mine) this.#look(user, timing.graceMs)
        return
      }
      this.#options.temporaryMembers.gone(mine.flatMap(({ user, isHere }) => (isHere ? [] : [user])))
      for (const { user, shown, before } of mine) {
        const isAgain = this.#again.delete(user)
        this.#announcedOf(shard).set(user, entries.get(user)!)
        const { servers = [], friends = [], partners = [], blocked = [] } = audiences.get(user) ?? {}
        const homes = [...servers, ...friends, ...partners]
        const pause = Math.min(timing.spreadEveryMs * (1 + homes.length / homesAtHalfRate), timing.spreadAtLeastEveryMs)
        // In the order of time, so an earlier entry goes first.
        this.#told.delete(user)
        this.#told.set(user, { at: now, until: now + pause })
        if (shown.status === "offline" && before.status !== "offline") unseen.push(user)
        if (isAgain || !looksSame(shown, before))
          told.push({ user, ...shown, version: this.#nextVersion(shard), homes, except: blocked })
      }
    })
    for (const { shard, user, regard, wasSeen } of regards) {
      const { servers = [], friends = [], blocked = [] } = audiences.get(user) ?? {}
      const to = { user, version: this.#nextVersion(shard), homes: [regard.other] }
      if (regard.as !== "blocked") {
        const { status, custom_status, custom_emoji } = this.#announcedOf(shard).get(user) ?? offline
        // Who has seen nothing of somebody takes them for offline.
        const isKnown = status === "offline" && (regard.as === "member" || regard.isToldOffline)
        const ofKind = regard.as === "friend" ? friends : servers
        if (ofKind.includes(regard.other) && !isKnown)
          told.push({ ...to, status, custom_status, custom_emoji, except: blocked })
      } else if (regard.wereFriends || (wasSeen && blocked.includes(regard.other)))
        // A user must not conclude that they were blocked: a user who did not see the other hears nothing.
        told.push({ ...to, ...offline, except: [], isApart: true })
    }
    if (unseen.length > 0)
      store
        .noteLastSeen(unseen, Math.floor(clock.now() / 1000))
        .catch((error: unknown) => log.warn({ err: error }, "last seen not stored"))
    metrics.presence.told.inc(told.length)
    this.#spread(told, 0)
  }

  #nextVersion({ epoch }: Shard): PresenceChange["version"] {
    return [epoch, ++this.#count]
  }

  /**
   * PRES1. The shard may have moved to another worker meanwhile. Its next owner tells the others,
   * because the record is unsettled.
   */
  async #isSaved(shard: Shard, entries: ReadonlyMap<Snowflake, Announced>): Promise<boolean> {
    const { announced, host, log } = this.#options
    try {
      return (await announced.add(shard, entries)) && host.shard(shard.number) === shard && !shard.closing
    } catch (error) {
      log.warn({ err: error, shard: shard.number }, "presences not written")
      return false
    }
  }

  /** What was sent long enough ago is settled: a next owner need not send it again. */
  async #settle(now: number): Promise<void> {
    const { timing, host, announced } = this.#options
    const before = now - timing.settleAfterMs
    const settled = new Map<Shard, { kept: Map<Snowflake, Announced>; gone: Snowflake[] }>()
    for (const [user, { at }] of this.#told) {
      if (at > before) break
      if (this.#due.has(user) || this.#options.temporaryMembers.isPending(user)) continue
      const shard = host.shard(shardOf(user))
      const entry = shard && this.#announcedOf(shard).get(user)
      if (!shard || !entry) {
        this.#forget(user)
        continue
      }
      if (shard.closing) continue
      let mine = settled.get(shard)
      if (!mine) settled.set(shard, (mine = { kept: new Map(), gone: [] }))
      if (entry.isGone) mine.gone.push(user)
      else mine.kept.set(user, shared({ ...entry, isUnsettled: false }))
    }
    await eachBatch(settled, async (shard, { kept, gone }) => {
      await announced.add(shard, kept)
      await announced.remove(shard, gone)
      for (const [user, entry] of kept) this.#announcedOf(shard).set(user, entry)
      for (const user of gone) this.#announcedOf(shard).delete(user)
      for (const user of [...kept.keys(), ...gone]) this.#told.delete(user)
    })
  }

  #forget(user: Snowflake): void {
    this.#told.delete(user)
    this.#left.delete(user)
    this.#again.delete(user)
    this.#regards.delete(user)
  }

  /**
   * Sends changes to the owners of the homes that are to hear of them. The owners know which
   * workers serve these homes.
   */
  #spread(changes: readonly PresenceChange[], attempt: number): void {
    const { view, bus, directory } = this.#options.cluster
    const isDead = (worker: string) => view.isDead(worker)
    const shares = new Map<string | undefined, PresenceChange[]>()
    for (const change of changes)
      for (const [owner, homes] of byOwner(change.homes, directory, isDead)) append(shares, owner, { ...change, homes })
    for (const [owner, mine] of shares)
      if (owner === undefined) this.#spreadLater(mine, attempt)
      else if (owner === view.self.id) this.#toWorkers(mine, attempt)
      else
        this.#portion(mine, changes =>
          bus.notify(owner, "presence", { changes, attempt } satisfies Spread, () =>
            this.#spreadLater(changes, attempt),
          ),
        )
  }

  #toWorkers(changes: readonly PresenceChange[], attempt: number): void {
    const { cluster, host, deliver } = this.#options
    const { self } = cluster.view
    const byWorker = new Map<string, PresenceChange[]>()
    const notHere: PresenceChange[] = []
    for (const change of changes) {
      const homesOf = new Map<string, Snowflake[]>()
      const elsewhere: Snowflake[] = []
      for (const home of change.homes) {
        const shard = host.shard(shardOf(home))
        if (!shard || shard.closing) elsewhere.push(home)
        else for (const worker of shard.interests.get(home)?.keys() ?? []) append(homesOf, worker, home)
      }
      for (const [worker, homes] of homesOf) append(byWorker, worker, { ...change, homes })
      if (elsewhere.length > 0) notHere.push({ ...change, homes: elsewhere })
    }
    for (const [worker, mine] of byWorker)
      if (worker === self.id) deliver(mine)
      else this.#toWorker(worker, mine, attempt)
    if (notHere.length > 0) this.#spreadLater(notHere, attempt)
  }

  #toWorker(worker: string, changes: readonly PresenceChange[], attempt: number): void {
    const { bus, view } = this.#options.cluster
    this.#portion(changes, changes =>
      bus.notify(worker, "presences", changes, () => {
        if (!view.isDead(worker)) this.#later(changes, attempt, again => this.#toWorker(worker, changes, again))
      }),
    )
  }

  /** What goes to a worker in one turn of the loop is one message. */
  #portion(changes: readonly PresenceChange[], send: (changes: readonly PresenceChange[]) => void): void {
    const [first, ...later] = inPortions(changes, homeBatchSize)
    send(first!)
    const next = () => {
      const portion = later.shift()
      if (!portion || this.#stopped) return
      send(portion)
      this.#options.clock.soon(next)
    }
    if (later.length > 0) this.#options.clock.soon(next)
  }

  /** The homes are on their way to another owner, or their owner could not be reached. */
  #spreadLater(changes: readonly PresenceChange[], attempt: number): void {
    this.#later(changes, attempt, again => this.#spread(changes, again))
  }

  #later(changes: readonly PresenceChange[], attempt: number, act: (attempt: number) => void): void {
    const { clock, metrics } = this.#options
    if (attempt >= maxAttempts || this.#waiting + changes.length > maxWaiting || this.#stopped) {
      metrics.presence.shed.inc(changes.length)
      return
    }
    this.#waiting += changes.length
    clock.after(lookAgainAfterMs, () => {
      this.#waiting -= changes.length
      if (!this.#stopped) act(attempt + 1)
    })
  }
}

const plain = new Map<string, Announced>()

/** The same of users who show no text of their own, as most do: there are few of those. */
function shared(entry: Announced): Announced {
  const { status, custom_status, custom_emoji, isGone, isUnsettled } = entry
  if (custom_status !== null || custom_emoji !== null) return entry
  const key = `${status} ${isGone} ${isUnsettled}`
  let known = plain.get(key)
  if (!known) plain.set(key, (known = entry))
  return known
}

async function eachBatch<V>(of: ReadonlyMap<Shard, V>, act: (shard: Shard, value: V) => Promise<void>) {
  const all = [...of]
  for (let i = 0; i < all.length; i += saveBatchSize)
    await Promise.all(all.slice(i, i + saveBatchSize).map(([shard, value]) => act(shard, value)))
}

function byShard(changes: readonly Change[]): Map<Shard, Change[]> {
  const found = new Map<Shard, Change[]>()
  for (const change of changes) append(found, change.shard, change)
  return found
}
