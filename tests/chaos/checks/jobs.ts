import { isA, operationsOf, type Check, type Finding } from "../history.ts"

/** Nanoseconds that an event may take to a session that lives. */
const underWay = 1e9
/** Of somebody with so many the oldest may be forgotten. */
const fewerThanKept = 900

/**
 * P15: what a request was acknowledged for is done by a job once, whatever becomes of those who run
 * jobs. A mention makes one notification, which a session is told of once; an invite ends, and is
 * said to end once; a mail goes out at least once. What is not done is still noted as owed, and
 * nothing is owed any longer when every job has had the time of a lost one.
 */
export const jobs: Check = history => {
  const findings: Finding[] = []
  const find = (what: string, at?: number) =>
    void findings.push({ promise: "P15", what, ...(at !== undefined && { at }) })
  const operations = operationsOf(history)

  /** By session: what it was told, and when it began and ended. */
  const told = new Map<string, Set<string>>()
  const sessions = new Map<string, { client: string; ready: number; end?: number }>()
  for (const entry of history) {
    if (entry.type === "ready" && entry.steady) sessions.set(entry.session, { client: entry.client, ready: entry.at })
    else if (entry.type === "end") {
      const session = sessions.get(entry.session)
      if (session) session.end = entry.at
    } else if (entry.type === "told") {
      const known = told.get(entry.session) ?? new Set()
      told.set(entry.session, known)
      const key = `${entry.name} ${entry.about}`
      if (known.has(key)) find(`session ${entry.session} of ${entry.reader} was told ${key} twice`, entry.at)
      known.add(key)
    }
  }

  const seen = history.findLast(entry => entry.type === "jobs")
  if (!seen) return findings
  const deleted = new Set(
    operations.filter(isA("delete")).flatMap(({ action, outcome }) => (outcome === "fail" ? [] : [action.message])),
  )
  const owed = new Set(seen.owedMentions)
  const times = new Map(seen.notified.map(({ user, message, times }) => [`${user} ${message}`, times]))
  const kept = new Map<string, number>()
  for (const { user } of seen.notified) kept.set(user, (kept.get(user) ?? 0) + 1)
  const userOf = new Map(seen.users.map(({ client, user }) => [client, user]))
  for (const [key, count] of times) if (count > 1) find(`${key} was notified ${count} times`)

  // What is acknowledged in the end may have been done by an earlier attempt, before a session began.
  const tried = new Map<string, number>()
  for (const { action, from } of operations.filter(isA("send")))
    tried.set(action.nonce, Math.min(tried.get(action.nonce) ?? Infinity, from))
  const judged = new Set<string>()
  for (const { action, outcome, messages, to } of operations.filter(isA("send"))) {
    const [message] = messages
    if (outcome !== "ok" || !message || action.mentions === undefined || to > seen.at) continue
    const { id } = message
    if (deleted.has(id) || judged.has(id) || (kept.get(action.mentions) ?? 0) >= fewerThanKept) continue
    judged.add(id)
    if (!times.has(`${action.mentions} ${id}`)) {
      if (!owed.has(id)) find(`the mention in ${action.body} (${id}) was acknowledged and its notification is lost`, to)
      else if (seen.waited) find(`the mention in ${action.body} (${id}) was never notified`, to)
      continue
    }
    for (const [name, { client, ready, end }] of sessions)
      if (
        end !== undefined &&
        ready < tried.get(action.nonce)! &&
        seen.at < end - underWay &&
        userOf.get(client) === action.mentions &&
        !told.get(name)?.has(`NOTIFICATION_CREATE ${id}`)
      )
        find(`session ${name} was not told of its notification of ${id}`, to)
  }

  const invites = new Map(seen.invites.map(({ code, ended }) => [code, ended]))
  for (const { code, outcome, to } of operations.filter(isA("invite"))) {
    if (outcome !== "ok" || code === undefined || to > seen.at) continue
    const ended = invites.get(code)
    if (ended === undefined) find(`the invite ${code} was acknowledged and is lost`, to)
    else if (!ended && seen.waited) find(`the invite ${code} was never ended`, to)
  }

  const asked = new Map<string, number>()
  for (const { action, outcome } of operations.filter(isA("mail")))
    if (outcome === "ok") asked.set(action.address, (asked.get(action.address) ?? 0) + 1)
  for (const { address, sent, owed, arrived } of seen.mails) {
    if (arrived < sent) find(`${sent} mails to ${address} count as sent, and ${arrived} arrived`)
    if (owed > 0 && seen.waited) find(`${owed} mails to ${address} were never sent`)
    const wanted = asked.get(address) ?? 0
    if (sent + owed < wanted) find(`${wanted} mails to ${address} were acknowledged, and ${sent + owed} are noted`)
  }
  return findings
}
