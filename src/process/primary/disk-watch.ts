import type { Metrics } from "../../observability/metrics.ts"
import type { Clock } from "../../std/clock.ts"
import { diskOf } from "../figures.ts"

const lookEveryMs = 10_000

/** Shows how much is free where this host keeps what grows. A file system that does not answer keeps its last figures. */
export function watchDisk(folder: string, host: Metrics["host"], clock: Pick<Clock, "every">): { stop(): void } {
  let isLooking = false
  const look = async () => {
    if (isLooking) return
    isLooking = true
    const { free_bytes, total_bytes } = await diskOf(folder)
    if (free_bytes !== null) host.freeBytes.set(free_bytes)
    if (total_bytes !== null) host.sizeBytes.set(total_bytes)
    isLooking = false
  }
  const lookNow = () => void look().catch(() => {})
  lookNow()
  return clock.every(lookEveryMs, lookNow)
}
