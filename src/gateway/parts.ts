import type { TemplatedApp } from "uWebSockets.js"
import type { Cluster } from "../runtime/join-cluster.ts"
import type { PresenceLookup } from "../actors/social/presence-lookup.ts"
import { SharedTurns } from "../std/batches.ts"
import type { GatewaySessions } from "../cluster/gateway-sessions.ts"
import type { Tokens } from "../cluster/tokens.ts"
import type { Address } from "../domain/core/client-address.ts"
import type { RequestedHost } from "../domain/core/public-host.ts"
import type { Clock } from "../std/clock.ts"
import type { ServiceView } from "../domain/service/server-status.ts"
import type { IceServersFor, VoicePolicy } from "../domain/voice/voice.ts"
import type { Log } from "../observability/log.ts"
import type { Metrics } from "../observability/metrics.ts"
import type { Storage } from "../storage/storage.ts"
import { OutlineLoads } from "../storage/communities/outline-loads.ts"
import { Deliveries } from "./deliveries.ts"
import type { DrainTopology } from "./fan-out/drain.ts"
import { HomeSubscriptions } from "./fan-out/home-subscriptions.ts"
import { PresenceFeed, type PresenceFeedOptions } from "./fan-out/presence-feed.ts"
import { PresenceWatches, type PresenceWatchesOptions } from "./fan-out/presence-watches.ts"
import { ServiceNotices } from "./fan-out/service-notices.ts"
import { Stream } from "./fan-out/stream.ts"
import { Subscriptions } from "./fan-out/subscriptions.ts"
import type { FrameLimitsOptions } from "./protocol/frame-limits.ts"
import type { FrameBounds } from "./protocol/frames.ts"
import { CatchUpReader } from "./replay/catch-up-reader.ts"
import { PeerLogs } from "./replay/peer-log.ts"
import { GuildMembers } from "./requests/guild-members.ts"
import type { SessionHandlers } from "./requests/handlers.ts"
import { presenceRequests } from "./requests/presence.ts"
import { TypingRequests } from "./requests/typing.ts"
import { Voice } from "./requests/voice.ts"
import { arrivalsOf } from "./sessions/arrivals.ts"
import { IdentifyHandler, type IdentifyOptions } from "./sessions/identify.ts"
import { Restore } from "./sessions/restore.ts"
import { ResumeHandler } from "./sessions/resume.ts"
import { SessionClaims } from "./sessions/session-claims.ts"
import { Sessions, type SessionEvents } from "./sessions/sessions.ts"
import { TokenCheck } from "./sessions/token-check.ts"
import type { Connection } from "./state/session.ts"

/** Times and bounds from the configuration. */
export interface GatewayTopology {
  readonly heartbeatIntervalMs: number
  readonly resumeWindowMs: number
  readonly positionAfterMs: number
  readonly connectionsPerUser: number
  readonly typingTimeoutMs: number
  readonly resumeReplayBytes: number
  readonly classesPerAudience: number
  readonly sockets: {
    readonly sliceBytes: number
    readonly budgetBytes: number
    readonly stuckAfterMs: number
    readonly maxPerAddress: number
    readonly maxUnidentifiedPerAddress: number
  }
  readonly identify: IdentifyOptions["queue"] & { readonly timeoutMs: number }
  readonly frames: FrameLimitsOptions & FrameBounds
  readonly drain: DrainTopology
  readonly deliveries: { readonly cursorsEveryMs: number }
}

/** What the operator decides about connections. */
export interface GatewayPolicy {
  /** False turns every rate limit off. */
  readonly limited: boolean
  /** Where a session is to be resumed whose client, `peer`, made this request. */
  readonly gatewayUrl: (peer: string, requested: RequestedHost) => string
  readonly voice: VoicePolicy
  readonly iceServers: IceServersFor
  /** Origins that browsers may connect from; empty: all. */
  readonly allowedOrigins: readonly string[]
  /** Whether clients that ask for compressed frames get them. */
  readonly compression: boolean
  /** Whether the bounds on sockets of one address leave an address out. */
  readonly isUnlimited: (address: Address) => boolean
  /** `forwardedFor`: every X-Forwarded-For line, joined. */
  readonly clientAddress: (peer: string, forwardedFor: string | undefined) => Address
  /** Whether a token is valid only where it signed in. */
  readonly tokenBinding: boolean
}

export interface GatewayOptions {
  readonly app: TemplatedApp
  readonly node: Cluster & { readonly presences: PresenceLookup }
  readonly records: GatewaySessions
  readonly storage: Storage
  readonly tokens: Pick<Tokens, "admit" | "look" | "isStill" | "known"> & {
    /**
     * Counts one more failed token of an address, in the same count as HTTP; true: there were too
     * many already.
     */
    readonly isFailedTooOften: (address: string) => Promise<boolean>
  }
  readonly topology: GatewayTopology
  readonly presence: PresenceFeedOptions["timing"] & PresenceWatchesOptions["timing"]
  readonly policy: GatewayPolicy
  readonly service: ServiceView
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
}

/** Milliseconds to find out which worker keeps track of a user's typing. */
const typingNotedMs = 1_000

/** The parts of one worker's gateway. */
export type GatewayParts = ReturnType<typeof createParts>

/**
 * Makes each part after those that it uses. Parts that are made later are told of sessions by
 * events.
 */
export function createParts(
  options: GatewayOptions,
  connections: ReadonlySet<Connection>,
  onIdentified: (connection: Connection) => void,
) {
  const events: SessionEvents = {
    opened(connection) {
      onIdentified(connection)
      fanOut.notices.greet(connection)
    },
    named: (session, position) => replay.deliveries.named(session, position),
    moved: session => requests.voice.moved(session),
    ended: session => requests.voice.ended(session),
  }
  const fanOut = createFanOut(options, connections)
  const replay = createReplay(options, fanOut, events)
  const entries = createEntries(options, { ...fanOut, ...replay }, events)
  const requests = createRequests(options, { ...fanOut, ...replay })
  return { ...fanOut, ...replay, ...entries, ...requests }
}

/** What this worker's log takes, and to whom it is sent. */
function createFanOut(options: GatewayOptions, connections: ReadonlySet<Connection>) {
  const { app, node, storage, topology, service, clock, log, metrics } = options
  const outlines = new OutlineLoads({
    source: storage.servers,
    maxConcurrent: topology.identify.maxConcurrent,
    clock,
  })
  const homes = new HomeSubscriptions({
    register: (shard, wanted) => {
      metrics.gateway.registrations.inc()
      return node.router.register(shard, wanted)
    },
    release: (shard, left) => node.router.release(shard, left),
    releaseUsers: (shard, users) => node.router.releaseSurely(shard, users),
    loadOutline: server => outlines.load(server),
    oldest: () => node.streams.oldest,
    keep: topology.resumeWindowMs,
    clock,
    log,
  })
  const subscriptions = new Subscriptions({
    app,
    view: server => homes.view(server),
    classesPerAudience: topology.classesPerAudience,
    clock,
    metrics,
  })
  const notices = new ServiceNotices({ service, connections, subscriptions, clock, log })
  return { homes, subscriptions, notices }
}

type FanOut = ReturnType<typeof createFanOut>

/** How sessions read logs, and how their state follows what they read. */
function createReplay(options: GatewayOptions, { homes, subscriptions }: FanOut, events: SessionEvents) {
  const { node, storage, topology, policy, presence, records, clock, log, metrics } = options
  const self = node.membership.self.id
  const shared = { self, subscriptions, homes, clock, log, metrics }
  const reader: CatchUpReader = new CatchUpReader({
    ...shared,
    streams: () => node.streams,
    logs: node.logs,
    budget: topology.sockets.budgetBytes,
    stuckAfterMs: topology.sockets.stuckAfterMs,
    reconcile: (session, server) => sessions.reconcile(session, server),
    changed: session => sessions.save(session),
  })
  const sessions = new Sessions({
    ...shared,
    reader,
    records,
    storage,
    isLiving: worker => node.membership.isLiving(worker),
    policy: {
      connectionsPerUser: topology.connectionsPerUser,
      compression: policy.compression,
    },
    events,
  })
  const peerLogs = new PeerLogs({
    logs: node.logs,
    isReal: worker => node.isRealLog(worker),
    isLiving: worker => node.membership.isLiving(worker),
    self,
    maxBytes: topology.resumeReplayBytes,
    keep: topology.resumeWindowMs,
    clock,
    metrics,
  })
  const stream = new Stream({
    subscriptions,
    reader,
    homes,
    giveUp: session => sessions.end(session),
    slice: topology.sockets.sliceBytes,
    budget: topology.sockets.budgetBytes,
    clock,
    log,
    metrics,
  })
  const deliveries = new Deliveries({
    subscriptions,
    store: storage.deliveries,
    timing: topology.deliveries,
    clock,
    log,
    metrics,
  })
  const presences = new PresenceFeed({
    subscriptions,
    stream,
    view: server => homes.view(server),
    timing: presence,
    slice: topology.sockets.sliceBytes,
    clock,
    metrics,
  })
  const watches = new PresenceWatches({
    presences: node.presences,
    storage,
    subscriptions,
    timing: presence,
    clock,
    log,
  })
  return { reader, sessions, peerLogs, stream, deliveries, presences, watches }
}

type Replay = ReturnType<typeof createReplay>

/** How sessions begin and go on: IDENTIFY and RESUME. */
function createEntries(options: GatewayOptions, made: FanOut & Replay, events: SessionEvents) {
  const { node, storage, topology, policy, tokens, records, clock, log, metrics } = options
  const { homes, subscriptions, sessions, peerLogs } = made
  const self = node.membership.self.id
  const isLiving = (worker: string) => node.membership.isLiving(worker)
  const tokenCheck = new TokenCheck({
    admit: token => tokens.admit(token),
    look: () => tokens.look(),
    isStill: (access, look) => tokens.isStill(access, look),
    binding: policy.tokenBinding,
    isFailedTooOften: tokens.isFailedTooOften,
    clock,
  })
  const arrivalOf = arrivalsOf(storage, { clock, metrics })
  // Read once for all who ask together, after them.
  const lastPosition = new SharedTurns<undefined, number | undefined>(() => node.logs.lastPosition(self), clock)
  const shared = {
    subscriptions,
    homes,
    sessions,
    storage,
    tokens: tokenCheck,
  }
  const identify = new IdentifyHandler({
    ...shared,
    self,
    records,
    arrivalOf,
    queue: topology.identify,
    clock,
    metrics,
  })
  const claims = new SessionClaims({
    self,
    subscriptions,
    sessions,
    peerLogs,
    records,
    bus: node.bus,
    isLiving,
    known: session => tokens.known(session),
    clock,
  })
  const restore = new Restore({
    ...shared,
    self,
    arrivalOf,
    peerLogs,
    ownLog: {
      lastPosition: () => lastPosition.ask(undefined),
      places: () => [node.streams.at, node.logs.at(self)],
    },
    claims,
    isLiving,
    clock,
  })
  const resume = new ResumeHandler({
    subscriptions,
    homes,
    sessions,
    claims,
    restore,
    tokens: tokenCheck,
    streams: () => node.streams,
    events,
    maxWaiting: topology.identify.maxWaiting,
    log,
    metrics,
  })
  return { identify, resume }
}

/** What identified clients ask for. */
function createRequests(options: GatewayOptions, { subscriptions, sessions, reader, watches }: FanOut & Replay) {
  const { node, storage, topology, policy, tokens, clock, log } = options
  const self = node.membership.self.id
  const webWorkers = () => node.membership.members().flatMap(({ id, role }) => (role === "web" ? [id] : []))
  const shared = { ask: node.ask, bus: node.bus, self, subscriptions, clock, log }
  const voice = new Voice({
    calls: {
      ...shared,
      webWorkers,
      reader,
      logs: node.logs,
      save: session => sessions.save(session),
      media: { policy: policy.voice, iceServers: policy.iceServers },
    },
    signals: { ...shared, budget: topology.sockets.budgetBytes, limited: policy.limited },
    endings: { ...shared, webWorkers, storage, resumeWindowMs: topology.resumeWindowMs },
  })
  const typing = new TypingRequests({
    ask: node.ask,
    known: session => tokens.known(session),
    bus: node.bus,
    self,
    workersOf: user => node.router.workersOf(user, typingNotedMs),
    timeoutMs: topology.typingTimeoutMs,
    clock,
    trouble: (error: unknown) => log.debug({ err: error }, "end of typing not sent"),
  })
  const guildMembers = new GuildMembers({ storage, presences: node.presences, subscriptions, watches, clock })
  const handlers: SessionHandlers = {
    ...typing.handlers,
    ...voice.handlers,
    ...presenceRequests({ ask: node.ask }),
    ...guildMembers.handlers,
  }
  return { voice, typing, handlers }
}
