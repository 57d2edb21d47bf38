import type { Snowflake } from "../../contract/core/fields.ts"
import { secondsAt } from "../../std/clock.ts"
import type { HashReport } from "../../domain/messages/file-blocks.ts"
import type { UserState } from "../../domain/accounts/user-state.ts"
import type { ActorKind } from "../../runtime/actor.ts"
import { putHashReport } from "../../storage/messages/file-blocks.ts"

export interface FileReportCommands {
  /** Notes what a user says of a file. */
  reportFile(input: Omit<HashReport, "id" | "reporter_id" | "reported_at">): { report_id: Snowflake }
}

export const fileReportCommands: ActorKind<UserState, UserState, FileReportCommands>["commands"] = {
  reportFile: {
    turn({ state: user, now, newId }, report) {
      const id = newId()
      return {
        write: [putHashReport({ ...report, id, reporter_id: user.id, reported_at: secondsAt(now) })],
        reply: { report_id: id },
      }
    },
  },
}
