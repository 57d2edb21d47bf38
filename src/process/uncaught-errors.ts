import type { Log } from "../observability/log.ts"
import { isLostInSetup } from "../storage/core/database.ts"

/** What Node.js warns of is a line of the log as any other; its own would be plain text between them. */
export function logWarnings(log: Log): void {
  process.removeAllListeners("warning")
  process.on("warning", (warning: Error) => log.warn({ err: warning }, "warning of Node.js"))
}

/**
 * A process that met a bug ends: nobody knows what it holds. Only what is known to be none is
 * logged.
 */
export function endOnBugs(log: Log, exitCode: number): void {
  const end = (error: unknown) => {
    log.fatal({ err: error }, "uncaught error")
    process.exit(exitCode)
  }
  process.on("uncaughtException", end)
  process.on("unhandledRejection", (error: unknown) => {
    if (isLostInSetup(error)) log.error({ err: error }, "connection to PostgreSQL lost while it was made")
    else end(error)
  })
}
