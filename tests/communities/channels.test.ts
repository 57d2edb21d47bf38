import { permissionNames } from "../../src/contract/core/permissions.ts"
import { refusal } from "../kit/conformance.ts"
import { plantServer, sharedServer } from "../kit/seeds.ts"
import { expect, test } from "../kit/test.ts"

test("every type of channel is made, at the end of the list, and told to all who see it", async ({ shared }) => {
  const { server, channel, ada, lin } = await shared.seed(sharedServer)
  const server_id = server.id
  const inbox = await lin.listen(shared.west)
  const { createChannel } = ada.on(shared.east)
  const made = [
    await createChannel({ server_id, name: "group", type: "category" }),
    await createChannel({ server_id, name: "talk", type: "voice" }),
    await createChannel({ server_id, name: "news", type: "announcement" }),
    await createChannel({ server_id, name: "show", channel_type: "stage" }),
    await createChannel({ server_id, name: "both", type: "text", channel_type: "voice" }),
    await createChannel({ server_id, name: "plain" }),
  ]
  expect(made.map(({ type }) => type)).toEqual(["category", "voice", "announcement", "stage", "text", "text"])
  for (const [i, one] of made.entries()) {
    expect(one).toMatchObject({ channel_type: one.type, server_id, guild_id: server_id, position: i + 1 })
    expect(await inbox.next("CHANNEL_CREATE")).toEqual(one)
    expect(await lin.on(shared.west).getChannel({ channel_id: one.id })).toEqual(one)
  }
  expect(await lin.on(shared.east).listChannels({ server_id })).toEqual([channel, ...made])
})

test("what is given to a channel is kept, and what is left out has its default", async ({ shared }) => {
  const { server, ada } = await shared.seed(sharedServer)
  const server_id = server.id
  const { createChannel } = ada.on(shared.east)
  const category = await createChannel({ server_id, name: "group", type: "category" })
  const settings = { topic: "⚓ talk", nsfw: true, slowmode_seconds: 21_600, read_receipts_enabled: false }
  const full = await createChannel({ server_id, name: " Quay No. 7 ", category_id: category.id, ...settings })
  expect(full).toMatchObject({ name: "Quay No. 7", category_id: category.id, ...settings })
  const bare = { topic: null, nsfw: null, slowmode_seconds: null, category_id: null, read_receipts_enabled: null }
  expect(await createChannel({ server_id, name: "x", type: null, ...bare })).toMatchObject({
    type: "text",
    topic: null,
    nsfw: false,
    slowmode_seconds: 0,
    category_id: null,
    read_receipts_enabled: true,
    recipient: null,
    recipient_id: null,
  })
})

test("a channel's name has 1 to 100 code points after trimming, its topic at most 1024", async ({ shared }) => {
  const { server, ada } = await shared.seed(sharedServer)
  const server_id = server.id
  const { createChannel } = ada.on(shared.west)
  for (const name of ["🚢".repeat(100), "x", ` ${"n".repeat(100)} `, "日本語", "a/b?c#d", "</b>"])
    expect((await createChannel({ server_id, name })).name).toBe(name.trim())
  for (const name of ["", "   ", "🚢".repeat(101)])
    expect(await refusal(createChannel({ server_id, name }))).toBe("validation_failed")
  expect((await createChannel({ server_id, name: "t", topic: "🌊".repeat(1024) })).topic).toHaveLength(2048)
  for (const facts of [
    { topic: "🌊".repeat(1025) },
    { slowmode_seconds: -1 },
    { slowmode_seconds: 21_601 },
    { slowmode_seconds: 1.5 },
    { type: "dm" as never },
    { channel_type: "" as never },
    { category_id: "x" },
    { category_id: 2 ** 53 },
  ])
    expect(await refusal(createChannel({ server_id, name: "bad", ...facts }))).toBe("validation_failed")
})

test("CHAN2: a category is a category of the same server", async ({ shared }) => {
  const [one, other] = await Promise.all([shared.seed(sharedServer), shared.seed(sharedServer)])
  const server_id = one.server.id
  const { createChannel } = one.ada.on(shared.east)
  const mine = await createChannel({ server_id, name: "mine", type: "category" })
  const theirs = await other.ada
    .on(shared.east)
    .createChannel({ server_id: other.server.id, name: "theirs", type: "category" })
  for (const category_id of [one.channel.id, theirs.id, server_id, "1", 1])
    expect(await refusal(createChannel({ server_id, name: "in it", category_id }))).toBe("invalid_category")
  expect((await createChannel({ server_id, name: "in it", category_id: mine.id })).category_id).toBe(mine.id)
})

test("parallel channels on two workers take places of their own", async ({ shared }) => {
  const { server, ada } = await shared.seed(sharedServer)
  const made = await Promise.all(
    Array.from({ length: 12 }, (_, i) =>
      ada.on(i % 2 ? shared.east : shared.west).createChannel({ server_id: server.id, name: `c${i}` }),
    ),
  )
  const listed = await ada.on(shared.east).listChannels({ server_id: server.id })
  expect(listed.map(({ position }) => position)).toEqual(Array.from({ length: 13 }, (_, i) => i))
  expect(listed.slice(1)).toEqual(made.toSorted((a, b) => a.position - b.position))
})

test("making a channel takes the permission to manage channels", async ({ shared }) => {
  const { server, lin } = await shared.seed(sharedServer)
  const eve = await shared.person("eve")
  const server_id = server.id
  expect(await refusal(lin.on(shared.east).createChannel({ server_id, name: "mine" }))).toBe("permission_denied")
  expect(await refusal(eve.on(shared.east).createChannel({ server_id, name: "mine" }))).toBe("access_denied")
  expect(await refusal(eve.on(shared.east).createChannel({ server_id: "1", name: "mine" }))).toBe("server_not_found")
  expect(await refusal(eve.on(shared.east).createChannel({ server_id: "x", name: "mine" }))).toBe("invalid_server_id")
  for (const everyone of [["channels.manage"], ["administrator"]] as const) {
    const planted = await plantServer(shared, { owner: eve, members: [lin], everyone })
    const made = await lin.on(shared.west).createChannel({ server_id: planted.server_id, name: "by a member" })
    expect(made.position).toBe(1)
  }
})

test("a server has at most 500 channels", async ({ shared }) => {
  const ada = await shared.person("ada")
  const { server_id } = await plantServer(shared, { owner: ada, channels: 499 })
  const { createChannel, listChannels } = ada.on(shared.east)
  const races = await Promise.allSettled([1, 2, 3].map(n => createChannel({ server_id, name: `the 500th? ${n}` })))
  expect(races.filter(({ status }) => status === "fulfilled")).toHaveLength(1)
  expect(await refusal(createChannel({ server_id, name: "one too many" }))).toBe("channel_limit")
  expect(await listChannels({ server_id })).toHaveLength(500)
})

test("channels are for members who may view them: 403 otherwise, 404 for what is not there, 400 for no id", async ({
  shared,
}) => {
  const { server, channel, ada, lin } = await shared.seed(sharedServer)
  const eve = await shared.person("eve")
  const hidden = await plantServer(shared, {
    owner: ada,
    members: [lin],
    everyone: permissionNames.filter(name => name !== "channels.view" && name !== "administrator"),
  })
  for (const place of [shared.east, shared.west]) {
    expect(await refusal(eve.on(place).getChannel({ channel_id: channel.id }))).toBe("access_denied")
    expect(await refusal(eve.on(place).listChannels({ server_id: server.id }))).toBe("access_denied")
    expect(await refusal(lin.on(place).getChannel({ channel_id: hidden.channel_id }))).toBe("access_denied")
    expect(await lin.on(place).listChannels({ server_id: hidden.server_id })).toEqual([])
    expect(await ada.on(place).listChannels({ server_id: hidden.server_id })).toHaveLength(1)
    for (const channel_id of ["1", server.id, lin.id])
      expect(await refusal(lin.on(place).getChannel({ channel_id }))).toBe("channel_not_found")
    expect(await refusal(lin.on(place).getChannel({ channel_id: "general" }))).toBe("invalid_channel_id")
    expect(await refusal(lin.on(place).listChannels({ server_id: "general" }))).toBe("invalid_server_id")
    expect(await refusal(lin.on(place).listChannels({ server_id: channel.id }))).toBe("server_not_found")
  }
})
