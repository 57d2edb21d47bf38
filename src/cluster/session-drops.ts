import { unavailable } from "../contract/core/errors.ts"
import type { Snowflake } from "../contract/core/fields.ts"
import type { Log } from "../observability/log.ts"
import type { Metrics } from "../observability/metrics.ts"
import { inTurns } from "../std/batches.ts"
import type { Clock } from "../std/clock.ts"
import { NotHandled, WorkerGone, type Bus } from "./bus.ts"
import type { RedisKeys } from "./keys.ts"
import type { KeptSessions } from "./kept-sessions.ts"
import type { Member, Membership } from "./members.ts"
import type { Redis } from "./redis.ts"
import { replicationsOf } from "./replication.ts"

/** The bus's name for it. A worker of a version that keeps no sessions does not handle it. */
const kind = "dropSessions"
/** Milliseconds: for one answer; between two attempts; until it is looked whether the worker shows itself, and between two such looks. */
const answerTimeoutMs = 2_000
const againAfterMs = 50
const lookAfterMs = 200
const lookEveryMs = 100
/** After so long it is said whom the revocation waits for; and after so long it has failed, and is to be begun again. */
const tellAfterMs = 1_000
const giveUpAfterMs = 4_000

export interface SessionDropsOptions {
  readonly bus: Pick<Bus, "handle" | "request">
  readonly membership: Pick<Membership, "self" | "members" | "isDead">
  /** All members that PostgreSQL does not record as dead. */
  readonly living: () => Promise<readonly Member[]>
  readonly redis: Redis
  readonly keys: Pick<RedisKeys, "members">
  readonly kept: Pick<KeptSessions<object>, "drop">
  readonly serveForMs: number
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Pick<Metrics, "sessions">
}

/** What a worker has last been seen to show of itself, in one Redis, and since when. */
interface Shown {
  readonly value: string | undefined
  readonly replications: string
  /** Monotonic milliseconds: it was shown before. */
  readonly at: number
}

/**
 * Makes every web worker drop sessions. It keeps:
 *   DROP1  `everywhere` returns when each living web worker has dropped them, or has kept nothing since before: it is dead,
 *       or has shown nothing new for `serveForMs`, so that its term has ended (ALIVE5).
 *   DROP2  A worker that does neither fails it in time; others are told meanwhile.
 * A worker is recorded in PostgreSQL before it keeps anything. So one that is not found there looks up what it keeps
 * after this began, when the sessions' end was to be seen already.
 */
export class SessionDrops {
  readonly #options: SessionDropsOptions
  readonly #lines = new Map<string, (sessions: readonly Snowflake[]) => Promise<void>>()
  readonly #shown = new Map<string, Shown>()
  readonly #living: (question: undefined) => Promise<readonly Member[]>

  constructor(options: SessionDropsOptions) {
    this.#options = options
    const { bus, kept, living, clock } = options
    // Each look begins after those whom it is for have asked.
    this.#living = inTurns(async questions => {
      const members = await living()
      return questions.map(() => members)
    }, clock)
    bus.handle(kind, async (sessions: readonly Snowflake[]) => kept.drop(sessions))
  }

  /** After the end of these sessions is there to be seen for those who look them up. */
  async everywhere(sessions: readonly Snowflake[]): Promise<void> {
    const { membership, kept } = this.#options
    kept.drop(sessions)
    const recorded = await this.#living(undefined)
    const workers = new Set<string>()
    for (const { id, role } of [...recorded, ...membership.members()])
      if (role === "web" && id !== membership.self.id && !membership.isDead(id)) workers.add(id)
    for (const gone of this.#lines.keys())
      if (!workers.has(gone)) {
        this.#lines.delete(gone)
        this.#shown.delete(gone)
      }
    await Promise.all([...workers].map(worker => this.#lineTo(worker)(sessions)))
  }

  /** Notices to one worker go one after another; what comes while one is out goes together. */
  #lineTo(worker: string): (sessions: readonly Snowflake[]) => Promise<void> {
    let line = this.#lines.get(worker)
    if (!line) {
      line = inTurns<readonly Snowflake[], void>(async lists => {
        await this.#dropAt(worker, [...new Set(lists.flat())])
        return lists.map(() => undefined)
      }, this.#options.clock)
      this.#lines.set(worker, line)
    }
    return line
  }

  async #dropAt(worker: string, sessions: readonly Snowflake[]): Promise<void> {
    const { clock, metrics } = this.#options
    const wait = { worker, startedAt: clock.monotonic(), isOver: false }
    try {
      await Promise.race([this.#ask(wait, sessions), this.#watch(wait)])
    } finally {
      wait.isOver = true
      metrics.sessions.dropSeconds.observe((clock.monotonic() - wait.startedAt) / 1000)
    }
  }

  async #ask(wait: Wait, sessions: readonly Snowflake[]): Promise<void> {
    const { bus, membership, clock } = this.#options
    const { worker, startedAt } = wait
    while (!wait.isOver) {
      try {
        return await bus.request(worker, kind, sessions, answerTimeoutMs)
      } catch (error) {
        if (error instanceof NotHandled) return
        if (membership.isDead(worker) || (error instanceof WorkerGone && error.diedMeanwhile)) return
        if (clock.monotonic() - startedAt >= giveUpAfterMs)
          throw unavailable("a worker does not drop sessions", 1, { cause: error }) // DROP2
      }
      await clock.sleep(againAfterMs)
    }
  }

  /** Resolves once the worker is dead or its term has ended. */
  async #watch(wait: Wait): Promise<void> {
    const { membership, serveForMs, clock, log } = this.#options
    const { worker, startedAt } = wait
    let isTold = false
    for (let pause = lookAfterMs; ; pause = lookEveryMs) {
      await clock.sleep(pause)
      if (wait.isOver || membership.isDead(worker)) return
      const waitedMs = Math.round(clock.monotonic() - startedAt)
      if (waitedMs >= tellAfterMs && !isTold) {
        isTold = true
        log.warn({ of: worker, waitedMs }, "waiting for a worker to drop sessions")
      }
      const sentAt = clock.monotonic()
      const now = await this.#look(worker).catch(() => undefined)
      if (!now) continue
      const before = this.#shown.get(worker)
      if (!before || before.value !== now.value || before.replications !== now.replications)
        this.#shown.set(worker, now)
      // All of its renewals that were ever confirmed began before the first of the two looks.
      else if (sentAt - before.at >= serveForMs) return
    }
  }

  async #look(worker: string): Promise<Shown | undefined> {
    const { redis, keys, clock } = this.#options
    const replications = replicationsOf(redis)
    const value = (await redis.hget(keys.members, worker)) ?? undefined
    if (replicationsOf(redis) !== replications) return undefined
    return { value, replications, at: clock.monotonic() }
  }
}

interface Wait {
  readonly worker: string
  readonly startedAt: number
  isOver: boolean
}
