/** The client's store: what it reads, what it keeps, and whom it tells. READY's model tests hold what it shows. */
import { GatewayClient } from "../../client/gateway.ts"
import { createClient } from "../../client/client.ts"
import { Store, type Change } from "../../client/store.ts"
import { NodeWebSocket } from "../../bench/load/node-websocket.ts"
import { onTestFinished } from "vitest"
import type { Person } from "../kit/person.ts"
import { dmBetween, sharedServer } from "../kit/seeds.ts"
import { expect, test, type SharedCluster } from "../kit/test.ts"
import { until } from "../kit/until.ts"

/** A person's store on a worker, with the paths that it has asked for. */
async function storeOf(shared: SharedCluster, person: Person, open: (store: Store) => void, maxMessages = 500) {
  const { url } = shared.east
  const asked: string[] = []
  const client = createClient({
    baseUrl: url,
    token: person.token,
    fetch: (to, init) => {
      asked.push(new URL(to instanceof Request ? to.url : to).pathname.replace("/api/v1", ""))
      return fetch(to, init)
    },
  })
  const gateway = new GatewayClient({ url, token: person.token, WebSocket: NodeWebSocket })
  const store = new Store({ client: () => client, unreadEveryMs: 50, maxMessages })
  const told: ReadonlySet<Change>[] = []
  store.subscribe(changes => told.push(changes))
  store.follow(gateway)
  open(store)
  await gateway.connect()
  onTestFinished(() => gateway.close())
  await until("the store has read", () => !store.isReading)
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
  const { store, asked } = await storeOf(shared, ada, one => one.openChannel(channel.id, server.id), 100)

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
})
