import { randomUUID } from "node:crypto"
import { afterAll, beforeAll, expect, inject, test } from "vitest"
import { createMetrics } from "../observability/metrics.ts"
import { createBudgets } from "./budgets.ts"
import { redisKeys } from "./keys.ts"
import { openRedis } from "./redis.ts"

const redis = openRedis(inject("redis"), "budgets test", () => {})
beforeAll(() => redis.connect())
afterAll(() => redis.quit())

const opened = (enabled = true) =>
  createBudgets({ redis, keys: redisKeys(`test-${randomUUID()}:`), enabled, metrics: createMetrics() })
const slow = { capacity: 10, perSecond: 0.01 }
const messages = (amount: number) => ({ name: "webhook-messages", amount, budget: slow })
const bytes = (amount: number) => ({ name: "webhook-bytes", amount, budget: { capacity: 1_000, perSecond: 0.01 } })
const refused = { code: "rate_limited" }

test("a budget is spent by its holder only, and says when it is there again", async () => {
  const budgets = opened()
  await budgets.spend(["server:1"], [messages(10)])
  const refusal = await budgets.spend(["server:1"], [messages(1)]).catch((error: unknown) => error)
  expect(refusal).toMatchObject({ ...refused, details: { extra: { scope: "webhook", global: false } } })
  const { retry_after } = (refusal as { details: { retry_after: number } }).details
  expect(retry_after).toBeGreaterThan(90)
  expect(retry_after).toBeLessThanOrEqual(100)
  await budgets.spend(["server:2"], [messages(10)])
})

test("of several budgets all are taken from, or none", async () => {
  const budgets = opened()
  await budgets.spend(["server:1"], [messages(1), bytes(990)])
  for (let i = 0; i < 20; i++)
    await expect(budgets.spend(["server:1"], [messages(1), bytes(11)])).rejects.toMatchObject(refused)
  await budgets.spend(["server:1"], [messages(9), bytes(10)])
  await expect(budgets.spend(["server:1"], [messages(1), bytes(0)])).rejects.toMatchObject(refused)
})

test("of several holders all pay, or none", async () => {
  const budgets = opened()
  await budgets.spend(["server:1"], [messages(10)])
  const both = ["user:1", "server:1"]
  for (let i = 0; i < 20; i++)
    await expect(budgets.spend(both, [messages(1), bytes(2_000)])).rejects.toMatchObject(refused)
  await budgets.spend(["user:1", "server:2"], [messages(10), bytes(1_000)])
  for (const holder of ["user:1", "server:2"])
    await expect(budgets.spend([holder], [messages(1)])).rejects.toMatchObject(refused)
})

test("what flows back can be spent; more than a budget holds needs all of it, once", async () => {
  const budgets = opened()
  const fast = { capacity: 10, perSecond: 1_000 }
  const spend = (amount: number) => budgets.spend(["server:1"], [{ name: "webhook-messages", amount, budget: fast }])
  await spend(10)
  await new Promise(resolve => setTimeout(resolve, 30))
  await spend(10)
  await new Promise(resolve => setTimeout(resolve, 30))
  await spend(25)
})

test("many at once spend what there is and no more", async () => {
  const budgets = opened()
  const outcomes = await Promise.allSettled(
    Array.from({ length: 50 }, () => budgets.spend(["server:1"], [messages(1)])),
  )
  expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(10)
})

test("with limits off nothing is counted", async () => {
  const budgets = opened(false)
  for (let i = 0; i < 5; i++) await budgets.spend(["server:1"], [messages(10)])
})
