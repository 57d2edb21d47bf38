/**
 * P5: READY, the first reads and the events that follow are as good as the same reads made afresh,
 * for every kind of event.
 */
import { randomInt } from "node:crypto"
import { setTimeout as sleep } from "node:timers/promises"
import { Reads, type ReadingClient } from "../../client/reads.ts"
import { ApiError } from "../../client/rest.ts"
import { eventIntents } from "../../client/contract.ts"
import { reducers } from "../../client/state.ts"
import { storeIntents } from "../../client/store.ts"
import { events, operatorRoutes, routes, type EventName, type Routes } from "../../src/contract/contract.ts"
import { opcodes } from "../../src/contract/core/gateway-codes.ts"
import { allIntents } from "../../src/contract/core/intents.ts"
import type { Route } from "../../src/contract/core/registry.ts"
import { randomFrom, type Random } from "../chaos/random.ts"
import { acts, notify, World, type Act } from "../kit/acts.ts"
import { compared, differences, ModelClient } from "../kit/client-model.ts"
import { runs } from "../kit/effort.ts"
import type { Listener, Person, Starling } from "../kit/person.ts"
import { apng, fileOf } from "../kit/pictures.ts"
import { dmBetween, sharedServer } from "../kit/seeds.ts"
import { expect, testWith, type SharedCluster } from "../kit/test.ts"

/** Acts set pictures. */
const test = testWith({ encodes: true })
const names = Object.keys(events) as EventName[]

/** Without READY nothing begins. */
const later = names.filter(name => name !== "READY")

/**
 * Events after which a client's reads show the same as before. A client that misses one loses
 * nothing.
 */
const silent: ReadonlyMap<EventName, string> = new Map([
  ["RESUMED", "what was missed follows; presences, which may be lost, are read again"],
  ["SESSION_POSITION", "moves nothing but the position"],
  ["GUILD_MEMBERS_CHUNK", "is only sent to clients that ask, and says what the events have said"],
  ["TYPING_START", "may be lost, and no read shows it"],
  ["TYPING_STOP", "may be lost, and no read shows it"],
  ["INVITE_CREATE", "is told of what a client reads when it shows invites, not before"],
  ["INVITE_DELETE", "is told of what a client reads when it shows invites, not before"],
  ["VOICE_SERVER_UPDATE", "is only sent to the connection that joins"],
  ["WEBHOOKS_UPDATE", "says that webhooks are to be read again, which nobody keeps"],
  ["SECURITY_LOGOUT", "is the last that a session is told"],
  ["PRESENCE_UPDATE", "may be lost; a client that wants to be sure asks"],
  ["NOTIFICATION_SETTINGS_UPDATE", "is told of what a client reads where it shows it, not before"],
])
/** Events that no request and no client can bring about. */
const unprovoked: ReadonlyMap<EventName, string> = new Map([["SECURITY_LOGOUT", "only an operator does"]])

/** Routes that change nothing though they are no GET. */
const harmless: readonly string[] = ["negotiateVersion"]

/** Routes that do what others do: a user who comes from a provider registers or signs in. */
const alike: readonly string[] = ["completeOAuth", "putOwnAvatar", "completePasskeySignIn", "completePasskeyFactor"]

/** Routes that change what no event tells of: a file is seen once a message shows it, a bot once it joins; timings only operators see. */
const unseen: readonly string[] = [
  "createBot",
  "resetBotToken",
  "createUploadSession",
  "uploadChunk",
  "completeUpload",
  "deleteUploadSession",
  "createPushSubscription",
  "deletePushSubscription",
  "testPushSubscription",
  "reportFile",
  "reportMessage",
  "reportUser",
  "sendFeedback",
  "recordResponseTimes",
  "recordTelemetry",
  "reportCspViolation",
  "beginPasskeySignIn",
  "beginPasskeyFactor",
  "preparePasskey",
  "addPasskey",
  "renamePasskey",
  "removePasskey",
]

test("every event has its model, and every route that changes something somebody who uses it", () => {
  expect(Object.keys(reducers).toSorted()).toEqual(names.toSorted())
  const withheld = names.filter(name => (eventIntents[name] & ~storeIntents) !== 0)
  expect(withheld.filter(name => !silent.has(name))).toEqual([])
  // What operators do is no act of a user.
  const changing = Object.entries<Route>(routes).flatMap(([name, { method }]) =>
    method === "GET" || name in operatorRoutes ? [] : [name],
  )
  expect([...Object.keys(acts), ...harmless, ...alike, ...unseen].toSorted()).toEqual(changing.toSorted())
})

/** The package's client takes numbers in queries, too; what it sends is the same. */
const reading = (rest: Starling) => rest as unknown as ReadingClient

/** Each request on any of the workers. */
const readsOf = (shared: SharedCluster, person: Person, random: Random) => (): ReadingClient =>
  reading(person.on(random.pick([shared.east, shared.west])))

/**
 * For many clients of one user that are told everything at once: what they ask for in the same
 * moment is asked for once.
 */
function sharedReads(rest: () => Starling): () => ReadingClient {
  const answers = new Map<string, Promise<unknown>>()
  const asked = (name: string) => (input: unknown) => {
    const question = `${name} ${JSON.stringify(input)}`
    let answer = answers.get(question)
    if (!answer) {
      answer = (rest() as unknown as Record<string, (input: unknown) => Promise<unknown>>)[name]!(input)
      answers.set(question, answer)
      setImmediate(() => answers.delete(question))
    }
    // Each keeps what it is given, and changes it.
    return answer.then(reply => structuredClone(reply))
  }
  const all = new Proxy({}, { get: (_, name) => asked(String(name)) }) as Starling
  return () => reading(all)
}

test("P5: a client that misses one kind of event knows less than one that reads afresh", async ({ shared }) => {
  const { east, west } = shared
  const random = randomFrom(1, "deaf")
  const { ada, lin, server, channel } = await shared.seed(sharedServer)
  const [mo, eve] = [await shared.person("mo"), await shared.person("eve")]
  const rest = ada.on(east)
  const server_id = server.id
  const { code } = await rest.createInvite({ channel_id: channel.id })
  for (const person of [mo, eve]) await person.on(west).joinByInvite({ invite_code: code })
  const outlaw = await shared.person("outlaw")
  await rest.banUser({ server_id, user_id: outlaw.id })
  const guard = await rest.createRole({
    server_id,
    name: "Guard",
    permissions: { "members.ban": true, "server.manage": true, "webhooks.manage": true },
  })
  const [renamed, doomed] = [
    await rest.createRole({ server_id, name: "Crew" }),
    await rest.createRole({ server_id, name: "Doomed" }),
  ]
  await rest.giveRole({ server_id, member_id: lin.id, role_id: guard.id })
  await rest.giveRole({ server_id, member_id: lin.id, role_id: doomed.id })
  const hidden = await rest.createChannel({ server_id, name: "hidden" })
  const talk = await rest.createChannel({ server_id, name: "talk", type: "voice" })
  const channel_id = channel.id
  const [edited, deleted] = [
    await rest.createMessage({ channel_id, content: "first" }),
    await rest.createMessage({ channel_id, content: "second" }),
  ]
  await eve.on(west).createMessage({ channel_id, content: "from Eve" })
  const ending = await rest.createServer({ name: "Ending" })
  const [lobby] = await rest.listChannels({ server_id: ending.id })
  const way = await rest.createInvite({ channel_id: lobby!.id })
  await lin.on(west).joinByInvite({ invite_code: way.code })
  await mo.on(west).requestFriend({ user_id: lin.id, message: "it is Mo" })
  const coming = await rest.createServer({ name: "Coming" })
  const [hall] = await rest.listChannels({ server_id: coming.id })
  const invitation = await rest.createInvite({ channel_id: hall!.id })

  const known = await dmBetween(lin, mo, west)
  const unsaid = await mo.on(east).createMessage({ channel_id: known, content: "forget it" })
  const { id: unread } = await notify(east, lin, "before READY")
  await notify(east, lin, "stays unread")
  await shared.bootJobWorker()
  const client = lin.gateway(east, { intents: allIntents })
  const whole = new ModelClient(readsOf(shared, lin, random))
  const reads = sharedReads(() => lin.on(random.pick([east, west])))
  const deaf = new Map(later.map(name => [name, new ModelClient(reads, name)]))
  const models = [whole, ...deaf.values()]
  client.on("dispatch", event => {
    for (const model of models) model.receive(event)
  })
  await client.connect()
  for (const model of models) await model.caughtUp()

  await lin.on(west).joinByInvite({ invite_code: invitation.code })
  // Of a server that came after READY it keeps what GUILD_CREATE said, too.
  const inComing = { server_id: coming.id }
  const [passing] = [
    await rest.createChannel({ ...inComing, name: "passing" }),
    await rest.createChannel({ ...inComing, name: "kept" }),
  ]
  const [guest, gone] = [
    await rest.createRole({ ...inComing, name: "Guest" }),
    await rest.createRole({ ...inComing, name: "Gone" }),
  ]
  await rest.editChannel({ channel_id: hall!.id, name: "great-hall" })
  await rest.deleteChannel({ channel_id: passing.id })
  await rest.editRole({ ...inComing, role_id: guest.id, name: "Guests" })
  await rest.deleteRole({ ...inComing, role_id: gone.id })
  await rest.editServer({ ...inComing, name: "Has come" })
  const direct = await dmBetween(eve, lin, east)
  await lin.on(west).createMessage({ channel_id: direct, content: "hello Eve" })
  await mo.on(east).deleteMessage({ channel_id: known, message_id: unsaid.id })
  await rest.deleteServer({ server_id: ending.id })
  await rest.editServer({ server_id, description: "Ours" })
  const { id: message_id } = await rest.createMessage({ channel_id, content: "third" })
  for (const emoji of ["👍", "🔥"]) await rest.addReaction({ channel_id, message_id, emoji })
  await lin.on(west).addReaction({ channel_id, message_id, emoji: "👍" })
  for (const id of [edited.id, message_id]) await rest.editMessage({ channel_id, message_id: id, content: "again" })
  await rest.removeReaction({ channel_id, message_id, emoji: "🔥" })
  await lin.on(west).ackMessages({ channel_id, message_id })
  await rest.deleteMessage({ channel_id, message_id: deleted.id })
  const own = await ada.listen(west)
  own.typing(channel_id)
  await client.next("TYPING_START")
  own.send({ op: opcodes.TYPING_STOP.op, d: { channel_id } })
  await client.next("TYPING_STOP")
  client.send({ op: opcodes.REQUEST_GUILD_MEMBERS.op, d: { guild_id: server_id } })
  await client.next("GUILD_MEMBERS_CHUNK")
  await client.next("PRESENCE_UPDATE")
  for (const one of [own, client]) one.send({ op: opcodes.VOICE_CONNECT.op, d: { channel_id: talk.id } })
  await client.next("VOICE_SERVER_UPDATE")
  await mo.on(west).editOwnMember({ server_id, nickname: "Momo" })
  await rest.deleteInvite({ invite_code: (await rest.createInvite({ channel_id })).code })
  await rest.createWebhook({ channel_id, name: "Crier" })
  await rest.createEmoji({ server_id, name: "gull", image: fileOf(apng()) })
  for (const name of ["Gull", "Tern"]) await rest.createSticker({ server_id, name, image: fileOf(apng()) })
  await rest.createRole({ server_id, name: "New" })
  await rest.editRole({ server_id, role_id: renamed.id, name: "Sailors" })
  await rest.deleteRole({ server_id, role_id: doomed.id })
  await rest.giveRole({ server_id, member_id: mo.id, role_id: renamed.id })
  const short = await rest.createChannel({ server_id, name: "new" })
  await rest.editChannel({ channel_id, topic: "What was said" })
  await rest.deleteChannel({ channel_id: short.id })
  await rest.createChannel({ server_id, name: "newer" })
  await lin.on(west).putServerNotificationSettings({ server_id, level: "mentions" })
  const last = await rest.createMessage({ channel_id, content: "unread to the end" })
  await rest.setOverride({ channel_id, target_id: mo.id, type: "member", allow: [], deny: ["messages.send"] })
  await rest.setOverride({
    channel_id: hidden.id,
    target_id: server_id,
    type: "role",
    allow: [],
    deny: ["channels.view"],
  })
  await rest.editMember({ server_id, member_id: mo.id, timeout_seconds: 3_600 })
  await lin.on(east).editMe({ username: shared.newName("lin") })
  await rest.requestFriend({ user_id: lin.id })
  await mo.on(east).deleteRelationship({ user_id: lin.id })
  await rest.unbanUser({ server_id, user_id: outlaw.id })
  await rest.banUser({ server_id, user_id: eve.id, delete_message_days: 1 })
  await client.next("MESSAGE_DELETE_BULK", { timeoutMs: 20_000 })
  await lin.on(east).readNotification({ notification_id: unread })
  await notify(west, lin, "after READY")
  await rest.editMe({ username: shared.newName("ada") })
  await client.next("USER_UPDATE", { where: ({ id }) => id === ada.id })
  const late = await shared.person("late")
  await late.on(west).joinByInvite({ invite_code: code })
  client.drop()
  await client.reconnect(west.url)
  await shared.settle()
  for (const model of models) await model.caughtUp()
  // Nothing that follows has it count what is unread again.
  await lin.on(east).ackMessages({ channel_id })
  await client.next("MESSAGE_ACK", { where: ({ message_id }) => message_id === last.id })
  for (const model of models) await model.caughtUp()

  const fresh = await new Reads(readsOf(shared, lin, random)).afresh()
  const { told, read } = compared(whole.state, fresh)
  expect(differences(told, read), whole.tail()).toEqual([])
  const seen = new Set(whole.log.map(({ name }) => name))
  expect(names.filter(name => !seen.has(name))).toEqual([...unprovoked.keys()])
  // The check can fail: for each kind it does.
  const unharmed = [...deaf].flatMap(([name, { state }]) => {
    const { told, read } = compared(state, fresh)
    return differences(told, read).length === 0 ? [name] : []
  })
  expect(unharmed.toSorted()).toEqual([...silent.keys()].toSorted())
})

/** What a client knows is what one knows who reads afresh. */
async function agree(shared: SharedCluster, person: Person, model: ModelClient, random: Random, what: string) {
  await model.caughtUp()
  const { told, read } = compared(model.state, await new Reads(readsOf(shared, person, random)).afresh())
  const found = differences(told, read)
  const server = /^\/servers\/(\d+)/.exec(found[0] ?? "")?.[1]
  expect(found.slice(0, 20), `${what} was told:\n${model.tail(server)}`).toEqual([])
}

/** `READY_SEED` in the environment repeats a run's choices. */
const newSeed = () => Number(process.env["READY_SEED"] ?? randomInt(2 ** 31))

const bursts = runs(10)

test(
  "IDENT1, P5: a session that identifies or resumes while its user's access changes is told all of it",
  { timeout: 180_000 },
  async ({ shared }) => {
    const seed = newSeed()
    const random = randomFrom(seed, "bursts")
    const place = () => random.pick([shared.east, shared.west])
    const pause = () => sleep(random.below(20))
    const [ada, lin] = [await shared.person("ada"), await shared.person("lin")]
    const ways = { east: 0, west: 0, resumed: 0 }
    let resuming: { person: Person; client: Listener; model: ModelClient }[] = []

    for (let burst = 1; burst <= bursts; burst++) {
      // Where nobody who ever had a session is a member, no worker takes the server's events yet.
      const late = await shared.person("late")
      const people = burst % 2 === 0 ? [late] : [lin, late]
      const owner = () => ada.on(place())
      const { id: server_id } = await owner().createServer({ name: `Burst ${burst}` })
      const [lobby] = await owner().listChannels({ server_id })
      const { id: role_id } = await owner().createRole({ server_id, permissions: { "members.ban": true } })
      const { id: secret } = await owner().createChannel({ server_id, name: "secret" })
      const { code } = await owner().createInvite({ channel_id: lobby!.id })
      const only = { channel_id: secret, type: "role" as const }
      await owner().setOverride({ ...only, target_id: role_id, allow: ["channels.view"], deny: [] })
      await owner().setOverride({ ...only, target_id: server_id, allow: [], deny: ["channels.view"] })
      const join = (person: Person) => person.on(place()).joinByInvite({ invite_code: code })
      const give = (person: Person) => owner().giveRole({ server_id, member_id: person.id, role_id })
      const changes = people.map(person => ({
        person,
        change: random.pick(["join", "leave", "give", "take"] as const),
      }))
      for (const { person, change } of changes) {
        if (change !== "join") await join(person)
        if (change === "take") await give(person)
      }

      const beginning = people.flatMap(person =>
        (["east", "west"] as const).map(way => {
          const model = new ModelClient(readsOf(shared, person, random))
          const client = person.gateway(shared[way])
          client.on("dispatch", event => model.receive(event))
          ways[way]++
          return { person, client, model }
        }),
      )
      ways.resumed += resuming.length
      await Promise.all([
        ...changes.map(async ({ person, change }) => {
          await pause()
          if (change === "join") await join(person)
          else if (change === "leave") await person.on(place()).leaveServer({ server_id })
          else if (change === "give") await give(person)
          else await owner().takeRole({ server_id, member_id: person.id, role_id })
        }),
        ...beginning.map(({ client }) => pause().then(() => client.connect())),
        ...resuming.map(({ client }) => pause().then(() => client.reconnect(place().url))),
      ])
      await shared.settle()
      // What the sessions are given now shows whether they stand where they should.
      for (const channel_id of [lobby!.id, secret])
        await owner().createMessage({ channel_id, content: "who hears it?" })
      await shared.settle()
      for (const [i, { person, model }] of [...beginning, ...resuming].entries()) {
        const how = i < beginning.length ? "identified" : "resumed"
        await agree(shared, person, model, random, `seed ${seed}, burst ${burst}, ${person.username}, who ${how},`)
      }
      for (const { client } of resuming) client.close()
      for (const { client } of beginning) client.drop()
      resuming = beginning.filter((_, i) => i % 2 === burst % 2)
      await owner().deleteServer({ server_id })
    }
    expect(Math.min(...Object.values(ways))).toBeGreaterThan(0)
  },
)

/** How often each is tried; signing in costs a password's hash, so it happens once. */
const deck = (
  Object.entries({
    createMessage: 8,
    editMessage: 3,
    deleteMessage: 3,
    addReaction: 4,
    removeReaction: 3,
    pinMessage: 1,
    unpinMessage: 1,
    bulkDeleteMessages: 1,
    executeWebhook: 2,
    startTyping: 1,
    createChannel: 3,
    editChannel: 2,
    reorderChannels: 2,
    deleteChannel: 2,
    setOverride: 6,
    deleteOverride: 2,
    createRole: 3,
    editRole: 5,
    deleteRole: 2,
    giveRole: 5,
    takeRole: 3,
    createInvite: 1,
    // What others can only rename, use or delete while there is one.
    createEmoji: 1,
    createSticker: 1,
    createWebhook: 1,
    createAutomodRule: 1,
    joinByInvite: 8,
    leaveServer: 2,
    kickMember: 2,
    banUser: 2,
    unbanUser: 3,
    createServer: 2,
    deleteServer: 1,
    requestFriend: 5,
    acceptFriend: 3,
    deleteRelationship: 3,
    blockUser: 2,
  } satisfies { [Name in keyof Routes]?: number }) as [keyof Routes, number][]
).flatMap(([name, weight]) => Array.from({ length: weight }, () => name))

/** Somebody's client, which comes and goes as it likes. */
class Wanderer {
  readonly #shared: SharedCluster
  readonly #random: Random
  readonly name: string
  readonly person: Person
  readonly counts: Record<"identified" | "resumed" | "resumedElsewhere" | "begunAgain", number>
  readonly seen: Map<EventName, number>
  #client: Listener | undefined
  #url = ""
  #model: ModelClient | undefined

  constructor(
    shared: SharedCluster,
    person: Person,
    { seed, name, seen, counts }: { seed: number; name: string } & Pick<Wanderer, "seen" | "counts">,
  ) {
    this.#shared = shared
    this.#random = randomFrom(seed, name)
    this.name = name
    this.person = person
    this.seen = seen
    this.counts = counts
  }

  get model(): ModelClient {
    return this.#model!
  }

  async step(): Promise<void> {
    const random = this.#random
    if (!this.#client || random.next() < 0.3) return this.#identify()
    if (random.next() < 0.4) return this.#resume()
    await sleep(random.below(80))
  }

  async #identify(): Promise<void> {
    const random = this.#random
    this.#client?.close()
    const place = random.pick(this.#shared.workers)
    const model = new ModelClient(readsOf(this.#shared, this.person, random))
    const client = this.person.gateway(place, {
      encoding: random.pick(["json", "msgpack"]),
      backoff: { firstMs: 10, maxMs: 100 },
    })
    client.on("dispatch", event => {
      this.seen.set(event.name, (this.seen.get(event.name) ?? 0) + 1)
      model.receive(event)
    })
    client.on("invalid_session", () => this.counts.begunAgain++)
    ;[this.#client, this.#model, this.#url] = [client, model, place.url]
    await client.connect()
    this.counts.identified++
  }

  async #resume(): Promise<void> {
    const { url } = this.#random.pick(this.#shared.workers)
    this.#client!.drop()
    await sleep(this.#random.below(60))
    await this.#client!.reconnect(url)
    this.counts[url === this.#url ? "resumed" : "resumedElsewhere"]++
    this.#url = url
  }
}

const rounds = runs(3)
const actsPerRound = 70

test(
  "P5, CLIENT6: a client that comes and goes while everything changes knows what a fresh reader knows",
  { timeout: 180_000 },
  async ({ shared }) => {
    const seed = newSeed()
    const random = randomFrom(seed, "acts")
    await shared.bootJobWorker()
    const people = await Promise.all(["ada", "lin", "mo", "eve"].map(name => shared.person(name)))
    const world = new World(shared, random, people)
    const done = new Map<string, number>()
    const refused = new Map<string, number>()
    const act = async (name: keyof Routes) => {
      try {
        if ((await (acts[name] as Act)(world)) !== false) done.set(name, (done.get(name) ?? 0) + 1)
      } catch (error) {
        if (!(error instanceof ApiError) || error.status >= 500)
          throw new Error(`seed ${seed}: ${name}`, { cause: error })
        refused.set(name, (refused.get(name) ?? 0) + 1)
      }
    }
    for (const name of ["createServer", "createServer", "createServer", "joinByInvite", "joinByInvite"] as const)
      await act(name)

    const seen = new Map<EventName, number>()
    const counts = { identified: 0, resumed: 0, resumedElsewhere: 0, begunAgain: 0 }
    const wanderers = people.flatMap((person, i) =>
      Array.from(
        { length: i < 2 ? 2 : 1 },
        (_, n) => new Wanderer(shared, person, { seed, name: `${person.username} ${n}`, seen, counts }),
      ),
    )
    const allAgree = async (when: string) => {
      await shared.settle()
      for (const { person, name, model } of wanderers)
        await agree(shared, person, model, random, `seed ${seed}, ${when}, ${name}`)
    }
    for (let round = 1; round <= rounds; round++) {
      let left = actsPerRound
      const doers = Array.from({ length: 3 }, async () => {
        while (left-- > 0) await act(random.pick(deck))
      })
      const isOver = () => left <= 0
      await Promise.all([
        ...doers,
        ...(round === 1
          ? [
              act("register")
                .then(() => act("login"))
                .then(() => act("logout")),
            ]
          : []),
        ...wanderers.map(async wanderer => {
          do await wanderer.step()
          while (!isOver())
        }),
      ])
      await allAgree(`round ${round}`)
    }
    // Whatever chance has left out.
    const undone = () => (Object.keys(acts) as (keyof Routes)[]).filter(name => !done.has(name))
    for (let n = 0; n < 1_000 && undone().length > 0; n++) await act(random.pick(n % 2 === 0 ? undone() : deck))
    await allAgree("the end")
    const report = `seed ${seed}: ${JSON.stringify({ ...counts, events: Object.fromEntries(seen) })}`
    console.info(report)
    expect(undone(), report).toEqual([])
    expect(
      [...unprovoked.keys()].filter(name => seen.has(name)),
      report,
    ).toEqual([])
    expect(Math.min(counts.identified, counts.resumed, counts.resumedElsewhere), report).toBeGreaterThan(0)
  },
)
