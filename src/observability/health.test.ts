import { setTimeout as wait } from "node:timers/promises"
import { expect, test } from "vitest"
import { createHealth, ReadinessLog } from "./health.ts"
import { createLog } from "./log.ts"

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

test("a change of readiness is one line each way, with its reasons, however often it is asked", async () => {
  const lines: Record<string, unknown>[] = []
  const log = createLog({ level: "info", process: "web" }, { write: line => void lines.push(JSON.parse(line)) })
  const readiness = new ReadinessLog(log)
  let why: string | undefined
  const health = createHealth(
    {
      redis: () => {
        if (why) throw new Error(why)
      },
      postgres: () => {},
      files: () => Promise.reject(new Error("no bucket")),
    },
    { cacheMs: 0, advisory: new Set(["files"]), onAnswer: answer => readiness.note(answer) },
  )
  const ask = async () => {
    for (let n = 0; n < 3; n++) await health.ready()
  }
  await ask()
  expect(lines).toEqual([])
  why = "connection refused"
  await ask()
  why = "still refused"
  await ask()
  const checks = { redis: "connection refused", files: "no bucket" }
  expect(lines).toEqual([expect.objectContaining({ level: "warn", msg: "worker not ready", checks })])
  why = undefined
  await ask()
  expect(lines.slice(1)).toEqual([
    expect.objectContaining({ level: "info", msg: "worker ready again", lastedMs: expect.any(Number) as number }),
  ])
  readiness.stop()
  why = "closed"
  await ask()
  expect(lines).toHaveLength(2)
})
