import { bitOf } from "../../src/contract/core/intents.ts"
import { refusal } from "../kit/conformance.ts"
import { connectionsOf } from "../kit/connections.ts"
import { usualIntents } from "../kit/person.ts"
import { plantServer, sharedServer } from "../kit/seeds.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"

test("typing is told to the others in the channel, whichever way it comes, and not to the one who types", async ({
  shared,
}) => {
  const { server, channel, ada, lin } = await shared.seed(sharedServer)
  const other = await ada.on(shared.east).createChannel({ server_id: server.id, name: "other" })
  const [east, west, own, deaf] = await Promise.all([
    lin.listen(shared.east),
    lin.listen(shared.west, { encoding: "msgpack" }),
    ada.listen(shared.west),
    lin.listen(shared.west, { intents: usualIntents & ~bitOf("GUILD_MESSAGE_TYPING") }),
  ])
  const told = { user_id: ada.id, username: ada.username, server_id: server.id, guild_id: server.id }
  expect(await ada.on(shared.east).startTyping({ channel_id: channel.id })).toEqual({ success: true })
  for (const inbox of [east, west])
    expect(await inbox.next("TYPING_START")).toEqual({ channel_id: channel.id, ...told })
  own.typing(other.id)
  for (const inbox of [east, west]) expect(await inbox.next("TYPING_START")).toEqual({ channel_id: other.id, ...told })
  await shared.settle()
  for (const inbox of [east, west, own, deaf]) expect(inbox.rest()).toEqual([])
})

test("a user who says several times within a second that they type is told of once", async ({ shared }) => {
  const { channel, ada, lin } = await shared.seed(sharedServer)
  const [inbox, own] = await Promise.all([lin.listen(shared.east), ada.listen(shared.west)])
  const said = async () => {
    const before = performance.now()
    for (let i = 0; i < 3; i++) own.typing(channel.id)
    for (const place of [shared.east, shared.west])
      expect(await ada.on(place).startTyping({ channel_id: channel.id })).toEqual({ success: true })
    await shared.settle()
    return performance.now() - before
  }
  const tookMs = await said()
  const told = inbox.rest().filter(({ name }) => name === "TYPING_START")
  expect(told.length).toBeGreaterThan(0)
  expect(told.length).toBeLessThanOrEqual(1 + tookMs / 1_000)
  // Later it is told again.
  await until("it is told again", async () => {
    await ada.on(shared.east).startTyping({ channel_id: channel.id })
    return inbox.rest().some(({ name }) => name === "TYPING_START")
  })
})

test("that somebody has stopped is told to those who were told that they type, whatever their intents; else to nobody", async ({
  shared,
}) => {
  const { server, channel, ada, lin } = await shared.seed(sharedServer)
  const eve = await shared.person("eve")
  const hidden = await ada.on(shared.east).createChannel({ server_id: server.id, name: "hidden" })
  const deny = { target_id: server.id, type: "role" as const, allow: [], deny: ["channels.view"] }
  await ada.on(shared.east).setOverride({ channel_id: hidden.id, ...deny })
  const [own, deaf, stranger] = await Promise.all([
    ada.listen(shared.west),
    lin.listen(shared.east, { intents: 0 }),
    eve.listen(shared.west),
  ])
  const stop = (client: typeof own, d: unknown) => client.send({ op: 41, d })
  for (const d of [
    null,
    {},
    { channel_id: "x" },
    { channel_id: null },
    { channel_id: "1" },
    { channel_id: channel.id },
  ])
    stop(own, d)
  own.typing(hidden.id)
  stop(own, { channel_id: hidden.id })
  own.typing(channel.id)
  // Another's word about it counts for nothing.
  stop(stranger, { channel_id: channel.id })
  stop(own, { channel_id: channel.id })
  stop(own, { channel_id: channel.id })
  expect(await deaf.next("TYPING_STOP")).toEqual({
    channel_id: channel.id,
    user_id: ada.id,
    server_id: server.id,
    guild_id: server.id,
  })
  await shared.settle()
  for (const inbox of [own, deaf, stranger]) expect(inbox.rest()).toEqual([])
  expect([own.state, stranger.state]).toEqual(["live", "live"])
})

test("what was said too long ago is not taken back", async ({ cluster }) => {
  const [place] = await cluster.boot(1, { topology: { gateway: { typingTimeoutMs: 0 } } })
  const { channel, ada, lin } = await cluster.seed(sharedServer)
  const [inbox, own] = await Promise.all([lin.listen(place!), ada.listen(place!)])
  own.typing(channel.id)
  expect((await inbox.next("TYPING_START")).user_id).toBe(ada.id)
  const toldAt = Date.now()
  await until("a moment has passed", () => Date.now() > toldAt + 1)
  own.send({ op: 41, d: { channel_id: channel.id } })
  own.close()
  await cluster.settle()
  expect(inbox.rest().filter(({ name }) => name === "TYPING_STOP")).toEqual([])
})

test("with their last socket somebody stops typing everywhere, at once", async ({ shared }) => {
  const { server, channel, ada, lin } = await shared.seed(sharedServer)
  const other = await ada.on(shared.east).createChannel({ server_id: server.id, name: "other" })
  const [inbox, first, second] = await Promise.all([
    lin.listen(shared.east),
    ada.listen(shared.east),
    ada.listen(shared.west),
  ])
  first.typing(channel.id)
  first.typing(other.id)
  for (const _ of [1, 2]) await inbox.next("TYPING_START")
  first.close()
  await until("it has been counted out", async () => (await connectionsOf(shared, ada.id)) === 1)
  await shared.settle()
  expect(inbox.rest()).toEqual([])
  second.drop()
  const stopped = [await inbox.next("TYPING_STOP"), await inbox.next("TYPING_STOP")]
  expect(new Set(stopped.map(({ channel_id }) => channel_id))).toEqual(new Set([channel.id, other.id]))
})

test("what was said over REST is taken back with the last socket too, wherever that is", async ({ shared }) => {
  const { channel, ada, lin } = await shared.seed(sharedServer)
  const { east, west } = shared
  const inbox = await lin.listen(east)
  for (const place of [east, west]) {
    const socket = await ada.listen(west)
    await until("it is told", async () => {
      await ada.on(place).startTyping({ channel_id: channel.id })
      return inbox.rest().some(({ name }) => name === "TYPING_START")
    })
    // Behind what was said from there.
    await east.node.bus.request(west.id, "homeSubscriptions", { shards: [] }, 5_000)
    socket.drop()
    expect((await inbox.next("TYPING_STOP")).channel_id).toBe(channel.id)
  }
})

test("a member who sees a channel may type there, muted or not; nobody else may", async ({ shared }) => {
  const { server, channel, ada, lin } = await shared.seed(sharedServer)
  const eve = await shared.person("eve")
  const quiet = await plantServer(shared, { owner: ada, members: [lin], everyone: ["channels.view"] })
  const talk = { name: "talk", type: "voice" as const }
  const voice = await ada.on(shared.east).createChannel({ server_id: server.id, ...talk })
  const still = await ada.on(shared.east).createChannel({ server_id: quiet.server_id, ...talk })
  const hidden = await ada.on(shared.east).createChannel({ server_id: server.id, name: "hidden" })
  const deny = { target_id: server.id, type: "role" as const, allow: [], deny: ["channels.view"] }
  await ada.on(shared.east).setOverride({ channel_id: hidden.id, ...deny })
  const [inbox, stranger, member] = await Promise.all([
    ada.listen(shared.east),
    eve.listen(shared.west),
    lin.listen(shared.west),
  ])
  expect(await refusal(eve.on(shared.west).startTyping({ channel_id: channel.id }))).toBe("access_denied")
  expect(await refusal(lin.on(shared.west).startTyping({ channel_id: hidden.id }))).toBe("access_denied")
  expect(await lin.on(shared.west).startTyping({ channel_id: quiet.channel_id })).toEqual({ success: true })
  expect(await inbox.next("TYPING_START")).toMatchObject({ channel_id: quiet.channel_id, user_id: lin.id })
  expect(await refusal(lin.on(shared.west).startTyping({ channel_id: "1" }))).toBe("channel_not_found")
  expect(await refusal(lin.on(shared.west).startTyping({ channel_id: "x" }))).toBe("invalid_channel_id")
  // Where there are no messages nothing is refused.
  for (const { id } of [voice, still])
    expect(await lin.on(shared.west).startTyping({ channel_id: id })).toEqual({ success: true })
  stranger.typing(channel.id)
  stranger.typing("1")
  member.typing(voice.id)
  member.typing(hidden.id)
  member.typing(channel.id)
  // The last frame of each socket was acted upon after those before it.
  expect((await inbox.next("TYPING_START")).user_id).toBe(lin.id)
  await shared.settle()
  expect(inbox.rest()).toEqual([])
  expect([stranger.state, member.state]).toEqual(["live", "live"])
})
