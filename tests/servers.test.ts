import { refusal } from "./kit/conformance.ts"
import { plantServer, sharedServer } from "./kit/seeds.ts"
import { expect, test } from "./kit/test.ts"
import { until } from "./kit/until.ts"

test("P4: a new server is there on the other worker at once, with its owner and one text channel", async ({
  shared,
}) => {
  const ada = await shared.person("ada")
  const server = await ada.on(shared.east).createServer({ name: "Harbour", description: "Ships 🚢" })
  expect(server).toMatchObject({
    name: "Harbour",
    description: "Ships 🚢",
    owner_id: ada.id,
    member_count: 1,
    default_channel_id: null,
    icon_url: null,
    verification_level: 0,
    default_message_notifications: 0,
    public: false,
    category: null,
  })
  expect(await ada.on(shared.west).getServer({ server_id: server.id })).toEqual(server)
  expect(await ada.on(shared.west).listServers()).toEqual([server])
  const channels = await ada.on(shared.west).listChannels({ server_id: server.id })
  expect(channels).toMatchObject([{ name: "general", type: "text", channel_type: "text", position: 0 }])
})

test("a server's name has 2 to 100 characters and its description at most 1000, counted in code points", async ({
  shared,
}) => {
  const { createServer } = (await shared.person("ada")).on(shared.east)
  for (const name of ["x", "", "🚢", "🚢".repeat(101)])
    expect(await refusal(createServer({ name }))).toBe("validation_failed")
  expect(await refusal(createServer({ name: "fine", description: "x".repeat(1001) }))).toBe("validation_failed")
  for (const name of ["🚢🚢", "🚢".repeat(100), "</script>", "  spaced  ", "שלום"])
    expect((await createServer({ name, description: "⚓".repeat(1000) })).name).toBe(name)
  expect((await createServer({ name: "plain", description: null })).description).toBeNull()
})

test("one's servers are listed by name, those one has joined too", async ({ shared }) => {
  const { server, ada, lin } = await shared.seed(sharedServer)
  await lin.on(shared.east).createServer({ name: "alpha" })
  await lin.on(shared.west).createServer({ name: "Zulu" })
  await lin.on(shared.west).createServer({ name: "Beta" })
  const listed = await lin.on(shared.east).listServers()
  expect(listed.map(({ name }) => name)).toEqual(["alpha", "Beta", "Shared", "Zulu"])
  expect(listed[2]).toEqual({ ...server, member_count: 2 })
  expect((await ada.on(shared.west).listServers()).map(({ id }) => id)).toEqual([server.id])
})

test("a server is for its members: 403 for others, 404 for what is not there, 400 for what is no id", async ({
  shared,
}) => {
  const { server, ada, lin } = await shared.seed(sharedServer)
  const eve = await shared.person("eve")
  for (const member of [ada, lin])
    expect((await member.on(shared.east).getServer({ server_id: server.id })).member_count).toBe(2)
  for (const place of [shared.east, shared.west]) {
    const { getServer } = eve.on(place)
    expect(await refusal(getServer({ server_id: server.id }))).toBe("access_denied")
    expect(await refusal(getServer({ server_id: "1" }))).toBe("server_not_found")
    expect(await refusal(getServer({ server_id: "x" }))).toBe("invalid_server_id")
  }
})

test("only its owner deletes a server; then all of it is gone, everywhere", async ({ shared }) => {
  const { server, channel, ada, lin } = await shared.seed(sharedServer)
  const eve = await shared.person("eve")
  const [inbox, own] = await Promise.all([lin.listen(shared.west, { encoding: "msgpack" }), ada.listen(shared.east)])
  const { id } = await lin.on(shared.west).createMessage({ channel_id: channel.id, content: "still here" })
  const { code } = await ada.on(shared.west).createInvite({ channel_id: channel.id })
  const { id: server_id } = server
  expect(await refusal(lin.on(shared.east).deleteServer({ server_id }))).toBe("not_owner")
  expect(await refusal(eve.on(shared.east).deleteServer({ server_id }))).toBe("access_denied")
  expect(await refusal(eve.on(shared.east).deleteServer({ server_id: "1" }))).toBe("server_not_found")
  expect(await refusal(eve.on(shared.east).deleteServer({ server_id: "?" }))).toBe("invalid_server_id")
  await shared.settle()
  inbox.rest()

  expect(await ada.on(shared.west).deleteServer({ server_id })).toEqual({ success: true })
  for (const client of [inbox, own])
    expect(await client.next("GUILD_DELETE")).toEqual({ id: server_id, server_id, guild_id: server_id })
  const channel_id = channel.id
  for (const person of [ada, lin, eve])
    for (const place of [shared.east, shared.west]) {
      const rest = person.on(place)
      expect(await refusal(rest.getServer({ server_id }))).toBe("server_not_found")
      expect(await refusal(rest.deleteServer({ server_id }))).toBe("server_not_found")
      expect(await refusal(rest.leaveServer({ server_id }))).toBe("server_not_found")
      expect(await refusal(rest.listChannels({ server_id }))).toBe("server_not_found")
      expect(await refusal(rest.createChannel({ server_id, name: "late" }))).toBe("server_not_found")
      expect(await refusal(rest.getChannel({ channel_id }))).toBe("channel_not_found")
      expect(await refusal(rest.createInvite({ channel_id }))).toBe("channel_not_found")
      expect(await refusal(rest.startTyping({ channel_id }))).toBe("channel_not_found")
      expect(await refusal(rest.createMessage({ channel_id, content: "late" }))).toBe("channel_not_found")
      expect(await refusal(rest.listMessages({ channel_id }))).toBe("channel_not_found")
      expect(await refusal(rest.getMessage({ channel_id, message_id: id }))).toBe("channel_not_found")
      expect(await refusal(rest.editMessage({ channel_id, message_id: id, content: "x" }))).toBe("channel_not_found")
      expect(await refusal(rest.deleteMessage({ channel_id, message_id: id }))).toBe("channel_not_found")
      expect(await refusal(rest.getInvite({ invite_code: code }))).toBe("invite_not_found")
      expect(await refusal(rest.joinByInvite({ invite_code: code }))).toBe("invite_not_found")
      expect(await rest.listServers()).toEqual([])
    }
  await shared.settle()
  expect(inbox.rest()).toEqual([])
})

test("members leave, owners do not", async ({ shared }) => {
  const { server, channel, ada, lin } = await shared.seed(sharedServer)
  const server_id = server.id
  const [inbox, own] = await Promise.all([lin.listen(shared.east), ada.listen(shared.west)])
  expect(await refusal(ada.on(shared.west).leaveServer({ server_id }))).toBe("owner_cannot_leave")
  expect(await refusal(lin.on(shared.west).leaveServer({ server_id: "none" }))).toBe("invalid_server_id")
  expect(await lin.on(shared.west).leaveServer({ server_id })).toEqual({ success: true })
  expect(await own.next("GUILD_MEMBER_REMOVE")).toEqual({ guild_id: server_id, server_id, user: { id: lin.id } })
  expect((await inbox.next("GUILD_DELETE")).id).toBe(server_id)
  await ada.on(shared.east).createMessage({ channel_id: channel.id, content: "without Lin" })
  await shared.settle()
  expect(inbox.rest()).toEqual([])
  for (const place of [shared.east, shared.west]) {
    expect(await refusal(lin.on(place).leaveServer({ server_id }))).toBe("access_denied")
    expect(await refusal(lin.on(place).listMessages({ channel_id: channel.id }))).toBe("access_denied")
    expect(await lin.on(place).listServers()).toEqual([])
    expect((await ada.on(place).getServer({ server_id })).member_count).toBe(1)
  }
})

test("whoever owns a hundred servers makes no more until one is gone", async ({ shared }) => {
  const ada = await shared.person("ada")
  const planted = await plantServer(shared, { owner: ada })
  await shared.sql`
    INSERT INTO servers (id, name, owner_id, member_count, created_at)
    SELECT ${planted.server_id}::bigint + 4096 * n, 'One of many', ${ada.id}, 1, 0 FROM generate_series(1, 99) AS n`
  expect(await refusal(ada.on(shared.east).createServer({ name: "One too many" }))).toBe("server_limit")
  await ada.on(shared.west).deleteServer({ server_id: planted.server_id })
  await ada.on(shared.east).createServer({ name: "The hundredth" })
  expect(await refusal(ada.on(shared.west).createServer({ name: "One too many" }))).toBe("server_limit")
})

test("the messages of a deleted server do not stay in the database", async ({ cluster }) => {
  const [place] = await cluster.boot(1)
  await cluster.bootJobWorker()
  const { server, channel, ada } = await cluster.seed(sharedServer)
  for (const nonce of ["kept", "spent"]) {
    const { id } = await ada.on(place!).createMessage({ channel_id: channel.id, content: nonce, nonce })
    if (nonce === "spent") await ada.on(place!).deleteMessage({ channel_id: channel.id, message_id: id })
  }
  await ada.on(place!).deleteServer({ server_id: server.id })
  await until("the job has run", async () => {
    const [left] = await cluster.sql`
      SELECT count(*) FROM messages`
    return left!["count"] === 0
  })
})
