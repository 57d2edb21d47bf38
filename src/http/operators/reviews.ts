import { fail } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { limits, type routes } from "../../contract/operators/reviews.ts"
import { attachmentPath } from "../../domain/messages/attachments.ts"
import { operatorsBlock } from "../../domain/messages/file-blocks.ts"
import { messageObject, type MessageState } from "../../domain/messages/messages.ts"
import { isEditedSince } from "../../domain/messages/reports.ts"
import type { Operator } from "../../domain/operators/operators.ts"
import { compareIds } from "../../domain/core/snowflake.ts"
import { secondsAt } from "../../std/clock.ts"
import type { Handlers } from "../server/handlers.ts"
import type { Http } from "../shared/http.ts"

const usualReason = "Blocked by admin"

type ReviewNeeds = Http<"reports" | "fileBlocks" | "messages">

/** What wait for operators: reports of files, messages and users. */
export const reviews = ({ storage, clock }: ReviewNeeds): Handlers<typeof routes> => {
  const { reports, fileBlocks } = storage

  /** A decision, as it is kept. */
  const decided = <Action extends string>(
    id: Snowflake,
    { action, notes }: { action: Action; notes?: string | undefined },
    operator: Operator,
  ) => ({ id, action, notes: notes ?? null, by: operator.id, at: secondsAt(clock()) })

  /** As an operator sees it: files at paths that only operators and readers may read. */
  const shown = (message: MessageState) =>
    messageObject(message, { reader: null, linkTo: attachmentPath, now: clock() })

  return {
    listHashReports: ({ query: { status_filter, ...place } }) =>
      fileBlocks.hashReports({ status: status_filter, ...place }),

    async countHashReports() {
      const { reviewed, ...counts } = await fileBlocks.hashReportCounts(limits.counted)
      return { ...counts, total: totalOf({ reviewed, ...counts }) }
    },

    async reviewHashReport({ params: { report_id }, body, operator, trail }) {
      const hash = await fileBlocks.reportedHash(report_id)
      if (hash === undefined) throw fail("report_not_found")
      const review = decided(report_id, body, operator)
      if (review.action === "block") {
        const block = operatorsBlock(hash, review.notes || usualReason, review.at, review.by)
        const done = await fileBlocks.blockAsReported(review, block)
        if (!done) throw fail("report_not_found")
        trail.result = { hash_value: hash, ...done }
      } else {
        const isThere = await (review.action === "clear"
          ? fileBlocks.clearAsReported(review)
          : fileBlocks.dismissHashReport(review))
        if (!isThere) throw fail("report_not_found")
        trail.result = { hash_value: hash }
      }
      return { success: true, action: review.action }
    },

    listMessageReports: ({ query: { status_filter, ...place } }) =>
      reports.messageReports({ status: status_filter, ...place }),

    async countMessageReports() {
      const counts = await reports.messageReportCounts(limits.counted)
      return { ...counts, total: totalOf(counts) }
    },

    async getMessageReportContext({ params: { report_id } }) {
      const report = await reports.messageReport(report_id)
      if (!report) throw fail("report_not_found")
      const { channel_id, message_id } = report
      const [{ messages }, names] = await Promise.all([
        // The message itself stands among the older ones: where it is deleted, one more is read than shown.
        storage.messages.page(channel_id, { around: message_id, limit: 2 * limits.context + 1 }),
        reports.placeOf(channel_id, report.server_id),
      ])
      const message = messages.find(({ id }) => id === message_id)
      const isAfter = ({ id }: MessageState) => compareIds(id, message_id) > 0
      const isBefore = ({ id }: MessageState) => compareIds(id, message_id) < 0
      const oldestFirst = messages.toReversed()
      return {
        report,
        state: message ? (isEditedSince(report, message) ? "edited" : "unchanged") : "deleted",
        message: message ? shown(message) : null,
        before: oldestFirst.filter(isBefore).slice(-limits.context).map(shown),
        after: oldestFirst.filter(isAfter).map(shown),
        ...names,
      }
    },

    async reviewMessageReport({ params: { report_id }, body, operator }) {
      if (!(await reports.reviewMessage(decided(report_id, body, operator)))) throw fail("report_not_found")
      return { success: true, action: body.action }
    },

    listUserReports: ({ query: { status_filter, ...place } }) =>
      reports.userReports({ status: status_filter, ...place }),

    async countUserReports() {
      const counts = await reports.userReportCounts(limits.counted)
      return { ...counts, total: totalOf(counts) }
    },

    async reviewUserReport({ params: { report_id }, body, operator }) {
      if (!(await reports.reviewUser(decided(report_id, body, operator)))) throw fail("report_not_found")
      return { success: true, action: body.action }
    },
  }
}

export const totalOf = (counts: Readonly<Record<string, number>>): number =>
  Object.values(counts).reduce((sum, count) => sum + count, 0)
