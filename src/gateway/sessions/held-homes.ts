import type { Snowflake } from "../../contract/core/fields.ts"
import type { HomeSubscriptions } from "../fan-out/home-subscriptions.ts"

/**
 * The homes that are held for a session while it is made. Those that the session does not keep are
 * released.
 */
export class HeldHomes {
  readonly #homes: HomeSubscriptions
  readonly #held: Snowflake[] = []

  constructor(homes: HomeSubscriptions) {
    this.#homes = homes
  }

  has(home: Snowflake): boolean {
    return this.#held.includes(home)
  }

  all(): Snowflake[] {
    return [...this.#held]
  }

  /** Resolves with the row from which this worker's log holds the server. */
  hold(server: Snowflake): Promise<number> {
    this.#held.push(server)
    return this.#homes.hold(server)
  }

  /** Does the same at once where the worker's log holds the server; false: nothing was done. */
  tryHold(server: Snowflake): boolean {
    if (!this.#homes.tryHold(server)) return false
    this.#held.push(server)
    return true
  }

  /** Holds a server, and resolves when it is known or gone. */
  load(server: Snowflake): Promise<unknown> {
    this.hold(server).catch(() => {})
    return this.#homes.need(server)
  }

  holdUser(user: Snowflake): Promise<number> {
    this.#held.push(user)
    return this.#homes.holdUser(user)
  }

  /** The home is the session's own from now on: the session releases it when it ends. */
  keep(home: Snowflake): void {
    // Mostly they are kept in the order in which they were held.
    const at = this.#held.indexOf(home)
    if (at === 0) this.#held.shift()
    else if (at > 0) this.#held.splice(at, 1)
  }

  /** Releases all homes that were not kept. */
  release(): void {
    for (const home of this.#held.splice(0)) this.#homes.release(home)
  }
}
