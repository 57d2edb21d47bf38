/** What operators see of the whole service, and how they set its state. */
import { onTestFinished } from "vitest"
import { openLink } from "../chaos/proxy.ts"
import { newOperator } from "../kit/area.ts"
import { refusal } from "../kit/conformance.ts"
import { attentive } from "../kit/operator.ts"
import { clientAt } from "../kit/person.ts"
import { closedWith, identified } from "../kit/raw.ts"
import { sharedServer } from "../kit/seeds.ts"
import { expect, testWith } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const test = testWith({ topology: attentive, jobWorkers: 1 })

test("an operator sets the state: clients are told and refused, the area stays open, and it ends", async ({
  cluster,
}) => {
  const [east, west] = await cluster.boot(2, { topology: attentive })
  const operator = await newOperator(cluster)
  const ada = await cluster.person("ada", east)
  const usual = { state: "running", message: null, estimated_downtime_seconds: null, restart_at: null }
  expect(await operator.on(west!).getServerState()).toEqual(usual)

  const live = await identified(east!, ada.token)
  const restart_at = Math.floor(Date.now() / 1000) + 600
  const notice = {
    state: "maintenance",
    message: "Maintenance: new disks",
    estimated_downtime_seconds: 600,
    restart_at,
  } as const
  expect(await operator.on(west!).putServerState({ ...notice, restart_at: restart_at * 1_000 })).toEqual(notice)
  // Where it was set it is known at once.
  expect(await clientAt(west!).getStatus({})).toMatchObject({ state: "maintenance", restart_at })
  expect(await refusal(ada.on(west!).getMe())).toBe("maintenance")
  expect(await live.ended).toEqual(closedWith("server_maintenance"))
  await until("the other worker knows", async () => (await clientAt(east!).getStatus({})).state === "maintenance")
  expect(await operator.on(east!).getServerState()).toEqual(notice)

  expect(await operator.on(east!).putServerState({ state: "running" })).toEqual(usual)
  expect((await ada.on(east!).getMe()).id).toBe(ada.id)
  expect(await operator.trail(west!)).toMatchObject([
    { action: "putServerState", target: "running", outcome: 200, input: { state: "running" } },
    { action: "putServerState", target: "maintenance", outcome: 200, input: { message: notice.message } },
  ])
})

test("PostgreSQL's connections are those that it has, and how long statements wait is counted", async ({ shared }) => {
  const operator = await newOperator(shared)
  const before = await operator.on(shared.east).getPoolHealth()
  const [row] = await shared.sql<{ most: number }[]>`SELECT current_setting('max_connections')::int AS most`
  expect(before).toMatchObject({
    max_connections: row!.most,
    min_connections: 0,
    database_type: expect.stringMatching(/^PostgreSQL \d/),
  })
  expect(before.total_connections).toBe(before.active_connections + before.idle_connections)
  expect(before.total_connections).toBeGreaterThan(1)
  expect(before.utilization_percent).toBeCloseTo((100 * before.total_connections) / before.max_connections, 1)
  expect(before.old_connections).toEqual([])
  await Promise.all(Array.from({ length: 40 }, () => operator.on(shared.east).listTrail({})))
  const after = await operator.on(shared.east).getPoolHealth()
  expect(after.total_acquisitions).toBeGreaterThanOrEqual(before.total_acquisitions + 80)
  expect(after.max_acquisition_time).toBeGreaterThanOrEqual(after.avg_pool_wait_time)
})

test("without PostgreSQL its connections are 500, other calls of operators 503", async ({ cluster }) => {
  const { hostname: host, port } = new URL(cluster.databaseUrl)
  const link = await openLink("postgres", () => ({ host, port: Number(port) }))
  onTestFinished(() => link.close())
  const databaseUrl = Object.assign(new URL(cluster.databaseUrl), { port: String(link.port) }).href
  const [worker] = await cluster.boot(1, { databaseUrl })
  const operator = await newOperator(cluster)
  await operator.on(worker!).getPoolHealth()
  link.set({ cut: true })
  expect(await refusal(operator.on(worker!).getPoolHealth())).toBe("database_not_available")
  expect(await refusal(operator.on(worker!).getNow({}))).toBe("unavailable")
  link.set({})
  await until("it is back", () =>
    operator
      .on(worker!)
      .getPoolHealth()
      .then(
        () => true,
        () => false,
      ),
  )
})

test("any worker tells what all of them do, and how they are", async ({ shared }) => {
  const operator = await newOperator(shared)
  const { channel, ada } = await shared.seed(sharedServer)
  const inbox = await ada.listen(shared.west)
  for (let i = 0; i < 5; i++) await ada.on(shared.east).createMessage({ channel_id: channel.id, content: `${i}` })
  await inbox.next("MESSAGE_CREATE")
  const sums = async () => {
    const now = await operator.on(shared.west).getNow({})
    const total = (name: "messages" | "deliveries" | "requests") =>
      now.samples.reduce((sum, each) => sum + each[name], 0)
    return { now, messages: total("messages"), deliveries: total("deliveries"), requests: total("requests") }
  }
  await until(
    "the samples have it, and each process has noted itself",
    async () => {
      const { now, messages, deliveries } = await sums()
      return messages >= 5 && deliveries >= 5 && now.processes.length === 3 && now.samples.at(-1)!.sessions > 0
    },
    { timeoutMs: 40_000, everyMs: 500 },
  )
  const { now, requests } = await sums()
  expect(requests).toBeGreaterThan(5)
  const newest = now.samples.at(-1)!
  expect(newest).toMatchObject({ processes: 3, sessions: 1 })
  // Others of this file were refused during maintenance.
  expect(newest.errors).toBeLessThanOrEqual(newest.requests)
  expect(newest.postgres_ms).toBeGreaterThan(0)
  expect(newest.redis_ms).toBeGreaterThan(0)
  expect(newest.disk_percent).toBeGreaterThan(0)
  const lag = now.samples.find(({ lag_p99_ms }) => lag_p99_ms !== null)!
  expect(lag.lag_p99_ms).toBeGreaterThanOrEqual(lag.lag_p50_ms!)
  expect(now.processes.map(({ role }) => role).toSorted()).toEqual(["job", "web", "web"])
  expect(now.processes.every(({ memory_mb }) => memory_mb > 10)).toBe(true)
  expect(now.postgres).toMatchObject({ ok: true, connections: expect.any(Number), size_bytes: expect.any(Number) })
  expect(now.redis).toMatchObject({ ok: true, memory_bytes: expect.any(Number) })
  expect(now.disk.percent).toBeGreaterThan(0)
  expect(now.jobs).toMatchObject({ active: expect.any(Number), failed: expect.any(Number) })
  // What is known already is not told again.
  const later = await operator.on(shared.east).getNow({ since: String(newest.at) })
  expect(later.samples.every(({ at }) => at > newest.at)).toBe(true)
  expect((await operator.on(shared.east).getNow({})).samples).toEqual(expect.arrayContaining(now.samples.slice(0, -2)))
})
