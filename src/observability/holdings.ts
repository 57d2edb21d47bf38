/**
 * What one process holds, for an operator who looks: numbers beside their bounds, and the few
 * largest of many. Looking costs something, holding nothing. What holds something shows it under a
 * name; no text of users, no name and no address is in it.
 */
export class Holdings {
  readonly #shown = new Map<string, () => unknown>()

  show(name: string, look: () => unknown): void {
    this.#shown.set(name, look)
  }

  /** What each says now; why, where one cannot say. */
  look(): Record<string, unknown> {
    return Object.fromEntries([...this.#shown].map(([name, look]) => [name, sayOf(look)]))
  }
}

function sayOf(look: () => unknown): unknown {
  try {
    return look()
  } catch (error) {
    return { error: error instanceof Error ? error.message : String(error) }
  }
}

/** How many of the largest are shown. */
export const shownMost = 10

/** The largest of many, without sorting all of them. */
export function largest<T>(all: Iterable<T>, sizeOf: (one: T) => number, most = shownMost): T[] {
  const found: { one: T; size: number }[] = []
  for (const one of all) {
    const size = sizeOf(one)
    if (size <= 0 || (found.length === most && size <= found[most - 1]!.size)) continue
    const at = found.findIndex(other => other.size < size)
    found.splice(at === -1 ? found.length : at, 0, { one, size })
    if (found.length > most) found.pop()
  }
  return found.map(({ one }) => one)
}
