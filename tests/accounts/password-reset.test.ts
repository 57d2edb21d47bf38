/**
 * A new password by mail: who gets in afterwards, who does not any longer, and what strangers learn
 * by asking.
 */
import { generateSync } from "otplib"
import { afterAll } from "vitest"
import { send } from "../kit/exchange.ts"
import { Mailbox } from "../kit/mailbox.ts"
import { refusal } from "../kit/conformance.ts"
import { clientAt, type Person, type Endpoint } from "../kit/person.ts"
import { expect, testWith, type SharedCluster } from "../kit/test.ts"

const mailbox = await Mailbox.open()
afterAll(() => mailbox.stop())
const test = testWith({ config: { STARLING_MAILS_PER_HOUR: "3", STARLING_TWO_FACTOR_CHALLENGE_SECONDS: "60" } })

let working: Promise<unknown> | undefined
const withMail = (shared: SharedCluster) =>
  (working ??= shared.bootJobWorker({ config: { SMTP_URL: mailbox.url, STARLING_MAIL_FROM: "starling@chat.example" } }))

/** What the mail to them contains. */
async function tokenFor(person: Person, place: Endpoint): Promise<string> {
  await clientAt(place).requestPasswordReset({ email: person.email })
  return (await mailbox.next(person.email)).token
}

const fresh = "Another-Horse-9"

test("a mailed link sets a new password; every session ends, on the gateway too, and the address counts as verified", async ({
  shared,
}) => {
  await withMail(shared)
  const { east, west } = shared
  const ada = await shared.person("ada")
  const second = await ada.signIn(west)
  const listeners = [await ada.listen(east), await second.listen(west)]
  const before = await shared.sql`SELECT email_confirmed FROM users WHERE id = ${ada.id}`
  expect(before).toEqual([{ email_confirmed: false }])

  const token = await tokenFor(ada, east)
  expect(token).toMatch(/^email\.\d+\.[A-Za-z0-9_-]{43}$/)
  expect(await clientAt(west).confirmPasswordReset({ token, new_password: fresh })).toEqual({ success: true })

  for (const session of [ada, second])
    for (const place of [east, west]) expect(await refusal(session.on(place).getMe())).toBe("revoked_token")
  for (const listener of listeners) expect((await listener.ended()).code).toBe(4004)
  const { login } = clientAt(east)
  expect(await refusal(login({ username: ada.username, password: ada.password }))).toBe("invalid_credentials")
  const reply = await login({ username: ada.username, password: fresh })
  expect(reply.user).toMatchObject({ id: ada.id, email_verified: true })
  expect(await shared.sql`SELECT email_confirmed FROM users WHERE id = ${ada.id}`).toEqual([{ email_confirmed: true }])
})

test("OTT1: a link works once, also for two who come with it at the same time", async ({ shared }) => {
  await withMail(shared)
  const ada = await shared.person("ada")
  const token = await tokenFor(ada, shared.east)
  const passwords = Array.from({ length: 4 }, (_, i) => `Parallel-Horse-${i}`)
  const verdicts = await Promise.all(
    passwords.map((new_password, i) => {
      const call = clientAt(i % 2 ? shared.east : shared.west).confirmPasswordReset({ token, new_password })
      return call.then(
        () => "done",
        () => refusal(call),
      )
    }),
  )
  expect(verdicts.toSorted()).toEqual(["done", "invalid_token", "invalid_token", "invalid_token"])
  const { login } = clientAt(shared.west)
  const winner = passwords[verdicts.indexOf("done")]!
  expect((await login({ username: ada.username, password: winner })).status).toBe("success")
  expect(await refusal(clientAt(shared.west).confirmPasswordReset({ token, new_password: fresh }))).toBe(
    "invalid_token",
  )
})

test("the token is looked at before the password, and a weak one does not use it up", async ({ shared }) => {
  await withMail(shared)
  const ada = await shared.person("ada")
  const token = await tokenFor(ada, shared.east)
  const { confirmPasswordReset } = clientAt(shared.east)
  const another = token.replace(/.{43}$/, "A".repeat(43))
  const elsewhere = token.replace(/\.\d+\./, ".41771983423143937.")
  const wrong = [another, elsewhere, token.slice(0, -1), `${token}A`, "", "email.", token.replace("email", "2fa")]
  for (const one of [...wrong, ada.token, "email.9999999999999999999.".padEnd(69, "A")])
    expect(await refusal(confirmPasswordReset({ token: one, new_password: "weak" }))).toBe("invalid_token")
  for (const new_password of ["weak", "", "all-lower-case-9", "No-Digit-Anywhere"])
    expect(await refusal(confirmPasswordReset({ token, new_password }))).toBe("weak_password")
  expect(await refusal(confirmPasswordReset({ token, new_password: "x".repeat(1025) }))).toBe("validation_failed")
  expect(await confirmPasswordReset({ token, new_password: fresh })).toEqual({ success: true })
})

test("strangers who ask for mails void no link that just came: the last three are good, for an hour each", async ({
  shared,
}) => {
  await withMail(shared)
  const ada = await shared.person("ada")
  const { confirmPasswordReset } = clientAt(shared.west)
  const tokens: string[] = []
  for (let i = 0; i < 4; i++) {
    tokens.push(await tokenFor(ada, shared.east))
    await shared.sql`UPDATE mails SET asked_at = asked_at - 3600 WHERE user_id = ${ada.id}`
  }
  const [first, second, third, last] = tokens as [string, string, string, string]
  const reset = (token: string) => confirmPasswordReset({ token, new_password: fresh })
  expect(await refusal(reset(first))).toBe("invalid_token")
  const id = last.split(".")[1]!
  const [{ expires_at }] = (await shared.sql`SELECT expires_at FROM one_time_tokens WHERE id = ${id}`) as [
    { expires_at: number },
  ]
  expect(Math.abs(expires_at - Date.now() / 1000 - 3600)).toBeLessThan(60)
  await shared.sql`UPDATE one_time_tokens SET expires_at = ${Math.floor(Date.now() / 1000)} WHERE id = ${id}`
  expect(await refusal(reset(last))).toBe("invalid_token")
  expect(await reset(second)).toEqual({ success: true })
  expect(await refusal(reset(third))).toBe("invalid_token")
})

test("a link counts only for the address it was sent to", async ({ shared }) => {
  await withMail(shared)
  const ada = await shared.person("ada")
  const token = await tokenFor(ada, shared.east)
  await ada.on(shared.west).editMe({ email: `new_${ada.email}`, current_password: ada.password })
  expect(await refusal(clientAt(shared.east).confirmPasswordReset({ token, new_password: fresh }))).toBe(
    "invalid_token",
  )
  expect((await clientAt(shared.east).login({ username: ada.username, password: ada.password })).status).toBe("success")
})

test("a reset ends what was open for the old password: a second step, and other links", async ({ shared }) => {
  await withMail(shared)
  const ada = await shared.person("ada")
  const { login, requestPasswordReset, resendVerification, confirmPasswordReset, verifyEmail } = clientAt(shared.east)
  await resendVerification({ email: ada.email })
  const verification = (await mailbox.next(ada.email)).token
  const { secret, backup_codes } = await ada.on(shared.east).enableTwoFactor({ password: ada.password })
  await ada.on(shared.east).confirmTwoFactor({ code: generateSync({ secret }) })
  const { challenge_token } = await login({ username: ada.username, password: ada.password })
  await requestPasswordReset({ email: ada.email })
  const { token } = await mailbox.next(ada.email)
  await confirmPasswordReset({ token, new_password: fresh })
  const [code, other] = backup_codes as [string, string]
  const { completeTwoFactor } = clientAt(shared.west)
  expect(await refusal(completeTwoFactor({ challenge_token: challenge_token!, code }))).toBe("used_challenge")
  expect(await refusal(verifyEmail({ token: verification }))).toBe("invalid_token")
  // The second factor itself stays: somebody who reads the mail has only one of the two.
  const again = await login({ username: ada.username, password: fresh })
  expect(again).toMatchObject({ status: "two_factor_required", token: null })
  const reply = await completeTwoFactor({ challenge_token: again.challenge_token!, code: other })
  expect(reply.user!.id).toBe(ada.id)
})

test("a reset does not lift a lock", async ({ shared }) => {
  await withMail(shared)
  const ada = await shared.person("ada")
  const token = await tokenFor(ada, shared.east)
  const { login, confirmPasswordReset } = clientAt(shared.east)
  for (let i = 0; i < 5; i++)
    expect(await refusal(login({ username: ada.username, password: "Wrong-Horse-99" }))).toBe("invalid_credentials")
  await confirmPasswordReset({ token, new_password: fresh })
  expect(await refusal(login({ username: ada.username, password: fresh }))).toBe("account_locked")
})

test("a request does not tell whether an account exists: the same answer and the same work for known, unknown and mailed enough", async ({
  shared,
}) => {
  await withMail(shared)
  const ada = await shared.person("Ada")
  const notes = async () => {
    const [row] = await shared.sql<{ last: number }[]>`SELECT last_value::int AS last FROM mails_id_seq`
    return row!.last
  }
  const ask = async (path: string, email: string) => {
    const before = await notes()
    const { status, text } = await send(shared.east, path, { method: "POST", body: { email } })
    return { status, text, noted: (await notes()) - before }
  }
  for (const path of ["/api/v1/auth/password-reset/request", "/api/v1/auth/verify-email/resend"]) {
    await ask(path, ada.email)
    await mailbox.next(ada.email)
    const unknown = await ask(path, `${shared.newName("nobody")}@example.com`)
    expect(unknown).toEqual({ status: 200, text: '{"success":true}', noted: 1 })
    for (let i = 0; i < 5; i++) {
      expect(await ask(path, i % 2 ? ada.email.toUpperCase() : ada.email)).toEqual(unknown)
      if (i < 2) await mailbox.next(ada.email)
    }
    const { status, text } = await send(shared.east, path, { method: "POST", body: { email: "no address" } })
    expect(status).toBe(422)
    expect(text).not.toContain("no address")
  }
  const { requestPasswordReset, resendVerification } = clientAt(shared.west)
  for (const email of [
    "",
    "ada",
    "ada@",
    "@example.com",
    "a@b@c.d",
    "a b@example.com",
    `${"a".repeat(310)}@example.com`,
    `x@example.com\r\nBcc: y@example.com`,
  ]) {
    expect(await refusal(requestPasswordReset({ email }))).toBe("validation_failed")
    expect(await refusal(resendVerification({ email }))).toBe("validation_failed")
  }
})

test("nobody is sent more mails of a kind than are allowed in an hour, however fast they are asked for", async ({
  shared,
}) => {
  await withMail(shared)
  const ada = await shared.person("ada")
  const { email, id } = ada
  const ask = (count: number) =>
    Promise.all(
      Array.from({ length: count }, (_, i) =>
        clientAt(i % 2 ? shared.east : shared.west).requestPasswordReset({ email }),
      ),
    )
  for (let round = 0; round < 6; round++) await ask(4)
  const mine = () => shared.sql<{ number: number }[]>`SELECT number FROM mails WHERE user_id = ${id} ORDER BY number`
  expect((await mine()).map(({ number }) => number)).toEqual([1, 2, 3])
  for (let i = 0; i < 3; i++) await mailbox.next(email)
  // The other kind is counted by itself, and an hour later all begins anew.
  await clientAt(shared.east).resendVerification({ email })
  await mailbox.next(email)
  await shared.sql`UPDATE mails SET asked_at = asked_at - 3600 WHERE user_id = ${id}`
  await clientAt(shared.east).requestPasswordReset({ email })
  await mailbox.next(email)
  expect(mailbox.to(email)).toHaveLength(5)
})

test("a stolen database holds no link", async ({ shared }) => {
  await withMail(shared)
  const ada = await shared.person("ada")
  const token = await tokenFor(ada, shared.east)
  const secret = token.split(".")[2]!
  const tables = await shared.sql<{ name: string }[]>`
    SELECT table_name AS name FROM information_schema.tables WHERE table_schema = 'public' AND table_type = 'BASE TABLE'`
  expect(tables.length).toBeGreaterThan(10)
  for (const { name } of tables) {
    const rows = await shared.sql`SELECT FROM ${shared.sql(name)} AS r WHERE strpos(r::text, ${secret}) > 0`
    expect({ name, rows: rows.length }).toEqual({ name, rows: 0 })
  }
})
