import { randomBytes } from "node:crypto"
import { setTimeout as sleep } from "node:timers/promises"
import { hashSecret } from "../../src/cluster/tokens.ts"
import { routes } from "../../src/contract/contract.ts"
import { refusal } from "../kit/conformance.ts"
import { send } from "../kit/exchange.ts"
import { clientAt, type Person } from "../kit/person.ts"
import { expect, test, type SharedCluster } from "../kit/test.ts"

const idOf = ({ token }: Pick<Person, "token">) => token.split(".")[0]!
const lifetimeSeconds = 168 * 3600

/** A bot, as its owner's operator would have made it. */
async function bot({ sql }: SharedCluster, owner: Person) {
  const [id, secret] = [String(BigInt(owner.id) + 1000n), randomBytes(48).toString("base64url")]
  const now = Math.floor(Date.now() / 1000)
  await sql`
    INSERT INTO users (id, username, created_at, bot, owner_id) VALUES (${id}, ${`bot_${id}`}, ${now}, true, ${owner.id})`
  await sql`
    INSERT INTO sessions (id, user_id, token_hash, ip_address, user_agent, created_at, expires_at, last_activity)
    VALUES (${id}, ${id}, ${hashSecret(secret)}, '', '', ${now}, 9999999999, ${now})`
  return { id, token: `bot.${id}.${secret}` }
}

test("sessions are listed with where they came from, the latest activity first, and the one that asks is marked", async ({
  shared,
}) => {
  const ada = await shared.person("ada")
  const headers = { "user-agent": "Pocket/1.0 \u00fcber" }
  const { body } = await send(shared.west, "/api/v1/auth/login", {
    method: "POST",
    body: { username: ada.username, password: ada.password },
    headers,
  })
  const second = { token: (body as { token: string }).token }
  await shared.sql`UPDATE sessions SET last_activity = last_activity - 1000 WHERE id = ${idOf(ada)}`
  const third = await ada.signIn(shared.west)
  await shared.sql`UPDATE sessions SET last_activity = last_activity - 10 WHERE id = ${idOf(second)}`
  await (await shared.person("eve")).signIn(shared.east)

  const listed = await clientAt(shared.east, second.token).listSessions()
  expect(listed.map(({ id, current }) => [id, current])).toEqual([
    [idOf(third), false],
    [idOf(second), true],
    [idOf(ada), false],
  ])
  const mine = listed[1]!
  expect(mine).toMatchObject({ device_id: null, ip_address: "127.0.0.1", user_agent: "Pocket/1.0 ?ber" })
  expect(mine.expires_at - mine.created_at).toBe(lifetimeSeconds)
  expect(Math.abs(mine.created_at - Date.now() / 1000)).toBeLessThan(30)
  expect(JSON.stringify(listed)).not.toContain(second.token.split(".")[1])
})

test("a refresh keeps the token and lets its session last as long as a new one", async ({ shared }) => {
  const ada = await shared.person("ada")
  const rest = ada.on(shared.west)
  const [before] = await rest.listSessions()
  // Times are whole seconds.
  await sleep(Math.max(0, (before!.created_at + 1) * 1000 - Date.now()))
  const { token, user, ...others } = await rest.refresh()
  expect(others).toEqual({ status: "success", challenge_token: null, methods: null, expires_in: null })
  expect([token, user]).toEqual([ada.token, await rest.getMe()])
  const [after] = await ada.on(shared.east).listSessions()
  expect(after!.expires_at).toBeGreaterThan(before!.expires_at)
  expect(Math.abs(after!.expires_at - Date.now() / 1000 - lifetimeSeconds)).toBeLessThan(30)

  const { status, body } = await send(shared.east, "/api/v1/auth/refresh", { route: routes.refresh })
  expect([status, body]).toEqual([401, { error: { code: 401, message: "Missing authentication token" } }])
  await rest.logout()
  expect(await refusal(rest.refresh())).toBe("revoked_token")
})

test("SESS2: a session that is ended by another is over at once, on every worker and on the gateway", async ({
  shared,
}) => {
  const ada = await shared.person("ada")
  const stolen = await ada.signIn(shared.west)
  const [there, mine] = [await stolen.listen(shared.east), await ada.listen(shared.west)]
  for (const place of [shared.east, shared.west]) await stolen.on(place).getMe()
  expect(await ada.on(shared.west).revokeSession({ session_id: idOf(stolen) })).toEqual({ success: true })
  for (const place of [shared.east, shared.west]) expect(await refusal(stolen.on(place).getMe())).toBe("revoked_token")
  expect((await there.ended()).code).toBe(4004)
  await mine.heartbeatNow()
  expect((await ada.on(shared.east).listSessions()).map(({ id }) => id)).toEqual([idOf(ada)])
})

test("only one's own sessions can be ended: another's is not there, and what is no id is refused", async ({
  shared,
}) => {
  const [ada, eve] = [await shared.person("ada"), await shared.person("eve")]
  const { revokeSession } = eve.on(shared.east)
  expect(await refusal(revokeSession({ session_id: idOf(ada) }))).toBe("session_not_found")
  expect((await ada.on(shared.west).getMe()).id).toBe(ada.id)
  for (const session_id of ["1", "9223372036854775807"])
    expect(await refusal(revokeSession({ session_id }))).toBe("session_not_found")
  for (const session_id of ["x", "-1", "9223372036854775808", "1.5"])
    expect(await refusal(revokeSession({ session_id }))).toBe("invalid_session_id")
  // Its own, and then it is gone.
  expect(await revokeSession({ session_id: idOf(eve) })).toEqual({ success: true })
  expect(await refusal(revokeSession({ session_id: idOf(eve) }))).toBe("revoked_token")
})

test("all other sessions end, or all of them", async ({ shared }) => {
  const ada = await shared.person("ada")
  const others = [await ada.signIn(shared.east), await ada.signIn(shared.west)]
  const inbox = await others[0]!.listen(shared.west)
  const rest = ada.on(shared.east)
  expect(await rest.revokeAllSessions({})).toEqual({ success: true, revoked_count: 2 })
  for (const other of others) expect(await refusal(other.on(shared.west).getMe())).toBe("revoked_token")
  expect((await inbox.ended()).code).toBe(4004)
  expect(await rest.revokeAllSessions({ except_current: null })).toEqual({ success: true, revoked_count: 0 })
  await ada.signIn(shared.west)
  expect(await rest.revokeAllSessions({ except_current: false })).toEqual({ success: true, revoked_count: 2 })
  expect(await refusal(rest.getMe())).toBe("revoked_token")
  expect(await refusal(rest.revokeAllSessions({}))).toBe("revoked_token")
})

test("however many sign in at once, ten sessions are left", async ({ shared }) => {
  const ada = await shared.person("ada")
  const signedIn = await Promise.all(
    Array.from({ length: 14 }, (_, i) => ada.signIn(i % 2 ? shared.east : shared.west)),
  )
  const rows = await shared.sql<{ id: string }[]>`SELECT id FROM sessions WHERE user_id = ${ada.id}`
  expect(rows).toHaveLength(10)
  const alive = await Promise.all(
    signedIn.map(session =>
      session
        .on(shared.east)
        .getMe()
        .then(
          () => [idOf(session)],
          () => [],
        ),
    ),
  )
  expect(alive.flat().toSorted()).toEqual(rows.map(({ id }) => id).toSorted())
})

test("a token made up before a sign-in never becomes one of its sessions", async ({ shared }) => {
  const ada = await shared.person("ada")
  const planted = randomBytes(32).toString("base64url")
  const attempt = await send(shared.east, "/api/v1/auth/login", {
    method: "POST",
    token: `${idOf(ada)}.${planted}`,
    body: {
      username: ada.username,
      password: ada.password,
      token: `1.${planted}`,
      session_id: "1",
      token_hash: hashSecret(planted),
    },
  })
  const { token } = attempt.body as { token: string }
  expect(token).not.toContain(planted)
  expect(idOf({ token })).not.toBe("1")
  for (const id of ["1", idOf(ada), idOf({ token })])
    expect(await refusal(clientAt(shared.west, `${id}.${planted}`).getMe())).toBe("revoked_token")
  expect((await clientAt(shared.west, token).getMe()).id).toBe(ada.id)
})

test("bots have no sessions to list", async ({ shared }) => {
  const ada = await shared.person("ada")
  const { id, token } = await bot(shared, ada)
  const rest = clientAt(shared.east, token)
  expect((await rest.getMe()).id).toBe(id)
  for (const call of [
    () => rest.refresh(),
    () => rest.logout(),
    () => rest.listSessions(),
    () => rest.revokeSession({ session_id: id }),
    () => rest.revokeAllSessions({}),
    () => rest.getTwoFactorStatus(),
    () => rest.enableTwoFactor({ password: "x" }),
    () => rest.confirmTwoFactor({ code: "123456" }),
    () => rest.disableTwoFactor({ password: "x", code: "123456" }),
  ])
    expect(await refusal(call())).toBe("people_only")
  // Without a password nothing is one.
  for (const password of ["", "x"])
    expect(await refusal(clientAt(shared.east).login({ username: `bot_${id}`, password }))).toBe("invalid_credentials")
})
