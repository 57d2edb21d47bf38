import { inBatches } from "../std/batches.ts"
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

/** Changes of one script: few enough that Redis serves others soon. One change may be larger. */
const maxChanges = 128
const maxChangeBytes = 128 * 1024

interface Change {
  readonly key: string
  /** The epoch, the action, and how many fields and values follow, then these. */
  readonly args: readonly (string | number)[]
}

/**
 * A hash beside each shard, so that what is in it survives the shard's owners. It keeps:
 *   HASH1  A replaced owner changes nothing that its successor has written, even if it does not
 *       know yet.
 */
export class ShardHash {
  readonly #redis: Redis
  readonly #keyOf: RedisKeys["interest"]
  readonly #change: (change: Change) => Promise<number>

  constructor(redis: Redis, keyOf: RedisKeys["interest"]) {
    this.#redis = redis
    this.#keyOf = keyOf
    defineScript(redis, "save-interests")
    // A flush asks for all of its shards in one go.
    const together = inBatches<Change, number>(changes => this.#send(changes), maxChanges, {
      bytes: { maxBytes: maxChangeBytes, bytesOf },
      soon: queueMicrotask,
    })
    // Shards are in different slots of a Redis Cluster.
    this.#change = redis.isCluster ? async change => (await this.#send([change]))[0]! : together
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
    const args = [epoch, action, fields.length, ...fields]
    return (await this.#change({ key: this.#place(number), args })) === 1
  }

  #send(changes: readonly Change[]): Promise<number[]> {
    const redis = this.#redis as unknown as Record<
      "save-interests",
      (...args: (string | number)[]) => Promise<number[]>
    >
    const keys = changes.map(({ key }) => key)
    return redis["save-interests"](keys.length, ...keys, ...changes.flatMap(({ args }) => args))
  }

  #place(shard: number): string {
    return this.#keyOf(shard, replicationOf(this.#redis, `shard-${shard}`))
  }
}

/** About: ids, names and numbers have a byte for each character. */
function bytesOf({ args }: Change): number {
  let bytes = 0
  for (const arg of args) bytes += typeof arg === "string" ? arg.length : 8
  return bytes
}
