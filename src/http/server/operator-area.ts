import { hash } from "node:crypto"
import { errors, fail, type Failure } from "../../contract/core/errors.ts"
import type { Route, Trail } from "../../contract/core/registry.ts"
import { operatorRedirects } from "../../contract/pages.ts"
import { trustedProxies } from "../../domain/core/client-address.ts"
import { hostRanges, mayEnter, type HostRules } from "../../domain/operators/hosts.ts"
import { operatorTokenShape, type Operator } from "../../domain/operators/operators.ts"
import { cut, keptInput, trailText, type TrailNote } from "../../domain/operators/trail.ts"
import type { Log } from "../../observability/log.ts"
import type { Storage } from "../../storage/storage.ts"
import type { Exchange } from "./exchange.ts"
import { setNewest } from "../../std/bounded-map.ts"
import { toFailure } from "./failures.ts"
import type { Call } from "./handlers.ts"
import { apiRoot, type PreparedRoute } from "./prepared-route.ts"

/** The settings of the same names. */
export interface OperatorAreaRules {
  readonly admin_ui_enabled: boolean
  readonly admin_ui_path: string
  readonly admin_ui_host_restriction: boolean
  readonly admin_ui_allowed_hosts: readonly string[]
}

export interface OperatorAreaOptions {
  readonly rules: OperatorAreaRules
  readonly storage: Pick<Storage, "operators" | "operatorTrail">
}

interface Surroundings {
  /** Addresses and CIDR ranges whose forwarding headers are believed. */
  readonly trustedProxies: readonly string[]
  readonly log: Log
}

const scheme = "Bearer "
const bearerIn = (authorization: string | undefined): string | undefined =>
  authorization?.startsWith(scheme) ? authorization.slice(scheme.length) : undefined

const cutTarget = (target: string | undefined) => (target === undefined ? undefined : cut(target))

/** Milliseconds for which a session is remembered, and how many are. */
const knownMs = 60_000
const maxKnown = 1_000

/** What is recorded of what came, before anything is done. */
function inputOf(trail: Trail, { operator, params, query, body }: Call) {
  const named = params as Record<string, string> | undefined
  const sent = body as Record<string, unknown> | undefined
  const target = trail.target === undefined ? named && Object.values(named)[0] : sent?.[trail.target]
  const kept = keptInput(trail, query, sent)
  return {
    target: cutTarget(typeof target === "string" || target === undefined ? target : JSON.stringify(target)),
    input: trailText({ ...named, ...kept }),
    address: operator!.address,
  }
}

/**
 * The operator area's own checks, and its trail. It keeps:
 *   OPS1  No answer of the area but this refusal goes to who does not come from an allowed
 *       address.
 *   OPS2  A call that changes something is in the trail before it does anything: where it cannot
 *       be recorded, it is not carried out.
 *   OPS3  A session that was ended is refused by every worker from then on: none keeps it.
 */
export class OperatorArea {
  readonly isEnabled: boolean
  readonly path: string
  readonly #hosts: HostRules
  readonly #storage: OperatorAreaOptions["storage"]
  readonly #log: Log
  /** Until when, on the clock of `performance.now`. */
  readonly #known = new Map<string, number>()

  constructor({ rules, storage }: OperatorAreaOptions, surroundings: Surroundings) {
    this.isEnabled = rules.admin_ui_enabled
    this.path = rules.admin_ui_path
    this.#hosts = {
      trustedProxies: trustedProxies(surroundings.trustedProxies),
      allowed: rules.admin_ui_host_restriction ? hostRanges(rules.admin_ui_allowed_hosts) : undefined,
    }
    this.#storage = storage
    this.#log = surroundings.log
  }

  /** Of a route that is in the area under all of its paths. */
  isOnlyHere = ({ mount, auth }: Route): boolean => mount === "operators" && auth !== "administrator"

  /** Where it is; undefined: it is switched off. */
  get openPath(): string | undefined {
    return this.isEnabled ? this.path : undefined
  }

  /** The area's roots, whether or not it is switched on. */
  get roots(): string[] {
    return [apiRoot + this.path, this.path]
  }

  /** Paths that lead elsewhere: with which status, and where to. */
  get redirects(): { pattern: string; status: 302 | 307; to: string }[] {
    if (!this.isEnabled) return []
    const [api, host] = this.roots as [string, string]
    const home = ["", "/"].map(end => ({ pattern: host + end, status: 302 as const, to: `${api}/ui` }))
    const others = this.roots.flatMap(root =>
      operatorRedirects.map(({ from, to }) => ({ pattern: root + from, status: 307 as const, to: root + to })),
    )
    return [...home, ...others.filter(({ pattern }) => home.every(each => each.pattern !== pattern))]
  }

  requireAddress(exchange: Exchange): void {
    if (!mayEnter(exchange, this.#hosts)) throw fail("access_denied")
  }

  /**
   * The digest of the token of an operator who calls; null: the route needs one and none came;
   * undefined: this is no call of an operator.
   */
  sessionIn({ authorization, repeatedAuthorization }: Exchange, { auth }: Route): string | null | undefined {
    if (auth === "public" || auth === "optional" || auth === "user" || auth === "person") return undefined
    if (auth !== "operator" && !this.isEnabled) return undefined
    const token = repeatedAuthorization ? undefined : bearerIn(authorization)
    if (auth === "operator") return token === undefined || token === "" ? null : hash("sha256", token, "hex")
    return token !== undefined && operatorTokenShape.test(token) ? hash("sha256", token, "hex") : undefined
  }

  /**
   * Whether this session was good a moment ago: its calls take nothing from the limits of an
   * address, which are for those who are not known. That it is good still is looked at all the same.
   */
  isKnown(session: string | null | undefined, { startedAt }: Exchange): boolean {
    return typeof session === "string" && (this.#known.get(session) ?? 0) > startedAt
  }

  /** What comes with a call of the area that needs no session. */
  tokenBeside({ authorization }: Exchange, { mount, auth }: Route): string | undefined {
    const isOpen = mount === "operators" && auth === "public"
    return isOpen ? bearerIn(authorization) : undefined
  }

  /** @param session what `sessionIn` said */
  async operatorOf(session: string | null, exchange: Exchange, { auth }: Route): Promise<Operator> {
    if (session === null) throw fail("invalid_token")
    const address = exchange.client.text
    const found = await this.#storage.operators.findSession(session)
    if (found && auth !== "operator") this.requireAddress(exchange)
    if (found && auth === "operator") setNewest(this.#known, session, exchange.startedAt + knownMs, maxKnown)
    if (found) return { id: found.operator_id, name: found.name, address, session }
    if (auth === "operator") throw fail("operator_session_ended")
    throw fail("invalid_token", auth === "administrator" ? { message: errors.administrator_only.message } : {})
  }

  /** Answers a call, and records it where it is to be recorded. */
  async answer({ route, name, handler }: PreparedRoute, call: Call): Promise<unknown> {
    const { operator } = call
    const trail = route.trail
    if (!trail || !operator) {
      if (!this.isOnlyHere(route) || operator) return handler(call)
      return this.#answerUnknown(name, handler, call)
    }
    const id = await this.#storage.operatorTrail.begin({ operator, action: name, ...inputOf(trail, call) })
    try {
      const reply = await handler(call)
      await this.#end(id, 200, undefined, call.trail)
      return reply
    } catch (error) {
      const failure = toFailure(error)
      await this.#end(id, errors[failure.code].status, failure, call.trail)
      throw error
    }
  }

  /** A call without a session, such as a sign-in: recorded once it is known whose it was. */
  async #answerUnknown(action: string, handler: PreparedRoute["handler"], call: Call): Promise<unknown> {
    let failure: Failure | undefined
    try {
      return await handler(call)
    } catch (error) {
      failure = toFailure(error)
      throw error
    } finally {
      const { operator, target } = call.trail
      // Somebody who is refused again and again does not fill the trail: what led to it is there.
      if (failure?.code !== "operator_locked" && (operator || target !== undefined)) {
        const entry = { operator, action, target: cutTarget(target), input: "{}", address: call.address! }
        // What was answered stands: a session is open, and codes are shown once.
        const id = await this.#storage.operatorTrail.begin(entry).catch((error: unknown) => {
          this.#log.error({ err: error, action, operator: operator?.id }, "an operator's call is not recorded")
        })
        if (id !== undefined) await this.#end(id, failure ? errors[failure.code].status : 200, failure, call.trail)
      }
    }
  }

  /** What was done is done: where this fails, the entry stays without an end. */
  async #end(id: string, outcome: number, failure: Failure | undefined, { result = {} }: TrailNote): Promise<void> {
    await this.#storage.operatorTrail
      .end(id, { outcome, error: failure?.code, result: trailText(result) })
      .catch((error: unknown) =>
        this.#log.warn({ err: error, entry: id }, "the end of an operator's call is not recorded"),
      )
  }
}
