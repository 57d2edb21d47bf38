import { systemClock as clock } from "../std/system-clock.ts"
import type { WebConnections } from "./web-connections.ts"
import type { WebWorkerOptions } from "./web-worker-options.ts"

/** How often it is looked how long messages have waited to be indexed. */
const everyMs = 60_000

/**
 * Tells how far behind the search index is. Job workers keep it, and none may live: so the first
 * web worker of each host looks, and the cluster's metrics have one value.
 */
export function watchSearchIndex({ self, log, metrics }: WebWorkerOptions, { storage }: WebConnections) {
  let waitingFor = 0
  metrics.search.behindSeconds.from(() => waitingFor)
  const look = () => {
    storage.searchLag.waitingFor().then(
      seconds => (waitingFor = seconds),
      (error: unknown) => log.debug({ err: error }, "search index not looked at"),
    )
  }
  if (self.slot !== 0) return { stop() {} }
  look()
  const timer = clock.every(everyMs, look)
  return { stop: () => timer.stop() }
}
