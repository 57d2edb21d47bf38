import type { Seen } from "../domain/core/presences.ts"
import type { RedisKeys } from "./keys.ts"
import type { Redis } from "./redis.ts"
import { ShardHash, type OwnedShard } from "./shard-hash.ts"

/** What others were told of somebody who is there, whether or not they see it. */
export interface Announced extends Seen {
  /** The user has gone; the entry stays until everybody has been told. */
  readonly isGone: boolean
  /** It is so new that a message about it may be lost with its sender: the next owner says it again. */
  readonly isUnsettled: boolean
}

export interface RecordedPresences {
  readonly users: ReadonlyMap<string, Announced>
  readonly isComplete: boolean
}

type Wire = readonly [Seen["status"], string | null, string | null, isGone: 0 | 1, isUnsettled: 0 | 1]

/** What the others were told of a shard's users, kept beside the shard so that its next owner knows what to take back. */
export class AnnouncedPresences {
  readonly #hash: ShardHash

  constructor(redis: Redis, keys: RedisKeys) {
    this.#hash = new ShardHash(redis, keys.presence)
  }

  async load(shards: readonly number[]): Promise<Map<number, RecordedPresences>> {
    const found = await this.#hash.load(shards)
    return new Map(
      [...found].map(([shard, { fields, isComplete }]) => [
        shard,
        { users: new Map(fields.map(([user, text]) => [user, read(text)] as const)), isComplete },
      ]),
    )
  }

  /** Writes all of a shard's presences. @returns like the others false when a later owner has written there */
  replace(shard: OwnedShard, users: ReadonlyMap<string, Announced>): Promise<boolean> {
    return this.#hash.change(shard, "replace", fieldsOf(users))
  }

  add(shard: OwnedShard, users: ReadonlyMap<string, Announced>): Promise<boolean> {
    return this.#hash.change(shard, "add", fieldsOf(users))
  }

  remove(shard: OwnedShard, users: readonly string[]): Promise<boolean> {
    return this.#hash.change(shard, "remove", users)
  }
}

const fieldsOf = (users: ReadonlyMap<string, Announced>): string[] =>
  [...users].flatMap(([user, { status, custom_status, custom_emoji, isGone, isUnsettled }]) => [
    user,
    JSON.stringify([status, custom_status, custom_emoji, isGone ? 1 : 0, isUnsettled ? 1 : 0] satisfies Wire),
  ])

function read(text: string): Announced {
  const [status, custom_status, custom_emoji, isGone, isUnsettled] = JSON.parse(text) as Wire
  return { status, custom_status, custom_emoji, isGone: isGone === 1, isUnsettled: isUnsettled === 1 }
}
