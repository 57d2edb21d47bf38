/**
 * Every gate of `npm run check` has a canary: a small house that it must refuse. A canary in
 * `fixtures/gates` lies over the clean house, which every gate must let pass; both are judged by
 * the project's own script and configuration.
 */
import { execFile } from "node:child_process"
import { appendFile, cp, mkdir, mkdtemp, realpath, rm, symlink, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { dirname, join, posix } from "node:path"
import { stripVTControlCharacters } from "node:util"
import { describe, expect, test } from "vitest"

const project = join(import.meta.dirname, "../..")
const fixtures = join(import.meta.dirname, "../fixtures/gates")
const rules = ["oxlint.config.mjs", ".oxfmtrc.json", "knip.json", "tsconfig.json", "web/tsconfig.json"]
const gateScripts = ["check", "layers", "style-rules", "knip-count", "metrics-written", "words", "messages"].map(
  name => `scripts/${name}.mjs`,
)

/**
 * Builds a project from the given parts of the project and fixtures, in this order, and runs the
 * named checks in it.
 */
async function judge({ gates, parts = [], samples = [], files = {}, spoil = [] }: Trial): Promise<Verdict> {
  const folder = await realpath(await mkdtemp(join(tmpdir(), "starling-gates-")))
  try {
    await symlink(join(project, "node_modules"), join(folder, "node_modules"), "dir")
    for (const part of [...rules, ...gateScripts, ...parts]) {
      // What a test beside this one packs comes and goes.
      const packed = ["dist", "LICENSE"].map(name => join(project, "client", name))
      const filter = (path: string) => !packed.some(one => path.startsWith(one))
      await cp(join(project, part), join(folder, part), { recursive: true, filter })
    }
    for (const name of samples) await cp(join(fixtures, name), folder, { recursive: true })
    for (const [name, text] of Object.entries(files)) {
      await mkdir(dirname(join(folder, name)), { recursive: true })
      await writeFile(join(folder, name), text)
    }
    for (const file of spoil) await appendFile(join(folder, file), "\n ")
    return await new Promise(resolve => {
      // Without colours, whatever the surroundings ask for: they stand between the words that are
      // looked for.
      const env = { ...process.env, NO_COLOR: "1", FORCE_COLOR: "0" }
      execFile(process.execPath, ["scripts/check.mjs", ...gates], { cwd: folder, env }, (error, stdout, stderr) => {
        resolve({ passed: error === null, output: stripVTControlCharacters(stdout + stderr) })
      })
    })
  } finally {
    await rm(folder, { recursive: true })
  }
}
interface Trial {
  gates: string[]
  parts?: string[]
  samples?: string[]
  /** Files of the test's own, by path. */
  files?: Record<string, string>
  /** Files to which a stray line is added. */
  spoil?: string[]
}
interface Row {
  uses: string[] | "anything"
}
interface Verdict {
  passed: boolean
  output: string
}

describe.concurrent("gates", { timeout: 60_000 }, () => {
  test("every gate lets the clean project pass", async () => {
    const { passed, output } = await judge({
      gates: ["types", "pages", "lint", "format", "knip", "metrics", "words"],
      samples: ["clean"],
    })
    expect(output).not.toContain("FAIL")
    expect(passed).toBe(true)
  })

  // Canaries that change different files are judged in one folder. Each must be refused for its own
  // reason.
  test.each<[gate: string, canaries: Record<string, RegExp[]>]>([
    ["types", { "type-error": [/src\/domain\/slow-mode\.ts\(3,.*TS2322/] }],
    ["pages", { "page-type-error": [/web\/operator\/dashboard\.tsx\(3,.*TS2339/] }],
    ["format", { misformatted: [/src\/domain\/slow-mode\.ts/] }],
    ["words", { "refused-word": [/docs\/operate\/start\.md:1: .*write: /] }],
    [
      "metrics",
      {
        "unwritten-metric": [
          /nobody writes homes\.turnSeconds/,
          /nobody writes forgotten/,
          /nobody writes homes\.read/,
          /nobody writes homes\.ends\.refused/,
        ],
      },
    ],
    [
      "knip",
      {
        "dead-export": [/forgotten .*src\/domain\/slow-mode\.ts:3/],
        "dead-file": [/Unused files[^]*src\/domain\/forgotten\.ts/],
        "dead-dependency": [/Unused dependencies[^]*ioredis/],
      },
    ],
    [
      "lint",
      {
        "floating-promise": [/no-floating-promises[^]*src\/actors\/channel\.ts:7/],
        "misused-promise": [/no-misused-promises[^]*src\/storage\/messages\.ts:6/],
        "inexhaustive-switch": [/switch-exhaustiveness-check[^]*src\/domain\/slow-mode\.ts:7/],
        "sideways-import": [/src\/http may not import src\/gateway[^]*src\/http\/messages\.ts:6/],
        "package-in-contract": [/src\/contract may not import Node's node:crypto/, /src\/contract[^]*the package pino/],
        barrel: [/no index files[^]*src\/gateway\/index\.ts/, /no `export \*`[^]*src\/gateway\/index\.ts/],
        "test-import": [/src\/main\.ts may not import a test/],
        "no-layer": [/src\/attic\/box\.ts stands in no layer/],
        "page-value-import": [/web\/operator may not import src\/contract[^]*web\/operator\/dashboard\.tsx:1/],
        "client-import": [/client may not import src\/domain/],
        "gateway-folders": [
          /src\/gateway\/protocol may not import src\/gateway\/state/,
          /src\/gateway\/state may not import src\/gateway\/fan-out/,
          /src\/gateway\/fan-out may not import src\/gateway\/replay/,
          /src\/gateway\/replay may not import src\/gateway\/sessions/,
          /src\/gateway\/sessions may not import src\/gateway\/requests/,
          /src\/gateway\/requests may not import src\/gateway[;]/,
        ],
        "integration-import": [/src\/integrations may not import src\/http[^]*src\/integrations\/captcha\.ts:1/],
        "view-import": [/src\/views may not import src\/http[^]*src\/views\/message-views\.ts:1/],
        "std-import": [/src\/std may not import src\/domain[^]*src\/std\/retry\.ts:1/],
        "resource-import": [/src\/http\/server may not import src\/http[^]*src\/http\/server\/server\.ts:1/],
        "page-import": [/src\/web may not import src\/http[^]*src\/web\/help-pages\.ts:1/],
        "doc-on-doc": [/style\(one-doc-comment\)[^]*src\/domain\/topics\.ts:2/],
        "password-hash-outside-integrations": [/only src\/integrations may import argon2, not src\/workers/],
      },
    ],
    [
      "lint",
      {
        "void-promise": [/no-floating-promises[^]*src\/actors\/channel\.ts:7/],
        "upward-import": [/src\/domain may not import src\/storage[^]*src\/domain\/slow-mode\.ts:2/],
        "type-import": [/src\/storage may not import src\/http[^]*src\/storage\/messages\.ts:3/],
        "process-env": [
          /src\/http may not read process\.env[^]*messages\.ts:4/,
          /src\/http may not read process\.env[^]*messages\.ts:8/,
        ],
      },
    ],
    [
      "lint",
      {
        cycle: [/import\(no-cycle\)[^]*src\/domain\/emptiness\.ts:2/],
        "redis-outside-cluster": [/only src\/cluster may import ioredis, not src\/storage/],
      },
    ],
  ])("%s refuses %j", async (gate, canaries) => {
    const { passed, output } = await judge({ gates: [gate], samples: ["clean", ...Object.keys(canaries)] })
    const complaints = output.split(/\n\s*\n/)
    for (const [canary, objections] of Object.entries(canaries))
      for (const objection of objections)
        expect({ canary, found: complaints.some(complaint => objection.test(complaint)), output }).toMatchObject({
          canary,
          found: true,
        })
    expect(passed).toBe(false)
  })

  test("lint refuses long functions, large objects of options and durations without a unit", async () => {
    const lines = Array.from({ length: 121 }, (_, i) => `  console.log(${i})\n`).join("")
    const members = Array.from({ length: 13 }, (_, i) => `  readonly member${i}: string\n`).join("")
    const long = Object.fromEntries(
      [
        "runtime",
        "http/server",
        "http/accounts",
        "gateway",
        "process",
        "storage/messages",
        "actors/social",
        "views",
      ].map(folder => [
        `src/${folder}/canary.ts`,
        `export function long(): void {\n${lines}}\nexport interface LongOptions {\n${members}}\n`,
      ]),
    )
    const folders = ["runtime", "cluster", "gateway", "process", "http/server", "actors", "domain", "storage"]
    const unitless = [...folders.map(folder => `src/${folder}`), "tests"].flatMap(folder => [
      `${folder}/unit.ts`,
      `${folder}/unit.test.ts`,
    ])
    const files = { ...long, ...Object.fromEntries(unitless.map(file => [file, "export const lease = 60\n"])) }
    const { output } = await judge({ gates: ["lint"], files })
    const complaints = output.split(/\n\s*\n/)
    const hears = (file: string, of: string) =>
      complaints.some(complaint => complaint.includes(of) && complaint.includes(file))
    for (const file of Object.keys(long))
      for (const rule of ["max-lines-per-function", "few-options"])
        expect({ file, rule, found: hears(file, rule) }).toMatchObject({ found: true })
    for (const file of unitless)
      expect({ file, found: hears(file, "lease is a number without a unit") }).toMatchObject({ found: true })
  })

  test("every row of the layer table refuses an import that it does not allow", async () => {
    const { layers } = (await import(join(project, "oxlint.config.mjs"))) as { layers: Record<string, Row> }
    const rows = Object.entries(layers).filter(([, { uses }]) => uses !== "anything")
    const isFile = (row: string) => /\.m?ts$/.test(row)
    const canaries = rows.map(([row, { uses }]) => {
      const refused = Object.keys(layers).filter(
        other => other !== row && other !== "tests" && !isFile(other) && !uses.includes(other),
      )
      // The nearest above is the one that is taken for allowed most easily.
      const above = refused.find(other => Object.keys(layers).indexOf(other) > Object.keys(layers).indexOf(row))
      return { row, file: isFile(row) ? row : `${row}/canary.ts`, refused: above ?? refused[0]! }
    })
    const pathTo = (file: string, target: string) => {
      const path = posix.relative(dirname(file), target)
      return path.startsWith(".") ? path : `./${path}`
    }
    const files = Object.fromEntries(
      canaries.map(({ file, refused }) => [file, `import "${pathTo(file, refused)}/target.ts"\n`]),
    )
    const { output } = await judge({ gates: ["lint"], files })
    const silent = canaries.filter(({ row, refused }) => !output.includes(`${row} may not import ${refused}`))
    expect(silent).toEqual([])
    expect(rows.length).toBeGreaterThan(50)
  })

  test("every gate refuses to have looked at no files", async () => {
    // The words of the scripts themselves are looked at, too, so that gate always has files.
    const gates = ["types", "pages", "lint", "format", "knip", "metrics"]
    const { passed, output } = await judge({ gates, samples: ["no-files"] })
    for (const gate of gates) expect(output).toMatch(new RegExp(`^FAIL  ${gate} +0 files`, "m"))
    expect(output.match(/looked at no files/g)).toHaveLength(gates.length)
    expect(passed).toBe(false)
  })

  const documented = [
    "package.json",
    "cluster.config.ts",
    "src",
    "client",
    "tests",
    "docs",
    "deploy",
    "scripts",
    "package-lock.json",
    "NOTICE",
    "web",
  ]

  test("docs lets the project pass", async () => {
    const { output } = await judge({ gates: ["docs"], parts: documented })
    expect(output).not.toContain("FAIL")
  })

  test("docs refuses documents that are not what the contract says, and invariants that stand twice, alone or nowhere", async () => {
    const { passed, output } = await judge({
      gates: ["docs"],
      parts: documented,
      samples: ["invariant-twice", "invariant-without-test", "invariant-unknown"],
      spoil: ["docs/api/errors.md", "docs/api/interfaces.json"],
    })
    for (const fault of [
      /FAIL {2}docs[^]*docs\/api\/errors\.md is not current/,
      /FAIL {2}docs[^]*docs\/api\/interfaces\.json is not current/,
      /again\.ts: PIN1 is already declared in src\/actors\/messages\/pins\.ts/,
      /no title of a test names ATTIC1/,
      /ATTIC2 in a title is not declared/,
    ])
      expect(output).toMatch(fault)
    expect(passed).toBe(false)
  })
})
