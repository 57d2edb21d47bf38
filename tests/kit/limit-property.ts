import { randomUUID } from "node:crypto"
import { setTimeout as sleep } from "node:timers/promises"
import fc from "fast-check"
import { expect } from "vitest"
import { createAdmission, routeBucket, type Admitted, type BucketFigures } from "../../src/cluster/admission.ts"
import { redisKeys } from "../../src/cluster/keys.ts"
import { openRedis } from "../../src/cluster/redis.ts"
import { createTokens, hashSecret, newSecret, type AccessSession } from "../../src/cluster/tokens.ts"
import type { RateLimit } from "../../src/contract/core/limits.ts"
import { leasesOfTwo } from "./lease-options.ts"
import { ordinary } from "./ordinary-session.ts"

const plenty: RateLimit = { requests: 10_000, seconds: 1, burst: 0, algorithm: "fixed", scope: "user" }
const limits = { common: { global: plenty, user: plenty, ip: plenty }, routes: new Map() }

const aLimit = fc.record({
  requests: fc.integer({ min: 1, max: 6 }),
  burst: fc.integer({ min: 0, max: 4 }),
  seconds: fc.integer({ min: 20, max: 120 }).map(ms => ms / 1000),
  algorithm: fc.constantFrom("token" as const, "sliding" as const, "fixed" as const),
  scope: fc.constantFrom("route" as const, "user" as const, "resource" as const, "ip" as const, "webhook" as const),
})
/** So many at once, then a pauseMs in milliseconds. */
const aRush = fc.record({ requests: fc.integer({ min: 1, max: 16 }), pauseMs: fc.integer({ min: 0, max: 50 }) })

/**
 * Rushes of requests of one caller on two workers at once. In no stretch of time, by the clock of the Redis that counts, are
 * more let in than the limit says; the first rush gets all of it; and a caller who waits as long as told gets in.
 */
export async function checkLimits(redisUrl: string, runs: number): Promise<void> {
  const keys = redisKeys(`test-${randomUUID()}:`)
  const connections = ["east", "west"].map(name => openRedis(redisUrl, name, () => {}))
  await Promise.all(connections.map(connection => connection.connect()))
  const now = Math.floor(Date.now() / 1000)
  const secret = newSecret()
  const session: AccessSession = {
    session_id: "5", user_id: "7", username: "ada", badges: [], tier: "standard",
    ...ordinary, token_hash: hashSecret(secret), expires_at: now + 3600, last_activity: now,
  } // prettier-ignore
  const workers = connections.map(redis => {
    const tokens = createTokens({ redis, keys, load: async () => session, clock: Date.now })
    return createAdmission({ redis, keys, tokens, enabled: true, limits, leases: leasesOfTwo })
  })
  try {
    await fc.assert(
      fc.asyncProperty(aLimit, fc.array(aRush, { minLength: 1, maxLength: 6 }), async (limit, rushes) => {
        const bucket = routeBucket(limit, `GET /${randomUUID()}`)
        const token = limit.scope === "webhook" ? undefined : `5.${secret}`
        const ask = async (worker: number) =>
          workers[worker % 2]!.admit({ address: "192.0.2.1", token, bucket, resource: "9" })
        const answers: Admitted[][] = []
        for (const { requests, pauseMs } of rushes) {
          answers.push(await Promise.all(Array.from({ length: requests }, (_, i) => ask(i))))
          await sleep(pauseMs)
        }
        const capacity = limit.requests + limit.burst
        const admitted = answers.map(rush => rush.filter(({ verdict }) => verdict === "ok"))
        expect(admitted[0]!.length).toBeGreaterThanOrEqual(Math.min(rushes[0]!.requests, capacity))
        for (const answer of answers.flat()) expect(["ok", "limited"]).toContain(answer.verdict)
        holds(limit, admitted.flat().map(momentOf).toSorted((a, b) => a - b)) // prettier-ignore

        for (;;) {
          const answer = await ask(0)
          if (answer.verdict === "ok") continue
          await sleep(figuresOf(answer).resetAfterSeconds * 1000 + 2)
          expect((await ask(1)).verdict).toBe("ok")
          break
        }
      }),
      { numRuns: runs, endOnFailure: true },
    )
  } finally {
    for (const connection of connections) connection.disconnect()
  }
}

function figuresOf(answer: Admitted): BucketFigures {
  if (answer.verdict === "failed" || !answer.figures) throw new Error(`${answer.verdict} without figures`)
  return answer.figures
}

/** Milliseconds of the clock that counts. */
const momentOf = (answer: Admitted): number => {
  const { reset, resetAfterSeconds } = figuresOf(answer)
  return Math.round((reset - resetAfterSeconds) * 1000)
}

/** @param moments rising */
function holds({ algorithm, requests, burst, seconds }: RateLimit, moments: readonly number[]): void {
  const [capacity, window] = [requests + burst, seconds * 1000]
  if (algorithm === "fixed") {
    let [began, count] = [-Infinity, 0]
    for (const moment of moments) {
      if (moment >= began + window) [began, count] = [moment, 0]
      expect(++count).toBeLessThanOrEqual(capacity)
    }
    return
  }
  for (const [i, from] of moments.entries())
    for (let j = i; j < moments.length; j++) {
      const stretch = moments[j]! - from
      const most =
        algorithm === "token" ? capacity + (stretch * requests) / window : stretch < window ? capacity : Infinity
      expect(j - i + 1).toBeLessThanOrEqual(most + 0.01)
    }
}
