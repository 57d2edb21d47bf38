/** Channels after their beginning: what is changed of them, where they stand, and their end. */
import type { ReceivedEvent } from "../../client/gateway.ts"
import { limits } from "../../src/contract/core/limits.ts"
import { permissionNames } from "../../src/contract/core/permissions.ts"
import { refusal } from "../kit/conformance.ts"
import type { Person, Starling } from "../kit/person.ts"
import { plantServer, sharedServer } from "../kit/seeds.ts"
import { expect, test, type SharedCluster } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const view = ["channels.view" as const]
const manage = ["channels.manage" as const]

/** Ada's server with Lin as its member, and channels besides the first. */
async function furnished(shared: SharedCluster, ...names: string[]) {
  const scene = await shared.seed(sharedServer)
  const server_id = scene.server.id
  const owner = scene.ada.on(shared.east)
  const ids: string[] = [scene.channel.id]
  for (const name of names) ids.push((await owner.createChannel({ server_id, name })).id)
  return { ...scene, server_id, owner, member: scene.lin.on(shared.west), ids }
}

let booted: Promise<unknown> | undefined
const jobs = (shared: SharedCluster) => (booted ??= shared.bootJobWorker())

const hideFrom = (owner: Starling, channel_id: string, person: Person) =>
  owner.setOverride({ channel_id, target_id: person.id, type: "member", allow: [], deny: view })
const orderOf = async (rest: Starling, server_id: string) =>
  (await rest.listChannels({ server_id })).map(({ name, position }) => `${position} ${name}`)

test("what is changed of a channel is answered, listed, told to its viewers, and noted", async ({ shared }) => {
  const { ada, lin, server_id, owner, ids } = await furnished(shared, "hall")
  const blind = await shared.person("blind")
  const { code } = await owner.createInvite({ channel_id: ids[0]! })
  await blind.on(shared.west).joinByInvite({ invite_code: code })
  const { id: category_id } = await owner.createChannel({ server_id, name: "group", type: "category" })
  const channel_id = ids[1]!
  await hideFrom(owner, channel_id, blind)
  const [inbox, deaf] = [await lin.listen(shared.west), await blind.listen(shared.east)]
  const settings = { topic: "⚓ talk", nsfw: true, slowmode_seconds: 30, read_receipts_enabled: false }
  const call = { channel_id, name: "  Quay  ", category_id, ...settings, user_limit: 5, bitrate: 96_000 }
  const edited = await owner.editChannel(call, { headers: { "X-Audit-Log-Reason": "tidying" } })
  // Only calls have a limit and a bitrate.
  expect(edited).toMatchObject({ id: channel_id, name: "Quay", category_id, position: 1, ...settings, user_limit: 0 })
  expect(await inbox.next("CHANNEL_UPDATE")).toEqual(edited)
  for (const place of [shared.east, shared.west]) expect(await ada.on(place).getChannel({ channel_id })).toEqual(edited)

  expect(await owner.editChannel({ channel_id, topic: "", category_id: "0", nsfw: null })).toMatchObject({
    topic: null,
    category_id: null,
    nsfw: true,
    slowmode_seconds: 30,
  })
  await inbox.next("CHANNEL_UPDATE")
  // What is so already is no change.
  await owner.editChannel({ channel_id, name: "Quay", position: 1, category_id: "0" })
  await owner.editChannel({ channel_id })
  const [last, first] = await owner.listAuditLog({ server_id, action: "CHANNEL_UPDATE" })
  expect(first).toMatchObject({ user_id: ada.id, target_type: "channel", target_id: channel_id, reason: "tidying" })
  expect(first!.changes).toEqual({
    name: { old: "hall", new: "Quay" },
    topic: { old: null, new: "⚓ talk" },
    category_id: { old: null, new: category_id },
    nsfw: { old: false, new: true },
    slowmode_seconds: { old: 0, new: 30 },
    read_receipts_enabled: { old: true, new: false },
  })
  expect(last!.changes).toEqual({
    topic: { old: "⚓ talk", new: null },
    category_id: { old: category_id, new: null },
  })
  await shared.settle()
  for (const client of [inbox, deaf]) expect(client.rest()).toEqual([])
  // Members who come to see it see it as it is now; the home wakes to it, too.
  await owner.deleteOverride({ channel_id, target_id: blind.id })
  expect(await deaf.next("CHANNEL_CREATE")).toMatchObject({ name: "Quay", topic: null, category_id: null })
  const [row] =
    await shared.sql`SELECT name, topic, category_id, nsfw, slowmode_seconds FROM channels WHERE id = ${channel_id}`
  expect(row).toEqual({ name: "Quay", topic: null, category_id: null, nsfw: true, slowmode_seconds: 30 })
})

test("a voice channel has a limit and a bitrate; slow mode holds from the change on", async ({ shared }) => {
  const { server_id, owner, member, ids } = await furnished(shared)
  const talk = await owner.createChannel({ server_id, name: "talk", type: "voice" })
  const edited = await owner.editChannel({ channel_id: talk.id, user_limit: 7, bitrate: 384_000 })
  expect(edited).toMatchObject({ user_limit: 7, bitrate: 384_000 })
  await member.createMessage({ channel_id: ids[0]!, content: "first" })
  await owner.editChannel({ channel_id: ids[0]!, slowmode_seconds: 21_600 })
  expect(await refusal(member.createMessage({ channel_id: ids[0]!, content: "second" }))).toBe("slowmode")
  await owner.editChannel({ channel_id: ids[0]!, slowmode_seconds: 0 })
  await member.createMessage({ channel_id: ids[0]!, content: "second" })
})

test("a channel's settings have their bounds, and its category is one of the same server", async ({ shared }) => {
  const [{ server_id, owner, ids }, other] = [await furnished(shared), await furnished(shared)]
  const channel_id = ids[0]!
  const category = await owner.createChannel({ server_id, name: "mine", type: "category" })
  const second = await owner.createChannel({ server_id, name: "second", type: "category" })
  const foreign = await other.owner.createChannel({ server_id: other.server_id, name: "theirs", type: "category" })
  for (const wrong of [
    { name: " " },
    { name: "🚢".repeat(101) },
    { topic: "🌊".repeat(1025) },
    { position: -1 },
    { position: 1.5 },
    { position: limits.channelPosition + 1 },
    { nsfw: "yes" as never },
    { slowmode_seconds: -1 },
    { slowmode_seconds: 21_601 },
    { user_limit: 100 },
    { bitrate: 7_999 },
    { category_id: "x" },
  ])
    expect(await refusal(owner.editChannel({ channel_id, ...wrong }))).toBe("validation_failed")
  expect((await owner.editChannel({ channel_id, name: ` ${"🚢".repeat(100)} ` })).name).toBe("🚢".repeat(100))
  for (const category_id of [foreign.id, channel_id, server_id, "1"]) {
    expect(await refusal(owner.editChannel({ channel_id, category_id }))).toBe("invalid_category")
    const move = { server_id, channels: [{ id: channel_id, category_id }] }
    expect(await refusal(owner.reorderChannels(move))).toBe("invalid_category")
  }
  // No category in a category, however it is asked for.
  const nested = { channel_id: category.id, category_id: second.id }
  expect(await refusal(owner.editChannel(nested))).toBe("invalid_category")
  expect(await refusal(owner.editChannel({ ...nested, category_id: category.id }))).toBe("invalid_category")
  const inIt = { server_id, name: "in it", type: "category" as const, category_id: category.id }
  expect(await refusal(owner.createChannel(inIt))).toBe("invalid_category")
  const move = { server_id, channels: [{ id: category.id, category_id: second.id }] }
  expect(await refusal(owner.reorderChannels(move))).toBe("invalid_category")
})

test("a member who may not view a category puts nothing into it, and may leave there what is in it", async ({
  shared,
}) => {
  const { lin, server_id, owner, member, ids } = await furnished(shared)
  const { id: role_id } = await owner.createRole({ server_id, name: "M", permissions: { "channels.manage": true } })
  await owner.giveRole({ server_id, member_id: lin.id, role_id })
  const { id: category_id } = await owner.createChannel({ server_id, name: "group", type: "category" })
  const { id: inside } = await owner.createChannel({ server_id, name: "inside", category_id })
  await hideFrom(owner, category_id, lin)
  const channel_id = ids[0]!
  expect(await refusal(member.createChannel({ server_id, name: "new", category_id }))).toBe("invalid_category")
  expect(await refusal(member.editChannel({ channel_id, category_id }))).toBe("invalid_category")
  const into = { server_id, channels: [{ id: channel_id, category_id }] }
  expect(await refusal(member.reorderChannels(into))).toBe("invalid_category")
  const stays = await member.editChannel({ channel_id: inside, name: "still inside", category_id })
  expect(stays).toMatchObject({ name: "still inside", category_id })
  await member.reorderChannels({ server_id, channels: [{ id: inside, position: 0, category_id }] })
  expect(await member.getChannel({ channel_id: inside })).toMatchObject({ position: 0, category_id })
})

test("permission to manage channels holds in the server or in one channel; positions take the server's permission", async ({
  shared,
}) => {
  const { lin, server_id, owner, member, ids } = await furnished(shared, "second")
  const eve = (await shared.person("eve")).on(shared.west)
  const [channel_id, second_id] = [ids[0]!, ids[1]!]
  const refusals = async (rest: Starling, id: string) => [
    await refusal(rest.editChannel({ channel_id: id, name: "mine" })),
    await refusal(rest.deleteChannel({ channel_id: id })),
  ]
  const reordered = (rest: Starling, server: string, id: string) =>
    rest.reorderChannels({ server_id: server, channels: [{ id, position: 0 }] })
  for (const [rest, id, expected] of [
    [member, channel_id, "permission_denied"],
    [eve, channel_id, "access_denied"],
    [eve, "1", "channel_not_found"],
    [eve, server_id, "channel_not_found"],
    [eve, "x", "invalid_channel_id"],
  ] as const)
    expect(await refusals(rest, id)).toEqual([expected, expected])
  for (const [rest, server, expected] of [
    [member, server_id, "permission_denied"],
    [eve, server_id, "access_denied"],
    [eve, "1", "server_not_found"],
    [eve, "x", "invalid_server_id"],
  ] as const)
    expect(await refusal(reordered(rest, server, channel_id))).toBe(expected)

  // In one channel only.
  const lins = { target_id: lin.id, type: "member" as const }
  await owner.setOverride({ channel_id, ...lins, allow: manage, deny: [] })
  await member.editChannel({ channel_id, name: "Lin's" })
  for (const facts of [{ position: 1 }, { category_id: "0" }])
    expect(await refusal(member.editChannel({ channel_id, ...facts }))).toBe("permission_denied")
  expect(await refusal(reordered(member, server_id, channel_id))).toBe("permission_denied")
  expect(await refusals(member, second_id)).toEqual(["permission_denied", "permission_denied"])

  // Everywhere but in one.
  const { id: role_id } = await owner.createRole({ server_id, name: "M", permissions: { "channels.manage": true } })
  await owner.giveRole({ server_id, member_id: lin.id, role_id })
  await owner.setOverride({ channel_id, ...lins, allow: [], deny: manage })
  expect(await refusals(member, channel_id)).toEqual(["permission_denied", "permission_denied"])
  expect(await refusal(reordered(member, server_id, channel_id))).toBe("permission_denied")
  await reordered(member, server_id, second_id)
  await owner.setOverride({ channel_id, ...lins, allow: [], deny: view })
  expect(await refusals(member, channel_id)).toEqual(["access_denied", "access_denied"])
  expect(await refusal(reordered(member, server_id, channel_id))).toBe("access_denied")
  expect(await orderOf(owner, server_id)).toEqual(["0 Lin's", "0 second"])
  expect(await member.deleteChannel({ channel_id: second_id })).toEqual({ success: true })
})

test("CHAN1: a channel gets the position that was asked for; no other is renumbered or told of", async ({ shared }) => {
  const { lin, server_id, owner, ids } = await furnished(shared, "b", "c", "d", "e")
  const inbox = await lin.listen(shared.west)
  const move = async (at: number, position: number) => {
    const moved = await owner.editChannel({ channel_id: ids[at]!, position })
    expect(moved.position).toBe(position)
    expect(await inbox.next("CHANNEL_UPDATE")).toEqual(moved)
  }
  // Of equal positions the older channel stands first.
  await move(4, 0)
  expect(await orderOf(owner, server_id)).toEqual(["0 general", "0 e", "1 b", "2 c", "3 d"])
  await move(0, 2)
  expect(await orderOf(owner, server_id)).toEqual(["0 e", "1 b", "2 general", "2 c", "3 d"])
  await move(3, limits.channelPosition)
  // What is so already is no change; its end leaves the others where they are.
  await owner.editChannel({ channel_id: ids[0]!, position: 2 })
  await owner.deleteChannel({ channel_id: ids[1]! })
  await inbox.next("CHANNEL_DELETE")
  expect(await orderOf(owner, server_id)).toEqual(["0 e", "2 general", "2 c", "2147483647 d"])
  const [entry] = await owner.listAuditLog({ server_id, action: "CHANNEL_UPDATE", limit: "1" })
  expect(entry).toMatchObject({
    target_id: ids[3],
    changes: { position: { old: 3, new: limits.channelPosition } },
  })
  const last = await owner.createChannel({ server_id, name: "last" })
  expect(last.position).toBe(limits.channelPosition)
  expect(await orderOf(owner, server_id)).toEqual(["0 e", "2 general", "2 c", "2147483647 d", "2147483647 last"])
  expect(await inbox.next("CHANNEL_CREATE")).toEqual(last)
  await shared.settle()
  expect(inbox.rest()).toEqual([])
})

test("channels are put in order in one call, all of them or none", async ({ shared }) => {
  const { ada, lin, server_id, owner, ids } = await furnished(shared, "b", "c", "d")
  const other = await furnished(shared)
  const { id: group } = await owner.createChannel({ server_id, name: "group", type: "category" })
  const before = await owner.listChannels({ server_id })
  const valid = { id: ids[0]!, position: 3, category_id: group }
  for (const [wrong, expected] of [
    [{ id: other.ids[0]! }, "channel_not_found"],
    [{ id: server_id, position: 0 }, "channel_not_found"],
    [{ id: "1" }, "channel_not_found"],
    [{ id: ids[1]!, category_id: ids[2]! }, "invalid_category"],
    [{ id: ids[0]!, position: 1 }, "validation_failed"],
    [{ id: ids[1]!, position: -1 }, "validation_failed"],
    [{ id: "x" }, "validation_failed"],
  ] as const)
    expect(await refusal(owner.reorderChannels({ server_id, channels: [valid, wrong] }))).toBe(expected)
  const many = Array.from({ length: 501 }, (_, i) => ({ id: `${i + 1}` }))
  for (const channels of [[], many])
    expect(await refusal(owner.reorderChannels({ server_id, channels }))).toBe("validation_failed")
  expect(await owner.listChannels({ server_id })).toEqual(before)

  const inbox = await lin.listen(shared.west)
  const moves = [valid, { id: ids[3]!, position: 0 }, { id: ids[1]!, position: 0 }, { id: ids[2]!, category_id: group }]
  const after = await owner.reorderChannels({ server_id, channels: moves })
  expect(after.map(({ name, position, category_id }) => [name, position, category_id])).toEqual([
    ["b", 0, null],
    ["d", 0, null],
    ["c", 2, group],
    ["general", 3, group],
    ["group", 4, null],
  ])
  expect(await lin.on(shared.west).listChannels({ server_id })).toEqual(after)
  const told = await Promise.all([1, 2, 3, 4].map(() => inbox.next("CHANNEL_UPDATE")))
  const byId = (a: { id: string }, b: { id: string }) => (a.id < b.id ? -1 : 1)
  expect(told.toSorted(byId)).toEqual(after.slice(0, 4).toSorted(byId))
  const entries = await owner.listAuditLog({ server_id, action: "CHANNEL_UPDATE" })
  expect(entries).toHaveLength(1)
  expect(entries[0]).toMatchObject({ user_id: ada.id, target_type: "server", target_id: server_id })
  expect(entries[0]!.changes).toEqual({
    position: {
      old: { [ids[0]!]: 0, [ids[1]!]: 1, [ids[3]!]: 3 },
      new: { [ids[0]!]: 3, [ids[1]!]: 0, [ids[3]!]: 0 },
    },
    category_id: {
      old: { [ids[0]!]: null, [ids[2]!]: null },
      new: { [ids[0]!]: group, [ids[2]!]: group },
    },
  })
  // The same again is no change.
  expect(
    await owner.reorderChannels({ server_id, channels: after.map(({ id, position }) => ({ id, position })) }),
  ).toEqual(after)
  await shared.settle()
  expect(inbox.rest()).toEqual([])
  expect(await owner.listAuditLog({ server_id, action: "CHANNEL_UPDATE" })).toHaveLength(1)
})

test("500 channels are reversed at once; the log says how many", async ({ shared }) => {
  const ada = await shared.person("ada")
  const { server_id } = await plantServer(shared, { owner: ada, channels: 500 })
  const rest = ada.on(shared.west)
  const before = await rest.listChannels({ server_id })
  const inbox = await ada.listen(shared.east)
  const channels = before.map(({ id, position }) => ({ id, position: 499 - position }))
  const after = await rest.reorderChannels({ server_id, channels })
  expect(after.map(({ id }) => id)).toEqual(before.map(({ id }) => id).toReversed())
  expect(after.map(({ position }) => position)).toEqual(Array.from({ length: 500 }, (_, i) => i))
  const told = new Map<string, number>()
  while (told.size < 500) {
    const { id, position } = await inbox.next("CHANNEL_UPDATE")
    told.set(id, position)
  }
  expect(told).toEqual(new Map(after.map(({ id, position }) => [id, position])))
  const [entry] = await rest.listAuditLog({ server_id })
  expect(entry!.changes).toEqual({ channels: { old: null, new: 500 } })
})

test("when several people move channels at the same time, there is one order, and everybody is told of it", async ({
  shared,
}) => {
  const { ada, lin, server_id, owner, ids } = await furnished(shared, "b", "c", "d", "e", "f", "g", "h")
  const { id: role_id } = await owner.createRole({ server_id, name: "M", permissions: { "channels.manage": true } })
  await owner.giveRole({ server_id, member_id: lin.id, role_id })
  const inboxes = [await ada.listen(shared.west), await lin.listen(shared.east)]
  const places = [shared.east, shared.west]
  const movers = Array.from({ length: 24 }, async (_, i) => {
    const rest = [ada, lin][i % 2]!.on(places[(i >> 1) % 2]!)
    const at = (n: number) => ids[(i * 5 + n) % ids.length]!
    if (i % 3 === 0)
      return rest.reorderChannels({
        server_id,
        channels: [0, 1, 2].map(n => ({ id: at(n), position: (i * 3 + n) % 8 })),
      })
    if (i === 13) return rest.createChannel({ server_id, name: "new" })
    if (i === 17) return rest.deleteChannel({ channel_id: ids[7]! }).catch(() => undefined)
    return rest.editChannel({ channel_id: at(0), position: (i * 3) % 8 }).catch(() => undefined)
  })
  await Promise.allSettled(movers)
  await shared.settle()
  const listed = await ada.on(shared.west).listChannels({ server_id })
  expect(await lin.on(shared.east).listChannels({ server_id })).toEqual(listed)
  const rows = await shared.sql<{ id: string; position: number }[]>`
    SELECT id, position FROM channels WHERE server_id = ${server_id} ORDER BY position, id`
  expect(rows).toEqual(listed.map(({ id, position }) => ({ id, position })))
  for (const inbox of inboxes) {
    const told = new Map<string, number>()
    for (const { name, data } of inbox.rest()) {
      if (name === "CHANNEL_UPDATE" || name === "CHANNEL_CREATE") told.set(data.id, data.position)
      if (name === "CHANNEL_DELETE") told.delete(data.id)
    }
    for (const [id, position] of told) expect(listed.find(channel => channel.id === id)?.position).toBe(position)
  }
})

test("the end of a channel is told to those who could view it, live, and nothing is left of it", async ({
  shared: cluster,
}) => {
  const { east, west } = cluster
  await jobs(cluster)
  const { ada, lin, server } = await cluster.seed(sharedServer)
  const server_id = server.id
  const owner = ada.on(east)
  const blind = await cluster.person("blind")
  const { id: category_id } = await owner.createChannel({ server_id, name: "group", type: "category" })
  const doomed = await owner.createChannel({ server_id, name: "doomed", category_id })
  const talk = await owner.createChannel({ server_id, name: "talk", type: "voice", category_id })
  const channel_id = doomed.id
  const { code } = await owner.createInvite({ channel_id })
  await blind.on(west).joinByInvite({ invite_code: code })
  await hideFrom(owner, channel_id, blind)
  await owner.editServer({ server_id, default_channel_id: channel_id })
  const { id: webhook_id, token } = await owner.createWebhook({ channel_id, name: "Crier" })
  for (let i = 0; i < 30; i++) await lin.on(west).createMessage({ channel_id, content: `${i}` })
  await lin.on(west).putChannelNotificationSettings({ channel_id, muted: true })
  await lin.on(west).putServerNotificationSettings({ server_id, level: "mentions" })
  const [own, lins, deaf] = [await ada.listen(west), await lin.listen(east), await blind.listen(east)]
  lins.send({ op: 20, d: { channel_id: talk.id } })
  for (const client of [own, lins]) await client.next("VOICE_STATE_UPDATE")

  expect(await owner.deleteChannel({ channel_id }, { headers: { "X-Audit-Log-Reason": "old" } })).toEqual({
    success: true,
  })
  const gone = { id: channel_id, server_id, guild_id: server_id }
  expect(await own.next("CHANNEL_DELETE")).toEqual(gone)
  expect(await lins.next("CHANNEL_DELETE")).toEqual(gone)
  for (const client of [own, lins, deaf]) expect((await client.next("GUILD_UPDATE")).default_channel_id).toBeNull()
  expect(await own.next("WEBHOOKS_UPDATE")).toMatchObject({ channel_id })
  for (const place of [east, west]) {
    expect(await refusal(lin.on(place).getChannel({ channel_id }))).toBe("channel_not_found")
    expect(await refusal(lin.on(place).createMessage({ channel_id, content: "late" }))).toBe("channel_not_found")
    expect(await refusal(owner.deleteChannel({ channel_id }))).toBe("channel_not_found")
    expect(await refusal(lin.on(place).getChannelNotificationSettings({ channel_id }))).toBe("channel_not_found")
  }
  expect(await refusal(owner.getWebhook({ webhook_id }))).toBe("webhook_not_found")
  expect(await refusal(lin.on(west).executeWebhook({ webhook_id, token: token!, content: "late" }))).toBeTruthy()
  // The invite leads to the server still.
  expect(await owner.getInvite({ invite_code: code })).toMatchObject({ code, channel_id: null })
  await (await cluster.person("new")).on(west).joinByInvite({ invite_code: code })
  const [entry] = await owner.listAuditLog({ server_id, action: "CHANNEL_DELETE" })
  expect(entry).toMatchObject({ target_type: "channel", target_id: channel_id, target_name: "doomed", reason: "old" })
  expect(entry!.changes["name"]).toEqual({ old: "doomed", new: null })

  // A voice channel's calls end with it, and a category leaves what was in it.
  await owner.deleteChannel({ channel_id: talk.id })
  for (const client of [own, lins]) {
    expect(await client.next("VOICE_STATE_UPDATE")).toMatchObject({ user_id: lin.id, channel_id: null })
    expect(await client.next("CHANNEL_DELETE")).toMatchObject({ id: talk.id })
  }
  const next = await owner.createChannel({ server_id, name: "next", type: "voice" })
  lins.send({ op: 21, d: null })
  lins.send({ op: 20, d: { channel_id: next.id } })
  expect(await own.next("VOICE_STATE_UPDATE")).toMatchObject({ user_id: lin.id, channel_id: next.id })
  const kept = await owner.createChannel({ server_id, name: "kept", category_id })
  await owner.deleteChannel({ channel_id: category_id })
  expect(await own.next("CHANNEL_UPDATE")).toEqual({ ...kept, category_id: null })
  expect(await lin.on(west).getChannel({ channel_id: kept.id })).toMatchObject({ category_id: null })
  await cluster.settle()
  expect(
    deaf.rest().filter(({ name, data }) => name.startsWith("CHANNEL") && (data as { id: string }).id === channel_id),
  ).toEqual([])

  const ids = [channel_id, talk.id, category_id]
  const columns = await cluster.sql<{ table: string; column: string }[]>`
    SELECT c.table_name AS table, c.column_name AS column FROM information_schema.columns c
    JOIN pg_class r ON r.relname = c.table_name AND r.relnamespace = 'public'::regnamespace AND NOT r.relispartition
    WHERE c.table_schema = 'public' AND c.column_name IN ('channel_id', 'category_id', 'default_channel_id')`
  expect(columns.length).toBeGreaterThan(8)
  const left = async () => {
    const counts: string[] = []
    for (const { table, column } of columns) {
      const [row] = await cluster.sql<{ count: number }[]>`
        SELECT count(*)::int AS count FROM ${cluster.sql(table)} WHERE ${cluster.sql(column)} = ANY(${ids}::bigint[])`
      if (row!.count > 0) counts.push(`${table}.${column}: ${row!.count}`)
    }
    return counts
  }
  await until("nothing names the channels any more", async () => (await left()).length === 0, {
    timeoutMs: 20_000,
  }).catch(async () => expect(await left()).toEqual([]))
  const [choice] = await cluster.sql`SELECT level FROM notification_settings WHERE user_id = ${lin.id}`
  expect(choice).toEqual({ level: "mentions" })
})

test("P12: a session that resumes is told of a channel's end if its user could view it, and nothing of what was hidden from them", async ({
  shared,
}) => {
  const { lin, server_id, owner, ids } = await furnished(shared, "hidden", "open")
  const [, hidden, open] = ids as [string, string, string]
  const mo = await shared.person("mo")
  const { code } = await owner.createInvite({ channel_id: ids[0]! })
  await mo.on(shared.west).joinByInvite({ invite_code: code })
  await owner.setOverride({ channel_id: hidden, target_id: server_id, type: "role", allow: [], deny: view })
  await owner.setOverride({ channel_id: hidden, target_id: mo.id, type: "member", allow: view, deny: [] })
  const inboxes = await Promise.all(
    [lin, mo].flatMap(person =>
      [shared.east, shared.west].map(async back => {
        const inbox = await person.listen(shared.east)
        const events: ReceivedEvent[] = []
        inbox.on("dispatch", event => events.push(event))
        return { person, back, inbox, events }
      }),
    ),
  )
  await shared.settle()
  for (const { inbox } of inboxes) inbox.drop()
  await owner.createMessage({ channel_id: hidden, content: "secret" })
  await owner.editChannel({ channel_id: hidden, topic: "secret, too" })
  await owner.createMessage({ channel_id: open, content: "for all" })
  await owner.deleteChannel({ channel_id: hidden })
  await owner.deleteChannel({ channel_id: open })
  await owner.createMessage({ channel_id: ids[0]!, content: "afterwards" })
  for (const { person, back, inbox, events } of inboxes) {
    await inbox.reconnect(back.url)
    const isLast = ({ name, data }: ReceivedEvent) => name === "MESSAGE_CREATE" && data.content === "afterwards"
    await until("it has caught up", () => events.some(isLast))
    const told = events.flatMap(({ name, data }) => {
      if (name === "MESSAGE_CREATE") return [data.content]
      if (name === "CHANNEL_UPDATE") return [`changed ${data.topic}`]
      return name === "CHANNEL_DELETE" ? [data.id] : []
    })
    const secret = person === mo
    expect(told, `${person.username} on ${back.url}`).toEqual([
      ...(secret ? ["secret", "changed secret, too"] : []),
      "for all",
      ...(secret ? [hidden] : []),
      open,
      "afterwards",
    ])
  }
})

test("messages that are sent while their channel ends are refused, or purged with it; it ends once", async ({
  shared: cluster,
}) => {
  const { east, west } = cluster
  const { ada, lin, server } = await cluster.seed(sharedServer)
  const { id: channel_id } = await ada.on(east).createChannel({ server_id: server.id, name: "short" })
  const outcomeOf = (call: Promise<unknown>, granted: string) =>
    call.then(
      () => granted,
      () => refusal(call),
    )
  const outcomes = await Promise.all(
    Array.from({ length: 30 }, (_, i) => {
      const place = i % 2 ? east : west
      return i % 10 === 5
        ? outcomeOf(ada.on(place).deleteChannel({ channel_id }), "deleted")
        : outcomeOf(lin.on(place).createMessage({ channel_id, content: `${i}` }), "sent")
    }),
  )
  expect(outcomes.filter(outcome => outcome === "deleted")).toHaveLength(1)
  expect(outcomes.filter(outcome => !["deleted", "sent", "channel_not_found"].includes(outcome))).toEqual([])
  await jobs(cluster)
  const left = () => cluster.sql`SELECT FROM messages WHERE channel_id = ${channel_id} LIMIT 1`
  await until("they are purged", async () => (await left()).length === 0)
})

test("a list shows only what its reader may view, and hidden channels keep their positions", async ({ shared }) => {
  const { server_id, owner, member, lin, ids } = await furnished(shared, "b", "c")
  await hideFrom(owner, ids[1]!, lin)
  expect(await orderOf(member, server_id)).toEqual(["0 general", "2 c"])
  const { id: role_id } = await owner.createRole({ server_id, name: "M", permissions: { "channels.manage": true } })
  await owner.giveRole({ server_id, member_id: lin.id, role_id })
  const inbox = await lin.listen(shared.east)
  const answered = await member.reorderChannels({ server_id, channels: [{ id: ids[2]!, position: 0 }] })
  expect(answered.map(({ name, position }) => `${position} ${name}`)).toEqual(["0 general", "0 c"])
  expect(await orderOf(owner, server_id)).toEqual(["0 general", "0 c", "1 b"])
  await owner.editChannel({ channel_id: ids[1]!, position: 9 })
  // Those who come to see it later are told where it stands by then.
  await owner.deleteOverride({ channel_id: ids[1]!, target_id: lin.id })
  expect(await inbox.next("CHANNEL_CREATE")).toMatchObject({ id: ids[1], position: 9 })
  const blind = await plantServer(shared, {
    owner: lin,
    members: [await shared.person("mo")],
    everyone: permissionNames.filter(name => name !== "channels.view" && name !== "administrator"),
  })
  expect(await member.listChannels({ server_id: blind.server_id })).toHaveLength(1)
})
