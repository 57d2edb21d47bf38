import { expect, test } from "vitest"
import { SessionUses } from "./session-uses.ts"

/** A store that fails when it is told to, and a clock whose timers fire when they are asked to. */
function scene() {
  let now = 1_000_000
  let timers: (() => void)[] = []
  let failing: Error | undefined
  let going: Promise<void> | undefined
  const written: string[] = []
  const warnings: object[] = []
  const uses = new SessionUses({
    storage: {
      sessions: {
        async noteUses(all) {
          await going
          if (failing) throw failing
          written.push(all.map(({ id, at }) => `${id}@${at}`).join(" "))
        },
      },
    },
    clock: {
      now: () => now,
      after(_ms, action) {
        timers.push(action)
        return { stop: () => (timers = timers.filter(each => each !== action)) }
      },
    },
    log: { warn: (fields: object) => void warnings.push(fields) } as never,
  })
  return {
    uses,
    written,
    warnings,
    timers: () => timers.length,
    fail: (error?: Error) => (failing = error),
    hold(until: Promise<void>) {
      going = until
    },
    pass: (ms: number) => (now += ms),
    async fire() {
      for (const action of timers.splice(0)) action()
      await new Promise(resolve => setImmediate(resolve))
    },
  }
}

test("uses of some time go into one statement, each session once with its latest use", async () => {
  const { uses, written, timers, pass, fire } = scene()
  expect(timers()).toBe(0)
  uses.note("1")
  uses.note("2")
  pass(1_000)
  uses.note("1")
  expect([timers(), written]).toEqual([1, []])
  await fire()
  expect([timers(), written]).toEqual([0, ["1@1001 2@1000"]])
  for (let id = 0; id < 2_001; id++) uses.note(`${id}`)
  await fire()
  expect(written.slice(1).map(text => text.split(" ").length)).toEqual([2_000, 1])
})

test("what could not be written waits for the next time, behind what was used later; one statement is under way at a time", async () => {
  const { uses, written, warnings, timers, fail, hold, pass, fire } = scene()
  fail(new Error("away"))
  uses.note("1")
  uses.note("2")
  let go = () => {}
  hold(new Promise(resolve => (go = resolve)))
  await fire()
  pass(5_000)
  uses.note("2")
  expect(timers()).toBe(0)
  go()
  await fire()
  expect([timers(), written, warnings]).toEqual([1, [], [expect.objectContaining({ waiting: 2 })]])
  fail()
  await fire()
  expect(written).toEqual(["2@1005 1@1000"])
})

test("what waits is bounded, and written down at the stop", async () => {
  const { uses, written, timers, fire } = scene()
  for (let id = 0; id < 50_001; id++) uses.note(`${id}`)
  await uses.stop()
  expect(written.join(" ").split(" ")).toHaveLength(50_000)
  uses.note("late")
  await fire()
  expect([timers(), written.length]).toEqual([0, 25])
})
