import type { Snowflake } from "../contract/core/fields.ts"

/** Who answers for the time that a text takes. */
export interface Payers {
  /** The owner of the server, of whose servers there may be many. */
  readonly owner: Snowflake
  readonly author: Snowflake
}

/** What each may use at any time, in milliseconds for each second; what is used beyond it is owed. */
const shareMsPerSecond = 250
/** Milliseconds. Nobody owes more, so that one is forgiven within a minute. */
const maxOwedMs = 10_000
/** Milliseconds that somebody may owe before what they have to wait for is their own doing. */
const allowedMs = 500
/** After so long what was used counts half. */
const halfLifeMs = 10_000
/** Before those who owe nothing any more, and have used next to nothing lately, are forgotten. */
const remembered = 1_000
const nextToNothingMs = 1

interface Account {
  readonly owedMs: number
  readonly usedMs: number
  readonly at: number
}

/** How much of the threads owners and authors have used lately. */
export class ThreadShares {
  readonly #accounts = new Map<Snowflake, Account>()

  /** `underWayMs`: not charged yet. */
  isOver(payer: Snowflake, now: number, underWayMs = 0): boolean {
    return this.#owed(payer, now) + underWayMs > allowedMs
  }

  /**
   * Those who have used least come first. Also what is within one's share counts: several owners
   * together may use all of a thread that way.
   */
  used({ owner, author }: Payers, now: number): number {
    return this.#used(owner, now) + (author === owner ? 0 : this.#used(author, now))
  }

  charge({ owner, author }: Payers, ms: number, now: number): void {
    for (const payer of new Set([owner, author]))
      this.#accounts.set(payer, {
        owedMs: Math.min(maxOwedMs, this.#owed(payer, now) + ms),
        usedMs: this.#used(payer, now) + ms,
        at: now,
      })
    if (this.#accounts.size <= remembered) return
    for (const payer of this.#accounts.keys())
      if (this.#owed(payer, now) === 0 && this.#used(payer, now) < nextToNothingMs) this.#accounts.delete(payer)
  }

  #owed(payer: Snowflake, now: number): number {
    const account = this.#accounts.get(payer)
    return account ? Math.max(0, account.owedMs - ((now - account.at) * shareMsPerSecond) / 1_000) : 0
  }

  #used(payer: Snowflake, now: number): number {
    const account = this.#accounts.get(payer)
    return account ? account.usedMs * 0.5 ** ((now - account.at) / halfLifeMs) : 0
  }
}
