import type { RolePatch } from "../../src/contract/communities/roles.ts"
import { permissionNames } from "../../src/contract/core/permissions.ts"
import { plantedId, plantServer, sharedServer } from "../kit/seeds.ts"
import { refusal } from "../kit/conformance.ts"
import { expect, test, type SharedCluster } from "../kit/test.ts"

/**
 * Ada's server, in which Lin manages roles through a role of their own; below it one, above it one.
 */
async function managed(shared: SharedCluster) {
  const { ada, lin, server, channel } = await shared.seed(sharedServer)
  const server_id = server.id
  const owner = ada.on(shared.east)
  const low = await owner.createRole({ server_id, name: "Low" })
  const manager = await owner.createRole({
    server_id,
    name: "Manager",
    permissions: { "roles.manage": true, "messages.manage": true },
  })
  const high = await owner.createRole({ server_id, name: "High" })
  await owner.giveRole({ server_id, member_id: lin.id, role_id: manager.id })
  return { ada, lin, server_id, channel, owner, member: lin.on(shared.west), low, manager, high }
}

test("a role has what it is given and defaults for the rest; the owner's goes on top", async ({ shared }) => {
  const { ada, lin, server } = await shared.seed(sharedServer)
  const [inbox, quiet] = [await lin.listen(shared.west), await lin.listen(shared.east, { intents: 0 })]
  const server_id = server.id
  const { createRole, listRoles } = ada.on(shared.east)
  const nulls = { "messages.send": null }
  const plain = await createRole({ server_id, name: null, permissions: nulls })
  const none = Object.fromEntries(permissionNames.map(name => [name, false]))
  expect(plain).toMatchObject({ name: "New Role", color: "#000000", position: 1, hoist: false, mentionable: false })
  expect(plain).toMatchObject({ server_id, is_default: false, permissions: none })
  const full = await createRole({
    server_id,
    name: "Crew",
    color: "#00ffAA",
    permissions: {
      "message.send": true,
      "voice.speak": true,
      administrator: false,
      "no.such": true,
      "*": true,
      "messages.*": true,
      constructor: true,
      "server.view": true,
    },
    hoist: true,
    mentionable: true,
  })
  expect(full).toMatchObject({ name: "Crew", color: "#00ffAA", position: 2, hoist: true, mentionable: true })
  expect(full.permissions).toEqual({ ...none, "messages.send": true, "voice.speak": true })
  expect(await inbox.next("GUILD_ROLE_CREATE")).toEqual({ guild_id: server_id, server_id, role: plain })
  expect(await inbox.next("GUILD_ROLE_CREATE")).toEqual({ guild_id: server_id, server_id, role: full })
  const listed = await lin.on(shared.west).listRoles({ server_id })
  expect(listed.map(({ id }) => id)).toEqual([full.id, plain.id, server_id])
  expect(listed.at(-1)).toMatchObject({ name: "@everyone", position: 0, is_default: true })
  expect(await listRoles({ server_id })).toEqual(listed)
  for (const wrong of [{ name: "" }, { name: "x".repeat(101) }, { color: "red" }, { color: "#12345" }])
    expect(await refusal(createRole({ server_id, ...wrong }))).toBe("validation_failed")
  await shared.settle()
  expect(quiet.rest()).toEqual([])
})

test("a role changes and goes; every member is told", async ({ shared }) => {
  const { lin, owner, server_id, low, manager, high } = await managed(shared)
  const inbox = await lin.listen(shared.west)
  const patch = {
    name: "Lower",
    color: "#111111",
    permissions: { "voice.connect": true },
    hoist: true,
    mentionable: true,
  }
  const edited = await owner.editRole({ server_id, role_id: low.id, ...patch })
  expect(edited).toMatchObject({ ...low, ...patch, permissions: { ...low.permissions, "voice.connect": true } })
  expect((await inbox.next("GUILD_ROLE_UPDATE")).role).toEqual(edited)
  expect(await owner.editRole({ server_id, role_id: low.id })).toEqual(edited)

  await owner.editRole({ server_id, role_id: low.id, position: 3 })
  const order = async () => (await owner.listRoles({ server_id })).map(({ id }) => id)
  expect(await order()).toEqual([low.id, high.id, manager.id, server_id])
  await owner.editRole({ server_id, role_id: low.id, position: 1 })
  expect(await order()).toEqual([high.id, manager.id, low.id, server_id])

  await owner.deleteRole({ server_id, role_id: manager.id })
  const gone = await inbox.next("GUILD_ROLE_DELETE")
  expect(gone).toEqual({ guild_id: server_id, server_id, role_id: manager.id })
  expect(await order()).toEqual([high.id, low.id, server_id])
  expect(await refusal(owner.editRole({ server_id, role_id: manager.id }))).toBe("role_not_found")
  expect(await refusal(owner.deleteRole({ server_id, role_id: manager.id }))).toBe("role_not_found")
})

test("a role is given and taken once; members are told who has which", async ({ shared }) => {
  const { lin, owner, server_id, low, manager } = await managed(shared)
  const inbox = await lin.listen(shared.east)
  for (let i = 0; i < 2; i++) await owner.giveRole({ server_id, member_id: lin.id, role_id: low.id })
  const update = { guild_id: server_id, server_id, user: { id: lin.id } }
  expect(await inbox.next("GUILD_MEMBER_UPDATE")).toMatchObject({ ...update, roles: [server_id, manager.id, low.id] })
  for (let i = 0; i < 2; i++) await owner.takeRole({ server_id, member_id: lin.id, role_id: low.id })
  expect(await inbox.next("GUILD_MEMBER_UPDATE")).toMatchObject({ ...update, roles: [server_id, manager.id] })
  expect(await owner.giveRole({ server_id, member_id: lin.id, role_id: server_id })).toEqual({ success: true })
  await shared.settle()
  expect(inbox.rest()).toEqual([])
  const [row] = await shared.sql`SELECT roles FROM members WHERE server_id = ${server_id} AND user_id = ${lin.id}`
  expect(row!["roles"]).toEqual([manager.id])
})

test("ROLE1: a member who manages roles does so below their own, and grants what they have", async ({ shared }) => {
  const { ada, lin, owner, member, server_id, low, manager, high } = await managed(shared)
  const below = await member.createRole({ server_id, name: "Below", permissions: { "messages.manage": true } })
  const roles = await owner.listRoles({ server_id })
  expect(roles.map(({ id }) => id)).toEqual([high.id, manager.id, below.id, low.id, server_id])
  expect(roles.map(({ position }) => position)).toEqual([4, 3, 2, 1, 0])
  for (const role_id of [high.id, manager.id]) {
    expect(await refusal(member.editRole({ server_id, role_id, hoist: true }))).toBe("rank_too_low")
    expect(await refusal(member.deleteRole({ server_id, role_id }))).toBe("rank_too_low")
    expect(await refusal(member.giveRole({ server_id, member_id: lin.id, role_id }))).toBe("rank_too_low")
    expect(await refusal(member.takeRole({ server_id, member_id: lin.id, role_id }))).toBe("rank_too_low")
  }
  const role_id = low.id
  expect(await refusal(member.editRole({ server_id, role_id, position: 3 }))).toBe("rank_too_low")
  for (const permissions of [{ "members.ban": true }, { administrator: true }]) {
    expect(await refusal(member.createRole({ server_id, permissions }))).toBe("permission_denied")
    expect(await refusal(member.editRole({ server_id, role_id, permissions }))).toBe("permission_denied")
    expect(await refusal(member.editRole({ server_id, role_id: server_id, permissions }))).toBe("permission_denied")
  }
  // What the role grants already may stay.
  await owner.editRole({ server_id, role_id, permissions: { "members.ban": true } })
  await member.editRole({ server_id, role_id, permissions: { "members.ban": true, "messages.send": true } })
  await member.editRole({ server_id, role_id, position: 2 })
  await member.giveRole({ server_id, member_id: ada.id, role_id })
  await member.deleteRole({ server_id, role_id })
})

test("a role below one's own is given and taken whatever it grants, and whatever channels allow and deny it", async ({
  shared,
}) => {
  const { lin, owner, member, server_id, channel, low } = await managed(shared)
  const [channel_id, role_id] = [channel.id, low.id]
  const memberRole = { server_id, member_id: lin.id, role_id }
  const says = (content: string) => member.createMessage({ channel_id, content })
  await owner.editRole({ server_id, role_id, permissions: { "members.ban": true } })
  await owner.setOverride({ channel_id, target_id: role_id, type: "role", allow: ["webhooks.manage"], deny: [] })
  expect(await refusal(member.listBans({ server_id }))).toBe("permission_denied")
  expect(await refusal(member.listChannelWebhooks({ channel_id }))).toBe("permission_denied")
  await member.giveRole(memberRole)
  expect(await member.listBans({ server_id })).toEqual([])
  expect(await member.listChannelWebhooks({ channel_id })).toEqual([])
  await owner.setOverride({ channel_id, target_id: role_id, type: "role", allow: [], deny: ["messages.send"] })
  expect(await refusal(says("refused"))).toBe("permission_denied")
  await member.takeRole(memberRole)
  await says("without it")
  await member.giveRole(memberRole)
  expect(await refusal(says("refused again"))).toBe("permission_denied")
  await member.deleteRole({ server_id, role_id })
  await says("with it gone")
})

test("a change that changes nothing is told to nobody", async ({ shared }) => {
  const { lin, owner, server_id, channel, low } = await managed(shared)
  const target = { channel_id: channel.id, target_id: low.id, type: "role" as const, allow: [], deny: ["voice.speak"] }
  await owner.setOverride(target)
  const inbox = await lin.listen(shared.west)
  const entries = async () => (await owner.listAuditLog({ server_id, limit: "100" })).length
  const before = await entries()
  await owner.editRole({ server_id, role_id: low.id, name: low.name, position: low.position, permissions: {} })
  await owner.setOverride(target)
  await shared.settle()
  expect(inbox.rest()).toEqual([])
  expect(await entries()).toBe(before)
})

test("a member who manages roles through @everyone has nothing below them", async ({ shared }) => {
  const { lin, owner, server_id, manager } = await managed(shared)
  await owner.takeRole({ server_id, member_id: lin.id, role_id: manager.id })
  await owner.editRole({ server_id, role_id: server_id, permissions: { "channels.view": true, "roles.manage": true } })
  const member = lin.on(shared.east)
  expect(await refusal(member.createRole({ server_id }))).toBe("rank_too_low")
  expect(await refusal(member.editRole({ server_id, role_id: server_id, permissions: {} }))).toBe("rank_too_low")
})

test("@everyone keeps its name and place; what it grants may change", async ({ shared }) => {
  const { lin, owner, server_id } = await managed(shared)
  const role_id = server_id
  for (const patch of [{ name: "Everybody" }, { position: 2 }] as Partial<RolePatch>[])
    expect(await refusal(owner.editRole({ server_id, role_id, ...patch }))).toBe("default_role")
  expect(await refusal(owner.deleteRole({ server_id, role_id }))).toBe("default_role")
  expect(await refusal(owner.takeRole({ server_id, member_id: lin.id, role_id }))).toBe("default_role")
  const edited = await owner.editRole({ server_id, role_id, permissions: { "channels.view": true } })
  expect(edited).toMatchObject({ is_default: true, permissions: { "channels.view": true, "messages.send": false } })
})

test("roles: 403 for others, 404 for what is not there, 400 for what is no id", async ({ shared }) => {
  const { ada, lin, owner, member, server_id, low, manager } = await managed(shared)
  const eve = (await shared.person("eve")).on(shared.west)
  await owner.takeRole({ server_id, member_id: lin.id, role_id: manager.id })
  const [member_id, role_id] = [ada.id, low.id]
  for (const [rest, server, expected] of [
    [eve, server_id, "access_denied"],
    [eve, "1", "server_not_found"],
    [eve, "x", "invalid_server_id"],
    [member, server_id, "permission_denied"],
  ] as const) {
    const ids = { server_id: server, role_id }
    if (expected !== "permission_denied") expect(await refusal(rest.listRoles(ids))).toBe(expected)
    expect(await refusal(rest.createRole(ids))).toBe(expected)
    expect(await refusal(rest.editRole(ids))).toBe(expected)
    expect(await refusal(rest.deleteRole(ids))).toBe(expected)
    expect(await refusal(rest.giveRole({ ...ids, member_id }))).toBe(expected)
    expect(await refusal(rest.takeRole({ ...ids, member_id }))).toBe(expected)
  }
  expect(await refusal(owner.editRole({ server_id, role_id: "x" }))).toBe("invalid_id")
  expect(await refusal(owner.deleteRole({ server_id, role_id: "x" }))).toBe("invalid_id")
  for (const [person, role, expected] of [
    ["1", role_id, "member_or_role_not_found"],
    [member_id, "1", "member_or_role_not_found"],
    ["x", role_id, "invalid_id"],
    [member_id, "x", "invalid_id"],
  ] as const) {
    const ids = { server_id, member_id: person, role_id: role }
    expect(await refusal(owner.giveRole(ids))).toBe(expected)
    expect(await refusal(owner.takeRole(ids))).toBe(expected)
  }
})

test("a server has at most 250 roles", async ({ shared }) => {
  const ada = await shared.person("ada")
  const { server_id } = await plantServer(shared, { owner: ada })
  await shared.sql`
    INSERT INTO roles (id, server_id, name, color, position, hoist, mentionable, permissions)
    SELECT ${plantedId()}::bigint + 4194304 * n, ${server_id}, 'Planted', '#000000', n, false, false, '{}' FROM generate_series(1, 248) AS n`
  await ada.on(shared.east).createRole({ server_id, name: "The last" })
  expect(await refusal(ada.on(shared.west).createRole({ server_id, name: "One too many" }))).toBe("role_limit")
})
