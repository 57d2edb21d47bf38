/** The client's store: what it reads, what it keeps, and whom it tells. READY's model tests hold what it shows. */
import { GatewayClient } from "../../client/gateway.ts"
import { createClient } from "../../client/client.ts"
import { Reads } from "../../client/reads.ts"
import { createStore, Store, type Change, type StoreOptions } from "../../client/store.ts"
import { NodeWebSocket } from "../../bench/load/node-websocket.ts"
import { onTestFinished } from "vitest"
import { allIntents } from "../../src/contract/core/intents.ts"
import type { Person } from "../kit/person.ts"
import { dmBetween, sharedServer } from "../kit/seeds.ts"
import { expect, test, type SharedCluster } from "../kit/test.ts"
import { until } from "../kit/until.ts"

/** A person's store on a worker, with the paths that it has asked for. While `network` is down, REST has no answer. */
async function storeOf(
  shared: SharedCluster,
  person: Person,
  open: (store: Store) => void,
  options: Partial<StoreOptions> = {},
  network: {
    isDown?: boolean
    onAsk?: (path: string, store: Store) => void
    /** Before the store is given it. */
    onAnswer?: (path: string, store: Store) => Promise<void>
  } = {},
) {
  const { url } = shared.east
  const asked: string[] = []
  const client = createClient({
    baseUrl: url,
    token: person.token,
    retry: { attempts: 2, firstMs: 1, maxMs: 1, jitter: 1 },
    fetch: (to, init) => {
      if (network.isDown) return Promise.reject(new TypeError("fetch failed"))
      const path = new URL(to instanceof Request ? to.url : to).pathname.replace("/api/v1", "")
      asked.push(path)
      network.onAsk?.(path, store)
      return fetch(to, init).then(async answer => {
        await network.onAnswer?.(path, store)
        return answer
      })
    },
  })
  const backoff = { firstMs: 10, maxMs: 50 }
  const gateway = new GatewayClient({ url, token: person.token, WebSocket: NodeWebSocket, backoff })
  const store: Store = new Store({ client: () => client, unreadEveryMs: 50, presencesWithinMs: 50, ...options })
  const told: ReadonlySet<Change>[] = []
  store.subscribe(changes => told.push(changes))
  store.follow(gateway)
  open(store)
  await gateway.connect()
  onTestFinished(() => gateway.close())
  if (!network.isDown) await until("the store has read", () => !store.isReading)
  return { client, gateway, store, asked, told }
}

const idsOf = (store: Store, channel: string) => store.messages(channel)!.map(({ id }) => id)

test("CLIENT7, CLIENT8: it reads what is opened, older messages by the page, and keeps no more than it may", async ({
  shared,
}) => {
  const { ada, lin, server, channel } = await shared.seed(sharedServer)
  const rest = ada.on(shared.west)
  const quiet = await rest.createChannel({ server_id: server.id, name: "quiet" })
  await rest.createServer({ name: "Never opened" })
  const sent: string[] = []
  for (let i = 0; i < 120; i++) sent.push((await rest.createMessage({ channel_id: channel.id, content: `${i}` })).id)
  const { store, asked } = await storeOf(shared, ada, one => one.openChannel(channel.id, server.id), {
    maxMessages: 100,
  })

  expect(asked.filter(path => path.endsWith("/messages"))).toEqual([`/channels/${channel.id}/messages`])
  expect(asked.filter(path => /^\/servers\/\d+$/.test(path))).toEqual([`/servers/${server.id}`])
  expect(store.state.servers.size).toBe(2)
  expect(idsOf(store, channel.id)).toEqual(sent.slice(-50))
  expect(store.messages(quiet.id)).toBeUndefined()

  // A message of the page that is being read is deleted meanwhile: it does not come back.
  const reading = store.readOlder(channel.id)
  await rest.deleteMessage({ channel_id: channel.id, message_id: sent[60]! })
  expect(await reading).toBe(true)
  await until("it is gone", () => !idsOf(store, channel.id).includes(sent[60]!))
  expect(await store.readOlder(channel.id)).toBe(true)
  expect(store.hasOlder(channel.id)).toBe(false)
  expect(await store.readOlder(channel.id)).toBe(false)
  expect(idsOf(store, channel.id)).toEqual(sent.filter(id => id !== sent[60]))

  for (let i = 0; i < 40; i++) await lin.on(shared.west).createMessage({ channel_id: channel.id, content: `live ${i}` })
  await until("the last is there", () => store.messages(channel.id)?.at(-1)?.content === "live 39")
  const kept = store.messages(channel.id)!
  expect(kept.length).toBeLessThanOrEqual(150)
  expect(store.hasOlder(channel.id)).toBe(true)
  // What was let go is read again, without a gap.
  const before = kept[0]!.id
  expect(await store.readOlder(channel.id)).toBe(true)
  const again = idsOf(store, channel.id)
  expect(again[again.indexOf(before) - 1]).toBe(sent[sent.indexOf(before) - 1])

  store.closeChannel(channel.id)
  expect(store.messages(channel.id)).toBeUndefined()
})

test("a channel that is opened while its server is being read is read, once", async ({ shared }) => {
  const { ada, server, channel } = await shared.seed(sharedServer)
  const late = await ada.on(shared.west).createChannel({ server_id: server.id, name: "late" })
  const other = await ada.on(shared.west).createServer({ name: "Other" })
  const [lobby] = await ada.on(shared.west).listChannels({ server_id: other.id })
  const [first, second] = [channel, late].map(({ id }) => `/channels/${id}/messages`)
  // By now it is decided which channels are read with the server.
  const onAsk = (path: string, store: Store) => {
    if (path === first) store.openChannel(late.id, server.id)
  }
  const { store, asked } = await storeOf(shared, ada, one => one.openChannel(channel.id, server.id), {}, { onAsk })
  expect([channel, late].map(({ id }) => store.messages(id))).toEqual([[], []])
  const read = () => asked.filter(path => path.endsWith("/messages"))
  expect(read()).toEqual([first, second])
  store.openChannel(lobby!.id, other.id)
  await until("the other has been read", () => !store.isReading)
  expect(read()).toEqual([first, second, `/channels/${lobby!.id}/messages`])
})

test("what is unread follows messages and acknowledgements; a DM is opened by its id", async ({ shared }) => {
  const { ada, lin, channel } = await shared.seed(sharedServer)
  const direct = await dmBetween(ada, lin, shared.west)
  await lin.on(shared.west).createMessage({ channel_id: direct, content: "hello" })
  const { store, client, told } = await storeOf(shared, ada, one => one.openChannel(direct))
  await until("the DM is read", () => store.messages(direct)?.length === 1)
  expect(store.state.unread.get(direct)).toEqual({ count: 1, mentions: 0 })

  told.length = 0
  await lin.on(shared.west).createMessage({ channel_id: channel.id, content: "one" })
  await until("a channel that is not open has something", () => store.state.unread.get(channel.id)?.count === 1)
  expect(told.some(changes => changes.has("unread") && changes.has(`channel ${channel.id}`))).toBe(true)
  await client.ackMessages({ channel_id: direct })
  await until("the DM is read on another client", () => !store.state.unread.has(direct))
  expect(store.state.unread.get(channel.id)).toEqual({ count: 1, mentions: 0 })
})

test("the connection is told: live, on its way back, live again", async ({ shared }) => {
  const { ada, channel, server } = await shared.seed(sharedServer)
  const { store, gateway } = await storeOf(shared, ada, one => one.openChannel(channel.id, server.id))
  const seen: string[] = []
  store.subscribe(changes => {
    if (changes.has("connection")) seen.push(store.connection)
  })
  expect(store.connection).toBe("live")
  gateway.drop()
  await ada.on(shared.west).createMessage({ channel_id: channel.id, content: "while away" })
  await until("it is back", () => store.connection === "live")
  await until("what was missed is there", () => store.messages(channel.id)?.at(-1)?.content === "while away")
  gateway.close()
  expect(seen).toEqual(["returning", "live"])
  expect(() => createStore({ client: ada.on(shared.east), gateway })).toThrow("before you call connect()")
})

test("CLIENT6: presences of friends and members are those of a fresh read, also after a resume that missed changes", async ({
  shared,
}) => {
  const { ada, lin, server } = await shared.seed(sharedServer)
  const { east, west } = shared
  const friend = await shared.person("friend")
  await ada.on(east).requestFriend({ user_id: friend.id })
  await friend.on(west).acceptFriend({ user_id: ada.id })
  await Promise.all([lin.listen(west), friend.listen(west)])
  // Who is connected all the time hears what the store misses.
  const witness = await ada.listen(east, { intents: allIntents })
  const statusIn = (store: Store, { id }: Person) => store.state.presences.get(id)?.status
  const becomes = async (person: Person, status: "dnd" | "idle") => {
    await person.on(west).updatePresence({ status })
    await witness.next("PRESENCE_UPDATE", {
      where: ({ user_id, status: said }) => user_id === person.id && said === status,
      timeoutMs: 60_000,
    })
  }
  // The list of members that is on its way says "online", what comes before it "dnd".
  let isFirst = true
  const onAnswer = async (path: string, store: Store) => {
    if (!path.endsWith("/members") || !isFirst) return
    isFirst = false
    await becomes(lin, "dnd")
    await until("it is told", () => statusIn(store, lin) === "dnd")
  }
  const { store, client, gateway, told } = await storeOf(
    shared,
    ada,
    one => one.openServer(server.id),
    {},
    { onAnswer },
  )
  const statuses = () => [lin, friend].map(person => statusIn(store, person))
  const agrees = async (...expected: string[]) => {
    await until(`${statuses().join()} is ${expected.join()}`, () => statuses().join() === expected.join())
    const fresh = await new Reads(() => client).afresh()
    expect([lin, friend].map(({ id }) => fresh.presences.get(id)?.status)).toEqual(expected)
  }
  await agrees("dnd", "online")
  gateway.close()
  await becomes(friend, "dnd")
  await becomes(lin, "idle")
  expect(statuses()).toEqual(["dnd", "online"])
  told.length = 0
  await gateway.connect()
  await agrees("idle", "dnd")
  expect(told.some(changes => changes.has("presences"))).toBe(true)
})

test("what could not be read is read again, by itself and when the connection is back; typing ends by itself", async ({
  shared,
}) => {
  const { ada, lin, server, channel } = await shared.seed(sharedServer)
  const rest = ada.on(shared.west)
  const { id: second } = await rest.createServer({ name: "Second" })
  const network = { isDown: true }
  const errors: unknown[] = []
  const options = { onError: (error: unknown) => errors.push(error), typingMs: 100 }
  const { store } = await storeOf(
    shared,
    ada,
    one => one.openServer(server.id),
    { ...options, readAgainMs: 50 },
    network,
  )
  await until("it could not read anything", () => errors.length >= 5)
  expect(errors[0]).toBeInstanceOf(TypeError)
  expect(store.state.servers.get(server.id)).toBeUndefined()
  expect(store.isReading).toBe(true)
  network.isDown = false
  await until("it has read", () => !store.isReading)
  expect(store.state.servers.get(server.id)?.members.size).toBe(2)
  expect(store.state.unread).toBeDefined()

  const open = (one: Store) => one.openServer(second)
  errors.length = 0
  const patient = { ...options, readAgainMs: 600_000 }
  const weak = { isDown: true }
  const { store: waiting, gateway } = await storeOf(shared, ada, open, patient, weak)
  await until("it could not be read, nor the rest", () => errors.length >= 5)
  weak.isDown = false
  gateway.drop()
  await until("it is read after all", () => !waiting.isReading)
  expect(waiting.state.servers.get(second)?.members.size).toBe(1)

  const typist = await lin.listen(shared.west)
  const typing = () => store.state.typing.has(`${channel.id} ${lin.id}`)
  typist.typing(channel.id)
  await until("somebody types", typing)
  // The server would end it after ten seconds.
  await until("they are done", () => !typing(), { timeoutMs: 6_000 })
})
