/**
 * A copy of PostgreSQL that takes reads off it: searches, and pages of old messages. It keeps:
 *   REPL1  A copy is asked only while it is known to have everything that was committed up to
 *       `maxLagMs` ago. What is committed is never looked for in a copy that has stopped.
 *   REPL2  Where somebody may search, and what the messages that were found say by now, is never
 *       asked of a copy.
 * How far PostgreSQL was is asked before the copy is: only this process' own clock is compared.
 */
import type { Clock, Timer } from "../std/clock.ts"
import type { Log } from "../observability/log.ts"
import { bounded, isDataError, isStoppedStatement, openPool, type Observe, type PoolOptions } from "./core/database.ts"
import { walStorage } from "./core/wal.ts"
import { messagesStorage } from "./messages/messages.ts"
import { searchSettings, searchStorage } from "./messages/search.ts"
import { searchConnections, searchTimeoutMs, type Storage } from "./storage.ts"

export interface ReplicaOptions {
  readonly pool: Pick<PoolOptions, "url" | "name" | "statementTimeoutMs" | "connectTimeoutMs">
  readonly primary: Pick<Storage, "search" | "messages" | "wal">
  readonly readConnections: number
  readonly lookEveryMs: number
  readonly maxLagMs: number
  /** Whether somebody may be shown what was so `maxLagMs` ago. */
  readonly mayLag: (user: string) => Promise<boolean>
  /** Counts one read, by who answered it. */
  readonly count: (by: "replica" | "primary") => void
  readonly clock: Clock
  readonly log: Log
}

/** What can be read from a copy. */
export interface Reads {
  readonly search: Storage["search"]
  readonly page: Storage["messages"]["page"]
}

/** Looks that are compared with what the copy has by now. */
const maxMarks = 8

export class Replica {
  readonly #options: ReplicaOptions
  readonly #sql
  readonly #searching
  readonly #wal: ReturnType<typeof walStorage>
  readonly #reads: Reads
  readonly #timer: Timer
  #marks: { readonly atMs: number; readonly written: bigint }[] = []
  /** Everything that was committed before this moment of the process' own clock is in the copy. */
  #hasUntilMs = -Infinity
  #isLooking = false
  #wasUsed = false

  constructor(options: ReplicaOptions) {
    this.#options = options
    const { pool, readConnections, lookEveryMs, clock } = options
    const copy = { ...pool, evenReadOnly: true }
    this.#sql = openPool({ ...copy, connections: readConnections, name: `${pool.name} replica` })
    this.#searching = openPool({
      ...copy,
      connections: searchConnections,
      statementTimeoutMs: searchTimeoutMs,
      name: `${pool.name} replica search`,
      settings: searchSettings,
    })
    const observe: Observe = query => query
    this.#wal = bounded(walStorage(this.#sql), pool.statementTimeoutMs, observe)
    this.#reads = this.#withFallback({
      search: bounded(searchStorage(this.#searching), searchTimeoutMs, observe),
      page: bounded({ page: messagesStorage(this.#sql).page }, pool.statementTimeoutMs, observe).page,
    })
    this.#timer = clock.every(lookEveryMs, () => {
      this.look().catch(() => this.#noteUse())
    })
  }

  /** Milliseconds by which the copy may be behind; infinite while nothing is known of it. */
  get lagMs(): number {
    return this.#options.clock.monotonic() - this.#hasUntilMs
  }

  get isFresh(): boolean {
    return this.lagMs <= this.#options.maxLagMs
  }

  /** What is to be asked for somebody now; undefined: PostgreSQL itself. */
  async readsFor(user: string): Promise<Reads | undefined> {
    const isIts = this.isFresh && (await this.#options.mayLag(user)) && this.isFresh
    if (!isIts) this.#options.count("primary")
    return isIts ? this.#reads : undefined
  }

  async look(): Promise<void> {
    if (this.#isLooking) return
    this.#isLooking = true
    try {
      const { primary, clock } = this.#options
      const atMs = clock.monotonic()
      const written = await primary.wal.written()
      this.#marks = [...this.#marks, { atMs, written }].slice(-maxMarks)
      const replayed = await this.#wal.replayed()
      if (replayed === undefined) throw new Error("DATABASE_REPLICA_URL names no standby")
      for (const mark of this.#marks)
        if (mark.written <= replayed) this.#hasUntilMs = Math.max(this.#hasUntilMs, mark.atMs)
    } finally {
      this.#isLooking = false
      this.#noteUse()
    }
  }

  async close(): Promise<void> {
    this.#timer.stop()
    await Promise.all([this.#sql.end({ timeout: 1 }), this.#searching.end({ timeout: 1 })])
  }

  #noteUse(): void {
    const { log } = this.#options
    if (this.isFresh === this.#wasUsed) return
    this.#wasUsed = this.isFresh
    if (this.#wasUsed) log.info({}, "the replica of PostgreSQL is read from")
    else log.warn({}, "the replica of PostgreSQL is behind or away; everything is read from the primary")
  }

  /** What a copy does not answer is asked of PostgreSQL: a copy also ends statements that are in the way of its own work. */
  #withFallback({ search, page }: Reads): Reads {
    const { primary } = this.#options
    const { outlinesFor, directsOf, participates, homesOf, channelsNamed, usersNamed, messages } = primary.search
    // REPL2
    const own = { outlinesFor, directsOf, participates, homesOf, channelsNamed, usersNamed, messages }
    return {
      search: { ...this.#orElse(search, primary.search), ...own },
      page: this.#orElse({ page }, { page: primary.messages.page }).page,
    }
  }

  #orElse<Group extends object>(copy: Group, own: Group): Group {
    const { count } = this.#options
    const owns = own as Record<string, Ask>
    const asked = Object.entries(copy).map(([name, ask]: [string, Ask]) => [
      name,
      async (...args: unknown[]) => {
        try {
          const answer = await ask(...args)
          count("replica")
          return answer
        } catch (error) {
          // It would be no better there, or took the time of those who wait.
          if (isDataError(error) || isStoppedStatement(error)) throw error
          this.#hasUntilMs = -Infinity
          this.#marks = []
          this.#noteUse()
          count("primary")
          return owns[name]!(...args)
        }
      },
    ])
    return Object.fromEntries(asked) as Group
  }
}

type Ask = (...args: unknown[]) => Promise<unknown>
