import { fail } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { secondsAt } from "../../std/clock.ts"
import type { UserState } from "../../domain/accounts/user-state.ts"
import { feedbackWait, withFeedback, type Feedback, type FeedbackTimes } from "../../domain/service/feedback.ts"
import type { ActorKind } from "../../runtime/actor.ts"
import { insertFeedback } from "../../storage/service/feedback.ts"
import { defineFact } from "../shared/facts.ts"

/**
 * What a user tells the operators, among the commands of their home. They keep:
 *   FDB1  A user sends so much in any hour and in any day, whichever workers it comes to.
 */
export interface FeedbackCommands {
  sendFeedback(input: Pick<Feedback, "content" | "category" | "rating">): { id: Snowflake }
}

const sent = "sent"
const feedbackFacts = defineFact<UserState, FeedbackTimes>({
  keep: 1,
  load: async (storage, user, [key]) => new Map([[key!, await storage.feedback.timesOf(user)]]),
})

export const feedbackCommands: ActorKind<UserState, UserState, FeedbackCommands>["commands"] = {
  sendFeedback: {
    needs: () => [feedbackFacts.need(sent)],
    turn({ state: user, now, newId }, given) {
      const created_at = secondsAt(now)
      const times = feedbackFacts.of(user).get(sent)!
      const retry_after = feedbackWait(times, created_at)
      if (retry_after > 0) throw fail("feedback_limit", { retry_after }) // FDB1
      const id = newId()
      return {
        apply: draft => {
          feedbackFacts.of(draft).set(sent, withFeedback(times, created_at))
        },
        write: [insertFeedback({ ...given, id, user_id: user.id, created_at })],
        reply: { id },
      }
    },
  },
}
