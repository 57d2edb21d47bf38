/**
 * Voice on the gateway: who is in which channel, whose call it is, and who is sent whose signals.
 */
import { isDeepStrictEqual } from "node:util"
import { Redis } from "ioredis"
import type { ServerFrame } from "../../client/gateway.ts"
import { clusterConfig } from "../../cluster.config.ts"
import { channelActor } from "../../src/actors/channel.ts"
import { userActor } from "../../src/actors/user.ts"
import { unavailable } from "../../src/contract/core/errors.ts"
import { allIntents, bitOf } from "../../src/contract/core/intents.ts"
import type { Permission } from "../../src/contract/core/permissions.ts"
import { grantedAtCreation } from "../../src/domain/core/permissions.ts"
import { dayOf, voiceSessionId } from "../../src/domain/voice/voice.ts"
import { VoiceEndings } from "../../src/gateway/requests/voice-endings.ts"
import { createLog } from "../../src/observability/log.ts"
import { openStorage } from "../../src/storage/storage.ts"
import { systemClock } from "../../src/std/system-clock.ts"
import { randomFrom } from "../chaos/random.ts"
import type { Cluster, Worker } from "../kit/cluster.ts"
import { refusal } from "../kit/conformance.ts"
import type { Listener, Person, Endpoint } from "../kit/person.ts"
import { plantServer, sharedServer } from "../kit/seeds.ts"
import { expect, test, testWith } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const update = (client: Listener, d: unknown) => client.send({ op: 4, d })
const connect = (client: Listener, channel_id: string) => client.send({ op: 20, d: { channel_id } })
const leave = (client: Listener) => client.send({ op: 21, d: null })

const flags = { self_mute: false, self_deaf: false, self_video: false, self_stream: false }
const stateOf = (person: Person, server_id: string, channel_id: string | null, said: object = {}) => ({
  user_id: person.id,
  channel_id,
  server_id,
  guild_id: server_id,
  ...flags,
  mute: false,
  deaf: false,
  suppress: false,
  ...said,
})

/** Ada's server with Lin, a voice channel and another one. */
async function voiceServer(cluster: Cluster) {
  const seed = await cluster.seed(sharedServer)
  const server_id = seed.server.id
  const make = (name: string, more: object = {}) =>
    seed.ada.on(cluster.workers[0]!).createChannel({ server_id, name, type: "voice", ...more })
  const [hall, den] = [await make("hall"), await make("den")]
  return { ...seed, server_id, make, hall, den }
}

/** Somebody more in a server. */
async function joined(cluster: Cluster, { ada, channel }: { ada: Person; channel: { id: string } }, name: string) {
  const at = cluster.workers[0]!
  const person = await cluster.person(name, at)
  const { code } = await ada.on(at).createInvite({ channel_id: channel.id })
  await person.on(at).joinByInvite({ invite_code: code })
  return person
}

/** A client that keeps what is no event, beside its events. */
async function listen(person: Person, place: Endpoint, options: Parameters<Person["listen"]>[1] = {}) {
  const frames: ServerFrame[] = []
  const client = await person.listen(place, { ...options, onFrame: frame => frames.push(frame) })
  const signals = () => frames.filter(({ op }) => op >= 20 && op <= 26)
  const signal = async (op: number) => {
    await until(`op ${op}`, () => signals().some(frame => frame.op === op))
    const at = frames.findIndex(frame => frame.op === op)
    return frames.splice(at, 1)[0]!.d
  }
  return Object.assign(client, { signals, signal })
}

/** Joins and waits for what tells that the call is this connection's. */
async function join(client: Listener, channel_id: string) {
  connect(client, channel_id)
  return client.next("VOICE_SERVER_UPDATE")
}

const rowsOf = ({ sql }: Cluster, server_id: string) =>
  sql<{ user_id: string; channel_id: string; worker: string }[]>`
    SELECT user_id, channel_id, worker FROM voice_states WHERE server_id = ${server_id} ORDER BY user_id`

const nothingMore = async (cluster: Cluster, ...clients: Listener[]) => {
  await cluster.settle()
  for (const client of clients) expect(client.rest().filter(({ name }) => name.startsWith("VOICE_"))).toEqual([])
}

test("a join is told to everybody who may view the channel, the one who joins included, and then to their connection what it needs", async ({
  shared,
}) => {
  const { server_id, ada, lin, hall } = await voiceServer(shared)
  const [caller, other, watcher, deaf] = await Promise.all([
    lin.listen(shared.east),
    lin.listen(shared.west, { encoding: "msgpack" }),
    ada.listen(shared.west),
    ada.listen(shared.east, { intents: allIntents & ~bitOf("GUILD_VOICE_STATES") }),
  ])
  connect(caller, hall.id)
  const [first, second] = [await caller.next("VOICE_STATE_UPDATE"), await caller.next("VOICE_SERVER_UPDATE")]
  const there = stateOf(lin, server_id, hall.id)
  expect(first).toEqual(there)
  expect(second).toMatchObject({
    endpoint: null,
    channel_id: hall.id,
    user_id: lin.id,
    server_id,
    guild_id: server_id,
    bitrate: 64_000,
  })
  expect(second.token).toMatch(/^[\w-]{43}$/)
  expect(second.session_id).toMatch(/^[\da-f]{32}$/)
  expect(second.ice_servers).toHaveLength(1)
  expect(second.ice_servers[0]!.urls).toHaveLength(4)
  for (const inbox of [other, watcher]) expect(await inbox.next("VOICE_STATE_UPDATE")).toEqual(there)
  await nothingMore(shared, caller, other, watcher, deaf)

  leave(caller)
  const gone = stateOf(lin, server_id, null)
  for (const inbox of [caller, other, watcher]) expect(await inbox.next("VOICE_STATE_UPDATE")).toEqual(gone)
  leave(caller)
  await nothingMore(shared, caller, other, watcher, deaf)
  expect(await rowsOf(shared, server_id)).toEqual([])
})

test("the order of the two is kept: the state comes before what the connection needs", async ({ shared }) => {
  const { ada, lin, hall, den } = await voiceServer(shared)
  const clients = await Promise.all([ada.listen(shared.east), lin.listen(shared.west)])
  for (const channel of [hall, den, hall, den])
    await Promise.all(
      clients.map(async client => {
        await join(client, channel.id)
        const own = client
          .rest()
          .filter(({ name, data }) => name === "VOICE_STATE_UPDATE" && data.user_id === client.user!.id)
        expect(own.map(({ data }) => (data as { channel_id: unknown }).channel_id)).toEqual([channel.id])
      }),
    )
})

test("a second op 20 begins a new voice session, and nobody is told of a second join", async ({ shared }) => {
  const { server_id, ada, lin, hall } = await voiceServer(shared)
  const [caller, watcher] = await Promise.all([lin.listen(shared.east), ada.listen(shared.west)])
  const before = await join(caller, hall.id)
  const after = await join(caller, hall.id)
  expect(after.session_id).not.toBe(before.session_id)
  expect(await watcher.next("VOICE_STATE_UPDATE")).toEqual(stateOf(lin, server_id, hall.id))
  await caller.next("VOICE_STATE_UPDATE")
  await nothingMore(shared, caller, watcher)
})

test("op 4 joins, moves, changes flags and leaves; who is deaf is mute", async ({ shared }) => {
  const { server_id, ada, lin, hall, den } = await voiceServer(shared)
  const [caller, watcher] = await Promise.all([lin.listen(shared.east), ada.listen(shared.west)])
  const both = async (expected: object) => {
    for (const inbox of [caller, watcher]) expect(await inbox.next("VOICE_STATE_UPDATE")).toEqual(expected)
  }
  update(caller, { channel_id: hall.id, self_mute: true })
  await both(stateOf(lin, server_id, hall.id, { self_mute: true }))
  await caller.next("VOICE_SERVER_UPDATE")
  update(caller, { channel_id: hall.id, self_deaf: true, self_video: true, guild_id: "ignored" })
  await both(stateOf(lin, server_id, hall.id, { self_mute: true, self_deaf: true, self_video: true }))
  update(caller, { channel_id: den.id, self_stream: true })
  await both(stateOf(lin, server_id, den.id, { self_stream: true }))
  expect((await caller.next("VOICE_SERVER_UPDATE")).channel_id).toBe(den.id)
  update(caller, { channel_id: null })
  await both(stateOf(lin, server_id, null))
  await nothingMore(shared, caller, watcher)
})

test("a move is one event, for users who may view either channel", async ({ shared }) => {
  const { server_id, server, channel, ada, lin, make, hall } = await voiceServer(shared)
  const [eve, bob] = await Promise.all([
    joined(shared, { ada, channel }, "eve"),
    joined(shared, { ada, channel }, "bob"),
  ])
  const hidden = await make("hidden")
  const at = ada.on(shared.east)
  const view: Permission[] = ["channels.view"]
  const deny = (channel_id: string, target_id: string, type: "role" | "member") =>
    at.setOverride({ channel_id, target_id, type, allow: [], deny: view })
  const allow = (channel_id: string, target_id: string) =>
    at.setOverride({ channel_id, target_id, type: "member", allow: view, deny: [] })
  // Bob sees the hall and not the other, Eve the other and not the hall, Lin both.
  await deny(hidden.id, server.id, "role")
  await allow(hidden.id, lin.id)
  await allow(hidden.id, eve.id)
  await deny(hall.id, eve.id, "member")
  const clients = await Promise.all(
    [lin, eve, bob, ada].map((person, i) => person.listen(i % 2 ? shared.east : shared.west)),
  )
  const [caller, evesInbox, bobsInbox, adasInbox] = clients as [Listener, Listener, Listener, Listener]
  await join(caller, hall.id)
  for (const inbox of [caller, bobsInbox, adasInbox])
    expect((await inbox.next("VOICE_STATE_UPDATE")).channel_id).toBe(hall.id)
  connect(caller, hidden.id)
  for (const inbox of clients)
    expect(await inbox.next("VOICE_STATE_UPDATE")).toEqual(stateOf(lin, server_id, hidden.id))
  await caller.next("VOICE_SERVER_UPDATE")
  leave(caller)
  for (const inbox of [caller, evesInbox, adasInbox])
    expect(await inbox.next("VOICE_STATE_UPDATE")).toEqual(stateOf(lin, server_id, null))
  await nothingMore(shared, ...clients)
})

test("a refused join is answered to its connection with what is so, and to nobody else", async ({ shared }) => {
  const seed = await voiceServer(shared)
  const { server_id, server, channel, ada, lin, hall, make } = seed
  const stranger = await shared.person("stranger")
  const at = ada.on(shared.east)
  const [hidden, mute] = [await make("hidden"), await make("mute")]
  const deny = (channel_id: string, flag: Permission) =>
    at.setOverride({ channel_id, target_id: server.id, type: "role", allow: [], deny: [flag] })
  await deny(hidden.id, "channels.view")
  await deny(mute.id, "voice.connect")
  const [caller, other, watcher, outside] = await Promise.all([
    lin.listen(shared.east),
    lin.listen(shared.west),
    ada.listen(shared.west),
    stranger.listen(shared.west),
  ])
  const absent = { ...stateOf(lin, server_id, null), server_id: null, guild_id: null }
  for (const refused of [hidden.id, mute.id, channel.id, "1", "99"]) {
    connect(caller, refused)
    expect(await caller.next("VOICE_STATE_UPDATE"), refused).toEqual(absent)
  }
  await join(caller, hall.id)
  for (const inbox of [caller, other, watcher]) await inbox.next("VOICE_STATE_UPDATE")
  for (const refused of [hidden.id, channel.id]) {
    update(caller, { channel_id: refused, self_mute: true })
    expect(await caller.next("VOICE_STATE_UPDATE"), refused).toEqual(stateOf(lin, server_id, hall.id))
  }
  connect(outside, hall.id)
  expect((await outside.next("VOICE_STATE_UPDATE")).channel_id).toBeNull()
  await nothingMore(shared, caller, other, watcher, outside)
  expect(await rowsOf(shared, server_id)).toMatchObject([{ user_id: lin.id, channel_id: hall.id }])
})

test("a full channel takes only users who may move members; a user who is in it may begin anew", async ({ shared }) => {
  const seed = await voiceServer(shared)
  const { server_id, ada, lin, make } = seed
  const small = await make("small", { user_limit: 1, bitrate: 96_000 })
  expect(small).toMatchObject({ user_limit: 1, bitrate: 96_000 })
  const eve = await joined(shared, seed, "eve")
  const [caller, late, owner] = await Promise.all([
    lin.listen(shared.east),
    eve.listen(shared.west),
    ada.listen(shared.west),
  ])
  expect((await join(caller, small.id)).bitrate).toBe(96_000)
  await late.next("VOICE_STATE_UPDATE")
  connect(late, small.id)
  expect(await late.next("VOICE_STATE_UPDATE")).toMatchObject({ user_id: eve.id, channel_id: null })
  await join(caller, small.id)
  await join(owner, small.id)
  expect(await rowsOf(shared, server_id)).toHaveLength(2)
  leave(caller)
  await late.next("VOICE_STATE_UPDATE", {
    where: ({ user_id, channel_id }) => user_id === lin.id && channel_id === null,
  })
  connect(late, small.id)
  expect(await late.next("VOICE_STATE_UPDATE", { where: ({ user_id }) => user_id === eve.id })).toMatchObject({
    channel_id: null,
  })
})

test("when two join at once for the last place, one gets it", async ({ shared }) => {
  const seed = await voiceServer(shared)
  const small = await seed.make("small", { user_limit: 1 })
  const people = await Promise.all(["a", "b", "c", "d"].map(name => joined(shared, seed, name)))
  const clients = await Promise.all(people.map((person, i) => person.listen(i % 2 ? shared.east : shared.west)))
  for (const client of clients) connect(client, small.id)
  for (const client of clients)
    await client.next("VOICE_STATE_UPDATE", { where: ({ user_id }) => user_id === client.user!.id })
  expect(await rowsOf(shared, seed.server_id)).toHaveLength(1)
})

test("in a stage channel everybody who joins is suppressed", async ({ shared }) => {
  const { server_id, ada, lin, hall } = await voiceServer(shared)
  const stage = await ada.on(shared.east).createChannel({ server_id, name: "stage", type: "stage" })
  const caller = await lin.listen(shared.east)
  await join(caller, stage.id)
  expect(await caller.next("VOICE_STATE_UPDATE")).toEqual(stateOf(lin, server_id, stage.id, { suppress: true }))
  await join(caller, hall.id)
  expect(await caller.next("VOICE_STATE_UPDATE")).toEqual(stateOf(lin, server_id, hall.id))
})

test("limits and bitrates are those of the contract, and other channels keep the usual ones", async ({ shared }) => {
  const { server_id, ada, hall } = await voiceServer(shared)
  const at = ada.on(shared.east)
  const make = (more: object) => at.createChannel({ server_id, name: "x", type: "voice", ...more })
  for (const wrong of [
    { user_limit: 100 },
    { user_limit: -1 },
    { bitrate: 7_999 },
    { bitrate: 384_001 },
    { bitrate: "64000" },
  ])
    expect(await refusal(make(wrong)), JSON.stringify(wrong)).toBe("validation_failed")
  expect(await make({ user_limit: 99, bitrate: 8_000 })).toMatchObject({ user_limit: 99, bitrate: 8_000 })
  expect(await make({ type: "text", user_limit: 5, bitrate: 8_000 })).toMatchObject({ user_limit: 0, bitrate: 64_000 })
  expect(hall).toMatchObject({ user_limit: 0, bitrate: 64_000 })
})

test("frames that cannot be understood close the connection with 4002; others do no harm", async ({ shared }) => {
  const { lin, hall } = await voiceServer(shared)
  const id = hall.id
  const wrong: [op: number, d: unknown][] = [
    [20, undefined],
    [20, null],
    [20, []],
    [20, {}],
    [20, { channel_id: null }],
    [20, { channel_id: "" }],
    [20, { channel_id: "x" }],
    [20, { channel_id: 1.5 }],
    [4, undefined],
    [4, {}],
    [4, { channel_id: "x" }],
    [4, { channel_id: id, self_mute: "yes" }],
    [22, null],
    [22, { channel_id: id }],
    [22, { sdp: "v=0" }],
    [22, { channel_id: "x", sdp: "v=0" }],
    [22, { channel_id: id, sdp: 5 }],
    [22, { channel_id: id, sdp: "v".repeat(32_769) }],
    [22, { channel_id: id, sdp: "v=0", type: "invitation" }],
    [23, { channel_id: id }],
    [24, { channel_id: id }],
    [24, { candidate: "" }],
    [24, { channel_id: id, candidate: "c".repeat(4_097) }],
    [24, { channel_id: id, candidate: 7 }],
  ]
  for (const [op, d] of wrong) {
    const client = await lin.listen(shared.east)
    client.send(d === undefined ? { op } : { op, d })
    expect((await client.ended()).code, `${op} ${JSON.stringify(d)?.slice(0, 60)}`).toBe(4002)
  }
  const client = await lin.listen(shared.west)
  const harmless: [op: number, d: unknown][] = [
    [21, undefined],
    [21, null],
    [21, { channel_id: "x" }],
    [21, 5],
    [22, { channel_id: id, sdp: "v=0" }],
    [22, { channel_id: id, sdp: "", type: "rollback", target_user_id: lin.id }],
    [22, { channel_id: "1", sdp: "v=0", target_user_id: "1" }],
    [23, { channel_id: id, sdp: "v=0", peer_user_id: 12 }],
    [24, { channel_id: id, candidate: "" }],
    [24, { channel_id: id, candidate: null }],
    [24, { channel_id: id, candidate: { candidate: "c" }, target_user_id: "1" }],
    [25, null],
    [25, "speaking"],
    [25, { channel_id: id, speaking: true }],
    [26, null],
    [26, { channel_id: id, quality_level: "x".repeat(100) }],
    [26, { channel_id: id, quality_level: "fair", target_bitrate: 40_000 }],
  ]
  for (const [op, d] of harmless) client.send(d === undefined ? { op } : { op, d })
  await nothingMore(shared, client)
  expect(client.state).toBe("live")
})

test("the hint about a line's quality is kept for its next voice session, within the channel's bitrate", async ({
  shared,
}) => {
  const { lin, hall } = await voiceServer(shared)
  const caller = await lin.listen(shared.east)
  await join(caller, hall.id)
  caller.send({ op: 26, d: { channel_id: hall.id, quality_level: "fair", target_bitrate: 40_000 } })
  expect((await join(caller, hall.id)).bitrate).toBe(40_000)
  caller.send({ op: 26, d: { channel_id: hall.id, quality_level: "critical", target_bitrate: 1 } })
  expect((await join(caller, hall.id)).bitrate).toBe(8_000)
  caller.send({ op: 26, d: { channel_id: hall.id, quality_level: "excellent" } })
  expect((await join(caller, hall.id)).bitrate).toBe(64_000)
})

test("a member who is kicked, is banned or leaves is out of voice, and is told while they are a member", async ({
  shared,
}) => {
  const ways: ((seed: { ada: Person; lin: Person; server_id: string }) => Promise<unknown>)[] = [
    ({ ada, lin, server_id }) => ada.on(shared.west).kickMember({ server_id, member_id: lin.id }),
    ({ ada, lin, server_id }) => ada.on(shared.west).banUser({ server_id, user_id: lin.id }),
    ({ lin, server_id }) => lin.on(shared.west).leaveServer({ server_id }),
  ]
  for (const way of ways) {
    const seed = await voiceServer(shared)
    const { server_id, ada, lin, hall } = seed
    const [caller, watcher] = await Promise.all([lin.listen(shared.east), ada.listen(shared.west)])
    await join(caller, hall.id)
    for (const inbox of [caller, watcher]) await inbox.next("VOICE_STATE_UPDATE")
    await way(seed)
    for (const inbox of [caller, watcher])
      expect(await inbox.next("VOICE_STATE_UPDATE")).toEqual(stateOf(lin, server_id, null))
    await caller.next("GUILD_DELETE")
    expect(caller.rest().map(({ name }) => name)).not.toContain("VOICE_STATE_UPDATE")
    expect(await rowsOf(shared, server_id)).toEqual([])
    await until("their home knows", async () => (await callOf(shared, lin)) === undefined)
  }
})

test("a server that is deleted takes its calls with it", async ({ shared }) => {
  const { server_id, ada, lin, hall } = await voiceServer(shared)
  const caller = await lin.listen(shared.east)
  await join(caller, hall.id)
  await until("their home knows", async () => (await callOf(shared, lin)) !== undefined)
  await ada.on(shared.west).deleteServer({ server_id })
  await until("their home knows", async () => (await callOf(shared, lin)) === undefined)
  expect(await rowsOf(shared, server_id)).toEqual([])
})

test("a user who may not connect or view any longer is out of voice, whichever way they lost it", async ({
  shared,
}) => {
  const { server_id, server, ada, lin, hall } = await voiceServer(shared)
  const at = ada.on(shared.west)
  const everyone = (denied: Permission) =>
    at.editRole({
      server_id,
      role_id: server.id,
      permissions: Object.fromEntries([...grantedAtCreation].map(name => [name, name !== denied])),
    })
  const { id: role_id } = await at.createRole({
    server_id,
    name: "talker",
    permissions: { "voice.connect": true, "channels.view": true },
  })
  const ways: [before: () => Promise<unknown>, lose: () => Promise<unknown>, after: () => Promise<unknown>][] = [
    [
      async () => {},
      () =>
        at.setOverride({ channel_id: hall.id, target_id: lin.id, type: "member", allow: [], deny: ["channels.view"] }),
      () => at.deleteOverride({ channel_id: hall.id, target_id: lin.id }),
    ],
    [async () => {}, () => everyone("voice.connect"), async () => {}],
    [
      () => at.giveRole({ server_id, member_id: lin.id, role_id }),
      () => at.takeRole({ server_id, member_id: lin.id, role_id }),
      () => at.giveRole({ server_id, member_id: lin.id, role_id }),
    ],
    [async () => {}, () => at.deleteRole({ server_id, role_id }), async () => {}],
  ]
  const [caller, watcher] = await Promise.all([lin.listen(shared.east), ada.listen(shared.west)])
  for (const [before, lose, after] of ways) {
    await before()
    await join(caller, hall.id)
    for (const inbox of [caller, watcher]) expect((await inbox.next("VOICE_STATE_UPDATE")).channel_id).toBe(hall.id)
    await lose()
    for (const inbox of [caller, watcher])
      expect(await inbox.next("VOICE_STATE_UPDATE")).toEqual(stateOf(lin, server_id, null))
    await after()
  }
  await shared.settle()
  for (const inbox of [caller, watcher])
    expect(inbox.rest().filter(({ name }) => name === "VOICE_STATE_UPDATE")).toEqual([])
})

test("a change that concerns nobody in voice makes nobody be looked at", async ({ shared }) => {
  const seed = await voiceServer(shared)
  const { server_id, server, ada, lin, hall, den } = seed
  const eve = await joined(shared, seed, "eve")
  const at = ada.on(shared.east)
  const caller = await lin.listen(shared.west)
  await join(caller, hall.id)
  const { id: role_id } = await at.createRole({ server_id, name: "talker" })
  const override = (channel_id: string, target_id: string, type: "role" | "member") => () =>
    at.setOverride({ channel_id, target_id, type, allow: [], deny: ["voice.speak"] })
  const looks = async () => {
    await shared.settle()
    const [row] = await shared.sql<{ n: number }[]>`
      SELECT count(*)::int AS n FROM tells_seen WHERE home = ${server_id}`
    return row!.n
  }
  const changes: [change: () => Promise<unknown>, looks: number][] = [
    [() => at.giveRole({ server_id, member_id: eve.id, role_id }), 0],
    [() => at.giveRole({ server_id, member_id: lin.id, role_id }), 1],
    [override(hall.id, eve.id, "member"), 0],
    [override(den.id, server.id, "role"), 0],
    [override(hall.id, lin.id, "member"), 1],
    [override(hall.id, server.id, "role"), 1],
  ]
  let before = await looks()
  for (const [i, [change, expected]] of changes.entries()) {
    await change()
    const after = await looks()
    expect(after - before, `change ${i}`).toBe(expected)
    before = after
  }
})

async function callOf({ sql }: Cluster, person: Person) {
  const [row] = await sql<{ channel_id: string; voice_session_id: string; began_at: number; ends_at: number | null }[]>`
    SELECT channel_id, voice_session_id, began_at, ends_at FROM voice_calls WHERE user_id = ${person.id}`
  return row
}

test("VOICE1: one user is in one call over all servers: the newest", async ({ shared }) => {
  const one = await voiceServer(shared)
  const two = await voiceServer(shared)
  const { lin } = one
  const { code } = await two.ada.on(shared.east).createInvite({ channel_id: two.channel.id })
  await lin.on(shared.east).joinByInvite({ invite_code: code })
  const [first, second, watcher] = await Promise.all([
    lin.listen(shared.east),
    lin.listen(shared.west),
    one.ada.listen(shared.west),
  ])
  const callsOf = async () => [...(await rowsOf(shared, one.server_id)), ...(await rowsOf(shared, two.server_id))]
  await join(first, one.hall.id)
  await watcher.next("VOICE_STATE_UPDATE")
  await join(second, two.hall.id)
  expect(await watcher.next("VOICE_STATE_UPDATE")).toEqual(stateOf(lin, one.server_id, null))
  await until("one call is left", async () => (await callsOf()).length === 1)
  expect(await callsOf()).toMatchObject([{ user_id: lin.id, channel_id: two.hall.id }])

  // At once from two devices, again and again: in the end there is one, and their home knows it.
  for (let round = 0; round < 10; round++) {
    connect(first, (round % 2 ? one : two).hall.id)
    connect(second, (round % 2 ? two : one).hall.id)
    await Promise.all([first.next("VOICE_SERVER_UPDATE"), second.next("VOICE_SERVER_UPDATE")])
    await shared.settle()
    await until("one call is left", async () => (await callsOf()).length === 1)
    const [left] = await callsOf()
    expect((await callOf(shared, lin))!.channel_id).toBe(left!.channel_id)
  }
})

test("the call that was asked for last is the one that stays, also when it is heard of first", async ({ shared }) => {
  const one = await voiceServer(shared)
  const two = await voiceServer(shared)
  const { lin } = one
  const { code } = await two.ada.on(shared.east).createInvite({ channel_id: two.channel.id })
  await lin.on(shared.east).joinByInvite({ invite_code: code })
  const caller = await lin.listen(shared.west)
  const { session_id } = await join(caller, two.hall.id)
  await until("their home knows", async () => (await callOf(shared, lin))?.voice_session_id === session_id)
  const { order } = await shared.east.node.ask(userActor, lin.id, { type: "askForVoice" })
  expect(voiceSessionId(order, "0".repeat(16)) > session_id).toBe(true)
  await shared.east.node.ask(channelActor, one.hall.id, {
    type: "joinVoice",
    user: lin.id,
    voice_session_id: voiceSessionId("1", "0".repeat(16)),
    worker: shared.east.id,
    gateway_session_id: "late",
  })
  await until("one call is left", async () => (await rowsOf(shared, one.server_id)).length === 0)
  await shared.settle()
  expect(await rowsOf(shared, two.server_id)).toMatchObject([{ user_id: lin.id, channel_id: two.hall.id }])
  expect(await callOf(shared, lin)).toMatchObject({ channel_id: two.hall.id, voice_session_id: session_id })
})

test("the call is the session's that joined last; the others may mute and leave, and their end ends nothing", async ({
  shared,
}) => {
  const { server_id, ada, lin, hall } = await voiceServer(shared)
  const [first, watcher] = await Promise.all([listen(lin, shared.east), listen(ada, shared.west)])
  const second = await listen(lin, shared.west)
  await join(watcher, hall.id)
  await join(first, hall.id)
  await join(second, hall.id)
  watcher.send({ op: 22, d: { channel_id: hall.id, sdp: "v=0", target_user_id: lin.id } })
  await second.signal(22)
  expect(first.signals()).toEqual([])
  // The first holds nothing any longer.
  first.send({ op: 22, d: { channel_id: hall.id, sdp: "stale", target_user_id: ada.id } })
  update(first, { channel_id: hall.id, self_mute: true })
  const isMute = (inbox: Listener) =>
    inbox.next("VOICE_STATE_UPDATE", { where: ({ user_id, self_mute }) => user_id === lin.id && self_mute })
  expect(await isMute(watcher)).toEqual(stateOf(lin, server_id, hall.id, { self_mute: true }))
  await shared.settle()
  expect(watcher.signals()).toEqual([])
  leave(first)
  const isGone = {
    where: ({ user_id, channel_id }: { user_id: string; channel_id: string | null }) =>
      user_id === lin.id && channel_id === null,
  }
  await watcher.next("VOICE_STATE_UPDATE", isGone)
})

test("VOICE3: a page that is loaded anew takes its call over with op 4, and the session that it had ends nothing", async ({
  cluster,
}) => {
  const workers = await cluster.boot(2, briefly)
  const [east, west] = workers as [Worker, Worker]
  const { server_id, ada, lin, hall } = await voiceServer(cluster)
  const watcher = await listen(ada, east)
  await join(watcher, hall.id)
  await watcher.next("VOICE_STATE_UPDATE")
  const isThere = (expected: object) =>
    watcher.next("VOICE_STATE_UPDATE", { where: ({ user_id }) => user_id === lin.id }).then(state => {
      expect(state).toEqual(stateOf(lin, server_id, hall.id, expected))
    })
  // On the worker that holds it, and on the other one.
  const over: string[] = []
  let before = await listen(lin, east)
  await join(before, hall.id)
  await isThere({})
  for (const [i, place] of [west, west, east].entries()) {
    over.push(before.sessionId!)
    before.drop()
    const after = await listen(lin, place)
    const self_mute = i % 2 === 0
    update(after, { channel_id: hall.id, self_mute })
    const { session_id } = await after.next("VOICE_SERVER_UPDATE")
    await isThere({ self_mute })
    watcher.send({ op: 22, d: { channel_id: hall.id, sdp: `v=${i}`, target_user_id: lin.id } })
    expect(await after.signal(22)).toMatchObject({ sdp: `v=${i}` })
    after.send({ op: 23, d: { channel_id: hall.id, sdp: `v=${i}`, target_user_id: ada.id } })
    expect(await watcher.signal(23)).toMatchObject({ session_id })
    before = after
  }
  const redis = new Redis(cluster.redisUrl)
  const isKept = async (id: string) => (await redis.keys(`${cluster.redisPrefix}*gateway-session:{${id}}`)).length > 0
  expect(await isKept(before.sessionId!)).toBe(true)
  await until("the sessions before are over", async () => !(await Promise.all(over.map(isKept))).includes(true))
  redis.disconnect()
  await nothingMore(cluster, watcher)
  expect(await rowsOf(cluster, server_id)).toHaveLength(2)
})

test("a leave that PostgreSQL refuses leaves the call with its session", async ({ cluster }) => {
  const [worker] = await cluster.boot(1)
  const { server_id, ada, lin, hall } = await voiceServer(cluster)
  const [caller, callee] = await Promise.all([listen(lin, worker!), listen(ada, worker!)])
  await join(callee, hall.id)
  await join(caller, hall.id)
  await cluster.sql`
    CREATE TABLE kept (server_id bigint, user_id bigint, FOREIGN KEY (server_id, user_id) REFERENCES voice_states)`
  await cluster.sql`INSERT INTO kept VALUES (${server_id}, ${lin.id})`
  leave(caller)
  caller.send({ op: 22, d: { channel_id: hall.id, sdp: "still here", target_user_id: ada.id } })
  expect(await callee.signal(22)).toMatchObject({ sdp: "still here" })
  expect(cluster.errors.splice(0).length).toBeGreaterThanOrEqual(1)
  await cluster.sql`DROP TABLE kept`
  leave(caller)
  await callee.next("VOICE_STATE_UPDATE", {
    where: ({ user_id, channel_id }) => user_id === lin.id && channel_id === null,
  })
})

test("CALL2: signals reach the one they are for, on whichever worker, and nobody else", async ({ shared }) => {
  const seed = await voiceServer(shared)
  const { ada, lin, hall, den } = seed
  const [eve, bob] = [await joined(shared, seed, "eve"), await joined(shared, seed, "bob")]
  const [caller, callee, third, elsewhere] = await Promise.all([
    listen(ada, shared.east),
    listen(lin, shared.west, { encoding: "msgpack" }),
    listen(eve, shared.east),
    listen(bob, shared.west),
  ])
  const { session_id } = await join(caller, hall.id)
  const answering = await join(callee, hall.id)
  await join(third, hall.id)
  await join(elsewhere, den.id)
  const to = { channel_id: hall.id, target_user_id: lin.id }
  const from = { channel_id: hall.id, user_id: ada.id }
  caller.send({ op: 22, d: { ...to, sdp: "v=0 offer" } })
  expect(await callee.signal(22)).toEqual({ ...from, sdp: "v=0 offer", type: "offer", session_id })
  caller.send({ op: 22, d: { channel_id: hall.id, peer_user_id: lin.id, sdp: "", type: "rollback" } })
  expect(await callee.signal(22)).toEqual({ ...from, sdp: "", type: "rollback", session_id })
  callee.send({ op: 23, d: { channel_id: hall.id, target_user_id: ada.id, sdp: "v=0 answer" } })
  expect(await caller.signal(23)).toEqual({
    channel_id: hall.id,
    user_id: lin.id,
    type: "answer",
    sdp: "v=0 answer",
    session_id: answering.session_id,
  })
  const line = (mid: string | null, index: number | null) => ({
    sdp_mid: mid,
    sdpMid: mid,
    sdp_mline_index: index,
    sdpMLineIndex: index,
  })
  const candidates: [sent: object, received: object][] = [
    [
      { candidate: "c1", sdpMid: "0", sdpMLineIndex: 0 },
      { candidate: "c1", ...line("0", 0) },
    ],
    [
      { candidate: "c2", sdp_mid: "audio", sdp_mline_index: 1 },
      { candidate: "c2", ...line("audio", 1) },
    ],
    [{ candidate: { candidate: "c3", sdpMid: "0", sdpMLineIndex: 0 } }, { candidate: "c3", ...line("0", 0) }],
    [{ candidate: "" }, { candidate: "", ...line(null, null) }],
    [{ candidate: null }, { candidate: "", ...line(null, null) }],
  ]
  for (const [sent, received] of candidates) {
    caller.send({ op: 24, d: { ...to, ...sent } })
    expect(await callee.signal(24)).toEqual({ ...from, ...received })
  }
  caller.send({ op: 25, d: { channel_id: hall.id, speaking: true } })
  for (const inbox of [callee, third]) expect(await inbox.signal(25)).toEqual({ ...from, speaking: true })
  caller.send({ op: 25, d: { channel_id: hall.id, speaking: 0 } })
  for (const inbox of [callee, third]) expect(await inbox.signal(25)).toEqual({ ...from, speaking: false })

  // To a user elsewhere, from a user elsewhere, into a channel that one is not in, to oneself, to
  // nobody.
  const lost = { sdp: "lost" }
  caller.send({ op: 22, d: { ...lost, channel_id: hall.id, target_user_id: bob.id } })
  caller.send({ op: 22, d: { ...lost, channel_id: den.id, target_user_id: bob.id } })
  elsewhere.send({ op: 22, d: { ...lost, channel_id: hall.id, target_user_id: lin.id } })
  elsewhere.send({ op: 25, d: { channel_id: hall.id, speaking: true } })
  caller.send({ op: 22, d: { ...lost, channel_id: hall.id, target_user_id: ada.id } })
  caller.send({ op: 22, d: { ...lost, channel_id: hall.id } })
  caller.send({ op: 24, d: { channel_id: hall.id, candidate: "lost" } })
  leave(third)
  await caller.next("VOICE_STATE_UPDATE", {
    where: ({ user_id, channel_id }) => user_id === eve.id && channel_id === null,
  })
  third.send({ op: 22, d: { ...lost, channel_id: hall.id, target_user_id: lin.id } })
  caller.send({ op: 22, d: { ...lost, channel_id: hall.id, target_user_id: eve.id } })
  caller.send({ op: 22, d: { ...to, sdp: "the last" } })
  expect(await callee.signal(22)).toMatchObject({ sdp: "the last" })
  await shared.settle()
  for (const inbox of [caller, callee, third, elsewhere]) expect(inbox.signals()).toEqual([])
})

test("CALL1: signals of one session arrive in its order", async ({ shared }) => {
  const { ada, lin, hall } = await voiceServer(shared)
  const [caller, callee] = await Promise.all([listen(ada, shared.east), listen(lin, shared.west)])
  await join(callee, hall.id)
  await join(caller, hall.id)
  const sent = Array.from({ length: 50 }, (_, i) => `candidate ${i}`)
  for (const candidate of sent) caller.send({ op: 24, d: { channel_id: hall.id, target_user_id: lin.id, candidate } })
  await until("all of them", () => callee.signals().length === sent.length)
  expect(callee.signals().map(({ d }) => (d as { candidate: string }).candidate)).toEqual(sent)
})

test("where more than a hundred listen, of who speaks only changes are told, and the last one always", async ({
  shared,
}) => {
  const [ada, lin] = await Promise.all([shared.person("ada"), shared.person("lin")])
  const { server_id, channel_id } = await plantServer(shared, { owner: ada, members: [lin] })
  const { sql } = shared
  await sql`UPDATE channels SET channel_type = 'voice' WHERE id = ${channel_id}`
  await sql`
    INSERT INTO users (id, username, created_at)
    SELECT 77000000000000000 + i * 4096, 'listener_' || i, 1704153600 FROM generate_series(1, 100) AS i`
  await sql`
    INSERT INTO members (server_id, user_id, joined_at)
    SELECT ${server_id}, 77000000000000000 + i * 4096, 1704153600 FROM generate_series(1, 100) AS i`
  await sql`
    INSERT INTO voice_states
    SELECT ${server_id}, 77000000000000000 + i * 4096, ${channel_id}, 'v' || i, ${shared.west.id}, 'g' || i,
      false, false, false, false, false, 1704153600000 FROM generate_series(1, 100) AS i`
  const [caller, callee] = await Promise.all([listen(ada, shared.east), listen(lin, shared.west)])
  await join(callee, channel_id)
  await join(caller, channel_id)
  const speak = (speaking: boolean) => caller.send({ op: 25, d: { channel_id, speaking } })
  for (let i = 0; i < 10; i++) speak(true)
  await shared.settle()
  expect(callee.signals()).toHaveLength(1)
  expect(await callee.signal(25)).toMatchObject({ user_id: ada.id, speaking: true })
  // It changes its mind faster than it is told.
  const beganAt = performance.now()
  for (let i = 0; i < 9; i++) speak(i % 2 === 1)
  const told: boolean[] = []
  const hearAll = async () => {
    while (callee.signals().length > 0) told.push(((await callee.signal(25)) as { speaking: boolean }).speaking)
    return told.at(-1) === false
  }
  await until("the last one is told", hearAll)
  await shared.settle()
  await hearAll()
  expect(told.at(-1)).toBe(false)
  expect(told.length).toBeLessThanOrEqual(2 + (performance.now() - beganAt) / 1_000)
})

test("who is in a channel, over REST", async ({ shared }) => {
  const { server, ada, lin, hall, channel } = await voiceServer(shared)
  const stranger = await shared.person("stranger")
  const caller = await lin.listen(shared.east)
  const read = (person: Person, channel_id: string) => person.on(shared.west).getVoiceInfo({ channel_id })
  const before = await read(ada, hall.id)
  expect(before).toMatchObject({ channel_id: hall.id, bitrate: 64_000, participants: [] })
  expect(before.session_id).toMatch(/^[\da-f]{32}$/)
  update(caller, { channel_id: hall.id, self_deaf: true })
  await caller.next("VOICE_SERVER_UPDATE")
  const after = await read(ada, hall.id)
  expect(after.session_id).not.toBe(before.session_id)
  expect(after.participants).toEqual([
    { user_id: lin.id, ...flags, self_mute: true, self_deaf: true, mute: false, deaf: false, suppress: false },
  ])
  expect(await refusal(read(stranger, hall.id))).toBe("access_denied")
  expect(await refusal(read(ada, "1"))).toBe("channel_not_found")
  expect(await refusal(read(ada, "x"))).toBe("invalid_channel_id")
  expect(await refusal(read(ada, channel.id))).toBe("not_a_voice_channel")
  const view: Permission[] = ["channels.view"]
  await ada
    .on(shared.east)
    .setOverride({ channel_id: hall.id, target_id: server.id, type: "role", allow: [], deny: view })
  expect(await refusal(read(lin, hall.id))).toBe("access_denied")
  expect((await lin.on(shared.east).getIceServers({})).ice_servers).toEqual(before.ice_servers)
})

test("voice can be switched off, and TURN servers and a media server can be named", async ({ cluster }) => {
  const turn = {
    STARLING_VOICE_TURN_URLS: "turn:turn.example:3478,turns:turn.example:5349",
    STARLING_VOICE_TURN_SECRET: "secret",
    STARLING_VOICE_MEDIA_URL: "wss://media.example/media?x=1",
  }
  const [on] = await cluster.boot(1, { config: turn })
  const { ada, lin, hall } = await voiceServer(cluster)
  const caller = await lin.listen(on!)
  const turnOf = async (person: Person) => {
    const [own, inChannel] = await Promise.all([
      person.on(on!).getIceServers({}),
      person.on(on!).getVoiceInfo({ channel_id: hall.id }),
    ])
    return [own, inChannel].map(({ ice_servers }) => ice_servers.some(({ urls }) => urls[0]!.startsWith("turn:")))
  }
  expect(await turnOf(lin), "TURN relays are for users in a call").toEqual([false, false])
  const { endpoint, ice_servers } = await join(caller, hall.id)
  await until("the user's home knows the call", async () => (await turnOf(lin))[0]!)
  expect(await turnOf(lin)).toEqual([true, true])
  expect(await turnOf(ada)).toEqual([false, false])
  const endsInSeconds = Number(ice_servers[1]!.username!.split(":")[0]) - Date.now() / 1000
  expect(endsInSeconds).toBeLessThanOrEqual(600)
  expect(endpoint).toBe(`wss://media.example/media?x=1&roomId=voice_${hall.id}&peerId=user_${lin.id}`)
  expect(ice_servers[1]!.urls).toEqual(["turn:turn.example:3478", "turns:turn.example:5349"])
  expect(ice_servers[1]!.username).toMatch(new RegExp(String.raw`^\d+:${lin.id}$`))
  expect(ice_servers[1]!.credential).toMatch(/^[\w+/]{27}=$/)
  leave(caller)
  await until("the user's home knows the end", async () => !(await turnOf(lin))[0]!)
  const [off] = await cluster.boot(1, { config: { STARLING_VOICE_ENABLED: "off" } })
  expect(await refusal(ada.on(off!).getIceServers({}))).toBe("unavailable")
  expect(await refusal(ada.on(off!).getVoiceInfo({ channel_id: hall.id }))).toBe("unavailable")
  const refused = await ada.listen(off!)
  connect(refused, hall.id)
  expect(await refused.next("VOICE_STATE_UPDATE")).toMatchObject({ user_id: ada.id, channel_id: null })
})

test("the day's allowance of the tier ends the call, refuses the next, and begins anew with the day", async ({
  cluster,
}) => {
  const [before] = await cluster.boot(1)
  const { server_id, ada, lin, hall } = await voiceServer(cluster)
  const today = dayOf(Date.now())
  const use = (person: Person, day: number, seconds: number) =>
    cluster.sql`INSERT INTO voice_usage (user_id, day, seconds) VALUES (${person.id}, ${day}, ${seconds})`
  // Two hours a day, of which two seconds are left; tomorrow, too, should it begin meanwhile.
  for (const day of [today, today + 1]) await use(lin, day, 7_198)
  await cluster.sql`UPDATE users SET tier = 'premium' WHERE id = ${ada.id}`
  // Homes read it when they wake.
  await before!.stop()
  const [worker] = await cluster.boot(1)
  await cluster.bootJobWorker()
  const [caller, watcher] = await Promise.all([lin.listen(worker!), ada.listen(worker!)])
  await join(watcher, hall.id)
  const { session_id } = await join(caller, hall.id)
  await until("the end is known", async () => (await callOf(cluster, lin))?.voice_session_id === session_id)
  expect((await callOf(cluster, lin))!.ends_at! - Date.now()).toBeLessThanOrEqual(2_000)
  expect((await callOf(cluster, ada))!.ends_at, "premium has no bound").toBeNull()
  expect(
    await watcher.next("VOICE_STATE_UPDATE", {
      where: ({ user_id, channel_id }) => user_id === lin.id && channel_id === null,
      timeoutMs: 30_000,
    }),
  ).toEqual(stateOf(lin, server_id, null))
  const usedUp = async () => {
    const [row] = await cluster.sql<{ seconds: number }[]>`
      SELECT max(seconds) AS seconds FROM voice_usage WHERE user_id = ${lin.id}`
    return row!.seconds >= 7_200
  }
  await until("it is counted", usedUp)
  caller.rest()
  connect(caller, hall.id)
  expect(await caller.next("VOICE_STATE_UPDATE")).toMatchObject({ user_id: lin.id, channel_id: null, server_id: null })
  expect(await rowsOf(cluster, server_id)).toMatchObject([{ user_id: ada.id }])
})

test("what was used in a server that one has left for another is taken off the call that goes on", async ({
  cluster,
}) => {
  const [worker] = await cluster.boot(1)
  await cluster.bootJobWorker()
  const { server_id, lin, hall } = await voiceServer(cluster)
  const caller = await lin.listen(worker!)
  const { session_id } = await join(caller, hall.id)
  expect(await caller.next("VOICE_STATE_UPDATE")).toEqual(stateOf(lin, server_id, hall.id))
  await until("their home knows", async () => (await callOf(cluster, lin))?.voice_session_id === session_id)
  const { began_at, ends_at } = (await callOf(cluster, lin))!
  expect(ends_at).toBeGreaterThan(began_at)
  // The end of the call before is heard of after the beginning of this one: the whole allowance of
  // the day.
  const midnight = dayOf(began_at) * 86_400_000
  const ended = { voice_session_id: voiceSessionId("1", "0".repeat(16)), from: midnight, to: midnight + 7_200_000 }
  await worker!.node.ask(userActor, lin.id, { type: "voiceChanged", ended })
  expect((await callOf(cluster, lin))?.ends_at ?? began_at).toBe(began_at)
  expect(await caller.next("VOICE_STATE_UPDATE", { timeoutMs: 30_000 })).toEqual(stateOf(lin, server_id, null))
})

test("a call that should be over ends also when its job was lost", async ({ cluster }) => {
  const [before] = await cluster.boot(1)
  const { server_id, lin, hall } = await voiceServer(cluster)
  const caller = await lin.listen(before!)
  await join(caller, hall.id)
  await until("its end is known", async () => (await callOf(cluster, lin)) !== undefined)
  const today = dayOf(Date.now())
  for (const day of [today, today + 1])
    await cluster.sql`INSERT INTO voice_usage (user_id, day, seconds) VALUES (${lin.id}, ${day}, 7200)`
  await cluster.sql`UPDATE voice_calls SET ends_at = began_at - 120000 WHERE user_id = ${lin.id}`
  // Homes read it when they wake; the session could be resumed for a minute.
  await before!.stop()
  await cluster.boot(1)
  await cluster.bootJobWorker()
  await until("the call has ended", async () => (await rowsOf(cluster, server_id)).length === 0, { timeoutMs: 25_000 })
  await until("their home knows", async () => (await callOf(cluster, lin)) === undefined)
})

test("VOICE2: every second in voice is counted once, over moves, new voice sessions and other servers", async ({
  shared,
}) => {
  const { lin, hall, den, ada } = await voiceServer(shared)
  const other = await voiceServer(shared)
  const { code } = await other.ada.on(shared.east).createInvite({ channel_id: other.channel.id })
  await lin.on(shared.east).joinByInvite({ invite_code: code })
  const [caller, watcher] = await Promise.all([lin.listen(shared.east), ada.listen(shared.west)])
  const from = performance.now()
  for (const channel of [hall, den, den, other.hall, hall]) await join(caller, channel.id)
  leave(caller)
  await until("their home knows", async () => {
    const [row] = await shared.sql<
      { n: number }[]
    >`SELECT count(*)::int AS n FROM voice_calls WHERE user_id = ${lin.id}`
    return row!.n === 0
  })
  await shared.settle()
  const [used] = await shared.sql<{ seconds: number }[]>`
    SELECT sum(seconds)::int AS seconds FROM voice_usage WHERE user_id = ${lin.id}`
  // Five voice sessions; what has begun of a second counts.
  expect(used!.seconds).toBeGreaterThanOrEqual(5)
  expect(used!.seconds).toBeLessThanOrEqual(5 + Math.ceil((performance.now() - from) / 1000))
  expect(watcher.state).toBe("live")
})

/** Short, so that the end of a session can be waited for. */
const briefly = { topology: { gateway: { resumeWindowMs: 2_000 } } }

test("P5: a session that resumes on another worker keeps its call", async ({ cluster }) => {
  const workers = await cluster.boot(3)
  const [east, west, north] = workers as [Worker, Worker, Worker]
  const { server_id, ada, lin, hall } = await voiceServer(cluster)
  const [caller, watcher] = await Promise.all([listen(lin, east), listen(ada, north)])
  await join(watcher, hall.id)
  const { session_id } = await join(caller, hall.id)
  await cluster.settle()
  watcher.rest()
  const holder = async () => (await rowsOf(cluster, server_id)).find(({ user_id }) => user_id === lin.id)?.worker
  const worksAt = async (worker: Worker) => {
    await until("the call has moved", async () => (await holder()) === worker.id)
    watcher.send({ op: 22, d: { channel_id: hall.id, sdp: "v=0", target_user_id: lin.id } })
    await caller.signal(22)
    caller.send({ op: 23, d: { channel_id: hall.id, sdp: "v=0", target_user_id: ada.id } })
    expect(await watcher.signal(23)).toMatchObject({ user_id: lin.id, session_id })
  }
  await worksAt(east)
  await caller.reconnect(west.url)
  await worksAt(west)
  caller.drop()
  await caller.reconnect(west.url)
  await worksAt(west)
  // Its worker ends.
  const gone = caller.ended()
  await west.stop()
  await gone
  await caller.reconnect(east.url)
  await worksAt(east)
  expect(watcher.rest().filter(({ name }) => name === "VOICE_STATE_UPDATE")).toEqual([])
})

test("CALL3: a call ends with the session that holds it, not before the resume window has passed", async ({
  cluster,
}) => {
  const workers = await cluster.boot(2, briefly)
  const [east, west] = workers as [Worker, Worker]
  const { server_id, ada, lin, hall } = await voiceServer(cluster)
  const [caller, other, watcher] = await Promise.all([lin.listen(east), lin.listen(west), ada.listen(west)])
  await join(caller, hall.id)
  await watcher.next("VOICE_STATE_UPDATE")
  const droppedAt = performance.now()
  caller.drop()
  // Another session of theirs lives on; it does not hold the call.
  expect(await watcher.next("VOICE_STATE_UPDATE", { timeoutMs: 15_000 })).toEqual(stateOf(lin, server_id, null))
  expect(performance.now() - droppedAt).toBeGreaterThanOrEqual(2_000)
  expect(other.state).toBe("live")
  expect(await rowsOf(cluster, server_id)).toEqual([])
})

test("a call ends at once with the access of the session that holds it", async ({ shared }) => {
  const { server_id, ada, lin, hall } = await voiceServer(shared)
  const again = await lin.signIn(shared.west)
  const [caller, watcher] = await Promise.all([again.listen(shared.east), ada.listen(shared.west)])
  await join(caller, hall.id)
  await watcher.next("VOICE_STATE_UPDATE")
  await again.on(shared.west).logout()
  expect((await caller.ended()).code).toBe(4004)
  expect(await watcher.next("VOICE_STATE_UPDATE")).toEqual(stateOf(lin, server_id, null))
})

test("a call ends when its worker is gone and nobody resumes it, no matter who owned its server", async ({
  cluster,
}) => {
  const workers = await cluster.boot(3, briefly)
  const [east, west] = workers as [Worker, Worker]
  const seeds = [await voiceServer(cluster), await voiceServer(cluster), await voiceServer(cluster)]
  const calls = await Promise.all(
    seeds.map(async ({ server_id, ada, lin, hall }) => {
      const [caller, watcher] = await Promise.all([lin.listen(east), ada.listen(west)])
      await join(caller, hall.id)
      await watcher.next("VOICE_STATE_UPDATE")
      return { server_id, lin, watcher }
    }),
  )
  await east.stop()
  for (const { server_id, lin, watcher } of calls) {
    expect(await watcher.next("VOICE_STATE_UPDATE", { timeoutMs: 30_000 })).toEqual(stateOf(lin, server_id, null))
    expect(await rowsOf(cluster, server_id)).toEqual([])
    await until("their home knows", async () => (await callOf(cluster, lin)) === undefined)
  }
})

test("one sweep finds everything that dead workers left behind, however much it is, and what cannot be ended stops none", async ({
  shared,
}) => {
  const seed = await voiceServer(shared)
  const { server_id, hall } = seed
  const people = await Promise.all(["a", "b", "c", "d", "e"].map(name => joined(shared, seed, name)))
  const { ask } = shared.east.node
  for (const { id: user } of people)
    await ask(channelActor, hall.id, {
      type: "joinVoice",
      user,
      voice_session_id: voiceSessionId("1", "0".repeat(16)),
      worker: "gone",
      gateway_session_id: "gone",
    })
  const storage = openStorage({ ...clusterConfig.storage, url: shared.databaseUrl, name: "sweeper" })
  const refused = (await rowsOf(shared, server_id))[0]!.user_id
  const endings = new VoiceEndings({
    // The first is out of reach.
    ask: (actor, id, command, options) =>
      "user" in command && command.user === refused
        ? Promise.reject(unavailable("no owner"))
        : ask(actor, id, command, options),
    self: "sweeper",
    webWorkers: () => ["sweeper"],
    storage,
    subscriptions: { byId: new Map() },
    resumeWindowMs: 3_600_000,
    page: 2,
    clock: systemClock,
    log: createLog({ level: "silent", process: "web" }),
  })
  try {
    await endings.sweep()
    expect(await rowsOf(shared, server_id)).toMatchObject([{ user_id: refused }])
  } finally {
    endings.stop()
    await storage.close()
  }
})

test("a call that stands in the tables only, of a session that nobody has, ends by itself", async ({ cluster }) => {
  const [east] = await cluster.boot(2, briefly)
  const { server_id, ada, lin, hall } = await voiceServer(cluster)
  const [caller, watcher] = await Promise.all([lin.listen(east!), ada.listen(east!)])
  await join(caller, hall.id)
  await watcher.next("VOICE_STATE_UPDATE")
  // As if the worker that claimed it had never had it.
  await cluster.sql`UPDATE voice_states SET gateway_session_id = 'nobody' WHERE user_id = ${lin.id}`
  expect(await watcher.next("VOICE_STATE_UPDATE", { timeoutMs: 20_000 })).toEqual(stateOf(lin, server_id, null))
})

test("whatever happens at once, in the end a user is in one call at most, and everybody has heard who is where", async ({
  cluster,
}) => {
  const random = randomFrom(Number(process.env["SEED"] ?? 7), "voice")
  const [watched] = await cluster.boot(3, briefly)
  const seeds = [await voiceServer(cluster), await voiceServer(cluster)]
  const [one, two] = seeds as [(typeof seeds)[0], (typeof seeds)[0]]
  const people = await Promise.all(["a", "b", "c", "d"].map(name => joined(cluster, one, name)))
  for (const person of people) {
    const { code } = await two.ada.on(cluster.workers[0]!).createInvite({ channel_id: two.channel.id })
    await person.on(cluster.workers[0]!).joinByInvite({ invite_code: code })
  }
  const options = { autoReconnect: true, backoff: { firstMs: 20, maxMs: 200 } }
  const clients = await Promise.all(
    people.flatMap(person => [0, 1].map(() => person.listen(random.pick(cluster.workers), options))),
  )
  const watchers = await Promise.all(seeds.map(({ ada }) => ada.listen(watched!)))
  const channels = seeds.flatMap(({ hall, den }) => [hall.id, den.id])
  const acts: ((client: Listener) => void)[] = [
    client => connect(client, random.pick(channels)),
    client => connect(client, random.pick(channels)),
    client => update(client, { channel_id: random.pick(channels), self_mute: random.next() < 0.5 }),
    leave,
    client => client.drop(),
  ]
  for (let round = 0; round < 12; round++) {
    for (let i = 0; i < 20; i++) {
      const client = random.pick(clients)
      if (client.state === "live") random.pick(acts)(client)
    }
    await until("somebody is back", () => clients.some(({ state }) => state === "live"))
    // One of the three goes and another comes; the watchers' stays.
    if (round % 5 === 2) {
      const going = random.pick(cluster.workers.filter(worker => worker !== watched))
      const [fresh] = await cluster.boot(1, { ...briefly, unbalanced: true })
      for (const client of clients) if (random.next() < 0.5) client.reconnect(fresh!.url).catch(() => {})
      await going.stop()
      for (const client of clients) if (client.state !== "live") client.reconnect(fresh!.url).catch(() => {})
    }
  }
  // Some stay, the others go for good: their calls end.
  for (const client of clients.slice(0, 4)) client.close()
  const isSo = async () => {
    const rows = (await Promise.all(seeds.map(({ server_id }) => rowsOf(cluster, server_id)))).flat()
    const calls = await cluster.sql<
      { user_id: string; channel_id: string }[]
    >`SELECT user_id, channel_id FROM voice_calls`
    const there = rows.map(({ user_id, channel_id }) => `${user_id} ${channel_id}`).toSorted()
    const gone = new Set(people.slice(0, 2).map(({ id }) => id))
    return (
      new Set(rows.map(({ user_id }) => user_id)).size === rows.length &&
      isDeepStrictEqual(there, calls.map(({ user_id, channel_id }) => `${user_id} ${channel_id}`).toSorted()) &&
      rows.every(({ user_id, worker }) => !gone.has(user_id) && cluster.workers.some(({ id }) => id === worker))
    )
  }
  const heard = seeds.map(() => new Map<string, string>())
  const isHeard = async () => {
    await cluster.settle()
    for (const [i, { server_id, ada, hall, den }] of seeds.entries()) {
      for (const { name, data } of watchers[i]!.rest())
        if (name === "VOICE_STATE_UPDATE" && data.server_id === server_id)
          if (data.channel_id === null) heard[i]!.delete(data.user_id)
          else heard[i]!.set(data.user_id, data.channel_id)
      const read = new Map<string, string>()
      for (const { id: channel_id } of [hall, den]) {
        // On a busy machine an owner that is gone may not have its successor yet.
        const found = await ada
          .on(watched!)
          .getVoiceInfo({ channel_id })
          .catch(() => undefined)
        if (!found) return false
        for (const { user_id } of found.participants) read.set(user_id, channel_id)
      }
      if (!isDeepStrictEqual(heard[i], read)) return false
    }
    return true
  }
  // What was asked last may still be on its way when the others have settled.
  const inTime = { timeoutMs: 40_000, everyMs: 50 }
  await until(
    "every call is somebody's, and everybody has heard of it",
    async () => (await isSo()) && isHeard(),
    inTime,
  )
  for (const watcher of watchers) expect(watcher.state).toBe("live")
}, 90_000)

test("a call survives its server's home: the next owner knows who is in it", async ({ cluster }) => {
  const workers = await cluster.boot(3)
  const { server_id, ada, lin, hall } = await voiceServer(cluster)
  const owned = await cluster.sql<{ owner: string }[]>`
    SELECT owner FROM shards WHERE shard = ((${server_id}::bigint >> 12) & 1023)`
  const owner = workers.find(({ id }) => id === owned[0]!.owner)!
  const [one, two] = workers.filter(worker => worker !== owner) as [Worker, Worker]
  const [caller, watcher] = await Promise.all([listen(lin, one), listen(ada, two)])
  await join(caller, hall.id)
  await join(watcher, hall.id)
  await owner.stop()
  expect((await ada.on(two).getVoiceInfo({ channel_id: hall.id })).participants).toHaveLength(2)
  caller.send({ op: 22, d: { channel_id: hall.id, sdp: "v=0", target_user_id: ada.id } })
  await watcher.signal(22)
  leave(caller)
  await watcher.next("VOICE_STATE_UPDATE", { where: ({ channel_id }) => channel_id === null })
})

testWith({ limited: true })(
  "too many signals are ignored, and only ten changes of speaking a second are told",
  async ({ shared }) => {
    const { ada, lin, hall } = await voiceServer(shared)
    const [caller, callee] = await Promise.all([listen(ada, shared.east), listen(lin, shared.west)])
    await join(callee, hall.id)
    await join(caller, hall.id)
    const beganAt = performance.now()
    for (let i = 0; i < 100; i++) caller.send({ op: 25, d: { channel_id: hall.id, speaking: i % 2 === 0 } })
    for (let i = 0; i < 550; i++)
      caller.send({ op: 24, d: { channel_id: hall.id, candidate: `c${i}`, target_user_id: lin.id } })
    await caller.heartbeatNow()
    await shared.settle()
    const seconds = Math.ceil((performance.now() - beganAt) / 1000)
    const spoken = callee.signals().filter(({ op }) => op === 25).length
    expect(spoken).toBeGreaterThan(0)
    expect(spoken).toBeLessThanOrEqual(10 * (seconds + 1))
    const ids = callee
      .signals()
      .flatMap(({ op, d }) => (op === 24 ? [Number((d as { candidate: string }).candidate.slice(1))] : []))
    // Six hundred a minute, of which a hundred were about speaking.
    for (const id of ids) expect(id).toBeLessThan(500)
    expect(caller.state).toBe("live")
    leave(caller)
    await callee.next("VOICE_STATE_UPDATE", { where: ({ channel_id }) => channel_id === null })
  },
)
