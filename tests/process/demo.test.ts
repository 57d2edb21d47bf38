import { execFile } from "node:child_process"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import { gzipSync } from "node:zlib"
import { onTestFinished } from "vitest"
import { awkwardStrings } from "../kit/strings.ts"
import { expect, test } from "../kit/test.ts"

const root = fileURLToPath(new URL("../..", import.meta.url))

interface Run {
  code: number
  output: string
}

const demo = (...args: string[]): Promise<Run> =>
  promisify(execFile)(process.execPath, ["--import", "tsx", "demo/replay.ts", ...args], { cwd: root }).then(
    ({ stdout, stderr }) => ({ code: 0, output: stdout + stderr }),
    (error: { code: number; stdout: string; stderr: string }) => ({
      code: error.code,
      output: error.stdout + error.stderr,
    }),
  )

async function recording(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "starling-recording-"))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const texts = awkwardStrings.filter(text => text.trim() !== "")
  const lines = Array.from({ length: 120 }, (_, i) => ({
    at: 1_700_000_000 + i,
    server: `server ${i % 2}`,
    channel: `channel ${i % 5}`,
    author: `author ${i % 7}`,
    text: texts[i % texts.length],
  }))
  const file = join(folder, "conversation.jsonl.gz")
  await writeFile(file, gzipSync(lines.map(line => JSON.stringify(line)).join("\n")))
  return file
}

test("the demo replays a recording and every listener hears all of it once, in order, letter by letter", async ({
  cluster,
}) => {
  const [place] = await cluster.boot(2)
  const { code, output } = await demo(await recording(), "--url", place!.url, "--listeners", "4")
  expect(output).toContain("every listener saw every message of its channels once, in order, letter by letter")
  expect(code).toBe(0)
  const [row] = await cluster.sql<{ count: number }[]>`SELECT count(*)::int AS count FROM messages`
  expect(row!.count).toBe(120)
})

test("a limited server makes the demo say so and stop", async ({ cluster }) => {
  const [place] = await cluster.boot(1, { limited: true })
  const { code, output } = await demo(await recording(), "--url", place!.url)
  expect(output).toMatch(/RATE_LIMITS/)
  expect(code).not.toBe(0)
})
