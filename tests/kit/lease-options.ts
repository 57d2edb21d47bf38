import { systemClock } from "../../src/std/system-clock.ts"

/** Leases on rate limits as a worker of two has them. */
export const leasesOfTwo = {
  leaseTokens: 16,
  leaseMs: 1_000,
  maxLeases: 1_000,
  clock: systemClock,
  isServing: () => true,
  workers: () => 2,
}
