import { z } from "zod"
import { openInMaintenance, routes } from "../contract/contract.ts"
import { automodRuleTypes } from "../contract/communities/automod.ts"
import { type ErrorCode, errors } from "../contract/core/errors.ts"
import { exampleFor } from "./examples.ts"
import { Components, type Json, type Ref } from "./json-schema.ts"
import { defaultRateLimits, labelOf, limits, type RateLimit, type RateLimits } from "../contract/core/limits.ts"
import { type Auth, isForUsers, type Needed, type Route } from "../contract/core/registry.ts"

interface Parameter {
  name: string
  in: "path" | "query" | "header"
  required: boolean
  description?: string
  schema: Json
}
interface Response {
  description: string
  headers?: Record<string, Ref>
  /** Absent: it has no body. */
  content?: Record<string, MediaType>
}
interface MediaType {
  schema?: Json
  example?: unknown
  examples?: Record<string, { value: unknown } | Ref>
}
interface Operation {
  operationId: string
  summary: string
  description?: string
  tags: string[]
  security: Record<string, string[]>[]
  parameters?: Parameter[]
  requestBody?: { required: boolean; content: Record<string, MediaType> }
  responses: Record<string, Response | Ref>
  "x-ratelimit"?: RateLimit
  /** What the caller needs in the server: `owner`, `member`, or any of these permissions. */
  "x-permission"?: Needed
}
export interface OpenApiDocument {
  openapi: "3.1.0"
  info: { title: string; version: string; description: string }
  servers: { url: string; description: string }[]
  tags: { name: string }[]
  paths: Record<string, Record<string, Operation>>
  components: {
    schemas: Record<string, Json>
    responses: Record<string, Response>
    headers: Record<string, { description: string; schema: Json }>
    /** Of replies, by what they illustrate: many routes answer with the same. */
    examples: Record<string, { value: unknown }>
    securitySchemes: Record<string, Json>
  }
  "x-ratelimit": Record<string, RateLimit>
}

// What a refusal looks like on the wire. Every body may carry more keys than are named here.

const ErrorDetail = z
  .object({
    code: z.int().describe("The HTTP status"),
    message: z.string(),
    retry_after: z.number().optional().describe("Seconds"),
  })
  .meta({ id: "ErrorDetail" })

const ErrorResponse = z.object({ error: ErrorDetail }).meta({ id: "ErrorResponse" })

const VersionErrorDetail = z
  .object({
    code: z.enum(["VERSION_OUTDATED", "INVALID_VERSION_FORMAT"]),
    message: z.string(),
    client_version: z.string().nullable(),
    min_version: z.string().nullish(),
    server_version: z.string().nullish(),
    update_url: z.string().nullish(),
  })
  .meta({ id: "VersionErrorDetail" })

const VersionErrorResponse = z.object({ error: VersionErrorDetail }).meta({ id: "VersionErrorResponse" })

const BlockedMessageDetail = z
  .object({
    code: z.literal("MESSAGE_BLOCKED"),
    message: z.string(),
    violations: z.array(z.enum(automodRuleTypes)).describe("The types of the rules that the message breaks"),
  })
  .meta({ id: "BlockedMessageDetail" })

const BlockedMessageResponse = z.object({ error: BlockedMessageDetail }).meta({ id: "BlockedMessageResponse" })

const ValidationError = z
  .object({
    loc: z
      .array(z.union([z.string(), z.int()]))
      .describe("The location: `body`, `query` or `path`, then keys and indexes"),
    msg: z.string(),
    type: z.string(),
  })
  .meta({ id: "ValidationError" })

const HTTPValidationError = z
  .object({ detail: z.array(ValidationError), error: ErrorDetail })
  .meta({ id: "HTTPValidationError" })

const RateLimitResponse = z
  .object({
    message: z.string(),
    retry_after: z.number().describe("Seconds"),
    global: z.boolean().describe("Whether the bucket for all requests of the caller is empty"),
    scope: z.string().describe("The bucket that is empty: global, user, ip, route, resource or webhook"),
    error: ErrorDetail,
  })
  .meta({ id: "RateLimitResponse" })

const errorSchemas = [
  ErrorResponse,
  VersionErrorResponse,
  BlockedMessageResponse,
  HTTPValidationError,
  RateLimitResponse,
]

const names = (schema: z.ZodType): Ref => ({ $ref: `#/components/schemas/${schema.meta()?.id}` })

const rateLimitHeaders = {
  "X-RateLimit-Limit": { description: "Capacity of the bucket: requests plus burst", schema: { type: "integer" } },
  "X-RateLimit-Remaining": { description: "Remaining requests", schema: { type: "integer" } },
  "X-RateLimit-Reset": {
    description: "When the bucket accepts a request again, as Unix time in seconds with milliseconds",
    schema: { type: "number" },
  },
  "X-RateLimit-Reset-After": {
    description: "Seconds until the bucket accepts a request again, with milliseconds",
    schema: { type: "number" },
  },
  "X-RateLimit-Bucket": { description: "The name of the bucket", schema: { type: "string" } },
  "X-RateLimit-Scope": {
    description: "What the bucket counts requests by",
    schema: { type: "string", enum: ["global", "user", "ip", "route", "resource", "webhook", "bypass"] },
  },
}
const headers = {
  ...rateLimitHeaders,
  "X-RateLimit-Global": {
    description: "`true` if the bucket for all requests of the caller is empty",
    schema: { type: "string", const: "true" },
  },
  "Retry-After": { description: "Seconds to wait, as an integer", schema: { type: "integer" } },
  Location: { description: "Where the content is", schema: { type: "string" } },
  "Content-Range": { description: "`bytes <first>-<last>/<size of all>`", schema: { type: "string" } },
  "X-Next-Cursor": {
    description: "The `cursor` of the next page. The last page has none",
    schema: { type: "string" },
  },
  ETag: { description: "Identifies the version of the content", schema: { type: "string" } },
  "Accept-Ranges": { description: "Range requests are supported", schema: { type: "string", const: "bytes" } },
  "Content-Disposition": {
    description: "Whether to show it (`inline`) or to save it (`attachment`), and the file name",
    schema: { type: "string" },
  },
  "Cache-Control": { description: "How long the response may be cached", schema: { type: "string" } },
}
const headerRefs = (headerNames: string[]) =>
  Object.fromEntries(headerNames.map(name => [name, { $ref: `#/components/headers/${name}` }]))
const countedHeaders = headerRefs(Object.keys(rateLimitHeaders))

const isCounted = (route: Route) => route.limit !== "none"
const hasInput = (route: Route) => [route.params, route.query, route.body].some(schema => schema !== undefined)

/** Only in the operator area. */
const isOfOperators = ({ mount, auth }: Route) => mount === "operators" && auth !== "administrator"

const tokenCodes: ErrorCode[] = [
  "authentication_required",
  "invalid_token",
  "revoked_token",
  "expired_token",
  "unknown_token_type",
  "multiple_authorization",
]
const gateCodes: ErrorCode[] = ["access_token_required", "invalid_access_token"]
const barCodes: ErrorCode[] = ["account_suspended", "account_deleted"]

/** What may refuse a request beside the route itself, in groups that share a status. */
const shared: Record<string, { when: (route: Route) => boolean; codes: ErrorCode[] }> = {
  UnreadableBody: { when: () => true, codes: ["bad_request", "repeated_header", "unsafe_text"] },
  Unauthorized: { when: route => isForUsers(route) && !route.isGated, codes: tokenCodes },
  OperatorUnauthorized: {
    when: route => route.auth === "operator",
    codes: ["invalid_token", "operator_session_ended"],
  },
  UnauthorizedOrGated: {
    when: route => isForUsers(route) && route.isGated,
    codes: [...tokenCodes, ...gateCodes],
  },
  Gated: { when: route => !isForUsers(route) && route.isGated, codes: gateCodes },
  RequestTimeout: { when: route => route.body !== undefined, codes: ["request_timeout"] },
  PayloadTooLarge: { when: route => route.body !== undefined && !route.form?.file, codes: ["payload_too_large"] },
  ValidationFailed: { when: hasInput, codes: ["validation_failed"] },
  RateLimited: { when: route => isCounted(route) && !isForUsers(route), codes: ["rate_limited"] },
  RateLimitedCaller: {
    when: route => isCounted(route) && isForUsers(route),
    codes: ["rate_limited", "too_many_failed_tokens"],
  },
  Unavailable: { when: route => openInMaintenance.has(route), codes: ["unavailable"] },
  UnavailableOrMaintenance: { when: route => !openInMaintenance.has(route), codes: ["unavailable", "maintenance"] },
  AddressBlocked: { when: route => !isForUsers(route) && !isOfOperators(route), codes: ["address_blocked"] },
  AddressBlockedOrNotAllowed: { when: isOfOperators, codes: ["address_blocked", "access_denied"] },
  AccountBarred: {
    when: route => isForUsers(route) && route.isForRenaming,
    codes: ["address_blocked", ...barCodes],
  },
  AccountBarredOrToRename: {
    when: route => (route.auth === "user" || route.auth === "signed") && !route.isForRenaming,
    codes: ["address_blocked", ...barCodes, "username_change_required"],
  },
  PeopleOnly: {
    when: route => route.auth === "person" && !route.isForRenaming,
    codes: ["address_blocked", ...barCodes, "username_change_required", "people_only"],
  },
  PeopleOnlyAndToRename: {
    when: route => route.auth === "person" && route.isForRenaming,
    codes: ["people_only"],
  },
  AdministratorsOnly: {
    when: route => route.auth === "administrator",
    codes: ["address_blocked", ...barCodes, "username_change_required", "administrator_only", "access_denied"],
  },
}
const sharedResponses = Object.fromEntries(
  Object.entries(shared).map(([name, { codes }]) => [name, refusal(codes)]),
) as Record<string, Response>

/** The body of a refusal: which schema, and what it looks like. */
function bodyOf(code: ErrorCode): { schema: z.ZodType; value: unknown } {
  const { status, message } = errors[code]
  const error = { code: status, message }
  switch (code) {
    case "validation_failed":
      return {
        schema: HTTPValidationError,
        value: {
          detail: [{ loc: ["body", "content"], msg: "Field required", type: "missing" }],
          error: { code: status, message: "Invalid content: Field required" },
        },
      }
    case "rate_limited": {
      const retry = { message, retry_after: 1.25 }
      return {
        schema: RateLimitResponse,
        value: { ...retry, global: false, scope: "resource", error: { code: status, ...retry } },
      }
    }
    case "version_outdated":
      return {
        schema: VersionErrorResponse,
        value: {
          error: {
            code: "VERSION_OUTDATED",
            message,
            client_version: "a.1.0-12",
            min_version: "a.1.0-49",
            server_version: "a.1.0-49",
            update_url: null,
          },
        },
      }
    case "invalid_version_format":
      return {
        schema: VersionErrorResponse,
        value: { error: { code: "INVALID_VERSION_FORMAT", message, client_version: "1.0" } },
      }
    case "message_blocked":
      return {
        schema: BlockedMessageResponse,
        value: { error: { code: "MESSAGE_BLOCKED", message, violations: ["keyword"] } },
      }
    case "slowmode":
      return { schema: ErrorResponse, value: { error: { ...error, retry_after: 5 } } }
    default:
      return { schema: ErrorResponse, value: { error } }
  }
}

/** One answer for all the codes that share a status. */
function refusal(codes: readonly ErrorCode[]): Response {
  const bodies = codes.map(bodyOf)
  const schemas = [...new Set(bodies.map(body => body.schema))].map(names)
  const limited = codes.includes("rate_limited")
  const waits = codes.some(code => errors[code].status === 429 || errors[code].status === 503)
  return {
    description:
      codes.length === 1
        ? `${errors[codes[0]!].message} (\`${codes[0]}\`)`
        : `One of\n\n${codes.map(code => `- ${errors[code].message} (\`${code}\`)`).join("\n")}`,
    ...((limited || waits || codes.includes("range_not_satisfiable")) && {
      headers: {
        ...(limited && { ...countedHeaders, ...headerRefs(["X-RateLimit-Global"]) }),
        ...(waits && headerRefs(["Retry-After"])),
        ...(codes.includes("range_not_satisfiable") && headerRefs(["Content-Range"])),
      },
    }),
    content: {
      "application/json": {
        schema: schemas.length === 1 ? schemas[0]! : { anyOf: schemas },
        examples: Object.fromEntries(codes.map((code, i) => [code, { value: bodies[i]!.value }])),
      },
    },
  }
}

/** What goes with content that has a version and is read in parts. */
const contentHeaders = ["ETag", "Accept-Ranges", "Content-Disposition", "Cache-Control"]
const partial = (types: readonly string[]): [string, Response][] => [
  [
    "206",
    {
      description: "The requested range",
      headers: { ...countedHeaders, ...headerRefs(["Content-Range", ...contentHeaders]) },
      content: Object.fromEntries(types.map(type => [type, {}])),
    },
  ],
  [
    "307",
    {
      description:
        "An object store has these bytes, at an address that holds for a minute. Send `Range`, not `Authorization`",
      headers: { ...countedHeaders, ...headerRefs(["Location"]) },
    },
  ],
  [
    "304",
    {
      description: "The version in `If-None-Match` is current",
      headers: { ...countedHeaders, ...headerRefs(contentHeaders) },
    },
  ],
]

function byStatus(codes: readonly ErrorCode[]): Map<number, ErrorCode[]> {
  const groups = new Map<number, ErrorCode[]>()
  for (const code of new Set(codes)) {
    const { status } = errors[code]
    groups.set(status, [...(groups.get(status) ?? []), code])
  }
  return groups
}

function refusals(route: Route): [string, Response | Ref][] {
  const ofRoute = Object.values(shared).flatMap(({ when, codes }) => (when(route) ? codes : []))
  return [...byStatus([...route.fails, ...ofRoute])].map(([status, codes]) => {
    const name = Object.keys(shared).find(name => shared[name]!.codes.join() === codes.join())
    return [String(status), name === undefined ? refusal(codes) : { $ref: `#/components/responses/${name}` }]
  })
}

function parameters(components: Components, schema: z.ZodObject | undefined, place: "path" | "query"): Parameter[] {
  if (schema === undefined) return []
  const { properties, required = [] } = components.add(schema, "input") as {
    properties: Record<string, Json & { description?: string }>
    required?: string[]
  }
  return Object.entries(properties).map(([name, { description, ...schema }]) => ({
    name,
    in: place,
    required: place === "path" || required.includes(name),
    ...(description !== undefined && { description }),
    schema,
  }))
}

const auditReason: Parameter = {
  name: "X-Audit-Log-Reason",
  in: "header",
  required: false,
  description: `The reason, for the server's audit log: percent-encoded UTF-8 of at most ${limits.banReason} characters`,
  schema: { type: "string" },
}
const idempotencyKey: Parameter = {
  name: "Idempotency-Key",
  in: "header",
  required: false,
  description:
    "A request that repeats the key returns the first message, at any time. If the body has a nonce, the nonce is used instead",
  schema: { type: "string", minLength: 1, maxLength: limits.nonceCharacters, pattern: "^[\\x20-\\x7e]+$" },
}
const partHeaders: Parameter[] = (
  [
    [
      "Range",
      "`bytes=<first>-<last>`, `bytes=<first>-` or `bytes=-<how many>`: one part; anything else is answered whole",
    ],
    ["If-Range", "The part is wanted of this version only: of another the whole comes"],
    ["If-None-Match", "`ETag` of what the caller has, or several with commas: what is still so is not sent again"],
  ] as const
).map(([name, description]) => ({ name, in: "header", required: false, description, schema: { type: "string" } }))
/** They take the header `Idempotency-Key`. */
export const makesMessages: ReadonlySet<string> = new Set(["createMessage", "executeWebhook"])

const scopeWords: Record<RateLimit["scope"], string> = {
  route: "caller on this route",
  resource: "caller and resource",
  user: "user",
  ip: "address",
  webhook: "webhook",
}

function limitSentence({ requests, seconds, burst, scope, caps = [] }: RateLimit): string {
  const inTheLongRun = caps.map(cap => `, ${cap.requests} in ${cap.seconds} s`).join("")
  return `At most ${requests} requests in ${seconds} s${burst > 0 ? ` and ${burst} in a burst` : ""}${inTheLongRun} per ${scopeWords[scope]}`
}

const code = (text: string) => `\`${text}\``

function neededSentence(needed: Needed): string {
  if (needed === "owner") return "For the owner of the server"
  if (needed === "member") return "For members of the server"
  return `For members of the server with ${needed.map(code).join(" or ")}`
}

const callers: Record<Auth, string> = {
  public: "Open to anybody, without a token",
  optional: "Open to anybody; a token says who asks",
  user: "For users and bots",
  person: "For users, not for bots",
  administrator: "For users with the permission `administrator`, and for operators",
  signed: "For anybody with a signed link, and for users and bots",
  operator: "For operators, from an address that may reach their area",
}

function openToSentences({ auth, permission, openTo }: Route): string[] {
  const sentences = [...(permission ? [neededSentence(permission)] : []), ...(openTo ? [`Open to: ${openTo}`] : [])]
  return sentences.length > 0 ? sentences : [callers[auth]]
}

/** The route's own refusals. Those that all routes of a kind share stand with its responses. */
function refusedSentence({ fails }: Route): string[] {
  const groups = [...byStatus(fails)].toSorted(([a], [b]) => a - b)
  return groups.length === 0
    ? []
    : [`Refused with ${groups.map(([status, codes]) => `${status} (${codes.map(code).join(", ")})`).join(", ")}`]
}

/** What it does in one line, and all about it: what it does, who may call it, how often, and what is refused. */
function wordsOf(route: Route, limit: RateLimit | undefined): { summary: string; description: string } {
  const end = route.summary.indexOf(". ")
  return {
    summary: end < 0 ? route.summary : route.summary.slice(0, end),
    description: [
      `${route.summary}.`,
      [...openToSentences(route), ...(limit ? [limitSentence(limit)] : []), ...refusedSentence(route)]
        .map(sentence => `${sentence}.`)
        .join(" "),
    ].join("\n\n"),
  }
}

/** A body as clients send it. Of a form, a word stands for the file. */
function requestBody(components: Components, { body, form, bodyOptional, example }: Route): Operation["requestBody"] {
  if (body === undefined) return undefined
  const shown = form?.file ? { ...(example as object), [form.file.name]: "(bytes)" } : example
  return {
    required: !bodyOptional,
    content: {
      [form ? "multipart/form-data" : "application/json"]: { schema: components.add(body, "input"), example: shown },
    },
  }
}

/**
 * Where the server asks for API access tokens, one goes with every request of a gated route: a word
 * to people, not a scheme of each.
 */
function securityOf({ auth }: Route): Record<string, string[]>[] {
  if (auth === "public") return []
  if (auth === "person") return [{ bearer: [] }]
  if (auth === "operator") return [{ operator: [] }]
  if (auth === "administrator") return [{ bearer: [] }, { bot: [] }, { operator: [] }]
  return [{ bearer: [] }, { bot: [] }, ...(auth === "signed" || auth === "optional" ? [{}] : [])]
}

/** A reply with an example that is made from its fields, once for all routes that answer the same. */
function jsonReply(components: Components, operationId: string, reply: z.ZodType): MediaType {
  const schema = components.add(reply, "output")
  const value = exampleFor(schema, components.schemas)
  if (value === undefined) return { schema }
  const { $ref, items } = schema as { $ref?: string; items?: { $ref?: string } }
  const list = items?.$ref && `${items.$ref.split("/").at(-1)}List`
  const name = $ref?.split("/").at(-1) ?? list ?? operationId.replace(/AtRoot$/, "")
  components.examples[name] ??= { value }
  return { schema, examples: { reply: { $ref: `#/components/examples/${name}` } } }
}

function operation(components: Components, operationId: string, route: Route, limit: RateLimit | undefined): Operation {
  const counted = isCounted(route)
  const given = [
    ...parameters(components, route.params, "path"),
    ...parameters(components, route.query, "query"),
    ...(route.isAudited ? [auditReason] : []),
    ...(route.takesRanges ? partHeaders : []),
    ...(makesMessages.has(operationId) ? [idempotencyKey] : []),
  ]
  return {
    operationId,
    ...wordsOf(route, limit),
    tags: [route.tag],
    security: securityOf(route),
    ...(given.length > 0 && { parameters: given }),
    ...(route.body !== undefined && { requestBody: requestBody(components, route)! }),
    responses: Object.fromEntries([
      [
        route.isEmpty ? "204" : "200",
        {
          description: "Done",
          ...((counted || route.takesRanges || route.hasNextCursor) && {
            headers: {
              ...(counted && countedHeaders),
              ...(route.takesRanges && headerRefs(contentHeaders)),
              ...(route.hasNextCursor && headerRefs(["X-Next-Cursor"])),
            },
          }),
          ...(!route.isEmpty && {
            content: route.produces
              ? Object.fromEntries(route.produces.map(type => [type, {}]))
              : { "application/json": jsonReply(components, operationId, route.reply) },
          }),
        },
      ],
      ...(route.takesRanges ? partial(route.produces ?? []) : []),
      ...refusals(route),
    ]) as Record<string, Response | Ref>,
    ...(limit && { "x-ratelimit": limit }),
    ...(route.permission && { "x-permission": route.permission }),
  }
}

const descriptionWith = ({
  common,
}: RateLimits) => `JSON over HTTP. Ids are 64-bit integers as decimal strings. Times are Unix seconds. Unknown keys are ignored. \`null\` for an optional key means "not given".

Users send \`Authorization: Bearer <token>\`, bots send \`Authorization: Bot <token>\`.

A server may also require an API access token in the header \`X-API-Access-Token\`; \`GET /api/v1/capabilities\` tells whether it does. Routes that do not require it do not list its errors.

Every error response has the body \`{"error": {"code": <HTTP status>, "message": <text>}}\`. Some have more fields.

These limits apply to every counted request, in addition to the limit of its route. The \`X-RateLimit-*\` headers describe the limit that refused the request, else the limit of the route, else the last of these.

${Object.entries(common)
  .map(([name, limit]) => `- ${name}: ${limitSentence(limit).toLowerCase()}`)
  .join("\n")}

The server sends events over the WebSocket gateway, which has [its own description](/docs/gateway).`

/** Every place at which the route is served, with the operation id it has there. */
const places = (name: string, { path, mount }: Route) => [
  ...(mount === "root" ? [] : [{ path: `/api/v1${path}`, operationId: name }]),
  ...(mount === "api" || mount === "operators"
    ? []
    : [{ path, operationId: mount === "both" ? `${name}AtRoot` : name }]),
]

interface AboutServer {
  title: string
  publicUrl?: string
  version: string
  limits?: RateLimits
}

/**
 * The OpenAPI 3.1 description of the REST interface. `version` is the wire version; `publicUrl`,
 * without a slash at its end, is listed as a second server beside the host that the document came
 * from.
 */
export function openapiDocument(about: AboutServer): OpenApiDocument {
  const steps = openapiInSteps(about)
  for (;;) {
    const { done, value } = steps.next()
    if (done) return value
  }
}

/** The same with a pause after each route, so that other work has its turn. */
export function* openapiInSteps(about: AboutServer): Generator<void, OpenApiDocument> {
  const { limits = defaultRateLimits } = about
  const components = new Components()
  for (const schema of errorSchemas) components.add(schema, "output")

  const paths: OpenApiDocument["paths"] = {}
  const tags = new Set<string>()
  for (const [name, route] of Object.entries<Route>(routes)) {
    tags.add(route.tag)
    for (const { path, operationId } of places(name, route)) {
      const item = (paths[path.replaceAll(/:(\w+)/g, "{$1}")] ??= {})
      item[route.method.toLowerCase()] = operation(components, operationId, route, limits.routes.get(labelOf(route)))
    }
    yield
  }

  return {
    openapi: "3.1.0",
    info: { title: about.title, version: about.version, description: descriptionWith(limits) },
    servers: [
      { url: "/", description: "The host that this document came from" },
      ...(about.publicUrl === undefined ? [] : [{ url: about.publicUrl, description: "The public address" }]),
    ],
    tags: [...tags].map(name => ({ name })),
    paths,
    components: {
      schemas: Object.fromEntries(Object.entries(components.schemas).sort(([a], [b]) => (a < b ? -1 : 1))),
      responses: sharedResponses,
      headers,
      examples: Object.fromEntries(Object.entries(components.examples).sort(([a], [b]) => (a < b ? -1 : 1))),
      securitySchemes: {
        bearer: { type: "http", scheme: "bearer", description: "The token of a session, from login or registration" },
        bot: { type: "apiKey", in: "header", name: "Authorization", description: "`Bot <token>`" },
        operator: {
          type: "http",
          scheme: "bearer",
          description: "The token of an operator's session, which is no user's",
        },
      },
    },
    "x-ratelimit": { ...limits.common },
  }
}
