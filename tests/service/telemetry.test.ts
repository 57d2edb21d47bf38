import { routes } from "../../src/contract/contract.ts"
import type { TimingEntry } from "../../src/contract/service/telemetry.ts"
import { EndpointNames } from "../../src/domain/service/endpoints.ts"
import {
  ClientTimings,
  daySeconds,
  rowsOf,
  statOf,
  windowOf,
  type EndpointStat,
} from "../../src/domain/service/telemetry.ts"
import { Timings } from "../../src/http/service/timings.ts"
import { createMetrics } from "../../src/observability/metrics.ts"
import { silentLog } from "../../src/observability/log.ts"
import { openStorage, type Storage } from "../../src/storage/storage.ts"
import { systemClock } from "../../src/std/system-clock.ts"
import type { Cluster } from "../kit/cluster.ts"
import { send } from "../kit/exchange.ts"
import { clientAt } from "../kit/person.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const messages = "/api/v1/channels/{channel_id}/messages"
const path = "/api/v1/telemetry/response-times"
const entry = (more: Partial<TimingEntry> = {}): TimingEntry => ({
  endpoint: messages,
  method: "GET",
  response_time_ms: 10,
  status_code: 200,
  db_queries: undefined,
  db_time_ms: undefined,
  timestamp: undefined,
  ...more,
})
const nowS = () => Math.floor(Date.now() / 1000)
const names = new EndpointNames(Object.values(routes))
const rowsFor = (entries: readonly TimingEntry[], at = nowS()) => {
  const timings = new ClientTimings(names, 1_000)
  for (const each of entries) expect(timings.add(each, at)).toBe(true)
  return rowsOf(timings.take())
}

async function withStorage<T>(cluster: Cluster, act: (telemetry: Storage["telemetry"]) => Promise<T>): Promise<T> {
  const storage = openStorage({
    url: cluster.databaseUrl,
    name: "telemetry",
    readConnections: 4,
    statementTimeoutMs: 20_000,
    connectTimeoutMs: 10_000,
  })
  try {
    return await act(storage.telemetry)
  } finally {
    await storage.close()
  }
}

const statsOf = async (telemetry: Storage["telemetry"], hours = 24, filter = {}): Promise<EndpointStat[]> =>
  (await telemetry.stats(windowOf(hours, nowS()), filter)).map(statOf)

test("TIM2: what several processes write at once is summed up, a repeat counts once, and percentiles are right to 1/32", async ({
  cluster,
}) => {
  await withStorage(cluster, async telemetry => {
    const times = Array.from({ length: 2_000 }, (_, i) => ((i * 7_919) % 2_000) / 10 + 0.5)
    const endpoints = [messages, "/api/v1/users/@me", "/api/v1/servers/{server_id}"]
    // No partition is there yet; eight processes find that out at once.
    await Promise.all(
      Array.from({ length: 8 }, async (_, writer) => {
        for (let number = 1; number <= 5; number++) {
          const some = times.filter((_, i) => i % 40 === writer * 5 + number - 1)
          const rows = rowsFor(
            some.flatMap(response_time_ms => endpoints.map(endpoint => entry({ endpoint, response_time_ms }))),
          )
          await telemetry.add({ writer: `w${writer}`, number, rows })
          await telemetry.add({ writer: `w${writer}`, number, rows })
        }
      }),
    )
    const rising = times.toSorted((a, b) => a - b)
    const stats = await statsOf(telemetry)
    expect(stats.map(({ endpoint }) => endpoint).toSorted()).toEqual(endpoints.toSorted())
    for (const stat of stats) {
      expect(stat).toMatchObject({
        method: "GET",
        count: 2_000,
        min_ms: rising[0],
        max_ms: rising.at(-1),
        error_count: 0,
      })
      expect(stat.avg_ms).toBeCloseTo(times.reduce((sum, time) => sum + time, 0) / 2_000, 1)
      for (const [name, share] of [
        ["p50_ms", 0.5],
        ["p95_ms", 0.95],
        ["p99_ms", 0.99],
      ] as const) {
        const exact = rising[Math.ceil(share * 2_000) - 1]!
        expect(Math.abs(stat[name] - exact) / exact).toBeLessThan(1 / 32 + 0.001)
      }
    }
  })
})

test("a window is summed up from days, hours and minutes without counting anything twice", async ({ cluster }) => {
  await withStorage(cluster, async telemetry => {
    // One timing at every quarter of an hour of ten days, each of another length.
    const now = nowS()
    const moments = Array.from({ length: 4 * 24 * 10 }, (_, i) => now - i * 900)
    const rows = rowsFor(
      moments.map((timestamp, i) => entry({ timestamp, response_time_ms: i + 1, status_code: i % 2 ? 500 : "200" })),
      now,
    )
    await telemetry.add({ writer: "w", number: 1, rows })
    for (const hours of [1, 2, 23, 24, 25, 47, 48, 100, 240]) {
      const { from } = windowOf(hours, now)
      const within = moments.flatMap((moment, i) => (moment - (moment % 300) >= from ? [i + 1] : []))
      const [stat] = await statsOf(telemetry, hours)
      expect({ hours, count: stat!.count, max: stat!.max_ms }).toEqual({
        hours,
        count: within.length,
        max: within.at(-1),
      })
      expect(stat!.error_count).toBe(Math.floor(within.length / 2))
      const history = await telemetry.history({ endpoint: messages, method: "GET" }, { from, width: 3_600 })
      expect(history.reduce((sum, { count }) => sum + count, 0)).toBe(within.length)
      expect(
        history.every(({ timestamp }, i) => timestamp % 3600 === 0 && timestamp > (history[i - 1]?.timestamp ?? 0)),
      ).toBe(true)
    }
    expect(await telemetry.reset()).toBe(moments.length)
    expect(await telemetry.reset()).toBe(0)
    expect(await statsOf(telemetry)).toEqual([])
  })
})

test("days are made ahead and dropped whole after 30; a day that is missing loses nothing", async ({ cluster }) => {
  const days = async () =>
    (
      await cluster.sql<
        { name: string }[]
      >`SELECT inhrelid::regclass::text AS name FROM pg_inherits WHERE inhparent = 'telemetry_timings'::regclass`
    )
      .map(({ name }) => name)
      .toSorted()
  const nameOf = (day: number) =>
    `telemetry_timings_${new Date(day * 1000).toISOString().slice(0, 10).replaceAll("-", "")}`
  await withStorage(cluster, async telemetry => {
    const now = nowS()
    const today = now - (now % daySeconds)
    await Promise.all([telemetry.keepDays(now * 1000), telemetry.keepDays(now * 1000)])
    expect(await days()).toEqual([0, 1, 2].map(n => nameOf(today + n * daySeconds)))
    await cluster.sql.unsafe(`DROP TABLE ${nameOf(today)}`)
    const old = now - 29 * daySeconds
    await telemetry.add({ writer: "w", number: 1, rows: rowsFor([entry(), entry({ timestamp: old })], now) })
    expect((await statsOf(telemetry, 720))[0]).toMatchObject({ count: 2 })
    expect(await days()).toContain(nameOf(old - (old % daySeconds)))
    // 30 days on, what was of today is kept for one more day.
    for (const [later, count] of [
      [30, 1],
      [31, 0],
    ] as const) {
      await telemetry.keepDays((now + later * daySeconds) * 1000)
      const [row] = await cluster.sql<
        { count: string }[]
      >`SELECT count(*)::text AS count FROM telemetry_timings WHERE span = 86400`
      expect({ later, count: Number(row!.count) }).toEqual({ later, count })
    }
    expect(await telemetry.forgetWriters(now + 5, 10)).toBe(1)
  })
})

test("what clients call an endpoint becomes the name of a route, or `other`", () => {
  for (const [said, method, name] of [
    ["/api/v1/channels/4177/messages", "GET", messages],
    ["/channels/4177/messages?limit=3", "get", messages],
    ["https://chat.example/api/v1/channels/{channel_id}/messages#x", "HEAD", messages],
    ["/channels/:channel_id/messages/", "GET", messages],
    ["/api/v1/users/@me", "GET", "/api/v1/users/@me"],
    ["/api/v1/users/4177", "GET", "/api/v1/users/{user_id}"],
    ["/livez", "GET", "/livez"],
    ["/api/v1/livez", "GET", "other"],
    ["/", "GET", "/"],
    ["/api/v1/", "GET", "/api/v1/"],
    ["/api/v1/channels/4177/messages", "BREW", "other"],
    ["/channels/a/b/c/d/e/f/g/h", "GET", "other"],
    ["=HYPERLINK(1)", "GET", "other"],
    ["__proto__", "constructor", "other"],
    ["/".repeat(255), "GET", "/"],
  ] as const)
    expect([said, method, names.of(said, method).endpoint]).toEqual([said, method, name])
})

test("TIM3: clients cannot make up endpoints, times or amounts of memory", () => {
  const now = nowS()
  const timings = new ClientTimings(names, 40)
  let taken = 0
  for (let day = -5; day < 100; day++)
    for (const endpoint of [messages, `/made/up/${day}`, "/users/@me"])
      if (
        timings.add(
          entry({ endpoint, timestamp: now - day * daySeconds, response_time_ms: 1e300, db_queries: 1e15 }),
          now,
        )
      )
        taken++
  const kept = timings.take()
  // Three of now, which nobody can take the place of, and as many of the past as there may be.
  expect(kept).toHaveLength(43)
  expect(timings.add(entry(), now)).toBe(true)
  expect(kept.reduce((sum, { figures }) => sum + figures.count, 0)).toBe(taken)
  expect(new Set(kept.map(({ endpoint }) => endpoint))).toEqual(new Set([messages, "/api/v1/users/@me", "other"]))
  for (const { at, figures } of kept) {
    expect(at).toBeLessThanOrEqual(now)
    expect(at).toBeGreaterThanOrEqual(now - 30 * daySeconds - 300)
    expect(figures.maxUs).toBe(2_147_483_647)
    expect(Number.isSafeInteger(figures.queries)).toBe(true)
  }
  const inMs = new ClientTimings(names, 1)
  inMs.add(entry({ timestamp: (now - 600) * 1000 }), now)
  expect(inMs.take()[0]!.at).toBe(now - 600 - ((now - 600) % 300))
})

const failing = () => {
  const metrics = createMetrics()
  const batches: { number: number; count: number }[] = []
  let left = 0
  const timings = new Timings({
    storage: {
      telemetry: {
        async add({ number, rows }) {
          batches.push({ number, count: rows[0]!.figures.count })
          if (left > 0) {
            left--
            throw new Error("away")
          }
        },
      },
    },
    routes: [routes.getMe],
    writer: "w",
    flushEveryMs: 600_000,
    isEnabled: true,
    clock: { ...systemClock, sleep: () => Promise.resolve() },
    log: silentLog,
    metrics,
  })
  return { timings, batches, metrics, fail: (times: number) => void (left = times) }
}

test("TIM2, TIM3: a batch that is refused is sent once more with the same number, then it is lost and clients are told", async () => {
  const { timings, batches, metrics, fail } = failing()
  const me = timings.of({ endpoint: "/api/v1/users/@me", method: "GET" })
  me.observe(200, 0.01)
  me.observe(0, 0.01) // gone before its answer
  fail(1)
  await timings.flush()
  expect(batches.splice(0)).toEqual([1, 1].map(number => ({ number, count: 1 })))
  expect(timings.add([entry()])).toBe(1)
  fail(2)
  await timings.flush()
  expect(batches.splice(0).map(({ number }) => number)).toEqual([2, 2])
  expect(timings.add([entry(), entry()])).toBe(0)
  me.observe(500, 0.01)
  await timings.flush()
  expect(timings.add([entry(), entry()])).toBe(2)
  await timings.stop()
  expect(batches.map(({ number }) => number)).toEqual([3, 4])
  const lost = (await metrics.registry.getMetricsAsJSON()).find(({ name }) => name === "starling_telemetry_lost_total")
  expect((lost as unknown as { values: { value: number }[] }).values[0]!.value).toBe(1)
  metrics.close()
})

test("anybody may report response times; what comes is checked, and a stale token does no harm", async ({ shared }) => {
  const ada = await shared.person("ada")
  const report = { entries: [{ endpoint: "/users/@me", method: "GET", response_time_ms: 12.5, status_code: "200" }] }
  const taken = { accepted: 1, message: "Entries recorded" }
  for (const rest of [clientAt(shared.east), ada.on(shared.west)]) {
    expect(await rest.recordResponseTimes(report)).toEqual(taken)
    expect(
      await rest.recordTelemetry({
        entries: [
          ...report.entries,
          { ...report.entries[0]!, status_code: 599, db_queries: 3, db_time_ms: 1.5, timestamp: nowS() },
        ],
      }),
    ).toEqual({ ...taken, accepted: 2 })
    expect(await rest.recordResponseTimes({ entries: [] })).toEqual({ ...taken, accepted: 0 })
  }
  for (const authorization of ["Bearer", "bearer x", "Bearer gone", "Basic eDp5", `Bearer ${ada.token}, Bearer x`])
    expect(
      (await send(shared.east, path, { route: routes.recordResponseTimes, body: report, headers: { authorization } }))
        .body,
    ).toEqual(taken)
  for (const wrong of [
    { entries: Array.from({ length: 101 }, () => report.entries[0]) },
    { entries: [{ ...report.entries[0], response_time_ms: -1 }] },
    { entries: [{ ...report.entries[0], endpoint: "x".repeat(256) }] },
    { entries: [{ ...report.entries[0], method: "x".repeat(11) }] },
    { entries: [{ ...report.entries[0], status_code: 1.5 }] },
    {},
  ])
    expect((await send(shared.east, path, { route: routes.recordResponseTimes, body: wrong })).code).toBe(
      "validation_failed",
    )
})

test("a browser's report of a violation is answered with 204 whatever it is, without a word read", async ({
  shared,
}) => {
  const csp = "/api/v1/telemetry/csp-report"
  for (const body of [undefined, "", "no JSON", '{"csp-report":{}}', "\u0000", "x".repeat(3_000_000)]) {
    const answer = await send(shared.east, csp, {
      route: routes.reportCspViolation,
      ...(body !== undefined && { body }),
    })
    expect(answer).toMatchObject({ status: 204, text: "" })
    expect(answer.headers.get("content-length")).toBeNull()
  }
  await clientAt(shared.west).reportCspViolation()
})

test("the server keeps how long its own answers took, of every route, and writes the last as it ends", async ({
  cluster,
}) => {
  const [place, other] = await cluster.boot(2, { topology: { telemetry: { flushEveryMs: 200 } } })
  const ada = await cluster.person("ada")
  for (const worker of [place!, other!])
    for (let i = 0; i < 5; i++) {
      await ada.on(worker).getMe()
      await send(worker, "/api/v1/users/17", { route: routes.getUser, token: ada.token })
      await send(worker, "/nothing/here")
    }
  const own = async () => {
    const rows = await cluster.sql<{ endpoint: string; method: string; count: number; errors: number }[]>`
      SELECT endpoint, method, count::int AS count, errors::int AS errors FROM telemetry_timings WHERE span = 86400 AND source = 'server'`
    return new Map(rows.map(({ endpoint, method, count, errors }) => [`${method} ${endpoint}`, { count, errors }]))
  }
  await until("it is written", async () => (await own()).get("other other")?.count === 10)
  expect((await own()).get("GET /api/v1/users/@me")).toEqual({ count: 10, errors: 0 })
  expect((await own()).get("GET /api/v1/users/{user_id}")).toEqual({ count: 10, errors: 10 })
  await send(place!, "/livez")
  await place!.stop()
  expect((await own()).get("GET /livez")).toEqual({ count: 1, errors: 0 })
})

test("where telemetry is off nothing is kept, and clients learn so", async ({ cluster }) => {
  const [place] = await cluster.boot(1, {
    config: { STARLING_TELEMETRY_ENABLED: "false" },
    topology: { telemetry: { flushEveryMs: 100 } },
  })
  const rest = clientAt(place!)
  expect((await rest.getCapabilities()).features.telemetry).toBe(false)
  expect(await rest.recordTelemetry({ entries: [entry()] })).toEqual({ accepted: 0, message: "Telemetry is disabled" })
  await rest.reportCspViolation()
  await place!.stop()
  expect(await cluster.sql`SELECT FROM telemetry_timings`).toHaveLength(0)
})
