import type { Snowflake } from "../../contract/core/fields.ts"
import { limits, type ReportCategory } from "../../contract/messages/reports.ts"

/** What a reporter says. */
export interface SaidInReport {
  reason: string
  category: ReportCategory
  details: string | null
}

/** What a user says of a message, with some of what the message was. */
export interface MessageReport extends SaidInReport {
  id: Snowflake
  message_id: Snowflake
  channel_id: Snowflake
  server_id: Snowflake | null
  reporter_id: Snowflake
  /** The author. */
  reported_user_id: Snowflake
  message_content: string | null
  /** Unix seconds. */
  reported_at: number
}

/** What a user says of another. */
export interface UserReport extends SaidInReport {
  id: Snowflake
  reported_user_id: Snowflake
  reporter_id: Snowflake
  /** As the reporter gave them: nobody has looked whether there are such messages. */
  evidence_message_ids: Snowflake[]
  reported_at: number
}

/** What a report keeps of a message's text. */
export const reportedPart = (content: string | null): string | null =>
  content &&
  Array.from(content.slice(0, 2 * limits.reportedCharacters))
    .slice(0, limits.reportedCharacters)
    .join("")

export const reportStatuses = ["pending", "reviewed", "actioned", "dismissed"] as const

/** What an operator does with a report of a message or a user, and what becomes of it. */
export const statusAfter = { action: "actioned", dismiss: "dismissed", review: "reviewed" } as const
export type ReviewAction = keyof typeof statusAfter

/** An operator's decision. */
export interface Review<Action extends string = ReviewAction> {
  id: Snowflake
  action: Action
  notes: string | null
  /** The operator. */
  by: Snowflake
  /** Unix seconds. */
  at: number
}

/** What operators have made of a report. */
export interface Reviewed<Status extends string> {
  status: Status
  reviewed_at: number | null
  /** An operator. */
  reviewed_by: string | null
  reviewed_by_username: string | null
  admin_notes: string | null
}

interface Listed extends Reviewed<(typeof reportStatuses)[number]> {
  action_taken: string | null
  reporter_username: string | null
  reported_username: string | null
}
/** Reports as operators see them. */
export type ListedMessageReport = MessageReport & Listed
export type ListedUserReport = UserReport & Listed

/**
 * Whether the text of a reported message is another than it was. `edited_at`: Unix seconds, as
 * exact as the time of the report.
 */
export const isEditedSince = (
  report: Pick<MessageReport, "message_content" | "reported_at">,
  message: { readonly content: string | null; readonly edited_at: number | null },
): boolean =>
  message.edited_at !== null &&
  (message.edited_at > report.reported_at || reportedPart(message.content) !== report.message_content)
