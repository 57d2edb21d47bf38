/** The two roads between workers of one host, with a network, a Redis and a time that do as they are told. */
import { expect, test } from "vitest"
import type { BusMessage, Outgoing } from "../../src/cluster/bus-messages.ts"
import { SocketRoad } from "../../src/cluster/socket-road.ts"
import { silentLog } from "../../src/observability/log.ts"
import { createMetrics } from "../../src/observability/metrics.ts"
import { SimulatedHost } from "../simulator/host-sockets.ts"
import { Timeline, type Actor } from "../simulator/timeline.ts"

const metrics = createMetrics()
const numbered = (number: number, length = 0): Outgoing => ({
  message: ["notice", "", "count", `${number}${" ".repeat(length)}`],
  until: Infinity,
})
const numberOf = (message: BusMessage) => Number.parseInt(message[3] as string, 10)

interface Worker {
  readonly actor: Actor
  readonly road: SocketRoad
  /** In order, by whichever road. */
  readonly taken: number[]
  readonly returned: number[]
  /** How many messages went through Redis. */
  appended: number
  send(to: string, ...outgoing: Outgoing[]): void
}

function scene() {
  const timeline = new Timeline(1)
  const host = new SimulatedHost(timeline)
  const workers = new Map<string, Worker>()
  const dead = new Set<string>()
  const redis = { delayMs: 1, isDown: false }

  /** @param listensAs whose socket it has */
  async function worker(self: string, listensAs = self): Promise<Worker> {
    const actor: Actor = { name: self, dead: false, pausedUntil: 0 }
    let arrivesAt = 0
    const append = (to: string, outgoing: readonly Outgoing[]) => {
      one.appended += outgoing.length
      const mark = road.mark(to)
      if (redis.isDown) return
      const { actor: receiver, road: theirs, taken } = workers.get(to)!
      arrivesAt = Math.max(arrivesAt, timeline.now + redis.delayMs)
      timeline.at(arrivesAt, receiver, () => {
        if (mark?.[0] === "batch" && !theirs.arrive(mark[1], mark[2])) return
        for (const { message } of outgoing) taken.push(numberOf(message))
      })
    }
    const road: SocketRoad = new SocketRoad({
      sockets: { ...host.socketsOf(self, actor), listen: accept => host.socketsOf(listensAs, actor).listen(accept) },
      self,
      clock: timeline.clockOf(actor),
      bounds: { maxUntaken: 2_000, stuckAfterMs: 2_000 },
      isDead: id => dead.has(id),
      take: message => void one.taken.push(numberOf(message)),
      append,
      returned: (_, outgoing) => void one.returned.push(...outgoing.map(({ message }) => numberOf(message))),
      trouble(error) {
        throw error
      },
      log: silentLog,
      metrics,
    })
    const one: Worker = {
      actor,
      road,
      taken: [],
      returned: [],
      appended: 0,
      send(to, ...outgoing) {
        if (!road.carry(to, outgoing)) append(to, outgoing)
      },
    }
    workers.set(self, one)
    await road.open()
    return one
  }
  const pass = (milliseconds: number) => timeline.run(timeline.now + milliseconds)
  /** Two that know one another and talk through a socket. */
  async function pair() {
    const [east, west] = [await worker("east"), await worker("west")]
    east.road.meet("west")
    west.road.meet("east")
    await pass(30)
    expect([east.road.count, west.road.count]).toEqual([1, 1])
    return [east, west] as const
  }
  return { host, dead, redis, worker, pair, pass, now: () => timeline.now }
}

test("BUS1: what is sent while a socket opens waits for what went through Redis before, and then needs no Redis", async () => {
  const { redis, worker, pass } = scene()
  const [east, west] = [await worker("east"), await worker("west")]
  redis.delayMs = 40
  let next = 0
  const expected: number[] = []
  const send = () => {
    expected.push(next)
    east.send("west", numbered(next++))
  }
  east.road.meet("west")
  for (let i = 0; i < 60; i++) {
    send()
    await pass(2)
  }
  await pass(100)
  expect(west.taken).toEqual(expected)
  const { appended } = east
  expect(appended).toBeGreaterThan(0)
  expect(appended).toBeLessThan(10)
  send()
  await pass(5)
  expect(west.taken).toEqual(expected)
  expect(east.appended).toBe(appended)
})

test("what is held goes through Redis when Redis does not answer in time, and the socket is tried again", async () => {
  const { redis, worker, pass } = scene()
  const [east, west] = [await worker("east"), await worker("west")]
  redis.delayMs = 500
  east.road.meet("west")
  await pass(20)
  for (let i = 0; i < 5; i++) east.send("west", numbered(i))
  expect(east.appended).toBe(0)
  await pass(200)
  expect([east.appended, east.road.count]).toEqual([5, 0])
  redis.delayMs = 1
  await pass(2_000)
  expect(west.taken).toEqual([0, 1, 2, 3, 4])
  expect(east.road.count).toBe(1)
})

test("BUS2: a socket that breaks gives back what may not have arrived; what it still held is late, and not taken", async () => {
  const { host, redis, pair, pass, now } = scene()
  const [east, west] = await pair()
  const seen = new Set<string>()
  for (let round = 0; round < 40; round++) {
    const before = [west.taken.length, east.returned.length]
    const from = round * 100
    // A busy worker finds both roads full when it gets to them.
    west.actor.pausedUntil = now() + 5
    for (let i = 0; i < 5; i++) {
      east.send("west", numbered(from + i))
      await pass(0.1)
    }
    host.breakOff(east.actor)
    await pass(0.1)
    expect(east.returned.slice(before[1])).toEqual([0, 1, 2, 3, 4].map(i => from + i))
    redis.delayMs = round % 2 ? 0.1 : 3
    east.send("west", numbered(from + 50))
    await pass(3_000)
    const taken = west.taken.slice(before[0])
    expect(taken.at(-1)).toBe(from + 50)
    expect(taken).toEqual(taken.toSorted((a, b) => a - b))
    seen.add(taken.length > 1 ? "some arrived" : "none arrived")
    expect([east.road.count, west.road.count]).toEqual([1, 1])
  }
  expect(seen).toEqual(new Set(["some arrived", "none arrived"]))
})

test("a worker that takes nothing is sent what follows through Redis: after a while, and once too much waits", async () => {
  const { pair, pass } = scene()
  const [east, west] = await pair()
  west.actor.pausedUntil = 1e9
  east.send("west", numbered(1))
  await pass(1_500)
  expect(east.returned).toEqual([])
  await pass(2_000)
  expect(east.returned).toEqual([1])
  expect([east.road.count, east.appended]).toEqual([0, 0])

  const other = scene()
  const [here, there] = await other.pair()
  there.actor.pausedUntil = 1e9
  for (let i = 0; i < 5; i++) here.send("west", numbered(i, 450))
  expect(here.returned).toEqual([0, 1, 2, 3])
  expect([here.road.count, here.appended]).toEqual([0, 1])
})

test("BUS3: of a worker that is known to be dead nothing more is taken, and it gets no connection", async () => {
  const { dead, pair, pass } = scene()
  const [east, west] = await pair()
  west.send("east", numbered(1))
  dead.add("west")
  east.road.forget("west")
  await pass(50)
  expect(east.taken).toEqual([])
  expect(west.road.count).toBe(0)
  east.road.meet("west")
  west.road.meet("east")
  await pass(2_000)
  expect([east.road.hasConnection("west"), west.road.count]).toEqual([false, 0])
})

test("who listens where another worker did, or says the name of another one, is not taken for it", async () => {
  const { host, worker, pass } = scene()
  const east = await worker("east")
  const successor = await worker("west-2", "west-1")
  east.road.meet("west-1")
  await pass(300)
  expect([east.road.hasConnection("west-1"), successor.road.hasConnection("east")]).toEqual([false, false])

  const stranger: Actor = { name: "stranger", dead: false, pausedUntil: 0 }
  for (const frame of [
    "",
    "[]",
    "nonsense",
    JSON.stringify(["starling", 2, "a", "east"]),
    '["starling",1,"a","west"]',
  ]) {
    let isRefused = false
    const connecting = host.socketsOf("stranger", stranger).connect("east")
    await pass(1)
    const connection = await connecting
    connection.onEnd = () => (isRefused = true)
    connection.send(frame)
    await pass(50)
    expect([frame, isRefused]).toEqual([frame, true])
  }
  // One that says nothing at all is sent away, too.
  let isOver = false
  const connecting = host.socketsOf("stranger", stranger).connect("east")
  await pass(1)
  ;(await connecting).onEnd = () => (isOver = true)
  await pass(1_100)
  expect(isOver).toBe(true)
})
