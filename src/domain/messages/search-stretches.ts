import type { Snowflake } from "../../contract/core/fields.ts"

/**
 * Every message says in its words in which stretches of time it was sent: of 33 seconds, eight
 * times as long, and so on up to 99 days. So what is wanted can be taken out of the index from the
 * newest back, a piece at a time: the first as long as about as many matches take as are wanted,
 * each that follows as long as all before it, or twice.
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

/** Ids from `from` on and below `below`; `words` matches them, and at its ends some others. */
export interface Piece {
  /** As PostgreSQL reads a `tsquery`. */
  readonly words: string
  readonly from: Snowflake
  readonly below: Snowflake
}

/** How many of the shortest stretches a piece is long. */
export const stretchesIn = ({ from, below }: Pick<Piece, "from" | "below">): number =>
  Number((BigInt(below) - BigInt(from)) >> shortest)

/** A quarter of a length at most: a piece is made of few stretches, and they reach little beyond it. */
function levelWithin(length: number): number {
  let level = 0
  while (level + 1 < levels && 4 * lengthOf(level + 1) <= length) level++
  return level
}

function covering(first: number, end: number): string {
  const level = levelWithin(end - first)
  const length = lengthOf(level)
  const cells: string[] = []
  for (let at = Math.floor(first / length) * length; at < end; at += length) cells.push(`'${stretchAt(level, at)}'`)
  return `(${cells.join("|")})`
}

/** Nothing before the first: where the end is far away, that would be all there is. */
function exactly(first: number, end: number): string {
  const cells: string[] = []
  for (let at = first; at < end;) {
    let level = 0
    while (level + 1 < levels && at % lengthOf(level + 1) === 0 && at + lengthOf(level + 1) <= end) level++
    cells.push(`'${stretchAt(level, at)}'`)
    at += lengthOf(level)
  }
  return `(${cells.join("|")})`
}

const startOf = (unit: number): bigint => BigInt(unit) << shortest

/**
 * Ids from `from` on and below `below` in pieces, the newest first. The first one is so many
 * stretches long, each that follows `growth` times as long as all before it.
 * @param newest the newest message that may be found: what is later, if there is such, is one piece
 */
export function stretchesBack(
  { from, below }: { readonly from: Snowflake; readonly below: Snowflake },
  newest: Snowflake,
  { first, growth }: { readonly first: number; readonly growth: number },
): Piece[] {
  const pieces: Piece[] = []
  const least = BigInt(from)
  const leastUnit = unitOf(least)
  let end = BigInt(below)
  /** @returns where it begins, and what is left ends */
  const taken = (unit: number, words: string, ending: bigint): bigint => {
    const start = startOf(unit) > least ? startOf(unit) : least
    pieces.push({ words, from: String(start), below: String(ending) })
    return start
  }
  const present = Math.max(leastUnit, unitOf(BigInt(newest)) + 1)
  if (end > least && end > startOf(present)) end = taken(present, exactly(present, unitOf(end - 1n) + 1), end)
  let length = first
  let passed = 0
  while (end > least) {
    const endUnit = unitOf(end - 1n) + 1
    const cell = lengthOf(levelWithin(length))
    const unit = Math.max(leastUnit, Math.floor((endUnit - length) / cell) * cell)
    end = taken(unit, covering(unit, endUnit), end)
    passed += endUnit - unit
    length = growth * passed
  }
  return pieces
}

/**
 * How many of the shortest stretches before a message hold about a share of all messages; 1 where
 * that is not known. @param spread ids between which there are equally many messages each
 */
export function stretchesHolding(share: number, before: Snowflake, spread: readonly Snowflake[]): number {
  const bounds = spread.map(Number)
  const buckets = bounds.length - 1
  if (buckets < 1) return 1
  const start = Number(before)
  const last = bounds[buckets]!
  const wanted = share * buckets
  // What came since is as dense as what came last.
  let left = wanted * (last - bounds[buckets - 1]!)
  if (start <= last) {
    const at = Math.min(
      buckets - 1,
      Math.max(
        0,
        bounds.findLastIndex(bound => bound <= start),
      ),
    )
    const ahead = bounds[at + 1]!
    const place = at + Math.max(0, (start - bounds[at]!) / Math.max(1, ahead - bounds[at]!)) - wanted
    const under = Math.min(buckets - 1, Math.max(0, Math.floor(place)))
    left = start - (bounds[under]! + Math.max(0, place - under) * (bounds[under + 1]! - bounds[under]!))
  }
  return Math.max(1, Math.round(left / 2 ** Number(shortest)))
}
