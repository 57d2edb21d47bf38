import type { BucketFigures } from "../../cluster/admission.ts"

export const rateLimitHeaderNames = [
  "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "X-RateLimit-Reset-After", "X-RateLimit-Bucket", "X-RateLimit-Scope", "X-RateLimit-Global",
] // prettier-ignore

/** Header lines about the bucket that decided, each beginning with CRLF. */
export const rateLimitHeaders = (figures: BucketFigures, refused: boolean): string =>
  `\r\nX-RateLimit-Limit: ${figures.limit}\r\nX-RateLimit-Remaining: ${figures.remaining}` +
  `\r\nX-RateLimit-Reset: ${figures.reset.toFixed(3)}\r\nX-RateLimit-Reset-After: ${figures.resetAfterSeconds.toFixed(3)}` +
  `\r\nX-RateLimit-Bucket: ${figures.bucket}\r\nX-RateLimit-Scope: ${figures.scope}` +
  (refused && figures.scope === "global" ? "\r\nX-RateLimit-Global: true" : "")
