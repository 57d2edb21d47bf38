import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { afterAll, beforeEach } from "vitest"
import { createClassifiers } from "../../src/integrations/classifiers.ts"
import { silentLog } from "../../src/observability/log.ts"
import { createMetrics } from "../../src/observability/metrics.ts"
import { refusal } from "../kit/conformance.ts"
import { sharedServer } from "../kit/seeds.ts"
import { expect, testWith, type SharedCluster } from "../kit/test.ts"
import { until } from "../kit/until.ts"

interface Question {
  readonly path: string
  readonly authorization: string | undefined
  readonly key: string | undefined
  readonly body: Record<string, unknown>
}
type Answer = (question: Question, response: ServerResponse, request: IncomingMessage) => void

let answer: Answer
let asked: Question[] = []
/** Where nobody listens. */
const nowhere = "http://127.0.0.1:9"

const json =
  (body: unknown, status = 200): Answer =>
  (_, response) =>
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body))
/** Severe is whatever is about a bomb. */
const aboutBombs = (text: unknown) => ({ violence: String(text).includes("bomb") ? 0.97 : 0.02, spam: 0.4 })

/** A classifier on this machine, which answers as a test wants it to. */
const server = createServer((request, response) => {
  const chunks: Buffer[] = []
  request.on("data", (chunk: Buffer) => chunks.push(chunk))
  request.on("end", () => {
    const question: Question = {
      path: request.url!,
      authorization: request.headers.authorization,
      key: request.headers["x-goog-api-key"] as string | undefined,
      body: JSON.parse(Buffer.concat(chunks).toString()) as Record<string, unknown>,
    }
    asked.push(question)
    answer(question, response, request)
  })
})
await new Promise<void>(resolve => server.listen(0, "127.0.0.1", resolve))
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`

const test = testWith({
  config: {
    AUTOMOD_CLASSIFIER_URL: `${url}/custom`,
    AUTOMOD_CLASSIFIER_TOKEN: "custom-token",
    AUTOMOD_OPENAI_URL: `${url}/openai`,
    AUTOMOD_OPENAI_TOKEN: "openai-token",
  },
})

beforeEach(() => {
  asked = []
  answer = (question, response, request) =>
    json({ scores: aboutBombs(question.body["content"]) })(question, response, request)
})
afterAll(() => {
  server.closeAllConnections()
  server.close()
})

/** Ada's server with one rule, and Lin who writes. */
async function classified(shared: SharedCluster, config: object, more: object = {}) {
  const { ada, lin, server: home, channel } = await shared.seed(sharedServer)
  const owner = ada.on(shared.east)
  const server_id = home.id
  await owner.createAutomodRule({
    server_id,
    name: "judged by a machine",
    rule_type: "ai_moderation",
    config: { backend: "custom", categories: ["violence"], score_threshold: 0.9, severity: "critical", ...config },
    actions: [{ action_type: "delete_message" }],
    ...more,
  })
  const channel_id = channel.id
  const member = lin.on(shared.west)
  return {
    owner, member, server_id, channel_id,
    say: (content: string) => member.createMessage({ channel_id, content }),
    edit: (message_id: string, content: string) => member.editMessage({ channel_id, message_id, content }),
    violations: () => owner.listAutomodViolations({ server_id }),
  } // prettier-ignore
}

test("a classifier is asked once about a message; what it calls severe is refused, on send and on edit", async ({
  shared,
}) => {
  const { owner, channel_id, say, edit, violations } = await classified(shared, {})
  const sent = await say("a flower")
  expect(asked).toEqual([
    { path: "/custom", authorization: "Bearer custom-token", key: undefined, body: { content: "a flower" } },
  ])
  expect(await refusal(say("a bomb"))).toBe("message_blocked")
  expect((await edit(sent.id, "two flowers")).content).toBe("two flowers")
  expect(await refusal(edit(sent.id, "two bombs"))).toBe("message_blocked")
  expect(asked.map(({ body }) => body["content"])).toEqual(["a flower", "a bomb", "two flowers", "two bombs"])
  expect(await violations()).toMatchObject([
    { rule_type: "ai_moderation", severity: "critical", metadata: { message_id: sent.id } },
    { matched_content: "a bomb", metadata: { backend: "custom", category: "violence", score: 0.97 } },
  ])
  await owner.createMessage({ channel_id, content: "the owner's bomb" })
  expect(asked, "nobody asks about the owner").toHaveLength(4)
})

test("a classifier is asked about everything that a message says", async ({ shared }) => {
  const { member, channel_id, edit } = await classified(shared, {})
  const embeds = [{ title: "a tree", footer: { text: "and a leaf" } }]
  const { id } = await member.createMessage({ channel_id, content: "a flower", embeds })
  await edit(id, "two flowers")
  expect(asked.map(({ body }) => body["content"])).toEqual([
    "a flower\na tree\nand a leaf",
    "two flowers\na tree\nand a leaf",
  ])
  const bomb = { channel_id, content: "a flower", embeds: [{ title: "a bomb" }] }
  expect(await refusal(member.createMessage(bomb))).toBe("message_blocked")
})

test("nobody is asked about what another rule refuses, or where the rule does not hold", async ({ shared }) => {
  const { owner, server_id, channel_id, say } = await classified(shared, {})
  await owner.createAutomodRule({
    server_id,
    name: "first",
    rule_type: "keyword",
    config: { keywords: ["bomb"] },
    actions: [{ action_type: "delete_message" }],
    priority: 1,
  })
  expect(await refusal(say("a bomb"))).toBe("message_blocked")
  const [, machine] = await owner.listAutomodRules({ server_id })
  await owner.editAutomodRule({ server_id, rule_id: machine!.id, exempt_channels: [channel_id] })
  await say("a flower")
  expect(asked).toEqual([])
})

test("a classifier without a usable answer lets everything pass, on send and on edit", async ({ shared }) => {
  const { say, edit, violations } = await classified(shared, {})
  const faults: Record<string, Answer> = {
    "an error": json({ scores: { violence: 1 } }, 500),
    "no JSON": (_, response) => response.end("<html>bomb</html>"),
    "another shape": json({ violence: 1 }),
    "no numbers": json({ scores: { violence: "1" } }),
    "a list": json({ scores: [1] }),
    null: json(null),
    "a redirection": (_, response) => response.writeHead(307, { location: `${url}/custom` }).end(),
    "a hang-up": (_, response) => response.destroy(),
    "no end": (_, response) => {
      const writing = setInterval(() => response.write(" ".repeat(16_384)), 1)
      response.on("close", () => clearInterval(writing))
    },
  }
  for (const [fault, how] of Object.entries(faults)) {
    answer = how
    const { id } = await say(`a bomb, with ${fault}`)
    expect((await edit(id, `bombs, with ${fault}`)).content).toBe(`bombs, with ${fault}`)
  }
  expect(asked).toHaveLength(2 * Object.keys(faults).length)
  expect(await violations()).toEqual([])
})

test("the log of an answer that is not JSON quotes nothing of it", async () => {
  const [metrics, warned] = [createMetrics(), [] as unknown[]]
  try {
    const log = { ...silentLog, warn: (...said: unknown[]) => void warned.push(said) }
    const { scores } = createClassifiers({ custom: { url } }, { log, metrics })
    answer = (_, response) => response.end("a secret that somebody wrote")
    expect(await scores(["custom"], "x", { owner: "1", author: "2" })).toEqual({ custom: null })
    expect(warned).toEqual([
      [{ backend: "custom", late: false, why: "the answer is no JSON" }, "classifier did not answer"],
    ])
  } finally {
    metrics.close()
  }
})

test("one that is slow is waited for two seconds", async ({ shared }) => {
  const { say } = await classified(shared, {})
  answer = () => {}
  const before = performance.now()
  await say("a bomb")
  const took = performance.now() - before
  expect(took).toBeGreaterThan(1_900)
  expect(took).toBeLessThan(4_500)
})

test("OpenAI's answers are understood; a backend that is not configured asks nobody", async ({ shared }) => {
  const open = await classified(shared, { backend: "openai" })
  answer = (question, response, request) =>
    json({
      id: "modr-1",
      model: "m",
      results: [{ flagged: false, category_scores: aboutBombs(question.body["input"]) }],
    })(question, response, request)
  expect(await refusal(open.say("a bomb"))).toBe("message_blocked")
  await open.say("a flower")
  expect(asked[0]).toMatchObject({ path: "/openai", authorization: "Bearer openai-token", body: { input: "a bomb" } })
  const unset = await classified(shared, { backend: "perspective" })
  await unset.say("a bomb")
  expect(asked).toHaveLength(2)
})

test("Perspective's answers are understood; while it is down nobody waits; concurrent requests are bounded", async () => {
  const metrics = createMetrics()
  try {
    const classifiers = createClassifiers(
      { perspective: { url: `${url}/perspective`, token: "google" }, custom: { url: nowhere }, openai: { url } },
      { log: silentLog, metrics },
    )
    expect(classifiers.backends.toSorted()).toEqual(["custom", "openai", "perspective"])
    answer = json({ attributeScores: { TOXICITY: { summaryScore: { value: 0.9, type: "PROBABILITY" } }, THREAT: {} } })
    expect(await classifiers.scores(["perspective", "custom"], "x", { owner: "1", author: "2" })).toEqual({
      perspective: { toxicity: 0.9 },
      custom: null,
    })
    expect(asked[0]).toMatchObject({ key: "google", authorization: undefined })
    expect(asked[0]!.body).toMatchObject({ comment: { text: "x" }, doNotStore: true })

    const held: ServerResponse[] = []
    answer = (_, response) => {
      held.push(response)
    }
    let authors = 0
    const ask = (owner: string, author = `author ${authors++}`) =>
      classifiers.scores(["openai"], "x", { owner, author })
    const flood = Array.from({ length: 20 }, () => ask("flood"))
    // Those beyond the bound of an owner do not wait for anything.
    expect(await Promise.all(flood.splice(16))).toEqual(Array.from({ length: 4 }, () => ({ openai: null })))
    const stranger = ask("stranger")
    await until("all have arrived", () => held.length === 17)
    const end = () => {
      for (const response of held.splice(0)) response.end(JSON.stringify({ results: [{ category_scores: { a: 1 } }] }))
    }
    end()
    expect(await stranger).toEqual({ openai: { a: 1 } })
    await Promise.all(flood)
    // Now that it answers, what finds no place because of others is refused.
    const many = Array.from({ length: 48 }, (_, at) => ask(`owner ${at % 4}`))
    many.push(...Array.from({ length: 16 }, (_, at) => ask(`owner ${at}`, "one author")))
    for (const full of [ask("another"), ask("owner 9", "one author")])
      await expect(full).rejects.toMatchObject({ code: "unavailable", details: { retry_after: 1 } })
    await until("all have arrived", () => held.length === 64)
    end()
    expect((await Promise.all(many)).every(({ openai }) => openai?.["a"] === 1)).toBe(true)
    const text = await metrics.registry.metrics()
    expect(text).toMatch(/starling_automod_classifier_questions_total\{outcome="busy"\} 6/)
    expect(text).toMatch(/starling_automod_classifier_questions_total\{outcome="failed"\} 1/)
  } finally {
    metrics.close()
  }
})
