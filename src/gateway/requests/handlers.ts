import type { ClientOp } from "../../contract/core/gateway-codes.ts"
import type { Session } from "../state/session.ts"

/** What a client asks for once it has identified. */
type SessionOp = Exclude<ClientOp, "HEARTBEAT" | "IDENTIFY" | "RESUME">

/**
 * What the gateway does on each of them. A `FrameRefused` closes the connection; a `Failure`, and what passes by itself,
 * is not told: there is no reply to these frames.
 */
export type SessionHandlers = {
  readonly [N in SessionOp]: (session: Session, d: unknown) => Promise<void> | void
}
