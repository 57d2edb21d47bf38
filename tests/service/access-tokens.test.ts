/**
 * API access tokens: what applications present beside their users' tokens, where an operator asks
 * for that.
 */
import { operatorRoutes, routes } from "../../src/contract/contract.ts"
import type { Route } from "../../src/contract/core/registry.ts"
import { hashSecret, newSecret } from "../../src/cluster/tokens.ts"
import type { NewAccessToken } from "../../src/storage/service/access-tokens.ts"
import { send, type Sending } from "../kit/exchange.ts"
import { attentive, operatorOf } from "../kit/operator.ts"
import { clientAt, type Person, type Endpoint } from "../kit/person.ts"
import { identified } from "../kit/raw.ts"
import { plantServer } from "../kit/seeds.ts"
import { expect, testWith, type SharedCluster } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const test = testWith({ config: { TRUSTED_PROXIES: "127.0.0.1" }, topology: attentive })

/** A token that an operator makes; the secret is told to nobody else. */
async function newToken({ accessTokens }: ReturnType<typeof operatorOf>, asked: Partial<NewAccessToken> = {}) {
  const secret = newSecret(24)
  const made = await accessTokens.create({
    name: "test",
    token_hash: hashSecret(secret),
    mode: "none",
    scopes: [],
    expires_at: null,
    ...asked,
  })
  return { id: (made as { id: string }).id, secret }
}

const version = "/api/v1/auth/password-requirements"
const gated = "/api/v1/users/@me"
const withToken = (secret: string, from?: string): Sending => ({
  headers: { "x-api-access-token": secret, ...(from !== undefined && { "x-forwarded-for": from }) },
})
const codeAt = async (place: Endpoint, sending: Sending = {}) => (await send(place, gated, sending)).code
const places = (shared: SharedCluster): Endpoint[] => [shared.east, shared.west]
const everywhere = (shared: SharedCluster, sending: Sending, code: string) =>
  until(`everywhere ${code}`, async () =>
    (await Promise.all(places(shared).map(place => codeAt(place, sending)))).every(each => each === code),
  )
const open = (shared: SharedCluster) => everywhere(shared, {}, "authentication_required")

/** What the paragraph about the gate leaves open, by what there is of it. */
const leftOpen = [
  "getHealth",
  "getVersion",
  "negotiateVersion",
  "getStatus",
  "getCapabilities",
  "getSecurityLogoutHelp",
  "getAccessBlockedHelp",
  "getQrCode",
  "getPasswordRequirements",
  "executeWebhook",
  "getIcon",
  "getAvatar",
  "getEmojiPicture",
  "getStickerFile",
  "getUserFeatures",
  "editUserFeatures",
  "setTier",
  "addBadge",
  "removeBadge",
  "listTiers",
  "listBadges",
  ...Object.keys(operatorRoutes),
  "reportCspViolation",
]

/** To a file of a message: a page shows it without a word of its own. */
async function signedLink(shared: SharedCluster, owner: Person): Promise<string> {
  const { channel_id } = await plantServer(shared, { owner })
  const rest = owner.on(shared.east)
  const file = { bytes: Buffer.from("hello"), filename: "hello.txt", type: "text/plain" }
  const { attachments } = await rest.createMessage({
    channel_id,
    attachments: [await rest.uploadAttachment({ channel_id, file })],
  })
  return attachments[0]!.url
}

test("when a token is set, every path below /api/v1 asks for it, except those that have to be open", async ({
  shared,
}) => {
  const operator = operatorOf(shared)
  const ada = await shared.person("ada", shared.east)
  expect((await clientAt(shared.east).getCapabilities()).access_token_required).toBe(false)
  const link = await signedLink(shared, ada)
  const { id, secret } = await newToken(operator)
  expect(secret).toMatch(/^[A-Za-z0-9_-]{32}$/)
  await everywhere(shared, {}, "access_token_required")
  await everywhere(shared, withToken(secret), "authentication_required")
  expect((await clientAt(shared.west).getCapabilities()).access_token_required).toBe(true)

  expect((await send(shared.west, link)).text).toBe("hello")
  for (const other of [link.split("?")[0]!, `${link}x`])
    expect((await send(shared.west, other, { route: routes.getAttachment })).code).toBe("access_token_required")

  const ofApi = Object.entries<Route>(routes).filter(([, { mount }]) => mount !== "root")
  expect(ofApi.flatMap(([name, { isGated }]) => (isGated ? [] : [name])).toSorted()).toEqual(leftOpen.toSorted())
  for (const [name, route] of ofApi) {
    const path = `/api/v1${route.path.replaceAll(/:\w+/g, "1")}`
    const without = await send(shared.east, path, { route })
    const wrong = await send(shared.west, path, { route, ...withToken(`${secret.slice(1)}x`) })
    const found = [name, without.code === "access_token_required", wrong.code === "invalid_access_token"]
    expect(found).toEqual([name, route.isGated, route.isGated])
    const right = (await send(shared.east, path, { route, ...withToken(secret) })).code
    expect([name, right]).not.toEqual([name, expect.stringContaining("access_token")])
  }
  for (const path of [
    "/",
    "/health",
    "/livez",
    "/readyz",
    "/openapi.json",
    "/asyncapi.json",
    "/docs",
    "/redoc",
    "/robots.txt",
    "/api/v1/robots.txt",
  ])
    expect([path, (await send(shared.east, path)).status]).toEqual([path, 200])
  // What is not there, and what is not there for this method, tell as little.
  expect((await send(shared.east, "/api/v1/nothing")).code).toBe("access_token_required")
  expect((await send(shared.east, "/api/v1/nothing", withToken(secret))).code).toBe("not_found")
  expect((await send(shared.east, gated, { method: "PUT" })).code).toBe("access_token_required")
  expect((await send(shared.east, gated, { method: "PUT", ...withToken(secret) })).code).toBe("method_not_allowed")
  expect((await send(shared.east, "/api/v1/status", { method: "DELETE" })).code).toBe("method_not_allowed")
  expect((await send(shared.east, "/nothing")).code).toBe("not_found")

  // It stands beside the user's own token, and in front of it.
  const both = { ...withToken(secret), token: ada.token }
  expect((await send(shared.east, gated, both)).status).toBe(200)
  expect(await codeAt(shared.east, { token: ada.token })).toBe("access_token_required")
  expect(await codeAt(shared.east, { token: "nonsense" })).toBe("access_token_required")
  expect(await codeAt(shared.east, { headers: { authorization: `Bearer ${secret}` } })).toBe("access_token_required")
  // The gateway asks for none: users who connect there have signed in over REST.
  ;(await identified(shared.west, ada.token)).close()

  const twice = new Headers([
    ["x-api-access-token", secret],
    ["x-api-access-token", secret],
  ])
  expect((await fetch(shared.east.url + gated, { headers: twice })).status).toBe(401)
  for (const presented of ["", " ", secret.toLowerCase(), `${secret} `, "x".repeat(3000)])
    expect([presented.slice(0, 40), await codeAt(shared.east, withToken(presented))]).toEqual([
      presented.slice(0, 40),
      presented.trim() === secret ? "authentication_required" : "invalid_access_token",
    ])

  // The database knows no token.
  const rows = await shared.sql<{ all: string }[]>`SELECT row_to_json(access_tokens)::text AS all FROM access_tokens`
  expect(rows.map(({ all }) => all).join()).not.toContain(secret)

  expect(await operator.accessTokens.revoke(id)).toEqual({ name: "test" })
  await open(shared)
  expect(await operator.accessTokens.revoke(id)).toBeUndefined()
  expect((await clientAt(shared.west).getCapabilities()).access_token_required).toBe(false)
})

test("one of several can be revoked, and an expired one does not let requests in", async ({ shared }) => {
  const operator = operatorOf(shared)
  const [first, second] = [await newToken(operator), await newToken(operator)]
  await everywhere(shared, withToken(second.secret), "authentication_required")
  await operator.accessTokens.revoke(first.id)
  await everywhere(shared, withToken(first.secret), "invalid_access_token")
  expect(await codeAt(shared.east, withToken(second.secret))).toBe("authentication_required")

  // Its time is over, and nothing else happens: that the clock goes on opens nothing.
  const short = await newToken(operator, { expires_at: Math.floor(Date.now() / 1000) + 1 })
  await operator.accessTokens.revoke(second.id)
  await everywhere(shared, withToken(short.secret), "invalid_access_token")
  await everywhere(shared, {}, "access_token_required")
  expect((await clientAt(shared.east).getCapabilities()).access_token_required).toBe(true)
  await operator.accessTokens.revoke(short.id)
  await open(shared)
})

test("a token's ranges are watched or enforced", async ({ shared }) => {
  const operator = operatorOf(shared)
  const scopes = ["198.51.100.0/28", "2001:db8::/32"]
  const watched = await newToken(operator, { mode: "monitor", scopes })
  const bound = await newToken(operator, { mode: "enforce", scopes })
  const nowhere = await newToken(operator, { mode: "enforce" })
  await everywhere(shared, withToken(bound.secret, "198.51.100.15"), "authentication_required")
  await everywhere(shared, withToken(nowhere.secret, "198.51.100.15"), "invalid_access_token")
  for (const [from, isInside] of [
    ["198.51.100.0", true],
    ["198.51.100.16", false],
    ["2001:db8:ffff::1", true],
    ["2001:db9::1", false],
    ["::ffff:198.51.100.3", true],
    // What is in front of the last proxy that is not trusted is only said.
    ["198.51.100.3, 203.0.113.9", false],
  ] as const) {
    const expected = isInside ? "authentication_required" : "invalid_access_token"
    expect([from, await codeAt(shared.east, withToken(bound.secret, from))]).toEqual([from, expected])
    expect(await codeAt(shared.west, withToken(watched.secret, from))).toBe("authentication_required")
    expect(await codeAt(shared.west, withToken(nowhere.secret, from))).toBe("invalid_access_token")
  }
  for (const { id } of await operator.accessTokens.list()) await operator.accessTokens.revoke(id)
  await open(shared)
})

test("guesses cost their address, and a worker that starts asks from its first request on", async ({ cluster }) => {
  const operator = operatorOf(cluster)
  const { secret } = await newToken(operator)
  const [place] = await cluster.boot(1, {
    limited: true,
    config: { TRUSTED_PROXIES: "127.0.0.1" },
    topology: attentive,
  })
  const guess = (from: string) =>
    send(place!, version.replace("password-requirements", "login"), {
      method: "POST",
      body: {},
      ...withToken(newSecret(24), from),
    })
  const codes = await Promise.all(Array.from({ length: 60 }, () => guess("198.51.100.1")))
  const counted = codes.map(({ code }) => code)
  expect(new Set(counted)).toEqual(new Set(["invalid_access_token"]))
  expect(codes.map(({ headers }) => headers.get("x-ratelimit-scope"))).toContain("ip")
  await until("the address is refused", async () => (await guess("198.51.100.1")).code === "rate_limited")
  expect((await guess("198.51.100.2")).code).toBe("invalid_access_token")
  // A page of a listed origin may send the header.
  expect((await send(place!, gated, withToken(secret, "198.51.100.3"))).code).toBe("authentication_required")
})
