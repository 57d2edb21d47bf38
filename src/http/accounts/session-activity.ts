import { userActor } from "../../actors/user.ts"
import type { Caller } from "../../cluster/admission.ts"
import type { Tokens } from "../../cluster/tokens.ts"
import { secondsAt } from "../../std/clock.ts"
import type { Http, Policy } from "../shared/http.ts"
import { isBug, toFailure } from "../server/failures.ts"
import { sessionEnd } from "./sign-in.ts"

/** A session with less than this left is extended when it is used. */
const extendBelowSeconds = 24 * 3600

type Needs = Pick<Http, "ask" | "clock" | "log"> &
  Policy<{ readonly session_lifetime_hours: number }> & { readonly tokens: Pick<Tokens, "invalidate"> }

/**
 * Notes that a session was used. The request does not wait for it, and is not refused when it
 * fails.
 */
export function createSessionActivity(needs: Needs) {
  const { ask, tokens, clock, log } = needs

  async function note({ user_id, session_id, expires_at }: Caller): Promise<void> {
    const now = secondsAt(clock())
    const extended = sessionEnd(needs)
    const extend = expires_at - now <= extendBelowSeconds && extended > expires_at
    await ask(userActor, user_id, { type: "touchSession", session_id, expires_at: extend ? extended : expires_at })
    if (extend) await tokens.invalidate([session_id])
  }

  return (caller: Caller): void => {
    note(caller).catch((error: unknown) => {
      if (isBug(toFailure(error)))
        log.error({ err: error, session_id: caller.session_id }, "session activity not stored")
    })
  }
}
