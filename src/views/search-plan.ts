import type { Snowflake } from "../contract/core/fields.ts"
import { queryParts, scopeFacts, stemmable, type SearchQuery } from "../domain/messages/search-query.ts"
import { stretchesBack } from "../domain/messages/search-stretches.ts"
import { factOf } from "../domain/messages/search-text.ts"
import { firstIdAt, isId } from "../domain/core/snowflake.ts"
import type { Found, IdSpan, MessagePlace, Placed, Places } from "../storage/messages/search.ts"
import type { Index, Scope } from "./search-scope.ts"

/** How much one search by words and operators looks at; see `cluster.config.ts`. */
export interface WordReach {
  readonly few: number
  readonly fewOfPhrases: number
  readonly looks: number
  readonly looksForPhrases: number
  readonly strangers: number
  readonly fewPlaces: number
  readonly places: number
  readonly step: number
}

export interface Search {
  readonly index: Index
  readonly reach: WordReach
  readonly languages: readonly string[]
  readonly scope: Scope
  readonly query: SearchQuery
  /** The only author that is asked for beside those whom the query names. */
  readonly author: Snowflake | undefined
  readonly span: IdSpan & { readonly limit: number }
  /** Unix milliseconds. */
  readonly now: number
}

type Wanted = Search["span"] & { readonly pinned: boolean | null }

/**
 * How much further a page goes back each time, for as much as it came; of phrases most of what has
 * their words has to be read.
 */
const growth = { usual: 2, phrases: 1 }
const nothing: Found = { found: [], edge: null }

/** Messages that match, the newest first, and how far was looked. */
export async function findMessages(search: Search): Promise<Found> {
  const { index, reach, scope, query, span } = search
  const words = await wordsOf(search)
  const facts = scopeFacts({ servers: scope.homes, channels: scope.channels, participant: scope.participant })
  if (!words || facts.length === 0) return nothing

  const wanted = { ...span, pinned: query.pinned }
  if (words.all.length === 0) {
    const places = await listedPlaces(index, scope, reach.places)
    if (places) return walkPlaces(search, places, wanted)
  }

  const hasPhrases = words.exact !== null
  const few = hasPhrases ? reach.fewOfPhrases : reach.few
  const looks = hasPhrases ? reach.looksForPhrases : reach.looks
  const isRare = words.loose.length > 0 && (await index.expected(words.loose.join("&"))) <= few
  const look = (parts: readonly string[], pieces: readonly string[] | null, places: Placed | null) =>
    index.newest(
      { words: parts, pieces, exact: words.exact },
      { places, hidden: scope.hidden },
      wanted,
      pieces === null ? 2 * few : looks,
    )
  const pieces = () => piecesOf(search, hasPhrases ? growth.phrases : growth.usual)

  if (!isRare && facts.length <= reach.fewPlaces)
    return look([...words.loose, `(${facts.map(fact => `'${fact}'`).join("|")})`], await pieces(), null)

  const here = { ...scope, fact: scope.participant === null ? null : factOf.participant(scope.participant) }
  const newest = await look(words.loose, isRare ? null : await pieces(), here)
  const { found, edge, own } = newest
  const isEnough = edge === null || found.length >= span.limit
  if (words.all.length === 0 || isEnough || own > looks / reach.strangers) return newest
  // Most of what matches stands where the reader may not look: the index is asked for each place by
  // itself.
  const older = await index.matching(words.all, facts, scope, {
    ...wanted,
    below: edge,
    limit: span.limit - found.length,
  })
  return { found: [...found, ...older], edge: null }
}

interface Words {
  /** Parts of a `tsquery`, each of which has to match. */
  readonly all: readonly string[]
  /** The same with phrases as words in any order: what the index can be asked for. */
  readonly loose: readonly string[]
  /** All of them together, where the index alone cannot tell; null: it can. */
  readonly exact: string | null
}

/**
 * @returns undefined where nothing can match: somebody who is not there wrote nothing and was never mentioned
 */
async function wordsOf({ index, languages, query, author }: Search): Promise<Words | undefined> {
  const people = [...query.from, ...query.mentions]
  const named = people.length === 0 ? new Map<string, Snowflake>() : await index.usersNamed(people)
  const idsOf = (who: string): Snowflake[] => [
    ...new Set([...(isId(who) ? [who] : []), named.get(who)].filter(id => id !== undefined)),
  ]
  let authors = query.from.length === 0 ? null : query.from.flatMap(idsOf)
  if (author !== undefined) authors = authors === null || authors.includes(author) ? [author] : []
  const mentioned = query.mentions.map(idsOf)
  if (authors?.length === 0 || mentioned.some(ids => ids.length === 0)) return undefined

  const stemmed = stemmable(query)
  const stems = stemmed.length === 0 ? new Map<string, string[]>() : await index.stems(stemmed, languages)
  const stemsOf = (word: string) => stems.get(word) ?? []
  const all = queryParts(query, { authors, mentioned }, stemsOf)
  const loose = queryParts(query, { authors, mentioned }, stemsOf, true)
  return { all, loose, exact: all.join("&") === loose.join("&") ? null : all.join("&") }
}

/** Pieces of time from the newest message in the scope back. */
async function piecesOf({ index, scope, span, now }: Search, growth: number): Promise<string[]> {
  const start = await index.newestIn(scope, scope.participant, span.below)
  return stretchesBack(span.from, span.below, start ?? firstIdAt(now), growth)
}

/** The places of a scope one by one; null: they are too many. */
async function listedPlaces(index: Index, scope: Scope, maxPlaces: number): Promise<Places | null> {
  const { participant, homes, channels } = scope
  const directs = participant === null ? [] : await index.directsOf(participant, maxPlaces + 1)
  const places = { ...scope, channels: [...channels, ...directs] }
  return homes.length + places.channels.length > maxPlaces ? null : places
}

/** All messages of some places, the newest first. */
async function walkPlaces({ index, reach }: Search, places: Places, wanted: Wanted): Promise<Found> {
  const found: MessagePlace[] = []
  let { below } = wanted
  for (let looked = 0; looked < reach.looks; looked += reach.step) {
    const next = await index.walk(places, { ...wanted, below, limit: wanted.limit - found.length }, reach.step)
    found.push(...next.found)
    if (found.length >= wanted.limit || next.edge === null) return { found, edge: null }
    below = next.edge
  }
  return { found, edge: below }
}
