import { createHash } from "node:crypto"
import { routes } from "../../src/contract/contract.ts"
import { refusal } from "../kit/conformance.ts"
import { send } from "../kit/exchange.ts"
import {
  animatedWebp,
  apng,
  factsOf,
  fileOf,
  filesOf,
  gif,
  gifOf,
  html,
  jpeg,
  png,
  pngClaiming,
  pngOf,
  webp,
} from "../kit/pictures.ts"
import { sharedServer } from "../kit/seeds.ts"
import { expect, testWith, type SharedCluster } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const test = testWith({ jobWorkers: 1 })

async function managed(shared: SharedCluster) {
  const scene = await shared.seed(sharedServer)
  const { ada, lin, server } = scene
  return { ...scene, server_id: server.id, owner: ada.on(shared.east), member: lin.on(shared.west) }
}
const pathOf = (server_id: string) => `/api/v1/avatars/servers/${server_id}`
const iconOf = (shared: SharedCluster, server_id: string) =>
  send(shared.west, pathOf(server_id), { route: routes.getIcon })

test("an icon is given, replaced and taken away; members are told, and everybody sees it as it is", async ({
  shared,
}) => {
  const { ada, lin, server_id, owner, member } = await managed(shared)
  const inbox = await lin.listen(shared.east)
  const icon_url = pathOf(server_id)
  const first = await jpeg(40, 30)
  const server = await owner.putIcon({ server_id, file: fileOf(first) })
  expect(server).toEqual({ ...(await member.getServer({ server_id })), icon_url })
  expect(await inbox.next("GUILD_UPDATE")).toMatchObject({
    id: server_id,
    guild_id: server_id,
    icon_url,
    icon: icon_url,
  })
  const shown = await iconOf(shared, server_id)
  expect(await factsOf(shown.bytes)).toEqual(await factsOf(first))
  expect(shown.headers.get("content-type")).toBe("image/jpeg")
  expect(shown.headers.get("cache-control")).toBe("public, max-age=86400")
  expect(shown.headers.get("access-control-allow-origin")).toBe("*")
  const etag = `"${createHash("sha256").update(shown.bytes).digest("hex")}"`
  expect(shown.headers.get("etag")).toBe(etag)
  expect((await send(shared.east, icon_url, { headers: { "if-none-match": etag } })).status).toBe(304)

  for (const [bytes, type, width, height, animated] of [
    [await png(16384, 1), "image/png", 512, 1, false],
    [apng(), "image/png", 4, 4, false],
    [await gif(), "image/gif", 8, 8, true],
    [await webp(), "image/webp", 8, 8, false],
    [await animatedWebp(1024), "image/webp", 512, 512, true],
    [await pngOf(3_000_000), "image/png", 8, 8, false],
  ] as const) {
    const told = await owner.uploadIcon({ server_id, file: fileOf(bytes, "x.txt", "text/plain") })
    const { bytes: sent, headers } = await iconOf(shared, server_id)
    expect(told).toEqual({ success: true, icon_url, width, height, size: sent.length, animated })
    expect(headers.get("content-type")).toBe(type)
    expect(await factsOf(sent)).toMatchObject({ width, height, pages: type === "image/webp" && animated ? 2 : 1 })
    await inbox.next("GUILD_UPDATE")
  }
  for (let i = 0; i < 2; i++) expect(await owner.deleteIcon({ server_id })).toEqual({ success: true })
  const without = await inbox.next("GUILD_UPDATE")
  expect([without.icon_url, without.icon]).toEqual([null, undefined])
  expect((await member.getServer({ server_id })).icon_url).toBeNull()
  await shared.settle()
  expect(inbox.rest()).toEqual([])
  const log = await owner.listAuditLog({ server_id, user_id: ada.id, action: "SERVER_UPDATE" })
  expect(log).toHaveLength(8)
  expect(log.at(-1)!.changes).toEqual({ icon_url: { old: null, new: icon_url } })
  expect(log[0]!.changes).toEqual({ icon_url: { old: icon_url, new: null } })
})

test("a server without an icon has one drawn of its name, in which nothing of the name is markup", async ({
  shared,
}) => {
  const { ada, server, server_id } = await managed(shared)
  const drawn = await iconOf(shared, server_id)
  expect(drawn.headers.get("content-type")).toBe("image/svg+xml")
  expect(drawn.headers.get("cache-control")).toBe("public, max-age=3600")
  expect(drawn.headers.get("content-security-policy")).toContain("sandbox")
  expect(server.name).toBe("Shared")
  expect(drawn.text).toMatch(/^<svg .*>SH<\/text><\/svg>$/)
  const palette = ["#e94560", "#4ade80", "#fbbf24", "#60a5fa", "#a78bfa", "#f472b6"]
  expect(drawn.text).toContain(`fill="${palette[createHash("sha256").update(server_id).digest()[0]! % 6]}"`)
  const etag = drawn.headers.get("etag")!
  expect((await send(shared.east, pathOf(server_id), { headers: { "if-none-match": etag } })).status).toBe(304)
  const evil = await ada.on(shared.east).createServer({ name: "</text><script> &alert(1)" })
  expect((await iconOf(shared, evil.id)).text).toContain(">&#60;&#38;</text></svg>")
  expect((await send(shared.east, pathOf("1"), { route: routes.getIcon })).code).toBe("server_not_found")
  expect((await send(shared.east, pathOf("x"), { route: routes.getIcon })).code).toBe("invalid_server_id")
})

test("a file that is no picture, is damaged, too long or too wide is 400 and changes nothing", async ({ shared }) => {
  const { server_id, owner } = await managed(shared)
  const whole = await jpeg(64)
  for (const [expected, bytes] of [
    ["invalid_file", html],
    ["invalid_file", whole.subarray(0, whole.length - 2)],
    ["invalid_file", Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"/>')],
    ["picture_too_large", await png(16385, 1)],
    ["picture_too_large", pngClaiming(30_000, 30_000)],
    ["picture_too_large", gifOf(3_000)],
    ["file_too_large", await pngOf(5_242_881)],
  ] as const) {
    const file = fileOf(bytes)
    expect(await refusal(owner.putIcon({ server_id, file }))).toBe(expected)
    expect(await refusal(owner.uploadIcon({ server_id, file }))).toBe(expected)
  }
  const middling = fileOf(await pngOf(2_097_153))
  const message = (error: Error) => error.message
  expect(await owner.putIcon({ server_id, file: middling }).catch(message)).toContain("File too large. Max size: 2MB")
  const large = fileOf(await pngOf(5_242_881))
  expect(await owner.uploadIcon({ server_id, file: large }).catch(message)).toContain("File too large. Max size: 5MB")
  expect((await owner.getServer({ server_id })).icon_url).toBeNull()
  expect(await filesOf(shared, server_id)).toEqual([])
})

test("icons: only members who manage the server; 404 for what is not there", async ({ shared }) => {
  const { lin, server_id, owner, member } = await managed(shared)
  const stranger = (await shared.person("eve")).on(shared.west)
  const file = fileOf(await png())
  for (const [rest, server, expected] of [
    [stranger, server_id, "access_denied"],
    [stranger, "1", "server_not_found"],
    [stranger, "x", "invalid_server_id"],
    [member, server_id, "permission_denied"],
  ] as const) {
    expect(await refusal(rest.putIcon({ server_id: server, file }))).toBe(expected)
    expect(await refusal(rest.uploadIcon({ server_id: server, file }))).toBe(expected)
    expect(await refusal(rest.deleteIcon({ server_id: server }))).toBe(expected)
  }
  const { id: role_id } = await owner.createRole({ server_id, name: "Keeper", permissions: { "server.manage": true } })
  await owner.giveRole({ server_id, member_id: lin.id, role_id })
  await member.putIcon({ server_id, file })
})

test("when several icons are uploaded at once, one stays, and only its file", async ({ shared }) => {
  const { server_id, owner } = await managed(shared)
  const files = await Promise.all([10, 11, 12, 13].map(size => png(size)))
  await Promise.all(files.map(file => owner.uploadIcon({ server_id, file: fileOf(file) })))
  await until("one file is left", async () => (await filesOf(shared, server_id)).length === 1)
  const { width } = await factsOf((await iconOf(shared, server_id)).bytes)
  expect([10, 11, 12, 13]).toContain(width)
  await owner.deleteIcon({ server_id })
  await until("none is left", async () => (await filesOf(shared, server_id)).length === 0)
  expect((await iconOf(shared, server_id)).headers.get("content-type")).toBe("image/svg+xml")
})
