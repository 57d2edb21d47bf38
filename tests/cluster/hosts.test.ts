/** The same program as several hosts, on addresses of their own, with one PostgreSQL and one Redis. */
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { Redis } from "ioredis"
import { startEmbeddedRedis, type EmbeddedRedis } from "../../src/cluster/embedded.ts"
import { Cluster } from "../kit/cluster.ts"
import { check, impatient, load, machineBounds, communities } from "../kit/load.ts"
import type { Listener } from "../kit/person.ts"
import type { Processes } from "../kit/processes.ts"
import { testShards } from "../kit/seeds.ts"
import { expect, test as plain } from "../kit/test.ts"
import { until } from "../kit/until.ts"

interface Hosts {
  readonly cluster: Cluster
  readonly redisUrl: string
  /** Starts the program on 127.0.0.`n`. */
  start(n: number, workers: number, env?: Record<string, string>): Promise<Processes>
}

const test = plain.extend<{ hosts: Hosts }>({
  // oxlint-disable-next-line no-empty-pattern -- vitest reads the pattern
  hosts: async ({}, use) => {
    const folder = await mkdtemp(join(tmpdir(), "starling-hosts-"))
    let redis: EmbeddedRedis | undefined
    let cluster: Cluster | undefined
    try {
      const quiet = { info() {}, warn() {}, error() {} }
      redis = await startEmbeddedRedis({ dataDir: folder, log: quiet, appendonly: false })
      cluster = await Cluster.create(redis.url)
      const { url } = redis
      const at = cluster
      await use({
        cluster: at,
        redisUrl: url,
        start: (n, workers, env = {}) => at.processes(workers, { HOST: `127.0.0.${n}`, REDIS_URL: url, ...env }),
      })
    } finally {
      await cluster?.close()
      await redis?.stop()
      await rm(folder, { recursive: true, force: true })
    }
  },
})

const sumOf = (metrics: ReadonlyMap<string, number>, name: string) =>
  [...metrics].filter(([key]) => key.startsWith(name)).reduce((sum, [, value]) => sum + value, 0)

interface Living {
  id: string
  host: string
  role: string
}
const living = ({ sql }: Cluster) => sql<Living[]>`SELECT id, host, role FROM incarnations WHERE died_at IS NULL`
const ownedBy = async ({ sql }: Cluster): Promise<Map<string, number>> => {
  const rows = await sql<{ host: string; n: number }[]>`
    SELECT i.host, count(*)::int AS n FROM shards JOIN incarnations i ON i.id = shards.owner AND i.died_at IS NULL GROUP BY i.host`
  return new Map(rows.map(({ host, n }) => [host, n]))
}
/** Every shard is served, by so many hosts. */
const isShared = (cluster: Cluster, hosts: number) => async () => {
  const owned = await ownedBy(cluster)
  return owned.size === hosts && [...owned.values()].reduce((sum, n) => sum + n, 0) === testShards.length
}

/** The primary and all that it has forked, in one go, as when the power fails. */
async function cutPower(host: Processes): Promise<void> {
  const workers = await host.workers()
  for (const { pid } of [{ pid: host.pid }, ...workers]) host.kill(pid, "SIGKILL")
}

/** Goes to the first of the places that takes it, each time that it is closed. */
function roam(inbox: Listener, places: () => readonly Processes[]): void {
  let tries = 0
  const goOn = async () => {
    for (let isBack = false; !isBack;) {
      const all = places()
      isBack = await inbox.reconnect(all[tries++ % all.length]!.url).then(
        () => true,
        () => false,
      )
      if (!isBack) await sleep(50)
    }
  }
  inbox.on("close", () => {
    goOn().catch(() => {})
  })
}

test(
  "P1 to P6, P8, P17: three hosts share one service; one loses its power, one leaves in good order, and nobody misses anything",
  { timeout: 240_000 },
  async ({ hosts }) => {
    const { cluster } = hosts
    // The first migrates; the others meet what it made.
    const all = [await hosts.start(1, 1)]
    all.push(...(await Promise.all([hosts.start(2, 2), hosts.start(3, 1)])))
    const [first, second, third] = all as [Processes, Processes, Processes]
    expect(all.map(({ url }) => new URL(url).hostname)).toEqual(["127.0.0.1", "127.0.0.2", "127.0.0.3"])
    await until("three hosts share the shards", isShared(cluster, 3), { timeoutMs: 30_000 })

    // P2, P4, P5: what is sent on one is on every other at once, and a session goes on elsewhere.
    const {
      ada,
      lin,
      list: [lobby, ...list],
    } = await communities(cluster, 7, second)
    const channel_id = lobby!.channel
    const wanderer = await lin.listen(first)
    const { sessionId } = wanderer
    const { id } = await ada.on(third).createMessage({ channel_id, content: "across" })
    expect((await lin.on(first).listMessages({ channel_id })).map(message => message.id)).toEqual([id])
    expect((await wanderer.next("MESSAGE_CREATE")).id).toBe(id)
    wanderer.drop()
    const missed = await ada.on(second).createMessage({ channel_id, content: "missed" })
    await wanderer.reconnect(third.url)
    expect(wanderer.sessionId).toBe(sessionId)
    expect((await wanderer.next("MESSAGE_CREATE")).id).toBe(missed.id)
    wanderer.close()

    // P8: the power of one host fails under load.
    let places: Processes[] = [first, second, third]
    const inboxes = await Promise.all(
      Array.from({ length: 9 }, (_, i) =>
        lin.listen(places[i % 3]!, { backoff: impatient.backoff, encoding: i % 2 ? "msgpack" : "json" }),
      ),
    )
    const sessions = inboxes.map(inbox => inbox.sessionId)
    let anew = 0
    for (const inbox of inboxes) {
      roam(inbox, () => places)
      inbox.on("invalid_session", () => anew++)
    }
    const sending = load(ada, list, n => places[n % places.length]!)
    await sending.goesOn()
    const dying = (await ownedBy(cluster)).size
    expect(dying).toBe(3)
    const bound = machineBounds()
    const killedAt = performance.now()
    places = [first, third]
    await cutPower(second)
    await until("its shards are taken", isShared(cluster, 2), { timeoutMs: 20_000 })
    await sending.goesOn(10)
    // Nobody on its machine is left to declare the deaths: the others wait for signs of life in vain.
    expect(sending.longestGap(killedAt)).toBeLessThan(bound(10_000))
    expect(anew).toBe(0)

    // P17: another leaves in good order.
    const leftAt = performance.now()
    places = [first]
    third.kill(third.pid, "SIGTERM")
    expect(await third.ended).toBe(0)
    await until("one host serves all", isShared(cluster, 1), { timeoutMs: 20_000 })
    await sending.goesOn(10)
    await sending.end()
    expect(sending.longestGap(leftAt)).toBeLessThan(bound(5_000))
    expect(anew).toBe(0)

    await check(cluster, list, sending.acked, inboxes)
    expect(inboxes.map(inbox => inbox.sessionId)).toEqual(sessions)
    const metrics = await first.metrics()
    expect(sumOf(metrics, "starling_shards_take_overs_total")).toBeGreaterThan(0)
    expect(sumOf(metrics, 'starling_gateway_resumes_total{outcome="invalid"')).toBe(0)
  },
)

test(
  "hosts that bear one host name on one machine let each other live, through restarts too",
  { timeout: 120_000 },
  async ({ hosts }) => {
    const { cluster } = hosts
    const first = await hosts.start(1, 1)
    const before = await living(cluster)
    expect(before.map(({ role }) => role).sort()).toEqual(["job", "web"])
    // Of the same name and machine: by its address, and by its port.
    const [beside, above] = [await hosts.start(2, 1), await hosts.start(1, 1)]
    expect(new Set((await living(cluster)).map(({ host }) => host)).size).toBe(3)
    expect((await living(cluster)).map(({ id }) => id)).toEqual(expect.arrayContaining(before.map(({ id }) => id)))

    const port = new URL(beside.url).port
    await cutPower(beside)
    await hosts.start(2, 1, { PORT: port })
    expect(new Set((await living(cluster)).map(({ host }) => host)).size).toBe(3)
    expect((await living(cluster)).map(({ id }) => id)).toEqual(expect.arrayContaining(before.map(({ id }) => id)))
    for (const { url } of [first, above]) expect((await fetch(`${url}/readyz`)).status).toBe(200)
  },
)

test(
  "a host that bears another's name, address and port says so and buries nobody; once the other has gone it takes its place",
  {
    timeout: 120_000,
  },
  async ({ hosts }) => {
    const { cluster } = hosts
    const former = await hosts.start(1, 1)
    const { host } = (await living(cluster))[0]!
    const { port } = new URL(former.url)
    former.kill(former.pid, "SIGTERM")
    await former.ended

    // Its double, on another machine: it lives as long as it changes its sign.
    const double = { id: `web-${host}-0-double`, host }
    await cluster.sql`INSERT INTO incarnations (id, host, slot, role) VALUES (${double.id}, ${host}, 0, 'web')`
    const redis = new Redis(hosts.redisUrl)
    const over = new AbortController()
    const showing = (async () => {
      for (let n = 1; !over.signal.aborted; n++) {
        await redis.hset("starling:members", double.id, JSON.stringify([n, "web", host, 0, false]))
        await sleep(200)
      }
    })()
    try {
      await expect(hosts.start(1, 1, { PORT: port })).rejects.toThrow(
        /Another host called .* HOST or a PORT of its own/,
      )
      expect((await living(cluster)).map(({ id }) => id)).toEqual([double.id])
    } finally {
      over.abort()
      await showing
      redis.disconnect()
    }
    const next = await hosts.start(1, 1, { PORT: port })
    expect((await fetch(`${next.url}/readyz`)).status).toBe(200)
    const now = await living(cluster)
    expect(now.map(({ id }) => id)).not.toContain(double.id)
    expect(new Set(now.map(one => one.host))).toEqual(new Set([host]))
  },
)
