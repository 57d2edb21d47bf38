/** Files in an object store: a real one, of this file's own. */
import { createHash, randomBytes } from "node:crypto"
import { once } from "node:events"
import { mkdtemp, readdir, rm } from "node:fs/promises"
import { createServer, request } from "node:http"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll } from "vitest"
import type { ApiError } from "../../client/rest.ts"
import { bucketPlace, type FilePlace } from "../../src/domain/core/file-places.ts"
import { operator } from "../../src/process/operator/operator.ts"
import { openLocalBlobs, serverFile, serverFiles, uploadFile, type Blobs } from "../../src/storage/core/blobs.ts"
import { moveFiles } from "../../src/storage/core/move-files.ts"
import { openBlobs, withFallback } from "../../src/storage/core/open-blobs.ts"
import { openLink } from "../chaos/proxy.ts"
import { gauge, type Cluster, type Worker } from "../kit/cluster.ts"
import { send } from "../kit/exchange.ts"
import { builtWithinMs, ownObjectStore, type OwnObjectStore } from "../kit/object-store.ts"
import type { Person } from "../kit/person.ts"
import { apng, blobOf, fileOf, html, png } from "../kit/pictures.ts"
import { sharedServer } from "../kit/seeds.ts"
import { expect, test as story } from "../kit/test.ts"
import { until } from "../kit/until.ts"

let made: OwnObjectStore | string
let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "starling-store-"))
  made = await ownObjectStore()
}, builtWithinMs)
afterAll(async () => {
  if (typeof made === "object") await made.close()
  await rm(folder, { recursive: true, force: true })
})

/** With a store, or not at all. */
const test = story.extend<{ store: OwnObjectStore; bucket: string }>({
  store: async ({ skip }, use) => {
    if (typeof made === "string") skip(made)
    else await use(made)
  },
  bucket: async ({ store }, use) => {
    const name = `b${randomBytes(6).toString("hex")}`
    await store.makeBucket(name)
    await use(name)
  },
})

const name = (byte = randomBytes(1)[0]!) => Buffer.from([byte, ...randomBytes(15)]).toString("hex")
const upload = () => uploadFile(`${name()}.dat`)
const blobsAt = (place: FilePlace, more: { isRedirecting?: boolean } = {}) =>
  openBlobs({ place, partsFolder: join(folder, "parts"), isRedirecting: false, ...more })
const sha256 = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex")
const mebibyte = 1024 * 1024

async function* piecesOf(bytes: Uint8Array, pieceBytes = 100_000): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += pieceBytes) yield bytes.subarray(at, at + pieceBytes)
}

async function readAll(blobs: Blobs, key: string, pieceBytes = 131_072): Promise<Buffer | undefined> {
  const file = await blobs.open(key)
  if (!file) return undefined
  const pieces: Buffer[] = []
  for (let at = 0; at < file.size; at += pieceBytes) pieces.push(await file.read(at, pieceBytes))
  await file.close()
  return Buffer.concat(pieces)
}

async function keysOf(blobs: Blobs): Promise<string[]> {
  const keys: string[] = []
  for await (const { key } of blobs.list()) keys.push(key)
  return keys.toSorted()
}

/** A place in front of the store that treats some answers in a way of its own. */
async function inFront(port: number, loses: (method: string, url: string) => boolean) {
  const seen: string[] = []
  let underWay = 0
  const server = createServer((from, to) => {
    underWay += 1
    to.on("close", () => (underWay -= 1))
    const { method = "", url = "", headers } = from
    seen.push(`${method} ${url.replace(/^[^?]*/, "").replaceAll(/=[^&]*/g, "")}`)
    const onward = request({ port, host: "127.0.0.1", method, path: url, headers }, answer => {
      if (!loses(method, url)) {
        to.writeHead(answer.statusCode!, answer.headers)
        answer.pipe(to)
        return
      }
      answer.resume().on("end", () => from.socket.destroy())
    })
    onward.on("error", () => from.socket.destroy())
    from.pipe(onward)
    to.on("close", () => onward.destroy())
  })
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  return {
    port: (server.address() as AddressInfo).port,
    seen,
    underWay: () => underWay,
    close: () => {
      server.closeAllConnections()
      server.close()
    },
  }
}

test("a bucket keeps files of every length byte for byte, reads any part of them, and nothing is left of what is deleted", async ({
  store,
  bucket,
}) => {
  const blobs = blobsAt(bucketPlace(store.url(`${bucket}/pre/fix`)))
  await blobs.check()
  const kept = new Map<string, Buffer>()
  // At a part's end, beside it, and in the third.
  for (const size of [1, 300_000, 8 * mebibyte, 8 * mebibyte + 1, 16 * mebibyte, 20 * mebibyte]) {
    const [key, bytes] = [upload(), randomBytes(size)]
    kept.set(key, bytes)
    await blobs.putPieces(key, piecesOf(bytes))
  }
  for (const [key, bytes] of kept) {
    expect(sha256((await readAll(blobs, key))!)).toBe(sha256(bytes))
    const from = Math.floor(bytes.length / 3)
    const part = await blobs.open(key, { from, length: bytes.length - from })
    expect(part!.size).toBe(bytes.length)
    // In any order.
    for (const at of [from, bytes.length - 1, from])
      expect(await part!.read(at, 1000)).toEqual(bytes.subarray(at, at + 1000))
    await part!.close()
  }
  for (const server of ["1", "12"]) {
    for (let i = 0; i < 20; i++) await blobs.put(serverFile(server, name(i)), Buffer.from(`${server} ${i}`))
  }
  expect(await keysOf(blobs)).toHaveLength(46)
  await blobs.delete(serverFiles("1"))
  const [left] = (await keysOf(blobs)).filter(key => key.startsWith("servers/"))
  expect((await blobs.get(left!))!.toString()).toMatch(/^12 \d+$/)
  expect((await keysOf(blobs)).filter(key => key.startsWith("servers/12/"))).toHaveLength(20)
  for (let i = 0; i < 2; i++) for (const key of kept.keys()) await blobs.delete(key)
  await blobs.delete(serverFiles("12"))
  expect(await keysOf(blobs)).toEqual([])
  expect(await blobs.get(upload())).toBeUndefined()
  await expect(blobs.get("servers/../x")).rejects.toThrow("is no key")
  const stranger = blobsAt({ ...bucketPlace(store.url(bucket)), secretAccessKey: "wrong" })
  await expect(stranger.check()).rejects.toMatchObject({ code: "unavailable" })
  stranger.close()
  // Where there is no bucket nothing is known about its files.
  const nowhere = blobsAt(bucketPlace(store.url("nowhere")))
  const [key] = kept.keys()
  for (const ask of [() => nowhere.get(key!), () => nowhere.delete(key!), () => nowhere.check()])
    await expect(ask()).rejects.toMatchObject({ code: "unavailable" })
  nowhere.close()
  blobs.close()
})

test("what is given up, or ends with its process, is not there, and its parts go with its key", async ({
  store,
  bucket,
}) => {
  const place = bucketPlace(store.url(bucket))
  const front = await inFront(store.port, () => false)
  const blobs = blobsAt({ ...place, origin: `http://127.0.0.1:${front.port}` })
  const uploadsLeft = async (at: string) => {
    front.seen.length = 0
    await blobs.delete(at)
    return front.seen.filter(line => line === "DELETE ?uploadId").length
  }
  const [refused, killed] = [upload(), upload()]
  await expect(
    blobs.putPieces(
      refused,
      (async function* () {
        yield randomBytes(20 * mebibyte)
        throw new Error("of a wrong type")
      })(),
    ),
  ).rejects.toThrow("of a wrong type")
  const isTold = () => front.seen.includes("DELETE ?uploadId") && front.underWay() === 0
  await until("the store was told, and has answered", isTold)
  expect(await uploadsLeft(refused)).toBe(0)

  // As when a worker is killed: nobody says anything any more.
  let isSent = false
  let end = () => {}
  const ended = new Promise<void>(resolve => (end = resolve))
  const dying = blobs.putPieces(
    killed,
    (async function* () {
      yield randomBytes(20 * mebibyte)
      isSent = true
      await ended
      throw new Error("for the sake of the test")
    })(),
  )
  // A store may keep a part that arrives while it gives up the upload.
  front.seen.length = 0
  const parts = () => front.seen.filter(line => line.startsWith("PUT ?partNumber")).length
  await until("two parts are there", () => isSent && parts() === 2 && front.underWay() === 0)
  expect(await keysOf(blobs)).toEqual([])
  expect(await uploadsLeft(killed)).toBe(1)
  expect(await uploadsLeft(killed)).toBe(0)
  end()
  await expect(dying).rejects.toThrow()
  expect(await readdir(join(folder, "parts"))).toEqual([])
  blobs.close()
  front.close()
})

test("STORE2: what the store has done although its answer was lost is done once, and a broken download goes on", async ({
  store,
  bucket,
}) => {
  const place = bucketPlace(store.url(bucket))
  const lost: string[] = []
  // The first answer of each kind.
  const front = await inFront(store.port, (method, url) => {
    const kind = `${method} ${/uploadId|partNumber/.exec(url)?.[0] ?? ""}`
    if (["GET ", "DELETE ", "HEAD "].includes(kind) || url.includes("uploads=") || lost.includes(kind)) return false
    lost.push(kind)
    return true
  })
  const blobs = blobsAt({ ...place, origin: `http://127.0.0.1:${front.port}` })
  const [short, long] = [upload(), upload()]
  const bytes = randomBytes(18 * mebibyte)
  await blobs.putPieces(short, piecesOf(bytes.subarray(0, 1000)))
  await blobs.putPieces(long, piecesOf(bytes))
  expect(lost).toEqual(["PUT ", "PUT partNumber", "POST uploadId"])
  expect((await readAll(blobs, short))!.equals(bytes.subarray(0, 1000))).toBe(true)
  blobs.close()
  front.close()

  const link = await openLink("store", () => ({ host: "127.0.0.1", port: store.port }))
  const through = blobsAt(bucketPlace(store.url(bucket, link.port)))
  const file = (await through.open(long))!
  const pieces: Buffer[] = []
  for (let at = 0; at < file.size; at += 131_072) {
    if (at % (4 * mebibyte) === 0) link.reset()
    pieces.push(await file.read(at, 131_072))
  }
  await file.close()
  expect(Buffer.concat(pieces).equals(bytes)).toBe(true)
  expect(link.counts.connections).toBeGreaterThan(4)
  through.close()
  await link.close()
})

const attachmentOf = (bytes: Uint8Array, filename = "big.dat") =>
  fileOf(Buffer.from(bytes), filename, "application/octet-stream")

const told = (asked: Promise<unknown>) =>
  asked.then(
    () => "granted",
    (error: ApiError) => `${error.status} ${/\(.*\)$/.exec(error.message)?.[0] ?? ""}`,
  )

async function sceneOn(cluster: Cluster, worker: Worker) {
  const { ada, lin, channel } = await cluster.seed(sharedServer)
  await cluster.sql`UPDATE users SET tier = 'staff' WHERE id = ${ada.id}`
  const staff = await ada.signIn(worker)
  const put = async (bytes: Uint8Array, filename?: string) =>
    staff.on(worker).uploadAttachment({ channel_id: channel.id, file: attachmentOf(bytes, filename) })
  const read = async (on: Worker, url: string, by: Person = staff) =>
    sha256((await send(on, url, { token: by.token })).bytes)
  return { ada: staff, lin, channel_id: channel.id, put, read }
}

test("P11, STORE1, STORE3: a store that is killed or paused while files go in and out is a typed 503 in time, and nothing is half there", async ({
  store,
  bucket,
  cluster,
}) => {
  const [worker] = await cluster.boot(1, { config: { FILES_URL: store.url(bucket) } })
  const { ada, channel_id, put, read } = await sceneOn(cluster, worker!)
  const blobs = blobsAt(bucketPlace(store.url(bucket)))
  const bytes = randomBytes(40 * mebibyte)
  const whole = await put(bytes)
  const ready = async () => (await (await fetch(`${worker!.url}/readyz`)).json()) as { checks: Record<string, string> }
  const hurt = async (begin: () => Promise<void>, end: () => Promise<void>) => {
    const written = () => gauge(worker!, "starling_file_store_bytes_total", "written")
    const before = await written()
    const uploads = Array.from({ length: 2 }, () => told(put(bytes)))
    await until("parts are under way", async () => (await written()) > before)
    await begin()
    const startedAt = performance.now()
    const refusals = await Promise.all([
      ...uploads,
      told(ada.on(worker!).getAttachment({ filename: whole.id })),
      told(put(bytes.subarray(0, 1000))),
    ])
    // By the clients' bound, with what a busy machine adds.
    expect(performance.now() - startedAt).toBeLessThan(15_000)
    expect(refusals).toEqual(refusals.map(() => "503 (the file store does not answer)"))
    expect(await ready()).toMatchObject({ status: "ready", checks: { postgres: "ok", files: "failing" } })
    expect(await gauge(worker!, "starling_file_store_troubled")).toBe(1)
    // Everything else goes on.
    await ada.on(worker!).createMessage({ channel_id, content: "meanwhile" })
    await end()
    await until("it is well", async () => (await ready()).checks["files"] === "ok")
    expect(await gauge(worker!, "starling_file_store_troubled")).toBe(0)
  }
  const faults = [
    [store.kill, store.start],
    [store.pause, store.resume],
  ] as const
  for (const [begin, end] of faults)
    try {
      await hurt(begin, end)
    } finally {
      await store.resume()
    }
  expect(await read(worker!, whole.url)).toBe(sha256(bytes))
  await cluster.sql`UPDATE unused_files SET since = 0`
  await cluster.bootJobWorker({ config: { FILES_URL: store.url(bucket) } })
  await until("what was refused is gone", async () => (await cluster.sql`SELECT FROM unused_files`).length === 0)
  const rows = await cluster.sql<{ blob: string }[]>`SELECT blob FROM upload_contents`
  expect(await keysOf(blobs)).toEqual(rows.map(({ blob }) => uploadFile(blob)).toSorted())
  blobs.close()
})

test("a download is checked here and then sent to the store, for a moment, with the headers that keep it harmless", async ({
  store,
  bucket,
  cluster,
}) => {
  const config = { FILES_URL: store.url(bucket), FILES_REDIRECT: "on" }
  const [east, west] = await cluster.boot(2, { config })
  const { ada, lin, channel_id, put } = await sceneOn(cluster, east!)
  const bytes = await png(64)
  const picture = await ada.on(east!).uploadAttachment({ channel_id, file: fileOf(bytes, "a «b».png", "image/png") })
  const page = await put(Buffer.from(html), "page.html")
  const stranger = await send(west!, picture.url, { token: lin.token })
  expect(stranger.status).toBe(403)
  const answer = await send(west!, picture.url, { token: ada.token, headers: { range: "bytes=0-9" } })
  expect(answer.status).toBe(307)
  expect(answer.headers.get("cache-control")).toBe("no-store")
  const location = answer.headers.get("location")!
  expect(new URL(location).searchParams.get("X-Amz-Expires")).toBe("60")
  expect(location).not.toContain(encodeURIComponent("sec/ret"))
  const there = await fetch(location, { headers: { range: "bytes=0-9" } })
  expect([there.status, Buffer.from(await there.arrayBuffer())]).toEqual([206, Buffer.from(bytes.subarray(0, 10))])
  expect(there.headers.get("content-type")).toBe("image/png")
  expect(there.headers.get("content-disposition")).toMatch(/^inline; filename/)
  expect(there.headers.get("cache-control")).toBe("private, max-age=3600")
  for (const changed of [location.replace("image%2Fpng", "text%2Fhtml"), location.replace(bucket, "other")])
    expect((await fetch(changed)).status).toBe(403)
  const shown = await send(east!, page.url, { token: ada.token })
  const harmless = await fetch(shown.headers.get("location")!)
  await harmless.arrayBuffer()
  expect(harmless.headers.get("content-disposition")).toMatch(/^attachment; /)
  expect(harmless.headers.get("content-type")).not.toContain("html")
  // These need no file.
  const etag = `"${picture.id}-${bytes.length}"`
  const known = await send(west!, picture.url, { token: ada.token, headers: { "if-none-match": etag } })
  expect(known.status).toBe(304)
  const head = await send(west!, picture.url, { token: ada.token, method: "HEAD" })
  expect([head.status, head.headers.get("content-length")]).toEqual([200, String(bytes.length)])
  // Clients follow by themselves.
  const followed = await fetch(west!.url + picture.url, { headers: { authorization: `Bearer ${ada.token}` } })
  expect([followed.status, sha256(new Uint8Array(await followed.arrayBuffer()))]).toEqual([200, sha256(bytes)])
})

test("files move to a bucket while they are used: read on every worker, copied and compared by one command, gone when deleted", async ({
  store,
  bucket,
  cluster,
}) => {
  const local = join(cluster.dataDir, "files")
  const [before] = await cluster.boot(1)
  await cluster.encodePictures()
  const { ada, channel_id, put, read } = await sceneOn(cluster, before!)
  const keyOf = async ({ id }: { id: string }) => uploadFile(await blobOf(cluster, id))
  const old = { bytes: randomBytes(9 * mebibyte), id: "" }
  const upload = await put(old.bytes)
  const doomed = await put(randomBytes(1000))
  await ada
    .on(before!)
    .createServer({ name: "pictured" })
    .then(({ id }) => ada.on(before!).putIcon({ server_id: id, file: fileOf(apng()) }))
  // First every worker can read both, then files go to the bucket.
  const env = (more: Record<string, string>) => ({ DATA_DIR: cluster.dataDir, ...more })
  const first = { FILES_FALLBACK_URL: store.url(bucket) }
  const then = { FILES_URL: store.url(bucket), FILES_FALLBACK_URL: `file://${local}` }
  const [reader] = await cluster.boot(1, { config: first })
  const [writer] = await cluster.boot(1, { config: then })
  const fresh = { bytes: randomBytes(1000) }
  const message = await ada.on(writer!).uploadAttachment({ channel_id, file: attachmentOf(fresh.bytes) })
  for (const on of [reader!, writer!]) {
    expect(await read(on, upload.url)).toBe(sha256(old.bytes))
    expect(await read(on, message.url)).toBe(sha256(fresh.bytes))
  }
  const move = () =>
    operator(["files", "move"], env({ ...then, DATABASE_URL: cluster.databaseUrl, REDIS_URL: cluster.redisUrl }))
  expect((await operator(["files", "move"], env({ DATABASE_URL: cluster.databaseUrl }))).code).toBe(2)
  expect(await move()).toMatchObject({
    code: 0,
    out: expect.stringMatching(/^3 files copied .*, 0 were there already/),
  })
  expect(await move()).toMatchObject({
    code: 0,
    out: expect.stringMatching(/^0 files copied .*, 3 were there already/),
  })
  const [moved, left] = [blobsAt(bucketPlace(store.url(bucket))), openLocalBlobs(local)]
  expect(await keysOf(moved)).toEqual([...(await keysOf(left)), await keyOf(message)].toSorted())

  // One that differs is named and not touched.
  const key = await keyOf(upload)
  await moved.delete(key)
  await moved.put(key, old.bytes.subarray(1))
  const told = await move()
  expect([told.code, told.said]).toEqual([1, expect.stringContaining(key)])
  await moved.delete(key)
  expect((await move()).code).toBe(0)

  const doomedKey = await keyOf(doomed)
  const { id: message_id } = await ada.on(writer!).createMessage({ channel_id, attachments: [doomed] })
  await cluster.bootJobWorker({ config: then })
  await ada.on(writer!).deleteMessage({ channel_id, message_id })
  await until("it is in neither place", async () => {
    const keys = [...(await keysOf(moved)), ...(await keysOf(left))]
    return !keys.includes(doomedKey)
  })
  const [after] = await cluster.boot(1, { config: { FILES_URL: store.url(bucket) } })
  await rm(local, { recursive: true })
  expect(await read(after!, upload.url)).toBe(sha256(old.bytes))
  moved.close()
})

test("MOVE1: a file that is deleted at any moment of its being copied is in neither place", async ({
  store,
  bucket,
}) => {
  const from = openLocalBlobs(join(folder, "moving"))
  const to = blobsAt(bucketPlace(store.url(bucket)))
  const both = withFallback(to, from)
  /** The place with the deletion before, in or after what it is asked for. */
  const moments: Record<string, (key: string) => { from?: Partial<Blobs>; to?: Partial<Blobs> }> = {
    "before it is opened": key => ({
      from: { open: async (...args) => (await both.delete(key), from.open(...args)) },
    }),
    "before it is written": key => ({
      to: { putPieces: async (...args) => (await both.delete(key), to.putPieces(...args)) },
    }),
    "when it is written": key => ({
      to: { putPieces: async (...args) => (await to.putPieces(...args), both.delete(key)) },
    }),
    "halfway, and the deletion ends first": key => ({
      to: {
        async putPieces(...args) {
          await from.delete(key)
          await to.putPieces(...args)
        },
      },
    }),
  }
  for (const [moment, at] of Object.entries(moments)) {
    const key = upload()
    await from.put(key, randomBytes(1000))
    const changed = at(key)
    await moveFiles({ ...from, ...changed.from }, { ...to, ...changed.to }, () => {})
    expect([moment, await keysOf(from), await keysOf(to)]).toEqual([moment, [], []])
  }
  to.close()
})
