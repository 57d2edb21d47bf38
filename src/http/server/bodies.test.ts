import { expect, test } from "vitest"
import { createRole } from "../../contract/communities/roles.ts"
import { clusterConfig } from "../../../cluster.config.ts"
import { createBodies } from "./bodies.ts"
import type { Exchange } from "./exchange.ts"
import type { PreparedRoute } from "./prepared-route.ts"
import type { RequestBody } from "./request-body.ts"

const bodies = createBodies({ ...clusterConfig.http })
const prepared = { route: createRole } as unknown as PreparedRoute
const exchange = { dueAt: 0 } as Exchange

/** In which turns of the event loop bodies that arrived at once may be looked at. */
async function turnsOf(text: string): Promise<number[]> {
  let turn = 0
  const next = () => {
    turn++
    immediate = setImmediate(next)
  }
  let immediate = setImmediate(next)
  const body = { settled: true, text: () => text } as unknown as RequestBody
  const turns = await Promise.all(
    Array.from({ length: 10 }, async () => {
      await bodies.contentOf(prepared, exchange, body)
      return turn
    }),
  )
  clearImmediate(immediate)
  return turns
}

test("of large bodies that arrive at once one is looked at per turn of the event loop; small ones do not wait", async () => {
  expect(new Set(await turnsOf(JSON.stringify({ name: "x".repeat(20_000) }))).size).toBe(10)
  expect(new Set(await turnsOf('{"name":"x"}')).size).toBe(1)
})
