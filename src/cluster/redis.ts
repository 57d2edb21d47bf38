import { readFileSync } from "node:fs"
import { Cluster, Redis as Server, type RedisOptions } from "ioredis"
import type { Metrics, RedisPurpose } from "../observability/metrics.ts"
import { MasterConnector } from "./master-connector.ts"
import { writeOncePerTurn, type RoundTrips } from "./one-write-per-turn.ts"
import { followReplication, hasBecomeCopy } from "./replication.ts"
import { sentinelPlace, type SentinelPlace } from "../domain/core/sentinel-url.ts"
import { backoffMs } from "../std/backoff.ts"

/**
 * One Redis, or a Redis Cluster: the sender keeps each command, script and transaction within one slot. Commands are
 * made for one key or for keys with a common hash tag; nothing here spreads one over several.
 */
export type Redis = Server | Cluster

/** What goes wrong on a connection is counted and logged by its owner. */
export type RedisTrouble = (error: Error) => void

type Options = Omit<RedisOptions, "replyMapping"> & {
  /** Counts what is written; not for connections that wait in reads. */
  readonly trips?: RoundTrips | undefined
}

/**
 * A connection for commands that are answered at once. A command fails when Redis does not answer in time or is away; none
 * is kept for later and none is sent twice: the sender knows how to repeat.
 * @param url of one Redis; several with commas, or one with `?cluster`, are nodes of a Redis Cluster; one with
 *   `+sentinel` names sentinels that know the master, see domain/core/sentinel-url.ts
 */
export function openRedis(
  url: string,
  name: string,
  trouble: RedisTrouble,
  { trips, ...options }: Options = {},
): Redis {
  const common = {
    connectionName: name.replaceAll(" ", "-"),
    commandTimeout: 2_000,
    connectTimeout: 2_000,
    maxRetriesPerRequest: 0,
    enableOfflineQueue: false,
    enableAutoPipelining: false,
    ...options,
  }
  const sentinels = sentinelPlace(url)
  const nodes = sentinels ? [] : nodesOf(url)
  if (isClusterUrl(nodes)) {
    const cluster = new MasterCluster(nodes, common)
    cluster.on("+node", (node: Server) => {
      writeOncePerTurn(followReplication(node), trips)
    })
    cluster.on("error", trouble)
    cluster.on("node error", trouble)
    return cluster
  }
  const server = { retryStrategy, lazyConnect: true, reconnectOnError: hasBecomeCopy, ...common }
  const redis = sentinels ? new Server({ ...throughSentinels(sentinels), ...server }) : new Server(url, server)
  writeOncePerTurn(followReplication(redis), trips)
  redis.on("error", trouble)
  return redis
}

/**
 * A connection for one blocking read at a time. Reads block for at most two seconds; a read that has not come back long
 * after that is given up with its connection, because after a reconnect it may never settle.
 */
export const openBlockingRedis = (url: string, name: string, trouble: RedisTrouble): Redis =>
  openRedis(url, name, trouble, { commandTimeout: 10_000 })

const retryStrategy = (attempt: number) => backoffMs(attempt, 50, 500)

const nodesOf = (url: string): URL[] => url.split(",").map(node => new URL(node.trim()))

const isClusterUrl = ([first, ...others]: readonly URL[]): boolean =>
  others.length > 0 || first?.searchParams.has("cluster") === true

/** Each time a connection is made, the sentinels say where the master is; a fail-over that they report ends it. */
function throughSentinels(place: SentinelPlace): Options {
  const { sentinels, name, database, username, password, sentinelPassword, isEncrypted } = place
  return {
    Connector: MasterConnector,
    sentinels: sentinels.map(one => ({ ...one })),
    name,
    role: "master",
    db: database,
    // A master that hangs does not close its connections.
    failoverDetector: true,
    sentinelCommandTimeout: 2_000,
    // They are asked without end: a connection that gave up would never be made again.
    sentinelRetryStrategy: retryStrategy,
    ...(username !== undefined && { username }),
    ...(password !== undefined && { password }),
    ...(sentinelPassword !== undefined && { sentinelPassword }),
    ...(isEncrypted && { tls: {}, sentinelTLS: {}, enableTLSForSentinelMode: true }),
  }
}

/** A Redis Cluster. Redirections are followed, because what was redirected was not done; nothing else is sent again. */
class MasterCluster extends Cluster {
  constructor(nodes: readonly URL[], options: Omit<Options, "trips">) {
    const { username, password, protocol } = nodes[0]!
    const keepsCommands = options.maxRetriesPerRequest === null
    super(
      nodes.map(({ hostname, port }) => ({ host: hostname.replace(/^\[|\]$/g, ""), port: Number(port || 6379) })),
      {
        lazyConnect: true,
        enableOfflineQueue: options.enableOfflineQueue ?? false,
        clusterRetryStrategy: retryStrategy,
        // What was under way when a connection broke may have been done.
        retryDelayOnFailover: keepsCommands ? 100 : 0,
        // A master that hangs without closing its connections is found out only by asking who serves its slots now.
        slotsRefreshInterval: 5_000,
        slotsRefreshTimeout: 2_000,
        redisOptions: {
          ...options,
          ...(username && { username: decodeURIComponent(username) }),
          ...(password && { password: decodeURIComponent(password) }),
          ...(protocol === "rediss:" && { tls: {} }),
        },
      },
    )
  }

  /**
   * A connection attempt that meets a look at the slots from before it, which ends with the connections of then, would wait
   * for ever: it has to look for itself.
   */
  override refreshSlotsCache(callback?: (error?: Error | null) => void): void {
    super.refreshSlotsCache(error => {
      if (error?.message.startsWith("Cluster is disconnect") && this.status === "connecting")
        setImmediate(() => this.refreshSlotsCache(callback))
      else callback?.(error)
    })
  }

  /** With every master, so that the first commands do not meet connections that are still being made. */
  override async connect(): Promise<void> {
    await super.connect()
    // One that is away fails the commands for its slots, and only those.
    const waiting = this.nodes("master").filter(node => node.status === "wait")
    await Promise.allSettled(waiting.map(node => node.connect()))
  }
}

/** The way to a Redis as it is: one that turns out to be a node of a Redis Cluster is marked as such. */
export async function trueUrl(redis: Redis, url: string): Promise<string> {
  if (redis instanceof Cluster || !/^cluster_enabled:1\r?$/m.test(await redis.info("cluster"))) return url
  const marked = new URL(url)
  marked.searchParams.set("cluster", "")
  return marked.href
}

/** Values of keys in any slots, each as it is at its own moment; null where there is none. */
export const getEach = (redis: Redis, keys: readonly string[]): Promise<(string | null)[]> =>
  redis.isCluster ? Promise.all(keys.map(key => redis.get(key))) : redis.mget(...keys)

/** A Lua script beside this file, registered as a command of the connection. */
export function defineScript(redis: Redis, name: string, keys?: number): void {
  const lua = readFileSync(new URL(`./lua/${name}.lua`, import.meta.url), "utf8")
  redis.defineCommand(name, keys === undefined ? { lua } : { lua, numberOfKeys: keys })
}

/**
 * What a worker needs connections of its own for: `streams` is for blocking reads, one at a time;
 * `replay` reads logs back, whose long answers delay nothing else.
 */
export type Purpose = "membership" | "bus" | "log" | "streams" | "replay"
/** Opens one; it is not connected yet. */
export type Connect = (purpose: Purpose, trouble: RedisTrouble) => Redis

export const connector =
  (url: string, worker: string, metrics?: Pick<Metrics, "pools">): Connect =>
  (purpose, trouble) => {
    const name = `${worker} ${purpose}`
    if (purpose === "streams") return openBlockingRedis(url, name, trouble)
    const trips = metrics && tripsOf(metrics, purpose)
    // Liveness that is late is no liveness.
    return openRedis(url, name, trouble, { trips, ...(purpose === "membership" && { commandTimeout: 1_000 }) })
  }

/** Where it is counted what connections for a purpose write. */
export const tripsOf = ({ pools }: Pick<Metrics, "pools">, purpose: RedisPurpose): RoundTrips => ({
  writes: pools.redisWrites[purpose],
  seconds: pools.redisSeconds.of(purpose),
})
