import fc from "fast-check"
import { expect, test } from "vitest"
import { groupsOf, moved, movesFor } from "./channel-order.ts"

/** Some positions are the same, and gaps are between them; ids 1 to 3 are categories, 4 is one that cannot be seen. */
const channels = fc
  .array(fc.record({ position: fc.nat(6), category: fc.constantFrom(null, "1", "2", "3", "4") }), { maxLength: 6 })
  .map(rest => [
    ...["1", "2", "3"].map((id, i) => ({ id, type: "category", position: 2 * i, category_id: null })),
    ...rest.map(({ position, category }, i) => ({ id: String(10 + i), type: "text", position, category_id: category })),
  ])
const ids = (groups: readonly (readonly { id: string }[])[]) => groups.map(group => group.map(({ id }) => id))

test("a step moves one channel past one place, or one category past another; what is sent makes the list stand so", () => {
  fc.assert(
    fc.property(channels, fc.nat(8), fc.constantFrom(-1 as const, 1 as const), (channels, n, step) => {
      const groups = groupsOf(channels)
      const flat = groups.flat()
      const { id } = flat[n % flat.length]!
      const next = moved(groups, id, step)
      if (!next) {
        // Only at an end.
        const inGroup = groups.findIndex(group => group.some(one => one.id === id))
        const isFirst = step < 0 && (flat[0]!.id === id || groups[1]![0]!.id === id)
        expect(isFirst || (step > 0 && inGroup === groups.length - 1)).toBe(true)
        return
      }
      expect(ids(next).flat().toSorted()).toEqual(ids(groups).flat().toSorted())
      const sent = new Map(movesFor(next).map(move => [move.id, move]))
      const after = channels.map(channel => {
        const { position, category_id } = sent.get(channel.id) ?? {
          ...channel,
          category_id: channel.category_id ?? "0",
        }
        return { ...channel, position, category_id: category_id === "0" ? null : category_id }
      })
      expect(ids(groupsOf(after))).toEqual(ids(next))
      const hidden = (list: readonly { id: string; category_id: string | null }[]) =>
        list.flatMap(one => (one.category_id === "4" ? [one.id] : [])).filter(one => one !== id)
      expect(hidden(after)).toEqual(hidden(channels))
      // And back again.
      expect(ids(moved(next, id, step < 0 ? 1 : -1)!)).toEqual(ids(groups))
    }),
  )
})
