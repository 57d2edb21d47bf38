/**
 * P5, P6: a session goes on, here or elsewhere, with everything it missed, once and in order; or it
 * is told that it cannot.
 */
import fc from "fast-check"
import { describe } from "vitest"
import type { ReceivedEvent, ServerFrame } from "../../client/gateway.ts"
import { NodeWebSocket } from "../../bench/load/node-websocket.ts"
import { unavailable } from "../../src/contract/core/errors.ts"
import { opcodes } from "../../src/contract/core/gateway-codes.ts"
import { epochMs } from "../../src/domain/core/snowflake.ts"
import type { Cluster, Worker } from "../kit/cluster.ts"
import { watchFrames } from "../kit/conformance.ts"
import { runs } from "../kit/effort.ts"
import { Listener, type Person, type Endpoint } from "../kit/person.ts"
import { sharedServer } from "../kit/seeds.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const brief = ({ name, data }: Pick<ReceivedEvent, "name" | "data">) =>
  `${name} ${(data as { id?: string }).id ?? ""} ${(data as { content?: string }).content ?? ""}`.trim()
const contents = (events: readonly ReceivedEvent[]) =>
  heard(events).map(event => (event.name === "MESSAGE_CREATE" ? event.data.content : event.name))
/** Without where the session stands. */
const heard = (events: readonly ReceivedEvent[]) => events.filter(({ name }) => name !== "SESSION_POSITION")
const resumes = (workers: readonly Worker[], outcome: string) =>
  counted(workers, "starling_gateway_resumes_total", outcome)

async function counted(workers: readonly Worker[], name: string, label?: string): Promise<number> {
  let sum = 0
  for (const { metrics } of workers) {
    const metric = (await metrics.registry.getSingleMetric(name)!.get()) as unknown as {
      values: { value: number; labels: Record<string, unknown> }[]
    }
    for (const { value, labels } of metric.values)
      if (label === undefined || Object.values(labels).includes(label)) sum += value
  }
  return sum
}

/** A socket that resumes a session from a position of the test's own choice. */
async function resumeAt(place: Endpoint, token: string, session_id: string, seq: number) {
  const socket = new NodeWebSocket(`${place.url.replace("http", "ws")}/gateway`)
  const frames: ServerFrame[] = []
  const watch = watchFrames()
  let closed: number | undefined
  /* oxlint-disable unicorn/prefer-add-event-listener */
  socket.onmessage = ({ data }) => {
    const frame = JSON.parse(data as string) as ServerFrame
    watch.received(frame)
    frames.push(frame)
  }
  socket.onclose = ({ code, reason }) => {
    watch.closed(code, reason)
    closed = code
  }
  socket.onopen = () => {
    const frame = { op: 6, d: { token, session_id, seq } }
    watch.sent(frame)
    socket.send(JSON.stringify(frame))
  }
  /* oxlint-enable unicorn/prefer-add-event-listener */
  await until("an answer to RESUME", () => frames.some(({ op }) => op === 9 || op === 0) || closed !== undefined)
  return {
    get events(): ServerFrame[] {
      return frames.filter(({ op, t }) => op === 0 && t !== "RESUMED" && t !== "SESSION_POSITION")
    },
    get isRefused() {
      return frames.some(({ op }) => op === opcodes.INVALID_SESSION.op)
    },
    get lastS() {
      return frames.findLast(({ s }) => s !== undefined)!.s!
    },
    get resumedAt() {
      return frames.find(({ t }) => t === "RESUMED")?.s
    },
    get closed() {
      return closed
    },
    beat: () => socket.send('{"op":1}'),
    acks: () => frames.filter(({ op }) => op === 11).length,
    drop: () => socket.terminate(),
  }
}
type Resumed = Awaited<ReturnType<typeof resumeAt>>

const said = (socket: Resumed) => socket.events.map(({ d }) => (d as { content?: string }).content)

/** Waits until a socket has everything that its worker had for it. */
async function caughtUp(cluster: Cluster, socket: Resumed): Promise<void> {
  await cluster.settle()
  const before = socket.acks()
  socket.beat()
  await until("the heartbeat is answered", () => socket.acks() > before || socket.closed !== undefined)
}

async function seeded(cluster: Cluster, workers: number, options: Parameters<Cluster["boot"]>[1] = {}) {
  const booted = await cluster.boot(workers, options)
  const seed = await cluster.seed(sharedServer)
  const { ada, channel } = seed
  let posts = 0
  /** Posts through a worker, or through each in turn. */
  const post = async (content: string, at: Endpoint = cluster.workers[posts++ % cluster.workers.length]!) =>
    ada.on(at).createMessage({ channel_id: channel.id, content, nonce: content })
  return { ...seed, workers: booted, post }
}

const ways = [
  ["the same worker", (east: Worker) => east, async () => {}],
  ["another worker that lives beside it", (_: Worker, west: Worker) => west, async () => {}],
  ["another worker after its own was stopped", (_: Worker, west: Worker) => west, (east: Worker) => east.stop()],
  ["another worker after its own was drained", (_: Worker, west: Worker) => west, (east: Worker) => east.drain()],
] as const

describe.each(ways)("P5: a session resumes on %s", (_, choose, end) => {
  test("with everything it missed, once and in order, then what follows", async ({ cluster }) => {
    const {
      workers: [east, west],
      post,
      lin,
      ada,
      channel,
    } = await seeded(cluster, 2)
    const inbox = await lin.listen(east!)
    const first = await post("seen", east)
    await cluster.settle()
    expect(contents(inbox.rest())).toEqual(["seen"])
    const { sessionId, seq } = inbox

    inbox.drop()
    await post("missed 1", west)
    await post("missed 2", east)
    await ada.on(west!).editMessage({ channel_id: channel.id, message_id: first.id, content: "edited" })
    await end(east!)
    const second = await post("missed 3", west)
    await ada.on(west!).deleteMessage({ channel_id: channel.id, message_id: second.id })

    const place = choose(east!, west!)
    let resumedAt = 0
    inbox.on("resumed", ({ seq: at }) => (resumedAt = at))
    await inbox.reconnect(place.url)
    await post("after", west)
    await cluster.settle()
    expect(inbox.sessionId).toBe(sessionId)
    expect(resumedAt).toBe(seq)
    expect(heard(inbox.rest()).map(brief)).toEqual([
      expect.stringMatching(/missed 1$/) as string,
      expect.stringMatching(/missed 2$/) as string,
      `MESSAGE_UPDATE ${first.id} edited`,
      `MESSAGE_CREATE ${second.id} missed 3`,
      `MESSAGE_DELETE ${second.id}`,
      expect.stringMatching(/after$/) as string,
    ])
    expect(await counted(cluster.workers, "starling_gateway_resumes_total", "invalid")).toBe(0)
  })

  test("with what came and went of its servers meanwhile", async ({ cluster }) => {
    const {
      workers: [east, west],
      post,
      lin,
      ada,
      server,
    } = await seeded(cluster, 2)
    const gone = await ada.on(west!).createServer({ name: "To be deleted" })
    const added = await ada.on(east!).createServer({ name: "To be joined" })
    const channelOf = async (id: string) => (await ada.on(west!).listChannels({ server_id: id }))[0]!
    const invite = async (id: string) =>
      (await ada.on(west!).createInvite({ channel_id: (await channelOf(id)).id })).code
    await lin.on(west!).joinByInvite({ invite_code: await invite(gone.id) })
    const inbox = await lin.listen(east!)
    inbox.drop()

    const inAdded = await channelOf(added.id)
    await ada.on(west!).createMessage({ channel_id: inAdded.id, content: "before the join" })
    await lin.on(west!).joinByInvite({ invite_code: await invite(added.id) })
    await ada.on(west!).createMessage({ channel_id: inAdded.id, content: "after the join" })
    await post("before leaving", west)
    await lin.on(west!).leaveServer({ server_id: server.id })
    await post("after leaving", west)
    await end(east!)
    await ada.on(west!).deleteServer({ server_id: gone.id })
    await ada.on(west!).createMessage({ channel_id: inAdded.id, content: "still there" })

    await inbox.reconnect(choose(east!, west!).url)
    await ada.on(west!).createMessage({ channel_id: inAdded.id, content: "live" })
    await post("unheard", west)
    await ada.on(west!).createChannel({ server_id: server.id, name: "unseen" })
    await cluster.settle()
    const events = inbox.rest()
    const of = (id: string) => events.filter(({ data }) => (data as { server_id?: string }).server_id === id)
    expect(contents(of(added.id))).toEqual(["GUILD_CREATE", "after the join", "still there", "live"])
    // What was said while they were a member they may have; after GUILD_DELETE nothing.
    const left = contents(of(server.id))
    expect(left.at(-1)).toBe("GUILD_DELETE")
    expect(["before leaving", undefined]).toContain(left.at(-2))
    expect(left).not.toContain("after leaving")
    expect(contents(of(gone.id))).toEqual(["GUILD_DELETE"])
  })
})

test("P5: the encoding is that of the new connection", async ({ cluster }) => {
  const {
    workers: [east, west],
    post,
    lin,
  } = await seeded(cluster, 2)
  for (const place of [east!, west!]) {
    const inbox = await lin.listen(east!, { encoding: "msgpack" })
    const { sessionId, seq } = inbox
    inbox.drop()
    await post(`to ${place.slot}`)
    const socket = await resumeAt(place, lin.token, sessionId!, seq!)
    await caughtUp(cluster, socket)
    expect(said(socket)).toEqual([`to ${place.slot}`])
    socket.drop()
  }
})

test("RES1, P5: there and back with an old position: the first worker's own log is read again", async ({ cluster }) => {
  const {
    workers: [east, west],
    post,
    lin,
  } = await seeded(cluster, 2)
  const inbox = await lin.listen(east!)
  const { sessionId, seq } = inbox
  inbox.drop()
  await post("missed")
  for (const [i, place] of [west!, east!, west!, east!].entries()) {
    const socket = await resumeAt(place, lin.token, sessionId!, seq!)
    await caughtUp(cluster, socket)
    expect({ i, refused: socket.isRefused, said: said(socket) }).toEqual({ i, refused: false, said: ["missed"] })
    socket.drop()
  }
})

test("RES1, P5, P6: a worker that did not hear that its session was claimed does not go on with it", async ({
  cluster,
}) => {
  const {
    workers: [east, west, north],
    post,
    ada,
    lin,
  } = await seeded(cluster, 3)
  // What is reserved for a dead worker's log takes the positions of the next one ahead of those of others.
  const ahead = await ada.listen(north!)
  await north!.stop()
  await ahead.reconnect(west!.url)
  const inbox = await lin.listen(east!)
  const { sessionId } = inbox
  east!.node.bus.handle("claimSession", () => Promise.reject(unavailable("silent")))
  await inbox.reconnect(west!.url)
  await post("seen", west)
  await inbox.next("MESSAGE_CREATE")
  const seq = inbox.seq!
  inbox.drop()
  await post("missed", west)
  await cluster.settle()

  const socket = await resumeAt(east!, lin.token, sessionId!, seq)
  await post("after", west)
  await caughtUp(cluster, socket)
  expect({ refused: socket.isRefused, said: said(socket) }).toEqual({ refused: false, said: ["missed", "after"] })
  expect(await resumes([east!], "other_worker_alive")).toBe(1)
  expect(await counted([east!], "starling_gateway_sessions")).toBe(1)
  socket.drop()
})

test("P5: a quiet session may move as often as it likes", async ({ cluster }) => {
  const { workers, post, lin } = await seeded(cluster, 3)
  const inbox = await lin.listen(workers[1]!)
  const { sessionId } = inbox
  for (let i = 0; i < 9; i++) await inbox.reconnect(workers[(i * 2) % 3]!.url)
  inbox.drop()
  await post("missed")
  await inbox.reconnect(workers[0]!.url)
  await cluster.settle()
  expect(inbox.sessionId).toBe(sessionId)
  expect(contents(inbox.rest())).toEqual(["missed"])
})

test("P6: a session without events for long goes on, on any worker: its heartbeats move its position; without them it is told", async ({
  cluster,
}) => {
  const {
    workers: [east, west],
    ada,
    lin,
  } = await seeded(cluster, 2, {
    topology: { log: { keepMs: 1_500, markEveryMs: 20 }, gateway: { positionAfterMs: 100 } },
  })
  const silent = await lin.listen(east!)
  const witness = await ada.listen(east!)
  const quiet = await lin.listen(east!)
  const [sessions, seqs] = [
    [silent.sessionId!, quiet.sessionId!],
    [silent.seq!, quiet.seq!],
  ]
  const apart = await ada.on(east!).createServer({ name: "Without Lin" })
  const [channel] = await ada.on(east!).listChannels({ server_id: apart.id })
  // More than Redis cuts off at once, and longer ago than a log is kept.
  for (let round = 0; round < 2; round++) {
    await Promise.all(
      Array.from({ length: 300 }, (_, i) =>
        ada.on(i % 2 === 0 ? east! : west!).createMessage({ channel_id: channel!.id, content: `${round} ${i}` }),
      ),
    )
    await cluster.settle()
    await until("the log begins later", async () => {
      await ada.on(east!).createMessage({ channel_id: channel!.id, content: "more" })
      return (await west!.node.logs.firstPosition(east!.id))! > seqs[0]!
    })
    await until("the heartbeat tells the position", async () => {
      await quiet.heartbeatNow()
      return quiet.seq! > seqs[1]!
    })
  }
  expect(witness.rest().length).toBeGreaterThan(600)
  const at = quiet.seq!
  quiet.drop()
  silent.drop()
  // At once: the log goes on being cut off.
  const socket = await resumeAt(west!, lin.token, sessions[1]!, at)
  await caughtUp(cluster, socket)
  expect({ refused: socket.isRefused, resumedAt: socket.resumedAt }).toEqual({ refused: false, resumedAt: at })
  expect(said(socket)).toEqual([])
  socket.drop()
  for (const place of [west!, east!]) {
    const lost = await resumeAt(place, lin.token, sessions[0]!, seqs[0]!)
    expect({ place: place.slot, refused: lost.isRefused }).toEqual({ place: place.slot, refused: true })
    lost.drop()
  }
})

test("positions stay near the clock however often sessions move between two workers", async ({ cluster }) => {
  const { workers, post, lin } = await seeded(cluster, 2)
  const inbox = await lin.listen(workers[0]!)
  const { sessionId } = inbox
  for (let i = 1; i <= 40; i++) {
    await inbox.reconnect(workers[i % 2]!.url)
    await post(`m${i}`)
    expect((await inbox.next("MESSAGE_CREATE")).content).toBe(`m${i}`)
    // Positions are milliseconds times 4,096: an hour ahead is more than forty moves may cost.
    expect(inbox.seq! / 4096 - (Date.now() - epochMs), `after ${i} moves`).toBeLessThan(3_600_000)
  }
  expect(inbox.sessionId).toBe(sessionId)
})

test("P5: what lies only in the log between is read too", { timeout: 60_000 }, async ({ cluster }) => {
  // The first worker's log takes the server's events no longer once its sessions have been gone for
  // the resume window.
  const {
    workers: [a, b, c],
    post,
    lin,
    server,
  } = await seeded(cluster, 3, { topology: { gateway: { resumeWindowMs: 1_000 } } })
  const inbox = await lin.listen(a!)
  const { sessionId, seq } = inbox
  await inbox.reconnect(b!.url)
  await until("the first worker has let go", async () => !(await c!.node.router.workersOf(server.id)).includes(a!.id), {
    timeoutMs: 30_000,
    everyMs: 100,
  })
  await post("late")
  await inbox.next("MESSAGE_CREATE")
  inbox.drop()
  const socket = await resumeAt(c!, lin.token, sessionId!, seq!)
  await caughtUp(cluster, socket)
  // With everything, or not at all.
  if (!socket.isRefused) expect(said(socket)).toEqual(["late"])
  socket.drop()
})

test("P5: an old position of the session is as good as its last, however often it has moved", async ({ cluster }) => {
  const {
    workers: [a, b, c],
    post,
    lin,
  } = await seeded(cluster, 3)
  const inbox = await lin.listen(a!)
  const session = inbox.sessionId!
  /** What the client had seen when it stood at a position. */
  const stations: { seq: number; seen: number }[] = [{ seq: inbox.seq!, seen: 0 }]
  let posted = 0
  for (const place of [a!, b!, c!, a!, c!, b!]) {
    await inbox.reconnect(place.url)
    for (let i = 0; i < 3; i++) {
      const content = `m${posted++}`
      await post(content)
      await inbox.next("MESSAGE_CREATE", { where: message => message.content === content })
      stations.push({ seq: inbox.seq!, seen: posted })
    }
    inbox.drop()
    await post(`m${posted++}`)
  }
  await inbox.reconnect(b!.url)
  await cluster.settle()
  inbox.drop()

  const all = Array.from({ length: posted }, (_, i) => `m${i}`)
  for (const place of [b!, a!, c!])
    for (const { seq, seen } of stations) {
      const socket = await resumeAt(place, lin.token, session, seq)
      await caughtUp(cluster, socket)
      expect({ seq, refused: socket.isRefused }).toEqual({ seq, refused: false })
      expect(socket.resumedAt).toBe(seq)
      const events = socket.events
      expect(said(socket)).toEqual(all.slice(seen))
      expect(events.every(({ s }, i) => s! > (i === 0 ? seq : events[i - 1]!.s!))).toBe(true)
      socket.drop()
    }
})

test("P5: worker after worker ends, and the session is replayed from all their logs", async ({ cluster }) => {
  const {
    workers: [a, b, c, d],
    post,
    lin,
  } = await seeded(cluster, 4)
  const inbox = await lin.listen(a!)
  const { sessionId, seq } = inbox
  await post("on a")
  await cluster.settle()
  await a!.stop()
  await post("between a and b", d)
  await inbox.reconnect(b!.url)
  await post("on b", d)
  await cluster.settle()
  await b!.stop()
  await post("between b and c", d)
  await inbox.reconnect(c!.url)
  await post("on c", d)
  await cluster.settle()
  const all = ["on a", "between a and b", "on b", "between b and c", "on c"]
  expect(contents(inbox.rest())).toEqual(all)
  expect(inbox.sessionId).toBe(sessionId)

  await c!.stop()
  await post("between c and d", d)
  const socket = await resumeAt(d!, lin.token, sessionId!, seq!)
  await post("on d", d)
  await caughtUp(cluster, socket)
  expect(said(socket)).toEqual([...all, "between c and d", "on d"])
  expect(await resumes([d!], "dead_worker")).toBe(1)
  socket.drop()
})

test("P5, P6: of a dead worker's log above the bound sessions get the little that they missed; one that missed more is refused alone", async ({
  cluster,
}) => {
  const topology = { gateway: { resumeReplayBytes: 30_000 } }
  const {
    workers: [east, west, north],
    ada,
    lin,
    channel,
    post,
  } = await seeded(cluster, 3, { topology })
  const far = await ada.listen(east!)
  const before = far.seq!
  const inbox = await lin.listen(east!)
  const large = (i: number) => ({ channel_id: channel.id, content: `${i} ${"x".repeat(3_000)}` })
  for (let i = 0; i < 12; i++) await ada.on(west!).createMessage(large(i))
  await cluster.settle()
  const { seq } = inbox
  await post("missed", west)
  await cluster.settle()
  const { sessionId } = inbox
  await east!.stop()
  for (let round = 0; round < 2; round++) {
    const socket = await resumeAt(west!, lin.token, sessionId!, seq!)
    await caughtUp(cluster, socket)
    expect({ refused: socket.isRefused, said: said(socket) }).toEqual({ refused: false, said: ["missed"] })
    socket.drop()
    if (round > 0) continue
    const refused = await resumeAt(west!, ada.token, far.sessionId!, before)
    expect(refused.isRefused).toBe(true)
    refused.drop()
  }
  // Elsewhere, too, it goes on from where its client stopped in that log.
  const socket = await resumeAt(north!, lin.token, sessionId!, seq!)
  await caughtUp(cluster, socket)
  expect(said(socket)).toEqual(["missed"])
  socket.drop()
  expect(await resumes([west!, north!], "invalid")).toBe(1)
})

test("a bot that was given another token while its worker was away is closed as it would have been there, and no worker ends of it", async ({
  cluster,
}) => {
  const {
    workers: [east, west],
    ada,
    server,
    post,
  } = await seeded(cluster, 2)
  const owner = ada.on(west!)
  const bot = await owner.createBot({ username: "moved" })
  await owner.addBot({ server_id: server.id, bot_id: bot.id })
  const listener = new Listener(east!, { token: bot.token })
  await listener.connect()
  const { sessionId, seq } = listener
  // As if it were paused and then declared dead: its log is written on, and nobody speaks for it.
  await east!.stop()
  const { token } = await owner.resetBotToken({ bot_id: bot.id })
  // So many that they are not all sent while it is let in.
  for (let i = 0; i < 24; i++) await post(`missed ${i}`, west)
  const socket = await resumeAt(west!, token, sessionId!, seq!)
  await until("it is closed", () => socket.closed !== undefined)
  expect(socket.closed).toBe(4004)
  await post("goes on", west)
  const again = new Listener(west!, { token })
  await again.connect()
  again.close()
})

describe("two who resume one session at once: one goes on with everything, the other is closed or refused", () => {
  test.for<[what: string, first: number, second: number]>([
    ["on two workers where it did not live", 1, 2],
    ["on one worker where it did not live", 1, 1],
    ["where it lived and elsewhere", 0, 1],
    ["elsewhere and where it lived", 1, 0],
    ["where it lived", 0, 0],
  ])("%s", async ([, first, second], { cluster }) => {
    const { workers, post, lin } = await seeded(cluster, 3)
    for (let round = 0; round < 4; round++) {
      const inbox = await lin.listen(workers[0]!)
      const { sessionId, seq } = inbox
      inbox.drop()
      await post(`missed ${round}`)
      const sockets = await Promise.all([first, second].map(i => resumeAt(workers[i]!, lin.token, sessionId!, seq!)))
      await post(`after ${round}`)
      for (const socket of sockets) await caughtUp(cluster, socket)
      const going = sockets.filter(socket => socket.closed === undefined && !socket.isRefused)
      expect({ round, going: going.length }).toEqual({ round, going: 1 })
      expect(said(going[0]!)).toEqual([`missed ${round}`, `after ${round}`])
      // The winner can go on from there.
      going[0]!.drop()
      await post(`later ${round}`)
      const again = await resumeAt(workers[2]!, lin.token, sessionId!, going[0]!.events.at(-1)!.s!)
      await caughtUp(cluster, again)
      expect({ refused: again.isRefused, said: said(again) }).toEqual({ refused: false, said: [`later ${round}`] })
      again.drop()
    }
  })
})

test("a resume takes the session from a socket that is still open: that one is closed with 1000 and is sent no more", async ({
  cluster,
}) => {
  const {
    workers: [east, west],
    post,
    lin,
  } = await seeded(cluster, 2)
  for (const place of [east!, west!]) {
    const inbox = await lin.listen(east!)
    const closed = new Promise(resolve => inbox.on("close", resolve))
    const socket = await resumeAt(place, lin.token, inbox.sessionId!, inbox.seq!)
    expect(await closed).toMatchObject({ code: 1000, reason: "Resumed elsewhere" })
    await post(`to ${place.slot}`)
    await caughtUp(cluster, socket)
    expect(inbox.rest()).toEqual([])
    expect(socket.events).toHaveLength(1)
    socket.drop()
  }
})

test("P13: a user who left and joined twice while they were away is told nothing of the time between", async ({
  cluster,
}) => {
  const {
    workers: [east, west],
    post,
    ada,
    lin,
    channel,
    server,
  } = await seeded(cluster, 2)
  const { code } = await ada.on(east!).createInvite({ channel_id: channel.id })
  const inbox = await lin.listen(east!)
  const { sessionId, seq } = inbox
  inbox.drop()
  for (const content of ["out of it", "out of it again"]) {
    await lin.on(west!).leaveServer({ server_id: server.id })
    await post(content)
    await lin.on(east!).joinByInvite({ invite_code: code })
  }
  await post("back")
  const socket = await resumeAt(west!, lin.token, sessionId!, seq!)
  await caughtUp(cluster, socket)
  expect(socket.events.map(({ t, d }) => [t, (d as { content?: string }).content])).toEqual([
    ["GUILD_DELETE", undefined],
    ["GUILD_CREATE", undefined],
    ["MESSAGE_CREATE", "back"],
  ])
  socket.drop()
})

describe("P5, P13: a user who left and joined again after a resume that told them of it is told of that as well", () => {
  const again = ["GUILD_DELETE", "GUILD_CREATE"]
  test.for<
    [
      where: string,
      resumedAt: "its position here" | "GUILD_CREATE" | "GUILD_DELETE",
      leavesAgain: boolean,
      told: string[],
    ]
  >([
    ["at its new worker's log", "its position here", true, again],
    ["right after it was told", "GUILD_CREATE", true, again],
    ["right after it was told, and nobody left again", "GUILD_CREATE", false, []],
    ["when it was told only a part of it", "GUILD_DELETE", false, again],
  ])("its client stopped %s", async ([, stopped, leavesAgain, told], { cluster }) => {
    const {
      workers: [east, west, north],
      post,
      ada,
      lin,
      channel,
      server,
    } = await seeded(cluster, 3)
    const { code } = await ada.on(east!).createInvite({ channel_id: channel.id })
    const leaveAndJoin = async () => {
      await lin.on(west!).leaveServer({ server_id: server.id })
      await post("out of it")
      await lin.on(east!).joinByInvite({ invite_code: code })
    }
    const inbox = await lin.listen(east!)
    const { sessionId, seq } = inbox
    inbox.drop()
    await leaveAndJoin()
    const first = await resumeAt(west!, lin.token, sessionId!, seq!)
    await caughtUp(cluster, first)
    expect(first.events.map(({ t }) => t)).toEqual(again)
    const at = stopped === "its position here" ? first.lastS : first.events.find(({ t }) => t === stopped)!.s!
    first.drop()
    if (leavesAgain) await leaveAndJoin()
    await post("back")
    const second = await resumeAt(north!, lin.token, sessionId!, at)
    await caughtUp(cluster, second)
    expect(second.isRefused).toBe(false)
    expect(second.events.map(({ t }) => t)).toEqual([...told, "MESSAGE_CREATE"])
    expect(said(second).at(-1)).toBe("back")
    second.drop()
  })
})

describe("P6: what cannot be resumed is said, with op 9 false", () => {
  test("a position before the log's beginning, and one that was never given", async ({ cluster }) => {
    const { workers, lin, post } = await seeded(cluster, 2)
    const inbox = await lin.listen(workers[0]!)
    const { sessionId, seq } = inbox
    inbox.drop()
    await post("one")
    for (const place of workers)
      for (const wrong of [0, 1, seq! - 10_000_000_000, seq! + 10 ** 13, Number.MAX_SAFE_INTEGER]) {
        const socket = await resumeAt(place, lin.token, sessionId!, wrong)
        expect({ wrong, place: place.slot, refused: socket.isRefused }).toEqual({
          wrong,
          place: place.slot,
          refused: true,
        })
        socket.drop()
      }
    // Wrong positions have cost the session nothing.
    const socket = await resumeAt(workers[0]!, lin.token, sessionId!, seq!)
    await caughtUp(cluster, socket)
    expect(socket.events).toHaveLength(1)
    socket.drop()
  })

  test("a session whose window is over, on its own worker and elsewhere", async ({ cluster }) => {
    const { workers, lin } = await seeded(cluster, 2, { topology: { gateway: { resumeWindowMs: 300 } } })
    for (const place of workers) {
      const inbox = await lin.listen(workers[0]!)
      const { sessionId, seq } = inbox
      inbox.drop()
      await until("the session is over", async () => (await counted(workers, "starling_gateway_sessions")) === 0)
      const socket = await resumeAt(place, lin.token, sessionId!, seq!)
      expect(socket.isRefused).toBe(true)
      socket.drop()
    }
  })

  test("a dead worker's session after its log has gone", async ({ cluster }) => {
    const {
      workers: [east, west],
      lin,
    } = await seeded(cluster, 2, { topology: { gateway: { resumeWindowMs: 300 } } })
    const inbox = await lin.listen(east!)
    const { sessionId, seq } = inbox
    await east!.stop()
    await until("its log has gone", async () => !(await west!.node.logs.exists(east!.id)))
    const socket = await resumeAt(west!, lin.token, sessionId!, seq!)
    expect(socket.isRefused).toBe(true)
    expect(await resumes([west!], "invalid")).toBe(1)
    socket.drop()
  })

  test("the client then identifies anew by itself", async ({ cluster }) => {
    const {
      workers: [east, west],
      lin,
      post,
    } = await seeded(cluster, 2, { topology: { gateway: { resumeWindowMs: 300 } } })
    const inbox = await lin.listen(east!, { backoff: { firstMs: 1 } })
    const before = inbox.sessionId
    inbox.drop()
    await until("the session is over", async () => (await counted([east!], "starling_gateway_sessions")) === 0)
    await inbox.reconnect(west!.url)
    expect(inbox.sessionId).not.toBe(before)
    await post("fresh")
    expect((await inbox.next("MESSAGE_CREATE")).content).toBe("fresh")
  })
})

/** One step of a random life: what happens, and through which worker. */
type Step = { readonly at: number } & (
  | { readonly do: "post" | "edit" | "delete"; readonly server: number }
  | { readonly do: "drop" | "resume" | "hop" | "settle" }
  | { readonly do: "leave" | "join"; readonly server: number }
)

/**
 * Plays a life: Ada acts in two servers, Lin listens and moves. A witness that never moves says
 * what there was.
 * @returns what each of Lin's servers should have told them, and what it did
 */
async function live(cluster: Cluster, workers: readonly Worker[], steps: readonly Step[], ada: Person, lin: Person) {
  const place = (at: number) => workers[at % workers.length]!
  const servers = await Promise.all(
    [0, 1].map(async i => {
      const server = await ada.on(place(i)).createServer({ name: `life ${i}` })
      const [channel] = await ada.on(place(i)).listChannels({ server_id: server.id })
      const { code } = await ada.on(place(i)).createInvite({ channel_id: channel!.id })
      await lin.on(place(i)).joinByInvite({ invite_code: code })
      return { id: server.id, channel_id: channel!.id, code, messages: [] as string[], isIn: true }
    }),
  )
  const witness = await ada.listen(workers[0]!)
  const inbox = await lin.listen(place(1))
  const ready = inbox.sessionId
  const heard: ReceivedEvent[] = []
  inbox.on("dispatch", event => {
    if (event.name !== "RESUMED" && event.name !== "READY") heard.push(event)
  })
  /** Per server: the events that Lin was a member for. */
  const expected = servers.map(() => [] as string[])
  for (const [i, step] of steps.entries()) {
    const rest = ada.on(place(step.at))
    if ("server" in step) {
      const server = servers[step.server]!
      const { channel_id, messages } = server
      const list = expected[step.server]!
      if (step.do === "post") {
        const { id, content } = await rest.createMessage({ channel_id, content: `m${i}`, nonce: `${i}` })
        messages.push(id)
        if (server.isIn) list.push(`MESSAGE_CREATE ${id} ${content}`)
      } else if (step.do === "edit" && messages.length > 0) {
        const id = messages[step.at % messages.length]!
        await rest.editMessage({ channel_id, message_id: id, content: `e${i}` })
        if (server.isIn) list.push(`MESSAGE_UPDATE ${id} e${i}`)
      } else if (step.do === "delete" && messages.length > 0) {
        const [id] = messages.splice(step.at % messages.length, 1)
        await rest.deleteMessage({ channel_id, message_id: id! })
        if (server.isIn) list.push(`MESSAGE_DELETE ${id}`)
      } else if (step.do === "leave" && server.isIn) {
        await lin.on(place(step.at)).leaveServer({ server_id: server.id })
        server.isIn = false
        list.push(`GUILD_DELETE ${server.id}`)
      } else if (step.do === "join" && !server.isIn) {
        await lin.on(place(step.at)).joinByInvite({ invite_code: server.code })
        server.isIn = true
        list.push(`GUILD_CREATE ${server.id}`)
      }
    } else if (step.do === "drop") inbox.drop()
    else if (step.do === "resume" && inbox.state !== "live") await inbox.reconnect(place(step.at).url)
    else if (step.do === "hop") await inbox.reconnect(place(step.at).url)
    else if (step.do === "settle") await cluster.settle()
  }
  if (inbox.state !== "live") await inbox.reconnect(place(0).url)
  await cluster.settle()
  const got = servers.map(({ id }) =>
    heard.filter(({ data }) => (data as { server_id?: string }).server_id === id).map(brief),
  )
  const isSame = inbox.sessionId === ready
  const rises = heard.every(({ s }, i) => i === 0 || s > heard[i - 1]!.s)
  inbox.close()
  witness.close()
  for (const { id } of servers) await ada.on(workers[0]!).deleteServer({ server_id: id })
  return { expected, got, isSame, rises }
}

const at = fc.nat({ max: 2 })
const server = fc.nat({ max: 1 })
const happening = (moves: boolean): fc.Arbitrary<Step> =>
  fc.oneof(
    { weight: 6, arbitrary: fc.record({ do: fc.constant("post" as const), at, server }) },
    {
      weight: 2,
      arbitrary: fc.record({ do: fc.constantFrom("edit" as const, "delete" as const), at: fc.nat({ max: 5 }), server }),
    },
    { weight: 2, arbitrary: fc.record({ do: fc.constant("drop" as const), at }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant("resume" as const), at }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant("hop" as const), at }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant("settle" as const), at }) },
    ...(moves
      ? [{ weight: 3, arbitrary: fc.record({ do: fc.constantFrom("leave" as const, "join" as const), at, server }) }]
      : []),
  )

test(
  "P5: whatever a session goes through, live and replayed together are the history, once and in order",
  { timeout: 90_000 },
  async ({ cluster }) => {
    const workers = await cluster.boot(3)
    const [ada, lin] = await Promise.all([cluster.person("ada"), cluster.person("lin")])
    await fc.assert(
      fc.asyncProperty(fc.array(happening(false), { minLength: 10, maxLength: 40 }), async steps => {
        const { expected, got, isSame, rises } = await live(cluster, workers, steps, ada, lin)
        expect(got).toEqual(expected)
        expect({ isSame, rises }).toEqual({ isSame: true, rises: true })
      }),
      { interruptAfterTimeLimit: 15_000, numRuns: runs(15) },
    )
    expect(await resumes(workers, "same_worker")).toBeGreaterThan(0)
    expect(await resumes(workers, "other_worker_alive")).toBeGreaterThan(0)
    expect(await resumes(workers, "invalid")).toBe(0)
  },
)

test(
  "P5, P13: the same while the user leaves and joins: nothing of a server that they are not in",
  { timeout: 90_000 },
  async ({ cluster }) => {
    const workers = await cluster.boot(3)
    const [ada, lin] = await Promise.all([cluster.person("ada"), cluster.person("lin")])
    await fc.assert(
      fc.asyncProperty(fc.array(happening(true), { minLength: 10, maxLength: 40 }), async steps => {
        const { expected, got, isSame } = await live(cluster, workers, steps, ada, lin)
        expect(isSame).toBe(true)
        for (const [i, events] of got.entries()) {
          // Where they missed a whole membership, its events may be left out with it; whatever they
          // are told was meant for them, and in order.
          let from = 0
          for (const event of events) {
            const found = expected[i]!.indexOf(event, from)
            expect(
              found,
              `${event} in ${JSON.stringify(events)} of ${JSON.stringify(expected[i])}`,
            ).toBeGreaterThanOrEqual(0)
            from = found + 1
          }
          // What belongs to the present stay is whole.
          const lastMove = (list: readonly string[]) => list.findLastIndex(event => event.startsWith("GUILD_"))
          const stay = expected[i]!.slice(lastMove(expected[i]!) + 1)
          expect(events.slice(lastMove(events) + 1)).toEqual(stay)
        }
      }),
      { interruptAfterTimeLimit: 5_000, numRuns: runs(12) },
    )
  },
)
