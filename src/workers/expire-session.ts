import { userActor } from "../actors/user.ts"
import { type Processor, unlessGone } from "./processor.ts"

/** A session that was extended meanwhile stays; its user's home has asked for another look at its new end. */
export const expireSession: Processor<"expireSession"> = ({ ask }, { user_id, session_id }) =>
  unlessGone("user_not_found", ask(userActor, user_id, { type: "expireSession", session_id }))
