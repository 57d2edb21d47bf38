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
  /** This worker. */
  readonly self: string
  /** Up to when everything that was minted anywhere stood in the delivery logs, as of a moment ago; undefined: not known now. */
  readonly idWatermarks: () => IdWatermarks | undefined
  /** Where the own log ends now. */
  readonly end: () => Promise<number | undefined>
  /** Which Redis the log is in. */
  readonly place: () => string
  readonly timing: { readonly settleEveryMs: number; readonly cursorsEveryMs: number }
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
}

/** What stood in the log, up to its end as it was later. */
interface Known extends IdWatermarks {
  readonly end: number
  readonly place: string
}

/** What is to be found out of a position that was named, and since when. */
interface Pending {
  readonly since: number
  servers: boolean
  directs: boolean
  /** It is not looked at before. */
  lookAt: number
}

const serverBit = bitOf("GUILD_MESSAGES")
const directBit = bitOf("DIRECT_MESSAGES")
/** All homes together, for sessions whose servers are those of another place. */
const anyHome = "*"
const ofAnyKept = 10_000

/** After a fail-over of Redis: until what it has lost was sent again. */
const doubtFor = 5_000
/** Rows of one statement; what is more waits for the next. */
const mostRows = 5_000
/** What is not known for longer, as a clock was ahead or a home elsewhere does not answer, is moved for as far as it is, now and then. */
const patience = 5_000

/**
 * How far messages were delivered to users: as far as their clients have named positions, in heartbeats and when they came back.
 * That a message was published says nothing. It keeps:
 *   DELIV1  A cursor never covers a message after the position that the client named, however
 *       late it was appended.
 *   DELIV2  Everything at or before that position is covered soon.
 *   DELIV3  A position that was never sent to the client moves nothing.
 * A cursor is a moment, one for servers and one for DMs, as a session may take the one and not the other; see docs/api/deliveries.md.
 */
export class Deliveries {
  readonly #options: DeliveriesOptions
  readonly #marks = new MessageMarks()
  /** Sessions that have named a position since they were settled; of those that have gone nothing is kept. */
  readonly #pending = new Map<Session, Pending>()
  readonly #moved = new Map<Snowflake, { guild_ms: number | null; direct_ms: number | null }>()
  #known: Known | undefined
  /** What was used last. */
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

  /** New pieces of the log, in order. */
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

  /** A client says up to where it has received what it was sent. */
  named(session: Session, position: unknown): void {
    if (typeof position !== "number" || position <= session.named || !Number.isSafeInteger(position)) return
    if (position > this.#options.subscriptions.placeOf(session)) return // DELIV3
    // What it was sent of another worker's log has other positions there; it is told one of this log soon.
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
      if (this.#place !== "") this.#doubtUntil = clock.monotonic() + doubtFor
      this.#place = at
    }
    const minted = clock.monotonic() < this.#doubtUntil ? undefined : idWatermarks()
    if (!minted) return
    this.#asking = true
    end()
      .then(
        reached => {
          if (reached === undefined || place() !== at) return
          this.#known = { ...minted, end: reached, place: at }
          this.#useKnown()
        },
        (error: unknown) => log.debug({ err: error }, "end of the delivery log not known"),
      )
      .finally(() => {
        this.#asking = false
      })
      .catch(() => {})
  }

  /** Once the log was read to where it ended after everything up to that moment stood in it. */
  #useKnown(): void {
    const { subscriptions, place } = this.#options
    const known = this.#known
    if (!known) return
    // What another Redis has lost comes again, later.
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
   * Of sessions that have gone: as far as was known while they were here. Their homes may not be taken here any more, so that
   * what is learnt later would say too much.
   */
  #letGo(): void {
    const { subscriptions, place } = this.#options
    for (const [session, pending] of this.#pending) {
      if (subscriptions.byId.get(session.id) === session) continue
      this.#pending.delete(session)
      const used = this.#used
      if (used?.place !== place()) continue
      const upTo = (minted: number) => deliveredUpTo(this.#marks, [anyHome], session.named, minted).upTo
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
    // Of a session that is not live the servers are those of another position.
    const isLive = session.state === "live"
    const servers = (intents & serverBit) === 0 ? [] : isLive ? session.guilds.keys() : [anyHome]
    const directs = (intents & directBit) === 0 ? [] : [user]
    const isNews = (home: Snowflake) => this.#marks.hasAfter(home, settled)
    if (settled >= 0 && !servers.some(isNews) && !directs.some(isNews)) {
      this.#pending.delete(session)
      session.settled = named
      return
    }
    const isLate = now - pending.since > patience
    if (isLate) pending.lookAt = now + patience
    // The one does not wait for the other.
    const found = (homes: readonly Snowflake[], minted: number) => {
      const { upTo, isAll } = deliveredUpTo(this.#marks, homes, named, minted)
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
      if (rows.length === mostRows) break
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

/** The later one; what is not known, and what nothing is known of, moves nothing. */
const later = (before: number | null, now: number | undefined): number | null =>
  now === undefined || !Number.isFinite(now) ? before : Math.max(before ?? now, now)
