import { setTimeout as wait } from "node:timers/promises"
import { expect, test } from "vitest"
import { createHealth } from "./health.ts"

test("all is well when every check returns", async () => {
  const health = createHealth({ postgres: async () => {}, redis: () => {} })
  expect(await health.ready()).toEqual({ ok: true, checks: { postgres: "ok", redis: "ok" } })
})

test("what is advisory is told and does not decide", async () => {
  const fails = () => {
    throw new Error("gone")
  }
  const health = createHealth({ postgres: () => {}, files: fails }, { advisory: new Set(["files"]) })
  expect(await health.ready()).toEqual({ ok: true, checks: { postgres: "ok", files: "gone" } })
})

test("checks that throw, reject or hang are named, and the answer comes within the timeout", async () => {
  const health = createHealth(
    {
      fine: () => {},
      throws: () => {
        throw new Error("not yet")
      },
      rejects: () => Promise.reject(new Error("gone")),
      hangs: () => new Promise<void>(() => {}),
    },
    { timeoutMs: 30 },
  )
  const started = performance.now()
  expect(await health.ready()).toEqual({
    ok: false,
    checks: { fine: "ok", throws: "not yet", rejects: "gone", hangs: "no answer within 30 ms" },
  })
  expect(performance.now() - started).toBeLessThan(5000)
})

test("callers at the same time share one run, later ones its answer until it is old", async () => {
  let runs = 0
  const health = createHealth({ count: async () => void runs++ }, { cacheMs: 40 })
  await Promise.all([health.ready(), health.ready(), health.ready()])
  await health.ready()
  expect(runs).toBe(1)
  await wait(60)
  await health.ready()
  expect(runs).toBe(2)
})

test("a check that failed late does not become an unhandled rejection", async () => {
  const health = createHealth({ late: () => wait(40).then(() => Promise.reject(new Error("late"))) }, { timeoutMs: 10 })
  expect((await health.ready()).ok).toBe(false)
  await wait(60)
})
