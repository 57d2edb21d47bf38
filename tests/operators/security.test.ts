/** Sessions and locks, blocked addresses and banned names, as operators order them in their area. */
import { maxBlocks } from "../../src/domain/service/address-blocks.ts"
import { hashSecret, newSecret } from "../../src/cluster/tokens.ts"
import { routes } from "../../src/contract/contract.ts"
import { maxBannedUsernames } from "../../src/domain/accounts/banned-usernames.ts"
import { refusal } from "../kit/conformance.ts"
import { send } from "../kit/exchange.ts"
import { attentive, operatorOf } from "../kit/operator.ts"
import { newOperator } from "../kit/area.ts"
import { clientAt, type Endpoint, type Person } from "../kit/person.ts"
import { closedWith, identified, open, Raw } from "../kit/raw.ts"
import { expect, testWith, type SharedCluster } from "../kit/test.ts"
import { until } from "../kit/until.ts"

/** The client that the proxy names; operators come from there themselves. */
const config = { TRUSTED_PROXIES: "127.0.0.1", STARLING_ADMIN_UI_HOST_RESTRICTION: "false" }
const test = testWith({ config, topology: attentive })
const me = "/api/v1/users/@me"
const nobody = "1234567890123456"
let addresses = 0
const newAddress = () => `198.18.7.${++addresses}`
const from = (address: string) => ({ headers: { "x-forwarded-for": address } })
const codeAt = async (place: Endpoint, token: string) => (await send(place, me, { token })).code
const operatorAt = async (shared: SharedCluster, place: Endpoint) => clientAt(place, (await newOperator(shared)).token)

async function newBot(shared: SharedCluster, owner: Person) {
  const secret = newSecret(48)
  const name = shared.newName("helper")
  const answer = await operatorOf(shared).command(owner.id, "createBot", { name, token_hash: hashSecret(secret) })
  return `bot.${(answer as { reply: { id: string } }).reply.id}.${secret}`
}

test("P12: a forced logout ends what a user has open on every worker before it is answered", async ({ shared }) => {
  const operator = await operatorAt(shared, shared.east)
  const ada = await shared.person("ada")
  const second = await ada.signIn(shared.west)
  const live = await Promise.all([
    identified(shared.east, ada.token),
    identified(shared.west, second.token, { query: "?encoding=msgpack" }),
  ])
  for (const place of [shared.east, shared.west])
    for (const { token } of [ada, second]) expect(await codeAt(place, token)).toBeUndefined()
  await Promise.all([1, 2].map(() => operator.forceLogout({ user_id: ada.id })))
  for (const place of [shared.east, shared.west])
    for (const { token } of [ada, second]) expect(await codeAt(place, token)).toBe("revoked_token")
  for (const raw of live) {
    expect((await raw.event("SECURITY_LOGOUT")).d).toEqual({ user_id: ada.id, message: "Security logout" })
    expect(await raw.ended).toEqual(closedWith("authentication_failed"))
  }
  await ada.signIn(shared.east)
  // Ids are taken as numbers, too.
  const asNumber = await send(shared.west, "/api/v1/admin/security/force-logout", {
    route: routes.forceLogout,
    token: (await newOperator(shared)).token,
    body: { user_id: 12 },
  })
  expect(asNumber.code).toBe("user_not_found")
  for (const call of [operator.forceLogout, operator.lockUser, operator.unlockUser]) {
    expect(await refusal(call({ user_id: nobody }))).toBe("user_not_found")
    for (const user_id of ["", "x", "-1", "1.5", "99999999999999999999"])
      expect([user_id, await refusal(call({ user_id }))]).toEqual([user_id, "invalid_user_id"])
  }
})

test("P12: a locked user is signed out everywhere before the lock is answered, and it ends at its time or when it is lifted", async ({
  shared,
}) => {
  const operator = await operatorAt(shared, shared.west)
  const ada = await shared.person("ada")
  const bot = await newBot(shared, ada)
  const places = [shared.east, shared.west]
  const live = await Promise.all([
    identified(shared.east, ada.token),
    identified(shared.west, ada.token),
    identified(shared.east, bot),
  ])
  const { username, password } = ada
  const signIns = Array.from({ length: 6 }, (_, i) =>
    clientAt(places[i % 2]!)
      .login({ username, password })
      .then(
        ({ token }) => token!,
        () => undefined,
      ),
  )
  await Promise.all([
    operator.lockUser({ user_id: ada.id, reason: "spam" }),
    operator.lockUser({ user_id: ada.id, reason: "spam" }),
  ])
  const begun = (await Promise.all(signIns)).filter(token => token !== undefined)
  for (const place of places) {
    for (const token of [ada.token, ...begun]) expect(await codeAt(place, token)).toBe("revoked_token")
    expect(await send(place, me, { token: bot, route: routes.getMe })).toMatchObject({
      status: 403,
      body: { error: { code: 403, message: "Account suspended", reason: "spam" } },
    })
    const login = await send(place, "/api/v1/auth/login", { route: routes.login, body: { username, password } })
    expect(login).toMatchObject({ status: 403, body: { error: { message: "Account locked", reason: "spam" } } })
  }
  for (const raw of live) {
    expect((await raw.event("SECURITY_LOGOUT")).d).toMatchObject({ message: "Account suspended" })
    expect(await raw.ended).toEqual(closedWith("authentication_failed"))
  }
  for (let i = 0; i < 5; i++) await refusal(clientAt(shared.east).login({ username, password: "wrong" }))
  await operator.unlockUser({ user_id: ada.id })
  for (const place of places) expect(await codeAt(place, bot)).toBeUndefined()
  await ada.signIn(shared.east)

  await operator.lockUser({ user_id: ada.id, duration_seconds: 3 })
  expect(await codeAt(shared.east, bot)).toBe("account_suspended")
  expect(await refusal(ada.signIn(shared.west))).toBe("account_locked")
  await until("its time is over", async () => (await codeAt(shared.west, bot)) === undefined)
  await ada.signIn(shared.west)
  for (const duration_seconds of [0, -5, 1.5])
    expect(await refusal(operator.lockUser({ user_id: ada.id, duration_seconds }))).toBe("validation_failed")
  await operator.lockUser({ user_id: ada.id, duration_seconds: Number.MAX_SAFE_INTEGER })
  expect(await operator.getUserDetail({ user_id: ada.id })).toMatchObject({ account_locked: true, locked_until: null })
  expect(await operator.unlockUser({ user_id: ada.id })).toEqual({ success: true })
  expect(await operator.unlockUser({ user_id: ada.id })).toEqual({ success: true })
})

test("P12: when everybody is logged out no worker accepts a session of before once it is answered; operators stay", async ({
  cluster,
}) => {
  const [east, west] = await cluster.boot(2, { topology: attentive })
  const operator = clientAt(west!, (await newOperator(cluster)).token)
  const [ada, lin] = [await cluster.person("ada"), await cluster.person("lin")]
  const live = await Promise.all([identified(east!, ada.token), identified(west!, lin.token), open(west!)])
  expect(await operator.logoutAll()).toEqual({ success: true })
  for (const place of [east!, west!])
    for (const { token } of [ada, lin]) expect(await codeAt(place, token)).toBe("revoked_token")
  const anew = await ada.signIn(east!)
  const status = { state: "shutting_down", message: "Security reset", closing_in_seconds: 2 }
  for (const raw of live.slice(0, 2)) expect((await raw.op(12)).d).toEqual(status)
  for (const raw of live) expect(await raw.ended).toEqual(closedWith("security_reset"))
  expect((await anew.on(west!).getMe()).id).toBe(ada.id)
  expect(await operator.listBlockedAddresses()).toEqual([])
})

test("a blocked address is refused on every worker within a second, with the sockets that it has; its block may be lifted", async ({
  shared,
}) => {
  const { id, token } = await newOperator(shared)
  const operator = clientAt(shared.east, token)
  const ada = await shared.person("ada")
  const [bad, good] = [newAddress(), newAddress()]
  const live = await Promise.all([
    identified(shared.east, ada.token, from(bad)),
    identified(shared.west, ada.token, from(bad)),
    open(shared.west, from(bad)),
  ])
  const other = await identified(shared.west, ada.token, from(good))
  const isRefused = async (place: Endpoint, address: string) =>
    (await send(place, "/health", from(address))).code === "address_blocked"
  const everywhere = (address: string, isSo: boolean) =>
    until(`${address}: ${isSo}`, async () =>
      (await Promise.all([shared.east, shared.west].map(place => isRefused(place, address)))).every(
        each => each === isSo,
      ),
    )

  expect(await operator.blockAddress({ ip_address: ` ${bad}`, reason: "a flood", duration_hours: 2 })).toEqual({
    success: true,
  })
  await everywhere(bad, true)
  for (const raw of live) expect(await raw.ended).toEqual(closedWith("ip_blocked"))
  const late = new Raw(shared.east, from(bad))
  await late.ended
  expect(late.frames).toEqual([])
  other.say({ op: 1, d: null })
  await other.op(11)
  other.close()
  // The area stands behind it, too.
  const asked = await send(shared.west, "/api/v1/admin/security/blocked-ips", { token, ...from(bad) })
  expect(asked.code).toBe("address_blocked")

  // A range takes in what is in it, an IPv6 address is one however it is written, and a block replaces the one before.
  await operator.blockAddress({ ip_address: "2001:DB8:0:7::/64" })
  await operator.blockAddress({ ip_address: "2001:db8:0:7::1/64", reason: "again" })
  await everywhere("2001:db8:0:7:1:2:3:4", true)
  const blocks = await operator.listBlockedAddresses()
  expect(blocks).toHaveLength(2)
  const now = Math.floor(Date.now() / 1000)
  expect(blocks.find(({ ip_address }) => ip_address === bad)).toMatchObject({ reason: "a flood", blocked_by: id })
  const { expires_at } = blocks.find(({ ip_address }) => ip_address === bad)!
  expect(Math.abs(expires_at! - now - 7200)).toBeLessThan(60)
  expect(blocks.find(({ ip_address }) => ip_address === "2001:db8:0:7::/64")).toMatchObject({
    reason: "again",
    expires_at: null,
  })
  for (const address of ["2001:db8:0:7::/64", bad, bad])
    expect(await operator.unblockAddress({ ip_address: address })).toEqual({ success: true })
  const plain = await send(shared.east, "/api/v1/admin/security/unblock-ip/2001:db8:0:7::/64", {
    route: routes.unblockAddress,
    token,
  })
  expect(plain.status).toBe(200)
  await everywhere("2001:db8:0:7:1:2:3:4", false)
  await everywhere(bad, false)
  expect(await operator.listBlockedAddresses()).toEqual([])
})

test("no operator blocks the machine or where they come from themselves, in whatever range; nor more than there may be", async ({
  shared,
}) => {
  const operator = await operatorAt(shared, shared.east)
  for (const ip_address of [
    "127.0.0.1",
    "127.9.9.9",
    "::1",
    "127.0.0.0/8",
    "0.0.0.0/0",
    "::/0",
    "::ffff:127.0.0.1",
    "126.0.0.0/7",
  ])
    expect([ip_address, await refusal(operator.blockAddress({ ip_address }))]).toEqual([
      ip_address,
      "address_not_blockable",
    ])
  for (const ip_address of ["", "localhost", "1.2.3", "1.2.3.4/33", "1.2.3.4/x", "::g", "fe80::1%eth0"]) {
    expect([ip_address, await refusal(operator.blockAddress({ ip_address }))]).toEqual([
      ip_address,
      "invalid_ip_address",
    ])
    if (ip_address !== "") expect(await refusal(operator.unblockAddress({ ip_address }))).toBe("invalid_ip_address")
  }
  for (const duration_hours of [0, -1, 1.5])
    expect(await refusal(operator.blockAddress({ ip_address: "198.51.100.1", duration_hours }))).toBe(
      "validation_failed",
    )
  await shared.sql`
    INSERT INTO address_blocks (address, blocked_at) SELECT '10.0.0.0'::inet + n, 0 FROM generate_series(1, ${maxBlocks}) AS n`
  expect(await refusal(operator.blockAddress({ ip_address: "198.51.100.1" }))).toBe("address_block_limit")
  // Beyond the bound, as by two operators at once, it is in force as well.
  await shared.sql`INSERT INTO address_blocks (address, blocked_at) VALUES ('198.51.100.1', -1)`
  expect(await operatorOf(shared).blocks()).toHaveLength(maxBlocks + 1)
  await shared.sql`DELETE FROM address_blocks`
})

test("an operator who comes through a proxy cannot block the address that it names, nor a range around it", async ({
  shared,
}) => {
  const { token } = await newOperator(shared)
  const own = "198.51.100.77"
  const block = async (ip_address: string, sender: string) => {
    const sending = { route: routes.blockAddress, token, body: { ip_address }, ...from(sender) }
    return (await send(shared.west, "/api/v1/admin/security/block-ip", sending)).code
  }
  for (const ip_address of [own, "198.51.100.0/24", "::ffff:198.51.100.77", "128.0.0.0/1"])
    expect([ip_address, await block(ip_address, own)]).toEqual([ip_address, "address_not_blockable"])
  const own6 = "2001:db8:77::5"
  for (const ip_address of [own6, "2001:db8:77::/64", "2001:DB8::/32"])
    expect([ip_address, await block(ip_address, own6)]).toEqual([ip_address, "address_not_blockable"])
  // Said by a client, and not by the proxy, it is nobody's.
  expect(await block("198.51.100.78", `198.51.100.78, ${own}`)).toBeUndefined()
  expect(
    (await shared.sql<{ address: string }[]>`SELECT address FROM address_blocks`).map(({ address }) => address),
  ).toEqual(["198.51.100.78"])
  await clientAt(shared.east, token).unblockAddress({ ip_address: "198.51.100.78" })
})

test("a banned name is refused to all who choose it from then on, on every worker, with the reason", async ({
  shared,
}) => {
  const operator = await operatorAt(shared, shared.east)
  const places = [shared.east, shared.west]
  const mark = String(process.pid)
  const [plain, start] = [`Overlord_${mark}`, `xq${mark}`]
  const lin = await shared.person("lin")
  const held = await shared.person(`${start}_held`)
  const register = (place: Endpoint, username: string) =>
    send(place, "/api/v1/auth/register", {
      route: routes.register,
      body: { username, email: `${username}@example.com`, password: "Correct-Horse-9" },
    })
  const ban = { pattern: plain, reason: "There is none" }
  const outcomes = await Promise.allSettled([1, 2, 3].map(() => operator.banUsername(ban)))
  expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(1)
  expect(await refusal(operator.banUsername({ pattern: plain.toUpperCase() }))).toBe("pattern_exists")
  await operator.banUsername({ pattern: `^${start}`, is_regex: true })
  expect(await refusal(operator.banUsername({ pattern: `^${start}`, is_regex: true, reason: "twice" }))).toBe(
    "pattern_exists",
  )
  for (const place of places) {
    for (const [username, reason] of [
      [plain, "There is none"],
      [`0VERL0RD_${mark}`, "There is none"],
      [`__over_lord${mark}`, "There is none"],
      [`${start}_new`, "Reserved or prohibited term"],
      [start.toUpperCase(), "Reserved or prohibited term"],
    ] as const) {
      const refused = { status: 400, code: "blocked_username", body: { error: { reason } } }
      expect(await register(place, username)).toMatchObject(refused)
      const renaming = await send(place, me, {
        method: "PATCH",
        route: routes.editMe,
        token: lin.token,
        body: { username },
      })
      expect(renaming).toMatchObject(refused)
    }
    expect((await register(place, shared.newName(`not_${start}`))).status).toBe(200)
  }
  // Who has such a name keeps it, also in other letters.
  const louder = held.username.toUpperCase()
  expect((await held.on(shared.west).editMe({ username: louder })).username).toBe(louder)

  for (const pattern of ["(", "a(?=b)", "([a-z0-9]{1,30}x){1,30}"])
    expect([pattern, await refusal(operator.banUsername({ pattern, is_regex: true }))]).toEqual([
      pattern,
      "invalid_pattern",
    ])
  expect(await refusal(operator.banUsername({ pattern: " " }))).toBe("invalid_pattern")
  for (const pattern of ["", "x".repeat(101)])
    expect(await refusal(operator.banUsername({ pattern }))).toBe("validation_failed")
  const listed = (await operator.listBannedUsernames()).filter(({ pattern }) => pattern.includes(mark))
  expect(listed).toMatchObject([
    { pattern: `^${start}`, is_regex: true, reason: null },
    { pattern: plain, is_regex: false, reason: "There is none" },
  ])
  for (const { id } of [...listed, ...listed])
    expect(await operator.unbanUsername({ pattern_id: id })).toEqual({ success: true })
  expect((await register(shared.west, plain)).status).toBe(200)
  expect(await refusal(operator.unbanUsername({ pattern_id: "x" }))).toBe("validation_failed")

  // Expressions cost at most so much together.
  const costly = (n: number) => `([a-z]{1,100}x${n}){1,4}`
  let made = 0
  while ((await refusalOf(operator.banUsername({ pattern: costly(made), is_regex: true }))) === undefined) made++
  expect(made).toBeGreaterThan(10)
  expect(await refusal(operator.banUsername({ pattern: costly(made), is_regex: true }))).toBe("banned_username_limit")
  await operator.banUsername({ pattern: `still_a_name_${mark}` })
  await shared.sql`
    INSERT INTO banned_usernames (pattern, is_regex, created_at) SELECT 'planted ' || n, false, 0 FROM generate_series(1, ${maxBannedUsernames}) AS n`
  expect(await refusal(operator.banUsername({ pattern: "one_more" }))).toBe("banned_username_limit")
  expect(await refusal(operator.forceUsernameChange({ user_id: lin.id, ban_current: true }))).toBe(
    "banned_username_limit",
  )
  await shared.sql`WITH gone AS (DELETE FROM banned_usernames) UPDATE service SET names_version = names_version + 1`
})

const refusalOf = (asked: Promise<unknown>) =>
  asked.then(
    () => undefined,
    () => "refused",
  )
