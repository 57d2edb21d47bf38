import { mkdtemp, readFile, rename, rm, stat, utimes, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, expect, test, vi } from "vitest"
import { claimFolder } from "./folder-claim.ts"

const folders: string[] = []
afterEach(async () => {
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true, force: true })
})
async function newFile(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "starling-claim-"))
  folders.push(folder)
  return join(folder, "lock")
}
const log = { error: () => undefined }
/** As a server on a host with another kernel would have written it. */
const elsewhere = JSON.stringify({ pid: 17, birth: "x", kernel: "another", namespace: "pid:[1]", host: "other-host" })

test("a folder is claimed once, and again after its release", async () => {
  const file = await newFile()
  const release = await claimFolder(file, log)
  await expect(claimFolder(file, log)).rejects.toThrow(`in use by process ${process.pid}`)
  await release()
  await (
    await claimFolder(file, log)
  )()
})

test("a claim of another host holds while its heartbeat is seen, and no longer", async () => {
  const file = await newFile()
  await writeFile(file, elsewhere)
  const beats = setInterval(() => void utimes(file, new Date(), new Date()), 200)
  await expect(claimFolder(file, log)).rejects.toThrow("in use by process 17, started on other-host")
  clearInterval(beats)
  expect(await readFile(file, "utf8")).toBe(elsewhere)
  const release = await claimFolder(file, log)
  expect(JSON.parse(await readFile(file, "utf8"))).toMatchObject({ pid: process.pid })
  await release()
}, 30_000)

test("a claim that was cut off while it was written belongs to nobody", async () => {
  const file = await newFile()
  await writeFile(file, "")
  await (
    await claimFolder(file, log)
  )()
})

test("who has lost a claim to another neither keeps nor removes it", async () => {
  const file = await newFile()
  let losses = 0
  const release = await claimFolder(file, { error: () => losses++ })
  // As if this process was paused until another host took it for dead.
  const longAgo = new Date(0)
  await writeFile(`${file}.other`, elsewhere)
  await utimes(`${file}.other`, longAgo, longAgo)
  await rename(`${file}.other`, file)
  const touchedAtMs = async () => (await stat(file)).mtimeMs
  await vi.waitUntil(async () => losses > 0 || (await touchedAtMs()) > 0, { timeout: 20_000 })
  expect(await touchedAtMs()).toBe(0)
  await release()
  expect(await readFile(file, "utf8")).toBe(elsewhere)
}, 30_000)
