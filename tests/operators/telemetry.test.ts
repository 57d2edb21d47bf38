import { routes } from "../../src/contract/contract.ts"
import { csvCell, exportText } from "../../src/domain/service/telemetry-export.ts"
import { newOperator } from "../kit/area.ts"
import { refusal } from "../kit/conformance.ts"
import { send } from "../kit/exchange.ts"
import { clientAt } from "../kit/person.ts"
import { expect, testWith } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const test = testWith({ topology: { telemetry: { flushEveryMs: 200 } } })
const root = "/api/v1/admin/telemetry"
const reported = "/api/v1/channels/{channel_id}/typing"
const nowS = () => Math.floor(Date.now() / 1000)

test("an operator sees how long requests took, as the server and as clients measured it, and over time", async ({
  shared,
}) => {
  const { east, west } = shared
  const operator = await newOperator(shared)
  const [here, there] = [operator.on(east), operator.on(west)]
  const entry = (response_time_ms: number, more = {}) => ({
    endpoint: "/channels/17/typing",
    method: "post",
    response_time_ms,
    status_code: 200,
    ...more,
  })
  const anybody = clientAt(west)
  await anybody.recordTelemetry({ entries: [10, 20, 30, 40].map(ms => entry(ms, { db_queries: 2, db_time_ms: 1.5 })) })
  // Whose token comes along does not matter.
  expect((await here.recordTelemetry({ entries: [] })).accepted).toBe(0)
  await anybody.recordTelemetry({ entries: [entry(1_000, { status_code: "timeout", timestamp: nowS() - 7_200 })] })
  const statOf = async (query: Parameters<typeof here.getTelemetryStats>[0]) => {
    const { stats, source } = await here.getTelemetryStats({ endpoint: "{CHANNEL_ID}/typing", ...query })
    return { stat: stats[0], count: stats.length, source }
  }
  await until("it is written", async () => (await statOf({})).stat?.count === 5)
  expect(await statOf({ source: "client", hours: "1" })).toEqual({
    stat: {
      endpoint: reported,
      method: "POST",
      count: 4,
      avg_ms: 25,
      min_ms: 10,
      max_ms: 40,
      p50_ms: expect.closeTo(20, 0),
      p95_ms: expect.closeTo(40, 0),
      p99_ms: expect.closeTo(40, 0),
      error_rate: 0,
      error_count: 0,
      avg_queries: 2,
      avg_query_time_ms: 1.5,
    },
    count: 1,
    source: "client",
  })
  expect(await statOf({})).toMatchObject({
    stat: { count: 5, error_rate: 20, error_count: 1, max_ms: 1_000 },
    source: "all",
  })
  expect(await statOf({ source: "server" })).toMatchObject({ count: 0, source: "server" })
  expect(await statOf({ source: "nobody" })).toMatchObject({ count: 0, source: "nobody" })
  // The operator's own requests are among those that the server measured, once they are written, too.
  const ofServer = async () => (await there.getTelemetryStats({ source: "server" })).stats
  const ofStats = (stats: Awaited<ReturnType<typeof ofServer>>) =>
    stats.find(({ endpoint, method }) => endpoint === `${root}/stats` && method === "GET")
  await until("they are", async () => ofStats(await ofServer()) !== undefined)
  const stats = await ofServer()
  expect(ofStats(stats)).toMatchObject({ avg_queries: 0 })
  expect(stats.map(({ count }) => count)).toEqual(stats.map(({ count }) => count).toSorted((a, b) => b - a))

  const { history } = await there.getTelemetryHistory({ endpoint: reported, method: "POST" })
  expect(history).toEqual([
    { timestamp: expect.any(Number), avg_ms: 1_000, count: 1, error_count: 1 },
    { timestamp: expect.any(Number), avg_ms: 25, count: 4, error_count: 0 },
  ])
  expect(history.every(({ timestamp }) => timestamp % 300 === 0)).toBe(true)
  for (const [query, found] of [
    [{ hours: "1" }, 1],
    [{ bucket_minutes: "1440", hours: "99999" }, 1],
    [{ bucket_minutes: "0" }, 2],
    [{ method: "GET" }, 0],
    [{ endpoint: "other" }, 0],
  ] as const) {
    const { history: some } = await here.getTelemetryHistory({ endpoint: reported, method: "POST", ...query })
    // A day may have begun within the last two hours.
    if (!("bucket_minutes" in query && query.bucket_minutes === "1440"))
      expect([query, some.length]).toEqual([query, found])
    else expect(some.reduce((sum, { count }) => sum + count, 0)).toBe(5)
  }
  for (const query of [{ hours: "x" }, { hours: "1.5" }, { endpoint: "y".repeat(300) }])
    expect(await refusal(here.getTelemetryStats(query))).toBe("validation_failed")
  expect((await send(east, `${root}/history`, { route: routes.getTelemetryHistory, token: operator.token })).code).toBe(
    "validation_failed",
  )
})

test("the statistics leave as a file of three kinds, and no cell of it is a formula", async ({ shared }) => {
  const operator = await newOperator(shared)
  await clientAt(shared.east).recordTelemetry({
    entries: [{ endpoint: '=cmd|"/c calc"!A1', method: "@SUM(1)", response_time_ms: 5, status_code: 200 }],
  })
  const download = (query: string) =>
    send(shared.east, `${root}/export?${query}`, { route: routes.exportTelemetry, token: operator.token })
  await until("it is written", async () => (await download("format=csv")).text.includes("other"))
  const files = { json: "application/json", csv: "text/csv", txt: "text/plain" }
  for (const [format, type] of Object.entries(files)) {
    const file = await download(`format=${format}&hours=2`)
    expect(file.headers.get("content-type")).toBe(type)
    expect(file.headers.get("content-disposition")).toMatch(
      new RegExp(`^attachment; filename=telemetry_\\d{4}-\\d\\d-\\d\\d_\\d\\d-\\d\\d-\\d\\d\\.${format}$`),
    )
    expect(file.headers.get("cache-control")).toBe("no-store")
  }
  const json = JSON.parse((await download("hours=2")).text) as { export_time: string; hours: number; stats: object[] }
  expect(json).toMatchObject({ export_time: expect.stringMatching(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/), hours: 2 })
  expect(json.stats).toContainEqual(expect.objectContaining({ endpoint: "other", method: "other" }))
  const [head, ...rows] = (await download("format=csv")).text.split("\r\n")
  expect(head).toBe("Endpoint,Method,Hits,Avg Latency (ms),P95 Latency (ms),Avg Queries,Avg DB Time (ms),Error Rate %")
  expect(rows.filter(row => /(^|,)"?[=+@\t-]/.test(row))).toEqual([])
  expect((await download("format=txt&hours=1")).text).toMatch(
    /^Response times, .* UTC\nThe last 1 hour\n\nEndpoint +Method +Hits/,
  )
  expect((await download("format=pdf")).body).toMatchObject({
    error: { code: 400, message: "Unsupported format: pdf" },
  })

  for (const [text, cell] of [
    ["=1+1", '"\'=1+1"'],
    ["+1", '"\'+1"'],
    ["-1", '"\'-1"'],
    ["@a", '"\'@a"'],
    ["\tx", '"\'\tx"'],
    ['a,"b"', '"a,""b"""'],
    ["plain", "plain"],
  ] as const)
    expect(csvCell(text)).toBe(cell)
  expect(csvCell(-1)).toBe("-1")
  const stat = {
    endpoint: "=A1",
    method: "GET",
    count: 1,
    avg_ms: 1,
    min_ms: 1,
    max_ms: 1,
    p50_ms: 1,
    p95_ms: 1,
    p99_ms: 1,
    error_rate: 0,
    error_count: 0,
    avg_queries: 0,
    avg_query_time_ms: 0,
  }
  expect(exportText("csv", { stats: [stat], hours: 1, nowMs: 0 })).toContain('\r\n"\'=A1",GET,1,')
})

test("a reset forgets everything, says how much it was, and stands in the trail", async ({ shared }) => {
  const operator = await newOperator(shared)
  const rest = operator.on(shared.west)
  await clientAt(shared.west).recordTelemetry({
    entries: [
      { endpoint: reported, method: "POST", response_time_ms: 1, status_code: 200, timestamp: nowS() - 90_000 },
    ],
  })
  const within = async (hours: string) =>
    (await rest.getTelemetryStats({ hours, source: "client" })).stats.reduce((sum, { count }) => sum + count, 0)
  // What others have reported today may be written at any moment.
  const before = async () => (await within("720")) - (await within("24"))
  await until("it is written", async () => (await before()) > 0)
  const { success, deleted_count } = await rest.resetTelemetry()
  expect({ success, isCounted: deleted_count > 0 }).toEqual({ success: true, isCounted: true })
  expect(await before()).toBe(0)
  expect(await operator.trail(shared.east)).toContainEqual(
    expect.objectContaining({ action: "resetTelemetry", outcome: 200, result: { deleted_count } }),
  )
})

test("where telemetry is off there are no statistics", async ({ cluster }) => {
  const [place] = await cluster.boot(1, { config: { STARLING_TELEMETRY_ENABLED: "false" } })
  const operator = await newOperator(cluster)
  const rest = operator.on(place!)
  expect(await rest.getTelemetryStats({})).toEqual({ stats: [], source: "all" })
  expect(await rest.getTelemetryHistory({ endpoint: "other" })).toEqual({ history: [] })
  expect(await rest.resetTelemetry()).toEqual({ success: false, deleted_count: 0 })
  expect(await refusal(rest.exportTelemetry({}))).toBe("telemetry_disabled")
})
