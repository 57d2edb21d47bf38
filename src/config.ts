import { readFileSync } from "node:fs"
import { availableParallelism } from "node:os"
import { join, resolve } from "node:path"
import { isDeepStrictEqual } from "node:util"
import { RE2JS } from "re2js"
import { z } from "zod"
import type { ClusterConfig } from "../cluster.config.ts"
import type { AutomodClassifiers } from "./contract/communities/automod-settings.ts"
import { routes } from "./contract/contract.ts"
import { Snowflake } from "./contract/core/fields.ts"
import { labelOf } from "./contract/core/limits.ts"
import { operatorsRoot, type Route } from "./contract/core/registry.ts"
import { gatewayPath, pages, type PageRoute } from "./contract/pages.ts"
import { isHost } from "./domain/operators/hosts.ts"
import { rateLimitsWith, type RateLimitOverride } from "./domain/core/rate-limits.ts"
import { bucketPlace, filePlace, isSamePlace, PlaceProblem, type FilePlace } from "./domain/core/file-places.ts"
import { configuredClassifier } from "./domain/communities/automod-settings.ts"
import { sentinelPlace } from "./domain/core/sentinel-url.ts"
import { isEmailAddress } from "./domain/accounts/email-addresses.ts"
import { stemmedLanguages } from "./domain/messages/search-text.ts"
import {
  configuredProviders,
  isLoopback,
  isOAuthProvider,
  isRedirectUri,
  oauthProviders,
  type OAuthProvider,
} from "./domain/accounts/oauth.ts"

/** One setting. `secret` keeps a refused value out of the message about it. */
interface Setting<S extends z.ZodType = z.ZodType> {
  schema: S
  /** A value for `schema`, as it would be written in the file; undefined where there is none. */
  default: unknown
  sentence: string
  secret?: true
}

const setting = <S extends z.ZodType>(schema: S, fallback: unknown, sentence: string): Setting<S> => ({
  schema,
  default: fallback,
  sentence,
})

// A value is text in the environment and itself in the file; each of these reads both.
const integer = (min: number, max: number) => {
  const expected = `expected a whole number from ${min} to ${max}`
  return z.preprocess(
    value => (typeof value === "string" && /^-?\d{1,15}$/.test(value) ? Number(value) : value),
    z.int(expected).min(min, expected).max(max, expected),
  )
}

const flag = z.preprocess(
  value => ({ true: true, on: true, false: false, off: false })[String(value)] ?? value,
  z.boolean("expected true or false"),
)

const list = <T extends z.ZodType>(item: T) =>
  z.preprocess(
    value => (typeof value === "string" ? value.split(",").flatMap(part => part.trim() || []) : value),
    z.array(item),
  )

const url = (protocol: RegExp, expected: string) =>
  z.string().refine(text => URL.canParse(text) && protocol.test(new URL(text).protocol), expected)

const urls = (protocol: RegExp, expected: string) =>
  z
    .string()
    .refine(
      text => text.split(",").every(part => URL.canParse(part.trim()) && protocol.test(new URL(part.trim()).protocol)),
      expected,
    )

/** The problem says nothing of what was written: it holds a secret. */
const place = <Place>(read: (text: string) => Place) =>
  z.string().transform((text, context) => {
    try {
      return read(text)
    } catch (error) {
      if (!(error instanceof PlaceProblem)) throw error
      context.addIssue(error.message)
      return z.NEVER
    }
  })

// "*" is no origin: answers carry credentials.
const origin = z
  .string()
  .refine(text => URL.canParse(text) && new URL(text).origin === text, "expected origins such as https://chat.example")

/** Secrets go there: in plain HTTP only as far as this machine. */
const providerUrl = z
  .string()
  .refine(
    text =>
      URL.canParse(text) && (text.startsWith("https:") || (text.startsWith("http:") && isLoopback(new URL(text)))),
    "expected an https:// URL",
  )

/** What a provider gives an operator who registers their server there. */
const fromProvider = <Name extends OAuthProvider>(provider: Name, title: string) =>
  ({
    [`oauth_${provider}_client_id`]: setting(
      z.string().min(1).optional(),
      undefined,
      `Client id that ${title} gave this server; with it people can sign in through ${title}.`,
    ),
    [`oauth_${provider}_client_secret`]: {
      ...setting(z.string().min(1).optional(), undefined, "The client secret for it."),
      secret: true as const,
    },
  }) as Record<`oauth_${Name}_client_${"id" | "secret"}`, Setting<z.ZodOptional<z.ZodString>>>

/** An issuer as it is written down; see docs/operate/sign-in.md. */
const oidcIssuer = z.strictObject({
  id: z
    .string()
    .regex(/^[a-z][a-z0-9-]{0,31}$/, "expected up to 32 lower-case letters, digits and hyphens")
    .refine(id => !isOAuthProvider(id), "is the name of another provider"),
  name: z.string().min(1).max(64),
  issuer: providerUrl,
  client_id: z.string().min(1).max(512),
  client_secret: z.string().min(1).max(512),
  scope: z
    .string()
    .max(512)
    .refine(scope => scope.split(" ").includes("openid"), "expected scopes with openid among them")
    .default("openid email profile"),
  email_domains: z
    .array(
      z
        .string()
        .min(1)
        .max(255)
        .transform(domain => domain.toLowerCase().replace(/^[@.]+/, "")),
    )
    .max(100)
    .default([]),
  groups_claim: z.string().min(1).max(256).default("groups"),
  roles: z
    .record(z.string().min(1).max(256), z.array(Snowflake).min(1).max(20))
    .refine(roles => Object.keys(roles).length <= 200, "expected at most 200 groups")
    .default({}),
})

/** Every problem names its place, and none what was written there: it may be a secret. */
const oidcIssuers = z.unknown().transform((value, context) => {
  const read = z
    .array(oidcIssuer, "expected a JSON array of issuers")
    .max(20, "expected at most 20 issuers")
    .refine(all => new Set(all.map(({ id }) => id)).size === all.length, "expected a different id for each issuer")
    .safeParse(typeof value === "string" ? parsedObject(value) : value)
  if (read.success) return read.data
  for (const { path, message } of read.error.issues)
    context.addIssue(path.length === 0 ? message : `${path.join(".")}: ${message}`)
  return z.NEVER
})

const iceUrl = (scheme: RegExp) =>
  z
    .string()
    .max(512)
    .refine(text => scheme.test(text), "expected URLs such as stun:stun.example:3478 or turn:turn.example:3478")

const address = z.union([z.ipv4(), z.ipv6(), z.cidrv4(), z.cidrv6()], "expected IP addresses or CIDR ranges")

// Names are matched against these in linear time, so a pattern can be wrong but not slow.
const pattern = z
  .string()
  .max(200, "expected patterns of at most 200 characters")
  .refine(text => {
    try {
      return RE2JS.compile(text) !== undefined
    } catch {
      return false
    }
  }, "expected regular expressions as RE2 knows them")

const count = (min: number) => z.int().min(min).max(1_000_000)
const span = z.number().min(0.001).max(2_678_400)
const rateLimit = z.strictObject({
  requests: count(1),
  seconds: span,
  burst: count(0).optional(),
  algorithm: z.enum(["token", "sliding", "fixed"]).optional(),
  caps: z
    .array(z.strictObject({ requests: count(1), seconds: span }))
    .max(4)
    .optional(),
})

/** Limits as they hold, from what is to be other than by default. Every problem names its bucket. */
const rateLimits = z.unknown().transform((value, context) => {
  const given = typeof value === "string" ? parsedObject(value) : value
  if (typeof given !== "object" || given === null || Array.isArray(given)) {
    context.addIssue("expected a JSON object of buckets")
    return z.NEVER
  }
  const problems: string[] = []
  const overrides: [string, RateLimitOverride][] = []
  for (const [label, wanted] of Object.entries(given)) {
    const read = rateLimit.safeParse(wanted)
    if (read.success) overrides.push([label, read.data])
    else for (const { path, message } of read.error.issues) problems.push(`${[label, ...path].join(" ")}: ${message}`)
  }
  const limited = Object.values<Route>(routes).filter(({ limit }) => limit !== "none")
  const limits = rateLimitsWith(Object.fromEntries(overrides), new Set(limited.map(labelOf)))
  if ("problems" in limits) problems.push(...limits.problems)
  for (const problem of problems) context.addIssue(problem)
  return "problems" in limits ? z.NEVER : limits
})

function parsedObject(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const version = z.string().regex(/^[abcr]\.[1-9]\d{0,8}\.\d{1,9}-[1-9]\d{0,8}$/, "expected a version such as a.1.0-49")

const classifierAt = <Name extends string>(name: Name, backend: string, manner: string) =>
  ({
    [`${name}_URL`]: {
      ...setting(
        url(/^https?:$/, "expected an http:// or https:// URL").optional(),
        undefined,
        `Where rules of auto-moderation with the backend ${backend} have messages classified: it ${manner}. Operators can set it up in their area, too; without any, such rules let everything pass.`,
      ),
      secret: true as const,
    },
    [`${name}_TOKEN`]: {
      ...setting(z.string().min(1).optional(), undefined, "Secret that is sent with each request."),
      secret: true as const,
    },
  }) as Record<`${Name}_${"URL" | "TOKEN"}`, Setting<z.ZodOptional<z.ZodString>>>

const logLevels = ["fatal", "error", "warn", "info", "debug", "trace", "silent"] as const

/** Where the program runs and what it is connected to. Each is the environment variable of its name. */
const environment = {
  HOST: setting(z.string(), "0.0.0.0", "Address on which REST and the gateway listen."),
  PORT: setting(integer(0, 65_535), 8000, "Port of REST and the gateway. 0 takes any free port."),
  PUBLIC_URL: setting(
    url(/^https?:$/, "expected an http:// or https:// URL")
      .transform(text => text.replace(/\/+$/, ""))
      .optional(),
    undefined,
    "URL of this server for clients, used in links. Default: `http://localhost:PORT`; READY then names the host that the client asked for.",
  ),
  METRICS_HOST: setting(
    z.string(),
    "127.0.0.1",
    "Address on which /metrics listens. Metrics are confidential: keep it private.",
  ),
  METRICS_PORT: setting(integer(0, 65_535), 9464, "Port of /metrics. 0 takes any free port."),
  DEBUG_CAPTURES: setting(
    flag,
    "off",
    "`on` lets `/debug/profile` and `/debug/heap` on the metrics port write CPU profiles and heap snapshots into DATA_DIR. A heap snapshot has everything that a process holds, secrets and texts of users included.",
  ),
  WORKERS: setting(
    integer(1, 1024).optional(),
    undefined,
    "Web workers on this host. Default: as in `cluster.config.ts`, one per core, at least two.",
  ),
  DATA_DIR: setting(
    z.string().transform(path => resolve(path)),
    ".data",
    "Directory of the embedded PostgreSQL and Redis and of the generated secret key. Of one host only: a second server with embedded databases on it is refused.",
  ),
  FILES_DIR: setting(
    z
      .string()
      .transform(path => resolve(path))
      .optional(),
    undefined,
    "Directory of uploaded files. Default: `files` in DATA_DIR. Several hosts need one that all of them mount, or FILES_URL.",
  ),
  FILES_URL: {
    ...setting(
      place(bucketPlace).optional(),
      undefined,
      "Bucket of an S3-compatible object store for uploaded files, instead of FILES_DIR: `s3://KEY:SECRET@HOST[:PORT]/BUCKET[/PREFIX]`, with characters such as `/` in the secret percent-encoded. Parameters: `region` (default `us-east-1`), `tls=off` for plain HTTP, `style=host` for a bucket in the host name, `public=URL` if clients reach the store at another host.",
    ),
    secret: true as const,
  },
  FILES_FALLBACK_URL: {
    ...setting(
      place(filePlace).optional(),
      undefined,
      "Where files are read from that are not there, while they are moved: a bucket as in FILES_URL, or `file:///DIRECTORY`.",
    ),
    secret: true as const,
  },
  FILES_REDIRECT: setting(
    flag,
    "off",
    "`on` answers downloads of attachments with a redirect to the object store, which clients then have to reach.",
  ),
  DATABASE_URL: {
    ...setting(
      url(/^postgres(ql)?:$/, "expected a postgres:// URL").optional(),
      undefined,
      "PostgreSQL to use; with `?host=/FOLDER` through its unix socket there. Default: an embedded one is started.",
    ),
    secret: true as const,
  },
  DATABASE_REPLICA_URL: {
    ...setting(
      url(/^postgres(ql)?:$/, "expected a postgres:// URL").optional(),
      undefined,
      "A streaming replica (hot standby) of that PostgreSQL, for searches and pages of old messages. It is asked only while it is known to be less than `replica.maxLagMs` behind, and not for users who have just changed something.",
    ),
    secret: true as const,
  },
  REDIS_URL: {
    ...setting(
      z
        .union(
          [urls(/^rediss?:$/, ""), z.string().refine(text => sentinelPlace(text) !== undefined)],
          "expected a redis:// or rediss:// URL, or redis+sentinel://HOST:PORT,HOST:PORT/NAME",
        )
        .optional(),
      undefined,
      "Redis to use: one server, or nodes of a Redis Cluster separated by commas (one is enough to find the others), or the sentinels of a master: `redis+sentinel://[USER:PASSWORD@]HOST:PORT,HOST:PORT/NAME`, with the number of a database (`/NAME/2`) and `?sentinel_password=` where needed; `rediss+sentinel` with TLS. `?path=/FILE` of one server is its unix socket. Default: `redis-server` or `valkey-server` of this machine is started.",
    ),
    secret: true as const,
  },
  SECRET_KEY: {
    ...setting(
      z.string().min(32, "expected at least 32 characters").optional(),
      undefined,
      "Encrypts what the database alone must not reveal, such as secrets of second factors. Default: one is generated and stored in DATA_DIR. All hosts need the same key. The server does not start with a key that the database does not know. If the key is lost, an operator can reset it, which removes all second factors.",
    ),
    secret: true as const,
  },
  LOG_LEVEL: setting(
    z.enum(logLevels),
    "info",
    "Minimum level of log lines: fatal, error, warn, info, debug, trace or silent.",
  ),
  LOG_FILES: setting(
    flag,
    "on",
    "Whether log lines are also kept in files, in `logs` in DATA_DIR, where operators read them through the service. `off` leaves them to stderr alone.",
  ),
  DRAIN_GRACE: setting(
    integer(0, 600),
    0,
    "Seconds for which a host goes on serving after SIGTERM while `/readyz` answers 503, so that load balancers stop sending to it. Then it drains.",
  ),
  TAKE_OVER: setting(
    flag,
    "off",
    "`on`: a start takes the place of the program that serves from the same DATA_DIR on this HOST and PORT, without refusing anybody. PostgreSQL and Redis must not be embedded.",
  ),
  RATE_LIMITS: setting(flag, "on", "`off` disables all rate limits, also those of the gateway. For load tests only."),
  CONNECTIONS_PER_USER: setting(
    integer(1, 1_000_000).optional(),
    undefined,
    "Gateway connections of one user on all workers together, also with `RATE_LIMITS=off`. Default: as in `cluster.config.ts`, 5.",
  ),
  TRUSTED_PROXIES: setting(
    list(address),
    "",
    "Proxies whose `X-Forwarded-For` is trusted: addresses and CIDR ranges, separated by commas.",
  ),
  UNLIMITED_ADDRESSES: setting(
    list(address),
    "",
    "Addresses and CIDR ranges from which a worker takes any number of connections, sockets and concurrent requests: load generators, or a proxy that sends no `X-Forwarded-For`. Rate limits hold for them all the same.",
  ),
  TRACES_URL: setting(
    url(/^https?:$/, "expected an http:// or https:// URL").optional(),
    undefined,
    "Collector of traces (OpenTelemetry: OTLP over HTTP, in JSON), such as `http://127.0.0.1:4318`. Without a path, `/v1/traces` is added. Default: nothing is traced.",
  ),
  TRACES_SHARE: setting(
    z.coerce
      .number("expected a number from 0 to 1")
      .min(0, "expected a number from 0 to 1")
      .max(1, "expected a number from 0 to 1"),
    0.01,
    "Share of requests that are traced, from 0 to 1; of one worker at most fifty a second.",
  ),
  TRACES_HEADERS: {
    ...setting(
      list(z.string().regex(/^[\w-]+=[\x20-\x7e]+$/, "expected name=value, separated by commas")),
      [],
      "Headers of requests to the collector, such as `authorization=Bearer …`.",
    ),
    secret: true as const,
  },
  SMTP_URL: {
    ...setting(
      url(/^smtps?:$/, "expected an smtp:// or smtps:// URL").optional(),
      undefined,
      "Mail server, such as `smtps://user:password@mail.example:465`. Default: no mail is sent, and the log has the links.",
    ),
    secret: true as const,
  },
  ...classifierAt("AUTOMOD_CLASSIFIER", "`custom`", "takes `{content}` and answers `{scores: {category: 0 to 1}}`"),
  ...classifierAt("AUTOMOD_OPENAI", "`openai`", "speaks as OpenAI's moderation endpoint does"),
  ...classifierAt("AUTOMOD_PERSPECTIVE", "`perspective`", "speaks as Perspective's `comments:analyze` does"),
  AUTOMOD_PRIVATE_ADDRESSES: setting(
    flag,
    "off",
    "`on` lets operators name classifiers in private networks and on this machine in their settings. Those of the variables above may be there in any case.",
  ),
  PUSH_PRIVATE_ADDRESSES: setting(
    flag,
    "off",
    "`on` lets browsers name push services in private networks and on this machine, and without TLS. For tests.",
  ),
  CONFIG_FILE: setting(z.string().optional(), undefined, "JSON file with policy settings, see below."),
}

/** What the operator decides. `min_length` is the key in the file, `STARLING_MIN_LENGTH` the variable. */
const policy = {
  log_level: setting(
    z.enum(logLevels).optional(),
    undefined,
    "Overrides LOG_LEVEL. The only setting that SIGHUP changes while the processes run.",
  ),
  server_name: setting(z.string().min(1).max(100), "Starling", "Name of this service, as clients show it."),
  min_client_version: setting(version, "a.1.0-49", "Minimum supported client version."),
  password_min_length: setting(integer(1, 128), 12, "Minimum length of a password in characters."),
  password_max_length: setting(integer(1, 1024), 128, "Maximum length of a password in characters."),
  password_require_uppercase: setting(flag, true, "A password must contain an upper-case letter."),
  password_require_lowercase: setting(flag, true, "A password must contain a lower-case letter."),
  password_require_digit: setting(flag, true, "A password must contain a digit."),
  password_hash_memory: setting(
    integer(8, 4_194_304),
    19_456,
    "Memory in kibibytes for hashing a password (argon2id). After an increase, each password is rehashed when its user signs in.",
  ),
  password_hash_passes: setting(integer(1, 100), 2, "Number of passes over that memory."),
  password_require_special: setting(
    flag,
    true,
    "A password must contain a character that is not a letter, digit or space.",
  ),
  age_gate_enabled: setting(flag, false, "Whether registration requires the age."),
  age_verification_type: setting(
    z.enum(["boolean", "dob"]),
    "boolean",
    "How users give their age: `boolean`, a number or a yes; `dob`, the date of birth.",
  ),
  minimum_age: setting(integer(1, 150), 13, "Minimum age in years."),
  reports_to_block_file: setting(
    integer(0, 1_000_000),
    5,
    "A file that so many distinct users have reported who can read a message with it can no longer be uploaded. 0: reports block nothing.",
  ),
  feedback_enabled: setting(flag, true, "Whether users can send feedback to operators."),
  search_enabled: setting(
    flag,
    true,
    "Whether messages are indexed and search is available. After a time without it, rebuild the index with `npm run operator -- search rebuild`.",
  ),
  search_languages: setting(
    list(z.enum(stemmedLanguages)),
    ["english"],
    "Languages whose word forms search recognizes: `running` by `run`. After a change, rebuild the index with `npm run operator -- search rebuild`.",
  ),
  reserved_usernames: setting(
    list(z.string().transform(name => name.toLowerCase())),
    ["admin", "administrator", "system", "bot", "api", "root", "null", "undefined"],
    "Usernames that cannot be registered, in any case.",
  ),
  blocked_usernames: setting(
    list(pattern).pipe(z.array(z.string()).max(100, "expected at most 100 patterns")),
    [],
    "Regular expressions (RE2) that must not match a new username, in any case. An expression with a comma must be set in the file.",
  ),
  email_allowed_domains: setting(
    list(z.string().transform(domain => domain.toLowerCase().replace(/^[@.]+/, ""))),
    [],
    "Email domains, or suffixes such as `edu`, that may register. Default: all.",
  ),
  alpha_registration: setting(flag, false, "New users get the tier `alpha` and its badge."),
  email_verification_required: setting(
    flag,
    false,
    "Users must verify their email address before they can sign in with a password.",
  ),
  mail_from: setting(
    z.string().refine(isEmailAddress, "expected an e-mail address").optional(),
    undefined,
    "Sender address of emails; required with `SMTP_URL`.",
  ),
  mails_per_hour: setting(integer(1, 1000), 3, "Maximum number of emails of one kind to an account per hour."),
  login_failures_allowed: setting(
    integer(1, 100),
    5,
    "Consecutive wrong passwords and codes after which an account is locked.",
  ),
  login_lockout_minutes: setting(integer(1, 10_080), 15, "Duration of that lock in minutes."),
  two_factor_challenge_seconds: setting(integer(30, 3600), 300, "Seconds to enter the second factor during a sign-in."),
  two_factor_issuer: setting(
    z.string().min(1).max(100).optional(),
    undefined,
    "Name that authenticator apps show with the username. Default: `server_name`.",
  ),
  oauth_redirect_uris: setting(
    list(
      z
        .string()
        .refine(
          isRedirectUri,
          "expected URLs as they are written out, without a query, such as https://chat.example/signed-in or com.example.app:/signed-in",
        ),
    ),
    [],
    "Exact redirect URIs allowed after a sign-in with a provider: https, this machine, or the URL scheme of an app. Empty: nobody can sign in with a provider.",
  ),
  ...fromProvider("google", "Google"),
  oauth_google_issuer: setting(providerUrl, "https://accounts.google.com", "Google's OpenID issuer."),
  ...fromProvider("github", "GitHub"),
  oauth_github_authorize_url: setting(
    providerUrl,
    "https://github.com/login/oauth/authorize",
    "GitHub's authorization endpoint.",
  ),
  oauth_github_token_url: setting(
    providerUrl,
    "https://github.com/login/oauth/access_token",
    "GitHub's token endpoint.",
  ),
  oauth_github_api_url: setting(providerUrl, "https://api.github.com", "GitHub's API, which identifies the user."),
  ...fromProvider("microsoft", "Microsoft"),
  oauth_microsoft_issuer: setting(
    providerUrl,
    "https://login.microsoftonline.com/common/v2.0",
    "Microsoft's OpenID issuer: `common`, or one tenant in its place.",
  ),
  ...fromProvider("gitlab", "GitLab"),
  oauth_gitlab_issuer: setting(providerUrl, "https://gitlab.com", "GitLab's OpenID issuer: its URL."),
  oidc_issuers: {
    ...setting(
      oidcIssuers,
      [],
      "OpenID Connect issuers for single sign-on, as a JSON array of `{id, name, issuer, client_id, client_secret}` and, where needed, `scope`, `email_domains`, `groups_claim` and `roles`; see [signing in](sign-in.md).",
    ),
    secret: true as const,
  },
  passkey_login_enabled: setting(
    flag,
    true,
    "Whether a passkey alone signs in. `false`: passkeys only answer for second factors, and people sign in with passwords or through providers.",
  ),
  passkey_rp_id: setting(
    z
      .string()
      .regex(/^[a-z0-9-]+(?:\.[a-z0-9-]+)*$/, "expected a domain such as chat.example")
      .optional(),
    undefined,
    "Domain that passkeys belong to: that of PUBLIC_URL, which is the default, or one above it. With another one all passkeys are useless.",
  ),
  passkey_origins: setting(
    list(
      z
        .string()
        .regex(
          /^(?:https:\/\/[^/\s,]+|http:\/\/localhost(?::\d+)?|android:apk-key-hash:[\w-]+)$/,
          "expected origins such as https://app.chat.example",
        ),
    ),
    [],
    "Further origins that may use passkeys, beside that of PUBLIC_URL: pages on other names below the domain, and Android apps (`android:apk-key-hash:…`).",
  ),
  password_login_enabled: setting(
    flag,
    true,
    "Whether a name and a password sign in and make an account. `false`: people sign in through providers only. The operator area keeps its own passwords.",
  ),
  account_deletion_days: setting(
    integer(0, 365),
    30,
    "Days before a deleted account is erased. Until then an operator can cancel the deletion.",
  ),
  export_interval_hours: setting(integer(0, 8760), 24, "Minimum hours between two exports of a user's data."),
  session_lifetime_hours: setting(integer(1, 8760), 168, "Hours after which an unused session expires."),
  sessions_per_user: setting(
    integer(1, 1000),
    10,
    "Maximum number of sessions per user. A new session above it ends the least recently used one.",
  ),
  telemetry_enabled: setting(
    flag,
    true,
    "Whether the server keeps how long requests take, for 30 days, and takes what clients have measured.",
  ),
  docs_enabled: setting(flag, true, "`/docs` and the pages below it show the interface."),
  redoc_enabled: setting(flag, true, "`/redoc` shows the interface."),
  app_enabled: setting(flag, true, "`/app` is a page to chat, and `/` leads browsers to it."),
  app_offline_enabled: setting(
    flag,
    true,
    "`/app` opens without a connection and takes pushes: browsers keep its files, and what was read last, until sign-out. `false` has them remove that with their next visit.",
  ),
  cors_allowed_origins: setting(list(origin), [], "Origins of web pages that may call the REST API."),
  gateway_allowed_origins: setting(
    list(origin),
    [],
    "Origins of web pages that may connect to the gateway. Clients that send no Origin are not restricted.",
  ),
  rate_limits: setting(
    rateLimits,
    {},
    "Rate limits that differ from those in [rate-limits.md](../api/rate-limits.md), by bucket: `global`, `user`, `ip` or a route such as `POST /auth/login`. A JSON object in the variable as in the file.",
  ),
  rate_limit_bypass_secret: {
    ...setting(
      z.string().min(32, "expected at least 32 characters").optional(),
      undefined,
      "Requests with this value in the header `X-RateLimit-Bypass` are not rate limited. Default: no such header exists.",
    ),
    secret: true as const,
  },
  token_binding: setting(
    flag,
    false,
    "A token is valid only for the address and the user agent that signed in. Mobile clients change addresses and must sign in again.",
  ),
  gateway_compression_enabled: setting(flag, true, "Whether gateway clients can request compressed frames."),
  voice_enabled: setting(flag, true, "Whether voice channels can be joined."),
  voice_stun_urls: setting(
    list(iceUrl(/^stuns?:/)),
    [
      "stun:stun.l.google.com:19302",
      "stun:stun1.l.google.com:19302",
      "stun:stun2.l.google.com:19302",
      "stun:stun.cloudflare.com:3478",
    ],
    "STUN servers for clients in voice channels.",
  ),
  voice_turn_urls: setting(list(iceUrl(/^turns?:/)), [], "TURN servers for clients in voice channels."),
  voice_turn_secret: {
    ...setting(
      z.string().min(1).optional(),
      undefined,
      "Secret shared with the TURN servers (coturn: `static-auth-secret`): each user gets their own temporary credentials.",
    ),
    secret: true as const,
  },
  voice_turn_username: setting(
    z.string().min(1).optional(),
    undefined,
    "Username for the TURN servers, the same for all users; only without `voice_turn_secret`.",
  ),
  voice_turn_credential: {
    ...setting(z.string().min(1).optional(), undefined, "Password that goes with `voice_turn_username`."),
    secret: true as const,
  },
  voice_turn_ttl: setting(
    integer(60, 86_400),
    600,
    "Seconds that credentials made with `voice_turn_secret` last. They are given to users in a call only, who ask for new ones before they end.",
  ),
  voice_media_url: setting(
    url(/^(https?|wss?):$/, "expected an http, https, ws or wss URL").optional(),
    undefined,
    "Media server for clients in voice channels. Default: clients connect to each other.",
  ),
  admin_ui_enabled: setting(flag, true, "Whether there is an operator area."),
  admin_ui_path: setting(
    z
      .string()
      .regex(/^(?:\/[A-Za-z0-9_-]{1,64}){1,4}$/, "expected a path such as /admin")
      .refine(isFree, "other routes have this path"),
    "/admin",
    "Path of the operator area, at the host root and under `/api/v1`.",
  ),
  admin_ui_require_otp: setting(
    flag,
    true,
    "Operators need a code of their authenticator app to sign in. `false`: the password alone opens a session.",
  ),
  admin_ui_host_restriction: setting(
    flag,
    true,
    "Whether the operator area is open only to the addresses in `admin_ui_allowed_hosts`.",
  ),
  admin_ui_allowed_hosts: setting(
    list(z.string().refine(isHost, "expected IP addresses, CIDR ranges or localhost")),
    ["127.0.0.1", "localhost", "::1"],
    "Addresses and CIDR ranges from which the operator area can be used; `localhost` is this machine. Behind a proxy, TRUSTED_PROXIES must name it: otherwise every client seems to come from the proxy's address.",
  ),
  admin_ui_max_attempts: setting(
    integer(1, 100),
    5,
    "Failed sign-ins of operators, by address and by name, after which further ones are refused.",
  ),
  admin_ui_window_seconds: setting(integer(1, 86_400), 300, "Seconds within which failed sign-ins count together."),
  admin_ui_lockout_seconds: setting(integer(1, 604_800), 900, "Seconds for which further sign-ins are refused."),
}

/** Whether the operator area may be there: nothing else is below the first step of its path. */
function isFree(path: string): boolean {
  const firstOf = (text: string) => text.split("/")[1]!
  const taken = [...Object.values<Route>(routes), ...Object.values<PageRoute>(pages)]
  const others = taken.filter(({ path }) => firstOf(path) !== "admin").map(({ path }) => firstOf(path))
  if (firstOf(path) === "admin") return path === operatorsRoot
  return ![...others, "api", gatewayPath.slice(1)].includes(firstOf(path))
}

type Values<Table extends Record<string, Setting>> = {
  readonly [Name in keyof Table]: z.output<Table[Name]["schema"]>
}
export type Policy = Values<typeof policy>

/** On this host. */
export const webWorkersOf = (
  { workers }: Pick<Config, "workers">,
  { processes }: Pick<ClusterConfig, "processes">,
): number => workers ?? processes.web ?? Math.max(2, availableParallelism())

export interface Config {
  readonly host: string
  readonly port: number
  readonly publicUrl: string
  /** Whether an operator has given it. Otherwise only this machine can use it. */
  readonly hasPublicUrl: boolean
  readonly metricsHost: string
  readonly metricsPort: number
  /** Whether profiles and heap snapshots may be asked for. */
  readonly debugCaptures: boolean
  readonly workers?: number
  /** Absolute. */
  readonly dataDir: string
  readonly files: {
    readonly place: FilePlace
    readonly fallback?: FilePlace
    /** Of this host, for what is on its way to a bucket. */
    readonly partsFolder: string
    readonly isRedirecting: boolean
  }
  readonly databaseUrl?: string
  readonly replicaUrl?: string
  readonly redisUrl?: string
  readonly secretKey?: string
  readonly smtpUrl?: string
  /** Absent: nothing is traced. */
  readonly traces?: {
    readonly url: string
    readonly share: number
    readonly headers: Readonly<Record<string, string>>
  }
  /** Absent: there are no log files. */
  readonly logFolder?: string
  readonly logLevel: (typeof logLevels)[number]
  readonly drainGraceMs: number
  readonly takesOver: boolean
  readonly rateLimits: boolean
  readonly connectionsPerUser?: number
  readonly trustedProxies: readonly string[]
  readonly unlimitedAddresses: readonly string[]
  /** By backend. Operators can set up others while the service runs. */
  readonly classifiers: AutomodClassifiers
  /** Whether those of operators may be in private networks. */
  readonly privateClassifiers: boolean
  /** Push services may be in private networks. */
  readonly privatePushes: boolean
  readonly policy: Policy
}

/** Every setting, in the order of the documentation that is generated from it. */
export const entries: readonly { name: string; key?: string; default: unknown; sentence: string }[] = [
  ...Object.entries(environment).map(([name, entry]) => ({ name, default: entry.default, sentence: entry.sentence })),
  ...Object.entries(policy).map(([key, entry]) => ({
    name: variable(key),
    key,
    default: entry.default,
    sentence: entry.sentence,
  })),
]

/** Everything that is wrong with the configuration, one line each. */
export class ConfigError extends Error {
  readonly problems: readonly string[]

  constructor(problems: readonly string[]) {
    super(
      `The configuration has ${problems.length === 1 ? "a problem" : `${problems.length} problems`}:\n${problems.join("\n")}`,
    )
    this.name = "ConfigError"
    this.problems = problems
  }
}

/** The environment beats the file, the file beats the defaults. An empty variable counts as not set. */
export function readConfig(env: Record<string, string | undefined>): Config {
  const problems: string[] = []
  const given = (name: string) => env[name]?.trim() || undefined

  const check = (name: string, { schema, secret }: Setting, value: unknown) => {
    const result = schema.safeParse(value)
    if (result.success) return result.data
    const why = [...new Set(result.error.issues.map(issue => issue.message))].join(", ")
    problems.push(`${name}: ${why}${secret ? "" : `, got ${JSON.stringify(value)}`}`)
    return undefined
  }

  const here = Object.fromEntries(
    Object.entries(environment).map(([name, entry]) => [name, check(name, entry, given(name) ?? entry.default)]),
  ) as Values<typeof environment>

  const file = here.CONFIG_FILE ? readPolicyFile(here.CONFIG_FILE, problems) : {}
  for (const key of Object.keys(file))
    if (!Object.hasOwn(policy, key)) problems.push(`${here.CONFIG_FILE}: unknown key ${JSON.stringify(key)}`)
  const known = new Set(Object.keys(policy).map(variable))
  for (const name of Object.keys(env))
    if (name.startsWith("STARLING_") && !known.has(name)) problems.push(`${name}: unknown variable`)

  const rules = Object.fromEntries(
    Object.entries(policy).map(([key, entry]) => {
      // Checked even where the environment beats it: a file that is wrong stays wrong.
      const fromFile = Object.hasOwn(file, key) ? check(`${here.CONFIG_FILE}: ${key}`, entry, file[key]) : undefined
      const text = given(variable(key))
      if (text !== undefined) return [key, check(variable(key), entry, text)]
      return [key, fromFile ?? entry.schema.parse(entry.default)]
    }),
  ) as Policy
  if (rules.password_min_length > rules.password_max_length)
    problems.push("STARLING_PASSWORD_MIN_LENGTH: is above STARLING_PASSWORD_MAX_LENGTH, so no password would do")
  if (here.SMTP_URL !== undefined && rules.mail_from === undefined)
    problems.push("STARLING_MAIL_FROM: is needed where SMTP_URL is set")

  for (const provider of oauthProviders) {
    const [id, secret] = [`oauth_${provider}_client_id`, `oauth_${provider}_client_secret`] as const
    if ((rules[id] === undefined) !== (rules[secret] === undefined))
      problems.push(`${variable(id)}: comes together with ${variable(secret)}`)
  }

  if (!rules.password_login_enabled && problems.length === 0) {
    const hasProvider = configuredProviders(rules).length + rules.oidc_issuers.length > 0
    if (!hasProvider || rules.oauth_redirect_uris.length === 0)
      problems.push(
        `${variable("password_login_enabled")}: without passwords nobody could sign in; it needs a provider and ${variable("oauth_redirect_uris")}`,
      )
  }

  const files = filesOf(here, problems)

  if (problems.length > 0) throw new ConfigError(problems)
  return Object.freeze({
    host: here.HOST,
    port: here.PORT,
    publicUrl: here.PUBLIC_URL ?? `http://localhost:${here.PORT}`,
    hasPublicUrl: here.PUBLIC_URL !== undefined,
    metricsHost: here.METRICS_HOST,
    metricsPort: here.METRICS_PORT,
    debugCaptures: here.DEBUG_CAPTURES,
    ...(here.WORKERS !== undefined && { workers: here.WORKERS }),
    dataDir: here.DATA_DIR,
    files: Object.freeze(files),
    ...(here.DATABASE_URL !== undefined && { databaseUrl: here.DATABASE_URL }),
    ...(here.DATABASE_REPLICA_URL !== undefined && { replicaUrl: here.DATABASE_REPLICA_URL }),
    ...(here.REDIS_URL !== undefined && { redisUrl: here.REDIS_URL }),
    ...(here.SECRET_KEY !== undefined && { secretKey: here.SECRET_KEY }),
    ...(here.SMTP_URL !== undefined && { smtpUrl: here.SMTP_URL }),
    ...(here.TRACES_URL !== undefined && {
      traces: Object.freeze({
        url: collectorOf(here.TRACES_URL),
        share: here.TRACES_SHARE,
        headers: Object.freeze(Object.fromEntries(here.TRACES_HEADERS.map(header => splitOnce(header, "=")))),
      }),
    }),
    ...(here.LOG_FILES && { logFolder: join(here.DATA_DIR, "logs") }),
    logLevel: rules.log_level ?? here.LOG_LEVEL,
    drainGraceMs: here.DRAIN_GRACE * 1000,
    takesOver: here.TAKE_OVER,
    rateLimits: here.RATE_LIMITS,
    ...(here.CONNECTIONS_PER_USER !== undefined && { connectionsPerUser: here.CONNECTIONS_PER_USER }),
    trustedProxies: Object.freeze(here.TRUSTED_PROXIES),
    unlimitedAddresses: Object.freeze(here.UNLIMITED_ADDRESSES),
    classifiers: Object.freeze({
      ...(here.AUTOMOD_CLASSIFIER_URL !== undefined && {
        custom: configuredClassifier("custom", {
          url: here.AUTOMOD_CLASSIFIER_URL,
          token: here.AUTOMOD_CLASSIFIER_TOKEN,
        }),
      }),
      ...(here.AUTOMOD_OPENAI_URL !== undefined && {
        openai: configuredClassifier("openai", { url: here.AUTOMOD_OPENAI_URL, token: here.AUTOMOD_OPENAI_TOKEN }),
      }),
      ...(here.AUTOMOD_PERSPECTIVE_URL !== undefined && {
        perspective: configuredClassifier("perspective", {
          url: here.AUTOMOD_PERSPECTIVE_URL,
          token: here.AUTOMOD_PERSPECTIVE_TOKEN,
        }),
      }),
    }),
    privatePushes: here.PUSH_PRIVATE_ADDRESSES,
    privateClassifiers: here.AUTOMOD_PRIVATE_ADDRESSES,
    policy: Object.freeze(
      Object.fromEntries(Object.entries(rules).map(([key, value]) => [key, freezeList(value)])),
    ) as Policy,
  })
}

/** Keys of the settings of which the two do not say the same. */
export const changedSettings = (before: Pick<Config, "policy">, after: Pick<Config, "policy">): string[] =>
  Object.keys(policy).filter(
    key => !isDeepStrictEqual(before.policy[key as keyof Policy], after.policy[key as keyof Policy]),
  )

/** A collector's address alone means its usual path. */
function collectorOf(text: string): string {
  const url = new URL(text)
  if (url.pathname === "/") url.pathname = "/v1/traces"
  return url.href
}

function splitOnce(text: string, by: string): [string, string] {
  const at = text.indexOf(by)
  return [text.slice(0, at), text.slice(at + by.length)]
}

function filesOf(here: Values<typeof environment>, problems: string[]): Config["files"] {
  const { FILES_URL: bucket, FILES_FALLBACK_URL: fallback, FILES_DIR: folder, FILES_REDIRECT: isRedirecting } = here
  // One that was refused is undefined; its folder is nothing that the operator meant.
  const place = bucket ?? { kind: "folder" as const, path: folder ?? join(here.DATA_DIR ?? "", "files") }
  if (bucket && folder !== undefined)
    problems.push("FILES_DIR: comes instead of FILES_URL; what is there still is named by FILES_FALLBACK_URL")
  if (isRedirecting && !bucket) problems.push("FILES_REDIRECT: needs FILES_URL, where clients are sent")
  if (fallback && isSamePlace(place, fallback)) problems.push("FILES_FALLBACK_URL: is where the files are kept anyway")
  return {
    place,
    ...(fallback && { fallback }),
    partsFolder: join(here.DATA_DIR ?? "", "parts"),
    isRedirecting,
  }
}

function variable(key: string): string {
  return `STARLING_${key.toUpperCase()}`
}

function readPolicyFile(path: string, problems: string[]): Record<string, unknown> {
  try {
    const content: unknown = JSON.parse(readFileSync(path, "utf8"))
    if (typeof content === "object" && content !== null && !Array.isArray(content)) return { ...content }
    problems.push(`CONFIG_FILE: ${path} does not hold a JSON object`)
  } catch (error) {
    problems.push(`CONFIG_FILE: ${path} could not be read as JSON: ${(error as Error).message}`)
  }
  return {}
}

function freezeList<T>(value: T): T {
  return Array.isArray(value) ? (Object.freeze(value) as T) : value
}
