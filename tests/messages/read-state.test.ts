/** How far people have read: what is unread, who is told, and what authors see of it. */
import fc from "fast-check"
import type { EventData } from "../../client/gateway.ts"
import { maskOf } from "../../src/domain/core/permission-masks.ts"
import { compareIds, shardOf } from "../../src/domain/core/snowflake.ts"
import { countReaders, loadedReaders, readersOf } from "../../src/domain/messages/read-state.ts"
import { holderRule, isHeldByAll } from "../../src/domain/core/holder-rule.ts"
import { holdsIn } from "../../src/domain/core/permissions.ts"
import { guildMembersStorage } from "../../src/storage/communities/guild-members.ts"
import { readStateStorage } from "../../src/storage/messages/read-state.ts"
import { routes } from "../../src/contract/contract.ts"
import { limits } from "../../src/contract/core/limits.ts"
import { refusal } from "../kit/conformance.ts"
import { send } from "../kit/exchange.ts"
import type { Listener, Person } from "../kit/person.ts"
import { dmBetween, plantedId, plantServer, sharedServer } from "../kit/seeds.ts"
import { expect, test, type SharedCluster } from "../kit/test.ts"
import { until } from "../kit/until.ts"

/** Ada's server with Lin in it. */
async function seededChannel(shared: SharedCluster) {
  const { ada, lin, server, channel } = await shared.seed(sharedServer)
  return {
    ada,
    lin,
    server_id: server.id,
    channel_id: channel.id,
    adas: ada.on(shared.east),
    lins: lin.on(shared.west),
  }
}

const say = async (person: Person, shared: SharedCluster, channel_id: string, count = 1) => {
  const ids: string[] = []
  for (let i = 0; i < count; i++)
    ids.push((await person.on(shared.east).createMessage({ channel_id, content: `say ${i}` })).id)
  return ids
}

const acksIn = (inbox: Listener, channel_id: string): EventData<"MESSAGE_ACK">[] =>
  inbox
    .rest()
    .flatMap(({ name, data }) => (name === "MESSAGE_ACK" ? [data] : []))
    .filter(ack => ack.channel_id === channel_id)

test("READ1: unread is what others wrote after one's position and after one came; a position never goes back", async ({
  shared,
}) => {
  const { ada, lin, channel_id, adas, lins } = await seededChannel(shared)
  const eve = await shared.person("eve")
  const [first, second, third] = await say(ada, shared, channel_id, 3)
  await say(lin, shared, channel_id, 2)
  const unread = async (rest: typeof lins) => (await rest.getUnread({ channel_id })).unread_count
  const { last_read_id, ...counts } = await lins.getUnread({ channel_id })
  expect(counts).toEqual({ channel_id, unread_count: 3, mention_count: 0 })
  expect(BigInt(last_read_id!)).toBeLessThan(BigInt(first!))
  expect(await unread(adas)).toBe(2)
  expect(await lins.ackMessages({ channel_id, message_id: second! })).toEqual({ success: true, messages_marked: 2 })
  expect(await lins.getUnread({ channel_id })).toMatchObject({ unread_count: 1, last_read_id: second })
  expect(await lins.ackMessages({ channel_id, message_id: first! })).toEqual({ success: true, messages_marked: 0 })
  expect(await unread(lin.on(shared.east))).toBe(1)
  await adas.deleteMessage({ channel_id, message_id: third! })
  expect(await unread(lins)).toBe(0)
  await say(ada, shared, channel_id)
  expect(await lin.on(shared.east).listUnread()).toEqual({
    unread_counts: { [channel_id]: 1 },
    mention_counts: {},
  })
  expect(await lins.ackMessages({ channel_id })).toEqual({ success: true, messages_marked: 1 })
  expect(await lins.ackMessages({ channel_id })).toEqual({ success: true, messages_marked: 0 })
  expect(await lins.listUnread()).toEqual({ unread_counts: {}, mention_counts: {} })

  // Who comes now finds nothing unread, and what comes in the same second is.
  const invite = await adas.createInvite({ channel_id })
  await eve.on(shared.west).joinByInvite({ invite_code: invite.code })
  expect(await unread(eve.on(shared.east))).toBe(0)
  const [latest] = await say(ada, shared, channel_id)
  expect(await unread(eve.on(shared.east))).toBe(1)
  expect(await eve.on(shared.west).ackMessages({ channel_id, message_id: latest! })).toMatchObject({
    messages_marked: 1,
  })
})

test("the position may stand in the body; the query wins", async ({ shared }) => {
  const { ada, lin, channel_id, lins } = await seededChannel(shared)
  const [first, second, third] = await say(ada, shared, channel_id, 3)
  const ack = async (query: string, body?: object) => {
    const path = `/api/v1/channels/${channel_id}/messages/ack${query}`
    const answer = await send(shared.west, path, { route: routes.ackMessages, token: lin.token, ...(body && { body }) })
    return answer.code ?? (answer.body as { messages_marked: number }).messages_marked
  }
  expect(await ack("", { message_id: first })).toBe(1)
  expect(await ack(`?message_id=${second}`, { message_id: third })).toBe(1)
  expect(await ack("", { message_id: "x" })).toBe("invalid_message_id")
  expect(await ack("", { message_id: 5 })).toBe("validation_failed")
  expect((await lins.getUnread({ channel_id })).unread_count).toBe(1)
  expect(await ack("", { message_id: null })).toBe(1)
  expect(await ack("")).toBe(0)
})

test("a member who comes back begins anew; what they have read before stays read", async ({ shared }) => {
  const { ada, lin, server_id, channel_id, adas, lins } = await seededChannel(shared)
  const [before] = await say(ada, shared, channel_id)
  await lins.ackMessages({ channel_id })
  await lins.leaveServer({ server_id })
  expect(await refusal(lins.ackMessages({ channel_id }))).toBe("access_denied")
  await say(ada, shared, channel_id, 2)
  const { code } = await adas.createInvite({ channel_id })
  await lins.joinByInvite({ invite_code: code })
  expect((await lins.getUnread({ channel_id })).unread_count).toBe(0)
  expect(await lins.listUnread()).toMatchObject({ unread_counts: {} })
  const [after] = await say(ada, shared, channel_id)
  expect(await lins.ackMessages({ channel_id })).toMatchObject({ messages_marked: 1 })
  for (const message_id of [before!, after!])
    expect(await adas.getMessage({ channel_id, message_id })).toMatchObject({ read_count: 1, read_by: [lin.username] })
})

test("READ2: acknowledgements that come together mark each message once", async ({ shared }) => {
  const { ada, lin, channel_id } = await seededChannel(shared)
  const ids = await say(ada, shared, channel_id, 6)
  const marked = await Promise.all(
    [...ids, undefined, undefined].map((message_id, i) =>
      lin
        .on(i % 2 === 0 ? shared.east : shared.west)
        .ackMessages({ channel_id, ...(message_id !== undefined && { message_id }) }),
    ),
  )
  expect(marked.reduce((sum, { messages_marked }) => sum + messages_marked, 0)).toBe(6)
})

test("own sessions are told, others of a small server as well, everywhere and on replay; strangers are not", async ({
  shared,
}) => {
  const { ada, lin, channel_id, lins } = await seededChannel(shared)
  const eve = await shared.person("eve")
  const [own, away, others, strange] = await Promise.all([
    lin.listen(shared.east, { intents: 0 }),
    lin.listen(shared.west),
    ada.listen(shared.west, { encoding: "msgpack" }),
    eve.listen(shared.east),
  ])
  const [message_id] = await say(ada, shared, channel_id)
  away.drop()
  await lins.ackMessages({ channel_id, message_id: message_id! })
  const ack = { channel_id, user_id: lin.id, message_id: message_id! }
  expect(await own.next("MESSAGE_ACK")).toEqual(ack)
  expect(await others.next("MESSAGE_ACK")).toEqual(ack)
  await away.reconnect(shared.east.url)
  expect(await away.next("MESSAGE_ACK")).toEqual(ack)
  // Nothing is marked.
  await lins.ackMessages({ channel_id })
  await shared.settle()
  for (const inbox of [own, away, others, strange]) expect(acksIn(inbox, channel_id)).toEqual([])
})

test("in a blocked DM neither sees what the other reads from then on", async ({ shared }) => {
  const [ada, lin] = [await shared.person("ada"), await shared.person("lin")]
  const channel_id = await dmBetween(ada, lin, shared.east)
  const inbox = await ada.listen(shared.west)
  const [seen, hidden] = await say(ada, shared, channel_id, 2)
  const [answer] = await say(lin, shared, channel_id)
  await lin.on(shared.west).ackMessages({ channel_id, message_id: seen! })
  expect(await inbox.next("MESSAGE_ACK")).toMatchObject({ message_id: seen })
  await lin.on(shared.east).blockUser({ user_id: ada.id })
  expect(await lin.on(shared.west).ackMessages({ channel_id })).toMatchObject({ messages_marked: 1 })
  expect(await ada.on(shared.west).ackMessages({ channel_id })).toMatchObject({ messages_marked: 1 })
  const read = { read_count: 1, status: "read", read_by: [lin.username] }
  const unread = { read_count: 0, read_by: [] }
  const look = async (person: Person, message_id: string) =>
    person.on(shared.east).getMessage({ channel_id, message_id })
  expect(await look(ada, seen!)).toMatchObject(read)
  expect(await look(ada, hidden!)).toMatchObject(unread)
  expect(await look(lin, answer!)).toMatchObject(unread)
  // What was read while it was shut stays unseen, what comes later does not.
  await lin.on(shared.east).deleteRelationship({ user_id: ada.id })
  const [later] = await say(ada, shared, channel_id)
  await lin.on(shared.west).ackMessages({ channel_id })
  expect(await inbox.next("MESSAGE_ACK")).toMatchObject({ user_id: ada.id })
  expect(await inbox.next("MESSAGE_ACK")).toMatchObject({ user_id: lin.id, message_id: later })
  expect(await look(ada, hidden!)).toMatchObject(unread)
  expect(await look(ada, later!)).toMatchObject(read)
})

test("a user who hides what they read before the others are told is not told of", async ({ shared }) => {
  const { ada, lin, channel_id, adas, lins } = await seededChannel(shared)
  const eve = await shared.person("eve")
  await eve.on(shared.east).joinByInvite({ invite_code: (await adas.createInvite({ channel_id })).code })
  const others = await ada.listen(shared.east)
  const wait = async (reader: Person) => {
    const [first, second] = (await say(ada, shared, channel_id, 2)) as [string, string]
    for (const message_id of [first, second]) await reader.on(shared.west).ackMessages({ channel_id, message_id })
    return second
  }
  // Until all of it was within the second.
  let waiting = ""
  await until("one of theirs is waiting", async () => {
    await lins.editMessagingSettings({ read_receipts_enabled: true })
    const began = Date.now()
    waiting = await wait(lin)
    await lins.editMessagingSettings({ read_receipts_enabled: false })
    return Date.now() - began < 1_000
  })
  // What Ada has read is told after what Lin has read would have been.
  const later = await wait(eve)
  const acks = [await others.next("MESSAGE_ACK")]
  while (acks.at(-1)!.message_id !== later) acks.push(await others.next("MESSAGE_ACK"))
  const told = acks.filter(({ user_id }) => user_id === lin.id).map(({ message_id }) => message_id)
  expect(told).not.toEqual([])
  expect(told).not.toContain(waiting)
})

test("others are told once in a second, and in the end of the last", async ({ shared }) => {
  const { ada, lin, channel_id, lins } = await seededChannel(shared)
  const [own, others] = await Promise.all([lin.listen(shared.east), ada.listen(shared.east)])
  const ids = await say(ada, shared, channel_id, 4)
  for (const message_id of ids) await lins.ackMessages({ channel_id, message_id })
  await shared.settle()
  const ack = (message_id: string) => ({ channel_id, user_id: lin.id, message_id })
  expect(acksIn(own, channel_id)).toEqual(ids.map(ack))
  expect(acksIn(others, channel_id)).toEqual([ack(ids[0]!)])
  expect(await others.next("MESSAGE_ACK")).toEqual(ack(ids[3]!))
  await shared.settle()
  expect(acksIn(others, channel_id)).toEqual([])
})

test("READ3: nobody else is told of a user who hides it, where a channel hides it, in large servers, and of many at once", async ({
  shared,
}) => {
  const { ada, lin, channel_id, adas, lins } = await seededChannel(shared)
  const [own, others] = await Promise.all([lin.listen(shared.east), ada.listen(shared.east)])
  const acked = async (act: (message_id: string) => Promise<unknown>) => {
    const [message_id] = await say(ada, shared, channel_id)
    await act(message_id!)
    expect(await own.next("MESSAGE_ACK")).toEqual({ channel_id, user_id: lin.id, message_id })
    await shared.settle()
    expect(acksIn(others, channel_id)).toEqual([])
    return adas.getMessage({ channel_id, message_id: message_id! })
  }
  const ack = (message_id: string) => lins.ackMessages({ channel_id, message_id })
  await lins.editMessagingSettings({ read_receipts_enabled: false })
  expect(await acked(ack)).toMatchObject({ read_count: 0, read_by: [] })
  await lins.editMessagingSettings({ read_receipts_enabled: true })
  await adas.editChannel({ channel_id, read_receipts_enabled: false })
  expect(await acked(ack)).toMatchObject({ read_count: 0, read_by: [] })
  await adas.editChannel({ channel_id, read_receipts_enabled: true })
  expect(await acked(message_id => lins.ackChannels({ [channel_id]: message_id }))).toMatchObject({
    read_count: 1,
    status: "read",
  })
  await adas.editChannel({ channel_id, read_receipts_enabled: false })
  const [newest] = await adas.listMessages({ channel_id, limit: "1" })
  expect(newest).toMatchObject({ read_count: 0, delivery_count: 0, status: "sent", read_by: [] })
  await adas.editChannel({ channel_id, read_receipts_enabled: true })

  const large = await plantServer(shared, { owner: ada, members: [lin], memberCount: 101 })
  const [fromAfar] = await say(ada, shared, large.channel_id)
  await lins.ackMessages({ channel_id: large.channel_id })
  expect(await own.next("MESSAGE_ACK")).toMatchObject({ channel_id: large.channel_id, message_id: fromAfar })
  await shared.settle()
  expect(acksIn(others, large.channel_id)).toEqual([])
})

test("in a large server the viewers of a channel are told who reads it while they are a hundred at most", async ({
  shared,
}) => {
  const { ada, lin } = await seededChannel(shared)
  const { server_id, channel_id } = await plantServer(shared, { owner: ada, members: [lin], memberCount: 5_000 })
  const owner = ada.on(shared.east)
  await owner.setOverride({ channel_id, target_id: server_id, type: "role", allow: [], deny: ["channels.view"] })
  await owner.setOverride({ channel_id, target_id: lin.id, type: "member", allow: ["channels.view"], deny: [] })
  const others = await ada.listen(shared.west)
  const [message_id] = await say(ada, shared, channel_id)
  await lin.on(shared.west).ackMessages({ channel_id, message_id: message_id! })
  expect(await others.next("MESSAGE_ACK")).toEqual({ channel_id, user_id: lin.id, message_id })
})

test("members are counted as they are looked at, whatever overrides say", async ({ shared }) => {
  const { ada, lin } = await seededChannel(shared)
  const people = await Promise.all(["a", "b", "c", "d"].map(name => shared.person(name)))
  const { server_id } = await plantServer(shared, { owner: ada, members: [lin, ...people], everyone: [] })
  const roleIds = ["1", "2", "3"]
  const members = [ada, lin, ...people].map(({ id }, i) => ({
    user_id: id,
    roles: roleIds.filter((_, bit) => (i >> bit) & 1),
  }))
  for (const { user_id, roles } of members)
    await shared.sql`
      UPDATE members SET roles = ${roles}::bigint[] WHERE server_id = ${server_id} AND user_id = ${user_id}`
  const storage = guildMembersStorage(shared.sql)
  const permission = "channels.view" as const
  const granted = fc.constantFrom([], [permission], ["administrator" as const])
  const rules = fc.record({
    roles: fc.tuple(fc.constantFrom([], [permission]), granted, granted, granted),
    overrides: fc.uniqueArray(
      fc.record({
        target: fc.constantFrom(server_id, ...roleIds, "4", ...members.map(({ user_id }) => user_id)),
        isAllowed: fc.boolean(),
      }),
      { selector: ({ target }) => target },
    ),
  })
  for (const plan of fc.sample(rules, { seed: 14, numRuns: 200 })) {
    const roles = new Map([server_id, ...roleIds].map((id, i) => [id, { permissions: new Set(plan.roles[i]) }]))
    const server = { id: server_id, owner_id: ada.id, roles }
    const overrides = plan.overrides.map(({ target, isAllowed }) => ({
      target_id: target,
      type: members.some(({ user_id }) => user_id === target) ? ("member" as const) : ("role" as const),
      allow: isAllowed ? maskOf([permission]) : 0,
      deny: isAllowed ? 0 : maskOf([permission]),
    }))
    const wanted = members.filter(member => holdsIn(server, overrides, member, permission)).length
    const rule = holderRule(server, overrides, permission)
    expect(await storage.countHolders(server_id, rule, 100)).toBe(wanted)
    expect(await storage.countHolders(server_id, rule, 2)).toBe(Math.min(wanted, 2))
    if (isHeldByAll(server, overrides, permission)) expect(wanted).toBe(members.length)
  }
})

test("a page says how many have read each message, the author never among them; names are the author's to see", async ({
  shared,
}) => {
  const { ada, lin, channel_id, adas, lins } = await seededChannel(shared)
  const eve = await shared.person("eve")
  const { code } = await adas.createInvite({ channel_id })
  const [early] = await say(ada, shared, channel_id)
  await eve.on(shared.west).joinByInvite({ invite_code: code })
  const [first, second] = await say(ada, shared, channel_id, 2)
  const [of] = await say(lin, shared, channel_id)
  const seen = async (person: Person, place = shared.east) =>
    (await person.on(place).listMessages({ channel_id })).map(({ read_count, read, read_by, status }) => ({
      read_count,
      read,
      read_by: read_by.toSorted(),
      status,
    }))
  const [unread, own] = [
    { read_count: 0, read: false, read_by: [], status: "sent" },
    { read_count: 0, read: true, read_by: [], status: "sent" },
  ]
  expect(await seen(ada)).toEqual([unread, own, own, own])
  // Both at once, while the page is looked at for the first time elsewhere.
  await Promise.all([
    lins.ackMessages({ channel_id, message_id: first! }),
    eve.on(shared.east).ackMessages({ channel_id }),
    adas.ackMessages({ channel_id }),
    seen(lin, shared.west),
  ])
  const names = [eve.username, lin.username].toSorted()
  for (const place of [shared.east, shared.west]) {
    expect(await seen(ada, place)).toEqual([
      { read_count: 2, read: true, read_by: [], status: "read" },
      { read_count: 1, read: true, read_by: [eve.username], status: "read" },
      { read_count: 2, read: true, read_by: names, status: "read" },
      // Eve was not there yet.
      { read_count: 1, read: true, read_by: [lin.username], status: "read" },
    ])
    expect(await seen(lin, place)).toEqual([
      { read_count: 2, read: true, read_by: [ada.username, eve.username].toSorted(), status: "read" },
      { read_count: 1, read: false, read_by: [], status: "read" },
      { read_count: 2, read: true, read_by: [], status: "read" },
      { read_count: 1, read: true, read_by: [], status: "read" },
    ])
  }
  expect(await lins.getMessage({ channel_id, message_id: second! })).toMatchObject({ read_count: 1, read: false })
  expect(await adas.getMessage({ channel_id, message_id: early! })).toMatchObject({ read_count: 1 })
  expect(await lins.editMessage({ channel_id, message_id: of!, content: "again" })).toMatchObject({
    read_count: 2,
    status: "read",
  })
})

test("every answer that shows a message says who has read it, and no event does", async ({ shared }) => {
  const { ada, lin, channel_id, adas, lins } = await seededChannel(shared)
  const [message_id] = await say(ada, shared, channel_id)
  const of = { channel_id, message_id: message_id! }
  await lins.ackMessages({ channel_id })
  const inbox = await lin.listen(shared.west)
  await adas.pinMessage(of)
  const isIndexed = async () => (await adas.searchChannel({ channel_id, content: "say" })).length > 0
  await until("the message is found", isIndexed)
  const answers = async (rest: typeof adas) => [
    await rest.getMessage(of),
    ...(await rest.listMessages({ channel_id, around: message_id! })),
    ...(await rest.listPins({ channel_id })),
    ...(await rest.searchChannel({ channel_id, content: "say" })),
  ]
  for (const [rest, names] of [
    [adas, [lin.username]],
    [lins, []],
  ] as const) {
    const shown = await answers(rest)
    expect(shown).toHaveLength(4)
    for (const message of shown)
      expect(message).toMatchObject({ status: "read", delivery_count: 1, read_count: 1, read: true, read_by: names })
  }
  expect(await adas.editMessage({ ...of, content: "anew" })).toMatchObject({ read_count: 1, read_by: [lin.username] })
  for (let i = 0; i < 2; i++)
    expect(await inbox.next("MESSAGE_UPDATE")).toMatchObject({
      status: "sent",
      delivery_count: 0,
      read_count: 0,
      read_by: [],
    })
})

test("what was read before a home woke counts, and what is read while it wakes", async ({ shared }) => {
  const [ada, lin] = [await shared.person("ada"), await shared.person("lin")]
  const { server_id, channel_id } = await plantServer(shared, { owner: ada, members: [lin] })
  const message_id = plantedId(shardOf(server_id))
  await shared.sql`
    INSERT INTO messages (channel_id, id, server_id, author_id, content) VALUES (${channel_id}, ${message_id}, ${server_id}, ${ada.id}, 'x')`
  const strangers = Array.from({ length: 1_150 }, () => plantedId())
  await shared.sql`
    INSERT INTO users (id, username, email, created_at) SELECT id, 's' || id, 's' || id, 1 FROM unnest(${strangers}::bigint[]) AS id`
  await shared.sql`
    INSERT INTO read_states (channel_id, user_id, since_id, message_id, visible_id)
    SELECT ${channel_id}, id, 0, ${message_id}, ${message_id} FROM unnest(${strangers}::bigint[]) AS id`
  await Promise.all([
    lin.on(shared.east).ackMessages({ channel_id }),
    ...[shared.east, shared.west].map(place => ada.on(place).listMessages({ channel_id })),
  ])
  const found = await ada.on(shared.west).getMessage({ channel_id, message_id })
  expect(found.read_count).toBe(1_151)
  expect(new Set(found.read_by).size).toBe(limits.readersNamed)
})

test("what was read without showing it stays unseen, also for those who come back and for a home that was unloaded", async ({
  shared,
}) => {
  const { ada, lin, server_id, channel_id, adas, lins } = await seededChannel(shared)
  const direct = await dmBetween(ada, lin, shared.east)
  const readers = async (channel: string) =>
    (await adas.listMessages({ channel_id: channel })).map(({ read_count, read_by }) => [read_count, read_by.length])
  const [seen, unseen] = [
    [1, 1],
    [0, 0],
  ]
  for (const channel of [channel_id, direct]) {
    await lins.editMessagingSettings({ read_receipts_enabled: true })
    if (channel === channel_id) {
      await say(ada, shared, channel)
      await lins.ackMessages({ channel_id: channel })
    }
    await lins.editMessagingSettings({ read_receipts_enabled: false })
    await say(ada, shared, channel, 2)
    await lins.ackMessages({ channel_id: channel })
    await lins.editMessagingSettings({ read_receipts_enabled: true })
    await say(ada, shared, channel)
    expect(await lins.ackMessages({ channel_id: channel })).toMatchObject({ messages_marked: 1 })
    const expected = channel === channel_id ? [seen, unseen, unseen, seen] : [seen, unseen, unseen]
    expect(await readers(channel)).toEqual(expected)
  }
  await lins.leaveServer({ server_id })
  await say(ada, shared, channel_id, 2)
  const { code } = await adas.createInvite({ channel_id })
  await lins.joinByInvite({ invite_code: code })
  await say(ada, shared, channel_id)
  await lins.ackMessages({ channel_id })
  expect(await readers(channel_id)).toEqual([seen, unseen, unseen, seen, unseen, unseen, seen])
  const stored = readersOf(loadedReaders(await readStateStorage(shared.sql).readers(channel_id)).byUser)
  const all = await adas.listMessages({ channel_id })
  expect(all.map(({ id }) => countReaders(stored, id, ada.id))).toEqual(all.map(message => message.read_count))
})

test("a position that no other can see is read back as it was", async ({ shared }) => {
  const { sql } = shared
  const [channel_id, user] = [plantedId(), plantedId()]
  const message_id = plantedId()
  await sql`
    INSERT INTO read_states (channel_id, user_id, since_id, message_id, visible_id, gaps)
    VALUES (${channel_id}, ${user}, 0, ${message_id}, 0, ${["0", message_id]}::bigint[])`
  expect((await readStateStorage(sql).states(channel_id, [user])).get(user)).toEqual({
    since_id: "0",
    message_id,
    visible_id: "0",
    gaps: ["0", message_id],
  })
})

test("a deleted message cannot be read up to, even where its nonce is kept", async ({ shared }) => {
  const { ada, channel_id, adas, lins } = await seededChannel(shared)
  await say(ada, shared, channel_id)
  const { id } = await adas.createMessage({ channel_id, content: "gone", nonce: "n" })
  await adas.deleteMessage({ channel_id, message_id: id })
  expect(await refusal(lins.ackMessages({ channel_id, message_id: id }))).toBe("message_not_found")
  expect(await lins.ackMessages({ channel_id })).toMatchObject({ messages_marked: 1 })
})

test("messages from before they were counted are counted once somebody reads", async ({ shared }) => {
  const [ada, lin] = [await shared.person("ada"), await shared.person("lin")]
  const { server_id, channel_id } = await plantServer(shared, { owner: ada, members: [lin] })
  await shared.sql`
    INSERT INTO messages (channel_id, id, server_id, author_id, content)
    SELECT ${channel_id}, ${plantedId(shardOf(server_id))}::bigint + (i << 22), ${server_id}, ${ada.id}, 'x' FROM generate_series(1, 10000::bigint) AS i`
  const counted = async () => {
    const [row] =
      await shared.sql`SELECT count(*)::int FROM message_tallies WHERE channel_id = ${channel_id} AND author_id = 0`
    return row!["count"] as number
  }
  expect(await counted()).toBe(0)
  const [one, two] = await Promise.all([1, 2].map(() => lin.on(shared.east).listUnread()))
  expect(two).toEqual(one)
  await until("stretches are counted", async () => (await counted()) >= 16)
  expect(await lin.on(shared.east).listUnread()).toEqual(one)
})

test("DMs are read by the two of them; in notes nothing is unread", async ({ shared }) => {
  const [ada, lin, eve] = [await shared.person("ada"), await shared.person("lin"), await shared.person("eve")]
  const channel_id = await dmBetween(ada, lin, shared.east)
  const others = await ada.listen(shared.west)
  const [message_id] = await say(ada, shared, channel_id)
  expect(await lin.on(shared.east).listUnread()).toEqual({ unread_counts: { [channel_id]: 1 }, mention_counts: {} })
  expect(await lin.on(shared.west).ackMessages({ channel_id })).toMatchObject({ messages_marked: 1 })
  expect(await others.next("MESSAGE_ACK")).toEqual({ channel_id, user_id: lin.id, message_id })
  const [shown] = await ada.on(shared.east).listMessages({ channel_id })
  expect(shown).toMatchObject({ read_count: 1, read_by: [lin.username], status: "read" })
  const stranger = eve.on(shared.east)
  expect(await refusal(stranger.ackMessages({ channel_id }))).toBe("channel_not_found")
  expect(await refusal(stranger.getUnread({ channel_id }))).toBe("channel_not_found")
  expect(await stranger.ackChannels({ [channel_id]: message_id })).toEqual({ success: true })
  const notes = await ada.on(shared.east).getNotes()
  await say(ada, shared, notes.id)
  expect(await ada.on(shared.west).listUnread()).toEqual({ unread_counts: {}, mention_counts: {} })
  expect(await ada.on(shared.west).ackMessages({ channel_id: notes.id })).toMatchObject({ messages_marked: 0 })
})

test("mentions are counted as long as they are unread, and reading them reads their notifications", async ({
  shared,
}) => {
  const { ada, lin, channel_id, lins } = await seededChannel(shared)
  const inbox = await lin.listen(shared.east)
  const ids = await say(ada, shared, channel_id, 3)
  const notifications = ids.map(() => plantedId())
  for (const [i, id] of notifications.entries())
    await shared.sql`
      INSERT INTO notifications (id, user_id, type, title, content, created_at, channel_id, message_id)
      VALUES (${id}, ${lin.id}, 'mention', 'You', 'x', 1, ${channel_id}, ${ids[i]!})`
  expect((await lins.getUnread({ channel_id })).mention_count).toBe(3)
  await ada.on(shared.east).deleteMessage({ channel_id, message_id: ids[2]! })
  expect(await lins.listUnread()).toEqual({
    unread_counts: { [channel_id]: 2 },
    mention_counts: { [channel_id]: 2 },
  })
  await lins.ackMessages({ channel_id, message_id: ids[0]! })
  expect(await inbox.next("NOTIFICATION_UPDATE")).toEqual({ id: notifications[0], read: true })
  expect((await lins.getUnread({ channel_id })).mention_count).toBe(1)
  const listed = await lins.listNotifications({})
  expect(listed.notifications.filter(({ read }) => read).map(({ id }) => id)).toEqual([notifications[0]])
})

test("a session is told once of many mentions that are read at once, of few one by one", async ({ shared }) => {
  const { ada, lin, channel_id } = await seededChannel(shared)
  const inbox = await lin.listen(shared.east)
  const updates = () => inbox.rest().flatMap(({ name, data }) => (name === "NOTIFICATION_UPDATE" ? [data] : []))
  const mention = async (count: number) => {
    const [message] = await say(ada, shared, channel_id)
    const ids = Array.from({ length: count }, () => plantedId())
    // As of the messages before it.
    await shared.sql`
      INSERT INTO notifications (id, user_id, type, title, content, created_at, channel_id, message_id)
      SELECT t.id, ${lin.id}, 'mention', 't', 'c', 1704153600, ${channel_id}, ${message!}::bigint - n FROM unnest(${ids}::bigint[]) WITH ORDINALITY AS t (id, n)`
    return ids.toSorted(compareIds)
  }
  const few = await mention(25)
  await lin.on(shared.west).ackMessages({ channel_id })
  const unread = () => shared.sql`SELECT FROM notifications WHERE user_id = ${lin.id} AND NOT read`
  await until("few are read", async () => (await unread()).length === 0)
  const many = await mention(26)
  await lin.on(shared.west).ackMessages({ channel_id })
  await until("all are read", async () => (await unread()).length === 0)
  await shared.settle()
  expect(updates()).toEqual([...few.map(id => ({ id, read: true })), { ids: many, read: true }])
})

test("only what one may read: hidden channels, voice channels, other servers, unknown ids", async ({ shared }) => {
  const { ada, lin, server_id, channel_id, adas, lins } = await seededChannel(shared)
  const eve = (await shared.person("eve")).on(shared.east)
  const hidden = await adas.createChannel({ server_id, name: "hidden" })
  const mute = await adas.createChannel({ server_id, name: "mute" })
  const voice = await adas.createChannel({ server_id, name: "talk", type: "voice" })
  const [elsewhere] = await say(ada, shared, hidden.id)
  const [here] = await say(ada, shared, channel_id)
  await say(ada, shared, mute.id)
  const deny = (target: string, permission: "channels.view" | "messages.read") =>
    adas.setOverride({ channel_id: target, target_id: server_id, type: "role", allow: [], deny: [permission] })
  await deny(hidden.id, "channels.view")
  await deny(mute.id, "messages.read")
  expect(await lins.listUnread()).toEqual({ unread_counts: { [channel_id]: 1 }, mention_counts: {} })
  for (const rest of [lins, eve]) {
    expect(await refusal(rest.ackMessages({ channel_id: hidden.id }))).toBe("access_denied")
    expect(await refusal(rest.getUnread({ channel_id: hidden.id }))).toBe("access_denied")
  }
  expect(await refusal(lins.ackMessages({ channel_id: mute.id }))).toBe("permission_denied")
  expect(await refusal(lins.getUnread({ channel_id: mute.id }))).toBe("permission_denied")
  for (const message_id of [elsewhere!, "1", "9223372036854775807"])
    expect(await refusal(lins.ackMessages({ channel_id, message_id }))).toBe("message_not_found")
  for (const call of [lins.ackMessages, lins.getUnread]) {
    expect(await refusal(call({ channel_id: "1" }))).toBe("channel_not_found")
    expect(await refusal(call({ channel_id: "x" }))).toBe("invalid_channel_id")
  }
  for (const message_id of ["x", "", "-1", "1.5", "99999999999999999999"])
    expect(await refusal(lins.ackMessages({ channel_id, message_id }))).toBe("invalid_message_id")
  expect(await lins.ackMessages({ channel_id: voice.id })).toEqual({ success: true, messages_marked: 0 })
  expect(await lins.getUnread({ channel_id: voice.id })).toMatchObject({ unread_count: 0 })

  const positions = () =>
    shared.sql`SELECT channel_id, message_id FROM read_states WHERE user_id = ${lin.id} ORDER BY channel_id`
  const entries = {
    [hidden.id]: elsewhere!,
    [mute.id]: null,
    [voice.id]: null,
    x: here!,
    "1": null,
    __proto__x: null,
    [server_id]: here!,
  }
  expect(await lins.ackChannels(entries)).toEqual({ success: true })
  for (const wrong of [elsewhere!, "x", 5, {}, [here], true])
    expect(await lins.ackChannels({ [channel_id]: wrong })).toEqual({ success: true })
  expect(await positions()).toEqual([])
  expect(await readStateStorage(shared.sql).reachable(lin.id, [channel_id, hidden.id, "1", server_id])).toEqual(
    new Set([channel_id, hidden.id]),
  )
  const many = Object.fromEntries(Array.from({ length: 501 }, (_, i) => [String(i), null]))
  expect(await refusal(lins.ackChannels(many))).toBe("validation_failed")
  expect(await lins.ackChannels({ [channel_id]: null })).toEqual({ success: true })
  expect([...(await positions())]).toEqual([{ channel_id, message_id: here }])
})

test("a deleted channel leaves no positions and counts; the others keep all", async ({ shared }) => {
  const { sql } = shared
  const [gone, kept] = [plantedId(), plantedId()]
  for (const channel_id of [gone, kept]) {
    await sql`
      INSERT INTO read_states (channel_id, user_id, since_id, message_id, visible_id) SELECT ${channel_id}::bigint, i, 0, 9, 9 FROM generate_series(1, 7) AS i`
    await sql`
      INSERT INTO message_tallies (channel_id, author_id, upto_id, count) SELECT ${channel_id}::bigint, i, 9, 1 FROM generate_series(0, 4) AS i`
  }
  const { purge } = readStateStorage(sql)
  expect(await purge([gone], 3)).toBe(3)
  expect(await purge([gone], 3)).toBe(3)
  expect(await purge([gone], 3)).toBe(1)
  expect(await purge([gone], 3)).toBe(0)
  for (const [channel_id, left] of [
    [gone, [0, 0]],
    [kept, [7, 5]],
  ] as const) {
    const [row] = await sql`
      SELECT (SELECT count(*)::int FROM read_states WHERE channel_id = ${channel_id}) AS states,
        (SELECT count(*)::int FROM message_tallies WHERE channel_id = ${channel_id}) AS tallies`
    expect([row!["states"], row!["tallies"]]).toEqual(left)
  }
})
