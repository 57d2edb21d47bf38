/** P1, P2, P3, P5: sentinels make a copy the master while the program serves, twice. */
import type { Redis } from "ioredis"
import { onTestFinished } from "vitest"
import { openJobConnection } from "../../src/cluster/job-queue.ts"
import { openBlockingRedis, openRedis } from "../../src/cluster/redis.ts"
import { check, communities, impatient, load } from "../kit/load.ts"
import { fileOf, png } from "../kit/pictures.ts"
import { startRedisSentinel, type SentinelRedis } from "../kit/redis-sentinel.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const slowly = { timeoutMs: 60_000, everyMs: 50 }

test(
  "MASTER1, MASTER2, MASTER3, P1, P2, P3, P5: a fail-over of Redis by its sentinels, from a master that hangs and from one that is lost with a sentinel, loses and doubles nothing; jobs go on",
  { timeout: 240_000 },
  async ({ cluster }) => {
    const redis = await startRedisSentinel()
    onTestFinished(() => redis.stop())
    const processes = await cluster.processes(2, { REDIS_URL: redis.url() })
    const { ada, lin, list } = await communities(cluster, 3, processes)
    const inboxes = await Promise.all([1, 2, 3].map(() => lin.listen(processes, impatient)))
    const sending = load(ada, list, () => processes)
    await sending.goesOn()

    const first = await redis.master()
    redis.signal(first, "SIGSTOP")
    await until("the copy is the master", async () => (await redis.master()) !== first, slowly)
    const second = await redis.master()
    await sending.goesOn()
    // It comes back, and takes itself for the master until it is told otherwise.
    redis.signal(first, "SIGCONT")
    await until("the former master is a copy", () => redis.isCopy(first), slowly)
    await sending.goesOn()

    // With the sentinel that is asked first, as if both were on one host.
    const [hanging, ...living] = redis.sentinels as [number, ...number[]]
    redis.signal(hanging, "SIGSTOP")
    redis.signal(second, "SIGKILL")
    await until("the first is the master again", async () => (await redis.master()) === first, slowly)
    await sending.goesOn()
    await sending.end()
    expect(
      await check(
        cluster,
        list,
        sending.acked,
        inboxes.filter(({ isPaused }) => !isPaused),
      ),
    ).toBeGreaterThan(30)
    // By a job worker, through BullMQ.
    await until("a picture is encoded", async () =>
      ada
        .on(processes)
        .putAvatar({ file: fileOf(await png(32)) })
        .then(
          ({ success }) => success,
          () => false,
        ),
    )
    await madeAllTheSame(redis.url())
    await notAnswered(redis, first, redis.url(living))
  },
)

/** MASTER1, MASTER3. The sentinel that is named first does not answer. */
async function madeAllTheSame(url: string): Promise<void> {
  const jobs = openJobConnection(url, "jobs", () => {}) as Redis
  const connections = [openRedis(url, "commands", () => {}), openBlockingRedis(url, "reads", () => {}), jobs] as Redis[]
  // As the library for jobs does.
  connections.push(jobs.duplicate())
  onTestFinished(() => connections.forEach(connection => connection.disconnect()))
  const late: Error[] = []
  await Promise.all(
    connections.map(async connection => {
      connection.on("error", () => {})
      connection.on("sentinelError", error => late.push(error))
      await connection.connect()
      let closes = 0
      connection.on("close", () => closes++)
      // What a fail-over does that is announced just then, and the library for jobs when a read does not come back.
      connection.once("connecting", () => connection.disconnect(true))
      connection.disconnect(true)
      await until("it is made anew", () => closes >= 2 && connection.status === "ready")
    }),
  )
  expect(late, "sentinels that were waited for").toEqual([])
}

/** MASTER2. A master hangs, and nobody announces another: who is accepted by it tries again. */
async function notAnswered(redis: SentinelRedis, master: number, url: string): Promise<void> {
  await redis.becomePatient()
  redis.signal(master, "SIGSTOP")
  const patient = openRedis(url, "patient", () => {}, { commandTimeout: 600_000 })
  onTestFinished(() => patient.disconnect())
  let isAccepted = false
  let isGivenUp = false
  patient.on("connect", () => (isAccepted = true))
  patient.on("close", () => (isGivenUp ||= isAccepted))
  patient.connect().catch(() => {})
  await until("it has tried", () => isGivenUp)
  redis.signal(master, "SIGCONT")
  await until("it is connected", () => patient.status === "ready")
}
