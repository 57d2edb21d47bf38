const width = 32
const lineEveryMs = 5_000

/**
 * How far a long step is, on standard error: a bar on a terminal, a line now and then elsewhere.
 */
export class Progress {
  readonly #title: string
  readonly #total: number
  readonly #startedAt = performance.now()
  readonly #isTerminal = process.stderr.isTTY
  #done = 0
  #drawnAt = 0

  constructor(title: string, total: number) {
    this.#title = title
    this.#total = total
  }

  step(): void {
    this.#done++
    const now = performance.now()
    if (now - this.#drawnAt < (this.#isTerminal ? 100 : lineEveryMs)) return
    this.#drawnAt = now
    this.#draw()
  }

  /** Answers how many a second. */
  end(): number {
    this.#draw()
    if (this.#isTerminal) process.stderr.write("\n")
    return this.#rate()
  }

  #rate(): number {
    const seconds = (performance.now() - this.#startedAt) / 1_000
    return seconds > 0 ? this.#done / seconds : 0
  }

  #draw(): void {
    const share = this.#total === 0 ? 1 : this.#done / this.#total
    const text = `${this.#title.padEnd(12)} ${this.#done}/${this.#total}, ${this.#rate().toFixed(0)}/s`
    if (!this.#isTerminal) {
      process.stderr.write(`${text}\n`)
      return
    }
    const full = Math.round(share * width)
    process.stderr.write(`\r\x1b[K${"█".repeat(full)}${"░".repeat(width - full)} ${text}`)
  }
}
