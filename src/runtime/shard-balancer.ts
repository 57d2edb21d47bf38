import { gapPart, type DeliveryLogs } from "../cluster/delivery-log.ts"
import type { Directory, ShardOwner } from "../cluster/directory.ts"
import type { Interest, Interests } from "../cluster/interests.ts"
import type { Clock, Timer } from "../std/clock.ts"
import { wantedPlace } from "../domain/core/placement.ts"
import { shardOf } from "../domain/core/snowflake.ts"
import type { Log } from "../observability/log.ts"
import type { Metrics } from "../observability/metrics.ts"
import type { OutboxRow } from "../storage/core/lanes.ts"
import type { ClusterView, DeadWorkers } from "./cluster-view.ts"
import type { Host } from "./host.ts"
import type { Outbox } from "./outbox.ts"
import type { InterestObserver } from "./plugs.ts"
import { readRowBody } from "./row.ts"
import { Shard } from "./shard.ts"
import { isTransient } from "./transient.ts"
import { append } from "../std/multi-map.ts"
import { backoffMs } from "../std/backoff.ts"

/** The other members, as the balancer speaks to them and knows of them. */
interface BalancerPeers {
  /**
   * Dead workers whose logs may lack something unknown: only a Redis that no longer exists knew which homes each of them
   * took.
   */
  doubtfulLogs(): Promise<readonly string[]>
  /** The interests that the living workers report themselves. */
  askInterests(shards: readonly number[]): Promise<readonly Interest[]>
  /** Tells every other member who owns these shards now. */
  announce(rows: readonly ShardOwner[]): void
  announceLeaving(): Promise<void>
  /** Resolves when the owner of a shard serves it; rejects when that takes longer. */
  served(shard: number, timeoutMs: number): Promise<unknown>
}

export interface ShardBalancerOptions {
  /** Who is there, and who owns what. */
  readonly cluster: {
    readonly view: Pick<ClusterView, "self" | "candidates" | "isLiving">
    readonly dead: Pick<DeadWorkers, "note" | "takeForgotten">
    readonly directory: Directory
  }
  readonly host: Pick<Host, "shards" | "shard" | "addShard" | "removeShard" | "barrier">
  readonly outbox: Pick<Outbox, "republish" | "dropInterest">
  readonly logs: Pick<DeliveryLogs, "positions" | "append" | "drop">
  /** What Redis knows of some shards, and whether that is everything. */
  readonly interests: Pick<Interests, "load" | "replace">
  readonly store: {
    /** Another text after every change of an owner. */
    readonly epochs: () => Promise<string>
    readonly shards: (only?: readonly number[]) => Promise<readonly ShardOwner[]>
    readonly take: (seen: readonly ShardOwner[], taker: string) => Promise<readonly ShardOwner[]>
    readonly handOver: (
      seen: readonly Pick<ShardOwner, "shard" | "epoch">[],
      owner: string,
      taker: string,
    ) => Promise<readonly ShardOwner[]>
    readonly outbox: (shards: readonly number[]) => Promise<readonly OutboxRow[]>
  }
  readonly peers: BalancerPeers
  readonly observers: readonly InterestObserver[]
  readonly timing: { readonly rebalanceEveryMs: number; readonly shardsAtATime: number }
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
}

/** Milliseconds that a taker is given to open what it was handed, before it is handed more. */
const takerTimeoutMs = 500
/** Milliseconds for which a worker that leaves tries again to give away what it still has. */
const leaveTimeoutMs = 3_000
/** Milliseconds between two looks for shards that are asked for here and are not here. */
const seekEveryMs = 100
/** Milliseconds between two looks whether the map of owners has changed, and after which it is read although it has not. */
const lookEveryMs = 5_000
const readEveryMs = 60_000

/**
 * Decides which shards this worker owns. PostgreSQL says who does; every worker reckons alike who should. It keeps:
 *   BAL1  A shard without a living owner is taken by compare-and-set; a living owner alone decides to release.
 *   BAL2  A new owner first reads the ends of the logs, then publishes what it inherits, and
 *       only then decides.
 *   BAL3  A shard is handed over without unfinished work.
 *   BAL4  If it is unknown what a dead worker received, its log is marked with a gap.
 *   BAL5  A worker that leaves keeps no shard: it passes on what it is still given.
 *   BAL6  A hand-over with an unknown outcome cannot take effect after the shard is opened
 *       again.
 */
export class ShardBalancer {
  readonly #options: ShardBalancerOptions
  #timer: Timer | undefined
  #round: Promise<void> | undefined
  #leaving = false
  /** Those who could give something back have heard of the leaving. */
  #isAnnounced = false
  #stopped = false
  /** The last round that failed is the last that there was. */
  #isFailing = false
  /** Shards that somebody has asked for here, and that are not here. */
  readonly #sought = new Set<number>()
  #isSeeking = false
  /** Something has changed since the map of owners was last read. */
  #look = true
  #lookedAt = -Infinity
  /** The map's epochs when it was last read and there was nothing to take or to give; undefined: there was. */
  #atRest: string | undefined
  #readAt = -Infinity

  constructor(options: ShardBalancerOptions) {
    this.#options = options
  }

  async start(): Promise<void> {
    await this.balance()
    this.#timer = this.#options.clock.every(this.#options.timing.rebalanceEveryMs, () => {
      this.#again().catch((error: unknown) => this.noteFailure(error))
    })
  }

  stop(): void {
    this.#stopped = true
    this.#timer?.stop()
  }

  /** Takes what should be here and nobody living holds, gives away what should be elsewhere. Rounds never overlap. */
  balance(): Promise<void> {
    this.#look = true
    return this.#again()
  }

  #again(): Promise<void> {
    this.#round ??= this.#balance().finally(() => {
      this.#round = undefined
    })
    return this.#round
  }

  /** A round that is under way may have read what is no longer so: it is waited for. */
  async #balanceAnew(): Promise<void> {
    await this.#round?.catch(() => {})
    await this.balance()
  }

  /** Gives everything away, to those who should have it without this worker, and until `stop` what it is still given. */
  async leave(): Promise<void> {
    const { host, peers, clock, log } = this.#options
    const { view } = this.#options.cluster
    this.#leaving = true
    const until = clock.monotonic() + leaveTimeoutMs
    await this.#round?.catch(() => {})
    for (;;) {
      try {
        if (!this.#isAnnounced) await peers.announceLeaving()
        this.#isAnnounced = true
        await this.#again()
        if (this.#stopped || host.shards.size === 0 || view.candidates().every(({ id }) => id === view.self.id)) return
      } catch (error) {
        if (clock.monotonic() >= until) throw error
        log.debug({ err: error }, "leaving is retried")
      }
      if (clock.monotonic() >= until) throw new Error(`${host.shards.size} shards are left`)
      await clock.sleep(100)
    }
  }

  /** Somebody's notice: shards are ours now, or another's, or nobody's, because whom they were given to is dead. */
  noteOwners(rows: readonly ShardOwner[]): void {
    const { host } = this.#options
    const { directory, view } = this.#options.cluster
    directory.learn(rows)
    if (rows.some(row => row.owner === null || (row.owner === view.self.id && !host.shard(row.shard))))
      this.#balanceAnew().catch((error: unknown) => this.noteFailure(error))
  }

  /** While a service is away every round fails, for everybody who waits for it: that is said once until one succeeds. */
  noteFailure(error: unknown): void {
    const isKnown = isTransient(error) && (this.#isFailing || this.#leaving)
    this.#options.log[isKnown ? "debug" : "warn"]({ err: error }, "rebalancing failed")
    this.#isFailing = true
  }

  /**
   * Somebody asks here for a shard that is not here: it may have been given to this worker, and the notice have been lost.
   * However many ask, it is looked for them all at once, and not too often.
   */
  seek(shard: number): void {
    this.#sought.add(shard)
    if (this.#isSeeking) return
    this.#isSeeking = true
    this.#seek()
      .finally(() => (this.#isSeeking = false))
      .catch((error: unknown) => this.#options.log.warn({ err: error }, "shards not checked"))
  }

  async #seek(): Promise<void> {
    const { store, host, clock, log } = this.#options
    const { directory, view } = this.#options.cluster
    while (this.#sought.size > 0 && !this.#stopped) {
      const shards = [...this.#sought].filter(shard => !host.shard(shard))
      this.#sought.clear()
      try {
        if (shards.length > 0) directory.learn(await store.shards(shards))
        if (shards.some(shard => directory.ownerOf(shard) === view.self.id && !host.shard(shard)))
          await this.#balanceAnew()
      } catch (error) {
        log.debug({ err: error }, "shards not checked")
      }
      await clock.sleep(seekEveryMs)
    }
  }

  /**
   * PostgreSQL has a row of one of these shards that was not written here. If they are another's, they are let go; if they
   * are ours nevertheless, they are opened anew, and go on after that row.
   */
  async reopen(shards: readonly Shard[]): Promise<void> {
    const { host } = this.#options
    for (const shard of shards) shard.closing = true
    // What was committed before stands in the logs, and who takes it in Redis, before both are read.
    await host.barrier().catch(() => {})
    for (const shard of shards) host.removeShard(shard)
    await this.#balanceAnew()
  }

  async #balance(): Promise<void> {
    this.#forgetTheDead()
    if (this.#leaving) return this.#isAnnounced ? this.#depart() : undefined
    const { store, clock } = this.#options
    const now = clock.monotonic()
    if (!this.#look && now - this.#lookedAt < lookEveryMs) return
    const mayRest = !this.#look && this.#atRest !== undefined && now - this.#readAt < readEveryMs
    this.#lookedAt = now
    if (mayRest && (await store.epochs()) === this.#atRest && !this.#look) return
    this.#look = false
    this.#readAt = now
    try {
      await this.#takeAndGive()
      this.#isFailing = false
    } catch (error) {
      this.#look = true
      throw error
    }
  }

  async #takeAndGive(): Promise<void> {
    const { store, host, peers, metrics } = this.#options
    const { directory, view } = this.#options.cluster
    const { self } = view
    this.#atRest = undefined
    const rows = await directory.loadAll()
    const places = view.candidates()
    const wanted = (shard: number) => wantedPlace(shard, places)?.id
    this.#letGo(rows)

    // What PostgreSQL says is ours and is not here yet: handed over by its former owner, or taken before an error.
    const given = rows.filter(row => row.owner === self.id && !host.shard(row.shard))
    const free = rows.filter(
      row =>
        row.owner !== self.id && (row.owner === null || !view.isLiving(row.owner)) && wanted(row.shard) === self.id,
    )
    const taken = free.length > 0 ? await store.take(free, self.id) : []
    if (given.length + taken.length > 0) {
      await this.#open([...given, ...taken])
      if (taken.length > 0) peers.announce(taken)
      directory.learn([...given, ...taken])
      metrics.shards.takeOvers.inc(taken.length)
      metrics.shards.handOvers.in.inc(given.length)
    }
    const isRight =
      given.length + free.length === 0 && [...host.shards.keys()].every(shard => wanted(shard) === self.id)
    await this.#giveAway()
    if (isRight) this.#atRest = epochsOf(rows)
  }

  /** Shards that are here though PostgreSQL names another owner: whatever happened, they are not ours. */
  #letGo(rows: readonly ShardOwner[]): void {
    const { host } = this.#options
    const { self } = this.#options.cluster.view
    for (const row of rows) {
      const shard = host.shard(row.shard)
      if (shard && row.owner !== self.id && row.epoch > shard.epoch) host.removeShard(shard)
    }
  }

  /** BAL2 */
  async #open(owned: readonly ShardOwner[]): Promise<void> {
    const { store, logs, host, outbox, observers, clock, log } = this.#options
    const { view, dead } = this.#options.cluster
    const numbers = owned.map(row => row.shard)
    const [rows, { interests, unknown }, opened] = await Promise.all([
      store.outbox(numbers),
      this.#interestsOf(owned),
      Promise.all(observers.map(one => one.inherit(owned.map(({ shard, epoch }) => ({ number: shard, epoch }))))),
    ])
    const workers = new Set([...interests.values()].flatMap(list => list.map(interest => interest.worker)))
    const positions = new Map<string, ReadonlyMap<number, number> | undefined>()
    for (const worker of workers) {
      let at = await logs.positions(worker)
      // After a fail-over of Redis a living worker makes its log anew.
      while (!at && view.isLiving(worker)) {
        await clock.sleep(20)
        at = await logs.positions(worker)
      }
      positions.set(worker, at)
    }
    for (const worker of workers) if (!view.isLiving(worker)) dead.note(worker)

    const rowsOf = new Map<number, OutboxRow[]>(numbers.map(number => [number, []]))
    for (const row of rows) rowsOf.get(row.shard)!.push(row)
    // BAL4
    const doubtful = unknown.size > 0 ? await this.#options.peers.doubtfulLogs() : []
    for (const worker of doubtful)
      for (const { shard, epoch } of owned) {
        if (!unknown.has(shard)) continue
        // Also of what is still to come: none of it will be sent there.
        const next = (rowsOf.get(shard)!.at(-1)?.number ?? 0) + 1
        await logs.append(worker, [gapPart({ shard, epoch, number: next })])
      }
    for (const { shard: number, epoch } of owned) {
      const mine = rowsOf.get(number)!
      const newest = mine.at(-1)
      const shard = new Shard({
        number,
        epoch,
        lastId: newest?.last_id,
        lastRow: newest?.number ?? 0,
        interests: interests.get(number) ?? [],
        positions: new Map(
          [...positions].flatMap(([worker, at]) => (at?.has(number) ? [[worker, at.get(number)!]] : [])),
        ),
      })
      // OUT2: what they end may not be in effect yet.
      const republished = outbox.republish(shard, mine)
      for (const row of mine)
        for (const [requestId, reply] of readRowBody(row.body).answers)
          shard.answered.set(requestId, { reply: republished.then(() => reply), at: this.#options.clock.monotonic() })
      host.addShard(shard)
      for (const open of opened) open(shard)
    }
    log.debug({ shards: owned.length, rows: rows.length }, "shards opened")
  }

  /** Where Redis does not know, because nobody had a shard before or because it has failed over, the workers are asked. */
  async #interestsOf(
    owned: readonly ShardOwner[],
  ): Promise<{ interests: ReadonlyMap<number, readonly Interest[]>; unknown: ReadonlySet<number> }> {
    const { interests: recorded, peers } = this.#options
    const shards = owned.map(({ shard }) => shard)
    const known = await recorded.load(shards)
    const interests = new Map([...known].map(([shard, { list }]) => [shard, list]))
    const unknown = shards.filter(shard => !known.get(shard)!.isComplete)
    if (unknown.length === 0) return { interests, unknown: new Set() }
    const keyOf = ({ home, worker }: Interest) => `${home} ${worker}`
    const found = new Map(
      unknown.map(shard => [shard, new Map(interests.get(shard)!.map(interest => [keyOf(interest), interest]))]),
    )
    for (const interest of await peers.askInterests(unknown))
      found.get(shardOf(interest.home))!.set(keyOf(interest), interest)
    for (const [shard, list] of found) interests.set(shard, [...list.values()])
    await Promise.all(
      owned.flatMap(({ shard, epoch }) =>
        found.has(shard) ? [recorded.replace({ number: shard, epoch }, interests.get(shard)!)] : [],
      ),
    )
    return { interests, unknown: new Set(unknown) }
  }

  async #giveAway(): Promise<void> {
    const { host, timing } = this.#options
    const { view } = this.#options.cluster
    const places = view.candidates()
    // With nobody to take them they stay; the next worker to start finds them without a living owner.
    if (places.length === 0) return host.barrier()
    const leaving = new Map<string, number[]>()
    for (const number of host.shards.keys()) {
      const taker = wantedPlace(number, places)!.id
      if (taker === view.self.id) continue
      append(leaving, taker, number)
    }
    for (const [taker, shards] of leaving) {
      // One portion after another: all at once would be nobody's until the taker has opened the last of them. A taker that
      // is slow, or busy with giving something to us, is not waited for twice; nor is one for shards that nobody has used.
      let prompt = true
      for (let i = 0; i < shards.length; i += timing.shardsAtATime) {
        const portion = shards.slice(i, i + timing.shardsAtATime)
        const used = portion.filter(number => (host.shard(number)?.committedRow ?? 0) > 0)
        await this.#handOver(portion, taker)
        if (prompt && used.length > 0) prompt = await this.#isServed(used[0]!)
      }
    }
  }

  /** BAL5 */
  async #depart(): Promise<void> {
    await this.#passOn()
    await this.#giveAway()
  }

  /** What a worker gave that does not know yet that this one leaves: it is not open here, so there is nothing to finish. */
  async #passOn(): Promise<void> {
    const { host, store } = this.#options
    const { directory, view } = this.#options.cluster
    const { self } = view
    const places = view.candidates().filter(({ id }) => id !== self.id)
    if (places.length === 0) return
    const all = await directory.loadAll()
    this.#letGo(all)
    const given = all.filter(({ shard, owner }) => owner === self.id && !host.shard(shard))
    for (const { id } of places) {
      const shards = given.filter(({ shard }) => wantedPlace(shard, places)!.id === id)
      if (shards.length > 0) this.#tell(await store.handOver(shards, self.id, id))
    }
  }

  /** Everybody, and here. */
  #tell(rows: readonly ShardOwner[]): void {
    const { cluster, peers } = this.#options
    cluster.directory.learn(rows)
    if (rows.length > 0) peers.announce(rows)
    // The worker that they were given to is dead; this one may be the next that should have them.
    if (rows.some(({ owner }) => owner === null)) this.#look = true
  }

  async #isServed(shard: number): Promise<boolean> {
    return this.#options.peers.served(shard, takerTimeoutMs).then(
      () => true,
      () => false,
    )
  }

  /** BAL3: nothing new is taken, what was taken is finished, what was decided is committed and appended; then the taker has them. */
  async #handOver(numbers: readonly number[], taker: string): Promise<void> {
    const { host, store, metrics, log } = this.#options
    const { self } = this.#options.cluster.view
    const shards = numbers.flatMap(number => host.shard(number) ?? [])
    if (shards.length === 0) return
    // Commands that still load facts find this at their turn and go to the taker; what was decided is ahead of the barrier.
    for (const shard of shards) shard.closing = true
    try {
      await host.barrier()
    } catch (error) {
      for (const shard of shards) shard.closing = host.shard(shard.number) !== shard
      throw error
    }
    let rows: readonly ShardOwner[]
    try {
      rows = await store.handOver(shards.map(seenOf), self.id, taker)
    } catch (error) {
      const ours = await this.#settle(shards)
      if (ours.length > 0 && !this.#leaving) await this.#open(ours)
      throw error
    }
    for (const shard of shards) host.removeShard(shard)
    this.#tell(rows)
    if (rows.length < shards.length) this.#look = true
    metrics.shards.handOvers.out.inc(rows.length)
    log.debug({ shards: rows.length, taker }, "shards handed over")
  }

  /**
   * BAL6. A hand-over that failed may have happened, or happen yet: with the epoch raised it finds nothing any more.
   * @returns those that are this worker's
   */
  async #settle(shards: readonly Shard[]): Promise<readonly ShardOwner[]> {
    const { store, host, clock } = this.#options
    const { self } = this.#options.cluster.view
    for (let attempt = 0; ; attempt++) {
      try {
        await store.handOver(shards.map(seenOf), self.id, self.id)
        const rows = await store.shards(shards.map(({ number }) => number))
        // Nothing of them is unfinished, and what was here has the epoch of before.
        for (const shard of shards) host.removeShard(shard)
        this.#tell(rows)
        return rows.filter(({ owner }) => owner === self.id)
      } catch (error) {
        if (this.#stopped) throw error
        await clock.sleep(backoffMs(attempt, 50, 1_000))
      }
    }
  }

  /** The interest of a dead worker, and its log, live for the resume window and go together. */
  #forgetTheDead(): void {
    const { cluster, host, outbox, logs, log } = this.#options
    for (const worker of cluster.dead.takeForgotten()) {
      for (const shard of host.shards.values()) outbox.dropInterest(shard, worker)
      logs.drop(worker).catch((error: unknown) => log.warn({ err: error, of: worker }, "log not dropped"))
    }
  }
}

const seenOf = ({ number, epoch }: Shard) => ({ shard: number, epoch })

/** As `epochs` says it of the same rows. */
const epochsOf = (rows: readonly ShardOwner[]): string =>
  `${rows.length} ${rows.reduce((sum, { epoch }) => sum + epoch, 0)}`
