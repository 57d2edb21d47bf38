import { Queue } from "./queue.ts"

/**
 * Bounds what many small tasks cost in one turn of the event loop. A task is done at once while the turn has budget left, else in
 * one of the next turns, in the order in which they came.
 */
export class TurnBudget {
  readonly #perTurn: number
  readonly #waiting = new Queue<() => number>()
  #left: number
  #isTurnCounted = false
  #isRunning = false

  /** @param perTurn in the unit of what tasks answer; the last task of a turn may exceed it */
  constructor(perTurn: number) {
    this.#perTurn = perTurn
    this.#left = perTurn
  }

  /** @param task answers what it has cost; it does not throw. What it adds itself comes after it */
  do(task: () => number): void {
    this.#waiting.push(task)
    if (!this.#isRunning && this.#waiting.length === 1) this.#run()
    this.#countTurn()
  }

  /** Resolves when there is budget for something of that cost. */
  async turn(cost: number): Promise<void> {
    await new Promise<void>(resolve =>
      this.do(() => {
        resolve()
        return cost
      }),
    )
  }

  #run(): void {
    this.#isRunning = true
    while (this.#left > 0 && this.#waiting.length > 0) this.#left -= this.#waiting.shift()!()
    this.#isRunning = false
  }

  #countTurn(): void {
    if (this.#isTurnCounted) return
    this.#isTurnCounted = true
    setImmediate(() => {
      this.#isTurnCounted = false
      this.#left = this.#perTurn
      if (this.#waiting.length === 0) return
      this.#run()
      this.#countTurn()
    })
  }
}
