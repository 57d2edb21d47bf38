import { compareIds } from "../../../src/domain/core/snowflake.ts"
import { finalsOf, isA, operationsOf, type Check, type Finding } from "../history.ts"

/**
 * P3: one order per channel. Ids rise in the history and in every session; a send that began after
 * another was acknowledged has the higher id; `s` rises within a session.
 */
export const order: Check = history => {
  const findings: Finding[] = []
  for (const [channel, messages] of finalsOf(history))
    for (const [at, { id }] of messages.entries())
      if (at > 0 && compareIds(messages[at - 1]!.id, id) >= 0)
        findings.push({ promise: "P3", what: `in ${channel} ${id} stands after ${messages[at - 1]!.id}` })

  /** By session and channel, and by session. */
  const lastId = new Map<string, string>()
  const lastS = new Map<string, number>()
  for (const entry of history) {
    if (entry.type !== "event") continue
    const { session, reader, channel, message, s, at } = entry
    if (s <= (lastS.get(session) ?? -1))
      findings.push({
        promise: "P3",
        what: `session ${session} of ${reader} got s ${s} after ${lastS.get(session)}`,
        at,
      })
    lastS.set(session, s)
    if (entry.name !== "MESSAGE_CREATE") continue
    const key = `${session} ${channel}`
    const last = lastId.get(key)
    if (last !== undefined && compareIds(last, message) > 0)
      findings.push({ promise: "P3", what: `session ${session} of ${reader} got ${message} after ${last}`, at })
    lastId.set(key, message)
  }

  // In the order of their beginnings; the highest id that had been acknowledged when each began.
  const sends = operationsOf(history)
    .filter(isA("send"))
    .filter(({ messages, outcome }) => outcome === "ok" && messages[0])
  const firstByBody = new Map<string, number>()
  for (const entry of history)
    if (entry.type === "invoke" && entry.action.do === "send" && !firstByBody.has(entry.action.body))
      firstByBody.set(entry.action.body, entry.at)
  const acked = sends.toSorted((a, b) => a.to - b.to)
  const begun = sends.toSorted((a, b) => firstByBody.get(a.action.body)! - firstByBody.get(b.action.body)!)
  const highest = new Map<string, string>()
  let next = 0
  for (const { action, messages } of begun) {
    const began = firstByBody.get(action.body)!
    for (; next < acked.length && acked[next]!.to < began; next++) {
      const { action: before, messages: answered } = acked[next]!
      const known = highest.get(before.channel)
      if (known === undefined || compareIds(answered[0]!.id, known) > 0) highest.set(before.channel, answered[0]!.id)
    }
    const floor = highest.get(action.channel)
    if (floor !== undefined && compareIds(messages[0]!.id, floor) <= 0)
      findings.push({
        promise: "P3",
        what: `${action.body} (${messages[0]!.id}) began after ${floor} was acknowledged`,
        at: began,
      })
  }
  return findings
}
