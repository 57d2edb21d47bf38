import { setNewest } from "../std/bounded-map.ts"

/**
 * Who may be pushed to at a time. A user who subscribes names a push service, and one that never answers
 * holds each job that asks it for as long as it is waited for. So it keeps:
 *   PUSH4  Services that have not answered promptly of late have few places together and one each.
 *       The others are limited by themselves alone, and waited for as long as is usual. Who was slow rests.
 */
export class PushPlaces {
  readonly #now: () => number
  /** When each request began that is under way, by service. */
  readonly #underWay = new Map<string, Set<{ readonly since: number }>>()
  /** Until when a service counts as prompt, and until when it rests: it has one of the two. */
  readonly #promptUntil = new Map<string, number>()
  readonly #restsUntil = new Map<string, number>()

  /** @param now milliseconds that never go back */
  constructor(now: () => number) {
    this.#now = now
  }

  /** @returns what is called when the request is over; for how many milliseconds the service rests; undefined: no place is free */
  take(service: string): PushPlace | number | undefined {
    const now = this.#now()
    const rests = (this.#restsUntil.get(service) ?? 0) - now
    if (rests > 0) return rests
    const own = this.#underWay.get(service)?.size ?? 0
    const isPrompt = this.#isPrompt(service, now)
    if (isPrompt ? own >= maxPerPrompt : own > 0 || this.#others(now) >= maxOthers) return undefined
    return { timeoutMs: isPrompt ? promptTimeoutMs : timeoutMs, over: this.#begun(service, { since: now }) }
  }

  #begun(service: string, request: { readonly since: number }): () => void {
    const underWay = this.#underWay.get(service) ?? new Set()
    this.#underWay.set(service, underWay.add(request))
    return () => {
      if (!underWay.delete(request)) return
      if (underWay.size === 0) this.#underWay.delete(service)
      const now = this.#now()
      const isSlow = now - request.since > promptMs
      this.#promptUntil.delete(service)
      this.#restsUntil.delete(service)
      if (isSlow) setNewest(this.#restsUntil, service, now + restMs, maxKnown)
      else setNewest(this.#promptUntil, service, now + keptMs, maxKnown)
    }
  }

  #isPrompt(service: string, now: number): boolean {
    if ((this.#promptUntil.get(service) ?? 0) <= now) return false
    return [...(this.#underWay.get(service) ?? [])].every(({ since }) => now - since <= promptMs)
  }

  /** Requests under way to services that are not prompt. */
  #others(now: number): number {
    let count = 0
    for (const [service, { size }] of this.#underWay) if (!this.#isPrompt(service, now)) count += size
    return count
  }
}

export interface PushPlace {
  /** How long an answer is waited for. */
  readonly timeoutMs: number
  /** Called when the request is over. */
  readonly over: () => void
}

const timeoutMs = 10_000
/** Of prompt services: one that ends all at once holds all jobs for so long, and then those of few. */
const promptTimeoutMs = 3_000
/** An answer within so many milliseconds is a prompt one; it counts for so long. */
const promptMs = 2_000
const keptMs = 600_000
/** A service that was slow is not asked for so many milliseconds. */
const restMs = 30_000
/** Of requests under way: to a prompt service, and to all others together, of the 16 jobs that push at a time. */
const maxPerPrompt = 64
const maxOthers = 4
const maxKnown = 10_000
