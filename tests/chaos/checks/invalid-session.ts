import { finalsOf, operationsOf, type Check, type Finding } from "../history.ts"

/** Nanoseconds that an event may take to a session that lives. */
const underWay = 1e9

/**
 * P6: what cannot be resumed is said. After INVALID_SESSION the old session is silent, and a reader
 * that reads the history at each READY knows, at the end, everything that was sent since its first.
 */
export const invalidSession: Check = history => {
  const findings: Finding[] = []
  const over = new Set<string>()
  const firstReady = new Map<string, number>()
  const ends = new Map<string, number>()
  const knows = new Map<string, Set<string>>()
  const learn = (reader: string, id: string) => {
    const known = knows.get(reader) ?? new Set()
    knows.set(reader, known.add(id))
  }
  for (const entry of history) {
    if (entry.type === "ready" && entry.steady && !firstReady.has(entry.reader)) firstReady.set(entry.reader, entry.at)
    else if (entry.type === "invalid") over.add(entry.session)
    else if (entry.type === "end") ends.set(entry.reader, entry.at)
    else if (entry.type === "event" || entry.type === "resumed") {
      if (over.has(entry.session))
        findings.push({
          promise: "P6",
          what: `session ${entry.session} of ${entry.reader} goes on after INVALID_SESSION`,
          at: entry.at,
        })
      if (entry.type === "event") learn(entry.reader, entry.message)
    }
  }
  const begun = new Map<string, number>()
  const acked = new Map<string, number>()
  const deleted = new Set<string>()
  for (const { action, from, to, messages, outcome } of operationsOf(history)) {
    if (action.do === "send" && !begun.has(action.body)) begun.set(action.body, from)
    if (action.do === "send" && messages[0]) acked.set(messages[0].id, Math.min(to, acked.get(messages[0].id) ?? to))
    if (action.do === "delete" && outcome !== "fail") deleted.add(action.message)
    if (action.do === "page" && action.reader !== undefined) for (const { id } of messages) learn(action.reader, id)
  }
  for (const [reader, since] of firstReady) {
    const end = ends.get(reader)
    if (end === undefined) continue
    const known = knows.get(reader) ?? new Set()
    for (const [channel, messages] of finalsOf(history)) {
      // What was committed after the end, without an answer, is not owed.
      const newest = messages.findLastIndex(({ id }) => known.has(id))
      for (const [at, { id, content }] of messages.entries()) {
        const owed = at < newest || (acked.get(id) ?? Number.POSITIVE_INFINITY) < end - underWay
        if (owed && !known.has(id) && (begun.get(content ?? "") ?? 0) > since)
          findings.push({ promise: "P6", what: `${reader} never learned of ${content} (${id}) in ${channel}` })
      }
    }
  }
  return findings
}
