import type { Caller } from "../../cluster/admission.ts"
import type { Auth, BodyOf, ParamsOf, QueryOf, ReplyOf, Route } from "../../contract/core/registry.ts"
import { shownBadges } from "../../domain/accounts/badges.ts"
import type { Actor } from "../../domain/accounts/accounts.ts"
import type { Operator } from "../../domain/operators/operators.ts"
import type { TrailNote } from "../../domain/operators/trail.ts"
import type { Longer } from "./answer-clock.ts"
import type { FormStream } from "./form-stream.ts"

/** A request that has passed every check. */
export interface Call<R extends Route = Route> {
  readonly params: ParamsOf<R>
  readonly query: QueryOf<R>
  readonly body: BodyOf<R>
  readonly caller: CallerOf<R["auth"]>
  /** The operator who calls. */
  readonly operator: OperatorOf<R["auth"]>
  /** What the handler adds to the entry in the trail of operators, where the call is recorded there. */
  readonly trail: TrailNote
  /** The token that the request came with; `""` where the route asks for none. */
  readonly token: string
  /** The client's address as text. */
  readonly address: AddressOf<R["auth"]>
  readonly userAgent: string
  /** The header of this name, if it may serve as a nonce. */
  readonly idempotencyKey: string | undefined
  /** Rate limits hold for the caller. */
  readonly isLimited: boolean
  /** Why, for the audit log, as the header says; see `auditReasonIn`. */
  readonly reason: string | undefined
  /** The form whose file comes while it is taken, where the route has such a one. */
  readonly form: FormStream | undefined
  /** The time that it takes does not count as the answer's: writing a file, waiting for a job worker. */
  readonly longer: Longer
  /**
   * Which bytes are asked for, as the header `Range` says, and of which version alone, as
   * `If-Range` does.
   */
  readonly range: string | undefined
  readonly ifRange: string | undefined
}
/** It is looked up where somebody may sign in, and of operators. */
type AddressOf<A extends Auth> = A extends "public" | "operator" ? string : undefined
/** Undefined: nobody had to say who they are, or an operator calls. */
type CallerOf<A extends Auth> = A extends "public" | "operator"
  ? undefined
  : A extends "signed" | "optional" | "administrator"
    ? Caller | undefined
    : Caller
type OperatorOf<A extends Auth> = A extends "operator"
  ? Operator
  : A extends "signed" | "administrator"
    ? Operator | undefined
    : undefined

/** One that anybody may make. */
export type PublicCall = Call<Route & { readonly auth: "public" }>

/**
 * An answer that is JSON already: text, or its UTF-8. `nextCursor`: how to go on, where the route
 * has that in a header.
 */
export class Encoded<Reply> {
  declare readonly reply: Reply
  readonly json: string | Uint8Array
  readonly nextCursor: string | null
  constructor(json: string | Uint8Array, nextCursor: string | null = null) {
    this.json = json
    this.nextCursor = nextCursor
  }
}

type Answered<R extends Route> = ReplyOf<R> | Encoded<ReplyOf<R>>
export type Handler<R extends Route> = (call: Call<R>) => Answered<R> | Promise<Answered<R>>
/** One handler per declared route: a missing one does not compile. */
export type Handlers<Routes extends Record<string, Route>> = { readonly [Name in keyof Routes]: Handler<Routes[Name]> }

/** The caller as a turn knows them. */
export const actorOf = (caller: Caller): Actor => ({
  id: caller.user_id,
  username: caller.username,
  bot: caller.bot,
  badges: shownBadges(caller.badges),
})
