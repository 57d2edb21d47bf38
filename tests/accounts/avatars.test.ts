import { createHash } from "node:crypto"
import { stat } from "node:fs/promises"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import sharp from "sharp"
import { routes } from "../../src/contract/contract.ts"
import type { FormFile } from "../../src/contract/core/registry.ts"
import { refusal } from "../kit/conformance.ts"
import { send } from "../kit/exchange.ts"
import {
  animatedGif,
  factsOf,
  fileOf,
  filesOfUser,
  gifOf,
  html,
  incomingOf,
  jpeg,
  movingNoise,
  photo,
  png,
  pngClaiming,
  pngOf,
} from "../kit/pictures.ts"
import type { Person } from "../kit/person.ts"
import { sharedServer } from "../kit/seeds.ts"
import { slowForm } from "../kit/slow-form.ts"
import { expect, testWith, type SharedCluster } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const test = testWith({ jobWorkers: 1, topology: { http: { body: { timeoutMs: 3_000 } } } })

const pathOf = (user: string) => `/api/v1/avatars/users/${user}`
const avatarOf = (shared: SharedCluster, user: string) => send(shared.west, pathOf(user), { route: routes.getAvatar })
/** Where a session stands says nothing of what happened. */
const isNews = ({ name }: { name: string }) => name !== "SESSION_POSITION"

test("an avatar is set, replaced and removed; who may know is told, and nobody else", async ({ shared }) => {
  const { ada, lin } = await shared.seed(sharedServer)
  const [friend, eve] = [await shared.person("friend"), await shared.person("eve")]
  await friend.on(shared.east).requestFriend({ user_id: ada.id })
  const [own, mate, asker, stranger] = [
    await ada.listen(shared.west),
    await lin.listen(shared.east),
    await friend.listen(shared.west),
    await eve.listen(shared.east),
  ]
  const rest = ada.on(shared.east)
  const avatar_url = pathOf(ada.id)
  const told = async () => {
    const update = { id: ada.id, username: ada.username, avatar_url }
    expect(await own.next("USER_UPDATE")).toMatchObject({ ...update, email: expect.any(String) as string })
    for (const inbox of [mate, asker]) {
      const heard = await inbox.next("USER_UPDATE")
      expect(heard).toMatchObject(update)
      expect(heard.email).toBeUndefined()
    }
  }

  // Its pixels stand upright, nothing says where it was taken, and it fits.
  const given = await photo(1600, 1000)
  expect((await sharp(given).metadata()).exif?.includes("somebody")).toBe(true)
  const answer = await rest.putAvatar({ file: fileOf(given, "me.txt", "text/plain") })
  await told()
  const shown = await avatarOf(shared, ada.id)
  expect(answer).toEqual({
    success: true,
    avatar_url,
    width: 320,
    height: 512,
    size: shown.bytes.length,
    animated: false,
  })
  const { exif, orientation, width, height, format } = await sharp(Buffer.from(shown.bytes)).metadata()
  expect({ exif, orientation, width, height, format }).toEqual({ width: 320, height: 512, format: "jpeg" })
  const etag = `"${createHash("sha256").update(shown.bytes).digest("hex")}"`
  expect(
    Object.fromEntries(
      ["content-type", "cache-control", "access-control-allow-origin", "cross-origin-resource-policy", "etag"].map(
        name => [name, shown.headers.get(name)],
      ),
    ),
  ).toEqual({
    "content-type": "image/jpeg",
    "cache-control": "public, max-age=86400",
    "access-control-allow-origin": "*",
    "cross-origin-resource-policy": "cross-origin",
    etag,
  })
  expect((await send(shared.east, avatar_url, { headers: { "if-none-match": etag } })).status).toBe(304)

  // The older route does the same; what moves goes on moving.
  const moving = await animatedGif(600)
  expect(await rest.putOwnAvatar({ file: fileOf(moving) })).toMatchObject({ width: 512, height: 512, animated: true })
  await told()
  const second = await avatarOf(shared, ada.id)
  expect(second.headers.get("content-type")).toBe("image/gif")
  expect(await factsOf(second.bytes)).toMatchObject({ pages: 2, delay: [50, 50], width: 512, height: 512 })
  await until("the first file is gone", async () => (await filesOfUser(shared, ada.id)).length === 1)

  for (let i = 0; i < 2; i++) expect(await rest.deleteAvatar({})).toEqual({ success: true })
  await told()
  const drawn = await avatarOf(shared, ada.id)
  expect(drawn.headers.get("content-type")).toBe("image/svg+xml")
  expect(drawn.headers.get("cache-control")).toBe("public, max-age=3600")
  const palette = ["#e94560", "#4ade80", "#fbbf24", "#60a5fa", "#a78bfa", "#f472b6"]
  const colour = palette[createHash("sha256").update(ada.username.toLowerCase()).digest()[0]! % 6]
  expect(drawn.text).toContain(`fill="${colour}"`)
  expect(drawn.text).toContain(`>${ada.username.slice(0, 2).toUpperCase()}</text></svg>`)
  expect(
    (await send(shared.east, avatar_url, { headers: { "if-none-match": drawn.headers.get("etag")! } })).status,
  ).toBe(304)
  expect((await avatarOf(shared, "1")).code).toBe("user_not_found")
  expect((await avatarOf(shared, "x")).code).toBe("invalid_user_id")
  await shared.settle()
  expect([own, mate, asker, stranger].flatMap(inbox => inbox.rest()).filter(isNews)).toEqual([])
  await until("no file is left", async () => (await filesOfUser(shared, ada.id)).length === 0)
  expect(await incomingOf(shared)).toEqual([])
  expect(await shared.sql`SELECT FROM user_avatars WHERE user_id = ${ada.id}`).toHaveLength(0)
})

test("what is no picture, is damaged or is a bomb is refused with its reason, and nothing of it is left", async ({
  shared,
}) => {
  const ada = await shared.person("ada")
  const rest = ada.on(shared.east)
  const whole = await jpeg(64)
  const photograph = await photo(300, 200)
  for (const [expected, bytes] of [
    ["invalid_file", html],
    ["invalid_file", Buffer.from('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>')],
    ["invalid_file", whole.subarray(0, whole.length - 2)],
    ["invalid_file", photograph.subarray(0, photograph.length / 2)],
    ["invalid_file", Buffer.concat([whole.subarray(0, 20), html])],
    ["invalid_file", Buffer.concat([(await png()).subarray(0, 40), html])],
    ["picture_too_large", pngClaiming(30_000, 30_000)],
    ["picture_too_large", pngClaiming(1, 60_000)],
    ["picture_too_large", gifOf(3_000)],
    ["file_too_large", await pngOf(5_242_881)],
  ] as const) {
    expect(await refusal(rest.putAvatar({ file: fileOf(bytes) }))).toBe(expected)
    expect(await refusal(rest.putOwnAvatar({ file: fileOf(bytes) }))).toBe(expected)
  }
  const message = await rest.putAvatar({ file: fileOf(await pngOf(5_242_881)) }).catch((error: Error) => error.message)
  expect(message).toContain("File too large. Max size: 5MB")
  // A picture that is something else as well is only a picture afterwards.
  const polyglot = Buffer.concat([whole, Buffer.from("PK\x03\x04"), html])
  await rest.putAvatar({ file: fileOf(polyglot) })
  const { bytes } = await avatarOf(shared, ada.id)
  expect(Buffer.from(bytes).includes("<script>")).toBe(false)
  expect(await incomingOf(shared)).toEqual([])
  expect(await filesOfUser(shared, ada.id)).toHaveLength(1)
  expect(
    await shared.sql`SELECT key FROM unused_files WHERE key LIKE 'incoming/%' OR key LIKE ${`users/${ada.id}/%`}`,
  ).toEqual([])
  expect(await shared.sql`SELECT FROM user_avatars`).toHaveLength(1)
  await rest.deleteAvatar({})
})

test("a picture is in no memory while it comes: three of 5 MB at once are taken; of one that stops, is cut off or is none nothing is left", async ({
  shared,
}) => {
  const ada = await shared.person("ada")
  const bytes = await pngOf(5_242_880)
  const begin = (content: Uint8Array, length = content.length) => {
    const form = slowForm(shared.east, ada, "/api/v1/avatars/users/@me", length)
    form.socket.write(content)
    return form
  }
  const all = bytes.length - 100
  const three = [bytes, bytes, bytes].map(each => begin(each.subarray(0, all), each.length))
  const sizes = async () =>
    Promise.all((await incomingOf(shared)).map(async name => (await stat(join(incoming, name))).size))
  const incoming = join(shared.dataDir, "files", "incoming")
  await until("they are on the disk as far as they have come", async () => {
    const written = await sizes()
    return written.length === 3 && written.every(size => size > all - 20)
  })
  const fourth = begin(bytes)
  fourth.socket.write(fourth.end)
  await until("another has to wait", () => fourth.answer().startsWith("HTTP/1.1 503"))
  fourth.socket.destroy()
  // A short one needs no place.
  expect(await ada.on(shared.east).putAvatar({ file: fileOf(await png(20)) })).toMatchObject({ width: 20 })
  for (const { socket, end } of three) socket.write(Buffer.concat([bytes.subarray(all), Buffer.from(end)]))
  for (const { answer, socket } of three) {
    await until("it is encoded", () => answer().startsWith("HTTP/1.1 200"))
    socket.destroy()
  }
  const left = async () => ({
    files: (await filesOfUser(shared, ada.id)).length,
    incoming: await incomingOf(shared),
    notes: (
      await shared.sql`SELECT key FROM unused_files WHERE key LIKE 'incoming/%' OR key LIKE ${`users/${ada.id}/%`}`
    ).length,
  })
  const nothingElse = () =>
    until("nothing else is left", async () => JSON.stringify(await left()) === '{"files":1,"incoming":[],"notes":0}')
  await nothingElse()

  const cut = begin(bytes.subarray(0, 400_000), bytes.length)
  await until("some of it is on the disk", async () => (await sizes()).some(size => size > 0))
  cut.socket.destroy()
  await nothingElse()
  const stopped = begin(bytes.subarray(0, 400_000), bytes.length)
  await until("it is told that it took too long", () => stopped.answer().startsWith("HTTP/1.1 408"))
  await stopped.ended
  await nothingElse()
  // Its beginning says so.
  const page = begin(Buffer.concat([html, Buffer.alloc(3_000_000)]))
  page.socket.write(page.end)
  await until("it is told that it is none", () => page.answer().startsWith("HTTP/1.1 400"))
  page.socket.destroy()
  await nothingElse()
})

test("one user's pictures take one place of a job worker, however many they send; another's is next", async ({
  shared,
}) => {
  const [ada, lin] = [await shared.person("ada"), await shared.person("lin")]
  const heavy = fileOf(await movingNoise(250, 40), "heavy.gif", "image/gif")
  const done: string[] = []
  const put = async (who: Person, name: string, file: FormFile, bot_id?: string) => {
    const rest = who.on(shared.east)
    await (bot_id === undefined ? rest.putAvatar({ file }) : rest.putBotAvatar({ bot_id, file }))
    done.push(name)
  }
  const bot = await ada.on(shared.east).createBot({ username: shared.newName("bot") })
  // Their bots' pictures are theirs.
  const own = [put(ada, "ada 1", heavy), put(ada, "ada 2", heavy, bot.id), put(ada, "ada 3", heavy)]
  await until("two of them are sent", async () => (await incomingOf(shared)).length >= 2 || done.length > 0)
  await put(lin, "lin", fileOf(await png(20)))
  // As each of two places would be taken, theirs would come after two of them at least.
  expect(done.slice(0, 2)).toContain("lin")
  await Promise.all(own)
})

test("without a job worker an upload is 503, and nothing of it is done", async ({ cluster }) => {
  const [worker] = await cluster.boot(1, { topology: { pictures: { withinMs: 400 } } })
  const ada = await cluster.person("ada")
  const file = fileOf(await png(20))
  const refused = await send(worker!, "/api/v1/avatars/users/@me", {
    route: routes.putAvatar,
    token: ada.token,
    ...formOf(file.bytes),
  })
  expect([refused.status, refused.code]).toEqual([503, "unavailable"])
  expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0)
  expect([await incomingOf(cluster), await filesOfUser(cluster, ada.id)]).toEqual([[], []])
  expect(await cluster.sql`SELECT key FROM unused_files`).toEqual([])
  await worker!.stop()

  // What came too late finds that nobody waits: its job is there, and does nothing.
  // A picture may take longer than other answers.
  const answerTimeoutMs = 1_500
  const [next] = await cluster.boot(1, { topology: { http: { answerTimeoutMs } } })
  const asked = ada.on(next!).putAvatar({ file })
  await sleep(answerTimeoutMs + 500)
  await cluster.bootJobWorker()
  expect(await asked).toMatchObject({ success: true, width: 20 })
  expect(await filesOfUser(cluster, ada.id)).toHaveLength(1)
  expect(await cluster.sql`SELECT key FROM unused_files`).toEqual([])
})

const formOf = (bytes: Uint8Array) => ({
  body: new Uint8Array(
    Buffer.concat([
      Buffer.from('--X\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n'),
      bytes,
      Buffer.from("\r\n--X--\r\n"),
    ]),
  ),
  headers: { "content-type": "multipart/form-data; boundary=X" },
})
