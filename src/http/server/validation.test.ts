import fc from "fast-check"
import { expect, test, vi } from "vitest"
import { z } from "zod"
import { RegisterInput } from "../../contract/accounts/auth.ts"
import { Failure } from "../../contract/core/errors.ts"
import { SnowflakeInput } from "../../contract/core/fields.ts"
import { RoleInput } from "../../contract/communities/roles.ts"
import { getInvite } from "../../contract/communities/invites.ts"
import { getMessage, PageQuery } from "../../contract/messages/messages.ts"
import { failureReply } from "./failures.ts"
import { isId } from "../../domain/core/snowflake.ts"
import { valuesIn } from "../../contract/messages/embeds.ts"
import { measureJson } from "./json-text.ts"
import { pathParameters, readBody, readParams, readQuery } from "./validation.ts"

function refusal(work: () => unknown) {
  try {
    work()
  } catch (error) {
    if (error instanceof Failure) return failureReply(error, "r")
    throw error
  }
  throw new Error("nothing was refused")
}

const bounds = (optional: boolean) => ({ optional, maxDepth: 32, maxValues: 10_000 })

test("every problem is listed, the message is about the first, and no value is repeated", () => {
  const body = JSON.stringify({ username: 5, password: 7, age: "hunter2" })
  const { status, body: told } = refusal(() => readBody(body, RegisterInput, bounds(false)))
  expect(status).toBe(422)
  expect(told).toEqual({
    detail: [
      { loc: ["body", "username"], msg: expect.any(String), type: "string_type" },
      { loc: ["body", "email"], msg: "Field required", type: "missing" },
      { loc: ["body", "password"], msg: expect.any(String), type: "string_type" },
      { loc: ["body", "age"], msg: expect.any(String), type: expect.any(String) },
    ],
    error: { code: 422, message: expect.stringMatching(/^Invalid username: /) },
  })
  expect(JSON.stringify(told)).not.toContain("hunter2")
})

test("malformed JSON names the place, and quotes nothing", () => {
  const { body } = refusal(() => readBody('{"password":"hunter2"', RegisterInput, bounds(false)))
  expect(body).toEqual({
    detail: [{ loc: ["body", 21], msg: "JSON decode error", type: "json_invalid" }],
    error: { code: 422, message: "Invalid 21: JSON decode error" },
  })
})

test("a missing body is a missing field, unless the route can do without", () => {
  expect(refusal(() => readBody(undefined, RegisterInput, bounds(false))).body).toMatchObject({
    detail: [{ loc: ["body"], type: "missing" }],
  })
  expect(readBody(undefined, PageQuery, bounds(true))).toEqual({})
  expect(readBody("null", PageQuery, bounds(true))).toEqual({})
  expect(refusal(() => readBody("null", PageQuery, bounds(false))).status).toBe(422)
})

test("keys of objects' prototypes are just keys", () => {
  const value = readBody(
    '{"__proto__":{"limit":"1"},"constructor":1,"before":"7"}',
    PageQuery,
    bounds(false),
  ) as Record<string, unknown>
  expect(value).toEqual({ before: "7" })
  expect(Object.getPrototypeOf(value)).toBe(Object.prototype)
})

test("ids in paths", () => {
  const parameters = pathParameters(getMessage)
  const read = (...given: string[]) => readParams(parameters, given, undefined)
  expect(read("9223372036854775807", "%34%32")).toEqual({ channel_id: "9223372036854775807", message_id: "42" })
  const messageOf = (...given: string[]) => refusal(() => read(...given)).body
  expect(messageOf("abc", "1")).toEqual({ error: { code: 400, message: "Invalid channel ID" } })
  for (const bad of [
    "",
    "-1",
    "01",
    "1.5",
    "1e3",
    "9223372036854775808",
    "99999999999999999999",
    "%",
    "%00",
    "%2534",
    "１",
  ])
    expect(messageOf("1", bad)).toEqual({ error: { code: 400, message: "Invalid message ID" } })
  expect(isId("0")).toBe(true)
})

test("other parameters are decoded once and may be any text that can be kept", () => {
  const parameters = pathParameters(getInvite)
  expect(readParams(parameters, ["a%2Fb%2525"], undefined)).toEqual({ invite_code: "a/b%25" })
  expect(refusal(() => readParams(parameters, ["a%00"], undefined)).body).toMatchObject({
    error: { code: 400, message: expect.stringContaining("U+0000") },
  })
  expect(refusal(() => readParams(parameters, ["%ff"], undefined)).body).toMatchObject({
    error: { code: 400, message: "Bad request" },
  })
})

test("of a repeated query key the last counts; unknown keys are ignored", () => {
  expect(readQuery("limit=5&x=%00&limit=7&before=12", PageQuery)).toEqual({ limit: 7, before: "12" })
  expect(readQuery("", PageQuery)).toEqual({})
  expect(refusal(() => readQuery("limit=0", PageQuery)).body).toMatchObject({ detail: [{ loc: ["query", "limit"] }] })
  expect(refusal(() => readQuery("before=x", PageQuery)).status).toBe(422)
  expect(refusal(() => readQuery("before=%00", PageQuery)).status).toBe(400)
})

test("of many problems twenty are told and the others counted; keys that a client chooses are counted before they are looked at", () => {
  const keys = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`k${i}`, "no boolean"]))
  const patch = (permissions: object) => () => readBody(JSON.stringify({ permissions }), RoleInput, bounds(false))
  const some = refusal(patch(keys(64))).body as { detail: unknown[]; error: object }
  expect([some.detail.length, some.error]).toEqual([20, expect.objectContaining({ further_issues: 44 })])
  const many = refusal(patch(keys(65))).body as { detail: unknown[]; error: object }
  expect(many.detail).toEqual([{ loc: ["body", "permissions"], msg: "must have at most 64 keys", type: "custom" }])
  expect(many.error).not.toHaveProperty("further_issues")
  expect(refusal(patch(keys(10_000))).body).toMatchObject({ detail: [{ loc: ["body"], type: "too_big" }] })
})

test("nothing is made of a large body that is too deep or has too many keys and items", () => {
  const worst = [
    ["too_deep", "[".repeat(100_000) + "]".repeat(100_000)],
    ["too_deep", '{"a":'.repeat(40_000)],
    ["too_big", `[${"{},".repeat(60_000)}{}]`],
    ["too_big", `{${Array.from({ length: 20_000 }, (_, i) => `"k${i}":1`).join(",")}}`],
    ["too_big", `[${"[[]],".repeat(6_000)}[]]`],
  ] as const
  const parse = vi.spyOn(JSON, "parse")
  try {
    for (const [type, text] of worst)
      expect(refusal(() => readBody(text, RoleInput, bounds(false))).body).toMatchObject({ detail: [{ type }] })
    expect(parse).not.toHaveBeenCalled()
  } finally {
    parse.mockRestore()
  }
})

test("what is measured of a text is never more than what is in it", () => {
  fc.assert(
    fc.property(fc.json({ maxDepth: 5 }), fc.boolean(), (text, isIndented) => {
      const value: unknown = JSON.parse(text)
      const source = JSON.stringify(value, null, isIndented ? 2 : 0)
      const { isTooDeep, values } = measureJson(source, { maxDepth: 32, maxValues: 10_000 })
      expect(isTooDeep).toBe(false)
      expect(values).toBeLessThanOrEqual(valuesIn(value))
      const texts = ["[,{", String.raw`"[[`, "\\"]
      const quoted = measureJson(JSON.stringify(texts), { maxDepth: 1, maxValues: 10 })
      expect(quoted).toEqual({ isTooDeep: false, values: 3 })
    }),
  )
})

test("a body of 250 KB of nothing but mistakes is refused soon and with few words", () => {
  const worst = [
    { permissions: Object.fromEntries(Array.from({ length: 20_000 }, (_, i) => [`k${i}`, 1])) },
    { messages: Array.from({ length: 80_000 }, () => 1) },
    { messages: Array.from({ length: 9_000 }, () => 1.5) },
  ]
  for (const body of worst) {
    const text = JSON.stringify(body)
    const schema = "permissions" in body ? RoleInput : z.object({ messages: z.array(SnowflakeInput).max(100) })
    // Of the processor, and the least of three: what else the machine does is no matter.
    const tookMs = [1, 2, 3].map(() => {
      const before = process.cpuUsage()
      const { body: told } = refusal(() => readBody(text, schema, bounds(false)))
      const { user, system } = process.cpuUsage(before)
      expect(JSON.stringify(told).length).toBeLessThan(4_000)
      return (user + system) / 1_000
    })
    expect(Math.min(...tookMs)).toBeLessThan(250)
  }
})
