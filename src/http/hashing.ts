import { randomBytes } from "node:crypto"
import { argon2id, hash, verify } from "argon2"
import { unavailable } from "../contract/errors.ts"

/**
 * Password hashes: argon2id, 19 MiB, two passes, one lane. Each occupies a core and a thread of the pool that also
 * reads files, so only so many run at once, a few wait, and the rest is told to come back.
 */
const parameters = { type: argon2id, memoryCost: 19_456, timeCost: 2, parallelism: 1 } as const

export interface HashingOptions {
  /** Hashes at a time: the cores there are. */
  atOnce: number
  /** Hashes waiting for their turn. */
  queued: number
}

export function createHashing({ atOnce, queued }: HashingOptions) {
  const waiting: (() => void)[] = []
  let running = 0
  let dummy: Promise<string> | undefined

  async function inTurn<T>(work: () => Promise<T>): Promise<T> {
    if (running >= atOnce) {
      if (waiting.length >= queued) throw unavailable("password hashing is busy", 2)
      // Whoever finishes hands his place on, so `running` does not change hands.
      await new Promise<void>(resolve => waiting.push(resolve))
    } else running++
    try {
      return await work()
    } finally {
      const next = waiting.shift()
      if (next) next()
      else running--
    }
  }

  return {
    hash: (password: string): Promise<string> => inTurn(() => hash(password, parameters)),

    /** Without a hash to compare with it takes as long and says no: whether a name exists cannot be timed. */
    verify: (password: string, stored: string | null | undefined): Promise<boolean> =>
      inTurn(async () => {
        dummy ??= hash(randomBytes(32), parameters)
        const same = await verify(stored ?? (await dummy), password)
        return same && stored !== null && stored !== undefined
      }),
  }
}

export type Hashing = ReturnType<typeof createHashing>
