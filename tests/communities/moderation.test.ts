import { refusal } from "../kit/conformance.ts"
import { plantMessage, sharedServer } from "../kit/seeds.ts"
import { expect, test, type SharedCluster } from "../kit/test.ts"
import { until } from "../kit/until.ts"

/**
 * Ada's server, in which Lin may kick and ban through their role; Mo is a plain member, Eve a
 * stranger.
 */
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

test("a kicked member is out, everybody is told, and an invite lets them in again", async ({ shared }) => {
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
  const [inbox, own, lins] = await Promise.all([
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
  for (const client of [own, lins]) expect(await client.next("GUILD_BAN_ADD")).toEqual(about(mo))
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
  for (const client of [own, lins]) expect(await client.next("GUILD_BAN_REMOVE")).toEqual(about(mo))
  expect(await refusal(owner.unbanUser({ server_id, user_id: mo.id }))).toBe("ban_not_found")
  await mo.on(shared.west).joinByInvite({ invite_code: code })
  await shared.settle()
  expect(ignorant.rest().map(({ name }) => name)).toEqual(["GUILD_MEMBER_REMOVE", "GUILD_MEMBER_ADD"])
})

test("nobody removes the owner, themselves, or a member who ranks as high", async ({ shared }) => {
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

test("why somebody was kicked is in the log: as the query says, else as the header does", async ({ shared }) => {
  const { lin, mo, server_id, code, owner, moderator } = await moderated(shared)
  const kick = async (reason: { query?: string; header?: string }) => {
    if (reason.header === undefined)
      await moderator.kickMember({ server_id, member_id: mo.id, ...(reason.query && { reason: reason.query }) })
    else {
      const query = reason.query === undefined ? "" : `?reason=${encodeURIComponent(reason.query)}`
      const { status } = await fetch(`${shared.west.url}/api/v1/servers/${server_id}/members/${mo.id}${query}`, {
        method: "DELETE",
        headers: { authorization: `Bearer ${lin.token}`, "x-audit-log-reason": encodeURIComponent(reason.header) },
      })
      expect(status).toBe(200)
    }
    await mo.on(shared.east).joinByInvite({ invite_code: code })
    const [entry] = await owner.listAuditLog({ server_id, action: "MEMBER_KICK", limit: "1" })
    expect(entry).toMatchObject({ user_id: lin.id, target_id: mo.id })
    return entry!.reason
  }
  expect(await kick({})).toBe("")
  expect(await kick({ query: "spam ä 🐦" })).toBe("spam ä 🐦")
  expect(await kick({ header: "said so" })).toBe("said so")
  expect(await kick({ query: "x".repeat(512), header: "said so" })).toBe("x".repeat(512))
  const long = moderator.kickMember({ server_id, member_id: mo.id, reason: "x".repeat(513) })
  expect(await refusal(long)).toBe("validation_failed")
})

test("bans are listed by user id, page by page", async ({ shared }) => {
  const { server_id, owner } = await moderated(shared)
  const ids = Array.from({ length: 5 }, (_, i) => String(4_000_000_000_000_000 + i))
  await shared.sql`
    INSERT INTO bans (server_id, user_id, reason, banned_by, banned_at)
    SELECT ${server_id}, id, '', id, 1 FROM unnest(${ids}::bigint[]) AS id`
  const all = await owner.listBans({ server_id })
  const pages = [await owner.listBans({ server_id, limit: "2" })]
  for (let page = pages[0]!; page.length > 0; pages.push(page))
    page = await owner.listBans({ server_id, limit: "2", after: page.at(-1)!.user_id })
  expect(pages.map(page => page.length)).toEqual([2, 2, 1, 0])
  expect(pages.flat()).toEqual(all)
  for (const query of [{ limit: "0" }, { limit: "1001" }, { after: "x" }])
    expect(await refusal(owner.listBans({ server_id, ...query }))).toBe("validation_failed")
})

test("a user who is banned while they join elsewhere is no member, whichever was first", async ({ shared }) => {
  const { server_id, code, owner, moderator } = await moderated(shared)
  const people = await Promise.all(Array.from({ length: 8 }, () => shared.person("guest")))
  const before = (await owner.getServer({ server_id })).member_count
  const outcomes = await Promise.all(
    people.map(async (person, i) => {
      const join = () => person.on(i % 2 ? shared.east : shared.west).joinByInvite({ invite_code: code })
      const ban = () => moderator.banUser({ server_id, user_id: person.id })
      const [joined] = await Promise.allSettled(i % 4 < 2 ? [join(), ban()] : [ban().then(join), Promise.resolve()])
      return joined
    }),
  )
  for (const outcome of outcomes)
    if (outcome.status === "rejected") expect(await refusal(Promise.reject(outcome.reason as Error))).toBe("banned")
  expect((await owner.getServer({ server_id })).member_count).toBe(before)
  const ids = people.map(({ id }) => id)
  expect(await shared.sql`SELECT FROM members WHERE user_id = ANY(${ids}::bigint[])`).toHaveLength(0)
  expect(await shared.sql`SELECT FROM bans WHERE server_id = ${server_id}`).toHaveLength(people.length)
  for (const person of people)
    expect(await refusal(person.on(shared.west).getServer({ server_id }))).toBe("access_denied")
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
  const { ada, lin, server, channel } = await cluster.seed(sharedServer)
  const server_id = server.id
  const [owner, member] = [ada.on(place!), lin.on(place!)]
  const second = await owner.createChannel({ server_id, name: "second" })
  // Of another ban the queue knows nothing any longer.
  const mo = await cluster.person("mo")
  const lost = await plantMessage(cluster, { server_id, channel_id: channel.id, author: mo, content: "lost" })
  // Nor of a channel that is gone.
  const stray = await plantMessage(cluster, { server_id, channel_id: server_id, author: mo, content: "stray" })
  await cluster.sql`
    INSERT INTO message_deletions (server_id, user_id, after_id, before_id) VALUES (${server_id}, ${mo.id}, 0, ${lost}::bigint + 1)`
  await cluster.bootJobWorker()
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
  expect(left.map(({ id }) => id).filter(id => id !== lost)).toEqual([others.id, old])
  expect(await owner.listMessages({ channel_id: second.id })).toEqual([])
  const isDone = async () => (await cluster.sql`SELECT FROM message_deletions`).length === 0
  await until("nothing is left to be done", isDone, { timeoutMs: 20_000 })
  const strays = () => cluster.sql`SELECT FROM messages WHERE id = ${stray}`
  await until("messages of no channel are gone", async () => (await strays()).length === 0, { timeoutMs: 20_000 })
  expect(await cluster.sql`SELECT FROM messages WHERE id = ${lost} AND NOT deleted`).toHaveLength(0)
})
