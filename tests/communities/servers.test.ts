import { userActor } from "../../src/actors/user.ts"
import { openRedis } from "../../src/cluster/redis.ts"
import { opcodes } from "../../src/contract/core/gateway-codes.ts"
import { operator } from "../../src/process/operator/operator.ts"
import { guildMembersStorage } from "../../src/storage/communities/guild-members.ts"
import { messagesStorage } from "../../src/storage/messages/messages.ts"
import { notificationsStorage } from "../../src/storage/accounts/notifications.ts"
import { reactionsStorage } from "../../src/storage/messages/reactions.ts"
import { readStateStorage } from "../../src/storage/messages/read-state.ts"
import { serversStorage } from "../../src/storage/communities/servers.ts"
import { uploadsStorage } from "../../src/storage/messages/uploads.ts"
import { usersStorage } from "../../src/storage/accounts/users.ts"
import type { JobTools } from "../../src/workers/processor.ts"
import { purgeServer } from "../../src/workers/purge-server.ts"
import type { Cluster, Worker } from "../kit/cluster.ts"
import { refusal } from "../kit/conformance.ts"
import { everythingOf } from "../kit/everything.ts"
import { plantedId, plantServer, sharedServer } from "../kit/seeds.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"

test("P4: a new server is there on the other worker at once, with its owner and one text channel", async ({
  shared,
}) => {
  const ada = await shared.person("ada")
  const server = await ada.on(shared.east).createServer({ name: "Harbour", description: "Ships 🚢" })
  expect(server).toMatchObject({
    name: "Harbour",
    description: "Ships 🚢",
    owner_id: ada.id,
    member_count: 1,
    default_channel_id: null,
    icon_url: null,
    verification_level: 0,
    default_message_notifications: 0,
    public: false,
    category: null,
  })
  expect(await ada.on(shared.west).getServer({ server_id: server.id })).toEqual(server)
  expect(await ada.on(shared.west).listServers()).toEqual([server])
  const channels = await ada.on(shared.west).listChannels({ server_id: server.id })
  expect(channels).toMatchObject([{ name: "general", type: "text", channel_type: "text", position: 0 }])
})

test("a server's name has 2 to 100 characters and its description at most 1000, counted in code points", async ({
  shared,
}) => {
  const { createServer } = (await shared.person("ada")).on(shared.east)
  for (const name of ["x", "", "🚢", "🚢".repeat(101)])
    expect(await refusal(createServer({ name }))).toBe("validation_failed")
  expect(await refusal(createServer({ name: "fine", description: "x".repeat(1001) }))).toBe("validation_failed")
  for (const name of ["🚢🚢", "🚢".repeat(100), "</script>", "  spaced  ", "שלום"])
    expect((await createServer({ name, description: "⚓".repeat(1000) })).name).toBe(name)
  expect((await createServer({ name: "plain", description: null })).description).toBeNull()
})

test("one's servers are listed by name, those one has joined too", async ({ shared }) => {
  const { server, ada, lin } = await shared.seed(sharedServer)
  await lin.on(shared.east).createServer({ name: "alpha" })
  await lin.on(shared.west).createServer({ name: "Zulu" })
  await lin.on(shared.west).createServer({ name: "Beta" })
  const listed = await lin.on(shared.east).listServers()
  expect(listed.map(({ name }) => name)).toEqual(["alpha", "Beta", "Shared", "Zulu"])
  expect(listed[2]).toEqual({ ...server, member_count: 2 })
  expect((await ada.on(shared.west).listServers()).map(({ id }) => id)).toEqual([server.id])
})

test("a server is for its members: 403 for others, 404 for what is not there, 400 for what is no id", async ({
  shared,
}) => {
  const { server, ada, lin } = await shared.seed(sharedServer)
  const eve = await shared.person("eve")
  for (const member of [ada, lin])
    expect((await member.on(shared.east).getServer({ server_id: server.id })).member_count).toBe(2)
  for (const place of [shared.east, shared.west]) {
    const { getServer } = eve.on(place)
    expect(await refusal(getServer({ server_id: server.id }))).toBe("access_denied")
    expect(await refusal(getServer({ server_id: "1" }))).toBe("server_not_found")
    expect(await refusal(getServer({ server_id: "x" }))).toBe("invalid_server_id")
  }
})

test("only its owner deletes a server; then all of it is gone, everywhere", async ({ shared }) => {
  const { server, channel, ada, lin } = await shared.seed(sharedServer)
  const eve = await shared.person("eve")
  const [inbox, own] = await Promise.all([lin.listen(shared.west, { encoding: "msgpack" }), ada.listen(shared.east)])
  const { id } = await lin.on(shared.west).createMessage({ channel_id: channel.id, content: "still here" })
  const { code } = await ada.on(shared.west).createInvite({ channel_id: channel.id })
  const { id: server_id } = server
  expect(await refusal(lin.on(shared.east).deleteServer({ server_id }))).toBe("not_owner")
  expect(await refusal(eve.on(shared.east).deleteServer({ server_id }))).toBe("access_denied")
  expect(await refusal(eve.on(shared.east).deleteServer({ server_id: "1" }))).toBe("server_not_found")
  expect(await refusal(eve.on(shared.east).deleteServer({ server_id: "?" }))).toBe("invalid_server_id")
  await shared.settle()
  inbox.rest()

  expect(await ada.on(shared.west).deleteServer({ server_id })).toEqual({ success: true })
  for (const client of [inbox, own])
    expect(await client.next("GUILD_DELETE")).toEqual({ id: server_id, server_id, guild_id: server_id })
  const channel_id = channel.id
  for (const person of [ada, lin, eve])
    for (const place of [shared.east, shared.west]) {
      const rest = person.on(place)
      expect(await refusal(rest.getServer({ server_id }))).toBe("server_not_found")
      expect(await refusal(rest.deleteServer({ server_id }))).toBe("server_not_found")
      expect(await refusal(rest.leaveServer({ server_id }))).toBe("server_not_found")
      expect(await refusal(rest.listChannels({ server_id }))).toBe("server_not_found")
      expect(await refusal(rest.createChannel({ server_id, name: "late" }))).toBe("server_not_found")
      expect(await refusal(rest.getChannel({ channel_id }))).toBe("channel_not_found")
      expect(await refusal(rest.createInvite({ channel_id }))).toBe("channel_not_found")
      expect(await refusal(rest.startTyping({ channel_id }))).toBe("channel_not_found")
      expect(await refusal(rest.createMessage({ channel_id, content: "late" }))).toBe("channel_not_found")
      expect(await refusal(rest.listMessages({ channel_id }))).toBe("channel_not_found")
      expect(await refusal(rest.getMessage({ channel_id, message_id: id }))).toBe("channel_not_found")
      expect(await refusal(rest.editMessage({ channel_id, message_id: id, content: "x" }))).toBe("channel_not_found")
      expect(await refusal(rest.deleteMessage({ channel_id, message_id: id }))).toBe("channel_not_found")
      expect(await refusal(rest.getInvite({ invite_code: code }))).toBe("invite_not_found")
      expect(await refusal(rest.joinByInvite({ invite_code: code }))).toBe("invite_not_found")
      expect(await rest.listServers()).toEqual([])
    }
  await shared.settle()
  expect(inbox.rest()).toEqual([])
})

test("members leave, owners do not", async ({ shared }) => {
  const { server, channel, ada, lin } = await shared.seed(sharedServer)
  const server_id = server.id
  const [inbox, own] = await Promise.all([lin.listen(shared.east), ada.listen(shared.west)])
  expect(await refusal(ada.on(shared.west).leaveServer({ server_id }))).toBe("owner_cannot_leave")
  expect(await refusal(lin.on(shared.west).leaveServer({ server_id: "none" }))).toBe("invalid_server_id")
  expect(await lin.on(shared.west).leaveServer({ server_id })).toEqual({ success: true })
  expect(await own.next("GUILD_MEMBER_REMOVE")).toEqual({ guild_id: server_id, server_id, user: { id: lin.id } })
  expect((await inbox.next("GUILD_DELETE")).id).toBe(server_id)
  await ada.on(shared.east).createMessage({ channel_id: channel.id, content: "without Lin" })
  await shared.settle()
  expect(inbox.rest()).toEqual([])
  for (const place of [shared.east, shared.west]) {
    expect(await refusal(lin.on(place).leaveServer({ server_id }))).toBe("access_denied")
    expect(await refusal(lin.on(place).listMessages({ channel_id: channel.id }))).toBe("access_denied")
    expect(await lin.on(place).listServers()).toEqual([])
    expect((await ada.on(place).getServer({ server_id })).member_count).toBe(1)
  }
})

test("a user who owns a hundred servers makes no more until one is gone", async ({ shared }) => {
  const ada = await shared.person("ada")
  const planted = await plantServer(shared, { owner: ada })
  await shared.sql`
    INSERT INTO servers (id, name, owner_id, member_count, created_at)
    SELECT ${planted.server_id}::bigint + 4194304 * n, 'One of many', ${ada.id}, 1, 0 FROM generate_series(1, 99) AS n`
  expect(await refusal(ada.on(shared.east).createServer({ name: "One too many" }))).toBe("server_limit")
  await ada.on(shared.west).deleteServer({ server_id: planted.server_id })
  await ada.on(shared.east).createServer({ name: "The hundredth" })
  expect(await refusal(ada.on(shared.west).createServer({ name: "One too many" }))).toBe("server_limit")
})

test("a large server is deleted at once: its members are members no longer, and their rows are deleted in batches", async ({
  shared,
}) => {
  const { east, west, sql } = shared
  const [ada, lin] = [await shared.person("ada"), await shared.person("lin")]
  const size = 5_000
  const { server_id } = await plantServer(shared, { owner: ada, members: [lin], memberCount: size + 2 })
  const kept = await plantServer(shared, { owner: ada, members: [lin] })
  await sql`UPDATE members SET temporary = true WHERE user_id = ${lin.id}`
  await sql`
    WITH many AS (
      INSERT INTO users (id, username, created_at)
      SELECT ${plantedId(0)}::bigint + n, 'many_' || n, 1 FROM generate_series(1, ${size}::int) AS n RETURNING id),
    barred AS (
      INSERT INTO bans (server_id, user_id, reason, banned_by, banned_at) SELECT ${server_id}, id + 100_000, '', ${ada.id}, 1 FROM many)
    INSERT INTO members (server_id, user_id, joined_at) SELECT ${server_id}, id, 1 FROM many`
  const rows = async (of: string) => {
    const [counts] = await sql<{ members: number; bans: number }[]>`
      SELECT (SELECT count(*)::int FROM members WHERE server_id = ${of}) AS members,
        (SELECT count(*)::int FROM bans WHERE server_id = ${of}) AS bans`
    return counts
  }
  const inbox = await lin.listen(west)
  const serversStored = serversStorage(sql)
  const users = usersStorage(sql)
  const temporary = async () => (await guildMembersStorage(sql).temporary([lin.id])).map(row => row.server_id)
  expect((await temporary()).toSorted()).toEqual([kept.server_id, server_id].toSorted())

  expect(await ada.on(east).deleteServer({ server_id })).toEqual({ success: true })
  expect((await inbox.next("GUILD_DELETE")).id).toBe(server_id)
  // The turn has not touched them, and nobody is taken for a member all the same.
  expect(await rows(server_id)).toEqual({ members: size + 2, bans: size })
  for (const person of [ada, lin])
    for (const place of [east, west]) {
      const rest = person.on(place)
      expect((await rest.listServers()).map(({ id }) => id)).toEqual([kept.server_id])
      expect(await refusal(rest.getServer({ server_id }))).toBe("server_not_found")
      expect(await refusal(rest.listMembers({ server_id }))).toBe("server_not_found")
      expect(await refusal(rest.getMember({ server_id, member_id: lin.id }))).toBe("server_not_found")
      expect(await refusal(rest.listBans({ server_id }))).toBe("server_not_found")
      const client = person.gateway(place)
      client.on("ready", ready => expect(ready.guilds.map(({ id }) => id)).toEqual([kept.server_id]))
      await client.connect()
      client.close()
    }
  inbox.send({ op: opcodes.REQUEST_GUILD_MEMBERS.op, d: { guild_id: server_id, query: "", limit: 0 } })
  await shared.settle()
  expect(inbox.rest()).toEqual([])
  expect([...(await users.memberships([ada.id, lin.id])).values()].flat().map(place => place.server_id)).toEqual([
    kept.server_id,
    kept.server_id,
  ])
  expect((await users.onlookers(lin.id)).servers).toEqual([kept.server_id])
  expect(await serversStored.countsOf(lin.id)).toEqual({ owned: 0, joined: 1 })
  expect(await temporary()).toEqual([kept.server_id])

  const pieces: number[] = []
  const servers = {
    async purgeLeft(...asked: Parameters<typeof serversStored.purgeLeft>) {
      const count = await serversStored.purgeLeft(...asked)
      pieces.push(count)
      return count
    },
  }
  const storage = {
    servers,
    messages: messagesStorage(sql),
    reactions: reactionsStorage(sql),
    readState: readStateStorage(sql),
    uploads: uploadsStorage(sql),
    notifications: notificationsStorage(sql),
  }
  const tools = { storage, now: Date.now, signal: new AbortController().signal }
  const job = { server_id, channel_ids: [] }
  // Two at once, as of a job that was taken for lost.
  await Promise.all([1, 2].map(() => purgeServer(tools as unknown as JobTools, job)))
  expect(await rows(server_id)).toEqual({ members: 0, bans: 0 })
  expect(await rows(kept.server_id)).toEqual({ members: 2, bans: 0 })
  expect(Math.max(...pieces)).toBeLessThanOrEqual(2_000)
  expect(pieces.reduce((sum, count) => sum + count, 0)).toBeGreaterThanOrEqual(2 * size + 2)
})

test("servers that members' rows name are looked through in pieces, and those that are gone are told from the others", async ({
  cluster,
}) => {
  const { sql } = cluster
  const ada = await cluster.person("ada", (await cluster.boot(1))[0])
  const { named } = serversStorage(sql)
  expect(await named("0", 10)).toEqual([])
  const there = []
  for (let i = 0; i < 3; i++) there.push((await plantServer(cluster, { owner: ada })).server_id)
  const gone = [plantedId(), plantedId()]
  await sql`INSERT INTO members (server_id, user_id, joined_at) SELECT id, ${ada.id}, 1 FROM unnest(${gone}::bigint[]) AS id`
  const all = [...there, ...gone].toSorted((a, b) => (BigInt(a) < BigInt(b) ? -1 : 1))
  const expected = all.map(id => ({ id, is_gone: gone.includes(id) }))
  expect(await named("0", 10)).toEqual(expected)
  expect(await named("0", 2)).toEqual(expected.slice(0, 2))
  expect(await named(all[1]!, 10)).toEqual(expected.slice(2))
})

/**
 * Every table whose rows say which server, or which channel, they are of. What was reported is left
 * to operators: no owner ends a review by deleting the server.
 */
async function tablesOf({ sql }: Cluster) {
  const rows = await sql<{ name: string; columns: string[] }[]>`
    SELECT c.relname AS name, array_agg(a.attname::text ORDER BY a.attname) AS columns
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname IN ('server_id', 'channel_id') AND NOT a.attisdropped
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
      AND c.relname <> 'message_reports'
    GROUP BY c.relname ORDER BY c.relname`
  return [...rows, { name: "servers", columns: ["id"] }]
}

/** How many rows of each table are about a server or its channels. */
async function rowsAbout(cluster: Cluster, server: string, channels: readonly string[]): Promise<Map<string, number>> {
  const found = new Map<string, number>()
  const ids = { server_id: [server], id: [server], channel_id: channels } as Record<string, readonly string[]>
  for (const { name, columns } of await tablesOf(cluster)) {
    const isOfIt = columns.map(column => `${column} = ANY('{${ids[column]!.join()}}'::bigint[])`).join(" OR ")
    const [row] = await cluster.sql.unsafe<{ count: number }[]>(
      `SELECT count(*)::int AS count FROM ${name} WHERE ${isOfIt}`,
    )
    found.set(name, row!.count)
  }
  return found
}

/**
 * Keys of Redis, and fields of its hashes, that name one of these ids. What was on its way to
 * clients is over with the resume window, and a job at its time.
 */
async function keysAbout({ redisUrl, redisPrefix }: Cluster, ids: readonly string[]): Promise<string[]> {
  const redis = openRedis(redisUrl, "looking", () => {})
  try {
    await redis.connect()
    const found: string[] = []
    const names = (text: string) => ids.some(id => text.includes(id))
    for (const key of await redis.keys(`${redisPrefix}*`)) {
      if (names(key)) found.push(key)
      const isTransient = key.includes("gateway-session:") || key.includes("{jobs}")
      if (!isTransient && (await redis.type(key)) === "hash")
        for (const [field, value] of Object.entries(await redis.hgetall(key)))
          if (names(field) || names(value)) found.push(`${key} ${field} ${value}`)
    }
    return found
  } finally {
    redis.disconnect()
  }
}

test("P15: nothing is left of a deleted server, in any table or in Redis; what others have stays", async ({
  cluster,
}) => {
  const [east, west] = (await cluster.boot(2, { topology: { gateway: { resumeWindowMs: 1_000 } } })) as [Worker, Worker]
  const [ada, lin] = [await cluster.person("ada"), await cluster.person("lin")]
  const { server, barred } = await everythingOf(cluster, east, ada, lin)
  const rest = lin.on(west)
  const server_id = server.id
  const talk = await rest.createChannel({ server_id, name: "talk", type: "voice" })
  const channels = [server.channel, talk.id]
  const others = await rowsAbout(cluster, barred, [])
  await cluster.sql`DELETE FROM voice_calls WHERE voice_session_id = 'over'`
  await cluster.sql`INSERT INTO server_icons (server_id, file, content_type, hash, size) VALUES (${server_id}, 'x', 'image/png', 'x', 1)`
  const spent = await rest.createMessage({ channel_id: server.channel, content: "spent", nonce: "spent" })
  await rest.deleteMessage({ channel_id: server.channel, message_id: spent.id })
  const channel_id = server.channel
  const { id: message_id } = await rest.createMessage({
    channel_id,
    content: `<@${ada.id}>`,
    poll: { question: "Tea?", options: ["Yes", "No"] },
  })
  await rest.pinMessage({ channel_id, message_id })
  const notice = { type: "mention", title: "You were mentioned", content: "Lin", content_preview: null, link: null }
  const of = { ...notice, sender_id: lin.id }
  await east.node.ask(userActor, ada.id, { type: "notify", of, about: { channel_id, message_id } })
  const searched = () => cluster.sql`SELECT FROM message_search WHERE message_id = ${message_id}`
  await operator(["search", "rebuild"], { DATABASE_URL: cluster.databaseUrl })
  expect(await searched()).toHaveLength(1)
  await cluster.sql`INSERT INTO message_search_backlog (channel_id, message_id) VALUES (${channel_id}, ${message_id})`
  await cluster.sql`INSERT INTO message_search_rebuild (channel_id, message_id) VALUES (${channel_id}, ${message_id})`
  await cluster.sql`INSERT INTO message_search_blocks (channel_id, upto_id, looks) VALUES (${channel_id}, ${message_id}, 1)`
  await cluster.sql`INSERT INTO message_search_blocks_begun (channel_id, since) VALUES (${channel_id}, now() - interval '1 hour')`
  await cluster.sql`INSERT INTO thumbnail_requests (channel_id, message_id, since) VALUES (${channel_id}, ${message_id}, ${2 ** 31})`
  const inboxes = [await lin.listen(east), await ada.listen(west)]
  for (const inbox of inboxes) inbox.send({ op: opcodes.VOICE_CONNECT.op, d: { channel_id: talk.id } })
  for (const inbox of inboxes) await inbox.next("VOICE_SERVER_UPDATE")
  await until(
    "their calls are noted",
    async () => (await rowsAbout(cluster, server_id, channels)).get("voice_calls") === 2,
  )
  // A table that this does not fill would be a table that this does not watch.
  expect([...(await rowsAbout(cluster, server_id, channels))].filter(([, count]) => count === 0)).toEqual([])
  expect(await keysAbout(cluster, [server_id])).not.toEqual([])

  await rest.deleteServer({ server_id })
  for (const inbox of inboxes) expect((await inbox.next("GUILD_DELETE")).id).toBe(server_id)
  for (const inbox of inboxes) inbox.close()
  // One that is gone without a job that knows of its members.
  const forgotten = plantedId()
  await cluster.sql`INSERT INTO members (server_id, user_id, joined_at) VALUES (${forgotten}, ${ada.id}, 1), (${forgotten}, ${lin.id}, 1)`
  await cluster.sql`INSERT INTO bans (server_id, user_id, reason, banned_by, banned_at) VALUES (${forgotten}, 1, '', 2, 1)`
  // How far a rebuild has come stands until its end, wherever it is.
  expect((await operator(["search", "rebuild"], { DATABASE_URL: cluster.databaseUrl })).code).toBe(0)
  await cluster.bootJobWorker()
  const left = async () => [...(await rowsAbout(cluster, server_id, channels))].filter(([, count]) => count > 0)
  await until("the job has run", async () => (await left()).length === 0, { timeoutMs: 20_000 })
  // Once more changes nothing.
  const storage = {
    servers: serversStorage(cluster.sql),
    messages: messagesStorage(cluster.sql),
    readState: readStateStorage(cluster.sql),
    reactions: reactionsStorage(cluster.sql),
    uploads: uploadsStorage(cluster.sql),
    notifications: notificationsStorage(cluster.sql),
  }
  const { signal } = new AbortController()
  await purgeServer({ storage, now: Date.now, signal } as unknown as JobTools, { server_id, channel_ids: channels })
  expect(await rowsAbout(cluster, barred, [])).toEqual(others)
  const keys = () => keysAbout(cluster, [server_id, ...channels])
  await until("no worker listens to it", async () => (await keys()).length === 0, { timeoutMs: 20_000 })
  const strays = async () => [...(await rowsAbout(cluster, forgotten, [])).values()].some(count => count > 0)
  await until("the sweep has found the forgotten one", async () => !(await strays()), { timeoutMs: 20_000 })
  expect(await rowsAbout(cluster, barred, [])).toEqual(others)
})
