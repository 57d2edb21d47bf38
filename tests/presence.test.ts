import type { Presence } from "../src/contract/presence.ts"
import { allIntents, defaultIntents } from "../src/contract/intents.ts"
import { plantServer, sharedServer } from "./kit/seeds.ts"
import { shardOf } from "../src/domain/snowflake.ts"
import { randomFrom } from "./chaos/random.ts"
import type { Cluster, Worker } from "./kit/cluster.ts"
import { refusal } from "./kit/conformance.ts"
import type { Listener, Person } from "./kit/person.ts"
import { expect, testWith } from "./kit/test.ts"
import { until } from "./kit/until.ts"

const resumeWindow = 1_000
const topology = { gateway: { resumeWindow } }
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
  timeoutMs: 15_000,
})

/** Nobody is to be looked at any more, and what was found has reached the clients. */
async function quiet(cluster: Cluster): Promise<void> {
  const { workers } = cluster
  await until("every presence is told", async () => {
    const due = await Promise.all(workers.map(worker => gaugeOf(worker, "starling_presence_due_users")))
    return due.every(users => users === 0)
  })
  // Inboxes keep order: what was said before is with the owners of homes, and then with those who serve them.
  for (const _ of [1, 2])
    await Promise.all(
      workers.flatMap(one =>
        workers
          .filter(other => other !== one)
          .map(other => one.node.bus.request(other.id, "servedHomes", { shards: [] }, 5_000)),
      ),
    )
  await cluster.settle()
}

async function gaugeOf({ metrics }: Worker, name: string): Promise<number> {
  const metric = (await metrics.registry.getMetricsAsJSON()).find(one => one.name === name)
  return (metric as unknown as { values: { value: number }[] }).values[0]!.value
}

/** What others see of somebody is as it should be, whoever they ask. */
const sees = (who: Person, place: Worker, whom: Person, status: string) =>
  until(`${who.username} sees ${whom.username} ${status}`, async () => {
    const presence = await who.on(place).getPresence({ user_id: whom.id })
    return presence.status === status
  })

const presencesIn = (inbox: Listener, person: Person) =>
  inbox.rest().flatMap(({ name, data }) => (name === "PRESENCE_UPDATE" && data.user_id === person.id ? [data] : []))

test("whoever comes is online, whoever chooses is as he chose, and whoever hides looks as if he had gone", async ({
  shared,
}) => {
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
    // After its answer a change is seen by whoever asks.
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
  await until("when he was last seen is noted", async () => {
    const { last_seen } = await lin.on(east).getPresence({ user_id: ada.id })
    return last_seen !== null && last_seen > 1_700_000_000
  })
  expect(await ada.on(west).getPresence({ user_id: ada.id })).toMatchObject(
    seen(ada, { status: "invisible", custom_status: "hidden" }),
  )
  await quiet(shared)
  expect(presencesIn(inbox, ada)).toEqual([])
})

test("whoever has several sessions goes with the last of them, once its window has passed", async ({ shared }) => {
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

test("P14: whoever resumes on another worker was never gone", async ({ shared }) => {
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
  expect(await set({ status: "dnd", custom_emoji: null })).toEqual(seen(ada, { status: "dnd" }))
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
  const own = await ada.listen(shared.east, { intents })
  const say = (d: unknown) => own.send({ op: 3, d })
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
  await shared.settle()
  expect(own.rest()).toEqual([])
  expect(own.state).toBe("live")
})

test("friends see one another without a server in common; whoever is blocked sees nothing", async ({ shared }) => {
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

test("of a burst of changes the last one is told, and few of the others; each session is told once", async ({
  shared,
}) => {
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
  const [east, west, dying] = (await cluster.boot(3, { topology })) as [Worker, Worker, Worker]
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
  const last = new Map<string, string>()
  const flickers: string[] = []
  for (const person of staying) {
    const told = await inbox.next("PRESENCE_UPDATE", of(person))
    last.set(person.id, told.status)
  }
  const tookMs = performance.now() - diedAt
  expect([...last.values()]).toEqual(staying.map(() => "offline"))
  expect(tookMs).toBeGreaterThan(resumeWindow)
  await quiet(cluster)
  for (const { name, data } of inbox.rest())
    if (name === "PRESENCE_UPDATE" && moving.some(({ id }) => id === data.user_id)) flickers.push(data.status)
  expect(flickers.filter(status => status !== "online")).toEqual([])
  for (const person of moving) await sees(watcher, east, person, "online")
  for (const person of staying) await sees(watcher, east, person, "offline")
})

test("P14: nobody stays a ghost whose home's owner died with him, or right after he came or went", async ({
  cluster,
}) => {
  const [east, ...others] = (await cluster.boot(3, { topology })) as [Worker, Worker, Worker]
  const watcher = await cluster.person("watcher", east)
  const people = await Promise.all(Array.from({ length: 12 }, () => cluster.person("one", east)))
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
    patience: 20_000,
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
