import { writeFile } from "node:fs/promises"
import { join } from "node:path"
import sharp from "sharp"
import { routes } from "../../src/contract/contract.ts"
import { serverFile } from "../../src/storage/core/blobs.ts"
import { send } from "../kit/exchange.ts"
import { apng, factsOf, fileOf, filesOf, photo, png } from "../kit/pictures.ts"
import { sharedServer } from "../kit/seeds.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"

test("pictures that an earlier version kept as they were uploaded are re-encoded once; one that cannot be stays", async ({
  cluster,
}) => {
  const [worker] = await cluster.boot(1)
  const { ada, server } = await cluster.seed(sharedServer)
  const [rest, server_id] = [ada.on(worker!), server.id]
  const early = await cluster.bootJobWorker()
  const icon_url = (await rest.putIcon({ server_id, file: fileOf(await png(20)) })).icon_url!
  const named = async (name: string) => rest.createEmoji({ server_id, name, image: fileOf(await png(20)) })
  const [gull, broken] = [await named("gull"), await named("broken")]
  const wave = await rest.createSticker({ server_id, name: "Wave", image: fileOf(apng()) })
  await early.stop()

  // As that version left them: the file is what was sent, and the row says so.
  const marked = await sharp(await png(30))
    .withExif({ IFD0: { Copyright: "somebody" } })
    .png()
    .toBuffer()
  const before = { icon: await photo(900, 600), gull: marked, broken: marked.subarray(0, 60), wave: apng(6) }
  const rows = await cluster.sql<{ name: keyof typeof before; file: string }[]>`
    WITH icon AS (UPDATE server_icons SET is_encoded = false RETURNING 'icon' AS name, file),
      emoji AS (UPDATE emojis SET is_encoded = false RETURNING name, file),
      sticker AS (UPDATE stickers SET is_encoded = false RETURNING lower(name) AS name, file)
    SELECT * FROM icon UNION ALL SELECT * FROM emoji UNION ALL SELECT * FROM sticker`
  for (const { name, file } of rows)
    await writeFile(join(cluster.dataDir, "files", serverFile(server_id, file)), before[name])

  await Promise.all([cluster.bootJobWorker(), cluster.bootJobWorker()])
  const states = async () => {
    const found = await cluster.sql<{ name: string; is_encoded: boolean | null }[]>`
      SELECT 'icon' AS name, is_encoded FROM server_icons UNION ALL SELECT name, is_encoded FROM emojis
      UNION ALL SELECT name, is_encoded FROM stickers`
    return Object.fromEntries(found.map(row => [row.name, row.is_encoded]))
  }
  await until("all were looked at", async () => !Object.values(await states()).includes(false))
  expect(await states()).toEqual({ icon: true, gull: true, Wave: true, broken: null })
  const shownAt = async (path: string) => Buffer.from((await send(worker!, path)).bytes)
  const icon = await sharp(await shownAt(icon_url)).metadata()
  expect([icon.format, icon.width, icon.height, icon.exif]).toEqual(["jpeg", 341, 512, undefined])
  expect(await factsOf(await shownAt(gull.url))).toEqual(await factsOf(marked))
  expect((await shownAt(gull.url)).includes("somebody")).toBe(false)
  expect(await factsOf(await shownAt(wave.url))).toMatchObject({ width: 6, frames: 2 })
  expect((await shownAt(broken.url)).equals(before.broken)).toBe(true)
  await until("what was uploaded is gone", async () => (await filesOf(cluster, server_id)).length === 4)
  // What memory has of them is what PostgreSQL has: taking one away takes away its file.
  await rest.deleteIcon({ server_id })
  await until("its file is gone", async () => (await filesOf(cluster, server_id)).length === 3)
  expect((await send(worker!, icon_url, { route: routes.getIcon })).headers.get("content-type")).toBe("image/svg+xml")
})
