import type { Snowflake } from "../contract/core/fields.ts"
import { compareIds } from "../domain/core/snowflake.ts"
import { firstNotBelow } from "../std/sorted-search.ts"

/** The messages of one channel of a user, or of one server: positions and ids rise together. */
interface Marks {
  readonly at: number[]
  readonly ids: Snowflake[]
}

/** What one home publishes: a server under its own id, a user's DMs under those of the DM channels. */
interface HomeMarks {
  readonly by: Map<Snowflake, Marks>
  /** The position of the latest message. */
  last: number
}

/** Marks of one server or DM: of a client that is further behind, the earlier ones are not needed. */
const marksKept = 512
const homesKept = 20_000
const allKept = 200_000

/**
 * Where messages stand in a worker's log. The memory is bounded: first the homes go that were
 * silent longest, and of a home with many messages its earliest. A client that is behind what was
 * forgotten is not said to have received it; with the home's next message it is.
 */
export class MessageMarks {
  /** Ordered by latest message. */
  readonly #homes = new Map<Snowflake, HomeMarks>()
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

  /** @param of the server, or the DM channel */
  note(home: Snowflake, of: Snowflake, s: number, id: Snowflake): void {
    this.last = s
    const marked = this.#homes.get(home) ?? { by: new Map<Snowflake, Marks>(), last: s }
    marked.last = s
    this.#homes.delete(home)
    this.#homes.set(home, marked)
    let marks = marked.by.get(of)
    if (!marks) marked.by.set(of, (marks = { at: [], ids: [] }))
    this.#count -= marks.at.length
    // An entry that was lost with a Redis may be appended again, after later ones.
    while (marks.at.length > 0 && compareIds(marks.ids.at(-1)!, id) >= 0) {
      marks.at.pop()
      marks.ids.pop()
    }
    marks.at.push(s)
    marks.ids.push(id)
    if (marks.at.length >= 2 * marksKept) {
      marks.at.splice(0, marksKept)
      marks.ids.splice(0, marksKept)
    }
    this.#count += marks.at.length
    while (this.#homes.size > homesKept || (this.#count > this.#maxMarks && this.#homes.size > 1)) this.#forgetOne()
  }

  #forgetOne(): void {
    const [[home, { by }]] = this.#homes as unknown as [[Snowflake, HomeMarks]]
    this.#homes.delete(home)
    for (const { at } of by.values()) this.#count -= at.length
  }

  /**
   * The latest messages of a home at or before position `s`, one for the server or one for each DM
   * channel; only those after position `from`.
   */
  *between(home: Snowflake, from: number, s: number): Generator<[of: Snowflake, id: Snowflake]> {
    const marked = this.#homes.get(home)
    if (!marked || marked.last <= from) return
    for (const [of, { at, ids }] of marked.by) {
      const next = firstNotBelow(at.length, i => at[i]! <= s)
      if (next > 0 && at[next - 1]! > from) yield [of, ids[next - 1]!]
    }
  }

  /** The first message after position `s`, as far as is known. */
  firstAfter(home: Snowflake, of: Snowflake, s: number): Snowflake | undefined {
    const marks = this.#homes.get(home)?.by.get(of)
    return marks?.ids[firstNotBelow(marks.at.length, i => marks.at[i]! <= s)]
  }
}
