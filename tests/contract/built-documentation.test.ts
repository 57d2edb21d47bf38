import { execFile } from "node:child_process"
import { cp, mkdtemp, readFile, rm, symlink, unlink, writeFile } from "node:fs/promises"
import { createRequire } from "node:module"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import { expect, onTestFinished, test } from "vitest"
// @ts-expect-error plain JavaScript, because it runs before anything else is made
import { bundle } from "../../scripts/bundle.mjs"

const project = join(import.meta.dirname, "../..")
const { resolve } = createRequire(import.meta.url)

/** Prints each page, with the files that it names, as the built module makes them. */
const ask = `
import { createRequire } from "node:module"
import { asyncapiDocument } from "./dist/src/asyncapi.js"
import { documentationPages } from "./dist/src/pages.js"
import { operatorPages } from "./dist/src/operators.js"

const about = { title: "Starling", publicUrl: "http://localhost", version: "1" }
const pages = documentationPages({
  openapi: function* () { return { servers: [] } },
  asyncapi: () => asyncapiDocument(about),
  title: "Starling",
})
const found = {}
for (const path of ["/docs", "/redoc", "/docs/oauth2-redirect"]) {
  const text = (await pages.docs(path)).body.toString()
  for (const [, asset] of text.matchAll(/(?:src|href)="(\\/docs\\/assets\\/[^"]+)"/g))
    found[asset.replace(/^.*\\/|\\.[0-9a-f]{10}(?=\\.\\w+$)/g, "")] = (await pages.docsAssets(asset)).body.toString()
}
const operators = operatorPages({ serverName: "Starling" })
for (const page of ["operatorLogin", "operatorDashboard"])
  for (const [, asset] of (await operators[page]("")).body.toString().matchAll(/(?:src|href)="(assets\\/[^"]+)"/g))
    found[asset.replace(/^.*\\/|-\\w+(?=\\.\\w+$)/g, "")] = (await operators.operatorAssets(asset)).body.toString()
const { resolve } = createRequire(import.meta.url)
const installed = ["redoc/package.json", "swagger-ui-dist/package.json", "preact/package.json"].filter(name => {
  try { return resolve(name) } catch { return false }
})
process.stdout.write(JSON.stringify({ installed, found }))
`

test("what is built serves its pages without the packages that they come from", { timeout: 60_000 }, async () => {
  const folder = await mkdtemp(join(tmpdir(), "starling-pages-"))
  onTestFinished(() => rm(folder, { recursive: true }))
  for (const part of ["src", "web", "client", "tsconfig.json", "cluster.config.ts", "package.json"])
    await cp(join(project, part), join(folder, part), { recursive: true })
  await symlink(join(project, "node_modules"), join(folder, "node_modules"), "dir")
  await bundle(folder, {
    maps: false,
    entryPoints: {
      pages: "src/web/documentation-pages.ts",
      operators: "src/web/operator-pages.ts",
      asyncapi: "src/apidocs/asyncapi.ts",
    },
  })
  await unlink(join(folder, "node_modules"))
  await rm(join(folder, "src"), { recursive: true })
  await writeFile(join(folder, "ask.mjs"), ask)

  const run = promisify(execFile)
  const { stdout } = await run(process.execPath, ["ask.mjs"], { cwd: folder, maxBuffer: 64 * 1_048_576 })
  const { installed, found } = JSON.parse(stdout) as { installed: string[]; found: Record<string, string> }
  expect(installed).toEqual([])
  for (const file of ["swagger-ui-bundle.js", "swagger-ui.css", "oauth2-redirect.js"])
    expect(found[file] === (await readFile(resolve(`swagger-ui-dist/${file}`), "utf8"))).toBe(true)
  const redoc = await readFile(resolve("redoc/bundles/redoc.standalone.js"), "utf8")
  expect(found["redoc.standalone.js"]?.slice(0, 10_000)).toBe(redoc.slice(0, 10_000))
  for (const file of ["operator-login.js", "operator-login.css", "operator.js", "operator.css", "part.js"])
    expect([file, found[file]?.length ?? 0]).toEqual([file, expect.toSatisfy((length: number) => length > 1_000)])
  expect(await readFile(join(folder, "dist/src/web/built/LICENSES"), "utf8")).toContain("preact")
  expect(found["redoc.standalone.js"]).not.toContain("https://cdn.redoc.ly/redoc/logo-mini.svg")
})
