import { createHash, randomBytes } from "node:crypto"
import { rm } from "node:fs/promises"
import { join } from "node:path"
import { routes } from "../../src/contract/contract.ts"
import { chunkBytes } from "../../src/contract/messages/upload-sessions.ts"
import { refusal } from "../kit/conformance.ts"
import { send } from "../kit/exchange.ts"
import type { Person } from "../kit/person.ts"
import { blobOf, chunksOf, fileOf, html, uploadsOf } from "../kit/pictures.ts"
import { sharedServer } from "../kit/seeds.ts"
import { slowForm } from "../kit/slow-form.ts"
import { expect, testWith, type SharedCluster } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const test = testWith({ jobWorkers: 1, topology: { http: { body: { timeoutMs: 2_000 } } } })

const sum = (bytes: Uint8Array, kind = "sha256") => createHash(kind).update(bytes).digest("hex")
const part = (bytes: Uint8Array) => fileOf(bytes, "blob", "application/octet-stream")
const partsOf = (bytes: Buffer) =>
  Array.from({ length: Math.ceil(bytes.length / chunkBytes) }, (_, i) =>
    bytes.subarray(i * chunkBytes, (i + 1) * chunkBytes),
  )

async function begin(shared: SharedCluster, person: Person, bytes: Buffer, filename = "film.dat", content_type = "") {
  const rest = person.on(shared.east)
  const session = await rest.createUploadSession({
    filename,
    content_type: content_type || "application/octet-stream",
    total_size: bytes.length,
  })
  return { ...session, rest, elsewhere: person.on(shared.west) }
}

/** Everything that a session leaves until it is over: rows, and files of chunks. */
async function leftOf(shared: SharedCluster) {
  const [rows] = await shared.sql`
    SELECT (SELECT count(*)::int FROM upload_chunks) AS chunks, (SELECT count(*)::int FROM unused_files) AS unused`
  return { ...rows, files: (await chunksOf(shared)).length }
}
const nothing = { chunks: 0, unused: 0, files: 0 }
const nothingIsLeft = (shared: SharedCluster) =>
  until("nothing is left", async () => {
    const left = await leftOf(shared)
    return JSON.stringify(left) === JSON.stringify(nothing)
  })

test("CHUNK3: chunks in any order over both workers, one of them twice, become one file, and to ask again is answered the same", async ({
  shared,
}) => {
  const { ada, lin, channel } = await shared.seed(sharedServer)
  const bytes = randomBytes(chunkBytes + 700_000)
  const [first, last] = partsOf(bytes)
  const filename = "..\\Film «1»\u202e 照片.dat"
  const before = Math.floor(Date.now() / 1000)
  const { session_id, chunk_size, total_chunks, expires_at, rest, elsewhere } = await begin(
    shared,
    ada,
    bytes,
    filename,
  )
  expect([expires_at >= before + 3_600, expires_at <= Date.now() / 1000 + 3_600]).toEqual([true, true])
  expect(session_id).toMatch(/^[\w-]{43}$/)
  expect([chunk_size, total_chunks]).toEqual([chunkBytes, 2])
  expect(await rest.listUploadSessions()).toMatchObject({ sessions: [{ status: "pending", received_chunks: [] }] })

  const put = (on: typeof rest, chunk_index: number, content: Uint8Array, chunk_checksum?: string) =>
    on.uploadChunk({ session_id, chunk_index: String(chunk_index), chunk_checksum, file: part(content) })
  expect(await put(elsewhere, 1, randomBytes(last!.length))).toEqual({
    success: true,
    chunk_index: 1,
    uploaded_chunks: 1,
    total_chunks: 2,
    progress_percent: 50,
    is_complete: false,
    error: null,
  })
  expect(await refusal(rest.completeUpload({ session_id }))).toBe("chunks_missing")
  const again = await put(rest, 1, last!, sum(last!, "md5").toUpperCase())
  expect([again.uploaded_chunks, again.is_complete]).toEqual([1, false])
  const done = await put(elsewhere, 0, first!, sum(first!))
  expect([done.uploaded_chunks, done.progress_percent, done.is_complete]).toEqual([2, 100, true])
  expect(await elsewhere.listUploadSessions()).toMatchObject({
    sessions: [{ session_id, filename: "Film «1» 照片.dat", status: "in_progress", received_chunks: [0, 1] }],
  })
  expect((await lin.on(shared.east).listUploadSessions()).sessions).toEqual([])

  const [one, other] = await Promise.all([
    rest.completeUpload({ session_id }),
    elsewhere.completeUpload({ session_id }),
  ])
  expect(other).toEqual(one)
  expect(one).toEqual({
    success: true,
    size: bytes.length,
    message: "Upload complete",
    id: one.id,
    url: `/api/v1/media/attachments/${one.id}`,
    filename: "Film «1» 照片.dat",
    content_type: "application/octet-stream",
    hash: sum(bytes),
  })
  expect(await shared.sql`SELECT FROM uploads WHERE user_id = ${ada.id}`).toHaveLength(1)
  const got = await send(shared.west, one.url, { token: ada.token })
  expect(Buffer.from(got.bytes).equals(bytes)).toBe(true)

  const message = await rest.createMessage({ channel_id: channel.id, attachments: [{ id: one.id }] })
  expect(message.attachments).toMatchObject([{ filename: one.filename, size: one.size, hash: one.hash }])
  await rest.deleteMessage({ channel_id: channel.id, message_id: message.id })
  // Its answer does not depend on what became of the file.
  expect(await elsewhere.completeUpload({ session_id })).toEqual(one)
  expect(await refusal(put(rest, 0, first!))).toBe("session_not_found")
  expect(await refusal(rest.deleteUploadSession({ session_id }))).toBe("session_not_found")
  expect((await rest.listUploadSessions()).sessions).toEqual([])
  const [counted] = await shared.sql`SELECT files FROM upload_counts WHERE user_id = ${ada.id}`
  expect(counted).toEqual({ files: 1 })
  await nothingIsLeft(shared)
})

test("CHUNK2: what is wrong, or comes too late, is refused and leaves nothing", async ({ shared }) => {
  const [ada, lin] = [await shared.person("ada"), await shared.person("lin")]
  const rest = ada.on(shared.east)
  const announced = { filename: "a.dat", content_type: "application/octet-stream", total_size: 10 }
  const create = (more: Partial<typeof announced>) => refusal(rest.createUploadSession({ ...announced, ...more }))
  expect(await create({ filename: "a.exe" })).toBe("file_type_not_allowed")
  expect(await create({ content_type: "application/x-sh" })).toBe("file_type_not_allowed")
  expect(await create({ total_size: 10 * 1_048_576 + 1 })).toBe("file_over_limit")
  expect(await create({ total_size: 0 })).toBe("validation_failed")
  expect(await create({ filename: "" })).toBe("validation_failed")
  expect(await create({ filename: "x".repeat(256) })).toBe("validation_failed")
  expect(await create({ filename: "a\0.dat" })).toBe("unsafe_text")
  const [none] =
    await shared.sql`SELECT coalesce(sum(files), 0)::int AS files FROM upload_counts WHERE user_id = ${ada.id}`
  expect(none).toEqual({ files: 0 })

  const { session_id } = await rest.createUploadSession(announced)
  const ten = Buffer.from("0123456789")
  const put = (more: object, on = rest) =>
    refusal(on.uploadChunk({ session_id, chunk_index: "0", file: part(ten), ...more }))
  expect(await put({ chunk_index: "1" })).toBe("invalid_chunk_index")
  expect(await put({ chunk_index: "-1" })).toBe("invalid_chunk_index")
  expect(await put({ chunk_index: "x" })).toBe("validation_failed")
  expect(await put({ chunk_index: undefined })).toBe("validation_failed")
  expect(await put({ chunk_checksum: "abc" })).toBe("validation_failed")
  expect(await put({ chunk_checksum: sum(randomBytes(3)) })).toBe("checksum_mismatch")
  expect(await put({ chunk_checksum: sum(randomBytes(3), "md5") })).toBe("checksum_mismatch")
  for (const length of [0, 9, 11, chunkBytes + 1, chunkBytes + 100_000])
    expect([length, await put({ file: part(Buffer.alloc(length)) })]).toEqual([length, "wrong_chunk_size"])
  expect(await put({ session_id: "A".repeat(43) })).toBe("session_not_found")
  expect(await put({ session_id: "../x" })).toBe("session_not_found")
  expect(await put({}, lin.on(shared.west))).toBe("session_not_found")
  const complete = (id: string, who = ada) => refusal(who.on(shared.west).completeUpload({ session_id: id }))
  expect(await complete("A".repeat(43))).toBe("unknown_upload_session")
  expect(await complete(session_id, lin)).toBe("unknown_upload_session")
  expect(await complete(session_id)).toBe("chunks_missing")
  expect(await refusal(lin.on(shared.east).deleteUploadSession({ session_id }))).toBe("session_not_found")

  // What is only seen in the whole file is refused for good, and takes no place of the day.
  for (const [bytes, type, code] of [
    [Buffer.from("MZ\x90\0 and so on", "latin1"), "application/octet-stream", "file_type_not_allowed"],
    [html, "image/png", "file_type_mismatch"],
  ] as const) {
    const other = await begin(shared, ada, bytes, "x", type)
    await rest.uploadChunk({ session_id: other.session_id, chunk_index: "0", file: part(bytes) })
    expect([await complete(other.session_id), await complete(other.session_id)]).toEqual([code, code])
  }
  await shared.sql`UPDATE upload_sessions SET expires_at = extract(epoch FROM now())::bigint - 1 WHERE id = ${session_id}`
  expect(await put({})).toBe("upload_session_expired")
  expect(await complete(session_id)).toBe("unknown_upload_session")
  await shared.sql`UPDATE upload_sessions SET expires_at = extract(epoch FROM now())::bigint + 9 WHERE id = ${session_id}`
  await rest.uploadChunk({ session_id, chunk_index: "0", file: part(ten) })
  await rest.deleteUploadSession({ session_id })
  expect(await put({})).toBe("session_not_found")
  const [counted] = await shared.sql`SELECT files FROM upload_counts WHERE user_id = ${ada.id}`
  expect(counted).toEqual({ files: 0 })
  await nothingIsLeft(shared)
})

test("the day's files and open sessions are limited, however many are announced at once", async ({ shared }) => {
  const [ada, lin] = [await shared.person("ada"), await shared.person("lin")]
  const announced = { filename: "a.dat", content_type: "text/plain", total_size: 10 }
  const create = (person: Person, at = shared.east) => person.on(at).createUploadSession(announced)
  const today = Math.floor(Date.now() / 86_400_000)
  await shared.sql`INSERT INTO upload_counts (user_id, day, files) VALUES (${ada.id}, ${today}, 49)`
  const outcomes = await Promise.allSettled([create(ada), create(ada, shared.west), create(ada)])
  expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(1)
  expect(await refusal(create(ada))).toBe("upload_limit")
  const { sessions } = await ada.on(shared.west).listUploadSessions()
  await ada.on(shared.west).deleteUploadSession({ session_id: sessions[0]!.session_id })
  await create(ada)
  for (let i = 0; i < 20; i++) await create(lin)
  expect(await refusal(create(lin))).toBe("too_many_upload_sessions")
  const [counted] = await shared.sql`SELECT files FROM upload_counts WHERE user_id = ${lin.id}`
  expect(counted).toEqual({ files: 20 })
  await shared.sql`DELETE FROM upload_sessions WHERE user_id = ANY(${[ada.id, lin.id]}::bigint[])`
})

/** A chunk of which the test sends the bytes. */
const slowChunk = (at: { url: string }, person: Person, session_id: string, length: number) =>
  slowForm(at, person, `/api/v1/media/upload/chunk/${session_id}?chunk_index=0`, length)

test("CHUNK1: a chunk from two connections at once is one of the two, whole; one that is cut off, or stops, is none", async ({
  shared,
}) => {
  const ada = await shared.person("ada")
  const bytes = randomBytes(1_000_000)
  const { session_id, rest } = await begin(shared, ada, bytes)
  const cut = slowChunk(shared.east, ada, session_id, bytes.length)
  cut.socket.write(bytes.subarray(0, 400_000))
  await until("some of it is on the disk", async () => (await chunksOf(shared)).length === 1)
  cut.socket.destroy()
  const stopped = slowChunk(shared.west, ada, session_id, bytes.length)
  stopped.socket.write(bytes.subarray(0, 10))
  await until("it is told that it took too long", () => stopped.answer().startsWith("HTTP/1.1 408"))
  await stopped.ended
  const short = slowChunk(shared.west, ada, session_id, 999_999)
  short.socket.write(Buffer.concat([bytes.subarray(0, 999_999), Buffer.from(short.end)]))
  await until("it is told that it is too short", () => short.answer().includes("Wrong chunk size: 999999"))
  short.socket.destroy()
  await nothingIsLeft(shared)
  expect(await refusal(rest.completeUpload({ session_id }))).toBe("chunks_missing")

  const other = randomBytes(bytes.length)
  const [one, two] = [
    slowChunk(shared.east, ada, session_id, bytes.length),
    slowChunk(shared.west, ada, session_id, bytes.length),
  ]
  one.socket.write(bytes.subarray(0, 500_000))
  two.socket.write(other.subarray(0, 600_000))
  await until("both are under way", async () => (await chunksOf(shared)).length === 2)
  one.socket.write(Buffer.concat([bytes.subarray(500_000), Buffer.from(one.end)]))
  two.socket.write(Buffer.concat([other.subarray(600_000), Buffer.from(two.end)]))
  for (const { answer, socket } of [one, two]) {
    await until("it is taken", () => answer().startsWith("HTTP/1.1 200"))
    socket.destroy()
  }
  await until("one is left", async () => (await chunksOf(shared)).length === 1)
  const { hash } = await rest.completeUpload({ session_id })
  expect([sum(bytes), sum(other)]).toContain(hash)

  // One that is replaced while the session is completed is the former one, or is replaced before.
  for (let round = 0; round < 4; round++) {
    const [former, next] = [randomBytes(10), randomBytes(10)]
    const { session_id, rest, elsewhere } = await begin(shared, ada, former)
    const put = (content: Buffer, on = rest) =>
      on.uploadChunk({ session_id, chunk_index: "0", file: part(content) }).then(
        () => "taken",
        (error: unknown) => refusal(Promise.reject(error as Error)),
      )
    await put(former)
    const replacing = put(next, elsewhere)
    const [completed, outcome] = await Promise.all([rest.completeUpload({ session_id }), replacing])
    expect([sum(former) + "session_not_found", sum(next) + "taken"]).toContain(completed.hash + outcome)
  }
  await nothingIsLeft(shared)
})

test("CHUNK4, FILE3: the sweep ends expired sessions, finishes those whose job was lost, keeps the same bytes once, and finds what is missing", async ({
  cluster,
}) => {
  const [worker] = await cluster.boot(1)
  const { ada, lin, channel } = await cluster.seed(sharedServer)
  const bytes = randomBytes(1_000)
  const rest = ada.on(worker!)
  const sent = async (content = bytes) => {
    const total_size = content.length
    const { session_id } = await rest.createUploadSession({ filename: "x", content_type: "text/csv", total_size })
    await rest.uploadChunk({ session_id, chunk_index: "0", file: part(content) })
    return session_id
  }
  const [expired, stuck] = [await sent(), await sent(Buffer.from("a;b"))]
  await cluster.sql`UPDATE upload_sessions SET expires_at = 1 WHERE id = ${expired}`
  await cluster.sql`UPDATE upload_sessions SET state = 'completing', completed_at = 1 WHERE id = ${stuck}`

  const attach = async (person: Person, content = bytes) =>
    person.on(worker!).uploadAttachment({ channel_id: channel.id, file: fileOf(content, "x.dat", "") })
  const uploads = await Promise.all([attach(ada), attach(lin), attach(lin), attach(ada)])
  const left = uploads[3]
  const blob = await blobOf(cluster, left.id)
  expect(await uploadsOf(cluster)).toEqual([blob])
  const usesOf = async (content = bytes) =>
    (await cluster.sql`SELECT uses FROM upload_contents WHERE hash = ${sum(content)}`)[0]?.["uses"]
  expect(await usesOf()).toBe(4)
  await cluster.sql`UPDATE uploads SET keep_until = 0 WHERE file = ANY(${uploads.slice(0, 3).map(({ id }) => id)}::text[])`
  const [gone, forgotten, lost] = [Buffer.from("gone"), Buffer.from("forgotten"), Buffer.from("lost")]
  await cluster.sql`UPDATE uploads SET keep_until = 0 WHERE file = ${(await attach(ada, gone)).id}`
  // As a version before does that does not count.
  await cluster.sql`DELETE FROM uploads WHERE file = ${(await attach(ada, forgotten)).id}`
  const broken = await attach(lin, lost)
  await rm(join(cluster.dataDir, "files/uploads", await blobOf(cluster, broken.id)))

  await cluster.bootJobWorker()
  const isSwept = async () =>
    (await usesOf()) === 1 && (await usesOf(gone)) === undefined && (await usesOf(forgotten)) === undefined
  await until("each content is counted", isSwept, { timeoutMs: 20_000 })
  const stateOf = async (id: string) =>
    (await cluster.sql`SELECT state FROM upload_sessions WHERE id = ${id}`)[0]?.["state"]
  expect(await stateOf(expired)).toBeUndefined()
  expect(await stateOf(stuck)).toBe("completed")
  const done = await rest.completeUpload({ session_id: stuck })
  expect([done.hash, done.content_type]).toEqual([sum(Buffer.from("a;b")), "text/csv"])
  const get = async ({ url }: { url: string }, person = ada) =>
    Buffer.from((await send(worker!, url, { token: person.token })).bytes)
  expect((await get(left)).equals(bytes)).toBe(true)
  const missing = async () =>
    (await cluster.sql`SELECT hash FROM upload_contents WHERE missing_since IS NOT NULL`).map(row => row["hash"])
  await until("what is missing is found", async () => (await missing()).length === 1)
  expect(await missing()).toEqual([sum(lost)])
  expect((await send(worker!, broken.url, { route: routes.getAttachment, token: lin.token })).code).toBe(
    "file_not_found",
  )
  // It is there again as soon as anybody sends it.
  await attach(ada, lost)
  expect((await get(broken, lin)).toString()).toBe("lost")
  expect(await missing()).toEqual([])

  await until("no chunk is left", async () => (await chunksOf(cluster)).length === 0)
  const blobs = await Promise.all([left.id, done.id, broken.id].map(id => blobOf(cluster, id)))
  await until("and no other file", async () => (await uploadsOf(cluster)).length === blobs.length)
  expect((await uploadsOf(cluster)).toSorted()).toEqual(blobs.toSorted())
  expect(await cluster.sql`SELECT FROM unused_files`).toHaveLength(0)
  const [counted] = await cluster.sql`SELECT files FROM upload_counts WHERE user_id = ${ada.id}`
  // Five attachments and the one session that became a file.
  expect(counted).toEqual({ files: 6 })
})
