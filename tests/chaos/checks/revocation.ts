import { isA, operationsOf, type Check, type Finding } from "../history.ts"

/** Reads with a revoked token may go on for this long. */
const lateReads = 1e9

/**
 * P12: after the answer to a logout, a leave, a kick or a ban no write is accepted, and nothing that was sent
 * later arrives.
 */
export const revocation: Check = history => {
  const findings: Finding[] = []
  const operations = operationsOf(history)
  const loggedOut = new Map<string, number>()
  for (const { session, outcome, to } of operations.filter(isA("logout")))
    if (outcome === "ok") loggedOut.set(session, Math.min(to, loggedOut.get(session) ?? Number.POSITIVE_INFINITY))

  /** By client and server, from the answer to a leave to the beginning of the next join. */
  const absences = new Map<string, { from: number; to: number }[]>()
  for (const { action, client: by, outcome, from, to } of operations) {
    if (action.do !== "leave" && action.do !== "remove" && action.do !== "join") continue
    const client = action.do === "remove" ? action.from : by
    const key = `${client} ${action.server}`
    const list = absences.get(key) ?? []
    absences.set(key, list)
    if (action.do === "join") {
      // A join that was refused did nothing, but one that overlaps a leave makes its end unknown.
      for (const absence of list) if (outcome !== "fail" && absence.to > from) absence.to = Math.max(absence.from, from)
    } else if (outcome === "ok") list.push({ from: to, to: Number.POSITIVE_INFINITY })
  }
  const isAbsent = (client: string, server: string, from: number, to: number) =>
    (absences.get(`${client} ${server}`) ?? []).some(absence => absence.from < from && to < absence.to)

  /** When the first try of a message's send began. */
  const begun = new Map<string, { from: number; server: string }>()
  const bodies = new Map<string, number>()
  for (const { action, client, session, op, from, to, outcome, messages } of operations) {
    const out = loggedOut.get(session) ?? Number.POSITIVE_INFINITY
    const isRead = ["get", "page", "look"].includes(action.do)
    if (outcome === "ok" && action.do !== "logout" && from > out + (isRead ? lateReads : 0))
      findings.push({ promise: "P12", what: `${action.do} ${op} was accepted after the logout of ${session}`, at: to })
    if (action.do !== "send") continue
    if (!bodies.has(action.body)) bodies.set(action.body, from)
    if (messages[0]) begun.set(messages[0].id, { from: bodies.get(action.body)!, server: action.server })
    if (outcome === "ok" && isAbsent(client, action.server, from, to))
      findings.push({
        promise: "P12",
        what: `send ${op} was accepted after ${client} had left ${action.server}`,
        at: to,
      })
  }

  for (const entry of history) {
    if (entry.type !== "event" || entry.name !== "MESSAGE_CREATE") continue
    const sent = begun.get(entry.message)
    if (!sent) continue
    if (sent.from > (loggedOut.get(entry.login) ?? Number.POSITIVE_INFINITY))
      findings.push({
        promise: "P12",
        what: `${entry.reader} got ${entry.message}, sent after the logout of ${entry.login}`,
        at: entry.at,
      })
    if (isAbsent(entry.client, sent.server, sent.from, entry.at))
      findings.push({
        promise: "P12",
        what: `${entry.reader} got ${entry.message}, sent after it had left ${sent.server}`,
        at: entry.at,
      })
  }
  return findings
}
