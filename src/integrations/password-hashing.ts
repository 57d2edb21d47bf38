import { randomBytes } from "node:crypto"
import { argon2id, hash as argonHash, needsRehash, verify, type Options } from "argon2"
import { unavailable } from "../contract/core/errors.ts"

/**
 * Password hashes: argon2id, one lane. Each occupies a core and a thread of the pool that also
 * reads files. So the number that runs at once is limited, as many wait as can be answered in time,
 * and the rest is refused.
 */
export interface HashingOptions {
  memoryKib: number
  passes: number
  maxConcurrent: number
  /**
   * From the request to the end of its hash. What would take longer is refused: nobody would read
   * the answer.
   */
  timeoutMs: number
}

interface Waiter {
  readonly dueAt: number
  readonly begin: () => void
  readonly refuse: (error: Error) => void
}

/** The weight of one hash in what the next is expected to take. */
const weight = 1 / 8
const busy = () => unavailable("password hashing is busy", 2)

type Hash = (password: string | Buffer, options: Options) => Promise<string>

export function createHashing({ memoryKib, passes, maxConcurrent, timeoutMs }: HashingOptions, hash: Hash = argonHash) {
  const parameters = { type: argon2id, memoryCost: memoryKib, timeCost: passes, parallelism: 1 } as const
  const waiting: Waiter[] = []
  let running = 0
  /**
   * What a hash takes: more where others need the cores. Zero at first, so that a slow start
   * refuses nobody.
   */
  let usualMs = 0
  let dummy: Promise<string> | undefined

  /** A hash of no password. If making it fails, it is made again. */
  const dummyHash = (): Promise<string> =>
    (dummy ??= hash(randomBytes(32), parameters).catch((error: unknown) => {
      dummy = undefined
      throw error
    }))
  // At once: otherwise the first request with an unknown name would wait for two hashes.
  dummyHash().catch(() => undefined)

  /**
   * A finished hash passes its slot on, so `running` stays the same. A hash that would be late is
   * not started.
   */
  function handOn(): void {
    for (let next = waiting.shift(); next; next = waiting.shift()) {
      if (performance.now() + usualMs <= next.dueAt) return next.begin()
      next.refuse(busy())
    }
    running--
  }

  function requireCapacity(): void {
    const begunAfter = (usualMs * (waiting.length + 1)) / maxConcurrent
    if (running >= maxConcurrent && begunAfter + usualMs > timeoutMs) throw busy()
  }

  async function inTurn<T>(work: () => Promise<T>): Promise<T> {
    requireCapacity()
    if (running >= maxConcurrent) {
      const dueAt = performance.now() + timeoutMs
      await new Promise<void>((begin, refuse) => waiting.push({ dueAt, begin, refuse }))
    } else running++
    const begunAt = performance.now()
    try {
      const result = await work()
      usualMs += (performance.now() - begunAt - usualMs) * weight
      return result
    } finally {
      handOn()
    }
  }

  return {
    /**
     * Call it before any other work for a request that needs a hash: under a flood a refusal has to
     * be cheap.
     */
    requireCapacity,

    hash: (password: string): Promise<string> => inTurn(() => hash(password, parameters)),

    /**
     * Without a hash to compare with it takes as long and says no, so that timing does not tell
     * whether a name exists.
     */
    verify: (password: string, stored: string | null | undefined): Promise<boolean> =>
      inTurn(async () => {
        const same = await verify(stored ?? (await dummyHash()), password)
        return same && stored !== null && stored !== undefined
      }),

    /**
     * Made with other parameters than the current ones: it is renewed when the password is at hand.
     */
    isOutdated: (stored: string): boolean => needsRehash(stored, parameters),
  }
}

export type Hashing = ReturnType<typeof createHashing>
