/**
 * Refuses a metric that nobody writes. Each property that `src/observability/metrics.ts` declares
 * is used somewhere else in `src` as `area.name` or `metrics.name`; each local instrument is used
 * in that file itself.
 */
import { readFileSync, readdirSync } from "node:fs"
import { join } from "node:path"

const declaredIn = join("src", "observability", "metrics.ts")
const declarations = readFileSync(declaredIn, "utf8")

const files = readdirSync("src", { recursive: true, encoding: "utf8" })
  .map(name => join("src", name))
  .filter(name => name.endsWith(".ts") && !name.endsWith(".test.ts") && name !== declaredIn)
const sources = files.map(name => readFileSync(name, "utf8"))

/** Whether the source uses the property beyond declaring it. */
const isUsed = (area, name) =>
  sources.some(source => new RegExp(`\\b(?:${area}|[mM]etrics)!?\\.${name}\\b`).test(source))

let area = ""
const metrics = []
const unwritten = []
for (const line of declarations.split("\n")) {
  area = /^function (\w+)Metrics\(/.exec(line)?.[1] ?? area
  const [, property] = /^\s+(\w+): declare\.\w+/.exec(line) ?? []
  const [, local] = /^\s+const (\w+) = declare\.\w+/.exec(line) ?? []
  if (property) metrics.push(`${area}.${property}`)
  if (property && !isUsed(area, property)) unwritten.push(`${area}.${property}`)
  if (local) metrics.push(local)
  if (local && declarations.split(new RegExp(`\\b${local}\\b`)).length < 3) unwritten.push(local)
}
for (const name of unwritten) console.log(`${declaredIn}: nobody writes ${name}`)
if (metrics.length === 0) console.log(`${declaredIn}: no metric found`)
console.log(`looked at ${files.length} files, ${metrics.length} metrics`)
process.exitCode = unwritten.length > 0 || metrics.length === 0 ? 1 : 0
