import { userActor } from "../../actors/user.ts"
import { fail } from "../../contract/core/errors.ts"
import { limits, reportSubmitted, type routes } from "../../contract/messages/file-reports.ts"
import { secondsAt } from "../../std/clock.ts"
import { createMayReadInAny, maxChannelsTried } from "./attachments.ts"
import type { Handlers } from "../server/handlers.ts"
import type { Http, Policy } from "../shared/http.ts"

/** Nobody knows when somebody reviews them. */
export const reportRetryAfterSeconds = 3_600

type FileReportNeeds = Http<"uploads" | "fileBlocks"> & Policy<{ readonly reports_to_block_file: number }>

export const fileReports = (http: FileReportNeeds): Handlers<typeof routes> => {
  const { ask, storage, clock, policy } = http
  const mayReadInAny = createMayReadInAny(http)

  return {
    getCompressionStatus: () => ({ enabled: true, image_compression: true, video_compression: false }),

    async getHashStatus({ params: { hash_value } }) {
      const blocked = await storage.fileBlocks.blockedHash(hash_value.toLowerCase())
      return { hash_value, is_blocked: blocked !== undefined, reason: blocked?.reason ?? null }
    },

    async reportFile({ body, caller: { user_id, bot } }) {
      const { hash_value, phash_value = null, details = null, uploader_id = null, message_id = null } = body
      if ((await storage.fileBlocks.pendingReportsOf(user_id)) >= limits.pendingFileReports)
        throw fail("report_limit", { retry_after: reportRetryAfterSeconds })
      const channels = await storage.uploads.channelsShowingHash(hash_value, user_id, maxChannelsTried)
      const made = await ask(userActor, user_id, {
        type: "reportFile",
        hash_value,
        phash_value,
        reason: body.reason,
        details,
        uploader_id,
        message_id,
        attachment_url: body.attachment_url ?? null,
        block_uploader: body.block_uploader ?? false,
        // An owner may have many bots.
        counts: !bot && (await mayReadInAny(channels, user_id)),
      })
      const reports = policy.reports_to_block_file
      if (reports > 0) await storage.fileBlocks.blockReported(hash_value, reports, secondsAt(clock()))
      // One that was there before has kept its id.
      const report_id = (await storage.fileBlocks.latestReport(user_id, hash_value)) ?? made.report_id
      return { success: true, report_id, message: reportSubmitted }
    },
  }
}
