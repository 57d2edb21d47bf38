import { widerPrefixes } from "../../contract/core/limits.ts"
import { ByteBudget } from "../../std/byte-budget.ts"
import { prefix48, prefix56 } from "./client-address.ts"

/**
 * What many addresses share, each up to its part. An IPv6 client has more than one /64: the /56 and
 * the /48 around it have their parts, too. What a /64 is refused counts for neither, so that no /64
 * alone uses up what is its neighbours'. Neither gets more than a quarter of what all share, or who
 * has one would leave nothing for anybody else.
 */
export class AddressBudget {
  readonly #each: ByteBudget
  readonly #wide56: ByteBudget
  readonly #wide48: ByteBudget

  constructor(size: number, share: number) {
    this.#each = new ByteBudget(size, share)
    const wide = (times: number) => new ByteBudget(Infinity, Math.max(share, Math.min(share * times, size / 4)))
    this.#wide56 = wide(widerPrefixes.times56)
    this.#wide48 = wide(widerPrefixes.times48)
  }

  /** @param holder as `limitedAddress` says */
  take(holder: string, amount: number): boolean {
    if (!this.#each.take(holder, amount)) return false
    const net56 = prefix56(holder)
    if (net56 === undefined) return true
    if (this.#wide56.take(net56, amount)) {
      if (this.#wide48.take(prefix48(holder)!, amount)) return true
      this.#wide56.give(net56, amount)
    }
    this.#each.give(holder, amount)
    return false
  }

  give(holder: string, amount: number): void {
    this.#each.give(holder, amount)
    const net56 = prefix56(holder)
    if (net56 === undefined) return
    this.#wide56.give(net56, amount)
    this.#wide48.give(prefix48(holder)!, amount)
  }
}
