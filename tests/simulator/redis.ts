import { EventEmitter } from "node:events"
import type { Redis } from "ioredis"
import {
  commands,
  entriesFor,
  Keyspace,
  notSimulated,
  parseRead,
  readNow,
  refusal,
  refusalOfWords,
  type Execute,
  type StreamRead,
} from "./redis-commands.ts"
import { scriptOf } from "./redis-scripts.ts"

/**
 * A Redis in memory for simulated runs. It does what the real one does with the commands and scripts that src/cluster uses
 * (redis.test.ts compares the two), and leaves everything that chance decides elsewhere to its driver: it has no
 * timers, and time is what `now` says. It keeps:
 *   R1  What one connection sends is executed in the order in which it was sent, and its replies come back in that order.
 *   R2  A command settles within the call of the link that settles it, or of `cut`, and at no other moment.
 */

/** What decides over one connection. It is called at once when something happens; what it then does may be now or later. */
export interface Link {
  /** The program has sent something: `flight.arrive()` brings it to Redis. */
  send(flight: Flight): void
  /** Redis has executed a flight: `flight.settle()` brings its reply back. */
  reply(flight: Flight): void
  /**
   * Redis holds a blocking read of the connection: `expire()` says that its time is over (0 ms: never).
   * @returns what Redis calls when the read has ended otherwise
   */
  block(ms: number, expire: () => void): () => void
  /** The program has closed the connection; `again`: it wants it back, by `connection.reconnect()`. */
  disconnect?(again: boolean): void
}

export interface Command {
  readonly name: string
  /** A script's keys and arguments, without the number of keys. */
  readonly args: string[]
  readonly execute: Execute
  /** Why Redis will not even look at it. */
  readonly refused?: Error
}

type Kind = "command" | "pipeline" | "transaction"
/** As `exec()` gives it. */
type Answer = [error: null, reply: unknown] | [error: Error]

/** What the program sent with one call, and the way of its reply. */
export class Flight {
  readonly kind: Kind
  readonly commands: readonly Command[]
  readonly #wire: Wire
  readonly #resolve: (reply: unknown) => void
  readonly #reject: (error: Error) => void
  readonly #answers: Answer[] = []
  #aborted: Error | undefined
  #arrived = 0
  #dropped = false
  #settled = false
  #returned = false

  constructor(
    kind: Kind,
    commands: readonly Command[],
    wire: Wire,
    resolve: (reply: unknown) => void,
    reject: (error: Error) => void,
  ) {
    this.kind = kind
    this.commands = commands
    this.#wire = wire
    this.#resolve = resolve
    this.#reject = reject
  }

  /** For records of what happened: the command's or script's name, or those of several. */
  get name(): string {
    return this.commands.length === 1 ? this.commands[0]!.name : this.commands.map(command => command.name).join("+")
  }

  /** In how many pieces it can arrive: a pipeline's commands; a transaction is whole or nothing. */
  get pieces(): number {
    return this.kind === "transaction" ? 1 : this.commands.length
  }

  /** How many pieces Redis has executed. */
  get executed(): number {
    return this.kind === "transaction" ? Math.min(1, this.#answers.length) : this.#answers.length
  }

  /** The program knows how it ended. */
  get settled(): boolean {
    return this.#settled
  }

  /** Redis gets `pieces` in all of it (default: everything) and executes them after all that was sent before (R1). */
  arrive(pieces = this.pieces): void {
    if (pieces > this.#arrived) this.#arrived = pieces
    this.#wire.run()
  }

  /** The reply comes back, after those to what was sent before (R1). Only for a flight that `Link.reply` was called with. */
  settle(): void {
    this.#returned = true
    this.#wire.deliver()
  }

  /**
   * The connection loses it: the program gets an error, and what has not been executed never is. Of a pipeline the replies
   * to the first `replied` commands may have come through, as far as they were executed.
   */
  lose(error: Error = closed(), replied = 0): void {
    this.#dropped = true
    this.#fail(error, replied)
    this.#wire.forget(this)
  }

  /** The program has waited long enough and gets an error; the flight itself goes on. */
  timeOut(error: Error = new Error("Command timed out")): void {
    this.#fail(error, 0)
    this.#wire.deliver()
  }

  /** @internal What may be executed now; "blocked" when a read waits. */
  execute(redis: SimulatedRedis): "waits" | "blocked" | "done" {
    if (this.#dropped) return "done"
    if (this.kind === "transaction") {
      if (this.#arrived === 0) return "waits"
      if (this.commands.some(command => command.refused)) {
        this.#aborted = refusal("EXECABORT Transaction discarded because of previous errors.")
        return "done"
      }
      for (const command of this.commands) this.#answers.push(redis.execute(command))
      redis.wakeReaders()
      return "done"
    }
    while (this.#answers.length < this.commands.length) {
      if (this.#answers.length >= this.#arrived) return "waits"
      const command = this.commands[this.#answers.length]!
      if (command.execute === xread && this.#read(redis, command)) return "blocked"
      this.#answers.push(redis.execute(command))
      redis.wakeReaders()
    }
    return "done"
  }

  /** @internal The reply of a read that waited. */
  answer(reply: unknown): void {
    this.#answers.push([null, reply])
  }

  /** @internal Hands the reply to the program if it is there; false while it is still to come. */
  handOver(): boolean {
    if (this.#settled) return true
    if (!this.#returned) return false
    this.#settled = true
    if (this.#aborted) this.#reject(this.#aborted)
    else if (this.kind !== "command") this.#resolve(this.#answers)
    else {
      const answer = this.#answers[0]!
      if (answer[0] === null) this.#resolve(answer[1])
      else this.#reject(answer[0])
    }
    return true
  }

  /** @internal The connection was cut. */
  abandon(error: Error, drop: boolean): void {
    if (drop) this.#dropped = true
    this.#fail(error, 0)
  }

  #fail(error: Error, replied: number): void {
    if (this.#settled) return
    this.#settled = true
    // As in ioredis: a pipeline always resolves, its commands fail one by one.
    if (this.kind === "pipeline")
      this.#resolve(this.commands.map((_, i) => (i < replied && this.#answers[i]) || ([error] satisfies Answer)))
    else this.#reject(error)
  }

  /** A read that finds nothing and may wait. */
  #read(redis: SimulatedRedis, command: Command): boolean {
    if (!command.args.includes("BLOCK")) return false
    if (this.kind !== "command") throw notSimulated("a blocking read in a pipeline")
    const read = redis.readToWait(command)
    if (read === undefined) return false
    this.#wire.wait(this, read)
    return true
  }
}

const xread = commands["xread"]![1]

const closed = () => new Error("Connection is closed.")
/** What ioredis says without its queue for commands that were sent while there was no connection. */
const notWritable = () => new Error("Stream isn't writeable and enableOfflineQueue options is false")

interface Waiting {
  readonly flight: Flight
  readonly read: StreamRead
  readonly wire: Wire
  cancel: () => void
}

/** One TCP connection: a connection that comes back after a cut has another. */
class Wire {
  readonly #redis: SimulatedRedis
  readonly #link: Link
  /** Sent and not executed, in order. */
  #sent: Flight[] = []
  /** Executed, and the reply not yet handed over, in order. */
  #replies: Flight[] = []
  #waiting: Waiting | undefined
  #running = false

  constructor(redis: SimulatedRedis, link: Link) {
    this.#redis = redis
    this.#link = link
  }

  send(flight: Flight): void {
    this.#sent.push(flight)
    this.#link.send(flight)
  }

  /** Executes what has arrived. */
  run(): void {
    if (this.#running || this.#waiting !== undefined) return
    if (this.#redis.paused) return this.#redis.postpone(this)
    this.#running = true
    try {
      for (let flight = this.#sent[0]; flight !== undefined; flight = this.#sent[0]) {
        const state = flight.execute(this.#redis)
        if (state !== "done") return
        this.#sent.shift()
        this.#executed(flight)
      }
    } finally {
      this.#running = false
    }
  }

  deliver(): void {
    while (this.#replies[0]?.handOver()) this.#replies.shift()
  }

  forget(flight: Flight): void {
    if (this.#waiting?.flight === flight) this.#stopWaiting()
    this.run()
    this.deliver()
  }

  wait(flight: Flight, read: StreamRead): void {
    const waiting: Waiting = { flight, read, wire: this, cancel: () => {} }
    this.#waiting = waiting
    this.#redis.addReader(waiting)
    waiting.cancel = this.#link.block(read.block!, () => this.#redis.whenRunning(() => this.#expire(waiting)))
  }

  /** The read that waits has found something. */
  found(reply: unknown): void {
    const { flight } = this.#waiting!
    this.#stopWaiting()
    this.#finish(flight, reply)
  }

  close(error: Error, drop: boolean): void {
    const waiting = this.#waiting
    if (waiting) {
      this.#stopWaiting()
      waiting.flight.abandon(error, true)
    }
    const flights = [...this.#replies, ...this.#sent]
    this.#replies = []
    if (drop) this.#sent = []
    for (const flight of flights) flight.abandon(error, drop)
    // What stood behind the read that waited may have arrived already.
    if (waiting && !drop) this.run()
  }

  #expire(waiting: Waiting): void {
    if (this.#waiting !== waiting) return
    this.#redis.removeReader(waiting)
    this.#waiting = undefined
    this.#finish(waiting.flight, null)
  }

  #finish(flight: Flight, reply: unknown): void {
    flight.answer(reply)
    this.#sent.shift()
    this.#executed(flight)
    this.run()
  }

  #executed(flight: Flight): void {
    if (flight.settled) return
    this.#replies.push(flight)
    this.#link.reply(flight)
  }

  #stopWaiting(): void {
    const waiting = this.#waiting!
    this.#redis.removeReader(waiting)
    this.#waiting = undefined
    waiting.cancel()
  }
}

/** A client's connection as the driver of the simulation sees it. */
export class SimulatedConnection {
  /** What the program is given. */
  readonly redis: Redis
  readonly #client: SimulatedClient
  readonly #server: SimulatedRedis
  readonly #link: Link
  #wire: Wire
  #status: "ready" | "reconnecting" | "end" = "ready"

  constructor(server: SimulatedRedis, link: Link) {
    this.#server = server
    this.#link = link
    this.#wire = new Wire(server, link)
    this.#client = new SimulatedClient(this)
    this.redis = this.#client as unknown as Redis
  }

  get status(): "ready" | "reconnecting" | "end" {
    return this.#status
  }

  /**
   * The connection breaks: everything under way fails, and so does everything until `reconnect()`. What had not arrived
   * never does; with `stillArriving` the old connection's flights can still arrive, and their replies go nowhere.
   */
  cut(options: { error?: Error; stillArriving?: boolean } = {}): void {
    if (this.#status !== "ready") return
    this.#status = "reconnecting"
    this.#wire.close(options.error ?? closed(), options.stillArriving !== true)
    this.#client.emit("close")
  }

  /** The connection is there again, unless the program has closed it for good. */
  reconnect(): void {
    if (this.#status !== "reconnecting") return
    this.#wire = new Wire(this.#server, this.#link)
    this.#status = "ready"
    this.check()
    this.#client.emit("ready")
  }

  /** @internal */
  get facts() {
    return this.#server.facts
  }

  /** @internal */
  check(): void {
    this.#client.connector.check(this.facts)
  }

  /** @internal The program closes. */
  disconnect(again: boolean): void {
    if (this.#status === "end") return
    this.cut()
    if (!again) {
      this.#status = "end"
      this.#client.emit("end")
    }
    this.#link.disconnect?.(again)
  }

  /** @internal */
  send(kind: Kind, sent: readonly Command[]): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const flight = new Flight(kind, sent, this.#wire, resolve, reject)
      if (this.#status === "ready") this.#wire.send(flight)
      else flight.abandon(this.#status === "end" ? closed() : notWritable(), true)
    })
  }
}

/** Words as they go to Redis. Arrays are opened, and `hset`'s object too. */
function toWords(given: readonly unknown[]): string[] {
  const words: string[] = []
  for (const word of given)
    if (typeof word === "string") words.push(word)
    else if (typeof word === "number") words.push(String(word))
    else if (Array.isArray(word)) words.push(...toWords(word))
    else if (typeof word === "object" && word !== null)
      for (const [field, value] of Object.entries(word)) words.push(field, String(value))
    else throw notSimulated(`${typeof word} as an argument`)
  return words
}

function toCommand(name: string, given: readonly unknown[]): Command {
  const [words, execute] = commands[name]!
  const args = toWords(given)
  const refused = refusalOfWords(name, words, args)
  if (refused === undefined) return { name, args, execute }
  return {
    name,
    args,
    refused,
    execute() {
      throw refused
    },
  }
}

/** What stands in the place of ioredis' `Redis`; the commands are below. */
class SimulatedClient extends EventEmitter {
  readonly connection: SimulatedConnection
  readonly options = {}
  /** Is shown what a server says of itself when a connection to it is made, as ioredis' own is. */
  readonly connector = { check: (_facts: object): boolean => true }

  constructor(connection: SimulatedConnection) {
    super()
    this.connection = connection
  }

  get status(): string {
    return this.connection.status
  }

  connect(): Promise<void> {
    if (this.connection.status !== "ready") return Promise.reject(closed())
    this.connection.check()
    return Promise.resolve()
  }

  disconnect(again = false): void {
    this.connection.disconnect(again)
  }

  quit(): Promise<"OK"> {
    this.connection.disconnect(false)
    return Promise.resolve("OK")
  }

  info(): Promise<unknown> {
    const execute = () =>
      Object.entries(this.connection.facts)
        .map(([name, value]) => `${name}:${value}\r\n`)
        .join("")
    return this.connection.send("command", [{ name: "info", args: [], execute }])
  }

  pipeline(): SimulatedPipeline {
    return new SimulatedPipeline(this.connection, "pipeline")
  }

  multi(): SimulatedPipeline {
    return new SimulatedPipeline(this.connection, "transaction")
  }

  defineCommand(name: string, { lua, numberOfKeys }: { lua: string; numberOfKeys?: number }): void {
    const execute = scriptOf(name, lua)
    const scripts = this as unknown as Record<string, (...given: unknown[]) => Promise<unknown>>
    scripts[name] = (...given) => {
      if (execute === undefined) throw notSimulated(`the script ${name}`)
      const words = toWords(given)
      // Of a script that is given any number of keys, how many they are comes first.
      const isCounted = numberOfKeys === undefined
      const keys = isCounted ? Number(words[0]) : numberOfKeys
      return this.connection.send("command", [
        { name, args: isCounted ? words.slice(1) : words, execute: (keyspace, args) => execute(keyspace, args, keys) },
      ])
    }
  }
}

/** Commands that travel together. */
class SimulatedPipeline {
  readonly connection: SimulatedConnection
  readonly kind: "pipeline" | "transaction"
  readonly commands: Command[] = []

  constructor(connection: SimulatedConnection, kind: "pipeline" | "transaction") {
    this.connection = connection
    this.kind = kind
  }

  exec(): Promise<unknown> {
    if (this.commands.length === 0) return Promise.resolve([])
    return this.connection.send(this.kind, this.commands)
  }
}

for (const name of Object.keys(commands)) {
  Object.defineProperty(SimulatedClient.prototype, name, {
    value(this: SimulatedClient, ...given: unknown[]) {
      return this.connection.send("command", [toCommand(name, given)])
    },
  })
  Object.defineProperty(SimulatedPipeline.prototype, name, {
    value(this: SimulatedPipeline, ...given: unknown[]) {
      this.commands.push(toCommand(name, given))
      return this
    },
  })
}

/** What a Redis held at one moment. */
export type Snapshot = ReturnType<Keyspace["copy"]>

export class SimulatedRedis {
  readonly #keyspace: Keyspace
  readonly #readers = new Map<string, Waiting[]>()
  #losses = 0
  #copies = 0
  #paused = false
  /** What came while Redis stood still, in order. */
  #postponed: (() => void)[] = []

  /** `now`: Unix milliseconds. */
  constructor({ now }: { now: () => number }) {
    this.#keyspace = new Keyspace(now)
  }

  connect(link: Link): SimulatedConnection {
    return new SimulatedConnection(this, link)
  }

  get paused(): boolean {
    return this.#paused
  }

  /** Stands still: what arrives waits, and no read's time ends. */
  pause(): void {
    this.#paused = true
  }

  /** Goes on, with what came meanwhile, connection by connection. */
  resume(): void {
    this.#paused = false
    for (const go of this.#postponed.splice(0)) this.whenRunning(go)
  }

  /** Its first copy comes: nothing is lost and connections stay, but from now on its replication id is another. */
  copied(): void {
    this.#copies++
  }

  /** What it says of itself: another process after each loss, another replication id then and when a copy comes. */
  get facts() {
    const id = (number: number) => `${String(number).padStart(12, "0")}${"0".repeat(28)}`
    return { role: "master", master_replid: id(this.#losses + this.#copies), run_id: id(this.#losses) }
  }

  /** Forgets everything, as a Redis that was started anew. Connections stay; cut them. */
  flush(): void {
    this.#losses++
    this.#keyspace.flush()
  }

  /** Somebody deletes everything: it is the same Redis, and it goes on. */
  flushAll(): void {
    this.#keyspace.flush()
  }

  snapshot(): Snapshot {
    return this.#keyspace.copy()
  }

  /** Goes back to a snapshot, as after a failover to a replica that was behind. A snapshot serves any number of times. */
  rollback(snapshot: Snapshot): void {
    this.#losses++
    this.#keyspace.replace(snapshot)
  }

  /** @internal */
  execute(command: Command): Answer {
    try {
      return [null, command.execute(this.#keyspace, command.args)]
    } catch (error) {
      if (error instanceof Error && error.name === "ReplyError") return [error]
      throw error
    }
  }

  /** @internal A read, if it can be made, finds nothing and says how long it may wait. */
  readToWait(command: Command): StreamRead | undefined {
    try {
      const read = parseRead(this.#keyspace, command.args)
      return read.block === undefined || readNow(this.#keyspace, read) !== null ? undefined : read
    } catch (error) {
      if (error instanceof Error && error.name === "ReplyError") return undefined
      throw error
    }
  }

  /** @internal */
  addReader(waiting: Waiting): void {
    for (const key of waiting.read.keys) {
      const readers = this.#readers.get(key)
      if (readers) readers.push(waiting)
      else this.#readers.set(key, [waiting])
    }
  }

  /** @internal */
  removeReader(waiting: Waiting): void {
    for (const key of waiting.read.keys) {
      const readers = this.#readers.get(key)
      const at = readers?.indexOf(waiting) ?? -1
      if (at !== -1) readers!.splice(at, 1)
    }
  }

  /** @internal As in Redis: each read that waited is given what the first of its streams to grow has for it. */
  wakeReaders(): void {
    if (this.#keyspace.appended.length === 0) return
    const { appended } = this.#keyspace
    this.#keyspace.appended = []
    for (const key of appended) {
      const readers = this.#readers.get(key)
      if (readers === undefined || readers.length === 0) continue
      for (const waiting of readers.slice()) {
        if (!readers.includes(waiting)) continue
        const entries = entriesFor(this.#keyspace, waiting.read, waiting.read.keys.indexOf(key))
        if (entries !== undefined) waiting.wire.found([[key, entries]])
      }
    }
  }

  /** @internal */
  postpone(wire: Wire): void {
    this.#postponed.push(() => wire.run())
  }

  /** @internal */
  whenRunning(go: () => void): void {
    if (this.#paused) this.#postponed.push(go)
    else go()
  }
}

/** A link that loses nothing and takes no time; blocking reads end by `expire` only when `onBlock` says so. */
export const directLink = (onBlock: (ms: number, expire: () => void) => void = () => {}): Link => ({
  send: flight => flight.arrive(),
  reply: flight => flight.settle(),
  block(ms, expire) {
    onBlock(ms, expire)
    return () => {}
  },
})
