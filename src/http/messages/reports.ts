import { userActor } from "../../actors/user.ts"
import { fail, type ErrorCode } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { limits as fileLimits, reportSubmitted } from "../../contract/messages/file-reports.ts"
import { limits, type ReportCategory, type routes } from "../../contract/messages/reports.ts"
import { attachmentPath } from "../../domain/messages/attachments.ts"
import { reportedPart, type SaidInReport } from "../../domain/messages/reports.ts"
import { secondsAt } from "../../std/clock.ts"
import { createMayReadIn } from "./attachments.ts"
import { reportRetryAfterSeconds } from "./file-reports.ts"
import type { Handlers } from "../server/handlers.ts"
import type { Http, Policy } from "../shared/http.ts"

type ReportNeeds = Http<"messages" | "users" | "reports" | "fileBlocks"> &
  Policy<{ readonly reports_to_block_file: number }>

export const reports = (http: ReportNeeds): Handlers<typeof routes> => {
  const { ask, storage, clock, policy } = http
  const mayReadIn = createMayReadIn(http)

  async function blockWhatIsReported(hashes: Iterable<string>) {
    const reports = policy.reports_to_block_file
    if (reports === 0) return
    for (const hash of hashes) await storage.fileBlocks.blockReported(hash, reports, secondsAt(clock()))
  }

  return {
    async reportMessage({ body, caller: { user_id } }) {
      requireFewer(await storage.reports.pendingMessageReportsOf(user_id), limits.pendingMessageReports)
      const { channel_id, message_id } = body
      // Who may not read it is not told that there is one.
      const mayRead = await mayReadIn(channel_id, user_id)
      const message = mayRead && (await storage.messages.find(channel_id, [message_id])).get(message_id)
      if (!message) throw fail("message_not_found")
      const files = new Map((message.attachments ?? []).map(({ hash, file }) => [hash, attachmentPath(file)]))
      await ask(userActor, user_id, {
        type: "reportMessage",
        channel_id,
        message_id,
        server_id: message.server_id,
        reported_user_id: message.author_id,
        message_content: reportedPart(message.content),
        ...saidIn(body),
        // No more than may wait of a user's reports of files.
        files: Array.from(files, ([hash_value, attachment_url]) => ({ hash_value, attachment_url })).slice(
          0,
          Math.max(0, fileLimits.pendingFileReports - (await storage.fileBlocks.pendingReportsOf(user_id))),
        ),
      })
      await blockWhatIsReported(files.keys())
      return submitted(await storage.reports.latestMessageReport(user_id, channel_id, message_id), "message_not_found")
    },

    async reportUser({ body, caller }) {
      const { user_id, evidence_message_ids = [] } = body
      if (user_id === caller.user_id) throw fail("cannot_report_yourself")
      requireFewer(await storage.reports.pendingUserReportsOf(caller.user_id), limits.pendingUserReports)
      const user = await storage.users.find(user_id)
      if (!user || user.deletion_status === "purged") throw fail("user_not_found")
      await ask(userActor, caller.user_id, {
        type: "reportUser",
        reported_user_id: user_id,
        ...saidIn(body),
        evidence_message_ids: [...new Set(evidence_message_ids)],
      })
      return submitted(await storage.reports.latestUserReport(caller.user_id, user_id), "user_not_found")
    },
  }
}

function requireFewer(pending: number, most: number): void {
  if (pending >= most) throw fail("report_limit", { retry_after: reportRetryAfterSeconds })
}

const saidIn = (body: {
  reason: string
  category?: ReportCategory | undefined
  details?: string | undefined
}): SaidInReport => ({ reason: body.reason, category: body.category ?? "other", details: body.details ?? null })

/** No id: the account that it is about has been erased since. */
function submitted(report_id: Snowflake | undefined, otherwise: ErrorCode) {
  if (report_id === undefined) throw fail(otherwise)
  return { success: true, report_id, message: reportSubmitted } as const
}
