import { randomUUID } from "node:crypto"
import { afterAll, afterEach } from "vitest"
import { generateSync } from "otplib"
import { createClient } from "../../client/rest.ts"
import { userActor } from "../../src/actors/user.ts"
import { hashSecret } from "../../src/cluster/tokens.ts"
import { routes } from "../../src/contract/contract.ts"
import { oauthProviders, type OAuthProvider } from "../../src/domain/accounts/oauth.ts"
import type { Cluster, Worker } from "../kit/cluster.ts"
import { checkedFetch, checkReply, refusal } from "../kit/conformance.ts"
import { emailLinkToken } from "../kit/mailbox.ts"
import { OAuthProviderServer, type CameBack, type ProviderPerson } from "../kit/oauth-provider.ts"
import { clientAt, type Endpoint, type Starling } from "../kit/person.ts"
import { expect, testWith } from "../kit/test.ts"

const home = "https://chat.example/signed-in"
const app = "com.example.app:/signed-in"
const provider = await OAuthProviderServer.start([home, app])
afterAll(() => provider.close())
afterEach(() => {
  provider.meddle = undefined
})

const config: Record<string, string> = {
  ...provider.config,
  STARLING_OAUTH_REDIRECT_URIS: `${home},${app}`,
  // Tests come from addresses of their own: one has only so many sign-ins at a time.
  TRUSTED_PROXIES: "127.0.0.1",
}
const test = testWith({ config })

/**
 * Workers with other rules, booted when they are first needed. Neither has asked a provider
 * anything before.
 */
let others: Promise<{ byAge: Worker; byDate: Worker }> | undefined
const strict = (shared: Cluster) =>
  (others ??= (async () => {
    const gate: Record<string, string> = { ...config, STARLING_AGE_GATE_ENABLED: "true", STARLING_MINIMUM_AGE: "16" }
    const { STARLING_OAUTH_GITHUB_CLIENT_ID: _, STARLING_OAUTH_GITHUB_CLIENT_SECRET: __, ...withoutGithub } = gate
    const configs = [
      {
        ...gate,
        STARLING_ALPHA_REGISTRATION: "true",
        STARLING_EMAIL_ALLOWED_DOMAINS: "example.org",
        // Nobody is there.
        STARLING_OAUTH_GITLAB_ISSUER: "http://127.0.0.1:1",
      },
      { ...withoutGithub, STARLING_AGE_VERIFICATION_TYPE: "dob" },
    ]
    const [[byAge], [byDate]] = (await Promise.all(configs.map(one => shared.boot(1, { config: one })))) as [
      [Worker],
      [Worker],
    ]
    return { byAge, byDate }
  })())

let addresses = 0
const newAddress = () => `203.0.113.${++addresses}`
const from = (address: string, { url }: Endpoint): Starling =>
  createClient(
    { baseUrl: url, fetch: checkedFetch, checkReplies: checkReply, headers: { "x-forwarded-for": address } },
    routes,
  )

let people = 0
/** Somebody new at the provider. */
function newcomer(facts: ProviderPerson = {}): { sub: string; email: string } {
  const sub = String(1000 + ++people)
  const email = `person${sub}@example.org`
  provider.people.set(sub, { email, email_verified: true, preferred_username: `person${sub}`, ...facts })
  return { sub, email }
}

interface Begun {
  readonly rest: Starling
  readonly provider: OAuthProvider
  readonly url: string
  readonly state: string
  readonly code_verifier: string
}
async function begin(place: Endpoint, name: OAuthProvider, redirect_uri = home): Promise<Begun> {
  const rest = from(newAddress(), place)
  return { rest, provider: name, ...(await rest.beginOAuth({ provider: name, redirect_uri })) }
}
const complete = (begun: Begun, { code, iss }: CameBack, more: object = {}, rest = begun.rest) =>
  rest.completeOAuth({
    provider: begun.provider,
    redirect_uri: home,
    code,
    iss,
    state: begun.state,
    code_verifier: begun.code_verifier,
    ...more,
  })
/** From the link to the answer. */
async function signIn(place: Endpoint, name: OAuthProvider, sub: string, more: object = {}, back: Endpoint = place) {
  const begun = await begin(place, name)
  return complete(begun, await provider.visit(begun.url, sub), more, from(newAddress(), back))
}

const asked = {
  google: {
    scope: "openid email profile",
    access_type: "offline",
    prompt: "select_account",
    code_challenge_method: "S256",
  },
  github: { scope: "read:user user:email", code_challenge_method: "S256" },
  microsoft: { scope: "openid email profile User.Read", code_challenge_method: "S256" },
  gitlab: { scope: "read_user openid profile email", code_challenge_method: "S256" },
} as const

test("a user who comes from a provider gets an account, and comes back to it on any worker", async ({ shared }) => {
  for (const name of oauthProviders) {
    const { sub, email } = newcomer({ nickname: "of no weight" })
    const begun = await begin(shared.east, name)
    const { code_challenge, nonce, ...query } = Object.fromEntries(new URL(begun.url).searchParams)
    expect(query).toEqual({
      client_id: name,
      redirect_uri: home,
      response_type: "code",
      state: begun.state,
      ...asked[name],
    })
    expect(begun.state).toMatch(/^[A-Za-z0-9_-]{43}$/)
    for (const value of [code_challenge, begun.code_verifier]) expect(value).toMatch(/^[A-Za-z0-9_-]{43}$/)
    if (name === "github") expect(nonce).toBeUndefined()
    else expect(nonce).toMatch(/^[A-Za-z0-9_-]{43}$/)

    const back = await provider.visit(begun.url, sub)
    expect(back.state).toBe(begun.state)
    const { token, user, ...rest } = await complete(begun, back, {}, from(newAddress(), shared.west))
    expect(rest).toEqual({ status: "success", challenge_token: null, methods: null, expires_in: null })
    expect(user).toMatchObject({ username: `person${sub}`, email, email_verified: true, badges: [] })
    expect((await clientAt(shared.east, token!).getMe()).id).toBe(user!.id)

    const again = await signIn(shared.west, name, sub, {}, shared.east)
    expect(again.user).toEqual(user)
    expect(again.token).not.toBe(token)
    const [row] = await shared.sql`
      SELECT u.password_hash, u.email_confirmed, e.provider FROM users u JOIN external_accounts e ON e.user_id = u.id WHERE u.id = ${user!.id}`
    expect(row).toEqual({ password_hash: null, email_confirmed: true, provider: name })
  }
})

test("without `iss`, as clients that know nothing of it send it, and back to an app", async ({ shared }) => {
  const { sub } = newcomer()
  const begun = await begin(shared.east, "google", app)
  const back = await provider.visit(begun.url, sub)
  expect((await complete(begun, back, { iss: null, redirect_uri: app })).user).toMatchObject({
    username: `person${sub}`,
  })
  const other = await begin(shared.east, "google")
  const forged = { iss: "https://elsewhere.example" }
  expect(await refusal(complete(other, await provider.visit(other.url, sub), forged))).toBe("oauth_failed")
})

test("an account that came from a provider has no password that could be guessed", async ({ shared }) => {
  const { sub, email } = newcomer()
  const { user } = await signIn(shared.east, "google", sub)
  for (const password of ["", "null", "undefined"])
    expect(await refusal(clientAt(shared.east).login({ username: user!.username, password }))).toBe(
      "invalid_credentials",
    )
  expect(await refusal(clientAt(shared.east).login({ username: email, password: "Correct-Horse-9" }))).toBe(
    "invalid_credentials",
  )
})

test("a state is accepted once", async ({ shared }) => {
  const { sub } = newcomer()
  const begun = await begin(shared.east, "github")
  const back = await provider.visit(begun.url, sub)
  const outcomes = await Promise.all(
    [shared.east, shared.west, shared.east, shared.west].map(place =>
      complete(begun, back, {}, from(newAddress(), place)).then(
        () => "granted",
        (error: unknown) => refusal(Promise.reject(error as Error)),
      ),
    ),
  )
  expect(outcomes.toSorted()).toEqual(["granted", ...Array<string>(3).fill("oauth_state_refused")])
  expect(await refusal(complete(begun, back))).toBe("oauth_state_refused")
})

test("OAUTH1: a state is accepted from its provider and for its redirect address only, for ten minutes, and only its hash is kept", async ({
  shared,
}) => {
  const { sub } = newcomer()
  const tries: ((begun: Begun) => object)[] = [
    () => ({ provider: "microsoft" }),
    () => ({ redirect_uri: app }),
    () => ({ redirect_uri: `${home}/` }),
    ({ state }) => ({ state: `${state.slice(0, -1)}${state.endsWith("A") ? "B" : "A"}` }),
    ({ state }) => ({ state: hashSecret(state) }),
  ]
  for (const change of tries) {
    const begun = await begin(shared.east, "google")
    const back = await provider.visit(begun.url, sub)
    expect(await refusal(complete(begun, back, change(begun)))).toBe("oauth_state_refused")
  }

  const begun = await begin(shared.east, "google")
  const back = await provider.visit(begun.url, sub)
  const rows = await shared.sql`SELECT * FROM oauth_states WHERE state_hash = ${hashSecret(begun.state)}`
  expect(rows).toHaveLength(1)
  expect(JSON.stringify(rows)).not.toContain(begun.state)
  expect(JSON.stringify(rows)).not.toContain(begun.code_verifier)
  const lastsSeconds = (rows[0]!["expires_at"] as number) - Date.now() / 1000
  expect(Math.abs(lastsSeconds - 600)).toBeLessThan(30)
  await shared.sql`UPDATE oauth_states SET expires_at = ${Math.floor(Date.now() / 1000)} WHERE state_hash = ${hashSecret(begun.state)}`
  expect(await refusal(complete(begun, back))).toBe("oauth_state_refused")
})

test("only the client that holds the verifier completes a sign-in, and a stolen code is worth nothing to others", async ({
  shared,
}) => {
  const [victim, thief] = [newcomer(), newcomer()]
  for (const [name, code_verifier, code] of [
    ["gitlab", null, "pkce_verifier_required"],
    ["gitlab", "", "pkce_failed"],
    ["gitlab", "A".repeat(43), "pkce_failed"],
    ["github", null, "pkce_verifier_required"],
    ["github", "A".repeat(43), "pkce_failed"],
  ] as const) {
    const begun = await begin(shared.east, name)
    const back = await provider.visit(begun.url, victim.sub)
    expect(await refusal(complete(begun, back, { code_verifier }))).toBe(code)
    expect(await refusal(complete(begun, back))).toBe("oauth_state_refused")
  }
  const theirs = await begin(shared.east, "google")
  const stolen = await provider.visit(theirs.url, victim.sub)
  const own = await begin(shared.east, "google")
  await provider.visit(own.url, thief.sub)
  expect(await refusal(complete(own, stolen))).toBe("oauth_failed")
})

test("a code is accepted once, also by a provider that signs nothing", async ({ shared }) => {
  const { sub } = newcomer()
  const first = await begin(shared.east, "github")
  const back = await provider.visit(first.url, sub)
  expect((await complete(first, back)).status).toBe("success")
  const second = await begin(shared.east, "github")
  expect(await refusal(complete(second, back))).toBe("oauth_failed")
  const third = await begin(shared.east, "github")
  expect(await refusal(complete(third, { ...back, code: "made-up" }))).toBe("oauth_failed")
})

const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url")
type TokenAnswer = { id_token: string; access_token?: string }
/** Changes what the provider's token endpoint says. */
const onTokens = (change: (answer: TokenAnswer) => object) => {
  provider.meddle = ctx => {
    if (ctx.path === "/token" && ctx.status === 200) ctx.body = change(ctx.body as TokenAnswer)
  }
}

test("what the provider did not sign, or not for this sign-in, is not believed", async ({ shared }) => {
  const [victim, thief] = [newcomer(), newcomer()]
  const { user } = await signIn(shared.east, "google", victim.sub)
  const parts = (token: string) => token.split(".") as [string, string, string]
  const claimsIn = (token: string) => JSON.parse(Buffer.from(parts(token)[1], "base64url").toString()) as object
  const forgeries: ((token: string) => string)[] = [
    token => `${parts(token)[0]}.${encoded({ ...claimsIn(token), sub: victim.sub })}.${parts(token)[2]}`,
    token => `${encoded({ alg: "none" })}.${encoded({ ...claimsIn(token), sub: victim.sub })}.`,
    token => `${encoded({ alg: "HS256" })}.${encoded({ ...claimsIn(token), sub: victim.sub })}.AAAA`,
    token => `${parts(token)[0]}.${parts(token)[1]}.`,
    () => "",
  ]
  for (const forge of forgeries) {
    onTokens(answer => ({ ...answer, id_token: forge(answer.id_token) }))
    expect(await refusal(signIn(shared.east, "google", thief.sub))).toBe("oauth_failed")
  }

  // One that is really theirs, of another of their sign-ins.
  const kept: string[] = []
  onTokens(answer => (kept.push(answer.id_token), answer))
  expect((await signIn(shared.east, "google", victim.sub)).user!.id).toBe(user!.id)
  onTokens(answer => ({ ...answer, id_token: kept[0]! }))
  expect(await refusal(signIn(shared.east, "google", thief.sub))).toBe("oauth_failed")

  provider.meddle = undefined
  const begun = await begin(shared.east, "google")
  const url = new URL(begun.url)
  url.searchParams.set("nonce", "of-somebody-else")
  expect(await refusal(complete(begun, await provider.visit(url.href, thief.sub)))).toBe("oauth_failed")
})

test("a provider with a malformed answer signs nobody in", async ({ shared }) => {
  const { sub } = newcomer()
  const changes: Record<OAuthProvider, [path: string, body: unknown, status?: number][]> = {
    google: [
      ["/token", {}],
      ["/token", "not JSON"],
      ["/token", { error: "invalid_client" }, 401],
      ["/token", { access_token: "x".repeat(2 * 1024 * 1024), token_type: "bearer" }],
    ],
    github: [
      ["/token", { error: "bad_verification_code" }],
      ["/token", { token_type: "bearer" }],
      ["/api/user", { message: "Bad credentials" }, 401],
      ["/api/user", "not JSON"],
    ],
    gitlab: [
      ["/me", {}],
      ["/me", { sub: "somebody else" }],
      ["/me", { error: "insufficient_scope" }, 403],
    ],
    microsoft: [["/token", { id_token: "a.b.c", access_token: "x", token_type: "bearer" }]],
  }
  for (const name of oauthProviders)
    for (const [path, body, status = 200] of changes[name]) {
      provider.meddle = ctx => {
        if (ctx.path !== path) return
        ctx.status = status
        ctx.body = body
      }
      expect([name, path, await refusal(signIn(shared.east, name, sub))]).toEqual([name, path, "oauth_failed"])
    }

  provider.meddle = ctx => {
    if (ctx.path === "/api/user") ctx.body = { login: "ada" }
  }
  expect(await refusal(signIn(shared.east, "github", sub))).toBe("oauth_unidentified")
})

test("a provider's answer that points elsewhere is not followed", async ({ shared }) => {
  const { sub } = newcomer()
  for (const [name, path] of [
    ["google", "/token"],
    ["github", "/token"],
    ["github", "/api/user"],
    ["gitlab", "/me"],
  ] as const) {
    provider.meddle = ctx => {
      if (ctx.path === path) ctx.redirect(`${provider.issuer}/trap`)
    }
    expect(await refusal(signIn(shared.east, name, sub))).toBe("oauth_failed")
  }
  expect(provider.asked.filter(request => request.includes("/trap"))).toEqual([])
})

test("a provider that is unavailable or hangs is reported within five seconds", async ({ shared }) => {
  const { sub } = newcomer()
  provider.meddle = ctx => {
    ctx.status = 502
  }
  expect(await refusal(signIn(shared.east, "github", sub))).toBe("oauth_unavailable")
  // What it said of itself is remembered for a while: only a worker that never asked has to.
  const { byAge: fresh } = await strict(shared)
  expect(await refusal(begin(fresh, "gitlab"))).toBe("oauth_unavailable")
  expect(await refusal(begin(fresh, "google"))).toBe("oauth_unavailable")

  provider.meddle = () => new Promise(() => {})
  const late = await Promise.all(
    (["github", "google"] as const).map(async name => {
      const begun = await begin(shared.east, name)
      const back = await provider.visit(begun.url, sub)
      const startedAt = performance.now()
      return [await refusal(complete(begun, back)), performance.now() - startedAt] as const
    }),
  )
  for (const [code, milliseconds] of late) {
    expect(code).toBe("oauth_unavailable")
    expect(milliseconds).toBeLessThan(5_000)
  }
  provider.meddle = undefined
  expect((await begin(fresh, "google")).url).toContain(provider.issuer)
})

test("an address that the provider does not vouch for opens nothing and makes nothing", async ({ shared }) => {
  const ada = await shared.person("ada")
  await shared.sql`UPDATE users SET email_confirmed = true WHERE id = ${ada.id}`
  for (const name of oauthProviders)
    for (const email_verified of [false, "true" as never]) {
      const { sub } = newcomer({ email: ada.email, email_verified })
      // GitHub's own list says so in its own words.
      if (name === "github" && email_verified) continue
      expect([name, await refusal(signIn(shared.east, name, sub))]).toEqual([name, "oauth_email_unverified"])
    }
  const { sub } = newcomer({ email: undefined as never })
  expect(await refusal(signIn(shared.east, "google", sub))).toBe("oauth_email_unverified")
  expect(await shared.sql`SELECT FROM external_accounts WHERE user_id = ${ada.id}`).toEqual([])
})

test("at Microsoft the domain's owner vouches for an address", async ({ shared }) => {
  const { sub } = newcomer({ email_verified: undefined as never, xms_edov: true, tid: randomUUID() })
  expect((await signIn(shared.east, "microsoft", sub)).status).toBe("success")
  const { sub: other } = newcomer({ email_verified: undefined as never, xms_edov: false, tid: randomUUID() })
  expect(await refusal(signIn(shared.east, "microsoft", other))).toBe("oauth_email_unverified")
})

test("OAUTH3: a user who registered somebody else's address first does not get what its owner signs in with", async ({
  shared,
}) => {
  const { sub, email } = newcomer()
  const username = shared.newName("mallory")
  const [password, new_password] = ["Correct-Horse-9", "Another-Horse-9"]
  const east = clientAt(shared.east)
  const { user, token } = await east.register({ username, email: email.toUpperCase(), password })
  for (const name of oauthProviders)
    expect([name, await refusal(signIn(shared.west, name, sub))]).toEqual([name, "oauth_email_unconfirmed"])
  expect(await shared.sql`SELECT FROM external_accounts WHERE user_id = ${user!.id}`).toEqual([])
  expect((await clientAt(shared.west, token!).getMe()).id).toBe(user!.id)

  // A user who reads the mails to an address gets its account, and then it is known to be theirs.
  await east.confirmPasswordReset({
    token: await emailLinkToken(shared.sql, { id: user!.id, email: email.toUpperCase() }, "password_reset"),
    new_password,
  })
  expect(await refusal(clientAt(shared.west, token!).getMe())).toBe("revoked_token")
  expect(await refusal(east.login({ username, password }))).toBe("invalid_credentials")
  for (const name of ["google", "github"] as const)
    expect((await signIn(shared.west, name, sub)).user).toMatchObject({ id: user!.id, username })
  expect((await east.login({ username, password: new_password })).user!.id).toBe(user!.id)
  const linked = await shared.sql`
    SELECT provider, subject FROM external_accounts WHERE user_id = ${user!.id} ORDER BY provider`
  expect(linked).toEqual([
    { provider: "github", subject: sub },
    { provider: "google", subject: sub },
  ])

  // From now on the subject is what counts: not the address, nor what becomes of it there.
  provider.people.set(sub, { email: "elsewhere@example.org", email_verified: false, preferred_username: "x" })
  expect((await signIn(shared.east, "google", sub)).user!.id).toBe(user!.id)
  expect(await refusal(signIn(shared.east, "gitlab", sub))).toBe("oauth_email_unverified")

  // And a second factor is asked for on this way, too.
  const mine = clientAt(shared.east, (await signIn(shared.east, "github", sub)).token!)
  const { secret, backup_codes } = await mine.enableTwoFactor({ password: new_password })
  await mine.confirmTwoFactor({ code: generateSync({ secret }) })
  const { challenge_token, ...rest } = await signIn(shared.west, "google", sub)
  expect(rest).toEqual({
    status: "two_factor_required",
    token: null,
    user: null,
    methods: ["totp", "backup_code"],
    expires_in: 300,
  })
  // A user who reads those mails, but has no second factor, leaves nothing behind for later.
  const { sub: another } = newcomer({ email })
  expect((await signIn(shared.west, "gitlab", another)).status).toBe("two_factor_required")
  expect(await shared.sql`SELECT FROM external_accounts WHERE subject = ${another}`).toEqual([])
  const done = await east.completeTwoFactor({ challenge_token: challenge_token!, code: backup_codes[0]! })
  expect((await clientAt(shared.west, done.token!).getMe()).id).toBe(user!.id)
})

test("two sign-ins at once of somebody new make one account", async ({ shared }) => {
  const { sub, email } = newcomer()
  const begun = await Promise.all([...Array(6).keys()].map(i => begin(i % 2 ? shared.east : shared.west, "google")))
  const backs = await Promise.all(begun.map(({ url }) => provider.visit(url, sub)))
  const replies = await Promise.all(begun.map((one, i) => complete(one, backs[i]!)))
  expect(new Set(replies.map(({ user }) => user!.id)).size).toBe(1)
  expect(await shared.sql`SELECT count(*)::int AS count FROM users WHERE email = ${email}`).toEqual([{ count: 1 }])
  const provided =
    await shared.sql`SELECT user_id FROM external_accounts WHERE provider = 'google' AND subject = ${sub}`
  expect(provided).toEqual([{ user_id: replies[0]!.user!.id }])
})

test("a user with a name that is taken gets four digits behind it, also at the same time", async ({ shared }) => {
  const name = shared.newName("Same Name")
  const replies = await Promise.all(
    [shared.east, shared.west, shared.east].map(place =>
      signIn(place, "google", newcomer({ preferred_username: name }).sub),
    ),
  )
  const plain = name.replace(" ", "_")
  const names = replies.map(({ user }) => user!.username).toSorted()
  expect(names[0]).toBe(plain)
  for (const other of names.slice(1)) expect(other).toMatch(new RegExp(`^${plain}[0-9a-f]{4}$`))
  expect(new Set(names).size).toBe(3)

  const { user } = await signIn(shared.east, "github", newcomer({ preferred_username: "admin" }).sub)
  expect(user!.username).toMatch(/^admin[0-9a-f]{4}$/)
})

test("a user whom an operator has locked, or whose account is being deleted, is kept out", async ({ shared }) => {
  const [locked, leaving] = [newcomer(), newcomer()]
  const { user } = await signIn(shared.east, "google", locked.sub)
  const until = Math.floor(Date.now() / 1000) + 3600
  await shared.east.node.ask(userActor, user!.id, { type: "lockAccount", until, reason: "spam" })
  expect(await refusal(signIn(shared.west, "google", locked.sub))).toBe("account_locked")

  const { user: other } = await signIn(shared.east, "google", leaving.sub)
  const proof = { password_hash: null }
  await shared.east.node.ask(userActor, other!.id, { type: "freezeAccount", proof, factor: null, days: 30, bots: [] })
  expect(await refusal(signIn(shared.west, "google", leaving.sub))).toBe("account_deleted")
})

test("the same subject of a provider that is elsewhere by now is somebody else", async ({ shared }) => {
  for (const name of oauthProviders) {
    const { sub, email } = newcomer()
    const { user } = await signIn(shared.east, name, sub)
    const [row] = await shared.sql`SELECT issuer FROM external_accounts WHERE user_id = ${user!.id}`
    expect(row).toEqual({ issuer: name === "github" ? new URL(provider.issuer).origin : provider.issuer })
    await shared.sql`UPDATE external_accounts SET issuer = 'https://former.example' WHERE user_id = ${user!.id}`
    provider.people.set(sub, { email: `other_${email}`, email_verified: true, preferred_username: `person${sub}` })
    const other = await signIn(shared.west, name, sub)
    expect(other.user!.id).not.toBe(user!.id)
    expect((await signIn(shared.east, name, sub)).user!.id).toBe(other.user!.id)
  }
})

test("guesses at a password lock nobody out who comes through a provider; the second factor is locked with the password", async ({
  shared,
}) => {
  const { sub, email } = newcomer()
  const ada = (await signIn(shared.west, "google", sub)).user!
  const { login, completeTwoFactor, confirmPasswordReset } = clientAt(shared.east)
  const { username } = ada
  const password = "Correct-Horse-9"
  const token = await emailLinkToken(shared.sql, { id: ada.id, email }, "password_reset")
  await confirmPasswordReset({ token, new_password: password })
  const lock = async () => {
    for (let i = 0; i < 5; i++)
      expect(await refusal(login({ username, password: "Wrong-Horse-99" }))).toBe("invalid_credentials")
    expect(await refusal(login({ username, password }))).toBe("account_locked")
  }
  await lock()
  expect((await signIn(shared.west, "google", sub)).user!.id).toBe(ada.id)
  // A finished sign-in, so it ends the lock.
  const mine = clientAt(shared.east, (await login({ username, password })).token!)
  const { secret, backup_codes } = await mine.enableTwoFactor({ password })
  await mine.confirmTwoFactor({ code: generateSync({ secret }) })
  await lock()
  const { challenge_token } = await signIn(shared.west, "google", sub)
  const second = { challenge_token: challenge_token!, code: backup_codes[0]! }
  expect(await refusal(completeTwoFactor(second))).toBe("account_locked")
  expect(await refusal(login({ username, password }))).toBe("account_locked")
})

test("P16: one address has ten sign-ins pending, however many come at once and wherever", async ({ shared }) => {
  const address = newAddress()
  const at = (i: number) => from(address, i % 2 ? shared.east : shared.west)
  const ask = (i: number) => at(i).beginOAuth({ provider: "github", redirect_uri: home })
  const outcomes = await Promise.allSettled([...Array(30).keys()].map(ask))
  const begun = outcomes.flatMap(one => (one.status === "fulfilled" ? [one.value] : []))
  expect(begun).toHaveLength(10)
  for (const one of outcomes)
    if (one.status === "rejected") {
      expect(await refusal(Promise.reject(one.reason as Error))).toBe("too_many_oauth_requests")
      const { retryAfterSeconds } = one.reason as { retryAfterSeconds: number }
      expect(retryAfterSeconds).toBeGreaterThan(550)
      expect(retryAfterSeconds).toBeLessThanOrEqual(601)
    }
  expect(
    (await from(newAddress(), shared.east).beginOAuth({ provider: "github", redirect_uri: home })).state,
  ).toBeTruthy()

  // Each that ends, well or not, frees a slot; so does one whose time is over.
  const { state } = begun[0]!
  await refusal(at(0).completeOAuth({ provider: "github", redirect_uri: home, code: "x", state }))
  await shared.sql`UPDATE oauth_states SET expires_at = 1 WHERE state_hash = ${hashSecret(begun[1]!.state)}`
  const more = await Promise.allSettled([...Array(8).keys()].map(ask))
  expect(more.filter(one => one.status === "fulfilled")).toHaveLength(2)
})

test("addresses of one /64 are one", async ({ shared }) => {
  const ask = (i: number) =>
    from(`2001:db8:0:7::${i.toString(16)}`, shared.east).beginOAuth({ provider: "google", redirect_uri: home })
  for (let i = 1; i <= 10; i++) await ask(i)
  expect(await refusal(ask(11))).toBe("too_many_oauth_requests")
  expect(
    (await from("2001:db8:0:8::1", shared.east).beginOAuth({ provider: "google", redirect_uri: home })).url,
  ).toBeTruthy()
})

test("OAUTH2: nobody is sent back anywhere but where the operator said", async ({ shared }) => {
  const rest = from(newAddress(), shared.east)
  for (const redirect_uri of [
    "https://evil.example/",
    "https://chat.example/",
    `${home}/`,
    `${home}?next=https://evil.example`,
    `${home}#x`,
    home.toUpperCase(),
    "https://chat.example@evil.example/signed-in",
    "https://chat.example/signed-in/../evil",
    "javascript:alert(1)",
    "http://127.0.0.1/",
    `${home},${app}`,
  ])
    for (const name of ["google", "github"])
      expect([redirect_uri, await refusal(rest.beginOAuth({ provider: name, redirect_uri }))]).toEqual([
        redirect_uri,
        "oauth_redirect_refused",
      ])
  expect(await refusal(rest.beginOAuth({ provider: "google", redirect_uri: "" }))).toBe("validation_failed")
})

test("an unknown provider, or one that is not configured, is refused with that reason", async ({ shared }) => {
  const { byDate } = await strict(shared)
  const rest = clientAt(byDate)
  const back = { code: "x", state: "x", redirect_uri: home }
  for (const name of ["facebook", "Google", "__proto__", "google%00", "x".repeat(300)]) {
    expect(await refusal(rest.beginOAuth({ provider: name, redirect_uri: home }))).toBe("oauth_provider_unsupported")
    expect(await refusal(rest.completeOAuth({ provider: name, ...back }))).toBe("oauth_provider_unsupported")
  }
  expect(await refusal(rest.beginOAuth({ provider: "github", redirect_uri: home }))).toBe("oauth_not_configured")
  expect(await refusal(rest.completeOAuth({ provider: "github", ...back }))).toBe("oauth_not_configured")
})

test("an account that begins here follows the rules of registration", async ({ shared }) => {
  const { byAge, byDate } = await strict(shared)
  const { sub } = newcomer()
  const at = (place: Endpoint, more: object) => refusal(signIn(place, "google", sub, more))
  expect(await at(byAge, {})).toBe("age_required")
  expect(await at(byAge, { age: 15 })).toBe("too_young")
  expect(await at(byAge, { dob: "yesterday" })).toBe("invalid_birth_date")
  expect(await at(byDate, { age: 40 })).toBe("birth_date_required")
  const { user } = await signIn(byAge, "google", sub, { age: 16 })
  expect(user).toMatchObject({ age_verified: true, badges: ["alpha_tester"] })
  expect((await signIn(byDate, "google", sub)).user!.id).toBe(user!.id)

  const { sub: foreign } = newcomer({ email: "ada@elsewhere.example" })
  expect(await refusal(signIn(byAge, "google", foreign, { age: 40 }))).toBe("email_domain_not_allowed")
  const { sub: odd } = newcomer({ email: "not an address" })
  expect(await refusal(signIn(byAge, "google", odd, { age: 40 }))).toBe("invalid_email")
})
