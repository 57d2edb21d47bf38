/** What a request meets before its route, in which order, and what every answer carries. */
import { hashSecret, newSecret } from "../../src/cluster/tokens.ts"
import { routes } from "../../src/contract/contract.ts"
import { send, type Sending } from "../kit/exchange.ts"
import { attentive, operatorOf } from "../kit/operator.ts"
import { open } from "../kit/raw.ts"
import { expect, testWith } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const origin = "https://chat.example"
const test = testWith({
  limited: true,
  config: { TRUSTED_PROXIES: "127.0.0.1,10.0.0.0/8", STARLING_CORS_ALLOWED_ORIGINS: origin },
  topology: attentive,
})
let hosts = 0
/** An address for one test, of a block that is nobody's. */
const newAddress = () => `198.18.7.${++hosts}`
const path = "/api/v1/channels/1/messages"
const post = (from: string, { headers, ...rest }: Sending = {}): Sending => ({
  method: "POST",
  body: "{",
  headers: { "x-forwarded-for": from, ...headers },
  ...rest,
})

test("checks run in their order: address, access token, whose token, limits, shape", async ({ shared }) => {
  const operator = operatorOf(shared)
  const { east } = shared
  const ada = await shared.person("ada", east)
  const [from, blocked] = [newAddress(), newAddress()]
  const secret = newSecret(24)
  const asked = { name: "gates", token_hash: hashSecret(secret), mode: "none", scopes: [], expires_at: null } as const
  const made = await operator.accessTokens.create(asked)
  await operator.block(blocked)
  const code = async (from: string, sending?: Sending) => (await send(east, path, post(from, sending))).code
  await until("blocked", async () => (await code(blocked)) === "address_blocked")
  await until("gated", async () => (await code(from)) === "access_token_required")

  const application = { headers: { "x-api-access-token": secret } }
  expect(await code(blocked, { ...application, token: ada.token })).toBe("address_blocked")
  expect(await code(from, { token: "nonsense" })).toBe("access_token_required")
  expect(await code(from, { headers: { "x-api-access-token": "wrong" }, token: ada.token })).toBe(
    "invalid_access_token",
  )
  expect(await code(from, application)).toBe("authentication_required")
  expect(await code(from, { ...application, token: "nonsense" })).toBe("invalid_token")
  expect(await code(from, { ...application, token: ada.token })).toBe("validation_failed")
  await Promise.all(Array.from({ length: 90 }, () => code(from, { ...application, token: ada.token })))
  await until("limited", async () => (await code(from, { ...application, token: ada.token })) === "rate_limited")
  expect(await code(from, { ...application, token: "nonsense" })).toBe("invalid_token")
  await operator.accessTokens.revoke((made as { id: string }).id)
  await operator.unblock(blocked)
  await until("open again", async () => (await code(newAddress())) === "authentication_required")
  await until("let in again", async () => (await code(blocked)) === "authentication_required")
})

test("a request that fails at the access token, or at its own token, counts against its address", async ({
  shared,
}) => {
  const operator = operatorOf(shared)
  const { west } = shared
  const remaining = async (from: string, sending: Sending = {}) => {
    const { headers } = await send(west, path, post(from, sending))
    return { scope: headers.get("x-ratelimit-scope"), remaining: Number(headers.get("x-ratelimit-remaining")) }
  }
  const spent = async (sending: Sending) => {
    const from = newAddress()
    const [first, second] = [await remaining(from, sending), await remaining(from, sending)]
    return { scope: second.scope, cost: first.remaining - second.remaining }
  }
  expect(await spent({})).toEqual({ scope: "ip", cost: 1 })
  expect(await spent({ token: "1.wrong" })).toEqual({ scope: "ip", cost: 1 })
  const made = await operator.accessTokens.create({
    name: "gates",
    token_hash: hashSecret("x"),
    mode: "none",
    scopes: [],
    expires_at: null,
  })
  await until("gated", async () => (await send(west, path, post(newAddress()))).code === "access_token_required")
  expect(await spent({})).toEqual({ scope: "ip", cost: 1 })
  await operator.accessTokens.revoke((made as { id: string }).id)
  await until("open again", async () => (await send(west, path, post(newAddress()))).code === "authentication_required")
})

test("every kind of answer carries the same protection, and its page's origin", async ({ shared }) => {
  const at = async (path: string, sending: Sending = {}) =>
    send(shared.east, path, { ...sending, headers: { origin, "x-forwarded-for": newAddress(), ...sending.headers } })
  const { headers: known } = await at("/docs")
  const seen: number[] = []
  for (const [path, sending] of [
    ["/api/v1/version", {}],
    ["/api/v1/version", { method: "HEAD" }],
    ["/api/v1/version", { method: "OPTIONS", headers: { "access-control-request-method": "GET" } }],
    ["/api/v1/version", { method: "OPTIONS", headers: { "access-control-request-method": "TRACE" } }],
    ["/docs", { headers: { "if-none-match": known.get("etag")! } }],
    ["/docs/", {}],
    ["/api/v1/users/@me", {}],
    ["/api/v1/nothing", {}],
    ["/api/v1/version", { method: "DELETE" }],
    ["/api/v1/auth/login", { method: "POST", body: "{" }],
    ["/api/v1/help/access-blocked", {}],
    ["/robots.txt", {}],
  ] as [string, Sending][]) {
    // That each carries the common headers is looked at wherever an answer comes in.
    const { status, headers } = await at(path, sending)
    seen.push(status)
    expect([path, status, headers.get("access-control-allow-origin")]).toEqual([path, status, origin])
    expect(headers.get("x-powered-by")).toBeNull()
  }
  expect(seen).toEqual([200, 200, 200, 400, 304, 307, 401, 404, 405, 422, 200, 200])
})

test("a page of a listed origin may send and read what the interface names, and no other origin is one", async ({
  shared,
}) => {
  const preflight = (from: string, wanted: string) =>
    send(shared.east, "/api/v1/users/@me", {
      method: "OPTIONS",
      headers: { origin: from, "access-control-request-method": "PATCH", "access-control-request-headers": wanted },
    })
  for (const wanted of [
    "authorization",
    "content-type",
    "x-requested-with",
    "accept",
    "origin",
    "x-api-access-token",
    "range",
    "idempotency-key",
    "Authorization, X-API-Access-Token, Range",
  ]) {
    const { status, headers } = await preflight(origin, wanted)
    expect([wanted, status, headers.get("access-control-max-age")]).toEqual([wanted, 200, "600"])
    const allowed = headers.get("access-control-allow-headers")!.toLowerCase().split(", ")
    for (const name of wanted.toLowerCase().split(", ")) expect(allowed).toContain(name)
  }
  for (const wanted of ["x-ratelimit-bypass", "x-forwarded-for", "cookie"])
    expect((await preflight(origin, wanted)).status).toBe(400)

  const { headers } = await send(shared.east, "/api/v1/version", {
    headers: { origin, "x-forwarded-for": newAddress() },
  })
  const exposed = headers.get("access-control-expose-headers")!.split(", ")
  for (const name of [
    "Content-Range",
    "Accept-Ranges",
    "Content-Length",
    "ETag",
    "Retry-After",
    "X-RateLimit-Limit",
    "X-RateLimit-Remaining",
    "X-RateLimit-Reset",
    "X-RateLimit-Reset-After",
    "X-RateLimit-Bucket",
    "X-RateLimit-Scope",
    "X-RateLimit-Global",
  ])
    expect(exposed).toContain(name)
  expect(headers.get("access-control-allow-credentials")).toBe("true")
  for (const other of [
    "https://chat.example.evil",
    "http://chat.example",
    "https://chat.example:8443",
    "https://evil.example",
    "https://CHAT.example",
    "null",
    "*",
    "",
  ]) {
    const { status, headers } = await preflight(other, "authorization")
    expect([other, status, headers.get("access-control-allow-origin")]).toEqual([
      other,
      other === "" ? status : 400,
      null,
    ])
    const plain = await send(shared.east, "/api/v1/version", {
      headers: { origin: other, "x-forwarded-for": newAddress() },
    })
    expect([other, plain.headers.get("access-control-allow-origin")]).toEqual([other, null])
  }
  // A picture is for pages of everybody, without credentials.
  const picture = await send(shared.east, "/api/v1/qr?data=x", {
    route: routes.getQrCode,
    headers: { origin: "https://elsewhere.example" },
  })
  expect([
    picture.headers.get("access-control-allow-origin"),
    picture.headers.get("access-control-allow-credentials"),
  ]).toEqual(["*", null])
})

test("the client is the last hop that is no trusted proxy, for blocks, limits and sessions", async ({ shared }) => {
  const operator = operatorOf(shared)
  const client = newAddress()
  await operator.block(client)
  const codeOf = async (forwarded: string) =>
    (await send(shared.east, "/health", { headers: { "x-forwarded-for": forwarded } })).code
  await until("blocked", async () => (await codeOf(client)) === "address_blocked")
  for (const [forwarded, isClient] of [
    [`${client}, 10.1.2.3`, true],
    [`1.2.3.4, ${client}, 10.1.2.3, 10.0.0.1`, true],
    [`[::ffff:${client}]:4711`, true],
    [`${client}:4711`, true],
    // In front of somebody who is no proxy of ours it is only said.
    [`${client}, 203.0.113.1`, false],
    [`${client}, unknown`, false],
    ["1.2.3.4", false],
    ["", false],
  ] as const)
    expect([forwarded, await codeOf(forwarded)]).toEqual([forwarded, isClient ? "address_blocked" : undefined])
  await operator.unblock(client)
  await until("let in again", async () => (await codeOf(client)) === undefined)

  const person = await shared.person("ada", shared.east)
  const answer = await send(shared.east, "/api/v1/auth/login", {
    method: "POST",
    body: { username: person.username, password: person.password },
    headers: { "x-forwarded-for": `9.9.9.9, 2001:db8::7, 10.0.0.1` },
    route: routes.login,
  })
  const session = (answer.body as { token: string }).token.split(".")[0]!
  const [row] = await shared.sql<{ ip_address: string }[]>`SELECT ip_address FROM sessions WHERE id = ${session}`
  expect(row!.ip_address).toBe("2001:db8::7")

  // Without the header the proxy itself is the client; the gateway knows the same.
  ;(await open(shared.east, { headers: { "x-forwarded-for": newAddress() } })).close()
})
