import type { Snowflake } from "../../src/contract/core/fields.ts"
import type { RelationshipStatus } from "../../src/contract/social/relationships.ts"
import { compareIds } from "../../src/domain/core/snowflake.ts"
import type { Change, History, Oddity, Seen, Sight } from "./history.ts"

/** A message as it was made; deleted ones included. */
export interface Made {
  readonly id: Snowflake
  readonly channel: Snowflake
  readonly content: string
  readonly deleted: boolean
}

/** What stands in the store when everything is over. */
export interface Outcome {
  /** In the order of their ids. */
  readonly made: readonly Made[]
  /** What each message was first said to hold. */
  readonly channels: ReadonlyMap<Snowflake, readonly Snowflake[]>
  /** Of each user, what the others are to them. */
  readonly relationships: ReadonlyMap<Snowflake, ReadonlyMap<Snowflake, RelationshipStatus>>
}

/** Every breach of a promise that the history shows, one line each. One pass per promise. */
export function breaches(history: History, outcome: Outcome): Oddity[] {
  return [
    ...history.oddities,
    ...lostOrDoubled(history, outcome),
    ...outOfOrder(history, outcome),
    ...streams(history, outcome),
    ...afterBarriers(history),
    ...unfitting(outcome),
    ...misinformed(history, outcome),
  ]
}

const fitting: Readonly<Record<RelationshipStatus, readonly (RelationshipStatus | undefined)[]>> = {
  friend: ["friend"],
  pending_incoming: ["pending_outgoing"],
  pending_outgoing: ["pending_incoming"],
  blocked: ["blocked", undefined],
}

/** P3: the two sides of a pair fit. */
function* unfitting({ relationships }: Outcome): Iterable<Oddity> {
  for (const [user, others] of relationships)
    for (const [other, status] of others) {
      const back = relationships.get(other)?.get(user)
      if (!fitting[status].includes(back))
        yield { promise: "P3", what: `${other} is ${status} to ${user}, who is ${back} there` }
    }
}

/** P5: every listener knows what others are to them, once all is at rest. */
export function* misinformed(
  { sessions }: Pick<History, "sessions">,
  { relationships }: Pick<Outcome, "relationships">,
): Iterable<Oddity> {
  for (const { isOver, client, user, relationships: told } of sessions) {
    if (isOver) continue
    const others = relationships.get(user) ?? new Map<Snowflake, RelationshipStatus>()
    for (const other of new Set([...told.keys(), ...others.keys()]))
      if (told.get(other) !== others.get(other))
        yield {
          promise: "P5",
          what: `${client}: ${other} is ${told.get(other)} there and ${others.get(other)} in the list`,
        }
  }
}

/** P1: what was acknowledged is stored, under the id that was answered. P2: nothing is stored twice. */
function* lostOrDoubled(history: History, { made }: Outcome): Iterable<Oddity> {
  const byNonce = new Map<string, Made>()
  for (const message of made) {
    // The first word of a content is its send; edits keep it.
    const send = message.content.split(" ")[0]!
    if (send === "") continue
    if (byNonce.has(send)) yield { promise: "P2", what: `${send} is stored twice` }
    byNonce.set(send, message)
  }
  const ids = new Map(made.map(message => [message.id, message]))
  for (const { content, id } of history.sends) {
    if (id === undefined) continue
    const stored = ids.get(id)
    if (!stored) yield { promise: "P1", what: `${content} was acknowledged as ${id} and is not stored` }
    else if (!stored.deleted && stored.content.split(" ")[0] !== content)
      yield { promise: "P1", what: `${id} was acknowledged as ${content} and holds ${stored.content}` }
  }
}

/** P3: a send that began after another was acknowledged has the higher id. */
function* outOfOrder(history: History, { made }: Outcome): Iterable<Oddity> {
  const stored = new Map(made.map(({ content, id }) => [content.split(" ")[0]!, id]))
  const byChannel = groupBy(history.sends, send => send.channel)
  for (const sends of byChannel.values()) {
    const ended = sends.filter(send => send.endedAt !== undefined).toSorted((a, b) => a.endedAt! - b.endedAt!)
    const begun = sends.toSorted((a, b) => a.invokedAt - b.invokedAt)
    let i = 0
    let highest: Snowflake = "0"
    for (const send of begun) {
      for (; i < ended.length && ended[i]!.endedAt! < send.invokedAt; i++)
        if (compareIds(ended[i]!.id!, highest) > 0) highest = ended[i]!.id!
      const id = send.id ?? stored.get(send.content)
      if (id !== undefined && compareIds(id, highest) <= 0)
        yield { promise: "P3", what: `${send.content} has ${id}, not above ${highest} that was acknowledged before` }
    }
  }
}

/** P2, P3, P5: what a session was sent of a server it saw is the history from then on, without a hole, each once, in order. */
function* streams(history: History, outcome: Outcome): Iterable<Oddity> {
  for (const session of history.sessions) for (const sight of session.sights) yield* stream(session, sight, outcome)
}

function* stream(session: Seen, sight: Sight, outcome: Outcome): Iterable<Oddity> {
  const { channel, created, made: known, messages: held } = sight
  const who = `${session.client} in channel ${channel}`
  const all = outcome.channels.get(channel) ?? []
  const isWhole = sight.until === undefined && !session.isOver
  let next = created.length > 0 ? all.indexOf(created[0]!) : known
  if (next < 0) return yield { promise: "P2", what: `${who}: ${created[0]} is not stored` }
  if (next > known) yield { promise: "P5", what: `${who}: ${next - known} missing before ${created[0]}` }
  for (const id of created) {
    if (id !== all[next]) {
      const at = all.indexOf(id)
      const promise = at < 0 || at < next ? "P2" : "P5"
      return yield { promise, what: `${who}: ${id} came where ${all[next]} was due (${at} for ${next})` }
    }
    next++
  }
  if (!isWhole) return
  if (next < all.length) return yield { promise: "P5", what: `${who}: the last ${all.length - next} are missing` }
  const stored = new Map(
    outcome.made.flatMap(({ id, channel: where, content, deleted }) =>
      where === channel && !deleted ? [[id, content] as const] : [],
    ),
  )
  for (const [id, content] of stored)
    if (held.get(id) !== content)
      yield { promise: "P5", what: `${who}: ${id} is ${held.get(id)} there and ${content} in history` }
  for (const id of held.keys())
    if (!stored.has(id)) yield { promise: "P5", what: `${who}: ${id} was deleted, and is there still` }
}

/**
 * P12, P13: after the answer to what takes access away, nothing that was sent later, and before
 * anything that may give it back, reaches whom it excludes.
 */
function* afterBarriers(history: History): Iterable<Oddity> {
  const sends = new Map(history.sends.map(send => [send.id, send]))
  for (const change of history.changes) {
    if (change.endedAt === undefined || !takesAccess.has(change.type)) continue
    const until = change.type === "logout" ? Infinity : nextGrant(history.changes, change)
    for (const session of history.sessions) {
      if (change.type === "logout" ? session.accessSession !== change.session : session.user !== change.user) continue
      for (const sight of session.sights) {
        if (change.server !== undefined && sight.server !== change.server) continue
        if (change.channel !== undefined && sight.channel !== change.channel) continue
        for (const id of sight.created) {
          const send = sends.get(id)
          if (send && send.invokedAt > change.endedAt && send.endedAt! < until)
            yield {
              promise: change.type === "hide" ? "P13" : "P12",
              what: `${id} reached ${session.client} after its ${change.type}`,
            }
        }
      }
    }
  }
}

const takesAccess: ReadonlySet<Change["type"]> = new Set(["leave", "kick", "ban", "hide", "logout"])

/** When access may have come back: with the next of what gives it, or at once if one was under way beside it. */
function nextGrant(changes: readonly Change[], taken: Change): number {
  let next = Infinity
  for (const { type, user, server, channel, invokedAt, endedAt = Infinity, isRefused = false } of changes) {
    const isGrant = type === "join" || (type === "show" && channel === taken.channel)
    if (!isGrant || isRefused || user !== taken.user || server !== taken.server || endedAt < taken.invokedAt) continue
    next = Math.min(next, Math.max(invokedAt, taken.endedAt!))
  }
  return next
}

function groupBy<T>(list: readonly T[], key: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>()
  for (const item of list) {
    const group = groups.get(key(item))
    if (group) group.push(item)
    else groups.set(key(item), [item])
  }
  return groups
}
