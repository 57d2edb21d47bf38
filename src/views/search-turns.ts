import { fail } from "../contract/core/errors.ts"

export interface SearchBounds {
  /** Searches under way. */
  readonly maxConcurrent: number
  /** Of one user that wait while one of theirs is under way. */
  readonly waitingOfOne: number
  readonly waiting: number
  /**
   * A search that has waited for so many milliseconds is refused: nobody would wait for its end.
   */
  readonly withinMs: number
}

interface Waiting {
  readonly user: string
  readonly since: number
  begin(): void
  refuse(): void
}

const busy = () => fail("search_busy", { retry_after: 1 })

/**
 * Whose search is next. A user who asks for many at once waits for their own searches and keeps
 * nobody else waiting; what nobody waits for any longer is not begun.
 * @param now Milliseconds
 */
export function searchTurns({ maxConcurrent, waitingOfOne, waiting: most, withinMs }: SearchBounds, now: () => number) {
  const underWay = new Set<string>()
  let waiting: Waiting[] = []

  function next(): void {
    const late = now() - withinMs
    const over = waiting.filter(({ since }) => since <= late)
    if (over.length > 0) waiting = waiting.filter(({ since }) => since > late)
    for (const one of over) one.refuse()
    while (underWay.size < maxConcurrent) {
      const at = waiting.findIndex(({ user }) => !underWay.has(user))
      if (at < 0) return
      const [one] = waiting.splice(at, 1)
      underWay.add(one!.user)
      one!.begin()
    }
  }

  return async <Result>(user: string, search: () => Promise<Result>): Promise<Result> => {
    // A search that has ended lets the next one begin.
    next()
    if (waiting.length >= most || waiting.filter(one => one.user === user).length >= waitingOfOne) throw busy()
    await new Promise<void>((begin, reject) => {
      waiting.push({ user, since: now(), begin, refuse: () => reject(busy()) })
      next()
    })
    try {
      return await search()
    } finally {
      underWay.delete(user)
      next()
    }
  }
}
