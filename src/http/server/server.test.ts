import { randomUUID } from "node:crypto"
import { readFileSync } from "node:fs"
import { get, type IncomingMessage } from "node:http"
import { connect } from "node:net"
import { brotliDecompressSync, gunzipSync } from "node:zlib"
import { afterAll, beforeAll, beforeEach, expect, inject, test } from "vitest"
import uWS from "uWebSockets.js"
import { clusterConfig } from "../../../cluster.config.ts"
import type { Ask, Create } from "../../runtime/actor.ts"
import { createAdmission } from "../../cluster/admission.ts"
import { redisKeys } from "../../cluster/keys.ts"
import { openRedis } from "../../cluster/redis.ts"
import { createTokens, hashSecret, newSecret, type AccessSession } from "../../cluster/tokens.ts"
import { LoginReply } from "../../contract/accounts/auth.ts"
import { routes } from "../../contract/contract.ts"
import { fail, unavailable } from "../../contract/core/errors.ts"
import { pages, type PageRoute } from "../../contract/pages.ts"
import type { Route } from "../../contract/core/registry.ts"
import { attachmentPath } from "../../domain/messages/attachments.ts"
import { AccessTokens } from "../../domain/service/access-tokens.ts"
import { silentLog } from "../../observability/log.ts"
import { createMetrics } from "../../observability/metrics.ts"
import type { Blobs } from "../../storage/core/blobs.ts"
import type { Storage } from "../../storage/storage.ts"
import type { UserRow } from "../../storage/accounts/users.ts"
import type { ViewSources } from "../../views/sources.ts"
import { createUsernameRules } from "../accounts/username-rules.ts"
import { createRestServer } from "../rest-server.ts"
import { Timings } from "../service/timings.ts"
import { systemClock } from "../../std/system-clock.ts"
import type { HttpServer } from "./server.ts"
import { createHashing } from "../../integrations/password-hashing.ts"
import { createPasskeyChallenges } from "../../cluster/passkey-challenges.ts"
import { createPasskeys } from "../../integrations/passkeys.ts"
import { createSecrets } from "../../integrations/secrets.ts"
import { ordinary } from "../../../tests/kit/ordinary-session.ts"

/** The REST server alone: real sockets, real Redis; actors and rows are played by the test. */
const redis = openRedis(inject("redis"), "http server test", () => {})
const keys = redisKeys(`test-${randomUUID()}:`)
const metrics = createMetrics()
const sessions = new Map<string, AccessSession>()
const users: UserRow[] = []
const failures = new Map<string, { count: number; until: number }>()
let asked: { actor: string; id: string; command: Record<string, unknown> }[] = []
let answer: (command: { type: string }) => unknown = () => undefined
const noted: string[] = []
let ready = true

const ask = (async (actor: { kind: string }, id: string, command: { type: string }) => {
  asked.push({ actor: actor.kind, id, command })
  if (command.type === "startSession") return { session_id: "501" }
  if (command.type === "touchSession") {
    const { session_id, expires_at } = command as unknown as AccessSession
    Object.assign(sessions.get(session_id)!, { expires_at, last_activity: Math.floor(Date.now() / 1000) })
    return { expires_at }
  }
  if (command.type === "requestExport")
    return { id: "600", requested_at: 0, attempt: 0, ready_at: null, expires_at: null }
  return answer(command)
}) as unknown as Ask
const create = (async (actor: { kind: string }, command: { type: string; user: UserRow }) => {
  asked.push({ actor: actor.kind, id: "new", command })
  if (command.type !== "register") return answer(command)
  const user = { ...command.user, id: "400" }
  users.push(user)
  return { user, session_id: "500" }
}) as unknown as Create

/** Of the one operator there is. */
const operatorToken = newSecret()

/** Rows of what no test here looks at. */
const nothingThere = new Proxy({}, { get: () => async () => [] })
const shownPage = {
  contentType: "text/html; charset=utf-8",
  body: Buffer.from("<p>docs"),
  headers: { "Cache-Control": "no-cache" },
  etag: '"tag"',
}
/** The picture of every emoji. */
const stored = { bytes: Buffer.alloc(0), hash: "h", reads: 0 }
const played: Record<string, object> = {
  users: {
    find: async (id: string) => users.find(user => user.id === id),
    findByLogin: async (name: string) =>
      users.find(user => [user.username, user.email].some(known => known?.toLowerCase() === name.toLowerCase())),
    exists: async (username: string) => users.some(user => user.username.toLowerCase() === username.toLowerCase()),
  },
  sessions: {
    isLocked: async (key: string, now: number) => (failures.get(key)?.until ?? 0) > now,
    async countFailure(key: string, now: number, allowed: number, lockSeconds: number) {
      const count = (failures.get(key)?.count ?? 0) + 1
      failures.set(key, { count, until: count >= allowed ? now + lockSeconds : 0 })
      return true
    },
    ofUser: async () => [],
    clearFailures: async (key: string) => failures.delete(key),
  },
  oneTimeTokens: { find: async () => undefined },
  bots: { find: async () => undefined, list: async () => [], ownedBy: async () => [] },
  servers: { ofUser: async () => [], ownedBy: async () => 0 },
  invites: { find: async () => undefined, withServer: async () => undefined },
  messages: { page: async () => ({ messages: [], isCut: false }), find: async () => new Map() },
  relationships: { list: async () => [] },
  accountDeletion: { isOwner: async () => false, botsOf: async () => [] },
  exports: {
    latest: async () => undefined,
    latestTwo: async () => ({ latest: undefined, ready: undefined }),
  },
  emojis: {
    file: async () => ({
      server_id: "1",
      file: "a".repeat(32),
      content_type: "image/png",
      hash: stored.hash,
      size: stored.bytes.length,
    }),
  },
  stickers: {
    file: async () => undefined,
    suggested: async () => [],
    serverOf: async () => undefined,
    isOwnMessage: async () => false,
  },
  icons: { shown: async () => undefined },
  operators: {
    find: async () => undefined,
    findByName: async () => undefined,
    lockedFor: async () => 0,
    countFailure: async () => true,
    tryChallenge: async () => false,
    endSession: async () => undefined,
    findSession: async (digest: string) =>
      digest === hashSecret(operatorToken) ? { operator_id: "1", name: "op" } : undefined,
  },
  feedback: {
    timesOf: async () => [],
    tickets: async () => [],
    ticket: async () => undefined,
    setTicketStatus: async () => false,
    notesOf: async () => [],
    addNote: async () => undefined,
    ticketCounts: async () => ({ open: 0, in_progress: 0, resolved: 0, closed: 0 }),
  },
  operatorOverview: {
    connections: async () => ({ active: 1, idle: 1, total: 2, most: 100, version: "18" }),
    oldConnections: async () => [],
    size: async () => 1,
    ticketCounts: async () => ({ open: 0, in_progress: 0, resolved: 0, closed: 0, total: 0 }),
    userCounts: async () => ({ active_users: 0, total_users: 0, scheduled_deletions: 0 }),
    waits: () => ({ total: 0, waits: 0, waitedSeconds: 0, longestSeconds: 0 }),
  },
  serverStatus: {
    look: async () => ({ state: "running", message: null, estimated_downtime_seconds: null, restart_at: null }),
    setState: async () => {},
  },
  operatorTrail: { begin: async () => "1", end: async () => {}, page: async () => [] },
  pushSubscriptions: { ofUser: async () => [] },
  uploadSessions: {
    beginCompleting: async () => {},
    find: async () => undefined,
    cancel: async () => false,
    activeOf: async () => [],
  },
}
const storage = new Proxy(played, { get: (known, name) => known[String(name)] ?? nothingThere }) as unknown as Storage
const blobs: Blobs = {
  async *list() {},
  check: async () => {},
  close() {},
  put: async () => {},
  putPieces: async () => {},
  open: async () => undefined,
  async get() {
    stored.reads++
    return stored.bytes.length > 0 ? stored.bytes : undefined
  },
  delete: async () => {},
}

const policy = {
  password_min_length: 12, password_max_length: 128, password_require_uppercase: true, password_require_lowercase: true, password_require_digit: true,
  password_require_special: true, age_gate_enabled: false, age_verification_type: "boolean", minimum_age: 13, reserved_usernames: ["admin"], blocked_usernames: [], email_allowed_domains: [],
  server_name: "Starling", login_failures_allowed: 5, login_lockout_minutes: 15, two_factor_challenge_seconds: 300, alpha_registration: false,
  email_verification_required: false, mails_per_hour: 3, session_lifetime_hours: 168, token_binding: false, sessions_per_user: 10, min_client_version: "a.1.0-40", voice_enabled: true, search_enabled: true, search_languages: ["english"], cors_allowed_origins: ["https://chat.example"],
  admin_ui_enabled: true, admin_ui_path: "/admin", admin_ui_host_restriction: true, admin_ui_allowed_hosts: ["localhost"],
  admin_ui_require_otp: true, admin_ui_max_attempts: 5, admin_ui_window_seconds: 300, admin_ui_lockout_seconds: 900,
  account_deletion_days: 30, export_interval_hours: 24, reports_to_block_file: 5, feedback_enabled: true, telemetry_enabled: true,
  oidc_issuers: [], password_login_enabled: true, passkey_login_enabled: true, oauth_redirect_uris: [], oauth_google_issuer: "", oauth_microsoft_issuer: "", oauth_gitlab_issuer: "",
  oauth_github_authorize_url: "", oauth_github_token_url: "", oauth_github_api_url: "",
} as const // prettier-ignore

let server: HttpServer
let listening: uWS.us_listen_socket
let port = 0
let token = ""
let limited = { port: 0, socket: undefined as unknown as uWS.us_listen_socket }

const busy = () => Promise.reject(unavailable("there are no threads"))
const settings = async () => ({ enabled: true, ai: {} })
/** What operators use of auto-moderation. */
const moderating = {
  texts: { find: busy, measure: busy },
  classifiers: { ask: async () => "failed" as const },
  classifierSettings: {
    shown: settings,
    change: settings,
    inForce: async () => ({ isOff: false, classifiers: {}, trusted: new Set<never>(), version: 0 }),
  },
}

async function open(enabled: boolean, more: { trustedProxies?: string[] } = {}) {
  const tokens = createTokens({ redis, keys, load: async id => sessions.get(id), clock: Date.now })
  const linkTo = attachmentPath
  const delivered: ViewSources["delivered"] = { counts: async (_channel, _server, messages) => messages.map(() => 0) }
  const server = createRestServer(
    {
      ask, create, storage, tokens, policy, clock: Date.now, log: silentLog,
      jobs: { add: async () => {}, later: () => {} },
      live: {
        workersOf: async () => ["w1"],
        noteTyping: async () => {},
        presences: { of: async () => new Map(), lookUp: async () => ({ seen: new Map(), unknown: new Set() }) },
      },
      integrations: {
        blobs,
        pictures: { encode: () => Promise.reject(unavailable("there is no job worker")) },
        budgets: { spend: async () => {} },
        logFiles: { list: async () => [], page: () => Promise.reject(fail("log_file_not_found")) },
        iceServers: () => [],
        hashing: createHashing({ memoryKib: 1_024, passes: 1, maxConcurrent: 1, timeoutMs: 3_000 }),
        secrets: createSecrets("ab".repeat(32)),
        passkeys: createPasskeys({ rpId: "chat.example", origins: ["https://chat.example"] }, "Starling"),
        passkeyChallenges: createPasskeyChallenges(redis, keys),
        ...moderating,
        pushKeys: { publicKey: async () => "BCVxsr7N" },
        pushEndpoints: { check: async endpoint => ({ endpoint }) },
      },
      usernames: createUsernameRules(policy, { version: async () => 0, list: async () => [] }),
      service: {
        lookEveryMs: 1,
        noteAccessUse: () => {},
        noteSessionUse: session => noted.push(session),
        accessTokens: () => new AccessTokens([]),
        health: { ready: async () => ({ ok: ready, checks: { redis: ready ? "ok" : "connect ECONNREFUSED 10.1.2.3" } }) },
        status: () => ({ state: "running", maintenance_message: null, estimated_downtime_seconds: null, restart_at: null }),
        publicUrl: "https://chat.example",
        hasDocs: true,
        moderation: () => ({ isOff: false, backends: [] }),
      },
      figures: {
        spans: async () => [],
        processes: async () => [],
        redis: () => Promise.reject(unavailable("redis")),
        disk: async () => ({ free_bytes: null, total_bytes: null, percent: null }),
        jobs: () => Promise.reject(unavailable("redis")),
        lookAtState: async () => {},
        system: async () => null,
      },
      views: { ask, storage, linkTo, delivered, clock: Date.now, searchReach: clusterConfig.search },
      telemetry: {
        timings: new Timings({ ...clusterConfig.telemetry, storage: { telemetry: { add: async () => {} } }, routes: [], writer: "test", isEnabled: false, clock: systemClock, log: silentLog, metrics }),
        noteCspReport: () => {},
        noteSignIn: (way, outcome) => metrics.signIns.done.of(way, outcome).inc(),
      },
    },
    {
      access: {
        admission: createAdmission({ redis, keys, tokens, enabled }),
        tokens, tokenBinding: false, maintenance: () => undefined, blocked: { any: () => false, has: () => false }, isLimiting: enabled, isUnlimited: () => false, trustedProxies: more.trustedProxies ?? [],
      },
      corsAllowedOrigins: policy.cors_allowed_origins,
      metrics,
      pages: { docs: () => shownPage },
      limits: {
        body: { maxBytes: 4096, maxDepth: 32, maxValues: 1_000, timeoutMs: 300 },
        uploads: { maxBytes: 4_194_304, maxBytesPerUser: 4_194_304, timeoutMs: 1_000 },
        streams: { maxBytes: 4_194_304, bufferBytes: 4_194_304, maxConcurrent: 10, maxPerUser: 3, minBytesPerSecond: 32_768 },
        downloads: { maxBytes: 20_000_000, maxBytesPerAddress: 20_000_000, timeoutMs: 1_000 },
        pages: { requestsPerMinute: enabled ? 5 : Infinity },
        connections: { requestsPerAddress: 20 },
        answerTimeoutMs: 4_000,
      },
    },
  ) // prettier-ignore
  const app = uWS.App()
  server.register(app)
  const socket = await new Promise<uWS.us_listen_socket>((resolve, reject) =>
    app.listen("127.0.0.1", 0, found => (found ? resolve(found) : reject(new Error("not listening")))),
  )
  return { server, socket, port: uWS.us_socket_local_port(socket) }
}

beforeAll(async () => {
  await redis.connect()
  const opened = await open(false)
  ;({ server, port } = opened)
  listening = opened.socket
  limited = await open(true, { trustedProxies: ["127.0.0.1"] })
})
afterAll(async () => {
  uWS.us_listen_socket_close(listening)
  uWS.us_listen_socket_close(limited.socket)
  await server.close()
  metrics.close()
  await redis.quit()
})
beforeEach(() => {
  asked = []
  answer = () => ({ id: "1" })
  ready = true
  users.length = 0
  failures.clear()
  token = signIn()
})

function signIn(facts: Partial<AccessSession> = {}) {
  const secret = newSecret()
  const now = Math.floor(Date.now() / 1000)
  const session_id = String(1000 + sessions.size)
  sessions.set(session_id, {
    session_id, user_id: String(70 + sessions.size), username: "ada", badges: [], tier: "standard", ...ordinary, token_hash: hashSecret(secret), expires_at: now + 600_000, last_activity: now, ...facts,
  }) // prettier-ignore
  return `${session_id}.${secret}`
}

interface Seen {
  status: number
  body: { error: { code: unknown; message: string }; detail?: { loc: unknown[] }[] } & Record<string, unknown>
  headers: Headers
}
async function call(
  method: string,
  path: string,
  body?: unknown,
  headers: Record<string, string> = {},
  at = port,
): Promise<Seen> {
  const response = await fetch(`http://127.0.0.1:${at}${path}`, {
    method,
    redirect: "manual",
    headers: { Authorization: `Bearer ${token}`, ...headers },
    ...(body !== undefined && {
      body: typeof body === "string" || body instanceof Uint8Array ? (body as string) : JSON.stringify(body),
    }),
  })
  const text = await response.text()
  return { status: response.status, body: text.startsWith("{") ? JSON.parse(text) : text, headers: response.headers }
}

/**
 * What comes back for bytes that no client library would send, until the server closes or `enough`
 * was seen.
 */
function raw(bytes: string | Buffer, enough = /\r\n\r\n[^]*\}$/): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1", () => socket.write(bytes))
    let seen = ""
    socket.on("data", part => {
      seen += part.toString()
      if (!enough.test(seen)) return
      socket.destroy()
      resolve(seen)
    })
    socket.on("end", () => resolve(seen))
    socket.on("error", reject)
  })
}
const post = (body: string | Buffer, headers = "") =>
  Buffer.concat([
    Buffer.from(
      `POST ${messagesPath} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n${headers}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n`,
    ),
    Buffer.from(body),
  ])
const messagesPath = "/api/v1/channels/42/messages"

test("a good request reaches its actor with what it carries, and the answer carries the common headers", async () => {
  const { status, body, headers } = await call(
    "POST",
    messagesPath,
    { content: "hé 😀", unknown: 1, reply_to_id: null, nonce: "n" },
    { "X-Request-Id": "client-id-1" },
  )
  expect({ status, body }).toEqual({ status: 200, body: { id: "1" } })
  expect(asked).toMatchObject([
    {
      actor: "channel",
      id: "42",
      command: { type: "createMessage", content: "hé 😀", nonce: "n", author: { username: "ada" } },
    },
  ])
  expect(asked[0]!.command["reply_to_id"]).toBeUndefined()
  expect(Object.fromEntries(headers)).toMatchObject({
    "content-type": "application/json", "x-content-type-options": "nosniff", "x-xss-protection": "1; mode=block", "x-frame-options": "SAMEORIGIN",
    "referrer-policy": "strict-origin-when-cross-origin", "x-permitted-cross-domain-policies": "none", vary: "Origin", "x-request-id": "client-id-1",
  }) // prettier-ignore
  expect((await call("GET", "/health", undefined, { "X-Request-Id": "no good" })).headers.get("x-request-id")).toMatch(
    /^[0-9a-f-]{36}$/,
  )
})

test("Idempotency-Key is the nonce of a message that names none", async () => {
  await call("POST", messagesPath, { content: "a" }, { "Idempotency-Key": "key" })
  await call("POST", messagesPath, { content: "a", nonce: "own" }, { "Idempotency-Key": "key" })
  expect(asked.map(({ command }) => command["nonce"])).toEqual(["key", "own"])
  expect((await call("POST", messagesPath, { content: "a" }, { "Idempotency-Key": "k".repeat(65) })).status).toBe(422)
})

test("bad bodies get the documented error", async () => {
  const refused = async (body: string | Uint8Array) => {
    const { status, body: told } = await call("POST", messagesPath, body)
    return [status, told.error.message, told.detail?.[0]?.loc]
  }
  expect(await refused('{"content":')).toEqual([422, "Invalid 11: JSON decode error", ["body", 11]])
  expect(await refused("")).toEqual([422, "Invalid body: Field required", ["body"]])
  expect(await refused('{"content":5}')).toMatchObject([
    422,
    expect.stringMatching(/^Invalid content: /),
    ["body", "content"],
  ])
  expect(await refused("[]")).toMatchObject([422, expect.any(String), ["body"]])
  expect(await refused("null")).toMatchObject([422, expect.any(String), ["body"]])
  expect(await refused(JSON.stringify({ content: "x".repeat(4001) }))).toMatchObject([
    422,
    expect.any(String),
    ["body", "content"],
  ])
  expect(await refused(`{"a":${"[".repeat(40)}${"]".repeat(40)}}`)).toMatchObject([
    422,
    expect.stringContaining("nested"),
    ["body"],
  ])
  expect(await refused("[".repeat(4000))).toMatchObject([422, expect.stringContaining("nested"), ["body"]])
  expect(await refused('{"content":"a\\u0000"}')).toEqual([400, "Text holds U+0000 or a lone surrogate", undefined])
  expect(await refused('{"content":"\\ud800"}')).toMatchObject([400, expect.any(String), undefined])
  expect(await refused('{"x":{"\\udfff":1}}')).toMatchObject([400, expect.any(String), undefined])
  expect(await refused('{"content":"a\0"}')).toMatchObject([422, expect.stringContaining("JSON"), ["body", 13]])
  expect(await refused(Buffer.from([0x22, 0xff, 0x22]))).toEqual([400, "Bad request", undefined])
  expect(await refused(Buffer.from([0x7b, 0x22, 0xed, 0xa0, 0x80, 0x22, 0x7d]))).toEqual([
    400,
    "Bad request",
    undefined,
  ])
  expect(await refused(JSON.stringify({ content: "x".repeat(5000) }))).toEqual([413, "Payload too large", undefined])
  expect(asked).toEqual([])
  expect(
    (await call("POST", messagesPath, '{"__proto__":{"content":"a"},"constructor":{"prototype":1},"content":"b"}'))
      .status,
  ).toBe(200)
  expect(asked).toMatchObject([{ command: { content: "b" } }])
})

test("bad paths and queries get the documented error", async () => {
  const refused = async (path: string, method = "GET") => {
    const { status, body } = await call(method, `/api/v1${path}`)
    return [status, body.error?.message]
  }
  expect(await refused("/users/abc")).toEqual([400, "Invalid user ID"])
  expect(await refused("/users/9223372036854775808")).toEqual([400, "Invalid user ID"])
  expect(await refused(`/users/${"9".repeat(400)}`)).toEqual([400, "Invalid user ID"])
  expect(await refused("/users/9223372036854775807")).toEqual([404, "User not found"])
  expect(await refused("/servers/%00")).toEqual([400, "Invalid server ID"])
  expect(await refused("/channels/-1/messages")).toEqual([400, "Invalid channel ID"])
  expect(await refused("/channels/1/messages/x")).toEqual([400, "Invalid message ID"])
  expect(await refused("/channels/invites/a%00b")).toEqual([400, "Text holds U+0000 or a lone surrogate"])
  expect(await refused("/channels/invites/unknown")).toEqual([404, "Invite not found or expired"])
  expect(await refused("/channels/1/messages?limit=101")).toMatchObject([422, expect.stringMatching(/^Invalid limit/)])
  expect(await refused("/channels/1/messages?before=1x")).toMatchObject([422, expect.stringMatching(/^Invalid before/)])
  answer = () => ({ server_id: "9", version: "1", marks: { counts: [], upTo: "0", named: [], readers: [] } })
  expect((await call("GET", "/api/v1/channels/1/messages?limit=0&limit=5&x=1")).body).toBe("[]")
})

test("%40me is @me", async () => {
  token = signIn({ account: { ...ordinary.account, email: "a@b.example" } })
  expect(await call("GET", "/api/v1/users/%40me")).toMatchObject({
    status: 200,
    body: { username: "ada", email: "a@b.example" },
  })
})

test("requests that only a raw socket sends are answered too", async () => {
  const status = async (bytes: string | Buffer) => (await raw(bytes)).split("\r\n")[0]
  const body = '{"content":"a"}'
  expect(await status(post(body, `Content-Length: ${body.length}\r\n`))).toBe("HTTP/1.1 400 Bad Request")
  expect(await raw(post(body, `Content-Length: ${body.length}\r\n`), /never/)).toContain(
    '"message":"Repeated Content-Length header"',
  )
  expect(await status(post(body, `Authorization: Bearer ${token}\r\n`))).toBe("HTTP/1.1 401 Unauthorized")
  expect(await status(post(body).toString().replace("Content-Length: 15", "Content-Length: 99999999"))).toBe(
    "HTTP/1.1 413 Payload Too Large",
  )
  expect(
    await status(
      `POST ${messagesPath} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{"c\r\nc\r\nontent":"a"}\r\n0\r\n\r\n`,
    ),
  ).toBe("HTTP/1.1 200 OK")
  expect(asked).toHaveLength(1)
})

test("a body that does not come ends in 408, one that drips in too", async () => {
  const stalled = post('{"content":"abc"}').subarray(0, -5)
  expect(await raw(stalled, /never/)).toMatch(/^HTTP\/1.1 408 Request Timeout[^]*Connection: close[^]*"code":408/)
  const dripping = await new Promise<string>((resolve, reject) => {
    const socket = connect(port, "127.0.0.1", () => socket.write(stalled))
    const drip = setInterval(() => socket.write("a"), 150)
    socket.on("data", part => (clearInterval(drip), resolve(part.toString()), socket.destroy()))
    socket.on("error", reject)
  })
  expect(dripping).toContain("408 Request Timeout")
  expect(asked).toEqual([])
})

test("EXCH1, EXCH2: a client that goes away while its answer is made harms nobody", async () => {
  let finish: (() => void) | undefined
  answer = () => new Promise(resolve => (finish = () => resolve({ id: "1" })))
  const socket = connect(port, "127.0.0.1", () => socket.write(post('{"content":"a"}')))
  await expect.poll(() => finish !== undefined).toBe(true)
  socket.destroy()
  const half = connect(port, "127.0.0.1", () =>
    half.write(post('{"content":"abc"}').subarray(0, -5), () => half.destroy()),
  )
  await expect.poll(async () => (await call("GET", "/health")).status).toBe(200)
  finish!()
  expect((await call("GET", "/health")).status).toBe(200)
})

test("who still sends a file when its answer is late is told so once all has passed, whatever the handler meets meanwhile", async () => {
  // Late after 4 s and a look, then bytes pass by for 300 ms: the handler goes on in between, and refuses.
  answer = () => new Promise(resolve => setTimeout(() => resolve({}), 4_210))
  const begun =
    '--X\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\nContent-Type: text/plain\r\n\r\nhello'
  const rest = Buffer.alloc(1_000)
  const seen = await new Promise<string>((resolve, reject) => {
    const socket = connect(port, "127.0.0.1", () => {
      socket.write(
        `POST /api/v1/channels/42/attachments HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n` +
          `Content-Type: multipart/form-data; boundary=X\r\nContent-Length: ${begun.length + rest.length}\r\n\r\n${begun}`,
      )
      setTimeout(() => socket.write(rest), 4_260)
    })
    socket.on("data", part => (resolve(part.toString()), socket.destroy()))
    socket.on("error", reject)
  })
  expect(seen).toMatch(/^HTTP\/1\.1 503 /)
  expect(seen).toContain("no answer in time: handler")
})

test("a file is read when it is wanted and the budget allows; a client that does not read it is cut off", async () => {
  // More than the buffers between two sockets hold.
  stored.bytes = Buffer.alloc(16_000_000, "0123456789abcdef-")
  const path = "/api/v1/media/emojis/7"
  const inFlight = async () => /^starling_http_requests_in_flight (\d+)$/m.exec(await metrics.registry.metrics())?.[1]
  expect(await inFlight()).toBe("0")
  let ended = false
  const slow = connect(port, "127.0.0.1", () => slow.write(`GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`))
  slow.on("error", () => {}).on("close", () => (ended = true))
  slow.pause()
  await expect.poll(() => stored.reads).toBe(1)
  const refused = await call("GET", path)
  expect([refused.status, refused.headers.get("retry-after")]).toEqual([503, "1"])
  // Neither needs the bytes.
  const known = await call("GET", path, undefined, { "If-None-Match": '"h"' })
  expect([known.status, known.headers.get("etag")]).toEqual([304, '"h"'])
  const head = await call("HEAD", path)
  expect([head.status, head.headers.get("content-length"), head.headers.get("etag")]).toEqual([200, "16000000", '"h"'])
  expect(stored.reads).toBe(1)

  const whole = async () => {
    const response = await fetch(`http://127.0.0.1:${port}${path}`)
    return response.ok ? Buffer.from(await response.arrayBuffer()) : undefined
  }
  await expect.poll(async () => (await whole())?.equals(stored.bytes), { timeout: 3_000 }).toBe(true)
  slow.resume()
  await expect.poll(() => ended).toBe(true)
  // A client that disconnects in the middle gives its bytes back, too.
  const hasty = connect(port, "127.0.0.1", () => hasty.write(`GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`))
  hasty.once("data", () => hasty.destroy())
  await expect.poll(() => hasty.closed).toBe(true)
  await expect.poll(async () => (await whole())?.equals(stored.bytes)).toBe(true)
  await expect.poll(inFlight).toBe("0")
  stored.bytes = Buffer.alloc(0)
})

test("a long answer of JSON counts against the budget until its reader has it; a reader that takes nothing is cut off", async () => {
  const inFlight = async () => /^starling_http_requests_in_flight (\d+)$/m.exec(await metrics.registry.metrics())?.[1]
  const held = async () => /^starling_http_reply_bytes_held (\d+)$/m.exec(await metrics.registry.metrics())?.[1]
  answer = ({ type }) =>
    type === "readChannel" ? { id: "7", recipient_id: null, topic: "0123456789".repeat(1_600_000) } : undefined
  const path = "/api/v1/channels/7"
  const head = `GET ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n\r\n`
  let ended = false
  const slow = connect(port, "127.0.0.1", () => slow.write(head))
  slow.on("error", () => {}).on("close", () => (ended = true))
  slow.pause()
  await expect.poll(async () => Number(await held())).toBeGreaterThan(16_000_000)
  expect(await inFlight()).toBe("1")
  const refused = await call("GET", path)
  expect([refused.status, refused.headers.get("retry-after")]).toEqual([503, "1"])
  // What is short is not refused.
  expect((await call("GET", "/health")).status).toBe(200)
  await expect.poll(inFlight, { timeout: 5_000 }).toBe("0")
  slow.resume()
  await expect.poll(() => ended).toBe(true)
  const whole = await call("GET", path)
  expect([whole.status, (whole.body as unknown as { topic: string }).topic.length]).toEqual([200, 16_000_000])
  await expect.poll(held).toBe("0")
})

test("a page is compressed for clients that take that, each coding under its own tag", async () => {
  const plain = readFileSync(new URL("server.test.ts", import.meta.url))
  shownPage.body = plain
  const ask = async (coding: string, more: Record<string, string> = {}) => {
    const response = await new Promise<IncomingMessage>((resolve, reject) =>
      get({ port, path: "/docs", headers: { ...(coding && { "accept-encoding": coding }), ...more } }, resolve).on(
        "error",
        reject,
      ),
    )
    const body = Buffer.concat((await response.toArray()) as Buffer[])
    return { status: response.statusCode, headers: response.headers, body }
  }
  const gzipped = await ask("gzip, deflate")
  expect(gzipped.headers).toMatchObject({ "content-encoding": "gzip", etag: '"tag-gzip"' })
  expect(gzipped.headers["vary"]).toContain("Accept-Encoding")
  expect(gzipped.body.length).toBeLessThan(plain.length / 2)
  expect(gunzipSync(gzipped.body).equals(plain)).toBe(true)
  const brotli = await ask("gzip, deflate, br")
  expect(brotli.headers).toMatchObject({ "content-encoding": "br", etag: '"tag-br"' })
  expect(brotliDecompressSync(brotli.body).equals(plain)).toBe(true)
  for (const coding of ["", "identity", "deflate", "gzip;q=0, br; q=0.0", "GZIP;q=0"]) {
    const whole = await ask(coding)
    expect([coding, whole.headers["content-encoding"], whole.headers.etag, whole.body.equals(plain)]).toEqual([
      coding,
      undefined,
      '"tag"',
      true,
    ])
    expect(whole.headers["vary"]).toContain("Accept-Encoding")
  }
  expect((await ask("gzip", { "if-none-match": '"tag-gzip"' })).status).toBe(304)
  expect((await ask("gzip", { "if-none-match": '"tag"' })).status).toBe(200)
  expect((await ask("", { "if-none-match": '"tag"' })).status).toBe(304)
  shownPage.body = Buffer.from("<p>docs")
})

test("an address may ask for so many pages a minute, which take nothing from its other requests", async () => {
  const from = { "X-Forwarded-For": "198.51.100.77" }
  const answers = []
  for (let i = 0; i < 7; i++) answers.push(await fetch(`http://127.0.0.1:${limited.port}/docs`, { headers: from }))
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200, 429, 429])
  expect(Number(answers[5]!.headers.get("retry-after"))).toBeGreaterThan(0)
  const other = { "X-Forwarded-For": "198.51.100.78" }
  expect((await fetch(`http://127.0.0.1:${limited.port}/docs`, { headers: other })).status).toBe(200)
  const request = await fetch(`http://127.0.0.1:${limited.port}/api/v1/version`, { headers: from })
  expect([request.status, request.headers.get("x-ratelimit-remaining")]).toEqual([200, "79"])
})

test("authentication says what is wrong", async () => {
  const refused = async (header: Record<string, string>) => {
    const { status, body } = await call("GET", "/api/v1/users/@me", undefined, header)
    return [status, body.error.message]
  }
  for (const Authorization of ["", "Basic x", "bearer x", `Bearer  ${token}`, `Bearer ${token} x`, token])
    expect(await refused({ Authorization })).toEqual([401, "Authentication required"])
  expect(await refused({ Authorization: `Bearer ${token}, Bearer ${token}` })).toEqual([
    401,
    "Multiple Authorization headers",
  ])
  expect(await refused({ Authorization: "Bearer abc" })).toEqual([401, "Invalid token"])
  expect(await refused({ Authorization: `Bearer ${token.slice(0, -1)}!` })).toEqual([401, "Authentication required"])
  expect(await refused({ Authorization: `Bearer 1.${newSecret()}` })).toEqual([401, "Invalid/Revoked"])
  expect(await refused({ Authorization: `Bearer ${signIn({ expires_at: 5 })}` })).toEqual([401, "Expired"])
  expect(await refused({ Authorization: `Bearer bot.1.${newSecret()}` })).toEqual([401, "Unknown type"])
  expect((await call("GET", "/api/v1/version", undefined, { Authorization: "Bearer stale" })).status).toBe(200)
})

test("failures become the standard body in one place; a bug tells nothing but its request id", async () => {
  answer = () => {
    throw fail("slowmode", { retry_after: 2.4 })
  }
  expect(await call("POST", messagesPath, { content: "a" })).toMatchObject({
    status: 429,
    body: { error: { code: 429, message: "Slow mode is on", retry_after: 2.4 } },
  })
  expect((await call("POST", messagesPath, { content: "a" })).headers.get("retry-after")).toBe("3")
  answer = () => {
    throw fail("permission_denied", { permission: "messages.send" })
  }
  expect((await call("POST", messagesPath, { content: "a" })).body).toEqual({
    error: { code: 403, message: "Missing required permission: messages.send" },
  })
  answer = () => {
    throw new Error("SELECT secret FROM somewhere")
  }
  const bug = await call("POST", messagesPath, { content: "a" })
  expect(bug).toMatchObject({
    status: 500,
    body: { error: { code: 500, message: "Internal server error", request_id: bug.headers.get("x-request-id") } },
  })
  answer = () => {
    throw Object.assign(new Error("write CONNECTION_CLOSED"), { code: "CONNECTION_CLOSED" })
  }
  expect(await call("POST", messagesPath, { content: "a" })).toMatchObject({
    status: 503,
    body: { error: { code: 503, reason: "database" } },
  })
})

test("unknown paths, methods, slashes and HEAD", async () => {
  expect(await call("GET", "/api/v1/nowhere")).toMatchObject({
    status: 404,
    body: { error: { code: 404, message: "Not Found" } },
  })
  const patch = await call("PATCH", "/api/v1/servers", {})
  expect([patch.status, patch.headers.get("allow"), patch.body.error.message]).toEqual([
    405,
    "GET, HEAD, POST",
    "Method Not Allowed",
  ])
  const redirect = await call("GET", "/api/v1/version/?a=1")
  expect([redirect.status, redirect.headers.get("location")]).toEqual([307, "/api/v1/version?a=1"])
  expect((await call("GET", "/api/v1/")).body).toMatchObject({ status: "online" })
  expect((await call("GET", "//evil.example/")).status).toBe(404)
  const got = await call("GET", "/health")
  const head = await call("HEAD", "/health")
  expect([head.status, head.body, head.headers.get("content-length")]).toEqual([
    200,
    "",
    String(JSON.stringify(got.body).length),
  ])
  expect((await call("HEAD", "/api/v1/users/abc")).status).toBe(400)
})

test("CORS: listed origins with credentials, on errors too; preflights", async () => {
  const Origin = "https://chat.example"
  const refused = await call("GET", "/api/v1/users/abc", undefined, { Origin })
  expect(refused.headers.get("access-control-allow-origin")).toBe(Origin)
  expect(refused.headers.get("access-control-allow-credentials")).toBe("true")
  expect(refused.headers.get("access-control-expose-headers")).toContain("X-RateLimit-Remaining")
  expect(
    (await call("GET", "/health", undefined, { Origin: "https://evil.example" })).headers.get(
      "access-control-allow-origin",
    ),
  ).toBeNull()

  const preflight = (headers: Record<string, string>) =>
    call("OPTIONS", messagesPath, undefined, { "Access-Control-Request-Method": "POST", Origin, ...headers })
  const allowed = await preflight({ "Access-Control-Request-Headers": "authorization,content-type,x-api-access-token" })
  expect([
    allowed.status,
    allowed.headers.get("access-control-max-age"),
    allowed.headers.get("access-control-allow-methods"),
  ]).toEqual([200, "600", "GET, POST, PUT, PATCH, DELETE, OPTIONS"])
  expect((await preflight({ Origin: "https://evil.example" })).status).toBe(400)
  expect((await preflight({ "Access-Control-Request-Headers": "x-evil" })).status).toBe(400)
  expect((await preflight({ "Access-Control-Request-Method": "TRACE" })).status).toBe(400)
  expect((await call("OPTIONS", messagesPath)).status).toBe(405)
})

test("system routes", async () => {
  for (const path of ["/health", "/api/v1/health"])
    expect((await call("GET", path)).body).toEqual({
      status: "healthy",
      version: "a.1.0-49",
      release: "source",
      commit: "unknown",
    })
  expect((await call("GET", "/readyz")).body).toEqual({ status: "ready", checks: { redis: "ok" } })
  ready = false
  const away = await call("GET", "/readyz")
  expect(away.status).toBe(503)
  expect(JSON.stringify(away.body)).not.toContain("10.1.2.3")
  expect((await call("GET", "/api/v1/status")).body).toMatchObject({
    state: "running",
    uptime_seconds: expect.any(Number),
  })
  const negotiate = (client_version: string) => call("POST", "/api/v1/version/negotiate", { client_version })
  expect(await negotiate(" A.1.0-49 ")).toMatchObject({
    status: 200,
    body: { compatible: true, update_recommended: false },
  })
  expect(await negotiate("a.1.0-40")).toMatchObject({
    status: 200,
    body: { update_recommended: true, update_url: "https://chat.example" },
  })
  expect(await negotiate("a.1.0-39")).toMatchObject({
    status: 426,
    body: { error: { code: "VERSION_OUTDATED", client_version: "a.1.0-39", min_version: "a.1.0-40" } },
  })
  expect(await negotiate("one")).toMatchObject({
    status: 400,
    body: { error: { code: "INVALID_VERSION_FORMAT", client_version: "one" } },
  })
})

test("no path is served that is not in the contract", () => {
  const paths = new Set<string>()
  const note = (pattern: string) => void paths.add(pattern)
  const app = { get: note, head: note, post: note, put: note, patch: note, del: note, any: note }
  server.register(app as unknown as uWS.TemplatedApp)
  const mounted = ({ path, mount }: { path: string; mount: string }) =>
    mount === "both" || mount === "operators" ? [path, `/api/v1${path}`] : [mount === "api" ? `/api/v1${path}` : path]
  const declared = new Set([...Object.values<Route>(routes), ...Object.values<PageRoute>(pages)].flatMap(mounted))
  const asDeclared = (pattern: string) =>
    [...declared].find(
      path => path === pattern || path.replaceAll("@", "%40") === pattern || path.replace(/:\w+$/, "*") === pattern,
    )
  const catchAll = ["/*", "/api/v1/*", "/admin/*", "/api/v1/admin/*"]
  const redirects = ["", "/", "/ui"].flatMap(path => [`/api/v1/admin${path}`, `/admin${path}`])
  expect([...paths].filter(pattern => !asDeclared(pattern)).toSorted()).toEqual([...catchAll, ...redirects].toSorted())
  // Of the pages this server has one; a page may stand where a route takes a POST.
  const ofRoutes = new Set(Object.values<Route>(routes).flatMap(mounted))
  const served = new Set([...paths].map(asDeclared))
  const missing = [...declared].filter(path => !served.has(path))
  expect(missing).toEqual(
    Object.values<PageRoute>(pages)
      .flatMap(mounted)
      .filter(path => path !== "/docs" && !ofRoutes.has(path)),
  )
})

test("pages carry an ETag and are not sent twice", async () => {
  const page = await call("GET", "/docs")
  expect([page.status, page.body, page.headers.get("etag"), page.headers.get("cache-control")]).toEqual([
    200,
    "<p>docs",
    '"tag"',
    "no-cache",
  ])
  expect((await call("GET", "/docs", undefined, { "If-None-Match": 'W/"tag"' })).status).toBe(304)
  expect((await call("GET", "/docs/nothing")).status).toBe(404)
})

const account = { username: "Grace", email: "grace@navy.example", password: "Correct-Horse-7" }

test("register checks in order, and the token it gives is the session's", async () => {
  const refused = async (change: object) =>
    (await call("POST", "/api/v1/auth/register", { ...account, ...change })).body.error.message
  expect(await refused({ username: "no spaces" })).toMatch(/letters/)
  expect(await refused({ username: "ADMIN" })).toMatch(/reserved/)
  expect(await refused({ email: "nope" })).toBe("Invalid email")
  expect(await refused({ password: "weak" })).toMatch(/^Weak password/)
  expect(await refused({ dob: "soon" })).toMatch(/YYYY-MM-DD/)
  expect(asked).toEqual([])
  const done = await call("POST", "/api/v1/auth/register", account)
  const reply = LoginReply.parse(done.body)
  const [session, secret] = reply.token!.split(".") as [string, string]
  const { session: made, user } = asked[0]!.command as {
    session: { token_hash: string; ip_address: string }
    user: UserRow
  }
  expect([session, hashSecret(secret), made.ip_address]).toEqual(["500", made.token_hash, "127.0.0.1"])
  expect(user.password_hash).toMatch(/^\$argon2id\$v=19\$/)
  expect(reply.user).toMatchObject({ username: "Grace", email: "grace@navy.example" })
  expect(await refused({ username: "GRACE" })).toBe("Username or email already exists")
})

test("login by name or address; five failures lock every spelling, and an unknown name just so", async () => {
  await call("POST", "/api/v1/auth/register", account)
  const login = async (body: object) => {
    const { status, body: told } = await call("POST", "/api/v1/auth/login", body)
    return status === 200 ? LoginReply.parse(told).token!.split(".")[0] : told.error.message
  }
  expect(await login({ username: "gRACE", password: account.password })).toBe("501")
  expect(await login({ email: "Grace@Navy.example", password: account.password })).toBe("501")
  for (const name of ["nobody", "grace@navy.example"]) {
    for (let i = 0; i < 5; i++) expect(await login({ username: name, password: "wrong" })).toBe("Invalid credentials")
    expect(await login({ username: name, password: "wrong" })).toBe("Account locked")
  }
  expect(await login({ username: "Grace", password: account.password })).toBe("Account locked")
  expect((await call("POST", "/api/v1/auth/login", { password: "x" })).body).toMatchObject({
    detail: [{ loc: ["body", "username"], type: "missing" }],
  })
})

test("an old session is noted as active beside the request, and extended near its end", async () => {
  const now = Math.floor(Date.now() / 1000)
  token = signIn({ last_activity: now - 100, expires_at: now + 7 * 86_400 })
  for (const content of ["a", "b"]) await call("POST", messagesPath, { content })
  expect(noted).toEqual([token.split(".")[0]])
  expect(asked.filter(({ command }) => command["type"] === "touchSession")).toEqual([])
  token = signIn({ last_activity: now - 100, expires_at: now + 3600 })
  await call("POST", messagesPath, { content: "a" })
  await expect.poll(() => asked.filter(({ command }) => command["type"] === "touchSession").length).toBe(1)
  const touch = asked.find(({ command }) => command["type"] === "touchSession")!
  expect(touch.command["expires_at"]).toBeGreaterThan(now + 167 * 3600)
  await call("POST", messagesPath, { content: "b" })
  expect(asked.filter(({ command }) => command["type"] === "touchSession")).toHaveLength(1)
})

test("limits: headers on what is let in, the union body on what is not", async () => {
  const from = (address: string) => ({ "X-Forwarded-For": `6.6.6.6, ${address}` })
  const first = await call("POST", messagesPath, { content: "a" }, {}, limited.port)
  expect(first.status).toBe(200)
  expect(Object.fromEntries(first.headers)).toMatchObject({
    "x-ratelimit-limit": "8", "x-ratelimit-remaining": "7", "x-ratelimit-scope": "resource", "x-ratelimit-reset-after": "0.000",
    "x-ratelimit-bucket": expect.stringMatching(/^[0-9a-f]{16}$/), "x-ratelimit-reset": expect.stringMatching(/^\d{10}\.\d{3}$/),
  }) // prettier-ignore
  expect((await call("GET", "/health", undefined, {}, limited.port)).headers.get("x-ratelimit-limit")).toBeNull()

  const body = { username: "x".repeat(3), password: "p" }
  const attempt = (address: string) =>
    call("POST", "/api/v1/auth/login", { ...body, username: `u${Math.random()}` }, from(address), limited.port)
  for (let i = 0; i < 5; i++) expect((await attempt("203.0.113.7")).status).toBe(401)
  const refused = await attempt("203.0.113.7")
  expect(refused).toMatchObject({
    status: 429,
    body: {
      message: "You are being rate limited",
      retry_after: expect.any(Number),
      global: false,
      scope: "route",
      error: { code: 429, retry_after: expect.any(Number) },
    },
  })
  expect(Number(refused.headers.get("retry-after"))).toBe(Math.floor(refused.body["retry_after"] as number) + 1)
  expect(refused.headers.get("x-ratelimit-global")).toBeNull()
  expect((await attempt("203.0.113.8")).status).toBe(401)

  const missing = await call("GET", "/api/v1/nowhere", undefined, from("203.0.113.9"), limited.port)
  expect([missing.status, missing.headers.get("x-ratelimit-scope")]).toEqual([404, "ip"])
  const anonymous = await call(
    "GET",
    "/api/v1/users/@me",
    undefined,
    { ...from("203.0.113.9"), Authorization: "" },
    limited.port,
  )
  expect([anonymous.status, anonymous.headers.get("x-ratelimit-remaining")]).toEqual([401, "78"])
})

test("every route of the contract answers something documented to nonsense", async () => {
  token = signIn({ permissions: ["administrator"] })
  const documented = new Set([200, 204, 400, 401, 404, 405, 413, 422, 426])
  for (const route of Object.values(routes)) {
    const path =
      (["api", "operators"].includes(route.mount) ? "/api/v1" : "") + route.path.replace(/:[a-z_]+/g, "%F0%9F%98%80")
    for (const junk of ["{}", "[1]", '"\\ud800"', "{{{{", "\0"]) {
      const headers = route.auth === "operator" ? { Authorization: `Bearer ${operatorToken}` } : {}
      const { status } = await call(route.method, path, route.method === "GET" ? undefined : junk, headers)
      expect([route.path, status, documented.has(status)]).toEqual([route.path, status, true])
    }
  }
})
