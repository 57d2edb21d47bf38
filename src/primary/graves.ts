import { redisKeys } from "../cluster/keys.ts"
import type { openRedis } from "../cluster/redis.ts"
import type { Log } from "../observability/log.ts"
import { within } from "../storage/database.ts"
import type { Storage } from "../storage/storage.ts"
import { redisPrefix } from "./orders.ts"

type Redis = ReturnType<typeof openRedis>

/** Declares dead what is certainly gone, so that nobody has to wait for a sign of life. */
export class Graves {
  readonly #storage: Storage
  readonly #redis: Redis
  readonly #log: Log

  constructor(storage: Storage, redis: Redis, log: Log) {
    this.#storage = storage
    this.#redis = redis
    this.#log = log
  }

  /** @returns false when PostgreSQL or Redis did not take it; the living then find out by themselves */
  async bury(id: string): Promise<boolean> {
    const buried = async () => {
      await this.#storage.placement.declareDead(id)
      await this.#redis.hdel(redisKeys(redisPrefix).members, id)
    }
    try {
      await within(buried(), 3_000, "declaring a death")
      return true
    } catch (error) {
      this.#log.warn({ member: id, err: error }, "death not declared")
      return false
    }
  }
}
