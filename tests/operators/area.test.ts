/**
 * The frame of the operator area: who gets in, in which order that is checked, at which paths, and
 * what the trail has of it. Tried on every route that the contract has.
 */
import { onTestFinished } from "vitest"
import { clusterConfig } from "../../cluster.config.ts"
import { operatorRoutes, routes } from "../../src/contract/contract.ts"
import type { Route } from "../../src/contract/core/registry.ts"
import { openStorage } from "../../src/storage/storage.ts"
import { newOperator } from "../kit/area.ts"
import { send, type Sending } from "../kit/exchange.ts"
import { attentive, operatorOf } from "../kit/operator.ts"
import { sharedServer } from "../kit/seeds.ts"
import { expect, testWith } from "../kit/test.ts"
import { until } from "../kit/until.ts"

function storageOf(cluster: { readonly databaseUrl: string }) {
  const storage = openStorage({ ...clusterConfig.storage, readConnections: 1, url: cluster.databaseUrl, name: "test" })
  onTestFinished(() => storage.close())
  return storage
}

const test = testWith({ topology: attentive })
const roots = ["/api/v1/admin", "/admin"] as const

const every = Object.entries<Route>(operatorRoutes)
const withToken = every.filter(([, { auth }]) => auth === "operator")
const pathAt = (root: string, { path }: Route, id = "1") => root + path.slice("/admin".length).replaceAll(/:\w+/g, id)

test("every route of operators is theirs alone, at both roots, whatever it is asked", async ({ shared }) => {
  const operator = await newOperator(shared)
  const over = await newOperator(shared, { lastsSeconds: -1 })
  const ada = await shared.person("ada")
  const [boss] = [await shared.person("boss")]
  await shared.sql`UPDATE users SET permissions = '{administrator}' WHERE id = ${boss.id}`
  const refused: [string, Sending, string][] = [
    ["nobody", {}, "invalid_token"],
    ["another scheme", { headers: { authorization: `Bot ${operator.token}` } }, "invalid_token"],
    ["no scheme", { headers: { authorization: operator.token } }, "invalid_token"],
    ["a user", { token: ada.token }, "operator_session_ended"],
    ["an administrator", { token: boss.token }, "operator_session_ended"],
    ["a session that is over", { token: over.token }, "operator_session_ended"],
    ["a token that nobody has", { token: `${operator.token.slice(1)}x` }, "operator_session_ended"],
  ]
  expect(withToken.length).toBeGreaterThan(0)
  for (const [i, [name, route]] of withToken.entries())
    for (const [j, [who, sending, code]] of refused.entries()) {
      const place = (i + j) % 2 === 0 ? shared.east : shared.west
      // A body that is no good is not looked at before the caller is known.
      const body = route.body ? { body: "{" } : {}
      const answer = await send(place, pathAt(roots[(i + j) % 2]!, route), { route, ...body, ...sending })
      expect({ name, who, code: answer.code }).toEqual({ name, who, code })
    }
  expect(await operator.on(shared.east).listTrail({ target: "nothing" })).toEqual([])
})

test("the tokens of operators open nothing that is the users', but what administrators do", async ({ shared }) => {
  const operator = await newOperator(shared)
  const ada = await shared.person("ada")
  for (const route of [routes.getMe, routes.listServers]) {
    const answer = await send(shared.west, `/api/v1${route.path}`, { route, token: operator.token })
    expect(answer).toMatchObject({ status: 401, code: "invalid_token" })
  }
  const rest = operator.on(shared.east)
  expect((await rest.listTiers()).default).toBe("standard")
  expect((await rest.getUserFeatures({ user_id: ada.id })).rate_limit_tier).toBe("standard")
  expect(await rest.setTier({ user_id: ada.id, tier: "alpha" })).toMatchObject({
    success: true,
    user_id: ada.id,
    rate_limit_tier: "alpha",
  })
  for (const root of roots) {
    const answer = await send(shared.west, `${root}/users/${ada.id}/badges/staff`, {
      route: routes.addBadge,
      token: operator.token,
    })
    expect([root, answer.status]).toEqual([root, 200])
  }
  const entries = await operator.trail(shared.west)
  expect(entries.map(({ action, target, outcome }) => [action, target, outcome])).toEqual([
    ["addBadge", ada.id, 200],
    ["addBadge", ada.id, 200],
    ["setTier", ada.id, 200],
  ])
  expect(entries.at(-1)).toMatchObject({
    operator_id: operator.id,
    operator: operator.name,
    input: { user_id: ada.id, tier: "alpha" },
    address: "127.0.0.1",
    error: null,
    result: {},
  })
})

test("operators see whatever file is stored, and each look is in the trail", async ({ shared }) => {
  const operator = await newOperator(shared)
  const { channel, ada } = await shared.seed(sharedServer)
  const file = { bytes: Buffer.from("hello"), filename: "hello.txt", type: "text/plain" }
  // No message shows it yet.
  const { url } = await ada.on(shared.east).uploadAttachment({ channel_id: channel.id, file })
  const path = url.split("?")[0]!
  const route = routes.getAttachment
  const seen = await send(shared.west, path, { route, token: operator.token })
  expect(seen).toMatchObject({ status: 200, text: "hello" })
  expect(seen.headers.get("cache-control")).toBe("no-store")
  const nobody = await send(shared.west, path, { route, token: "x".repeat(43) })
  expect(nobody.status).toBe(401)
  const elsewhere = await send(shared.west, path, {
    route,
    token: operator.token,
    headers: { "x-forwarded-for": "203.0.113.9" },
  })
  expect(elsewhere.code).toBe("access_denied")
  expect(await operator.trail(shared.east)).toMatchObject([
    { action: "getAttachment", target: path.split("/").at(-1), outcome: 200, operator_id: operator.id },
  ])
})

test("a user of the administrators' routes needs the permission; any of its three names will do", async ({
  shared,
}) => {
  const ada = await shared.person("ada")
  const path = `/api/v1/admin/users/${ada.id}/badges/staff`
  const at = async (sending: Sending) => {
    const { status, body } = await send(shared.east, path, { method: "DELETE", route: routes.removeBadge, ...sending })
    return [status, (body as { error?: { message: string } }).error?.message]
  }
  expect(await at({})).toEqual([401, "Admin access required"])
  expect(await at({ token: "nonsense" })).toEqual([401, "Admin access required"])
  expect(await at({ token: "x".repeat(43) })).toEqual([401, "Admin access required"])
  expect(await at({ token: ada.token })).toEqual([403, "Admin access required"])
  for (const permission of ["administrator", "admin.*", "*"]) {
    const boss = await shared.person("boss")
    await shared.sql`UPDATE users SET permissions = ${[permission]} WHERE id = ${boss.id}`
    const { token } = await boss.signIn(shared.east)
    expect([permission, await at({ token })]).toEqual([permission, [200, undefined]])
  }
})

test("OPS1: the area says nothing but that the address is not allowed, whatever headers say", async ({ cluster }) => {
  const config = { STARLING_ADMIN_UI_ALLOWED_HOSTS: "10.0.0.0/9, 2001:db8::/33", TRUSTED_PROXIES: "127.0.0.1" }
  const [worker] = await cluster.boot(1, { config, topology: attentive })
  const place = worker!
  const operator = await newOperator(cluster)
  const from = (address: string, more: Record<string, string> = {}) => ({
    headers: { "x-forwarded-for": address, authorization: `Bearer ${operator.token}`, ...more },
  })
  const allowed = ["10.0.0.1", "10.127.255.255", "2001:db8:7fff::1", "203.0.113.9, 10.1.2.3"]
  const strangers = [
    "203.0.113.9", "10.128.0.1", "2001:db8:8000::1", "10.0.0.1, 203.0.113.9", "127.0.0.1, 203.0.113.9", "10.0.0.1, unknown",
    "unknown", "", "127.0.0.1", "::1", "localhost",
  ] // prettier-ignore
  const paths = roots.flatMap(root => [
    ...every.map(([, route]) => [route, pathAt(root, route)] as const),
    [undefined, `${root}/nothing`] as const,
    [undefined, `${root}/trail/nothing`] as const,
  ])
  for (const [i, [route, path]] of paths.entries()) {
    const address = strangers[i % strangers.length]!
    const answer = await send(place, path, { ...(route && { route }), ...from(address, { "x-real-ip": "10.0.0.1" }) })
    expect({ path, address, code: answer.code }).toEqual({ path, address, code: "access_denied" })
  }
  for (const address of strangers)
    expect([address, (await send(place, "/admin/trail", from(address))).code]).toEqual([address, "access_denied"])
  for (const address of allowed)
    expect([address, (await send(place, "/admin/trail", from(address))).status]).toEqual([address, 200])

  // A session of an operator is no better elsewhere than at home.
  const tiers = { route: routes.listTiers }
  expect((await send(place, "/api/v1/admin/tiers", { ...tiers, ...from("203.0.113.9") })).code).toBe("access_denied")
  expect((await send(place, "/api/v1/admin/tiers", { ...tiers, ...from("10.0.0.9") })).status).toBe(200)
  // A user's is as good as ever.
  const boss = await cluster.person("boss", place)
  await cluster.sql`UPDATE users SET permissions = '{administrator}' WHERE id = ${boss.id}`
  const { token } = await boss.signIn(place)
  const asUser = { ...tiers, headers: { "x-forwarded-for": "203.0.113.9", authorization: `Bearer ${token}` } }
  expect((await send(place, "/api/v1/admin/tiers", asUser)).status).toBe(200)

  // Blocked before anything else.
  await operatorOf(cluster).block("10.0.0.7")
  await until("the address is blocked", async () => {
    return (await send(place, "/admin/trail", from("10.0.0.7"))).code === "address_blocked"
  })
})

test("a proxy on this machine that nobody trusts lets nobody in but this machine", async ({ shared }) => {
  const operator = await newOperator(shared)
  const at = async (headers: Record<string, string>) =>
    (await send(shared.east, "/api/v1/admin/trail", { token: operator.token, headers })).status
  expect(await at({})).toBe(200)
  expect(await at({ "x-forwarded-for": "127.0.0.1" })).toBe(200)
  expect(await at({ "x-forwarded-for": "127.0.0.1, 203.0.113.9" })).toBe(403)
  expect(await at({ "x-real-ip": "203.0.113.9" })).toBe(403)
  expect(await at({ forwarded: 'for="[2001:db8::1]:4711";proto=https' })).toBe(403)
  expect(await at({ forwarded: "proto=https;FOR=127.0.0.1" })).toBe(200)
})

test("what the root and a path that is not there answer", async ({ shared }) => {
  const location = async (path: string) => {
    const { status, headers } = await send(shared.west, path)
    return [status, headers.get("location")]
  }
  expect(await location("/admin")).toEqual([302, "/api/v1/admin/ui"])
  expect(await location("/admin/")).toEqual([302, "/api/v1/admin/ui"])
  expect(await location("/admin/ui")).toEqual([307, "/admin/ui-dashboard"])
  expect(await location("/api/v1/admin")).toEqual([307, "/api/v1/admin/login"])
  expect(await location("/api/v1/admin/")).toEqual([307, "/api/v1/admin/login"])
  expect(await location("/api/v1/admin/ui")).toEqual([307, "/api/v1/admin/ui-dashboard"])
  for (const root of roots) {
    expect((await send(shared.east, `${root}/nothing`)).code).toBe("not_found")
    expect((await send(shared.east, `${root}/trail`, { method: "DELETE" })).code).toBe("method_not_allowed")
  }
})

test("another path, and no area at all", async ({ cluster }) => {
  const [other, none] = await Promise.all([
    cluster.boot(1, { config: { STARLING_ADMIN_UI_PATH: "/backstage/area" }, unbalanced: true }),
    cluster.boot(1, { config: { STARLING_ADMIN_UI_ENABLED: "false" }, unbalanced: true }),
  ])
  await cluster.balanced()
  const operator = await newOperator(cluster)
  const { token } = operator
  const ada = await cluster.person("ada", other[0])
  const at = async (place: (typeof other)[number], path: string) => (await send(place, path, { token })).status
  for (const path of ["/backstage/area/trail", "/api/v1/backstage/area/trail", "/api/v1/admin/tiers"])
    expect([path, await at(other[0]!, path)]).toEqual([path, 200])
  expect((await send(other[0]!, "/backstage/area")).headers.get("location")).toBe("/api/v1/backstage/area/ui")
  for (const path of ["/admin/trail", "/api/v1/admin/trail", "/admin"])
    expect([path, await at(other[0]!, path)]).toEqual([path, 404])

  for (const path of ["/admin", "/admin/trail", "/api/v1/admin", "/api/v1/admin/trail", "/api/v1/admin/ui"]) {
    const answer = await send(none[0]!, path, { token })
    expect([path, answer.status, answer.body]).toEqual([path, 404, { error: { code: 404, message: "Not found" } }])
  }
  expect(await at(none[0]!, "/api/v1/admin/tiers")).toBe(401)
  await cluster.sql`UPDATE users SET permissions = '{administrator}' WHERE id = ${ada.id}`
  const boss = await ada.signIn(none[0]!)
  expect((await boss.on(none[0]!).listTiers()).default).toBe("standard")
  expect((await boss.on(none[0]!).setTier({ user_id: ada.id, tier: "alpha" })).success).toBe(true)
})

test("OPS2: what cannot be recorded is not done; the trail is only written on, and says how each call ended", async ({
  cluster,
}) => {
  const [east, west] = await cluster.boot(2, { topology: attentive })
  const operator = await newOperator(cluster)
  const ada = await cluster.person("ada", east)
  const rest = operator.on(east!)
  await rest.addBadge({ user_id: ada.id, badge: "staff" })
  const wrong = await send(west!, `/admin/users/${ada.id}/badges/no-such-badge`, {
    route: routes.addBadge,
    token: operator.token,
  })
  expect(wrong.code).toBe("invalid_badge")
  const [failed, done] = await operator.trail(west!)
  expect(failed).toMatchObject({ action: "addBadge", outcome: 400, error: "invalid_badge" })
  expect(done).toMatchObject({
    action: "addBadge",
    outcome: 200,
    error: null,
    input: { user_id: ada.id, badge: "staff" },
  })
  expect(await rest.listTrail({ operator: operator.name, before: failed!.id, limit: "1" })).toEqual([done])
  expect(await rest.listTrail({ action: "addBadge", target: ada.id, limit: "0" })).toEqual([failed])
  expect(await rest.listTrail({ action: "nothing" })).toEqual([])

  const append = /append-only/
  await expect(cluster.sql`DELETE FROM operator_trail`).rejects.toThrow(append)
  await expect(cluster.sql`UPDATE operator_trail SET outcome = 500`).rejects.toThrow(append)
  await expect(cluster.sql`UPDATE operator_trail SET operator = 'somebody'`).rejects.toThrow(append)
  await expect(cluster.sql`TRUNCATE operator_trail`).rejects.toThrow(append)

  // What is older than a year goes by and by.
  await cluster.sql`
    INSERT INTO operator_trail (at, action, input, address, outcome)
    SELECT extract(epoch FROM now() - make_interval(days => days))::bigint, 'of old', '{}', '', 200 FROM unnest('{10, 300, 400, 700}'::int[]) AS days`
  await storageOf(cluster).operatorTrail.forgetOld(1_000)
  const old = await cluster.sql`SELECT at FROM operator_trail WHERE action = 'of old'`
  expect(old).toHaveLength(2)

  await cluster.sql`ALTER TABLE operator_trail ADD CONSTRAINT is_full CHECK (action <> 'removeBadge')`
  const unrecorded = await fetch(`${east!.url}/admin/users/${ada.id}/badges/staff`, {
    method: "DELETE",
    headers: { authorization: `Bearer ${operator.token}` },
  })
  expect(unrecorded.status).toBeGreaterThanOrEqual(500)
  cluster.errors.splice(0)
  expect((await rest.getUserFeatures({ user_id: ada.id })).badges).toContain("staff")
})

test("OPS3: a session that was ended is refused by every worker at once", async ({ shared }) => {
  const operator = await newOperator(shared)
  for (const place of [shared.east, shared.west]) await operator.on(place).listTrail({})
  await shared.sql`DELETE FROM operator_sessions WHERE operator_id = ${operator.id}`
  for (const place of [shared.east, shared.west])
    expect((await send(place, "/admin/trail", { token: operator.token })).code).toBe("operator_session_ended")
})

test("maintenance and the access-token gate leave the area open", async ({ cluster }) => {
  const [east] = await cluster.boot(1, { topology: attentive })
  const operator = await newOperator(cluster)
  const outside = operatorOf(cluster)
  await outside.setState({ state: "maintenance" })
  await outside.accessTokens.create({
    name: "app",
    token_hash: "0".repeat(64),
    mode: "none",
    scopes: [],
    expires_at: null,
  })
  await until("the gate is closed and maintenance has begun", async () => {
    const closed = (await send(east!, "/api/v1/nothing")).code === "access_token_required"
    return closed && (await send(east!, "/api/v1/users/@me")).code === "maintenance"
  })
  for (const path of ["/api/v1/admin/trail", "/admin/trail", "/api/v1/admin/tiers"])
    expect([path, (await send(east!, path, { token: operator.token })).status]).toEqual([path, 200])
  expect((await send(east!, "/api/v1/admin/nothing", { token: operator.token })).code).toBe("not_found")
})
