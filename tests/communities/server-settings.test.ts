/**
 * What a server is called and how it is presented, what one may do in it, and how somebody comes
 * into one that is public.
 */
import { permissionNames } from "../../src/contract/core/permissions.ts"
import { refusal } from "../kit/conformance.ts"
import { readyOf, type Listener } from "../kit/person.ts"
import { plantServer, plantedId, sharedServer } from "../kit/seeds.ts"
import { expect, test, type SharedCluster } from "../kit/test.ts"

const aliases = ["server.view", "channel.create", "message.send", "message.manage"]

async function withGuest(shared: SharedCluster) {
  const scene = await shared.seed(sharedServer)
  const { ada, lin, server, channel } = scene
  return {
    ...scene,
    server_id: server.id,
    channel_id: channel.id,
    owner: ada.on(shared.east),
    member: lin.on(shared.west),
    eve: await shared.person("eve"),
  }
}

/** Lin gets a role with these permissions. */
async function granted(shared: SharedCluster, ...names: string[]) {
  const scene = await withGuest(shared)
  const { owner, server_id, lin } = scene
  const permissions = Object.fromEntries(names.map(name => [name, true]))
  const { id: role_id } = await owner.createRole({ server_id, name: "Steward", permissions })
  await owner.giveRole({ server_id, member_id: lin.id, role_id })
  return { ...scene, role_id }
}

const heard = async (client: Listener) => (await client.next("GUILD_UPDATE")).name

test("a member who manages a server changes what is sent; members hear of the whole server, others of nothing", async ({
  shared,
}) => {
  const { member, owner, ada, lin, eve, server, server_id, channel_id } = await granted(shared, "server.manage")
  const [here, there] = [await ada.listen(shared.east), await lin.listen(shared.west, { encoding: "msgpack" })]
  const [stranger, quiet] = [await eve.listen(shared.east), await lin.listen(shared.east, { intents: 0 })]
  const patch = {
    name: "Harbour 🚢",
    description: "Ships",
    default_channel_id: channel_id,
    public: true,
    category: "Sea",
    default_message_notifications: 1 as const,
  }
  const edited = await member.editServer({ server_id, ...patch })
  expect(edited).toEqual({ ...server, ...patch, member_count: 2 })
  const told = { ...edited, server_id, guild_id: server_id }
  for (const client of [here, there]) expect(await client.next("GUILD_UPDATE")).toEqual(told)
  for (const place of [shared.east, shared.west]) expect(await ada.on(place).getServer({ server_id })).toEqual(edited)
  const [row] = await shared.sql`
    SELECT name, description, default_channel_id, public, category, default_message_notifications, icon_url, owner_id
    FROM servers WHERE id = ${server_id}`
  expect(row).toEqual({ ...patch, icon_url: null, owner_id: ada.id })

  // What is left out, null, or as it was changes nothing, and nobody hears of it.
  const same = { server_id, name: patch.name, description: null, category: null, default_channel_id: channel_id }
  expect(await owner.editServer({ server_id })).toEqual(edited)
  expect(await owner.editServer(same)).toEqual(edited)
  expect(await owner.editServer({ server_id, icon_url: "https://example.com/x.png" } as never)).toEqual(edited)
  const emptied = await owner.editServer({ server_id, description: "", category: "", default_channel_id: "0" })
  expect(emptied).toEqual({ ...edited, description: null, category: null, default_channel_id: null })
  expect((await here.next("GUILD_UPDATE")).description).toBeNull()

  await shared.settle()
  for (const client of [here, stranger, quiet]) expect(client.rest()).toEqual([])
  const [second, first] = (await owner.listAuditLog({ server_id })).filter(({ action }) => action === "SERVER_UPDATE")
  expect(first).toMatchObject({
    user_id: lin.id,
    target_type: "server",
    target_id: server_id,
    target_name: "Harbour 🚢",
  })
  expect(first!.changes).toEqual({
    name: { old: "Shared", new: "Harbour 🚢" },
    description: { old: null, new: "Ships" },
    default_channel_id: { old: null, new: channel_id },
    default_message_notifications: { old: 0, new: 1 },
    public: { old: false, new: true },
    category: { old: null, new: "Sea" },
  })
  expect(Object.keys(second!.changes).toSorted()).toEqual(["category", "default_channel_id", "description"])
})

test("sessions that connect later see the new name, sessions that resume are told of it in order", async ({
  shared,
}) => {
  const { owner, ada, lin, server_id, channel_id } = await withGuest(shared)
  const client = await lin.listen(shared.east)
  client.drop()
  await owner.createMessage({ channel_id, content: "before" })
  await owner.editServer({ server_id, name: "Renamed" })
  await owner.createMessage({ channel_id, content: "after" })
  for (const place of [shared.east, shared.west])
    for (const person of [ada, lin]) {
      const { guilds } = await readyOf(person, place)
      expect(guilds).toEqual([{ id: server_id, name: "Renamed", unavailable: false }])
    }
  await client.reconnect(shared.west.url)
  expect((await client.next("MESSAGE_CREATE")).content).toBe("before")
  expect(await heard(client)).toBe("Renamed")
  expect((await client.next("MESSAGE_CREATE")).content).toBe("after")
})

test("changing a server takes the permission, and values that are in bounds", async ({ shared }) => {
  const { member, eve, owner, server_id } = await withGuest(shared)
  const name = "Taken over"
  expect(await refusal(member.editServer({ server_id, name }))).toBe("permission_denied")
  expect(await refusal(eve.on(shared.west).editServer({ server_id, name }))).toBe("access_denied")
  expect(await refusal(eve.on(shared.west).editServer({ server_id: "1", name }))).toBe("server_not_found")
  expect(await refusal(owner.editServer({ server_id: "x", name }))).toBe("invalid_server_id")
  for (const wrong of [
    { name: "x" },
    { name: "🚢".repeat(101) },
    { description: "x".repeat(1001) },
    { category: "x".repeat(51) },
    { default_channel_id: "general" },
    { default_message_notifications: 2 },
    { public: "yes" },
  ])
    expect(await refusal(owner.editServer({ server_id, ...(wrong as object) }))).toBe("validation_failed")
  expect((await owner.getServer({ server_id })).name).toBe("Shared")
})

test("a default channel is one of the server's that holds messages and that the member who sets it sees", async ({
  shared,
}) => {
  const { member, owner, server_id, channel_id } = await granted(shared, "server.manage")
  const { server_id: other, channel_id: foreign } = await plantServer(shared, { owner: await shared.person("mo") })
  expect(other).not.toBe(server_id)
  const [voice, category, hidden] = await Promise.all([
    owner.createChannel({ server_id, name: "talk", type: "voice" }),
    owner.createChannel({ server_id, name: "group", type: "category" }),
    owner.createChannel({ server_id, name: "hidden" }),
  ])
  const deny = { allow: [], deny: ["channels.view" as const] }
  await owner.setOverride({ channel_id: hidden.id, target_id: server_id, type: "role", ...deny })
  for (const wrong of [foreign, voice.id, category.id, hidden.id, server_id, plantedId(), "1"])
    expect(await refusal(member.editServer({ server_id, default_channel_id: wrong }))).toBe("invalid_default_channel")
  expect((await owner.editServer({ server_id, default_channel_id: hidden.id })).default_channel_id).toBe(hidden.id)
  // A client that sends back what it was shown changes nothing about it.
  const { name, default_channel_id } = await member.getServer({ server_id })
  expect(await member.editServer({ server_id, name, default_channel_id: default_channel_id! })).toMatchObject({
    default_channel_id: hidden.id,
  })
  expect((await member.editServer({ server_id, default_channel_id: channel_id })).default_channel_id).toBe(channel_id)
})

test("two changes at once are made one after the other, and the row is what was answered last", async ({ shared }) => {
  const { ada, lin, server_id } = await granted(shared, "server.manage")
  await Promise.all(
    Array.from({ length: 8 }, (_, i) =>
      (i % 2 === 0 ? ada.on(shared.east) : lin.on(shared.west)).editServer({
        server_id,
        ...(i % 2 === 0 ? { name: `Name ${i}` } : { description: `About ${i}` }),
      }),
    ),
  )
  const server = await ada.on(shared.west).getServer({ server_id })
  const [row] = await shared.sql`SELECT name, description FROM servers WHERE id = ${server_id}`
  expect(row).toEqual({ name: server.name, description: server.description })
  expect(server.name).toMatch(/^Name/)
  expect(server.description).toMatch(/^About/)
})

test("everybody learns what they may do, by every name of every permission", async ({ shared }) => {
  const { owner, member, lin, eve, server_id } = await withGuest(shared)
  const names = [...permissionNames, ...aliases].toSorted()
  const all = await owner.getServerPermissions({ server_id })
  expect(Object.keys(all).toSorted()).toEqual(names)
  expect(new Set(Object.values(all))).toEqual(new Set([true]))

  const own = async () => {
    const map = await member.getServerPermissions({ server_id })
    expect(Object.keys(map).toSorted()).toEqual(names)
    return names.filter(name => map[name])
  }
  const usual =
    "channels.view events.view invites.create message.send messages.add_reactions messages.attach_files messages.embed_links " +
    "messages.read messages.send server.view voice.connect voice.speak"
  expect((await own()).join(" ")).toBe(usual)
  const { id: role_id } = await owner.createRole({
    server_id,
    permissions: { "channels.manage": true, "messages.manage": true },
  })
  await owner.giveRole({ server_id, member_id: lin.id, role_id })
  const more = ["channel.create", "channels.manage", "message.manage", "messages.manage"]
  expect(await own()).toEqual([...usual.split(" "), ...more].toSorted())

  const until = Math.floor(Date.now() / 1000) + 600
  await owner.editMember({ server_id, member_id: lin.id, timeout_until: until })
  const silenced = ["messages.send", "messages.add_reactions", "messages.attach_files", "messages.embed_links"]
  const taken = new Set([...silenced, "voice.speak", "voice.connect", "message.send"])
  expect(await own()).toEqual([...usual.split(" "), ...more].filter(name => !taken.has(name)).toSorted())
  await owner.editMember({ server_id, member_id: lin.id, timeout_until: 0 })
  await owner.editRole({ server_id, role_id, permissions: { administrator: true } })
  expect(await own()).toEqual(names)

  const outside = eve.on(shared.east)
  expect(await refusal(outside.getServerPermissions({ server_id }))).toBe("access_denied")
  expect(await refusal(outside.getServerPermissions({ server_id: "1" }))).toBe("server_not_found")
  expect(await refusal(outside.getServerPermissions({ server_id: "x" }))).toBe("invalid_server_id")
})

test("in a channel its own rules count; nothing is said of what one may not see, or of another server's", async ({
  shared,
}) => {
  const { owner, member, eve, server_id, channel_id } = await withGuest(shared)
  await owner.setOverride({
    channel_id,
    target_id: server_id,
    type: "role",
    allow: ["messages.manage"],
    deny: ["messages.send"],
  })
  const inChannel = await member.getServerPermissions({ server_id, channel_id })
  expect(inChannel).toMatchObject({ "messages.send": false, "message.send": false, "messages.manage": true })
  expect(await member.getServerPermissions({ server_id })).toMatchObject({
    "messages.send": true,
    "messages.manage": false,
  })
  expect(await owner.getServerPermissions({ server_id, channel_id })).toMatchObject({ "messages.send": true })

  const { id: hidden } = await owner.createChannel({ server_id, name: "hidden" })
  await owner.setOverride({
    channel_id: hidden,
    target_id: server_id,
    type: "role",
    allow: [],
    deny: ["channels.view"],
  })
  const { channel_id: foreign } = await plantServer(shared, { owner: eve })
  const asked = (channel: string) => refusal(member.getServerPermissions({ server_id, channel_id: channel }))
  expect(await asked(hidden)).toBe("access_denied")
  expect(await asked(foreign)).toBe("channel_not_found")
  expect(await asked(plantedId())).toBe("channel_not_found")
  expect(await asked("general")).toBe("validation_failed")
  const outside = eve.on(shared.west).getServerPermissions({ server_id, channel_id })
  expect(await refusal(outside)).toBe("access_denied")
})

test("a public server is joined by anybody, once; others need an invite", async ({ shared }) => {
  const { owner, ada, eve, server, server_id, channel_id } = await withGuest(shared)
  const [coming, own] = [await eve.listen(shared.west), await ada.listen(shared.east)]
  const joinServer = (place = shared.west) => eve.on(place).joinServer({ server_id })
  expect(await refusal(joinServer())).toBe("access_denied")
  await owner.editServer({ server_id, public: true })
  // Members only, still.
  expect(await refusal(eve.on(shared.east).getServer({ server_id }))).toBe("access_denied")

  const attempts = await Promise.allSettled([shared.west, shared.east, shared.west].map(place => joinServer(place)))
  expect(attempts.filter(({ status }) => status === "fulfilled")).toHaveLength(1)
  expect(await refusal(joinServer())).toBe("already_member")
  expect((await coming.next("GUILD_CREATE")).id).toBe(server_id)
  expect((await own.next("GUILD_MEMBER_ADD")).user_id).toBe(eve.id)
  expect((await eve.on(shared.east).getServer({ server_id })).member_count).toBe(server.member_count + 2)
  await owner.createMessage({ channel_id, content: "welcome" })
  expect((await coming.next("MESSAGE_CREATE")).content).toBe("welcome")
  const [entry] = await owner.listAuditLog({ server_id, action: "MEMBER_JOIN" })
  expect(entry).toMatchObject({ user_id: eve.id, target_id: eve.id })

  await owner.editServer({ server_id, public: false })
  expect(await refusal(joinServer())).toBe("already_member")
  await eve.on(shared.east).leaveServer({ server_id })
  expect(await refusal(joinServer())).toBe("access_denied")
  await owner.editServer({ server_id, public: true })
  await owner.banUser({ server_id, user_id: eve.id })
  expect(await refusal(joinServer())).toBe("banned")
  await owner.unbanUser({ server_id, user_id: eve.id })
  expect(await joinServer()).toEqual({ success: true, server_id })

  const full = await plantServer(shared, { owner: ada, memberCount: 250_000 })
  await owner.editServer({ server_id: full.server_id, public: true })
  expect(await refusal(eve.on(shared.east).joinServer({ server_id: full.server_id }))).toBe("member_limit")
  expect(await refusal(eve.on(shared.east).joinServer({ server_id: "1" }))).toBe("server_not_found")
  expect(await refusal(eve.on(shared.east).joinServer({ server_id: "x" }))).toBe("invalid_server_id")
})
