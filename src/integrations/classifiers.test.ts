import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { afterAll, beforeEach, expect, test } from "vitest"
import { classifierSettings, type AutomodClassifiers } from "../contract/communities/automod-settings.ts"
import { silentLog } from "../observability/log.ts"
import { createMetrics } from "../observability/metrics.ts"
import { createClassifiers, type Asked, type ClassifiersOptions } from "./classifiers.ts"

interface Question {
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: unknown
}
type Answer = (response: ServerResponse, question: Question, request: IncomingMessage) => void

let asked: Question[] = []
let answer: Answer
const json =
  (body: unknown, status = 200): Answer =>
  response =>
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body))

/** A classifier on this machine, which answers as a test wants it to. */
const server = createServer((request, response) => {
  const chunks: Buffer[] = []
  request.on("data", (chunk: Buffer) => chunks.push(chunk))
  request.on("end", () => {
    const body = JSON.parse(Buffer.concat(chunks).toString()) as unknown
    const question = { path: request.url!, headers: request.headers, body }
    asked.push(question)
    answer(response, question, request)
  })
})
await new Promise<void>(resolve => server.listen(0, "127.0.0.1", resolve))
const { port } = server.address() as AddressInfo
const url = `http://127.0.0.1:${port}`
const metrics = createMetrics()

beforeEach(() => {
  asked = []
  answer = json({ scores: { hate: 0.9 } })
})
afterAll(() => {
  server.closeAllConnections()
  server.close()
  metrics.close()
})

const custom = (more: object = {}) => classifierSettings.custom.parse({ endpoint_url: url, ...more })
const nobody = { owner: "1", author: "2" }

function classifiersWith(classifiers: AutomodClassifiers, options: Partial<ClassifiersOptions> = {}) {
  let [now, version] = [0, 0]
  const made = createClassifiers({ mayBePrivate: true, log: silentLog, metrics, now: () => now, ...options })
  return {
    close: () => made.close(),
    pass: (ms: number) => {
      now += ms
    },
    change: () => {
      version++
    },
    ask: (backend: keyof AutomodClassifiers, content = "a text", payers = nobody): Promise<Asked> =>
      made.ask(backend, { classifiers, trusted: new Set(), version }, content, payers),
  }
}

test("each classifier is asked and answers in its own manner, with the key that it was given", async () => {
  const { ask, close } = classifiersWith({
    openai: classifierSettings.openai.parse({ api_url: `${url}/openai`, api_key: "sk-1", model: "m" }),
    perspective: classifierSettings.perspective.parse({
      api_url: `${url}/perspective`,
      api_key: "google",
      attributes: ["THREAT"],
      threshold: 0.8,
    }),
    custom: custom({
      endpoint_url: `${url}/custom?v=1`,
      api_key: "secret",
      auth_header: "X-Key",
      auth_prefix: "",
      headers: { "X-Tenant": "starling" },
      request_format: { model: "x", inputs: ["{content}", { text: "<{content}> {content}" }], n: 1 },
    }),
  })
  const scores = { hate: 0.9, spam: 0 }
  answer = json({ id: "modr-1", results: [{ flagged: false, category_scores: scores }] })
  expect(await ask("openai")).toEqual({ categories: scores, threshold: 0.5 })
  answer = json({ attributeScores: { THREAT: { summaryScore: { value: 0.7, type: "PROBABILITY" } }, INSULT: {} } })
  expect(await ask("perspective")).toEqual({ categories: { threat: 0.7 }, threshold: 0.8 })
  answer = json({ scores })
  expect(await ask("custom", "$& and {content}")).toEqual({ categories: scores, threshold: 0.5 })
  const [openai, perspective, own] = asked
  expect(openai).toMatchObject({
    path: "/openai",
    headers: { authorization: "Bearer sk-1", "content-type": "application/json" },
    body: { input: "a text", model: "m" },
  })
  expect(perspective).toMatchObject({
    headers: { "x-goog-api-key": "google" },
    body: { comment: { text: "a text" }, requestedAttributes: { THREAT: {} }, doNotStore: true },
  })
  expect(own).toMatchObject({
    path: "/custom?v=1",
    headers: { "x-key": "secret", "x-tenant": "starling" },
    body: { model: "x", inputs: ["$& and {content}", { text: "<$& and {content}> $& and {content}" }], n: 1 },
  })
  for (const { headers } of [perspective!, own!]) expect(headers.authorization).toBe(undefined)
  close()
})

test("FETCH2: what is no answer is none: failing, lying, redirecting, endless and slow classifiers", async () => {
  const faults: Record<string, Answer> = {
    "an error": json({ scores: { hate: 1 } }, 500),
    "no JSON": response => response.end("<html>hate</html>"),
    "another shape": json({ hate: 1 }),
    "no numbers": json({ scores: { hate: "1" } }),
    "numbers beyond": json({ scores: { hate: 7, spam: -1 } }),
    "a list": json({ scores: [1] }),
    null: json(null),
    "a redirection": response => response.writeHead(307, { location: `${url}/other` }).end(),
    "a hang-up": response => response.destroy(),
    "no end": response => {
      const writing = setInterval(() => response.write(" ".repeat(16_384)), 1)
      response.on("close", () => clearInterval(writing))
    },
  }
  const said: unknown[] = []
  const log = { ...silentLog, warn: (...line: unknown[]) => void said.push(line) }
  const { ask, change, close } = classifiersWith({ custom: custom({ timeout_seconds: 1 }) }, { log })
  for (const [fault, how] of Object.entries(faults)) {
    // Each by itself: see the next test.
    change()
    answer = how
    expect(await ask("custom"), fault).toBe("failed")
  }
  expect(asked.map(({ path }) => path)).toEqual(Object.keys(faults).map(() => "/"))
  answer = () => {}
  expect(await ask("custom")).toBe("late")
  answer = response => {
    response.writeHead(200).write("{")
  }
  expect(await ask("custom"), "the time counts until the end").toBe("late")
  answer = json({ scores: { hate: 0.5, spam: 2 } })
  expect(await ask("custom"), "what is usable counts").toMatchObject({ categories: { hate: 0.5 } })
  expect(said).toEqual([])
  close()
})

test("CLASS1: one that fails rests, for longer each time, and is tried with one text; one text alone does not do that", async () => {
  const said: unknown[] = []
  const log = { ...silentLog, warn: (...line: unknown[]) => void said.push(line), info: (...line: unknown[]) => void said.push(line) } // prettier-ignore
  const { ask, pass, change, close } = classifiersWith({ custom: custom() }, { log })
  // A text that it does not take says nothing against the classifier.
  answer = json({ error: "language" }, 400)
  for (let i = 0; i < 6; i++) expect(await ask("custom")).toBe("refused")
  answer = response => response.end("a secret that somebody wrote")
  for (let i = 0; i < 5; i++) expect(await ask("custom")).toBe("failed")
  const count = asked.length
  for (const restMs of [2_000, 4_000, 8_000]) {
    pass(restMs - 1)
    expect(await ask("custom"), "it rests").toBe("resting")
    pass(1)
    expect(await Promise.all([ask("custom"), ask("custom")]), "one is enough to try").toEqual(["failed", "resting"])
  }
  expect(asked).toHaveLength(count + 3)
  expect(said, "an outage is told once, and quotes nothing").toEqual([
    [{ backend: "custom", why: "the answer is no JSON" }, "classifier does not answer"],
  ])
  pass(16_000)
  answer = json({ scores: {} })
  expect(await ask("custom")).toEqual({ categories: {}, threshold: 0.5 })
  expect(said.at(-1)).toEqual([{ backend: "custom" }, "classifier answers again"])
  answer = json({}, 503)
  for (let i = 0; i < 5; i++) await ask("custom")
  expect(await ask("custom")).toBe("resting")
  change()
  expect(await ask("custom"), "other settings are tried at once").toBe("failed")
  close()
})

test("CLASS2: an owner and an author have their share of the questions, not all of them", async () => {
  const held: ServerResponse[] = []
  answer = response => {
    held.push(response)
  }
  const { ask, close } = classifiersWith({ custom: custom() })
  let authors = 0
  const of = (owner: string, author = `author ${authors++}`) => ask("custom", "x", { owner, author })
  const flood = Array.from({ length: 16 }, () => of("flood"))
  expect(await of("flood")).toBe("busy")
  const others = Array.from({ length: 16 }, (_, at) => of(`owner ${at}`, "one author"))
  expect(await of("another", "one author")).toBe("busy")
  const strangers = Array.from({ length: 32 }, (_, at) => of(`stranger ${at}`))
  expect(await of("yet another")).toBe("busy")
  await expect.poll(() => held.length, { timeout: 20_000 }).toBe(64)
  for (const response of held) response.end(JSON.stringify({ scores: { a: 1 } }))
  for (const one of await Promise.all([...flood, ...others, ...strangers]))
    expect(one).toMatchObject({ categories: { a: 1 } })
  close()
})

test("FETCH1: a request goes to an address that was looked at, and to none in a private network", async () => {
  const privates = [
    url,
    `http://localhost:${port}`,
    `http://[::1]:${port}`,
    `http://[::ffff:127.0.0.1]:${port}`,
    `http://2130706433:${port}`,
    `http://0x7f.1:${port}`,
    "http://169.254.169.254/latest/meta-data",
    "http://[fd00::1]/",
    "http://[64:ff9b::10.0.0.1]/",
  ]
  for (const endpoint_url of privates) {
    const { ask, close } = classifiersWith({ custom: custom({ endpoint_url }) }, { mayBePrivate: false })
    expect(await ask("custom"), endpoint_url).toBe("failed")
    close()
  }
  // A name that leads elsewhere once it was looked at, or to several places at once.
  const names: string[] = []
  const answers = [["127.0.0.1"], ["192.0.2.1", "127.0.0.1"], ["fe80::1%lo"], []]
  for (const addresses of answers) {
    const resolve = async (name: string) => {
      names.push(name)
      return addresses
    }
    const endpoint_url = `http://classifier.example:${port}/`
    const { ask, close } = classifiersWith({ custom: custom({ endpoint_url }) }, { mayBePrivate: false, resolve })
    expect(await ask("custom"), String(addresses)).toBe("failed")
    close()
  }
  expect(names).toEqual(answers.map(() => "classifier.example"))
  expect(asked).toEqual([])
  // Resolved once for the connection, which goes to what was found then, under the name that was given.
  const resolve = async () => ["127.0.0.1"]
  const endpoint_url = `http://classifier.example:${port}/`
  const { ask, close } = classifiersWith({ custom: custom({ endpoint_url }) }, { resolve })
  expect(await ask("custom")).toMatchObject({ categories: { hate: 0.9 } })
  expect(asked[0]!.headers.host).toBe(`classifier.example:${port}`)
  close()
})
