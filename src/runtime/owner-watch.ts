import type { Directory } from "../cluster/directory.ts"
import type { Log } from "../observability/log.ts"
import type { Clock } from "../std/clock.ts"
import { append } from "../std/multi-map.ts"
import type { ClusterView } from "./cluster-view.ts"

export interface OwnerWatchOptions {
  readonly directory: Pick<Directory, "shards" | "ownerOf" | "refresh">
  readonly view: Pick<ClusterView, "self" | "isLiving" | "isDead">
  /** Whether a shard is open here. */
  readonly isOpen: (shard: number) => boolean
  /** Resolves when the owner of a shard serves it; rejects when that takes longer. */
  readonly served: (shard: number, timeoutMs: number) => Promise<unknown>
  readonly clock: Clock
  readonly log: Log
}

const lookEveryMs = 100
/** Milliseconds that an owner is given to answer. */
const answerWithinMs = 500

/**
 * A worker that starts is not ready before every shard has an owner that answers: until then requests for some homes would
 * be refused. Whatever becomes of the shards later, it stays ready: others take over, and its clients are served meanwhile.
 */
export class OwnerWatch {
  readonly #options: OwnerWatchOptions
  #missing: number | undefined
  #isDone = false
  #isStopped = false

  constructor(options: OwnerWatchOptions) {
    this.#options = options
  }

  /** Throws until every shard has had an owner that answered. */
  check(): void {
    if (!this.#isDone) throw new Error(`shards without an owner that answers: ${this.#missing ?? "all"}`)
  }

  /** Looks until every shard has one. */
  async start(): Promise<void> {
    const { clock, log } = this.#options
    for (;;) {
      const missing = await this.#look()
      if (this.#isStopped) return
      if (missing === 0) break
      if (this.#missing === undefined) log.info({ shards: missing }, "waiting for owners of shards")
      this.#missing = missing
      await clock.sleep(lookEveryMs)
    }
    this.#isDone = true
    if (this.#missing !== undefined) log.info({}, "every shard has an owner")
  }

  stop(): void {
    this.#isStopped = true
  }

  /** @returns how many shards nobody serves, as far as this worker knows */
  async #look(): Promise<number> {
    const { directory, view, isOpen, served } = this.#options
    const unserved: number[] = []
    const others = new Map<string, number[]>()
    for (const shard of directory.shards) {
      const owner = directory.ownerOf(shard)
      if (owner === view.self.id) {
        if (!isOpen(shard)) unserved.push(shard)
      } else if (typeof owner === "string" && view.isLiving(owner) && !view.isDead(owner)) append(others, owner, shard)
      else unserved.push(shard)
    }
    // A member that has died unseen is still on record as living: only an answer is proof.
    await Promise.all(
      [...others.values()].map(shards => served(shards[0]!, answerWithinMs).catch(() => unserved.push(...shards))),
    )
    await Promise.all(unserved.map(shard => directory.refresh(shard))).catch(() => {})
    return directory.shards.length === 0 ? 1 : unserved.length
  }
}
