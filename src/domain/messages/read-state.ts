import type { Snowflake } from "../../contract/core/fields.ts"
import { limits } from "../../contract/core/limits.ts"
import { compareIds, firstIdAt } from "../core/snowflake.ts"
import { firstNotBelow } from "../../std/sorted-search.ts"

/**
 * How far a user has read a channel. They have read (`since_id`, `message_id`]; others see
 * (`since_id`, `visible_id`] as read, except for the gaps.
 */
export interface ReadState {
  since_id: Snowflake
  message_id: Snowflake
  visible_id: Snowflake
  /**
   * Ranges below `visible_id` that the user read without showing it, or that came while they were
   * not a member: pairs of which (first, second] is hidden, in order.
   */
  gaps: readonly Snowflake[]
}

/** What stands between somebody's position and a message. */
export interface AckRange {
  readonly isThere: boolean
  /** Messages of others after the position, up to that message. */
  readonly marked: number
  /** Whether mentions up to it are unread, or people are being notified of some. */
  readonly hasMentions: boolean
}

export const laterId = (a: Snowflake, b: Snowflake): Snowflake => (compareIds(a, b) < 0 ? b : a)

/** Where reading begins for a member: nothing that was there before they joined is unread. */
export const beginningOf = (member: { joined_at: number; since_id?: Snowflake | null }): Snowflake =>
  member.since_id ?? firstIdAt(member.joined_at * 1000)

/**
 * The state after a user reads on. `beginning`: of the present membership, which may be later than
 * everything that they ever read here.
 */
export const readUpTo = (state: ReadState | null | undefined, beginning: Snowflake): Snowflake =>
  state ? laterId(state.message_id, beginning) : beginning

/**
 * Of more gaps than these the two oldest become one: what was shown between them is hidden then,
 * rather than anything hidden shown.
 */
const mostGaps = 16

/**
 * A user reads on, past where they were. Others never see what lies between what they see and where
 * the user continues.
 */
export function readOn(
  before: Readonly<ReadState> | null | undefined,
  beginning: Snowflake,
  { message_id, isShown }: { message_id: Snowflake; isShown: boolean },
): ReadState {
  const { since_id, visible_id, gaps } = before ?? { since_id: beginning, visible_id: beginning, gaps: [] }
  if (!isShown) return { since_id, message_id, visible_id, gaps }
  const from = readUpTo(before, beginning)
  const all = compareIds(visible_id, from) < 0 ? [...gaps, visible_id, from] : gaps
  return {
    since_id,
    message_id,
    visible_id: message_id,
    gaps: all.length > 2 * mostGaps ? [all[0]!, ...all.slice(3)] : all,
  }
}

/**
 * An id without its shard, as a number: ids of one home compare like their places. Milliseconds
 * have 41 bits until 2093, and a double holds 53 exactly.
 */
export function placeOf(id: Snowflake): number {
  const bits = BigInt(id)
  return Number(bits >> 22n) * 4096 + Number(bits & 4095n)
}

/**
 * Somebody whom others see to have read something of a channel: what lies in (`since`, `visible`]
 * and in none of the gaps.
 */
export interface Reader {
  readonly user: Snowflake
  readonly since: number
  readonly visible: number
  readonly gaps: readonly number[]
}

/** Whom the others see to have read something of a channel. */
export interface Readers {
  readonly byUser: Map<Snowflake, Reader>
  /** By how far they have read, and then by user. */
  readonly ordered: Reader[]
  /** How far they have read, in order: what is searched most lies together. */
  readonly ends: number[]
  /** Where their reading began, in order. */
  readonly beginnings: number[]
  /**
   * Where gaps of theirs begin, in order, and where they end. A message lies in as many as have
   * begun before it and not ended.
   */
  readonly gapBeginnings: number[]
  readonly gapEnds: number[]
  /** Whether everything that the home has decided is in it: what was loaded may be from before. */
  readonly isCurrent: boolean
}

/** The approximate memory of a reader: the id, the state, and their places in the sorted arrays. */
export const bytesOfReader = 250

/** Undefined: others see nothing of this user's reading. */
export function readerOf(
  user: Snowflake,
  { since_id, visible_id, gaps }: Readonly<Omit<ReadState, "message_id">>,
): Reader | undefined {
  const [since, visible] = [placeOf(since_id), placeOf(visible_id)]
  return visible > since ? { user, since, visible, gaps: gaps.map(placeOf) } : undefined
}

const beginningsOf = ({ gaps }: Reader) => gaps.filter((_, i) => i % 2 === 0)
const endsOf = ({ gaps }: Reader) => gaps.filter((_, i) => i % 2 === 1)
const byPlace = (a: number, b: number) => a - b

export function readersOf(all: Iterable<Reader>, isCurrent = false): Readers {
  const byUser = new Map(Array.from(all, reader => [reader.user, reader]))
  const ordered = [...byUser.values()].toSorted((a, b) => (isBelow(a, b) ? -1 : 1))
  return {
    byUser,
    ordered,
    ends: ordered.map(({ visible }) => visible),
    beginnings: ordered.map(({ since }) => since).toSorted(byPlace),
    gapBeginnings: ordered.flatMap(beginningsOf).toSorted(byPlace),
    gapEnds: ordered.flatMap(endsOf).toSorted(byPlace),
    isCurrent,
  }
}

/** Somebody has read further, or something for the first time. */
export function noteReader(
  { byUser, ordered, ends, beginnings, gapBeginnings, gapEnds }: Readers,
  reader: Reader,
): void {
  const before = byUser.get(reader.user)
  byUser.set(reader.user, reader)
  if (before)
    ordered.splice(
      firstNotBelow(ordered.length, i => isBelow(ordered[i]!, before)),
      1,
    )
  ordered.splice(
    firstNotBelow(ordered.length, i => isBelow(ordered[i]!, reader)),
    0,
    reader,
  )
  exchange(ends, before ? [before.visible] : [], [reader.visible])
  exchange(beginnings, before ? [before.since] : [], [reader.since])
  exchange(gapBeginnings, before ? beginningsOf(before) : [], beginningsOf(reader))
  exchange(gapEnds, before ? endsOf(before) : [], endsOf(reader))
}

/** Takes values out of those in order, and puts others in. */
function exchange(all: number[], out: readonly number[], into: readonly number[]): void {
  const place = (value: number) => firstNotBelow(all.length, i => all[i]! < value)
  for (const value of out) if (!into.includes(value)) all.splice(place(value), 1)
  for (const value of into) if (!out.includes(value)) all.splice(place(value), 0, value)
}

/** Many readers may have read up to the same message; each has a place of their own. */
const isBelow = (a: Reader, b: Reader): boolean => (a.visible === b.visible ? a.user < b.user : a.visible < b.visible)

function holds({ since, visible, gaps }: Reader, place: number): boolean {
  if (place <= since || place > visible) return false
  for (let i = 0; i < gaps.length; i += 2) if (gaps[i]! < place && place <= gaps[i + 1]!) return false
  return true
}

/** How many others have read a message. Four searches: it costs the same however many have. */
export function countReaders(
  readers: Readonly<{
    byUser: ReadonlyMap<Snowflake, Readonly<Reader>>
    ends: readonly number[]
    beginnings: readonly number[]
    gapBeginnings: readonly number[]
    gapEnds: readonly number[]
  }>,
  message: Snowflake,
  author: Snowflake,
): number {
  const { byUser, ends, beginnings, gapBeginnings, gapEnds } = readers
  if (ends.length === 0) return 0
  const place = placeOf(message)
  const began = firstNotBelow(beginnings.length, i => beginnings[i]! < place)
  const ended = firstNotBelow(ends.length, i => ends[i]! < place)
  const hidden =
    firstNotBelow(gapBeginnings.length, i => gapBeginnings[i]! < place) -
    firstNotBelow(gapEnds.length, i => gapEnds[i]! < place)
  const own = byUser.get(author)
  return began - ended - hidden - (own && holds(own, place) ? 1 : 0)
}

/**
 * So many of those who have read furthest are looked at for the names of a message's readers: twice
 * as many as are named.
 */
const lookedAt = 2 * limits.readersNamed

/** Who has read a message, at most so many: those who have read furthest. */
export function someReaders(
  { ordered }: { ordered: readonly Reader[] },
  message: Snowflake,
  author: Snowflake,
  most: number,
): Snowflake[] {
  const place = placeOf(message)
  const found: Snowflake[] = []
  for (let i = ordered.length - 1; i >= Math.max(0, ordered.length - lookedAt) && found.length < most; i--) {
    const reader = ordered[i]!
    if (reader.visible < place) break
    if (reader.user !== author && holds(reader, place)) found.push(reader.user)
  }
  return found
}
