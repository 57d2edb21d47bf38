/** Pins: who may, in which order, how many, and what everybody is told. */
import { limits } from "../../src/contract/messages/pins.ts"
import { refusal } from "../kit/conformance.ts"
import { dmBetween, plantedId, plantServer, sharedServer } from "../kit/seeds.ts"
import { expect, test } from "../kit/test.ts"
import { shardOf } from "../../src/domain/core/snowflake.ts"

test("a message is pinned and unpinned by members who manage messages; every viewer is told all of it", async ({
  shared,
}) => {
  const { ada, lin, server, channel } = await shared.seed(sharedServer)
  const channel_id = channel.id
  const [adas, lins] = [ada.on(shared.east), lin.on(shared.west)]
  const posts = []
  for (const content of ["one", "two", "three"]) posts.push(await lins.createMessage({ channel_id, content }))
  const [one, two, three] = posts.map(({ id }) => ({ channel_id, message_id: id }))
  await adas.addReaction({ ...one!, emoji: "👍" })
  const [inbox, away] = [await lin.listen(shared.east), await lin.listen(shared.west)]
  away.drop()

  for (let i = 0; i < 2; i++) expect(await adas.pinMessage(two!)).toEqual({ success: true })
  await ada.on(shared.west).pinMessage(one!)
  expect(await inbox.next("MESSAGE_UPDATE")).toEqual({ ...posts[1]!, pinned: true, read: false })
  const { reactions, ...told } = await inbox.next("MESSAGE_UPDATE")
  expect(told).toMatchObject({
    id: posts[0]!.id,
    content: "one",
    author_username: lin.username,
    pinned: true,
    edited_at: null,
  })
  expect(reactions).toMatchObject([{ emoji: "👍", count: 1, me: false }])
  await adas.pinMessage(three!)
  await inbox.next("MESSAGE_UPDATE")
  const pins = async () => (await lins.listPins({ channel_id })).map(({ content, pinned }) => [content, pinned])
  expect(await pins()).toEqual([
    ["three", true],
    ["one", true],
    ["two", true],
  ])
  expect((await lins.listPins({ channel_id }))[0]).toEqual({ ...(await lins.getMessage(three!)), pinned: true })

  for (let i = 0; i < 2; i++) expect(await adas.unpinMessage(one!)).toEqual({ success: true })
  expect(await inbox.next("MESSAGE_UPDATE")).toMatchObject({ id: posts[0]!.id, pinned: false })
  // Pinned once more it is the latest.
  await adas.unpinMessage(two!)
  await adas.pinMessage(two!)
  expect(await pins()).toEqual([
    ["two", true],
    ["three", true],
  ])
  await adas.deleteMessage(three!)
  expect(await pins()).toEqual([["two", true]])
  await away.reconnect(shared.east.url)
  expect(await away.next("MESSAGE_UPDATE")).toMatchObject({ id: posts[1]!.id, pinned: true })

  for (const call of [lins.pinMessage, lins.unpinMessage]) {
    expect(await refusal(call(one!))).toBe("permission_denied")
    expect(await refusal(call({ ...one!, message_id: "x" }))).toBe("invalid_message_id")
    expect(await refusal(call({ ...one!, channel_id: "x" }))).toBe("invalid_channel_id")
    expect(await refusal(call({ ...one!, channel_id: plantedId() }))).toBe("channel_not_found")
  }
  const other = await adas.createChannel({ server_id: server.id, name: "other" })
  for (const call of [adas.pinMessage, adas.unpinMessage])
    for (const wrong of [{ ...one!, channel_id: other.id }, { channel_id, message_id: plantedId() }, three!])
      expect(await refusal(call(wrong))).toBe("message_not_found")
  const eve = (await shared.person("eve")).on(shared.west)
  expect(await refusal(eve.listPins({ channel_id }))).toBe("access_denied")
  for (const call of [eve.pinMessage, eve.unpinMessage]) expect(await refusal(call(one!))).toBe("access_denied")
  await adas.setOverride({ channel_id, target_id: lin.id, type: "member", allow: [], deny: ["messages.read"] })
  expect(await refusal(lins.listPins({ channel_id }))).toBe("permission_denied")
  for (const wrong of ["x", plantedId()])
    expect(await refusal(lins.listPins({ channel_id: wrong }))).toBe(
      wrong === "x" ? "invalid_channel_id" : "channel_not_found",
    )

  const log = await adas.listAuditLog({ server_id: server.id })
  expect(
    log.filter(({ target_type }) => target_type === "message").map(({ action, target_id }) => [action, target_id]),
  ).toEqual([
    ["MESSAGE_DELETE", three!.message_id],
    ["MESSAGE_PIN", two!.message_id],
    ["MESSAGE_UNPIN", two!.message_id],
    ["MESSAGE_UNPIN", one!.message_id],
    ["MESSAGE_PIN", three!.message_id],
    ["MESSAGE_PIN", one!.message_id],
    ["MESSAGE_PIN", two!.message_id],
  ])
})

test("a message of somebody who has left and is called something else is told under that name", async ({ shared }) => {
  const { ada, lin, server, channel } = await shared.seed(sharedServer)
  const channel_id = channel.id
  const [adas, lins] = [ada.on(shared.east), lin.on(shared.west)]
  const { id: message_id, poll } = await lins.createMessage({
    channel_id,
    content: "bye",
    poll: { question: "Why?", options: ["This", "That"] },
  })
  await lins.leaveServer({ server_id: server.id })
  const username = shared.newName("renamed")
  await lins.editMe({ username })
  const inbox = await ada.listen(shared.west)
  await adas.pinMessage({ channel_id, message_id })
  await adas.votePoll({ poll_id: poll!.id, option_ids: [poll!.options[0]!.id] })
  for (const total_votes of [0, 1])
    expect(await inbox.next("MESSAGE_UPDATE")).toMatchObject({
      author_username: username,
      poll_results: { total_votes },
    })
})

test("in a DM both may pin, and nobody else may look", async ({ shared }) => {
  const [ada, lin, eve] = await Promise.all(["ada", "lin", "eve"].map(name => shared.person(name)))
  const channel_id = await dmBetween(ada!, lin!, shared.east)
  const { id: message_id } = await ada!.on(shared.east).createMessage({ channel_id, content: "psst" })
  const inbox = await ada!.listen(shared.west)
  await lin!.on(shared.west).pinMessage({ channel_id, message_id })
  expect(await inbox.next("MESSAGE_UPDATE")).toMatchObject({ id: message_id, pinned: true, server_id: null })
  expect(await ada!.on(shared.west).listPins({ channel_id })).toMatchObject([{ id: message_id }])
  expect(await refusal(eve!.on(shared.east).listPins({ channel_id }))).toBe("channel_not_found")
  for (const call of [eve!.on(shared.east).pinMessage, eve!.on(shared.east).unpinMessage])
    expect(await refusal(call({ channel_id, message_id }))).toBe("channel_not_found")
  await ada!.on(shared.west).unpinMessage({ channel_id, message_id })
  expect(await inbox.next("MESSAGE_UPDATE")).toMatchObject({ pinned: false })
})

test("PIN1, PIN2: a channel has at most fifty pins, however many are pinned and deleted at once", async ({
  shared,
}) => {
  const [ada, lin] = await Promise.all([shared.person("ada"), shared.person("lin")])
  const { server_id, channel_id } = await plantServer(shared, { owner: ada, members: [lin] })
  const ids = Array.from({ length: 70 }, () => plantedId(shardOf(server_id)))
  await shared.sql`
    INSERT INTO messages (channel_id, id, server_id, author_id, content, pinned_at)
    SELECT ${channel_id}, id, ${server_id}, ${ada.id}, 'planted', CASE WHEN id <= ${ids[39]!} THEN 1704153600000 + place END
    FROM unnest(${ids}::bigint[]) WITH ORDINALITY AS t (id, place)`
  await shared.sql`
    INSERT INTO pins SELECT channel_id, id, pinned_at FROM messages WHERE channel_id = ${channel_id} AND pinned_at IS NOT NULL`
  const rest = (i: number) => ada.on(i % 2 ? shared.east : shared.west)
  const pin = (message_id: string, i: number) =>
    refusal(rest(i).pinMessage({ channel_id, message_id })).catch(() => "pinned")
  const pins = async () => (await lin.on(shared.east).listPins({ channel_id })).map(({ id }) => id)
  // Pins that go with their messages, while the home does not know yet how many there are.
  const deleted = ids.slice(0, 5)
  await Promise.all([
    rest(0).deleteMessage({ channel_id, message_id: deleted[0]! }),
    rest(1).bulkDeleteMessages({ channel_id, messages: deleted.slice(1) }),
  ])
  const outcomes = await Promise.all(ids.slice(40).map(pin))
  expect(outcomes.filter(outcome => outcome === "pinned")).toHaveLength(15)
  expect(new Set(outcomes)).toEqual(new Set(["pinned", "pin_limit"]))
  const full = await pins()
  expect(full).toHaveLength(limits.pinsPerChannel)
  expect(full.slice(15)).toEqual(ids.slice(5, 40).toReversed())

  const left = ids.slice(40).filter(id => !full.includes(id))
  await Promise.all([
    rest(0).unpinMessage({ channel_id, message_id: full[49]! }),
    rest(1).deleteMessage({ channel_id, message_id: full[48]! }),
  ])
  const more = await Promise.all(left.map(pin))
  expect(more.filter(outcome => outcome === "pinned")).toHaveLength(2)
  expect(await pins()).toHaveLength(limits.pinsPerChannel)
  // Who is pinned already may be pinned again.
  expect(await rest(0).pinMessage({ channel_id, message_id: full[3]! })).toEqual({ success: true })
})
