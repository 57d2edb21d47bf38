import { expect, test } from "vitest"
import { connectionCapacityStorage } from "../../storage/core/connection-capacity.ts"
import { cloneDatabase } from "../../../tests/kit/database.ts"
import { connectionsOf, shortage } from "./connection-budget.ts"

const storage = { readConnections: 6 }
const capacity = { maxConnections: 100, reserved: 3, limit: null, inUse: 0 }

test("a host that opens more connections than PostgreSQL takes is told so, with the sum", () => {
  expect(connectionsOf({ web: 4, job: 1 }, storage)).toEqual({ each: 10, all: 65 })
  expect(shortage({ web: 4, job: 1 }, storage, capacity)).toBeUndefined()
  expect(shortage({ web: 7, job: 1 }, storage, { ...capacity, inUse: 2 })).toBeUndefined()
  expect(shortage({ web: 7, job: 1 }, storage, { ...capacity, inUse: 3 })).toBe(
    "this host opens up to 95 connections to PostgreSQL: (7 web + 1 job workers + 1 while they are replaced) × 10 + the primary's = 95. " +
      "It takes max_connections 100 − 3 reserved = 97, of which 3 are in use by others. " +
      "Raise max_connections to 101 or more, or lower WORKERS or storage.readConnections",
  )
  expect(shortage({ web: 4, job: 1 }, storage, { ...capacity, limit: 50 })).toContain("limited to 50")
})

test("PostgreSQL says how many connections it takes, and how many of them others have", async () => {
  const { sql, drop, name } = await cloneDatabase()
  try {
    const { capacity } = connectionCapacityStorage(sql)
    const before = await capacity("no such host")
    const [{ max }] = await sql<[{ max: number }]>`SELECT current_setting('max_connections')::int AS max`
    expect(before).toMatchObject({ maxConnections: max, limit: null })
    expect(before.reserved).toBeGreaterThan(0)
    await sql.unsafe(`ALTER DATABASE ${name} CONNECTION LIMIT 30`)
    expect((await capacity("no such host")).limit).toBe(30)
    // The pool of this test has another connection, which is no other host's to itself.
    await Promise.all([sql`SELECT pg_sleep(0.01)`, sql`SELECT pg_sleep(0.01)`])
    const own = await sql<{ n: number }[]>`
      SELECT count(*)::int AS n FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'test'`
    expect(own[0]!.n).toBeGreaterThan(0)
    expect((await capacity("test")).inUse).toBeLessThan((await capacity("no such host")).inUse)
  } finally {
    await drop()
  }
})
