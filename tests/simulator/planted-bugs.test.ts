import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath, pathToFileURL } from "node:url"
import { build } from "esbuild"
import { afterAll, describe, expect, test } from "vitest"
import { plantedBugs, type PlantedBug } from "./planted-bugs.ts"
import type { search } from "./search.ts"

const root = fileURLToPath(new URL("../..", import.meta.url))
/** Below the project, so that packages are found from it. */
const folder = mkdtempSync(join(root, "node_modules", ".planted-"))
afterAll(() => rmSync(folder, { recursive: true }))

/** The simulator over the program with one change in its text. */
async function searchIn({ file, find, replace }: PlantedBug, outfile: string): Promise<typeof search> {
  let planted = 0
  await build({
    entryPoints: [join(root, "tests/simulator/search.ts")],
    outfile,
    bundle: true,
    packages: "external",
    format: "esm",
    platform: "node",
    target: "node20",
    sourcemap: "inline",
    plugins: [
      {
        name: "plant",
        setup({ onLoad }) {
          onLoad({ filter: /\.ts$/ }, ({ path }) => {
            let contents = readFileSync(path, "utf8")
            if (path === join(root, file)) {
              const parts = contents.split(find)
              if (parts.length !== 2) throw new Error(`${file} holds what is to be replaced ${parts.length - 1} times`)
              planted++
              contents = parts.join(replace)
            }
            // What lies beside a file is still found from it.
            return {
              loader: "ts",
              contents: contents.replaceAll("import.meta.url", JSON.stringify(pathToFileURL(path))),
            }
          })
        },
      },
    ],
  })
  expect(planted).toBe(1)
  const module = (await import(/* @vite-ignore */ pathToFileURL(outfile).href)) as { search: typeof search }
  return module.search
}

describe("the simulator finds", () => {
  for (const [i, bug] of plantedBugs.entries())
    test(`${bug.promises.join(", ")}: ${bug.name}`, { timeout: 120_000 }, async () => {
      const search = await searchIn(bug, join(folder, `${i}.mjs`))
      const found = await search({ seed: bug.seed ?? 1, runs: 2_000, shrink: false })
      expect(found.breaches.map(({ promise }) => promise)).toEqual(
        expect.arrayContaining([expect.stringMatching(new RegExp(`^(${bug.promises.join("|")})$`))]),
      )
    })
})
