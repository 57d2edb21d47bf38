import { userActor } from "../actors/user.ts"
import { type Processor, unlessGone } from "./processor.ts"
import { ending, type Sweep } from "./sweep.ts"

/** A call that is over, or whose user has more of the day left by now, does not change. */
export const expireVoice: Processor<"expireVoice"> = ({ ask }, { user_id }) =>
  unlessGone("user_not_found", ask(userActor, user_id, { type: "expireVoice" }))

export const sweeps: readonly Sweep[] = [
  ending(({ voice }, beforeS, limit) => voice.expired(beforeS, limit), expireVoice),
  ({ storage }) =>
    beforeS =>
      storage.voice.forgetUsage(Math.floor(beforeS / 86_400)),
]
