import type { Clock } from "../../std/clock.ts"
import { isRulesChange, type Control, type RulesChange } from "../../domain/core/control.ts"
import { appendedAtMs, type LogItem } from "../../domain/core/log-entry.ts"
import { msOf, shardOf } from "../../domain/core/snowflake.ts"
import type { MessageRefs } from "../../contract/core/registry.ts"
import type { Log } from "../../observability/log.ts"
import type { Metrics } from "../../observability/metrics.ts"
import { controlOf, userOf } from "./controls.ts"
import type { Subscriptions } from "./subscriptions.ts"
import type { HomeSubscriptions } from "./home-subscriptions.ts"
import type { Session } from "../state/session.ts"
import { kindOf } from "./member-kinds.ts"
import { WritePace } from "./write-pace.ts"

/** Sends the log to sessions that read it at their own pace, each from its own cursor. */
export interface CursorReader {
  readonly size: number
  /** The head of the log has moved. */
  wake(): void
  /** The session reads from its cursor on. */
  begin(session: Session): void
  /** Applies a control entry to one session. */
  control(session: Session, control: Control, s: number): void
  /** How many channels a live session is to be told of when it passes a change of its server's rules, or of its user's roles. */
  toldBy(session: Session, control: ViewChange): number
}

export interface StreamOptions {
  readonly subscriptions: Subscriptions
  readonly reader: CursorReader
  readonly homes: HomeSubscriptions
  /** The session can never be resumed: what it missed is not stored anywhere. */
  readonly giveUp: (session: Session) => void
  /** Bytes that are published per turn of the event loop before socket buffers are checked. */
  readonly slice: number
  /** A live session with more unsent bytes than this goes back to reading. */
  readonly budget: number
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
}

/** What decides who sees what in a server, or what one member sees there. */
export type ViewChange = RulesChange | Extract<Control, { type: "memberRoles" }>

const isViewChange = (control: Control): control is ViewChange =>
  isRulesChange(control) || control.type === "memberRoles"

/** After so many milliseconds other work has its turn. */
const moveSlice = 4

/**
 * A session that is told of more channels than this by one change reads the change from the log, so
 * that the others do not wait until it has been told.
 */
const maxToldLive = 16

/**
 * What one socket of a large audience is given in a turn of the event loop. uWebSockets.js writes up to
 * 16 KiB with one system call, and copies what is more once again.
 */
const maxTogetherBytes = 16_000

/** Handled items are removed when they hold so many bytes. */
const maxHandledBytes = 4 * 1024 * 1024

/**
 * Sends this worker's log to the live sessions, in order. Control entries take effect before the
 * items that follow them.
 */
export class Stream {
  readonly #options: StreamOptions
  #waiting: LogItem[] = []
  #next = 0
  #waitingBytes = 0
  /** Of items that were handled and are still held. */
  #handledBytes = 0
  #scheduled = false
  /** A turn of the event loop was ended because no more goes into one system call; the next one goes on. */
  #isCut = false
  readonly #pace = new WritePace()
  #onSent: (() => void) | undefined
  /**
   * Live sessions that have not yet passed the rules change, or the end of their server, at which
   * the log stands.
   */
  #moving: { sessions: Iterator<Session | undefined>; control: Control; s: number } | undefined

  constructor(options: StreamOptions) {
    this.#options = options
  }

  get behind(): number {
    return this.#waiting.length - this.#next
  }

  /** Bytes of what waits to be sent. */
  get behindBytes(): number {
    return this.#waitingBytes
  }

  /** Does something at the end of the turn in which nothing is left to be sent; once, and the last that was asked for. */
  onceSent(action: () => void): void {
    this.#onSent = action
  }

  take(items: readonly LogItem[]): void {
    if (items.length > 0) this.#pace.came(this.#options.clock.monotonic(), this.behind === 0)
    for (const item of items) {
      this.#waiting.push(item)
      this.#waitingBytes += item.bytes
    }
    this.#schedule()
  }

  #schedule(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    const run = () => {
      this.#scheduled = false
      this.#run()
    }
    const { clock } = this.#options
    const pause = this.#pause(clock.monotonic())
    if (pause > 0) clock.after(pause, run)
    else clock.soon(run)
  }

  /** Milliseconds until what waits is to be sent; timers count whole ones. */
  #pause(nowMs: number): number {
    if (this.#moving || this.#isCut) return 0
    const pause = this.#pace.dueAt - nowMs
    return pause >= 1 ? pause : 0
  }

  #run(): void {
    const { subscriptions, reader, slice, clock, metrics } = this.#options
    const startedAt = clock.monotonic()
    // More has come meanwhile.
    if (this.#pause(startedAt) > 0) return this.#schedule()
    // Sessions that read may have been sent as much as a slice meanwhile.
    this.lookAtBuffers()
    subscriptions.beginTurn()
    this.#isCut = false
    const first = this.#next
    const oldest = this.#waiting[first]
    while (this.#next < this.#waiting.length && subscriptions.unlookedBytes < slice) {
      // Checked before anything else is sent: after a lost frame nothing may follow.
      if (subscriptions.holed.size > 0) this.closeHoled()
      const item = this.#waiting[this.#next]!
      this.#isCut = subscriptions.turn.bytes > 0 && subscriptions.turn.bytes + item.bytes > maxTogetherBytes
      if (this.#isCut) break
      if (!this.#moving) this.#act(item)
      if (!this.#hasMoved()) break
      this.#next++
      this.#waitingBytes -= item.bytes
      this.#handledBytes += item.bytes
      subscriptions.position = item.s
    }
    this.lookAtBuffers()
    // The oldest of them waited longest.
    if (oldest && this.#next > first)
      metrics.gateway.lagSeconds.observe(Math.max(0, clock.now() - appendedAtMs(oldest.s)) / 1000)
    metrics.gateway.publishSeconds.observe((clock.monotonic() - startedAt) / 1000)
    this.#pace.sent(subscriptions.turn)
    if (!this.#isCut) this.#pace.flushed(clock.monotonic())
    // Items that were handled are removed in large batches: cutting the front of the array moves
    // the rest.
    if (this.#next === this.#waiting.length || this.#next > 10_000 || this.#handledBytes > maxHandledBytes) {
      this.#waiting.splice(0, this.#next)
      this.#next = 0
      this.#handledBytes = 0
    }
    if (this.#waiting.length > 0) this.#schedule()
    else this.#sent()
    if (reader.size > 0) reader.wake()
  }

  #sent(): void {
    const action = this.#onSent
    this.#onSent = undefined
    action?.()
  }

  #act(item: LogItem): void {
    const { header } = item
    if (header[0] === "e" || header[0] === "x") {
      const trace = header[0] === "e" ? header[8] : undefined
      const startedAt = trace === undefined ? 0 : this.#options.clock.monotonic()
      this.#options.subscriptions.publish(item, header)
      if (header[5] === "MESSAGE_CREATE" && header[0] === "e") this.#delivered(header[7])
      if (trace !== undefined)
        this.#options.metrics.tracer?.note("publish", trace, startedAt, { "starling.event": header[5] })
    } else if (header[0] === "c") {
      const user = userOf(header)
      if (header[5] === "sessionEnded") {
        const ended = controlOf(item) as Extract<Control, { type: "sessionEnded" }>
        this.#options.homes.accessEnded(ended.user, ended.session)
      }
      if (user === undefined || this.#options.subscriptions.ofUser(user).length > 0)
        this.#control(controlOf(item), item.s, header[2])
    } else if (header[0] === "g") this.#gap(header[1])
  }

  /** A new message's id says when its turn was. */
  #delivered(about: MessageRefs | null | undefined): void {
    const message = about?.[1]
    if (message === undefined) return
    const { clock, metrics } = this.#options
    metrics.gateway.deliverySeconds.observe(Math.max(0, clock.now() - msOf(message)) / 1000)
  }

  #control(control: Control, s: number, row: number): void {
    const { subscriptions, reader, homes } = this.#options
    if (isRulesChange(control)) {
      const from = homes.view(control.server)?.now
      const view = homes.change(control, row, s)
      // A new name, and what was loaded already, moves nobody.
      if (view && from && view.now !== from) this.#moving = { sessions: subscriptions.passing(view, from), control, s }
      return
    }
    if (control.type === "serverDeleted") {
      const view = homes.view(control.server)
      homes.forgetServer(control.server)
      if (view) this.#moving = { sessions: subscriptions.sessionsOf(view).values(), control, s }
      return
    }
    // When an access session ends, all its gateway sessions end at once, wherever they read.
    for (const session of subscriptions.ofUser(control.user))
      if (session.state === "live") this.#pass(session, control, s)
      else if (control.type === "sessionEnded") reader.control(session, control, s)
    if (control.type === "sessionEnded")
      for (const session of subscriptions.ofUser(control.user))
        if (session.accessSession === control.session) this.#options.giveUp(session)
  }

  /**
   * Moves live sessions past a rules change that concerns very many of them, a slice per turn of
   * the event loop. Until all have passed it the log waits, so that nobody receives later events
   * under the earlier rules. That is short: a session that is to be told much is no longer live
   * from here on. It reads the log from before the change.
   */
  #hasMoved(): boolean {
    if (!this.#moving) return true
    const { subscriptions, clock } = this.#options
    const { sessions, control, s } = this.#moving
    subscriptions.isMoving = true
    const until = clock.monotonic() + moveSlice
    for (;;) {
      const { value: session, done } = sessions.next() as IteratorResult<Session | undefined, undefined>
      if (done) break
      if (session?.state === "live") this.#pass(session, control, s)
      // Checked after each session and kind of members: a combination of roles that is new takes as
      // long as a hundred others.
      if (clock.monotonic() >= until) return false
    }
    this.#moving = undefined
    subscriptions.isMoving = false
    return true
  }

  /** A live session passes a control entry, or goes back to reading in front of it. */
  #pass(session: Session, control: Control, s: number): void {
    const { reader, metrics } = this.#options
    if (isViewChange(control) && this.#isToRead(session, control)) {
      this.#read(session)
      metrics.gateway.readingChanges.inc()
    } else reader.control(session, control, s)
  }

  #isToRead(session: Session, control: ViewChange): boolean {
    const guild = session.guilds.get(control.server)
    return (
      guild !== undefined && (kindOf(guild).isToRead || this.#options.reader.toldBy(session, control) > maxToldLive)
    )
  }

  /**
   * The log is in another Redis, where what was not read up to a position comes again later. A session that has it from other
   * logs, and waits for it to pass in this one, would be sent it twice: it is closed and begins anew.
   */
  noteMoved(position: number): void {
    const { subscriptions, giveUp } = this.#options
    for (const session of subscriptions.byId.values()) {
      if (session.state === "live" || session.notBefore <= position) continue
      if (session.connection) subscriptions.close(session.connection, "unknown_error")
      giveUp(session)
    }
  }

  /** A gap is never silent: sessions that take events of the shard are closed and begin anew. */
  #gap(shard: number): void {
    const { subscriptions, homes, log, metrics, giveUp } = this.#options
    metrics.gateway.gaps.inc()
    homes.forgetShard(shard)
    let closed = 0
    for (const session of subscriptions.byId.values()) {
      if (shardOf(session.user) !== shard && ![...session.guilds.keys()].some(server => shardOf(server) === shard))
        continue
      closed++
      if (session.connection) subscriptions.close(session.connection, "unknown_error")
      giveUp(session)
    }
    log.warn({ shard, sessions: closed }, "gap in the delivery log")
  }

  /**
   * Called after something was sent, to close sessions that lost a frame and to find sockets that
   * are slow.
   */
  lookAtBuffers(): void {
    const { subscriptions, slice } = this.#options
    if (subscriptions.holed.size > 0) this.closeHoled()
    if (subscriptions.unlookedBytes >= slice) this.#lookAtBuffers()
  }

  /** Sessions with slow sockets read from the log from now on, at their own pace. */
  #lookAtBuffers(): void {
    const { subscriptions, budget, metrics } = this.#options
    subscriptions.unlookedBytes = 0
    for (const session of subscriptions.byId.values()) {
      const { connection } = session
      if (session.state !== "live" || !connection || connection.closed || connection.ws.getBufferedAmount() <= budget)
        continue
      metrics.gateway.fallenToReading.inc()
      this.#read(session)
    }
  }

  /** From here on the session reads the log at its own pace, until it has come to its head. */
  #read(session: Session): void {
    const { subscriptions, reader } = this.#options
    subscriptions.goReading(session)
    reader.begin(session)
  }

  /** A frame for this socket was refused and is lost: nothing more may be sent there. */
  closeHoled(): void {
    const { subscriptions } = this.#options
    for (const connection of subscriptions.holed) {
      const { session } = connection
      // Resumed on another connection, it is none of this one's.
      if (session?.connection === connection && session.state === "live") subscriptions.goReading(session)
      if (!connection.closed) connection.ws.close()
    }
    subscriptions.holed.clear()
  }
}
