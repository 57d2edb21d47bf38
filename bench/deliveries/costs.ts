/**
 * What it costs to say to how many messages were delivered, by members of a server; in this
 * process, so that nothing else is in it.
 */
import postgres from "postgres"
import { epochMs } from "../../src/domain/core/snowflake.ts"
import { DeliveryCounts } from "../../src/views/delivery-counts.ts"
import { openStorage } from "../../src/storage/storage.ts"
import { systemClock } from "../../src/std/system-clock.ts"
import { explained } from "../communities/plans.ts"
import type { Fixture } from "../communities/fixture.ts"
import { figure, type Figure } from "../statistics.ts"

export interface DeliveredCost {
  readonly members: number
  /** Milliseconds of the first page: everybody is looked up. */
  readonly first: Figure
  /** Microseconds of this process's CPU for that. */
  readonly firstCpu: Figure
  /** Microseconds of each page after it, until everybody is looked up again. */
  readonly next: Figure
  readonly statement: { readonly blocks: number; readonly milliseconds: number; readonly ways: string }
}

export interface CursorCost {
  /** Microseconds of a cursor, in statements of so many rows that all move one. */
  readonly rows: number
  readonly written: Figure
  /** Microseconds of a session that begins, of so many that do so together. */
  readonly sessions: number
  readonly begun: Figure
}

const pageSize = 50
const pagesAfterwards = 2_000

/**
 * Where everybody stands. Beside the members there are users of other servers, as in a service that
 * has many.
 */
export async function plantCursors(databaseUrl: string, others: number): Promise<void> {
  const sql = postgres(databaseUrl, { max: 1, onnotice: () => undefined })
  const now = Date.now()
  try {
    await sql`UPDATE members SET since_id = (((joined_at * 1000 - ${epochMs}::bigint) << 22) + user_id % 4096)`
    await sql`
      INSERT INTO deliveries (home_id, user_id, message_id)
      SELECT server_id, user_id, (${now - epochMs}::bigint - (user_id >> 12) % 1000 * 7) << 22 FROM members
      UNION ALL SELECT i % 1000, i, ${now - epochMs}::bigint << 22 FROM generate_series(1, ${others}::int) AS i
      ON CONFLICT DO NOTHING`
    await sql`VACUUM ANALYZE deliveries, members, read_states`
  } finally {
    await sql.end({ timeout: 5 })
  }
}

/** What it costs to write cursors, and to find out what was there before a session. */
export async function benchCursors(databaseUrl: string, { communities }: Fixture, runs: number): Promise<CursorCost> {
  const sql = postgres(databaseUrl, { max: 1, onnotice: () => undefined })
  const { deliveriesStorage } = await import("../../src/storage/messages/deliveries.ts")
  try {
    const { move, before } = deliveriesStorage(sql as never)
    const { id: home_id } = communities.at(-1)!
    const members = await sql<{ id: string }[]>`
      SELECT user_id::text AS id FROM members WHERE server_id = ${home_id} ORDER BY user_id LIMIT 5000`
    const users = members.slice(0, 500).map(({ id }) => id)
    const written: number[] = []
    const begun: number[] = []
    for (let run = 0; run <= 5 * runs; run++) {
      const message_id = ((BigInt(Date.now() - epochMs + 1_000 * run) << 22n) | BigInt(run)).toString()
      const rows = members.map(({ id }) => ({ home_id, user_id: id, message_id }))
      const startedAt = performance.now()
      await move(rows)
      const movedAt = performance.now()
      await before(users)
      // The first of all connects.
      if (run === 0) continue
      written.push(((movedAt - startedAt) * 1e3) / rows.length)
      begun.push(((performance.now() - movedAt) * 1e3) / users.length)
    }
    return { rows: members.length, written: figure(written), sessions: users.length, begun: figure(begun) }
  } finally {
    await sql.end({ timeout: 5 })
  }
}

export async function benchDelivered(
  databaseUrl: string,
  { communities }: Fixture,
  runs: number,
): Promise<DeliveredCost[]> {
  const storage = openStorage({
    url: databaseUrl,
    readConnections: 2,
    statementTimeoutMs: 30_000,
    connectTimeoutMs: 5_000,
    name: "benchmark",
  })
  try {
    const costs: DeliveredCost[] = []
    for (const { id: server, plainChannel: channel, members, people } of communities) {
      const latest = (BigInt(Date.now() - epochMs) << 22n) | (BigInt(server) & 0x3ff000n)
      const page = Array.from({ length: pageSize }, (_, i) => ({
        id: (latest - (BigInt(i * 100) << 22n)).toString(),
        author_id: people[i % people.length]!.id,
      }))
      const first: number[] = []
      const firstCpu: number[] = []
      const next: number[] = []
      for (let run = 0; run <= 5 * runs; run++) {
        const delivered = new DeliveryCounts({ storage, clock: systemClock })
        const cpuBefore = process.cpuUsage()
        const startedAt = performance.now()
        await delivered.counts(channel, server, page)
        const took = performance.now() - startedAt
        const { user, system } = process.cpuUsage(cpuBefore)
        // The first of all connects, and is compiled.
        if (run > 0) {
          first.push(took)
          firstCpu.push(user + system)
        }
      }
      const delivered = new DeliveryCounts({ storage, clock: { ...systemClock, monotonic: () => 0 } })
      await delivered.counts(channel, server, page)
      for (let run = 0; run < runs; run++) {
        const startedAt = performance.now()
        // Another array each time: what was counted of the same one is kept.
        for (let i = 0; i < pagesAfterwards; i++) await delivered.counts(channel, server, page.slice())
        next.push(((performance.now() - startedAt) * 1000) / pagesAfterwards)
      }
      const statement = await explain(databaseUrl, server, channel, people[0]!.id)
      costs.push({ members, first: figure(first), firstCpu: figure(firstCpu), next: figure(next), statement })
    }
    return costs
  } finally {
    await storage.close()
  }
}

async function explain(databaseUrl: string, server: string, channel: string, owner: string) {
  const { deliveriesStorage } = await import("../../src/storage/messages/deliveries.ts")
  const asked: { text: string; values: readonly unknown[] }[] = []
  const sql = postgres(databaseUrl, {
    max: 1,
    onnotice: () => undefined,
    debug: (_connection, text, values) => asked.push({ text, values: values as unknown[] }),
  })
  try {
    await sql`SELECT 1`
    asked.length = 0
    await deliveriesStorage(sql).ofServers([{ channel_id: channel, server_id: server, byRoles: false, named: [owner] }])
    const statements = asked.splice(0).map(({ text, values }) => ({
      text,
      values: values.map(value => (Array.isArray(value) ? `{${value.join(",")}}` : value)),
    }))
    return await explained(sql, "force_custom_plan", statements)
  } finally {
    await sql.end({ timeout: 5 })
  }
}
