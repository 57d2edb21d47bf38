import { hostname } from "node:os"
import { setTimeout as sleep } from "node:timers/promises"
import { LineageNotes } from "../../cluster/lineage-notes.ts"
import { redisKeys } from "../../cluster/keys.ts"
import type { Redis } from "../../cluster/redis.ts"
import type { Log } from "../../observability/log.ts"
import { within } from "../../storage/core/database.ts"
import type { Storage } from "../../storage/storage.ts"
import { redisPrefix } from "./orders.ts"

/** How long the processes of a killed primary may take to end by themselves. */
const formerTimeoutMs = 8_000

/** Declares workers dead that are certainly gone, so that nobody waits for their sign of life. */
export class DeadWorkers {
  readonly #storage: Storage
  readonly #redis: Redis
  readonly #notes: LineageNotes
  readonly #log: Log

  constructor(storage: Storage, redis: Redis, log: Log) {
    this.#storage = storage
    this.#redis = redis
    this.#notes = new LineageNotes(redis, redisPrefix)
    this.#log = log
  }

  /**
   * This process holds the port, so the workers of an earlier primary on this machine are gone. A
   * worker that still renews its sign of life belongs to another host with the same name; it must
   * not be declared dead.
   */
  async declareFormerDead(host: string, renewEveryMs: number): Promise<void> {
    for (const until = Date.now() + formerTimeoutMs; ;) {
      const living = await this.#storage.placement.living()
      const former = living.filter(member => member.host === host).map(({ id }) => id)
      if (former.length === 0) return
      const before = await this.#signsOf(former)
      await sleep(2.5 * renewEveryMs)
      const after = await this.#signsOf(former)
      if (after.every((sign, i) => sign === before[i])) {
        for (const id of former) await this.declareDead(id)
        return
      }
      if (Date.now() > until)
        throw new Error(
          `Another host called ${hostname()} serves on the same HOST and PORT, on another machine or in another container. ` +
            "Each needs a host name, a HOST or a PORT of its own",
        )
    }
  }

  async #signsOf(ids: readonly string[]): Promise<(string | null)[]> {
    return this.#redis.hmget(await this.#members(), ...ids)
  }

  async #members(): Promise<string> {
    const { lineage } = await this.#notes.read()
    return redisKeys(redisPrefix, "", lineage).members
  }

  /** @returns false when PostgreSQL or Redis did not take it; the living workers then find out by themselves */
  async declareDead(id: string): Promise<boolean> {
    const declared = async () => {
      await this.#storage.placement.declareDead(id)
      await this.#redis.hdel(await this.#members(), id)
    }
    try {
      await within(declared(), 3_000, "declaring a death")
      return true
    } catch (error) {
      this.#log.warn({ member: id, err: error }, "death not declared")
      return false
    }
  }
}
