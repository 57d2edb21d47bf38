import type { ErrorCode } from "../../src/contract/core/errors.ts"
import type { Route } from "../../src/contract/core/registry.ts"
import { checkedFetch, checkRefusal, checkReply } from "./conformance.ts"
import type { Endpoint } from "./person.ts"

export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  readonly bytes: Uint8Array
  /** Parsed where it is JSON. */
  readonly body: unknown
  /** Which refusal of the contract it is. */
  readonly code: ErrorCode | undefined
}

export interface Sending {
  method?: string
  /** Sent as it is; an object as JSON. */
  body?: string | Uint8Array<ArrayBuffer> | object
  token?: string | undefined
  headers?: Record<string, string>
  /** Whose promises hold for the answer. */
  route?: Route
}

/** Sends what a typed client would not, and holds the answer against the contract all the same. */
export async function send(endpoint: Endpoint, path: string, sending: Sending = {}): Promise<Answer> {
  const { method = sending.route?.method ?? "GET", body, token, headers, route } = sending
  const response = await checkedFetch(endpoint.url + path, {
    method,
    redirect: "manual",
    headers: { ...(token !== undefined && { authorization: `Bearer ${token}` }), ...headers },
    ...(body !== undefined && {
      body: typeof body === "string" || body instanceof Uint8Array ? body : JSON.stringify(body),
    }),
  })
  const bytes = new Uint8Array(await response.arrayBuffer())
  const text = new TextDecoder().decode(bytes)
  const isJson = response.headers.get("content-type")?.startsWith("application/json") ?? false
  const parsed: unknown = isJson && text !== "" ? JSON.parse(text) : undefined
  const { status } = response
  let code: ErrorCode | undefined
  const contentType = response.headers.get("content-type") ?? ""
  if (route?.produces && status === 200) checkReply(route, status, { contentType, body: bytes })
  else if (route) code = checkReply(route, status, parsed)
  else if (status >= 400 && method !== "OPTIONS" && method !== "HEAD")
    code = checkRefusal(`${method} ${path}`, status, parsed)
  return { status, headers: response.headers, text, bytes, body: parsed, code }
}
