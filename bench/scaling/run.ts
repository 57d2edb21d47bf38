/**
 * `npm run bench -- scaling`: measures the constants of the cost model, holds the model against
 * points that it has not seen, and simulates systems that do not fit here. Keeps figures and
 * pictures in `results/`.
 */
import { readFileSync } from "node:fs"
import { mkdir, writeFile } from "node:fs/promises"
import { loadavg } from "node:os"
import { join, resolve } from "node:path"
import { parseArgs } from "node:util"
import { commit, machine } from "../machine.ts"
import { barChart } from "../plot.ts"
import { parts, type Cost, type Costs } from "./costs.ts"
import { measure, type Measured, type Point } from "./measure.ts"
import { simulate, zipfServers, type Outcome, type World } from "./simulate.ts"

const root = join(import.meta.dirname, "..", "..")
/** No part should be busy for a larger share of the time: queues grow fast above it. */
const aim = 0.6

/** How people behave; the same in every world. */
const people = {
  serversOfASession: 5,
  smallestServer: 8,
  /** Posts of one session in a second. */
  posts: 1 / 60,
  /** Messages that a server's members can follow in a second. */
  readable: 10,
}
const sizes = [
  { sessions: 1e4, largest: 2_000, seconds: 20 },
  { sessions: 1e6, largest: 50_000, seconds: 0.5 },
  { sessions: 1e8, largest: 1e6, seconds: 0.02 },
] as const

interface Row {
  readonly world: Omit<World, "kinds">
  readonly outcome: Outcome
}

export async function benchScaling(args: string[], prepare: () => Promise<void>): Promise<void> {
  const { values } = parseArgs({
    args,
    options: {
      runs: { type: "string" },
      quick: { type: "boolean", default: false },
      main: { type: "string" },
      from: { type: "string" },
      write: { type: "boolean", default: false },
    },
  })
  const say = (what: string) => process.stderr.write(`${what}\n`)
  const isQuick = values.quick
  const [loadBefore] = loadavg()
  let measured: Measured
  if (values.from !== undefined) measured = JSON.parse(readFileSync(values.from, "utf8")) as Measured
  else {
    if (values.main === undefined) await prepare()
    const effort = {
      runs: Number(values.runs ?? (isQuick ? 1 : 3)),
      seconds: isQuick ? 2 : 4,
      sessions: isQuick ? 800 : 2_000,
    }
    measured = await measure(resolve(values.main ?? join(root, "dist", "src", "main.js")), effort, say)
  }
  const { costs, points } = measured
  const name = `${new Date().toISOString().slice(0, 10)}-${commit().replace("+", "-changed")}-scaling${isQuick ? "-quick" : ""}`
  const folder = join(root, "bench", "results")
  await mkdir(folder, { recursive: true })
  const about = { at: new Date().toISOString(), commit: commit(), isQuick, machine: machine(loadBefore!) }
  const keep = (more: object) =>
    writeFile(join(folder, `${name}.json`), `${JSON.stringify({ ...about, ...measured, ...more }, undefined, 2)}\n`)
  await keep({})

  say("the model at the points that were measured")
  const checked = points.map(point => ({ point, model: modelOf(costs, point) }))
  say("systems that do not fit here")
  const rows = sizes.flatMap(size => worldsOf(costs, size).map(world => rowOf(costs, world)))
  await keep({ checked, rows })
  await writeFile(join(folder, `${name}.svg`), chart(checked))
  const text = report(costs, checked, rows)
  if (values.write) await intoDocument(text, name)
  process.stdout.write(`${text}\nkept as bench/results/${name}.json\n`)
}

/** The tables and the picture stand between two marks. */
async function intoDocument(text: string, name: string): Promise<void> {
  const path = join(root, "docs", "operate", "scaling.md")
  const [before, , after] = readFileSync(path, "utf8").split(/<!-- (?:figures|end of figures) -->/)
  if (before === undefined || after === undefined)
    throw new Error("docs/operate/scaling.md has no place for the figures")
  const { cores, cpu, memoryGiB, loadBefore } = machine(loadavg()[0]!)
  const about =
    `From \`bench/results/${name}.json\`: ${cpu}, ${cores} cores, ${memoryGiB} GiB, ` +
    `load ${loadBefore.toFixed(1)} when it ended.`
  const picture = `![model and measurement](../../bench/results/${name}.svg)`
  await writeFile(path, `${before}<!-- figures -->\n\n${about}\n${text}\n${picture}\n\n<!-- end of figures -->${after}`)
}

/**
 * A world like the one in which a point was measured: one server, and all of the sessions hear it.
 */
function modelOf(costs: Costs, point: Point): Outcome {
  return simulate(costs, {
    name: "point",
    workers: point.workers,
    redisMasters: 1,
    postgresCores: 2,
    sessions: point.sessions,
    kinds: [{ count: 1, size: point.sessions, rate: point.postsPerSecond }],
    seconds: 30,
    seed: 1,
  })
}

/** A size with one of everything, then with as much of each part as keeps it below the aim. */
function worldsOf(costs: Costs, { sessions, largest, seconds }: (typeof sizes)[number]): World[] {
  const kinds = zipfServers({
    memberships: sessions * people.serversOfASession,
    largest,
    smallest: people.smallestServer,
    rate: size => Math.min((size * people.posts) / people.serversOfASession, people.readable),
  })
  const messages = kinds.reduce((sum, { count, rate }) => sum + count * rate, 0)
  // Without the signs of life, which more masters do not share.
  const need = (workers: number): Cost => {
    const sum = { node: 0, postgres: 0, redis: 0 }
    for (const { count, size, rate } of kinds) {
      const hearing = workers * (1 - (1 - 1 / workers) ** size)
      for (const part of parts) sum[part] += count * rate * (hearing * costs.worker[part] + size * costs.socket[part])
    }
    for (const part of parts) {
      const own = costs.message[part] + costs.commit[part] + (1 - 1 / workers) * costs.ask[part]
      sum[part] += messages * own + workers * costs.idle[part] + sessions * costs.session[part]
      sum[part] /= 1e6
    }
    return sum
  }
  let workers = 2
  while (need(workers).node / workers > aim) workers = Math.ceil(workers * 1.1)
  const { postgres, redis } = need(workers)
  const world = { name: sessions.toLocaleString("en"), workers, sessions, kinds, seconds, seed: 1 }
  const enough = {
    ...world,
    redisMasters: Math.max(1, Math.ceil(redis / aim)),
    postgresCores: Math.max(1, Math.ceil(postgres / aim)),
  }
  const worlds = [enough]
  // A queue that is many times too small says nothing but that.
  if (enough.redisMasters > 1 && sessions <= 1e6)
    worlds.unshift({ ...enough, redisMasters: 1, name: `${world.name}, one Redis` })
  return worlds
}

function rowOf(costs: Costs, world: World): Row {
  const { kinds: _, ...rest } = world
  return { world: rest, outcome: simulate(costs, world) }
}

const percent = (share: number) => `${(share * 100).toFixed(0)} %`
const ms = (value: number) => (value < 100 ? value.toFixed(1) : value.toFixed(0))
const us = (value: number) => (value < 10 ? value.toFixed(2) : value.toFixed(0))

interface Checked {
  readonly point: Point
  readonly model: Outcome
}

function report(costs: Costs, checked: readonly Checked[], rows: readonly Row[]): string {
  const lines = ["", "| Microseconds of CPU | Starling | PostgreSQL | Redis |", "|---|---|---|---|"]
  const names = {
    message: "a message, many in one commit",
    commit: "a commit",
    ask: "a post on another worker than its channel's",
    worker: "a message, each interested worker",
    socket: "a message, each session",
    connect: "a session that connects",
    session: "a session, each second",
    idle: "a worker, each second",
  } as const
  for (const [key, name] of Object.entries(names) as [keyof typeof names, string][])
    lines.push(`| ${name} | ${parts.map(part => us(costs[key][part])).join(" | ")} |`)
  lines.push(`| each pair of workers, each second | – | – | ${us(costs.pair)} |`, "")
  lines.push(
    `A session takes ${(costs.sessionBytes / 1_024).toFixed(1)} KiB; a post alone takes ${ms(costs.commitMs)} ms.`,
    "",
  )

  lines.push("| Point | | Starling | PostgreSQL | Redis | p50 | p99 |", "|---|---|---|---|---|---|---|")
  for (const { point, model } of checked) {
    const where = `${point.workers} workers, ${point.sessions} sessions, ${point.postsPerSecond.toFixed(0)} posts/s`
    const cores = (cost: Cost) => parts.map(part => `${(cost[part] * 1_000).toFixed(0)} m`).join(" | ")
    lines.push(`| ${where} | measured | ${cores(point.used)} | ${ms(point.p50)} ms | ${ms(point.p99)} ms |`)
    lines.push(`| | model | ${cores(model.cores)} | ${ms(model.delivered.p50)} ms | ${ms(model.delivered.p99)} ms |`)
  }
  lines.push(
    "",
    "| Sessions | workers | Redis | PostgreSQL cores | messages/s | deliveries/s | busy: workers | busiest | Redis | busiest | PostgreSQL | answered p99 | delivered p99 |",
  )
  lines.push("|---|---|---|---|---|---|---|---|---|---|---|---|---|")
  for (const { world, outcome } of rows) {
    const rate = (count: number) => Math.round(count / outcome.seconds).toLocaleString("en")
    lines.push(
      `| ${[
        world.name,
        world.workers.toLocaleString("en"),
        world.redisMasters,
        world.postgresCores,
        rate(outcome.messages),
        rate(outcome.deliveries),
        percent(outcome.worker.mean),
        percent(outcome.worker.most),
        percent(outcome.redis.mean),
        percent(outcome.redis.most),
        percent(outcome.postgres),
        `${ms(outcome.answered.p99)} ms`,
        `${ms(outcome.delivered.p99)} ms`,
      ].join(" | ")} |`,
    )
  }
  return `${lines.join("\n")}\n`
}

function chart(checked: readonly Checked[]): string {
  const bar = (label: string, cost: Cost, p99: number) => ({
    label,
    parts: parts.map(part => cost[part]),
    text: `${parts.reduce((sum, part) => sum + cost[part], 0).toFixed(2)} cores, p99 ${ms(p99)} ms`,
  })
  return barChart({
    title: "The cost model beside what was measured",
    subtitle: "Cores in use at points that were not used to find the constants",
    legend: ["Starling", "PostgreSQL", "Redis"],
    bars: checked.flatMap(({ point, model }) => {
      const where = `${point.workers} workers, ${point.sessions} sessions, ${point.postsPerSecond.toFixed(0)} posts/s`
      return [bar(`${where}: measured`, point.used, point.p99), bar("model", model.cores, model.delivered.p99)]
    }),
  })
}
