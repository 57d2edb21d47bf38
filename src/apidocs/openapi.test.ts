import { Validator } from "@seriousme/openapi-schema-validator"
import { Ajv2020 as Ajv } from "ajv/dist/2020.js"
import addFormats from "ajv-formats"
import { expect, test } from "vitest"
import { routes } from "../contract/contract.ts"
import { errors } from "../contract/core/errors.ts"
import { defaultRateLimits } from "../contract/core/limits.ts"
import { unknownText } from "./examples.ts"
import { openapiDocument } from "./openapi.ts"
import { isForUsers, type Route } from "../contract/core/registry.ts"

const document = openapiDocument({ title: "Starling", publicUrl: "https://chat.example", version: "a.1.0-49" })
const operations = Object.entries(document.paths).flatMap(([path, item]) =>
  Object.entries(item).map(([method, operation]) => ({ path, method, operation })),
)
const table = Object.entries<Route>(routes)

type Node = Record<string, unknown>

/** Every object in the document with the place at which it stands. */
function* nodes(value: unknown, place = "#"): Generator<[string, Node]> {
  if (typeof value !== "object" || value === null) return
  if (!Array.isArray(value)) yield [place, value as Node]
  for (const [key, child] of Object.entries(value)) yield* nodes(child, `${place}/${key}`)
}

function resolve(ref: string): unknown {
  const steps = ref.replace(/^#\//, "").split("/")
  return steps.reduce<unknown>((at, step) => (at as Node | undefined)?.[step], document)
}

const followed = (node: object) => ("$ref" in node ? resolve(node.$ref as string) : node) as Node

test("the document is valid OpenAPI 3.1", async () => {
  const validator = new Validator()
  const result = await validator.validate(structuredClone(document) as unknown as Record<string, unknown>)
  expect(result.errors).toBeUndefined()
  expect(result.valid).toBe(true)
  expect(validator.version).toBe("3.1")
})

test("every route stands in the document at each of its mounts, with its parameters declared", () => {
  for (const [name, route] of table) {
    const found = operations.filter(({ operation }) => operation.operationId.replace(/AtRoot$/, "") === name)
    expect(
      found.map(({ path }) => path.startsWith("/api/v1/")),
      name,
    ).toEqual({ api: [true], root: [false], both: [true, false], operators: [true] }[route.mount])
    for (const { path, method, operation } of found) {
      expect(method).toBe(route.method.toLowerCase())
      const inPath = (operation.parameters ?? []).filter(one => one.in === "path").map(one => one.name)
      expect(inPath, path).toEqual([...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name))
    }
  }
  expect(new Set(operations.map(({ operation }) => operation.operationId)).size).toBe(operations.length)
})

test("every reference leads somewhere", () => {
  const refs = [...nodes(document)].flatMap(([place, node]) =>
    typeof node.$ref === "string" ? [[place, node.$ref]] : [],
  )
  expect(refs.length).toBeGreaterThan(100)
  for (const [place, ref] of refs) expect(resolve(ref!), `${place} → ${ref}`).toBeDefined()
})

/** What may be null may be written as one of two types. */
const withoutNull = (type: unknown) =>
  Array.isArray(type) && type.length === 2 ? type.find(one => one !== "null") : type

test("every id is a string", () => {
  const isId = (name: string) => name === "id" || name.endsWith("_id")
  const ids = [...nodes(document)].flatMap(([place, node]) => [
    ...Object.entries((node.properties ?? {}) as Record<string, Node>).map(([name, schema]) => ({
      place,
      name,
      schema,
    })),
    ...(typeof node.in === "string" && node.schema
      ? [{ place, name: String(node.name), schema: node.schema as Node }]
      : []),
  ])
  const checked = ids.filter(({ name }) => isId(name))
  expect(checked.length).toBeGreaterThan(30)
  for (const { place, name, schema } of checked) {
    const alternatives = ((schema.anyOf ?? [schema]) as Node[])
      .map(followed)
      .filter(one => one.type !== "null")
      .map(one => ({ ...one, type: withoutNull(one.type) }))
    expect(alternatives, `${place} ${name}`).toEqual([expect.objectContaining({ type: "string" })])
  }
  expect(document.components.schemas.Snowflake).toMatchObject({ type: "string", pattern: expect.any(String) })
})

test("every declared failure is documented under its status with an example", () => {
  for (const [name, route] of table) {
    const { operation } = operations.find(({ operation }) => operation.operationId === name)!
    for (const code of route.fails) {
      const response = followed(operation.responses[errors[code].status]!) as { content: Record<string, Node> }
      expect(response.content["application/json"]!.examples, `${name} ${code}`).toHaveProperty(code)
    }
    expect(Object.keys(operation.responses).includes("401") || !isForUsers(route), name).toBe(true)
    expect(Object.keys(operation.responses).includes("429"), name).toBe(route.limit !== "none")
    expect(Object.keys(operation.responses).includes("422"), name).toBe(
      [route.params, route.query, route.body].some(schema => schema !== undefined),
    )
  }
})

test("what is sent as text but read as something else shows the bounds of what it is read as", () => {
  const parameters = document.paths["/api/v1/channels/{channel_id}/messages"]!.get!.parameters!
  expect(parameters.find(one => one.name === "limit")!.schema).toEqual({ type: "integer", minimum: 1, maximum: 100 })
  const { properties } = document.components.schemas.ChannelCreateRequest as { properties: Record<string, Node> }
  expect(properties.name).toEqual({ type: "string", minLength: 1, maxLength: 100 })
})

test("limits are those that hold on the server", () => {
  const limit = { requests: 7, seconds: 3, burst: 2, algorithm: "token", scope: "route" } as const
  const { paths, info } = openapiDocument({
    title: "Starling",
    version: "a.1.0-49",
    limits: {
      common: { ...defaultRateLimits.common, user: { ...limit, scope: "user" } },
      routes: new Map([["POST /auth/login", { ...limit, caps: [{ requests: 20, seconds: 3600 }] }]]),
    },
  })
  const login = paths["/api/v1/auth/login"]!["post"]!
  expect(login["x-ratelimit"]).toMatchObject(limit)
  expect(login.description).toContain(
    "At most 7 requests in 3 s and 2 in a burst, 20 in 3600 s per caller on this route.",
  )
  expect(info.description).toContain("- user: at most 7 requests in 3 s")
  expect(document.paths["/api/v1/auth/login"]!["post"]!["x-ratelimit"]).toMatchObject({ requests: 5, seconds: 60 })
})

test("every route says what it does, who may call it, and which of its own refusals there are", () => {
  for (const { operation } of operations) {
    const route = (routes as Record<string, Route>)[operation.operationId.replace(/AtRoot$/, "")]!
    const { summary, description } = operation
    expect(summary, operation.operationId).toMatch(/^[A-Z`][^\n]{5,}[^.]$/)
    expect(description, operation.operationId).toMatch(/^[A-Z`].*\.\n\n(?:Open to:?|For) .*\.$/)
    expect(description).toContain(route.summary)
    for (const code of route.fails) expect(description).toContain(`\`${code}\``)
  }
})

/** The schemas of the document, each of them closed where it does not say what more there may be. */
const closed = (() => {
  const copy = structuredClone(document)
  for (const [, node] of nodes(copy.components.schemas)) if (node.properties) node.additionalProperties ??= false
  const ajv = new Ajv({ strict: false, allErrors: true })
  addFormats.default(ajv)
  ajv.addFormat("base64", true)
  ajv.addSchema({ components: { schemas: copy.components.schemas } }, "document")
  const made = new Map<string, ReturnType<typeof ajv.compile>>()
  return (schema: object) => {
    const text = JSON.stringify(schema).replaceAll('"#/components', '"document#/components')
    const validate = made.get(text) ?? ajv.compile(JSON.parse(text) as object)
    made.set(text, validate)
    return validate
  }
})()

const unknownIn = (value: unknown): string[] =>
  Object.entries((value ?? {}) as Node).flatMap(([key, one]) =>
    one === unknownText ? [key] : typeof one === "object" ? unknownIn(one) : [],
  )

test("every body has an example that the route takes, and every reply one that it may be", () => {
  const counts = { bodies: 0, replies: 0 }
  for (const { operation } of operations) {
    const name = operation.operationId
    const route = (routes as Record<string, Route>)[name.replace(/AtRoot$/, "")]!
    for (const { schema, example } of Object.values(operation.requestBody?.content ?? {})) {
      counts.bodies++
      expect(example, `${name}: declare an example beside the body`).toBeDefined()
      const isRight = closed(schema!)
      expect(isRight(example) ? [] : isRight.errors, name).toEqual([])
      const file = route.form?.file && { [route.form.file.name]: { bytes: new Uint8Array() } }
      expect(route.body!.safeParse({ ...(example as object), ...file }), name).toMatchObject({ success: true })
      expect(unknownIn(example), name).toEqual([])
    }
    const json = Object.values(operation.responses).find(one => "description" in one && one.description === "Done")
    const { schema, examples } = (json as { content?: Record<string, Node> }).content?.["application/json"] ?? {}
    if (schema === undefined) continue
    counts.replies++
    const { value } = followed((examples as { reply: object }).reply)
    const isRight = closed(schema as object)
    expect(isRight(value) ? [] : isRight.errors, name).toEqual([])
    expect(route.reply.safeParse(value), name).toMatchObject({ success: true })
    expect(unknownIn(value), `${name}: say what the field holds, in src/contract/core/examples.ts`).toEqual([])
  }
  expect(counts.bodies).toBeGreaterThan(95)
  expect(counts.replies).toBeGreaterThan(200)
})

test("what a caller needs in a server stands with every route that is about one", () => {
  const needing = operations.filter(({ operation }) => operation["x-permission"] !== undefined)
  expect(needing.length).toBeGreaterThan(20)
  for (const { operation } of operations) {
    const needed = (routes as Record<string, Route>)[operation.operationId.replace(/AtRoot$/, "")]!.permission
    expect(operation["x-permission"], operation.operationId).toEqual(needed)
    for (const name of Array.isArray(needed) ? needed : []) expect(operation.description).toContain(name)
  }
})

test("content that is read in parts says so, and nothing else does", () => {
  for (const { path, operation } of operations)
    expect(
      ["206", "304"].map(status => status in operation.responses),
      path,
    ).toEqual(path === "/api/v1/media/attachments/{filename}" ? [true, true] : [false, false])
  const { parameters, responses } = document.paths["/api/v1/media/attachments/{filename}"]!["get"]!
  expect(parameters!.flatMap(one => (one.in === "header" ? [one.name] : []))).toEqual([
    "Range",
    "If-Range",
    "If-None-Match",
  ])
  for (const [status, more] of [
    ["200", []],
    ["206", ["Content-Range"]],
    ["304", []],
  ] as const)
    expect(Object.keys((responses[status] as { headers: object }).headers), status).toEqual(
      expect.arrayContaining(["ETag", "Accept-Ranges", "Content-Disposition", "Cache-Control", ...more]),
    )
  expect(Object.keys((responses["416"] as { headers: object }).headers)).toEqual(["Content-Range"])
})
