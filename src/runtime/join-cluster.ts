import { isRedisUnavailable } from "../cluster/unavailable.ts"
import { Bus } from "../cluster/bus.ts"
import { DeliveryLogs } from "../cluster/delivery-log.ts"
import { Directory, type ShardOwner } from "../cluster/directory.ts"
import type { RedisKeys } from "../cluster/keys.ts"
import { Membership, type Member } from "../cluster/members.ts"
import type { Connect, Purpose, Redis } from "../cluster/redis.ts"
import type { Sockets } from "../cluster/socket-road.ts"
import { agreeOnReplication, onNewReplication, replicationOf } from "../cluster/replication.ts"
import { WorkerStreams } from "../cluster/worker-streams.ts"
import { fail, unavailable } from "../contract/core/errors.ts"
import type { Clock, Timer } from "../std/clock.ts"
import type { LogItem } from "../domain/core/log-entry.ts"
import { epochMs } from "../domain/core/snowflake.ts"
import type { Log } from "../observability/log.ts"
import type { Metrics } from "../observability/metrics.ts"
import { isDatabaseUnavailable } from "../storage/core/database.ts"
import type { Lane } from "../storage/core/lanes.ts"
import type { placementStorage } from "../storage/core/placement.ts"
import type { tellsStorage } from "../storage/core/tells.ts"
import type { Ask, Create } from "./actor.ts"
import { clusterView, DeadWorkers, type ClusterView } from "./cluster-view.ts"
import { LineageWatch, type Lineage } from "./lineage-watch.ts"
import { Router } from "./router.ts"
import type { Shard } from "./shard.ts"
import { Signals } from "./signals.ts"

export interface RuntimeTopology {
  readonly membership: { readonly renewEveryMs: number; readonly serveForMs: number; readonly deadAfterMs: number }
  readonly handover: { readonly shardsAtATime: number; readonly rebalanceEveryMs: number }
  readonly bus: {
    readonly askTimeoutMs: number
    readonly maxPendingAsks: number
    readonly sockets: { readonly maxUntaken: number; readonly stuckAfterMs: number }
  }
  readonly actors: {
    readonly mailbox: number
    readonly homes: number
    readonly inFlight: number
    readonly sleepAfterMs: number
    readonly batch: number
    readonly unpublishedBatches: number
    readonly notReadyAfterMs: number
    readonly outboxKeepMs: number
    readonly outboxSweepEveryMs: number
  }
  readonly log: {
    readonly keepMs: number
    readonly maxBytes: number
    readonly memoryBytes: number
    readonly markEveryMs: number
    readonly readCount: number
  }
  readonly resumeWindowMs: number
}

/** What the runtime itself keeps in PostgreSQL. */
export interface RuntimeStorage {
  readonly placement: ReturnType<typeof placementStorage>
  readonly tells: ReturnType<typeof tellsStorage>
  openLane(incarnation: string, lane: number, generation: number): Lane
}

export interface ClusterOptions {
  readonly self: Member
  /** The incarnation that serves in the same slot until this one does; it hands over and ends by itself. */
  readonly predecessor?: string | undefined
  readonly connect: Connect
  /** The short road between workers of one host; without it they use Redis. */
  readonly sockets?: Sockets | undefined
  /** Connections of this process to the same Redis that the cluster does not use itself. */
  readonly otherConnections?: readonly Redis[]
  readonly keys: RedisKeys
  readonly storage: RuntimeStorage
  /** Without it, PostgreSQL is taken to keep what it has committed. */
  readonly lineage?: Lineage | undefined
  readonly topology: RuntimeTopology
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
}

/** What a member of the cluster learns. Types, not interfaces: `Signals` takes them as a record. */
export type ClusterSignals = {
  /** A worker was declared dead. */
  death: [worker: string]
  /** Another worker has committed something: who reads what is committed looks for it. */
  committed: []
  /** Somebody has come, leaves or is dead. */
  membersChanged: []
  /** Somebody's notice of who owns these shards now. */
  ownersChanged: [rows: readonly ShardOwner[]]
  /** Redis is another one, or the same after a restart: what was written last may be missing. */
  failover: []
  /** New pieces of this worker's delivery log, in order. */
  logItems: [items: readonly LogItem[]]
  /** That log is in another Redis: what was not read up to a position comes again, at later ones. */
  logMoved: [position: number]
  /** The worker must end: it is dead for the others, or its log is gone. */
  over: [why: string]
}

/** One process as a member of the cluster: what it needs of actors, logs and the other workers. */
export interface Cluster {
  readonly ask: Ask
  readonly create: Create
  readonly router: Router
  readonly bus: Bus
  readonly logs: DeliveryLogs
  readonly streams: WorkerStreams
  readonly membership: Membership
  readonly view: ClusterView
  readonly signals: Signals<ClusterSignals>
  readonly directory: Directory
  /** Those that this worker owns; of a job worker: none. */
  readonly shards: Map<number, Shard>
  /** Whether a log can be relied on: one that was made anew after a fail-over was made by a worker that lived. */
  readonly isRealLog: (worker: string) => Promise<boolean>
  /** Takes part: reads its streams, shows itself, knows who owns what. */
  start(): Promise<void>
  /** Whether it shows itself and its log is being read. */
  check(): void
  /** Throws until PostgreSQL is known to have what it had. */
  checkLineage(): void
  stop(): Promise<void>
}

/** What `hostShards` needs beside that. */
export interface ClusterInside extends Cluster {
  readonly options: ClusterOptions
  readonly connections: Readonly<Record<Purpose, Redis>>
  readonly dead: DeadWorkers
  readonly lineageWatch: LineageWatch | undefined
  readonly trouble: (name: string) => (error: unknown) => void
}

/** Opens sockets to the other processes of a host. */
function meetThoseOf(host: string, membership: Membership, { road }: Bus): void {
  for (const member of membership.members())
    if (member.host === host && member.id !== membership.self.id) road?.meet(member.id)
}

/** Every process of a cluster joins it. A web worker hosts shards, too: see `hostShards`. */
export async function joinCluster(options: ClusterOptions): Promise<ClusterInside> {
  const { self, storage, topology, clock, log, metrics } = options
  const trouble = (name: string) => (error: unknown) => {
    metrics.pools.redisErrors.of(name).inc()
    log.debug({ err: error, connection: name }, "Redis error")
  }
  // Liveness has a connection of its own: nothing that queues may delay it.
  const open = (purpose: Purpose) => options.connect(purpose, trouble(purpose))
  const connections = {
    membership: open("membership"),
    bus: open("bus"),
    log: open("log"),
    streams: open("streams"),
    replay: open("replay"),
  }
  await Promise.all(Object.values(connections).map(connection => connection.connect()))

  const signals = new Signals<ClusterSignals>()
  const shards = new Map<number, Shard>()
  const bus: Bus = openBus(options, {
    redis: connections.bus,
    trouble: trouble("bus"),
    isDead: worker => membership.isDead(worker),
  })
  const logs: DeliveryLogs = new DeliveryLogs(connections.log, connections.replay, options.keys, {
    worker: self.id,
    take: run => streams.takeOwn(run),
  })
  const isRung = () => membership.ringsLogs
  const streams = openStreams(options, { connections, bus, logs, signals, isRung, trouble: trouble("streams") })
  const membership: Membership = openMembership(options, {
    connections,
    bus,
    signals,
    trouble: trouble("membership"),
  })
  const dead = new DeadWorkers(membership, topology.resumeWindowMs, clock)
  const lineageWatch = openLineageWatch(options, { shards, membership, logs, signals, leading: connections.membership })
  const view = clusterView(membership, dead, lineageWatch)
  const directory = new Directory(only => storage.placement.shards(only), clock)
  const { askTimeoutMs } = topology.bus
  const router = new Router({ bus, directory, view, askTimeoutMs, clock, log, metrics })
  metrics.bus.pending.from(() => bus.pending)
  metrics.bus.sockets.from(() => bus.road?.count ?? 0)
  metrics.log.memoryBytes.from(() => streams.memoryBytes)
  signals.on("death", worker => {
    bus.forget(worker)
    dead.note(worker)
  })
  const meetNeighbours = () => meetThoseOf(self.host, membership, bus)
  signals.on("membersChanged", meetNeighbours)
  bus.onNotice<ShardOwner[]>("owners", rows => {
    directory.learn(rows)
    signals.emit("ownersChanged", rows)
  })
  bus.onNotice<string>("leaving", worker => membership.noteLeaving(worker))
  bus.onNotice<string>("death", worker => membership.noteDeath(worker))

  const { membership: leading, streams: blocking, ...following } = connections
  const others = [...Object.values(following), ...(options.otherConnections ?? [])]
  let watching: Timer | undefined
  return {
    options,
    connections,
    dead,
    lineageWatch,
    trouble,
    ask: router.ask,
    create: router.create,
    router,
    bus,
    logs,
    streams,
    membership,
    view,
    signals,
    directory,
    shards,
    isRealLog: realLogs(options, logs),
    async start() {
      await enrol(options)
      const now = Math.max(0, clock.now() - epochMs) * 4096
      const inboxId = await bus.open()
      await logs.create(self.id, now)
      const at = logs.at(self.id)
      await storage.placement.noteLog(self.id, at)
      streams.start(inboxId, now, at)
      onNewReplication(connections.bus, () => bus.doubt())
      onNewReplication(connections.log, () => signals.emit("failover"))
      await membership.start()
      meetNeighbours()
      lineageWatch?.start()
      watching = clock.every(1_000, () => {
        const at = replicationOf(leading, self.id)
        // In one write with that by which it shows itself.
        logs.exists(self.id, leading).then(exists => {
          if (!exists && at === streams.at && at === replicationOf(leading, self.id))
            signals.emit("over", "its log is gone")
        }, trouble("membership"))
        agreeOnReplication(leading, others, blocking).catch(trouble("membership"))
      })
      await directory.loadAll()
    },
    check() {
      if (!membership.serving) throw new Error("not renewed in time")
    },
    checkLineage: () => lineageWatch?.check(),
    async stop() {
      router.stop()
      watching?.stop()
      lineageWatch?.stop()
      await leaveCluster(options, { membership, bus })
      bus.close()
      await streams.stop()
      for (const connection of Object.values(connections)) connection.disconnect()
    },
  }
}

function openBus(
  { keys, self, sockets, topology, clock, log, metrics }: ClusterOptions,
  {
    redis,
    trouble,
    isDead,
  }: {
    readonly redis: Redis
    readonly trouble: (error: unknown) => void
    readonly isDead: (worker: string) => boolean
  },
): Bus {
  return new Bus({
    redis,
    keys,
    self: self.id,
    clock,
    maxPending: topology.bus.maxPendingAsks,
    trouble,
    sockets: sockets && { sockets, bounds: topology.bus.sockets, isDead },
    log,
    metrics,
    refusalOf: error => {
      if (isDatabaseUnavailable(error)) return unavailable("database", 1, { cause: error })
      if (isRedisUnavailable(error)) return unavailable("redis", 1, { cause: error })
      log.error({ err: error }, "request of another worker failed")
      return fail("internal", {}, { cause: error })
    },
  })
}

type Parts = Pick<ClusterInside, "connections" | "bus" | "signals"> & { readonly trouble: (error: unknown) => void }

function openStreams(
  { self, keys, storage, topology, clock, metrics }: ClusterOptions,
  { connections, bus, logs, signals, isRung, trouble }: Parts & Pick<Cluster, "logs"> & { isRung: () => boolean },
): WorkerStreams {
  return new WorkerStreams({
    blocking: connections.streams,
    redis: connections.bus,
    keys,
    worker: self.id,
    bounds: topology.log,
    clock,
    isRung,
    newLog: {
      reserved: () => logs.reserved(self.id),
      note: at => storage.placement.noteLog(self.id, at),
      moved: position => signals.emit("logMoved", position),
    },
    onOver: why => signals.emit("over", why),
    onMessage: fields => bus.receive(fields),
    onItems(items, areOwn) {
      if (areOwn) metrics.log.ownEvents.inc(items.length)
      else metrics.log.readEvents.inc(items.length)
      signals.emit("logItems", items)
    },
    trouble,
  })
}

function openLineageWatch(
  { self, lineage, clock, log, metrics }: ClusterOptions,
  {
    shards,
    membership,
    logs,
    signals,
    leading,
  }: Pick<Cluster, "shards" | "membership" | "logs" | "signals"> & { readonly leading: Redis },
): LineageWatch | undefined {
  if (!lineage) return undefined
  return new LineageWatch({
    // What it asks goes out in one write with that by which the process shows itself.
    lineage: { ...lineage, notes: lineage.notes.on(leading) },
    worker: self.id,
    shards,
    isServing: () => membership.serving,
    onLost() {
      // Nobody comes back for it.
      logs.drop(self.id).catch((error: unknown) => log.debug({ err: error }, "log not dropped"))
      signals.emit("over", "PostgreSQL has lost what it had committed")
    },
    clock,
    log,
    metrics,
  })
}

function openMembership(
  { self, keys, storage, topology, clock, log }: ClusterOptions,
  { connections, bus, signals, trouble }: Parts,
): Membership {
  const membership: Membership = new Membership({
    redis: connections.membership,
    keys,
    self,
    timing: topology.membership,
    clock,
    store: {
      living: () => storage.placement.living() as Promise<Member[]>,
      async declareDead(id, lives) {
        const left = await storage.placement.declareSilent(id, lives)
        if (left !== undefined) return left
        log.warn({ member: id }, "member declared dead")
        // The dead member, too, if it can still be reached.
        for (const member of membership.members()) if (member.id !== self.id) bus.notify(member.id, "death", id)
        return undefined
      },
      revive: () => storage.placement.revive(self.id),
    },
    onChange: () => signals.emit("membersChanged"),
    onDeath: worker => signals.emit("death", worker),
    onNews: () => signals.emit("committed"),
    onOver: why => signals.emit("over", why),
    trouble,
  })
  return membership
}

/** Those that had this slot before are over: their successor has come. */
async function enrol({ self, predecessor, storage }: ClusterOptions): Promise<void> {
  for (const { id, host, slot, role } of await storage.placement.living())
    if (host === self.host && slot === self.slot && role === self.role && id !== predecessor)
      await storage.placement.declareDead(id)
  await storage.placement.enrol(self, 1)
}

function realLogs({ keys, storage }: ClusterOptions, logs: DeliveryLogs): Cluster["isRealLog"] {
  /** Where workers made their logs anew: what was true once stays so. */
  const known = new Map<string, string>()
  return async worker => {
    const at = logs.at(worker)
    if (!keys.isLater(at) || known.get(worker) === at) return true
    const [isReal, isDead] = await Promise.all([storage.placement.hasLog(worker, at), storage.placement.isDead(worker)])
    if (isReal) known.set(worker, at)
    // What it shows in Redis is no proof of life; and one that lives is about to make it.
    else if (!isDead) throw unavailable("log not made anew yet")
    return isReal
  }
}

async function leaveCluster(
  { self, storage, clock }: ClusterOptions,
  { membership, bus }: Pick<Cluster, "membership" | "bus">,
): Promise<void> {
  await membership.leave().catch(() => {})
  // Only what PostgreSQL knows as dead may be called so: its shards could not be taken otherwise.
  const isDead = await storage.placement.declareDead(self.id).then(
    () => true,
    () => false,
  )
  if (!isDead) return
  // Also those that have come since it last looked: they enrolled before, and have taken it for living.
  const known = () => membership.members().filter(({ id }) => id !== self.id)
  for (const { id } of await storage.placement.living().catch(known)) bus.notify(id, "death", self.id)
  await clock.sleep(20)
}
