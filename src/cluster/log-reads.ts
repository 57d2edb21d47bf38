import { unavailable } from "../contract/core/errors.ts"
import { itemsOf, type LogItem } from "../domain/core/log-entry.ts"
import type { RedisKeys } from "./keys.ts"
import { defineScript, type Redis } from "./redis.ts"
import { replicationOf } from "./replication.ts"

/** A read ends with the entry with which it reaches so many bytes. */
export const readBytes = 1024 * 1024

export type Entry = [id: string, fields: string[]]

/**
 * Reads delivery logs back, over a connection of its own. It keeps:
 *   LOGREAD1  A read delays nothing but other reads: appends have another connection, and one read
 *       is under way at a time.
 *   LOGREAD2  A read holds about `readBytes`, however large the events are.
 *   LOGREAD3  A read that takes too long is given up with its connection: its answer is not received
 *       beside that of the next read.
 */
export class LogReads {
  readonly #redis: Redis
  readonly #keys: RedisKeys
  #last: Promise<unknown> = Promise.resolve()

  constructor(redis: Redis, keys: RedisKeys) {
    this.#redis = redis
    this.#keys = keys
    defineScript(redis, "readLog", 1)
  }

  /**
   * The pieces of some entries after a position, in order; none at the end of the log.
   * @param at the Redis that the log is in
   */
  read(worker: string, at: string, position: number, entries: number): Promise<LogItem[]> {
    const read = this.#last.then(() => this.#read(worker, at, position, entries))
    this.#last = read.catch(() => {})
    return read
  }

  async #read(worker: string, at: string, position: number, entries: number): Promise<LogItem[]> {
    const redis = this.#redis as Redis & { readLog(...args: (string | number)[]): Promise<Entry[]> }
    // In another Redis there may be an older log, or none.
    if (replicationOf(redis, worker) !== at) throw unavailable("log is in another Redis")
    try {
      const found = await redis.readLog(this.#keys.log(worker, at), position, readBytes, entries)
      return found.flatMap(([id, fields]) => itemsOf(id, fields)).filter(item => item.s > position)
    } catch (error) {
      if (isTimeout(error) && redis.status === "ready") redis.disconnect(true) // LOGREAD3
      throw error
    }
  }
}

const isTimeout = (error: unknown): boolean => error instanceof Error && error.message.startsWith("Command timed out")
