import { expect, test } from "vitest"
import { ViewOverrides, type Viewers } from "./view-overrides.ts"

test("versions share the sets of all whom a change is not about, also where a channel gets or loses an audience of its own", () => {
  const about = (...said: readonly (readonly [user: string, isAllowed: boolean])[]): Viewers => ({
    key: JSON.stringify(said),
    said: said.map(([target_id, isAllowed]) => ({ target_id, type: "member", isAllowed })),
  })
  const channels = new Map(Array.from({ length: 40 }, (_, i) => [`c${i}`, about(["ada", i % 2 === 0], ["lin", true])]))
  const from = new ViewOverrides("1", [...channels])
  const after = (id: string, viewers: Viewers | undefined) => {
    const to = new Map(channels)
    if (viewers) to.set(id, viewers)
    else to.delete(id)
    return new ViewOverrides("1", [...to], from)
  }

  const changed = after("c7", about(["ada", true], ["lin", true]))
  expect(changed.layout).toBe(from.layout)
  expect(changed.slots).toBe(from.slots)
  expect(changed.members.get("lin")).toBe(from.members.get("lin"))
  expect(changed.members.get("ada")).not.toEqual(from.members.get("ada"))

  const more = after("new", about(["ada", true]))
  expect(more.layout).not.toBe(from.layout)
  expect(more.members.get("lin")).toBe(from.members.get("lin"))
  expect(more.slots.get("c9")).toBe(from.slots.get("c9"))

  // Its slot is the next newcomer's.
  const fewer = after("c9", undefined)
  expect(fewer.slots.has("c9")).toBe(false)
  const replaced = new ViewOverrides(
    "1",
    [...channels, ["new", about(["mo", true])] as const].filter(([id]) => id !== "c9"),
    fewer,
  )
  expect(replaced.slots.get("new")).toBe(from.slots.get("c9"))
  expect(replaced.members.get("lin")).toBe(fewer.members.get("lin"))
})
