import { fail } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { exportAccount } from "../../contract/core/jobs.ts"
import { secondsAt } from "../../std/clock.ts"
import { exportKeptSeconds, exportRefusal, type ExportState } from "../../domain/accounts/exports.ts"
import type { UserState } from "../../domain/accounts/user-state.ts"
import { putExport } from "../../storage/accounts/exports.ts"

import type { Readonlied } from "../../domain/core/readonlied.ts"
import type { ActorKind } from "../../runtime/actor.ts"
import { defineFact } from "../shared/facts.ts"

/**
 * A user's export, among the commands of their home. They keep:
 *   EXP1  One export is prepared at a time, and the configured interval lies between two
 *       exports.
 *   EXP2  Only the newest attempt of an export counts: a job that was presumed dead cannot
 *       change it.
 */
export interface ExportCommands {
  /** The time from one export to the next. */
  requestExport(input: { intervalSeconds: number }): ExportState
  /** A number that identifies this attempt; null: there is nothing left to do. */
  beginExport(input: { export_id: Snowflake }): { attempt: number | null }
  finishExport(input: { export_id: Snowflake; attempt: number }): { finished: boolean }
  /** A job for one that no job is at. */
  repeatExport(input: { export_id: Snowflake }): { repeated: boolean }
}

export const exportFacts = defineFact<UserState, ExportState>({
  keep: 1,
  async load(storage, user, [key]) {
    const found = await storage.exports.latest(user)
    return new Map(found ? [[key!, found]] : [])
  },
})
const latest = "latest"
const needsLatest = () => [exportFacts.need(latest)]

type User = Readonlied<UserState>

export const exportCommands: ActorKind<UserState, UserState, ExportCommands>["commands"] = {
  requestExport: {
    needs: needsLatest,
    turn({ state: user, now, newId }, { intervalSeconds }) {
      if (user.deletion_status !== "active") throw fail("account_deleted")
      const requested_at = secondsAt(now)
      const refusal = exportRefusal(exportFacts.of(user).get(latest), requested_at, intervalSeconds) // EXP1
      if (refusal) {
        const { code, ...details } = refusal
        throw fail(code, details)
      }
      const made: ExportState = { id: newId(), requested_at, attempt: 0, ready_at: null, expires_at: null }
      return {
        ...keeping(user, made),
        publish: [exportAccount.at({ user_id: user.id, export_id: made.id }, { key: `export:${made.id}` })],
        reply: made,
      }
    },
  },

  beginExport: {
    needs: needsLatest,
    turn({ state: user }, { export_id }) {
      const waiting = waitingOf(user, export_id)
      if (!waiting) return { reply: { attempt: null } }
      const attempt = waiting.attempt + 1
      return { ...keeping(user, { ...waiting, attempt }), reply: { attempt } }
    },
  },

  finishExport: {
    needs: needsLatest,
    turn({ state: user, now }, { export_id, attempt }) {
      const waiting = waitingOf(user, export_id)
      if (waiting?.attempt !== attempt) return { reply: { finished: false } } // EXP2
      const ready_at = secondsAt(now)
      const finished = { ...waiting, ready_at, expires_at: ready_at + exportKeptSeconds }
      return { ...keeping(user, finished), reply: { finished: true } }
    },
  },

  repeatExport: {
    needs: needsLatest,
    turn({ state: user, now }, { export_id }) {
      if (!waitingOf(user, export_id)) return { reply: { repeated: false } }
      // The queue takes no second job under the key of one that failed for good.
      const job = exportAccount.at({ user_id: user.id, export_id }, { key: `export:${export_id}:${now}` })
      return { publish: [job], reply: { repeated: true } }
    },
  },
}

function waitingOf(user: User, id: Snowflake): ExportState | undefined {
  const known = exportFacts.of(user).get(latest)
  return known?.id === id && known.ready_at === null ? known : undefined
}

const keeping = (user: User, row: ExportState) => ({
  apply: (draft: UserState) => {
    exportFacts.of(draft).set(latest, row)
  },
  write: [putExport({ ...row, user_id: user.id })],
})
