import { routes } from "../../src/contract/contract.ts"
import type { Route } from "../../src/contract/core/registry.ts"
import { send } from "../kit/exchange.ts"
import { expect, testWith } from "../kit/test.ts"

const origin = "https://chat.example"
const test = testWith({ config: { STARLING_CORS_ALLOWED_ORIGINS: `${origin},http://localhost:3000` } })

const paths = Object.values<Route>(routes).map(
  route => (route.mount === "root" ? "" : "/api/v1") + route.path.replace(/:\w+/g, "1"),
)

test("paths that are not there are 404, with and without a token, under every method", async ({ shared }) => {
  const ada = await shared.person("ada")
  for (const token of [undefined, ada.token])
    for (const method of ["GET", "POST", "PUT", "PATCH", "DELETE"])
      for (const path of ["/nothing", "/api/v1/nothing", "/api/v2/users/@me", "/api/v1", "//", "/api/v1//users/@me"])
        expect(await send(shared.east, path, { method, token })).toMatchObject({ status: 404, code: "not_found" })
})

test("a method that a path does not take is 405 and says which it takes", async ({ shared }) => {
  for (const path of new Set(paths)) {
    const declared = new Set(
      Object.values<Route>(routes)
        .filter((_, i) => paths[i] === path)
        .map(({ method }) => method),
    )
    const other = (["PUT", "PATCH", "DELETE", "POST"] as const).find(method => !declared.has(method))!
    const { status, code, headers } = await send(shared.east, path, { method: other })
    expect({ path, status, code }).toEqual({ path, status: 405, code: "method_not_allowed" })
    const allowed = headers.get("allow")!.split(", ")
    for (const method of declared) expect(allowed).toContain(method)
    expect(allowed).not.toContain(other)
  }
})

test("a trailing slash redirects to the plain path", async ({ shared }) => {
  for (const [path, plain] of [
    ["/api/v1/users/@me/", "/api/v1/users/@me"],
    ["/docs/", "/docs"],
    ["/api/v1/channels/1/messages/?limit=5", "/api/v1/channels/1/messages?limit=5"],
    ["/api/v1/users/@me///", "/api/v1/users/@me"],
  ] as const) {
    const { status, headers } = await send(shared.east, path)
    expect({ status, location: headers.get("location") }).toEqual({ status: 307, location: plain })
  }
  for (const path of ["//evil.example/", "/\\evil.example/"])
    expect((await send(shared.east, path)).headers.get("location")).toBeNull()
})

test("HEAD is GET without the body", async ({ shared }) => {
  for (const path of ["/health", "/api/v1/version", "/openapi.json", "/docs"]) {
    const [head, get] = [await send(shared.east, path, { method: "HEAD" }), await send(shared.east, path)]
    expect(head).toMatchObject({ status: 200, text: "" })
    expect(head.headers.get("content-length")).toBe(get.headers.get("content-length"))
    expect(head.headers.get("content-type")).toBe(get.headers.get("content-type"))
  }
})

test("a client's own request id comes back; a strange one is replaced", async ({ shared }) => {
  const idFor = async (given: string) =>
    (await send(shared.east, "/health", { headers: { "x-request-id": given } })).headers.get("x-request-id")
  expect(await idFor("my-request-id_1.2")).toBe("my-request-id_1.2")
  for (const strange of ["short", "with space inside", "x".repeat(65), "semi;colon-here"])
    expect(await idFor(strange)).toMatch(/^[0-9a-f]{8}-[0-9a-f-]{27}$/)
})

test("pages of listed origins may call with credentials, on refusals too; others are told nothing", async ({
  shared,
}) => {
  for (const path of ["/api/v1/version", "/api/v1/users/@me", "/api/v1/nothing"]) {
    const { headers } = await send(shared.east, path, { headers: { origin } })
    expect(headers.get("access-control-allow-origin")).toBe(origin)
    expect(headers.get("access-control-allow-credentials")).toBe("true")
    const exposed = headers.get("access-control-expose-headers")!.toLowerCase()
    for (const name of ["etag", "content-length", "retry-after", "x-ratelimit-remaining"])
      expect(exposed).toContain(name)
    for (const other of ["https://evil.example", "https://chat.example.evil.example", "null", "http://chat.example"]) {
      const answer = await send(shared.east, path, { headers: { origin: other } })
      expect(answer.headers.get("access-control-allow-origin")).toBeNull()
    }
  }
})

test("a preflight of a listed origin lists what is allowed, every other is 400", async ({ shared }) => {
  const preflight = (more: Record<string, string>, path = "/api/v1/channels/1/messages") =>
    send(shared.east, path, {
      method: "OPTIONS",
      headers: { origin, "access-control-request-method": "POST", ...more },
    })
  const allowed = await preflight({
    "access-control-request-headers": "authorization,content-type,x-api-access-token,idempotency-key,range",
  })
  expect(allowed.status).toBe(200)
  expect(allowed.headers.get("access-control-allow-origin")).toBe(origin)
  expect(allowed.headers.get("access-control-allow-methods")).toBe("GET, POST, PUT, PATCH, DELETE, OPTIONS")
  expect(allowed.headers.get("access-control-max-age")).toBe("600")
  for (const refused of [
    { origin: "https://evil.example" },
    { "access-control-request-method": "TRACE" },
    { "access-control-request-headers": "x-strange" },
  ]) {
    const answer = await preflight(refused)
    expect(answer.status).toBe(400)
    expect(answer.headers.get("content-type")).toMatch(/^text\/plain/)
    const told = answer.headers.get("access-control-allow-origin")
    expect(told).toBe("origin" in refused ? null : origin)
  }
  expect((await preflight({}, "/nothing")).status).toBe(200)
})

test("a percent-encoded @ is an @", async ({ shared }) => {
  const ada = await shared.person("ada")
  expect((await send(shared.east, "/api/v1/users/%40me", { token: ada.token })).body).toMatchObject({ id: ada.id })
})
