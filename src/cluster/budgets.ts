import { readFileSync } from "node:fs"
import { fail } from "../contract/core/errors.ts"
import type { Metrics } from "../observability/metrics.ts"
import type { RedisKeys } from "./keys.ts"
import type { Redis } from "./redis.ts"
import { orUnavailable } from "./tokens.ts"

/** How much may be spent: `capacity` at once, and in the long run `perSecond`. */
export interface Budget {
  readonly capacity: number
  readonly perSecond: number
}

/** An amount that a request takes from a budget. */
export interface Spending {
  /** What is counted, for the key: "webhook-bytes". */
  readonly name: string
  readonly amount: number
  readonly budget: Budget
}

export interface BudgetsOptions {
  readonly redis: Redis
  readonly keys: Pick<RedisKeys, "bucket">
  /** `RATE_LIMITS=off`: nothing is counted. */
  readonly enabled: boolean
  readonly metrics: Metrics
}

/**
 * Amounts that callers share across requests, worker processes and routes: messages and bytes of a
 * server's webhooks. The limiter (`admission.ts`) counts requests before anything is known of them;
 * this counts what a request turned out to cost, and on whose account.
 */
export function createBudgets({ redis, keys, enabled, metrics }: BudgetsOptions) {
  const lua = readFileSync(new URL("./lua/spend.lua", import.meta.url), "utf8")
  redis.defineCommand("spend", { lua })
  const scripts = redis as unknown as { spend(keys: number, ...args: string[]): Promise<[wait: number, which: number]> }

  async function spend(holder: string, spendings: readonly Spending[]): Promise<void> {
    const names = spendings.map(({ name }) => keys.bucket(`budget:{${holder}}:${name}`))
    const figures = spendings.flatMap(({ amount, budget }) => [amount, budget.capacity, budget.perSecond].map(String))
    const [waitMs, which] = await orUnavailable(scripts.spend(names.length, ...names, ...figures))
    if (waitMs === 0) return
    metrics.http.refused.of(spendings[which - 1]!.name).inc()
    throw fail("rate_limited", { retry_after: waitMs / 1000, extra: { global: false, scope: "webhook" } })
  }

  return {
    /**
     * Takes what a request costs from the budgets of each holder ("server:7"), from all of them or
     * from none. Fails with `rate_limited` and the seconds to wait where one of them lacks it.
     */
    async spend(holders: readonly string[], spendings: readonly Spending[]): Promise<void> {
      if (!enabled) return
      // Holders may be in different slots of Redis, so one follows the other.
      const back = spendings.map(({ amount, ...spending }) => ({ ...spending, amount: -amount }))
      for (const [i, holder] of holders.entries())
        try {
          await spend(holder, spendings)
        } catch (error) {
          await Promise.allSettled(holders.slice(0, i).map(paid => spend(paid, back)))
          throw error
        }
    },
  }
}
export type Budgets = ReturnType<typeof createBudgets>
