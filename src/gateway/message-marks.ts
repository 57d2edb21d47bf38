import type { Snowflake } from "../contract/core/fields.ts"

/** One home's messages by position; only those that none with a lower mint follows, so both columns rise. */
interface Marks {
  at: number[]
  ms: number[]
  /** How many of them are forgotten, and up to which position. */
  first: number
  forgottenTo: number
  /** The position of the latest message, and the latest moment at which one was minted. */
  last: number
  latest: number
}

/** What is kept of a home, unless more is asked for; who is further behind waits until his client has named a later position. */
const marksKept = 512
const homesKept = 20_000
/** Of all homes together; some 16 bytes each. */
const allKept = 1_000_000

/**
 * Where messages stand in a worker's log, and when their ids were minted. Within a home ids rise with positions; but a user's
 * home hears of DMs from many, and of homes one may be appended before another that minted earlier.
 */
export class MessageMarks {
  /** The one heard of longest ago is first. */
  readonly #homes = new Map<Snowflake, Marks>()
  /** Nothing is known of homes that are not in the map up to this position. */
  #forgottenTo = -1
  #count = 0
  readonly #most: number
  /** The position of the latest message of any home. */
  last = -1

  constructor(most = allKept) {
    this.#most = most
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
    // Whoever has not got this one has gone no further, wherever he stands before it.
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
    while (this.#homes.size > homesKept || (this.#count > this.#most && this.#homes.size > 1)) this.#forgetOne()
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

  /** The latest moment at which a message of a home was minted, as far as is known. */
  latest(home: Snowflake): number {
    return this.#homes.get(home)?.latest ?? -Infinity
  }

  /** Up to this moment none of a home's messages that are known stands after a position; -Infinity: that is forgotten. */
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
  /** That is all that there is to say of the position: no message that may stand at or before it is later. */
  readonly isAll: boolean
}

/**
 * Up to when all messages of some homes were delivered to a client that has named position `s`. `minted`: whatever was minted
 * anywhere up to then stood in this log when it was last read to its end. Ids may be ahead of that for as long as a clock was, so
 * it is gone as far as it goes.
 */
export function deliveredUpTo(
  marks: Pick<MessageMarks, "freeUpTo" | "latest">,
  homes: Iterable<Snowflake>,
  s: number,
  minted: number,
): Delivered {
  let free = Infinity
  let latest = -Infinity
  for (const home of homes) {
    free = Math.min(free, marks.freeUpTo(home, s))
    latest = Math.max(latest, marks.latest(home))
  }
  if (free <= minted) return { upTo: free, isAll: true }
  return { upTo: minted, isAll: minted >= latest && Number.isFinite(minted) }
}
