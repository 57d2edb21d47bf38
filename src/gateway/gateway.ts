import { isTransient } from "../actors/runtime/transient.ts"
import { hash } from "node:crypto"
import { isIP } from "node:net"
import type { HttpRequest, HttpResponse, TemplatedApp, us_socket_context_t, WebSocket } from "uWebSockets.js"
import type { Cluster } from "../actors/runtime/join-cluster.ts"
import type { PresenceLookup } from "../actors/social/presence-lookup.ts"
import { inTurns } from "../cluster/batches.ts"
import { GatewaySessions } from "../cluster/gateway-sessions.ts"
import type { Tokens } from "../cluster/tokens.ts"
import { gatewayPath } from "../contract/pages.ts"
import { Failure } from "../contract/errors.ts"
import type { Snowflake } from "../contract/fields.ts"
import { closeCodes, opcodes, type ClientOp } from "../contract/gateway-codes.ts"
import { withForwarded } from "../domain/client-address.ts"
import type { Clock, Timer } from "../domain/clock.ts"
import type { LogItem } from "../domain/log-entry.ts"
import type { PresenceChange } from "../domain/presences.ts"
import type { IceServersFor, VoicePolicy } from "../domain/voice.ts"
import type { ServiceView } from "../domain/server-status.ts"
import type { Log } from "../observability/log.ts"
import type { Metrics } from "../observability/metrics.ts"
import type { Storage } from "../storage/storage.ts"
import { Deliveries } from "./deliveries.ts"
import { IdentifyHandler } from "./sessions/identify.ts"
import { PeerLogs } from "./replay/peer-log.ts"
import { FrameLimits, IdentifyLimit, nothingSent } from "./protocol/frame-limits.ts"
import { FrameRefused, heartbeatAck, messageOf, plainFrame, readFrame, type PlainEncoding } from "./protocol/frames.ts"
import { GuildMembers } from "./requests/guild-members.ts"
import { Subscriptions } from "./fan-out/subscriptions.ts"
import { PresenceFeed } from "./fan-out/presence-feed.ts"
import { presenceRequests } from "./requests/presence.ts"
import { CatchUpReader } from "./replay/catch-up-reader.ts"
import type { SessionHandlers } from "./requests/handlers.ts"
import { ResumeHandler } from "./sessions/resume.ts"
import { HomeSubscriptions } from "./fan-out/home-subscriptions.ts"
import { ServiceNotices } from "./fan-out/service-notices.ts"
import type { Connection } from "./state/session.ts"
import { Sessions } from "./sessions/sessions.ts"
import { Stream } from "./fan-out/stream.ts"
import { Voice } from "./requests/voice.ts"
import { bareToken, TokenCheck } from "./sessions/token-check.ts"
import { TypingRequests } from "./requests/typing.ts"
import { drainPauseMs, forEachInBatches, type DrainTopology } from "./fan-out/drain.ts"

export interface GatewayTopology extends DrainTopology {
  readonly heartbeatInterval: number
  readonly resumeWindow: number
  readonly positionAfter: number
  readonly publishSlice: number
  readonly socketBudget: number
  readonly stuckAfter: number
  readonly identifyQueue: number
  readonly identifyAtOnce: number
  readonly connectionsPerUser: number
  readonly framesPerMinute: number
  readonly typingTimeout: number
  readonly signalsPerMinute: number
  readonly maxFrameBytes: number
  readonly maxInflatedBytes: number
  readonly resumeReplayBytes: number
  readonly classesPerAudience: number
  readonly settleEvery: number
  readonly cursorsEvery: number
}

export interface GatewayOptions {
  readonly app: TemplatedApp
  readonly node: Cluster & { readonly presences: PresenceLookup }
  readonly records: GatewaySessions
  readonly storage: Storage
  readonly tokens: Pick<Tokens, "verify" | "known">
  readonly topology: GatewayTopology
  readonly presence: { readonly gatherFor: number; readonly gathered: number }
  /** False lifts every limiter. */
  readonly limited: boolean
  readonly gatewayUrl: string
  readonly voice: VoicePolicy
  readonly iceServers: IceServersFor
  /** Origins that browsers may come from; empty: all. */
  readonly allowedOrigins: readonly string[]
  /** Whether clients that ask for compressed frames get them. */
  readonly compression: boolean
  /** `forwardedFor`: every X-Forwarded-For line, joined. */
  readonly clientAddress: (peer: string, forwardedFor: string | undefined) => string
  /** Counts one more failed token of an address, as limits count it; true: there were too many already. */
  readonly isFailedTooOften: (address: string) => Promise<boolean>
  readonly service: ServiceView
  /** The oldest client that is still welcome, if it says its version. */
  readonly minClientVersion: string
  /** Whether a token is good only where it signed in. */
  readonly tokenBinding: boolean
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
}

/** Frames larger than the protocol allows are read up to here, so that the client learns why it was closed. */
const transportBytes = 1024 * 1024
/** Milliseconds to find out whose business it is that somebody types. */
const typingNoted = 1_000
/** Who has not identified may leave so many bytes of answers unread. */
const strangersUnread = 64 * 1024

/**
 * The WebSocket door: sockets with their heartbeats, and the rules about frames. What sessions are sent is the business of
 * the stream, the reader and the subscriptions.
 */
export class Gateway {
  readonly #options: GatewayOptions
  readonly #connections = new Set<Connection>()
  readonly #subscriptions: Subscriptions
  readonly #notices: ServiceNotices
  readonly #homes: HomeSubscriptions
  readonly #reader: CatchUpReader
  readonly #sessions: Sessions
  readonly #identify: IdentifyHandler
  readonly #resume: ResumeHandler
  readonly #stream: Stream
  readonly #voice: Voice
  readonly #peerLogs: PeerLogs
  readonly #timers: Timer[]
  readonly #limits: FrameLimits
  readonly #identifies = new IdentifyLimit()
  readonly #typing: TypingRequests
  readonly #presences: PresenceFeed
  readonly #deliveries: Deliveries
  readonly #handlers: SessionHandlers
  #draining = false
  #upgrades = 0

  constructor(options: GatewayOptions) {
    this.#options = options
    const { app, node, storage, topology, clock, log, metrics, records } = options
    const self = node.membership.self.id
    this.#limits = new FrameLimits(topology)
    this.#homes = new HomeSubscriptions({
      register: (shard, homes) => {
        metrics.gateway.registrations.inc()
        return node.router.register(shard, homes)
      },
      release: (shard, homes) => node.router.release(shard, homes),
      releaseUsers: (shard, users) => node.router.releaseSurely(shard, users),
      loadOutlines: servers => storage.servers.outlines(servers),
      loadsAtOnce: topology.identifyAtOnce,
      oldest: () => node.streams.oldest,
      keep: topology.resumeWindow,
      clock,
      log,
    })
    this.#subscriptions = new Subscriptions({
      app,
      view: server => this.#homes.view(server),
      classesPerAudience: topology.classesPerAudience,
      clock,
      metrics,
    })
    this.#notices = new ServiceNotices({
      service: options.service,
      connections: this.#connections,
      subscriptions: this.#subscriptions,
      clock,
      log,
    })
    this.#reader = new CatchUpReader({
      subscriptions: this.#subscriptions,
      homes: this.#homes,
      streams: () => node.streams,
      logs: node.logs,
      self,
      budget: topology.socketBudget,
      stuckAfter: topology.stuckAfter,
      reconcile: (session, server) => this.#sessions.reconcile(session, server),
      changed: session => this.#sessions.save(session),
      clock,
      log,
      metrics,
    })
    this.#deliveries = new Deliveries({
      subscriptions: this.#subscriptions,
      store: storage.deliveries,
      self,
      idWatermarks: () => node.idWatermarks(),
      end: () => node.logs.lastPosition(self),
      timing: topology,
      place: () => (node.logs.at(self) === node.streams.at ? node.streams.at : ""),
      clock,
      log,
      metrics,
    })
    this.#peerLogs = new PeerLogs({
      logs: node.logs,
      isReal: worker => node.isRealLog(worker),
      self,
      maxBytes: topology.resumeReplayBytes,
      keep: topology.resumeWindow,
      clock,
      metrics,
    })
    this.#sessions = new Sessions({
      self,
      subscriptions: this.#subscriptions,
      reader: this.#reader,
      homes: this.#homes,
      records,
      storage,
      isLiving: worker => node.membership.isLiving(worker),
      connectionsPerUser: options.limited ? topology.connectionsPerUser : undefined,
      compression: options.compression,
      onEnd: session => this.#voice.ended(session),
      clock,
      log,
      metrics,
    })
    const shared = {
      self,
      subscriptions: this.#subscriptions,
      reader: this.#reader,
      homes: this.#homes,
      sessions: this.#sessions,
      records,
      storage,
      tokens: new TokenCheck({
        verify: token => options.tokens.verify(token),
        binding: options.tokenBinding,
        isFailedTooOften: options.isFailedTooOften,
        clock,
      }),
      // One query at a time, for all who come meanwhile.
      membershipsOf: inTurns(async (users: readonly Snowflake[]) => {
        metrics.gateway.membershipQueries.inc()
        const found = await storage.users.memberships([...new Set(users)])
        return users.map(user => found.get(user) ?? [])
      }, clock),
      onOpen: (connection: Connection) => this.#notices.greet(connection),
      clock,
      log,
      metrics,
    }
    this.#identify = new IdentifyHandler({
      ...shared,
      gatewayUrl: options.gatewayUrl,
      minClientVersion: options.minClientVersion,
      identifyAtOnce: topology.identifyAtOnce,
      identifyQueue: topology.identifyQueue,
    })
    this.#resume = new ResumeHandler({
      ...shared,
      peerLogs: this.#peerLogs,
      streams: () => node.streams,
      logs: node.logs,
      bus: node.bus,
      isLiving: worker => node.membership.isLiving(worker),
      onNamed: (session, position) => this.#deliveries.named(session, position),
      onMoved: session => this.#voice.moved(session),
      queue: topology.identifyQueue,
    })
    this.#voice = new Voice({
      ask: node.ask,
      bus: node.bus,
      self,
      webWorkers: () => node.membership.members().flatMap(({ id, role }) => (role === "web" ? [id] : [])),
      storage,
      subscriptions: this.#subscriptions,
      reader: this.#reader,
      logs: node.logs,
      save: session => this.#sessions.save(session),
      policy: options.voice,
      iceServers: options.iceServers,
      resumeWindow: topology.resumeWindow,
      budget: topology.socketBudget,
      limited: options.limited,
      clock,
      log,
    })
    this.#stream = new Stream({
      subscriptions: this.#subscriptions,
      reader: this.#reader,
      homes: this.#homes,
      giveUp: session => this.#sessions.end(session),
      slice: topology.publishSlice,
      budget: topology.socketBudget,
      clock,
      log,
      metrics,
    })
    this.#typing = new TypingRequests({
      ask: node.ask,
      known: session => options.tokens.known(session),
      bus: node.bus,
      self,
      workersOf: user => node.router.workersOf(user, typingNoted),
      timeout: topology.typingTimeout,
      clock,
      trouble: (error: unknown) => log.debug({ err: error }, "end of typing not sent"),
    })
    this.#presences = new PresenceFeed({
      subscriptions: this.#subscriptions,
      stream: this.#stream,
      view: server => this.#homes.view(server),
      timing: options.presence,
      slice: topology.publishSlice,
      clock,
      metrics,
    })
    const guildMembers = new GuildMembers({
      storage,
      presences: node.presences,
      subscriptions: this.#subscriptions,
      clock,
    })
    this.#handlers = {
      ...this.#typing.handlers,
      ...this.#voice.handlers,
      ...presenceRequests({ ask: node.ask }),
      ...guildMembers.handlers,
    }
    this.#timers = [
      clock.every(1_000, () => this.#sweep()),
      clock.every(10_000, () => this.#homes.sweep()),
      clock.every(500, () => this.#homes.sweepUsers()),
      // Records of living sessions are written anew long before they would lapse.
      clock.every(6 * 3_600_000, () => this.#saveAll()),
    ]
    records.onLoss(() => this.#afterFailOver())
    this.#listen()
  }

  /** The position that live sessions stand at; the log is read from here on. */
  begin(position: number): void {
    this.#subscriptions.position = position
  }

  /** New pieces of the worker's log, in order. */
  takeItems(items: readonly LogItem[]): void {
    this.#deliveries.take(items)
    this.#stream.take(items)
  }

  /** Changes of what this worker's sessions see of users. */
  takePresences(changes: readonly PresenceChange[]): void {
    this.#presences.take(changes)
  }

  /** A user has said elsewhere than on a socket that he types. */
  noteTyping(user: Snowflake, channel: Snowflake): Promise<void> {
    return this.#typing.said(user, channel)
  }

  /** Whether everything that was read is sent or waits for slow sockets only. */
  get settled(): boolean {
    return this.#stream.behind === 0 && this.#presences.settled
  }

  /** How many connections became WebSockets, ever. */
  get upgrades(): number {
    return this.#upgrades
  }

  /** The homes whose events this worker's log takes, with the row from which it holds them. */
  homeSubscriptions(shards: ReadonlySet<number>): [home: Snowflake, from: number][] {
    return this.#homes.of(shards)
  }

  /** A worker was declared dead. */
  noteDeath(): void {
    this.#voice.noteDeath()
  }

  get connections(): number {
    return this.#connections.size
  }

  /** Sends everybody elsewhere: RECONNECT in waves, then 1012; the sessions can be resumed. */
  async drain(): Promise<void> {
    this.#draining = true
    const { clock, topology } = this.#options
    const everybody = [...this.#connections]
    await forEachInBatches(everybody, drainPauseMs(everybody.length, topology), clock, connection => {
      if (connection.session)
        this.#subscriptions.sendPayload(connection, plainFrame(connection.encoding, "RECONNECT", null))
      this.#subscriptions.close(connection, "service_restart")
    })
  }

  stop(): void {
    this.#draining = true
    this.#voice.stop()
    for (const timer of this.#timers) timer.stop()
    this.#presences.stop()
    this.#deliveries.stop()
    for (const connection of this.#connections) this.#subscriptions.close(connection, "service_restart")
  }

  #listen(): void {
    const { app, topology, metrics } = this.#options
    app.ws<Connection>(gatewayPath, {
      maxPayloadLength: transportBytes,
      // A live socket takes at most one slice above its budget before it is looked at: it cannot be refused a frame.
      maxBackpressure: topology.socketBudget + 512 * 1024,
      closeOnBackpressureLimit: 0,
      idleTimeout: 0,
      sendPingsAutomatically: false,
      compression: 0,
      upgrade: (res, req, context) => {
        // A throw in a handler ends the process.
        try {
          this.#upgrade(res, req, context)
        } catch (error) {
          this.#options.log.error({ err: error }, "upgrade failed")
          res.close()
        }
      },
      open: ws => {
        const connection = ws.getUserData()
        connection.ws = ws
        this.#connections.add(connection)
        metrics.gateway.connections.inc()
        this.#subscriptions.sendPayload(
          connection,
          plainFrame(connection.encoding, "HELLO", { heartbeat_interval: topology.heartbeatInterval }),
        )
        const refusal = this.#notices.refusal()
        if (refusal) this.#subscriptions.close(connection, refusal)
      },
      message: (ws, message, isBinary) => this.#receive(ws.getUserData(), message, isBinary),
      drain: ws => {
        const connection = ws.getUserData()
        try {
          if (connection.session) this.#reader.drained(connection.session)
          callOnDrain(connection)
        } catch (error) {
          this.#refuse(connection, error, this.#options.log)
        }
      },
      dropped: ws => {
        this.#subscriptions.holed.add(ws.getUserData())
      },
      close: ws => this.#closed(ws),
    })
  }

  #upgrade(res: HttpResponse, req: HttpRequest, context: us_socket_context_t): void {
    const { allowedOrigins, clientAddress } = this.#options
    const origin = req.getHeader("origin")
    if (origin !== "" && allowedOrigins.length > 0 && !allowedOrigins.includes(origin)) {
      res.writeStatus("403 Forbidden").end("Origin not allowed")
      return
    }
    if (this.#draining) {
      res.writeStatus("503 Service Unavailable").writeHeader("Retry-After", "1").end("Draining")
      return
    }
    const encoding: PlainEncoding = req.getQuery("encoding") === "msgpack" ? "msgpack" : "json"
    const peer = Buffer.from(res.getRemoteAddressAsText()).toString()
    // `getHeader` knows the first line of a name only.
    let forwardedFor: string | undefined
    req.forEach((name, value) => {
      if (name === "x-forwarded-for") forwardedFor = withForwarded(forwardedFor, value)
    })
    const address = clientAddress(isIP(peer) ? peer : "", forwardedFor)
    if (this.#notices.isBlocked(address)) {
      res.writeStatus("403 Forbidden").end(closeCodes.ip_blocked.reason)
      return
    }
    const at = this.#options.clock.monotonic()
    const connection: Omit<Connection, "ws"> = {
      plainEncoding: encoding,
      encoding,
      address,
      userAgent: this.#options.tokenBinding ? req.getHeader("user-agent") : "",
      session: undefined,
      busy: false,
      onDrain: undefined,
      closed: false,
      openedAt: at,
      heartbeatAt: at,
      sent: nothingSent(at),
    }
    this.#upgrades++
    res.upgrade(connection, req.getHeader("sec-websocket-key"), "", req.getHeader("sec-websocket-extensions"), context)
  }

  #closed(ws: WebSocket<Connection>): void {
    const { metrics, records, node, log } = this.#options
    const connection = ws.getUserData()
    connection.closed = true
    callOnDrain(connection)
    this.#connections.delete(connection)
    metrics.gateway.connections.dec()
    const { session } = connection
    if (!session || session.connection !== connection) return
    this.#sessions.detach(session)
    records
      .disconnect(session.user, session.id, node.membership.self.id)
      .then(workers => {
        const others = workers.filter(worker => node.membership.isLiving(worker))
        this.#typing.ended(session.user, others)
      })
      .catch((error: unknown) => log.warn({ err: error }, "connection count not decreased"))
  }

  /** Nothing may leave this function: a throw in a handler ends the process. */
  #receive(connection: Connection, message: ArrayBuffer, isBinary: boolean): void {
    const { topology, limited, clock, log } = this.#options
    const { sent } = connection
    try {
      const { bytes, wasCompressed } = messageOf(message, isBinary, topology)
      if (wasCompressed && this.#limits.inflated(sent, bytes.byteLength, clock.monotonic()) && limited)
        throw new FrameRefused("rate_limited")
      const frame = readFrame(bytes, isBinary, connection.plainEncoding)
      if (!frame) return
      const { op, beforeIdentify, counts } = opcodes[frame.op]
      this.#options.metrics.gateway.framesIn.of(op).inc()
      if (counts === "frames" && this.#limits.frame(sent, clock.monotonic()) && limited)
        throw new FrameRefused("rate_limited")
      // Voice signals are ephemeral: what is too much is ignored.
      if (counts === "signals" && this.#limits.signal(sent, clock.monotonic()) && limited) return
      if (!beforeIdentify && !connection.session) throw new FrameRefused("not_authenticated")
      this.#act(connection, frame.op, frame.d)
    } catch (error) {
      this.#refuse(connection, error, log)
    }
  }

  #act(connection: Connection, op: ClientOp, d: unknown): void {
    switch (op) {
      case "HEARTBEAT":
        return this.#heartbeat(connection, d)
      case "IDENTIFY":
        return this.#enter(connection, () => {
          this.#countIdentify(d)
          return this.#identify.identify(connection, d)
        })
      case "RESUME":
        return this.#enter(connection, () => this.#resume.resume(connection, d))
      default: {
        const done = this.#handlers[op](connection.session!, d)
        if (done)
          done.catch((error: unknown) => {
            if (error instanceof Failure || isTransient(error)) return
            this.#refuse(connection, error, this.#options.log)
          })
      }
    }
  }

  #enter(connection: Connection, action: () => Promise<void>): void {
    if (connection.session || connection.busy) throw new FrameRefused("already_authenticated")
    connection.busy = true
    action()
      .catch((error: unknown) => this.#refuse(connection, error, this.#options.log))
      .finally(() => {
        connection.busy = false
      })
      .catch((error: unknown) => this.#options.log.error({ err: error }, "gateway error"))
  }

  #refuse(connection: Connection, error: unknown, log: Log): void {
    if (error instanceof FrameRefused) return this.#subscriptions.close(connection, error.close)
    if (isTransient(error)) return this.#subscriptions.close(connection, "try_again_later")
    log.error({ err: error }, "gateway error")
    this.#subscriptions.close(connection, "unknown_error")
  }

  /** The answer carries the position when nothing else has for a while, so that a quiet session can be resumed. */
  #heartbeat(connection: Connection, d: unknown): void {
    connection.heartbeatAt = this.#options.clock.monotonic()
    const { session } = connection
    if (!session && connection.ws.getBufferedAmount() > strangersUnread) throw new FrameRefused("rate_limited")
    if (session) this.#deliveries.named(session, d)
    const ack = heartbeatAck[connection.encoding]
    if (
      session?.state !== "live" ||
      this.#options.clock.monotonic() - this.#subscriptions.lastSentAt(session) < this.#options.topology.positionAfter
    )
      return this.#subscriptions.sendPayload(connection, ack)
    connection.ws.cork(() => {
      this.#subscriptions.sendPayload(connection, ack)
      this.#subscriptions.sendPosition(session)
    })
  }

  #countIdentify(d: unknown): void {
    const { limited, clock } = this.#options
    if (typeof d !== "object" || d === null || !("token" in d) || typeof d.token !== "string" || d.token === "") return
    // However it is written.
    const token = hash("sha256", bareToken(d.token), "base64url")
    if (this.#identifies.isTooMuch(token, clock.monotonic()) && limited) throw new FrameRefused("rate_limited")
  }

  #sweep(): void {
    const { topology, clock } = this.#options
    const silentSince = this.#options.clock.monotonic() - 2 * topology.heartbeatInterval
    for (const connection of this.#connections) {
      const { session, busy, heartbeatAt, openedAt } = connection
      if (heartbeatAt < silentSince)
        this.#subscriptions.close(connection, session ? "session_timed_out" : "not_authenticated")
      // Heartbeats alone hold no place.
      else if (!session && !busy && openedAt < silentSince) this.#subscriptions.close(connection, "not_authenticated")
    }
    this.#stream.closeHoled()
    const detachedSince = clock.monotonic() - topology.resumeWindow
    for (const session of this.#subscriptions.byId.values())
      if (session.state === "detached" && session.progressAt < detachedSince) this.#sessions.end(session)
    this.#reader.sweep()
    this.#peerLogs.sweep()
    this.#typing.sweep()
  }

  /**
   * Other workers' logs may have lost pieces that were counted: where a session was before it came here is not known for
   * sure any more. Its own positions are.
   */
  #afterFailOver(): void {
    for (const session of this.#subscriptions.byId.values()) session.spans = session.spans.slice(-1)
    this.#saveAll()
  }

  /** With them goes the count of a user's connections, which lapses and is lost likewise. */
  #saveAll(): void {
    for (const session of this.#subscriptions.byId.values()) {
      this.#sessions.save(session)
      if (session.connection) this.#sessions.countAgain(session)
    }
  }
}

function callOnDrain(connection: Connection): void {
  const { onDrain } = connection
  connection.onDrain = undefined
  onDrain?.()
}
