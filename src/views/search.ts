import { channelActor } from "../actors/channel.ts"
import { fail, unavailable } from "../contract/core/errors.ts"
import { codePoints, type Snowflake } from "../contract/core/fields.ts"
import { limits } from "../contract/core/limits.ts"
import type { Message } from "../contract/messages/messages.ts"
import type { FoundServer, FoundUser } from "../contract/messages/search.ts"
import { readQuery, type SearchQuery } from "../domain/messages/search-query.ts"
import { foldedText } from "../domain/messages/search-text.ts"
import { compareIds, firstIdSaidAt, highestId, isId } from "../domain/core/snowflake.ts"
import type { MessageState } from "../domain/messages/messages.ts"
import { around, isStoppedStatement } from "../storage/core/database.ts"
import type { ServerHitPlace } from "../storage/messages/search.ts"
import { searchConnections, type Storage } from "../storage/storage.ts"
import { shownUser } from "../storage/accounts/users.ts"
import { byChannel } from "./by-channel.ts"
import { findTexts, type TextReach } from "./channel-search.ts"
import { pageOf, seenBy } from "./message-views.ts"
import { findMessages, type WordReach } from "./search-plan.ts"
import { narrowedTo, scopeOf, type Index } from "./search-scope.ts"
import { searchTurns } from "./search-turns.ts"
import type { ViewSources } from "./sources.ts"

/** How far one search looks, and how many there are at once; see `cluster.config.ts`. */
export interface SearchReach {
  readonly texts: TextReach
  readonly words: WordReach
  readonly turns: { readonly waitingOfOne: number; readonly maxWaiting: number; readonly withinMs: number }
}

export interface SearchSources {
  readonly views: ViewSources & { readonly searchReach: SearchReach }
  readonly storage: Pick<Storage, "messages" | "search" | "servers">
  readonly policy: { readonly search_enabled: boolean; readonly search_languages: readonly string[] }
}

/** A page, as a JSON list, and the id below which the next one begins; null: it is the last. */
export interface MessagePage {
  readonly json: string
  readonly next: Snowflake | null
}

/** What a client may say beside a query; the ids are ids. */
export interface Places {
  readonly conversation_id?: Snowflake | undefined
  readonly server_id?: Snowflake | undefined
  readonly channel_id?: Snowflake | undefined
  readonly author_id?: Snowflake | undefined
}

/** Where a page begins: below an id, if given; and how much it holds. */
interface PageOf {
  readonly below?: Snowflake | undefined
  readonly limit: number
}

/**
 * Seconds after which it makes sense to ask again: for what an operator has switched off, and for
 * what took too long.
 */
const retryAfterSeconds = { switchedOff: 3_600, tooLong: 5 }

/** What readers find. A search that takes too long is refused rather than waited for. */
export class Searches {
  readonly #sources: SearchSources
  readonly #inTurn: ReturnType<typeof searchTurns>

  constructor(sources: SearchSources) {
    const { waitingOfOne, maxWaiting, withinMs } = sources.views.searchReach.turns
    this.#sources = sources
    // No statement waits for a connection, so none is begun after it was given up.
    const bounds = { maxConcurrent: searchConnections, waitingOfOne, waiting: maxWaiting, withinMs }
    this.#inTurn = searchTurns(bounds, () => performance.now())
  }

  /** Messages of a channel whose text holds another, the newest first. */
  async inChannel(user: Snowflake, channel: Snowflake, content: string, page: PageOf): Promise<MessagePage> {
    const { storage, views } = this.#sources
    await this.#homeOfReadable(user, channel)
    const query = { channel, pattern: foldedText(content), below: page.below ?? highestId, limit: page.limit }
    const { ids, edge } = await this.#timely(user, (index, isLate) =>
      findTexts(index, views.searchReach.texts, query, isLate),
    )
    const { messages, isCut } = await storage.messages.newestWithin(channel, ids)
    // What was edited or deleted since it was indexed is looked at as it is.
    const states = messages.filter(state => foldedText(state.content ?? "").includes(query.pattern))
    const shown = listOf(await this.#shown(user, states))
    return { json: shown.json, next: shown.next ?? (isCut ? messages.at(-1)!.id : edge) }
  }

  /** Messages in all that a user may read, the newest first, by words and operators. */
  async messages(user: Snowflake, text: string, places: Places, page: PageOf): Promise<MessagePage> {
    const { policy, views } = this.#sources
    const { clock } = views
    const reach = views.searchReach.words
    const { server_id: server, author_id: author } = places
    const query = readQuery(text, clock())
    const channels = await this.#channelsAsked(user, places)
    const { states, next } = await this.#timely(user, async index => {
      const whole = await scopeOf(index, user, channels, server)
      if (isEmpty(query)) return { states: [], next: null }
      const scope = query.in.length === 0 ? whole : await narrowedTo(query.in, whole, { index, user, server })
      const span = { ...spanOf(query, page.below), limit: page.limit + 1 }
      const languages = policy.search_languages
      const { found, edge } = await findMessages({ index, reach, languages, scope, query, author, span, now: clock() })
      const shown = found.slice(0, page.limit)
      const read = shown.length === 0 ? { messages: [], isCut: false } : await index.messages(shown)
      // Where a search stopped looking the next page goes on, whatever this one found.
      const behindAll = found.length > page.limit ? shown.at(-1)!.message_id : edge
      return { states: read.messages, next: read.isCut ? read.messages.at(-1)!.id : behindAll }
    })
    const shown = listOf(await this.#shown(user, states))
    return { json: shown.json, next: shown.next ?? next }
  }

  /**
   * Users by the beginning of their names, in the order of names; `more`: there are others behind
   * them.
   */
  async users(
    user: Snowflake,
    query: string,
    server: Snowflake | undefined,
    { skip, limit }: { readonly skip: number; readonly limit: number },
  ): Promise<{ users: FoundUser[]; more: boolean }> {
    const { servers } = this.#sources.storage
    if (server !== undefined) {
      if (!(await servers.find(server))) throw fail("server_not_found")
      if ((await servers.members(server, [user])).size === 0) throw fail("access_denied")
    }
    const most = Math.min(limit, limits.usersFound - skip)
    const rows = await this.#timely(user, index =>
      index.usersBeginning(query, { user, server: server ?? null, skip, limit: most + 1 }),
    )
    const users = rows.slice(0, most).map(row => {
      const { id, username, avatar_url, badges } = shownUser(row)
      const score = Math.round((100 * codePoints(query)) / codePoints(username)) / 100
      return { user_id: id, username, display_name: null, avatar_url, badges, score: Math.min(1, score) }
    })
    return { users, more: rows.length > most && skip + most < limits.usersFound }
  }

  /**
   * Public servers, the best and then the largest first. `next`: behind which the next page begins.
   */
  async servers(
    user: Snowflake,
    query: string,
    asked: { readonly category: string | null; readonly after: ServerHitPlace | null; readonly limit: number },
  ): Promise<{ servers: FoundServer[]; next: ServerHitPlace | null }> {
    const { limit } = asked
    const rows = await this.#timely(user, index => index.publicServers(query, { ...asked, limit: limit + 1 }))
    const page = rows.slice(0, limit)
    return {
      servers: page.map(({ id, hundredths, ...server }) => ({ server_id: id, ...server, score: hundredths / 100 })),
      next: rows.length > limit ? page.at(-1)! : null,
    }
  }

  /** The home of a channel that a user may read: its server, or itself. */
  async #homeOfReadable(user: Snowflake, channel: Snowflake): Promise<Snowflake> {
    return (await this.#sources.views.ask(channelActor, channel, { type: "requireRead", user })).server_id
  }

  /** Channels that a search names and the user may read; null: it names none. */
  async #channelsAsked(
    user: Snowflake,
    { conversation_id, server_id, channel_id }: Places,
  ): Promise<Snowflake[] | null> {
    if (server_id !== undefined && !(await this.#sources.storage.servers.find(server_id)))
      throw fail("server_not_found")
    const channels = [...new Set([conversation_id, channel_id].filter(id => id !== undefined))]
    for (const channel of channels) {
      const home = await this.#homeOfReadable(user, channel)
      if (channel === conversation_id && home !== channel) throw fail("channel_not_found")
      if (server_id !== undefined && home !== server_id) throw fail("channel_not_found")
    }
    return channels.length === 0 ? null : channels
  }

  async #timely<T>(user: Snowflake, search: (index: Index, isLate: () => boolean) => Promise<T>): Promise<T> {
    const { policy, storage, views } = this.#sources
    if (!policy.search_enabled) throw unavailable("search is switched off", retryAfterSeconds.switchedOff)
    const due = performance.now() + views.searchReach.turns.withinMs
    const isLate = () => performance.now() >= due
    // Nothing is asked of the database any more once nobody waits for the answer.
    const reads = await views.oldReads?.for(user)
    const index = around(reads?.search ?? storage.search, async ask => {
      if (isLate()) throw unavailable("search", retryAfterSeconds.tooLong)
      return ask()
    })
    try {
      return await this.#inTurn(user, () => search(index, isLate))
    } catch (error) {
      throw isStoppedStatement(error) ? unavailable("search", retryAfterSeconds.tooLong, { cause: error }) : error
    }
  }

  /**
   * As their reader sees them, the newest first: messages of one channel are looked up together,
   * then put back in order.
   */
  async #shown(reader: Snowflake, states: readonly MessageState[]): Promise<Message[]> {
    const channels = [...byChannel(states).values()]
    const seen = await Promise.all(channels.map(messages => seenBy(this.#sources.views, reader, messages)))
    return seen.flat().toSorted((a, b) => compareIds(b.id, a.id))
  }
}

/** As much of it as a page may have. */
const listOf = (messages: readonly Message[]) =>
  pageOf({ messages, isCut: false, around: undefined }, i => JSON.stringify(messages[i]))

const isEmpty = ({ terms, from, in: places, mentions, has, pinned, before, after }: SearchQuery): boolean =>
  [terms, from, places, mentions, has].every(list => list.length === 0) &&
  pinned === null &&
  before === null &&
  after === null

function spanOf({ before, after }: SearchQuery, below: Snowflake | undefined) {
  const until = before === null ? highestId : idAt(before)
  return {
    from: after === null ? "0" : idAt(after),
    below: below !== undefined && compareIds(below, until) < 0 ? below : until,
  }
}

/** The first id of a moment; the last of all where ids do not reach so far. */
const idAt = (ms: number): Snowflake => {
  const id = firstIdSaidAt(ms)
  return isId(id) ? id : highestId
}
