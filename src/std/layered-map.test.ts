import fc from "fast-check"
import { expect, test } from "vitest"
import { LayeredMap } from "./layered-map.ts"

const key = fc.integer({ min: 0, max: 60 })
const change = fc.tuple(key, fc.option(fc.integer({ min: 1, max: 9 }), { nil: null }))

test("every version has what a copied map has, in the same order, whatever is made of it later", () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(key, fc.integer({ min: 1, max: 9 }))),
      fc.array(change, { maxLength: 120 }),
      (first, changes) => {
        let map = new Map(first)
        let layered = LayeredMap.of(map)
        const versions = [[map, layered] as const]
        for (const [key, value] of changes) {
          map = new Map(map)
          if (value === null) map.delete(key)
          else map.set(key, value)
          layered = value === null ? layered.without(key) : layered.with(key, value)
          versions.push([map, layered])
        }
        for (const [map, layered] of versions) {
          expect([...layered]).toEqual([...map])
          expect([layered.size, [...layered.keys()], [...layered.values()]]).toEqual([
            map.size,
            [...map.keys()],
            [...map.values()],
          ])
          for (let key = 0; key <= 60; key++)
            expect([layered.get(key), layered.has(key)]).toEqual([map.get(key), map.has(key)])
        }
        const [[, oldest]] = versions as [[Map<number, number>, LayeredMap<number, number>]]
        expect(new Map(LayeredMap.like(oldest, map))).toEqual(map)
      },
    ),
  )
})
