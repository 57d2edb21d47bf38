import type { ClusterConfig } from "../../../cluster.config.ts"

type Restart = ClusterConfig["processes"]["restart"]

/** A death: `lived` is for how long it had been ready, undefined when it never was. */
interface Death {
  readonly lived: number | undefined
  /** Deaths in this place before it, in a row. */
  readonly before: number
}

/** How many deaths in a row it makes, and how long the place stays empty. */
export function afterDeath(
  { lived, before }: Death,
  { firstMs, factor, maxMs, maxOnceReadyMs, forgiveAfterMs }: Restart,
): { deaths: number; wait: number } {
  const deaths = lived !== undefined && lived >= forgiveAfterMs ? 1 : before + 1
  return { deaths, wait: Math.min(firstMs * factor ** (deaths - 1), lived === undefined ? maxMs : maxOnceReadyMs) }
}
