import type { Snowflake } from "../../contract/core/fields.ts"
import { limits } from "../../contract/service/feedback.ts"

/** What a user tells the operators: a ticket of theirs. */
export interface Feedback {
  id: Snowflake
  user_id: Snowflake
  content: string
  category: string | null
  rating: number | null
  /** Unix seconds. */
  created_at: number
}

const hour = 3_600
const day = 86_400

/** The times that limits look at: in Unix seconds, the latest first, and no more than a day allows. */
export type FeedbackTimes = readonly number[]

/** The times with one more. */
export const withFeedback = (times: FeedbackTimes, now: number): FeedbackTimes =>
  [now, ...times].slice(0, limits.feedbackPerDay)

/** How much of a user's feedback counts now. */
export const feedbackWithin = (times: FeedbackTimes, now: number): { hour: number; day: number } => ({
  hour: times.filter(time => time > now - hour).length,
  day: times.filter(time => time > now - day).length,
})

/** Seconds until the user may send more; 0: now. */
export function feedbackWait(times: FeedbackTimes, now: number): number {
  const until = (most: number, seconds: number) => {
    const time = times[most - 1]
    return time === undefined ? 0 : Math.max(0, time + seconds - now)
  }
  return Math.max(until(limits.feedbackPerHour, hour), until(limits.feedbackPerDay, day))
}

export const ticketStatuses = ["open", "in_progress", "resolved", "closed"] as const
export type TicketStatus = (typeof ticketStatuses)[number]
/** Nothing more is to be done about it. */
export const isResolved = (status: TicketStatus): boolean => status === "resolved" || status === "closed"

/** Feedback as operators see it. */
export interface Ticket extends Feedback {
  /** `Unknown`: the account is gone. */
  username: string
  status: TicketStatus
  resolved_at: number | null
  /** An operator. */
  resolved_by: string | null
  resolved_by_username: string | null
}

/** What an operator notes about a ticket. */
export interface TicketNote {
  id: string
  ticket_id: Snowflake
  admin_id: string
  /** `Unknown`: there is no such operator any more. */
  admin_username: string
  content: string
  created_at: number
}
