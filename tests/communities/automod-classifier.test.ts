import { createServer, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { afterAll, beforeEach } from "vitest"
import { channelActor } from "../../src/actors/channel.ts"
import { openJobQueue } from "../../src/cluster/job-queue.ts"
import { openRedis } from "../../src/cluster/redis.ts"
import { classifyMessage } from "../../src/contract/core/jobs.ts"
import { refusal } from "../kit/conformance.ts"
import { sharedServer } from "../kit/seeds.ts"
import { expect, testWith, type SharedCluster } from "../kit/test.ts"
import { until } from "../kit/until.ts"

type Answer = (content: string, response: ServerResponse) => void

let answer: Answer
let asked: string[] = []
const json =
  (body: unknown, status = 200): Answer =>
  (_, response) =>
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body))
/** Severe is whatever is about a bomb. */
const aboutBombs: Answer = (content, response) =>
  json({ scores: { violence: content.includes("bomb") ? 0.97 : 0.02, spam: 0.4 } })(content, response)

/** A classifier on this machine, which answers as a test wants it to. */
const server = createServer((request, response) => {
  const chunks: Buffer[] = []
  request.on("data", (chunk: Buffer) => chunks.push(chunk))
  request.on("end", () => {
    const { content } = JSON.parse(Buffer.concat(chunks).toString()) as { content: string }
    asked.push(content)
    answer(content, response)
  })
})
await new Promise<void>(resolve => server.listen(0, "127.0.0.1", resolve))
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
const config = { AUTOMOD_CLASSIFIER_URL: url, AUTOMOD_CLASSIFIER_TOKEN: "custom-token" }

const test = testWith({ config, jobWorkers: 1 })

beforeEach(() => {
  asked = []
  answer = aboutBombs
})
afterAll(() => {
  server.closeAllConnections()
  server.close()
})

/** Ada's server with one rule, and Lin who writes. */
async function classified(shared: SharedCluster, rule: object = {}, settings: object = {}) {
  const { ada, lin, server: home, channel } = await shared.seed(sharedServer)
  const owner = ada.on(shared.east)
  const [server_id, channel_id] = [home.id, channel.id]
  const made = await owner.createAutomodRule({
    server_id,
    name: "judged by a machine",
    rule_type: "ai_moderation",
    config: { backend: "custom", categories: ["violence"], score_threshold: 0.9, severity: "critical", ...settings },
    actions: [{ action_type: "delete_message" }],
    ...rule,
  })
  const member = lin.on(shared.west)
  return {
    ada, lin, owner, member, server_id, channel_id, rule: made,
    say: (content: string, more: object = {}) => member.createMessage({ channel_id, content, ...more }),
    edit: (message_id: string, content: string) => member.editMessage({ channel_id, message_id, content }),
    isThere: async (message_id: string) =>
      (await owner.listMessages({ channel_id })).some(({ id }) => id === message_id),
    violations: () => owner.listAutomodViolations({ server_id }),
    isTimedOut: async () => (await owner.getMember({ server_id, member_id: lin.id })).timeout_until !== null,
  } // prettier-ignore
}

test("a message is stored and told before a classifier is asked; what it calls severe is deleted, sent or edited", async ({
  shared,
}) => {
  const actions = [{ action_type: "delete_message", reason: "No bombs" }]
  const { ada, lin, owner, channel_id, server_id, say, edit, isThere, violations } = await classified(shared, {
    actions,
  })
  const [inbox, own] = [await ada.listen(shared.east), await lin.listen(shared.west)]
  const held: [string, ServerResponse][] = []
  answer = (content, response) => void held.push([content, response])
  const letGo = async (count: number) => {
    await until("the classifier is asked", () => held.length === count)
    for (const [content, response] of held.splice(0)) aboutBombs(content, response)
  }
  const [flower, bomb] = [await say("a flower"), await say("a bomb")]
  for (const sent of [flower, bomb]) expect((await inbox.next("MESSAGE_CREATE")).id).toBe(sent.id)
  expect(await isThere(bomb.id), "nobody waits for the answer").toBe(true)
  await letGo(2)
  const gone = (id: string) => ({ id, channel_id, server_id, guild_id: server_id, automod: true })
  expect(await inbox.next("MESSAGE_DELETE")).toEqual(gone(bomb.id))
  expect(asked.toSorted()).toEqual(["a bomb", "a flower"])
  expect(await own.next("NOTIFICATION_CREATE")).toMatchObject({
    type: "system",
    content: expect.stringMatching(/^Your message in .+ was deleted: No bombs$/),
    content_preview: "a bomb",
  })

  expect((await edit(flower.id, "two flowers")).content).toBe("two flowers")
  await letGo(1)
  expect((await edit(flower.id, "two bombs")).content).toBe("two bombs")
  // The text of before is none of what is judged by now.
  expect((await edit(flower.id, "three bombs")).content).toBe("three bombs")
  await letGo(2)
  expect(await inbox.next("MESSAGE_DELETE")).toEqual(gone(flower.id))
  expect(await isThere(flower.id)).toBe(false)
  const found = { backend: "custom", category: "violence", score: 0.97 }
  expect(await violations()).toMatchObject([
    { matched_content: "three bombs", severity: "critical", metadata: { ...found, message_id: flower.id } },
    { matched_content: "a bomb", actions_taken: ["delete_message"], metadata: { ...found, message_id: bomb.id } },
  ])
  // 40 of 100 each.
  expect((await violations()).map(({ reputation }) => reputation)).toEqual([20, 20])

  answer = aboutBombs
  const embeds = [{ title: "a tree", footer: { text: "and a leaf" } }]
  await say("a word", { embeds })
  await until("everything that it says is asked about", () => asked.at(-1) === "a word\na tree\nand a leaf")
  const count = asked.length
  await owner.createMessage({ channel_id, content: "the owner's bomb" })
  await shared.settle()
  expect(asked, "nobody asks about the owner").toHaveLength(count)
})

test("AM5: a verdict that comes twice has its consequences once, from whatever worker", async ({ shared }) => {
  const actions = [{ action_type: "timeout_user" }, { action_type: "alert_moderators" }]
  const { ada, lin, owner, server_id, channel_id, rule, say, isThere, violations, isTimedOut } = await classified(
    shared,
    { actions },
  )
  const sent = await say("a bomb")
  await until("they are timed out", isTimedOut)
  await owner.editMember({ server_id, member_id: lin.id, timeout_seconds: 0 })
  const job = {
    server_id,
    owner_id: ada.id,
    channel_id,
    message_id: sent.id,
    author_id: lin.id,
    rule_ids: [rule.id],
    since: Date.now(),
  }
  const redis = openRedis(shared.redisUrl, "again", () => {})
  await redis.connect()
  const queue = openJobQueue(redis, shared.redisPrefix, Date.now)
  for (let i = 0; i < 3; i++) await queue.add(classifyMessage.at(job, { key: `again:${i}:${sent.id}` }))
  await until("they are asked again", () => asked.length === 4)
  await until("nothing waits", async () => (await queue.waiting()) === 0)
  await queue.close()
  redis.disconnect()

  // The home has moved on, and remembers nothing of it.
  const applied = await Promise.all(
    [shared.east, shared.west].map(async ({ node }) => {
      const [row] = await shared.sql`SELECT judged FROM automod_violations WHERE server_id = ${server_id}`
      const { outcome } = await node.ask(channelActor, channel_id, {
        type: "applyScores",
        message_id: sent.id,
        author_id: lin.id,
        content: "a bomb",
        judged: row!["judged"] as string,
        rule_ids: [rule.id],
        scores: { custom: { categories: { violence: 0.99 }, threshold: 0.5 } },
      })
      return outcome
    }),
  )
  expect(applied).toEqual(["repeated", "repeated"])
  expect(await isTimedOut(), "they were pardoned").toBe(false)
  expect(await violations()).toMatchObject([
    { actions_taken: ["timeout_user", "alert_moderators"], metadata: { message_id: sent.id } },
  ])
  await until("the owner is told", async () => (await owner.listNotifications()).unread_count === 1)
  expect(await isThere(sent.id)).toBe(true)
})

test("rules that another one goes before are not asked for; who has left can still be banned", async ({ shared }) => {
  const { lin, owner, member, server_id, channel_id, say, violations, edit } = await classified(shared, {
    actions: [{ action_type: "ban_user" }],
  })
  await owner.createAutomodRule({
    server_id,
    name: "first",
    rule_type: "keyword",
    config: { keywords: ["bomb"] },
    actions: [{ action_type: "delete_message" }],
    priority: 1,
  })
  expect(await refusal(say("a bomb"))).toBe("message_blocked")
  const [first, machine] = await owner.listAutomodRules({ server_id })
  await owner.editAutomodRule({ server_id, rule_id: machine!.id, exempt_channels: [channel_id] })
  await say("a flower")
  await owner.editAutomodRule({ server_id, rule_id: machine!.id, exempt_channels: [] })
  await owner.editAutomodRule({ server_id, rule_id: first!.id, enabled: false })
  await shared.settle()
  expect(asked).toEqual([])

  const held: ServerResponse[] = []
  answer = (_, response) => void held.push(response)
  const { id } = await say("a tree")
  await edit(id, "a bomb, and gone")
  await until("the classifier is asked", () => held.length === 2)
  await member.leaveServer({ server_id })
  for (const response of held) aboutBombs("bomb", response)
  await until("they are banned", async () => (await owner.listBans({ server_id })).length === 1)
  expect((await owner.listBans({ server_id }))[0]).toMatchObject({ user_id: lin.id })
  expect((await violations())[0]).toMatchObject({ actions_taken: ["ban_user"], user_id: lin.id })
})

test("a classifier that fails is asked again until it answers; what it does not take passes, and the rule says so", async ({
  shared,
}) => {
  const { owner, server_id, say, isThere } = await classified(shared)
  const seen = new Set<string>()
  const faults: Record<string, Answer> = {
    "an error": json({ scores: { violence: 1 } }, 500),
    "no JSON": (_, response) => response.end("<html>bomb</html>"),
    "another shape": json({ violence: 1 }),
    "a redirection": (_, response) => response.writeHead(307, { location: `${url}/custom` }).end(),
    "a hang-up": (_, response) => response.destroy(),
  }
  answer = (content, response) => {
    const fault = Object.keys(faults).find(name => content.endsWith(name))
    if (fault === undefined || seen.has(fault)) aboutBombs(content, response)
    else {
      seen.add(fault)
      faults[fault]!(content, response)
    }
  }
  const sent = await Promise.all(Object.keys(faults).map(fault => say(`a bomb, with ${fault}`)))
  await until("all of them are deleted", async () => {
    const left = await Promise.all(sent.map(({ id }) => isThere(id)))
    return !left.includes(true)
  })
  expect(seen.size).toBe(Object.keys(faults).length)
  answer = json({ error: "language" }, 422)
  const { id } = await say("a bomb, in no language")
  await until("it is noted", async () => (await owner.listAutomodRules({ server_id }))[0]!.unjudged !== null)
  expect((await owner.listAutomodRules({ server_id }))[0]!.unjudged).toMatchObject({ count: 1, reason: "late" })
  const [noted] = await owner.listAutomodViolations({ server_id })
  expect(noted).toMatchObject({ actions_taken: [], matched_content: "", metadata: { unjudged: "late" } })
  expect(noted!.reputation, "which says nothing against anybody").toBe(0)
  expect(await isThere(id)).toBe(true)
})

test("a job worker that is killed while a classifier thinks leaves the question to another", async ({ cluster }) => {
  const [east, west] = await cluster.boot(2, { config })
  const [first] = [await cluster.bootJobWorker({ config })]
  const shared = Object.assign(cluster, { east: east!, west: west! })
  const { say, isThere, violations } = await classified(shared)
  const held: ServerResponse[] = []
  answer = (_, response) => void held.push(response)
  const { id } = await say("a bomb")
  await until("the classifier is asked", () => held.length === 1)
  await first.stop()
  // The worker may have given the job back. Else: as if the time had passed after which its jobs are given to others.
  const redis = openRedis(cluster.redisUrl, "later", () => {})
  await redis.connect()
  const queue = `${cluster.redisPrefix}{jobs}:classifiers`
  const [job] = await redis.lrange(`${queue}:active`, 0, -1)
  if (job !== undefined) {
    await redis.del(`${queue}:stalled-check`, `${queue}:${job}:lock`)
    await redis.sadd(`${queue}:stalled`, job)
  }
  redis.disconnect()
  answer = aboutBombs
  await cluster.bootJobWorker({ config })
  await until("it is deleted", async () => !(await isThere(id)))
  expect(await violations()).toHaveLength(1)
  expect(asked).toEqual(["a bomb", "a bomb"])
})

test("no more questions wait than may", async ({ shared }) => {
  const redis = openRedis(shared.redisUrl, "full", () => {})
  await redis.connect()
  const left: string[] = []
  const prefix = `${shared.redisPrefix}full:`
  const queue = openJobQueue(redis, prefix, Date.now, {
    maxWaiting: { classifiers: 3 },
    onLeftOut: job => left.push(job),
  })
  const job = {
    server_id: "1",
    owner_id: "1",
    channel_id: "1",
    message_id: "1",
    author_id: "1",
    rule_ids: [],
    since: 0,
  }
  for (let i = 0; i < 5; i++) await queue.add(classifyMessage.at(job, { key: `q:${i}` }))
  expect([await queue.waiting(), left]).toEqual([3, ["classifyMessage", "classifyMessage"]])
  await queue.close()
  redis.disconnect()
})
