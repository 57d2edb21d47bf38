import { Failure, fail, unavailable } from "../contract/core/errors.ts"
import type { Snowflake } from "../contract/core/fields.ts"
import { ShardMoved } from "../cluster/bus.ts"
import type { Clock, Timer } from "../std/clock.ts"
import { shardOf } from "../domain/core/snowflake.ts"
import type { LogHeader } from "../domain/core/log-entry.ts"
import type { Log } from "../observability/log.ts"
import { largest } from "../observability/holdings.ts"
import type { Metrics } from "../observability/metrics.ts"
import type { Span, TraceParent } from "../observability/traces.ts"
import type { Write } from "../storage/core/write.ts"
import { markTell } from "../storage/core/tells.ts"
import type {
  ActorKind,
  Command,
  Creation,
  Effects,
  HomeKind,
  LoadFirst,
  LookUpFirst,
  Publication,
  Tell,
} from "./actor.ts"
import type { ClusterView } from "./cluster-view.ts"
import { HomeReloaded, Home, type Homes } from "./home.ts"
import type { CommitQueue } from "./commit-queue.ts"
import type { DeliveryLogs, LogPlaces } from "../cluster/delivery-log.ts"
import type { Outbox, SentTell } from "./outbox.ts"
import type { EffectExtension, Lookup } from "./plugs.ts"
import { toItem } from "./row.ts"
import type { Answered, Shard } from "./shard.ts"

/** Any actor whose homes are loaded from a source: what its homes and commands are made of is its own affair. */
export interface HostedActor<Source> extends Pick<ActorKind<never, never, object>, "kind" | "missing"> {
  readonly home: HomeKind<unknown, Source>
}
// Inside the host the kinds of actors, homes and commands have lost their types; `ask` has checked them.
type AnyActor = ActorKind<unknown, unknown, Record<string, never>>
type AnyCommand = Command<unknown, unknown, unknown, unknown> | Creation<unknown, unknown, unknown>

/** One command on its way to its turn. */
export interface CommandEnvelope {
  readonly actor: string
  /** Absent when the command makes its home. */
  readonly id: Snowflake | undefined
  readonly command: string
  readonly input: unknown
  /** Named when another worker asked: repeats are answered with the first answer. */
  readonly requestId?: string | undefined
  /** Monotonic milliseconds after which nobody waits for the answer. */
  readonly deadlineMs: number
  readonly tell?: SentTell
  readonly suspect?: boolean
  /** Of the traced request that asks. */
  readonly trace?: TraceParent | undefined
  /** Its own span, until it is decided. */
  readonly span?: Span
}

/** A command from when it is let in until it is answered. */
interface Performing {
  readonly envelope: CommandEnvelope
  readonly shard: Shard
  readonly resolve: (reply: unknown) => void
  readonly reject: (error: unknown) => void
  /** That has taken it. */
  home: Home | undefined
  actor: AnyActor | undefined
  command: Command<unknown, unknown, unknown, unknown> | undefined
  /** For the home to be clean. */
  hasWaited: boolean
  /** Of the lookup that its turn asked for. */
  answer: unknown
}

/** What the application hands to the runtime. */
export interface HostedApplication {
  readonly actors: readonly HostedActor<never>[]
  /** What loaders of homes and facts read from. */
  readonly source: unknown
  /** By the names that turns call them. */
  readonly extensions: Readonly<Record<string, EffectExtension>>
  /** By the names that turns call them. */
  readonly lookups: Readonly<Record<string, Lookup>>
  /** Where a file of a message may be read by those who are told, for a day from `now`. */
  readonly signedPath: (file: string, now: number) => string
}

/** What is sent at most once. */
interface EphemeralTargets {
  /** To a worker that is interested now. */
  append(worker: string, fields: readonly string[]): void
  /** To another home: nobody waits for the outcome. */
  tell(tell: Tell): void
}

export interface HostOptions {
  readonly application: HostedApplication
  readonly homes: Homes
  /** The shards of this worker, by number. */
  readonly shards: Map<number, Shard>
  readonly queue: Pick<CommitQueue, "add" | "unsettled" | "length" | "stuckForMs">
  readonly outbox: Pick<
    Outbox,
    "touch" | "dropInterest" | "notified" | "isWhole" | "behind" | "unconfirmed" | "stuckForMs"
  >
  readonly logs: Pick<DeliveryLogs, "places">
  readonly ephemeral: EphemeralTargets
  readonly view: Pick<ClusterView, "untilAble">
  readonly bounds: {
    readonly mailbox: number
    readonly homes: number
    readonly inFlight: number
    readonly sleepAfterMs: number
    readonly answerKeepMs: number
  }
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
}

/** What answers wait for: PostgreSQL to commit, Redis to take what was committed, or something before that, like what a turn reads. */
export type HoldUp = "commit" | "publication" | "turn"
/** Milliseconds without a commit or an append from which on answers are late because of it. */
const holdsUpAfterMs = 500

/** The turns of a home are counted by spans of so many sweeps, of a second each. */
const sweepsOfSpan = 5

/**
 * What an owner says of a shard: up to which row its logs hold everything, and in which Redis they are. A worker of the
 * version before does not say where.
 */
export type Registration = readonly [shard: number, row: number, places?: LogPlaces]

/**
 * The actors of this worker: loads their homes, gives each command its turn, and hands what was decided to the lane. It keeps:
 *   HOST1  A turn sees everything that earlier turns of its home have applied.
 *   HOST2  No uncommitted state is revealed: a response that only read waits until everything it
 *       saw is committed.
 *   HOST3  Nothing is decided unless the worker may serve and owns the shard.
 */
export class Host {
  readonly #options: HostOptions
  readonly #actors: ReadonlyMap<string, AnyActor>
  readonly #shards: Map<number, Shard>
  readonly #homes: Homes
  readonly #loading = new Map<string, Promise<Home | undefined>>()
  /** Homes of actors that are not homes themselves. An actor never moves to another home. */
  readonly #homeIds = new Map<string, Snowflake>()
  readonly #sweeper: Timer
  #inFlight = 0
  /** Commands that wait until this worker may decide. */
  #unable = 0
  #sweeps = 0

  constructor(options: HostOptions) {
    this.#options = options
    this.#shards = options.shards
    this.#homes = options.homes
    this.#actors = new Map((options.application.actors as readonly AnyActor[]).map(actor => [actor.kind, actor]))
    this.#sweeper = options.clock.every(1_000, () => this.#sweep())
    options.metrics.homes.loaded.from(() => this.#homes.size)
    options.metrics.shards.owned.from(() => this.#shards.size)
    options.metrics.holdings.show("homes", () => this.#held())
  }

  shard(number: number): Shard | undefined {
    return this.#shards.get(number)
  }

  /** What holds up answers that do not come. */
  get holdUp(): HoldUp {
    const { queue, outbox } = this.#options
    const [commit, publication] = [queue.stuckForMs, outbox.stuckForMs]
    if (Math.max(commit, publication) < holdsUpAfterMs) return "turn"
    return commit > publication ? "commit" : "publication"
  }

  get shards(): ReadonlyMap<number, Shard> {
    return this.#shards
  }

  addShard(shard: Shard): void {
    this.#shards.set(shard.number, shard)
  }

  /** The shard is another's: whatever of it is in memory is worth nothing. */
  removeShard(shard: Shard): void {
    if (this.#shards.get(shard.number) === shard) this.#shards.delete(shard.number)
    shard.closing = true
    for (const home of this.#homes.values()) if (home.shard === shard) this.#homes.drop(home)
  }

  stop(): void {
    this.#sweeper.stop()
  }

  #held() {
    const { bounds, queue, outbox } = this.#options
    const hot = largest(this.#homes.values(), ({ recentTurns }) => recentTurns)
    return {
      loaded: this.#homes.size,
      loaded_most: bounds.homes,
      shards: this.#shards.size,
      commands: this.#inFlight + this.#unable,
      commands_most: bounds.inFlight,
      commits: { waiting: queue.length, stuck_ms: queue.stuckForMs },
      publication: { waiting: outbox.behind, unconfirmed_rows: outbox.unconfirmed, stuck_ms: outbox.stuckForMs },
      hot: hot.map(({ id, kind, recentTurns, waiting }) => ({
        home: id,
        kind,
        turns_per_second: recentTurns / sweepsOfSpan,
        waiting,
        waiting_most: bounds.mailbox,
      })),
    }
  }

  /** Takes a command to its turn. Rejects with a `Failure`, or with `ShardMoved` when the shard is not here. */
  perform(envelope: CommandEnvelope, onShard?: number): Promise<unknown> {
    return envelope.trace === undefined
      ? this.#perform(envelope, onShard)
      : this.#performTraced(envelope, envelope.trace, onShard)
  }

  async #performTraced(envelope: CommandEnvelope, trace: TraceParent, onShard?: number): Promise<unknown> {
    const span = this.#options.metrics.tracer?.begin(`turn ${envelope.actor}.${envelope.command}`, trace)
    if (!span) return this.#perform(envelope, onShard)
    let isBug = false
    try {
      return await this.#perform({ ...envelope, span }, onShard)
    } catch (error) {
      isBug = !(error instanceof Failure)
      throw error
    } finally {
      // One that has decided something has ended with that.
      span.end(this.#options.clock.monotonic(), {}, isBug)
    }
  }

  #perform(envelope: CommandEnvelope, onShard?: number): Promise<unknown> {
    const { bounds, view } = this.#options
    const shard = this.#shards.get(onShard ?? shardOf(envelope.id!))
    if (!shard || shard.closing) return Promise.reject(new ShardMoved())
    if (this.#inFlight + this.#unable >= bounds.inFlight) return Promise.reject(unavailable("worker is full"))
    const wait = view.untilAble() // HOST3
    return wait ? this.#performAfter(wait, envelope, onShard) : this.#once(shard, envelope)
  }

  async #performAfter(wait: Promise<void>, envelope: CommandEnvelope, onShard?: number): Promise<unknown> {
    this.#options.metrics.homes.unable.inc()
    this.#unable++
    try {
      await wait
    } finally {
      this.#unable--
    }
    // Nobody listens any more: refused, it is surely not done.
    if (this.#options.clock.monotonic() >= envelope.deadlineMs) throw unavailable("waited for too long")
    return this.#perform(envelope, onShard)
  }

  /** Resolves when all that the host has decided by now is committed and stands in the logs. */
  barrier(committed: () => void = () => {}): Promise<void> {
    return new Promise((resolve, reject) => this.#options.queue.add({ committed, barrier: resolve, reject }))
  }

  /** Repeats of another worker's request share one answer. */
  #once(shard: Shard, envelope: CommandEnvelope): Promise<unknown> {
    const { requestId } = envelope
    if (requestId === undefined) return this.#begin(shard, envelope)
    const known = shard.answered.get(requestId)
    if (known) return known.reply
    const reply = this.#begin(shard, envelope)
    const answered: Answered = { reply, at: this.#options.clock.monotonic() }
    shard.answered.set(requestId, answered)
    // A refusal decided nothing: asked again, it is decided again.
    reply.catch(() => {
      if (shard.answered.get(requestId) === answered) shard.answered.delete(requestId)
    })
    return reply
  }

  /** It has one promise, and what it passes through has none: a turn for which nothing is missing waits for its commit alone. */
  #begin(shard: Shard, envelope: CommandEnvelope): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.#inFlight++
      shard.running++
      const performing: Performing = {
        envelope,
        shard,
        resolve,
        reject,
        home: undefined,
        actor: undefined,
        command: undefined,
        hasWaited: false,
        answer: undefined,
      }
      try {
        this.#attempt(performing)
      } catch (error) {
        this.#fail(performing, error)
      }
    })
  }

  /** Who asks again is answered with the reply in short: whole ones would be kept by the thousand for those who never do. */
  #keepShort({ shard, envelope: { requestId } }: Performing, keptReply: unknown): void {
    const answered = requestId === undefined ? undefined : shard.answered.get(requestId)
    if (answered) answered.reply = Promise.resolve(keptReply)
  }

  #end({ shard, home }: Performing): void {
    this.#inFlight--
    shard.running--
    if (home) home.waiting--
  }

  #answer(performing: Performing, reply: unknown): void {
    this.#end(performing)
    performing.resolve(reply)
  }

  #fail(performing: Performing, error: unknown): void {
    this.#end(performing)
    const { envelope, shard, resolve, reject } = performing
    if (!(error instanceof HomeReloaded)) return reject(error)
    if (this.#options.clock.monotonic() >= envelope.deadlineMs) return reject(unavailable("home was loaded anew"))
    // It begins anew, and is not its own repeat.
    if (envelope.requestId !== undefined) shard.answered.delete(envelope.requestId)
    resolve(this.#perform(error.suspect ? { ...envelope, suspect: true } : envelope, shard.number))
  }

  #attempt(performing: Performing): void {
    const { envelope } = performing
    const actor = this.#actors.get(envelope.actor)
    const command = actor && (actor.commands as Record<string, AnyCommand | undefined>)[envelope.command]
    if (!command) throw new Error(`no command ${envelope.actor}.${envelope.command}`)
    this.#options.metrics.homes.turns.of(envelope.actor, envelope.command).inc()
    if ("create" in command) return this.#create(performing, command)
    performing.actor = actor
    performing.command = command
    const id = envelope.id!
    const homeId = actor.homeOf ? this.#homeIds.get(id) : id
    const home = homeId === undefined ? undefined : this.#homes.get(homeId)
    // A home that is in memory takes its turn without a wait before it.
    if (home) return this.#enter(performing, home)
    this.#findElsewhere(performing, actor, command, homeId).catch((error: unknown) => this.#fail(performing, error))
  }

  #create(performing: Performing, command: Creation<unknown, unknown, unknown>): void {
    const { shard, envelope } = performing
    const { clock } = this.#options
    const now = clock.now()
    const id = shard.newId(now)
    const records: Write[] = []
    const effects = command.create(
      { id, now, newId: () => shard.newId(now), write: row => void records.push(row) },
      envelope.input,
    )
    const home = new Home(id, shard, effects.home, clock.monotonic())
    this.#homes.set(id, home)
    this.#options.metrics.homes.activations.inc()
    this.#decide(performing, home, withRecords(effects, records))
  }

  async #findElsewhere(
    performing: Performing,
    actor: AnyActor,
    command: Command<unknown, unknown, unknown, unknown>,
    known: Snowflake | undefined,
  ): Promise<void> {
    const { envelope, shard } = performing
    const id = envelope.id!
    const homeId = known ?? (await this.#homeIdOf(actor, id))
    if (homeId === undefined) throw fail(actor.missing)
    if (command.forListeners && !shard.interests.has(homeId) && !this.#homes.has(homeId))
      return this.#answer(performing, undefined)
    const home = this.#homes.get(homeId) ?? (await this.#load(shard, actor.home, homeId))
    if (home === undefined) throw fail(actor.missing)
    this.#enter(performing, home)
  }

  /** The home takes the command. What is thrown refuses it. */
  #enter(performing: Performing, home: Home): void {
    if (home.waiting >= this.#options.bounds.mailbox) {
      this.#options.metrics.homes.mailboxFull.inc()
      throw unavailable("home is full")
    }
    home.usedAt = this.#options.clock.monotonic()
    home.noteTurn(performing.actor!.home.name)
    home.waiting++
    performing.home = home
    const wait = this.#turn(performing, home)
    if (wait) this.#turnAfter(wait, performing, home).catch((error: unknown) => this.#fail(performing, error))
  }

  async #turnAfter(first: Promise<unknown>, performing: Performing, home: Home): Promise<void> {
    for (let wait: Promise<unknown> | undefined = first; wait; wait = this.#turn(performing, home)) await wait
  }

  /** @returns what has to be waited for before the turn is taken again; nothing: it is decided, and answered in time */
  #turn(performing: Performing, home: Home): Promise<unknown> | undefined {
    const { envelope } = performing
    const [actor, command, id] = [performing.actor!, performing.command!, envelope.id!]
    const { application, clock } = this.#options
    if (home.dropped) throw new HomeReloaded()
    const state = actor.find(home.state, id)
    if (state === undefined) return this.#refuse(performing, home, fail(actor.missing))
    // Once: what one command needs may be too much by itself.
    if (!performing.hasWaited && home.overfull) {
      performing.hasWaited = home.clean
      if (!home.clean) return home.whenClean()
      home.forgetOldFacts()
    }
    const needs = command.needs?.(envelope.input, { id, state, home: home.state, suspect: envelope.suspect ?? false })
    const loads = needs && home.loadMissing(needs, application.source, clock.now())
    if (loads) return loads
    if (home.shard.closing) throw new ShardMoved() // HOST3
    const wait = this.#options.view.untilAble() // HOST3
    if (wait) return wait
    const now = clock.now()
    const records: Write[] = []
    let effects: Effects<unknown, unknown> | LookUpFirst | LoadFirst<unknown>
    try {
      effects = command.turn(
        {
          state,
          home: home.state,
          now,
          newId: () => home.shard.newId(now),
          write: row => void records.push(row),
          linkTo: file => application.signedPath(file, now),
          answer: performing.answer,
        },
        envelope.input,
      )
    } catch (error) {
      if (error instanceof Failure) this.#options.metrics.homes.refusals.of(error.code).inc()
      return this.#refuse(performing, home, error)
    }
    // What it recorded before it asked is recorded again when it is taken again.
    if ("load" in effects) {
      const found = home.loadMissing(effects.load, application.source, now)
      if (!found) throw new Error("the turn asked for facts that it has")
      return found
    }
    if ("lookUp" in effects)
      return application.lookups[effects.lookUp]!.find(home.id, effects.question as never).then(answer => {
        performing.answer = answer
      })
    this.#decide(performing, home, withRecords(effects, records))
    return undefined
  }

  async #settled<T>(home: Home, targets: readonly Snowflake[], reply: T): Promise<T> {
    await this.barrier()
    await this.#options.outbox.notified(home.shard.number, targets)
    return reply
  }

  /** HOST2 */
  #afterCommit(performing: Performing, home: Home, answer: () => void): void {
    if (home.clean) return answer()
    home.whenClean().then(answer, (error: unknown) => this.#fail(performing, error))
  }

  #refuse(performing: Performing, home: Home, error: unknown): undefined {
    this.#afterCommit(performing, home, () => this.#fail(performing, error))
    return undefined
  }

  #decide(performing: Performing, home: Home, effects: Effects<unknown, unknown>): void {
    const { envelope } = performing
    const publish = effects.publish ?? []
    const stored = publish.every(isStored) ? publish : publish.filter(isStored)
    for (const worker of effects.interest ?? []) this.#addInterest(home.shard, home.id, worker)
    effects.remember?.(home.state)
    let writes = effects.write ?? []
    if (envelope.tell)
      writes = [
        ...writes,
        markTell({
          ...envelope.tell.source,
          home: home.id,
          shard: home.shard.number,
          source: envelope.tell.source.shard,
        }),
      ]
    if (writes.length === 0 && stored.length === 0) {
      this.#sendEphemeral(home, publish)
      return this.#afterCommit(performing, home, () => this.#over(performing, home, effects, effects.reply)) // HOST2
    }
    effects.apply?.(home.state)
    home.applied()
    envelope.span?.end(this.#options.clock.monotonic(), { "starling.home": home.id })
    this.#options.queue.add({
      home,
      shard: home.shard,
      writes,
      items: stored.map(publication => toItem(home.id, publication)),
      requestId: envelope.requestId,
      reply: effects.reply,
      keptReply: effects.keptReply ?? effects.reply,
      trace: envelope.span?.parent,
      resolve: reply => {
        if (stored !== publish) this.#sendEphemeral(home, publish)
        if (effects.after) this.#extend(home, effects)
        this.#over(performing, home, effects, reply)
      },
      reject: error => {
        // Nobody knows whether it was committed: looking costs little.
        if (effects.after) this.#extend(home, effects)
        this.#fail(performing, error)
      },
    })
  }

  /** What it decided is committed. */
  #over(performing: Performing, home: Home, effects: Effects<unknown, unknown>, reply: unknown): void {
    const { settled, keptReply } = effects
    if (keptReply !== undefined) this.#keepShort(performing, keptReply)
    if (!settled || performing.envelope.tell) return this.#answer(performing, reply)
    this.#settled(home, settled, reply).then(
      answer => this.#answer(performing, answer),
      (error: unknown) => this.#fail(performing, error),
    )
  }

  #extend(home: Home, { after }: Effects<unknown, unknown>): void {
    for (const { extension, value } of after ?? [])
      this.#options.application.extensions[extension]!.committed(home.id, value as never)
  }

  /** From now on a worker's log takes a home's events; saved with the next flush. */
  #addInterest(shard: Shard, home: Snowflake, worker: string): void {
    shard.addInterest(home, worker)
    this.#options.outbox.touch(shard)
  }

  /**
   * Makes a worker interested in homes of a shard.
   * @returns the number of the shard's row from which on its log holds everything, once all before it is committed and
   * appended; and where the logs are that hold it
   */
  async register(
    worker: string,
    homes: readonly (readonly [shard: number, homes: readonly Snowflake[]])[],
  ): Promise<Registration[]> {
    const shardsOf = () =>
      homes.map(([number]) => {
        const shard = this.#shards.get(number)
        if (!shard || shard.closing) throw new ShardMoved()
        return shard
      })
    let shards = shardsOf()
    for (let wait; (wait = this.#options.view.untilAble()); shards = shardsOf()) await wait
    for (const [i, [, ids]] of homes.entries()) for (const id of ids) this.#addInterest(shards[i]!, id, worker)
    for (const shard of shards) shard.running++
    let from: [number, number][] = []
    try {
      await this.barrier(() => {
        from = shards.map(shard => [shard.number, shard.committedRow])
      })
    } finally {
      for (const shard of shards) shard.running--
    }
    // Another owner that has opened one of them meanwhile may have read who takes it before this was written.
    if (shards.some(shard => this.#shards.get(shard.number) !== shard)) throw new ShardMoved()
    return from.map(([number, row], i) => [number, row, this.#placesOf(shards[i]!, homes[i]![1])])
  }

  #placesOf(shard: Shard, homes: readonly Snowflake[]): LogPlaces {
    if (!this.#options.outbox.isWhole) return ""
    const workers = new Set<string>()
    for (const home of homes) for (const worker of shard.interests.get(home)?.keys() ?? []) workers.add(worker)
    return this.#options.logs.places(workers)
  }

  /** A worker is interested in homes no longer; nobody waits for it. */
  release(worker: string, number: number, homes: readonly Snowflake[]): void {
    this.releaseSurely(worker, number, homes).catch((error: unknown) =>
      this.#options.log.error({ err: error, shard: number }, "homes not released"),
    )
  }

  /**
   * A worker is interested in homes no longer. It waits as a registration does, so that one that came before is not done after it;
   * where that is refused this is done nevertheless.
   * @returns whether the shard is here to hear of it
   */
  async releaseSurely(worker: string, number: number, homes: readonly Snowflake[]): Promise<boolean> {
    for (let wait; (wait = this.#options.view.untilAble());)
      try {
        await wait
      } catch {
        break
      }
    const shard = this.#shards.get(number)
    if (!shard || shard.closing) return false
    this.#options.outbox.dropInterest(shard, worker, homes)
    return true
  }

  workersOf(home: Snowflake): string[] {
    const shard = this.#shards.get(shardOf(home))
    if (!shard || shard.closing) throw new ShardMoved()
    return [...(shard.interests.get(home)?.keys() ?? [])]
  }

  #sendEphemeral(home: Home, publish: readonly Publication[]): void {
    for (const publication of publish) {
      if (publication.kind === "tell" && publication.isEphemeral) this.#options.ephemeral.tell(publication)
      if (isStored(publication) || publication.kind !== "event") continue
      const header: LogHeader = [
        "x",
        home.shard.number,
        0,
        home.id,
        publication.audience,
        publication.event.name,
        publication.except,
      ]
      const fields = [JSON.stringify(header), JSON.stringify(publication.data)]
      for (const worker of home.shard.interests.get(home.id)?.keys() ?? [])
        this.#options.ephemeral.append(worker, fields)
    }
  }

  async #homeIdOf(actor: AnyActor, id: Snowflake): Promise<Snowflake | undefined> {
    const homeId = await actor.homeOf!(id, this.#options.application.source)
    if (homeId === undefined) return undefined
    if (this.#homeIds.size >= 4 * this.#options.bounds.homes) this.#homeIds.clear()
    this.#homeIds.set(id, homeId)
    return homeId
  }

  #load(shard: Shard, kind: HomeKind<unknown>, id: Snowflake): Promise<Home | undefined> {
    let loading = this.#loading.get(id)
    if (!loading) {
      loading = this.#wake(shard, kind, id).finally(() => this.#loading.delete(id))
      this.#loading.set(id, loading)
    }
    return loading
  }

  async #wake(shard: Shard, kind: HomeKind<unknown>, id: Snowflake): Promise<Home | undefined> {
    const { application, bounds, clock, metrics } = this.#options
    if (this.#homes.size >= bounds.homes) this.#sleep(0)
    if (this.#homes.size >= bounds.homes) throw unavailable("too many homes")
    while (this.#options.queue.unsettled) await this.#options.queue.unsettled
    const state = await kind.load(id, application.source)
    if (state === undefined) return undefined
    if (this.#options.queue.unsettled) throw new HomeReloaded()
    if (this.#shards.get(shard.number) !== shard) throw new ShardMoved()
    const home = new Home(id, shard, state, clock.monotonic())
    this.#homes.set(id, home)
    metrics.homes.activations.inc()
    return home
  }

  /** Homes that nobody has used for a while go back to PostgreSQL, and old answers are forgotten. */
  #sweep(): void {
    const { bounds, clock } = this.#options
    if (++this.#sweeps % sweepsOfSpan === 0) for (const home of this.#homes.values()) home.countTurns()
    this.#sleep(bounds.sleepAfterMs)
    const before = clock.monotonic() - bounds.answerKeepMs
    for (const shard of this.#shards.values())
      for (const [requestId, { at }] of shard.answered) {
        if (at > before) break
        shard.answered.delete(requestId)
      }
  }

  #sleep(unusedFor: number): void {
    const before = this.#options.clock.monotonic() - unusedFor
    for (const home of this.#homes.values())
      if (home.idle && home.usedAt <= before) {
        this.#homes.drop(home)
        this.#options.metrics.homes.sleeps.inc()
      }
  }
}

/** The rows that the turn added come behind those of its effects. */
const withRecords = <E extends { readonly write?: readonly Write[] }>(effects: E, records: readonly Write[]): E =>
  records.length === 0 ? effects : { ...effects, write: [...(effects.write ?? []), ...records] }

function isStored(publication: Publication): boolean {
  if (publication.kind === "tell") return !publication.isEphemeral
  return publication.kind !== "event" || publication.event.delivery === "stored"
}
