import { codePoints } from "../../contract/core/fields.ts"
import { limits } from "../../contract/core/limits.ts"
import type { Route } from "../../contract/core/registry.ts"
import type { Exchange } from "./exchange.ts"
import { isUnsafe } from "./json-text.ts"
import { invalid } from "./validation.ts"

/** What the headers of a request mean, or the refusal of one that means nothing. */

const authorizationShape = /^(?:Bearer|Bot) [A-Za-z0-9._-]+$/
const idempotencyShape = /^[\x20-\x7e]{1,64}$/

/**
 * The token; null: the route needs one and none came; undefined: the route is public, so that an
 * outdated token does no harm.
 */
export function tokenIn(exchange: Exchange, route: Route): string | null | undefined {
  if (route.auth === "public" || route.auth === "operator") return undefined
  const { authorization } = exchange
  if (authorization === undefined || exchange.repeatedAuthorization || !authorizationShape.test(authorization))
    return null
  return authorization.slice(authorization.indexOf(" ") + 1)
}

export const hasSeveralTokens = ({ authorization, repeatedAuthorization }: Exchange): boolean =>
  repeatedAuthorization || (authorization?.includes(",") ?? false)

/** Whether `If-None-Match` names this tag. */
export const isNamed = (etag: string, ifNoneMatch: string | undefined): boolean =>
  ifNoneMatch?.split(",").some(tag => tag.trim().replace(/^W\//, "") === etag) ?? false

export function idempotencyKeyIn({ idempotencyKey }: Exchange): string | undefined {
  if (idempotencyKey === undefined || idempotencyKey === "") return undefined
  if (idempotencyShape.test(idempotencyKey)) return idempotencyKey
  throw invalid([
    {
      loc: ["header", "Idempotency-Key"],
      msg: "must have 1 to 64 printable ASCII characters",
      type: "string_pattern_mismatch",
    },
  ])
}

/** The reason for the audit log: UTF-8, percent-encoded, since a header is ASCII. Blank: none. */
export function auditReasonIn({ auditReason }: Exchange): string | undefined {
  if (auditReason === undefined) return undefined
  const reason = /^[\x20-\x7e]*$/.test(auditReason) ? decoded(auditReason)?.trim() : undefined
  if (reason !== undefined && !isUnsafe(reason) && codePoints(reason) <= limits.banReason) return reason || undefined
  throw invalid([
    {
      loc: ["header", "X-Audit-Log-Reason"],
      msg: `must be percent-encoded UTF-8 of at most ${limits.banReason} characters`,
      type: "value_error",
    },
  ])
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}
