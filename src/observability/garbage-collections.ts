import { constants, PerformanceObserver, type PerformanceEntry } from "node:perf_hooks"
import type { Histogram } from "./instruments.ts"

type Kind = "minor" | "major" | "incremental" | "weak"

const kinds: ReadonlyMap<unknown, Kind> = new Map([
  [constants.NODE_PERFORMANCE_GC_MINOR, "minor"],
  [constants.NODE_PERFORMANCE_GC_MAJOR, "major"],
  [constants.NODE_PERFORMANCE_GC_INCREMENTAL, "incremental"],
  [constants.NODE_PERFORMANCE_GC_WEAKCB, "weak"],
])

/** Has the pauses of this process for garbage collections counted, until it is stopped. */
export function observeCollections(pauses: { of(kind: Kind): Pick<Histogram, "observe"> }): { stop(): void } {
  const count = (entry: PerformanceEntry) => {
    const kind = kinds.get((entry as { detail?: { kind?: number } }).detail?.kind)
    if (kind !== undefined) pauses.of(kind).observe(entry.duration / 1000)
  }
  const observer = new PerformanceObserver(list => {
    for (const entry of list.getEntries()) count(entry)
  })
  observer.observe({ entryTypes: ["gc"] })
  return { stop: () => observer.disconnect() }
}
