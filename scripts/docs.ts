/**
 * Writes the documents that follow from the code. `--check` writes nothing and fails when one of them is not current.
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { clusterConfig } from "../cluster.config.ts"
import { entries } from "../src/config.ts"
import { asyncapiDocument } from "../src/contract/asyncapi.ts"
import { events } from "../src/contract/contract.ts"
import { errors } from "../src/contract/errors.ts"
import { closeCodes, opcodes, unusedCloseCodes } from "../src/contract/gateway-codes.ts"
import { allIntents, bitOf, defaultIntents, type Intent, intents, largestIntents } from "../src/contract/intents.ts"
import { fieldsOf, typeOf, type Schema, type Writing } from "../src/contract/field-list.ts"
import { jsonSchema } from "../src/contract/json-schema.ts"
import { openapiDocument } from "../src/contract/openapi.ts"
import type { EventDefinition } from "../src/contract/registry.ts"
import { wireVersion } from "../src/contract/system.ts"

const generated = (source: string) => `<!-- Written by \`npm run docs\` from ${source}. Change it there. -->`

const code = (text: string | number) => `\`${text}\``
const cell = (text: string) => text.replaceAll("|", "\\|").replaceAll("\n", " ")

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.map(cell).join(" | ")} |`
  return [line(head), `|${head.map(() => "---|").join("")}`, ...rows.map(line)].join("\n")
}

const page = (...parts: string[]) => `${parts.join("\n\n")}\n`

function errorsPage(): string {
  return page(
    "# Errors, close codes, opcodes, intents",
    generated("`src/contract/errors.ts`, `gateway-codes.ts` and `intents.ts`"),
    "## Errors",
    'A refusal answers its status with `{"error": {"code": <status>, "message": <text>}}`. The names below occur in the code and in `/openapi.json`, not on the wire. "Retry" says whether the same request can succeed later although the caller changed nothing.',
    table(
      ["Name", "Status", "Message", "Retry"],
      Object.entries(errors).map(([name, { status, message, retry }]) => [
        code(name),
        String(status),
        message,
        retry ? "yes" : "no",
      ]),
    ),
    "## Gateway close codes",
    'After a code with "resume" a client connects again and sends RESUME; after the others it sends IDENTIFY, once it knows what was wrong.',
    table(
      ["Code", "Name", "Reason on the wire", "Resume", "Why"],
      Object.entries(closeCodes).map(([name, { code: number, reason, resume, summary }]) => [
        String(number),
        code(name),
        reason,
        resume ? "yes" : "no",
        summary,
      ]),
    ),
    `Codes that clients of this protocol know and that this server never sends: ${Object.entries(unusedCloseCodes)
      .map(([number, reason]) => `${number} (${reason})`)
      .join(", ")}.`,
    "## Gateway opcodes",
    table(
      ["Opcode", "Name", "Sent by", "Before IDENTIFY", "What it is for"],
      Object.entries(opcodes).map(([name, { op, from, beforeIdentify, summary }]) => [
        String(op),
        code(name),
        from,
        beforeIdentify ? "yes" : "no",
        summary,
      ]),
    ),
    "## Intents",
    `A sum of the values of what a client wants to receive. Left out, it is ${defaultIntents}: ${intentsIn(defaultIntents)}. All of them are ${allIntents}; above ${largestIntents} the connection closes with ${closeCodes.invalid_intents.code}.`,
    table(
      ["Intent", "Bit", "Value", "Events"],
      (Object.keys(intents) as Intent[]).map(intent => [
        code(intent),
        String(intents[intent]),
        String(bitOf(intent)),
        eventsBehind(intent),
      ]),
    ),
  )
}

const intentsIn = (mask: number) =>
  (Object.keys(intents) as Intent[])
    .filter(intent => (mask & bitOf(intent)) !== 0)
    .map(code)
    .join(", ")

const eventsBehind = (intent: Intent) =>
  Object.values<EventDefinition>(events)
    .filter(event => event.intent?.server === intent || event.intent?.dm === intent)
    .map(event => `[${code(event.name)}](events.md#${event.name.toLowerCase()})`)
    .join(", ")

function configurationPage(): string {
  const environment = entries.filter(entry => entry.key === undefined)
  const policy = entries.filter(entry => entry.key !== undefined)
  return page(
    "# Configuration",
    generated("`src/config.ts` and `cluster.config.ts`"),
    "The environment beats the file named by `CONFIG_FILE`, the file beats the defaults. An empty variable counts as not set; a bad value and an unknown variable that begins with `STARLING_` keep the server from starting.",
    "## Environment",
    table(
      ["Variable", "Default", "What it says"],
      environment.map(({ name, default: fallback, sentence }) => [code(name), shown(fallback), sentence]),
    ),
    "## Policy",
    "Each is a variable or a key in the file.",
    table(
      ["Variable", "Key", "Default", "What it says"],
      policy.map(({ name, key, default: fallback, sentence }) => [code(name), code(key!), shown(fallback), sentence]),
    ),
    "## Topology",
    "`cluster.config.ts` holds how many shards, processes and connections there are, who waits how long for whom, and every bound; it says of each what it does. Durations are milliseconds, sizes are bytes. All hosts of a cluster run with the same values.",
    table(
      ["Setting", "Value"],
      leaves(clusterConfig).map(([path, value]) => [code(path), shown(value)]),
    ),
  )
}

function shown(value: unknown): string {
  if (value === undefined || value === null || value === "") return "–"
  if (Array.isArray(value)) return value.length === 0 ? "–" : value.map(item => code(String(item))).join(", ")
  return code(typeof value === "string" ? value : JSON.stringify(value))
}

/** The values of a nested object, each with its path. */
const leaves = (value: object, above = ""): [string, unknown][] =>
  Object.entries(value).flatMap(([key, inner]: [string, unknown]) =>
    typeof inner === "object" && inner !== null && !Array.isArray(inner)
      ? leaves(inner, `${above}${key}.`)
      : [[above + key, inner] as [string, unknown]],
  )

/** Named schemas, as events meet them. */
const types = new Map<string, Schema>()
const markdown: Writing = { code, link: name => `[${name}](#${name.toLowerCase()})` }

const fields = (schema: Schema): string[][] =>
  fieldsOf(schema, markdown).map(({ path, type, isRequired, description = "" }) => [
    code(path),
    type,
    [isRequired ? "" : "May be missing.", description].filter(Boolean).join(" "),
  ])

function fieldTable(schema: Schema): string {
  const rows = fields(schema)
  return rows.length === 0 ? "An empty object." : table(["Field", "Type", "About"], rows)
}

function eventSection({ name, intent, delivery, summary, data }: EventDefinition): string {
  const { $defs = {}, ...schema } = jsonSchema(data, "output") as Schema
  for (const [name, definition] of Object.entries($defs)) types.set(name, definition)

  const of = (one: Intent | null) => (one === null ? "none, it is always sent" : code(one))
  const behind =
    intent === null || intent.server === intent.dm
      ? of(intent?.server ?? null)
      : `in servers ${of(intent.server)}; outside them ${of(intent.dm)}`
  return [
    `### ${name}`,
    `${summary}.`,
    `- Intent: ${behind}\n- Delivery: ${delivery}`,
    schema.$ref === undefined ? fieldTable(schema) : `Its data is a ${typeOf(schema, markdown)}.`,
  ].join("\n\n")
}

function eventsPage(): string {
  const sections = Object.values<EventDefinition>(events).map(eventSection)
  const named = [...types].sort(([a], [b]) => (a < b ? -1 : 1))
  return page(
    "# Gateway events",
    generated("`src/contract`"),
    "Every event arrives as `{op: 0, t: <name>, s: <sequence>, d: <data>}`. A *stored* event was committed together with its cause and is sent again after a RESUME that names an earlier `s`; an *ephemeral* one is sent at most once. The data is the same for every recipient. Further fields may be added.",
    table(
      ["Event", "Delivery", "When"],
      Object.values<EventDefinition>(events).map(({ name, delivery, summary }) => [
        `[${code(name)}](#${name.toLowerCase()})`,
        delivery,
        summary,
      ]),
    ),
    "## Events",
    ...sections,
    "## Types",
    ...named.flatMap(([name, schema]) => [
      `### ${name}`,
      schema.properties === undefined
        ? `${[typeOf(schema, markdown), schema.description].filter(Boolean).join(": ")}.`
        : fieldTable(schema),
    ]),
  )
}

const openapi = openapiDocument({ title: "Starling", version: wireVersion })
const asyncapi = asyncapiDocument({ title: "Starling", version: wireVersion })
const documents: Record<string, string> = {
  "docs/openapi.json": `${JSON.stringify(openapi, null, 2)}\n`,
  "docs/asyncapi.json": `${JSON.stringify(asyncapi, null, 2)}\n`,
  "docs/errors.md": errorsPage(),
  "docs/configuration.md": configurationPage(),
  "docs/events.md": eventsPage(),
}

const root = new URL("../", import.meta.url)
const checkOnly = process.argv.includes("--check")

function onDisk(path: string): string | undefined {
  try {
    return readFileSync(new URL(path, root), "utf8")
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined
    throw error
  }
}

for (const [path, text] of Object.entries(documents)) {
  const before = onDisk(path)
  if (before === text) console.log(`${path} is current`)
  else if (checkOnly) {
    console.error(`${path} ${before === undefined ? "is missing" : "is not current"}: run npm run docs`)
    process.exitCode = 1
  } else {
    mkdirSync(new URL("docs/", root), { recursive: true })
    writeFileSync(new URL(path, root), text)
    console.log(`${path} written`)
  }
}
