/**
 * What `GET /users/@me` costs a worker beside sockets and the look at who asks, in measures that no machine changes: the
 * promises that it takes and the bytes that are allocated for it. Who raises a ceiling here says in the commit what is
 * gained by it.
 */
import type { HttpRequest, HttpResponse, TemplatedApp } from "uWebSockets.js"
import { afterAll, expect, test } from "vitest"
import { clusterConfig } from "../../cluster.config.ts"
import { AccessTokens } from "../../src/domain/service/access-tokens.ts"
import { users } from "../../src/http/accounts/users.ts"
import { Timings } from "../../src/http/service/timings.ts"
import { systemClock } from "../../src/std/system-clock.ts"
import { createHttpServer, type HttpServerOptions } from "../../src/http/server/server.ts"
import { silentLog } from "../../src/observability/log.ts"
import { createMetrics } from "../../src/observability/metrics.ts"
import { allocatedBytes, leastPromises } from "../kit/costs.ts"
import { ordinary } from "../kit/ordinary-session.ts"

const account = {
  email: "ada@chat.example",
  created_at: 1,
  email_verified: true,
  age_verified: true,
  totp_enabled: false,
  deletion_status: "active",
  deletion_at: null,
} as const
const session = { session_id: "1", user_id: "7", username: "ada", badges: [], tier: "standard", expires_at: 9e9 }
const admitted = {
  verdict: "ok",
  caller: { ...ordinary, ...session, account },
  touch: false,
  figures: undefined,
}

const metrics = createMetrics()
const timings = new Timings({ ...clusterConfig.telemetry, routes: [], isEnabled: true, clock: systemClock } as never)
const handlers = users({ policy: { blocked_usernames: [], reserved_usernames: [] }, integrations: {} } as never)
const server = createHttpServer({
  handlers: new Proxy(handlers, { get: (own, name) => Reflect.get(own, name) ?? (() => undefined) }),
  pages: {},
  access: {
    admission: { bucketFor: () => undefined, admit: () => Promise.resolve(admitted) },
    tokens: {},
    tokenBinding: false,
    gate: { accessTokens: () => new AccessTokens([]), noteUse() {} },
    blocked: { any: () => false, has: () => false },
    isLimiting: false,
    isUnlimited: () => false,
    trustedProxies: [],
    maintenance: () => undefined,
    isSignedLink: () => false,
    noteSessionUse() {},
  },
  operators: {
    rules: {
      admin_ui_enabled: true,
      admin_ui_path: "/admin",
      admin_ui_host_restriction: true,
      admin_ui_allowed_hosts: ["localhost"],
    },
  },
  limits: clusterConfig.http,
  corsAllowedOrigins: [],
  log: silentLog,
  metrics,
  timings,
  clock: Date.now,
} as unknown as HttpServerOptions)

type Take = (res: HttpResponse, req: HttpRequest) => void
const routes = new Map<string, Take>()
const noRoute = () => app
const app = {
  get: (pattern: string, take: Take) => void routes.set(pattern, take),
  post: noRoute,
  put: noRoute,
  patch: noRoute,
  del: noRoute,
  head: noRoute,
  any: noRoute,
} as unknown as TemplatedApp
server.register(app)
afterAll(async () => {
  await server.close()
  metrics.close()
})

const path = "/api/v1/users/@me"
const take = routes.get(path)!
const headers = [
  ["host", "chat.example"],
  ["authorization", `Bearer 1.${"a".repeat(43)}`],
] as const
const req = {
  getMethod: () => "get",
  getUrl: () => path,
  getQuery: () => undefined,
  getParameter: () => "",
  forEach(each: (name: string, value: string) => void) {
    for (const [name, value] of headers) each(name, value)
  },
} as unknown as HttpRequest

let lines = ""
let ended: (body: string) => void = () => {}
const address = Uint8Array.of(192, 0, 2, 1).buffer
const res = {
  onAborted() {},
  getRemoteAddress: () => address,
  cork: (write: () => void) => write(),
  writeHeader: (name: string, value: string) => void (lines = `${name}: ${value}`),
  end: (body: string) => ended(body),
} as unknown as HttpResponse

const get = () =>
  new Promise<string>(resolve => {
    ended = resolve
    take(res, req)
  })

test("the answer is the account, with the headers of every answer", async () => {
  expect(JSON.parse(await get())).toMatchObject({ ...account, id: "7", username: "ada", bot: false, badges: [] })
  expect(lines).toMatch(/^Content-Type: application\/json\r\n[^]+\r\nX-Request-Id: [0-9a-f-]{36}(\r\n|$)/)
})

test("GET /users/@me takes few promises", async () => {
  // Two are of the test; 5 when this was written, 12 before.
  expect(await leastPromises(10, get)).toBeLessThanOrEqual(6)
})

/** Bytes that each of so many runs allocates: the least of several, since what else the process does is no part of it. */
async function allocatedBy(count: number, run: () => Promise<unknown>): Promise<number> {
  // Until nearly all of it is compiled.
  await run()
  let least = Infinity
  for (let round = 0; round < 3; round++) least = Math.min(least, (await allocatedBytes(run)) / count)
  return least
}

test("GET /users/@me leaves little to collect", async () => {
  const run = async () => {
    for (let i = 0; i < 5_000; i++) await get()
  }
  await run()
  // 3,750 when this was written, 7,800 before.
  expect(await allocatedBy(5_000, run)).toBeLessThan(5_500)
})

test("TIM1: to keep how long an answer took allocates nothing", async () => {
  const observed = timings.of({ endpoint: path, method: "GET" })
  const run = async () => {
    for (let i = 0; i < 200_000; i++) observed.observe(i % 7 === 0 ? 404 : 200, (i % 977) / 3_000)
  }
  expect(await allocatedBy(200_000, run)).toBeLessThan(1)
})
