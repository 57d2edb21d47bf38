import { finalsOf, isA, operationsOf, type Check } from "../history.ts"

/**
 * P1: every message that was acknowledged is in the final read, unless somebody deleted it; a
 * deleted one is not.
 */
export const lost: Check = history => {
  const operations = operationsOf(history)
  const finals = finalsOf(history)
  const stored = new Map([...finals].flatMap(([, messages]) => messages.map(message => [message.id, message] as const)))
  const deletions = new Map<string, "ok" | "maybe">()
  for (const { action, outcome } of operations.filter(isA("delete")))
    if (outcome !== "fail" && deletions.get(action.message) !== "ok") deletions.set(action.message, outcome)

  const findings = operations.filter(isA("send")).flatMap(({ action, outcome, op, messages, to }) => {
    if (outcome !== "ok" || !finals.has(action.channel)) return []
    const [message] = messages
    if (!message) return [{ promise: "P1", what: `send ${op} was answered 2xx without a message`, at: to }]
    if (deletions.has(message.id)) return []
    const found = stored.get(message.id)
    if (!found) return [{ promise: "P1", what: `${action.body} (${message.id}) was acknowledged and is lost`, at: to }]
    return []
  })
  for (const [message, outcome] of deletions)
    if (outcome === "ok" && stored.has(message))
      findings.push({ promise: "P1", what: `${message} was deleted with a 2xx and is there again`, at: 0 })
  for (const { action, outcome, to } of operations.filter(isA("edit"))) {
    const found = stored.get(action.message)
    if (outcome === "ok" && found && found.content !== action.body)
      findings.push({
        promise: "P1",
        what: `the acknowledged edit ${action.body} of ${action.message} is lost`,
        at: to,
      })
  }
  return findings
}
