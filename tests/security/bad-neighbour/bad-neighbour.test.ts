/**
 * P19: whatever one user, one server, one webhook or one address does within its limits, a stranger's posts are answered and delivered, and no
 * web worker dies of it. Each neighbour is one at its worst; `npm run neighbours` measures the same for longer.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { startMeasuredServer, type MeasuredServer } from "../../kit/neighbour.ts"
import { neighbours } from "./neighbours.ts"

const mebibyte = 1024 * 1024
/**
 * On a quiet machine it is 250 ms more than at rest. What this bound leaves over is for a machine that is slower or has other work: a post at
 * rest tells how much slower, the process that measures how long it was kept from its turn, and a worker has to wait as often as a message
 * has stations.
 */
const usualMs = 1_000
const usualPostMs = 15
const stations = 10
const times = { restMs: 1_000, duringMs: 3_000, afterMs: 500 }

let measured: MeasuredServer
beforeAll(async () => {
  measured = await startMeasuredServer()
})
afterAll(async () => {
  await measured?.stop()
})

describe("a stranger is answered and told, no web worker dies, and memory stays beside", () => {
  test.for(Object.keys(neighbours))("%s", async name => {
    const { rest, during, after, grownBytes, answers, deaths } = await measured.measure(name, times)
    const figures = JSON.stringify({ rest, during, after, answers })
    expect(deaths).toEqual([])
    for (const { failures } of [rest, during, after]) expect(failures, figures).toEqual([])
    const slowness = Math.max(1, rest.posts.p50Ms / usualPostMs)
    const boundMs = usualMs * slowness + stations * Math.max(rest.ownStallMs, during.ownStallMs)
    expect(during.posts.p99Ms - rest.posts.p99Ms, figures).toBeLessThan(boundMs)
    expect(during.deliveries.p99Ms - rest.deliveries.p99Ms, figures).toBeLessThan(boundMs)
    expect(during.livez.p99Ms - rest.livez.p99Ms, figures).toBeLessThan(boundMs)
    expect(during.stallMs, figures).toBeLessThan(boundMs)
    expect(grownBytes / mebibyte, figures).toBeLessThan(200)
    // The neighbour was there and was not refused everything.
    const done = Object.entries(answers).filter(([what]) => !/^(?:0|4(?:29|04|00)|5\d\d)$/.test(what))
    expect(
      done.reduce((sum, [, count]) => sum + count, 0),
      figures,
    ).toBeGreaterThan(10)
  })
})
