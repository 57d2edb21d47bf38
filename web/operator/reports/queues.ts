import type { CallOptions } from "../../kit/api.ts"
import { t } from "../../kit/text.ts"
import { call } from "../client.ts"
import type { HashReport, MessageReport, UserReport } from "../wire.ts"

export type Kind = "messages" | "users" | "files"
export type Report = MessageReport | UserReport | HashReport

interface Decision {
  readonly key: string
  readonly action: string
  readonly does: string
  /** What is said then. Absent: it is more than closing the report, and asks first. */
  readonly done?: string
  readonly tone?: "danger" | "strong"
}

export interface Queue<R extends Report> {
  list(query: { limit?: number; offset?: number; status_filter: string }, signal: AbortSignal): Promise<R[]>
  review(id: string, decision: { action: string; notes?: string }, options: CallOptions): Promise<unknown>
  /** The states of reports that are decided. */
  readonly decided: readonly string[]
  readonly decisions: readonly Decision[]
}

const forPeople: readonly Decision[] = [
  { key: "a", action: "action", does: t("Act …"), tone: "danger" },
  { key: "d", action: "dismiss", does: t("Dismiss"), done: t("The report is dismissed.") },
  { key: "r", action: "review", does: t("Only note"), done: t("The report is noted as reviewed.") },
]

type Action<A> = { action: A; notes?: string }

export const queues: { messages: Queue<MessageReport>; users: Queue<UserReport>; files: Queue<HashReport> } = {
  messages: {
    list: (query, signal) => call("GET /message-reports", { query }, { signal }),
    review: (report_id, decision, options) =>
      call(
        "POST /message-reports/:report_id/review",
        { params: { report_id }, body: decision as Action<"action" | "dismiss" | "review"> },
        options,
      ),
    decided: ["actioned", "dismissed", "reviewed"],
    decisions: forPeople,
  },
  users: {
    list: (query, signal) => call("GET /user-reports", { query }, { signal }),
    review: (report_id, decision, options) =>
      call(
        "POST /user-reports/:report_id/review",
        { params: { report_id }, body: decision as Action<"action" | "dismiss" | "review"> },
        options,
      ),
    decided: ["actioned", "dismissed", "reviewed"],
    decisions: forPeople,
  },
  files: {
    list: (query, signal) => call("GET /hash-reports", { query }, { signal }),
    review: (report_id, decision, options) =>
      call(
        "POST /hash-reports/:report_id/review",
        { params: { report_id }, body: decision as Action<"block" | "clear" | "dismiss"> },
        options,
      ),
    decided: ["blocked", "cleared", "reviewed"],
    decisions: [
      { key: "b", action: "block", does: t("Block …"), tone: "danger" },
      { key: "c", action: "clear", does: t("Clear"), done: t("The file is cleared, and is not blocked.") },
      { key: "d", action: "dismiss", does: t("Dismiss"), done: t("The report is dismissed.") },
    ],
  },
}
