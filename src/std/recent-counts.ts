/**
 * How often each of many keys occurred lately: within the last half of a window at least, within
 * the whole of it at most.
 */
export class RecentCounts {
  readonly #halfMs: number
  readonly #maxKeys: number
  #now = new Map<string, number>()
  #before = new Map<string, number>()
  #sinceMs = -Infinity

  /** Of more keys than `maxKeys` in half a window the others are not counted. */
  constructor(windowMs: number, maxKeys = 100_000) {
    this.#halfMs = windowMs / 2
    this.#maxKeys = maxKeys
  }

  /** Counts one more. @returns how many there are with it */
  count(key: string, nowMs: number): number {
    if (nowMs - this.#sinceMs >= this.#halfMs) {
      this.#before = nowMs - this.#sinceMs < 2 * this.#halfMs ? this.#now : new Map()
      this.#now = new Map()
      this.#sinceMs = nowMs
    }
    const found = (this.#now.get(key) ?? 0) + 1
    if (found > 1 || this.#now.size < this.#maxKeys) this.#now.set(key, found)
    return found + (this.#before.get(key) ?? 0)
  }
}
