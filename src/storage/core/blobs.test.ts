import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, expect, test } from "vitest"
import { incomingFile, isBlobKey, openLocalBlobs, serverFile, serverFiles, type Blobs } from "./blobs.ts"

let folder: string
let blobs: Blobs
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "blobs-"))
  blobs = openLocalBlobs(join(folder, "files"))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

const name = (digit: string) => digit.repeat(32)
const bytes = Buffer.from(Array.from({ length: 1000 }, (_, i) => i % 256))

test("what is put is there, byte for byte, until it is deleted; what is not there is not missed", async () => {
  const key = serverFile("1", name("a"))
  expect(await blobs.get(key)).toBeUndefined()
  await blobs.put(key, bytes)
  expect(await blobs.get(key)).toEqual(bytes)
  // Another that was opened on the same folder, as on another host.
  expect(await openLocalBlobs(join(folder, "files")).get(key)).toEqual(bytes)
  expect(await readdir(join(folder, "files/servers/1"))).toEqual([name("a")])
  for (let i = 0; i < 2; i++) await blobs.delete(key)
  expect(await blobs.get(key)).toBeUndefined()
})

test("a key with a slash at its end stands for all below it, and for nothing beside it", async () => {
  for (const server of ["1", "12"])
    for (const digit of ["a", "b"]) await blobs.put(serverFile(server, name(digit)), bytes)
  for (let i = 0; i < 2; i++) await blobs.delete(serverFiles("1"))
  expect(await blobs.get(serverFile("1", name("a")))).toBeUndefined()
  expect(await blobs.get(serverFile("12", name("a")))).toEqual(bytes)
})

test("what was never finished is not there, and goes with its key", async () => {
  const at = join(folder, "files/servers/3")
  await mkdir(at, { recursive: true })
  await writeFile(join(at, `${name("c")}.part`), "half")
  expect(await blobs.get(serverFile("3", name("c")))).toBeUndefined()
  await blobs.delete(serverFile("3", name("c")))
  expect(await readdir(at)).toEqual([])
})

test("what is on its way only is there whole as well, and nothing is left of it", async () => {
  const key = incomingFile(name("e"))
  for (let i = 0; i < 2; i++) {
    await blobs.putPieces(
      key,
      (async function* () {
        yield bytes.subarray(0, 1)
        // Under its name from the beginning: nobody is told of it before it is whole.
        expect(await readdir(join(folder, "files/incoming"))).toEqual([name("e")])
        yield bytes.subarray(1)
      })(),
    )
    expect(await blobs.get(key)).toEqual(bytes)
    expect(await readdir(join(folder, "files/incoming"))).toEqual([name("e")])
    await blobs.delete(key)
    expect(await readdir(join(folder, "files/incoming"))).toEqual([])
    await rm(join(folder, "files/incoming"), { recursive: true })
  }
})

test("files come while those beside them go with their folder", async () => {
  const outcomes = await Promise.allSettled(
    Array.from({ length: 20 }, (_, i) =>
      i % 5 === 4 ? blobs.delete(serverFiles("4")) : blobs.put(serverFile("4", name((i % 16).toString(16))), bytes),
    ),
  )
  await blobs.put(serverFile("4", name("f")), bytes)
  expect(await blobs.get(serverFile("4", name("f")))).toEqual(bytes)
  // What comes in the moment in which its folder goes may fail: its server is gone.
  for (const { reason } of outcomes.filter(outcome => outcome.status === "rejected"))
    expect((reason as NodeJS.ErrnoException).code).toMatch(/^ENOENT|ENOTEMPTY$/)
})

test("nothing leads out of the folder", async () => {
  for (const key of [
    "",
    "/",
    "x",
    "servers/",
    "servers/1",
    "servers/1/..",
    "../../secret.key",
    `servers/1/${name("A")}`,
    `servers/../${name("a")}`,
    `servers/1/${name("a")}/`,
    `servers/1/${name("a")}\n`,
  ]) {
    expect(isBlobKey(key)).toBe(false)
    await expect(blobs.put(key, bytes)).rejects.toThrow("is no key")
    await expect(blobs.get(key)).rejects.toThrow("is no key")
    await expect(blobs.delete(key)).rejects.toThrow("is no key")
  }
})
