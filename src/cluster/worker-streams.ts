import type { Clock, Timer } from "../std/clock.ts"
import { itemsOf, type LogItem } from "../domain/core/log-entry.ts"
import type { RedisKeys } from "./keys.ts"
import type { Redis } from "./redis.ts"
import { notKnownYet, replicationOf } from "./replication.ts"
import { firstNotBelow } from "../std/sorted-search.ts"

export interface WorkerStreamsOptions {
  /** A connection of its own: it blocks. */
  readonly blocking: Redis
  /** For trimming. */
  readonly redis: Redis
  readonly keys: RedisKeys
  readonly worker: string
  readonly bounds: {
    /** Entries of one read. */
    readonly readCount: number
    /** What was read is kept in Redis this long, and up to so many bytes. */
    readonly keepMs: number
    readonly maxBytes: number
    /** The newest part of the log that is kept in memory. */
    readonly memoryBytes: number
    readonly markEveryMs: number
  }
  readonly clock: Clock
  /** No position up to this one may be given out again. */
  readonly reserved: () => number
  /** The log was made anew in the Redis with this replication id; false when the worker was declared dead before. */
  readonly noteLog: (at: string) => Promise<boolean>
  /** The streams cannot be gone on with. */
  readonly onOver: (why: string) => void
  readonly onMessage: (fields: readonly string[]) => void
  /** The log has grown; `items` are its new pieces, in order. */
  readonly onItems: (items: readonly LogItem[]) => void
  readonly trouble: (error: unknown) => void
}

/**
 * Reads a worker's inbox and its delivery log with one blocking read at a time: both are in one slot. It remembers the
 * newest part of the log, and trims what is too old for any session to ask for. It keeps:
 *   LOG1  After a fail-over of Redis nothing is read or appended before the log was made anew, from memory, above every
 *       position that was given out.
 */
export class WorkerStreams {
  readonly #options: WorkerStreamsOptions
  readonly #recent: LogItem[] = []
  /** The position after which memory is whole. */
  #recentFrom = 0
  #recentBytes = 0
  #position = 0
  #oldest = 0
  /** Positions as they were, with how many bytes had been read by then. */
  readonly #marks: { at: number; position: number; bytes: number }[] = []
  #readBytes = 0
  #inboxId = "0-0"
  /** The last row of each shard that was read. */
  readonly #rows = new Map<number, number>()
  /** The replication id of the Redis that the streams are in, and those where they were. */
  #at = ""
  readonly #left = new Set<string>()
  #stopped = false
  #loop: Promise<void> | undefined
  #timer: Timer | undefined

  constructor(options: WorkerStreamsOptions) {
    this.#options = options
  }

  /** The last position that was read: every session of the worker that is live stands here. */
  get position(): number {
    return this.#position
  }

  /** The earliest position after which the log is whole. */
  get oldest(): number {
    return this.#oldest
  }

  get memoryBytes(): number {
    return this.#recentBytes
  }

  /** Which Redis the log is in. */
  get at(): string {
    return this.#at
  }

  start(inboxId: string, logPosition: number, at = replicationOf(this.#options.blocking, this.#options.worker)): void {
    this.#at = at
    this.#inboxId = inboxId
    this.#position = logPosition
    this.#oldest = logPosition
    this.#recentFrom = logPosition
    this.#loop = this.#read()
    this.#timer = this.#options.clock.every(this.#options.bounds.markEveryMs, () => this.#mark())
  }

  async stop(): Promise<void> {
    this.#stopped = true
    this.#timer?.stop()
    this.#options.blocking.disconnect()
    await this.#loop
  }

  /** What lies after a position, as far as memory reaches; undefined when it does not and Redis must be asked. */
  recentAfter(position: number): readonly LogItem[] | undefined {
    if (position >= this.#position) return []
    if (position < this.#recentFrom) return undefined
    return this.#recent.slice(firstNotBelow(this.#recent.length, i => this.#recent[i]!.s <= position))
  }

  async #read(): Promise<void> {
    const { blocking, keys, worker, bounds, trouble } = this.#options
    while (!this.#stopped) {
      try {
        const at = replicationOf(blocking, worker)
        if (at !== this.#at) {
          await this.#moveTo(at)
          continue
        }
        const inbox = keys.inbox(worker, at)
        const log = keys.log(worker, at)
        // The connection's command time-out is the watchdog: a read that does not come back is given up there.
        const reply = await blocking.xread(
          "COUNT",
          bounds.readCount,
          "BLOCK",
          2_000,
          "STREAMS",
          inbox,
          log,
          this.#inboxId,
          `${this.#position}-0`,
        )
        for (const [key, entries] of reply ?? []) {
          if (key === inbox) this.#takeMessages(entries)
          else this.#takeItems(entries)
        }
      } catch (error) {
        if (this.#stopped) return
        trouble(error)
        if (blocking.status === "ready") blocking.disconnect(true)
        await this.#options.clock.sleep(50)
      }
    }
  }

  /** LOG1 */
  async #moveTo(at: string): Promise<void> {
    const { blocking, keys, worker, reserved, onOver } = this.#options
    const [inbox, log, place] = [keys.inbox(worker, at), keys.log(worker, at), keys.logPosition(worker, at)]
    // The place is written last: where it stands this was done before, and only the answer was lost.
    const isDone = (await blocking.exists(place)) === 1
    if (at === notKnownYet) return
    if (this.#left.has(at)) {
      this.#stopped = true
      return onOver("Redis is one of before again")
    }
    // From here on nothing before it can be had.
    this.#oldest = Math.max(this.#oldest, this.#recentFrom)
    if (!isDone) {
      const from = this.#recentFrom
      // A stream of its own: nobody finds what was asked before, and does it once more.
      await strictly(blocking.multi().del(log, inbox).xadd(inbox, "*", "m", "[]").xadd(log, `${from}-0`, '["b"]', ""))
      for (let i = 0; i < this.#recent.length; i += 500) {
        const chunk = blocking.pipeline()
        for (const { s, header, data } of this.#recent.slice(i, i + 500))
          chunk.xadd(log, `${s}-0`, JSON.stringify(header), data)
        await strictly(chunk)
      }
      const next = Math.max(this.#position, reserved()) + 1
      const rows = [...this.#rows].flatMap(([shard, row]) => [`n${shard}`, row])
      await strictly(
        blocking
          .multi()
          .xadd(log, `${next}-0`, '["b"]', "")
          .hset(place, "s", next, ...rows),
      )
    }
    const { trouble, noteLog } = this.#options
    if (!(await noteLog(at))) {
      this.#stopped = true
      return onOver("declared dead")
    }
    blocking
      .unlink(keys.log(worker, this.#at), keys.logPosition(worker, this.#at), keys.inbox(worker, this.#at))
      .catch(trouble)
    this.#inboxId = "0-0"
    this.#left.add(this.#at)
    this.#at = at
  }

  #takeMessages(entries: [id: string, fields: string[]][]): void {
    for (const [id, fields] of entries) {
      this.#inboxId = id
      this.#options.onMessage(fields)
    }
  }

  #takeItems(entries: [id: string, fields: string[]][]): void {
    const items = entries.flatMap(([id, fields]) => itemsOf(id, fields))
    const { memoryBytes } = this.#options.bounds
    for (const item of items) {
      const { header } = item
      if (header[0] === "e" || header[0] === "c" || header[0] === "g") this.#rows.set(header[1], header[2])
      this.#recent.push(item)
      this.#recentBytes += item.bytes
      this.#readBytes += item.bytes
    }
    let dropped = 0
    while (this.#recentBytes > memoryBytes && dropped < this.#recent.length)
      this.#recentBytes -= this.#recent[dropped++]!.bytes
    // Cutting the front moves the rest: done rarely, in large pieces.
    if (dropped > 0) this.#recentFrom = this.#recent.splice(0, dropped).at(-1)!.s
    this.#position = items.at(-1)?.s ?? this.#position
    this.#options.onItems(items)
  }

  #mark(): void {
    const { clock, bounds, redis, keys, worker, trouble } = this.#options
    const now = clock.monotonic()
    this.#marks.push({ at: now, position: this.#position, bytes: this.#readBytes })
    let cut: { position: number } | undefined
    while (
      this.#marks.length > 1 &&
      (now - this.#marks[0]!.at > bounds.keepMs || this.#readBytes - this.#marks[0]!.bytes > bounds.maxBytes)
    )
      cut = this.#marks.shift()!
    redis.xtrim(keys.inbox(worker, this.#at), "MINID", "~", this.#inboxId).catch(trouble)
    if (!cut || cut.position <= this.#oldest) return
    this.#oldest = cut.position
    redis.xtrim(keys.log(worker, this.#at), "MINID", "~", `${cut.position}-0`).catch(trouble)
  }
}

/** All of a pipeline's commands, or the first error. */
async function strictly(pipeline: { exec(): Promise<[error: Error | null, result: unknown][] | null> }): Promise<void> {
  for (const [error] of (await pipeline.exec()) ?? []) if (error) throw error
}
