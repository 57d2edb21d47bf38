/**
 * `npm run chaos -- --seconds N --seed S [--workers N] [--heap MB] [--rate N] [--report FILE]
 * [--system local|hosts|redis-cluster]`
 */
import { mkdtemp } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { parseArgs } from "node:util"
// @ts-expect-error plain JavaScript, because it runs before anything is installed
import { prepare } from "../../scripts/prepare.mjs"
import { startLocalSystem } from "./local.ts"
import { summaryOf, writeReport } from "./report.ts"
import { runChaos } from "./run.ts"
import { startHosts } from "./systems/hosts.ts"
import { startOnRedisCluster } from "./systems/redis-cluster.ts"

/** With how many workers each is started, unless told. */
const systems = {
  local: { start: startLocalSystem, workers: "3" },
  hosts: { start: startHosts, workers: "1" },
  "redis-cluster": { start: startOnRedisCluster, workers: "3" },
}
const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "60" },
    seed: { type: "string", default: String(Math.floor(Math.random() * 1e6)) },
    system: { type: "string", default: "local" },
    workers: { type: "string" },
    heap: { type: "string" },
    rate: { type: "string", default: "40" },
    report: { type: "string" },
  },
})
if (!Object.hasOwn(systems, values.system)) throw new Error(`--system is one of ${Object.keys(systems).join(", ")}`)
const system = systems[values.system as keyof typeof systems]
await prepare({ redis: true })
const folder = await mkdtemp(join(tmpdir(), "starling-chaos-"))
const say = (line: string) => console.log(`chaos: ${line}`)
say(`seed ${values.seed}, ${values.seconds} s, everything below ${folder}`)
const result = await runChaos({
  start: system.start,
  seed: Number(values.seed),
  seconds: Number(values.seconds),
  workers: Number(values.workers ?? system.workers),
  rate: Number(values.rate),
  ...(values.heap !== undefined && { heapMegabytes: Number(values.heap) }),
  folder,
  say,
  onStart(running) {
    const leave = () => {
      running.stop().then(
        () => process.exit(130),
        () => process.exit(130),
      )
    }
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, leave)
  },
})
console.log(summaryOf(result))
if (values.report !== undefined) await writeReport(result, values.report)
process.exitCode = result.findings.length + result.missing.length > 0 ? 1 : 0
