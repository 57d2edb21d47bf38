import { generateSync } from "otplib"
import { refusal } from "../kit/conformance.ts"
import { clientAt, type Person } from "../kit/person.ts"
import { expect, test, type SharedCluster } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const seconds = () => Date.now() / 1000
/** A code, of so many steps after that of now. */
const codeOf = (secret: string, steps = 0) => generateSync({ secret, epoch: Math.floor(seconds()) + steps * 30 })
/**
 * Waits where the step of now is nearly over, so that codes worked out next are what they are meant
 * to be.
 */
const calmStep = () => until("a step has time left", () => seconds() % 30 < 25, { everyMs: 100 })
const wrongCode = (secret: string) => {
  const right = new Set([-1, 0, 1, 2].map(steps => codeOf(secret, steps)))
  return ["000000", "111111", "222222", "333333", "444444"].find(code => !right.has(code))!
}

const setUp = async (shared: SharedCluster, name = "guarded") => {
  const person = await shared.person(name)
  const rest = person.on(shared.east)
  const setup = await rest.enableTwoFactor({ password: person.password })
  await calmStep()
  // The step before that of now: those of now and after are still good.
  await rest.confirmTwoFactor({ code: codeOf(setup.secret, -1) })
  return { person, rest, ...setup }
}
const challengeOf = async ({ username, password }: Person, place: { url: string }) =>
  (await clientAt(place).login({ username, password })).challenge_token!
const unlock = (shared: SharedCluster, { id }: Person) => shared.sql`DELETE FROM failed_logins WHERE name = ${`#${id}`}`

test("a second factor is prepared, confirmed, asked for at every sign-in, and switched off", async ({ shared }) => {
  const ada = await shared.person("ada")
  const rest = ada.on(shared.east)
  expect(await rest.getTwoFactorStatus()).toEqual({ enabled: false, backup_codes_remaining: 0 })
  const first = await rest.enableTwoFactor({ password: ada.password })
  expect(await rest.getTwoFactorStatus()).toEqual({ enabled: false, backup_codes_remaining: 10 })
  // It is not on yet.
  expect((await clientAt(shared.west).login({ username: ada.username, password: ada.password })).status).toBe("success")

  const { secret, qr_uri, backup_codes } = await ada.on(shared.west).enableTwoFactor({ password: ada.password })
  expect(secret).toMatch(/^[A-Z2-7]{32}$/)
  expect(qr_uri).toBe(`otpauth://totp/Starling:${ada.username}?secret=${secret}&issuer=Starling`)
  expect(new Set([...first.backup_codes, ...backup_codes]).size).toBe(20)
  for (const code of backup_codes) expect(code).toMatch(/^[0-9A-F]{4}-[0-9A-F]{4}$/)
  await calmStep()
  // The secret of before is void.
  if (codeOf(first.secret) !== codeOf(secret))
    expect(await refusal(rest.confirmTwoFactor({ code: codeOf(first.secret) }))).toBe("invalid_code")
  await rest.confirmTwoFactor({ code: codeOf(secret, -1) })
  expect(await rest.getTwoFactorStatus()).toEqual({ enabled: true, backup_codes_remaining: 10 })
  expect(await rest.getMe()).toMatchObject({ totp_enabled: true })
  expect(await refusal(rest.enableTwoFactor({ password: ada.password }))).toBe("second_factor_enabled")
  expect(await refusal(rest.confirmTwoFactor({ code: codeOf(secret) }))).toBe("second_factor_not_started")

  const challenge = await clientAt(shared.west).login({ username: ada.username, password: ada.password })
  expect(challenge).toEqual({
    status: "two_factor_required",
    token: null,
    user: null,
    challenge_token: expect.stringMatching(/^2fa\.\d+\.[A-Za-z0-9_-]{43}$/) as string,
    methods: ["totp", "backup_code"],
    expires_in: 300,
  })
  const challenge_token = challenge.challenge_token!
  const done = await clientAt(shared.east).completeTwoFactor({ challenge_token, code: codeOf(secret) })
  expect(done).toMatchObject({ status: "success", user: { id: ada.id, totp_enabled: true }, challenge_token: null })
  expect((await clientAt(shared.west, done.token!).getMe()).id).toBe(ada.id)
  // What was signed in before stays so.
  expect((await rest.getMe()).id).toBe(ada.id)

  const { password } = ada
  await rest.disableTwoFactor({ password, code: backup_codes[0]!.toLowerCase().replace("-", "") })
  expect(await rest.getTwoFactorStatus()).toEqual({ enabled: false, backup_codes_remaining: 0 })
  expect((await clientAt(shared.west).login({ username: ada.username, password })).status).toBe("success")
})

test("each wrong way to set up, confirm and switch off is told apart", async ({ shared }) => {
  const ada = await shared.person("ada")
  const rest = ada.on(shared.east)
  const { password } = ada
  expect(await refusal(rest.enableTwoFactor({ password: "" }))).toBe("password_required")
  expect(await refusal(rest.enableTwoFactor({ password: "Wrong-Horse-99" }))).toBe("invalid_password")
  for (const code of ["", "12345", "1234567", "12345a", "１２３４５６"])
    expect(await refusal(rest.confirmTwoFactor({ code }))).toBe("six_digits_required")
  expect(await refusal(rest.confirmTwoFactor({ code: "123456" }))).toBe("second_factor_not_started")
  expect(await refusal(rest.disableTwoFactor({ password, code: "123456" }))).toBe("second_factor_not_enabled")
  const { secret } = await rest.enableTwoFactor({ password })
  expect(await refusal(rest.confirmTwoFactor({ code: wrongCode(secret) }))).toBe("invalid_code")
  expect(await refusal(rest.disableTwoFactor({ password, code: codeOf(secret) }))).toBe("second_factor_not_enabled")
  await calmStep()
  const code = codeOf(secret)
  await rest.confirmTwoFactor({ code })
  expect(await refusal(rest.disableTwoFactor({ password: "", code: "123456" }))).toBe("password_required")
  expect(await refusal(rest.disableTwoFactor({ password, code: "" }))).toBe("second_factor_code_required")
  expect(await refusal(rest.disableTwoFactor({ password: "Wrong-Horse-99", code: codeOf(secret) }))).toBe(
    "invalid_password",
  )
  expect(await refusal(rest.disableTwoFactor({ password, code: wrongCode(secret) }))).toBe("invalid_second_factor")
  // That one was used to confirm.
  expect(await refusal(rest.disableTwoFactor({ password, code }))).toBe("invalid_second_factor")

  const { completeTwoFactor } = clientAt(shared.east)
  const challenge_token = `2fa.${ada.id}.${"a".repeat(43)}`
  for (const code of ["12345", "1234567890", ""])
    expect(await refusal(completeTwoFactor({ challenge_token, code }))).toBe("validation_failed")
  await shared.sql`DELETE FROM users WHERE id = ${ada.id}`
  expect(await refusal(rest.getTwoFactorStatus())).toBe("user_not_found")
})

test("SESS4: a code is good once: not again within its 90 seconds, on no route, and not for two who come at once", async ({
  shared,
}) => {
  const { person, rest, secret } = await setUp(shared)
  const challenges = await Promise.all(
    Array.from({ length: 4 }, (_, i) => challengeOf(person, i % 2 ? shared.east : shared.west)),
  )
  const code = codeOf(secret)
  const outcomes = await Promise.all(
    challenges.map((challenge_token, i) =>
      clientAt(i % 2 ? shared.west : shared.east)
        .completeTwoFactor({ challenge_token, code })
        .then(
          () => "granted",
          (error: unknown) => refusal(Promise.reject(error as Error)),
        ),
    ),
  )
  expect(outcomes.toSorted()).toEqual(["granted", ...Array<string>(3).fill("invalid_second_factor")])
  await unlock(shared, person)

  const challenge_token = await challengeOf(person, shared.west)
  const { completeTwoFactor } = clientAt(shared.west)
  expect(await refusal(completeTwoFactor({ challenge_token, code }))).toBe("invalid_second_factor")
  expect(await refusal(rest.disableTwoFactor({ password: person.password, code }))).toBe("invalid_second_factor")
  // The step before is older still; the one after is new.
  expect(await refusal(completeTwoFactor({ challenge_token, code: codeOf(secret, -1) }))).toBe("invalid_second_factor")
  expect((await completeTwoFactor({ challenge_token, code: codeOf(secret, 1) })).status).toBe("success")
})

test("a backup code signs in once, with or without its dash, however many use it at the same time", async ({
  shared,
}) => {
  const { person, rest, backup_codes } = await setUp(shared)
  const [plain, dashed, raced] = [backup_codes[0]!.replace("-", ""), backup_codes[1]!, backup_codes[2]!]
  for (const code of [plain.toLowerCase(), dashed]) {
    const challenge_token = await challengeOf(person, shared.west)
    expect((await clientAt(shared.east).completeTwoFactor({ challenge_token, code })).status).toBe("success")
  }
  const challenges = await Promise.all(Array.from({ length: 4 }, () => challengeOf(person, shared.east)))
  const tries = await Promise.allSettled(
    challenges.map((challenge_token, i) =>
      clientAt(i % 2 ? shared.west : shared.east).completeTwoFactor({ challenge_token, code: raced }),
    ),
  )
  expect(tries.filter(({ status }) => status === "fulfilled")).toHaveLength(1)
  expect(await rest.getTwoFactorStatus()).toEqual({ enabled: true, backup_codes_remaining: 7 })
  await unlock(shared, person)
  const challenge_token = await challengeOf(person, shared.west)
  expect(await refusal(clientAt(shared.west).completeTwoFactor({ challenge_token, code: plain }))).toBe(
    "invalid_second_factor",
  )
})

test("a challenge is good for one session, for its own user, for five wrong codes and for its time", async ({
  shared,
}) => {
  const { person: ada, secret, backup_codes } = await setUp(shared)
  const eve = await setUp(shared, "eve")
  const { completeTwoFactor } = clientAt(shared.west)
  for (const challenge_token of ["", "nonsense", `2fa.x.${"a".repeat(43)}`, `email.1.${"a".repeat(43)}`, ada.token])
    expect(await refusal(completeTwoFactor({ challenge_token, code: "123456" }))).toBe("invalid_challenge")
  for (const id of ["1", "9223372036854775807"])
    expect(await refusal(completeTwoFactor({ challenge_token: `2fa.${id}.${"a".repeat(43)}`, code: "123456" }))).toBe(
      "used_challenge",
    )

  // Another's factor is none here, and a challenge with another secret is none.
  const first = await challengeOf(ada, shared.east)
  expect(await refusal(completeTwoFactor({ challenge_token: first, code: eve.backup_codes[0]! }))).toBe(
    "invalid_second_factor",
  )
  const forged = first.slice(0, -43) + "a".repeat(43)
  expect(await refusal(completeTwoFactor({ challenge_token: forged, code: codeOf(secret) }))).toBe("used_challenge")
  // It is no session token, before or after.
  expect(await refusal(clientAt(shared.east, first).getMe())).toBe("unknown_token_type")
  const { token } = await completeTwoFactor({ challenge_token: first, code: codeOf(secret) })
  expect((await clientAt(shared.east, token!).getMe()).id).toBe(ada.id)
  expect(await refusal(completeTwoFactor({ challenge_token: first, code: backup_codes[0]! }))).toBe("used_challenge")
  expect(await refusal(clientAt(shared.east, first).getMe())).toBe("unknown_token_type")

  const second = await challengeOf(ada, shared.west)
  for (let i = 0; i < 5; i++) {
    await unlock(shared, ada)
    expect(await refusal(completeTwoFactor({ challenge_token: second, code: wrongCode(secret) }))).toBe(
      "invalid_second_factor",
    )
  }
  await unlock(shared, ada)
  expect(await refusal(completeTwoFactor({ challenge_token: second, code: backup_codes[0]! }))).toBe("used_challenge")

  const third = await challengeOf(ada, shared.west)
  await shared.sql`UPDATE one_time_tokens SET expires_at = ${Math.floor(seconds()) - 1} WHERE user_id = ${ada.id}`
  expect(await refusal(completeTwoFactor({ challenge_token: third, code: backup_codes[0]! }))).toBe("expired_challenge")
})

test("a challenge ends with the password that led to it, and with the second factor it asks for", async ({
  shared,
}) => {
  const { person, rest, backup_codes } = await setUp(shared)
  const { completeTwoFactor, login } = clientAt(shared.west)
  const before = await challengeOf(person, shared.west)
  const password = "Another-Horse-10"
  await rest.editMe({ password, current_password: person.password })
  expect(await refusal(completeTwoFactor({ challenge_token: before, code: backup_codes[0]! }))).toBe("used_challenge")

  const { challenge_token } = await login({ username: person.username, password })
  await rest.disableTwoFactor({ password, code: backup_codes[1]! })
  for (const code of backup_codes.slice(0, 3))
    expect(await refusal(completeTwoFactor({ challenge_token: challenge_token!, code }))).toBe("used_challenge")
})

test("OTT2: five challenges are open at most; one more ends the oldest", async ({ shared }) => {
  const { person, backup_codes } = await setUp(shared)
  const challenges: string[] = []
  for (let i = 0; i < 6; i++) challenges.push(await challengeOf(person, i % 2 ? shared.east : shared.west))
  const { completeTwoFactor } = clientAt(shared.east)
  const tryWith = (challenge_token: string) => completeTwoFactor({ challenge_token, code: backup_codes.pop()! })
  expect(await refusal(tryWith(challenges[0]!))).toBe("used_challenge")
  expect((await tryWith(challenges[1]!)).status).toBe("success")
})

test("wrong codes and wrong passwords count together on every route; guesses at once do not outrun the count; only a finished sign-in clears it", async ({
  shared,
}) => {
  const { person, rest, secret, backup_codes } = await setUp(shared)
  const { username, password } = person
  const { login, completeTwoFactor } = clientAt(shared.west)
  const counted = async () => {
    const rows = await shared.sql<{ failures: number }[]>`
      SELECT failures FROM failed_logins WHERE name = ${`#${person.id}`}`
    return rows[0]?.failures ?? 0
  }
  const challenge_token = await challengeOf(person, shared.east)
  const wrong = wrongCode(secret)
  expect(await refusal(completeTwoFactor({ challenge_token, code: wrong }))).toBe("invalid_second_factor")
  expect(await refusal(rest.disableTwoFactor({ password, code: wrong }))).toBe("invalid_second_factor")
  expect(await refusal(rest.disableTwoFactor({ password: "Wrong-Horse-99", code: wrong }))).toBe("invalid_password")
  expect(await refusal(rest.enableTwoFactor({ password: "Wrong-Horse-99" }))).toBe("invalid_password")
  expect(await counted()).toBe(4)
  // A right password that leads to a challenge, or to a refusal, clears nothing.
  await challengeOf(person, shared.west)
  expect(await refusal(rest.enableTwoFactor({ password }))).toBe("second_factor_enabled")
  expect(await refusal(completeTwoFactor({ challenge_token: `2fa.1.${"a".repeat(43)}`, code: wrong }))).toBe(
    "used_challenge",
  )
  expect(await counted()).toBe(4)
  const done = await completeTwoFactor({ challenge_token, code: backup_codes[0]! })
  expect(done.status).toBe("success")
  expect(await counted()).toBe(0)

  // The last of all these would be right, and comes too late.
  const open = await Promise.all(Array.from({ length: 4 }, () => challengeOf(person, shared.east)))
  const guesses = Array.from({ length: 24 }, (_, i) =>
    clientAt(i % 2 ? shared.east : shared.west)
      .completeTwoFactor({ challenge_token: open[i % 4]!, code: wrong })
      .catch((error: unknown) => refusal(Promise.reject(error as Error))),
  )
  const verdicts = await Promise.all(guesses)
  expect(verdicts.filter(code => code === "invalid_second_factor").length).toBe(5)
  expect(verdicts.filter(code => code === "account_locked").length).toBe(19)
  for (const ask of [
    () => completeTwoFactor({ challenge_token: open[0]!, code: backup_codes[1]! }),
    () => login({ username, password }),
    () => rest.disableTwoFactor({ password, code: backup_codes[1]! }),
    () => rest.enableTwoFactor({ password }),
  ])
    expect(await refusal(ask())).toBe("account_locked")
  // The sessions they have go on.
  expect((await rest.getMe()).id).toBe(person.id)
})

test("wrong codes lock a setup that waits to be confirmed as well", async ({ shared }) => {
  const ada = await shared.person("ada")
  const rest = ada.on(shared.east)
  const { secret } = await rest.enableTwoFactor({ password: ada.password })
  for (let i = 0; i < 5; i++)
    expect(await refusal(rest.confirmTwoFactor({ code: wrongCode(secret) }))).toBe("invalid_code")
  expect(await refusal(rest.confirmTwoFactor({ code: codeOf(secret) }))).toBe("account_locked")
})

test("the database holds no secret, no backup code and no challenge that could be used", async ({ shared }) => {
  const { person, secret, backup_codes } = await setUp(shared)
  const challenge = await challengeOf(person, shared.east)
  const rows = await shared.sql`
    SELECT to_jsonb(u) AS held FROM users u WHERE id = ${person.id}
    UNION ALL SELECT to_jsonb(t) FROM one_time_tokens t WHERE user_id = ${person.id}`
  expect(rows).toHaveLength(2)
  const held = JSON.stringify(rows).toUpperCase()
  const secrets = [
    secret,
    challenge.split(".")[2]!,
    ...backup_codes,
    ...backup_codes.map(code => code.replace("-", "")),
  ]
  for (const one of secrets) expect(held).not.toContain(one.toUpperCase())
})
