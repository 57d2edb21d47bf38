/** Several messages deleted together: by whom, which, and what is told of it. */
import { messageDeleteBulk } from "../../src/contract/messages/messages.ts"
import { shardOf } from "../../src/domain/core/snowflake.ts"
import { refusal } from "../kit/conformance.ts"
import { dmBetween, plantedId, sharedServer } from "../kit/seeds.ts"
import { expect, test } from "../kit/test.ts"

test("messages go together, with one event and one entry in the log; what is not there is passed over", async ({
  shared,
}) => {
  const { ada, lin, server, channel } = await shared.seed(sharedServer)
  const channel_id = channel.id
  const [adas, lins] = [ada.on(shared.east), lin.on(shared.west)]
  const posts: string[] = []
  for (let i = 0; i < 4; i++)
    posts.push((await lins.createMessage({ channel_id, content: `${i}`, ...(i % 2 && { nonce: `n${i}` }) })).id)
  const other = await adas.createChannel({ server_id: server.id, name: "other" })
  const elsewhere = await adas.createMessage({ channel_id: other.id, content: "stays" })
  const [inbox, away] = [await lin.listen(shared.east), await ada.listen(shared.west)]
  away.drop()

  const asked = [posts[0]!, posts[1]!, posts[1]!, posts[2]!, plantedId(), elsewhere.id]
  const why = { headers: { "x-audit-log-reason": "Spam" } }
  expect(await adas.bulkDeleteMessages({ channel_id, messages: asked }, why)).toEqual({ success: true, deleted: 3 })
  const told = { ids: posts.slice(0, 3), channel_id, server_id: server.id, guild_id: server.id }
  expect(await inbox.next("MESSAGE_DELETE_BULK")).toEqual(told)
  await away.reconnect(shared.east.url)
  expect(await away.next("MESSAGE_DELETE_BULK")).toEqual(told)
  expect((await lins.listMessages({ channel_id })).map(({ id }) => id)).toEqual([posts[3]])
  expect((await lins.getMessage({ channel_id: other.id, message_id: elsewhere.id })).content).toBe("stays")
  // Nothing is left of them to delete, by whom ever.
  expect(await adas.bulkDeleteMessages({ channel_id, messages: asked })).toEqual({ success: true, deleted: 0 })
  expect(await refusal(lins.deleteMessage({ channel_id, message_id: posts[0]! }))).toBe("message_not_found")
  await shared.settle()
  expect(inbox.rest()).toEqual([])

  const log = await adas.listAuditLog({ server_id: server.id, action: "MESSAGE_BULK_DELETE" })
  expect(log).toMatchObject([
    {
      user_id: ada.id,
      target_type: "channel",
      target_id: channel_id,
      reason: "Spam",
      changes: { messages: { old: posts.slice(0, 3), new: null } },
    },
  ])
})

test("only who manages messages may, of a list of the right length", async ({ shared }) => {
  const { ada, lin, channel } = await shared.seed(sharedServer)
  const channel_id = channel.id
  const [adas, lins] = [ada.on(shared.east), lin.on(shared.west)]
  const { id } = await lins.createMessage({ channel_id, content: "mine" })
  const messages = [id, plantedId()]
  const eve = (await shared.person("eve")).on(shared.west)
  expect(await refusal(eve.bulkDeleteMessages({ channel_id, messages }))).toBe("access_denied")
  expect(await refusal(lins.bulkDeleteMessages({ channel_id, messages }))).toBe("permission_denied")
  expect(await refusal(adas.bulkDeleteMessages({ channel_id: "x", messages }))).toBe("invalid_channel_id")
  expect(await refusal(adas.bulkDeleteMessages({ channel_id: plantedId(), messages }))).toBe("channel_not_found")
  const many = Array.from({ length: 101 }, () => plantedId())
  for (const wrong of [[], [id], many, [id, "x"], [id, -1], [id, null], "all", undefined])
    expect(await refusal(adas.bulkDeleteMessages({ channel_id, messages: wrong } as never))).toBe("validation_failed")
  expect(await lins.listMessages({ channel_id })).toHaveLength(1)
  expect(await adas.bulkDeleteMessages({ channel_id, messages: [...many.slice(0, 99), id] })).toMatchObject({
    deleted: 1,
  })

  // In a DM everybody deletes their own, one by one.
  const dm = await dmBetween(ada, lin, shared.east)
  const { id: own } = await adas.createMessage({ channel_id: dm, content: "mine" })
  expect(await refusal(adas.bulkDeleteMessages({ channel_id: dm, messages: [own, plantedId()] }))).toBe(
    "permission_denied",
  )
})

test("two that delete the same at once delete each message once", async ({ shared }) => {
  const { ada, lin, channel } = await shared.seed(sharedServer)
  const channel_id = channel.id
  const inbox = await lin.listen(shared.west)
  const posts: string[] = []
  for (let i = 0; i < 8; i++) posts.push((await lin.on(shared.east).createMessage({ channel_id, content: `${i}` })).id)
  const [one, two] = await Promise.all([
    ada.on(shared.east).bulkDeleteMessages({ channel_id, messages: posts.slice(0, 5) }),
    ada.on(shared.west).bulkDeleteMessages({ channel_id, messages: posts.slice(3) }),
  ])
  expect(one.deleted + two.deleted).toBe(8)
  await shared.settle()
  const told = inbox
    .rest()
    .flatMap(({ name, data }) => (name === "MESSAGE_DELETE_BULK" ? messageDeleteBulk.data.parse(data).ids : []))
  expect(told.toSorted()).toEqual(posts.toSorted())
})

test("the heaviest messages that there may be go together, too: more than their home keeps in memory", async ({
  shared,
}) => {
  const { ada, server, channel } = await shared.seed(sharedServer)
  const ids = Array.from({ length: 100 }, () => plantedId(shardOf(server.id)))
  await shared.sql`
    INSERT INTO messages (channel_id, id, server_id, author_id, embeds)
    SELECT ${channel.id}, id, ${server.id}, ${ada.id}, json_build_array(json_build_object('x', repeat('x', 65000))) FROM unnest(${ids}::bigint[]) AS id`
  const adas = ada.on(shared.east)
  expect(await adas.bulkDeleteMessages({ channel_id: channel.id, messages: ids })).toEqual({
    success: true,
    deleted: 100,
  })
  expect(await adas.listMessages({ channel_id: channel.id })).toEqual([])
})
