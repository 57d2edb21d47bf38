import { readdir, rm } from "node:fs/promises"
import { join } from "node:path"
import sharp from "sharp"
import { thumbHashToRGBA } from "thumbhash"
import { openRedis } from "../../src/cluster/redis.ts"
import { routes } from "../../src/contract/contract.ts"
import type { Upload } from "../../src/contract/messages/attachments.ts"
import type { Message } from "../../src/contract/messages/messages.ts"
import { send } from "../kit/exchange.ts"
import { animatedGif, fileOf, html, photo, png, pngClaiming } from "../kit/pictures.ts"
import type { Person } from "../kit/person.ts"
import { dmBetween, sharedServer } from "../kit/seeds.ts"
import { expect, test } from "../kit/test.ts"
import type { Cluster } from "../kit/cluster.ts"
import { until } from "../kit/until.ts"

const voice = { duration_seconds: 2.5, waveform: Buffer.from([0, 90, 255, 3]).toString("base64") }

const thumbnailsOn = ({ dataDir }: Pick<Cluster, "dataDir">): Promise<string[]> =>
  readdir(join(dataDir, "files", "thumbnails")).catch(() => [])

/** As if Redis had lost them. */
const forgetJobs = (cluster: Cluster) => forget(cluster, "{jobs}*")

/** As if the time had passed in which it flows back. */
const forgetSpent = (cluster: Cluster) => forget(cluster, "*budget:*:thumbnails")

async function forget({ redisUrl, redisPrefix }: Cluster, keysLike: string): Promise<void> {
  const redis = openRedis(redisUrl, "forgetting", () => {})
  await redis.connect()
  const keys = await redis.keys(`${redisPrefix}${keysLike}`)
  if (keys.length > 0) await redis.del(...keys)
  redis.disconnect()
}

test("P15: pictures of a message get thumbnails once, after it was sent; its readers are told, and they go with the file", async ({
  cluster,
}) => {
  const [east, west] = await cluster.boot(2)
  const { ada, lin, channel } = await cluster.seed(sharedServer)
  const eve = await cluster.person("eve")
  const channel_id = channel.id
  const rest = ada.on(east!)
  const upload = async (bytes: Uint8Array, name: string, type: string) =>
    rest.uploadAttachment({ channel_id, file: fileOf(bytes, name, type) })
  const picture = await upload(await photo(1600, 1000), "me.jpg", "image/jpeg")
  const [inbox, strange] = [await lin.listen(west!), await eve.listen(east!)]
  const message = await rest.createMessage({
    channel_id,
    attachments: [
      picture,
      // A voice message keeps what its sender says of it.
      { ...(await upload(Buffer.from("OggS and so on"), "voice.ogg", "audio/ogg")), metadata: voice },
      { ...(await upload(Buffer.from("text"), "note.txt", "text/plain")), metadata: { waveform: null } },
    ],
  })
  expect(message.attachments.map(({ thumbnails }) => thumbnails)).toEqual([null, null, null])
  await inbox.next("MESSAGE_CREATE")
  expect(await cluster.sql`SELECT FROM thumbnail_requests`).toHaveLength(1)
  const dm = await dmBetween(ada, lin, east!)
  await inbox.next("CHANNEL_CREATE")
  await rest.createMessage({ channel_id: dm, attachments: [picture] })
  await inbox.next("MESSAGE_CREATE")

  // Two job workers may make them of the same file for both messages at the same time: those of one are kept.
  await Promise.all([cluster.bootJobWorker(), cluster.bootJobWorker()])
  const update = () => inbox.next("MESSAGE_UPDATE", { timeoutMs: 30_000 })
  const updates = [await update(), await update()]
  const updated = updates.find(one => one.channel_id === channel_id)!
  expect(updates.map(one => one.channel_id).toSorted()).toEqual([channel_id, dm].toSorted())
  const [shown, note] = updated.attachments
  expect(shown).toMatchObject({ id: message.attachments[0]!.id, hash: picture.hash, width: 1000, height: 1600 })
  expect([shown!.metadata, note!.metadata]).toEqual([null, voice])
  expect([note!.width, note!.thumbhash, note!.thumbnails]).toEqual([null, null, null])
  const placeholder = thumbHashToRGBA(Buffer.from(shown!.thumbhash!, "base64"))
  expect(placeholder.h).toBeGreaterThan(placeholder.w)
  for (const [side, url] of Object.entries(shown!.thumbnails!)) {
    const answer = await send(west!, url, { route: routes.getAttachment })
    expect(answer.headers.get("content-type")).toBe("image/webp")
    expect(answer.headers.get("content-security-policy")).toContain("sandbox")
    const { format, width, height, exif } = await sharp(Buffer.from(answer.bytes)).metadata()
    expect({ format, height, exif }).toEqual({ format: "webp", height: Number(side) })
    expect(Math.abs(width - Number(side) / 1.6)).toBeLessThanOrEqual(1)
    const [path] = url.split("?")
    const etag = answer.headers.get("etag")!
    expect((await send(west!, url, { headers: { "if-none-match": etag } })).status).toBe(304)
    // Without the signature it takes what the file itself takes.
    expect((await send(east!, path!, { route: routes.getAttachment })).code).toBe("authentication_required")
    expect((await send(east!, path!, { route: routes.getAttachment, token: eve.token })).code).toBe(
      "file_access_denied",
    )
    expect((await send(east!, path!, { route: routes.getAttachment, token: lin.token })).status).toBe(200)
    const other = path!.replace(`-${side}.webp`, "-65.webp")
    expect((await send(east!, other, { route: routes.getAttachment, token: lin.token })).code).toBe("invalid_filename")
  }
  const withoutLinks = ({ attachments }: Message) =>
    attachments.map(attachment => ({ ...attachment, url: "", thumbnails: null }))
  const [read] = await lin.on(west!).listMessages({ channel_id, limit: "1" })
  expect(withoutLinks(read!)).toEqual(withoutLinks(updated))
  await until("nothing waits", async () => (await cluster.sql`SELECT FROM thumbnail_requests`).length === 0)
  expect(await thumbnailsOn(cluster)).toHaveLength(4)
  expect(await cluster.sql`SELECT FROM upload_thumbnails`).toHaveLength(1)
  expect(await cluster.sql`SELECT FROM unused_files WHERE key LIKE 'thumbnails/%'`).toEqual([])
  await cluster.settle()
  expect([...inbox.rest(), ...strange.rest()].filter(({ name }) => name !== "SESSION_POSITION")).toEqual([])

  // Another message with the file finds what was made of it.
  const again = await rest.createMessage({ channel_id, attachments: [picture] })
  await inbox.next("MESSAGE_CREATE")
  expect((await update()).attachments[0]!.thumbhash).toBe(shown!.thumbhash)
  expect(await thumbnailsOn(cluster)).toHaveLength(4)
  for (const { channel_id: place, id } of [{ ...again }, { ...message }, updates.find(one => one.channel_id === dm)!])
    await rest.deleteMessage({ channel_id: place, message_id: id })
  await until("they are gone with the file", async () => (await thumbnailsOn(cluster)).length === 0)
  expect(await cluster.sql`SELECT FROM upload_thumbnails`).toHaveLength(0)
  await until("nothing is noted", async () => (await cluster.sql`SELECT FROM unused_files`).length === 0)
})

test("THUMBNAIL_GEN: a picture is decoded once, when it comes; what is more than a user may have waits, and keeps nobody else waiting", async ({
  cluster,
}) => {
  const [worker] = await cluster.boot(1)
  const { ada, lin, channel } = await cluster.seed(sharedServer)
  const channel_id = channel.id
  const limit = { THUMBNAIL_GEN: { requests: 1, seconds: 86_400, burst: 1 } }
  await cluster.bootJobWorker({ config: { STARLING_RATE_LIMITS: JSON.stringify(limit) } })
  const upload = async (by: Person, width: number) =>
    by.on(worker!).uploadAttachment({ channel_id, file: fileOf(await photo(width, 200), "x.jpg", "image/jpeg") })
  const post = (by: Person, ...attachments: Upload[]) => by.on(worker!).createMessage({ channel_id, attachments })
  const isHashed = async ({ hash }: Upload) =>
    (await cluster.sql`SELECT FROM upload_contents WHERE hash = ${hash} AND phash IS NOT NULL`).length === 1
  const thumbnails = async () =>
    (await cluster.sql`SELECT file FROM upload_thumbnails`).map(({ file }) => file as string)
  const inbox = await lin.listen(worker!)
  const update = () => inbox.next("MESSAGE_UPDATE", { timeoutMs: 30_000 })

  const first = [await upload(ada, 300), await upload(ada, 310)]
  await until("both have thumbnails before they are shown", async () => (await thumbnails()).length === 2)
  expect(await Promise.all(first.map(isHashed))).toEqual([true, true])
  // Nobody can decode them again.
  await rm(join(cluster.dataDir, "files", "uploads"), { recursive: true })
  await post(ada, ...first)
  expect((await update()).attachments.map(({ width }) => width)).toEqual([200, 200])

  const more = await upload(ada, 320)
  await until("it is looked at all the same", () => isHashed(more))
  const late = await post(ada, more)
  const others = await upload(lin, 330)
  const soon = await post(lin, others)
  expect((await update()).id).toBe(soon.id)
  expect(await thumbnails()).not.toContain(more.id)
  expect(await cluster.sql`SELECT message_id::text FROM thumbnail_requests`).toEqual([{ message_id: late.id }])
  await forgetSpent(cluster)
  expect((await update()).id).toBe(late.id)
  expect(await thumbnails()).toContain(more.id)
})

test("what only calls itself a picture, is damaged or is a bomb has no thumbnails; what was lost is made by the sweep", async ({
  cluster,
}) => {
  const [worker] = await cluster.boot(1)
  const { ada, channel } = await cluster.seed(sharedServer)
  const channel_id = channel.id
  const rest = ada.on(worker!)
  const whole = await png(64)
  const inbox = await ada.listen(worker!)
  for (const bytes of [
    Buffer.concat([whole.subarray(0, 40), html]),
    whole.subarray(0, whole.length / 2),
    pngClaiming(30_000, 30_000),
    pngClaiming(1, 60_000),
  ]) {
    const file = await rest.uploadAttachment({ channel_id, file: fileOf(bytes, "x.png", "image/png") })
    await rest.createMessage({ channel_id, attachments: [file] })
  }
  // The queue forgets the job of this one; the message before it is gone when its job runs.
  const moving = await rest.uploadAttachment({ channel_id, file: fileOf(await animatedGif(700), "x.gif", "image/gif") })
  const gone = await rest.createMessage({ channel_id, attachments: [moving] })
  await rest.deleteMessage({ channel_id, message_id: gone.id })
  const kept = await rest.createMessage({ channel_id, attachments: [moving] })
  for (let i = 0; i < 6; i++) await inbox.next("MESSAGE_CREATE")
  await forgetJobs(cluster)
  await cluster.sql`UPDATE thumbnail_requests SET since = 0`
  await cluster.bootJobWorker()
  const updated = await inbox.next("MESSAGE_UPDATE", { timeoutMs: 60_000 })
  expect(updated).toMatchObject({ id: kept.id, attachments: [{ width: 700, height: 700 }] })
  await until("nothing waits", async () => (await cluster.sql`SELECT FROM thumbnail_requests`).length === 0)
  await cluster.settle()
  const heard = inbox.rest().map(({ name }) => name)
  expect(heard.filter(name => name !== "SESSION_POSITION")).toEqual(["MESSAGE_DELETE"])
  expect(await thumbnailsOn(cluster)).toHaveLength(4)
  const rows = await cluster.sql<{ base: string | null }[]>`SELECT base FROM upload_thumbnails`
  expect(rows.filter(({ base }) => base === null)).toHaveLength(4)
  await rm(join(cluster.dataDir, "files", "thumbnails"), { recursive: true })
  const url = updated.attachments[0]!.thumbnails!["64"]
  expect((await send(worker!, url, { route: routes.getAttachment })).code).toBe("file_not_found")
})
