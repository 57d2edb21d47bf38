import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { expect, onTestFinished } from "vitest"
import { Order, readStamp, written } from "../../load-tests/lib/order.ts"
import { dueAfter } from "../../load-tests/runner/arrivals.ts"
import { Metrics } from "../../load-tests/runner/metrics.ts"
import { runScenario } from "../../load-tests/runner/run.ts"
import { testWith } from "../kit/test.ts"

const test = testWith()
const scenario = (name: string) => fileURLToPath(new URL(`../../load-tests/${name}.ts`, import.meta.url))

interface Summary {
  load: string
  metrics: Record<string, Record<string, number> | null>
  limits: { metric: string; threshold: string; ok: boolean }[]
}
const summaryIn = (summary: Readonly<Record<string, string>>) => JSON.parse(summary["summary.json"]!) as Summary
/** On a machine that does much else a limit of latency says nothing. */
const anyLatency = { READY_P99_MS: "60000", POST_P99_MS: "60000", FRAME_P99_MS: "60000", P99_MS: "60000" }
const short = { ...anyLatency, SUMMARY: "summary.json", VARIANT: "smoke" }

test("people of a smoke run hear every post once and in order, and the summary counts them", async ({ shared }) => {
  const env = {
    ...short,
    TARGET: shared.east.url,
    MINUTES: "0.05",
    STAY: "1",
    SESSIONS: "6",
    POSTS: "10",
    SERVERS: "2",
  }
  const { summary, isGood, errors } = await runScenario(scenario("chat"), env)
  const { metrics, limits } = summaryIn(summary)
  expect(errors).toEqual([])
  expect(limits.filter(({ ok }) => !ok)).toEqual([])
  expect(isGood).toBe(true)
  const { posts_accepted: accepted, post_to_frame: frames, time_to_ready: ready, frames_in_order: inOrder } = metrics
  expect(accepted).toMatchObject({ fails: 0 })
  expect(accepted!["passes"]).toBeGreaterThan(20)
  // Three people are online in each of the two servers, and as many again come and go.
  expect(frames!["count"]).toBeGreaterThan(accepted!["passes"]!)
  expect(inOrder).toEqual({ passes: frames!["count"], fails: 0, rate: 1 })
  expect(ready!["count"]).toBeGreaterThan(6)
  expect(metrics["sessions_kept"]).toEqual({ passes: ready!["count"], fails: 0, rate: 1 })
  expect(summary["stdout"]).toContain(`all ${limits.length} limits are kept`)
  expect(summary["stdout"]).toMatch(/posts: to the frame at a listener +\d+ +[\d.]+ +[\d.]+/)
  // The servers of the test are gone, the accounts are not.
  expect(await shared.sql`SELECT name FROM servers WHERE name LIKE 'load %'`).toEqual([])
})

test("a run with people of one's own crosses a limit, and says which", async ({ shared }) => {
  const people = await Promise.all(["ada", "lin", "kim"].map(name => shared.person(name, shared.east)))
  const folder = await mkdtemp(join(tmpdir(), "starling-tokens-"))
  onTestFinished(() => rm(folder, { recursive: true }))
  const file = join(folder, "tokens")
  await writeFile(file, people.map(({ token }) => token).join("\n"))
  const before = await shared.sql`SELECT count(*)::int AS count FROM users`
  const env = {
    ...short,
    TARGET: shared.west.url,
    TOKENS: file,
    MINUTES: "0.02",
    STAY: "1",
    POSTS: "4",
    FRAME_P99_MS: "0.001",
  }
  const { summary, isGood } = await runScenario(scenario("chat"), env)
  expect(isGood).toBe(false)
  expect(summary["stdout"]).toContain("CROSSED: post_to_frame p(99)<0.001")
  expect(summaryIn(summary).limits).toContainEqual({ metric: "post_to_frame", threshold: "p(99)<0.001", ok: false })
  expect(await shared.sql`SELECT count(*)::int AS count FROM users`).toEqual(before)
})

test("requests of a smoke run are answered rightly", async ({ shared }) => {
  const env = { ...short, TARGET: shared.east.url, MINUTES: "0.03", RATE: "40", USERS: "4" }
  const { summary, isGood, errors } = await runScenario(scenario("rest"), env)
  expect(errors).toEqual([])
  expect(isGood, summary["stdout"]).toBe(true)
  const { metrics } = summaryIn(summary)
  expect(metrics["checks"]).toMatchObject({ fails: 0, rate: 1 })
  const count = (name: string) => metrics[`http_req_duration{name:${name}}`]!["count"]!
  expect(count("me") + count("page") + count("post")).toBe(metrics["checks"]!["passes"])
  expect(count("me")).toBeGreaterThan(count("page"))
  expect(count("page")).toBeGreaterThan(count("post"))
})

test("what was left out, doubled or came too early is seen", () => {
  const stamp = { run: "r", sender: "1.0", number: 7, sentAtMs: 5 }
  expect(readStamp(written(stamp, "xx"))).toEqual(stamp)
  expect(readStamp("load of something else")).toBeUndefined()
  const heard = (...numbers: number[]) => {
    const order = new Order()
    return numbers.map(number => order.isNext({ ...stamp, number }))
  }
  expect(heard(7, 8, 9)).toEqual([true, true, true])
  expect(heard(7, 9, 10)).toEqual([true, false, true])
  expect(heard(7, 7, 8)).toEqual([true, false, true])
  expect(heard(7, 9, 8)).toEqual([true, false, false])
})

test("arrivals follow the rate, whatever the server does", () => {
  const about = { executor: "ramping-arrival-rate", exec: "x", timeUnit: "1m", maxVUs: 1, startRate: 0 }
  const stages = [
    { duration: "60s", target: 60 },
    { duration: "1m", target: 60 },
    { duration: "60000ms", target: 0 },
  ]
  const at = [30, 60, 120, 180, 500].map(seconds => dueAfter({ ...about, stages }, seconds * 1_000))
  expect(at).toEqual([7.5, 30, 90, 120, 120])
})

test("percentiles, parts by tag, and limits that end a run", () => {
  const metrics = new Metrics(
    {
      waits: ["p(95)<96", { threshold: "max<1000", abortOnFail: true, delayAbortEval: "30s" }],
      "waits{name:a}": ["count==1"],
      unseen: ["count==0"],
    },
    ["med"],
  )
  for (let value = 1; value <= 101; value++) metrics.add("waits", "trend", value, { name: value === 1 ? "a" : "b" })
  const { waits, "waits{name:a}": part } = metrics.summary(1_000)
  expect(waits).toMatchObject({ values: { med: 51, "p(95)": 96 }, thresholds: { "p(95)<96": { ok: false } } })
  expect(part).toMatchObject({ values: { count: 1, max: 1 }, thresholds: { "count==1": { ok: true } } })
  expect(metrics.endsAt(60_000)).toBe(false)
  metrics.add("waits", "trend", 5_000)
  expect([metrics.endsAt(29_000), metrics.endsAt(31_000)]).toEqual([false, true])
})
