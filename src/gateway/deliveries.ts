import type { Snowflake } from "../contract/core/fields.ts"
import { bitOf } from "../contract/core/intents.ts"
import { messageCreate } from "../contract/messages/messages.ts"
import type { Clock, Timer } from "../std/clock.ts"
import type { LogItem } from "../domain/core/log-entry.ts"
import type { IdWatermarks } from "../domain/core/id-watermark.ts"
import { msOf } from "../domain/core/snowflake.ts"
import type { Log } from "../observability/log.ts"
import type { Metrics } from "../observability/metrics.ts"
import type { DeliveryRow } from "../storage/messages/deliveries.ts"
import type { Storage } from "../storage/storage.ts"
import type { Subscriptions } from "./fan-out/subscriptions.ts"
import { deliveredUpTo, MessageMarks } from "./message-marks.ts"
import type { Session } from "./state/session.ts"

export interface DeliveriesOptions {
  readonly subscriptions: Pick<Subscriptions, "position" | "placeOf" | "byId">
  readonly store: Pick<Storage["deliveries"], "move">
  /** The id of this worker. */
  readonly self: string
  /**
   * Every message id up to this moment, made by any worker, stood in the delivery logs a moment
   * ago. Undefined: not known now.
   */
  readonly idWatermarks: () => IdWatermarks | undefined
  /** The present end of this worker's own log. */
  readonly end: () => Promise<number | undefined>
  /** The Redis that holds the log. */
  readonly place: () => string
  readonly timing: { readonly settleEveryMs: number; readonly cursorsEveryMs: number }
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
}

/** The id watermarks, and the end of the log when it was looked at afterwards. */
interface Known extends IdWatermarks {
  readonly end: number
  readonly place: string
}

/** What is still to be found out about a named position, and since when. */
interface Pending {
  readonly since: number
  servers: boolean
  directs: boolean
  /** The session is not looked at before this moment. */
  lookAt: number
}

const serverBit = bitOf("GUILD_MESSAGES")
const directBit = bitOf("DIRECT_MESSAGES")
/** Stands for all homes together: for sessions whose set of servers belongs to another position. */
const anyHome = "*"
const ofAnyKept = 10_000

/** After a fail-over of Redis nothing is relied on until what it lost was sent again. */
const doubtMs = 5_000
/** Rows of one statement; the rest waits for the next one. */
const maxRows = 5_000
/**
 * A position may stay unsettled for so long, because a clock was ahead or a home elsewhere does not
 * answer. After that the cursor moves as far as is known, and again now and then.
 */
const unsettledMs = 5_000

/**
 * Tells how far messages were delivered to users: as far as their clients have named positions, in
 * heartbeats and when they came back. That a message was published proves nothing. It keeps:
 *   DELIV1  A cursor never covers a message after the position that the client named, however late
 *       it was appended.
 *   DELIV2  Everything at or before that position is covered soon.
 *   DELIV3  A position that was never sent to the client moves nothing.
 * A cursor is a moment. There is one for servers and one for DMs, as a session may take only one of
 * the two. See docs/api/deliveries.md.
 */
export class Deliveries {
  readonly #options: DeliveriesOptions
  readonly #marks = new MessageMarks()
  /**
   * Sessions that named a position which is not settled yet. Sessions that have ended are removed.
   */
  readonly #pending = new Map<Session, Pending>()
  readonly #moved = new Map<Snowflake, { guild_ms: number | null; direct_ms: number | null }>()
  #known: Known | undefined
  /** The latest watermarks that were used. */
  #used: Known | undefined
  #place = ""
  #doubtUntil = -Infinity
  #asking = false
  #writing = false
  #wroteAt = -Infinity
  readonly #timer: Timer

  constructor(options: DeliveriesOptions) {
    this.#options = options
    this.#timer = options.clock.every(options.timing.settleEveryMs, () => this.#settle())
  }

  /** Takes new log items, in order. */
  take(items: readonly LogItem[]): void {
    for (const { header, s } of items) {
      if (header[0] !== "e" || header[5] !== messageCreate.name) continue
      const message = header[7]?.[1]
      if (message === undefined) continue
      const ms = msOf(message)
      this.#marks.note(header[3], s, ms)
      this.#marks.note(anyHome, s, ms, ofAnyKept)
    }
  }

  /** A client says up to which position it has received what it was sent. */
  named(session: Session, position: unknown): void {
    if (typeof position !== "number" || position <= session.named || !Number.isSafeInteger(position)) return
    if (position > this.#options.subscriptions.placeOf(session)) return // DELIV3
    // What the session was sent from another worker's log has other positions there. The client is
    // soon told a position of this log.
    const span = session.spans.at(-1)!
    if (span.counted || position < span.lo) return
    session.named = position
    if (session.settled >= 0 && this.#marks.last <= session.settled) return
    const now = this.#options.clock.monotonic()
    const since = this.#pending.get(session)?.since ?? now
    this.#pending.set(session, { since, servers: true, directs: true, lookAt: now })
  }

  stop(): void {
    this.#timer.stop()
  }

  #settle(): void {
    if (this.#pending.size > 0) {
      this.#letGo()
      this.#useKnown()
      this.#learn()
    }
    this.#write()
  }

  #learn(): void {
    const { idWatermarks, end, place, clock, log } = this.#options
    if (this.#known || this.#asking || this.#pending.size === 0) return
    const at = place()
    if (at === "") return
    if (at !== this.#place) {
      if (this.#place !== "") this.#doubtUntil = clock.monotonic() + doubtMs
      this.#place = at
    }
    const watermarks = clock.monotonic() < this.#doubtUntil ? undefined : idWatermarks()
    if (!watermarks) return
    this.#asking = true
    end()
      .then(
        reached => {
          if (reached === undefined || place() !== at) return
          this.#known = { ...watermarks, end: reached, place: at }
          this.#useKnown()
        },
        (error: unknown) => log.debug({ err: error }, "end of the delivery log not known"),
      )
      .finally(() => {
        this.#asking = false
      })
      .catch(() => {})
  }

  /** Uses the watermarks once this worker has read the log to the end that was seen after them. */
  #useKnown(): void {
    const { subscriptions, place } = this.#options
    const known = this.#known
    if (!known) return
    // After a fail-over the new Redis receives later what the old one lost.
    if (known.place !== place()) this.#known = undefined
    else if (subscriptions.position >= known.end) {
      this.#known = undefined
      this.#letGo()
      this.#used = known
      for (const [session, pending] of this.#pending) this.#look(session, pending, known)
      this.#write()
    }
  }

  /**
   * Settles sessions that have ended, as far as was known while they were here. This worker may
   * have stopped taking the events of their homes, so later watermarks would claim too much.
   */
  #letGo(): void {
    const { subscriptions, place } = this.#options
    for (const [session, pending] of this.#pending) {
      if (subscriptions.byId.get(session.id) === session) continue
      this.#pending.delete(session)
      const used = this.#used
      if (used?.place !== place()) continue
      const upTo = (watermark: number) => deliveredUpTo(this.#marks, [anyHome], session.named, watermark).upTo
      this.#move(
        session.user,
        pending.servers && (session.intents & serverBit) !== 0 ? upTo(used.servers) : undefined,
        pending.directs && (session.intents & directBit) !== 0 ? upTo(used.directs) : undefined,
      )
    }
  }

  #look(session: Session, pending: Pending, known: Known): void {
    const now = this.#options.clock.monotonic()
    if (now < pending.lookAt) return
    const { user, named, settled, intents } = session
    // The servers of a session that is not live belong to another position.
    const isLive = session.state === "live"
    const servers = (intents & serverBit) === 0 ? [] : isLive ? session.guilds.keys() : [anyHome]
    const directs = (intents & directBit) === 0 ? [] : [user]
    const isNews = (home: Snowflake) => this.#marks.hasAfter(home, settled)
    if (settled >= 0 && !servers.some(isNews) && !directs.some(isNews)) {
      this.#pending.delete(session)
      session.settled = named
      return
    }
    const isLate = now - pending.since > unsettledMs
    if (isLate) pending.lookAt = now + unsettledMs
    // Servers and DMs do not wait for each other.
    const found = (homes: readonly Snowflake[], watermark: number) => {
      const { upTo, isAll } = deliveredUpTo(this.#marks, homes, named, watermark)
      return { isAll, upTo: isAll || isLate ? upTo : undefined }
    }
    const guild = pending.servers && (intents & serverBit) !== 0 ? found(servers, known.servers) : undefined
    const direct = pending.directs && (intents & directBit) !== 0 ? found(directs, known.directs) : undefined
    this.#move(user, guild?.upTo, direct?.upTo)
    pending.servers = guild?.isAll === false
    pending.directs = direct?.isAll === false
    if (pending.servers || pending.directs) return
    this.#pending.delete(session)
    session.settled = named
  }

  #move(user: Snowflake, guild_ms: number | undefined, direct_ms: number | undefined): void {
    const before = this.#moved.get(user) ?? { guild_ms: null, direct_ms: null }
    const after = { guild_ms: later(before.guild_ms, guild_ms), direct_ms: later(before.direct_ms, direct_ms) }
    if (after.guild_ms !== null || after.direct_ms !== null) this.#moved.set(user, after)
  }

  #write(): void {
    const { store, clock, log, metrics, timing } = this.#options
    if (this.#moved.size === 0 || this.#writing || clock.monotonic() - this.#wroteAt < timing.cursorsEveryMs) return
    this.#wroteAt = clock.monotonic()
    this.#writing = true
    const rows: DeliveryRow[] = []
    for (const [user_id, moved] of this.#moved) {
      if (rows.length === maxRows) break
      rows.push({ user_id, ...moved })
      this.#moved.delete(user_id)
    }
    store
      .move(rows, this.#options.self)
      .then(
        () => metrics.gateway.cursorsMoved.inc(rows.length),
        (error: unknown) => {
          log.warn({ err: error, users: rows.length }, "delivery cursors not written")
          for (const { user_id, guild_ms, direct_ms } of rows)
            this.#move(user_id, guild_ms ?? undefined, direct_ms ?? undefined)
        },
      )
      .finally(() => {
        this.#writing = false
      })
      .catch(() => {})
  }
}

/** The later of the two. A moment that is unknown, or not finite, moves nothing. */
const later = (before: number | null, now: number | undefined): number | null =>
  now === undefined || !Number.isFinite(now) ? before : Math.max(before ?? now, now)
