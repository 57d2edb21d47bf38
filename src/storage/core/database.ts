import { existsSync } from "node:fs"
import postgres from "postgres"
import type { Counter } from "../../observability/instruments.ts"
import type { Metrics } from "../../observability/metrics.ts"
import { backoffMs } from "../../std/backoff.ts"
import type { PoolWaits } from "./pool-waits.ts"

export type Sql = postgres.Sql
/** What a statement can be built on: the pool, or the transaction that is open. */
export type Statements = postgres.Sql | postgres.TransactionSql
export type Statement = postgres.PendingQuery<postgres.Row[]>

export interface PoolOptions {
  url: string
  connections: number
  statementTimeoutMs: number
  connectTimeoutMs: number
  name: string
  /**
   * Also with a database that takes no writes; else such a connection is ended as soon as it
   * stands.
   */
  evenReadOnly?: boolean
  /** PostgreSQL's settings on each connection. */
  settings?: Readonly<Record<string, string>>
  /** Ends a transaction whose process was paused, so that it cannot hold row locks. */
  idleInTransactionTimeoutMs?: number
  /** Called whenever a connection ends that nobody here has ended. */
  onLoss?: () => void
}

/**
 * bigint columns hold ids (strings, exact) or seconds (numbers by contract); ids are far above
 * 2^53, seconds far below.
 */
const bigints = {
  to: 20,
  from: [20],
  serialize: (value: unknown) => String(value),
  parse: (digits: string) => (digits.length < 15 ? Number(digits) : digits),
}

/**
 * A pool of connections. One pool never serves both transactions and plain queries: postgres.js
 * 3.4.9 can send a BEGIN on a connection that it did not reserve when the two share one.
 */
export function openPool(options: PoolOptions): Sql {
  let pool: Sql
  let ended = false
  let replacedAt = -Infinity
  let replacing: NodeJS.Timeout | undefined
  const replace = () => {
    replacing = undefined
    replacedAt = performance.now()
    const former = pool
    pool = open()
    // What is under way there is finished, or given up when nobody waits for it any longer.
    former.end({ timeout: options.statementTimeoutMs / 1000 }).catch(() => {})
  }
  const open = (): Sql => {
    const opened: Sql = connect(options, () => {
      if (opened !== pool || ended) return
      options.onLoss?.()
      if (replacing) return
      replacing = setTimeout(replace, Math.max(0, replacedAt + replaceEveryMs - performance.now()))
    })
    return opened
  }
  pool = open()
  const end: Sql["end"] = options => {
    ended = true
    clearTimeout(replacing)
    return pool.end(options)
  }
  return new Proxy(pool, {
    apply: (_, __, words: unknown[]) => Reflect.apply(pool, undefined, words),
    get: (_, key) => (key === "end" ? end : Reflect.get(pool, key)),
  })
}

/**
 * A pool whose connection was lost is replaced as a whole, at most once in so many milliseconds: a
 * connection of postgres.js 3.4.9 that closes while something waits to be written writes nothing
 * until a kilobyte has gathered, and then garbage, so what is asked of it hangs for many seconds.
 * This can go once the connection forgets its `nextWriteTimer` and `chunk` where the socket closes;
 * tests/cluster/pools.test.ts will say so.
 */
const replaceEveryMs = 250

/**
 * As a pool, but what is lost is made anew only when something is asked. `onNotify`: one of its
 * connections has heard this text.
 */
export const openConnection = (options: PoolOptions, onclose: () => void, onNotify: (text: string) => void): Sql =>
  connect(options, onclose, onNotify)

/** `?host=/FOLDER` names the folder of a unix socket, as for libpq; the client itself would send it to the server as a setting. */
function readUrl(text: string): { url: string; path?: string } {
  if (!text.includes("host=")) return { url: text }
  const url = new URL(text)
  const folder = url.searchParams.get("host")
  if (!folder?.startsWith("/")) return { url: text }
  url.searchParams.delete("host")
  const path = `${folder}/.s.PGSQL.${url.port || "5432"}`
  // Where somebody has cleared the folder away there is still the port.
  return { url: url.href, ...(existsSync(path) && { path }) }
}

function connect(options: PoolOptions, onclose: () => void, onNotify?: (text: string) => void): Sql {
  const { url, path } = readUrl(options.url)
  return postgres(url, {
    ...(path !== undefined && { path }),
    onclose,
    // Not in the client's types: it hands on what `listen` and this one hear alike.
    ...(onNotify && { onnotify: (_: string, text: string) => onNotify(text) }),
    max: options.connections,
    connect_timeout: options.connectTimeoutMs / 1000,
    idle_timeout: 0,
    max_lifetime: null,
    backoff: attempt => backoffMs(attempt, 50, 1_000) / 1_000,
    types: { bigint: bigints as never },
    onnotice: () => {},
    // A connection made while a database takes no writes would refuse them for as long as it lives.
    target_session_attrs: options.evenReadOnly ? undefined : "read-write",
    connection: {
      application_name: options.name,
      statement_timeout: options.statementTimeoutMs,
      // Whatever the server's default: what is acknowledged is on disk.
      synchronous_commit: "on",
      ...options.settings,
      ...(options.idleInTransactionTimeoutMs
        ? { idle_in_transaction_session_timeout: options.idleInTransactionTimeoutMs }
        : {}),
    },
  })
}

/**
 * Whether PostgreSQL refused the statement for what it says or for its rows: asked again, it would
 * refuse again.
 */
export function isDataError(error: unknown): error is postgres.PostgresError {
  if (!(error instanceof postgres.PostgresError)) return false
  return /^(0A|21|22|23|42)/.test(error.code)
}

/**
 * Whether PostgreSQL took a transaction back because of another one that ran at the same time:
 * asked again, it may succeed.
 */
export const isTakenBack = (error: unknown): boolean =>
  error instanceof postgres.PostgresError && (error.code === "40001" || error.code === "40P01")

/** Somebody else holds a table for longer than `lock_timeout`. */
export const isLockTimeout = (error: unknown): boolean =>
  error instanceof postgres.PostgresError && error.code === "55P03"

/** PostgreSQL, or the way to it, did not answer in time. */
class NoAnswer extends Error {
  readonly code = "NO_ANSWER"
}

/** 25006: it takes no writes; 53: no memory, disk or connection is left; 58: its disk fails it. */
const unavailableCodes =
  /^(08...|25006|53...|57014|57P0.|58...|NO_ANSWER|CONNECTION_CLOSED|CONNECTION_ENDED|CONNECTION_DESTROYED|CONNECT_TIMEOUT|EMFILE|ENFILE|ECONNREFUSED|ECONNRESET|EPIPE|ETIMEDOUT|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH)$/

/**
 * Whether PostgreSQL or the way to it is gone, cannot serve now, or took too long: nothing is wrong
 * with what was asked.
 */
export function isDatabaseUnavailable(error: unknown): boolean {
  if (!(error instanceof Error) || !("code" in error)) return false
  // FATAL ends the session with PostgreSQL, whatever the reason.
  return ("severity" in error && error.severity === "FATAL") || unavailableCodes.test(String(error.code))
}

/** What postgres.js asks each new connection by itself: its types, and whether it takes writes. */
const setupStatements = /pg_catalog\.pg_type|pg_is_in_recovery/

/**
 * Whether a connection was lost while postgres.js 3.4.9 set it up. It does not wait for the answers,
 * so nobody awaits what this rejects; the connection is made anew. This can go when postgres.js
 * handles it: tests/process/uncaught-errors.test.ts will say so.
 */
export const isLostInSetup = (error: unknown): boolean =>
  isDatabaseUnavailable(error) && setupStatements.test(String((error as { query?: unknown }).query))

/** Whether a statement was ended because it took too long, there or here. */
export const isStoppedStatement = (error: unknown): boolean =>
  error instanceof NoAnswer || (error instanceof postgres.PostgresError && error.code === "57014")

/** Whether nothing more can be asked on the connection that the error came from. */
export const isSessionOver = (error: unknown): boolean =>
  !(error instanceof postgres.PostgresError) || ("severity" in error && error.severity === "FATAL")

/**
 * Whether the connection itself has ended, not only what was asked on it. One that is merely slow
 * still takes a ROLLBACK.
 */
const isConnectionOver = (error: unknown): boolean =>
  error instanceof postgres.PostgresError
    ? "severity" in error && error.severity === "FATAL"
    : isDatabaseUnavailable(error) && !(error instanceof NoAnswer)

/**
 * postgres.js 3.4.9 ends the process when a transaction whose connection has closed sends its
 * ROLLBACK; so a transaction that has lost its connection sends nothing more. `begin` itself
 * rejects as soon as the connection is closed. It can go when a write to a closed connection is an
 * ordinary error (porsager/postgres issue 1208).
 */
export const closing = new Promise<never>(() => {})

/** Commits what `act` asks for together, or nothing of it. The pool serves nothing else. `mode`: as in BEGIN. */
export const inTransaction = <T>(sql: Sql, act: (transaction: Statements) => Promise<T>, mode = ""): Promise<T> =>
  sql.begin(mode, async transaction => {
    try {
      return await act(transaction)
    } catch (error) {
      if (isConnectionOver(error)) await closing
      throw error
    }
  }) as Promise<T>

/** Bounds what has no deadline of its own on this side. */
export function within<T>(promise: PromiseLike<T>, milliseconds: number, what: string): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new NoAnswer(`${what}: no answer within ${milliseconds} ms`)), milliseconds)
    promise.then(
      value => {
        clearTimeout(timer)
        resolve(value)
      },
      (error: unknown) => {
        clearTimeout(timer)
        reject(error instanceof Error ? error : new Error(String(error)))
      },
    )
  })
}

/** Counts one query, from here to its end. */
export type Observe = <T>(query: Promise<T>) => Promise<T>

export interface ObservedQueries {
  readonly pool: keyof Metrics["pools"]["queries"]
  /** What counts as one, of all that a query may end with. */
  readonly isFailure: (error: unknown) => boolean
  /** Where it is counted how long queries wait for a connection. */
  readonly waits?: PoolWaits
  /** Of which the time is added up. */
  readonly group?: string
}

export function observing({ pools }: Pick<Metrics, "pools">, queries: ObservedQueries): Observe {
  const { pool, isFailure, waits, group } = queries
  let ended: { count: Counter; seconds: Counter } | undefined
  const note = (startedAt: number) => {
    if (group === undefined) return
    ended ??= { count: pools.statements.of(group), seconds: pools.statementSeconds.of(group) }
    ended.count.inc()
    ended.seconds.inc((performance.now() - startedAt) / 1000)
  }
  return async query => {
    const startedAt = performance.now()
    pools.queries[pool].inc()
    pools.inFlight[pool].inc()
    waits?.begin()
    try {
      return await query
    } catch (error) {
      if (isFailure(error)) pools.errors[pool].inc()
      throw error
    } finally {
      waits?.end()
      pools.inFlight[pool].dec()
      note(startedAt)
    }
  }
}

/** The same functions, each with a deadline and counted. */
export function bounded<Group extends object>(group: Group, milliseconds: number, observe: Observe): Group {
  return around(group, (ask, name) => observe(within(ask(), milliseconds, name)))
}

/** The same functions, each of which is begun as `begin` says. */
export function around<Group extends object>(
  group: Group,
  begin: (ask: () => Promise<unknown>, name: string) => Promise<unknown>,
): Group {
  const entries = Object.entries(group) as [string, (...args: unknown[]) => Promise<unknown>][]
  return Object.fromEntries(
    entries.map(([name, ask]) => [name, (...args: unknown[]) => begin(() => ask(...args), name)]),
  ) as Group
}
