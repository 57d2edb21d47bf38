import type { Snowflake } from "../../contract/core/fields.ts"

/**
 * Every message says in its words in which stretches of time it was sent: of 33 seconds, eight
 * times as long, and so on up to 99 days. So what is wanted can be taken out of the index from the
 * newest back, a piece at a time, each as long as all before it, or twice.
 */
const shortest = 37n
const levels = 7
const each = 8

const unitOf = (id: bigint): number => Number(id >> shortest)
const lengthOf = (level: number): number => each ** level
const stretchAt = (level: number, unit: number): string =>
  `:t${level}${Math.floor(unit / lengthOf(level)).toString(16)}`

/** Those of the message before: messages come in the order of time. */
let last: { readonly unit: number; readonly stretches: readonly string[] } = { unit: -1, stretches: [] }

/** The stretches that a message was sent in. */
export const stretchesOf = (id: Snowflake): readonly string[] => {
  const unit = unitOf(BigInt(id))
  if (last.unit !== unit)
    last = { unit, stretches: Array.from({ length: levels }, (_, level) => stretchAt(level, unit)) }
  return last.stretches
}

/** @returns the longest stretch that begins or ends at a place and is no longer than so much */
function levelAt(place: number, most: number): number {
  let level = 0
  while (level + 1 < levels && place % lengthOf(level + 1) === 0 && lengthOf(level + 1) <= most) level++
  return level
}

/**
 * Ids from `from` on and below `below`, the newest first, each piece as PostgreSQL reads a
 * `tsquery`. The pieces have more in them at both ends. @param newest the newest message that may
 * be found: what is later, if there is such, is one piece @param growth how long a piece is, in all
 * before it
 */
export function stretchesBack(from: Snowflake, below: Snowflake, newest: Snowflake, growth: number): string[] {
  const pieces: string[] = []
  if (BigInt(below) <= BigInt(from)) return pieces
  const first = unitOf(BigInt(from))
  let end = unitOf(BigInt(below) - 1n) + 1
  const present = Math.max(first, unitOf(BigInt(newest)) + 1)
  if (end > present) {
    const later: string[] = []
    for (let place = present; place < end;) {
      const level = levelAt(place, end - place)
      later.push(`'${stretchAt(level, place)}'`)
      place += lengthOf(level)
    }
    pieces.push(`(${later.join("|")})`)
    end = present
  }
  for (let passed = 0; end > first;) {
    const most = Math.max(1, growth * passed)
    const cells: string[] = []
    for (let left = most; end > first && left > 0;) {
      const level = levelAt(end, Math.min(end - first, left))
      const length = lengthOf(level)
      end -= length
      left -= length
      passed += length
      cells.push(`'${stretchAt(level, end)}'`)
    }
    pieces.push(`(${cells.join("|")})`)
  }
  return pieces
}
