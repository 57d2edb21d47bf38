/** Web Push: what a browser is sent, whom it is not, and when a subscription ends. */
import { afterAll, beforeEach } from "vitest"
import { openJobQueue } from "../../src/cluster/job-queue.ts"
import { openRedis } from "../../src/cluster/redis.ts"
import { limits } from "../../src/contract/accounts/push-subscriptions.ts"
import { PushEndpoints } from "../../src/integrations/web-push.ts"
import { refusal } from "../kit/conformance.ts"
import type { Person } from "../kit/person.ts"
import { pushedTo, PushService } from "../kit/push-service.ts"
import { dmBetween, sharedServer } from "../kit/seeds.ts"
import { expect, testWith, type SharedCluster } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const test = testWith({ config: { PUSH_PRIVATE_ADDRESSES: "on" }, jobWorkers: 1 })
const service = await new PushService().start()
afterAll(() => service.stop())
beforeEach(() => {
  service.got.length = 0
  service.problems.length = 0
})

let browsers = 0
async function subscribed(shared: SharedCluster, person: Person, choice: object = {}) {
  const rest = person.on(shared.east)
  const { public_key } = await person.on(shared.west).getPushKey()
  const name = `browser${++browsers}`
  const made = await rest.createPushSubscription({ ...service.browser(name, public_key), ...choice })
  return { ...made, name }
}
const arrived = (name: string, count: number) =>
  until(`${count} pushes have come to ${name}`, () => Promise.resolve(service.notesOf(name).length >= count), {
    everyMs: 10,
  })
const left = (shared: SharedCluster, person: Person) =>
  shared.sql`SELECT id FROM push_subscriptions WHERE user_id = ${person.id}`

test("PUSH3: DMs and mentions reach who is away, encrypted and signed, and nobody who is active, has read or has muted them", async ({
  shared,
}) => {
  const { ada, lin, server, channel } = await shared.seed(sharedServer)
  const own = ada.on(shared.west)
  const [server_id, channel_id] = [server.id, channel.id]
  const open = await subscribed(shared, lin)
  const hiding = await subscribed(shared, lin, { hides_content: true })
  const onlyMentions = await subscribed(shared, lin, { directs: false })
  expect(await lin.on(shared.west).listPushSubscriptions()).toMatchObject({
    limit: limits.pushSubscriptions,
    subscriptions: [open, hiding, onlyMentions].map(({ id, endpoint }) => ({ id, endpoint, current: true })),
  })
  const dm = await dmBetween(ada, lin, shared.west)
  const sent = await own.createMessage({ channel_id: dm, content: `Hello <@${lin.id}> <:wave:123> ${"x".repeat(500)}` })
  await Promise.all([arrived(open.name, 1), arrived(hiding.name, 1)])
  const [note] = service.notesOf(open.name)
  expect(note).toEqual({
    kind: "direct",
    author: ada.username,
    server: null,
    channel: null,
    text: `${`Hello @… :wave: ${"x".repeat(500)}`.slice(0, 199)}…`,
    path: `dms/${dm}/${sent.id}`,
    tag: dm,
    at: expect.any(Number),
  })
  expect(service.notesOf(hiding.name)).toEqual([{ ...note, text: null, at: expect.any(Number) }])
  const { headers, claims } = service.got[0]!
  expect(headers).toMatchObject({ ttl: expect.stringMatching(/^43[12]\d\d$/), urgency: "high", topic: dm })
  expect(claims).toEqual({
    aud: service.origin,
    exp: expect.any(Number),
    sub: expect.stringMatching(/^(https|mailto):/),
  })
  expect(claims.exp - Date.now() / 1000).toBeLessThan(86_400)

  // A mention in a server, and a test, which comes to who is active, too.
  const called = await own.createMessage({ channel_id, content: `<@${lin.id}> come` })
  await arrived(onlyMentions.name, 1)
  expect(service.notesOf(onlyMentions.name)).toEqual([
    expect.objectContaining({
      kind: "mention",
      server: server.name,
      channel: channel.name,
      text: "@… come",
      path: `servers/${server_id}/${channel_id}/${called.id}`,
    }),
  ])
  await arrived(open.name, 2)
  await arrived(hiding.name, 2)

  // Muted, unmentioned, by oneself, read, active, not to be disturbed: the barrier at the end is the next to come.
  const reader = lin.on(shared.east)
  await reader.putServerNotificationSettings({ server_id, muted: true })
  await reader.putChannelNotificationSettings({ channel_id: dm, muted: true })
  await own.createMessage({ channel_id, content: `<@${lin.id}> muted` })
  await own.createMessage({ channel_id: dm, content: "muted" })
  await settled(shared)
  await reader.putServerNotificationSettings({ server_id, muted: false })
  await reader.putChannelNotificationSettings({ channel_id: dm, muted: false })
  await own.createMessage({ channel_id, content: "calls nobody" })
  await reader.createMessage({ channel_id: dm, content: "by Lin" })
  const inbox = await lin.listen(shared.west)
  await until("Lin is seen", async () => (await own.getPresence({ user_id: lin.id })).status === "online", {
    everyMs: 10,
  })
  await own.createMessage({ channel_id: dm, content: "while Lin looks" })
  await settled(shared)
  await reader.updatePresence({ status: "dnd" })
  await own.createMessage({ channel_id: dm, content: "while Lin wants peace" })
  await settled(shared)
  await reader.updatePresence({ status: "idle" })
  await until("Lin is away", async () => (await own.getPresence({ user_id: lin.id })).status === "idle", {
    everyMs: 10,
  })
  await own.createMessage({ channel_id: dm, content: "to who left the screen" })
  await arrived(open.name, 3)
  await reader.testPushSubscription({ subscription_id: open.id })
  await arrived(open.name, 4)
  expect(service.notesOf(open.name).slice(2)).toEqual([
    expect.objectContaining({ kind: "direct", text: "to who left the screen" }),
    expect.objectContaining({ kind: "test", path: "settings/notifications" }),
  ])
  expect(service.problems).toEqual([])
  inbox.close()
})

/** No job waits or runs. */
async function settled(shared: SharedCluster): Promise<void> {
  await shared.settle()
  const redis = openRedis(shared.redisUrl, "waiting", () => {})
  await redis.connect()
  const queue = openJobQueue(redis, shared.redisPrefix, Date.now)
  const isDone = async () => {
    const { waiting, active } = await queue.state()
    return waiting + active === 0
  }
  await until("no job is left", isDone, { everyMs: 10 })
  await queue.close()
  redis.disconnect()
}

test("a push service that is busy is asked again, one that forgot the browser is not, and what refuses is let be", async ({
  shared,
}) => {
  const [ada, lin] = await Promise.all([shared.person("ada"), shared.person("lin")])
  const dm = await dmBetween(ada, lin, shared.east)
  const busy = await subscribed(shared, lin)
  const gone = await subscribed(shared, lin)
  const forbidding = await subscribed(shared, lin)
  const leading = await subscribed(shared, lin)
  const steady = await subscribed(shared, lin)
  service.answers.set(
    `/${busy.name}`,
    [429, 503].map(status => ({ status, headers: { "retry-after": "0" } })),
  )
  service.answers.set(`/${gone.name}`, [{ status: 410 }])
  service.answers.set(`/${forbidding.name}`, [{ status: 403 }])
  service.answers.set(`/${leading.name}`, [{ status: 307, headers: { location: `${service.origin}/elsewhere` } }])
  await ada.on(shared.east).createMessage({ channel_id: dm, content: "again" })
  await until("who is gone is forgotten", async () => (await left(shared, lin)).length === 4, { everyMs: 10 })
  await arrived(busy.name, 3)
  expect(service.notesOf(busy.name)).toEqual([1, 2, 3].map(() => expect.objectContaining({ text: "again" })))
  // Who has got it is not sent it again with the others.
  for (const { name } of [gone, forbidding, leading, steady]) expect(service.notesOf(name)).toHaveLength(1)
  // Nobody was led elsewhere.
  expect(service.problems).toEqual([])
  await ada.on(shared.west).createMessage({ channel_id: dm, content: "later" })
  await arrived(busy.name, 4)
  expect(service.notesOf(gone.name)).toHaveLength(1)

  // Until it is tried again they may have been removed from there: what was written stays there.
  const { ada: owner, lin: member, channel } = await shared.seed(sharedServer)
  const slow = await subscribed(shared, member)
  service.answers.set(`/${slow.name}`, [{ status: 503, headers: { "retry-after": "0" } }])
  await owner.on(shared.east).createMessage({ channel_id: channel.id, content: `<@${member.id}> secret` })
  await arrived(slow.name, 2)
  expect(service.notesOf(slow.name)).toMatchObject([{ text: "@… secret" }, { text: null }])
})

test("PUSH4: a push service that never answers has one request at a time, and no job of the others waits for it", async ({
  shared,
}) => {
  const [ada, lin] = await Promise.all([shared.person("ada"), shared.person("lin")])
  const dm = await dmBetween(ada, lin, shared.east)
  // Another service, as far as names go.
  const elsewhere = service.origin.replace("127.0.0.1", "localhost")
  const { public_key } = await lin.on(shared.west).getPushKey()
  const dead = ["dead1", "dead2", "dead3"]
  for (const name of dead) {
    service.silent.add(`/${name}`)
    const { keys } = service.browser(name, public_key)
    await lin.on(shared.east).createPushSubscription({ endpoint: `${elsewhere}/${name}`, keys })
  }
  const good = await subscribed(shared, lin)
  for (const i of [1, 2, 3]) {
    await ada.on(shared.east).createMessage({ channel_id: dm, content: `${i}` })
    await arrived(good.name, i)
  }
  await until("somebody has waited", () => Promise.resolve(service.maxSilent > 0), { everyMs: 10 })
  expect(service.maxSilent).toBe(1)
})

test("PUSH1, PUSH2: a user has few subscriptions, nobody else's are theirs, and each ends with its session", async ({
  shared,
}) => {
  const [ada, lin] = await Promise.all([shared.person("ada"), shared.person("lin")])
  const rest = lin.on(shared.east)
  const first = await subscribed(shared, lin)
  // The same browser again has the same subscription.
  const again = { ...pushedTo, endpoint: first.endpoint }
  expect(await rest.createPushSubscription({ ...again, directs: null, mentions: false })).toMatchObject({
    id: first.id,
    directs: true,
    mentions: false,
  })
  for (const subscription_id of [first.id, "1"]) {
    const other = ada.on(shared.west)
    expect(await refusal(other.deletePushSubscription({ subscription_id }))).toBe("push_subscription_not_found")
    expect(await refusal(other.testPushSubscription({ subscription_id }))).toBe("push_subscription_not_found")
  }
  expect(await refusal(rest.deletePushSubscription({ subscription_id: "x" }))).toBe("invalid_subscription_id")
  const many = Array.from({ length: limits.pushSubscriptions + 2 }, (_, i) => `https://192.0.2.1/${i}`)
  const answers = await Promise.all(
    many.map(endpoint => refusal(rest.createPushSubscription({ ...pushedTo, endpoint })).catch(() => "granted")),
  )
  expect(answers.filter(code => code === "push_subscription_limit")).toHaveLength(3)
  expect(await left(shared, lin)).toHaveLength(limits.pushSubscriptions)

  // Another account in the same browser: what is for Lin is read there no longer.
  await ada.on(shared.west).createPushSubscription(again)
  expect(await left(shared, lin)).toHaveLength(limits.pushSubscriptions - 1)
  expect(await left(shared, ada)).toHaveLength(1)
  await rest.deletePushSubscription({ subscription_id: (await rest.listPushSubscriptions()).subscriptions[0]!.id })

  const elsewhere = await lin.signIn(shared.west)
  await elsewhere.on(shared.west).createPushSubscription({ ...pushedTo, endpoint: `${service.origin}/elsewhere` })
  expect(await left(shared, lin)).toHaveLength(limits.pushSubscriptions - 1)
  await rest.logout()
  expect(await left(shared, lin)).toHaveLength(1)
  expect((await elsewhere.on(shared.east).listPushSubscriptions()).subscriptions).toHaveLength(1)
  await elsewhere.on(shared.east).revokeAllSessions({ except_current: false })
  expect(await left(shared, lin)).toHaveLength(0)
})

test("FETCH1: an endpoint is a public https address with keys of a browser", async ({ shared }) => {
  const lin = await shared.person("lin")
  const rest = lin.on(shared.east)
  const bad = [
    { endpoint: "ftp://push.example.com/1" },
    { endpoint: "nowhere" },
    { endpoint: "https://user:word@push.example.com/1" },
    { keys: { ...pushedTo.keys, p256dh: "A".repeat(87) } },
  ]
  for (const part of bad)
    expect(await refusal(rest.createPushSubscription({ ...pushedTo, ...part }))).toBe("invalid_push_subscription")
  expect(await refusal(rest.createPushSubscription({ ...pushedTo, endpoint: "" }))).toBe("validation_failed")

  // As every server but this test's has it.
  const [strict] = await shared.boot(1, { config: { PUSH_PRIVATE_ADDRESSES: "off" } })
  const inside = { ...pushedTo, endpoint: "https://10.0.0.1/1" }
  expect(await refusal(lin.on(strict!).createPushSubscription(inside))).toBe("private_address")
  const endpoints = new PushEndpoints({
    mayBePrivate: false,
    resolve: async name => [name === "inside.example" ? "10.0.0.1" : "1.1.1.1"],
  })
  const check = async (endpoint: string) => Object.values(await endpoints.check(endpoint, pushedTo.keys))[0]
  expect(await check("https://push.example/1")).toBe("https://push.example/1")
  expect(await check("http://push.example/1")).toBe("its endpoint is no https address")
  for (const host of ["127.0.0.1", "[::1]", "169.254.169.254", "10.0.0.1", "inside.example", "0x7f.1", "2130706433"])
    expect([host, await check(`https://${host}/1`)]).toEqual([host, "private address"])
})
