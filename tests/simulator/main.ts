/** `npm run simulate -- --runs 100000 --seed 7`: more histories than the tests go through; `--replay PLAN` lives through one. */
import { parseArgs } from "node:util"
import type { Plan } from "./plan.ts"
import { search } from "./search.ts"
import { run } from "./world.ts"

const { values } = parseArgs({
  options: {
    runs: { type: "string", default: "10000" },
    seed: { type: "string", default: String(Date.now() % 2 ** 31) },
    "redis-loss": { type: "boolean", default: false },
    friends: { type: "boolean", default: false },
    replay: { type: "string" },
  },
})

if (values.replay === undefined) {
  const started = performance.now()
  console.log(`simulator: ${values.runs} histories from seed ${values.seed}`)
  const found = await search({
    seed: Number(values.seed),
    runs: Number(values.runs),
    shrink: true,
    withLosses: values["redis-loss"],
    withFriends: values.friends,
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
  const result = await run(JSON.parse(values.replay) as Plan, line => console.log(line))
  for (const { promise, what } of result.breaches) console.log(`${promise}: ${what}`)
  process.exitCode = result.breaches.length === 0 ? 0 : 1
}
