import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, expect, test } from "vitest"
import { ConfigError, entries, readConfig } from "./config.ts"

const folder = mkdtempSync(join(tmpdir(), "starling-config-"))
afterAll(() => rmSync(folder, { recursive: true }))

function file(content: unknown): string {
  const path = join(folder, `${Math.random()}.json`)
  writeFileSync(path, typeof content === "string" ? content : JSON.stringify(content))
  return path
}

function problems(env: Record<string, string>): readonly string[] {
  try {
    readConfig(env)
  } catch (error) {
    if (error instanceof ConfigError) return error.problems
    throw error
  }
  return []
}

test("an empty environment gives the documented defaults", () => {
  const config = readConfig({})
  expect(config).toMatchObject({
    host: "0.0.0.0",
    port: 8000,
    publicUrl: "http://localhost:8000",
    hasPublicUrl: false,
    metricsHost: "127.0.0.1",
    metricsPort: 9464,
    logLevel: "info",
    rateLimits: true,
    trustedProxies: [],
  })
  expect(config.dataDir).toBe(join(process.cwd(), ".data"))
  expect(config).not.toHaveProperty("workers")
  expect(config).not.toHaveProperty("databaseUrl")
  expect(config.policy).toMatchObject({ password_min_length: 12, session_lifetime_hours: 168, age_gate_enabled: false })
  expect(config.policy.oauth_redirect_uris).toEqual([])
})

test("text of the environment becomes numbers, switches and lists", () => {
  const config = readConfig({
    PORT: "9000",
    WORKERS: "3",
    RATE_LIMITS: "off",
    TRUSTED_PROXIES: "10.0.0.0/8, ::1",
    STARLING_RESERVED_USERNAMES: "Owner,staff",
    STARLING_CORS_ALLOWED_ORIGINS: "https://chat.example,http://localhost:3000",
  })
  expect(config).toMatchObject({
    port: 9000,
    publicUrl: "http://localhost:9000",
    workers: 3,
    rateLimits: false,
    trustedProxies: ["10.0.0.0/8", "::1"],
  })
  expect(config.policy.reserved_usernames).toEqual(["owner", "staff"])
  expect(config.policy.cors_allowed_origins).toEqual(["https://chat.example", "http://localhost:3000"])
})

test("the environment beats the file, the file beats the default", () => {
  const CONFIG_FILE = file({ minimum_age: 16, sessions_per_user: 4, cors_allowed_origins: ["https://a.example"] })
  const { policy } = readConfig({ CONFIG_FILE, STARLING_MINIMUM_AGE: "18" })
  expect(policy).toMatchObject({ minimum_age: 18, sessions_per_user: 4, password_max_length: 128 })
  expect(policy.cors_allowed_origins).toEqual(["https://a.example"])
})

test("an issuer is taken as it was written, and what is wrong with one is said without its secret", () => {
  const acme = { id: "acme", name: "Acme", issuer: "https://id.acme.example", client_id: "us", client_secret: "hush" }
  const read = (...issuers: object[]) => problems({ STARLING_OIDC_ISSUERS: JSON.stringify(issuers) })
  const CONFIG_FILE = file({ oidc_issuers: [{ ...acme, roles: { devs: ["123"] }, email_domains: ["@Acme.example"] }] })
  expect(readConfig({ CONFIG_FILE }).policy.oidc_issuers).toEqual([
    {
      ...acme,
      scope: "openid email profile",
      email_domains: ["acme.example"],
      groups_claim: "groups",
      roles: { devs: ["123"] },
    },
  ])
  expect(problems({ STARLING_OIDC_ISSUERS: "nonsense" })).toEqual([
    "STARLING_OIDC_ISSUERS: expected a JSON array of issuers",
  ])
  for (const [wrong, said] of [
    [{ id: "google" }, "0.id: is the name of another provider"],
    [{ id: "Acme Corp" }, "0.id: expected up to 32"],
    [{ issuer: "http://id.acme.example" }, "0.issuer: expected an https:// URL"],
    [{ scope: "email" }, "0.scope: expected scopes with openid"],
    [{ roles: { devs: ["moderators"] } }, "0.roles.devs.0: "],
    [{ client_secrte: "hush" }, ""],
  ] as const) {
    const found = read({ ...acme, ...wrong })
    expect(found).toEqual([expect.stringContaining(`STARLING_OIDC_ISSUERS: ${said}`)])
    expect(found.join()).not.toContain("hush")
  }
  expect(read(acme, acme)).toEqual(["STARLING_OIDC_ISSUERS: expected a different id for each issuer"])
  const off = { STARLING_PASSWORD_LOGIN_ENABLED: "false", STARLING_OIDC_ISSUERS: JSON.stringify([acme]) }
  expect(problems(off)).toEqual([expect.stringContaining("nobody could sign in")])
  expect(readConfig({ ...off, STARLING_OAUTH_REDIRECT_URIS: "https://chat.example/app" }).policy).toMatchObject({
    password_login_enabled: false,
  })
})

test("what a provider of sign-ins gave comes whole, and nothing goes anywhere unsafe", () => {
  expect(problems({ STARLING_OAUTH_GOOGLE_CLIENT_ID: "us" })).toEqual([
    "STARLING_OAUTH_GOOGLE_CLIENT_ID: comes together with STARLING_OAUTH_GOOGLE_CLIENT_SECRET",
  ])
  const safe = {
    STARLING_OAUTH_REDIRECT_URIS: "https://chat.example/in, com.example.app:/in",
    STARLING_OAUTH_GITLAB_ISSUER: "http://127.0.0.1:4711",
    STARLING_OAUTH_GITLAB_CLIENT_ID: "us",
    STARLING_OAUTH_GITLAB_CLIENT_SECRET: "secret",
  }
  expect(readConfig(safe).policy.oauth_redirect_uris).toEqual(["https://chat.example/in", "com.example.app:/in"])
  for (const [name, value] of [
    ["STARLING_OAUTH_REDIRECT_URIS", "https://chat.example/in,http://chat.example/in"],
    ["STARLING_OAUTH_GITLAB_ISSUER", "http://gitlab.example"],
    ["STARLING_OAUTH_GITHUB_TOKEN_URL", "ftp://github.com"],
  ] as const)
    expect(problems({ ...safe, [name]: value })).toEqual([expect.stringContaining(`${name}: expected`)])
})

test("every problem is listed by its name, all at once", () => {
  const CONFIG_FILE = file({ minimum_age: "old", colour: "blue", password_require_digit: 1 })
  const found = problems({
    CONFIG_FILE,
    PORT: "70000",
    WORKERS: "0",
    LOG_LEVEL: "loud",
    RATE_LIMITS: "maybe",
    TRUSTED_PROXIES: "10.0.0.0/99",
    STARLING_MIN_AGE: "3",
    STARLING_CORS_ALLOWED_ORIGINS: "*",
    STARLING_MIN_CLIENT_VERSION: "1.0",
  })
  const named = found.map(line => line.replace(`${CONFIG_FILE}: `, "file: "))
  for (const start of [
    "PORT: ",
    "WORKERS: ",
    "LOG_LEVEL: ",
    "RATE_LIMITS: ",
    "TRUSTED_PROXIES: ",
    'file: unknown key "colour"',
    "file: minimum_age: ",
    "file: password_require_digit: ",
    "STARLING_MIN_AGE: unknown variable",
    "STARLING_CORS_ALLOWED_ORIGINS: ",
    "STARLING_MIN_CLIENT_VERSION: ",
  ])
    expect(named.filter(line => line.startsWith(start))).toHaveLength(1)
  expect(found).toHaveLength(11)
})

test("a refused database URL does not show its password", () => {
  expect(problems({ DATABASE_URL: "mysql://u:hunter2@db", REDIS_URL: "hunter2" }).join()).not.toContain("hunter2")
  expect(problems({ DATABASE_URL: "mysql://u:hunter2@db" })).toHaveLength(1)
})

test("a policy file that is missing, no JSON or no object is refused", () => {
  expect(problems({ CONFIG_FILE: join(folder, "absent.json") })[0]).toMatch(/^CONFIG_FILE: .*absent\.json/)
  expect(problems({ CONFIG_FILE: file("{ half") })[0]).toMatch(/^CONFIG_FILE: .*JSON/)
  expect(problems({ CONFIG_FILE: file("[]") })[0]).toMatch(/^CONFIG_FILE: .*JSON object/)
  expect(problems({ CONFIG_FILE: file('{"__proto__": 1}') })).toHaveLength(1)
})

test("password rules that nothing can satisfy are refused", () => {
  expect(problems({ STARLING_PASSWORD_MIN_LENGTH: "100", STARLING_PASSWORD_MAX_LENGTH: "20" })).toHaveLength(1)
})

test("an empty variable counts as not set, and the result cannot be changed", () => {
  const config = readConfig({ WORKERS: "", DATABASE_URL: "", PORT: " " })
  expect(config.port).toBe(8000)
  expect(() => Object.assign(config.policy, { minimum_age: 1 })).toThrow(TypeError)
  expect(Object.isFrozen(config.policy.reserved_usernames)).toBe(true)
})

test("every entry has a name of its own, and a sentence for the documentation", () => {
  expect(new Set(entries.map(entry => entry.name)).size).toBe(entries.length)
  for (const { sentence } of entries) expect(sentence).toMatch(/^.+\.$/)
})

test("REDIS_URL is one server or several nodes with commas, and each is checked", () => {
  const nodes = "redis://10.0.0.1:6379, rediss://10.0.0.2"
  expect(readConfig({ REDIS_URL: nodes }).redisUrl).toBe(nodes)
  expect(problems({ REDIS_URL: "redis://10.0.0.1,http://10.0.0.2" })).toEqual([
    "REDIS_URL: expected a redis:// or rediss:// URL, or redis+sentinel://HOST:PORT,HOST:PORT/NAME",
  ])
})

test("limits of an operator, from the file and from the environment; what is left out stays", () => {
  const limits = { user: { requests: 5, seconds: 2 }, "GET /users/{id}": { requests: 3, seconds: 0.5, burst: 1 } }
  for (const env of [
    { CONFIG_FILE: file({ rate_limits: limits }) },
    { STARLING_RATE_LIMITS: JSON.stringify(limits) },
  ]) {
    const { common, routes } = readConfig(env).policy.rate_limits
    expect(common.user).toMatchObject({ requests: 5, seconds: 2, burst: 20, algorithm: "sliding" })
    expect(common.ip).toMatchObject({ requests: 70, seconds: 60 })
    expect(routes.get("GET /users/{id}")).toMatchObject({ requests: 3, seconds: 0.5, burst: 1, scope: "route" })
    expect(routes.get("POST /auth/login")).toMatchObject({ requests: 5, seconds: 60 })
  }
  expect(readConfig({}).policy.rate_limits.routes.get("GET /users/{id}")).toBeUndefined()
})

test.each<[wrong: unknown, why: RegExp]>([
  [{ "POST /auth/logn": { requests: 1, seconds: 1 } }, /POST \/auth\/logn: no such bucket/],
  [{ "GET /health": { requests: 1, seconds: 1 } }, /GET \/health: no such bucket/],
  [{ user: { requests: 0, seconds: 1 } }, /user requests: /],
  [{ user: { requests: 1.5, seconds: 1 } }, /user requests: /],
  [{ user: { requests: 1, seconds: 0 } }, /user seconds: /],
  [{ user: { requests: 1, seconds: 1, burst: -1 } }, /user burst: /],
  [{ user: { requests: 1 } }, /user seconds: /],
  [{ user: { requests: "1", seconds: 1 } }, /user requests: /],
  [{ user: { requests: 1, seconds: 1, algorithm: "leaky" } }, /user algorithm: /],
  [{ user: { requests: 1, seconds: 1, scope: "ip" } }, /user: .*scope/],
  [{ user: { requests: 20_000, seconds: 1 } }, /user: a sliding window holds/],
  [{ user: { requests: 1, seconds: 1, caps: [{ requests: 1, seconds: 0 }] } }, /user caps 0 seconds: /],
  [{ user: 5 }, /user: /],
  [[], /expected a JSON object/],
  [5, /expected a JSON object/],
])("limits that make no sense keep the server from starting: %j", (wrong, why) => {
  expect(problems({ STARLING_RATE_LIMITS: JSON.stringify(wrong) }).join()).toMatch(why)
  expect(problems({ CONFIG_FILE: file({ rate_limits: wrong }) }).join()).toMatch(why)
})

test("files are in a folder or in a bucket, and never in two places by mistake; no problem shows the secret", () => {
  const url = "s3://id:hush%2Fhush@host:9000/files?tls=off"
  const folder = { kind: "folder", path: "/data/files" }
  const partsFolder = "/data/parts"
  const filesOf = (more: Record<string, string>) => readConfig({ DATA_DIR: "/data", ...more }).files
  expect(filesOf({})).toEqual({ place: folder, partsFolder, isRedirecting: false })
  expect(filesOf({ FILES_DIR: "/mnt/files" }).place).toEqual({ kind: "folder", path: "/mnt/files" })
  const bucket = { kind: "bucket", origin: "http://host:9000", path: "/files/", secretAccessKey: "hush/hush" }
  expect(filesOf({ FILES_URL: url, FILES_REDIRECT: "on", FILES_FALLBACK_URL: "file:///data/files" })).toMatchObject({
    place: bucket,
    fallback: folder,
    isRedirecting: true,
  })
  expect(filesOf({ FILES_FALLBACK_URL: url })).toMatchObject({ place: folder, fallback: bucket })
  for (const wrong of [
    { FILES_URL: "s3://id:hush@host" },
    { FILES_URL: "https://id:hush@host/files" },
    { FILES_URL: url, FILES_DIR: "/data/files" },
    { FILES_URL: url, FILES_FALLBACK_URL: "s3://other:hush@host:9000/files?tls=off" },
    { FILES_FALLBACK_URL: "file:///data/files", DATA_DIR: "/data" },
    { FILES_FALLBACK_URL: "/data/hush" },
    { FILES_REDIRECT: "on" },
  ]) {
    const [problem, ...others] = problems(wrong)
    expect([problem, others]).toEqual([expect.stringMatching(/^FILES_(?:DIR|URL|FALLBACK_URL|REDIRECT): /), []])
    expect(problem).not.toContain("hush")
  }
})

test("limits that are no JSON are refused; the secret of the bypass is long and is not shown", () => {
  expect(problems({ STARLING_RATE_LIMITS: "off" })).toHaveLength(1)
  const [short] = problems({ STARLING_RATE_LIMIT_BYPASS_SECRET: "hunter2-hunter2-hunter2-hunter2" })
  expect(short).toMatch(/^STARLING_RATE_LIMIT_BYPASS_SECRET: expected at least 32 characters$/)
  const secret = "hunter2-".repeat(4)
  expect(readConfig({ STARLING_RATE_LIMIT_BYPASS_SECRET: secret }).policy.rate_limit_bypass_secret).toBe(secret)
  expect(readConfig({}).policy.rate_limit_bypass_secret).toBeUndefined()
})

test("a mail server needs an address that mails come from, and is not shown", () => {
  const SMTP_URL = "smtps://starling:hush@mail.example:465"
  expect(problems({ SMTP_URL })).toEqual(["STARLING_MAIL_FROM: is needed where SMTP_URL is set"])
  expect(readConfig({ SMTP_URL, STARLING_MAIL_FROM: "starling@chat.example" }).smtpUrl).toBe(SMTP_URL)
  expect(readConfig({}).smtpUrl).toBeUndefined()
  expect(problems({ STARLING_MAIL_FROM: "Starling <starling@chat.example>" })).toEqual([
    expect.stringContaining("STARLING_MAIL_FROM: expected an e-mail address"),
  ])
  const [wrong] = problems({ SMTP_URL: "https://hush@mail.example" })
  expect(wrong).toBe("SMTP_URL: expected an smtp:// or smtps:// URL")
})

test("patterns of names are RE2's, few and short; domains are written in any way", () => {
  const expected = "STARLING_BLOCKED_USERNAMES: expected"
  for (const pattern of ["(", "(?=a)b", "(a)\\1", "x".repeat(201)])
    expect(problems({ STARLING_BLOCKED_USERNAMES: pattern })).toEqual([expect.stringContaining(expected)])
  expect(problems({ STARLING_BLOCKED_USERNAMES: Array.from({ length: 101 }, () => "x").join() })).toHaveLength(1)
  const { policy } = readConfig({
    STARLING_BLOCKED_USERNAMES: "(a+)+$, mod",
    STARLING_EMAIL_ALLOWED_DOMAINS: "@A.Example, .edu",
  })
  expect(policy.blocked_usernames).toEqual(["(a+)+$", "mod"])
  expect(policy.email_allowed_domains).toEqual(["a.example", "edu"])
})
