/** Auto-moderation in the hands of operators: rules of every server, classifiers, the switch of all, and a place to try rules out. */
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { afterAll, beforeEach } from "vitest"
import { ApiError } from "../../client/rest.ts"
import { operatorRoutes } from "../../src/contract/contract.ts"
import { limits } from "../../src/contract/core/limits.ts"
import { routes as automodRoutes } from "../../src/contract/operators/automod.ts"
import { newOperator } from "../kit/area.ts"
import { refusal } from "../kit/conformance.ts"
import { botOf } from "../kit/everything.ts"
import { attentive } from "../kit/operator.ts"
import { clientAt } from "../kit/person.ts"
import { sharedServer } from "../kit/seeds.ts"
import { expect, testWith } from "../kit/test.ts"
import { until } from "../kit/until.ts"

interface Question {
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: Record<string, unknown>
}
let asked: Question[] = []
let answer: (response: ServerResponse, question: Question) => void
const scoring = (violence: number) => (response: ServerResponse) =>
  void response.end(JSON.stringify({ scores: { violence } }))

const server = createServer((request, response) => {
  const chunks: Buffer[] = []
  request.on("data", (chunk: Buffer) => chunks.push(chunk))
  request.on("end", () => {
    const body = JSON.parse(Buffer.concat(chunks).toString()) as Record<string, unknown>
    const question = { path: request.url!, headers: request.headers, body }
    asked.push(question)
    answer(response, question)
  })
})
await new Promise<void>(resolve => server.listen(0, "127.0.0.1", resolve))
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`

const test = testWith({ topology: attentive, config: { AUTOMOD_PRIVATE_ADDRESSES: "on" }, jobWorkers: 1 })
const strict = testWith({
  topology: attentive,
  config: { AUTOMOD_OPENAI_URL: `${url}/openai?token=in-the-url`, AUTOMOD_OPENAI_TOKEN: "configured-key" },
})

beforeEach(() => {
  asked = []
  answer = scoring(0.9)
})
afterAll(() => {
  server.closeAllConnections()
  server.close()
})

const deleting = [{ action_type: "delete_message" }]
const noBadWords = { name: "no bad words", rule_type: "keyword", config: { keywords: ["badword"] }, actions: deleting }

async function messageOf(call: Promise<unknown>): Promise<unknown> {
  const error = await call.then(
    () => undefined,
    (refused: unknown) => refused,
  )
  expect(error).toBeInstanceOf(ApiError)
  return (error as ApiError & { body: { error: { message: string } } }).body.error.message
}

const isGranted = (call: Promise<unknown>) =>
  call.then(
    () => true,
    () => false,
  )

test("nobody but operators reaches these routes, from whatever side", async ({ shared }) => {
  const { ada } = await shared.seed(sharedServer)
  const bot = await botOf(shared, shared.east, ada)
  const [right, gone] = [await newOperator(shared), await newOperator(shared, { lastsSeconds: -1 })]
  expect(Object.keys(operatorRoutes)).toEqual(expect.arrayContaining(Object.keys(automodRoutes)))
  const calls = [
    (token?: string) => clientAt(shared.east, token).listOperatorAutomodRules({ server_id: "1" }),
    (token?: string) => clientAt(shared.east, token).createOperatorAutomodRule({ server_id: "1", ...noBadWords }),
    (token?: string) => clientAt(shared.west, token).editOperatorAutomodRule({ rule_id: "1", name: "x" }),
    (token?: string) => clientAt(shared.west, token).deleteOperatorAutomodRule({ rule_id: "1" }),
    (token?: string) => clientAt(shared.east, token).getAutomodSettings(),
    (token?: string) => clientAt(shared.east, token).setAutomodSettings({ enabled: true }),
    (token?: string) => clientAt(shared.west, token).testAutomodRule({ ...noBadWords, text: "x" }),
  ]
  expect(calls).toHaveLength(Object.keys(automodRoutes).length)
  for (const call of calls) {
    expect(await refusal(call())).toBe("invalid_token")
    for (const token of [ada.token, bot.token, gone.token, "x".repeat(43)])
      expect(await refusal(call(token))).toBe("operator_session_ended")
  }
  expect(await clientAt(shared.east, right.token).getAutomodSettings()).toEqual({ enabled: true, ai: {} })
})

test("rules of any server: written, listed, changed and deleted, and in the trail; they spare nobody who is not exempt", async ({
  shared,
}) => {
  const { ada, lin, server: home, channel } = await shared.seed(sharedServer)
  const operator = await newOperator(shared)
  const [here, there] = [operator.on(shared.east), operator.on(shared.west)]
  const [server_id, channel_id] = [home.id, channel.id]
  const owner = ada.on(shared.east)
  const { id: role_id } = await owner.createRole({ server_id, name: "High" })
  await owner.giveRole({ server_id, member_id: lin.id, role_id })
  const timingOut = [...deleting, { action_type: "timeout_user" }]
  const made = await here.createOperatorAutomodRule({ server_id, ...noBadWords, actions: timingOut, priority: 3 })
  expect(made).toMatchObject({
    server_id,
    created_by: operator.id,
    updated_by: operator.id,
    exempt_roles: [],
    unjudged: null,
  })
  for (const rules of [
    await there.listOperatorAutomodRules({ server_id }),
    await owner.listAutomodRules({ server_id }),
  ])
    expect(rules).toEqual([made])
  expect(await refusal(lin.on(shared.west).createMessage({ channel_id, content: "badword" }))).toBe("message_blocked")
  const member = await owner.getMember({ server_id, member_id: lin.id })
  expect(member.timeout_until, "whatever rank they have").not.toBe(null)
  const [entry] = await owner.listAuditLog({ server_id, action: "AUTOMOD_RULE_CREATE" })
  expect(entry).toMatchObject({ user_id: operator.id, target_id: made.id })

  const edited = await there.editOperatorAutomodRule({
    rule_id: made.id,
    enabled: false,
    exempt_channels: [channel_id],
  })
  expect(edited).toMatchObject({ enabled: false, exempt_channels: [channel_id], rule_type: "keyword" })
  // Who changes it makes it theirs.
  const taken = await owner.editAutomodRule({ server_id, rule_id: made.id, name: "ours" })
  expect(taken).toMatchObject({ created_by: operator.id, updated_by: ada.id })
  // An operator only by what it looks for or does: by anything else it gets none of their power.
  const same = { rule_id: made.id, name: "theirs", enabled: true, priority: 5, config: noBadWords.config }
  expect(await here.editOperatorAutomodRule(same)).toMatchObject({ name: "theirs", priority: 5, updated_by: ada.id })
  for (const change of [{ config: { keywords: ["worse"] } }, { actions: deleting }]) {
    const rule_id = made.id
    expect(await there.editOperatorAutomodRule({ rule_id, ...change })).toMatchObject({ updated_by: operator.id })
    const name = `ours after ${Object.keys(change).join()}`
    expect(await owner.editAutomodRule({ server_id, rule_id, name })).toMatchObject({ updated_by: ada.id })
  }
  expect(await here.deleteOperatorAutomodRule({ rule_id: made.id })).toEqual({ success: true })
  expect(await owner.listAutomodRules({ server_id })).toEqual([])

  expect(await messageOf(here.editOperatorAutomodRule({ rule_id: made.id, name: "x" }))).toBe("Rule not found")
  expect(await messageOf(here.deleteOperatorAutomodRule({ rule_id: made.id }))).toBe("Rule not found")
  expect(await messageOf(here.listOperatorAutomodRules({ server_id: "1" }))).toBe("Server not found")
  const nowhere = { server_id: "1", ...noBadWords }
  expect(await messageOf(here.createOperatorAutomodRule(nowhere))).toBe("Server not found")
  const create = (more: object) => here.createOperatorAutomodRule({ server_id, ...noBadWords, ...more })
  expect(await messageOf(create({ rule_type: "none" }))).toBe("Invalid rule type")
  expect(await messageOf(create({ config: { keywords: [] } }))).toMatch(/^Invalid config\.keywords: /)
  expect(await messageOf(create({ actions: [{ action_type: "x" }] }))).toMatch(/^Invalid actions\.0\.action_type: /)
  expect(await refusal(create({ exempt_roles: ["1"] }))).toBe("automod_target_not_found")
  expect(await refusal(create({ name: "" }))).toBe("validation_failed")
  expect(await refusal(here.editOperatorAutomodRule({ rule_id: "x" }))).toBe("validation_failed")
  expect(await refusal(here.deleteOperatorAutomodRule({ rule_id: "x" }))).toBe("validation_failed")
  for (let count = 0; count < limits.automod.rulesPerServer; count += 4)
    await Promise.all(Array.from({ length: 4 }, () => create({})))
  expect(await refusal(create({}))).toBe("automod_limit")
  const { id } = (await here.listOperatorAutomodRules({ server_id }))[0]!
  const edit = (more: object) => refusal(here.editOperatorAutomodRule({ rule_id: id, ...more }))
  expect(await edit({ config: { keywords: [] } })).toBe("invalid_automod_config")
  expect(await edit({ actions: [] })).toBe("invalid_automod_action")
  expect(await edit({ exempt_roles: ["1"] })).toBe("automod_target_not_found")
  const keywords = Array.from({ length: 1_000 }, (_, at) => String(at).padEnd(100, "x"))
  await here.editOperatorAutomodRule({ rule_id: id, config: { keywords } })
  const [, second, third] = await here.listOperatorAutomodRules({ server_id })
  await here.editOperatorAutomodRule({ rule_id: second!.id, config: { keywords } })
  expect(await refusal(here.editOperatorAutomodRule({ rule_id: third!.id, config: { keywords } }))).toBe(
    "automod_limit",
  )

  const trail = await operator.trail(shared.east)
  const of = (action: string) => trail.filter(one => one.action === action && one.outcome === 200).at(-1)
  expect(of("createOperatorAutomodRule")).toMatchObject({ target: server_id, input: { name: "no bad words" } })
  expect(of("deleteOperatorAutomodRule")).toMatchObject({ target: made.id })
})

test("a classifier that an operator sets up judges messages of every worker within a second; the switch ends all of it", async ({
  shared,
}) => {
  const { ada, lin, server: home, channel } = await shared.seed(sharedServer)
  const operator = await newOperator(shared)
  const [here, there] = [operator.on(shared.east), operator.on(shared.west)]
  const [server_id, channel_id] = [home.id, channel.id]
  const owner = ada.on(shared.east)
  // Without a threshold of its own.
  const config = { backend: "custom", severity: "low" }
  await owner.createAutomodRule({ server_id, name: "ai", rule_type: "ai_moderation", config, actions: deleting })
  await owner.createAutomodRule({ server_id, ...noBadWords })
  const say = (content: string) => lin.on(shared.west).createMessage({ channel_id, content })
  const isThere = async (id: string) => (await owner.listMessages({ channel_id })).some(message => message.id === id)
  await say("nobody is asked")
  const custom = {
    endpoint_url: `${url}/first?key=in-the-url`,
    api_key: "top-secret",
    headers: { "X-Tenant": "ours" },
    threshold: 0.8,
  }
  const shown = {
    ...custom,
    endpoint_url: `${url}/first?********`,
    api_key: "********",
    headers: { "X-Tenant": "********" },
    auth_header: "Authorization",
    auth_prefix: "Bearer",
    timeout_seconds: 10,
    request_format: { content: "{content}" },
  }
  expect(await here.setAutomodSettings({ ai: { custom } })).toEqual({ enabled: true, ai: { custom: shown } })
  expect(await there.getAutomodSettings()).toEqual({ enabled: true, ai: { custom: shown } })
  const isAsked = (path: string) => asked.some(question => question.path === path)
  await until("messages are judged by it", async () => {
    await say("a bomb")
    return isAsked("/first?key=in-the-url")
  })
  expect(asked[0]).toMatchObject({
    headers: { authorization: "Bearer top-secret", "x-tenant": "ours" },
    body: { content: "a bomb" },
  })
  const { id } = await say("a bomb again")
  await until("it is deleted", async () => !(await isThere(id)))

  // What is hidden stays; the rest of the object is replaced, and other objects stay.
  const openai = { api_key: "sk-other", api_url: `${url}/openai` }
  await there.setAutomodSettings({ ai: { openai } })
  const hidden = { endpoint_url: `${url}/second?********`, api_key: "********", headers: { "X-Tenant": "********" } }
  const changed = await here.setAutomodSettings({ ai: { custom: hidden } })
  expect(changed.ai).toMatchObject({ custom: { ...hidden, threshold: 0.5 }, openai: { api_key: "********" } })
  answer = scoring(0.6)
  await until("the new one is asked", async () => {
    await say("another bomb")
    return isAsked("/second?key=in-the-url")
  })
  expect(asked.find(({ path }) => path === "/second?key=in-the-url")!.headers).toMatchObject({
    authorization: "Bearer top-secret",
    "x-tenant": "ours",
  })

  expect(await refusal(say("badword"))).toBe("message_blocked")
  expect(await here.setAutomodSettings({ enabled: false })).toEqual({ ...changed, enabled: false })
  for (const person of [lin.on(shared.west), lin.on(shared.east)])
    await until("everything passes", () => isGranted(person.createMessage({ channel_id, content: "badword" })))
  await shared.settle()
  asked = []
  const passed = await say("badword and bomb")
  await say("badword")
  await shared.settle()
  expect([asked, await isThere(passed.id)]).toEqual([[], true])
  expect(await here.setAutomodSettings({ enabled: true, ai: { custom: null, openai: null } })).toEqual({
    enabled: true,
    ai: {},
  })
  await until("rules hold again", async () => !(await isGranted(say("badword"))))
  const trail = JSON.stringify(await operator.trail(shared.east))
  for (const secret of ["top-secret", "sk-other", "ours", "in-the-url"]) expect(trail).not.toContain(secret)
  expect(trail).toContain("setAutomodSettings")
})

test("two operators who set up different classifiers at once lose nothing; neither database nor log has a key", async ({
  shared,
}) => {
  const operator = await newOperator(shared)
  const places = [operator.on(shared.east), operator.on(shared.west)]
  await Promise.all([
    places[0]!.setAutomodSettings({ ai: { openai: { api_key: "key-of-openai", api_url: url } } }),
    places[1]!.setAutomodSettings({ ai: { perspective: { api_key: "key-of-google", api_url: url } } }),
    places[0]!.setAutomodSettings({ ai: { custom: { endpoint_url: url, api_key: "key-of-ours" } } }),
  ])
  const { ai } = await places[1]!.getAutomodSettings()
  expect(Object.keys(ai).toSorted()).toEqual(["custom", "openai", "perspective"])
  const [row] = await shared.sql`SELECT s::text AS text FROM service s`
  for (const key of ["key-of-openai", "key-of-google", "key-of-ours", url]) expect(row!["text"]).not.toContain(key)
  await places[0]!.setAutomodSettings({ ai: { custom: null, openai: null, perspective: null } })
})

strict("AM4: keys go nowhere but where they were given for; private networks are refused", async ({ shared }) => {
  const operator = await newOperator(shared)
  const rest = operator.on(shared.east)
  const set = (ai: object) => rest.setAutomodSettings({ ai })
  // What the configuration says is shown without what may be secret in it, and may be anywhere.
  expect((await rest.getAutomodSettings()).ai).toEqual({
    openai: { api_url: `${url}/openai?********`, api_key: "********", model: "omni-moderation-latest", threshold: 0.5 },
  })
  const elsewhere = { openai: { api_url: "https://192.0.2.7/v1", api_key: "********" } }
  expect(await messageOf(set(elsewhere))).toBe("Invalid ai.openai.api_key: is needed again for another address")
  const queried = { openai: { api_url: "https://192.0.2.7/v1?********", api_key: "new" } }
  expect(await messageOf(set(queried))).toBe("Invalid ai.openai.api_url: is needed again for another address")
  const headers = { "X-Key": "********" }
  expect(await messageOf(set({ custom: { endpoint_url: "https://192.0.2.7", headers } }))).toMatch(
    /^Invalid ai\.custom\.headers\.X-Key: there is none/,
  )
  for (const host of ["127.0.0.1", "localhost", "[::1]", "10.1.2.3", "0x7f.1", "169.254.169.254", "[::ffff:10.0.0.1]"])
    for (const ai of [{ custom: { endpoint_url: `http://${host}:1/` } }, { openai: { api_url: `https://${host}/` } }])
      expect(await messageOf(set(ai)), host).toMatch(/^Invalid ai\.\w+\.\w+_url: leads into a private network$/)
  expect(await messageOf(set({ custom: { endpoint_url: "https://no-such-host.invalid/" } }))).toMatch(
    /its host is not found$/,
  )
  const wrong = [
    { custom: {} },
    { custom: { endpoint_url: "ftp://192.0.2.7" } },
    { custom: { endpoint_url: "https://user:secret@192.0.2.7" } },
    { custom: { endpoint_url: "https://192.0.2.7", headers: { Host: "x" } } },
    { custom: { endpoint_url: "https://192.0.2.7", headers: { A: "x\r\nB: y" } } },
    { custom: { endpoint_url: "https://192.0.2.7", auth_header: "Content-Length" } },
    { custom: { endpoint_url: "https://192.0.2.7", request_format: { text: "nothing" } } },
    { custom: { endpoint_url: "https://192.0.2.7", timeout_seconds: 31 } },
    { openai: { threshold: 2 } },
  ]
  for (const ai of wrong) expect(await refusal(set(ai)), JSON.stringify(ai)).toBe("validation_failed")
  expect((await set({ custom: { endpoint_url: "https://192.0.2.7/classify", api_key: "k" } })).ai).toHaveProperty(
    "custom",
  )
  expect(asked).toEqual([])
})

test("a rule is tried out on a text: what would happen, by whichever rule, and nothing does", async ({ shared }) => {
  const operator = await newOperator(shared)
  const rest = operator.on(shared.west)
  const trial = (rule_type: string, config: object, text: string, more: object = {}) =>
    rest.testAutomodRule({ rule_type, config: config as Record<string, unknown>, text, ...more })
  const actions = [...deleting, { action_type: "ban_user", reason: "Out" }]
  const severity_map = { badword: "high" }
  expect(await trial("keyword", { keywords: ["badword"], severity_map }, "a BadWord", { actions })).toEqual({
    is_broken: true,
    matched_content: "badword",
    severity: "high",
    points: 20,
    metadata: {},
    is_refused: true,
    actions: [
      { action_type: "delete_message", duration_seconds: null, reason: null, notify_user: true, metadata: {} },
      { action_type: "ban_user", duration_seconds: null, reason: "Out", notify_user: true, metadata: {} },
    ],
    unjudged: null,
    scores: null,
  })
  expect(await trial("keyword", { keywords: ["badword"] }, "fine", { actions })).toEqual({
    is_broken: false,
    matched_content: null,
    severity: null,
    points: 0,
    metadata: {},
    is_refused: false,
    actions: [],
    unjudged: null,
    scores: null,
  })
  const recent = ["buy gems", "buy  gems", "Buy gems!"]
  expect(await trial("message_spam", {}, "buy gems", { recent })).toMatchObject({ is_broken: true, severity: "medium" })
  expect(await trial("message_spam", {}, "buy gems")).toMatchObject({ is_broken: false })
  expect(await trial("invite_links", { pattern: "join/(\\w+)" }, "join/us")).toMatchObject({ metadata: { code: "us" } })
  for (const [config, code] of [
    [{ patterns: [{ pattern: "(" }] }, "invalid_automod_config"],
    [{ patterns: [{ pattern: "(?:x{100}){100}" }] }, "invalid_automod_config"],
  ] as const)
    expect(await refusal(trial("regex", config, "x"))).toBe(code)
  expect(await refusal(trial("none", {}, "x"))).toBe("invalid_automod_type")
  expect(await refusal(trial("keyword", { keywords: ["x"] }, "x", { actions: [] }))).toBe("invalid_automod_action")
  expect(await refusal(trial("keyword", { keywords: ["x"] }, ""))).toBe("validation_failed")

  // A thread does it: a pattern takes none of the worker's own time.
  const judged = async () =>
    Number(/texts_total\{outcome="judged"\} (\d+)/.exec(await shared.west.metrics.registry.metrics())?.[1] ?? 0)
  const before = await judged()
  const costly = { patterns: [{ pattern: "(?:a?){70}z9" }, { pattern: "(?:[a-z]?[a-z]?){35}\\dz" }] }
  const text = "ab".repeat(limits.messageCharacters / 2)
  expect(await trial("regex", costly, text)).toMatchObject({ is_broken: false, unjudged: null })
  expect(await judged()).toBe(before + 1)

  const ai = { backend: "custom", score_threshold: 0.8 }
  expect(await refusal(trial("ai_moderation", ai, "a bomb"))).toBe("no_classifier")
  await rest.setAutomodSettings({ ai: { custom: { endpoint_url: url } } })
  expect(await trial("ai_moderation", ai, "a bomb")).toMatchObject({ is_broken: true, scores: { violence: 0.9 } })
  answer = response => void response.writeHead(500).end()
  expect(await trial("ai_moderation", ai, "a bomb")).toMatchObject({ is_broken: false, scores: null, unjudged: null })
  await rest.setAutomodSettings({ ai: { custom: null } })
  const [row] = await shared.sql`SELECT count(*)::int AS count FROM automod_violations WHERE server_id = 0`
  expect(row!["count"]).toBe(0)
})
