import type { ErrorCode, FailureDetails } from "../contract/core/errors.ts"

/** What workers send one another, as JSON. */
export type BusMessage =
  | ["ask", id: string, from: string, kind: string, timeoutMs: number, body: unknown]
  | ["answer", id: string, body: unknown]
  /** An unknown request is refused as `internal` without a mark; a refusal of its handler is marked. */
  | ["refusal", id: string, code: ErrorCode, details: FailureDetails, isHandled?: true]
  | ["moved", id: string]
  | ["notice", from: string, kind: string, body: unknown]
  /** The first of an entry of the inbox, if there is a second road (socket-road.ts). A version without one ignores it. */
  | ["batch", from: string, number: number]

export interface Outgoing {
  readonly message: BusMessage
  /** What to do about a notice that was not sent. */
  readonly unsent?: (() => void) | undefined
  /** Monotonic milliseconds after which nobody waits for it. */
  readonly until: number
}
