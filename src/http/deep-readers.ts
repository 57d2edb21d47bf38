import type { Snowflake } from "../contract/fields.ts"
import { compareIds } from "../domain/snowflake.ts"

/**
 * Who reads in the depth of which channel: whom its home has let in, below what it had in memory. Their next pages are below
 * it, too, so that they can be read from the database before the home is asked, once, who may read and who has read them.
 * That nothing is read for strangers is all that hangs on it: the home says yes or no to every page.
 */
export class DeepReaders {
  readonly #most: number
  /** The highest position of theirs that was not in memory. The one used longest ago is first. */
  readonly #depths = new Map<string, Snowflake>()

  constructor(most = 10_000) {
    this.#most = most
  }

  isDeep(reader: Snowflake, channel: Snowflake, before: Snowflake): boolean {
    const depth = this.#depths.get(keyOf(reader, channel))
    return depth !== undefined && compareIds(before, depth) <= 0
  }

  note(reader: Snowflake, channel: Snowflake, before: Snowflake): void {
    const key = keyOf(reader, channel)
    const depth = this.#depths.get(key)
    this.#depths.delete(key)
    this.#depths.set(key, depth !== undefined && compareIds(depth, before) > 0 ? depth : before)
    if (this.#depths.size > this.#most) this.#depths.delete(this.#depths.keys().next().value!)
  }

  /** He was not let in. */
  forget(reader: Snowflake, channel: Snowflake): void {
    this.#depths.delete(keyOf(reader, channel))
  }
}

const keyOf = (reader: Snowflake, channel: Snowflake) => `${reader} ${channel}`
