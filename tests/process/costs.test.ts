/** What requests and frames ask of PostgreSQL and Redis: counts, which are the same on every machine. */
import { afterAll, beforeAll } from "vitest"
import { redisKeys } from "../../src/cluster/keys.ts"
import { openRedis } from "../../src/cluster/redis.ts"
import { countAsked, type Asked } from "../kit/asked.ts"
import { Cluster, gauge, type BootOptions, type Worker } from "../kit/cluster.ts"
import { fileOf, filesOfUser, png } from "../kit/pictures.ts"
import { sharedServer } from "../kit/seeds.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"

interface Scene {
  readonly cluster: Cluster
  readonly asked: Asked
  readonly workers: readonly Worker[]
}
const scenes: Scene[] = []

async function open(count: number, options: BootOptions = {}): Promise<Scene> {
  const cluster = await Cluster.create()
  const asked = await countAsked(cluster)
  const scene = { cluster, asked, workers: [] as readonly Worker[] }
  scenes.push(scene)
  const { databaseUrl, redisUrl } = asked
  scene.workers = await cluster.boot(count, { databaseUrl, redisUrl, ...options })
  return scene
}

/** Limits that nobody meets here. */
const wide = {
  STARLING_RATE_LIMITS: JSON.stringify({
    global: { requests: 100_000, seconds: 1 },
    user: { requests: 5_000, seconds: 60 },
    "GET /users/@me": { requests: 5_000, seconds: 60 },
  }),
}

let alone: Scene
let two: Scene
/** Two workers without a folder in common, as on two hosts. */
let hosts: Scene
let limited: Scene
/** A web worker and a job worker with nothing to do. */
let resting: Scene
beforeAll(async () => {
  ;[alone, two, hosts, limited, resting] = await Promise.all([
    open(1),
    open(2),
    open(2, { socketFolder: undefined }),
    open(1, { limited: true, config: wide }),
    open(1),
  ])
  await resting.cluster.bootJobWorker(resting.asked)
})
afterAll(async () => {
  for (const { cluster, asked } of scenes) {
    await cluster.close()
    await asked.close()
  }
})

/** Enough that what a worker does by the clock is missing beside one of them. */
const repeats = 10

/** Commands of Redis and scripts by name; statements of PostgreSQL, whatever they say. */
type Costs = Record<string, number>

/**
 * What one operation asks for each time that it is done, once all that it needs is known. A worker that is woken reads its
 * inbox and its log: two reads.
 */
async function costsOf({ cluster, asked }: Scene, operation: (n: number) => Promise<unknown>): Promise<Costs> {
  await operation(-1)
  let least: Costs | undefined
  for (let n = 0; n < repeats; n++) {
    await cluster.settle()
    asked.take()
    await operation(n)
    const costs: Costs = {}
    for (const what of asked.take()) {
      const kind = what.startsWith("sql") ? "statements" : what
      costs[kind] = (costs[kind] ?? 0) + 1
    }
    least = least ? leastOf(least, costs) : costs
  }
  return least!
}

const leastOf = (one: Costs, other: Costs): Costs =>
  Object.fromEntries(
    Object.entries(one).flatMap(([what, count]) => (other[what] ? [[what, Math.min(count, other[what])]] : [])),
  )

test("a request that only reads asks nobody; with limits Redis once at most", async () => {
  for (const scene of [alone, limited]) {
    const [worker] = scene.workers
    const { ada, channel } = await sharedServer(scene.cluster)
    const costs = [
      await costsOf(scene, () => ada.on(worker!).getMe()),
      // The newest page is in memory.
      await costsOf(scene, () => ada.on(worker!).listMessages({ channel_id: channel.id })),
    ]
    for (const asked of costs) {
      const { "redis a composed script": ofLimits = 0, ...rest } = asked
      expect(rest).toEqual({})
      expect(ofLimits).toBeLessThanOrEqual(scene === alone ? 0 : 1)
    }
  }
})

test("a hundred requests of one caller in a row ask Redis seven times about their limits", async () => {
  const { cluster, asked, workers } = limited
  const ada = await cluster.person("ada", workers[0])
  await ada.on(workers[0]!).getMe()
  await cluster.settle()
  asked.take()
  const startedAt = performance.now()
  for (let i = 0; i < 100; i++) await ada.on(workers[0]!).getMe()
  const scripts = asked.take().filter(what => what === "redis a composed script")
  // One more whenever the machine was so slow that a lease ended before it was used, and for what is given back then.
  const late = 2 * Math.floor((performance.now() - startedAt) / 500)
  expect(scripts.length).toBeLessThanOrEqual(7 + late)
  expect(scripts.length).toBeGreaterThanOrEqual(6)
})

test("a post is one statement; for those who listen one append for each worker", async () => {
  const [worker] = alone.workers
  const { ada, channel } = await sharedServer(alone.cluster)
  const post = (n: number) => ada.on(worker!).createMessage({ channel_id: channel.id, content: `post ${n}` })
  expect(await costsOf(alone, post)).toEqual({ statements: 1 })
  const inboxes = await Promise.all(Array.from({ length: 5 }, () => ada.listen(worker!)))
  const heard = async (n: number) => {
    await post(n)
    await Promise.all(
      inboxes.map(inbox => inbox.next("MESSAGE_CREATE", { where: ({ content }) => content === `post ${n}` })),
    )
  }
  // What its own worker appended wakes nobody.
  expect(await costsOf(alone, heard)).toEqual({ "redis append": 1, statements: 1 })
})

test("a post for listeners on two workers is two appends, and wakes the other worker once", async () => {
  const { ada, channel } = await sharedServer(two.cluster)
  const inboxes = await Promise.all(two.workers.map(worker => ada.listen(worker)))
  const costs: Costs[] = []
  for (const worker of two.workers)
    costs.push(
      await costsOf(two, async n => {
        const content = `heard ${n} ${worker.id}`
        await ada.on(worker).createMessage({ channel_id: channel.id, content })
        await Promise.all(
          inboxes.map(inbox => inbox.next("MESSAGE_CREATE", { where: data => data.content === content })),
        )
      }),
    )
  const [owner, other] = costs.toSorted((a, b) => Object.keys(a).length - Object.keys(b).length)
  const { "redis xread": reads = 0, ...asked } = owner!
  expect(asked).toEqual({ "redis append": 2, statements: 1 })
  expect(reads).toBeLessThanOrEqual(2)
  const { "redis xread": more = 0, ...rest } = other!
  expect(rest).toEqual({ "redis append": 2, statements: 1 })
  expect(more).toBeLessThanOrEqual(2)
})

/** What a post costs through the channel's owner, and through the other worker. */
async function costsOfPosts(scene: Scene): Promise<{ costs: Costs[]; asksBySocket: number }> {
  const { ada, channel } = await sharedServer(scene.cluster)
  const bySocket = async () => {
    const counts = await Promise.all(
      scene.workers.map(worker => gauge(worker, "starling_bus_messages_total", "socket")),
    )
    return counts.reduce((sum, count) => sum + count, 0)
  }
  const before = await bySocket()
  const costs: Costs[] = []
  for (const worker of scene.workers)
    costs.push(
      await costsOf(scene, n => ada.on(worker).createMessage({ channel_id: channel.id, content: `post ${n}` })),
    )
  return {
    costs: costs.toSorted((a, b) => Object.keys(a).length - Object.keys(b).length),
    asksBySocket: (await bySocket()) - before,
  }
}

test("a post through a worker that does not own the channel asks Redis nothing more on one host", async () => {
  const { costs, asksBySocket } = await costsOfPosts(two)
  expect(costs).toEqual([{ statements: 1 }, { statements: 1 }])
  // One question and one answer each time.
  expect(asksBySocket).toBeGreaterThanOrEqual(2 * repeats)
})

test("on another host it is one question and one answer more", async () => {
  const { costs, asksBySocket } = await costsOfPosts(hosts)
  const [owner, other] = costs
  expect(owner).toEqual({ statements: 1 })
  const { "redis xread": reads = 0, ...rest } = other!
  expect(rest).toEqual({ "redis xadd": 2, statements: 1 })
  // Each is woken once.
  expect(reads).toBeLessThanOrEqual(4)
  expect(asksBySocket).toBe(0)
})

test("what a client sends all the time asks nobody", async () => {
  const [worker] = alone.workers
  const { ada, channel } = await sharedServer(alone.cluster)
  const inbox = await ada.listen(worker!)
  expect(await costsOf(alone, () => inbox.heartbeatNow())).toEqual({})
  const typing = async () => {
    inbox.typing(channel.id)
    await inbox.heartbeatNow()
  }
  expect(await costsOf(alone, typing)).toEqual({})
})

/** Together as often as two processes in three seconds. */
const signsOfLife = 12

/** What is asked by the clock alone while processes show themselves so often. */
async function askedByTheClock({ asked }: Scene) {
  const all: string[] = []
  const count = (kind: string) => all.filter(what => what.startsWith(kind)).length
  asked.take()
  asked.takeWrites()
  await until("they have shown themselves", () => {
    // A connection that is new asks for the types once; how many there are depends on what waits for an answer.
    all.push(...asked.take().filter(what => !what.includes("pg_catalog.pg_type")))
    return count("redis hset") >= signsOfLife
  })
  const { redis: writes, database } = asked.takeWrites()
  return { writes, commands: count("redis"), statements: Math.max(database, count("sql")) }
}

test("a web and a job worker with nothing to do write to Redis 2.5 times a second each, and hardly ask PostgreSQL", async () => {
  await resting.cluster.settle()
  const bounds = {
    // With each sign of life, and a read of inbox and log that begins anew every two seconds; what waits in queues is counted
    // every five, and Redis asked for jobs every ten.
    writes: 1.25 * signsOfLife + 7,
    // With each sign of life that it is there, who else is, whether Redis and what it had are the same; with every second one
    // whether its log is there, and which Redis that is.
    commands: 5.5 * signsOfLife + 10,
    // In five seconds what operators say and who owns what, and from each whether PostgreSQL has what it had.
    statements: 5,
  }
  // What they did before is compared for two seconds, and once a minute is swept.
  const seen: Awaited<ReturnType<typeof askedByTheClock>>[] = []
  const isFew = (asked: (typeof seen)[number]) =>
    (Object.keys(bounds) as (keyof typeof bounds)[]).every(what => asked[what] <= bounds[what])
  while (seen.length < 16 && !seen.some(isFew)) seen.push(await askedByTheClock(resting))
  expect(seen.filter(isFew), JSON.stringify({ seen, bounds })).toHaveLength(1)
})

test("a session that begins is counted and recorded; one that goes on where it was is counted only", async () => {
  const [worker] = alone.workers
  const { ada } = await sharedServer(alone.cluster)
  const staying = await ada.listen(worker!)
  const begin = async () => (await ada.listen(worker!)).close()
  const begun = await costsOf(alone, begin)
  expect(begun).toEqual({ "redis begin-sessions": 1, statements: 1 })
  const resume = async () => {
    staying.drop()
    await staying.reconnect()
  }
  expect(await costsOf(alone, resume)).toEqual({
    "redis connect-session": 1,
    "redis disconnect-session": 1,
    // Whether another worker has it by now.
    "redis hget": 1,
  })
})

test("fifty sessions that begin at once are counted and recorded by few scripts", async () => {
  const { ada } = await sharedServer(alone.cluster)
  const begin = async () => {
    const inboxes = await Promise.all(Array.from({ length: 50 }, () => ada.listen(alone.workers[0]!)))
    for (const inbox of inboxes) inbox.close()
  }
  const { "redis begin-sessions": scripts, statements, ...more } = await costsOf(alone, begin)
  expect(more).toEqual({})
  for (const count of [scripts]) {
    expect(count).toBeGreaterThanOrEqual(1)
    expect(count).toBeLessThanOrEqual(10)
  }
  expect(statements).toBeLessThanOrEqual(10)
})

test("fifty sessions that move to another worker at once cost it few scripts and statements", async () => {
  const { ada } = await sharedServer(two.cluster)
  const [east, west] = two.workers
  const inboxes = await Promise.all(Array.from({ length: 50 }, () => ada.listen(east!)))
  const move = async (to: Worker) => {
    for (const inbox of inboxes) inbox.drop()
    await two.cluster.settle()
    two.asked.take()
    await Promise.all(inboxes.map(inbox => inbox.reconnect(to.url)))
    const costs: Costs = {}
    for (const what of two.asked.take()) {
      const kind = what.startsWith("sql") ? "statements" : what
      costs[kind] = (costs[kind] ?? 0) + 1
    }
    return costs
  }
  // A connection sends a script whole once.
  await move(west!)
  await move(east!)
  const costs = await move(west!)
  // 22 where all come in one tick; two for each session would be 100.
  const all = Object.values(costs).reduce((sum, count) => sum + count, 0)
  expect(all, JSON.stringify(costs)).toBeLessThanOrEqual(60)
  expect(costs["redis begin-sessions"]).toBeGreaterThanOrEqual(1)
})

test("who only connects is looked up by one more statement, each time: no cache takes what is asked once", async () => {
  const [east, west] = two.workers
  const ada = await two.cluster.person("ada", east)
  const begin = async () => (await ada.listen(west!)).close()
  expect(await costsOf(two, begin)).toEqual({ "redis begin-sessions": 1, statements: 2 })
})

test("forty users who come at once are registered, and said to be there, by few scripts and questions", async () => {
  const { cluster, asked, workers } = two
  const [worker] = workers
  const people = await Promise.all(Array.from({ length: 40 }, (_, n) => cluster.person(`comer${n}`, worker)))
  await cluster.settle()
  asked.take()
  const inboxes = await Promise.all(people.map(person => person.listen(worker!)))
  await cluster.settle()
  const costs = new Map<string, number>()
  for (const what of asked.take()) costs.set(what, (costs.get(what) ?? 0) + 1)
  // Each user has a shard of their own, and one of two owners.
  expect(costs.get("redis save-interests")).toBeLessThanOrEqual(20)
  expect(costs.get("redis xadd") ?? 0).toBeLessThanOrEqual(30)
  for (const inbox of inboxes) inbox.close()
})

test("a new avatar with its jobs is 7 statements and 10 scripts at most", async () => {
  const scene = await open(1)
  const { cluster, asked, workers } = scene
  await cluster.bootJobWorker(asked)
  const ada = await cluster.person("ada", workers[0])
  const file = fileOf(await png(20))
  const put = async () => {
    await ada.on(workers[0]!).putAvatar({ file })
    await until("the file before is gone", async () => (await filesOfUser(cluster, ada.id)).length === 1)
  }
  const { statements = 0, "redis a composed script": ofJobs = 0 } = await costsOf(scene, put)
  expect(statements).toBeLessThanOrEqual(7)
  expect(statements).toBeGreaterThanOrEqual(4)
  // Eight, and a place for jobs that looks for the next one when its wait has ended meanwhile.
  expect(ofJobs).toBeLessThanOrEqual(10)
})

test("the record of a session in ten servers has at most 300 bytes", async () => {
  const { cluster, workers } = alone
  const [worker] = workers
  const ada = await cluster.person("ada", worker)
  for (let i = 0; i < 10; i++) await ada.on(worker!).createServer({ name: `Server ${i}` })
  const inbox = await ada.listen(worker!)
  const redis = openRedis(cluster.redisUrl, "test", () => {})
  await redis.connect()
  try {
    const keys = await redis.keys(redisKeys(cluster.redisPrefix).gatewaySession("*", "*"))
    const mine = keys.filter(key => key.includes(inbox.sessionId!))
    expect(mine).toHaveLength(1)
    const record = await redis.hget(mine[0]!, "record")
    expect(record!.length).toBeLessThanOrEqual(300)
  } finally {
    redis.disconnect()
  }
})
