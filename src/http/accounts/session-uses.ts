import type { Snowflake } from "../../contract/core/fields.ts"
import type { Log } from "../../observability/log.ts"
import { secondsAt, type Clock, type Timer } from "../../std/clock.ts"
import type { SessionUse } from "../../storage/accounts/sessions.ts"
import type { Storage } from "../../storage/storage.ts"

export interface SessionUsesOptions {
  readonly storage: { readonly sessions: Pick<Storage["sessions"], "noteUses"> }
  readonly clock: Pick<Clock, "now" | "after">
  readonly log: Pick<Log, "warn">
}

/** Milliseconds from a use until it is written down. */
const afterMs = 2_000
/** What waits for longer than that, while PostgreSQL is slow or away, is forgotten beyond so many sessions. */
const maxWaiting = 50_000
/** Rows of one statement. */
const writeBatchSize = 2_000

/**
 * Writes down when sessions were last used, those of two seconds at once: no user's home is loaded for it, and no request
 * waits. Who wants to know it sooner asks Redis, too: `sessionsOf`. What could not be written waits for the next time.
 */
export class SessionUses {
  readonly #options: SessionUsesOptions
  /** Unix seconds. */
  #waiting = new Map<Snowflake, number>()
  #timer: Timer | undefined
  #isWriting = false
  #writing: Promise<void> = Promise.resolve()
  #isStopped = false
  /** The last try failed, which was told. */
  #isFailing = false

  constructor(options: SessionUsesOptions) {
    this.#options = options
  }

  note(session: Snowflake): void {
    if (this.#waiting.size >= maxWaiting && !this.#waiting.has(session)) return
    this.#waiting.set(session, secondsAt(this.#options.clock.now()))
    this.#arm()
  }

  /** Writes down what waits, or tries to. */
  async stop(): Promise<void> {
    this.#isStopped = true
    this.#timer?.stop()
    await this.#writing
    this.#writeNext()
    await this.#writing
  }

  #arm(): void {
    if (this.#isStopped || this.#isWriting || this.#waiting.size === 0) return
    this.#timer ??= this.#options.clock.after(afterMs, () => this.#writeNext())
  }

  #writeNext(): void {
    this.#timer = undefined
    this.#isWriting = true
    const uses = [...this.#waiting].map(([id, at]) => ({ id, at }))
    this.#waiting = new Map()
    this.#writing = this.#write(uses)
      .catch((error: unknown) => {
        if (!this.#isFailing)
          this.#options.log.warn({ err: error, waiting: uses.length }, "uses of sessions not written yet")
        this.#isFailing = true
        // Those that were written before it failed are written again, which changes nothing.
        for (const { id, at } of uses) {
          if (this.#waiting.size >= maxWaiting) break
          if (!this.#waiting.has(id)) this.#waiting.set(id, at)
        }
      })
      .finally(() => {
        this.#isWriting = false
        this.#arm()
      })
  }

  async #write(uses: readonly SessionUse[]): Promise<void> {
    for (let from = 0; from < uses.length; from += writeBatchSize)
      await this.#options.storage.sessions.noteUses(uses.slice(from, from + writeBatchSize))
    this.#isFailing = false
  }
}
