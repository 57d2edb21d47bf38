/** What one connection has sent in a minute. */
export interface Sent {
  /** Monotonic: when the minute began. */
  since: number
  /** Frames of every kind, whether or not they are counted otherwise. */
  all: number
  frames: number
  /** Voice signals are counted apart. */
  signals: number
  /** Bytes that compressed frames held, or are counted as. */
  inflatedBytes: number
}

export const nothingSent = (now: number): Sent => ({
  // A whole number is kept in the object itself.
  since: Math.floor(now),
  all: 0,
  frames: 0,
  signals: 0,
  inflatedBytes: 0,
})

export interface FrameLimitsOptions {
  readonly allPerMinute: number
  readonly perMinute: number
  readonly signalsPerMinute: number
  readonly maxBytes: number
}

const minute = 60_000
/**
 * A compressed frame takes as long as reading so many bytes, however few it holds, so it counts for
 * at least that.
 */
const leastInflated = 1024

/**
 * What one connection may send in a minute. Each method counts, and tells whether the count is
 * above its limit by now.
 */
export class FrameLimits {
  readonly #options: FrameLimitsOptions

  constructor(options: FrameLimitsOptions) {
    this.#options = options
  }

  /** For each frame before anything else is done with it: heartbeats, pings and nonsense take time, too. */
  any(sent: Sent, now: number): boolean {
    begin(sent, now)
    return ++sent.all > this.#options.allPerMinute
  }

  frame(sent: Sent, now: number): boolean {
    begin(sent, now)
    return ++sent.frames > this.#options.perMinute
  }

  signal(sent: Sent, now: number): boolean {
    begin(sent, now)
    return ++sent.signals > this.#options.signalsPerMinute
  }

  /**
   * A small compressed frame can hold very much. So the content of all compressed frames of a
   * minute is bounded, whatever their opcodes, by what that many uncompressed frames may hold.
   */
  inflated(sent: Sent, bytes: number, now: number): boolean {
    const { perMinute, maxBytes } = this.#options
    begin(sent, now)
    sent.inflatedBytes += Math.max(bytes, leastInflated)
    return sent.inflatedBytes > perMinute * maxBytes
  }
}

function begin(sent: Sent, now: number): void {
  if (now - sent.since < minute) return
  sent.since = Math.floor(now)
  sent.all = 0
  sent.frames = 0
  sent.signals = 0
  sent.inflatedBytes = 0
}

/** How often a token may identify in so many milliseconds. */
const identifies = { most: 5, withinMs: 5_000 }
/** Tokens that are counted at once. */
const maxTokens = 50_000

/** Limits how often one token identifies in any window of that length. */
export class IdentifyLimit {
  /** When each token last identified. */
  readonly #times = new Map<string, number[]>()
  #sweptAt = -Infinity

  /**
   * Counts one more, and tells whether it is too many by now. `token` is a digest, because an
   * unknown client may send a long one.
   */
  isTooMuch(token: string, now: number): boolean {
    this.sweep(now)
    const before = this.#times.get(token)
    if (!before) {
      // A flood of invalid tokens must not take memory; the limit of failed tokens per address counts
      // them.
      if (this.#times.size < maxTokens) this.#times.set(token, [now])
      return false
    }
    const times = before.filter(time => now - time < identifies.withinMs)
    if (times.length >= identifies.most) return true
    this.#times.set(token, [...times, now])
    return false
  }

  /** Forgets tokens that have not identified for so long, now and then. */
  sweep(now: number): void {
    if (now - this.#sweptAt < identifies.withinMs) return
    this.#sweptAt = now
    for (const [old, times] of this.#times) if (now - times.at(-1)! >= identifies.withinMs) this.#times.delete(old)
  }
}
