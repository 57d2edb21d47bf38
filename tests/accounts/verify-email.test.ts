/** Where addresses have to be verified: nobody gets in before, and only the mail lets them. */
import { afterAll } from "vitest"
import { Mailbox } from "../kit/mailbox.ts"
import { refusal } from "../kit/conformance.ts"
import { clientAt } from "../kit/person.ts"
import { expect, testWith, type SharedCluster } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const mailbox = await Mailbox.open()
afterAll(() => mailbox.stop())
const test = testWith({
  config: { STARLING_EMAIL_VERIFICATION_REQUIRED: "true", STARLING_MAILS_PER_HOUR: "4" },
})

let working: Promise<unknown> | undefined
const withMail = (shared: SharedCluster) =>
  (working ??= shared.bootJobWorker({ config: { SMTP_URL: mailbox.url, STARLING_MAIL_FROM: "starling@chat.example" } }))

const mailsSettled = ({ sql }: SharedCluster) =>
  until("no mail waits", async () => (await sql`SELECT FROM mails WHERE sent_at IS NULL`).length === 0)

const password = "Correct-Horse-9"
/** An account that waits for its mail. */
async function newcomer(shared: SharedCluster) {
  await withMail(shared)
  const username = shared.newName("New")
  const who = { username, email: `${username}@example.com` }
  expect(await refusal(clientAt(shared.east).register({ ...who, password }))).toBe("registered_unverified")
  return who
}

test("a user who registers is let in once they have answered the mail, not before", async ({ shared }) => {
  const { username, email } = await newcomer(shared)
  const { login, verifyEmail } = clientAt(shared.west)
  expect(await refusal(login({ username, password }))).toBe("email_not_verified")
  // Only who knows the password is told.
  expect(await refusal(login({ username, password: "Wrong-Horse-99" }))).toBe("invalid_credentials")
  expect(
    await shared.sql`SELECT FROM sessions s JOIN users u ON u.id = s.user_id WHERE u.username = ${username}`,
  ).toEqual([])

  const { token, text } = await mailbox.next(email)
  expect(text).toContain(`Hello ${username},`)
  expect(token).toMatch(/^email\.\d+\.[A-Za-z0-9_-]{43}$/)
  expect(await verifyEmail({ token })).toEqual({ success: true })
  const reply = await login({ username, password })
  expect(reply.user).toMatchObject({ username, email, email_verified: true })
  expect((await clientAt(shared.east, reply.token!).getMe()).email_verified).toBe(true)
  expect(await refusal(verifyEmail({ token }))).toBe("invalid_token")
})

test("a name or an address that waits for its mail is taken", async ({ shared }) => {
  const { username, email } = await newcomer(shared)
  const { register } = clientAt(shared.west)
  const other = shared.newName("Other")
  expect(await refusal(register({ username, email: `${other}@example.com`, password }))).toBe("user_exists")
  expect(await refusal(register({ username: other, email: email.toUpperCase(), password }))).toBe("user_exists")
})

test("a mail that was lost is sent again; either link is good, once, and who is verified gets none", async ({
  shared,
}) => {
  const { username, email } = await newcomer(shared)
  const { resendVerification, requestPasswordReset, verifyEmail, login } = clientAt(shared.east)
  const first = await mailbox.next(email)
  await resendVerification({ email })
  const second = await mailbox.next(email)
  await verifyEmail({ token: first.token })
  for (const { token } of [first, second]) expect(await refusal(verifyEmail({ token }))).toBe("invalid_token")
  await resendVerification({ email })
  // What is asked for later arrives, so that the other one would be there by then.
  await requestPasswordReset({ email })
  expect((await mailbox.next(email)).subject).toContain("Reset")
  await mailsSettled(shared)
  expect(mailbox.to(email)).toHaveLength(3)
  expect((await login({ username, password })).status).toBe("success")
})

test("a token of another kind, of somebody else, or made up verifies nobody", async ({ shared }) => {
  const { username, email } = await newcomer(shared)
  const { token } = await mailbox.next(email)
  await clientAt(shared.east).requestPasswordReset({ email })
  const reset = await mailbox.next(email)
  const stranger = await newcomer(shared)
  const theirs = await mailbox.next(stranger.email)
  const { verifyEmail, confirmPasswordReset, login } = clientAt(shared.east)
  const [, id] = token.split(".")
  const mixed = `email.${id}.${theirs.token.split(".")[2]!}`
  for (const wrong of [reset.token, mixed, token.toUpperCase(), "", "x", `${token}\n`])
    expect(await refusal(verifyEmail({ token: wrong }))).toBe("invalid_token")
  expect(await refusal(verifyEmail({ token: "x".repeat(257) }))).toBe("validation_failed")
  expect(await refusal(confirmPasswordReset({ token, new_password: password }))).toBe("invalid_token")
  expect(await refusal(login({ username, password }))).toBe("email_not_verified")
  await verifyEmail({ token: theirs.token })
  expect(await refusal(login({ username, password }))).toBe("email_not_verified")
  expect((await login({ username: stranger.username, password })).status).toBe("success")
})

test("answering the mail of a reset verifies, too", async ({ shared }) => {
  const { username, email } = await newcomer(shared)
  await mailbox.next(email)
  const { requestPasswordReset, confirmPasswordReset, login } = clientAt(shared.west)
  await requestPasswordReset({ email })
  const { token } = await mailbox.next(email)
  await confirmPasswordReset({ token, new_password: "Another-Horse-9" })
  expect((await login({ username, password: "Another-Horse-9" })).user).toMatchObject({ email_verified: true })
})

test("a user who changes their address verifies the new one; the link of the old one is void", async ({ shared }) => {
  const { username, email } = await newcomer(shared)
  const { verifyEmail, login } = clientAt(shared.east)
  await verifyEmail({ token: (await mailbox.next(email)).token })
  const { token } = await login({ username, password })
  const rest = clientAt(shared.west, token!)
  const moved = [`first_${email}`, `second_${email}`] as const
  expect(await rest.editMe({ email: moved[0], current_password: password })).toMatchObject({
    email: moved[0],
    email_verified: false,
  })
  const old = await mailbox.next(moved[0])
  await rest.editMe({ email: moved[1], current_password: password })
  expect(await refusal(verifyEmail({ token: old.token }))).toBe("invalid_token")
  expect(await refusal(login({ username, password }))).toBe("email_not_verified")
  await verifyEmail({ token: (await mailbox.next(moved[1])).token })
  expect((await login({ username, password })).user).toMatchObject({ email: moved[1], email_verified: true })
})
