import type { Clock, Timer } from "../std/clock.ts"
import { itemsOf, type LogItem } from "../domain/core/log-entry.ts"
import type { RedisKeys } from "./keys.ts"
import { beginning } from "./delivery-log.ts"
import { readBytes, type Entry } from "./log-reads.ts"
import { defineScript, type Redis } from "./redis.ts"
import { notKnownYet, replicationOf } from "./replication.ts"
import { Queue } from "../std/queue.ts"
import { firstNotBelow } from "../std/sorted-search.ts"

export interface WorkerStreamsOptions {
  /** A connection of its own: it blocks. */
  readonly blocking: Redis
  /** For trimming. */
  readonly redis: Redis
  readonly keys: RedisKeys
  readonly worker: string
  readonly bounds: {
    /** Entries of each stream in one read. */
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
  readonly newLog: {
    /** The log was made anew in the Redis with this replication id; false when the worker was declared dead before. */
    readonly note: (at: string) => Promise<boolean>
    /** It is read from now on: what was not read up to this position comes again, at later ones. */
    readonly moved: (position: number) => void
  }
  /** The streams cannot be gone on with. */
  readonly onOver: (why: string) => void
  readonly onMessage: (fields: readonly string[]) => void
  /** The log has grown; `items` are its new pieces, in order. */
  readonly onItems: (items: readonly LogItem[]) => void
  readonly trouble: (error: unknown) => void
}

/**
 * Entries of each stream in one blocking read, for which Redis knows no bound in bytes. An entry of several events holds 256
 * KiB at most.
 */
const blockingCount = 16
/** Milliseconds of a blocking read of the inbox alone. */
const heldBlockMs = 20

type Reply = readonly (readonly [stream: "inbox" | "log", entries: Entry[]])[]

/**
 * Reads a worker's inbox and its delivery log, one read at a time: both are in one slot. It remembers the newest part of
 * the log, and trims what is too old for any session to ask for. It keeps:
 *   LOG1  After a fail-over of Redis nothing is read or appended before the log was made anew, from memory, above every
 *       position that was given out.
 *   LOG2  However much has gathered, and however large events are, a read holds some megabytes, and
 *       no more of the log is read while what was read before waits to be sent.
 */
export class WorkerStreams {
  readonly #options: WorkerStreamsOptions
  readonly #recent = new Queue<LogItem>()
  /** The position after which memory is whole. */
  #recentFrom = 0
  #recentBytes = 0
  #position = 0
  #oldest = 0
  /** Positions as they were, with how many bytes had been read by then. */
  readonly #marks: { at: number; position: number; bytes: number }[] = []
  #readBytes = 0
  #inboxId = "0-0"
  /** Up to where the inbox was trimmed last; nothing has come since while it is the same. */
  #trimmedTo = "0-0"
  /** The last row of each shard that was read. */
  readonly #rows = new Map<number, number>()
  /** The replication id of the Redis that the streams are in, and those where they were. */
  #at = ""
  readonly #left = new Set<string>()
  #isHeld: () => boolean = () => false
  #stopped = false
  #loop: Promise<void> | undefined
  #timer: Timer | undefined

  constructor(options: WorkerStreamsOptions) {
    this.#options = options
    defineScript(options.blocking, "readLog", 1)
  }

  /** The log is not read on while `isHeld`. */
  holdWhile(isHeld: () => boolean): void {
    this.#isHeld = isHeld
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
    return this.#recent.slice(firstNotBelow(this.#recent.length, i => this.#recent.at(i).s <= position))
  }

  async #read(): Promise<void> {
    const { blocking, worker, trouble } = this.#options
    let isMore = false
    while (!this.#stopped) {
      try {
        const at = replicationOf(blocking, worker)
        if (at !== this.#at) {
          await this.#moveTo(at)
          continue
        }
        const reply = await (isMore ? this.#readMore() : this.#readNew())
        isMore = false
        for (const [stream, entries] of reply) {
          const bytes = stream === "inbox" ? this.#takeMessages(entries) : this.#takeItems(entries)
          if (entries.length >= blockingCount || bytes >= readBytes) isMore = true
        }
      } catch (error) {
        if (this.#stopped) return
        isMore = false
        trouble(error)
        if (blocking.status === "ready") blocking.disconnect(true)
        await this.#options.clock.sleep(50)
      }
    }
  }

  /** What has come, or comes within some seconds. */
  async #readNew(): Promise<Reply> {
    const { blocking, bounds } = this.#options
    const { inbox, log } = this.#keys
    const count = Math.min(bounds.readCount, blockingCount)
    // The connection's command time-out is the watchdog: a read that does not come back is given up there.
    const reply = this.#isHeld()
      ? await blocking.xread("COUNT", count, "BLOCK", heldBlockMs, "STREAMS", inbox, this.#inboxId)
      : await blocking.xread(
          ...(["COUNT", count, "BLOCK", 2_000, "STREAMS"] as const),
          inbox,
          log,
          this.#inboxId,
          `${this.#position}-0`,
        )
    return (reply ?? []).map(([key, entries]) => [key === inbox ? "inbox" : "log", entries])
  }

  /** LOG2. What has gathered, by bytes. */
  async #readMore(): Promise<Reply> {
    const { inbox, log } = this.#keys
    const [messages, entries] = await Promise.all([
      this.#readUpTo(inbox, this.#inboxId),
      this.#isHeld() ? [] : this.#readUpTo(log, this.#position),
    ])
    return [
      ["inbox", messages],
      ["log", entries],
    ]
  }

  #readUpTo(key: string, after: string | number): Promise<Entry[]> {
    const { blocking, bounds } = this.#options
    const redis = blocking as Redis & { readLog(...args: (string | number)[]): Promise<Entry[]> }
    return redis.readLog(key, after, readBytes, bounds.readCount)
  }

  get #keys(): { inbox: string; log: string } {
    const { keys, worker } = this.#options
    return { inbox: keys.inbox(worker, this.#at), log: keys.log(worker, this.#at) }
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
      await strictly(blocking.multi().del(log, inbox).xadd(inbox, "*", "m", "[]").xadd(log, `${from}-0`, beginning, ""))
      for (let i = 0; i < this.#recent.length; i += 500) {
        const chunk = blocking.pipeline()
        for (const { s, header, data } of this.#recent.slice(i, i + 500))
          chunk.xadd(log, `${s}-0`, JSON.stringify(header), data)
        await strictly(chunk)
      }
      const next = Math.max(this.#position, reserved()) + 1
      const rows = [...this.#rows].flatMap(([shard, row]) => [`n${shard}`, row])
      // Once more the inbox: Redis may have lost all that it knew since it was made, and nobody could ask this worker anything.
      await strictly(
        blocking
          .multi()
          .xadd(inbox, "*", "m", "[]")
          .xadd(log, `${next}-0`, beginning, "")
          .hset(place, "s", next, ...rows),
      )
    }
    const { trouble, newLog } = this.#options
    if (!(await newLog.note(at))) {
      this.#stopped = true
      return onOver("declared dead")
    }
    blocking
      .unlink(keys.log(worker, this.#at), keys.logPosition(worker, this.#at), keys.inbox(worker, this.#at))
      .catch(trouble)
    this.#inboxId = "0-0"
    this.#left.add(this.#at)
    this.#at = at
    newLog.moved(this.#position)
  }

  /** @returns about how many bytes they hold */
  #takeMessages(entries: readonly Entry[]): number {
    let bytes = 0
    for (const [id, fields] of entries) {
      this.#inboxId = id
      for (const field of fields) bytes += field.length
      this.#options.onMessage(fields)
    }
    return bytes
  }

  /** @returns how many bytes they hold */
  #takeItems(entries: readonly Entry[]): number {
    if (entries.length === 0) return 0
    const before = this.#readBytes
    const items = entries.flatMap(([id, fields]) => itemsOf(id, fields))
    const { memoryBytes } = this.#options.bounds
    for (const item of items) {
      const { header } = item
      if (header[0] === "e" || header[0] === "c" || header[0] === "g") this.#rows.set(header[1], header[2])
      this.#recent.push(item)
      this.#recentBytes += item.bytes
      this.#readBytes += item.bytes
    }
    while (this.#recentBytes > memoryBytes) {
      const oldest = this.#recent.shift()!
      this.#recentBytes -= oldest.bytes
      this.#recentFrom = oldest.s
    }
    this.#position = items.at(-1)?.s ?? this.#position
    this.#options.onItems(items)
    return this.#readBytes - before
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
    if (this.#inboxId !== this.#trimmedTo) {
      this.#trimmedTo = this.#inboxId
      redis.xtrim(keys.inbox(worker, this.#at), "MINID", "~", this.#inboxId).catch(trouble)
    }
    if (!cut || cut.position <= this.#oldest) return
    this.#oldest = cut.position
    redis.xtrim(keys.log(worker, this.#at), "MINID", "~", `${cut.position}-0`).catch(trouble)
  }
}

/** All of a pipeline's commands, or the first error. */
async function strictly(pipeline: { exec(): Promise<[error: Error | null, result: unknown][] | null> }): Promise<void> {
  for (const [error] of (await pipeline.exec()) ?? []) if (error) throw error
}
