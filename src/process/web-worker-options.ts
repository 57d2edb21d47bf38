import type { ClusterConfig } from "../../cluster.config.ts"
import type { Member } from "../cluster/members.ts"
import type { Config } from "../config.ts"
import type { Log } from "../observability/log.ts"
import type { Metrics } from "../observability/metrics.ts"

export interface WebWorkerOptions {
  self: Member
  /** The incarnation in the same place that serves until this one does. */
  predecessor?: string | undefined
  config: Config
  topology: ClusterConfig
  databaseUrl: string
  redisUrl: string
  redisPrefix: string
  /** 32 bytes in hex. */
  secretKey: string
  listen: {
    readonly host: string
    /** Other workers may listen on it, too. */
    readonly port: number
    /** For the other workers of the host; without it they talk through Redis. */
    readonly socketFolder?: string | undefined
  }
  log: Log
  metrics: Metrics
  /** The incarnation is over: declared dead, or its log is gone. */
  onOver: (why: string) => void
}
