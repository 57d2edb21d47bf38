/**
 * Conversations outside servers: who opens them, who is told, and who may not be written to (any
 * longer).
 */
import { describe } from "vitest"
import { directActor } from "../../src/actors/direct.ts"
import { userActor } from "../../src/actors/user.ts"
import { bitOf } from "../../src/contract/core/intents.ts"
import { limits } from "../../src/contract/core/limits.ts"
import { compareIds, shardOf } from "../../src/domain/core/snowflake.ts"
import { openStorage } from "../../src/storage/storage.ts"
import { usersStorage } from "../../src/storage/accounts/users.ts"
import { announceUser } from "../../src/workers/announce-user.ts"
import type { JobTools } from "../../src/workers/processor.ts"
import { refusal } from "../kit/conformance.ts"
import { botOf } from "../kit/everything.ts"
import { clientAt, usualIntents, type Listener, type Person } from "../kit/person.ts"
import { dmBetween, plantedId } from "../kit/seeds.ts"
import { expect, test, type SharedCluster } from "../kit/test.ts"
import { until } from "../kit/until.ts"

type Direct = Awaited<ReturnType<ReturnType<Person["on"]>["openDirectChannel"]>>

const two = (shared: SharedCluster): Promise<[ada: Person, lin: Person]> =>
  Promise.all([shared.person("ada"), shared.person("lin")])

/** What somebody was told of one channel since the last look. */
const toldOf = (inbox: Listener, channel: string) =>
  inbox
    .rest()
    .map(({ name, data }) => [name, data as { id?: string; channel_id?: string }] as const)
    .filter(([name, data]) => (name.startsWith("CHANNEL_") ? data.id : data.channel_id) === channel)

describe("a DM", () => {
  test("DM1: is one for two people, however many of both open it at once; both are told once, on replay too", async ({
    shared,
  }) => {
    const { east, west } = shared
    const [ada, lin] = await two(shared)
    const eve = await shared.person("eve")
    const [adas, lins, away, strange] = await Promise.all([
      ada.listen(east, { intents: 0 }),
      lin.listen(west, { encoding: "msgpack" }),
      lin.listen(east),
      eve.listen(west),
    ])
    away.drop()
    const opened = await Promise.all(
      [east, west, east, west].flatMap(place => [
        ada.on(place).openDirectChannel({ recipient_id: lin.id }),
        lin.on(place).openDirectChannel({ recipient_id: ada.id }),
      ]),
    )
    const { id } = opened[0]!
    expect(new Set(opened.map(channel => channel.id)).size).toBe(1)
    const direct = (other: Person) => ({
      id,
      type: "dm",
      channel_type: "dm",
      server_id: "0",
      name: other.username,
      recipient_id: other.id,
      recipient: expect.objectContaining({ id: other.id, username: other.username, bot: false }),
      last_message_id: null,
    })
    for (const channel of opened) expect(channel).toMatchObject(direct(channel.recipient_id === lin.id ? lin : ada))
    await away.reconnect(west.url)
    await shared.settle()
    expect(toldOf(adas, id)).toEqual([["CHANNEL_CREATE", expect.objectContaining(direct(lin))]])
    for (const inbox of [lins, away])
      expect(toldOf(inbox, id)).toEqual([["CHANNEL_CREATE", expect.objectContaining(direct(ada))]])
    expect(strange.rest()).toEqual([])

    // Opened once more it is the same, and nobody is told.
    expect(await lin.on(east).openDirectChannel({ recipient_id: ada.id })).toMatchObject(direct(ada))
    expect(await lin.on(west).listDirectChannels()).toEqual([expect.objectContaining(direct(ada))])
    expect(await ada.on(west).listDirectChannels()).toEqual([expect.objectContaining(direct(lin))])
    expect(await eve.on(west).listDirectChannels()).toEqual([])
    const { last_message_id: _, ...channel } = opened[0]!
    expect(await ada.on(west).getChannel({ channel_id: id })).toEqual(channel)
    await shared.settle()
    for (const inbox of [adas, lins, away, strange]) expect(inbox.rest()).toEqual([])
  })

  test("is opened with bots and by bots as with people", async ({ shared }) => {
    const { east, west } = shared
    const ada = await shared.person("ada")
    const bot = await botOf(shared, east, await shared.person("lin"))
    const robot = clientAt(west, bot.token)
    const opened = await ada.on(west).openDirectChannel({ recipient_id: bot.id })
    expect(opened.recipient).toMatchObject({ id: bot.id, bot: true, avatar_url: `/api/v1/avatars/users/${bot.id}` })
    expect(await robot.openDirectChannel({ recipient_id: ada.id })).toMatchObject({ id: opened.id, name: ada.username })
    const sent = await robot.createMessage({ channel_id: opened.id, content: "beep" })
    expect(await ada.on(east).listMessages({ channel_id: opened.id })).toMatchObject([
      { id: sent.id, author_id: bot.id },
    ])
    await ada.on(east).blockUser({ user_id: bot.id })
    expect(await refusal(robot.createMessage({ channel_id: opened.id, content: "beep" }))).toBe("cannot_message")
  })

  test("is refused with oneself, with nobody and with what is no id", async ({ shared }) => {
    const ada = await shared.person("ada")
    const open = (recipient_id: unknown) => refusal(ada.on(shared.west).openDirectChannel({ recipient_id }))
    expect(await refusal(ada.on(shared.west).openDirectChannel({}))).toBe("recipient_required")
    for (const none of [null, ""]) expect(await open(none)).toBe("recipient_required")
    for (const bad of ["me", "-1", "01", "1.5", " 1", "9223372036854775808", 2 ** 53, -1, true, [ada.id], {}])
      expect([bad, await open(bad)]).toEqual([bad, "invalid_recipient_id"])
    expect(await open(ada.id)).toBe("self_message")
    for (const nobody of ["0", plantedId(), 4096]) expect(await open(nobody)).toBe("user_not_found")
    expect(await ada.on(shared.east).listDirectChannels()).toEqual([])
  })

  test("holds messages of the two, in both streams, and nobody else can find it", async ({ shared }) => {
    const { east, west } = shared
    const [ada, lin] = await two(shared)
    const eve = await shared.person("eve")
    const channel_id = await dmBetween(ada, lin, east)
    const [adas, lins, deaf, strange] = await Promise.all([
      ada.listen(west),
      lin.listen(east),
      lin.listen(west, { intents: usualIntents & ~bitOf("DIRECT_MESSAGES") }),
      eve.listen(west),
    ])
    await shared.settle()
    for (const inbox of [adas, lins, deaf]) inbox.rest()
    const sent = await ada.on(west).createMessage({ channel_id, content: "hello", nonce: "1" })
    expect(sent).toMatchObject({ channel_id, server_id: null, guild_id: null, author_id: ada.id })
    expect((await ada.on(east).createMessage({ channel_id, content: "hello", nonce: "1" })).id).toBe(sent.id)
    const answer = await lin.on(east).createMessage({ channel_id, content: "hi", reply_to_id: sent.id })
    await lin.on(west).editMessage({ channel_id, message_id: answer.id, content: "hi!" })
    expect(await refusal(lin.on(west).deleteMessage({ channel_id, message_id: sent.id }))).toBe("cannot_delete_message")
    expect(await refusal(lin.on(west).editMessage({ channel_id, message_id: sent.id, content: "x" }))).toBe(
      "not_author",
    )
    await ada.on(west).deleteMessage({ channel_id, message_id: sent.id })
    await shared.settle()
    for (const inbox of [adas, lins])
      expect(toldOf(inbox, channel_id).map(([name, data]) => [name, data.id])).toEqual([
        ["MESSAGE_CREATE", sent.id],
        ["MESSAGE_CREATE", answer.id],
        ["MESSAGE_UPDATE", answer.id],
        ["MESSAGE_DELETE", sent.id],
      ])
    for (const inbox of [deaf, strange]) expect(inbox.rest()).toEqual([])
    expect((await ada.on(east).listMessages({ channel_id })).map(({ id }) => id)).toEqual([answer.id])
    expect(await refusal(eve.on(east).listMessages({ channel_id }))).toBe("channel_not_found")
    expect(await refusal(eve.on(west).createMessage({ channel_id, content: "x" }))).toBe("channel_not_found")
    expect(await refusal(eve.on(west).getChannel({ channel_id }))).toBe("channel_not_found")
  })

  test("stands in the list by when something was last said in it", async ({ shared }) => {
    const { east, west } = shared
    const [ada, lin] = await two(shared)
    const [eve, bob] = await Promise.all([shared.person("eve"), shared.person("bob")])
    const first = await dmBetween(ada, lin, east)
    const second = await dmBetween(eve, ada, west)
    const third = await dmBetween(ada, bob, west)
    const list = async () => {
      const listed = await ada.on(west).listDirectChannels()
      return listed.map(({ id, last_message_id }: Direct) => [id, last_message_id])
    }
    // Ids of different homes may be of one millisecond; of those that say nothing each stands by
    // its own.
    const byAge = [first, second, third].toSorted((a, b) => compareIds(b, a)).map(id => [id, null])
    expect(await list()).toEqual(byAge)
    const inFirst = await lin.on(east).createMessage({ channel_id: first, content: "1" })
    const inSecond = await ada.on(east).createMessage({ channel_id: second, content: "2" })
    const pairs = [
      [first, inFirst.id],
      [second, inSecond.id],
    ].toSorted((a, b) => compareIds(b[1]!, a[1]!))
    expect(await list()).toEqual([...pairs, [third, null]])
    await ada.on(east).deleteMessage({ channel_id: second, message_id: inSecond.id })
    expect(await list()).toContainEqual([second, null])
    const opened = await lin.on(west).openDirectChannel({ recipient_id: ada.id })
    expect(opened.last_message_id).toBe(inFirst.id)
  })

  test("is listed among so many at most: those in which something was said last", async ({ shared }) => {
    const [ada, lin] = await two(shared)
    const others = Array.from({ length: limits.directsListed }, () => plantedId())
    await shared.sql`
      INSERT INTO users (id, username, created_at) SELECT id, 'd' || id, 1704153600 FROM unnest(${others}::bigint[]) AS id`
    const planted = others.map(() => plantedId())
    await shared.sql`
      INSERT INTO direct_channels (id, channel_type, user_id, other_id, created_at)
      SELECT t.id, 'dm', least(t.other, ${ada.id}::bigint), greatest(t.other, ${ada.id}::bigint), 1704153600
      FROM unnest(${planted}::bigint[], ${others}::bigint[]) AS t (id, other)`
    const { id } = await lin.on(shared.west).openDirectChannel({ recipient_id: ada.id })
    const [oldest] = planted.toSorted(compareIds)
    const listed = async () => (await ada.on(shared.east).listDirectChannels()).map(direct => direct.id)
    const all = [id, ...planted].toSorted((a, b) => compareIds(b, a))
    expect(await listed()).toEqual(all.filter(direct => direct !== oldest))
    await ada.on(shared.west).createMessage({ channel_id: oldest!, content: "again" })
    expect(await listed()).toEqual([oldest, ...all.slice(0, -2)])
  })

  test("has typing, told to the other alone and kept by nobody", async ({ shared }) => {
    const { east, west } = shared
    const [ada, lin] = await two(shared)
    const channel_id = await dmBetween(ada, lin, east)
    const [adas, lins, deaf] = await Promise.all([
      ada.listen(east),
      lin.listen(west),
      lin.listen(east, { intents: usualIntents & ~bitOf("DIRECT_MESSAGE_TYPING") }),
    ])
    await shared.settle()
    for (const inbox of [adas, lins, deaf]) inbox.rest()
    const rows = () => shared.sql<{ count: number }[]>`SELECT count(*)::int FROM tells_seen`
    const [before] = await rows()
    const server = { server_id: null, guild_id: null }
    await ada.on(west).startTyping({ channel_id })
    expect(await lins.next("TYPING_START")).toEqual({ channel_id, user_id: ada.id, username: ada.username, ...server })
    adas.send({ op: 41, d: { channel_id } })
    expect(await lins.next("TYPING_STOP")).toEqual({ channel_id, user_id: ada.id, ...server })
    expect(await deaf.next("TYPING_STOP")).toMatchObject({ channel_id })
    expect(await rows()).toEqual([before])
    await shared.settle()
    for (const inbox of [adas, lins, deaf]) expect(inbox.rest()).toEqual([])
  })

  test("has neither settings nor guests: what servers do with channels is refused", async ({ shared }) => {
    const { east } = shared
    const [ada, lin] = await two(shared)
    const rest = ada.on(east)
    const { id: notes } = await rest.getNotes()
    for (const channel_id of [await dmBetween(ada, lin, east), notes]) {
      const override = { channel_id, target_id: lin.id }
      const refused = {
        editChannel: () => rest.editChannel({ channel_id, name: "ours" }),
        deleteChannel: () => rest.deleteChannel({ channel_id }),
        createInvite: () => rest.createInvite({ channel_id }),
        setOverride: () => rest.setOverride({ ...override, type: "member", allow: [], deny: ["channels.view"] }),
        listOverrides: () => rest.listOverrides({ channel_id }),
        getOverride: () => rest.getOverride(override),
        deleteOverride: () => rest.deleteOverride(override),
        createWebhook: () => rest.createWebhook({ channel_id, name: "hook" }),
        listChannelWebhooks: () => rest.listChannelWebhooks({ channel_id }),
      }
      for (const [name, call] of Object.entries(refused))
        expect([name, await refusal(call())]).toEqual([name, "permission_denied"])
      expect(await refusal(rest.getVoiceInfo({ channel_id }))).toBe("not_a_voice_channel")
    }
    // A server of that id is none either.
    expect(await refusal(rest.getServer({ server_id: notes }))).toBe("server_not_found")
    expect(await refusal(rest.listChannels({ server_id: notes }))).toBe("server_not_found")
  })

  test("has no voice", async ({ shared }) => {
    const [ada, lin] = await two(shared)
    const channel_id = await dmBetween(ada, lin, shared.east)
    const [adas, lins] = await Promise.all([ada.listen(shared.east), lin.listen(shared.west)])
    await shared.settle()
    for (const inbox of [adas, lins]) inbox.rest()
    for (const d of [
      { guild_id: null, channel_id },
      { guild_id: channel_id, channel_id },
      { server_id: channel_id, channel_id },
    ])
      adas.send({ op: 4, d })
    await shared.settle()
    expect(lins.rest()).toEqual([])
    for (const { name, data } of adas.rest())
      expect([name, (data as { channel_id: string | null }).channel_id]).toEqual(["VOICE_STATE_UPDATE", null])
    expect(await shared.sql`SELECT FROM voice_states WHERE channel_id = ${channel_id}`).toHaveLength(0)
  })
})

test("notes are made by the first call, for their owner alone", async ({ shared }) => {
  const { east, west } = shared
  const [ada, lin] = await two(shared)
  const [adas, lins] = await Promise.all([ada.listen(east), lin.listen(west)])
  const [one, ...others] = await Promise.all([east, west, east, west].map(place => ada.on(place).getNotes()))
  for (const other of others) expect(other).toEqual(one)
  expect(one).toMatchObject({
    type: "notes",
    channel_type: "notes",
    name: "Personal Notes",
    server_id: "0",
    recipient_id: null,
    last_message_id: null,
    last_message_at: null,
  })
  const channel_id = one!.id
  await shared.settle()
  expect(toldOf(adas, channel_id)).toEqual([["CHANNEL_CREATE", expect.objectContaining({ name: "Personal Notes" })]])
  const sent = await ada.on(west).createMessage({ channel_id, content: "remember" })
  expect(await adas.next("MESSAGE_CREATE")).toMatchObject({ id: sent.id, channel_id, server_id: null })
  expect(await ada.on(east).getNotes()).toEqual({
    ...one,
    last_message_id: sent.id,
    last_message_at: sent.created_at,
  })
  const { last_message_at: _, last_message_id: __, ...channel } = one!
  expect(await ada.on(west).getChannel({ channel_id })).toEqual(channel)
  expect(await ada.on(west).startTyping({ channel_id })).toEqual({ success: true })
  expect(await ada.on(west).listDirectChannels()).toEqual([])
  expect(await refusal(lin.on(east).getChannel({ channel_id }))).toBe("channel_not_found")
  expect(await refusal(lin.on(east).createMessage({ channel_id, content: "x" }))).toBe("channel_not_found")
  await shared.settle()
  expect(lins.rest()).toEqual([])
})

describe("who takes messages", () => {
  const allow = (person: Person, shared: SharedCluster, allow_dms_from: "everyone" | "friends" | "none") =>
    person.on(shared.east).editMessagingSettings({ allow_dms_from })

  test("from friends only is open to them alone, and from nobody to nobody; what is open stays open", async ({
    shared,
  }) => {
    const { east, west } = shared
    const [ada, lin] = await two(shared)
    const eve = await shared.person("eve")
    const open = (from: Person, to: Person) => from.on(west).openDirectChannel({ recipient_id: to.id })
    await allow(lin, shared, "none")
    expect(await refusal(open(ada, lin))).toBe("cannot_message")
    await allow(lin, shared, "friends")
    await ada.on(east).requestFriend({ user_id: lin.id })
    expect(await refusal(open(ada, lin))).toBe("cannot_message")
    await lin.on(east).acceptFriend({ user_id: ada.id })
    expect(await refusal(open(eve, lin))).toBe("cannot_message")
    const { id: channel_id } = await open(ada, lin)
    // They decide who may write to them, not to whom they may.
    expect((await open(lin, eve)).recipient_id).toBe(eve.id)
    await ada.on(west).deleteRelationship({ user_id: lin.id })
    await allow(lin, shared, "none")
    expect((await open(ada, lin)).id).toBe(channel_id)
    expect(await ada.on(west).createMessage({ channel_id, content: "still" })).toMatchObject({ channel_id })
  })

  test.for(["the one who opens", "the other"])("a block by %s keeps it from being opened", async (who, { shared }) => {
    const { east, west } = shared
    const [ada, lin] = await two(shared)
    const [blocker, blocked] = who === "the other" ? [lin, ada] : [ada, lin]
    await blocker.on(west).blockUser({ user_id: blocked.id })
    expect(await refusal(ada.on(east).openDirectChannel({ recipient_id: lin.id }))).toBe("cannot_message")
    expect(await ada.on(east).listDirectChannels()).toEqual([])
    await blocker.on(west).deleteRelationship({ user_id: blocked.id })
    expect(await ada.on(east).openDirectChannel({ recipient_id: lin.id })).toMatchObject({ recipient_id: lin.id })
  })
})

describe.each(["the elder", "the younger"])("P12: a block by %s", who => {
  const sorted = async (shared: SharedCluster): Promise<[blocker: Person, blocked: Person]> => {
    const [one, other] = await two(shared)
    const isElder = compareIds(one.id, other.id) < 0
    return isElder === (who === "the elder") ? [one, other] : [other, one]
  }

  test("REL5: shuts a DM for both until it is lifted; what was said before can be read, repeated and deleted", async ({
    shared,
  }) => {
    const { east, west } = shared
    const [ada, lin] = await sorted(shared)
    const channel_id = await dmBetween(lin, ada, east)
    const sent = await lin.on(east).createMessage({ channel_id, content: "before", nonce: "n" })
    const inbox = await ada.listen(east)
    await ada.on(west).blockUser({ user_id: lin.id })
    for (const place of [east, west])
      for (const person of [ada, lin]) {
        const rest = person.on(place)
        expect(await refusal(rest.createMessage({ channel_id, content: "x" }))).toBe("cannot_message")
        expect(await refusal(rest.createMessage({ channel_id, content: "x", nonce: "new" }))).toBe("cannot_message")
      }
    expect(await refusal(lin.on(west).editMessage({ channel_id, message_id: sent.id, content: "x" }))).toBe(
      "cannot_message",
    )
    // What no home remembers any more is a repeat as well.
    const old = plantedId(shardOf(channel_id))
    await shared.sql`
      INSERT INTO messages (channel_id, id, author_id, content, nonce) VALUES (${channel_id}, ${old}, ${lin.id}, 'old', 'old')`
    expect((await lin.on(west).createMessage({ channel_id, content: "old", nonce: "old" })).id).toBe(old)
    const poll = { message_id: old, question: "Why?", options: ["This", "That"] }
    expect(await refusal(lin.on(west).createPoll(poll))).toBe("cannot_message")
    const reaction = { channel_id, message_id: sent.id, emoji: "👋" }
    expect(await refusal(lin.on(east).addReaction(reaction))).toBe("cannot_message")
    expect((await lin.on(west).createMessage({ channel_id, content: "before", nonce: "n" })).id).toBe(sent.id)
    expect(await refusal(ada.on(east).blockUser({ user_id: lin.id }))).toBe("already_blocked")
    // It is there as before, and typing is told to nobody.
    expect(await lin.on(east).openDirectChannel({ recipient_id: ada.id })).toMatchObject({ id: channel_id })
    await lin.on(west).startTyping({ channel_id })
    await lin.on(west).deleteMessage({ channel_id, message_id: sent.id })
    expect(await inbox.next("MESSAGE_DELETE")).toMatchObject({ id: sent.id })
    await shared.settle()
    expect(inbox.rest().filter(({ name }) => name.startsWith("TYPING"))).toEqual([])

    // Each lifts only their own.
    await lin.on(east).blockUser({ user_id: ada.id })
    await ada.on(west).deleteRelationship({ user_id: lin.id })
    expect(await refusal(ada.on(west).createMessage({ channel_id, content: "x" }))).toBe("cannot_message")
    await lin.on(east).deleteRelationship({ user_id: ada.id })
    for (const person of [ada, lin])
      expect(await person.on(west).createMessage({ channel_id, content: "again" })).toMatchObject({ channel_id })
  })

  test("DM2: races a stream of messages: after its answer none is taken, and none is appended later", async ({
    shared,
  }) => {
    const { east, west } = shared
    const [ada, lin] = await sorted(shared)
    const channel_id = await dmBetween(ada, lin, east)
    const inboxes = await Promise.all([ada.listen(east), ada.listen(west), lin.listen(west, { encoding: "msgpack" })])
    const away = await ada.listen(east)
    away.drop()
    // Tells take their time, so that what was taken is still on its way when the block comes.
    const slow = [east, west].map(({ node: { router } }) => {
      const tell = router.tell.bind(router)
      router.tell = async told => {
        await new Promise(resolve => setTimeout(resolve, 10))
        return tell(told)
      }
      return () => {
        router.tell = tell
      }
    })
    const inLogs = async () => {
      const logs = await Promise.all([east, west].map(({ node, id }) => node.logs.read(id, 0, 100_000)))
      return logs.map(log => log.filter(({ data }) => data.includes(`"channel_id":"${channel_id}"`)).length)
    }
    let isAnswered = false
    const taken: string[] = []
    const late: string[] = []
    const writing = [east, west, east, west].map(async (place, i) => {
      const rest = (i < 2 ? lin : ada).on(place)
      for (let n = 0; ; n++) {
        const begunLate = isAnswered
        try {
          const { id } = await rest.createMessage({ channel_id, content: `${i} ${n}` })
          if (begunLate) late.push(id)
          else taken.push(id)
        } catch {
          if (begunLate) return
        }
      }
    })
    await until("some messages", () => taken.length >= 8)
    await ada.on(west).blockUser({ user_id: lin.id })
    isAnswered = true
    const appended = await inLogs()
    await Promise.all(writing)
    for (const undo of slow) undo()
    const stored = await shared.sql<{ id: string }[]>`SELECT id::text FROM messages WHERE channel_id = ${channel_id}`
    expect(late).toEqual([])
    expect(stored.map(({ id }) => id).toSorted()).toEqual(taken.toSorted())
    await away.reconnect(west.url)
    await shared.settle()
    expect(await inLogs()).toEqual(appended)
    for (const inbox of [...inboxes, away]) {
      const heard = inbox
        .rest()
        .flatMap(({ name, data }) => (name === "MESSAGE_CREATE" ? [(data as { id: string }).id] : []))
      expect(heard.toSorted()).toEqual(taken.toSorted())
    }
  })

  test("keeps what is pinned, voted and read from reaching the other, until it is lifted", async ({ shared }) => {
    const { east, west } = shared
    const [ada, lin] = await sorted(shared)
    const channel_id = await dmBetween(lin, ada, east)
    const [adas, lins] = [ada.on(east), lin.on(west)]
    const [first, second] = [
      await adas.createMessage({ channel_id, content: "first" }),
      await adas.createMessage({ channel_id, content: "second" }),
    ]
    const poll = await adas.createPoll({ message_id: first.id, question: "Why?", options: ["This", "That"] })
    const pin = { channel_id, message_id: first.id }
    const vote = { poll_id: poll.id, option_ids: [poll.options[0]!.id] }
    await adas.pinMessage(pin)
    const reaction = { channel_id, message_id: second.id, emoji: "👋" }
    for (const rest of [adas, lins]) await rest.addReaction(reaction)
    await adas.blockUser({ user_id: lin.id })
    const [inbox, own] = [await ada.listen(west), await lin.listen(east)]
    for (const rest of [adas, lins]) {
      expect(await refusal(rest.pinMessage({ channel_id, message_id: second.id }))).toBe("cannot_message")
      expect(await refusal(rest.unpinMessage(pin))).toBe("cannot_message")
      expect(await refusal(rest.votePoll(vote))).toBe("cannot_message")
      expect(await refusal(rest.removeReaction(reaction))).toBe("cannot_message")
    }
    for (const call of [adas.closePoll, adas.deletePoll])
      expect(await refusal(call({ poll_id: poll.id }))).toBe("cannot_message")
    expect(await lins.ackMessages({ channel_id, message_id: first.id })).toMatchObject({ messages_marked: 1 })
    expect(await own.next("MESSAGE_ACK")).toMatchObject({ user_id: lin.id, message_id: first.id })
    await shared.settle()
    expect(toldOf(inbox, channel_id)).toEqual([])
    expect((await adas.listPins({ channel_id })).map(({ id }) => id)).toEqual([first.id])

    await adas.deleteRelationship({ user_id: lin.id })
    await lins.removeReaction(reaction)
    await lins.votePoll(vote)
    await lins.pinMessage({ channel_id, message_id: second.id })
    await lins.unpinMessage(pin)
    await lins.ackMessages({ channel_id })
    await shared.settle()
    expect(toldOf(inbox, channel_id).map(([name]) => name)).toEqual([
      "MESSAGE_REACTION_REMOVE",
      "MESSAGE_UPDATE",
      "MESSAGE_UPDATE",
      "MESSAGE_UPDATE",
      "MESSAGE_ACK",
    ])
  })

  test.for(["before", "at once"])(
    "that crosses the opening of the DM closes it, answered %s",
    async (when, { shared }) => {
      const { east, west } = shared
      for (let round = 0; round < (when === "before" ? 1 : 3); round++) {
        const [ada, lin] = await sorted(shared)
        const shown = ({ id }: Person) => ada.on(east).getUser({ user_id: id })
        const parties = { user: await shown(lin), other: await shown(ada) }
        const blocking = ada.on(west).blockUser({ user_id: lin.id })
        if (when === "before") await blocking
        // Its worker had looked for a block earlier.
        const [{ id: channel_id }] = await Promise.all([
          east.node.create(directActor, { type: "openDirect", ...parties }),
          blocking,
        ])
        for (const place of [east, west])
          for (const person of [ada, lin])
            expect(await refusal(person.on(place).createMessage({ channel_id, content: "x" }))).toBe("cannot_message")
      }
    },
  )

  test.for(["known", "new"])(
    "reaches a DM that is %s to the home of the pair, even if the worker that asked has died",
    async (what, { shared }) => {
      const { east } = shared
      const [ada, lin] = await sorted(shared)
      const party = ({ id, username }: Person) => ({ id, username, avatar_url: null, presence: null })
      const two = { by: party(ada), other: party(lin) }
      const counts = { friend: 0, pending_incoming: 0, pending_outgoing: 0, blocked: 0 }
      const [lower] = [ada.id, lin.id].toSorted(compareIds)
      // No worker looks after the DM.
      const block = () =>
        east.node.ask(userActor, lower!, { type: "blockUser", ...two, counts: { mine: counts, theirs: counts } })
      const lift = () => east.node.ask(userActor, lower!, { type: "deleteRelationship", ...two })
      if (what === "new")
        expect(await refusal(ada.on(east).deleteRelationship({ user_id: lin.id }))).toBe("relationship_not_found")
      const channel_id = await dmBetween(lin, ada, east)
      const send = () =>
        lin
          .on(east)
          .createMessage({ channel_id, content: "x" })
          .then(
            () => "taken",
            () => "refused",
          )
      expect(await send()).toBe("taken")
      await shared.settle()
      expect((await block()).status).toBe("blocked")
      await until("it is shut", async () => (await send()) === "refused")
      await lift()
      await until("it is open again", async () => (await send()) === "taken")
    },
  )
})

test("a block waits for what the two are told, not for what others are; lifting it waits for nothing", async ({
  shared,
}) => {
  const { east, west } = shared
  const [ada, lin] = await two(shared)
  const bob = await shared.person("bob")
  const channel_id = await dmBetween(ada, lin, east)
  let eve = await shared.person("eve")
  while ([ada, lin].some(({ id }) => shardOf(id) === shardOf(eve.id))) eve = await shared.person("eve")
  // A DM of others on the same shard.
  const other = plantedId(shardOf(channel_id))
  const [user_id, other_id] = [bob.id, eve.id].toSorted(compareIds)
  await shared.sql`
    INSERT INTO direct_channels (id, channel_type, user_id, other_id, created_at)
    VALUES (${other}, 'dm', ${user_id!}, ${other_id!}, 1704153600)`
  let release = () => {}
  const gate = new Promise<void>(resolve => (release = resolve))
  const held = new Set([eve.id])
  const undo = [east, west].map(({ node: { router } }) => {
    const tell = router.tell.bind(router)
    router.tell = async told => {
      if (told.command === "relay" && held.has(told.id)) await gate
      return tell(told)
    }
    return () => {
      router.tell = tell
    }
  })
  try {
    await bob.on(east).createMessage({ channel_id: other, content: "x" })
    await ada.on(west).blockUser({ user_id: lin.id })
    expect(await refusal(lin.on(east).createMessage({ channel_id, content: "x" }))).toBe("cannot_message")
    await ada.on(west).deleteRelationship({ user_id: lin.id })

    // No worker asks the DM for this block, whose messages are on their way still when it is
    // lifted.
    held.add(lin.id)
    await lin.on(east).createMessage({ channel_id, content: "y" })
    const party = ({ id, username }: Person) => ({ id, username, avatar_url: null, presence: null })
    const [lower] = [ada.id, lin.id].toSorted(compareIds)
    const none = { friend: 0, pending_incoming: 0, pending_outgoing: 0, blocked: 0 }
    const block = { by: party(ada), other: party(lin), counts: { mine: none, theirs: none } }
    await west.node.ask(userActor, lower!, { type: "blockUser", ...block })
    await ada.on(east).deleteRelationship({ user_id: lin.id })
    expect(await ada.on(west).createMessage({ channel_id, content: "z" })).toMatchObject({ channel_id })
  } finally {
    release()
    for (const restore of undo) restore()
  }
})

test("a DM with somebody who is renamed or gone shows their current name", async ({ shared }) => {
  const { east, west } = shared
  const [ada, lin] = await two(shared)
  const { id } = await ada.on(east).openDirectChannel({ recipient_id: lin.id })
  const username = shared.newName("renamed")
  await lin.on(west).editMe({ username })
  const [listed] = await ada.on(west).listDirectChannels()
  expect(listed).toMatchObject({ id, name: username, recipient: { username } })
  expect(await ada.on(east).getChannel({ channel_id: id })).toMatchObject({ name: username, recipient: { username } })
})

test("what becomes of a message in a DM is told under its author's name by now, and shown under it", async ({
  shared,
}) => {
  const { east, west } = shared
  const [ada, lin] = await two(shared)
  const channel_id = await dmBetween(ada, lin, east)
  const [adas, lins] = [ada.on(east), lin.on(west)]
  const [{ id: message_id }, last, { poll }] = [
    await lins.createMessage({ channel_id, content: "mine" }),
    await lins.createMessage({ channel_id, content: "mine, too" }),
    await lins.createMessage({ channel_id, poll: { question: "Why?", options: ["This", "That"] } }),
  ]
  for (let i = 0; i < 3; i++) await adas.listMessages({ channel_id })
  const username = shared.newName("renamed")
  await lins.editMe({ username })
  const inbox = await ada.listen(west)
  await adas.pinMessage({ channel_id, message_id })
  await adas.unpinMessage({ channel_id, message_id })
  await adas.votePoll({ poll_id: poll!.id, option_ids: [poll!.options[0]!.id] })
  await lins.closePoll({ poll_id: poll!.id })
  const told = []
  for (let i = 0; i < 4; i++) told.push((await inbox.next("MESSAGE_UPDATE")).author_username)
  expect(told).toEqual([username, username, username, username])

  // The page is in memory: what the DM remembers of them is in it.
  const tools = {
    ask: east.node.ask,
    storage: { users: usersStorage(shared.sql) },
    signal: new AbortController().signal,
  }
  await announceUser(tools as unknown as JobTools, { user_id: lin.id })
  const reaction = { channel_id, message_id: last.id, emoji: "👋" }
  const isKnown = async () => {
    await adas.addReaction(reaction)
    const page = await adas.listMessages({ channel_id })
    await adas.removeReaction(reaction)
    return page.every(({ author_username }) => author_username === username)
  }
  await until("the DM knows their name", isKnown, { timeoutMs: 5_000 })
})

test("messages of DMs are not taken for those of channels that are gone", async ({ shared }) => {
  const [ada, lin] = await two(shared)
  const channel_id = await dmBetween(ada, lin, shared.east)
  await ada.on(shared.east).createMessage({ channel_id, content: "kept" })
  const storage = openStorage({
    url: shared.databaseUrl,
    name: "looking",
    readConnections: 1,
    statementTimeoutMs: 5_000,
    connectTimeoutMs: 5_000,
  })
  try {
    expect(await storage.messages.channelsNamed(String(BigInt(channel_id) - 1n), 1)).toEqual([
      { id: channel_id, is_gone: false },
    ])
  } finally {
    await storage.close()
  }
})

test("the table itself knows what a conversation is: two in the order of their ids, or one alone", async ({
  shared,
}) => {
  const [low, high] = [plantedId(), plantedId()].toSorted(compareIds) as [string, string]
  const insert = (type: string, user: string, other: string | null) => shared.sql`
    INSERT INTO direct_channels (id, channel_type, user_id, other_id, created_at) VALUES (${plantedId()}, ${type}, ${user}, ${other}, 1704153600)`
  const wrong = [
    ["dm", high, low],
    ["dm", low, low],
    ["dm", low, null],
    ["notes", low, high],
    ["group", low, high],
  ] as const
  for (const [type, user, other] of wrong)
    await expect(insert(type, user, other), type).rejects.toThrow("direct_channels_check")
  await insert("dm", low, high)
  await insert("notes", low, null)
})
