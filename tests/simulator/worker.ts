import { createActorParts, hostActors, type ActorParts } from "../../src/actors/host-actors.ts"
import type { ShardHost } from "../../src/runtime/host-shards.ts"
import { joinCluster, type Cluster, type ClusterInside, type RuntimeTopology } from "../../src/runtime/join-cluster.ts"
import { PresenceLookup } from "../../src/actors/social/presence-lookup.ts"
import type { PresenceTiming } from "../../src/actors/social/presences.ts"
import { attachmentPath } from "../../src/domain/messages/attachments.ts"
import { KeptSessions } from "../../src/cluster/kept-sessions.ts"
import { SessionDrops } from "../../src/cluster/session-drops.ts"
import { GatewaySessions } from "../../src/cluster/gateway-sessions.ts"
import { redisKeys } from "../../src/cluster/keys.ts"
import type { Member } from "../../src/cluster/members.ts"
import type { JobQueue } from "../../src/cluster/job-queue.ts"
import type { Connect, Redis } from "../../src/cluster/redis.ts"
import type { Sockets } from "../../src/cluster/socket-road.ts"
import { homeReplicationId } from "../../src/cluster/replication.ts"
import type { AccessSession } from "../../src/cluster/tokens.ts"
import type { Snowflake } from "../../src/contract/core/fields.ts"
import { Gateway } from "../../src/gateway/gateway.ts"
import type { GatewayOptions, GatewayTopology } from "../../src/gateway/parts.ts"
import type { Log } from "../../src/observability/log.ts"
import type { Metrics } from "../../src/observability/metrics.ts"
import { AccessTokens } from "../../src/domain/service/access-tokens.ts"
import type { ServiceView } from "../../src/domain/service/server-status.ts"
import type { Storage } from "../../src/storage/storage.ts"
import { SimulatedApp } from "./sockets.ts"
import type { Actor, Timeline } from "./timeline.ts"

/**
 * What a worker consists of, connected, before anything of it runs. Others hold the same objects: a
 * method that is replaced here is replaced for them.
 */
export interface WorkerParts {
  readonly storage: Storage
  readonly cluster: ClusterInside
  readonly records: GatewaySessions
  readonly gateway: Gateway
  readonly kept: KeptSessions<AccessSession>
  readonly jobs: Pick<JobQueue, "add">
  readonly actors: ActorParts
}

export interface SimulatedWorkerOptions {
  readonly self: Member
  readonly timeline: Timeline
  readonly connect: Connect
  readonly openSockets: () => Sockets | undefined
  readonly openRecords: () => Redis
  readonly openStorage: () => Storage
  readonly addJob: (key: string) => Promise<void>
  /** @returns their tokens */
  readonly revoke: (sessions: readonly Snowflake[]) => Promise<readonly string[]>
  readonly verify: (token: string) => Promise<AccessSession | string>
  /** What was looked up is on its way back. */
  readonly answered: () => Promise<void>
  readonly topology: RuntimeTopology & {
    readonly gateway: GatewayTopology
    readonly presence: PresenceTiming & GatewayOptions["presence"]
  }
  /** Where a new home is to live. */
  readonly anyShard: () => number
  /** Breaks the worker before it starts. */
  readonly plant: ((parts: WorkerParts) => void) | undefined
  readonly log: Log
  readonly metrics: Metrics
  /** It takes part from now on. */
  readonly ready: () => void
  /** The process has ended, by itself or by a fault. */
  readonly ended: (why: string) => void
}

type SimulatedNode = Cluster & ShardHost & { readonly presences: PresenceLookup }

/** No operator says anything. */
const undisturbed: ServiceView = {
  facts: {
    state: "running",
    message: null,
    estimated_downtime_seconds: null,
    restart_at: null,
    changes: 0,
    resets: 0,
    reset_until: "0",
    blocks_version: 0,
    access_version: 0,
    automod_off: false,
    automod_backends: [],
  },
  isBlocked: () => false,
  hasBlocked: false,
  accessTokens: new AccessTokens([]),
  moderation: { isOff: false, backends: [] },
  isOver: () => false,
  onChange() {},
}

/**
 * A web worker's process: the program's own node and gateway, without HTTP. Its code runs in steps of its own; between any
 * two of them it can be killed, and nothing of it happens any more.
 */
export class SimulatedWorker implements Actor {
  readonly name: string
  readonly id: string
  readonly slot: number
  dead = false
  pausedUntil = 0
  /** How far its wall clock is off, in milliseconds. */
  skew = 0
  readonly sockets: SimulatedApp
  readonly #options: SimulatedWorkerOptions
  #node: SimulatedNode | undefined
  #gateway: Gateway | undefined
  /** Whose token it is, as a request over REST asks; once the worker is ready. */
  holderOf!: (token: string) => Promise<AccessSession | string>
  isReady = false
  isDraining = false

  constructor(options: SimulatedWorkerOptions) {
    this.#options = options
    this.id = options.self.id
    this.name = options.self.id
    this.slot = options.self.slot
    this.sockets = new SimulatedApp(options.timeline, this)
  }

  get node(): SimulatedNode {
    return this.#node!
  }

  async start(): Promise<void> {
    const { self, timeline, topology, log, metrics } = this.#options
    const storage = this.#options.openStorage()
    const clock = timeline.clockOf(this, () => this.skew)
    const remembering = this.#options.openRecords()
    await remembering.connect()
    const keys = redisKeys("", await homeReplicationId(remembering, storage.placement.redisOrigin))
    const cluster = await joinCluster({
      self,
      connect: this.#options.connect,
      sockets: this.#options.openSockets(),
      keys,
      storage,
      topology,
      clock,
      log,
      metrics,
    })
    cluster.directory.anyShard = this.#options.anyShard
    const presences = new PresenceLookup({ ...cluster, timing: topology.presence, clock })
    const records = new GatewaySessions(remembering, keys, {
      isShortRead: () => cluster.membership.readsShortRecords,
      clock,
    })
    // By token, which is named after its session.
    const kept = new KeptSessions<AccessSession>({
      bounds: { sessions: 1_000, bytes: Infinity, forMs: 30_000 },
      term: () => cluster.membership.term,
      clock,
    })
    const drops = new SessionDrops({
      bus: cluster.bus,
      membership: cluster.membership,
      living: () => storage.placement.living() as Promise<Member[]>,
      redis: cluster.connections.bus,
      keys,
      kept,
      serveForMs: topology.membership.serveForMs,
      clock,
      log,
      metrics,
    })
    const gateway = new Gateway({
      app: this.sockets.app,
      node: { ...cluster, presences },
      records,
      storage,
      // Simulated clients neither type nor resume with another token, so nobody asks what is known of
      // one later on.
      tokens: {
        admit: (async (token: string) => kept.find(token)?.session ?? (await this.#options.verify(token))) as never,
        look: () => kept.begin(),
        isStill: (_, look) => look !== undefined && kept.holds(look),
        known: () => Promise.reject(new Error("nobody types")),
        isFailedTooOften: async () => false,
      },
      topology: topology.gateway,
      presence: topology.presence,
      policy: {
        limited: false,
        gatewayUrl: () => "ws://localhost/gateway",
        iceServers: () => [],
        voice: { voice_enabled: true, voice_stun_urls: [], voice_turn_urls: [], voice_turn_ttl: 86_400 },
        allowedOrigins: [],
        compression: true,
        tokenBinding: false,
        clientAddress: () => new Uint8Array(4),
        isUnlimited: () => true,
      },
      service: undisturbed,
      clock,
      log,
      metrics,
    })
    this.#gateway = gateway
    this.holderOf = token => this.#find(kept, token, () => this.#options.answered())
    cluster.signals.on("logItems", items => gateway.takeItems(items))
    cluster.signals.on("logMoved", position => gateway.noteLogMoved(position))
    cluster.streams.holdWhile(() => gateway.isFull)
    const jobs: WorkerParts["jobs"] = { add: job => this.#options.addJob(job.key) }
    const actors = createActorParts(cluster, {
      storage,
      // Simulated servers have no rules.
      texts: {
        find: () => Promise.reject(new Error("nobody judges texts")),
        measure: () => Promise.reject(new Error("nobody measures patterns")),
      },
      jobs,
      signedPath: attachmentPath,
      revoke: async sessions => drops.everywhere(await this.#options.revoke(sessions)),
      // What the simulated clients know of a token never changes.
      renew: async () => {},
      homeSubscriptions: shards => gateway.homeSubscriptions(shards),
      onPresences: changes => gateway.takePresences(changes),
      presence: topology.presence,
    })
    const host = hostActors(cluster, actors)
    cluster.signals.on("death", () => gateway.noteDeath())
    cluster.signals.on("over", why => this.end(why))
    this.#options.plant?.({ storage, cluster, records, gateway, kept, jobs, actors })
    this.#node = { ...cluster, ...host, presences }
    await host.start()
    gateway.begin(cluster.streams.position)
    this.sockets.isListening = true
    this.isReady = true
    this.#options.ready()
  }

  async #find(
    kept: KeptSessions<AccessSession>,
    token: string,
    answered: () => Promise<void>,
  ): Promise<AccessSession | string> {
    const known = kept.find(token)
    if (known) return known.session
    const look = kept.begin()
    const session = await this.#options.verify(token)
    await answered()
    if (typeof session !== "string")
      kept.keep(look, token, { session, hash: Buffer.alloc(0), activeAt: 0, endsAt: Infinity, bytes: 0 })
    return session
  }

  /** As after SIGTERM. */
  async drain(): Promise<void> {
    this.isDraining = true
    this.sockets.isListening = false
    await this.#gateway!.drain()
    await this.node.leave().catch(() => {})
    this.#gateway!.stop()
    await this.node.stop()
    this.end("drained")
  }

  /** The process is gone, in the middle of whatever it did. */
  end(why: string): void {
    if (this.dead) return
    this.dead = true
    this.sockets.processEnded()
    this.#options.ended(why)
  }
}
