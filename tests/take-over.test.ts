/** P1 to P8, P17: owners that are killed, paused or drained while the load runs. */
import { setTimeout as sleep } from "node:timers/promises"
import type { GatewayClient } from "../client/gateway.ts"
import { shardOf } from "../src/domain/snowflake.ts"
import type { Cluster, Worker } from "./kit/cluster.ts"
import type { Person, Place } from "./kit/person.ts"
import { sharedServer } from "./kit/seeds.ts"
import { expect, test } from "./kit/test.ts"
import { until } from "./kit/until.ts"

interface Room {
  readonly server: string
  readonly channel: string
}

/** People and rooms: Ada posts, Lin listens in all of them. */
async function rooms(cluster: Cluster, count: number, at: Place): Promise<{ ada: Person; lin: Person; list: Room[] }> {
  const [ada, lin] = await Promise.all([cluster.person("ada", at), cluster.person("lin", at)])
  const list = await Promise.all(
    Array.from({ length: count }, async (_, i) => {
      const server = await ada.on(at).createServer({ name: `Room ${i}` })
      const [channel] = await ada.on(at).listChannels({ server_id: server.id })
      const { code } = await ada.on(at).createInvite({ channel_id: channel!.id })
      await lin.on(at).joinByInvite({ invite_code: code })
      return { server: server.id, channel: channel!.id }
    }),
  )
  return { ada, lin, list }
}

/** One sender a room, each message with a nonce and sent until it is acknowledged. */
function load(ada: Person, list: readonly Room[], place: (n: number) => Place) {
  const acked = new Map<string, string>()
  const ackedAt = list.map((): number[] => [])
  const over = new AbortController()
  let refusals = 0
  const senders = list.map(async ({ channel }, room) => {
    for (let n = 0; !over.signal.aborted; n++) {
      const content = `${room}:${n}`
      for (;;) {
        try {
          const { id } = await ada.on(place(n)).createMessage({ channel_id: channel, content, nonce: content })
          acked.set(content, id)
          ackedAt[room]!.push(performance.now())
          break
        } catch (error) {
          // Not now, or the worker is gone: the same nonce again.
          const { status } = error as { status?: number }
          if (status !== undefined && status !== 503) throw error
          refusals++
          await sleep(10)
        }
      }
      await sleep(5)
    }
  })
  return {
    acked,
    refusals: () => refusals,
    /** Every room has been posted to since. */
    async goesOn(messages = 5): Promise<void> {
      const before = ackedAt.map(times => times.length)
      await until("every room goes on", () => ackedAt.every((times, room) => times.length >= before[room]! + messages))
    },
    /** The longest that any room was without success, from a moment on. */
    longestGap: (from: number) =>
      Math.max(
        ...ackedAt.map(times => {
          const later = [from, ...times.filter(at => at > from)]
          return Math.max(...later.slice(1).map((at, i) => at - later[i]!))
        }),
      ),
    async end(): Promise<void> {
      over.abort()
      await Promise.all(senders)
    },
  }
}

/** P1, P2, P3, P5 in one pass over the history. */
async function check(
  cluster: Cluster,
  list: readonly Room[],
  acked: ReadonlyMap<string, string>,
  inboxes: readonly GatewayClient[],
) {
  const rows = await cluster.sql<{ id: string; channel_id: string; content: string }[]>`
    SELECT id, channel_id, content FROM messages WHERE channel_id = ANY(${list.map(({ channel }) => channel)}::bigint[]) ORDER BY id`
  expect(new Set(rows.map(row => row.content)).size, "P2: nothing is doubled").toBe(rows.length)
  const stored = new Map(rows.map(row => [row.content, row.id]))
  expect(
    [...acked].filter(([content, id]) => stored.get(content) !== id),
    "P1: nothing acknowledged is lost",
  ).toEqual([])
  // One sender a room, one after another: the order of the ids is the order of the sends.
  for (const { channel } of list) {
    const sent = rows.filter(row => row.channel_id === channel).map(row => Number(row.content.split(":")[1]))
    expect(sent, "P3").toEqual(sent.toSorted((a, b) => a - b))
  }
  await until("every listener has the last of it", async () => {
    await Promise.all(inboxes.map(inbox => inbox.heartbeatNow().catch(() => {})))
    return inboxes.every(inbox => inbox.state === "live")
  })
  for (const [i, inbox] of inboxes.entries()) {
    const heard = inbox.rest().flatMap(event => (event.name === "MESSAGE_CREATE" ? [event.data] : []))
    for (const { channel } of list)
      expect(
        heard.filter(message => message.channel_id === channel).map(message => message.id),
        `P5: listener ${i}`,
      ).toEqual(rows.filter(row => row.channel_id === channel).map(row => row.id))
  }
  return rows.length
}

const series = (metrics: ReadonlyMap<string, number>, name: string) =>
  [...metrics].filter(([key]) => key.startsWith(name)).reduce((sum, [, value]) => sum + value, 0)

const impatient = { autoReconnect: true, backoff: { firstMs: 20, maxMs: 500 } }

test("P1, P2, P3, P5, P8: a worker is killed with -9 under load", { timeout: 120_000 }, async ({ cluster }) => {
  const processes = await cluster.processes(3)
  const { ada, lin, list } = await rooms(cluster, 8, processes)
  const inboxes = await Promise.all(
    Array.from({ length: 12 }, (_, i) =>
      lin.listen(processes, { ...impatient, encoding: i % 2 === 0 ? "json" : "msgpack" }),
    ),
  )
  const lost = new Set<GatewayClient>()
  for (const inbox of inboxes) inbox.on("close", () => lost.add(inbox))
  let anew = 0
  for (const inbox of inboxes) inbox.on("invalid_session", () => anew++)
  const sending = load(ada, list, () => processes)
  await sending.goesOn()

  const victims = (await processes.workers()).filter(({ place }) => place.startsWith("web"))
  const victim = victims[1]!
  const killedAt = performance.now()
  processes.kill(victim.pid, "SIGKILL")
  await until("its incarnation is over", async () => {
    const [row] = await cluster.sql<
      { n: number }[]
    >`SELECT count(*)::int AS n FROM incarnations WHERE died_at IS NOT NULL AND role = 'web'`
    return row!.n > 0
  })
  await sending.goesOn(10)
  await sending.end()
  expect(sending.longestGap(killedAt)).toBeLessThan(5_000) // P8

  const metrics = await processes.metrics()
  expect(series(metrics, "starling_shards_take_overs_total")).toBeGreaterThan(0)
  expect(lost.size).toBeGreaterThan(0)
  expect(anew).toBe(0)
  expect(series(metrics, 'starling_gateway_resumes_total{outcome="invalid"')).toBe(0)
  expect(await check(cluster, list, sending.acked, inboxes)).toBeGreaterThan(8 * 15)
  const [orphans] = await cluster.sql<{ n: number }[]>`
    SELECT count(*)::int AS n FROM shards WHERE NOT EXISTS (SELECT 1 FROM incarnations i WHERE i.id = shards.owner AND i.died_at IS NULL)`
  expect(orphans!.n).toBe(0)
})

test(
  "P7: an owner that is paused beyond its lease is over when it goes on; nothing is doubled",
  { timeout: 120_000 },
  async ({ cluster }) => {
    const processes = await cluster.processes(2)
    const { ada, lin, list } = await rooms(cluster, 8, processes)
    const inboxes = await Promise.all(Array.from({ length: 8 }, () => lin.listen(processes, impatient)))
    const sending = load(ada, list, () => processes)
    await sending.goesOn()
    const [paused] = (await processes.workers()).filter(({ place }) => place.startsWith("web"))
    const dead = async () =>
      (await cluster.sql<{ id: string }[]>`SELECT id FROM incarnations WHERE died_at IS NOT NULL AND role = 'web'`).map(
        row => row.id,
      )
    expect(await dead()).toEqual([])
    processes.kill(paused!.pid, "SIGSTOP")
    await until("it is declared dead", async () => (await dead()).length > 0)
    // The socket of a paused process takes connections that nobody answers; the load waits for it to end.
    processes.kill(paused!.pid, "SIGCONT")
    await until("another has its place", async () => {
      const now = await processes.workers()
      return !now.some(({ pid }) => pid === paused!.pid) && now.some(({ place }) => place === paused!.place)
    })
    await sending.goesOn(10)
    await sending.end()
    expect((await dead()).length).toBeGreaterThan(0)
    await check(cluster, list, sending.acked, inboxes)
  },
)

test(
  "P7: the late batch of an owner that was declared dead is refused and counted; the same nonce is stored once by the next",
  { timeout: 60_000 },
  async ({ cluster }) => {
    const workers = await cluster.boot(2)
    const { channel, ada, lin } = await cluster.seed(sharedServer)
    const [row] = await cluster.sql<{ owner: string }[]>`SELECT owner FROM shards WHERE shard = ${shardOf(channel.id)}`
    const [owner, other] = row!.owner === workers[0]!.id ? [workers[0]!, workers[1]!] : [workers[1]!, workers[0]!]
    const inbox = await lin.listen(other)
    const post = (at: Worker) => ada.on(at).createMessage({ channel_id: channel.id, content: "late", nonce: "late" })
    // The owner's batch is on its way and stands still before its fence, as if the process had been paused there.
    const held = await cluster.sql.reserve()
    await held`BEGIN`
    await held`LOCK TABLE outbox IN SHARE MODE`
    const late = post(owner).then(
      () => "stored",
      (error: { status?: number }) => error.status ?? "connection lost",
    )
    await until(
      "the batch stands still",
      async () =>
        (await held`SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)
          .length > 0,
    )
    await held`UPDATE lanes SET generation = generation + 1 WHERE incarnation = ${owner.id}`
    await held`UPDATE incarnations SET died_at = now() WHERE id = ${owner.id}`
    await held`COMMIT`
    held.release()
    expect(["connection lost", 503]).toContain(await late)
    await until("the owner knows that it is over", () => owner.over !== undefined)
    const refused = (await owner.metrics.registry.getMetricsAsJSON()).find(
      ({ name }) => name === "starling_lanes_refused_writes_total",
    ) as unknown as { values: { value: number }[] }
    expect(refused.values[0]!.value).toBeGreaterThan(0)

    await until("the next has taken over", () =>
      post(other).then(
        () => true,
        () => false,
      ),
    )
    await cluster.settle()
    expect(await cluster.sql`SELECT content FROM messages WHERE channel_id = ${channel.id}`).toEqual([
      { content: "late" },
    ])
    expect(inbox.rest().map(({ name }) => name)).toEqual(["MESSAGE_CREATE"])
    cluster.errors.splice(0)
  },
)

test(
  "P17: a rolling restart loses nothing, refuses nobody for longer than a second, and every session goes on",
  { timeout: 120_000 },
  async ({ cluster }) => {
    let living = await cluster.boot(3)
    const { ada, lin, list } = await rooms(cluster, 6, living[0]!)
    const inboxes = await Promise.all(
      living.flatMap(worker => [lin.listen(worker), lin.listen(worker, { encoding: "msgpack" })]),
    )
    const sessions = inboxes.map(inbox => inbox.sessionId)
    // Whoever is sent away goes to another worker, as behind one port.
    const back: Promise<void>[] = []
    for (const [i, inbox] of inboxes.entries())
      inbox.on("close", () => back.push(inbox.reconnect(living[i % living.length]!.url)))
    const sending = load(ada, list, n => living[n % living.length]!)
    await sending.goesOn()
    const startedAt = performance.now()
    for (const old of living.slice()) {
      const [next] = await cluster.boot(1, { unbalanced: true })
      living = [...living.filter(worker => worker !== old), next!]
      await old.drain()
      await sending.goesOn()
    }
    await Promise.all(back)
    expect(sending.longestGap(startedAt)).toBeLessThan(1_000)
    await sending.end()
    await cluster.settle()
    expect(back.length).toBeGreaterThanOrEqual(6)
    expect(inboxes.map(inbox => inbox.sessionId)).toEqual(sessions)
    await check(cluster, list, sending.acked, inboxes)
  },
)
