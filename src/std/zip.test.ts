import { execFileSync } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { randomBytes } from "node:crypto"
import { deflateRawSync } from "node:zlib"
import { expect, test } from "vitest"
import { unzipped, zipOf } from "./zip.ts"

async function* pieces(bytes: Uint8Array, size: number): AsyncGenerator<Uint8Array, void> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}
async function all(source: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const found: Uint8Array[] = []
  for await (const piece of source) found.push(piece)
  return Buffer.concat(found)
}

const contents = {
  nothing: Buffer.alloc(0),
  text: Buffer.from("one line\n".repeat(100_000)),
  noise: randomBytes(700_000),
}

test.each(Object.entries(contents))("%s comes back as it was, however it is cut", async (_, content) => {
  const archive = await all(zipOf("a.log", pieces(content, 65_537), new Date()))
  for (const size of [1_009, 100_000, archive.length])
    expect((await all(unzipped(pieces(archive, size)))).equals(content)).toBe(true)
})

test("what opens archives opens ours, and its own archives are read", async () => {
  const folder = mkdtempSync(join(tmpdir(), "starling-zip-"))
  try {
    const path = join(folder, "a.zip")
    writeFileSync(path, await all(zipOf("größe.log", pieces(contents.text, 10_000), new Date("2026-11-27T10:08:54Z"))))
    const program = `
import sys, zipfile, io
archive = zipfile.ZipFile(sys.argv[1])
assert archive.testzip() is None
[info] = archive.infolist()
print(info.filename, info.file_size, info.date_time)
other = io.BytesIO()
with zipfile.ZipFile(other, "w", zipfile.ZIP_DEFLATED) as made: made.writestr("b.log", "two\\n" * 1000)
open(sys.argv[1] + "2", "wb").write(other.getvalue())`
    const said = execFileSync("python3", ["-c", program, path], { encoding: "utf8" })
    expect(said.trim()).toBe(`größe.log ${contents.text.length} (2026, 11, 27, 10, 8, 54)`)
    expect((await all(unzipped(pieces(readFileSync(`${path}2`), 100)))).toString()).toBe("two\n".repeat(1000))
  } finally {
    rmSync(folder, { recursive: true })
  }
})

test("an archive that is cut, none at all, and a reader that has enough end without a hanging promise", async () => {
  const archive = await all(zipOf("a.log", pieces(contents.noise, 50_000), new Date()))
  await expect(all(unzipped(pieces(archive.subarray(0, 200_000), 1_000)))).rejects.toThrow()
  await expect(all(unzipped(pieces(archive.subarray(0, 10), 1)))).rejects.toThrow("cut")
  await expect(all(unzipped(pieces(Buffer.from("no archive, whatever its name says"), 10)))).rejects.toThrow(
    "no archive",
  )
  const broken = await all(zipOf("a.log", pieces(contents.text, 50_000), new Date()))
  broken.fill(0xff, 40, 60)
  await expect(all(unzipped(pieces(broken, 1_000)))).rejects.toThrow()
  let isClosed = false
  async function* watched() {
    try {
      yield* pieces(archive, 1_000)
    } finally {
      isClosed = true
    }
  }
  for await (const piece of unzipped(watched())) {
    expect(piece.length).toBeGreaterThan(0)
    break
  }
  expect(isClosed).toBe(true)
  async function* failing(): AsyncGenerator<Uint8Array, void> {
    yield deflateRawSync("x")
    throw new Error("the disk fails")
  }
  await expect(all(zipOf("a", failing(), new Date()))).rejects.toThrow("the disk fails")
})
