import { availableParallelism } from "node:os"
import { argon2id, hash } from "argon2"
import { readConfig } from "../../src/config.ts"
import type { Sizes } from "../population.ts"

export const loginPath = "/api/v1/auth/login"
export const mePath = "/api/v1/users/@me"
/** As every server of the benchmark has. */
export const webWorkers = 2

/** Everybody's. */
export const password = "Benches 4 everyone!"

/** No core hashes more in a second, with the parameters that are the default. */
const hashesOfACore = 80

export interface LoadGroups {
  /** Of sign-ins by people below the limit of sessions, all together. */
  readonly signInSeconds: number
  /** Who ask who they are. */
  readonly asking: number
}

/**
 * People below the limit of sessions however often they sign in, people at it, and people who are
 * signed in.
 */
export async function peopleFor({ signInSeconds, asking }: LoadGroups): Promise<NonNullable<Sizes["registered"]>> {
  // The server is started with the same environment.
  const { policy } = readConfig(process.env)
  const most = policy.sessions_per_user
  const signIns = Math.ceil(signInSeconds) * availableParallelism() * hashesOfACore
  return {
    passwordHash: await hash(password, {
      type: argon2id,
      memoryCost: policy.password_hash_memory,
      timeCost: policy.password_hash_passes,
      parallelism: 1,
    }),
    groups: [
      { users: Math.ceil(signIns / Math.max(1, most - 2)) + 2, sessions: 1 },
      { users: 500, sessions: most },
      { users: asking, sessions: 1 },
    ],
  }
}
