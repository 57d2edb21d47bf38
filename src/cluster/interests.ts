import type { Redis } from "ioredis"
import type { RedisKeys } from "./keys.ts"

/** One worker takes one home's events, from a number of the home's shard on. */
export interface Interest {
  readonly home: string
  readonly worker: string
  readonly from: number
}

/** Which workers take which homes' events, kept beside the shards so that it survives their owners. */
export class Interests {
  readonly #redis: Redis
  readonly #keys: RedisKeys

  constructor(redis: Redis, keys: RedisKeys) {
    this.#redis = redis
    this.#keys = keys
  }

  async load(shards: readonly number[]): Promise<Map<number, Interest[]>> {
    const pipeline = this.#redis.pipeline()
    for (const shard of shards) pipeline.hgetall(this.#keys.interest(shard))
    const replies = (await pipeline.exec()) ?? []
    return new Map(
      shards.map((shard, i) => {
        const [error, fields] = replies[i] ?? [new Error("no reply")]
        if (error) throw error
        return [
          shard,
          Object.entries(fields as Record<string, string>).map(([field, from]) => ({
            ...split(field),
            from: Number(from),
          })),
        ]
      }),
    )
  }

  async add(shard: number, interests: readonly Interest[]): Promise<void> {
    if (interests.length === 0) return
    await this.#redis.hset(
      this.#keys.interest(shard),
      Object.fromEntries(interests.map(({ home, worker, from }) => [`${home} ${worker}`, from])),
    )
  }

  async remove(shard: number, interests: readonly Pick<Interest, "home" | "worker">[]): Promise<void> {
    if (interests.length === 0) return
    await this.#redis.hdel(this.#keys.interest(shard), ...interests.map(({ home, worker }) => `${home} ${worker}`))
  }
}

function split(field: string): { home: string; worker: string } {
  const space = field.indexOf(" ")
  return { home: field.slice(0, space), worker: field.slice(space + 1) }
}
