import { setNewest } from "../std/bounded-map.ts"
import type { RedisKeys } from "./keys.ts"
import type { Redis } from "./redis.ts"
import { onNewReplication } from "./replication.ts"

/** A worker that has noted somebody so lately leaves it at that. */
const noteEveryMs = 1_000
const slackMs = 1_000
const maxRemembered = 10_000

/**
 * Who has changed something lately, whichever worker did it: they are not shown what was so before that. Redis keeps it for
 * as long as a copy of PostgreSQL may be behind; no clocks are compared.
 */
export class RecentWrites {
  readonly #redis: Redis
  readonly #keys: Pick<RedisKeys, "recentWrite">
  readonly #keepMs: number
  readonly #monotonic: () => number
  readonly #notedAt = new Map<string, number>()
  /** Redis may have lost notes before. */
  #blindUntil = -Infinity

  constructor(redis: Redis, keys: Pick<RedisKeys, "recentWrite">, maxLagMs: number, monotonic: () => number) {
    this.#redis = redis
    this.#keys = keys
    this.#keepMs = maxLagMs + noteEveryMs + slackMs
    this.#monotonic = monotonic
    onNewReplication(redis, () => {
      this.#notedAt.clear()
      this.#blindUntil = monotonic() + this.#keepMs
    })
  }

  /** Once what they did is committed, before they are answered. Never rejects. */
  async note(user: string): Promise<void> {
    const now = this.#monotonic()
    if (now - (this.#notedAt.get(user) ?? -Infinity) < noteEveryMs) return
    try {
      await this.#redis.set(this.#keys.recentWrite(user), "", "PX", this.#keepMs)
      setNewest(this.#notedAt, user, now, maxRemembered)
    } catch {
      // Redis does not answer: it will not say either that they have changed nothing.
    }
  }

  /** Also where Redis does not say. */
  async has(user: string): Promise<boolean> {
    if (this.#monotonic() < this.#blindUntil) return true
    return (await this.#redis.exists(this.#keys.recentWrite(user)).catch(() => 1)) === 1
  }
}
