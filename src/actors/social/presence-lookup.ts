import { WorkerGone, ShardMoved, NotHandled, type Bus } from "../../cluster/bus.ts"
import type { Directory } from "../../cluster/directory.ts"
import { Failure, unavailable } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import type { Clock, Timer } from "../../std/clock.ts"
import type { Seen } from "../../domain/core/presences.ts"
import { shardOf } from "../../domain/core/snowflake.ts"
import type { ClusterView } from "../../runtime/cluster-view.ts"
import { append } from "../../std/multi-map.ts"

export interface PresenceLookupOptions {
  readonly view: Pick<ClusterView, "self" | "isDead">
  readonly bus: Bus
  readonly directory: Directory
  readonly timing: { readonly askTimeoutMs: number }
  readonly clock: Clock
}

/**
 * What one owner says of users that it was asked for: who is to be seen, and who is another's. Who
 * is in neither is offline.
 */
export interface PresenceAnswer {
  readonly seen: (readonly [user: Snowflake, ...of: SeenWire])[]
  readonly elsewhere: Snowflake[]
}
/** What an asker was told by now. */
interface Found {
  readonly seen: Map<Snowflake, Seen>
  readonly unknown: Set<Snowflake>
}
type SeenWire = readonly [status: Seen["status"], custom_status: string | null, custom_emoji: string | null]

/** Asks the owners of users' homes what others see of them. */
export class PresenceLookup {
  readonly #options: PresenceLookupOptions

  constructor(options: PresenceLookupOptions) {
    this.#options = options
  }

  /**
   * What others see of these users; those who are not in it are offline. Refused when an owner
   * cannot be asked in time.
   */
  async of(users: readonly Snowflake[]): Promise<Map<Snowflake, Seen>> {
    const { seen, unknown } = await this.lookUp(users)
    if (unknown.size > 0) throw unavailable("presence not known in time")
    return seen
  }

  /** The same, as far as it can be known in time. */
  async lookUp(users: readonly Snowflake[]): Promise<{ seen: Map<Snowflake, Seen>; unknown: ReadonlySet<Snowflake> }> {
    const { clock, timing, directory } = this.#options
    const found: Found = { seen: new Map(), unknown: new Set(users.filter(user => !directory.lacks(shardOf(user)))) }
    let timer: Timer | undefined
    const tooLate = new Promise<void>(resolve => {
      timer = clock.after(timing.askTimeoutMs, resolve)
    })
    try {
      await Promise.race([this.#ask(clock.monotonic() + timing.askTimeoutMs, found), tooLate])
      // An answer may still come.
      return { seen: new Map(found.seen), unknown: new Set(found.unknown) }
    } finally {
      timer!.stop()
    }
  }

  async #ask(deadlineMs: number, found: Found): Promise<void> {
    const { clock, directory } = this.#options
    for (let left = [...found.unknown]; left.length > 0;) {
      const leftMs = deadlineMs - clock.monotonic()
      if (leftMs <= 0) return
      const elsewhere = await Promise.all(
        [...byOwner(left, directory, this.#options.view.isDead)].map(([owner, asked]) =>
          this.#askOwner(owner, asked, leftMs, found),
        ),
      )
      left = elsewhere.flat()
      if (left.length === 0) return
      await directory.changed(Math.min(25, leftMs))
      await Promise.all([...new Set(left.map(shardOf))].map(shard => directory.refresh(shard)))
    }
  }

  /** @returns those that it does not own */
  async #askOwner(
    owner: string | undefined,
    users: readonly Snowflake[],
    leftMs: number,
    { seen, unknown }: Found,
  ): Promise<readonly Snowflake[]> {
    const { view, bus } = this.#options
    if (owner === undefined) return users
    try {
      const answer =
        owner === view.self.id
          ? await bus.here<PresenceAnswer>("presencesOf", { users })
          : await bus.request<PresenceAnswer>(owner, "presencesOf", { users }, leftMs)
      for (const [user, status, custom_status, custom_emoji] of answer.seen)
        seen.set(user, { status, custom_status, custom_emoji })
      const elsewhere = new Set(answer.elsewhere)
      for (const user of users) if (!elsewhere.has(user)) unknown.delete(user)
      return answer.elsewhere
    } catch (error) {
      if (error instanceof WorkerGone || error instanceof ShardMoved) return users
      // Another version, side by side with this one, may not know the question: it has nobody online.
      if (error instanceof NotHandled) for (const user of users) unknown.delete(user)
      else if (!(error instanceof Failure && error.code === "unavailable")) throw error
      return []
    }
  }
}

/** By the owners that the map names; undefined: of those to whom nothing can be sent. */
export function byOwner(
  homes: readonly Snowflake[],
  directory: Pick<Directory, "ownerOf">,
  isDead: (worker: string) => boolean,
): Map<string | undefined, Snowflake[]> {
  const found = new Map<string | undefined, Snowflake[]>()
  for (const home of homes) {
    const owner = directory.ownerOf(shardOf(home))
    const reached = typeof owner === "string" && !isDead(owner) ? owner : undefined
    append(found, reached, home)
  }
  return found
}
