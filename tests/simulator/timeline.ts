import type { Clock, Timer } from "../../src/std/clock.ts"
import { epochMs } from "../../src/domain/core/snowflake.ts"

/** Numbers in [0, 1) from a seed (mulberry32, Ettinger 2017). */
export function randomFrom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** Something that time passes for: a worker's process, or somebody outside. */
export interface Actor {
  readonly name: string
  /** Nothing happens to it any more. */
  dead: boolean
  /** What would happen before this moment happens then. */
  pausedUntil: number
}

interface Step extends Timer {
  at: number
  order: number
  readonly actor: Actor
  readonly action: () => void
  stopped: boolean
}

/** Far enough from the epoch that clocks may jump back by hours. */
const startOfTime = epochMs + 1_000 * 86_400_000

/**
 * The only time there is in a simulated run: steps in order, one at a time, each followed by everything that the promises
 * which it settled bring about. What happens at one moment happens in the order in which it was planned.
 */
export class Timeline {
  now = 0
  steps = 0
  readonly random: () => number
  readonly #heap: Step[] = []
  #order = 0

  constructor(seed: number) {
    this.random = randomFrom(seed)
  }

  /** A number from `low` to `high`. */
  between(low: number, high: number): number {
    return low + (high - low) * this.random()
  }

  chance(probability: number): boolean {
    return this.random() < probability
  }

  pick<T>(list: readonly T[]): T | undefined {
    return list[Math.floor(this.random() * list.length)]
  }

  /** Plans a step of an actor. */
  at(at: number, actor: Actor, action: () => void): Timer {
    const step: Step = {
      at: Math.max(at, this.now),
      order: this.#order++,
      actor,
      action,
      stopped: false,
      stop() {
        step.stopped = true
      },
    }
    this.#push(step)
    return step
  }

  after(milliseconds: number, actor: Actor, action: () => void): Timer {
    return this.at(this.now + milliseconds, actor, action)
  }

  /** What an actor's code takes for time. `skew()` is how far its wall clock is off. */
  clockOf(actor: Actor, skew: () => number = () => 0): Clock {
    const after = (milliseconds: number, action: () => void) => this.after(milliseconds, actor, action)
    const offset = Math.floor(this.between(0, 1_000_000))
    return {
      now: () => Math.floor(startOfTime + this.now + skew()),
      monotonic: () => offset + this.now,
      sleep: milliseconds => new Promise(resolve => after(milliseconds, resolve)),
      soon: action => void after(0, action),
      after,
      every: (milliseconds, action) => {
        let next: Timer
        let stopped = false
        const again = () => {
          if (stopped) return
          next = after(milliseconds, again)
          action()
        }
        // Workers' timers do not tick together.
        next = after(milliseconds * this.between(0.5, 1), again)
        return {
          stop() {
            stopped = true
            next.stop()
          },
        }
      },
    }
  }

  /**
   * Lets time pass until a moment, or until `isOver`. One step is one tick of Node's: all that its promises settle is done
   * before the next, and nothing of the machine's own time comes in between.
   */
  run(until: number, isOver: () => boolean = () => false): Promise<void> {
    return new Promise((resolve, reject) => {
      const tick = () => {
        try {
          const step = this.#next(until)
          if (!step || isOver()) {
            if (!step) this.now = Math.max(this.now, until)
            else this.#push(step)
            return resolve()
          }
          this.now = step.at
          this.steps++
          step.action()
        } catch (error) {
          return reject(error instanceof Error ? error : new Error(String(error)))
        }
        // After the microtasks of this step, and those that they cause.
        queueMicrotask(() => process.nextTick(tick))
      }
      process.nextTick(tick)
    })
  }

  /** The next step that may happen; those of paused actors are put off. */
  #next(until: number): Step | undefined {
    for (;;) {
      const step = this.#heap[0]
      if (!step || step.at > until) return undefined
      this.#pop()
      if (step.stopped || step.actor.dead) continue
      if (step.actor.pausedUntil > step.at) {
        step.at = step.actor.pausedUntil
        this.#push(step)
        continue
      }
      return step
    }
  }

  #push(step: Step): void {
    const heap = this.#heap
    let i = heap.push(step) - 1
    while (i > 0) {
      const above = (i - 1) >> 1
      if (!isBefore(step, heap[above]!)) break
      heap[i] = heap[above]!
      i = above
    }
    heap[i] = step
  }

  #pop(): void {
    const heap = this.#heap
    const last = heap.pop()!
    if (heap.length === 0) return
    let i = 0
    for (;;) {
      let below = 2 * i + 1
      if (below >= heap.length) break
      if (below + 1 < heap.length && isBefore(heap[below + 1]!, heap[below]!)) below++
      if (!isBefore(heap[below]!, last)) break
      heap[i] = heap[below]!
      i = below
    }
    heap[i] = last
  }
}

const isBefore = (a: Step, b: Step): boolean => a.at < b.at || (a.at === b.at && a.order < b.order)
