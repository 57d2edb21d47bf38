import type { HttpRequest, HttpResponse } from "uWebSockets.js"
import type { RouteBucket } from "../../cluster/admission.ts"
import { fail } from "../../contract/core/errors.ts"
import { labelOf, routeRateLimits } from "../../contract/core/limits.ts"
import type { Method } from "../../contract/core/registry.ts"
import { pages, type PageName, type PageRoute } from "../../contract/pages.ts"
import { isUncounted } from "../../domain/core/rate-limits.ts"
import type { Metrics, RouteMetrics } from "../../observability/metrics.ts"
import type { Page, Pages, PageSource } from "../../web/pages.ts"
import type { Access } from "./access.ts"
import { json, type Exchange } from "./exchange.ts"
import type { Exchanges } from "./exchanges.ts"
import type { OperatorArea } from "./operator-area.ts"
import { createPageRequests } from "./page-requests.ts"
import { isCompressed, variantOf } from "./page-variants.ts"
import { patternsOfPage } from "./prepared-route.ts"
import type { createReplies } from "./replies.ts"
import { isNamed } from "./request-headers.ts"

/** Puts what takes a request on a pattern. */
export type On = (
  method: Method,
  pattern: string,
  take: (res: HttpResponse, req: HttpRequest) => void | Promise<void>,
) => void

interface PageServingOptions {
  readonly access: Access
  readonly area: OperatorArea
  readonly exchanges: Exchanges
  readonly replies: ReturnType<typeof createReplies>
  readonly limits: { readonly requestsPerMinute: number }
  readonly metrics: Pick<Metrics, "http">
  readonly observed: RouteMetrics
}

const headersOf = (page: Page, coding: string | undefined, etag: string): Record<string, string> => ({
  ...page.headers,
  ...(isCompressed(page) && {
    Vary: page.headers["Vary"] ? `${page.headers["Vary"]}, Accept-Encoding` : "Accept-Encoding",
  }),
  ...(coding && { "Content-Encoding": coding }),
  ETag: etag,
})

/** Serves the pages, and the paths of the operator area that lead to them. */
export function createPageServing(options: PageServingOptions) {
  const { access, area, exchanges, replies, limits, metrics, observed } = options
  const count = createPageRequests(limits.requestsPerMinute, metrics.http.refused.of("pages"))

  const bucketOf = ({ path }: PageRoute): RouteBucket | undefined => {
    const limit = routeRateLimits.get(labelOf({ method: "GET", path }))
    return limit && access.bucketFor({ method: "GET", path, limit })
  }

  async function answer(
    find: PageSource,
    { mount }: PageRoute,
    bucket: RouteBucket | undefined,
    exchange: Exchange,
    acceptLanguage: string,
  ): Promise<void> {
    if (mount === "operators") area.requireAddress(exchange)
    if (limits.requestsPerMinute !== Infinity) count(exchange.client.limited, exchange.startedAt)
    if (!isUncounted(exchange.url)) await access.admit(exchange, bucket)
    const page = await find(exchange.url, acceptLanguage)
    if (!page) throw fail("not_found")
    const { body, coding, etag } = await variantOf(page, exchange.acceptEncoding)
    exchange.addHeaders(headersOf(page, coding, etag))
    if (isNamed(etag, exchange.ifNoneMatch)) exchange.reply(304, page.contentType, "")
    else await replies.shared(exchange, page.contentType, body)
  }

  return (sources: Pages, on: On): void => {
    for (const [name, find] of Object.entries(sources) as [PageName, PageSource][]) {
      const bucket = bucketOf(pages[name])
      for (const pattern of patternsOfPage(pages[name], area.openPath))
        on("GET", pattern, (res, req) => {
          const exchange = exchanges.open(res, req, observed)
          if (!exchange) return
          answer(find, pages[name], bucket, exchange, req.getHeader("accept-language")).catch((error: unknown) =>
            exchanges.refuse(exchange, error),
          )
        })
    }
    for (const { pattern, status, to } of area.redirects)
      on("GET", pattern, (res, req) => {
        const exchange = exchanges.open(res, req, observed)
        exchange?.addHeaders({ Location: to, "Cache-Control": "no-store" })
        exchange?.reply(status, json, "")
      })
  }
}
