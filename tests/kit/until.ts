import { setTimeout as sleep } from "node:timers/promises"

/** Looks until it is so; fails when that takes longer than `timeoutMs`. */
export async function until(
  what: string,
  isSo: () => Promise<boolean> | boolean,
  { timeoutMs = 60_000, everyMs = 15 }: { timeoutMs?: number; everyMs?: number } = {},
): Promise<void> {
  for (const end = performance.now() + timeoutMs; !(await isSo()); await sleep(everyMs))
    if (performance.now() > end) throw new Error(`not within ${timeoutMs} ms: ${what}`)
}
