/** Lists of members, one of them, and their nicknames. */
import type { GuildMember } from "../../src/contract/communities/guild-members.ts"
import { opcodes } from "../../src/contract/core/gateway-codes.ts"
import { allIntents, bitOf } from "../../src/contract/core/intents.ts"
import { avatarPath } from "../../src/contract/accounts/users.ts"
import { guildMembersStorage } from "../../src/storage/communities/guild-members.ts"
import { refusal } from "../kit/conformance.ts"
import type { Person } from "../kit/person.ts"
import { plantServer, sharedServer } from "../kit/seeds.ts"
import { expect, test, type SharedCluster } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const inOrder = (ids: readonly string[]) => ids.toSorted((a, b) => Number(BigInt(a) - BigInt(b)))

/** Ada's server with a role that lets Lin do something, and Mo, who has none. */
async function withGuard(shared: SharedCluster, permissions: Record<string, boolean>) {
  const { ada, lin, server, channel } = await shared.seed(sharedServer)
  const server_id = server.id
  const owner = ada.on(shared.east)
  const mo = await shared.person("mo")
  const { code } = await owner.createInvite({ channel_id: channel.id })
  await mo.on(shared.west).joinByInvite({ invite_code: code })
  const low = await owner.createRole({ server_id, name: "Low" })
  const guard = await owner.createRole({ server_id, name: "Guard", permissions })
  await owner.giveRole({ server_id, member_id: lin.id, role_id: guard.id })
  return { ada, lin, mo, server_id, channel, owner, low, guard, member: lin.on(shared.west), plain: mo.on(shared.east) }
}

test("members are listed by user id, page by page, as they are shown, on every worker", async ({ shared }) => {
  const people = await Promise.all(Array.from({ length: 5 }, () => shared.person("member")))
  const { server_id } = await plantServer(shared, { owner: people[0]!, members: people.slice(1) })
  const rest = people[1]!.on(shared.west)
  const ids = inOrder(people.map(({ id }) => id))
  const all = await rest.listMembers({ server_id })
  expect(all.map(({ user_id }) => user_id)).toEqual(ids)
  const { id, username } = people[2]!
  expect(all.find(({ user_id }) => user_id === id)).toEqual({
    user_id: id,
    member_id: id,
    username,
    avatar_url: avatarPath(id),
    nickname: null,
    roles: [server_id],
    joined_at: 1_704_153_600,
    badges: [],
    bot: false,
    timeout_until: null,
    timeout_reason: null,
    presence: { status: "offline" },
  })
  expect(await people[0]!.on(shared.east).listMembers({ server_id })).toEqual(all)
  expect(await rest.getMember({ server_id, member_id: id })).toEqual(all.find(({ user_id }) => user_id === id))
  const pages = [await rest.listMembers({ server_id, limit: "2" })]
  for (let page = pages[0]!; page.length > 0; pages.push(page))
    page = await rest.listMembers({ server_id, limit: "2", after: page.at(-1)!.user_id })
  expect(pages.map(page => page.length)).toEqual([2, 2, 1, 0])
  expect(pages.flat()).toEqual(all)
  for (const query of [{ limit: "0" }, { limit: "1001" }, { limit: "x" }, { after: "x" }])
    expect(await refusal(rest.listMembers({ server_id, ...query }))).toBe("validation_failed")
})

test("a role that is gone is shown no longer, and a page has a hundred members unless more are asked for", async ({
  shared,
}) => {
  const ada = await shared.person("ada")
  const { server_id } = await plantServer(shared, { owner: ada, memberCount: 1_205 })
  const first = 7_000_000_000_000_000
  await shared.sql`
    INSERT INTO users (id, username, created_at)
    SELECT ${first} + i * 4096::bigint, ${shared.newName("many")} || i, 1704153600 FROM generate_series(1, 1204) AS i`
  await shared.sql`
    INSERT INTO members (server_id, user_id, joined_at, roles)
    SELECT ${server_id}, ${first} + i * 4096::bigint, 1704153600, '{12345}' FROM generate_series(1, 1204) AS i`
  const rest = ada.on(shared.west)
  expect(await rest.listMembers({ server_id })).toHaveLength(100)
  const most = await rest.listMembers({ server_id, limit: "1000" })
  expect(most).toHaveLength(1_000)
  expect(new Set(most.flatMap(({ roles }) => roles))).toEqual(new Set([server_id]))
  const left = await rest.listMembers({ server_id, limit: "1000", after: most.at(-1)!.user_id })
  expect(left.map(({ user_id }) => user_id).at(-1)).toBe(ada.id)
  expect(left).toHaveLength(205)
})

test("a page costs as many rows as it has, however many members there are", async ({ shared }) => {
  const ada = await shared.person("ada")
  const { server_id } = await plantServer(shared, { owner: ada })
  const first = 8_000_000_000_000_000
  await shared.sql`
    INSERT INTO users (id, username, created_at)
    SELECT ${first} + i * 4096::bigint, ${shared.newName("many")} || i, 1704153600 FROM generate_series(1, 20000) AS i`
  await shared.sql`
    INSERT INTO members (server_id, user_id, joined_at)
    SELECT ${server_id}, ${first} + i * 4096::bigint, 1704153600 FROM generate_series(1, 20000) AS i`
  await shared.sql`ANALYZE members, users`
  const asked: unknown[] = []
  const noting = ((...parts: Parameters<typeof shared.sql>) => {
    const query = shared.sql(...parts)
    asked.push(query)
    return query
  }) as unknown as typeof shared.sql
  const after = String(first + 4_096 * 10_000)
  expect(await guildMembersStorage(noting as never).page(server_id, after, 100)).toHaveLength(100)
  const [row] = await shared.sql<{ "QUERY PLAN": [{ Plan: Plan }] }[]>`
    EXPLAIN (ANALYZE, FORMAT JSON) ${asked.at(-1) as never}`
  const seen = nodesOf(row!["QUERY PLAN"][0].Plan)
  expect(seen.filter(node => node["Relation Name"] === "members").map(node => node["Actual Rows"])).toEqual([100])
  expect(Math.max(...seen.map(node => node["Actual Rows"] * node["Actual Loops"]))).toBeLessThanOrEqual(200)
})

interface Plan {
  readonly "Relation Name"?: string
  readonly "Actual Rows": number
  readonly "Actual Loops": number
  readonly Plans?: readonly Plan[]
}
const nodesOf = (plan: Plan): Plan[] => [plan, ...(plan.Plans ?? []).flatMap(nodesOf)]

test("presence in a list is what the caller may see, as in op 8", async ({ shared }) => {
  const people = await Promise.all(["ada", "lin", "mo", "eve", "ida", "away"].map(name => shared.person(name)))
  const [ada, lin, mo, eve, ida] = people as [Person, Person, Person, Person, Person, Person]
  const { server_id } = await plantServer(shared, { owner: ada, members: people.slice(1) })
  await Promise.all([ada, lin, mo, eve, ida].map(person => person.listen(shared.east)))
  await ada.on(shared.east).blockUser({ user_id: mo.id })
  await eve.on(shared.east).blockUser({ user_id: ada.id })
  await ida.on(shared.west).updatePresence({ status: "invisible" })
  await lin.on(shared.west).updatePresence({ status: "dnd" })
  const inbox = await ada.listen(shared.west, { intents: allIntents & ~bitOf("GUILD_PRESENCES") })
  const byId = (list: readonly Pick<GuildMember, "user_id" | "presence">[]) =>
    people.map(({ id }) => list.find(({ user_id }) => user_id === id)?.presence?.status).join(" ")
  const expected = "online dnd offline offline offline offline"
  await until("all are seen as they are", async () => {
    return byId(await ada.on(shared.west).listMembers({ server_id })) === expected
  })
  inbox.send({ op: opcodes.REQUEST_GUILD_MEMBERS.op, d: { guild_id: server_id } })
  expect(byId((await inbox.next("GUILD_MEMBERS_CHUNK")).members)).toBe(expected)
  const one = await ada.on(shared.east).getMember({ server_id, member_id: lin.id })
  expect(one.presence).toEqual({ status: "dnd" })
  const unseen = await ada.on(shared.east).getMember({ server_id, member_id: eve.id })
  expect(unseen.presence).toEqual({ status: "offline" })
})

test("everybody chooses their own nickname; every member is told, live and after a resume", async ({ shared }) => {
  const { ada, mo, server_id, owner, plain } = await withGuard(shared, {})
  const eve = await shared.person("eve")
  const [inbox, quiet, stranger] = await Promise.all([
    ada.listen(shared.west),
    ada.listen(shared.east, { intents: allIntents & ~bitOf("GUILD_MEMBERS") }),
    eve.listen(shared.west),
  ])
  const named = await plain.editOwnMember({ server_id, nickname: "  Momo 🐦 " })
  expect(named).toMatchObject({ user_id: mo.id, nickname: "Momo 🐦", roles: [server_id] })
  const { presence: _, ...facts } = named
  const told = { ...facts, guild_id: server_id, server_id, nick: "Momo 🐦" }
  const user = { id: mo.id, username: mo.username, avatar_url: avatarPath(mo.id) }
  expect(await inbox.next("GUILD_MEMBER_UPDATE")).toEqual({ ...told, user })
  expect(await owner.getMember({ server_id, member_id: mo.id })).toMatchObject({ nickname: "Momo 🐦" })
  inbox.drop()
  expect(await plain.editMember({ server_id, member_id: mo.id, nickname: "x".repeat(32) })).toMatchObject({
    nickname: "x".repeat(32),
  })
  await plain.editOwnMember({ server_id, nickname: "" })
  await inbox.reconnect(shared.east.url)
  expect((await inbox.next("GUILD_MEMBER_UPDATE")).nick).toBe("x".repeat(32))
  const cleared = await inbox.next("GUILD_MEMBER_UPDATE")
  expect(cleared.nickname).toBeNull()
  expect(cleared).not.toHaveProperty("nick")

  // Nothing changes, and nobody is told.
  await plain.editOwnMember({ server_id })
  await plain.editOwnMember({ server_id, nickname: null })
  await plain.editMember({ server_id, member_id: mo.id, nickname: "   " })
  for (const nickname of ["x".repeat(33), "two\nlines", "a\u2028b", "\u001b[31m"])
    expect(await refusal(plain.editOwnMember({ server_id, nickname }))).toBe("validation_failed")
  await shared.settle()
  for (const one of [inbox, quiet, stranger])
    expect(one.rest().filter(({ name }) => name === "GUILD_MEMBER_UPDATE")).toEqual([])

  const log = await owner.listAuditLog({ server_id, action: "MEMBER_UPDATE" })
  expect(log.map(({ target_id, user_id, changes }) => [target_id, user_id, changes])).toEqual([
    [mo.id, mo.id, { nickname: { old: true, new: false } }],
    [mo.id, mo.id, { nickname: { old: true, new: true } }],
    [mo.id, mo.id, { nickname: { old: false, new: true } }],
  ])
})

test("MEM1: nicknames of others take a permission and a higher rank; the owner's is theirs alone", async ({
  shared,
}) => {
  const { ada, lin, mo, server_id, owner, low, guard, member, plain } = await withGuard(shared, {
    "members.manage_nicknames": true,
  })
  const reason = "offensive"
  expect(await member.editMember({ server_id, member_id: mo.id, nickname: "Moderated" })).toMatchObject({
    nickname: "Moderated",
  })
  await owner.giveRole({ server_id, member_id: mo.id, role_id: low.id })
  await member.editMember({ server_id, member_id: mo.id, nickname: "Still lower" })
  await owner.giveRole({ server_id, member_id: mo.id, role_id: guard.id })
  const rename = (member_id: string) => member.editMember({ server_id, member_id, nickname: reason })
  expect(await refusal(rename(mo.id))).toBe("rank_too_low")
  expect(await refusal(rename(ada.id))).toBe("rank_too_low")
  expect((await rename(lin.id)).nickname).toBe(reason)
  await owner.takeRole({ server_id, member_id: mo.id, role_id: guard.id })
  expect(await refusal(plain.editMember({ server_id, member_id: lin.id, nickname: "x" }))).toBe("permission_denied")
  expect((await owner.editOwnMember({ server_id, nickname: "Boss" })).nickname).toBe("Boss")
  expect((await owner.editMember({ server_id, member_id: lin.id, nickname: "" })).nickname).toBeNull()
  // It may be looked for by nickname, too.
  const inbox = await lin.listen(shared.east)
  inbox.send({ op: opcodes.REQUEST_GUILD_MEMBERS.op, d: { guild_id: server_id, query: "STILL l" } })
  const { members } = await inbox.next("GUILD_MEMBERS_CHUNK")
  expect(members.map(({ user_id, nickname }) => [user_id, nickname])).toEqual([[mo.id, "Still lower"]])
})

test("a nickname goes with the membership", async ({ shared }) => {
  const { mo, server_id, channel, owner, plain } = await withGuard(shared, {})
  await plain.editOwnMember({ server_id, nickname: "Momo" })
  await plain.leaveServer({ server_id })
  expect(await refusal(plain.editOwnMember({ server_id, nickname: "Ghost" }))).toBe("access_denied")
  expect(await refusal(owner.editMember({ server_id, member_id: mo.id, nickname: "x" }))).toBe("member_not_found")
  const { code } = await owner.createInvite({ channel_id: channel.id })
  await plain.joinByInvite({ invite_code: code })
  expect((await owner.getMember({ server_id, member_id: mo.id })).nickname).toBeNull()
})

test("an override of a member who left stays: coming back lifts nothing", async ({ shared }) => {
  const { mo, server_id, channel, owner, plain } = await withGuard(shared, {})
  const channel_id = channel.id
  const { code } = await owner.createInvite({ channel_id })
  await owner.setOverride({ channel_id, target_id: mo.id, type: "member", allow: [], deny: ["messages.send"] })
  await plain.leaveServer({ server_id })
  await plain.joinByInvite({ invite_code: code })
  expect(await refusal(plain.createMessage({ channel_id, content: "again" }))).toBe("permission_denied")
  await owner.kickMember({ server_id, member_id: mo.id })
  await owner.deleteOverride({ channel_id, target_id: mo.id })
  await plain.joinByInvite({ invite_code: code })
  await plain.createMessage({ channel_id, content: "forgiven" })
})

test("two who change a member at once change both: the last nickname and a time-out", async ({ shared }) => {
  const { mo, server_id, owner, member, plain } = await withGuard(shared, { "members.kick": true })
  const names = Array.from({ length: 6 }, (_, i) => `name ${i}`)
  await Promise.all([
    ...names.map((nickname, i) => mo.on(i % 2 ? shared.east : shared.west).editOwnMember({ server_id, nickname })),
    member.editMember({ server_id, member_id: mo.id, timeout_seconds: 600 }),
  ])
  const known = await owner.getMember({ server_id, member_id: mo.id })
  expect(names).toContain(known.nickname)
  expect(known.timeout_until).toBeGreaterThan(Date.now() / 1000)
  const [row] = await shared.sql`
    SELECT nickname, timeout_until FROM members WHERE server_id = ${server_id} AND user_id = ${mo.id}`
  expect(row).toEqual({ nickname: known.nickname, timeout_until: known.timeout_until })
  expect(await plain.getMember({ server_id, member_id: mo.id })).toEqual(known)
})

test("members: 403 for others, 404 for what is not there, 400 for what is no id", async ({ shared }) => {
  const { ada, lin, server_id, owner } = await withGuard(shared, {})
  const other = await plantServer(shared, { owner: ada })
  const eve = (await shared.person("eve")).on(shared.west)
  for (const [server, expected] of [
    [server_id, "access_denied"],
    ["1", "server_not_found"],
    ["x", "invalid_server_id"],
  ] as const) {
    const ids = { server_id: server, member_id: lin.id }
    expect(await refusal(eve.listMembers(ids))).toBe(expected)
    expect(await refusal(eve.getMember(ids))).toBe(expected)
    expect(await refusal(eve.editMember({ ...ids, nickname: "x" }))).toBe(expected)
    expect(await refusal(eve.editOwnMember({ ...ids, nickname: "x" }))).toBe(expected)
  }
  for (const [server, member_id, expected] of [
    [server_id, "x", "invalid_id"],
    [server_id, "1", "member_not_found"],
    [other.server_id, lin.id, "member_not_found"],
    [server_id, server_id, "member_not_found"],
  ] as const) {
    expect(await refusal(owner.getMember({ server_id: server, member_id }))).toBe(expected)
    expect(await refusal(owner.editMember({ server_id: server, member_id, nickname: "x" }))).toBe(expected)
  }
})
