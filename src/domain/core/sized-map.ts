/**
 * A map that knows how many bytes its values take, without looking at them all. A value that
 * changes is set again; null takes none.
 */
export class SizedMap<Value> extends Map<string, Value | null> {
  readonly #sizeOf: (value: Value) => number
  readonly #sizes = new Map<string, number>()
  #bytes = 0

  constructor(sizeOf: (value: Value) => number) {
    super()
    this.#sizeOf = sizeOf
  }

  get bytes(): number {
    return this.#bytes
  }

  override set(key: string, value: Value | null): this {
    const size = value === null ? 0 : this.#sizeOf(value)
    this.#bytes += size - (this.#sizes.get(key) ?? 0)
    this.#sizes.set(key, size)
    return super.set(key, value)
  }

  override delete(key: string): boolean {
    this.#bytes -= this.#sizes.get(key) ?? 0
    this.#sizes.delete(key)
    return super.delete(key)
  }

  override clear(): void {
    this.#bytes = 0
    this.#sizes.clear()
    super.clear()
  }
}
