/** PostgreSQL that has lost what it had committed while no worker ran, as a worker that starts finds it. */
import { inject } from "vitest"
import { LineageNotes } from "../../src/cluster/lineage-notes.ts"
import { openRedis } from "../../src/cluster/redis.ts"
import { silentLog } from "../../src/observability/log.ts"
import { beginLineage } from "../../src/runtime/lineage-watch.ts"
import { lineageStorage, type DatabaseState } from "../../src/storage/core/lineage.ts"
import { sharedServer } from "../kit/seeds.ts"
import { expect, test } from "../kit/test.ts"

test("LOSS2: Redis is believed as long as PostgreSQL is as far as it was seen to be, and by all alike", async ({
  cluster,
}) => {
  const redis = openRedis(inject("redis"), "lineage", () => {})
  await redis.connect()
  const notes = new LineageNotes(redis, cluster.redisPrefix)
  const store = lineageStorage(cluster.sql)
  const begin = async (seen: Partial<DatabaseState> = {}) => {
    const state = async (worker: string) => ({ ...(await store.state(worker)), ...seen })
    return (await beginLineage(notes, { lineage: { ...store, state }, onLoss() {}, work: () => 0 }, silentLog)).name
  }
  try {
    expect(await begin()).toBe("")
    await cluster.sql`INSERT INTO outbox (shard, number, last_id, body) VALUES (1, 7, 1, '')`
    const { system, tables, transaction } = await store.state("")
    const note = { lineage: "", system, tables, transaction, row: { shard: 1, number: 7 } }
    expect(await notes.keep(note)).toBe("")
    expect(await begin()).toBe("")
    // A worker that cannot ask for the system believes the rest.
    expect(await begin({ system: undefined })).toBe("")

    const [fewer, together] = await Promise.all([begin({ transaction: transaction - 1 }), begin({ transaction: 3 })])
    expect(fewer).not.toBe("")
    expect(together).toBe(fewer)
    // Nothing that the lineage before has seen counts now.
    expect(await begin({ transaction: 3 })).toBe(fewer)
    expect(await notes.keep(note)).toBe(fewer)
    expect(await notes.read()).toMatchObject({ lineage: fewer, row: undefined })

    const elsewhere = await begin({ system: "1" })
    expect(elsewhere).not.toBe(fewer)

    // Restored into an empty database of the same PostgreSQL, which has gone on.
    const restored = await begin({ system: "1", tables: "1" })
    expect(restored).not.toBe(elsewhere)
    expect(await begin({ system: "1", tables: "1" })).toBe(restored)
    const again = await begin({ system: "1" })
    expect(again).not.toBe(restored)

    await notes.keep({ ...note, lineage: again, system: undefined })
    expect(await begin({ system: "1" })).toBe(again)
    await cluster.sql`DELETE FROM outbox WHERE shard = 1`
    expect(await begin({ system: "1" })).not.toBe(again)
  } finally {
    redis.disconnect()
  }
})

test("LOSS1: anybody who comes while PostgreSQL is compared after a lost connection waits for it", async ({
  cluster,
}) => {
  const [east] = await cluster.boot(1)
  const { ada, channel } = await cluster.seed(() => sharedServer(cluster, east))
  let lost = 0
  for (let round = 0; round < 5; round++) {
    const ended = await cluster.sql`
      SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name LIKE ${`${east!.id}%`}`
    lost += ended.length
    const reasons: unknown[] = []
    for (let i = 0; i < 40; i++)
      await ada
        .on(east!)
        .createMessage({ channel_id: channel.id, content: `${round} ${i}` })
        .catch((error: unknown) => reasons.push(String(error)))
    // One that was under way when its connection ended may be refused for that.
    expect(reasons.filter(reason => !/\(database(?: unavailable)?\)/.test(String(reason)))).toEqual([])
  }
  expect(lost).toBeGreaterThan(5)
  cluster.errors.splice(0)
})
