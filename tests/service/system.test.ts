import jsqr from "jsqr"
import sharp from "sharp"
import { routes } from "../../src/contract/contract.ts"
import { wireVersion } from "../../src/contract/service/system.ts"
import { refusal } from "../kit/conformance.ts"
import { administrator } from "../kit/database.ts"
import { send } from "../kit/exchange.ts"
import { clientAt } from "../kit/person.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const decodeQr = jsqr as unknown as (data: Uint8ClampedArray, width: number, height: number) => { data: string } | null

/** What a camera would make of a picture, with its size. */
async function seen(picture: Uint8Array) {
  const { data, info } = await sharp(picture).ensureAlpha().raw().toBuffer({ resolveWithObject: true })
  const found = decodeQr(new Uint8ClampedArray(data), info.width, info.height)
  return { says: found?.data, width: info.width, height: info.height }
}

const version = { stage: "a", major: 1, minor: 0, build: 49, string: wireVersion }

test("health, life, readiness, version and state are told to everybody", async ({ shared }) => {
  const anybody = clientAt(shared.east)
  // From source there is no build that would know more.
  const health = { status: "healthy", version: wireVersion, release: "source", commit: "unknown" }
  expect(await anybody.getHealth()).toEqual(health)
  expect((await send(shared.east, "/health", { route: routes.getHealth })).body).toEqual(health)
  expect(await anybody.getLive()).toEqual({ status: "alive" })
  expect(await anybody.getReady()).toEqual({
    status: "ready",
    checks: {
      ending: "ok",
      postgres: "ok",
      redis: "ok",
      membership: "ok",
      lineage: "ok",
      publication: "ok",
      shards: "ok",
      files: "ok",
    },
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

test("both roots say what they are, and what the server can do is told", async ({ shared }) => {
  const anybody = clientAt(shared.east)
  const said = { name: "Starling API", version: wireVersion, docs: "/docs", api: "/api/v1", api_docs: null }
  expect(await anybody.getRoot()).toEqual(said)
  expect((await send(shared.west, "/")).body).toEqual(said)
  const apiRoot = { version: "v1", status: "online", message: "Starling API" }
  expect(await anybody.getApiRoot()).toEqual(apiRoot)
  expect((await send(shared.west, "/api/v1/")).body).toEqual(apiRoot)
  expect(await anybody.getCapabilities()).toEqual({
    avatars: {
      default_colors: ["#e94560", "#4ade80", "#fbbf24", "#60a5fa", "#a78bfa", "#f472b6"],
      max_size: 512,
      max_file_size: 5_242_880,
      allowed_types: ["image/jpeg", "image/png", "image/gif", "image/webp"],
    },
    access_token_required: false,
    limits: {
      message_length: 4000,
      attachments_per_message: 10,
      embeds_per_message: 10,
      reactions_per_message: 20,
      file_size_mb: expect.objectContaining({ standard: 10, alpha: 25, premium: 100 }),
    },
    features: {
      polls: Object.values(routes).some(({ path }) => path.startsWith("/polls/")),
      search: Object.values(routes).some(({ path }) => path.startsWith("/search/") || path.endsWith("/search")),
      voice: true,
      stickers: Object.values(routes).some(({ path }) => path.includes("/stickers")),
      feedback: Object.values(routes).some(({ path }) => path === "/feedback"),
      telemetry: Object.values(routes).some(({ path }) => path.startsWith("/telemetry")),
      oauth_providers: [],
      sign_in: { password: true, passkeys: true, passkey_alone: true, providers: [] },
    },
  })
})

test("a server without pages for people, without voice and with a provider says so", async ({ cluster }) => {
  const [place] = await cluster.boot(1, {
    config: {
      STARLING_DOCS_ENABLED: "false",
      STARLING_REDOC_ENABLED: "false",
      STARLING_VOICE_ENABLED: "false",
      STARLING_SERVER_NAME: "<Nest> & Co",
      STARLING_OAUTH_GITHUB_CLIENT_ID: "id",
      STARLING_OAUTH_GITHUB_CLIENT_SECRET: "secret",
    },
  })
  const anybody = clientAt(place!)
  expect(await anybody.getRoot()).toMatchObject({ name: "<Nest> & Co API", docs: null })
  expect((await anybody.getCapabilities()).features).toMatchObject({
    voice: false,
    oauth_providers: ["github"],
    sign_in: { providers: [{ id: "github", name: "GitHub" }] },
  })
  for (const path of ["/docs", "/docs/gateway", "/docs/oauth2-redirect", "/redoc"])
    expect([path, (await send(place!, path)).status]).toEqual([path, 404])
  const [half] = await cluster.boot(1, { config: { STARLING_REDOC_ENABLED: "false" } })
  for (const path of ["/docs", "/docs/gateway"]) expect((await send(half!, path)).text).not.toContain("/redoc")
  for (const path of ["/openapi.json", "/asyncapi.json"]) expect((await send(place!, path)).status).toBe(200)
  expect((await send(place!, "/api/v1/help/access-blocked")).text).toContain("&lt;Nest&gt; &amp; Co")
})

test("pages for people answer without a token, run nothing and load nothing", async ({ shared }) => {
  for (const [route, heading] of [
    [routes.getSecurityLogoutHelp, "You were signed out"],
    [routes.getAccessBlockedHelp, "Access is blocked"],
  ] as const) {
    const page = await send(shared.east, `/api/v1${route.path}`, { route })
    expect(page.status).toBe(200)
    expect(page.headers.get("content-type")).toBe("text/html; charset=utf-8")
    expect(page.text).toContain(`<h1>${heading}</h1>`)
    expect(page.text).not.toMatch(/<script|\son\w+=|style=|(?:src|href)="(?!data:,")/)
    const policy = page.headers.get("content-security-policy")!
    expect(policy).toMatch(/^default-src 'none'; style-src 'sha256-[A-Za-z0-9+/=]+'/)
    expect(policy).not.toContain("unsafe")
  }
})

test("robots are refused, and paths have no trailing slash", async ({ shared }) => {
  for (const path of ["/robots.txt", "/api/v1/robots.txt"]) {
    const { status, headers, text } = await send(shared.east, path)
    expect([status, headers.get("content-type"), text]).toEqual([
      200,
      "text/plain; charset=utf-8",
      "User-agent: *\nDisallow: /\n",
    ])
  }
  for (const [path, to] of [
    ["/api/v1/version/", "/api/v1/version"],
    ["/api/v1/users/@me/?x=%2F", "/api/v1/users/@me?x=%2F"],
    ["/docs/", "/docs"],
    ["/health//", "/health"],
  ]) {
    const { status, headers } = await send(shared.east, path!)
    expect([path, status, headers.get("location")]).toEqual([path, 307, to])
  }
  // Nobody is sent elsewhere, whatever the path looks like.
  for (const path of ["//evil.example/", "/\\evil.example/", "/%09/evil.example/", "/api/v1//evil.example/"]) {
    const location = (await send(shared.east, path)).headers.get("location")
    expect(new URL(location ?? "/", "https://chat.example/").host).toBe("chat.example")
  }
})

test("a QR code says what it was asked to, in the size and format that were asked for", async ({ shared }) => {
  const at = (query: string) => send(shared.east, `/api/v1/qr?${query}`, { route: routes.getQrCode })
  const plain = await at("data=hello")
  expect(plain.headers.get("content-type")).toBe("image/png")
  expect(plain.headers.get("cache-control")).toBe("public, max-age=86400")
  expect(plain.headers.get("access-control-allow-origin")).toBe("*")
  expect(await seen(plain.bytes)).toEqual({ says: "hello", width: 200, height: 200 })

  for (const [query, says, width, height] of [
    [
      "data=otpauth%3A%2F%2Ftotp%2FStarling%3Aada%3Fsecret%3DABC&size=300x300",
      "otpauth://totp/Starling:ada?secret=ABC",
      300,
      300,
    ],
    ["data=Grüße 🐦&size=400x250", "Grüße 🐦", 400, 250],
    [`data=${"0123456789".repeat(80)}&size=9999x1000`, "0123456789".repeat(80), 1000, 1000],
    [`data=${"aB3-".repeat(250)}&size=800x800`, "aB3-".repeat(250), 800, 800],
    ["data=x&size=nonsense", "x", 200, 200],
    ["data=x&size=-5x300", "x", 200, 200],
  ] as const)
    expect(await seen((await at(query)).bytes)).toEqual({ says, width, height })
  expect(await seen((await at("data=x&size=1x1")).bytes)).toMatchObject({ width: 10, height: 10 })
  expect(await seen((await at("data=x&size=1x100")).bytes)).toMatchObject({ width: 10, height: 100 })

  const jpeg = await at("data=hello&format=webp&size=250x250")
  expect(jpeg.headers.get("content-type")).toBe("image/jpeg")
  expect([...jpeg.bytes.subarray(0, 3)]).toEqual([0xff, 0xd8, 0xff])
  expect(await seen(jpeg.bytes)).toEqual({ says: "hello", width: 250, height: 250 })

  // Four modules of white on each side: 21 modules in all for a short text, 29 with them; 290
  // pixels make 10 of each.
  const { data, info } = await sharp((await at("data=x&size=290x290")).bytes)
    .greyscale()
    .raw()
    .toBuffer({ resolveWithObject: true })
  const dark = (x: number, y: number) => data[(y * info.width + x) * info.channels]! < 128
  expect([dark(39, 45), dark(40, 40), dark(249, 40), dark(250, 45)]).toEqual([false, true, true, false])

  expect((await at("data=")).code).toBe("qr_data_required")
  expect((await at("")).code).toBe("validation_failed")
  expect((await at(`data=${"x".repeat(2954)}`)).code).toBe("qr_data_too_long")
  expect((await at(`data=${"é".repeat(1600).slice(0, 600)}`)).status).toBe(200)
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
  const long = await send(place!, "/api/v1/version/negotiate", {
    route: routes.negotiateVersion,
    body: { client_version: "v".repeat(100_000), supported_versions: "whatever" },
  })
  expect(long).toMatchObject({
    status: 400,
    code: "invalid_version_format",
    body: { error: { code: "INVALID_VERSION_FORMAT", client_version: "v".repeat(200) } },
  })
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
