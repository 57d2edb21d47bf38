/**
 * Writes the documents that follow from the code. `--check` writes nothing and fails when one of them is not current.
 * `--out DIR` writes the whole OpenAPI and AsyncAPI documents into a folder, for comparing two versions.
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"
import { clusterConfig } from "../cluster.config.ts"
import { entries } from "../src/config.ts"
import { asyncapiDocument } from "../src/contract/asyncapi.ts"
import { events, routes } from "../src/contract/contract.ts"
import { errors } from "../src/contract/errors.ts"
import { closeCodes, opcodes, unusedCloseCodes } from "../src/contract/gateway-codes.ts"
import { allIntents, bitOf, defaultIntents, type Intent, intents, largestIntents } from "../src/contract/intents.ts"
import { digestOf } from "./interface-digest.ts"
import { invariantRows, readInvariants } from "./invariants.ts"
import { fieldsOf, typeOf, type Schema, type Writing } from "../src/contract/field-list.ts"
import { jsonSchema } from "../src/contract/json-schema.ts"
import { openapiDocument } from "../src/contract/openapi.ts"
import { limits } from "../src/contract/limits.ts"
import { aliases, type Permission, permissionNames, permissions } from "../src/contract/permissions.ts"
import type { EventDefinition, Needed, Route } from "../src/contract/registry.ts"
import { wireVersion } from "../src/contract/system.ts"
import { lostInTimeout } from "../src/domain/permissions.ts"

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
    'A refusal answers its status with `{"error": {"code": <status>, "message": <text>}}`; with versions and auto-moderation `code` is a word of its own. Where more can be said than the table does, the message says it: which permission is missing, for one. The names below occur in the code and in `/openapi.json`, not on the wire. "Retry" says whether the same request can succeed later although the caller changed nothing.',
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

const listed = (names: Iterable<string>) => [...names].map(code).join(", ")

function needed(permission: Needed | undefined): string {
  if (permission === undefined) return "see its own rule"
  if (permission === "owner") return "the owner"
  return permission === "member" ? "any member" : permission.map(code).join(" or ")
}

/** Rules of a route beside, or in place of, what it names. */
const ownRules: Partial<Record<keyof typeof routes, string>> = {
  createServer: "anybody signed in, up to what his tier allows",
  getInvite: "anybody who is signed in",
  joinByInvite: "anybody signed in who is not banned",
  joinServer: "anybody signed in who is not banned, if the server is public",
  deleteInvite: "who created it, or a member with `invites.manage` or `server.manage`",
  editMessage: "`messages.send`, and to be its author",
  deleteMessage: "its author, or `messages.manage`",
  leaveServer: "any member but the owner",
  editMember:
    "any member, of his own nickname; `members.manage_nicknames` of another's; `members.kick` to time somebody out",
}

function permissionsPage(): string {
  const ofServers = Object.entries<Route>(routes).filter(
    ([name, { permission }]) => permission !== undefined || name in ownRules,
  )
  const path = ({ method, path }: Route) => code(`${method} ${path.replaceAll(/:(\w+)/g, "{$1}")}`)
  const routesOf = (name: Permission) =>
    ofServers.flatMap(([routeName, route]) => {
      const says = ownRules[routeName as keyof typeof routes] ?? needed(route.permission)
      return says.includes(code(name)) ? [path(route)] : []
    })
  return page(
    "# Permissions",
    generated("`src/contract`"),
    "What somebody may do in a server follows from his roles there. Who asks for what he may not do is answered 403.",
    "## Rules",
    [
      "A role grants permissions; what it does not grant it does not take away. A member holds what `@everyone` and his own roles grant together.",
      "The owner holds everything. So does whoever has a role that grants `administrator`.",
      `\`@everyone\` is a role of the server, with the server's id and position 0. It keeps its name and place; nobody is without it. In a new server it grants ${listed(permissionNames.filter(name => permissions[name].granted))}.`,
      "Roles have ranks: the higher the `position`, the more authority. A member ranks as high as his highest role, the owner above everything. A role may be changed, moved, deleted, given or taken by who ranks above it, and to places below him; a member may be removed, banned, timed out or renamed by who ranks above him. So nobody does that to himself, and nobody to the owner. To give or take a role its own rank counts, not that of the member. Somebody's new role stands right below his own highest, the owner's above all.",
      "Nobody grants what he does not hold: not by creating a role and not by changing one, `@everyone` among them. What a role granted before may stay in it. What ranks below him he gives, takes and deletes, whatever it grants.",
      "A channel may allow or deny a role or a member something. From the first to the last, and the last that says something decides: what the server's roles grant; what the channel says to `@everyone`; what it says to the member's other roles together, of which one that allows wins over those that deny; what it says to the member himself. Where both are named at once, `allow` wins. Nothing is denied to the owner and to administrators, and `administrator` is no matter of a channel. It is said with `roles.manage`, which a channel may itself allow or deny.",
      "Nobody lets others do in a channel what he may not do there: neither by allowing it nor by taking back that it is denied. Whom he does it for ranks lower than he does.",
      "Without `channels.view` a channel is not there: it is in no list, its events do not come, and whoever names it is answered 403.",
      `Who is timed out loses ${listed(lostInTimeout)} for that time, whatever he is granted, unless he is the owner or an administrator.`,
      `Other names for some, in what roles grant and in what \`GET /servers/{server_id}/permissions\` answers: ${[...aliases].map(([alias, name]) => `${code(alias)} for ${code(name)}`).join(", ")}, and ${code("server.view")} for being a member. Names that mean nothing here are left out; there are no wildcards.`,
      "Refusals come in this order: what is not there 404, what is not there for the caller 403 `Access denied`, a permission that he lacks 403, a rank that is too low 403, and then what is wrong with the request.",
      `A server has at most ${limits.rolesPerServer} roles, a channel at most ${limits.overridesPerChannel} overrides.`,
    ]
      .map(rule => `- ${rule}`)
      .join("\n"),
    "## Permissions and the routes that ask for them",
    'Of several named by one route any will do. "New" says whether `@everyone` has it in a new server.',
    table(
      ["Permission", "New", "Allows", "Routes"],
      permissionNames.map(name => [
        code(name),
        permissions[name].granted ? "yes" : "",
        permissions[name].allows,
        routesOf(name).join(", "),
      ]),
    ),
    "## Routes and what they ask for",
    "In a server; what they need beside it stands in `/openapi.json`. Routes of a channel ask for `channels.view` first.",
    table(
      ["Route", "Name", "Open to"],
      ofServers.map(([name, route]) => [
        path(route),
        code(name),
        ownRules[name as keyof typeof routes] ?? needed(route.permission),
      ]),
    ),
  )
}

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

/**
 * The two interface descriptions. They are large and follow from the contract alone, so the repository keeps only
 * their digest: a change of the interface shows as a changed line in it. `--out DIR` writes them whole.
 */
const interfaces = {
  openapi: openapiDocument({ title: "Starling", version: wireVersion }),
  asyncapi: asyncapiDocument({ title: "Starling", version: wireVersion }),
}

function digests(): string {
  const { openapi, asyncapi } = interfaces
  return `${JSON.stringify(
    {
      openapi: {
        sha256: digestOf(openapi),
        routes: Object.values(openapi.paths).reduce((sum, operations) => sum + Object.keys(operations).length, 0),
        schemas: Object.keys(openapi.components.schemas).length,
      },
      asyncapi: {
        sha256: digestOf(asyncapi),
        events: Object.keys(events).length,
        schemas: Object.keys(asyncapi.components.schemas).length,
      },
    },
    null,
    2,
  )}\n`
}

const root = new URL("../", import.meta.url)
const { invariants, faults } = readInvariants(fileURLToPath(root))

function invariantsPage(): string {
  return page(
    "# Invariants",
    generated("the header comments of `src` and `client` and the titles of tests"),
    `The ${invariants.length} statements that single modules keep, with the tests that hold them. Users can rely on the promises P1 to P18 in [guarantees.md](guarantees.md); these are what the promises are built from. An id is unique. \`npm run check\` refuses a duplicate, an invariant without a test, and a test that names an unknown one.`,
    table(["Invariant", "Kept by", "Tests"], invariantRows(invariants)),
  )
}

const documents: Record<string, string> = {
  "docs/api/interfaces.json": digests(),
  "docs/api/errors.md": errorsPage(),
  "docs/api/permissions.md": permissionsPage(),
  "docs/operate/configuration.md": configurationPage(),
  "docs/api/events.md": eventsPage(),
  "docs/internals/invariants.md": invariantsPage(),
}

const { values: options } = parseArgs({ options: { check: { type: "boolean" }, out: { type: "string" } } })

function onDisk(path: string): string | undefined {
  try {
    return readFileSync(new URL(path, root), "utf8")
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined
    throw error
  }
}

function writeInterfaces(folder: string): void {
  mkdirSync(folder, { recursive: true })
  for (const [name, document] of Object.entries(interfaces)) {
    const path = join(folder, `${name}.json`)
    writeFileSync(path, `${JSON.stringify(document, null, 2)}\n`)
    console.log(`${path} written`)
  }
}

function writeDocuments(): void {
  for (const [path, text] of Object.entries(documents)) {
    const before = onDisk(path)
    if (before === text) console.log(`${path} is current`)
    else if (options.check) {
      console.error(`${path} ${before === undefined ? "is missing" : "is not current"}: run npm run docs`)
      process.exitCode = 1
    } else {
      mkdirSync(new URL(".", new URL(path, root)), { recursive: true })
      writeFileSync(new URL(path, root), text)
      console.log(`${path} written`)
    }
  }
}

for (const fault of faults) {
  console.error(fault)
  process.exitCode = 1
}
if (options.out === undefined) writeDocuments()
else writeInterfaces(options.out)
