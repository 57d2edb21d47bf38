import { isA, operationsOf, type Check, type Finding } from "../history.ts"

interface Known {
  sent: number
  content: string
  edits: { body: string; from: number; to: number; outcome: string }[]
  deletedFrom: number
}

/** P4: what was acknowledged before a GET began is in its answer, whichever worker answers. */
export const readAfterAck: Check = history => {
  const findings: Finding[] = []
  const operations = operationsOf(history)
  const known = new Map<string, Known>()
  for (const { action, outcome, messages, to } of operations.filter(isA("send"))) {
    const [message] = messages
    if (outcome !== "ok" || !message) continue
    const before = known.get(message.id)
    if (before) before.sent = Math.min(before.sent, to)
    else known.set(message.id, { sent: to, content: action.body, edits: [], deletedFrom: Number.POSITIVE_INFINITY })
  }
  for (const { action, from, to, outcome } of operations) {
    if (outcome === "fail") continue
    if (action.do === "edit") known.get(action.message)?.edits.push({ body: action.body, from, to, outcome })
    if (action.do === "delete") {
      const message = known.get(action.message)
      if (message) message.deletedFrom = Math.min(message.deletedFrom, from)
    }
  }

  for (const { action, op, from, to, outcome, status, messages } of operations) {
    if ((action.do !== "get" && action.do !== "page") || outcome === "maybe") continue
    const asked = action.do === "get" ? action.message : undefined
    if (asked === undefined) continue
    const message = known.get(asked)
    if (!message || message.sent > from || message.deletedFrom <= to) continue
    const found = messages.find(({ id }) => id === asked)
    if (outcome === "fail" || !found) {
      findings.push({ promise: "P4", what: `get ${op} does not show ${asked} (${status})`, at: to })
      continue
    }
    const settled = message.edits.filter(edit => edit.outcome === "ok" && edit.to < from).map(edit => edit.body)
    const open = message.edits.filter(edit => edit.from < to).map(edit => edit.body)
    const allowed = settled.length > 0 ? open : [message.content, ...open]
    if (!allowed.includes(found.content ?? ""))
      findings.push({
        promise: "P4",
        what: `get ${op} shows ${asked} as ${found.content}, not as ${allowed.join(" or ")}`,
        at: to,
      })
  }
  return findings
}
