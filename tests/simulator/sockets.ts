import type { TemplatedApp } from "uWebSockets.js"
import type { Actor, Timeline } from "./timeline.ts"

/** What a client has of its socket. */
export interface ClientSocket {
  send(frame: unknown): void
  /** Ends the connection as a broken network does: the server may not notice for a while. */
  cut(): void
}

export interface ClientHandlers {
  onFrame(frame: { op: number; t?: string; s?: number; d: unknown }): void
  onClose(code: number): void
}

/** The program's handlers, as far as they are called here. They answer nothing. */
interface Handlers {
  readonly upgrade: (res: unknown, req: unknown, context: unknown) => void
  readonly open: (socket: Socket) => void
  readonly message: (socket: Socket, bytes: ArrayBuffer, isBinary: boolean) => void
  readonly drain: (socket: Socket) => void
  readonly close: (socket: Socket) => void
}

interface Sent {
  readonly payload: string
}

/** Bytes that the kernel takes before the program sees any as unsent. */
const kernelBytes = 4_096

/**
 * One worker's uWebSockets.js, without a network: topics, back-pressure, drain, and close handlers that run inside `end`.
 * Frames take a while, keep their order, and are lost with their connection.
 */
export class SimulatedApp {
  readonly #timeline: Timeline
  readonly #server: Actor
  readonly #topics = new Map<string, Set<Socket>>()
  readonly sockets = new Set<Socket>()
  #handlers: Handlers | undefined
  isListening = false

  constructor(timeline: Timeline, server: Actor) {
    this.#timeline = timeline
    this.#server = server
  }

  /** As the program takes it. */
  get app(): TemplatedApp {
    const app = {
      ws: (_path: string, handlers: Handlers) => {
        this.#handlers = handlers
        return app
      },
      publish: (topic: string, payload: string) => {
        for (const socket of this.#topics.get(topic) ?? []) socket.send(payload)
        return true
      },
    }
    return app as unknown as TemplatedApp
  }

  /** A client comes. It sees nothing but silence from a process that is dead or paused. */
  connect(client: Actor, handlers: ClientHandlers): ClientSocket {
    const timeline = this.#timeline
    const socket = new Socket({ timeline, server: this.#server, client, handlers, app: this })
    timeline.after(timeline.between(0.1, 2), this.#server, () => {
      if (!this.isListening || socket.isCut) return socket.refused()
      const { upgrade, open } = this.handlers
      upgrade(
        {
          writeStatus: () => ({ writeHeader: () => ({ end: () => socket.refused() }), end: () => socket.refused() }),
          getRemoteAddressAsText: () => new TextEncoder().encode("127.0.0.1").buffer,
          close: () => socket.refused(),
          upgrade: (data: unknown) => {
            socket.data = data
            this.sockets.add(socket)
            open(socket)
          },
        },
        {
          getHeader: (name: string) => (name === "sec-websocket-version" ? "13" : ""),
          getQuery: () => "",
          forEach: () => {},
        },
        undefined,
      )
    })
    return socket.ofClient
  }

  get handlers(): Handlers {
    return this.#handlers!
  }

  subscribe(topic: string, socket: Socket): void {
    const sockets = this.#topics.get(topic)
    if (sockets) sockets.add(socket)
    else this.#topics.set(topic, new Set([socket]))
  }

  unsubscribe(topic: string, socket: Socket): void {
    this.#topics.get(topic)?.delete(socket)
  }

  gone(socket: Socket): void {
    this.sockets.delete(socket)
    for (const sockets of this.#topics.values()) sockets.delete(socket)
  }

  /** The process has ended: the kernel resets what was open. */
  processEnded(): void {
    this.isListening = false
    for (const socket of this.sockets) socket.serverGone()
    this.sockets.clear()
  }
}

interface SocketOptions {
  readonly timeline: Timeline
  readonly server: Actor
  readonly client: Actor
  readonly handlers: ClientHandlers
  readonly app: SimulatedApp
}

class Socket {
  readonly #options: SocketOptions
  data: unknown
  isCut = false
  #closed = false
  #unsent: Sent[] = []
  #unsentBytes = 0
  #flowing = false
  #arrivesAt = 0
  #leavesAt = 0
  /** Milliseconds that one frame takes; a slow reader's are long. */
  readonly pace: () => number

  constructor(options: SocketOptions) {
    this.#options = options
    this.pace = () => (options.client as { pace?: number }).pace ?? 0
  }

  readonly ofClient: ClientSocket = {
    send: frame => this.#toServer(JSON.stringify(frame)),
    cut: () => this.#cut(),
  }

  // What the program calls.

  getUserData(): unknown {
    return this.data
  }

  cork(action: () => void): void {
    action()
  }

  /** Clients here answer none: how long a round trip takes decides nothing. */
  ping(): number {
    return 1
  }

  getBufferedAmount(): number {
    return Math.max(0, this.#unsentBytes - kernelBytes)
  }

  subscribe(topic: string): boolean {
    this.#options.app.subscribe(topic, this)
    return true
  }

  unsubscribe(topic: string): boolean {
    this.#options.app.unsubscribe(topic, this)
    return true
  }

  send(payload: string): number {
    // What a process still does in the step of its end goes nowhere.
    if (this.#options.server.dead) return 1
    if (this.#closed) throw new Error("a closed socket was used")
    this.#unsent.push({ payload })
    this.#unsentBytes += payload.length
    if (!this.#flowing) this.#flow()
    return this.getBufferedAmount() > 0 ? 0 : 1
  }

  end(code: number): void {
    if (this.#options.server.dead) return
    if (this.#closed) throw new Error("a closed socket was used")
    const { timeline, client, handlers } = this.#options
    // What was sent before arrives before.
    const frames = this.#unsent.splice(0)
    if (!this.isCut) {
      for (const { payload } of frames) this.#deliver(payload)
      this.#arrivesAt = Math.max(this.#arrivesAt, timeline.now + timeline.between(0.1, 2))
      timeline.at(this.#arrivesAt, client, () => {
        if (this.isCut) return
        this.isCut = true
        handlers.onClose(code)
      })
    }
    this.#closeHere()
  }

  // What happens to it.

  refused(): void {
    const { timeline, client, handlers } = this.#options
    timeline.after(timeline.between(0.1, 2), client, () => {
      if (this.isCut) return
      this.isCut = true
      handlers.onClose(1006)
    })
  }

  serverGone(): void {
    this.#closed = true
    this.refused()
  }

  #closeHere(): void {
    if (this.#closed) return
    this.#closed = true
    this.#options.app.gone(this)
    this.#options.app.handlers.close(this)
  }

  /** The client is gone; the server hears of it soon, late, or when it writes. */
  #cut(): void {
    if (this.isCut) return
    this.isCut = true
    const { timeline, server } = this.#options
    const delay = timeline.chance(0.3) ? timeline.between(500, 3_000) : timeline.between(0.1, 2)
    timeline.after(delay, server, () => {
      if (this.data !== undefined) this.#closeHere()
    })
  }

  #flow(): void {
    const { timeline, server, app } = this.#options
    this.#flowing = true
    const slow = this.pace()
    if (slow === 0) {
      for (const { payload } of this.#unsent.splice(0)) this.#deliver(payload)
      this.#unsentBytes = 0
      this.#flowing = false
      return
    }
    timeline.after(slow, server, () => {
      this.#flowing = false
      const next = this.#unsent.shift()
      if (!next || this.#closed) return
      this.#unsentBytes -= next.payload.length
      this.#deliver(next.payload)
      if (this.#unsent.length > 0) this.#flow()
      if (this.getBufferedAmount() === 0) app.handlers.drain(this)
    })
  }

  #deliver(payload: string): void {
    const { timeline, client, handlers } = this.#options
    this.#arrivesAt = Math.max(this.#arrivesAt, timeline.now + timeline.between(0.1, 2))
    timeline.at(this.#arrivesAt, client, () => {
      if (!this.isCut) handlers.onFrame(JSON.parse(payload) as Parameters<ClientHandlers["onFrame"]>[0])
    })
  }

  #toServer(text: string): void {
    const { timeline, server, app } = this.#options
    this.#leavesAt = Math.max(this.#leavesAt, timeline.now + timeline.between(0.1, 2))
    timeline.at(this.#leavesAt, server, () => {
      if (this.#closed || this.data === undefined || this.isCut) return
      const bytes = new TextEncoder().encode(text)
      app.handlers.message(this, bytes.buffer, false)
    })
  }
}
