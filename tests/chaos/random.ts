/**
 * Everything that a run chooses comes from its seed, so that the same seed chooses the same again.
 */
export interface Random {
  /** From 0 up to, not including, 1. */
  next(): number
  /** A whole number below `bound`. */
  below(bound: number): number
  pick<T>(list: readonly T[]): T
  shuffled<T>(list: readonly T[]): T[]
}

/**
 * mulberry32, by Tommy Ettinger: 32 bits of state, more than enough for choices. `stream` keeps two
 * users apart.
 */
export function randomFrom(seed: number, stream: string): Random {
  let state = seed >>> 0
  for (const letter of stream) state = Math.imul(state ^ letter.codePointAt(0)!, 0x9e3779b1) >>> 0
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  const below = (bound: number) => Math.floor(next() * bound)
  return {
    next,
    below,
    pick: list => list[below(list.length)]!,
    shuffled(list) {
      const shuffled = [...list]
      for (let at = shuffled.length - 1; at > 0; at--) {
        const other = below(at + 1)
        ;[shuffled[at], shuffled[other]] = [shuffled[other]!, shuffled[at]!]
      }
      return shuffled
    },
  }
}
