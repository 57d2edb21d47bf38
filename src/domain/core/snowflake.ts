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

export const shardOf = (id: Snowflake): number => Number((BigInt(id) >> 12n) & 1023n)
export const msOf = (id: Snowflake): number => Number(BigInt(id) >> 22n) + epochMs
export const secondsOf = (id: Snowflake): number => Math.floor(msOf(id) / 1000)

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

export const markOf = (id: Snowflake): IdMark => ({ ms: msOf(id), sequence: Number(BigInt(id) & 4095n) })

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
