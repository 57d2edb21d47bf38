/**
 * `npm run simulate -- --runs 100000 --seed 7`: more histories than the tests go through; `--replay
 * PLAN` runs a single one. `--planted NAME` plants a bug of planted-bugs.ts in every worker.
 */
import { parseArgs } from "node:util"
import type { Plan } from "./plan.ts"
import { plantedBugs } from "./planted-bugs.ts"
import { search } from "./search.ts"
import { run } from "./world.ts"

const { values } = parseArgs({
  options: {
    runs: { type: "string", default: "10000" },
    seed: { type: "string", default: String(Date.now() % 2 ** 31) },
    "redis-loss": { type: "boolean", default: false },
    friends: { type: "boolean", default: false },
    barriers: { type: "boolean", default: false },
    planted: { type: "string" },
    replay: { type: "string" },
  },
})
const bug = plantedBugs.find(({ name }) => name === values.planted)
if (values.planted !== undefined && !bug)
  throw new Error(`planted bugs are: ${plantedBugs.map(({ name }) => name).join("; ")}`)
const plant = bug?.plant

if (values.replay === undefined) {
  const started = performance.now()
  console.log(`simulator: ${values.runs} histories from seed ${values.seed}`)
  const found = await search({
    seed: Number(values.seed),
    runs: Number(values.runs),
    shrink: true,
    withLosses: values["redis-loss"],
    withFriends: values.friends,
    withBarriers: values.barriers || bug?.withBarriers === true,
    plant,
    onRun: runs => {
      if (runs % 1_000 === 0) console.log(`  ${runs}, ${((performance.now() - started) / runs).toFixed(1)} ms each`)
    },
  })
  for (const [what, count] of [...found.counters].toSorted(([a], [b]) => a.localeCompare(b)))
    console.log(`  ${String(count).padStart(9)}  ${what}`)
  if (found.plan) {
    for (const { promise, what } of found.breaches) console.log(`${promise}: ${what}`)
    console.log(`npm run simulate -- --replay '${JSON.stringify(found.plan)}'`)
    process.exitCode = 1
  } else console.log(`no promise was broken in ${found.runs} histories`)
} else {
  const result = await run(JSON.parse(values.replay) as Plan, { trace: line => console.log(line), plant })
  for (const { promise, what } of result.breaches) console.log(`${promise}: ${what}`)
  process.exitCode = result.breaches.length === 0 ? 0 : 1
}
