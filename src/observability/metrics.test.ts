import { setTimeout as wait } from "node:timers/promises"
import { afterEach, expect, onTestFinished, test, vi } from "vitest"
import { errors, type ErrorCode } from "../contract/core/errors.ts"
import { createMetrics, type Metrics, type MetricsOptions, type RedisPurpose, type SignInWay } from "./metrics.ts"

const made: Metrics[] = []
function create(options?: MetricsOptions) {
  const metrics = createMetrics(options)
  made.push(metrics)
  return metrics
}
afterEach(() => {
  for (const metrics of made.splice(0)) metrics.close()
})

const lines = async (metrics: Metrics, name: string) =>
  (await metrics.registry.metrics()).split("\n").filter(line => line.startsWith(name))

test("every metric has a Prometheus name and a sentence of help", async () => {
  for (const { name, help, type } of await create().registry.getMetricsAsJSON()) {
    expect(name).toMatch(/^starling_[a-z]+(_[a-z]+)*$/)
    expect(String(type) === "counter").toBe(name.endsWith("_total"))
    expect(help.length).toBeGreaterThan(10)
  }
})

test("MET1: a process stays below 2,400 series whatever labels it is given", async () => {
  const metrics = create()
  for (let n = 0; n < 1000; n++) {
    const route = metrics.http.route(n % 2 ? "GET" : "POST", `/route${n}`)
    for (const status of [0, 200, 204, 301, 404, 500, 999]) route.observe(status, 0.01)
    metrics.http.refused.of(`scope${n}`).inc()
    metrics.gateway.framesIn.of(n).inc()
    metrics.gateway.closes.of(n + 1000).inc()
    metrics.gateway.closes.of(n + 4000).inc()
    metrics.homes.turns.of("server", `command${n}`).inc()
    metrics.homes.refusals.of(`code${n}` as ErrorCode).inc()
    metrics.pools.redisErrors.of(`connection${n}`).inc()
    metrics.jobs.done.of(`job${n}`, "done").inc()
    metrics.jobs.seconds.of(`job${n}`).observe(1)
    metrics.pools.statements.of(`group${n}`).inc()
    metrics.pools.statementSeconds.of(`group${n}`).inc(0.1)
    for (const purpose of Object.keys(metrics.pools.redisWrites) as RedisPurpose[])
      metrics.pools.redisSeconds.of(purpose).observe(0.001)
    metrics.signIns.done.of(`way${n}` as SignInWay, "wrong").inc()
  }
  const all = (await metrics.registry.metrics()).split("\n").filter(line => line !== "" && !line.startsWith("#"))
  expect(all.length).toBeLessThan(2400)
  expect(await lines(metrics, 'starling_gateway_frames_in_total{op="999"}')).toEqual([])
  expect(await lines(metrics, 'starling_homes_turns_total{actor="other",command="other"}')).toEqual([
    'starling_homes_turns_total{actor="other",command="other"} 800',
  ])
})

test("every error code of the contract fits a series of its own", async () => {
  const metrics = create()
  for (const code of Object.keys(errors) as ErrorCode[]) metrics.homes.refusals.of(code).inc()
  expect(await lines(metrics, 'starling_homes_refusals_total{code="other"}')).toEqual([])
})

test("a route counts requests by class of status and times them", async () => {
  const metrics = create()
  const route = metrics.http.route("POST", "/channels/:channel_id/messages")
  route.observe(200, 0.004)
  route.observe(201, 0.02)
  route.observe(429, 8)
  route.observe(0, 1)
  const labels = 'route="/channels/:channel_id/messages",method="POST"'
  expect(await lines(metrics, "starling_http_requests_total")).toEqual([
    `starling_http_requests_total{${labels},status="2xx"} 2`,
    `starling_http_requests_total{${labels},status="4xx"} 1`,
    `starling_http_requests_total{${labels},status="aborted"} 1`,
  ])
  expect(await lines(metrics, "starling_http_request_duration_seconds")).toEqual([
    `starling_http_request_duration_seconds_bucket{${labels},le="0.005"} 1`,
    `starling_http_request_duration_seconds_bucket{${labels},le="0.02"} 2`,
    `starling_http_request_duration_seconds_bucket{${labels},le="0.1"} 2`,
    `starling_http_request_duration_seconds_bucket{${labels},le="0.5"} 2`,
    `starling_http_request_duration_seconds_bucket{${labels},le="2.5"} 3`,
    `starling_http_request_duration_seconds_bucket{${labels},le="+Inf"} 4`,
    `starling_http_request_duration_seconds_sum{${labels}} 9.024`,
    `starling_http_request_duration_seconds_count{${labels}} 4`,
  ])
})

test("known labels stand at zero from the start, and values that make no sense are left out", async () => {
  const metrics = create()
  metrics.gateway.resumes.dead_worker.inc()
  metrics.gateway.deliveries.inc(-5)
  metrics.gateway.deliveries.inc(Number.NaN)
  metrics.gateway.deliveries.inc(1000)
  metrics.lanes.commitSeconds.observe(Number.NaN)
  metrics.homes.loaded.from(() => 42)
  expect(await lines(metrics, "starling_gateway_resumes_total")).toEqual([
    'starling_gateway_resumes_total{outcome="same_worker"} 0',
    'starling_gateway_resumes_total{outcome="other_worker_alive"} 0',
    'starling_gateway_resumes_total{outcome="dead_worker"} 1',
    'starling_gateway_resumes_total{outcome="invalid"} 0',
  ])
  expect(await lines(metrics, "starling_gateway_deliveries_total")).toEqual(["starling_gateway_deliveries_total 1000"])
  expect(await lines(metrics, "starling_lanes_commit_duration_seconds_sum")).toEqual([
    "starling_lanes_commit_duration_seconds_sum 0",
  ])
  expect(await lines(metrics, "starling_homes_loaded")).toEqual(["starling_homes_loaded 42"])
})

test("three registries in one process do not see one another", async () => {
  const [east, west] = [create(), create(), create()]
  east.bus.tells.inc(3)
  expect(await lines(west, "starling_bus_tells_total")).toEqual(["starling_bus_tells_total 0"])
})

test("a blocked event loop is counted once, and no scrape forgets it or disturbs another", async () => {
  const metrics = create({ worker: "web-0", loopEveryMs: 10 })
  /** Looks that were late by more than `bound` seconds, and all. */
  const looks = async (bound: number) => {
    const shown = await lines(metrics, "starling_event_loop_delay_seconds")
    const at = (name: string) => Number(shown.find(line => line.startsWith(name))!.split(" ")[1])
    const total = at('starling_event_loop_delay_seconds_count{worker="web-0"}')
    return { late: total - at(`starling_event_loop_delay_seconds_bucket{worker="web-0",le="${bound}"}`), total }
  }
  const block = (forMs: number) => {
    for (const end = performance.now() + forMs; performance.now() < end;);
  }
  const until = async (enough: (looks: { late: number; total: number }) => boolean) => {
    for (;;) {
      await wait(20)
      const seen = await looks(0.1)
      if (enough(seen)) return seen
    }
  }
  const before = await until(({ total }) => total > 1)
  block(300)
  const after = await until(({ late }) => late > before.late)
  // Two scrapers ask in turn: what one has seen, the other sees, too.
  expect((await looks(0.1)).late).toBeGreaterThanOrEqual(after.late)
  expect((await until(({ total }) => total > after.total + 3)).late).toBeGreaterThanOrEqual(after.late)
})

test("memory that cannot be read, because no descriptor is left, does not fail the scrape", async () => {
  const metrics = create()
  const shown = () => lines(metrics, "starling_process_resident_memory_bytes")
  const before = await shown()
  const full = Object.assign(new Error("EMFILE: too many open files, uv_resident_set_memory"), { code: "EMFILE" })
  const read = vi.spyOn(process.memoryUsage, "rss").mockImplementation(() => {
    throw full
  })
  onTestFinished(() => read.mockRestore())
  expect(await shown()).toEqual(before)
})
