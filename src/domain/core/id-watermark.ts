/**
 * The ids that a worker's shards make, reported with its heartbeat: moments are Unix milliseconds.
 * Everything made there up to `servers` is in every delivery log that takes it, and nothing more is
 * made at or before it. `directs` says the same, and that tells from home to home have arrived,
 * too; null: not known.
 */
export interface WatermarkReport {
  readonly servers: number
  readonly directs: number | null
  /** A bit for each shard that this is said of, in base64. */
  readonly shards: string
}

/** Up to when everything with an id stands in the logs. */
export interface IdWatermarks {
  readonly servers: number
  readonly directs: number
}

export function shardBits(shards: Iterable<number>): string {
  const bits = Buffer.alloc(128)
  for (const shard of shards) bits[shard >> 3]! |= 1 << (shard & 7)
  return bits.toString("base64")
}

/**
 * What the workers say together, or nothing while there is a shard that nobody speaks for: what its
 * former owner left may still be on its way.
 */
export function idWatermarks(
  reports: readonly (WatermarkReport | null)[],
  shards: Iterable<number>,
): IdWatermarks | undefined {
  let servers = Infinity
  let directs = Infinity
  const spoken = new Uint8Array(128)
  for (const report of reports) {
    if (!report) return undefined
    servers = Math.min(servers, report.servers)
    directs = Math.min(directs, report.directs ?? -Infinity)
    const bits = Buffer.from(report.shards, "base64")
    for (let i = 0; i < spoken.length; i++) spoken[i]! |= bits[i] ?? 0
  }
  for (const shard of shards) if ((spoken[shard >> 3]! & (1 << (shard & 7))) === 0) return undefined
  return servers === Infinity ? undefined : { servers, directs }
}
