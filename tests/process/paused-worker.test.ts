/** A worker that stands still: what comes meanwhile, and what it still has in its memory when it goes on. */
import { setTimeout as sleep } from "node:timers/promises"
import { shardOf } from "../../src/domain/core/snowflake.ts"
import { clusterConfig } from "../../cluster.config.ts"
import type { Person } from "../kit/person.ts"
import { startProcesses, type Processes } from "../kit/processes.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"

test(
  "TOK5, ALIVE5, P12: a logout beside a paused worker waits for the end of its term, and then it accepts the token no more",
  {
    timeout: 120_000,
  },
  async ({ cluster }) => {
    const running: Processes[] = []
    const environment = { WORKERS: "1", DATABASE_URL: cluster.databaseUrl }
    try {
      const east = await startProcesses(environment)
      running.push(east)
      const west = await startProcesses({ ...environment, REDIS_URL: east.redisUrl })
      running.unshift(west)
      const paused = (await west.workers()).find(({ slot }) => slot === "web 0")!.pid
      const [owner] = await cluster.sql<{ id: string }[]>`
      SELECT id FROM incarnations WHERE role = 'web' AND died_at IS NULL ORDER BY started_at LIMIT 1`
      const isEast = async ({ id }: Person) => {
        const [row] = await cluster.sql<{ owner: string }[]>`SELECT owner FROM shards WHERE shard = ${shardOf(id)}`
        return row?.owner === owner!.id
      }
      await until("both have shards", async () => {
        const rows = await cluster.sql`SELECT owner FROM shards GROUP BY owner`
        return rows.length === 2
      })
      // The others' homes stand still with the worker.
      let lin = await cluster.person("lin", east)
      for (let n = 0; !(await isEast(lin)); n++) lin = await cluster.person(`lin${n}`, east)
      for (const place of [east, west]) await lin.on(place).getMe()

      west.kill(paused, "SIGSTOP")
      const startedAt = performance.now()
      try {
        await lin.on(east).logout()
      } finally {
        west.kill(paused, "SIGCONT")
      }
      const waitedMs = performance.now() - startedAt
      const answer = await lin
        .on(west)
        .getMe()
        .then(
          () => "accepted",
          () => "refused",
        )
      expect(answer).toBe("refused")
      expect(waitedMs).toBeGreaterThanOrEqual(clusterConfig.membership.serveForMs)
      await expect(lin.on(east).getMe()).rejects.toMatchObject({ code: 401 })
    } finally {
      for (const processes of running) await processes.stop()
    }
  },
)

test("ALIVE6: what came while a worker stood still is done when it goes on, and not refused", async ({ cluster }) => {
  const program = await startProcesses({ WORKERS: "1", DATABASE_URL: cluster.databaseUrl })
  try {
    const ada = await cluster.person("ada", program)
    const { id } = await ada.on(program).createServer({ name: "Stillness" })
    const [channel] = await ada.on(program).listChannels({ server_id: id })
    // Nobody looks at the web worker meanwhile, so that nobody declares it dead.
    const workers = await program.workers()
    for (const { pid } of workers) program.kill(pid, "SIGSTOP")
    const posts: Promise<string>[] = []
    try {
      for (let n = 0; n < 10; n++)
        posts.push(
          ada
            .on(program)
            .createMessage({ channel_id: channel!.id, content: `post ${n}` })
            .then(({ content }) => content ?? "", String),
        )
      await sleep(clusterConfig.membership.serveForMs + 500)
    } finally {
      for (const { pid } of workers) program.kill(pid, "SIGCONT")
    }
    expect(await Promise.all(posts)).toEqual(posts.map((_, n) => `post ${n}`))
    expect((await program.metrics()).get("starling_homes_unable_total")).toBeGreaterThan(0)
  } finally {
    await program.stop()
  }
})
