import { randomInt } from "node:crypto"
import { clusterConfig } from "../../cluster.config.ts"
import type { Message } from "../../src/contract/messages/messages.ts"
import { compareIds, shardOf } from "../../src/domain/core/snowflake.ts"
import type { MessageState } from "../../src/domain/messages/messages.ts"
import type { PagePlace } from "../../src/domain/core/page-place.ts"
import { openPool } from "../../src/storage/core/database.ts"
import { messagesStorage } from "../../src/storage/messages/messages.ts"
import type { Person } from "../kit/person.ts"
import { plantServer, plantedId, sharedServer } from "../kit/seeds.ts"
import { refusal } from "../kit/conformance.ts"
import { expect, test } from "../kit/test.ts"

test("pages go newest first, or oldest first after a message, and never miss or repeat one", async ({ shared }) => {
  const [ada, lin] = await Promise.all([shared.person("ada"), shared.person("lin")])
  const { server_id, channel_id } = await plantServer(shared, { owner: ada, members: [lin] })
  const ids = Array.from({ length: 230 }, () => plantedId(shardOf(server_id)))
  await shared.sql`
    INSERT INTO messages (channel_id, id, server_id, author_id, content)
    SELECT ${channel_id}, id, ${server_id}, ${ada.id}, 'planted' FROM unnest(${ids}::bigint[]) AS id`
  const page = async (
    query: { limit?: string; before?: string; after?: string; around?: string },
    place = shared.east,
  ) => (await lin.on(place).listMessages({ channel_id, ...query })).map(({ id }) => id)
  const newestFirst = ids.toReversed()

  expect(await page({})).toEqual(newestFirst.slice(0, 50))
  expect(await page({ limit: "1" })).toEqual(newestFirst.slice(0, 1))
  expect(await page({ limit: "100" })).toEqual(newestFirst.slice(0, 100))
  expect(await page({ before: ids[100]! })).toEqual(ids.slice(50, 100).reverse())
  expect(await page({ after: ids[100]! })).toEqual(ids.slice(101, 151))
  expect(await page({ before: ids[100]!, after: ids[20]!, limit: "3" })).toEqual(ids.slice(97, 100).reverse())
  expect(await page({ before: ids[0]! })).toEqual([])
  expect(await page({ after: ids[229]! })).toEqual([])
  expect(await page({ after: "0", limit: "2" })).toEqual(ids.slice(0, 2))
  expect(await page({ before: "9223372036854775807", limit: "2" })).toEqual(newestFirst.slice(0, 2))
  // Around a message half of what is left is newer; it wins over both others.
  expect(await page({ around: ids[100]!, limit: "5" })).toEqual(ids.slice(98, 103).reverse())
  expect(await page({ around: ids[100]! })).toEqual(ids.slice(75, 125).reverse())
  expect(await page({ around: ids[100]!, limit: "2", before: ids[9]!, after: ids[9]! })).toEqual([ids[100], ids[99]])
  expect(await page({ around: ids[100]!, limit: "1" })).toEqual([ids[100]])
  expect(await page({ around: ids[229]!, limit: "4" })).toEqual(newestFirst.slice(0, 3))
  expect(await page({ around: ids[0]!, limit: "4" })).toEqual([ids[1], ids[0]])
  expect(await page({ around: "0", limit: "5" })).toEqual([ids[1], ids[0]])
  expect(await page({ around: "9223372036854775807", limit: "5" })).toEqual(newestFirst.slice(0, 3))
  // Positions need not be messages.
  const between = (BigInt(ids[10]!) + 1n).toString()
  expect((await page({ after: between, limit: "1" }))[0]).toBe(BigInt(ids[11]!) === BigInt(between) ? ids[12] : ids[11])

  for (const [key, start] of [
    ["before", "9223372036854775807"],
    ["after", "0"],
  ] as const) {
    const walked: string[] = []
    for (let at: string = start, i = 0; ; i++) {
      const found = await page({ [key]: at, limit: "70" }, i % 2 ? shared.east : shared.west)
      if (found.length === 0) break
      walked.push(...found)
      at = found.at(-1)!
    }
    expect(walked).toEqual(key === "before" ? newestFirst : ids)
  }
})

test("what is out of range is a validation error", async ({ shared }) => {
  const { channel, ada } = await shared.seed(sharedServer)
  const { listMessages } = ada.on(shared.east)
  const channel_id = channel.id
  for (const limit of ["0", "101", "-1", "1.5", "ten", "", "1e1", "99999999999999999999", " 5"])
    expect(await refusal(listMessages({ channel_id, limit }))).toBe("validation_failed")
  for (const id of ["x", "-1", "", "1.5", "9223372036854775808", "0x1", "１"]) {
    expect(await refusal(listMessages({ channel_id, before: id }))).toBe("validation_failed")
    expect(await refusal(listMessages({ channel_id, after: id }))).toBe("validation_failed")
    expect(await refusal(listMessages({ channel_id, around: id }))).toBe("validation_failed")
  }
  expect(await listMessages({ channel_id, nonsense: "is ignored" } as never)).toEqual([])
})

test("history is for those who see the channel", async ({ shared }) => {
  const { channel, ada, lin } = await shared.seed(sharedServer)
  const eve = await shared.person("eve")
  const secret = await plantServer(shared, { owner: ada, members: [lin], everyone: ["channels.view"] })
  expect(await refusal(eve.on(shared.east).listMessages({ channel_id: channel.id }))).toBe("access_denied")
  expect(await refusal(lin.on(shared.west).listMessages({ channel_id: secret.channel_id }))).toBe("permission_denied")
  expect(await refusal(lin.on(shared.west).listMessages({ channel_id: "1" }))).toBe("channel_not_found")
  expect(await refusal(lin.on(shared.west).listMessages({ channel_id: "x" }))).toBe("invalid_channel_id")
  expect(await ada.on(shared.west).listMessages({ channel_id: secret.channel_id })).toEqual([])
})

test("a page has of each message what the message has by itself", async ({ shared }) => {
  const [ada, lin] = await Promise.all([shared.person("ada"), shared.person("lin")])
  const { server_id, channel_id } = await plantServer(shared, { owner: ada, members: [lin] })
  const [gone, ...ids] = Array.from({ length: 15 }, () => plantedId(shardOf(server_id)))
  const rare = {
    edited_at: 1_700_000_000,
    webhook_id: plantedId(shardOf(server_id)),
    webhook_name: 'hook, {"line"}\n',
    webhook_avatar_url: "https://a.example/ ,",
    embeds: [{ title: "a", number: 1e300, none: null, text: "\u0001 \u2028 \ud83e\uddea" }],
    attachments: [{ id: "7", file: "f", filename: "n", content_type: "t", size: 1, hash: "h" }],
    reactions: [{ emoji: "🧪", count: 2, url: null, custom_emoji_id: null }],
    poll: { id: "8", question: "q", options: [] },
    pinned_at: 1_700_000_000_000,
  }
  const rows = [
    { content: " leading, trailing \t\n", reply_to_id: gone, nonce: 'a b",\\' },
    { content: null, author_id: gone },
    { content: "", author_id: gone, webhook_name: "named" },
    ...Object.entries(rare).map(([column, value]) => ({ content: column, [column]: value })),
    { content: "all", ...rare },
    { content: "of another author", author_id: lin.id, reply_to_id: ids[0] },
  ]
  expect(rows).toHaveLength(ids.length)
  for (const [i, row] of rows.entries())
    await shared.sql`INSERT INTO messages ${shared.sql({ channel_id, id: ids[i]!, server_id, author_id: ada.id, ...row } as never)}`
  await shared.sql`UPDATE users SET bot = true, badges = ARRAY['staff', 'a "b", c'] WHERE id = ${ada.id}`
  const sql = openPool({ ...clusterConfig.storage, url: shared.databaseUrl, connections: 1, name: "test" })
  try {
    const { page, find } = messagesStorage(sql)
    const each = [...(await find(channel_id, ids)).values()].toSorted((a, b) => compareIds(b.id, a.id))
    expect(each).toHaveLength(ids.length)
    expect(await page(channel_id, { limit: 50 })).toEqual({ messages: each, isCut: false })
    expect(await page(channel_id, { limit: 50, after: "0" })).toEqual({ messages: each.toReversed(), isCut: false })
    expect(await page(channel_id, { limit: 50, around: ids[3]! })).toEqual({ messages: each, isCut: false })
    expect(await page("1", { limit: 50 })).toEqual({ messages: [], isCut: false })
  } finally {
    await sql.end()
  }
})

test("deep in a channel a page says of its messages what each says by itself, to a member who may read it then", async ({
  shared,
}) => {
  const [ada, lin, eve] = await Promise.all([shared.person("ada"), shared.person("lin"), shared.person("eve")])
  const { server_id, channel_id } = await plantServer(shared, { owner: ada, members: [lin] })
  const here = lin.on(shared.east)
  const sent: Message[] = []
  for (let i = 0; i < 6; i++)
    sent.push(await (i % 2 ? here : ada.on(shared.west)).createMessage({ channel_id, content: `“${i}”\n` }))
  await here.addReaction({ channel_id, message_id: sent[2]!.id, emoji: "👍" })
  await ada.on(shared.west).ackMessages({ channel_id, message_id: sent[5]!.id })
  const before = sent[5]!.id
  for (const place of [shared.east, shared.west, shared.east]) {
    const page = await lin.on(place).listMessages({ channel_id, before })
    const each = await Promise.all(page.map(({ id }) => here.getMessage({ channel_id, message_id: id })))
    expect(page.map(({ id }) => id)).toEqual(
      sent
        .slice(0, 5)
        .map(({ id }) => id)
        .reverse(),
    )
    expect(page).toEqual(each)
    expect(page.map(({ read_by }) => read_by.length)).toEqual([0, 1, 0, 1, 0])
    expect(await refusal(eve.on(place).listMessages({ channel_id, before }))).toBe("access_denied")
  }
  await here.leaveServer({ server_id })
  for (const place of [shared.east, shared.west])
    expect(await refusal(lin.on(place).listMessages({ channel_id, before }))).toBe("access_denied")
})

test("P4: what was acknowledged is on the first page of any worker at once", async ({ shared }) => {
  const { channel, ada, lin } = await shared.seed(sharedServer)
  for (let i = 0; i < 20; i++) {
    const [here, there] = i % 2 ? [shared.east, shared.west] : [shared.west, shared.east]
    const { id } = await ada.on(here).createMessage({ channel_id: channel.id, content: `${i}` })
    const [newest] = await lin.on(there).listMessages({ channel_id: channel.id, limit: "1" })
    expect(newest!.id).toBe(id)
  }
})

test("HIST1: a channel that is being read is read from memory, and shows what PostgreSQL has, whatever happens to it", async ({
  shared,
}) => {
  const { sql, east, west } = shared
  const { channel, server, ada, lin } = await shared.seed(sharedServer)
  const channel_id = channel.id
  const { page } = messagesStorage(sql)
  const places = [east, west]
  const rest = (person: Person) => person.on(places[randomInt(2)]!)
  const queries: PagePlace[] = [{ limit: 50 }, { limit: 100 }, { limit: 3 }]
  const shownOf = (message: Message) => [
    message.id,
    message.content,
    message.pinned,
    message.reactions.map(({ emoji, count }) => [emoji, count]),
    message.author_username,
  ]
  const storedOf = ({ id, content, pinned_at, reactions, author_username }: MessageState) => [
    id,
    content,
    Boolean(pinned_at),
    (reactions ?? []).map(({ emoji, count }) => [emoji, count]),
    author_username,
  ]
  const queryOf = ({ limit, ...place }: PagePlace) => ({ channel_id, limit: `${limit}`, ...place })
  const agree = async () => {
    const ids = (await page(channel_id, { limit: 100 })).messages.map(({ id }) => id)
    const around = ids[randomInt(Math.max(1, ids.length))] ?? "1"
    for (const place of [
      ...queries,
      { limit: 10, before: around },
      { limit: 10, after: around },
      { limit: 9, around },
    ]) {
      const stored = (await page(channel_id, place)).messages.map(storedOf)
      for (const at of places) expect((await lin.on(at).listMessages(queryOf(place))).map(shownOf)).toEqual(stored)
    }
  }
  const posts: { id: string; author: Person }[] = []
  const acts: (() => Promise<unknown>)[] = [
    async () => {
      const author = randomInt(2) ? ada : lin
      const { id } = await rest(author).createMessage({ channel_id, content: `${posts.length} ё "quoted" \\ 🐦` })
      posts.push({ id, author })
    },
    async () => {
      const post = posts[randomInt(posts.length)]
      if (post)
        await rest(post.author).editMessage({ channel_id, message_id: post.id, content: `edited ${randomInt(1e9)}` })
    },
    async () => {
      const [post] = posts.splice(randomInt(posts.length), 1)
      if (post) await rest(ada).deleteMessage({ channel_id, message_id: post.id })
    },
    async () => {
      const post = posts[randomInt(posts.length)]
      if (post) await rest(lin).addReaction({ channel_id, message_id: post.id, emoji: randomInt(2) ? "👍" : "🔥" })
    },
    async () => {
      const post = posts[randomInt(posts.length)]
      if (post) await rest(ada).pinMessage({ channel_id, message_id: post.id })
    },
    () => rest(lin).listMessages({ channel_id }),
    () => rest(ada).listMessages({ channel_id, limit: "100" }),
  ]
  for (let i = 0; i < 6; i++) await acts[0]!()
  for (let round = 0; round < 3; round++) {
    // What goes at once may name what is gone by then.
    await Promise.allSettled(Array.from({ length: 24 }, () => acts[randomInt(3) === 0 ? 0 : randomInt(acts.length)]!()))
    await agree()
  }
  for (const person of [ada, lin]) {
    const own = (await person.on(west).listMessages({ channel_id, limit: "100" })).filter(({ read }) => !read)
    expect(own.every(({ author_id }) => author_id !== person.id)).toBe(true)
  }

  // A change of which the home knows nothing is not seen: no row is read.
  const { id: newest } = await ada.on(east).createMessage({ channel_id, content: "newest" })
  for (const at of places) await lin.on(at).listMessages({ channel_id, limit: "1" })
  await sql`UPDATE messages SET content = 'behind its back' WHERE channel_id = ${channel_id} AND id = ${newest}`
  for (const at of places)
    expect(await lin.on(at).listMessages({ channel_id, limit: "1" })).toMatchObject([{ id: newest, content: "newest" }])

  // Who may not read any more reads nothing of it, and what a member is called now is what is
  // shown.
  const username = shared.newName("lovelace")
  const inbox = await lin.listen(west)
  await shared.bootJobWorker()
  await ada.on(east).editMe({ username })
  await inbox.next("USER_UPDATE")
  for (const at of places)
    expect((await lin.on(at).listMessages({ channel_id, limit: "1" }))[0]!.author_username).toBe(username)
  await ada.on(west).setOverride({ channel_id, target_id: lin.id, type: "member", allow: [], deny: ["messages.read"] })
  for (const at of places) expect(await refusal(lin.on(at).listMessages({ channel_id }))).toBe("permission_denied")
  await ada.on(east).deleteServer({ server_id: server.id })
  for (const at of places) expect(await refusal(ada.on(at).listMessages({ channel_id }))).toBe("channel_not_found")
})
