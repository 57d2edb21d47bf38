/** P1, P2, P3, P5: sentinels make a copy the master while the program serves, twice. */
import { onTestFinished } from "vitest"
import { check, communities, impatient, load } from "../kit/load.ts"
import { fileOf, png } from "../kit/pictures.ts"
import { startRedisSentinel } from "../kit/redis-sentinel.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const slowly = { timeoutMs: 60_000, everyMs: 50 }

test(
  "P1, P2, P3, P5: a fail-over of Redis by its sentinels, from a master that hangs and from one that is killed, loses and doubles nothing; jobs go on",
  { timeout: 240_000 },
  async ({ cluster }) => {
    const redis = await startRedisSentinel()
    onTestFinished(() => redis.stop())
    const processes = await cluster.processes(2, { REDIS_URL: redis.url })
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
  },
)
