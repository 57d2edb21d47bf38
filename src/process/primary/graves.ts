import { hostname } from "node:os"
import { setTimeout as sleep } from "node:timers/promises"
import { redisKeys } from "../../cluster/keys.ts"
import type { Redis } from "../../cluster/redis.ts"
import type { Log } from "../../observability/log.ts"
import { within } from "../../storage/core/database.ts"
import type { Storage } from "../../storage/storage.ts"
import { redisPrefix } from "./orders.ts"

/** Milliseconds that the processes of a killed primary are given to end by themselves. */
const formerPatience = 8_000

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

  /**
   * The port is ours, so whoever lived here on this machine is gone, however it ended. A process that goes on showing itself
   * is one of another host, which must not be buried for bearing the same name.
   */
  async buryFormer(host: string, renewEveryMs: number): Promise<void> {
    for (const until = Date.now() + formerPatience; ;) {
      const living = await this.#storage.placement.living()
      const former = living.filter(member => member.host === host).map(({ id }) => id)
      if (former.length === 0) return
      const before = await this.#signsOf(former)
      await sleep(2.5 * renewEveryMs)
      const after = await this.#signsOf(former)
      if (after.every((sign, i) => sign === before[i])) {
        for (const id of former) await this.bury(id)
        return
      }
      if (Date.now() > until)
        throw new Error(
          `Another host called ${hostname()} serves on the same HOST and PORT, on another machine or in another container. ` +
            "Each needs a host name, a HOST or a PORT of its own",
        )
    }
  }

  #signsOf(ids: readonly string[]): Promise<(string | null)[]> {
    return this.#redis.hmget(redisKeys(redisPrefix).members, ...ids)
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
