import type { TemplatedApp } from "uWebSockets.js"
import { expect, test } from "vitest"
import type { Channel } from "../../contract/communities/channels.ts"
import { maskOf } from "../../domain/core/permission-masks.ts"
import { membersOf, viewersOf } from "../../domain/core/audience.ts"
import type { Clock } from "../../std/clock.ts"
import type { Permission } from "../../contract/core/permissions.ts"
import type { Control, RulesChange } from "../../domain/core/control.ts"
import type { Override } from "../../domain/core/overrides.ts"
import { VisibilityRules } from "../state/visibility-rules.ts"
import type { LogHeader, LogItem } from "../../domain/core/log-entry.ts"
import { createLog } from "../../observability/log.ts"
import { createMetrics } from "../../observability/metrics.ts"
import type { ServerOutline } from "../../storage/communities/servers.ts"
import { Subscriptions } from "./subscriptions.ts"
import { CatchUpReader } from "../replay/catch-up-reader.ts"
import { rewind } from "../replay/rewinding.ts"
import { HomeSubscriptions } from "./home-subscriptions.ts"
import type { ServerView } from "../state/server-view.ts"
import { Guilds, type Connection, type Session } from "../state/session.ts"
import { Stream } from "./stream.ts"

/**
 * A clock that stands still but for what each look at it costs; turns of the loop are taken one by
 * one.
 */
function stillClock(costMs: number) {
  let now = 0
  const turns: ((() => void) & { at?: number })[] = []
  const pauses: number[] = []
  const timer = { stop: () => {} }
  const clock: Clock = {
    now: () => now,
    monotonic: () => (now += costMs),
    sleep: () => Promise.resolve(),
    soon: action => void turns.push(action),
    after(milliseconds, action) {
      const at = now + milliseconds
      const fire = () => {
        now = Math.max(now, at)
        pauses.push(milliseconds)
        action()
      }
      turns.push(Object.assign(fire, { at }))
      return timer
    },
    every: () => timer,
  }
  /** What is to happen meanwhile does. */
  const pass = (milliseconds: number) => {
    const until = now + milliseconds
    for (;;) {
      const next = turns.findIndex(({ at = 0 }) => at <= until)
      if (next === -1) break
      turns.splice(next, 1)[0]!()
    }
    now = until
  }
  return { clock, turns, pauses, pass, turn: () => turns.splice(0).forEach(action => action()) }
}

const channel: Channel = {
  id: "20",
  server_id: "1",
  guild_id: "1",
  name: "hall",
  type: "text",
  channel_type: "text",
  topic: null,
  position: 0,
  category_id: null,
  nsfw: false,
  slowmode_seconds: 0,
  read_receipts_enabled: true,
  user_limit: 0,
  bitrate: 64_000,
  created_at: 0,
  recipient_id: null,
  recipient: null,
}
const outline: ServerOutline = {
  id: "1",
  name: "Server",
  owner_id: "0",
  row: 0,
  roles: new Map([
    ["1", { permissions: new Set(["channels.view"] as const) }],
    ["10", { permissions: new Set() }],
  ]),
  channels: new Map([["20", { channel, overrides: [] }]]),
}
const hide: RulesChange = {
  type: "overrides",
  server: "1",
  channel: "20",
  shown: channel,
  before: [],
  after: [
    { target_id: "1", type: "role", allow: 0, deny: maskOf(["channels.view"]) },
    { target_id: "10", type: "role", allow: maskOf(["channels.view"]), deny: 0 },
  ],
}

/** A worker's live sessions, every other with the role that still sees the channel. */
async function worker(count: number, costMs: number, outlines: readonly ServerOutline[] = [outline]) {
  const { clock, turns, pauses, pass, turn } = stillClock(costMs)
  const log = createLog({ level: "silent", process: "web", worker: "test" }, { write: () => {} })
  const metrics = createMetrics()
  const topics = new Map<string, Set<string[]>>()
  const app = {
    publish: (topic: string, payload: string) => {
      for (const inbox of topics.get(topic) ?? []) inbox.push(payload)
      return true
    },
  } as unknown as TemplatedApp
  const homes = new HomeSubscriptions({
    register: () => Promise.resolve({ row: 0, places: "here" }),
    release: () => {},
    releaseUsers: () => Promise.resolve(),
    loadOutline: server => Promise.resolve(outlines.find(({ id }) => id === server)),
    oldest: () => 0,
    keep: 0,
    clock,
    log,
  })
  const subscriptions = new Subscriptions({
    app,
    view: server => homes.view(server),
    classesPerAudience: 16,
    clock,
    metrics,
  })
  const items: LogItem[] = []
  const streams = { recentAfter: (s: number) => items.filter(item => item.s > s), oldest: 0, at: "" }
  const options = { subscriptions, homes, self: "a", budget: 1e6, clock, log, metrics }
  const reader = new CatchUpReader({
    ...options,
    streams: () => streams,
    logs: { read: () => Promise.resolve([]), at: () => "" },
    stuckAfterMs: 1e6,
    reconcile: () => {},
    changed: () => {},
  })
  const stream = new Stream({ ...options, reader, giveUp: () => {}, slice: 1e9 })

  const views = outlines.map(({ id }) => {
    homes.hold(id).catch(() => {})
    return homes.need(id)
  })
  for (let i = 0; i < 10 && !outlines.every(({ id }) => homes.view(id)); i++) {
    turn()
    await new Promise(resolve => setImmediate(resolve))
  }
  const view = (await views[0])!
  const inboxes: string[][] = []
  const live = (i: number, of: ServerView, roles: string[], intents = 0xffff) => {
    const inbox: string[] = []
    inboxes.push(inbox)
    const ws = {
      subscribe(topic: string) {
        const those = topics.get(topic) ?? new Set()
        topics.set(topic, those.add(inbox))
      },
      unsubscribe: (topic: string) => topics.get(topic)!.delete(inbox),
      send: (payload: string) => inbox.push(payload) && 1,
      cork: (action: () => void) => action(),
      getBufferedAmount: () => 0,
      end: () => {},
    }
    const session = {
      id: `${i}`,
      user: `${100 + i}`,
      intents,
      encoding: "json",
      state: "reading",
      cursor: 0,
      guilds: new Guilds(),
      changes: [],
      roleChanges: [],
      connection: { ws, closed: false } as unknown as Connection,
    } as unknown as Session
    subscriptions.addGuild(session, of, roles, of.at(0))
    subscriptions.add(session)
    subscriptions.goLive(session)
    return inbox
  }
  for (let i = 0; i < count; i++) live(i, view, i % 2 === 0 ? [] : ["10"])
  const take = (...taken: LogItem[]) => {
    items.push(...taken)
    stream.take(taken)
  }
  const read = (session: Session) => {
    subscriptions.goReading(session)
    reader.begin(session)
  }
  return { stream, homes, subscriptions, view, inboxes, turns, pauses, pass, turn, take, live, read }
}

const control = (s: number, change: RulesChange): LogItem => {
  const header: LogHeader = ["c", 0, s, "1", { kind: "members", server: "1" }, change.type]
  return { s, header, data: JSON.stringify(change), bytes: 0 }
}
const message = (s: number): LogItem => {
  const header: LogHeader = ["e", 0, s, "1", viewersOf("1", "20"), "MESSAGE_CREATE", []]
  return { s, header, data: `{"id":"${s}"}`, bytes: 0 }
}
const brief = (inbox: readonly string[]) =>
  inbox.map(text => JSON.parse(text) as { t: string; s: number }).map(({ t, s }) => `${t} ${s}`)

test("P13: live sessions pass a change in slices, and what follows waits until all have", async () => {
  // Each look at the clock costs a millisecond, and there is one after every session.
  const { stream, subscriptions, inboxes, turns, turn } = await worker(1_000, 1)
  stream.take([message(1), control(2, hide), message(3)])
  let slices = 0
  for (let told = 0; turns.length > 0; slices++) {
    turn()
    const before = told
    told = inboxes.flat().filter(text => text.includes("CHANNEL_DELETE")).length
    expect(told - before).toBeLessThanOrEqual(5)
    if (told === 500) continue
    expect(subscriptions.position).toBe(1)
    expect(inboxes.flat().some(text => text.includes('"s":3'))).toBe(false)
  }
  expect(slices).toBeGreaterThan(5)
  expect(subscriptions.position).toBe(3)
  for (const [i, inbox] of inboxes.entries())
    expect(brief(inbox)).toEqual(["MESSAGE_CREATE 1", i % 2 === 0 ? "CHANNEL_DELETE 2" : "MESSAGE_CREATE 3"])
})

/** A server with many channels that `@everyone` sees, and one that nobody else is in. */
const wide: ServerOutline = {
  ...outline,
  channels: new Map(
    Array.from({ length: 40 }, (_, i) => [`${200 + i}`, { channel: { ...channel, id: `${200 + i}` }, overrides: [] }]),
  ),
}
const strangers: ServerOutline = { ...outline, id: "2", roles: new Map([["2", { permissions: new Set() }]]) }

test("P13, P19: a change that hides many channels is read by those whom it concerns; the others wait only until it is known whom", async () => {
  const { take, subscriptions, homes, inboxes, live, turns, turn } = await worker(400, 1, [wide, strangers])
  const stranger = live(1_000, homes.view("2")!, [])
  const blind: RulesChange = { type: "role", server: "1", role: "1", before: ["channels.view"], after: [] }
  const posted = (s: number, server: string, on: string): LogItem => {
    const header: LogHeader = [
      "e",
      0,
      s,
      server,
      on === "" ? membersOf(server) : viewersOf(server, on),
      "MESSAGE_CREATE",
      [],
    ]
    return { s, header, data: `{"id":"${s}"}`, bytes: 0 }
  }
  take(posted(1, "1", "200"), control(2, blind), posted(3, "1", "200"), posted(4, "2", ""), posted(5, "1", ""))
  const told = () => inboxes.filter(inbox => inbox.some(text => text.includes("CHANNEL_DELETE"))).length
  let [toldBefore, maxPerTurn, toldWhenServed] = [0, 0, -1]
  for (let i = 0; i < 1_000 && (turns.length > 0 || i === 0); i++) {
    turn()
    maxPerTurn = Math.max(maxPerTurn, told() - toldBefore)
    toldBefore = told()
    if (toldWhenServed < 0 && stranger.length > 0) toldWhenServed = toldBefore
  }
  // The stranger has their message before any of the others has been told of 40 channels.
  expect(brief(stranger)).toEqual(["MESSAGE_CREATE 4"])
  expect(toldWhenServed).toBeLessThanOrEqual(5)
  expect(maxPerTurn).toBeLessThanOrEqual(5)
  expect(subscriptions.position).toBe(5)
  for (const inbox of inboxes.slice(0, 400)) {
    const all = brief(inbox)
    expect(all[0]).toBe("MESSAGE_CREATE 1")
    expect(all.slice(1, -1)).toEqual([...Array.from({ length: 39 }, () => "CHANNEL_DELETE 1"), "CHANNEL_DELETE 2"])
    expect(all.at(-1)).toBe("MESSAGE_CREATE 5")
  }
  expect([...subscriptions.byId.values()].every(({ state }) => state === "live")).toBe(true)
})

test("P13, P19: a member whose new role shows them many channels reads the change, and others do not wait for it", async () => {
  const narrow: ServerOutline = {
    ...wide,
    roles: new Map([
      ["1", { permissions: new Set() }],
      ["10", { permissions: new Set(["channels.view"]) }],
    ]),
  }
  const { take, stream, subscriptions, homes, inboxes, live, turns, turn } = await worker(2, 0, [narrow, strangers])
  const stranger = live(1_000, homes.view("2")!, [])
  const given = { type: "memberRoles", server: "1", user: "100", before: [], after: ["10"] } as const
  const posted = (s: number, server: string): LogItem => {
    const header: LogHeader = ["e", 0, s, server, membersOf(server), "MESSAGE_CREATE", []]
    return { s, header, data: `{"id":"${s}"}`, bytes: 0 }
  }
  const gave: LogItem = {
    s: 2,
    header: ["c", 0, 2, "1", { kind: "members", server: "1" }, given.type],
    data: JSON.stringify(given),
    bytes: 0,
  }
  take(posted(1, "1"), gave, posted(3, "2"), posted(4, "1"))
  // What the member had been told when the stranger's message went out.
  let toldWhenServed = -1
  const inbox = inboxes[0]!
  const message = inboxes[2]!
  const push = message.push.bind(message)
  message.push = (...texts) => {
    toldWhenServed = inbox.length
    return push(...texts)
  }
  for (let i = 0; i < 100 && turns.length > 0; i++) turn()
  expect(brief(stranger)).toEqual(["MESSAGE_CREATE 3"])
  expect(toldWhenServed).toBe(1)
  expect(brief(inbox)).toEqual([
    "MESSAGE_CREATE 1",
    ...Array.from({ length: 39 }, () => "CHANNEL_CREATE 1"),
    "CHANNEL_CREATE 2",
    "MESSAGE_CREATE 4",
  ])
  expect(brief(inboxes[1]!)).toEqual(["MESSAGE_CREATE 1", "MESSAGE_CREATE 4"])
  expect([...subscriptions.byId.values()].every(({ state }) => state === "live")).toBe(true)
  expect(stream.behind).toBe(0)
})

test("P13: a session that goes back to reading in the middle of a change goes on from its position", async () => {
  const { stream, subscriptions, inboxes, turn } = await worker(1_000, 1)
  stream.take([control(2, hide), message(3)])
  turn()
  const [first, last] = [subscriptions.byId.get("0")!, subscriptions.byId.get("999")!]
  expect(brief(inboxes[0]!)).toEqual(["CHANNEL_DELETE 2"])
  // What either is told now bears the place of what it was told last.
  subscriptions.sendPosition(first)
  subscriptions.sendPosition(last)
  expect(brief(inboxes[0]!)).toEqual(["CHANNEL_DELETE 2", "SESSION_POSITION 2"])
  expect(brief(inboxes[999]!)).toEqual(["SESSION_POSITION 0"])
  for (const session of [first, last]) subscriptions.goReading(session)
  // The one has been told of the change, the other will read of it.
  expect([first.cursor, last.cursor]).toEqual([2, 0])
  expect([first, last].map(session => subscriptions.placeOf(session))).toEqual([2, 0])
})

test("CATCH3, P5, P13: who received only a part of what one change told them resumes before it, and is told all", async () => {
  const channels = new Map(["20", "21", "22"].map(id => [id, { channel: { ...channel, id }, overrides: [] }]))
  const { take, inboxes, turn, turns, subscriptions, read } = await worker(1, 0, [{ ...outline, channels }])
  const posted: LogItem = { ...message(7), header: ["e", 0, 7, "1", membersOf("1"), "MESSAGE_CREATE", []] }
  const blind: RulesChange = { type: "role", server: "1", role: "1", before: ["channels.view"], after: [] }
  const given: Control = { type: "memberRoles", server: "1", user: "100", before: [], after: ["11"] }
  const rolesGiven: LogItem = {
    s: 11,
    header: ["c", 0, 11, "1", membersOf("1"), given.type],
    data: JSON.stringify(given),
    bytes: 0,
  }
  const creator: RulesChange = { type: "role", server: "1", role: "11", before: [], after: ["channels.view"] }
  take(posted, control(9, blind), control(10, creator), rolesGiven)
  while (turns.length > 0) turn()
  const inbox = inboxes[0]!
  const told = brief(inbox)
  // The socket may end after any of the frames. What comes then is what was missed, and all of a
  // change of which something was missed.
  for (const [received, from] of [
    [1, 1],
    [2, 1],
    [3, 1],
    [4, 4],
    [5, 4],
    [6, 4],
    [7, 7],
  ] as const) {
    const session = subscriptions.byId.get("0")!
    const seq = (JSON.parse(inbox[received - 1]!) as { s: number }).s
    read(session)
    session.cursor = seq
    rewind(session, seq)
    const before = inbox.length
    while (turns.length > 0) turn()
    expect(brief(inbox.splice(before)), `after ${received} frames`).toEqual(told.slice(from))
    expect(session.state).toBe("live")
  }
  expect(told).toEqual([
    "MESSAGE_CREATE 7",
    "CHANNEL_DELETE 8",
    "CHANNEL_DELETE 8",
    "CHANNEL_DELETE 9",
    "CHANNEL_CREATE 10",
    "CHANNEL_CREATE 10",
    "CHANNEL_CREATE 11",
  ])
})

test("P13: a channel that the worker did not know of is hidden as well", async () => {
  const { view } = await worker(0, 0)
  const other = { ...channel, id: "21" }
  const guest = { user_id: "7", roles: [] }
  expect(view.now.mayView("21", guest)).toBe(true)
  view.apply({ ...hide, channel: "21", shown: other }, 5, 50, 0)
  expect(view.now.mayView("21", guest)).toBe(false)
  const keyOf = (of: string) => view.now.audienceKey({ kind: "viewers", server: "1", channel: of })
  expect(keyOf("21")).not.toBe(keyOf("20"))
})

test("rules are those of the place: the version before a change stands until the log cannot be read back to it", async () => {
  const { view } = await worker(0, 0)
  const shown = { ...hide, before: hide.after, after: [] }
  view.apply(hide, 5, 50, 0)
  view.apply(shown, 6, 60, 0)
  const guest = { user_id: "7", roles: [] }
  const sees = (position: number, row?: number) => view.at(position, row).mayView("20", guest)
  expect([40, 50, 59, 60].map(position => sees(position))).toEqual([true, false, false, true])
  expect([4, 5, 6].map(row => sees(0, row))).toEqual([true, false, true])
  // What was in the view when it was loaded is not applied again.
  view.apply(hide, 0, 70, 0)
  expect(view.now.mayView("20", guest)).toBe(true)
  view.apply(hide, 8, 80, 60)
  expect(view.at(0).mayView("20", guest)).toBe(false)
  expect(sees(60)).toBe(true)
})

test("caches of a version are dropped when all sessions have left it, and computed again for a session that reads there", async () => {
  const { view } = await worker(0, 0)
  const guest = { user_id: "7", roles: ["10"] }
  const rules = view.now
  const made = () => [rules.subscribedKeys(guest), rules.visibleTo(guest), view.seen(guest.roles, rules)] as const
  const first = made()
  view.apply(hide, 5, 50, 0)
  made().forEach((one, i) => expect(one).toBe(first[i]))
  view.apply({ ...hide, before: hide.after, after: [] }, 6, 60, 0)
  made().forEach((one, i) => expect(one).not.toBe(first[i]))
  expect(made()).toEqual(first)
})

const heard = (inbox: readonly string[] | undefined) => inbox!.map(text => (JSON.parse(text) as { s: number }).s)

test("PACE1, PACE2: a large audience is written to with pauses, and what comes in numbers is gathered; else nothing waits", async () => {
  const { stream, view, inboxes, pauses, live, pass, turns } = await worker(0, 0)
  // In eight classes: what counts is how many sessions an event reaches.
  for (let i = 0; i < 1_000; i++) live(i, view, [], 0x200 | (i % 8))
  const say = (...positions: number[]) => stream.take(positions.map(message))
  const toOne = (s: number): LogItem => {
    const header: LogHeader = ["e", 0, s, "100", { kind: "user", user: "100" }, "READ_STATE_UPDATE", []]
    return { s, header, data: `{"id":"${s}"}`, bytes: 0 }
  }
  const all = (to: number) => Array.from({ length: to }, (_, i) => i + 1)
  say(1)
  pass(0)
  expect(heard(inboxes[0])).toEqual([1])
  // Three quarters of the time for others than writers.
  for (const s of [2, 3, 4]) say(s)
  expect(turns).toHaveLength(1)
  pass(10)
  expect(heard(inboxes[0])).toEqual([1])
  pass(1)
  expect(heard(inboxes[999])).toEqual(all(4))
  expect(pauses).toHaveLength(1)
  // These three came together, so the next one waits for others: a little longer after each.
  pass(30)
  say(5)
  pass(9)
  say(6)
  pass(9)
  expect(heard(inboxes[0])).toEqual(all(4))
  pass(1)
  expect(heard(inboxes[0])).toEqual(all(6))
  // PACE1, however many come.
  pass(30)
  for (let s = 7; s <= 11; s++) {
    say(s)
    pass(4)
  }
  expect(heard(inboxes[0])).toEqual(all(11))
  pass(1)
  say(12)
  pass(16)
  expect(heard(inboxes[0])).toEqual(all(11))
  pass(3)
  expect(heard(inboxes[0])).toEqual(all(12))
  // PACE2: the last one was by itself, and after a while it does not matter what came before.
  pass(30)
  say(13)
  pass(0)
  expect(heard(inboxes[0])).toEqual(all(13))
  say(14, 15)
  pass(40)
  // What goes to few does not end it.
  stream.take([toOne(16)])
  pass(10)
  expect(heard(inboxes[0])).toEqual(all(16))
  say(17)
  pass(4)
  expect(heard(inboxes[0])).toEqual(all(16))
  say(18)
  pass(250)
  say(19)
  pass(0)
  expect(heard(inboxes[0])).toEqual(all(19))

  const few = await worker(10, 0)
  for (const s of all(9)) {
    few.stream.take([message(s), message(s), message(s)])
    few.pass(0)
    expect(few.inboxes[0]).toHaveLength(3 * s)
  }
  expect(few.pauses).toEqual([])
})

test("a large audience is given what one system call takes in a turn, the rest in the next ones without a pause", async () => {
  const long = (s: number): LogItem => ({ ...message(s), data: `"${"x".repeat(5_000)}"`, bytes: 5_100 })
  for (const [count, perTurn] of [
    [1_000, 3],
    [10, 7],
  ] as const) {
    const { stream, inboxes, turn, turns, pauses, pass } = await worker(count, 0)
    stream.take([1, 2, 3, 4, 5, 6, 7].map(long))
    const told: number[] = []
    while (turns.length > 0) {
      turn()
      told.push(inboxes[0]!.length)
    }
    expect(told).toEqual([3, 6, 7].filter(to => to >= perTurn).map(to => Math.max(to, perTurn)))
    expect(stream.behind).toBe(0)
    expect(pauses).toEqual([])
    // All of them together are what tells that more come together.
    pass(30)
    stream.take([long(8)])
    pass(0)
    expect(heard(inboxes[0])).toEqual(count === 10 ? [1, 2, 3, 4, 5, 6, 7, 8] : [1, 2, 3, 4, 5, 6, 7])
    pass(10)
    expect(inboxes[0]).toHaveLength(8)
  }
})

test("P13: a server that is gone is gone for its sessions in slices, and nobody comes to it meanwhile", async () => {
  const { stream, homes, subscriptions, inboxes, turns, turn } = await worker(1_000, 1)
  const deleted: LogItem = {
    s: 2,
    header: ["c", 0, 2, "1", { kind: "members", server: "1" }, "serverDeleted"],
    data: JSON.stringify({ type: "serverDeleted", server: "1" }),
    bytes: 0,
  }
  stream.take([message(1), deleted, message(3)])
  let slices = 0
  for (let told = 0; turns.length > 0; slices++) {
    turn()
    const before = told
    told = inboxes.flat().filter(text => text.includes("GUILD_DELETE")).length
    expect(told - before).toBeLessThanOrEqual(5)
    expect(homes.view("1")).toBeUndefined()
  }
  expect(slices).toBeGreaterThan(100)
  expect(subscriptions.position).toBe(3)
  for (const inbox of inboxes) expect(brief(inbox)).toEqual(["MESSAGE_CREATE 1", "GUILD_DELETE 2"])
})

test("an event for one user alone is not even parsed on a worker without a session of that user", async () => {
  const { stream, subscriptions, turn } = await worker(10, 0)
  const joined = (s: number, user: string): LogItem => {
    const header: LogHeader = ["c", 0, s, "1", { kind: "user", user }, "joined"]
    return { s, header, data: "no JSON", bytes: 0 }
  }
  stream.take([joined(1, "nobody")])
  turn()
  expect(subscriptions.position).toBe(1)
  stream.take([joined(2, subscriptions.byId.get("0")!.user)])
  expect(turn).toThrow(SyntaxError)
})

test("what is known of a server is not relied on after a gap", async () => {
  const { stream, homes, view, turn } = await worker(10, 0)
  stream.take([{ s: 1, header: ["g", 0, 7], data: "", bytes: 0 }])
  turn()
  expect(view.isOver).toBe(true)
  expect(homes.view("1")).toBeUndefined()
})

test("P19: a change that concerns nobody's views is passed at once, however many sessions are live and however many changes wait", async () => {
  const { take, inboxes, homes, subscriptions, live, turns, turn } = await worker(1_000, 1, [outline, strangers])
  const stranger = live(1_000, homes.view("2")!, [])
  const created = (id: string): RulesChange => ({
    type: "channel",
    server: "1",
    channel: id,
    before: null,
    after: { ...channel, id },
  })
  const forNobody: RulesChange = {
    ...hide,
    after: [{ target_id: "9", type: "role", allow: maskOf(["channels.view"]), deny: 0 }],
  }
  const posted: LogItem = {
    s: 11,
    header: ["e", 0, 11, "2", membersOf("2"), "MESSAGE_CREATE", []],
    data: "{}",
    bytes: 0,
  }
  // The first override of a channel gives everybody another topic. From then on it is the same.
  take(control(1, forNobody))
  while (turns.length > 0) turn()
  const moved = { ...forNobody, before: forNobody.after, channel: "21" }
  const changes = Array.from({ length: 9 }, (_, i) =>
    i % 3 === 0
      ? created(`${21 + i}`)
      : { ...moved, channel: `${21 + i - (i % 3)}`, ...(i % 3 === 1 ? { before: [] } : { after: [] }) },
  )
  take(...changes.map((change, i) => control(2 + i, change)), posted, message(12))
  let taken = 0
  for (; stranger.length === 0 && taken < 1_000; taken++) turn()
  expect(taken).toBeLessThan(20)
  while (turns.length > 0) turn()
  expect(subscriptions.position).toBe(12)
  for (const inbox of inboxes.slice(0, 1_000)) expect(brief(inbox)).toEqual(["MESSAGE_CREATE 12"])
})

test("P13, P19: a change that tells very many sessions is read by them, and others wait for none of them", async () => {
  const { take, inboxes, homes, subscriptions, live, turns, turn } = await worker(2_400, 1, [outline, strangers])
  const stranger = live(3_000, homes.view("2")!, [])
  const posted = (s: number): LogItem => ({
    s,
    header: ["e", 0, s, "2", membersOf("2"), "MESSAGE_CREATE", []],
    data: "{}",
    bytes: 0,
  })
  take(message(1), control(2, hide), posted(3), message(4))
  const told = () => inboxes.filter(inbox => inbox.some(text => text.includes("CHANNEL_DELETE"))).length
  for (let i = 0; i < 2_000 && stranger.length === 0; i++) turn()
  expect(told()).toBeLessThan(20)
  while (turns.length > 0) turn()
  expect([...subscriptions.byId.values()].every(({ state }) => state === "live")).toBe(true)
  for (const [i, inbox] of inboxes.slice(0, 2_400).entries())
    expect(brief(inbox)).toEqual(["MESSAGE_CREATE 1", i % 2 === 0 ? "CHANNEL_DELETE 2" : "MESSAGE_CREATE 4"])
})

/** Numbers below a bound, the same for the same seed. */
function numbers(seed: number) {
  let state = seed * 2_654_435_761 + 1
  return (below: number): number => {
    state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9) | 0
    return ((state ^ (state >>> 13)) >>> 0) % below
  }
}

/** A server as a plain model: what it says of its channels is computed anew for each version. */
function model(next: (below: number) => number) {
  const roles = new Map(["1", "10", "11", "12"].map(id => [id, { permissions: new Set<Permission>() }]))
  const channels = new Map<string, readonly Override[]>(["20", "21", "22", "23"].map(id => [id, []]))
  let owner_id = "100"
  let made = 24
  const shown = (id: string): Channel => ({ ...channel, id })
  const pick = <T>(from: Iterable<T>): T => {
    const all = [...from]
    return all[next(all.length)]!
  }
  const sides = <T extends RulesChange>(change: T): RulesChange => change
  const outlineNow = (): ServerOutline => ({
    id: "1",
    name: "Server",
    owner_id,
    row: 0,
    roles: new Map(roles),
    channels: new Map([...channels].map(([id, overrides]) => [id, { channel: shown(id), overrides }])),
  })
  const change = (): RulesChange => {
    const kind = next(10)
    if (kind < 3) {
      const role = pick(roles.keys())
      const before = [...roles.get(role)!.permissions]
      const after = ([[], ["channels.view"], ["channels.view", "administrator"]] as const)[next(role === "1" ? 2 : 3)]!
      roles.set(role, { permissions: new Set(after) })
      return sides({ type: "role", server: "1", role, before, after })
    }
    if (kind < 8 && channels.size > 0) {
      const id = pick(channels.keys())
      const before = channels.get(id)!
      const isOfRole = next(3) > 0
      const target_id = isOfRole ? pick(roles.keys()) : `${100 + next(12)}`
      const rest = before.filter(override => override.target_id !== target_id)
      const said = (
        [
          [0, view],
          [view, 0],
          [0, 0],
        ] as const
      )[next(3)]!
      const override: Override = { target_id, type: isOfRole ? "role" : "member", allow: said[0], deny: said[1] }
      const after = next(4) === 0 ? rest : [...rest, override]
      channels.set(id, after)
      return sides({ type: "overrides", server: "1", channel: id, shown: shown(id), before, after })
    }
    if (kind === 8) {
      const before = owner_id
      owner_id = `${100 + next(12)}`
      const identity = (owner: string) => ({ name: "Server", owner_id: owner })
      return sides({ type: "server", server: "1", before: identity(before), after: identity(owner_id) })
    }
    if (channels.size > 5) {
      const id = pick(channels.keys())
      const overrides = channels.get(id)!
      channels.delete(id)
      return sides({ type: "channel", server: "1", channel: id, before: shown(id), after: null, overrides })
    }
    const id = `${made++}`
    channels.set(id, [])
    return sides({ type: "channel", server: "1", channel: id, before: null, after: shown(id) })
  }
  return { outline: outlineNow, change, pick, channels, roles, rules: () => new VisibilityRules(outlineNow()) }
}
const view = maskOf(["channels.view"])

test("SUB1, KIND1, KIND2, P13: live sessions that share kinds are told and sent what a plain model says, through any sequence of changes", async () => {
  for (let seed = 1; seed <= 60; seed++) {
    const next = numbers(seed)
    const server = model(next)
    const { take, inboxes, subscriptions, homes, live, turns, turn, read } = await worker(0, seed % 2, [
      server.outline(),
    ])
    // Every twentieth time so many that groups which come to see the same are not put together.
    const rolesOf = Array.from({ length: seed % 20 === 0 ? 150 : 12 }, () =>
      ["10", "11", "12"].filter(() => next(3) === 0),
    )
    for (const [i, roles] of rolesOf.entries()) live(i, homes.view("1")!, roles)
    const expected: string[][] = inboxes.map(() => [])
    const holder = (i: number) => ({ user_id: `${100 + i}`, roles: rolesOf[i]! })
    let s = 0
    for (let step = 0; step < 40; step++) {
      const before = server.rules()
      const [sawBefore, known] = [inboxes.map((_, i) => before.visibleTo(holder(i))), [...server.channels.keys()]]
      const items: LogItem[] = []
      if (next(6) === 0) {
        const i = next(12)
        const roles = ["10", "11", "12"].filter(() => next(3) === 0)
        const given: Control = {
          type: "memberRoles",
          server: "1",
          user: `${100 + i}`,
          before: rolesOf[i]!,
          after: roles,
        }
        rolesOf[i] = roles
        items.push({
          s: ++s,
          header: ["c", s, s, "1", membersOf("1"), given.type],
          data: JSON.stringify(given),
          bytes: 0,
        })
      } else {
        const change = server.change()
        items.push({
          s: ++s,
          header: ["c", s, s, "1", membersOf("1"), change.type],
          data: JSON.stringify(change),
          bytes: 0,
        })
      }
      const [changedAt, after] = [s, server.rules()]
      for (const id of server.channels.keys())
        items.push({
          s: ++s,
          header: ["e", s, s, "1", viewersOf("1", id), "MESSAGE_CREATE", []],
          data: `{"id":"${id}"}`,
          bytes: 0,
        })
      for (const [i, told] of expected.entries()) {
        const sees = after.visibleTo(holder(i))
        const both = [...server.channels.keys()].filter(id => known.includes(id))
        const [saw, now] = [(id: string) => sawBefore[i]!.has(id), (id: string) => sees.has(id)]
        const shown = [
          ...both.filter(id => saw(id) && !now(id)).map(id => `CHANNEL_DELETE ${id}`),
          ...both.filter(id => !saw(id) && now(id)).map(id => `CHANNEL_CREATE ${id}`),
        ]
        told.push(...shown.map((text, n) => `${text} ${n < shown.length - 1 ? changedAt - 1 : changedAt}`))
        for (const [n, id] of [...server.channels.keys()].entries())
          if (now(id)) told.push(`MESSAGE_CREATE ${id} ${changedAt + 1 + n}`)
      }
      take(...items)
      // Several changes may wait, and some sessions go back to reading in the middle of them.
      for (let i = 0; i < 4 && turns.length > 0; i++) {
        turn()
        const session = subscriptions.byId.get(`${next(12)}`)!
        if (next(3) === 0 && session.state === "live") read(session)
      }
      if (next(2) === 0) while (turns.length > 0) turn()
    }
    while (turns.length > 0) turn()
    expect([...subscriptions.byId.values()].every(({ state }) => state === "live")).toBe(true)
    const got = inboxes.map(inbox =>
      inbox
        .map(text => JSON.parse(text) as { t: string; s: number; d: { id: string } })
        .map(({ t, s: at, d }) => `${t} ${d.id} ${at}`),
    )
    for (const [i, told] of expected.entries()) expect(got[i], `seed ${seed}, session ${i}`).toEqual(told)
  }
})
