/** `npm run neighbours -- [--only NAME] [--rest S] [--during S] [--after S] [--program MAIN_JS]`: what a stranger notices of each bad neighbour. */
import { loadavg } from "node:os"
import { parseArgs } from "node:util"
// @ts-expect-error plain JavaScript, because it runs before anything is installed
import { prepare } from "../../../scripts/prepare.mjs"
import { startMeasuredServer, type Observation, type Measurement } from "../../kit/neighbour.ts"
import { neighbours } from "./neighbours.ts"

const { values } = parseArgs({
  options: {
    only: { type: "string", multiple: true },
    rest: { type: "string", default: "5" },
    during: { type: "string", default: "8" },
    /** Another version's, to compare. */
    program: { type: "string" },
    after: { type: "string", default: "5" },
  },
})
const names = Object.keys(neighbours).filter(name => values.only?.some(part => name.includes(part)) ?? true)
if (names.length === 0) throw new Error(`--only is a part of one of ${Object.keys(neighbours).join(", ")}`)
const [restMs, duringMs, afterMs] = [values.rest, values.during, values.after].map(seconds => Number(seconds) * 1_000)
await prepare({ redis: true })

const mebibyte = 1024 * 1024
const round = (value: number) => String(Math.round(value))
const three = (of: (observation: Observation) => number, { rest, during, after }: Measurement) =>
  [rest, during, after].map(observation => round(of(observation))).join(" / ")
const failuresOf = ({ rest, during, after, deaths }: Measurement) => [
  ...new Set([...rest.failures, ...during.failures, ...after.failures, ...deaths]),
]
const head = [
  "neighbour",
  "post p99 ms, rest / during / after",
  "delivery p99 ms",
  "/livez p99 ms",
  "longest stall ms (of the observer)",
  "RSS + MiB",
  "failures",
]
const rowOf = (measure: Measurement) => [
  measure.name,
  three(({ posts }) => posts.p99Ms, measure),
  three(({ deliveries }) => deliveries.p99Ms, measure),
  three(({ livez }) => livez.p99Ms, measure),
  `${three(({ stallMs }) => stallMs, measure)} (${round(measure.during.ownStallMs)})`,
  round(measure.grownBytes / mebibyte),
  failuresOf(measure).join("; ") || "none",
]

const measured = await startMeasuredServer(values.program)
const leave = () => {
  measured.stop().then(
    () => process.exit(130),
    () => process.exit(130),
  )
}
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, leave)
let isBad = false
try {
  console.log(`load of the machine at the beginning: ${loadavg()[0]!.toFixed(1)}`)
  console.log(`| ${head.join(" | ")} |\n|${head.map(() => "---").join("|")}|`)
  for (const name of names) {
    const measure = await measured.measure(name, { restMs: restMs!, duringMs: duringMs!, afterMs: afterMs! })
    isBad ||= failuresOf(measure).length > 0
    console.log(`| ${rowOf(measure).join(" | ")} |`)
    console.error(`${name}: answered ${JSON.stringify(measure.answers)}, load ${loadavg()[0]!.toFixed(1)}`)
  }
} finally {
  await measured.stop()
}
process.exitCode = isBad ? 1 : 0
