/** How soon workers know what an operator says: they are told, and where they cannot be they look for it. */
import { onTestFinished } from "vitest"
import type { Cluster, Worker } from "../kit/cluster.ts"
import { administrator } from "../kit/database.ts"
import { muffled } from "../kit/muffled-postgres.ts"
import { operatorOf } from "../kit/operator.ts"
import { clientAt } from "../kit/person.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"

/** No worker looks without being told within this test. */
const never = 3_600_000
const told = { service: { lookEveryMs: never, restMs: never } }

const stateOf = async (worker: Worker) => (await clientAt(worker).getStatus({})).state
const reached = (workers: readonly Worker[], state: string) =>
  until(`every worker is ${state}`, async () => (await Promise.all(workers.map(stateOf))).every(one => one === state))

/** Processes of PostgreSQL that serve connections over which workers are told. */
const listening = async ({ sql }: Cluster) =>
  sql<{ pid: number }[]>`
    SELECT pid FROM pg_stat_activity
    WHERE datname = current_database() AND application_name LIKE '% listening' AND query NOT LIKE 'LISTEN%'`
const isHeardBy = (cluster: Cluster, count: number) =>
  until("they are told", async () => (await listening(cluster)).length === count)

test("SVC1: every worker is told at once, no matter by whom, and takes what is asked", async ({ cluster }) => {
  const workers = await cluster.boot(2, { topology: told })
  await isHeardBy(cluster, 2)
  const operator = operatorOf(cluster)
  await operator.setState({ state: "maintenance" })
  await reached(workers, "maintenance")
  // By hand, too.
  await cluster.sql`UPDATE service SET state = 'running', changes = changes + 1`
  await reached(workers, "running")
  const ada = await cluster.person("ada")
  const request = await operator.requests.forceLogout(ada.id, "bye")
  await until("it is carried out", async () => (await operator.requests.answerTo(request)) !== undefined)
  expect(await operator.requests.answerTo(request)).toEqual({ ended: 1 })
  expect(await operator.command(ada.id, "dropSecondFactor")).toBeDefined()
})

test("SVC1: what is said while nobody can be told is known as soon as a worker is told again", async ({ cluster }) => {
  const workers = await cluster.boot(1, { topology: told })
  await isHeardBy(cluster, 1)
  const operator = operatorOf(cluster)
  await operator.setState({ state: "maintenance" })
  await reached(workers, "maintenance")

  const database = new URL(cluster.databaseUrl).pathname.slice(1)
  await administrator().unsafe(`ALTER DATABASE ${database} ALLOW_CONNECTIONS false`)
  for (const { pid } of await listening(cluster)) await cluster.sql`SELECT pg_terminate_backend(${pid})`
  await isHeardBy(cluster, 0)
  await operator.setState({ state: "running" })
  await administrator().unsafe(`ALTER DATABASE ${database} ALLOW_CONNECTIONS true`)
  await reached(workers, "running")
  await isHeardBy(cluster, 1)
  await operator.setState({ state: "maintenance" })
  await reached(workers, "maintenance")
})

test("SVC1, HEAR1: behind a pooler, where nothing that is announced arrives, workers look for it again and again", async ({
  cluster,
}) => {
  const way = await muffled(cluster.databaseUrl, { dropsAnnouncements: true })
  onTestFinished(() => way.close())
  const workers = await cluster.boot(1, {
    databaseUrl: way.url,
    topology: { service: { lookEveryMs: 50, restMs: never } },
  })
  await until("it has tried more than once whether it is told", () => way.dropped > 1)
  const operator = operatorOf(cluster)
  for (const state of ["maintenance", "running"] as const) {
    await operator.setState({ state })
    await reached(workers, state)
  }
})

test("SVC1, HEAR2: a connection that has fallen silent is given up for another, and what it has missed is looked for", async ({
  cluster,
}) => {
  const way = await muffled(cluster.databaseUrl)
  onTestFinished(() => way.close())
  const workers = await cluster.boot(1, {
    databaseUrl: way.url,
    topology: { service: { lookEveryMs: 100, restMs: 500 }, storage: { statementTimeoutMs: 1_500 } },
  })
  await isHeardBy(cluster, 1)
  const operator = operatorOf(cluster)
  way.silence = name => name.endsWith(" listening") && way.silenced === 0
  await until("it is silent", () => way.silenced === 1)
  await operator.setState({ state: "maintenance" })
  await reached(workers, "maintenance")
  // It is asked for what it had to say, and another has taken its place.
  await until("another is there", async () => (await listening(cluster)).length === 2)
  await operator.setState({ state: "running" })
  await reached(workers, "running")
  cluster.errors.splice(0)
})
