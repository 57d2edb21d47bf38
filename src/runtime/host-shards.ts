import { NotHandled } from "../cluster/bus.ts"
import { Interests, type Interest } from "../cluster/interests.ts"
import type { JobQueue } from "../cluster/job-queue.ts"
import type { Snowflake } from "../contract/core/fields.ts"
import type { Timer } from "../std/clock.ts"
import { epochMs, idOf } from "../domain/core/snowflake.ts"
import { Homes } from "./home.ts"
import { Host, type HostedActor } from "./host.ts"
import type { ClusterInside } from "./join-cluster.ts"
import { CommitQueue } from "./commit-queue.ts"
import { Outbox } from "./outbox.ts"
import type { EffectExtension, InterestObserver, RowSubscriber } from "./plugs.ts"
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
  readonly subscribers?: readonly RowSubscriber[]
  readonly observers?: readonly InterestObserver[]
  /** By the names that turns call them. */
  readonly extensions?: Readonly<Record<string, EffectExtension>>
  /** The homes of some shards whose events this worker's log takes, with the row from which it holds them. */
  readonly homeSubscriptions?: (shards: ReadonlySet<number>) => [home: Snowflake, from: number][]
}

/** The shards of a web worker, with the actors that live in them. */
export interface ShardHost {
  /** Joins the cluster, then takes its shards. */
  start(): Promise<void>
  /** Gives away its shards, with nothing unfinished. */
  leave(): Promise<void>
  /** Ends, and leaves the cluster. */
  stop(): Promise<void>
}

/** Owns a part of the shards of the cluster and runs their actors. Before the process starts to take part. */
export function hostShards<Source>(cluster: ClusterInside, options: ShardHostOptions<Source>): ShardHost {
  const { signals, router, view, watermark, shards, trouble } = cluster
  const { self, storage, topology, clock, log, metrics } = cluster.options
  const homes = new Homes()
  const interests = new Interests(cluster.connections.log, cluster.options.keys)
  const outbox = openOutbox(cluster, options, interests)
  const commits = storage.openLane(self.id, 0, 1)
  const queue = new CommitQueue({
    lane: commits,
    publisher: outbox,
    bounds: topology.actors,
    wasWritten: (shard, number) => storage.placement.wasWritten(shard, number),
    dropHome: home => homes.drop(home),
    onDisowned: disowned => {
      balancer.reopen(disowned).catch(noteTrouble)
    },
    onFenced: () => signals.emit("over", "declared dead"),
    clock,
    log,
    metrics,
  })
  const host = new Host({
    application: {
      actors: options.actors,
      source: options.source,
      extensions: options.extensions ?? {},
      signedPath: options.signedPath,
    },
    homes,
    shards,
    queue,
    outbox,
    watermark,
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
  const noteTrouble = (error: unknown) => log.warn({ err: error }, "rebalancing failed")
  router.serve({
    host,
    onMissing: shard => balancer.seek(shard),
    wasSeen: tell => storage.tells.wasSeen(tell),
  })
  outbox.onStale(shard => {
    log.warn({ shard: shard.number }, "append refused: another worker owns the shard")
    host.removeShard(shard)
  })
  outbox.onProgress(() => queue.wake())
  metrics.outbox.unconfirmed.from(() => outbox.unconfirmed)
  signals.on("over", () => queue.end())
  signals.on("failover", () => outbox.doubt())
  signals.on("ownersChanged", rows => balancer.noteOwners(rows))
  signals.on("membersChanged", () => {
    balancer.balance().catch(noteTrouble)
  })

  let tidying: Timer | undefined
  return {
    async start() {
      await cluster.start()
      // After everybody has ended at once nobody but PostgreSQL knows up to when ids were spoken for.
      const bound = await storage.deliveries.takeBound(self.id)
      if (bound !== undefined) watermark.beginAfter(bound)
      await balancer.start()
      // Of those that died when nobody was left to see it; by then nobody can come back for their logs.
      const left = await storage.placement.dead()
      tidying = clock.after(topology.resumeWindowMs, () => {
        dropLogs(cluster, left).catch(trouble("log"))
      })
    },
    leave: () => balancer.leave(),
    async stop() {
      balancer.stop()
      // What is asked from elsewhere goes on to the next owner.
      for (const shard of shards.values()) host.removeShard(shard)
      queue.end()
      outbox.stop()
      router.stop()
      host.stop()
      tidying?.stop()
      await cluster.stop()
      await commits.close()
    },
  }
}

async function dropLogs({ logs }: ClusterInside, workers: readonly string[]): Promise<void> {
  for (const worker of workers) await logs.drop(worker)
}

function openOutbox(cluster: ClusterInside, options: Omit<ShardHostOptions, "actors">, interests: Interests): Outbox {
  const { logs, view, dead, shards, router } = cluster
  const { storage, topology, clock, log, metrics } = cluster.options
  return new Outbox({
    logs,
    interests,
    shards,
    view,
    dead,
    store: storage.placement,
    targets: {
      tell: tell => router.tell(tell),
      addJob: job => options.jobs.add(job),
      revoke: options.revoke,
      renew: options.renew,
    },
    subscribers: options.subscribers ?? [],
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
    doubtfulLogs: async () => {
      const died = await storage.placement.diedLately()
      const later = died.filter(worker => keys.isLater(logs.at(worker)))
      const exist = await Promise.all(later.map(worker => logs.exists(worker)))
      return later.filter((_, i) => exist[i])
    },
    peers: {
      askInterests: interestAsker(cluster, options.homeSubscriptions ?? (() => [])),
      announce: rows => notifyOthers("owners", rows),
      async announceLeaving() {
        // Those who come from here on see it; those who came before are known from here on.
        await membership.announceLeaving()
        // The inbox keeps order: a worker that hears of a shard from here has heard of the leaving before.
        notifyOthers("leaving", self.id)
      },
      // Any home of the shard will do, even one that does not exist.
      served: (shard, timeoutMs) => router.workersOf(idOf(shard, { ms: epochMs, sequence: 0 }), timeoutMs),
    },
    observers: options.observers ?? [],
    timing: topology.handover,
    clock,
    log,
    metrics,
  })
}

/** Asks every web worker whose events its log takes, until it has answered or is dead; and answers the others. */
function interestAsker(
  { bus, view, options: { clock } }: ClusterInside,
  homeSubscriptions: NonNullable<ShardHostOptions["homeSubscriptions"]>,
): (shards: readonly number[]) => Promise<readonly Interest[]> {
  type Served = [home: Snowflake, from: number][]
  bus.handle<{ shards: number[] }, Served>("servedHomes", async ({ shards }) => homeSubscriptions(new Set(shards))) // words: its name on the wire
  const ask = async (worker: string, shards: readonly number[]): Promise<Interest[]> => {
    while (view.isLiving(worker)) {
      try {
        const homes =
          worker === view.self.id
            ? homeSubscriptions(new Set(shards))
            : await bus.request<Served>(worker, "servedHomes", { shards }, 1_000) // words: its name on the wire
        return homes.map(([home, from]) => ({ home, worker, from }))
      } catch (error) {
        // A version that does not know the question has told Redis all.
        if (error instanceof NotHandled) return []
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
