import { execFile } from "node:child_process"
import { mkdtemp, open, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import { expect, onTestFinished, test } from "vitest"
import { tarEnd, tarEntries, tarHeader, tarPadding, tarPieces, TarProblem } from "./tar.ts"

async function archive(entries: Record<string, string>) {
  const folder = await mkdtemp(join(tmpdir(), "starling-tar-"))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const path = join(folder, "some.tar")
  const file = await open(path, "w+")
  onTestFinished(() => file.close())
  for (const [name, text] of Object.entries(entries)) {
    const bytes = Buffer.from(text)
    await file.write(Buffer.concat([tarHeader(name, bytes.length, 1_700_000_000), bytes, tarPadding(bytes.length)]))
  }
  await file.write(tarEnd())
  return { path, file }
}

const entries = {
  "empty.txt": "",
  "folder/one block": "x".repeat(512),
  [`${"long/".repeat(19)}name.`]: "ä".repeat(1_000),
}

test("tar itself reads what is written, and what is written is read back", async () => {
  const { path, file } = await archive(entries)
  const { stdout } = await promisify(execFile)("tar", ["-tf", path])
  expect(stdout.trim().split("\n")).toEqual(Object.keys(entries))
  const { stdout: content } = await promisify(execFile)("tar", ["-xOf", path, Object.keys(entries)[2]!])
  expect(content).toBe("ä".repeat(1_000))

  const found: Record<string, string> = {}
  for await (const entry of tarEntries(file)) {
    const pieces: Buffer[] = []
    for await (const piece of tarPieces(file, entry, 300)) pieces.push(Buffer.from(piece))
    found[entry.name] = Buffer.concat(pieces).toString()
  }
  expect(found).toEqual(entries)
})

test("what is cut off, damaged or no archive is told from a whole one", async () => {
  const all = async (file: Parameters<typeof tarEntries>[0]) => {
    for await (const entry of tarEntries(file)) for await (const _ of tarPieces(file, entry, 1_000));
  }
  const cut = await archive(entries)
  await cut.file.truncate(512 + 512 + 200)
  await expect(all(cut.file)).rejects.toThrow(/cut off in folder/)
  await cut.file.truncate(512)
  await expect(all(cut.file)).rejects.toThrow(TarProblem)
  const damaged = await archive(entries)
  await damaged.file.write("y", 3)
  await expect(all(damaged.file)).rejects.toThrow(/damaged/)
  expect(() => tarHeader("x".repeat(101), 1, 1)).toThrow(TarProblem)
})
