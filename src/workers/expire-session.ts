import { userActor } from "../actors/user.ts"
import { type Processor, unlessGone } from "./processor.ts"
import { ending, forgetting, type Sweep } from "./sweep.ts"

/**
 * A session that was extended meanwhile stays; its user's home has asked for another look at its
 * new end.
 */
export const expireSession: Processor<"expireSession"> = ({ ask }, { user_id, session_id }) =>
  unlessGone("user_not_found", ask(userActor, user_id, { type: "expireSession", session_id }))

/** For which failed sign-ins are counted: no lock lasts longer. */
const failuresKeptS = 7 * 86_400

export const sweeps: readonly Sweep[] = [
  ending(
    ({ sessions }, beforeS, limit) => sessions.expired(beforeS, limit),
    (tools, { id, user_id }) => expireSession(tools, { user_id, session_id: id }),
  ),
  forgetting(({ sessions }, beforeS, limit) => sessions.forgetFailures(beforeS - failuresKeptS, limit)),
]
