import type { RedisKeys } from "./keys.ts"
import type { Redis } from "./redis.ts"
import { newSecret, orUnavailable } from "./tokens.ts"

const lifetimeMs = 300_000

export type PasskeyChallenges = ReturnType<typeof createPasskeyChallenges>

/**
 * What authenticators are asked to sign. It keeps:
 *   PASS3  A challenge is good once, for five minutes, and only for what it was made for: adding a
 *       passkey in one session, answering one challenge of a sign-in, or signing in.
 * Redis is their only copy: where it loses one, somebody begins again.
 */
export function createPasskeyChallenges(redis: Redis, keys: Pick<RedisKeys, "passkeyChallenge">) {
  return {
    /** @param purpose such as `add 17`, with the session */
    async issue(purpose: string): Promise<string> {
      const challenge = newSecret()
      await orUnavailable(redis.set(keys.passkeyChallenge(challenge), purpose, "PX", lifetimeMs))
      return challenge
    },

    /** Whether it was issued for this, and nobody has come back with it before. */
    async take(challenge: string, purpose: string): Promise<boolean> {
      return (await orUnavailable(redis.getdel(keys.passkeyChallenge(challenge)))) === purpose
    },
  }
}
