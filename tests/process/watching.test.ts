/** What operators watch is there: metrics, alerts and dashboards, held to a server that runs and to Prometheus. */
import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { onTestFinished } from "vitest"
import { alerts } from "../../scripts/watching/alerts.ts"
import { dashboards } from "../../scripts/watching/dashboards.ts"
import { allMetrics } from "../../scripts/watching/metrics-page.ts"
import { rulesTests } from "../../scripts/watching/rules.ts"
import { openRedis } from "../../src/cluster/redis.ts"
import type { Finding } from "../../src/process/operator/doctor.ts"
import { looking } from "../../src/process/operator/looking.ts"
import type { Top } from "../../src/process/operator/top.ts"
import { NodeWebSocket } from "../../bench/load/node-websocket.ts"
import { clientAt } from "../kit/person.ts"
import { promtool, requirePrometheus, startPrometheus } from "../kit/prometheus.ts"
import { sharedServer } from "../kit/seeds.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const rulesFile = fileURLToPath(new URL("../../deploy/prometheus/rules.yml", import.meta.url))
const panels = dashboards.flatMap(({ file, panels }) => panels.map(panel => ({ file, ...panel })))

/** What only trouble makes appear. */
const isOfTrouble = (expr: string) => /status="5xx"|starling_redis_errors_total/.test(expr)

/** Of an alert: what it compares. */
const compared = (expr: string) => expr.replace(/ [<>=]=? [\d.]+$/, "")

/** Each of them with the labels by which it is asked for. */
function asked(expr: string): { metric: string; labels: string[] }[] {
  const by = [...expr.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, names]) => names!.split(",").map(name => name.trim()))
  return [...expr.matchAll(/\b(starling_\w+)(?:\{([^}]*)\})?/g)].map(([, metric, matchers = ""]) => ({
    metric: metric!,
    labels: [...[...matchers.matchAll(/(\w+)\s*[=!]/g)].map(([, name]) => name!), ...by],
  }))
}

test("each alert fires when it should and is silent otherwise", async ({ skip }) => {
  await requirePrometheus(skip)
  const folder = await mkdtemp(join(tmpdir(), "starling-rules-"))
  onTestFinished(() => rm(folder, { recursive: true }))
  expect(alerts).toHaveLength(16)
  expect(await promtool("check", "rules", rulesFile)).toContain("16 rules found")
  const tests = join(folder, "tests.yml")
  await writeFile(tests, rulesTests(rulesFile))
  expect(await promtool("test", "rules", tests)).toContain("SUCCESS")
  // A rule that never fires would be found.
  await writeFile(tests, rulesTests(rulesFile).replaceAll("0x20 10+60x20", "0x40"))
  await expect(promtool("test", "rules", tests)).rejects.toThrow("StarlingPublicationStuck fires")
})

test("what alerts and dashboards ask for is what a server shows", { timeout: 120_000 }, async ({ cluster, skip }) => {
  await requirePrometheus(skip)
  const dataDir = await mkdtemp(join(tmpdir(), "starling-captures-"))
  onTestFinished(() => rm(dataDir, { recursive: true }))
  const program = await cluster.processes(1, { DATA_DIR: dataDir, DEBUG_CAPTURES: "on" })
  const prometheus = await startPrometheus(new URL(program.metricsUrl).host, rulesFile)
  onTestFinished(() => prometheus.stop())

  const { ada, lin, channel, server } = await sharedServer(cluster, program)
  const inbox = await lin.listen(program)
  await inbox.heartbeatNow()
  await expect(clientAt(program).login({ username: ada.username, password: "no" })).rejects.toThrow(
    "Invalid credentials",
  )
  await ada.signIn(program)
  const socket = new NodeWebSocket(`${program.url.replace("http", "ws")}/gateway`)
  await until("the socket is open", () => socket.readyState === NodeWebSocket.OPEN)
  socket.send("nonsense") // the server closes it
  const post = () => ada.on(program).createMessage({ channel_id: channel.id, content: `hello <@${lin.id}>` })
  const seen = async (expr: string) => (await prometheus.query(expr)).length > 0
  await until(
    "two scrapes have what was done",
    async () => {
      await post()
      return seen(
        "rate(starling_jobs_total[10s]) > 0 and on() (rate(starling_gateway_delivery_seconds_count[10s]) > 0)",
      )
    },
    { timeoutMs: 60_000, everyMs: 250 },
  )

  const figures = await program.metrics()
  for (const counted of [
    "starling_gateway_delivery_seconds_count",
    "starling_gateway_round_trip_seconds_count",
    'starling_sign_ins_total{way="password",outcome="wrong"}',
    'starling_sign_ins_total{way="password",outcome="done"}',
    'starling_postgres_statements_total{group="users"}',
    'starling_postgres_statement_seconds_total{group="users"}',
    'starling_redis_writes_total{purpose="log"}',
    'starling_redis_round_trip_seconds_count{purpose="admission"}',
    'starling_redis_round_trip_seconds_count{purpose="log"}',
    'starling_gc_duration_seconds_count{kind="minor"}',
    'starling_data_free_bytes{worker="primary"}',
    'starling_data_size_bytes{worker="primary"}',
    'starling_process_open_descriptors{worker="web-0"}',
    'starling_process_descriptor_limit{worker="web-0"}',
  ])
    expect(figures.get(counted) ?? 0, counted).toBeGreaterThan(0)
  expect(figures.get('starling_jobs_oldest_waiting_seconds{queue="jobs",worker="job-0"}')).toBeGreaterThanOrEqual(0)

  const scrape = await (await fetch(program.metricsUrl)).text()
  const declared = new Map(allMetrics().map(metric => [metric.name, metric]))
  const shown = new Set([...scrape.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name!))
  expect([...declared.keys()].filter(name => !shown.has(name))).toEqual([])
  expect([...shown].filter(name => !declared.has(name))).toEqual([])

  const expressions = [
    ...alerts.map(({ name, expr }) => ({ name, expr })),
    ...panels.flatMap(({ file, title, queries }) => queries.map(([expr]) => ({ name: `${file}: ${title}`, expr }))),
  ]
  for (const { name, expr } of expressions)
    for (const { metric, labels } of asked(expr)) {
      const whole = metric.replace(/_(bucket|sum|count)$/, "")
      const about = declared.get(metric) ?? declared.get(whole)
      expect({ name, metric, isShown: about !== undefined }).toEqual({ name, metric, isShown: true })
      const own = [...about!.labels, "le", "instance", "job", ...(about!.type === "gauge" ? ["worker"] : [])]
      expect({ name, unknown: labels.filter(label => !own.includes(label)) }).toEqual({ name, unknown: [] })
    }

  const empty: string[] = []
  for (const { name, expr } of expressions)
    if (!(await seen(compared(expr).replaceAll("$__rate_interval", "10s"))) && !isOfTrouble(expr)) empty.push(name)
  expect(empty).toEqual([])

  const rules = await prometheus.rules()
  expect(rules.map(({ name }) => name)).toEqual(alerts.map(({ name }) => name))
  expect(rules.filter(({ health }) => health !== "ok")).toEqual([])
  expect(rules.filter(({ state }) => state === "firing").map(({ name }) => name)).toEqual([])

  const { port } = new URL(program.metricsUrl)
  const env = {
    HOST: "127.0.0.1",
    PORT: new URL(program.url).port,
    METRICS_PORT: port,
    DATABASE_URL: cluster.databaseUrl,
    REDIS_URL: program.redisUrl,
    DATA_DIR: dataDir,
  }
  await showsTop(env, { home: server.id, post })
  await findsFaults(env)
  await captures(program.metricsUrl.replace(/metrics$/, "debug"), dataDir)
})

/** One look at a terminal's command. */
async function look(words: string[], env: Record<string, string>) {
  let [printed, complained] = ["", ""]
  const code = await looking(words, env, {
    isTerminal: true,
    print: text => void (printed += `${text}\n`),
    complain: text => void (complained += `${text}\n`),
  })
  return { code, printed, complained }
}

async function showsTop(env: Record<string, string>, { home, post }: { home: string; post: () => Promise<unknown> }) {
  let top: Top | undefined
  await until(
    "the home is hot",
    async () => {
      await Promise.all([post(), post(), post()])
      const { code, printed } = await look(["top", "--json"], env)
      expect(code).toBe(0)
      top = JSON.parse(printed) as Top
      return top.hot_homes.some(hot => hot.home === home && hot.kind === "server" && hot.turns_per_second > 0)
    },
    { timeoutMs: 30_000 },
  )
  expect(top!.missing).toBe(0)
  expect(top!.workers.map(({ worker }) => worker)).toEqual(["job-0", "web-0"])
  const web = top!.workers.find(({ worker }) => worker === "web-0")!
  expect(web).toMatchObject({ connections: 1, sessions: 1, stuck_ms: 0 })
  expect(web.cpu_percent).toBeGreaterThanOrEqual(0)
  expect(web.homes).toBeGreaterThan(0)
  const text = await look(["top", "--once"], env)
  expect(text.printed).toMatch(/^worker +pid +cpu %/)
  expect(text.printed).toContain(home)
  expect((await look(["top", "--json"], { ...env, METRICS_PORT: "1" })).code).toBe(1)
  expect((await look(["top", "--often"], env)).code).toBe(2)
}

/** The database of tests need not survive the machine, and their Redis keeps nothing. */
async function findsFaults(env: Record<string, string>) {
  const findings = async (changed: Record<string, string> = {}) => {
    const { code, printed } = await look(["doctor", "--json"], { ...env, ...changed })
    const found = JSON.parse(printed) as Finding[]
    expect(code).toBe(found.some(({ level }) => level === "fault") ? 1 : 0)
    const of = (level: string) => found.filter(one => one.level === level).map(({ check }) => check)
    return { faults: of("fault"), warnings: of("warn"), well: of("ok"), found }
  }
  const { faults, warnings, well } = await findings()
  expect(faults).toEqual(["fsync", "full_page_writes"])
  expect(warnings).toContain("Redis: persistence")
  expect(well).toEqual(
    expect.arrayContaining([
      "configuration",
      "Node",
      "C library",
      "uWebSockets.js",
      "DATA_DIR",
      "PostgreSQL",
      "synchronous_commit",
      "connections",
      "Redis: maxmemory-policy",
      "clock of PostgreSQL against this machine",
      "clock of Redis against PostgreSQL",
      "server",
    ]),
  )
  const redis = openRedis(env["REDIS_URL"]!, "test", () => {})
  await redis.connect()
  await redis.config("SET", "maxmemory-policy", "allkeys-lru")
  try {
    expect((await findings()).faults).toContain("Redis: maxmemory-policy")
  } finally {
    await redis.config("SET", "maxmemory-policy", "noeviction")
    redis.disconnect()
  }
  const away = await findings({
    REDIS_URL: "redis://127.0.0.1:1",
    DATABASE_URL: "postgres://nobody@127.0.0.1:1/none",
    METRICS_PORT: "1",
  })
  expect(away.faults).toEqual(["PostgreSQL", "Redis"])
  expect(away.found.find(({ check }) => check === "server")!.found).toContain("none answers")
  expect((await findings({ PORT: "much" })).faults).toEqual(["configuration"])
  const { printed } = await look(["doctor"], env)
  expect(printed).toMatch(/^fault +fsync +off\n +what was acknowledged is lost/m)
  expect(printed).toMatch(/\d+ ok, \d+ warnings, 2 faults\n$/)
}

async function captures(debugUrl: string, dataDir: string) {
  const capture = async (path: string) => {
    const reply = await fetch(`${debugUrl}/${path}`, { method: "POST", headers: { "starling-debug": "yes" } })
    return [reply.status, (await reply.text()).trim()] as const
  }
  const [both, second] = await Promise.all([capture("profile?worker=web-0&seconds=1"), capture("heap?worker=web-0")])
  const [status, file] = both[0] === 200 ? both : second
  expect([status, new Set([both[0], second[0]])]).toEqual([200, new Set([200, 409])])
  expect(file.startsWith(join(dataDir, "captures", "web-0-"))).toBe(true)
  expect((await stat(file)).mode & 0o077).toBe(0)
  expect(Object.keys(JSON.parse(await readFile(file, "utf8")) as object)).toContain("nodes")
  expect((await capture("profile?worker=web-9"))[1]).toBe("no process web-9 answers")
}
