import { closes, defaultIntents, eventIntents, intents, opcodes, type Events as ContractEvents } from "./contract.ts"
import { defaultBackoff, waitMs } from "./backoff.ts"
import type { Backoff } from "./backoff.ts"
import { addressOf, textOf } from "./network.ts"

export type EventName = keyof ContractEvents

/** What `d` of each event holds. */
export type EventData<N extends EventName> = ContractEvents[N]

/** One frame as the server sent it. */
export interface ServerFrame {
  op: number
  t?: string
  s?: number
  d?: unknown
}

/** One event (op 0). Narrow on `name` to know `data`. */
export type ReceivedEvent = { [N in EventName]: { name: N; data: EventData<N>; s: number } }[EventName]

/** What another in the same call sends: an offer, an answer, a candidate, or whether they speak (op 22 to 25). */
export type VoiceSignal = { channel_id: string; user_id: string } & (
  | { kind: "offer" | "answer"; sdp: string; session_id: string }
  | { kind: "candidate"; candidate: string; sdpMid: string | null; sdpMLineIndex: number | null }
  | { kind: "speaking"; speaking: boolean }
)

export interface GatewayClose {
  code: number
  reason: string
  /** The client comes back by itself, after a wait. */
  willReconnect: boolean
}

/** What `on` can name beside the events of the contract. */
export interface LifeEvents {
  /** Every event, before its own handlers. */
  dispatch: ReceivedEvent
  ready: EventData<"READY">
  resumed: { seq: number }
  invalid_session: undefined
  /** `d` of SERVER_STATUS (op 12). */
  status: unknown
  voice: VoiceSignal
  close: GatewayClose
  /** A connection that failed, or a handler. */
  error: Error
}
type Events = { [N in EventName]: EventData<N> } & LifeEvents

export type GatewayState = "idle" | "connecting" | "identifying" | "resuming" | "live" | "waiting" | "closed"

/** As much of a WebSocket as we use; a browser's has it, and that of the package `ws`. */
export interface GatewaySocket {
  binaryType: string
  onopen: ((event: never) => void) | null
  onmessage: ((message: never) => void) | null
  onclose: ((close: never) => void) | null
  onerror: ((failure: never) => void) | null
  send(data: string | Uint8Array<ArrayBuffer>): void
  close(code?: number, reason?: string): void
  /** Node only: ends the connection without a close frame. */
  terminate?(): void
  pause?(): void
  resume?(): void
}
export type GatewaySocketClass = new (url: string) => GatewaySocket

export interface GatewayOptions {
  /**
   * The server's origin (`http`, `https`, `ws` or `wss`); `/gateway` is added where there is no
   * path.
   */
  url: string
  /** Of a session or of a bot, with or without `Bot ` before it. */
  token: string
  /** Left out: `defaultIntents`. A store adds those that it needs. */
  intents?: number
  encoding?: "json" | "msgpack"
  /**
   * Ask for compressed frames: a third of the bytes for some CPU. Default: false. Node only: a
   * browser has nothing that inflates a frame at once.
   */
  compress?: boolean
  /** Default: true. */
  autoReconnect?: boolean
  backoff?: Partial<Backoff>
  /** From connecting to HELLO. Default: 15 s. */
  connectTimeoutMs?: number
  /**
   * Sees every frame as it came, before anything acts on it. The tests hold it against the
   * contract.
   */
  onFrame?: (frame: ServerFrame) => void
  /** Keep events until `next`, `take` or `rest` asks for them, as tests do. Default: false. */
  keep?: boolean
  /** Default: the global one, else that of the package `ws`. */
  WebSocket?: GatewaySocketClass
  random?: () => number
}

/** The server closed for good, or the client was closed while somebody waited. */
export class GatewayError extends Error {
  override readonly name = "GatewayError"
  readonly code: number
  readonly reason: string
  constructor(code: number, reason: string) {
    super([`gateway closed: ${code}${reason && ` ${reason}`}`, adviceOn(code, reason)].filter(Boolean).join(": "))
    this.code = code
    this.reason = reason
  }
}

/** What a program, or who runs it, can do about a close that is for good. */
function adviceOn(code: number, reason: string): string | undefined {
  switch (code) {
    case 1000:
      return reason === "Resumed elsewhere" ? "another connection goes on with this session" : undefined
    case 1006:
      return reason === "" ? undefined : "is the server running, and is url its address?"
    case 4003:
      return "the server's operator has blocked this address"
    case 4004:
      return "sign in again; a bot gets a new token with resetBotToken, or in the page at /app under settings, Bots"
    case 4013:
      return "intents is a sum, such as intents.GUILDS + intents.GUILD_MESSAGES"
    case 4016:
    case 4017:
      return "ask getStatus() until its state is running, then connect again"
    default:
      return undefined
  }
}

interface Waiting {
  matches: (event: ReceivedEvent) => boolean
  resolve: (data: never) => void
  reject: (failure: Error) => void
}

/** 4010 to 4017 end a session, those that this server never sends included. */
function mayResume(code: number, reason: string): boolean {
  const known = closes.filter(([one]) => one === code)
  const entry = known.find(([, because]) => because === reason) ?? known[0]
  return entry ? entry[2] : !(code >= 4010 && code <= 4017)
}

const noHeartbeatAnswer = 4900
const asked = 4901

/**
 * One gateway session, over as many connections as it takes. It keeps:
 *   CLIENT1  `seq` never falls within a session, and is what RESUME names, so the server knows what is missing.
 *   CLIENT2  After a lost connection it resumes; it identifies anew only when the server says that the session is gone.
 *   CLIENT3  A dead connection is noticed: a heartbeat that is not answered before the next is due ends it.
 *   CLIENT4  Every wait has jitter, so that clients do not reconnect together.
 *   CLIENT5  It resumes where READY says, and at the URL that it was given when the first dial there brings no HELLO.
 */
export class GatewayClient {
  readonly #options: GatewayOptions
  readonly #backoff: Backoff
  readonly #random: () => number
  readonly #msgpack: boolean
  /** Loaded with the first connection that speaks MessagePack. */
  #codec: Codec | undefined
  #inflate: ((piece: Uint8Array) => Uint8Array) | undefined
  /** The connection's frames are pieces of a zlib stream from here on. */
  #isCompressed = false
  #url: string
  readonly #token: string
  #intents: number | undefined
  /** Where READY says that the session is to be resumed, until a dial there fails. */
  #resumeUrl: string | undefined

  #state: GatewayState = "idle"
  #socket: GatewaySocket | undefined
  /** Counts connections, so that a late call of an old one is recognized. */
  #connection = 0
  #attempt = 0
  #wasLive = false

  #sessionId: string | undefined
  #seq: number | undefined
  #user: EventData<"READY">["user"] | undefined

  #timer: ReturnType<typeof setTimeout> | undefined
  #heartbeatTimer: ReturnType<typeof setTimeout> | undefined
  #intervalMs = 0
  /** When each unanswered heartbeat left, with who waits for its answer. */
  #unanswered: { sentAt: number; resolve?: (ms: number) => void; reject?: (failure: Error) => void }[] = []

  readonly #handlers = new Map<string, Set<(data: never) => unknown>>()
  readonly #waiting = new Set<Waiting>()
  #kept: ReceivedEvent[] = []
  #connected: { resolve: () => void; reject: (failure: Error) => void }[] = []

  constructor(options: GatewayOptions) {
    this.#options = options
    this.#backoff = { ...defaultBackoff, ...options.backoff }
    this.#random = options.random ?? Math.random
    this.#msgpack = options.encoding === "msgpack"
    this.#url = gatewayUrl(options.url, options.encoding ?? "json")
    // A setting that is missing in the environment, whatever the types say.
    if (typeof options.token !== "string") throw new TypeError("token is missing: that of a bot or of a session")
    this.#token = options.token.trim()
    this.#intents = options.intents
  }

  get state(): GatewayState {
    return this.#state
  }
  get sessionId(): string | undefined {
    return this.#sessionId
  }
  /** The last `s`: RESUME would begin after it. */
  get seq(): number | undefined {
    return this.#seq
  }
  get user(): EventData<"READY">["user"] | undefined {
    return this.#user
  }

  /**
   * Connects. Done when READY or RESUMED is in; fails when the server refuses for good, or, without
   * `autoReconnect`, at the first failure.
   */
  connect(): Promise<void> {
    if (this.#state === "live") return Promise.resolve()
    const connected = this.#untilConnected()
    if (this.#state === "idle" || this.#state === "closed") this.#open()
    return connected
  }

  /**
   * Leaves the present connection without a goodbye and goes to `url` (default: the same) at once;
   * resumes if there is a session.
   */
  reconnect(url?: string): Promise<void> {
    if (url !== undefined) {
      this.#url = gatewayUrl(url, this.#options.encoding ?? "json")
      this.#resumeUrl = undefined
    }
    const connected = this.#untilConnected()
    this.#leave()?.terminate?.()
    this.#open()
    return connected
  }

  /** Ends it. The session stays resumable for the server's resume window: `connect()` resumes. */
  close(code = 1000, reason = ""): void {
    const socket = this.#leave()
    this.#state = "closed"
    this.#giveUp(new GatewayError(code, reason))
    socket?.close(code, reason)
  }

  /**
   * The network is gone: no close frame, neither side is told. Reconnects like after any loss,
   * unless `autoReconnect` is off. In a browser it can only close.
   */
  drop(): void {
    const socket = this.#leave()
    if (!socket) return
    if (socket.terminate) socket.terminate()
    else socket.close()
    this.#lost(1006, "dropped", true)
  }

  /** Node only: stops reading, as a slow reader would; `unpause` goes on. */
  pause(): void {
    this.#socket?.pause?.()
  }
  unpause(): void {
    this.#socket?.resume?.()
  }

  /** Op 40. */
  typing(channelId: string): void {
    this.send({ op: opcodes.TYPING_START, d: { channel_id: channelId } })
  }

  /** Sends a heartbeat now; done when it is answered, with the milliseconds that took. */
  heartbeatNow(): Promise<number> {
    return new Promise((resolve, reject) => {
      if (this.#socket && this.#state !== "connecting") this.#heartbeat(resolve, reject)
      else reject(new Error("not connected"))
    })
  }

  /**
   * Any frame, valid or not; a string or bytes go out as they are. For tests of what the server
   * refuses.
   */
  send(frame: object | string | Uint8Array<ArrayBuffer>): void {
    if (!this.#socket) throw new Error("not connected")
    if (typeof frame === "string" || frame instanceof Uint8Array) this.#socket.send(frame)
    else this.#socket.send(this.#codec ? this.#codec.encode(frame) : JSON.stringify(frame))
  }

  /** Adds to the intents of the session that begins with `connect`. */
  addIntents(mask: number): void {
    if (this.#state !== "idle") throw new Error("a session keeps its intents: make the store before you call connect()")
    this.#intents = (this.#intents ?? defaultIntents) | mask
  }

  /**
   * Calls `handler` for each; the answer ends that. What it throws, or its promise, goes to
   * `error`, and is uncaught where nobody listens there. An event that cannot come is refused: one
   * that does not exist, or whose intent is missing.
   */
  on<N extends keyof Events>(name: N, handler: (data: Events[N]) => unknown): () => void {
    if (!lifeEvents.has(name)) assertComes(name, this.#intents ?? defaultIntents)
    const handlers = this.#handlers.get(name) ?? new Set()
    this.#handlers.set(name, handlers.add(handler))
    return () => {
      handlers.delete(handler)
    }
  }

  /**
   * The next event of that name (for which `where` holds): with `keep` the oldest one that nobody
   * took, else one still to come.
   */
  next<N extends EventName>(
    name: N,
    { timeoutMs = 5_000, where = () => true }: { timeoutMs?: number; where?: (data: EventData<N>) => boolean } = {},
  ): Promise<EventData<N>> {
    const matches = (event: ReceivedEvent) => event.name === name && where(event.data as EventData<N>)
    const index = this.#kept.findIndex(matches)
    if (index >= 0) return Promise.resolve(this.#kept.splice(index, 1)[0]!.data as EventData<N>)

    return new Promise((resolve, reject) => {
      const end = () => {
        clearTimeout(timer)
        this.#waiting.delete(waiting)
      }
      const waiting: Waiting = {
        matches,
        resolve: (data: EventData<N>) => {
          end()
          resolve(data)
        },
        reject: failure => {
          end()
          reject(failure)
        },
      }
      const late = () => waiting.reject(new Error(`no ${name} in ${timeoutMs} ms (state: ${this.#state})`))
      const timer = setTimeout(late, timeoutMs)
      this.#waiting.add(waiting)
    })
  }

  /** The oldest kept event, removed. */
  take(): ReceivedEvent | undefined {
    return this.#kept.shift()
  }

  /** Every kept event, removed. READY and RESUMED are never among them. */
  rest(): ReceivedEvent[] {
    const kept = this.#kept
    this.#kept = []
    return kept
  }

  #untilConnected(): Promise<void> {
    return new Promise((resolve, reject) => this.#connected.push({ resolve, reject }))
  }

  #open(): void {
    clearTimeout(this.#timer)
    const connection = ++this.#connection
    this.#state = "connecting"
    this.#timer = setTimeout(() => {
      if (connection === this.#connection) this.#abandon(1006, "no HELLO in time")
    }, this.#options.connectTimeoutMs ?? 15_000)

    Promise.all([
      socketClass(this.#options),
      this.#options.compress ? import("./node-inflate.ts") : undefined,
      this.#msgpack ? (this.#codec ?? loadCodec()) : undefined,
    ])
      .then(([WebSocket, zlib, codec]) => {
        if (connection !== this.#connection) return
        this.#inflate = zlib?.inflatePiece
        this.#codec = codec
        this.#isCompressed = false
        this.#attach(new WebSocket(this.#resumeUrl ?? this.#url), connection)
      })
      .catch((cause: unknown) => {
        if (connection !== this.#connection) return
        this.#leave()
        const failure = cause instanceof Error ? cause : new Error(String(cause))
        this.#fail(failure)
        this.#giveUp(failure)
        this.#lost(1006, failure.message, false)
      })
  }

  #attach(socket: GatewaySocket, connection: number): void {
    this.#socket = socket
    socket.binaryType = "arraybuffer"
    // A property costs one call per frame, a listener a dispatch.
    /* oxlint-disable unicorn/prefer-add-event-listener */
    socket.onmessage = ({ data }: { data: string | ArrayBuffer | Uint8Array }) => {
      if (connection === this.#connection) this.#receive(data)
    }
    let cause = ""
    socket.onerror = (failure: { error?: unknown }) => {
      if (connection !== this.#connection) return
      // A browser says nothing about the cause; the close that follows is what we act on.
      const { error } = failure as { error?: Error & { code?: unknown } }
      cause = error ? textOf(error) : "no more is known"
      const told = new Error(`the connection to ${this.#url} failed: ${cause}`, { cause: error })
      this.#fail(Object.assign(told, error?.code !== undefined && { code: error.code }))
    }
    socket.onclose = ({ code, reason }: { code: number; reason: string }) => {
      if (connection !== this.#connection) return
      this.#leave()
      this.#lost(code, reason || cause, mayResume(code, reason))
    }
    /* oxlint-enable unicorn/prefer-add-event-listener */
  }

  /** Forgets the present connection: nothing that it still says counts. */
  #leave(): GatewaySocket | undefined {
    const socket = this.#socket
    this.#socket = undefined
    this.#connection++
    clearTimeout(this.#timer)
    clearTimeout(this.#heartbeatTimer)
    const unanswered = this.#unanswered
    this.#unanswered = []
    for (const { reject } of unanswered) reject?.(new Error("the connection ended before the heartbeat was answered"))
    return socket
  }

  /**
   * Gives up a connection that the server may still think alive. Waiting for its goodbye would cost
   * time.
   */
  #abandon(code: number, reason: string): void {
    const socket = this.#leave()
    if (socket?.terminate && code !== asked) socket.terminate()
    else socket?.close(code >= 4000 ? code : 1000, reason)
    this.#lost(code, reason, true, code === asked)
  }

  #lost(code: number, reason: string, resumable: boolean, isImmediate = false): void {
    const willReconnect = resumable && (this.#options.autoReconnect ?? true)
    if (!resumable) this.#forgetSession()
    if (this.#state === "connecting") this.#resumeUrl = undefined // CLIENT5
    this.#state = willReconnect ? "waiting" : "closed"
    const connection = this.#connection
    this.#emit("close", { code, reason, willReconnect })
    // A handler may have closed or reconnected meanwhile.
    if (connection !== this.#connection) return
    if (!willReconnect) {
      this.#giveUp(new GatewayError(code, reason))
      return
    }
    // Where nobody listens, a wrong address would be silence.
    if (this.#attempt === 0 && !this.#wasLive && !this.#hears("error") && !this.#hears("close"))
      console.warn(`@starling/client: the connection to ${this.#url} failed: ${reason || code}. Trying again.`)
    const wait = isImmediate && this.#attempt === 0 ? 0 : waitMs(this.#backoff, this.#attempt, this.#random) // CLIENT4
    this.#attempt++
    this.#timer = setTimeout(() => this.#open(), wait)
  }

  #receive(data: string | ArrayBuffer | Uint8Array): void {
    let frame: ServerFrame
    try {
      frame = (typeof data === "string" ? JSON.parse(data) : this.#decode(data)) as ServerFrame
    } catch (cause) {
      this.#fail(new Error("a frame cannot be decoded", { cause }))
      this.#abandon(4002, "Decode error")
      return
    }
    this.#options.onFrame?.(frame)
    switch (frame.op) {
      case opcodes.DISPATCH:
        this.#dispatch(frame)
        break
      case opcodes.HELLO:
        this.#hello(frame.d as { heartbeat_interval: number })
        break
      case opcodes.HEARTBEAT_ACK: {
        const heartbeat = this.#unanswered.shift()
        if (heartbeat) heartbeat.resolve?.(performance.now() - heartbeat.sentAt)
        break
      }
      case opcodes.RECONNECT:
        this.#abandon(asked, "Reconnecting")
        break
      case opcodes.INVALID_SESSION:
        this.#invalidSession(frame.d === true)
        break
      case opcodes.HEARTBEAT:
        this.#heartbeat()
        break
      case opcodes.VOICE_SDP_OFFER:
      case opcodes.VOICE_SDP_ANSWER:
      case opcodes.VOICE_ICE_CANDIDATE:
      case opcodes.VOICE_SPEAKING: {
        const kind = (["offer", "answer", "candidate", "speaking"] as const)[frame.op - opcodes.VOICE_SDP_OFFER]!
        this.#emit("voice", { ...(frame.d as VoiceSignal), kind } as VoiceSignal)
        break
      }
      case opcodes.SERVER_STATUS:
        this.#emit("status", frame.d)
        break
      default: // a newer server may say more than we know
    }
  }

  /** Each frame is inflated by itself: Starling's refer to nothing before themselves. */
  #decode(data: ArrayBuffer | Uint8Array): unknown {
    let bytes = data instanceof Uint8Array ? data : new Uint8Array(data)
    if (this.#inflate) {
      // The stream's header; neither of the encodings begins an object so.
      const begins = !this.#isCompressed && bytes[0] === 0x78
      if (begins) this.#isCompressed = true
      if (this.#isCompressed) {
        bytes = this.#inflate(begins ? bytes.subarray(2) : bytes)
      }
    }
    return this.#codec ? this.#codec.decode(bytes) : (JSON.parse(new TextDecoder().decode(bytes)) as unknown)
  }

  #hello({ heartbeat_interval: intervalMs }: { heartbeat_interval: number }): void {
    clearTimeout(this.#timer)
    this.#intervalMs = intervalMs
    this.#heartbeatTimer = setTimeout(() => this.#beat(), intervalMs * this.#random()) // CLIENT4
    this.#introduce()
  }

  #introduce(): void {
    const [token, intents] = [this.#token, this.#intents]
    const compress = this.#options.compress ? { compress: true } : {}
    if (this.#sessionId !== undefined && this.#seq !== undefined) {
      this.#state = "resuming"
      this.send({ op: opcodes.RESUME, d: { token, session_id: this.#sessionId, seq: this.#seq, ...compress } })
      return
    }
    this.#forgetSession()
    this.#state = "identifying"
    const properties = { os: "", browser: "starling", device: "" }
    this.send({
      op: opcodes.IDENTIFY,
      d: { token, properties, ...(intents !== undefined && { intents }), ...compress },
    })
  }

  #invalidSession(resumable: boolean): void {
    if (!resumable) this.#forgetSession()
    this.#emit("invalid_session", undefined)
    // 1 to 5 s by default: a server that lost its sessions must not meet all of them at once.
    const wait = this.#backoff.firstMs * (1 + 4 * this.#random())
    const connection = this.#connection
    this.#timer = setTimeout(() => {
      if (connection === this.#connection) this.#introduce()
    }, wait)
  }

  #dispatch(frame: ServerFrame): void {
    const { t, s, d } = frame
    if (typeof s === "number" && (this.#seq === undefined || s > this.#seq)) this.#seq = s // CLIENT1
    const event = { name: t, data: d, s } as ReceivedEvent
    if (event.name === "READY") {
      this.#sessionId = event.data.session_id
      this.#user = event.data.user
      this.#resumeUrl = this.#resumeUrlOf(event.data.resume_gateway_url)
      this.#arrived()
      this.#emit("ready", event.data)
    } else if (event.name === "RESUMED") {
      this.#arrived()
      this.#emit("resumed", { seq: event.s })
    }
    this.#emit("dispatch", event)
    this.#emit(event.name, event.data)

    for (const waiting of this.#waiting) {
      if (!waiting.matches(event)) continue
      waiting.resolve(event.data as never)
      return
    }
    if (this.#options.keep && event.name !== "READY" && event.name !== "RESUMED") this.#kept.push(event)
  }

  #arrived(): void {
    this.#state = "live"
    this.#wasLive = true
    this.#attempt = 0
    const connected = this.#connected
    this.#connected = []
    for (const { resolve } of connected) resolve()
  }

  #beat(): void {
    // Half the interval of grace, for a heartbeat that `heartbeatNow` has only just sent.
    const oldest = this.#unanswered[0]
    if (oldest && performance.now() - oldest.sentAt > this.#intervalMs / 2) {
      this.#abandon(noHeartbeatAnswer, "No heartbeat answer") // CLIENT3
      return
    }
    this.#heartbeat()
    this.#heartbeatTimer = setTimeout(() => this.#beat(), this.#intervalMs)
  }

  #heartbeat(resolve?: (ms: number) => void, reject?: (failure: Error) => void): void {
    this.#unanswered.push({ sentAt: performance.now(), ...(resolve && { resolve }), ...(reject && { reject }) })
    this.send({ op: opcodes.HEARTBEAT, d: this.#seq ?? null })
  }

  /** A token that went over TLS does not go over anything less. */
  #resumeUrlOf(url: unknown): string | undefined {
    if (typeof url !== "string" || !URL.canParse(url)) return undefined
    const { protocol } = new URL(url)
    if (protocol !== "wss:" && (protocol !== "ws:" || this.#url.startsWith("wss:"))) return undefined
    return gatewayUrl(url, this.#options.encoding ?? "json")
  }

  #forgetSession(): void {
    this.#sessionId = undefined
    this.#resumeUrl = undefined
    this.#seq = undefined
  }

  #giveUp(failure: Error): void {
    const connected = this.#connected
    this.#connected = []
    for (const { reject } of connected) reject(failure)
    for (const waiting of this.#waiting) waiting.reject(failure)
  }

  #fail(cause: unknown): void {
    this.#emit("error", cause instanceof Error ? cause : new Error(String(cause)))
  }

  /** A handler that fails keeps the event from no other one. */
  #emit<N extends keyof Events>(name: N, data: Events[N]): void {
    const handlers = this.#handlers.get(name)
    if (!handlers) return
    for (const handler of handlers)
      try {
        const done = handler(data as never)
        if (done instanceof Promise) done.catch((error: unknown) => this.#failedIn(name, error))
      } catch (error) {
        this.#failedIn(name, error)
      }
  }

  #failedIn(name: string, error: unknown): void {
    if (name !== "error" && this.#hears("error")) return this.#fail(error)
    // As if it had not been caught.
    queueMicrotask(() => {
      throw error
    })
  }

  #hears(name: keyof LifeEvents): boolean {
    return (this.#handlers.get(name)?.size ?? 0) > 0
  }
}

const lifeEvents: ReadonlySet<string> = new Set<keyof LifeEvents>([
  "dispatch",
  "ready",
  "resumed",
  "invalid_session",
  "status",
  "voice",
  "close",
  "error",
])

/** @param mask the session's intents */
function assertComes(name: string, mask: number): void {
  const needed = (eventIntents as Record<string, number | undefined>)[name]
  if (needed === undefined) {
    const alike = name.replaceAll(/(?<=[a-z])(?=[A-Z])/g, "_").toUpperCase()
    const hint = alike in eventIntents ? `: write ${alike}` : "; `dispatch` hears all that come"
    throw new TypeError(`there is no event ${name}${hint}`)
  }
  if (needed === 0 || (mask & needed) !== 0) return
  const names = Object.entries(intents).flatMap(([intent, bit]) => ((needed & bit) !== 0 ? [`intents.${intent}`] : []))
  throw new TypeError(`${name} does not come without its intent: add ${names.join(" or ")} to intents`)
}

function gatewayUrl(base: string, encoding: "json" | "msgpack"): string {
  const url = addressOf("url", base, "ws")
  if (url.pathname === "/") url.pathname = "/gateway"
  url.searchParams.set("encoding", encoding)
  return url.href
}

interface Codec {
  encode(frame: object): Uint8Array<ArrayBuffer>
  decode(bytes: Uint8Array): unknown
}

/** One decoder for the whole life: it remembers the keys that it has read. */
async function loadCodec(): Promise<Codec> {
  const { Decoder, encode } = await import("@msgpack/msgpack")
  const decoder = new Decoder()
  return { encode, decode: bytes => decoder.decode(bytes) }
}

/**
 * The global one of a browser, Deno, Bun or Node from 22 on; else that of the package `ws`. A page's
 * bundler leaves `ws` and `node-inflate.ts` out (`external`): there they are never asked for.
 */
async function socketClass(options: GatewayOptions): Promise<GatewaySocketClass> {
  if (options.WebSocket) return options.WebSocket
  const own = (globalThis as { WebSocket?: unknown }).WebSocket
  if (typeof own === "function") return own as GatewaySocketClass
  try {
    return (await import("ws")).WebSocket
  } catch (cause) {
    throw new Error("there is no WebSocket here: use Node 22 or later, or install the package ws", { cause })
  }
}
