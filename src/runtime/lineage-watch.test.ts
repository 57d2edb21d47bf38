import { afterAll, expect, test } from "vitest"
import { silentLog } from "../observability/log.ts"
import { createMetrics } from "../observability/metrics.ts"
import { systemClock as clock } from "../std/system-clock.ts"
import { LineageWatch } from "./lineage-watch.ts"

const metrics = createMetrics()
afterAll(() => metrics.close())

/** A worker whose row is gone. @param serving what it says of itself before PostgreSQL answers, and after it */
async function look([before, after]: readonly [boolean, boolean]) {
  let isServing = before
  let isLost = false
  const left: string[] = []
  const note = { lineage: "h1", system: "1", tables: "2", transaction: 5, row: undefined }
  const watch = new LineageWatch({
    lineage: {
      name: "h1",
      notes: {
        read: async () => note,
        keep: async () => "h1",
        leave: async (lineage, next) => (left.push(lineage), next),
      },
      store: {
        async state() {
          isServing = after
          return { system: "1", tables: "2", transaction: 6, isEnrolled: false }
        },
        shardBehind: async () => undefined,
      },
      onConnectionLost() {},
    },
    worker: "w1",
    shards: new Map(),
    isServing: () => isServing,
    onLost: () => (isLost = true),
    clock,
    log: silentLog,
    metrics,
  })
  await watch.confirm()
  watch.stop()
  return { isLost, left, isWhole: watch.isWhole }
}

test("LOSS2: a worker without a row ends the lineage only if it was living before it asked and still is after the answer", async () => {
  expect(await look([true, true])).toEqual({ isLost: true, left: ["h1"], isWhole: false })
  // Paused for long in between, it was declared dead and forgotten.
  const goesOn = { isLost: false, left: [], isWhole: true }
  expect(await look([true, false])).toEqual(goesOn)
  expect(await look([false, true])).toEqual(goesOn)
})
