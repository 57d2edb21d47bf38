import { Interests, type Interest } from "../cluster/interests.ts"
import type { JobQueue } from "../cluster/job-queue.ts"
import type { Snowflake } from "../contract/core/fields.ts"
import type { Timer } from "../std/clock.ts"
import { epochMs, idOf } from "../domain/core/snowflake.ts"
import type { Lane } from "../storage/core/lanes.ts"
import { Homes } from "./home.ts"
import { Host, type HostedActor } from "./host.ts"
import type { ClusterInside } from "./join-cluster.ts"
import { CommitQueue } from "./commit-queue.ts"
import { Outbox, type OutboxEvents } from "./outbox.ts"
import { OwnerWatch } from "./owner-watch.ts"
import { PublicationWatch } from "./publication-watch.ts"
import type { EffectExtension, InterestObserver, Lookup } from "./plugs.ts"
import type { Router } from "./router.ts"
import { ShardBalancer } from "./shard-balancer.ts"

export interface ShardHostOptions<Source = unknown> {
  readonly actors: readonly HostedActor<Source>[]
  /** What their loaders read from. */
  readonly source: Source
  readonly jobs: Pick<JobQueue, "add">
  /** Where a file of a message may be read by those who are told, for a day from `now`. */
  readonly signedPath: (file: string, now: number) => string
  readonly revoke: (sessions: readonly string[]) => Promise<void>
  /** Makes every worker look at these sessions anew. */
  readonly renew: (sessions: readonly string[]) => Promise<void>
  readonly observers?: readonly InterestObserver[]
  /** By the names that turns call them. */
  readonly extensions?: Readonly<Record<string, EffectExtension>>
  readonly lookups?: Readonly<Record<string, Lookup>>
  /** The homes of some shards whose events this worker's log takes, with the row from which it holds them. */
  readonly homeSubscriptions?: (shards: ReadonlySet<number>) => [home: Snowflake, from: number][]
}

/** The shards of a web worker, with the actors that live in them. */
export interface ShardHost {
  /** Joins the cluster, then takes its shards. */
  start(): Promise<void>
  /** Gives away its shards, with nothing unfinished. */
  leave(): Promise<void>
  /** Throws while nothing is committed or published although something waits. */
  checkPublication(): void
  /** Throws until every shard has had an owner that answered. */
  checkOwners(): void
  /** Ends, and leaves the cluster. */
  stop(): Promise<void>
}

/** What a worker with shards consists of. Each part holds the others that it needs. */
export interface ShardParts {
  readonly homes: Homes
  readonly interests: Interests
  readonly outbox: Outbox
  readonly lane: Lane
  readonly queue: CommitQueue
  readonly host: Host
  readonly balancer: ShardBalancer
}

/** Makes the parts. `hostShards` runs them. */
export function createShardParts<Source>(cluster: ClusterInside, options: ShardHostOptions<Source>): ShardParts {
  const { signals, router, view, shards, trouble } = cluster
  const { self, storage, topology, clock, log, metrics } = cluster.options
  const homes = new Homes()
  const interests = new Interests(cluster.connections.log, cluster.options.keys)
  const outbox = openOutbox(cluster, options, interests, {
    stale(shard) {
      log.warn({ shard: shard.number }, "append refused: another worker owns the shard")
      host.removeShard(shard)
    },
    progressed: () => queue.wake(),
    committed: () => cluster.membership.noteNews(),
  })
  const lane = storage.openLane(self.id, 0, 1)
  const { lineageWatch } = cluster
  const queue = new CommitQueue({
    lane: lineageWatch
      ? {
          async commit(batch) {
            const whole = lineageWatch.untilWhole()
            if (whole) await whole
            return lane.commit(batch)
          },
          raise: () => lane.raise(),
        }
      : lane,
    publisher: outbox,
    bounds: topology.actors,
    wasWritten: (shard, number) => storage.placement.wasWritten(shard, number),
    dropHome: home => homes.drop(home),
    onDisowned: disowned => {
      balancer.reopen(disowned).catch((error: unknown) => balancer.noteFailure(error))
    },
    onFenced() {
      const end = () => signals.emit("over", "declared dead")
      // Or PostgreSQL has never heard of it, because it was replaced by an earlier copy.
      if (lineageWatch) lineageWatch.confirm().then(end, end)
      else end()
    },
    clock,
    log,
    metrics,
  })
  const host = new Host({
    application: {
      actors: options.actors,
      source: options.source,
      extensions: options.extensions ?? {},
      lookups: options.lookups ?? {},
      signedPath: options.signedPath,
    },
    homes,
    shards,
    queue,
    outbox,
    logs: cluster.logs,
    ephemeral: {
      append(worker, fields) {
        cluster.logs.appendEphemeral(worker, fields).catch(trouble("log"))
      },
      tell(tell) {
        router.tellOnce(tell).catch((error: unknown) => log.debug({ err: error, command: tell.command }, "not told"))
      },
    },
    view,
    bounds: { ...topology.actors, answerKeepMs: topology.actors.outboxKeepMs },
    clock,
    log,
    metrics,
  })
  const balancer = openBalancer(cluster, options, { host, outbox, interests })
  return { homes, interests, outbox, lane, queue, host, balancer }
}

/** Owns a part of the shards of the cluster and runs their actors. Before the process starts to take part. */
export function hostShards(
  cluster: ClusterInside,
  { outbox, lane, queue, host, balancer }: Omit<ShardParts, "homes" | "interests">,
): ShardHost {
  const { signals, router, shards, trouble, directory, view } = cluster
  const { storage, topology, clock, log, metrics } = cluster.options
  router.serve({
    host,
    onMissing: shard => balancer.seek(shard),
    wasSeen: tell => storage.tells.wasSeen(tell),
  })
  const watch = new PublicationWatch({
    commits: queue,
    appends: outbox,
    notReadyAfterMs: topology.actors.notReadyAfterMs,
  })
  const owners = new OwnerWatch({
    directory,
    view,
    isOpen: shard => host.shard(shard) !== undefined,
    served: (shard, timeoutMs) => servedBy(router, shard, timeoutMs),
    clock,
    log,
  })
  metrics.outbox.stuckSeconds.from(() => watch.stuckForMs / 1000)
  metrics.outbox.unconfirmed.from(() => outbox.unconfirmed)
  signals.on("over", () => queue.end())
  signals.on("failover", () => outbox.doubt())
  signals.on("ownersChanged", rows => balancer.noteOwners(rows))
  signals.on("membersChanged", () => {
    balancer.balance().catch((error: unknown) => balancer.noteFailure(error))
  })

  let tidying: Timer | undefined
  return {
    async start() {
      await cluster.start()
      await balancer.start()
      owners.start().catch(trouble("membership"))
      // Of those that died when nobody was left to see it; by then nobody can come back for their logs.
      const left = await storage.placement.dead()
      tidying = clock.after(topology.resumeWindowMs, () => {
        dropLogs(cluster, left).catch(trouble("log"))
      })
    },
    leave: () => balancer.leave(),
    checkPublication: () => watch.check(),
    checkOwners: () => owners.check(),
    async stop() {
      owners.stop()
      balancer.stop()
      // What is asked from elsewhere goes on to the next owner.
      for (const shard of shards.values()) host.removeShard(shard)
      queue.end()
      outbox.stop()
      router.stop()
      host.stop()
      tidying?.stop()
      await cluster.stop()
      await lane.close()
    },
  }
}

async function dropLogs({ logs }: ClusterInside, workers: readonly string[]): Promise<void> {
  for (const worker of workers) await logs.drop(worker)
}

function openOutbox(
  cluster: ClusterInside,
  options: Omit<ShardHostOptions, "actors">,
  interests: Interests,
  events: OutboxEvents,
): Outbox {
  const { logs, shards, router } = cluster
  const { storage, topology, clock, log, metrics } = cluster.options
  return new Outbox({
    logs,
    interests,
    shards,
    cluster,
    store: storage.placement,
    events,
    targets: {
      tell: tell => router.tell(tell),
      addJob: job => options.jobs.add(job),
      revoke: options.revoke,
      renew: options.renew,
    },
    timing: { keepMs: topology.actors.outboxKeepMs, sweepEveryMs: topology.actors.outboxSweepEveryMs },
    clock,
    log,
    metrics,
  })
}

function openBalancer(
  cluster: ClusterInside,
  options: Omit<ShardHostOptions, "actors">,
  { host, outbox, interests }: { readonly host: Host; readonly outbox: Outbox; readonly interests: Interests },
): ShardBalancer {
  const { bus, logs, membership, view, router } = cluster
  const { self, keys, storage, topology, clock, log, metrics } = cluster.options
  const notifyOthers = (kind: string, body: unknown) => {
    for (const { id } of view.members()) if (id !== self.id) bus.notify(id, kind, body)
  }
  return new ShardBalancer({
    cluster,
    host,
    outbox,
    logs,
    interests,
    store: storage.placement,
    peers: {
      async doubtfulLogs() {
        const died = await storage.placement.diedLately()
        const later = died.filter(worker => keys.isLater(logs.at(worker)))
        const exist = await Promise.all(later.map(worker => logs.exists(worker)))
        return later.filter((_, i) => exist[i])
      },
      askInterests: interestAsker(cluster, options.homeSubscriptions ?? (() => [])),
      announce: rows => notifyOthers("owners", rows),
      async announceLeaving() {
        // Those who come from here on see it; those who came before are known from here on.
        await membership.announceLeaving()
        // The inbox keeps order: a worker that hears of a shard from here has heard of the leaving before.
        notifyOthers("leaving", self.id)
      },
      served: (shard, timeoutMs) => servedBy(router, shard, timeoutMs),
    },
    observers: options.observers ?? [],
    timing: topology.handover,
    clock,
    log,
    metrics,
  })
}

/** Resolves when the owner of a shard answers for it. Any home of the shard will do, even one that does not exist. */
const servedBy = (router: Router, shard: number, timeoutMs: number) =>
  router.workersOf(idOf(shard, { ms: epochMs, sequence: 0 }), timeoutMs)

/** Asks every web worker whose events its log takes, until it has answered or is dead; and answers the others. */
function interestAsker(
  { bus, view, options: { clock } }: ClusterInside,
  homeSubscriptions: NonNullable<ShardHostOptions["homeSubscriptions"]>,
): (shards: readonly number[]) => Promise<readonly Interest[]> {
  type Served = [home: Snowflake, from: number][]
  bus.handle<{ shards: number[] }, Served>("homeSubscriptions", async ({ shards }) =>
    homeSubscriptions(new Set(shards)),
  )
  const ask = async (worker: string, shards: readonly number[]): Promise<Interest[]> => {
    while (view.isLiving(worker)) {
      try {
        const homes =
          worker === view.self.id
            ? homeSubscriptions(new Set(shards))
            : await bus.request<Served>(worker, "homeSubscriptions", { shards }, 1_000)
        return homes.map(([home, from]) => ({ home, worker, from }))
      } catch {
        await clock.sleep(50)
      }
    }
    return []
  }
  return async shards => {
    const workers = view.members().flatMap(({ id, role }) => (role === "web" ? [id] : []))
    return (await Promise.all(workers.map(worker => ask(worker, shards)))).flat()
  }
}
