import type { PresenceLookup } from "../../actors/social/presence-lookup.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { presenceUpdate } from "../../contract/social/presence.ts"
import type { Clock, Timer } from "../../std/clock.ts"
import { looksSame, offline, type Seen } from "../../domain/core/presences.ts"
import type { Log } from "../../observability/log.ts"
import type { Storage } from "../../storage/storage.ts"
import { Frame } from "../protocol/frames.ts"
import type { Session } from "../state/session.ts"
import type { Subscriptions } from "./subscriptions.ts"

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

interface Change {
  readonly user: Snowflake
  readonly seen: Seen
}

/**
 * Presence in servers that are too large to tell every member of every other: a session is told of
 * the members whom it asked for. Now and then one lookup covers all members that sessions of this
 * worker watch, and a change is told to the sessions that watch the member.
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
      watched.delete(user)
      watched.set(user, seen)
      if (watched.size > maxWatchedPerServer) watched.delete(watched.keys().next().value!)
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
    const users = new Set<Snowflake>()
    for (const servers of this.#watched.values())
      for (const watched of servers.values()) for (const user of watched.keys()) users.add(user)
    const asked = [...users]
    for (let i = 0; i < asked.length && !this.#stopped; i += lookUpBatchSize)
      await this.#lookUp(asked.slice(i, i + lookUpBatchSize))
  }

  async #lookUp(users: readonly Snowflake[]): Promise<void> {
    const { seen, unknown } = await this.#options.presences.lookUp(users)
    const found = new Map(users.flatMap(user => (unknown.has(user) ? [] : [[user, seen.get(user) ?? offline]])))
    for (const [session, servers] of this.#watched)
      for (const [server, watched] of servers) {
        const changes = [...watched].flatMap(([user, told]): Change[] => {
          const now = found.get(user)
          return now && !looksSame(now, told) ? [{ user, seen: now }] : []
        })
        if (changes.length > 0) await this.#tell(session, server, changes)
      }
  }

  /** WATCH1. A session that is still being sent older events is told at a later lookup. */
  async #tell(session: Session, server: Snowflake, changes: readonly Change[]): Promise<void> {
    const { storage, subscriptions } = this.#options
    const users = changes.map(({ user }) => user)
    const [members, blocked] = await Promise.all([
      storage.servers.members(server, users),
      storage.guildMembers.blocked(session.user, users),
    ])
    const watched = this.#watched.get(session)?.get(server)
    if (!watched || session.state !== "live" || subscriptions.isMoving || !session.guilds.has(server)) return
    for (const { user, seen } of changes) {
      const told = watched.get(user)
      if (!told) continue
      const isOver = !members.has(user) || blocked.has(user)
      const shown = isOver ? offline : seen
      if (isOver && watched.delete(user)) this.#count--
      else watched.set(user, shown)
      // A user who left is reported by the event of a member who left; a user who blocks looks
      // offline.
      if (!members.has(user) || looksSame(shown, told)) continue
      const { status, custom_status, custom_emoji } = shown
      const d = JSON.stringify({ user_id: user, status, custom_status, custom_emoji })
      subscriptions.send(session, new Frame(presenceUpdate.name, subscriptions.placeOf(session), d))
    }
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
