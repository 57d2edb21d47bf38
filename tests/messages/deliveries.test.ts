/**
 * Deliveries: a message counts as delivered to who has gone past it, not to whom it was published.
 */
import type { Message } from "../../src/contract/messages/messages.ts"
import { bitOf } from "../../src/contract/core/intents.ts"
import { usualIntents, type Person, type Endpoint } from "../kit/person.ts"
import { identified, open, type Raw } from "../kit/raw.ts"
import { dmBetween, sharedServer } from "../kit/seeds.ts"
import { expect, testWith, type SharedCluster } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const topology = { gateway: { deliveries: { cursorsEveryMs: 50 } } }
const test = testWith({ topology })

/** A session that says nothing by itself. */
async function ear(person: Person, place: Endpoint, intents = usualIntents): Promise<Raw> {
  return identified(place, person.token, { d: { intents } })
}

const positionOf = (raw: Raw, message: Message): number | undefined =>
  raw.frames.find(({ t, d }) => t === "MESSAGE_CREATE" && (d as Message).id === message.id)?.s ?? undefined

/** Waits for a message, and says nothing of it. */
async function heard(raw: Raw, message: Message): Promise<number> {
  await until("the message comes", () => positionOf(raw, message) !== undefined)
  return positionOf(raw, message)!
}

/** Says that it has received everything up to a position, and waits for the answer. */
async function beat(raw: Raw, d: unknown): Promise<void> {
  const answered = () => raw.frames.filter(({ op }) => op === 11).length
  const before = answered()
  raw.say({ op: 1, d })
  await until("the heartbeat is answered", () => answered() > before)
}

async function countOf(
  message: Message,
  reader: Person,
  place: Endpoint,
): Promise<[status: string | null, count: number]> {
  const { channel_id, id } = message
  const found = await reader.on(place).getMessage({ channel_id, message_id: id })
  return [found.status, found.delivery_count]
}
const isDelivered = (message: Message, reader: Person, place: Endpoint, count: number) =>
  until(`it is delivered to ${count}`, async () => (await countOf(message, reader, place))[1] === count)

/**
 * Ada's server with Lin in it and Eve, who names what she receives: once something was delivered to
 * her, it could have been to Lin.
 */
async function scene(shared: SharedCluster) {
  const { server, channel, ada, lin } = await shared.seed(sharedServer)
  const eve = await shared.person("eve")
  const { code } = await ada.on(shared.east).createInvite({ channel_id: channel.id })
  await eve.on(shared.east).joinByInvite({ invite_code: code })
  return { server, channel, ada, lin, eve, code }
}
const send = (person: Person, place: Endpoint, channel_id: string, content = "hello") =>
  person.on(place).createMessage({ channel_id, content })

test("a message is delivered once a session has named a position beyond it, and not when it was sent", async ({
  shared,
}) => {
  const { east, west } = shared
  const { channel, ada, lin, eve } = await scene(shared)
  const [lins, eves] = await Promise.all([ear(lin, west), ear(eve, east)])
  const message = await send(ada, east, channel.id)
  expect(await countOf(message, ada, east)).toEqual(["sent", 0])
  const s = await heard(lins, message)
  await heard(eves, message)
  await beat(lins, s - 1)
  await beat(eves, positionOf(eves, message))
  // To Eve, who has named it; not to Lin, who was sent it, too.
  await isDelivered(message, ada, east, 1)
  await isDelivered(message, lin, west, 1)
  await beat(lins, s)
  await isDelivered(message, ada, west, 2)
  expect(await countOf(message, lin, west)).toEqual(["delivered", 2])
  await isDelivered(message, ada, east, 2)
  const [listed] = await ada.on(east).listMessages({ channel_id: channel.id })
  expect([listed!.status, listed!.delivery_count]).toEqual(["delivered", 2])
  const edited = await ada.on(west).editMessage({ channel_id: channel.id, message_id: message.id, content: "hello!" })
  expect([edited.status, edited.delivery_count]).toEqual(["delivered", 2])
})

test("DELIV3: what was never sent to a session moves nothing, nor does what is no position", async ({ shared }) => {
  const { east, west } = shared
  const { channel, ada, lin, eve } = await scene(shared)
  const [lins, eves] = await Promise.all([ear(lin, west), ear(eve, east)])
  const message = await send(ada, east, channel.id)
  const s = await heard(lins, message)
  for (const d of [s + 4096 * 60_000, Number.MAX_SAFE_INTEGER, 1e300, -1, 0, 0.5, null, "9999999999", true, [s], {}])
    await beat(lins, d)
  await beat(eves, await heard(eves, message))
  await isDelivered(message, ada, east, 1)
  // And it does not stand in the way of what is true.
  await beat(lins, s)
  await isDelivered(message, ada, east, 2)
})

test("a session that takes no messages of servers moves nothing there; another of the same user does", async ({
  shared,
}) => {
  const { east, west } = shared
  const { channel, ada, lin, eve } = await scene(shared)
  const deaf = usualIntents & ~bitOf("GUILD_MESSAGES")
  const [lins, eves] = await Promise.all([ear(lin, west, deaf), ear(eve, east)])
  const message = await send(ada, east, channel.id)
  // She hears of something else that came after it.
  await ada.on(east).editChannel({ channel_id: channel.id, topic: "later" })
  const { s } = await lins.event("CHANNEL_UPDATE")
  await beat(lins, s)
  await beat(eves, await heard(eves, message))
  await isDelivered(message, ada, east, 1)
  // Whatever is before the beginning of a session was there for the session's user.
  const others = await ear(lin, east)
  await beat(others, (await others.event("READY")).s)
  await isDelivered(message, ada, east, 2)
})

test("two sessions of one user count once, on whichever worker each is", async ({ shared }) => {
  const { east, west } = shared
  const { channel, ada, lin, eve } = await scene(shared)
  const [one, other, eves] = await Promise.all([ear(lin, west), ear(lin, east), ear(eve, west)])
  const first = await send(ada, east, channel.id, "first")
  const second = await send(ada, west, channel.id, "second")
  await beat(one, await heard(one, first))
  await isDelivered(first, ada, east, 1)
  await beat(other, await heard(other, second))
  await isDelivered(second, ada, east, 1)
  // The one that is behind takes nothing back.
  await beat(one, positionOf(one, first)! + 1)
  await beat(eves, await heard(eves, second))
  await isDelivered(second, ada, east, 2)
  await isDelivered(first, ada, west, 2)
})

test("what a client has named counts when its socket ends, and when it comes back", async ({ shared }) => {
  const { east, west } = shared
  const { channel, ada, lin, eve } = await scene(shared)
  const [lins, eves] = await Promise.all([ear(lin, west), ear(eve, east)])
  const { session_id } = (await lins.event("READY")).d as { session_id: string }
  const first = await send(ada, east, channel.id, "first")
  lins.say({ op: 1, d: await heard(lins, first) })
  await lins.op(11)
  lins.close()
  await isDelivered(first, ada, east, 1)
  const second = await send(ada, east, channel.id, "second")
  await beat(eves, await heard(eves, second))
  await isDelivered(second, ada, east, 1)
  // Back where it was: it is sent what it missed, and has it once it says so.
  const back = await open(west)
  back.say({ op: 6, d: { token: lin.token, session_id, seq: positionOf(lins, first) } })
  await beat(back, await heard(back, second))
  await isDelivered(second, ada, east, 2)
  back.close()
  // On another worker positions are others; what it was sent of the old log counts once it has one
  // of the new.
  const third = await send(ada, east, channel.id, "third")
  const moved = await open(east)
  moved.say({ op: 6, d: { token: lin.token, session_id, seq: positionOf(back, second) } })
  await heard(moved, third)
  await beat(moved, (await moved.event("SESSION_POSITION")).s)
  await isDelivered(third, ada, west, 1)
})

test("in a DM the other one receives", async ({ shared }) => {
  const { east, west } = shared
  const { ada, lin } = await shared.seed(sharedServer)
  const dm = await dmBetween(ada, lin, east)
  const deaf = usualIntents & ~bitOf("DIRECT_MESSAGES")
  const [adas, lins, lisp] = await Promise.all([ear(ada, east), ear(lin, west), ear(lin, west, deaf)])
  const message = await send(ada, east, dm)
  await beat(adas, await heard(adas, message))
  const s = await heard(lins, message)
  await beat(lisp, s)
  await beat(lins, s - 1)
  const later = await send(lin, west, dm, "from the other")
  await heard(lins, later)
  await beat(adas, await heard(adas, later))
  await isDelivered(later, lin, west, 1)
  expect(await countOf(message, ada, east)).toEqual(["sent", 0])
  await beat(lins, s)
  await isDelivered(message, ada, east, 1)
  await isDelivered(message, lin, west, 1)
})

test("while one of two has blocked the other nobody is told what the other receives in their DM, but what they had read before", async ({
  shared,
}) => {
  const { east, west } = shared
  const { ada, lin } = await shared.seed(sharedServer)
  const eve = await shared.person("eve")
  const [dm, other] = [await dmBetween(ada, lin, east), await dmBetween(eve, lin, east)]
  const read = await send(ada, east, dm)
  await lin.on(west).ackMessages({ channel_id: dm, message_id: read.id })
  await isDelivered(read, ada, east, 1)
  const message = await send(ada, east, dm)
  await lin.on(west).blockUser({ user_id: ada.id })
  // They come and take what is there, and more from somebody else.
  const lins = await ear(lin, west)
  const later = await send(eve, east, other)
  await beat(lins, await heard(lins, later))
  await isDelivered(later, eve, west, 1)
  for (const place of [east, west]) expect(await countOf(message, ada, place)).toEqual(["sent", 0])
  expect(await countOf(read, ada, east)).toEqual(["read", 1])

  await lin.on(west).deleteRelationship({ user_id: ada.id })
  await isDelivered(message, ada, west, 1)
  await ada.on(west).blockUser({ user_id: lin.id })
  await isDelivered(message, ada, west, 0)
  expect(await countOf(later, eve, west)).toEqual(["delivered", 1])
})

test("nobody counts who came later, who may not view the channel, or who has left; nor anybody where receipts are off", async ({
  shared,
}) => {
  const { east, west } = shared
  const { server, channel, ada, lin, eve, code } = await scene(shared)
  const hidden = await ada.on(east).createChannel({ server_id: server.id, name: "hidden" })
  const view = { allow: [], deny: ["channels.view" as const] }
  await ada.on(east).setOverride({ channel_id: hidden.id, target_id: eve.id, type: "member", ...view })
  const [lins, eves] = await Promise.all([ear(lin, west), ear(eve, east)])
  const secret = await send(ada, east, hidden.id)
  const message = await send(ada, east, channel.id)
  const bob = await shared.person("bob")
  await bob.on(east).joinByInvite({ invite_code: code })
  const bobs = await ear(bob, east)
  const after = await send(ada, east, channel.id, "after")
  for (const raw of [lins, eves, bobs]) await beat(raw, await heard(raw, after))
  await isDelivered(after, ada, east, 3)
  await isDelivered(message, ada, west, 2)
  await isDelivered(secret, ada, west, 1)
  // By role, and back for one of them.
  await ada.on(east).setOverride({ channel_id: channel.id, target_id: server.id, type: "role", ...view })
  await isDelivered(after, ada, east, 0)
  const allow = { allow: ["channels.view" as const], deny: [] }
  await ada.on(east).setOverride({ channel_id: channel.id, target_id: bob.id, type: "member", ...allow })
  await isDelivered(after, ada, east, 1)
  await ada.on(east).deleteOverride({ channel_id: channel.id, target_id: server.id })
  await lin.on(east).leaveServer({ server_id: server.id })
  await isDelivered(after, ada, east, 2)
  await ada.on(east).editChannel({ channel_id: channel.id, read_receipts_enabled: false })
  await isDelivered(after, ada, east, 0)
})

test("after a worker has gone without a word, what was named before counts and nothing else does", async ({
  cluster,
}) => {
  const [east, west] = await cluster.boot(2, { topology })
  const { channel, ada, lin } = await cluster.seed(one => sharedServer(one, east))
  const lins = await ear(lin, west!)
  const first = await send(ada, east!, channel.id, "first")
  await beat(lins, await heard(lins, first))
  await isDelivered(first, ada, east!, 1)
  const second = await send(ada, east!, channel.id, "second")
  await heard(lins, second)
  await west!.stop()
  const back = await ear(ada, east!)
  // Once the other's shards have an owner again, cursors move: Ada's own, and not Lin's.
  const third = await send(lin, east!, channel.id, "third")
  const at = await heard(back, third)
  // A session that is still catching up may be behind what its client has been sent: the next
  // heartbeat says it again.
  await until("it is delivered", async () => {
    await beat(back, at)
    return (await countOf(third, lin, east!))[1] === 1
  })
  expect(await countOf(second, ada, east!)).toEqual(["sent", 0])
  expect(await countOf(first, ada, east!)).toEqual(["delivered", 1])
})

test("what was sent while nobody of them was there is delivered once they come and name a position", async ({
  shared,
}) => {
  const { east, west } = shared
  const { channel, ada, lin } = await scene(shared)
  const dm = await dmBetween(ada, lin, east)
  const [message, direct] = [await send(ada, east, channel.id), await send(ada, west, dm)]
  const lins = await ear(lin, west)
  const { s } = await lins.event("READY")
  expect(await countOf(direct, ada, east)).toEqual(["sent", 0])
  await beat(lins, s)
  await isDelivered(direct, ada, east, 1)
  await isDelivered(message, ada, west, 1)
})

test("DELIV4: what an invisible user receives is not shown until they have read it or appear again", async ({
  shared,
}) => {
  const { east, west } = shared
  const { channel, ada, lin, eve } = await scene(shared)
  const dm = await dmBetween(ada, lin, east)
  const [lins, eves] = await Promise.all([ear(lin, west), ear(eve, east)])
  const before = await send(ada, east, channel.id, "before")
  for (const raw of [lins, eves]) await beat(raw, await heard(raw, before))
  await isDelivered(before, ada, east, 2)
  await lin.on(west).updatePresence({ status: "invisible" })
  const [read, direct] = [await send(ada, east, dm, "read"), await send(ada, east, dm)]
  const message = await send(ada, east, channel.id)
  // Homes do not wait for one another: the message of the server may come first.
  const last = Math.max(await heard(lins, direct), await heard(lins, message))
  await beat(lins, last)
  // Written with the same statement, or a later one.
  await beat(eves, await heard(eves, message))
  await isDelivered(message, ada, west, 1)
  for (let i = 0; i < 5; i++) await beat(lins, last)
  await new Promise(resolve => setTimeout(resolve, 400))
  expect(await countOf(message, ada, east)).toEqual(["delivered", 1])
  expect(await countOf(direct, ada, east)).toEqual(["sent", 0])
  // What they had shown before stays.
  expect(await countOf(before, ada, east)).toEqual(["delivered", 2])
  await lin.on(west).ackMessages({ channel_id: dm, message_id: read.id })
  await isDelivered(read, ada, west, 1)
  expect(await countOf(direct, ada, west)).toEqual(["sent", 0])

  await lin.on(west).updatePresence({ status: "online" })
  // The worker of the session may hear of it after the first of these.
  await until("a heartbeat says so", async () => {
    await beat(lins, last)
    return (await countOf(direct, ada, east))[1] === 1
  })
  await isDelivered(direct, ada, east, 1)
  await isDelivered(message, ada, east, 2)
})

test("of somebody who has left and joined again nothing counts from before", async ({ shared }) => {
  const { east, west } = shared
  const { server, channel, ada, lin, eve, code } = await scene(shared)
  const [lins, eves] = await Promise.all([ear(lin, west), ear(eve, east)])
  const first = await send(ada, east, channel.id, "first")
  for (const raw of [lins, eves]) await beat(raw, await heard(raw, first))
  await isDelivered(first, ada, east, 2)
  await lin.on(east).leaveServer({ server_id: server.id })
  await isDelivered(first, ada, east, 1)
  await lin.on(east).joinByInvite({ invite_code: code })
  const second = await send(ada, east, channel.id, "second")
  await beat(lins, await heard(lins, second))
  await isDelivered(second, ada, east, 1)
  expect(await countOf(first, ada, east)).toEqual(["delivered", 1])
})
