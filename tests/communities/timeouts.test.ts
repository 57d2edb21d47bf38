/** Time-outs: who may time out whom, what they take, and how they end. */
import { opcodes } from "../../src/contract/core/gateway-codes.ts"
import { shardOf } from "../../src/domain/core/snowflake.ts"
import { refusal } from "../kit/conformance.ts"
import type { Person } from "../kit/person.ts"
import { sharedServer } from "../kit/seeds.ts"
import { expect, test, type SharedCluster } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const seconds = () => Math.floor(Date.now() / 1000)

/**
 * Ada's server, in which Lin may kick through a role, below an administrator; Mo is a plain member.
 */
async function guarded(shared: SharedCluster) {
  const { ada, lin, server, channel } = await shared.seed(sharedServer)
  const server_id = server.id
  const owner = ada.on(shared.east)
  const [mo, ida] = [await shared.person("mo"), await shared.person("ida")]
  const { code } = await owner.createInvite({ channel_id: channel.id })
  for (const person of [mo, ida]) await person.on(shared.west).joinByInvite({ invite_code: code })
  const crown = await owner.createRole({ server_id, name: "Crown", permissions: { administrator: true } })
  const guard = await owner.createRole({ server_id, name: "Guard", permissions: { "members.kick": true } })
  await owner.giveRole({ server_id, member_id: lin.id, role_id: guard.id })
  await owner.giveRole({ server_id, member_id: ida.id, role_id: crown.id })
  const member_id = mo.id
  return { ada, lin, mo, ida, server_id, member_id, channel, code, owner, guard, moderator: lin.on(shared.west) }
}

const timeoutIn = async ({ sql }: SharedCluster, server_id: string, { id }: Person) =>
  (await sql`SELECT timeout_until, timeout_reason FROM members WHERE server_id = ${server_id} AND user_id = ${id}`)[0]

test("a member who is timed out may read, and neither write nor type nor edit; they are told, and so is every member", async ({
  shared,
}) => {
  const { lin, mo, ada, server_id, member_id, channel, moderator, owner } = await guarded(shared)
  const channel_id = channel.id
  const plain = mo.on(shared.east)
  const { id: message_id } = await plain.createMessage({ channel_id, content: "spam" })
  const [mos, own] = await Promise.all([mo.listen(shared.west), ada.listen(shared.east)])
  const until = seconds() + 3_600
  const shown = await moderator.editMember({ server_id, member_id, timeout_until: until, timeout_reason: "Spam" })
  expect(shown).toMatchObject({ user_id: mo.id, timeout_until: until, timeout_reason: "Spam", nickname: null })
  for (const inbox of [mos, own])
    expect(await inbox.next("GUILD_MEMBER_UPDATE")).toMatchObject({
      server_id,
      guild_id: server_id,
      user: { id: mo.id, username: mo.username },
      user_id: mo.id,
      roles: [server_id],
      timeout_until: until,
      timeout_reason: "Spam",
    })
  for (const place of [shared.east, shared.west]) {
    const rest = mo.on(place)
    expect(await refusal(rest.createMessage({ channel_id, content: "more" }))).toBe("timed_out")
    expect(await refusal(rest.editMessage({ channel_id, message_id, content: "more" }))).toBe("timed_out")
    // To type needs no more than to see the channel.
    expect(await rest.startTyping({ channel_id })).toEqual({ success: true })
    expect(await rest.listMessages({ channel_id })).toHaveLength(1)
  }
  await plain.deleteMessage({ channel_id, message_id })
  const [entry] = await owner.listAuditLog({ server_id, action: "MEMBER_UPDATE" })
  expect(entry).toMatchObject({
    user_id: lin.id,
    target_id: mo.id,
    target_type: "member",
    reason: "Spam",
    changes: { timeout_until: { old: null, new: until }, timeout_reason: { old: null, new: "Spam" } },
  })

  const lifted = await moderator.editMember({ server_id, member_id, timeout_until: 0 })
  expect(lifted).toMatchObject({ timeout_until: null, timeout_reason: null })
  expect((await mos.next("GUILD_MEMBER_UPDATE")).timeout_until).toBeNull()
  await plain.createMessage({ channel_id, content: "sorry" })
  // It is lifted already: nobody is told.
  await moderator.editMember({ server_id, member_id, timeout_seconds: 0 })
  await shared.settle()
  expect(mos.rest().filter(({ name }) => name === "GUILD_MEMBER_UPDATE")).toEqual([])
})

test("a member who is timed out leaves voice at once and cannot come back", async ({ shared }) => {
  const { ada, mo, server_id, member_id, owner, moderator } = await guarded(shared)
  const { id: channel_id } = await owner.createChannel({ server_id, name: "talk", type: "voice" })
  const [caller, watcher] = await Promise.all([mo.listen(shared.east), ada.listen(shared.west)])
  const connect = () => caller.send({ op: opcodes.VOICE_CONNECT.op, d: { channel_id } })
  connect()
  await caller.next("VOICE_SERVER_UPDATE")
  for (const inbox of [caller, watcher]) expect((await inbox.next("VOICE_STATE_UPDATE")).channel_id).toBe(channel_id)
  await moderator.editMember({ server_id, member_id, timeout_seconds: 600 })
  for (const inbox of [caller, watcher])
    expect(await inbox.next("VOICE_STATE_UPDATE")).toMatchObject({ user_id: mo.id, channel_id: null })
  connect()
  // Which is the refusal.
  expect(await caller.next("VOICE_STATE_UPDATE")).toMatchObject({ user_id: mo.id, channel_id: null, server_id: null })
  await shared.settle()
  for (const inbox of [caller, watcher])
    expect(inbox.rest().filter(({ name }) => name.startsWith("VOICE_"))).toEqual([])
  await moderator.editMember({ server_id, member_id, timeout_seconds: 0 })
  connect()
  await caller.next("VOICE_SERVER_UPDATE")
})

test("MEM2: a time-out takes a permission and a higher rank, and never meets owner, administrators or oneself", async ({
  shared,
}) => {
  const { ada, lin, mo, ida, server_id, owner, guard, moderator } = await guarded(shared)
  const out = (rest: typeof moderator, { id }: Person) =>
    rest.editMember({ server_id, member_id: id, timeout_seconds: 60 })
  expect(await refusal(out(mo.on(shared.east), lin))).toBe("permission_denied")
  expect(await refusal(out(mo.on(shared.east), mo))).toBe("permission_denied")
  expect(await refusal(out(moderator, ada))).toBe("rank_too_low")
  expect(await refusal(out(moderator, lin))).toBe("rank_too_low")
  expect(await refusal(out(owner, ada))).toBe("rank_too_low")
  expect(await refusal(out(ida.on(shared.west), ida))).toBe("rank_too_low")
  // Administrator through the lowest role; Lin ranks above it.
  expect(await refusal(out(moderator, ida))).toBe("administrator_timeout")
  expect(await refusal(out(owner, ida))).toBe("administrator_timeout")
  await owner.giveRole({ server_id, member_id: mo.id, role_id: guard.id })
  expect(await refusal(out(moderator, mo))).toBe("rank_too_low")
  expect(await timeoutIn(shared, server_id, mo)).toEqual({ timeout_until: null, timeout_reason: null })
  await out(owner, mo)
  // Nor may they lift their own.
  expect(await refusal(mo.on(shared.east).editMember({ server_id, member_id: mo.id, timeout_until: 0 }))).toBe(
    "rank_too_low",
  )
  expect(await refusal(out((await shared.person("eve")).on(shared.west), mo))).toBe("access_denied")
})

test("a time-out ends in the future, 28 days ahead at most, and is given in one way", async ({ shared }) => {
  const { mo, server_id, member_id, moderator } = await guarded(shared)
  const edit = (patch: object) => moderator.editMember({ server_id, member_id, ...patch })
  const day = 86_400
  for (const timeout_until of [1, seconds() - 1, seconds(), seconds() + 28 * day + 60])
    expect(await refusal(edit({ timeout_until }))).toBe("invalid_timeout")
  for (const patch of [
    { timeout_until: -1 },
    { timeout_until: 1.5 },
    { timeout_until: "soon" },
    { timeout_seconds: -1 },
    { timeout_seconds: 28 * day + 1 },
    { timeout_until: seconds() + 60, timeout_seconds: 60 },
    { timeout_reason: "alone" },
    { timeout_seconds: 60, timeout_reason: "x".repeat(513) },
  ])
    expect(await refusal(edit(patch)), JSON.stringify(patch)).toBe("validation_failed")
  expect(await timeoutIn(shared, server_id, mo)).toEqual({ timeout_until: null, timeout_reason: null })
  const before = seconds()
  const { timeout_until } = await edit({ timeout_seconds: 28 * day, timeout_reason: "x".repeat(512) })
  expect(timeout_until! - before - 28 * day).toBeLessThan(5)
  expect((await edit({ timeout_until: null, timeout_seconds: null, timeout_reason: null })).timeout_until).toBe(
    timeout_until,
  )
})

test("JOIN4: nobody escapes a time-out by leaving and coming back, or by being kicked; what is over stays over", async ({
  shared,
}) => {
  const { mo, ada, server_id, member_id, channel, code, owner, moderator } = await guarded(shared)
  const channel_id = channel.id
  const plain = mo.on(shared.east)
  const { timeout_until } = await moderator.editMember({
    server_id,
    member_id,
    timeout_seconds: 600,
    timeout_reason: "Spam",
  })
  const inbox = await ada.listen(shared.west)
  const known = { timeout_until, timeout_reason: "Spam" }
  for (const goes of [
    () => plain.leaveServer({ server_id }),
    () => owner.kickMember({ server_id, member_id }),
    async () => {
      await owner.banUser({ server_id, user_id: member_id })
      await owner.unbanUser({ server_id, user_id: member_id })
    },
  ]) {
    await goes()
    await plain.joinByInvite({ invite_code: code })
    expect(await inbox.next("GUILD_MEMBER_ADD")).toMatchObject({ user_id: mo.id, ...known })
    expect(await refusal(plain.createMessage({ channel_id, content: "back" }))).toBe("timed_out")
    expect(await timeoutIn(shared, server_id, mo)).toEqual(known)
    expect(await shared.sql`SELECT FROM left_timeouts WHERE server_id = ${server_id}`).toHaveLength(0)
  }
  await plain.leaveServer({ server_id })
  await moderator.editMember({ server_id, member_id: (await another(shared, code)).id, timeout_seconds: 1 })
  await shared.sql`UPDATE left_timeouts SET timeout_until = ${seconds() - 1} WHERE server_id = ${server_id}`
  await shared.sql`UPDATE members SET timeout_until = ${seconds() - 1} WHERE server_id = ${server_id}`
  // A member who leaves after it is over leaves nothing behind, and what others left goes with a
  // member who leaves while theirs is on.
  const noisy = await another(shared, code)
  await moderator.editMember({ server_id, member_id: noisy.id, timeout_seconds: 600 })
  await noisy.on(shared.west).leaveServer({ server_id })
  expect(await shared.sql`SELECT user_id FROM left_timeouts WHERE server_id = ${server_id}`).toEqual([
    { user_id: noisy.id },
  ])
})

async function another(shared: SharedCluster, code: string): Promise<Person> {
  const person = await shared.person("another")
  await person.on(shared.west).joinByInvite({ invite_code: code })
  return person
}

test("a time-out ends by itself, after its server has gone to another worker, too", async ({ cluster }) => {
  const [east, west] = await cluster.boot(2)
  const { ada, lin, server, channel } = await cluster.seed(sharedServer)
  const server_id = server.id
  const [row] = await cluster.sql`SELECT owner FROM shards WHERE shard = ${shardOf(server_id)}`
  const [owner, other] = row!["owner"] === east!.id ? [east!, west!] : [west!, east!]
  const mo = await cluster.person("mo")
  const { code } = await ada.on(owner).createInvite({ channel_id: channel.id })
  await mo.on(owner).joinByInvite({ invite_code: code })
  // However long the move takes, the one is not over by then; the other may be.
  const [long, short] = [seconds() + 3_600, seconds() + 3]
  await ada.on(owner).editMember({ server_id, member_id: lin.id, timeout_until: long })
  await ada.on(owner).editMember({ server_id, member_id: mo.id, timeout_until: short })
  const post = (who: Person) => who.on(other).createMessage({ channel_id: channel.id, content: "x" })
  expect(await refusal(post(lin))).toBe("timed_out")
  await owner.drain()
  expect(await refusal(post(lin))).toBe("timed_out")
  expect((await ada.on(other).getMember({ server_id, member_id: lin.id })).timeout_until).toBe(long)
  await until("it is over", () => seconds() >= short)
  await post(mo)
  expect(await refusal(post(lin))).toBe("timed_out")
})
