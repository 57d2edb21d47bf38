import { rateLimitHeaderNames } from "./rate-limit-headers.ts"

/**
 * Which pages of other origins may call. The list names origins; there is no wildcard, because
 * answers carry credentials.
 */
export interface Cors {
  /** Header lines for an answer to a page of this origin, each beginning with CRLF. */
  headersFor(origin: string | undefined): string
  /** What a preflight gets: header lines, or the reason why not. */
  preflight(origin: string, method: string, headers: string): { headers: string } | { refused: string }
}

const methods = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
const requestHeaders = [
  "Accept", "Accept-Language", "Authorization", "Content-Language", "Content-Type", "Idempotency-Key", "If-None-Match", "Origin",
  "Range", "X-API-Access-Token", "X-Audit-Log-Reason", "X-Request-Id", "X-Requested-With",
] // prettier-ignore
const exposed = [
  "Content-Range",
  "Accept-Ranges",
  "Content-Length",
  "ETag",
  "Retry-After",
  "X-Next-Cursor",
  "X-Request-Id",
  ...rateLimitHeaderNames,
]

export function createCors(allowedOrigins: readonly string[]): Cors {
  const ofOrigin = new Map(
    allowedOrigins.map(origin => [
      origin,
      `\r\nAccess-Control-Allow-Origin: ${origin}\r\nAccess-Control-Allow-Credentials: true`,
    ]),
  )
  const allowedHeaders = new Set(requestHeaders.map(name => name.toLowerCase()))
  const exposing = `\r\nAccess-Control-Expose-Headers: ${exposed.join(", ")}`
  const permitting = `\r\nAccess-Control-Allow-Methods: ${methods.join(", ")}\r\nAccess-Control-Allow-Headers: ${requestHeaders.join(", ")}\r\nAccess-Control-Max-Age: 600`

  return {
    headersFor(origin) {
      const allowed = origin === undefined ? undefined : ofOrigin.get(origin)
      return allowed === undefined ? "" : allowed + exposing
    },
    preflight(origin, method, headers) {
      const allowed = ofOrigin.get(origin)
      if (allowed === undefined) return { refused: "Disallowed CORS origin" }
      if (!methods.includes(method)) return { refused: "Disallowed CORS method" }
      const wanted = headers.split(",").map(name => name.trim().toLowerCase())
      if (!wanted.every(name => name === "" || allowedHeaders.has(name))) return { refused: "Disallowed CORS headers" }
      return { headers: allowed + permitting }
    },
  }
}
