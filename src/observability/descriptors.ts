import { readFileSync, statSync } from "node:fs"

/**
 * How many file descriptors this process has open: Linux says so as the size of the folder (since
 * 6.2), without a list of them all. 0 where it does not.
 */
export function openDescriptors(): number {
  try {
    return statSync("/proc/self/fd").size
  } catch {
    return 0
  }
}

let limit: number | undefined

/** How many it may have open; 0 where that is not known. Read once: a process with none left could not. */
export function descriptorLimit(): number {
  try {
    limit ??= softLimit(readFileSync("/proc/self/limits", "utf8"))
  } catch {
    // Asked again at the next scrape.
  }
  return limit ?? 0
}

function softLimit(limits: string): number {
  const [, soft] = /^Max open files\s+(\d+|unlimited)/m.exec(limits) ?? []
  return soft === "unlimited" ? Infinity : Number(soft ?? 0)
}
