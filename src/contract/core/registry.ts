import { z } from "zod"
import type { ErrorCode } from "./errors.ts"
import type { Intent } from "./intents.ts"
import { labelOf, routeRateLimits, type RateLimit } from "./limits.ts"
import type { Permission } from "./permissions.ts"

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE"

/**
 * Who may call. `public` needs no token; the others need `Authorization: Bearer` or `Bot`: of
 * anybody, of somebody who is no bot, or of an account with the permission `administrator`.
 * `signed` is open to anybody, too, who has a link that is signed. `operator` needs the session of
 * an operator, which is no user; `administrator` and `signed` take that, too. `optional` is open to
 * anybody, and a user's token that is good says who it is.
 */
export type Auth = "public" | "optional" | "user" | "person" | "administrator" | "signed" | "operator"

/**
 * Where a route is. `api`: under `/api/v1`; `root`: at the host root; `both`. `operators`: in the
 * operator area, at `admin_ui_path` under `/api/v1` and at the host root. The path is declared as it
 * is by default: it begins with `/admin`.
 */
export type Mount = "api" | "root" | "both" | "operators"

/** The path of the operator area unless the operator chooses another. */
export const operatorsRoot = "/admin"

/**
 * What the trail of operators keeps of a call beside the values in its path: these keys of its body
 * and query, shortened. Passwords, codes and tokens are never among them.
 */
export interface Trail {
  readonly keeps: readonly string[]
  /** The key of the body that says what the call is about; absent: the first value of the path is that. */
  readonly target?: string
}

/** A request without the good token of a user, or where that will do of an operator, is refused. */
export const isForUsers = ({ auth }: { readonly auth: Auth }): boolean =>
  auth !== "public" && auth !== "optional" && auth !== "operator"

/**
 * What a caller needs in the server that a route is about: to own it, to be in it, or any of these
 * permissions.
 */
export type Needed = "owner" | "member" | readonly [Permission, ...Permission[]]

/**
 * A body that comes as `multipart/form-data`; without a file `application/x-www-form-urlencoded`
 * will do.
 */
export interface Form {
  /**
   * Which of the body's keys is a file, of how many bytes at most, and the refusal of a larger one.
   */
  readonly file?: {
    readonly name: string
    readonly bytes: number
    readonly tooLarge: ErrorCode
    /**
     * It is not taken into memory: the handler takes it as it comes, from the call's `form`. Its body
     * is empty then.
     */
    readonly isStreamed?: true
  }
}

export interface Route<
  P extends z.ZodObject | undefined = z.ZodObject | undefined,
  Q extends z.ZodObject | undefined = z.ZodObject | undefined,
  B extends z.ZodType | undefined = z.ZodType | undefined,
  R extends z.ZodType = z.ZodType,
  A extends Auth = Auth,
> {
  readonly method: Method
  /** Parameters are written `:name`. */
  readonly path: string
  readonly mount: Mount
  /** What it does. The first sentence is its title in lists. */
  readonly summary: string
  readonly tag: string
  readonly auth: A
  /** Who may call it, where a rule of its own decides, in words: beside `permission`, or in its place. */
  readonly openTo?: string
  /**
   * It is noted in the server's audit log, with the reason that the header `X-Audit-Log-Reason`
   * gives.
   */
  readonly isAudited: boolean
  /** Absent: an operator's call is not recorded. See `operators/trail.ts`. */
  readonly trail: Trail | undefined
  /** Absent: the route is about no server, or open to users who are not in it. */
  readonly permission?: Needed
  /**
   * The route's own bucket beside the global, user and address buckets, from the table in
   * limits.ts. `none`: the limiter leaves the path out.
   */
  readonly limit?: RateLimit | "none"
  readonly params: P
  /** The last parameter is all that is left of the path, slashes and all. */
  readonly takesRest: boolean
  readonly query: Q
  readonly body: B
  /** A body as clients send it, but for the file of a form. */
  readonly example: unknown
  /** Absent: the body is JSON. */
  readonly form: Form | undefined
  /** A body may be missing altogether. */
  readonly bodyOptional: boolean
  /** Whether an API access token is asked for where the server has any. */
  readonly isGated: boolean
  /** Open to an account that has to choose another name first. */
  readonly isForRenaming: boolean
  /** The refusal of a request without a token; absent: "authentication_required". */
  readonly failsWithoutToken?: ErrorCode
  /** The refusal while PostgreSQL does not answer; absent: "unavailable". */
  readonly failsWithoutDatabase?: ErrorCode
  /** Content types of an answer that is not JSON: `reply` is `Content` then. */
  readonly produces: readonly string[] | undefined
  /**
   * Some of it is answered with 206, what is known already with 304, and with 307 where an object
   * store has it.
   */
  readonly takesRanges: boolean
  /** The header `X-Next-Cursor` says how to go on, where there is more. */
  readonly hasNextCursor: boolean
  /** It is answered with 204 and no content. */
  readonly isEmpty: boolean
  /** Pages of every origin may read the answer, without credentials: images. */
  readonly isForAnyOrigin: boolean
  /**
   * Nobody keeps the answer (`Cache-Control: no-store`): it is JSON that is one caller's alone, or
   * that may hold tokens and secrets. False: the answer says itself how long it may be kept, or it is
   * the same for everybody.
   */
  readonly isUnstored: boolean
  readonly reply: R
  /**
   * Beyond these: validation, authentication, limits and "unavailable", which every route shares.
   */
  readonly fails: readonly ErrorCode[]
}

/**
 * Bytes that are read only when they are wanted and there is capacity for them. Another result has
 * headers of its own.
 */
export interface Unread {
  readonly size: number
  readonly read: () => Promise<Content & { body: Uint8Array<ArrayBuffer> }>
}

/**
 * Bytes that are read while they are sent, because there may be more of them than fit into memory.
 */
export interface Streamed {
  readonly size: number
  readonly open: () => Promise<{
    /** So many from there. */
    read(from: number, length: number): Promise<Uint8Array>
    close(): Promise<void>
  }>
  /** Another address with the same bytes, where there is one: the client is sent there. */
  readonly link?: () => Promise<string | undefined>
}

/** An answer that is not JSON. A handler may add headers of its own. */
export const Content = z.object({
  contentType: z.string(),
  /** 206: some of it. */
  status: z.literal(206).optional(),
  body: z.union([
    z.instanceof(Uint8Array),
    z.custom<Unread>(value => typeof (value as Partial<Unread> | null)?.read === "function"),
    z.custom<Streamed>(value => typeof (value as Partial<Streamed> | null)?.open === "function"),
  ]),
  /** A request whose `If-None-Match` names the `ETag` among them is answered without the body. */
  headers: z.record(z.string(), z.string()).optional(),
})
export interface Content {
  contentType: string
  status?: 206 | undefined
  body: Uint8Array<ArrayBuffer> | Unread | Streamed
  headers?: Record<string, string> | undefined
}

/** A file of a form. What its sender says of it is a hint to people and decides nothing. */
export interface FormFile {
  readonly bytes: Uint8Array
  readonly filename?: string | undefined
  readonly type?: string | undefined
}
export const FormFile = z
  .custom<FormFile>(value => (value as FormFile | null | undefined)?.bytes instanceof Uint8Array, "must be a file")
  .meta({ type: "string", format: "binary" })

/**
 * A body as clients send it; of a form without its file. It is needed where a body has anything that
 * must be there.
 */
type ExampleOf<B> = B extends z.ZodType
  ? { [Key in keyof z.input<B> as z.input<B>[Key] extends FormFile ? never : Key]: z.input<B>[Key] }
  : {}
type WithExample<B> = {} extends ExampleOf<B> ? { example?: ExampleOf<B> } : { example: ExampleOf<B> }

/** Whether an operator who calls it changes something. */
const isChange = ({ auth, method }: { readonly auth: Auth; readonly method: Method }): boolean =>
  (auth === "operator" || auth === "administrator") && method !== "GET"

/**
 * Declares one REST route: from it come validation, the handler's type, `/openapi.json`, the
 * client's method and the tests that hold us to it.
 */
export function defineRoute<
  R extends z.ZodType,
  A extends Auth,
  P extends z.ZodObject | undefined = undefined,
  Q extends z.ZodObject | undefined = undefined,
  B extends z.ZodType | undefined = undefined,
>(
  route: WithExample<B> & {
    method: Method
    path: string
    mount?: Mount
    summary: string
    tag: string
    auth: A
    openTo?: string
    permission?: Needed
    isAudited?: boolean
    trail?: Trail
    limit?: "none"
    params?: P
    takesRest?: boolean
    query?: Q
    body?: B
    form?: Form
    bodyOptional?: boolean
    isGated?: boolean
    isForRenaming?: boolean
    failsWithoutToken?: ErrorCode
    failsWithoutDatabase?: ErrorCode
    produces?: readonly string[]
    takesRanges?: boolean
    hasNextCursor?: boolean
    isEmpty?: true
    isForAnyOrigin?: boolean
    /** Its answer is secret although anybody may ask for it, or although it is no JSON. */
    isSecret?: true
    reply: R
    fails: readonly ErrorCode[]
  },
): Route<P, Q, B, R, A> {
  const limit = route.limit ?? routeRateLimits.get(labelOf(route))
  return {
    ...route,
    ...(limit && { limit }),
    mount: route.mount ?? "api",
    params: route.params as P,
    takesRest: route.takesRest ?? false,
    query: route.query as Q,
    body: route.body as B,
    // A form may hold nothing but its file.
    example: route.example ?? (route.form && {}),
    form: route.form,
    isAudited: route.isAudited ?? false,
    trail: route.trail ?? (isChange(route) ? { keeps: [] } : undefined),
    bodyOptional: route.bodyOptional ?? false,
    isGated: route.isGated ?? route.mount !== "operators",
    isForRenaming: route.isForRenaming ?? false,
    produces: route.produces,
    takesRanges: route.takesRanges ?? false,
    hasNextCursor: route.hasNextCursor ?? false,
    isEmpty: route.isEmpty ?? false,
    isForAnyOrigin: route.isForAnyOrigin ?? false,
    isUnstored: route.isSecret ?? (route.produces === undefined && (route.auth !== "public" || route.method !== "GET")),
  }
}

type Output<T> = T extends z.ZodType ? z.output<T> : undefined
type Input<T> = T extends z.ZodType ? z.input<T> : unknown

/** What a handler receives, after validation. */
export type ParamsOf<R extends Route> = Output<R["params"]>
export type QueryOf<R extends Route> = Output<R["query"]>
export type BodyOf<R extends Route> = Output<R["body"]>
export type ReplyOf<R extends Route> = z.output<R["reply"]>

/**
 * What a client sends: parameters, query and body in one flat object, as the typed client and the
 * tests use it.
 */
export type CallOf<R extends Route> = Input<R["params"]> & Input<R["query"]> & Input<R["body"]>

/**
 * `stored`: committed with its cause and replayed on resume. `ephemeral`: sent at most once, may be
 * lost (typing, presence).
 */
export type Delivery = "stored" | "ephemeral"

export interface EventDefinition<N extends string = string, D extends z.ZodType = z.ZodType> {
  readonly name: N
  /**
   * Which intent bit lets it through; null: always. An event of a DM may need another bit than the
   * same event of a server.
   */
  readonly intent: { readonly server: Intent | null; readonly dm: Intent | null } | null
  readonly delivery: Delivery
  readonly summary: string
  readonly data: D
  /** The messages whose content the event changes; absent: it is not about messages. */
  about?(data: z.output<D>): MessageRefs
  /**
   * The event, on its way to somebody. `except` names users who do not get it; for an ephemeral
   * event to one user, that user's gateway sessions.
   */
  to<A>(audience: A, data: z.output<D>, options?: { except?: readonly string[] }): Dispatch<A>
}

/** Some messages of one channel. */
export type MessageRefs = readonly [channel: string, ...messages: string[]]

/** An event with its audience: what an actor's turn publishes. */
export interface Dispatch<A = unknown> {
  readonly kind: "event"
  readonly event: EventDefinition
  readonly audience: A
  readonly data: unknown
  readonly except: readonly string[]
  readonly about?: MessageRefs | undefined
}

/**
 * Declares one gateway event (op 0). From it come its type, the AsyncAPI document, the class of
 * sessions that receive it, and the check of every frame in the tests.
 */
export function defineEvent<N extends string, D extends z.ZodType>(event: {
  name: N
  intent: Intent | null | { server: Intent | null; dm: Intent | null }
  delivery: Delivery
  summary: string
  data: D
  about?(data: z.output<D>): MessageRefs
}): EventDefinition<N, D> {
  const definition: EventDefinition<N, D> = {
    ...event,
    intent: typeof event.intent === "string" ? { server: event.intent, dm: event.intent } : event.intent,
    to: (audience, data, options) => ({
      kind: "event",
      event: definition,
      audience,
      data,
      except: options?.except ?? [],
      about: event.about?.(data),
    }),
  }
  return definition
}

/**
 * Work that may happen later: a BullMQ job, fed from the outbox. Its payload is small and names
 * rows; its effect has a unique key.
 */
export interface JobDefinition<N extends string = string, D extends z.ZodType = z.ZodType> {
  readonly name: N
  readonly summary: string
  readonly data: D
  at(data: z.output<D>, options: { key: string; runAtMs?: number }): JobRequest
}
export interface JobRequest {
  readonly kind: "job"
  readonly job: string
  readonly data: unknown
  readonly key: string
  readonly runAtMs: number
}

export function defineJob<N extends string, D extends z.ZodType>(job: {
  name: N
  summary: string
  data: D
}): JobDefinition<N, D> {
  return { ...job, at: (data, { key, runAtMs = 0 }) => ({ kind: "job", job: job.name, data, key, runAtMs }) }
}
