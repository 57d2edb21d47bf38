import { z } from "zod"
import { LoginReply } from "./auth.ts"
import { sample } from "../core/examples.ts"
import { omittable } from "../core/fields.ts"
import { defineRoute } from "../core/registry.ts"

/** Any text: what is no provider is refused with 400. */
const byProvider = z.object({
  provider: z.string().meta({
    description:
      "`google`, `github`, `microsoft`, `gitlab`, or the id of an issuer of this server, as its capabilities list them",
    example: "google",
  }),
})
const RedirectUri = z.string().min(1).max(2048)

export const OAuthDeparture = z
  .object({
    url: z.string().describe("The URL of the provider's sign-in page"),
    state: z.string().describe("The provider returns it with the code. The client must check that it is the same"),
    code_verifier: z.string().describe("The client keeps it until the callback (PKCE)"),
  })
  .meta({ id: "OAuthLoginResponse" })
export type OAuthDeparture = z.infer<typeof OAuthDeparture>

export const beginOAuth = defineRoute({
  method: "GET",
  path: "/auth/oauth/:provider/login",
  summary: "Start a sign-in with a provider. It must be completed within ten minutes",
  tag: "Authentication",
  auth: "public",
  params: byProvider,
  query: z.object({ redirect_uri: RedirectUri.describe("Exactly one of the redirect URIs in the configuration") }),
  isSecret: true,
  reply: OAuthDeparture,
  fails: [
    "oauth_provider_unsupported",
    "oauth_not_configured",
    "oauth_redirect_refused",
    "too_many_oauth_requests",
    "oauth_unavailable",
  ],
})

export const OAuthCallback = z
  .object({
    code: z.string().min(1).max(4096),
    state: z.string().min(1).max(512),
    redirect_uri: RedirectUri.describe("The same as in the first step"),
    code_verifier: omittable(z.string().max(512)),
    iss: omittable(z.string().max(2048)).describe("As the provider returned it with the code, if it did"),
    age: omittable(z.int().positive().max(200)).describe(
      "For a new account, as in registration. The same for the next two fields",
    ),
    age_verified: omittable(z.boolean()),
    dob: omittable(z.string().max(32)),
  })
  .meta({ id: "OAuthCallbackRequest" })

export const completeOAuth = defineRoute({
  method: "POST",
  path: "/auth/oauth/:provider/callback",
  summary: "Complete a sign-in with the provider's response. A new user gets an account",
  tag: "Authentication",
  auth: "public",
  params: byProvider,
  body: OAuthCallback,
  example: {
    code: sample.secret,
    state: sample.secret,
    redirect_uri: "https://chat.example/signed-in",
    code_verifier: sample.secret,
  },
  reply: LoginReply,
  fails: [
    "oauth_provider_unsupported",
    "oauth_not_configured",
    "oauth_state_refused",
    "pkce_verifier_required",
    "pkce_failed",
    "oauth_failed",
    "oauth_unidentified",
    "oauth_unavailable",
    "oauth_email_unverified",
    "oauth_email_unconfirmed",
    "invalid_email",
    "email_domain_not_allowed",
    "age_required",
    "birth_date_required",
    "invalid_birth_date",
    "too_young",
    "account_locked",
    "account_deleted",
  ],
})

export const routes = { beginOAuth, completeOAuth }
