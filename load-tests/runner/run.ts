/**
 * Runs a scenario that is written for k6 where k6 is not: one process, one core, as much of k6 as the
 * scenarios beside it use. It is meant for some thousand sockets and some hundred requests a second.
 */
import { readFileSync } from "node:fs"
import { dirname, resolve } from "node:path"
import vm from "node:vm"
import { build } from "esbuild"
import { runArrivals, type Arrivals } from "./arrivals.ts"
import { Metrics, type Threshold } from "./metrics.ts"
import { VirtualUser, type Scripted } from "./virtual-user.ts"

interface Options {
  readonly scenarios: Readonly<Record<string, Arrivals>>
  readonly thresholds?: Readonly<Record<string, readonly Threshold[]>>
  readonly summaryTrendStats?: readonly string[]
}

export interface Outcome {
  /** By name of a file, or `stdout`: what `handleSummary` answered. */
  readonly summary: Readonly<Record<string, string>>
  /** Thresholds that were crossed, and errors of the scenario's own. */
  readonly isGood: boolean
  readonly errors: readonly Error[]
}

/** A look sorts what was measured so far. */
const lookEveryMs = 5_000
/** Of errors that are kept. */
const maxErrors = 100

/** @param signal ends the load early; what was measured until then is shown */
export async function runScenario(
  file: string,
  env: Readonly<Record<string, string>>,
  signal?: AbortSignal,
): Promise<Outcome> {
  const scripted = await read(file, env)
  const none = new Metrics({}, [])
  const options = new VirtualUser(0, none, scripted).exports["options"] as Options
  const metrics = new Metrics(options.thresholds ?? {}, options.summaryTrendStats ?? [])
  const alone = { scenario: "", iterationInTest: 0 }
  let data: unknown
  const preparing = new VirtualUser(0, none, scripted)
  if (preparing.exports["setup"]) data = await resultOf(preparing, "setup")

  const startedAt = performance.now()
  const errors: Error[] = []
  let isOver = false
  signal?.addEventListener("abort", () => {
    isOver = true
  })
  const looking = setInterval(() => {
    isOver ||= metrics.endsAt(performance.now() - startedAt)
  }, lookEveryMs)
  let users = 0
  try {
    await Promise.all(
      Object.entries(options.scenarios).map(([name, arrivals]) =>
        runArrivals(name, arrivals, {
          newUser: () => new VirtualUser(++users, metrics, scripted),
          metrics,
          data,
          isOver: () => isOver,
          failed: cause => {
            if (errors.length < maxErrors) errors.push(cause)
          },
        }),
      ),
    )
  } finally {
    clearInterval(looking)
    if (preparing.exports["teardown"]) await preparing.run("teardown", alone, data)
  }
  const testRunDurationMs = performance.now() - startedAt
  const shown = metrics.summary(testRunDurationMs)
  const summarize = preparing.exports["handleSummary"] as ((data: object) => Record<string, string>) | undefined
  const summary = summarize?.({ metrics: shown, state: { testRunDurationMs }, setup_data: data }) ?? {}
  const limits = Object.values(shown).flatMap(({ thresholds = {} }) => Object.values(thresholds))
  return { summary, errors, isGood: errors.length === 0 && limits.every(({ ok }) => ok) }
}

/** As k6 hands it to the iterations: through JSON. */
async function resultOf(user: VirtualUser, name: string): Promise<unknown> {
  const result = await (user.exports[name] as () => unknown)()
  return result === undefined ? undefined : JSON.parse(JSON.stringify(result))
}

async function read(file: string, env: Readonly<Record<string, string>>): Promise<Scripted> {
  const { outputFiles } = await build({
    entryPoints: [file],
    bundle: true,
    write: false,
    format: "cjs",
    platform: "neutral",
    target: "es2023",
    external: ["k6", "k6/*"],
  })
  const text = `(function (require, module, exports, __ENV, open) {${outputFiles[0]!.text}\n})`
  return {
    script: new vm.Script(text, { filename: file }),
    env,
    open: path => readFileSync(resolve(dirname(file), path), "utf8"),
  }
}
