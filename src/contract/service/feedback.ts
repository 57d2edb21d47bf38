import { z } from "zod"
import { omittable, Snowflake, text } from "../core/fields.ts"
import { refused, type LimitNotes } from "../core/limit-notes.ts"
import { defineRoute } from "../core/registry.ts"

/** Of one user, in any hour and in any 24 hours. */
export const limits = { feedbackPerHour: 5, feedbackPerDay: 20 } as const
export const limitNotes: LimitNotes<typeof limits> = {
  feedbackPerHour: refused("texts", "feedback_limit"),
  feedbackPerDay: refused("texts", "feedback_limit"),
}

export const sendFeedback = defineRoute({
  method: "POST",
  path: "/feedback",
  summary: "Tell the operators something about the service",
  tag: "Feedback",
  auth: "person",
  body: z
    .object({
      content: text(10, 2000),
      category: omittable(text(0, 50)),
      rating: omittable(z.int().min(1).max(5)),
    })
    .meta({ id: "FeedbackInput" }),
  example: { content: "Search is fast, thank you.", rating: 5 },
  reply: z.object({ id: Snowflake, message: z.string() }).meta({ id: "FeedbackResponse" }),
  fails: ["feedback_disabled", "feedback_limit"],
})

export const getFeedbackStatus = defineRoute({
  method: "GET",
  path: "/feedback/status",
  summary: "Get how much feedback you have sent, and whether you can send more now",
  tag: "Feedback",
  auth: "person",
  reply: z
    .object({
      enabled: z.boolean(),
      submissions_this_hour: z.int().describe("In the last 60 minutes"),
      submissions_today: z.int().describe("In the last 24 hours"),
      max_per_hour: z.int(),
      max_per_day: z.int(),
      can_submit: z.boolean(),
    })
    .meta({ id: "FeedbackStatus" }),
  fails: [],
})

export const routes = { sendFeedback, getFeedbackStatus }
