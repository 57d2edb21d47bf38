import { compareIds } from "../../../src/domain/core/snowflake.ts"
import { isA, operationsOf, type Check, type Finding } from "../history.ts"

/** Nanoseconds that an event may take to a session that lives. */
const underWay = 1e9

/** A try without an answer may still be carried out for so many nanoseconds after it was given up. */
const unanswered = 10e9

interface Change {
  client: string
  channel: string
  sees: boolean
  isDone: boolean
  from: number
  to: number
}

/** From the acknowledgement of what began it to the first request that may end it. */
interface Span {
  from: number
  to: number
}

/** What is known of what one client may see of one channel. */
interface Sight {
  hidden: Span[]
  seen: Span[]
}

/**
 * P13, and P12 for kicks and bans: after access was taken away, what is sent later does not arrive,
 * also not when access comes back; and who has it misses nothing. Between a request and its answer
 * either is right.
 */
export const visibility: Check = history => {
  const findings: Finding[] = []
  const operations = operationsOf(history)
  const channelsOf = new Map<string, Set<string>>()
  for (const { action } of operations)
    if (action.do === "send") {
      const channels = channelsOf.get(action.server) ?? new Set()
      channelsOf.set(action.server, channels.add(action.channel))
    }
  const sights = sightsOf(operations, channelsOf)

  const sends = sendsOf(operations)
  for (const { op, action, client, outcome, from, to } of operations.filter(isA("send"))) {
    const hidden = sights.get(`${client} ${action.channel}`)?.hidden ?? []
    if (outcome === "ok" && hidden.some(span => span.from < from && to < span.to))
      findings.push({
        promise: "P13",
        what: `send ${op} of ${client} was accepted in ${action.channel}, which is hidden from them`,
        at: to,
      })
  }

  /** By session and channel, what came of it. */
  const got = new Map<string, Set<string>>()
  const sessions = new Map<string, { client: string; ready: number; end?: number }>()
  for (const entry of history) {
    if (entry.type === "ready") sessions.set(entry.session, { client: entry.client, ready: entry.at })
    else if (entry.type === "end") {
      const session = sessions.get(entry.session)
      if (session) session.end = entry.at
    } else if (entry.type === "event" && entry.name === "MESSAGE_CREATE") {
      const { client, channel, session, message } = entry
      const sight = sights.get(`${client} ${channel}`)
      if (!sight) continue
      const key = `${session} ${channel}`
      const ids = got.get(key) ?? new Set<string>()
      got.set(key, ids.add(message))
      const sent = sends.get(message)
      if (sent && sight.hidden.some(span => span.from < sent.from && Math.min(sent.to, entry.at) < span.to))
        findings.push({
          promise: "P13",
          what: `${entry.reader} got ${message}, sent after ${channel} was hidden from them`,
          at: entry.at,
        })
    }
  }

  for (const [key, sight] of sights) {
    const [client, channel] = key.split(" ") as [string, string]
    const messages = [...sends].filter(([, send]) => send.channel === channel && Number.isFinite(send.to))
    for (const span of sight.seen)
      for (const [session, { client: of, ready, end }] of sessions) {
        if (of !== client) continue
        const owed = messages.filter(([, { from, to }]) => from > Math.max(span.from, ready) && to < span.to)
        const ids = got.get(`${session} ${channel}`) ?? new Set<string>()
        const newest = owed.reduce((last, [id]) => (ids.has(id) && compareIds(id, last) > 0 ? id : last), "0")
        for (const [id, { to }] of owed) {
          if (ids.has(id)) continue
          const isLate = compareIds(id, newest) > 0 && !(end !== undefined && span.to > end && to < end - underWay)
          if (!isLate)
            findings.push({
              promise: "P13",
              what: `session ${session} missed ${id} in ${channel}, which it sees`,
              at: to,
            })
        }
      }
  }
  return findings
}

/** Of those whose access changes in the course of the run. */
function sightsOf(
  operations: ReturnType<typeof operationsOf>,
  channelsOf: ReadonlyMap<string, ReadonlySet<string>>,
): Map<string, Sight> {
  const changes = operations.flatMap(({ action, client, outcome, from, to }): Change[] => {
    if (outcome === "fail") return []
    const isDone = outcome === "ok"
    const change = (client: string, sees: boolean, channels: Iterable<string>): Change[] =>
      [...channels].map(channel => ({ client, channel, sees, isDone, from, to: isDone ? to : to + unanswered }))
    switch (action.do) {
      case "hide":
      case "show":
        return change(action.from, action.do === "show", [action.channel])
      case "manage":
        return isDone ? [] : [true, false].flatMap(sees => change(action.from, sees, [action.channel]))
      case "remove":
        return change(action.from, false, channelsOf.get(action.server) ?? [])
      case "join":
        return change(client, true, channelsOf.get(action.server) ?? [])
      default:
        return []
    }
  })
  const barred = new Set(changes.flatMap(({ client, channel, sees }) => (sees ? [] : [`${client} ${channel}`])))
  const sights = new Map<string, Sight>()
  for (const key of barred) {
    const own = changes
      .filter(({ client, channel }) => `${client} ${channel}` === key)
      .toSorted((a, b) => a.from - b.from)
    // They are members from the beginning.
    const sight: Sight = { hidden: [], seen: [{ from: 0, to: own[0]!.from }] }
    for (const [at, { sees, isDone, from, to: done }] of own.entries()) {
      const to = own[at + 1]?.from ?? Number.POSITIVE_INFINITY
      const isLast = own.slice(0, at).every(before => before.sees === sees || before.to < from)
      if (isDone && done < to && isLast) (sees ? sight.seen : sight.hidden).push({ from: done, to })
    }
    sights.set(key, sight)
  }
  return sights
}

/** By id: when its first try began, and when it was first acknowledged. */
function sendsOf(operations: ReturnType<typeof operationsOf>) {
  const begun = new Map<string, number>()
  const sends = new Map<string, { channel: string; from: number; to: number }>()
  for (const { action, from, to, messages } of operations.filter(isA("send"))) {
    if (!begun.has(action.body)) begun.set(action.body, from)
    const [message] = messages
    if (message && !sends.has(message.id))
      sends.set(message.id, { channel: action.channel, from: begun.get(action.body)!, to })
  }
  return sends
}
