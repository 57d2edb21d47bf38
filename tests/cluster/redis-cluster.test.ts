/** The promises on a Redis Cluster of three masters. */
import { mkdtemp } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { Cluster as IoCluster } from "ioredis"
import { afterAll, beforeAll } from "vitest"
import { createAdmission, routeBucket } from "../../src/cluster/admission.ts"
import { redisKeys } from "../../src/cluster/keys.ts"
import { slotOf } from "../../src/cluster/identity.ts"
import { openRedis } from "../../src/cluster/redis.ts"
import { agreeOnReplication, notKnownYet, replicationOf } from "../../src/cluster/replication.ts"
import { createTokens, hashSecret, newSecret, type AccessSession } from "../../src/cluster/tokens.ts"
import { routes } from "../../src/contract/contract.ts"
import { commonRateLimits, routeRateLimits } from "../../src/contract/core/limits.ts"
import { Cluster } from "../kit/cluster.ts"
import { refusal } from "../kit/conformance.ts"
import { send } from "../kit/exchange.ts"
import { checkLimits } from "../kit/limit-property.ts"
import { check, impatient, load, machineBounds, communities } from "../kit/load.ts"
import type { Listener } from "../kit/person.ts"
import { startRedisCluster, type ClusterMaster, type RedisCluster } from "../kit/redis-cluster.ts"
import { sharedServer } from "../kit/seeds.ts"
import { expect, test as plain } from "../kit/test.ts"
import { until } from "../kit/until.ts"
import { countWrites } from "../kit/socket-writes.ts"
import { ordinary } from "../kit/ordinary-session.ts"

let redis: RedisCluster
const start = async (options: { replicas?: boolean } = {}) =>
  startRedisCluster({ folder: await mkdtemp(join(tmpdir(), "starling-redis-cluster-")), ...options })
beforeAll(async () => {
  redis = await start()
})
afterAll(() => redis.stop())

/** `cluster`: on the masters that the file shares. */
const test = plain.extend<{ cluster: Cluster }>({
  // oxlint-disable-next-line no-empty-pattern -- vitest reads the pattern
  cluster: async ({}, use) => {
    const cluster = await Cluster.create(redis.url)
    try {
      await use(cluster)
    } finally {
      await cluster.close()
    }
  },
})

const sumOf = (metrics: ReadonlyMap<string, number>, name: string) =>
  [...metrics].filter(([key]) => key.startsWith(name)).reduce((sum, [, value]) => sum + value, 0)

plain("commands of one turn leave in one write for each master, also after its connection was made anew", async () => {
  const connection = openRedis(redis.url, "writes test", () => {}) as IoCluster
  await connection.connect()
  try {
    const tags = Array.from({ length: 30 }, (_, i) => `{${i}}`)
    const readAll = () => Promise.all(tags.map(tag => connection.get(`none ${tag}`)))
    const check = async () => {
      await readAll()
      const counted = connection.nodes("master").map(countWrites)
      expect(new Set(await readAll())).toEqual(new Set([null]))
      expect(counted.map(({ count }) => count)).toEqual([1, 1, 1])
    }
    await check()
    for (const node of connection.nodes("master")) node.disconnect()
    await until("every master is connected to again", async () => {
      await readAll().catch(() => {})
      const nodes = connection.nodes("master")
      return nodes.length === 3 && nodes.every(({ status }) => status === "ready")
    })
    await check()
  } finally {
    connection.disconnect()
  }
})

test("P2, P4, P5: a message reaches sessions on every worker once; a session resumes on another, also after its own has gone", async ({
  cluster,
}) => {
  const [east, west] = await cluster.boot(2)
  const { ada, lin, channel } = await cluster.seed(sharedServer)
  const post = (at: typeof east, content: string) =>
    ada.on(at!).createMessage({ channel_id: channel.id, content, nonce: content })
  const [here, there] = [await lin.listen(east!), await lin.listen(west!)]
  const sent = await post(west, "first")
  expect((await lin.on(east!).listMessages({ channel_id: channel.id })).map(({ id }) => id)).toEqual([sent.id])
  await cluster.settle()
  for (const inbox of [here, there])
    expect(inbox.rest().map(({ data }) => (data as { id: string }).id)).toEqual([sent.id])

  const { sessionId } = here
  here.drop()
  await post(west, "missed 1")
  await east!.stop()
  await post(west, "missed 2")
  await here.reconnect(west!.url)
  await post(west, "after")
  await cluster.settle()
  expect(here.sessionId).toBe(sessionId)
  const heard = here.rest().flatMap(event => (event.name === "MESSAGE_CREATE" ? [event.data.content] : []))
  expect(heard).toEqual(["missed 1", "missed 2", "after"])
})

test("P16: one user on all workers at once gets no more than limit and burst", async ({ cluster }) => {
  const [open] = await cluster.boot(1)
  const workers = await cluster.boot(2, { limited: true })
  const { channel, ada } = await sharedServer(cluster, open)
  const startedAt = performance.now()
  const attempts = await Promise.all(
    Array.from({ length: 30 }, (_, i) =>
      send(workers[i % 2]!, `/api/v1/channels/${channel.id}/messages`, {
        route: routes.createMessage,
        token: ada.token,
        body: { content: `${i}` },
      }),
    ),
  )
  const seconds = Math.ceil((performance.now() - startedAt) / 1_000)
  const accepted = attempts.filter(({ status }) => status === 200).length
  for (const { status, code } of attempts) if (status !== 200) expect(code).toBe("rate_limited")
  expect(accepted).toBeGreaterThanOrEqual(8)
  expect(accepted).toBeLessThanOrEqual(8 + seconds)

  const root = await cluster.person("root", open)
  await cluster.sql`UPDATE users SET permissions = ${["administrator"]} WHERE id = ${root.id}`
  for (let i = 0; i < 45; i++) {
    const { status, headers } = await send(workers[i % 2]!, "/api/v1/users/@me", { token: root.token })
    expect([status, headers.get("x-ratelimit-bucket")]).toEqual([200, "bypass"])
  }
})

test("P16: in no stretch of time are more let in than a limit says, and a caller who waits as told gets in", async () => {
  await checkLimits(redis.url, 10)
})

test("P16: a webhook that is full refuses every caller, and a caller who is too fast is refused before it is asked", async () => {
  const keys = redisKeys("webhooks:")
  const connection = openRedis(redis.url, "webhooks", () => {})
  await connection.connect()
  const tokens = createTokens({ redis: connection, keys, load: async () => undefined, clock: Date.now })
  const limits = {
    common: { ...commonRateLimits, global: { ...commonRateLimits.global, requests: 4, burst: 0, seconds: 60 } },
    routes: new Map(),
  }
  const admission = createAdmission({ redis: connection, keys, tokens, enabled: true, limits })
  const bucket = routeBucket(routeRateLimits.get("POST /webhooks/{id}/{token}")!, "POST /webhooks/{id}/{token}")
  const call = async (address: string, resource: string) => {
    const answer = await admission.admit({ address, token: undefined, bucket, resource })
    return [answer.verdict, answer.figures?.scope]
  }
  for (let caller = 0; caller < 10; caller++) expect(await call(`10.0.0.${caller}`, "5")).toEqual(["ok", "webhook"])
  const others = await Promise.all(Array.from({ length: 20 }, (_, i) => call(`10.0.1.${i}`, "5")))
  // Five in two seconds are refilled meanwhile.
  expect(others.filter(([verdict]) => verdict === "limited").length).toBeGreaterThan(10)
  expect(others.every(([, scope]) => scope === "webhook")).toBe(true)
  const fast = await Promise.all(Array.from({ length: 8 }, (_, i) => call("10.0.2.1", String(i + 10))))
  expect(fast.filter(([, scope]) => scope === "webhook")).toHaveLength(4)
  expect(fast.filter(([verdict, scope]) => verdict === "limited" && scope === "global")).toHaveLength(4)
  connection.disconnect()
})

test("P16: an IPv6 /48 has a limit of its own, and so has each /56 in it; another /48 is served", async () => {
  const keys = redisKeys("prefixes:")
  const connection = openRedis(redis.url, "prefixes", () => {})
  await connection.connect()
  const tokens = createTokens({ redis: connection, keys, load: async () => undefined, clock: Date.now })
  const routes = new Map()
  const admission = createAdmission({
    redis: connection,
    keys,
    tokens,
    enabled: true,
    limits: { common: commonRateLimits, routes },
  })
  const limit = { requests: 1, seconds: 3600, burst: 0, algorithm: "token", scope: "route" } as const
  const bucket = routeBucket(limit, "POST /auth/register")
  const admitted = async (net: string, count: number, step: number) => {
    const addresses = Array.from({ length: count }, (_, i) => `2001:db8:${net}:${(i * step).toString(16)}::/64`)
    const ask = async (address: string) => admission.admit({ address, token: undefined, bucket, resource: "" })
    const answers = await Promise.all(addresses.map(ask))
    return answers.filter(({ verdict }) => verdict === "ok").length
  }
  expect(await admitted("1", 100, 1)).toBe(4)
  expect(await admitted("1", 200, 256)).toBe(16 - 4)
  expect(await admitted("2", 1, 1)).toBe(1)
  const failing = Array.from({ length: 1_700 }, (_, i) => `2001:db8:3:${(i * 37).toString(16)}::/64`)
  const refused = await Promise.all(failing.map(address => admission.isFailedTooOften(address)))
  expect(refused.filter(isTooOften => isTooOften)).toHaveLength(100)
  connection.disconnect()
})

test("P16: failed tokens count for their address at every entry point, and a caller who is kept out or comes from elsewhere pays as their address", async () => {
  const keys = redisKeys("failed:")
  const connection = openRedis(redis.url, "failed tokens", () => {})
  await connection.connect()
  const stored = new Map<string, AccessSession>()
  const session = (id: string, more: Partial<AccessSession> = {}) => {
    const secret = newSecret()
    stored.set(id, {
      session_id: id, user_id: `7${id}`, username: "ada", badges: [], tier: "standard", ...ordinary, token_hash: hashSecret(secret),
      expires_at: 9_999_999_999, last_activity: Math.floor(Date.now() / 1000), ...more,
    }) // prettier-ignore
    return `${id}.${secret}`
  }
  const tokens = createTokens({ redis: connection, keys, load: async id => stored.get(id), clock: Date.now })
  const wide = { requests: 1000, seconds: 60, burst: 0, algorithm: "sliding" } as const
  const common = {
    global: { ...wide, scope: "user" as const },
    user: { ...wide, scope: "user" as const },
    ip: { ...wide, scope: "ip" as const },
  }
  const admission = createAdmission({
    redis: connection,
    keys,
    tokens,
    enabled: true,
    limits: { common, routes: new Map() },
  })
  const ask = async (token: string, fingerprint?: string) => {
    const request = { address: "10.0.0.1", token, fingerprint, bucket: undefined, resource: "" }
    const { verdict, figures } = await admission.admit(request)
    return [verdict, figures?.scope]
  }
  expect(await ask(session("1", { locked_until: 9_999_999_999 }))).toEqual(["ok", "ip"])
  expect(await ask(session("2", { is_deleted: true, permissions: ["administrator"] }))).toEqual(["ok", "ip"])
  const bound = session("3", { origin: "home" })
  expect(await ask(bound, "home")).toEqual(["ok", "user"])
  expect(await ask(bound, "away")).toEqual(["revoked", "ip"])
  for (let i = 0; i < 50; i++) expect(await admission.isFailedTooOften("10.0.0.1")).toBe(false)
  for (let i = 0; i < 49; i++) expect(await ask(`1.${newSecret()}`)).toEqual(["revoked", "ip"])
  for (const bad of [bound, `1.${newSecret()}`, `99.${newSecret()}`])
    expect(await ask(bad, "away")).toEqual(["failed", "ip"])
  expect(await admission.isFailedTooOften("10.0.0.1")).toBe(true)
  expect(await ask(session("4"))).toEqual(["ok", "user"])
  connection.disconnect()
})

test("P12: after a logout no worker takes the token, not even from its cache; its connections end", async ({
  cluster,
}) => {
  const [east, west] = await cluster.boot(2, { limited: true })
  const ada = await cluster.person("ada", east)
  const inbox = await ada.listen(west!)
  for (const place of [east!, west!]) await ada.on(place).getMe()
  await ada.on(east!).logout()
  for (const place of [east!, west!]) expect(await refusal(ada.on(place).getMe())).toBe("revoked_token")
  expect((await inbox.ended()).code).toBe(4004)
})

test("P15: jobs run where Redis is a Cluster", async ({ cluster }) => {
  const [place] = await cluster.boot(1)
  await cluster.bootJobWorker()
  const { channel, ada } = await cluster.seed(sharedServer)
  const { code } = await ada.on(place!).createInvite({ channel_id: channel.id, max_age: 1 })
  await until("the job has run", async () => {
    return (await cluster.sql`SELECT 1 FROM invites WHERE code = ${code} AND ended_at IS NOT NULL`).length === 1
  })
})

test(
  "P1, P2, P3, P5: slots move from master to master under load, and nobody loses a message or a session",
  { timeout: 240_000 },
  async ({ cluster }) => {
    const workers = await cluster.boot(2)
    const { ada, lin, list } = await communities(cluster, 6, workers[0]!)
    const inboxes = await Promise.all(Array.from({ length: 6 }, (_, i) => lin.listen(workers[i % 2]!, impatient)))
    const sending = load(ada, list, n => workers[n % 2]!)
    await sending.goesOn()
    const [first, second, third] = redis.masters
    let moved = 0
    for (const [from, to] of [
      [first!, second!],
      [second!, third!],
      [third!, first!],
    ] as const)
      moved += await redis.moveSlots(from, to, 40)
    await sending.goesOn(10)
    await sending.end()
    expect(moved).toBeGreaterThan(0)
    await check(cluster, list, sending.acked, inboxes)
    cluster.errors.splice(0)
  },
)

test(
  "P1, P2, P3, P5, P8: a worker is killed with -9 under load, then a master of the Redis Cluster is killed and comes back",
  { timeout: 180_000 },
  async () => {
    const own = await start()
    const cluster = await Cluster.create(own.url)
    try {
      // One node is enough to find the others.
      const processes = await cluster.processes(3, { REDIS_URL: own.url.split(",")[1]! })
      const { ada, lin, list } = await communities(cluster, 6, processes)
      const inboxes = await Promise.all(Array.from({ length: 8 }, () => lin.listen(processes, impatient)))
      let anew = 0
      for (const inbox of inboxes) inbox.on("invalid_session", () => anew++)
      const sending = load(ada, list, () => processes)
      await sending.goesOn()
      const [victim] = (await processes.workers()).filter(({ slot }) => slot.startsWith("web"))
      const bound = machineBounds()
      const killedAt = performance.now()
      processes.kill(victim!.pid, "SIGKILL")
      await until("its place is taken", async () => {
        const web = (await processes.workers()).filter(({ slot }) => slot.startsWith("web"))
        return web.length === 3 && !web.some(({ pid }) => pid === victim!.pid)
      })
      await sending.goesOn(10)
      expect(sending.longestGap(killedAt)).toBeLessThan(bound(5_000))
      expect(sumOf(await processes.metrics(), "starling_shards_take_overs_total")).toBeGreaterThan(0)
      expect(anew).toBe(0)

      const master = own.masters[0]!
      await master.kill()
      await master.start()
      await sending.goesOn(10, 60_000)
      await sending.end()
      // Whose session could not go on was told so and heard the history from there.
      await check(cluster, list, sending.acked, anew === 0 ? inboxes : [])
    } finally {
      await cluster.close()
      await own.stop()
    }
  },
)

test(
  "BAL4, P1, P5, P6: a master that comes back empty leaves no silent gap: a session hears everything, or is told that it cannot go on",
  { timeout: 180_000 },
  async () => {
    const own = await start()
    const cluster = await Cluster.create(own.url)
    try {
      const processes = await cluster.processes(2, { REDIS_URL: own.url })
      const {
        ada,
        lin,
        list: [lobby, ...list],
      } = await communities(cluster, 4, processes)
      const inboxes = await Promise.all(Array.from({ length: 6 }, () => lin.listen(processes, impatient)))
      const told = new Set<Listener>()
      for (const inbox of inboxes) inbox.on("invalid_session", () => told.add(inbox))
      const sending = load(ada, list, () => processes)
      await sending.goesOn()
      for (const master of own.masters) {
        await master.kill()
        await master.startEmpty()
        await sending.goesOn(10)
      }
      await sending.end()
      const whole = inboxes.filter(inbox => !told.has(inbox))
      await check(cluster, list, sending.acked, whole)

      await until("every listener is live", () => inboxes.every(inbox => inbox.state === "live"), { timeoutMs: 60_000 })
      for (const inbox of inboxes) inbox.rest()
      const { id } = await ada.on(processes).createMessage({ channel_id: lobby!.channel, content: "heard again" })
      for (const inbox of inboxes)
        await until("it is heard", () =>
          inbox.rest().some(event => event.name === "MESSAGE_CREATE" && event.data.id === id),
        )
    } finally {
      await cluster.close()
      await own.stop()
    }
  },
)

test(
  "P1, P2, P3, P5, P6: a master dies while sessions are away, and its replica takes over: each goes on with everything, or begins anew and is told so",
  { timeout: 180_000 },
  async () => {
    const own = await start({ replicas: true })
    const cluster = await Cluster.create(own.url)
    try {
      const processes = await cluster.processes(2, { REDIS_URL: own.url })
      const { ada, lin, list } = await communities(cluster, 4, processes)
      const inboxes = await Promise.all(Array.from({ length: 8 }, () => lin.listen(processes)))
      const told = new Set<Listener>()
      for (const inbox of inboxes)
        inbox.on("invalid_session", () => {
          told.add(inbox)
          inbox.rest()
        })
      const sessions = inboxes.map(({ sessionId }) => sessionId)
      const sending = load(ada, list, () => processes)
      await sending.goesOn()
      for (const inbox of inboxes) inbox.drop()
      await sending.goesOn(3)
      // The one that has most of what sessions come back for.
      const logs = await Promise.all(own.masters.map(logsOf))
      const master = own.masters[logs.indexOf(Math.max(...logs))]!
      await own.failOver(master)
      await sending.goesOn(5)
      await Promise.all(
        inboxes.map(inbox =>
          until(
            "the session is back",
            async () => {
              if (inbox.state !== "live") await inbox.reconnect(processes.url).catch(() => {})
              return inbox.state === "live"
            },
            { timeoutMs: 60_000, everyMs: 200 },
          ),
        ),
      )
      await sending.goesOn(5)
      await sending.end()
      const changed = inboxes.filter((inbox, i) => inbox.sessionId !== sessions[i])
      expect(
        changed.filter(inbox => !told.has(inbox)),
        "P6: no session is replaced without a word",
      ).toEqual([])
      const whole = inboxes.filter(inbox => !told.has(inbox))
      await check(cluster, list, sending.acked, whole, [...told])
    } finally {
      await cluster.close()
      await own.stop()
    }
  },
)

/** How many delivery logs a master has. */
const logsOf = async (master: ClusterMaster) => ((await master.command("KEYS", "*log*")) as string[]).length

plain("a connection over which nothing is sent, too, finds a master that went and came back", async () => {
  const [leading, idle, blocking] = ["leading", "idle", "blocking"].map(name => openRedis(redis.url, name, () => {}))
  const open = [leading!, idle!, blocking!]
  try {
    await Promise.all(open.map(connection => connection.connect()))
    const master = redis.masters[0]!
    // A tag in the first third of the slots, which are this master's.
    const tag = Array.from({ length: 100 }, (_, i) => `tag ${i}`).find(one => slotOf(one) < 5_000)!
    const before = replicationOf(idle!, tag)
    await master.kill()
    await until("the connection is gone", () => replicationOf(idle!, tag) === notKnownYet)
    await master.start()
    await until(
      "both are told the same",
      async () => {
        await agreeOnReplication(leading!, [idle!], blocking!)
        const at = replicationOf(leading!, tag)
        return at !== notKnownYet && at !== before && open.every(connection => replicationOf(connection, tag) === at)
      },
      { timeoutMs: 30_000, everyMs: 200 },
    )
  } finally {
    for (const connection of open) connection.disconnect()
  }
})

test("a master that may evict what it was given keeps the program from starting, by its address", async ({
  cluster,
}) => {
  const [, , last] = redis.masters
  await last!.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
  try {
    const started = cluster.processes(1, { REDIS_URL: redis.url })
    await expect(started).rejects.toThrow(
      new RegExp(`Redis at 127.0.0.1:${last!.port} has maxmemory-policy allkeys-lru.*noeviction`),
    )
  } finally {
    await last!.command("CONFIG", "SET", "maxmemory-policy", "noeviction")
  }
})
