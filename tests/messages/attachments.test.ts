import { createHash, randomBytes } from "node:crypto"
import { readFile } from "node:fs/promises"
import { connect } from "node:net"
import { join } from "node:path"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import type { ApiError } from "../../client/rest.ts"
import { routes } from "../../src/contract/contract.ts"
import type { Upload } from "../../src/contract/messages/attachments.ts"
import type { FormFile } from "../../src/contract/core/registry.ts"
import { uploadsStorage } from "../../src/storage/messages/uploads.ts"
import { gauge } from "../kit/cluster.ts"
import { refusal } from "../kit/conformance.ts"
import { send } from "../kit/exchange.ts"
import type { Person } from "../kit/person.ts"
import { apng, blobOf, fileOf, gif, html, png, uploadsOf } from "../kit/pictures.ts"
import { dmBetween, plantServer, sharedServer } from "../kit/seeds.ts"
import { slowForm } from "../kit/slow-form.ts"
import { expect, testWith, type SharedCluster } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const test = testWith({ topology: { http: { body: { timeoutMs: 3_000 }, downloads: { timeoutMs: 8_000 } } } })

const note = (content: string | Uint8Array, filename = "note.txt", type = "text/plain") =>
  fileOf(Buffer.from(content as string), filename, type)
const pathOf = (url: string) => `/api/v1/media/attachments/${url}`
const sha256 = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex")
/** `attachmentPath` with a signature, as a message shows it. */
async function shown(shared: SharedCluster, { ada, channel_id }: { ada: Person; channel_id: string }, file: FormFile) {
  const rest = ada.on(shared.east)
  const upload = await rest.uploadAttachment({ channel_id, file })
  const message = await rest.createMessage({ channel_id, attachments: [upload] })
  return { upload, message, url: message.attachments[0]!.url }
}

async function scene(shared: SharedCluster) {
  const { ada, lin, server, channel } = await shared.seed(sharedServer)
  return { ada, lin, server_id: server.id, channel_id: channel.id, rest: ada.on(shared.east) }
}

test("a file comes back byte for byte, on every worker, with harmless headers, and its facts are the server's", async ({
  shared,
}) => {
  const { ada, lin, channel_id } = await scene(shared)
  const bytes = await png(64)
  const file = fileOf(bytes, "..\\Bild «1» 照片\u202e.png", "IMAGE/PNG; charset=x")
  const { upload, message, url } = await shown(shared, { ada, channel_id }, file)
  expect(upload).toEqual({
    id: upload.id,
    filename: "Bild «1» 照片.png",
    size: bytes.length,
    content_type: "image/png",
    url: pathOf(upload.id),
    hash: sha256(bytes),
    thumbnails: null,
  })
  expect(upload.id).toMatch(/^[0-9a-f]{32}\.png$/)
  const [attachment] = message.attachments
  expect(attachment).toEqual({
    id: attachment!.id,
    filename: upload.filename,
    content_type: "image/png",
    size: bytes.length,
    url,
    hash: upload.hash,
    metadata: null,
    width: null,
    height: null,
    thumbhash: null,
    thumbnails: null,
  })
  expect(attachment!.id).not.toBe(upload.id)
  for (const place of [shared.east, shared.west]) {
    const answer = await send(place, upload.url, { route: routes.getAttachment, token: lin.token })
    expect(Buffer.from(answer.bytes).equals(bytes)).toBe(true)
    const header = (name: string) => answer.headers.get(name)
    expect(header("content-type")).toBe("image/png")
    expect(header("content-security-policy")).toContain("sandbox")
    expect(header("cross-origin-resource-policy")).toBe("cross-origin")
    expect(header("cache-control")).toBe("private, max-age=3600")
    expect(header("accept-ranges")).toBe("bytes")
    expect(header("content-disposition")).toMatch(/^inline; /)
    expect(header("etag")).toBe(`"${upload.id}-${bytes.length}"`)
    const again = await send(place, upload.url, { token: lin.token, headers: { "if-none-match": header("etag")! } })
    expect([again.status, again.text]).toEqual([304, ""])
    const head = await send(place, upload.url, { method: "HEAD", token: lin.token })
    expect([head.status, head.headers.get("content-length"), head.text]).toEqual([200, `${bytes.length}`, ""])
    // RFC 9110, 14.2: ranges are for GET.
    const ranged = await send(place, upload.url, {
      method: "HEAD",
      token: lin.token,
      headers: { range: "bytes=0-1" },
    })
    expect([ranged.status, ranged.headers.get("content-length"), ranged.headers.get("content-range")]).toEqual([
      200,
      `${bytes.length}`,
      null,
    ])
  }
  for (const yes of ["1", "Yes"]) {
    const saved = await send(shared.east, `${upload.url}?download=${yes}`, { token: ada.token })
    expect(saved.headers.get("content-disposition")).toBe(
      `attachment; filename="Bild _1_ __.png"; filename*=UTF-8''Bild%20%C2%AB1%C2%BB%20%E7%85%A7%E7%89%87.png`,
    )
  }
})

test("what a browser would run is saved, never shown, and is called a row of bytes", async ({ shared }) => {
  const { ada, channel_id, rest } = await scene(shared)
  for (const [filename, type] of [
    ["page.html", "text/html"],
    ["drawing.svg", "image/svg+xml"],
    ["page.xhtml", "application/xhtml+xml"],
    ["nothing", ""],
  ] as const) {
    const { url, content_type } = await rest.uploadAttachment({ channel_id, file: fileOf(html, filename, type) })
    expect(content_type).toBe("application/octet-stream")
    const { headers } = await send(shared.east, url, { token: ada.token })
    expect(headers.get("content-disposition")).toMatch(/^attachment; /)
    expect([headers.get("content-type"), headers.get("x-content-type-options")]).toEqual([content_type, "nosniff"])
  }
  const { content_type } = await rest.uploadAttachment({
    channel_id,
    file: fileOf(await gif(), "unnamed", "application/octet-stream"),
  })
  expect(content_type).toBe("image/gif")
  const css = await rest.uploadAttachment({ channel_id, file: note("a {}", "a.css", "text/css") })
  expect(css.content_type).toBe("text/css")
  const { headers } = await send(shared.east, css.url, { token: ada.token })
  expect(["content-type", "content-disposition"].map(name => headers.get(name))).toEqual([
    "application/octet-stream",
    `attachment; filename="a.css"; filename*=UTF-8''a.css`,
  ])
})

test("what is refused leaves nothing: neither a row nor a file, and it does not count", async ({ shared }) => {
  const { ada, channel_id, rest } = await scene(shared)
  const before = await uploadsOf(shared)
  const verdict = (file: FormFile) => refusal(rest.uploadAttachment({ channel_id, file }))
  for (const name of ["a.exe", "photo.png.SCR", "run.sh", "x.py", "a.exe.", "lib.so", "evil.exe:png"])
    expect([name, await verdict(note("hello", name))]).toEqual([name, "file_type_not_allowed"])
  for (const type of ["application/x-msdownload", "Text/JavaScript; charset=utf-8", "application/x-sh"])
    expect([type, await verdict(note("hello", "a.txt", type))]).toEqual([type, "file_type_not_allowed"])
  for (const head of ["MZ\x90\0", "\x7fELF", "#!/bin/sh\nrm"])
    expect([head, await verdict(note(Buffer.from(head, "latin1"), "a.dat", ""))]).toEqual([
      head,
      "file_type_not_allowed",
    ])
  for (const [bytes, type] of [
    [html, "image/png"],
    [apng(), "image/gif"],
    [Buffer.alloc(5_000), "video/mp4"],
    [Buffer.from("PK"), "application/zip"],
    [html, "application/pdf"],
    [Buffer.from("a\0b"), "text/plain"],
  ] as const)
    expect([type, await verdict(fileOf(bytes, "x", type))]).toEqual([type, "file_type_mismatch"])
  expect(await verdict(note(""))).toBe("empty_file")
  expect(await verdict(fileOf(Buffer.alloc(0), "x.png"))).toBe("empty_file")

  const message = (error: unknown) => (error as Error).message
  const tooLarge = await rest
    .uploadAttachment({ channel_id, file: fileOf(Buffer.alloc(10 * 1_048_576 + 1), "x", "") })
    .catch(message)
  expect(tooLarge).toContain("File size 10485761 exceeds limit 10485760")
  expect(await rest.uploadAttachment({ channel_id, file: note("x", "a.EXE") }).catch(message)).toContain(
    "File type not allowed: .exe",
  )
  // No form, no such part, a form that is cut off, one that never was.
  const type = "multipart/form-data; boundary=X"
  const post = async (body: string, contentType = type) =>
    (
      await send(shared.east, `/api/v1/channels/${channel_id}/attachments`, {
        route: routes.uploadAttachment,
        token: ada.token,
        body,
        headers: { "content-type": contentType },
      })
    ).code
  const part = (name: string, filename = "a") =>
    `--X\r\nContent-Disposition: form-data; name="${name}"; filename="${filename}"\r\n\r\nhello`
  expect(await post(`${part("other")}\r\n--X--`)).toBe("validation_failed")
  expect(await post(part("file"))).toBe("validation_failed")
  expect(await post("")).toBe("validation_failed")
  expect(await post("{}", "application/json")).toBe("validation_failed")
  expect(await post(`${part("fi\0le")}\r\n--X--`)).toBe("unsafe_text")
  expect(await post(`${part("file", "a\0.png")}\r\n--X--`)).toBe("unsafe_text")
  expect(await post(`${part("file", "x".repeat(5_000))}\r\n--X--`)).toBe("validation_failed")
  expect(await post(`${part("other")}\r\n${part("file")}\r\n--X--\r\n`)).toBeUndefined()
  // A name is cut, and its separators are none of it.
  const polyglot = Buffer.concat([await gif(), Buffer.from("PK\x03\x04"), html])
  const named = await rest.uploadAttachment({
    channel_id,
    file: fileOf(polyglot, `..\\é/${"é".repeat(300)}\u202e.gif`, "image/gif"),
  })
  expect([named.filename, named.content_type]).toEqual([`${"é".repeat(251)}.gif`, "image/gif"])

  const [kept] = await shared.sql`SELECT count(*)::int AS rows FROM uploads WHERE user_id = ${ada.id}`
  const [counted] = await shared.sql`SELECT files FROM upload_counts WHERE user_id = ${ada.id}`
  expect([kept, counted]).toEqual([{ rows: 2 }, { files: 2 }])
  await until("nothing else is left on the disk", async () => (await uploadsOf(shared)).length === before.length + 2)
  await until("nor noted", async () => (await shared.sql`SELECT FROM unused_files`).length === 0)
})

test("a user who may not send files is refused before any of it is kept", async ({ shared }) => {
  const { ada, lin, server_id, channel_id, rest } = await scene(shared)
  const eve = await shared.person("eve")
  const verdict = (who: Person, channel: string) =>
    refusal(who.on(shared.west).uploadAttachment({ channel_id: channel, file: note("hello") }))
  expect(await verdict(eve, channel_id)).toBe("access_denied")
  expect(await verdict(eve, "1")).toBe("channel_not_found")
  expect(await verdict(eve, "x")).toBe("invalid_channel_id")
  const voice = await rest.createChannel({ server_id, name: "talk", channel_type: "voice" })
  expect(await verdict(ada, voice.id)).toBe("not_a_text_channel")
  await rest.setOverride({ channel_id, target_id: lin.id, type: "member", allow: [], deny: ["messages.attach_files"] })
  expect(await verdict(lin, channel_id)).toBe("permission_denied")
  await rest.deleteOverride({ channel_id, target_id: lin.id })
  await rest.editMember({ server_id, member_id: lin.id, timeout_until: Math.floor(Date.now() / 1000) + 60 })
  expect(await verdict(lin, channel_id)).toBe("timed_out")
  expect(await shared.sql`SELECT FROM uploads WHERE user_id = ANY(${[eve.id, lin.id]}::bigint[])`).toHaveLength(0)
})

test("the daily limit of files holds, however many come at once; it is the tier's", async ({ shared }) => {
  const { ada, channel_id, rest } = await scene(shared)
  const today = Math.floor(Date.now() / 86_400_000)
  await shared.sql`INSERT INTO upload_counts (user_id, day, files) VALUES (${ada.id}, ${today}, 49), (${ada.id}, ${today - 1}, 50)`
  const upload = (place = shared.east) => ada.on(place).uploadAttachment({ channel_id, file: note("hello") })
  const outcomes = await Promise.allSettled([upload(), upload(shared.west), upload(), upload(shared.west)])
  expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(1)
  expect(await refusal(upload())).toBe("upload_limit")
  const { retryAfterSeconds } = await upload().then(
    () => ({ retryAfterSeconds: 0 }),
    (error: ApiError) => error,
  )
  expect(retryAfterSeconds).toBeGreaterThan(0)
  expect(retryAfterSeconds).toBeLessThanOrEqual(86_400)
  // What is refused for its content takes no place: one is free again after the day's count falls.
  await shared.sql`UPDATE upload_counts SET files = 49 WHERE user_id = ${ada.id} AND day = ${today}`
  expect(await refusal(rest.uploadAttachment({ channel_id, file: note("x", "a.exe") }))).toBe("file_type_not_allowed")
  await upload()
})

test("parts of a file: by range, from its end, only of this version, or none that is there", async ({ shared }) => {
  const { ada, channel_id, rest } = await scene(shared)
  const bytes = randomBytes(300_000)
  const { id, url, size } = await rest.uploadAttachment({ channel_id, file: fileOf(bytes, "x.dat", "") })
  const get = async (range: string, more: Record<string, string> = {}) => {
    const response = await fetch(shared.west.url + url, {
      headers: { authorization: `Bearer ${ada.token}`, range, ...more },
    })
    const body = Buffer.from(await response.arrayBuffer())
    return { status: response.status, range: response.headers.get("content-range"), body }
  }
  for (const [range, from, to] of [
    ["bytes=0-0", 0, 0],
    ["bytes=10-19", 10, 19],
    ["bytes=131071-262144", 131_071, 262_144],
    ["bytes=299999-", 299_999, 299_999],
    ["bytes=5-999999", 5, 299_999],
    ["bytes=-200000", 100_000, 299_999],
  ] as const) {
    const part = await get(range)
    expect([part.status, part.range]).toEqual([206, `bytes ${from}-${to}/${size}`])
    expect(part.body.equals(bytes.subarray(from, to + 1))).toBe(true)
  }
  const hundreds = `bytes=${Array.from({ length: 700 }, () => "0-9").join()}`
  for (const range of ["bytes=0-1,5-6", "lines=1-2", "bytes=9-5", hundreds]) {
    const whole = await get(range)
    expect([whole.status, whole.range, whole.body.equals(bytes)]).toEqual([200, null, true])
  }
  const etag = `"${id}-${size}"`
  expect((await get("bytes=0-9", { "if-range": etag })).status).toBe(206)
  for (const other of ['"another"', `W/${etag}`, "Sun, 22 Nov 2026 10:00:00 GMT"])
    expect((await get("bytes=0-9", { "if-range": other })).status).toBe(200)
  const beyond = await send(shared.east, url, {
    route: routes.getAttachment,
    token: ada.token,
    headers: { range: "bytes=300000-" },
  })
  expect([beyond.code, beyond.headers.get("content-range")]).toEqual(["range_not_satisfiable", `bytes */${size}`])
})

test("a file is its uploader's and of those who can read a message with it; a signed link is anybody's, and ends", async ({
  shared,
}) => {
  const { ada, lin, server_id, channel_id, rest } = await scene(shared)
  const eve = await shared.person("eve")
  const get = (path: string, who?: Person) =>
    send(shared.west, path, { route: routes.getAttachment, token: who?.token })
  const upload = await rest.uploadAttachment({ channel_id, file: note("hello") })
  expect((await get(upload.url, ada)).text).toBe("hello")
  for (const who of [lin, eve]) expect((await get(upload.url, who)).code).toBe("file_access_denied")
  expect((await get(upload.url)).code).toBe("authentication_required")

  const { id: message_id, attachments } = await rest.createMessage({ channel_id, attachments: [{ id: upload.id }] })
  const { url } = attachments[0]!
  expect((await get(upload.url, lin)).text).toBe("hello")
  expect((await get(upload.url, eve)).code).toBe("file_access_denied")
  expect((await get(url)).text).toBe("hello")
  expect((await get(url, eve)).text).toBe("hello")
  // What was signed is the file and the time, and nothing of it can be another.
  const signed = new URL(url, "http://x")
  const other = await rest.uploadAttachment({ channel_id, file: note("other") })
  await rest.createMessage({ channel_id, attachments: [other] })
  const exp = Number(signed.searchParams.get("exp"))
  expect(exp - Date.now() / 1000).toBeGreaterThan(24 * 3600 - 5)
  const sig = signed.searchParams.get("sig")!
  for (const wrong of [
    `${other.url}?exp=${exp}&sig=${sig}`,
    `${upload.url}?exp=${exp + 1}&sig=${sig}`,
    `${upload.url}?exp=${exp}&sig=${sig.slice(1)}`,
    `${upload.url}?exp=${exp}&sig=`,
    `${upload.url}?sig=${sig}`,
    `${upload.url}?exp=x&sig=${sig}`,
  ])
    expect([wrong, (await get(wrong)).code]).toEqual([wrong, "authentication_required"])

  // Who loses the channel loses the file, and who leaves the server, too.
  await rest.setOverride({ channel_id, target_id: lin.id, type: "member", allow: [], deny: ["messages.read"] })
  expect((await get(upload.url, lin)).code).toBe("file_access_denied")
  await rest.deleteOverride({ channel_id, target_id: lin.id })
  await lin.on(shared.west).leaveServer({ server_id })
  expect((await get(upload.url, lin)).code).toBe("file_access_denied")

  // With the last message that shows it, it is gone for everybody, links and all.
  const again = await rest.createMessage({ channel_id, attachments: [{ url }] })
  await rest.deleteMessage({ channel_id, message_id })
  expect((await get(url)).text).toBe("hello")
  await rest.deleteMessage({ channel_id, message_id: again.id })
  for (const [path, who] of [
    [url, undefined],
    [upload.url, ada],
    [upload.url, lin],
  ] as const)
    expect((await get(path, who)).code).toBe("file_not_found")
  expect(await refusal(rest.createMessage({ channel_id, attachments: [{ id: other.id }, { id: "x" }] }))).toBe(
    "invalid_attachment",
  )
})

test("a file's links end with its channel or its server at once, no matter which job deletes it later", async ({
  shared,
}) => {
  const { ada, server_id, channel_id, rest } = await scene(shared)
  const channels = [await rest.createChannel({ server_id, name: "short" }), { id: channel_id }]
  const get = async (path: string) => (await send(shared.west, path, { route: routes.getAttachment })).status
  const upload = await rest.uploadAttachment({ channel_id, file: note("hello") })
  const urls: string[] = []
  for (const { id } of channels) {
    const { attachments } = await rest.createMessage({ channel_id: id, attachments: [upload] })
    urls.push(attachments[0]!.url, (await shown(shared, { ada, channel_id: id }, note("x"))).url)
  }
  const all = async () => [await get(urls[0]!), await get(urls[1]!), await get(urls[2]!), await get(urls[3]!)]
  expect(await all()).toEqual([200, 200, 200, 200])
  await rest.deleteChannel({ channel_id: channels[0]!.id })
  // The first is shown elsewhere as well.
  expect(await all()).toEqual([200, 404, 200, 200])
  await rest.deleteServer({ server_id })
  expect(await all()).toEqual([404, 404, 404, 404])
})

test("a file in a DM is for the two alone", async ({ shared }) => {
  const { ada, lin, rest } = await scene(shared)
  const eve = await shared.person("eve")
  const get = async (path: string, who: Person) => {
    const { code, text } = await send(shared.west, path, { route: routes.getAttachment, token: who.token })
    return code ?? text
  }
  const channel_id = await dmBetween(ada, lin, shared.east)
  const file = await rest.uploadAttachment({ channel_id, file: note("between us") })
  expect(await get(file.url, lin)).toBe("file_access_denied")
  await rest.createMessage({ channel_id, attachments: [file] })
  expect(await Promise.all([ada, lin, eve].map(who => get(file.url, who)))).toEqual([
    "between us",
    "between us",
    "file_access_denied",
  ])
  const upload = (who: Person) => refusal(who.on(shared.east).uploadAttachment({ channel_id, file: note("x") }))
  expect(await upload(eve)).toBe("channel_not_found")
  await ada.on(shared.west).blockUser({ user_id: lin.id })
  expect(await Promise.all([ada, lin].map(upload))).toEqual(["cannot_message", "cannot_message"])
})

test("no path leads out of the folder, and what is not there is not there", async ({ shared }) => {
  const { ada } = await scene(shared)
  const hex = "a".repeat(32)
  for (const name of [
    "..%2f..%2fsecret.key",
    "%2e%2e%5cx",
    "a",
    `${hex}.png%20`,
    `${hex.toUpperCase()}.png`,
    `${hex}.p%2fg`,
    `${hex}%2fx`,
  ]) {
    const answer = await send(shared.east, pathOf(name), { token: ada.token })
    expect([name, answer.status]).toEqual([name, 400])
  }
  const gone = await send(shared.east, pathOf(`${hex}.png`), { route: routes.getAttachment, token: ada.token })
  expect(gone.code).toBe("file_not_found")
  const wrong = await send(shared.east, pathOf("x"), { route: routes.getAttachment, token: ada.token })
  expect(wrong.code).toBe("invalid_filename")
})

/** An upload whose bytes come when the test says so. */
const slowUpload = (shared: SharedCluster, person: Person, channel_id: string, length: number) =>
  slowForm(shared.east, person, `/api/v1/channels/${channel_id}/attachments`, length)

test("BODY2: an upload that is cut off, or is too slow, leaves nothing", async ({ shared }) => {
  const { ada, channel_id } = await scene(shared)
  const before = (await uploadsOf(shared)).length
  const cut = slowUpload(shared, ada, channel_id, 1_000_000)
  cut.socket.write(Buffer.alloc(400_000))
  await until("some of it is on the disk", async () => (await uploadsOf(shared)).length > before)
  cut.socket.destroy()
  await until("it is gone", async () => (await uploadsOf(shared)).length === before)
  const drip = slowUpload(shared, ada, channel_id, 1_000_000)
  drip.socket.write(Buffer.alloc(10))
  await until("it is told that it took too long", () => drip.answer().startsWith("HTTP/1.1 408"))
  await drip.ended
  await until("and is gone as well", async () => (await uploadsOf(shared)).length === before)
  const [row] = await shared.sql`SELECT files FROM upload_counts WHERE user_id = ${ada.id}`
  expect(row).toEqual({ files: 0 })
})

setFlagsFromString("--expose-gc")
const collect = runInNewContext("gc") as () => void
/** Bytes of buffers that somebody still needs. What is collected is given back a little later. */
async function buffered(hoped = 0): Promise<number> {
  let least = Infinity
  for (let look = 0; look < 5 && least > hoped; look++) {
    collect()
    await new Promise(resolve => setImmediate(resolve))
    least = Math.min(least, process.memoryUsage().arrayBuffers)
  }
  return least
}

test("30 MB go in and out without being in memory, and a reader who stops is cut off", async ({ shared }) => {
  const { ada, channel_id } = await scene(shared)
  await shared.sql`UPDATE users SET tier = 'staff' WHERE id = ${ada.id}`
  const staff = await ada.signIn(shared.east)
  const megabytes = 30
  const chunk = randomBytes(1_048_576)
  const sum = createHash("sha256")
  const bound = 6 * 1_048_576
  let peak = 0
  const base = await buffered()
  const look = async () => (peak = Math.max(peak, (await buffered(base + bound)) - base))
  const { socket, end, answer } = slowUpload(shared, staff, channel_id, megabytes * chunk.length)
  for (let i = 0; i < megabytes; i++) {
    sum.update(chunk)
    if (!socket.write(chunk)) await new Promise(resolve => socket.once("drain", resolve))
    if (i % 10 === 9) await look()
  }
  socket.write(end)
  await until("it is answered", () => answer().includes("\r\n\r\n{"))
  await look()
  expect(answer()).toMatch(/^HTTP\/1.1 200/)
  const upload = JSON.parse(answer().slice(answer().indexOf("\r\n\r\n{"))) as Upload
  socket.destroy()
  expect([upload.size, upload.hash]).toEqual([megabytes * chunk.length, sum.digest("hex")])
  const response = await fetch(shared.west.url + upload.url, { headers: { authorization: `Bearer ${staff.token}` } })
  const got = createHash("sha256")
  let pieces = 0
  for await (const piece of response.body!) {
    got.update(piece as Uint8Array)
    if (++pieces === 100) await look()
  }
  expect(got.digest("hex")).toBe(upload.hash)
  expect(peak).toBeLessThan(bound)

  const { hostname, port } = new URL(shared.east.url)
  const stopped = connect(Number(port), hostname).on("error", () => {})
  stopped.pause()
  stopped.write(`GET ${upload.url} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${staff.token}\r\n\r\n`)
  const sending = () => gauge(shared.east, "starling_http_requests_in_flight")
  await until("it is sent to", async () => (await sending()) === 1)
  await until("the server has given up", async () => (await sending()) === 0)
  stopped.destroy()
})

test("FILE2: a file in no message is deleted after a day, others with their last message, and nothing is left", async ({
  cluster,
}) => {
  const [worker] = await cluster.boot(1)
  const { ada, lin, server, channel } = await cluster.seed(sharedServer)
  const rest = ada.on(worker!)
  const channel_id = channel.id
  const blobs = new Map<string, string>()
  // Each is kept by itself: what is sent twice is kept once.
  const upload = async (by = rest) => {
    const { id } = await by.uploadAttachment({ channel_id, file: note(`hello ${blobs.size}`) })
    blobs.set(id, await blobOf(cluster, id))
    return id
  }
  const names = ["unsent", "fresh", "deleted", "twice", "bulk", "withChannel", "withServer", "lins"] as const
  const files = {} as Record<(typeof names)[number], string>
  for (const name of names) files[name] = await upload(name === "lins" ? lin.on(worker!) : rest)
  const isThere = async (name: keyof typeof files) => (await uploadsOf(cluster)).includes(blobs.get(files[name])!)
  const post = async (name: keyof typeof files, channel = channel_id, by = rest) =>
    (await by.createMessage({ channel_id: channel, attachments: [{ id: files[name] }] })).id
  const other = await rest.createChannel({ server_id: server.id, name: "other" })
  const { server_id: elsewhere, channel_id: there } = await plantServer(cluster, { owner: ada })
  const deleted = await post("deleted")
  const twice = [await post("twice"), await post("twice", other.id)]
  const bulk = [await post("bulk"), await post("bulk")]
  await post("withChannel", other.id)
  await post("withServer", there)
  await post("lins", channel_id, lin.on(worker!))
  await cluster.bootJobWorker()
  await rest.deleteMessage({ channel_id, message_id: deleted })
  await until("the file goes with its message", async () => !(await isThere("deleted")))
  await rest.bulkDeleteMessages({ channel_id, messages: bulk })
  await until("or with its messages", async () => !(await isThere("bulk")))
  await rest.deleteMessage({ channel_id, message_id: twice[0]! })
  await rest.deleteChannel({ channel_id: other.id })
  await until("or with its channel", async () => !(await isThere("withChannel")) && !(await isThere("twice")))
  await rest.deleteServer({ server_id: elsewhere })
  await until("or with its server", async () => !(await isThere("withServer")))
  await cluster.sql`UPDATE uploads SET keep_until = keep_until - 86401 WHERE file = ${files.unsent}`
  await until("what was never sent is swept", async () => !(await isThere("unsent")), { timeoutMs: 15_000 })
  const left = [files.fresh, files.lins].map(file => blobs.get(file)!)
  expect((await uploadsOf(cluster)).toSorted()).toEqual(left.toSorted())
  expect(await cluster.sql`SELECT file FROM uploads ORDER BY file`).toEqual(
    [files.fresh, files.lins].toSorted().map(file => ({ file })),
  )
  await until(
    "and nothing is left to do",
    async () => (await cluster.sql`SELECT FROM unused_files WHERE key LIKE 'uploads/%'`).length === 0,
  )
  expect((await readFile(join(cluster.dataDir, "files/uploads", left[0]!))).toString()).toBe("hello 1")
})

/** Statements on these uploads that wait for a row which the test holds. */
const waiting = async (shared: SharedCluster): Promise<number> =>
  (
    await shared.sql`
      SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%upload_uses%'`
  ).length

test("FILE1: a message with a file that expires keeps it, or is refused: no message is left without its file", async ({
  shared,
}) => {
  const { channel_id, rest } = await scene(shared)
  const state = async (id: string) => [
    (await shared.sql`SELECT FROM uploads WHERE file = ${id}`).length,
    (await shared.sql`SELECT FROM upload_uses WHERE file = ${id}`).length,
  ]
  const over = async () => {
    const { id } = await rest.uploadAttachment({ channel_id, file: note(randomBytes(8).toString("hex")) })
    await shared.sql`UPDATE uploads SET keep_until = 0 WHERE file = ${id}`
    return id
  }
  const post = (id: string) =>
    rest.createMessage({ channel_id, attachments: [{ id }] }).then(
      () => "sent",
      (error: ApiError) => error.message,
    )

  // The message comes first: its row is on the way when the file is to end.
  const shown = await over()
  let sent: Promise<string> | undefined
  await shared.sql.begin(async sql => {
    await sql`SELECT FROM uploads WHERE file = ${shown} FOR UPDATE`
    sent = post(shown)
    await until("the message waits for the file", async () => (await waiting(shared)) === 1)
    expect((await uploadsStorage(shared.sql).end(1, 10, [shown])).keys).toEqual([])
  })
  expect(await sent).toBe("sent")
  expect((await uploadsStorage(shared.sql).end(1, 10, [shown])).keys).toEqual([])
  expect(await state(shown)).toEqual([1, 1])

  // The end comes first: it is not committed when the message is written, and the message had seen
  // the file.
  const ended = await over()
  const blob = await blobOf(shared, ended)
  await shared.sql.begin(async sql => {
    // What the storage commits is committed with this transaction.
    const within = Object.assign(sql, { begin: (_: string, act: (own: typeof sql) => Promise<unknown>) => act(sql) })
    const { keys } = await uploadsStorage(within as unknown as typeof shared.sql).end(1, 10, [ended])
    expect(keys).toEqual([`uploads/${blob}`])
    sent = post(ended)
    await until("the message waits for the end", async () => (await waiting(shared)) === 1)
  })
  expect(await sent).toContain("An attachment has to be a file")
  expect(await state(ended)).toEqual([0, 0])
  await shared.sql`DELETE FROM unused_files WHERE key LIKE 'uploads/%'`
})

test("FILE1: a file whose messages are deleted at the same moment goes, with whichever deletion", async ({
  shared,
}) => {
  const { sql } = shared
  const files = Array.from({ length: 300 }, () => randomBytes(16).toString("hex"))
  const [first, second] = [801, 802]
  await sql`
    INSERT INTO uploads (file, user_id, filename, content_type, size, hash, created_at, is_shared)
    SELECT file, 1, 'note.txt', 'text/plain', 1, file, 1, false FROM unnest(${files}::text[]) AS file`
  await sql`
    INSERT INTO upload_uses (file, channel_id, message_id) SELECT file, channel, 1 FROM unnest(${files}::text[]) AS file, unnest(${[first, second]}::bigint[]) AS channel`
  // What deletes a message, and the job after it.
  const leave = async (file: string, channel: number) => {
    await sql`
      WITH shown AS (DELETE FROM upload_uses WHERE file = ${file} AND channel_id = ${channel} RETURNING file)
      UPDATE uploads SET keep_until = 0 WHERE file IN (SELECT file FROM shown)`
    await uploadsStorage(sql).end(1, 1, [file])
  }
  for (const file of files) await Promise.all([leave(file, first), leave(file, second)])
  expect(await sql`SELECT file, keep_until FROM uploads WHERE file = ANY(${files}::text[])`).toEqual([])
  await sql`DELETE FROM unused_files WHERE key LIKE 'uploads/%'`
})

test("an upload of which nobody knows whether it was kept stays counted", async ({ shared }) => {
  const { ada, channel_id, rest } = await scene(shared)
  const counted = async () => (await shared.sql`SELECT files FROM upload_counts WHERE user_id = ${ada.id}`)[0]
  await shared.sql.unsafe(`
    CREATE FUNCTION lose_answer() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN RAISE EXCEPTION 'canceling statement due to statement timeout' USING ERRCODE = '57014'; END $$;
    CREATE TRIGGER lose_answer BEFORE INSERT ON uploads FOR EACH ROW WHEN (NEW.filename = 'lost.txt') EXECUTE FUNCTION lose_answer()`)
  try {
    expect(await refusal(rest.uploadAttachment({ channel_id, file: note("hello", "lost.txt") }))).toBe("unavailable")
    expect(await counted()).toEqual({ files: 1 })
    expect(await refusal(rest.uploadAttachment({ channel_id, file: note("", "x.txt") }))).toBe("empty_file")
    expect(await counted()).toEqual({ files: 1 })
  } finally {
    await shared.sql.unsafe("DROP TRIGGER lose_answer ON uploads; DROP FUNCTION lose_answer()")
  }
})

test("one user has three long uploads at once, which keeps nobody else from any, nor them from short ones", async ({
  shared,
}) => {
  const { ada, lin, channel_id, rest } = await scene(shared)
  const slow = [1, 2, 3].map(() => slowUpload(shared, ada, channel_id, 1_000_000))
  const long = note("x".repeat(1_000_000))
  await until("they have begun", async () => {
    const [row] = await shared.sql`SELECT files FROM upload_counts WHERE user_id = ${ada.id}`
    return row?.["files"] === 3
  })
  expect(await refusal(rest.uploadAttachment({ channel_id, file: long }))).toBe("unavailable")
  await rest.uploadAttachment({ channel_id, file: note("hello") })
  await lin.on(shared.east).uploadAttachment({ channel_id, file: long })
  for (const { socket } of slow) socket.destroy()
  await until("there is capacity again", async () => {
    const verdict = await rest.uploadAttachment({ channel_id, file: long }).catch(() => undefined)
    return verdict !== undefined
  })
})
