import { setTimeout as sleep } from "node:timers/promises"
import { generateSync } from "otplib"
import { userActor } from "../../src/actors/user.ts"
import { refusal } from "../kit/conformance.ts"
import { send } from "../kit/exchange.ts"
import { clientAt, type Person } from "../kit/person.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const wrong = "Wrong-Horse-99"

test("a name or an address in any case signs in, and every sign-in is a session of its own", async ({ shared }) => {
  const ada = await shared.person("Ada")
  const { login } = clientAt(shared.west)
  const { password } = ada
  const replies = [
    await login({ username: ada.username, password }),
    await login({ username: ada.username.toUpperCase(), password }),
    await login({ username: ada.email.toUpperCase(), password }),
    await login({ email: ada.email, password }),
  ]
  for (const reply of replies) {
    expect(reply).toMatchObject({ status: "success", user: { id: ada.id, username: ada.username } })
    expect((await clientAt(shared.east, reply.token!).getMe()).id).toBe(ada.id)
  }
  expect(new Set([ada.token, ...replies.map(reply => reply.token)]).size).toBe(5)
})

test("a wrong password and an unknown name are refused alike, to the letter", async ({ shared }) => {
  const ada = await shared.person("ada")
  const attempt = async (username: string) => {
    const { status, text } = await send(shared.east, "/api/v1/auth/login", {
      method: "POST",
      body: { username, password: wrong },
    })
    return [status, text]
  }
  const [unknown, withoutMail] = [shared.newName("nobody"), `${shared.newName("nobody")}@example.com`]
  for (let i = 1; i <= 7; i++) {
    const known = await attempt(ada.username)
    expect(known[0]).toBe(i <= 5 ? 401 : 403)
    expect(await attempt(unknown)).toEqual(known)
    expect(await attempt(withoutMail)).toEqual(known)
  }
})

test("five failures lock a name on every worker, however it is spelled, but not the sessions it has", async ({
  shared,
}) => {
  const ada = await shared.person("Ada")
  const { login } = clientAt(shared.east)
  const spellings = [ada.username, ada.username.toUpperCase(), ada.username.toLowerCase()]
  for (let i = 0; i < 5; i++)
    expect(await refusal(login({ username: spellings[i % 3]!, password: wrong }))).toBe("invalid_credentials")
  for (const place of [shared.east, shared.west])
    for (const username of [...spellings, ada.email])
      expect(await refusal(clientAt(place).login({ username, password: ada.password }))).toBe("account_locked")
  expect((await ada.on(shared.west).getMe()).id).toBe(ada.id)

  const [{ until }] = (await shared.sql`
    SELECT max(locked_until) AS until FROM failed_logins WHERE name = ${`#${ada.id}`}`) as [{ until: number }]
  expect(Math.abs(until - Date.now() / 1000 - 900)).toBeLessThan(30)
  await shared.sql`UPDATE failed_logins SET locked_until = ${Math.floor(Date.now() / 1000) - 1} WHERE locked_until > 0`
  expect(await refusal(login({ username: ada.username, password: wrong }))).toBe("invalid_credentials")
  expect((await login({ username: ada.username, password: ada.password })).user!.id).toBe(ada.id)
})

test("a sign-in clears the count of failures", async ({ shared }) => {
  const ada = await shared.person("ada")
  const { login } = clientAt(shared.east)
  const fail = () => refusal(login({ username: ada.username, password: wrong }))
  for (let round = 0; round < 2; round++) {
    for (let i = 0; i < 4; i++) expect(await fail()).toBe("invalid_credentials")
    expect((await login({ username: ada.username, password: ada.password })).status).toBe("success")
  }
})

test("a new name neither resets the count nor lifts the lock", async ({ shared }) => {
  const ada = await shared.person("ada")
  const { login } = clientAt(shared.east)
  const rename = async () => (await ada.on(shared.west).editMe({ username: shared.newName("renamed") })).username
  for (let i = 0; i < 3; i++)
    expect(await refusal(login({ username: ada.username, password: wrong }))).toBe("invalid_credentials")
  const username = await rename()
  for (let i = 0; i < 2; i++) expect(await refusal(login({ username, password: wrong }))).toBe("invalid_credentials")
  for (const name of [await rename(), ada.email])
    expect(await refusal(login({ username: name, password: ada.password }))).toBe("account_locked")
  // Nor is what an account is counted under a name that could be tried.
  expect(await refusal(login({ username: `#${ada.id}`, password: wrong }))).toBe("invalid_credentials")
})

test("failures do not expire with time: four guesses, and one much later, lock", async ({ shared }) => {
  const ada = await shared.person("ada")
  const { login } = clientAt(shared.east)
  for (const username of [ada.username, shared.newName("nobody")]) {
    const guess = () => refusal(login({ username, password: wrong }))
    for (let i = 0; i < 4; i++) expect(await guess()).toBe("invalid_credentials")
    await shared.sql`UPDATE failed_logins SET last_at = last_at - 86400`
    expect(await guess()).toBe("invalid_credentials")
    expect(await guess()).toBe("account_locked")
  }
})

test("concurrent guesses do not get past the lock, also of a name that nobody has", async ({ shared }) => {
  const ada = await shared.person("ada")
  for (const username of [ada.username, shared.newName("nobody")]) {
    const guesses = Array.from({ length: 30 }, (_, i) =>
      refusal(clientAt(i % 2 ? shared.east : shared.west).login({ username, password: `${wrong}${i}` })),
    )
    const verdicts = await Promise.all(guesses)
    // Attempts after the fifth are told of the lock, and so learn nothing about the guess.
    expect(verdicts.filter(code => code === "invalid_credentials")).toHaveLength(5)
    expect(verdicts.filter(code => code === "account_locked")).toHaveLength(25)
  }
  expect(await refusal(clientAt(shared.east).login({ username: ada.username, password: ada.password }))).toBe(
    "account_locked",
  )
})

test("a right password among many wrong ones gets in only if the lock has not come before it", async ({ shared }) => {
  for (let round = 0; round < 3; round++) {
    const ada = await shared.person("ada")
    const guesses = Array.from({ length: 24 }, (_, i) =>
      clientAt(i % 2 ? shared.east : shared.west)
        .login({ username: ada.username, password: i === 20 ? ada.password : `${wrong}${i}` })
        .then(
          () => "success",
          (error: unknown) => refusal(Promise.reject(error as Error)),
        ),
    )
    const verdicts = await Promise.all(guesses)
    // Granted, it has cleared at most four failures before it, and no lock.
    const judged = verdicts.filter(code => code === "invalid_credentials").length
    if (verdicts[20] === "success") expect(judged).toBeLessThanOrEqual(9)
    else {
      // On a busy machine they may be told that hashing is busy; others, too, and then fewer were
      // judged.
      expect(verdicts[20]).toBeOneOf(["account_locked", "unavailable"])
      expect(judged).toBeLessThanOrEqual(5)
    }
  }
})

test("LOGIN1: wrong passwords on other routes count as failed sign-ins", async ({ shared }) => {
  const ada = await shared.person("ada")
  const { login } = clientAt(shared.west)
  for (let i = 0; i < 3; i++)
    expect(await refusal(ada.on(shared.east).enableTwoFactor({ password: wrong }))).toBe("invalid_password")
  // What is right there clears nothing.
  await ada.on(shared.east).enableTwoFactor({ password: ada.password })
  for (let i = 0; i < 2; i++)
    expect(await refusal(login({ username: ada.email, password: wrong }))).toBe("invalid_credentials")
  expect(await refusal(login({ username: ada.username, password: ada.password }))).toBe("account_locked")
  expect(await refusal(ada.on(shared.east).enableTwoFactor({ password: ada.password }))).toBe("account_locked")
})

test("a user who is suspended or being deleted is told so, after the right password and the second factor only", async ({
  shared,
}) => {
  const { login, completeTwoFactor } = clientAt(shared.west)
  const suspend = ({ id }: Person) => {
    const until = Math.floor(Date.now() / 1000) + 3600
    return shared.east.node.ask(userActor, id, { type: "lockAccount", until, reason: "spam" })
  }
  const [ada, eve] = [await shared.person("ada"), await shared.person("eve")]
  await suspend(ada)
  await eve.on(shared.east).deleteAccount({ password: eve.password })
  for (const [code, { username, password }] of [
    ["account_locked", ada],
    ["account_deleted", eve],
  ] as const) {
    expect(await refusal(login({ username, password: wrong }))).toBe("invalid_credentials")
    expect(await refusal(login({ username, password }))).toBe(code)
  }
  const suspended = login({ username: ada.username, password: ada.password })
  await expect(suspended).rejects.toMatchObject({ status: 403, body: { error: { reason: "spam" } } })

  for (const isLeaving of [false, true]) {
    const guarded = await shared.person("guarded")
    const { username, password } = guarded
    const { secret, backup_codes } = await guarded.on(shared.east).enableTwoFactor({ password })
    await guarded.on(shared.east).confirmTwoFactor({ code: generateSync({ secret }) })
    const { challenge_token } = await login({ username, password })
    if (isLeaving) await guarded.on(shared.east).deleteAccount({ password, code: backup_codes[1]! })
    else await suspend(guarded)
    const second = { challenge_token: challenge_token!, code: backup_codes[0]! }
    expect(await refusal(completeTwoFactor(second))).toBe(isLeaving ? "used_challenge" : "account_locked")
  }
})

test("SESS3: a password that was changed while it was checked starts no session", async ({ shared }) => {
  const ada = await shared.person("ada")
  const [row] = await shared.sql<{ password_hash: string }[]>`SELECT password_hash FROM users WHERE id = ${ada.id}`
  const session = {
    token_hash: "a".repeat(64),
    ip_address: "",
    user_agent: "",
    expires_at: Math.floor(Date.now() / 1000) + 3600,
    sessionsPerUser: 10,
  }
  const start = (password_hash: string) =>
    shared.east.node.ask(userActor, ada.id, {
      type: "startSession",
      session,
      challenge: { token_hash: "b".repeat(64), expires_at: session.expires_at },
      proof: { password_hash },
    })
  await expect(start(`${row!.password_hash}x`)).rejects.toMatchObject({ code: "invalid_credentials" })
  expect(await start(row!.password_hash)).toMatchObject({ session_id: expect.stringMatching(/^\d+$/) as string })
})

test("a hash of weaker parameters is replaced when its password is given", async ({ cluster }) => {
  const [before] = await cluster.boot(1)
  const ada = await cluster.person("ada", before)
  const hash = async () =>
    (await cluster.sql<{ password_hash: string }[]>`SELECT password_hash FROM users WHERE id = ${ada.id}`)[0]!
      .password_hash
  const old = await hash()
  const [after] = await cluster.boot(1, { config: { STARLING_PASSWORD_HASH_MEMORY: "128" } })
  expect(await refusal(clientAt(after!).login({ username: ada.username, password: wrong }))).toBe("invalid_credentials")
  expect(await hash()).toBe(old)
  await ada.signIn(after!)
  await until("it is made anew", async () => (await hash()).includes("m=128"))
  const renewed = await hash()
  await ada.signIn(after!)
  expect(await hash()).toBe(renewed)
})

test("LOGIN4: a user who gives their password while its hash is made anew is let in, however many attempts come at once", async ({
  cluster,
}) => {
  const [before] = await cluster.boot(1)
  const [east, west] = await cluster.boot(2, { config: { STARLING_PASSWORD_HASH_MEMORY: "128" } })
  for (let round = 0; round < 5; round++) {
    const ada = await cluster.person("ada", before)
    const { username, password } = ada
    const at = [east!, west!, east!, west!]
    const [logins, setups] = await Promise.all([
      Promise.all(at.map(place => clientAt(place).login({ username, password }))),
      Promise.all(at.map(place => ada.on(place).enableTwoFactor({ password }))),
    ])
    expect(logins.map(({ status }) => status)).toEqual(at.map(() => "success"))
    expect(setups.map(({ backup_codes }) => backup_codes.length)).toEqual(at.map(() => 10))
    await until("it is made anew", async () => {
      const [row] = await cluster.sql<{ password_hash: string }[]>`SELECT password_hash FROM users WHERE id = ${ada.id}`
      return row!.password_hash.includes("m=128")
    })
  }
})

test("a login without a name or an address is a validation error", async ({ shared }) => {
  const { login } = clientAt(shared.east)
  expect(await refusal(login({ password: wrong }))).toBe("validation_failed")
  expect(await refusal(login({ username: null, email: null, password: wrong }))).toBe("validation_failed")
})

test("SESS1: one session too many ends the one that was quiet longest; locks and second factors are as configured", async ({
  cluster,
}) => {
  const [place] = await cluster.boot(1, {
    config: {
      STARLING_SESSIONS_PER_USER: "3",
      STARLING_LOGIN_FAILURES_ALLOWED: "2",
      STARLING_LOGIN_LOCKOUT_MINUTES: "60",
      STARLING_TWO_FACTOR_ISSUER: "My Chat",
      STARLING_TWO_FACTOR_CHALLENGE_SECONDS: "60",
    },
  })
  const ada = await cluster.person("ada")
  const second = await ada.signIn(place!)
  const third = await ada.signIn(place!)
  const inbox = await ada.listen(place!)
  const fourth = await ada.signIn(place!)
  expect(await refusal(ada.on(place!).getMe())).toBe("revoked_token")
  expect((await inbox.ended()).code).toBe(4004)
  for (const session of [second, third, fourth]) expect((await session.on(place!).getMe()).id).toBe(ada.id)

  // A use counts from the moment it happens, though it is written down a little later.
  const [bea, idOf] = [await cluster.person("bea"), ({ token }: { token: string }) => token.split(".")[0]!]
  const [quiet, last] = [await bea.signIn(place!), await bea.signIn(place!)]
  const before = Math.floor(Date.now() / 1000)
  await cluster.sql`UPDATE sessions SET last_activity = ${before - 600} WHERE id = ${idOf(bea)}`
  await sleep((before + 1) * 1000 - Date.now())
  expect((await bea.on(place!).getMe()).id).toBe(bea.id)
  const listed = await bea.on(place!).listSessions()
  expect(listed.map(({ id }) => id)).toEqual([bea, last, quiet].map(idOf))
  expect(listed[0]!.last_activity).toBeGreaterThan(before)
  const next = await bea.signIn(place!)
  expect(await refusal(quiet.on(place!).getMe())).toBe("revoked_token")
  for (const session of [bea, last, next]) expect((await session.on(place!).getMe()).id).toBe(bea.id)
  await until("the use is written down", async () => {
    const [row] = await cluster.sql<{ last_activity: number }[]>`
      SELECT last_activity FROM sessions WHERE id = ${idOf(bea)}`
    return row!.last_activity > before
  })

  const { login } = clientAt(place!)
  const { username, password } = ada
  const { secret, qr_uri } = await fourth.on(place!).enableTwoFactor({ password })
  expect(qr_uri).toBe(`otpauth://totp/My%20Chat:${username}?secret=${secret}&issuer=My%20Chat`)
  await fourth.on(place!).confirmTwoFactor({ code: generateSync({ secret }) })
  expect((await login({ username, password })).expires_in).toBe(60)
  const [open] = await cluster.sql<{ expires_at: number }[]>`SELECT expires_at FROM one_time_tokens`
  expect(Math.abs(open!.expires_at - Date.now() / 1000 - 60)).toBeLessThan(30)
  for (const code of ["invalid_credentials", "invalid_credentials", "account_locked"])
    expect(await refusal(login({ username: ada.username, password: wrong }))).toBe(code)
  const [locked] = await cluster.sql<{ until: number }[]>`SELECT max(locked_until) AS until FROM failed_logins`
  expect(Math.abs(locked!.until - Date.now() / 1000 - 3600)).toBeLessThan(30)
})
