import type { CallOf, FormFile, Method, ReplyOf, Route } from "../src/contract/core/registry.ts"
import { waitMs } from "./backoff.ts"
import type { Backoff } from "./backoff.ts"

/** A refusal, or an answer that is no JSON. `retryAfterSeconds` is in seconds. */
export class ApiError extends Error {
  override readonly name = "ApiError"
  readonly status: number
  /** The body's `error.code`: the HTTP status, or a word such as `VERSION_OUTDATED`. */
  readonly code: number | string
  readonly retryAfterSeconds: number | undefined
  readonly body: unknown
  readonly requestId: string | undefined

  constructor(request: string, response: Response, body: unknown) {
    const { code, message, reason, retry_after: retryAfterSeconds } = errorOf(body)
    super(`${request}: ${response.status} ${message ?? response.statusText}${reason ? ` (${reason})` : ""}`)
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

export interface RetryPolicy extends Backoff {
  /** Tries in all, the first one included. */
  readonly attempts: number
}

export const defaultRetry: RetryPolicy = { attempts: 6, firstMs: 200, maxMs: 10_000, jitter: 1 }

export interface ClientOptions {
  /** The server's origin, without `/api/v1`. */
  baseUrl: string
  token?: string
  fetch?: typeof fetch
  headers?: Record<string, string>
  /**
   * Wait and try again after 429, 502, 503, 504 and a lost connection. Only where a repeat is
   * harmless: GET, PUT, DELETE, and whatever carries a nonce or an idempotency key. Off unless
   * asked for.
   */
  retry?: RetryPolicy | boolean
  /**
   * Sees every reply with its parsed body, refusals too. The tests hold it against the contract.
   */
  checkReplies?: (route: Route, status: number, body: unknown) => void
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
export type Client<T extends RouteTable = {}> = Caller & { as(token: string | undefined): Client<T> } & Named<T>

/**
 * A REST client. Hand it the contract's `routes` to have them as methods
 * (`client.createMessage(…)`); a browser page that passes single routes to `call` does not carry
 * the others.
 */
export function createClient<T extends RouteTable = {}>(options: ClientOptions, routes?: T): Client<T> {
  const call = <R extends Route>(route: R, ...[input, callOptions]: Arguments<R>): Promise<ReplyOf<R>> =>
    send(options, route, input ?? {}, callOptions ?? {}) as Promise<ReplyOf<R>>

  const named = Object.fromEntries(
    Object.entries(routes ?? {}).map(([name, route]) => [name, (...args: Arguments<Route>) => call(route, ...args)]),
  )
  const as = (token: string | undefined): Client<T> => {
    const { token: _, ...anonymous } = options
    return createClient(token === undefined ? anonymous : { ...anonymous, token }, routes)
  }
  return { ...named, token: options.token, call, as } as unknown as Client<T>
}

const repeatable: ReadonlySet<Method> = new Set<Method>(["GET", "PUT", "DELETE"])
const passing: ReadonlySet<number> = new Set([429, 502, 503, 504])

async function send(
  options: ClientOptions,
  route: Route,
  input: Record<string, unknown>,
  call: CallOptions,
): Promise<unknown> {
  const { path, body } = split(route, input)
  const url = options.baseUrl.replace(/\/+$/, "") + path
  const headers: Record<string, string> = { ...options.headers, ...call.headers }
  if (options.token !== undefined) headers["authorization"] ??= `Bearer ${options.token}`
  if (call.idempotencyKey !== undefined) headers["idempotency-key"] = call.idempotencyKey
  const request: RequestInit = { method: route.method, headers }
  if (body !== undefined && route.form) request.body = formOf(body)
  else if (body !== undefined) {
    headers["content-type"] = "application/json"
    request.body = JSON.stringify(body)
  }
  if (call.signal) request.signal = call.signal

  const policy = options.retry === true ? defaultRetry : options.retry || undefined
  const harmless =
    repeatable.has(route.method) || typeof input["nonce"] === "string" || call.idempotencyKey !== undefined
  const attempts = policy && harmless ? policy.attempts : 1
  const fetchOne = options.fetch ?? fetch

  for (let attempt = 1; ; attempt++) {
    let failure: unknown
    try {
      const response = await fetchOne(url, request)
      const reply = response.ok && route.produces ? await contentOf(response) : await parse(response)
      options.checkReplies?.(route, response.status, reply)
      if (response.ok && reply !== notJson) return reply
      failure = new ApiError(`${route.method} ${path}`, response, reply === notJson ? undefined : reply)
    } catch (cause) {
      // fetch throws a TypeError when the connection is lost; whatever else comes here is the
      // caller's own.
      if (!(cause instanceof TypeError)) throw cause
      failure = cause
    }
    const final = failure instanceof ApiError && !passing.has(failure.status)
    if (!policy || attempt >= attempts || final) throw failure
    // The server's own word is a floor; the jitter above it keeps the refused from coming back
    // together.
    const floorMs = failure instanceof ApiError ? (failure.retryAfterSeconds ?? 0) * 1_000 : 0
    await sleep(floorMs + waitMs(policy, attempt - 1), call.signal)
  }
}

/** Texts as they are, a file with its name; what is not given is left out. */
function formOf(body: Record<string, unknown>): FormData {
  const form = new FormData()
  for (const [key, value] of Object.entries(body)) {
    if (value === undefined || value === null) continue
    if (isFile(value)) {
      const { bytes, filename = key, type } = value
      form.append(key, new Blob([bytes], { ...(type !== undefined && { type }) }), filename)
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
