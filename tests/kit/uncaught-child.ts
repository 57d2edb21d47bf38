/**
 * A process that ends on bugs as workers do, and has a pool of one connection to PostgreSQL. Argument:
 * the pool's URL. It does what it is told, and answers.
 */
import { createLog } from "../../src/observability/log.ts"
import { endOnBugs } from "../../src/process/uncaught-errors.ts"
import { openPool } from "../../src/storage/core/database.ts"

export type UncaughtOrder = "ask" | "lose" | "fail" | "throw"

endOnBugs(createLog({ level: "info", process: "web" }, process.stdout), 1)
const pool = openPool({
  url: process.argv[2]!,
  connections: 1,
  statementTimeoutMs: 30_000,
  connectTimeoutMs: 30_000,
  name: "uncaught",
})
const refused = (code: string) => Object.assign(new Error(`connect ${code} 127.0.0.1:6379`), { code })

const orders: { [Order in UncaughtOrder]: () => void } = {
  /** A transaction, as lanes take one. The answer says whether it was carried out. */
  ask: () =>
    void pool
      .begin(sql => sql`SELECT 1`)
      .then(
        () => process.send!("done"),
        () => process.send!("failed"),
      ),
  /** Nobody awaits what was asked of something else that is away. */
  lose: () => void Promise.reject(refused("ECONNREFUSED")),
  fail: () => void Promise.reject(new TypeError("a bug")),
  throw: () => {
    throw new TypeError("a bug")
  },
}
process.on("message", (order: UncaughtOrder) => orders[order]())
process.on("disconnect", () => process.exit(0))
process.send!("ready")
