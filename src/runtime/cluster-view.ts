import type { Member, Membership } from "../cluster/members.ts"
import { unavailable } from "../contract/core/errors.ts"
import type { Clock } from "../std/clock.ts"
import { rejected } from "../std/rejected.ts"
import type { LineageWatch } from "./lineage-watch.ts"

/** What this worker knows of the others. Every part of the program asks here, so that a word has one meaning. */
export interface ClusterView {
  readonly self: Member
  /** Whether its last renewal is young enough. */
  readonly serving: boolean
  /** Undefined, or pending while it is not known whether PostgreSQL has what it had: before that nothing is decided (LOSS1). */
  untilWhole(): Promise<void> | undefined
  /**
   * Undefined while this worker may decide: it serves, and PostgreSQL is whole. Else resolves when it may, and rejects when that takes too
   * long (HOST3, LOSS1, ALIVE6). Who has waited asks again, as what goes on before may take long.
   */
  untilAble(): Promise<void> | undefined
  /** Milliseconds in which Redis was seen to be there, and to be the same. */
  readonly wellForMs: number
  /** Every member that is not known to be dead, this one included. */
  members(): readonly Member[]
  /** Members that shards may be given to: web workers that do not leave. */
  candidates(): readonly Member[]
  /** Whether it shows itself. One that has just come may not have been seen yet: it is neither living nor dead. */
  isLiving(worker: string): boolean
  /** Whether PostgreSQL has declared it dead, or it was found to be gone: it makes no log, and answers nothing. */
  isDead(worker: string): boolean
}

const maxForgotten = 1_000

/** The workers that died. What they left is kept for the resume window, and is nobody's afterwards. */
export class DeadWorkers {
  readonly #membership: Pick<Membership, "isLiving">
  readonly #resumeWindowMs: number
  readonly #clock: Clock
  /** Since when; monotonic milliseconds. */
  readonly #diedAt = new Map<string, number>()
  /** Those whose window is over: what a shard on its way still knows of them goes at once. */
  readonly #forgotten = new Set<string>()

  constructor(membership: Pick<Membership, "isLiving">, resumeWindowMs: number, clock: Clock) {
    this.#membership = membership
    this.#resumeWindowMs = resumeWindowMs
    this.#clock = clock
  }

  note(worker: string): void {
    if (this.#forgotten.has(worker)) this.#diedAt.set(worker, -Infinity)
    else if (!this.#diedAt.has(worker)) this.#diedAt.set(worker, this.#clock.monotonic())
  }

  /** Whether it is dead, and its log may still be kept. */
  has(worker: string): boolean {
    return this.#diedAt.has(worker) && !this.#membership.isLiving(worker)
  }

  /** Whether no session can come back for its log any more. */
  isForgotten(worker: string): boolean {
    const diedAt = this.#diedAt.get(worker)
    return diedAt !== undefined && this.#clock.monotonic() - diedAt > this.#resumeWindowMs
  }

  /** @returns those whose window has just ended */
  takeForgotten(): string[] {
    const over: string[] = []
    for (const worker of this.#diedAt.keys())
      // It may only not have been seen yet.
      if (this.#membership.isLiving(worker)) this.#diedAt.delete(worker)
      else if (this.isForgotten(worker)) {
        this.#diedAt.delete(worker)
        if (this.#forgotten.size >= maxForgotten) this.#forgotten.clear()
        this.#forgotten.add(worker)
        over.push(worker)
      }
    return over
  }
}

export function clusterView(
  membership: Membership,
  dead: DeadWorkers,
  watch?: Pick<LineageWatch, "untilWhole">,
): ClusterView {
  const obstacle = (): Promise<void> | undefined =>
    watch?.untilWhole() ??
    (membership.serving ? undefined : (membership.renewal() ?? rejected(unavailable("worker is not serving"))))

  /** Of all who wait at a time, so that they go on in the order in which they came. */
  let passing: Promise<void> | undefined
  async function pass(first: Promise<void>): Promise<void> {
    try {
      for (let wait: Promise<void> | undefined = first; wait; wait = obstacle()) await wait
    } finally {
      passing = undefined
    }
  }

  return {
    self: membership.self,
    get serving() {
      return membership.serving
    },
    untilWhole: () => watch?.untilWhole(),
    untilAble() {
      const first = passing ? undefined : obstacle()
      if (first) {
        passing = pass(first)
        passing.catch(() => {})
      }
      return passing
    },
    get wellForMs() {
      return membership.wellFor
    },
    members: () => membership.members(),
    candidates: () => membership.candidates(),
    isLiving: worker => membership.isLiving(worker),
    isDead: worker => membership.isDead(worker) || dead.has(worker),
  }
}
