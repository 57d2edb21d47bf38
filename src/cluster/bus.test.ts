import { expect, test } from "vitest"
import { fail } from "../contract/core/errors.ts"
import { silentLog } from "../observability/log.ts"
import { createMetrics } from "../observability/metrics.ts"
import type { Clock } from "../std/clock.ts"
import { Bus, WorkerGone } from "./bus.ts"
import { redisKeys } from "./keys.ts"
import type { Redis } from "./redis.ts"

const metrics = createMetrics()

/** Two workers whose inboxes are read when somebody says so. */
function pair() {
  let now = 0
  const ticks = new Set<() => void>()
  let later: { at: number; action: () => void }[] = []
  const clock = {
    monotonic: () => now,
    soon: action => action(),
    after: (inMilliseconds, action) => {
      later.push({ at: now + inMilliseconds, action })
      return { stop: () => {} }
    },
    every: (_, action) => {
      ticks.add(action)
      return { stop: () => void ticks.delete(action) }
    },
  } as Pick<Clock, "monotonic" | "soon" | "after" | "every"> as Clock
  const keys = redisKeys("test:")
  const inboxes = new Map<string, string[][]>()
  /** Workers whose inbox is being made. */
  const away = new Set<string>()
  const redis = {
    async xadd(inbox: string, ...[, , ...fields]: string[]) {
      if ([...away].some(self => keys.inbox(self, "") === inbox)) return null
      inboxes.set(inbox, [...(inboxes.get(inbox) ?? []), fields])
      return "1-0"
    },
  } as unknown as Redis
  const busOf = (self: string) =>
    new Bus({
      redis,
      keys,
      self,
      clock,
      maxPending: 3,
      trouble: () => {},
      refusalOf: () => fail("internal"),
      log: silentLog,
      metrics,
    })
  const [here, there] = [busOf("here"), busOf("there")]
  /** Everything that has been sent to a worker by now. */
  const deliver = async (self: string, bus: Bus) => {
    const inbox = keys.inbox(self, "")
    for (const fields of (inboxes.get(inbox) ?? []).splice(0)) bus.receive(fields)
    await new Promise(resolve => setImmediate(resolve))
  }
  return {
    here,
    there,
    away,
    timers: () => ticks.size,
    toHere: () => deliver("here", here),
    toThere: () => deliver("there", there),
    pass(milliseconds: number) {
      now += milliseconds
      for (const tick of ticks) tick()
      const due = later.filter(({ at }) => at <= now)
      later = later.filter(({ at }) => at > now)
      for (const { action } of due) action()
    },
  }
}

test("the same request asked twice at once is answered twice", async () => {
  const { here, there, toHere, toThere } = pair()
  const seen: string[] = []
  there.handle<string, string>("greet", async (name, _from, id) => {
    seen.push(id)
    return `hello ${name}`
  })
  const asked = [1, 2].map(() => here.request("there", "greet", "Ada", 1_000, "one"))
  expect(here.pending).toBe(2)
  await toThere()
  await toHere()
  expect(await Promise.all(asked)).toEqual(["hello Ada", "hello Ada"])
  expect(seen).toEqual(["one", "one"])
  expect(here.pending).toBe(0)
})

test("of the same request each asker waits as long as they said, and is told what is refused or gone", async () => {
  const { here, there, toHere, toThere, pass } = pair()
  there.handle("greet", async () => {
    throw fail("slowmode")
  })
  const outcomes: string[] = []
  const ask = (timeoutMs: number, worker = "there") =>
    here.request(worker, "greet", "Ada", timeoutMs, "one").catch((error: Error) => {
      outcomes.push(
        `${timeoutMs} ${error instanceof WorkerGone ? "gone" : (error as unknown as { code: string }).code}`,
      )
    })
  const all = [ask(100), ask(1_000), ask(10_000, "elsewhere")]
  await expect(here.request("there", "greet", "Ada", 50, "two")).rejects.toMatchObject({ code: "unavailable" })
  pass(500)
  await all[0]
  expect(here.pending).toBe(2)
  here.forget("elsewhere")
  await toThere()
  await toHere()
  await Promise.all(all)
  expect(outcomes).toEqual(["100 unavailable", "10000 gone", "1000 slowmode"])
  expect(here.pending).toBe(0)
  await expect(
    Promise.race([here.request("there", "greet", "Ada", 50, "one"), Promise.resolve("waits")]),
  ).resolves.toBe("waits")
  here.close()
})

test("an answer is sent again as long as the asker's inbox is not there, for at most five seconds", async () => {
  const { here, there, away, toHere, toThere, pass } = pair()
  const seen: string[] = []
  there.handle<string, string>("greet", async name => {
    seen.push(name)
    return `hello ${name}`
  })
  const asked = here.request("there", "greet", "Ada", 4_000)
  away.add("here")
  await toThere()
  for (let i = 0; i < 10; i++) {
    pass(100)
    await toHere()
  }
  expect(here.pending).toBe(1)
  away.delete("here")
  pass(100)
  await toHere()
  expect(here.pending).toBe(0)
  expect(await asked).toBe("hello Ada")
  expect(seen).toEqual(["Ada"])

  const inVain = here.request("there", "greet", "Lin", 10_000)
  away.add("here")
  await toThere()
  for (let i = 0; i < 51; i++) {
    pass(100)
    await toHere()
  }
  away.delete("here")
  pass(1_000)
  await toHere()
  expect(here.pending).toBe(1)
  here.close()
  await expect(inVain).rejects.toThrow(WorkerGone)
})

test("after a fail-over those who wait are told to ask again, and the same request is still one", async () => {
  const { here, there, toHere, toThere } = pair()
  const seen: string[] = []
  there.handle<string, string>("greet", async (name, _from, id) => {
    seen.push(id)
    return `hello ${name}`
  })
  const lost = here.request("there", "greet", "Ada", 1_000, "one")
  here.doubt()
  await expect(lost).rejects.toThrow(WorkerGone)
  expect(here.pending).toBe(0)
  const again = here.request("there", "greet", "Ada", 1_000, "one")
  await toThere()
  await toHere()
  expect(await again).toBe("hello Ada")
  expect(seen).toEqual(["one", "one"])
})

test("nothing is looked at again and again while nobody waits for an answer", async () => {
  const { here, there, timers, toHere, toThere, pass } = pair()
  there.handle("sum", async ({ of }: { of: number[] }) => of.reduce((sum, one) => sum + one, 0))
  expect(timers()).toBe(0)
  const answer = here.request("there", "sum", { of: [1, 2] }, 1_000)
  expect(timers()).toBe(1)
  await toThere()
  await toHere()
  expect(await answer).toBe(3)
  pass(100)
  expect(timers()).toBe(0)

  const unanswered = here.request("there", "sum", { of: [] }, 1_000)
  pass(500)
  expect(timers()).toBe(1)
  pass(500)
  await expect(unanswered).rejects.toThrow()
  expect(timers()).toBe(0)
})

test("a refusal of a newer worker, whose code is not known here, is one that can be told", async () => {
  const { here, there, toHere, toThere } = pair()
  const details = { message: "Too many umbrellas" }
  there.handle("rain", async () => {
    const refusal = fail("bad_request", details)
    throw Object.assign(refusal, { code: "umbrella_limit" })
  })
  const asked = here.request("there", "rain", {}, 1_000)
  const refused = expect(asked).rejects.toMatchObject({ code: "bad_request", message: details.message, details })
  await toThere()
  await toHere()
  await refused
})
