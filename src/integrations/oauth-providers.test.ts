import { generateKeyPairSync, sign } from "node:crypto"
import { beforeEach, expect, test } from "vitest"
import { Failure } from "../contract/core/errors.ts"
import type { OAuthPolicy, OAuthProvider } from "../domain/accounts/oauth.ts"
import type { OidcPolicy } from "../domain/accounts/oidc.ts"
import { silentLog } from "../observability/log.ts"
import { createOAuthProviders, type OAuthProviderClient } from "./oauth-providers.ts"

const policy: OAuthPolicy & OidcPolicy = {
  oidc_issuers: [],
  oauth_redirect_uris: [],
  oauth_google_client_id: "us",
  oauth_google_client_secret: "secret",
  oauth_google_issuer: "https://accounts.google.com",
  oauth_microsoft_client_id: "us",
  oauth_microsoft_client_secret: "secret",
  oauth_microsoft_issuer: "https://login.microsoftonline.com/common/v2.0",
  oauth_gitlab_issuer: "https://gitlab.com",
  oauth_github_authorize_url: "https://github.com/login/oauth/authorize",
  oauth_github_token_url: "https://github.com/login/oauth/access_token",
  oauth_github_api_url: "https://api.github.com",
}
const tenant = "9188040d-6c67-4c5b-b112-36a304b66dad"
const { privateKey, publicKey } = generateKeyPairSync("rsa", { modulusLength: 2048 })

const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url")
function signed(claims: object): string {
  const text = `${encoded({ alg: "RS256", kid: "one" })}.${encoded(claims)}`
  return `${text}.${sign("sha256", Buffer.from(text), privateKey).toString("base64url")}`
}

/** The outside, by address. */
let answers: Record<string, () => object>
let asked: string[]
let now = 0
const reach = (async (url: URL) => {
  asked.push(url.href)
  const answer = answers[url.href]
  if (!answer) throw new TypeError("fetch failed")
  return Response.json(answer())
}) as unknown as typeof fetch
const clientOf = (provider: OAuthProvider): OAuthProviderClient =>
  createOAuthProviders(policy, { log: silentLog, clock: () => now, fetch: reach }).get(provider)!

const seconds = () => Math.floor(Date.now() / 1000)
const claims = (more: object = {}) => ({
  iss: `https://login.microsoftonline.com/${tenant}/v2.0`,
  tid: tenant,
  aud: "us",
  sub: "7",
  nonce: "n",
  iat: seconds(),
  exp: seconds() + 60,
  email: "ada@acme.example",
  xms_edov: true,
  ...more,
})
const microsoft = "https://login.microsoftonline.com/common/v2.0/.well-known/openid-configuration"

beforeEach(() => {
  asked = []
  now = 0
  answers = {
    [microsoft]: () => ({
      issuer: "https://login.microsoftonline.com/{tenantid}/v2.0",
      authorization_endpoint: "https://login.microsoftonline.com/common/oauth2/v2.0/authorize",
      token_endpoint: "https://login.microsoftonline.com/common/oauth2/v2.0/token",
      jwks_uri: "https://login.microsoftonline.com/common/discovery/v2.0/keys",
      id_token_signing_alg_values_supported: ["RS256"],
    }),
    "https://login.microsoftonline.com/common/oauth2/v2.0/token": () => ({
      access_token: "a",
      token_type: "Bearer",
      id_token: signed(claims()),
    }),
    "https://login.microsoftonline.com/common/discovery/v2.0/keys": () => ({
      keys: [{ ...publicKey.export({ format: "jwk" }), kid: "one", use: "sig", alg: "RS256" }],
    }),
  }
})

const back = {
  redirectUri: "https://chat.example/in",
  code: "c",
  issuer: undefined,
  codeVerifier: "v".repeat(43),
  nonce: "n",
}
const codeOf = (call: Promise<unknown>) =>
  call.then(
    reply => reply,
    (error: unknown) => (error instanceof Failure ? error.code : error),
  )

test("Microsoft's common issuer stands for the tenant that the token names, and for no other", async () => {
  expect(await clientOf("microsoft").identify(back)).toEqual({
    issuer: `https://login.microsoftonline.com/${tenant}/v2.0`,
    subject: `${tenant}.7`,
    email: "ada@acme.example",
    names: [],
  })
  const wrong = [
    { iss: "https://login.microsoftonline.com/another/v2.0" },
    { iss: "https://evil.example/v2.0", tid: "evil" },
    { tid: undefined },
    { aud: "another" },
    { exp: seconds() - 3600 },
    { nonce: "m" },
    { sub: undefined },
  ]
  for (const claim of wrong) {
    answers["https://login.microsoftonline.com/common/oauth2/v2.0/token"] = () => ({
      access_token: "a",
      token_type: "Bearer",
      id_token: signed(claims(claim)),
    })
    expect([claim, await codeOf(clientOf("microsoft").identify(back))]).toEqual([claim, "oauth_failed"])
  }
})

test("a token whose key the provider does not show is not believed", async () => {
  const keys = "https://login.microsoftonline.com/common/discovery/v2.0/keys"
  const another = generateKeyPairSync("rsa", { modulusLength: 2048 }).publicKey.export({ format: "jwk" })
  for (const shown of [[], [{ ...another, kid: "one", use: "sig", alg: "RS256" }]]) {
    answers[keys] = () => ({ keys: shown })
    expect(await codeOf(clientOf("microsoft").identify(back))).toBe("oauth_failed")
  }
  delete answers[keys]
  expect(await codeOf(clientOf("microsoft").identify(back))).toBe("oauth_unavailable")
})

const departure = { redirectUri: "https://chat.example/in", state: "s", codeChallenge: "c", nonce: "n" }

test("what a provider says of itself is asked for once, again after an hour, and kept while it is away", async () => {
  const client = clientOf("microsoft")
  await Promise.all([client.urlFor(departure), client.urlFor(departure)])
  expect(asked).toEqual([microsoft])
  const found = answers[microsoft]!
  delete answers[microsoft]
  now = 3_600_001
  await client.urlFor(departure)
  await expect.poll(() => asked.length).toBe(2)
  expect(await client.urlFor(departure)).toContain("client_id=us")
  answers[microsoft] = found
  await client.urlFor(departure)
  await expect.poll(() => asked.length).toBeGreaterThan(2)

  delete answers[microsoft]
  const fresh = clientOf("microsoft")
  expect(await codeOf(fresh.urlFor(departure))).toBe("oauth_unavailable")
  answers[microsoft] = found
  expect(await fresh.urlFor(departure)).toContain("client_id=us")
})

test("a provider of the web is never spoken to in plain HTTP, nor believed to be another", async () => {
  const google = "https://accounts.google.com/.well-known/openid-configuration"
  const described = {
    issuer: "https://accounts.google.com",
    authorization_endpoint: "https://accounts.google.com/o/oauth2/v2/auth",
    token_endpoint: "https://oauth2.googleapis.com/token",
    jwks_uri: "https://www.googleapis.com/oauth2/v3/certs",
  }
  answers[google] = () => ({ ...described, token_endpoint: "http://127.0.0.1/token" })
  expect(await codeOf(clientOf("google").identify(back))).toBe("oauth_failed")
  expect(asked).toEqual([google])
  answers[google] = () => ({ ...described, issuer: "https://evil.example" })
  expect(await codeOf(clientOf("google").identify(back))).toBe("oauth_failed")
  expect(await codeOf(clientOf("google").urlFor(departure))).toBe("oauth_unavailable")
})
