import { randomBytes } from "node:crypto"
import { argon2id, hash as argonHash, needsRehash, verify, type Options } from "argon2"
import { unavailable } from "../contract/errors.ts"

/**
 * Password hashes: argon2id, one lane. Each occupies a core and a thread of the pool that also reads files, so only so many
 * run at once, as many wait as will still be answered, and the rest is told to come back.
 */
export interface HashingOptions {
  /** Kibibytes. */
  memory: number
  passes: number
  /** Hashes at a time. */
  atOnce: number
  /** Milliseconds from the question to the end of its hash. What would take longer is refused: nobody would read the answer. */
  within: number
}

interface Waiter {
  readonly dueAt: number
  readonly begin: () => void
  readonly refuse: (error: Error) => void
}

/** The share that one hash has in what the next is expected to take. */
const weight = 1 / 8
const busy = () => unavailable("password hashing is busy", 2)

type Hash = (password: string | Buffer, options: Options) => Promise<string>

export function createHashing({ memory, passes, atOnce, within }: HashingOptions, hash: Hash = argonHash) {
  const parameters = { type: argon2id, memoryCost: memory, timeCost: passes, parallelism: 1 } as const
  const waiting: Waiter[] = []
  let running = 0
  /** What a hash takes, in milliseconds: more where others want the cores. Too little at first, so that nobody is refused for a slow start. */
  let usual = 0
  let dummy: Promise<string> | undefined

  /** Of nobody's password. One that failed is made anew. */
  const dummyHash = (): Promise<string> =>
    (dummy ??= hash(randomBytes(32), parameters).catch((error: unknown) => {
      dummy = undefined
      throw error
    }))
  // Now: the first who asks for a name that nobody has would wait for two hashes.
  dummyHash().catch(() => undefined)

  /** Whoever is done hands his place on, so `running` does not change hands. Who would be late is not begun with. */
  function handOn(): void {
    for (let next = waiting.shift(); next; next = waiting.shift()) {
      if (performance.now() + usual <= next.dueAt) return next.begin()
      next.refuse(busy())
    }
    running--
  }

  function requireRoom(): void {
    const begunAfter = (usual * (waiting.length + 1)) / atOnce
    if (running >= atOnce && begunAfter + usual > within) throw busy()
  }

  async function inTurn<T>(work: () => Promise<T>): Promise<T> {
    requireRoom()
    if (running >= atOnce) {
      const dueAt = performance.now() + within
      await new Promise<void>((begin, refuse) => waiting.push({ dueAt, begin, refuse }))
    } else running++
    const begunAt = performance.now()
    try {
      const result = await work()
      usual += (performance.now() - begunAt - usual) * weight
      return result
    } finally {
      handOn()
    }
  }

  return {
    /** Before anything else is done for who needs a hash: under a flood a refusal has to be cheap. */
    requireRoom,

    hash: (password: string): Promise<string> => inTurn(() => hash(password, parameters)),

    /** Without a hash to compare with it takes as long and says no: whether a name exists cannot be timed. */
    verify: (password: string, stored: string | null | undefined): Promise<boolean> =>
      inTurn(async () => {
        const same = await verify(stored ?? (await dummyHash()), password)
        return same && stored !== null && stored !== undefined
      }),

    /** Made with other parameters than those of now: whoever has the password at hand makes it anew. */
    isOutdated: (stored: string): boolean => needsRehash(stored, parameters),
  }
}

export type Hashing = ReturnType<typeof createHashing>
