import { errors, Failure, fail, type ErrorCode } from "../contract/errors.ts"

/** How a refusal looks. This is the one place where an error becomes a response. */
export interface FailureReply {
  readonly status: number
  readonly body: Record<string, unknown>
  /** Header lines, each beginning with CRLF. */
  readonly headers: string
}

export function failureReply(failure: Failure, requestId: string): FailureReply {
  const { status } = errors[failure.code]
  const { retry_after, issues, extra } = failure.details
  const error: Record<string, unknown> = {
    code: status,
    message: failure.message,
    ...(retry_after !== undefined && { retry_after }),
    ...extra,
    ...(failure.code === "internal" && { request_id: requestId }),
  }
  const headers = retry_after === undefined ? "" : `\r\nRetry-After: ${waitSeconds(failure.code, retry_after)}`
  return { status, body: { ...besides(failure, error), ...(issues && { detail: issues }), error }, headers }
}

/** The limiter's answer carries its facts at the top level too: clients look in either place. */
const besides = (failure: Failure, { message, retry_after, global, scope }: Record<string, unknown>) =>
  failure.code === "rate_limited" ? { message, retry_after, global, scope } : undefined

const waitSeconds = (code: ErrorCode, seconds: number) =>
  errors[code].status === 429 ? Math.floor(seconds) + 1 : Math.max(1, Math.ceil(seconds))

/** PostgreSQL or the way to it is gone, shutting down, or took too long: nothing is wrong with the request. */
const away =
  /^(08...|53...|57014|57P0.|CONNECTION_CLOSED|CONNECTION_ENDED|CONNECTION_DESTROYED|CONNECT_TIMEOUT|ECONNREFUSED|ECONNRESET|EPIPE|ETIMEDOUT|ENOTFOUND)$/

/** What the client is told of whatever was thrown. Anything unexpected is a bug: the log gets the cause. */
export function toFailure(error: unknown): Failure {
  if (error instanceof Failure) return error
  const code = error instanceof Error && "code" in error ? String(error.code) : ""
  // FATAL ends the session with PostgreSQL, whatever the reason: there is no connection, and that is not the request's fault.
  const refused = error instanceof Error && "severity" in error && error.severity === "FATAL"
  if (refused || away.test(code))
    return fail("unavailable", { retry_after: 1, extra: { reason: "database" } }, { cause: error })
  return fail("internal", {}, { cause: error })
}

export const isBug = (failure: Failure): boolean => failure.code === "internal"
