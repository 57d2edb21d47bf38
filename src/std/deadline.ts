/**
 * Waits for a promise, at most so many milliseconds. Nothing keeps the process alive or leaks
 * afterwards, whichever ends first. @returns what the promise gives, or what `late()` returns;
 * `late` may throw instead
 */
export async function within<Result, Late>(
  timeoutMs: number,
  promise: Promise<Result>,
  late: () => Late,
): Promise<Result | Late> {
  let timer: NodeJS.Timeout | undefined
  const isLate = new Promise<typeof lateMark>(resolve => {
    timer = setTimeout(resolve, timeoutMs, lateMark)
  })
  try {
    const first = await Promise.race([promise, isLate])
    return first === lateMark ? late() : first
  } finally {
    clearTimeout(timer)
  }
}

/** Its own type, so that the compiler knows the mark from a result. */
const lateMark: unique symbol = Symbol("late")
