import { readdirSync, readFileSync } from "node:fs"
import { dirname, join, relative, sep } from "node:path"
import { fileURLToPath } from "node:url"
import fc from "fast-check"
import { expect, test } from "vitest"
import { plans } from "./plan.ts"
import { search } from "./search.ts"
import { run } from "./world.ts"

const seed = Number(process.env["SIMULATOR_SEED"] ?? 1)
const runs = Number(process.env["SIMULATOR_RUNS"] ?? 400)

test(
  `HOST2, HOST3, OUT1, ALIVE2, ALIVE3, P1, P2, P3, P5, P6, P7, P8, P12, P13, P15, P18: ${runs} simulated histories break no promise`,
  { timeout: 300_000 },
  async () => {
    const found = await search({ seed, runs, shrink: true })
    const replay = `npm run simulate -- --replay '${JSON.stringify(found.plan)}'`
    expect(
      found.breaches.map(({ promise, what }) => `${promise}: ${what}`),
      `seed ${seed}; ${replay}`,
    ).toEqual([])
    expect(found.runs).toBe(runs)
    // What was meant to happen did.
    const actions =
      "kill,kill all,pause,drain,start,cut,slow way,pause redis,pause store,skew,slow,break off,edit,delete,join,leave,logout,create server,delete server"
    const effects = ["acknowledged", "deliveries", "resumes", "sessions refused", "deaths declared by the primary"]
    for (const what of [...effects, ...actions.split(",")])
      expect([what, found.counters.get(what) ?? 0]).toEqual([what, expect.toSatisfy((count: number) => count > 0)])
  },
)

test(
  "P1, P2, P3, P5, P6, P12: simulated histories in which Redis loses what it knew break no promise",
  { timeout: 120_000 },
  async () => {
    const found = await search({ seed, runs: Math.ceil(runs / 4), shrink: true, withLosses: true })
    const replay = `npm run simulate -- --replay '${JSON.stringify(found.plan)}'`
    expect(
      found.breaches.map(({ promise, what }) => `${promise}: ${what}`),
      `seed ${seed}; ${replay}`,
    ).toEqual([])
    for (const what of ["flush redis", "replace redis", "fail over"])
      expect([what, found.counters.get(what) ?? 0]).toEqual([what, expect.toSatisfy((count: number) => count > 0)])
  },
)

test(
  "P3, P5: simulated histories in which people befriend and block one another leave both sides the same, and everybody told",
  { timeout: 120_000 },
  async () => {
    const found = await search({ seed, runs: Math.ceil(runs / 4), shrink: true, withFriends: true })
    const replay = `npm run simulate -- --replay '${JSON.stringify(found.plan)}'`
    expect(
      found.breaches.map(({ promise, what }) => `${promise}: ${what}`),
      `seed ${seed}; ${replay}`,
    ).toEqual([])
    expect(found.counters.get("relationships changed")).toBeGreaterThan(0)
  },
)

test("a history is the same each time it is lived through", async () => {
  for (const plan of fc.sample(plans, { seed: 7, numRuns: 20 })) {
    const traces: string[][] = [[], []]
    const [first, second] = [
      await run(plan, line => traces[0]!.push(line)),
      await run(plan, line => traces[1]!.push(line)),
    ]
    // Stacks and names of sessions may differ; when what happened may not.
    const times = (trace: string[]) => trace.map(line => line.slice(0, 40))
    expect(times(traces[1]!)).toEqual(times(traces[0]!))
    expect([second.steps, [...second.counters]]).toEqual([first.steps, [...first.counters]])
  }
})

test("the simulator runs the program's own actors, lanes, cluster and gateway, and no copies of them", () => {
  const root = fileURLToPath(new URL("../..", import.meta.url))
  const reached = new Set<string>()
  const visit = (file: string) => {
    if (reached.has(file)) return
    reached.add(file)
    for (const [, isType, from] of readFileSync(file, "utf8").matchAll(
      /^(?:import|export) (type )?[^"]*?from "(\.[^"]+)"/gms,
    ))
      if (!isType) visit(join(dirname(file), from!))
  }
  visit(join(root, "tests/simulator/world.ts"))
  const own = ["src/runtime", "src/actors", "src/gateway", "src/cluster"].flatMap(folder =>
    readdirSync(join(root, folder), { encoding: "utf8", recursive: true })
      .filter(name => name.endsWith(".ts") && !name.endsWith(".test.ts"))
      .map(name => `${folder}/${name}`),
  )
  // The entry points' own business, and what is made of real connections.
  const outside = ["admission", "tokens", "one-time-tokens", "batches", "job-queue", "embedded"].map(
    name => `src/cluster/${name}.ts`,
  )
  // Types alone, which nobody runs.
  outside.push("src/gateway/requests/handlers.ts", "src/runtime/plugs.ts")
  // A row subscriber that web workers hand in: the simulated database has no full-text search.
  outside.push("src/actors/messages/search-index.ts")
  const isOwn = (file: string) => relative(root, file).split(sep).join("/")
  const seen = new Set([...reached].map(isOwn))
  expect(own.filter(file => !seen.has(file) && !outside.includes(file))).toEqual([])
})
