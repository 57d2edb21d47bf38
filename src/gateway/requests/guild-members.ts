import { isTransient } from "../../runtime/transient.ts"
import type { PresenceLookup } from "../../actors/social/presence-lookup.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { guildMembersChunk, RequestGuildMembers, type GuildMember } from "../../contract/communities/guild-members.ts"
import { bitOf } from "../../contract/core/intents.ts"
import { avatarPath } from "../../contract/accounts/users.ts"
import type { Clock } from "../../std/clock.ts"
import { offline, type Seen } from "../../domain/core/presences.ts"
import { shownRoles } from "../../domain/communities/servers.ts"
import type { IdRange, ListedMember, MemberChoice } from "../../storage/communities/guild-members.ts"
import type { Storage } from "../../storage/storage.ts"
import { Frame } from "../protocol/frames.ts"
import type { PresenceWatches } from "../fan-out/presence-watches.ts"
import type { Subscriptions } from "../fan-out/subscriptions.ts"
import { retryTransient } from "../sessions/retry-transient.ts"
import type { SessionHandlers } from "./handlers.ts"
import type { Connection, Session } from "../state/session.ts"

export interface GuildMembersOptions {
  readonly storage: Pick<Storage, "guildMembers" | "servers">
  readonly presences: Pick<PresenceLookup, "of">
  readonly subscriptions: Subscriptions
  readonly watches: Pick<PresenceWatches, "watch">
  readonly clock: Clock
}

type Asked = ReturnType<typeof RequestGuildMembers.parse>

const chunkSize = 1_000
/** Members who joined since the list was cut into chunks may be among the others. */
const maxInChunk = 2 * chunkSize
/** Requests that may wait beside the one that is being answered; more are ignored. */
const waitingPerConnection = 3
/** Reads of this worker at a time for all askers, so that other queries have their turn. */
const maxConcurrentReads = 2
/** The next chunk waits while a socket has more unsent bytes than this. */
const unsentBytes = 64 * 1024
/** A read that fails with a transient error is tried again for so many milliseconds. */
const readTimeoutMs = 5_000
/** Milliseconds between two checks of a session that does not stand in this worker's log yet. */
const lookAgain = 50

/** The connection has ended, or the asker is not a member any more. */
class RequestCancelled extends Error {}

/**
 * Op 8 lists members, chunk by chunk. Each chunk is a page by key, read when the socket has taken
 * the one before. Between two chunks all other requests have their turn. It keeps:
 *   LIST1  A connection has one running list and few that wait. A worker has few running reads,
 *       however many are requested.
 *   LIST2  Only current members receive a chunk, checked when it is read.
 *   LIST3  A chunk has the position of its session: no later event is before it.
 */
export class GuildMembers {
  readonly #options: GuildMembersOptions
  readonly #underWay = new WeakMap<Connection, number>()
  readonly #tails = new WeakMap<Connection, Promise<void>>()
  #reads = 0
  readonly #waiting: (() => void)[] = []
  /** Pages that are being read: requests for the same page share one read. */
  readonly #pages = new Map<string, Promise<ListedMember[]>>()

  constructor(options: GuildMembersOptions) {
    this.#options = options
  }

  get handlers(): Pick<SessionHandlers, "REQUEST_GUILD_MEMBERS"> {
    return { REQUEST_GUILD_MEMBERS: (session, d) => this.#request(session, d) }
  }

  /** LIST1. */
  async #request(session: Session, d: unknown): Promise<void> {
    const { connection } = session
    const { data: asked } = RequestGuildMembers.safeParse(d)
    if (!asked || !connection || (session.intents & bitOf("GUILD_MEMBERS")) === 0) return
    const before = this.#underWay.get(connection) ?? 0
    if (before > waitingPerConnection) return
    this.#underWay.set(connection, before + 1)
    const mine = (this.#tails.get(connection) ?? Promise.resolve()).then(() => this.#answer(session, connection, asked))
    this.#tails.set(
      connection,
      mine.catch(() => {}),
    )
    try {
      await mine
    } catch (error) {
      if (!(error instanceof RequestCancelled)) throw error
    } finally {
      this.#underWay.set(connection, this.#underWay.get(connection)! - 1)
    }
  }

  async #answer(session: Session, connection: Connection, asked: Asked): Promise<void> {
    const { guildMembers } = this.#options.storage
    const server = (asked.guild_id ?? asked.server_id)!
    const asker: Asker = { session, connection, server, asked }
    this.#require(asker)
    if (asked.user_ids) {
      const users = [...new Set(asked.user_ids)]
      const rows = await this.#read(asker, () => guildMembers.some(server, users))
      const found = new Set(rows.map(({ user_id }) => user_id))
      const missing = users.filter(user => !found.has(user))
      return this.#send(asker, rows, { index: 0, count: 1, missing })
    }
    const choice: MemberChoice = { server, query: asked.query ?? "" }
    const ends = await this.#read(asker, () => guildMembers.pieces(choice, chunkSize, asked.limit || null))
    if (ends.length === 0) return this.#send(asker, [], { index: 0, count: 1, missing: [] })
    const isOne = choice.query !== "" && ends.length === 1
    let after: Snowflake = "0"
    for (const [index, until] of ends.entries()) {
      const range = { after, until }
      const rows = await this.#read(asker, () =>
        isOne ? guildMembers.onlyPiece(choice, until, maxInChunk) : this.#page(choice, range),
      )
      await this.#send(asker, rows, { index, count: ends.length, missing: [] })
      after = until
    }
  }

  /** Reads a page, and checks that the asker is a member; LIST1, LIST2. */
  async #read<T>(asker: Asker, read: () => Promise<T>): Promise<T> {
    const { storage, clock } = this.#options
    const { session, server } = asker
    if (this.#reads >= maxConcurrentReads) await new Promise<void>(resolve => this.#waiting.push(resolve))
    else this.#reads++
    try {
      this.#require(asker)
      return await retryTransient(clock, readTimeoutMs, async () => {
        const [rows, mine] = await Promise.all([read(), storage.servers.members(server, [session.user])])
        if (!mine.has(session.user)) throw new RequestCancelled()
        return rows
      })
    } finally {
      const next = this.#waiting.shift()
      if (next) next()
      else this.#reads--
    }
  }

  #page(choice: MemberChoice, range: IdRange): Promise<ListedMember[]> {
    const load = () => this.#options.storage.guildMembers.piece(choice, range, maxInChunk)
    if (choice.query !== "") return load()
    const key = `${choice.server} ${range.after} ${range.until}`
    let page = this.#pages.get(key)
    if (!page) {
      page = load().finally(() => this.#pages.delete(key))
      this.#pages.set(key, page)
    }
    return page
  }

  async #send(
    asker: Asker,
    rows: readonly ListedMember[],
    { index, count, missing }: { index: number; count: number; missing: readonly Snowflake[] },
  ): Promise<void> {
    const { subscriptions, watches, clock } = this.#options
    const { session, server, asked } = asker
    const statuses = asked.presences === false ? undefined : await this.#statuses(session.user, rows)
    await this.#untilReady(asker)
    const known = session.guilds.get(server)!.rules
    const members = rows.map(({ user_id, username, bot, nickname, joined_at, roles }): GuildMember => ({
      user_id,
      username,
      nickname,
      avatar_url: avatarPath(user_id),
      bot,
      joined_at,
      roles: shownRoles(known, roles),
      ...(statuses && { presence: { status: statuses.get(user_id)?.status ?? "offline" } }),
    }))
    const chunk = {
      guild_id: server,
      server_id: server,
      members,
      chunk_index: index,
      chunk_count: count,
      not_found: missing,
      ...(asked.nonce !== undefined && { nonce: asked.nonce }),
    }
    // LIST3
    subscriptions.send(
      session,
      new Frame(guildMembersChunk.name, subscriptions.placeOf(session), JSON.stringify(chunk)),
    )
    if (asked.presences === true && statuses)
      await retryTransient(clock, readTimeoutMs, () => watches.watch(session, server, statuses))
  }

  /**
   * The presence of members as the asker sees it. A presence that cannot be known now is shown as
   * offline; changes are told as they come.
   */
  async #statuses(asker: Snowflake, rows: readonly ListedMember[]) {
    const { presences, storage, clock } = this.#options
    const users = rows.map(({ user_id }) => user_id)
    if (users.length === 0) return new Map<Snowflake, Seen>()
    const blocked = await retryTransient(clock, readTimeoutMs, () => storage.guildMembers.blocked(asker, users))
    const seen = await presences.of(users.filter(user => !blocked.has(user))).catch((error: unknown) => {
      if (!isTransient(error)) throw error
      return new Map<Snowflake, Seen>()
    })
    return new Map(users.flatMap(user => (blocked.has(user) ? [] : [[user, seen.get(user) ?? offline] as const])))
  }

  /**
   * Waits until the socket has taken what it was given, and until the session stands in this
   * worker's log. While the session is sent another worker's log, its position is ahead of what it
   * has received.
   */
  async #untilReady(asker: Asker): Promise<void> {
    const { connection, session } = asker
    for (;;) {
      this.#require(asker)
      if (session.peerSlices) await this.#options.clock.sleep(lookAgain)
      else if (connection.ws.getBufferedAmount() <= unsentBytes) return
      else await new Promise<void>(resolve => (connection.onDrain = resolve))
    }
  }

  #require({ session, connection, server }: Asker): void {
    if (connection.closed || session.connection !== connection || !session.guilds.has(server))
      throw new RequestCancelled()
  }
}

interface Asker {
  readonly session: Session
  readonly connection: Connection
  readonly server: Snowflake
  readonly asked: Asked
}
