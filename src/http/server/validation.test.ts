import { expect, test } from "vitest"
import { RegisterInput } from "../../contract/accounts/auth.ts"
import { Failure } from "../../contract/core/errors.ts"
import { getInvite } from "../../contract/communities/invites.ts"
import { getMessage, PageQuery } from "../../contract/messages/messages.ts"
import { failureReply } from "./failures.ts"
import { isId } from "../../domain/core/snowflake.ts"
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

test("every problem is listed, the message is about the first, and no value is repeated", () => {
  const body = JSON.stringify({ username: 5, password: 7, age: "hunter2" })
  const { status, body: told } = refusal(() => readBody(body, RegisterInput, false, 32))
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
  const { body } = refusal(() => readBody('{"password":"hunter2"', RegisterInput, false, 32))
  expect(body).toEqual({
    detail: [{ loc: ["body", 21], msg: "JSON decode error", type: "json_invalid" }],
    error: { code: 422, message: "Invalid 21: JSON decode error" },
  })
})

test("a missing body is a missing field, unless the route can do without", () => {
  expect(refusal(() => readBody(undefined, RegisterInput, false, 32)).body).toMatchObject({
    detail: [{ loc: ["body"], type: "missing" }],
  })
  expect(readBody(undefined, PageQuery, true, 32)).toEqual({})
  expect(readBody("null", PageQuery, true, 32)).toEqual({})
  expect(refusal(() => readBody("null", PageQuery, false, 32)).status).toBe(422)
})

test("keys of objects' prototypes are just keys", () => {
  const value = readBody('{"__proto__":{"limit":"1"},"constructor":1,"before":"7"}', PageQuery, false, 32) as Record<
    string,
    unknown
  >
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
