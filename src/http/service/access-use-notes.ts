import { AccessUses, type PlacedUse } from "../../domain/service/access-uses.ts"
import type { Log } from "../../observability/log.ts"
import type { Clock, Timer } from "../../std/clock.ts"
import type { Storage } from "../../storage/storage.ts"

export interface AccessUseNotesOptions {
  readonly storage: { readonly accessUses: Pick<Storage["accessUses"], "note"> }
  readonly clock: Pick<Clock, "after">
  readonly log: Pick<Log, "warn">
}

/** Milliseconds from a use until it is written down. */
const afterMs = 1_000

/**
 * Writes down the uses of access tokens, those of about a second at once. They are figures: no request
 * waits for them, and those of a second in which PostgreSQL cannot be written to are lost.
 */
export class AccessUseNotes {
  readonly #options: AccessUseNotesOptions
  readonly #uses = new AccessUses()
  #timer: Timer | undefined
  #writing: Promise<void> = Promise.resolve()
  #isStopped = false

  constructor(options: AccessUseNotesOptions) {
    this.#options = options
  }

  note(use: PlacedUse): void {
    this.#uses.note(use)
    this.#timer ??= this.#isStopped ? undefined : this.#options.clock.after(afterMs, () => this.#writeNext())
  }

  /** Writes down what waits. */
  async stop(): Promise<void> {
    this.#isStopped = true
    this.#timer?.stop()
    if (!this.#uses.isEmpty) this.#writeNext()
    await this.#writing
  }

  /** One after the other. */
  #writeNext(): void {
    this.#timer = undefined
    const { storage, log } = this.#options
    this.#writing = this.#writing
      .then(() => storage.accessUses.note(this.#uses.take()))
      .catch((error: unknown) => log.warn({ err: error }, "uses of access tokens not written"))
  }
}
