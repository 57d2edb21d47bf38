import type { Snowflake } from "../../contract/core/fields.ts"
import { secondsAt } from "../../std/clock.ts"
import type { UserState } from "../../domain/accounts/user-state.ts"
import type { HashReport } from "../../domain/messages/file-blocks.ts"
import type { MessageReport, UserReport } from "../../domain/messages/reports.ts"
import type { ActorKind } from "../../runtime/actor.ts"
import { addHashReport } from "../../storage/messages/file-blocks.ts"
import { putMessageReport, putUserReport } from "../../storage/messages/reports.ts"

type Own = "id" | "reporter_id" | "reported_at"
/** A file of a reported message. */
export type ReportedFile = Pick<HashReport, "hash_value" | "attachment_url">

export interface ReportCommands {
  /** Notes what a user says of a message, and the same of its files. */
  reportMessage(input: Omit<MessageReport, Own> & { files: readonly ReportedFile[] }): { report_id: Snowflake }
  /** Notes what a user says of another. */
  reportUser(input: Omit<UserReport, Own>): { report_id: Snowflake }
}

/** The ids that are answered are those of new reports: a report that is repeated keeps its own. */
export const reportCommands: ActorKind<UserState, UserState, ReportCommands>["commands"] = {
  reportMessage: {
    turn({ state: user, now, newId }, { files, ...report }) {
      const own = { reporter_id: user.id, reported_at: secondsAt(now) }
      const id = newId()
      const { reason, details, message_id, reported_user_id: uploader_id } = report
      const ofFiles = files.map(file =>
        addHashReport({
          ...file,
          ...own,
          id: newId(),
          phash_value: null,
          reason,
          details,
          uploader_id,
          message_id,
          block_uploader: false,
          counts: true,
        }),
      )
      return { write: [putMessageReport({ ...report, ...own, id }), ...ofFiles], reply: { report_id: id } }
    },
  },

  reportUser: {
    turn({ state: user, now, newId }, report) {
      const id = newId()
      return {
        write: [putUserReport({ ...report, id, reporter_id: user.id, reported_at: secondsAt(now) })],
        reply: { report_id: id },
      }
    },
  },
}
