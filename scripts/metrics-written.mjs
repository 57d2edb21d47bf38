/**
 * Refuses a metric that nobody writes. Each property that `src/observability/metrics.ts` declares
 * is written somewhere else in `src`, as `area.name` or `metrics.name`: counted, set, observed, or
 * given where its value is read from. Of a label whose values are all known each value is written,
 * or whichever a variable names. Each local instrument is used in that file itself.
 */
import { readFileSync, readdirSync } from "node:fs"
import { join } from "node:path"

const declaredIn = join("src", "observability", "metrics.ts")
const declarations = readFileSync(declaredIn, "utf8")

const files = readdirSync("src", { recursive: true, encoding: "utf8" })
  .map(name => join("src", name))
  .filter(name => name.endsWith(".ts") && !name.endsWith(".test.ts") && name !== declaredIn)
const sources = files.map(name => readFileSync(name, "utf8"))

const write = String.raw`(?:inc|dec|set|observe|from)\(`
const isInSource = pattern => sources.some(source => new RegExp(pattern).test(source))

/** What of a property nobody writes: itself, or values of its label. */
function unwrittenOf(area, name, values) {
  const property = String.raw`\b(?:${area}|[mM]etrics)!?\.${name}`
  if (isInSource(String.raw`${property}\[`)) return []
  if (values === undefined) return isInSource(String.raw`${property}\.(?:${write}|of\()`) ? [] : [name]
  return values
    .filter(value => !isInSource(String.raw`${property}\.${value}\.${write}`))
    .map(value => `${name}.${value}`)
}

/** The values of the label that a declaration from this place on has; undefined: they are not all known. */
function valuesAt(start) {
  const [, instrument, call] = /^\w+: declare\.(\w+)\(([^]*?)\n? *\),\n/.exec(declarations.slice(start)) ?? []
  if (instrument !== "counters" && instrument !== "gauges") return undefined
  const [, listed] = /\[([^\]]*)\],?\s*$/.exec(call) ?? []
  const [, named] = /\b(\w+),?\s*$/.exec(call) ?? []
  const list = listed ?? new RegExp(String.raw`const ${named} = \[([^\]]*)\]`).exec(declarations)?.[1]
  return [...(list ?? "").matchAll(/"(\w+)"/g)].map(([, value]) => value)
}

let area = ""
let place = 0
const metrics = []
const unwritten = []
for (const line of declarations.split("\n")) {
  area = /^function (\w+)Metrics\(/.exec(line)?.[1] ?? area
  const [, space, property] = /^(\s+)(\w+): declare\.\w+/.exec(line) ?? []
  const [, local] = /^\s+const (\w+) = declare\.\w+/.exec(line) ?? []
  if (property) {
    metrics.push(`${area}.${property}`)
    unwritten.push(...unwrittenOf(area, property, valuesAt(place + space.length)).map(name => `${area}.${name}`))
  }
  if (local) metrics.push(local)
  if (local && declarations.split(new RegExp(`\\b${local}\\b`)).length < 3) unwritten.push(local)
  place += line.length + 1
}
for (const name of unwritten) console.log(`${declaredIn}: nobody writes ${name}`)
if (metrics.length === 0) console.log(`${declaredIn}: no metric found`)
console.log(`looked at ${files.length} files, ${metrics.length} metrics`)
process.exitCode = unwritten.length > 0 || metrics.length === 0 ? 1 : 0
