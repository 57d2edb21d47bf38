import { failedTokenLimit } from "../contract/limits.ts"
import { limitedAddress, parseAddress } from "../domain/client-address.ts"
import type { Clock } from "../domain/clock.ts"
import { FrameRefused } from "./frames.ts"

/** Addresses that are remembered; the one that began first makes room for one more. */
const most = 10_000

/** How often tokens that came from an address did not verify. Those that do are not counted, and go on whatever else came. */
export class FailedTokens {
  readonly #clock: Clock
  readonly #isLimited: boolean
  /** The oldest window first. */
  readonly #windows = new Map<string, { readonly since: number; count: number }>()

  constructor({ clock, limited }: { readonly clock: Clock; readonly limited: boolean }) {
    this.#clock = clock
    this.#isLimited = limited
  }

  /** One more; beyond what an address may have in a minute the connection is closed for that instead. */
  note(address: string): void {
    if (!this.#isLimited) return
    const parsed = parseAddress(address)
    const key = parsed ? limitedAddress(parsed) : address
    const now = this.#clock.monotonic()
    let window = this.#windows.get(key)
    if (!window || now - window.since >= failedTokenLimit.seconds * 1000) {
      this.#windows.delete(key)
      if (this.#windows.size >= most) this.#windows.delete(this.#windows.keys().next().value!)
      window = { since: now, count: 0 }
      this.#windows.set(key, window)
    }
    if (++window.count > failedTokenLimit.requests) throw new FrameRefused("rate_limited")
  }
}
