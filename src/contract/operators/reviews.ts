import { z } from "zod"
import { omittable, Seconds, Snowflake, text } from "../core/fields.ts"
import type { LimitNotes } from "../core/limit-notes.ts"
import { defineRoute } from "../core/registry.ts"
import { Message } from "../messages/messages.ts"
import { ReportCategory } from "../messages/reports.ts"
import { listQuery, RowId } from "./fields.ts"

export const limits = {
  /** Rows of each status. */
  counted: 100_000,
  /** Messages before a reported one, and as many after it. */
  context: 10,
} as const
export const limitNotes: LimitNotes<typeof limits> = {
  counted: { unit: "rows of a status", beyond: "counted as so many" },
  context: { unit: "messages", beyond: "not shown" },
}

const byReport = z.object({ report_id: RowId })
const ReportStatus = z.enum(["pending", "reviewed", "actioned", "dismissed"])
const HashReportStatus = z.enum(["pending", "blocked", "cleared", "reviewed"])
const count = z.int().min(0)
const countsAre = "They are exact up to 100,000 of each"

const reviewed = {
  reported_at: Seconds,
  reviewed_at: Seconds.nullable(),
  reviewed_by: RowId.nullable().describe("The operator of the last review"),
  reviewed_by_username: z.string().nullable(),
  admin_notes: z.string().nullable(),
}
const reported = {
  id: Snowflake,
  reporter_id: Snowflake,
  reporter_username: z.string().nullable(),
  reported_user_id: Snowflake,
  reported_username: z.string().nullable(),
  reason: z.string(),
  category: ReportCategory,
  details: z.string().nullable(),
  status: ReportStatus,
  ...reviewed,
  action_taken: z.string().nullable().describe("The action of the last review"),
}

const HashReport = z
  .object({
    id: Snowflake,
    hash_value: z.string(),
    phash_value: z.string().nullable(),
    reporter_id: Snowflake,
    reporter_username: z.string().nullable(),
    reason: z.string(),
    details: z.string().nullable(),
    status: HashReportStatus,
    ...reviewed,
    uploader_id: Snowflake.nullable().describe("As the reporter says"),
    message_id: Snowflake.nullable(),
    attachment_url: z.string().nullable(),
    block_uploader: z.boolean().describe("The reporter asks that the uploader be blocked, too"),
    counts: z.boolean().describe("The reporter could read a message with such a file, and it was not cleared since"),
  })
  .meta({ id: "HashReport" })

const MessageReport = z
  .object({
    ...reported,
    reported_user_id: Snowflake.describe("The author; of a message of a webhook that webhook"),
    message_id: Snowflake,
    channel_id: Snowflake,
    server_id: Snowflake.nullable(),
    message_content: z.string().nullable().describe("The beginning of the text as it was when it was first reported"),
  })
  .meta({ id: "MessageReport" })

const UserReport = z
  .object({
    ...reported,
    evidence_message_ids: z.array(Snowflake).describe("As the reporter gave them"),
  })
  .meta({ id: "UserReport" })

const ReportCounts = z
  .object({ pending: count, reviewed: count, actioned: count, dismissed: count, total: count })
  .meta({ id: "ReportCounts" })

const ReviewInput = z
  .object({ action: z.enum(["action", "dismiss", "review"]), notes: omittable(text(0, 2000)) })
  .meta({ id: "ReviewInput" })
const Reviewed = z.object({ success: z.literal(true), action: z.string() }).meta({ id: "ReviewResponse" })

const operators = { mount: "operators", tag: "Operators", auth: "operator" } as const
const keptOfReviews = { keeps: ["action", "notes"] }
const reviewing = "The last review counts. Nothing else is done: to delete, lock or ban is another call"

export const listHashReports = defineRoute({
  ...operators,
  method: "GET",
  path: "/admin/hash-reports",
  summary: "List reports of files, the newest first",
  query: z.object({ status_filter: HashReportStatus.optional(), ...listQuery() }),
  reply: z.array(HashReport),
  fails: [],
})

export const countHashReports = defineRoute({
  ...operators,
  method: "GET",
  path: "/admin/hash-reports/counts",
  summary: `Count reports of files. ${countsAre}. \`total\` holds those that were dismissed, too`,
  reply: z.object({ pending: count, blocked: count, cleared: count, total: count }).meta({ id: "HashReportCounts" }),
  fails: [],
})

export const reviewHashReport = defineRoute({
  ...operators,
  method: "POST",
  path: "/admin/hash-reports/:report_id/review",
  summary:
    "Review a report of a file. `block` blocks the file and, where the reporter asks for it, the user whom it names as the uploader, if they have sent such a file; `clear` takes the file from the block list; `dismiss` changes nothing. The last review counts",
  trail: keptOfReviews,
  params: byReport,
  body: z
    .object({ action: z.enum(["block", "clear", "dismiss"]), notes: omittable(text(0, 2000)) })
    .meta({ id: "HashReviewInput" }),
  example: { action: "dismiss", notes: "A holiday picture" },
  reply: Reviewed,
  fails: ["report_not_found"],
})

export const listMessageReports = defineRoute({
  ...operators,
  method: "GET",
  path: "/admin/message-reports",
  summary: "List reports of messages, the newest first",
  query: z.object({ status_filter: ReportStatus.optional(), ...listQuery() }),
  reply: z.array(MessageReport),
  fails: [],
})

export const countMessageReports = defineRoute({
  ...operators,
  method: "GET",
  path: "/admin/message-reports/counts",
  summary: `Count reports of messages. ${countsAre}`,
  reply: ReportCounts,
  fails: [],
})

export const getMessageReportContext = defineRoute({
  ...operators,
  method: "GET",
  path: "/admin/message-reports/:report_id/context",
  summary:
    "Get a reported message as it is now, with up to 10 messages before and 10 after it. The trail records who looked. Files are at their paths without a signature, for operators",
  trail: { keeps: [] },
  params: byReport,
  reply: z
    .object({
      report: MessageReport,
      state: z
        .enum(["unchanged", "edited", "deleted"])
        .describe("What became of the message since it was first reported; `deleted` also where its channel is gone"),
      message: Message.nullable().describe("Null: it is deleted"),
      before: z.array(Message).describe("The oldest first"),
      after: z.array(Message).describe("The oldest first"),
      channel_name: z.string().nullable(),
      server_name: z.string().nullable(),
    })
    .meta({ id: "MessageReportContext" }),
  fails: ["report_not_found"],
})

export const reviewMessageReport = defineRoute({
  ...operators,
  method: "POST",
  path: "/admin/message-reports/:report_id/review",
  summary: `Review a report of a message. ${reviewing}`,
  trail: keptOfReviews,
  params: byReport,
  body: ReviewInput,
  example: { action: "action", notes: "The author was warned" },
  reply: Reviewed,
  fails: ["report_not_found"],
})

export const listUserReports = defineRoute({
  ...operators,
  method: "GET",
  path: "/admin/user-reports",
  summary: "List reports of users, the newest first",
  query: z.object({ status_filter: ReportStatus.optional(), ...listQuery() }),
  reply: z.array(UserReport),
  fails: [],
})

export const countUserReports = defineRoute({
  ...operators,
  method: "GET",
  path: "/admin/user-reports/counts",
  summary: `Count reports of users. ${countsAre}`,
  reply: ReportCounts,
  fails: [],
})

export const reviewUserReport = defineRoute({
  ...operators,
  method: "POST",
  path: "/admin/user-reports/:report_id/review",
  summary: `Review a report of a user. ${reviewing}`,
  trail: keptOfReviews,
  params: byReport,
  body: ReviewInput,
  example: { action: "dismiss", notes: "Nothing was found" },
  reply: Reviewed,
  fails: ["report_not_found"],
})

export const routes = {
  listHashReports,
  countHashReports,
  reviewHashReport,
  listMessageReports,
  countMessageReports,
  getMessageReportContext,
  reviewMessageReport,
  listUserReports,
  countUserReports,
  reviewUserReport,
}
