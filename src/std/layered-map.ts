/** After so many changes the layers are put together. */
const maxChanges = 32

/**
 * A map that never changes: `with` and `without` make another one, which shares everything but the last few changes with
 * this one. So many versions of a large map cost little. Its entries stand in the order of a `Map`.
 */
export class LayeredMap<K, V extends object | string | number> implements ReadonlyMap<K, V> {
  readonly #base: ReadonlyMap<K, V>
  /** What differs from the base; null: it is gone. */
  readonly #changes: ReadonlyMap<K, V | null>
  readonly size: number

  private constructor(base: ReadonlyMap<K, V>, changes: ReadonlyMap<K, V | null>, size: number) {
    this.#base = base
    this.#changes = changes
    this.size = size
  }

  /** @param map must not be changed any more */
  static of<K, V extends object | string | number>(map: ReadonlyMap<K, V>): LayeredMap<K, V> {
    return map instanceof LayeredMap ? map : new LayeredMap(map, new Map(), map.size)
  }

  /** A map with the entries of `map`, in any order, that shares with `before` what both have. */
  static like<K, V extends object | string | number>(
    before: LayeredMap<K, V> | undefined,
    map: ReadonlyMap<K, V>,
  ): LayeredMap<K, V> {
    if (!before) return LayeredMap.of(map)
    const changes: [key: K, value: V | null][] = []
    for (const [key, value] of map) if (before.get(key) !== value) changes.push([key, value])
    for (const key of before.keys()) if (!map.has(key)) changes.push([key, null])
    if (changes.length > maxChanges) return LayeredMap.of(map)
    return changes.reduce<LayeredMap<K, V>>(
      (made, [key, value]) => (value === null ? made.without(key) : made.with(key, value)),
      before,
    )
  }

  get(key: K): V | undefined {
    const changed = this.#changes.get(key)
    return changed === undefined ? this.#base.get(key) : (changed ?? undefined)
  }

  has(key: K): boolean {
    return this.get(key) !== undefined
  }

  with(key: K, value: V): LayeredMap<K, V> {
    // One that comes back stands at the end.
    if (this.#changes.get(key) === null) return this.#flat().with(key, value)
    return this.#changed(key, value, this.has(key) ? this.size : this.size + 1)
  }

  without(key: K): LayeredMap<K, V> {
    return this.has(key) ? this.#changed(key, null, this.size - 1) : this
  }

  *entries(): MapIterator<[K, V]> {
    for (const [key, value] of this.#base) {
      const changed = this.#changes.get(key)
      if (changed !== null) yield [key, changed ?? value]
    }
    for (const [key, value] of this.#changes) if (value !== null && !this.#base.has(key)) yield [key, value]
  }

  *keys(): MapIterator<K> {
    for (const [key] of this.entries()) yield key
  }

  *values(): MapIterator<V> {
    for (const [, value] of this.entries()) yield value
  }

  [Symbol.iterator](): MapIterator<[K, V]> {
    return this.entries()
  }

  forEach(act: (value: V, key: K, map: ReadonlyMap<K, V>) => void): void {
    for (const [key, value] of this.entries()) act(value, key, this)
  }

  #changed(key: K, value: V | null, size: number): LayeredMap<K, V> {
    const changes = new Map(this.#changes)
    if (value === null && !this.#base.has(key)) changes.delete(key)
    else changes.set(key, value)
    const made = new LayeredMap(this.#base, changes, size)
    return changes.size > maxChanges ? made.#flat() : made
  }

  #flat(): LayeredMap<K, V> {
    return new LayeredMap(new Map(this.entries()), new Map(), this.size)
  }
}
