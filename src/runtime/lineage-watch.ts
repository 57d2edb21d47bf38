import { randomBytes } from "node:crypto"
import type { LineageNote, LineageNotes } from "../cluster/lineage-notes.ts"
import type { Redis } from "../cluster/redis.ts"
import { unavailable } from "../contract/core/errors.ts"
import type { Clock, Timer } from "../std/clock.ts"
import { rejected } from "../std/rejected.ts"
import type { Log } from "../observability/log.ts"
import type { Metrics } from "../observability/metrics.ts"
import type { DatabaseState, lineageStorage } from "../storage/core/lineage.ts"
import type { Shard } from "./shard.ts"

interface Notes extends Pick<LineageNotes, "read" | "keep" | "leave" | "name"> {
  /** The same, over another connection. */
  on(redis: Redis): Notes
}
type Store = ReturnType<typeof lineageStorage>

/** The part of PostgreSQL's lineage that a process has begun in. */
export interface Lineage {
  readonly name: string
  readonly notes: Notes
  readonly store: Store
  /** Has a function called whenever a connection to PostgreSQL is lost. */
  onConnectionLost(listener: () => void): void
  /** Another number whenever this process has begun or ended something that may have been committed. */
  work(): number
}

/** Which of the promises of the past PostgreSQL does not keep; undefined while it may keep all. */
function lossIn(note: LineageNote, state: DatabaseState, shardBehind: number | undefined): string | undefined {
  if (note.system !== undefined && state.system !== undefined && note.system !== state.system) return "another system"
  if (note.tables !== undefined && note.tables !== state.tables) return "other tables"
  if (state.transaction < note.transaction) return "fewer transactions"
  return shardBehind === undefined ? undefined : "rows of the outbox are gone"
}

const refusal = () => unavailable("database not compared with what it had")

const newName = () => `h${randomBytes(4).toString("hex")}`

/**
 * Before a process relies on anything that Redis knows: whether PostgreSQL still is as far as it was seen to be when the
 * last process looked. If not, another lineage begins, in which nothing of that counts.
 */
export async function beginLineage(
  notes: Notes,
  storage: { readonly lineage: Store; onLoss(listener: () => void): void; work(): number },
  log: Log,
): Promise<Lineage> {
  // In this order: what is noted was so in PostgreSQL before it is asked.
  const note = await notes.read()
  const [state, behind] = await Promise.all([
    storage.lineage.state(""),
    storage.lineage.shardBehind(note.row ? [note.row] : []),
  ])
  const loss = lossIn(note, state, behind)
  let name = note.lineage
  if (loss !== undefined) {
    name = await notes.leave(name, newName(), state)
    log.error({ loss, lineage: name }, "PostgreSQL has lost what it had committed before this start")
  }
  return {
    name,
    notes,
    store: storage.lineage,
    onConnectionLost: listener => storage.onLoss(listener),
    work: () => storage.work(),
  }
}

export interface LineageWatchOptions {
  readonly lineage: Lineage
  readonly worker: string
  /** Those of this worker. */
  readonly shards: ReadonlyMap<number, Shard>
  /** Whether this worker shows itself. */
  readonly isServing: () => boolean
  /** PostgreSQL has lost what this worker, its sessions or others rely on. */
  readonly onLost: () => void
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
}

/** Milliseconds between two looks at the lineage's name, and between two comparisons. */
const nameEveryMs = 500
const lookEveryMs = 1_000
/** The same while this process commits nothing. A pooler may exchange PostgreSQL without any connection being lost. */
const restMs = 5_000
const retryEveryMs = 100
/** For so long after a lost connection those who come wait for the look; after that they are refused. */
const doubtTimeoutMs = 2_000

/**
 * Notices that PostgreSQL has lost the end of what it had committed: it was restored from a backup, or a copy that was
 * behind has taken its place. It keeps:
 *   LOSS1  After a lost connection nothing is decided or committed before PostgreSQL was compared
 *       with what is known of it. A look takes milliseconds: those who come meanwhile wait for it.
 *   LOSS2  What one worker notices ends the lineage for all: each ends, and its successor knows
 *       nothing from memory or Redis.
 *   LOSS3  What this process has committed is noted within two looks. While it commits nothing, all
 *       of that is noted, and it compares seldom.
 */
export class LineageWatch {
  readonly #options: LineageWatchOptions
  /** Connections lost so far, and how many of them were lost before a look that found everything. */
  #lost = 0
  #settled = 0
  /** PostgreSQL has lost something. */
  #isOver = false
  #stopped = false
  #look: Promise<void> | undefined
  #isSettling = false
  #doubtedAt = 0
  /** Those who wait for the look. */
  #waiting: { readonly whole: Promise<void>; readonly end: (refusal?: Error) => void } | undefined
  #timer: Timer | undefined
  /** As of the look before. What PostgreSQL said a moment ago may not be on its disk yet. */
  #transaction = 0
  /** The rows that the last look has compared, by shard. */
  #compared: ReadonlyMap<number, number> = new Map()
  #lookedAt = -Infinity
  /** The process' work when the last look began. */
  #work: number | undefined
  /** Nothing was begun or ended from one look to the next: the first has seen all of it, the second has noted it. */
  #isResting = false

  constructor(options: LineageWatchOptions) {
    this.#options = options
    options.lineage.onConnectionLost(() => this.#doubt())
  }

  start(): void {
    this.#timer = this.#options.clock.every(nameEveryMs, () => {
      const looking = this.#isDue ? this.#lookOnce() : this.#lookAtName()
      looking.catch((error: unknown) => this.#options.log.debug({ err: error }, "PostgreSQL not compared"))
    })
  }

  stop(): void {
    this.#stopped = true
    this.#timer?.stop()
    this.#waiting?.end(refusal())
  }

  /** Whether PostgreSQL is known to have what it had. */
  get isWhole(): boolean {
    return !this.#isOver && this.#settled === this.#lost
  }

  /** Throws while it is not. */
  check(): void {
    if (!this.isWhole) throw refusal()
  }

  /**
   * Undefined while PostgreSQL is known to have what it had; else resolves when it is, or rejects with a refusal. Who
   * asks may go away without waiting: that is no error of anybody's.
   */
  untilWhole(): Promise<void> | undefined {
    if (this.isWhole) return undefined
    const leftMs = this.#doubtedAt + doubtTimeoutMs - this.#options.clock.monotonic()
    if (!this.#isOver && !this.#stopped && leftMs > 0) return (this.#waiting ??= this.#wait(leftMs)).whole
    return rejected(refusal())
  }

  #wait(leftMs: number) {
    let end: (refusal?: Error) => void = () => {}
    const whole = new Promise<void>((resolve, reject) => {
      const timer = this.#options.clock.after(leftMs, () => end(refusal()))
      end = refusal => {
        timer.stop()
        this.#waiting = undefined
        if (refusal) reject(refusal)
        else resolve()
      }
    })
    whole.catch(() => {})
    return { whole, end }
  }

  /** Looks now, whatever comes of it. */
  async confirm(): Promise<void> {
    await this.#lookOnce().catch(() => {})
  }

  #doubt(): void {
    if (this.isWhole) this.#doubtedAt = this.#options.clock.monotonic()
    this.#lost++
    if (this.#isSettling || this.#stopped) return
    this.#isSettling = true
    this.#settle()
      .finally(() => (this.#isSettling = false))
      .catch((error: unknown) => this.#options.log.error({ err: error }, "PostgreSQL not compared"))
  }

  /** LOSS1 */
  async #settle(): Promise<void> {
    // A look that has begun before may have asked the PostgreSQL of before.
    await this.#look?.catch(() => {})
    while (!this.#stopped && this.#settled !== this.#lost)
      await this.#lookOnce().catch(() => this.#options.clock.sleep(retryEveryMs))
  }

  get #isDue(): boolean {
    const { clock, lineage } = this.#options
    const isResting = this.#isResting && lineage.work() === this.#work && this.isWhole
    // Half a step early rather than a whole one late.
    return clock.monotonic() - this.#lookedAt >= (isResting ? restMs : lookEveryMs) - nameEveryMs / 2
  }

  /** LOSS2, in one small command, which goes out with those by which the process shows itself. */
  async #lookAtName(): Promise<void> {
    const { lineage } = this.#options
    if (this.#look || this.#stopped) return
    if ((await lineage.notes.name()) !== lineage.name) this.#end("noticed by another worker")
  }

  #lookOnce(): Promise<void> {
    this.#look ??= this.#compare().finally(() => {
      this.#look = undefined
    })
    return this.#look
  }

  async #compare(): Promise<void> {
    const { lineage, worker, shards, isServing } = this.#options
    const lost = this.#lost
    const work = lineage.work()
    this.#lookedAt = this.#options.clock.monotonic()
    // One that was away for long may be dead and forgotten, also if it was away while it waited for an answer.
    const wasServing = isServing()
    const rows = new Map<number, number>()
    for (const { number, committedRow } of shards.values()) if (committedRow > 0) rows.set(number, committedRow)
    // In this order: what is noted was so in PostgreSQL before it is asked.
    const note = await lineage.notes.read()
    if (note.lineage !== lineage.name) return this.#end("noticed by another worker")
    // While no connection was lost, what was compared is still there: in a quiet second nothing is left to ask for.
    const committed = [...rows].map(([shard, number]) => ({ shard, number }))
    const added = committed.filter(({ shard, number }) => this.#compared.get(shard) !== number)
    const [state, behind] = await Promise.all([
      lineage.store.state(worker),
      lineage.store.shardBehind(lost === this.#settled ? added : committed),
    ])
    const known = { ...note, transaction: Math.max(note.transaction, this.#transaction) }
    const isMissed = !state.isEnrolled && wasServing && isServing()
    const loss = lossIn(known, state, behind) ?? (isMissed ? "worker not enrolled" : undefined)
    if (this.#stopped) return
    if (loss !== undefined) {
      await lineage.notes.leave(lineage.name, newName(), state)
      return this.#end(loss)
    }
    // In a quiet second there is nothing to note.
    const isNoted =
      lost === this.#settled &&
      added.length === 0 &&
      this.#transaction <= note.transaction &&
      note.tables !== undefined &&
      (note.system !== undefined || state.system === undefined)
    const name = isNoted
      ? note.lineage
      : await lineage.notes.keep({
          lineage: lineage.name,
          system: state.system,
          tables: state.tables,
          transaction: this.#transaction,
          row: added[0],
        })
    if (name !== lineage.name) return this.#end("noticed by another worker")
    this.#transaction = state.transaction
    this.#compared = rows
    this.#settled = lost
    this.#isResting = work === this.#work // LOSS3
    this.#work = work
    if (this.isWhole) this.#waiting?.end()
  }

  /** LOSS2 */
  #end(loss: string): void {
    if (this.#stopped) return
    this.#isOver = true
    const { lineage, log, metrics, onLost } = this.#options
    this.stop()
    metrics.lanes.lineagesLost.inc()
    log.error({ loss, lineage: lineage.name }, "PostgreSQL has lost what it had committed")
    onLost()
  }
}
