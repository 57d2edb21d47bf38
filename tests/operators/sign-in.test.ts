/** Accounts of operators: made on the command line, signed in over REST, on whichever worker. */
import { generateSync } from "otplib"
import { routes } from "../../src/contract/contract.ts"
import { operator as commandLine } from "../../src/process/operator/operator.ts"
import { newOperator } from "../kit/area.ts"
import type { Cluster } from "../kit/cluster.ts"
import { refusal } from "../kit/conformance.ts"
import { send } from "../kit/exchange.ts"
import { clientAt, type Endpoint } from "../kit/person.ts"
import { cheapHashes } from "../kit/processes.ts"
import { expect, testWith } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const test = testWith({
  config: { TRUSTED_PROXIES: "127.0.0.1", STARLING_ADMIN_UI_ALLOWED_HOSTS: "localhost, 198.51.100.0/24" },
})

const seconds = () => Math.floor(Date.now() / 1000)
/** A code, of so many steps after that of now. */
const codeOf = (secret: string, steps = 0) => generateSync({ secret, epoch: seconds() + steps * 30 })
const calmStep = () => until("a step has time left", () => seconds() % 30 < 25, { everyMs: 100 })
function wrongCode(secret: string): string {
  const right = new Set([-1, 0, 1, 2].map(steps => codeOf(secret, steps)))
  return ["000000", "111111", "222222", "333333", "444444"].find(code => !right.has(code))!
}

type Place = Pick<Cluster, "databaseUrl" | "newName" | "sql">
async function say({ databaseUrl }: Place, ...words: string[]) {
  const { code, out, said } = await commandLine(words, { DATABASE_URL: databaseUrl, ...cheapHashes })
  return code === 0 ? out : Promise.reject(new Error(said))
}
const passwordIn = (out: string) => out.split("\n").at(-1)!

async function made(cluster: Place) {
  const username = cluster.newName("Operator")
  const password = passwordIn(await say(cluster, "create", username))
  return { username, password }
}

/** Through the first sign-in. */
async function setUp(cluster: Place, east: Endpoint, west: Endpoint) {
  const account = await made(cluster)
  const begun = await clientAt(east).operatorLogin(account)
  await calmStep()
  const done = await clientAt(west).verifyOperatorOtp({
    admin_id: begun.admin_id!,
    code: codeOf(begun.otp_secret!, -1),
    is_setup: true,
    challenge_token: begun.challenge_token!,
  })
  return { ...account, id: begun.admin_id!, secret: begun.otp_secret!, token: done.token!, codes: done.backup_codes! }
}

const challengeOf = (place: Endpoint, { username, password }: { username: string; password: string }) =>
  clientAt(place).operatorLogin({ username, password })

test("OPIN3: the command line makes an operator; the first sign-in sets up an app, the next asks for its code", async ({
  shared,
}) => {
  const account = await made(shared)
  expect(account.password).toMatch(/^[A-Za-z0-9]{24}$/)
  await expect(say(shared, "create", account.username.toUpperCase())).rejects.toThrow(/already/)
  await expect(say(shared, "create", " ")).rejects.toThrow(/1 to 100/)
  expect(await say(shared, "list")).toContain(`${account.username}  never signed in  no authenticator app  0 sessions`)

  const first = await clientAt(shared.east).operatorLogin(account)
  const begun = await clientAt(shared.west).operatorLogin({ ...account, username: account.username.toLowerCase() })
  expect(begun).toEqual({
    status: "otp_setup_required",
    token: null,
    admin_id: first.admin_id,
    otp_secret: expect.stringMatching(/^[A-Z2-7]{32}$/),
    otp_qr_uri: `otpauth://totp/Starling%20Admin:${account.username}?secret=${begun.otp_secret}&issuer=Starling%20Admin`,
    message: "OTP setup required",
    challenge_token: expect.stringMatching(/^[A-Za-z0-9_-]{43}$/),
  })
  await calmStep()
  // The secret of before is void, and so is its challenge.
  const stale = { admin_id: first.admin_id!, is_setup: true, challenge_token: first.challenge_token! }
  expect(await refusal(clientAt(shared.east).verifyOperatorOtp({ ...stale, code: codeOf(first.otp_secret!) }))).toBe(
    "invalid_operator_challenge",
  )
  const challenge = { admin_id: begun.admin_id!, challenge_token: begun.challenge_token! }
  const setup = { ...challenge, is_setup: true, code: codeOf(begun.otp_secret!, -1) }
  // A challenge is bound to its flow and to its operator.
  expect(await refusal(clientAt(shared.east).verifyOperatorOtp({ ...setup, is_setup: false }))).toBe(
    "invalid_operator_challenge",
  )
  expect(await refusal(clientAt(shared.east).verifyOperatorOtp({ ...setup, admin_id: "999999" }))).toBe(
    "invalid_operator_challenge",
  )
  expect(await refusal(clientAt(shared.east).verifyOperatorOtp({ ...setup, admin_id: "one" }))).toBe(
    "invalid_operator_id",
  )
  expect(await refusal(clientAt(shared.east).verifyOperatorOtp({ ...setup, code: wrongCode(begun.otp_secret!) }))).toBe(
    "invalid_operator_code",
  )
  const done = await clientAt(shared.east).verifyOperatorOtp({ ...setup, admin_id: Number(begun.admin_id) })
  expect(done).toMatchObject({ status: "success", token: expect.stringMatching(/^[A-Za-z0-9_-]{43}$/), admin_id: null })
  expect(done.backup_codes).toHaveLength(10)
  for (const code of done.backup_codes!) expect(code).toMatch(/^[0-9A-F]{8}$/)
  expect(await refusal(clientAt(shared.west).verifyOperatorOtp(setup))).toBe("invalid_operator_challenge")

  const rest = clientAt(shared.west, done.token!)
  const status = await rest.getOperatorSecurity()
  expect(status).toEqual({
    admin_id: begun.admin_id,
    username: account.username,
    email: null,
    created_at: expect.any(Number),
    last_login: expect.any(Number),
    otp_required: true,
    otp_enabled: true,
    must_setup_otp: false,
    backup_codes_remaining: 10,
  })
  const [{ left }] = (await shared.sql`
    SELECT expires_at - extract(epoch FROM now())::int AS left FROM operator_sessions WHERE operator_id = ${begun.admin_id}`) as [
    { left: number },
  ]
  expect(left).toBeGreaterThan(8 * 3600 - 60)
  expect(left).toBeLessThanOrEqual(8 * 3600)

  // OPIN3: each code once, whichever worker is asked, also at the same moment.
  await calmStep()
  const verify = async (place: Endpoint, code: string) => {
    const { admin_id, challenge_token, status } = await challengeOf(place, account)
    expect(status).toBe("otp_required")
    return { admin_id: admin_id!, challenge_token: challenge_token!, code }
  }
  const code = codeOf(begun.otp_secret!)
  const both = await Promise.allSettled(
    [shared.east, shared.west].map(async place => clientAt(place).verifyOperatorOtp(await verify(place, code))),
  )
  expect(both.map(({ status }) => status).toSorted()).toEqual(["fulfilled", "rejected"])
  const backup = done.backup_codes![0]!
  const dashed = `${backup.slice(0, 4).toLowerCase()}-${backup.slice(4)}`
  const byBackup = await clientAt(shared.west).verifyOperatorOtp(await verify(shared.east, dashed))
  expect(byBackup).toMatchObject({ status: "success", token: expect.any(String) })
  expect(byBackup).not.toHaveProperty("backup_codes")
  expect(await refusal(clientAt(shared.east).verifyOperatorOtp(await verify(shared.west, backup)))).toBe(
    "invalid_operator_code",
  )
  expect((await rest.getOperatorSecurity()).backup_codes_remaining).toBe(9)

  const trail = await rest.listTrail({ operator: account.username })
  expect(trail.find(({ action, outcome }) => action === "verifyOperatorOtp" && outcome === 200)).toMatchObject({
    operator_id: begun.admin_id,
    input: {},
  })
  const everything = JSON.stringify(await shared.sql`SELECT * FROM operator_trail`)
  for (const secret of [account.password, begun.otp_secret!, begun.challenge_token!, done.token!, backup])
    expect(everything).not.toContain(secret)
})

test("OPIN1, OPIN2: failures count by address and by name, unknown names like known ones, until a sign-in is complete", async ({
  shared,
}) => {
  const guarded = await setUp(shared, shared.east, shared.west)
  let address = 1
  const attempt = async (username: string, from = `198.51.100.${address++}`, password = "wrong") => {
    const { status, body, headers } = await send(shared.east, "/admin/login", {
      route: routes.operatorLogin,
      body: { username, password },
      headers: { "x-forwarded-for": from },
    })
    return {
      status,
      wait: Number(headers.get("retry-after")),
      message: (body as { error?: { message: string } }).error?.message,
    }
  }
  for (const username of [guarded.username, shared.newName("nobody")]) {
    for (let i = 0; i < 5; i++)
      expect(await attempt(i % 2 === 0 ? username : username.toUpperCase())).toMatchObject({
        status: 401,
        message: "Invalid credentials",
      })
    const locked = await attempt(username)
    expect(locked).toMatchObject({
      status: 429,
      message: expect.stringMatching(/^Too many login attempts\. Try again in \d+ seconds\.$/),
    })
    expect(locked.wait).toBeGreaterThan(890)
    expect(locked.wait).toBeLessThanOrEqual(901)
    // OPIN2: the right password is told no more.
    expect((await attempt(username, undefined, guarded.password)).status).toBe(429)
  }
  // By address.
  for (let i = 0; i < 5; i++) expect((await attempt(shared.newName("nobody"), "198.51.100.200")).status).toBe(401)
  expect((await attempt(shared.newName("nobody"), "198.51.100.200")).status).toBe(429)
  expect((await attempt(shared.newName("nobody"), "198.51.100.201")).status).toBe(401)
  // A lock ends; what the window has left behind counts no more.
  await shared.sql`UPDATE operator_failures SET locked_until = 1, since = 1`
  const from = "198.51.100.202"
  for (let i = 0; i < 4; i++) expect((await attempt(guarded.username, from)).status).toBe(401)
  // A right password alone clears nothing: the fifth wrong one locks.
  expect((await attempt(guarded.username, from, guarded.password)).status).toBe(200)
  expect((await attempt(guarded.username, from)).status).toBe(401)
  expect((await attempt(guarded.username, from)).status).toBe(429)

  // A complete one does.
  await shared.sql`DELETE FROM operator_failures`
  for (let i = 0; i < 4; i++) expect((await attempt(guarded.username, "127.0.0.1")).status).toBe(401)
  const { admin_id, challenge_token } = await challengeOf(shared.east, guarded)
  await clientAt(shared.east).verifyOperatorOtp({
    admin_id: admin_id!,
    challenge_token: challenge_token!,
    code: guarded.codes[0]!,
  })
  for (let i = 0; i < 4; i++) expect((await attempt(guarded.username, "127.0.0.1")).status).toBe(401)

  // Wrong codes count, too, and five of them void the challenge.
  await shared.sql`DELETE FROM operator_failures`
  const second = await challengeOf(shared.west, guarded)
  const guess = (code: string) =>
    refusal(
      clientAt(shared.east).verifyOperatorOtp({
        admin_id: second.admin_id!,
        challenge_token: second.challenge_token!,
        code,
      }),
    )
  for (let i = 0; i < 5; i++) {
    expect(await guess(wrongCode(guarded.secret))).toBe("invalid_operator_code")
    if (i === 3) await shared.sql`UPDATE operator_failures SET failures = 0`
  }
  await calmStep()
  expect(await guess(guarded.codes[1]!)).toBe("invalid_operator_challenge")
  const late = await challengeOf(shared.west, guarded)
  for (let i = 0; i < 4; i++) await attempt(guarded.username, "127.0.0.1")
  const third = await clientAt(shared.west)
    .operatorLogin({ username: guarded.username, password: guarded.password })
    .catch((error: unknown) => refusal(Promise.reject(error as Error)))
  expect(third).toBe("operator_locked")
  expect(
    await refusal(
      clientAt(shared.east).verifyOperatorOtp({
        admin_id: late.admin_id!,
        challenge_token: late.challenge_token!,
        code: guarded.codes[1]!,
      }),
    ),
  ).toBe("operator_locked")
  await shared.sql`DELETE FROM operator_failures`
})

test("OPIN1: many guesses at once are no more than one after the other", async ({ shared }) => {
  const guarded = await made(shared)
  const guesses = await Promise.all(
    Array.from({ length: 12 }, (_, i) =>
      refusal(
        clientAt(i % 2 === 0 ? shared.east : shared.west).operatorLogin({
          username: guarded.username,
          password: `no ${i}`,
        }),
      ),
    ),
  )
  expect(guesses.filter(code => code === "invalid_credentials")).toHaveLength(5)
  expect(guesses.filter(code => code === "operator_locked")).toHaveLength(7)
  await shared.sql`DELETE FROM operator_failures`
})

test("a password is changed by who knows it, and ends the other sessions", async ({ shared }) => {
  const account = await setUp(shared, shared.east, shared.west)
  const begun = await challengeOf(shared.west, account)
  const { token: other } = await clientAt(shared.west).verifyOperatorOtp({
    admin_id: begun.admin_id!,
    challenge_token: begun.challenge_token!,
    code: account.codes[0]!,
  })
  const rest = clientAt(shared.east, account.token)
  const { password: current_password } = account
  const new_password = "correct horse battery staple"
  expect(await refusal(rest.changeOperatorPassword({ current_password: "wrong", new_password }))).toBe(
    "wrong_operator_password",
  )
  expect(await refusal(rest.changeOperatorPassword({ current_password, new_password: "elevenchars" }))).toBe(
    "validation_failed",
  )
  const open = await challengeOf(shared.east, account)
  await rest.changeOperatorPassword({ current_password, new_password })
  expect(await refusal(clientAt(shared.east, other!).getOperatorSecurity())).toBe("operator_session_ended")
  expect((await rest.getOperatorSecurity()).username).toBe(account.username)
  expect(await refusal(challengeOf(shared.west, account))).toBe("invalid_credentials")
  // What the former password had begun is void.
  const { admin_id, challenge_token } = { admin_id: open.admin_id!, challenge_token: open.challenge_token! }
  expect(
    await refusal(clientAt(shared.east).verifyOperatorOtp({ admin_id, challenge_token, code: account.codes[1]! })),
  ).toBe("invalid_operator_challenge")
  expect((await challengeOf(shared.west, { ...account, password: new_password })).status).toBe("otp_required")
  const [entry] = await rest.listTrail({ operator: account.username, action: "changeOperatorPassword", limit: "1" })
  expect(entry).toMatchObject({ outcome: 200, input: {}, result: { sessions_ended: 1 } })

  // Who has a session may not guess for ever; to sign in is another matter.
  for (let i = 0; i < 4; i++) await refusal(rest.beginOperatorOtp({ current_password: "wrong" }))
  for (let i = 0; i < 2; i++) await rest.beginOperatorOtp({ current_password: "wrong" }).catch(() => {})
  expect(await refusal(rest.renewOperatorBackupCodes({ current_password: new_password }))).toBe("operator_locked")
  expect(await refusal(rest.changeOperatorPassword({ current_password: new_password, new_password }))).toBe(
    "operator_locked",
  )
  expect(await refusal(rest.disableOperatorOtp({ current_password: new_password, code: "000000" }))).toBe(
    "operator_locked",
  )
  expect(await refusal(rest.beginOperatorOtp({ current_password: new_password }))).toBe("operator_locked")
  expect((await challengeOf(shared.west, { ...account, password: new_password })).status).toBe("otp_required")

  expect(await rest.operatorLogout()).toEqual({ success: true })
  expect(await clientAt(shared.west).operatorLogout()).toEqual({ success: true })
  for (const place of [shared.east, shared.west])
    expect(await refusal(clientAt(place, account.token).getOperatorSecurity())).toBe("operator_session_ended")
})

test("an app is replaced, removed, and its backup codes are renewed", async ({ shared }) => {
  const account = await setUp(shared, shared.east, shared.west)
  const rest = clientAt(shared.west, account.token)
  const { password: current_password } = account
  for (const call of [
    () => rest.beginOperatorOtp({ current_password: "wrong" }),
    () => rest.disableOperatorOtp({ current_password: "wrong", code: "000000" }),
    () => rest.renewOperatorBackupCodes({ current_password: "wrong" }),
  ])
    expect(await refusal(call())).toBe("wrong_operator_password")

  const begun = await rest.beginOperatorOtp({ current_password })
  expect(begun).toMatchObject({ status: "otp_setup_required", message: "OTP setup started", admin_id: account.id })
  // Until the new one is confirmed the one before is in use.
  await calmStep()
  const now = await challengeOf(shared.east, account)
  const verify = { admin_id: now.admin_id!, challenge_token: now.challenge_token!, code: codeOf(account.secret) }
  expect((await clientAt(shared.east).verifyOperatorOtp(verify)).status).toBe("success")
  const replaced = await clientAt(shared.east).verifyOperatorOtp({
    admin_id: account.id,
    challenge_token: begun.challenge_token!,
    is_setup: true,
    code: codeOf(begun.otp_secret!, -1),
  })
  expect(replaced.backup_codes).toHaveLength(10)
  expect(await refusal(rest.disableOperatorOtp({ current_password, code: account.codes[1]! }))).toBe(
    "wrong_operator_code",
  )
  const renewed = await rest.renewOperatorBackupCodes({ current_password })
  expect(renewed.backup_codes).toHaveLength(10)
  expect(await refusal(rest.disableOperatorOtp({ current_password, code: replaced.backup_codes![0]! }))).toBe(
    "wrong_operator_code",
  )

  const open = await challengeOf(shared.east, account)
  await rest.disableOperatorOtp({ current_password, code: renewed.backup_codes[0]! })
  expect(await rest.getOperatorSecurity()).toMatchObject({
    otp_enabled: false,
    must_setup_otp: true,
    backup_codes_remaining: 0,
  })
  expect(
    await refusal(
      clientAt(shared.west).verifyOperatorOtp({
        admin_id: open.admin_id!,
        challenge_token: open.challenge_token!,
        code: codeOf(begun.otp_secret!),
      }),
    ),
  ).toBe("operator_otp_not_configured")
  expect(await refusal(rest.disableOperatorOtp({ current_password, code: "000000" }))).toBe("operator_otp_not_enabled")
  expect(await refusal(rest.renewOperatorBackupCodes({ current_password }))).toBe("operator_otp_required")
  expect((await challengeOf(shared.west, account)).status).toBe("otp_setup_required")
})

test("who is locked out is let in by the command line, who has left is removed", async ({ shared }) => {
  const account = await setUp(shared, shared.east, shared.west)
  const rest = clientAt(shared.east, account.token)
  const open = await challengeOf(shared.west, account)
  for (let i = 0; i < 5; i++)
    await clientAt(shared.west)
      .operatorLogin({ ...account, password: "no" })
      .catch(() => {})
  await expect(say(shared, "reset", "nobody at all")).rejects.toThrow(/no such operator/)
  const password = passwordIn(await say(shared, "reset", account.username.toUpperCase()))
  expect(password).not.toBe(account.password)
  expect(await refusal(rest.getOperatorSecurity())).toBe("operator_session_ended")
  await shared.sql`DELETE FROM operator_failures WHERE key LIKE 'a %'`
  expect(await refusal(challengeOf(shared.west, account))).toBe("invalid_credentials")
  const begun = await challengeOf(shared.west, { ...account, password })
  expect(begun.status).toBe("otp_setup_required")
  expect(
    await refusal(
      clientAt(shared.east).verifyOperatorOtp({
        admin_id: account.id,
        challenge_token: open.challenge_token!,
        code: account.codes[0]!,
      }),
    ),
  ).toBe("invalid_operator_challenge")

  expect(await say(shared, "remove", account.username)).toContain("no longer")
  const gone = { admin_id: account.id, is_setup: true, challenge_token: begun.challenge_token!, code: "000000" }
  expect(await refusal(clientAt(shared.west).verifyOperatorOtp(gone))).toBe("operator_not_found")
  await expect(say(shared, "remove", account.username)).rejects.toThrow(/no such operator/)
  const other = await newOperator(shared)
  const actions = (await other.on(shared.east).listTrail({ target: account.username })).map(({ action }) => action)
  expect(actions).toEqual(["command line: remove", "command line: create"])
})

test("without required codes the password opens a session", async ({ cluster }) => {
  const [place] = await cluster.boot(1, { config: { STARLING_ADMIN_UI_REQUIRE_OTP: "false" } })
  const account = await made(cluster)
  const done = await clientAt(place!).operatorLogin(account)
  expect(done).toMatchObject({ status: "success", token: expect.any(String), admin_id: null, challenge_token: null })
  expect(await clientAt(place!, done.token!).getOperatorSecurity()).toMatchObject({
    otp_required: false,
    must_setup_otp: false,
    otp_enabled: false,
    last_login: expect.any(Number),
  })
})
