/** P17: the program replaces its processes one after another while clients are at work. */
import { setTimeout as sleep } from "node:timers/promises"
import { expect, test } from "../kit/test.ts"
import { check, impatient, load, machineBounds, quantile, communities, watch } from "../kit/load.ts"
import type { Processes } from "../kit/processes.ts"
import { until } from "../kit/until.ts"

/** Processes start and end here; on a busy machine that takes its time. */
const slowly = { timeoutMs: 60_000, everyMs: 50 }

/**
 * One request a connection, never tried again, as the simplest of clients would. @returns how each
 * one went
 */
function simpleClients(at: Processes, count: number) {
  const over = new AbortController()
  const tally = { answered: 0, refused: [] as string[] }
  const clients = Array.from({ length: count }, async () => {
    while (!over.signal.aborted) {
      try {
        const answer = await fetch(`${at.url}/health`, { headers: { connection: "close" } })
        await answer.arrayBuffer()
        if (answer.status === 200) tally.answered++
        else tally.refused.push(`${answer.status}`)
      } catch (error) {
        const { cause, message } = error as Error & { cause?: { code?: string } }
        tally.refused.push(cause?.code ?? message)
      }
      await sleep(10)
    }
  })
  return {
    tally,
    async end() {
      over.abort()
      await Promise.all(clients)
    },
  }
}

/** A process that does not get ready replaces nobody. */
async function failingRestart(processes: Processes): Promise<void> {
  const before = await processes.workers()
  processes.kill(processes.pid, "SIGUSR2")
  await until("a new one is started", async () => (await processes.workers()).length > before.length, slowly)
  const fresh = (await processes.workers()).find(({ pid }) => !before.some(one => one.pid === pid))!
  processes.kill(fresh.pid, "SIGKILL")
  await until("it is said", () => processes.stderr().includes("not every process was replaced"), slowly)
  expect((await processes.workers()).toSorted((a, b) => a.pid - b.pid)).toEqual(
    before.toSorted((a, b) => a.pid - b.pid),
  )
  await until("it is ready", async () => (await fetch(`${processes.url}/readyz`)).status === 200, slowly)
}

test(
  "P1, P3, P5, P17: SIGUSR2 replaces every process, also after a failed attempt; nothing is lost, nobody waits longer than a second, every session goes on",
  { timeout: 240_000 },
  async ({ cluster }) => {
    const processes = await cluster.processes(3)
    await failingRestart(processes)
    const saidBefore = processes.stderr().length
    const { ada, lin, list } = await communities(cluster, 6, processes)
    const inboxes = await Promise.all(
      Array.from({ length: 12 }, (_, i) =>
        lin.listen(processes, { ...impatient, encoding: i % 2 === 0 ? "json" : "msgpack" }),
      ),
    )
    const sessions = watch(inboxes)
    const sending = load(ada, list, () => processes)
    const simple = simpleClients(processes, 2)
    await sending.goesOn()
    const before = await processes.workers()
    const places = before.map(({ slot }) => slot).toSorted()
    expect(places).toEqual(["job 0", "web 0", "web 1", "web 2"])

    const bound = machineBounds()
    const startedAt = performance.now()
    processes.kill(processes.pid, "SIGUSR2")
    // At most one more than usual, and never one less.
    const counts = new Set<number>()
    const replaced = () => processes.stdout().includes("every process has been replaced")
    await until(
      "every process is another",
      async () => {
        counts.add((await processes.workers()).filter(({ slot }) => slot.startsWith("web")).length)
        return replaced() || processes.stderr().slice(saidBefore).includes("not every process was replaced")
      },
      { timeoutMs: 150_000, everyMs: 200 },
    )
    expect(replaced(), processes.stderr()).toBe(true)
    const took = performance.now() - startedAt
    await sending.goesOn(10)
    const allowed = bound(1_000)
    await sending.end()
    await simple.end()

    const after = await processes.workers()
    expect(after.map(({ slot }) => slot).toSorted()).toEqual(places)
    expect(after.filter(({ pid }) => before.some(one => one.pid === pid))).toEqual([])
    expect(counts).toEqual(new Set([3, 4]))
    const [living] = await cluster.sql<{ n: number; owners: number }[]>`
      SELECT count(*)::int AS n, (SELECT count(DISTINCT owner)::int FROM shards) AS owners FROM incarnations WHERE died_at IS NULL`
    expect(living).toEqual({ n: 4, owners: 3 })

    expect(sessions.anew()).toBe(0)
    expect(sessions.changed()).toEqual([])
    expect(sessions.resumed()).toBeGreaterThanOrEqual(inboxes.length)
    await check(cluster, list, sending.acked, inboxes)
    const gaps = sending.gaps(startedAt)
    const { answered, refused } = simple.tally
    console.log(
      `rolling restart of 3 + 1 processes in ${Math.round(took)} ms: ${gaps.length} messages, longest wait ${Math.round(Math.max(...gaps))} ms, ` +
        `p99 ${Math.round(quantile(gaps, 0.99))} ms, ${sending.refusals()} tried again; of ${answered + refused.length} connections without a second try ${refused.length} refused (${[...new Set(refused)].join(", ")})`,
    )
    expect(Math.max(...gaps)).toBeLessThan(allowed)
    expect(refused.length).toBeLessThanOrEqual(answered / 100)
  },
)
