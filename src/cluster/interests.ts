import type { RedisKeys } from "./keys.ts"
import type { Redis } from "./redis.ts"
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

/** Which workers take which homes' events, kept beside the shards so that it survives their owners. */
export class Interests {
  readonly #redis: Redis
  readonly #keys: RedisKeys

  constructor(redis: Redis, keys: RedisKeys) {
    this.#redis = redis
    this.#keys = keys
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
  async replace(shard: number, interests: readonly Interest[]): Promise<void> {
    const place = this.#place(shard)
    const chunks: Record<string, number>[] = []
    for (let i = 0; i < interests.length; i += 1_000) chunks.push(fieldsOf(interests.slice(i, i + 1_000)))
    const transaction = this.#redis.multi().del(place)
    for (const fields of chunks) transaction.hset(place, fields)
    const answers = await transaction.hset(place, complete, 1).exec()
    for (const [error] of answers ?? []) if (error) throw error
  }

  async add(shard: number, interests: readonly Interest[]): Promise<void> {
    if (interests.length === 0) return
    await this.#redis.hset(this.#place(shard), fieldsOf(interests))
  }

  async remove(shard: number, interests: readonly Pick<Interest, "home" | "worker">[]): Promise<void> {
    if (interests.length === 0) return
    await this.#redis.hdel(this.#place(shard), ...interests.map(({ home, worker }) => `${home} ${worker}`))
  }

  #place(shard: number): string {
    return this.#keys.interest(shard, replicationOf(this.#redis, `shard-${shard}`))
  }
}

/** The field that says that nothing is missing beside it. */
const complete = "-"

const fieldsOf = (interests: readonly Interest[]): Record<string, number> =>
  Object.fromEntries(interests.map(({ home, worker, from }) => [`${home} ${worker}`, from]))

function split(field: string): { home: string; worker: string } {
  const space = field.indexOf(" ")
  return { home: field.slice(0, space), worker: field.slice(space + 1) }
}
