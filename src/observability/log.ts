import { pino, type DestinationStream, type Logger } from "pino"
import { inSource } from "./stack-traces.ts"

/**
 * `log.warn({ shard, held_by }, "lease lost")`: a constant phrase, facts as fields. `log.child({
 * request_id })` carries facts on.
 */
export type Log = Logger

export type ProcessRole = "primary" | "web" | "job"

export interface LogOptions {
  level: string
  process: ProcessRole
  /** The name of the worker's place, such as "web-0"; the same after a restart. */
  worker?: string
}

/**
 * JSON lines with ISO time on stdout, or on `destination`. What `visible` hides never leaves the
 * process.
 */
export function createLog({ level, process: role, worker }: LogOptions, destination?: DestinationStream): Log {
  const options = {
    level,
    timestamp: pino.stdTimeFunctions.isoTime,
    base: { process: role, ...(worker !== undefined && { worker }), pid: process.pid },
    formatters: { level: (level: string) => ({ level }), log: visible },
    // `formatters.log` has already turned errors into plain facts.
    serializers: { err: (err: unknown) => err },
  }
  const log: Logger = destination ? pino(options, destination) : pino(options)

  // pino shows a child's bindings to no formatter. Children inherit from their parent, so theirs
  // come by here as well.
  const child = log.child
  log.child = function (this: Logger, bindings: Record<string, unknown>, options?: never) {
    return child.call(this, visible(bindings), options)
  } as typeof log.child
  return log
}

/** Says nothing; for tests and for parts that run without a process of their own. */
export const silentLog: Log = pino({ level: "silent" }, { write() {} })

/**
 * Names that end so hold what no log may hold: `token`, `new_password`, `set-cookie`, `totpSecret`,
 * …
 */
const secret = /(token|password|authorization|cookie|e?mail|content|secret)s?$/i
const hidden = "[hidden]"
const deepest = 8

/** What every line has. A fact of that name, which is one of something else, would stand there twice: it is `of_pid`, say. */
const ownFields = ["level", "time", "process", "worker", "pid", "msg"]

function visible(fields: Record<string, unknown>): Record<string, unknown> {
  const shown = show(fields, 0) as Record<string, unknown>
  for (const name of ownFields) {
    if (!Object.hasOwn(shown, name)) continue
    shown[`of_${name}`] = shown[name]
    delete shown[name]
  }
  return shown
}

/**
 * A copy without secrets at any depth. Bytes become their length, errors the facts that name no
 * row.
 */
function show(value: unknown, depth: number): unknown {
  if (typeof value !== "object" || value === null || value instanceof Date) return value
  if (depth > deepest) return "[deep]"
  if (value instanceof Error) return showError(value, depth)
  if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) return `[${value.byteLength} bytes]`
  if (Array.isArray(value)) return value.map(item => show(item, depth + 1))
  if (value instanceof Map || value instanceof Set) return `[${value.size} entries]`
  const copy: Record<string, unknown> = {}
  for (const [name, field] of Object.entries(value)) {
    copy[name] = secret.test(name) && field !== null && field !== undefined ? hidden : show(field, depth + 1)
  }
  return copy
}

/**
 * An allowlist, because errors carry what they failed on: PostgreSQL's `detail` quotes the row
 * (mail address, message text), ioredis' `command.args` the token.
 */
const errorFacts = ["code", "severity", "constraint_name", "table_name", "routine", "syscall", "address", "port"]

function showError(error: Error, depth: number): Record<string, unknown> {
  const facts: Record<string, unknown> = { type: error.name, message: error.message }
  for (const name of errorFacts) {
    const fact = (error as unknown as Record<string, unknown>)[name]
    if (typeof fact === "string" || typeof fact === "number") facts[name] = fact
  }
  facts["stack"] = inSource(error.stack)
  if (error.cause !== undefined) facts["cause"] = show(error.cause, depth + 1)
  if (error instanceof AggregateError) facts["errors"] = show(error.errors, depth + 1)
  return facts
}
