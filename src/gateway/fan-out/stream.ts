import type { Clock } from "../../std/clock.ts"
import { isRulesChange, type Control } from "../../domain/core/control.ts"
import type { LogItem } from "../../domain/core/log-entry.ts"
import { shardOf } from "../../domain/core/snowflake.ts"
import type { Log } from "../../observability/log.ts"
import type { Metrics } from "../../observability/metrics.ts"
import { controlOf, userOf } from "./controls.ts"
import type { Subscriptions } from "./subscriptions.ts"
import type { HomeSubscriptions } from "./home-subscriptions.ts"
import type { Session } from "../state/session.ts"

/** Sessions that read the log at their own pace, each from its own cursor. */
export interface CursorReader {
  readonly size: number
  /** The head of the log has moved. */
  wake(): void
  /** The session reads from its cursor on. */
  begin(session: Session): void
  /** Applies a control entry to one session. */
  control(session: Session, control: Control, s: number): void
}

export interface StreamOptions {
  readonly subscriptions: Subscriptions
  readonly reader: CursorReader
  readonly homes: HomeSubscriptions
  /** The session can never be resumed: what it missed is nowhere. */
  readonly giveUp: (session: Session) => void
  /** Bytes published per turn of the event loop before socket buffers are looked at. */
  readonly slice: number
  /** Unsent bytes above which a live session falls back to reading. */
  readonly budget: number
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
}

/** Milliseconds after which other work has its turn. */
const moveSlice = 4

/** Milliseconds of a system call that writes to one socket, whatever it carries. */
const writing = 0.0036
/** A worker spends at most one part in so many on such calls: what comes meanwhile goes with the next. */
const writingShare = 4
/** Milliseconds that a frame may wait for others. */
const longestPauseMs = 20

/**
 * The worker's log as it grows: each piece acts on, or is published to, the live sessions, in order. Control entries act
 * before what follows them.
 */
export class Stream {
  readonly #options: StreamOptions
  #waiting: LogItem[] = []
  #next = 0
  #scheduled = false
  /** Monotonic: before this nothing is published, because a large audience has just been written to. */
  #notBefore = 0
  /** Live sessions that have still to pass the change of rules that the log stands at, or the end of their server. */
  #moving: { sessions: Iterator<Session>; control: Control; s: number } | undefined

  constructor(options: StreamOptions) {
    this.#options = options
  }

  get behind(): number {
    return this.#waiting.length - this.#next
  }

  take(items: readonly LogItem[]): void {
    for (const item of items) this.#waiting.push(item)
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
    const pause = this.#moving ? 0 : this.#notBefore - clock.monotonic()
    // Timers count whole milliseconds.
    if (pause >= 1) clock.after(pause, run)
    else clock.soon(run)
  }

  #run(): void {
    const { subscriptions, reader, slice, clock, metrics } = this.#options
    const startedAt = clock.monotonic()
    subscriptions.reached = 0
    while (this.#next < this.#waiting.length && subscriptions.unlookedBytes < slice) {
      // Before anything else is sent: after a hole nothing may follow.
      if (subscriptions.holed.size > 0) this.closeHoled()
      const item = this.#waiting[this.#next]!
      if (!this.#moving) this.#act(item)
      if (!this.#hasMoved()) break
      this.#next++
      subscriptions.position = item.s
    }
    this.lookAtBuffers()
    metrics.gateway.publishSeconds.observe((clock.monotonic() - startedAt) / 1000)
    this.#notBefore = clock.monotonic() + Math.min(longestPauseMs, (writingShare - 1) * writing * subscriptions.reached)
    // What was done is let go, in large pieces: cutting the front moves the rest.
    if (this.#next === this.#waiting.length || this.#next > 10_000) {
      this.#waiting.splice(0, this.#next)
      this.#next = 0
    }
    if (this.#waiting.length > 0) this.#schedule()
    if (reader.size > 0) reader.wake()
  }

  #act(item: LogItem): void {
    const { header } = item
    if (header[0] === "e" || header[0] === "x") this.#options.subscriptions.publish(item, header)
    else if (header[0] === "c") {
      const user = userOf(header)
      if (user === undefined || this.#options.subscriptions.ofUser(user).length > 0)
        this.#control(controlOf(item), item.s, header[2])
    } else if (header[0] === "g") this.#gap(header[1])
  }

  #control(control: Control, s: number, row: number): void {
    const { subscriptions, reader, homes } = this.#options
    if (isRulesChange(control)) {
      const view = homes.change(control, row, s)
      if (view) this.#moving = { sessions: subscriptions.sessionsOf(view).values(), control, s }
      return
    }
    if (control.type === "serverDeleted") {
      const view = homes.view(control.server)
      homes.forgetServer(control.server)
      if (view) this.#moving = { sessions: subscriptions.sessionsOf(view).values(), control, s }
      return
    }
    // An ended access acts at once on whoever has it, wherever he reads.
    for (const session of subscriptions.ofUser(control.user))
      if (session.state === "live" || control.type === "sessionEnded") reader.control(session, control, s)
    if (control.type === "sessionEnded")
      for (const session of subscriptions.ofUser(control.user))
        if (session.accessSession === control.session) this.#options.giveUp(session)
  }

  /**
   * Moves live sessions past a change that concerns very many, a slice a turn of the loop. Until all of them are there the log stands still:
   * nobody receives what follows under what was so before.
   */
  #hasMoved(): boolean {
    if (!this.#moving) return true
    const { subscriptions, reader, clock } = this.#options
    const { sessions, control, s } = this.#moving
    subscriptions.isMoving = true
    const until = clock.monotonic() + moveSlice
    for (;;) {
      const { value: session, done } = sessions.next() as IteratorResult<Session, undefined>
      if (done) break
      if (session.state !== "live") continue
      reader.control(session, control, s)
      // After each: what one with other roles than all before sees takes as long as a hundred of those.
      if (clock.monotonic() >= until) return false
    }
    this.#moving = undefined
    subscriptions.isMoving = false
    return true
  }

  /** Never silent: whoever listens to the shard is closed and starts anew. */
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

  /** After something was sent: nothing follows a hole, and who does not keep up is noticed. */
  lookAtBuffers(): void {
    const { subscriptions, slice } = this.#options
    if (subscriptions.holed.size > 0) this.closeHoled()
    if (subscriptions.unlookedBytes >= slice) this.#lookAtBuffers()
  }

  /** Sockets that do not keep up read from the log from now on, at their own pace. */
  #lookAtBuffers(): void {
    const { subscriptions, reader, budget, metrics } = this.#options
    subscriptions.unlookedBytes = 0
    for (const session of subscriptions.byId.values()) {
      const { connection } = session
      if (session.state !== "live" || !connection || connection.closed || connection.ws.getBufferedAmount() <= budget)
        continue
      subscriptions.goReading(session)
      metrics.gateway.sessions.live.dec()
      metrics.gateway.sessions.reading.inc()
      metrics.gateway.fallenToReading.inc()
      reader.begin(session)
    }
  }

  /** A socket that was refused a frame has a hole in its stream: nothing more may go there. */
  closeHoled(): void {
    const { subscriptions } = this.#options
    for (const connection of subscriptions.holed) {
      if (connection.session?.state === "live") subscriptions.goReading(connection.session)
      if (!connection.closed) connection.ws.close()
    }
    subscriptions.holed.clear()
  }
}
