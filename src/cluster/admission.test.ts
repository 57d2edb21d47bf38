import { randomUUID } from "node:crypto"
import { setTimeout as sleep } from "node:timers/promises"
import { afterAll, beforeAll, beforeEach, expect, inject, test, vi } from "vitest"
import { commonRateLimits, type RateLimit, type RateLimits } from "../contract/core/limits.ts"
import { createAdmission, routeBucket, type Admitted } from "./admission.ts"
import { redisKeys } from "./keys.ts"
import { openRedis } from "./redis.ts"
import { createTokens, hashSecret, newSecret, type AccessSession } from "./tokens.ts"
import { leasesOfTwo } from "../../tests/kit/lease-options.ts"
import { ordinary } from "../../tests/kit/ordinary-session.ts"

const redis = openRedis(inject("redis"), "admission test", () => {})
// Each admission listens for another Redis.
redis.setMaxListeners(0)
beforeAll(() => redis.connect())
afterAll(() => redis.quit())

const bypassSecret = "bypass-".repeat(5)
const plenty: RateLimit = { requests: 100_000, seconds: 60, burst: 0, algorithm: "sliding", scope: "user" }
const unlimited = { global: { ...plenty, algorithm: "token" as const }, user: plenty, ip: plenty }
const bucketOf = (limit: Partial<RateLimit>) => routeBucket({ ...plenty, scope: "route", ...limit }, "GET /things")

/** Whatever they test, it holds with leases, too. */
const leases = leasesOfTwo

let keys: ReturnType<typeof redisKeys>
let stored: Map<string, AccessSession>
let loads = 0
let now = Date.now()
beforeEach(() => {
  keys = redisKeys(`test-${randomUUID()}:`)
  stored = new Map()
  loads = 0
  now = Date.now()
})

const tokensOf = (load = async (id: string) => (loads++, stored.get(id))) =>
  createTokens({ redis, keys, load, clock: () => now })
const admissionOf = (common: RateLimits["common"] = unlimited, enabled = true, tokens = tokensOf()) =>
  createAdmission({ redis, keys, tokens, enabled, limits: { common, routes: new Map() }, bypassSecret, leases })

function session(facts: Partial<AccessSession> = {}): { token: string; session: AccessSession } {
  const secret = newSecret()
  const seconds = Math.floor(now / 1000)
  const session: AccessSession = {
    session_id: String(1000 + stored.size), user_id: "7", username: "ada", badges: ["staff", "é \"x\""], tier: "standard",
    ...ordinary, token_hash: hashSecret(secret), expires_at: seconds + 3600, last_activity: seconds, ...facts,
  } // prettier-ignore
  stored.set(session.session_id, session)
  return { token: `${session.session_id}.${secret}`, session }
}

const from = (token: string | null | undefined, more: { bucket?: ReturnType<typeof bucketOf>; resource?: string; address?: string; bypass?: string } = {}) => ({
  address: "192.0.2.1", token, bucket: undefined, resource: "", ...more,
}) // prettier-ignore
const figuresOf = (admitted: Admitted) => ("figures" in admitted ? admitted.figures! : undefined)!

test("a session is loaded once, then found and admitted in two commands with all its facts", async () => {
  const admission = admissionOf()
  const { token, session: known } = session()
  const first = await admission.admit(from(token))
  const { token_hash: _, last_activity: __, ...facts } = known
  expect(first).toMatchObject({
    verdict: "ok",
    caller: facts,
    touch: false,
    figures: { scope: "user", limit: 100_000, remaining: 99_999 },
  })
  const sent = vi.spyOn(redis, "sendCommand")
  await admission.admit(from(token, { bucket: bucketOf({}) }))
  expect(sent).toHaveBeenCalledTimes(2)
  expect(loads).toBe(1)
  sent.mockRestore()
})

test("wrong secrets, unknown sessions, foreign kinds and expired sessions are told apart", async () => {
  const admission = admissionOf()
  const { session: known } = session()
  const late = session({ expires_at: Math.floor(now / 1000) - 1 })
  expect(await admission.admit(from(`${known.session_id}.${newSecret()}`))).toMatchObject({ verdict: "revoked" })
  expect(await admission.admit(from(`999.${newSecret()}`))).toMatchObject({ verdict: "revoked" })
  expect(await admission.admit(from("nonsense"))).toMatchObject({ verdict: "malformed" })
  expect(await admission.admit(from(`9999999999999999999.${newSecret()}`))).toMatchObject({ verdict: "malformed" })
  expect(await admission.admit(from(`2fa.5.${newSecret()}`))).toMatchObject({ verdict: "unknown" })
  expect(await admission.admit(from(late.token))).toMatchObject({ verdict: "expired", figures: { scope: "ip" } })
  expect(await admission.admit(from(null))).toMatchObject({ verdict: "anonymous", figures: { scope: "ip" } })
  expect(await admission.admit(from(undefined))).toMatchObject({ verdict: "ok", caller: undefined })
})

test("TOK1, P12: a revoked session is refused at once, also by a load that was under way", async () => {
  const { token, session: known } = session()
  let finish: (() => void) | undefined
  const slow = tokensOf(async id => {
    const found = stored.get(id)
    if (!finish) await new Promise<void>(resolve => (finish = resolve))
    return found
  })
  const admission = admissionOf(unlimited, true, slow)
  const asked = admission.admit(from(token))
  await expect.poll(() => finish !== undefined).toBe(true)
  await slow.revoke([known.session_id])
  await slow.invalidate([known.session_id])
  finish!()
  expect(await asked).toMatchObject({ verdict: "revoked" })
  expect(await slow.verify(token)).toBe("revoked")
  expect(await redis.ttl(keys.accessSession(known.session_id))).toBeGreaterThan(50)
})

test("verify says what a token is; changed facts are seen after invalidate", async () => {
  const tokens = tokensOf()
  const { token, session: known } = session()
  expect(await tokens.verify(token)).toEqual(known)
  stored.set(known.session_id, { ...known, tier: "premium" })
  expect(await tokens.verify(token)).toMatchObject({ tier: "standard" })
  await tokens.invalidate([known.session_id])
  expect(await tokens.verify(token)).toMatchObject({ tier: "premium" })
  expect(await tokens.verify("x")).toBe("malformed")
  now += 3_600_000
  expect(await tokens.verify(token)).toBe("expired")
  expect(await redis.ttl(keys.accessSession(known.session_id))).toBeGreaterThan(200)
})

test("many look-ups of a session that is not cached share one load", async () => {
  const tokens = tokensOf()
  const { token } = session()
  await Promise.all(Array.from({ length: 20 }, () => tokens.verify(token)))
  expect(loads).toBe(1)
})

test("activity is due once in 60 seconds, and one asker is told", async () => {
  for (const enabled of [true, false]) {
    const { token } = session({ last_activity: Math.floor(now / 1000) - 61 })
    const admission = admissionOf(unlimited, enabled)
    const answers = await Promise.all(Array.from({ length: 5 }, async () => admission.admit(from(token))))
    expect(answers.filter(answer => answer.verdict === "ok" && answer.touch)).toHaveLength(1)
    expect(answers.every(answer => answer.verdict === "ok")).toBe(true)
  }
})

test("an address is read before anybody is waited for, and not where a lease lets the request in", async () => {
  const { token, session: known } = session()
  let isGone = false
  const request = (token: string) => ({
    token, bucket: undefined, resource: "",
    get address() {
      if (isGone) throw new Error("the client is gone")
      return "192.0.2.1"
    },
  }) // prettier-ignore
  const loading = admissionOf()
  for (const [presented, verdict] of [
    [token, "ok"],
    [`999.${newSecret()}`, "revoked"],
  ] as const) {
    isGone = false
    const asked = loading.admit(request(presented))
    isGone = true
    expect(await asked).toMatchObject({ verdict })
  }
  const admission = admissionOf(unlimited, true, { ...tokensOf(), kept: () => known })
  for (let i = 0; i < 2; i++) await admission.admit(request(token))
  expect(admission.admit(request(token))).toMatchObject({ verdict: "ok" })
})

test.each(["token", "sliding", "fixed"] as const)(
  "a %s bucket lets requests + burst through, then says how long to wait",
  async algorithm => {
    const admission = admissionOf()
    const bucket = bucketOf({ algorithm, requests: 3, burst: 2, seconds: 1 })
    const { token } = session()
    const remaining = []
    for (let i = 0; i < 5; i++) remaining.push(figuresOf(await admission.admit(from(token, { bucket }))).remaining)
    if (algorithm === "token") expect(remaining[0]).toBe(4)
    else expect(remaining).toEqual([4, 3, 2, 1, 0])
    const refused = await admission.admit(from(token, { bucket }))
    expect(refused).toMatchObject({ verdict: "limited", figures: { scope: "route", limit: 5, remaining: 0 } })
    const { resetAfterSeconds, reset, bucket: name } = figuresOf(refused)
    expect(resetAfterSeconds).toBeGreaterThan(0)
    expect(resetAfterSeconds).toBeLessThanOrEqual(1)
    expect(Math.abs(reset - resetAfterSeconds - Date.now() / 1000)).toBeLessThan(1)
    expect(name).toMatch(/^[0-9a-f]{16}$/)
    // A refused request takes nothing: a caller who keeps asking gets in when the wait is over.
    const asked = Date.now()
    while ((await admission.admit(from(token, { bucket }))).verdict !== "ok")
      expect(Date.now() - asked).toBeLessThan(3_000)
    expect(Date.now() - asked).toBeLessThan(resetAfterSeconds * 1000 + 300)
  },
)

test("what one bucket refuses is taken from none", async () => {
  const limits = { ...unlimited, user: { ...plenty, requests: 10 } }
  const admission = admissionOf(limits)
  const { token } = session()
  const narrow = bucketOf({ requests: 1, algorithm: "fixed" })
  await admission.admit(from(token, { bucket: narrow }))
  for (let i = 0; i < 20; i++)
    expect(await admission.admit(from(token, { bucket: narrow }))).toMatchObject({
      verdict: "limited",
      figures: { scope: "route" },
    })
  expect(figuresOf(await admission.admit(from(token)))).toMatchObject({ scope: "user", remaining: 8 })
})

test("the first bucket that refuses is the one reported: global, then user, then route", async () => {
  const { token } = session()
  const none = (name: "global" | "user") =>
    admissionOf({ ...unlimited, [name]: { ...unlimited[name], requests: 1, seconds: 60 } })
  for (const name of ["global", "user"] as const) {
    keys = redisKeys(`test-${randomUUID()}:`)
    const admission = none(name)
    await admission.admit(from(token))
    expect(await admission.admit(from(token))).toMatchObject({ verdict: "limited", figures: { scope: name } })
  }
})

test("buckets by scope: per user and route, per user and resource, per address", async () => {
  const admission = admissionOf()
  const ada = session()
  const lin = session({ user_id: "8" })
  const once = { requests: 1, algorithm: "fixed" } as const
  const verdict = async (
    token: string | undefined,
    bucket: ReturnType<typeof bucketOf>,
    resource = "",
    address = "192.0.2.1",
  ) => (await admission.admit(from(token, { bucket, resource, address }))).verdict

  const resource = bucketOf({ ...once, scope: "resource" })
  expect([
    await verdict(ada.token, resource, "1"),
    await verdict(ada.token, resource, "2"),
    await verdict(lin.token, resource, "1"),
  ]).toEqual(["ok", "ok", "ok"])
  expect(await verdict(ada.token, resource, "1")).toBe("limited")

  const route = bucketOf({ ...once, scope: "route" })
  expect([
    await verdict(ada.token, route, "1"),
    await verdict(ada.token, route, "2"),
    await verdict(lin.token, route),
  ]).toEqual(["ok", "limited", "ok"])
  expect([
    await verdict(undefined, route),
    await verdict(undefined, route),
    await verdict(undefined, route, "", "192.0.2.2"),
  ]).toEqual(["ok", "limited", "ok"])

  const ip = bucketOf({ ...once, scope: "ip" })
  expect([
    await verdict(ada.token, ip),
    await verdict(lin.token, ip),
    await verdict(lin.token, ip, "", "192.0.2.2"),
  ]).toEqual(["ok", "limited", "ok"])
})

test("tier and bot scale user, route and resource limits, rounded down, and leave global and address alone", async () => {
  const admission = admissionOf({ ...commonRateLimits, user: { ...commonRateLimits.user, burst: 0 } })
  const bot = session({ user_id: "9", bot: true })
  const premium = session({ user_id: "10", tier: "premium" })
  const bucket = bucketOf({ requests: 5, burst: 3, algorithm: "token", seconds: 5 })
  expect(figuresOf(await admission.admit(from(bot.token, { bucket })))).toMatchObject({ limit: 7 + 4, remaining: 10 })
  expect(figuresOf(await admission.admit(from(premium.token)))).toMatchObject({ scope: "user", limit: 210 })
  expect(
    figuresOf(await admission.admit(from(premium.token, { bucket: bucketOf({ requests: 5, scope: "ip" }) }))),
  ).toMatchObject({ limit: 5 })
})

test("100 failed token checks of one address in 60 seconds, then 429 and few looks into the database; good tokens go on", async () => {
  const admission = admissionOf()
  const { token } = session()
  await admission.admit(from(token))
  const before = loads
  for (let i = 0; i < 100; i++)
    expect((await admission.admit(from(i % 2 ? "bad" : `55.${newSecret()}`))).verdict).toMatch(/malformed|revoked/)
  expect(loads).toBe(before + 50)
  for (const bad of ["bad", `55.${newSecret()}`, `${token.split(".")[0]}.${newSecret()}`]) {
    const refused = await admission.admit(from(bad))
    expect(refused).toMatchObject({ verdict: "failed", figures: { scope: "ip", limit: 100, remaining: 0 } })
    expect(figuresOf(refused).resetAfterSeconds).toBeGreaterThan(50)
    expect(figuresOf(refused).resetAfterSeconds).toBeLessThanOrEqual(60)
  }
  expect(loads).toBe(before + 51)
  expect((await admission.admit(from(token))).verdict).toBe("ok")
  const never = session({ user_id: "8" })
  expect((await admission.admit(from(never.token))).verdict).toBe("ok")
  // A flood of strange tokens costs few looks, and a caller who waits as told is let in.
  const startedAt = performance.now()
  const flood = await Promise.all(Array.from({ length: 200 }, async () => admission.admit(from(`55.${newSecret()}`))))
  const seconds = (performance.now() - startedAt) / 1000
  expect(new Set(flood.map(({ verdict }) => verdict))).toEqual(new Set(["failed"]))
  expect(loads).toBeLessThanOrEqual(before + 52 + 10 + Math.ceil(10 * seconds))
  const late = session({ user_id: "9" })
  const first = await admission.admit(from(late.token))
  await sleep((first.verdict === "failed" ? figuresOf(first).resetAfterSeconds : 0) * 1000 + 1)
  expect((await admission.admit(from(late.token))).verdict).toBe("ok")
  expect((await admission.admit(from(null))).verdict).toBe("anonymous")
  expect((await admission.admit(from("bad", { address: "192.0.2.9" }))).verdict).toBe("malformed")
})

test("failed tokens of the gateway count with those of the REST server", async () => {
  const admission = admissionOf()
  for (let i = 0; i < 60; i++) expect(await admission.isFailedTooOften("192.0.2.1")).toBe(false)
  for (let i = 0; i < 40; i++) expect((await admission.admit(from("bad"))).verdict).toBe("malformed")
  expect((await admission.admit(from("bad"))).verdict).toBe("failed")
  expect(await admission.isFailedTooOften("192.0.2.1")).toBe(true)
  expect(await admission.isFailedTooOften("192.0.2.2")).toBe(false)
  const free = admissionOf(unlimited, false)
  expect(await free.isFailedTooOften("192.0.2.1")).toBe(false)
})

/** One in each of so many /64 of a /48, in as many /56 as there are. */
const neighbours = (net: string, count: number) =>
  Array.from({ length: count }, (_, i) => `${net}:${(((i & 255) << 8) | (i >> 8)).toString(16)}::/64`)

test("P16: an IPv6 /56 and /48 have limits of their own, for callers without a session; IPv4 and users have none", async () => {
  const admission = admissionOf({ ...unlimited, ip: { ...plenty, requests: 3, burst: 1 } })
  const bucket = bucketOf({ requests: 1, algorithm: "fixed", caps: [{ requests: 30, seconds: 3600 }] })
  const admitted = async (addresses: readonly string[], more: Parameters<typeof from>[1] = {}) => {
    const answers = await Promise.all(
      addresses.map(async address => admission.admit(from(undefined, { address, ...more }))),
    )
    return answers.filter(({ verdict }) => verdict === "ok").length
  }
  const times = (count: number, address: string) => Array<string>(count).fill(address)
  // The address's bucket has four: a /56 has 16 and a /48 has 64. What one /64 is refused is nobody else's loss.
  expect(await admitted(times(50, "2001:db8:1:7::/64"))).toBe(4)
  const within56 = Array.from({ length: 100 }, (_, i) => `2001:db8:1:${(8 + i).toString(16)}::/64`)
  expect(await admitted(within56)).toBe(16 - 4)
  expect(await admitted(neighbours("2001:db8:1", 1000))).toBe(64 - 16)
  expect(await admitted(neighbours("2001:db8:2", 1000))).toBe(64)
  const refused = await admission.admit(from(undefined, { address: "2001:db8:1:abcd::/64" }))
  expect(refused).toMatchObject({ verdict: "limited", figures: { scope: "ip", limit: 64, remaining: 0 } })
  expect(figuresOf(refused).resetAfterSeconds).toBeLessThanOrEqual(60)
  // A route's bucket, and its cap.
  expect(await admitted(neighbours("2001:db8:3", 1000), { bucket })).toBe(16)
  expect(await admitted(neighbours("2001:db8:3", 1000))).toBe(64 - 16)
  const other = await admission.admit(from(undefined, { address: "2001:db8:4:1::/64", bucket }))
  expect(other).toMatchObject({ verdict: "ok", figures: { scope: "route", limit: 1, remaining: 0 } })
  // Nobody else is meant.
  expect(await admitted(Array.from({ length: 200 }, (_, i) => `198.51.100.${i}`))).toBe(200)
  const { token } = session()
  for (let i = 0; i < 100; i++)
    expect((await admission.admit(from(token, { address: "2001:db8:1:7::/64" }))).verdict).toBe("ok")
})

test("P16: failed tokens from many /64 of a /48 are too many together, and look into the database seldom then", async () => {
  const admission = admissionOf()
  const addresses = neighbours("2001:db8:5", 2_000)
  const failing = await Promise.all(addresses.map(address => admission.isFailedTooOften(address)))
  expect(failing.filter(isTooOften => !isTooOften)).toHaveLength(1_600)
  expect(await admission.isFailedTooOften("2001:db8:6:1::/64")).toBe(false)
  const fresh = Array.from({ length: 1_000 }, (_, i) => `2001:db8:5:${(0x4040 + i).toString(16)}::/64`)
  const startedAt = performance.now()
  const flood = await Promise.all(fresh.map(async address => admission.admit(from(`55.${newSecret()}`, { address }))))
  const seconds = (performance.now() - startedAt) / 1000
  expect(new Set(flood.map(({ verdict }) => verdict))).toEqual(new Set(["failed"]))
  expect(loads).toBeLessThanOrEqual(160 + Math.ceil(160 * seconds))
  const { token } = session()
  expect((await admission.admit(from(token, { address: "2001:db8:6:1::/64" }))).verdict).toBe("ok")
})

test("an account that is kept out is told so at its address's cost, whatever is left in its buckets", async () => {
  const admission = admissionOf({ ...unlimited, user: { ...plenty, requests: 1 }, ip: { ...plenty, requests: 3 } })
  const seconds = Math.floor(now / 1000)
  const { token, session: known } = session()
  expect((await admission.admit(from(token))).verdict).toBe("ok")
  expect((await admission.admit(from(token))).verdict).toBe("limited")
  const bars = [
    { locked_until: seconds + 60 },
    { is_deleted: true },
    { locked_until: seconds + 60, permissions: ["administrator"] },
  ]
  for (const [i, bar] of bars.entries()) {
    stored.set(known.session_id, { ...known, ...bar })
    await tokensOf().invalidate([known.session_id])
    expect(await admission.admit(from(token, { bucket: bucketOf({}) }))).toMatchObject({
      verdict: "ok",
      caller: { user_id: known.user_id, ...bar },
      touch: false,
      figures: { scope: "ip", remaining: 2 - i },
    })
  }
  expect(await admission.admit(from(token))).toMatchObject({ verdict: "limited", figures: { scope: "ip" } })
  // A lock that is over bars nothing, nor does a name that has to be changed.
  stored.set(known.session_id, { ...known, locked_until: seconds - 1, must_rename: true })
  await tokensOf().invalidate([known.session_id])
  expect(await admission.admit(from(token))).toMatchObject({ verdict: "limited", figures: { scope: "user" } })
})

test("a token that is good at its origin only fails elsewhere, at the cost of the address", async () => {
  for (const enabled of [true, false]) {
    keys = redisKeys(`test-${randomUUID()}:`)
    const admission = admissionOf(unlimited, enabled)
    const home = session({ origin: "home", username: '"origin":"away"' })
    const bot = session({ origin: "home", bot: true })
    const at = (token: string, fingerprint?: string) => admission.admit({ ...from(token), fingerprint })
    for (const [token, origin] of [[home.token, "home"], [home.token], [bot.token, "away"]] as const)
      expect(await at(token, origin)).toMatchObject({ verdict: "ok" })
    const away = await at(home.token, "away")
    expect(away.verdict).toBe("revoked")
    if (enabled) expect(figuresOf(away).scope).toBe("ip")
  }
})

test("requests without a caller count for their address", async () => {
  const admission = admissionOf({ ...unlimited, ip: { ...plenty, requests: 3 } })
  const verdicts = []
  for (const token of [null, undefined, "bad", undefined]) verdicts.push((await admission.admit(from(token))).verdict)
  expect(verdicts).toEqual(["anonymous", "ok", "malformed", "limited"])
})

test("with limits off only the session is looked up", async () => {
  const admission = admissionOf({ ...unlimited, user: { ...plenty, requests: 1 } }, false)
  const { token, session: known } = session()
  for (let i = 0; i < 3; i++)
    expect(await admission.admit(from(token))).toMatchObject({
      verdict: "ok",
      figures: undefined,
      caller: { user_id: known.user_id },
    })
  expect(await redis.keys(`${keys.bucket("")}*`)).toEqual([])
  expect(await admission.admit(from("bad"))).toMatchObject({ verdict: "malformed" })
})

test("without Redis the answer is a refusal that asks to come back", async () => {
  const dead = openRedis("redis://127.0.0.1:1", "dead", () => {})
  const tokens = createTokens({ redis: dead, keys, load: async () => undefined, clock: () => now })
  const admission = createAdmission({ redis: dead, keys, tokens, enabled: true })
  await expect(admission.admit(from(undefined))).rejects.toMatchObject({
    code: "unavailable",
    details: { retry_after: 1 },
  })
  await expect(tokens.verify(`1.${newSecret()}`)).rejects.toMatchObject({ code: "unavailable" })
  dead.disconnect()
})

test("a cap counts beside its bucket, is scaled with it, and takes nothing when either refuses", async () => {
  const admission = admissionOf()
  const { token } = session()
  const bucket = bucketOf({ requests: 3, seconds: 0.2, algorithm: "sliding", caps: [{ requests: 4, seconds: 100 }] })
  // At once: on a slow machine ten in a row take longer than the window.
  const rush = await Promise.all(Array.from({ length: 10 }, async () => admission.admit(from(token, { bucket }))))
  expect(rush.filter(({ verdict }) => verdict === "ok")).toHaveLength(3)
  const admitted = async () => (await admission.admit(from(token, { bucket }))).verdict === "ok"
  await expect.poll(admitted, { interval: 20 }).toBe(true)
  const capped = await admission.admit(from(token, { bucket }))
  expect(capped).toMatchObject({ verdict: "limited", figures: { scope: "route", limit: 4, remaining: 0 } })
  expect(figuresOf(capped).resetAfterSeconds).toBeGreaterThan(99)

  const premium = session({ user_id: "11", tier: "premium" })
  const wide = bucketOf({
    requests: 100,
    caps: [
      { requests: 2, seconds: 50 },
      { requests: 4, seconds: 100 },
    ],
  })
  const all = []
  for (let i = 0; i < 8; i++) all.push(await admission.admit(from(premium.token, { bucket: wide })))
  expect(all.map(({ verdict }) => verdict)).toEqual([...Array<string>(6).fill("ok"), "limited", "limited"])
  expect(figuresOf(all[0]!)).toMatchObject({ limit: 300, remaining: 299 })
  expect(figuresOf(all[6]!)).toMatchObject({ limit: 6 })
})

test("caps of the global, the user's and the address's bucket", async () => {
  const caps = [{ requests: 2, seconds: 100 }]
  for (const name of ["global", "user", "ip"] as const) {
    keys = redisKeys(`test-${randomUUID()}:`)
    const admission = admissionOf({ ...unlimited, [name]: { ...unlimited[name], caps } })
    const { token } = session()
    const ask = () => admission.admit(from(name === "ip" ? undefined : token))
    for (let i = 0; i < 2; i++) expect((await ask()).verdict).toBe("ok")
    expect(await ask()).toMatchObject({ verdict: "limited", figures: { scope: name, limit: 2 } })
    if (name === "global") expect((await admission.admit(from(undefined))).verdict).toBe("ok")
  }
})

test("a webhook has one bucket for all callers, unscaled; its caller's own bucket is left alone, the global one is not", async () => {
  const bucket = bucketOf({ requests: 2, burst: 1, algorithm: "token", seconds: 60, scope: "webhook" })
  const admission = admissionOf({ ...unlimited, ip: { ...plenty, requests: 2 } })
  const call = (address: string, resource: string) => admission.admit(from(undefined, { bucket, address, resource }))
  const first = await call("192.0.2.1", "5")
  expect(first).toMatchObject({ verdict: "ok", figures: { scope: "webhook", limit: 3, remaining: 2 } })
  expect(figuresOf(await call("192.0.2.2", "5")).bucket).toBe(figuresOf(first).bucket)
  expect((await call("192.0.2.1", "5")).verdict).toBe("ok")
  for (let i = 0; i < 5; i++)
    expect(await call("192.0.2.1", "5")).toMatchObject({ verdict: "limited", figures: { scope: "webhook" } })
  expect((await call("192.0.2.1", "6")).verdict).toBe("ok")
  // None of these took from the address's two.
  for (let i = 0; i < 2; i++) expect((await admission.admit(from(undefined))).verdict).toBe("ok")
  expect(await admission.admit(from(undefined))).toMatchObject({ verdict: "limited", figures: { scope: "ip" } })
  expect((await call("192.0.2.1", "6")).verdict).toBe("ok")

  const narrow = admissionOf({ ...unlimited, global: { ...unlimited.global, requests: 1 } })
  const once = (resource: string) =>
    narrow.admit(
      from(undefined, { bucket: bucketOf({ requests: 9, scope: "webhook" }), address: "192.0.2.8", resource }),
    )
  expect((await once("7")).verdict).toBe("ok")
  expect(await once("8")).toMatchObject({ verdict: "limited", figures: { scope: "global" } })
})

test("what a caller had taken before is not forgotten when they call a webhook", async () => {
  const admission = admissionOf({ ...unlimited, ip: { ...plenty, requests: 1 } })
  expect((await admission.admit(from(undefined))).verdict).toBe("ok")
  const bucket = bucketOf({ scope: "webhook" })
  expect((await admission.admit(from(undefined, { bucket, resource: "5" }))).verdict).toBe("ok")
  expect(await redis.pttl(keys.bucket("caller:ip:192.0.2.1"))).toBeGreaterThan(58_000)
  expect(await admission.admit(from(undefined))).toMatchObject({ verdict: "limited", figures: { scope: "ip" } })
})

const bypassed = { scope: "bypass", bucket: "bypass", limit: 999_999, remaining: 999_999, resetAfterSeconds: 60 }

test("no limit holds for administrators, nor does one of their requests cost a bucket", async () => {
  const admission = admissionOf({ ...unlimited, user: { ...plenty, requests: 1 } })
  for (const permissions of [["administrator"], ["admin.*"], ["*"]]) {
    const admin = session({
      user_id: String(20 + stored.size),
      permissions,
      last_activity: Math.floor(now / 1000) - 61,
    })
    for (let i = 0; i < 3; i++) {
      const answer = await admission.admit(from(admin.token, { bucket: bucketOf({ requests: 1 }) }))
      expect(answer).toMatchObject({ verdict: "ok", figures: bypassed, touch: i === 0 })
      expect(answer).toMatchObject({ caller: { user_id: admin.session.user_id, permissions } })
    }
  }
  expect(await redis.keys(`${keys.bucket("")}*`)).toEqual([])
  // A name is no permission.
  const other = session({
    user_id: "7",
    username: "administrator",
    permissions: ["admin"],
    badges: ['{"bypass":true,'],
  })
  expect((await admission.admit(from(other.token))).verdict).toBe("ok")
  expect((await admission.admit(from(other.token))).verdict).toBe("limited")
})

test("the secret of the bypass lifts every limit, and nothing else: who asks is looked up as ever", async () => {
  const admission = admissionOf({ ...unlimited, user: { ...plenty, requests: 1 }, ip: { ...plenty, requests: 1 } })
  const { token, session: known } = session()
  const ask = (token: string | null | undefined, bypass: string) => admission.admit(from(token, { bypass }))
  for (let i = 0; i < 3; i++) {
    expect(await ask(token, bypassSecret)).toMatchObject({
      verdict: "ok",
      figures: bypassed,
      caller: { user_id: known.user_id },
    })
    expect(await ask(undefined, bypassSecret)).toMatchObject({ verdict: "ok", caller: undefined, figures: bypassed })
    expect(await ask(null, bypassSecret)).toMatchObject({ verdict: "anonymous", figures: bypassed })
    expect(await ask("bad", bypassSecret)).toMatchObject({ verdict: "malformed", figures: bypassed })
    expect(await ask(`${known.session_id}.${newSecret()}`, bypassSecret)).toMatchObject({ verdict: "revoked" })
  }
  expect(await redis.keys(`${keys.bucket("")}*`)).toEqual([])
  for (const wrong of [bypassSecret.slice(1), `${bypassSecret}x`, "", "undefined"]) {
    keys = redisKeys(`test-${randomUUID()}:`)
    const fresh = admissionOf({ ...unlimited, ip: { ...plenty, requests: 1 } })
    expect(figuresOf(await fresh.admit(from(undefined, { bypass: wrong })))).toMatchObject({
      scope: "ip",
      remaining: 0,
    })
    expect((await fresh.admit(from(undefined, { bypass: wrong }))).verdict).toBe("limited")
  }
  const without = createAdmission({ redis, keys, tokens: tokensOf(), enabled: true })
  expect(figuresOf(await without.admit(from(undefined, { bypass: "undefined", address: "192.0.2.7" })))).toMatchObject({
    scope: "ip",
  })
})

test("a bucket of another algorithm is another bucket: workers before and after a change do not misread one another", async () => {
  const { token } = session()
  for (const [global, user, route] of [
    ["token", "sliding", "fixed"], ["fixed", "token", "sliding"], ["sliding", "fixed", "token"], ["sliding", "sliding", "sliding"],
  ] as const) {
    const common = { global: { ...plenty, algorithm: global }, user: { ...plenty, algorithm: user }, ip: { ...plenty, algorithm: user } }
    const admission = admissionOf(common)
    const bucket = bucketOf({ algorithm: route })
    for (let i = 0; i < 2; i++) {
      expect((await admission.admit(from(token, { bucket }))).verdict).toBe("ok")
      expect((await admission.admit(from(undefined, { bucket }))).verdict).toBe("ok")
    }
  }
}) // prettier-ignore

test("when a limit shrinks, the wait that is told is the whole wait", async () => {
  const { token } = session()
  const sliding = (requests: number) => bucketOf({ requests, seconds: 0.3 })
  const admission = admissionOf()
  const ask = (bucket: ReturnType<typeof bucketOf>) => admission.admit(from(token, { bucket }))
  for (let i = 0; i < 6; i++) {
    expect((await ask(sliding(6))).verdict).toBe("ok")
    await sleep(5)
  }
  await sleep(figuresOf(await ask(sliding(2))).resetAfterSeconds * 1000 + 1)
  expect((await ask(sliding(2))).verdict).toBe("ok")

  // Nor does a window that was longer outlive the change.
  const fixed = (seconds: number) => bucketOf({ requests: 1, seconds, algorithm: "fixed" })
  expect((await ask(fixed(3600))).verdict).toBe("ok")
  expect((await ask(fixed(60))).verdict).toBe("ok")
  expect((await ask(fixed(60))).verdict).toBe("limited")
})
