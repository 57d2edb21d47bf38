import { waitMs } from "./backoff.ts"
import type { Backoff } from "./backoff.ts"
import { Buckets } from "./buckets.ts"
import { addressOf, textOf } from "./network.ts"

/** A file of a form. What its sender says of it is a hint to people and decides nothing. */
export interface FormFile {
  readonly bytes: Uint8Array
  readonly filename?: string | undefined
  readonly type?: string | undefined
}

/** An answer that is not JSON. */
export interface Content {
  contentType: string
  body: Uint8Array<ArrayBuffer>
}

/** What a route is sent, and what it answers with. */
export interface Call<I = unknown, O = unknown> {
  readonly input: I
  readonly reply: O
}

/**
 * One route, as far as a request needs it. `parseRoute` makes it of a line of the table; a route of
 * the server's own contract is one, too.
 */
export interface Route {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE"
  /** Parameters are written `:name`. */
  readonly path: string
  /** `root`: not below `/api/v1`. */
  readonly mount: string
  readonly params?: unknown
  /** The names in its query; looked at where there is a body as well. */
  readonly query: { readonly shape: object } | undefined
  readonly body: unknown
  readonly form: unknown
  readonly bodyOptional: boolean
  /** Repeated with the same `Idempotency-Key` it does nothing twice. */
  readonly takesIdempotencyKey?: boolean
  /** Present: the answer is no JSON. */
  readonly produces: readonly string[] | undefined
  readonly reply?: unknown
  /** Never there: says the types of a route that has no schemas. */
  readonly call?: Call | undefined
}

type Sent<T> = T extends { readonly _zod: { readonly input: infer I } } ? I : unknown
type Received<T> = T extends { readonly _zod: { readonly output: infer O } } ? O : unknown

/** Parameters, query and body in one flat object. */
export type CallOf<R extends Route> = R extends { readonly call: Call<infer I> }
  ? I
  : Sent<R["params"]> & Sent<R["query"]> & Sent<R["body"]>
export type ReplyOf<R extends Route> = R extends { readonly call: Call<unknown, infer O> } ? O : Received<R["reply"]>

/** Routes of which only the types are known beside what `parseRoute` reads. */
export type Typed<T> = { readonly [K in keyof T]: Route & { readonly call: T[K] & Call } }

/** A refusal, or an answer that is no JSON. `retryAfterSeconds` is in seconds. */
export class ApiError extends Error {
  override readonly name = "ApiError"
  readonly status: number
  /** The body's `error.code`: the HTTP status, or a word such as `VERSION_OUTDATED`. */
  readonly code: number | string
  readonly retryAfterSeconds: number | undefined
  readonly body: unknown
  readonly requestId: string | undefined
  /** The server's own words, for a person. */
  readonly words: string

  constructor(request: string, response: Response, body: unknown) {
    const { code, message, reason, retry_after: retryAfterSeconds } = errorOf(body)
    const said = [message ?? response.statusText, ...issuesOf(body)].filter(Boolean).join("; ")
    const advice = adviceOn(response.status, message)
    super(`${request}: ${response.status} ${said}${reason ? ` (${reason})` : ""}${advice ? ` – ${advice}` : ""}`)
    this.words = [message ?? response.statusText, reason].filter(Boolean).join(": ")
    this.status = response.status
    this.code = code ?? response.status
    const header = Number(response.headers.get("retry-after") ?? NaN)
    this.retryAfterSeconds = retryAfterSeconds ?? (Number.isFinite(header) ? header : undefined)
    this.body = body
    this.requestId = response.headers.get("x-request-id") ?? undefined
  }
}

interface ErrorFields {
  code?: number | string
  message?: string
  /** Why the server cannot serve now. */
  reason?: string
  retry_after?: number
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null

const errorOf = (body: unknown): ErrorFields => (isObject(body) && isObject(body["error"]) ? body["error"] : {})

/** What else is wrong with which field: the message of a refusal has the first. */
function issuesOf(body: unknown): string[] {
  if (!isObject(body) || !Array.isArray(body["detail"])) return []
  const [, ...others] = body["detail"] as { loc?: unknown[]; msg?: unknown }[]
  return others.map(({ loc = [], msg }) => `${loc.join(".")}: ${String(msg)}`)
}

/** What a program, or who runs it, can do about a refusal. `words` of it are the server's alone. */
function adviceOn(status: number, message: string | undefined): string | undefined {
  if (message === undefined)
    return status === 502 || status === 503 || status === 504
      ? undefined
      : "is baseUrl the address of a Starling server?"
  if (status === 401) return adviceOnToken[message]
  if (status !== 403) return undefined
  if (message.startsWith("Missing required permission")) return "a role can grant it, and an override in its channel"
  return message === "Access denied"
    ? "is the account a member of that server, and may it view the channel?"
    : undefined
}
const newToken =
  "is the token whole, and of this server? A bot gets a new one with resetBotToken, or in the page at /app under settings, Bots"
const adviceOnToken: Partial<Record<string, string>> = {
  "Missing authentication token": "give createClient a token",
  "Invalid token": newToken,
  "Invalid/Revoked": newToken,
  "Unknown type": newToken,
  Expired: "sign in again",
}

export interface RetryPolicy extends Backoff {
  /** Tries in all, the first one included. */
  readonly attempts: number
  /**
   * The longest wait of the server's that is waited out, such as `Retry-After`. Beyond it the refusal
   * is thrown at once: slow mode can last hours. Default: 60 s.
   */
  readonly maxWaitMs?: number
}

export const defaultRetry: RetryPolicy = { attempts: 6, firstMs: 200, maxMs: 10_000, jitter: 1 }
const defaultMaxWaitMs = 60_000

/** What the server asks to wait at least, and whether the policy waits that long. */
export function floorOf(failure: unknown, { maxWaitMs = defaultMaxWaitMs }: RetryPolicy) {
  const floorMs = failure instanceof ApiError ? (failure.retryAfterSeconds ?? 0) * 1_000 : 0
  return { floorMs, isTooLong: floorMs > maxWaitMs }
}

export interface ClientOptions {
  /** The server's origin, such as `https://chat.example`. */
  baseUrl: string
  /** Of a session or of a bot. */
  token?: string | undefined
  fetch?: typeof fetch
  headers?: Record<string, string>
  /**
   * Wait and try again after 429, 502, 503, 504 and a lost connection. After 429 always; otherwise
   * only where a repeat is harmless: GET, PUT, DELETE, and whatever carries a nonce or an
   * idempotency key, which a new message is given. A request to a bucket that the server has called
   * empty waits for it. Nothing waits longer than `maxWaitMs`. Off unless asked for.
   */
  retry?: RetryPolicy | boolean
  /**
   * Sees every reply with its parsed body, refusals too. The tests hold it against the contract.
   */
  checkReplies?(route: Route, status: number, body: unknown): void
}

export interface CallOptions {
  idempotencyKey?: string
  headers?: Record<string, string>
  signal?: AbortSignal
}

/** The input may be left out where nothing in it is required. */
type Arguments<R extends Route> =
  {} extends CallOf<R> ? [input?: CallOf<R>, options?: CallOptions] : [input: CallOf<R>, options?: CallOptions]

export type RouteTable = Record<string, Route>
export type Named<T extends RouteTable> = {
  readonly [K in keyof T]: (...call: Arguments<T[K]>) => Promise<ReplyOf<T[K]>>
}

export interface Caller {
  readonly token: string | undefined
  /**
   * Sends one request. Parameters, query and body stand side by side in `input`, as the contract
   * names them.
   */
  call<R extends Route>(route: R, ...call: Arguments<R>): Promise<ReplyOf<R>>
}

/** `call` for any route, and each route of `T` as a method of its own name. */
export type Client<T extends RouteTable = {}> = Caller & { as(token: string | null | undefined): Client<T> } & Named<T>

/**
 * A REST client. Hand it the contract's `routes` to have them as methods
 * (`client.createMessage(…)`); a browser page that passes single routes to `call` does not carry
 * the others.
 */
export function createClient<T extends RouteTable = {}>(given: ClientOptions, routes?: T): Client<T> {
  const options = { ...given, baseUrl: addressOf("baseUrl", given.baseUrl, "http").href.replace(/\/+$/, "") }
  // With the line break that a file may have brought, no header could hold it.
  if (given.token !== undefined) options.token = given.token.trim()
  const buckets = new Buckets()
  const call = <R extends Route>(route: R, ...[input, callOptions]: Arguments<R>): Promise<ReplyOf<R>> =>
    send({ ...options, buckets }, route, input ?? {}, callOptions ?? {}) as Promise<ReplyOf<R>>

  const named = Object.fromEntries(
    Object.entries(routes ?? {}).map(([name, route]) => [name, (...args: Arguments<Route>) => call(route, ...args)]),
  )
  const as = (token: string | null | undefined): Client<T> =>
    createClient({ ...options, token: token ?? undefined }, routes)
  return { ...named, token: options.token, call, as } as unknown as Client<T>
}

/**
 * A line of the generated table: `METHOD+flags path query`. Flags: `b` a body, `o` one that may be
 * missing, `f` a form, `c` an answer that is no JSON, `r` at the host's root, `i` repeatable with the
 * header `Idempotency-Key`.
 */
export function parseRoute(line: string): Route {
  const [head = "", path = "", names] = line.split(" ")
  const [method = "", flags = ""] = head.split(/(?<=[A-Z])(?=[a-z])/)
  const has = (flag: string) => flags.includes(flag)
  return {
    method: method as Route["method"],
    path,
    mount: has("r") ? "root" : "api",
    query: names === undefined ? undefined : { shape: Object.fromEntries(names.split(",").map(name => [name, 0])) },
    body: has("b") || undefined,
    form: has("f") || undefined,
    bodyOptional: has("o"),
    takesIdempotencyKey: has("i"),
    produces: has("c") ? [] : undefined,
  }
}

/** What fetch says of a lost connection is "fetch failed". */
function unreachable(request: string, thrown: TypeError): TypeError {
  const cause = thrown.cause instanceof Error ? thrown.cause : thrown
  return new TypeError(
    `${request}: no answer (${textOf(cause)}) – is the server running, and is baseUrl its address?`,
    {
      cause,
    },
  )
}

const repeatable: ReadonlySet<string> = new Set(["GET", "PUT", "DELETE"])
const passing: ReadonlySet<number> = new Set([429, 502, 503, 504])

async function send(
  options: ClientOptions & { readonly buckets: Buckets },
  route: Route,
  input: Record<string, unknown>,
  call: CallOptions,
): Promise<unknown> {
  const policy = options.retry === true ? defaultRetry : options.retry || undefined
  const { path, body } = split(route, input)
  const url = options.baseUrl + path
  const isNamed = call.idempotencyKey !== undefined || typeof input["nonce"] === "string"
  const named = policy && route.takesIdempotencyKey && !isNamed ? { idempotencyKey: crypto.randomUUID() } : {}
  const request = requestOf(options, route, body, { ...call, ...named })
  const harmless = repeatable.has(route.method) || isNamed || "idempotencyKey" in named
  const place = `${route.method} ${route.path} ${firstIdOf(route, input)}`
  const fetchOne = options.fetch ?? fetch

  for (let attempt = 1; ; attempt++) {
    const waitedMs = policy ? options.buckets.waitMs(place) : 0
    // What has to wait longer is sent: the server says how long by now.
    if (waitedMs > 0 && waitedMs <= (policy?.maxWaitMs ?? defaultMaxWaitMs)) await sleep(waitedMs, call.signal)
    let failure: unknown
    try {
      const response = await fetchOne(url, request)
      const reply = response.ok && route.produces ? await contentOf(response) : await parse(response)
      options.checkReplies?.(route, response.status, reply)
      if (response.ok && reply !== notJson) {
        options.buckets.note(place, response)
        return reply
      }
      const refusal = new ApiError(`${route.method} ${path}`, response, reply === notJson ? undefined : reply)
      options.buckets.note(place, response, refusal.retryAfterSeconds)
      failure = refusal
    } catch (cause) {
      // fetch throws a TypeError when the connection is lost; whatever else comes here is the
      // caller's own.
      if (!(cause instanceof TypeError)) throw cause
      failure = unreachable(`${route.method} ${url}`, cause)
    }
    // A limit refuses before anything is done.
    const mayRepeat = harmless || (failure instanceof ApiError && failure.status === 429)
    const isFinal = failure instanceof ApiError && !passing.has(failure.status)
    if (!policy || !mayRepeat || isFinal || attempt >= policy.attempts) throw failure
    // The server's own word is a floor; the jitter above it keeps the refused from coming back
    // together.
    const { floorMs, isTooLong } = floorOf(failure, policy)
    if (isTooLong) throw failure
    await sleep(floorMs + waitMs(policy, attempt - 1), call.signal)
  }
}

function requestOf(
  { headers: usual, token }: ClientOptions,
  route: Route,
  body: Record<string, unknown> | undefined,
  { headers: own, idempotencyKey, signal }: CallOptions,
): RequestInit {
  const headers: Record<string, string> = { ...usual, ...own }
  if (token !== undefined) headers["authorization"] ??= token.startsWith("Bot ") ? token : `Bearer ${token}`
  if (idempotencyKey !== undefined) headers["idempotency-key"] = idempotencyKey
  const request: RequestInit = { method: route.method, headers }
  if (body !== undefined && route.form) request.body = formOf(body)
  else if (body !== undefined) {
    headers["content-type"] = "application/json"
    request.body = JSON.stringify(body)
  }
  if (signal) request.signal = signal
  return request
}

/** Buckets are by route, and some by the first id in the path. */
function firstIdOf({ path }: Route, input: Record<string, unknown>): string {
  const name = /:(\w+)/.exec(path)?.[1]
  return name === undefined ? "" : asText(input[name])
}

/** Texts as they are, a file with its name; what is not given is left out. */
function formOf(body: Record<string, unknown>): FormData {
  const form = new FormData()
  for (const [key, value] of Object.entries(body)) {
    if (value === undefined || value === null) continue
    if (isFile(value)) {
      const { bytes, filename = key, type } = value
      form.append(key, new Blob([bytes as Uint8Array<ArrayBuffer>], { ...(type !== undefined && { type }) }), filename)
    } else form.append(key, asText(value))
  }
  return form
}

const isFile = (value: unknown): value is FormFile => isObject(value) && value["bytes"] instanceof Uint8Array

const notJson = Symbol("not JSON")

const contentOf = async (response: Response) => ({
  contentType: response.headers.get("content-type") ?? "",
  body: new Uint8Array(await response.arrayBuffer()),
})

async function parse(response: Response): Promise<unknown> {
  if (response.status === 204) return undefined
  const text = await response.text()
  try {
    return JSON.parse(text)
  } catch {
    return notJson
  }
}

export function sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer)
      reject(signal?.reason as Error)
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop)
      resolve()
    }, ms)
    if (signal?.aborted) stop()
    else signal?.addEventListener("abort", stop, { once: true })
  })
}

const asText = (value: unknown) => (typeof value === "string" ? value : (JSON.stringify(value) ?? "undefined"))

/**
 * One flat input → path with query, and body. A key goes where the route's schemas name it; the
 * rest is body where there is one, else query.
 */
export function split(
  route: Route,
  input: Record<string, unknown>,
): { path: string; body: Record<string, unknown> | undefined } {
  const rest = { ...input }
  const path = route.path.replace(/:(\w+)/g, (_, name: string) => {
    const value = rest[name]
    if (value === undefined) throw new TypeError(`${route.method} ${route.path}: ${name} is missing`)
    delete rest[name]
    return encodeURIComponent(asText(value))
  })

  const query = new URLSearchParams()
  const inQuery = route.query ? Object.keys(route.query.shape) : []
  for (const name of route.body ? inQuery : Object.keys(rest)) {
    const value = rest[name]
    delete rest[name]
    if (value !== undefined && value !== null) query.set(name, asText(value))
  }

  const sendsBody = route.body !== undefined && !(route.bodyOptional && Object.keys(rest).length === 0)
  const mount = route.mount === "root" ? "" : "/api/v1"
  const search = query.toString()
  return { path: mount + path + (search && `?${search}`), body: sendsBody ? rest : undefined }
}
