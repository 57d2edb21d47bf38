import { finalsOf, type Check, type Finding } from "../history.ts"

/**
 * P2: a body is in the history once, however often its send was tried; a session gets one
 * MESSAGE_CREATE of it.
 */
export const once: Check = history => {
  const findings: Finding[] = []
  for (const [channel, messages] of finalsOf(history)) {
    const ids = new Set<string>()
    const bodies = new Map<string, string>()
    for (const { id, content } of messages) {
      if (ids.has(id)) findings.push({ promise: "P2", what: `${id} stands twice in the history of ${channel}` })
      ids.add(id)
      const twin = content === null ? undefined : bodies.get(content)
      if (twin) findings.push({ promise: "P2", what: `${content} is in ${channel} twice: ${twin} and ${id}` })
      if (content !== null) bodies.set(content, id)
    }
  }
  const seen = new Map<string, Set<string>>()
  for (const entry of history) {
    if (entry.type !== "event" || entry.name !== "MESSAGE_CREATE") continue
    const created = seen.get(entry.session) ?? new Set()
    seen.set(entry.session, created)
    if (created.has(entry.message))
      findings.push({
        promise: "P2",
        what: `session ${entry.session} of ${entry.reader} got ${entry.message} twice`,
        at: entry.at,
      })
    created.add(entry.message)
  }
  return findings
}
