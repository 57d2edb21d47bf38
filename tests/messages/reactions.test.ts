/**
 * Reactions: who may, who is told, how many there are, whatever happens at once; and what goes with
 * what.
 */
import { randomInt } from "node:crypto"
import { allIntents, bitOf } from "../../src/contract/core/intents.ts"
import type { JobTools } from "../../src/workers/processor.ts"
import { purgeReactors } from "../../src/workers/purge-reactors.ts"
import { putReaction, reactionsStorage } from "../../src/storage/messages/reactions.ts"
import { refusal } from "../kit/conformance.ts"
import { send } from "../kit/exchange.ts"
import type { Person } from "../kit/person.ts"
import { apng, fileOf } from "../kit/pictures.ts"
import { dmBetween, plantedId, plantServer, sharedServer } from "../kit/seeds.ts"
import { expect, testWith, type SharedCluster } from "../kit/test.ts"

const test = testWith({ encodes: true })

/** Ada's server with a message of hers, which Lin may see. */
async function posted(shared: SharedCluster) {
  const seed = await shared.seed(sharedServer)
  const { id } = await seed.ada.on(shared.east).createMessage({ channel_id: seed.channel.id, content: "look" })
  const ids = { channel_id: seed.channel.id, message_id: id }
  const of = (emoji: string) => ({ ...ids, emoji })
  return { ...seed, ids, of, adas: seed.ada.on(shared.east), lins: seed.lin.on(shared.west) }
}

const plain = (emoji: string, count: number, me: boolean) => ({
  emoji,
  count,
  me,
  url: null,
  is_custom: false,
  custom_emoji_id: null,
})

const byEmoji = (one: { emoji: string }, other: { emoji: string }) => (one.emoji < other.emoji ? -1 : 1)

test("a reaction is counted once, shown everywhere, told to every viewer, and taken back", async ({ shared }) => {
  const { ada, lin, server, ids, of, adas, lins } = await posted(shared)
  const [inbox, quiet, own] = await Promise.all([
    lin.listen(shared.east, { intents: bitOf("GUILD_MESSAGE_REACTIONS"), encoding: "msgpack" }),
    lin.listen(shared.west, { intents: allIntents & ~bitOf("GUILD_MESSAGE_REACTIONS") }),
    ada.listen(shared.west),
  ])
  const told = (who: Person, emoji: string, count: number) => ({
    user_id: who.id,
    ...ids,
    server_id: server.id,
    guild_id: server.id,
    emoji,
    url: null,
    is_custom: false,
    custom_emoji_id: null,
    count,
  })
  for (let i = 0; i < 2; i++) expect(await adas.addReaction(of("👍🏽"))).toEqual({ success: true })
  for (const client of [inbox, own]) expect(await client.next("MESSAGE_REACTION_ADD")).toEqual(told(ada, "👍🏽", 1))
  await lins.addReaction(of(":boat:"))
  await lins.addReaction(of("👍🏽"))
  for (const client of [inbox, own]) {
    expect(await client.next("MESSAGE_REACTION_ADD")).toEqual(told(lin, ":boat:", 1))
    expect(await client.next("MESSAGE_REACTION_ADD")).toEqual(told(lin, "👍🏽", 2))
  }
  const seen = (mine: string[]) =>
    [plain("👍🏽", 2, mine.includes("👍🏽")), plain(":boat:", 1, mine.includes(":boat:"))] as const
  expect(await adas.listReactions(ids)).toEqual(seen(["👍🏽"]))
  expect(await lins.listReactions(ids)).toEqual(seen(["👍🏽", ":boat:"]))
  expect((await adas.getMessage(ids)).reactions).toEqual(seen(["👍🏽"]))
  expect((await lins.listMessages(ids))[0]!.reactions).toEqual(seen(["👍🏽", ":boat:"]))
  await adas.pinMessage(ids)
  expect((await lins.listPins(ids))[0]!.reactions).toEqual(seen(["👍🏽", ":boat:"]))
  expect((await own.next("MESSAGE_UPDATE")).reactions).toEqual(seen([]))

  expect(await adas.removeReaction(of("👍🏽"))).toEqual({ success: true })
  for (let i = 0; i < 2; i++) await lins.removeReaction(of(":boat:"))
  await adas.removeReaction(of("🔥"))
  for (const client of [inbox, own]) {
    expect(await client.next("MESSAGE_REACTION_REMOVE")).toEqual(told(ada, "👍🏽", 1))
    expect(await client.next("MESSAGE_REACTION_REMOVE")).toEqual(told(lin, ":boat:", 0))
  }
  expect(await adas.listReactions(ids)).toEqual([plain("👍🏽", 1, false)])
  await shared.settle()
  expect([inbox.rest(), own.rest(), quiet.rest().some(({ name }) => name.includes("REACTION"))]).toEqual([
    [],
    [],
    false,
  ])
})

test("events are replayed to sessions that were away; in a DM to both, with the other intent", async ({ shared }) => {
  const { ada, lin, of } = await posted(shared)
  const away = await lin.listen(shared.east)
  away.drop()
  await ada.on(shared.west).addReaction(of("👍"))
  await ada.on(shared.west).removeReaction(of("👍"))
  await away.reconnect(shared.west.url)
  expect((await away.next("MESSAGE_REACTION_ADD")).count).toBe(1)
  expect((await away.next("MESSAGE_REACTION_REMOVE")).count).toBe(0)

  const channel_id = await dmBetween(ada, lin, shared.east)
  const { id: message_id } = await ada.on(shared.east).createMessage({ channel_id, content: "psst" })
  const inboxes = await Promise.all([
    ada.listen(shared.west, { intents: bitOf("DIRECT_MESSAGE_REACTIONS") }),
    lin.listen(shared.west, { intents: bitOf("DIRECT_MESSAGE_REACTIONS") }),
  ])
  const deaf = await lin.listen(shared.east, { intents: allIntents & ~bitOf("DIRECT_MESSAGE_REACTIONS") })
  const whisper = { channel_id, message_id, emoji: "🤫" }
  await lin.on(shared.west).addReaction(whisper)
  await lin.on(shared.east).removeReaction(whisper)
  for (const inbox of inboxes) {
    expect(await inbox.next("MESSAGE_REACTION_ADD")).toMatchObject({
      ...whisper,
      user_id: lin.id,
      server_id: null,
      guild_id: null,
    })
    expect(await inbox.next("MESSAGE_REACTION_REMOVE")).toMatchObject({ ...whisper, count: 0 })
  }
  const eve = await shared.person("eve")
  for (const call of [
    eve.on(shared.east).addReaction,
    eve.on(shared.west).removeReaction,
    eve.on(shared.east).listReactors,
  ])
    expect(await refusal(call(whisper))).toBe("channel_not_found")
  await shared.settle()
  expect(deaf.rest().filter(({ name }) => name.includes("REACTION"))).toEqual([])
})

test("only who sees a channel and may react there does; what was written elsewhere is not there", async ({
  shared,
}) => {
  const { ada, lin, server, channel, ids, of, adas, lins } = await posted(shared)
  const eve = await shared.person("eve")
  const outside = eve.on(shared.west)
  for (const call of [outside.addReaction, outside.removeReaction, outside.listReactors])
    expect(await refusal(call(of("👍")))).toBe("access_denied")
  expect(await refusal(outside.listReactions(ids))).toBe("access_denied")

  const other = await adas.createChannel({ server_id: server.id, name: "other" })
  for (const wrong of [
    { ...ids, channel_id: other.id },
    { ...ids, message_id: plantedId() },
  ]) {
    for (const call of [lins.addReaction, lins.removeReaction, lins.listReactors])
      expect(await refusal(call({ ...wrong, emoji: "👍" }))).toBe("message_not_found")
    expect(await refusal(lins.listReactions(wrong))).toBe("message_not_found")
  }
  for (const call of [lins.addReaction, lins.removeReaction, lins.listReactors]) {
    expect(await refusal(call({ ...of("👍"), message_id: "x" }))).toBe("invalid_message_id")
    expect(await refusal(call({ ...of("👍"), channel_id: "x" }))).toBe("invalid_channel_id")
    expect(await refusal(call({ ...of("👍"), channel_id: plantedId() }))).toBe("channel_not_found")
    for (const emoji of ["two words", "👍👍", "<b>", "a/b", "%F0%9F%91%8D", "x".repeat(33)])
      expect([emoji, await refusal(call(of(emoji)))]).toEqual([emoji, "invalid_emoji"])
  }
  expect(await refusal(lins.listReactors({ ...of("👍"), limit: "0" }))).toBe("validation_failed")
  expect(await refusal(lins.listReactions({ ...ids, message_id: "x" }))).toBe("invalid_message_id")

  await lins.addReaction(of("👍"))
  await adas.editMember({ server_id: server.id, member_id: lin.id, timeout_seconds: 60 })
  expect(await refusal(lins.addReaction(of("🔥")))).toBe("timed_out")
  await lins.removeReaction(of("👍"))
  await adas.editMember({ server_id: server.id, member_id: lin.id, timeout_seconds: 0 })
  const only = { channel_id: channel.id, target_id: lin.id, type: "member" as const, allow: [] }
  await adas.setOverride({ ...only, deny: ["messages.add_reactions"] })
  expect(await refusal(lins.addReaction(of("👍")))).toBe("permission_denied")
  expect(await lins.listReactions(ids)).toEqual([])
  await adas.setOverride({ ...only, deny: ["messages.read"] })
  expect(await refusal(lins.listReactions(ids))).toBe("permission_denied")
  expect(await refusal(lins.listReactors(of("👍")))).toBe("permission_denied")
  await adas.setOverride({ ...only, deny: ["channels.view"] })
  expect(await refusal(lins.addReaction(of("👍")))).toBe("access_denied")
  await ada.on(shared.west).addReaction(of("👍"))
})

test("the emoji is the rest of the path, decoded once", async ({ shared }) => {
  const { lin, ids, lins } = await posted(shared)
  const reactions = `/api/v1/channels/${ids.channel_id}/messages/${ids.message_id}/reactions`
  const put = (rest: string) =>
    send(shared.east, `${reactions}/${rest}`, { method: "PUT", token: lin.token }).then(({ status }) => status)
  expect(await put("%F0%9F%91%8D")).toBe(200)
  expect(await put(":boat:")).toBe(200)
  for (const rest of ["%25F0%259F%2591%258D", "a/b", "a%2Fb", "", "%20", "%C3"])
    expect([rest, await put(rest)]).toEqual([rest, 400])
  expect((await lins.listReactions(ids)).map(({ emoji }) => emoji)).toEqual(["👍", ":boat:"])
})

test("a custom emoji is one however it is written, and for those who may use it", async ({ shared }) => {
  const { ada, lin, server, ids, of, adas, lins } = await posted(shared)
  const image = fileOf(apng())
  const gull = await adas.createEmoji({ server_id: server.id, name: "gull", image })
  const custom = { url: gull.url, is_custom: true, custom_emoji_id: gull.id }
  const inbox = await lin.listen(shared.west)
  await lins.addReaction(of(`<:gull:${gull.id}>`))
  await adas.addReaction(of(gull.id))
  expect(await inbox.next("MESSAGE_REACTION_ADD")).toMatchObject({ emoji: `<:gull:${gull.id}>`, count: 1, ...custom })
  expect(await inbox.next("MESSAGE_REACTION_ADD")).toMatchObject({ emoji: gull.id, count: 2, ...custom })
  expect(await lins.listReactions(ids)).toEqual([{ emoji: `<:gull:${gull.id}>`, count: 2, me: true, ...custom }])
  expect(await lins.listReactors(of(`<a:other:${gull.id}>`))).toHaveLength(2)
  await lins.removeReaction(of(gull.id))

  // Of another server, in which Ada is and Lin is not.
  const elsewhere = await ada.on(shared.west).createServer({ name: "Elsewhere" })
  const crab = await adas.createEmoji({ server_id: elsewhere.id, name: "crab", image })
  const foreign = of(`<:crab:${crab.id}>`)
  expect(await refusal(lins.addReaction(of(plantedId())))).toBe("invalid_emoji")
  expect(await refusal(lins.addReaction(foreign))).toBe("invalid_emoji")
  const everyone = { channel_id: ids.channel_id, target_id: server.id, type: "role" as const }
  await adas.setOverride({ ...everyone, allow: ["messages.use_external_emojis"], deny: [] })
  expect(await refusal(lins.addReaction(foreign))).toBe("invalid_emoji")
  await adas.addReaction(foreign)
  // Who joins it needs no more than to see it.
  await lins.addReaction(foreign)
  await adas.removeReaction(foreign)
  await adas.deleteEmoji({ server_id: elsewhere.id, emoji_id: crab.id })
  await adas.addReaction(foreign)
  await adas.removeReaction(foreign)
  await lins.removeReaction(foreign)
  expect(await refusal(adas.addReaction(foreign))).toBe("invalid_emoji")
  expect(await lins.listReactions(ids)).toMatchObject([{ count: 1, me: false }])

  const { code } = await adas.createInvite({
    channel_id: (await adas.listChannels({ server_id: elsewhere.id }))[0]!.id,
  })
  const boat = await adas.createEmoji({ server_id: elsewhere.id, name: "boat", image })
  const channel_id = await dmBetween(ada, lin, shared.east)
  const { id: message_id } = await adas.createMessage({ channel_id, content: "psst" })
  const whisper = { channel_id, message_id, emoji: boat.id }
  expect(await refusal(lins.addReaction(whisper))).toBe("invalid_emoji")
  await lins.joinByInvite({ invite_code: code })
  await lins.addReaction(whisper)
})

test("REACT2: a message has at most twenty different emoji; anybody may join one of them", async ({ shared }) => {
  const { ids, of, adas, lins } = await posted(shared)
  const names = Array.from({ length: 30 }, (_, i) => `name_${i}`)
  const settled = await Promise.all(
    names.map((name, i) => refusal((i % 2 ? adas : lins).addReaction(of(name))).catch(() => "taken")),
  )
  expect(settled.filter(outcome => outcome === "reaction_limit")).toHaveLength(10)
  const taken = await adas.listReactions(ids)
  expect(taken).toHaveLength(20)
  for (const { emoji } of taken.slice(0, 3)) await Promise.all([adas, lins].map(rest => rest.addReaction(of(emoji))))
  expect(await refusal(adas.addReaction(of("one_more")))).toBe("reaction_limit")
  await Promise.all([adas, lins].map(rest => rest.removeReaction(of(taken[0]!.emoji))))
  await adas.addReaction(of("one_more"))
  expect((await adas.listReactions(ids)).map(({ emoji }) => emoji)).toEqual([
    ...taken.slice(1).map(({ emoji }) => emoji),
    "one_more",
  ])
})

test("REACT1: whatever many do at once, each tally is the number of those who use it", async ({ shared }) => {
  const { ada, lin, ids, of } = await posted(shared)
  const model = new Map<string, boolean>()
  const few = ["👍", "🔥", ":gull:"]
  for (let round = 0; round < 6; round++) {
    // Of one user and emoji the last that is asked is asked alone: what came out is known.
    const bursts = [ada, lin].flatMap(person =>
      few.map(async emoji => {
        const rest = () => person.on(randomInt(2) ? shared.east : shared.west)
        await Promise.all(
          Array.from({ length: 3 }, () =>
            randomInt(2) ? rest().addReaction(of(emoji)) : rest().removeReaction(of(emoji)),
          ),
        )
        const isOn = randomInt(2) === 1
        await (isOn ? rest().addReaction(of(emoji)) : rest().removeReaction(of(emoji)))
        model.set(`${person.id} ${emoji}`, isOn)
      }),
    )
    await Promise.all(bursts)
    for (const person of [ada, lin]) {
      const shown = await person.on(shared.west).listReactions(ids)
      const expected = few.flatMap(emoji => {
        const count = [ada, lin].filter(({ id }) => model.get(`${id} ${emoji}`)).length
        return count === 0 ? [] : [plain(emoji, count, model.get(`${person.id} ${emoji}`)!)]
      })
      expect(shown.toSorted(byEmoji)).toEqual(expected.toSorted(byEmoji))
      for (const emoji of few)
        expect((await person.on(shared.east).listReactors(of(emoji))).map(({ user_id }) => user_id)).toEqual(
          [ada, lin]
            .map(({ id }) => id)
            .filter(id => model.get(`${id} ${emoji}`))
            .toSorted((a, b) => (BigInt(a) < BigInt(b) ? -1 : 1)),
        )
    }
  }
})

test("the users of an emoji are read in pages, in the order of ids; when they are many, none is in memory", async ({
  shared,
}) => {
  const { ada, ids, of, adas, lins } = await posted(shared)
  const people = Array.from({ length: 120 }, () => plantedId(7))
  await shared.sql`
    INSERT INTO reactors (channel_id, message_id, emoji, user_id, reacted_at)
    SELECT ${ids.channel_id}, ${ids.message_id}, '👍', id, 1704153600 FROM unnest(${people}::bigint[]) AS id`
  const { id: fresh } = await adas.createMessage({ channel_id: ids.channel_id, content: "other" })
  expect(await adas.listReactors({ ...of("👍"), message_id: fresh })).toEqual([])
  expect(await adas.listReactors(of("🔥"))).toEqual([])
  const first = await lins.listReactors(of("👍"))
  expect(first).toEqual(people.slice(0, 50).map(user_id => ({ user_id, reacted_at: 1_704_153_600 })))
  const page = async (after: string, limit?: string) =>
    (await lins.listReactors({ ...of("👍"), after, ...(limit && { limit }) })).map(({ user_id }) => user_id)
  expect(await page(people[49]!, "100")).toEqual(people.slice(50))
  expect(await page(people[119]!)).toEqual([])
  await adas.addReaction(of("👍"))
  expect(await page(people[119]!)).toEqual([ada.id])
})

test("taken back and given again in one commit, it is given when it was given again", async ({ shared }) => {
  const { lin, ids, of, lins } = await posted(shared)
  await lins.addReaction(of("👍"))
  const row = { ...ids, emoji: "👍", user_id: lin.id, reactions: [] }
  const writes = [null, 1_704_153_600].map(reacted_at => putReaction({ ...row, reacted_at }))
  await writes[0]!.kind.statement(
    shared.sql,
    writes.map(write => write.row),
  )
  expect(await lins.listReactors(of("👍"))).toEqual([{ user_id: lin.id, reacted_at: 1_704_153_600 }])
})

test("what was reacted goes with its message, however it goes; many later, in pieces", async ({ shared }) => {
  const { ada, lin, channel, ids, adas, lins } = await posted(shared)
  const { sql } = shared
  const reactors = async () =>
    (await sql<{ count: number }[]>`SELECT count(*)::int AS count FROM reactors WHERE channel_id = ${channel.id}`)[0]!
      .count
  const reacted = async (nonce?: string) => {
    const { id: message_id } = await lins.createMessage({
      channel_id: channel.id,
      content: "x",
      ...(nonce && { nonce }),
    })
    for (const rest of [adas, lins]) await rest.addReaction({ ...ids, message_id, emoji: "👍" })
    return message_id
  }
  for (const nonce of [undefined, "n"]) await adas.deleteMessage({ ...ids, message_id: await reacted(nonce) })
  expect(await reactors()).toBe(0)
  await adas.bulkDeleteMessages({ ...ids, messages: [await reacted(), await reacted("m")] })
  expect(await reactors()).toBe(0)

  // A repeat of a deleted message's nonce answers without what was reacted to it.
  expect((await lins.createMessage({ channel_id: channel.id, content: "x", nonce: "n" })).reactions).toEqual([])

  // Reacting and deleting at once leaves nothing behind.
  const raced = await reacted()
  await Promise.allSettled([
    lins.removeReaction({ ...ids, message_id: raced, emoji: "👍" }),
    lins.addReaction({ ...ids, message_id: raced, emoji: "🔥" }),
    adas.deleteMessage({ ...ids, message_id: raced }),
    lins.addReaction({ ...ids, message_id: raced, emoji: "🌊" }),
  ])
  expect(await reactors()).toBe(0)

  const planted = await plantServer(shared, { owner: ada, members: [lin] })
  const { channel_id } = planted
  /** A message that so many have reacted to. */
  const popularWith = async (count: number) => {
    const id = plantedId()
    const tallies = JSON.stringify([{ emoji: "👍", count, custom_emoji_id: null, url: null }])
    await sql`
      INSERT INTO messages (channel_id, id, server_id, author_id, content, reactions)
      VALUES (${channel_id}, ${id}, ${planted.server_id}, ${ada.id}, 'x', ${tallies}::text::json)`
    await sql`
      INSERT INTO reactors (channel_id, message_id, emoji, user_id, reacted_at)
      SELECT ${channel_id}, ${id}, '👍', id, 1 FROM generate_series(1, ${count}::int) AS id`
    return id
  }
  const storage = { reactions: reactionsStorage(sql) }
  const left = async () =>
    (await storage.reactions.named({ channel_id: "0", message_id: "0" }, 100)).filter(
      one => one.channel_id === channel_id,
    )
  await adas.bulkDeleteMessages({ channel_id, messages: [await popularWith(100), await popularWith(100)] })
  expect(await left()).toEqual([])
  const many = [await popularWith(100), await popularWith(101)]
  await adas.bulkDeleteMessages({ channel_id, messages: many })
  expect(new Set(await left())).toEqual(new Set(many.map(message_id => ({ channel_id, message_id, is_gone: true }))))

  const popular = await popularWith(12_000)
  const place = { channel_id, message_id: popular }
  const named = async () => (await left()).filter(one => one.message_id === popular)
  expect(await named()).toEqual([{ ...place, is_gone: false }])
  await adas.addReaction({ ...place, emoji: "👍" })
  expect((await lins.listReactions(place))[0]!.count).toBe(12_001)
  await adas.deleteMessage(place)
  expect(await named()).toEqual([{ ...place, is_gone: true }])
  const pieces: number[] = []
  const purge = async (...asked: Parameters<typeof storage.reactions.purge>) => {
    const count = await storage.reactions.purge(...asked)
    pieces.push(count)
    return count
  }
  const tools = { storage: { reactions: { ...storage.reactions, purge } }, signal: new AbortController().signal }
  await purgeReactors(tools as unknown as JobTools, place)
  expect(pieces).toEqual([5_000, 5_000, 2_001])
  expect(await named()).toEqual([])
})
