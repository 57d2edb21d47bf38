/** As much of an answer as is looked at. */
interface Answer {
  readonly status: number
  readonly headers: { get(name: string): string | null }
}

/** How many places are remembered; those whose wait is over go first. */
const maxPlaces = 1_000

/**
 * What the server has said about its rate limits: when a request to a place (a route and the first
 * id in its path) is accepted again. A request that would be refused waits here instead.
 */
export class Buckets {
  readonly #until = new Map<string, number>()
  #allUntil = 0
  readonly #now: () => number

  constructor(now: () => number = () => performance.now()) {
    this.#now = now
  }

  /** How long a request to this place has to wait, in milliseconds. */
  waitMs(place: string): number {
    const until = Math.max(this.#allUntil, this.#until.get(place) ?? 0)
    return Math.max(0, until - this.#now())
  }

  /** Reads the headers of an answer. `retryAfterSeconds`: from the body of a refusal. */
  note(place: string, { status, headers }: Answer, retryAfterSeconds = 0): void {
    const isRefused = status === 429
    const seconds = isRefused ? retryAfterSeconds : Number(headers.get("x-ratelimit-reset-after") ?? 0)
    const remaining = headers.get("x-ratelimit-remaining")
    const isEmpty = isRefused || remaining === "0"
    if (!isEmpty || !(seconds > 0)) return
    const until = this.#now() + seconds * 1_000
    // Slow mode and daily limits refuse while the bucket in the headers still has some.
    const scope = remaining === "0" || remaining === null ? headers.get("x-ratelimit-scope") : null
    if (scope === "user" || scope === "ip" || scope === "global") this.#allUntil = Math.max(this.#allUntil, until)
    else {
      this.#letGo()
      this.#until.set(place, until)
    }
  }

  #letGo(): void {
    if (this.#until.size < maxPlaces) return
    const now = this.#now()
    for (const [place, until] of this.#until) if (until <= now) this.#until.delete(place)
    for (const place of this.#until.keys()) {
      if (this.#until.size < maxPlaces) return
      this.#until.delete(place)
    }
  }
}
