import { readFileSync } from "node:fs"
import { Redis, type RedisOptions } from "ioredis"

/** What goes wrong on a connection is counted and logged by whoever made it. */
export type RedisTrouble = (error: Error) => void

/**
 * A connection for commands that are answered at once. A command fails when Redis does not answer in time or is away; none
 * is kept for later and none is sent twice: whoever sends knows how to repeat.
 */
export function openRedis(
  url: string,
  name: string,
  trouble: RedisTrouble,
  options: Omit<RedisOptions, "replyMapping"> = {},
): Redis {
  const redis = new Redis(url, {
    connectionName: name.replaceAll(" ", "-"),
    commandTimeout: 2_000,
    connectTimeout: 2_000,
    maxRetriesPerRequest: 0,
    enableOfflineQueue: false,
    enableAutoPipelining: false,
    retryStrategy: attempt => Math.min(50 * 2 ** attempt, 500),
    lazyConnect: true,
    ...options,
  })
  redis.on("error", trouble)
  return redis
}

/**
 * A connection for one blocking read at a time. Reads block for at most two seconds; a read that has not come back long
 * after that is given up with its connection, because after a reconnect it may never settle.
 */
export const openBlockingRedis = (url: string, name: string, trouble: RedisTrouble): Redis =>
  openRedis(url, name, trouble, { commandTimeout: 10_000 })

/** A Lua script beside this file, registered as a command of the connection. */
export function defineScript(redis: Redis, name: string, keys?: number): void {
  const lua = readFileSync(new URL(`./lua/${name}.lua`, import.meta.url), "utf8")
  redis.defineCommand(name, keys === undefined ? { lua } : { lua, numberOfKeys: keys })
}

/** What a worker needs connections of its own for: `streams` is for blocking reads, one at a time. */
export type Purpose = "membership" | "bus" | "log" | "streams"
/** Opens one; it is not connected yet. */
export type Connect = (purpose: Purpose, trouble: RedisTrouble) => Redis

export const connector =
  (url: string, worker: string): Connect =>
  (purpose, trouble) => {
    const name = `${worker} ${purpose}`
    if (purpose === "streams") return openBlockingRedis(url, name, trouble)
    // Liveness that is late is no liveness.
    return openRedis(url, name, trouble, purpose === "membership" ? { commandTimeout: 1_000 } : {})
  }
