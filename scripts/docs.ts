/**
 * Writes the documents that follow from the code. `--check` writes nothing and fails when one of
 * them is not current. `--out DIR` writes the whole OpenAPI and AsyncAPI documents into a folder,
 * for comparing two versions.
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"
import { clusterConfig } from "../cluster.config.ts"
import { entries } from "../src/config.ts"
import { asyncapiDocument } from "../src/apidocs/asyncapi.ts"
import { events, routes } from "../src/contract/contract.ts"
import { errors } from "../src/contract/core/errors.ts"
import { closeCodes, opcodes, unusedCloseCodes } from "../src/contract/core/gateway-codes.ts"
import {
  allIntents,
  bitOf,
  defaultIntents,
  type Intent,
  intents,
  largestIntents,
} from "../src/contract/core/intents.ts"
import { clientContract } from "./client-contract.ts"
import { boundRows, limitRows } from "./limits-page.ts"
import { digestOf } from "./interface-digest.ts"
import { dashboardFile, dashboards } from "./watching/dashboards.ts"
import { metricRows } from "./watching/metrics-page.ts"
import { rulesFile, runbookSections } from "./watching/rules.ts"
import { noticeText } from "./notice.ts"
import { invariantRows, readInvariants } from "./invariants.ts"
import { fieldsOf, typeOf, type Schema, type Writing } from "../src/contract/core/field-list.ts"
import { jsonSchema } from "../src/apidocs/json-schema.ts"
import { openapiDocument } from "../src/apidocs/openapi.ts"
import { limits } from "../src/contract/core/limits.ts"
import { aliases, type Permission, permissionNames, permissions } from "../src/contract/core/permissions.ts"
import { gatewayPath, pages, type PageRoute } from "../src/contract/pages.ts"
import type { Auth, EventDefinition, Needed, Route } from "../src/contract/core/registry.ts"
import { wireVersion } from "../src/contract/service/system.ts"
import { lostInTimeout } from "../src/domain/core/permissions.ts"

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
    generated("`src/contract/core/errors.ts`, `gateway-codes.ts` and `intents.ts`"),
    "## Errors",
    'An error response has the HTTP status and the body `{"error": {"code": <status>, "message": <text>}}`. For version errors and auto-moderation `code` is a string. A message may have more detail than the table, for example the missing permission. The names below are used in the code and in `/openapi.json`; they are not sent. "Retry" tells whether the same request can succeed later without a change by the caller.',
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
    'After a code with "resume" the client connects again and sends RESUME. After any other code it solves the problem and sends IDENTIFY.',
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
    `Codes of this protocol that this server never sends: ${Object.entries(unusedCloseCodes)
      .map(([number, reason]) => `${number} (${reason})`)
      .join(", ")}.`,
    "## Gateway opcodes",
    table(
      ["Opcode", "Name", "Sent by", "Before IDENTIFY", "Purpose"],
      Object.entries(opcodes).map(([name, { op, from, beforeIdentify, summary }]) => [
        String(op),
        code(name),
        from,
        beforeIdentify ? "yes" : "no",
        summary,
      ]),
    ),
    "## Intents",
    `The sum of the values of the intents that a client wants. The default is ${defaultIntents}: ${intentsIn(defaultIntents)}. All intents together are ${allIntents}. With a value above ${largestIntents} the connection closes with ${closeCodes.invalid_intents.code}.`,
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

const callers: Record<Auth, string> = {
  public: "anybody",
  optional: "anybody",
  user: "any account",
  person: "any account but a bot's",
  administrator: "administrators and operators",
  signed: "any account, or anybody with a signed link",
  operator: "operators",
}

function pathsPage(): string {
  const mounted = ({ path, mount }: { path: string; mount: string }) =>
    [...(mount === "api" ? [] : [path]), ...(mount === "root" ? [] : [`/api/v1${path}`])]
      .map(path => code(path.replaceAll(/:(\w+)/g, "{$1}")))
      .join("<br>")
  return page(
    "# Paths",
    generated("`src/contract`"),
    "Everything that a server answers on its public port. `/openapi.json` has parameters, bodies and answers of the routes.",
    "## Routes",
    table(
      ["Method", "Path", "Who may call", "What it does"],
      Object.values<Route>(routes).map(route => [route.method, mounted(route), callers[route.auth], route.summary]),
    ),
    "## Documents and pages",
    "Answered to GET and HEAD, without a token.",
    table(
      ["Path", "Content", "What it is", "Switched off by"],
      Object.values<PageRoute>(pages).map(one => [
        mounted(one),
        one.contentType,
        one.summary,
        one.setting ? code(one.setting) : "–",
      ]),
    ),
    "## Gateway",
    `WebSockets connect to ${code(gatewayPath)}. [gateway.md](gateway.md) says how.`,
  )
}

const listed = (names: Iterable<string>) => [...names].map(code).join(", ")

function needed(permission: Needed | undefined): string {
  if (permission === undefined) return "see its own rule"
  if (permission === "owner") return "the owner"
  return permission === "member" ? "any member" : permission.map(code).join(" or ")
}

function permissionsPage(): string {
  const ofServers = Object.entries<Route>(routes).filter(
    ([, { permission, openTo }]) => permission !== undefined || openTo !== undefined,
  )
  const path = ({ method, path }: Route) => code(`${method} ${path.replaceAll(/:(\w+)/g, "{$1}")}`)
  const routesOf = (name: Permission) =>
    ofServers.flatMap(([, route]) => {
      const says = route.openTo ?? needed(route.permission)
      return says.includes(code(name)) ? [path(route)] : []
    })
  return page(
    "# Permissions",
    generated("`src/contract`"),
    "The roles of a member decide what they may do in a server. A request without the required permission is refused with 403.",
    "## Rules",
    [
      "A role grants permissions. It never denies one. A member has the permissions of `@everyone` and of all their roles together.",
      "The owner has all permissions. So has any member with a role that grants `administrator`.",
      `\`@everyone\` is a role with the id of the server and position 0. It cannot be renamed, moved or removed. In a new server it grants ${listed(permissionNames.filter(name => permissions[name].granted))}.`,
      "Roles are ranked: a higher `position` means more authority. A member has the rank of their highest role; the owner ranks above all. Members may change, move, delete, assign and remove roles below their own rank, and move them only to positions below it. They may remove, ban, time out and rename members below their own rank. So nobody can do this to themselves or to the owner. To assign or remove a role, the rank of the role counts, not that of the member. A new role is placed right below its creator's highest role; the owner's new role is the highest.",
      "Members can grant only permissions that they have, in new and in changed roles, `@everyone` included. Permissions that a role already grants may stay in it. Roles below one's own rank may be assigned, removed and deleted regardless of what they grant.",
      "A channel can allow or deny permissions to a role or a member (overrides). They are applied in this order, and the last one that mentions a permission decides: the roles of the server; the channel's override for `@everyone`; its overrides for the member's other roles, where allow wins over deny; its override for the member. If one override has a permission in both lists, `allow` wins. Overrides do not affect the owner and administrators, and cannot contain `administrator`. Changing overrides requires `roles.manage`, which an override may itself allow or deny.",
      "Nobody can allow others something in a channel that they may not do there themselves, and nobody can remove a deny of it either. The role or member of the override must rank below the caller.",
      "Without `channels.view` a channel is hidden: it is in no list, its events are not sent, and requests for it are refused with 403.",
      `During a time-out a member loses ${listed(lostInTimeout)}, regardless of their roles. This does not apply to the owner and administrators.`,
      `Aliases, in the permissions of roles and in the response of \`GET /servers/{server_id}/permissions\`: ${[...aliases].map(([alias, name]) => `${code(alias)} for ${code(name)}`).join(", ")}, and ${code("server.view")} for being a member. Unknown names are ignored. There are no wildcards.`,
      "Errors are checked in this order: not found (404), no access (403 `Access denied`), missing permission (403), insufficient rank (403), then errors in the request.",
      `A server has at most ${limits.rolesPerServer} roles, a channel at most ${limits.overridesPerChannel} overrides, and all channels of a server together at most ${limits.overridesPerServer}.`,
    ]
      .map(rule => `- ${rule}`)
      .join("\n"),
    "## Permissions and the routes that require them",
    'If a route lists several permissions, one of them is enough. "New" tells whether `@everyone` has it in a new server.',
    table(
      ["Permission", "New", "Allows", "Routes"],
      permissionNames.map(name => [
        code(name),
        permissions[name].granted ? "yes" : "",
        permissions[name].allows,
        routesOf(name).join(", "),
      ]),
    ),
    "## Routes and the permissions that they require",
    "These are the requirements in the server; `/openapi.json` has the others. Routes of a channel also require `channels.view`.",
    table(
      ["Route", "Name", "Open to"],
      ofServers.map(([name, route]) => [path(route), code(name), route.openTo ?? needed(route.permission)]),
    ),
  )
}

function limitsPage(): string {
  return page(
    "# Limits",
    generated(
      "`src/contract` (`limits` of a resource stand beside it), `cluster.config.ts` and `scripts/limits-page.ts`",
    ),
    "Every cap of the interface, and the bounds of a cluster. Limits of requests per time stand in [rate limits](rate-limits.md).",
    "## Limits of the interface",
    "A refusal answers as its row in [errors](errors.md) says.",
    table(
      ["Limit", "Value", "Unit", "Beyond it"],
      limitRows().map(([name, ...rest]) => [code(name!), ...rest]),
    ),
    "## Bounds of a cluster",
    "From `cluster.config.ts`. The operator of a cluster can change them.",
    table(
      ["Bound", "Value", "Unit", "Beyond it"],
      boundRows().map(([name, ...rest]) => [code(name!), ...rest]),
    ),
  )
}

function configurationPage(): string {
  const environment = entries.filter(entry => entry.key === undefined)
  const policy = entries.filter(entry => entry.key !== undefined)
  return page(
    "# Configuration",
    generated("`src/config.ts` and `cluster.config.ts`"),
    "Environment variables override the file named by `CONFIG_FILE`, which overrides the defaults. An empty variable counts as not set. The server does not start with an invalid value or with an unknown variable that begins with `STARLING_`.",
    "## Environment",
    table(
      ["Variable", "Default", "Meaning"],
      environment.map(({ name, default: fallback, sentence }) => [code(name), shown(fallback), sentence]),
    ),
    "## Policy",
    "Set each of these as an environment variable or as a key in the file.",
    table(
      ["Variable", "Key", "Default", "Meaning"],
      policy.map(({ name, key, default: fallback, sentence }) => [code(name), code(key!), shown(fallback), sentence]),
    ),
    "## Topology",
    "`cluster.config.ts` has the number of shards, processes and connections, all time-outs and all bounds, each with an explanation. Durations are in milliseconds, sizes in bytes. All hosts of a cluster must use the same values.",
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

  const of = (one: Intent | null) => (one === null ? "none; it is always sent" : code(one))
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
    "Every event is sent as `{op: 0, t: <name>, s: <sequence>, d: <data>}`. A *stored* event is committed together with the change that causes it, and is sent again after a RESUME with a lower `s`. An *ephemeral* event is sent at most once. The data is the same for all recipients. Fields may be added later.",
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
 * The two interface descriptions. They are large and follow from the contract alone, so the
 * repository keeps only their digest: a change of the interface shows as a changed line in it.
 * `--out DIR` writes them whole.
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
    `The ${invariants.length} statements that single modules keep, with the tests that hold them. Users can rely on the promises P1 to P19 in [guarantees.md](guarantees.md); these are what the promises are built from. An id is unique. \`npm run check\` refuses a duplicate, an invariant without a test, and a test that names an unknown one.`,
    table(["Invariant", "Kept by", "Tests"], invariantRows(invariants)),
  )
}

function metricsPage(): string {
  return page(
    "# Metrics",
    generated("`src/observability/metrics.ts` and `scripts/watching`"),
    "Everything that `/metrics` on the metrics port shows of one host. Counters and histograms are the sum over its processes, those that ended included. Gauges are shown by process, under the label `worker`. A series of a label whose values are not known beforehand appears once it was counted.",
    "The last column says who looks: an [alert](runbook.md), or a dashboard of `deploy/grafana`. What nobody watches is for the search for a cause.",
    ...metricRows().flatMap(([area, rows]) => [
      `## ${area}`,
      table(["Metric", "Type", "Unit", "Labels", "Meaning", "Watched by"], rows),
    ]),
  )
}

function runbookPage(): string {
  return page(
    "# Runbook",
    generated("`scripts/watching/alerts.ts`"),
    "One section for each alert of `deploy/prometheus/rules.yml`. Load that file in Prometheus (`rule_files`), with the servers scraped under `job: starling`, and have Alertmanager send what has `severity: page` to the person on call. Dashboards for Grafana are in `deploy/grafana`. [Metrics](metrics.md) explains every metric.",
    ...runbookSections(),
  )
}

const documents: Record<string, string> = {
  "docs/api/interfaces.json": digests(),
  "docs/api/errors.md": errorsPage(),
  "docs/api/limits.md": limitsPage(),
  "docs/api/permissions.md": permissionsPage(),
  "docs/api/paths.md": pathsPage(),
  "docs/operate/configuration.md": configurationPage(),
  "docs/operate/metrics.md": metricsPage(),
  "docs/operate/runbook.md": runbookPage(),
  "deploy/prometheus/rules.yml": rulesFile(),
  ...Object.fromEntries(dashboards.map(one => [`deploy/grafana/${one.file}.json`, dashboardFile(one)])),
  "docs/api/events.md": eventsPage(),
  "docs/internals/invariants.md": invariantsPage(),
  NOTICE: await noticeText(fileURLToPath(root)),
  "client/contract.ts": clientContract(),
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
