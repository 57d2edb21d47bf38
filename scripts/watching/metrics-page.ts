/** What /metrics shows, with who watches it. */
import { scrapeMetrics } from "../../src/observability/aggregate.ts"
import { aboutMetrics, type MetricAbout } from "../../src/observability/instruments.ts"
import { createMetrics } from "../../src/observability/metrics.ts"
import { append } from "../../src/std/multi-map.ts"
import { alerts } from "./alerts.ts"
import { dashboards } from "./dashboards.ts"

/** All metrics of a host, by area. */
export function allMetrics(): MetricAbout[] {
  const metrics = createMetrics()
  try {
    return [...aboutMetrics(metrics.registry), ...aboutMetrics(scrapeMetrics().registry)]
  } finally {
    metrics.close()
  }
}

/** The second word of a metric's name. */
const areas: Readonly<Record<string, string>> = {
  http: "Requests",
  gateway: "Gateway",
  homes: "Homes: actors in memory",
  lanes: "Commits",
  outbox: "Publication",
  bus: "Between workers",
  sessions: "Access sessions",
  shards: "Shards",
  log: "Delivery logs",
  presence: "Presence",
  postgres: "PostgreSQL",
  redis: "Redis",
  jobs: "Jobs",
  pictures: "Pictures",
  automod: "Auto-moderation",
  search: "Search",
  file: "Files",
  sign: "Signing in",
  telemetry: "Telemetry",
  csp: "Telemetry",
  traces: "Traces",
}
const ofProcess = "Processes and hosts"
const areaOf = (name: string): string => areas[name.split("_")[1] ?? ""] ?? ofProcess

function unitOf({ name }: MetricAbout): string {
  if (/_seconds(_total)?$/.test(name)) return "seconds"
  return /_bytes(_total)?$/.test(name) ? "bytes" : "number"
}

/** Whether an expression asks for a metric: by its name, or for a part of a histogram. */
const asksFor = (expr: string, name: string): boolean => new RegExp(`\\b${name}(_bucket|_sum|_count)?\\b`).test(expr)

function watchersOf(name: string): string {
  const firing = alerts.filter(({ expr }) => asksFor(expr, name))
  const showing = dashboards.filter(({ panels }) =>
    panels.some(({ queries }) => queries.some(([expr]) => asksFor(expr, name))),
  )
  return [
    ...firing.map(alert => `[${alert.name}](runbook.md#${alert.name.toLowerCase()})`),
    ...showing.map(({ file }) => file),
  ].join(", ")
}

/** Gauges are shown by process. */
const labelsOf = ({ type, labels }: MetricAbout): string[] => (type === "gauge" ? [...labels, "worker"] : [...labels])

/** For each area: its title and the cells of its metrics. */
export function metricRows(): [area: string, rows: string[][]][] {
  const byArea = new Map<string, MetricAbout[]>()
  for (const metric of allMetrics().toSorted((a, b) => (a.name < b.name ? -1 : 1)))
    append(byArea, areaOf(metric.name), metric)
  const order = [...new Set(Object.values(areas)), ofProcess].filter(area => byArea.has(area))
  return order.map(area => [
    area,
    byArea.get(area)!.map(metric => [
      `\`${metric.name}\``,
      metric.type,
      unitOf(metric),
      labelsOf(metric)
        .map(label => `\`${label}\``)
        .join(", "),
      metric.help,
      watchersOf(metric.name),
    ]),
  ])
}
