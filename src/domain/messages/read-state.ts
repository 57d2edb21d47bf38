import type { Snowflake } from "../../contract/core/fields.ts"
import { limits } from "../../contract/core/limits.ts"
import { compareIds, epochMs, firstIdAt, msOf, sequenceOf } from "../core/snowflake.ts"
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

/** What lies between a user's position and a message. */
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
 * Beyond this number of gaps the two oldest are merged: what was shown between them becomes hidden.
 * Nothing hidden becomes shown.
 */
const maxGaps = 16

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
    gaps: all.length > 2 * maxGaps ? [all[0]!, ...all.slice(3)] : all,
  }
}

/**
 * An id without its shard, as a number: these numbers compare as the ids of one home do.
 * Milliseconds have 41 bits until 2093, and a double holds 53 exactly.
 */
export function orderOf(id: Snowflake): number {
  return (msOf(id) - epochMs) * 4096 + sequenceOf(id)
}

/**
 * A user whom others see to have read something of a channel: what lies in (`since`, `visible`] and
 * in none of the gaps.
 */
export interface Reader {
  readonly user: Snowflake
  readonly since: number
  readonly visible: number
  readonly gaps: readonly number[]
}

/** The users whom others see to have read something of a channel, as they were loaded: what has been decided since may be missing. */
export interface LoadedReaders {
  readonly byUser: Map<Snowflake, Reader>
  readonly ordered?: undefined
}

/** The same, with everything that was decided, and so that messages are looked up quickly. */
export interface Readers {
  readonly byUser: Map<Snowflake, Reader>
  /** Sorted by how far they have read, then by user. */
  readonly ordered: Reader[]
  /** How far they have read, sorted, in an array of its own: it is searched most often. */
  readonly ends: number[]
  /** Where their reading began, sorted. */
  readonly beginnings: number[]
  /**
   * Where their gaps begin, sorted, and where they end. A message lies in those gaps that begin
   * before it and do not end before it.
   */
  readonly gapBeginnings: number[]
  readonly gapEnds: number[]
}

/** The approximate memory of a reader: the id, the state, and their places in the sorted arrays. */
export const bytesOfReader = 250

/** Undefined: others see nothing of this user's reading. */
export function readerOf(
  user: Snowflake,
  { since_id, visible_id, gaps }: Readonly<Omit<ReadState, "message_id">>,
): Reader | undefined {
  const [since, visible] = [orderOf(since_id), orderOf(visible_id)]
  return visible > since ? { user, since, visible, gaps: gaps.map(orderOf) } : undefined
}

const beginningsOf = ({ gaps }: Reader) => gaps.filter((_, i) => i % 2 === 0)
const endsOf = ({ gaps }: Reader) => gaps.filter((_, i) => i % 2 === 1)
/** A hundred thousand take a few milliseconds; with a function that compares they take several times that. */
const sorted = (places: readonly number[]): number[] => Array.from(Float64Array.from(places).sort())

export const loadedReaders = (all: readonly Reader[]): LoadedReaders => {
  const byUser = new Map<Snowflake, Reader>()
  for (const reader of all) byUser.set(reader.user, reader)
  return { byUser }
}

/** @param byUser is part of the result; where its order is that of `ordered`, or nearly so, sorting takes hardly any time */
export function readersOf(byUser: Map<Snowflake, Reader>): Readers {
  const ordered = [...byUser.values()].toSorted((a, b) => (isBelow(a, b) ? -1 : 1))
  const [gapBeginnings, gapEnds]: [number[], number[]] = [[], []]
  for (const { gaps } of ordered)
    for (const [i, gap] of gaps.entries()) (i % 2 === 0 ? gapBeginnings : gapEnds).push(gap)
  return {
    byUser,
    ordered,
    ends: ordered.map(({ visible }) => visible),
    beginnings: sorted(ordered.map(({ since }) => since)),
    gapBeginnings: sorted(gapBeginnings),
    gapEnds: sorted(gapEnds),
  }
}

/** Somebody has read further, or something for the first time. */
export function noteReader(readers: LoadedReaders | Readers, reader: Reader): void {
  const before = readers.byUser.get(reader.user)
  readers.byUser.set(reader.user, reader)
  if (!readers.ordered) return
  const { ordered, ends, beginnings, gapBeginnings, gapEnds } = readers
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

/** Removes values from a sorted array and adds others. */
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
  const place = orderOf(message)
  const began = firstNotBelow(beginnings.length, i => beginnings[i]! < place)
  const ended = firstNotBelow(ends.length, i => ends[i]! < place)
  const hidden =
    firstNotBelow(gapBeginnings.length, i => gapBeginnings[i]! < place) -
    firstNotBelow(gapEnds.length, i => gapEnds[i]! < place)
  const own = byUser.get(author)
  return began - ended - hidden - (own && holds(own, place) ? 1 : 0)
}

/**
 * How many of those who have read furthest are checked for the names of a message's readers: twice
 * as many as are named.
 */
const lookedAt = 2 * limits.readersNamed

/** The users who have read a message, up to a number: those who have read furthest. */
export function someReaders(
  { ordered }: { ordered: readonly Reader[] },
  message: Snowflake,
  author: Snowflake,
  most: number,
): Snowflake[] {
  const place = orderOf(message)
  const found: Snowflake[] = []
  for (let i = ordered.length - 1; i >= Math.max(0, ordered.length - lookedAt) && found.length < most; i--) {
    const reader = ordered[i]!
    if (reader.visible < place) break
    if (reader.user !== author && holds(reader, place)) found.push(reader.user)
  }
  return found
}
