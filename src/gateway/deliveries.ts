import type { Snowflake } from "../contract/core/fields.ts"
import { bitOf } from "../contract/core/intents.ts"
import { messageCreate } from "../contract/messages/messages.ts"
import type { Clock, Timer } from "../std/clock.ts"
import type { LogItem } from "../domain/core/log-entry.ts"
import { compareIds } from "../domain/core/snowflake.ts"
import type { Log } from "../observability/log.ts"
import type { Metrics } from "../observability/metrics.ts"
import type { DeliveryRow } from "../storage/messages/deliveries.ts"
import type { Storage } from "../storage/storage.ts"
import type { Subscriptions } from "./fan-out/subscriptions.ts"
import { MessageMarks } from "./message-marks.ts"
import type { Session } from "./state/session.ts"

export interface DeliveriesOptions {
  readonly subscriptions: Pick<Subscriptions, "placeOf" | "ofUser">
  readonly store: Pick<Storage["deliveries"], "move">
  readonly timing: { readonly cursorsEveryMs: number }
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
}

const serverBit = bitOf("GUILD_MESSAGES")
const directBit = bitOf("DIRECT_MESSAGES")

/** Rows of one statement; the rest waits for the next one. */
const maxRows = 5_000

/** A user's cursors, by server or DM channel. */
type Cursors = Map<Snowflake, Snowflake>

/**
 * Tells how far messages were delivered to users: as far as their clients have named positions, in
 * heartbeats and when they came back. That a message was published proves nothing. It keeps:
 *   DELIV1  A cursor never covers a message after the position that the client named, except one
 *       whose id was made before the session came to this worker.
 *   DELIV2  Everything at or before that position is covered soon.
 *   DELIV3  A position that was never sent to the client moves nothing.
 *   DELIV4  While a user has chosen to be invisible, what their sessions receive moves nothing.
 * A cursor is the id of a message, for one user in one server or DM channel. All ids of a server or
 * a DM channel are made by one home, and stand in each log in the order in which they were made. So
 * the last message before a position covers exactly what is before it. See docs/api/deliveries.md.
 */
export class Deliveries {
  readonly #options: DeliveriesOptions
  readonly #marks = new MessageMarks()
  /** What is still to be written, by user. A later cursor replaces an earlier one. */
  readonly #moved = new Map<Snowflake, Cursors>()
  /** What invisible users have received; it is tried again when their clients say something. */
  readonly #withheld = new Map<Snowflake, Cursors>()
  #isWriting = false
  readonly #timer: Timer

  constructor(options: DeliveriesOptions) {
    this.#options = options
    this.#timer = options.clock.every(options.timing.cursorsEveryMs, () => this.#write())
  }

  /** Takes new log items, in order. */
  take(items: readonly LogItem[]): void {
    for (const { header, s } of items) {
      if (header[0] !== "e" || header[5] !== messageCreate.name || !header[7]) continue
      const [, , , home, audience, , , [channel, message]] = header
      if (message !== undefined) this.#marks.note(home, audience.kind === "user" ? channel : home, s, message)
    }
  }

  /** A client says up to which position it has received what it was sent. */
  named(session: Session, position: unknown): void {
    const { user, intents, named: before } = session
    if (this.#withheld.size > 0) this.#tryAgain(user)
    if (typeof position !== "number" || position <= before || !Number.isSafeInteger(position)) return
    if (position > this.#options.subscriptions.placeOf(session)) return // DELIV3
    // What the session was sent from another worker's log has other positions there. The client is
    // soon told a position of this log.
    const span = session.spans.at(-1)!
    if (span.counted || position < span.lo) return
    session.named = position
    if (session.before) this.#moveBefore(session, session.before)
    if (this.#marks.last <= before) return
    const moveIn = (home: Snowflake) => {
      for (const [of, id] of this.#marks.between(home, before, position)) this.#move(user, of, id)
    }
    if ((intents & serverBit) !== 0) for (const { view } of session.guilds.values()) moveIn(view.id)
    if ((intents & directBit) !== 0) moveIn(user)
  }

  stop(): void {
    this.#timer.stop()
  }

  /** Of the session's first position here: what was there before the session is before it, too. */
  #moveBefore(session: Session, received: NonNullable<Session["before"]>): void {
    session.before = undefined
    const { user, intents, named } = session
    for (const { home_id, is_direct, message_id } of received) {
      if ((intents & (is_direct ? directBit : serverBit)) === 0) continue
      // A message that was being made just then stands after the position.
      const next = this.#marks.firstAfter(is_direct ? user : home_id, home_id, named)
      if (next === undefined || compareIds(next, message_id) > 0) this.#move(user, home_id, message_id)
    }
  }

  #move(user: Snowflake, home: Snowflake, message: Snowflake, to = this.#moved): void {
    let cursors = to.get(user)
    if (!cursors) to.set(user, (cursors = new Map()))
    const before = cursors.get(home)
    if (before === undefined || compareIds(before, message) < 0) cursors.set(home, message)
  }

  #tryAgain(user: Snowflake): void {
    const cursors = this.#withheld.get(user)
    if (!cursors) return
    this.#withheld.delete(user)
    for (const [home, message] of cursors) this.#move(user, home, message)
  }

  #write(): void {
    const { store, subscriptions, log, metrics } = this.#options
    // The next session of such a user covers it, once it is visible.
    for (const user of this.#withheld.keys()) if (subscriptions.ofUser(user).length === 0) this.#withheld.delete(user)
    if (this.#moved.size === 0 || this.#isWriting) return
    this.#isWriting = true
    const rows = this.#takeRows()
    store
      .move(rows)
      .then(
        hidden => {
          const invisible = new Set(hidden)
          let written = rows.length
          for (const { user_id, home_id, message_id } of rows) {
            if (!invisible.has(user_id)) continue
            this.#move(user_id, home_id, message_id, this.#withheld) // DELIV4
            written--
          }
          metrics.gateway.cursorsMoved.inc(written)
        },
        (error: unknown) => {
          log.warn({ err: error, cursors: rows.length }, "delivery cursors not written")
          for (const { user_id, home_id, message_id } of rows) this.#move(user_id, home_id, message_id)
        },
      )
      .finally(() => {
        this.#isWriting = false
      })
      .catch(() => {})
  }

  #takeRows(): DeliveryRow[] {
    const rows: DeliveryRow[] = []
    for (const [user_id, cursors] of this.#moved) {
      for (const [home_id, message_id] of cursors) {
        if (rows.length === maxRows) return rows
        rows.push({ home_id, user_id, message_id })
        cursors.delete(home_id)
      }
      this.#moved.delete(user_id)
    }
    return rows
  }
}
