import { createHash, randomBytes } from "node:crypto"
import sharp from "sharp"
import { routes } from "../../src/contract/contract.ts"
import { createPictures } from "../../src/integrations/pictures.ts"
import { operator } from "../../src/process/operator/operator.ts"
import { newOperator } from "../kit/area.ts"
import { refusal } from "../kit/conformance.ts"
import { send } from "../kit/exchange.ts"
import { fileOf } from "../kit/pictures.ts"
import { clientAt, type Person } from "../kit/person.ts"
import { plantedId, sharedServer } from "../kit/seeds.ts"
import { expect, testWith, type SharedCluster } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const test = testWith({ jobWorkers: 1, config: { STARLING_REPORTS_TO_BLOCK_FILE: "3" } })
const sum = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex")
const note = (bytes: Uint8Array) => fileOf(bytes, "note.dat", "")

/** As an operator types it. */
async function obeyed(shared: SharedCluster, ...words: string[]): Promise<string> {
  const { code, out, said } = await operator(words, { DATABASE_URL: shared.databaseUrl })
  expect([code, said]).toEqual([0, ""])
  return out
}

async function session(
  shared: SharedCluster,
  person: Person,
  bytes: Uint8Array,
  content_type = "application/octet-stream",
) {
  const rest = person.on(shared.west)
  const { session_id } = await rest.createUploadSession({ filename: "x", content_type, total_size: bytes.length })
  await rest.uploadChunk({ session_id, chunk_index: "0", file: fileOf(bytes) })
  return session_id
}

test("a blocked file is not taken in whatever way it comes, and no longer served; until it is unblocked", async ({
  shared,
}) => {
  const { ada, lin, channel } = await shared.seed(sharedServer)
  const channel_id = channel.id
  const rest = ada.on(shared.east)
  const bytes = randomBytes(100)
  const hash = sum(bytes)
  const status = () => lin.on(shared.west).getHashStatus({ hash_value: hash.toUpperCase() })
  const attach = () => rest.uploadAttachment({ channel_id, file: note(bytes) })
  const upload = await attach()
  const shown = (await rest.createMessage({ channel_id, attachments: [await attach()] })).attachments[0]!
  const get = async (url: string, token?: string) =>
    (await send(shared.west, url, { route: routes.getAttachment, token })).code
  expect(await get(shown.url)).toBeUndefined()
  expect(await status()).toEqual({ hash_value: hash.toUpperCase(), is_blocked: false, reason: null })

  expect(await obeyed(shared, "files", "block", hash.toUpperCase(), "--reason", "Not here")).toContain("no longer")
  expect(await status()).toEqual({ hash_value: hash.toUpperCase(), is_blocked: true, reason: "Not here" })
  expect(await obeyed(shared, "files", "blocked")).toMatch(
    new RegExp(`^${hash}  sha256  .*  by an operator  Not here$`),
  )
  expect(await refusal(attach())).toBe("file_blocked")
  const session_id = await session(shared, ada, bytes)
  expect(await refusal(rest.completeUpload({ session_id }))).toBe("file_blocked")
  expect([await get(shown.url), await get(upload.url, ada.token)]).toEqual(["file_not_found", "file_not_found"])
  expect(await refusal(rest.createMessage({ channel_id, attachments: [upload] }))).toBe("invalid_attachment")

  await obeyed(shared, "files", "unblock", hash)
  expect(await obeyed(shared, "files", "unblock", hash)).toContain("was not blocked")
  expect(await get(shown.url)).toBeUndefined()
  await attach()
  expect((await operator(["files", "block", "abc"], { DATABASE_URL: shared.databaseUrl })).code).toBe(2)
})

/** A picture of some structure, as a function of a seed: discs on a ground, drawn at any width. */
function picture(seed: number, width = 320) {
  const height = (width * 3) / 4
  const discs = Array.from({ length: 12 }, (_, i) => {
    const at = (n: number) => (Math.imul(seed + i * 7 + n, 2_654_435_761) >>> 8) % 60
    return { x: at(1) + 10, y: at(2), r: 4 + (at(3) % 14), colour: [at(4) * 4, at(5) * 4, at(6) * 4] }
  })
  const pixels = Buffer.alloc(width * height * 3)
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++) {
      const [px, py] = [(x * 80) / width, (y * 80) / width]
      const disc = discs.findLast(one => (one.x - px) ** 2 + (one.y - py) ** 2 <= one.r ** 2)
      pixels.set(disc?.colour ?? [17, 68, 119], (y * width + x) * 3)
    }
  return sharp(pixels, { raw: { width, height, channels: 3 } })
}

test("pictures that look like a blocked one are blocked as well, in another size and format; others are not", async ({
  shared,
}) => {
  const { ada, channel } = await shared.seed(sharedServer)
  const rest = ada.on(shared.east)
  const attach = (bytes: Buffer, type: string) =>
    rest.uploadAttachment({ channel_id: channel.id, file: fileOf(bytes, "picture", type) })
  const [original, before, alike, other] = [
    await picture(1).png().toBuffer(),
    await picture(1, 200).webp().toBuffer(),
    await picture(1, 640).jpeg({ quality: 60 }).toBuffer(),
    await picture(500).png().toBuffer(),
  ]
  const hashed = async (bytes: Buffer) =>
    (await shared.sql`SELECT phash FROM upload_contents WHERE hash = ${sum(bytes)}`)[0]?.["phash"] as string | null
  await attach(original, "image/png")
  const sent = await attach(before, "image/webp")
  await until("they are looked at", async () => (await hashed(original)) !== null && (await hashed(before)) !== null)
  const phash = (await hashed(original))!
  expect(phash).toMatch(/^[0-9a-f]{16}$/)

  expect(await obeyed(shared, "files", "block", phash, "--reason", "Seen before")).toContain("look like")
  const isBlocked = async (bytes: Buffer) => (await rest.getHashStatus({ hash_value: sum(bytes) })).is_blocked
  // What was there before is blocked at once, what is attached when a job has looked at it, and a session's file by its answer.
  expect([await isBlocked(original), await isBlocked(before)]).toEqual([true, true])
  expect((await send(shared.west, sent.url, { route: routes.getAttachment, token: ada.token })).code).toBe(
    "file_not_found",
  )
  const late = await attach(alike, "image/jpeg")
  await until("the new one is blocked, too", () => isBlocked(alike))
  expect(await refusal(rest.createMessage({ channel_id: channel.id, attachments: [late] }))).toBe("invalid_attachment")
  const again = await session(shared, ada, await picture(1, 400).jpeg().toBuffer(), "image/jpeg")
  expect(await refusal(rest.completeUpload({ session_id: again }))).toBe("file_blocked")
  const fine = await session(shared, ada, other, "image/png")
  expect((await rest.completeUpload({ session_id: fine })).hash).toBe(sum(other))
  expect(await isBlocked(other)).toBe(false)
  expect(await obeyed(shared, "files", "blocked")).not.toContain(sum(alike))
  await obeyed(shared, "files", "unblock", phash)
  expect([await isBlocked(original), await isBlocked(alike)]).toEqual([false, false])

  const { lookAt } = createPictures()
  const flat = await sharp({ create: { width: 9, height: 9, channels: 3, background: "#e94560" } })
    .png()
    .toBuffer()
  for (const nothing of [randomBytes(50), original.subarray(0, 200)])
    expect(await lookAt(nothing, true)).toBeUndefined()
  expect(await lookAt(flat, true)).toMatchObject({ phash: "" })
})

test("a user who is blocked from uploading is refused everywhere, until the block is over", async ({ shared }) => {
  const { ada, channel } = await shared.seed(sharedServer)
  const rest = ada.on(shared.east)
  const attach = () => rest.uploadAttachment({ channel_id: channel.id, file: note(randomBytes(9)) })
  const create = () => rest.createUploadSession({ filename: "x", content_type: "text/plain", total_size: 9 })
  const session_id = await session(shared, ada, Buffer.from("123456789"))
  expect(await obeyed(shared, "uploads", "block", ada.username, "--hours", "2", "--reason", "Spam")).toContain("until")
  expect(await obeyed(shared, "uploads", "blocked")).toMatch(new RegExp(`^${ada.id}  ${ada.username}  until .*  Spam$`))
  const put = () => rest.uploadChunk({ session_id, chunk_index: "0", file: fileOf(Buffer.from("123456789")) })
  const complete = () => rest.completeUpload({ session_id })
  for (const call of [attach, create, put, complete]) expect(await refusal(call())).toBe("uploads_blocked")
  const [counted] = await shared.sql`SELECT files FROM upload_counts WHERE user_id = ${ada.id}`
  expect(counted).toEqual({ files: 1 })
  await shared.sql`UPDATE blocked_uploaders SET expires_at = 1 WHERE user_id = ${ada.id}`
  await attach()
  await complete()
  await obeyed(shared, "uploads", "block", ada.id)
  expect(await refusal(attach())).toBe("uploads_blocked")
  expect(await obeyed(shared, "uploads", "unblock", ada.id)).toContain("again")
  await attach()
  expect(await obeyed(shared, "uploads", "blocked")).toBe("nobody is blocked from uploading")
})

test("so many users who can see a file and report it block it; strangers and repeats do not count", async ({
  shared,
}) => {
  const { ada, lin, server, channel } = await shared.seed(sharedServer)
  const bytes = randomBytes(100)
  const hash = sum(bytes)
  const rest = ada.on(shared.east)
  const upload = await rest.uploadAttachment({ channel_id: channel.id, file: note(bytes) })
  const report = (person: Person, more: object = {}) =>
    person.on(shared.west).reportFile({ hash_value: hash.toUpperCase(), reason: "Spam", ...more })
  const isBlocked = async () => (await rest.getHashStatus({ hash_value: hash })).is_blocked
  // As long as no message shows it, nobody can have seen it.
  await report(lin)
  await rest.createMessage({ channel_id: channel.id, attachments: [upload] })
  const strangers = await Promise.all(["eve", "eve", "eve"].map(name => shared.person(name)))
  for (const stranger of strangers) await report(stranger)
  const first = await report(lin, {
    details: "Look",
    uploader_id: ada.id,
    message_id: Number.MAX_SAFE_INTEGER,
    block_uploader: true,
  })
  expect(first).toEqual({ success: true, report_id: first.report_id, message: "Report submitted successfully" })
  await report(lin)
  await report(ada)
  expect(await isBlocked()).toBe(false)
  const max = await shared.person("max")
  await rest.editServer({ server_id: server.id, public: true })
  await max.on(shared.east).joinServer({ server_id: server.id })
  await report(max)
  expect(await isBlocked()).toBe(true)
  expect(await refusal(rest.uploadAttachment({ channel_id: channel.id, file: note(bytes) }))).toBe("file_blocked")
  // Reports alone take nothing away that is there.
  expect((await send(shared.east, upload.url, { token: lin.token })).status).toBe(200)
  const rows =
    await shared.sql`SELECT reporter_id::text AS by, counts FROM hash_reports WHERE hash_value = ${hash} ORDER BY id`
  expect(
    rows
      .filter(row => row["counts"])
      .map(row => row["by"] as string)
      .toSorted(),
  ).toEqual([ada.id, lin.id, max.id].toSorted())
  expect(rows).toHaveLength(6)
  expect(await obeyed(shared, "files", "blocked")).toContain("by reports")
  // Once it is cleared, one more report is not enough.
  const op = clientAt(shared.west, (await newOperator(shared)).token)
  await op.reviewHashReport({ report_id: first.report_id, action: "clear" })
  await report(max)
  await report(lin)
  expect(await isBlocked()).toBe(false)
  await report(ada)
  expect(await isBlocked()).toBe(true)

  expect(await rest.getCompressionStatus()).toEqual({
    enabled: true,
    image_compression: true,
    video_compression: false,
  })
  for (const wrong of [{ hash_value: "xyz" }, { reason: "" }, { reason: "x".repeat(501) }, { uploader_id: "me" }])
    expect(await refusal(report(ada, wrong))).toBe("validation_failed")
  await shared.sql`
    INSERT INTO hash_reports (id, hash_value, reporter_id, reason, reported_at, block_uploader, counts)
    SELECT ${plantedId()}::bigint + n, md5(n::text), ${lin.id}, 'x', 1, false, false FROM generate_series(1, 100) n`
  expect(await refusal(report(lin))).toBe("report_limit")
})
