import type { DeliveryLogs } from "../../cluster/delivery-log.ts"
import type { WorkerStreams } from "../../cluster/worker-streams.ts"
import type { LogItem } from "../../domain/core/log-entry.ts"
import type { Clock } from "../../std/clock.ts"

/** Entries of one read at most. */
const readEntries = 500
/** What was read is kept for sessions that stand nearby, up to so many bytes. */
const maxKeptBytes = 8 * 1024 * 1024
/** After so many milliseconds of handing over, other work has its turn. */
const handOverSliceMs = 8

export interface OwnLogOptions {
  readonly streams: () => Pick<WorkerStreams, "oldest" | "at">
  readonly logs: Pick<DeliveryLogs, "read" | "at">
  readonly self: string
  readonly clock: Clock
}

/** A stretch of the log: all items after `from`, up to `to`. */
interface Stretch {
  readonly from: number
  readonly to: number
  readonly items: readonly LogItem[]
  readonly bytes: number
}

/** A reader that waits for what comes after a position. */
interface Waiting {
  readonly position: number
  readonly ready: (error?: unknown) => void
}

/**
 * Reads this worker's log from Redis for sessions that stand before what memory holds. It keeps:
 *   OWN1  One read is under way at a time; it serves every session that stands where it reads.
 *   OWN2  The next read waits until what was read is handed over, in slices.
 */
export class OwnLog {
  readonly #options: OwnLogOptions
  /** What was used last is at the end. */
  #kept: Stretch[] = []
  #keptBytes = 0
  /** Those that were used since the last sweep. */
  #used = new WeakSet<Stretch>()
  /** Where `#kept` was read. */
  #at = ""
  #waiting: Waiting[] = []
  #isReading = false

  constructor(options: OwnLogOptions) {
    this.#options = options
  }

  /** Some items after a position, if they were read lately; never the end of the log. */
  after(position: number): readonly LogItem[] | undefined {
    if (this.#at !== this.#options.streams().at) this.#forget()
    const index = this.#kept.findIndex(stretch => covers(stretch, position))
    const stretch = this.#kept[index]
    if (!stretch) return undefined
    this.#kept.push(...this.#kept.splice(index, 1))
    this.#used.add(stretch)
    return position === stretch.from ? stretch.items : stretch.items.filter(({ s }) => s > position)
  }

  /**
   * Calls back in a tick in which `after` knows what comes after the position, or with what went
   * wrong.
   */
  need(position: number, ready: (error?: unknown) => void): void {
    this.#waiting.push({ position, ready })
    if (this.#isReading) return
    this.#isReading = true
    this.#run().catch(() => {})
  }

  /** Called now and then: what no session has used since the last time is removed from memory. */
  sweep(): void {
    this.#kept = this.#kept.filter(stretch => this.#used.has(stretch))
    this.#keptBytes = this.#kept.reduce((sum, { bytes }) => sum + bytes, 0)
    this.#used = new WeakSet()
  }

  async #run(): Promise<void> {
    for (let first = this.#waiting[0]; first; first = this.#waiting[0]) {
      const { position } = first
      try {
        const stretch = await this.#read(position)
        this.#keep(stretch)
        const here = this.#waiting.filter(waiting => covers(stretch, waiting.position))
        this.#waiting = this.#waiting.filter(waiting => !covers(stretch, waiting.position))
        await this.#handOver(here) // OWN2
      } catch (error) {
        for (const { ready } of this.#waiting.splice(0)) ready(error)
      }
    }
    // In the same tick as the last look: nobody may find it reading and leave.
    this.#isReading = false
  }

  async #read(position: number): Promise<Stretch> {
    const { streams, logs, self } = this.#options
    const { at } = streams()
    // After a fail-over the log in Redis may be an older one, or none, until the worker has made a
    // new one.
    const isSettled = () => logs.at(self) === at && streams().at === at
    if (!isSettled()) throw new Error("log is made anew")
    const items = await logs.read(self, position, readEntries)
    if (!isSettled()) throw new Error("log was made anew")
    if (items.length === 0) throw new Error("log ends before its head")
    if (this.#at !== at) this.#forget()
    this.#at = at
    return { from: position, to: items.at(-1)!.s, items, bytes: items.reduce((sum, { bytes }) => sum + bytes, 0) }
  }

  #keep(stretch: Stretch): void {
    this.#kept.push(stretch)
    this.#used.add(stretch)
    this.#keptBytes += stretch.bytes
    while (this.#keptBytes > maxKeptBytes && this.#kept.length > 1) this.#keptBytes -= this.#kept.shift()!.bytes
  }

  async #handOver(readers: readonly Waiting[]): Promise<void> {
    const { clock } = this.#options
    let until = clock.monotonic() + handOverSliceMs
    for (const { ready } of readers) {
      ready()
      if (clock.monotonic() < until) continue
      await new Promise<void>(resolve => clock.soon(resolve))
      until = clock.monotonic() + handOverSliceMs
    }
  }

  #forget(): void {
    this.#kept = []
    this.#keptBytes = 0
  }
}

const covers = ({ from, to }: Stretch, position: number): boolean => from <= position && position < to
