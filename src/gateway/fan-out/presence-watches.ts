import type { PresenceLookup } from "../../actors/social/presence-lookup.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { presenceUpdate } from "../../contract/social/presence.ts"
import type { Clock, Timer } from "../../std/clock.ts"
import { append } from "../../std/multi-map.ts"
import { looksSame, offline, type Seen } from "../../domain/core/presences.ts"
import type { Log } from "../../observability/log.ts"
import type { Storage } from "../../storage/storage.ts"
import { Frame } from "../protocol/frames.ts"
import type { Session } from "../state/session.ts"
import type { Subscriptions } from "./subscriptions.ts"
import { setNewest } from "../../std/bounded-map.ts"

export interface PresenceWatchesOptions {
  readonly presences: Pick<PresenceLookup, "lookUp">
  readonly storage: Pick<Storage, "guildMembers" | "servers">
  readonly subscriptions: Subscriptions
  readonly timing: {
    /** In servers with more members presence is told only to sessions that ask for it. */
    readonly members: number
    /** How often the presence of watched members is looked up. */
    readonly watchEveryMs: number
  }
  readonly clock: Clock
  readonly log: Log
}

/**
 * Members whom a session may watch in one server. When there are more, the one asked for longest
 * ago is removed.
 */
export const maxWatchedPerServer = 200
/**
 * Members that all sessions of this worker may watch together. More are not watched: under load
 * presence is dropped first.
 */
const maxWatched = 200_000
/** Users whose presence is looked up at once. */
const lookUpBatchSize = 2_000

/** By user: the state that the session was told last. */
type Watched = Map<Snowflake, Seen>

/** A user whose presence changed, with the sessions that are to be told, by server. */
interface Change {
  readonly user: Snowflake
  readonly seen: Seen
  readonly sessions: Map<Snowflake, Session[]>
}

/**
 * Presence in servers that are too large to tell every member of every other: a session is told of
 * the members whom it asked for. Now and then one lookup covers all members that sessions of this
 * worker watch, and a change is told to the sessions that watch the member. What a lookup costs
 * PostgreSQL grows with the servers and the users that changed, not with the sessions.
 *   WATCH1  Only who is a member, and not blocked, is told of, to a session that is in the server.
 */
export class PresenceWatches {
  readonly #options: PresenceWatchesOptions
  readonly #watched = new Map<Session, Map<Snowflake, Watched>>()
  #count = 0
  #timer: Timer | undefined
  #stopped = false

  constructor(options: PresenceWatchesOptions) {
    this.#options = options
  }

  /** Adds members whom the session has just been shown. */
  async watch(session: Session, server: Snowflake, shown: ReadonlyMap<Snowflake, Seen>): Promise<void> {
    const { storage, timing, subscriptions } = this.#options
    if (shown.size === 0 || !subscriptions.hearsOf(session, presenceUpdate.name)) return
    if (!(await storage.guildMembers.isLargerThan(server, timing.members))) return
    if (subscriptions.byId.get(session.id) !== session) return
    const servers = this.#watched.get(session) ?? new Map<Snowflake, Watched>()
    const watched = servers.get(server) ?? new Map<Snowflake, Seen>()
    const before = watched.size
    for (const [user, seen] of [...shown].slice(-maxWatchedPerServer)) {
      if (user === session.user) continue
      if (!watched.has(user) && this.#count + watched.size - before >= maxWatched) break
      setNewest(watched, user, seen, maxWatchedPerServer)
    }
    this.#count += watched.size - before
    servers.set(server, watched)
    this.#watched.set(session, servers)
    this.#schedule()
  }

  stop(): void {
    this.#stopped = true
    this.#timer?.stop()
  }

  #schedule(): void {
    const { clock, timing, log } = this.#options
    if (this.#timer || this.#stopped || this.#watched.size === 0) return
    this.#timer = clock.after(timing.watchEveryMs, () => {
      this.#look()
        .catch((error: unknown) => log.debug({ err: error }, "watched presences not known"))
        .finally(() => {
          this.#timer = undefined
          this.#schedule()
        })
        .catch(() => {})
    })
  }

  async #look(): Promise<void> {
    this.#forgetEnded()
    const watchers = new Map<Snowflake, [session: Session, server: Snowflake][]>()
    for (const [session, servers] of this.#watched)
      for (const [server, watched] of servers)
        for (const user of watched.keys()) append(watchers, user, [session, server])
    const asked = [...watchers.keys()]
    for (let i = 0; i < asked.length && !this.#stopped; i += lookUpBatchSize) {
      const users = asked.slice(i, i + lookUpBatchSize)
      const { seen, unknown } = await this.#options.presences.lookUp(users)
      const changes = users.flatMap((user): Change[] => {
        if (unknown.has(user)) return []
        const now = seen.get(user) ?? offline
        const sessions = new Map<Snowflake, Session[]>()
        for (const [session, server] of watchers.get(user)!) {
          const told = this.#watched.get(session)?.get(server)?.get(user)
          if (told && !looksSame(now, told)) append(sessions, server, session)
        }
        return sessions.size > 0 ? [{ user, seen: now, sessions }] : []
      })
      await this.#tell(changes)
    }
  }

  /** One query for each server, and one for each user who changed. */
  async #tell(changes: readonly Change[]): Promise<void> {
    const { storage } = this.#options
    const inServers = new Map<Snowflake, Snowflake[]>()
    for (const { user, sessions } of changes) for (const server of sessions.keys()) append(inServers, server, user)
    const members = new Map<Snowflake, ReadonlyMap<Snowflake, unknown>>()
    for (const [server, users] of inServers) members.set(server, await storage.servers.members(server, users))
    for (const { user, seen, sessions } of changes) {
      const readers = new Set([...sessions.values()].flatMap(some => some.map(session => session.user)))
      const blocked = await storage.guildMembers.blocked(user, [...readers])
      for (const [server, some] of sessions) {
        const isMember = members.get(server)!.has(user)
        for (const session of some)
          this.#tellSession(session, server, { user, seen, isMember, isBlocked: blocked.has(session.user) })
      }
    }
  }

  /** WATCH1. A session that is still being sent older events is told at a later lookup. */
  #tellSession(
    session: Session,
    server: Snowflake,
    { user, seen, isMember, isBlocked }: { user: Snowflake; seen: Seen; isMember: boolean; isBlocked: boolean },
  ): void {
    const { subscriptions } = this.#options
    const watched = this.#watched.get(session)?.get(server)
    if (!watched || session.state !== "live" || subscriptions.isMoving || !session.guilds.has(server)) return
    const told = watched.get(user)
    if (!told) return
    const isOver = !isMember || isBlocked
    const shown = isOver ? offline : seen
    if (isOver && watched.delete(user)) this.#count--
    else watched.set(user, shown)
    // A user who left is reported by the event of a member who left; a user who blocks looks
    // offline.
    if (!isMember || looksSame(shown, told)) return
    const { status, custom_status, custom_emoji } = shown
    const d = JSON.stringify({ user_id: user, status, custom_status, custom_emoji })
    subscriptions.send(session, new Frame(presenceUpdate.name, subscriptions.placeOf(session), d))
  }

  /** Removes what ended sessions watched, and what was watched in servers that are gone. */
  #forgetEnded(): void {
    for (const [session, servers] of this.#watched) {
      const isOver = this.#options.subscriptions.byId.get(session.id) !== session
      for (const [server, watched] of servers) {
        if (!isOver && session.guilds.has(server)) continue
        servers.delete(server)
        this.#count -= watched.size
      }
      if (servers.size === 0) this.#watched.delete(session)
    }
  }
}
