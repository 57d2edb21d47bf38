import type { Snowflake } from "../contract/core/fields.ts"
import { foldedText } from "../domain/messages/search-text.ts"
import { isStoppedStatement } from "../storage/core/database.ts"
import type { Index } from "./search-scope.ts"

/** How much one search in a channel looks at; see `cluster.config.ts`. */
export interface TextReach {
  /** Newest texts that are looked at as they are: they may not be indexed yet. */
  readonly tail: number
  /**
   * Indexed texts that are looked through before the index of three characters each is asked, and
   * hits that are read from that one.
   */
  readonly beforeIndex: number
  /** The most in one statement, and in all. */
  readonly perStatement: number
  readonly max: number
}

/** The newest first. `edge`: ids from it on were looked at; null: all were. */
export interface FoundTexts {
  readonly ids: Snowflake[]
  readonly edge: Snowflake | null
}

/** What a page of a search in a channel asks for. */
export interface TextQuery {
  readonly channel: Snowflake
  /** Folded, see `foldedText`. */
  readonly pattern: string
  readonly below: Snowflake
  readonly limit: number
}

/**
 * Messages of a channel whose text holds a pattern. First the newest texts are looked at as they
 * are, then indexed ones, from the newest back. What is rare among them comes from the index of
 * three characters each. That index knows nothing of shorter patterns, and too much of frequent
 * ones: for those a page ends where enough was looked at, and the next one goes on from there.
 * @param isLate whether the time for a page is over
 */
export async function findTexts(
  index: Index,
  { tail, beforeIndex, perStatement, max }: TextReach,
  { channel, pattern, below, limit }: TextQuery,
  isLate: () => boolean,
): Promise<FoundTexts> {
  const newest = await index.tail(channel, below, tail)
  const ids = newest.filter(({ content }) => foldedText(content ?? "").includes(pattern)).map(({ id }) => id)
  if (ids.length >= limit) return pageOf(ids, limit)
  if (newest.length < tail) return { ids, edge: null }

  let edge = newest.at(-1)!.id
  let isIndexed = /[\p{L}\p{N}]{3}/u.test(pattern)
  let count = beforeIndex
  try {
    for (let left = max; left > 0 && !isLate(); left -= count, count = Math.min(4 * count, perStatement)) {
      const walked = await index.walkTexts(channel, pattern, edge, limit - ids.length, Math.min(count, left))
      ids.push(...walked.found)
      if (ids.length >= limit) return pageOf(ids, limit)
      if (walked.edge === "0") return { ids, edge: null }
      edge = walked.edge
      if (!isIndexed || isLate()) continue
      const further = { limit: limit - ids.length, most: beforeIndex }
      const matching = await index.matchingTexts(channel, pattern, edge, further)
      if (matching) {
        ids.push(...matching)
        return ids.length >= limit ? pageOf(ids, limit) : { ids, edge: null }
      }
      // What is frequent is soon found by looking.
      isIndexed = false
    }
  } catch (error) {
    // What was looked at so far is a page; the next one goes on behind it.
    if (!isStoppedStatement(error)) throw error
  }
  return { ids, edge }
}

const pageOf = (ids: readonly Snowflake[], limit: number): FoundTexts => {
  const page = ids.slice(0, limit)
  return { ids: page, edge: page.at(-1)! }
}
