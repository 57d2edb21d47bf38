import type { RedisKeys } from "./keys.ts"
import type { Redis } from "./redis.ts"
import { ShardHash, type OwnedShard } from "./shard-hash.ts"

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

/** Which workers take which homes' events. A later owner of a shard knows better, and its former one need not be told. */
export class Interests {
  readonly #hash: ShardHash

  constructor(redis: Redis, keys: RedisKeys) {
    this.#hash = new ShardHash(redis, keys.interest)
  }

  /**
   * What this Redis knows, and whether that is everything. After a fail-over it may know some that were added since: what
   * is found counts in any case.
   */
  async load(shards: readonly number[]): Promise<Map<number, RecordedInterests>> {
    const found = await this.#hash.load(shards)
    return new Map(
      [...found].map(([shard, { fields, isComplete }]) => [
        shard,
        { list: fields.map(([field, from]) => ({ ...split(field), from: Number(from) })), isComplete },
      ]),
    )
  }

  /** Writes all of a shard's interests; with them the Redis knows everything. */
  async replace(shard: OwnedShard, interests: readonly Interest[]): Promise<void> {
    await this.#hash.change(shard, "replace", fieldsOf(interests))
  }

  async add(shard: OwnedShard, interests: readonly Interest[]): Promise<void> {
    await this.#hash.change(shard, "add", fieldsOf(interests))
  }

  async remove(shard: OwnedShard, interests: readonly Pick<Interest, "home" | "worker">[]): Promise<void> {
    await this.#hash.change(
      shard,
      "remove",
      interests.map(({ home, worker }) => `${home} ${worker}`),
    )
  }
}

const fieldsOf = (interests: readonly Interest[]): (string | number)[] =>
  interests.flatMap(({ home, worker, from }) => [`${home} ${worker}`, from])

function split(field: string): { home: string; worker: string } {
  const space = field.indexOf(" ")
  return { home: field.slice(0, space), worker: field.slice(space + 1) }
}
