import { compareIds } from "../../../src/domain/core/snowflake.ts"
import { finalsOf, isA, operationsOf, type Check, type Finding } from "../history.ts"

interface Session {
  reader: string
  id: string
  ready: number
  /** When the run was over, for a session that was live then. */
  end: number | undefined
  /** By channel, the ids of MESSAGE_CREATE in the order of arrival. */
  created: Map<string, string[]>
  /** "MESSAGE_UPDATE id content", "MESSAGE_DELETE id". */
  changes: Set<string>
}

/** Nanoseconds that an event may take to a session that lives. */
const underWay = 1e9

/**
 * P5: what a session saw, live and replayed, between its READY and its end is what happened in that
 * time: nothing is missing (a hole), nothing is there that never was (an event of what is not
 * committed). Order and repeats: P3 and P2.
 */
export const resume: Check = history => {
  const findings: Finding[] = []
  const operations = operationsOf(history)
  const finals = finalsOf(history)
  const sessions = new Map<string, Session>()
  for (const entry of history) {
    if (entry.type === "ready" && entry.steady) {
      const { session: id, reader, at: ready } = entry
      sessions.set(id, { reader, id, ready, end: undefined, created: new Map(), changes: new Set() })
    } else if (entry.type === "event") {
      const session = sessions.get(entry.session)
      if (!session) continue
      if (entry.name === "MESSAGE_CREATE") {
        const list = session.created.get(entry.channel) ?? []
        session.created.set(entry.channel, list)
        list.push(entry.message)
      } else if (entry.name === "MESSAGE_UPDATE") session.changes.add(`${entry.name} ${entry.message} ${entry.content}`)
      else session.changes.add(`${entry.name} ${entry.message}`)
    } else if (entry.type === "end") {
      const session = sessions.get(entry.session)
      if (session) session.end = entry.at
    }
  }

  const deleted = new Set<string>()
  for (const { action, outcome } of operations.filter(isA("delete")))
    if (outcome !== "fail") deleted.add(action.message)
  /** Of each message of the history: when its first send began; 0 where nobody knows. */
  const begunByBody = new Map<string, number>()
  const begun = new Map<string, number>()
  const acked = new Map<string, number>()
  for (const { action, from, to, messages } of operations.filter(isA("send"))) {
    if (!begunByBody.has(action.body)) begunByBody.set(action.body, from)
    const [message] = messages
    if (!message) continue
    begun.set(message.id, begunByBody.get(action.body)!)
    acked.set(message.id, Math.min(to, acked.get(message.id) ?? to))
  }
  for (const messages of finals.values())
    for (const { id, content } of messages) if (!begun.has(id)) begun.set(id, begunByBody.get(content ?? "") ?? 0)

  for (const session of sessions.values()) {
    const where = `session ${session.id} of ${session.reader}`
    for (const [channel, stored] of finals) {
      const list = session.created.get(channel) ?? []
      const saw = new Set(list)
      const first = list[0]
      const last = list.at(-1)
      for (const { id, content } of stored) {
        if (saw.has(id)) continue
        const inside = first !== undefined && compareIds(id, first) > 0 && compareIds(id, last!) < 0
        const owed =
          (last !== undefined && compareIds(id, last) < 0) ||
          (session.end !== undefined && (acked.get(id) ?? Number.POSITIVE_INFINITY) < session.end - underWay)
        const later = begun.get(id)! > session.ready && owed
        if (inside || later) findings.push({ promise: "P5", what: `${where} missed ${content} (${id}) in ${channel}` })
      }
      const exist = new Set(stored.map(({ id }) => id))
      for (const id of list)
        if (!exist.has(id) && !deleted.has(id))
          findings.push({ promise: "P5", what: `${where} was shown ${id} in ${channel}, which is not stored` })
    }
    if (session.end === undefined) continue
    for (const { action, outcome, from, to } of operations) {
      if (outcome !== "ok" || from < session.ready || to > session.end - underWay) continue
      if (action.do === "edit" && !session.changes.has(`MESSAGE_UPDATE ${action.message} ${action.body}`))
        findings.push({ promise: "P5", what: `${where} missed the edit ${action.body} of ${action.message}` })
      if (action.do === "delete" && !session.changes.has(`MESSAGE_DELETE ${action.message}`))
        findings.push({ promise: "P5", what: `${where} missed the deletion of ${action.message}` })
    }
  }
  return findings
}
