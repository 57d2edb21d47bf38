import { limits } from "../../src/contract/core/limits.ts"
import { notify } from "../kit/acts.ts"
import { refusal } from "../kit/conformance.ts"
import { expect, test } from "../kit/test.ts"

test("a notification reaches every session of its user, nobody else's, and is listed on every worker", async ({
  shared,
}) => {
  const [ada, lin] = await Promise.all([shared.person("ada"), shared.person("lin")])
  const inboxes = await Promise.all([ada.listen(shared.east), ada.listen(shared.west)])
  const foreign = await lin.listen(shared.east)
  const about = { content_preview: "hello…", link: "/channels/1/2/3", sender_id: lin.id }
  const sent = await notify(shared.west, ada, "hello @ada", about)
  expect(sent).toMatchObject({
    type: "mention",
    title: "You were mentioned",
    content: "hello @ada",
    read: false,
    ...about,
  })
  for (const inbox of inboxes) expect(await inbox.next("NOTIFICATION_CREATE")).toEqual(sent)
  for (const place of [shared.east, shared.west])
    expect(await ada.on(place).listNotifications()).toEqual({ notifications: [sent], unread_count: 1 })
  expect(await lin.on(shared.west).listNotifications()).toEqual({ notifications: [], unread_count: 0 })
  await shared.settle()
  expect(foreign.rest()).toEqual([])
})

test("they are listed newest first, page by page, all or those that are unread", async ({ shared }) => {
  const ada = await shared.person("ada")
  const { listNotifications, readNotification } = ada.on(shared.west)
  const ids: string[] = []
  for (let i = 0; i < 25; i++) ids.unshift((await notify(shared.east, ada, `number ${i}`)).id)
  const idsOf = async (query: Parameters<typeof listNotifications>[0]) =>
    (await listNotifications(query)).notifications.map(({ id }) => id)
  expect(await idsOf({})).toEqual(ids.slice(0, 20))
  expect(await idsOf({ limit: "3" })).toEqual(ids.slice(0, 3))
  expect(await idsOf({ limit: "100" })).toEqual(ids)
  expect(await idsOf({ limit: "3", before: ids[2]! })).toEqual(ids.slice(3, 6))
  expect(await idsOf({ before: ids.at(-1)! })).toEqual([])
  for (const i of [0, 2, 24]) await readNotification({ notification_id: ids[i]! })
  const unread = ids.filter((_, i) => ![0, 2, 24].includes(i))
  expect(await idsOf({ unread_only: "true", limit: "100" })).toEqual(unread)
  expect(await idsOf({ unread_only: "1", limit: "2", before: unread[1]! })).toEqual(unread.slice(2, 4))
  expect(await idsOf({ unread_only: "false", limit: "100" })).toEqual(ids)
  for (const yes of ["yes", "on", "TRUE", "On"])
    expect(await idsOf({ unread_only: yes, limit: "1" })).toEqual([unread[0]])
  for (const no of ["no", "off", "0", "False"]) expect(await idsOf({ unread_only: no, limit: "1" })).toEqual([ids[0]])
  expect((await listNotifications({ limit: "1" })).unread_count).toBe(22)
  for (const wrong of [{ limit: "0" }, { limit: "101" }, { limit: "x" }, { before: "x" }, { unread_only: "maybe" }])
    expect(await refusal(listNotifications(wrong as { limit: string }))).toBe("validation_failed")
})

test("what one session reads is told to the others, once", async ({ shared }) => {
  const ada = await shared.person("ada")
  const [first, second, third] = [
    await notify(shared.east, ada, "first"),
    await notify(shared.west, ada, "second"),
    await notify(shared.east, ada, "third"),
  ]
  const inbox = await ada.listen(shared.west)
  const { readNotification, readAllNotifications, listNotifications } = ada.on(shared.east)
  for (let i = 0; i < 2; i++) expect(await readNotification({ notification_id: second.id })).toEqual({ success: true })
  expect(await inbox.next("NOTIFICATION_UPDATE")).toEqual({ id: second.id, read: true })
  expect((await listNotifications()).unread_count).toBe(2)
  expect(await readAllNotifications()).toEqual({ success: true })
  expect(await inbox.next("NOTIFICATION_UPDATE")).toEqual({ all_read: true })
  expect(await ada.on(shared.west).listNotifications()).toEqual({
    notifications: [third, second, first].map(one => ({ ...one, read: true })),
    unread_count: 0,
  })
  await readNotification({ notification_id: third.id })
  // What comes later is unread.
  const later = await notify(shared.west, ada, "later")
  expect(await listNotifications({ unread_only: "true" })).toEqual({ notifications: [later], unread_count: 1 })
  expect(await inbox.next("NOTIFICATION_CREATE")).toEqual(later)
  await shared.settle()
  expect(inbox.rest()).toEqual([])
})

test("another's notification is none of one's own", async ({ shared }) => {
  const [ada, eve] = await Promise.all([shared.person("ada"), shared.person("eve")])
  const { id } = await notify(shared.east, ada, "for Ada")
  const { readNotification, readAllNotifications } = eve.on(shared.west)
  for (const notification_id of [id, "1", "9223372036854775807"])
    expect(await refusal(readNotification({ notification_id }))).toBe("notification_not_found")
  for (const notification_id of ["x", "-1", "read-all", "9223372036854775808"])
    expect(await refusal(readNotification({ notification_id }))).toBe("invalid_notification_id")
  await readAllNotifications()
  expect((await ada.on(shared.east).listNotifications()).unread_count).toBe(1)
})

test("a user keeps a thousand: each new one replaces their oldest, and nobody else's", async ({ shared }) => {
  const [ada, lin] = await Promise.all([shared.person("ada"), shared.person("lin")])
  for (const { id } of [ada, lin])
    await shared.sql`
      INSERT INTO notifications (id, user_id, type, title, content, created_at)
      SELECT ${id}::bigint - 5000 + n, ${id}, 'mention', 'You were mentioned', 'old ' || n, 0 FROM generate_series(1, ${limits.notificationsKept - 1}) AS n`
  // Together, so that several come in one commit.
  const added = await Promise.all(Array.from({ length: 6 }, (_, i) => notify(shared.east, ada, `new ${i}`)))
  const kept = async ({ id }: { id: string }) =>
    (await shared.sql<{ id: string }[]>`SELECT id FROM notifications WHERE user_id = ${id} ORDER BY id`).map(
      row => row.id,
    )
  const ids = await kept(ada)
  expect(ids).toHaveLength(limits.notificationsKept)
  expect(ids.slice(-6)).toEqual(added.map(({ id }) => id).toSorted())
  expect(ids[0]).toBe(String(BigInt(ada.id) - 5000n + 6n))
  expect(await kept(lin)).toHaveLength(limits.notificationsKept - 1)
})

test("a friend request is told as such, and makes no notification", async ({ shared }) => {
  const [ada, lin] = await Promise.all([shared.person("ada"), shared.person("lin")])
  await ada.on(shared.east).requestFriend({ user_id: lin.id })
  expect(await lin.on(shared.west).listNotifications()).toEqual({ notifications: [], unread_count: 0 })
})
