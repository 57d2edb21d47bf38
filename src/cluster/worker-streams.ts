import type { Clock, Timer } from "../std/clock.ts"
import { itemsOf, lastOf, type LogItem } from "../domain/core/log-entry.ts"
import type { RedisKeys } from "./keys.ts"
import { beginning, type OwnRun } from "./delivery-log.ts"
import { readBytes, type Entry } from "./log-reads.ts"
import { defineScript, type Redis } from "./redis.ts"
import { notKnownYet, replicationOf } from "./replication.ts"
import { Queue } from "../std/queue.ts"
import { firstNotBelow } from "../std/sorted-search.ts"

export interface WorkerStreamsOptions {
  /** A connection of its own: it blocks. */
  readonly blocking: Redis
  /** For trimming, and for waking the read that blocks. */
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
  /** Whether every other worker wakes this one over its inbox when it has appended to its log. */
  readonly isRung: () => boolean
  readonly newLog: {
    /** No position up to this one may be given out again. */
    readonly reserved: () => number
    /** The log was made anew in the Redis with this replication id; false when the worker was declared dead before. */
    readonly note: (at: string) => Promise<boolean>
    /** It is read from now on: what was not read up to this position comes again, at later ones. */
    readonly moved: (position: number) => void
  }
  /** The streams cannot be gone on with. */
  readonly onOver: (why: string) => void
  readonly onMessage: (fields: readonly string[]) => void
  /** The log has grown; `items` are its new pieces, in order. `areOwn`: this worker has appended them, and they were not read. */
  readonly onItems: (items: readonly LogItem[], areOwn: boolean) => void
  readonly trouble: (error: unknown) => void
}

/**
 * Entries of each stream in one blocking read, for which Redis knows no bound in bytes. An entry of several events holds 256
 * KiB at most.
 */
const blockingCount = 16
/** Milliseconds of a blocking read; of one during which the log is not to be read. */
const blockMs = 2_000
const heldBlockMs = 20

/**
 * Marks an entry of the inbox that says how far the log reaches by now: `[position]`, or `[]`. For a reader of an earlier
 * version it holds no message.
 */
const logGrown = "l"
const positionIn = (value: string): number => (JSON.parse(value) as [position?: number])[0] ?? 0

type StreamReply = [key: string, entries: Entry[]][]
type Reply = readonly (readonly [stream: "inbox" | "log", entries: readonly Entry[]])[]

/**
 * Reads a worker's inbox and its delivery log, one read at a time: both are in one slot. It remembers the newest part of
 * the log, and trims what is too old for any session to ask for. It keeps:
 *   LOG1  After a fail-over of Redis nothing is read or appended before the log was made anew, from memory, above every
 *       position that was given out.
 *   LOG2  However much has gathered, and however large events are, a read holds some megabytes, and
 *       no more of the log is read while what was read before waits to be sent.
 *   LOG3  What this worker has appended itself is taken without being read when it stands right after the last position
 *       that was taken; in every other case it comes by reading. Either way each entry is taken once, in the log's order.
 */
export class WorkerStreams {
  readonly #options: WorkerStreamsOptions
  readonly #recent = new Queue<LogItem>()
  /** The position after which memory is whole. */
  #recentFrom = 0
  #recentBytes = 0
  #position = 0
  /** The last position that is known to stand in the log. */
  #known = 0
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
  /** A read waits for the inbox alone; `woken`: it is about to end because there is more in the log. */
  #waiting: "no" | "yes" | "woken" = "no"
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

  /** LOG3. Takes what this worker has appended, or sees to it that it is read. */
  takeOwn({ at, from, to, fields }: OwnRun): void {
    const { blocking, worker } = this.#options
    // LOG1: while the log is made anew memory stays as it is written there.
    if (this.#stopped || at !== this.#at || at !== replicationOf(blocking, worker) || to <= this.#position) return
    if (from === this.#position && fields.length > 0 && !this.#isHeld()) {
      try {
        this.#takeItems([[`${to}-0`, fields]], true)
      } catch (error) {
        // It was appended whatever becomes of it here.
        this.#options.trouble(error)
      }
    } else this.#learn(to)
  }

  /** The log reaches as far as this: a read that waits for the inbox alone ends soon if it has not been read by then. */
  #learn(position: number): void {
    this.#known = Math.max(this.#known, position)
    if (this.#waiting !== "yes") return
    this.#waiting = "woken"
    const { clock, redis, keys, worker, trouble } = this.#options
    // What stands in between was appended by others, who have woken it: mostly the answer is here by then.
    clock.soon(() => {
      if (this.#stopped || this.#waiting !== "woken") return
      if (this.#known <= this.#position) this.#waiting = "yes"
      else redis.xadd(keys.inbox(worker, this.#at), "NOMKSTREAM", "*", logGrown, "[]").catch(trouble)
    })
  }

  async #read(): Promise<void> {
    const { blocking, worker, trouble } = this.#options
    let isMore = false
    while (!this.#stopped) {
      try {
        const at = replicationOf(blocking, worker)
        if (at !== this.#at) {
          await this.#moveTo(at)
          isMore = true
          continue
        }
        const isBehind = isMore || (this.#known > this.#position && !this.#isHeld())
        const reply = await (isBehind ? this.#readMore() : this.#readNew())
        isMore = false
        const { position } = this
        for (const [stream, entries] of reply) {
          const bytes = stream === "inbox" ? this.#takeMessages(entries) : this.#takeItems(entries)
          if (entries.length >= blockingCount || bytes >= readBytes) isMore = true
        }
        if (this.position > position) await this.#framesAreOut()
      } catch (error) {
        if (this.#stopped) return
        isMore = true
        trouble(error)
        if (blocking.status === "ready") await this.#giveUpConnection()
        await this.#options.clock.sleep(50)
      }
    }
  }

  /**
   * The frames of what was taken leave at the end of this turn of the loop. To read on takes as long as to send some of
   * them, and wakes Redis, which may want the same core: it comes after them.
   */
  #framesAreOut(): Promise<void> {
    const { clock } = this.#options
    return new Promise(resolve => clock.soon(() => clock.soon(resolve)))
  }

  /** Once: a Redis that stands still ends nothing, and every further call would leave a timer and a listener at the socket. */
  async #giveUpConnection(): Promise<void> {
    const { blocking, clock } = this.#options
    blocking.disconnect(true)
    // The client destroys the socket when its own time for that is over.
    while (blocking.status === "ready" && !this.#stopped) await clock.sleep(50)
  }

  /** What has come, or comes within some seconds. */
  async #readNew(): Promise<Reply> {
    const { blocking, bounds } = this.#options
    const { inbox, log } = this.#keys
    const count = Math.min(bounds.readCount, blockingCount)
    // The connection's command time-out is the watchdog: a read that does not come back is given up there.
    const ofInbox = (ms: number) => blocking.xread("COUNT", count, "BLOCK", ms, "STREAMS", inbox, this.#inboxId)
    const replies: (StreamReply | null)[] = []
    if (this.#isHeld()) replies.push(await this.#wokenAfter(heldBlockMs, ofInbox(heldBlockMs)))
    else if (this.#options.isRung()) {
      // Redis looks into the log when the first read has ended. Nobody has to be woken for what this worker appends itself.
      this.#waiting = "yes"
      try {
        const from = `${this.#position}-0`
        replies.push(...(await Promise.all([ofInbox(blockMs), blocking.xread("COUNT", count, "STREAMS", log, from)])))
      } finally {
        this.#waiting = "no"
      }
    } else
      replies.push(
        await blocking.xread(
          ...(["COUNT", count, "BLOCK", blockMs, "STREAMS"] as const),
          inbox,
          log,
          this.#inboxId,
          `${this.#position}-0`,
        ),
      )
    return replies.flatMap(
      reply => reply?.map(([key, entries]) => [key === inbox ? "inbox" : "log", entries] as const) ?? [],
    )
  }

  /** That the time of a read is over Redis notices when it wakes up, which it does by itself a few times a second. */
  async #wokenAfter<T>(ms: number, read: Promise<T>): Promise<T> {
    const { clock, redis, trouble } = this.#options
    const timer = clock.after(ms + 1, () => void redis.exists(this.#keys.inbox).catch(trouble))
    try {
      return await read
    } finally {
      timer.stop()
    }
  }

  /** LOG2. What has gathered, by bytes. */
  async #readMore(): Promise<Reply> {
    const { inbox, log } = this.#keys
    const isHeld = this.#isHeld()
    const known = this.#known
    const [messages, entries] = await Promise.all([
      this.#readUpTo(inbox, this.#inboxId),
      isHeld ? [] : this.#readUpTo(log, this.#position),
    ])
    // What a log that was lost had reached counts no more.
    if (!isHeld && entries.length === 0 && this.#known === known) this.#known = this.#position
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
    const { blocking, keys, worker, onOver, trouble, newLog } = this.#options
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
      const next = Math.max(this.#position, newLog.reserved()) + 1
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
    if (!(await newLog.note(at))) {
      this.#stopped = true
      return onOver("declared dead")
    }
    blocking
      .unlink(keys.log(worker, this.#at), keys.logPosition(worker, this.#at), keys.inbox(worker, this.#at))
      .catch(trouble)
    this.#inboxId = "0-0"
    this.#known = 0
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
      if (fields[0] !== logGrown) this.#options.onMessage(fields)
      else this.#known = Math.max(this.#known, positionIn(fields[1]!))
    }
    return bytes
  }

  /**
   * Takes what follows the position; what was taken meanwhile is left out.
   * @returns how many bytes they hold
   */
  #takeItems(entries: readonly (readonly [id: string, fields: readonly string[]])[], areOwn = false): number {
    const before = this.#readBytes
    const items = entries.flatMap(([id, fields]) => (lastOf(id) > this.#position ? itemsOf(id, fields) : []))
    if (items.length === 0) return 0
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
    this.#position = items.at(-1)!.s
    this.#options.onItems(items, areOwn)
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
