import type { z } from "zod"
import { gatewayPath } from "../contract/pages.ts"
import { clientFrames, events, serverFrames } from "../contract/contract.ts"
import { exampleOf, exampleSequence } from "./examples.ts"
import { closeCodes, opcodes, unusedCloseCodes, type ClientOp, type OpName } from "../contract/core/gateway-codes.ts"
import { allIntents, bitOf, defaultIntents, type Intent, intents, largestIntents } from "../contract/core/intents.ts"
import { Components, type Json, type Ref } from "./json-schema.ts"
import type { Delivery, EventDefinition } from "../contract/core/registry.ts"

/** `d` of a frame whose payload stands under it, and what a reader needs to know beside. */
export interface AsyncApiMessage {
  name: string
  title: string
  summary: string
  contentType: "application/json"
  tags: { name: string }[]
  payload: Json
  examples: { name: string; payload: unknown }[]
  "x-op": number
  "x-before-identify"?: boolean
  /** Which limiter of client frames counts it. */
  "x-counts"?: "frames" | "signals" | "nothing"
  /** The bit that lets it through, in servers and outside them; null: it is always sent. */
  "x-intent"?: { server: Intent | null; dm: Intent | null } | null
  "x-delivery"?: Delivery
}
interface Operation {
  action: "send" | "receive"
  channel: Ref
  title: string
  summary: string
  messages: Ref[]
  reply?: { channel: Ref; messages: Ref[] }
}
interface Server {
  host: string
  protocol: "ws" | "wss"
  description: string
  variables?: Record<string, { default: string; description: string }>
}
interface CloseCode {
  name: string
  code: number
  reason: string
  resume: boolean
  summary: string
}
export interface AsyncApiDocument {
  asyncapi: "3.0.0"
  info: { title: string; version: string; description: string }
  defaultContentType: "application/json"
  servers: Record<string, Server>
  channels: { gateway: Json & { address: string; messages: Record<string, Ref> } }
  operations: Record<string, Operation>
  components: { schemas: Record<string, Json>; messages: Record<string, AsyncApiMessage> }
  "x-close-codes": CloseCode[]
  "x-unused-close-codes": { code: number; reason: string }[]
  "x-intents": {
    bits: { name: Intent; bit: number; value: number; events: string[] }[]
    default: number
    all: number
    largest: number
  }
}

const description = `Events of the service, sent over one WebSocket as they happen.

The document takes the client's view: an operation with the action \`send\` is sent by the client, one with \`receive\` is received by the client.

Every frame is one object \`{op, d}\`. A dispatch (op 0) is \`{op, t, s, d}\`. With \`encoding=json\`, the default, the server sends text frames; with \`encoding=msgpack\` it sends binary frames with the same objects. Ids are 64-bit integers as decimal strings. Times are Unix seconds. Fields, events and opcodes may be added: ignore unknown ones.

A *stored* event is committed together with the change that causes it, and is sent again after a RESUME with a lower \`s\`. An *ephemeral* event is sent at most once. An event has the same data for every recipient.

A message named \`client.…\` is sent by clients, \`server.…\` by the server, and \`event.…\` is a dispatch. \`x-intent\` is the intent that an event requires, \`x-close-codes\` lists the close codes, and \`x-intents\` the values of the intents.`

/** What clients know as the answer to a frame. */
const answers: Partial<Record<OpName, readonly string[]>> = {
  HEARTBEAT: ["server.HEARTBEAT_ACK"],
  IDENTIFY: ["event.READY"],
  RESUME: ["event.RESUMED", "server.INVALID_SESSION"],
  REQUEST_GUILD_MEMBERS: ["event.GUILD_MEMBERS_CHUNK"],
}

const camel = (name: string) =>
  name.toLowerCase().replace(/(?:^|_)([a-z])/g, (_, letter: string) => letter.toUpperCase())

/** A frame around its `d`. A frame may come without `d` where its schema takes nothing. */
function envelope(op: number, d: Json, schema: z.ZodType, more: Record<string, Json> = {}): Json {
  return {
    type: "object",
    required: ["op", ...Object.keys(more), ...(schema.safeParse(undefined).success ? [] : ["d"])],
    properties: { op: { const: op }, ...more, d },
  }
}

function frame(components: Components, name: OpName, from: "client" | "server"): AsyncApiMessage {
  const { op, summary, beforeIdentify, counts } = opcodes[name]
  const schema: z.ZodType = (from === "client" ? clientFrames : serverFrames)[
    name as ClientOp & keyof typeof serverFrames
  ]
  const d = components.add(schema, from === "client" ? "input" : "output")
  const example = exampleOf(`${from}.${name}`, d, components.schemas)
  return {
    name,
    title: `${name} (op ${op})`,
    summary,
    contentType: "application/json",
    tags: [{ name: from }],
    payload: envelope(op, d, schema),
    examples: [{ name, payload: { op, ...(example !== undefined && { d: example }) } }],
    "x-op": op,
    ...(from === "client" && { "x-before-identify": beforeIdentify, "x-counts": counts }),
  }
}

function dispatch(components: Components, { name, summary, data, intent, delivery }: EventDefinition): AsyncApiMessage {
  const { op } = opcodes.DISPATCH
  const d = components.add(data, "output")
  return {
    name,
    title: name,
    summary,
    contentType: "application/json",
    tags: [{ name: "event" }],
    payload: envelope(op, d, data, { t: { const: name }, s: { type: "integer", minimum: 0 } }),
    examples: [
      {
        name,
        payload: { op, t: name, s: exampleSequence, d: exampleOf(`event.${name}`, d, components.schemas) ?? {} },
      },
    ],
    "x-op": op,
    "x-intent": intent && { server: intent.server, dm: intent.dm },
    "x-delivery": delivery,
  }
}

const sentBy = (from: "client" | "server") =>
  (Object.keys(from === "client" ? clientFrames : serverFrames) as OpName[]).sort(
    (a, b) => opcodes[a].op - opcodes[b].op,
  )

interface AboutGateway {
  title: string
  /** The wire version. */
  version: string
  /** That of REST, without a slash at its end, where an operator has given it. */
  publicUrl?: string
  /** Where it listens otherwise, as this machine knows it. */
  host?: string
}

/** The servers of the document. */
function serversAt({ publicUrl, host = "127.0.0.1:8000" }: AboutGateway): Record<string, Server> {
  if (publicUrl !== undefined) {
    const { host, protocol } = new URL(publicUrl)
    return { public: { host, protocol: protocol === "https:" ? "wss" : "ws", description: "The public address" } }
  }
  return {
    here: {
      host: "{host}",
      protocol: "ws",
      description: "The host that this document came from",
      variables: { host: { default: host, description: "Host name or IP address, and port" } },
    },
  }
}

/** The AsyncAPI 3.0 description of the gateway. */
export function asyncapiDocument(about: AboutGateway): AsyncApiDocument {
  const components = new Components()
  const messages: Record<string, AsyncApiMessage> = Object.fromEntries([
    ...sentBy("client").map(name => [`client.${name}`, frame(components, name, "client")]),
    ...sentBy("server").map(name => [`server.${name}`, frame(components, name, "server")]),
    ...Object.values<EventDefinition>(events).map(event => [`event.${event.name}`, dispatch(components, event)]),
  ]) as Record<string, AsyncApiMessage>

  const channel = { $ref: "#/channels/gateway" }
  const inChannel = (key: string): Ref => ({ $ref: `#/channels/gateway/messages/${key}` })
  const operations: Record<string, Operation> = {}
  for (const name of sentBy("client")) {
    const replies = (answers[name] ?? []).filter(key => messages[key] !== undefined).map(inChannel)
    operations[`send${camel(name)}`] = {
      action: "send",
      channel,
      title: name,
      summary: opcodes[name].summary,
      messages: [inChannel(`client.${name}`)],
      ...(replies.length > 0 && { reply: { channel, messages: replies } }),
    }
  }
  for (const name of sentBy("server")) {
    operations[`receive${camel(name)}`] = {
      action: "receive",
      channel,
      title: name,
      summary: opcodes[name].summary,
      messages: [inChannel(`server.${name}`)],
    }
  }
  operations["receiveDispatch"] = {
    action: "receive",
    channel,
    title: "DISPATCH",
    summary: opcodes.DISPATCH.summary,
    messages: Object.keys(messages)
      .filter(key => key.startsWith("event."))
      .map(inChannel),
  }

  return {
    asyncapi: "3.0.0",
    info: { title: `${about.title} gateway`, version: about.version, description },
    defaultContentType: "application/json",
    servers: serversAt(about),
    channels: {
      gateway: {
        address: gatewayPath,
        title: "Gateway",
        description:
          "At the host's root, on the port of the REST interface. No header is needed: IDENTIFY carries the token.",
        messages: Object.fromEntries(Object.keys(messages).map(key => [key, { $ref: `#/components/messages/${key}` }])),
        bindings: {
          ws: {
            method: "GET",
            query: {
              type: "object",
              properties: {
                encoding: {
                  type: "string",
                  enum: ["json", "msgpack"],
                  default: "json",
                  description: "The encoding of the server's frames. The client may send either encoding at any time",
                },
              },
            },
            bindingVersion: "0.1.0",
          },
        },
      },
    },
    operations,
    components: {
      schemas: Object.fromEntries(Object.entries(components.schemas).sort(([a], [b]) => (a < b ? -1 : 1))),
      messages,
    },
    "x-close-codes": Object.entries(closeCodes).map(([name, code]) => ({ name, ...code })),
    "x-unused-close-codes": Object.entries(unusedCloseCodes).map(([code, reason]) => ({ code: Number(code), reason })),
    "x-intents": {
      bits: (Object.keys(intents) as Intent[]).map(name => ({
        name,
        bit: intents[name],
        value: bitOf(name),
        events: Object.values<EventDefinition>(events)
          .filter(({ intent }) => intent?.server === name || intent?.dm === name)
          .map(event => event.name),
      })),
      default: defaultIntents,
      all: allIntents,
      largest: largestIntents,
    },
  }
}
