/** P1 to P8, P17: owners that are killed, paused or drained while the load runs. */
import { clusterConfig } from "../../cluster.config.ts"
import { commandLine } from "../../src/std/child-server.ts"
import { shardOf } from "../../src/domain/core/snowflake.ts"
import type { Cluster, Worker } from "../kit/cluster.ts"
import { check, impatient, load, machineBounds, quantile, communities, watch } from "../kit/load.ts"
import { startProcesses, type Processes } from "../kit/processes.ts"
import { sharedServer } from "../kit/seeds.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"

/** Processes start and end here; on a busy machine that takes its time. */
const slowly = { timeoutMs: 60_000 }

const series = (metrics: ReadonlyMap<string, number>, name: string) =>
  [...metrics].filter(([key]) => key.startsWith(name)).reduce((sum, [, value]) => sum + value, 0)

/** Channels that are posted to and listeners to all of them, on a program that serves. */
async function underLoad(cluster: Cluster, processes: Processes, listeners = 8) {
  const { ada, lin, list } = await communities(cluster, 8, processes)
  const inboxes = await Promise.all(
    Array.from({ length: listeners }, (_, i) =>
      lin.listen(processes, { ...impatient, encoding: i % 2 === 0 ? "json" : "msgpack" }),
    ),
  )
  const sessions = watch(inboxes)
  const sending = load(ada, list, () => processes)
  await sending.goesOn()
  return {
    sending,
    sessions,
    /** Ends the load, and holds what was said and heard against the promises. */
    async end() {
      await sending.goesOn(10)
      await sending.end()
      expect(sessions.anew(), "P5: every session goes on").toBe(0)
      const count = await check(cluster, list, sending.acked, inboxes)
      await until(
        "every shard has a living owner",
        async () => {
          const orphans = await cluster.sql`
            SELECT FROM shards WHERE NOT EXISTS (SELECT 1 FROM incarnations i WHERE i.id = shards.owner AND i.died_at IS NULL)`
          return orphans.length === 0
        },
        slowly,
      )
      return count
    },
  }
}

const webOf = async (processes: Processes) =>
  (await processes.workers()).filter(({ slot }) => slot.startsWith("web")).toSorted((a, b) => a.pid - b.pid)

/** Web workers that were declared dead. */
const deadOf = async ({ sql }: Cluster): Promise<string[]> =>
  (await sql<{ id: string }[]>`SELECT id FROM incarnations WHERE died_at IS NOT NULL AND role = 'web'`).map(
    ({ id }) => id,
  )

/** Living web workers that own something. */
const ownersOf = async ({ sql }: Cluster) =>
  sql<{ id: string; slot: number; owned: number }[]>`
    SELECT i.id, slot, count(*)::int AS owned FROM shards JOIN incarnations i ON i.id = owner WHERE died_at IS NULL GROUP BY i.id, slot`

/** Every web worker of the program is one that owns shards. */
const allOwn = (cluster: Cluster, count: number) =>
  until("every worker owns shards", async () => (await ownersOf(cluster)).length === count, slowly)

test(
  "P1, P2, P3, P5, P8: workers are killed with -9 one after another under load",
  { timeout: 240_000 },
  async ({ cluster }) => {
    const kills = 3
    const processes = await cluster.processes(3)
    const run = await underLoad(cluster, processes, 12)
    const waits: number[] = []
    const bound = machineBounds()
    for (let kill = 0; kill < kills; kill++) {
      await allOwn(cluster, 3)
      const victims = await webOf(processes)
      const victim = victims[kill % victims.length]!
      const killedAt = performance.now()
      processes.kill(victim.pid, "SIGKILL")
      await run.sending.goesOn()
      waits.push(...run.sending.firstAfter(killedAt))
    }
    expect(waits).toHaveLength(kills * 8)
    console.log(
      `first success after kill -9: p50 ${Math.round(quantile(waits, 0.5))} ms, p99 ${Math.round(quantile(waits, 0.99))} ms`,
    )
    expect(quantile(waits, 0.99)).toBeLessThan(bound(5_000)) // P8
    const metrics = await processes.metrics()
    expect(series(metrics, "starling_shards_take_overs_total")).toBeGreaterThan(0)
    expect(series(metrics, 'starling_gateway_resumes_total{outcome="invalid"')).toBe(0)
    // A machine so busy that it lets a worker stand still for 2.5 s adds one.
    expect((await deadOf(cluster)).length).toBeGreaterThanOrEqual(kills)
    expect(run.sessions.resumed()).toBeGreaterThan(0)
    expect(await run.end()).toBeGreaterThan(8 * 20)
  },
)

test("P1, P2, P3, P5: all workers are killed with -9 at once", { timeout: 120_000 }, async ({ cluster }) => {
  const processes = await cluster.processes(3)
  const run = await underLoad(cluster, processes)
  const all = await processes.workers()
  expect(all).toHaveLength(4)
  for (const { pid } of all) processes.kill(pid, "SIGKILL")
  await until(
    "all have successors",
    async () => {
      const now = await processes.workers()
      return now.length === 4 && !now.some(({ pid }) => all.some(one => one.pid === pid))
    },
    slowly,
  )
  await run.end()
  expect(run.sessions.resumed()).toBe(8)
})

test(
  "P1, P2, P3, P5: the primary is killed with -9: its workers end by themselves, and the next start serves on",
  { timeout: 120_000 },
  async ({ cluster }) => {
    const first = await cluster.processes(2)
    const run = await underLoad(cluster, first)
    const orphans = await first.workers()
    first.kill(first.pid, "SIGKILL")
    await first.ended
    const port = new URL(first.url).port
    const second = await startProcesses({
      WORKERS: "2",
      DATABASE_URL: cluster.databaseUrl,
      REDIS_URL: first.redisUrl,
      PORT: port,
    })
    try {
      expect(second.url).toBe(first.url)
      const isAlive = async (pid: number) => (await commandLine(pid)) !== undefined
      await until(
        "its processes have ended",
        async () => !(await Promise.all(orphans.map(({ pid }) => isAlive(pid)))).includes(true),
        slowly,
      )
      await run.end()
      expect(run.sessions.resumed()).toBeGreaterThanOrEqual(8)
    } finally {
      await second.stop()
    }
  },
)

test(
  "P1, P2, P3, P5, P7: a worker is killed while it hands over, and one while it takes over",
  { timeout: 240_000 },
  async ({ cluster }) => {
    const processes = await cluster.processes(3)
    const run = await underLoad(cluster, processes)
    await allOwn(cluster, 3)

    const [leaver] = await webOf(processes)
    const slot = Number(leaver!.slot.split(" ")[1])
    const ownedBy = async (id: string) =>
      (await cluster.sql<{ n: number }[]>`SELECT count(*)::int AS n FROM shards WHERE owner = ${id}`)[0]!.n
    const leaving = (await ownersOf(cluster)).find(owner => owner.slot === slot)!
    processes.kill(leaver!.pid, "SIGTERM")
    await until("it has given some away", async () => (await ownedBy(leaving.id)) < leaving.owned, { everyMs: 1 })
    processes.kill(leaver!.pid, "SIGKILL")
    await until("it is over", async () => (await deadOf(cluster)).includes(leaving.id), slowly)
    await allOwn(cluster, 3)
    await run.sending.goesOn()

    // The successor of a worker in a rolling restart, when it has been handed the first of what it shall have.
    const before = await webOf(processes)
    const known = (await ownersOf(cluster)).map(({ id }) => id)
    processes.kill(processes.pid, "SIGUSR2")
    await until(
      "a successor owns something",
      async () => (await ownersOf(cluster)).some(({ id }) => !known.includes(id)),
      {
        everyMs: 1,
      },
    )
    const successor = (await webOf(processes)).find(({ pid }) => !before.some(one => one.pid === pid))!
    const dead = (await deadOf(cluster)).length
    processes.kill(successor.pid, "SIGKILL")
    await until("it is over, too", async () => (await deadOf(cluster)).length > dead, slowly)
    await until(
      "the restart has ended",
      () => /replaced/.test(processes.stdout()) || /not every/.test(processes.stderr()),
      {
        timeoutMs: 150_000,
      },
    )
    await allOwn(cluster, 3)
    await run.end()
  },
)

test(
  "ALIVE1, ALIVE4, P1, P2, P3, P5, P7: an owner that is paused for twice its lease is over when it goes on",
  { timeout: 120_000 },
  async ({ cluster }) => {
    const processes = await cluster.processes(2)
    const run = await underLoad(cluster, processes)
    await allOwn(cluster, 2)
    const [paused] = await webOf(processes)
    expect(await deadOf(cluster)).toEqual([])
    const pausedAt = performance.now()
    processes.kill(paused!.pid, "SIGSTOP")
    await until("it is declared dead", async () => (await deadOf(cluster)).length > 0, slowly)
    await until(
      "twice its lease is over",
      () => performance.now() - pausedAt > 2 * clusterConfig.membership.deadAfterMs,
    )
    // The socket of a paused process takes connections that nobody answers; the load waits for it to end.
    processes.kill(paused!.pid, "SIGCONT")
    await until(
      "another has its place",
      async () => {
        const now = await processes.workers()
        return !now.some(({ pid }) => pid === paused!.pid) && now.some(({ slot }) => slot === paused!.slot)
      },
      slowly,
    )
    await run.end()
    expect((await deadOf(cluster)).length).toBeGreaterThan(0)
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
        (
          await cluster.sql`SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
        ).length > 0,
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
  "P1, P2, P3, P5, P17: workers join and leave in turn, and their shards with them; every session goes on",
  { timeout: 120_000 },
  async ({ cluster }) => {
    let living = await cluster.boot(3)
    const { ada, lin, list } = await communities(cluster, 6, living[0]!)
    const inboxes = await Promise.all(
      living.flatMap(worker => [lin.listen(worker), lin.listen(worker, { encoding: "msgpack" })]),
    )
    const sessions = inboxes.map(inbox => inbox.sessionId)
    // Those who are sent away go to another worker, as behind one port.
    const back: Promise<void>[] = []
    for (const [i, inbox] of inboxes.entries())
      inbox.on("close", () => back.push(inbox.reconnect(living[i % living.length]!.url)))
    const sending = load(ada, list, n => living[n % living.length]!)
    await sending.goesOn()
    const bound = machineBounds()
    const startedAt = performance.now()
    for (const old of living.slice()) {
      const [next] = await cluster.boot(1, { unbalanced: true })
      living = [...living.filter(worker => worker !== old), next!]
      await old.drain()
      await sending.goesOn()
    }
    await Promise.all(back)
    expect(sending.longestGap(startedAt)).toBeLessThan(bound(3_000))
    await sending.end()
    await cluster.settle()
    expect(back.length).toBeGreaterThanOrEqual(6)
    expect(inboxes.map(inbox => inbox.sessionId)).toEqual(sessions)
    await check(cluster, list, sending.acked, inboxes)
  },
)
