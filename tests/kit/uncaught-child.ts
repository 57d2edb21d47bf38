/**
 * A process that ends on bugs as workers do, and has a pool of one connection to PostgreSQL. Argument:
 * the pool's URL. It does what it is told, and answers.
 */
import { createLog } from "../../src/observability/log.ts"
import { endOnBugs } from "../../src/process/uncaught-errors.ts"
import { openPool } from "../../src/storage/core/database.ts"

export type UncaughtOrder = "ask" | "reserve" | "ask reserved" | "lose" | "fail" | "throw"

endOnBugs(createLog({ level: "info", process: "web" }, process.stdout), 1)
const pool = openPool({
  url: process.argv[2]!,
  connections: 1,
  statementTimeoutMs: 30_000,
  connectTimeoutMs: 30_000,
  name: "uncaught",
})
const refused = (code: string) => Object.assign(new Error(`connect ${code} 127.0.0.1:6379`), { code })

let reserved: Awaited<ReturnType<typeof pool.reserve>>

const orders: { [Order in UncaughtOrder]: () => void } = {
  /** A transaction, as lanes take one. The answer says whether it was carried out. */
  ask: () =>
    void pool
      .begin(sql => sql`SELECT 1`)
      .then(
        () => process.send!("done"),
        () => process.send!("failed"),
      ),
  /** Keeps the connection. */
  reserve: () =>
    void pool.reserve().then(connection => {
      reserved = connection
      process.send!("done")
    }),
  "ask reserved": () =>
    void reserved`SELECT 1`.then(
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
