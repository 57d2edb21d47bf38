import { z } from "zod"
import { sample } from "../core/examples.ts"
import { omittable, SnowflakeInput, text } from "../core/fields.ts"
import { refused, type LimitNotes } from "../core/limit-notes.ts"
import { defineRoute } from "../core/registry.ts"
import { ReportResponse } from "./file-reports.ts"

export const limits = {
  /** Reports of one user that nobody has reviewed. */
  pendingMessageReports: 100,
  pendingUserReports: 100,
  evidenceMessages: 100,
  /** Of the reported message's text, as it was when it was first reported. */
  reportedCharacters: 500,
} as const
export const limitNotes: LimitNotes<typeof limits> = {
  pendingMessageReports: refused("reports", "report_limit"),
  pendingUserReports: refused("reports", "report_limit"),
  evidenceMessages: refused("ids"),
  reportedCharacters: { unit: "characters", beyond: "left out of what operators see of a deleted message" },
}

export const ReportCategory = z.enum([
  "harassment",
  "spam",
  "inappropriate",
  "illegal",
  "hate_speech",
  "threats",
  "impersonation",
  "other",
])
export type ReportCategory = z.infer<typeof ReportCategory>

/** What a reporter says, whatever they report. */
const said = {
  reason: text(1, 500),
  category: omittable(ReportCategory).describe("Default: `other`"),
  details: omittable(text(0, 2000)),
}

export const reportMessage = defineRoute({
  method: "POST",
  path: "/reports/messages",
  summary:
    "Report a message that you can read to the operators, with its files. Until it is reviewed, a further report by the same user changes reason, category and details of the one before and is answered with its id",
  tag: "Reports",
  auth: "person",
  body: z
    .object({
      message_id: SnowflakeInput,
      channel_id: SnowflakeInput,
      server_id: omittable(SnowflakeInput).describe("Ignored: the server is the channel's"),
      ...said,
    })
    .meta({ id: "MessageReportInput" }),
  example: {
    channel_id: sample.channel,
    message_id: sample.message,
    reason: "Insults",
    category: "harassment",
  },
  reply: ReportResponse,
  fails: ["message_not_found", "report_limit"],
})

export const reportUser = defineRoute({
  method: "POST",
  path: "/reports/users",
  summary:
    "Report a user to the operators. Until it is reviewed, a further report by the same user changes the one before and is answered with its id",
  tag: "Reports",
  auth: "person",
  body: z
    .object({
      user_id: SnowflakeInput,
      ...said,
      evidence_message_ids: omittable(z.array(SnowflakeInput).max(limits.evidenceMessages)),
    })
    .meta({ id: "UserReportInput" }),
  example: { user_id: sample.other, reason: "Insults in several channels", category: "harassment" },
  reply: ReportResponse,
  fails: ["cannot_report_yourself", "user_not_found", "report_limit"],
})

export const routes = { reportMessage, reportUser }
