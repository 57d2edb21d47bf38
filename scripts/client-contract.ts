/**
 * Writes `client/contract.ts`: the contract as the client package carries it. Types without the
 * schemas that check them, and routes, opcodes and close codes as plain data, so that a page loads
 * no zod and an author reads plain interfaces.
 */
import type { z } from "zod"
import { jsonSchema, type Json } from "../src/apidocs/json-schema.ts"
import { makesMessages } from "../src/apidocs/openapi.ts"
import { events, operatorRoutes, routes } from "../src/contract/contract.ts"
import { closeCodes, opcodes } from "../src/contract/core/gateway-codes.ts"
import { allIntents, bitOf, defaultIntents, intents, type Intent } from "../src/contract/core/intents.ts"
import type { EventDefinition, Route } from "../src/contract/core/registry.ts"
import { chunkBytes } from "../src/contract/messages/upload-sessions.ts"

type Writing = "input" | "output"

/** Named schemas, as each is written once: the text of its type by its name. */
class Types {
  readonly #byName = new Map<string, string>()

  /** The type of what is sent (`input`) or received (`output`). */
  of(schema: z.ZodType, io: Writing): string {
    const { $defs = {}, ...json } = jsonSchema(schema, io) as Json & { $defs?: Record<string, Json> }
    for (const [name, definition] of Object.entries($defs)) this.#byName.set(name, typeText(definition))
    return typeText(json)
  }

  declarations(): string[] {
    return [...this.#byName]
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, text]) =>
        text.startsWith("{") && text.endsWith("}") && !text.includes("\n} & ")
          ? `export interface ${name} ${text}`
          : `export type ${name} = ${text}`,
      )
  }
}

const indented = (text: string) => text.replaceAll("\n", "\n  ")
const keyText = (key: string) => (/^[A-Za-z_$][\w$]*$/.test(key) ? key : JSON.stringify(key))
const inUnion = (text: string) => (text.includes(" & ") ? `(${text})` : text)

function union(schemas: readonly Json[]): string {
  return [...new Set(schemas.map(one => inUnion(typeText(one))))].join(" | ")
}

function typeText(json: Json): string {
  const { $ref, anyOf, oneOf, allOf } = json as Json & Record<"anyOf" | "oneOf" | "allOf", Json[] | undefined>
  if (typeof $ref === "string") return $ref.slice("#/$defs/".length)
  if ("const" in json) return JSON.stringify(json["const"])
  if (Array.isArray(json["enum"])) return json["enum"].map(value => JSON.stringify(value)).join(" | ")
  const alternatives = anyOf ?? oneOf
  if (alternatives) return union(alternatives)
  if (allOf) return allOf.map(one => `(${typeText(one)})`).join(" & ")
  if (Array.isArray(json["type"])) return union(json["type"].map((type: unknown) => ({ ...json, type })))
  switch (json["type"]) {
    case "string":
      return json["format"] === "binary" ? "FormFile" : "string"
    case "number":
    case "integer":
      return "number"
    case "boolean":
      return "boolean"
    case "null":
      return "null"
    case "array":
      return arrayText(json)
    case "object":
      return objectText(json)
    default:
      return "unknown"
  }
}

function arrayText(json: Json): string {
  const { prefixItems, items } = json as { prefixItems?: Json[]; items?: Json | boolean }
  if (prefixItems) return `[${prefixItems.map(typeText).join(", ")}]`
  const item = typeof items === "object" ? typeText(items) : "unknown"
  return /^\w+$/.test(item) || item.startsWith("{") ? `${item}[]` : `(${item})[]`
}

function objectText(json: Json): string {
  const {
    properties = {},
    required = [],
    additionalProperties,
    propertyNames,
  } = json as {
    properties?: Record<string, Json>
    required?: string[]
    additionalProperties?: Json | boolean
    propertyNames?: Json
  }
  const keys = Object.entries(properties).map(([key, value]) => {
    const { description } = value
    const comment = typeof description === "string" ? `/** ${description.replaceAll("*/", "* /")} */\n` : ""
    const isNeeded = required.includes(key)
    return `${comment}${keyText(key)}${isNeeded ? "" : "?"}: ${typeText(value)}${isNeeded ? "" : " | undefined"}`
  })
  const named = `{\n${keys.map(key => `  ${indented(key)}`).join("\n")}\n}`
  if (typeof additionalProperties !== "object") return keys.length > 0 ? named : "{}"
  const name = propertyNames && Array.isArray(propertyNames["enum"]) ? typeText(propertyNames) : "string"
  const value = typeText(additionalProperties)
  const record = name === "string" ? `Record<string, ${value}>` : `Partial<Record<${name}, ${value}>>`
  return keys.length > 0 ? `${named} & ${record}` : record
}

/** Parameters, query and body of a route, side by side, as the client takes them. */
function inputText(types: Types, { params, query, body }: Route): string {
  // Numbers of paths and queries are text on their way.
  const inUrl = [params, query].flatMap(part =>
    part ? [types.of(part, "input").replace(/(\??: )number\b/g, "$1number | string")] : [],
  )
  const parts = [...inUrl, ...(body ? [types.of(body, "input")] : [])]
  return parts.length === 0 ? "{}" : parts.map(inUnion).join(" & ")
}

/**
 * `METHOD+flags path query`, the query's names only where there is a body as well. Flags: `b` a
 * body, `o` one that may be missing, `f` a form, `c` an answer that is no JSON, `r` at the root,
 * `i` repeatable with the header `Idempotency-Key`.
 */
function dataOf(
  { method, path, mount, query, body, form, bodyOptional, produces }: Route,
  takesIdempotencyKey: boolean,
): string {
  const flags = [
    body && "b",
    bodyOptional && "o",
    form && "f",
    produces && "c",
    mount === "root" && "r",
    takesIdempotencyKey && "i",
  ]
  const names = body && query ? ` ${Object.keys(query.shape).join(",")}` : ""
  return `${method}${flags.filter(flag => typeof flag === "string").join("")} ${path}${names}`
}

const listed = <T>(record: Record<string, T>, text: (value: T, key: string) => string) =>
  Object.entries(record)
    .map(([key, value]) => text(value, key))
    .join("\n")

/** An event of a DM may need another intent than the same event of a server; where one needs none, it always comes. */
function maskOf(intent: EventDefinition["intent"]): number {
  if (intent === null || intent.server === null || intent.dm === null) return 0
  return bitOf(intent.server) | bitOf(intent.dm)
}

/** The whole text of `client/contract.ts`. */
export function clientContract(): string {
  const types = new Types()
  const ofUsers = Object.fromEntries(Object.entries<Route>(routes).filter(([name]) => !(name in operatorRoutes)))
  const routeTypes = listed(ofUsers, (route, name) => {
    const reply = route.isEmpty ? "undefined" : route.produces ? "Content" : types.of(route.reply, "output")
    return `  /** ${route.summary}. \`${route.method} ${route.path}\` */\n  ${name}: Call<${indented(inputText(types, route))}, ${indented(reply)}>`
  })
  const eventTypes = listed<EventDefinition>(
    events,
    ({ data, summary }, name) => `  /** ${summary} */\n  ${name}: ${indented(types.of(data, "output"))}`,
  )
  const bits = (Object.keys(intents) as Intent[]).map(name => `  ${name}: ${bitOf(name)},`).join("\n")
  return [
    "// Written by `npm run docs` from `src/contract`. Change it there.",
    "/* oxlint-disable */",
    'import type { Call, Content, FormFile } from "./rest.ts"',
    `/** What a client sends and receives with each route, by the route's name. */\nexport interface Routes {\n${routeTypes}\n}`,
    `/** What \`d\` of each event holds, by the event's name. */\nexport interface Events {\n${eventTypes}\n}`,
    ...types.declarations(),
    `/** Each route as text, for \`parseRoute\`. */\nexport const table: { readonly [K in keyof Routes]: string } = {\n${listed(ofUsers, (route, name) => `  ${name}: ${JSON.stringify(dataOf(route, makesMessages.has(name)))},`)}\n}`,
    `/** Gateway opcodes by name. */\nexport const opcodes = {\n${listed(opcodes, ({ op }, name) => `  ${name}: ${op},`)}\n} as const`,
    `/** Close codes: whether the client may resume after it, by code and reason. */\nexport const closes: readonly (readonly [code: number, reason: string, mayResume: boolean])[] = [\n${listed(closeCodes, ({ code, reason, resume }) => `  [${code}, ${JSON.stringify(reason)}, ${resume}],`)}\n]`,
    `/** Gateway intents: the value of each, to be added. */\nexport const intents = {\n${bits}\n} as const`,
    `/** What a session has whose \`intents\` are left out. */\nexport const defaultIntents = ${defaultIntents}\nexport const allIntents = ${allIntents}`,
    `/** The intents that let each event through, added up: one of them will do. 0: it always comes. */\nexport const eventIntents: { readonly [N in keyof Events]: number } = {\n${listed<EventDefinition>(events, ({ intent }, name) => `  ${name}: ${maskOf(intent)},`)}\n}`,
    `/** How large the chunks of an upload are; the last is what is left. */\nexport const uploadChunkBytes = ${chunkBytes}`,
  ]
    .join("\n\n")
    .concat("\n")
}
