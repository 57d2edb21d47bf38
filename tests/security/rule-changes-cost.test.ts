/** P19: what one server within its limits costs is not paid by others. */
import { permissionNames } from "../../src/contract/core/permissions.ts"
import { limits } from "../../src/contract/core/limits.ts"
import { maskOf } from "../../src/domain/core/permission-masks.ts"
import { grantedAtCreation } from "../../src/domain/core/permissions.ts"
import { shardOf } from "../../src/domain/core/snowflake.ts"
import { serversStorage } from "../../src/storage/communities/servers.ts"
import { identified } from "../kit/raw.ts"
import { plantedId, plantServer, sharedServer } from "../kit/seeds.ts"
import { expect, test, type SharedCluster } from "../kit/test.ts"
import type { Person } from "../kit/person.ts"

/** As many channels, roles and overrides as there may be; every override names every flag. Each member has some of the roles. */
async function plantLargest(shared: SharedCluster, owner: Person, members: readonly Person[]): Promise<string> {
  const channels = limits.channelsPerServer
  const { server_id } = await plantServer(shared, { owner, members, channels })
  const roles = Array.from({ length: limits.rolesPerServer - 1 }, () => plantedId(shardOf(server_id)))
  const flags = permissionNames.filter(name => name !== "administrator" && name !== "channels.view")
  await shared.sql`
    INSERT INTO roles (id, server_id, name, color, position, hoist, mentionable, permissions)
    SELECT id, ${server_id}, 'r', '#000000', n, false, false, ${[...grantedAtCreation].filter(name => name !== "channels.view")}::text[]
    FROM unnest(${roles}::bigint[]) WITH ORDINALITY AS planted (id, n)`
  await shared.sql`
    INSERT INTO channel_overrides (channel_id, target_id, server_id, type, allow, deny)
    SELECT c.id, (${roles}::bigint[])[1 + (c.position * 10 + n) % ${roles.length}], ${server_id}, 'role', ${maskOf(flags)}, ${maskOf(["channels.view"])}
    FROM channels c, generate_series(0, ${limits.overridesPerServer / channels - 1}) AS n WHERE c.server_id = ${server_id}`
  await shared.sql`
    UPDATE members SET roles = ARRAY(
      SELECT id FROM unnest(${roles}::bigint[]) WITH ORDINALITY AS all_roles (id, n) WHERE n % 40 = members.user_id % 40)
    WHERE server_id = ${server_id}`
  const [row] = await shared.sql<{ count: number }[]>`
    SELECT count(*)::int AS count FROM channel_overrides WHERE server_id = ${server_id}`
  expect(row!.count).toBe(limits.overridesPerServer)
  return server_id
}

test("P19: what an override costs to load does not depend on how many flags it names", async ({ shared }) => {
  const server_id = await plantLargest(shared, await shared.person("ada"), [])
  const storage = serversStorage(shared.sql)
  const [[outline], sizes] = await Promise.all([storage.outlines([server_id]), storage.outlineBytes([server_id])])
  const channels = [...outline!.channels.values()]
  expect(channels.flatMap(({ overrides }) => overrides)).toHaveLength(limits.overridesPerServer)
  // Each names 33: their names are 600 bytes.
  expect(JSON.stringify(channels).length).toBeLessThan(200 * limits.overridesPerServer)
  expect(sizes.get(server_id)).toBeLessThan(200 * limits.overridesPerServer)
})

test("P19: a role's new name, colour and place make no worker look who is concerned, and its permissions do", async ({
  shared,
}) => {
  const { east, sql } = shared
  const { ada, server } = await shared.seed(sharedServer)
  const rest = ada.on(east)
  const { id: role_id } = await rest.createRole({ server_id: server.id, name: "Crew" })
  const looks = async () => {
    const rows = await sql<{ body: string }[]>`SELECT body FROM outbox WHERE shard = ${shardOf(server.id)}`
    return rows.filter(({ body }) => body.includes(`"type":"role"`) && body.includes(role_id)).length
  }
  const before = await looks()
  await rest.editRole({ server_id: server.id, role_id, name: "Sailors", color: "#112233", position: 1 })
  expect(await looks()).toBe(before)
  await rest.editRole({ server_id: server.id, role_id, permissions: { "messages.send": true } })
  expect(await looks()).toBe(before + 1)
})

/** A machine that is busy with other tests may tell a client once to come again later. */
const retried = <T>(connect: () => Promise<T>): Promise<T> => connect().catch(connect)

/** The longest that the event loop, which workers and clients of a test share, did nothing else. */
function watchLoop() {
  let [last, longest] = [performance.now(), 0]
  const timer = setInterval(() => {
    longest = Math.max(longest, performance.now() - last - 5)
    last = performance.now()
  }, 5)
  return {
    stop() {
      clearInterval(timer)
      return longest
    },
  }
}

test("P19: the largest server that there may be is loaded in a moment, and a stranger who connects then is let in", async ({
  shared,
}) => {
  const [ada, stranger] = await Promise.all([shared.person("ada"), shared.person("stranger")])
  await plantLargest(shared, ada, [])
  await stranger.on(shared.west).createServer({ name: "Small" })
  const loop = watchLoop()
  const startedAt = performance.now()
  const [own, other] = await Promise.all([ada, stranger].map(person => retried(() => person.listen(shared.west))))
  const tookMs = performance.now() - startedAt
  const stallMs = loop.stop()
  // On a machine that does much else meanwhile.
  expect(tookMs).toBeLessThan(10_000)
  expect(stallMs).toBeLessThan(2_000)
  own?.close()
  other?.close()
})

test("P13, P19: a stranger's messages come while the owner of the largest server switches who views its channels", async ({
  shared,
}) => {
  const { ada: poster, server, channel } = await shared.seed(sharedServer)
  const owner = await shared.person("owner")
  const members = await Promise.all(Array.from({ length: 16 }, () => shared.person("member")))
  const server_id = await plantLargest(shared, owner, members)
  const inbox = await poster.listen(shared.west)
  const sockets = await Promise.all(members.map(member => identified(shared.west, member.token)))
  for (const socket of sockets) socket.postpone()

  const post = async (content: string) => {
    const startedAt = performance.now()
    await poster.on(shared.east).createMessage({ channel_id: channel.id, content })
    await inbox.next("MESSAGE_CREATE")
    return performance.now() - startedAt
  }
  const atRest = await post("at rest")
  const waits: number[] = []
  for (let i = 0; i < 6; i++) {
    const permissions = { "channels.view": i % 2 === 1, "messages.read": true }
    await owner.on(shared.east).editRole({ server_id, role_id: server_id, permissions })
    waits.push(await post(`during ${i}`))
  }
  expect(server.id).not.toBe(server_id)
  expect(Math.max(...waits)).toBeLessThan(atRest + 3_000)

  // Every member is told of the same channels each time, in the order of the changes.
  await shared.settle()
  for (const socket of sockets) {
    await expect
      .poll(() => socket.messages.filter(text => String(text).includes("GUILD_ROLE_UPDATE")).length, {
        timeout: 30_000,
      })
      .toBe(6)
    socket.catchUp()
    const counts: number[] = []
    let [told, last] = [0, 0]
    for (const { t, s } of socket.frames) {
      if (typeof s === "number" && s > 0) {
        expect(s).toBeGreaterThanOrEqual(last)
        last = s
      }
      if (t === "CHANNEL_DELETE" || t === "CHANNEL_CREATE") told++
      if (t !== "GUILD_ROLE_UPDATE") continue
      counts.push(told)
      told = 0
    }
    expect(counts).toHaveLength(6)
    expect(new Set(counts).size).toBe(1)
  }
  expect(sockets.some(({ frames }) => frames.some(({ t }) => t === "CHANNEL_CREATE"))).toBe(true)
  for (const socket of sockets) socket.close()
})
