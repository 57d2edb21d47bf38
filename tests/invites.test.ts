import { refusal } from "./kit/conformance.ts"
import { plantServer, sharedServer } from "./kit/seeds.ts"
import { expect, test } from "./kit/test.ts"

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

test("of parallel uses of the last one on two workers exactly one wins", async ({ shared }) => {
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
  expect(await shared.sql`SELECT uses FROM invites WHERE code = ${code}`).toEqual([{ uses: 2 }])
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

test("an invite whose time is over lets nobody in", async ({ shared }) => {
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

test("whoever has left comes back with another use of an invite", async ({ shared }) => {
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
