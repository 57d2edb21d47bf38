import { allIntents, bitOf } from "../../src/contract/core/intents.ts"
import { refusal } from "../kit/conformance.ts"
import { limits } from "../../src/contract/core/limits.ts"
import { plantServer, sharedServer } from "../kit/seeds.ts"
import { expect, test, type SharedCluster } from "../kit/test.ts"

test("P4: an invite made on one worker is known and used on the other at once", async ({ shared }) => {
  const { server, channel, ada, lin } = await shared.seed(sharedServer)
  const [eve, inbox] = await Promise.all([shared.person("eve"), lin.listen(shared.west)])
  const own = await eve.listen(shared.west, { encoding: "msgpack" })
  const invite = await lin
    .on(shared.east)
    .createInvite({ channel_id: channel.id, max_age: 60, max_uses: 5, temporary: true })
  expect(invite).toMatchObject({
    channel_id: channel.id,
    server_id: server.id,
    inviter_id: lin.id,
    max_age: 60,
    max_uses: 5,
    temporary: true,
    uses: 0,
    expires_at: invite.created_at + 60,
  })
  expect(invite.code).toMatch(/^[A-Za-z0-9]{12}$/)
  const facts = { code: invite.code, server_id: server.id, server_name: "Shared", channel_id: channel.id }
  const shown = { ...facts, inviter_id: lin.id, uses: 0, max_uses: 5, expires_at: invite.expires_at }
  expect(await eve.on(shared.west).getInvite({ invite_code: invite.code })).toEqual(shown)

  expect(await eve.on(shared.west).joinByInvite({ invite_code: invite.code })).toEqual({
    success: true,
    server_id: server.id,
  })
  expect(await eve.on(shared.east).getInvite({ invite_code: invite.code })).toEqual({ ...shown, uses: 1 })
  expect((await ada.on(shared.east).getServer({ server_id: server.id })).member_count).toBe(3)
  expect(await inbox.next("GUILD_MEMBER_ADD")).toMatchObject({
    server_id: server.id,
    user_id: eve.id,
    member_id: eve.id,
    username: eve.username,
    roles: [server.id],
    user: { id: eve.id },
  })
  expect(await own.next("GUILD_CREATE")).toMatchObject({
    id: server.id,
    name: "Shared",
    member_count: 3,
    channels: [{ id: channel.id, name: "general" }],
  })
  const sent = await ada.on(shared.east).createMessage({ channel_id: channel.id, content: "welcome" })
  expect((await own.next("MESSAGE_CREATE")).id).toBe(sent.id)
  await shared.settle()
  expect(own.rest()).toEqual([])
})

test("an invite needs no body, then it lasts a day; max_age 0 lasts for ever", async ({ shared }) => {
  const { channel, ada } = await shared.seed(sharedServer)
  const { createInvite } = ada.on(shared.east)
  const plain = await createInvite({ channel_id: channel.id })
  expect(plain).toMatchObject({ max_age: 86_400, max_uses: 0, temporary: false, expires_at: plain.created_at + 86_400 })
  const ever = await createInvite({ channel_id: channel.id, max_age: 0, max_uses: null, temporary: null })
  expect(ever).toMatchObject({ max_age: 0, expires_at: null, max_uses: 0, temporary: false })
  for (const facts of [{ max_age: -1 }, { max_age: 31_536_001 }, { max_uses: -1 }, { max_uses: 1e9 }, { max_age: 0.5 }])
    expect(await refusal(createInvite({ channel_id: channel.id, ...facts }))).toBe("validation_failed")
})

test("JOIN2: exactly one of parallel uses of the last one on two workers wins", async ({ shared }) => {
  const { server, channel, ada } = await shared.seed(sharedServer)
  const people = await Promise.all(Array.from({ length: 5 }, () => shared.person("guest")))
  const { code } = await ada.on(shared.east).createInvite({ channel_id: channel.id, max_uses: 2 })
  await people.pop()!.on(shared.east).joinByInvite({ invite_code: code })
  const outcomes = await Promise.allSettled(
    people.map((person, i) => person.on(i % 2 ? shared.east : shared.west).joinByInvite({ invite_code: code })),
  )
  const refused = outcomes.flatMap(outcome => (outcome.status === "rejected" ? [outcome.reason as Error] : []))
  expect(refused).toHaveLength(3)
  for (const reason of refused) expect(await refusal(Promise.reject(reason))).toBe("invite_not_found")
  expect((await ada.on(shared.west).getServer({ server_id: server.id })).member_count).toBe(4)
  const listed = await ada.on(shared.west).listInvites({ server_id: server.id })
  expect(listed.filter(invite => invite.code === code)).toEqual([expect.objectContaining({ uses: 2, max_uses: 2 })])
  expect(await refusal(people[0]!.on(shared.east).getInvite({ invite_code: code }))).toBe("invite_not_found")
})

test("one person who joins in parallel is one member and one use", async ({ shared }) => {
  const { server, channel, ada } = await shared.seed(sharedServer)
  const eve = await shared.person("eve")
  const { code } = await ada.on(shared.east).createInvite({ channel_id: channel.id, max_uses: 3 })
  const outcomes = await Promise.allSettled(
    [shared.east, shared.west, shared.east].map(place => eve.on(place).joinByInvite({ invite_code: code })),
  )
  const refused = outcomes.flatMap(outcome => (outcome.status === "rejected" ? [outcome.reason as Error] : []))
  expect(refused).toHaveLength(2)
  for (const reason of refused) expect(await refusal(Promise.reject(reason))).toBe("already_member")
  expect((await eve.on(shared.west).getServer({ server_id: server.id })).member_count).toBe(3)
  expect((await eve.on(shared.west).getInvite({ invite_code: code })).uses).toBe(1)
})

test("what is expired, unknown or spelled in another case is not found", async ({ shared }) => {
  const { channel, ada } = await shared.seed(sharedServer)
  const eve = await shared.person("eve")
  const { code } = await ada.on(shared.east).createInvite({ channel_id: channel.id })
  await shared.sql`UPDATE invites SET expires_at = ${Math.floor(Date.now() / 1000) - 1} WHERE code = ${code}`
  const swapped = code.replace(/[A-Za-z]/g, letter =>
    letter === letter.toUpperCase() ? letter.toLowerCase() : letter.toUpperCase(),
  )
  expect(await refusal(eve.on(shared.east).getInvite({ invite_code: code }))).toBe("invite_not_found")
  for (const invite_code of [swapped, "AAAAAAAAAAAA", "x", "a b", "ä", "'; DROP TABLE invites; --"])
    for (const place of [shared.east, shared.west]) {
      expect(await refusal(eve.on(place).getInvite({ invite_code }))).toBe("invite_not_found")
      expect(await refusal(eve.on(place).joinByInvite({ invite_code }))).toBe("invite_not_found")
    }
  expect(await refusal(eve.on(shared.east).getInvite({ invite_code: "x".repeat(65) }))).toBe("validation_failed")
})

test("an expired invite lets nobody in", async ({ shared }) => {
  const ada = await shared.person("ada")
  const eve = await shared.person("eve")
  const { server_id, channel_id } = await plantServer(shared, { owner: ada })
  const code = shared.newName("overdue").replaceAll("_", "")
  const now = Math.floor(Date.now() / 1000)
  await shared.sql`
    INSERT INTO invites (code, server_id, channel_id, inviter_id, max_age, max_uses, temporary, uses, created_at, expires_at)
    VALUES (${code}, ${server_id}, ${channel_id}, ${ada.id}, 60, 0, false, 0, ${now - 61}, ${now - 1})`
  for (const place of [shared.east, shared.west]) {
    expect(await refusal(eve.on(place).getInvite({ invite_code: code }))).toBe("invite_not_found")
    expect(await refusal(eve.on(place).joinByInvite({ invite_code: code }))).toBe("invite_not_found")
  }
})

test("members and the banned do not join, and a full server takes nobody", async ({ shared }) => {
  const { server, channel, ada, lin } = await shared.seed(sharedServer)
  const eve = await shared.person("eve")
  const { code } = await ada.on(shared.east).createInvite({ channel_id: channel.id })
  for (const member of [ada, lin])
    expect(await refusal(member.on(shared.west).joinByInvite({ invite_code: code }))).toBe("already_member")
  await shared.sql`
    INSERT INTO bans (server_id, user_id, reason, banned_by, banned_at) VALUES (${server.id}, ${eve.id}, '', ${ada.id}, 0)`
  for (const place of [shared.east, shared.west])
    expect(await refusal(eve.on(place).joinByInvite({ invite_code: code }))).toBe("banned")
  expect(await refusal(eve.on(shared.east).getServer({ server_id: server.id }))).toBe("access_denied")

  const full = await plantServer(shared, { owner: ada, memberCount: 249_999 })
  const invite = await ada.on(shared.west).createInvite({ channel_id: full.channel_id })
  await eve.on(shared.east).joinByInvite({ invite_code: invite.code })
  expect(await refusal(lin.on(shared.east).joinByInvite({ invite_code: invite.code }))).toBe("member_limit")
})

test("a user who has left comes back with another use of an invite", async ({ shared }) => {
  const { server, channel, ada, lin } = await shared.seed(sharedServer)
  const { code } = await ada.on(shared.east).createInvite({ channel_id: channel.id })
  for (const [there, here] of [
    [shared.east, shared.west],
    [shared.west, shared.east],
  ] as const) {
    await lin.on(there).leaveServer({ server_id: server.id })
    expect(await refusal(lin.on(here).getChannel({ channel_id: channel.id }))).toBe("access_denied")
    await lin.on(here).joinByInvite({ invite_code: code })
    expect((await lin.on(there).getServer({ server_id: server.id })).member_count).toBe(2)
  }
  expect((await lin.on(shared.east).getInvite({ invite_code: code })).uses).toBe(2)
})

test("inviting takes membership and the permission", async ({ shared }) => {
  const { channel, ada, lin } = await shared.seed(sharedServer)
  const eve = await shared.person("eve")
  const strict = await plantServer(shared, { owner: ada, members: [lin], everyone: ["channels.view"] })
  expect(await refusal(eve.on(shared.east).createInvite({ channel_id: channel.id }))).toBe("access_denied")
  expect(await refusal(lin.on(shared.west).createInvite({ channel_id: strict.channel_id }))).toBe("permission_denied")
  expect(await refusal(lin.on(shared.west).createInvite({ channel_id: "1" }))).toBe("channel_not_found")
  expect(await refusal(lin.on(shared.west).createInvite({ channel_id: "x" }))).toBe("invalid_channel_id")
  expect((await ada.on(shared.west).createInvite({ channel_id: strict.channel_id })).inviter_id).toBe(ada.id)
})

/** Ada's server, in which Lin manages it through a role and Mo is a plain member who may invite. */
async function inviting(shared: SharedCluster, permissions: Record<string, boolean> = { "server.manage": true }) {
  const { ada, lin, server, channel } = await shared.seed(sharedServer)
  const server_id = server.id
  const owner = ada.on(shared.east)
  const mo = await shared.person("mo")
  const first = await owner.createInvite({ channel_id: channel.id })
  await mo.on(shared.west).joinByInvite({ invite_code: first.code })
  const { id: role_id } = await owner.createRole({ server_id, name: "Host", permissions })
  await owner.giveRole({ server_id, member_id: lin.id, role_id })
  const channel_id = channel.id
  return { ada, lin, mo, server_id, channel_id, owner, host: lin.on(shared.west), plain: mo.on(shared.east), role_id }
}

const ofInvites = ({ name }: { name: string }) => name.startsWith("INVITE_")

test("those who manage the server are told of invites, live and after a resume; nobody else is", async ({ shared }) => {
  const { ada, lin, mo, server_id, channel_id, plain, owner } = await inviting(shared)
  const eve = await shared.person("eve")
  const [inbox, lins, ignorant, deaf, stranger] = await Promise.all([
    ada.listen(shared.west),
    lin.listen(shared.east),
    mo.listen(shared.west),
    ada.listen(shared.east, { intents: allIntents & ~bitOf("GUILD_INVITES") }),
    eve.listen(shared.east),
  ])
  const invite = await plain.createInvite({ channel_id, max_uses: 1 })
  const told = { ...invite, guild_id: server_id }
  for (const one of [inbox, lins]) expect(await one.next("INVITE_CREATE")).toEqual(told)
  lins.drop()
  // Used up.
  await eve.on(shared.west).joinByInvite({ invite_code: invite.code })
  const revoked = await plain.createInvite({ channel_id })
  await plain.deleteInvite({ invite_code: revoked.code })
  await lins.reconnect(shared.west.url)
  for (const one of [inbox, lins]) {
    expect(await one.next("INVITE_DELETE")).toEqual({ ...told, uses: 1 })
    expect(await one.next("INVITE_CREATE")).toEqual({ ...revoked, guild_id: server_id })
    expect(await one.next("INVITE_DELETE")).toEqual({ ...revoked, guild_id: server_id })
  }
  await shared.settle()
  for (const one of [inbox, lins, ignorant, deaf, stranger]) expect(one.rest().filter(ofInvites)).toEqual([])
  const log = await owner.listAuditLog({ server_id, action: "INVITE_DELETE" })
  expect(log.map(({ user_id, target_id }) => [user_id, target_id])).toEqual([[mo.id, revoked.code]])
})

test("the list has all that were not revoked, the newest first, for those who may see it", async ({ shared }) => {
  const { mo, server_id, channel_id, owner, host, plain, role_id } = await inviting(shared)
  const before = await owner.listInvites({ server_id })
  const now = Math.floor(Date.now() / 1000)
  const plant = (code: string, created_at: number, expires_at: number | null, max_uses = 0, uses = 0) => shared.sql`
    INSERT INTO invites (code, server_id, channel_id, inviter_id, max_age, max_uses, temporary, uses, created_at, expires_at)
    VALUES (${code}, ${server_id}, ${channel_id}, ${mo.id}, 60, ${max_uses}, true, ${uses}, ${created_at}, ${expires_at})`
  const codes = ["older", "expired", "used"].map(name => shared.newName(name).replaceAll("_", ""))
  await plant(codes[0]!, now - 50, now + 600, 5, 4)
  await plant(codes[1]!, now - 100, now - 1)
  await plant(codes[2]!, now - 100, now + 600, 5, 5)
  const newest = await plain.createInvite({ channel_id, max_age: 0 })
  const revoked = await plain.createInvite({ channel_id })
  await plain.deleteInvite({ invite_code: revoked.code })
  const listed = await host.listInvites({ server_id })
  expect(listed.slice(0, -3)).toEqual([newest, ...before])
  expect(listed.slice(-2).map(({ code }) => code)).toEqual(codes.slice(1).toReversed())
  expect(listed.at(-3)).toEqual({
    code: codes[0],
    server_id,
    channel_id,
    inviter_id: mo.id,
    max_age: 60,
    max_uses: 5,
    temporary: true,
    uses: 4,
    created_at: now - 50,
    expires_at: now + 600,
  })
  expect(await owner.listInvites({ server_id })).toEqual(listed)
  expect(await refusal(plain.listInvites({ server_id }))).toBe("permission_denied")
  await owner.editRole({ server_id, role_id, permissions: { "invites.manage": true } })
  expect(await host.listInvites({ server_id })).toEqual(listed)
  const eve = (await shared.person("eve")).on(shared.east)
  for (const [server, expected] of [
    [server_id, "access_denied"],
    ["1", "server_not_found"],
    ["x", "invalid_server_id"],
  ] as const)
    expect(await refusal(eve.listInvites({ server_id: server }))).toBe(expected)
})

test("an invite is revoked by who made it, and by who manages invites or the server; once", async ({ shared }) => {
  const { mo, server_id, channel_id, owner, host, plain, role_id } = await inviting(shared, { "invites.manage": true })
  const eve = await shared.person("eve")
  const made = async (rest = owner) => (await rest.createInvite({ channel_id })).code
  const revoke = (rest: typeof owner, invite_code: string) => rest.deleteInvite({ invite_code })
  const owners = await made()
  expect(await refusal(revoke(plain, owners))).toBe("permission_denied")
  expect(await refusal(revoke(eve.on(shared.west), owners))).toBe("access_denied")
  expect(await revoke(host, owners)).toEqual({ success: true })
  for (const place of [shared.east, shared.west]) {
    expect(await refusal(eve.on(place).getInvite({ invite_code: owners }))).toBe("invite_not_found")
    expect(await refusal(eve.on(place).joinByInvite({ invite_code: owners }))).toBe("invite_not_found")
  }
  expect(await refusal(revoke(host, owners))).toBe("invite_not_found")
  await revoke(plain, await made(plain))
  await revoke(owner, await made(plain))
  await owner.editRole({ server_id, role_id, permissions: { "server.manage": true } })
  await revoke(host, await made())
  // A user who has left has no say any more, also about what they made.
  const left = await made(plain)
  await plain.leaveServer({ server_id })
  expect(await refusal(revoke(plain, left))).toBe("access_denied")
  expect((await owner.getInvite({ invite_code: left })).inviter_id).toBe(mo.id)
  // What is over already cannot be revoked.
  await shared.sql`UPDATE invites SET expires_at = ${Math.floor(Date.now() / 1000) - 1} WHERE code = ${left}`
  const other = await plantServer(shared, { owner: eve })
  const planted = shared.newName("planted").replaceAll("_", "")
  await shared.sql`
    INSERT INTO invites (code, server_id, channel_id, inviter_id, max_age, max_uses, temporary, uses, created_at, expires_at)
    VALUES (${planted}, ${other.server_id}, ${other.channel_id}, ${eve.id}, 60, 0, false, 0, 1, 61)`
  expect(await refusal(revoke(eve.on(shared.east), planted))).toBe("invite_not_found")
  for (const invite_code of ["AAAAAAAAAAAA", "ä", "'; DROP TABLE invites; --"])
    expect(await refusal(revoke(owner, invite_code))).toBe("invite_not_found")
})

test("the latest thousand ended invites of a server are kept, and do not count against its limit", async ({
  shared,
}) => {
  const { server_id, channel_id, owner } = await inviting(shared)
  const eve = await shared.person("eve")
  const before = await owner.listInvites({ server_id })
  const now = Math.floor(Date.now() / 1000)
  const name = shared.newName("ended").replaceAll("_", "")
  await shared.sql`
    INSERT INTO invites (code, server_id, channel_id, max_age, max_uses, temporary, uses, created_at, expires_at, ended_at)
    SELECT ${name} || i, ${server_id}, ${channel_id}, 60, 0, false, 0, ${now} - 100000 + i, ${now} - 99000 + i, ${now} - 99000 + i
    FROM generate_series(1, ${limits.endedInvitesKept}) AS i`
  const used = await owner.createInvite({ channel_id, max_uses: 1 })
  await eve.on(shared.west).joinByInvite({ invite_code: used.code })
  const listed = await owner.listInvites({ server_id })
  expect(listed).toHaveLength(before.length + limits.endedInvitesKept)
  const codes = listed.map(({ code }) => code)
  expect([codes.includes(used.code), codes.includes(`${name}1`), codes.includes(`${name}2`)]).toEqual([
    true,
    false,
    true,
  ])
})

test("when twenty users at once through both workers want the last place, exactly one gets it, revoked or not", async ({
  shared,
}) => {
  const { server_id, channel_id, owner, ada } = await inviting(shared)
  const people = await Promise.all(Array.from({ length: 20 }, () => shared.person("guest")))
  const inbox = await ada.listen(shared.west)
  const { code } = await owner.createInvite({ channel_id, max_uses: 1 })
  const before = (await owner.getServer({ server_id })).member_count
  const outcomes = await Promise.allSettled(
    people.map((person, i) => person.on(i % 2 ? shared.east : shared.west).joinByInvite({ invite_code: code })),
  )
  expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(1)
  for (const outcome of outcomes)
    if (outcome.status === "rejected")
      expect(await refusal(Promise.reject(outcome.reason as Error))).toBe("invite_not_found")
  expect((await owner.getServer({ server_id })).member_count).toBe(before + 1)
  await inbox.next("INVITE_DELETE")

  const again = await owner.createInvite({ channel_id, max_uses: 1 })
  const stranger = people[outcomes.findIndex(({ status }) => status === "rejected")]!
  const [joined, revoked] = await Promise.allSettled([
    stranger.on(shared.west).joinByInvite({ invite_code: again.code }),
    owner.deleteInvite({ invite_code: again.code }),
  ])
  expect([joined.status, revoked.status].toSorted()).toEqual(["fulfilled", "rejected"])
  await inbox.next("INVITE_DELETE")
  await shared.settle()
  expect(inbox.rest().filter(({ name }) => name === "INVITE_DELETE")).toEqual([])
})

test("an invite that ends by its time is told of; one whose channel has gone leads to the server", async ({
  cluster,
}) => {
  const [place] = await cluster.boot(1)
  await cluster.bootJobWorker()
  const { ada, server, channel } = await cluster.seed(sharedServer)
  const owner = ada.on(place!)
  const inbox = await ada.listen(place!)
  const short = await owner.createInvite({ channel_id: channel.id, max_age: 1 })
  expect((await inbox.next("INVITE_DELETE", { timeoutMs: 20_000 })).code).toBe(short.code)
  const ended = await cluster.sql`SELECT ended_at >= expires_at AS after FROM invites WHERE code = ${short.code}`
  expect(ended).toEqual([{ after: true }])
  const { code } = await owner.createInvite({ channel_id: channel.id, max_uses: 1 })
  await cluster.sql`UPDATE invites SET channel_id = NULL WHERE code = ${code}`
  const eve = await cluster.person("eve")
  expect((await eve.on(place!).getInvite({ invite_code: code })).channel_id).toBeNull()
  expect(await eve.on(place!).joinByInvite({ invite_code: code })).toMatchObject({ server_id: server.id })
})

test("a server has at most a thousand invites; one that ends frees a place", async ({ shared }) => {
  const { server_id, channel_id, owner, plain, mo } = await inviting(shared)
  // So many by now: counted when the home wakes.
  const planted = await plantServer(shared, { owner: mo })
  await shared.sql`
    INSERT INTO invites (code, server_id, channel_id, max_age, max_uses, temporary, uses, created_at)
    SELECT 'limit' || ${planted.server_id}::text || n, ${planted.server_id}, ${planted.channel_id}, 0, 0, false, 0, 1 FROM generate_series(1, 998) AS n`
  const make = (place = shared.west) => mo.on(place).createInvite({ channel_id: planted.channel_id })
  const outcomes = await Promise.allSettled([make(), make(shared.east), make(), make(shared.east)])
  expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(2)
  expect(await refusal(make())).toBe("invite_limit")
  await plain.deleteInvite({ invite_code: `limit${planted.server_id}7` })
  const last = await make()
  expect(await refusal(make())).toBe("invite_limit")
  expect(await plain.listInvites({ server_id: planted.server_id })).toHaveLength(1_000)
  await plain.deleteInvite({ invite_code: last.code })
  // Others have theirs.
  const other = await owner.createInvite({ channel_id })
  expect(await owner.listInvites({ server_id })).toContainEqual(other)
})
