import type { Log } from "../observability/log.ts"
import type { Metrics } from "../observability/metrics.ts"
import { backoffMs } from "../std/backoff.ts"
import type { Clock, Timer } from "../std/clock.ts"
import { Queue } from "../std/queue.ts"
import { SweepWhileAny } from "../std/sweep-while-any.ts"
import type { BusMessage, Outgoing } from "./bus-messages.ts"

/** Between two processes of a host: whole frames, in order, until it ends. */
export interface Connection {
  onFrame: (frame: string) => void
  /** Once, unless it was ended here. */
  onEnd: () => void
  send(frame: string): void
  /** What was sent before still leaves. */
  end(): void
  /** At once; what has not left is lost, what has may still be read. */
  destroy(): void
}

/** How workers of a host reach one another: unix sockets, or a simulator's. */
export interface Sockets {
  /** From now on others reach this worker. */
  listen(accept: (connection: Connection) => void): Promise<void>
  /** Rejects when nobody listens there. */
  connect(worker: string): Promise<Connection>
  close(): void
}

export interface SocketRoadOptions {
  readonly sockets: Sockets
  readonly self: string
  readonly clock: Clock
  readonly bounds: {
    /** What one worker was sent and has not said to have taken, in characters. */
    readonly maxUntaken: number
    /** A worker that takes nothing of what waits for so long is sent it through Redis. */
    readonly stuckAfterMs: number
  }
  readonly isDead: (worker: string) => boolean
  readonly take: (message: BusMessage) => void
  /** Sends through Redis; with `mark` of this road in front. */
  readonly append: (worker: string, outgoing: readonly Outgoing[]) => void
  readonly returned: (worker: string, outgoing: readonly Outgoing[]) => void
  readonly trouble: (error: unknown) => void
  readonly log: Log
  readonly metrics: Pick<Metrics, "bus">
}

/** Milliseconds for the first frame of a connection; between attempts to make one, at first and at most. */
const helloTimeoutMs = 1_000
const reconnectAfterMs = 100
const maxReconnectMs = 30_000
/** Milliseconds for which messages are held while what went through Redis arrives; until that is tried again. */
const holdForMs = 200
const changeAgainMs = 1_000
/** Milliseconds until it is said what was taken, unless something is sent to that worker before. */
const tellAfterMs = 50
const sweepEveryMs = 500
/** Connections that have not said yet whose they are. */
const maxStrangers = 100

interface Batch {
  readonly number: number
  readonly outgoing: readonly Outgoing[]
  readonly length: number
}

/** What is known of one worker of this host, until it is dead. */
interface Line {
  readonly worker: string
  connection: Connection | undefined
  isConnecting: boolean
  attempts: number
  /** `held`: what is sent waits until the other worker has taken what it was sent through Redis. */
  road: "redis" | "held" | "socket"
  readonly held: Outgoing[]
  /** The last batch that was sent by either road; that which ends what goes through Redis. */
  sent: number
  marker: number
  /** Sent through the socket. */
  untaken: Queue<Batch>
  untakenLength: number
  /** The first of these when it was looked last, and for how many milliseconds it has been that. */
  first: number
  firstForMs: number
  /** The last batch of the other worker that was taken, and that it was told of. */
  taken: number
  told: number
  telling: Timer | undefined
  /** The next attempt to connect or to change the road, or the end of the hold. */
  next: Timer | undefined
}

const lineTo = (worker: string): Line => ({
  worker,
  connection: undefined,
  isConnecting: false,
  attempts: 0,
  road: "redis",
  held: [],
  sent: 0,
  marker: 0,
  untaken: new Queue(),
  untakenLength: 0,
  first: 0,
  firstForMs: 0,
  taken: 0,
  told: 0,
  telling: undefined,
  next: undefined,
})

/**
 * The shorter road of the bus: connections between workers of one host. Redis stays the other one, before there is a connection
 * and whenever one fails. It keeps:
 *   BUS1  What a worker takes of another one of its host was sent after all that it took of it before, whichever roads it
 *       came by: nothing twice, nothing in another order.
 *   BUS2  Nothing is lost without a word between two that live, unless Redis loses it: what a broken connection may not
 *       have carried goes back to the bus.
 *   BUS3  Once a worker is known to be dead, nothing of it is taken from a connection.
 *
 * Each batch for a worker has a number, on both roads, and only rising ones are taken. What a broken connection still held in the
 * other process is late then. The way back to a connection begins with a marker through Redis: once that was taken, so
 * was or never will be all that went there before it.
 */
export class SocketRoad {
  readonly #options: SocketRoadOptions
  readonly #lines = new Map<string, Line>()
  readonly #sweeper: SweepWhileAny
  #strangers = 0
  #closed = false

  constructor(options: SocketRoadOptions) {
    this.#options = options
    this.#sweeper = new SweepWhileAny(options.clock, sweepEveryMs, () => this.#sweep())
  }

  async open(): Promise<void> {
    const { sockets, log } = this.#options
    await sockets
      .listen(connection => this.#accept(connection))
      .catch((error: unknown) => log.warn({ err: error }, "no socket for workers of this host; they use Redis"))
  }

  close(): void {
    this.#closed = true
    this.#sweeper.stop()
    for (const line of this.#lines.values()) {
      line.telling?.stop()
      line.next?.stop()
      line.connection?.end()
    }
    this.#lines.clear()
    this.#options.sockets.close()
  }

  /** Connections by which messages go. */
  get count(): number {
    let count = 0
    for (const { road } of this.#lines.values()) if (road === "socket") count++
    return count
  }

  /** Whether there is a connection to a worker, whatever it is used for. */
  hasConnection(worker: string): boolean {
    return this.#lines.get(worker)?.connection !== undefined
  }

  /** Another worker of this host. Of two, that with the smaller id connects, so that there is one connection. */
  meet(worker: string): void {
    if (!this.#closed && !this.#options.isDead(worker)) this.#lineOf(worker)
  }

  #lineOf(worker: string): Line {
    const known = this.#lines.get(worker)
    if (known) return known
    const line = lineTo(worker)
    this.#lines.set(worker, line)
    if (this.#options.self < worker) this.#connect(line)
    return line
  }

  /** BUS3 */
  forget(worker: string): void {
    const line = this.#lines.get(worker)
    if (!line) return
    this.#lines.delete(worker)
    this.#break(line, "its worker is dead")
  }

  /** Sends what goes to a worker in one turn of the loop. @returns false when it has to go through Redis */
  carry(worker: string, outgoing: readonly Outgoing[]): boolean {
    const line = this.#lines.get(worker)
    if (!line || line.road === "redis") return false
    if (line.road === "held") {
      line.held.push(...outgoing)
      return true
    }
    return this.#write(line, outgoing)
  }

  /** Stands in front of a batch that goes through Redis; nothing for workers of other hosts. */
  mark(worker: string): BusMessage | undefined {
    const line = this.#lines.get(worker)
    return line && ["batch", this.#options.self, ++line.sent]
  }

  /** A batch has come through Redis. @returns whether it is to be taken */
  arrive(from: string, number: number): boolean {
    if (this.#closed || this.#options.isDead(from)) return true
    const line = this.#lineOf(from)
    if (!this.isNew(from, number)) return false
    line.taken = number
    // The other side may hold messages back until it hears this.
    if (line.connection) this.#tell(line)
    return true
  }

  /** BUS1. Whether nothing that was sent later was taken before. */
  isNew(from: string, number: number): boolean {
    return number > (this.#lines.get(from)?.taken ?? 0)
  }

  /** BUS2. The other worker may have taken these, or not. */
  giveBack(worker: string, outgoing: readonly Outgoing[]): void {
    this.#options.returned(worker, outgoing)
  }

  /** Whether what a worker has taken ends what went there through Redis. */
  isMarker(worker: string, taken: number): boolean {
    return taken >= this.#lines.get(worker)!.marker
  }

  // How a connection begins.

  #connect(line: Line): void {
    const { sockets, self, isDead } = this.#options
    const { worker } = line
    if (line.connection || line.isConnecting || !this.#isCurrent(line) || isDead(worker)) return
    line.isConnecting = true
    const failed = () => {
      line.isConnecting = false
      this.#connectLater(line)
    }
    sockets.connect(worker).then(connection => {
      if (!this.#isCurrent(line)) return connection.destroy()
      connection.send(hello(self, worker))
      this.#hear(connection, {
        greeted: (from, to) => {
          // Another worker may listen there now.
          if (from !== worker || to !== self || !this.#isCurrent(line)) return false
          line.isConnecting = false
          this.#begin(line, connection)
          return true
        },
        failed,
      })
    }, failed)
  }

  #connectLater(line: Line): void {
    if (!this.#isCurrent(line) || this.#options.self > line.worker) return
    const afterMs = backoffMs(line.attempts++, reconnectAfterMs, maxReconnectMs)
    this.#next(line, afterMs, () => this.#connect(line))
  }

  #accept(connection: Connection): void {
    const { self, isDead } = this.#options
    if (this.#closed || this.#strangers >= maxStrangers) return connection.destroy()
    this.#strangers++
    let isStranger = true
    const passed = () => {
      if (isStranger) this.#strangers--
      isStranger = false
    }
    this.#hear(connection, {
      greeted: (from, to) => {
        passed()
        if (this.#closed || to !== self || from === self || isDead(from)) return false
        const line = this.#lineOf(from)
        // The other side has given it up.
        this.#break(line, "another has come")
        connection.send(hello(self, from))
        this.#begin(line, connection)
        return true
      },
      failed: passed,
    })
  }

  /** The first frame says between which incarnations a connection is. */
  #hear(
    connection: Connection,
    { greeted, failed }: { greeted: (from: string, to: string) => boolean; failed: () => void },
  ): void {
    const late = this.#options.clock.after(helloTimeoutMs, () => {
      connection.destroy()
      failed()
    })
    connection.onEnd = () => {
      late.stop()
      failed()
    }
    connection.onFrame = frame => {
      late.stop()
      const [from, to] = readHello(frame)
      if (greeted(from, to)) return
      connection.destroy()
      failed()
    }
  }

  #begin(line: Line, connection: Connection): void {
    const { log } = this.#options
    const { worker } = line
    line.connection = connection
    connection.onFrame = frame => this.#receive(line, connection, frame)
    connection.onEnd = () => {
      if (line.connection === connection) this.#break(line, "it ended")
    }
    log.debug({ of: worker }, "socket to a worker is open")
    if (line.taken > 0) this.#tell(line)
    this.#change(line)
  }

  /** What is sent from now on goes by the connection, once all has arrived that went through Redis. */
  #change(line: Line): void {
    line.road = "held"
    this.#options.append(line.worker, [])
    line.marker = line.sent
    this.#next(line, holdForMs, () => {
      line.road = "redis"
      this.#appendHeld(line)
      this.#next(line, changeAgainMs, () => this.#change(line))
    })
  }

  #appendHeld(line: Line): void {
    const held = line.held.splice(0)
    if (held.length > 0) this.#options.append(line.worker, held)
  }

  // What goes through it.

  #write(line: Line, outgoing: readonly Outgoing[]): boolean {
    const frame: unknown[] = [line.taken, line.sent + 1]
    for (const { message } of outgoing) frame.push(message)
    const text = JSON.stringify(frame)
    if (line.untakenLength + text.length > this.#options.bounds.maxUntaken) {
      this.#break(line, "too much waits")
      return false
    }
    line.told = line.taken
    line.untaken.push({ number: ++line.sent, outgoing, length: text.length })
    line.untakenLength += text.length
    this.#sweeper.begin()
    this.#options.metrics.bus.messages.socket.inc(outgoing.length)
    line.connection!.send(text)
    return true
  }

  #receive(line: Line, connection: Connection, text: string): void {
    if (line.connection !== connection) return
    let frame: readonly [taken: number, number?: number, ...messages: BusMessage[]]
    try {
      frame = JSON.parse(text) as typeof frame
    } catch (error) {
      this.#options.trouble(error)
      return this.#break(line, "it does not make sense")
    }
    const [taken, number] = frame
    while (line.untaken.length > 0 && line.untaken.at(0).number <= taken)
      line.untakenLength -= line.untaken.shift()!.length
    if (line.road === "held" && this.isMarker(line.worker, taken)) {
      line.next?.stop()
      line.road = "socket"
      line.attempts = 0
      const held = line.held.splice(0)
      if (held.length > 0 && !this.#write(line, held)) this.#options.append(line.worker, held)
    }
    if (number === undefined || !this.isNew(line.worker, number)) return
    line.taken = number
    this.#tellSoon(line)
    // What it says may be that its worker is dead.
    for (let i = 2; i < frame.length && line.connection === connection; i++)
      try {
        this.#options.take(frame[i] as BusMessage)
      } catch (error) {
        this.#options.trouble(error)
      }
  }

  #tell(line: Line): void {
    line.told = line.taken
    line.connection?.send(`[${line.taken}]`)
  }

  #tellSoon(line: Line): void {
    line.telling ??= this.#options.clock.after(tellAfterMs, () => {
      line.telling = undefined
      if (line.taken > line.told) this.#tell(line)
    })
  }

  // How it ends.

  #break(line: Line, why: string): void {
    const { log, metrics, isDead } = this.#options
    const { worker, connection, untaken } = line
    if (!connection) return
    if (line.road === "socket") metrics.bus.socketsLost.inc()
    line.connection = undefined
    line.road = "redis"
    line.untaken = new Queue()
    line.untakenLength = 0
    line.telling?.stop()
    line.telling = undefined
    line.next?.stop()
    connection.destroy()
    // A worker that ends, or is dead, is spoken of elsewhere.
    const level = isDead(worker) || why === "it ended" ? "debug" : "warn"
    log[level]({ worker, why, untaken: untaken.length }, "socket to a worker is closed; messages go through Redis")
    for (let batch = untaken.shift(); batch; batch = untaken.shift()) this.giveBack(worker, batch.outgoing)
    this.#appendHeld(line)
    this.#connectLater(line)
  }

  #sweep(): boolean {
    let isAny = false
    for (const line of this.#lines.values()) {
      const first = line.untaken.length > 0 ? line.untaken.at(0).number : 0
      line.firstForMs = first > 0 && first === line.first ? line.firstForMs + sweepEveryMs : 0
      line.first = first
      if (line.firstForMs >= this.#options.bounds.stuckAfterMs) this.#break(line, "nothing is taken")
      else if (first > 0) isAny = true
    }
    return isAny
  }

  #next(line: Line, afterMs: number, action: () => void): void {
    line.next?.stop()
    line.next = this.#options.clock.after(afterMs, () => {
      line.next = undefined
      if (this.#isCurrent(line)) action()
    })
  }

  #isCurrent(line: Line): boolean {
    return !this.#closed && this.#lines.get(line.worker) === line
  }
}

const version = 1
const hello = (from: string, to: string): string => JSON.stringify(["starling", version, from, to])

/** @returns empty names if it is no greeting of this version */
function readHello(frame: string): [from: string, to: string] {
  try {
    const [program, its, from, to] = JSON.parse(frame) as unknown[]
    if (program === "starling" && its === version) return [String(from), String(to)]
  } catch {
    // Then it is none of ours.
  }
  return ["", ""]
}
