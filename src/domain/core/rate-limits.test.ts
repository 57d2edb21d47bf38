import { readFileSync } from "node:fs"
import { expect, test } from "vitest"
import { z } from "zod"
import { routes } from "../../contract/contract.ts"
import { defaultRateLimits, labelOf, routeRateLimits } from "../../contract/core/limits.ts"
import { defineRoute, type Route } from "../../contract/core/registry.ts"
import { pages } from "../../contract/pages.ts"
import { isUncounted, rateLimitsWith } from "./rate-limits.ts"

const all = Object.values<Route>(routes)
const labels = new Set(all.map(labelOf))

/** Rows whose route does not exist yet: remove a row when its route is added. */
const waiting = ["THUMBNAIL_GEN"]

test("every route has the limit of its label in the table, or none", () => {
  for (const route of all) {
    const label = labelOf(route)
    if (route.limit === "none") expect(routeRateLimits.has(label), label).toBe(false)
    else expect(route.limit, label).toEqual(routeRateLimits.get(label))
  }
})

test("every row of the table has a route or a page, but for those that wait for theirs", () => {
  const served = new Set([...labels, ...Object.values(pages).map(({ path }) => `GET ${path}`)])
  expect([...routeRateLimits.keys()].filter(label => !served.has(label)).toSorted()).toEqual(waiting.toSorted())
})

test("the limiter leaves out the paths of the service's state and of its documentation, and no others", () => {
  for (const { limit, mount, path } of all)
    for (const place of [...(mount === "root" ? [] : [`/api/v1${path}`]), ...(mount === "api" ? [] : [path])])
      expect(isUncounted(place), place).toBe(limit === "none")
  for (const path of ["/", "/docs", "/docs/gateway", "/redoc", "/openapi.json", "/asyncapi.json", "/livez", "/readyz"])
    expect(isUncounted(path), path).toBe(true)
  for (const path of [
    "/api/v1/",
    "/api/v1/docs",
    "/healthy",
    "/robots.txt",
    "/x/health",
    "/help/docs",
    "/api/v1/livez",
    "",
  ])
    expect(isUncounted(path), path).toBe(false)
})

test("labels: ids, messages and what is no id; routes that share one", () => {
  const label = (method: Route["method"], path: string) => labelOf({ method, path })
  expect(label("PATCH", "/channels/:channel_id/messages/:message_id")).toBe("PATCH /channels/{id}/messages/{msg_id}")
  expect(label("PUT", "/channels/:channel_id/messages/:message_id/reactions/:emoji")).toBe(
    "PUT /channels/{id}/messages/{msg_id}/reactions/{emoji}",
  )
  expect(label("POST", "/webhooks/:webhook_id/:token")).toBe("POST /webhooks/{id}/{token}")
  expect(label("POST", "/channels/:channel_id/attachments")).toBe("POST /media/upload")
  expect(label("POST", "/media/upload/session")).toBe("POST /media/upload")
  expect(label("POST", "/telemetry/response-times")).toBe("POST /telemetry")
  // A route takes its row by its label.
  const route = defineRoute({ method: "POST", path: "/feedback", summary: "", tag: "", auth: "user", reply: z.object({}), fails: [] })
  expect(route.limit).toMatchObject({ requests: 5, seconds: 3600, caps: [{ requests: 20, seconds: 86_400 }] })
}) // prettier-ignore

test("the document for client authors names every bucket as it is", () => {
  const text = readFileSync(new URL("../../../docs/api/rate-limits.md", import.meta.url), "utf8")
  const written = [...text.matchAll(/^\| `([^`]+)` \| (\d+) in ([\d.]+) s \| (\d+) \| (\w+) \| (\w+) \|(.*)\|$/gm)].map(
    ([, label, requests, seconds, burst, algorithm, scope, cap]) => [
      label,
      { requests: Number(requests), seconds: Number(seconds), burst: Number(burst), algorithm, scope },
      cap!.trim(),
    ],
  )
  const { global, user, ip } = defaultRateLimits.common
  const wanted = [...Object.entries({ global, user, ip }), ...routeRateLimits].map(
    ([label, { caps = [], ...limit }]) => [
      label,
      limit,
      caps.map(({ requests, seconds }) => `${requests} in ${seconds} s`).join(", "),
    ],
  )
  expect(written).toEqual(wanted)
})

test("an override changes its bucket and leaves the others and what it does not name as they are", () => {
  const limits = rateLimitsWith(
    {
      global: { requests: 500, seconds: 1 },
      "POST /auth/login": { requests: 10, seconds: 60, burst: 5, caps: [{ requests: 20, seconds: 3600 }] },
      "POST /feedback": { requests: 1, seconds: 10, caps: [] },
      "GET /users/{id}": { requests: 3, seconds: 1 },
    },
    labels,
  )
  if ("problems" in limits) throw new Error(limits.problems.join())
  const { common, routes: changed } = limits
  expect(common.global).toEqual({ requests: 500, seconds: 1, burst: 10, algorithm: "token", scope: "user" })
  expect(common.user).toEqual(defaultRateLimits.common.user)
  expect(changed.get("POST /auth/login")).toEqual({
    requests: 10, seconds: 60, burst: 5, algorithm: "fixed", scope: "route", caps: [{ requests: 20, seconds: 3600 }],
  })
  expect(changed.get("POST /feedback")).toEqual({ requests: 1, seconds: 10, burst: 0, algorithm: "fixed", scope: "user" })
  expect(changed.get("GET /users/{id}")).toEqual({ requests: 3, seconds: 1, burst: 0, algorithm: "sliding", scope: "route" })
  expect(changed.get("POST /servers")).toBe(routeRateLimits.get("POST /servers"))
  expect(routeRateLimits.get("POST /feedback")!.caps).toHaveLength(1)
}) // prettier-ignore

test("buckets that do not exist and windows that would not fit are named", () => {
  const once = { requests: 1, seconds: 1 }
  const problems = (overrides: Parameters<typeof rateLimitsWith>[0]) => {
    const limits = rateLimitsWith(overrides, labels)
    return "problems" in limits ? limits.problems : []
  }
  expect(problems({ "POST /auth/logn": once, toString: once, "GET /health2": once })).toHaveLength(3)
  expect(problems({ "POST /auth/logn": once })).toEqual(["POST /auth/logn: no such bucket"])
  expect(problems({ user: { requests: 10_000, seconds: 1, burst: 1 } })[0]).toMatch(/^user: a sliding window/)
  expect(problems({ user: { requests: 10_000, seconds: 1, burst: 1, algorithm: "fixed" } })).toEqual([])
  const caps = [once, { requests: 2, seconds: 1 }]
  expect(problems({ user: { ...once, caps } })).toEqual(["user: two caps of the same length"])
})
