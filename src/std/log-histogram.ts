/**
 * Counts of whole numbers by size, in buckets that grow with the number: one for each below 16, above that 16 of equal width
 * for every power of two. A bucket is never wider than a sixteenth of what it holds, so its middle is at most 1/32 off.
 * The layout is that of HdrHistogram (Gil Tene) with four bits of precision.
 */
const bits = 4
const perOctave = 1 << bits
/** What is larger counts as this. */
export const largestCounted = 2_147_483_647
export const bucketCount = (31 - bits + 1) * perOctave

/** `value`: a whole number of at most `largestCounted`. */
export function bucketOf(value: number): number {
  if (value < perOctave) return value
  const octave = 31 - bits - Math.clz32(value)
  return ((octave + 1) << bits) + ((value >>> octave) & (perOctave - 1))
}

/** What stands for every number of a bucket. */
export function middleOf(bucket: number): number {
  if (bucket < 2 * perOctave) return bucket
  const octave = (bucket >> bits) - 1
  const lowest = (perOctave + (bucket & (perOctave - 1))) * 2 ** octave
  return lowest + (2 ** octave - 1) / 2
}

/**
 * The number below or at which a share of all numbers lies (nearest rank).
 * @param buckets those that hold any, rising; `counts` beside them
 * @param share above 0, at most 1
 */
export function percentileOf(buckets: readonly number[], counts: readonly number[], share: number): number {
  let all = 0
  for (const count of counts) all += count
  let left = Math.ceil(all * share)
  for (const [i, count] of counts.entries()) {
    left -= count
    if (left <= 0) return middleOf(buckets[i]!)
  }
  return 0
}
