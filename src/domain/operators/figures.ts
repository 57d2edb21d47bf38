/** What processes note of themselves every 10 seconds, added up over all of them. */
export const figureSeconds = 10
/** How many such samples are kept: an hour. */
export const figureSamples = 360

/** Upper bounds, in milliseconds, of the histogram of lags. What is above the last is in one more bucket. */
export const lagBoundsMs = [1, 2, 4, 8, 16, 32, 64, 125, 250, 500, 1_000, 5_000] as const

/**
 * The value below which a share of what a histogram counted lies; within a bucket the values are
 * taken to lie evenly. Null: nothing was counted.
 */
export function quantile(
  counts: readonly number[],
  share: number,
  bounds: readonly number[] = lagBoundsMs,
): number | null {
  const total = counts.reduce((sum, count) => sum + count, 0)
  if (total <= 0) return null
  const wanted = share * total
  let below = 0
  for (const [i, bound] of bounds.entries()) {
    const count = counts[i] ?? 0
    if (count > 0 && below + count >= wanted) {
      const from = bounds[i - 1] ?? 0
      return from + ((wanted - below) / count) * (bound - from)
    }
    below += count
  }
  return bounds.at(-1)!
}

/** How many values of a histogram fell into each bucket, from how many lay up to each bound. */
export const bucketsOf = (cumulative: readonly number[]): number[] =>
  cumulative.map((count, i) => count - (cumulative[i - 1] ?? 0))
