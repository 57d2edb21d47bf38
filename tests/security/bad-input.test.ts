import { randomInt } from "node:crypto"
import { connect } from "node:net"
import { setTimeout as sleep } from "node:timers/promises"
import fc from "fast-check"
import type { z } from "zod"
import { routes } from "../../src/contract/contract.ts"
import type { Route } from "../../src/contract/core/registry.ts"
import { checkReply } from "../kit/conformance.ts"
import { newOperator, type TestOperator } from "../kit/area.ts"
import { send, type Answer } from "../kit/exchange.ts"
import type { Person, Endpoint } from "../kit/person.ts"
import { sharedServer } from "../kit/seeds.ts"
import { expect, testWith, type SharedCluster } from "../kit/test.ts"

// Hashes as cheap as they come: many requests name a password.
const test = testWith({
  topology: { http: { body: { timeoutMs: 300 } } },
  config: { STARLING_PASSWORD_HASH_MEMORY: "8", STARLING_PASSWORD_HASH_PASSES: "1" },
})

const every = Object.entries<Route>(routes)
/**
 * What is good by chance there would shut out all other requests, or names of the people here. Stories of their own
 * try them (tests/operators).
 */
const shuttingOut: readonly Route[] = [routes.createAccessToken, routes.banUsername]
/** JSON bodies. */
const withBody = every.filter(([, route]) => route.body !== undefined && !route.form && !shuttingOut.includes(route))
const withForm = every.filter(([, route]) => route.form)

const offset = randomInt(1_000)
/**
 * What one parser reads for all routes need not be sent to each: every one gets so many of the
 * values, the next one the next of them, and every run begins elsewhere.
 */
const shareOf = <T>(values: readonly T[], count: number, turn: number): T[] =>
  Array.from({ length: Math.min(count, values.length) }, (_, i) => values[(offset + turn * count + i) % values.length]!)

/** A server, a channel and a message that a request may name; the person who asks owns them. */
interface Scene {
  person: Person
  operator: TestOperator
  ids: Record<string, string>
}
let place: Endpoint
let scene: Scene
// Of each test's own: what is asked for at random may end sessions and change names.
test.beforeEach(async ({ shared }) => {
  place = shared.east
  scene = await makeScene(shared)
})

async function makeScene(cluster: SharedCluster): Promise<Scene> {
  const { server, channel, ada } = await cluster.seed(sharedServer)
  const message = await ada.on(cluster.east).createMessage({ channel_id: channel.id, content: "here" })
  const { code } = await ada.on(cluster.east).createInvite({ channel_id: channel.id })
  const { id: role_id } = await ada.on(cluster.east).createRole({ server_id: server.id })
  const other = await cluster.person("other")
  const { id: bot_id } = await ada.on(cluster.east).createBot({ username: cluster.newName("bot") })
  await cluster.sql`UPDATE users SET permissions = '{administrator}' WHERE id = ${ada.id}`
  await ada.on(cluster.east).refresh()
  return {
    person: ada,
    operator: await newOperator(cluster),
    ids: {
      server_id: server.id,
      channel_id: channel.id,
      message_id: message.id,
      user_id: other.id,
      member_id: ada.id,
      role_id,
      target_id: role_id,
      bot_id,
      invite_code: code,
    },
  }
}

const pathOf = ({ mount, path }: Route, ids: Record<string, string> = scene.ids) =>
  (mount === "root" ? "" : "/api/v1") + path.replace(/:(\w+)/g, (_, name: string) => ids[name] ?? "1")

/**
 * Sends to a route what is no good, and holds the answer against the contract: `send` fails where
 * it is none of its refusals.
 */
async function attempt(
  route: Route,
  body: string | Uint8Array<ArrayBuffer> | object,
  more: { path?: string } = {},
): Promise<Answer> {
  // A busy machine may answer that it is busy; what is invalid stays so.
  for (let tries = 1; ; tries++) {
    const answer = await send(place, more.path ?? pathOf(route), { route, token: tokenFor(route), body })
    if (answer.status !== 503 || tries === 5) return answer
    await sleep(tries * 500)
  }
}

const tokenFor = ({ auth }: Route) => (auth === "operator" ? scene.operator : scene.person).token
const verdict = ({ status, code }: Answer) => (status === 200 ? "granted" : code)

test("a body that is not JSON, or not of the declared type, is a validation error", async () => {
  const malformed = ["{", "}", '{"a":}', "nonsense", "{'a':1}", '{"a":1,}', "[1,2", '"open', "\u0001", "NaN", "{}{}"]
  const otherKinds = ["[]", "5", '"text"', "true", "[{}]"]
  for (const [i, [name, route]] of withBody.entries())
    for (const body of [...shareOf(malformed, 3, i), ...otherKinds])
      expect({ name, body, verdict: verdict(await attempt(route, body)) }).toEqual({
        name,
        body,
        verdict: "validation_failed",
      })
})

test("a body that is missing is a validation error, but where it may be left out", async () => {
  for (const [name, route] of withBody)
    for (const body of ["", "null"]) {
      const isProven: readonly Route[] = [routes.deleteAccount, routes.removePasskey]
      const allowed = isProven.includes(route) ? "password_required" : "granted"
      const expected = route.bodyOptional ? allowed : "validation_failed"
      expect({ name, body, verdict: verdict(await attempt(route, body)) }).toEqual({ name, body, verdict: expected })
    }
})

test("fields of the wrong type, size and shape get a documented refusal on every route", async () => {
  const values: unknown[] = [
    null, true, false, 0, -1, 1.5, 1e308, 2 ** 53, -(2 ** 63), "", " ", "x", "0", "-1", "x".repeat(100_000), "🐦".repeat(5000),
    [], [null], [[[[]]]], {}, { a: { b: {} } }, { __proto__: null, toString: 1 }, "9223372036854775808", "1e3", "\u2028",
  ] // prettier-ignore
  const tried = withBody.map(async ([name, route], i) => {
    const shape = (route.body as { shape?: object; def?: { in?: { shape?: object } } }).shape ?? {}
    for (const [k, key] of Object.keys(shape).entries())
      for (const value of shareOf(values, 8, i + k)) {
        // Each name that could be one costs a password hash.
        if (route === routes.login && typeof value === "string") continue
        const { status } = await attempt(route, { ...wellFormed(route), [key]: value })
        if (status >= 500) expect.fail(`${name} answers ${status} to ${key} ${JSON.stringify(value)?.slice(0, 80)}`)
      }
  })
  await Promise.all(tried)
})

/** Good enough that each field's own fault is what is looked at. */
const wellFormed = (route: Route): object => {
  switch (route) {
    case routes.register as Route:
      return { username: "admin", email: "a@example.com", password: "weak" }
    case routes.login as Route:
      return { username: "nobody at all", password: "x" }
    case routes.createServer as Route:
      return { name: "Bad input" }
    case routes.createChannel as Route:
      return { name: "bad input" }
    case routes.negotiateVersion as Route:
      return { client_version: "a.1.0-49" }
    case routes.setOverride as Route:
      return { type: "role", allow: [], deny: [] }
    case routes.createMessage as Route:
    case routes.editMessage as Route:
      return { content: "bad input" }
    case routes.requestFriend as Route:
    case routes.blockUser as Route:
      return { user_id: "0" }
    default:
      return {}
  }
}

test("any JSON at all gets a documented answer on every route that takes a body", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...withBody.map(([, route]) => route)),
      fc.json({ maxDepth: 4 }),
      fc.dictionary(fc.string({ unit: "binary" }), fc.jsonValue({ maxDepth: 2 })),
      async (route, text, fields) => {
        for (const body of [text, { ...wellFormed(route), ...fields }])
          expect((await attempt(route, body)).status).toBeLessThan(500)
      },
    ),
    { numRuns: 150 },
  )
})

test("text that nobody can store is 400 wherever it stands", async () => {
  const unsafe = ["a\\u0000b", "\\ud800", "\\udfff\\ud800", "x\\udc00"]
  const bodies = unsafe.flatMap(text => [
    `{"content":"${text}"}`,
    `{"name":"${text}"}`,
    `{"${text}":1}`,
    `{"a":[{"b":"${text}"}]}`,
  ])
  for (const [i, [name, route]] of withBody.entries())
    for (const body of shareOf(bodies, 3, i))
      expect({ name, body, verdict: verdict(await attempt(route, body)) }).toEqual({
        name,
        body,
        verdict: "unsafe_text",
      })
  // Bytes that are no UTF-8: a lone surrogate as CESU, an overlong slash, a cut emoji, Latin-1.
  for (const [i, [name, route]] of withBody.entries())
    for (const bytes of shareOf(["eda080", "c0af", "f09f90", "e9", "ff"], 1, i)) {
      const body = new Uint8Array(
        Buffer.concat([Buffer.from('{"content":"'), Buffer.from(bytes, "hex"), Buffer.from('"}')]),
      )
      expect({ name, bytes, verdict: verdict(await attempt(route, body)) }).toEqual({
        name,
        bytes,
        verdict: "bad_request",
      })
    }
  for (const code of ["%00", "a%00b", "%ED%A0%80", "%ff"]) {
    const path = `/api/v1/channels/invites/${code}`
    const answer = await send(place, path, { route: routes.getInvite, token: scene.person.token })
    expect(["unsafe_text", "bad_request"]).toContain(answer.code)
  }
})

test("a body above 256 KiB is 413, one just below is read", async () => {
  const limit = 256 * 1024
  for (const [name, route] of withBody) {
    const body = `{"x":"${"y".repeat(limit)}"}`
    expect({ name, verdict: verdict(await attempt(route, body)) }).toEqual({ name, verdict: "payload_too_large" })
  }
  const almost = `{"content":"fits","x":"${"y".repeat(limit - 25)}"}`
  expect(Buffer.byteLength(almost)).toBe(limit)
  expect(verdict(await attempt(routes.createMessage, almost))).toBe("granted")
})

test("a malformed form, or one that is cut off or lacks a part, is a validation error on every route that takes one", async () => {
  const type = "multipart/form-data; boundary=X"
  const part = (name: string, content: string) =>
    `--X\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${content}\r\n`
  for (const [name, route] of withForm) {
    const names = Object.keys((route.body as z.ZodObject).shape)
    const whole = names.map(one => part(one, "x")).join("")
    const verdictOf = async (contentType: string, body: string) => {
      const headers = { "content-type": contentType }
      return verdict(await send(place, pathOf(route), { route, token: tokenFor(route), body, headers }))
    }
    for (const [contentType, body] of [
      [type, ""],
      [type, "{}"],
      [type, whole],
      [type, `${whole.slice(0, -20)}--X--`],
      [type, "--X--"],
      [type, "--X\r\n".repeat(1_000)],
      [type, `${part("nothing", "known")}--X--`],
      [type, `${part("x", "y").repeat(1_000)}--X--`],
      ["multipart/form-data", `${whole}--X--`],
      ["multipart/mixed; boundary=X", `${whole}--X--`],
      ["application/json", "{}"],
      ["text/plain", `${whole}--X--`],
    ] as const)
      expect({ name, body: body.slice(0, 80), verdict: await verdictOf(contentType, body) }).toEqual({
        name,
        body: body.slice(0, 80),
        verdict: "validation_failed",
      })
    for (const text of names.filter(one => one !== route.form!.file?.name))
      expect(await verdictOf(type, `${part(text, "a\0b")}--X--`)).toBe("unsafe_text")
    const { bytes = 256 * 1024, tooLarge = "payload_too_large", isStreamed } = route.form!.file ?? {}
    // Half a gigabyte takes this process so long to make that its own worker stops serving; see
    // attachments.test.ts.
    if (!isStreamed) expect(await verdictOf(type, "x".repeat(bytes + 65_537))).toBe(tooLarge)
  }
})

test("unbounded nesting is a validation error, not a deep recursion", async () => {
  const bodies = [
    "[".repeat(100_000),
    `${"[".repeat(100_000)}${"]".repeat(100_000)}`,
    `${'{"a":'.repeat(40_000)}1${"}".repeat(40_000)}`,
  ]
  for (const [i, [name, route]] of withBody.entries())
    for (const body of shareOf(bodies, 1, i))
      expect({ name, verdict: verdict(await attempt(route, body)) }).toEqual({ name, verdict: "validation_failed" })
})

/** Parameters whose refusals name their kind. */
const ofItsKind = new Set([
  "emoji_id",
  "webhook_id",
  "user_id",
  "server_id",
  "channel_id",
  "message_id",
  "notification_id",
  "subscription_id",
  "session_id",
  "poll_id",
  "passkey_id",
])

test("a malformed id in a path is 400 with its kind; one that is too large as well", async () => {
  const wrong = [
    "x",
    "-1",
    "1.5",
    "1e3",
    "0x1",
    "01",
    "9223372036854775808",
    "9".repeat(5000),
    "١",
    "%F0%9F%90%A6",
    "%31x",
    "1%00",
    "%",
  ]
  // An upload session's id is any text: one that nobody has is an unknown session.
  // Rows of operators have ids of their own kind, read as text.
  const isRow = ({ mount }: Route) => mount === "operators"
  const asText: unknown = expect.stringMatching(/^(validation_failed|bad_request|unsafe_text)$/)
  const withIds = every.filter(([, { path }]) => !path.startsWith("/media/upload/"))
  for (const [i, [name, route]] of withIds.entries())
    for (const [k, parameter] of (route.path.match(/(?<=:)\w+_id/g) ?? []).entries())
      for (const id of shareOf(wrong, 4, i + k)) {
        const path = pathOf(route, { ...scene.ids, [parameter]: id })
        const answer = await send(place, path, {
          route,
          token: tokenFor(route),
          ...(route.body && { body: wellFormed(route) }),
        })
        const isOfItsKind = ofItsKind.has(parameter) && !(isRow(route) && !route.path.startsWith("/admin/users/"))
        const code = isOfItsKind ? `invalid_${parameter}` : isRow(route) ? asText : "invalid_id"
        expect({ name, path, code: answer.code }).toEqual({ name, path, code })
      }
})

test("malformed ids in a body or a query are validation errors", async () => {
  const { channel_id } = scene.ids
  for (const id of [-1, 1.5, 2 ** 53, 1e300, "x", "-1", "9223372036854775808", "", [], {}, true]) {
    expect(verdict(await attempt(routes.createMessage, { content: "x", reply_to_id: id }))).toBe("validation_failed")
    expect(verdict(await attempt(routes.createChannel, { name: "x", category_id: id }))).toBe("validation_failed")
  }
  // An integer whose digits JSON.parse would round is never acted upon.
  const rounded = `{"content":"x","reply_to_id":${scene.ids["message_id"]}}`
  expect(verdict(await attempt(routes.createMessage, rounded))).toBe("validation_failed")
  for (const query of [
    "limit=%00",
    "before=%ED%A0%80",
    "after=%zz",
    "limit=5&limit=x",
    "before=1%00",
    "limit[]=5",
    "=&&=?",
  ]) {
    const path = `/api/v1/channels/${channel_id}/messages?${query}`
    expect((await send(place, path, { route: routes.listMessages, token: scene.person.token })).status).toBeLessThan(
      500,
    )
  }
})

test("headers that are too large or not text are answered or refused, and the next request is served", async () => {
  for (const headers of [
    { "idempotency-key": "\u00ff" },
    { "idempotency-key": "x".repeat(3000) },
    { "x-forwarded-for": "not, an, address, ::1%eth0, 999.1.1.1" },
    { "user-agent": "\u00e9".repeat(500) },
    { "x-request-id": "x".repeat(2000) },
  ] as Record<string, string>[]) {
    const answer = await send(place, pathOf(routes.createMessage), {
      route: routes.createMessage,
      token: scene.person.token,
      body: { content: "odd headers" },
      headers,
    })
    expect(answer.status).toBeLessThan(500)
  }
})

/**
 * What comes back for bytes that no client library would send, until the server closes the
 * connection.
 */
function raw(bytes: string[], hangUp = false): Promise<string> {
  const { port, hostname } = new URL(place.url)
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), hostname, () => {
      for (const part of bytes) socket.write(part)
      if (hangUp) socket.end()
    })
    let seen = ""
    socket.setEncoding("utf8")
    socket.on("data", (text: string) => (seen += text))
    socket.on("close", () => resolve(seen))
    socket.on("error", (error: NodeJS.ErrnoException) =>
      error.code === "ECONNRESET" || error.code === "EPIPE" ? resolve(seen) : reject(error),
    )
  })
}

const head = (lines: readonly string[], route: Route = routes.createMessage) =>
  [
    `${route.method} ${pathOf(route)} HTTP/1.1`,
    "Host: x",
    `Authorization: Bearer ${scene.person.token}`,
    ...lines,
    "Connection: close",
    "",
    "",
  ].join("\r\n")

/** The status of a raw answer, and its code where it has a body. */
function rawCode(answer: string, route: Route = routes.createMessage): string | undefined {
  const status = Number(/^HTTP\/1\.1 (\d+)/.exec(answer)?.[1])
  const body = answer.slice(answer.indexOf("\r\n\r\n") + 4)
  return checkReply(route, status, JSON.parse(body))
}

test("a repeated Content-Length is 400, also where both say the same", async () => {
  const body = '{"content":"a"}'
  for (const second of ["15", "0", "5"])
    expect(rawCode(await raw([head(["Content-Length: 15", `Content-Length: ${second}`]), body]))).toBe(
      "repeated_header",
    )
  const twice = head(["Content-Length: 0", "Content-Length: 0"], routes.getMe)
  expect(rawCode(await raw([twice]), routes.getMe)).toBe("repeated_header")
})

test("a body that does not arrive is 408, and its connection is closed", async () => {
  const startedAt = performance.now()
  expect(rawCode(await raw([head(["Content-Length: 100"]), '{"content":"']))).toBe("request_timeout")
  expect(performance.now() - startedAt).toBeLessThan(5_000)
})

test("bytes that are not HTTP end their connection and nothing else", async () => {
  const smuggled = head(["Content-Length: 5", "Transfer-Encoding: chunked"])
  const nonsense = [
    "\0\0\0\0\r\n\r\n",
    "GET\r\n\r\n",
    "GET / HTTP/9.9\r\n\r\n",
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03",
    `GET /${"x".repeat(100_000)} HTTP/1.1\r\nHost: x\r\n\r\n`,
    `GET / HTTP/1.1\r\n${"X-A: b\r\n".repeat(2_000)}\r\n`,
    "POST /api/v1/auth/login HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    "POST /api/v1/auth/login HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
    "POST /api/v1/auth/login HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
    `${smuggled}0\r\n\r\nGET /health HTTP/1.1\r\nHost: x\r\n\r\n`,
  ]
  // Those that could still become something would wait for more.
  const answers = await Promise.all(nonsense.map(bytes => raw([bytes], true)))
  for (const answer of answers) expect(answer).toMatch(/^$|^HTTP\/1\.1 (4|505)/)
  expect((await send(place, "/health")).status).toBe(200)
})

test("clients that vanish in the middle of a request leave nothing behind", async () => {
  const { port, hostname } = new URL(place.url)
  const whole = `${head(["Content-Length: 15"])}{"content":"a"}`
  await Promise.all(
    Array.from({ length: 60 }, (_, i) => {
      const cut = Math.floor((whole.length * (i + 1)) / 60)
      return new Promise<void>(resolve => {
        const socket = connect(Number(port), hostname, () =>
          socket.write(whole.slice(0, cut), () => {
            socket.resetAndDestroy()
            resolve()
          }),
        )
        socket.on("error", () => {})
      })
    }),
  )
  expect((await send(place, "/api/v1/users/@me", { token: scene.person.token })).status).toBe(200)
})

test("no refusal shows what was sent as a secret", async () => {
  const secret = "Sec\u0001ret-9-Horse"
  for (const body of [
    `{"username":"a","email":"b","password":"${secret}`,
    JSON.stringify({ username: 5, email: 5, password: [secret] }),
    JSON.stringify({ username: "x", email: "y", password: secret }),
  ])
    for (const route of [routes.register, routes.login] as Route[]) {
      const { text, status } = await attempt(route, body)
      expect(status).toBeGreaterThanOrEqual(400)
      expect(text).not.toContain("ret-9-Horse")
    }
})
