import { expect, test } from "vitest"
import type { Connection } from "../state/session.ts"
import { drainPauseMs, forEachInBatches, batchSize } from "./drain.ts"

const connections = (count: number) => Array.from({ length: count }, () => ({ closed: false }) as Connection)

test("every item is handled once, batch by batch, with a pause between two batches and none after the last", async () => {
  const said: (string | number)[] = []
  let inWave = 0
  const clock = {
    async sleep(milliseconds: number) {
      said.push(inWave, `pause ${milliseconds}`)
      inWave = 0
    },
  }
  await forEachInBatches(connections(2 * batchSize + 1), 7, clock, () => inWave++)
  expect([...said, inWave]).toEqual([batchSize, "pause 7", batchSize, "pause 7", 1])
})

test("connections that closed meanwhile are left out", async () => {
  const all = connections(batchSize + 2)
  const seen = new Set<Connection>()
  const clock = {
    async sleep() {
      all.at(-1)!.closed = true
    },
  }
  await forEachInBatches(all, 1, clock, connection => seen.add(connection))
  expect(seen.size).toBe(batchSize + 1)
})

test("a drain spreads those who come back, and is over in time however many they are", () => {
  const topology = { perSecond: 2_500, withinMs: 8_000 }
  expect(drainPauseMs(0, topology)).toBe(0)
  expect(drainPauseMs(batchSize, topology)).toBe(0)
  expect(drainPauseMs(batchSize + 1, topology)).toBe(100)
  expect(drainPauseMs(10_000, topology)).toBe(100)
  for (const count of [30_000, 100_000, 1_000_000]) {
    const waves = Math.ceil(count / batchSize)
    expect(drainPauseMs(count, topology) * (waves - 1)).toBeCloseTo(8_000)
  }
})
