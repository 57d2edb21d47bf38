import type { Redis } from "ioredis"
import type { Connect, Purpose } from "../../src/cluster/redis.ts"
import { followReplication } from "../../src/cluster/replication.ts"
import type { Flight, Link as RedisLink, SimulatedConnection, SimulatedRedis } from "./redis.ts"
import { lostAnswer, type Link as StoreLink } from "./store.ts"
import type { Actor, Timeline } from "./timeline.ts"

/** What stands between a worker and a service. Several faults may be on it at once. */
export class NetworkPath {
  /** Nothing gets through before this moment. */
  cutUntil = 0
  /** Every message takes so much longer, until then. */
  slowByMs = 0
  slowUntil = 0
  /** Probability that a message or its answer is lost. */
  loss: number
  readonly #timeline: Timeline
  readonly #usual: readonly [low: number, high: number]

  constructor(timeline: Timeline, usual: readonly [low: number, high: number], loss: number) {
    this.#timeline = timeline
    this.#usual = usual
    this.loss = loss
  }

  get isCut(): boolean {
    return this.#timeline.now < this.cutUntil
  }

  delayMs(): number {
    const [low, high] = this.#usual
    const usual = this.#timeline.chance(0.03) ? high * 20 * this.#timeline.random() : this.#timeline.between(low, high)
    return this.#timeline.now < this.slowUntil ? usual + this.slowByMs * this.#timeline.random() : usual
  }

  isLost(): boolean {
    return this.loss > 0 && this.#timeline.chance(this.loss)
  }
}

/** After so long without an answer the client gives a command up, as configured in src/cluster/redis.ts. */
const timeoutMsOf = (purpose: Purpose | "records"): number =>
  purpose === "membership" ? 1_000 : purpose === "streams" ? 10_000 : 2_000

/** A worker's connections to Redis: what it sends arrives in order, or the connection breaks. */
export class RedisPath {
  readonly #timeline: Timeline
  readonly #redis: SimulatedRedis
  readonly #worker: Actor
  readonly #network: Actor
  readonly path: NetworkPath
  readonly #connections: SimulatedConnection[] = []

  constructor(options: {
    timeline: Timeline
    redis: SimulatedRedis
    worker: Actor
    network: Actor
    path: NetworkPath
  }) {
    this.#timeline = options.timeline
    this.#redis = options.redis
    this.#worker = options.worker
    this.#network = options.network
    this.path = options.path
  }

  readonly connect: Connect = purpose => this.open(purpose)

  open(purpose: Purpose | "records"): Redis {
    const timeline = this.#timeline
    const { path } = this
    const limit = timeoutMsOf(purpose)
    const link: RedisLink = {
      send: flight => {
        if (path.isLost()) {
          // Of a pipeline some may have got there; of a message to another worker, twice.
          const pieces = Math.floor(timeline.random() * (flight.pieces + 1))
          if (pieces > 0) timeline.after(path.delayMs(), this.#network, () => flight.arrive(pieces))
          return this.#break(connection, flight)
        }
        timeline.after(path.delayMs(), this.#network, () => {
          if (purpose === "bus" && flight.name === "xadd" && path.isLost()) this.#redis.execute(flight.commands[0]!)
          flight.arrive()
        })
        timeline.after(limit, this.#worker, () => {
          if (!flight.settled) flight.timeOut()
        })
      },
      reply: flight => {
        if (path.isLost()) return this.#break(connection, flight)
        timeline.after(path.delayMs(), this.#worker, () => flight.settle())
      },
      block: (milliseconds, expire) => {
        const timer = timeline.after(milliseconds, this.#network, expire)
        return () => timer.stop()
      },
      disconnect: again => {
        if (again) this.#comeBack(connection)
      },
    }
    const connection = this.#redis.connect(link)
    this.#connections.push(connection)
    followReplication(connection.redis)
    return connection.redis
  }

  /** Nothing goes through for a while; what was under path may have got there. */
  cut(lastsMs: number): void {
    this.path.cutUntil = Math.max(this.path.cutUntil, this.#timeline.now + lastsMs)
    for (const connection of this.#connections) {
      connection.cut({ stillArriving: this.#timeline.chance(0.5) })
      this.#comeBack(connection)
    }
  }

  /** The process has ended: what it had sent may still arrive. */
  processEnded(): void {
    for (const connection of this.#connections) connection.cut({ stillArriving: this.#timeline.chance(0.7) })
  }

  #break(connection: SimulatedConnection, _flight: Flight): void {
    // Not within the call that sends: the program sees a broken connection later.
    this.#timeline.after(this.path.delayMs(), this.#worker, () => {
      connection.cut({ stillArriving: this.#timeline.chance(0.5) })
      this.#comeBack(connection)
    })
  }

  /** Each connection by itself: that to the bus may be back long before that to the logs, or after it. */
  #comeBack(connection: SimulatedConnection): void {
    const timeline = this.#timeline
    const pauseMs = timeline.chance(0.3) ? timeline.between(80, 600) : timeline.between(5, 80)
    timeline.at(Math.max(this.path.cutUntil, timeline.now) + pauseMs, this.#worker, () => {
      if (this.path.isCut) return this.#comeBack(connection)
      connection.reconnect()
    })
  }
}

const lostReply = (timeline: Timeline) => lostAnswer(timeline.chance(0.5) ? "CONNECTION_CLOSED" : "NO_ANSWER")

/** The store's clients give a statement up after so long; a commit a little later. */
const statementTimeoutMs = 3_500
const commitTimeoutMs = 6_500

/** A worker's path to PostgreSQL: a statement is executed or not, and its answer comes, comes late, or never. */
export function storePath(options: {
  timeline: Timeline
  worker: Actor
  network: Actor
  path: NetworkPath
  /** When the store goes on, if it stands still. */
  pausedUntil: () => number
}): StoreLink {
  const { timeline, worker, network, path, pausedUntil } = options
  return {
    call<T>(name: string, execute: () => T): Promise<T> {
      return new Promise((resolve, reject) => {
        const isCommit = name.startsWith("lane.")
        const giveUp = timeline.after(isCommit ? commitTimeoutMs : statementTimeoutMs, worker, () =>
          reject(lostAnswer("NO_ANSWER")),
        )
        const lost = () => {
          giveUp.stop()
          timeline.after(timeline.between(1, 20), worker, () => reject(lostReply(timeline)))
        }
        if (path.isCut || path.isLost()) return lost()
        timeline.at(Math.max(timeline.now + path.delayMs(), pausedUntil()), network, function arrive() {
          // Paused meanwhile.
          if (pausedUntil() > timeline.now) return void timeline.at(pausedUntil(), network, arrive)
          let answer: () => void
          try {
            const result = execute()
            answer = () => resolve(result)
          } catch (error) {
            answer = () => reject(error instanceof Error ? error : new Error(String(error)))
          }
          if (path.isCut || path.isLost()) return lost()
          giveUp.stop()
          timeline.after(path.delayMs(), worker, answer)
        })
      })
    },
  }
}
