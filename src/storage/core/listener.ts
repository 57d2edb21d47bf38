import { randomBytes } from "node:crypto"
import type { Log } from "../../observability/log.ts"
import { backoffMs } from "../../std/backoff.ts"
import type { Clock, Timer } from "../../std/clock.ts"
import { isSessionOver, openConnection, within, type PoolOptions, type Sql } from "./database.ts"

export interface ListenerOptions {
  readonly connection: Omit<PoolOptions, "connections">
  readonly channel: string
  /** Announces something on the channel over another connection. */
  readonly announce: (text: string) => Promise<unknown>
  /** An empty text was announced. */
  readonly onAnnounced: () => void
  /** It hears from now on, or no longer: what was announced meanwhile has passed by. */
  readonly onTurn: () => void
  readonly clock: Clock
  readonly log: Log
}

/** Milliseconds that an announcement is given to arrive. */
const arrivalMs = 1_000
const firstPauseMs = 100
const maxPauseMs = 30_000

/** The connection over which it hears. */
interface Hearing {
  readonly sql: Sql
  readonly lose: () => void
}

/**
 * Hears what is announced on a channel of PostgreSQL (NOTIFY), on a connection of its own. It keeps:
 *   HEAR1  It says that it hears only once it has heard on that connection what was announced over
 *       another one: a pooler takes a LISTEN and passes nothing on.
 *   HEAR2  It hears no longer from the moment at which the connection is lost or leaves a question
 *       without an answer, and says so at once; then it begins anew, on another connection.
 */
export class Listener {
  readonly #options: ListenerOptions
  readonly #running: Promise<void>
  #hearing: Hearing | undefined
  #isStopped = false
  #isPassedBy = false
  /** Ends what is waited for. */
  #wake: () => void = () => {}

  constructor(options: ListenerOptions) {
    this.#options = options
    this.#running = this.#run()
  }

  get hears(): boolean {
    return this.#hearing !== undefined
  }

  /** Asks on the connection over which it hears: the answer shows that this stands. */
  async ask<T>(question: (sql: Sql) => Promise<T>): Promise<T> {
    const { statementTimeoutMs } = this.#options.connection
    const hearing = this.#hearing
    if (!hearing) throw new Error("nothing is heard")
    try {
      return await within(question(hearing.sql), statementTimeoutMs, "asking where announcements are heard")
    } catch (error) {
      if (isSessionOver(error)) hearing.lose()
      throw error
    }
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    this.#wake()
    await this.#running
  }

  async #run(): Promise<void> {
    for (let failures = 0; !this.#isStopped;) {
      const hasHeard = await this.#listen().catch((error: unknown) => {
        this.#options.log.debug({ err: error }, "announcements not heard")
        return false
      })
      failures = hasHeard ? 0 : failures + 1
      if (!this.#isStopped) await this.#pause(backoffMs(failures, firstPauseMs, maxPauseMs))
    }
  }

  /** @returns once it does no longer hear: whether it did */
  async #listen(): Promise<boolean> {
    const { connection, channel, announce, onAnnounced, onTurn, log } = this.#options
    const { connectTimeoutMs, statementTimeoutMs } = connection
    const word = randomBytes(8).toString("hex")
    let lose = () => {}
    const lost = new Promise<"lost">(resolve => (lose = () => resolve("lost")))
    let arrive = () => {}
    const arrived = new Promise<"arrived">(resolve => (arrive = () => resolve("arrived")))
    this.#wake = lose
    const opened = { ...connection, connections: 1 }
    const sql = openConnection(opened, lose, text => (text === word ? arrive() : text === "" && onAnnounced()))
    try {
      const listening = within(sql.unsafe(`LISTEN ${channel}`), connectTimeoutMs + statementTimeoutMs, "LISTEN")
      if ((await Promise.race([listening, lost])) === "lost") return false
      await announce(word)
      const late = this.#after(arrivalMs)
      const outcome = await Promise.race([arrived, lost, late.over])
      late.stop()
      // HEAR1
      if (outcome === "over" && !this.#isPassedBy) {
        this.#isPassedBy = true
        log.info(
          { channel },
          "what PostgreSQL announces does not arrive, as behind a pooler; it is looked at more often",
        )
      }
      if (outcome !== "arrived") return false
      this.#isPassedBy = false
      this.#hearing = { sql, lose }
      onTurn()
      await lost
      // HEAR2
      this.#hearing = undefined
      if (this.#isStopped) return true
      connection.onLoss?.()
      onTurn()
      return true
    } finally {
      sql.end({ timeout: 0 }).catch(() => {})
    }
  }

  #after(ms: number): { readonly over: Promise<"over">; readonly stop: () => void } {
    let timer: Timer | undefined
    const over = new Promise<"over">(resolve => (timer = this.#options.clock.after(ms, () => resolve("over"))))
    return { over, stop: () => timer?.stop() }
  }

  #pause(ms: number): Promise<unknown> {
    const { over, stop } = this.#after(ms)
    const ended = new Promise<void>(resolve => (this.#wake = resolve))
    return Promise.race([over, ended]).finally(stop)
  }
}
