/** `npm run chaos -- --seconds N --seed S [--workers N] [--heap MB] [--rate N] [--report FILE]` */
import { mkdtemp } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { parseArgs } from "node:util"
// @ts-expect-error plain JavaScript, because it runs before anything is installed
import { prepare } from "../../scripts/prepare.mjs"
import { startLocalSystem } from "./local.ts"
import { summaryOf, writeReport } from "./report.ts"
import { runChaos } from "./run.ts"

const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "60" },
    seed: { type: "string", default: String(Math.floor(Math.random() * 1e6)) },
    workers: { type: "string", default: "3" },
    heap: { type: "string" },
    rate: { type: "string", default: "40" },
    report: { type: "string" },
  },
})
await prepare({ redis: true })
const folder = await mkdtemp(join(tmpdir(), "starling-chaos-"))
const say = (line: string) => console.log(`chaos: ${line}`)
say(`seed ${values.seed}, ${values.seconds} s, everything below ${folder}`)
const result = await runChaos({
  start: startLocalSystem,
  seed: Number(values.seed),
  seconds: Number(values.seconds),
  workers: Number(values.workers),
  rate: Number(values.rate),
  ...(values.heap !== undefined && { heapMegabytes: Number(values.heap) }),
  folder,
  say,
})
console.log(summaryOf(result))
if (values.report !== undefined) await writeReport(result, values.report)
process.exitCode = result.findings.length + result.missing.length > 0 ? 1 : 0
