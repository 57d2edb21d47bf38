import { routes } from "../src/contract/contract.ts"
import { refusal } from "./kit/conformance.ts"
import { send, type Answer } from "./kit/exchange.ts"
import type { Place } from "./kit/person.ts"
import { sharedServer } from "./kit/seeds.ts"
import { expect, testWith } from "./kit/test.ts"

/** Whoever the proxy says that it is: each test comes from addresses of its own. */
const test = testWith({ limited: true, config: { TRUSTED_PROXIES: "127.0.0.1" } })
let addresses = 0
const newAddress = () => `10.1.${++addresses >> 8}.${addresses & 255}`

const password = "Correct-Horse-9"
/** Registers from an address of its own: three registrations a minute are all that one address has. */
async function register(place: Place, username: string): Promise<string> {
  const { body } = await send(place, "/api/v1/auth/register", {
    route: routes.register,
    body: { username, email: `${username}@example.com`, password },
    headers: { "x-forwarded-for": newAddress() },
  })
  return (body as { token: string }).token
}

const figures = ({ headers }: Answer) => ({
  limit: Number(headers.get("x-ratelimit-limit")),
  remaining: Number(headers.get("x-ratelimit-remaining")),
  resetAfter: Number(headers.get("x-ratelimit-reset-after")),
  reset: Number(headers.get("x-ratelimit-reset")),
  scope: headers.get("x-ratelimit-scope"),
  bucket: headers.get("x-ratelimit-bucket"),
})

test("every counted answer says how much is left; the refusal says when to come back", async ({ shared }) => {
  const from = newAddress()
  const attempt = () =>
    send(shared.east, "/api/v1/auth/login", {
      route: routes.login,
      body: { username: shared.newName("nobody"), password },
      headers: { "x-forwarded-for": from },
    })
  const buckets = new Set<string | null>()
  for (let left = 4; left >= 0; left--) {
    const answer = await attempt()
    expect(answer.code).toBe("invalid_credentials")
    expect(figures(answer)).toMatchObject({ limit: 5, remaining: left, scope: "route" })
    buckets.add(answer.headers.get("x-ratelimit-bucket"))
  }
  expect(buckets.size).toBe(1)
  expect([...buckets][0]).toMatch(/^[0-9a-f]{16}$/)

  const refused = await attempt()
  expect(refused).toMatchObject({ status: 429, code: "rate_limited" })
  const { resetAfter, reset, ...rest } = figures(refused)
  expect(rest).toEqual({ limit: 5, remaining: 0, scope: "route", bucket: [...buckets][0] })
  expect(resetAfter).toBeGreaterThan(50)
  expect(Math.abs(reset - Date.now() / 1000 - resetAfter)).toBeLessThan(5)
  expect(refused.headers.get("retry-after")).toBe(String(Math.floor(resetAfter) + 1))
  expect(refused.headers.has("x-ratelimit-global")).toBe(false)
  const union = { message: "You are being rate limited", retry_after: resetAfter, global: false, scope: "route" }
  expect(refused.body).toEqual({ ...union, error: { code: 429, ...union } })
})

test("P16: one user on all workers at once gets no more than limit and burst", async ({ shared }) => {
  const [open] = await shared.boot(1)
  const { channel, ada } = await sharedServer(shared, open)
  const startedAt = performance.now()
  const attempts = await Promise.all(
    Array.from({ length: 30 }, (_, i) =>
      send(i % 2 ? shared.east : shared.west, `/api/v1/channels/${channel.id}/messages`, {
        route: routes.createMessage,
        token: ada.token,
        body: { content: `${i}` },
      }),
    ),
  )
  const finishedAt = performance.now()
  const accepted = attempts.filter(({ status }) => status === 200)
  for (const { status, code } of attempts) if (status !== 200) expect(code).toBe("rate_limited")
  // 5 in 5 seconds and a burst of 3; one more for each second that the run took.
  expect(accepted.length).toBeGreaterThanOrEqual(8)
  expect(accepted.length).toBeLessThanOrEqual(8 + Math.ceil((finishedAt - startedAt) / 1000))
  const stored = await ada.on(open!).listMessages({ channel_id: channel.id })
  expect(new Set(stored.map(({ content }) => content))).toEqual(
    new Set(accepted.map(({ body }) => (body as { content: string }).content)),
  )
  await open!.stop()
  await shared.balanced()
})

test("buckets of a resource are apart by channel and by user, those of a route by user", async ({ shared }) => {
  const [ada, lin] = [
    await register(shared.east, shared.newName("ada")),
    await register(shared.west, shared.newName("lin")),
  ]
  const post = async (token: string, channel: string) => {
    const { headers } = await send(shared.east, `/api/v1/channels/${channel}/messages`, {
      route: routes.createMessage,
      token,
      body: { content: "x" },
    })
    return headers.get("x-ratelimit-bucket")
  }
  const mine = await post(ada, "1")
  expect(await post(ada, "1")).toBe(mine)
  expect(await post(ada, "2")).not.toBe(mine)
  expect(await post(lin, "1")).not.toBe(mine)

  const read = async (token: string, server: string) =>
    figures(await send(shared.west, `/api/v1/servers/${server}`, { route: routes.getServer, token }))
  const first = await read(ada, "1")
  expect(first).toMatchObject({ limit: 30, remaining: 29, scope: "route" })
  expect(await read(ada, "2")).toMatchObject({ remaining: 28, bucket: first.bucket })
  expect(await read(lin, "1")).toMatchObject({ remaining: 29 })
})

test("what no route limits meets the user's or the address's bucket; a refused request takes nothing", async ({
  shared,
}) => {
  const from = newAddress()
  const ask = () =>
    send(shared.east, "/api/v1/version", { route: routes.getVersion, headers: { "x-forwarded-for": from } })
  // The global bucket refuses the fast; that takes nothing from the address's.
  let accepted = 0
  let refused: Answer | undefined
  while (refused?.headers.get("x-ratelimit-scope") !== "ip") {
    const answer = await ask()
    if (answer.status === 200) accepted++
    else refused = answer
  }
  expect(accepted).toBe(80)
  expect(figures(refused)).toMatchObject({ limit: 80, remaining: 0, scope: "ip" })
  // The window slides from the first request that was accepted, not from the last that was refused.
  expect(figures(refused).resetAfter).toBeLessThan(60)
  expect((await send(shared.west, "/api/v1/version", { headers: { "x-forwarded-for": newAddress() } })).status).toBe(
    200,
  )
})

test("the global bucket refuses a flood of one user and says so", async ({ shared }) => {
  const token = await register(shared.east, shared.newName("flood"))
  const answers = await Promise.all(
    Array.from({ length: 100 }, (_, i) =>
      send(i % 2 ? shared.east : shared.west, "/api/v1/users/0", { route: routes.getUser, token }),
    ),
  )
  const refused = answers.filter(({ status }) => status === 429)
  const global = refused.find(({ headers }) => headers.get("x-ratelimit-scope") === "global")
  expect(global?.headers.get("x-ratelimit-global")).toBe("true")
  expect(global?.body).toMatchObject({ global: true, scope: "global" })
})

test("a hundred failed tokens of one address are enough, and honest requests from there go on", async ({ shared }) => {
  const from = newAddress()
  const token = await register(shared.west, shared.newName("honest"))
  const ask = (token: string) =>
    send(shared.east, "/api/v1/users/@me", { route: routes.getMe, token, headers: { "x-forwarded-for": from } })
  const bad = token.replace(/.$/, last => (last === "A" ? "B" : "A"))
  const codes: (string | undefined)[] = []
  // At most 80 requests of an address are counted in a minute, failed ones too.
  const known = `${token.split(".")[0]}.${"A".repeat(43)}`
  for (let i = 0; i < 101; i++) codes.push((await ask(i % 2 ? known : bad)).code)
  expect(codes.filter(code => code === "revoked_token").length).toBeLessThanOrEqual(100)
  expect(codes.at(-1)).toMatch(/^(too_many_failed_tokens|rate_limited)$/)
  expect((await ask(token)).status).toBe(200)
})

test("paths that the limiter leaves out carry no figures; unknown paths are counted", async ({ shared }) => {
  const headers = { "x-forwarded-for": newAddress() }
  for (const path of ["/health", "/livez", "/readyz", "/api/v1/health", "/api/v1/status", "/openapi.json", "/docs"])
    expect((await send(shared.east, path, { headers })).headers.has("x-ratelimit-limit")).toBe(false)
  const nothing = await send(shared.east, "/api/v1/nothing", { headers })
  expect(nothing).toMatchObject({ status: 404, code: "not_found" })
  expect(figures(nothing)).toMatchObject({ limit: 80, remaining: 79, scope: "ip" })
})

test("an address is believed only from a proxy that is trusted", async ({ cluster }) => {
  const [place] = await cluster.boot(1, { limited: true })
  const attempt = (from: string) =>
    send(place!, "/api/v1/auth/login", {
      route: routes.login,
      body: { username: cluster.newName("nobody"), password },
      headers: { "x-forwarded-for": from },
    })
  for (let i = 0; i < 5; i++) expect((await attempt(`10.9.9.${i}`)).code).toBe("invalid_credentials")
  expect((await attempt("10.9.9.9")).code).toBe("rate_limited")
})

test("RATE_LIMITS=off lifts every limiter", async ({ cluster }) => {
  const [place] = await cluster.boot(1)
  const { channel, ada } = await cluster.seed(sharedServer)
  const sent = await Promise.all(
    Array.from({ length: 150 }, (_, i) => ada.on(place!).createMessage({ channel_id: channel.id, content: `${i}` })),
  )
  expect(sent).toHaveLength(150)
  for (let i = 0; i < 120; i++)
    expect(
      await refusal(
        ada
          .on(place!)
          .as(`1.${"A".repeat(43)}`)
          .getMe(),
      ),
    ).toBe("revoked_token")
  const answer = await send(place!, "/api/v1/users/@me", { token: ada.token })
  expect(answer.headers.has("x-ratelimit-limit")).toBe(false)
})
