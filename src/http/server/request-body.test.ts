import type { HttpResponse } from "uWebSockets.js"
import { expect, test } from "vitest"
import { fail, Failure } from "../../contract/core/errors.ts"
import { RequestBody } from "./request-body.ts"
import { ByteBudget } from "../../std/byte-budget.ts"

/** A body whose bytes come when the test says so. */
function arriving(maxBytes: number, budget?: ByteBudget, { holder = "1.2.3.4", idleTimeoutMs = 100 } = {}) {
  let take: ((chunk: ArrayBuffer, isLast: boolean) => void) | undefined
  const res = {
    onData(handler: typeof take) {
      take = handler
    },
  } as unknown as HttpResponse
  const startedAt = performance.now()
  const tooLarge = () => fail("file_too_large")
  const body = new RequestBody({ maxBytes, tooLarge, timeoutMs: 1_000, idleTimeoutMs, budget }, startedAt, holder)
  body.listen(res, 0)
  return { body, startedAt, come: (bytes: number, isLast = false) => take!(new ArrayBuffer(bytes), isLast) }
}
type Arriving = ReturnType<typeof arriving>
const outcome = (body: RequestBody) =>
  body
    .whenSettled()
    .then(() => body.bytes())
    .then(
      bytes => bytes?.length,
      (error: Failure) => error.code,
    )

test("bodies share a budget: one that finds none is put off, and one that is done gives its bytes back", async () => {
  // Each byte counts twice: it is in a part and in the whole.
  const budget = new ByteBudget(2_000)
  const [one, two, three] = [arriving(900, budget), arriving(900, budget), arriving(900, budget)]
  one.come(600)
  two.come(300)
  three.come(200)
  expect(await outcome(three.body)).toBe("unavailable")
  two.come(100)
  two.come(0, true)
  expect(await outcome(two.body)).toBe(400)
  const late = arriving(900, budget)
  late.come(1)
  expect(await outcome(late.body)).toBe("unavailable")
  two.body.release()
  // Twice is once.
  two.body.release()
  const next = arriving(900, budget)
  next.come(400, true)
  expect(await outcome(next.body)).toBe(400)
  expect(budget.take("", 1)).toBe(false)
  one.body.release()
  next.body.release()
  three.body.release()
  late.body.release()
  expect(budget.take("", 2_000)).toBe(true)
})

test("a body that is refused holds nothing, however long its sender goes on", async () => {
  const budget = new ByteBudget(2_000)
  const [tooLarge, late, gone, refused] = [
    arriving(500, budget),
    arriving(500, budget),
    arriving(500, budget),
    arriving(500, budget),
  ]
  for (const { come } of [tooLarge, late, gone, refused]) come(100)
  tooLarge.come(401)
  late.body.expire()
  gone.body.abandon()
  // As the server does while its answer waits.
  const drained = refused.body.drained()
  expect(await outcome(tooLarge.body)).toBe("file_too_large")
  expect(await outcome(late.body)).toBe("request_timeout")
  for (const { come } of [tooLarge, late, refused]) come(5_000)
  expect(budget.take("", 2_000)).toBe(true)
  budget.give("", 2_000)
  tooLarge.come(1, true)
  expect(tooLarge.body.complete).toBe(true)
  expect(await outcome(tooLarge.body)).toBe("file_too_large")
  for (const { body } of [tooLarge, late, gone, refused]) body.release()
  expect(budget.take("", 2_000)).toBe(true)
  await drained
})

test("no user holds more than their share; what comes before they are known counts for their address", async () => {
  const budget = new ByteBudget(10_000, 2_000)
  const [one, two, three, other] = Array.from({ length: 4 }, () => arriving(900, budget)) as [
    Arriving,
    Arriving,
    Arriving,
    Arriving,
  ]
  one.come(600)
  one.body.belongTo("user 1")
  two.come(400)
  two.body.belongTo("user 1")
  two.come(1)
  expect(await outcome(two.body)).toBe("unavailable")
  three.come(401, true)
  three.body.belongTo("user 1")
  expect(await outcome(three.body)).toBe("unavailable")
  other.come(500)
  other.body.belongTo("user 2")
  other.come(400, true)
  expect(await outcome(other.body)).toBe(900)
  const [anonymous, another] = [arriving(900, budget), arriving(900, budget)]
  anonymous.come(900)
  another.come(101)
  expect(await outcome(another.body)).toBe("unavailable")
  one.come(0, true)
  expect(await outcome(one.body)).toBe(600)
  for (const { body } of [one, two, three, other, anonymous, another]) body.release()
  expect(budget.take("user 1", 2_000) && budget.take("1.2.3.4", 2_000)).toBe(true)
})

test("what is refused passes by, until its end, its sender's, or too much of it", async () => {
  const patient = { idleTimeoutMs: 60_000 }
  const bodies = {
    ended: arriving(500, undefined, patient),
    gone: arriving(500, undefined, patient),
    endless: arriving(500, undefined, patient),
  }
  const passed = new Set<string>()
  const waiting = Object.entries(bodies).map(async ([name, { body, come }]) => {
    come(501)
    expect(await outcome(body)).toBe("file_too_large")
    await body.drained()
    passed.add(name)
  })
  await new Promise(resolve => setImmediate(resolve))
  expect(passed.size).toBe(0)
  bodies.ended.come(10_000, true)
  bodies.gone.body.abandon()
  bodies.endless.come(64 * 1024 * 1024)
  await Promise.all(waiting)
  // At once where there is nothing to wait for.
  for (const { body } of [bodies.ended, bodies.gone]) await body.drained()
})

test("what is refused and whose sender is silent is waited for no longer than a pause may last", async () => {
  const slow = arriving(500)
  slow.come(501)
  expect(await outcome(slow.body)).toBe("file_too_large")
  await slow.body.drained()
  expect(slow.body.complete).toBe(false)
})

test("a body is overdue when nothing came for a while, or when it takes too long as a whole", () => {
  const { body, startedAt, come } = arriving(500)
  expect(body.isOverdue(startedAt + 90)).toBe(false)
  expect(body.isOverdue(startedAt + 101)).toBe(true)
  come(1)
  expect(body.isOverdue(performance.now() + 90)).toBe(false)
  expect(body.isOverdue(startedAt + 1_001)).toBe(true)
})
