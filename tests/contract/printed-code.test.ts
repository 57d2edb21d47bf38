/** Every block of code in the pages of this repository runs as it stands there, or says why it cannot. */
import { readFileSync } from "node:fs"
import { afterAll, beforeAll, expect, test, vi } from "vitest"
import {
  blocksOf,
  deadLinksOf,
  faultsOf,
  pagesOf,
  runBlocksOf,
  runPage,
  startPrintedServer,
  type PrintedServer,
} from "../kit/printed-code.ts"

// `npm start` builds what has changed.
vi.setConfig({ testTimeout: 180_000 })

const root = new URL("../../", import.meta.url)
const pages = pagesOf().map(page => {
  const text = readFileSync(new URL(page, root), "utf8")
  return { page, text, ...blocksOf(page, text) }
})
const all = pages.flatMap(({ blocks }) => blocks)
const withCode = pages.filter(({ blocks }) => runBlocksOf(blocks).length > 0)

let server: PrintedServer
beforeAll(async () => {
  server = await startPrintedServer()
}, 180_000)
afterAll(() => server?.stop())

test("every block names a language; settings, JSON, requests and excerpts are right", () => {
  expect(pages.length).toBeGreaterThan(25)
  expect([...pages.flatMap(({ faults }) => faults), ...all.flatMap(faultsOf)]).toEqual([])
})

test("links between pages lead somewhere, and docs/README.md names every page below it", () => {
  expect(pages.flatMap(({ page, text }) => deadLinksOf(page, text))).toEqual([])
  const index = pages.find(({ page }) => page === "docs/README.md")!.text
  const listed = pages.flatMap(({ page }) => /^docs\/((?!internals\/adr\/|README).+)/.exec(page)?.[1] ?? [])
  expect(listed.length).toBeGreaterThan(25)
  expect(listed.filter(page => !index.includes(`](${page})`))).toEqual([])
  expect(deadLinksOf("docs/README.md", "[x](nothing.md) [y](#z) [v](README.md#nothing)\n# Z\n")).toHaveLength(2)
})

test("most commands run: what does not says why", () => {
  const notRun = all.filter(block => block.notRun !== undefined)
  const run = all.length - notRun.length
  expect(runBlocksOf(all).length, "blocks that run").toBeGreaterThan(10)
  expect(notRun.length, notRun.map(({ page, line, notRun }) => `${page}:${line} ${notRun}`).join("\n")).toBeLessThan(
    run,
  )
})

test.each(withCode)("what $page prints runs as printed", async ({ blocks }) => {
  const faults = await runPage(blocks, server)
  await server.forgetNames()
  expect(faults.join("\n\n")).toBe("")
})

test("a block that fails, prints something else, or is badly written is told with its place", async () => {
  const page = "docs/page.md"
  const fenced = (language: string, code: string) => `\`\`\`${language}\n${code}\n\`\`\`\n`
  const faults = (text: string) => {
    const { blocks, faults } = blocksOf(page, text)
    return [...faults, ...blocks.flatMap(faultsOf)]
  }
  for (const [text, what] of [
    [fenced("", "npm start"), "names no language"],
    [fenced("nginx", "listen 80;"), "nothing here runs this"],
    [fenced("json", "{"), "JSON"],
    [fenced("json", '{"rate_limits": {"nobody": {"requests": 1, "seconds": 1}}}'), "nobody"],
    [fenced("env", "PORT=many"), "PORT"],
    [fenced("env", "PORTS=8000"), "no such setting"],
    [fenced("http", "GET /api/v1/nowhere"), "no route"],
    [fenced("http", 'POST /api/v1/servers\n\n{"name": 5}'), "body name"],
    [`<!-- not run: -->\n${fenced("sh", "halt")}`, "has a reason"],
    [`<!-- not run: it needs root -->\n\n${fenced("sh", "halt")}`, "no block on the next line"],
    [`<!-- from: package.json -->\n${fenced("text", "nothing of the kind")}`, "says something else"],
    ["Run\n\n    npm start\n", "between fences"],
  ] as const)
    expect(faults(text).join(), text).toContain(what)
  expect(faults(`<!-- from: package.json -->\n${fenced("text", '  "name": "starling",')}`)).toEqual([])
  expect(faults(`<!-- not run: it needs root -->\n${fenced("sh", "halt")}`)).toEqual([])
  expect(faults(fenced("http", 'POST /api/v1/servers\n\n{"name": "Home"}'))).toEqual([])

  const run = (text: string) => runPage(blocksOf(page, text).blocks, server)
  const [refused] = await run(`${fenced("sh", "true")}\n${fenced("sh", "curl -s localhost:8000/api/v1/nowhere | cat")}`)
  expect(refused).toContain(`${page}:5: this block (sh) does not run as printed: exit code 22`)
  expect(refused).toContain("<!-- not run: reason -->")
  expect(
    await run(
      `${fenced("sh", "word=hello")}${fenced("sh", "echo $word there")}<!-- prints -->\n${fenced("text", "hello …e")}`,
    ),
  ).toEqual([])
  expect(await run(`${fenced("sh", "echo hello")}<!-- prints -->\n${fenced("text", "good bye")}`)).toEqual([
    expect.stringContaining(`${page}:5: the blocks before it do not print "good bye"`),
  ])
  expect(await run(`<!-- run until: two -->\n${fenced("sh", "echo one; echo two; sleep 600")}`)).toEqual([])
  expect(await run(`<!-- run until: two -->\n${fenced("sh", "echo one")}`)).toEqual([
    expect.stringContaining("it ended by itself"),
  ])
  const named = `${fenced("js", "// greet.js\nconsole.log(process.argv[2])")}\n${fenced("sh", "node greet.js hello")}`
  expect(await run(`${named}<!-- prints -->\n${fenced("text", "hello")}`)).toEqual([])
})
