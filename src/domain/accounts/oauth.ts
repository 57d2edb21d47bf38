/** Who can vouch for somebody who signs in. */
export const oauthProviders = ["google", "github", "microsoft", "gitlab"] as const
export type OAuthProvider = (typeof oauthProviders)[number]

export const isOAuthProvider = (name: string): name is OAuthProvider =>
  (oauthProviders as readonly string[]).includes(name)

/** What each provider is asked for. */
interface OAuthAsking {
  readonly scope: string
  /** An OpenID provider: it signs what it says, for the nonce that it was given. */
  readonly isOpenId: boolean
  /** More of the query that a person is sent there with. */
  readonly query: Readonly<Record<string, string>>
}

export const oauthAsking: Readonly<Record<OAuthProvider, OAuthAsking>> = {
  google: {
    scope: "openid email profile",
    isOpenId: true,
    query: { access_type: "offline", prompt: "select_account" },
  },
  github: { scope: "read:user user:email", isOpenId: false, query: {} },
  microsoft: { scope: "openid email profile User.Read", isOpenId: true, query: {} },
  gitlab: { scope: "read_user openid profile email", isOpenId: true, query: {} },
}

/** What people call them. */
export const providerNames: Readonly<Record<OAuthProvider, string>> = {
  google: "Google",
  github: "GitHub",
  microsoft: "Microsoft",
  gitlab: "GitLab",
}

/**
 * The operator's credentials for each provider, and where each is. The names are those of the
 * configuration.
 */
export type OAuthPolicy = OAuthCredentials & {
  /** Where a person may come back to; nowhere else. */
  readonly oauth_redirect_uris: readonly string[]
  readonly oauth_google_issuer: string
  readonly oauth_microsoft_issuer: string
  readonly oauth_gitlab_issuer: string
  readonly oauth_github_authorize_url: string
  readonly oauth_github_token_url: string
  readonly oauth_github_api_url: string
}
export type OAuthCredentials = {
  readonly [Name in `oauth_${OAuthProvider}_client_${"id" | "secret"}`]?: string | undefined
}

/** Those that can be used here, in the order of the list. */
export const configuredProviders = (policy: OAuthCredentials): OAuthProvider[] =>
  oauthProviders.filter(
    name => policy[`oauth_${name}_client_id`] !== undefined && policy[`oauth_${name}_client_secret`] !== undefined,
  )

/**
 * Whether an address is one of this machine: what is said to it crosses no wire, so it may be said
 * in plain HTTP.
 */
export const isLoopback = ({ hostname }: URL): boolean =>
  hostname === "localhost" || hostname === "[::1]" || /^127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(hostname)

/**
 * Whether a person may be sent back there with a code in hand: over HTTPS, to this machine, or to
 * an app by a scheme of its own, which has a dot (RFC 8252, 7.1). As URLs are written out, because
 * providers compare them letter by letter.
 */
export function isRedirectUri(text: string): boolean {
  if (!URL.canParse(text)) return false
  const url = new URL(text)
  if (url.href !== text || url.search !== "" || text.includes("#") || url.username !== "" || url.password !== "")
    return false
  if (url.protocol === "http:") return isLoopback(url)
  return url.protocol === "https:" || url.protocol.includes(".")
}

/** Somebody, in the words of a provider. */
export interface OAuthProfile {
  /** Who says so: the same subject of another is somebody else. */
  readonly issuer: string
  /** The user's permanent id at the provider. */
  readonly subject: string
  /** Null where there is none, or none that the provider vouches for. */
  readonly email: string | null
  /** Suggestions for a username, the best first. */
  readonly names: readonly string[]
  /** What the issuer says that they belong to; absent: it says nothing of it. */
  readonly groups?: readonly string[]
}

export type Claims = Readonly<Record<string, unknown>>
export const textOf = (value: unknown): string | null => (typeof value === "string" && value !== "" ? value : null)
const isTrue = (value: unknown): boolean => value === true || value === 1 || value === "true" || value === "1"

/**
 * The profile in an OpenID provider's claims. Microsoft has many tenants: a subject is unique
 * within its own tenant, and the address there is only asserted by the tenant's administrator,
 * unless `xms_edov` says that its domain belongs to the tenant.
 */
export function profileOfClaims(provider: OAuthProvider, claims: Claims): OAuthProfile | undefined {
  const sub = textOf(claims["sub"])
  const issuer = textOf(claims["iss"])
  if (sub === null || issuer === null) return undefined
  const isVouchedFor = claims["email_verified"] === true || (provider === "microsoft" && isTrue(claims["xms_edov"]))
  const tenant = provider === "microsoft" ? textOf(claims["tid"]) : null
  return {
    issuer,
    subject: tenant === null ? sub : `${tenant}.${sub}`,
    email: isVouchedFor ? textOf(claims["email"]) : null,
    names: namesIn(claims, ["preferred_username", "nickname", "name"]),
  }
}

/** Of the answers of GitHub's `/user` and `/user/emails`, and where they came from. */
export function profileOfGithub(issuer: string, user: unknown, emails: unknown): OAuthProfile | undefined {
  const claims = (user ?? {}) as Claims
  if (!Number.isSafeInteger(claims["id"])) return undefined
  const rows = Array.isArray(emails) ? (emails as (Claims | null)[]) : []
  const email = textOf(rows.find(row => row?.["primary"] === true && row["verified"] === true)?.["email"])
  return { issuer, subject: String(claims["id"]), email, names: namesIn(claims, ["login", "name"]) }
}

/**
 * What somebody is called. An address, as Microsoft's `preferred_username` is, is nothing that
 * everybody should see a part of.
 */
export const namesIn = (claims: Claims, keys: readonly string[]): string[] =>
  keys.flatMap(key => textOf(claims[key]) ?? []).filter(name => !name.includes("@"))

/** Hex digits that set a name apart. */
export interface NameMark {
  readonly token: string
  /** The name alone is somebody's already. */
  readonly isNeeded: boolean
}

/**
 * A name that follows the rules for names, out of what somebody is called elsewhere: the first that
 * is allowed as it is, else the first that is allowed with the mark, else a name of ours.
 */
export function usernameFor(
  names: readonly string[],
  length: { readonly min: number; readonly max: number },
  isAllowed: (name: string) => boolean,
  { token, isNeeded }: NameMark,
): string {
  const usable = names.map(plain).filter(name => name.length >= length.min)
  const alone = usable.map(name => name.slice(0, length.max))
  const marked = usable.map(name => name.slice(0, length.max - token.length) + token)
  return [...(isNeeded ? [] : alone), ...marked].find(isAllowed) ?? `user${token}`
}

/** ASCII letters, digits and underscores only. */
const plain = (name: string): string =>
  name
    .slice(0, 256)
    .normalize("NFKD")
    .replace(/\p{M}+/gu, "")
    .replace(/[^A-Za-z0-9_]+/g, "_")
    .replace(/^_+|_+$/g, "")
