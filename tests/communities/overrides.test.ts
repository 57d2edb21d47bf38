import { readRowBody } from "../../src/runtime/row.ts"
import { maskOf } from "../../src/domain/core/permission-masks.ts"
import type { Control } from "../../src/domain/core/control.ts"
import { shardOf } from "../../src/domain/core/snowflake.ts"
import { refusal } from "../kit/conformance.ts"
import { plantServer, sharedServer } from "../kit/seeds.ts"
import { expect, test, type SharedCluster } from "../kit/test.ts"

/** Ada's server, in which Lin manages roles through a role of their own; above it is another. */
async function managed(shared: SharedCluster) {
  const { ada, lin, server, channel } = await shared.seed(sharedServer)
  const server_id = server.id
  const owner = ada.on(shared.east)
  const low = await owner.createRole({ server_id, name: "Low" })
  const manager = await owner.createRole({ server_id, name: "Manager", permissions: { "roles.manage": true } })
  const high = await owner.createRole({ server_id, name: "High" })
  await owner.giveRole({ server_id, member_id: lin.id, role_id: manager.id })
  const channel_id = channel.id
  return { ada, lin, server_id, channel_id, channel, owner, member: lin.on(shared.west), low, manager, high }
}
const nothing = { type: "role" as const, allow: [], deny: [] }

test("an override is kept as it was set, without unknown permissions", async ({ shared }) => {
  const { lin, server_id, channel_id, channel, owner } = await managed(shared)
  const inbox = await lin.listen(shared.west)
  const set = await owner.setOverride({
    channel_id,
    target_id: server_id,
    type: "role",
    allow: ["message.manage", "no.such", "administrator"],
    deny: ["messages.send", "messages.send"],
  })
  const expected = {
    channel_id,
    target_id: server_id,
    type: "role",
    allow: ["messages.manage"],
    deny: ["messages.send"],
  }
  expect(set).toEqual(expected)
  expect(await inbox.next("CHANNEL_UPDATE")).toEqual(channel)
  expect(await lin.on(shared.west).getOverride({ channel_id, target_id: server_id })).toEqual(expected)
  expect(await lin.on(shared.west).listOverrides({ channel_id })).toEqual([expected])
  expect(await refusal(lin.on(shared.east).createMessage({ channel_id, content: "x" }))).toBe("permission_denied")

  const own = await owner.setOverride({
    channel_id,
    target_id: lin.id,
    type: "member",
    allow: ["messages.send"],
    deny: [],
  })
  expect(own).toMatchObject({ target_id: lin.id, type: "member" })
  await lin.on(shared.east).createMessage({ channel_id, content: "x" })
  await shared.settle()
  // The home wakes to it, too.
  const [row] = await shared.sql`SELECT type, allow, deny FROM channel_overrides WHERE target_id = ${server_id}`
  expect(row).toEqual({ type: "role", allow: maskOf(["messages.manage"]), deny: maskOf(["messages.send"]) })

  expect(await owner.deleteOverride({ channel_id, target_id: server_id })).toEqual({ success: true })
  expect(await refusal(owner.getOverride({ channel_id, target_id: server_id }))).toBe("override_not_found")
  expect(await refusal(owner.deleteOverride({ channel_id, target_id: server_id }))).toBe("override_not_found")
})

test("a hidden channel is in no list and answers 403; users who join are not told of it", async ({ shared }) => {
  const { lin, server_id, channel_id, owner, low } = await managed(shared)
  const eve = await shared.person("eve")
  const { id: open_id } = await owner.createChannel({ server_id, name: "open" })
  const { code } = await owner.createInvite({ channel_id: open_id })
  const { id: message_id } = await lin.on(shared.west).createMessage({ channel_id, content: "mine" })
  await owner.setOverride({ channel_id, target_id: server_id, type: "role", allow: [], deny: ["channels.view"] })
  await owner.setOverride({ channel_id, target_id: low.id, type: "role", allow: ["channels.view"], deny: [] })
  const inbox = await eve.listen(shared.west)
  await eve.on(shared.east).joinByInvite({ invite_code: code })
  expect((await inbox.next("GUILD_CREATE")).channels.map(({ id }) => id)).toEqual([open_id])
  for (const place of [shared.east, shared.west]) {
    const rest = lin.on(place)
    expect((await rest.listChannels({ server_id })).map(({ id }) => id)).toEqual([open_id])
    expect(await refusal(rest.getChannel({ channel_id }))).toBe("access_denied")
    expect(await refusal(rest.listMessages({ channel_id }))).toBe("access_denied")
    expect(await refusal(rest.getMessage({ channel_id, message_id }))).toBe("access_denied")
    expect(await refusal(rest.editMessage({ channel_id, message_id, content: "x" }))).toBe("access_denied")
    expect(await refusal(rest.deleteMessage({ channel_id, message_id }))).toBe("access_denied")
    expect(await refusal(rest.createInvite({ channel_id }))).toBe("access_denied")
  }
  await owner.giveRole({ server_id, member_id: lin.id, role_id: low.id })
  expect(await lin.on(shared.west).listMessages({ channel_id })).toHaveLength(1)
  expect((await owner.listChannels({ server_id })).map(({ id }) => id)).toEqual([channel_id, open_id])
})

test("a member who manages roles sets overrides below their own rank, and allows what they may do themselves", async ({
  shared,
}) => {
  const { ada, lin, server_id, channel_id, owner, member, low, manager, high } = await managed(shared)
  await member.setOverride({
    channel_id,
    target_id: low.id,
    type: "role",
    allow: ["messages.send"],
    deny: ["voice.speak"],
  })
  for (const target_id of [manager.id, high.id])
    expect(await refusal(member.setOverride({ channel_id, target_id, ...nothing }))).toBe("rank_too_low")
  for (const target_id of [ada.id, lin.id])
    expect(await refusal(member.setOverride({ channel_id, target_id, ...nothing, type: "member" }))).toBe(
      "rank_too_low",
    )
  const looser = { channel_id, target_id: low.id, type: "role" as const, allow: ["messages.manage"], deny: [] }
  expect(await refusal(member.setOverride(looser))).toBe("permission_denied")
  await owner.setOverride({ ...looser, allow: [], deny: ["messages.manage"] })
  // To take away what is denied is to allow it.
  expect(await refusal(member.deleteOverride({ channel_id, target_id: low.id }))).toBe("permission_denied")
  await owner.setOverride({ channel_id, target_id: high.id, ...nothing })
  expect(await refusal(member.deleteOverride({ channel_id, target_id: high.id }))).toBe("rank_too_low")
  await owner.setOverride({ channel_id, target_id: ada.id, ...nothing, type: "member" })
  await owner.deleteOverride({ channel_id, target_id: ada.id })
  await owner.deleteRole({ server_id, role_id: high.id })
  expect(await refusal(owner.getOverride({ channel_id, target_id: high.id }))).toBe("override_not_found")
})

test("a deleted role takes its overrides with it, in one audit entry, however many they are", async ({ shared }) => {
  const { lin, server_id, channel_id, owner, member, low } = await managed(shared)
  const { id: other } = await owner.createChannel({ server_id, name: "other" })
  await owner.giveRole({ server_id, member_id: lin.id, role_id: low.id })
  const denied = { target_id: low.id, type: "role" as const, allow: [], deny: ["channels.view" as const] }
  for (const id of [channel_id, other]) {
    await owner.setOverride({ channel_id: id, target_id: server_id, type: "role", allow: ["channels.view"], deny: [] })
    await owner.setOverride({ channel_id: id, ...denied })
  }
  const inbox = await lin.listen(shared.west)
  expect(await refusal(member.listMessages({ channel_id }))).toBe("access_denied")

  await owner.deleteRole({ server_id, role_id: low.id })
  const shown = [await inbox.next("CHANNEL_CREATE"), await inbox.next("CHANNEL_CREATE")].map(({ id }) => id)
  expect(shown.toSorted()).toEqual([channel_id, other].toSorted())
  await owner.createMessage({ channel_id: other, content: "x" })
  expect((await inbox.next("MESSAGE_CREATE")).channel_id).toBe(other)
  expect(await refusal(owner.getOverride({ channel_id, target_id: low.id }))).toBe("override_not_found")
  await owner.getOverride({ channel_id, target_id: server_id })

  const rows = await shared.sql<{ body: string }[]>`
    SELECT body FROM outbox WHERE shard = ${shardOf(server_id)} ORDER BY number`
  const last = rows
    .flatMap(({ body }) => readRowBody(body).items)
    .flatMap(item => (item[0] === "c" && item[1] === server_id ? [JSON.parse(item[4].text) as Control] : []))
    .slice(-2)
  expect(last.map(({ type }) => type)).toEqual(["overrides", "role"])
  const kept = [channel_id, other].map(id => [id, { ...denied, allow: 0, deny: maskOf(denied.deny) }])
  expect(last[1]).toMatchObject({ role: low.id, after: null, overrides: expect.arrayContaining(kept) })
})

test("managing roles may be denied in a channel, or allowed in one channel only", async ({ shared }) => {
  const { lin, server_id, channel_id, owner, member, low, manager } = await managed(shared)
  const target = { channel_id, target_id: low.id, type: "role" as const, allow: [], deny: [] }
  const manages = { channel_id, target_id: manager.id, type: "role" as const }
  await owner.setOverride({ ...manages, allow: [], deny: ["roles.manage"] })
  expect(await refusal(member.setOverride(target))).toBe("permission_denied")
  expect(await refusal(member.getOverride({ channel_id, target_id: manager.id }))).toBe("permission_denied")
  await owner.editRole({ server_id, role_id: manager.id, permissions: {} })
  await owner.setOverride({ ...manages, allow: ["roles.manage"], deny: [] })
  await member.setOverride({ ...target, allow: ["roles.manage", "messages.send"] })
  expect(await refusal(member.setOverride({ ...target, allow: ["messages.manage"] }))).toBe("permission_denied")
  expect(await refusal(member.createRole({ server_id }))).toBe("permission_denied")
  const { id: other } = await owner.createChannel({ server_id, name: "other" })
  expect(await refusal(member.setOverride({ ...target, channel_id: other }))).toBe("permission_denied")
  // A user who is quiet for a while lets nobody else speak.
  await owner.editMember({ server_id, member_id: lin.id, timeout_seconds: 60 })
  expect(await refusal(member.setOverride({ ...target, target_id: server_id, allow: ["messages.send"] }))).toBe(
    "permission_denied",
  )
})

test("overrides: 403 for others, 404 for what is not there, 400 for what is no id", async ({ shared }) => {
  const { lin, server_id, channel_id, owner, low, manager } = await managed(shared)
  const eve = (await shared.person("eve")).on(shared.west)
  await owner.takeRole({ server_id, member_id: lin.id, role_id: manager.id })
  const member = lin.on(shared.east)
  for (const [rest, channel, target_id, expected] of [
    [eve, channel_id, low.id, "access_denied"],
    [eve, "1", low.id, "channel_not_found"],
    [eve, "x", low.id, "invalid_channel_id"],
    [eve, channel_id, "x", "invalid_id"],
    [member, channel_id, low.id, "permission_denied"],
  ] as const) {
    const ids = { channel_id: channel, target_id }
    expect(await refusal(rest.getOverride(ids))).toBe(expected)
    expect(await refusal(rest.setOverride({ ...ids, ...nothing }))).toBe(expected)
    expect(await refusal(rest.deleteOverride(ids))).toBe(expected)
    if (expected !== "invalid_id") expect(await refusal(rest.listOverrides({ channel_id: channel }))).toBe(expected)
  }
  for (const type of ["role", "member"] as const)
    expect(await refusal(owner.setOverride({ channel_id, target_id: "1", ...nothing, type }))).toBe(
      "member_or_role_not_found",
    )
})

test("a channel has at most 500 overrides", async ({ shared }) => {
  const ada = await shared.person("ada")
  const { server_id, channel_id } = await plantServer(shared, { owner: ada })
  await shared.sql`
    INSERT INTO channel_overrides (channel_id, target_id, server_id, type, allow, deny)
    SELECT ${channel_id}, n, ${server_id}, 'member', 0, 0 FROM generate_series(1, 499) AS n`
  await ada.on(shared.east).setOverride({ channel_id, target_id: ada.id, ...nothing, type: "member" })
  const one = { channel_id, target_id: server_id, ...nothing }
  expect(await refusal(ada.on(shared.west).setOverride(one))).toBe("override_limit")
})

const nobody = { target_id: "" }

test("a server has at most 5,000 overrides in all its channels, also when two are set at once", async ({ shared }) => {
  const ada = await shared.person("ada")
  const { server_id, channel_id } = await plantServer(shared, { owner: ada, channels: 11 })
  const rest = ada.on(shared.east)
  const rows = await shared.sql<{ id: string }[]>`
    SELECT id FROM channels WHERE server_id = ${server_id} AND id <> ${channel_id}`
  const others = rows.map(({ id }) => id)
  // 4,999 of them: 500 in each of nine channels, and 499 in the tenth.
  await shared.sql`
    INSERT INTO channel_overrides (channel_id, target_id, server_id, type, allow, deny)
    SELECT c, ${channel_id}::bigint + n, ${server_id}, 'member', 0, 0 FROM unnest(${others}::bigint[]) AS c, generate_series(1, 500) AS n
    WHERE NOT (c = ${others[9]!} AND n = 500)`
  const set = (place: typeof shared.east, target_id: string, type: "role" | "member") =>
    ada.on(place).setOverride({ channel_id, target_id, ...nothing, type })
  const outcomes = await Promise.allSettled([set(shared.east, ada.id, "member"), set(shared.west, server_id, "role")])
  expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(1)
  const refused = outcomes.flatMap(outcome => (outcome.status === "rejected" ? [outcome.reason as unknown] : []))
  expect(refused).toMatchObject([{ status: 400 }])
  // Where one is deleted, another can be set.
  const [{ target_id } = nobody] = await rest.listOverrides({ channel_id: others[0]! })
  await rest.deleteOverride({ channel_id: others[0]!, target_id })
  await set(shared.east, ada.id, "member")
  await set(shared.west, server_id, "role").catch(() => {})
  const [row] = await shared.sql<{ count: number }[]>`
    SELECT count(*)::int AS count FROM channel_overrides WHERE server_id = ${server_id}`
  expect(row!.count).toBe(5_000)
})
