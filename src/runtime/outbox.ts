import type { JobRequest } from "../contract/core/registry.ts"
import { Failure, unavailable } from "../contract/core/errors.ts"
import { gapPart, type AppendAnswer, type LogPart } from "../cluster/delivery-log.ts"
import type { Interests } from "../cluster/interests.ts"
import type { Clock, Timer } from "../std/clock.ts"
import { shardOf } from "../domain/core/snowflake.ts"
import type { Log } from "../observability/log.ts"
import type { Metrics } from "../observability/metrics.ts"
import type { OutboxRow } from "../storage/core/lanes.ts"
import type { SweptRow } from "../storage/core/placement.ts"
import type { ClusterView, DeadWorkers } from "./cluster-view.ts"
import type { Publisher } from "./commit-queue.ts"
import { jobOf, logFields, messagesIn, readRowBody, type Row, type RowItem } from "./row.ts"
import type { Shard } from "./shard.ts"
import { backoffMs } from "../std/backoff.ts"
import { append } from "../std/multi-map.ts"

/** Shards whose interests are written at once. */
const saveBatchSize = 128
/** Bytes of the parts that are appended to a log at once; one part may be larger. */
const maxAppendBytes = 1024 * 1024
/** What takes so long to publish is written to the log: who asks for something waits for a few seconds only. */
const slowFlushMs = 1_000
/** Rows that one statement deletes, and messages that it names: the last row may bring more. */
const maxSwept = { rows: 10_000, messages: 50_000 }

/** The delivery logs of all workers, as the outbox writes to them. */
export interface LogAppends {
  /** Another text each time that a part of what was appended may be lost. */
  readonly replications: string
  append(worker: string, parts: readonly LogPart[]): Promise<AppendAnswer[]>
  /** For each shard, the last number that stands in a log; undefined when there is no such log. */
  positions(worker: string): Promise<ReadonlyMap<number, number> | undefined>
}

/** A tell on its way, named by where it stands: receivers drop what they have seen. */
export interface SentTell {
  readonly actor: string
  readonly id: string
  readonly command: string
  readonly input: unknown
  readonly source: { readonly shard: number; readonly number: number; readonly item: number }
  /** It may have been sent before. */
  readonly again: boolean
}

/** The outbox as PostgreSQL keeps it. */
interface OutboxStore {
  /** Rows that memory no longer holds. */
  outbox(shards: readonly number[]): Promise<OutboxRow[]>
  sweep(rows: readonly SweptRow[]): Promise<void>
  /** Whether a worker was declared dead. */
  isDead(worker: string): Promise<boolean>
}

/** Where items go that do not go to a delivery log. */
interface OutboxTargets {
  /** Delivers a tell to the owner of its home; resolves when the owner has it in a commit of its own. */
  tell(tell: SentTell): Promise<void>
  addJob(job: JobRequest): Promise<void>
  revoke(sessions: readonly string[]): Promise<void>
  /** Makes every worker look at these sessions again. */
  renew(sessions: readonly string[]): Promise<void>
}

/** Who hears what comes of publishing. */
export interface OutboxEvents {
  /** Another worker has appended under a higher epoch: this one does not own the shard any more. */
  stale(shard: Shard): void
  /** A part of what waited has been published. */
  progressed(): void
  /** Rows were committed, which others than this worker may read. */
  committed(): void
}

export interface OutboxOptions {
  readonly logs: LogAppends
  readonly interests: Pick<Interests, "add" | "remove" | "replace">
  /** Those of this worker, by number. */
  readonly shards: ReadonlyMap<number, Shard>
  readonly cluster: {
    readonly view: Pick<ClusterView, "isDead" | "isLiving" | "wellForMs">
    readonly dead: Pick<DeadWorkers, "isForgotten" | "note">
  }
  readonly store: OutboxStore
  readonly targets: OutboxTargets
  readonly events: OutboxEvents
  readonly timing: { readonly keepMs: number; readonly sweepEveryMs: number }
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
}

interface Flush {
  readonly rows: readonly Row[]
  readonly published: () => void
  readonly inEffect: (() => void) | undefined
}

/** What is remembered of a row of which everything has arrived, until it is deleted. Its events are not. */
interface Confirmed extends SweptRow {
  readonly owned: Shard
  /** What Redis may lose: jobs, and sessions that ended. */
  readonly items: readonly RowItem[]
  /** When it was, by the clock and by the time in which Redis was well. */
  readonly at: number
  wellAt: number
}

const isSentAgain = ([kind]: RowItem): boolean => kind === "j" || kind === "r"
const nothing: readonly never[] = []

/** What a row does to sessions. */
const revokedBy = (row: Pick<Row, "items">): readonly string[] =>
  row.items.flatMap(item => (item[0] === "r" ? item[1] : []))
const renewedBy = (row: Pick<Row, "items">): readonly string[] =>
  row.items.flatMap(item => (item[0] === "n" ? item[1] : []))
const changesSessions = ({ items }: Row): boolean => items.some(([kind]) => kind === "r" || kind === "n")

/**
 * Publishes what was committed. It keeps:
 *   OUT1  Rows of a shard reach each log in order and once, or the log is marked with a gap.
 *   OUT2  A caller is answered after the append and after its revocations are in effect. Nobody else waits for
 *       those, whichever worker they wait for.
 *   OUT3  A row is deleted only when everything in it is confirmed, its replies can no longer be
 *       requested, and Redis has been the same long enough that everything it may lose can be
 *       sent again.
 *   OUT4  After a fail-over of Redis every log is compared with what was sent to it before
 *       anything else is sent.
 */
export class Outbox implements Publisher {
  readonly #options: OutboxOptions
  #waiting: Flush[] = []
  #running = false
  /** When something last succeeded while it was running. */
  #progressAt = 0
  /** Redis may have lost what it was sent last. */
  #isInDoubt = false
  /** The logs are being compared with what was sent to them. */
  #isComparing = false
  /** All logs held what was sent to them when this was the text of `LogAppends.replications`. */
  #comparedAt: string | undefined
  /** Interest is to be saved though nothing is published. */
  #isSaveDue = false
  #stopped = false
  #unconfirmed = 0
  /** With when that was by the clock, and by the time in which Redis was well. */
  #confirmed: Confirmed[] = []
  /** By the shard that tells and the one that is told: the last tell that is on its way. */
  readonly #tells = new Map<number, Map<number, Promise<void>>>()
  /** Shards with interest that is not saved yet. */
  readonly #touched = new Set<Shard>()
  /** Changes of sessions that are not in effect yet. */
  readonly #changes = new Set<Promise<void>>()
  readonly #sweeper: Timer
  #sweeping = false

  constructor(options: OutboxOptions) {
    this.#options = options
    this.#sweeper = options.clock.every(options.timing.sweepEveryMs, () => {
      // One that waits for PostgreSQL takes what the next one would have taken.
      if (this.#sweeping) return
      this.#sweeping = true
      this.#sweep()
        .catch((error: unknown) => options.log.warn({ err: error }, "outbox sweep failed"))
        .finally(() => (this.#sweeping = false))
    })
  }

  get behind(): number {
    return this.#waiting.length
  }

  get unconfirmed(): number {
    return this.#unconfirmed
  }

  /** How long nothing could be appended, nor what has to stand before it be saved, although something waits. */
  get stuckForMs(): number {
    return this.#running ? this.#options.clock.monotonic() - this.#progressAt : 0
  }

  #noteProgress(): void {
    this.#progressAt = this.#options.clock.monotonic()
  }

  /**
   * Whether what was published stands in the logs of now: no part of them was lost since, or it has
   * been sent again.
   */
  get isWhole(): boolean {
    const { replications } = this.#options.logs
    this.#comparedAt ??= replications
    const isUnsure = this.#isInDoubt || this.#isComparing
    if (!isUnsure && this.#comparedAt !== replications) this.doubt()
    return !isUnsure && this.#comparedAt === replications
  }

  publish(rows: readonly Row[], published: () => void, inEffect?: () => void): void {
    this.#comparedAt ??= this.#options.logs.replications
    this.#unconfirmed += rows.length
    if (rows.length > 0) this.#options.events.committed()
    this.#waiting.push({ rows, published, inEffect })
    this.#start()
  }

  #start(): void {
    if (this.#running) return
    this.#running = true
    this.#noteProgress()
    this.#run().catch((error: unknown) =>
      this.#options.log[this.#stopped ? "debug" : "fatal"]({ err: error }, "publication failed"),
    )
  }

  /** Redis is another one, or the same after a restart: what it was sent last may be missing. */
  doubt(): void {
    this.#isInDoubt = true
    this.#start()
  }

  /**
   * Rows of a former owner, in order, before anything of this one.
   * @returns resolves when what they do to sessions is in effect
   */
  republish(shard: Shard, rows: readonly OutboxRow[]): Promise<void> {
    if (rows.length === 0) return Promise.resolve()
    this.#options.metrics.outbox.republished.inc(rows.length)
    const republished = rows.map(row => ({
      shard,
      number: row.number,
      items: readRowBody(row.body).items,
      again: true,
    }))
    return new Promise(resolve => this.publish(republished, () => {}, resolve))
  }

  stop(): void {
    this.#stopped = true
    this.#sweeper.stop()
  }

  async #run(): Promise<void> {
    try {
      while ((this.#waiting.length > 0 || this.#isSaveDue || this.#isInDoubt) && !this.#stopped) {
        if (this.#isInDoubt) {
          this.#isInDoubt = false
          this.#isComparing = true
          await this.#sendAgain()
          this.#isComparing = false
          continue
        }
        // What was committed while the last flush was out goes together.
        const flushes = this.#waiting
        this.#waiting = []
        this.#isSaveDue = false
        const rows = flushes.flatMap(flush => flush.rows)
        const change = this.#changeAccess(rows)
        const startedAt = this.#options.clock.monotonic()
        await this.#flush(rows)
        this.#noteProgress()
        const tookMs = this.#progressAt - startedAt
        if (tookMs >= slowFlushMs)
          this.#options.log.warn({ took_ms: Math.round(tookMs), rows: rows.length }, "publication was slow")
        for (const flush of flushes) {
          flush.published()
          if (flush.inEffect) this.#afterChanges(flush.inEffect)
        }
        this.#options.events.progressed()
        for (const row of rows) this.#sendElsewhere(row, changesSessions(row) ? change : undefined)
      }
    } finally {
      this.#running = false
    }
  }

  /** OUT2. Beside the appends, which do not wait for a worker that is slow to hear of it. */
  #changeAccess(rows: readonly Pick<Row, "items">[]): Promise<void> | undefined {
    const { targets } = this.#options
    const revoked = rows.flatMap(revokedBy)
    const renewed = rows.flatMap(renewedBy)
    if (revoked.length + renewed.length === 0) return undefined
    const change = Promise.all([
      revoked.length > 0 ? this.#untilDone("revocation", () => targets.revoke(revoked)) : undefined,
      renewed.length > 0 ? this.#untilDone("renewal", () => targets.renew(renewed)) : undefined,
    ]).then(() => void this.#changes.delete(change))
    this.#changes.add(change)
    // One that a stop has ended stays, so that nobody is told that it is in effect.
    change.catch(() => {})
    return change
  }

  #afterChanges(inEffect: () => void): void {
    if (this.#changes.size === 0) return inEffect()
    Promise.all(this.#changes).then(inEffect, () => {})
  }

  /** OUT4. What is lost once more meanwhile is found by the next comparison. */
  async #sendAgain(): Promise<void> {
    const { shards, interests, targets, metrics, log } = this.#options
    const { replications } = this.#options.logs
    const owned = [...shards.values()]
    await this.#forMany(owned, shard => {
      shard.takeUnsaved()
      shard.takeRemoved()
      return interests.replace(shard, shard.allInterests())
    })
    const workers = new Set(owned.flatMap(shard => [...shard.sent.keys()]))
    await Promise.all([...workers].map(worker => this.#compare(worker, owned)))

    const recent = [...this.#confirmed]
    // What was cached before the fail-over is not asked for after it, so nothing is to be renewed.
    this.#changeAccess(recent)?.catch(() => {})
    for (const row of recent)
      for (const item of row.items)
        if (item[0] === "j") await this.#untilDone("adding a job", () => targets.addJob(jobOf(item)))
    const now = this.#options.cluster.view.wellForMs
    for (const entry of this.#confirmed) entry.wellAt = now
    this.#comparedAt = replications
    metrics.outbox.comparisons.inc()
    log.info({ shards: owned.length, workers: workers.size, rows: recent.length }, "Redis compared after a fail-over")
  }

  /** Sends one log again what it was sent and does not have. */
  async #compare(worker: string, shards: readonly Shard[]): Promise<void> {
    const positions = await this.#positionsOf(worker)
    if (!positions) {
      for (const shard of shards) this.dropInterest(shard, worker)
      return
    }
    const behind = shards.filter(shard => (shard.sent.get(worker) ?? 0) > (positions.get(shard.number) ?? 0))
    if (behind.length === 0) return
    const rows = await this.#untilDone("reading the outbox", () =>
      this.#options.store.outbox(behind.map(({ number }) => number)),
    )
    const parts = behind.flatMap(shard =>
      this.#missing(worker, shard, positions.get(shard.number) ?? 0, shard.sent.get(worker)!, rows),
    )
    await this.#append(worker, parts)
  }

  /** A living worker's log is waited for; undefined for one that makes none any more. */
  async #positionsOf(worker: string): Promise<ReadonlyMap<number, number> | undefined> {
    const { logs, clock } = this.#options
    const { view } = this.#options.cluster
    for (;;) {
      const positions = await this.#untilDone("reading positions", () => logs.positions(worker))
      this.#noteProgress()
      if (positions || view.isDead(worker) || this.#stopped) return positions
      await this.#untilDone("asking for a death", () => this.#learnDeath(worker))
      await clock.sleep(20)
    }
  }

  /** Asks PostgreSQL whether a worker that does not show itself is dead; then `isDead` knows. */
  async #learnDeath(worker: string): Promise<void> {
    const { store } = this.#options
    const { view, dead } = this.#options.cluster
    if (!view.isLiving(worker) && (await store.isDead(worker))) dead.note(worker)
  }

  async #flush(rows: readonly Row[]): Promise<void> {
    const shards = new Set(rows.map(row => row.shard))
    for (const shard of this.#touched) shards.add(shard)
    this.#touched.clear()
    const saved = this.#saveInterests(shards)
    const byWorker = this.#partsOf(rows)
    const { tracer } = this.#options.metrics
    const startedAt = tracer && this.#options.clock.monotonic()
    // Interest stands before the append that relies on it: a next owner must know whom the log belongs to.
    await saved
    await Promise.all([...byWorker].map(([worker, parts]) => this.#append(worker, parts)))
    if (tracer)
      for (const { traces } of rows)
        for (const commit of new Set(traces?.values()))
          tracer.note("append", commit, startedAt!, { "starling.logs": byWorker.size })
  }

  /** The shard has interest to save even if nothing of it is published. */
  touch(shard: Shard): void {
    this.#touched.add(shard)
  }

  /** The same, and nobody waits for it. */
  #saveSoon(shard: Shard): void {
    this.touch(shard)
    this.#isSaveDue = true
    this.#start()
  }

  /** A worker takes these homes' events no more; without homes: none of the shard's. */
  dropInterest(shard: Shard, worker: string, homes: Iterable<string> = shard.interests.keys()): void {
    let isLess = false
    for (const home of homes) if (shard.removeInterest(home, worker)) isLess = true
    if (isLess) this.#saveSoon(shard)
  }

  async #saveInterests(shards: ReadonlySet<Shard>): Promise<void> {
    const { interests } = this.#options
    const unsaved = [...shards]
      .map(shard => ({ shard, removed: shard.takeRemoved(), list: shard.takeUnsaved() }))
      .filter(({ removed, list }) => removed.length + list.length > 0)
    await this.#forMany(unsaved, async ({ shard, removed, list }) => {
      if (removed.length > 0) await interests.remove(shard, removed)
      if (list.length > 0) await interests.add(shard, list)
    })
  }

  /** Together, so that many shards cost one round trip, and while Redis is away one attempt is made and one line written. */
  async #forMany<T>(shards: readonly T[], save: (shard: T) => Promise<void>): Promise<void> {
    for (let i = 0; i < shards.length; i += saveBatchSize)
      await this.#untilDone("saving interest", async () => {
        const answers = await Promise.allSettled(shards.slice(i, i + saveBatchSize).map(save))
        for (const answer of answers) if (answer.status === "rejected") throw answer.reason
        this.#noteProgress()
      })
  }

  /** What each interested worker's log gets of the rows, chained to what it got before. */
  #partsOf(rows: readonly Row[]): Map<string, { part: LogPart; shard: Shard }[]> {
    const byWorker = new Map<string, { part: LogPart; shard: Shard }[]>()
    for (const row of rows) {
      const fields = new Map<string, string[]>()
      for (const item of row.items) {
        const workers = item[0] === "e" || item[0] === "c" ? row.shard.interests.get(item[1]) : undefined
        if (!workers) continue
        const pair = logFields(row, item)!
        for (const [worker, from] of workers) {
          if (row.again && row.number <= from) continue
          const mine = fields.get(worker)
          if (mine) mine.push(...pair)
          else fields.set(worker, [...pair])
        }
      }
      for (const [worker, mine] of fields) {
        const before = row.shard.sent.get(worker) ?? 0
        if (row.number <= before) continue
        row.shard.noteSent(worker, row.number, before)
        const part: LogPart = {
          shard: row.shard.number,
          epoch: row.shard.epoch,
          number: row.number,
          before,
          fields: mine,
        }
        append(byWorker, worker, { part, shard: row.shard })
      }
    }
    return byWorker
  }

  /** OUT1: appends until every part stands in the log, is known to stand there, or has nobody to go to. */
  async #append(worker: string, parts: { part: LogPart; shard: Shard }[]): Promise<void> {
    const { logs, metrics, clock } = this.#options
    const { view, dead } = this.#options.cluster
    let left = parts
    for (let attempt = 0; left.length > 0 && !this.#stopped; attempt++) {
      if (dead.isForgotten(worker)) return
      const count = countWithin(left, maxAppendBytes)
      const [now, later] = count === left.length ? [left, []] : [left.slice(0, count), left.slice(count)]
      // Known before the attempt: one that died may have made its log just before.
      const wasDead = view.isDead(worker)
      let answers: AppendAnswer[]
      try {
        answers = await logs.append(
          worker,
          now.map(({ part }) => part),
        )
        attempt = 0
        this.#noteProgress()
      } catch (error) {
        this.#options.log.warn({ err: error, to: worker }, "append failed")
        await clock.sleep(backoffMs(attempt, 20, 500))
        continue
      }
      metrics.log.appends.inc()
      const again: { part: LogPart; shard: Shard }[] = []
      const broken = new Map<Shard, number>()
      for (const [i, answer] of answers.entries()) {
        const { part, shard } = now[i]!
        metrics.log.answers[answer.is].inc()
        if (answer.is === "ok") metrics.log.appendedEvents.inc(part.fields.length / 2)
        else if (answer.is === "nolog") {
          // A living worker makes it anew, or ends.
          if (wasDead) this.dropInterest(shard, worker)
          else again.push(now[i]!)
        } else if (answer.is === "stale") this.#options.events.stale(shard)
        else if (answer.is === "link") {
          if (!broken.has(shard)) broken.set(shard, answer.position)
          again.push(now[i]!)
        }
      }
      if (answers.some(({ is }) => is === "nolog")) {
        // The row's home may have known it before it died; this worker may never have heard of it.
        if (!wasDead) await this.#untilDone("asking for a death", () => this.#learnDeath(worker))
        await clock.sleep(20)
      }
      for (const [shard, position] of broken) again.unshift(...(await this.#mend(worker, shard, position, again)))
      left = later.length > 0 ? [...again, ...later] : again
    }
  }

  /** The log stands elsewhere than we thought: what lies between comes from the outbox, or the log is told that it is missing. */
  async #mend(
    worker: string,
    shard: Shard,
    position: number,
    again: { part: LogPart; shard: Shard }[],
  ): Promise<{ part: LogPart; shard: Shard }[]> {
    const firstOwn = again.findIndex(entry => entry.shard === shard)
    const first = again[firstOwn]!
    const rechain = (before: number | null) => {
      again[firstOwn] = { ...first, part: { ...first.part, before } }
    }
    const expected = first.part.before ?? 0
    if (position >= expected) {
      rechain(position)
      return []
    }
    const rows = await this.#untilDone("reading the outbox", () => this.#options.store.outbox([shard.number]))
    const lost = this.#missing(worker, shard, position, first.part.number - 1, rows)
    rechain(lost.at(-1)?.part.number ?? position)
    return lost
  }

  /** What a log lacks of a shard after a position, up to a row; where the rows are gone, that it lacks them. */
  #missing(
    worker: string,
    shard: Shard,
    position: number,
    last: number,
    rows: readonly OutboxRow[],
  ): { part: LogPart; shard: Shard }[] {
    const sent = shard.sentBetween(worker, position, last)
    const between = rows.filter(
      row =>
        row.shard === shard.number &&
        row.number > position &&
        row.number <= last &&
        (sent === undefined || sent.includes(row.number)),
    )
    if (between.length < (sent?.length ?? last - position)) {
      this.#options.log.warn({ shard: shard.number, to: worker, position, number: last }, "gap declared")
      return [{ shard, part: gapPart({ shard: shard.number, epoch: shard.epoch, number: last }) }]
    }
    const lost: { part: LogPart; shard: Shard }[] = []
    let before = position
    for (const row of between) {
      const fields = readRowBody(row.body).items.flatMap(item => this.#fieldsFor(worker, shard, row.number, item))
      if (fields.length === 0) continue
      lost.push({ shard, part: { shard: shard.number, epoch: shard.epoch, number: row.number, before, fields } })
      before = row.number
    }
    return lost
  }

  #fieldsFor(worker: string, shard: Shard, number: number, item: RowItem): string[] {
    const from = item[0] === "e" || item[0] === "c" ? shard.interests.get(item[1])?.get(worker) : undefined
    return (from !== undefined && number > from && logFields({ shard, number }, item)) || []
  }

  /** Tells and jobs go out beside the stream; the row is confirmed when all have arrived. */
  #sendElsewhere(row: Row, change: Promise<void> | undefined): void {
    const errands = row.items.flatMap((item, i) =>
      item[0] === "t"
        ? [this.#tell(row, item, i)]
        : item[0] === "j"
          ? [this.#untilDone("adding a job", () => this.#options.targets.addJob(jobOf(item)))]
          : [],
    )
    if (change) errands.push(change)
    Promise.all(errands).then(
      () => this.#confirm(row),
      (error: unknown) =>
        this.#options.log[this.#stopped ? "debug" : "error"](
          { err: error, shard: row.shard.number, number: row.number },
          "row not confirmed",
        ),
    )
  }

  /** Tells from one shard to another go one after another, in the order in which they were told. */
  #tell(
    row: Row,
    [, actor, id, command, input]: Extract<RowItem, readonly ["t", ...unknown[]]>,
    item: number,
  ): Promise<void> {
    const { targets, metrics, clock, log } = this.#options
    const send = async () => {
      for (let attempt = 0; !this.#stopped; attempt++) {
        try {
          await targets.tell({
            actor,
            id,
            command,
            input,
            source: { shard: row.shard.number, number: row.number, item },
            again: row.again || attempt > 0,
          })
          metrics.bus.tells.inc()
          return
        } catch (error) {
          // Only a refusal is final; whatever else happened, it was told and must arrive.
          if (error instanceof Failure && error.code !== "unavailable" && error.code !== "internal")
            return log.warn({ err: error, command, home: id }, "tell refused")
          if (attempt % 10 === 9) log.error({ err: error, command, home: id, attempt }, "tell not delivered")
          await clock.sleep(backoffMs(attempt, 50, 1_000))
        }
      }
    }
    const source = row.shard.number
    const target = shardOf(id)
    let ofSource = this.#tells.get(source)
    if (!ofSource) this.#tells.set(source, (ofSource = new Map()))
    const lastTells = ofSource
    const sent = (lastTells.get(target) ?? Promise.resolve()).then(send)
    lastTells.set(target, sent)
    return sent.finally(() => {
      if (lastTells.get(target) !== sent) return
      lastTells.delete(target)
      if (lastTells.size === 0) this.#tells.delete(source)
    })
  }

  /** Resolves when every tell of a shard to these homes that has gone out by now has arrived. */
  async notified(shard: number, homes: readonly string[]): Promise<void> {
    const lastTells = this.#tells.get(shard)
    if (lastTells) await Promise.all(homes.flatMap(home => lastTells.get(shardOf(home)) ?? []))
    if (this.#stopped) throw unavailable("worker is ending")
  }

  #confirm(row: Row): void {
    this.#unconfirmed--
    this.#options.metrics.outbox.confirmed.inc()
    const { shard: owned, number, items } = row
    this.#confirmed.push({
      owned,
      shard: owned.number,
      number,
      messages: messagesIn(items),
      items: items.some(isSentAgain) ? items.filter(isSentAgain) : nothing,
      at: this.#options.clock.monotonic(),
      wellAt: this.#options.cluster.view.wellForMs,
    })
  }

  /** OUT3; the newest row of a shard stays: it names the last id. */
  async #sweep(): Promise<void> {
    const { clock, timing, store, metrics } = this.#options
    const { view } = this.#options.cluster
    if (this.#isInDoubt) return
    const before = clock.monotonic() - timing.keepMs
    const wellBefore = view.wellForMs - timing.keepMs
    const old: Confirmed[] = []
    const kept: Confirmed[] = []
    let [named, isCut] = [0, false]
    for (const entry of this.#confirmed) {
      const { owned, shard, number, at, wellAt } = entry
      if (this.#options.shards.get(shard) !== owned) continue
      const isOld = at <= before && wellAt <= wellBefore && number < owned.committedRow
      isCut ||= isOld && (old.length >= maxSwept.rows || named >= maxSwept.messages)
      if (isOld && !isCut) {
        old.push(entry)
        named += entry.messages.length
      } else kept.push(entry)
    }
    this.#confirmed = kept
    if (old.length === 0) return
    try {
      await store.sweep(old)
    } catch (error) {
      // They may be gone: what is deleted already is deleted again.
      this.#confirmed = [...old, ...this.#confirmed]
      throw error
    }
    const newest = new Map<Shard, number>()
    for (const { owned, number } of old) newest.set(owned, Math.max(newest.get(owned) ?? 0, number))
    for (const [shard, number] of newest) shard.forgetSent(number)
    metrics.outbox.deleted.inc(old.length)
    if (isCut) await this.#sweep()
  }

  /** What must happen is tried until it does, or until this worker ends and the next owner does it. */
  async #untilDone<T>(what: string, action: () => Promise<T>): Promise<T> {
    for (let attempt = 0; ; attempt++) {
      try {
        return await action()
      } catch (error) {
        if (this.#stopped) throw error
        this.#options.log.warn({ err: error }, `${what} failed`)
        await this.#options.clock.sleep(backoffMs(attempt, 20, 500))
      }
    }
  }
}

/** How many of the first parts hold so many bytes together; at least one. */
function countWithin(parts: readonly { readonly part: LogPart }[], most: number): number {
  const units = parts.reduce((sum, { part }) => part.fields.reduce((all, field) => all + field.length, sum), 0)
  // A UTF-16 unit is three bytes at most: nearly always that is enough to know.
  if (3 * units <= most) return parts.length
  let bytes = 0
  const first = parts.findIndex(({ part }, i) => {
    for (const field of part.fields) bytes += Buffer.byteLength(field)
    return i > 0 && bytes > most
  })
  return first === -1 ? parts.length : first
}
