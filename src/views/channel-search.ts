import type { Snowflake } from "../contract/core/fields.ts"
import { foldedText } from "../domain/messages/search-text.ts"
import { placesOf } from "../domain/messages/text-signature.ts"
import { isStoppedStatement } from "../storage/core/database.ts"
import type { Index } from "./search-scope.ts"

/** How much one search in a channel looks at; see `cluster.config.ts`. */
export interface TextReach {
  /** Newest texts that are looked at as they are: they may not be indexed yet. */
  readonly tail: number
  /** Indexed texts that are looked through: by the first statement, the most in one, and in all. */
  readonly first: number
  readonly perStatement: number
  readonly max: number
  /** Blocks whose signatures are looked at: in one statement, and in all. */
  readonly blocksPerStatement: number
  readonly maxBlocks: number
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
 * are, then indexed ones that are in no block yet, then those of blocks that may have it, from the
 * newest back. Blocks know nothing of patterns of one or two characters, and of frequent ones only that they are
 * there: a page ends where enough was looked at, and the next one goes on from there.
 * @param isLate whether the time for a page is over
 */
export async function findTexts(
  index: Index,
  { tail, first, perStatement, max, blocksPerStatement, maxBlocks }: TextReach,
  { channel, pattern, below, limit }: TextQuery,
  isLate: () => boolean,
): Promise<FoundTexts> {
  const newest = await index.tail(channel, below, tail)
  const ids = newest.filter(({ content }) => foldedText(content ?? "").includes(pattern)).map(({ id }) => id)
  if (ids.length >= limit) return pageOf(ids, limit)
  if (newest.length < tail) return { ids, edge: null }

  let edge = newest.at(-1)!.id
  const places = placesOf(pattern)
  let byBlocks = false
  let [looks, blocksLeft] = [first, maxBlocks]
  try {
    for (
      let left = max;
      left > 0 && blocksLeft > 0 && !isLate();
      left -= looks, looks = Math.min(4 * looks, perStatement)
    ) {
      const most = { limit: limit - ids.length, looks: Math.min(looks, left) }
      const from = edge
      if (byBlocks) {
        const blocks = Math.min(blocksPerStatement, blocksLeft)
        const matching = await index.matchingTexts(channel, { pattern, places }, edge, { ...most, blocks })
        ids.push(...matching.found)
        edge = matching.edge
        blocksLeft -= blocks
      }
      // Also where a block has more texts than are looked through at once.
      if (!byBlocks || (edge === from && ids.length < limit)) {
        const walked = await index.walkTexts(channel, pattern, edge, {
          ...most,
          inNone: !byBlocks && places.length > 0,
        })
        ids.push(...walked.found)
        edge = walked.edge
        byBlocks ||= walked.isWhole
      }
      if (ids.length >= limit) return pageOf(ids, limit)
      if (edge === "0") return { ids, edge: null }
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
