import { allIntents, bitOf } from "../src/contract/intents.ts"
import { refusal } from "./kit/conformance.ts"
import { plantServer, sharedServer } from "./kit/seeds.ts"
import { expect, test } from "./kit/test.ts"

test("typing is told to the others in the channel, whichever way it comes, and not to the one who types", async ({
  shared,
}) => {
  const { server, channel, ada, lin } = await shared.seed(sharedServer)
  const channel_id = channel.id
  const [east, west, own, deaf] = await Promise.all([
    lin.listen(shared.east),
    lin.listen(shared.west, { encoding: "msgpack" }),
    ada.listen(shared.west),
    lin.listen(shared.west, { intents: allIntents & ~bitOf("GUILD_MESSAGE_TYPING") }),
  ])
  const told = { channel_id, user_id: ada.id, username: ada.username, server_id: server.id, guild_id: server.id }
  expect(await ada.on(shared.east).startTyping({ channel_id })).toEqual({ success: true })
  for (const inbox of [east, west]) expect(await inbox.next("TYPING_START")).toEqual(told)
  own.typing(channel_id)
  for (const inbox of [east, west]) expect(await inbox.next("TYPING_START")).toEqual(told)
  await shared.settle()
  for (const inbox of [east, west, own, deaf]) expect(inbox.rest()).toEqual([])
})

test("whoever may not send there does not type there", async ({ shared }) => {
  const { server, channel, ada, lin } = await shared.seed(sharedServer)
  const eve = await shared.person("eve")
  const quiet = await plantServer(shared, { owner: ada, members: [lin], everyone: ["channels.view"] })
  const voice = await ada.on(shared.east).createChannel({ server_id: server.id, name: "talk", type: "voice" })
  const [inbox, stranger, member] = await Promise.all([
    ada.listen(shared.east),
    eve.listen(shared.west),
    lin.listen(shared.west),
  ])
  expect(await refusal(eve.on(shared.west).startTyping({ channel_id: channel.id }))).toBe("access_denied")
  expect(await refusal(lin.on(shared.west).startTyping({ channel_id: quiet.channel_id }))).toBe("permission_denied")
  expect(await refusal(lin.on(shared.west).startTyping({ channel_id: "1" }))).toBe("channel_not_found")
  expect(await refusal(lin.on(shared.west).startTyping({ channel_id: "x" }))).toBe("invalid_channel_id")
  expect(await lin.on(shared.west).startTyping({ channel_id: voice.id })).toEqual({ success: true })
  stranger.typing(channel.id)
  stranger.typing("1")
  member.typing(quiet.channel_id)
  member.typing(channel.id)
  // The last frame of each socket was acted upon after those before it.
  expect((await inbox.next("TYPING_START")).user_id).toBe(lin.id)
  await shared.settle()
  expect(inbox.rest()).toEqual([])
  expect([stranger.state, member.state]).toEqual(["live", "live"])
})
