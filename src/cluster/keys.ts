/**
 * Every key in Redis. What one script or one blocking read touches together has a hash tag in common, so that Redis Cluster
 * keeps it in one slot. `prefix` lets several clusters (and every test) share one Redis.
 *
 * What is not to be believed after a fail-over has the server's replication id (`at`) in its key: there the keys are other
 * ones, and nothing stands in them until a worker that knows it has written it again. `origin` is the id that leaves no mark;
 * without an origin none does.
 *
 * What Redis knows beside PostgreSQL is worth nothing once PostgreSQL has lost a part of what it had committed. From then on
 * all keys have the name of another `lineage` in them.
 */
export const redisKeys = (base: string, origin = "", lineage = "") => {
  const prefix = lineage === "" ? base : `${base}${lineage}:`
  const here = (at: string) => (origin === "" || at === origin ? prefix : `${prefix}${at.slice(0, 12)}:`)
  return {
    /** Whether it is no longer the Redis in which the cluster began, as its first workers found it. */
    isLater: (at: string) => origin !== "" && at !== origin,
    /** Hash: incarnation → counter and address; each member changes its own field to show that it lives. */
    members: `${prefix}members`,
    /** String: made once per Redis; when it is gone or another, Redis lost what it knew. */
    identity: `${prefix}identity`,
    /** The same for a part of a Redis Cluster. */
    identityPart: (tag: string) => `${prefix}identity:{${tag}}`,
    /** Stream: what others ask of a worker and answer to it. Its delivery log is in the same slot. */
    inbox: (worker: string, at = origin) => `${here(at)}inbox:{${worker}}`,
    /** Stream: the events that a worker sends out. */
    log: (worker: string, at = origin) => `${here(at)}log:{${worker}}`,
    /** Hash: per shard the last number appended and the highest epoch of an appender; the last `s`. */
    logPosition: (worker: string, at = origin) => `${here(at)}log-position:{${worker}}`,
    /** Hash: `home worker` → number from which the worker's log holds the home's events; `-` once it is complete. */
    interest: (shard: number, at = origin) => `${here(at)}interest:{shard-${shard}}`,
    /** Hash: user → what the others were told of their presence; `-` once it is complete. */
    presence: (shard: number, at = origin) => `${here(at)}presence:{shard-${shard}}`,
    /** Hash: a gateway session that can be resumed. */
    gatewaySession: (id: string, at = origin) => `${here(at)}gateway-session:{${id}}`,
    /** Hash: a user's live gateway connections: session → worker. */
    gatewayConnections: (user: string) => `${prefix}gateway-connections:{${user}}`,
    /** String: what the servers know of an access token's session; `revoked` for a while after it ended. */
    accessSession: (id: string, at = origin) => `${here(at)}session:{${id}}`,
    /** String: the mark of the look that fills the cache; another after every change of what the servers should know of a session, gone after a while. */
    accessRenewal: (id: string, at = origin) => `${here(at)}session-renewal:{${id}}`,
    /** Hash: what all processes did in one span of time. */
    figures: (span: number) => `${prefix}figures:{figures}:${span}`,
    /** Hash: process → what it last said of itself. */
    figuresOfProcesses: `${prefix}figures:{figures}:processes`,
    /** String: there for a while after a user has changed something. */
    recentWrite: (user: string) => `${prefix}recent-write:{${user}}`,
    /** String: what an authenticator is asked to sign, and for what; there once, for minutes. */
    passkeyChallenge: (challenge: string) => `${prefix}passkey-challenge:${challenge}`,
    /** String: one bucket of the limiter, or the global and the own bucket of a caller. */
    bucket: (name: string) => `${prefix}bucket:${name}`,
  }
}

/** Hash: the name of the lineage, and how far PostgreSQL was seen to be in it. The same in every lineage. */
export const lineageKey = (base: string): string => `${base}lineage`

export type RedisKeys = ReturnType<typeof redisKeys>
