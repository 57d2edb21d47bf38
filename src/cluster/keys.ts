/**
 * Every key in Redis. What one script or one blocking read touches together has a hash tag in common, so that Redis Cluster
 * keeps it in one slot. `prefix` lets several clusters (and every test) share one Redis.
 */
export const redisKeys = (prefix: string) => ({
  /** Hash: incarnation → counter and address; each member changes its own field to show that it lives. */
  members: `${prefix}members`,
  /** String: made once per Redis; when it is gone or another, Redis lost what it knew. */
  identity: `${prefix}identity`,
  /** Stream: what others ask of a worker and answer to it. Its delivery log is in the same slot. */
  inbox: (worker: string) => `${prefix}inbox:{${worker}}`,
  /** Stream: the events that a worker sends out. */
  log: (worker: string) => `${prefix}log:{${worker}}`,
  /** Hash: per shard the last number appended and the highest epoch of an appender; the last `s`. */
  logPosition: (worker: string) => `${prefix}log-position:{${worker}}`,
  /** Hash: `home worker` → number from which the worker's log holds the home's events. */
  interest: (shard: number) => `${prefix}interest:{shard-${shard}}`,
  /** Hash: a gateway session that can be resumed. */
  gatewaySession: (id: string) => `${prefix}gateway-session:{${id}}`,
  /** Hash: a user's live gateway connections: session → worker. */
  gatewayConnections: (user: string) => `${prefix}gateway-connections:{${user}}`,
  /** String: what the door knows of an access token's session; `revoked` for a while after it ended. */
  accessSession: (id: string) => `${prefix}session:{${id}}`,
  /** String: one bucket of the limiter, or the global and the own bucket of a caller. */
  bucket: (name: string) => `${prefix}bucket:${name}`,
})
export type RedisKeys = ReturnType<typeof redisKeys>
