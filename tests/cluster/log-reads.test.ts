/** LOGREAD1 to LOGREAD3: reading a delivery log back. */
import { randomUUID } from "node:crypto"
import { afterAll, beforeAll, expect, inject, test } from "vitest"
import { DeliveryLogs } from "../../src/cluster/delivery-log.ts"
import { redisKeys } from "../../src/cluster/keys.ts"
import { readBytes } from "../../src/cluster/log-reads.ts"
import { openRedis } from "../../src/cluster/redis.ts"
import { openLink } from "../chaos/proxy.ts"
import { until } from "../kit/until.ts"

const redis = openRedis(inject("redis"), "log reads test", () => {})
beforeAll(() => redis.connect())
afterAll(() => redis.quit())

/** A log of so many entries, each of one event, read over another connection than it is appended over. */
async function open(sizes: readonly number[], replay = redis) {
  const logs = new DeliveryLogs(redis, replay, redisKeys(`test-${randomUUID()}:`))
  await logs.create("w", 1000)
  for (const [i, size] of sizes.entries())
    await logs.append("w", [
      { shard: 1, epoch: 1, number: i + 1, before: i, fields: ['["e",1,1,"home"]', "漢".repeat(size / 3)] },
    ])
  return logs
}

test("LOGREAD2: a read holds about a megabyte, and one entry however large it is", async () => {
  const sizes = [300, 60_000, 3 * readBytes, ...Array.from({ length: 60 }, () => 60_000)]
  const logs = await open(sizes)
  const seen: number[] = []
  for (let at = 1000; ;) {
    const items = await logs.read("w", at, 500)
    if (items.length === 0) break
    const bytes = items.map(item => Buffer.byteLength(item.data))
    // No more entries are read than reach it, but for three that are read together with the last one.
    const largest = bytes.includes(3 * readBytes) ? 3 * readBytes : 60_000
    expect(bytes.reduce((sum, one) => sum + one, 0)).toBeLessThan(readBytes + 60_000 * 3 + largest)
    seen.push(...bytes)
    at = items.at(-1)!.s
  }
  expect(seen).toEqual(sizes)
})

test("LOGREAD1, LOGREAD3: a read that takes too long is given up with its connection; appends and the next read do not wait", async () => {
  const url = new URL(inject("redis"))
  const target = { host: url.hostname, port: Number(url.port) }
  const link = await openLink("replay", () => target)
  url.host = `127.0.0.1:${link.port}`
  const replay = openRedis(url.href, "log reads test replay", () => {}, { commandTimeout: 300 })
  await replay.connect()
  try {
    const logs = await open(
      Array.from({ length: 40 }, () => 60_000),
      replay,
    )
    expect(await logs.read("w", 1000, 1)).toHaveLength(1)
    const before = link.counts.connections
    link.set({ bandwidth: 200_000 })
    const late = Promise.allSettled([logs.read("w", 1000, 500), logs.read("w", 1000, 500)])
    const startedAt = performance.now()
    const appended = await logs.append("w", [{ shard: 1, epoch: 1, number: 41, before: 40, fields: ["[]", "x"] }])
    expect(appended).toEqual([{ is: "ok" }])
    expect(performance.now() - startedAt).toBeLessThan(250)
    expect((await late).map(({ status }) => status)).toEqual(["rejected", "rejected"])
    link.set({})
    // Nothing of the answer that was given up is received any more.
    await until("it is read again", () =>
      logs.read("w", 1000, 500).then(
        items => items.length > 10,
        () => false,
      ),
    )
    expect(link.counts.connections).toBeGreaterThan(before)
  } finally {
    replay.disconnect()
    await link.close()
  }
})
