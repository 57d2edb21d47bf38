import type { HttpRequest, HttpResponse, TemplatedApp } from "uWebSockets.js"
import { routes } from "../../contract/contract.ts"
import { appPath } from "../../contract/pages.ts"
import type { Content, Route } from "../../contract/core/registry.ts"
import { endpointOf, otherEndpoint, type Endpoint } from "../../domain/service/endpoints.ts"
import type { Log } from "../../observability/log.ts"
import type { Metrics, RouteMetrics } from "../../observability/metrics.ts"
import type { Pages } from "../../web/pages.ts"
import { createAccess, type AccessOptions } from "./access.ts"
import { createBodies, type BodyLimits } from "./bodies.ts"
import { createCors } from "./cors.ts"
import { json, type Exchange } from "./exchange.ts"
import { OperatorArea, type OperatorAreaOptions } from "./operator-area.ts"
import { Exchanges } from "./exchanges.ts"
import { Encoded, type Call, type Handlers } from "./handlers.ts"
import { createPageServing, type On } from "./page-serving.ts"
import { patternsOf, prepareRoute, restOf, type PreparedRoute } from "./prepared-route.ts"
import { createReplies, type DownloadLimits } from "./replies.ts"
import type { RequestBody } from "./request-body.ts"
import { auditReasonIn, idempotencyKeyIn, tokenIn } from "./request-headers.ts"
import { fail } from "../../contract/core/errors.ts"
import { isDatabaseUnavailable } from "../../storage/core/database.ts"
import { StreamedBody } from "./streamed-body.ts"
import { createUnmatched } from "./unmatched.ts"
import { readParams, readQuery } from "./validation.ts"

/** `pages`: of an address; `Infinity`: as many as it likes. */
export type HttpLimits = BodyLimits &
  DownloadLimits & {
    readonly pages: { readonly requestsPerMinute: number }
    readonly connections: { readonly requestsPerAddress: number }
  }

export interface HttpServerOptions {
  readonly handlers: Handlers<typeof routes>
  readonly pages: Pages
  readonly access: AccessOptions
  readonly operators: OperatorAreaOptions
  readonly limits: HttpLimits
  readonly corsAllowedOrigins: readonly string[]
  readonly log: Log
  readonly metrics: Pick<Metrics, "http" | "tracer">
  /** Where it is kept how long answers took. */
  readonly timings: { of(endpoint: Endpoint): RouteMetrics }
  /** Unix milliseconds. */
  readonly clock: () => number
}

/** Of a call that is not recorded. */
const nothingNoted = Object.freeze({})
const unstored = "\r\nCache-Control: no-store"
/** Instead of a listed origin with credentials. */
const anyOrigin = "\r\nAccess-Control-Allow-Origin: *"
const httpMethods = { GET: "get", POST: "post", PUT: "put", PATCH: "patch", DELETE: "del" } as const

/** What is kept of the answers of one route: for /metrics, and for the statistics of operators. */
const observing =
  ({ metrics, timings }: Pick<HttpServerOptions, "metrics" | "timings">) =>
  (method: string, template: string, endpoint: Endpoint): RouteMetrics => {
    const counted = metrics.http.route(method, template)
    const timed = timings.of(endpoint)
    return {
      observe(status, seconds) {
        counted.observe(status, seconds)
        timed.observe(status, seconds)
      },
    }
  }

function requireOpen({ maintenance }: HttpServerOptions["access"]): void {
  const refusal = maintenance()
  if (refusal) throw refusal
}

const refusalOf = ({ failsWithoutDatabase }: Route, error: unknown): unknown =>
  failsWithoutDatabase && isDatabaseUnavailable(error) ? fail(failsWithoutDatabase, {}, { cause: error }) : error

function sendReply(
  replies: ReturnType<typeof createReplies>,
  route: Route,
  exchange: Exchange,
  reply: unknown,
): void | Promise<void> {
  if (reply instanceof Encoded) {
    if (reply.nextCursor !== null) exchange.headers += `\r\nX-Next-Cursor: ${reply.nextCursor}`
    return replies.json(exchange, reply.json)
  }
  if (route.isEmpty) return exchange.reply(204, json, "")
  if (route.produces === undefined) return replies.json(exchange, JSON.stringify(reply))
  return replies.content(exchange, reply as Content)
}

/** Sends a browser elsewhere; a program that asks for the same has its answer. */
function leadTo(to: string, exchange: Exchange): void {
  exchange.addHeaders({ Location: to, "Cache-Control": "no-store" })
  exchange.reply(307, json, "")
}

/** Whether a browser asks, for a person to look at the answer. */
const isForPerson = (req: HttpRequest): boolean => req.getHeader("accept").includes("text/html")

/**
 * The REST server: every route of the contract, and the pages, on an app that the gateway shares. A
 * request is checked in this order: blocked addresses, maintenance, the caller, rate limits, its
 * shape; then its handler runs. In the operator area it is: blocked addresses, allowed hosts, rate
 * limits, the operator, its shape. A request that fails at one of these steps reaches none of the
 * later ones.
 */
export function createHttpServer({ handlers, access: rules, limits, ...options }: HttpServerOptions) {
  const { log, metrics } = options
  const area = new OperatorArea(options.operators, { ...rules, log })
  const cors = createCors(options.corsAllowedOrigins)
  const access = createAccess(rules, options)
  const exchanges = new Exchanges({ ...rules, ...limits.connections, cors, log, metrics })
  const bodies = createBodies(limits)
  const replies = createReplies(limits, log, metrics)
  const observe = observing(options)
  const observed = observe("GET", "pages", { endpoint: "pages", method: "GET" })
  const unmatched = observe("other", "unmatched", otherEndpoint)
  const registerPages = createPageServing({ access, area, exchanges, replies, limits: limits.pages, metrics, observed })
  const registerUnmatched = createUnmatched({ access, area, cors, exchanges, observed: unmatched })

  /** @param leads browsers to the page to chat */
  const serving = (prepared: PreparedRoute, leads: boolean) => (res: HttpResponse, req: HttpRequest) => {
    const exchange = exchanges.open(res, req, prepared.metrics, prepared.takenParameters)
    if (exchange) return leads && isForPerson(req) ? leadTo(appPath, exchange) : answer(prepared, exchange)
  }

  /** Up to its first wait it runs in the turn in which the request came. It never rejects. */
  async function answer(prepared: PreparedRoute, exchange: Exchange): Promise<void> {
    const { route, parameters } = prepared
    let body: RequestBody | StreamedBody | undefined
    try {
      if (route.takesRest) exchange.path.push(restOf(exchange.url, route, area.openPath))
      if (route.isForAnyOrigin) exchange.headers = anyOrigin
      if (route.isUnstored) exchange.headers += unstored
      if (area.isOnlyHere(route)) area.requireAddress(exchange)
      if (prepared.waitsForMaintenance) requireOpen(rules)
      body = bodies.listen(prepared, exchange)
      exchange.dueAt = exchange.startedAt + limits.answerTimeoutMs
      // Now the client is certainly there.
      const address = route.auth === "public" || route.auth === "operator" ? exchange.client.text : undefined
      const isOpenedByLink = access.isOpenedByLink(route, exchange)
      const session = isOpenedByLink ? undefined : area.sessionIn(exchange, route)
      if (route.isGated && !access.isOpen && !isOpenedByLink && session === undefined)
        await access.requireAccessToken(exchange, prepared.gated)
      if (exchange.over) return
      const isTokenOptional = isOpenedByLink || route.auth === "optional"
      const token = isTokenOptional
        ? await access.goodToken(exchange, route)
        : session === undefined
          ? tokenIn(exchange, route)
          : undefined
      if (exchange.over) return
      const isCounted = prepared.isCounted && (prepared.bucket !== undefined || !area.isKnown(session, exchange))
      const asked = isCounted ? access.ask(exchange, token, prepared) : undefined
      const admitted = asked instanceof Promise ? await asked : asked
      const known = admitted && access.judge(exchange, admitted, route)
      const caller = isOpenedByLink ? undefined : known
      if (exchange.over) return
      const operator = session === undefined ? undefined : await area.operatorOf(session, exchange, route)
      if (exchange.over) return

      exchange.step = "body"
      if (body?.isCharged && caller) body.belongTo(`user ${caller.owner_id ?? caller.user_id}`)
      const whole = body instanceof StreamedBody ? undefined : body
      const arriving = whole && bodies.contentOf(prepared, exchange, whole)
      const content = arriving instanceof Promise ? await arriving : arriving
      if (exchange.over) return
      const call = {
        params: parameters.length > 0 ? readParams(parameters, exchange.path, route.params) : undefined,
        query: route.query && readQuery(exchange.queryText, route.query),
        ...bodies.fileIn(prepared, exchange, body),
        body: whole && bodies.valueOf(prepared, exchange, content),
        caller,
        operator,
        trail: prepared.isRecorded ? {} : nothingNoted,
        token: (isOpenedByLink ? tokenIn(exchange, route) : (token ?? area.tokenBeside(exchange, route))) ?? "",
        address,
        userAgent: exchange.userAgent,
        idempotencyKey: idempotencyKeyIn(exchange),
        isLimited: exchange.isLimited,
        reason: auditReasonIn(exchange),
        range: exchange.isHead ? undefined : exchange.range,
        ifRange: exchange.ifRange,
      } as Call
      exchange.step = "handler"
      const held = prepared.isHeld ? rules.hold?.() : undefined
      if (held) await held
      if (exchange.over) return
      const handle = () => (prepared.isRecorded ? area.answer(prepared, call) : prepared.handler(call))
      const span = metrics.tracer?.request(`${route.method} ${route.path}`, exchange.traceparent, exchange.startedAt)
      exchange.span = span
      const answered = span ? metrics.tracer!.run(span, handle) : handle()
      const sent = sendReply(replies, route, exchange, answered instanceof Promise ? await answered : answered)
      if (sent) await sent
    } catch (error) {
      if (body && route.form?.file) await bodies.drain(exchange, body)
      body?.release()
      exchanges.refuse(exchange, refusalOf(route, error))
    } finally {
      exchange.dueAt = Infinity
      body?.release()
    }
  }

  return {
    /** Puts every route on the app. Paths that the gateway registers match before the catch-all. */
    register(app: TemplatedApp): void {
      const methodsOf = new Map<string, string[]>()
      const on: On = (method, pattern, take) => {
        methodsOf.set(pattern, [...(methodsOf.get(pattern) ?? []), method])
        app[httpMethods[method]](pattern, take)
        // HEAD is GET without the body.
        if (method === "GET") app.head(pattern, take)
      }

      for (const [name, route] of Object.entries(routes) as [keyof typeof routes, Route][]) {
        const prepared = prepareRoute(route, {
          name,
          handler: handlers[name],
          bucket: rules.admission.bucketFor(route),
          metrics: observe(route.method, route.path, endpointOf(route)),
          body: bodies.boundsOf(route),
          stream: bodies.streamBoundsOf(route),
        })
        const take = serving(prepared, route === routes.getRoot && options.pages.app !== undefined)
        for (const pattern of patternsOf(route, area.openPath)) on(route.method, pattern, take)
      }
      registerPages(options.pages, on)
      registerUnmatched(app, methodsOf)
    },

    /** From now on every answer ends its connection: the client's next request reaches another worker. */
    beginDrain: () => exchanges.beginDrain(),

    /** Waits for the answers under way. The listening socket is the caller's. */
    close: () => exchanges.close(),
  }
}

export type HttpServer = ReturnType<typeof createHttpServer>
