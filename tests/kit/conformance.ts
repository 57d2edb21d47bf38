/**
 * Holds every answer and every frame that a test receives against the contract. A breach is thrown where it is seen and
 * also kept: a test that expects a refusal must not swallow it.
 */
import { isDeepStrictEqual } from "node:util"
import { inject } from "vitest"
import { z } from "zod"
import type { ServerFrame } from "../../client/gateway.ts"
import { ApiError } from "../../client/rest.ts"
import { clientFrames, events, openInMaintenance, serverFrames, routes } from "../../src/contract/contract.ts"
import { automodRuleTypes } from "../../src/contract/communities/automod.ts"
import { errors, type ErrorCode } from "../../src/contract/core/errors.ts"
import { closeCodes, opcodes } from "../../src/contract/core/gateway-codes.ts"
import { allIntents, bitOf, defaultIntents } from "../../src/contract/core/intents.ts"
import { isForUsers, type EventDefinition, type Route } from "../../src/contract/core/registry.ts"
import { Sightings } from "./coverage.ts"

let sightings: Sightings | undefined
const seen = () => (sightings ??= new Sightings(inject("sightings")))

const breaches: string[] = []
/** What broke the contract since the last call. */
export const takeBreaches = (): string[] => breaches.splice(0)

export const noteBreaches = (found: readonly string[]): void => {
  breaches.push(...found)
}

function breach(what: string): never {
  breaches.push(what)
  throw new Error(what)
}

const nameOf = new Map<Route, string>(Object.entries<Route>(routes).map(([name, route]) => [route, name]))

/** Which refusal each body was. */
const codes = new WeakMap<object, ErrorCode>()

/** The code of the refusal that a call ends in; fails when it is granted. */
export async function refusal(call: Promise<unknown>): Promise<ErrorCode> {
  const outcome = await call.then(
    reply => new Error(`granted: ${JSON.stringify(reply)}`),
    (error: unknown) => error,
  )
  const code = outcome instanceof ApiError ? codes.get(outcome.body as object) : undefined
  if (code === undefined) throw outcome
  return code
}

/** What the client's `checkReplies` calls. @returns the refusal's code */
export function checkReply(route: Route, status: number, body: unknown): ErrorCode | undefined {
  const name = nameOf.get(route) ?? breach(`${route.method} ${route.path} is not in the contract`)
  if (status === (route.isEmpty ? 204 : 200)) {
    checkShape(`the reply of ${name}`, route.reply, body)
    seen().note("answers", name)
    return undefined
  }
  const code = codeOf(name, status, body, [...route.fails, ...sharedBy(route)])
  seen().note("fails", name, code)
  return code
}

/** A refusal of what is no route, or of a route that the test does not name. */
export const checkRefusal = (request: string, status: number, body: unknown): ErrorCode =>
  codeOf(request, status, body, Object.keys(errors) as ErrorCode[])

function checkShape(what: string, schema: z.ZodType, value: unknown): void {
  const parsed = schema.safeParse(value)
  if (!parsed.success) breach(`${what}: ${z.prettifyError(parsed.error)}\n${JSON.stringify(value)}`)
  // Objects lose what their schema does not name.
  if (!isDeepStrictEqual(parsed.data, value)) breach(`${what} holds undeclared keys: ${JSON.stringify(value)}`)
}

/** What may refuse a request beside its route's own `fails`. */
function sharedBy(route: Route): ErrorCode[] {
  const codes: ErrorCode[] = ["address_blocked", "bad_request", "repeated_header", "unsafe_text", "unavailable"]
  if (!openInMaintenance.has(route)) codes.push("maintenance")
  if (route.params || route.query || route.body) codes.push("validation_failed")
  if (route.body) codes.push("request_timeout")
  if (route.body && !route.form?.file) codes.push("payload_too_large")
  if (route.limit !== "none") codes.push("rate_limited")
  if (route.isGated) codes.push("access_token_required", "invalid_access_token")
  if (route.mount === "operators" || route.auth === "administrator" || route.auth === "signed")
    codes.push("access_denied")
  if (route.auth === "operator") codes.push("invalid_token", "operator_session_ended")
  if (isForUsers(route)) {
    codes.push(
      "authentication_required",
      "invalid_token",
      "revoked_token",
      "expired_token",
      "unknown_token_type",
      "multiple_authorization",
      "too_many_failed_tokens",
      "account_suspended",
      "account_deleted",
    )
    if (!route.isForRenaming) codes.push("username_change_required")
  }
  if (route.auth === "person") codes.push("people_only")
  if (route.auth === "administrator") codes.push("administrator_only")
  return codes
}

const Issue = z.strictObject({ loc: z.array(z.union([z.string(), z.int()])), msg: z.string(), type: z.string() })
const shapeOf = (code: ErrorCode) => {
  const { status } = errors[code]
  const error = z.looseObject({
    code:
      code === "version_outdated"
        ? z.literal("VERSION_OUTDATED")
        : code === "invalid_version_format"
          ? z.literal("INVALID_VERSION_FORMAT")
          : code === "message_blocked"
            ? z.literal("MESSAGE_BLOCKED")
            : z.literal(status),
    message: z.string().min(1),
    ...((status === 429 || status === 503) && { retry_after: z.number().nonnegative() }),
    ...(code === "message_blocked" && { violations: z.array(z.enum(automodRuleTypes)).min(1) }),
    ...(code === "maintenance" && { state: z.literal("maintenance") }),
  })
  if (code === "validation_failed") return z.strictObject({ detail: z.array(Issue).min(1), error })
  if (code === "rate_limited") {
    const facts = { retry_after: z.number().nonnegative(), global: z.boolean(), scope: z.string() }
    return z.strictObject({ message: z.string(), ...facts, error: error.extend(facts) })
  }
  return z.strictObject({ error })
}

/** Messages that say more than the table's. */
const elaborated: Partial<Record<ErrorCode, RegExp>> = {
  unsupported_format: /^Unsupported format: /,
  permission_denied: /^Missing (required permission: [a-z_.]+|emojis\.manage permission)$/,
  access_denied: /^Not a member of this server$/,
  file_over_limit: /^File size \d+ exceeds limit \d+$/,
  file_type_not_allowed: /^File type not allowed: [^]+$/,
  invalid_chunk_index: /^Invalid chunk index: -?\d+$/,
  wrong_chunk_size: /^(Wrong chunk size: \d+ bytes instead of \d+|File size \d+ exceeds limit \d+)$/,
  chunks_missing: /^Chunks are missing: \d+ of \d+$/,
  file_too_large: /^File too large\. Max size: \d+ ?(KB|MB)$/,
  invalid_automod_config: /^Invalid config[^]*: [^]+$/,
  invalid_automod_settings: /^Invalid ai\.[^]+: [^]+$/,
  invalid_automod_action: /^(Invalid actions[^]*|actions): [^]+$/,
  deletion_in_the_past: /^deletion_at must be at most 10 years ahead$/,
  invalid_access_token_value: /^(token|scope_mode|scope_type|value|expires_at) must [^]+$/,
  weak_password: /^Weak password: it needs /,
  operator_locked: /^Too many login attempts\. Try again in \d+ seconds\.$/,
  rate_limited: /^You are being rate limited\. Try again in \d+ s$/,
  setting_invalid: /^Invalid setting: [a-z ]+$/,
  setting_not_found: /^Setting '[^]+' not found$/,
  validation_failed: /^Invalid [^]+: [^]+/,
  invalid_push_subscription: /^Invalid push subscription: its [^]+/,
  oauth_provider_unsupported: /^Unsupported OAuth provider: [^]*$/,
  oauth_not_configured: /^OAuth not configured for [a-z]+$/,
  // Of administrators' routes, whatever is wrong with the token.
  authentication_required: /^Admin access required$/,
  // The operator's own words.
  maintenance: /^Maintenance: [^]+/,
}

function codeOf(request: string, status: number, body: unknown, allowed: readonly ErrorCode[]): ErrorCode {
  const message = (body as { error?: { message?: unknown } } | null)?.error?.message
  if (typeof message !== "string") return breach(`${request}: ${status} without a standard body: ${show(body)}`)
  const code = allowed.find(
    code => errors[code].status === status && (errors[code].message === message || elaborated[code]?.test(message)),
  )
  if (code === undefined || code === "internal")
    return breach(`${request} does not declare this refusal: ${status} ${show(body)}`)
  const { success, error } = shapeOf(code).safeParse(body)
  if (!success) return breach(`${request}: the body of ${code}: ${z.prettifyError(error)}\n${show(body)}`)
  seen().note("error", code)
  codes.set(body as object, code)
  return code
}

const show = (value: unknown) => (typeof value === "symbol" ? String(value) : JSON.stringify(value))

const commonHeaders = {
  "x-content-type-options": "nosniff",
  "x-xss-protection": "1; mode=block",
  "referrer-policy": "strict-origin-when-cross-origin",
  "x-permitted-cross-domain-policies": "none",
}
/** Pages are compressed for clients that take that; those of mailed links are in the reader's language. */
const varying = ["Origin", "Origin, Accept-Encoding", "Origin, Accept-Language, Accept-Encoding"]

/** What every answer carries. */
function checkHeaders(request: string, { status, headers }: Pick<Response, "status" | "headers">): void {
  for (const [name, value] of Object.entries(commonHeaders))
    if (headers.get(name) !== value) breach(`${request}: ${name} is ${headers.get(name)}`)
  if (!varying.includes(headers.get("vary") ?? "")) breach(`${request}: vary is ${headers.get("vary")}`)
  const framed = headers.get("x-frame-options")
  if (framed !== (request.includes("/api/v1/media/") ? null : "SAMEORIGIN"))
    breach(`${request}: x-frame-options is ${framed}`)
  if (!headers.get("x-request-id")) breach(`${request}: no x-request-id`)
  if ((status === 429 || status === 503) && !/^[1-9]\d*$/.test(headers.get("retry-after") ?? ""))
    breach(`${request}: ${status} with retry-after ${headers.get("retry-after")}`)
}

/** `fetch` whose answers are looked at. */
export const checkedFetch: typeof fetch = async (input, init) => {
  const response = await fetch(input, init)
  checkHeaders(`${init?.method ?? "GET"} ${input instanceof Request ? input.url : String(input)}`, response)
  return response
}

const opsFrom = (side: "client" | "server"): ReadonlyMap<unknown, string> =>
  new Map(
    Object.entries(opcodes)
      .filter(([, { from }]) => from === side || from === "both")
      .map(([name, { op }]) => [op, name]),
  )
const clientOps = opsFrom("client")
const serverOps = opsFrom("server")
const asked: Partial<Record<string, z.ZodType>> = clientFrames
const payloads: Partial<Record<string, z.ZodType>> = serverFrames

/** What an event holds where the version before may have told it, which knows less. */
const partOf = new Map<EventDefinition, z.ZodType>()
function partlyOf(event: EventDefinition): z.ZodType {
  const { data } = event
  let part = partOf.get(event)
  if (!part) partOf.set(event, (part = data instanceof z.ZodObject ? data.partial() : data))
  return part
}

/**
 * Looks at one client's frames: known opcodes, events as declared and within the intents, and `s` that never falls within a
 * session. `isMixed`: see `Place`.
 */
export function frameCheck(intents: number, isMixed = false): (frame: ServerFrame) => void {
  let last = 0
  return ({ op, t, s, d }) => {
    const name = serverOps.get(op) ?? breach(`the server sent op ${op}`)
    if (name !== "DISPATCH") {
      const payload = payloads[name]
      if (payload) checkShape(`d of ${name}`, payload, d)
      if (t !== undefined || s !== undefined) breach(`${name} carries t ${t} and s ${s}`)
      seen().note("hears", name)
      return
    }
    const event: EventDefinition = events[t as keyof typeof events] ?? breach(`${t} is not in the contract`)
    checkShape(`the event ${t}`, isMixed ? partlyOf(event) : event.data, d)
    if (!Number.isSafeInteger(s)) breach(`${t} has s ${s}`)
    if (event === events.READY) last = 0
    if (s! < last && event !== events.RESUMED) breach(`${t} has s ${s} after ${last}`)
    last = s!
    const { intent } = event
    if (intent && ![intent.server, intent.dm].some(one => one === null || (intents & bitOf(one)) !== 0))
      breach(`${t} came though its intent is not in ${intents}`)
    seen().note("event", event.name)
  }
}

/** Notes a frame that a client sends as the contract says. @returns whether it does */
function noteSent(frame: unknown): boolean {
  const { op, d } = (frame ?? {}) as { op?: unknown; d?: unknown }
  const name = clientOps.get(op)
  const isRight = name !== undefined && asked[name]?.safeParse(d).success === true
  if (isRight) seen().note("sends", name)
  return isRight
}

/** What the typed client makes by itself. Other frames a test may spoil on purpose. */
const ownOps: ReadonlySet<unknown> = new Set([opcodes.HEARTBEAT.op, opcodes.IDENTIFY.op, opcodes.RESUME.op])

/** Looks at what the typed client sends. */
export function checkSent(frame: unknown): void {
  const isRight = noteSent(frame)
  if (!isRight && ownOps.has((frame as { op?: unknown } | null)?.op))
    breaches.push(`the client sent ${JSON.stringify(frame)}`)
}

/** Notes how a connection ended; 1005 and 1006 are no codes of anybody's. */
export function noteClose(code: number, reason: string): void {
  const known = Object.entries(closeCodes).filter(([, one]) => one.code === code)
  const found = known.find(([, one]) => one.reason === reason)
  // A client's goodbye comes back with its own words.
  if (found) seen().note("closes", found[0])
  else if (code >= 4000 && code < 4900) breaches.push(`a connection was closed with ${code} "${reason}"`)
}

/** Looks at a conversation from outside: what a client without manners says, and what it hears. A breach is only kept. */
export function watchFrames(): {
  sent(frame: unknown): void
  received(frame: ServerFrame): void
  closed(code: number, reason: string): void
} {
  // Of a session that another connection began nobody knows the intents.
  let check = frameCheck(allIntents)
  return {
    sent(frame) {
      noteSent(frame)
      const { op, d } = (frame ?? {}) as { op?: unknown; d?: { intents?: unknown } }
      if (op !== opcodes.IDENTIFY.op) return
      const intents = d?.intents ?? defaultIntents
      if (typeof intents === "number") check = frameCheck(intents)
    },
    received(frame) {
      try {
        check(frame)
      } catch {
        // It stands among the breaches.
      }
    },
    closed: noteClose,
  }
}
