import { isId } from "../../domain/core/snowflake.ts"
import { hash } from "node:crypto"
import type { z } from "zod"
import { fail, type ErrorCode, type Failure, type ValidationIssue } from "../../contract/core/errors.ts"
import { Snowflake } from "../../contract/core/fields.ts"
import type { RateLimit } from "../../contract/core/limits.ts"
import type { Route } from "../../contract/core/registry.ts"
import { valuesIn } from "../../contract/messages/embeds.ts"
import {
  holdsUnsafeText,
  isDeeper,
  isUnsafe,
  jsonErrorOffset,
  mayBeUnsafe,
  measureJson,
  opensDeeper,
} from "./json-text.ts"

/** Turns what a request says into what its route declares, or into the refusal. */

const idErrors: Record<string, ErrorCode> = {
  session_id: "invalid_session_id",
  passkey_id: "invalid_passkey_id",
  user_id: "invalid_user_id",
  server_id: "invalid_server_id",
  channel_id: "invalid_channel_id",
  message_id: "invalid_message_id",
  notification_id: "invalid_notification_id",
  subscription_id: "invalid_subscription_id",
  webhook_id: "invalid_webhook_id",
  poll_id: "invalid_poll_id",
  emoji_id: "invalid_emoji_id",
}

/**
 * In longer text the place of a mistake is not looked for: it would take milliseconds that others
 * wait.
 */
const maxSearchedCharacters = 16_384

/**
 * Longer text is measured before it is parsed. Shorter text cannot hold enough to take
 * long.
 */
export const largeBodyCharacters = 16_384

/** Problems that one refusal tells: a small body may have a hundred thousand. */
const maxIssues = 20

/**
 * A parameter of a path, with the refusal of a value that is no snowflake; absent where its schema
 * asks for none.
 */
export interface PathParameter {
  readonly name: string
  readonly invalid: ErrorCode | undefined
}
export const pathParameters = ({ path, params }: Pick<Route, "path" | "params">): PathParameter[] =>
  [...path.matchAll(/:([a-z_]+)/g)].map(([, name]) => ({
    name: name!,
    invalid: params?.shape[name!] === Snowflake ? (idErrors[name!] ?? "invalid_id") : undefined,
  }))

export function readParams(
  parameters: readonly PathParameter[],
  given: readonly string[],
  schema: z.ZodType | undefined,
): Record<string, string> {
  const params: Record<string, string> = {}
  let free = false
  for (let i = 0; i < parameters.length; i++) {
    const { name, invalid } = parameters[i]!
    const value = decoded(given[i]!)
    if (value === undefined) throw fail(invalid ?? "bad_request")
    if (invalid === undefined) {
      if (isUnsafe(value)) throw fail("unsafe_text")
      free = true
    } else if (!isId(value)) throw fail(invalid)
    params[name] = value
  }
  if (free && schema) check("path", schema, params)
  return params
}

/**
 * The first id of a path, for the bucket of its resource. What is no id will be refused, but counts
 * until then.
 */
function firstId(given: readonly string[]): string {
  if (given.length === 0) return ""
  const first = decoded(given[0]!)
  return first !== undefined && isId(first) ? first : "invalid"
}

/**
 * The part of a bucket's name that says what it is about. At a webhook it also says with which
 * token, as a hash: a client that knows the id alone, which its messages show, must not use up what
 * the right token may send.
 */
export function resourceOf(scope: RateLimit["scope"], given: readonly string[]): string {
  if (scope !== "webhook") return firstId(given)
  const token = decoded(given[1] ?? "") ?? ""
  const secret = token.slice(token.lastIndexOf(".") + 1)
  return `${firstId(given)}:${hash("sha256", secret, "hex").slice(0, 16)}`
}

/** Without percent signs that stand for something; undefined where one stands for nothing. */
function decoded(raw: string): string | undefined {
  if (!raw.includes("%")) return raw
  try {
    return decodeURIComponent(raw)
  } catch {
    return undefined
  }
}

/** Keys that are not declared are left out; of a repeated key the last counts. */
export function readQuery(text: string, schema: z.ZodObject): unknown {
  const values: Record<string, string> = {}
  if (text !== "")
    for (const [key, value] of new URLSearchParams(text)) {
      if (!Object.hasOwn(schema.shape, key)) continue
      if (isUnsafe(value)) throw fail("unsafe_text")
      values[key] = value
    }
  return check("query", schema, values)
}

/** `text` is the body, valid UTF-8; undefined when there was none. */
export function readBody(
  text: string | undefined,
  schema: z.ZodType,
  {
    optional,
    maxDepth,
    maxValues,
  }: { readonly optional: boolean; readonly maxDepth: number; readonly maxValues: number },
): unknown {
  if (text === undefined) {
    if (optional) return check("body", schema, {})
    throw invalid([{ loc: ["body"], msg: "Field required", type: "missing" }])
  }
  if (text.length > largeBodyCharacters) {
    const { isTooDeep, values } = measureJson(text, { maxDepth, maxValues })
    if (isTooDeep) throw tooDeep(maxDepth)
    if (values > maxValues) throw tooMany(maxValues)
  }
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    if (opensDeeper(text, maxDepth)) throw tooDeep(maxDepth)
    const place = text.length > maxSearchedCharacters ? [] : [jsonErrorOffset(text)]
    throw invalid([{ loc: ["body", ...place], msg: "JSON decode error", type: "json_invalid" }])
  }
  if (isDeeper(value, maxDepth)) throw tooDeep(maxDepth)
  if (valuesIn(value, maxValues) > maxValues) throw tooMany(maxValues)
  if (mayBeUnsafe(text) && holdsUnsafeText(value)) throw fail("unsafe_text")
  return check("body", schema, value === null && optional ? {} : value)
}

const tooMany = (maxValues: number) =>
  invalid([{ loc: ["body"], msg: `must have at most ${maxValues} keys and items`, type: "too_big" }])
const tooDeep = (maxDepth: number) =>
  invalid([{ loc: ["body"], msg: `nested deeper than ${maxDepth} levels`, type: "too_deep" }])

export function check(part: "path" | "query" | "body", schema: z.ZodType, value: unknown): unknown {
  const result = schema.safeParse(value)
  if (result.success) return result.data
  const { issues } = result.error
  const told = issues.slice(0, maxIssues).map(issue => toIssue(part, issue, value))
  throw invalid(told, issues.length - told.length)
}

/**
 * The first problems, none with the value that caused it: it may be a password.
 * @param further problems that are not told
 */
export function invalid(issues: ValidationIssue[], further = 0): Failure {
  const first = issues[0]!
  return fail("validation_failed", {
    message: `Invalid ${first.loc.at(-1)}: ${first.msg}`,
    issues,
    ...(further > 0 && { extra: { further_issues: further } }),
  })
}

function toIssue(part: string, issue: z.core.$ZodIssue, value: unknown): ValidationIssue {
  const path = issue.path.map(step => (typeof step === "symbol" ? String(step) : step))
  const missing = isMissing(value, path)
  return {
    loc: [part, ...path],
    msg: missing ? "Field required" : issue.message,
    type: missing ? "missing" : issue.code === "invalid_type" ? `${issue.expected}_type` : issue.code,
  }
}

function isMissing(value: unknown, path: readonly (string | number)[]): boolean {
  if (path.length === 0) return false
  let parent = value
  for (const step of path.slice(0, -1)) {
    if (typeof parent !== "object" || parent === null) return false
    parent = (parent as Record<string | number, unknown>)[step]
  }
  return typeof parent === "object" && parent !== null && !Object.hasOwn(parent, path.at(-1)!)
}
