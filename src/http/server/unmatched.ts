import type { TemplatedApp } from "uWebSockets.js"
import { routes } from "../../contract/contract.ts"
import { fail } from "../../contract/core/errors.ts"
import { pages } from "../../contract/pages.ts"
import type { Route } from "../../contract/core/registry.ts"
import { isUncounted } from "../../domain/core/rate-limits.ts"
import type { RouteMetrics } from "../../observability/metrics.ts"
import type { Access } from "./access.ts"
import type { Cors } from "./cors.ts"
import { json, type Exchange } from "./exchange.ts"
import type { Exchanges } from "./exchanges.ts"
import type { OperatorArea } from "./operator-area.ts"
import { apiRoot, patternsOf, patternsOfPage } from "./prepared-route.ts"

interface UnmatchedOptions {
  readonly access: Access
  readonly area: OperatorArea
  readonly cors: Cors
  readonly exchanges: Exchanges
  readonly observed: RouteMetrics
}

/** What is answered where no route and no page matches. */
interface Refusal {
  readonly code: "not_found" | "method_not_allowed"
  readonly isGated: boolean
  /** Of the operator area, which says nothing to who may not enter it. */
  readonly isInArea?: boolean
  readonly headers?: Readonly<Record<string, string>>
}

/**
 * Answers what matches nothing: a path that is not there, a method that a path does not have, a
 * preflight (no route takes OPTIONS).
 */
export function createUnmatched({ access, area, cors, exchanges, observed }: UnmatchedOptions) {
  async function answer(
    exchange: Exchange,
    { code, isGated, isInArea = false, headers = {} }: Refusal,
    isOptions: boolean,
  ) {
    const { url, origin, preflightMethod } = exchange
    if (isOptions && origin !== undefined && preflightMethod !== undefined)
      return replyPreflight(exchange, origin, preflightMethod)
    if (isInArea) {
      if (!area.isEnabled) throw fail("area_not_found")
      area.requireAddress(exchange)
    }
    if (!isOptions && isGated && !access.isOpen) await access.requireAccessToken(exchange)
    exchange.addHeaders(headers)
    if (!isOptions && !isUncounted(url)) await access.admit(exchange)
    if (code === "not_found" && mayRedirect(url)) {
      const query = exchange.queryText === "" ? "" : `?${exchange.queryText}`
      exchange.addHeaders({ Location: url.replace(/\/+$/, "") + query })
      return exchange.reply(307, json, "")
    }
    throw fail(code)
  }

  function replyPreflight(exchange: Exchange, origin: string, method: string): void {
    const verdict = cors.preflight(origin, method, exchange.preflightHeaders)
    if ("refused" in verdict) return exchange.reply(400, "text/plain; charset=utf-8", verdict.refused)
    exchange.headers = verdict.headers
    exchange.reply(200, "text/plain; charset=utf-8", "OK")
  }

  /** After everything else: `methodsOf` has the methods of every pattern that is served. */
  return (app: TemplatedApp, methodsOf: ReadonlyMap<string, readonly string[]>): void => {
    // A path that only gated routes have says nothing, not even that it exists, without an access
    // token.
    const openPaths = new Set([
      ...Object.values<Route>(routes).flatMap(route => (route.isGated ? [] : patternsOf(route, area.openPath))),
      ...Object.values(pages).flatMap(page => patternsOfPage(page, area.openPath)),
      ...area.redirects.map(({ pattern }) => pattern),
    ])
    const isGated = (pattern: string) => pattern.startsWith(`${apiRoot}/`) && !openPaths.has(pattern)
    const ofUsers = new Set(
      Object.values<Route>(routes).flatMap(route => (area.isOnlyHere(route) ? [] : patternsOf(route, undefined))),
    )
    const isInArea = (pattern: string) =>
      area.roots.some(root => pattern.startsWith(`${root}/`)) && !ofUsers.has(pattern)
    const refuse = (pattern: string, refusal: Refusal) =>
      app.any(pattern, (res, req) => {
        const isOptions = req.getMethod() === "options"
        const exchange = exchanges.open(res, req, observed)
        if (exchange) answer(exchange, refusal, isOptions).catch((error: unknown) => exchanges.refuse(exchange, error))
      })
    for (const [pattern, methods] of methodsOf) {
      const allow = methods.flatMap(method => (method === "GET" ? ["GET", "HEAD"] : [method])).join(", ")
      refuse(pattern, {
        code: "method_not_allowed",
        isGated: isGated(pattern),
        isInArea: isInArea(pattern),
        headers: { Allow: allow },
      })
    }
    for (const root of area.roots)
      for (const pattern of area.isEnabled ? [`${root}/*`] : [root, `${root}/*`])
        refuse(pattern, { code: "not_found", isGated: false, isInArea: true })
    refuse(`${apiRoot}/*`, { code: "not_found", isGated: true })
    refuse("/*", { code: "not_found", isGated: false })
  }
}

/** Paths have no slash at their end. `//host/` would lead to another host. */
const mayRedirect = (url: string): boolean =>
  url.length > 1 && url.endsWith("/") && url !== `${apiRoot}/` && !/^\/[/\\]/.test(url)
