import { expect, test } from "vitest"
import { fail, unavailable } from "../contract/core/errors.ts"
import type { Ask } from "../runtime/actor.ts"
import { accountOrders, type AccountOrdersNeeds } from "./account-orders.ts"

/** An account with so many bots, of which some do not answer. */
function ordersFor(bots: readonly string[], failing: Readonly<Record<string, Error>>) {
  const told: string[] = []
  let [running, most] = [0, 0]
  const ask = async (_: unknown, id: string) => {
    told.push(id)
    most = Math.max(most, ++running)
    await Promise.resolve()
    running--
    if (failing[id]) throw failing[id]
    return { sessions: 1, wasLocked: true, cancelled: true }
  }
  const storage = {
    bots: { ownedBy: async () => bots.map(id => ({ id })) },
    sessions: { clearFailures: async () => {} },
  }
  const orders = accountOrders({ ask: ask as unknown as Ask, storage } as unknown as AccountOrdersNeeds)
  return { orders, told, most: () => most }
}

test("every bot of an account is told, whichever of them fails or is gone", async () => {
  const bots = Array.from({ length: 25 }, (_, i) => String(i + 2))
  const lock = { until: 1, reason: null }
  for (const order of [
    ({ orders }: ReturnType<typeof ordersFor>) => orders.lock("1", lock),
    ({ orders }: ReturnType<typeof ordersFor>) => orders.unlock("1"),
    ({ orders }: ReturnType<typeof ordersFor>) => orders.cancelDeletion("1"),
  ]) {
    const gone = ordersFor(bots, { 2: fail("user_not_found") })
    await order(gone)
    expect(gone.told).toEqual(["1", ...bots])
    expect(gone.most()).toBeLessThan(bots.length)
    const failing = ordersFor(bots, { 2: fail("user_not_found"), 3: unavailable("first"), 9: unavailable("second") })
    await expect(order(failing)).rejects.toMatchObject({ code: "unavailable", message: unavailable("first").message })
    expect(failing.told).toEqual(["1", ...bots])
  }
})
