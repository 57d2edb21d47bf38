import { createHash } from "node:crypto"
import { channelActor } from "../actors/channel.ts"
import { fail, unavailable, type ErrorCode } from "../contract/errors.ts"
import { codePoints, type Snowflake } from "../contract/fields.ts"
import { limits } from "../contract/limits.ts"
import type { Message } from "../contract/messages.ts"
import type { routes } from "../contract/search.ts"
import { holdsIn } from "../domain/permissions.ts"
import { queryParts, readQuery, scopeFacts, stemmable, type SearchQuery } from "../domain/search-query.ts"
import { factOf, foldedText } from "../domain/search-text.ts"
import { stretchesBack } from "../domain/search-stretches.ts"
import { compareIds, firstIdAt, isId } from "../domain/snowflake.ts"
import type { MessageState } from "../domain/states.ts"
import { around, isStoppedStatement } from "../storage/database.ts"
import type { Found, MemberOutline, MessagePlace, Placed, Places, ServerHitPlace } from "../storage/search.ts"
import { searchConnections } from "../storage/storage.ts"
import { shownUser } from "../storage/users.ts"
import type { Handlers } from "./server/handlers.ts"
import { seenBy } from "../views/message-views.ts"
import { searchTurns } from "../views/search-turns.ts"
import { isId } from "../domain/snowflake.ts"
import type { Http, Policy } from "./http.ts"
import type { ViewSources } from "../views/sources.ts"

type SearchNeeds = Http<"messages" | "search" | "servers"> &
  Policy<{ readonly search_enabled: boolean; readonly search_languages: readonly string[] }> & {
    readonly views: ViewSources & { readonly searchReach: SearchReach }
  }

const beyondIds = "9223372036854775807"
/** How much further a page goes back each time, for as much as it came; of phrases most of what has their words has to be read. */
const growth = { usual: 2, phrases: 1 }
/** Seconds after which it makes sense to ask again for what an operator has switched off. */
const switchedOff = 3_600

/** How far one search looks; see `cluster.config.ts`. */
export interface SearchReach {
  readonly few: number
  readonly fewOfPhrases: number
  readonly looks: number
  readonly looksForPhrases: number
  readonly strangers: number
  readonly fewPlaces: number
  readonly places: number
  readonly step: number
  readonly tail: number
  readonly texts: number
  readonly textsAtOnce: number
  readonly mostTexts: number
  readonly waitingOfOne: number
  readonly mostWaiting: number
  readonly within: number
}

type Index = SearchNeeds["storage"]["search"]

/** Where the caller may look. */
interface Scope extends Places {
  /** Whose conversations outside servers belong to it. */
  readonly participant: Snowflake | null
}
const nowhere: Scope = { homes: [], hidden: [], channels: [], participant: null }

export function search(http: SearchNeeds): Handlers<typeof routes> {
  const { ask, storage, policy, views } = http
  const reach = views.searchReach
  const now = () => performance.now()
  const inTurn = searchTurns(
    {
      // No statement waits for a connection, so none is begun after it was given up.
      atOnce: searchConnections,
      waitingOfOne: reach.waitingOfOne,
      waiting: reach.mostWaiting,
      within: reach.within,
    },
    now,
  )

  /** What takes too long is refused rather than waited for. */
  async function timely<T>(user: Snowflake, search: (index: Index) => Promise<T>): Promise<T> {
    if (!policy.search_enabled) throw unavailable("search is switched off", switchedOff)
    const due = now() + reach.within
    try {
      return await inTurn(user, () => search(whileWanted(storage.search, () => now() < due)))
    } catch (error) {
      throw isStoppedStatement(error) ? unavailable("search", 5, { cause: error }) : error
    }
  }

  /** The home of a channel that the caller may read: its server, or itself. */
  const readable = async (user: Snowflake, channel: Snowflake): Promise<Snowflake> =>
    (await ask(channelActor, channel, { type: "requireRead", user })).server_id

  /** Channels that a search names and the caller may read; null: it names none. */
  async function channelsAsked(
    user: Snowflake,
    { conversation_id, server_id, channel_id }: Asked,
  ): Promise<Snowflake[] | null> {
    if (server_id !== undefined && !(await storage.servers.find(server_id))) throw fail("server_not_found")
    const channels = [...new Set([conversation_id, channel_id].filter(id => id !== undefined))]
    for (const channel of channels) {
      const home = await readable(user, channel)
      if (channel === conversation_id && home !== channel) throw fail("channel_not_found")
      if (server_id !== undefined && home !== server_id) throw fail("channel_not_found")
    }
    return channels.length === 0 ? null : channels
  }

  async function scopeOf(
    index: Index,
    user: Snowflake,
    channels: readonly Snowflake[] | null,
    server: Snowflake | undefined,
  ): Promise<Scope> {
    // No message is in two.
    if (channels) return channels.length === 1 ? { ...nowhere, channels } : nowhere
    const outlines = await index.outlinesFor(user, server ?? null)
    if (server !== undefined && outlines.length === 0) throw fail("access_denied")
    return { ...readableIn(user, outlines), participant: server === undefined ? user : null }
  }

  /** The part of a scope that `in:` names. */
  async function within(
    index: Index,
    user: Snowflake,
    scope: Scope,
    names: readonly string[],
    server: Snowflake | undefined,
  ): Promise<Scope> {
    const ids = names.filter(isId)
    const named = server === undefined || ids.length === names.length ? [] : await index.channelsNamed(server, names)
    const wanted = [...new Set([...ids, ...named])]
    const homes = await index.homesOf(wanted)
    const own = scope.participant === null ? [] : wanted.filter(id => homes.get(id) === id)
    const mine = own.length === 0 ? new Set() : await index.participates(user, own)
    const channels = wanted.filter(id => {
      const home = homes.get(id)
      if (home === undefined) return false
      if (scope.channels.includes(id) || mine.has(id)) return true
      return scope.homes.includes(home) && !scope.hidden.includes(id)
    })
    return { ...nowhere, channels }
  }

  const stemsIn = async (index: Index, words: readonly string[]) =>
    words.length === 0 ? new Map<string, string[]>() : index.stems(words, policy.search_languages)

  async function find(
    index: Index,
    scope: Scope,
    query: SearchQuery,
    author: Snowflake | undefined,
    span: Span,
  ): Promise<Found> {
    const people = [...query.from, ...query.mentions]
    const named = people.length === 0 ? new Map<string, Snowflake>() : await index.usersNamed(people)
    const idsOf = (who: string): Snowflake[] => [
      ...new Set([...(isId(who) ? [who] : []), named.get(who)].filter(id => id !== undefined)),
    ]
    let authors = query.from.length === 0 ? null : query.from.flatMap(idsOf)
    if (author !== undefined) authors = authors === null || authors.includes(author) ? [author] : []
    const mentioned = query.mentions.map(idsOf)
    // Who is not there wrote nothing and was never mentioned.
    if (authors?.length === 0 || mentioned.some(ids => ids.length === 0)) return { found: [], edge: null }

    const stems = await stemsIn(index, stemmable(query))
    const stemsOf = (word: string) => stems.get(word) ?? []
    const parts = queryParts(query, { authors, mentioned }, stemsOf)
    const loose = queryParts(query, { authors, mentioned }, stemsOf, true)

    const facts = scopeFacts({ servers: scope.homes, channels: scope.channels, participant: scope.participant })
    if (facts.length === 0) return { found: [], edge: null }
    const wanted = { ...span, pinned: query.pinned }
    if (parts.length === 0) {
      const places = await listed(index, scope)
      if (places) return walked(index, places, wanted)
    }
    const all = parts.join("&")
    const exact = all === loose.join("&") ? null : all
    const [few, looks, further] =
      exact === null
        ? [reach.few, reach.looks, growth.usual]
        : [reach.fewOfPhrases, reach.looksForPhrases, growth.phrases]
    const isRare = loose.length > 0 && (await index.expected(loose.join("&"))) <= few
    const look = (words: readonly string[], pieces: readonly string[] | null, places: Placed | null) =>
      index.newest(
        { words, pieces, exact },
        { places, hidden: scope.hidden },
        wanted,
        pieces === null ? 2 * few : looks,
      )
    const pieces = async () => {
      const start = await index.newestIn(scope, scope.participant, span.below)
      return stretchesBack(span.from, span.below, start ?? firstIdAt(http.clock()), further)
    }
    if (!isRare && facts.length <= reach.fewPlaces)
      return look([...loose, `(${facts.map(fact => `'${fact}'`).join("|")})`], await pieces(), null)
    const here = { ...scope, fact: scope.participant === null ? null : factOf.participant(scope.participant) }
    const newest = await look(loose, isRare ? null : await pieces(), here)
    const { found, edge, own } = newest
    if (parts.length === 0 || edge === null || found.length >= span.limit || own > looks / reach.strangers)
      return newest
    const rest = { ...wanted, below: edge, limit: span.limit - found.length }
    return { found: [...found, ...(await index.matching(parts, facts, scope, rest))], edge: null }
  }

  /** The places of a scope one by one; null: they are too many. */
  async function listed(index: Index, scope: Scope): Promise<Places | null> {
    const { participant, homes, channels } = scope
    const directs = participant === null ? [] : await index.directsOf(participant, reach.places + 1)
    const places = { ...scope, channels: [...channels, ...directs] }
    return homes.length + places.channels.length > reach.places ? null : places
  }

  /** Whatever is in some places, the newest first. */
  async function walked(index: Index, places: Places, wanted: Span & { pinned: boolean | null }): Promise<Found> {
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

  /** Newest first, as the caller sees them: messages of one channel together, put back in order. */
  async function shown(reader: Snowflake, states: readonly MessageState[]): Promise<Message[]> {
    const byChannel = new Map<Snowflake, MessageState[]>()
    for (const state of states) {
      const others = byChannel.get(state.channel_id)
      if (others) others.push(state)
      else byChannel.set(state.channel_id, [state])
    }
    const seen = await Promise.all([...byChannel.values()].map(messages => seenBy(views, reader, messages)))
    return seen.flat().toSorted((a, b) => compareIds(b.id, a.id))
  }

  return {
    async searchChannel({
      params: { channel_id },
      query: { content, limit = limits.searchPage },
      caller: { user_id },
    }) {
      await readable(user_id, channel_id)
      const pattern = foldedText(content)
      const ids = await timely(user_id, index => substring(index, reach, channel_id, pattern, limit))
      const found = await storage.messages.find(channel_id, ids)
      // What was edited or deleted since it was indexed is looked at as it is.
      const states = ids
        .flatMap(id => found.get(id) ?? [])
        .filter(state => foldedText(state.content ?? "").includes(pattern))
      return seenBy(views, user_id, states)
    },

    async searchMessages({ query: asked, caller: { user_id } }) {
      requireIds(asked)
      const { limit = limits.searchPage, cursor, server_id, author_id } = asked
      const key = keyOf("messages", user_id, asked, [
        "query",
        "conversation_id",
        "server_id",
        "channel_id",
        "author_id",
      ])
      const last = cursor === undefined ? undefined : readCursor(cursor, key)
      if (last !== undefined && !isId(last)) throw fail("invalid_cursor")
      const query = readQuery(asked.query, http.clock())
      const channels = await channelsAsked(user_id, asked)
      const { states, end } = await timely(user_id, async index => {
        let scope = await scopeOf(index, user_id, channels, server_id)
        if (isEmpty(query)) return { states: [], end: null }
        if (query.in.length > 0) scope = await within(index, user_id, scope, query.in, server_id)
        const until = query.before === null ? beyondIds : idAt(query.before)
        const below = last !== undefined && compareIds(last, until) < 0 ? last : until
        const from = query.after === null ? "0" : idAt(query.after)
        const { found, edge } = await find(index, scope, query, author_id, { from, below, limit: limit + 1 })
        const page = found.slice(0, limit)
        return {
          states: page.length === 0 ? [] : await index.messages(page),
          // Where it was looked no further the next page goes on, whatever this one found.
          end: found.length > limit ? page.at(-1)!.message_id : edge,
        }
      })
      return {
        results: await shown(user_id, states),
        next_cursor: end === null ? null : writeCursor(end, key),
      }
    },

    async searchUsers({ query: asked, caller: { user_id } }) {
      requireIds(asked)
      const { query, server_id, limit = limits.searchPage, cursor } = asked
      const key = keyOf("users", user_id, asked, ["query", "server_id"])
      const skip = cursor === undefined ? 0 : Number(readCursor(cursor, key))
      if (!Number.isInteger(skip) || skip < 0 || skip >= limits.usersFound) throw fail("invalid_cursor")
      if (server_id !== undefined) {
        if (!(await storage.servers.find(server_id))) throw fail("server_not_found")
        if ((await storage.servers.members(server_id, [user_id])).size === 0) throw fail("access_denied")
      }
      const most = Math.min(limit, limits.usersFound - skip)
      const found = await timely(user_id, index =>
        index.usersBeginning(query, { user: user_id, server: server_id ?? null, skip, limit: most + 1 }),
      )
      const next = skip + most
      return {
        results: found.slice(0, most).map(row => {
          const { id, username, avatar_url, badges } = shownUser(row)
          const score = Math.round((100 * codePoints(query)) / codePoints(username)) / 100
          return { user_id: id, username, display_name: null, avatar_url, badges, score: Math.min(1, score) }
        }),
        next_cursor: found.length > most && next < limits.usersFound ? writeCursor(String(next), key) : null,
      }
    },

    async searchServers({ query: asked, caller: { user_id } }) {
      const { query, category, limit = limits.searchPage, cursor } = asked
      const key = keyOf("servers", user_id, asked, ["query", "category"])
      const after = cursor === undefined ? null : placeIn(readCursor(cursor, key))
      const found = await timely(user_id, index =>
        index.publicServers(query, { category: category ?? null, after, limit: limit + 1 }),
      )
      const page = found.slice(0, limit)
      const last = page.at(-1)
      return {
        results: page.map(({ id, hundredths, ...server }) => ({ server_id: id, ...server, score: hundredths / 100 })),
        next_cursor:
          last && found.length > limit ? writeCursor(`${last.hundredths}:${last.member_count}:${last.id}`, key) : null,
      }
    },
  }
}

interface Asked {
  readonly conversation_id?: string | undefined
  readonly server_id?: string | undefined
  readonly channel_id?: string | undefined
  readonly author_id?: string | undefined
}
interface Span {
  readonly from: Snowflake
  readonly below: Snowflake
  readonly limit: number
}

const idErrors: Readonly<Record<keyof Asked, ErrorCode>> = {
  conversation_id: "invalid_channel_id",
  channel_id: "invalid_channel_id",
  server_id: "invalid_server_id",
  author_id: "invalid_user_id",
}
function requireIds(asked: Asked): void {
  for (const [name, code] of Object.entries(idErrors) as [keyof Asked, ErrorCode][]) {
    const id = asked[name]
    if (id !== undefined && !isId(id)) throw fail(code)
  }
}

/** The same statements, none of which is begun once nobody waits for it any longer. */
const whileWanted = (index: Index, isWanted: () => boolean): Index =>
  around(index, async ask => {
    if (!isWanted()) throw unavailable("search", 5)
    return ask()
  })

const mayRead = (outline: MemberOutline, user: Snowflake, channel: Snowflake | null): boolean => {
  const member = { user_id: user, roles: outline.member_roles }
  const overrides = (channel !== null && outline.overrides.get(channel)) || []
  return holdsIn(outline, overrides, member, "channels.view") && holdsIn(outline, overrides, member, "messages.read")
}

/** Only channels that say something of their own have to be looked at: the others are as their server is. */
function readableIn(user: Snowflake, outlines: readonly MemberOutline[]): Places {
  const homes: Snowflake[] = []
  const hidden: Snowflake[] = []
  const channels: Snowflake[] = []
  for (const outline of outlines) {
    const isOpen = mayRead(outline, user, null)
    if (isOpen) homes.push(outline.id)
    for (const channel of outline.overrides.keys())
      if (mayRead(outline, user, channel) !== isOpen) (isOpen ? hidden : channels).push(channel)
  }
  return { homes, hidden, channels }
}

const isEmpty = ({ terms, from, in: places, mentions, has, pinned, before, after }: SearchQuery): boolean =>
  [terms, from, places, mentions, has].every(list => list.length === 0) &&
  pinned === null &&
  before === null &&
  after === null

/** The first id of a moment; the last of all where ids do not reach so far. */
const idAt = (ms: number): Snowflake => {
  const id = firstIdAt(ms)
  return isId(id) ? id : beyondIds
}

/** Whose search a cursor belongs to, and which. It guards nothing: what may be seen is decided anew for every page. */
const keyOf = (kind: string, user: Snowflake, asked: object, names: readonly string[]): string =>
  createHash("sha256")
    .update(JSON.stringify([kind, user, ...names.map(name => (asked as Record<string, unknown>)[name] ?? null)]))
    .digest("base64url")
    .slice(0, 12)

const writeCursor = (place: string, key: string): string => Buffer.from(`${key}${place}`).toString("base64url")

function readCursor(cursor: string, key: string): string {
  const text = Buffer.from(cursor, "base64url").toString("latin1")
  const isWhole = Buffer.from(text, "latin1").toString("base64url") === cursor
  if (!isWhole || !text.startsWith(key) || !/^[\d:]+$/.test(text.slice(key.length))) throw fail("invalid_cursor")
  return text.slice(key.length)
}

function placeIn(text: string): ServerHitPlace {
  const [, hundredths, members, id] = /^(\d{1,3}):(\d{1,9}):(\d+)$/.exec(text) ?? []
  if (id === undefined || !isId(id)) throw fail("invalid_cursor")
  return { hundredths: Number(hundredths), member_count: Number(members), id }
}

/**
 * Messages of a channel whose text holds a pattern, the newest first. The newest texts are looked at as they are: they may not be
 * indexed yet. Then those that are, newest first; what is rare among them comes from the index of three characters each, which
 * knows nothing of shorter patterns: for those as much is looked at as may be, and what is not whole then is refused.
 */
async function substring(
  index: Index,
  { tail, texts, textsAtOnce, mostTexts }: SearchReach,
  channel: Snowflake,
  pattern: string,
  limit: number,
): Promise<Snowflake[]> {
  const newest = await index.tail(channel, tail)
  const found = newest.filter(({ content }) => foldedText(content ?? "").includes(pattern)).map(({ id }) => id)
  if (found.length >= limit) return found.slice(0, limit)
  if (newest.length < tail) return found
  let below = newest.at(-1)!.id
  const isIndexed = /[\p{L}\p{N}]{3}/u.test(pattern)
  let count = texts
  for (let left = mostTexts; left > 0; left -= count, count = Math.min(4 * count, textsAtOnce)) {
    const walked = await index.walkTexts(channel, pattern, below, limit - found.length, Math.min(count, left))
    found.push(...walked.found)
    if (found.length >= limit || walked.edge === "0") return found
    below = walked.edge
    if (isIndexed) return [...found, ...(await index.matchingTexts(channel, pattern, below, limit - found.length))]
  }
  throw fail("search_too_short")
}
