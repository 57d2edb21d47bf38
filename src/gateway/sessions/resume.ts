import type { z } from "zod"
import { WorkerGone, type Bus } from "../../cluster/bus.ts"
import type { DeliveryLogs } from "../../cluster/delivery-log.ts"
import type { GatewaySessions, SessionRecord } from "../../cluster/gateway-sessions.ts"
import type { AccessSession } from "../../cluster/tokens.ts"
import type { WorkerStreams } from "../../cluster/worker-streams.ts"
import { Failure } from "../../contract/errors.ts"
import type { Snowflake } from "../../contract/fields.ts"
import { Resume, resumed } from "../../contract/gateway.ts"
import { guildCreate, guildDelete } from "../../contract/servers.ts"
import type { Clock } from "../../domain/clock.ts"
import { guildObject } from "../../domain/servers.ts"
import type { Log } from "../../observability/log.ts"
import type { Metrics } from "../../observability/metrics.ts"
import type { Storage } from "../../storage/storage.ts"
import type { Membership } from "../../storage/users.ts"
import { type PeerLogs, LogTruncated } from "../replay/peer-log.ts"
import { Frame, FrameRefused, plainFrame } from "../protocol/frames.ts"
import { cutsOf, keptSpans, segmentsFrom, locate, type Span } from "../state/log-spans.ts"
import type { Subscriptions } from "../fan-out/subscriptions.ts"
import { noteChange, type CatchUpReader } from "../replay/catch-up-reader.ts"
import { rewind, takeBack } from "../replay/rewinding.ts"
import type { HomeSubscriptions } from "../fan-out/home-subscriptions.ts"
import { Guilds, knownAt, type Connection, type GuildChange, type Session } from "../state/session.ts"
import { ClientDisconnected, type Sessions } from "./sessions.ts"
import type { TokenCheck } from "./token-check.ts"

export interface ResumeOptions {
  readonly self: string
  readonly subscriptions: Subscriptions
  readonly reader: CatchUpReader
  readonly homes: HomeSubscriptions
  readonly peerLogs: PeerLogs
  readonly sessions: Sessions
  readonly records: GatewaySessions
  readonly streams: () => Pick<WorkerStreams, "oldest" | "recentAfter">
  readonly logs: DeliveryLogs
  readonly bus: Bus
  readonly storage: Pick<Storage, "servers">
  readonly tokens: TokenCheck
  /** Where a user is a member. */
  readonly membershipsOf: (user: Snowflake) => Promise<Membership[]>
  readonly isLiving: (worker: string) => boolean
  /** A client says up to where it has received what it was sent. */
  readonly onNamed: (session: Session, position: number) => void
  /** A session that came here from another worker goes on here. */
  readonly onMoved: (session: Session) => void
  /** A connection has a session from here on. */
  readonly onOpen: (connection: Connection) => void
  /** How many may wait to come from elsewhere. */
  readonly queue: number
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
}

/** What a session's client knows of servers. */
type Known = Pick<SessionRecord, "guilds" | "changes" | "voice">
type ResumeRequest = z.output<typeof Resume>

/** In a storm the others wait. */
const movesAtOnce = 256

/** Milliseconds for workers to write their sessions' records to a Redis that has failed over. */
const recoversWithin = 2_000

/** A place where a session cannot go on; the client is told and may identify. */
class NotResumable extends Error {}

/**
 * How sessions go on: RESUME brings one back, from whichever worker it lived on. It begins reading, and goes live at the head of
 * the log. It keeps:
 *   RES1  A resumed session receives everything after its `seq`, once and in order, or
 *       INVALID_SESSION.
 */
export class ResumeHandler {
  readonly #options: ResumeOptions
  readonly #resuming = new Map<string, Promise<void>>()
  /** Sessions that come from elsewhere at this moment, and those that wait for their turn. */
  #moving = 0
  readonly #movers: (() => void)[] = []
  /** When records were lost that their workers write again. */
  #lostAt = -Infinity

  constructor(options: ResumeOptions) {
    this.#options = options
    options.records.onLoss(() => (this.#lostAt = options.clock.monotonic()))
    options.bus.handle<{ session: string }, Known | null>("claimSession", ({ session }) => this.#handAway(session))
  }

  async resume(connection: Connection, d: unknown): Promise<void> {
    const { metrics, log } = this.#options
    if (d === null || typeof d !== "object" || Array.isArray(d)) throw new FrameRefused("decode_error")
    try {
      const asked = Resume.safeParse(d)
      if (!asked.success) throw new NotResumable("malformed")
      const access = await this.#options.tokens.accessOf(connection, asked.data)
      if (!access) throw new NotResumable("token")
      await this.#inTurn(asked.data.session_id, () => this.#resume(connection, asked.data, access))
    } catch (error) {
      if (!(error instanceof NotResumable || error instanceof ClientDisconnected || error instanceof LogTruncated))
        throw error
      metrics.gateway.resumes.invalid.inc()
      metrics.gateway.invalidSessions.inc()
      log.debug({ why: error.message }, "session not resumable")
      this.#options.subscriptions.sendPayload(connection, plainFrame(connection.encoding, "INVALID_SESSION", false))
    }
  }

  /** One RESUME of a session at a time; the last one keeps it. */
  async #inTurn(id: string, resume: () => Promise<void>): Promise<void> {
    const before = this.#resuming.get(id)
    const mine = (before ?? Promise.resolve()).catch(() => {}).then(resume)
    this.#resuming.set(id, mine)
    try {
      await mine
    } finally {
      if (this.#resuming.get(id) === mine) this.#resuming.delete(id)
    }
  }

  async #resume(connection: Connection, request: ResumeRequest, access: AccessSession): Promise<void> {
    const { session_id: id, seq } = request
    const { subscriptions, metrics } = this.#options
    const local = subscriptions.byId.get(id)
    if (local && local.user !== access.user_id) throw new NotResumable("another user's")
    if (local && locate(local.spans, seq) === local.spans.at(-1)) {
      await this.#resumeHere(connection, local, request, access)
      metrics.gateway.resumes.same_worker.inc()
      return
    }
    // From elsewhere; or from here, with a position from before the session came here.
    await this.#inMove(() => this.#resumeWithRecord(connection, request, access))
  }

  /** So many at once that what they ask goes together, and so few that each is answered in time. */
  async #inMove(move: () => Promise<void>): Promise<void> {
    if (this.#moving >= movesAtOnce) {
      if (this.#movers.length >= this.#options.queue) throw new FrameRefused("try_again_later")
      await new Promise<void>(resolve => this.#movers.push(resolve))
    } else this.#moving++
    try {
      await move()
    } finally {
      const next = this.#movers.shift()
      if (next) next()
      else this.#moving--
    }
  }

  async #resumeWithRecord(connection: Connection, request: ResumeRequest, access: AccessSession): Promise<void> {
    const { session_id: id, seq } = request
    const { self, metrics, isLiving } = this.#options
    if (connection.closed) throw new ClientDisconnected()
    const record = await this.#claim(id, access, seq)
    const living = isLiving(record.worker)
    // The record may be a moment behind; who holds the session is not.
    let known: Known | null = null
    if (record.worker === self) known = await this.#handAway(id)
    else if (living) known = await this.#askForIt(record)
    await this.#resumeFromElsewhere(connection, { ...record, ...known }, request, access)
    if (record.worker === self) metrics.gateway.resumes.same_worker.inc()
    else if (living) metrics.gateway.resumes.other_worker_alive.inc()
    else metrics.gateway.resumes.dead_worker.inc()
  }

  /** The session lives here: its log goes on where the client stopped. */
  async #resumeHere(
    connection: Connection,
    session: Session,
    { seq, compress }: ResumeRequest,
    access: AccessSession,
  ): Promise<void> {
    const { subscriptions } = this.#options
    this.#requireOwn(session, seq)
    const before = session.connection
    try {
      await this.#options.sessions.count(session)
      // It may have ended meanwhile, or another worker has it.
      if (subscriptions.byId.get(session.id) !== session) throw new FrameRefused("try_again_later")
      this.#requireOwn(session, seq)
      if (connection.closed) throw new ClientDisconnected()
    } catch (error) {
      if (!session.connection) await this.#options.sessions.uncount(session)
      throw error
    }
    // The end of the old socket meanwhile has counted the session out.
    if (session.connection !== before) this.#options.sessions.countAgain(session)
    this.#options.sessions.leaveSocket(session)
    this.#options.onNamed(session, seq)
    session.accessSession = access.session_id
    session.peerSlices = undefined
    session.cuts = cutsOf(session.spans.at(-1))
    session.repeatedUntil = Math.max(session.repeatedUntil, session.cursor)
    session.cursor = seq
    rewind(session, seq)
    session.hidden = undefined
    const unsure = this.#goBack(session, seq)
    session.encoding = this.#options.sessions.encodingFor(connection, compress)
    this.#attach(connection, session, seq)
    for (const server of unsure) this.#options.sessions.reconcile(session, server)
    this.#options.sessions.save(session)
  }

  /** What the session's own log holds after a position can be read again. */
  #requireOwn(session: Session, seq: number): void {
    const { subscriptions, streams } = this.#options
    if (locate(session.spans, seq) !== session.spans.at(-1)) throw new FrameRefused("try_again_later")
    // What an earlier socket was sent counts too, wherever a later RESUME has begun anew.
    if (seq < streams().oldest || seq > Math.max(subscriptions.position, session.cursor))
      throw new NotResumable("out of reach")
  }

  /**
   * Takes back what the session learned of servers after `seq`: its client was not told. What the log said is read again.
   * @returns servers that the log did not tell it of
   */
  #goBack(session: Session, seq: number): Snowflake[] {
    const { subscriptions, homes } = this.#options
    const known = knownAt(seq, session.guilds.keys(), session.changes)
    const unsure = session.changes.flatMap(change => (change.s > seq && change.isLookedUp ? [change.server] : []))
    for (const server of session.guilds.keys()) {
      if (known.has(server)) continue
      subscriptions.removeGuild(session, server)
      homes.release(server)
    }
    // The changes stay: until they are read again they say what the client still knows, wherever it resumes next.
    return unsure
  }

  async #resumeFromElsewhere(
    connection: Connection,
    record: SessionRecord,
    { token, properties, seq, compress }: ResumeRequest,
    access: AccessSession,
  ): Promise<void> {
    const { subscriptions, homes, self, logs, peerLogs, isLiving, clock, metrics, records } = this.#options
    const spans = record.spans as Span[]
    const from = locate(spans, seq)!
    const held = new Set<Snowflake>()
    const hold = (home: Snowflake) => {
      held.add(home)
      return homes.hold(home)
    }
    let begun: Session | undefined
    try {
      const position = await peerLogs.positionAt(from, seq)
      const walk = segmentsFrom(spans, from, position, new Map())
      // Positions of ours for what the other logs hold, above everything the client has seen.
      const joined: Span[] = []
      // An old `seq` may name less than the session has been given: no position of any of its logs is given twice. A dead
      // worker gives nothing more: a join that was made after its death is above all that it gave.
      const given = await Promise.all(walk.filter(({ log }) => isLiving(log)).map(({ log }) => peerLogs.ends(log)))
      let floor = Math.max(seq, ...given.map(({ last }) => last))
      for (const { log, start, after } of walk) {
        const join = await peerLogs.join(log, { start, isLiving: isLiving(log), above: floor })
        const cuts = after && Object.fromEntries(after)
        joined.push({ log, lo: join.lo, hi: join.hi, counted: true, since: join.since, start, cuts })
        floor = join.hi
      }
      held.add(access.user_id)
      await homes.holdUser(access.user_id)
      let memberships: Membership[]
      let cuts: ReadonlyMap<Snowflake, number> | undefined
      for (;;) {
        memberships = await this.#options.membershipsOf(access.user_id)
        const missing = memberships.filter(({ server_id }) => !held.has(server_id))
        // Looked at after the cuts: whatever changed before is in what is read from elsewhere, whatever comes later in our log.
        if (cuts && missing.length === 0) break
        await Promise.all(missing.map(({ server_id }) => hold(server_id)))
        await Promise.all(missing.map(({ server_id }) => homes.need(server_id)))
        cuts = new Map(await Promise.all([...held].map(async home => [home, await homes.cut(home)] as const)))
      }
      const notBefore = (await logs.lastPosition(self)) ?? 0
      const own: Span = {
        log: self,
        // The last reserved position is where this log begins for it: a session that goes live there stands there.
        lo: floor,
        hi: null,
        counted: false,
        since: floor,
        cuts: Object.fromEntries(cuts),
      }
      const session: Session = {
        id: record.id,
        user: access.user_id,
        accessSession: access.session_id,
        intents: record.intents,
        encoding: this.#options.sessions.encodingFor(connection, compress),
        connection: undefined,
        state: "detached",
        cursor: floor,
        notBefore,
        repeatedUntil: 0,
        isElsewhere: true,
        peerSlices: undefined,
        cuts,
        waiting: false,
        guilds: new Guilds(),
        ownRules: undefined,
        spans: [...keptSpans(spans, seq), ...joined, own],
        named: -1,
        settled: -1,
        voice: (record.voice as Session["voice"] | null) ?? undefined,
        hidden: undefined,
        changes: record.changes as readonly GuildChange[],
        roleChanges: [],
        sentAt: clock.monotonic(),
        progressAt: clock.monotonic(),
      }
      const segments = segmentsFrom(spans, from, position, cuts)
      session.peerSlices = await Promise.all(
        segments.map((segment, i) => peerLogs.read(segment, joined[i] as Span & { hi: number }, session.user)),
      )
      const joinedServers = session.peerSlices.flatMap(({ joined }) => joined)
      for (const server of joinedServers)
        (session.hidden ??= new Map<Snowflake, number>()).set(server, (session.hidden?.get(server) ?? 0) + 1)
      if (connection.closed) throw new ClientDisconnected()
      if (memberships.some(({ server_id }) => !homes.view(server_id) && !homes.isGone(server_id)))
        throw new LogTruncated("a gap lies between")
      for (const { server_id, roles } of memberships) {
        const view = homes.view(server_id)
        if (!view) continue
        held.delete(server_id)
        subscriptions.addGuild(session, view, roles, view.at(0, cuts.get(server_id)))
      }
      takeBack(session)
      held.delete(access.user_id)
      for (const server of held) homes.release(server)
      held.clear()
      subscriptions.add(session)
      metrics.gateway.sessions.detached.inc()
      begun = session
      const [differences, still] = await Promise.all([
        this.#differences(
          session,
          knownAt(seq, record.guilds, record.changes as readonly GuildChange[]),
          session.peerSlices[0]!.first - 1,
          seq,
        ),
        this.#options.tokens.accessOf(connection, { token, properties }),
      ])
      // Whoever has claimed it since has it; and from here on he asks this worker for it.
      if (!(await records.save(this.#options.sessions.recordOf(session)))) throw new FrameRefused("try_again_later")
      await this.#options.sessions.count(session)
      if (connection.closed || !still || subscriptions.byId.get(session.id) !== session) throw new ClientDisconnected()
      this.#attach(connection, session, seq, differences)
      this.#options.onMoved(session)
    } catch (error) {
      if (begun) this.#options.sessions.drop(begun)
      for (const home of held) homes.release(home)
      // Nothing was sent: unless what it missed is nowhere, the next RESUME begins where this one did.
      const left =
        error instanceof LogTruncated ? records.forget(record.id, self) : records.save({ ...record, worker: self })
      await Promise.all([left.catch(() => {}), begun && this.#options.sessions.uncount(begun)])
      throw error
    }
  }

  /** RESUMED, then reading; RES1. */
  #attach(connection: Connection, session: Session, seq: number, differences: readonly Frame[] = []): void {
    const { subscriptions, reader, metrics, onOpen } = this.#options
    session.connection = connection
    session.state = "reading"
    session.waiting = false
    connection.session = session
    metrics.gateway.sessions.detached.dec()
    metrics.gateway.sessions.reading.inc()
    connection.ws.cork(() => {
      subscriptions.open(session, new Frame(resumed.name, seq, "{}"))
      for (const frame of differences) subscriptions.send(session, frame)
      reader.begin(session)
      onOpen(connection)
    })
  }

  /** What the client has to be told of servers: those that went, those that came, those that it left and joined again. */
  async #differences(session: Session, known: ReadonlySet<Snowflake>, s: number, seq: number): Promise<Frame[]> {
    const { storage, subscriptions } = this.#options
    const frames: Frame[] = []
    const isNotified = subscriptions.hearsOf(session, guildCreate.name)
    const tell = (isMember: boolean, server: Snowflake, d: unknown) => {
      noteChange(session, { server, s, isMember, isEarly: true })
      if (isNotified) frames.push(new Frame(isMember ? guildCreate.name : guildDelete.name, s, JSON.stringify(d)))
    }
    // ClientDisconnected and joined again since; unless an earlier resume has said so already.
    const said = new Set(session.changes.flatMap(change => (change.isEarly && change.s <= seq ? [change.server] : [])))
    const isBack = (server: Snowflake) => session.hidden?.has(server) === true && !said.has(server)
    for (const server of known)
      if (!session.guilds.has(server) || isBack(server))
        tell(false, server, { id: server, server_id: server, guild_id: server })
    for (const server of session.guilds.keys()) {
      if (known.has(server) && !isBack(server)) continue
      const state = await storage.servers.load(server)
      const member = { user_id: session.user, roles: session.guilds.get(server)!.roles }
      if (state) tell(true, server, guildObject(state, member))
    }
    return frames
  }

  async #requireReach(spans: readonly Span[], seq: number): Promise<void> {
    const { peerLogs } = this.#options
    const from = locate(spans, seq)
    if (!from) throw new NotResumable("out of reach")
    const position = await peerLogs.positionAt(from, seq)
    const { oldest, last } = await peerLogs.ends(from.log)
    if (position < oldest - 1 || position > last) throw new NotResumable("out of reach")
  }

  /** Only for a position that was given out: a wrong one costs the session nothing, and would push this worker's own away. */
  async #claim(id: string, access: AccessSession, seq: number): Promise<SessionRecord> {
    const { records, self, clock } = this.#options
    for (let attempt = 0; attempt < 3; attempt++) {
      let record = await records.load(id)
      while (!record && clock.monotonic() - this.#lostAt < recoversWithin) {
        await clock.sleep(50)
        record = await records.load(id)
      }
      if (!record) throw new NotResumable("unknown")
      if (record.user !== access.user_id) throw new NotResumable("another user's")
      await this.#requireReach(record.spans as readonly Span[], seq)
      if (await records.claim(id, record.worker, self)) return record
    }
    throw new FrameRefused("try_again_later")
  }

  /** The worker that holds it closes its socket and lets go. */
  async #askForIt({ id: session, worker }: SessionRecord): Promise<Known | null> {
    const { bus, clock, isLiving } = this.#options
    const id = bus.newId()
    const deadline = clock.monotonic() + 2_000
    for (;;)
      try {
        return await bus.request<Known | null>(worker, "claimSession", { session }, deadline - clock.monotonic(), id)
      } catch (error) {
        if (!(error instanceof WorkerGone) && !(error instanceof Failure)) throw error
        // Dead or silent: the session is ours by its record, and whatever it still sends goes nowhere.
        if (error instanceof Failure || !isLiving(worker)) return null
        // It may only be moving its inbox.
        await clock.sleep(50)
        if (clock.monotonic() >= deadline) return null
      }
  }

  /** Lets go of a session that another worker has claimed. @returns the servers that its client knows */
  async #handAway(id: string): Promise<Known | null> {
    const session = this.#options.subscriptions.byId.get(id)
    if (!session) return null
    const { connection } = session
    const known = { guilds: [...session.guilds.keys()], changes: session.changes, voice: session.voice ?? null }
    this.#options.sessions.leaveSocket(session)
    this.#options.sessions.drop(session, true)
    // Its end does not count it out any more, and whoever has claimed the session may fail before he counts his own in.
    if (connection) await this.#options.sessions.uncount(session)
    return known
  }
}
