import { createRequire } from "node:module"
import { Ajv } from "ajv"
import addFormats from "ajv-formats"
import { expect, test } from "vitest"
import { asyncapiDocument, type AsyncApiMessage } from "./asyncapi.ts"
import { unknownText } from "./examples.ts"
import { clientFrames, events, serverFrames } from "../contract/contract.ts"
import { closeCodes, opcodes, unusedCloseCodes, type OpName } from "../contract/core/gateway-codes.ts"
import { allIntents, defaultIntents, intents } from "../contract/core/intents.ts"
import type { EventDefinition } from "../contract/core/registry.ts"

const document = asyncapiDocument({ title: "Starling", publicUrl: "https://chat.example", version: "a.1.0-49" })
const messages = Object.entries(document.components.messages)

type Node = Record<string, unknown>

/** Every object in the document with the place at which it stands. */
function* nodes(value: unknown, place = "#"): Generator<[string, Node]> {
  if (typeof value !== "object" || value === null) return
  if (!Array.isArray(value)) yield [place, value as Node]
  for (const [key, child] of Object.entries(value)) yield* nodes(child, `${place}/${key}`)
}

const resolve = (ref: string) =>
  ref
    .replace(/^#\//, "")
    .split("/")
    .reduce<unknown>((at, step) => (at as Node | undefined)?.[step], document)

const require = createRequire(import.meta.url)
const official = require("@asyncapi/specs/schemas/3.0.0-without-$id.json") as object

test("the document is valid AsyncAPI 3.0, by the schema that its makers publish", () => {
  const ajv = new Ajv({ strict: false, allErrors: true })
  addFormats.default(ajv)
  const validate = ajv.compile(official)
  expect(validate(structuredClone(document)) ? [] : validate.errors).toEqual([])
  expect(validate({ ...document, channels: { gateway: { address: 5 } } })).toBe(false)
})

test("every opcode is a message in its direction and has an operation; who may not send it does not", () => {
  for (const [name, { op, from }] of Object.entries(opcodes)) {
    if (name === "DISPATCH") continue
    const found = messages.filter(([key, message]) => !key.startsWith("event.") && message["x-op"] === op)
    const directions = { client: ["client"], server: ["server"], both: ["client", "server"], nobody: [] }[from]
    expect(
      found.map(([key]) => key),
      name,
    ).toEqual(directions.map(direction => `${direction}.${name}`))
    for (const [key] of found) {
      const action = key.startsWith("client.") ? "send" : "receive"
      const operations = Object.values(document.operations).filter(({ messages }) =>
        messages.some(({ $ref }) => $ref.endsWith(`/${key}`)),
      )
      expect(operations.map(operation => operation.action)).toEqual([action])
    }
  }
})

test("every event is a message of the dispatch with its intent and its delivery", () => {
  const dispatched = document.operations["receiveDispatch"]!.messages.map(({ $ref }) => $ref.split("/").at(-1))
  expect(dispatched).toEqual(Object.keys(events).map(name => `event.${name}`))
  for (const { name, intent, delivery } of Object.values<EventDefinition>(events)) {
    const message = document.components.messages[`event.${name}`]!
    expect(message).toMatchObject({ name, "x-op": 0, "x-intent": intent, "x-delivery": delivery })
    expect(message.payload).toMatchObject({
      required: ["op", "t", "s", "d"],
      properties: { op: { const: 0 }, t: { const: name } },
    })
  }
})

test("close codes and intents stand in the document as in their tables", () => {
  expect(document["x-close-codes"].map(({ name }) => name)).toEqual(Object.keys(closeCodes))
  expect(document["x-unused-close-codes"].map(({ code }) => String(code))).toEqual(Object.keys(unusedCloseCodes))
  const { bits, all } = document["x-intents"]
  expect(bits.map(({ name, bit }) => [name, bit])).toEqual(Object.entries(intents))
  expect(bits.reduce((mask, { value }) => mask | value, 0)).toBe(all)
  expect(all).toBe(allIntents)
  expect(document["x-intents"].default).toBe(defaultIntents)
})

test("every reference leads somewhere, and every message has a summary that is a sentence", () => {
  const refs = [...nodes(document)].flatMap(([place, node]) =>
    typeof node.$ref === "string" ? [[place, node.$ref]] : [],
  )
  expect(refs.length).toBeGreaterThan(100)
  for (const [place, ref] of refs) expect(resolve(ref!), `${place} → ${ref}`).toBeDefined()
  for (const [key, { summary }] of messages) expect(summary, key).toMatch(/^[A-Z`].{5,}[^.]$/)
})

test("every id is a string", () => {
  const ids = [...nodes(document.components)].flatMap(([place, node]) =>
    Object.entries((node.properties ?? {}) as Record<string, Node>)
      .filter(([name]) => name === "id" || name.endsWith("_id"))
      .map(([name, schema]) => ({ place, name, schema })),
  )
  expect(ids.length).toBeGreaterThan(30)
  for (const { place, name, schema } of ids) {
    const alternatives = ((schema.anyOf ?? [schema]) as Node[])
      .map(one => ("$ref" in one ? (resolve(one.$ref as string) as Node) : one))
      .filter(one => one.type !== "null")
    expect(
      alternatives.map(({ type }) => type),
      `${place} ${name}`,
    ).toContain("string")
  }
})

const schemaOf = (key: string) => {
  const [kind, name] = key.split(".") as ["client" | "server" | "event", OpName]
  if (kind === "event") return (events as Record<string, EventDefinition>)[name]!.data
  return (kind === "client" ? clientFrames : serverFrames)[name as never] as EventDefinition["data"]
}

test.each(messages)("the example of %s is one", (key, { examples }: AsyncApiMessage) => {
  const { d } = examples[0]!.payload as { d?: unknown }
  expect(JSON.stringify(d) ?? "", "say what the field holds, in src/contract/core/examples.ts").not.toContain(
    `"${unknownText}"`,
  )
  expect(schemaOf(key).safeParse(d)).toMatchObject({ success: true })
})
