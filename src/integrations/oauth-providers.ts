import {
  allowInsecureRequests,
  authorizationCodeGrant,
  buildAuthorizationUrl,
  Configuration,
  customFetch,
  discovery,
  enableNonRepudiationChecks,
  fetchProtectedResource,
  fetchUserInfo,
} from "openid-client"
import { fail, Failure } from "../contract/core/errors.ts"
import {
  configuredProviders,
  isLoopback,
  oauthAsking,
  profileOfClaims,
  profileOfGithub,
  type OAuthPolicy,
  type OAuthProfile,
  type OAuthProvider,
} from "../domain/accounts/oauth.ts"
import { hasRoles, profileOfIssuer, type OidcIssuer, type OidcPolicy } from "../domain/accounts/oidc.ts"
import type { Log } from "../observability/log.ts"

/**
 * For everything that one request of a client asks of a provider: less than `http.answerTimeoutMs`.
 */
const timeoutMs = 4_000
/** Bytes of one answer of a provider. */
const maxBytes = 1024 * 1024
/** Requests of clients that wait for providers at the same time. */
const maxConcurrent = 100
/** How long what a provider says of itself is believed, in milliseconds. */
const keepFor = 3_600_000

/** Where a person is sent. `nonce` is null where the provider signs nothing. */
export interface Departure {
  readonly redirectUri: string
  readonly state: string
  readonly codeChallenge: string
  readonly nonce: string | null
}
/** What the client brought back, and what was kept when the sign-in began. */
export interface Return {
  readonly redirectUri: string
  readonly code: string
  /** As it came with the code. */
  readonly issuer: string | undefined
  readonly codeVerifier: string
  readonly nonce: string | null
}

export interface OAuthProviderClient {
  /** It signs what it says, for a nonce. */
  readonly isOpenId: boolean
  urlFor(departure: Departure): Promise<string>
  /** Who it was. Throws `oauth_failed`, `oauth_unidentified` or `oauth_unavailable`. */
  identify(from: Return): Promise<OAuthProfile>
}

/** The provider did not answer, or said that the fault is its own. */
class ProviderUnavailable extends Error {}

/**
 * The failure when a provider says something unusable: a client that begins a sign-in did nothing
 * wrong.
 */
type Refusal = "oauth_failed" | "oauth_unavailable"

interface Surroundings {
  readonly log: Log
  /** Unix milliseconds. */
  readonly clock: () => number
  /** How the outside is reached. */
  readonly fetch?: typeof fetch
}

/** Those that the operator has configured. */
export function createOAuthProviders(
  policy: OAuthPolicy & OidcPolicy,
  { log, clock, fetch: reach = fetch }: Surroundings,
): ReadonlyMap<string, OAuthProviderClient> {
  let waiting = 0

  /**
   * Everything that is asked of a provider on behalf of one request: bounded, and refused in one
   * way.
   */
  async function asking<T>(provider: string, refusal: Refusal, ask: () => Promise<T>): Promise<T> {
    if (waiting >= maxConcurrent) throw fail("oauth_unavailable", { retry_after: 5 })
    waiting++
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new ProviderUnavailable("no answer in time")), timeoutMs)
    })
    try {
      return await Promise.race([ask(), late])
    } catch (error) {
      if (error instanceof Failure) throw error
      const unavailable = isUnavailable(error)
      // What the provider calls it, never what it was sent: that holds secrets.
      const { code, error: said } = error as { code?: unknown; error?: unknown }
      log.warn({ provider, unavailable, code, said }, "OAuth provider refused or did not answer")
      if (unavailable || refusal === "oauth_unavailable")
        throw fail("oauth_unavailable", { retry_after: 5 }, { cause: error })
      throw fail(refusal, {}, { cause: error })
    } finally {
      clearTimeout(timer)
      waiting--
    }
  }

  const clientOf = ({ name, scope, query, isOpenId, load, profileOf }: Setup): OAuthProviderClient => {
    const configuration = keptFor(isOpenId ? keepFor : Infinity, clock, load)
    return {
      isOpenId,
      urlFor: ({ redirectUri, state, codeChallenge, nonce }) =>
        asking(name, "oauth_unavailable", async () => {
          const url = buildAuthorizationUrl(await configuration.get(), {
            redirect_uri: redirectUri,
            scope,
            state,
            code_challenge: codeChallenge,
            code_challenge_method: "S256",
            ...(nonce !== null && { nonce }),
            ...query,
          })
          return url.href
        }),

      identify: ({ redirectUri, code, issuer, codeVerifier, nonce }) =>
        asking(name, "oauth_failed", async () => {
          const config = await configuration.get()
          const back = new URL(redirectUri)
          back.searchParams.set("code", code)
          const server = config.serverMetadata()
          // Whose code it is the state has said already: it was kept for this provider only.
          if (server.authorization_response_iss_parameter_supported)
            back.searchParams.set("iss", issuer ?? server.issuer)
          const tokens = await authorizationCodeGrant(config, back, {
            pkceCodeVerifier: codeVerifier,
            ...(nonce !== null && { expectedNonce: nonce }),
            idTokenExpected: isOpenId,
          }).catch((error: unknown) => {
            // Keys that were changed less than a minute after the last look: the next sign-in sees them.
            if (isOfUnknownKey(error)) configuration.forget(config)
            throw error
          })
          const profile = await profileOf(config, tokens)
          if (!profile) throw fail("oauth_unidentified")
          return profile
        }),
    }
  }
  const setups = [
    ...configuredProviders(policy).map(provider => setupOf(policy, provider, reach)),
    ...policy.oidc_issuers.map(issuer => setupOfIssuer(issuer, reach)),
  ]
  return new Map(setups.map(setup => [setup.name, clientOf(setup)]))
}

/** In what one provider differs from another. */
interface Setup {
  readonly name: string
  readonly scope: string
  readonly query: Readonly<Record<string, string>>
  readonly isOpenId: boolean
  readonly load: () => Promise<Configuration>
  readonly profileOf: (config: Configuration, tokens: Tokens) => Promise<OAuthProfile | undefined>
}

function setupOf(policy: OAuthPolicy, provider: OAuthProvider, reach: typeof fetch): Setup {
  const client = {
    id: policy[`oauth_${provider}_client_id`]!,
    secret: policy[`oauth_${provider}_client_secret`]!,
  }
  if (oauthAsking[provider].isOpenId)
    return {
      name: provider,
      ...oauthAsking[provider],
      load: () => discovered(issuerOf(policy, provider), client, reach),
      profileOf: async (config, tokens) => profileOfClaims(provider, await claimsOf(provider, config, tokens)),
    }
  const api = policy.oauth_github_api_url
  return {
    name: provider,
    ...oauthAsking[provider],
    load: async () => plainOAuth(policy, client, reach),
    profileOf: async (config, { access_token }) =>
      profileOfGithub(new URL(api).origin, ...(await githubAnswers(config, api, access_token))),
  }
}

function setupOfIssuer(issuer: OidcIssuer, reach: typeof fetch): Setup {
  const client = { id: issuer.client_id, secret: issuer.client_secret }
  return {
    name: issuer.id,
    scope: issuer.scope,
    query: {},
    isOpenId: true,
    load: () => discovered(new URL(issuer.issuer), client, reach),
    async profileOf(config, tokens) {
      const claims = tokens.claims()!
      const wanted = ["email", "email_verified", ...(hasRoles(issuer) ? [issuer.groups_claim] : [])]
      if (wanted.every(name => claims[name] !== undefined) || !config.serverMetadata().userinfo_endpoint)
        return profileOfIssuer(issuer, claims)
      // What is not in the token is said there. What the token says was signed, so it counts.
      const more = await fetchUserInfo(config, tokens.access_token, claims.sub)
      // Whether an address is verified is said of the address beside it, and of no other.
      const { email, email_verified } = claims.email_verified === undefined ? more : claims
      return profileOfIssuer(issuer, { ...more, ...claims, email, email_verified })
    },
  }
}

interface Client {
  readonly id: string
  readonly secret: string
}

const issuerOf = (policy: OAuthPolicy, provider: OAuthProvider): URL =>
  new URL(policy[`oauth_${provider as Exclude<OAuthProvider, "github">}_issuer`])

/** Signatures are looked at, too, not only the way they came. */
async function discovered(issuer: URL, client: Client, reach: typeof fetch): Promise<Configuration> {
  const config = await discovery(issuer, client.id, client.secret, undefined, {
    [customFetch]: within(issuer, reach),
    timeout: timeoutMs / 1000,
    ...(isPlain(issuer) && { execute: [allowInsecureRequests] }),
  })
  enableNonRepudiationChecks(config)
  return config
}

function plainOAuth(policy: OAuthPolicy, client: Client, reach: typeof fetch): Configuration {
  const authorize = new URL(policy.oauth_github_authorize_url)
  const config = new Configuration(
    {
      issuer: authorize.origin,
      authorization_endpoint: authorize.href,
      token_endpoint: policy.oauth_github_token_url,
    },
    client.id,
    client.secret,
  )
  config.timeout = timeoutMs / 1000
  config[customFetch] = within(authorize, reach)
  if (isPlain(authorize)) allowInsecureRequests(config)
  return config
}

const isPlain = (url: URL): boolean => url.protocol === "http:"

/**
 * Requests to a provider: in time, not too long, never redirected, and in plain HTTP only where the
 * configured address is so, and then to this machine.
 */
const within =
  (configured: URL, reach: typeof fetch) =>
  async (address: string, init: object): Promise<Response> => {
    const url = new URL(address)
    if (isPlain(url) && !(isPlain(configured) && isLoopback(url))) throw new TypeError("plain HTTP to elsewhere")
    try {
      const signal = AbortSignal.timeout(timeoutMs)
      const response = await reach(url, { ...init, redirect: "manual", signal })
      if (response.status >= 500 || response.status === 429) {
        await response.body?.cancel()
        throw new ProviderUnavailable(`status ${response.status}`)
      }
      const body = await bodyOf(response)
      const { status, statusText, headers } = response
      return new Response(body.length > 0 ? body : null, { status, statusText, headers })
    } catch (error) {
      if (error instanceof ProviderUnavailable || error instanceof TooLong) throw error
      throw new ProviderUnavailable("no answer", { cause: error })
    }
  }

class TooLong extends Error {}

async function bodyOf(response: Response): Promise<Buffer<ArrayBuffer>> {
  const parts: Uint8Array[] = []
  let length = 0
  for await (const part of response.body ?? []) {
    length += (part as Uint8Array).length
    if (length > maxBytes) throw new TooLong("the provider says too much")
    parts.push(part as Uint8Array)
  }
  return Buffer.concat(parts)
}

/** The library wraps what it did not expect. */
function isUnavailable(error: unknown): boolean {
  for (let at = error, depth = 0; at instanceof Error && depth < 5; at = at.cause, depth++)
    if (at instanceof ProviderUnavailable) return true
  return false
}

/** A token is signed with a key that is not among those that were looked at. */
function isOfUnknownKey(error: unknown): boolean {
  for (let at = error, depth = 0; at instanceof Error && depth < 5; at = at.cause, depth++)
    if ((at as { code?: unknown }).code === "OAUTH_KEY_SELECTION_FAILED") return true
  return false
}

interface Kept<T> {
  get(): Promise<T>
  /** The next to ask loads again, if it is still this one that is kept. */
  forget(value: T): void
}

/** Loads once for all who wait, again when it is old; what is old is better than nothing. */
function keptFor<T>(milliseconds: number, clock: () => number, load: () => Promise<T>): Kept<T> {
  let kept: { value: T; until: number } | undefined
  let loading: Promise<T> | undefined
  const reload = async () => {
    try {
      const value = await load()
      kept = { value, until: clock() + milliseconds }
      return value
    } finally {
      loading = undefined
    }
  }
  return {
    async get() {
      if (kept && kept.until > clock()) return kept.value
      loading ??= reload()
      if (!kept) return loading
      loading.catch(() => {})
      return kept.value
    },
    forget(value) {
      if (kept?.value === value) kept = undefined
    },
  }
}

type Tokens = Awaited<ReturnType<typeof authorizationCodeGrant>>

/** GitLab says at its user endpoint what it leaves out of the token. */
async function claimsOf(provider: OAuthProvider, config: Configuration, tokens: Tokens) {
  const claims = tokens.claims()!
  if (provider !== "gitlab") return claims
  return { ...claims, ...(await fetchUserInfo(config, tokens.access_token, claims.sub)), iss: claims.iss }
}

async function githubAnswers(config: Configuration, api: string, token: string): Promise<[unknown, unknown]> {
  const get = async (path: string) => {
    const url = new URL(`${api.replace(/\/+$/, "")}${path}`)
    const response = await fetchProtectedResource(
      config,
      token,
      url,
      "GET",
      undefined,
      new Headers({ accept: "application/vnd.github+json" }),
    )
    if (response.status !== 200) throw new Error(`status ${response.status}`)
    return response.json()
  }
  return Promise.all([
    get("/user"),
    // A user who does not share their addresses may have an account all the same.
    get("/user/emails").catch((error: unknown) => {
      if (isUnavailable(error)) throw error
      return null
    }),
  ])
}
