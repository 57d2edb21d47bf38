import { setImmediate as turn } from "node:timers/promises"
import { afterAll, expect, test } from "vitest"
import { silentLog } from "../observability/log.ts"
import { createMetrics } from "../observability/metrics.ts"
import { systemClock as clock } from "../std/system-clock.ts"
import { LineageWatch, type Lineage } from "./lineage-watch.ts"

const metrics = createMetrics()
afterAll(() => metrics.close())

/** A worker whose row is gone. @param serving what it says of itself before PostgreSQL answers, and after it */
async function look([before, after]: readonly [boolean, boolean]) {
  let isServing = before
  let isLost = false
  const left: string[] = []
  const note = { lineage: "h1", system: "1", tables: "2", transaction: 5, row: undefined }
  const notes: Lineage["notes"] = {
    on: () => notes,
    name: async () => "h1",
    read: async () => note,
    keep: async () => "h1",
    leave: async (lineage, next) => (left.push(lineage), next),
  }
  const watch = new LineageWatch({
    lineage: {
      name: "h1",
      notes,
      store: {
        async state() {
          isServing = after
          return { system: "1", tables: "2", transaction: 6, isEnrolled: false }
        },
        shardBehind: async () => undefined,
      },
      onConnectionLost() {},
      work: () => 0,
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

/** A worker whose time is the test's, and a PostgreSQL that has ended `transaction`s. */
function timed() {
  const at = { ms: 10_000, work: 0, transaction: 5, name: "h1", isUnavailable: false }
  const note = { lineage: "h1", system: "1", tables: "2", transaction: 5, row: undefined }
  const asked: string[] = []
  const lost: string[] = []
  let tick = () => {}
  let loseConnection = () => {}
  const notes: Lineage["notes"] = {
    on: () => notes,
    name: async () => (asked.push("name"), at.name),
    read: async () => ({ ...note, lineage: at.name }),
    keep: async ({ transaction }) => ((note.transaction = transaction), at.name),
    leave: async (_, next) => next,
  }
  const watch = new LineageWatch({
    lineage: {
      name: "h1",
      notes,
      store: {
        async state() {
          asked.push("state")
          if (at.isUnavailable) throw new Error("PostgreSQL is away")
          return { system: "1", tables: "2", transaction: at.transaction, isEnrolled: true }
        },
        shardBehind: async () => undefined,
      },
      onConnectionLost: listener => void (loseConnection = listener),
      work: () => at.work,
    },
    worker: "w1",
    shards: new Map(),
    isServing: () => true,
    onLost: () => lost.push("lost"),
    clock: { ...clock, monotonic: () => at.ms, every: (_, action) => ((tick = action), { stop() {} }) },
    log: silentLog,
    metrics,
  })
  watch.start()
  return {
    at,
    note,
    asked,
    lost,
    watch,
    loseConnection: () => loseConnection(),
    /** What is asked in so many steps of half a second. */
    async after(steps: number) {
      asked.splice(0)
      for (let step = 0; step < steps; step++) {
        at.ms += 500
        tick()
        await turn()
      }
      const of = (what: string) => asked.filter(one => one === what).length
      return { names: of("name"), comparisons: of("state") }
    },
  }
}

test("LOSS3: what was committed is noted within two looks; then PostgreSQL is compared seldom, until something is begun", async () => {
  const { at, note, after } = timed()
  expect(await after(3)).toEqual({ names: 1, comparisons: 2 })
  // At rest: the name with every sign of life, and a comparison in five seconds.
  expect(await after(20)).toEqual({ names: 18, comparisons: 2 })
  expect(note.transaction).toBe(5)
  // Begun, and not ended yet when it is looked for the first time.
  at.work++
  expect((await after(3)).comparisons).toBeGreaterThanOrEqual(1)
  at.work++
  at.transaction = 9
  await after(4)
  expect(note.transaction).toBe(9)
  expect(await after(8)).toEqual({ names: 8, comparisons: 0 })
})

test("LOSS1, LOSS2: at rest a lost connection is looked into at once, and the name that another has left ends the worker", async () => {
  const { at, asked, lost, after, loseConnection } = timed()
  await after(4)
  expect((await after(2)).comparisons).toBe(0)
  loseConnection()
  await turn()
  expect(asked).toContain("state")
  expect(lost).toEqual([])
  at.name = "h2"
  await after(1)
  expect(lost).toEqual(["lost"])
})

test("LOSS1: who asks whether PostgreSQL was compared may go away: a refusal that nobody waits for ends no process", async () => {
  const { at, after, watch, loseConnection } = timed()
  await after(4)
  expect(watch.untilWhole()).toBeUndefined()
  const unhandled: unknown[] = []
  const note = (error: unknown) => void unhandled.push(error)
  process.on("unhandledRejection", note)
  try {
    at.isUnavailable = true
    loseConnection()
    const early = watch.untilWhole()
    expect(watch.untilWhole()).toBeInstanceOf(Promise)
    // Real time: the refusal of those who wait comes after two seconds of it.
    await expect(early).rejects.toMatchObject({ code: "unavailable" })
    at.ms += 2_000
    expect(watch.untilWhole()).toBeInstanceOf(Promise)
    await expect(watch.untilWhole()).rejects.toMatchObject({ code: "unavailable" })
    await new Promise(resolve => void setImmediate(resolve))
    expect(unhandled).toEqual([])
    at.isUnavailable = false
    await after(4)
    expect(watch.untilWhole()).toBeUndefined()
  } finally {
    process.off("unhandledRejection", note)
    watch.stop()
  }
})
