import { setTimeout as sleep } from "node:timers/promises"
import { expect, test } from "vitest"
import { AnswerClock } from "./answer-clock.ts"

const [timeoutMs, longerMs] = [10_000, 60_000]
/** The clock of a request that has come a while ago, and how long until its answer is due, to the nearest second. */
function clock({ isWhole = true, leftMs = 3_000 } = {}) {
  const exchange = { dueAt: performance.now() + leftMs }
  const left = () => Math.round((exchange.dueAt - performance.now()) / 1_000) * 1_000
  return { clock: new AnswerClock(exchange, timeoutMs, longerMs, isWhole), left }
}

test("it stands still while something takes longer, and goes on with what was left", async () => {
  const { clock: answer, left } = clock()
  const reply = await answer.longer(async () => {
    expect(left()).toBe(longerMs)
    await sleep(1_100)
    return "written"
  })
  expect(reply).toBe("written")
  expect(left()).toBe(3_000)
  await expect(answer.longer(() => Promise.reject(new Error("not written")))).rejects.toThrow("not written")
  expect(left()).toBe(3_000)
})

test("it begins when the whole request has come, whatever was done before", async () => {
  const early = clock({ isWhole: false })
  early.clock.whole()
  expect(early.left()).toBe(timeoutMs)

  const meanwhile = clock({ isWhole: false })
  await meanwhile.clock.longer(async () => {
    expect(meanwhile.left()).toBe(Infinity)
    meanwhile.clock.whole()
    expect(meanwhile.left()).toBe(longerMs)
  })
  expect(meanwhile.left()).toBe(timeoutMs)
})
