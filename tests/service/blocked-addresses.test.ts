/** Addresses that an operator has blocked: over REST, at the gateway, and on open connections. */
import { routes } from "../../src/contract/contract.ts"
import { maxBlocks } from "../../src/domain/service/address-blocks.ts"
import { send } from "../kit/exchange.ts"
import { attentive, operatorOf } from "../kit/operator.ts"
import type { Endpoint } from "../kit/person.ts"
import { closedWith, identified, open, Raw } from "../kit/raw.ts"
import { expect, testWith } from "../kit/test.ts"
import { until } from "../kit/until.ts"

/** The client that the proxy names: each test comes from addresses of its own. */
const config = { TRUSTED_PROXIES: "127.0.0.1" }
const test = testWith({ config, topology: attentive })
let addresses = 0
const newAddress = () => `198.18.0.${++addresses}`
const from = (address: string) => ({ headers: { "x-forwarded-for": address } })

const isRefused = async (place: Endpoint, address: string) =>
  (await send(place, "/health", from(address))).code === "address_blocked"
const refused = (places: readonly Endpoint[], address: string) =>
  until(`${address} is refused`, async () =>
    (await Promise.all(places.map(place => isRefused(place, address)))).every(Boolean),
  )
const letIn = (places: readonly Endpoint[], address: string) =>
  until(`${address} is let in`, async () =>
    (await Promise.all(places.map(place => isRefused(place, address)))).every(isSo => !isSo),
  )

test("every request of a blocked address is refused, whatever it asks for, on every worker; nobody else's is", async ({
  shared,
}) => {
  const ada = await shared.person("ada")
  const [bad, good] = [newAddress(), newAddress()]
  const places = [shared.east, shared.west]
  await operatorOf(shared).block(bad)
  await refused(places, bad)
  for (const place of places) {
    for (const sending of [
      { path: "/health", route: routes.getHealth },
      { path: "/api/v1/status", route: routes.getStatus },
      { path: "/api/v1/users/@me", route: routes.getMe, token: ada.token },
      { path: "/api/v1/auth/login", route: routes.login, body: { username: ada.username, password: ada.password } },
      { path: "/api/v1/auth/login", method: "POST", body: "x".repeat(100_000) },
      { path: "/api/v1/nowhere" },
      { path: "/api/v1/status", method: "DELETE" },
      { path: "/docs" },
      { path: "/openapi.json" },
    ]) {
      const { path, ...rest } = sending
      const answer = await send(place, path, { ...rest, ...from(bad) })
      expect([path, answer.status, answer.code]).toEqual([path, 403, "address_blocked"])
    }
    const { body } = await send(place, "/health", from(bad))
    expect(body).toEqual({ error: { code: 403, message: "Access denied: your IP address is blocked." } })
    expect((await send(place, "/health", { method: "OPTIONS", ...from(bad) })).status).toBe(403)
    expect((await send(place, "/api/v1/users/@me", { token: ada.token, ...from(good) })).status).toBe(200)
  }
  await operatorOf(shared).unblock(bad)
  await letIn(places, bad)
})

test("a blocked address opens no gateway connection, and those it has end with 4003; others stay", async ({
  shared,
}) => {
  const ada = await shared.person("ada")
  const [bad, good] = [newAddress(), newAddress()]
  const live = await Promise.all([
    identified(shared.east, ada.token, from(bad)),
    identified(shared.west, ada.token, { query: "?encoding=msgpack", ...from(bad) }),
    open(shared.west, from(bad)),
  ])
  const others = await Promise.all([identified(shared.east, ada.token, from(good)), open(shared.west, from(good))])

  await operatorOf(shared).block(bad)
  for (const raw of live) expect(await raw.ended).toEqual(closedWith("ip_blocked"))
  for (const place of [shared.east, shared.west]) {
    const late = new Raw(place, from(bad))
    await late.ended
    expect(late.frames).toEqual([])
    expect(String(late.error)).toContain("403")
  }
  for (const raw of others) {
    raw.say({ op: 1, d: null })
    await raw.op(11)
    raw.close()
  }
})

test("a range is blocked with all that is in it, however an address is written; a block that is over lets in again", async ({
  shared,
}) => {
  const operator = operatorOf(shared)
  const places = [shared.east, shared.west]
  await operator.block("198.19.7.0/24")
  await operator.block("2001:db8:7::/48")
  for (const address of ["198.19.7.0", "198.19.7.255", "::ffff:198.19.7.9", "198.19.7.9:4711", "2001:DB8:7:ff::1"])
    await refused(places, address)
  for (const address of ["198.19.8.0", "198.19.6.255", "2001:db8:8::1"])
    for (const place of places) expect([address, await isRefused(place, address)]).toEqual([address, false])

  const brief = newAddress()
  await operator.block(brief, 3_600)
  await refused(places, brief)
  expect((await operator.blocks()).find(({ address }) => address === brief)).toMatchObject({ reason: null })
  // Again, and shorter: the later word counts.
  await operator.block(brief, 1)
  await letIn(places, brief)
  expect((await operator.blocks()).map(({ address }) => address)).not.toContain(brief)
})

test("lines that a client has put before the proxy's own do not hide its address, over REST and the gateway", async ({
  shared,
}) => {
  const [bad, good] = [newAddress(), newAddress()]
  await operatorOf(shared).block(bad)
  await refused([shared.east], bad)
  // Two lines: the names are one.
  const behind = (client: string) => ({ headers: { "X-Forwarded-For": good, "x-forwarded-for": client } })
  const hiding = new Raw(shared.east, behind(bad))
  await hiding.ended
  expect(hiding.frames).toEqual([])
  expect(String(hiding.error)).toContain("403")
  const other = await open(shared.east, { headers: { "X-Forwarded-For": bad, "x-forwarded-for": good } })
  other.close()
})

test("X-Forwarded-For counts only when a trusted proxy wrote it", async ({ cluster }) => {
  const [worker] = await cluster.boot(1, { topology: attentive })
  const operator = operatorOf(cluster)
  const bad = newAddress()
  await operator.block(bad)
  await operator.setState({ state: "restarting" })
  await until("the worker has looked", async () => {
    const { body } = await send(worker!, "/api/v1/status", { route: routes.getStatus })
    return (body as { state: string }).state === "restarting"
  })
  expect(await isRefused(worker!, bad)).toBe(false)
})

test("a worker that starts knows what is blocked before its first request", async ({ cluster }) => {
  const bad = newAddress()
  await operatorOf(cluster).block(bad)
  const [worker] = await cluster.boot(1, { config })
  expect(await isRefused(worker!, bad)).toBe(true)
})

test("while PostgreSQL says nothing, what was blocked stays blocked, and nobody waits for it", async ({ cluster }) => {
  const service = { ...attentive.service, restMs: 100 }
  const [worker] = await cluster.boot(1, { config, topology: { service, storage: { statementTimeoutMs: 1_000 } } })
  const operator = operatorOf(cluster)
  const bad = newAddress()
  await operator.block(bad)
  await refused([worker!], bad)
  const held = await cluster.sql.reserve()
  await held`BEGIN`
  await held`LOCK TABLE service`
  // One look after another is given up.
  for (let given = 0; given < 2; given++) {
    const waiting = async () =>
      // Within its transaction the one that holds the lock would always see the same.
      (
        await cluster.sql<{ pid: number }[]>`
          SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%FROM service%'`
      ).length
    await until("a look waits", async () => (await waiting()) > 0)
    expect(await isRefused(worker!, bad)).toBe(true)
    expect(await isRefused(worker!, newAddress())).toBe(false)
    await until("it is given up", async () => (await waiting()) === 0)
  }
  await held`COMMIT`
  held.release()
  await operator.unblock(bad)
  await letIn([worker!], bad)
})

test(`${maxBlocks} blocks are the most, and they cost a request next to nothing`, async ({ cluster }) => {
  const operator = operatorOf(cluster)
  await cluster.sql`
    INSERT INTO address_blocks (address, blocked_at)
    SELECT '10.0.0.0'::inet + n, 1704153600 FROM generate_series(1, ${maxBlocks - 1}) AS n`
  expect(await operator.block("203.0.113.0/24")).toBe(true)
  expect(await operator.block("203.0.114.0/24")).toBe(false)
  // Known already.
  expect(await operator.block("203.0.113.0/24", 3_600)).toBe(true)
  const [worker] = await cluster.boot(1, { config, topology: attentive })
  expect(await isRefused(worker!, "10.0.0.1")).toBe(true)
  expect(await isRefused(worker!, `10.0.${(maxBlocks - 1) >> 8}.${(maxBlocks - 1) & 255}`)).toBe(true)
  expect(await isRefused(worker!, "203.0.113.9")).toBe(true)
  expect(await isRefused(worker!, "203.0.114.9")).toBe(false)
  await cluster.sql`UPDATE address_blocks SET expires_at = 1 WHERE address = '10.0.0.1'`
  // What is over frees its place.
  expect(await operator.block("203.0.114.0/24")).toBe(true)
  await refused([worker!], "203.0.114.9")
  expect(await isRefused(worker!, "10.0.0.1")).toBe(false)
})
