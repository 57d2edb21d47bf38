/**
 * How long a channel is without its owner: messages flow into many channels while workers, then
 * whole hosts, are killed with -9. What counts is the time from the kill to the first message that
 * a channel acknowledges after it.
 */
import { mkdir, mkdtemp, rm, chmod, writeFile } from "node:fs/promises"
import { loadavg, tmpdir } from "node:os"
import { join } from "node:path"
import { parseArgs } from "node:util"
import { createClient } from "../client/rest.ts"
import { routes } from "../src/contract/contract.ts"
import { startEmbeddedPostgres } from "../src/storage/core/embedded.ts"
import { startProcesses, type Processes } from "../tests/kit/processes.ts"
import { until } from "../tests/kit/until.ts"
import { commit, machine } from "./machine.ts"
import { figure, quantile } from "./statistics.ts"

const { values } = parseArgs({
  options: {
    kills: { type: "string", default: "20" },
    hosts: { type: "string", default: "3" },
    runs: { type: "string", default: "3" },
    channels: { type: "string", default: "16" },
  },
})
const [kills, hostKills, runs, channelCount] = [values.kills, values.hosts, values.runs, values.channels].map(
  Number,
) as [number, number, number, number]
const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined }
const slowly = { timeoutMs: 60_000 }

interface Run {
  /** Milliseconds, one for each channel and kill. */
  worker: number[]
  host: number[]
  acknowledged: number
  lost: number
}

/**
 * One sender a channel, each message under its nonce until it is acknowledged, by whichever host
 * answers.
 */
async function send(hosts: () => readonly Processes[]) {
  const person = { username: "ada", email: "ada@example.org", password: "Correct-Horse-7-Battery" }
  const first = hosts()[0]!
  const { token } = await createClient({ baseUrl: first.url }, routes).register(person)
  const on = (url: string) => createClient({ baseUrl: url, token: token! }, routes)
  const channels: string[] = []
  for (let i = 0; i < channelCount; i++) {
    const server = await on(first.url).createServer({ name: `Server ${i}` })
    const [channel] = await on(first.url).listChannels({ server_id: server.id })
    channels.push(channel!.id)
  }
  const acked = new Map<string, string>()
  const ackedAt = channels.map((): number[] => [])
  const over = new AbortController()
  const senders = channels.map(async (channel_id, i) => {
    for (let n = 0; !over.signal.aborted; n++) {
      const content = `${i}:${n}`
      for (let attempt = 0; !over.signal.aborted; attempt++) {
        const all = hosts()
        try {
          const { url } = all[(n + i + attempt) % all.length]!
          const { id } = await on(url).createMessage({ channel_id, content, nonce: content })
          acked.set(id, channel_id)
          ackedAt[i]!.push(performance.now())
          break
        } catch {
          await new Promise(resolve => setTimeout(resolve, 10))
        }
      }
      await new Promise(resolve => setTimeout(resolve, 10))
    }
  })
  return {
    ackedAt,
    /** Every channel has acknowledged so many since; then the time to its first. */
    async waits(from: number, messages = 3): Promise<number[]> {
      const later = () => ackedAt.map(times => times.filter(at => at > from))
      await until("every channel goes on", () => later().every(times => times.length >= messages), slowly)
      return later().map(times => times[0]! - from)
    },
    /** @returns how many were acknowledged and are not there */
    async end(): Promise<number> {
      over.abort()
      await Promise.all(senders)
      const stored = new Set<string>()
      for (const channel_id of channels)
        for (let before: string | undefined; ;) {
          const page = await on(hosts()[0]!.url).listMessages({ channel_id, limit: "100", ...(before && { before }) })
          for (const { id } of page) stored.add(id)
          before = page.map(({ id }) => id).toSorted((a, b) => (BigInt(a) < BigInt(b) ? -1 : 1))[0]
          if (page.length < 100) break
        }
      return [...acked.keys()].filter(id => !stored.has(id)).length
    },
    acknowledged: () => acked.size,
  }
}

async function webOf(host: Processes) {
  return (await host.workers()).filter(({ slot }) => slot.startsWith("web"))
}

async function run(databaseUrl: string): Promise<Run> {
  const environment = { WORKERS: "3", DATABASE_URL: databaseUrl }
  let hosts = [await startProcesses(environment)]
  const [first] = hosts
  try {
    const sending = await send(() => hosts)
    await sending.waits(performance.now(), 10)
    const worker: number[] = []
    for (let kill = 0; kill < kills; kill++) {
      await until(
        "three workers serve",
        async () => (await first!.metrics()).get('starling_processes{role="web"}') === 3,
        slowly,
      )
      const victims = await webOf(first!)
      const at = performance.now()
      first!.kill(victims[kill % victims.length]!.pid, "SIGKILL")
      worker.push(...(await sending.waits(at)))
    }
    const host: number[] = []
    for (let kill = 0; kill < hostKills; kill++) {
      const second = await startProcesses({ ...environment, REDIS_URL: first!.redisUrl })
      hosts = [first!, second]
      await sending.waits(performance.now(), 10)
      const pids = [second.pid, ...(await second.workers()).map(({ pid }) => pid)]
      const at = performance.now()
      // The primary first: nobody is to declare its workers dead.
      for (const pid of pids) second.kill(pid, "SIGKILL")
      hosts = [first!]
      host.push(...(await sending.waits(at)))
      await second.stop()
    }
    const acknowledged = sending.acknowledged()
    return { worker, host, acknowledged, lost: await sending.end() }
  } finally {
    for (const host of hosts.toReversed()) await host.stop()
  }
}

const folder = await mkdtemp(join(tmpdir(), "starling-take-over-"))
await chmod(folder, 0o755) // as root, PostgreSQL runs as another user
const loadBefore = loadavg()[0]!
const results: Run[] = []
try {
  for (let i = 0; i < runs; i++) {
    const dataDir = join(folder, `run-${i}`)
    await mkdir(dataDir)
    await chmod(dataDir, 0o755)
    const postgres = await startEmbeddedPostgres({ dataDir, log: quiet })
    try {
      results.push(await run(postgres.url))
    } finally {
      await postgres.stop()
    }
    const { worker, host, acknowledged, lost } = results.at(-1)!
    for (const [what, waits] of [
      ["worker", worker],
      ["host", host],
    ] as const)
      console.log(
        `run ${i + 1}, ${what}: ${waits.length} waits, p50 ${Math.round(quantile(waits, 0.5))} ms, p99 ${Math.round(quantile(waits, 0.99))} ms, longest ${Math.round(Math.max(...waits))} ms`,
      )
    console.log(`run ${i + 1}: ${acknowledged} acknowledged, ${lost} lost`)
  }
} finally {
  await rm(folder, { recursive: true, force: true })
}
const summary = (["worker", "host"] as const).map(what => ({
  killed: what,
  p50: figure(results.map(each => quantile(each[what], 0.5))),
  p99: figure(results.map(each => quantile(each[what], 0.99))),
  longest: Math.max(...results.flatMap(each => each[what])),
}))
console.log(`\nmedians of ${runs} runs, in milliseconds\n`)
for (const { killed, p50, p99, longest } of summary)
  console.log(
    `${killed.padEnd(8)} p50 ${Math.round(p50.median)}  p99 ${Math.round(p99.median)}  longest ${Math.round(longest)}`,
  )
const file = join(import.meta.dirname, "results", `${new Date().toISOString().slice(0, 10)}-${commit()}-take-over.json`)
await writeFile(
  file,
  `${JSON.stringify({ machine: machine(loadBefore), kills, hostKills, channels: channelCount, summary, runs: results }, undefined, 1)}\n`,
)
console.log(`\n${file}`)
