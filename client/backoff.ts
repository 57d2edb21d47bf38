/** How long to wait before trying again. Milliseconds. */
export interface Backoff {
  readonly firstMs: number
  readonly maxMs: number
  /** 0: the full wait every time; 1: full jitter, anything between nothing and the wait. */
  readonly jitter: number
}

export const defaultBackoff: Backoff = { firstMs: 1_000, maxMs: 30_000, jitter: 1 }

/**
 * The wait before attempt `attempt` (0 is the first retry). Full jitter, after Marc Brooker,
 * "Exponential Backoff And Jitter": clients that lost the same server must not come back in the
 * same instant.
 */
export function waitMs(
  { firstMs, maxMs, jitter }: Backoff,
  attempt: number,
  random: () => number = Math.random,
): number {
  // 2 ** attempt is Infinity after 1,023 attempts, and min() still answers the ceiling.
  const ceiling = Math.min(maxMs, firstMs * 2 ** attempt)
  return ceiling * (1 - jitter * (1 - random()))
}
