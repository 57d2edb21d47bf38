import type { Snowflake } from "../../contract/core/fields.ts"

/**
 * Ids: 42 bits of milliseconds since the epoch, 10 bits of shard, 12 bits of sequence. The shard
 * bits make routing possible without a look-up: whatever belongs to one home carries the home's
 * shard.
 */
export const epochMs = 1_704_067_200_000
export const shardCount = 1024
const sequences = 4096

/** When an id was made, and how many were made before it in the same millisecond. */
export interface IdMark {
  ms: number
  sequence: number
}

/*
 * An id has more bits than a number is exact to. But 10^12 is 4096 times 244,140,625, so the digits
 * before the last twelve have no part in the sequence, and the rest of an id fits into a number.
 * That takes half the time of a BigInt and leaves nothing to collect; every message asks several times.
 */
const lowDigits = 12
const lowRange = 10 ** lowDigits
const lowUnits = lowRange / sequences

/** The number that some digits of an id stand for; NaN: they are none. */
function numberIn(id: Snowflake, from: number, to: number): number {
  let number = 0
  for (let at = from; at < to; at++) {
    const digit = id.charCodeAt(at) - 0x30
    if (!(digit >= 0 && digit <= 9)) return NaN
    number = number * 10 + digit
  }
  return number
}

/** The id without its sequence: milliseconds and shard. */
function momentAndShard(given: Snowflake | number): number {
  // A column's bigint that a number can hold comes as one: "0", and ids in tests.
  const id = String(given)
  const cut = Math.max(0, id.length - lowDigits)
  const found = numberIn(id, 0, cut) * lowUnits + Math.floor(numberIn(id, cut, id.length) / sequences)
  // What no server makes: longer than 64 bits allow, or from before the epoch.
  return found <= Number.MAX_SAFE_INTEGER ? found : Number(BigInt(id) >> 12n)
}

export const shardOf = (id: Snowflake): number => momentAndShard(id) & (shardCount - 1)
export const msOf = (id: Snowflake): number => Math.floor(momentAndShard(id) / shardCount) + epochMs
export const sequenceOf = (given: Snowflake | number): number => {
  const id = String(given)
  const low = numberIn(id, Math.max(0, id.length - lowDigits), id.length)
  return Number.isNaN(low) || id.startsWith("-") ? Number(BigInt(id) & 4095n) : low & (sequences - 1)
}

/** Whether an id is that of an operator, whose ids are counted from 1: no user was made in the first moment after the epoch. */
export const isOperatorId = (id: Snowflake): boolean => id.length < 10
/** When something was made, in Unix seconds: also what was said elsewhere before the epoch. */
export const secondsOf = (id: Snowflake): number => {
  const ms = msOf(id) - epochMs
  if (ms < 0 || ms >= formerTimes.ms || sequenceOf(id) < firstImportedSequence) return Math.floor((ms + epochMs) / 1000)
  return Math.floor((formerTimes.fromMs + ms * formerTimes.scale) / 1000)
}

/**
 * The mark after `last` that is not before `nowMs`: ids of a shard rise strictly even when the
 * clock falls.
 */
export function nextMark(last: IdMark, nowMs: number): IdMark {
  if (nowMs > last.ms) return { ms: nowMs, sequence: 0 }
  return last.sequence + 1 < sequences ? { ms: last.ms, sequence: last.sequence + 1 } : { ms: last.ms + 1, sequence: 0 }
}

export const idOf = (shard: number, mark: IdMark): Snowflake =>
  ((BigInt(mark.ms - epochMs) << 22n) | BigInt(shard * sequences + mark.sequence)).toString()

export const markOf = (id: Snowflake): IdMark => ({ ms: msOf(id), sequence: sequenceOf(id) })

const idShape = /^(0|[1-9]\d{0,18})$/
/** The highest id that PostgreSQL can keep. */
export const highestId: Snowflake = "9223372036854775807"

/** Whether a text is a number of 64 bits, signed and not negative, in decimal digits. */
export const isId = (text: string): boolean => idShape.test(text) && (text.length < 19 || text <= highestId)

/** Order of two ids without building numbers. */
export const compareIds = (a: Snowflake, b: Snowflake): number =>
  a.length !== b.length ? a.length - b.length : a < b ? -1 : a > b ? 1 : 0

/** The smallest id that a moment can have, for ranges by time. */
export const firstIdAt = (ms: number): Snowflake => (BigInt(Math.max(0, Math.floor(ms) - epochMs)) << 22n).toString()

/*
 * What was said elsewhere keeps its time, and an id begins with a time; but many messages are older
 * than the epoch. So the ids of the first weeks after the epoch, in which no server ran, stand for
 * the years before: each of their milliseconds for 125. That divides a second, so seconds are exact.
 * Ids order as the times do, and those weeks' own times come last among them.
 */
const formerTimes = { ms: 42 * 86_400_000, scale: 125, fromMs: epochMs - 124 * 42 * 86_400_000 } as const
/** The least number of milliseconds in such an id: shorter ids are operators'. */
const leastFormerMs = 1_000

/** Imported ids have sequences from here on: no server makes so many ids of a shard in a millisecond. */
export const firstImportedSequence = sequences / 2

/** The milliseconds, since 1970, that an id has of something that was said at this time. */
export function importedMs(saidAtMs: number): number {
  const since = saidAtMs - formerTimes.fromMs
  if (saidAtMs >= epochMs + formerTimes.ms) return Math.floor(saidAtMs)
  return epochMs + Math.max(leastFormerMs, Math.floor(since / formerTimes.scale))
}

/** The earliest time that an id can keep. */
export const earliestImportedMs = formerTimes.fromMs + leastFormerMs * formerTimes.scale

/** The smallest id that something of this moment can have, wherever it was said. */
export const firstIdSaidAt = (ms: number): Snowflake =>
  ms >= epochMs + formerTimes.ms ? firstIdAt(ms) : ms <= earliestImportedMs ? "0" : firstIdAt(importedMs(ms))

/** An id of something imported. `ms`: as `importedMs` has it; `nth`: how many others it has before it there. */
export const importedId = (shard: number, ms: number, nth: number): Snowflake =>
  idOf(shard, { ms, sequence: firstImportedSequence + nth })
/** So many have one millisecond of a shard. */
export const importedPerMs = sequences - firstImportedSequence
