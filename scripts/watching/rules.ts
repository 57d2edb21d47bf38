/** What follows from the alerts: the rules of Prometheus, their tests for promtool, and the runbook. */
import { alerts, type Alert } from "./alerts.ts"

/** A double-quoted string of YAML is one of JSON. */
const quoted = (text: string): string => JSON.stringify(text)

const annotationsOf = ({ name, summary, meaning }: Alert): Record<string, string> => ({
  summary,
  description: meaning,
  runbook: `docs/operate/runbook.md#${name.toLowerCase()}`,
})

const lines = (indent: string, values: Readonly<Record<string, string>>): string[] =>
  Object.entries(values).map(([name, value]) => `${indent}${name}: ${quoted(value)}`)

export function rulesFile(): string {
  const rules = alerts.flatMap(alert => [
    `      - alert: ${alert.name}`,
    `        expr: ${quoted(alert.expr)}`,
    `        for: ${alert.forMinutes}m`,
    "        labels:",
    `          severity: ${alert.severity}`,
    "        annotations:",
    ...lines("          ", annotationsOf(alert)),
  ])
  return [
    "# Written by `npm run docs` from scripts/watching/alerts.ts. Change it there.",
    "groups:",
    "  - name: starling",
    "    rules:",
    ...rules,
    "",
  ].join("\n")
}

/** What `promtool test rules` takes: each alert fires on its example, and on nothing that is well. */
export function rulesTests(rules: string): string {
  const atMinute = 30
  const test = (alert: Alert, name: "fires" | "silent") => [
    `  - name: ${alert.name} ${name}`,
    "    interval: 1m",
    "    input_series:",
    ...Object.entries(alert.example[name]).flatMap(([series, values]) => [
      `      - series: ${quoted(series)}`,
      `        values: ${quoted(values)}`,
    ]),
    "    alert_rule_test:",
    `      - eval_time: ${alert.example.firesAtMinute ?? atMinute}m`,
    `        alertname: ${alert.name}`,
    ...(name === "silent"
      ? ["        exp_alerts: []"]
      : [
          "        exp_alerts:",
          "          - exp_labels:",
          ...lines("              ", { severity: alert.severity, ...alert.example.labels }),
          "            exp_annotations:",
          ...lines("              ", annotationsOf(alert)),
        ]),
  ]
  return [
    `rule_files: [${quoted(rules)}]`,
    "evaluation_interval: 1m",
    "tests:",
    ...alerts.flatMap(alert => [...test(alert, "fires"), ...test(alert, "silent")]),
    "",
  ].join("\n")
}

const words = { page: "wake somebody", ticket: "within a day" } as const

/** The sections of the runbook, in the order of the alerts. */
export const runbookSections = (): string[] =>
  alerts.map(alert =>
    [
      `## ${alert.name}`,
      `**${alert.summary}.** When: ${words[alert.severity]}.`,
      alert.meaning,
      `\`\`\`text\n${alert.expr}\n\`\`\``,
      alert.forMinutes > 0 ? `for ${alert.forMinutes} minutes.` : "as soon as it is seen.",
      alert.steps.map((step, i) => `${i + 1}. ${step}`).join("\n"),
    ].join("\n\n"),
  )
