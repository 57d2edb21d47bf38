/** Who is notified of being mentioned: once each, of what they may see, as they want to be told. */
import { openJobConnection, openJobQueue } from "../../src/cluster/job-queue.ts"
import { openRedis } from "../../src/cluster/redis.ts"
import { notifyMentioned as job } from "../../src/contract/core/jobs.ts"
import type { Notification } from "../../src/contract/accounts/notifications.ts"
import { firstIdAt } from "../../src/domain/core/snowflake.ts"
import { silentLog } from "../../src/observability/log.ts"
import { createMetrics } from "../../src/observability/metrics.ts"
import { mentionsStorage } from "../../src/storage/messages/mentions.ts"
import { exportsStorage } from "../../src/storage/accounts/exports.ts"
import { personalTables } from "../../src/storage/personal-data.ts"
import { messagesStorage } from "../../src/storage/messages/messages.ts"
import { notificationsStorage } from "../../src/storage/accounts/notifications.ts"
import { readStateStorage } from "../../src/storage/messages/read-state.ts"
import { OutlineLoads, type OutlineSource } from "../../src/storage/communities/outline-loads.ts"
import { serversStorage } from "../../src/storage/communities/servers.ts"
import { systemClock as clock } from "../../src/std/system-clock.ts"
import { consumeJobs } from "../../src/workers/consumer.ts"
import { notifyMentioned } from "../../src/workers/notify-mentioned.ts"
import { Deferral, type JobTools } from "../../src/workers/processor.ts"
import type { Worker } from "../kit/cluster.ts"
import { refusal } from "../kit/conformance.ts"
import { botOf } from "../kit/everything.ts"
import { clientAt, type Person } from "../kit/person.ts"
import { dmBetween, plantedId, plantServer } from "../kit/seeds.ts"
import { expect, test, type SharedCluster } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const jobWorkers = new WeakMap<SharedCluster, Promise<unknown>>()
/** The file's job worker. */
async function working(shared: SharedCluster): Promise<void> {
  const known = jobWorkers.get(shared) ?? shared.bootJobWorker()
  jobWorkers.set(shared, known)
  await known
}

const toldOf = async ({ sql }: SharedCluster, message_id: string): Promise<string[]> => {
  const rows = await sql<{ user_id: string }[]>`
    SELECT user_id FROM notifications WHERE message_id = ${message_id} ORDER BY user_id`
  return rows.map(({ user_id }) => user_id)
}

/**
 * How each of those is told who shall be, and that nobody else is: the last message mentions its
 * reader, as a barrier.
 */
async function titlesOf(shared: SharedCluster, message_id: string, count: number): Promise<Record<string, string>> {
  const titles = async () => {
    const rows = await shared.sql<{ user_id: string; title: string }[]>`
      SELECT user_id, title FROM notifications WHERE message_id = ${message_id}`
    return Object.fromEntries(rows.map(({ user_id, title }) => [user_id, title]))
  }
  await until("they are told", async () => Object.keys(await titles()).length >= count, { everyMs: 10 })
  return titles()
}

const people = (shared: SharedCluster, ...names: string[]) => Promise.all(names.map(name => shared.person(name)))

test("P15: mentions whose job was lost are notified all the same, and what is left to be done is known until then", async ({
  shared,
}) => {
  const [ada, lin, mo] = (await people(shared, "ada", "lin", "mo")) as [Person, Person, Person]
  const { server_id, channel_id } = await plantServer(shared, { owner: ada, members: [lin, mo] })
  const inbox = await lin.listen(shared.east)
  const plant = async (call: { users?: string[]; everyone?: boolean }) => {
    const message_id = String(BigInt(firstIdAt(Date.now() - 120_000)) + (BigInt(plantedId()) % 4096n))
    await shared.sql`
      INSERT INTO messages (channel_id, id, server_id, author_id, content) VALUES (${channel_id}, ${message_id}, ${server_id}, ${ada.id}, 'lost')`
    await shared.sql`
      INSERT INTO message_mentions (channel_id, message_id, server_id, users, roles, everyone, here)
      VALUES (${channel_id}, ${message_id}, ${server_id}, ${call.users ?? []}::bigint[], '{}', ${call.everyone ?? false}, false)`
    return message_id
  }
  const lost = await plant({ users: [lin.id] })
  // Of one that is gone nobody is told.
  await shared.sql`
    INSERT INTO message_mentions (channel_id, message_id, users, roles, everyone, here) VALUES (1, 1, '{1}', '{}', false, false)`
  const left = () => shared.sql`SELECT message_id::text FROM message_mentions`
  const sent = await ada.on(shared.west).createMessage({ channel_id, content: `<@${mo.id}>` })
  expect((await left()).map(row => row["message_id"] as string).toSorted()).toEqual(["1", lost, sent.id].toSorted())
  await working(shared)
  expect((await inbox.next("NOTIFICATION_CREATE", { timeoutMs: 20_000 })).link).toContain(lost)
  await until("nothing is left to be done", async () => (await left()).length === 0, { timeoutMs: 20_000 })
  expect([await toldOf(shared, lost), await toldOf(shared, sent.id)]).toEqual([[lin.id], [mo.id]])
})

test("a mentioned user is notified on every session, with a link to the message; the author and the others are not", async ({
  shared,
}) => {
  await working(shared)
  const { east, west } = shared
  const [ada, lin, mo, eve] = (await people(shared, "ada", "lin", "mo", "eve")) as [Person, Person, Person, Person]
  const { server_id, channel_id } = await plantServer(shared, { owner: ada, members: [lin, mo] })
  const inboxes = [await lin.listen(east), await lin.listen(west)]
  const [adas, mos, away] = [await ada.listen(west), await mo.listen(east), await lin.listen(east)]
  away.drop()
  const content = `<@${lin.id}> <@!${lin.id}> <@${ada.id}> <@${eve.id}> <@1> \`<@${mo.id}>\` ${"🦜".repeat(300)}`
  const sent = await ada.on(east).createMessage({ channel_id, content })
  const told = await inboxes[0]!.next("NOTIFICATION_CREATE")
  expect(told).toMatchObject({
    type: "mention",
    title: "You were mentioned",
    read: false,
    sender_id: ada.id,
    content: `${ada.username} mentioned you in #channel-1`,
    link: `/channels/${server_id}/${channel_id}/${sent.id}`,
  })
  expect(Array.from(told.content_preview!)).toHaveLength(200)
  expect(content.startsWith(told.content_preview!.slice(0, -1))).toBe(true)
  expect(await inboxes[1]!.next("NOTIFICATION_CREATE")).toEqual(told)
  expect((await lin.on(west).listNotifications()).notifications).toEqual([told])
  await away.reconnect(west.url)
  expect(await away.next("NOTIFICATION_CREATE")).toEqual(told)
  expect(await toldOf(shared, sent.id)).toEqual([lin.id])
  // An edit tells nobody; neither does a repeat.
  await ada.on(west).editMessage({ channel_id, message_id: sent.id, content: `<@${mo.id}>` })
  const twice = { channel_id, content: `<@${mo.id}>!`, nonce: "twice" }
  for (const place of [east, west]) await ada.on(place).createMessage(twice)
  expect((await mos.next("NOTIFICATION_CREATE")).content_preview).toBe(`<@${mo.id}>!`)
  await shared.settle()
  for (const inbox of [adas, mos, ...inboxes])
    expect(inbox.rest().filter(({ name }) => name === "NOTIFICATION_CREATE")).toEqual([])
})

test("in a DM the other one can be mentioned, and nobody else", async ({ shared }) => {
  await working(shared)
  const [ada, lin, eve] = (await people(shared, "ada", "lin", "eve")) as [Person, Person, Person]
  const channel_id = await dmBetween(ada, lin, shared.east)
  const inbox = await lin.listen(shared.west)
  const sent = await ada
    .on(shared.west)
    .createMessage({ channel_id, content: `@everyone @here <@${eve.id}> <@${lin.id}>` })
  expect(await inbox.next("NOTIFICATION_CREATE")).toMatchObject({
    title: "You were mentioned",
    content: `${ada.username} mentioned you`,
    link: `/channels/@me/${channel_id}/${sent.id}`,
  })
  expect(await toldOf(shared, sent.id)).toEqual([lin.id])
})

test("in a DM that is muted, or whose level is nothing, nobody is told", async ({ shared }) => {
  const { east, west } = shared
  const [ada, lin, eve] = (await people(shared, "ada", "lin", "eve")) as [Person, Person, Person]
  const channel_id = await dmBetween(ada, lin, east)
  const inbox = await lin.listen(west)
  const rest = lin.on(east)
  const outside = { server_id: null, guild_id: null, channel_id, muted_until: 0 }
  const usual = { ...outside, level: null, muted: false, effective: { level: "all", muted: false } }
  expect(await rest.getChannelNotificationSettings({ channel_id })).toEqual(usual)
  const told = async () => {
    const sent = await ada.on(west).createMessage({ channel_id, content: `<@${lin.id}>` })
    await notifyMentioned(toolsOf(shared, east), callOf(sent, { users: [lin.id] }))
    return (await toldOf(shared, sent.id)).length > 0
  }
  expect(await told()).toBe(true)
  const muted = { ...usual, muted: true, effective: { level: "all", muted: true } }
  expect(await rest.putChannelNotificationSettings({ channel_id, muted: true })).toEqual(muted)
  expect(await inbox.next("NOTIFICATION_SETTINGS_UPDATE")).toEqual(muted)
  expect(await lin.on(west).getChannelNotificationSettings({ channel_id })).toEqual(muted)
  expect(await told()).toBe(false)
  await rest.putChannelNotificationSettings({ channel_id, muted: false, level: "nothing" })
  expect(await told()).toBe(false)
  expect(await rest.putChannelNotificationSettings({ channel_id, level: "default" })).toEqual(usual)
  expect(await told()).toBe(true)
  expect(await lin.on(west).getChannelNotificationSettings({ channel_id })).toEqual(usual)
  expect(await refusal(eve.on(west).putChannelNotificationSettings({ channel_id, muted: true }))).toBe(
    "channel_not_found",
  )
})

test("@everyone, @here and a role are mentioned by those who may; the most specific mention counts", async ({
  shared,
}) => {
  await working(shared)
  const { east, west } = shared
  const [ada, lin, mo, kim, zoe] = (await people(shared, "ada", "lin", "mo", "kim", "zoe")) as [
    Person,
    Person,
    Person,
    Person,
    Person,
  ]
  const others = [ada, lin, mo, kim, zoe]
  const { server_id, channel_id } = await plantServer(shared, { owner: ada, members: [lin, mo, kim, zoe] })
  const rest = ada.on(east)
  const loud = await rest.createRole({ server_id, name: "Loud", permissions: { "messages.mention_everyone": true } })
  const open = await rest.createRole({ server_id, name: "Open", mentionable: true })
  const shut = await rest.createRole({ server_id, name: "Shut" })
  await rest.giveRole({ server_id, member_id: kim.id, role_id: open.id })
  await rest.giveRole({ server_id, member_id: zoe.id, role_id: shut.id })
  const { id: elsewhere } = await plantServer(shared, { owner: lin }).then(other => ({ id: other.server_id }))
  const all = `@everyone <@${mo.id}> <@&${open.id}> <@&${shut.id}> <@&${server_id}> <@&${elsewhere}>`
  // Nobody has given Lin that.
  const quiet = await lin.on(west).createMessage({ channel_id, content: all })
  expect(await titlesOf(shared, quiet.id, 2)).toEqual({
    [mo.id]: "You were mentioned",
    [kim.id]: "Your role was mentioned",
  })
  await rest.giveRole({ server_id, member_id: lin.id, role_id: loud.id })
  const heard = await lin.on(west).createMessage({ channel_id, content: all })
  expect(await titlesOf(shared, heard.id, 4)).toEqual({
    [ada.id]: "@everyone mention",
    [mo.id]: "You were mentioned",
    [kim.id]: "Your role was mentioned",
    [zoe.id]: "Your role was mentioned",
  })
  expect(await toldOf(shared, quiet.id)).toHaveLength(2)
  const asRole = await lin.on(east).createMessage({ channel_id, content: `<@&${server_id}>` })
  expect(Object.values(await titlesOf(shared, asRole.id, 4))).toEqual(Array(4).fill("@everyone mention"))

  await mo.listen(west)
  const hidden = await kim.listen(east)
  await kim.on(east).updatePresence({ status: "invisible" })
  await shared.settle()
  const isOnline = async ({ id }: Person) => (await east.node.presences.of([id])).has(id)
  await until("Mo is seen, and Kim is not", async () => (await isOnline(mo)) && !(await isOnline(kim)))
  const here = await lin.on(west).createMessage({ channel_id, content: `@here <@&${shut.id}>` })
  expect(await titlesOf(shared, here.id, 2)).toEqual({ [mo.id]: "@here mention", [zoe.id]: "Your role was mentioned" })
  const both = await lin.on(west).createMessage({ channel_id, content: "@here @everyone" })
  expect(Object.values(await titlesOf(shared, both.id, 4))).toEqual(Array(4).fill("@everyone mention"))
  expect((await hidden.next("NOTIFICATION_CREATE")).type).toBe("mention")
  // In this channel they may not.
  const denied = {
    channel_id,
    target_id: lin.id,
    type: "member" as const,
    allow: [],
    deny: ["messages.mention_everyone" as const],
  }
  await rest.setOverride(denied)
  const last = await lin.on(east).createMessage({ channel_id, content: `@everyone <@${mo.id}>` })
  expect(await titlesOf(shared, last.id, 1)).toEqual({ [mo.id]: "You were mentioned" })
  expect(others).toHaveLength(5)
})

test("not told are members who may not see the channel, who have blocked the author or are blocked by them, and who want no notifications", async ({
  shared,
}) => {
  await working(shared)
  const { east, west } = shared
  const [ada, lin, blind, blocker, blocked, muted, none] = (await people(
    shared,
    "ada",
    "lin",
    "blind",
    "blocker",
    "blocked",
    "muted",
    "none",
  )) as [Person, Person, Person, Person, Person, Person, Person]
  const members = [lin, blind, blocker, blocked, muted, none]
  const { server_id, channel_id } = await plantServer(shared, { owner: ada, members })
  const rest = ada.on(east)
  await rest.setOverride({ channel_id, target_id: blind.id, type: "member", allow: [], deny: ["channels.view"] })
  await blocker.on(west).blockUser({ user_id: ada.id })
  await rest.blockUser({ user_id: blocked.id })
  await muted.on(west).putServerNotificationSettings({ server_id, muted: true })
  await none.on(east).putChannelNotificationSettings({ channel_id, level: "nothing" })
  for (const content of ["@everyone", members.map(({ id }) => `<@${id}>`).join(" ")]) {
    const sent = await rest.createMessage({ channel_id, content })
    await titlesOf(shared, sent.id, 1)
    // Whatever is asked after them has been answered by now.
    await notifyMentioned(toolsOf(shared, west), callOf(sent, { everyone: true }))
    expect(await toldOf(shared, sent.id)).toEqual([lin.id])
  }
  // As soon as they may, and want to, they are.
  await rest.deleteOverride({ channel_id, target_id: blind.id })
  await none.on(west).putChannelNotificationSettings({ channel_id, level: "mentions" })
  const sent = await rest.createMessage({ channel_id, content: "@everyone" })
  expect(Object.keys(await titlesOf(shared, sent.id, 3)).toSorted()).toEqual([lin.id, blind.id, none.id].toSorted())
})

test("bots and webhooks mention like everybody else; a webhook may not mention @everyone", async ({ shared }) => {
  await working(shared)
  const { east, west } = shared
  const [ada, lin] = (await people(shared, "ada", "lin")) as [Person, Person]
  const { server_id, channel_id } = await plantServer(shared, { owner: ada, members: [lin] })
  const robot = await botOf(shared, east, ada)
  await shared.sql`INSERT INTO members (server_id, user_id, joined_at) VALUES (${server_id}, ${robot.id}, 1704153600)`
  const inbox = await lin.listen(west)
  const content = `@everyone <@${lin.id}>`
  await clientAt(west, robot.token).createMessage({ channel_id, content })
  expect(await inbox.next("NOTIFICATION_CREATE")).toMatchObject({ sender_id: robot.id, title: "You were mentioned" })
  const hook = await ada.on(east).createWebhook({ channel_id, name: "Herald" })
  const { id } = await clientAt(east)
    .executeWebhook({ webhook_id: hook.id, token: hook.token!, content, username: "Crier", wait: "true" })
    .then(answer => answer as { id: string })
  expect(await inbox.next("NOTIFICATION_CREATE")).toMatchObject({
    sender_id: hook.id,
    content: "Crier mentioned you in #channel-1",
    content_preview: content,
    link: `/channels/${server_id}/${channel_id}/${id}`,
  })
  expect(await toldOf(shared, id)).toEqual([lin.id])
})

/** What jobs have at hand, without a job worker. */
const toolsOf = (shared: SharedCluster, { node }: Worker, more: object = {}) =>
  ({
    ask: node.ask,
    storage: {
      mentions: mentionsStorage(shared.sql),
      messages: messagesStorage(shared.sql),
      servers: serversStorage(shared.sql),
    },
    push: { add: async () => {} },
    presences: node.presences,
    running: { massNotifications: new Set() },
    outlines: new OutlineLoads({ source: serversStorage(shared.sql), maxConcurrent: 2, clock }),
    signal: new AbortController().signal,
    ...more,
  }) as unknown as JobTools

const callOf = (
  { id, channel_id, server_id }: { id: string; channel_id: string; server_id: string | null },
  more: { users?: string[]; everyone?: boolean; here?: boolean } = {},
) => ({ server_id, channel_id, message_id: id, users: [], roles: [], everyone: false, here: false, ...more })

test("P19: jobs that are about one server at the same time load it by one statement", async ({ shared }) => {
  const [ada, lin] = (await people(shared, "ada", "lin")) as [Person, Person]
  const { server_id, channel_id } = await plantServer(shared, { owner: ada, members: [lin] })
  const sent = []
  for (const content of ["one", "two", "three"])
    sent.push(await ada.on(shared.east).createMessage({ channel_id, content }))
  const servers = serversStorage(shared.sql)
  const loaded: (readonly string[])[] = []
  const source: OutlineSource = {
    outlineBytes: ids => servers.outlineBytes(ids),
    outlines(ids) {
      loaded.push(ids)
      return servers.outlines(ids)
    },
  }
  const outlines = new OutlineLoads({ source, maxConcurrent: 2, clock })
  const tools = toolsOf(shared, shared.east, { outlines })
  await Promise.all(sent.map(message => notifyMentioned(tools, callOf(message, { users: [lin.id] }))))
  expect(loaded).toEqual([[server_id]])
  for (const { id } of sent) expect(await toldOf(shared, id)).toEqual([lin.id])
})

test("a job about many members loads the server once, and yet tells nobody from whom the channel was hidden meanwhile", async ({
  shared,
}) => {
  const [ada, ...members] = (await people(shared, "ada", "lin", "zoe", "mo")) as [Person, Person, Person, Person]
  const [first, hidden, last] = members.toSorted((a, b) => (BigInt(a.id) < BigInt(b.id) ? -1 : 1)) as typeof members
  const { server_id, channel_id } = await plantServer(shared, { owner: ada, members })
  const rest = ada.on(shared.east)
  const sent = await rest.createMessage({ channel_id, content: "each of you" })
  const loads = new OutlineLoads({ source: serversStorage(shared.sql), maxConcurrent: 2, clock })
  const loaded: string[] = []
  const outlines: Pick<OutlineLoads, "load"> = {
    load(server) {
      loaded.push(server)
      return loads.load(server)
    },
  }
  let isHidden = false
  const ask = async (...args: Parameters<Worker["node"]["ask"]>) => {
    if (!isHidden)
      await rest.setOverride({ channel_id, target_id: hidden.id, type: "member", allow: [], deny: ["channels.view"] })
    isHidden = true
    return shared.east.node.ask(...args)
  }
  const call = callOf(sent, { users: members.map(({ id }) => id) })
  await notifyMentioned(toolsOf(shared, shared.east, { outlines, ask }), call, 1)
  expect(loaded).toEqual([server_id])
  expect(await toldOf(shared, sent.id)).toEqual([first.id, last.id])
})

test("P15: each is told once, however often the job runs, wherever it was cut off, and nobody of what is deleted", async ({
  shared,
}) => {
  const { east, west } = shared
  const [ada, lin] = (await people(shared, "ada", "lin")) as [Person, Person]
  const others = Array.from({ length: 40 }, () => plantedId())
  await shared.sql`
    INSERT INTO users (id, username, created_at) SELECT id, 'm' || id, 1704153600 FROM unnest(${others}::bigint[]) AS id`
  const { server_id, channel_id } = await plantServer(shared, { owner: ada, members: [lin] })
  await shared.sql`
    INSERT INTO members (server_id, user_id, joined_at) SELECT ${server_id}, id, 1704153600 FROM unnest(${others}::bigint[]) AS id`
  const inbox = await lin.listen(west)
  // Its own job finds nobody.
  const sent = await ada.on(east).createMessage({ channel_id, content: "all of you" })
  const call = callOf(sent, { everyone: true })
  let asked = 0
  const broken = new Error("the process ends")
  const cut = toolsOf(shared, east, {
    ask: (...args: Parameters<Worker["node"]["ask"]>) => {
      if (++asked > 15) return Promise.reject(broken)
      return east.node.ask(...args)
    },
  })
  await expect(notifyMentioned(cut, call)).rejects.toBe(broken)
  const first = await toldOf(shared, sent.id)
  expect(first.length).toBeGreaterThan(0)
  expect(first.length).toBeLessThan(42)
  await Promise.all([east, west, east].map(worker => notifyMentioned(toolsOf(shared, worker), call)))
  await notifyMentioned(toolsOf(shared, west), call)
  expect(await toldOf(shared, sent.id)).toEqual(
    [lin.id, ...others].toSorted((a, b) => (BigInt(a) < BigInt(b) ? -1 : 1)),
  )
  await shared.settle()
  expect(inbox.rest().filter(({ name }) => name === "NOTIFICATION_CREATE")).toHaveLength(1)
  // Who reads one is told of it still once.
  const [one] = (await lin.on(east).listNotifications()).notifications as [Notification]
  await lin.on(west).readNotification({ notification_id: one.id })
  expect(await lin.on(east).listNotifications()).toMatchObject({
    unread_count: 0,
    notifications: [{ id: one.id, read: true }],
  })

  const gone = await ada.on(west).createMessage({ channel_id, content: "nothing" })
  await ada.on(east).deleteMessage({ channel_id, message_id: gone.id })
  await notifyMentioned(toolsOf(shared, east), callOf(gone, { everyone: true }))
  const stopped = new AbortController()
  stopped.abort(broken)
  const later = await ada.on(west).createMessage({ channel_id, content: "later" })
  const ending = toolsOf(shared, east, { signal: stopped.signal })
  await expect(notifyMentioned(ending, callOf(later, { everyone: true }))).rejects.toBe(broken)
  // Where several call everybody at once the next one waits for its turn; who is named is told
  // meanwhile.
  const busy = toolsOf(shared, east, { running: { massNotifications: new Set(["1", "2", "3", "4"]) } })
  await expect(notifyMentioned(busy, callOf(later, { here: true }))).rejects.toThrow(Deferral)
  const own = toolsOf(shared, east, { running: { massNotifications: new Set([server_id]) } })
  await expect(notifyMentioned(own, callOf(later, { here: true }))).rejects.toThrow(Deferral)
  await notifyMentioned(busy, callOf(later, { users: [lin.id] }))
  expect(await toldOf(shared, later.id)).toEqual([lin.id])
  await ada.on(east).deleteChannel({ channel_id })
  await notifyMentioned(toolsOf(shared, east), callOf(later, { everyone: true }))
  expect(await toldOf(shared, gone.id)).toEqual([])
  // What she was told goes with the channel's messages, which a job deletes.
  expect((await toldOf(shared, later.id)).filter(id => id !== lin.id)).toEqual([])
})

test("a server of thousands is looked at page by page: told are all who may see the channel, and no others", async ({
  shared,
}) => {
  const { east, west } = shared
  const [ada, lin] = (await people(shared, "ada", "lin")) as [Person, Person]
  const { server_id, channel_id } = await plantServer(shared, { owner: ada, members: [lin] })
  const members = Array.from({ length: 2_300 }, () => plantedId())
  const { id: role } = await ada.on(east).createRole({ server_id, name: "Seers" })
  await shared.sql`
    INSERT INTO users (id, username, created_at) SELECT id, 'c' || id, 1704153600 FROM unnest(${members}::bigint[]) AS id`
  // Some of each page, the last of all among them.
  const seers = members.filter((_, i) => i % 100 === 99)
  await shared.sql`
    INSERT INTO members (server_id, user_id, joined_at, roles)
    SELECT ${server_id}, id, 1704153600, CASE WHEN id = ANY(${seers}::bigint[]) THEN ARRAY[${role}::bigint] ELSE '{}' END
    FROM unnest(${members}::bigint[]) AS id`
  const only = { channel_id, type: "role" as const }
  await ada.on(east).setOverride({ ...only, target_id: role, allow: ["channels.view"], deny: [] })
  await ada.on(west).setOverride({ ...only, target_id: server_id, allow: [], deny: ["channels.view"] })
  const sent = await ada.on(east).createMessage({ channel_id, content: "so many" })
  await notifyMentioned(toolsOf(shared, west), callOf(sent, { everyone: true }))
  expect(new Set(await toldOf(shared, sent.id))).toEqual(new Set(seers))
})

test("a user who has read a message is notified as of something read, whenever they read it", async ({ shared }) => {
  const { east, west } = shared
  const [ada, lin] = (await people(shared, "ada", "lin")) as [Person, Person]
  const { channel_id } = await plantServer(shared, { owner: ada, members: [lin] })
  const inbox = await lin.listen(west)
  const first = await ada.on(east).createMessage({ channel_id, content: "first" })
  await lin.on(west).ackMessages({ channel_id, message_id: first.id })
  await notifyMentioned(toolsOf(shared, east), callOf(first, { users: [lin.id] }))
  expect(await inbox.next("NOTIFICATION_CREATE")).toMatchObject({ read: true })
  // As if the job has looked at their position, and has not notified them yet.
  const second = await ada.on(east).createMessage({ channel_id, content: "second" })
  const ask = async (...args: Parameters<Worker["node"]["ask"]>) => {
    await lin.on(east).ackMessages({ channel_id, message_id: second.id })
    return west.node.ask(...args)
  }
  await notifyMentioned(toolsOf(shared, west, { ask }), callOf(second, { users: [lin.id] }))
  const told = await inbox.next("NOTIFICATION_CREATE")
  expect(told.read).toBe(false)
  expect(await inbox.next("NOTIFICATION_UPDATE")).toEqual({ id: told.id, read: true })
  expect(await lin.on(east).listNotifications()).toMatchObject({ unread_count: 0, notifications: [{}, {}] })
  // When a user reads while people are being notified, their notifications are looked at.
  const { range } = readStateStorage(shared.sql)
  const upto = { after: "0", upto: second.id }
  expect((await range(channel_id, lin.id, upto)).hasMentions).toBe(false)
  await shared.sql`
    INSERT INTO message_mentions (channel_id, message_id, users, roles, everyone, here) VALUES (${channel_id}, ${second.id}, '{}', '{}', true, false)`
  expect((await range(channel_id, lin.id, upto)).hasMentions).toBe(true)
})

test("nobody is shown what they were told of a message that is gone", async ({ shared }) => {
  const { east, west } = shared
  const [ada, lin] = (await people(shared, "ada", "lin")) as [Person, Person]
  const { server_id, channel_id } = await plantServer(shared, { owner: ada, members: [lin] })
  const rest = ada.on(east)
  const sent = [await rest.createMessage({ channel_id, content: "a secret" })]
  sent.push(await rest.createMessage({ channel_id, content: "another", nonce: "n" }))
  sent.push(await rest.createMessage({ channel_id, content: "stays" }))
  for (const one of sent) await notifyMentioned(toolsOf(shared, east), callOf(one, { users: [lin.id] }))
  const listed = async (unread_only: "true" | "false") => {
    const { notifications, unread_count } = await lin.on(west).listNotifications({ unread_only })
    return [notifications.map(one => one.content_preview), unread_count]
  }
  expect(await listed("true")).toEqual([["stays", "another", "a secret"], 3])
  const [{ id: notification_id }] = (await lin.on(west).listNotifications()).notifications.slice(-1) as [Notification]
  for (const { id } of sent.slice(0, 2)) await rest.deleteMessage({ channel_id, message_id: id })
  for (const unread of ["true", "false"] as const) expect(await listed(unread)).toEqual([["stays"], 1])
  const counts = await readStateStorage(shared.sql).unreadIn(lin.id, channel_id, server_id)
  expect(counts.mention_count).toBe(1)
  expect(await notificationsStorage(shared.sql).states(lin.id, [notification_id])).toEqual(new Map())
  // Nor is it kept, for them or for their export.
  const kept = await shared.sql<{ content_preview: string }[]>`
    SELECT content_preview FROM notifications WHERE channel_id = ${channel_id}`
  expect(kept.map(one => one.content_preview)).toEqual(["stays"])
  const { rows } = await exportsStorage(shared.sql).rows(
    personalTables["notifications"]!,
    { user: lin.id, names: [] },
    undefined,
    100,
  )
  expect(rows).toMatchObject([{ content_preview: "stays" }])
})

test("no notification of a message to many members is kept once it is deleted, also not of those who are told meanwhile", async ({
  shared,
}) => {
  const { east } = shared
  const { ada, members, channel_id } = await crowdOf(shared, 1_010)
  const rest = ada.on(east)
  const tell = (message_id: string, whom: readonly string[]) => shared.sql`
    INSERT INTO notifications (id, user_id, type, title, content, content_preview, created_at, channel_id, message_id)
    SELECT id + 1, id, 'mention', 't', 'c', 'a secret', 1704153600, ${channel_id}, ${message_id} FROM unnest(${[...whom]}::bigint[]) AS id`
  const left = async () => (await shared.sql`SELECT FROM notifications WHERE channel_id = ${channel_id}`).length
  const called = () => shared.sql<{ message_id: string }[]>`
    SELECT message_id::text FROM message_mentions WHERE channel_id = ${channel_id}`
  const sent = await rest.createMessage({ channel_id, content: "a secret" })
  await tell(sent.id, members)
  await rest.deleteMessage({ channel_id, message_id: sent.id })
  expect([await left(), await called()]).toEqual([10, [{ message_id: sent.id }]])
  // As of users who were told while it was deleted.
  await notifyMentioned(toolsOf(shared, east), callOf(sent))
  expect([await left(), await called()]).toEqual([0, []])

  const stays = await rest.createMessage({ channel_id, content: "a secret" })
  await tell(stays.id, members.slice(0, 1))
  await notifyMentioned(toolsOf(shared, east), callOf(stays))
  expect(await left()).toBe(1)
})

/**
 * A server with so many members, of whom nobody ever signs in, in the order in which they are told.
 */
async function crowdOf(shared: SharedCluster, size: number) {
  const [ada] = (await people(shared, "ada")) as [Person]
  const place = await plantServer(shared, { owner: ada })
  const members = Array.from({ length: size }, () => plantedId()).toSorted((a, b) => (BigInt(a) < BigInt(b) ? -1 : 1))
  await shared.sql`
    INSERT INTO users (id, username, created_at) SELECT id, 'p' || id, 1704153600 FROM unnest(${members}::bigint[]) AS id`
  await shared.sql`
    INSERT INTO members (server_id, user_id, joined_at) SELECT ${place.server_id}, id, 1704153600 FROM unnest(${members}::bigint[]) AS id`
  return { ada, members, ...place }
}

test("a message that is deleted, or hidden from people, while they are notified is told no further than the page under way", async ({
  shared,
}) => {
  const { east, west } = shared
  const { ada, members, server_id, channel_id } = await crowdOf(shared, 12)
  const rest = ada.on(west)
  const call = { everyone: true }
  const asked: string[] = []
  const during = (act: () => Promise<unknown>) => {
    let acted: Promise<unknown> | undefined
    return toolsOf(shared, east, {
      async ask(...args: Parameters<Worker["node"]["ask"]>) {
        await (acted ??= act())
        asked.push(args[1])
        return east.node.ask(...args)
      },
    })
  }
  const gone = await rest.createMessage({ channel_id, content: "gone" })
  await notifyMentioned(
    during(() => rest.deleteMessage({ channel_id, message_id: gone.id })),
    callOf(gone, call),
    5,
  )
  expect(asked.splice(0).toSorted()).toEqual(members.slice(0, 5).toSorted())
  // What they were told went with the message.
  expect(await toldOf(shared, gone.id)).toEqual([])
  const hidden = await rest.createMessage({ channel_id, content: "hidden" })
  const hide = { channel_id, target_id: server_id, type: "role" as const, allow: [], deny: ["channels.view" as const] }
  await notifyMentioned(
    during(() => rest.setOverride(hide)),
    callOf(hidden, call),
    5,
  )
  expect(await toldOf(shared, hidden.id)).toEqual(members.slice(0, 5))
})

test("a home that refuses keeps nobody else from being told, and its own is not forgotten", async ({ shared }) => {
  const { east } = shared
  const { ada, members, channel_id } = await crowdOf(shared, 12)
  const sent = await ada.on(east).createMessage({ channel_id, content: "all of you" })
  const call = callOf(sent, { everyone: true })
  await shared.sql`
    INSERT INTO message_mentions (channel_id, message_id, users, roles, everyone, here) VALUES (${channel_id}, ${sent.id}, '{}', '{}', true, false)`
  const left = () => shared.sql`SELECT FROM message_mentions WHERE message_id = ${sent.id}`
  const broken = new Error("it refuses")
  const ask = (...args: Parameters<Worker["node"]["ask"]>) =>
    args[1] === members[1] ? Promise.reject(broken) : east.node.ask(...args)
  await expect(notifyMentioned(toolsOf(shared, east, { ask }), call, 5)).rejects.toBe(broken)
  expect(await toldOf(shared, sent.id)).toEqual(members.toSpliced(1, 1))
  expect(await left()).toHaveLength(1)
  await notifyMentioned(toolsOf(shared, east), call, 5)
  expect(await toldOf(shared, sent.id)).toEqual(members)
  expect(await left()).toHaveLength(0)
})

test("a member who joined after a message was sent is not mentioned by it with all, or with their role; by their name they are", async ({
  shared,
}) => {
  const { east, west } = shared
  const { ada, members, server_id, channel_id } = await crowdOf(shared, 1)
  const [late] = (await people(shared, "late")) as [Person]
  const { id: role } = await ada.on(east).createRole({ server_id, name: "Late", mentionable: true })
  const { code } = await ada.on(east).createInvite({ channel_id })
  const sent = await ada.on(west).createMessage({ channel_id, content: "before" })
  await late.on(west).joinByInvite({ invite_code: code })
  await ada.on(east).giveRole({ server_id, member_id: late.id, role_id: role })
  const tools = toolsOf(shared, east)
  await notifyMentioned(tools, { ...callOf(sent, { everyone: true }), roles: [role] })
  await notifyMentioned(tools, { ...callOf(sent), roles: [role] })
  expect(await toldOf(shared, sent.id)).toEqual(members)
  await notifyMentioned(tools, callOf(sent, { everyone: true, users: [late.id] }))
  expect(new Set(await toldOf(shared, sent.id))).toEqual(new Set([...members, late.id]))
  const after = await ada.on(west).createMessage({ channel_id, content: "after" })
  await notifyMentioned(tools, { ...callOf(after), roles: [role] })
  expect(await toldOf(shared, after.id)).toEqual([late.id])
})

test("a job whose server is busy with another one is put off, which does not count as an attempt", async ({
  shared,
}) => {
  const { redisUrl, sql } = shared
  const prefix = `${shared.redisPrefix}own:`
  const [server_id, channel_id, message_id] = [plantedId(), plantedId(), plantedId()] as [string, string, string]
  await sql`
    INSERT INTO message_mentions (channel_id, message_id, users, roles, everyone, here) VALUES (${channel_id}, ${message_id}, '{}', '{}', true, false)`
  const [adding, taking] = [
    openRedis(redisUrl, "putting jobs", () => {}),
    openJobConnection(redisUrl, "taking jobs", () => {}),
  ]
  await Promise.all([adding.connect(), taking.connect()])
  const queue = openJobQueue(adding, prefix, Date.now)
  const massNotifications = new Set([server_id])
  const tools = toolsOf(shared, shared.east, { running: { massNotifications }, now: Date.now })
  const metrics = createMetrics()
  const [log, trouble] = [silentLog, () => {}]
  const consumer = consumeJobs({
    queue: "jobs",
    concurrency: 4,
    connection: taking,
    prefix,
    tools,
    log,
    metrics,
    trouble,
  })
  try {
    const call = { server_id, channel_id, message_id, users: [], roles: [], everyone: true, here: false }
    await queue.add(job.at(call, { key: "call" }))
    const counts = async () =>
      (await metrics.registry.metrics()).split("\n").filter(line => line.includes('job="notifyMentioned"'))
    await until("it is put off", async () => (await counts()).some(line => line.includes('outcome="deferred"')))
    massNotifications.clear()
    await until("it is done", async () => (await counts()).some(line => line.includes('outcome="done"')))
    expect((await counts()).filter(line => /retried|failed/.test(line))).toEqual([])
    expect(await sql`SELECT FROM message_mentions WHERE message_id = ${message_id}`).toHaveLength(0)
  } finally {
    await consumer.close()
    await queue.close()
    adding.disconnect()
    taking.disconnect()
    metrics.close()
  }
})
