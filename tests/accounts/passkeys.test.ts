import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { generateSync } from "otplib"
import { onTestFinished } from "vitest"
import type { ApiError } from "../../client/rest.ts"
import { userActor } from "../../src/actors/user.ts"
import { newTokenSecret, tokenText } from "../../src/cluster/one-time-tokens.ts"
import { hashSecret, newSecret } from "../../src/cluster/tokens.ts"
import { idOf, shardOf } from "../../src/domain/core/snowflake.ts"
import { Authenticator, givePasskey } from "../kit/authenticator.ts"
import { refusal } from "../kit/conformance.ts"
import { clientAt, type Endpoint, type Person } from "../kit/person.ts"
import { emailLinkToken } from "../kit/mailbox.ts"
import { expect, testWith } from "../kit/test.ts"

const test = testWith()

/** A sign-in with nothing but the passkey. */
async function signIn(place: Endpoint, key: Authenticator, flaws = {}) {
  const rest = clientAt(place)
  return rest.completePasskeySignIn(key.sign(await rest.beginPasskeySignIn(), flaws))
}
/** From the password to the challenge. */
const challengeOf = async (place: Endpoint, { username, password }: Person) =>
  clientAt(place).login({ username, password })

test("PASS2: a passkey alone signs its owner in on any worker; its name changes, and removed it opens nothing", async ({
  shared,
}) => {
  const ada = await shared.person("ada")
  const { password } = ada
  const rest = ada.on(shared.east)
  const options = await rest.preparePasskey({ password })
  expect(options).toMatchObject({
    rp: { id: "localhost", name: "Starling" },
    user: { id: Buffer.from(ada.id).toString("base64url"), name: ada.username },
    attestation: "none",
    authenticatorSelection: { residentKey: "required", userVerification: "required" },
    excludeCredentials: [],
  })
  const key = new Authenticator()
  const made = await rest.addPasskey({ name: "Laptop", passkey: key.create(options) })
  expect(made).toMatchObject({ name: "Laptop", synced: true, last_used_at: null })
  expect((await rest.preparePasskey({ password })).excludeCredentials).toEqual([
    { id: key.id, type: "public-key", transports: ["internal"] },
  ])

  const { user, token, ...reply } = await signIn(shared.west, key)
  expect(reply).toEqual({ status: "success", challenge_token: null, methods: null, expires_in: null })
  expect(user!.id).toBe(ada.id)
  expect((await clientAt(shared.east, token!).getMe()).id).toBe(ada.id)
  const [listed] = await ada.on(shared.west).listPasskeys()
  expect(listed!.last_used_at).toBeGreaterThan(0)

  expect(await refusal(rest.renamePasskey({ passkey_id: "1", name: "x" }))).toBe("passkey_not_found")
  expect(await refusal(rest.renamePasskey({ passkey_id: "x", name: "x" }))).toBe("invalid_passkey_id")
  const lin = await shared.person("lin")
  const named = { passkey_id: made.id, name: "Old laptop" }
  expect(await refusal(lin.on(shared.east).renamePasskey(named))).toBe("passkey_not_found")
  const removal = { passkey_id: made.id, password: lin.password }
  expect(await refusal(lin.on(shared.east).removePasskey(removal))).toBe("passkey_not_found")
  expect(await rest.renamePasskey(named)).toMatchObject({ id: made.id, name: "Old laptop" })

  // PASS2
  const late = await clientAt(shared.west).beginPasskeySignIn()
  expect(await refusal(rest.removePasskey({ passkey_id: "x", password }))).toBe("invalid_passkey_id")
  await rest.removePasskey({ passkey_id: made.id, password })
  expect(await rest.listPasskeys()).toEqual([])
  expect(await refusal(clientAt(shared.west).completePasskeySignIn(key.sign(late)))).toBe("passkey_refused")
  expect((await clientAt(shared.east, token!).getMe()).id).toBe(ada.id)
})

test("PASS3: what is not signed by the passkey, here, for this purpose, now and by a verified user opens nothing", async ({
  shared,
}) => {
  const [ada, mallory] = [await shared.person("ada"), await shared.person("mallory")]
  const { authenticator: key } = await givePasskey(ada.on(shared.east), ada)
  const rest = clientAt(shared.east)
  for (const flaws of [
    { origin: "https://evil.example" },
    { origin: "http://localhost:8001" },
    { rpId: "evil.example" },
    { type: "webauthn.create" },
    { challenge: "A".repeat(43) },
    { challenge: "short" },
    { isUnverified: true },
    { isForged: true },
  ])
    expect([flaws, await refusal(signIn(shared.east, key, flaws))]).toEqual([flaws, "passkey_refused"])
  expect(await refusal(signIn(shared.east, new Authenticator()))).toBe("passkey_refused")

  // One use, also of several at once.
  const options = await rest.beginPasskeySignIn()
  const passkey = key.sign(options)
  const outcomes = await Promise.all(
    [shared.east, shared.west, shared.east].map(place =>
      clientAt(place)
        .completePasskeySignIn(passkey)
        .then(
          () => "granted",
          (error: unknown) => refusal(Promise.reject(error as ApiError)),
        ),
    ),
  )
  expect(outcomes.toSorted()).toEqual(["granted", "passkey_refused", "passkey_refused"])

  // A challenge of another purpose, or of another's session.
  const own = ada.on(shared.east)
  const { challenge } = await own.preparePasskey({ password: ada.password })
  expect(await refusal(signIn(shared.east, key, { challenge }))).toBe("passkey_refused")
  const theirs = await own.preparePasskey({ password: ada.password })
  const stolen = { name: "Key", passkey: new Authenticator().create(theirs) }
  expect(await refusal(mallory.on(shared.east).addPasskey(stolen))).toBe("passkey_unverified")
  expect(await refusal((await ada.signIn(shared.east)).on(shared.east).addPasskey(stolen))).toBe("passkey_unverified")
  for (const flaws of [{ origin: "https://evil.example" }, { rpId: "evil.example" }, { isUnverified: true }]) {
    const asked = await own.preparePasskey({ password: ada.password })
    const made = new Authenticator().create(asked, flaws)
    expect(await refusal(own.addPasskey({ name: "Key", passkey: made }))).toBe("passkey_unverified")
  }
  // The same passkey twice, for somebody else.
  const again = await mallory.on(shared.east).preparePasskey({ password: mallory.password })
  const twice = mallory.on(shared.east).addPasskey({ name: "Key", passkey: key.create(again) })
  expect(await refusal(twice)).toBe("passkey_exists")
  expect(await mallory.on(shared.west).listPasskeys()).toEqual([])
})

test("PASS1: a passkey whose counter does not rise is a copy: it is refused and noted", async ({ shared }) => {
  const ada = await shared.person("ada")
  const { authenticator: key, synced } = await givePasskey(ada.on(shared.east), ada, new Authenticator({ counter: 7 }))
  expect(synced).toBe(false)
  await signIn(shared.east, key)
  const copied = key.counter - 1
  await signIn(shared.west, key)
  key.counter = copied
  expect(await refusal(signIn(shared.east, key))).toBe("passkey_refused")
  key.counter = 1_000
  expect((await signIn(shared.west, key)).status).toBe("success")
})

test("a passkey answers for the second factor; a backup code still does, and a lock holds for both", async ({
  shared,
}) => {
  const ada = await shared.person("ada")
  const { password } = ada
  const rest = ada.on(shared.east)
  const { authenticator: key } = await givePasskey(rest, ada)
  // Without a second factor the password alone signs in: the passkey is another way.
  expect((await challengeOf(shared.east, ada)).status).toBe("success")
  const { secret, backup_codes } = await rest.enableTwoFactor({ password })
  await rest.confirmTwoFactor({ code: generateSync({ secret }) })

  const { challenge_token, methods } = await challengeOf(shared.west, ada)
  expect(methods).toEqual(["totp", "backup_code", "passkey"])
  const anonymous = clientAt(shared.west)
  const answer = { challenge_token: challenge_token! }
  const options = await anonymous.beginPasskeyFactor(answer)
  expect(options.allowCredentials.map(({ id }) => id)).toEqual([key.id])
  // Somebody else's passkey is none for this account.
  const mallory = await shared.person("mallory")
  const { authenticator: other } = await givePasskey(mallory.on(shared.east), mallory)
  const foreign = anonymous.completePasskeyFactor({ ...answer, passkey: other.sign(options) })
  expect(await refusal(foreign)).toBe("passkey_refused")
  const { challenge_token: another } = await challengeOf(shared.east, ada)
  const elsewhere = key.sign(await anonymous.beginPasskeyFactor({ challenge_token: another! }))
  expect(await refusal(anonymous.completePasskeyFactor({ ...answer, passkey: elsewhere }))).toBe("passkey_refused")
  const passkey = () => anonymous.beginPasskeyFactor(answer).then(asked => key.sign(asked, { isUnverified: true }))
  const done = await anonymous.completePasskeyFactor({ ...answer, passkey: await passkey() })
  expect((await clientAt(shared.east, done.token!).getMe()).id).toBe(ada.id)
  expect(await refusal(anonymous.beginPasskeyFactor(answer))).toBe("used_challenge")
  const used = anonymous.completePasskeyFactor({ ...answer, passkey: elsewhere })
  expect(await refusal(used)).toBe("used_challenge")
  // What takes place without the challenge: both factors in one.
  expect((await signIn(shared.west, key)).status).toBe("success")

  for (const wrong of ["x", "2fa.1.short"]) {
    expect(await refusal(anonymous.beginPasskeyFactor({ challenge_token: wrong }))).toBe("invalid_challenge")
    const withWrong = anonymous.completePasskeyFactor({ challenge_token: wrong, passkey: elsewhere })
    expect(await refusal(withWrong)).toBe("invalid_challenge")
  }
  const { challenge_token: old } = await challengeOf(shared.east, ada)
  await shared.sql`UPDATE one_time_tokens SET expires_at = 1 WHERE id = ${old!.split(".")[1]!}`
  expect(await refusal(anonymous.beginPasskeyFactor({ challenge_token: old! }))).toBe("expired_challenge")
  const expired = anonymous.completePasskeyFactor({ challenge_token: old!, passkey: elsewhere })
  expect(await refusal(expired)).toBe("expired_challenge")

  // The proof that is asked for when passkeys change is that of other changes.
  const prepare = (proof: object) => refusal(rest.preparePasskey(proof))
  expect(await prepare({})).toBe("password_required")
  expect(await prepare({ password: "Wrong-Horse-99" })).toBe("wrong_password")
  expect(await prepare({ password })).toBe("second_factor_code_required")
  expect(await prepare({ password, code: "ABCD-EF01" })).toBe("wrong_code")
  const { id } = (await rest.listPasskeys())[0]!
  const remove = (proof: object) => refusal(rest.removePasskey({ passkey_id: id, ...proof }))
  expect(await remove({})).toBe("password_required")
  expect(await remove({ password })).toBe("second_factor_code_required")
  expect((await rest.preparePasskey({ password, code: backup_codes[1]! })).rp.id).toBe("localhost")
  const { challenge_token: third } = await challengeOf(shared.east, ada)
  await anonymous.completeTwoFactor({ challenge_token: third!, code: backup_codes[2]! })
  const { challenge_token: last } = await challengeOf(shared.east, ada)
  const beforeLock = key.sign(await anonymous.beginPasskeyFactor({ challenge_token: last! }))
  expect(await remove({ password, code: "ABCD-EF01" })).toBe("wrong_code")
  for (let i = 0; i < 4; i++)
    expect(await remove({ password: "Wrong-Horse-99" })).toMatch(/wrong_password|account_locked/)
  expect(await remove({ password })).toBe("account_locked")
  expect(await prepare({ password })).toBe("account_locked")
  const locked = anonymous.completePasskeyFactor({ challenge_token: last!, passkey: beforeLock })
  expect(await refusal(locked)).toBe("account_locked")
})

test("FETCH1, P12: what a passkey's certificates name is not fetched; a session that has ended adds none; a reset by an address that nobody had confirmed ends them", async ({
  shared,
}) => {
  const asked: string[] = []
  const lists = createServer((request, response) => {
    asked.push(request.url!)
    response.end()
  })
  await new Promise<void>(resolve => lists.listen(0, "127.0.0.1", resolve))
  onTestFinished(() => void lists.close())
  const listAt = (lists.address() as AddressInfo).port
  const [ada, mallory] = [await shared.person("ada"), await shared.person("mallory")]
  const own = ada.on(shared.east)
  for (const format of ["apple", "packed"] as const) {
    const options = await own.preparePasskey({ password: ada.password })
    const passkey = new Authenticator().create(options, { made: { format, listAt } })
    expect(await refusal(own.addPasskey({ name: "Key", passkey }))).toBe("passkey_unverified")
  }
  expect(asked).toEqual([])

  // Between the check of the passkey and the turn that adds it the session may end.
  const session_id = ada.token.split(".")[0]!
  const late = { credential_id: "late", public_key: "key", counter: 0, transports: [], synced: false, name: "Key" }
  await own.logout()
  const added = shared.west.node.ask(userActor, ada.id, { type: "addPasskey", ...late, session_id })
  await expect(added).rejects.toMatchObject({ code: "revoked_token" })

  // Mallory has made an account with an address that is not theirs: who reads its mails resets the password.
  const { authenticator: prepared } = await givePasskey(mallory.on(shared.east), mallory)
  const anonymous = clientAt(shared.west)
  const first = await emailLinkToken(shared.sql, mallory, "password_reset")
  await anonymous.confirmPasswordReset({ token: first, new_password: "Another-Horse-9" })
  expect(await refusal(signIn(shared.east, prepared))).toBe("passkey_refused")
  const { token } = await anonymous.login({ username: mallory.username, password: "Another-Horse-9" })
  expect(await clientAt(shared.east, token!).listPasskeys()).toEqual([])
  // From now on it is known to be theirs, and so are their passkeys.
  const { authenticator: kept } = await givePasskey(clientAt(shared.east, token!), { password: "Another-Horse-9" })
  const { secret, token_hash } = newTokenSecret()
  const mailed = { kind: "password_reset", email: mallory.email, token_hash, expires_at: 9_999_999_999 } as const
  const { token_id } = await shared.east.node.ask(userActor, mallory.id, { type: "startMailedToken", ...mailed })
  const second = tokenText("password_reset", token_id!, secret)
  await anonymous.confirmPasswordReset({ token: second, new_password: "Further-Horse-9" })
  expect((await signIn(shared.east, kept)).user!.id).toBe(mallory.id)
})

test("twenty passkeys are the most; operators' locks and deletions hold; without a password the sign-in is fresh; a way back ends later ones", async ({
  shared,
}) => {
  const ada = await shared.person("ada")
  const rest = ada.on(shared.east)
  const { authenticator: key } = await givePasskey(rest, ada)

  const lin = await shared.person("lin")
  const { authenticator: lins } = await givePasskey(lin.on(shared.east), lin)
  // Many at once: the turn is what refuses those that are too many.
  const at = lin.on(shared.east)
  const many = await Promise.all(Array.from({ length: 21 }, () => at.preparePasskey({ password: lin.password })))
  const added = await Promise.all(
    many.map(options =>
      at.addPasskey({ name: "Key", passkey: new Authenticator().create(options) }).then(
        () => "added",
        (error: unknown) => refusal(Promise.reject(error as ApiError)),
      ),
    ),
  )
  expect(added.toSorted()).toEqual([...Array<string>(19).fill("added"), "passkey_limit", "passkey_limit"])
  expect(await refusal(at.preparePasskey({ password: lin.password }))).toBe("passkey_limit")

  const restored = await emailLinkToken(shared.sql, lin, "restore_email")
  await clientAt(shared.west).restoreEmail({ token: restored })
  expect(await refusal(signIn(shared.east, lins))).toBe("passkey_refused")

  // An account without a password proves itself by a sign-in of the last minutes.
  const now = Math.floor(Date.now() / 1000)
  const user = String(BigInt(ada.id) + 9n)
  await shared.sql`INSERT INTO users (id, username, created_at) VALUES (${user}, ${shared.newName("elsewhere")}, ${now})`
  const session = async (agoSeconds: number) => {
    const id = idOf(shardOf(user), { ms: Date.now() - agoSeconds * 1000, sequence: agoSeconds })
    const secret = newSecret()
    await shared.sql`
      INSERT INTO sessions (id, user_id, token_hash, ip_address, user_agent, created_at, expires_at, last_activity)
      VALUES (${id}, ${user}, ${hashSecret(secret)}, '', '', ${now}, ${now + 9_999}, ${now})`
    return clientAt(shared.east, `${id}.${secret}`)
  }
  const [old, fresh] = [await session(660), await session(60)]
  expect(await refusal(old.preparePasskey({}))).toBe("fresh_sign_in_required")
  const { authenticator: only, id } = await givePasskey(fresh, {})
  expect(await refusal(old.removePasskey({ passkey_id: id }))).toBe("fresh_sign_in_required")
  expect((await signIn(shared.west, only)).user!.id).toBe(user)

  // Where passkeys are no way in, or cannot be.
  const [second, none] = await Promise.all([
    shared.boot(1, { config: { STARLING_PASSKEY_LOGIN_ENABLED: "false" } }),
    shared.boot(1, { config: { PUBLIC_URL: "http://127.0.0.1:8000" } }),
  ])
  const ways = async (place: Endpoint) => (await clientAt(place).getCapabilities()).features.sign_in
  expect(await ways(shared.east)).toMatchObject({ passkeys: true, passkey_alone: true })
  expect(await ways(second[0]!)).toMatchObject({ passkeys: true, passkey_alone: false })
  expect(await ways(none[0]!)).toMatchObject({ passkeys: false, passkey_alone: false })
  const off = clientAt(none[0]!)
  const passkey = key.sign(await clientAt(shared.east).beginPasskeySignIn())
  for (const place of [second[0]!, none[0]!]) {
    expect(await refusal(clientAt(place).beginPasskeySignIn())).toBe("passkeys_disabled")
    expect(await refusal(clientAt(place).completePasskeySignIn(passkey))).toBe("passkeys_disabled")
  }
  expect(await refusal(off.beginPasskeyFactor({ challenge_token: "x" }))).toBe("passkeys_disabled")
  expect(await refusal(off.completePasskeyFactor({ challenge_token: "x", passkey }))).toBe("passkeys_disabled")
  expect(await refusal(ada.on(none[0]!).preparePasskey({}))).toBe("passkeys_disabled")
  const made = new Authenticator().create(await rest.preparePasskey({ password: ada.password }))
  expect(await refusal(ada.on(none[0]!).addPasskey({ name: "Key", passkey: made }))).toBe("passkeys_disabled")

  await rest.deleteAccount({ password: ada.password })
  expect(await refusal(signIn(shared.west, key))).toBe("account_deleted")
  await shared.east.node.ask(userActor, user, { type: "lockAccount", until: now + 9_999, reason: "Spam" })
  expect(await refusal(signIn(shared.west, only))).toBe("account_locked")
})
