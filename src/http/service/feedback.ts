import { userActor } from "../../actors/user.ts"
import { fail } from "../../contract/core/errors.ts"
import { limits, type routes } from "../../contract/service/feedback.ts"
import { feedbackWait, feedbackWithin } from "../../domain/service/feedback.ts"
import { secondsAt } from "../../std/clock.ts"
import type { Handlers } from "../server/handlers.ts"
import type { Http, Policy } from "../shared/http.ts"

const hour = 3_600

type FeedbackNeeds = Http<"feedback"> & Policy<{ readonly feedback_enabled: boolean }>

export const feedback = ({ ask, storage, clock, policy }: FeedbackNeeds): Handlers<typeof routes> => ({
  async sendFeedback({ body: { content, category = null, rating = null }, caller }) {
    if (!policy.feedback_enabled) throw fail("feedback_disabled", { retry_after: hour })
    const { id } = await ask(userActor, caller.user_id, { type: "sendFeedback", content, category, rating })
    return { id, message: "Feedback submitted successfully" }
  },

  async getFeedbackStatus({ caller }) {
    const [times, now] = [await storage.feedback.timesOf(caller.user_id), secondsAt(clock())]
    const sent = feedbackWithin(times, now)
    return {
      enabled: policy.feedback_enabled,
      submissions_this_hour: sent.hour,
      submissions_today: sent.day,
      max_per_hour: limits.feedbackPerHour,
      max_per_day: limits.feedbackPerDay,
      can_submit: policy.feedback_enabled && feedbackWait(times, now) === 0,
    }
  },
})
