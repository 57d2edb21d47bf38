import { randomUUID } from "node:crypto"
import { generateSync } from "otplib"
import { afterAll, afterEach } from "vitest"
import { clientAt, type Endpoint } from "../kit/person.ts"
import { refusal } from "../kit/conformance.ts"
import { emailLinkToken } from "../kit/mailbox.ts"
import { OAuthProviderServer, ownIssuer, type ProviderPerson } from "../kit/oauth-provider.ts"
import { expect, testWith } from "../kit/test.ts"

const home = "https://chat.example/app"
const provider = await OAuthProviderServer.start([home])
afterAll(() => provider.close())
afterEach(() => {
  provider.meddle = undefined
})

/** Nobody is there. */
const away = { id: "away", name: "Away", issuer: "http://127.0.0.1:1", client_id: "us", client_secret: "secret" }
const configOf = (more: object = {}, others: object[] = []): Record<string, string> => ({
  STARLING_OAUTH_REDIRECT_URIS: home,
  STARLING_OIDC_ISSUERS: JSON.stringify([provider.asOwnIssuer(more), ...others]),
})
const test = testWith({ config: configOf({ email_domains: ["acme.example"] }, [away]) })

let people = 0
function newcomer(facts: ProviderPerson = {}): { sub: string; email: string } {
  const sub = `person-${++people}-${randomUUID()}`
  const email = `${sub}@acme.example`
  provider.people.set(sub, { email, email_verified: true, preferred_username: `acme${people}`, ...facts })
  return { sub, email }
}

async function begin(place: Endpoint) {
  const begun = await clientAt(place).beginOAuth({ provider: ownIssuer, redirect_uri: home })
  return { place, ...begun }
}
type Begun = Awaited<ReturnType<typeof begin>>
const complete = ({ place, state, code_verifier }: Begun, code: string) =>
  clientAt(place).completeOAuth({ provider: ownIssuer, redirect_uri: home, code, state, code_verifier })
async function signIn(place: Endpoint, sub: string) {
  const begun = await begin(place)
  return complete(begun, (await provider.visit(begun.url, sub)).code)
}

const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url")
type Answer = { id_token: string }
const onToken = (change: (token: string) => string) => {
  provider.meddle = ctx => {
    if (ctx.path !== "/token" || ctx.status !== 200) return
    const answer = ctx.body as Answer
    ctx.body = { ...answer, id_token: change(answer.id_token) }
  }
}

test("an issuer of the operator signs people in, and joins an account only by an address that both have verified", async ({
  shared,
}) => {
  const { features } = await clientAt(shared.west).getCapabilities()
  expect(features.sign_in).toMatchObject({
    password: true,
    providers: [
      { id: "acme", name: "Acme" },
      { id: "away", name: "Away" },
    ],
  })
  const { sub, email } = newcomer()
  const begun = await begin(shared.east)
  const asked = new URL(begun.url).searchParams
  expect(Object.fromEntries(asked)).toMatchObject({
    client_id: ownIssuer,
    response_type: "code",
    scope: "openid email profile",
    code_challenge_method: "S256",
    nonce: expect.stringMatching(/^[\w-]{43}$/),
    state: begun.state,
  })
  // The token names nobody's address: the user endpoint does.
  const { user } = await complete(begun, (await provider.visit(begun.url, sub)).code)
  expect(user).toMatchObject({ email, email_verified: true })
  provider.people.set(sub, { email: "another@acme.example", email_verified: false })
  expect((await signIn(shared.west, sub)).user!.id).toBe(user!.id)

  // Somebody with the same address in mind, but nobody has verified it, or of a domain that is not the issuer's.
  const ada = await shared.person("ada")
  await shared.sql`UPDATE users SET email = ${"ada@acme.example"}, email_confirmed = true WHERE id = ${ada.id}`
  for (const email_verified of [false, undefined as never, "true" as never])
    expect(await refusal(signIn(shared.east, newcomer({ email: "ada@acme.example", email_verified }).sub))).toBe(
      "oauth_email_unverified",
    )
  const lin = await shared.person("lin")
  await shared.sql`UPDATE users SET email_confirmed = true WHERE id = ${lin.id}`
  expect(await refusal(signIn(shared.east, newcomer({ email: lin.email }).sub))).toBe("oauth_email_unverified")
  // The token and the user endpoint speak of two addresses: neither lends the other its word.
  const { sub: mixed } = newcomer({ email: "other@acme.example" })
  onToken(token => provider.signed(token, () => ({ email: "ada@acme.example" })))
  expect((await signIn(shared.east, mixed)).user).toMatchObject({ email: "other@acme.example" })
  provider.meddle = undefined

  // An account whose owner never confirmed the address is nobody's to join, until they have.
  const unconfirmed = { username: shared.newName("eve"), email: "eve@acme.example", password: ada.password }
  const { user: eve } = await clientAt(shared.east).register(unconfirmed)
  const { sub: eves } = newcomer({ email: unconfirmed.email })
  expect(await refusal(signIn(shared.east, eves))).toBe("oauth_email_unconfirmed")
  await clientAt(shared.west).confirmPasswordReset({
    token: await emailLinkToken(shared.sql, { id: eve!.id, email: unconfirmed.email }, "password_reset"),
    new_password: "Another-Horse-9",
  })
  expect((await signIn(shared.west, eves)).user!.id).toBe(eve!.id)
})

test("a token that the issuer did not sign for this sign-in opens nothing; its keys may change; away, it is said to be so", async ({
  shared,
}) => {
  const { sub } = newcomer()
  const claimsIn = (token: string) => JSON.parse(Buffer.from(token.split(".")[1]!, "base64url").toString()) as object
  const now = Math.floor(Date.now() / 1000)
  const forgeries: [string, (token: string) => string][] = [
    ["alg none", token => `${encoded({ alg: "none" })}.${encoded(claimsIn(token))}.`],
    ["alg HS256", token => `${encoded({ alg: "HS256" })}.${encoded(claimsIn(token))}.${"A".repeat(43)}`],
    ["no signature", token => `${token.split(".").slice(0, 2).join(".")}.`],
    ["aud", token => provider.signed(token, () => ({ aud: "another-client" }))],
    ["azp", token => provider.signed(token, () => ({ aud: [ownIssuer, "another"], azp: "another" }))],
    ["iss", token => provider.signed(token, () => ({ iss: "https://elsewhere.example" }))],
    ["nonce", token => provider.signed(token, () => ({ nonce: "of another sign-in" }))],
    ["no nonce", token => provider.signed(token, () => ({ nonce: undefined }))],
    ["exp", token => provider.signed(token, () => ({ iat: now - 7200, exp: now - 3600 }))],
    ["no iat", token => provider.signed(token, () => ({ iat: undefined }))],
  ]
  // An issuer that itself lists them is not believed about algorithms that are none.
  const [weak] = await shared.boot(1, { config: configOf() })
  const list = (ctx: { path: string; body: unknown }) => {
    if (ctx.path === "/.well-known/openid-configuration")
      ctx.body = { ...(ctx.body as object), id_token_signing_alg_values_supported: ["none", "HS256", "RS256"] }
  }
  provider.meddle = list
  await begin(weak!)
  for (const [what, forge] of forgeries) {
    onToken(forge)
    for (const place of [shared.east, weak!])
      expect([what, await refusal(signIn(place, sub))]).toEqual([what, "oauth_failed"])
  }
  onToken(token => provider.signed(token, () => ({})))
  expect((await signIn(shared.east, sub)).status).toBe("success")
  provider.meddle = undefined

  // A code once; a sign-in once.
  const first = await begin(shared.east)
  const { code } = await provider.visit(first.url, sub)
  expect((await complete(first, code)).status).toBe("success")
  expect(await refusal(complete(first, code))).toBe("oauth_state_refused")
  expect(await refusal(complete(await begin(shared.east), code))).toBe("oauth_failed")

  // Keys change a moment after they were looked at: one sign-in too early, then all is well.
  provider.changeKeys()
  expect(await refusal(signIn(shared.east, sub))).toBe("oauth_failed")
  expect((await signIn(shared.east, sub)).status).toBe("success")
  const looks = provider.asked.filter(request => request === "GET /jwks").length
  await signIn(shared.east, sub)
  expect(provider.asked.filter(request => request === "GET /jwks")).toHaveLength(looks)

  const nowhere = clientAt(shared.east).beginOAuth({ provider: "away", redirect_uri: home })
  expect(await refusal(nowhere)).toBe("oauth_unavailable")
  const begun = await begin(shared.west)
  const back = await provider.visit(begun.url, sub)
  provider.meddle = ctx => {
    ctx.status = 503
  }
  expect(await refusal(complete(begun, back.code))).toBe("oauth_unavailable")
})

test("OAUTH4: groups give and take the roles that they stand for, at each sign-in and no others; passwords may be off", async ({
  shared,
}) => {
  const ada = await shared.person("ada")
  const owner = ada.on(shared.east)
  const { id: server_id } = await owner.createServer({ name: "Acme" })
  const { id: away_id } = await owner.createServer({ name: "Elsewhere" })
  const role = async (name: string, server = server_id) => (await owner.createRole({ server_id: server, name })).id
  const [devs, leads, free] = [await role("Devs"), await role("Leads"), await role("Free")]
  const guests = await role("Guests", away_id)
  const roles = { engineering: [devs], leads: [leads, devs], guests: [guests], gone: ["1"], everybody: [server_id] }
  const config = { ...configOf({ roles }), STARLING_PASSWORD_LOGIN_ENABLED: "false" }
  const [worker] = await shared.boot(1, { config })

  const { sub, email } = newcomer({ groups: ["engineering", "unknown", "gone", "__proto__", 7] })
  const { user } = await signIn(worker!, sub)
  const member_id = user!.id
  const rolesIn = async (id: string) => {
    const rows = await shared.sql<{ roles: string[] }[]>`
      SELECT roles::text[] AS roles FROM members WHERE server_id = ${id} AND user_id = ${member_id}`
    return rows[0]?.roles.toSorted()
  }
  expect([await rolesIn(server_id), await rolesIn(away_id)]).toEqual([[devs], undefined])

  await owner.giveRole({ server_id, member_id, role_id: free })
  const facts = { email, email_verified: true }
  const after = async (claims: object) => {
    provider.people.set(sub, { ...facts, ...claims })
    await signIn(worker!, sub)
    return [await rolesIn(server_id), await rolesIn(away_id)]
  }
  expect(await after({ groups: ["leads", "guests"] })).toEqual([[devs, leads, free].toSorted(), [guests]])
  // Too many for the token: the issuer only says where to ask, so nothing is known.
  expect(await after({ _claim_names: { groups: "src1" } })).toEqual([[devs, leads, free].toSorted(), [guests]])
  expect(await after({ groups: "engineering" })).toEqual([[devs, free].toSorted(), []])
  const entries = await owner.listAuditLog({ server_id })
  expect(entries.filter(({ reason }) => reason === "Single sign-on: Acme").map(({ action }) => action)).toEqual([
    "MEMBER_ROLE_REMOVE",
    "MEMBER_ROLE_ADD",
    "MEMBER_ROLE_ADD",
  ])
  expect(await after({})).toEqual([[free], []])
  // Who is banned stays out, and signs in all the same.
  await owner.banUser({ server_id, user_id: member_id })
  expect(await after({ groups: ["leads", "guests"] })).toEqual([undefined, [guests]])

  // Nothing changes before a second factor is given: the issuer's password may be a thief's.
  const account = { username: shared.newName("lin"), email: "lin@acme.example", password: ada.password }
  const { user: lin } = await clientAt(shared.east).register(account)
  const new_password = "Another-Horse-9"
  const token = await emailLinkToken(shared.sql, { id: lin!.id, email: account.email }, "password_reset")
  await clientAt(shared.east).confirmPasswordReset({ token, new_password })
  const lins = clientAt(shared.east, (await clientAt(shared.east).login({ ...account, password: new_password })).token!)
  const { secret, backup_codes } = await lins.enableTwoFactor({ password: new_password })
  await lins.confirmTwoFactor({ code: generateSync({ secret }) })
  const { sub: external } = newcomer({ email: account.email })
  const rolesOfLin = async () =>
    (
      await shared.sql<{ roles: string[] }[]>`SELECT roles::text[] AS roles FROM members WHERE user_id = ${lin!.id}`
    ).map(row => row.roles)
  const asked = async (groups: string[]) => {
    provider.people.set(external, { ...facts, email: account.email, groups })
    return (await signIn(worker!, external)).challenge_token!
  }
  const answer = (challenge_token: string, code: string) =>
    clientAt(worker!).completeTwoFactor({ challenge_token, code })
  const waiting = await asked(["engineering", "unknown"])
  expect(await refusal(answer(waiting, "AAAA-AAAA"))).toBe("invalid_second_factor")
  expect(await rolesOfLin()).toEqual([])
  await answer(waiting, backup_codes[0]!)
  expect(await rolesOfLin()).toEqual([[devs]])
  const taken = await asked([])
  expect(await rolesOfLin()).toEqual([[devs]])
  await answer(taken, backup_codes[1]!)
  expect(await rolesOfLin()).toEqual([[]])

  const rest = clientAt(worker!)
  expect((await rest.getCapabilities()).features.sign_in.password).toBe(false)
  expect(await refusal(rest.login({ username: ada.username, password: ada.password }))).toBe("password_login_disabled")
  const mine = { username: shared.newName("mallory"), email: "mallory@acme.example", password: ada.password }
  expect(await refusal(rest.register(mine))).toBe("password_login_disabled")
})
