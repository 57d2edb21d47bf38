import { isTransient } from "../runtime/transient.ts"
import { hash } from "node:crypto"
import { isIP } from "node:net"
import type { HttpRequest, HttpResponse, us_socket_context_t } from "uWebSockets.js"
import { gatewayPath } from "../contract/pages.ts"
import { Failure } from "../contract/core/errors.ts"
import type { Snowflake } from "../contract/core/fields.ts"
import { closeCodes, opcodes, type ClientOp } from "../contract/core/gateway-codes.ts"
import { formatAddress, withForwarded } from "../domain/core/client-address.ts"
import type { Timer } from "../std/clock.ts"
import { positionsPerMs, type LogItem } from "../domain/core/log-entry.ts"
import type { PresenceChange } from "../domain/core/presences.ts"
import { largest } from "../observability/holdings.ts"
import type { Counter } from "../observability/instruments.ts"
import type { Log } from "../observability/log.ts"
import { FrameLimits, IdentifyLimit, nothingSent } from "./protocol/frame-limits.ts"
import {
  FrameRefused,
  heartbeatAck,
  heartbeatIn,
  messageOf,
  plainFrame,
  readFrame,
  type ClientFrame,
  type PlainEncoding,
} from "./protocol/frames.ts"
import { HeldFrames } from "./protocol/held-frames.ts"
import { createParts, type GatewayOptions, type GatewayParts } from "./parts.ts"
import { wholeMs, type Connection, type Session, type Socket, type SocketData } from "./state/session.ts"
import { bareToken } from "./sessions/token-check.ts"
import { SocketsPerAddress } from "./sockets-per-address.ts"
import { drainPauseMs, forEachInBatches } from "./fan-out/drain.ts"

/** A client that has not identified may leave so many bytes of answers unread. */
const strangersUnread = 64 * 1024

/**
 * Seconds after which uWebSockets.js drops a connection of which nothing comes and to which nothing goes. One that lives sends
 * heartbeats, so it is one that was closed with bytes that its client has not taken: it is counted nowhere any more, and without
 * such a bound it would stay for as long as its client likes.
 */
const idleSeconds = (heartbeatIntervalMs: number): number => {
  const seconds = Math.max(8, Math.ceil((2 * heartbeatIntervalMs) / 1_000) + 4)
  return seconds > 960 ? 0 : seconds
}

/** Milliseconds between two clients that are asked how long a round trip takes: an answer that comes alone wakes the process. */
const pingEveryMs = 1_000
/** What tells the pong from those that clients send by themselves. */
const pinged = "rtt"

/** Bytes of the log that may wait to be sent to live sessions before no more is read. */
const maxBehindBytes = 8 * 1024 * 1024

/**
 * The WebSocket server: sockets, their heartbeats, and the limits on frames. The stream, the
 * catch-up reader and the subscriptions decide what sessions are sent.
 */
export class Gateway {
  readonly #options: GatewayOptions
  /** Whose last heartbeat is longest ago comes first, so that a look for silent ones ends early. */
  readonly #connections = new Set<Connection>()
  /** Those that had no session when last looked at, the oldest first. */
  readonly #strangers = new Set<Connection>()
  readonly #parts: GatewayParts
  readonly #timers: Timer[]
  readonly #limits: FrameLimits
  readonly #identifies = new IdentifyLimit()
  readonly #sockets: SocketsPerAddress
  #draining = false
  #upgrades = 0
  readonly #heartbeats: Counter
  /** Monotonic: when a client was last asked for a pong. */
  #pingedAt = -Infinity

  constructor(options: GatewayOptions) {
    this.#options = options
    const { topology, clock, records } = options
    const { maxPerAddress, maxUnidentifiedPerAddress } = topology.sockets
    const { isUnlimited } = options.policy
    this.#limits = new FrameLimits(topology.frames)
    this.#sockets = new SocketsPerAddress({ maxPerAddress, maxUnidentifiedPerAddress, isUnlimited })
    this.#heartbeats = options.metrics.gateway.framesIn.of(opcodes.HEARTBEAT.op)
    this.#parts = createParts(options, this.#connections, connection => this.#sockets.identified(connection))
    this.#timers = [
      clock.every(1_000, () => this.#sweep()),
      clock.every(10_000, () => this.#parts.homes.sweep()),
      clock.every(500, () => this.#parts.homes.sweepUsers()),
      // Records of sessions are written again long before they would expire.
      clock.every(6 * 3_600_000, () => this.#saveAll()),
    ]
    records.onLoss(() => this.#afterFailOver())
    options.node.signals.on("membersChanged", () => {
      if (records.takeUnreadable()) this.#saveAll()
    })
    options.metrics.holdings.show("gateway", () => this.#held())
    this.#listen()
  }

  #held() {
    const { subscriptions, stream } = this.#parts
    const { topology, metrics } = this.#options
    const { deliverySeconds } = metrics.gateway
    const states = { live: 0, reading: 0, detached: 0 }
    for (const session of subscriptions.byId.values()) states[session.state]++
    const slow = largest(readingOf(subscriptions.byId.values()), ({ connection }) => connection.ws.getBufferedAmount())
    return {
      connections: this.#connections.size,
      sessions: states,
      log: { waiting: stream.behind, waiting_bytes: stream.behindBytes, waiting_bytes_most: maxBehindBytes },
      messages: { delivered: deliverySeconds.count, seconds: deliverySeconds.sum },
      slow_sockets: slow.map(({ session, connection }) => ({
        buffered_bytes: connection.ws.getBufferedAmount(),
        buffered_bytes_most: topology.sockets.budgetBytes,
        behind_seconds: (subscriptions.position - session.cursor) / positionsPerMs / 1_000,
        encoding: connection.encoding,
        connected_seconds: Math.floor((wholeMs(this.#options.clock) - connection.openedAt) / 1_000),
      })),
    }
  }

  /** The position at which live sessions stand; the log is read from here on. */
  begin(position: number): void {
    this.#parts.subscriptions.position = position
  }

  /** Takes new items of the worker's log, in order. */
  takeItems(items: readonly LogItem[]): void {
    this.#parts.deliveries.take(items)
    this.#parts.stream.take(items)
  }

  /** The log is in another Redis: what was not read up to a position comes again, at later ones. */
  noteLogMoved(position: number): void {
    this.#parts.stream.noteMoved(position)
  }

  /** Takes changes of users' presence as this worker's sessions see it. */
  takePresences(changes: readonly PresenceChange[]): void {
    this.#parts.presences.take(changes)
  }

  /** A user has said over REST that they are typing. */
  noteTyping(user: Snowflake, channel: Snowflake): Promise<void> {
    return this.#parts.typing.said(user, channel)
  }

  /** Whether everything that was read is sent, or waits for slow sockets only. */
  get settled(): boolean {
    return this.#parts.stream.behind === 0 && this.#parts.presences.settled
  }

  /** Whether so much of the log waits to be sent that no more should be read. */
  get isFull(): boolean {
    return this.#parts.stream.behindBytes > maxBehindBytes
  }

  /** How many connections were upgraded to WebSockets since the start. */
  get upgrades(): number {
    return this.#upgrades
  }

  /** How many WebSockets have come and gone since the start, together. */
  get moves(): number {
    return 2 * this.#upgrades - this.#connections.size
  }

  /** The homes whose events this worker's log takes, with the row from which it holds them. */
  homeSubscriptions(shards: ReadonlySet<number>): [home: Snowflake, from: number][] {
    return this.#parts.homes.of(shards)
  }

  /** A worker was declared dead. */
  noteDeath(): void {
    this.#parts.voice.noteDeath()
  }

  get connections(): number {
    return this.#connections.size
  }

  /**
   * Sends everybody to other workers: RECONNECT in batches, then 1012. The sessions can be resumed.
   */
  async drain(): Promise<void> {
    this.#draining = true
    const { clock, topology } = this.#options
    const everybody = [...this.#connections]
    await forEachInBatches(everybody, drainPauseMs(everybody.length, topology.drain), clock, connection => {
      if (connection.session)
        this.#parts.subscriptions.sendPayload(connection, plainFrame(connection.encoding, "RECONNECT", null))
      this.#parts.subscriptions.close(connection, "service_restart")
    })
  }

  stop(): void {
    this.#draining = true
    this.#parts.voice.stop()
    for (const timer of this.#timers) timer.stop()
    this.#parts.presences.stop()
    this.#parts.watches.stop()
    this.#parts.deliveries.stop()
    for (const connection of this.#connections) this.#parts.subscriptions.close(connection, "service_restart")
  }

  #listen(): void {
    const { app, topology, metrics } = this.#options
    const helloIn = (encoding: PlainEncoding) =>
      plainFrame(encoding, "HELLO", { heartbeat_interval: topology.heartbeatIntervalMs })
    const hello = { json: helloIn("json"), msgpack: helloIn("msgpack") }
    app.ws<SocketData>(gatewayPath, {
      // uWebSockets.js keeps what has come of a frame, and drops the connection of one that is
      // larger. Of a frame that is one byte too large the client learns why it is closed.
      maxPayloadLength: topology.frames.maxBytes + 1,
      // A live socket is given at most one slice above its budget before it is checked, so no frame
      // for it is refused.
      maxBackpressure: topology.sockets.budgetBytes + 512 * 1024,
      closeOnBackpressureLimit: 0,
      idleTimeout: idleSeconds(topology.heartbeatIntervalMs),
      sendPingsAutomatically: false,
      compression: 0,
      upgrade: (res, req, context) => {
        // An exception in a handler ends the process.
        try {
          this.#upgrade(res, req, context)
        } catch (error) {
          this.#options.log.error({ err: error }, "upgrade failed")
          res.close()
        }
      },
      open: ws => {
        const connection = connectionOf(ws)
        connection.ws = ws
        this.#connections.add(connection)
        this.#strangers.add(connection)
        metrics.gateway.connections.inc()
        this.#parts.subscriptions.sendPayload(connection, hello[connection.plainEncoding])
        const refusal = this.#parts.notices.refusal()
        if (refusal) this.#parts.subscriptions.close(connection, refusal)
      },
      message: (ws, message, isBinary) => this.#receive(connectionOf(ws), message, isBinary),
      // uWebSockets.js answers pings by itself.
      ping: ws => this.#controlled(connectionOf(ws)),
      pong: (ws, message) => {
        const connection = connectionOf(ws)
        this.#controlled(connection)
        this.#ponged(connection, message)
      },
      drain: ws => {
        const connection = connectionOf(ws)
        try {
          if (connection.session) this.#parts.reader.drained(connection.session)
          callOnDrain(connection)
        } catch (error) {
          this.#refuse(connection, error, this.#options.log)
        }
      },
      dropped: ws => {
        this.#parts.subscriptions.holed.add(connectionOf(ws))
      },
      close: ws => this.#closed(ws),
    })
  }

  #upgrade(res: HttpResponse, req: HttpRequest, context: us_socket_context_t): void {
    const { allowedOrigins, clientAddress, gatewayUrl, tokenBinding } = this.#options.policy
    // The only version that there is (RFC 6455).
    if (req.getHeader("sec-websocket-version") !== "13") {
      res.writeStatus("426 Upgrade Required").writeHeader("Sec-WebSocket-Version", "13").end("WebSocket version 13")
      return
    }
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
    // `getHeader` returns only the first line of a header.
    let forwardedFor: string | undefined
    req.forEach((name, value) => {
      if (name === "x-forwarded-for") forwardedFor = withForwarded(forwardedFor, value)
    })
    const client = clientAddress(isIP(peer) ? peer : "", forwardedFor)
    const address = formatAddress(client)
    if (this.#parts.notices.isBlocked(address)) {
      res.writeStatus("403 Forbidden").end(closeCodes.ip_blocked.reason)
      return
    }
    const counted = this.#sockets.take(client)
    if ("full" in counted) {
      this.#options.metrics.http.overload[counted.full].inc()
      res.writeStatus("429 Too Many Requests").writeHeader("Retry-After", "5").end("Too many connections")
      return
    }
    const at = wholeMs(this.#options.clock)
    const { holder } = counted
    const connection: Connection = {
      // Set as soon as it is open.
      ws: undefined as never,
      plainEncoding: encoding,
      encoding,
      address,
      gatewayUrl: gatewayUrl(peer, {
        host: req.getHeader("host"),
        forwardedHost: req.getHeader("x-forwarded-host"),
        forwardedProto: req.getHeader("x-forwarded-proto"),
      }),
      // One text for both.
      holder: holder === address ? address : holder,
      isStranger: true,
      userAgent: tokenBinding ? req.getHeader("user-agent") : "",
      session: undefined,
      busy: false,
      held: undefined,
      wasRefused: false,
      onDrain: undefined,
      closed: false,
      openedAt: at,
      heartbeatAt: at,
      pingedAt: undefined,
      sent: nothingSent(at),
    }
    this.#upgrades++
    res.upgrade(
      { connection } satisfies SocketData,
      req.getHeader("sec-websocket-key"),
      "",
      req.getHeader("sec-websocket-extensions"),
      context,
    )
  }

  #closed(ws: Socket): void {
    const { metrics, records, node, log } = this.#options
    const connection = connectionOf(ws)
    connection.closed = true
    this.#sockets.closed(connection)
    callOnDrain(connection)
    this.#connections.delete(connection)
    this.#strangers.delete(connection)
    metrics.gateway.connections.dec()
    const { session } = connection
    if (!session || session.connection !== connection) return
    this.#parts.sessions.detach(session)
    records
      .disconnect(session.user, session.id, node.membership.self.id)
      .then(workers => {
        const others = workers.filter(worker => node.membership.isLiving(worker))
        this.#parts.typing.ended(session.user, others)
      })
      .catch((error: unknown) => log.warn({ err: error }, "connection count not decreased"))
  }

  /** No exception may leave this function: in a handler it ends the process. */
  #receive(connection: Connection, message: ArrayBuffer, isBinary: boolean): void {
    const { topology, policy, clock, log } = this.#options
    const { sent } = connection
    try {
      const now = clock.monotonic()
      this.#countFrame(connection, now)
      const heartbeat = isBinary ? undefined : heartbeatIn(message)
      if (heartbeat !== undefined) {
        this.#heartbeats.inc()
        return this.#heartbeat(connection, heartbeat, now)
      }
      const { bytes, wasCompressed } = messageOf(message, isBinary, topology.frames)
      if (wasCompressed && this.#limits.inflated(sent, bytes.byteLength, clock.monotonic()) && policy.limited)
        throw new FrameRefused("rate_limited")
      const frame = readFrame(bytes, isBinary, connection.plainEncoding)
      if (!frame) return
      const { op, beforeIdentify, counts } = opcodes[frame.op]
      this.#options.metrics.gateway.framesIn.of(op).inc()
      if (counts === "frames" && this.#limits.frame(sent, clock.monotonic()) && policy.limited)
        throw new FrameRefused("rate_limited")
      // Voice signals are ephemeral: those above the limit are ignored.
      if (counts === "signals" && this.#limits.signal(sent, clock.monotonic()) && policy.limited) return
      if (beforeIdentify) return this.#act(connection, frame.op, frame.d)
      if (connection.busy) return this.#hold(connection, frame, bytes.byteLength)
      if (connection.session) return this.#act(connection, frame.op, frame.d)
      if (!connection.wasRefused) throw new FrameRefused("not_authenticated")
    } catch (error) {
      this.#refuse(connection, error, log)
    }
  }

  #controlled(connection: Connection): void {
    try {
      this.#countFrame(connection, this.#options.clock.monotonic())
    } catch (error) {
      this.#refuse(connection, error, this.#options.log)
    }
  }

  /** Asks for the time of a round trip, one client at a time and few of them: they answer by themselves. */
  #ping(connection: Connection, now: number): void {
    if (now - this.#pingedAt < pingEveryMs) return
    this.#pingedAt = now
    connection.pingedAt = now
    connection.ws.ping(pinged)
  }

  #ponged(connection: Connection, message: ArrayBuffer): void {
    const { pingedAt } = connection
    if (pingedAt === undefined || message.byteLength !== pinged.length) return
    connection.pingedAt = undefined
    const { clock, metrics } = this.#options
    metrics.gateway.roundTripSeconds.observe((clock.monotonic() - pingedAt) / 1000)
  }

  #countFrame({ sent }: Connection, now: number): void {
    const { policy } = this.#options
    if (this.#limits.any(sent, now) && policy.limited) throw new FrameRefused("rate_limited")
  }

  #act(connection: Connection, op: ClientOp, d: unknown): void {
    switch (op) {
      case "HEARTBEAT":
        return this.#heartbeat(connection, d, this.#options.clock.monotonic())
      case "IDENTIFY":
        return this.#enter(connection, () => {
          this.#countIdentify(d)
          return this.#parts.identify.identify(connection, d)
        })
      case "RESUME":
        return this.#enter(connection, () => this.#parts.resume.resume(connection, d))
      default: {
        const done = this.#parts.handlers[op](connection.session!, d)
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
    const over = () => {
      connection.busy = false
      this.#actOnHeld(connection)
    }
    action()
      .then(over, (error: unknown) => {
        this.#refuse(connection, error, this.#options.log)
        over()
      })
      .catch((error: unknown) => this.#options.log.error({ err: error }, "gateway error"))
  }

  #hold(connection: Connection, frame: ClientFrame, bytes: number): void {
    connection.held ??= new HeldFrames()
    if (!connection.held.hold(frame, bytes)) throw new FrameRefused("rate_limited")
  }

  /** Where there is no session they are dropped: the client was told, and may identify on this connection. */
  #actOnHeld(connection: Connection): void {
    const { held = [] } = connection
    connection.held = undefined
    connection.wasRefused = connection.session === undefined
    for (const { op, d } of held) {
      if (connection.closed || !connection.session) return
      try {
        this.#act(connection, op, d)
      } catch (error) {
        this.#refuse(connection, error, this.#options.log)
      }
    }
  }

  #refuse(connection: Connection, error: unknown, log: Log): void {
    if (error instanceof FrameRefused) return this.#parts.subscriptions.close(connection, error.close)
    if (isTransient(error)) return this.#parts.subscriptions.close(connection, "try_again_later")
    log.error({ err: error }, "gateway error")
    this.#parts.subscriptions.close(connection, "unknown_error")
  }

  /**
   * The answer carries the position if no other frame has done so for a while, so that a quiet
   * session can be resumed. uWebSockets.js writes both at once, as all that is sent while it hands a frame over.
   */
  #heartbeat(connection: Connection, d: unknown, now: number): void {
    const { subscriptions, deliveries } = this.#parts
    connection.heartbeatAt = Math.floor(now)
    this.#connections.delete(connection)
    this.#connections.add(connection)
    const { session } = connection
    if (!session && connection.ws.getBufferedAmount() > strangersUnread) throw new FrameRefused("rate_limited")
    if (session) {
      deliveries.named(session, d)
      this.#ping(connection, now)
    }
    subscriptions.sendPayload(connection, heartbeatAck[connection.encoding])
    if (session?.state === "live" && subscriptions.isQuietSince(session, now - this.#options.topology.positionAfterMs))
      subscriptions.sendPosition(session)
  }

  #countIdentify(d: unknown): void {
    const { policy, clock } = this.#options
    if (typeof d !== "object" || d === null || !("token" in d) || typeof d.token !== "string" || d.token === "") return
    // The same token has the same digest, whatever stands in front of it.
    const token = hash("sha256", bareToken(d.token), "base64url")
    if (this.#identifies.isTooMuch(token, clock.monotonic()) && policy.limited) throw new FrameRefused("rate_limited")
  }

  #sweep(): void {
    const { topology, clock } = this.#options
    this.#closeSilent(clock.monotonic() - 2 * topology.heartbeatIntervalMs)
    this.#closeStrangers(clock.monotonic() - Math.min(topology.identify.timeoutMs, 2 * topology.heartbeatIntervalMs))
    this.#parts.stream.closeHoled()
    this.#parts.sessions.endDetached(clock.monotonic() - topology.resumeWindowMs)
    this.#parts.reader.sweep()
    this.#parts.peerLogs.sweep()
    this.#parts.typing.sweep()
    this.#parts.presences.sweep()
    this.#identifies.sweep(clock.monotonic())
  }

  #closeSilent(since: number): void {
    for (const connection of this.#connections) {
      if (connection.heartbeatAt >= since) return
      this.#parts.subscriptions.close(connection, connection.session ? "session_timed_out" : "not_authenticated")
    }
  }

  /** A connection that only sends heartbeats, or a frame that never ends, is closed, too. */
  #closeStrangers(since: number): void {
    for (const connection of this.#strangers) {
      if (connection.session) this.#strangers.delete(connection)
      else if (connection.openedAt >= since) return
      else if (!connection.busy) this.#parts.subscriptions.close(connection, "not_authenticated")
    }
  }

  /**
   * Other workers' logs may have lost items that were counted, so the spans of a session before it
   * came here are uncertain. Positions of this worker's own log are certain.
   */
  #afterFailOver(): void {
    for (const session of this.#parts.subscriptions.byId.values()) session.spans = session.spans.slice(-1)
    this.#saveAll()
  }

  /**
   * Counts of a user's connections are written along with the records: they expire and can be lost
   * in the same way.
   */
  #saveAll(): void {
    for (const session of this.#parts.subscriptions.byId.values()) {
      this.#parts.sessions.save(session)
      if (session.connection) this.#parts.sessions.countAgain(session)
    }
  }
}

const connectionOf = (ws: Socket): Connection => ws.getUserData().connection

function callOnDrain(connection: Connection): void {
  const { onDrain } = connection
  connection.onDrain = undefined
  onDrain?.()
}

/** Sessions that read at their own pace, on sockets that are open. */
function* readingOf(sessions: Iterable<Session>): Iterable<{ session: Session; connection: Connection }> {
  for (const session of sessions) {
    const { state, connection } = session
    if (state === "reading" && connection && !connection.closed) yield { session, connection }
  }
}
