import { placeIn, type LogPlaces } from "../../cluster/delivery-log.ts"
import type { SessionRecord } from "../../cluster/session-record.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { unavailable } from "../../contract/core/errors.ts"
import { resumed, type Resume } from "../../contract/core/gateway.ts"
import { guildCreate, guildDelete } from "../../contract/communities/servers.ts"
import type { Clock } from "../../std/clock.ts"
import { ownText } from "../../std/own-text.ts"
import type { ArrivalOf } from "./arrivals.ts"
import { guildObject } from "../../domain/communities/servers.ts"
import type { Storage } from "../../storage/storage.ts"
import type { Membership } from "../../storage/accounts/users.ts"
import type { ReceivedBefore } from "../../storage/messages/deliveries.ts"
import type { Guild } from "../state/server-view.ts"
import type { HomeSubscriptions } from "../fan-out/home-subscriptions.ts"
import type { Subscriptions } from "../fan-out/subscriptions.ts"
import { Frame } from "../protocol/frames.ts"
import { noteChange } from "../replay/catch-up-reader.ts"
import { LogTruncated, type PeerLogs } from "../replay/peer-log.ts"
import { takeBack } from "../replay/rewinding.ts"
import {
  keptSpans,
  locate,
  moveOf,
  segmentsFrom,
  type PeerLogSlice,
  type ReplaySegment,
  type Span,
} from "../state/log-spans.ts"
import { knownAt, newSession, wholeMs, type Connection, type Session } from "../state/session.ts"
import { HeldHomes } from "./held-homes.ts"
import type { SessionClaims } from "./session-claims.ts"
import { ClientDisconnected, type Sessions } from "./sessions.ts"
import type { LetIn, TokenCheck } from "./token-check.ts"
import type { z } from "zod"

export type ResumeRequest = z.output<typeof Resume>

export interface RestoreOptions {
  readonly self: string
  readonly subscriptions: Subscriptions
  readonly homes: HomeSubscriptions
  readonly peerLogs: PeerLogs
  /** The last position of this worker's own log. */
  readonly ownLog: {
    readonly lastPosition: () => Promise<number | undefined>
    /** In which Redis this worker reads its log, and in which others write it: not the same for a moment after a fail-over. */
    readonly places: () => readonly [read: string, written: string]
  }
  readonly sessions: Sessions
  readonly claims: SessionClaims
  readonly storage: Pick<Storage, "servers">
  readonly tokens: TokenCheck
  readonly arrivalOf: ArrivalOf
  readonly isLiving: (worker: string) => boolean
  readonly clock: Clock
}

/** Positions of this worker's log, reserved for what the client missed in others. */
interface JoinedLogs {
  /** Where the client stopped: the span, and the position in that span's log. */
  readonly from: Span
  readonly position: number
  /** A span for each log that is replayed, oldest first. */
  readonly joined: readonly (Span & { readonly hi: number })[]
  /** The last reserved position. This worker's log begins there for the session. */
  readonly floor: number
}

/** The homes' state for the user, as of one position in the logs. */
interface HeldState {
  readonly memberships: readonly Membership[]
  /** What is there by now in the user's servers and DMs. */
  readonly received: readonly ReceivedBefore[]
  /** Per home, the last row that is read from other logs. */
  readonly cuts: ReadonlyMap<Snowflake, number>
  /** Per home, where the logs are that hold it up to there. */
  readonly places: ReadonlyMap<Snowflake, LogPlaces | undefined>
}

/** What is known of a session that is being restored. */
interface Plan {
  readonly record: SessionRecord
  readonly request: ResumeRequest
  readonly letIn: LetIn
}

/**
 * Restores sessions that were on another worker, or that were here before a part of their log that
 * belongs to another worker.
 */
export class Restore {
  readonly #options: RestoreOptions

  constructor(options: RestoreOptions) {
    this.#options = options
  }

  /** @param plan the session whose record is claimed */
  async restore(connection: Connection, plan: Plan): Promise<Session> {
    const { homes, sessions, claims } = this.#options
    const { record, request } = plan
    const user = plan.letIn.access.user_id
    const held = new HeldHomes(homes)
    let session: Session | undefined
    const [at] = this.#options.ownLog.places()
    try {
      const logs = await this.#joinLogs(record.spans, request.seq)
      const state = await this.#holdHomes(held, plan)
      const built = await this.#build(connection, plan, logs, state)
      if (connection.closed) throw new ClientDisconnected()
      this.#addServers(built, state, held)
      takeBack(built)
      held.keep(user)
      held.release()
      if (this.#options.ownLog.places()[0] !== at) throw unavailable("own log is not known to be whole")
      sessions.add(built)
      session = built
      const differences = await this.#confirm(connection, plan, built)
      sessions.attach(connection, built, new Frame(resumed.name, request.seq, "{}"), differences)
      return built
    } catch (error) {
      if (session) sessions.drop(session)
      held.release()
      await Promise.all([claims.giveBack(record, error).catch(() => {}), session && sessions.uncount(session)])
      throw error
    }
  }

  /** Reserves positions for what the other logs hold, above everything that the client has seen. */
  async #joinLogs(spans: readonly Span[], seq: number): Promise<JoinedLogs> {
    const { peerLogs, isLiving } = this.#options
    const from = locate(spans, seq)!
    const position = await peerLogs.positionAt(from, seq)
    const walk = segmentsFrom(spans, from, position, new Map())
    // An old `seq` may be below positions that the session was given: no position of any of its
    // logs is given twice. A dead worker gives no more positions, and a join that was made after
    // its death is above all that it gave.
    const given = await Promise.all(walk.filter(({ log }) => isLiving(log)).map(({ log }) => peerLogs.ends(log)))
    const joined: (Span & { hi: number })[] = []
    let floor = Math.max(seq, ...given.map(({ last }) => last))
    for (const { log, start, after } of walk) {
      const join = await peerLogs.join(log, { start, isLiving: isLiving(log), above: floor })
      const cuts = after && Object.fromEntries(after)
      joined.push({ log, lo: join.lo, hi: join.hi, counted: true, since: join.since, start, cuts })
      floor = join.hi
    }
    return { from, position, joined, floor }
  }

  /**
   * From here on this worker's log takes the events of the user's home and of the servers where
   * they are a member, which are mostly those that the client knows.
   */
  async #holdHomes(held: HeldHomes, { record, letIn: { access } }: Plan): Promise<HeldState> {
    const { homes, arrivalOf } = this.#options
    const user = access.user_id
    const waits: Promise<unknown>[] = [held.holdUser(user)]
    for (let missing: readonly Snowflake[] = record.guilds; ; waits.length = 0) {
      for (const server of missing) {
        const view = homes.view(server)
        if (!view) waits.push(held.load(ownText(server)))
        else if (!held.tryHold(view.id)) waits.push(held.hold(view.id))
      }
      await Promise.all(waits)
      const all = held.all()
      const registered = await homes.cuts(all)
      // Read after the cuts: earlier changes are read from the other logs, later ones from this
      // one.
      const arrival = await arrivalOf(access.session_id)
      if (arrival?.token_hash !== access.token_hash) throw new ClientDisconnected()
      const memberships = arrival.memberships.map(({ server_id, roles }) => {
        const at = all.indexOf(server_id)
        return { server_id: at < 0 ? server_id : all[at]!, roles }
      })
      missing = memberships.flatMap(({ server_id }) => (held.has(server_id) ? [] : [server_id]))
      if (missing.length > 0) continue
      const cuts = new Map<Snowflake, number>()
      const places = new Map<Snowflake, LogPlaces | undefined>()
      // The client may know servers that the user has left.
      for (const home of [user, ...memberships.map(({ server_id }) => server_id)]) {
        const found = registered[all.indexOf(home)]!
        cuts.set(home, found.row)
        places.set(home, found.places)
      }
      return { memberships, received: arrival.received, cuts, places }
    }
  }

  /**
   * Where this worker's log has all that the homes had sent it by their cuts. In another Redis, which it may have come to
   * meanwhile, that is yet to be sent again, and would come after the session has it from other logs.
   */
  async #endOfOwnLog(places: HeldState["places"]): Promise<number> {
    const { self, ownLog } = this.#options
    const [at] = ownLog.places()
    const isKnown = () => ownLog.places().every(place => place === at)
    const isWhole = [...places.values()].every(place => (placeIn(place, self) ?? at) === at)
    const last = isWhole && isKnown() ? await ownLog.lastPosition() : undefined
    if (last === undefined || !isKnown()) throw unavailable("own log is not known to be whole")
    return last
  }

  /** Makes the session, with all that it is to be sent from other logs. It sees no server yet. */
  async #build(
    connection: Connection,
    { record, request, letIn: { access } }: Plan,
    { from, position, joined, floor }: JoinedLogs,
    { received, cuts, places }: HeldState,
  ): Promise<Session> {
    const { self, peerLogs, sessions, clock } = this.#options
    const spans = record.spans
    const notBefore = await this.#endOfOwnLog(places)
    // A session that goes live stands at the last reserved position.
    const own: Span = {
      log: self,
      lo: floor,
      hi: null,
      counted: false,
      since: floor,
      cuts: Object.fromEntries(cuts),
    }
    const segments = segmentsFrom(spans, from, position, cuts)
    const placesOf = ({ log, until }: ReplaySegment) =>
      [...until.keys()].flatMap(home => placeIn(places.get(home), log) ?? [])
    const peerSlices = await Promise.all(
      segments.map((segment, i) => peerLogs.read(segment, joined[i]!, access.user_id, placesOf(segment))),
    )
    return newSession(
      {
        id: record.id,
        user: access.user_id,
        accessSession: access.session_id,
        intents: record.intents,
        encoding: sessions.encodingFor(connection, request.compress),
        cursor: floor,
        spans: [...keptSpans(spans, request.seq), ...joined, own],
        notBefore,
        before: received,
        isElsewhere: true,
        peerSlices,
        cuts,
        hidden: joinsIn(peerSlices),
        voice: (record.voice as Session["voice"] | null) ?? undefined,
        changes: record.changes,
      },
      wholeMs(clock),
    )
  }

  /** The session sees its servers as they are where this worker's log takes over. */
  #addServers(session: Session, { memberships, cuts }: HeldState, held: HeldHomes): void {
    const { homes, subscriptions } = this.#options
    if (memberships.some(({ server_id }) => !homes.view(server_id) && !homes.isGone(server_id)))
      throw new LogTruncated("a gap lies between")
    const guilds: Guild[] = []
    for (const { server_id, roles } of memberships) {
      const view = homes.view(server_id)
      if (!view) continue
      held.keep(server_id)
      guilds.push(view.seen(roles, view.at(0, cuts.get(server_id))))
    }
    subscriptions.addGuilds(session, guilds)
  }

  /**
   * Just before the client is told, checks again that the session is still this worker's and that
   * the token is still valid.
   */
  async #confirm(connection: Connection, { record, request, letIn }: Plan, session: Session): Promise<Frame[]> {
    const { subscriptions, sessions, tokens } = this.#options
    const known = knownAt(request.seq, record.guilds, record.changes)
    const [differences, still] = await Promise.all([
      this.#differences(session, record, known, request.seq),
      tokens.isStillLetIn(letIn, connection, request),
    ])
    // From here on other workers ask this one for it.
    await sessions.begin(session)
    if (connection.closed || !still || subscriptions.byId.get(session.id) !== session) throw new ClientDisconnected()
    return differences
  }

  /**
   * What the client is told of servers at once: those that went, those that came, those that the
   * user left and joined again.
   */
  async #differences(
    session: Session,
    record: SessionRecord,
    known: ReadonlySet<Snowflake>,
    seq: number,
  ): Promise<Frame[]> {
    const { storage, subscriptions } = this.#options
    const s = session.peerSlices![0]!.first - 1
    const told: (readonly [name: string, d: string])[] = []
    const tell = (isMember: boolean, server: Snowflake, d: unknown) => {
      const { name } = isMember ? guildCreate : guildDelete
      noteChange(session, { server, s, isMember, isEarly: true })
      if (subscriptions.hearsOf(session, guildCreate.name)) told.push([name, JSON.stringify(d)])
    }
    const isBack = joinedSince(record.spans, session, seq)
    for (const server of known)
      if (!session.guilds.has(server) || isBack(server))
        tell(false, server, { id: server, server_id: server, guild_id: server })
    for (const server of session.guilds.keys()) {
      if (known.has(server) && !isBack(server)) continue
      const state = await storage.servers.load(server)
      // It may have ended meanwhile, with a logout; then it is not confirmed.
      const guild = session.guilds.get(server)
      if (state && guild) tell(true, server, guildObject(state, { user_id: session.user, roles: guild.roles }))
    }
    // Who receives only some of them resumes at `seq` again, and is told all.
    return told.map(([name, d], i) => new Frame(name, i < told.length - 1 ? seq : s, d))
  }
}

/**
 * Whether the user has left a server and joined it again since the client was last told of it. What
 * an earlier resume has told counts for the logs that are read again for that same move: the user
 * may have left and joined once more after it.
 */
function joinedSince(
  spans: readonly Span[],
  { changes, peerSlices }: Session,
  seq: number,
): (server: Snowflake) => boolean {
  const move = moveOf(spans, locate(spans, seq)!)
  const [again, since] = [peerSlices!.slice(0, move.segments), peerSlices!.slice(move.segments)].map(
    slices => new Set(slices.flatMap(({ joined }) => joined)),
  ) as [Set<Snowflake>, Set<Snowflake>]
  for (const { isEarly, s, server } of changes) if (isEarly && s >= move.begins && s <= seq) again.delete(server)
  return server => again.has(server) || since.has(server)
}

/** Servers that the user joined in these slices, and how many times; undefined: none. */
function joinsIn(slices: readonly PeerLogSlice[]): Map<Snowflake, number> | undefined {
  const joins = new Map<Snowflake, number>()
  for (const server of slices.flatMap(({ joined }) => joined)) joins.set(server, (joins.get(server) ?? 0) + 1)
  return joins.size > 0 ? joins : undefined
}
