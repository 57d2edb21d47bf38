/** P11: a worker that answers every check and can nevertheless not publish what it commits is not ready. */
import type { Cluster, Worker } from "../kit/cluster.ts"
import { gauge } from "../kit/cluster.ts"
import { sharedServer } from "../kit/seeds.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"

async function readiness({ url }: Worker): Promise<{ status: number; checks: Record<string, string> }> {
  const answer = await fetch(`${url}/readyz`)
  type Checks = Record<string, string>
  const body = (await answer.json()) as { checks?: Checks; error?: { checks: Checks } }
  return { status: answer.status, checks: body.checks ?? body.error?.checks ?? {} }
}
const topology = { actors: { notReadyAfterMs: 500 } }

test("P11: while nothing can be appended /readyz says so, and 200 again when it works", async ({ cluster }) => {
  const [worker] = await cluster.boot(1, { topology })
  const { ada, lin, channel } = await cluster.seed(sharedServer)
  // Without a session nothing is appended.
  await lin.listen(worker!)
  const { logs } = worker!.node
  const append = logs.append.bind(logs)
  let open = () => {}
  const opened = new Promise<void>(resolve => (open = resolve))
  logs.append = async (...args) => {
    await opened
    return append(...args)
  }
  expect((await readiness(worker!)).status).toBe(200)
  const sent = ada.on(worker!).createMessage({ channel_id: channel.id, content: "hello" })
  await until("it is not ready", async () => (await readiness(worker!)).status === 503)
  // Redis and PostgreSQL answer all the while.
  expect((await readiness(worker!)).checks).toMatchObject({
    postgres: "ok",
    redis: "ok",
    membership: "ok",
    publication: "failing",
  })
  expect(await gauge(worker!, "starling_outbox_stuck_seconds")).toBeGreaterThanOrEqual(0.5)
  open()
  expect((await sent).content).toBe("hello")
  await until("it is ready", async () => (await readiness(worker!)).status === 200)
  expect(await gauge(worker!, "starling_outbox_stuck_seconds")).toBe(0)
})

test("P11: the same while nothing can be committed; a worker without work is ready however long that lasts", async ({
  cluster,
}) => {
  const [worker] = await cluster.boot(1, { topology })
  const { ada, channel } = await cluster.seed(sharedServer)
  const lock = await cluster.sql.reserve()
  await lock`BEGIN`
  // Readers do not wait for it.
  await lock`LOCK TABLE outbox IN EXCLUSIVE MODE`
  const sent = ada.on(worker!).createMessage({ channel_id: channel.id, content: "hello" })
  await until("it is not ready", async () => (await readiness(worker!)).status === 503)
  expect((await readiness(worker!)).checks).toMatchObject({ postgres: "ok", redis: "ok", publication: "failing" })
  await lock`ROLLBACK`
  lock.release()
  expect((await sent).content).toBe("hello")
  await until("it is ready", async () => (await readiness(worker!)).status === 200)
  await new Promise(resolve => setTimeout(resolve, 1_200))
  expect((await readiness(worker!)).status).toBe(200)
})

/** A member on record that owns shards and answers nobody, as after a crash of its host. It dies only where a test says so. */
async function ghostOwning({ sql }: Cluster, shards: readonly number[]): Promise<string> {
  const id = "ghost"
  await sql`INSERT INTO incarnations (id, host, slot, role) VALUES (${id}, 'elsewhere', 0, 'web')`
  await sql`INSERT INTO lanes (incarnation, lane) VALUES (${id}, 0)`
  await sql`UPDATE shards SET owner = ${id}, epoch = epoch + 1 WHERE shard = ANY(${[...shards]}::smallint[])`
  return id
}

test("P11: a worker that starts is not ready before every shard has an owner that answers", async ({ cluster }) => {
  // Whose events each shard's owner sent where is on record then, and nobody is asked.
  const [former] = await cluster.boot(1)
  await former!.stop()
  const ghost = await ghostOwning(cluster, [5, 700])
  const [worker] = await cluster.boot(1, { unbalanced: true })
  const asked = [await readiness(worker!), await readiness(worker!)]
  expect(asked.map(({ status }) => status)).toEqual([503, 503])
  expect(asked[0]!.checks).toMatchObject({ postgres: "ok", redis: "ok", membership: "ok", shards: "failing" })

  await cluster.sql`UPDATE incarnations SET died_at = now() WHERE id = ${ghost}`
  worker!.noteDeath(ghost)
  await until("it is ready", async () => (await readiness(worker!)).status === 200)
  const rows = await cluster.sql<{ owner: string }[]>`SELECT DISTINCT owner FROM shards`
  expect(rows.map(({ owner }) => owner)).toEqual([worker!.id])
})

test("P11: workers that start together become ready, and one that joins them does", async ({ cluster }) => {
  const workers = await cluster.boot(2, { unbalanced: true })
  const [third] = await cluster.boot(1, { unbalanced: true })
  for (const worker of [...workers, third!])
    await until("it is ready", async () => (await readiness(worker)).status === 200)
})
