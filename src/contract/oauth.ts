import { z } from "zod"
import { LoginReply } from "./auth.ts"
import { omittable } from "./fields.ts"
import { defineRoute } from "./registry.ts"

/** Any text: what is no provider is refused with 400. */
const byProvider = z.object({
  provider: z.string().meta({ description: "`google`, `github`, `microsoft` or `gitlab`", example: "google" }),
})
const RedirectUri = z.string().min(1).max(2048)

export const OAuthDeparture = z
  .object({
    url: z.string().describe("Where the person signs in"),
    state: z.string().describe("Comes back with the code; a client goes on only if it is the same"),
    code_verifier: z
      .string()
      .nullable()
      .describe("Stays with the client until the callback; null where the provider knows no PKCE"),
  })
  .meta({ id: "OAuthLoginResponse" })
export type OAuthDeparture = z.infer<typeof OAuthDeparture>

export const beginOAuth = defineRoute({
  method: "GET",
  path: "/auth/oauth/:provider/login",
  summary: "Begin to sign in through a provider; the sign-in has to be completed within ten minutes",
  tag: "Authentication",
  auth: "public",
  params: byProvider,
  query: z.object({ redirect_uri: RedirectUri.describe("One of those that the operator allows, to the letter") }),
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
    redirect_uri: RedirectUri.describe("The same as at the beginning"),
    code_verifier: omittable(z.string().max(512)),
    iss: omittable(z.string().max(2048)).describe("As it came with the code, if it did"),
    age: omittable(z.int().positive().max(200)).describe(
      "This and the next two: as at registration, for a new account",
    ),
    age_verified: omittable(z.boolean()),
    dob: omittable(z.string().max(32)),
  })
  .meta({ id: "OAuthCallbackRequest" })

export const completeOAuth = defineRoute({
  method: "POST",
  path: "/auth/oauth/:provider/callback",
  summary: "Sign in with what a provider sent back; whoever is new here gets an account",
  tag: "Authentication",
  auth: "public",
  params: byProvider,
  body: OAuthCallback,
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
    "account_suspended",
    "account_deleted",
  ],
})

export const routes = { beginOAuth, completeOAuth }
