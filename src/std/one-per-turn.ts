import { setImmediate } from "node:timers/promises"

/** Lets those who wait go on one per turn of the event loop, in the order in which they came: between two of them everybody else is served. */
export class OnePerTurn {
  #last: Promise<void> = Promise.resolve()

  wait(): Promise<void> {
    this.#last = this.#last.then(() => setImmediate())
    return this.#last
  }
}
