/** Op 8: lists of members, to users who may have them, however long they are. */
import { monitorEventLoopDelay } from "node:perf_hooks"
import { setTimeout as sleep } from "node:timers/promises"
import type { EventData, ServerFrame } from "../../client/gateway.ts"
import { opcodes } from "../../src/contract/core/gateway-codes.ts"
import { allIntents, bitOf } from "../../src/contract/core/intents.ts"
import { avatarPath } from "../../src/contract/accounts/users.ts"
import type { Cluster } from "../kit/cluster.ts"
import type { Listener, Person } from "../kit/person.ts"
import { identified, Raw } from "../kit/raw.ts"
import { plantServer, sharedServer } from "../kit/seeds.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"

type Chunk = EventData<"GUILD_MEMBERS_CHUNK">

const ask = (d: unknown) => ({ op: opcodes.REQUEST_GUILD_MEMBERS.op, d })
/** All chunks of one answer. */
async function answer(inbox: Listener, d: object): Promise<Chunk[]> {
  inbox.send(ask(d))
  const chunks = [await inbox.next("GUILD_MEMBERS_CHUNK")]
  while (chunks.length < chunks[0]!.chunk_count) chunks.push(await inbox.next("GUILD_MEMBERS_CHUNK"))
  return chunks
}
const idsOf = (chunks: readonly Chunk[]) => chunks.flatMap(({ members }) => members.map(({ user_id }) => user_id))
const inOrder = (ids: readonly string[]) => ids.toSorted((a, b) => Number(BigInt(a) - BigInt(b)))

let planted = 0
/** A server in the tables with so many more members than people, named `many<n>_<i>`. */
async function plantCrowd(cluster: Cluster, owner: Person, members: readonly Person[], size: number) {
  const number = ++planted
  const { server_id, channel_id } = await plantServer(cluster, {
    owner,
    members,
    memberCount: size + 1 + members.length,
  })
  const first = number * 1_000_000_000_000_000
  const { sql } = cluster
  await sql`
    INSERT INTO users (id, username, created_at)
    SELECT ${first} + i * 4096::bigint, ${`many${number}_`} || i, 1704153600 FROM generate_series(1, ${size}::int) AS i`
  await sql`
    INSERT INTO members (server_id, user_id, joined_at)
    SELECT ${server_id}, ${first} + i * 4096::bigint, 1704153600 + i FROM generate_series(1, ${size}::int) AS i`
  const ids = Array.from({ length: size }, (_, i) => String(first + (i + 1) * 4096))
  return { server_id, channel_id, name: (i: number) => `many${number}_${i}`, ids }
}

test("a member asks for all members and gets them, in the order of their ids, on that connection only", async ({
  shared,
}) => {
  const { server, ada, lin } = await shared.seed(sharedServer)
  const server_id = server.id
  const role = await ada.on(shared.east).createRole({ server_id, name: "Crew" })
  await ada.on(shared.east).giveRole({ server_id, member_id: lin.id, role_id: role.id })
  await shared.sql`UPDATE members SET nickname = 'Linnet' WHERE server_id = ${server_id} AND user_id = ${lin.id}`
  const [inbox, packed, small, other] = await Promise.all([
    lin.listen(shared.west),
    lin.listen(shared.west, { encoding: "msgpack" }),
    lin.listen(shared.east, { compress: true }),
    ada.listen(shared.west),
  ])
  await shared.settle()
  inbox.rest()
  const [chunk, ...more] = await answer(inbox, { guild_id: server_id })
  expect(more).toEqual([])
  const shown = ({ id, username }: Person) => ({ user_id: id, username, avatar_url: avatarPath(id), bot: false })
  const about = { joined_at: expect.any(Number) as number, presence: { status: "online" } }
  expect(chunk).toEqual({
    guild_id: server_id,
    server_id,
    members: [
      { ...shown(ada), nickname: null, roles: [server_id], ...about },
      { ...shown(lin), nickname: "Linnet", roles: [server_id, role.id], ...about },
    ].toSorted((a, b) => Number(BigInt(a.user_id) - BigInt(b.user_id))),
    chunk_index: 0,
    chunk_count: 1,
    not_found: [],
  })
  expect(await answer(inbox, { server_id: server_id })).toEqual([chunk])
  expect(await answer(packed, { guild_id: server_id })).toEqual([chunk])
  expect(await answer(small, { guild_id: server_id })).toEqual([chunk])
  await shared.settle()
  for (const one of [inbox, packed, small, other])
    expect(one.rest().filter(({ name }) => name === "GUILD_MEMBERS_CHUNK")).toEqual([])
})

test("names are looked for by their beginnings, in any case of letters and without patterns; ids are looked up", async ({
  shared,
}) => {
  const [ada, lin] = await Promise.all([shared.person("ada"), shared.person("lin")])
  const { server_id, ids, name } = await plantCrowd(shared, ada, [lin], 30)
  await shared.sql`UPDATE members SET nickname = '100%_Real\\' WHERE server_id = ${server_id} AND user_id = ${ids[4]!}`
  await shared.sql`UPDATE members SET nickname = 'ÄRA' WHERE server_id = ${server_id} AND user_id = ${ids[5]!}`
  await shared.sql`UPDATE members SET nickname = ${name(99)} WHERE server_id = ${server_id} AND user_id = ${ids[6]!}`
  const inbox = await ada.listen(shared.east)
  const found = async (d: object) => idsOf(await answer(inbox, { guild_id: server_id, presences: false, ...d }))
  expect(await found({ query: name(1) })).toEqual([ids[0], ...ids.slice(9, 19)])
  expect(await found({ query: name(1).toUpperCase() })).toEqual([ids[0], ...ids.slice(9, 19)])
  expect(await found({ query: name(1), limit: 3 })).toEqual([ids[0], ids[9], ids[10]])
  // Both their names begin so, and they are listed once.
  expect(await found({ query: name(7).slice(0, -1), limit: 7 })).toEqual(ids.slice(0, 7))
  expect(await found({ query: name(99) })).toEqual([ids[6]])
  expect(await found({ query: "ära" })).toEqual([ids[5]])
  expect(await found({ query: "100%_rEAL\\" })).toEqual([ids[4]])
  for (const query of ["%", "_", "\\", "100_", "nobody", "rowd", "'; DROP TABLE members; --"])
    expect(await found({ query }), query).toEqual([])
  expect(await found({ query: "", limit: 2 })).toEqual(ids.slice(0, 2))
  expect(await found({ query: "", limit: 0 })).toHaveLength(32)
  expect(await found({ query: null, limit: null, user_ids: null, nonce: null, server_id: null })).toHaveLength(32)
  // Nobody is asked for, and that is what comes.
  expect(await answer(inbox, { guild_id: server_id, user_ids: [], query: name(1) })).toMatchObject([
    { members: [], not_found: [], chunk_index: 0, chunk_count: 1 },
  ])

  const stranger = await shared.person("stranger")
  const asked = [ids[3]!, stranger.id, lin.id, ids[1]!, "1", ids[3]!]
  const [chunk] = await answer(inbox, { guild_id: server_id, user_ids: asked, nonce: "é🐦", limit: 1, query: "x" })
  expect(idsOf([chunk!])).toEqual(inOrder([ids[3]!, lin.id, ids[1]!]))
  expect(chunk).toMatchObject({ not_found: [stranger.id, "1"], nonce: "é🐦", chunk_index: 0, chunk_count: 1 })
  expect(await found({ user_ids: lin.id })).toEqual([lin.id])
  expect(await found({ user_ids: Array.from({ length: 100 }, (_, i) => String(i)) })).toEqual([])
})

test("names that very many begin with come in chunks like everybody", async ({ shared }) => {
  const [ada, lin] = await Promise.all([shared.person("ada"), shared.person("lin")])
  const { server_id, ids, name } = await plantCrowd(shared, ada, [lin], 3_000)
  await shared.sql`UPDATE members SET nickname = ${name(1)} WHERE server_id = ${server_id} AND user_id = ${lin.id}`
  const inbox = await ada.listen(shared.west)
  const query = name(1).slice(0, -1)
  const all = inOrder([...ids, lin.id])
  const sizes = (chunks: readonly Chunk[]) => chunks.map(({ members }) => members.length)
  const chunks = await answer(inbox, { guild_id: server_id, query, nonce: "n" })
  expect(idsOf(chunks)).toEqual(all)
  expect(sizes(chunks)).toEqual([1_000, 1_000, 1_000, 1])
  expect(chunks.map(({ chunk_index, chunk_count, nonce }) => [chunk_index, chunk_count, nonce])).toEqual(
    [0, 1, 2, 3].map(index => [index, 4, "n"]),
  )
  const some = await answer(inbox, { guild_id: server_id, query, limit: 1_500 })
  expect(idsOf(some)).toEqual(all.slice(0, 1_500))
  expect(sizes(some)).toEqual([1_000, 500])
  expect(sizes(await answer(inbox, { guild_id: server_id, limit: 2_000 }))).toEqual([1_000, 1_000])
})

test("presence is what the asker may see: who is blocked or hides is offline, and it is left out where it is not wanted", async ({
  shared,
}) => {
  const people = await Promise.all(["ada", "lin", "mo", "eve", "ida", "away"].map(name => shared.person(name)))
  const [ada, lin, mo, eve, ida] = people as [Person, Person, Person, Person, Person, Person]
  const { server_id } = await plantServer(shared, { owner: ada, members: people.slice(1) })
  const [inbox] = await Promise.all([ada, lin, mo, eve, ida].map(person => person.listen(shared.east)))
  await shared.sql`
    INSERT INTO relationships (user_id, other_id, status, created_at)
    VALUES (${ada.id}, ${mo.id}, 'blocked', 1704153600), (${eve.id}, ${ada.id}, 'blocked', 1704153600)`
  await ida.on(shared.west).updatePresence({ status: "invisible" })
  await shared.settle()
  const seen = async () => {
    const [chunk] = await answer(inbox!, { guild_id: server_id })
    return people.map(({ id }) => chunk!.members.find(({ user_id }) => user_id === id)?.presence?.status)
  }
  await until("all are seen as they are", async () => {
    const all = await seen()
    return all.join(" ") === "online online offline offline offline offline"
  })
  const [without] = await answer(inbox!, { guild_id: server_id, presences: false })
  for (const member of without!.members) expect(member).not.toHaveProperty("presence")
})

test("what is malformed, or not the asker's to know, is not answered, and the connection stays", async ({ shared }) => {
  const { server, ada, lin } = await shared.seed(sharedServer)
  const eve = await shared.person("eve")
  const guild_id = server.id
  const [inbox, stranger, deaf] = await Promise.all([
    lin.listen(shared.east),
    eve.listen(shared.east),
    ada.listen(shared.east, { intents: allIntents & ~bitOf("GUILD_MEMBERS") }),
  ])
  const malformed: unknown[] = [
    undefined,
    null,
    [],
    "x",
    5,
    {},
    { guild_id: null },
    { guild_id: "" },
    { guild_id: "x" },
    { guild_id: -1 },
    { guild_id: 1.5 },
    { guild_id: [guild_id] },
    { guild_id: { id: guild_id } },
    { guild_id: "9".repeat(30) },
    { guild_id: true },
    { guild_id, server_id: "x" },
    { guild_id, query: 5 },
    { guild_id, query: ["a"] },
    { guild_id, query: "x".repeat(101) },
    { guild_id, query: "a\0" },
    { guild_id, query: "\ud800" },
    { guild_id, limit: -1 },
    { guild_id, limit: 1.5 },
    { guild_id, limit: "5" },
    { guild_id, limit: 1e300 },
    { guild_id, user_ids: ["x"] },
    { guild_id, user_ids: [null] },
    { guild_id, user_ids: [[lin.id]] },
    { guild_id, user_ids: { 0: lin.id } },
    { guild_id, user_ids: Array.from({ length: 101 }, (_, i) => String(i)) },
    { guild_id, presences: "yes" },
    { guild_id, nonce: 5 },
    { guild_id, nonce: "x".repeat(65) },
    { guild_id, nonce: "\udc00" },
    // Nobody's.
    { guild_id: "1" },
    { guild_id: "9223372036854775807" },
  ]
  for (const d of malformed) inbox.send(ask(d))
  // JSON that an object literal cannot say.
  inbox.send(`{"op":8,"d":{"__proto__":{"guild_id":"${guild_id}"}}}`)
  stranger.send(ask({ guild_id }))
  deaf.send(ask({ guild_id }))
  const [chunk] = await answer(inbox, { guild_id, nonce: "x".repeat(64) })
  expect(chunk!.members).toHaveLength(2)
  await shared.settle()
  for (const one of [inbox, stranger, deaf]) {
    expect(one.rest().filter(({ name }) => name === "GUILD_MEMBERS_CHUNK")).toEqual([])
    await one.heartbeatNow()
    expect(one.state).toBe("live")
  }
})

test("a user who left a moment ago gets nothing, and one who joined a moment ago does", async ({ shared }) => {
  const { server, channel, ada, lin } = await shared.seed(sharedServer)
  const mo = await shared.person("mo")
  const [leaving, joining] = await Promise.all([lin.listen(shared.west), mo.listen(shared.west)])
  const { code } = await ada.on(shared.east).createInvite({ channel_id: channel.id })
  await lin.on(shared.east).leaveServer({ server_id: server.id })
  leaving.send(ask({ guild_id: server.id }))
  await mo.on(shared.east).joinByInvite({ invite_code: code })
  await joining.next("GUILD_CREATE")
  expect(idsOf(await answer(joining, { guild_id: server.id }))).toEqual(inOrder([ada.id, mo.id]))
  await shared.settle()
  expect(leaving.rest().filter(({ name }) => name === "GUILD_MEMBERS_CHUNK")).toEqual([])
})

const chunksOf = (raw: Raw) =>
  raw.frames.flatMap(frame => (frame.t === "GUILD_MEMBERS_CHUNK" ? [frame as ServerFrame & { d: Chunk }] : []))
const isComplete = (raw: Raw) => {
  const chunks = chunksOf(raw)
  return chunks.length > 0 && chunks.at(-1)!.d.chunk_index + 1 === chunks.at(-1)!.d.chunk_count
}
/**
 * How long the event loop was held up at most while something was done, and how long that
 * took.
 */
async function longestPause(action: () => Promise<unknown>): Promise<{ pauseMs: number; tookMs: number }> {
  const delays = monitorEventLoopDelay({ resolution: 5 })
  const startedAt = performance.now()
  delays.enable()
  await action()
  delays.disable()
  return { pauseMs: delays.max / 1e6, tookMs: performance.now() - startedAt }
}

test("a hundred thousand members come once each, in order, while everybody else goes on and the event loop does not pause", async ({
  shared,
}) => {
  const { channel, ada, lin } = await shared.seed(sharedServer)
  const size = 100_000
  const big = await plantCrowd(shared, ada, [lin], size)
  const [asking, again, other] = await Promise.all([
    identified(shared.east, lin.token, { d: { intents: allIntents } }),
    identified(shared.east, ada.token, { d: { intents: allIntents, compress: true } }),
    ada.listen(shared.east, { intents: bitOf("GUILD_MESSAGES") }),
  ])
  const over = new AbortController()
  let sent = 0
  const talk = async () => {
    for (; !over.signal.aborted; sent++)
      await ada.on(shared.west).createMessage({ channel_id: channel.id, content: `message ${sent}` })
  }
  const talking = talk()
  // The first time code is compiled, plans are made, and the rows are read from disk.
  asking.say(ask({ guild_id: big.server_id, limit: 2_000 }))
  await until("warm", () => isComplete(asking), { timeoutMs: 30_000 })
  asking.frames.length = 0
  const readers = [asking, again]
  const begun = readers.map(raw => raw.messages.length)
  for (const raw of readers) raw.postpone()
  // A thousand members take more than any of the messages in between.
  const isLong = (message: string | Uint8Array) => message.length > 5_000
  const whileAsked = await longestPause(async () => {
    asking.say(ask({ guild_id: big.server_id, nonce: "all" }))
    again.say(ask({ guild_id: big.server_id }))
    await until(
      "both lists are there",
      () => readers.every((raw, i) => raw.messages.slice(begun[i]).filter(isLong).length === 100),
      { timeoutMs: 60_000, everyMs: 50 },
    )
  })
  const before = sent
  const idle = await longestPause(() => sleep(Math.max(1_000, whileAsked.tookMs)))
  expect(sent).toBeGreaterThan(before)
  over.abort()
  await talking
  for (const raw of readers) raw.catchUp()
  await until("the lists are complete", () => readers.every(isComplete))
  const everybody = inOrder([...big.ids, ada.id, lin.id])
  for (const raw of readers) {
    const chunks = chunksOf(raw).map(({ d }) => d)
    expect(chunks.map(({ chunk_index }) => chunk_index)).toEqual(Array.from({ length: 101 }, (_, i) => i))
    for (const chunk of chunks)
      expect(chunk).toMatchObject({ chunk_count: 101, not_found: [], guild_id: big.server_id })
    expect(chunks.map(({ members }) => members.length)).toEqual([...Array<number>(100).fill(1_000), 2])
    expect(idsOf(chunks)).toEqual(everybody)
    const positions = raw.frames.flatMap(({ s }) => s ?? [])
    expect(positions).toEqual(positions.toSorted((a, b) => a - b))
  }
  expect(new Set(chunksOf(asking).map(({ d }) => d.nonce))).toEqual(new Set(["all"]))
  // Everybody who was there meanwhile heard everything.
  await shared.settle()
  for (const raw of readers) {
    const heard = raw.frames.flatMap(({ t, d }) => (t === "MESSAGE_CREATE" ? [(d as { content: string }).content] : []))
    expect(heard).toEqual(heard.toSorted((a, b) => Number(a.slice(8)) - Number(b.slice(8))))
    expect(heard.at(-1)).toBe(`message ${sent - 1}`)
  }
  expect(other.rest()).toHaveLength(sent)
  // One list in one go would hold it up for half a second and more.
  expect(whileAsked.pauseMs, `idle ${idle.pauseMs} ms, took ${whileAsked.tookMs} ms`).toBeLessThan(
    150 + 3 * idle.pauseMs,
  )
  for (const raw of readers) raw.close()
}, 120_000)

test("LIST1: one connection has one list under way and three that wait; sockets that end free what they had", async ({
  shared,
}) => {
  const [ada, lin] = await Promise.all([shared.person("ada"), shared.person("lin")])
  const big = await plantCrowd(shared, ada, [lin], 60_000)
  const framesIn = async () => {
    const metric = await shared.east.metrics.registry.getSingleMetricAsString("starling_gateway_frames_in_total")
    return Number(/op="8"\} (\d+)/.exec(metric)?.[1] ?? 0)
  }
  const flooding = await identified(shared.east, lin.token, { d: { intents: allIntents } })
  // A client that does not read stops the list; the kernel and the worker hold what is on its way.
  flooding.pause()
  const seen = await framesIn()
  flooding.say(ask({ guild_id: big.server_id, nonce: "long" }))
  await until("it is under way", async () => (await framesIn()) === seen + 1)
  for (let i = 0; i < 20; i++) flooding.say(ask({ guild_id: big.server_id, nonce: `short ${i}`, user_ids: [lin.id] }))
  await until("all have come", async () => (await framesIn()) === seen + 21)
  flooding.unpause()
  const nonces = () => [...new Set(chunksOf(flooding).map(({ d }) => d.nonce))]
  await until("those that waited are answered", () => nonces().includes("short 2"), { timeoutMs: 60_000 })
  flooding.say(ask({ guild_id: big.server_id, nonce: "after", user_ids: [lin.id] }))
  await until("there is capacity again", () => nonces().includes("after"))
  expect(nonces()).toEqual(["long", "short 0", "short 1", "short 2", "after"])
  expect(chunksOf(flooding).filter(({ d }) => d.nonce === "long")).toHaveLength(61)
  flooding.close()

  // More than a worker reads at once.
  const gone = await Promise.all(
    Array.from({ length: 4 }, () => identified(shared.east, ada.token, { d: { intents: allIntents } })),
  )
  for (const raw of gone) {
    raw.pause()
    raw.say(ask({ guild_id: big.server_id }))
  }
  await until("all are under way", async () => (await framesIn()) === seen + 26)
  for (const raw of gone) raw.close()
  const inbox = await ada.listen(shared.east)
  expect(idsOf(await answer(inbox, { guild_id: big.server_id, user_ids: [ada.id] }))).toEqual([ada.id])
}, 120_000)

test("LIST2, P12: a member who is removed while their list is sent gets no more of it", async ({ shared }) => {
  const [ada, lin] = await Promise.all([shared.person("ada"), shared.person("lin")])
  const big = await plantCrowd(shared, ada, [lin], 60_000)
  const raw = await identified(shared.east, lin.token, { d: { intents: allIntents } })
  raw.pause()
  raw.say(ask({ guild_id: big.server_id }))
  await ada.on(shared.west).kickMember({ server_id: big.server_id, member_id: lin.id })
  raw.unpause()
  await raw.event("GUILD_DELETE")
  await shared.settle()
  raw.say({ op: 1 })
  await raw.op(11)
  const left = raw.frames.findIndex(({ t }) => t === "GUILD_DELETE")
  expect(raw.frames.slice(left).filter(({ t }) => t === "GUILD_MEMBERS_CHUNK")).toEqual([])
  expect(chunksOf(raw).length).toBeLessThan(61)
  raw.close()
}, 60_000)

test("LIST3, P5: asked in the middle of a replay, the list comes without anything being lost or out of order", async ({
  shared,
}) => {
  const { server, channel, ada, lin } = await shared.seed(sharedServer)
  const inbox = await lin.listen(shared.east)
  for (let round = 0; round < 3; round++) {
    inbox.drop()
    const sent: string[] = []
    for (let i = 0; i < 30; i++)
      sent.push(
        (await ada.on(shared.west).createMessage({ channel_id: channel.id, content: `${i} ${"x".repeat(3_000)}` })).id,
      )
    const stop = inbox.on("RESUMED", () => inbox.send(ask({ guild_id: server.id })))
    await inbox.reconnect(round % 2 === 0 ? shared.west.url : shared.east.url)
    stop()
    expect((await inbox.next("GUILD_MEMBERS_CHUNK")).members).toHaveLength(2)
    await shared.settle()
    expect(inbox.rest().flatMap(({ name, data }) => (name === "MESSAGE_CREATE" ? [data.id] : []))).toEqual(sent)
  }
})
