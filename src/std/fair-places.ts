interface Waiting {
  readonly isAwaited: boolean
  readonly begin: () => void
}

/**
 * Few places for long tasks. A holder has one of them at most, so that others find one; whose turn it
 * was last is the last to have another. Tasks that somebody waits for come before all others.
 */
export class FairPlaces {
  readonly #places: number
  readonly #maxWaiting: number
  readonly #running = new Set<string>()
  /** By holder; the first is the next. */
  readonly #waiting = new Map<string, Waiting[]>()

  /** @param maxWaiting tasks of one holder that wait */
  constructor(places: number, maxWaiting: number) {
    this.#places = places
    this.#maxWaiting = maxWaiting
  }

  /** So many tasks of the holder's wait that no more may. */
  isFull(holder: string): boolean {
    return (this.#waiting.get(holder)?.length ?? 0) >= this.#maxWaiting
  }

  /** Carries out a task in its turn. */
  async run<T>(holder: string, isAwaited: boolean, task: () => Promise<T>): Promise<T> {
    await new Promise<void>(begin => {
      const own = this.#waiting.get(holder) ?? []
      own.push({ isAwaited, begin })
      this.#waiting.set(holder, own)
      this.#next()
    })
    try {
      return await task()
    } finally {
      this.#running.delete(holder)
      this.#next()
    }
  }

  #next(): void {
    while (this.#running.size < this.#places) {
      const holder = this.#holder(true) ?? this.#holder(false)
      if (holder === undefined) return
      const own = this.#waiting.get(holder)!
      const [next] = own.splice(Math.max(0, own.findIndex(isAwaited)), 1)
      // It has had its turn.
      this.#waiting.delete(holder)
      if (own.length > 0) this.#waiting.set(holder, own)
      this.#running.add(holder)
      next!.begin()
    }
  }

  /** Who is next, of those for whom somebody waits or of all. */
  #holder(onlyAwaited: boolean): string | undefined {
    for (const [holder, own] of this.#waiting)
      if (!this.#running.has(holder) && (!onlyAwaited || own.some(isAwaited))) return holder
    return undefined
  }
}

const isAwaited = (task: Waiting) => task.isAwaited
