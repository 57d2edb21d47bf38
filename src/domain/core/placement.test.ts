import { expect, test } from "vitest"
import { wantedPlace, type Place } from "./placement.ts"
import { shardCount } from "./snowflake.ts"

const shards = Array.from({ length: shardCount }, (_, shard) => shard)
const places = (count: number): Place[] =>
  Array.from({ length: count }, (_, i) => ({ host: `host-${i % 3}`, slot: Math.floor(i / 3) }))
const nameOf = (place: Place | undefined) => place && `${place.host}/${place.slot}`
const wanted = (among: readonly Place[]) => shards.map(shard => nameOf(wantedPlace(shard, among)))

test("every shard has a place as long as there is one, and none without", () => {
  expect(wanted(places(1))).toEqual(shards.map(() => "host-0/0"))
  expect(wantedPlace(7, [])).toBeUndefined()
})

test.each([2, 3, 5, 8, 16])("%i places share the shards about evenly", count => {
  const held = new Map<string, number>()
  for (const place of wanted(places(count))) held.set(place!, (held.get(place!) ?? 0) + 1)
  const even = shardCount / count
  expect(held.size).toBe(count)
  // Five standard deviations of a fair draw.
  const spread = 5 * Math.sqrt(shardCount * (1 / count) * (1 - 1 / count))
  for (const shardsHeld of held.values()) expect(Math.abs(shardsHeld - even)).toBeLessThan(spread)
})

test("all processes compute the same, in whatever order they know the places", () => {
  expect(wanted(places(6).toReversed())).toEqual(wanted(places(6)))
})

test.each([2, 3, 7])(
  "when a place goes from among %i only its shards move; when it comes back only they return",
  count => {
    const all = places(count)
    const before = wanted(all)
    for (const gone of all) {
      const after = wanted(all.filter(place => place !== gone))
      for (const shard of shards) {
        if (before[shard] === nameOf(gone)) expect(after[shard]).not.toBe(nameOf(gone))
        else expect(after[shard]).toBe(before[shard])
      }
    }
  },
)

test("places of one host, and one slot of several hosts, are told apart", () => {
  const twins = [
    { host: "a", slot: 11 },
    { host: "a1", slot: 1 },
    { host: "b", slot: 11 },
  ]
  expect(new Set(wanted(twins)).size).toBe(3)
})
