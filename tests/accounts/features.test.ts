import { userActor } from "../../src/actors/user.ts"
import { createServer } from "../../src/contract/communities/servers.ts"
import { badges as table } from "../../src/domain/accounts/badges.ts"
import { tiers as tierTable } from "../../src/domain/accounts/tiers.ts"
import { refusal } from "../kit/conformance.ts"
import { send } from "../kit/exchange.ts"
import { clientAt, type Person } from "../kit/person.ts"
import { plantedId, sharedServer } from "../kit/seeds.ts"
import { until } from "../kit/until.ts"
import { expect, test, testWith, type SharedCluster } from "../kit/test.ts"

const now = () => Math.floor(Date.now() / 1000)

/** Somebody new with a permission of the whole service. */
async function chief(shared: SharedCluster, permission = "administrator"): Promise<Person> {
  const person = await shared.person("chief")
  await shared.sql`UPDATE users SET permissions = ARRAY[${permission}] WHERE id = ${person.id}`
  return person
}

test("only users with the permission may; without a token nobody is asked who they are", async ({ shared }) => {
  const [ada, ...chiefs] = await Promise.all([
    shared.person("ada"),
    ...["administrator", "admin.*", "*"].map(permission => chief(shared, permission)),
  ])
  const moderator = await chief(shared, "admin.read")
  for (const person of [ada, moderator]) {
    const rest = person.on(shared.west)
    for (const code of await Promise.all(
      [
        rest.getUserFeatures({ user_id: ada.id }),
        rest.editUserFeatures({ user_id: ada.id, rate_limit_tier: "staff" }),
        rest.setTier({ user_id: ada.id, tier: "staff" }),
        rest.addBadge({ user_id: ada.id, badge: "staff" }),
        rest.removeBadge({ user_id: ada.id, badge: "staff" }),
        rest.listTiers(),
        rest.listBadges(),
        rest.setTier({ user_id: "x", tier: "" }),
      ].map(call => refusal(call)),
    ))
      expect(code).toBe("administrator_only")
  }
  expect(await refusal(clientAt(shared.east).listTiers())).toBe("authentication_required")
  for (const person of chiefs) expect((await person.on(shared.east).listTiers()).default).toBe("standard")
  expect((await ada.on(shared.east).getMyFeatures()).tier).toBe("standard")
  // A bot may have it, too.
  await shared.sql`UPDATE users SET bot = true WHERE id = ${chiefs[0]!.id}`
  expect((await chiefs[0]!.on(shared.west).listBadges()).badges).toHaveLength(8)
})

test("tiers and badges are those of the interface", async ({ shared }) => {
  const boss = (await chief(shared)).on(shared.east)
  expect(await boss.listTiers()).toEqual({ tiers: Object.fromEntries(tierTable), default: "standard" })
  expect(await boss.listBadges()).toEqual({ badges: table })
})

test("a tier is given, shown, and ends in time", async ({ shared }) => {
  const [ada, boss] = [await shared.person("ada"), (await chief(shared)).on(shared.west)]
  const user_id = ada.id
  const own = ada.on(shared.east)
  const standard = {
    user_id,
    rate_limit_tier: "standard",
    badges: [],
    tier_limits: tierTable.get("standard"),
    expires_at: null,
  }
  expect(await boss.getUserFeatures({ user_id })).toEqual(standard)
  const premium = { ...standard, rate_limit_tier: "premium", tier_limits: tierTable.get("premium") }
  expect(await boss.setTier({ user_id, tier: "premium" })).toEqual({ ...premium, success: true })
  expect(await own.getMyFeatures()).toEqual({ badges: [], tier: "premium", tier_limits: tierTable.get("premium") })

  // Seconds, or milliseconds; what is left out stays.
  const later = now() + 1_000
  expect(await boss.editUserFeatures({ user_id, expires_at: later })).toEqual({ ...premium, expires_at: later })
  expect(await boss.editUserFeatures({ user_id, expires_at: later * 1000 + 999 })).toEqual({
    ...premium,
    expires_at: later,
  })
  expect(await boss.editUserFeatures({ user_id, notes: "a friend" })).toEqual({ ...premium, expires_at: later })
  expect(await boss.editUserFeatures({ user_id })).toEqual({ ...premium, expires_at: later })
  const [row] = await shared.sql`SELECT tier_notes FROM users WHERE id = ${user_id}`
  expect(row).toEqual({ tier_notes: "a friend" })
  // Null is as good as nothing; a tier given anew has no end.
  expect(await boss.editUserFeatures({ user_id, expires_at: null, notes: null, rate_limit_tier: null })).toEqual({
    ...premium,
    expires_at: later,
  })
  expect(await boss.editUserFeatures({ user_id, rate_limit_tier: "premium", expires_at: null })).toEqual(premium)
  // Over: standard holds, whatever is written.
  expect(await boss.setTier({ user_id, tier: "staff", expires_at: now() - 1 })).toEqual({ ...standard, success: true })
  expect((await own.getMyFeatures()).tier).toBe("standard")
  // What is over does not come back with another end.
  expect(await boss.editUserFeatures({ user_id, notes: "was staff" })).toEqual(standard)
  expect(await boss.editUserFeatures({ user_id, expires_at: later })).toMatchObject({ rate_limit_tier: "standard" })
  expect((await own.getMyFeatures()).tier).toBe("standard")
  // Given anew without an end it has none.
  expect(await boss.editUserFeatures({ user_id, rate_limit_tier: "alpha" })).toMatchObject({
    rate_limit_tier: "alpha",
    expires_at: null,
  })
  for (const place of [shared.east, shared.west]) expect((await ada.on(place).getMyFeatures()).tier).toBe("alpha")
})

test("an unknown tier, time or user is refused", async ({ shared }) => {
  const [ada, boss] = [await shared.person("ada"), (await chief(shared)).on(shared.east)]
  const user_id = ada.id
  for (const tier of ["gold", "Standard", "__proto__", " "]) {
    expect(await refusal(boss.setTier({ user_id, tier }))).toBe("unknown_tier")
    expect(await refusal(boss.editUserFeatures({ user_id, rate_limit_tier: tier }))).toBe("unknown_tier")
  }
  for (const tier of ["", "t".repeat(51)])
    expect(await refusal(boss.setTier({ user_id, tier }))).toBe("validation_failed")
  for (const expires_at of [-1, 1.5, 2 ** 60, "soon"])
    expect(await refusal(boss.setTier({ user_id, tier: "alpha", expires_at: expires_at as number }))).toBe(
      "validation_failed",
    )
  expect(await refusal(boss.editUserFeatures({ user_id, notes: "n".repeat(1001) }))).toBe("validation_failed")
  const unknown = { user_id: "1" }
  for (const code of await Promise.all(
    [
      boss.getUserFeatures(unknown),
      boss.editUserFeatures(unknown),
      boss.setTier({ ...unknown, tier: "alpha" }),
      boss.addBadge({ ...unknown, badge: "staff" }),
      boss.removeBadge({ ...unknown, badge: "staff" }),
    ].map(call => refusal(call)),
  ))
    expect(code).toBe("user_not_found")
  for (const code of await Promise.all(
    [
      boss.getUserFeatures({ user_id: "x" }),
      boss.editUserFeatures({ user_id: "x" }),
      boss.setTier({ user_id: "x", tier: "alpha" }),
      boss.addBadge({ user_id: "x", badge: "staff" }),
      boss.removeBadge({ user_id: "x", badge: "staff" }),
    ].map(call => refusal(call)),
  ))
    expect(code).toBe("invalid_user_id")
  expect((await ada.on(shared.west).getMyFeatures()).tier).toBe("standard")
})

test("a badge is given once and taken once, and everybody who sees the user is told", async ({ shared }) => {
  await shared.bootJobWorker()
  const { channel, ada, lin } = await shared.seed(sharedServer)
  const boss = (await chief(shared)).on(shared.west)
  const user_id = ada.id
  const [own, inbox] = await Promise.all([ada.listen(shared.east), lin.listen(shared.west)])
  for (const badge of ["gold", "Staff", "constructor"])
    expect(await refusal(boss.addBadge({ user_id, badge }))).toBe("invalid_badge")
  for (let i = 0; i < 2; i++)
    expect(await boss.addBadge({ user_id, badge: "bug_hunter" })).toEqual({ success: true, badges: ["bug_hunter"] })
  const avatar_url = `/api/v1/avatars/users/${ada.id}`
  const shown = { id: ada.id, username: ada.username, avatar_url, badges: ["bug_hunter"], bot: false }
  expect(await own.next("USER_UPDATE")).toEqual({ ...shown, email: ada.email })
  expect(await inbox.next("USER_UPDATE")).toEqual(shown)
  expect((await ada.on(shared.east).getMyFeatures()).badges).toEqual(table.filter(({ name }) => name === "bug_hunter"))
  const { author_badges } = await ada.on(shared.west).createMessage({ channel_id: channel.id, content: "look" })
  expect(author_badges).toEqual(["bug_hunter"])
  await inbox.next("MESSAGE_CREATE")

  for (let i = 0; i < 2; i++)
    expect(await boss.removeBadge({ user_id, badge: "bug_hunter" })).toEqual({ success: true, badges: [] })
  expect(await boss.removeBadge({ user_id, badge: "never heard of" })).toEqual({ success: true, badges: [] })
  expect((await inbox.next("USER_UPDATE")).badges).toEqual([])
  expect((await own.next("USER_UPDATE")).badges).toEqual([])
  await shared.settle()
  expect([...own.rest(), ...inbox.rest()].map(({ name }) => name).filter(name => name === "USER_UPDATE")).toEqual([])
})

test("badges given at the same time are all kept", async ({ shared }) => {
  const [ada, boss] = [await shared.person("ada"), await chief(shared)]
  await Promise.all(
    table.map(({ name: badge }, i) =>
      boss.on(i % 2 === 0 ? shared.east : shared.west).addBadge({ user_id: ada.id, badge }),
    ),
  )
  const { badges } = await boss.on(shared.east).getUserFeatures({ user_id: ada.id })
  expect(badges.toSorted()).toEqual(table.map(({ name }) => name).toSorted())
  expect((await ada.on(shared.west).getMyFeatures()).badges).toHaveLength(8)
  expect((await ada.on(shared.west).getMe()).badges).toHaveLength(5)
})

test("a tier says how many servers one may own, from the next request on", async ({ shared }) => {
  const [ada, boss] = [await shared.person("ada"), (await chief(shared)).on(shared.west)]
  const plant = (count: number, from: number) => shared.sql`
    INSERT INTO servers (id, name, owner_id, member_count, created_at)
    SELECT ${ada.id}::bigint + n, 'Planted', ${ada.id}, 1, 0 FROM generate_series(${from}::int, ${from + count - 1}::int) AS n`
  await plant(100, 1)
  const make = () => ada.on(shared.east).createServer({ name: "One more" })
  expect(await refusal(make())).toBe("server_limit")
  await boss.setTier({ user_id: ada.id, tier: "alpha" })
  await make()
  await plant(99, 101)
  expect(await refusal(make())).toBe("server_limit")
  await boss.setTier({ user_id: ada.id, tier: "staff" })
  await make()
  await boss.setTier({ user_id: ada.id, tier: "staff", expires_at: now() - 1 })
  expect(await refusal(make())).toBe("server_limit")
})

test("a tier that is given, or is over, bounds a call that is under way", async ({ shared }) => {
  const [ada, boss] = [await shared.person("ada"), (await chief(shared)).on(shared.west)]
  const { sql } = shared
  const began_at = Date.now() - 60_000
  const call = { server_id: plantedId(), channel_id: plantedId(), voice_session_id: "9", began_at }
  const { ask } = shared.east.node
  const endsAt = async () =>
    (await sql<{ ends_at: number | null }[]>`SELECT ends_at FROM voice_calls WHERE user_id = ${ada.id}`)[0]!.ends_at
  await boss.setTier({ user_id: ada.id, tier: "premium" })
  await ask(userActor, ada.id, { type: "voiceChanged", began: call })
  expect(await endsAt()).toBeNull()
  const soon = now() + 50
  await boss.setTier({ user_id: ada.id, tier: "premium", expires_at: soon })
  expect(await endsAt()).toBe(soon * 1000)
  // That is no end yet: the tier is.
  expect(await ask(userActor, ada.id, { type: "expireVoice" })).toEqual({ ended: false })
  await boss.setTier({ user_id: ada.id, tier: "standard" })
  const ofStandard = await endsAt()
  expect(ofStandard).not.toBeNull()
  await boss.setTier({ user_id: ada.id, tier: "alpha" })
  expect(await endsAt()).toBeGreaterThan(ofStandard!)
  await boss.editUserFeatures({ user_id: ada.id, rate_limit_tier: "staff" })
  expect(await endsAt()).toBeNull()
})

const limited = testWith({ limited: true })

limited(
  "a tier scales the limits of what its user does, from the next request on, and no longer than it lasts",
  async ({ shared }) => {
    const [ada, boss] = [await shared.person("ada"), (await chief(shared)).on(shared.west)]
    const limitOf = async () => {
      const answer = await send(shared.east, "/api/v1/servers", {
        token: ada.token,
        route: createServer,
        body: { name: "x" },
      })
      return Number(answer.headers.get("x-ratelimit-limit"))
    }
    const usual = await limitOf()
    expect(usual).toBeGreaterThan(0)
    await boss.setTier({ user_id: ada.id, tier: "premium" })
    expect(await limitOf()).toBe(3 * usual)
    // Over before workers would look again by themselves.
    await boss.setTier({ user_id: ada.id, tier: "alpha", expires_at: now() + 4 })
    expect(await limitOf()).toBe(2 * usual)
    await until("the tier is over", async () => (await limitOf()) === usual, { timeoutMs: 15_000, everyMs: 500 })
  },
)
