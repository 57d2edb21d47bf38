import { refusal } from "./kit/conformance.ts"
import { plantMessage, sharedServer } from "./kit/seeds.ts"
import { expect, test, type SharedCluster } from "./kit/test.ts"

/** Ada's server, in which Lin may kick and ban through his role; Mo is a plain member, Eve a stranger. */
async function moderated(shared: SharedCluster) {
  const { ada, lin, server, channel } = await shared.seed(sharedServer)
  const [mo, eve] = [await shared.person("mo"), await shared.person("eve")]
  const server_id = server.id
  const owner = ada.on(shared.east)
  const { code } = await owner.createInvite({ channel_id: channel.id })
  await mo.on(shared.west).joinByInvite({ invite_code: code })
  const { id: role_id } = await owner.createRole({
    server_id,
    name: "Moderator",
    permissions: { "members.kick": true, "members.ban": true },
  })
  await owner.giveRole({ server_id, member_id: lin.id, role_id })
  return { ada, lin, mo, eve, server_id, channel, code, owner, moderator: lin.on(shared.west), role_id }
}

test("a kicked member is out, everybody is told, and an invite lets him in again", async ({ shared }) => {
  const { ada, mo, server_id, channel, code, moderator } = await moderated(shared)
  const [inbox, own] = await Promise.all([mo.listen(shared.east), ada.listen(shared.west)])
  expect(await moderator.kickMember({ server_id, member_id: mo.id })).toEqual({ success: true })
  expect((await inbox.next("GUILD_DELETE")).id).toBe(server_id)
  expect(await own.next("GUILD_MEMBER_REMOVE")).toEqual({ guild_id: server_id, server_id, user: { id: mo.id } })
  for (const place of [shared.east, shared.west]) {
    expect(await refusal(mo.on(place).listMessages({ channel_id: channel.id }))).toBe("access_denied")
    expect(await mo.on(place).listServers()).toEqual([])
  }
  expect(await refusal(moderator.kickMember({ server_id, member_id: mo.id }))).toBe("member_not_found")
  await mo.on(shared.west).joinByInvite({ invite_code: code })
  expect((await inbox.next("GUILD_CREATE")).id).toBe(server_id)
})

test("a banned user is out and stays out until the ban is lifted; those who may ban are told", async ({ shared }) => {
  const { ada, lin, mo, eve, server_id, code, owner, moderator } = await moderated(shared)
  const [inbox, own, his] = await Promise.all([
    mo.listen(shared.east),
    ada.listen(shared.west),
    lin.listen(shared.east),
  ])
  const plain = await shared.person("plain")
  await plain.on(shared.east).joinByInvite({ invite_code: code })
  const ignorant = await plain.listen(shared.west)

  await moderator.banUser({ server_id, user_id: mo.id, reason: "spam" })
  expect((await inbox.next("GUILD_DELETE")).id).toBe(server_id)
  const about = (person: { id: string; username: string }) => ({
    guild_id: server_id,
    server_id,
    user: { id: person.id, username: person.username },
  })
  for (const client of [own, his]) expect(await client.next("GUILD_BAN_ADD")).toEqual(about(mo))
  await owner.banUser({ server_id, user_id: eve.id })
  const seconds = Math.floor(Date.now() / 1000)
  const bans = await moderator.listBans({ server_id })
  expect(bans).toHaveLength(2)
  expect(bans.find(({ user_id }) => user_id === mo.id)).toMatchObject({ reason: "spam", banned_by: lin.id })
  const other = bans.find(({ user_id }) => user_id === eve.id)!
  expect(other).toMatchObject({ reason: "", banned_by: ada.id })
  expect(Math.abs(other.banned_at - seconds)).toBeLessThan(60)
  for (const person of [mo, eve])
    for (const place of [shared.east, shared.west])
      expect(await refusal(person.on(place).joinByInvite({ invite_code: code }))).toBe("banned")

  await owner.banUser({ server_id, user_id: mo.id, reason: "more spam" })
  const [again] = (await owner.listBans({ server_id })).filter(({ user_id }) => user_id === mo.id)
  expect(again).toMatchObject({ reason: "more spam", banned_by: ada.id })

  expect(await moderator.unbanUser({ server_id, user_id: mo.id })).toEqual({ success: true })
  for (const client of [own, his]) expect(await client.next("GUILD_BAN_REMOVE")).toEqual(about(mo))
  expect(await refusal(owner.unbanUser({ server_id, user_id: mo.id }))).toBe("ban_not_found")
  await mo.on(shared.west).joinByInvite({ invite_code: code })
  await shared.settle()
  expect(ignorant.rest().map(({ name }) => name)).toEqual(["GUILD_MEMBER_REMOVE", "GUILD_MEMBER_ADD"])
})

test("nobody removes the owner, himself, or whoever ranks as high", async ({ shared }) => {
  const { ada, lin, mo, server_id, owner, moderator, role_id } = await moderated(shared)
  await owner.giveRole({ server_id, member_id: mo.id, role_id })
  for (const person of [ada, lin, mo]) {
    expect(await refusal(moderator.kickMember({ server_id, member_id: person.id }))).toBe("rank_too_low")
    expect(await refusal(moderator.banUser({ server_id, user_id: person.id }))).toBe("rank_too_low")
  }
  expect(await refusal(owner.kickMember({ server_id, member_id: ada.id }))).toBe("rank_too_low")
  expect(await refusal(owner.banUser({ server_id, user_id: ada.id }))).toBe("rank_too_low")
  await owner.takeRole({ server_id, member_id: mo.id, role_id })
  await moderator.kickMember({ server_id, member_id: mo.id })
})

test("moderation: 403 for others, 404 for what is not there, 400 for what is no id", async ({ shared }) => {
  const { lin, mo, eve, server_id, owner } = await moderated(shared)
  for (const [person, server, expected] of [
    [eve, server_id, "access_denied"],
    [eve, "1", "server_not_found"],
    [eve, "x", "invalid_server_id"],
    [mo, server_id, "permission_denied"],
  ] as const) {
    const rest = person.on(shared.west)
    const ids = { server_id: server, user_id: lin.id }
    expect(await refusal(rest.kickMember({ server_id: server, member_id: lin.id }))).toBe(expected)
    expect(await refusal(rest.listBans(ids))).toBe(expected)
    expect(await refusal(rest.banUser(ids))).toBe(expected)
    expect(await refusal(rest.unbanUser(ids))).toBe(expected)
  }
  expect(await refusal(owner.kickMember({ server_id, member_id: "x" }))).toBe("invalid_id")
  expect(await refusal(owner.banUser({ server_id, user_id: "x" }))).toBe("invalid_user_id")
  expect(await refusal(owner.unbanUser({ server_id, user_id: "x" }))).toBe("invalid_user_id")
  expect(await refusal(owner.banUser({ server_id, user_id: "1" }))).toBe("server_or_user_not_found")
  for (const wrong of [{ reason: "x".repeat(513) }, { delete_message_days: 8 }])
    expect(await refusal(owner.banUser({ server_id, user_id: mo.id, ...wrong }))).toBe("validation_failed")
})

test("a ban may take with it what the banned wrote in the last days, in every channel, and nothing else", async ({
  cluster,
}) => {
  const [place] = await cluster.boot(1)
  await cluster.bootJobWorker()
  const { ada, lin, server, channel } = await cluster.seed(sharedServer)
  const server_id = server.id
  const [owner, member] = [ada.on(place!), lin.on(place!)]
  const second = await owner.createChannel({ server_id, name: "second" })
  const others = await owner.createMessage({ channel_id: channel.id, content: "Ada's" })
  const old = await plantMessage(cluster, { server_id, channel_id: channel.id, author: lin, content: "long ago" })
  const post = (channel_id: string, n: number) => member.createMessage({ channel_id, content: `${n}`, nonce: `${n}` })
  const first = await Promise.all(Array.from({ length: 120 }, (_, n) => post(channel.id, n)))
  const there = await post(second.id, 120)
  const inbox = await ada.listen(place!)
  await owner.banUser({ server_id, user_id: lin.id, delete_message_days: 1 })
  const gone: string[] = []
  while (gone.length < 121) gone.push(...(await inbox.next("MESSAGE_DELETE_BULK", { timeoutMs: 20_000 })).ids)
  expect(new Set(gone)).toEqual(new Set([...first, there].map(({ id }) => id)))
  const left = await owner.listMessages({ channel_id: channel.id })
  expect(left.map(({ id }) => id)).toEqual([others.id, old])
  expect(await owner.listMessages({ channel_id: second.id })).toEqual([])
})
