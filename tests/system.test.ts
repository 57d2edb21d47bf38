import { routes } from "../src/contract/contract.ts"
import { wireVersion } from "../src/contract/system.ts"
import { refusal } from "./kit/conformance.ts"
import { administrator } from "./kit/database.ts"
import { send } from "./kit/exchange.ts"
import { clientAt } from "./kit/person.ts"
import { expect, test } from "./kit/test.ts"
import { until } from "./kit/until.ts"

const version = { stage: "a", major: 1, minor: 0, build: 49, string: wireVersion }

test("health, life, readiness, version and state are told to everybody", async ({ shared }) => {
  const anybody = clientAt(shared.east)
  expect(await anybody.getHealth()).toEqual({ status: "healthy", version: wireVersion })
  expect((await send(shared.east, "/health", { route: routes.getHealth })).body).toEqual({
    status: "healthy",
    version: wireVersion,
  })
  expect(await anybody.getLive()).toEqual({ status: "alive" })
  expect(await anybody.getReady()).toEqual({
    status: "ready",
    checks: { postgres: "ok", redis: "ok", membership: "ok" },
  })
  expect(await anybody.getVersion()).toEqual({ version, min_supported_version: version, api_version: "v1" })
  const { uptime_seconds, ...status } = await anybody.getStatus()
  expect(uptime_seconds).toBeGreaterThanOrEqual(0)
  expect(status).toEqual({
    state: "running",
    version,
    maintenance_message: null,
    estimated_downtime_seconds: null,
    restart_at: null,
  })
})

test("a client learns whether its version will do", async ({ cluster }) => {
  const [place] = await cluster.boot(1, { config: { STARLING_MIN_CLIENT_VERSION: "a.1.0-10" } })
  const { negotiateVersion } = clientAt(place!)
  const ask = (client_version: string) => negotiateVersion({ client_version })
  expect(await ask(wireVersion)).toEqual({
    compatible: true,
    server_version: version,
    client_version: version,
    min_supported_version: { ...version, build: 10, string: "a.1.0-10" },
    update_required: false,
    update_recommended: false,
    message: null,
    update_url: null,
  })
  for (const newer of ["a.1.0-50", "a.1.1-1", "a.2.0-1", "b.1.0-1", "c.1.0-1", "r.1.0-1", " R.9.9-9 "])
    expect(await ask(newer)).toMatchObject({ compatible: true, update_recommended: false })
  for (const older of ["a.1.0-10", "a.1.0-48"]) expect(await ask(older)).toMatchObject({ update_recommended: true })
  expect(await refusal(ask("a.1.0-9"))).toBe("version_outdated")
  for (const malformed of [
    "",
    "1.0.0",
    "a.0.0-1",
    "a.1.0-0",
    "a.1.0-49\u0001",
    "d.1.0-1",
    "a.1.0",
    "a.1.0-1x",
    "a.1.0\n-1",
  ])
    expect(await refusal(ask(malformed))).toBe("invalid_version_format")
  expect(await refusal(negotiateVersion({ client_version: "v".repeat(201) }))).toBe("validation_failed")
  const answer = await send(place!, "/api/v1/version/negotiate", {
    method: "POST",
    body: { client_version: "a.1.0-9", supported_versions: ["x"] },
  })
  expect(answer).toMatchObject({
    status: 426,
    body: { error: { min_version: "a.1.0-10", server_version: wireVersion } },
  })
})

test("P11: without its database a worker says 503, stays alive, and is ready again after it came back", async ({
  cluster,
}) => {
  const [place] = await cluster.boot(1)
  const ada = await cluster.person("ada")
  const name = new URL(cluster.databaseUrl).pathname.slice(1)
  const admin = administrator()
  await admin.unsafe(`ALTER DATABASE ${name} ALLOW_CONNECTIONS false`)
  await admin`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = ${name}`
  const anybody = clientAt(place!)
  try {
    await until("not ready", async () => (await fetch(`${place!.url}/readyz`)).status === 503)
    const not = await send(place!, "/readyz", { route: routes.getReady })
    expect(not.code).toBe("unavailable")
    expect(not.body).toMatchObject({ error: { checks: { postgres: "failing", redis: "ok" } } })
    expect(await anybody.getLive()).toEqual({ status: "alive" })
    const startedAt = performance.now()
    expect(await refusal(ada.on(place!).getMe())).toBe("unavailable")
    expect(performance.now() - startedAt).toBeLessThan(6_000)
  } finally {
    await admin.unsafe(`ALTER DATABASE ${name} ALLOW_CONNECTIONS true`)
  }
  await until("ready again", async () => (await fetch(`${place!.url}/readyz`)).status === 200)
  await until(
    "it serves again",
    async () => (await send(place!, "/api/v1/users/@me", { token: ada.token })).status === 200,
  )
  expect((await ada.on(place!).createServer({ name: "Afterwards" })).owner_id).toBe(ada.id)
})
