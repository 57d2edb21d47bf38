import { setTimeout as sleep } from "node:timers/promises"
import { inject } from "vitest"
import { routes } from "../../src/contract/contract.ts"
import { hashSecret, newSecret } from "../../src/cluster/tokens.ts"
import { labelOf, limits } from "../../src/contract/core/limits.ts"
import { shardOf } from "../../src/domain/core/snowflake.ts"
import type { Route } from "../../src/contract/core/registry.ts"
import { newOperator } from "../kit/area.ts"
import { refusal } from "../kit/conformance.ts"
import { send, type Answer } from "../kit/exchange.ts"
import { canHaveLetIn } from "../kit/lease-model.ts"
import { checkLimits } from "../kit/limit-property.ts"
import { gauge, type Worker } from "../kit/cluster.ts"
import type { Endpoint } from "../kit/person.ts"
import { closedWith, identified, open } from "../kit/raw.ts"
import { plantedId, plantServer, sharedServer } from "../kit/seeds.ts"
import { expect, testWith } from "../kit/test.ts"

/** The client that the proxy names: each test comes from addresses of its own. */
const bypassSecret = "let-me-through-".repeat(3)
const test = testWith({
  limited: true,
  config: {
    TRUSTED_PROXIES: "127.0.0.1",
    STARLING_ADMIN_UI_HOST_RESTRICTION: "false",
    STARLING_RATE_LIMIT_BYPASS_SECRET: bypassSecret,
    STARLING_RATE_LIMITS: JSON.stringify({
      "POST /auth/verify-email": { requests: 2, seconds: 3600 },
      "POST /version/negotiate": { requests: 2, seconds: 0.6, burst: 1, caps: [{ requests: 5, seconds: 3600 }] },
    }),
  },
})
let addresses = 0
const newAddress = () => `10.1.${++addresses >> 8}.${addresses & 255}`

const password = "Correct-Horse-9"
/**
 * Registers from an address of its own: three registrations a minute are all that one address has.
 */
async function register(place: Endpoint, username: string): Promise<string> {
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
  resetAfterSeconds: Number(headers.get("x-ratelimit-reset-after")),
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
  const { resetAfterSeconds, reset, ...rest } = figures(refused)
  expect(rest).toEqual({ limit: 5, remaining: 0, scope: "route", bucket: [...buckets][0] })
  expect(resetAfterSeconds).toBeGreaterThan(50)
  expect(Math.abs(reset - Date.now() / 1000 - resetAfterSeconds)).toBeLessThan(5)
  expect(refused.headers.get("retry-after")).toBe(String(Math.floor(resetAfterSeconds) + 1))
  expect(refused.headers.has("x-ratelimit-global")).toBe(false)
  const union = { message: "You are being rate limited", retry_after: resetAfterSeconds, global: false, scope: "route" }
  expect(refused.body).toEqual({ ...union, error: { code: 429, ...union } })
})

test("a user who reacts too fast is told in the message, too, for how many seconds they have to wait", async ({
  shared,
}) => {
  const token = await register(shared.east, shared.newName("ada"))
  const path = "/api/v1/channels/1/messages/1/reactions/x"
  for (const method of ["PUT", "DELETE"]) {
    const answers = await Promise.all(Array.from({ length: 6 }, () => send(shared.east, path, { method, token })))
    const refused = answers.find(({ code }) => code === "rate_limited")!
    const { message } = (refused.body as { error: { message: string } }).error
    expect(message).toBe(`You are being rate limited. Try again in ${refused.headers.get("retry-after")!} s`)
    expect(refused.body).toMatchObject({ message, scope: "resource" })
  }
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
  // However it is written.
  expect(await post(ada, "%31")).toBe(mine)
  expect(await post(ada, "nonsense")).toBe(await post(ada, "%zz"))
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
  expect(figures(refused).resetAfterSeconds).toBeLessThan(60)
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

test("a hundred failed tokens of one address are enough, over REST and the gateway together; good tokens from there go on", async ({
  cluster,
}) => {
  const wide = { requests: 1000, seconds: 1 }
  const config = { STARLING_RATE_LIMITS: JSON.stringify({ global: wide, ip: wide }) }
  const [east, west] = (await cluster.boot(2, { limited: true, config })) as [Worker, Worker]
  const ada = await cluster.person("ada")
  const ask = (token: string, place: Endpoint = east) =>
    send(place, "/api/v1/users/@me", { route: routes.getMe, token })
  const identify = async (place: Worker, token: string) => {
    const raw = await open(place)
    raw.say({ op: 2, d: { token } })
    return raw.ended
  }
  expect((await ask(ada.token)).status).toBe(200)
  // Some of a session that is known, some of none that is.
  const bad = (i: number) => `${i % 2 ? ada.token.split(".")[0] : i}.${"A".repeat(43)}`
  for (let i = 0; i < 45; i++)
    for (const place of [east, west]) expect((await ask(bad(i), place)).code).toBe("revoked_token")
  for (let i = 0; i < 10; i++)
    expect(await identify(i % 2 ? east : west, bad(i))).toEqual(closedWith("authentication_failed"))

  for (const place of [east, west]) {
    for (const token of [bad(1), bad(2)]) {
      const refused = await ask(token, place)
      expect(refused).toMatchObject({ status: 429, code: "too_many_failed_tokens" })
      expect(figures(refused)).toMatchObject({ limit: 100, remaining: 0, scope: "ip" })
      expect(figures(refused).resetAfterSeconds).toBeGreaterThan(30)
    }
    expect(await identify(place, bad(2))).toEqual(closedWith("rate_limited"))
  }
  const { token } = await ada.signIn(west)
  for (const honest of [ada.token, token]) expect((await ask(honest)).status).toBe(200)
  ;(await identified(west, (await ada.signIn(west)).token)).close()
})

test("a suspended user is told so, not that they are too fast, and their address pays", async ({ shared }) => {
  const username = shared.newName("ada")
  const token = await register(shared.east, username)
  await shared.sql`UPDATE users SET locked_until = 9999999999, lock_reason = 'spam' WHERE username = ${username}`
  const headers = { "x-forwarded-for": newAddress() }
  for (let left = 79; left >= 30; left--) {
    const answer = await send(shared.west, "/api/v1/users/@me", { route: routes.getMe, token, headers })
    expect(answer).toMatchObject({ status: 403, code: "account_suspended" })
    expect(figures(answer)).toMatchObject({ scope: "ip", limit: 80, remaining: left })
  }
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

test("a signed link counts for the user who sends a good token with it, and for the address of everybody else", async ({
  shared,
}) => {
  const { ada, channel } = await shared.seed(sharedServer)
  const channel_id = channel.id
  const rest = ada.on(shared.east)
  const file = { bytes: Buffer.from("hello"), filename: "hello.txt", type: "text/plain" }
  const upload = await rest.uploadAttachment({ channel_id, file })
  const { attachments } = await rest.createMessage({ channel_id, attachments: [upload] })
  const asked = async (token?: string) => {
    const answer = await send(shared.east, attachments[0]!.url, {
      ...(token !== undefined && { token }),
      headers: { "x-forwarded-for": newAddress() },
    })
    return [answer.status, answer.headers.get("x-ratelimit-scope")]
  }
  expect(await asked(ada.token)).toEqual([200, "user"])
  expect(await asked()).toEqual([200, "ip"])
  for (const wrong of [`${ada.token}x`, "nonsense"]) expect(await asked(wrong)).toEqual([200, "ip"])
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

test("P16: workers with leases let a user in no faster than a limit says, on all of them at full speed, whatever counts", async ({
  cluster,
}) => {
  const narrow = { requests: 60, seconds: 0.5, burst: 20 }
  const wide = { requests: 100_000, seconds: 1, algorithm: "token" }
  const paths = {
    sliding: "/users/@me",
    token: "/users/@me/settings",
    fixed: "/users/@me/unread",
  } as const
  const own = Object.entries(paths).map(([algorithm, path]) => [`GET ${path}`, { ...narrow, algorithm }])
  const limits = { global: wide, user: { ...wide, requests: 9_000, algorithm: "sliding" }, ...Object.fromEntries(own) }
  const config = { STARLING_RATE_LIMITS: JSON.stringify(limits) }
  const workers = await cluster.boot(2, { limited: true, config })
  const ada = await cluster.person("ada", workers[0])
  for (const algorithm of ["sliding", "token", "fixed"] as const) {
    const accepted: { sentMs: number; answeredMs: number; ends: number }[] = []
    let refused = 0
    const goOn = async (worker: Worker) => {
      for (let i = 0; i < 100; i++) {
        const sentMs = performance.now()
        const answer = await send(worker, `/api/v1${paths[algorithm]}`, { token: ada.token })
        const answeredMs = performance.now()
        const { limit, reset } = figures(answer)
        expect(limit).toBe(80)
        if (answer.status === 429) refused++
        else accepted.push({ sentMs, answeredMs, ends: Math.round(reset * 1000) })
      }
    }
    await Promise.all(workers.flatMap(worker => [goOn(worker), goOn(worker)]))
    expect(accepted.length).toBeGreaterThanOrEqual(60)
    expect(accepted.length + refused).toBe(400)
    if (algorithm === "fixed") {
      const windows = new Map<number, number>()
      for (const { ends } of accepted) windows.set(ends, (windows.get(ends) ?? 0) + 1)
      expect(Math.max(...windows.values())).toBeLessThanOrEqual(80)
    } else expect(canHaveLetIn({ ...narrow, algorithm, scope: "route" }, accepted)).toBe(true)
  }
  for (const worker of workers) expect(await gauge(worker, "starling_http_admitted_total", "lease")).toBeGreaterThan(20)
})

test("P16: no interval admits more than a limit says, and a client that waits as it was told gets in", async () => {
  await checkLimits(inject("redis"), 16)
})

test("every route with a limit of its own answers with that limit's figures", async ({ shared }) => {
  const token = await register(shared.east, shared.newName("ada"))
  const operator = await newOperator(shared)
  const limited = Object.entries<Route>(routes).flatMap(([name, route]) =>
    typeof route.limit === "object" ? [{ name, route, limit: route.limit }] : [],
  )
  expect(limited.length).toBeGreaterThan(12)
  // Some take from one bucket together.
  const taken = new Map<string, number>()
  for (const { name, route, limit } of limited) {
    const label = labelOf(route)
    taken.set(label, (taken.get(label) ?? 0) + 1)
    const path = route.path.replace(/:\w+/g, "1")
    const { headers } = await send(shared.west, `/api/v1${path}`, {
      method: route.method,
      ...(route.body && { body: {} }),
      ...(route.auth !== "public" && { token: route.auth === "operator" ? operator.token : token }),
      // Operators come from this host.
      headers: route.mount === "operators" ? {} : { "x-forwarded-for": newAddress() },
    })
    expect([name, headers.get("x-ratelimit-limit"), headers.get("x-ratelimit-scope")]).toEqual([
      name,
      String(limit.requests + limit.burst),
      limit.scope,
    ])
    // Each comes from an address of its own.
    const count = limit.scope === "ip" ? 1 : taken.get(label)!
    expect(headers.get("x-ratelimit-remaining"), name).toBe(String(limit.requests + limit.burst - count))
  }
})

const bypass = { limit: 999_999, remaining: 999_999, resetAfterSeconds: 60, scope: "bypass", bucket: "bypass" }

test("administrators are not limited; others with the same tier are", async ({ shared }) => {
  const [root, ada] = [shared.newName("root"), shared.newName("ada")]
  const [admin, other] = [await register(shared.east, root), await register(shared.west, ada)]
  await shared.sql`UPDATE users SET permissions = ${["administrator"]} WHERE username = ${root}`
  const ask = (token: string) => send(shared.east, "/api/v1/users/@me", { route: routes.getMe, token })
  for (let i = 0; i < 45; i++) expect((await ask(admin)).status).toBe(200)
  const last = await ask(admin)
  expect(figures(last)).toMatchObject(bypass)
  expect(last.headers.get("x-ratelimit-reset-after")).toBe("60.000")
  expect(Math.abs(figures(last).reset - Date.now() / 1000 - 60)).toBeLessThan(5)
  const answers = []
  for (let i = 0; i < 41; i++) answers.push((await ask(other)).status)
  expect(answers.filter(status => status === 429)).toHaveLength(1)
})

test("the bypass header lifts the limits for clients that know its secret, and permits nothing else", async ({
  shared,
}) => {
  const from = newAddress()
  const ask = (headers: Record<string, string>, path = "/api/v1/version") =>
    send(shared.east, path, { headers: { "x-forwarded-for": from, ...headers } })
  const secret = { "x-ratelimit-bypass": bypassSecret }
  for (let i = 0; i < 90; i++) expect((await ask(secret)).status).toBe(200)
  expect(figures(await ask(secret))).toMatchObject(bypass)
  expect(figures(await ask(secret, "/api/v1/nothing"))).toMatchObject(bypass)
  const refused = await ask(secret, "/api/v1/users/@me")
  expect(refused.status).toBe(401)
  expect(figures(refused)).toMatchObject(bypass)
  // None of these took anything.
  expect(figures(await ask({}))).toMatchObject({ scope: "ip", remaining: 79 })
  const wrong = { "x-ratelimit-bypass": bypassSecret.replace(/.$/, "_") }
  expect(figures(await ask(wrong))).toMatchObject({ scope: "ip", remaining: 78 })
})

test("limits of the configuration: a client that waits as long as Retry-After says gets in, until the cap", async ({
  shared,
}) => {
  const from = newAddress()
  const ask = () =>
    send(shared.west, "/api/v1/version/negotiate", {
      route: routes.negotiateVersion,
      body: { client_version: "a.1.0-49" },
      headers: { "x-forwarded-for": from },
    })
  for (let left = 2; left >= 0; left--) {
    const answer = await ask()
    expect(answer.status).toBe(200)
    expect(figures(answer)).toMatchObject({ limit: 3, remaining: left, scope: "route" })
  }
  const refused = await ask()
  expect(refused.code).toBe("rate_limited")
  expect(refused.headers.get("retry-after")).toBe("1")
  await sleep(1000)
  for (let i = 0; i < 2; i++) expect((await ask()).status).toBe(200)
  const capped = await ask()
  expect(capped.code).toBe("rate_limited")
  expect(figures(capped)).toMatchObject({ limit: 5, remaining: 0, scope: "route" })
  expect(figures(capped).resetAfterSeconds).toBeGreaterThan(3590)
})

test("an address of IPv6 is its /64, one of IPv4 is itself however it is written", async ({ shared }) => {
  const ask = async (from: string) =>
    figures(await send(shared.east, "/api/v1/version", { headers: { "x-forwarded-for": from } })).remaining
  expect(await ask("2001:db8:7:1::1")).toBe(79)
  expect(await ask("2001:db8:7:1:ffff:ffff:ffff:ffff")).toBe(78)
  expect(await ask("[2001:DB8:7:1:0:0:0:5]:443")).toBe(77)
  expect(await ask("2001:db8:7:2::1")).toBe(79)
  const address = newAddress()
  expect(await ask(address)).toBe(79)
  expect(await ask(`::ffff:${address}`)).toBe(78)
})

test("P16: a thousand /64 of one /48 get sixteen times what one has, all workers together; another /48 is served", async ({
  shared,
}) => {
  const ask = async (net: string, i: number) => {
    const from = `2001:db8:${net}:${(((i & 255) << 8) | (i >> 8)).toString(16)}::1`
    const { status } = await send(i % 2 ? shared.east : shared.west, "/api/v1/auth/verify-email", {
      method: "POST",
      body: { token: "no token" },
      headers: { "x-forwarded-for": from },
    })
    return status
  }
  const statuses: number[] = []
  for (let i = 0; i < 1_000; i += 50)
    statuses.push(...(await Promise.all(Array.from({ length: 50 }, (_, j) => ask("8", i + j)))))
  const asMany = (status: number) => statuses.filter(one => one === status).length
  expect([asMany(401), asMany(429)]).toEqual([32, 968])
  expect(await ask("9", 1)).toBe(401)
})

test("requests that are not let in count for their address, like those of nobody", async ({ shared }) => {
  const from = newAddress()
  const ask = async (path: string, authorization?: string) => {
    const headers = { "x-forwarded-for": from, ...(authorization !== undefined && { authorization }) }
    const answer = await send(shared.west, path, { headers })
    return [answer.status, figures(answer).scope, figures(answer).remaining]
  }
  expect(await ask("/api/v1/version")).toEqual([200, "ip", 79])
  expect(await ask("/api/v1/users/@me")).toEqual([401, "ip", 78])
  expect(await ask("/api/v1/users/@me", "Bearer nonsense")).toEqual([401, "ip", 77])
  expect(await ask("/api/v1/users/@me", `Bearer 1.${"A".repeat(43)}`)).toEqual([401, "ip", 76])
  expect(await ask("/api/v1/users/@me", "Basic YTpi")).toEqual([401, "ip", 75])
  expect(await ask("/api/v1/nothing", "Bearer nonsense")).toEqual([404, "ip", 74])
  for (const path of ["/robots.txt", "/api/v1/help/security-logout", "/verify-email"])
    expect((await ask(path)).slice(0, 2)).toEqual([200, "ip"])
  expect((await ask("/api/v1/version"))[2]).toBe(70)
})

test("pictures of codes: so many of an address, whatever they say", async ({ shared }) => {
  const from = newAddress()
  const ask = (address: string, i: number) =>
    send(i % 2 ? shared.east : shared.west, `/api/v1/qr?data=${i}`, { headers: { "x-forwarded-for": address } })
  for (let i = 0; i < 25; i++) expect((await ask(from, i)).status).toBe(200)
  const refused = await ask(from, 25)
  expect(refused.status).toBe(429)
  expect(figures(refused)).toMatchObject({ limit: 25, remaining: 0, scope: "ip" })
  expect((await ask(newAddress(), 26)).status).toBe(200)
})

test("all webhooks of a server share one budget, from however many addresses they are used", async ({ shared }) => {
  const owner = { id: plantedId(), username: shared.newName("ada") }
  await shared.sql`INSERT INTO users (id, username, created_at) VALUES (${owner.id}, ${owner.username}, 1704153600)`
  const { server_id, channel_id } = await plantServer(shared, { owner })
  const ids = Array.from({ length: 25 }, () => plantedId(shardOf(server_id)))
  const secret = newSecret(48)
  await shared.sql`
    INSERT INTO webhooks (id, server_id, channel_id, creator_id, holder_id, name, token_hash, created_at)
    SELECT id, ${server_id}, ${channel_id}, ${owner.id}, ${owner.id}, 'Planted', ${hashSecret(secret)}, 1704153600
    FROM unnest(${ids}::bigint[]) AS id`
  const post = (i: number) =>
    send(i % 2 === 0 ? shared.east : shared.west, `/webhooks/${ids[i % ids.length]!}/${secret}`, {
      route: routes.executeWebhook,
      body: { content: `${i}` },
      headers: { "x-forwarded-for": newAddress() },
    })
  const startedAtMs = Date.now()
  // Eight of each webhook: its own bucket allows ten.
  const answers = await Promise.all(Array.from({ length: 8 * ids.length }, (_, i) => post(i)))
  const passed = answers.filter(({ status }) => status === 200).length
  const { webhookBurstMessages: burst, webhookMessagesPerSecond: perSecond } = limits
  expect(passed).toBeGreaterThanOrEqual(burst)
  expect(passed).toBeLessThanOrEqual(burst + Math.ceil(((Date.now() - startedAtMs) / 1_000) * perSecond))
  const refused = answers.filter(({ status }) => status === 429)
  expect(passed + refused.length).toBe(answers.length)
  for (const { code, headers, body } of refused) {
    expect(code).toBe("rate_limited")
    expect(body).toMatchObject({ scope: "webhook", global: false })
    expect(Number(headers.get("retry-after"))).toBeGreaterThan(0)
  }
})

test("changes of who views channels have a budget of the server, for all who manage it; other changes do not count", async ({
  shared,
}) => {
  const token = await register(shared.east, shared.newName("ada"))
  const call = (route: Route, path: string, body: unknown, on = shared.east) =>
    send(on, path, {
      route,
      body: body as Record<string, unknown>,
      token,
      headers: { "x-forwarded-for": newAddress() },
    })
  const { body: made } = await call(routes.createServer, "/api/v1/servers", { name: "Many" })
  const { id } = made as { id: string }
  const answers = await Promise.all(
    Array.from({ length: 48 }, (_, i) => {
      const permissions = { "channels.view": i % 2 === 1, "messages.read": true }
      const worker = i % 4 < 2 ? shared.east : shared.west
      return call(routes.editRole, `/api/v1/servers/${id}/roles/${id}`, { permissions }, worker)
    }),
  )
  const refused = answers.filter(({ status }) => status === 429)
  expect(answers.length - refused.length).toBeGreaterThanOrEqual(20)
  expect(refused[0]?.body).toMatchObject({ retry_after: expect.any(Number), global: false, scope: "resource" })
  expect(Number(refused[0]?.headers.get("retry-after"))).toBeGreaterThanOrEqual(1)
  const other = await call(routes.editRole, `/api/v1/servers/${id}/roles/${id}`, { color: "#123456" })
  expect(other.status).toBe(200)
})
