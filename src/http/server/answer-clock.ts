import type { Exchange } from "./exchange.ts"

/** Does what may take longer than an answer and has a deadline of its own. */
export type Longer = <T>(work: () => Promise<T>) => Promise<T>

/** Of a request that brings no file: nothing of it takes longer. */
export const inTime: Longer = work => work()

/**
 * When the answer to a request that brings a file is due: as long after the whole request as that of any other. It stands still while the
 * file comes, is written, or is in the hands of a job worker, so that all other steps together have as long as an answer has.
 */
export class AnswerClock {
  readonly #exchange: Pick<Exchange, "dueAt">
  readonly #timeoutMs: number
  readonly #longerMs: number
  /** What is left when it goes on; undefined: it goes. */
  #leftMs: number | undefined
  #isWhole: boolean

  /**
   * @param timeoutMs from the whole request to its answer
   * @param longerMs how long it may stand still at once when the request is whole, whatever the deadline of that step
   * @param isWhole whether all of the request has come
   */
  constructor(exchange: Pick<Exchange, "dueAt">, timeoutMs: number, longerMs: number, isWhole: boolean) {
    this.#exchange = exchange
    this.#timeoutMs = timeoutMs
    this.#longerMs = longerMs
    this.#isWhole = isWhole
  }

  /** Now all of the request has come. */
  whole(): void {
    this.#isWhole = true
    if (this.#leftMs === undefined) this.#exchange.dueAt = performance.now() + this.#timeoutMs
    else {
      this.#leftMs = this.#timeoutMs
      this.#stand()
    }
  }

  /** One at a time. */
  readonly longer: Longer = async work => {
    this.#leftMs = this.#exchange.dueAt - performance.now()
    this.#stand()
    try {
      return await work()
    } finally {
      this.#exchange.dueAt = performance.now() + this.#leftMs
      this.#leftMs = undefined
    }
  }

  /** While it comes it is the body that has a deadline. */
  #stand(): void {
    this.#exchange.dueAt = this.#isWhole ? performance.now() + this.#longerMs : Infinity
  }
}
