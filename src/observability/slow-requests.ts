export interface SlowRequest {
  readonly method: string
  /** As declared, without ids. */
  readonly route: string
  /** 0: the client was gone before the reply. */
  readonly status: number
  readonly seconds: number
  /** Unix milliseconds. */
  readonly endedAtMs: number
}

/** Whatever is faster is never shown. */
const leastSeconds = 0.05
const most = 10

/** The slowest requests of the last minutes: of one span and the one before it. */
export class SlowRequests {
  readonly #spanMs: number
  readonly #nowMs: () => number
  #current: SlowRequest[] = []
  #former: SlowRequest[] = []
  #since: number

  constructor(spanMs = 300_000, nowMs: () => number = Date.now) {
    this.#spanMs = spanMs
    this.#nowMs = nowMs
    this.#since = nowMs()
  }

  note(method: string, route: string, status: number, seconds: number): void {
    if (seconds < leastSeconds) return
    const endedAtMs = this.#nowMs()
    this.#turnOver(endedAtMs)
    const last = this.#current[most - 1]
    if (last && last.seconds >= seconds) return
    this.#current.push({ method, route, status, seconds, endedAtMs })
    this.#current.sort(bySeconds)
    if (this.#current.length > most) this.#current.pop()
  }

  get slowest(): SlowRequest[] {
    this.#turnOver(this.#nowMs())
    return [...this.#current, ...this.#former].toSorted(bySeconds).slice(0, most)
  }

  #turnOver(nowMs: number): void {
    const spans = (nowMs - this.#since) / this.#spanMs
    if (spans < 1) return
    this.#former = spans < 2 ? this.#current : []
    this.#current = []
    this.#since = nowMs
  }
}

const bySeconds = (a: SlowRequest, b: SlowRequest): number => b.seconds - a.seconds
