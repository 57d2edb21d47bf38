import { isRedisUnavailable } from "../../cluster/unavailable.ts"
import { errors, Failure, fail, unavailable, type ErrorCode } from "../../contract/core/errors.ts"
import { isDatabaseUnavailable } from "../../storage/core/database.ts"

/** How a refusal looks. This is the one place where an error becomes a response. */
export interface FailureReply {
  readonly status: number
  readonly body: Record<string, unknown>
  /** Header lines, each beginning with CRLF. */
  readonly headers: string
}

export function failureReply(failure: Failure, requestId: string): FailureReply {
  const { status } = errors[failure.code]
  const { retry_after, issues, extra, headers: own = {} } = failure.details
  const error: Record<string, unknown> = {
    code: status,
    message: failure.message,
    ...(retry_after !== undefined && { retry_after }),
    ...extra,
    ...(failure.code === "internal" && { request_id: requestId }),
  }
  let headers = retry_after === undefined ? "" : `\r\nRetry-After: ${waitSeconds(failure.code, retry_after)}`
  for (const [name, value] of Object.entries(own)) headers += `\r\n${name}: ${value}`
  return { status, body: { ...besides(failure, error), ...(issues && { detail: issues }), error }, headers }
}

/** The limiter's answer carries its facts at the top level too: clients look in either place. */
const besides = (failure: Failure, { message, retry_after, global, scope }: Record<string, unknown>) =>
  failure.code === "rate_limited" ? { message, retry_after, global, scope } : undefined

/** For those who read the wait in the message itself. */
export const waitMessage = (seconds: number): string =>
  `${errors.rate_limited.message}. Try again in ${waitSeconds("rate_limited", seconds)} s`

const waitSeconds = (code: ErrorCode, seconds: number) =>
  errors[code].status === 429 ? Math.floor(seconds) + 1 : Math.max(1, Math.ceil(seconds))

/**
 * What the client is told of whatever was thrown. Anything unexpected is a bug: the log gets the
 * cause.
 */
export function toFailure(error: unknown): Failure {
  if (error instanceof Failure) return error
  if (isDatabaseUnavailable(error)) return unavailable("database", 1, { cause: error })
  if (isRedisUnavailable(error)) return unavailable("redis", 1, { cause: error })
  return fail("internal", {}, { cause: error })
}

export const isBug = (failure: Failure): boolean => failure.code === "internal"
