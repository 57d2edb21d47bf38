import { isTransient } from "../../runtime/transient.ts"
import { randomUUID } from "node:crypto"
import type { z } from "zod"
import type { GatewaySessions } from "../../cluster/gateway-sessions.ts"
import type { Holder } from "../../cluster/tokens.ts"
import { Identify, ready } from "../../contract/core/gateway.ts"
import { avatarPath } from "../../contract/accounts/users.ts"
import { shownBadges } from "../../domain/accounts/badges.ts"
import type { Clock } from "../../std/clock.ts"
import type { Metrics } from "../../observability/metrics.ts"
import type { Arrival } from "../../storage/messages/arrivals.ts"
import { Frame, FrameRefused } from "../protocol/frames.ts"
import type { Subscriptions } from "../fan-out/subscriptions.ts"
import { ownText } from "../../std/own-text.ts"
import type { ArrivalOf } from "./arrivals.ts"
import { retryTransient } from "./retry-transient.ts"
import type { HomeSubscriptions } from "../fan-out/home-subscriptions.ts"
import type { Span } from "../state/log-spans.ts"
import type { Guild } from "../state/server-view.ts"
import { newSession, wholeMs, type Connection, type Session } from "../state/session.ts"
import { HeldHomes } from "./held-homes.ts"
import { ClientDisconnected, type Sessions } from "./sessions.ts"
import type { TokenCheck } from "./token-check.ts"

export interface IdentifyOptions {
  readonly self: string
  readonly subscriptions: Subscriptions
  readonly homes: HomeSubscriptions
  readonly sessions: Sessions
  readonly records: GatewaySessions
  readonly tokens: TokenCheck
  readonly arrivalOf: ArrivalOf
  /** How many requests are handled at once, and how many may wait. */
  readonly queue: { readonly maxConcurrent: number; readonly maxWaiting: number }
  readonly clock: Clock
  readonly metrics: Metrics
}

type IdentifyRequest = z.output<typeof Identify>
type Ready = z.output<typeof ready.data>

/**
 * While PostgreSQL is away an IDENTIFY waits so many milliseconds before its client is told to come
 * again.
 */
const identifyTimeoutMs = 5_000
/** The second part of IDENTIFY has at least so many milliseconds, however long the first took. */
const minTimeoutMs = 1_000
const timeoutStepMs = 250

/**
 * How sessions begin: IDENTIFY makes one, which reads the log and goes live at its head. It keeps:
 *   IDENT1  READY has the state at a position, and everything after that position follows.
 */
export class IdentifyHandler {
  readonly #options: IdentifyOptions
  #identifying = 0
  #spans: readonly Span[] = []
  readonly #queue: { readonly go: () => void; readonly refuse: (error: unknown) => void; readonly since: number }[] = []

  constructor(options: IdentifyOptions) {
    this.#options = options
  }

  async identify(connection: Connection, d: unknown): Promise<void> {
    const { tokens, clock, metrics } = this.#options
    if (d === null || typeof d !== "object" || Array.isArray(d) || Object.keys(d).length === 0)
      throw new FrameRefused("decode_error")
    const { token } = d as { token?: unknown }
    if (typeof token !== "string" || token === "") throw new FrameRefused("authentication_failed")
    const asked = Identify.safeParse(d)
    if (!asked.success)
      throw new FrameRefused(
        asked.error.issues.some(issue => issue.path[0] === "intents") ? "invalid_intents" : "decode_error",
      )

    const startedAt = clock.monotonic()
    const access = await retryTransient(clock, identifyTimeoutMs, () => tokens.accessOf(connection, asked.data))
    // An IDENTIFY in the queue waits for others. The rest of its time is for PostgreSQL and Redis.
    // In steps, as Node keeps a list for each length of a timer.
    const leftMs = identifyTimeoutMs - (clock.monotonic() - startedAt)
    const remainingMs = Math.max(minTimeoutMs, Math.ceil(leftMs / timeoutStepMs) * timeoutStepMs)
    if (!access) throw new FrameRefused("authentication_failed")
    metrics.gateway.identifies.inc()
    const turn = this.#turn()
    if (turn) await turn
    this.#identifying++
    try {
      await retryTransient(clock, remainingMs, isLate => this.#begin(connection, access, asked.data, isLate))
    } catch (error) {
      if (isTransient(error)) this.#refuseWaiting(error)
      throw error
    } finally {
      this.#identifying--
      this.#queue.shift()?.go()
    }
  }

  /** IDENT1: register first, then take the position, then read the state. */
  async #begin(
    connection: Connection,
    access: Holder,
    { intents, compress }: IdentifyRequest,
    isLate: () => boolean,
  ): Promise<void> {
    const { subscriptions, homes, sessions, arrivalOf, clock, self, records } = this.#options
    let position = 0
    let known: Arrival | undefined
    const held = new HeldHomes(homes)
    let begun: Session
    let counted = ""
    try {
      await held.holdUser(access.user_id)
      let guilds: Guild[]
      for (let isFirst = true; ; isFirst = false) {
        position = subscriptions.position
        // After the position the log tells when the access session ends. An end before the position
        // was committed before this query.
        known = await arrivalOf(access.session_id)
        // A bot's session stays the same when its token does not (STAT2).
        if (known?.token_hash !== access.token_hash) throw new FrameRefused("authentication_failed")
        this.#options.tokens.requireLetIn(known)
        guilds = []
        const loading: Promise<unknown>[] = []
        for (const { server_id, roles } of known.memberships) {
          const view = homes.view(server_id)
          if (view) guilds.push(view.seen(roles, view.at(position)))
          if (!isFirst && held.has(server_id)) continue
          if (!view) loading.push(held.load(ownText(server_id)))
          else if (!held.tryHold(view.id)) held.hold(view.id).catch(() => {})
        }
        if (loading.length === 0) break
        await Promise.all(loading)
        // Events of these servers were not taken yet: membership is read again now that they are.
      }
      const session = newSession(
        {
          id: randomUUID().replaceAll("-", ""),
          user: access.user_id,
          accessSession: access.session_id,
          intents,
          encoding: sessions.encodingFor(connection, compress),
          cursor: position,
          before: known.received,
          spans: this.#spansFrom(position),
        },
        wholeMs(clock),
      )
      counted = session.id
      await sessions.begin(
        session,
        guilds.map(({ view }) => view.id),
      )
      if (connection.closed || isLate()) throw new ClientDisconnected()
      if (guilds.some(({ view }) => view.isOver)) throw new FrameRefused("try_again_later")
      held.keep(access.user_id)
      for (const { view } of guilds) held.keep(view.id)
      held.release()
      subscriptions.addGuilds(session, guilds)
      sessions.add(session)
      begun = session
    } catch (error) {
      held.release()
      if (counted)
        await Promise.allSettled([records.disconnect(access.user_id, counted, self), records.forget(counted, self)])
      if (error instanceof ClientDisconnected) return
      throw error
    }
    sessions.attach(connection, begun, new Frame(ready.name, position, this.#ready(begun, known, connection)))
  }

  /** Where a session is that begins: sessions that begin at one position share it. */
  #spansFrom(position: number): readonly Span[] {
    if (this.#spans[0]?.lo !== position)
      this.#spans = [{ log: this.#options.self, lo: position, hi: null, counted: false, since: position }]
    return this.#spans
  }

  /** What READY tells a session that begins, as JSON: what it says of a server is the same for all. */
  #ready(session: Session, user: Arrival, { gatewayUrl }: Connection): string {
    const before = {
      v: 10,
      user: {
        id: user.user_id,
        username: user.username,
        discriminator: "0",
        avatar: null,
        avatar_url: avatarPath(user.user_id),
        badges: shownBadges(user.badges),
        bot: user.bot,
      },
    } satisfies Partial<Ready>
    const after = {
      session_id: session.id,
      resume_gateway_url: gatewayUrl,
      application: { id: user.user_id, flags: 0 },
    } satisfies Partial<Ready>
    const guilds = session.guilds.values().map(({ view }) => view.ready)
    return `${JSON.stringify(before).slice(0, -1)},"guilds":[${guilds.join()}],${JSON.stringify(after).slice(1)}`
  }

  /** Undefined: at once. */
  #turn(): Promise<void> | undefined {
    const { maxConcurrent, maxWaiting } = this.#options.queue
    if (this.#identifying < maxConcurrent) return undefined
    if (this.#queue.length >= maxWaiting) throw new FrameRefused("try_again_later")
    const since = this.#options.clock.monotonic()
    return new Promise<void>((go, refuse) => this.#queue.push({ go, refuse, since }))
  }

  /**
   * After a request has failed for as long as it may take, those behind it, which have waited as
   * long, would fail too.
   */
  #refuseWaiting(error: unknown): void {
    const before = this.#options.clock.monotonic() - identifyTimeoutMs
    while (this.#queue[0] && this.#queue[0].since <= before) this.#queue.shift()!.refuse(error)
  }
}
