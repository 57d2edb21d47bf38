import type { Snowflake } from "../../contract/core/fields.ts"
import type { HomeSubscriptions } from "../fan-out/home-subscriptions.ts"

/**
 * The homes that are held for a session while it is made. Those that the session does not keep are
 * released.
 */
export class HeldHomes {
  readonly #homes: HomeSubscriptions
  readonly #held = new Set<Snowflake>()

  constructor(homes: HomeSubscriptions) {
    this.#homes = homes
  }

  has(home: Snowflake): boolean {
    return this.#held.has(home)
  }

  all(): Snowflake[] {
    return [...this.#held]
  }

  /** Resolves with the row from which this worker's log holds the server. */
  hold(server: Snowflake): Promise<number> {
    this.#held.add(server)
    return this.#homes.hold(server)
  }

  holdUser(user: Snowflake): Promise<number> {
    this.#held.add(user)
    return this.#homes.holdUser(user)
  }

  /** The home is the session's own from now on: the session releases it when it ends. */
  keep(home: Snowflake): void {
    this.#held.delete(home)
  }

  /** Releases all homes that were not kept. */
  release(): void {
    for (const home of this.#held) this.#homes.release(home)
    this.#held.clear()
  }
}
