import { SizedMap } from "./sized-map.ts"

/**
 * How many entries a home keeps of a memory that is a map, and how many bytes of them; at twice as
 * many the oldest go.
 */
export interface Bounds {
  readonly keep: number
  readonly keepBytes?: number
}

let defined = 0

/** One thing that homes remember. Each home has a value of its own, which begins empty. */
export class Memory<Value> {
  /** Where every home has its value. */
  readonly index = defined++
  readonly empty: () => Value
  /** Only of maps. */
  readonly bounds: Bounds | undefined

  constructor(empty: () => Value, bounds?: Bounds) {
    this.empty = empty
    this.bounds = bounds
  }
}

/**
 * What a home remembers beside its state. It does not know what: each memory is defined by the
 * subject that owns it, and begins when the subject first uses it. A memory is found by its index,
 * so reading one costs as little as reading a field.
 */
export class Facts {
  readonly #values: unknown[] = Array.from({ length: defined })
  readonly #bounded: { readonly map: Map<string, unknown>; readonly bounds: Bounds }[] = []

  get<Value>(memory: Memory<Value>): Value {
    return (this.#values[memory.index] as Value | undefined) ?? this.#begin(memory)
  }

  #begin<Value>(memory: Memory<Value>): Value {
    const value = memory.empty()
    this.#values[memory.index] = value
    if (memory.bounds) this.#bounded.push({ map: value as Map<string, unknown>, bounds: memory.bounds })
    return value
  }

  /** Whether a map holds twice as much as it should. */
  get overfull(): boolean {
    return this.#bounded.some(({ map, bounds }) => holdsMore(map, bounds, 2))
  }

  /** Forgets the oldest entries of maps that hold twice as much as they should. */
  forgetOldest(): void {
    for (const { map, bounds } of this.#bounded) {
      if (!holdsMore(map, bounds, 2)) continue
      for (const key of map.keys()) {
        if (!holdsMore(map, bounds, 1)) break
        map.delete(key)
      }
    }
  }
}

/** One entry is kept though it is too large, or it would be loaded for every command. */
function holdsMore(map: Map<string, unknown>, { keep, keepBytes = Infinity }: Bounds, times: number): boolean {
  return map.size > times * keep || (map.size > 1 && map instanceof SizedMap && map.bytes > times * keepBytes)
}
