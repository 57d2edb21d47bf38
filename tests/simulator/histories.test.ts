import { readdirSync, readFileSync } from "node:fs"
import { dirname, join, relative, sep } from "node:path"
import { fileURLToPath } from "node:url"
import fc from "fast-check"
import { expect, test } from "vitest"
import { faults } from "../chaos/faults.ts"
import { barriers, plans, type Plan } from "./plan.ts"
import { search } from "./search.ts"
import { run } from "./world.ts"

const seed = Number(process.env["SIMULATOR_SEED"] ?? 1)
const usualRuns = 200
const runs = Number(process.env["SIMULATOR_RUNS"] ?? usualRuns)
/** Of each kind in which something else happens, too. */
const fewer = (all: number) => Math.ceil(all / 4)

test(
  `BUS1, BUS2, BUS3, HOST2, HOST3, OUT1, ALIVE2, ALIVE3, P1, P2, P3, P5, P6, P7, P8, P12, P13, P15, P18: ${runs} simulated histories break no promise`,
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
      "kill,kill all,pause,drain,start,cut,slow path,break sockets,pause redis,pause store,skew,slow,break off,edit,delete,join,leave,logout,create server,delete server"
    const effects = [
      "acknowledged",
      "deliveries",
      "resumes",
      "sessions refused",
      "deaths declared by the primary",
      "sockets broken",
      "probes",
    ]
    for (const what of [...effects, ...actions.split(",")])
      expect([what, found.counters.get(what) ?? 0]).toEqual([what, expect.toSatisfy((count: number) => count > 0)])
  },
)

test(
  "P1, P2, P3, P5, P6, P12: simulated histories in which Redis loses what it knew break no promise",
  { timeout: 120_000 },
  async () => {
    const found = await search({ seed, runs: fewer(runs), shrink: true, withLosses: true })
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
    const found = await search({ seed, runs: fewer(runs), shrink: true, withFriends: true })
    const replay = `npm run simulate -- --replay '${JSON.stringify(found.plan)}'`
    expect(
      found.breaches.map(({ promise, what }) => `${promise}: ${what}`),
      `seed ${seed}; ${replay}`,
    ).toEqual([])
    expect(found.counters.get("relationships changed")).toBeGreaterThan(0)
  },
)

test(
  "P5, P12, P13: simulated histories in which guests are kicked, banned and kept out of channels break no promise",
  { timeout: 120_000 },
  async () => {
    const found = await search({ seed, runs: fewer(runs), shrink: true, withBarriers: true })
    const replay = `npm run simulate -- --replay '${JSON.stringify(found.plan)}'`
    expect(
      found.breaches.map(({ promise, what }) => `${promise}: ${what}`),
      `seed ${seed}; ${replay}`,
    ).toEqual([])
    for (const how of barriers) expect([how, found.counters.get(`${how} over`) ?? 0]).not.toEqual([how, 0])
  },
)

/** Found by a search: eve logs out while a worker reads what her session is told of servers. */
const loggedOutWhileResuming: Plan = {
  seed: 596450856,
  workers: 3,
  loss: 0.002,
  steps: [
    { afterMs: 41, action: { do: "pause store", lastsMs: 166 } },
    { afterMs: 0, action: { do: "bar", server: 1, channel: 0, how: "owner", lastsMs: 252 } },
    { afterMs: 12, action: { do: "post", person: 0, channel: 0, count: 3 } },
    { afterMs: 97, action: { do: "bar", server: 1, channel: 0, how: "kick", lastsMs: 10 } },
    { afterMs: 0, action: { do: "kill", worker: 2 } },
    { afterMs: 0, action: { do: "post", person: 0, channel: 0, count: 4 } },
    { afterMs: 270, action: { do: "edit", person: 0 } },
    { afterMs: 126, action: { do: "kill all" } },
    { afterMs: 13, action: { do: "post", person: 0, channel: 0, count: 1 } },
    { afterMs: 206, action: { do: "wait", lastsMs: 2429 } },
    { afterMs: 371, action: { do: "logout" } },
    { afterMs: 93, action: { do: "kill", worker: 1 } },
    { afterMs: 0, action: { do: "slow", client: 0, pace: 5, lastsMs: 10 } },
    { afterMs: 0, action: { do: "break off", client: 1, awayForMs: 0 } },
    { afterMs: 0, action: { do: "bar", server: 0, channel: 0, how: "role", lastsMs: 10 } },
  ],
}

test("P12, P18: a session that ends while it is resumed is refused without an error", async () => {
  const { breaches } = await run(loggedOutWhileResuming)
  expect(breaches).toEqual([])
})

/** Found by a search: Redis loses everything while a worker makes its log and its inbox anew. */
const flushedWhileMoving: Plan = {
  seed: 276720800,
  workers: 2,
  loss: 0,
  steps: [
    { afterMs: 0, action: { do: "slow path", worker: 3, path: "redis", byMs: 88, lastsMs: 602 } },
    { afterMs: 0, action: { do: "copy redis" } },
    { afterMs: 299, action: { do: "slow path", worker: 0, path: "redis", byMs: 20, lastsMs: 10 } },
    { afterMs: 248, action: { do: "post", person: 0, channel: 2, count: 3 } },
    { afterMs: 108, action: { do: "create server" } },
    { afterMs: 0, action: { do: "slow", client: 0, pace: 5, lastsMs: 10 } },
    { afterMs: 0, action: { do: "flush redis" } },
    { afterMs: 0, action: { do: "post", person: 0, channel: 0, count: 1 } },
  ],
}

test("P8: a worker that makes its log anew while Redis loses everything can be asked afterwards", async () => {
  const { breaches } = await run(flushedWhileMoving)
  expect(breaches).toEqual([])
})

/** Found by a search: sessions come back to a worker that was away while another claimed them, and has died since. */
const claimedWhileAway: Plan = {
  seed: 30,
  workers: 2,
  loss: 0,
  steps: [
    { afterMs: 0, action: { do: "pause", worker: 0, lastsMs: 5997 } },
    { afterMs: 3717, action: { do: "kill", worker: 1 } },
  ],
}

test("P6: a worker that was taken for dead does not refuse sessions that were claimed meanwhile", async () => {
  const { breaches } = await run(claimedWhileAway)
  expect(breaches).toEqual([])
})

test("a history is the same each time it is lived through", async () => {
  for (const plan of fc.sample(plans, { seed: 7, numRuns: 20 })) {
    const traces: string[][] = [[], []]
    const [first, second] = [
      await run(plan, { trace: line => traces[0]!.push(line) }),
      await run(plan, { trace: line => traces[1]!.push(line) }),
    ]
    // Stacks and names of sessions may differ; when what happened may not.
    const times = (trace: string[]) => trace.map(line => line.slice(0, 40))
    expect(times(traces[1]!)).toEqual(times(traces[0]!))
    expect([second.steps, [...second.counters]]).toEqual([first.steps, [...first.counters]])
  }
})

test("the pages say how many histories every run goes through, and how many kinds of real faults there are", () => {
  const page = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8").replace(/\s+/g, " ")
  expect(page("README.md")).toContain(`Every test run simulates ${usualRuns + 3 * fewer(usualRuns)} histories`)
  expect(page("README.md")).toContain(`real faults of ${faults.length} kinds`)
  expect(page("docs/internals/guarantees.md")).toContain(
    `runs ${usualRuns} histories, ${fewer(usualRuns)} more in which Redis`,
  )
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
  const outside = [
    "admission",
    "bucket-calls",
    "leases",
    "budgets",
    "tokens",
    "one-time-tokens",
    "job-queue",
    "embedded",
    "picture-requests",
    "unix-sockets",
    "figures",
    "recent-writes",
    "passkey-challenges",
  ].map(name => `src/cluster/${name}.ts`)
  // The simulated database keeps what it has committed.
  outside.push("src/cluster/lineage-notes.ts")
  // Nobody orders anything there.
  outside.push("src/actors/account-orders.ts")
  // Types alone, which nobody runs.
  outside.push("src/gateway/requests/handlers.ts", "src/runtime/plugs.ts", "src/cluster/bus-messages.ts")
  const isOwn = (file: string) => relative(root, file).split(sep).join("/")
  const seen = new Set([...reached].map(isOwn))
  expect(own.filter(file => !seen.has(file) && !outside.includes(file))).toEqual([])
})
