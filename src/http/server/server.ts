import type { HttpRequest, HttpResponse, TemplatedApp } from "uWebSockets.js"
import { userActor } from "../../actors/user.ts"
import type { Admission, Caller, RouteBucket } from "../../cluster/admission.ts"
import { isAtOrigin, originOf, type Tokens } from "../../cluster/tokens.ts"
import { openInMaintenance, routes } from "../../contract/contract.ts"
import { codePoints } from "../../contract/fields.ts"
import { limits } from "../../contract/limits.ts"
import { errors, fail, unavailable, type ErrorCode, type Failure } from "../../contract/errors.ts"
import type { Content, Route, Streamed, Unread } from "../../contract/registry.ts"
import {
  addressOf,
  clientAddress,
  formatAddress,
  limitedAddress,
  trustedProxies,
  type Address,
} from "../../domain/client-address.ts"
import { barTo, isAdministrator } from "../../domain/accounts.ts"
import { secondsAt } from "../../domain/clock.ts"
import { isUncounted } from "../../domain/rate-limits.ts"
import { isSigned } from "../../domain/attachments.ts"
import { loggedPath } from "../../domain/webhooks.ts"
import type { Log } from "../../observability/log.ts"
import type { Metrics, RouteMetrics } from "../../observability/metrics.ts"
import { createAccessGate } from "./access-gate.ts"
import { accountDeletion } from "../account-deletion.ts"
import { attachments, sizeMessage } from "../attachments.ts"
import { auditLog } from "../audit-log.ts"
import { auth } from "../auth.ts"
import { automod } from "../automod.ts"
import { channels } from "../channels.ts"
import { features } from "../features.ts"
import { createCors } from "./cors.ts"
import { directs } from "../directs.ts"
import { Exchange, longestPiece, type ExchangeSurroundings } from "./exchange.ts"
import { emojis } from "../emojis.ts"
import { exports } from "../exports.ts"
import { failureReply, isBug, toFailure, waitMessage } from "./failures.ts"
import { besideFile, FormStream } from "./form-stream.ts"
import { Encoded, type Call, type Handlers, type Http } from "./handlers.ts"
import { icons } from "../icons.ts"
import { isUnsafe } from "./json-text.ts"
import { invites } from "../invites.ts"
import { mailed } from "../mailed.ts"
import { messages } from "../messages.ts"
import { messagingSettings } from "../messaging-settings.ts"
import { fileTooLarge, readForm } from "./multipart.ts"
import { members } from "../members.ts"
import { moderation } from "../moderation.ts"
import { notificationSettings } from "../notification-settings.ts"
import { notifications } from "../notifications.ts"
import { oauth } from "../oauth.ts"
import { overrides } from "../overrides.ts"
import { polls } from "../polls.ts"
import { pins } from "../pins.ts"
import { presence } from "../presence.ts"
import type { PageSource } from "../../web/pages.ts"
import { rateLimitHeaders } from "./rate-limit-headers.ts"
import { reactions } from "../reactions.ts"
import { readState } from "../read-state.ts"
import { relationships } from "../relationships.ts"
import type { BodyBounds, RequestBody } from "./request-body.ts"
import { roles } from "../roles.ts"
import { ByteBudget } from "./byte-budget.ts"
import { search } from "../search.ts"
import { servers } from "../servers.ts"
import { settings } from "../settings.ts"
import { StreamedBody, type StreamBounds } from "./streamed-body.ts"
import { sessionEnd } from "../sign-in.ts"
import { stickers } from "../stickers.ts"
import { system } from "../system.ts"
import { twoFactor } from "../two-factor.ts"
import { users } from "../users.ts"
import { voice } from "../voice.ts"
import { webhooks } from "../webhooks.ts"
import {
  invalid,
  pathParameters,
  readBody,
  readParams,
  readQuery,
  type PathParameter,
  resourceOf,
} from "./validation.ts"

export interface HttpServerOptions extends Omit<Http, "hasDocs"> {
  admission: Admission
  tokens: Pick<Tokens, "invalidate" | "present" | "find">
  /** Static answers by path, from `documentationPages`. */
  /** By pattern. */
  pages: ReadonlyMap<string, PageSource>
  /** Addresses and CIDR ranges whose `X-Forwarded-For` is believed. */
  trustedProxies: readonly string[]
  /** The refusal of every request that can wait for the end of a maintenance; undefined: there is none. */
  maintenance: () => Failure | undefined
  isBlocked: (address: Address) => boolean
  /** Bytes, milliseconds, levels. */
  bounds: {
    bodyBytes: number
    /** Of forms with files, all that are under way together, and those of one caller; so long a whole one may take. */
    uploadBytes: number
    uploadShare: number
    uploadTimeout: number
    /** Of files that are streamed in, what all of them hold of memory, how many of them there are, and how many of one user. */
    streamBytes: number
    streams: number
    streamsPerUser: number
    /** Bytes a second that have to go in or out of what is streamed, beyond those timeouts. */
    slowestStream: number
    /** Of long files on their way out, all together, and those to one address; so long a reader may take. */
    downloadBytes: number
    downloadShare: number
    downloadTimeout: number
    bodyTimeout: number
    bodyDepth: number
    answerTimeout: number
  }
  log: Log
  metrics: Pick<Metrics, "http">
}

/** A route with everything that can be known before a request comes. */
interface Prepared {
  readonly label: string
  readonly route: Route
  readonly handler: (call: Call) => unknown
  readonly parameters: readonly PathParameter[]
  readonly counted: boolean
  /** Not answered in maintenance. */
  readonly waits: boolean
  readonly bucket: RouteBucket | undefined
  readonly metrics: RouteMetrics
  readonly body: Omit<BodyBounds, "startedAt">
  /** Instead, where the file of its form is read while it comes. */
  readonly stream: Omit<StreamBounds, "startedAt" | "holder"> | undefined
}

const json = "application/json"
/** Bytes up to which a file on its way out is not counted. */
const longContent = 64 * 1024
/** Instead of a listed origin with credentials. */
const anyOrigin = "\r\nAccess-Control-Allow-Origin: *"
const apiRoot = "/api/v1"
const authorizationShape = /^(?:Bearer|Bot) [A-Za-z0-9._-]+$/
const idempotencyShape = /^[\x20-\x7e]{1,64}$/
/** uWebSockets.js drops a connection on which nothing came for 8 to 12 s; the answer has to be out before. */
const longestBodyTimeout = 7_000
const sweepEvery = 200
/** A session with less than this left is extended when it is used, in seconds. */
const extendBelow = 24 * 3600
const httpMethods = { GET: "get", POST: "post", PUT: "put", PATCH: "patch", DELETE: "del" } as const

/**
 * The REST door: every route of the contract, and the documentation pages, on an app that the gateway shares. Gates stand
 * in this order: blocked addresses, maintenance, who asks, the limits, the shape of the request; then the handler. A request
 * that fails at one of them gets no further.
 */
export function createHttpServer(options: HttpServerOptions) {
  const { admission, pages, bounds, log, metrics, policy, clock } = options
  const http: Http = { ...options, hasDocs: pages.has("/docs") }
  const handlers: Handlers<typeof routes> = {
    ...system(http),
    ...auth(http),
    ...twoFactor(http),
    ...mailed(http),
    ...oauth(http),
    ...users(http),
    ...messagingSettings(http),
    ...settings(http),
    ...features(http),
    ...notifications(http),
    ...notificationSettings(http),
    ...exports(http),
    ...accountDeletion(http),
    ...servers(http),
    ...roles(http),
    ...emojis(http),
    ...stickers(http),
    ...icons(http),
    ...members(http),
    ...moderation(http),
    ...auditLog(http),
    ...automod(http),
    ...channels(http),
    ...directs(http),
    ...overrides(http),
    ...invites(http),
    ...messages(http),
    ...attachments(http),
    ...reactions(http),
    ...pins(http),
    ...search(http),
    ...polls(http),
    ...readState(http),
    ...presence(http),
    ...relationships(http),
    ...voice(http),
    ...webhooks(http),
  }
  const gate = createAccessGate(options)
  const cors = createCors(policy.cors_allowed_origins)
  const proxies = trustedProxies(options.trustedProxies)
  const bodyTimeout = Math.min(bounds.bodyTimeout, longestBodyTimeout)
  const uploads = new ByteBudget(bounds.uploadBytes, bounds.uploadShare)
  const streamed = new ByteBudget(bounds.streamBytes, bounds.uploadShare)
  const places = new ByteBudget(bounds.streams, bounds.streamsPerUser)
  const downloads = new ByteBudget(bounds.downloadBytes, bounds.downloadShare)
  const reading = new Set<RequestBody | StreamedBody>()
  const answering = new Set<Exchange>()
  let idle: (() => void) | undefined
  let inFlight = 0
  const surroundings: ExchangeSurroundings & { closing: boolean } = {
    closing: false,
    inFlight: {
      inc() {
        inFlight++
        metrics.http.inFlight.inc()
      },
      dec() {
        inFlight--
        metrics.http.inFlight.dec()
        if (inFlight === 0) idle?.()
      },
    },
  }

  const sweep = setInterval(() => {
    const now = performance.now()
    for (const body of reading)
      if (body.settled) reading.delete(body)
      else if (body.isOverdue(now)) body.expire()
    // Each step on the way to an answer has a deadline, but there may be several.
    for (const exchange of answering)
      if (exchange.dueAt < now)
        if (exchange.isSending) exchange.cutOff()
        else refuse(exchange, unavailable("no answer in time"))
  }, sweepEvery)
  sweep.unref()

  /** Answers with whatever was thrown. */
  function refuse(exchange: Exchange, error: unknown): void {
    const failure = toFailure(error)
    if (isBug(failure))
      log.error(
        { err: failure.cause, request_id: exchange.requestId, path: loggedPath(exchange.url) },
        "request failed",
      )
    const { status, body, headers } = failureReply(failure, exchange.requestId)
    exchange.headers += headers
    exchange.reply(status, json, JSON.stringify(body))
  }

  /** Opens the exchange and goes on without waiting; nothing that happens on the way is thrown at uWebSockets.js. */
  function open(
    res: HttpResponse,
    req: HttpRequest,
    parameters: number,
    observed: RouteMetrics,
    go: (exchange: Exchange) => void | Promise<void>,
  ): void {
    const exchange = new Exchange(res, req, parameters, observed, surroundings)
    try {
      if (exchange.origin !== undefined) exchange.headers = cors.headersFor(exchange.origin)
      exchange.address = addressIn(exchange)
      if (options.isBlocked(exchange.address)) throw fail("address_blocked")
      if (exchange.repeatedContentLength) throw fail("repeated_header")
      const going = go(exchange)
      if (going) going.catch((error: unknown) => refuse(exchange, error))
    } catch (error) {
      refuse(exchange, error)
    }
  }

  const addressIn = (exchange: Exchange): Address => {
    const peer = addressOf(new Uint8Array(exchange.res.getRemoteAddress()))
    return exchange.forwardedFor === undefined ? peer : clientAddress(peer, exchange.forwardedFor, proxies)
  }

  /** Lets a request in or throws the refusal; either way its headers tell about the limits. */
  async function admit(
    exchange: Exchange,
    token: string | null | undefined,
    prepared: Pick<Prepared, "route" | "bucket"> | undefined,
  ): Promise<Caller | undefined> {
    const bucket = prepared?.bucket
    const resource = bucket?.byResource ? resourceOf(bucket.scope, exchange.path) : ""
    const bypass = exchange.rateLimitBypass
    const origin =
      policy.token_binding && typeof token === "string"
        ? originOf(formatAddress(exchange.address), exchange.userAgent)
        : undefined
    const address = limitedAddress(exchange.address)
    const admitted = await admission.admit({ address, token, origin, bucket, resource, bypass })
    if (admitted.figures !== undefined)
      exchange.headers += rateLimitHeaders(admitted.figures, admitted.verdict === "limited")
    switch (admitted.verdict) {
      case "ok":
        if (admitted.caller && prepared) requireStanding(admitted.caller, prepared.route)
        if (admitted.touch && admitted.caller) touchSession(admitted.caller)
        return admitted.caller
      case "limited": {
        const { scope, resetAfter } = admitted.figures
        metrics.http.refused.of(scope).inc()
        throw fail("rate_limited", {
          retry_after: resetAfter,
          extra: { global: scope === "global", scope },
          ...(prepared?.route.tag === "Reactions" && { message: waitMessage(resetAfter) }),
        })
      }
      case "failed":
        metrics.http.refused.of("failed_tokens").inc()
        throw fail("too_many_failed_tokens", { retry_after: admitted.figures.resetAfter })
      case "anonymous":
        if (prepared?.route === routes.refresh && exchange.authorization === undefined) throw fail("missing_token")
        throw fail(
          sentSeveral(exchange) ? "multiple_authorization" : "authentication_required",
          wordsFor(prepared?.route),
        )
      default:
        throw fail(tokenErrors[admitted.verdict], wordsFor(prepared?.route))
    }
  }

  /** What is asked of an account beyond its token. */
  function requireStanding(caller: Caller, route: Route): void {
    const bar = barTo(caller, secondsAt(clock()))
    if (bar && !(bar.code === "username_change_required" && route.isForRenaming))
      throw fail(bar.code, { extra: { reason: bar.reason } })
    if (route.auth === "person" && caller.bot) throw fail("people_only")
    if (route.auth === "administrator" && !isAdministrator(caller.permissions ?? [])) throw fail("administrator_only")
  }

  /** Whoever does not bring what the gate asks for is refused at the cost of his address. */
  async function passGate(exchange: Exchange): Promise<void> {
    const refusal = gate.refusalOf(exchange.accessToken, exchange.address)
    if (refusal === undefined) return
    await admit(exchange, undefined, undefined)
    throw fail(refusal)
  }

  /** Beside the request: whoever used a session is not kept waiting for the note of it, nor refused when it fails. */
  function touchSession({ user_id, session_id, expires_at }: Caller): void {
    const now = secondsAt(clock())
    const extended = sessionEnd(http)
    const extend = expires_at - now <= extendBelow && extended > expires_at
    const touch = async () => {
      await options.ask(userActor, user_id, {
        type: "touchSession",
        session_id,
        expires_at: extend ? extended : expires_at,
      })
      if (extend) await options.tokens.invalidate([session_id])
    }
    touch().catch((error: unknown) => {
      if (isBug(toFailure(error))) log.error({ err: error, session_id }, "session activity not noted")
    })
  }

  function serve(prepared: Prepared, res: HttpResponse, req: HttpRequest): void {
    const { route, parameters } = prepared
    open(res, req, parameters.length - (route.takesRest ? 1 : 0), prepared.metrics, exchange => {
      if (route.takesRest) exchange.path.push(restOf(exchange.url, route.path))
      if (route.isForAnyOrigin) exchange.headers = anyOrigin
      const maintenance = prepared.waits ? options.maintenance() : undefined
      if (maintenance) throw maintenance
      const holder = limitedAddress(exchange.address)
      const body = prepared.stream
        ? exchange.listenToStream(prepared.stream, holder)
        : route.body && exchange.listenToBody(prepared.body, holder)
      if (body && !body.settled) reading.add(body)
      exchange.dueAt = exchange.startedAt + bounds.answerTimeout
      answering.add(exchange)
      const answered = answer(prepared, exchange, body)
      return (body && route.form?.file ? answered.catch(refuseDrained(exchange, body)) : answered).finally(() => {
        answering.delete(exchange)
        body?.release()
      })
    })
  }

  /** Whoever has a signed link needs no token. */
  const isOpened = ({ path: [file], queryText }: Exchange): boolean => {
    const query = new URLSearchParams(queryText)
    const given = { exp: query.get("exp"), sig: query.get("sig") }
    return isSigned(file!, given, clock(), text => options.secrets.digest(text, "attachments"))
  }

  /** A signed link is good whatever token comes with it; with a good one it counts for its user, not for his address. */
  async function tokenBeside(exchange: Exchange, route: Route): Promise<string | undefined> {
    const token = tokenIn(exchange, route)
    if (typeof token !== "string") return undefined
    const presented = options.tokens.present(token)
    const session = typeof presented === "string" ? undefined : await options.tokens.find(presented)
    if (typeof session !== "object" || barTo(session, secondsAt(clock()))) return undefined
    const origin = policy.token_binding ? originOf(formatAddress(exchange.address), exchange.userAgent) : undefined
    return origin === undefined || isAtOrigin(session, origin) ? token : undefined
  }

  async function answer(
    prepared: Prepared,
    exchange: Exchange,
    body: RequestBody | StreamedBody | undefined,
  ): Promise<void> {
    const { route, parameters } = prepared
    const isSignedLink = route.auth === "signed" && isOpened(exchange)
    if (route.isGated && !gate.isOpen && !isSignedLink) await passGate(exchange)
    if (exchange.over) return
    const token = isSignedLink ? await tokenBeside(exchange, route) : tokenIn(exchange, route)
    if (exchange.over) return
    const admitted = prepared.counted ? await admit(exchange, token, prepared) : undefined
    const caller = isSignedLink ? undefined : admitted
    if (exchange.over) return

    if (body && caller) body.belongTo(`user ${caller.user_id}`)
    const read =
      body instanceof StreamedBody
        ? undefined
        : body && (await awaited(exchange, body, route.form ? body.bytes() : body.text()))
    if (exchange.over) return
    const params = parameters.length > 0 ? readParams(parameters, exchange.path, route.params) : undefined
    const form = body instanceof StreamedBody ? streamOf(prepared, exchange, body) : undefined
    const call = {
      params,
      query: route.query && readQuery(exchange.queryText, route.query),
      body:
        route.body &&
        !form &&
        (route.form
          ? readForm(read as Buffer | undefined, exchange.contentType, route)
          : readBody(read as string | undefined, route.body, route.bodyOptional, bounds.bodyDepth)),
      caller,
      token: tokenIn(exchange, route) ?? "",
      address: formatAddress(exchange.address),
      userAgent: exchange.userAgent,
      idempotencyKey: idempotencyKeyIn(exchange),
      reason: auditReasonIn(exchange),
      form,
      range: exchange.isHead ? undefined : exchange.range,
      ifRange: exchange.ifRange,
    } as Call
    const reply = await prepared.handler(call)
    if (reply instanceof Encoded) return exchange.reply(200, json, reply.json)
    if (route.produces === undefined) return exchange.reply(200, json, JSON.stringify(reply))
    return sendContent(exchange, reply as Content)
  }

  /** The file of a form, which may take its time as long as it comes, and then until the disk has it. */
  function streamOf({ route }: Prepared, exchange: Exchange, body: StreamedBody): FormStream {
    exchange.dueAt = Infinity
    body.onEnd(() => {
      exchange.dueAt = performance.now() + bounds.uploadTimeout
    })
    return new FormStream(body, route.form!.file!.name, exchange.contentType)
  }

  async function sendContent(exchange: Exchange, content: Content): Promise<void> {
    const { contentType, body, headers = {} } = content
    const isKnown = headers["ETag"] !== undefined && isNamed(headers["ETag"], exchange.ifNoneMatch)
    if (!isKnown && !exchange.isHead && !(body instanceof Uint8Array))
      return "open" in body ? sendStreamed(exchange, content, body) : sendUnread(exchange, body)
    for (const [name, value] of Object.entries(headers)) exchange.headers += `\r\n${name}: ${value}`
    if (isKnown) exchange.reply(304, contentType, "")
    else if (body instanceof Uint8Array) exchange.reply(200, contentType, body)
    else exchange.reply(200, contentType, "", body.size)
  }

  /** What is long is in memory as long as its reader takes, so it needs room. */
  async function sendUnread(exchange: Exchange, { size, read }: Unread): Promise<void> {
    if (size <= longContent) return sendContent(exchange, await read())
    const holder = limitedAddress(exchange.address)
    if (!downloads.take(holder, size)) throw unavailable("too many downloads at once")
    try {
      const { contentType, body, headers = {} } = await read()
      for (const [name, value] of Object.entries(headers)) exchange.headers += `\r\n${name}: ${value}`
      exchange.dueAt = performance.now() + bounds.downloadTimeout
      await exchange.replyLong(contentType, body)
    } finally {
      downloads.give(holder, size)
    }
  }

  /** One piece of it is in memory at a time. Whoever takes too long for the next is cut off, and whoever does so all in all. */
  async function sendStreamed(
    exchange: Exchange,
    { contentType, status, headers = {} }: Content,
    { size, open: openFile }: Streamed,
  ): Promise<void> {
    const holder = limitedAddress(exchange.address)
    if (!downloads.take(holder, longestPiece)) throw unavailable("too many downloads at once")
    try {
      const file = await openFile()
      try {
        for (const [name, value] of Object.entries(headers)) exchange.headers += `\r\n${name}: ${value}`
        const begunAt = performance.now()
        const noteProgress = (sent: number) => {
          const patience = begunAt + (sent / bounds.slowestStream) * 1000
          exchange.dueAt = Math.min(performance.now(), patience) + bounds.downloadTimeout
        }
        noteProgress(0)
        await exchange.replyPieces(status ?? 200, contentType, { size, read: file.read }, noteProgress)
      } finally {
        await file.close()
      }
    } catch (error) {
      if (!exchange.over) throw error
      log.warn({ err: error, request_id: exchange.requestId }, "a file ended before it was sent")
    } finally {
      downloads.give(holder, longestPiece)
    }
  }

  /** Bounds of the bodies of a route. */
  function boundsOf({ form, body }: Route): Omit<BodyBounds, "startedAt"> {
    const patience = bodyTimeout
    const file = form?.file
    if (!body || !file)
      return { limit: bounds.bodyBytes, tooLarge: () => fail("payload_too_large"), within: bodyTimeout, patience }
    const limit = file.bytes + besideFile
    return { limit, tooLarge: () => fileTooLarge(file), within: bounds.uploadTimeout, patience, room: uploads }
  }

  function streamBoundsOf({ form }: Route): Prepared["stream"] {
    const file = form?.file
    if (!file?.isStreamed) return undefined
    const limit = file.bytes + besideFile
    const tooLarge = (bytes: number) => fail(file.tooLarge, { message: sizeMessage(bytes, file.bytes) })
    const { uploadTimeout: within, slowestStream: slowest } = bounds
    return { limit, tooLarge, within, slowest, patience: bodyTimeout, room: streamed, places }
  }

  /** Files are long: a refusal waits until its reader has stopped writing. */
  const refuseDrained = (exchange: Exchange, body: RequestBody | StreamedBody) => async (error: unknown) => {
    exchange.dueAt = Infinity
    await body.drained()
    throw error
  }

  /** The time that a body takes has a bound of its own. */
  async function awaited(
    exchange: Exchange,
    body: RequestBody,
    content: Promise<Buffer | string | undefined>,
  ): Promise<Buffer | string | undefined> {
    if (!body.settled) exchange.dueAt = Infinity
    try {
      return await content
    } finally {
      reading.delete(body)
      if (exchange.dueAt === Infinity) exchange.dueAt = performance.now() + bounds.answerTimeout
    }
  }

  /** A path that is not there, or not for this method. Preflights end here too: no route takes OPTIONS. */
  function serveNothing(
    observed: RouteMetrics,
    code: ErrorCode,
    { allow = "", isGated }: { allow?: string; isGated: boolean },
    res: HttpResponse,
    req: HttpRequest,
  ): void {
    const isOptions = req.getMethod() === "options"
    open(res, req, 0, observed, async exchange => {
      const { url, origin, preflightMethod } = exchange
      if (isOptions && origin !== undefined && preflightMethod !== undefined)
        return replyPreflight(exchange, origin, preflightMethod)
      if (!isOptions && isGated && !gate.isOpen) await passGate(exchange)
      if (allow !== "") exchange.headers += `\r\nAllow: ${allow}`
      if (!isOptions && !isUncounted(url)) await admit(exchange, undefined, undefined)
      if (code === "not_found" && mayRedirect(url)) {
        const query = exchange.queryText === "" ? "" : `?${exchange.queryText}`
        exchange.headers += `\r\nLocation: ${url.replace(/\/+$/, "")}${query}`
        return exchange.reply(307, json, "")
      }
      throw fail(code)
    })
  }

  function replyPreflight(exchange: Exchange, origin: string, method: string): void {
    const verdict = cors.preflight(origin, method, exchange.preflightHeaders)
    if ("refused" in verdict) return exchange.reply(400, "text/plain; charset=utf-8", verdict.refused)
    exchange.headers = verdict.headers
    exchange.reply(200, "text/plain; charset=utf-8", "OK")
  }

  function servePage(find: PageSource, observed: RouteMetrics, res: HttpResponse, req: HttpRequest): void {
    open(res, req, 0, observed, async exchange => {
      if (!isUncounted(exchange.url)) await admit(exchange, undefined, undefined)
      const page = await find(exchange.url)
      if (!page) throw fail("not_found")
      for (const [name, value] of Object.entries({ ...page.headers, ETag: page.etag }))
        exchange.headers += `\r\n${name}: ${value}`
      const known = isNamed(page.etag, exchange.ifNoneMatch)
      exchange.reply(known ? 304 : 200, page.contentType, known ? "" : page.body)
    })
  }

  return {
    /** Puts every route on the app. What the gateway registers stays its own: paths match before the catch-all. */
    register(app: TemplatedApp): void {
      const methodsOf = new Map<string, string[]>()
      for (const [name, route] of Object.entries(routes) as [keyof typeof routes, Route][]) {
        const prepared = {
          ...prepare(route, handlers[name], admission.bucketFor(route), metrics),
          body: boundsOf(route),
          stream: streamBoundsOf(route),
        }
        for (const pattern of patternsOf(route)) {
          methodsOf.set(pattern, [...(methodsOf.get(pattern) ?? []), route.method])
          const take = (res: HttpResponse, req: HttpRequest) => serve(prepared, res, req)
          app[httpMethods[route.method]](pattern, take)
          // HEAD is GET whose body stays at home.
          if (route.method === "GET") app.head(pattern, take)
        }
      }

      const pageMetrics = metrics.http.route("GET", "pages")
      for (const [pattern, find] of pages) {
        methodsOf.set(pattern, ["GET"])
        const take = (res: HttpResponse, req: HttpRequest) => servePage(find, pageMetrics, res, req)
        app.get(pattern, take)
        app.head(pattern, take)
      }

      // What only gated routes have to do with tells nothing to whoever does not pass the gate, nor whether it is there.
      const openPaths = new Set(Object.values<Route>(routes).flatMap(route => (route.isGated ? [] : patternsOf(route))))
      const isGated = (pattern: string) =>
        pattern.startsWith(`${apiRoot}/`) && !pages.has(pattern) && !openPaths.has(pattern)
      const elsewhere = metrics.http.route("other", "unmatched")
      for (const [pattern, methods] of methodsOf) {
        const allow = methods.flatMap(method => (method === "GET" ? ["GET", "HEAD"] : [method])).join(", ")
        app.any(pattern, (res, req) =>
          serveNothing(elsewhere, "method_not_allowed", { allow, isGated: isGated(pattern) }, res, req),
        )
      }
      app.any(`${apiRoot}/*`, (res, req) => serveNothing(elsewhere, "not_found", { isGated: true }, res, req))
      app.any("/*", (res, req) => serveNothing(elsewhere, "not_found", { isGated: false }, res, req))
    },

    /** From now on every answer ends its connection, so that clients go elsewhere with their next request. */
    farewell(): void {
      surroundings.closing = true
    },

    /** Waits for the answers under way. The listening socket is the caller's. */
    async close(): Promise<void> {
      surroundings.closing = true
      if (inFlight > 0) await new Promise<void>(resolve => (idle = resolve))
      clearInterval(sweep)
    },
  }
}

export type HttpServer = ReturnType<typeof createHttpServer>

/** Administrators' routes call every refusal of a token by one name. */
const wordsFor = (route: Route | undefined) =>
  route?.auth === "administrator" ? { message: errors.administrator_only.message } : undefined

const tokenErrors = {
  malformed: "invalid_token",
  unknown: "unknown_token_type",
  revoked: "revoked_token",
  expired: "expired_token",
} as const satisfies Record<string, ErrorCode>

function prepare(
  route: Route,
  handler: Prepared["handler"],
  bucket: RouteBucket | undefined,
  metrics: Pick<Metrics, "http">,
): Omit<Prepared, "body" | "stream"> {
  const label = `${route.method} ${route.path}`
  return {
    label,
    route,
    handler,
    parameters: pathParameters(route.path),
    counted: route.limit !== "none",
    waits: !openInMaintenance.has(route),
    bucket,
    metrics: metrics.http.route(route.method, route.path),
  }
}

/** uWebSockets.js compares paths as they come; some clients encode the `@` of `@me`. */
function patternsOf(route: Route): string[] {
  const mounted = route.mount === "both" ? ["", apiRoot] : [route.mount === "api" ? apiRoot : ""]
  if (route.takesRest) return mounted.map(mount => mount + route.path.replace(/:\w+$/, "*"))
  const paths = route.path.includes("@") ? [route.path, route.path.replaceAll("@", "%40")] : [route.path]
  return mounted.flatMap(mount => paths.map(path => mount + path))
}

/** What of a path stands in the place of a template's last parameter. */
function restOf(url: string, template: string): string {
  const path = url.startsWith(`${apiRoot}/`) ? url.slice(apiRoot.length) : url
  return path
    .split("/")
    .slice(template.split("/").length - 1)
    .join("/")
}

/** Whether a client that says what it has has what bears this tag. */
const isNamed = (etag: string, ifNoneMatch: string | undefined): boolean =>
  ifNoneMatch?.split(",").some(tag => tag.trim().replace(/^W\//, "") === etag) ?? false

/** The token; null when one is needed and none came; undefined when the route is open, so that an old token harms nobody. */
function tokenIn(exchange: Exchange, route: Route): string | null | undefined {
  if (route.auth === "public") return undefined
  const { authorization } = exchange
  if (authorization === undefined || exchange.repeatedAuthorization || !authorizationShape.test(authorization))
    return null
  return authorization.slice(authorization.indexOf(" ") + 1)
}

const sentSeveral = ({ authorization, repeatedAuthorization }: Exchange): boolean =>
  repeatedAuthorization || (authorization?.includes(",") ?? false)

function idempotencyKeyIn({ idempotencyKey }: Exchange): string | undefined {
  if (idempotencyKey === undefined || idempotencyKey === "") return undefined
  if (idempotencyShape.test(idempotencyKey)) return idempotencyKey
  throw invalid([
    {
      loc: ["header", "Idempotency-Key"],
      msg: "must have 1 to 64 printable ASCII characters",
      type: "string_pattern_mismatch",
    },
  ])
}

/** Why something is done, for the audit log: UTF-8, percent-encoded, since a header is ASCII. Blank: none. */
function auditReasonIn({ auditReason }: Exchange): string | undefined {
  if (auditReason === undefined) return undefined
  const reason = /^[\x20-\x7e]*$/.test(auditReason) ? decoded(auditReason)?.trim() : undefined
  if (reason !== undefined && !isUnsafe(reason) && codePoints(reason) <= limits.banReason) return reason || undefined
  throw invalid([
    {
      loc: ["header", "X-Audit-Log-Reason"],
      msg: `must be percent-encoded UTF-8 of at most ${limits.banReason} characters`,
      type: "value_error",
    },
  ])
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}

/** Paths have no slash at their end. `//host/` would lead elsewhere. */
const mayRedirect = (url: string): boolean =>
  url.length > 1 && url.endsWith("/") && url !== `${apiRoot}/` && !/^\/[/\\]/.test(url)
