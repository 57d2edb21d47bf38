/**
 * Milliseconds to wait before try number `attempt` (from 0) is repeated: `firstMs`, doubled each
 * time, at most `maxMs`.
 */
export const backoffMs = (attempt: number, firstMs: number, maxMs: number): number =>
  Math.min(firstMs * 2 ** attempt, maxMs)
