import { fail, unavailable } from "../contract/core/errors.ts"
import type { Clock } from "../std/clock.ts"
import type { Log } from "../observability/log.ts"
import type { Metrics } from "../observability/metrics.ts"
import type { TraceParent, Tracer } from "../observability/traces.ts"
import { isDataError } from "../storage/core/database.ts"
import { Fenced, type Batch, type OutboxRow } from "../storage/core/lanes.ts"
import type { Write } from "../storage/core/write.ts"
import { type Home, HomeReloaded } from "./home.ts"
import { RawJson, rowBody, type Row, type RowAnswer, type RowItem } from "./row.ts"
import type { Shard } from "./shard.ts"
import { backoffMs } from "../std/backoff.ts"

/** What a turn decided, applied in memory and waiting to be committed and published. */
export interface Decided {
  readonly shard: Shard
  readonly home: Home
  readonly writes: readonly Write[]
  readonly items: readonly RowItem[]
  /** Named when another worker asked: the answer is kept with what was done. */
  readonly requestId: string | undefined
  readonly reply: unknown
  /** Of its turn, if that is traced. */
  readonly trace?: TraceParent | undefined
  /** The reply as the outbox keeps it. */
  readonly keptReply: unknown
  readonly resolve: (reply: unknown) => void
  readonly reject: (error: Error) => void
}

/** Nothing of its own: `committed` when all that came before it is committed, `barrier` when that stands in the logs too. */
export interface Barrier {
  readonly committed?: () => void
  readonly barrier: () => void
  readonly reject: (error: Error) => void
}

export type Waiting = Decided | Barrier

/** Where committed rows go. */
export interface Publisher {
  /**
   * @param published what was published before stands in the logs, and so do the rows
   * @param inEffect besides, no worker accepts the sessions any more that these rows and those before them end, or as
   * they were before the rows changed them (OUT2)
   */
  publish(rows: readonly Row[], published: () => void, inEffect?: () => void): void
  readonly behind: number
}

export interface LaneCommits {
  commit(batch: Batch): Promise<void>
  raise(): Promise<void>
}

export interface CommitQueueOptions {
  readonly lane: LaneCommits
  readonly publisher: Publisher
  readonly bounds: { readonly batch: number; readonly unpublishedBatches: number }
  /** Whether a row was written, asked after an outcome that nobody knew. */
  readonly wasWritten: (shard: number, number: number) => Promise<boolean>
  readonly dropHome: (home: Home) => void
  /** One of these shards has a row that was not written here: who owns it has to be looked at. */
  readonly onDisowned: (shards: readonly Shard[]) => void
  /** The worker was declared dead: it must end. */
  readonly onFenced: () => void
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
}

/** For so many milliseconds a batch is gathered at most: about as long as a commit takes under load. */
const maxGatherMs = 3
/** A commit that takes so long is written to the log: who asks for something waits for a few seconds only. */
const slowCommitMs = 1_000
/** A batch ends with the turn with which its events reach so many bytes. */
const maxBatchBytes = 1024 * 1024

const bytesOf = (waiting: Waiting): number =>
  isBarrier(waiting)
    ? 0
    : waiting.items.reduce(
        (sum, item) => item.reduce<number>((all, part) => (part instanceof RawJson ? all + part.bytes : all), sum),
        0,
      )

const isBarrier = (waiting: Waiting): waiting is Barrier => "barrier" in waiting
/** Whether it ends or changes sessions: its answer waits for every worker, and nobody else's. */
const changesAccess = (waiting: Waiting): boolean =>
  isDecided(waiting) && waiting.items.some(([kind]) => kind === "r" || kind === "n")
const isDecided = (waiting: Waiting): waiting is Decided => !("barrier" in waiting)

/**
 * Group commit: while a batch is on its way to PostgreSQL, turns gather for the next; no timer, no added latency when
 * idle. It keeps:
 *   COMMIT1  Turns are committed in the order in which they were decided, and answered once they
 *       are in the logs.
 *   COMMIT2  A turn that the database refuses fails alone with its home. Turns of other homes
 *       continue.
 *   COMMIT3  After an unknown outcome, the lane determines what was committed before anything
 *       else.
 */
export class CommitQueue {
  readonly #options: CommitQueueOptions
  #waiting: Waiting[] = []
  #running = false
  /** When something was last committed or refused while it was running. */
  #progressAt = 0
  #wake: (() => void) | undefined
  #over = false
  #unsettled: Promise<void> | undefined

  constructor(options: CommitQueueOptions) {
    this.#options = options
  }

  /** While the outcome of a commit is not known, PostgreSQL may still change: no home may be loaded from it. */
  get unsettled(): Promise<void> | undefined {
    return this.#unsettled
  }

  /** How much waits. */
  get length(): number {
    return this.#waiting.length
  }

  /** How long nothing was committed although something waits. */
  get stuckForMs(): number {
    // What waits for publication is told by that.
    return this.#running && !this.#wake ? this.#options.clock.monotonic() - this.#progressAt : 0
  }

  add(waiting: Waiting): void {
    if (this.#over) return waiting.reject(unavailable("worker is ending"))
    this.#waiting.push(waiting)
    if (this.#running) return
    this.#running = true
    this.#progressAt = this.#options.clock.monotonic()
    this.#run().catch((error: unknown) => this.#options.log.fatal({ err: error }, "group commit failed"))
  }

  /** Publication has caught up. */
  wake(): void {
    this.#wake?.()
  }

  /** Nothing is committed from here on. */
  end(): void {
    this.#over = true
    for (const waiting of this.#waiting.splice(0))
      // Nothing of it was tried: where its shard has been given up before, it goes on to the next owner.
      waiting.reject(isDecided(waiting) && waiting.home.dropped ? new HomeReloaded() : unavailable("worker is ending"))
  }

  async #run(): Promise<void> {
    // What comes after nothing goes out in this turn of the event loop, with whatever came together with it.
    await Promise.resolve()
    try {
      for (let isFirst = true; this.#waiting.length > 0; isFirst = false) {
        if (!isFirst) await this.#gather()
        while (this.#options.publisher.behind >= this.#options.bounds.unpublishedBatches)
          await new Promise<void>(resolve => (this.#wake = resolve))
        this.#wake = undefined
        const batch = this.#take()
        this.#progressAt = this.#options.clock.monotonic()
        if (batch.length > 0) await this.#commit(batch)
      }
    } finally {
      // In the same tick as the last look at the queue: nobody may find it running and leave.
      this.#running = false
    }
  }

  /**
   * A batch costs as much as forty posts, whatever is in it. So what gathered while another was under way is taken at the end
   * of a turn of the event loop, and later while each turn brings something more, but not for long.
   */
  async #gather(): Promise<void> {
    const { bounds, clock } = this.#options
    const until = clock.monotonic() + maxGatherMs
    for (let known = 0; this.#waiting.length > known;) {
      known = this.#waiting.length
      if (known >= bounds.batch) return
      await new Promise<void>(resolve => clock.soon(resolve))
      if (clock.monotonic() >= until) return
    }
  }

  #take(): Waiting[] {
    const most = Math.min(this.#waiting.length, this.#options.bounds.batch)
    let count = 0
    for (let bytes = 0; count < most && bytes < maxBatchBytes; count++) bytes += bytesOf(this.#waiting[count]!)
    return this.#waiting.splice(0, count)
  }

  async #commit(batch: readonly Waiting[]): Promise<void> {
    const { lane, log, metrics, clock } = this.#options
    const turns = batch.filter(isDecided)
    const stale = turns.filter(turn => turn.home.dropped)
    if (stale.length > 0) {
      for (const turn of stale) turn.reject(new HomeReloaded())
      const rest = batch.filter(waiting => isBarrier(waiting) || !waiting.home.dropped)
      return rest.length > 0 ? this.#commit(rest) : undefined
    }
    const { rows, outbox } = this.#rowsOf(turns)
    if (turns.length > 0) {
      const startedAt = clock.monotonic()
      try {
        await lane.commit({ turns: turns.map(turn => ({ home: turn.home.id, writes: turn.writes })), outbox })
      } catch (error) {
        for (const row of rows) row.shard.giveBackRows(row.number)
        return this.#failed(batch, turns, outbox, rows, error)
      }
      metrics.lanes.batches.inc()
      metrics.lanes.batchTurns.observe(turns.length)
      const tookMs = clock.monotonic() - startedAt
      metrics.lanes.commitSeconds.observe(tookMs / 1000)
      if (tookMs >= slowCommitMs) log.warn({ took_ms: Math.round(tookMs), turns: turns.length }, "commit was slow")
      metrics.outbox.written.inc(outbox.length)
      if (metrics.tracer) noteCommits(metrics.tracer, turns, rows, startedAt)
    }
    this.#committed(batch, rows)
  }

  #committed(batch: readonly Waiting[], rows: readonly Row[]): void {
    this.#progressAt = this.#options.clock.monotonic()
    for (const row of rows) row.shard.commitRow(row.number)
    for (const waiting of batch) {
      if (isBarrier(waiting)) waiting.committed?.()
      else waiting.home.committed()
    }
    const settle = (waiting: Waiting) => {
      if (isBarrier(waiting)) waiting.barrier()
      else waiting.resolve(waiting.reply) // COMMIT1
    }
    const changing = batch.filter(changesAccess)
    if (changing.length === 0) {
      this.#options.publisher.publish(rows, () => {
        for (const waiting of batch) settle(waiting)
      })
      return
    }
    const others = batch.filter(waiting => !changesAccess(waiting))
    this.#options.publisher.publish(
      rows,
      () => others.forEach(settle),
      () => changing.forEach(settle),
    )
  }

  /** One row a shard holds what all its turns in the batch publish. */
  #rowsOf(turns: readonly Decided[]): { rows: Row[]; outbox: OutboxRow[] } {
    const byShard = new Map<Shard, { items: RowItem[]; answers: RowAnswer[] }>()
    for (const turn of turns) {
      let row = byShard.get(turn.shard)
      if (!row) byShard.set(turn.shard, (row = { items: [], answers: [] }))
      row.items.push(...turn.items)
      if (turn.requestId !== undefined) row.answers.push([turn.requestId, turn.keptReply ?? null])
    }
    const rows: Row[] = []
    const outbox: OutboxRow[] = []
    for (const [shard, { items, answers }] of byShard) {
      const number = shard.nextRow()
      rows.push({ shard, number, items, again: false })
      outbox.push({ shard: shard.number, number, last_id: shard.lastId, body: rowBody(items, answers) })
    }
    return { rows, outbox }
  }

  async #failed(
    batch: readonly Waiting[],
    turns: readonly Decided[],
    outbox: readonly OutboxRow[],
    rows: readonly Row[],
    error: unknown,
  ): Promise<void> {
    if (error instanceof Fenced) return this.#fenced(batch)
    // A row of ours with a number that is taken: somebody else has written, who owns the shard or did.
    if (isDataError(error) && error.constraint_name === "outbox_pkey") return this.#disowned(batch, turns)
    if (isDataError(error)) return this.#split(batch, turns, error)
    return this.#unknown(batch, turns, outbox, rows, error)
  }

  #fenced(batch: readonly Waiting[]): void {
    const { metrics, onFenced } = this.#options
    metrics.lanes.refusedWrites.inc()
    for (const waiting of batch) waiting.reject(unavailable("worker is ending"))
    this.end()
    onFenced()
  }

  #disowned(batch: readonly Waiting[], turns: readonly Decided[]): Promise<void> | undefined {
    this.#options.metrics.lanes.refusedWrites.inc()
    for (const turn of turns) {
      this.#options.dropHome(turn.home)
      turn.reject(unavailable("shard is owned elsewhere"))
    }
    this.#options.onDisowned([...new Set(turns.map(({ shard }) => shard))])
    const barriers = batch.filter(isBarrier)
    return barriers.length > 0 ? this.#commit(barriers) : undefined
  }

  /** COMMIT2: halves until the guilty turn stands alone. */
  async #split(
    batch: readonly Waiting[],
    turns: readonly Decided[],
    error: Error & { constraint_name?: string | undefined },
  ): Promise<void> {
    if (turns.length > 1) {
      const homes = [...new Set(turns.map(turn => turn.home))]
      const half = new Set(homes.slice(0, Math.ceil(homes.length / 2)))
      const parts =
        homes.length > 1
          ? [turns.filter(turn => half.has(turn.home)), turns.filter(turn => !half.has(turn.home))]
          : [turns.slice(0, Math.ceil(turns.length / 2)), turns.slice(Math.ceil(turns.length / 2))]
      for (const part of parts) await this.#commit(part)
    } else this.#refuse(turns[0]!, error)
    // Whatever became of the turns, who waits for their end must not wait for ever.
    const barriers = batch.filter(isBarrier)
    if (barriers.length > 0) await this.#commit(barriers)
  }

  /** The database will not have this turn: its home is loaded anew. */
  #refuse(guilty: Decided, error: Error & { constraint_name?: string | undefined }): void {
    const conflict = guilty.writes
      .map(({ kind }) => kind.conflicts[error.constraint_name ?? ""])
      .find(code => code !== undefined)
    this.#options.dropHome(guilty.home)
    // What it published then may still be on its way, from here or as rows of a former owner.
    if (conflict === "done") {
      // COMMIT1
      const answer = () => guilty.resolve(undefined)
      return this.#options.publisher.publish([], () => {}, answer)
    }
    if (conflict === "again") return guilty.reject(new HomeReloaded(true))
    this.#options.metrics.lanes.guiltyTurns.inc()
    if (conflict === undefined)
      this.#options.log.error({ err: error, home: guilty.home.id }, "turn refused by the database")
    guilty.reject(
      conflict === undefined ? fail("internal", {}, { cause: error }) : fail(conflict, {}, { cause: error }),
    )
  }

  /** COMMIT3: the generation is raised, so what was in flight has ended one way or the other; then the outbox tells which. */
  async #unknown(
    batch: readonly Waiting[],
    turns: readonly Decided[],
    outbox: readonly OutboxRow[],
    rows: readonly Row[],
    error: unknown,
  ): Promise<void> {
    const { log, metrics } = this.#options
    metrics.lanes.unknownOutcomes.inc()
    log.warn({ err: error, turns: turns.length }, "outcome of a commit unknown")
    let settle = () => {}
    this.#unsettled = new Promise(resolve => (settle = resolve))
    try {
      await this.#settle(batch, turns, outbox, rows, error)
    } finally {
      this.#unsettled = undefined
      settle()
    }
  }

  async #settle(
    batch: readonly Waiting[],
    turns: readonly Decided[],
    outbox: readonly OutboxRow[],
    rows: readonly Row[],
    error: unknown,
  ): Promise<void> {
    const { lane, wasWritten, dropHome } = this.#options
    for (let attempt = 0; !this.#over; attempt++) {
      try {
        await lane.raise()
        const written = await wasWritten(outbox[0]!.shard, outbox[0]!.number)
        if (written) {
          for (const row of rows) row.shard.nextRow()
          return this.#committed(batch, rows)
        }
        break
      } catch (again) {
        if (again instanceof Fenced) return this.#fenced(batch)
        // Turns that gathered meanwhile are refused as "not now": nothing of theirs was tried.
        for (const waiting of this.#waiting.splice(0)) {
          if (!isBarrier(waiting)) dropHome(waiting.home)
          waiting.reject(unavailable("database unavailable"))
        }
        await this.#options.clock.sleep(backoffMs(attempt, 50, 500))
      }
    }
    for (const turn of turns) {
      dropHome(turn.home)
      turn.reject(unavailable("database unavailable", 1, { cause: error }))
    }
    const barriers = batch.filter(isBarrier)
    if (barriers.length > 0) this.#committed(barriers, [])
  }
}

/** A span for each traced turn of a batch; what the turn publishes belongs to it. */
function noteCommits(tracer: Tracer, turns: readonly Decided[], rows: readonly Row[], startedAt: number): void {
  for (const { trace, shard, items } of turns) {
    if (trace === undefined) continue
    const commit = tracer.note("commit", trace, startedAt, { "starling.turns": turns.length })
    const row = rows.find(one => one.shard === shard)
    if (!row) continue
    row.traces ??= new Map()
    for (const item of items) row.traces.set(item, commit)
  }
}
