import { setTimeout as sleep } from "node:timers/promises"

/** Looks until it is so; fails when that takes longer than `patience` milliseconds. */
export async function until(
  what: string,
  isSo: () => Promise<boolean> | boolean,
  { patience = 60_000, every = 15 }: { patience?: number; every?: number } = {},
): Promise<void> {
  for (const end = performance.now() + patience; !(await isSo()); await sleep(every))
    if (performance.now() > end) throw new Error(`not within ${patience} ms: ${what}`)
}
