import { randomInt } from "node:crypto"
import { isRedisAway } from "../../cluster/away.ts"
import { Bus, NotHandled } from "../../cluster/bus.ts"
import { DeliveryLogs, gapPart } from "../../cluster/delivery-log.ts"
import { Directory, type ShardOwner } from "../../cluster/directory.ts"
import { Interests, type Interest } from "../../cluster/interests.ts"
import type { JobQueue } from "../../cluster/job-queue.ts"
import type { RedisKeys } from "../../cluster/keys.ts"
import { Membership, type Member } from "../../cluster/members.ts"
import { AnnouncedPresences } from "../../cluster/presences.ts"
import type { Connect } from "../../cluster/redis.ts"
import { onNewReplication, replicationsOf } from "../../cluster/replication.ts"
import { WorkerStreams } from "../../cluster/worker-streams.ts"
import type { Clock, Timer } from "../../domain/clock.ts"
import type { LogItem } from "../../domain/log-entry.ts"
import type { PresenceChange } from "../../domain/presences.ts"
import { mintedUpTo, type MintedUpTo } from "../../domain/minted.ts"
import { epochMs, idOf, shardOf } from "../../domain/snowflake.ts"
import type { Log } from "../../observability/log.ts"
import type { Metrics } from "../../observability/metrics.ts"
import { fail, unavailable } from "../../contract/errors.ts"
import type { Snowflake } from "../../contract/fields.ts"
import { isAway } from "../../storage/database.ts"
import type { Lane } from "../../storage/lanes.ts"
import type { MessagePlace } from "../../storage/search.ts"
import type { Storage } from "../../storage/storage.ts"
import { channelActor } from "../channel.ts"
import { directActor } from "../direct.ts"
import { serverActor } from "../server.ts"
import { userActor } from "../user.ts"
import type { Ask, Create } from "./actor.ts"
import { Host, type HostOptions } from "./host.ts"
import { Mints } from "./mints.ts"
import { LaneQueue } from "./lane-queue.ts"
import { Outbox } from "./outbox.ts"
import { Presences, type PresenceTiming } from "../social/presences.ts"
import { Router } from "./router.ts"
import { ShardKeeper } from "./shard-keeper.ts"
import { TemporaryMembers } from "../communities/temporary-members.ts"

export interface NodeTopology {
  readonly membership: { readonly renewEvery: number; readonly serveFor: number; readonly deadAfter: number }
  readonly handover: { readonly shardsAtATime: number; readonly rebalanceEvery: number }
  readonly bus: { readonly askTimeout: number; readonly maxPendingAsks: number }
  readonly actors: {
    readonly mailbox: number
    readonly homes: number
    readonly inFlight: number
    readonly sleepAfter: number
    readonly batch: number
    readonly unpublishedBatches: number
    readonly outboxKeep: number
    readonly outboxSweepEvery: number
  }
  readonly log: {
    readonly keep: number
    readonly maxBytes: number
    readonly memoryBytes: number
    readonly markEvery: number
    readonly readCount: number
  }
  readonly presence: PresenceTiming
  readonly resumeWindow: number
}

export interface NodeOptions {
  readonly self: Member
  /** The incarnation that serves in the same place until this one does; it hands over and ends by itself. */
  readonly predecessor?: string | undefined
  readonly connect: Connect
  readonly keys: RedisKeys
  readonly storage: Storage
  readonly jobs: JobQueue
  readonly signedPath: HostOptions["signedPath"]
  readonly revoke: (sessions: readonly string[]) => Promise<void>
  /** Makes every worker look at these sessions anew. */
  readonly renew: (sessions: readonly string[]) => Promise<void>
  /** See `OutboxOptions`. */
  readonly index: (messages: readonly MessagePlace[]) => Promise<void>
  readonly topology: NodeTopology
  /** The homes of some shards whose events this worker's log takes, with the row from which it holds them. */
  readonly servedHomes?: ((shards: ReadonlySet<number>) => [home: Snowflake, from: number][]) | undefined
  /** New pieces of this worker's delivery log, in order. */
  readonly onItems: (items: readonly LogItem[]) => void
  /** What others see of users has changed: of those who concern this worker's sessions. May come twice, and not at all. */
  readonly onPresences: (changes: readonly PresenceChange[]) => void
  readonly onDeath: (worker: string) => void
  /** The worker must end: it is dead for the others, or its log is gone. */
  readonly onOver: (why: string) => void
  /** Where a new home is to live; any shard, at random, unless told otherwise. */
  readonly newShard?: () => number
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
}

/** One worker as a part of the cluster: what the doors need of actors, logs and the other workers. */
export interface ClusterNode {
  readonly ask: Ask
  readonly create: Create
  readonly router: Router
  readonly bus: Bus
  readonly logs: DeliveryLogs
  readonly streams: WorkerStreams
  readonly membership: Membership
  readonly presences: Pick<Presences, "of" | "lookUp">
  /** Up to when everything that was minted stood in the delivery logs, as of a moment ago; undefined: not known now. */
  mintedUpTo(): MintedUpTo | undefined
  /** Whether a log can be relied on: one that was made anew after a fail-over was made by a worker that lived. */
  readonly isRealLog: (worker: string) => Promise<boolean>
  /** Takes part: reads its streams, shows itself, takes its shards. */
  start(): Promise<void>
  /** Whether it shows itself and its log is being read. */
  check(): void
  /** Gives away its shards, with nothing unfinished. */
  leave(): Promise<void>
  stop(): Promise<void>
}

export async function openNode(options: NodeOptions): Promise<ClusterNode> {
  const { self, keys, storage, topology, clock, log, metrics } = options
  const trouble = (name: string) => (error: unknown) => {
    metrics.pools.redisErrors.of(name).inc()
    log.debug({ err: error, connection: name }, "redis trouble")
  }
  // Liveness has a connection of its own: nothing that queues may delay it.
  const renewing = options.connect("membership", trouble("membership"))
  const sending = options.connect("bus", trouble("bus"))
  const appending = options.connect("log", trouble("log"))
  const blocking = options.connect("streams", trouble("streams"))
  const connections = [renewing, sending, appending, blocking]
  await Promise.all(connections.map(connection => connection.connect()))

  const bus = new Bus({
    redis: sending,
    keys,
    self: self.id,
    clock,
    maxPending: topology.bus.maxPendingAsks,
    trouble: trouble("bus"),
    refusalOf: error => {
      if (isAway(error)) return unavailable("database", 1, { cause: error })
      if (isRedisAway(error)) return unavailable("redis", 1, { cause: error })
      log.error({ err: error }, "request of another worker failed")
      return fail("internal", {}, { cause: error })
    },
  })
  metrics.bus.pending.from(() => bus.pending)
  const logs = new DeliveryLogs(appending, keys)
  const interests = new Interests(appending, keys)
  const announced = new AnnouncedPresences(appending, keys)
  const directory = new Directory(shards => storage.placement.shards(shards), clock)
  const over = (why: string) => {
    lane?.end()
    options.onOver(why)
  }

  const streams = new WorkerStreams({
    blocking,
    redis: sending,
    keys,
    worker: self.id,
    ...topology.log,
    clock,
    reserved: () => logs.reserved(self.id),
    noteLog: at => storage.placement.noteLog(self.id, at),
    onOver: over,
    onMessage: fields => bus.receive(fields),
    onItems: items => {
      metrics.log.readEvents.inc(items.length)
      options.onItems(items)
    },
    trouble: trouble("streams"),
  })
  metrics.log.memoryBytes.from(() => streams.memoryBytes)

  let lane: LaneQueue | undefined
  let commits: Lane | undefined
  let watching: Timer | undefined
  let tidying: Timer | undefined
  const mints = new Mints(clock)
  const host: Host = new Host({
    actors: [serverActor, channelActor, directActor, userActor] as never,
    storage,
    lane: () => lane!,
    outbox: () => outbox,
    mints,
    appendEphemeral: (worker, fields) => {
      logs.appendEphemeral(worker, fields).catch(trouble("log"))
    },
    tellOnce: tell => {
      router.tellOnce(tell).catch((error: unknown) => log.debug({ err: error, command: tell.command }, "not told"))
    },
    presenceChanged: (user, regard) => presences.changed(user, regard),
    signedPath: options.signedPath,
    serving: () => membership.serving,
    bounds: { ...topology.actors, answerKeep: topology.actors.outboxKeep },
    clock,
    log,
    metrics,
  })
  const outbox: Outbox = new Outbox({
    logs,
    saveInterests: (shard, list) => interests.add(shard, list),
    removeInterests: (shard, list) => interests.remove(shard, list),
    replaceInterests: (shard, list) => interests.replace(shard, list),
    shards: () => host.shards.values(),
    isForgotten: worker => keeper.isForgotten(worker),
    isDead: worker => membership.isDead(worker) || keeper.isMourned(worker),
    learnDeath: async worker => {
      if (!membership.isLiving(worker) && (await storage.placement.isDead(worker))) keeper.noteDeath(worker)
    },
    tell: tell => router.tell(tell),
    addJob: job => options.jobs.add(job),
    index: options.index,
    revoke: options.revoke,
    renew: options.renew,
    readRows: shards => storage.placement.outbox(shards),
    sweep: rows => storage.placement.sweep(rows),
    isOver: shard => host.shard(shard.number) !== shard,
    onStale: shard => {
      log.warn({ shard: shard.number }, "append refused: somebody else owns the shard")
      host.removeShard(shard)
    },
    onProgress: () => lane?.wake(),
    wellFor: () => membership.wellFor,
    timing: { keep: topology.actors.outboxKeep, sweepEvery: topology.actors.outboxSweepEvery },
    clock,
    log,
    metrics,
  })
  metrics.outbox.unconfirmed.from(() => outbox.unconfirmed)
  const router = new Router({
    host,
    bus,
    directory,
    self: self.id,
    askTimeout: topology.bus.askTimeout,
    newShard: options.newShard ?? (() => directory.shards[randomInt(directory.shards.length)]!),
    isDead: worker => membership.isDead(worker),
    onMissing: shard => keeper.seek(shard),
    wasSeen: tell => storage.tells.wasSeen(tell),
    clock,
    metrics,
  })
  const presences: Presences = new Presences({
    self: self.id,
    host,
    bus,
    directory,
    store: storage.presences,
    save: (shard, users) => announced.add(shard, users),
    forget: (shard, users) => announced.remove(shard, users),
    replace: (shard, users) => announced.replace(shard, users),
    serving: () => membership.serving,
    isDead: worker => membership.isDead(worker) || keeper.isMourned(worker),
    onGone: users => temporaryMembers.gone(users),
    onBack: user => temporaryMembers.back(user),
    isBeingRemoved: user => temporaryMembers.isPending(user),
    deliver: options.onPresences,
    timing: topology.presence,
    clock,
    log,
    metrics,
  })
  const temporaryMembers = new TemporaryMembers({
    store: storage.guildMembers,
    end: (server, user) => router.ask(serverActor, server, { type: "endTemporary", user }),
    isGone: user => {
      const shard = host.shard(shardOf(user))
      return shard !== undefined && !shard.closing && !shard.interests.has(user)
    },
    resumeWindow: topology.resumeWindow,
    clock,
    log,
  })
  /** Where workers made their logs anew: what was true once stays so. */
  const realLogs = new Map<string, string>()
  const dropLogs = async (workers: readonly string[]) => {
    for (const worker of workers) await logs.drop(worker)
  }
  const others = () => membership.members().filter(member => member.id !== self.id)
  const announce = (rows: readonly ShardOwner[]) => {
    for (const member of others()) bus.notify(member.id, "owners", rows)
  }
  const servedHomes = (shards: readonly number[]) => options.servedHomes?.(new Set(shards)) ?? []
  bus.handle<{ shards: number[] }, [Snowflake, number][]>("servedHomes", async ({ shards }) => servedHomes(shards))
  const webWorkers = () => membership.members().flatMap(({ id, role }) => (role === "web" ? [id] : []))
  /** Until it has answered or is dead. */
  const askInterests = async (worker: string, shards: readonly number[]): Promise<Interest[]> => {
    while (membership.isLiving(worker)) {
      try {
        const homes =
          worker === self.id
            ? servedHomes(shards)
            : await bus.request<[Snowflake, number][]>(worker, "servedHomes", { shards }, 1_000)
        return homes.map(([home, from]) => ({ home, worker, from }))
      } catch (error) {
        // A version that does not know the question has told Redis all.
        if (error instanceof NotHandled) return []
        await clock.sleep(50)
      }
    }
    return []
  }
  const keeper: ShardKeeper = new ShardKeeper({
    self,
    host,
    outbox,
    directory,
    store: storage.placement,
    loadInterests: shards => interests.load(shards),
    replaceInterests: (shard, list) => interests.replace(shard, list),
    askInterests: async shards => (await Promise.all(webWorkers().map(id => askInterests(id, shards)))).flat(),
    loadPresences: shards => announced.load(shards),
    replacePresences: (shard, users) => announced.replace(shard, users),
    opened: shard => presences.adopt(shard),
    logPositions: worker => logs.positions(worker),
    doubtfulLogs: async () => {
      const dead = await storage.placement.diedLately()
      const later = dead.filter(worker => keys.isLater(logs.at(worker)))
      const exist = await Promise.all(later.map(worker => logs.exists(worker)))
      return later.filter((_, i) => exist[i])
    },
    declareGap: async (worker, gap) => {
      await logs.append(worker, [gapPart(gap)])
    },
    dropLog: worker => logs.drop(worker),
    announce,
    places: () => membership.places(),
    announceLeaving: async () => {
      // Whoever comes from here on sees it; whoever came before is known from here on.
      await membership.announceLeaving()
      // The inbox keeps order: whoever hears of a shard from here has heard of the leaving before.
      for (const member of others()) bus.notify(member.id, "leaving", self.id)
    },
    // Any home of the shard will do, also one that there is not.
    served: (shard, timeout) => router.workersOf(idOf(shard, { ms: epochMs, sequence: 0 }), timeout),
    isLiving: worker => membership.isLiving(worker),
    timing: { ...topology.handover, resumeWindow: topology.resumeWindow },
    clock,
    log,
    metrics,
  })
  bus.onNotice<ShardOwner[]>("owners", rows => (self.role === "web" ? keeper.noteOwners(rows) : directory.learn(rows)))
  bus.onNotice<string>("leaving", worker => membership.noteLeaving(worker))
  bus.onNotice<string>("death", worker => membership.noteDeath(worker))
  const membership: Membership = new Membership({
    redis: renewing,
    keys,
    self,
    timing: topology.membership,
    clock,
    living: () => storage.placement.living() as Promise<Member[]>,
    declareDead: async (id, lives) => {
      const left = await storage.placement.declareSilent(id, lives)
      if (left !== undefined) return left
      log.warn({ member: id }, "member declared dead")
      // Itself, too, if it can hear at all.
      for (const member of others()) bus.notify(member.id, "death", id)
      return undefined
    },
    revive: () => storage.placement.revive(self.id),
    onChange: () => {
      if (self.role === "web")
        keeper.balance().catch((error: unknown) => log.warn({ err: error }, "rebalancing failed"))
    },
    onDeath: worker => {
      bus.forget(worker)
      keeper.noteDeath(worker)
      presences.noteDeath()
      options.onDeath(worker)
    },
    onOver: over,
    mints: self.role === "web" ? () => mints.report(host.shards.values()) : undefined,
    onFirstReports: reports => {
      if (reports.length > 0) mints.beginAfter(Math.min(...reports.map(({ servers }) => servers)))
    },
    trouble: trouble("membership"),
  })

  return {
    ask: router.ask,
    create: router.create,
    router,
    bus,
    logs,
    streams,
    membership,
    presences,
    mintedUpTo: () => {
      const reports = membership.mintReports
      return reports && mintedUpTo(reports, directory.shards)
    },
    isRealLog: async worker => {
      const at = logs.at(worker)
      if (!keys.isLater(at) || realLogs.get(worker) === at) return true
      const [isReal, isDead] = await Promise.all([
        storage.placement.hasLog(worker, at),
        storage.placement.isDead(worker),
      ])
      if (isReal) realLogs.set(worker, at)
      // What it shows in Redis is no proof of life; and who lives is about to make it.
      else if (!isDead) throw unavailable("log not made anew yet")
      return isReal
    },
    async start() {
      // Whoever had this place before is over: its successor has come.
      for (const { id, host, slot, role } of await storage.placement.living())
        if (host === self.host && slot === self.slot && role === self.role && id !== options.predecessor)
          await storage.placement.declareDead(id)
      await storage.placement.enrol(self, 1)
      const now = Math.max(0, clock.now() - epochMs) * 4096
      const inboxId = await bus.open()
      await logs.create(self.id, now)
      const at = logs.at(self.id)
      await storage.placement.noteLog(self.id, at)
      streams.start(inboxId, now, at)
      commits = storage.openLane(self.id, 0, 1)
      lane = new LaneQueue({
        lane: commits,
        publisher: outbox,
        bounds: topology.actors,
        wasWritten: (shard, number) => storage.placement.wasWritten(shard, number),
        dropHome: home => host.drop(home),
        onDisowned: shards => {
          keeper.reopen(shards).catch((error: unknown) => log.warn({ err: error }, "rebalancing failed"))
        },
        onFenced: () => over("declared dead"),
        clock,
        log,
        metrics,
      })
      onNewReplication(sending, () => bus.doubt())
      onNewReplication(appending, () => {
        outbox.doubt()
        presences.doubt()
      })
      await membership.start()
      watching = clock.every(1_000, () => {
        const at = logs.at(self.id)
        logs.exists(self.id).then(exists => {
          if (!exists && at === streams.at && at === logs.at(self.id)) over("its log is gone")
        }, trouble("log"))
        // A connection that was left with another Redis goes where the others are.
        for (const connection of connections)
          if (!connection.isCluster && connection.status === "ready" && renewing.status === "ready")
            if (replicationsOf(connection) !== replicationsOf(renewing)) connection.disconnect(true)
      })
      await directory.loadAll()
      if (self.role !== "web") return
      // After everybody has ended at once nobody but PostgreSQL knows up to when ids were spoken for.
      const bound = await storage.deliveries.takeBound(self.id)
      if (bound !== undefined) mints.beginAfter(bound)
      await keeper.start()
      // Of those that died when nobody was left to see it; by then nobody can come back for their logs.
      const dead = await storage.placement.dead()
      tidying = clock.after(topology.resumeWindow, () => {
        dropLogs(dead).catch(trouble("log"))
      })
    },
    check() {
      if (!membership.serving) throw new Error("not renewed in time")
    },
    async leave() {
      if (self.role === "web") await keeper.leave()
    },
    async stop() {
      keeper.stop()
      presences.stop()
      temporaryMembers.stop()
      // Whoever asks from elsewhere goes on to the next owner.
      for (const shard of host.shards.values()) host.removeShard(shard)
      lane?.end()
      outbox.stop()
      router.stop()
      host.stop()
      watching?.stop()
      tidying?.stop()
      await membership.leave().catch(() => {})
      // Only what PostgreSQL knows as dead may be called so: its shards could not be taken otherwise.
      const dead = await storage.placement.declareDead(self.id).then(
        () => true,
        () => false,
      )
      // Also those that have come since it last looked: whoever enrolled before has taken it for living.
      const left = dead ? await storage.placement.living().catch(others) : []
      for (const { id } of left) bus.notify(id, "death", self.id)
      await clock.sleep(20)
      bus.close()
      await streams.stop()
      await commits?.close()
      for (const connection of connections) connection.disconnect()
    },
  }
}
