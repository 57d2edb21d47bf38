import { refusal } from "./kit/conformance.ts"
import { send } from "./kit/exchange.ts"
import { clientAt } from "./kit/person.ts"
import { expect, test } from "./kit/test.ts"

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
    SELECT max(locked_until) AS until FROM failed_logins WHERE name = ${ada.username.toLowerCase()}`) as [
    { until: number },
  ]
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

test("guesses sent at the same time do not outrun the lock", async ({ shared }) => {
  const ada = await shared.person("ada")
  const guesses = Array.from({ length: 12 }, (_, i) =>
    refusal(clientAt(i % 2 ? shared.east : shared.west).login({ username: ada.username, password: `${wrong}${i}` })),
  )
  const verdicts = await Promise.all(guesses)
  expect(verdicts.every(code => code === "invalid_credentials" || code === "account_locked")).toBe(true)
  expect(await refusal(clientAt(shared.east).login({ username: ada.username, password: ada.password }))).toBe(
    "account_locked",
  )
})

test("a login names somebody: neither name nor address is a validation error", async ({ shared }) => {
  const { login } = clientAt(shared.east)
  expect(await refusal(login({ password: wrong }))).toBe("validation_failed")
  expect(await refusal(login({ username: null, email: null, password: wrong }))).toBe("validation_failed")
})

test("one session too many ends the one that was quiet longest", async ({ cluster }) => {
  const [place] = await cluster.boot(1, { config: { STARLING_SESSIONS_PER_USER: "3" } })
  const ada = await cluster.person("ada")
  const second = await ada.signIn(place!)
  const third = await ada.signIn(place!)
  const inbox = await ada.listen(place!)
  const fourth = await ada.signIn(place!)
  expect(await refusal(ada.on(place!).getMe())).toBe("revoked_token")
  expect((await inbox.ended()).code).toBe(4004)
  for (const session of [second, third, fourth]) expect((await session.on(place!).getMe()).id).toBe(ada.id)
})
