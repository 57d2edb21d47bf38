/**
 * An amount that several holders share, mostly bytes of memory. Each of them takes at most its
 * share.
 */
export class ByteBudget {
  readonly #size: number
  readonly #share: number
  readonly #held = new Map<string, number>()
  #taken = 0

  constructor(size: number, share = size) {
    this.#size = size
    this.#share = share
  }

  take(holder: string, bytes: number): boolean {
    const held = (this.#held.get(holder) ?? 0) + bytes
    if (this.#taken + bytes > this.#size || held > this.#share) return false
    this.#taken += bytes
    if (held > 0) this.#held.set(holder, held)
    return true
  }

  give(holder: string, bytes: number): void {
    this.#taken -= bytes
    const held = (this.#held.get(holder) ?? 0) - bytes
    if (held > 0) this.#held.set(holder, held)
    else this.#held.delete(holder)
  }
}
