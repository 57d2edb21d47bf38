import { describe, expect, test } from "vitest"
import { plantedBugs } from "./planted-bugs.ts"
import { search } from "./search.ts"

describe("the simulator finds", () => {
  for (const { name, plant, promises, seed = 1, withBarriers = false } of plantedBugs)
    test(`${promises.join(", ")}: ${name}`, { timeout: 300_000 }, async () => {
      const found = await search({ seed, runs: 2_000, shrink: false, plant, withBarriers })
      expect(found.breaches.map(({ promise }) => promise)).toEqual(
        expect.arrayContaining([expect.stringMatching(new RegExp(`^(${promises.join("|")})$`))]),
      )
    })
})
