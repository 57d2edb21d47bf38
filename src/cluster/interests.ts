import type { RedisKeys } from "./keys.ts"
import { defineScript, type Redis } from "./redis.ts"
import { replicationOf } from "./replication.ts"

/** One worker takes one home's events, from a number of the home's shard on. */
export interface Interest {
  readonly home: string
  readonly worker: string
  readonly from: number
}

export interface RecordedInterests {
  readonly list: readonly Interest[]
  readonly isComplete: boolean
}

/** A shard in the hands of one owner. */
export interface OwnedShard {
  readonly number: number
  readonly epoch: number
}

/**
 * Which workers take which homes' events, kept beside the shards so that it survives their owners. It keeps:
 *   I1  An owner that was replaced, and does not know it yet, changes nothing that the next one has written.
 */
export class Interests {
  readonly #redis: Redis
  readonly #keys: RedisKeys

  constructor(redis: Redis, keys: RedisKeys) {
    this.#redis = redis
    this.#keys = keys
    defineScript(redis, "save-interests", 1)
  }

  /**
   * What this Redis knows, and whether that is everything. The version before wrote interests without saying so: what is
   * found counts in any case.
   */
  async load(shards: readonly number[]): Promise<Map<number, RecordedInterests>> {
    const found = await Promise.all(shards.map(shard => this.#redis.hgetall(this.#place(shard))))
    return new Map(
      shards.map((shard, i) => {
        const { [complete]: isComplete, ...fields } = found[i]!
        const list = Object.entries(fields).map(([field, from]) => ({ ...split(field), from: Number(from) }))
        return [shard, { list, isComplete: isComplete !== undefined }]
      }),
    )
  }

  /** Writes all of a shard's interests; with them the Redis knows everything. */
  replace(shard: OwnedShard, interests: readonly Interest[]): Promise<void> {
    return this.#change(shard, "replace", fieldsOf(interests))
  }

  async add(shard: OwnedShard, interests: readonly Interest[]): Promise<void> {
    if (interests.length > 0) await this.#change(shard, "add", fieldsOf(interests))
  }

  async remove(shard: OwnedShard, interests: readonly Pick<Interest, "home" | "worker">[]): Promise<void> {
    const fields = interests.map(({ home, worker }) => `${home} ${worker}`)
    if (fields.length > 0) await this.#change(shard, "remove", fields)
  }

  /** I1. A later owner of the shard knows better, and need not be told. */
  async #change({ number, epoch }: OwnedShard, deed: string, fields: readonly (string | number)[]): Promise<void> {
    const redis = this.#redis as unknown as Record<"save-interests", (...args: (string | number)[]) => Promise<number>>
    await redis["save-interests"](this.#place(number), epoch, deed, ...fields)
  }

  #place(shard: number): string {
    return this.#keys.interest(shard, replicationOf(this.#redis, `shard-${shard}`))
  }
}

/** The field that says that nothing is missing beside it; its value is the epoch of whoever wrote last. */
const complete = "-"

const fieldsOf = (interests: readonly Interest[]): (string | number)[] =>
  interests.flatMap(({ home, worker, from }) => [`${home} ${worker}`, from])

function split(field: string): { home: string; worker: string } {
  const space = field.indexOf(" ")
  return { home: field.slice(0, space), worker: field.slice(space + 1) }
}
