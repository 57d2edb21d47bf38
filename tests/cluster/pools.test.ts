import { inject, onTestFinished, test } from "vitest"
import { openPool, within } from "../../src/storage/core/database.ts"
import { openLink } from "../chaos/proxy.ts"
import { until } from "../kit/until.ts"

test(
  "P11: a pool whose connections are lost while something is written on them answers again",
  {
    timeout: 120_000,
  },
  async () => {
    const target = new URL(inject("postgres"))
    const link = await openLink("postgres", () => ({ host: target.hostname, port: Number(target.port) }))
    const url = Object.assign(new URL(target), { port: String(link.port) }).href
    const pool = openPool({ url, connections: 4, statementTimeoutMs: 1_000, connectTimeoutMs: 1_000, name: "test" })
    onTestFinished(async () => {
      await pool.end({ timeout: 0 })
      await link.close()
    })
    const areAnswered = async () => {
      const answers = Array.from({ length: 8 }, () =>
        within(pool`SELECT 1`, 500, "asking").then(
          () => true,
          () => false,
        ),
      )
      return (await Promise.all(answers)).every(Boolean)
    }
    for (let round = 0; round < 24; round++) {
      const asked = areAnswered()
      if (round % 3 === 0) link.reset()
      else if (round % 3 === 1) setImmediate(() => link.reset())
      else setTimeout(() => link.reset(), 1)
      await asked
      await until("it answers", areAnswered, { timeoutMs: 3_000 })
    }
  },
)
