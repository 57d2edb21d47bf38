import { createHash } from "node:crypto"
import { mkdir, writeFile } from "node:fs/promises"
import { connect } from "node:net"
import { join } from "node:path"
import type { ApiError } from "../../client/rest.ts"
import type { Emoji } from "../../src/contract/communities/emojis.ts"
import { routes } from "../../src/contract/contract.ts"
import { allIntents, bitOf } from "../../src/contract/core/intents.ts"
import { serverFile } from "../../src/storage/core/blobs.ts"
import { send } from "../kit/exchange.ts"
import { refusal } from "../kit/conformance.ts"
import type { Person } from "../kit/person.ts"
import {
  animatedGif,
  animatedWebp,
  apng,
  factsOf,
  fileOf,
  filesOf,
  gif,
  html,
  jpeg,
  png,
  pngOf,
  webp,
} from "../kit/pictures.ts"
import { plantedId, sharedServer } from "../kit/seeds.ts"
import { expect, testWith, type SharedCluster } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const test = testWith({
  jobWorkers: 1,
  topology: { http: { uploads: { maxBytes: 1_000_000, maxBytesPerUser: 600_000 } } },
})

/** Ada's server, in which Lin has a role that lets them manage emoji, and Mo has nothing. */
async function managed(shared: SharedCluster) {
  const { ada, lin, server, channel } = await shared.seed(sharedServer)
  const server_id = server.id
  const owner = ada.on(shared.east)
  const { id: role_id } = await owner.createRole({ server_id, name: "Artists", permissions: { "emojis.manage": true } })
  await owner.giveRole({ server_id, member_id: lin.id, role_id })
  const mo = await shared.person("mo")
  const { code } = await owner.createInvite({ channel_id: channel.id })
  await mo.on(shared.west).joinByInvite({ invite_code: code })
  return { ada, lin, mo, server_id, owner, artist: lin.on(shared.west), member: mo.on(shared.east) }
}

const small = fileOf(await png())

test("an emoji is added, read, renamed and deleted by members who may; every member is told with the whole list", async ({
  shared,
}) => {
  const { lin, mo, server_id, owner, artist, member } = await managed(shared)
  const [inbox, quiet] = [
    await mo.listen(shared.west),
    await mo.listen(shared.east, { intents: allIntents & ~bitOf("GUILD_EMOJIS") }),
  ]
  const gull = await artist.createEmoji({ server_id, name: "  Gull_1 ", image: small })
  expect(gull).toMatchObject({ server_id, name: "gull_1", animated: false, available: true, created_by: lin.id })
  expect(gull.uploader_username).toBe(lin.username)
  expect(Math.abs(gull.created_at - Date.now())).toBeLessThan(60_000)
  expect(gull.url).toBe(`/api/v1/media/emojis/${gull.id}`)
  const told = (...emojis: Emoji[]) => ({
    guild_id: server_id,
    server_id,
    emojis: emojis.map(emoji => ({ ...emoji, uploader_username: null })),
  })
  expect(await inbox.next("GUILD_EMOJIS_UPDATE")).toEqual(told(gull))
  const boat = await owner.createEmoji({ server_id, name: "boat", image: fileOf(await gif(), "boat.gif") })
  expect(boat.animated).toBe(true)
  expect(await inbox.next("GUILD_EMOJIS_UPDATE")).toEqual(told(boat, gull))
  expect(await member.listEmojis({ server_id })).toEqual([boat, gull])
  expect(await member.getEmoji({ server_id, emoji_id: gull.id })).toEqual(gull)
  expect(await member.countEmojis({ server_id })).toEqual({ static: 1, animated: 1, max_static: 50, max_animated: 50 })

  const renamed = await artist.renameEmoji({ server_id, emoji_id: gull.id, name: "Albatross" })
  expect(renamed).toEqual({ ...gull, name: "albatross" })
  expect(await inbox.next("GUILD_EMOJIS_UPDATE")).toEqual(told(renamed, boat))
  for (const again of [{}, { name: "albatross" }])
    expect(await artist.renameEmoji({ server_id, emoji_id: gull.id, ...again })).toEqual(renamed)
  expect(await artist.deleteEmoji({ server_id, emoji_id: gull.id })).toEqual({ success: true })
  expect(await inbox.next("GUILD_EMOJIS_UPDATE")).toEqual(told(boat))
  expect(await refusal(artist.deleteEmoji({ server_id, emoji_id: gull.id }))).toBe("emoji_not_found")
  await shared.settle()
  expect([inbox.rest(), quiet.rest()]).toEqual([[], []])

  const log = await owner.listAuditLog({ server_id, user_id: lin.id })
  expect(
    log.filter(({ target_type }) => target_type === "emoji").map(entry => [entry.action, entry.target_name]),
  ).toEqual([
    ["EMOJI_DELETE", "albatross"],
    ["EMOJI_UPDATE", "albatross"],
    ["EMOJI_CREATE", "gull_1"],
  ])
})

test("the event is replayed to sessions that were away", async ({ shared }) => {
  const { mo, server_id, artist } = await managed(shared)
  const client = await mo.listen(shared.east)
  client.drop()
  const { id } = await artist.createEmoji({ server_id, name: "missed", image: small })
  await client.reconnect(shared.west.url)
  expect((await client.next("GUILD_EMOJIS_UPDATE")).emojis).toMatchObject([{ id, name: "missed" }])
})

test("an emoji comes back re-encoded, for everybody, as what it is and as nothing else", async ({ shared }) => {
  const { server_id, artist } = await managed(shared)
  const files = {
    png: [await png(1024), "image/png", false],
    apng: [apng(), "image/png", false],
    gif: [await gif(), "image/gif", true],
    moving_gif: [await animatedGif(), "image/gif", true],
    webp: [await webp(), "image/webp", false],
    moving_webp: [await animatedWebp(), "image/webp", true],
    largest: [await pngOf(262_144), "image/png", false],
    // The name and the type that its sender gives it mean nothing.
    misnamed: [await png(9), "image/png", false],
  } as const
  for (const [name, [bytes, type, animated]] of Object.entries(files)) {
    const image = name === "misnamed" ? fileOf(bytes, "../../x.gif", "text/html") : fileOf(bytes)
    const emoji = await artist.createEmoji({ server_id, name, image })
    expect([name, emoji.animated]).toEqual([name, animated])
    for (const place of [shared.east, shared.west]) {
      const { bytes: sent, headers } = await send(place, emoji.url, { route: routes.getEmojiPicture })
      expect(await factsOf(sent)).toEqual({ ...(await factsOf(bytes)), frames: 0 })
      expect(headers.get("content-type")).toBe(type)
      expect(headers.get("access-control-allow-origin")).toBe("*")
      expect(headers.get("cross-origin-resource-policy")).toBe("cross-origin")
      expect(headers.get("content-security-policy")).toContain("sandbox")
      expect(headers.get("cache-control")).toBe("public, max-age=31536000, immutable")
      const etag = `"${createHash("sha256").update(sent).digest("hex")}"`
      expect(headers.get("etag")).toBe(etag)
      const again = await send(place, emoji.url, { headers: { "if-none-match": `"x", W/${etag}` } })
      expect([again.status, again.text]).toEqual([304, ""])
    }
  }
  expect(await filesOf(shared, server_id)).toHaveLength(Object.keys(files).length)
  const [left] =
    await shared.sql`SELECT count(*)::int AS count FROM unused_files WHERE key LIKE ${`servers/${server_id}/%`}`
  expect(left).toEqual({ count: 0 })
  expect((await send(shared.east, "/api/v1/media/emojis/1", { route: routes.getEmojiPicture })).code).toBe(
    "emoji_not_found",
  )
  expect((await send(shared.east, "/api/v1/media/emojis/x", { route: routes.getEmojiPicture })).code).toBe(
    "invalid_emoji_id",
  )
})

test("anything but a PNG, GIF or WebP, or a damaged, too long or too wide one, is 400, and nothing is kept of it", async ({
  shared,
}) => {
  const { server_id, artist } = await managed(shared)
  const whole = await png(64)
  const attempts = [
    ["invalid_file", html],
    ["invalid_file", Buffer.alloc(0)],
    ["invalid_file", await jpeg()],
    ["invalid_file", whole.subarray(0, whole.length - 30)],
    ["invalid_file", Buffer.concat([whole.subarray(0, 8), html])],
    ["invalid_file", Buffer.from('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>')],
    ["picture_too_large", await png(1025, 1)],
    ["picture_too_large", await webp(1, 1025)],
    ["file_too_large", await pngOf(262_145)],
    ["file_too_large", Buffer.alloc(2_000_000)],
  ] as const
  for (const [expected, bytes] of attempts)
    expect(await refusal(artist.createEmoji({ server_id, name: "wrong", image: fileOf(bytes) }))).toBe(expected)
  for (const name of ["", "x", "x".repeat(33), "a b", "ä_ö", "a-b", "<b>"])
    expect(await refusal(artist.createEmoji({ server_id, name, image: small }))).toBe("invalid_emoji_name")
  await until("what was refused is gone", async () => (await filesOf(shared, server_id)).length === 0)
  expect(await artist.listEmojis({ server_id })).toEqual([])
})

test("names are taken once, also by two at a time, and by renaming", async ({ shared }) => {
  const { server_id, owner, artist } = await managed(shared)
  const both = await Promise.allSettled(
    [owner, artist].map(one => one.createEmoji({ server_id, name: "same", image: small })),
  )
  expect(both.map(({ status }) => status).toSorted()).toEqual(["fulfilled", "rejected"])
  expect(await refusal(owner.createEmoji({ server_id, name: " SAME ", image: small }))).toBe("emoji_exists")
  const { id: emoji_id } = await owner.createEmoji({ server_id, name: "other", image: small })
  expect(await refusal(owner.renameEmoji({ server_id, emoji_id, name: "same" }))).toBe("emoji_exists")
  expect(await refusal(owner.renameEmoji({ server_id, emoji_id, name: "no good" }))).toBe("invalid_emoji_name")
  // What nobody names went with its refusal; the two that stand are left.
  await until("two files", async () => (await filesOf(shared, server_id)).length === 2)
})

test("EMOJI1: a server has at most 50 static and 50 animated ones, however many are uploaded at once", async ({
  shared,
}) => {
  const { server_id, owner, artist } = await managed(shared)
  const plant = (animated: boolean, count: number) => shared.sql`
    INSERT INTO emojis (id, server_id, name, animated, file, content_type, hash, size, created_by, created_at)
    SELECT ${plantedId()}::bigint + 4194304 * n, ${server_id}, ${animated ? "moving_" : "still_"} || n, ${animated}, md5(n::text), 'image/png', '', 1, 1, 1
    FROM generate_series(1, ${count}::int) AS n`
  await plant(false, 48)
  await plant(true, 49)
  const outcomes = await Promise.allSettled(
    Array.from({ length: 5 }, (_, i) =>
      (i % 2 ? owner : artist).createEmoji({ server_id, name: `late_${i}`, image: small }),
    ),
  )
  expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(2)
  expect(await refusal(owner.createEmoji({ server_id, name: "more", image: small }))).toBe("emoji_limit")
  const moving = fileOf(await animatedGif())
  await owner.createEmoji({ server_id, name: "last", image: moving })
  expect(await refusal(owner.createEmoji({ server_id, name: "more", image: moving }))).toBe("emoji_limit")
  expect(await owner.countEmojis({ server_id })).toMatchObject({ static: 50, animated: 50 })
})

test("emoji: 403 for others, 404 for what is not there or another server's, 400 for what is no id", async ({
  shared,
}) => {
  const { server_id, owner, artist, member } = await managed(shared)
  const eve = await shared.person("eve")
  const stranger = eve.on(shared.west)
  const { id: emoji_id } = await owner.createEmoji({ server_id, name: "here", image: small })
  const elsewhere = await stranger.createServer({ name: "Elsewhere" })
  const { id: foreign } = await stranger.createEmoji({ server_id: elsewhere.id, name: "there", image: small })
  for (const [rest, server, expected] of [
    [stranger, server_id, "access_denied"],
    [stranger, "1", "server_not_found"],
    [stranger, "x", "invalid_server_id"],
    [member, server_id, "permission_denied"],
  ] as const) {
    const ids = { server_id: server, emoji_id }
    if (expected !== "permission_denied") {
      expect(await refusal(rest.listEmojis(ids))).toBe(expected)
      expect(await refusal(rest.countEmojis(ids))).toBe(expected)
      expect(await refusal(rest.getEmoji(ids))).toBe(expected)
    }
    expect(await refusal(rest.createEmoji({ server_id: server, name: "no", image: small }))).toBe(expected)
    expect(await refusal(rest.renameEmoji({ ...ids, name: "no" }))).toBe(expected)
    expect(await refusal(rest.deleteEmoji(ids))).toBe(expected)
  }
  for (const [id, expected] of [
    ["1", "emoji_not_found"],
    [foreign, "emoji_not_found"],
    ["x", "invalid_emoji_id"],
  ] as const) {
    expect(await refusal(artist.getEmoji({ server_id, emoji_id: id }))).toBe(expected)
    expect(await refusal(artist.renameEmoji({ server_id, emoji_id: id, name: "no" }))).toBe(expected)
    expect(await refusal(artist.deleteEmoji({ server_id, emoji_id: id }))).toBe(expected)
  }
  const message = (call: Promise<unknown>) => call.catch((error: Error) => error.message)
  expect(await message(member.deleteEmoji({ server_id, emoji_id }))).toContain("Missing emojis.manage permission")
  expect(await message(stranger.listEmojis({ server_id }))).toContain("Not a member of this server")
})

test("a member who manages the server may, too", async ({ shared }) => {
  const { mo, server_id, owner, member } = await managed(shared)
  const { id: role_id } = await owner.createRole({ server_id, name: "Keeper", permissions: { "server.manage": true } })
  await owner.giveRole({ server_id, member_id: mo.id, role_id })
  const { id: emoji_id } = await member.createEmoji({ server_id, name: "kept", image: small })
  await member.deleteEmoji({ server_id, emoji_id })
})

const post = (
  shared: SharedCluster,
  { token }: Person,
  server: string,
  contentType: string,
  body: Uint8Array | string,
) =>
  send(shared.east, `/api/v1/servers/${server}/emojis`, {
    route: routes.createEmoji,
    token,
    body: typeof body === "string" ? body : new Uint8Array(body),
    headers: { "content-type": contentType },
  })

test("a malformed form, or one that lacks a part or holds what cannot be stored, is refused with its reason", async ({
  shared,
}) => {
  const { ada, server_id } = await managed(shared)
  const type = "multipart/form-data; boundary=X"
  const name = (text: string) => `--X\r\nContent-Disposition: form-data; name="name"\r\n\r\n${text}\r\n`
  const image = `--X\r\nContent-Disposition: form-data; name="image"; filename="x"\r\n\r\nx\r\n`
  const verdict = async (contentType: string, body: Uint8Array | string) =>
    (await post(shared, ada, server_id, contentType, body)).code
  expect(await verdict(type, `${name("ok")}${image}--X--`)).toBe("invalid_file")
  expect(await verdict(type, `${name("ok")}--X--`)).toBe("validation_failed")
  expect(await verdict(type, `${image}--X--`)).toBe("validation_failed")
  expect(await verdict(type, `${name("ok")}${image}`)).toBe("validation_failed")
  expect(await verdict(type, "")).toBe("validation_failed")
  expect(await verdict("application/json", '{"name":"ok","image":"x"}')).toBe("validation_failed")
  expect(await verdict("application/x-www-form-urlencoded", "name=ok&image=x")).toBe("validation_failed")
  expect(await verdict(type, `${name("o\0k")}${image}--X--`)).toBe("unsafe_text")
  expect(await verdict(type, Buffer.from(`${name("\xff")}${image}--X--`, "latin1"))).toBe("bad_request")
  expect(await verdict(type, Buffer.alloc(262_144 + 65_537))).toBe("file_too_large")
  expect((await post(shared, ada, server_id, type, `${name("ok")}--X--`)).text).toContain('"image"')
})

test("what a worker holds of uploads has a bound: beyond it they are put off, and it is given back", async ({
  shared,
}) => {
  const { server_id, owner } = await managed(shared)
  const image = fileOf(await pngOf(200_000))
  let names = 0
  const outcome = () =>
    owner.createEmoji({ server_id, name: `held_${++names}`, image }).then(
      () => "granted",
      (error: ApiError) => error.status,
    )
  const many = await Promise.all(Array.from({ length: 30 }, outcome))
  for (const one of many) expect(["granted", 503]).toContain(one)
  for (let i = 0; i < 6; i++) expect(await outcome()).toBe("granted")
  const { length } = await owner.listEmojis({ server_id })
  expect(length).toBe(many.filter(one => one === "granted").length + 6)
  expect(await filesOf(shared, server_id)).toHaveLength(length)
})

test("a slow upload holds up its user alone, and frees what it held when it ends", async ({ shared }) => {
  const { lin, server_id, owner, artist } = await managed(shared)
  const image = fileOf(await pngOf(100_000))
  const here = lin.on(shared.east)
  let names = 0
  const outcome = (rest: typeof artist) =>
    rest.createEmoji({ server_id, name: `slow_${++names}`, image }).then(
      () => "granted",
      (error: ApiError) => error.status,
    )
  const { hostname, port } = new URL(shared.east.url)
  const head = `POST /api/v1/servers/${server_id}/emojis HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${lin.token}`
  const stall = async () => {
    const socket = connect(Number(port), hostname).on("error", () => {})
    const all = Buffer.concat([Buffer.from(`${head}\r\nContent-Length: 290000\r\n\r\n`), Buffer.alloc(289_999)])
    await new Promise(resolve => socket.write(all, resolve))
    return socket
  }
  let slow = await stall()
  // It may have come after the other, and be the one that is put off.
  await until("their share is taken", async () => {
    if ((await outcome(here)) === 503) return true
    slow.destroy()
    slow = await stall()
    return false
  })
  expect(await outcome(owner)).toBe("granted")
  slow.destroy()
  await until("their share is free again", async () => (await outcome(here)) === "granted")
})

test("EMOJI2: an emoji's file is deleted with it, a server's with the server, an orphan by the sweep", async ({
  cluster,
}) => {
  const [worker] = await cluster.boot(1)
  const { ada, server } = await cluster.seed(sharedServer)
  const owner = ada.on(worker!)
  const server_id = server.id
  const early = await cluster.bootJobWorker()
  const emoji = await owner.createEmoji({ server_id, name: "doomed", image: small })
  const kept = await owner.createEmoji({ server_id, name: "kept", image: small })
  await early.stop()
  expect(await filesOf(cluster, server_id)).toHaveLength(2)
  // As of a worker that died between the file and its row, an hour ago; and of one that is about to
  // name its file.
  const orphans = ["a".repeat(32), "b".repeat(32)] as const
  const now = Math.floor(Date.now() / 1000)
  for (const [i, file] of orphans.entries()) {
    await writeFile(join(cluster.dataDir, "files", serverFile(server_id, file)), "orphan")
    await cluster.sql`INSERT INTO unused_files (key, since) VALUES (${serverFile(server_id, file)}, ${now - (i === 0 ? 3_700 : 3_000)})`
  }
  // What cannot be deleted holds up nothing that comes after it.
  for (let i = 0; i < 20; i++) {
    const key = serverFile("1", i.toString(16).padStart(32, "0"))
    await mkdir(join(cluster.dataDir, "files", key), { recursive: true })
    await cluster.sql`INSERT INTO unused_files (key, since) VALUES (${key}, ${now - 5_000})`
  }
  await owner.deleteEmoji({ server_id, emoji_id: emoji.id })
  await cluster.bootJobWorker()
  await until("the emoji's file is gone", async () => (await filesOf(cluster, server_id)).length <= 3)
  await until("the orphan is swept", async () => !(await filesOf(cluster, server_id)).includes(orphans[0]), {
    timeoutMs: 15_000,
  })
  expect(await filesOf(cluster, server_id)).toHaveLength(2)
  expect(await filesOf(cluster, server_id)).toContain(orphans[1])
  await until("the others are put off", async () => {
    const putOff = await cluster.sql`SELECT FROM unused_files WHERE key LIKE 'servers/1/%' AND since > ${now - 100}`
    return putOff.length === 20
  })
  expect((await send(worker!, kept.url)).status).toBe(200)
  await owner.deleteServer({ server_id })
  await until("the server's files are gone", async () => (await filesOf(cluster, server_id)).length === 0)
  await until(
    "and nothing is left to do",
    async () => (await cluster.sql`SELECT FROM unused_files WHERE key = ${`servers/${server_id}/`}`).length === 0,
  )
  expect((await send(worker!, kept.url, { route: routes.getEmojiPicture })).code).toBe("emoji_not_found")
  expect(await cluster.sql`SELECT FROM emojis WHERE server_id = ${server_id}`).toHaveLength(0)
})
