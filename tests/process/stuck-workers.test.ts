/**
 * A worker that lives but does nothing is killed by its primary and replaced; one that was only
 * paused with all others is not.
 */
import { setTimeout as sleep } from "node:timers/promises"
import { NodeWebSocket } from "../../bench/load/node-websocket.ts"
import { clusterConfig } from "../../cluster.config.ts"
import { freePort } from "../../src/std/child-server.ts"
import type { Person } from "../kit/person.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const { stuckAfterMs } = clusterConfig.processes
/** From "stuck" to a successor, on a busy machine. */
const timeoutMs = 3 * stuckAfterMs

test(
  "the primary replaces a worker in an endless loop, and one that is stopped",
  { timeout: 120_000 },
  async ({ cluster }) => {
    // The inspector, through which a running process can be made to loop, listens on a port above
    // this one.
    const program = await cluster.processes(3, { NODE_OPTIONS: `--inspect-port=${await freePort()}` })
    const at = async (slot: string) => (await program.workers()).find(worker => worker.slot === slot)?.pid
    const stuckCount = async () => (await program.metrics()).get("starling_processes_stuck_total")

    const [paused, looping, well] = [(await at("web 0"))!, (await at("web 1"))!, (await at("web 2"))!]
    expect(await stuckCount()).toBe(0)
    program.kill(paused, "SIGSTOP")
    program.kill(looping, "SIGUSR1")
    await until("the inspector listens", () => program.stderr().includes("Debugger listening"))
    const [url] = /ws:\/\/\S+/.exec(program.stderr())!
    const socket = new NodeWebSocket(url)
    await until("the inspector has taken us", () => socket.readyState === NodeWebSocket.OPEN)
    socket.send(JSON.stringify({ id: 1, method: "Runtime.evaluate", params: { expression: "for (;;);" } }))

    const isReplaced = async (place: string, pid: number) => ![undefined, pid].includes(await at(place))
    await until(
      "both are replaced",
      async () => (await isReplaced("web 0", paused)) && (await isReplaced("web 1", looping)),
      {
        timeoutMs,
        everyMs: 100,
      },
    )
    expect(await at("web 2")).toBe(well)
    expect(program.stderr().match(/process is stuck and is killed/g)).toHaveLength(2)
    await until("the successors serve, and the dead own nothing", async () => {
      const metrics = await program.metrics()
      const [row] = await cluster.sql<{ orphans: number; living: number }[]>`
      SELECT count(*) FILTER (WHERE i.died_at IS NOT NULL OR i.id IS NULL)::int AS orphans,
        (SELECT count(*)::int FROM incarnations WHERE role = 'web' AND died_at IS NULL) AS living
      FROM shards LEFT JOIN incarnations i ON i.id = shards.owner`
      return metrics.get('starling_processes{role="web"}') === 3 && row!.orphans === 0 && row!.living === 3
    })
    expect(await stuckCount()).toBe(2)
  },
)

test("after a pause of the whole machine no worker counts as stuck", { timeout: 120_000 }, async ({ cluster }) => {
  const program = await cluster.processes(2)
  const all = [program.pid, ...(await program.workers()).map(({ pid }) => pid)]
  for (const pid of all) program.kill(pid, "SIGSTOP")
  await sleep(stuckAfterMs + 3_000)
  for (const pid of all) program.kill(pid, "SIGCONT")
  // Long enough for the primary to have looked at everybody, had it counted the pause.
  // A worker that was silent asks before it serves: until then everybody is told to come back.
  const people: Person[] = []
  await until(
    "it serves",
    () =>
      cluster.person("ada").then(
        person => people.push(person) === 2,
        () => false,
      ),
    { everyMs: 200, timeoutMs: 30_000 },
  )
  const [ada, lin] = people as [Person, Person]
  await until("every worker does", () =>
    ada
      .on(program)
      .getUser({ user_id: lin.id })
      .then(
        () => true,
        () => false,
      ),
  )
  await sleep(3_000)
  expect(program.stderr()).not.toContain("process is stuck")
  expect((await program.metrics()).get("starling_processes_stuck_total")).toBe(0)
})
