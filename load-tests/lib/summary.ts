/** What a run shows at its end: a table for people, and with SUMMARY=FILE the same as JSON. */
import { target } from "./target.ts"
import { totalSeconds, variant, variantName } from "./profile.ts"

/** As much of what k6 gives to `handleSummary` as is used here. */
export interface SummaryData {
  readonly metrics: Readonly<
    Record<string, { readonly values: Values; readonly thresholds?: Record<string, { readonly ok: boolean }> }>
  >
  readonly state: { readonly testRunDurationMs: number }
  readonly setup_data?: unknown
}
type Values = Readonly<Record<string, number>>

export interface Row {
  readonly label: string
  readonly metric: string
}

/** For `options`. */
export const trendStats = ["count", "med", "p(95)", "p(99)", "max"]

const whole = (value: number | undefined) => (value === undefined ? "" : Math.round(value).toLocaleString("en"))
const inMs = (value: number | undefined) => (value === undefined ? "" : value < 10 ? value.toFixed(1) : whole(value))

function cellsOf({ label }: Row, values: Values | undefined): string[] {
  if (values === undefined || values["count"] === 0) return [label, "none", "", "", "", ""]
  if (values["p(99)"] !== undefined)
    return [label, whole(values["count"]), ...["med", "p(95)", "p(99)", "max"].map(stat => inMs(values[stat]))]
  if (values["passes"] === undefined) return [label, whole(values["count"]), "", "", "", ""]
  const { passes, fails } = values as { passes: number; fails: number }
  return [label, `${whole(passes)} of ${whole(passes + fails)}`, "", "", "", ""]
}

function tableOf(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map(row => row[column]!.length)))
  return rows
    .map(row => row.map((cell, i) => (i === 0 ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!))).join("  "))
    .map(line => line.trimEnd())
    .join("\n")
}

/** For `handleSummary`. `load`: what was sent, in words. */
export function summarize(data: SummaryData, load: string, rows: readonly Row[]): Record<string, string> {
  const seconds = Math.round(data.state.testRunDurationMs / 1_000)
  const limits = Object.entries(data.metrics).flatMap(([metric, { thresholds = {} }]) =>
    Object.entries(thresholds).map(([threshold, { ok }]) => ({ metric, threshold, ok })),
  )
  const crossed = limits.filter(({ ok }) => !ok)
  const table = tableOf([
    ["", "count", "p50 ms", "p95", "p99", "max"],
    ...rows.map(row => cellsOf(row, data.metrics[row.metric]?.values)),
  ])
  const verdict =
    crossed.length === 0
      ? `all ${limits.length} limits are kept`
      : `CROSSED: ${crossed.map(({ metric, threshold }) => `${metric} ${threshold}`).join("; ")}`
  const refused = data.metrics["refused_429"]?.values["count"] ?? 0
  const hint =
    refused === 0 ? "" : `\n${refused} requests were refused with 429: more people, or a server with RATE_LIMITS=off`
  const text = `\n${variantName} (${variant.about}), ${seconds} s against ${target}\n${load}\n\n${table}\n\n${verdict}${hint}\n`
  const file = __ENV["SUMMARY"]
  if (!file) return { stdout: text }
  const metrics = Object.fromEntries(rows.map(({ metric }) => [metric, data.metrics[metric]?.values ?? null]))
  const json = {
    target,
    variant: variantName,
    load,
    at: new Date().toISOString(),
    seconds,
    totalSeconds,
    metrics,
    limits,
  }
  return { stdout: text, [file]: `${JSON.stringify(json, undefined, 2)}\n` }
}
