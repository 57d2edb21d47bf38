/** What may be kept of answers on their way, by proxies and browsers. */
import { routes } from "../../src/contract/contract.ts"
import type { Route } from "../../src/contract/core/registry.ts"
import { expect, test } from "../kit/test.ts"

test("nothing that is one caller's alone, or that carries a token, is kept by a cache; that goes for refusals, too", async ({
  shared,
}) => {
  const ada = await shared.person("ada")
  const wrong: string[] = []
  const left: string[] = []
  // Two end the session that asks.
  const ending = new Set<Route>([routes.logout, routes.revokeAllSessions, routes.deleteAccount])
  for (const route of Object.values<Route>(routes)) {
    if (ending.has(route) || route.path.startsWith("/readyz")) continue
    const path = (route.mount === "root" ? "" : "/api/v1") + route.path.replace(/:\w+/g, "1")
    const response = await fetch(shared.east.url + path, {
      method: route.method,
      headers: { authorization: `Bearer ${ada.token}`, "content-type": "application/json" },
      ...(route.method !== "GET" && { body: "{}" }),
      redirect: "manual",
    })
    await response.arrayBuffer()
    const isStored = response.headers.get("cache-control") !== "no-store"
    const name = `${route.method} ${route.path}`
    if (isStored === route.isUnstored) wrong.push(name)
    if (!route.isUnstored) left.push(name)
  }
  expect(wrong).toEqual([])
  // What is the same for everybody, and files and pictures, which say themselves how long they may be kept.
  for (const name of left)
    expect(name).toMatch(
      /^GET \/(?:health|livez|version|status|capabilities|help\/|qr|media\/|avatars\/|icons|auth\/password-requirements|$)/,
    )
})

test("answers that carry a token say so", async ({ shared }) => {
  const ada = await shared.person("ada")
  const server = await ada.on(shared.east).createServer({ name: "Secrets" })
  const [channel] = await ada.on(shared.east).listChannels({ server_id: server.id })
  const ask = async (method: string, path: string, body: object) => {
    const response = await fetch(`${shared.east.url}/api/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${ada.token}`, "content-type": "application/json" },
      body: JSON.stringify(body),
    })
    return [response.status, response.headers.get("cache-control"), await response.text()]
  }
  expect(await ask("POST", "/webhooks", { channel_id: channel!.id, name: "hook" })).toEqual([
    200,
    "no-store",
    expect.stringContaining('"token"'),
  ])
  expect(await ask("POST", "/auth/refresh", {})).toEqual([200, "no-store", expect.stringContaining('"token"')])
  expect(await ask("POST", "/auth/2fa/enable", { password: "wrong" })).toEqual([401, "no-store", expect.any(String)])
})

test("a page of another origin may give the reason for the audit log", async ({ cluster }) => {
  const [worker] = await cluster.boot(1, { config: { STARLING_CORS_ALLOWED_ORIGINS: "https://chat.example" } })
  const preflight = await fetch(`${worker!.url}/api/v1/servers/1/roles`, {
    method: "OPTIONS",
    headers: {
      origin: "https://chat.example",
      "access-control-request-method": "POST",
      "access-control-request-headers": "authorization, x-audit-log-reason",
    },
  })
  expect([preflight.status, preflight.headers.get("access-control-allow-headers")]).toEqual([
    200,
    expect.stringContaining("X-Audit-Log-Reason"),
  ])
})
