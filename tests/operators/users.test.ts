/** Users as operators find, note about, rename and end them. */
import { routes as accessTokens } from "../../src/contract/operators/access-tokens.ts"
import { routes as security } from "../../src/contract/operators/security.ts"
import { routes as users } from "../../src/contract/operators/users.ts"
import { hashSecret, newSecret } from "../../src/cluster/tokens.ts"
import type { Route } from "../../src/contract/core/registry.ts"
import { refusal } from "../kit/conformance.ts"
import { send } from "../kit/exchange.ts"
import { attentive, operatorOf } from "../kit/operator.ts"
import { newOperator } from "../kit/area.ts"
import { clientAt, type Person } from "../kit/person.ts"
import { closedWith, identified } from "../kit/raw.ts"
import { expect, testWith, type SharedCluster } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const test = testWith({ topology: attentive, jobWorkers: 1 })
const seconds = () => Math.floor(Date.now() / 1000)
const days = 86_400
const nobody = "1234567890123456"
const me = "/api/v1/users/@me"

async function newBot(shared: SharedCluster, owner: Person) {
  const secret = newSecret(48)
  const name = shared.newName("helper")
  const answer = await operatorOf(shared).command(owner.id, "createBot", { name, token_hash: hashSecret(secret) })
  const { id } = (answer as { reply: { id: string } }).reply
  return { id, token: `bot.${id}.${secret}` }
}

test("a bot, an administrator even, calls nothing that is for operators, and leaves no trace in their trail", async ({
  shared,
}) => {
  const ada = await shared.person("ada")
  const bot = await newBot(shared, ada)
  await shared.sql`UPDATE users SET permissions = '{administrator}' WHERE id = ${bot.id}`
  const entries = () => shared.sql`SELECT count(*) FROM operator_trail`
  const before = await entries()
  for (const [name, route] of Object.entries<Route>({ ...users, ...security, ...accessTokens })) {
    const path = `/api/v1${route.path.replaceAll(/:\w+/g, "1")}`
    const answer = await send(shared.east, path, { route, token: bot.token, ...(route.body && { body: {} }) })
    expect([name, answer.code]).toEqual([name, "operator_session_ended"])
  }
  expect(await entries()).toEqual(before)
})

test("users are found by their id or by part of their name, the newest first, however many there are", async ({
  shared,
}) => {
  const operator = clientAt(shared.west, (await newOperator(shared)).token)
  // More than a first look goes through, older than anybody who registers.
  await shared.sql`
    INSERT INTO users (id, username, email, created_at)
    SELECT 100000000000000 + n, 'many_' || n, CASE WHEN n % 2 = 0 THEN 'many_' || n || '@example.invalid' END, 1704153600 FROM generate_series(1, 6000) AS n`
  const find = async (q: string, rest: { limit?: string; offset?: string } = {}) =>
    (await operator.findAccounts({ q, ...rest })).users.map(({ username }) => username)
  const [first, second] = [await shared.person("Needle"), await shared.person("needle")]
  expect(await find("NEEDLE")).toEqual([second.username, first.username])
  expect(await find("eedl", { limit: "1" })).toEqual([second.username])
  expect(await find("eedl", { limit: "1", offset: "1" })).toEqual([first.username])
  // The oldest of them stand behind the newest 5,000.
  expect(await find("any_17")).toHaveLength(20)
  expect((await find("MANY_17")).slice(0, 2)).toEqual(["many_1799", "many_1798"])
  expect(await find("many_1")).toHaveLength(20)
  expect((await find("many_1", { limit: "200", offset: "1100" })).slice(-1)).toEqual(["many_1"])
  expect(await find("many", { limit: "0" })).toEqual(["many_6000"])
  expect(await find("many", { limit: "100000", offset: "-3" })).toHaveLength(200)
  expect(await find("_1", { limit: "2" })).not.toContain(undefined)
  // What has a meaning for the database has none here.
  for (const q of ["%", "many%", "m_ny", "\\", "'; --", "many_0"]) expect([q, await find(q)]).toEqual([q, []])
  // Digits are an id, and nothing else.
  expect(await find(first.id)).toEqual([first.username])
  expect(await find(nobody)).toEqual([])
  expect(await find("99999999999999999999")).toEqual([])
  expect((await operator.findAccounts({ q: second.id })).users).toEqual([
    {
      id: second.id,
      username: second.username,
      email: "[Encrypted]",
      tier: "standard",
      badges: [],
      created_at: expect.any(Number) as number,
      deletion_status: "active",
      deletion_at: null,
      bot: false,
      account_locked: false,
    },
  ])
  expect((await operator.findAccounts({ q: "many_5999" })).users).toMatchObject([{ email: null }])
  expect(await refusal(operator.findAccounts({ q: "" }))).toBe("validation_failed")
  expect(JSON.stringify(await operator.findAccounts({ q: "needle" }))).not.toContain("@example.com")
})

test("an account shows its locks, sessions, servers and bots, and what operators noted; nobody else sees the notes", async ({
  shared,
}) => {
  const { id, token } = await newOperator(shared)
  const operator = clientAt(shared.east, token)
  const ada = await shared.person("ada")
  await ada.signIn(shared.west)
  await ada.on(shared.east).createServer({ name: "Boats" })
  const bot = await newBot(shared, ada)
  const shown = () => operator.getUserDetail({ user_id: ada.id })
  expect(await shown()).toMatchObject({
    session_count: 2,
    owned_server_count: 1,
    bot_count: 1,
    account_locked: false,
    locked_until: null,
    lock_kind: null,
    force_username_change: false,
    last_login: expect.any(Number) as number,
  })
  expect(await operator.getUserDetail({ user_id: bot.id })).toMatchObject({
    bot: true,
    owner_id: ada.id,
    email: null,
    last_login: null,
  })

  // Failed sign-ins lock for a while, an operator until further notice; the longer one is shown.
  for (let i = 0; i < 5; i++) await refusal(clientAt(shared.east).login({ username: ada.username, password: "wrong" }))
  const { locked_until } = await shown()
  expect(locked_until! - seconds()).toBeLessThanOrEqual(15 * 60)
  expect(await shown()).toMatchObject({ account_locked: true, lock_kind: "failed_logins", session_count: 2 })
  await operator.lockUser({ user_id: ada.id, reason: "spam" })
  expect(await shown()).toMatchObject({
    account_locked: true,
    locked_until: null,
    lock_kind: "operator",
    lock_reason: "spam",
    session_count: 0,
  })
  await operator.unlockUser({ user_id: ada.id })
  expect(await shown()).toMatchObject({ account_locked: false, lock_kind: null, lock_reason: null })

  expect(await operator.getUserNotes({ user_id: ada.id })).toEqual({ user_id: ada.id, notes: "" })
  for (const notes of ["Was warned 🐦", "Was warned twice", ""]) {
    expect(await operator.setUserNotes({ user_id: ada.id, notes })).toEqual({ success: true })
    expect(await operator.getUserNotes({ user_id: ada.id })).toEqual({ user_id: ada.id, notes })
  }
  await Promise.all([1, 2, 3].map(n => operator.setUserNotes({ user_id: ada.id, notes: `note ${n}` })))
  const [row] = await shared.sql<{ notes: string; updated_by: string }[]>`
    SELECT notes, updated_by::text AS updated_by FROM user_notes WHERE user_id = ${ada.id}`
  expect(row).toEqual({ notes: expect.stringMatching(/^note [123]$/) as string, updated_by: id })
  expect(await refusal(operator.setUserNotes({ user_id: ada.id, notes: "x".repeat(5001) }))).toBe("validation_failed")
  for (const user_id of ["x", "1.5", "99999999999999999999"]) {
    expect(await refusal(operator.getUserDetail({ user_id }))).toBe("invalid_user_id")
    expect(await refusal(operator.getUserNotes({ user_id }))).toBe("invalid_user_id")
    expect(await refusal(operator.setUserNotes({ user_id, notes: "" }))).toBe("invalid_user_id")
  }
  for (const asked of [operator.getUserDetail, operator.getUserNotes])
    expect(await refusal(asked({ user_id: nobody }))).toBe("user_not_found")
  expect(await refusal(operator.setUserNotes({ user_id: nobody, notes: "" }))).toBe("user_not_found")
})

test("ACC7: a user who has to take another name takes one that is not much like it, and the name may be banned at once", async ({
  shared,
}) => {
  const operator = clientAt(shared.east, (await newOperator(shared)).token)
  const lin = await shared.person("lin")
  const username = `Sup3rvisor_${lin.id.slice(-6)}`
  await lin.on(shared.east).editMe({ username })
  const live = await identified(shared.west, lin.token)
  const order = { user_id: lin.id, ban_current: true, reason: "It looks official" }
  await Promise.all([operator.forceUsernameChange(order), operator.forceUsernameChange(order)])
  expect(await operator.getUserDetail({ user_id: lin.id })).toMatchObject({
    force_username_change: true,
    rename_reason: "It looks official",
  })
  for (const place of [shared.east, shared.west]) {
    const refused = await send(place, "/api/v1/servers", { token: lin.token })
    expect(refused).toMatchObject({
      status: 403,
      body: { error: { code: 403, message: "Username change required", reason: "It looks official" } },
    })
    expect((await lin.on(place).getMe()).username).toBe(username)
  }
  const { editMe } = lin.on(shared.west)
  for (const [name, code] of [
    [username.toLowerCase(), "username_too_similar"],
    [`${username}_`, "blocked_username"],
    [username.replace("3", "e"), "blocked_username"],
    [`Super_visor_${lin.id.slice(-6)}`, "blocked_username"],
  ] as const)
    expect([name, await refusal(editMe({ username: name }))]).toEqual([name, code])
  expect(await refusal(editMe({ username: `${username}_x` }))).toBe("username_too_similar")
  expect(await refusal(lin.on(shared.east).listServers())).toBe("username_change_required")
  const other = shared.newName("harmless")
  expect((await editMe({ username: other })).username).toBe(other)
  for (const place of [shared.east, shared.west]) expect(await lin.on(place).listServers()).toEqual([])
  // Nobody was disconnected, and the name is nobody's any more, also not of who had it.
  live.say({ op: 1, d: null })
  await live.op(11)
  live.close()
  const asked = await send(shared.west, me, { method: "PATCH", token: lin.token, body: { username } })
  expect(asked).toMatchObject({
    status: 400,
    body: { error: { message: "This username is not allowed", reason: "It looks official" } },
  })
  const banned = await operator.listBannedUsernames()
  expect(banned.filter(({ pattern }) => pattern === username)).toMatchObject([
    { is_regex: false, reason: "It looks official" },
  ])
  for (const { id } of banned) await operator.unbanUsername({ pattern_id: id })

  await operator.forceUsernameChange({ user_id: lin.id })
  expect(await operator.getUserDetail({ user_id: lin.id })).toMatchObject({ rename_reason: "Forced change by admin" })
  await lin.on(shared.east).editMe({ username: shared.newName("finally") })
  const bot = await newBot(shared, lin)
  expect(await refusal(operator.forceUsernameChange({ user_id: bot.id }))).toBe("bot_rename")
  expect(await refusal(operator.forceUsernameChange({ user_id: nobody }))).toBe("user_not_found")
  expect(await refusal(operator.forceUsernameChange({ user_id: "x" }))).toBe("invalid_user_id")
})

test("a scheduled deletion is listed, moved and cancelled; what is not scheduled is not", async ({ shared }) => {
  const operator = clientAt(shared.west, (await newOperator(shared)).token)
  const [ada, lin] = [await shared.person("ada"), await shared.person("lin")]
  const bot = await newBot(shared, ada)
  const tomorrow = String(seconds() + days)
  expect(await refusal(operator.delayDeletion({ user_id: ada.id, deletion_at: tomorrow }))).toBe(
    "not_scheduled_for_deletion",
  )
  for (const call of [operator.cancelDeletion, operator.cancelDeletionByPatch])
    expect(await call({ user_id: ada.id })).toEqual({ success: true })
  for (const person of [ada, lin]) await person.on(shared.east).deleteAccount({ password: person.password })
  expect((await send(shared.east, me, { token: bot.token })).body).toMatchObject({
    error: { message: "Account scheduled for deletion" },
  })

  const soon = seconds() + 10 * days + 60
  expect(await operator.delayDeletion({ user_id: lin.id, deletion_at: String(soon) })).toEqual({ success: true })
  const { deletions } = await operator.listScheduledDeletions()
  const found = deletions.filter(({ user_id }) => [ada.id, lin.id].includes(user_id))
  expect(found).toMatchObject([
    { user_id: lin.id, username: lin.username, scheduled_at: soon - 30 * days, deletion_at: soon, days_left: 10 },
    { user_id: ada.id, days_left: expect.toSatisfy((left: number) => left === 29 || left === 30) as number },
  ])
  // In milliseconds as well.
  await operator.delayDeletionByPatch({ user_id: lin.id, deletion_at: String((soon + days) * 1000) })
  expect(await operator.getUserDetail({ user_id: lin.id })).toMatchObject({ deletion_at: soon + days })
  for (const deletion_at of ["0", "-5", String(seconds()), String(seconds() + 4_000 * days), "9".repeat(15)])
    for (const call of [operator.delayDeletion, operator.delayDeletionByPatch])
      expect(await refusal(call({ user_id: lin.id, deletion_at }))).toBe("deletion_in_the_past")
  for (const deletion_at of ["", "tomorrow", "1.5"])
    expect(await refusal(operator.delayDeletion({ user_id: lin.id, deletion_at }))).toBe("validation_failed")

  await Promise.all([operator.cancelDeletion({ user_id: ada.id }), operator.cancelDeletion({ user_id: ada.id })])
  await ada.signIn(shared.west)
  for (const place of [shared.east, shared.west]) expect((await send(place, me, { token: bot.token })).status).toBe(200)
  // It is due at its new time, which comes now.
  await operator.delayDeletion({ user_id: lin.id, deletion_at: String(seconds() + 2) })
  await until(
    "it is purged",
    async () => (await operator.getUserDetail({ user_id: lin.id })).deletion_status === "purged",
    { timeoutMs: 20_000 },
  )
  for (const call of [operator.cancelDeletion, operator.cancelDeletionByPatch])
    expect(await refusal(call({ user_id: lin.id }))).toBe("not_scheduled_for_deletion")
  const late = { user_id: lin.id, deletion_at: String(seconds() + days) }
  for (const call of [operator.delayDeletion, operator.delayDeletionByPatch])
    expect(await refusal(call(late))).toBe("not_scheduled_for_deletion")
  for (const user_id of [nobody, "x"]) {
    const code = user_id === "x" ? "invalid_user_id" : "user_not_found"
    for (const call of [operator.cancelDeletion, operator.cancelDeletionByPatch])
      expect(await refusal(call({ user_id }))).toBe(code)
    for (const call of [operator.delayDeletion, operator.delayDeletionByPatch])
      expect(await refusal(call({ user_id, deletion_at: String(seconds() + days) }))).toBe(code)
  }
})

test("a purge ends an account that nobody had scheduled: sessions, bots and servers go, and nothing brings them back", async ({
  shared,
}) => {
  const operator = clientAt(shared.east, (await newOperator(shared)).token)
  const [ada, lin] = [await shared.person("ada"), await shared.person("lin")]
  const bot = await newBot(shared, ada)
  const server = await ada.on(shared.east).createServer({ name: "Boats" })
  const [channel] = await ada.on(shared.east).listChannels({ server_id: server.id })
  const { code } = await ada.on(shared.east).createInvite({ channel_id: channel!.id })
  await lin.on(shared.west).joinByInvite({ invite_code: code })
  await operator.setUserNotes({ user_id: ada.id, notes: "Asked for it by mail" })
  const live = await Promise.all([shared.east, shared.west].map(place => identified(place, ada.token)))
  const asBot = await identified(shared.west, bot.token)
  for (const place of [shared.east, shared.west])
    for (const token of [ada.token, bot.token]) expect((await send(place, me, { token })).status).toBe(200)

  await Promise.all([operator.forcePurge({ user_id: ada.id }), operator.forcePurge({ user_id: ada.id })])
  for (const raw of live) {
    expect((await raw.event("SECURITY_LOGOUT")).d).toEqual({ user_id: ada.id, message: "Account deleted" })
    expect(await raw.ended).toEqual(closedWith("authentication_failed"))
  }
  expect(await asBot.ended).toEqual(closedWith("authentication_failed"))
  for (const place of [shared.east, shared.west]) {
    expect((await send(place, me, { token: ada.token })).code).toBe("revoked_token")
    expect([401, 403]).toContain((await send(place, me, { token: bot.token })).status)
  }
  expect(await refusal(ada.signIn(shared.west))).toBe("invalid_credentials")
  const shown = () => operator.getUserDetail({ user_id: ada.id })
  expect(await shown()).toMatchObject({
    username: `deleted_user_${ada.id}`,
    email: null,
    deletion_status: "purged",
    last_login: null,
  })
  await until("all of it is gone", async () => (await shown()).deletion_at !== null, { timeoutMs: 20_000 })
  expect(await shown()).toMatchObject({ owned_server_count: 0, bot_count: 0, session_count: 0 })
  expect(await lin.on(shared.east).listServers()).toEqual([])
  expect(await operator.getUserNotes({ user_id: ada.id })).toEqual({ user_id: ada.id, notes: "" })
  expect(await operator.forcePurge({ user_id: ada.id })).toEqual({ success: true })
  expect(await refusal(operator.setUserNotes({ user_id: ada.id, notes: "late" }))).toBe("user_not_found")
  expect(await refusal(operator.forcePurge({ user_id: nobody }))).toBe("user_not_found")
  expect(await refusal(operator.forcePurge({ user_id: "x" }))).toBe("invalid_user_id")
})
