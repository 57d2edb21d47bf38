/** P17: the whole program is replaced by another one, its first process too, while clients are at work. */
import { chmod, mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { onTestFinished } from "vitest"
import { freePort } from "../../src/std/child-server.ts"
import { check, communities, impatient, load, watch } from "../kit/load.ts"
import { startProcesses } from "../kit/processes.ts"
import { ownRedis } from "../kit/services.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"

/** One request a connection, never tried again. */
function simpleClients(url: string, count: number) {
  const over = new AbortController()
  const tally = { answered: 0, refused: [] as string[] }
  const clients = Array.from({ length: count }, async () => {
    while (!over.signal.aborted) {
      await fetch(`${url}/health`, { headers: { connection: "close" } }).then(
        async answer => {
          await answer.arrayBuffer()
          if (answer.status === 200) tally.answered++
          else tally.refused.push(String(answer.status))
        },
        (error: Error & { cause?: { code?: string } }) => void tally.refused.push(error.cause?.code ?? error.message),
      )
      await sleep(10)
    }
  })
  const end = async () => {
    over.abort()
    await Promise.all(clients)
  }
  return { tally, end }
}

test(
  "P1, P3, P5, P17: a second program takes the place of the first on its port: nothing is lost, every session goes on",
  { timeout: 240_000 },
  async ({ cluster }) => {
    const [redis, port, metricsPort] = [await ownRedis(), await freePort(), await freePort()]
    const dataDir = await mkdtemp(join(tmpdir(), "starling-take-over-"))
    await chmod(dataDir, 0o755)
    onTestFinished(async () => {
      await redis.close()
      await rm(dataDir, { recursive: true, force: true })
    })
    const env = {
      DATABASE_URL: cluster.databaseUrl,
      REDIS_URL: redis.url,
      DATA_DIR: dataDir,
      PORT: String(port),
      METRICS_PORT: String(metricsPort),
      WORKERS: "2",
      TAKE_OVER: "on",
    }
    // Nobody serves yet: an ordinary start.
    const first = await startProcesses(env)
    onTestFinished(() => first.stop())
    const { ada, lin, list } = await communities(cluster, 4, first)
    const inboxes = await Promise.all([1, 2, 3, 4].map(() => lin.listen(first, impatient)))
    const sessions = watch(inboxes)
    const sending = load(ada, list, () => first)
    const simple = simpleClients(first.url, 3)
    await sending.goesOn()

    const second = await startProcesses(env)
    onTestFinished(() => second.stop())
    expect(second.url).toBe(first.url)
    expect(await first.ended).toBe(0)
    await until("the second has all", () => second.stdout().includes("has ended"))
    await sending.goesOn(10)
    await sending.end()
    await simple.end()
    expect((await second.metrics()).get('starling_processes{role="web"}')).toBe(2)
    expect(sessions.anew()).toBe(0)
    expect(sessions.changed()).toEqual([])
    await check(cluster, list, sending.acked, inboxes)
    const { answered, refused } = simple.tally
    console.log(
      `take-over: of ${answered + refused.length} connections without a second try ${refused.length} refused (${[...new Set(refused)].join(", ")}), ${sending.refusals()} messages tried again`,
    )
    // Linux resets connections that wait at a socket that is closed, unless net.ipv4.tcp_migrate_req is on.
    expect(refused.length).toBeLessThanOrEqual(answered / 100)

    // And back again, to the identity of the first.
    const third = await startProcesses(env)
    onTestFinished(() => third.stop())
    expect(await second.ended).toBe(0)
    expect((await fetch(`${third.url}/readyz`)).status).toBe(200)
  },
)
