import type { TemplatedApp } from "uWebSockets.js"
import { expect, test } from "vitest"
import type { Channel } from "../../contract/communities/channels.ts"
import { viewersOf } from "../../domain/core/audience.ts"
import type { Clock } from "../../std/clock.ts"
import type { RulesChange } from "../../domain/core/control.ts"
import type { LogHeader, LogItem } from "../../domain/core/log-entry.ts"
import { createLog } from "../../observability/log.ts"
import { createMetrics } from "../../observability/metrics.ts"
import type { ServerOutline } from "../../storage/communities/servers.ts"
import { Subscriptions } from "./subscriptions.ts"
import { CatchUpReader } from "../replay/catch-up-reader.ts"
import { HomeSubscriptions } from "./home-subscriptions.ts"
import { Guilds, type Connection, type Session } from "../state/session.ts"
import { Stream } from "./stream.ts"

/**
 * A clock that stands still but for what each look at it costs; turns of the loop are taken one by
 * one.
 */
function stillClock(costMs: number) {
  let now = 0
  const turns: (() => void)[] = []
  const pauses: number[] = []
  const timer = { stop: () => {} }
  const clock: Clock = {
    now: () => now,
    monotonic: () => (now += costMs),
    sleep: () => Promise.resolve(),
    soon: action => void turns.push(action),
    after(milliseconds, action) {
      turns.push(() => {
        now += milliseconds
        pauses.push(milliseconds)
        action()
      })
      return timer
    },
    every: () => timer,
  }
  return { clock, turns, pauses, turn: () => turns.splice(0).forEach(action => action()) }
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
    { target_id: "1", type: "role", allow: [], deny: ["channels.view"] },
    { target_id: "10", type: "role", allow: ["channels.view"], deny: [] },
  ],
}

/** A worker's live sessions, every other with the role that still sees the channel. */
async function worker(count: number, costMs: number) {
  const { clock, turns, pauses, turn } = stillClock(costMs)
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
    register: () => Promise.resolve(0),
    release: () => {},
    releaseUsers: () => Promise.resolve(),
    loadOutlines: () => Promise.resolve([outline]),
    loadsAtOnce: 1,
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
  const streams = { recentAfter: () => [], oldest: 0, at: "" }
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

  homes.hold("1").catch(() => {})
  const loading = homes.need("1")
  for (let i = 0; i < 10 && !homes.view("1"); i++) {
    turn()
    await new Promise(resolve => setImmediate(resolve))
  }
  const view = (await loading)!
  const inboxes: string[][] = []
  for (let i = 0; i < count; i++) {
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
      intents: 0xffff,
      encoding: "json",
      state: "reading",
      cursor: 0,
      guilds: new Guilds(),
      changes: [],
      roleChanges: [],
      connection: { ws, closed: false } as unknown as Connection,
    } as unknown as Session
    subscriptions.addGuild(session, view, i % 2 === 0 ? [] : ["10"], view.at(0))
    subscriptions.add(session)
    subscriptions.goLive(session)
  }
  return { stream, homes, subscriptions, view, inboxes, turns, pauses, turn }
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

test("a large audience is written to with pauses, as long as the writes take; what comes meanwhile goes together", async () => {
  const { stream, inboxes, pauses, turns, turn } = await worker(1_000, 0)
  stream.take([message(1)])
  turn()
  for (const s of [2, 3, 4]) stream.take([message(s)])
  expect(turns).toHaveLength(1)
  expect(brief(inboxes[0]!)).toEqual(["MESSAGE_CREATE 1"])
  turn()
  expect(brief(inboxes[0]!)).toEqual([1, 2, 3, 4].map(s => `MESSAGE_CREATE ${s}`))
  expect(pauses).toHaveLength(1)
  expect(pauses[0]).toBeLessThan(20)

  const few = await worker(10, 0)
  few.stream.take([message(1)])
  few.turn()
  few.stream.take([message(2)])
  few.turn()
  expect(few.pauses).toEqual([])
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
