import { mkdtemp, readFile, rename, rm, stat, utimes, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, expect, test, vi } from "vitest"
import { until } from "../../tests/kit/until.ts"
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

test("a claim is read when it is not as its last heartbeat left it: another in its place is noticed, also one with the same time", async () => {
  const file = await newFile()
  const msOf = async () => Math.round((await stat(file)).mtimeMs)
  const setTime = (of: string, ms: number) => utimes(of, new Date(ms), new Date(ms))
  /** A time that a file has as a number with a fraction, a bit below it, as half of all have. */
  const inexactFrom = async (from: number) => {
    await writeFile(file, "")
    for (let ms = from; ; ms++) {
      await setTime(file, ms)
      if ((await stat(file)).mtimeMs !== ms) return ms
    }
  }
  const first = await inexactFrom(Date.now())
  const second = await inexactFrom(first + 1)
  await rm(file)
  let losses = 0
  vi.useFakeTimers({ toFake: ["Date"], now: first })
  const untilTouchedAt = (ms: number) => until("it is touched", async () => losses > 0 || (await msOf()) === ms)
  try {
    const release = await claimFolder(file, { error: () => losses++ })
    const mine = await readFile(file, "utf8")
    await untilTouchedAt(first)
    // Reading it at each heartbeat would be four more calls a second.
    await writeFile(file, elsewhere)
    await setTime(file, first)
    vi.setSystemTime(second)
    await untilTouchedAt(second)
    expect(losses).toBe(0)
    await writeFile(file, mine)
    await untilTouchedAt(second)

    await writeFile(`${file}.other`, elsewhere)
    await setTime(`${file}.other`, second)
    await rename(`${file}.other`, file)
    vi.setSystemTime(first)
    await until("it is noticed", () => losses > 0)
    expect(await msOf()).toBe(second)
    await release()
    expect(await readFile(file, "utf8")).toBe(elsewhere)
  } finally {
    vi.useRealTimers()
  }
}, 60_000)
