/** What somebody wants to be told of, by server and channel. */
import { userActor } from "../../src/actors/user.ts"
import { limits } from "../../src/contract/core/limits.ts"
import type { Worker } from "../kit/cluster.ts"
import { refusal } from "../kit/conformance.ts"
import type { Person } from "../kit/person.ts"
import { dmBetween, plantedId, plantServer, sharedServer } from "../kit/seeds.ts"
import { expect, test } from "../kit/test.ts"

const nothing = { level: null, muted: false, muted_until: 0 }
const notMuted = (level: "all" | "mentions" | "nothing") => ({ level, muted: false })

test("a choice is kept, told to all of one's sessions and to nobody else, and follows the server where there is none", async ({
  shared,
}) => {
  const { ada, lin, server, channel } = await shared.seed(sharedServer)
  const [server_id, channel_id] = [server.id, channel.id]
  const [here, there] = [lin.on(shared.east), lin.on(shared.west)]
  const inboxes = [await lin.listen(shared.east), await lin.listen(shared.west)]
  const foreign = await ada.listen(shared.west)
  const ofServer = { server_id, guild_id: server_id, channel_id: null }
  expect(await here.getServerNotificationSettings({ server_id })).toEqual({
    ...ofServer,
    ...nothing,
    effective: notMuted("all"),
  })
  await ada.on(shared.east).editServer({ server_id, default_message_notifications: 1 })
  for (const inbox of [...inboxes, foreign]) await inbox.next("GUILD_UPDATE")
  const inChannel = await there.getChannelNotificationSettings({ channel_id })
  expect(inChannel).toEqual({ ...ofServer, channel_id, ...nothing, effective: notMuted("mentions") })

  const chosen = await here.putServerNotificationSettings({ server_id, level: "nothing" })
  expect(chosen).toEqual({ ...ofServer, ...nothing, level: "nothing", effective: notMuted("nothing") })
  for (const inbox of inboxes) expect(await inbox.next("NOTIFICATION_SETTINGS_UPDATE")).toEqual(chosen)
  expect((await there.getChannelNotificationSettings({ channel_id })).effective).toEqual(notMuted("nothing"))
  const loud = await there.putChannelNotificationSettings({ channel_id, level: "all", muted_until: 9_000_000_000 })
  expect(loud).toMatchObject({ channel_id, level: "all", muted: true, muted_until: 9_000_000_000 })
  expect(loud.effective).toEqual({ level: "all", muted: true })
  for (const inbox of inboxes) expect(await inbox.next("NOTIFICATION_SETTINGS_UPDATE")).toEqual(loud)
  for (const rest of [here, there]) expect(await rest.getChannelNotificationSettings({ channel_id })).toEqual(loud)
  // What is left out stays; without an end it is for ever.
  expect(await here.putChannelNotificationSettings({ channel_id, level: null })).toEqual(loud)
  expect(await here.putChannelNotificationSettings({ channel_id, muted: true })).toMatchObject({
    level: "all",
    muted: true,
    muted_until: 0,
  })
  for (const inbox of inboxes) for (let i = 0; i < 2; i++) await inbox.next("NOTIFICATION_SETTINGS_UPDATE")

  const choices = async (rest: typeof here) =>
    (await rest.listNotificationSettings()).map(one => [one.server_id, one.channel_id, one.level, one.muted])
  for (const rest of [here, there])
    expect(await choices(rest)).toEqual([
      [server_id, null, "nothing", false],
      [server_id, channel_id, "all", true],
    ])
  expect(await choices(ada.on(shared.east))).toEqual([])

  // A mute of the server is one of its channels.
  await here.putChannelNotificationSettings({ channel_id, level: "default", muted: false })
  await here.putServerNotificationSettings({ server_id, muted: true })
  expect(await there.getChannelNotificationSettings({ channel_id })).toMatchObject({
    ...nothing,
    effective: { level: "nothing", muted: true },
  })
  const rows =
    await shared.sql`SELECT channel_id = 0 AS whole, level, muted FROM notification_settings WHERE user_id = ${lin.id}`
  expect(rows).toEqual([{ whole: true, level: "nothing", muted: true }])
  expect(await ada.on(shared.west).getServerNotificationSettings({ server_id })).toMatchObject(nothing)

  // To replay it is an event like any other.
  const [inbox] = inboxes
  for (let i = 0; i < 2; i++) await inbox!.next("NOTIFICATION_SETTINGS_UPDATE")
  inbox!.drop()
  await there.putServerNotificationSettings({ server_id, muted: false })
  await inbox!.reconnect(shared.west.url)
  expect(await inbox!.next("NOTIFICATION_SETTINGS_UPDATE")).toMatchObject({ muted: false, level: "nothing" })
  // Nothing chosen anew is no event.
  await there.putServerNotificationSettings({ server_id, level: "default" })
  await inbox!.next("NOTIFICATION_SETTINGS_UPDATE")
  await there.putServerNotificationSettings({ server_id })
  await shared.settle()
  for (const client of [inbox!, foreign])
    expect(client.rest().filter(({ name }) => name.startsWith("NOTIFICATION"))).toEqual([])
})

test("a mute ends by itself", async ({ shared }) => {
  const { ada, lin, server, channel } = await shared.seed(sharedServer)
  const [server_id, channel_id] = [server.id, channel.id]
  const rest = lin.on(shared.west)
  expect(await rest.putServerNotificationSettings({ server_id, muted_until: 1_700_000_000 })).toMatchObject(nothing)
  const until = Math.floor(Date.now() / 1000) + 3_600
  const muted = await rest.putServerNotificationSettings({ server_id, level: "mentions", muted_until: until })
  expect(muted).toMatchObject({ muted: true, muted_until: until })
  expect((await rest.getChannelNotificationSettings({ channel_id })).effective.muted).toBe(true)
  await shared.sql`UPDATE notification_settings SET muted_until = 1700000000 WHERE user_id = ${lin.id}`
  expect(await rest.getServerNotificationSettings({ server_id })).toMatchObject({
    level: "mentions",
    muted: false,
    muted_until: 0,
    effective: notMuted("mentions"),
  })
  expect((await rest.getChannelNotificationSettings({ channel_id })).effective).toEqual(notMuted("mentions"))
  expect(await rest.listNotificationSettings()).toMatchObject([{ level: "mentions", muted: false, muted_until: 0 }])
  // With no level either there is nothing left to list; a DM belongs to no server.
  await shared.sql`UPDATE notification_settings SET level = NULL WHERE user_id = ${lin.id}`
  const dm = await dmBetween(ada, lin, shared.west)
  await rest.putChannelNotificationSettings({ channel_id: dm, muted_until: until })
  expect(await rest.listNotificationSettings()).toEqual([
    { server_id: null, guild_id: null, channel_id: dm, level: null, muted: true, muted_until: until },
  ])
})

test("only who is in a server chooses for it, and for a channel only who views it", async ({ shared }) => {
  const { ada, lin, server, channel } = await shared.seed(sharedServer)
  const eve = (await shared.person("eve")).on(shared.east)
  const member = lin.on(shared.west)
  const hidden = await ada.on(shared.east).createChannel({ server_id: server.id, name: "hidden" })
  const denial = {
    channel_id: hidden.id,
    target_id: lin.id,
    type: "member" as const,
    allow: [],
    deny: ["channels.view"],
  }
  await ada.on(shared.east).setOverride(denial)
  for (const [rest, server_id, expected] of [
    [eve, server.id, "access_denied"],
    [member, "1", "server_not_found"],
    [member, channel.id, "server_not_found"],
    [member, "x", "invalid_server_id"],
  ] as const) {
    expect(await refusal(rest.getServerNotificationSettings({ server_id }))).toBe(expected)
    expect(await refusal(rest.putServerNotificationSettings({ server_id, muted: true }))).toBe(expected)
  }
  for (const [rest, channel_id, expected] of [
    [eve, channel.id, "access_denied"],
    [member, hidden.id, "access_denied"],
    [member, "1", "channel_not_found"],
    [member, server.id, "channel_not_found"],
    [member, "x", "invalid_channel_id"],
  ] as const) {
    expect(await refusal(rest.getChannelNotificationSettings({ channel_id }))).toBe(expected)
    expect(await refusal(rest.putChannelNotificationSettings({ channel_id, muted: true }))).toBe(expected)
  }
  for (const wrong of [
    { level: "loud" as never },
    { muted: "yes" as never },
    { muted_until: -1 },
    { muted_until: 1.5 },
    { muted_until: 2 ** 53 },
  ]) {
    expect(await refusal(member.putServerNotificationSettings({ server_id: server.id, ...wrong }))).toBe(
      "validation_failed",
    )
    const call = { channel_id: channel.id, ...wrong }
    expect(await refusal(member.putChannelNotificationSettings(call))).toBe("validation_failed")
  }
})

test("LEVEL1: one user has at most 1000 choices, however many are made at once", async ({ shared }) => {
  const ada = await shared.person("ada")
  const { server_id, channel_id } = await plantServer(shared, { owner: ada, channels: 3 })
  const others = Array.from({ length: limits.notificationSettings - 1 }, () => plantedId())
  await shared.sql`
    INSERT INTO notification_settings (user_id, server_id, channel_id, level, muted)
    SELECT ${ada.id}, id, 0, 'all', false FROM unnest(${others}::bigint[]) AS id`
  const channels = await ada.on(shared.east).listChannels({ server_id })
  const chosen = await Promise.all(
    channels.map(async ({ id }, i) => {
      const put = ada
        .on(i % 2 ? shared.east : shared.west)
        .putChannelNotificationSettings({ channel_id: id, muted: true })
      return put.then(
        () => "kept",
        () => refusal(put),
      )
    }),
  )
  expect(chosen.toSorted()).toEqual(["kept", "notification_settings_limit", "notification_settings_limit"])
  const rest = ada.on(shared.west)
  expect(await refusal(rest.putServerNotificationSettings({ server_id, muted: true }))).toBe(
    "notification_settings_limit",
  )
  // What is there may change, and what goes frees capacity.
  const kept = channels[chosen.indexOf("kept")]!.id
  await rest.putChannelNotificationSettings({ channel_id: kept, level: "nothing" })
  await rest.putChannelNotificationSettings({ channel_id: kept, level: "default", muted: false })
  await rest.putServerNotificationSettings({ server_id, muted: true })
  expect(await rest.getChannelNotificationSettings({ channel_id })).toMatchObject({ effective: { muted: true } })
})

const notify = (
  { node }: Worker,
  { id }: Person,
  type: "mention" | "message",
  where?: { server_id: string; channel_id: string; default_message_notifications: number },
) =>
  node.ask(userActor, id, {
    type: "notify",
    of: { type, title: "News", content: "hello", content_preview: null, link: null, sender_id: null },
    ...(where && { where }),
  })

test("nobody is notified of what they do not want to be told of; what is about no channel reaches everybody", async ({
  shared,
}) => {
  const { lin, server, channel } = await shared.seed(sharedServer)
  const [server_id, channel_id] = [server.id, channel.id]
  const rest = lin.on(shared.west)
  const told = async (type: "mention" | "message", default_message_notifications = 0) =>
    (await notify(shared.east, lin, type, { server_id, channel_id, default_message_notifications })) !== null
  const inbox = await lin.listen(shared.east)
  expect([await told("mention"), await told("message"), await told("message", 1)]).toEqual([true, true, false])
  await rest.putChannelNotificationSettings({ channel_id, level: "nothing" })
  expect([await told("mention"), await told("message")]).toEqual([false, false])
  await rest.putChannelNotificationSettings({ channel_id, level: "mentions" })
  expect([await told("mention"), await told("message")]).toEqual([true, false])
  await rest.putServerNotificationSettings({ server_id, muted: true })
  expect(await told("mention")).toBe(false)
  expect(await notify(shared.west, lin, "message")).not.toBeNull()
  await shared.settle()
  expect(inbox.rest().filter(({ name }) => name === "NOTIFICATION_CREATE")).toHaveLength(4)
  expect((await rest.listNotifications()).unread_count).toBe(4)
})

test("a choice ends with the membership, whether anybody listens or not, and is not there for who comes back", async ({
  shared,
}) => {
  const { ada, lin, server, channel } = await shared.seed(sharedServer)
  const [server_id, channel_id] = [server.id, channel.id]
  const owner = ada.on(shared.east)
  const rest = lin.on(shared.west)
  const { code } = await owner.createInvite({ channel_id })
  const kept = await plantServer(shared, { owner: lin })
  await rest.putServerNotificationSettings({ server_id: kept.server_id, level: "mentions" })
  const rows = () => shared.sql<{ server_id: string }[]>`
    SELECT server_id FROM notification_settings WHERE user_id = ${lin.id} ORDER BY server_id`
  for (const leave of [
    () => rest.leaveServer({ server_id }),
    () => owner.kickMember({ server_id, member_id: lin.id }),
    async () => {
      await lin.listen(shared.east)
      await owner.banUser({ server_id, user_id: lin.id })
      await owner.unbanUser({ server_id, user_id: lin.id })
    },
  ]) {
    await rest.putServerNotificationSettings({ server_id, level: "nothing" })
    await rest.putChannelNotificationSettings({ channel_id, muted: true })
    expect(await rows()).toHaveLength(3)
    await leave()
    expect(await rows()).toEqual([{ server_id: kept.server_id }])
    await rest.joinByInvite({ invite_code: code })
    await shared.settle()
    // Their home has forgotten, too: what is left out of the first choice afterwards is as if
    // nothing had been.
    expect(await rest.putServerNotificationSettings({ server_id, muted: true })).toMatchObject({ level: null })
    expect((await rest.getChannelNotificationSettings({ channel_id })).muted).toBe(false)
    await rest.putServerNotificationSettings({ server_id, muted: false })
  }
  expect(await rest.getServerNotificationSettings({ server_id: kept.server_id })).toMatchObject({ level: "mentions" })
})

test("a choice made while the user leaves or the channel goes leaves nothing behind", async ({ shared }) => {
  const { ada, lin, server, channel } = await shared.seed(sharedServer)
  const server_id = server.id
  const owner = ada.on(shared.east)
  const { code } = await owner.createInvite({ channel_id: channel.id })
  for (let round = 0; round < 4; round++) {
    const { id: channel_id } = await owner.createChannel({ server_id, name: "short" })
    const rest = lin.on(round % 2 ? shared.east : shared.west)
    await Promise.allSettled([
      rest.putChannelNotificationSettings({ channel_id, muted: true }),
      owner.deleteChannel({ channel_id }),
      rest.putChannelNotificationSettings({ channel_id, level: "all" }),
    ])
    const ended = [
      rest.putServerNotificationSettings({ server_id, muted: true }),
      rest.leaveServer({ server_id }),
      rest.putServerNotificationSettings({ server_id, level: "nothing" }),
    ]
    await Promise.allSettled(ended)
    const rows = await shared.sql`
      SELECT channel_id FROM notification_settings WHERE user_id = ${lin.id} AND (server_id = ${server_id} OR channel_id = ${channel_id})`
    expect(rows).toEqual([])
    await rest.joinByInvite({ invite_code: code })
  }
})
