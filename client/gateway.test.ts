import { decode, encode } from "@msgpack/msgpack"
import { App, us_listen_socket_close, us_socket_local_port } from "uWebSockets.js"
import type { WebSocket } from "uWebSockets.js"
import { afterEach, expect, expectTypeOf, test, vi } from "vitest"
import type { Message } from "../src/contract/messages/messages.ts"
import { GatewayClient } from "./gateway.ts"
import { NodeWebSocket } from "../bench/load/node-websocket.ts"
import type { GatewayOptions } from "./gateway.ts"

const closers: (() => void)[] = []
afterEach(() => {
  for (const close of closers.splice(0)) close()
})

interface Data {
  packed: boolean
}
interface Frame {
  op: number
  d: Record<string, unknown> | null
}
interface Peer {
  send(frame: object): void
  end(code: number, reason?: string): void
  drop(): void
}
interface Script {
  heartbeatIntervalMs?: number
  /** What READY names. */
  resumeUrl?: string
  /** What it does with a frame; answers true where that replaces the ordinary answer. */
  on?: (frame: Frame, peer: Peer) => boolean | undefined
}

const user = { id: "9", username: "ada", discriminator: "0", avatar: null, avatar_url: null, badges: [], bot: false }

/**
 * A gateway of the size of a test: HELLO, READY, RESUMED, heartbeat answers, and whatever the
 * script adds.
 */
async function fakeGateway(script: Script = {}) {
  const frames: Frame[] = []
  const peers: Peer[] = []
  const closes: number[] = []
  const ended = new WeakSet<WebSocket<Data>>()
  const sockets = new Map<WebSocket<Data>, Peer>()
  const app = App().ws<Data>("/gateway", {
    upgrade: (res, req, context) => {
      const packed = req.getQuery("encoding") === "msgpack"
      const [key, protocol, extensions] = ["key", "protocol", "extensions"].map(name =>
        req.getHeader(`sec-websocket-${name}`),
      )
      res.upgrade({ packed }, key!, protocol!, extensions!, context)
    },
    open: ws => {
      const { packed } = ws.getUserData()
      const peer: Peer = {
        send: frame => ws.send(packed ? encode(frame) : JSON.stringify(frame), packed),
        end: (code, reason) => ws.end(code, reason),
        drop: () => ws.close(),
      }
      sockets.set(ws, peer)
      peers.push(peer)
      peer.send({ op: 10, d: { heartbeat_interval: script.heartbeatIntervalMs ?? 45_000 } })
    },
    message: (ws, bytes, isBinary) => {
      const peer = sockets.get(ws)!
      const frame = (isBinary ? decode(bytes) : JSON.parse(Buffer.from(bytes).toString())) as Frame
      frames.push(frame)
      if (script.on?.(frame, peer) || ended.has(ws)) return
      if (frame.op === 1) peer.send({ op: 11 })
      const { resumeUrl: resume_gateway_url } = script
      const ready = { v: 10, user, guilds: [], session_id: "s1", ...(resume_gateway_url && { resume_gateway_url }) }
      if (frame.op === 2) peer.send({ op: 0, t: "READY", s: 100, d: ready })
      if (frame.op === 6) peer.send({ op: 0, t: "RESUMED", s: frame.d!["seq"], d: {} })
    },
    close: (ws, code) => {
      ended.add(ws)
      closes.push(code)
    },
  })
  const url = await new Promise<string>(resolve => {
    app.listen("127.0.0.1", 0, token => {
      if (!token) throw new Error("cannot listen")
      closers.push(() => {
        us_listen_socket_close(token)
        app.close()
      })
      resolve(`http://127.0.0.1:${us_socket_local_port(token)}`)
    })
  })
  return { url, frames, peers, closes, last: () => peers.at(-1)! }
}

function gatewayClient(url: string, options: Partial<GatewayOptions> = {}) {
  const own = { token: "t.s", backoff: { firstMs: 4, maxMs: 20 }, WebSocket: NodeWebSocket }
  const client = new GatewayClient({ url, ...own, ...options })
  closers.unshift(() => client.close())
  return client
}

const message = (s: number, content: string) => ({ op: 0, t: "MESSAGE_CREATE", s, d: { id: String(s), content } })
const until = async (holds: () => boolean) => {
  while (!holds()) await new Promise(resolve => setTimeout(resolve, 1))
}
const happens = (client: GatewayClient, name: "ready" | "resumed" | "close" | "error" | "invalid_session") =>
  new Promise<unknown>(resolve => {
    const off = client.on(name, (data: unknown) => {
      off()
      resolve(data)
    })
  })

test.each(["json", "msgpack"] as const)("it identifies after HELLO and hears events, in %s", async encoding => {
  const gateway = await fakeGateway()
  const frames: number[] = []
  const client = gatewayClient(gateway.url, { encoding, intents: 513, onFrame: frame => frames.push(frame.op) })
  const heard: Message[] = []
  client.on("MESSAGE_CREATE", data => {
    expectTypeOf(data).toEqualTypeOf<Message>()
    heard.push(data)
  })
  await client.connect()
  expect(client).toMatchObject({ state: "live", sessionId: "s1", seq: 100, user: { username: "ada" } })
  expect(gateway.frames).toMatchObject([{ op: 2, d: { token: "t.s", intents: 513, properties: {} } }])

  const next = client.next("MESSAGE_CREATE", { where: data => data.content === "grüezi" })
  gateway.last().send(message(2 ** 52, "hello"))
  gateway.last().send(message(2 ** 52 + 2, "grüezi"))
  expect(await next).toMatchObject({ content: "grüezi" })
  expect(heard.map(({ content }) => content)).toEqual(["hello", "grüezi"])
  expect(client.seq).toBe(2 ** 52 + 2)
  expect(frames).toEqual([10, 0, 0, 0])

  client.typing("77")
  expect(await client.heartbeatNow()).toBeGreaterThanOrEqual(0)
  expect(gateway.frames.slice(1)).toEqual([
    { op: 40, d: { channel_id: "77" } },
    { op: 1, d: 2 ** 52 + 2 },
  ])
})

test("left out intents are not sent: the server's default holds", async () => {
  const gateway = await fakeGateway()
  await gatewayClient(gateway.url).connect()
  expect(gateway.frames[0]!.d).not.toHaveProperty("intents")
})

test("a handler for what cannot come is refused: no such event, or not its intent", async () => {
  const gateway = await fakeGateway()
  const client = gatewayClient(gateway.url, { intents: 1 + 512 })
  expect(() => client.on("messageCreate" as "MESSAGE_CREATE", () => {})).toThrow("write MESSAGE_CREATE")
  expect(() => client.on("message" as "MESSAGE_CREATE", () => {})).toThrow("there is no event message;")
  expect(() => client.on("TYPING_START", () => {})).toThrow(
    "add intents.GUILD_MESSAGE_TYPING or intents.DIRECT_MESSAGE_TYPING to intents",
  )
  // Of each of these one intent is enough, or none is needed.
  for (const name of ["MESSAGE_CREATE", "CHANNEL_CREATE", "NOTIFICATION_CREATE"] as const) client.on(name, () => {})
  client.addIntents(2)
  client.on("GUILD_MEMBER_ADD", () => {})
  await client.connect()
  expect(gateway.frames[0]!.d).toMatchObject({ intents: 515 })
  expect(() => client.addIntents(4)).toThrow("before you call connect()")
  expect(() => gatewayClient(gateway.url).on("GUILD_MEMBER_ADD", () => {})).toThrow("intents.GUILD_MEMBERS")

  await gatewayClient(`${gateway.url}/app#/servers/1`).connect()
  expect(() => gatewayClient("localhost:8000")).toThrow("localhost:8000 is no address such as")
  expect(() => gatewayClient(gateway.url, { token: undefined as never })).toThrow("token is missing")
})

test("a handler that fails keeps the event from no other one, and error hears of it", async () => {
  const gateway = await fakeGateway()
  const client = gatewayClient(gateway.url, { token: " t.s\n" })
  const failures: string[] = []
  const heard: string[] = []
  client.on("MESSAGE_CREATE", () => {
    throw new Error("at once")
  })
  client.on("MESSAGE_CREATE", async () => {
    await Promise.resolve()
    throw new Error("later")
  })
  client.on("MESSAGE_CREATE", ({ content }) => heard.push(content!))
  client.on("error", error => failures.push(error.message))
  await client.connect()
  expect(gateway.frames[0]!.d).toMatchObject({ token: "t.s" })
  for (const n of [101, 102]) gateway.last().send(message(n, `m${n}`))
  await until(() => failures.length === 4)
  expect(heard).toEqual(["m101", "m102"])
  expect(failures.toSorted()).toEqual(["at once", "at once", "later", "later"])
  expect(client).toMatchObject({ state: "live", seq: 102 })
})

test("where nobody is, it says so once, unless somebody listens", async () => {
  const warned = vi.spyOn(console, "warn").mockImplementation(() => {})
  closers.push(() => warned.mockRestore())
  const nobody = "ws://127.0.0.1:1"
  const tries = async (listen: (client: GatewayClient) => void) => {
    let dialled = 0
    class Counted extends NodeWebSocket {
      constructor(url: string) {
        super(url)
        dialled++
      }
    }
    const client = gatewayClient(nobody, { WebSocket: Counted })
    listen(client)
    client.connect().catch(() => {})
    await until(() => dialled >= 3)
    client.close()
  }
  await tries(() => {})
  expect(warned.mock.calls).toEqual([
    [expect.stringMatching(/the connection to ws:\/\/127\.0\.0\.1:1\/gateway\S* failed: connect ECONNREFUSED/)],
  ])
  await tries(client => client.on("error", () => {}))
  await tries(client => client.on("close", () => {}))
  expect(warned).toHaveBeenCalledTimes(1)
})

test("kept events wait in order until somebody takes them", async () => {
  const gateway = await fakeGateway()
  const client = gatewayClient(gateway.url, { keep: true })
  await client.connect()
  for (const n of [101, 102, 103, 104]) gateway.last().send(message(n, `m${n}`))
  await client.heartbeatNow()
  expect(await client.next("MESSAGE_CREATE", { where: data => data.content === "m102" })).toMatchObject({ id: "102" })
  expect(await client.next("MESSAGE_CREATE")).toMatchObject({ id: "101" })
  expect(client.take()).toMatchObject({ name: "MESSAGE_CREATE", s: 103 })
  expect(client.rest()).toMatchObject([{ s: 104 }])
  expect(client.rest()).toEqual([])
})

test("next fails after its time, and when the client is closed", async () => {
  const client = gatewayClient((await fakeGateway()).url)
  await client.connect()
  await expect(client.next("TYPING_START", { timeoutMs: 10 })).rejects.toThrow("no TYPING_START in 10 ms")
  const forever = client.next("TYPING_START")
  client.close()
  await expect(forever).rejects.toThrow("gateway closed: 1000")
})

test("CLIENT1: seq never falls, and RESUME names the last one", async () => {
  const gateway = await fakeGateway()
  const client = gatewayClient(gateway.url)
  await client.connect()
  gateway.last().send(message(500, "a"))
  gateway.last().send(message(400, "b"))
  await client.heartbeatNow()
  expect(client.seq).toBe(500)

  const closed = happens(client, "close")
  const resumed = happens(client, "resumed")
  gateway.last().drop()
  expect(await closed).toMatchObject({ code: 1006, willReconnect: true })
  expect(await resumed).toEqual({ seq: 500 })
  expect(gateway.frames.at(-1)).toEqual({ op: 6, d: { token: "t.s", session_id: "s1", seq: 500 } })
  expect(client.state).toBe("live")
})

test("CLIENT2: INVALID_SESSION makes it identify anew on the same connection", async () => {
  const gateway = await fakeGateway({
    on: ({ op }, peer) => (op === 6 ? (peer.send({ op: 9, d: false }), true) : undefined),
  })
  const client = gatewayClient(gateway.url)
  await client.connect()
  const invalid = happens(client, "invalid_session")
  const ready = happens(client, "ready")
  client.drop()
  await invalid
  expect(client.sessionId).toBeUndefined()
  await ready
  expect(gateway.frames.map(({ op }) => op)).toEqual([2, 6, 2])
  expect(gateway.peers).toHaveLength(2)
})

test("it resumes on another server", async () => {
  const [east, west] = [await fakeGateway(), await fakeGateway()]
  const client = gatewayClient(east.url)
  await client.connect()
  await client.reconnect(west.url)
  expect(client.state).toBe("live")
  expect(west.frames).toEqual([{ op: 6, d: { token: "t.s", session_id: "s1", seq: 100 } }])
  await until(() => east.closes.length === 1)
  expect(east.closes).toEqual([1006])
})

test("CLIENT5: it resumes where READY says, and where it began when nobody is there", async () => {
  const there = await fakeGateway()
  const here = await fakeGateway({ resumeUrl: `${there.url.replace("http", "ws")}/gateway` })
  const client = gatewayClient(here.url)
  await client.connect()
  here.last().drop()
  await happens(client, "resumed")
  expect(there.frames).toMatchObject([{ op: 6, d: { session_id: "s1", seq: 100 } }])
  // Where the caller says counts from then on.
  await client.reconnect(here.url)
  expect(here.frames.map(({ op }) => op)).toEqual([2, 6])

  // Port 1 takes no connection.
  const misled = await fakeGateway({ resumeUrl: "ws://127.0.0.1:1/gateway" })
  const other = gatewayClient(misled.url)
  await other.connect()
  misled.last().drop()
  await happens(other, "resumed")
  expect(misled.frames).toMatchObject([{ op: 2 }, { op: 6, d: { session_id: "s1", seq: 100 } }])
})

test("CLIENT5: a session over TLS is not resumed without", async () => {
  const urls: string[] = []
  class Recorder {
    binaryType = ""
    onopen = null
    onmessage: ((message: never) => void) | null = null
    onclose: ((close: never) => void) | null = null
    onerror = null
    constructor(url: string) {
      urls.push(url)
      const say = (frame: object) => this.onmessage?.({ data: JSON.stringify(frame) } as never)
      setTimeout(() => {
        say({ op: 10, d: { heartbeat_interval: 45_000 } })
        const resume_gateway_url = ["ws://evil.example/gateway", "no url", "wss://two.example/gateway"][urls.length - 1]
        say({ op: 0, t: "READY", s: 1, d: { v: 10, user, guilds: [], session_id: "s1", resume_gateway_url } })
        if (urls.length < 4) this.onclose?.({ code: 1006, reason: "" } as never)
      })
    }
    send() {}
    close() {}
  }
  gatewayClient("wss://one.example", { WebSocket: Recorder })
    .connect()
    .catch(() => {})
  await until(() => urls.length === 4)
  const own = "wss://one.example/gateway?encoding=json"
  expect(urls).toEqual([own, own, own, "wss://two.example/gateway?encoding=json"])
})

test("RECONNECT (op 7) moves it at once, with its session", async () => {
  const gateway = await fakeGateway()
  const client = gatewayClient(gateway.url, { backoff: { firstMs: 60_000, maxMs: 60_000, jitter: 0 } })
  await client.connect()
  const resumed = happens(client, "resumed")
  gateway.last().send({ op: 7, d: null })
  await resumed
  expect(gateway.frames.map(({ op }) => op)).toEqual([2, 6])
})

test("CLIENT3: a heartbeat without an answer ends the connection, and it resumes", async () => {
  let deaf = true
  const gateway = await fakeGateway({ heartbeatIntervalMs: 40, on: ({ op }) => (op === 1 ? deaf : undefined) })
  const client = gatewayClient(gateway.url)
  await client.connect()
  const closed = happens(client, "close")
  const resumed = happens(client, "resumed")
  expect(await closed).toMatchObject({ code: 4900, willReconnect: true })
  deaf = false
  await resumed
  const before = gateway.frames.slice(
    0,
    gateway.frames.findIndex(({ op }) => op === 6),
  )
  expect(before.filter(({ op }) => op === 1)).toHaveLength(1)
})

test("heartbeats go out at the interval, the first one at a random part of it", async () => {
  const gateway = await fakeGateway({ heartbeatIntervalMs: 20 })
  const client = gatewayClient(gateway.url, { random: () => 0.5 })
  await client.connect()
  await until(() => gateway.frames.filter(({ op }) => op === 1).length >= 4)
  expect(client.state).toBe("live")
  expect(gateway.peers).toHaveLength(1)
  expect(gateway.frames.at(-1)).toEqual({ op: 1, d: 100 })
})

test.each([1000, 1001, 1012, 1013, 4000, 4008, 4009])("close code %i: it comes back and resumes", async code => {
  const gateway = await fakeGateway()
  const client = gatewayClient(gateway.url)
  await client.connect()
  const resumed = happens(client, "resumed")
  gateway.last().end(code, "why")
  await resumed
  expect(gateway.frames.map(({ op }) => op)).toEqual([2, 6])
})

test.each([
  [4004, "Authentication failed"],
  [4013, "Invalid intents"],
  [4016, "Server entering maintenance"],
  [1000, "Resumed elsewhere"],
])("close code %i %s: it stays away and forgets its session", async (code, reason) => {
  const gateway = await fakeGateway()
  const client = gatewayClient(gateway.url)
  await client.connect()
  const waiting = client.next("MESSAGE_CREATE")
  const closed = happens(client, "close")
  gateway.last().end(code, reason)
  await expect(waiting).rejects.toMatchObject({ code, reason })
  expect(await closed).toEqual({ code, reason, willReconnect: false })
  expect(client).toMatchObject({ state: "closed", sessionId: undefined, seq: undefined })
})

test.each([
  [4003, "IP Blocked", "operator has blocked"],
  [4004, "Authentication failed", "resetBotToken"],
  [4013, "Invalid intents", "intents is a sum"],
  [4016, "Server entering maintenance", "getStatus()"],
])("a session that is refused with %i %s fails connect, and says what to do", async (code, reason, advice) => {
  const gateway = await fakeGateway({ on: (_, peer) => (peer.end(code, reason), true) })
  const failure = await gatewayClient(gateway.url)
    .connect()
    .catch((error: unknown) => error)
  expect(failure).toMatchObject({ code, reason })
  expect((failure as Error).message).toMatch(`gateway closed: ${code} ${reason}: `)
  expect((failure as Error).message).toContain(advice)
})

test("without autoReconnect the first failure fails connect, and says why", async () => {
  const client = gatewayClient("ws://127.0.0.1:1", { autoReconnect: false })
  const error = happens(client, "error")
  await expect(client.connect()).rejects.toMatchObject({
    code: 1006,
    reason: "connect ECONNREFUSED 127.0.0.1:1",
    message: expect.stringMatching(/ECONNREFUSED 127\.0\.0\.1:1: is the server running/) as string,
  })
  expect(await error).toMatchObject({ code: "ECONNREFUSED" })
})

test("close keeps the session: connect resumes it", async () => {
  const gateway = await fakeGateway()
  const client = gatewayClient(gateway.url)
  await client.connect()
  client.close()
  expect(client.state).toBe("closed")
  await until(() => gateway.closes.length === 1)
  expect(gateway.closes).toEqual([1000])
  await client.connect()
  expect(gateway.frames.map(({ op }) => op)).toEqual([2, 6])
})

test("drop without autoReconnect stays down until reconnect", async () => {
  const gateway = await fakeGateway()
  const client = gatewayClient(gateway.url, { autoReconnect: false })
  await client.connect()
  client.drop()
  expect(client.state).toBe("closed")
  await until(() => gateway.closes.length === 1)
  expect(gateway.closes).toEqual([1006])
  await client.reconnect()
  expect(gateway.frames.map(({ op }) => op)).toEqual([2, 6])
})

test("a frame that cannot be decoded is an error, and the connection is replaced", async () => {
  const gateway = await fakeGateway()
  const client = gatewayClient(gateway.url)
  await client.connect()
  const error = happens(client, "error")
  const resumed = happens(client, "resumed")
  gateway.last().send(Object.assign(() => undefined, { toJSON: () => undefined }))
  expect(await error).toMatchObject({ message: "a frame cannot be decoded" })
  await resumed
})
