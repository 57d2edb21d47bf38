import type { Snowflake } from "../contract/core/fields.ts"

/**
 * One home's messages by position. A message is left out if a later one has a lower id time, so
 * both columns rise.
 */
interface Marks {
  at: number[]
  ms: number[]
  /** How many marks are forgotten, and up to which position. */
  first: number
  forgottenTo: number
  /** The position of the latest message, and the highest id time of any message. */
  last: number
  latest: number
}

/**
 * Marks that are kept per home, unless more is asked for. A client that is further behind waits
 * until it names a later position.
 */
const marksKept = 512
const homesKept = 20_000
/** For all homes together; some 16 bytes each. */
const allKept = 1_000_000

/**
 * Where messages stand in a worker's log, and when their ids were made. Within a home ids usually
 * rise with positions. But a user's home receives DMs from many workers, and a message with an
 * earlier id may be appended after one with a later id.
 */
export class MessageMarks {
  /** Ordered by latest message: the home that was silent longest is first. */
  readonly #homes = new Map<Snowflake, Marks>()
  /** Up to this position nothing is known of homes that are not in the map. */
  #forgottenTo = -1
  #count = 0
  readonly #maxMarks: number
  /** The position of the latest message of any home. */
  last = -1

  constructor(maxMarks = allKept) {
    this.#maxMarks = maxMarks
  }

  /** How many marks are kept. */
  get count(): number {
    return this.#count
  }

  note(home: Snowflake, s: number, ms: number, keep = marksKept): void {
    this.last = s
    const marks = this.#homes.get(home) ?? {
      at: [],
      ms: [],
      first: 0,
      forgottenTo: this.#forgottenTo,
      last: s,
      latest: ms,
    }
    if (this.#homes.delete(home)) {
      marks.last = s
      marks.latest = Math.max(marks.latest, ms)
    }
    this.#homes.set(home, marks)
    this.#count -= marks.at.length
    // A client that has not received this message is settled only before its id, so earlier
    // messages with later ids need no mark.
    while (marks.ms.length > marks.first && marks.ms.at(-1)! >= ms) {
      marks.at.pop()
      marks.ms.pop()
    }
    marks.at.push(s)
    marks.ms.push(ms)
    if (marks.at.length - marks.first > keep) marks.forgottenTo = marks.at[marks.first++]!
    if (marks.first > keep) {
      marks.at.splice(0, marks.first)
      marks.ms.splice(0, marks.first)
      marks.first = 0
    }
    this.#count += marks.at.length
    while (this.#homes.size > homesKept || (this.#count > this.#maxMarks && this.#homes.size > 1)) this.#forgetOne()
  }

  #forgetOne(): void {
    const [[home, { at, last }]] = this.#homes as unknown as [[Snowflake, Marks]]
    this.#homes.delete(home)
    this.#count -= at.length
    this.#forgottenTo = Math.max(this.#forgottenTo, last)
  }

  /** Whether a home had a message after a position. */
  hasAfter(home: Snowflake, s: number): boolean {
    const marks = this.#homes.get(home)
    return marks ? marks.last > s : s < this.#forgottenTo
  }

  /** The latest id time of a home's messages, as far as is known. */
  latest(home: Snowflake): number {
    return this.#homes.get(home)?.latest ?? -Infinity
  }

  /**
   * No known message of the home after position `s` has an id of this moment or earlier. -Infinity:
   * the marks that would tell are forgotten.
   */
  freeUpTo(home: Snowflake, s: number): number {
    const marks = this.#homes.get(home)
    if (!marks) return s < this.#forgottenTo ? -Infinity : Infinity
    if (s < marks.forgottenTo) return -Infinity
    let low = marks.first
    let high = marks.at.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if (marks.at[middle]! <= s) low = middle + 1
      else high = middle
    }
    return low < marks.ms.length ? marks.ms[low]! - 1 : Infinity
  }
}

export interface Delivered {
  readonly upTo: number
  /** Nothing more is to be learned of this position: no message at or before it can be later. */
  readonly isAll: boolean
}

/**
 * The moment up to which all messages of some homes were delivered to a client that has named
 * position `s`. `watermark`: every id up to this moment stood in this log when it was last read to
 * its end. Ids can be ahead of it while a clock is ahead, so the result goes no further than the
 * watermark.
 */
export function deliveredUpTo(
  marks: Pick<MessageMarks, "freeUpTo" | "latest">,
  homes: Iterable<Snowflake>,
  s: number,
  watermark: number,
): Delivered {
  let free = Infinity
  let latest = -Infinity
  for (const home of homes) {
    free = Math.min(free, marks.freeUpTo(home, s))
    latest = Math.max(latest, marks.latest(home))
  }
  if (free <= watermark) return { upTo: free, isAll: true }
  return { upTo: watermark, isAll: watermark >= latest && Number.isFinite(watermark) }
}
