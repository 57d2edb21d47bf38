import { NotHandled } from "../../src/cluster/bus.ts"
import type { Presence } from "../../src/contract/social/presence.ts"
import { opcodes } from "../../src/contract/core/gateway-codes.ts"
import { allIntents, defaultIntents } from "../../src/contract/core/intents.ts"
import { openPool } from "../../src/storage/core/database.ts"
import { presencesStorage, putPresence } from "../../src/storage/social/presences.ts"
import { dmBetween, plantedId, plantServer, sharedServer } from "../kit/seeds.ts"
import { compareIds, shardOf } from "../../src/domain/core/snowflake.ts"
import { randomFrom } from "../chaos/random.ts"
import { gauge, type Cluster, type Worker } from "../kit/cluster.ts"
import { refusal } from "../kit/conformance.ts"
import type { Listener, Person } from "../kit/person.ts"
import { expect, testWith } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const resumeWindowMs = 1_000
const topology = { gateway: { resumeWindowMs }, presence: { askTimeoutMs: 1_000 } }
const test = testWith({ topology })

/** With presences. */
const intents = allIntents
const seen = (person: Person, presence: Partial<Presence> = {}) => ({
  user_id: person.id,
  status: "online",
  custom_status: null,
  custom_emoji: null,
  ...presence,
})
const gone = (person: Person) => seen(person, { status: "offline" })
const of = (person: Person) => ({
  where: ({ user_id }: { user_id: string }) => user_id === person.id,
  timeoutMs: 60_000,
})

/** Nobody is to be looked at any more, and what was found has reached the clients. */
async function quiet(cluster: Cluster): Promise<void> {
  const { workers } = cluster
  await until("every presence is told", async () => {
    const due = await Promise.all(workers.map(worker => gauge(worker, "starling_presence_due_users")))
    return due.every(users => users === 0)
  })
  // Inboxes keep order: what was said before is with the owners of homes, and then with those who
  // serve them.
  for (const _ of [1, 2])
    await Promise.all(
      workers.flatMap(one =>
        workers
          .filter(other => other !== one)
          .map(other => one.node.bus.request(other.id, "homeSubscriptions", { shards: [] }, 30_000)),
      ),
    )
  await cluster.settle()
}

/** What others see of somebody is as it should be, no matter which worker they ask. */
const sees = (who: Person, place: Worker, whom: Person, status: string) =>
  until(`${who.username} sees ${whom.username} ${status}`, async () => {
    const presence = await who.on(place).getPresence({ user_id: whom.id })
    return presence.status === status
  })

const presencesIn = (inbox: Listener, person: Person) =>
  inbox.rest().flatMap(({ name, data }) => (name === "PRESENCE_UPDATE" && data.user_id === person.id ? [data] : []))

test("a user who connects is online, a chosen status is shown, and a hidden user looks offline", async ({ shared }) => {
  const { ada, lin } = await shared.seed(sharedServer)
  const { east, west } = shared
  const inbox = await lin.listen(west, { intents })
  await quiet(shared)
  inbox.rest()
  const first = await ada.listen(east, { intents })
  expect(await inbox.next("PRESENCE_UPDATE", of(ada))).toEqual(seen(ada))
  expect(await lin.on(east).getPresence({ user_id: ada.id })).toMatchObject(seen(ada))
  const second = await ada.listen(west, { intents })
  for (const status of ["idle", "dnd"] as const) {
    expect(await ada.on(west).updatePresence({ status })).toMatchObject(seen(ada, { status }))
    // After its answer a change is seen by everybody who asks.
    expect(await lin.on(west).getPresence({ user_id: ada.id })).toMatchObject(seen(ada, { status }))
    expect(await inbox.next("PRESENCE_UPDATE", of(ada))).toEqual(seen(ada, { status }))
    for (const own of [first, second]) expect(await own.next("PRESENCE_UPDATE", of(ada))).toEqual(seen(ada, { status }))
  }
  await ada.on(east).updatePresence({ status: "invisible", custom_status: "hidden" })
  expect(await inbox.next("PRESENCE_UPDATE", of(ada))).toEqual(gone(ada))
  for (const own of [first, second])
    expect(await own.next("PRESENCE_UPDATE", of(ada))).toEqual(
      seen(ada, { status: "invisible", custom_status: "hidden" }),
    )
  const shown = await lin.on(east).getPresence({ user_id: ada.id })
  expect(shown).toMatchObject(gone(ada))
  await until("when they were last seen is noted", async () => {
    const { last_seen } = await lin.on(east).getPresence({ user_id: ada.id })
    return last_seen !== null && last_seen > 1_700_000_000
  })
  expect(await ada.on(west).getPresence({ user_id: ada.id })).toMatchObject(
    seen(ada, { status: "invisible", custom_status: "hidden" }),
  )
  await quiet(shared)
  expect(presencesIn(inbox, ada)).toEqual([])
})

test("people in a DM see each other's presence, until one blocks the other", async ({ shared }) => {
  const [ada, lin] = await Promise.all([shared.person("ada"), shared.person("lin")])
  const { east, west } = shared
  await dmBetween(ada, lin, east)
  const inbox = await lin.listen(west, { intents })
  await ada.listen(east)
  expect(await inbox.next("PRESENCE_UPDATE", of(ada))).toEqual(seen(ada))
  await ada.on(west).updatePresence({ status: "dnd" })
  expect(
    await inbox.next("PRESENCE_UPDATE", { where: ({ user_id, status }) => user_id === ada.id && status === "dnd" }),
  ).toEqual(seen(ada, { status: "dnd" }))
  await ada.on(west).blockUser({ user_id: lin.id })
  expect(
    await inbox.next("PRESENCE_UPDATE", { where: ({ user_id, status }) => user_id === ada.id && status === "offline" }),
  ).toEqual(gone(ada))
  await ada.on(west).updatePresence({ status: "idle" })
  await quiet(shared)
  expect(presencesIn(inbox, ada)).toEqual([])
})

test("a user with several sessions goes offline with the last of them, once its window has passed", async ({
  shared,
}) => {
  const { ada, lin } = await shared.seed(sharedServer)
  const { east, west } = shared
  const inbox = await lin.listen(west, { intents })
  const [first, second] = await Promise.all([ada.listen(east), ada.listen(west)])
  expect(await inbox.next("PRESENCE_UPDATE", of(ada))).toEqual(seen(ada))
  first.close()
  await sees(lin, east, ada, "online")
  second.drop()
  expect(await inbox.next("PRESENCE_UPDATE", of(ada))).toEqual(gone(ada))
  await sees(lin, west, ada, "offline")
  await ada.listen(east)
  expect(await inbox.next("PRESENCE_UPDATE", of(ada))).toEqual(seen(ada))
  await quiet(shared)
  expect(presencesIn(inbox, ada)).toEqual([])
})

test("PRES3, P14: a session that resumes on another worker was never offline", async ({ shared }) => {
  const { ada, lin } = await shared.seed(sharedServer)
  const { east, west } = shared
  const inbox = await lin.listen(west, { intents })
  const own = await ada.listen(east)
  expect(await inbox.next("PRESENCE_UPDATE", of(ada))).toEqual(seen(ada))
  for (const place of [west, east, west]) {
    own.drop()
    await own.reconnect(place.url)
    await until("it has moved", () => own.state === "live")
  }
  await quiet(shared)
  expect(presencesIn(inbox, ada)).toEqual([])
  await sees(lin, east, ada, "online")
})

test("P14: a user who logs out after their session has moved is online on no worker that had it", async ({
  cluster,
}) => {
  // As long as in earnest: a worker takes the events of a user whose session moved for as long.
  const [east, west] = await cluster.boot(2, { topology: { presence: topology.presence } })
  const { ada, lin } = await cluster.seed(sharedServer)
  const inbox = await lin.listen(west!, { intents })
  const own = await ada.listen(east!)
  expect(await inbox.next("PRESENCE_UPDATE", of(ada))).toEqual(seen(ada))
  own.drop()
  await own.reconnect(west!.url)
  await until("it has moved", () => own.state === "live")
  await ada.on(west!).logout()
  expect(await inbox.next("PRESENCE_UPDATE", { ...of(ada), timeoutMs: 30_000 })).toEqual(gone(ada))
  await sees(lin, east!, ada, "offline")
})

test("what is left out stays, what is null or empty goes, what is too long is cut or refused", async ({ shared }) => {
  const ada = await shared.person("ada")
  const own = await ada.listen(shared.east, { intents })
  const rest = ada.on(shared.west)
  const set = async (change: Parameters<typeof rest.updatePresence>[0]) => {
    const { last_seen: _, ...presence } = await rest.updatePresence(change)
    expect(await own.next("PRESENCE_UPDATE")).toEqual(presence)
    return presence
  }
  expect(await set({ status: "online", custom_status: "at work", custom_emoji: "🙂" })).toEqual(
    seen(ada, { custom_status: "at work", custom_emoji: "🙂" }),
  )
  expect(await set({ status: "dnd" })).toEqual(
    seen(ada, { status: "dnd", custom_status: "at work", custom_emoji: "🙂" }),
  )
  expect(await set({ status: "dnd", custom_status: "" })).toEqual(seen(ada, { status: "dnd", custom_emoji: "🙂" }))
  // Null is as good as nothing.
  expect(await set({ status: "dnd", custom_status: null, custom_emoji: null })).toEqual(
    seen(ada, { status: "dnd", custom_emoji: "🙂" }),
  )
  expect(await set({ status: "dnd", custom_emoji: "" })).toEqual(seen(ada, { status: "dnd" }))
  expect((await set({ status: "idle", custom_emoji: "🙂".repeat(70) })).custom_emoji).toBe("🙂".repeat(64))
  expect((await set({ status: "idle", custom_status: "é".repeat(128) })).custom_status).toBe("é".repeat(128))
  expect(await refusal(rest.updatePresence({ status: "idle", custom_status: "x".repeat(129) }))).toBe(
    "validation_failed",
  )
  expect(await refusal(rest.updatePresence({ status: 3 as never }))).toBe("validation_failed")
  expect(await refusal(rest.updatePresence({ status: "idle", custom_emoji: 3 as never }))).toBe("validation_failed")
  for (const status of ["away", "", "ONLINE"])
    expect(await refusal(rest.updatePresence({ status }))).toBe("invalid_status")
  expect(await refusal(rest.getPresence({ user_id: "nobody" }))).toBe("invalid_user_id")
  expect(await rest.getPresence({ user_id: "1" })).toEqual({
    user_id: "1",
    status: "offline",
    custom_status: null,
    custom_emoji: null,
    last_seen: 0,
  })
})

test("a client chooses by op 3; what it says wrongly is ignored", async ({ shared }) => {
  const ada = await shared.person("ada")
  const [asking, own] = [await ada.listen(shared.east, { intents }), await ada.listen(shared.west, { intents })]
  const say = (d: unknown) => asking.send({ op: 3, d })
  for (const d of [
    undefined,
    null,
    {},
    [],
    "dnd",
    { status: "away" },
    { status: 1 },
    { status: "dnd", custom_status: 5 },
    { status: "dnd", custom_status: "x".repeat(129) },
    { status: "dnd", custom_status: "a\0b" },
    { status: "dnd", custom_emoji: "\ud800" },
    { status: "dnd", activities: "many" },
  ])
    say(d)
  say({ status: "idle", custom_status: "out", custom_emoji: "🏠", activities: [{ type: "playing", name: "chess" }, 7] })
  expect(await own.next("PRESENCE_UPDATE")).toEqual(
    seen(ada, { status: "idle", custom_status: "out", custom_emoji: "🏠" }),
  )
  say({ custom_status: null, activities: [{ type: 0, name: "" }] })
  expect(await own.next("PRESENCE_UPDATE")).toEqual(seen(ada, { custom_emoji: "🏠" }))
  const kept = () => shared.sql<{ activities: unknown }[]>`SELECT activities FROM presences WHERE user_id = ${ada.id}`
  expect((await kept())[0]!.activities).toEqual([])
  say({ status: "online", activities: [{ name: "chess" }] })
  await own.next("PRESENCE_UPDATE")
  expect((await kept())[0]!.activities).toEqual([{ type: "custom", name: "chess" }])
  say({ status: "idle" })
  await own.next("PRESENCE_UPDATE")
  expect((await kept())[0]!.activities).toEqual([{ type: "custom", name: "chess" }])
  say({ status: "dnd", activities: null })
  expect(await own.next("PRESENCE_UPDATE")).toEqual(seen(ada, { status: "dnd", custom_emoji: "🏠" }))
  expect((await kept())[0]!.activities).toEqual([])
  await shared.settle()
  expect(own.rest()).toEqual([])
  // Users who ask are not told.
  expect(asking.rest()).toEqual([])
  expect(asking.state).toBe("live")
})

test("friends see one another without a server in common; a blocked user sees nothing", async ({ shared }) => {
  const { east, west } = shared
  const { server_id, ...people } = await peopleInOneServer(shared)
  const { ada, lin, eve } = people
  const mo = await shared.person("mo")
  const asked = await mo.on(east).requestFriend({ user_id: ada.id })
  expect(asked.status).toBe("pending_outgoing")
  await ada.on(west).acceptFriend({ user_id: mo.id })
  await eve.on(west).blockUser({ user_id: ada.id })
  const [linHears, eveHears, moHears] = await Promise.all([lin, eve, mo].map(one => one.listen(west, { intents })))
  await quiet(shared)
  const own = await ada.listen(east)
  for (const inbox of [linHears!, moHears!]) expect(await inbox.next("PRESENCE_UPDATE", of(ada))).toEqual(seen(ada))
  await ada.on(east).updatePresence({ status: "dnd", custom_status: "busy" })
  const busy = seen(ada, { status: "dnd", custom_status: "busy" })
  for (const inbox of [linHears!, moHears!]) expect(await inbox.next("PRESENCE_UPDATE", of(ada))).toEqual(busy)
  for (const place of [east, west]) {
    expect(await mo.on(place).getPresence({ user_id: ada.id })).toMatchObject(busy)
    expect(await eve.on(place).getPresence({ user_id: ada.id })).toEqual({ ...gone(ada), last_seen: 0 })
    expect(await ada.on(place).getPresence({ user_id: eve.id })).toEqual({ ...gone(eve), last_seen: 0 })
  }
  await quiet(shared)
  expect(presencesIn(eveHears!, ada)).toEqual([])
  expect(own.state).toBe("live")
  expect(server_id).toBeTruthy()
})

test("a large server is told nothing, and its members may ask; without the intent nobody is told", async ({
  shared,
}) => {
  const [ada, lin] = await Promise.all([shared.person("ada"), shared.person("lin")])
  await plantServer(shared, { owner: ada, members: [lin], memberCount: 1_001 })
  const inbox = await lin.listen(shared.west, { intents })
  await ada.listen(shared.east)
  await sees(lin, shared.west, ada, "online")
  const { ada: bob, lin: eve } = await shared.seed(sharedServer)
  const [deaf, hearing] = await Promise.all([
    eve.listen(shared.west, { intents: defaultIntents }),
    eve.listen(shared.west, { intents }),
  ])
  await bob.listen(shared.east)
  expect(await hearing.next("PRESENCE_UPDATE", of(bob))).toEqual(seen(bob))
  await quiet(shared)
  expect(presencesIn(inbox, ada)).toEqual([])
  expect(presencesIn(deaf, bob)).toEqual([])
})

test("the last of a burst of changes is told, and few of the others; each session is told once", async ({ shared }) => {
  const [ada, lin] = await Promise.all([shared.person("ada"), shared.person("lin")])
  for (let i = 0; i < 3; i++) await plantServer(shared, { owner: ada, members: [lin] })
  await lin.on(shared.east).requestFriend({ user_id: ada.id })
  await ada.on(shared.east).acceptFriend({ user_id: lin.id })
  const inboxes = await Promise.all([
    lin.listen(shared.east, { intents }),
    lin.listen(shared.west, { intents, encoding: "msgpack" }),
  ])
  await ada.listen(shared.west)
  for (const inbox of inboxes) expect(await inbox.next("PRESENCE_UPDATE", of(ada))).toEqual(seen(ada))
  const rest = ada.on(shared.east)
  for (let i = 0; i < 10; i++) await rest.updatePresence({ status: i % 2 ? "idle" : "dnd", custom_status: `${i}` })
  await quiet(shared)
  for (const inbox of inboxes) {
    const told = presencesIn(inbox, ada)
    expect(told.at(-1)).toEqual(seen(ada, { status: "idle", custom_status: "9" }))
    expect(told.length).toBeLessThanOrEqual(4)
    expect(new Set(told.map(({ custom_status }) => custom_status)).size).toBe(told.length)
  }
})

async function peopleInOneServer(cluster: Cluster) {
  const [ada, lin, eve] = await Promise.all(["ada", "lin", "eve"].map(name => cluster.person(name)))
  const { server_id } = await plantServer(cluster, { owner: ada!, members: [lin!, eve!] })
  return { server_id, ada: ada!, lin: lin!, eve: eve! }
}

/** The shards of a fresh cluster's user are where the test wants them. */
const ownerOf = async (cluster: Cluster, person: Person): Promise<Worker> => {
  const [row] = await cluster.sql<{ owner: string }[]>`SELECT owner FROM shards WHERE shard = ${shardOf(person.id)}`
  return cluster.workers.find(({ id }) => id === row!.owner)!
}

test("P14: the users of a worker that has died are offline after the window, and those who moved do not flicker", async ({
  cluster,
}) => {
  // On a busy machine, too, those who move come back within it.
  const windowMs = 5 * resumeWindowMs
  const longer = { ...topology, gateway: { resumeWindowMs: windowMs } }
  const [east, west, dying] = (await cluster.boot(3, { topology: longer })) as [Worker, Worker, Worker]
  const watcher = await cluster.person("watcher", east)
  const [moving, staying] = await Promise.all([
    Promise.all(Array.from({ length: 6 }, () => cluster.person("moving", east))),
    Promise.all(Array.from({ length: 6 }, () => cluster.person("staying", west))),
  ])
  await plantServer(cluster, { owner: watcher, members: [...moving, ...staying] })
  const inbox = await watcher.listen(west, { intents })
  const clients = await Promise.all(moving.map(person => person.listen(dying)))
  await Promise.all(staying.map(person => person.listen(dying)))
  for (const person of [...moving, ...staying])
    expect(await inbox.next("PRESENCE_UPDATE", of(person))).toEqual(seen(person))
  await quiet(cluster)
  inbox.rest()
  const diedAt = performance.now()
  await dying.stop()
  await Promise.all(
    clients.map(async (client, i) => {
      await until("it is alone", () => client.state !== "live")
      await client.reconnect([east, west][i % 2]!.url)
    }),
  )
  const flickers: string[] = []
  // First it may be said again that they are there: the worker may have taken that with it.
  for (const { id } of staying)
    await inbox.next("PRESENCE_UPDATE", {
      where: ({ user_id, status }) => user_id === id && status === "offline",
      timeoutMs: 60_000,
    })
  const tookMs = performance.now() - diedAt
  expect(tookMs).toBeGreaterThan(windowMs)
  await quiet(cluster)
  for (const { name, data } of inbox.rest())
    if (name === "PRESENCE_UPDATE" && moving.some(({ id }) => id === data.user_id)) flickers.push(data.status)
  expect(flickers.filter(status => status !== "online")).toEqual([])
  for (const person of moving) await sees(watcher, east, person, "online")
  for (const person of staying) await sees(watcher, east, person, "offline")
})

test("PRES1, P14: nobody stays online whose home's owner died with them, or right after they came or went", async ({
  cluster,
}) => {
  const [east, ...others] = (await cluster.boot(3, { topology })) as [Worker, Worker, Worker]
  const watcher = await cluster.person("watcher", east)
  const people = await Promise.all(Array.from({ length: 12 }, () => cluster.person("one", east)))
  // Somebody's home is with each that dies.
  const owners = await Promise.all(people.map(person => ownerOf(cluster, person)))
  for (const dying of others)
    while (!owners.includes(dying)) {
      const person = await cluster.person("one", east)
      people.push(person)
      owners.push(await ownerOf(cluster, person))
    }
  await plantServer(cluster, { owner: watcher, members: people })
  const inbox = await watcher.listen(east, { intents })
  const heard = new Map<string, string>()
  inbox.on("PRESENCE_UPDATE", ({ user_id, status }) => heard.set(user_id, status))
  for (const dying of others) {
    const mine = []
    for (const person of people) if ((await ownerOf(cluster, person)) === dying) mine.push(person)
    expect(mine.length).toBeGreaterThan(0)
    const [half, rest] = [mine.slice(0, mine.length / 2), mine.slice(mine.length / 2)]
    const [atEast, atDying] = await Promise.all([
      Promise.all(half.map(person => person.listen(east))),
      Promise.all(rest.map(person => person.listen(dying))),
    ])
    await until("those who are served elsewhere are online", () =>
      half.every(({ id }) => (heard.get(id) ?? "offline") !== "offline"),
    )
    // Some hide, some go, and before that is settled their owner is no more.
    await half[0]?.on(east).updatePresence({ status: "idle" })
    atEast.at(-1)?.close()
    await dying.stop()
    for (const client of [...atEast, ...atDying]) client.close()
    await cluster.balanced()
  }
  await until("all are gone", () => people.every(({ id }) => (heard.get(id) ?? "offline") === "offline"), {
    timeoutMs: 60_000,
  })
  for (const person of people) await sees(watcher, east, person, "offline")
  await quiet(cluster)
  for (const person of people) expect(heard.get(person.id) ?? "offline").toBe("offline")
})

test("when everything has settled, what every client heard last is what it would be told if it asked", async ({
  shared,
}) => {
  const { east, west } = shared
  const people = await Promise.all(Array.from({ length: 6 }, (_, i) => shared.person(`p${i}`)))
  const [ada, lin, bob, eve, kim, mo] = people as [Person, Person, Person, Person, Person, Person]
  await plantServer(shared, { owner: ada, members: [lin, bob, mo] })
  await plantServer(shared, { owner: kim, members: [lin, eve] })
  await bob.on(east).requestFriend({ user_id: eve.id })
  await eve.on(west).acceptFriend({ user_id: bob.id })
  await lin.on(west).blockUser({ user_id: mo.id })
  const watchers = await Promise.all(
    people.map(async (person, i) => {
      const heard = new Map<string, unknown>()
      const client = await person.listen(i % 2 ? east : west, { intents })
      client.on("PRESENCE_UPDATE", presence => heard.set(presence.user_id, presence))
      return { person, heard }
    }),
  )
  const random = randomFrom(7, "presence")
  for (let round = 0; round < 40; round++) {
    const person = random.pick(people)
    const place = random.pick([east, west])
    if (random.next() < 0.6) {
      const status = random.pick(["online", "idle", "dnd", "invisible", "offline"] as const)
      await person.on(place).updatePresence({ status, custom_status: `${round}` })
    } else if (person.clients.length > 3) person.clients.splice(2).forEach(client => client.close())
    else await person.listen(place)
  }
  // The watchers' own sockets stay; the others' sessions end.
  for (const person of people) for (const client of person.clients.splice(1)) client.close()
  await quiet(shared)
  const related = [
    [ada, lin, bob, mo],
    [kim, lin, eve],
    [bob, eve],
  ]
  for (const { person, heard } of watchers)
    for (const other of people) {
      if (other === person || !related.some(some => some.includes(person) && some.includes(other))) continue
      const { last_seen: _, ...presence } = await person.on(west).getPresence({ user_id: other.id })
      if (heard.has(other.id)) expect(heard.get(other.id)).toEqual(presence)
    }
  expect(watchers.find(({ person }) => person === lin)!.heard.has(mo.id)).toBe(false)
})

/** Two who are friends, and one who is nobody's. */
async function befriended(one: Person, other: Person, place: Worker): Promise<void> {
  await one.on(place).requestFriend({ user_id: other.id })
  await other.on(place).acceptFriend({ user_id: one.id })
}

test("a new friend is told what the other shows, though that has not changed", async ({ shared }) => {
  const { east, west } = shared
  const [ada, lin] = [await shared.person("ada"), await shared.person("lin")]
  await ada.on(east).updatePresence({ status: "dnd", custom_status: "busy" })
  const [adaHears, linHears] = [await ada.listen(east, { intents }), await lin.listen(west, { intents })]
  await quiet(shared)
  await befriended(ada, lin, east)
  const busy = seen(ada, { status: "dnd", custom_status: "busy" })
  expect(await linHears.next("PRESENCE_UPDATE", of(ada))).toEqual(busy)
  expect(await adaHears.next("PRESENCE_UPDATE", of(lin))).toEqual(seen(lin))
  await quiet(shared)
  expect([...presencesIn(linHears, ada), ...presencesIn(adaHears, lin)]).toEqual([])
})

test("members see who joins as they are, though that has not changed; a block and a large server keep it from them", async ({
  shared,
}) => {
  const { east, west } = shared
  const { ada, lin, eve, server_id } = await peopleInOneServer(shared)
  const mo = await shared.person("mo")
  const large = await plantServer(shared, { owner: ada, members: [lin], memberCount: 1_001 })
  await mo.on(east).updatePresence({ status: "dnd", custom_status: "busy" })
  await eve.on(west).blockUser({ user_id: mo.id })
  const listening = [mo.listen(east, { intents }), ...[lin, eve].map(person => person.listen(west, { intents }))]
  const [moHears, linHears, eveHears] = (await Promise.all(listening)) as [Listener, Listener, Listener]
  const joins = async (server: { server_id: string; channel_id: string }) => {
    const { code } = await ada.on(east).createInvite({ channel_id: server.channel_id })
    await mo.on(west).joinByInvite({ invite_code: code })
  }
  await joins(large)
  await quiet(shared)
  expect(presencesIn(linHears, mo)).toEqual([])
  const [channel] = await ada.on(east).listChannels({ server_id })
  await joins({ server_id, channel_id: channel!.id })
  expect(await linHears.next("PRESENCE_UPDATE", of(mo))).toEqual(seen(mo, { status: "dnd", custom_status: "busy" }))
  await quiet(shared)
  for (const inbox of [moHears, linHears, eveHears]) expect(presencesIn(inbox, mo)).toEqual([])
  // Who has joined reads who is there, as after READY.
  moHears.send({ op: opcodes.REQUEST_GUILD_MEMBERS.op, d: { guild_id: server_id } })
  const { members } = await moHears.next("GUILD_MEMBERS_CHUNK")
  const statusOf = ({ id }: Person) => members.find(({ user_id }) => user_id === id)!.presence?.status
  expect([ada, lin, eve].map(statusOf)).toEqual(["offline", "online", "offline"])
})

test("after a block each of the two is offline for the other, whatever they show, and nobody else hears of it", async ({
  shared,
}) => {
  const { east, west } = shared
  const { ada, lin, eve } = await peopleInOneServer(shared)
  const [bob, mo] = [await shared.person("bob"), await shared.person("mo")]
  await befriended(ada, bob, east)
  const [adaHears, linHears, eveHears, bobHears, moHears] = [
    await ada.listen(east, { intents }),
    await lin.listen(west, { intents }),
    await eve.listen(west, { intents }),
    await bob.listen(east, { intents }),
    await mo.listen(west, { intents }),
  ] as const
  await Promise.all([ada, lin, bob].map(person => sees(eve, west, person, "online")))
  await quiet(shared)
  for (const inbox of [adaHears, linHears, eveHears, bobHears, moHears]) inbox.rest()
  for (const [other, inbox] of [
    [lin, linHears],
    [bob, bobHears],
  ] as const) {
    await ada.on(west).blockUser({ user_id: other.id })
    expect(await inbox.next("PRESENCE_UPDATE", of(ada))).toEqual(gone(ada))
    expect(await adaHears.next("PRESENCE_UPDATE", of(other))).toEqual(gone(other))
  }
  // They never saw one another: an event that the other has gone would tell that they were blocked.
  await ada.on(east).blockUser({ user_id: mo.id })
  await Promise.all([ada, lin, bob, mo].map(person => person.on(east).updatePresence({ status: "idle" })))
  expect(await eveHears.next("PRESENCE_UPDATE", of(ada))).toEqual(seen(ada, { status: "idle" }))
  expect(await eveHears.next("PRESENCE_UPDATE", of(lin))).toEqual(seen(lin, { status: "idle" }))
  await quiet(shared)
  for (const inbox of [linHears, bobHears, moHears]) expect(presencesIn(inbox, ada)).toEqual([])
  const heard = adaHears.rest().flatMap(({ name, data }) => (name === "PRESENCE_UPDATE" ? [data.user_id] : []))
  expect(heard.filter(user => [lin.id, bob.id, mo.id].includes(user))).toEqual([])
  expect(presencesIn(eveHears, ada)).toEqual([])
})

test("a user's blocks reach only the servers that have both as members", async ({ shared }) => {
  const { ada, lin, eve, server_id } = await peopleInOneServer(shared)
  const mo = await shared.person("mo")
  for (const blocker of [lin, mo]) await blocker.on(shared.east).blockUser({ user_id: ada.id })
  await ada.on(shared.east).blockUser({ user_id: eve.id })
  const { audiences } = presencesStorage(shared.sql)
  const { servers, friends, partners, blocked } = (await audiences([ada.id], 1_000)).get(ada.id)!
  expect({ servers, friends, partners, blocked: blocked.toSorted(compareIds) }).toEqual({
    servers: [server_id],
    friends: [],
    partners: [],
    blocked: [lin.id, eve.id].toSorted(compareIds),
  })
  expect((await audiences([ada.id], 2)).get(ada.id)).toEqual({
    servers: [],
    friends: [],
    partners: [],
    blocked: [],
  })
})

test("a read during a change is not answered with what was so before", async ({ shared }) => {
  const { ada } = await shared.seed(sharedServer)
  const owner = await ownerOf(shared, ada)
  await ada.listen(shared.east)
  await quiet(shared)
  const due = () => gauge(owner, "starling_presence_due_users")
  for (let round = 0; round < 4; round++) {
    const custom_status = `${round}`
    await ada.on(shared.west).updatePresence({ status: "idle", custom_status })
    const answers = new Set<string | null>()
    do {
      const asked = await Promise.all(Array.from({ length: 20 }, () => owner.node.presences.of([ada.id])))
      for (const answer of asked) answers.add(answer.get(ada.id)!.custom_status)
    } while ((await due()) > 0)
    expect([...answers]).toEqual([custom_status])
  }
})

test("five thousand who come and go together are not looked at in one portion after each pause", async ({
  cluster,
}) => {
  // With a pause for each portion it would take ten times as long as anybody waits here.
  const [east, west] = (await cluster.boot(2, { topology: { presence: { flushEveryMs: 4_000 } } })) as [Worker, Worker]
  const lin = await cluster.person("lin", east)
  const many = Array.from({ length: 5_000 }, () => plantedId())
  await cluster.sql`
    INSERT INTO users (id, username, email, created_at)
    SELECT id, 'one-' || id, 'one-' || id || '@example.com', 1704153600 FROM unnest(${many}::bigint[]) AS id`
  const { server_id } = await plantServer(cluster, { owner: lin, memberCount: 1_000 })
  await cluster.sql`
    INSERT INTO members (server_id, user_id, joined_at)
    SELECT ${server_id}, id, 1704153600 FROM unnest(${many.slice(0, 999)}::bigint[]) AS id`
  const inbox = await lin.listen(west, { intents })
  const heard = new Map<string, string>()
  inbox.on("PRESENCE_UPDATE", ({ user_id, status }) => heard.set(user_id, status))
  const byShard = new Map<number, string[]>()
  for (const user of many) byShard.set(shardOf(user), [...(byShard.get(shardOf(user)) ?? []), user])
  const { router, presences } = west.node
  const slowly = { timeoutMs: 60_000 }
  await Promise.all([...byShard].map(([shard, users]) => router.register(shard, users)))
  await until("all of the server are online", () => heard.size >= 999, slowly)
  await until("all are", async () => (await presences.of(many)).size === many.length, slowly)
  await until(
    "nobody is to be looked at",
    async () => {
      const due = await Promise.all([east, west].map(worker => gauge(worker, "starling_presence_due_users")))
      return due.every(users => users === 0)
    },
    slowly,
  )
  await Promise.all([...byShard].map(([shard, users]) => router.releaseSurely(shard, users)))
  const areGone = () => many.slice(0, 999).every(user => heard.get(user) === "offline")
  await until("all of the server have gone", areGone, slowly)
  await until("all have", async () => (await presences.of(many)).size === 0, slowly)
})

test("what goes to many servers goes in slices, and to each session once", async ({ cluster }) => {
  const [east, west] = (await cluster.boot(2, { topology: { gateway: { sockets: { sliceBytes: 1 } } } })) as [
    Worker,
    Worker,
  ]
  const [ada, lin, bob] = await Promise.all(["ada", "lin", "bob"].map(name => cluster.person(name, east)))
  for (const members of [[lin!], [lin!, bob!], [bob!], [lin!]]) await plantServer(cluster, { owner: ada!, members })
  await befriended(ada!, lin!, east)
  const inboxes = [await lin!.listen(west, { intents }), await bob!.listen(west, { intents })]
  await quiet(cluster)
  for (const inbox of inboxes) inbox.rest()
  await ada!.listen(east)
  for (const inbox of inboxes) expect(await inbox.next("PRESENCE_UPDATE", of(ada!))).toEqual(seen(ada!))
  await quiet(cluster)
  for (const inbox of inboxes) expect(presencesIn(inbox, ada!)).toEqual([])
})

test("a user who changes very often is told of at times, and that they go at once", async ({ cluster }) => {
  const long = 3_600_000
  const [east] = await cluster.boot(1, { topology: { presence: { spreadEveryMs: long, spreadAtLeastEveryMs: 500 } } })
  const { ada, lin } = await cluster.seed(sharedServer)
  const inbox = await lin.listen(east!, { intents })
  await ada.listen(east!)
  expect(await inbox.next("PRESENCE_UPDATE", of(ada))).toEqual(seen(ada))
  await ada.on(east!).updatePresence({ status: "dnd" })
  expect(await inbox.next("PRESENCE_UPDATE", of(ada))).toEqual(seen(ada, { status: "dnd" }))
})

test("a user who may not be told of for an hour is seen to go at once", async ({ cluster }) => {
  const long = 3_600_000
  const [east] = await cluster.boot(1, { topology: { presence: { spreadEveryMs: long, spreadAtLeastEveryMs: long } } })
  const { ada, lin } = await cluster.seed(sharedServer)
  const inbox = await lin.listen(east!, { intents })
  await ada.listen(east!)
  expect(await inbox.next("PRESENCE_UPDATE", of(ada))).toEqual(seen(ada))
  await ada.on(east!).updatePresence({ status: "invisible" })
  expect(await inbox.next("PRESENCE_UPDATE", of(ada))).toEqual(gone(ada))
})

test("what many users chose is written by rising ids, as when they were last seen: neither waits for the other in a circle", async ({
  shared,
}) => {
  const people = await Promise.all(["one", "two"].map(name => shared.person(name)))
  const sql = openPool({
    url: shared.databaseUrl,
    connections: 5,
    statementTimeoutMs: 10_000,
    connectTimeoutMs: 5_000,
    name: "test",
  })
  const [low, high] = people.map(({ id }) => id).toSorted(compareIds) as [string, string]
  const { noteLastSeen } = presencesStorage(sql)
  // The table holds them the other way round.
  for (const id of [high, low]) await noteLastSeen([id], 1)
  const rows = [high, low].map(user_id =>
    putPresence({ user_id, status: "idle", custom_status: null, custom_emoji: null }),
  )
  const [first] = rows
  let writing: PromiseLike<unknown> | undefined
  await sql.begin(async held => {
    await held`SELECT 1 FROM presences WHERE user_id = ${low} FOR UPDATE`
    writing = first!.kind.statement(
      sql,
      rows.map(({ row }) => row),
    )
    writing.then(
      () => {},
      () => {},
    )
    await until("it waits for the first", async () => {
      const waiting = await sql`
        SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database() AND query LIKE '%INTO presences%'`
      return waiting.length > 0
    })
    // The second is free as long as the first is not.
    await sql`SELECT 1 FROM presences WHERE user_id = ${high} FOR UPDATE NOWAIT`
    await expect(noteLastSeen([high, low], 2)).rejects.toMatchObject({ code: "55P03" })
  })
  await writing
  await noteLastSeen([high, low], 3)
  const kept = await sql`SELECT status, last_seen FROM presences WHERE user_id IN (${low}, ${high})`
  expect([...kept]).toEqual([high, low].map(() => ({ status: "idle", last_seen: 3 })))
  await sql.end()
})

/** People whose homes one worker owns. */
async function peopleOf(cluster: Cluster, owner: Worker, count: number): Promise<Person[]> {
  const found: Person[] = []
  while (found.length < count) {
    const person = await cluster.person("one")
    if ((await ownerOf(cluster, person)) === owner) found.push(person)
  }
  return found
}

test("friends whose home does not answer are listed and made all the same; what is not known is null", async ({
  cluster,
}) => {
  const [east, west] = (await cluster.boot(2, { topology })) as [Worker, Worker]
  const [ada, lin] = (await peopleOf(cluster, east, 2)) as [Person, Person]
  const [bob, mo, eve] = (await peopleOf(cluster, west, 3)) as [Person, Person, Person]
  const rest = ada.on(east)
  for (const other of [lin, bob]) await befriended(ada, other, east)
  await mo.on(east).requestFriend({ user_id: ada.id })
  await lin.listen(east)
  await sees(ada, east, lin, "online")
  const ends: (() => void)[] = []
  west.node.bus.handle(
    "presencesOf",
    () => new Promise(resolve => ends.push(() => resolve({ seen: [], elsewhere: [] }))),
  )
  const presences = async () =>
    new Map((await rest.listRelationships()).map(({ user_id, presence }) => [user_id, presence] as const))
  expect(await presences()).toEqual(
    new Map([
      [lin.id, { status: "online" }],
      [bob.id, null],
      [mo.id, null],
    ]),
  )
  expect((await rest.requestFriend({ user_id: eve.id })).status).toBe("pending_outgoing")
  const own = await ada.listen(east)
  expect(await rest.acceptFriend({ user_id: mo.id })).toEqual({ success: true })
  expect(await own.next("RELATIONSHIP_ADD")).toMatchObject({ user_id: mo.id, status: "friend", presence: null })
  expect(await refusal(rest.getPresence({ user_id: bob.id }))).toBe("unavailable")
  for (const end of ends) end()
})

test("a fault of the asked worker is told as such; only what another version does not know counts as empty", async ({
  cluster,
}) => {
  const [east, west] = (await cluster.boot(2, { topology })) as [Worker, Worker]
  const [bob] = (await peopleOf(cluster, west, 1)) as [Person]
  await expect(east.node.bus.request(west.id, "unheardOf", {}, 5_000)).rejects.toBeInstanceOf(NotHandled)
  west.node.bus.handle("presencesOf", () => Promise.reject(new Error("broken")))
  await expect(east.node.presences.of([bob.id])).rejects.toMatchObject({ code: "internal" })
  await expect(east.node.presences.lookUp([bob.id])).rejects.toMatchObject({ code: "internal" })
  expect(cluster.errors.splice(0)).not.toEqual([])
})
