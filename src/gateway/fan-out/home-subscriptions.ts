import { SharedTurns } from "../../std/batches.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import type { Clock } from "../../std/clock.ts"
import type { LogPlaces } from "../../cluster/delivery-log.ts"
import type { RulesChange } from "../../domain/core/control.ts"
import { shardOf } from "../../domain/core/snowflake.ts"
import type { Log } from "../../observability/log.ts"
import type { ServerOutline } from "../../storage/communities/servers.ts"
import { ServerView } from "../state/server-view.ts"
import { append } from "../../std/multi-map.ts"

/** Up to which row logs hold everything of a home, and where they are; undefined: its owner does not say. */
export interface Registered {
  readonly row: number
  readonly places: LogPlaces | undefined
}

export interface HomeSubscriptionsOptions {
  /**
   * Makes this worker's log take the events of homes of one shard.
   * @returns the row from which it holds them, and where the logs are that hold them
   */
  readonly register: (shard: number, homes: readonly Snowflake[]) => Promise<Registered>
  readonly release: (shard: number, homes: readonly Snowflake[]) => void
  /**
   * Releases users, and resolves once their shard's owner is known to have done it. Others see a
   * user online as long as a worker takes the user's events.
   */
  readonly releaseUsers: (shard: number, users: readonly Snowflake[]) => Promise<void>
  /** Undefined: there is no such server. */
  readonly loadOutline: (server: Snowflake) => Promise<ServerOutline | undefined>
  /** The worker's log can be read after this position, and not after an earlier one. */
  readonly oldest: () => number
  /** How long a home without sessions is kept. */
  readonly keep: number
  readonly clock: Clock
  readonly log: Log
}

/**
 * A user is kept for so long after their last session: long enough for one that comes back at once.
 */
const usersKept = 500
/**
 * The same for a user whose session has moved, when its access session has ended: a resume that was
 * let in before that may be under way.
 */
const endedKept = 3_000

interface Held {
  readonly isUser: boolean
  sessions: number
  unusedSince: number
  /** A user is kept until this moment at least. */
  keptUntil: number
  /** The same, by access session whose session has moved. */
  keptFor: Map<Snowflake, number> | undefined
  /** The registration that is under way. */
  registering: Promise<number> | undefined
  /**
   * The row from which the log holds the home. Nothing relies on the home until it is registered.
   */
  from: number | undefined
}

const newHeld = (isUser: boolean, sessions: number, from: number | undefined): Held => ({
  isUser,
  sessions,
  unusedSince: 0,
  keptUntil: 0,
  keptFor: undefined,
  registering: undefined,
  from,
})

/**
 * The homes whose events this worker's log takes, and the views of the servers among them. A home
 * is registered once and loaded once, however many sessions wait for it.
 */
export class HomeSubscriptions {
  readonly #options: HomeSubscriptionsOptions
  readonly #held = new Map<Snowflake, Held>()
  /**
   * Users who are held for one session and nothing else: the row from which the log holds them. Most
   * are, for hours; they are not in `#held`.
   */
  readonly #settled = new Map<Snowflake, number>()
  readonly #views = new Map<Snowflake, Promise<ServerView | undefined>>()
  readonly #ready = new Map<Snowflake, ServerView>()
  /** Changes that came while a view was being loaded: the loaded view may lack them. */
  readonly #early = new Map<Snowflake, (readonly [change: RulesChange, row: number, at: number])[]>()
  /**
   * Per shard: what its owner is asked, one request at a time. A release of a home in the meantime would be undone by its
   * registration.
   */
  readonly #registering = new Map<number, SharedTurns<Snowflake, Registered>>()
  /** Users who have lost a session, maybe their last, and users whose release did not arrive. */
  readonly #released = new Set<Snowflake>()
  /** Releases under way: a session of the same user registers after them. */
  readonly #leaving = new Map<Snowflake, Promise<unknown>>()
  /** Servers that were asked for and do not exist any more. Ids are never used twice. */
  readonly #gone = new Set<Snowflake>()

  constructor(options: HomeSubscriptionsOptions) {
    this.#options = options
  }

  /** A server's view, if it is loaded. */
  view(server: Snowflake): ServerView | undefined {
    return this.#ready.get(server)
  }

  /**
   * Applies a change of a server's rules that came in the log.
   * @returns the view, if there are sessions to be moved
   */
  change(change: RulesChange, row: number, at: number): ServerView | undefined {
    this.#early.get(change.server)?.push([change, row, at])
    const view = this.#ready.get(change.server)
    view?.apply(change, row, at, this.#options.oldest())
    return view
  }

  isGone(server: Snowflake): boolean {
    return this.#gone.has(server)
  }

  /**
   * Counts a session of the home, and registers the home if it is not registered. Resolves with the
   * row from which the log holds it.
   */
  hold(home: Snowflake): Promise<number> {
    return this.#hold(home, false)
  }

  /** Does the same at once where the home is registered; false: nothing was done. */
  tryHold(home: Snowflake): boolean {
    const held = this.#held.get(home)
    if (held?.from === undefined) return false
    held.sessions++
    return true
  }

  /** Does the same for the user whose session it is. */
  holdUser(user: Snowflake): Promise<number> {
    return this.#hold(user, true)
  }

  #hold(home: Snowflake, isUser: boolean): Promise<number> {
    let held = this.#heldOf(home)
    if (!held) {
      held = newHeld(isUser, 0, undefined)
      this.#held.set(home, held)
    }
    held.sessions++
    if (held.from !== undefined) return Promise.resolve(held.from)
    return (held.registering ??= this.#settle(home, held))
  }

  /** All that is noted of a home, one that is about to change. */
  #heldOf(home: Snowflake): Held | undefined {
    const from = this.#settled.get(home)
    if (from === undefined) return this.#held.get(home)
    this.#settled.delete(home)
    const held = newHeld(true, 1, from)
    this.#held.set(home, held)
    return held
  }

  /** Notes less of a user of whom there is nothing more to note. */
  #condense(user: Snowflake, held: Held): void {
    const { isUser, sessions, from } = held
    if (!isUser || sessions !== 1 || from === undefined || isKept(held, this.#options.clock.monotonic())) return
    this.#held.delete(user)
    this.#settled.set(user, from)
  }

  /**
   * After a failure the sessions that wait are told, and the next one tries again. Every hold is
   * released once, failed or not.
   */
  async #settle(home: Snowflake, held: Held): Promise<number> {
    try {
      held.from = (await this.#register(home)).row
      return held.from
    } finally {
      held.registering = undefined
      if (this.#held.get(home) === held) this.#condense(home, held)
    }
  }

  /** What a new owner of these shards needs to be told. */
  of(shards: ReadonlySet<number>): [home: Snowflake, from: number][] {
    const found: [home: Snowflake, from: number][] = []
    const add = (home: Snowflake, from: number | undefined) => {
      if (from !== undefined && shards.has(shardOf(home))) found.push([home, from])
    }
    for (const [home, { from }] of this.#held) add(home, from)
    for (const [user, from] of this.#settled) add(user, from)
    return found
  }

  /**
   * @param moved the access session of a session that goes on at another worker: until it does, what
   * it misses is read from this worker's log
   */
  release(home: Snowflake, moved?: Snowflake): void {
    const held = this.#heldOf(home)
    if (!held) return
    const now = this.#options.clock.monotonic()
    held.keptUntil = Math.max(held.keptUntil, now + usersKept)
    if (moved !== undefined) {
      held.keptFor ??= new Map()
      for (const [access, until] of held.keptFor) if (until <= now) held.keptFor.delete(access)
      held.keptFor.set(moved, now + this.#options.keep)
    }
    if (--held.sessions === 0) held.unusedSince = now
    if (held.isUser) this.#released.add(home)
  }

  /**
   * An access session has ended: none of its sessions goes on anywhere, and others must not see the
   * user online because of one that moved.
   */
  accessEnded(user: Snowflake, access: Snowflake): void {
    const held = this.#held.get(user)
    if (!held?.keptFor?.delete(access)) return
    held.keptUntil = Math.max(held.keptUntil, this.#options.clock.monotonic() + endedKept)
  }

  /** Registers homes again, to learn up to which row everything stands in the logs by now, and where they are. */
  cuts(homes: readonly Snowflake[]): Promise<Registered[]> {
    return Promise.all(homes.map(home => this.#register(home)))
  }

  /** The view of a server that is held; undefined when the server does not exist any more. */
  async need(server: Snowflake): Promise<ServerView | undefined> {
    let view = this.#views.get(server)
    if (!view) {
      view = this.#load(server)
      this.#views.set(server, view)
      view.catch(() => this.#views.delete(server))
    }
    return view
  }

  /** Removes a server that was deleted. */
  forgetServer(server: Snowflake): void {
    this.#gone.add(server)
    this.#forgetView(server)
  }

  /** Rows of a shard are missing in the log, so views of its servers may be wrong. */
  forgetShard(shard: number): void {
    for (const [server, view] of this.#ready) {
      if (shardOf(server) !== shard) continue
      view.isOver = true
      this.#forgetView(server)
    }
    // Views that are being loaded are loaded again.
    for (const server of this.#early.keys()) if (shardOf(server) === shard) this.#early.delete(server)
  }

  #forgetView(server: Snowflake): void {
    this.#views.delete(server)
    this.#ready.delete(server)
  }

  /** Releases users soon after their last session has ended. */
  sweepUsers(): void {
    const now = this.#options.clock.monotonic()
    const byShard = new Map<number, Snowflake[]>()
    for (const user of this.#released) {
      const held = this.#held.get(user)
      if (held && isKept(held, now)) continue
      if (this.#settled.has(user) || (held && held.sessions > 0)) {
        this.#released.delete(user)
        if (held) this.#condense(user, held)
      } else if (!this.#registering.get(shardOf(user))?.isAsking(user) && !this.#leaving.has(user)) {
        this.#released.delete(user)
        this.#held.delete(user)
        append(byShard, shardOf(user), user)
      }
    }
    for (const [shard, users] of byShard) {
      const leaving = this.#options
        .releaseUsers(shard, users)
        .catch((error: unknown) => {
          this.#options.log.debug({ err: error, shard }, "users not released")
          for (const user of users) if (!this.#held.has(user) && !this.#settled.has(user)) this.#released.add(user)
        })
        .finally(() => {
          for (const user of users) this.#leaving.delete(user)
        })
      for (const user of users) this.#leaving.set(user, leaving)
    }
  }

  /**
   * Releases homes that have had no session for a while, so that a user who comes and goes costs
   * nothing.
   */
  sweep(): void {
    const before = this.#options.clock.monotonic() - this.#options.keep
    if (this.#gone.size > 10_000) this.#gone.clear()
    const byShard = new Map<number, Snowflake[]>()
    for (const [home, held] of this.#held) {
      if (held.isUser || held.sessions > 0 || held.unusedSince > before) continue
      this.#held.delete(home)
      this.#forgetView(home)
      append(byShard, shardOf(home), home)
    }
    for (const [shard, homes] of byShard) this.#options.release(shard, homes)
  }

  #register(home: Snowflake): Promise<Registered> {
    const leaving = this.#leaving.get(home)
    return leaving ? leaving.then(() => this.#ask(home)) : this.#ask(home)
  }

  /** Sends one request at a time to a shard, for all homes that were asked for meanwhile. */
  #ask(home: Snowflake): Promise<Registered> {
    const { register, clock } = this.#options
    const shard = shardOf(home)
    let asking = this.#registering.get(shard)
    if (!asking) {
      asking = new SharedTurns(homes => register(shard, homes), clock)
      this.#registering.set(shard, asking)
    }
    return asking.ask(home)
  }

  async #load(server: Snowflake): Promise<ServerView | undefined> {
    const early: (readonly [change: RulesChange, row: number, at: number])[] = []
    this.#early.set(server, early)
    try {
      await this.#held.get(server)?.registering
      const outline = await this.#options.loadOutline(server)
      if (!outline) {
        this.#gone.add(server)
        return undefined
      }
      if (this.#early.get(server) !== early) return await this.#load(server)
      const view = new ServerView(outline)
      for (const [change, row, at] of early) view.apply(change, row, at, 0)
      this.#ready.set(server, view)
      return view
    } finally {
      if (this.#early.get(server) === early) this.#early.delete(server)
    }
  }
}

function isKept({ keptUntil, keptFor }: Held, now: number): boolean {
  if (keptUntil > now) return true
  if (keptFor) for (const until of keptFor.values()) if (until > now) return true
  return false
}
