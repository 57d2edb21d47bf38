import { createServer } from "node:http"
import type { IncomingHttpHeaders } from "node:http"
import type { AddressInfo } from "node:net"
import { afterEach, expect, expectTypeOf, test } from "vitest"
import { operatorRoutes, routes } from "../src/contract/contract.ts"
import { createInvite } from "../src/contract/communities/invites.ts"
import { createMessage, getMessage, listMessages } from "../src/contract/messages/messages.ts"
import type { Message } from "../src/contract/messages/messages.ts"
import { getLive } from "../src/contract/service/system.ts"
import { getMe } from "../src/contract/accounts/users.ts"
import { errors, type ErrorCode } from "../src/contract/core/errors.ts"
import type { Route } from "../src/contract/core/registry.ts"
import { Buckets } from "./buckets.ts"
import { table } from "./contract.ts"
import { createClient as createPackagedClient } from "./client.ts"
import { ApiError, createClient, parseRoute, split } from "./rest.ts"
import { uploadInChunks } from "./uploads.ts"

const closers: (() => void)[] = []
afterEach(() => {
  for (const close of closers.splice(0)) close()
})

interface Seen {
  method: string | undefined
  url: string | undefined
  headers: IncomingHttpHeaders
  body: string
}
type Answer = [status: number, body: unknown, headers?: Record<string, string>] | "hang up"

/** Answers in turn; the last answer again and again. */
async function server(...answers: Answer[]) {
  const seen: Seen[] = []
  const http = createServer((request, response) => {
    let body = ""
    request.setEncoding("utf8")
    request.on("data", (chunk: string) => {
      body += chunk
    })
    request.on("end", () => {
      seen.push({ method: request.method, url: request.url, headers: request.headers, body })
      const answer = answers.length > 1 ? answers.shift()! : answers[0]!
      if (answer === "hang up") {
        request.socket.destroy()
        return
      }
      const [status, reply, headers] = answer
      response.writeHead(status, { "content-type": "application/json", ...headers })
      response.end(typeof reply === "string" ? reply : JSON.stringify(reply))
    })
  })
  await new Promise<void>(resolve => http.listen(0, "127.0.0.1", resolve))
  closers.push(() => http.close())
  return { seen, baseUrl: `http://127.0.0.1:${(http.address() as AddressInfo).port}` }
}

const patient = { attempts: 4, firstMs: 1, maxMs: 5, jitter: 1 }

test("the flat input goes into path, query and body, as the schemas name its keys", () => {
  expect(split(getMessage, { channel_id: "1", message_id: "a/b" })).toEqual({
    path: "/api/v1/channels/1/messages/a%2Fb",
    body: undefined,
  })
  expect(split(listMessages, { channel_id: "1", limit: "5", before: undefined })).toEqual({
    path: "/api/v1/channels/1/messages?limit=5",
    body: undefined,
  })
  expect(split(createMessage, { channel_id: "1", content: "hi" })).toEqual({
    path: "/api/v1/channels/1/messages",
    body: { content: "hi" },
  })
  expect(split(createInvite, { channel_id: "1" }).body).toBeUndefined()
  expect(split(createInvite, { channel_id: "1", max_uses: 1 }).body).toEqual({ max_uses: 1 })
  expect(split(getLive, {}).path).toBe("/livez")
  expect(split(getMe, {}).path).toBe("/api/v1/users/@me")
})

test("a call sends the token, and every route is a method of its own name", async () => {
  const { seen, baseUrl } = await server([200, { id: "7" }])
  const client = createClient({ baseUrl: `${baseUrl}/`, token: "t.s" }, routes)
  const sent = await client.createMessage({ channel_id: "1", content: "hällo", nonce: "n" })
  expectTypeOf(sent).toEqualTypeOf<Message>()
  expect(sent).toEqual({ id: "7" })
  await client.as("u.v").getMe()
  await client.as(undefined).call(getLive)
  expect(seen.map(({ method, url, headers, body }) => [method, url, headers.authorization, body])).toEqual([
    ["POST", "/api/v1/channels/1/messages", "Bearer t.s", '{"content":"hällo","nonce":"n"}'],
    ["GET", "/api/v1/users/@me", "Bearer u.v", ""],
    ["GET", "/livez", undefined, ""],
  ])
})

test("a missing key, a wrong type and a foreign key do not compile", () => {
  const client = createClient({ baseUrl: "http://localhost" }, routes)
  const never = () => [
    // @ts-expect-error channel_id is missing
    client.createMessage({ content: "x" }),
    // @ts-expect-error content is a string
    client.call(createMessage, { channel_id: "1", content: 5 }),
    // @ts-expect-error there is no such key
    client.call(getMessage, { channel_id: "1", message_id: "2", limit: "3" }),
    // @ts-expect-error the input is not optional
    client.call(createMessage),
  ]
  expect(never).toBeTypeOf("function")
})

test("a refusal is an ApiError with status, code, wait and request id; checkReplies sees it too", async () => {
  const body = { message: "slow down", retry_after: 1.5, error: { code: 429, message: "slow down", retry_after: 1.5 } }
  const { baseUrl } = await server([429, body, { "retry-after": "2", "x-request-id": "r1" }])
  const checked: unknown[] = []
  const client = createClient({
    baseUrl,
    checkReplies: (route, status, reply) => checked.push([route.path, status, reply]),
  })
  const refusal = await client.call(getMe).catch((cause: unknown) => cause)
  expect(refusal).toBeInstanceOf(ApiError)
  expect(refusal).toMatchObject({ status: 429, code: 429, retryAfterSeconds: 1.5, requestId: "r1", body })
  expect(checked).toEqual([["/users/@me", 429, body]])
})

test("an answer that is no JSON is an ApiError, whatever its status, and says where to look", async () => {
  const { baseUrl } = await server([200, "<html>"])
  await expect(createClient({ baseUrl }).call(getMe)).rejects.toMatchObject({
    status: 200,
    body: undefined,
    message: expect.stringMatching(/is baseUrl the address/) as string,
    words: "OK",
  })
})

test("what is wrong says what to do: fields, tokens, permissions, and nobody there", async () => {
  const failed = async (answer: Answer) => {
    const { baseUrl } = await server(answer)
    return createClient({ baseUrl })
      .call(getMe)
      .then(
        () => "",
        (error: Error) => error.message,
      )
  }
  const refused = (code: number, message: string, more = {}): Answer => [code, { error: { code, message, ...more } }]
  const refusedAs = (name: ErrorCode) => failed(refused(errors[name].status, errors[name].message))
  const issues = ["content", "nonce"].map(name => ({ loc: ["body", name], msg: "Too long", type: "too_big" }))
  const invalid: Answer = [422, { detail: issues, error: { code: 422, message: "Invalid content: Too long" } }]
  expect(await failed(invalid)).toBe("GET /api/v1/users/@me: 422 Invalid content: Too long; body.nonce: Too long")
  expect(await refusedAs("missing_token")).toMatch(/ – give createClient a token$/)
  for (const name of ["invalid_token", "revoked_token", "unknown_token_type"] as const)
    expect(await refusedAs(name)).toMatch(/resetBotToken/)
  expect(await refusedAs("expired_token")).toMatch(/ – sign in again$/)
  expect(await refusedAs("invalid_credentials")).toMatch(/Invalid credentials$/)
  expect(await refusedAs("access_denied")).toMatch(/ – is the account a member of that server/)
  expect(await failed(refused(403, "Missing required permission: x"))).toMatch(/ – a role can grant it/)
  expect(await failed(refused(503, "later", { reason: "busy" }))).toMatch(/503 later \(busy\)$/)
  expect(await failed([504, "<html>"])).toMatch(/: 504 Gateway Timeout$/)
  const gone = await server("hang up")
  await expect(createClient({ baseUrl: gone.baseUrl }).call(getMe)).rejects.toThrow(
    `GET ${gone.baseUrl}/api/v1/users/@me: no answer (other side closed) – is the server running`,
  )
  expect(() => createClient({ baseUrl: "localhost:8000" })).toThrow("localhost:8000 is no address such as")
  await expect(createClient({ baseUrl: gone.baseUrl }).call(getMessage, { message_id: "1" } as never)).rejects.toThrow(
    "GET /channels/:channel_id/messages/:message_id: channel_id is missing",
  )
})

test("addresses and tokens are taken as people paste them", async () => {
  const { seen, baseUrl } = await server([200, {}])
  const pages = ["", "/", "/api/v1", "/api/v1/", "/app", "/app?from=mail#/servers/1", "/app/"]
  for (const pasted of [...pages.map(page => baseUrl + page), baseUrl.replace("http", "ws")])
    await createClient({ baseUrl: pasted, token: "t.s\n" }).call(getMe)
  expect(new Set(seen.map(({ url, headers }) => `${url} ${headers.authorization}`))).toEqual(
    new Set(["/api/v1/users/@me Bearer t.s"]),
  )
})

test("with retry, a GET and a post with a nonce outlast 503, 429 and a lost connection", async () => {
  const busy: Answer = [503, { error: { code: 503, message: "later", retry_after: 0.001 } }]
  const { seen, baseUrl } = await server(busy, "hang up", [429, {}, { "retry-after": "0" }], [200, { id: "1" }])
  const client = createClient({ baseUrl, retry: patient })
  expect(await client.call(createMessage, { channel_id: "1", content: "x", nonce: "n" })).toEqual({ id: "1" })
  expect(seen).toHaveLength(4)
  expect(new Set(seen.map(({ body }) => body)).size).toBe(1)
})

test("with retry, a post without a nonce is sent once", async () => {
  const { seen, baseUrl } = await server([503, {}])
  const client = createClient({ baseUrl, retry: patient })
  await expect(client.call(createMessage, { channel_id: "1", content: "x" })).rejects.toMatchObject({ status: 503 })
  expect(seen).toHaveLength(1)
})

test("with retry, a lasting error is not tried again, and retries end", async () => {
  const denied = await server([403, {}])
  await expect(createClient({ baseUrl: denied.baseUrl, retry: patient }).call(getMe)).rejects.toMatchObject({
    status: 403,
  })
  expect(denied.seen).toHaveLength(1)
  const busy = await server([503, {}])
  await expect(createClient({ baseUrl: busy.baseUrl, retry: patient }).call(getMe)).rejects.toMatchObject({
    status: 503,
  })
  expect(busy.seen).toHaveLength(4)
})

test("with retry, a new message is given a key, and is sent again with the same one", async () => {
  const { seen, baseUrl } = await server("hang up", [503, {}], [200, { id: "1" }])
  const packaged = createPackagedClient({ baseUrl, retry: patient })
  expect(await packaged.createMessage({ channel_id: "1", content: "x" })).toEqual({ id: "1" })
  const keys = seen.map(({ headers }) => headers["idempotency-key"])
  expect(keys).toHaveLength(3)
  expect(new Set(keys).size).toBe(1)
  expect(keys[0]).toMatch(/^[0-9a-f-]{36}$/)
})

test("with retry, whatever a limit refused is sent again: nothing was done", async () => {
  const { seen, baseUrl } = await server([429, { retry_after: 0.01 }, { "retry-after": "1" }], [200, { id: "1" }])
  const client = createClient({ baseUrl, retry: patient })
  expect(await client.call(createInvite, { channel_id: "1" })).toEqual({ id: "1" })
  expect(seen).toHaveLength(2)
})

test("with retry, a wait beyond the bound is thrown at once, and what comes after it is not held up", async () => {
  const slow = { error: { code: 429, message: "Slow mode is on", retry_after: 21_600 } }
  const { seen, baseUrl } = await server([429, slow, { "x-ratelimit-remaining": "3", "x-ratelimit-scope": "user" }])
  const client = createClient({ baseUrl, retry: { ...patient, maxWaitMs: 60_000 } })
  const send = () => client.call(createMessage, { channel_id: "1", content: "x", nonce: "n" })
  for (const tries of [1, 2]) {
    await expect(send()).rejects.toMatchObject({ status: 429, retryAfterSeconds: 21_600 })
    expect(seen).toHaveLength(tries)
  }
  await expect(client.call(getMe)).rejects.toMatchObject({ status: 429 })
  const upload = { source: new Blob(["caw"]), filename: "caw.txt" }
  await expect(uploadInChunks(createPackagedClient({ baseUrl, retry: false }), upload)).rejects.toMatchObject({
    retryAfterSeconds: 21_600,
  })
  expect(seen).toHaveLength(4)
})

test("a bucket that the server has called empty is waited for, and others are not", async () => {
  let now = 0
  const buckets = new Buckets(() => now)
  const answer = (status: number, headers: Record<string, string>) => ({
    status,
    headers: { get: (name: string) => headers[name] ?? null },
  })
  buckets.note("GET /a 1", answer(200, { "x-ratelimit-remaining": "1", "x-ratelimit-reset-after": "3" }))
  expect(buckets.waitMs("GET /a 1")).toBe(0)
  const empty = { "x-ratelimit-remaining": "0", "x-ratelimit-reset-after": "2.5", "x-ratelimit-scope": "resource" }
  buckets.note("GET /a 1", answer(200, empty))
  expect([buckets.waitMs("GET /a 1"), buckets.waitMs("GET /a 2")]).toEqual([2_500, 0])
  now = 2_000
  expect(buckets.waitMs("GET /a 1")).toBe(500)
  // All of the user's requests share that one.
  buckets.note("GET /b ", answer(429, { "x-ratelimit-scope": "user" }), 4)
  expect([buckets.waitMs("GET /a 2"), buckets.waitMs("GET /b ")]).toEqual([4_000, 4_000])
  // What another limit refuses is not waited for everywhere.
  const other = { "x-ratelimit-scope": "user", "x-ratelimit-remaining": "5" }
  buckets.note("POST /c ", answer(429, other), 86_400)
  expect([buckets.waitMs("POST /c "), buckets.waitMs("GET /a 2")]).toEqual([86_400_000, 4_000])
  now = 10_000
  for (let i = 0; i < 3_000; i++) buckets.note(`GET /c ${i}`, answer(200, empty))
  expect(buckets.waitMs("GET /c 2999")).toBe(2_500)
  expect(buckets.waitMs("GET /c 0")).toBe(0)
})

test("the table says of each route what the contract says", () => {
  const named = Object.entries<Route>(routes).filter(([name]) => !(name in operatorRoutes))
  expect(Object.keys(table)).toEqual(named.map(([name]) => name))
  for (const [name, route] of named) {
    const parameters = [...route.path.matchAll(/:(\w+)/g)].map(([, parameter]) => [parameter, `of ${parameter}`])
    const input = { ...Object.fromEntries(parameters), limit: "5", chunk_index: "0", a: "b" } as Record<string, string>
    const line = parseRoute(table[name as keyof typeof table])
    expect([name, line.method, split(line, input)]).toEqual([name, route.method, split(route, input)])
    expect([name, line.form !== undefined, line.produces !== undefined]).toEqual([
      name,
      route.form !== undefined,
      route.produces !== undefined,
    ])
  }
})
