import type { RedisKeys } from "./keys.ts"
import { defineScript, type Redis } from "./redis.ts"
import { replicationOf } from "./replication.ts"

/** A shard in the hands of one owner. */
export interface OwnedShard {
  readonly number: number
  readonly epoch: number
}

/** The field that says that nothing is missing beside it; its value is the epoch of the last writer. */
const complete = "-"

/**
 * A hash beside each shard, so that what is in it survives the shard's owners. It keeps:
 *   HASH1  A replaced owner changes nothing that its successor has written, even if it does not
 *       know yet.
 */
export class ShardHash {
  readonly #redis: Redis
  readonly #keyOf: RedisKeys["interest"]

  constructor(redis: Redis, keyOf: RedisKeys["interest"]) {
    this.#redis = redis
    this.#keyOf = keyOf
    defineScript(redis, "save-interests", 1)
  }

  /** What this Redis knows of some shards, and whether that is everything. */
  async load(
    shards: readonly number[],
  ): Promise<Map<number, { fields: readonly (readonly [field: string, value: string])[]; isComplete: boolean }>> {
    const found = await Promise.all(shards.map(shard => this.#redis.hgetall(this.#place(shard))))
    return new Map(
      shards.map((shard, i) => {
        const { [complete]: isComplete, ...fields } = found[i]!
        return [shard, { fields: Object.entries(fields), isComplete: isComplete !== undefined }]
      }),
    )
  }

  /** HASH1. @param fields each with its value; to be removed, without. @returns false when a later owner has written there */
  async change(
    { number, epoch }: OwnedShard,
    action: "replace" | "add" | "remove",
    fields: readonly (string | number)[],
  ): Promise<boolean> {
    if (fields.length === 0 && action !== "replace") return true
    const redis = this.#redis as unknown as Record<"save-interests", (...args: (string | number)[]) => Promise<number>>
    return (await redis["save-interests"](this.#place(number), epoch, action, ...fields)) === 1
  }

  #place(shard: number): string {
    return this.#keyOf(shard, replicationOf(this.#redis, `shard-${shard}`))
  }
}
