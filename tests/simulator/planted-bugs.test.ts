import { fileURLToPath } from "node:url"
import { afterAll, describe, expect, test } from "vitest"
import { createViteServer } from "vitest/node"
import type { search } from "./search.ts"
import { plantedBugs, type PlantedBug } from "./planted-bugs.ts"

const root = fileURLToPath(new URL("../..", import.meta.url))

/** The simulator over the program with one change in its text. */
async function searchIn({
  file,
  find,
  replace,
}: PlantedBug): Promise<{ search: typeof search; close(): Promise<void> }> {
  let planted = 0
  const server = await createViteServer({
    root,
    configFile: false,
    logLevel: "silent",
    appType: "custom",
    server: { middlewareMode: true, hmr: false, watch: null, ws: false },
    optimizeDeps: { noDiscovery: true, include: [] },
    plugins: [
      {
        name: "plant",
        enforce: "pre",
        transform(code, id) {
          if (!id.endsWith(`/${file}`)) return
          const parts = code.split(find)
          if (parts.length !== 2) throw new Error(`${file} holds what is to be replaced ${parts.length - 1} times`)
          planted++
          return { code: parts.join(replace), map: null }
        },
      },
    ],
  })
  const module = (await server.ssrLoadModule("/tests/simulator/search.ts")) as { search: typeof search }
  expect(planted).toBe(1)
  return { search: module.search, close: () => server.close() }
}

const closing: (() => Promise<void>)[] = []
afterAll(() => Promise.all(closing.map(close => close())))

describe("the simulator finds", () => {
  for (const bug of plantedBugs)
    test(`${bug.promises.join(", ")}: ${bug.name}`, { timeout: 120_000 }, async () => {
      const { search, close } = await searchIn(bug)
      closing.push(close)
      const found = await search({ seed: bug.seed ?? 1, runs: 2_000, shrink: false })
      expect(found.breaches.map(({ promise }) => promise)).toEqual(
        expect.arrayContaining([expect.stringMatching(new RegExp(`^(${bug.promises.join("|")})$`))]),
      )
    })
})
