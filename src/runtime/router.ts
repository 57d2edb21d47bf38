import { fail, Failure, unavailable } from "../contract/core/errors.ts"
import type { Snowflake } from "../contract/core/fields.ts"
import { WorkerGone, ShardMoved, type Bus } from "../cluster/bus.ts"
import type { Directory } from "../cluster/directory.ts"
import { inBatches } from "../std/batches.ts"
import type { Clock } from "../std/clock.ts"
import { SweepWhileAny } from "../std/sweep-while-any.ts"
import { shardOf } from "../domain/core/snowflake.ts"
import type { Log } from "../observability/log.ts"
import type { Metrics } from "../observability/metrics.ts"
import type { TraceParent } from "../observability/traces.ts"
import type { ActorKind, Ask, AskOptions, Create, Tell } from "./actor.ts"
import type { ClusterView } from "./cluster-view.ts"
import type { LogPlaces } from "../cluster/delivery-log.ts"
import type { CommandEnvelope, HoldUp, Host, Registration } from "./host.ts"
import type { SentTell } from "./outbox.ts"

interface AskMessage {
  readonly actor: string
  readonly id?: Snowflake
  readonly shard: number
  readonly command: string
  readonly input: unknown
  /** Of the request that it is a part of, if that is traced. */
  readonly trace?: TraceParent | undefined
}

export interface RouterOptions {
  readonly bus: Bus
  readonly directory: Directory
  readonly view: Pick<ClusterView, "self" | "isDead">
  readonly askTimeoutMs: number
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
}

/** So late at most is it noticed that an answer has not come. */
const sweepEveryMs = 100
/** What has no answer in time is written to the log so often at most. */
const logLateEveryMs = 1_000

/** What a worker with shards does itself. */
export interface LocalShards {
  readonly host: Host
  /** Somebody asks here for a shard that is not here. */
  readonly onMissing: (shard: number) => void
  readonly wasSeen: (tell: { shard: number; source: number; number: number; item: number }) => Promise<boolean>
}

/** Homes of one shard whose events a worker wants. */
type Wanted = readonly [shard: number, homes: readonly Snowflake[]]

/** Shards that one request names at most. */
const maxRegistered = 128

/** Somebody who waits for an answer. */
interface Waiting {
  readonly shard: number
  /** The command, or what else is asked. */
  readonly what: string
  readonly expiresAt: number
  readonly reject: (error: Error) => void
  /** Who was asked last; nobody while no owner is known. */
  owner: string | undefined
}

/** An answer of the owner, which another would give as well. */
const isRefusal = (error: unknown): boolean =>
  error instanceof Failure && error.code !== "unavailable" && error.code !== "internal"

/** Every ask of a host has the same keys, wherever it came from. */
const envelopeOf = (
  { actor, id, command, input, trace }: AskMessage,
  requestId: string | undefined,
  deadlineMs: number,
): CommandEnvelope => ({ actor, id, command, input, requestId, deadlineMs, trace })

/**
 * Finds the owner of an actor and asks it: here when it is here, else through the owner's inbox. When the owner has changed
 * or is gone the same request goes to the next one, under the same id, until the deadline. It keeps:
 *   ASK1  A command of which owners die ends two of them at most.
 */
export class Router {
  readonly #options: RouterOptions
  readonly #waiting = new Set<Waiting>()
  readonly #sweeper: SweepWhileAny
  /** By owner: what is gathered in this turn of the event loop. */
  readonly #registrations = new Map<string, (wanted: Wanted) => Promise<Registration>>()
  #local: LocalShards | undefined
  #stopped = false
  /** Those without an answer in time that no line of the log tells of yet, and when the next one may. */
  #late = 0
  #logLateAt = -Infinity

  constructor(options: RouterOptions) {
    this.#options = options
    this.#sweeper = new SweepWhileAny(options.clock, sweepEveryMs, () => this.#sweep())
  }

  /** From now on this worker answers for its own shards, too. */
  serve(local: LocalShards): void {
    this.#local = local
    const { host } = local
    const { bus, clock } = this.#options
    bus.handle<AskMessage, unknown>("ask", (message, _from, requestId, timeoutMs) =>
      this.#here(message.shard, () =>
        host.perform(envelopeOf(message, requestId, clock.monotonic() + timeoutMs), message.shard),
      ),
    )
    bus.handle<SentTell, true>("tell", async tell => {
      await this.#here(shardOf(tell.id), () => this.#receive(tell))
      return true
    })
    bus.handle<{ homes: Wanted[] }, Registration[]>("register", async ({ homes }, from) =>
      homes.length === 1 ? this.#here(homes[0]![0], () => host.register(from, homes)) : host.register(from, homes),
    )
    bus.handle<{ home: Snowflake }, string[]>("workersOf", ({ home }) =>
      this.#here(shardOf(home), async () => host.workersOf(home)),
    )
    bus.onNotice<{ shard: number; homes: Snowflake[] }>("release", ({ shard, homes }, from) => {
      host.release(from, shard, homes)
    })
  }

  /** Only asked for where this worker owns a shard. */
  get #host(): Host {
    if (!this.#local) throw new ShardMoved()
    return this.#local.host
  }

  stop(): void {
    this.#stopped = true
    this.#sweeper.stop()
  }

  get #trace(): TraceParent | undefined {
    return this.#options.metrics.tracer?.current
  }

  readonly ask: Ask = (actor, id, { type, ...input }, options) => {
    const shard = shardOf(id)
    const { kind, missing } = actor as ActorKind<unknown, unknown, object>
    if (this.#options.directory.lacks(shard)) return Promise.reject(fail(missing)) as never
    return this.#perform(shard, { actor: kind, id, shard, command: type, input, trace: this.#trace }, options) as never
  }

  readonly create: Create = (actor, { type, ...input }, options) => {
    const shard = this.#options.directory.anyShard()
    return this.#perform(
      shard,
      { actor: (actor as ActorKind<unknown, unknown, object>).kind, shard, command: type, input, trace: this.#trace },
      options,
    ) as never
  }

  /** Delivers a tell; resolves when the home's owner has committed it. */
  tell(tell: SentTell): Promise<void> {
    const shard = shardOf(tell.id)
    return this.#bounded(shard, tell.command, this.#options.askTimeoutMs, waiting =>
      this.#atOwner(waiting, {
        here: () => this.#receive(tell),
        there: async (owner, left) => {
          await this.#options.bus.request<true>(owner, "tell", tell, left)
        },
      }),
    )
  }

  /** Passes on what may be lost. */
  async tellOnce({ actor, id, command, input }: Tell): Promise<void> {
    await this.#perform(shardOf(id), { actor, id, shard: shardOf(id), command, input })
  }

  /**
   * Makes this worker interested in homes of one shard. What is asked of one owner in one turn of the event loop goes
   * together.
   * @returns from which row on its log holds them, and where the logs are that hold them
   */
  register(shard: number, homes: readonly Snowflake[]): Promise<{ row: number; places: LogPlaces | undefined }> {
    const wanted: Wanted = [shard, homes]
    const { id: self } = this.#options.view.self
    // One shard that is on its way elsewhere fails what it was asked with. So that it does so once, each then goes alone.
    let isFirst = true
    const ask = (owner: string, left: number) => {
      const together = isFirst
      isFirst = false
      return together ? this.#registering(owner)(wanted) : this.#registerAt(owner, [wanted], left).then(([one]) => one!)
    }
    return this.#bounded(shard, "register", this.#options.askTimeoutMs, async waiting => {
      const [, row, places] = await this.#atOwner(waiting, {
        here: () => ask(self, waiting.expiresAt - this.#options.clock.monotonic()),
        there: ask,
      })
      return { row, places }
    })
  }

  /** What is asked of an owner from now until this turn of the event loop is over. */
  #registering(owner: string): (wanted: Wanted) => Promise<Registration> {
    const { askTimeoutMs, clock } = this.#options
    let ask = this.#registrations.get(owner)
    if (!ask) {
      const send = (all: readonly Wanted[]) => {
        this.#registrations.delete(owner)
        return this.#registerAt(owner, all, askTimeoutMs)
      }
      ask = inBatches(send, maxRegistered, { soon: action => clock.soon(action) })
      this.#registrations.set(owner, ask)
    }
    return ask
  }

  async #registerAt(owner: string, homes: readonly Wanted[], timeoutMs: number): Promise<Registration[]> {
    const { view, bus } = this.#options
    if (owner === view.self.id) return this.#host.register(owner, homes)
    return bus.request<Registration[]>(owner, "register", { homes }, timeoutMs)
  }

  /** This worker's log need not take these homes' events any more. Best effort: an owner that does not hear of it sends more than is wanted. */
  release(shard: number, homes: readonly Snowflake[]): void {
    const { directory, view, bus } = this.#options
    const owner = directory.ownerOf(shard)
    if (owner === view.self.id) this.#local?.host.release(owner, shard, homes)
    else if (typeof owner === "string") bus.notify(owner, "release", { shard, homes })
  }

  /** The same, until the owner is known to have heard of it: of users, whom others see as long as a worker takes their events. */
  releaseSurely(shard: number, homes: readonly Snowflake[]): Promise<void> {
    const { view, bus } = this.#options
    return this.#bounded(shard, "release", this.#options.askTimeoutMs, waiting =>
      this.#atOwner(waiting, {
        here: async () => {
          if (!(await this.#host.releaseSurely(view.self.id, shard, homes))) throw new ShardMoved()
        },
        async there(owner, left) {
          bus.notify(owner, "release", { shard, homes })
          // Its inbox keeps order: the owner that answers this has heard of the release.
          await bus.request(owner, "register", { homes: [[shard, []]] }, left)
        },
      }),
    )
  }

  /** The workers that take a home's events: of a user, those that hold their gateway sessions. */
  workersOf(home: Snowflake, timeoutMs = this.#options.askTimeoutMs): Promise<string[]> {
    if (this.#options.directory.lacks(shardOf(home))) return Promise.resolve([])
    return this.#bounded(shardOf(home), "workersOf", timeoutMs, waiting =>
      this.#atOwner(waiting, {
        here: async () => this.#host.workersOf(home),
        there: (owner, left) => this.#options.bus.request<string[]>(owner, "workersOf", { home }, left),
      }),
    )
  }

  /** What is here is performed without another layer; if its shard has moved meanwhile, its owner is looked for. */
  #perform(
    shard: number,
    message: AskMessage,
    { requestId, timeoutMs = this.#options.askTimeoutMs }: AskOptions = {},
  ): Promise<unknown> {
    const { clock, directory, metrics, view } = this.#options
    const deadlineMs = clock.monotonic() + timeoutMs
    return new Promise((resolve, reject) => {
      const waiting = this.#await(shard, message.command, deadlineMs, reject)
      const answered = (reply: unknown) => {
        this.#waiting.delete(waiting)
        resolve(reply)
      }
      const failed = (error: Error) => {
        this.#waiting.delete(waiting)
        reject(error)
      }
      const { id: self } = view.self
      const host = directory.ownerOf(shard) === self && !view.isDead(self) ? this.#local?.host : undefined
      if (!host || this.#stopped || timeoutMs <= 0)
        return void this.#performAtOwner(waiting, message, requestId).then(answered, failed)
      metrics.bus.localAsks.inc()
      waiting.owner = self
      host
        .perform(envelopeOf(message, requestId, deadlineMs), shard)
        .then(answered, (error: Error) =>
          error instanceof ShardMoved || error instanceof WorkerGone
            ? this.#performAtOwner(waiting, message, requestId).then(answered, failed)
            : failed(error),
        )
    })
  }

  #performAtOwner(waiting: Waiting, message: AskMessage, requestId: string | undefined): Promise<unknown> {
    const { bus, metrics } = this.#options
    const { shard, expiresAt: deadlineMs } = waiting
    const id = requestId ?? bus.newId()
    // Once it was sent away it may have been done there; if the shard comes here, its outbox knows the answer by this id.
    let named = requestId !== undefined
    return this.#atOwner(waiting, {
      isResentOnce: true,
      here: () => {
        metrics.bus.localAsks.inc()
        return this.#host.perform(envelopeOf(message, named ? id : undefined, deadlineMs), shard)
      },
      there: (owner, left) => {
        named = true
        return bus.request(owner, "ask", message, left, id)
      },
    })
  }

  async #atOwner<T>(
    waiting: Waiting,
    way: {
      readonly here: () => Promise<T>
      readonly there: (owner: string, left: number) => Promise<T>
      /** Whether it may be what its owner died of; then it is sent to one more owner, and no other. */
      readonly isResentOnce?: boolean
    },
  ): Promise<T> {
    const { directory, view, clock, metrics } = this.#options
    const { shard, expiresAt: deadlineMs } = waiting
    let deaths = 0
    for (;;) {
      if (this.#stopped) throw unavailable("worker is ending")
      const left = deadlineMs - clock.monotonic()
      if (left <= 0) throw unavailable("no owner")
      const owner = directory.ownerOf(shard)
      // The inbox of a dead worker still takes what nobody will answer.
      if (typeof owner !== "string" || view.isDead(owner)) {
        waiting.owner = undefined
        await directory.changed(Math.min(left, 50))
        if (directory.ownerOf(shard) === owner) await directory.refresh(shard)
        continue
      }
      const startedAt = clock.monotonic()
      waiting.owner = owner
      try {
        if (owner === view.self.id) return await way.here()
        const reply = await way.there(owner, left)
        metrics.bus.asks.answered.inc()
        metrics.bus.askSeconds.observe((clock.monotonic() - startedAt) / 1000)
        return reply
      } catch (error) {
        if (!(error instanceof ShardMoved) && !(error instanceof WorkerGone)) {
          if (owner !== view.self.id && this.#waiting.has(waiting))
            if (isRefusal(error)) metrics.bus.asks.refused.inc()
            else if (clock.monotonic() < deadlineMs) metrics.bus.asks.failed.inc()
            else this.#refuseLate(waiting) // The bus has seen it first.
          throw error
        }
        if (owner === view.self.id) this.#noteMissing(shard, error)
        if (error instanceof WorkerGone && error.diedMeanwhile) deaths++
        if (way.isResentOnce && deaths >= 2) {
          metrics.bus.asks.given_up.inc()
          throw unavailable("its owners died") // ASK1
        }
        metrics.bus.asks.moved.inc()
        // The next owner needs a moment to take over; until then the map still names the old one.
        await directory.changed(Math.min(25, Math.max(left, 1)))
        if (directory.ownerOf(shard) === owner) await directory.refresh(shard)
      }
    }
  }

  async #here<T>(shard: number, action: () => Promise<T>): Promise<T> {
    try {
      return await action()
    } catch (error) {
      this.#noteMissing(shard, error)
      throw error
    }
  }

  /** Somebody asked here for a shard that is not here. */
  #noteMissing(shard: number, error: unknown): void {
    if (error instanceof ShardMoved && this.#local && !this.#local.host.shard(shard)) this.#local.onMissing(shard)
  }

  #await(shard: number, what: string, expiresAt: number, reject: (error: Error) => void): Waiting {
    const waiting = { shard, what, expiresAt, reject, owner: undefined }
    this.#waiting.add(waiting)
    this.#sweeper.begin()
    return waiting
  }

  /** Every ask ends: what has no answer at its deadline is refused as "not now", though it may still happen. */
  #bounded<T>(shard: number, what: string, timeoutMs: number, action: (waiting: Waiting) => Promise<T>): Promise<T> {
    const expiresAt = this.#options.clock.monotonic() + timeoutMs
    return new Promise<T>((resolve, reject) => {
      const waiting = this.#await(shard, what, expiresAt, reject)
      action(waiting).then(
        reply => {
          this.#waiting.delete(waiting)
          resolve(reply)
        },
        (error: Error) => {
          this.#waiting.delete(waiting)
          reject(error)
        },
      )
    })
  }

  #sweep(): boolean {
    const now = this.#options.clock.monotonic()
    for (const waiting of this.#waiting) if (waiting.expiresAt <= now) this.#refuseLate(waiting)
    return this.#waiting.size > 0
  }

  /** The one who asked and the operator learn what was waited for. */
  #refuseLate(waiting: Waiting): void {
    const { clock, log, metrics } = this.#options
    if (!this.#waiting.delete(waiting)) return
    metrics.bus.asks.timed_out.inc()
    const { shard, what, owner, expiresAt } = waiting
    const waitsFor = this.#stepOf(waiting)
    waiting.reject(unavailable(`no answer in time: ${waitsFor}`))
    this.#late++
    const now = clock.monotonic()
    if (now < this.#logLateAt) return
    log.warn(
      { count: this.#late, what, shard, owner, waits_for: waitsFor, late_ms: Math.round(now - expiresAt) },
      "no answer in time",
    )
    this.#late = 0
    this.#logLateAt = now + logLateEveryMs
  }

  #stepOf({ owner }: Waiting): "owner" | "other worker" | HoldUp {
    if (owner === undefined) return "owner"
    if (owner !== this.#options.view.self.id) return "other worker"
    return this.#local?.host.holdUp ?? "owner"
  }

  /** A tell that may have come before is looked up; one that is new cannot have. */
  async #receive(tell: SentTell): Promise<void> {
    const { clock, askTimeoutMs } = this.#options
    const host = this.#host
    const { shard: source, number, item } = tell.source
    // What it made the home publish may still be on its way.
    if (tell.again && (await this.#local!.wasSeen({ shard: shardOf(tell.id), source, number, item })))
      return host.barrier()
    await host.perform({
      actor: tell.actor,
      id: tell.id,
      command: tell.command,
      input: tell.input,
      deadlineMs: clock.monotonic() + askTimeoutMs,
      tell,
    })
  }
}
