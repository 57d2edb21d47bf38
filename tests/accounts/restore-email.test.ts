/** The way back to an address that an account has left, for an owner whose account was taken. */
import { generateSync } from "otplib"
import { afterAll } from "vitest"
import { userActor } from "../../src/actors/user.ts"
import { givePasskey } from "../kit/authenticator.ts"
import { refusal } from "../kit/conformance.ts"
import { send } from "../kit/exchange.ts"
import { Mailbox } from "../kit/mailbox.ts"
import { clientAt, type Person } from "../kit/person.ts"
import { expect, test, type SharedCluster } from "../kit/test.ts"

const mailbox = await Mailbox.open()
afterAll(() => mailbox.stop())

let working: Promise<unknown> | undefined
const withMail = (shared: SharedCluster) =>
  (working ??= shared.bootJobWorker({ config: { SMTP_URL: mailbox.url, STARLING_MAIL_FROM: "starling@chat.example" } }))

const fresh = "Another-Horse-9"
const newAddress = (shared: SharedCluster) => `${shared.newName("thief")}@example.com`
const codeOf = (secret: string) => generateSync({ secret })

/** Somebody who has shown that their address is theirs. */
async function owner(shared: SharedCluster, name: string): Promise<Person> {
  await withMail(shared)
  const person = await shared.person(name)
  await clientAt(shared.east).resendVerification({ email: person.email })
  await clientAt(shared.west).verifyEmail({ token: (await mailbox.next(person.email)).token })
  return person
}

/** Somebody who has the session and the password gives the account another address. */
async function move(shared: SharedCluster, { id, token, password }: Person, email = newAddress(shared)) {
  const [{ left }] = (await shared.sql`SELECT email AS left FROM users WHERE id = ${id}`) as [{ left: string }]
  await clientAt(shared.east, token).editMe({ email, current_password: password })
  return { email, letter: await mailbox.next(left) }
}

/** The owner follows the mail to their address, and then the mail for a new password. */
async function comeBack(shared: SharedCluster, { email }: Pick<Person, "email">, token: string) {
  expect(await clientAt(shared.west).restoreEmail({ token })).toEqual({ success: true })
  const { link, token: reset } = await mailbox.next(email)
  expect(link).toContain("/reset-password#")
  await clientAt(shared.east).confirmPasswordReset({ token: reset, new_password: fresh })
}

test("ACC5: somebody who takes an account with its session and password cannot keep it: the first address wins", async ({
  shared,
}) => {
  await withMail(shared)
  const { east, west, sql } = shared
  const ada = await shared.person("ada")
  const listener = await ada.listen(west)
  const first = await move(shared, ada)
  expect(first.letter).toMatchObject({
    to: [ada.email],
    subject: "Your account on Starling has another e-mail address now",
  })
  expect(first.letter.link).toMatch(/\/restore-email#email\.\d+\.[A-Za-z0-9_-]{43}$/)
  expect(first.letter.text).not.toContain(first.email)
  // The thief moves on, comes back by the mail to the second address, and moves on again. They also
  // change the password, by the current one and by mail.
  const second = await move(shared, ada)
  await clientAt(west).restoreEmail({ token: second.letter.token })
  const reset = await mailbox.next(first.email)
  await clientAt(west).confirmPasswordReset({ token: reset.token, new_password: "Stolen-Horse-11" })
  const again = await clientAt(west).login({ username: ada.username, password: "Stolen-Horse-11" })
  const thief = clientAt(east, again.token!)
  await thief.editMe({ password: "Stolen-Horse-12", current_password: "Stolen-Horse-11" })
  const last = newAddress(shared)
  await thief.editMe({ email: last, current_password: "Stolen-Horse-12" })
  const third = await mailbox.next(first.email)

  await comeBack(shared, ada, first.letter.token)
  expect((await listener.ended()).code).toBe(4004)
  expect(await refusal(thief.getMe())).toBe("revoked_token")
  const { login, restoreEmail, requestPasswordReset } = clientAt(west)
  for (const password of [ada.password, "Stolen-Horse-11", "Stolen-Horse-12"])
    expect(await refusal(login({ username: ada.username, password }))).toBe("invalid_credentials")
  const { user, token } = await login({ username: ada.email, password: fresh })
  expect(user).toMatchObject({ id: ada.id, email: ada.email, email_verified: true })
  for (const used of [first, second].map(({ letter }) => letter.token).concat(third.token))
    expect(await refusal(restoreEmail({ token: used }))).toBe("invalid_token")
  await requestPasswordReset({ email: last })
  expect((await clientAt(east, token!).getMe()).email).toBe(ada.email)
  expect(await sql`SELECT FROM one_time_tokens WHERE user_id = ${ada.id}`).toHaveLength(0)
})

test("ACC5: of two who come with one link at the same time, one succeeds", async ({ shared }) => {
  await withMail(shared)
  const ada = await shared.person("ada")
  const { token } = (await move(shared, ada)).letter
  const calls = [shared.east, shared.west, shared.east, shared.west].map(at => clientAt(at).restoreEmail({ token }))
  const verdicts = await Promise.all(
    calls.map(call =>
      call.then(
        () => "done",
        () => refusal(call),
      ),
    ),
  )
  expect(verdicts.toSorted()).toEqual(["done", "invalid_token", "invalid_token", "invalid_token"])
  for (const wrong of ["", "x", token.replace(/.{43}$/, "A".repeat(43)), token.slice(0, -43)])
    expect(await refusal(clientAt(shared.east).restoreEmail({ token: wrong }))).toBe("invalid_token")
})

test("ACC6: a second factor and a provider that the thief added do not open the account, and what was there before does", async ({
  shared,
}) => {
  await withMail(shared)
  const { east, west, sql } = shared
  const now = Math.floor(Date.now() / 1000)
  const [ada, lin] = [await owner(shared, "ada"), await owner(shared, "lin")]
  const link = (person: Person, subject: string, at: number) => sql`
    INSERT INTO external_accounts (provider, issuer, subject, user_id, linked_at)
    VALUES ('google', 'https://accounts.google.com', ${`${subject} of ${person.id}`}, ${person.id}, ${at})`
  const linked = async ({ id }: Person) =>
    (await sql<{ subject: string }[]>`SELECT subject FROM external_accounts WHERE user_id = ${id}`).map(
      ({ subject }) => subject.split(" ")[0],
    )
  const protect = async (token: string, password: string) => {
    const rest = clientAt(east, token)
    const set = await rest.enableTwoFactor({ password })
    await rest.confirmTwoFactor({ code: codeOf(set.secret) })
    return set
  }
  await link(ada, "former", now - 100)
  const { id: formerKey } = await givePasskey(ada.on(east), ada)
  // Ada had none. The thief sets one up.
  const { letter } = await move(shared, ada)
  const { authenticator: thiefs } = await givePasskey(ada.on(east), ada)
  await protect(ada.token, ada.password)
  await link(ada, "later", Math.floor(Date.now() / 1000) + 1)
  await comeBack(shared, ada, letter.token)
  expect(await linked(ada)).toEqual(["former"])
  expect((await sql`SELECT id::text FROM passkeys WHERE user_id = ${ada.id}`).map(({ id }) => id)).toEqual([formerKey])
  const asked = await clientAt(west).beginPasskeySignIn()
  expect(await refusal(clientAt(west).completePasskeySignIn(thiefs.sign(asked)))).toBe("passkey_refused")
  expect((await clientAt(west).login({ username: ada.username, password: fresh })).status).toBe("success")

  // Lin had one. The thief has seen its backup codes, and replaces it by another.
  const own = await protect(lin.token, lin.password)
  const thief = clientAt(east, lin.token)
  const [moving, disabling, later] = own.backup_codes as [string, string, string]
  await thief.editMe({ email: newAddress(shared), current_password: lin.password, code: moving })
  const kept = await mailbox.next(lin.email)
  await thief.disableTwoFactor({ password: lin.password, code: disabling })
  const other = await protect(lin.token, lin.password)
  await comeBack(shared, lin, kept.token)
  const { login, completeTwoFactor } = clientAt(west)
  const { status, challenge_token } = await login({ username: lin.username, password: fresh })
  expect(status).toBe("two_factor_required")
  for (const code of [later, other.backup_codes[0]!])
    expect(await refusal(completeTwoFactor({ challenge_token: challenge_token!, code }))).toBe("invalid_second_factor")
  const done = await completeTwoFactor({ challenge_token: challenge_token!, code: codeOf(own.secret) })
  expect(done.user!.id).toBe(lin.id)
})

test("ACC5: an address that may come back to its account is nobody else's meanwhile", async ({ shared }) => {
  const { east, west, sql } = shared
  const [ada, eve] = [await owner(shared, "ada"), await shared.person("eve")]
  const { letter } = await move(shared, ada)
  const register = () =>
    clientAt(west).register({ username: shared.newName("squatter"), email: ada.email.toUpperCase(), password: fresh })
  const take = () => eve.on(east).editMe({ email: ada.email, current_password: eve.password })
  expect(await refusal(register())).toBe("user_exists")
  expect(await refusal(take())).toBe("user_exists")
  // A provider has vouched for it: it is somebody's, and the link is good as soon as they give it up.
  await sql`UPDATE users SET email = ${ada.email} WHERE id = ${eve.id}`
  const { restoreEmail } = clientAt(west)
  expect(await refusal(restoreEmail({ token: letter.token }))).toBe("user_exists")
  await sql`UPDATE users SET email = ${eve.email} WHERE id = ${eve.id}`
  await comeBack(shared, ada, letter.token)

  const lin = await owner(shared, "lin")
  await move(shared, lin)
  // Whose it was takes it again at any time; the link stays.
  const { token } = (await move(shared, lin, lin.email)).letter
  expect(token).toMatch(/^email\./)
  await move(shared, lin)
  await sql`UPDATE one_time_tokens SET expires_at = 1 WHERE user_id = ${lin.id}`
  expect((await eve.on(east).editMe({ email: lin.email, current_password: eve.password })).email).toBe(lin.email)
})

test("ACC6: an address that nobody confirmed is kept from nobody, and a user who is mailed there gets nothing of a stranger's", async ({
  shared,
}) => {
  await withMail(shared)
  const { east, west, sql } = shared
  // Eve has given an address that is not hers, with a provider and a second factor of her own.
  const eve = await shared.person("eve")
  await sql`
    INSERT INTO external_accounts (provider, issuer, subject, user_id, linked_at)
    VALUES ('google', 'https://accounts.google.com', ${`eve ${eve.id}`}, ${eve.id}, 1)`
  const rest = clientAt(east, eve.token)
  const { secret, backup_codes } = await rest.enableTwoFactor({ password: eve.password })
  await rest.confirmTwoFactor({ code: codeOf(secret) })
  await rest.editMe({ email: newAddress(shared), current_password: eve.password, code: backup_codes[0]! })
  const { token } = await mailbox.next(eve.email)
  const owned = { username: shared.newName("owner"), email: eve.email, password: fresh }
  const { user } = await clientAt(west).register(owned)
  expect(await refusal(clientAt(west).restoreEmail({ token }))).toBe("user_exists")
  await sql`UPDATE users SET email = NULL WHERE id = ${user!.id}`
  await comeBack(shared, eve, token)
  expect(await sql`SELECT FROM external_accounts WHERE user_id = ${eve.id}`).toHaveLength(0)
  expect((await clientAt(west).login({ username: eve.username, password: fresh })).status).toBe("success")
})

test("OTT2: while five ways back are open, a further change of address is refused; nobody is mailed without end", async ({
  shared,
}) => {
  await withMail(shared)
  const { sql, east } = shared
  const ada = await shared.person("ada")
  const mails = async () => (await sql`SELECT FROM mails WHERE user_id = ${ada.id} AND kind = 'restore_email'`).length
  // The same address in other letters is left by nobody.
  await ada.on(east).editMe({ email: ada.email.toUpperCase(), current_password: ada.password })
  expect(await mails()).toBe(0)
  for (let i = 0; i < 5; i++) await ada.on(east).editMe({ email: newAddress(shared), current_password: ada.password })
  const { token, password: current_password } = ada
  const body = { email: newAddress(shared), current_password }
  const refused = await send(east, "/api/v1/users/@me", { method: "PATCH", token, body })
  expect(refused.status).toBe(429)
  expect(refused.body).toMatchObject({ error: { message: "Too many changes of the e-mail address" } })
  const wait = Number(refused.headers.get("retry-after"))
  expect(wait).toBeGreaterThan(71 * 3600)
  expect(wait).toBeLessThan(72 * 3600 + 60)
  expect(await refusal(ada.on(east).editMe(body))).toBe("too_many_email_changes")
  expect(await mails()).toBe(5)

  // Somebody who has used up ways back has been mailed often enough for a day.
  const mo = await shared.person("mo")
  await sql`
    INSERT INTO mails (user_id, kind, asked_at, sent_at)
    SELECT ${mo.id}, 'restore_email', ${Math.floor(Date.now() / 1000)}, 1 FROM generate_series(1, 10)`
  await mo.on(east).editMe({ email: newAddress(shared), current_password: mo.password })
  expect(await sql`SELECT FROM mails WHERE user_id = ${mo.id}`).toHaveLength(10)
})

test("a way back outlives the freeze of the account, and is open again when the deletion is cancelled", async ({
  shared,
}) => {
  await withMail(shared)
  const ada = await shared.person("ada")
  const { letter } = await move(shared, ada)
  await ada.on(shared.east).deleteAccount({ password: ada.password })
  expect(await refusal(clientAt(shared.west).restoreEmail({ token: letter.token }))).toBe("account_deleted")
  await shared.west.node.ask(userActor, ada.id, { type: "cancelDeletion" })
  await comeBack(shared, ada, letter.token)
})

test("a mail that may not have arrived is sent again with another link, and a link holds for 72 hours", async ({
  shared,
}) => {
  await withMail(shared)
  const ada = await shared.person("ada")
  mailbox.silentFor.add(ada.email)
  const { letter } = await move(shared, ada)
  const again = await mailbox.next(ada.email)
  const { restoreEmail } = clientAt(shared.east)
  expect(await refusal(restoreEmail({ token: letter.token }))).toBe("invalid_token")
  const [row] = await shared.sql<{ expires_at: number }[]>`
    SELECT expires_at FROM one_time_tokens WHERE user_id = ${ada.id}`
  expect(Math.abs(row!.expires_at - Date.now() / 1000 - 72 * 3600)).toBeLessThan(60)
  await shared.sql`UPDATE one_time_tokens SET expires_at = 1 WHERE user_id = ${ada.id}`
  expect(await refusal(restoreEmail({ token: again.token }))).toBe("invalid_token")
})
