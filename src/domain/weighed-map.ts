/**
 * A map that knows how many bytes its values take, without looking at them all. A value that changes is set again; null takes
 * none.
 */
export class WeighedMap<Value> extends Map<string, Value | null> {
  readonly #weigh: (value: Value) => number
  readonly #weights = new Map<string, number>()
  #bytes = 0

  constructor(weigh: (value: Value) => number) {
    super()
    this.#weigh = weigh
  }

  get bytes(): number {
    return this.#bytes
  }

  override set(key: string, value: Value | null): this {
    const weight = value === null ? 0 : this.#weigh(value)
    this.#bytes += weight - (this.#weights.get(key) ?? 0)
    this.#weights.set(key, weight)
    return super.set(key, value)
  }

  override delete(key: string): boolean {
    this.#bytes -= this.#weights.get(key) ?? 0
    this.#weights.delete(key)
    return super.delete(key)
  }

  override clear(): void {
    this.#bytes = 0
    this.#weights.clear()
    super.clear()
  }
}
