import type { Ask, Create } from "../../actors/runtime/actor.ts"
import type { Caller } from "../../cluster/admission.ts"
import type { Tokens } from "../../cluster/tokens.ts"
import type { Auth, BodyOf, JobRequest, ParamsOf, QueryOf, ReplyOf, Route } from "../../contract/registry.ts"
import type { getStatus } from "../../contract/system.ts"
import type { Snowflake } from "../../contract/fields.ts"
import type { AccessTokens } from "../../domain/access-tokens.ts"
import { shownBadges } from "../../domain/badges.ts"
import type { AgeGate } from "../../domain/birth-dates.ts"
import type { OAuthPolicy } from "../../domain/oauth.ts"
import type { PasswordRules } from "../../domain/passwords.ts"
import type { Seen } from "../../domain/presences.ts"
import type { Actor } from "../../domain/states.ts"
import type { IceServersFor } from "../../domain/voice.ts"
import type { LinkTo } from "../../domain/attachments.ts"
import type { Health } from "../../observability/health.ts"
import type { Log } from "../../observability/log.ts"
import type { Blobs } from "../../storage/blobs.ts"
import type { Storage } from "../../storage/storage.ts"
import type { Classifiers } from "../../integrations/classifiers.ts"
import type { DeliveryCounts } from "../../views/delivery-counts.ts"
import type { FormStream } from "./form-stream.ts"
import type { Hashing } from "../../integrations/password-hashing.ts"
import type { SearchReach } from "../search.ts"
import type { Secrets } from "../../integrations/secrets.ts"

/** What the operator decides about the REST door. The names are those of the configuration. */
export interface HttpPolicy extends PasswordRules, AgeGate, OAuthPolicy {
  readonly voice_enabled: boolean
  readonly reserved_usernames: readonly string[]
  readonly blocked_usernames: readonly string[]
  readonly email_allowed_domains: readonly string[]
  readonly alpha_registration: boolean
  readonly search_enabled: boolean
  readonly search_languages: readonly string[]
  readonly email_verification_required: boolean
  readonly mails_per_hour: number
  readonly server_name: string
  readonly login_failures_allowed: number
  readonly login_lockout_minutes: number
  readonly two_factor_challenge_seconds: number
  readonly two_factor_issuer?: string | undefined
  readonly account_deletion_days: number
  readonly export_interval_hours: number
  readonly session_lifetime_hours: number
  readonly token_binding: boolean
  readonly sessions_per_user: number
  readonly min_client_version: string
  readonly cors_allowed_origins: readonly string[]
}

/** What handlers have at hand. */
export interface Http {
  readonly ask: Ask
  readonly create: Create
  readonly storage: Pick<
    Storage,
    | "users"
    | "sessions"
    | "oneTimeTokens"
    | "mails"
    | "oauth"
    | "servers"
    | "search"
    | "guildMembers"
    | "auditLog"
    | "automod"
    | "bans"
    | "invites"
    | "messages"
    | "reactions"
    | "polls"
    | "directs"
    | "presences"
    | "relationships"
    | "readState"
    | "messagingSettings"
    | "settings"
    | "notifications"
    | "notificationSettings"
    | "accountDeletion"
    | "exports"
    | "emojis"
    | "stickers"
    | "icons"
    | "files"
    | "uploads"
    | "webhooks"
  >
  readonly blobs: Blobs
  /** To how many people messages were delivered. */
  readonly delivered: Pick<DeliveryCounts, "counts">
  /** Work for later; the rows that it is about are there already. */
  readonly addJob: (job: JobRequest) => Promise<void>
  readonly tokens: Pick<Tokens, "invalidate">
  readonly hashing: Hashing
  /** What auto-moderation asks about texts. */
  readonly classifiers: Classifiers
  readonly secrets: Secrets
  /** Where a file of a message can be read from now on, by whoever is told. */
  readonly linkTo: LinkTo
  /** Users as others see them; who is not in it is offline. */
  readonly presences: {
    of(users: readonly Snowflake[]): Promise<ReadonlyMap<Snowflake, Seen>>
    /** The same, as far as it can be known now. */
    lookUp(users: readonly Snowflake[]): Promise<{
      readonly seen: ReadonlyMap<Snowflake, Seen>
      readonly unknown: ReadonlySet<Snowflake>
    }>
  }
  /** Workers that hold gateway sessions of a user. */
  readonly workersOf: (user: Snowflake) => Promise<string[]>
  /** Once so many milliseconds are over, unless this process has ended by then. */
  readonly later: (milliseconds: number, work: () => Promise<unknown>) => void
  /** That a user types is taken back when his last gateway socket ends. */
  readonly noteTyping: (user: Snowflake, channel: Snowflake) => Promise<void>
  readonly health: Pick<Health, "ready">
  /** What `/status` says of the service; `uptime_seconds` and `version` are the door's own. */
  readonly status: () => Omit<ReplyOf<typeof getStatus>, "version" | "uptime_seconds">
  readonly iceServers: IceServersFor
  /** How far one search looks. */
  readonly searchReach: SearchReach
  /** What applications present, where an operator asks for that. */
  readonly accessTokens: () => AccessTokens
  readonly policy: HttpPolicy
  /** Where a client that is too old gets a newer one. */
  readonly publicUrl: string
  readonly log: Log
  /** Whether `/docs` is served. */
  readonly hasDocs: boolean
  /** Unix milliseconds. */
  readonly clock: () => number
}

/** A request that has passed every gate. */
export interface Call<R extends Route = Route> {
  readonly params: ParamsOf<R>
  readonly query: QueryOf<R>
  readonly body: BodyOf<R>
  readonly caller: CallerOf<R["auth"]>
  /** The token that the request came with; `""` where the route asks for none. */
  readonly token: string
  /** The client's address as text. */
  readonly address: string
  readonly userAgent: string
  /** The header of this name, if it may serve as a nonce. */
  readonly idempotencyKey: string | undefined
  /** Why, for the audit log, as the header says; see `auditReasonIn`. */
  readonly reason: string | undefined
  /** The form whose file comes while it is taken, where the route has such a one. */
  readonly form: FormStream | undefined
  /** Which bytes are asked for, as the header `Range` says, and of which version alone, as `If-Range` does. */
  readonly range: string | undefined
  readonly ifRange: string | undefined
}
/** Undefined: the link was signed. */
type CallerOf<A extends Auth> = A extends "public" ? undefined : A extends "signed" ? Caller | undefined : Caller

/** An answer that is JSON already: text, or its UTF-8. */
export class Encoded<Reply> {
  declare readonly reply: Reply
  readonly json: string | Uint8Array
  constructor(json: string | Uint8Array) {
    this.json = json
  }
}

type Answered<R extends Route> = ReplyOf<R> | Encoded<ReplyOf<R>>
export type Handler<R extends Route> = (call: Call<R>) => Answered<R> | Promise<Answered<R>>
/** One handler per declared route: a missing one does not compile. */
export type Handlers<Routes extends Record<string, Route>> = { readonly [Name in keyof Routes]: Handler<Routes[Name]> }

/** The caller as a turn knows him. */
export const actorOf = (caller: Caller): Actor => ({
  id: caller.user_id,
  username: caller.username,
  bot: caller.bot,
  badges: shownBadges(caller.badges),
})
