import { byName, bySchema, sample } from "../contract/core/examples.ts"
import type { Json } from "./json-schema.ts"

/**
 * Examples for the interface's documents: made from the schemas, so that a new field cannot be
 * forgotten, with values that a reader may take for real ones. A test parses every one of them with
 * the schema it illustrates.
 */

interface Schema {
  $ref?: string
  type?: string | string[]
  const?: unknown
  enum?: unknown[]
  examples?: unknown[]
  default?: unknown
  anyOf?: Schema[]
  oneOf?: Schema[]
  allOf?: Schema[]
  items?: Schema
  prefixItems?: Schema[]
  not?: object
  properties?: Record<string, Schema>
  minimum?: number
  exclusiveMinimum?: number
  minLength?: number
  maxLength?: number
}

/** A place in a log, as large as they are. */
export const exampleSequence = 373_000_000_000_123

/** Whole `d`s where a client sends less than it may, or where fields belong together. */
const chosen: Record<string, unknown> = {
  "client.HEARTBEAT": exampleSequence,
  "client.IDENTIFY": {
    token: sample.token,
    intents: 32_509,
    properties: { os: "linux", browser: "example", device: "" },
  },
  "client.RESUME": { token: sample.token, session_id: sample.session, seq: exampleSequence },
  "client.REQUEST_GUILD_MEMBERS": { guild_id: sample.server, query: "ad", limit: 10, nonce: "1f9c0b" },
  "client.VOICE_DISCONNECT": null,
  "client.VOICE_SDP_OFFER": {
    channel_id: sample.channel,
    sdp: "v=0\r\n…",
    type: "offer",
    target_user_id: sample.other,
  },
  "client.VOICE_SDP_ANSWER": {
    channel_id: sample.channel,
    sdp: "v=0\r\n…",
    type: "answer",
    target_user_id: sample.other,
  },
  "client.VOICE_ICE_CANDIDATE": {
    channel_id: sample.channel,
    candidate: "candidate:1 1 udp 2122260223 192.0.2.1 54321 typ host",
    sdp_mid: "0",
    sdp_mline_index: 0,
    target_user_id: sample.other,
  },
  "client.VOICE_SPEAKING": { channel_id: sample.channel, speaking: true },
  "server.VOICE_SDP_OFFER": {
    channel_id: sample.channel,
    user_id: sample.other,
    sdp: "v=0\r\n…",
    type: "offer",
    session_id: sample.session,
  },
  "server.HELLO": { heartbeat_interval: 45_000 },
  "server.SERVER_STATUS": {
    state: "maintenance",
    message: "Back in ten minutes",
    estimated_downtime_seconds: 600,
    closing_in_seconds: 2,
  },
  "event.SECURITY_LOGOUT": { user_id: sample.user, message: "Security logout" },
}

const seconds = 1_767_225_600

const nameOf = ({ $ref }: Schema) => $ref?.split("/").at(-1)

/** The schema itself, and the name that it has in the document, if any. */
function resolved(schema: Schema, schemas: Record<string, Json>): { schema: Schema; name: string | undefined } {
  const name = nameOf(schema)
  if (name === undefined) return { schema, name }
  const { schema: inner, name: innermost = name } = resolved(schemas[name] as Schema, schemas)
  return { schema: inner, name: innermost }
}

/** Where a value stands: in the field of that name, of the schema of that name. */
interface Place {
  readonly field: string
  readonly within?: string | undefined
  readonly depth: number
}

function known({ field, within = "" }: Place): unknown {
  const ofSchema = bySchema[within] ?? {}
  return field in ofSchema ? ofSchema[field] : byName[field]
}

const mayBeNull = ({ type, anyOf = [] }: Schema): boolean =>
  [type].flat().includes("null") || anyOf.some(one => one.type === "null")

/** What is known of a field, if its schema takes it whatever it is otherwise made of. */
function wholeOf(value: unknown, schema: Schema): unknown {
  if (value === null) return mayBeNull(schema) ? null : undefined
  if (schema.enum !== undefined) return schema.enum.find(one => one === value)
  const type = Array.isArray(value) ? "array" : typeof value
  const isComposed = type === "array" || type === "object" || type === "boolean"
  return isComposed && [schema, ...(schema.anyOf ?? [])].some(one => [one.type].flat().includes(type))
    ? value
    : undefined
}

function numberFor(place: Place, { minimum, exclusiveMinimum, type }: Schema): number {
  const value = known(place)
  if (typeof value === "number") return value
  if (place.field.endsWith("_at") || place.field.endsWith("_until")) return seconds
  return minimum ?? (exclusiveMinimum === undefined ? 0 : exclusiveMinimum + (type === "integer" ? 1 : 0.5))
}

/** In the place of text that nobody has given an example of; a test finds it. */
export const unknownText = "…"

function textFor(place: Place, { minLength = 0, maxLength = Infinity }: Schema): string {
  const value = known(place)
  return (typeof value === "string" ? value : unknownText).slice(0, maxLength).padEnd(minLength, "x")
}

/** A value that the schema takes: the first alternative, one item per array, every field. */
function valueFor(place: Place, given: Schema, schemas: Record<string, Json>): unknown {
  const { schema, name } = resolved(given, schemas)
  const whole = wholeOf(known(place), schema)
  if (whole !== undefined) return whole
  // Ids are of one type; what they are of, their field says.
  if (name === "Snowflake" && typeof known(place) === "string") return known(place)
  if (schema.const !== undefined) return schema.const
  if (schema.examples !== undefined) return schema.examples[0]
  if (schema.default !== undefined) return schema.default
  if (schema.enum !== undefined) return schema.enum[0]
  const alternatives = schema.anyOf ?? schema.oneOf
  if (alternatives !== undefined) return valueFor(place, alternatives[0]!, schemas)
  if (schema.allOf !== undefined)
    return Object.assign({}, ...schema.allOf.map(one => valueFor(place, one, schemas))) as unknown
  const below = { field: place.field, within: name ?? place.within, depth: place.depth + 1 }
  switch ([schema.type].flat()[0]) {
    case "object":
      return Object.fromEntries(
        Object.entries(schema.properties ?? {}).map(([field, one]) => [
          field,
          valueFor({ ...below, within: name, field }, one, schemas),
        ]),
      )
    case "array": {
      const { items, prefixItems } = schema
      if (prefixItems !== undefined) return prefixItems.map(one => valueFor(below, one, schemas))
      // An array that must be empty says so of its items; below a few levels nobody reads on.
      if (items === undefined || items.not !== undefined || place.depth > 4) return []
      const item = valueFor(below, items, schemas)
      return item === undefined ? [] : [item]
    }
    case "string":
      return textFor(place, schema)
    case "integer":
    case "number":
      return numberFor(place, schema)
    case "boolean":
      return false
    case "null":
      return null
    default:
      return undefined
  }
}

/** A value of a schema. `schemas` are the named ones that it refers to; undefined where it has none. */
export const exampleFor = (schema: Json, schemas: Record<string, Json>): unknown =>
  valueFor({ field: "", depth: 0 }, schema, schemas)

/** The same for the `d` of a message, by its key in the document (`client.IDENTIFY`). */
export const exampleOf = (key: string, d: Json, schemas: Record<string, Json>): unknown =>
  key in chosen ? chosen[key] : exampleFor(d, schemas)
