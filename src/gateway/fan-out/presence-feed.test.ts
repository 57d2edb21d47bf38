import { expect, test } from "vitest"
import type { PresenceChange } from "../../domain/core/presences.ts"
import { createMetrics } from "../../observability/metrics.ts"
import type { Clock } from "../../std/clock.ts"
import { PresenceFeed } from "./presence-feed.ts"
import type { Subscriptions } from "./subscriptions.ts"

function open() {
  const at = { ms: 0 }
  const sent: string[] = []
  const waiting: (() => void)[] = []
  const stream = {
    behind: 0,
    lookAtBuffers: () => {},
    onceSent: (action: () => void) => void (stream.whenSent = action),
    whenSent: undefined as (() => void) | undefined,
  }
  const subscriptions = {
    position: 7,
    isMoving: false,
    unlookedBytes: 0,
    *spread(frame: () => { in(encoding: "json"): string }, _: unknown, friends: readonly string[]) {
      const { d } = JSON.parse(frame().in("json")) as { d: { custom_status: string } }
      sent.push(`${d.custom_status} to ${friends.join(" ")}`)
      yield
    },
  }
  const feed = new PresenceFeed({
    subscriptions: subscriptions as unknown as Subscriptions,
    stream,
    view: () => undefined,
    timing: { gatherForMs: 100, gathered: 2 },
    slice: 1e6,
    clock: {
      monotonic: () => at.ms,
      after: (_: number, action: () => void) => (waiting.push(action), { stop() {} }),
    } as unknown as Clock,
    metrics: createMetrics(),
  })
  const change = (count: number, homes: string[], more: Partial<PresenceChange> = {}): PresenceChange => ({
    user: "1",
    status: "online",
    custom_status: `version ${count}`,
    custom_emoji: null,
    version: [1, count],
    homes,
    except: [],
    ...more,
  })
  /** What is sent when these come together. */
  const takes = (...changes: PresenceChange[]) => {
    feed.take(changes)
    for (const action of waiting.splice(0)) action()
    return sent.splice(0)
  }
  return { at, feed, change, takes, stream, sent }
}

test("an owner's older word of a user is dropped, and the newest is remembered for 30 seconds at least", () => {
  const { at, feed, change, takes } = open()
  expect(takes(change(5, ["8"]), change(5, ["9"]))).toEqual(["version 5 to 8 9"])
  at.ms += 30_000
  feed.sweep()
  expect(takes(change(4, ["10"]))).toEqual([])
  expect(takes(change(4, ["10"], { isApart: true }))).toEqual(["version 4 to 10"])
  expect(takes(change(6, ["10"]))).toEqual(["version 6 to 10"])
})

test("what is remembered of presences is forgotten after a minute, though nothing comes any more", () => {
  const { at, feed, change, takes } = open()
  takes(change(5, ["8"]))
  for (let seconds = 0; seconds < 62; seconds++) {
    at.ms += 1_000
    feed.sweep()
  }
  // Nothing tells any more that it is the older one.
  expect(takes(change(4, ["9"]))).toEqual(["version 4 to 9"])
})

test("changes of more users than may wait are shed, and counted", () => {
  const { change, takes } = open()
  const three = ["1", "2", "3"].map(user => change(1, ["8"], { user }))
  expect(takes(...three)).toEqual(["version 1 to 8", "version 1 to 8"])
})

test("what waits behind the log goes out as soon as that is sent to its end, however short the moment", () => {
  const { change, takes, stream, sent, feed } = open()
  stream.behind = 3
  expect(takes(change(1, ["8"]))).toEqual([])
  // More comes meanwhile.
  expect(takes(change(2, ["9"]))).toEqual([])
  stream.behind = 0
  stream.whenSent!()
  expect(sent.splice(0)).toEqual(["version 2 to 8 9"])
  expect(takes(change(3, ["8"]))).toEqual(["version 3 to 8"])
  stream.behind = 1
  expect(takes(change(4, ["8"]))).toEqual([])
  feed.stop()
  stream.whenSent!()
  expect(sent).toEqual([])
})
