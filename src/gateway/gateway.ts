import { hash } from "node:crypto"
import { isIP } from "node:net"
import type { HttpRequest, HttpResponse, TemplatedApp, us_socket_context_t, WebSocket } from "uWebSockets.js"
import type { ClusterNode } from "../actors/runtime/node.ts"
import { GatewaySessions } from "../cluster/gateway-sessions.ts"
import type { Tokens } from "../cluster/tokens.ts"
import { Failure } from "../contract/errors.ts"
import type { Snowflake } from "../contract/fields.ts"
import { sessionPosition } from "../contract/gateway.ts"
import { opcodes, type ClientOp } from "../contract/gateway-codes.ts"
import type { Clock, Timer } from "../domain/clock.ts"
import type { LogItem } from "../domain/log-entry.ts"
import type { Log } from "../observability/log.ts"
import type { Metrics } from "../observability/metrics.ts"
import type { Storage } from "../storage/storage.ts"
import { Entrance } from "./entrance.ts"
import { ForeignLogs } from "./foreign-log.ts"
import { Frame, FrameRefused, plainFrame, readFrame, type Encoding } from "./frames.ts"
import { Listeners } from "./listeners.ts"
import { isPassing } from "./patience.ts"
import { Reader } from "./reader.ts"
import type { SessionHandlers } from "./requests.ts"
import { ServedHomes } from "./served-homes.ts"
import type { Connection } from "./session.ts"
import { Stream } from "./stream.ts"
import { typing } from "./typing.ts"

export interface GatewayTopology {
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
  readonly signalsPerMinute: number
  readonly maxFrameBytes: number
  readonly resumeReplayBytes: number
  readonly classesPerAudience: number
}

export interface GatewayOptions {
  readonly app: TemplatedApp
  readonly node: ClusterNode
  readonly records: GatewaySessions
  readonly storage: Storage
  readonly tokens: Pick<Tokens, "verify">
  readonly topology: GatewayTopology
  /** False lifts every limiter. */
  readonly limited: boolean
  readonly gatewayUrl: string
  /** Origins that browsers may come from; empty: all. */
  readonly allowedOrigins: readonly string[]
  readonly clientAddress: (peer: string, forwardedFor: string) => string
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
}

/** Frames larger than the protocol allows are read up to here, so that the client learns why it was closed. */
const transportBytes = 1024 * 1024
/** IDENTIFY per token in five seconds. */
const identifiesAtOnce = 5

/**
 * The WebSocket door: sockets with their heartbeats, and the rules about frames. What sessions are sent is the business of
 * the stream, the reader and the listeners.
 */
export class Gateway {
  readonly #options: GatewayOptions
  readonly #connections = new Set<Connection>()
  readonly #listeners: Listeners
  readonly #homes: ServedHomes
  readonly #reader: Reader
  readonly #entrance: Entrance
  readonly #stream: Stream
  readonly #foreign: ForeignLogs
  readonly #timers: Timer[]
  readonly #identifies = new Map<string, number>()
  readonly #handlers: Partial<SessionHandlers>
  #draining = false
  #upgrades = 0

  constructor(options: GatewayOptions) {
    this.#options = options
    const { app, node, storage, topology, clock, log, metrics, records } = options
    const self = node.membership.self.id
    this.#homes = new ServedHomes({
      register: (shard, homes) => {
        metrics.gateway.registrations.inc()
        return node.router.register(shard, homes)
      },
      release: (shard, homes) => node.router.release(shard, homes),
      loadOutlines: servers => storage.servers.outlines(servers),
      loadsAtOnce: topology.identifyAtOnce,
      oldest: () => node.streams.oldest,
      keep: topology.resumeWindow,
      clock,
      log,
    })
    this.#listeners = new Listeners({
      app,
      view: server => this.#homes.view(server),
      classesPerAudience: topology.classesPerAudience,
      clock,
      metrics,
    })
    this.#reader = new Reader({
      listeners: this.#listeners,
      homes: this.#homes,
      streams: () => node.streams,
      logs: node.logs,
      self,
      budget: topology.socketBudget,
      stuckAfter: topology.stuckAfter,
      reconcile: (session, server) => this.#entrance.reconcile(session, server),
      changed: session => this.#entrance.save(session),
      clock,
      log,
      metrics,
    })
    this.#foreign = new ForeignLogs({
      logs: node.logs,
      isReal: worker => node.isRealLog(worker),
      self,
      maxBytes: topology.resumeReplayBytes,
      keep: topology.resumeWindow,
      clock,
      metrics,
    })
    this.#entrance = new Entrance({
      self,
      listeners: this.#listeners,
      reader: this.#reader,
      homes: this.#homes,
      foreign: this.#foreign,
      records,
      streams: () => node.streams,
      logs: node.logs,
      bus: node.bus,
      storage,
      verify: token => options.tokens.verify(token),
      isLiving: worker => node.membership.isLiving(worker),
      gatewayUrl: options.gatewayUrl,
      connectionsPerUser: options.limited ? topology.connectionsPerUser : undefined,
      identifyAtOnce: topology.identifyAtOnce,
      identifyQueue: topology.identifyQueue,
      clock,
      log,
      metrics,
    })
    this.#stream = new Stream({
      listeners: this.#listeners,
      reader: this.#reader,
      homes: this.#homes,
      giveUp: session => this.#entrance.end(session),
      slice: topology.publishSlice,
      budget: topology.socketBudget,
      clock,
      log,
      metrics,
    })
    this.#handlers = { ...typing({ ask: node.ask }) }
    this.#timers = [
      clock.every(1_000, () => this.#sweep()),
      clock.every(10_000, () => this.#homes.sweep()),
      clock.every(5_000, () => this.#identifies.clear()),
      // Records of living sessions are written anew long before they would lapse.
      clock.every(6 * 3_600_000, () => this.#saveAll()),
    ]
    records.onLoss(() => this.#afterFailOver())
    this.#listen()
  }

  /** The position that live sessions stand at; the log is read from here on. */
  begin(position: number): void {
    this.#listeners.position = position
  }

  /** New pieces of the worker's log, in order. */
  takeItems(items: readonly LogItem[]): void {
    this.#stream.take(items)
  }

  /** Whether everything that was read is sent or waits for slow sockets only. */
  get settled(): boolean {
    return this.#stream.behind === 0
  }

  /** How many connections became WebSockets, ever. */
  get upgrades(): number {
    return this.#upgrades
  }

  /** The homes whose events this worker's log takes, with the row from which it holds them. */
  servedHomes(shards: ReadonlySet<number>): [home: Snowflake, from: number][] {
    return this.#homes.of(shards)
  }

  get connections(): number {
    return this.#connections.size
  }

  /** Sends everybody elsewhere: RECONNECT in waves, then 1012; the sessions can be resumed. */
  async drain(wave = 250, pause = 20): Promise<void> {
    this.#draining = true
    const everybody = [...this.#connections]
    for (let i = 0; i < everybody.length; i += wave) {
      for (const connection of everybody.slice(i, i + wave)) {
        if (connection.closed) continue
        if (connection.session)
          this.#listeners.sendPayload(connection, plainFrame(connection.encoding, "RECONNECT", null))
        this.#listeners.close(connection, "service_restart")
      }
      await this.#options.clock.sleep(pause)
    }
  }

  stop(): void {
    this.#draining = true
    for (const timer of this.#timers) timer.stop()
    for (const connection of this.#connections) this.#listeners.close(connection, "service_restart")
  }

  #listen(): void {
    const { app, topology, metrics } = this.#options
    app.ws<Connection>("/gateway", {
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
        this.#listeners.sendPayload(
          connection,
          plainFrame(connection.encoding, "HELLO", { heartbeat_interval: topology.heartbeatInterval }),
        )
      },
      message: (ws, message, isBinary) => this.#receive(ws.getUserData(), message, isBinary),
      drain: ws => {
        const connection = ws.getUserData()
        try {
          if (connection.session) this.#reader.drained(connection.session)
        } catch (error) {
          this.#refuse(connection, error, this.#options.log)
        }
      },
      dropped: ws => {
        this.#listeners.holed.add(ws.getUserData())
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
    const encoding: Encoding = req.getQuery("encoding") === "msgpack" ? "msgpack" : "json"
    const peer = Buffer.from(res.getRemoteAddressAsText()).toString()
    const at = this.#options.clock.monotonic()
    const connection: Omit<Connection, "ws"> = {
      encoding,
      address: clientAddress(isIP(peer) ? peer : "", req.getHeader("x-forwarded-for")),
      session: undefined,
      busy: false,
      closed: false,
      openedAt: at,
      heartbeatAt: at,
      frames: 0,
      signals: 0,
      minuteStartedAt: at,
    }
    this.#upgrades++
    res.upgrade(connection, req.getHeader("sec-websocket-key"), "", req.getHeader("sec-websocket-extensions"), context)
  }

  #closed(ws: WebSocket<Connection>): void {
    const { metrics, records, log } = this.#options
    const connection = ws.getUserData()
    connection.closed = true
    this.#connections.delete(connection)
    metrics.gateway.connections.dec()
    const { session } = connection
    if (!session || session.connection !== connection) return
    this.#entrance.detach(session)
    records
      .disconnect(session.user, session.id)
      .catch((error: unknown) => log.warn({ err: error }, "connection not counted out"))
  }

  /** Nothing may leave this function: a throw in a handler ends the process. */
  #receive(connection: Connection, message: ArrayBuffer, isBinary: boolean): void {
    const { topology, log } = this.#options
    try {
      const frame = readFrame(message, isBinary, connection.encoding, topology.maxFrameBytes)
      if (!frame) return
      const { op, beforeIdentify, counts } = opcodes[frame.op]
      this.#options.metrics.gateway.framesIn.of(op).inc()
      if (counts === "frames") this.#countFrame(connection)
      else if (counts === "signals" && this.#isTooMuch(connection)) return
      if (!beforeIdentify && !connection.session) throw new FrameRefused("not_authenticated")
      this.#act(connection, frame.op, frame.d)
    } catch (error) {
      this.#refuse(connection, error, log)
    }
  }

  #act(connection: Connection, op: ClientOp, d: unknown): void {
    switch (op) {
      case "HEARTBEAT":
        return this.#heartbeat(connection)
      case "IDENTIFY":
        return this.#enter(connection, () => {
          this.#countIdentify(d)
          return this.#entrance.identify(connection, d)
        })
      case "RESUME":
        return this.#enter(connection, () => this.#entrance.resume(connection, d))
      default: {
        const handler = this.#handlers[op]
        if (!handler) throw new FrameRefused("unknown_opcode")
        const done = handler(connection.session!, d)
        if (done)
          done.catch((error: unknown) => {
            if (error instanceof Failure || isPassing(error)) return
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
      .catch((error: unknown) => this.#options.log.error({ err: error }, "gateway fault"))
  }

  #refuse(connection: Connection, error: unknown, log: Log): void {
    if (error instanceof FrameRefused) return this.#listeners.close(connection, error.close)
    if (isPassing(error)) return this.#listeners.close(connection, "try_again_later")
    log.error({ err: error }, "gateway fault")
    this.#listeners.close(connection, "unknown_error")
  }

  /** The answer carries the position when nothing else has for a while, so that a quiet session can be resumed. */
  #heartbeat(connection: Connection): void {
    connection.heartbeatAt = this.#options.clock.monotonic()
    const { session } = connection
    const ack = plainFrame(connection.encoding, "HEARTBEAT_ACK")
    if (
      session?.state !== "live" ||
      this.#options.clock.monotonic() - this.#listeners.lastSentAt(session) < this.#options.topology.positionAfter
    )
      return this.#listeners.sendPayload(connection, ack)
    connection.ws.cork(() => {
      this.#listeners.sendPayload(connection, ack)
      this.#listeners.send(session, new Frame(sessionPosition.name, this.#listeners.position, "{}"))
    })
  }

  #countFrame(connection: Connection): void {
    this.#beginMinute(connection)
    if (++connection.frames > this.#options.topology.framesPerMinute && this.#options.limited)
      throw new FrameRefused("rate_limited")
  }

  /** Voice signals are ephemeral: what is too much is ignored. */
  #isTooMuch(connection: Connection): boolean {
    this.#beginMinute(connection)
    return ++connection.signals > this.#options.topology.signalsPerMinute && this.#options.limited
  }

  #beginMinute(connection: Connection): void {
    const at = this.#options.clock.monotonic()
    if (at - connection.minuteStartedAt < 60_000) return
    connection.minuteStartedAt = at
    connection.frames = 0
    connection.signals = 0
  }

  #countIdentify(d: unknown): void {
    // By digest: what strangers send may be long.
    const token = hash(
      "sha256",
      typeof d === "object" && d !== null && "token" in d ? String(d.token) : "",
      "base64url",
    )
    const count = (this.#identifies.get(token) ?? 0) + 1
    this.#identifies.set(token, count)
    if (count > identifiesAtOnce && this.#options.limited) throw new FrameRefused("rate_limited")
  }

  #sweep(): void {
    const { topology, clock } = this.#options
    const silentSince = this.#options.clock.monotonic() - 2 * topology.heartbeatInterval
    for (const connection of this.#connections)
      if (connection.heartbeatAt < silentSince)
        this.#listeners.close(connection, connection.session ? "session_timed_out" : "not_authenticated")
    const detachedSince = clock.monotonic() - topology.resumeWindow
    for (const session of this.#listeners.byId.values())
      if (session.state === "detached" && session.progressAt < detachedSince) this.#entrance.end(session)
    this.#reader.sweep()
    this.#foreign.sweep()
  }

  /**
   * Other workers' logs may have lost pieces that were counted: where a session was before it came here is not known for
   * sure any more. Its own positions are.
   */
  #afterFailOver(): void {
    for (const session of this.#listeners.byId.values()) session.spans = session.spans.slice(-1)
    this.#saveAll()
  }

  #saveAll(): void {
    for (const session of this.#listeners.byId.values()) this.#entrance.save(session)
  }
}
