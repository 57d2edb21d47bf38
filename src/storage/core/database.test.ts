import { expect, onTestFinished, test } from "vitest"
import { createMetrics } from "../../observability/metrics.ts"
import { snapshot } from "../../observability/instruments.ts"
import { isDatabaseUnavailable, observing } from "./database.ts"

test("queries are counted: sent, under way, failed", async () => {
  const metrics = createMetrics()
  onTestFinished(() => metrics.close())
  const count = async (name: string) =>
    (await snapshot(metrics.registry))
      .find(metric => metric.name === name)!
      .values.find(({ labels }) => labels["pool"] === "read")!.value
  const refusal = new Error("refused, as it should be")
  const observe = observing(metrics, { pool: "read", isFailure: error => error !== refusal })
  let answer!: () => void
  const query = observe(new Promise<void>(resolve => (answer = resolve)))
  expect(await count("starling_postgres_queries_in_flight")).toBe(1)
  answer()
  await query
  await expect(observe(Promise.reject(new Error("away")))).rejects.toThrow("away")
  await expect(observe(Promise.reject(refusal))).rejects.toBe(refusal)
  expect(await count("starling_postgres_queries_total")).toBe(3)
  expect(await count("starling_postgres_queries_in_flight")).toBe(0)
  expect(await count("starling_postgres_errors_total")).toBe(1)
})

test("a connection for which no descriptor is left is a database that is away, not a bug", () => {
  expect(isDatabaseUnavailable(Object.assign(new Error("connect EMFILE 127.0.0.1:5432"), { code: "EMFILE" }))).toBe(
    true,
  )
})
