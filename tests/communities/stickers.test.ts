import { createHash } from "node:crypto"
import { routes } from "../../src/contract/contract.ts"
import type { StickerPack } from "../../src/contract/communities/stickers.ts"
import { allIntents, bitOf } from "../../src/contract/core/intents.ts"
import { refusal } from "../kit/conformance.ts"
import { send } from "../kit/exchange.ts"
import { animatedGif, apng, factsOf, fileOf, filesOf, html, jpeg, lottie, png, pngOf } from "../kit/pictures.ts"
import { plantedId, sharedServer } from "../kit/seeds.ts"
import { expect, testWith, type SharedCluster } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const test = testWith({ jobWorkers: 1 })

const small = fileOf(await png(16, 9))

async function managed(shared: SharedCluster) {
  const scene = await shared.seed(sharedServer)
  const { ada, lin, server } = scene
  return { ...scene, server_id: server.id, owner: ada.on(shared.east), member: lin.on(shared.west) }
}

test("stickers come and go with their pack; every member is told of the one that changed", async ({ shared }) => {
  const { ada, lin, server_id, owner, member } = await managed(shared)
  const [inbox, quiet] = [
    await lin.listen(shared.east),
    await lin.listen(shared.west, { intents: allIntents & ~bitOf("GUILD_EMOJIS") }),
  ]
  const boat = await owner.createSticker({ server_id, name: "Boat", image: small, tags: " Sea, ship ,sea,," })
  expect(boat).toMatchObject({
    name: "Boat",
    format: "png",
    tags: ["sea", "ship"],
    width: 16,
    height: 9,
    available: true,
  })
  const pack = (...stickers: object[]): StickerPack =>
    ({
      id: boat.pack_id,
      name: "Stickers 1",
      description: null,
      pack_type: "server",
      server_id,
      sticker_count: stickers.length,
      stickers,
    }) as StickerPack
  const told = (...packs: StickerPack[]) => ({ guild_id: server_id, server_id, sticker_packs: packs })
  expect(await inbox.next("GUILD_STICKERS_UPDATE")).toEqual(told(pack(boat)))
  const wave = await owner.createSticker({ server_id, name: "Wave", image: fileOf(apng()) })
  expect(wave).toMatchObject({ pack_id: boat.pack_id, format: "apng", tags: [], width: 4, height: 4 })
  expect(await inbox.next("GUILD_STICKERS_UPDATE")).toEqual(told(pack(boat, wave)))
  expect(await member.listStickers({ server_id })).toEqual([pack(boat, wave)])

  const client = await lin.listen(shared.east)
  client.drop()
  expect(await owner.deleteSticker({ sticker_id: boat.id })).toEqual({ success: true })
  await client.reconnect(shared.west.url)
  expect(await client.next("GUILD_STICKERS_UPDATE")).toEqual(told(pack(wave)))
  expect(await inbox.next("GUILD_STICKERS_UPDATE")).toEqual(told(pack(wave)))
  await owner.deleteSticker({ sticker_id: wave.id })
  expect(await inbox.next("GUILD_STICKERS_UPDATE")).toEqual(told(pack()))
  expect(await member.listStickers({ server_id })).toEqual([])
  expect(await refusal(owner.deleteSticker({ sticker_id: wave.id }))).toBe("sticker_not_found")
  await shared.settle()
  expect(quiet.rest()).toEqual([])
  const log = await owner.listAuditLog({ server_id, user_id: ada.id })
  expect(
    log.filter(({ target_type }) => target_type === "sticker").map(entry => [entry.action, entry.target_name]),
  ).toEqual([
    ["STICKER_DELETE", "Wave"],
    ["STICKER_DELETE", "Boat"],
    ["STICKER_CREATE", "Wave"],
    ["STICKER_CREATE", "Boat"],
  ])
  expect(await shared.sql`SELECT FROM sticker_packs WHERE server_id = ${server_id}`).toHaveLength(0)
})

test("every format comes back as what it is, pictures re-encoded", async ({ shared }) => {
  const { server_id, owner } = await managed(shared)
  for (const [name, bytes, format, type] of [
    ["still", await png(2048, 1), "png", "image/png"],
    ["moving", apng(), "apng", "image/png"],
    ["drawn", lottie(), "json", "application/json"],
    ["largest", await pngOf(524_288), "png", "image/png"],
  ] as const) {
    const sticker = await owner.createSticker({ server_id, name, image: fileOf(bytes, "x.gif", "image/gif") })
    expect([name, sticker.format]).toEqual([name, format])
    const sent = await send(shared.west, sticker.url, { route: routes.getStickerFile })
    if (format === "json") expect(Buffer.from(sent.bytes).equals(bytes)).toBe(true)
    else expect(await factsOf(sent.bytes)).toEqual(await factsOf(bytes))
    expect(sent.headers.get("content-type")).toBe(type)
    expect(sent.headers.get("content-disposition")).toBe(format === "json" ? "attachment" : null)
    expect(sent.headers.get("etag")).toBe(`"${createHash("sha256").update(sent.bytes).digest("hex")}"`)
  }
  expect(await owner.listStickers({ server_id })).toMatchObject([
    { sticker_count: 4, stickers: [{}, {}, { width: 320, height: 240 }, {}] },
  ])
  expect((await send(shared.east, "/api/v1/media/stickers/1", { route: routes.getStickerFile })).code).toBe(
    "sticker_not_found",
  )
  expect((await send(shared.east, "/api/v1/media/stickers/x", { route: routes.getStickerFile })).code).toBe(
    "invalid_id",
  )
})

test("a file that is no sticker, is too long, too wide or badly named is refused, and nothing is kept of it", async ({
  shared,
}) => {
  const { server_id, owner } = await managed(shared)
  for (const [expected, bytes] of [
    ["invalid_file", await animatedGif()],
    ["invalid_file", await jpeg()],
    ["invalid_file", html],
    ["invalid_file", Buffer.from("[]")],
    ["invalid_file", Buffer.from("null")],
    ["invalid_file", Buffer.from('{"a":1}')],
    ["invalid_file", lottie({ layers: {} })],
    ["invalid_file", lottie({ w: 0 })],
    ["invalid_file", lottie({ op: 0 })],
    ["invalid_file", lottie().subarray(0, 20)],
    ["invalid_file", Buffer.from("[".repeat(400_000))],
    ["picture_too_large", await png(2049, 1)],
    ["file_too_large", await pngOf(524_289)],
  ] as const)
    expect(await refusal(owner.createSticker({ server_id, name: "Wrong", image: fileOf(bytes) }))).toBe(expected)
  for (const wrong of [
    { name: "x" },
    { name: "x".repeat(31) },
    { tags: "x".repeat(31) },
    { tags: Array.from({ length: 21 }, (_, i) => i).join() },
    { tags: "x,".repeat(300) },
  ])
    expect(await refusal(owner.createSticker({ server_id, name: "Right", image: small, ...wrong }))).toBe(
      "validation_failed",
    )
  expect(await filesOf(shared, server_id)).toEqual([])
})

test("STICK1: a pack holds 50; a new one begins when all are full; the last place is given once", async ({
  shared,
}) => {
  const { ada, server_id, owner } = await managed(shared)
  const first = BigInt(plantedId())
  const plant = (packs: number, full: number) => shared.sql`
    WITH packs AS (
      INSERT INTO sticker_packs (id, server_id, name)
      SELECT ${String(first)}::bigint + 4194304 * p, ${server_id}, 'Stickers ' || p FROM generate_series(1, ${packs}::int) AS p RETURNING id)
    INSERT INTO stickers (id, pack_id, server_id, name, format, tags, file, content_type, hash, size, created_by, created_at)
    SELECT id + 4294967296000 + 4096 * 4096 * n, id, ${server_id}, 'planted', 'png', '{}', md5(id || ' ' || n), 'image/png', '', 1, ${ada.id}, 1
    FROM packs, generate_series(1, ${full}::int) AS n`
  await plant(2, 49)
  const add = () => owner.createSticker({ server_id, name: "More", image: small })
  const inbox = await ada.listen(shared.west)
  const packs = [await add(), await add(), await add()].map(({ pack_id }) => pack_id)
  expect(new Set(packs).size).toBe(3)
  for (const [i, count] of [50, 50, 1].entries()) {
    const { sticker_packs } = await inbox.next("GUILD_STICKERS_UPDATE")
    expect(sticker_packs).toMatchObject([{ id: packs[i], sticker_count: count }])
  }
  expect((await owner.listStickers({ server_id })).map(({ name, sticker_count }) => [name, sticker_count])).toEqual([
    ["Stickers 1", 50],
    ["Stickers 2", 50],
    ["Stickers 3", 1],
  ])

  const other = await managed(shared)
  await shared.sql`
    WITH packs AS (
      INSERT INTO sticker_packs (id, server_id, name)
      SELECT ${plantedId()}::bigint + 4194304 * p, ${other.server_id}, 'Stickers ' || p FROM generate_series(1, 50) AS p RETURNING id)
    INSERT INTO stickers (id, pack_id, server_id, name, format, tags, file, content_type, hash, size, created_by, created_at)
    SELECT ${plantedId()}::bigint + 4194304 * row_number() OVER (), id, ${other.server_id}, 'planted', 'png', '{}', md5(random()::text), 'image/png', '', 1, ${ada.id}, 1
    FROM packs, generate_series(1, 50) AS n`
  const [doomed] = await shared.sql<
    { id: string }[]
  >`SELECT id FROM stickers WHERE server_id = ${other.server_id} LIMIT 1`
  await other.owner.deleteSticker({ sticker_id: doomed!.id })
  const racing = await Promise.allSettled(
    Array.from({ length: 3 }, () =>
      other.owner.createSticker({ server_id: other.server_id, name: "Last", image: small }),
    ),
  )
  expect(racing.filter(({ status }) => status === "fulfilled")).toHaveLength(1)
  expect(await refusal(other.owner.createSticker({ server_id: other.server_id, name: "Last", image: small }))).toBe(
    "sticker_limit",
  )
  await until("what was refused is gone", async () => (await filesOf(shared, other.server_id)).length === 1)
})

test("stickers: 403 for others, 404 for what is not there, 400 for what is no id", async ({ shared }) => {
  const { server_id, owner, member } = await managed(shared)
  const stranger = (await shared.person("eve")).on(shared.west)
  const { id: sticker_id } = await owner.createSticker({ server_id, name: "Here", image: small })
  for (const [rest, server, expected] of [
    [stranger, server_id, "access_denied"],
    [stranger, "1", "server_not_found"],
    [stranger, "x", "invalid_server_id"],
    [member, server_id, "permission_denied"],
  ] as const) {
    if (expected !== "permission_denied") expect(await refusal(rest.listStickers({ server_id: server }))).toBe(expected)
    expect(await refusal(rest.createSticker({ server_id: server, name: "No", image: small }))).toBe(expected)
  }
  expect(await refusal(stranger.deleteSticker({ sticker_id }))).toBe("access_denied")
  expect(await refusal(member.deleteSticker({ sticker_id }))).toBe("permission_denied")
  expect(await refusal(owner.deleteSticker({ sticker_id: "1" }))).toBe("sticker_not_found")
  expect(await refusal(owner.deleteSticker({ sticker_id: "x" }))).toBe("invalid_id")
  expect(await refusal(owner.sendSticker({ sticker_id: "x", message_id: "1" }))).toBe("invalid_id")
})

test("a use counts for one's own message in a server of one's own, and for nothing else", async ({ shared }) => {
  const { ada, server_id, channel, owner, member } = await managed(shared)
  const eve = (await shared.person("eve")).on(shared.east)
  const { id: sticker_id } = await owner.createSticker({ server_id, name: "Used", image: small })
  const [own, others, gone] = [
    await owner.createMessage({ channel_id: channel.id, content: "Ada's" }),
    await member.createMessage({ channel_id: channel.id, content: "Lin's" }),
    await owner.createMessage({ channel_id: channel.id, content: "gone" }),
  ]
  await owner.deleteMessage({ channel_id: channel.id, message_id: gone.id })
  expect(await owner.sendSticker({ sticker_id, message_id: own.id })).toEqual({ success: true })
  expect(await member.sendSticker({ sticker_id, message_id: others.id })).toEqual({ success: true })
  for (const [rest, sticker, message_id] of [
    [owner, sticker_id, others.id],
    [owner, sticker_id, gone.id],
    [owner, sticker_id, "1"],
    [owner, "1", own.id],
    [eve, sticker_id, own.id],
  ] as const)
    expect(await rest.sendSticker({ sticker_id: sticker, message_id })).toEqual({ success: false })
  const urlencoded = await send(shared.east, `/api/v1/stickers/${sticker_id}/send`, {
    route: routes.sendSticker,
    token: ada.token,
    body: `message_id=${own.id}`,
    headers: { "content-type": "application/x-www-form-urlencoded" },
  })
  expect(urlencoded.body).toEqual({ success: true })
  expect(await refusal(owner.sendSticker({ sticker_id, message_id: "x" }))).toBe("validation_failed")
  const [row] = await shared.sql`SELECT uses FROM stickers WHERE id = ${sticker_id}`
  expect(row).toEqual({ uses: 3 })
})

test("stickers are suggested by name and by tag, the most used first, and only of servers that one is in", async ({
  shared,
}) => {
  const { server_id, channel, owner, member } = await managed(shared)
  const stranger = (await shared.person("eve")).on(shared.west)
  const add = (name: string, tags = "") => owner.createSticker({ server_id, name, image: small, tags })
  const [gull, boat, sea] = [await add("Happy gull", "bird,sea"), await add("Boat", "sea"), await add("100%", "sea")]
  const rare = await add("Rare", "heron,good morning")
  const message = await owner.createMessage({ channel_id: channel.id, content: "x" })
  await owner.sendSticker({ sticker_id: boat.id, message_id: message.id })
  const names = async (rest: typeof owner, content: string, more: { server_id?: string; limit?: string } = {}) =>
    (await rest.suggestStickers({ content, ...more })).map(({ name }) => name)
  expect(await member.suggestStickers({ content: " SEA! " })).toEqual([boat, gull, sea])
  expect(await names(member, "sea", { limit: "2" })).toEqual(["Boat", "Happy gull"])
  expect(await names(member, "a happy gull over a boat")).toEqual(["Boat", "Happy gull"])
  expect(await names(member, "gul")).toEqual(["Happy gull"])
  expect(await names(member, "%")).toEqual(["100%"])
  for (const nothing of ["", " ", "_", "nobody"]) expect(await names(member, nothing)).toEqual([])
  expect(await names(stranger, "sea")).toEqual([])
  expect(await names(stranger, "sea", { server_id })).toEqual([])
  expect(await names(member, "sea", { server_id: "1" })).toEqual([])
  expect(await names(member, "heron")).toEqual(["Rare"])
  expect(await names(member, "A good morning to you")).toEqual(["Rare"])
  expect(await names(member, "morning")).toEqual([])
  // Of a server with many only the most used are looked at, unless it is named.
  await shared.sql`
    INSERT INTO stickers (id, pack_id, server_id, name, format, tags, file, content_type, hash, size, uses, created_by, created_at)
    SELECT ${plantedId()}::bigint + 4194304 * n, ${rare.pack_id}, ${server_id}, 'planted', 'png', '{}', md5(random()::text), 'image/png', '', 1, 1, 1, 1
    FROM generate_series(1, 99) AS n`
  expect(await names(member, "heron")).toEqual([])
  expect(await names(member, "heron", { server_id })).toEqual(["Rare"])
  expect(await names(member, "boat")).toEqual(["Boat"])
  for (const limit of ["0", "21", "x"])
    expect(await refusal(member.suggestStickers({ content: "sea", limit }))).toBe("validation_failed")
})
