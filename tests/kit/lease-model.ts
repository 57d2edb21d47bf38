/** Workers with leases on limits, whose Redis and clocks are in time that the test moves. */
import { randomUUID } from "node:crypto"
import fc from "fast-check"
import { createAdmission, routeBucket, type Admitted, type BucketFigures } from "../../src/cluster/admission.ts"
import { redisKeys } from "../../src/cluster/keys.ts"
import type { Redis } from "../../src/cluster/redis.ts"
import type { AccessSession, Tokens } from "../../src/cluster/tokens.ts"
import type { RateLimit } from "../../src/contract/core/limits.ts"
import type { Timer } from "../../src/std/clock.ts"
import { ordinary } from "./ordinary-session.ts"

/** Changes what a script says; the test that plants it expects to find it. */
export interface PlantedBug {
  readonly name: string
  readonly algorithm: RateLimit["algorithm"]
  readonly from: string
  readonly to: string
}

type Algorithm = RateLimit["algorithm"]

/** The script is asked what time it is there; nothing expires, since what is kept says itself how old it is. */
const virtualTime = `
local real, micros = redis, table.remove(ARGV)
local redis = { call = function(name, ...)
  if name == 'TIME' then return { string.sub(micros, 1, -7), string.sub(micros, -6) } end
  if name == 'SET' then local key, value = ... return real.call('SET', key, value) end
  return real.call(name, ...)
end }
`

interface Worker {
  readonly admission: ReturnType<typeof createAdmission>
  readonly due: Set<{ everyMs: number; at: number; action: () => void }>
  isPaused: boolean
}

interface Use {
  readonly at: number
  readonly hasRoute: boolean
}

interface Limits {
  readonly global: RateLimit
  readonly user: RateLimit
  readonly route: RateLimit
}

type Action =
  | { readonly does: "ask"; readonly worker: number; readonly requests: number; readonly hasRoute: boolean; readonly thereMs: number; readonly backMs: number } // prettier-ignore
  | { readonly does: "wait"; readonly ms: number }
  | { readonly does: "pause"; readonly worker: number; readonly ms: number }
  | { readonly does: "die"; readonly worker: number }
  | { readonly does: "step back"; readonly ms: number }

let scripts = 0

/** What happened in one history. */
export class LeaseModel {
  readonly uses: Use[] = []
  leased = 0
  readonly #redis: Redis
  readonly #limits: Limits
  readonly #leaseMs: number
  readonly #bug: PlantedBug | undefined
  readonly #keys = redisKeys(`test-${randomUUID()}:`)
  readonly #workers = new Map<number, Worker>()
  /** Milliseconds of the world, and how far the clock of Redis is ahead of them. */
  #now = 0
  #ahead = 1_700_000_000_000
  #travel = { thereMs: 0, backMs: 0 }
  #executedAt = 0

  constructor(redis: Redis, limits: Limits, leaseMs: number, bug?: PlantedBug) {
    this.#redis = redis
    this.#limits = limits
    this.#leaseMs = leaseMs
    this.#bug = bug
  }

  async run(actions: readonly Action[]): Promise<void> {
    for (const action of actions) await this.#do(action)
  }

  async #do(action: Action): Promise<void> {
    switch (action.does) {
      case "ask":
        this.#travel = action
        return this.#ask(this.#worker(action.worker), action.requests, action.hasRoute)
      case "wait":
        return this.#advance(action.ms)
      case "pause": {
        const worker = this.#worker(action.worker)
        worker.isPaused = true
        await this.#advance(action.ms)
        worker.isPaused = false
        return
      }
      case "die":
        return void this.#workers.delete(action.worker)
      case "step back":
        this.#ahead -= action.ms
    }
  }

  async #ask(worker: Worker, requests: number, hasRoute: boolean): Promise<void> {
    const bucket = hasRoute ? routeBucket(this.#limits.route, "GET /things") : undefined
    const asked = Array.from({ length: requests }, async () => {
      const answer = await worker.admission.admit({ address: "192.0.2.1", token: "token", bucket, resource: "" })
      if (answer.verdict !== "ok") return
      // What the script let in was used when it ran.
      const isByScript = Math.abs(momentOf(answer) - this.#ahead - this.#executedAt) < 0.5
      if (!isByScript) this.leased++
      this.uses.push({ at: isByScript ? this.#executedAt : this.#now, hasRoute })
    })
    await Promise.all(asked)
  }

  async #advance(ms: number): Promise<void> {
    const end = this.#now + ms
    for (;;) {
      const next = this.#nextDue(end)
      if (!next) break
      this.#now = Math.max(this.#now, next.at)
      next.at = this.#now + next.everyMs
      next.action()
      // What is given back reaches Redis.
      this.#travel = { thereMs: 0, backMs: 0 }
      await new Promise(resolve => setImmediate(resolve))
      await this.#redis.ping()
    }
    this.#now = end
  }

  #nextDue(end: number) {
    const all = [...this.#workers.values()].flatMap(worker => (worker.isPaused ? [] : [...worker.due]))
    return all.filter(({ at }) => at <= end).toSorted((a, b) => a.at - b.at)[0]
  }

  #worker(n: number): Worker {
    const worker = this.#workers.get(n) ?? this.#startWorker()
    this.#workers.set(n, worker)
    return worker
  }

  #startWorker(): Worker {
    const due: Worker["due"] = new Set()
    const now = Math.floor(Date.now() / 1000)
    const session: AccessSession = {
      session_id: "5", user_id: "7", username: "ada", badges: [], tier: "standard",
      ...ordinary, token_hash: "", expires_at: now + 3600, last_activity: now,
    } // prettier-ignore
    const { global, user } = this.#limits
    const admission = createAdmission({
      redis: this.#connection(),
      keys: this.#keys,
      tokens: {
        present: () => ({ session_id: "5", token_hash: "", isBot: false }),
        kept: () => undefined,
        findCached: async () => session,
        isTouchDue: () => false,
      } as unknown as Tokens,
      enabled: true,
      limits: { common: { global, user, ip: user }, routes: new Map() },
      leases: {
        leaseTokens: 16,
        leaseMs: this.#leaseMs,
        maxLeases: 100,
        isServing: () => true,
        workers: () => 2,
        clock: {
          monotonic: () => this.#now,
          every(everyMs: number, action: () => void): Timer {
            const entry = { everyMs, at: Infinity, action }
            due.add(entry)
            return { stop: () => void due.delete(entry) }
          },
        },
      },
    })
    const worker: Worker = { admission, due, isPaused: false }
    const add = due.add.bind(due)
    due.add = entry => add(Object.assign(entry, { at: this.#now + entry.everyMs }))
    return worker
  }

  /** A connection whose scripts run in this time. */
  #connection(): Redis {
    const [real, bug] = [this.#redis, this.#bug]
    const commands: Record<string, unknown> = {
      isCluster: false,
      on: () => {},
      mget: (...keys: string[]) => Promise.resolve(keys.map(() => "kept")),
      defineCommand: (name: string, { lua, numberOfKeys }: { lua: string; numberOfKeys: number }) => {
        if (name !== "admit") return
        if (bug && !lua.includes(bug.from)) throw new Error(`nowhere to plant ${bug.name}`)
        const planted = bug ? lua.replaceAll(bug.from, bug.to) : lua
        const own = `admit-${++scripts}`
        real.defineCommand(own, { lua: `${virtualTime}${planted}`, numberOfKeys })
        const call = (real as unknown as Record<string, (...args: unknown[]) => Promise<string[]>>)[own]!.bind(real)
        commands[name] = async (...args: unknown[]) => {
          const { thereMs, backMs } = this.#travel
          this.#now += thereMs
          this.#executedAt = this.#now
          const answers = await call(...args, String(Math.floor((this.#now + this.#ahead) * 1000)))
          this.#now += backMs
          return answers
        }
      },
    }
    return commands as unknown as Redis
  }
}

const momentOf = (answer: Admitted): number => {
  const { reset, resetAfterSeconds } = (answer as { figures: BucketFigures }).figures
  return (reset - resetAfterSeconds) * 1000
}

/** Within a stretch of so many milliseconds. */
const maxWithin = ({ algorithm, requests, burst, seconds }: RateLimit, stretchMs: number): number => {
  if (algorithm === "token") return requests + burst + (stretchMs * requests) / (seconds * 1000) + 0.02
  return stretchMs < seconds * 1000 ? requests + burst : Infinity
}

/**
 * Whether the limit can have let in requests of which only this is known: when each was sent and when
 * its answer was there. Not so where more of them lie in a stretch of time than it lets in.
 */
export function canHaveLetIn(limit: RateLimit, seen: readonly { sentMs: number; answeredMs: number }[]): boolean {
  const byAnswer = seen.toSorted((a, b) => a.answeredMs - b.answeredMs)
  return seen.every(({ sentMs: from }) =>
    byAnswer
      .filter(({ sentMs }) => sentMs >= from)
      .every(({ answeredMs }, before) => before + 1 <= maxWithin(limit, answeredMs - from)),
  )
}

/** Whether a plain model of the limit allows these moments, in order. */
export function isAllowed(limit: RateLimit, moments: readonly number[]): boolean {
  const { algorithm, requests, burst, seconds } = limit
  const [capacity, window] = [requests + burst, seconds * 1000]
  if (algorithm === "fixed") {
    let [began, count] = [-Infinity, 0]
    for (const moment of moments) {
      if (moment >= began + window) [began, count] = [moment, 0]
      if (++count > capacity) return false
    }
    return true
  }
  for (const [i, from] of moments.entries())
    for (let j = i; j < moments.length; j++) {
      const stretch = moments[j]! - from
      if (algorithm === "sliding" && stretch >= window) break
      if (j - i + 1 > maxWithin(limit, stretch)) return false
    }
  return true
}

const milliseconds = (max: number) => fc.integer({ min: 0, max })
const plenty: RateLimit = { requests: 100_000, seconds: 60, burst: 0, algorithm: "token", scope: "user" }

const aLimit = (algorithm: fc.Arbitrary<Algorithm>): fc.Arbitrary<RateLimit> =>
  fc.record({
    requests: fc.integer({ min: 8, max: 40 }),
    burst: fc.integer({ min: 0, max: 20 }),
    seconds: fc.integer({ min: 80, max: 1_600 }).map(ms => ms / 1000),
    algorithm,
    scope: fc.constant("route"),
  })

/** One bucket is narrow, or all of them are. */
const someLimits = (limit: fc.Arbitrary<RateLimit>): fc.Arbitrary<Limits> =>
  fc.oneof(
    ...(["global", "user", "route"] as const).map(narrow =>
      limit.map(one => ({ global: plenty, user: plenty, route: plenty, [narrow]: one })),
    ),
    fc.record({ global: limit, user: limit, route: limit }),
  )

/** Waits that fit a window are as likely as very short ones. */
function actionsWithin(windowMs: number, goesBack: boolean): fc.Arbitrary<Action[]> {
  const worker = milliseconds(1)
  const around = fc.oneof(
    milliseconds(Math.ceil(windowMs / 4)),
    milliseconds(Math.ceil(1.1 * windowMs)),
    fc.integer({ min: Math.floor(0.7 * windowMs), max: windowMs }),
  )
  const ask = fc.record({ does: fc.constant("ask" as const), worker, hasRoute: fc.constant(true) })
  const few = { requests: fc.integer({ min: 1, max: 4 }), thereMs: milliseconds(3), backMs: milliseconds(3) }
  // Few enough that they are asked about in one call.
  const many = { requests: fc.integer({ min: 20, max: 58 }), thereMs: milliseconds(40), backMs: milliseconds(40) }
  const asks = (more: typeof few) =>
    fc.tuple(ask, fc.record(more)).map(([one, other]): Action => ({ ...one, ...other }))
  const elsewhere = asks(few).map((one): Action => ({ ...one, hasRoute: false }) as Action)
  return fc.array(
    fc.oneof<[fc.WeightedArbitrary<Action>, ...fc.WeightedArbitrary<Action>[]]>(
      { weight: 14, arbitrary: asks(few) },
      { weight: 4, arbitrary: asks(many) },
      { weight: 2, arbitrary: elsewhere },
      { weight: 6, arbitrary: fc.record({ does: fc.constant("wait" as const), ms: around }) },
      { weight: 3, arbitrary: fc.record({ does: fc.constant("pause" as const), worker, ms: around }) },
      { weight: 1, arbitrary: fc.record({ does: fc.constant("die" as const), worker }) },
      ...(goesBack
        ? [{ weight: 1, arbitrary: fc.record({ does: fc.constant("step back" as const), ms: milliseconds(500) }) }]
        : []),
    ),
    { minLength: 8, maxLength: 40 },
  )
}

/** Limits of these algorithms, and what happens to them. */
export const histories = (...algorithms: Algorithm[]) =>
  someLimits(aLimit(fc.constantFrom(...algorithms))).chain(limits => {
    const all = Object.values(limits)
    const windowMs = Math.min(...all.map(({ seconds }) => Math.round(seconds * 1000)))
    // A fixed window begins anew where the clock of Redis goes back, with leases and without.
    const goesBack = all.every(({ algorithm }) => algorithm !== "fixed")
    return fc.record({
      limits: fc.constant(limits),
      leaseMs: fc.integer({ min: 50, max: 1_500 }),
      actions: actionsWithin(windowMs, goesBack),
    })
  })
