import { expect, test } from "vitest"
import { presenceUpdate } from "../../contract/social/presence.ts"
import { allIntents } from "../../contract/core/intents.ts"
import type { Clock } from "../../std/clock.ts"
import { offline, type Seen } from "../../domain/core/presences.ts"
import { createLog } from "../../observability/log.ts"
import { newSession } from "../state/session.ts"
import { maxWatchedPerServer, PresenceWatches } from "./presence-watches.ts"
import type { Subscriptions } from "./subscriptions.ts"

const online: Seen = { ...offline, status: "online" }

function open() {
  const looks: (() => void)[] = []
  const asked: string[][] = []
  const queries: string[] = []
  const sent: string[] = []
  const session = newSession(
    { id: "s", user: "0", accessSession: "1", intents: allIntents, encoding: "json", cursor: 0, spans: [] },
    0,
  )
  session.state = "live"
  session.guilds.put({ view: { id: "1" } as never, roles: [], rules: {} as never })
  const subscriptions = {
    byId: new Map([[session.id, session]]),
    isMoving: false,
    hearsOf: (_: unknown, name: string) => name === presenceUpdate.name,
    placeOf: () => 7,
    send: (_: unknown, frame: { in(encoding: "json"): string }) => sent.push(frame.in("json")),
  }
  const watches = new PresenceWatches({
    presences: {
      lookUp: async users => {
        asked.push([...users])
        return { seen: new Map(users.map(user => [user, online])), unknown: new Set<string>() }
      },
    },
    storage: {
      guildMembers: {
        isLargerThan: async () => true,
        blocked: async (user: string) => (queries.push(`blocked ${user}`), new Set<string>()),
      },
      servers: {
        members: async (server: string, users: readonly string[]) => {
          queries.push(`members ${server}`)
          return new Map(users.map(user => [user, {}]))
        },
      },
    } as never,
    subscriptions: subscriptions as unknown as Subscriptions,
    timing: { members: 1_000, watchEveryMs: 5_000 },
    clock: {
      after: (_: number, action: () => void) => {
        looks.push(action)
        return { stop: () => {} }
      },
    } as unknown as Clock,
    log: createLog({ level: "silent", process: "web" }),
  })
  const look = async () => {
    looks.shift()!()
    for (let i = 0; i < 20; i++) await new Promise(resolve => setImmediate(resolve))
  }
  return { watches, session, subscriptions, looks, asked, queries, sent, look }
}
const users = (from: number, count: number) => Array.from({ length: count }, (_, i) => String(from + i))
const shown = (ids: readonly string[]) => new Map(ids.map(id => [id, offline]))

test("a session watches so many members of a server at most: whom it asked for longest ago it hears of no more", async () => {
  const { watches, session, asked, sent, look } = open()
  await watches.watch(session, "1", shown(users(100, maxWatchedPerServer)))
  // Asked for again, it is the newest.
  await watches.watch(session, "1", shown(["100"]))
  await watches.watch(session, "1", shown(["900"]))
  await look()
  const wanted = [...users(102, maxWatchedPerServer - 2), "100", "900"]
  expect(asked).toEqual([wanted])
  expect(sent.map(text => (JSON.parse(text) as { d: { user_id: string } }).d.user_id)).toEqual(wanted)
  // What was told is not told again.
  await look()
  expect(sent).toHaveLength(maxWatchedPerServer)
})

test("WATCH1: what a session watches goes with it, and nothing is looked up for nobody", async () => {
  const { watches, session, subscriptions, looks, asked, look } = open()
  await watches.watch(session, "1", shown(["5"]))
  subscriptions.byId.clear()
  await look()
  expect(asked).toEqual([])
  expect(looks).toEqual([])
})

test("however many sessions watch a member, a change of theirs takes two queries", async () => {
  const { watches, session, subscriptions, queries, sent, look } = open()
  const sessions = Array.from({ length: 50 }, (_, i) => ({ ...session, id: `s${i}`, user: String(1_000 + i) }))
  for (const one of sessions) {
    subscriptions.byId.set(one.id, one)
    await watches.watch(one, "1", shown(["5"]))
  }
  await look()
  expect(sent).toHaveLength(50)
  expect(queries).toEqual(["members 1", "blocked 5"])
})
