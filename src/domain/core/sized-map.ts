/**
 * A map that knows how many bytes its values take, without looking at them all; null takes none. A
 * value that changes in its place is set again, and the map is told of such with `changing`: only
 * then it keeps what each took before.
 */
export class SizedMap<Value> extends Map<string, Value | null> {
  readonly #sizeOf: (value: Value) => number
  readonly #sizes: Map<string, number> | undefined
  #bytes = 0

  constructor(sizeOf: (value: Value) => number, changing = false) {
    super()
    this.#sizeOf = sizeOf
    if (changing) this.#sizes = new Map()
  }

  get bytes(): number {
    return this.#bytes
  }

  override set(key: string, value: Value | null): this {
    const size = this.#sizeIn(value)
    this.#bytes += size - this.#sizeAt(key)
    this.#sizes?.set(key, size)
    return super.set(key, value)
  }

  override delete(key: string): boolean {
    this.#bytes -= this.#sizeAt(key)
    this.#sizes?.delete(key)
    return super.delete(key)
  }

  override clear(): void {
    this.#bytes = 0
    this.#sizes?.clear()
    super.clear()
  }

  #sizeIn(value: Value | null | undefined): number {
    return value === null || value === undefined ? 0 : this.#sizeOf(value)
  }

  /** Of what stands there. */
  #sizeAt(key: string): number {
    return this.#sizes ? (this.#sizes.get(key) ?? 0) : this.#sizeIn(this.get(key))
  }
}
