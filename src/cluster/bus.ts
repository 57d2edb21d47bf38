import { Failure, fail, failureOf, type FailureDetails } from "../contract/core/errors.ts"
import type { Clock } from "../std/clock.ts"
import type { Log } from "../observability/log.ts"
import type { Metrics } from "../observability/metrics.ts"
import { append } from "../std/multi-map.ts"
import { SweepWhileAny } from "../std/sweep-while-any.ts"
import type { BusMessage, Outgoing } from "./bus-messages.ts"
import type { RedisKeys } from "./keys.ts"
import type { Redis } from "./redis.ts"
import { replicationOf } from "./replication.ts"
import { SocketRoad, type SocketRoadOptions } from "./socket-road.ts"

/** The other worker is not there, or not any longer: nothing can be said about what it did. */
export class WorkerGone extends Error {
  /** It was declared dead while it had what was asked of it: that may be what it died of. */
  readonly diedMeanwhile: boolean
  constructor(worker: string, { diedMeanwhile = false, ...options }: ErrorOptions & { diedMeanwhile?: boolean } = {}) {
    super(`worker ${worker} is gone`, options)
    this.diedMeanwhile = diedMeanwhile
  }
}

/** What a handler throws to say "not mine": the asker looks up the owner again. */
export class ShardMoved extends Error {
  constructor() {
    super("the shard lives elsewhere")
  }
}

/** The other worker knows no such request: it is of another version. */
export class NotHandled extends Failure {
  constructor(details: FailureDetails) {
    super("internal", details)
  }
}

/** Answers a request. The id is the asker's; the same id may come again. */
export type Handler = (body: never, from: string, id: string, timeoutMs: number) => Promise<unknown>

/** Milliseconds: longer than anybody waits for an answer; between two attempts to send one. */
const answerTimeoutMs = 5_000
const resendAfterMs = 100
/** So late at most is it noticed that an answer has not come. */
const sweepEveryMs = 100

interface Pending {
  readonly worker: string
  readonly expiresAt: number
  readonly resolve: (body: unknown) => void
  readonly reject: (error: Error) => void
}

/** What the road beside Redis needs; without it all messages go through Redis. */
export type SocketsOfBus = Pick<SocketRoadOptions, "sockets" | "bounds" | "isDead">

export interface BusOptions {
  readonly redis: Redis
  readonly keys: RedisKeys
  readonly self: string
  readonly clock: Clock
  readonly maxPending: number
  readonly trouble: (error: unknown) => void
  readonly sockets?: SocketsOfBus | undefined
  readonly log: Log
  readonly metrics: Pick<Metrics, "bus">
  /** What an asker is told when a handler throws something else than a refusal. */
  readonly refusalOf: (error: unknown) => Failure
}

/**
 * Messages between workers. Each has one inbox stream in Redis: requests come in there, and so do the answers to its own.
 * Workers of one host have a shorter road beside it (socket-road.ts). A message may arrive twice or never; requests carry ids, and
 * every request ends: answered, refused, moved, gone or timed out.
 */
export class Bus {
  readonly #options: BusOptions
  readonly #handlers = new Map<string, Handler>()
  readonly #notices = new Map<string, (body: never, from: string) => void>()
  /** By id, those who asked first come first: the same may be asked several times at once, and each time is answered. */
  readonly #pending = new Map<string, Pending[]>()
  #pendingCount = 0
  readonly #outgoing = new Map<string, Outgoing[]>()
  readonly #sweeper: SweepWhileAny
  readonly road: SocketRoad | undefined
  #ids = 0

  constructor(options: BusOptions) {
    this.#options = options
    const { sockets, self, clock, trouble, log, metrics } = options
    this.road =
      sockets &&
      new SocketRoad({
        ...sockets,
        self,
        clock,
        trouble,
        log,
        metrics,
        take: message => this.#take(message),
        append: (worker, outgoing) => this.#append(worker, outgoing),
        returned: (worker, outgoing) => this.#unsent(worker, outgoing),
      })
    this.#sweeper = new SweepWhileAny(options.clock, sweepEveryMs, () => this.#sweep())
  }

  get pending(): number {
    return this.#pendingCount
  }

  newId(): string {
    return `${this.#options.self}.${(++this.#ids).toString(36)}`
  }

  /** Which function answers requests of a kind. */
  handle<Body, Reply>(
    kind: string,
    handler: (body: Body, from: string, id: string, timeoutMs: number) => Promise<Reply>,
  ): void {
    this.#handlers.set(kind, handler)
  }

  onNotice<Body>(kind: string, handler: (body: Body, from: string) => void): void {
    this.#notices.set(kind, handler)
  }

  /** Makes the inbox; before that nobody can send to this worker. @returns the position to read from */
  async open(): Promise<string> {
    await this.road?.open()
    const id = await this.#options.redis.xadd(this.#inboxOf(this.#options.self), "*", "m", "[]")
    return id!
  }

  /** Asks another worker. Rejects with a `Failure`, with `ShardMoved`, or with `WorkerGone`. */
  request<Reply>(worker: string, kind: string, body: unknown, timeoutMs: number, id = this.newId()): Promise<Reply> {
    if (this.#pendingCount >= this.#options.maxPending)
      return Promise.reject(fail("unavailable", { retry_after: 1, extra: { reason: "bus full" } }))
    return new Promise((resolve, reject) => {
      const pending = {
        worker,
        expiresAt: this.#options.clock.monotonic() + timeoutMs,
        resolve: resolve as (body: unknown) => void,
        reject,
      }
      append(this.#pending, id, pending)
      this.#pendingCount++
      this.#sweeper.begin()
      this.#send(worker, ["ask", id, this.#options.self, kind, timeoutMs, body])
    })
  }

  /** The same of this worker, without a message. */
  async here<Reply>(kind: string, body: unknown): Promise<Reply> {
    const handler = this.#handlers.get(kind)
    if (!handler) throw new NotHandled({})
    return (await handler(body as never, this.#options.self, this.newId(), answerTimeoutMs)) as Reply
  }

  /** Tells another worker something that it can do without. `unsent` is called when it is known not to have gone out. */
  notify(worker: string, kind: string, body: unknown, unsent?: () => void): void {
    this.#send(worker, ["notice", this.#options.self, kind, body], { unsent })
  }

  /** One entry of the inbox. */
  receive(fields: readonly string[]): void {
    for (let i = 1; i < fields.length; i += 2) {
      const messages = JSON.parse(fields[i]!) as BusMessage[]
      const [first] = messages
      if (first?.[0] === "batch" && this.road && !this.road.arrive(first[1], first[2])) continue
      for (const message of messages) this.#take(message)
    }
  }

  /** A worker was declared dead: what was asked of it will not be answered. */
  forget(worker: string): void {
    this.#rejectThose(
      pending => pending.worker === worker,
      () => new WorkerGone(worker, { diedMeanwhile: true }),
    )
    this.road?.forget(worker)
  }

  /** Redis may have lost what was asked, or its answer: those who wait are to ask again, under the same id. */
  doubt(): void {
    this.#rejectThose(
      () => true,
      ({ worker }) => new WorkerGone(worker),
    )
  }

  close(): void {
    this.road?.close()
    this.doubt()
    this.#sweeper.stop()
  }

  #take(message: BusMessage): void {
    switch (message[0]) {
      case "ask": {
        const [, id, from, kind, timeoutMs, body] = message
        this.#answer(id, from, kind, timeoutMs, body).catch(this.#options.trouble)
        return
      }
      case "answer":
        return this.#settle(message[1])?.resolve(message[2])
      case "refusal":
        return this.#settle(message[1])?.reject(
          message[2] === "internal" && !message[4] ? new NotHandled(message[3]) : failureOf(message[2], message[3]),
        )
      case "moved":
        return this.#settle(message[1])?.reject(new ShardMoved())
      case "notice":
        return this.#notices.get(message[2])?.(message[3] as never, message[1])
      case "batch": // It was looked at with the entry that it stands in.
    }
  }

  /** Whose answer it is of those who asked the same does not matter: it is the answer to what all of them asked. */
  #settle(id: string, isMeant: (pending: Pending) => boolean = () => true): Pending | undefined {
    const all = this.#pending.get(id)
    const at = all ? all.findIndex(isMeant) : -1
    if (at < 0) return undefined
    const [settled] = all!.splice(at, 1)
    if (all!.length === 0) this.#pending.delete(id)
    this.#pendingCount--
    return settled
  }

  #rejectThose(isMeant: (pending: Pending) => boolean, reason: (pending: Pending) => Error): void {
    for (const id of this.#pending.keys())
      for (let pending = this.#settle(id, isMeant); pending; pending = this.#settle(id, isMeant))
        pending.reject(reason(pending))
  }

  async #answer(id: string, from: string, kind: string, timeoutMs: number, body: unknown): Promise<void> {
    const handler = this.#handlers.get(kind)
    if (!handler) return this.#send(from, ["refusal", id, "internal", {}])
    try {
      const reply = await handler(body as never, from, id, timeoutMs)
      this.#send(from, ["answer", id, reply ?? null])
    } catch (error) {
      if (error instanceof ShardMoved) return this.#send(from, ["moved", id])
      if (error instanceof Failure) return this.#send(from, ["refusal", id, error.code, error.details, true])
      const failure = this.#options.refusalOf(error)
      this.#send(from, ["refusal", id, failure.code, failure.details, true])
    }
  }

  /** All that goes to one worker in one turn of the loop is one entry, or one frame. */
  #send(worker: string, message: BusMessage, { until, unsent }: Partial<Omit<Outgoing, "message">> = {}): void {
    const one = { message, until: until ?? this.#options.clock.monotonic() + answerTimeoutMs, unsent }
    const waiting = this.#outgoing.get(worker)
    if (waiting) {
      waiting.push(one)
      return
    }
    const outgoing = [one]
    this.#outgoing.set(worker, outgoing)
    this.#options.clock.soon(() => {
      this.#outgoing.delete(worker)
      if (!this.road?.carry(worker, outgoing)) this.#append(worker, outgoing)
    })
  }

  #append(worker: string, outgoing: readonly Outgoing[]): void {
    const { redis, metrics } = this.#options
    const mark = this.road?.mark(worker)
    const messages = mark ? [mark] : []
    for (const { message } of outgoing) messages.push(message)
    metrics.bus.messages.redis.inc(outgoing.length)
    redis.xadd(this.#inboxOf(worker), "NOMKSTREAM", "*", "m", JSON.stringify(messages)).then(
      id => {
        if (id === null) this.#unsent(worker, outgoing)
      },
      (error: unknown) => this.#unsent(worker, outgoing, error),
    )
  }

  #inboxOf(worker: string): string {
    const { redis, keys } = this.#options
    return keys.inbox(worker, replicationOf(redis, worker))
  }

  /**
   * An asker asks again; those who wait for an answer are sent it again, because they cannot know that it was lost: also
   * while their inbox is not there, as it may be about to be made anew.
   */
  #unsent(worker: string, outgoing: readonly Outgoing[], cause?: unknown): void {
    const { clock, trouble } = this.#options
    if (cause !== undefined) trouble(cause)
    for (const { message, until, unsent } of outgoing)
      if (message[0] === "ask")
        this.#settle(message[1], pending => pending.worker === worker)?.reject(new WorkerGone(worker, { cause }))
      else if (message[0] === "notice") unsent?.()
      else if (clock.monotonic() < until) clock.after(resendAfterMs, () => this.#send(worker, message, { until }))
  }

  #sweep(): boolean {
    const now = this.#options.clock.monotonic()
    this.#rejectThose(
      ({ expiresAt }) => expiresAt <= now,
      () => fail("unavailable", { retry_after: 1, extra: { reason: "no answer in time" } }),
    )
    return this.#pendingCount > 0
  }
}
