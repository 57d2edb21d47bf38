import type { Seen } from "../domain/presences.ts"
import type { OwnedShard } from "./interests.ts"
import type { RedisKeys } from "./keys.ts"
import { defineScript, type Redis } from "./redis.ts"
import { replicationOf } from "./replication.ts"

/** What others were told of somebody who is there, whether or not they see it. */
export interface Announced extends Seen {
  /** He has gone; the entry stays until everybody has been told. */
  readonly isGone: boolean
  /** It is so new that a message about it may be lost with its sender: the next owner says it again. */
  readonly isUnsettled: boolean
}

export interface RecordedPresences {
  readonly users: ReadonlyMap<string, Announced>
  readonly isComplete: boolean
}

type Wire = readonly [Seen["status"], string | null, string | null, isGone: 0 | 1, isUnsettled: 0 | 1]

/**
 * What the others were told of a shard's users, kept beside the shard so that its next owner knows what to take back. It keeps:
 *   N1  An owner that was replaced, and does not know it yet, changes nothing that the next one has written.
 */
export class AnnouncedPresences {
  readonly #redis: Redis
  readonly #keys: RedisKeys

  constructor(redis: Redis, keys: RedisKeys) {
    this.#redis = redis
    this.#keys = keys
    defineScript(redis, "save-interests", 1)
  }

  async load(shards: readonly number[]): Promise<Map<number, RecordedPresences>> {
    const found = await Promise.all(shards.map(shard => this.#redis.hgetall(this.#place(shard))))
    return new Map(
      shards.map((shard, i) => {
        const { [complete]: isComplete, ...fields } = found[i]!
        const users = new Map(Object.entries(fields).map(([user, text]) => [user, read(text)] as const))
        return [shard, { users, isComplete: isComplete !== undefined }]
      }),
    )
  }

  /** Writes all of a shard's presences. */
  replace(shard: OwnedShard, users: ReadonlyMap<string, Announced>): Promise<boolean> {
    return this.#change(shard, "replace", fieldsOf(users))
  }

  /** @returns false when a later owner has written there */
  async add(shard: OwnedShard, users: ReadonlyMap<string, Announced>): Promise<boolean> {
    return users.size === 0 || this.#change(shard, "add", fieldsOf(users))
  }

  async remove(shard: OwnedShard, users: readonly string[]): Promise<boolean> {
    return users.length === 0 || this.#change(shard, "remove", users)
  }

  /** N1. What one script does to a shard's interests it does to this as well. */
  async #change({ number, epoch }: OwnedShard, deed: string, fields: readonly string[]): Promise<boolean> {
    const redis = this.#redis as unknown as Record<"save-interests", (...args: (string | number)[]) => Promise<number>>
    return (await redis["save-interests"](this.#place(number), epoch, deed, ...fields)) === 1
  }

  #place(shard: number): string {
    return this.#keys.presence(shard, replicationOf(this.#redis, `shard-${shard}`))
  }
}

/** The field that says that nothing is missing beside it. */
const complete = "-"

const fieldsOf = (users: ReadonlyMap<string, Announced>): string[] =>
  [...users].flatMap(([user, { status, custom_status, custom_emoji, isGone, isUnsettled }]) => [
    user,
    JSON.stringify([status, custom_status, custom_emoji, isGone ? 1 : 0, isUnsettled ? 1 : 0] satisfies Wire),
  ])

function read(text: string): Announced {
  const [status, custom_status, custom_emoji, isGone, isUnsettled] = JSON.parse(text) as Wire
  return { status, custom_status, custom_emoji, isGone: isGone === 1, isUnsettled: isUnsettled === 1 }
}
