export interface PlacedTask {
  /** Somebody waits for it. */
  readonly isAwaited: boolean
  /** It takes much longer than most. */
  readonly isLong?: boolean
}

interface Waiting extends PlacedTask {
  readonly begin: () => void
}

/**
 * Few places for tasks. A holder has one of them at most, so that others find one; whose turn it was
 * last is the last to have another. Tasks that somebody waits for come before all others. Long tasks
 * leave one place to those that are not, if there are several: however many holders have long ones,
 * the others go on.
 */
export class FairPlaces {
  readonly #places: number
  readonly #maxLong: number
  readonly #maxWaiting: number
  #runningLong = 0
  readonly #running = new Set<string>()
  /** By holder; the first is the next. */
  readonly #waiting = new Map<string, Waiting[]>()

  /** @param maxWaiting tasks of one holder that wait */
  constructor(places: number, maxWaiting: number) {
    this.#places = places
    this.#maxLong = Math.max(1, places - 1)
    this.#maxWaiting = maxWaiting
  }

  /** So many tasks of the holder's wait that no more may. */
  isFull(holder: string): boolean {
    return (this.#waiting.get(holder)?.length ?? 0) >= this.#maxWaiting
  }

  /** Carries out a task in its turn. */
  async run<T>(holder: string, { isAwaited, isLong = false }: PlacedTask, task: () => Promise<T>): Promise<T> {
    await new Promise<void>(begin => {
      const own = this.#waiting.get(holder) ?? []
      own.push({ isAwaited, isLong, begin })
      this.#waiting.set(holder, own)
      this.#next()
    })
    try {
      return await task()
    } finally {
      this.#running.delete(holder)
      if (isLong) this.#runningLong--
      this.#next()
    }
  }

  #next(): void {
    while (this.#running.size < this.#places) {
      const next = this.#first(true) ?? this.#first(false)
      if (!next) return
      const [holder, task] = next
      // It has had its turn.
      const others = this.#waiting.get(holder)!.filter(one => one !== task)
      this.#waiting.delete(holder)
      if (others.length > 0) this.#waiting.set(holder, others)
      this.#running.add(holder)
      if (task.isLong) this.#runningLong++
      task.begin()
    }
  }

  /** What is next, of tasks that somebody waits for or of all. */
  #first(onlyAwaited: boolean): [string, Waiting] | undefined {
    const mayBegin = (task: Waiting) =>
      (task.isAwaited || !onlyAwaited) && (!task.isLong || this.#runningLong < this.#maxLong)
    for (const [holder, own] of this.#waiting) {
      const task = this.#running.has(holder) ? undefined : own.find(mayBegin)
      if (task) return [holder, task]
    }
    return undefined
  }
}
