import type { Log } from "../observability/log.ts"
import { isLostInSetup } from "../storage/core/database.ts"

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
