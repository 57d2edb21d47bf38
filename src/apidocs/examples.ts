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

const session = "b7c1f0e29d4a4c6f8e3512ab90cd47ef"
const token = "41771983423143938.Zm9yIHJlYWRlcnMgb25seTogbm8gcmVhbCBzZWNyZXQ"

const id = "41771983423143937"
const otherId = "41771983423143939"
/** A place in a log, as large as they are. */
export const exampleSequence = 373_000_000_000_123

/** Whole `d`s where a client sends less than it may, or where fields belong together. */
const chosen: Record<string, unknown> = {
  "client.HEARTBEAT": exampleSequence,
  "client.IDENTIFY": { token, intents: 32_509, properties: { os: "linux", browser: "example", device: "" } },
  "client.RESUME": { token, session_id: session, seq: exampleSequence },
  "client.REQUEST_GUILD_MEMBERS": { guild_id: id, query: "ad", limit: 10, nonce: "1f9c0b" },
  "client.VOICE_DISCONNECT": null,
  "client.VOICE_SDP_OFFER": { channel_id: id, sdp: "v=0\r\n…", type: "offer", target_user_id: otherId },
  "client.VOICE_SDP_ANSWER": { channel_id: id, sdp: "v=0\r\n…", type: "answer", target_user_id: otherId },
  "client.VOICE_ICE_CANDIDATE": {
    channel_id: id,
    candidate: "candidate:1 1 udp 2122260223 192.0.2.1 54321 typ host",
    sdp_mid: "0",
    sdp_mline_index: 0,
    target_user_id: otherId,
  },
  "client.VOICE_SPEAKING": { channel_id: id, speaking: true },
  "server.HELLO": { heartbeat_interval: 45_000 },
  "server.SERVER_STATUS": {
    state: "maintenance",
    message: "Back in ten minutes",
    estimated_downtime_seconds: 600,
    closing_in_seconds: 2,
  },
  "event.SECURITY_LOGOUT": { user_id: id, message: "Security logout" },
}

/** What fields of these names hold where their type is text. */
const texts: Record<string, string> = {
  username: "ada",
  author_username: "ada",
  nickname: "Ada",
  nick: "Ada",
  name: "general",
  content: "Hello!",
  message: "Hello!",
  topic: "Anything goes",
  nonce: "1f9c0b",
  custom_status: "Away for tea",
  custom_emoji: "☕",
  thumbhash: "3OcRJYB4d3h/iIeHeEh3eIhw+j3A",
  waveform: "AFr/Aw==",
  color: "#5865F2",
  code: "aB3dE5fG",
  invite_code: "aB3dE5fG",
  query: "ad",
  session_id: session,
  token,
  resume_gateway_url: "wss://chat.example/gateway",
  endpoint: "https://media.example/?roomId=voice_41771983423143937",
  url: "https://chat.example/files/41771983423143937",
  author_avatar_url: "/api/v1/avatars/41771983423143937",
  avatar_url: "/api/v1/avatars/41771983423143937",
  urls: "stun:stun.example:3478",
  emoji: "👍",
  candidate: "candidate:1 1 udp 2122260223 192.0.2.1 54321 typ host",
  sdp: "v=0\r\n",
  sdp_mid: "0",
  sdpMid: "0",
  quality_level: "good",
  badges: "early",
  author_badges: "early",
  roles: "41771983423143937",
}
const numbers: Record<string, number> = {
  heartbeat_interval: 45_000,
  bitrate: 64_000,
  target_bitrate: 64_000,
  member_count: 3,
  chunk_count: 1,
  closing_in_seconds: 2,
  estimated_downtime_seconds: 60,
}
const seconds = 1_767_225_600

function resolved(schema: Schema, schemas: Record<string, Json>): Schema {
  if (schema.$ref === undefined) return schema
  return resolved(schemas[schema.$ref.split("/").at(-1)!] as Schema, schemas)
}

function numberFor(name: string, { minimum, exclusiveMinimum, type }: Schema): number {
  const known = numbers[name]
  if (known !== undefined) return known
  if (name.endsWith("_at")) return seconds
  return minimum ?? (exclusiveMinimum === undefined ? 0 : exclusiveMinimum + (type === "integer" ? 1 : 0.5))
}

function textFor(name: string, { minLength = 0, maxLength = Infinity }: Schema): string {
  return (texts[name] ?? "text").slice(0, maxLength).padEnd(minLength, "x")
}

/** A value that the schema takes: the first alternative, one item per array, every field. */
function valueFor(name: string, given: Schema, schemas: Record<string, Json>, depth: number): unknown {
  const schema = resolved(given, schemas)
  if (schema.const !== undefined) return schema.const
  if (schema.examples !== undefined) return schema.examples[0]
  if (schema.default !== undefined) return schema.default
  if (schema.enum !== undefined) return schema.enum[0]
  const alternatives = schema.anyOf ?? schema.oneOf
  if (alternatives !== undefined) return valueFor(name, alternatives[0]!, schemas, depth)
  if (schema.allOf !== undefined)
    return Object.assign({}, ...schema.allOf.map(one => valueFor(name, one, schemas, depth))) as unknown
  switch ([schema.type].flat()[0]) {
    case "object":
      return Object.fromEntries(
        Object.entries(schema.properties ?? {}).map(([key, one]) => [key, valueFor(key, one, schemas, depth + 1)]),
      )
    case "array": {
      const { items, prefixItems } = schema
      if (prefixItems !== undefined) return prefixItems.map(one => valueFor(name, one, schemas, depth + 1))
      // An array that must be empty says so of its items; below a few levels nobody reads on.
      if (items === undefined || items.not !== undefined || depth > 4) return []
      const item = valueFor(name, items, schemas, depth + 1)
      return item === undefined ? [] : [item]
    }
    case "string":
      return textFor(name, schema)
    case "integer":
    case "number":
      return numberFor(name, schema)
    case "boolean":
      return false
    case "null":
      return null
    default:
      return undefined
  }
}

/**
 * An example for the `d` of a message, by its key in the document (`client.IDENTIFY`); undefined
 * where there is no `d`. `schemas` are the named ones that `d` refers to.
 */
export const exampleOf = (key: string, d: Json, schemas: Record<string, Json>): unknown =>
  key in chosen ? chosen[key] : valueFor("", d, schemas, 0)
