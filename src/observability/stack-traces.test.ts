import { execFile } from "node:child_process"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import { build } from "esbuild"
import { expect, onTestFinished, test } from "vitest"
import { inSource } from "./stack-traces.ts"

const text = `interface Nothing {}

function fall(): Error {
  return [0].map(() => new TypeError("down"))[0]!
}

console.log(fall().stack)
`

/** The stack as Node itself tells it: the runner of the tests would name other lines. */
async function stackOf({ sourcemap }: { sourcemap: boolean }): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "starling-stacks-"))
  onTestFinished(() => rm(folder, { recursive: true }))
  const source = join(folder, "source.ts")
  await writeFile(source, text)
  const made = join(folder, "dist", "made.js")
  await build({ entryPoints: [source], outfile: made, bundle: true, format: "esm", sourcemap })
  await writeFile(join(folder, "package.json"), `{ "type": "module" }`)
  const { stdout } = await promisify(execFile)(process.execPath, [made])
  expect(stdout).toMatch(/fall \(file:.*made\.js:/)
  return inSource(stdout)!
}

test("a stack names the lines of the sources, and leaves those of Node as they are", async () => {
  const [name, first, second, third] = (await stackOf({ sourcemap: true })).split("\n")
  expect(name).toBe("TypeError: down")
  expect(first).toMatch(/^ {4}at \/.*\/source\.ts:4:24$/)
  expect(second).toBe("    at Array.map (<anonymous>)")
  expect(third).toMatch(/^ {4}at fall \(\/.*\/source\.ts:4:14\)$/)
})

test("without a map it stays as it is", async () => {
  expect(await stackOf({ sourcemap: false })).toMatch(/fall \(file:.*made\.js:\d+:\d+\)/)
  expect(inSource(undefined)).toBeUndefined()
})
