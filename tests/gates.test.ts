/**
 * Every gate of `npm run check` has a canary: a small house that it must refuse. A canary in `fixtures/gates` lies over
 * the clean house, which every gate must let pass; both are judged by the project's own script and configuration.
 */
import { execFile } from "node:child_process"
import { appendFile, cp, mkdtemp, realpath, rm, symlink } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { stripVTControlCharacters } from "node:util"
import { describe, expect, test } from "vitest"

const project = join(import.meta.dirname, "..")
const fixtures = join(import.meta.dirname, "fixtures/gates")
const rules = ["oxlint.config.mjs", ".oxfmtrc.json", "knip.json", "tsconfig.json"]
const gateScripts = ["scripts/check.mjs", "scripts/rooms.mjs", "scripts/knip-count.mjs"]

/** Builds a house from the given parts of the project and fixtures, in this order, and runs the named gates in it. */
async function judge({ gates, parts = [], houses = [], spoil }: Trial): Promise<Verdict> {
  const house = await realpath(await mkdtemp(join(tmpdir(), "starling-gates-")))
  try {
    await symlink(join(project, "node_modules"), join(house, "node_modules"), "dir")
    for (const part of [...rules, ...gateScripts, ...parts]) {
      await cp(join(project, part), join(house, part), { recursive: true })
    }
    for (const name of houses) await cp(join(fixtures, name), house, { recursive: true })
    if (spoil !== undefined) await appendFile(join(house, spoil), "\n ")
    return await new Promise(resolve => {
      // Without colours, whatever the surroundings ask for: they stand between the words that are looked for.
      const env = { ...process.env, NO_COLOR: "1", FORCE_COLOR: "0" }
      execFile(process.execPath, ["scripts/check.mjs", ...gates], { cwd: house, env }, (error, stdout, stderr) => {
        resolve({ passed: error === null, output: stripVTControlCharacters(stdout + stderr) })
      })
    })
  } finally {
    await rm(house, { recursive: true })
  }
}
interface Trial {
  gates: string[]
  parts?: string[]
  houses?: string[]
  /** A file to which a stray line is added. */
  spoil?: string
}
interface Verdict {
  passed: boolean
  output: string
}

describe.concurrent("gates", { timeout: 60_000 }, () => {
  test("every gate lets the clean house pass", async () => {
    const { passed, output } = await judge({ gates: ["types", "lint", "format", "knip"], houses: ["clean"] })
    expect(output).not.toContain("FAIL")
    expect(passed).toBe(true)
  })

  test.each([
    ["types", "type-error", /src\/domain\/slow-mode\.ts\(3,.*TS2322/],
    ["format", "misformatted", /src\/domain\/slow-mode\.ts/],
    ["knip", "dead-export", /forgotten .*src\/domain\/slow-mode\.ts:3/],
    ["knip", "dead-file", /Unused files[^]*src\/domain\/forgotten\.ts/],
    ["knip", "dead-dependency", /Unused dependencies[^]*ioredis/],
    ["lint", "floating-promise", /no-floating-promises[^]*src\/actors\/channel\.ts:7/],
    ["lint", "void-promise", /no-floating-promises[^]*src\/actors\/channel\.ts:7/],
    ["lint", "misused-promise", /no-misused-promises[^]*src\/storage\/messages\.ts:6/],
    ["lint", "inexhaustive-switch", /switch-exhaustiveness-check[^]*src\/domain\/slow-mode\.ts:7/],
    ["lint", "upward-import", /src\/domain may not import src\/storage[^]*src\/domain\/slow-mode\.ts:2/],
    ["lint", "sideways-import", /src\/http may not import src\/gateway[^]*src\/http\/messages\.ts:6/],
    ["lint", "type-import", /src\/storage may not import src\/http[^]*src\/storage\/messages\.ts:3/],
    ["lint", "cycle", /import\(no-cycle\)[^]*src\/domain\/emptiness\.ts:2/],
    ["lint", "redis-outside-cluster", /only src\/cluster may import ioredis, not src\/storage/],
    ["lint", "package-in-contract", /src\/contract may not import Node's node:crypto[^]*the package pino/],
    ["lint", "process-env", /src\/http may not read process\.env[^]*messages\.ts:4[^]*messages\.ts:8/],
    ["lint", "barrel", /no index files[^]*no `export \*`/],
    ["lint", "test-import", /src\/main\.ts may not import a test/],
    ["lint", "no-room", /src\/attic\/box\.ts stands in no room/],
    ["lint", "client-import", /client may not import src\/domain/],
  ])("%s refuses %s", async (gate, canary, objection) => {
    const { passed, output } = await judge({ gates: [gate], houses: ["clean", canary] })
    expect(output).toMatch(objection)
    expect(passed).toBe(false)
  })

  test.each(["types", "lint", "format", "knip"])("%s refuses to have looked at no files", async gate => {
    const { passed, output } = await judge({ gates: [gate], houses: ["no-files"] })
    expect(output).toContain("looked at no files")
    expect(passed).toBe(false)
  })

  const documented = ["package.json", "cluster.config.ts", "src", "docs", "scripts"]

  test("docs lets the project pass", async () => {
    const { output } = await judge({ gates: ["docs"], parts: documented })
    expect(output).not.toContain("FAIL")
  })

  test("docs refuses a document that is not what the contract says", async () => {
    const { passed, output } = await judge({ gates: ["docs"], parts: documented, spoil: "docs/errors.md" })
    expect(output).toMatch(/FAIL {2}docs[^]*docs\/errors\.md/)
    expect(passed).toBe(false)
  })
})
