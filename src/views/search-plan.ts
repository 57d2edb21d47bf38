import type { Snowflake } from "../contract/core/fields.ts"
import { queryParts, scopeFacts, stemmable, type SearchQuery } from "../domain/messages/search-query.ts"
import { stretchesBack, stretchesHolding, stretchesIn } from "../domain/messages/search-stretches.ts"
import { factOf } from "../domain/messages/search-text.ts"
import { compareIds, firstIdAt, isId } from "../domain/core/snowflake.ts"
import type { BoundedPiece, Found, IdSpan, MessagePlace, Placed, Places } from "../storage/messages/search.ts"
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
const dayMs = 86_400_000
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

  const parts =
    facts.length <= reach.fewPlaces ? [...words.loose, `(${facts.map(fact => `'${fact}'`).join("|")})`] : words.loose
  const expected = parts.length === 0 ? Infinity : await index.expected(parts.join("&"))
  const places =
    facts.length <= reach.fewPlaces
      ? null
      : { ...scope, fact: scope.participant === null ? null : factOf.participant(scope.participant) }
  const newest = await lookBack(search, { words: parts, exact: words.exact }, places, expected)
  if (places === null) return newest
  const { found, edge, own } = newest
  const isEnough = edge === null || found.length >= span.limit
  if (words.all.length === 0 || isEnough || own > looksOf(reach, words) / reach.strangers) return newest
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

/** So many messages one search looks at: of phrases fewer, as their texts are read. */
const looksOf = (reach: WordReach, { exact }: Pick<Words, "exact">) =>
  exact === null ? reach.looks : reach.looksForPhrases

/**
 * Where to begin: a piece is read as a whole, so the first is as long as it has to be for about as
 * much as is wanted.
 * @param expected matches of all times
 */
async function beginning({ index, reach, scope, span, now }: Search, expected: number, hasPhrases: boolean) {
  // No message is from tomorrow, whatever the clocks of two workers say.
  const tomorrow = firstIdAt(now + dayMs)
  const below = compareIds(span.below, tomorrow) < 0 ? span.below : tomorrow
  const { newest, spread } = await index.newestIn(scope, scope.participant, below)
  const start = newest ?? firstIdAt(now)
  // Each piece is one more pass through the index. Words that stand together do so more often than
  // the statistics of each say.
  const wanted = hasPhrases ? reach.looksForPhrases : 4 * span.limit
  return { start, below, first: stretchesHolding(wanted / expected, start, spread) }
}

/**
 * How often a page goes on where a piece had too much in it, and how much shorter the first piece is
 * then; the last time it is the shortest there is, which is read whatever is in it, so that each
 * page gets somewhere.
 */
const attempts = 4
const shortening = 16
const unbounded = 2 ** 31

/**
 * What matches, from the newest back. How much is in a piece PostgreSQL's statistics can only guess,
 * so none is read that has too much in it: it is taken again in shorter ones.
 */
async function lookBack(
  search: Search,
  words: Parameters<Index["newest"]>[0],
  places: Placed | null,
  expected: number,
): Promise<Found & { own: number }> {
  const { index, reach, scope, query, span } = search
  const hasPhrases = words.exact !== null
  const few = hasPhrases ? reach.fewOfPhrases : reach.few
  const looks = looksOf(reach, words)
  const look = (pieces: readonly BoundedPiece[], found: readonly MessagePlace[], most: number) => {
    const wanted = { ...span, pinned: query.pinned, limit: span.limit - found.length }
    return index.newest(words, pieces, { places, hidden: scope.hidden }, wanted, most)
  }
  let [found, own]: [MessagePlace[], number] = [[], 0]
  // Rare, or so they say.
  if (expected <= few) {
    const all = await look([{ words: null, from: span.from, below: span.below, most: 2 * few }], found, 2 * few)
    if (all.full === null) return all
  }
  let { start, first, below } = await beginning(search, expected <= few ? Infinity : expected, hasPhrases)
  for (let left = attempts; ; left--) {
    const lengths = { first, growth: hasPhrases ? growth.phrases : growth.usual }
    const pieces = stretchesBack({ from: span.from, below }, start, lengths).map((piece, i) => ({
      ...piece,
      most: left === 1 && i === 0 ? unbounded : Math.max(2 * looks, reach.looks),
    }))
    const seen = await look(pieces, found, looks)
    found = [...found, ...seen.found]
    own += seen.own
    if (seen.full === null || left === 1 || found.length >= span.limit) return { found, edge: seen.edge, own }
    const piece = pieces[seen.full]!
    ;[start, below] = [piece.below, piece.below]
    first = left === 2 ? 1 : Math.max(1, Math.floor(stretchesIn(piece) / shortening))
  }
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
