/** Which event reaches whom, in what order, on sessions of several people on two workers. */
import { describe } from "vitest"
import type { ReceivedEvent } from "../../client/gateway.ts"
import { intents as bits } from "../../src/contract/core/intents.ts"
import type { Message } from "../../src/contract/messages/messages.ts"
import type { Listener, Person } from "../kit/person.ts"
import { sharedServer } from "../kit/seeds.ts"
import { expect, test, type SharedCluster } from "../kit/test.ts"

const names = (events: readonly ReceivedEvent[]) => events.map(event => event.name)
const bit = (name: keyof typeof bits) => 1 << bits[name]

async function join(shared: SharedCluster, owner: Person, channel: { id: string }, person: Person): Promise<void> {
  const { code } = await owner.on(shared.east).createInvite({ channel_id: channel.id })
  await person.on(shared.west).joinByInvite({ invite_code: code })
}

/** The whole history of a channel, oldest first. */
async function history(person: Person, place: { url: string }, channel: { id: string }): Promise<Message[]> {
  const all: Message[] = []
  for (;;) {
    const page = await person
      .on(place)
      .listMessages({ channel_id: channel.id, limit: "100", after: all.at(-1)?.id ?? "1" })
    if (page.length === 0) return all
    all.push(...page)
  }
}

test("READY comes first and names the user's servers; events follow with s that rises", async ({ shared }) => {
  const { server, channel, ada, lin } = await shared.seed(sharedServer)
  const guilds: unknown[] = []
  const inbox = lin.gateway(shared.west)
  inbox.on("ready", ready => guilds.push(...ready.guilds))
  const heard: ReceivedEvent[] = []
  inbox.on("dispatch", event => heard.push(event))
  const flood = Promise.all(
    Array.from({ length: 30 }, (_, i) =>
      ada.on(shared.east).createMessage({ channel_id: channel.id, content: `${i}` }),
    ),
  )
  await inbox.connect()
  await flood
  await shared.settle()
  expect(guilds).toEqual([{ id: server.id, name: server.name, unavailable: false }])
  expect(heard[0]!.name).toBe("READY")
  expect(heard.every((event, i) => i === 0 || event.s > heard[i - 1]!.s)).toBe(true)
  // E1: what came before the position is in the history that a client then loads, what came after
  // is an event.
  const messages = heard.flatMap(event => (event.name === "MESSAGE_CREATE" ? [event.data.id] : []))
  const all = (await history(lin, shared.east, channel)).map(message => message.id)
  expect(messages).toEqual(all.slice(all.length - messages.length))
})

test("MSG2, P2: a message reaches every session of every member exactly once, on both workers and in both encodings", async ({
  shared,
}) => {
  const { channel, ada, lin } = await shared.seed(sharedServer)
  const stranger = await shared.person("stranger")
  const outside = await stranger.listen(shared.east)
  const inboxes = await Promise.all(
    [ada, lin].flatMap(person =>
      [shared.east, shared.west].flatMap(worker =>
        (["json", "msgpack"] as const).map(encoding => person.listen(worker, { encoding })),
      ),
    ),
  )
  const message = await ada
    .on(shared.east)
    .createMessage({ channel_id: channel.id, content: "hello 🐦 é \u0001", nonce: "n1" })
  const edited = await ada
    .on(shared.west)
    .editMessage({ channel_id: channel.id, message_id: message.id, content: "changed" })
  await ada.on(shared.west).deleteMessage({ channel_id: channel.id, message_id: message.id })
  await shared.settle()
  const [first, ...others] = inboxes.map(inbox => inbox.rest())
  expect(names(first!)).toEqual(["MESSAGE_CREATE", "MESSAGE_UPDATE", "MESSAGE_DELETE"])
  const [created, updated, deleted] = first!
  expect(created!.data).toMatchObject({ ...message, read: false, read_by: [] })
  expect(updated!.data).toMatchObject({ ...edited, read: false, read_by: [] })
  const server_id = message.server_id
  expect(deleted!.data).toEqual({ id: message.id, channel_id: channel.id, server_id, guild_id: server_id })
  for (const events of others)
    expect(events.map(({ name, data }) => ({ name, data }))).toEqual(first!.map(({ name, data }) => ({ name, data })))
  expect(outside.rest()).toEqual([])
})

test("s is one number for everybody on one worker", async ({ shared }) => {
  const { channel, ada, lin } = await shared.seed(sharedServer)
  const inboxes = await Promise.all([
    ada.listen(shared.east),
    lin.listen(shared.east, { encoding: "msgpack" }),
    lin.listen(shared.east, { intents: bit("GUILD_MESSAGES") }),
  ])
  for (let i = 0; i < 5; i++) await lin.on(shared.west).createMessage({ channel_id: channel.id, content: `${i}` })
  await shared.settle()
  const [first, ...others] = inboxes.map(inbox => inbox.rest().map(event => event.s))
  expect(first).toHaveLength(5)
  for (const positions of others) expect(positions).toEqual(first)
})

test("MSG1, P3: posts from two workers at once reach every session in the order of the history", async ({ shared }) => {
  const { channel, ada, lin } = await shared.seed(sharedServer)
  const inboxes = await Promise.all(
    [ada, lin].flatMap(person => [person.listen(shared.east), person.listen(shared.west)]),
  )
  const sent = await Promise.all(
    Array.from({ length: 200 }, (_, i) =>
      (i % 2 === 0 ? ada : lin)
        .on(i % 3 === 0 ? shared.east : shared.west)
        .createMessage({ channel_id: channel.id, content: `${i}`, nonce: `order ${i}` }),
    ),
  )
  await shared.settle()
  const all = (await history(ada, shared.west, channel)).map(message => message.id)
  expect(all.toSorted()).toEqual(sent.map(message => message.id).toSorted())
  for (const inbox of inboxes) {
    const events = inbox.rest()
    expect(events.map(event => event.name === "MESSAGE_CREATE" && event.data.id)).toEqual(all)
    expect(events.every((event, i) => i === 0 || event.s > events[i - 1]!.s)).toBe(true)
  }
})

test("P2: one nonce sent many times at once, through both workers, is one message and one event", async ({
  shared,
}) => {
  const { channel, ada, lin } = await shared.seed(sharedServer)
  const inbox = await lin.listen(shared.west)
  const sent = await Promise.all(
    Array.from({ length: 20 }, (_, i) =>
      ada
        .on(i % 2 === 0 ? shared.east : shared.west)
        .createMessage({ channel_id: channel.id, content: "once", nonce: "the one" }),
    ),
  )
  expect(new Set(sent.map(message => message.id)).size).toBe(1)
  await shared.settle()
  expect(names(inbox.rest())).toEqual(["MESSAGE_CREATE"])
})

test("P4: after the answer a GET on either worker shows it", async ({ shared }) => {
  const { channel, ada, lin } = await shared.seed(sharedServer)
  for (let i = 0; i < 20; i++) {
    const [here, there] = i % 2 === 0 ? [shared.east, shared.west] : [shared.west, shared.east]
    const { id } = await ada.on(here).createMessage({ channel_id: channel.id, content: `${i}` })
    expect((await lin.on(there).getMessage({ channel_id: channel.id, message_id: id })).content).toBe(`${i}`)
    expect((await lin.on(there).listMessages({ channel_id: channel.id, limit: "1" }))[0]!.id).toBe(id)
  }
})

test("typing reaches the others of the channel, whichever way it comes, and never the one who types", async ({
  shared,
}) => {
  const { server, channel, ada, lin } = await shared.seed(sharedServer)
  const [adaEast, adaWest, linWest] = await Promise.all([
    ada.listen(shared.east),
    ada.listen(shared.west),
    lin.listen(shared.west),
  ])
  const blind = await lin.listen(shared.east, { intents: bit("GUILD_MESSAGES") })
  adaEast.typing(channel.id)
  const event = {
    channel_id: channel.id,
    user_id: ada.id,
    username: ada.username,
    server_id: server.id,
    guild_id: server.id,
  }
  expect(await linWest.next("TYPING_START")).toEqual(event)
  await lin.on(shared.west).startTyping({ channel_id: channel.id })
  for (const inbox of [adaEast, adaWest])
    expect(await inbox.next("TYPING_START")).toEqual({ ...event, user_id: lin.id, username: lin.username })
  await shared.settle()
  for (const inbox of [adaEast, adaWest, linWest, blind]) expect(inbox.rest()).toEqual([])
})

test("a client that may not type there, or names an unknown channel, is not answered, and nobody is told", async ({
  shared,
}) => {
  const { channel, ada } = await shared.seed(sharedServer)
  const inbox = await ada.listen(shared.east)
  const stranger = await shared.person("stranger")
  const outside = await stranger.listen(shared.east)
  outside.typing(channel.id)
  for (const d of [
    undefined,
    null,
    {},
    [],
    "x",
    { channel_id: null },
    { channel_id: "x" },
    { channel_id: "123" },
    { channel_id: {} },
  ])
    outside.send({ op: 40, d })
  await outside.heartbeatNow()
  await shared.settle()
  expect(outside.state).toBe("live")
  expect(inbox.rest()).toEqual([])
})

describe("coming and going", () => {
  test("GUILD_CREATE reaches every session of a user who creates or joins a server; GUILD_MEMBER_ADD everybody else", async ({
    shared,
  }) => {
    const [ada, lin] = await Promise.all([shared.person("ada"), shared.person("lin")])
    const adas = await Promise.all([
      ada.listen(shared.east),
      ada.listen(shared.west),
      ada.listen(shared.west, { intents: bit("GUILD_MESSAGES") }),
    ])
    const lins = await Promise.all([lin.listen(shared.east), lin.listen(shared.west, { encoding: "msgpack" })])
    const server = await ada.on(shared.west).createServer({ name: "New" })
    const [channel] = await ada.on(shared.east).listChannels({ server_id: server.id })
    await shared.settle()
    for (const inbox of adas.slice(0, 2)) {
      const [event, ...more] = inbox.rest()
      expect(more).toEqual([])
      expect(event).toMatchObject({
        name: "GUILD_CREATE",
        data: {
          id: server.id,
          name: "New",
          owner_id: ada.id,
          member_count: 1,
          channels: [{ id: channel!.id }],
          roles: [{ id: server.id }],
        },
      })
    }
    expect(adas[2].rest()).toEqual([])
    expect(lins.flatMap(inbox => inbox.rest())).toEqual([])

    await join(shared, ada, channel!, lin)
    await shared.settle()
    for (const inbox of lins) {
      const events = inbox.rest()
      expect(names(events)).toEqual(["GUILD_CREATE"])
      expect(events[0]!.data).toMatchObject({ id: server.id, member_count: 2 })
    }
    for (const inbox of adas.slice(0, 2)) {
      const events = inbox.rest()
      expect(names(events)).toEqual(["INVITE_CREATE", "GUILD_MEMBER_ADD"])
      expect(events[1]!.data).toMatchObject({
        guild_id: server.id,
        user_id: lin.id,
        roles: [server.id],
        user: { id: lin.id, username: lin.username },
      })
    }
    expect(adas[2].rest()).toEqual([])

    // From now on everything of the server reaches the new member.
    await ada.on(shared.east).createMessage({ channel_id: channel!.id, content: "welcome" })
    await ada.on(shared.east).createChannel({ server_id: server.id, name: "more" })
    await shared.settle()
    for (const inbox of lins) expect(names(inbox.rest())).toEqual(["MESSAGE_CREATE", "CHANNEL_CREATE"])
  })

  test("what is said at once after joining reaches the new member", async ({ shared }) => {
    const ada = await shared.person("ada")
    const server = await ada.on(shared.east).createServer({ name: "Busy" })
    const [channel] = await ada.on(shared.east).listChannels({ server_id: server.id })
    const people = await Promise.all(Array.from({ length: 6 }, () => shared.person("newcomer")))
    const inboxes = await Promise.all(people.map((person, i) => person.listen(i % 2 === 0 ? shared.east : shared.west)))
    await Promise.all(
      people.map(async person => {
        await join(shared, ada, channel!, person)
        await person.on(shared.east).createMessage({ channel_id: channel!.id, content: `I am ${person.id}` })
      }),
    )
    await shared.settle()
    const all = (await history(ada, shared.east, channel!)).map(message => message.id)
    for (const [i, inbox] of inboxes.entries()) {
      const events = inbox.rest()
      expect(events[0]!.name).toBe("GUILD_CREATE")
      const messages = events.flatMap(event => (event.name === "MESSAGE_CREATE" ? [event.data] : []))
      expect(messages.map(message => message.content)).toContain(`I am ${people[i]!.id}`)
      expect(messages.map(message => message.id)).toEqual(all.slice(all.length - messages.length))
    }
  })

  test("JOIN3, P12: after leaving, GUILD_DELETE is the last that any session of the user hears of the server", async ({
    shared,
  }) => {
    const { server, channel, ada, lin } = await shared.seed(sharedServer)
    const lins = await Promise.all([
      lin.listen(shared.east),
      lin.listen(shared.west),
      lin.listen(shared.west, { encoding: "msgpack" }),
    ])
    const owner = await ada.listen(shared.east)
    const left = new AbortController()
    const talking = (async () => {
      for (let i = 0; !left.signal.aborted; i++)
        await ada.on(shared.west).createMessage({ channel_id: channel.id, content: `before ${i}` })
    })()
    await lins[0].next("MESSAGE_CREATE")
    await lin.on(shared.east).leaveServer({ server_id: server.id })
    left.abort()
    await talking
    const after = await ada.on(shared.east).createMessage({ channel_id: channel.id, content: "after" })
    await ada.on(shared.east).startTyping({ channel_id: channel.id })
    await ada.on(shared.west).createChannel({ server_id: server.id, name: "secret" })
    await shared.settle()
    for (const inbox of lins) {
      const events = inbox.rest()
      expect(events.at(-1)).toMatchObject({
        name: "GUILD_DELETE",
        data: { id: server.id, server_id: server.id, guild_id: server.id },
      })
      expect(names(events.slice(0, -1)).every(name => name === "MESSAGE_CREATE")).toBe(true)
      expect(events.map(event => (event.data as { id: string }).id)).not.toContain(after.id)
    }
    const heard = owner.rest()
    expect(names(heard).filter(name => name === "GUILD_MEMBER_REMOVE")).toHaveLength(1)
    expect(names(heard).slice(-2)).toEqual(["MESSAGE_CREATE", "CHANNEL_CREATE"])
  })

  test("a user who leaves and comes back is sent GUILD_DELETE, then GUILD_CREATE, then what follows", async ({
    shared,
  }) => {
    const { server, channel, ada, lin } = await shared.seed(sharedServer)
    const inboxes = await Promise.all([lin.listen(shared.east), lin.listen(shared.west)])
    for (let i = 0; i < 3; i++) {
      await lin.on(shared.west).leaveServer({ server_id: server.id })
      await ada.on(shared.east).createMessage({ channel_id: channel.id, content: "unheard" })
      await join(shared, ada, channel, lin)
      await ada.on(shared.east).createMessage({ channel_id: channel.id, content: "heard" })
    }
    await shared.settle()
    const round = ["GUILD_DELETE", "GUILD_CREATE", "MESSAGE_CREATE"]
    for (const inbox of inboxes) {
      const events = inbox.rest()
      expect(names(events)).toEqual([...round, ...round, ...round])
      for (const event of events) if (event.name === "MESSAGE_CREATE") expect(event.data.content).toBe("heard")
    }
  })

  test("a deleted server is gone for every member on every worker", async ({ shared }) => {
    const { server, channel, ada, lin } = await shared.seed(sharedServer)
    const inboxes = await Promise.all([
      ada.listen(shared.east),
      lin.listen(shared.east),
      lin.listen(shared.west, { encoding: "msgpack" }),
    ])
    await ada.on(shared.west).deleteServer({ server_id: server.id })
    await shared.settle()
    for (const inbox of inboxes)
      expect(inbox.rest().map(({ name, data }) => ({ name, data }))).toEqual([
        { name: "GUILD_DELETE", data: { id: server.id, server_id: server.id, guild_id: server.id } },
      ])
    await expect(lin.on(shared.east).createMessage({ channel_id: channel.id, content: "x" })).rejects.toMatchObject({
      status: 404,
    })
    // A new session knows nothing of it.
    const fresh = lin.gateway(shared.west)
    const guilds: unknown[] = []
    fresh.on("ready", ready => guilds.push(...ready.guilds))
    await fresh.connect()
    expect(guilds).toEqual([])
  })
})

test("SUB1: every combination of intents receives exactly what its bits let through", async ({ shared }) => {
  const { server, channel, ada, lin } = await shared.seed(sharedServer)
  const kinds = {
    GUILDS: ["CHANNEL_CREATE"],
    GUILD_MEMBERS: ["GUILD_MEMBER_ADD", "GUILD_MEMBER_REMOVE"],
    GUILD_MESSAGES: ["MESSAGE_CREATE"],
    GUILD_MESSAGE_TYPING: ["TYPING_START"],
  } as const
  const masks = Array.from({ length: 16 }, (_, i) => i).map(i =>
    (Object.keys(kinds) as (keyof typeof kinds)[]).reduce(
      (mask, name, j) => ((i >> j) & 1 ? mask | bit(name) : mask),
      0,
    ),
  )
  // More classes than one audience may have: the rare rest is served one by one.
  const inboxes: { inbox: Listener; mask: number }[] = []
  for (const encoding of ["json", "msgpack"] as const)
    for (const mask of masks) inboxes.push({ mask, inbox: await lin.listen(shared.west, { intents: mask, encoding }) })
  const stranger = await shared.person("stranger")
  await join(shared, ada, channel, stranger)
  await ada.on(shared.east).createMessage({ channel_id: channel.id, content: "hi" })
  await ada.on(shared.east).startTyping({ channel_id: channel.id })
  await ada.on(shared.east).createChannel({ server_id: server.id, name: "more" })
  await stranger.on(shared.east).leaveServer({ server_id: server.id })
  await shared.settle()
  const order = ["GUILD_MEMBER_ADD", "MESSAGE_CREATE", "TYPING_START", "CHANNEL_CREATE", "GUILD_MEMBER_REMOVE"]
  for (const { inbox, mask } of inboxes) {
    const mine = Object.entries(kinds).flatMap(([name, list]): readonly string[] =>
      mask & bit(name as keyof typeof kinds) ? list : [],
    )
    expect([mask, names(inbox.rest())]).toEqual([mask, order.filter(name => mine.includes(name))])
  }
})

test("the last of a class leaves, another comes: topics are left and taken without a trace", async ({ shared }) => {
  const { channel, ada, lin } = await shared.seed(sharedServer)
  const stays = await lin.listen(shared.west)
  for (let i = 0; i < 5; i++) {
    const other = await ada.listen(shared.west, {
      intents: bit("GUILD_MESSAGES"),
      encoding: i % 2 === 0 ? "json" : "msgpack",
    })
    await ada.on(shared.east).createMessage({ channel_id: channel.id, content: `${i}` })
    expect((await other.next("MESSAGE_CREATE")).content).toBe(`${i}`)
    other.close()
    await ada.on(shared.east).createMessage({ channel_id: channel.id, content: `${i} alone` })
  }
  await shared.settle()
  expect(names(stays.rest())).toEqual(Array.from({ length: 10 }, () => "MESSAGE_CREATE"))
})
