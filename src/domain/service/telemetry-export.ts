import type { EndpointStat } from "./telemetry.ts"

export const exportFormats = ["json", "csv", "txt"] as const
export type ExportFormat = (typeof exportFormats)[number]
export const isExportFormat = (text: string): text is ExportFormat => exportFormats.some(format => format === text)

export const exportTypes = { json: "application/json", csv: "text/csv", txt: "text/plain" } as const

const columns: readonly [title: string, value: (stat: EndpointStat) => string | number][] = [
  ["Endpoint", ({ endpoint }) => endpoint],
  ["Method", ({ method }) => method],
  ["Hits", ({ count }) => count],
  ["Avg Latency (ms)", ({ avg_ms }) => avg_ms],
  ["P95 Latency (ms)", ({ p95_ms }) => p95_ms],
  ["Avg Queries", ({ avg_queries }) => avg_queries],
  ["Avg DB Time (ms)", ({ avg_query_time_ms }) => avg_query_time_ms],
  ["Error Rate %", ({ error_rate }) => error_rate],
]

/** What a spreadsheet takes for a formula begins with one of these; an apostrophe before it makes it text. */
const formula = /^[=+\-@\t\r]/

/** One cell of a table of comma-separated values, as RFC 4180 has it. */
export function csvCell(value: string | number): string {
  if (typeof value === "number") return String(value)
  const text = formula.test(value) ? `'${value}` : value
  return /[",\r\n']/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

function table(stats: readonly EndpointStat[]): string[] {
  const cells = [columns.map(([title]) => title), ...stats.map(stat => columns.map(([, value]) => String(value(stat))))]
  const widths = columns.map((_, i) => Math.max(...cells.map(row => row[i]!.length)))
  // Text to the left, numbers to the right.
  const lines = cells.map(row =>
    row
      .map((cell, i) => (i < 2 ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!)))
      .join("  ")
      .trimEnd(),
  )
  return [lines[0]!, widths.map(width => "-".repeat(width)).join("  "), ...lines.slice(1)]
}

/** `2026-11-27 10:08:54`, in UTC. */
const shown = (nowMs: number): string => new Date(nowMs).toISOString().slice(0, 19).replace("T", " ")

export const exportName = (format: ExportFormat, nowMs: number): string =>
  `telemetry_${shown(nowMs).replace(" ", "_").replaceAll(":", "-")}.${format}`

export function exportText(
  format: ExportFormat,
  { stats, hours, nowMs }: { stats: readonly EndpointStat[]; hours: number; nowMs: number },
): string {
  switch (format) {
    case "json":
      return JSON.stringify({ export_time: shown(nowMs), hours, stats })
    case "csv":
      return [columns.map(([title]) => title), ...stats.map(stat => columns.map(([, value]) => value(stat)))]
        .map(row => `${row.map(csvCell).join(",")}\r\n`)
        .join("")
    case "txt":
      return [
        `Response times, ${shown(nowMs)} UTC`,
        `The last ${hours} ${hours === 1 ? "hour" : "hours"}`,
        "",
        ...table(stats),
        "",
      ].join("\n")
  }
}
