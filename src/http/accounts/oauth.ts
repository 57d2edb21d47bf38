import { hash, randomBytes } from "node:crypto"
import { userActor } from "../../actors/user.ts"
import { hashSecret, newSecret } from "../../cluster/tokens.ts"
import { fail, Failure, unavailable } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { limits } from "../../contract/core/limits.ts"
import type { routes } from "../../contract/accounts/oauth.ts"
import { ageRefusal, dayOf } from "../../domain/accounts/birth-dates.ts"
import { limitedAddress, parseAddress } from "../../domain/core/client-address.ts"
import { secondsAt } from "../../std/clock.ts"
import { isEmailAddress, isOfDomain } from "../../domain/accounts/email-addresses.ts"
import { sameHash } from "../../domain/core/hashes.ts"
import { isOAuthProvider, usernameFor, type NameMark, type OAuthProfile } from "../../domain/accounts/oauth.ts"
import type { UserRow } from "../../storage/accounts/users.ts"
import type { Handlers, PublicCall } from "../server/handlers.ts"
import { newcomer } from "./newcomers.ts"
import { createOAuthProviders, type OAuthProviderClient } from "../../integrations/oauth-providers.ts"
import { createMappedRoles, saidGroups, type MappedRolesNeeds } from "./mapped-roles.ts"
import { createSignIn, signedIn } from "./sign-in.ts"
import type { Creates, Http, Policy } from "../shared/http.ts"
import type { AgeGate } from "../../domain/accounts/birth-dates.ts"
import type { OAuthPolicy } from "../../domain/accounts/oauth.ts"
import type { OidcPolicy } from "../../domain/accounts/oidc.ts"
import type { NewcomerPolicy } from "./newcomers.ts"
import type { SignInNeeds } from "./sign-in.ts"
import type { Names, RegistrationPolicy } from "./username-rules.ts"

type OAuthNeeds = SignInNeeds &
  Names &
  Http<"oauth"> &
  Creates &
  MappedRolesNeeds &
  Policy<RegistrationPolicy & AgeGate & NewcomerPolicy & OAuthPolicy & OidcPolicy>

/** Between the beginning of a sign-in and its end. */
const stateLifetimeSeconds = 600
/** Unfinished sign-ins of one address. */
const maxPendingPerAddress = 10
/** How often an account is looked for, and made, while others take its name or make the same. */
const attempts = 5

const challengeOf = (verifier: string): string => hash("sha256", verifier, "base64url")

/**
 * Sign-ins through others. It keeps:
 *   OAUTH1  A state is good once, for ten minutes, at its provider, for its redirect address; and only
 *           for the client that holds the verifier, which is kept nowhere here.
 *   OAUTH2  Users are redirected only to an address that the operator has listed.
 *   OAUTH3  An account of a provider belongs to one account here, permanently. It is linked to
 *       an existing account only if both sides have verified the address.
 */
export function oauth(http: OAuthNeeds): Handlers<typeof routes> {
  const { ask, create, storage, policy, clock, log } = http
  const signIn = createSignIn(http)
  const providers = createOAuthProviders(policy, { log, clock })
  const withMappedRoles = createMappedRoles(http)
  const seconds = () => secondsAt(clock())

  function providerOf(name: string): { provider: string; client: OAuthProviderClient } {
    const client = providers.get(name)
    if (client) return { provider: name, client }
    if (!isOAuthProvider(name))
      throw fail("oauth_provider_unsupported", { message: `Unsupported OAuth provider: ${name.slice(0, 64)}` })
    throw fail("oauth_not_configured", { message: `OAuth not configured for ${name}`, retry_after: 3600 })
  }

  /** The user whom a profile signs in, if there is an account. */
  async function known(provider: string, { issuer, subject, email }: OAuthProfile): Promise<UserRow | undefined> {
    const linked = await storage.oauth.userOf({ provider, issuer, subject })
    if (linked) return linked
    if (email === null) throw fail("oauth_email_unverified")
    const user = await storage.users.findByLogin(email)
    if (!user) return undefined
    await ask(userActor, user.id, { type: "linkExternalAccount", provider, issuer, subject, email })
    return user
  }

  /** Creates an account for a new user. */
  async function welcome(
    provider: string,
    { issuer, subject, email, names }: OAuthProfile,
    call: Pick<PublicCall, "address" | "userAgent">,
    mark: NameMark,
  ) {
    if (email === null || !isEmailAddress(email)) throw fail("invalid_email")
    if (!isOfDomain(email, policy.email_allowed_domains)) throw fail("email_domain_not_allowed")
    const { secret, session } = signIn.newSession(call)
    const rules = await http.usernames()
    const account = newcomer(http, {
      username: usernameFor(names, limits.username, name => rules.refusal(name) === undefined, mark),
      email,
      password_hash: null,
      email_confirmed: true,
    })
    const external = { provider, issuer, subject }
    const { user, session_id } = await create(userActor, { type: "register", user: account, session, external })
    return { user, session_id: session_id!, token: `${session_id}.${secret}` }
  }

  return {
    async beginOAuth({ params, query: { redirect_uri }, address }) {
      const { provider, client } = providerOf(params.provider)
      if (!policy.oauth_redirect_uris.includes(redirect_uri)) throw fail("oauth_redirect_refused") // OAUTH2
      const state = newSecret()
      const verifier = newSecret()
      const codeChallenge = challengeOf(verifier)
      const nonce = client.isOpenId ? newSecret() : null
      // Before anything is kept: a provider that is away costs nobody a place.
      const url = await client.urlFor({ redirectUri: redirect_uri, state, codeChallenge, nonce })

      const now = seconds()
      const row = {
        state_hash: hashSecret(state),
        provider,
        redirect_uri,
        code_challenge: codeChallenge,
        nonce,
        address: limitedAddress(parseAddress(address)!),
        expires_at: now + stateLifetimeSeconds,
      }
      if (!(await storage.oauth.begin(row, now, maxPendingPerAddress)))
        throw fail("too_many_oauth_requests", { retry_after: await storage.oauth.waitOf(row.address, now) })
      return { url, state, code_verifier: verifier }
    },

    async completeOAuth(call) {
      const { code, state, redirect_uri, code_verifier, iss, ...age } = call.body
      const { provider, client } = providerOf(call.params.provider)
      const begun = await storage.oauth.take(hashSecret(state), seconds()) // OAUTH1
      if (begun?.provider !== provider || begun.redirect_uri !== redirect_uri) throw fail("oauth_state_refused")
      if (code_verifier === undefined) throw fail("pkce_verifier_required")
      if (!sameHash(challengeOf(code_verifier), begun.code_challenge)) throw fail("pkce_failed")
      const profile = await client.identify({
        redirectUri: redirect_uri,
        code,
        issuer: iss,
        codeVerifier: code_verifier,
        nonce: begun.nonce,
      })

      // Two that arrive at once want to make the same account, or of the same name: the slower one
      // looks again.
      const groups = saidGroups(http, provider, profile)
      for (let attempt = 1; ; attempt++)
        try {
          const user = await known(provider, profile)
          if (user) {
            const begun = (session: Snowflake) => withMappedRoles(user, session, groups)
            return await signIn.complete(user, call, { password_hash: null }, { groups, begun })
          }
          const refusal = ageRefusal(age, policy, dayOf(clock()))
          if (refusal) throw fail(refusal)
          const made = await welcome(provider, profile, call, { token: newMark(attempt), isNeeded: attempt > 1 })
          await withMappedRoles(made.user, made.session_id, groups)
          return signedIn(made.user, made.token)
        } catch (error) {
          if (!(error instanceof Failure && error.code === "user_exists")) throw error
          if (attempt >= attempts) throw unavailable("accounts of this name are being made")
        }
    },
  }
}

/** Longer where a short one was not enough. */
const newMark = (attempt: number): string => randomBytes(attempt <= 2 ? 2 : 4).toString("hex")
