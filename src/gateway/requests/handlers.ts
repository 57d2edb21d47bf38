import type { ClientOp } from "../../contract/core/gateway-codes.ts"
import type { Session } from "../state/session.ts"

/** The ops that a client may send once it has identified. */
type SessionOp = Exclude<ClientOp, "HEARTBEAT" | "IDENTIFY" | "RESUME">

/**
 * What the gateway does on each op. A `FrameRefused` closes the connection. A `Failure`, or a
 * transient error, is not told to the client: these frames have no reply.
 */
export type SessionHandlers = {
  readonly [N in SessionOp]: (session: Session, d: unknown) => Promise<void> | void
}
