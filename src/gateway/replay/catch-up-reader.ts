import { channelCreate, channelDelete } from "../../contract/communities/channels.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { guildCreate, guildDelete, type Guild as ShownGuild } from "../../contract/communities/servers.ts"
import type { WorkerStreams } from "../../cluster/worker-streams.ts"
import type { Clock } from "../../std/clock.ts"
import type { Control } from "../../domain/core/control.ts"
import type { LogItem } from "../../domain/core/log-entry.ts"
import type { Log } from "../../observability/log.ts"
import { controlOf, userOf } from "../fan-out/controls.ts"
import { Frame } from "../protocol/frames.ts"
import { OwnLog, type OwnLogOptions } from "./own-log.ts"
import { belongsTo, nextPiece, passPiece } from "./peer-log.ts"
import { Kind } from "../fan-out/member-kinds.ts"
import type { Holder } from "../../domain/core/permissions.ts"
import type { ViewChange } from "../fan-out/stream.ts"
import type { Subscriptions } from "../fan-out/subscriptions.ts"
import type { PeerLogSlice } from "../state/log-spans.ts"
import { viewChanges, type ViewChanges, type VisibilityRules } from "../state/visibility-rules.ts"
import type { HomeSubscriptions } from "../fan-out/home-subscriptions.ts"
import type { Guild } from "../state/server-view.ts"
import { changesKept, wholeMs, type GuildChange, type Session } from "../state/session.ts"

/** More channels than a server has: it bounds what is only shared. */
const framesShared = 1_024

export interface CatchUpReaderOptions {
  readonly subscriptions: Subscriptions
  readonly homes: HomeSubscriptions
  readonly streams: () => Pick<WorkerStreams, "recentAfter" | "oldest" | "at">
  readonly logs: OwnLogOptions["logs"]
  readonly self: string
  /**
   * A socket with more unsent bytes than this is given no more; and no socket more than this in one
   * turn of the event loop.
   */
  readonly budget: number
  readonly stuckAfterMs: number
  /** The user's membership changed in a way that the log did not tell this session in full. */
  readonly reconcile: (session: Session, server: Snowflake) => void
  /** The servers that a session knows have changed. */
  readonly changed: (session: Session) => void
  readonly clock: Clock
  readonly log: Log
}

/** After so many milliseconds of sending, other work has its turn. */
const sliceMs = 4
/** A session that missed so little is sent it together with its first frame. */
const shortItems = 16

/**
 * Sends the log to sessions that read it from their own cursor: new sessions, resumed ones, and
 * those with slow sockets. Each is given as much as its socket takes. At the head of the log a
 * session goes live in the same tick as its last frame. It keeps:
 *   CATCH1  A session receives every piece of the log that is meant for it, in order, in either
 *       mode of reading.
 *   CATCH2  A slow reader does not delay the others.
 *   CATCH3  Of the frames of one change only the last has its position, the others have the one
 *       before: who received only some of them resumes before the change, and is told all.
 */
export class CatchUpReader {
  readonly #options: CatchUpReaderOptions
  readonly #reading = new Set<Session>()
  /** Frames that sessions at the same place were told last, as they are the same for all of them. */
  #told: { s: number; readonly frames: Map<string, Frame> } = { s: -1, frames: new Map() }
  readonly #ownLog: OwnLog
  /** Sessions that go on in this turn of the event loop, or in one of the next. */
  readonly #due = new Set<Session>()
  #isScheduled = false

  constructor(options: CatchUpReaderOptions) {
    this.#options = options
    this.#ownLog = new OwnLog(options)
  }

  /** Begins after the session's cursor. */
  begin(session: Session): void {
    session.progressAt = wholeMs(this.#options.clock)
    this.#reading.add(session)
    this.#later(session)
  }

  /**
   * Begins with a session whose socket has just been opened, in its cork. Where there is little or
   * nothing to be sent, that goes out with what was sent already, and the session is live at once.
   */
  open(session: Session): void {
    session.progressAt = wholeMs(this.#options.clock)
    this.#reading.add(session)
    if (session.peerSlices) {
      if (this.#isShort(session, session.peerSlices)) this.#pump(session)
    } else if (session.cursor === this.#options.subscriptions.position) this.#reachHead(session)
    if (session.state === "reading") this.#later(session)
  }

  #isShort({ cursor }: Session, slices: readonly PeerLogSlice[]): boolean {
    let count = this.#options.streams().recentAfter(cursor)?.length ?? Infinity
    for (const { homes } of slices) for (const { at, next } of homes) count += at.length - next
    return count <= shortItems
  }

  leave(session: Session): void {
    this.#reading.delete(session)
    this.#due.delete(session)
  }

  get size(): number {
    return this.#reading.size
  }

  /**
   * The head of the log has moved: sessions that wait for it go on, a slice per turn of the event
   * loop. There may be very many of them, and much that they are told.
   */
  wake(): void {
    for (const session of this.#reading) if (!session.waiting) this.#due.add(session)
    if (!this.#isScheduled) this.#goOn()
  }

  /** However many sessions read, and however much: none of it keeps other work waiting for long. */
  #goOn(): void {
    const { clock } = this.#options
    const until = clock.monotonic() + sliceMs
    // Those that have more to be sent are added again, at the end.
    let left = this.#due.size
    for (const session of this.#due) {
      this.#due.delete(session)
      this.pump(session)
      if (--left === 0 || clock.monotonic() >= until) break
    }
    if (this.#due.size > 0) this.#schedule()
  }

  #later(session: Session): void {
    this.#due.add(session)
    this.#schedule()
  }

  #schedule(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    this.#options.clock.soon(() => {
      this.#isScheduled = false
      this.#goOn()
    })
  }

  /** Closes sessions whose sockets have not taken a byte for too long. */
  sweep(): void {
    const { clock, stuckAfterMs, subscriptions } = this.#options
    this.#ownLog.sweep()
    const before = clock.monotonic() - stuckAfterMs
    for (const session of this.#reading) {
      const { connection } = session
      if (!connection || connection.closed || session.progressAt > before || connection.ws.getBufferedAmount() === 0)
        continue
      subscriptions.close(connection, "rate_limited")
    }
  }

  /** The socket has taken some of its bytes. */
  drained(session: Session): void {
    session.progressAt = wholeMs(this.#options.clock)
    if (session.state === "reading" && !session.waiting) this.pump(session)
  }

  /** Gives the socket as much as it takes; the session goes live at the head of the log. */
  pump(session: Session): void {
    const { connection } = session
    if (session.state !== "reading" || session.waiting || !connection || connection.closed) return
    try {
      connection.ws.cork(() => this.#pump(session))
    } catch (error) {
      // One session must not keep the others from being served, nor end the process.
      this.#options.log.error({ err: error }, "session not served")
      this.#options.subscriptions.close(connection, "unknown_error")
    }
  }

  #pump(session: Session): void {
    const { subscriptions, streams, budget } = this.#options
    const connection = session.connection!
    const until = subscriptions.sentBytes + budget
    for (;;) {
      if (session.waiting || connection.closed) return
      if (connection.ws.getBufferedAmount() > budget / 2) return // drain goes on
      if (subscriptions.sentBytes >= until) return this.#later(session)
      if (session.peerSlices) {
        this.#sendPeerLog(session, until)
        continue
      }
      const recent = streams().recentAfter(session.cursor)
      // Of what is behind the oldest position only a part may be left.
      if (!recent && session.cursor < streams().oldest) return subscriptions.close(connection, "rate_limited")
      const items = recent ?? this.#ownLog.after(session.cursor)
      if (!items) return this.#readBack(session)
      const sent = this.#sendOwn(session, items, until)
      if (sent === "head" || (sent === "all" && recent)) return this.#reachHead(session)
    }
  }

  /** All up to the position of the live sessions is sent: this one goes live, if it may. */
  #reachHead(session: Session): void {
    const { subscriptions } = this.#options
    if (subscriptions.position < session.notBefore || subscriptions.isMoving) return // wake goes on
    this.#catchUp(session)
    this.leave(session)
    subscriptions.goLive(session)
    session.cuts = undefined
    if (session.isElsewhere) subscriptions.sendPosition(session)
    session.isElsewhere = false
  }

  /**
   * Sends some of this worker's log after the cursor. `head`: up to where the live sessions stand.
   * `all`: all that was given. `some`: the socket is full, or the session waits or has had its turn.
   */
  #sendOwn(session: Session, items: readonly LogItem[], until: number): "head" | "all" | "some" {
    const { subscriptions, budget } = this.#options
    const connection = session.connection!
    for (const item of items) {
      if (item.s > subscriptions.position) return "head"
      this.#take(session, item, item.s)
      // A view is being loaded: the same item is read again afterwards.
      if (session.waiting || connection.closed) return "some"
      session.cursor = item.s
      if (subscriptions.sentBytes >= until || connection.ws.getBufferedAmount() > budget) return "some"
    }
    return "all"
  }

  /** Memory does not reach back to the cursor, so the log is read from Redis. */
  #readBack(session: Session): void {
    const { clock, log } = this.#options
    const connection = session.connection!
    session.waiting = true
    const goOn = () => {
      // The session was resumed meanwhile, from another position.
      if (session.connection !== connection) return
      session.waiting = false
      this.pump(session)
    }
    this.#ownLog.need(session.cursor, error => {
      if (error === undefined) return goOn()
      log.warn({ err: error }, "delivery log not readable")
      clock.after(200, goOn)
    })
  }

  #sendPeerLog(session: Session, until: number): void {
    const { subscriptions, budget } = this.#options
    // What is taken may close it, and then it is the session's no more.
    const connection = session.connection!
    const [slice] = session.peerSlices!
    if (!slice) return this.#endPeerLogs(session)
    for (let at = nextPiece(slice); at !== undefined; at = nextPiece(slice)) {
      const item = slice.items[at]!
      if (belongsTo(slice.segment, item)) this.#take(session, item, slice.base + at)
      if (session.waiting || connection.closed) return
      passPiece(slice, at)
      if (subscriptions.sentBytes >= until || connection.ws.getBufferedAmount() > budget) return
    }
    session.peerSlices!.shift()
  }

  /**
   * From here on the session reads this worker's log, under the rules of the position where it
   * takes over.
   */
  #endPeerLogs(session: Session): void {
    session.peerSlices = undefined
    const { ownRules } = session
    session.ownRules = undefined
    for (const guild of session.guilds.values()) {
      const own = ownRules?.get(guild.view.id)
      if (own) this.#moveTo(session, guild, { rules: own }, session.cursor)
    }
  }

  /** At the head of the log a session has the same state as all live ones. */
  #catchUp(session: Session): void {
    for (const guild of session.guilds.values())
      if (guild.rules !== guild.view.now)
        this.#moveTo(session, guild, { rules: guild.view.now }, this.#options.subscriptions.position)
  }

  /** Sends one log item to one session. Ephemeral events are only for live sessions. */
  #take(session: Session, item: LogItem, s: number): void {
    const { header } = item
    if (header[0] === "e") {
      const [, , number, home, audience, name, except] = header
      if (isCut(session, home, number) || (audience.kind !== "user" && session.hidden?.has(audience.server))) return
      if (!this.#options.subscriptions.isFor(session, audience, name, except)) return
      this.#options.subscriptions.sendItem(session, item, name, s)
    } else if (header[0] === "c" && !isCut(session, header[3], header[2])) {
      if ((userOf(header) ?? session.user) === session.user) this.control(session, controlOf(item), s)
    }
  }

  /**
   * Applies a control entry to one session at its position. While a server's view is being loaded
   * the session waits; the entry is read again afterwards.
   */
  control(session: Session, control: Control, s: number): void {
    const { subscriptions } = this.#options
    switch (control.type) {
      case "joined":
        if (control.user === session.user) this.#join(session, control, s)
        return
      case "left":
        if (control.user === session.user) this.#lose(session, control.server, s, s <= session.repeatedUntil)
        return
      case "serverDeleted":
        this.#lose(session, control.server, s, wasTold(session, control.server, s))
        return
      case "membershipsChanged":
        if (control.user === session.user && session.guilds.has(control.server) !== control.member)
          this.#options.reconcile(session, control.server)
        return
      case "sessionEnded":
        if (control.session === session.accessSession && session.connection)
          subscriptions.close(session.connection, "authentication_failed")
        return
      case "memberRoles":
        if (control.user === session.user) this.#changeRoles(session, control, s)
        return
      case "role":
      case "channel":
      case "channelsMoved":
      case "overrides":
      case "server":
        this.#advance(session, control.server, s)
    }
  }

  /** How many channels a live session is to be told of when it passes a change of its server's rules, or of its user's roles. */
  toldBy(session: Session, control: ViewChange): number {
    const guild = session.guilds.get(control.server)
    if (!guild) return 0
    const { rules, roles } = guild
    const isOfRoles = control.type === "memberRoles"
    const before = { user_id: session.user, roles: isOfRoles ? control.before : roles }
    const after = isOfRoles ? { ...before, roles: control.after } : before
    const { gained, lost } = changesFor(guild, before, isOfRoles ? rules : (rules.next?.to ?? rules), after)
    return gained.length + lost.length
  }

  /** Moves the session past every rules change of a server up to a position. */
  #advance(session: Session, server: Snowflake, s: number): void {
    const guild = session.guilds.get(server)
    if (!guild) return
    let { rules } = guild
    while (rules.next && rules.next.at <= s) rules = rules.next.to
    if (rules !== guild.rules) this.#moveTo(session, guild, { rules }, s, s - 1)
  }

  #changeRoles(session: Session, control: Extract<Control, { type: "memberRoles" }>, s: number): void {
    const guild = session.guilds.get(control.server)
    if (!guild) return
    const { server, before, after } = control
    session.roleChanges = [...session.roleChanges.slice(1 - changesKept), { server, s, before }]
    this.#moveTo(session, guild, { rules: guild.rules, rolesBefore: before, roles: after }, s, s - 1)
  }

  /**
   * Tells a session which channels it can or cannot view any more, and what it is sent from now on.
   * @param before the position of all that it is told but the last (CATCH3)
   */
  #moveTo(
    session: Session,
    guild: Guild,
    { rules, rolesBefore = guild.roles, roles = rolesBefore }: NewView,
    s: number,
    before = s,
  ): void {
    const { subscriptions } = this.#options
    const was = { user_id: session.user, roles: rolesBefore }
    const is = roles === rolesBefore ? was : { user_id: session.user, roles }
    const { gained, lost } = changesFor(guild, was, rules, is)
    subscriptions.regroup(session, guild, rules, roles)
    if (session.state === "live") session.cursor = s
    const server_id = guild.view.id
    let left = gained.length + lost.length
    if (left === 0 || session.hidden?.has(server_id)) return
    const tell = (name: string, id: Snowflake, shown: () => object) =>
      this.#tellAlike(session, { name, id, at: --left > 0 ? before : s, s }, shown)
    const tellAll = () => {
      for (const id of lost) tell(channelDelete.name, id, () => ({ id, server_id, guild_id: server_id }))
      for (const channel of gained) tell(channelCreate.name, channel.id, () => channel)
    }
    const { connection } = session
    if (connection && !connection.closed) connection.ws.cork(tellAll)
  }

  #join(session: Session, control: Extract<Control, { type: "joined" }>, s: number): void {
    const { subscriptions, homes, changed } = this.#options
    const known = session.guilds.has(control.server)
    const guild = session.guilds.get(control.server)
    const toCome = session.hidden?.get(control.server) ?? 0
    if (toCome > 1) {
      session.hidden!.set(control.server, toCome - 1)
      return
    }
    const awaited = session.hidden?.delete(control.server) ?? false
    if (guild && awaited) subscriptions.regroup(session, guild, guild.rules, control.roles)
    // The session is read from another worker's log: what it may see now is known already, and its
    // client has been told.
    if (session.peerSlices) return
    if (known && !awaited && s > session.repeatedUntil) return
    if (!known) {
      if (homes.isGone(control.server)) return
      const view = homes.view(control.server)
      if (!view) return this.#await(session, control.server)
      homes.hold(control.server).catch(() => {})
      subscriptions.addGuild(session, view, control.roles, view.at(s))
      noteChange(session, { server: control.server, s, isMember: true })
      changed(session)
    }
    this.tell(session, guildCreate.name, JSON.stringify(shownTo(session, control.event as ShownGuild)), s)
  }

  #lose(session: Session, server: Snowflake, s: number, again: boolean): void {
    const { subscriptions, homes, changed } = this.#options
    if (session.peerSlices) return
    const had = subscriptions.removeGuild(session, server)
    if (had) {
      homes.release(server)
      noteChange(session, { server, s, isMember: false })
      changed(session)
    }
    if (had || again)
      this.tell(session, guildDelete.name, JSON.stringify({ id: server, server_id: server, guild_id: server }), s)
  }

  /** Sends an event that the worker makes itself to one session. */
  tell(session: Session, name: string, d: string, s: number): void {
    const { subscriptions } = this.#options
    if (subscriptions.hearsOf(session, name)) subscriptions.send(session, new Frame(name, s, d))
  }

  /**
   * Tells a session what others are told of the same channel by the same change.
   * @param told `at` is the position of the frame, `s` that of the change
   */
  #tellAlike(
    session: Session,
    { name, id, at, s }: { name: string; id: Snowflake; at: number; s: number },
    shown: () => object,
  ): void {
    const { subscriptions } = this.#options
    if (!subscriptions.hearsOf(session, name)) return
    if (this.#told.s !== s || this.#told.frames.size >= framesShared) this.#told = { s, frames: new Map() }
    const { frames } = this.#told
    const key = `${name} ${id} ${at}`
    let frame = frames.get(key)
    if (!frame) frames.set(key, (frame = new Frame(name, at, JSON.stringify(shown()))))
    subscriptions.send(session, frame)
  }

  /** The session reads, and waits until the server's view is loaded. */
  #await(session: Session, server: Snowflake): void {
    const { subscriptions, homes, clock, log } = this.#options
    if (session.state === "live") {
      subscriptions.goReading(session)
      this.#reading.add(session)
    }
    session.waiting = true
    const { connection } = session
    const goOn = () => {
      homes.release(server)
      if (session.connection !== connection) return
      session.waiting = false
      this.pump(session)
    }
    homes
      .hold(server)
      .then(() => homes.need(server))
      .then(goOn, (error: unknown) => {
        log.warn({ err: error, server }, "server not loaded")
        clock.after(200, goOn)
      })
  }
}

/** The rules that a session reads on under, and its user's roles if they change. */
interface NewView {
  readonly rules: VisibilityRules
  readonly rolesBefore?: readonly Snowflake[]
  readonly roles?: readonly Snowflake[]
}

/** What a session is told of; found out once for all live sessions that see the server alike. */
const changesFor = (guild: Guild, before: Holder, rules: VisibilityRules, after: Holder): ViewChanges =>
  guild instanceof Kind && guild.changes && before === after && guild.rules.next?.to === rules
    ? guild.changes
    : viewChanges(guild.rules, before, rules, after)

const isCut = (session: Session, home: Snowflake, number: number): boolean => {
  const cut = session.peerSlices ? undefined : session.cuts?.get(home)
  return cut !== undefined && number <= cut
}

/** Whether the session lost a server at this position when it read it before. */
const wasTold = ({ changes, repeatedUntil }: Session, server: Snowflake, at: number): boolean =>
  at <= repeatedUntil && changes.some(change => change.server === server && change.s === at && !change.isMember)

export function noteChange(session: Session, change: GuildChange): void {
  session.changes = [...session.changes.slice(1 - changesKept), change]
}

/**
 * What a session's user sees of a server that they join, at the position that the session has read.
 */
export function shownTo(session: Session, shown: ShownGuild): ShownGuild {
  const guild = session.guilds.get(shown.id)
  if (!guild) return shown
  const member = { user_id: session.user, roles: guild.roles }
  return { ...shown, channels: shown.channels.filter(({ id }) => guild.rules.mayView(id, member)) }
}
