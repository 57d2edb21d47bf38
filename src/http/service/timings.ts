import type { TimingEntry } from "../../contract/service/telemetry.ts"
import type { Route } from "../../contract/core/registry.ts"
import { EndpointNames, type Endpoint } from "../../domain/service/endpoints.ts"
import {
  beginOf,
  ClientTimings,
  Figures,
  firstErrorStatus,
  rowsOf,
  spans,
  type Timing,
} from "../../domain/service/telemetry.ts"
import type { Log } from "../../observability/log.ts"
import type { Metrics, RouteMetrics } from "../../observability/metrics.ts"
import { secondsAt, type Clock, type Timer } from "../../std/clock.ts"
import { within } from "../../std/deadline.ts"
import type { TimingBatch } from "../../storage/service/telemetry.ts"
import type { Storage } from "../../storage/storage.ts"

export interface TimingsOptions {
  readonly storage: { readonly telemetry: Pick<Storage["telemetry"], "add"> }
  /** Every route of the contract. */
  readonly routes: readonly Route[]
  /** This process in this life: no other writes under the same name. */
  readonly writer: string
  readonly flushEveryMs: number
  /** False: nothing is measured, and nothing is taken. */
  readonly isEnabled: boolean
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Pick<Metrics, "telemetry">
}

/** Timings of the past that clients have sent and that wait to be written, by endpoint and five minutes. */
const maxPastTimings = 200
const attempts = 2
const pauseMs = 1_000
const lastWriteMs = 2_000

/**
 * How long requests take, as this process and its clients have measured it. It is added up in memory and written every few
 * seconds, what is new since the last time in one statement:
 *   TIM1  An answer costs a few additions, and allocates nothing.
 *   TIM2  A batch counts once, however often it is sent.
 *   TIM3  What waits is bounded, whatever clients send and however long PostgreSQL is away: a batch that was refused twice
 *         is lost, and while the last one was, clients are told that theirs are not taken.
 */
export class Timings {
  readonly #options: TimingsOptions
  readonly #own: { readonly endpoint: Endpoint; readonly figures: Figures }[] = []
  readonly #clients: ClientTimings
  /** What is written next. */
  #taken: Timing[] = []
  #batches = 0
  #writing: Promise<boolean> | undefined
  /** The last batch was lost. */
  #isFailing = false
  #timer: Timer | undefined
  #isStopped = false

  constructor(options: TimingsOptions) {
    this.#options = options
    this.#clients = new ClientTimings(new EndpointNames(options.routes), maxPastTimings)
    if (options.isEnabled) this.#schedule()
  }

  get isEnabled(): boolean {
    return this.#options.isEnabled
  }

  /** Keeps the timings of the answers of one endpoint. */
  of(endpoint: Endpoint): RouteMetrics {
    if (!this.#options.isEnabled) return { observe() {} }
    const figures = new Figures()
    this.#own.push({ endpoint, figures })
    return {
      observe(status, seconds) {
        if (status !== 0) figures.add(seconds * 1_000_000, status >= firstErrorStatus)
      },
    }
  }

  /** What a client has measured. @returns how many of them count */
  add(entries: readonly TimingEntry[]): number {
    if (this.#isFailing || !this.#options.isEnabled) return 0
    const nowS = secondsAt(this.#options.clock.now())
    let accepted = 0
    for (const entry of entries) if (this.#clients.add(entry, nowS)) accepted++
    return accepted
  }

  /** Writes what is new. Resolves when it is written, or lost. */
  async flush(): Promise<void> {
    await this.#writing
    this.#take()
    await this.#write()
  }

  /** The last is written at once, if that does not take long. */
  async stop(): Promise<void> {
    this.#isStopped = true
    this.#timer?.stop()
    if (this.#options.isEnabled) await within(lastWriteMs, this.flush(), () => {})
  }

  /**
   * What there is is taken in step with the clock, so that it was measured in one span; it is written a little later, each process at
   * another moment. While a batch is on its way the next one gathers.
   */
  #schedule(): void {
    const { clock, flushEveryMs } = this.#options
    if (this.#isStopped) return
    this.#timer = clock.after(flushEveryMs - (clock.now() % flushEveryMs), () => {
      if (this.#writing) return this.#schedule()
      this.#take()
      this.#timer = clock.after((Math.random() * flushEveryMs) / 2, () => {
        this.#schedule()
        this.#write().catch(() => {})
      })
    })
  }

  #take(): void {
    const at = beginOf(secondsAt(this.#options.clock.now() - 1), spans[0])
    this.#taken.push(...this.#clients.take())
    for (const { endpoint, figures } of this.#own) {
      if (figures.count === 0) continue
      const copy = new Figures()
      copy.merge(figures)
      figures.clear()
      this.#taken.push({ ...endpoint, source: "server", at, figures: copy })
    }
  }

  async #write(): Promise<void> {
    const taken = this.#taken
    if (taken.length === 0) return
    this.#taken = []
    const batch = { writer: this.#options.writer, number: ++this.#batches, rows: rowsOf(taken) }
    const writing = this.#store(batch)
    this.#writing = writing
    this.#isFailing = !(await writing)
    if (this.#writing === writing) this.#writing = undefined
    if (this.#isFailing) for (const { figures } of taken) this.#options.metrics.telemetry.lost.inc(figures.count)
  }

  /** @returns whether it is stored */
  async #store(batch: TimingBatch): Promise<boolean> {
    const { storage, clock, log } = this.#options
    for (let attempt = 1; ; attempt++)
      try {
        await storage.telemetry.add(batch)
        if (this.#isFailing) log.info("timings are stored again")
        return true
      } catch (error) {
        if (attempt === attempts || this.#isStopped) {
          if (!this.#isFailing) log.warn({ err: error }, "timings are not stored")
          return false
        }
        await clock.sleep(pauseMs)
      }
  }
}
