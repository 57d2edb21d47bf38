import { userActor } from "../../actors/user.ts"
import type { Caller } from "../../cluster/admission.ts"
import type { Tokens } from "../../cluster/tokens.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { secondsAt } from "../../std/clock.ts"
import type { Http, Policy } from "../shared/http.ts"
import { isBug, toFailure } from "../server/failures.ts"
import { sessionEnd } from "./sign-in.ts"

/** A session with less than this left is extended when it is used. */
const extendBelowSeconds = 24 * 3600

type Needs = Pick<Http, "ask" | "clock" | "log"> &
  Policy<{ readonly session_lifetime_hours: number }> & { readonly tokens: Pick<Tokens, "invalidate"> }

/**
 * Notes that a session was used, by `noteUse` if that changes nothing else. The request does not wait for it, and is not
 * refused when it fails.
 */
export function createSessionActivity(needs: Needs, noteUse: (session: Snowflake) => void) {
  const { ask, tokens, clock, log } = needs

  async function extend({ user_id, session_id }: Caller, expires_at: number): Promise<void> {
    await ask(userActor, user_id, { type: "touchSession", session_id, expires_at })
    await tokens.invalidate([session_id])
  }

  return (caller: Caller): void => {
    const { session_id, expires_at } = caller
    const extended = sessionEnd(needs)
    if (expires_at - secondsAt(clock()) > extendBelowSeconds || extended <= expires_at) return noteUse(session_id)
    extend(caller, extended).catch((error: unknown) => {
      if (isBug(toFailure(error))) log.error({ err: error, session_id }, "session activity not stored")
    })
  }
}
