/** What a socket may say, when, and how it is closed when it says anything else. */
import { encode } from "@msgpack/msgpack"
import { describe, vi } from "vitest"
import type { ServerFrame } from "../../client/gateway.ts"
import type { CloseName } from "../../src/contract/core/gateway-codes.ts"
import { Resume } from "../../src/contract/core/gateway.ts"
import type { Worker } from "../kit/cluster.ts"
import type { Endpoint, Person } from "../kit/person.ts"
import { connectionsOf } from "../kit/connections.ts"
import { closedWith, identified, open, Raw } from "../kit/raw.ts"
import { sharedServer } from "../kit/seeds.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"

test("HELLO is sent first, at once, with the heartbeat interval and nothing else", async ({ shared }) => {
  const raw = await open(shared.east)
  expect(raw.frames).toEqual([{ op: 10, d: { heartbeat_interval: 45_000 } }])
  expect(raw.kinds).toEqual(["text"])
  raw.close()
})

test("IDENTIFY may come before HELLO was read; READY is the first dispatch", async ({ shared }) => {
  const ada = await shared.person("ada")
  const raw = new Raw(shared.east, { first: { op: 2, d: { token: ada.token } } })
  const { d, s } = await raw.event("READY")
  expect(raw.frames.map(frame => frame.op)).toEqual([10, 0])
  expect(d).toMatchObject({
    v: 10,
    user: { id: ada.id, username: ada.username, discriminator: "0", avatar: null, bot: false },
    guilds: [],
    session_id: expect.stringMatching(/^[0-9a-f]{32}$/) as string,
    resume_gateway_url: expect.stringMatching(/^wss?:\/\/.+\/gateway$/) as string,
    application: { id: ada.id, flags: 0 },
  })
  expect(Number.isSafeInteger(s)).toBe(true)
  raw.close()
})

test("READY names the host that the client asked for, behind a proxy too, unless the operator names another", async ({
  cluster,
}) => {
  const [plain] = await cluster.boot(1)
  const [behind] = await cluster.boot(1, { config: { TRUSTED_PROXIES: "127.0.0.1" } })
  const [named] = await cluster.boot(1, { config: { PUBLIC_URL: "https://chat.example/" } })
  const ada = await cluster.person("ada")
  const resumeUrl = async (worker: Endpoint, headers: Record<string, string> = {}) => {
    const raw = new Raw(worker, { headers, first: { op: 2, d: { token: ada.token } } })
    const { d } = await raw.event("READY")
    raw.close()
    return (d as { resume_gateway_url: string }).resume_gateway_url
  }
  const here = { url: plain!.url.replace("127.0.0.1", "localhost") }
  const said = { "x-forwarded-host": "chat.example:8443", "x-forwarded-proto": "https" }
  expect(await resumeUrl(plain!)).toBe(`${plain!.url.replace("http", "ws")}/gateway`)
  expect(await resumeUrl(here, said)).toBe(`${here.url.replace("http", "ws")}/gateway`)
  expect(await resumeUrl(behind!, said)).toBe("wss://chat.example:8443/gateway")
  expect(await resumeUrl(behind!, { "x-forwarded-host": "a/b" })).toMatch(/^ws:\/\/localhost:\d+\/gateway$/)
  expect(await resumeUrl(named!, said)).toBe("wss://chat.example/gateway")
})

test("a heartbeat is answered with op 11 and nothing else, before and after IDENTIFY, whatever its d", async ({
  shared,
}) => {
  const ada = await shared.person("ada")
  const raw = await open(shared.east)
  const acks = () => raw.frames.filter(frame => frame.op === 11)
  raw.say({ op: 1, d: null })
  await until("the first ack", () => acks().length === 1)
  raw.say({ op: 2, d: { token: ada.token } })
  await raw.event("READY")
  for (const d of [5, "x", [], { a: 1 }, undefined]) raw.say({ op: 1, d })
  await until("the others", () => acks().length === 6)
  for (const ack of acks()) expect(ack).toEqual({ op: 11 })
  raw.close()
})

describe("a frame that is not understood closes the socket with its code", () => {
  test.for<[what: string, frame: string | Uint8Array, close: CloseName]>([
    ["no JSON", "{", "decode_error"],
    ["an empty frame", "", "decode_error"],
    ["bytes that are not UTF-8", Uint8Array.of(123, 255, 125), "decode_error"],
    ["an array", '[{"op":1}]', "decode_error"],
    ["a string", '"hello"', "decode_error"],
    ["a number", "7", "decode_error"],
    ["true", "true", "decode_error"],
    ["no op", '{"d":{}}', "decode_error"],
    ["op null", '{"op":null}', "decode_error"],
    ["op a string", '{"op":"1"}', "unknown_opcode"],
    ["op a fraction", '{"op":1.5}', "unknown_opcode"],
    ["an op that nobody knows", '{"op":99}', "unknown_opcode"],
    ["a dispatch", '{"op":0,"t":"MESSAGE_CREATE","d":{}}', "unknown_opcode"],
    ["the server's HELLO", '{"op":10,"d":{}}', "unknown_opcode"],
    ["the server's ack", '{"op":11}', "unknown_opcode"],
    ["the server's RECONNECT", '{"op":7}', "unknown_opcode"],
    ["the server's INVALID_SESSION", '{"op":9,"d":false}', "unknown_opcode"],
  ])("%s", async ([, frame, close], { shared }) => {
    const raw = await open(shared.east)
    raw.say(frame)
    expect(await raw.ended).toEqual(closedWith(close))
  })

  test("also after IDENTIFY; the session can be resumed", async ({ shared }) => {
    const ada = await shared.person("ada")
    for (const frame of ["[]", '{"op":99}']) {
      const raw = await identified(shared.east, ada.token)
      const { session_id } = raw.frames[1]!.d as { session_id: string }
      const seq = raw.frames[1]!.s!
      raw.say(frame)
      expect((await raw.ended).code).toBe(frame === "[]" ? 4002 : 4001)
      const again = await open(shared.west)
      again.say({ op: 6, d: { token: ada.token, session_id, seq } })
      expect(await again.event("RESUMED")).toMatchObject({ s: seq, d: {} })
      again.close()
    }
  })

  test("null is ignored", async ({ shared }) => {
    const raw = await open(shared.east)
    raw.say("null")
    raw.say({ op: 1 })
    await raw.op(11)
    raw.close()
  })

  test("unknown keys are ignored", async ({ shared }) => {
    const ada = await shared.person("ada")
    const raw = await open(shared.east)
    raw.say({
      op: 2,
      x: 1,
      d: { token: ada.token, shard: [0, 1], presence: {}, large_threshold: 5, compress: false, more: null },
    })
    await raw.event("READY")
    raw.close()
  })
})

test("typing before IDENTIFY closes with 4003", async ({ shared }) => {
  const raw = await open(shared.east)
  raw.say({ op: 40, d: { channel_id: "1" } })
  expect(await raw.ended).toEqual(closedWith("not_authenticated"))
})

test("a frame of 65,536 bytes is read, one more byte closes with 4002, and a larger one ends the connection", async ({
  shared,
}) => {
  const frame = (size: number) => `{"op":1,"d":"${"x".repeat(size - 15)}"}`
  const fits = await open(shared.east)
  expect(frame(65_536)).toHaveLength(65_536)
  fits.say(frame(65_536))
  await fits.op(11)
  fits.close()
  const large = await open(shared.east)
  large.say(frame(65_537))
  expect(await large.ended).toEqual(closedWith("decode_error"))
  // What the transport itself does not take ends too; its code may not arrive.
  for (const size of [65_538, 500_000, 20 * 1024 * 1024]) {
    const raw = await open(shared.east)
    raw.say(frame(size))
    expect([1006, 1009]).toContain((await raw.ended).code)
  }
})

describe("IDENTIFY", () => {
  test.for<[what: string, d: unknown, close: CloseName]>([
    ["without d", undefined, "decode_error"],
    ["with d null", null, "decode_error"],
    ["with d empty", {}, "decode_error"],
    ["with d an array", [], "decode_error"],
    ["with d a string", "token", "decode_error"],
    ["without a token", { intents: 1 }, "authentication_failed"],
    ["with an empty token", { token: "" }, "authentication_failed"],
    ["with a token that is no string", { token: 5 }, "authentication_failed"],
    ["with a token of no form", { token: "nonsense" }, "authentication_failed"],
    ["with a token of nobody", { token: `123456789012345678.${"A".repeat(43)}` }, "authentication_failed"],
    ["with intents null", { token: "x", intents: null }, "invalid_intents"],
    ["with intents a string", { token: "x", intents: "513" }, "invalid_intents"],
    ["with intents a fraction", { token: "x", intents: 1.5 }, "invalid_intents"],
    ["with intents true", { token: "x", intents: true }, "invalid_intents"],
    ["with intents below 0", { token: "x", intents: -1 }, "invalid_intents"],
    ["with intents above 2,097,151", { token: "x", intents: 2_097_152 }, "invalid_intents"],
    ["with intents beyond all numbers", { token: "x", intents: 1e300 }, "invalid_intents"],
    ["without a token is told so before its intents are looked at", { intents: -1 }, "authentication_failed"],
  ])("%s", async ([, d, close], { shared }) => {
    const raw = await open(shared.east)
    raw.say({ op: 2, d })
    expect(await raw.ended).toEqual(closedWith(close))
  })

  test("a token may stand behind one Bearer or Bot", async ({ shared }) => {
    const ada = await shared.person("ada")
    for (const prefix of ["Bearer ", "Bot "]) (await identified(shared.east, prefix + ada.token)).close()
    const twice = await open(shared.east)
    twice.say({ op: 2, d: { token: `Bearer Bearer ${ada.token}` } })
    expect(await twice.ended).toEqual(closedWith("authentication_failed"))
  })

  test("a wrong secret of a real session closes with 4004", async ({ shared }) => {
    const ada = await shared.person("ada")
    const raw = await open(shared.east)
    raw.say({ op: 2, d: { token: ada.token.slice(0, -1) + (ada.token.endsWith("A") ? "B" : "A") } })
    expect(await raw.ended).toEqual(closedWith("authentication_failed"))
  })

  test("twice, or followed by RESUME, closes with 4005, also while the first is under way", async ({ shared }) => {
    const ada = await shared.person("ada")
    for (const second of [
      { op: 2, d: { token: ada.token } },
      { op: 6, d: { token: ada.token, session_id: "x", seq: 1 } },
    ]) {
      const raw = await identified(shared.east, ada.token)
      raw.say(second)
      expect(await raw.ended).toEqual(closedWith("already_authenticated"))
      const hasty = await open(shared.east)
      hasty.say({ op: 2, d: { token: ada.token } })
      hasty.say(second)
      expect(await hasty.ended).toEqual(closedWith("already_authenticated"))
    }
  })

  test("what is said before READY waits for it, in its order; too much of it closes with 4008", async ({ shared }) => {
    const { server, ada } = await shared.seed(sharedServer)
    const hasty = await open(shared.east)
    hasty.say({ op: 2, d: { token: ada.token, intents: 65_535, properties: null } })
    const answered = ({ frames }: Raw) =>
      frames.flatMap(({ t, d }) => (t === "GUILD_MEMBERS_CHUNK" ? [(d as { nonce: string }).nonce] : []))
    const chunks = ["first", "second", "third"].map(nonce => ({ guild_id: server.id, user_ids: [ada.id], nonce }))
    for (const d of chunks) hasty.say({ op: 8, d })
    await until("the last is answered", () => answered(hasty).length === chunks.length)
    expect(answered(hasty)).toEqual(chunks.map(({ nonce }) => nonce))
    expect(hasty.frames.find(({ t }) => t !== null && t !== undefined)!.t).toBe("READY")
    hasty.close()

    // Of a session that is over: the client hears that, and identifies on the same connection.
    const late = await open(shared.east)
    late.say({ op: 6, d: { token: ada.token, session_id: "x", seq: 1 } })
    late.say({ op: 8, d: chunks[0]! })
    await late.op(9)
    late.say({ op: 2, d: { token: ada.token, intents: 65_535 } })
    await late.event("READY")
    expect(answered(late)).toEqual([])
    late.close()

    const many = await open(shared.east)
    many.say({ op: 2, d: { token: ada.token } })
    for (let i = 0; i < 17; i++) many.say({ op: 8, d: chunks[0]! })
    expect(await many.ended).toEqual(closedWith("rate_limited"))
  })

  test("intents left out mean the default, 0 nothing that needs one, bits above 15 nothing at all", async ({
    shared,
  }) => {
    const { channel, server, ada } = await shared.seed(sharedServer)
    const listen = async (d: object) => {
      const raw = await open(shared.east)
      raw.say({ op: 2, d: { token: ada.token, ...d } })
      await raw.event("READY")
      return raw
    }
    const all = await Promise.all([
      listen({}),
      listen({ intents: 0 }),
      listen({ intents: 2_097_151 }),
      listen({ intents: 513 }),
    ])
    const stranger = await shared.person("stranger")
    const { code } = await ada.on(shared.west).createInvite({ channel_id: channel.id })
    await stranger.on(shared.west).joinByInvite({ invite_code: code })
    await stranger.on(shared.west).startTyping({ channel_id: channel.id })
    await stranger.on(shared.west).createMessage({ channel_id: channel.id, content: "hi" })
    await ada.on(shared.west).createChannel({ server_id: server.id, name: "more" })
    await shared.settle()
    for (const raw of [all[0], all[2], all[3]]) await raw.event("CHANNEL_CREATE")
    // The answer to a heartbeat has everything before it in front.
    all[1].say({ op: 1 })
    await all[1].op(11)
    const heard = all.map(raw => raw.frames.flatMap(({ t }) => (t === undefined || t === "READY" ? [] : [t])))
    const inOrder = ["MESSAGE_CREATE", "CHANNEL_CREATE"]
    expect(heard).toEqual([
      ["INVITE_CREATE", "TYPING_START", ...inOrder],
      [],
      ["INVITE_CREATE", "GUILD_MEMBER_ADD", "TYPING_START", ...inOrder],
      inOrder,
    ])
    for (const raw of all) raw.close()
  })
})

describe("RESUME", () => {
  test("without d closes with 4002", async ({ shared }) => {
    for (const d of [undefined, null, [], "x"]) {
      const raw = await open(shared.east)
      raw.say({ op: 6, d })
      expect(await raw.ended).toEqual(closedWith("decode_error"))
    }
  })

  test("that is incomplete, malformed, or of an unknown session is answered with op 9 false; the socket may go on to IDENTIFY", async ({
    shared,
  }) => {
    const [ada, lin] = await Promise.all([shared.person("ada"), shared.person("lin")])
    const own = await identified(shared.east, ada.token)
    const { session_id } = own.frames[1]!.d as { session_id: string }
    const seq = own.frames[1]!.s!
    own.close()
    const { token } = ada
    const raw = await open(shared.west)
    const asked: object[] = [
      {},
      { token },
      { session_id },
      { token: 5, session_id },
      { token, session_id: 5 },
      { token, session_id, seq: "1" },
      { token, session_id, seq: true },
      { token, session_id, seq: null },
      { token, session_id, seq: -1 },
      { token, session_id, seq: 1.5 },
      { token, session_id: "0".repeat(32), seq },
      { token, session_id: "0".repeat(60_000), seq },
      { token, session_id: `${session_id.slice(0, -1)}*`, seq },
      { token: lin.token, session_id, seq },
      { token: "nonsense", session_id, seq },
    ]
    for (const [i, d] of asked.entries()) {
      raw.say({ op: 6, d })
      await until("op 9", () => raw.frames.filter(frame => frame.op === 9).length === i + 1)
    }
    for (const frame of raw.frames.slice(1)) expect(frame).toEqual({ op: 9, d: false })
    // What is no id is not looked for.
    for (const id of ["x", "0".repeat(31), "0".repeat(33), "A".repeat(32), `${"0".repeat(31)}*`])
      expect(Resume.safeParse({ token, session_id: id, seq }).success).toBe(false)
    raw.say({ op: 2, d: { token: lin.token } })
    await raw.event("READY")
    raw.close()
    // Nobody else's attempts have harmed the session.
    const back = await open(shared.east)
    back.say({ op: 6, d: { token: `Bearer ${token}`, session_id, seq } })
    await back.event("RESUMED")
    back.close()
  })
})

test("MessagePack: binary frames both ways, HELLO included; text frames are JSON there too", async ({ shared }) => {
  const ada = await shared.person("ada")
  const raw = await open(shared.east, { query: "?encoding=msgpack&v=9&compress=zlib-stream" })
  raw.say(encode({ op: 1, d: null }))
  await raw.op(11)
  raw.say(JSON.stringify({ op: 2, d: { token: ada.token } }))
  await raw.event("READY")
  expect(new Set(raw.kinds)).toEqual(new Set(["binary"]))
  raw.say(Uint8Array.of(0xc1))
  expect(await raw.ended).toEqual(closedWith("decode_error"))
})

test("binary frames are JSON on a connection without MessagePack", async ({ shared }) => {
  const raw = await open(shared.east)
  raw.say(new TextEncoder().encode('{"op":1}'))
  await raw.op(11)
  expect(new Set(raw.kinds)).toEqual(new Set(["text"]))
  raw.close()
})

test("P12: a session that logs out is closed with 4004 on every worker, and may neither identify nor resume", async ({
  shared,
}) => {
  const ada = await shared.person("ada")
  const other = await ada.signIn(shared.west)
  const [east, west, kept] = await Promise.all([
    identified(shared.east, ada.token),
    identified(shared.west, ada.token),
    identified(shared.west, other.token),
  ])
  const { session_id } = east.frames[1]!.d as { session_id: string }
  const seq = east.frames[1]!.s!
  await ada.on(shared.west).logout()
  expect(await east.ended).toEqual(closedWith("authentication_failed"))
  expect(await west.ended).toEqual(closedWith("authentication_failed"))
  for (const worker of [shared.east, shared.west]) {
    const back = await open(worker)
    back.say({ op: 6, d: { token: ada.token, session_id, seq } })
    expect(await back.op(9)).toEqual({ op: 9, d: false })
    // Not with another token of the same user either: the session that it belonged to has ended.
    back.say({ op: 2, d: { token: ada.token } })
    expect(await back.ended).toEqual(closedWith("authentication_failed"))
  }
  kept.say({ op: 1 })
  await kept.op(11)
  kept.close()
})

test("a client that offers subprotocols is accepted without one; a slash at the end is another address", async ({
  shared,
}) => {
  const raw = await open(shared.east, { headers: { "Sec-WebSocket-Protocol": "a, b" } })
  raw.close()
  const answer = await fetch(`${shared.east.url}/gateway/`)
  expect(answer.status).toBe(404)
})

test("browsers of other origins are refused where a list is given; programs without an origin are not", async ({
  cluster,
  shared,
}) => {
  const [worker] = await cluster.boot(1, { config: { STARLING_GATEWAY_ALLOWED_ORIGINS: "https://chat.example.com" } })
  const refused = new Raw(worker!, { headers: { Origin: "https://evil.example.com" } })
  await refused.ended
  expect(refused.frames).toEqual([])
  expect(refused.error?.message).toMatch(/403/)
  for (const headers of [{ Origin: "https://chat.example.com" }, {}] as Record<string, string>[])
    (await open(worker!, { headers })).close()
  ;(await open(shared.east, { headers: { Origin: "https://anything.example.com" } })).close()
})

describe("with heartbeats due every 400 ms", () => {
  const quick = { topology: { gateway: { heartbeatIntervalMs: 400 } } }

  test("a silent client is closed: 4003 before IDENTIFY, 4009 after, and then resumes; one that sends heartbeats stays", async ({
    cluster,
  }) => {
    const [worker] = await cluster.boot(1, quick)
    const ada = await cluster.person("ada")
    const beating = await ada.listen(worker!)
    const [silent, nobody] = await Promise.all([identified(worker!, ada.token), open(worker!)])
    // Other frames are no heartbeats.
    const talking = setInterval(() => silent.say({ op: 40, d: {} }), 100)
    expect(await silent.ended).toEqual(closedWith("session_timed_out"))
    clearInterval(talking)
    expect(await nobody.ended).toEqual(closedWith("not_authenticated"))
    const ready = silent.frames[1]!
    const back = await open(worker!)
    back.say({
      op: 6,
      d: { token: ada.token, session_id: (ready.d as { session_id: string }).session_id, seq: ready.s! },
    })
    await back.event("RESUMED")
    back.close()
    await beating.heartbeatNow()
    expect(beating.state).toBe("live")
  })
})

describe("with limits", () => {
  test("more frames than a minute allows close with 4008; heartbeats are not counted", async ({ cluster }) => {
    const [worker] = await cluster.boot(1, { limited: true, topology: { gateway: { frames: { perMinute: 20 } } } })
    const ada = await cluster.person("ada")
    const raw = await identified(worker!, ada.token)
    for (let i = 0; i < 100; i++) raw.say({ op: 1 })
    await until("all acks", () => raw.frames.filter(frame => frame.op === 11).length === 100)
    for (let i = 0; i < 19; i++) raw.say({ op: 40, d: {} })
    raw.say({ op: 1, d: "last" })
    await until("still there", () => raw.frames.filter(frame => frame.op === 11).length === 101)
    raw.say({ op: 40, d: {} })
    expect(await raw.ended).toEqual(closedWith("rate_limited"))
  })

  test("the sixth connection of a user is closed with 4008, on whichever worker; one that left frees its place", async ({
    cluster,
  }) => {
    const [east, west] = await cluster.boot(2, { limited: true })
    const ada = await cluster.person("ada")
    const other = await ada.signIn(east!)
    const first = await Promise.all([
      identified(east!, ada.token),
      identified(west!, ada.token),
      identified(east!, ada.token),
      identified(west!, other.token),
      identified(east!, other.token),
    ])
    for (const worker of [east!, west!]) {
      const sixth = await open(worker)
      sixth.say({ op: 2, d: { token: other.token } })
      expect(await sixth.ended).toEqual(closedWith("rate_limited"))
    }
    first[0].close()
    await until("its end is noticed", () => east!.gateway.connections === 2)
    const next = await open(west!)
    next.say({ op: 2, d: { token: ada.token } })
    await next.event("READY")
    for (const raw of [...first, next]) raw.close()
  })

  test("of connections of a user that come at once five are served, and one of another user beside them", async ({
    cluster,
  }) => {
    const [worker] = await cluster.boot(1, { limited: true })
    const [ada, lin] = [await cluster.person("ada"), await cluster.person("lin")]
    const other = await ada.signIn(worker!)
    const tokens = [ada.token, ada.token, ada.token, ada.token, lin.token, other.token, other.token, other.token]
    const sockets = await Promise.all(tokens.map(() => open(worker!)))
    for (const [i, raw] of sockets.entries()) raw.say({ op: 2, d: { token: tokens[i]! } })
    const served = sockets.map(raw => Promise.race([raw.event("READY").then(() => true), raw.ended.then(() => false)]))
    const [theirs] = await Promise.all(served.splice(4, 1))
    const ours = await Promise.all(served)
    expect(theirs).toBe(true)
    expect(ours.filter(isServed => isServed).length).toBe(5)
    for (const raw of sockets) raw.close()
  })

  test("no more than so many connections of a user come by RESUME either; the session waits for its turn", async ({
    cluster,
  }) => {
    const limits = { limited: true, topology: { gateway: { connectionsPerUser: 2 } } }
    const [east, west] = (await cluster.boot(2, limits)) as [Worker, Worker]
    const ada = await cluster.person("ada")
    const resume = async (place: Endpoint, ready: ServerFrame) => {
      const raw = await open(place)
      const { session_id } = ready.d as { session_id: string }
      raw.say({ op: 6, d: { token: ada.token, session_id, seq: ready.s! } })
      return raw
    }
    const first = await Promise.all([identified(east, ada.token), identified(west, ada.token)])
    for (const raw of first) raw.close()
    await until("they are counted out", async () => (await connectionsOf(cluster, ada.id)) === 0)
    const second = await Promise.all([identified(east, ada.token), identified(west, ada.token)])
    const readies = first.map(raw => raw.frames[1]!)
    // Where it lives, and elsewhere.
    for (const place of [east, west])
      for (const ready of readies) expect(await (await resume(place, ready)).ended).toEqual(closedWith("rate_limited"))
    // One that goes on over another socket counts once.
    const moved = await resume(west, second[0].frames[1]!)
    await moved.event("RESUMED")
    expect(await second[0].ended).toEqual(closedWith("resumed_elsewhere"))
    second[1].close()
    await until("a place is free", async () => (await connectionsOf(cluster, ada.id)) === 1)
    const back = await resume(east, readies[1]!)
    await back.event("RESUMED")
    expect(await connectionsOf(cluster, ada.id)).toBe(2)
    back.close()
    moved.close()
  })

  test("a RESUME that fails elsewhere takes no connection away: the socket that it closed is counted no more", async ({
    cluster,
  }) => {
    const topology = { gateway: { connectionsPerUser: 1, resumeReplayBytes: 1 } }
    const [east, west] = (await cluster.boot(2, { limited: true, topology })) as [Worker, Worker]
    const ada = await cluster.person("ada")
    const first = await identified(east, ada.token)
    const { session_id } = first.frames[1]!.d as { session_id: string }
    await ada.on(east).createServer({ name: "More is missed than may be read" })
    await first.event("GUILD_CREATE")
    // The first socket still stands.
    const next = await open(west)
    next.say({ op: 6, d: { token: ada.token, session_id, seq: first.frames[1]!.s! } })
    expect(await next.op(9)).toEqual({ op: 9, d: false })
    expect(await first.ended).toEqual(closedWith("resumed_elsewhere"))
    expect(await connectionsOf(cluster, ada.id)).toBe(0)
    next.say({ op: 2, d: { token: ada.token } })
    await next.event("READY")
    next.close()
  })

  test("the number of connections of a user holds without rate limits, too, and is a setting", async ({ cluster }) => {
    const config = { CONNECTIONS_PER_USER: "3" }
    const topology = { gateway: { connectionsPerUser: 5 } }
    const [worker] = await cluster.boot(1, { limited: false, config, topology })
    const ada = await cluster.person("ada")
    const first = await Promise.all([1, 2, 3].map(() => identified(worker!, ada.token)))
    const next = await open(worker!)
    next.say({ op: 2, d: { token: ada.token } })
    expect(await next.ended).toEqual(closedWith("rate_limited"))
    for (const raw of first) raw.close()
  })

  test("more than five IDENTIFY of one token in five seconds close with 4008", async ({ cluster }) => {
    const [worker] = await cluster.boot(1, { limited: true, topology: { gateway: { connectionsPerUser: 100 } } })
    const ada = await cluster.person("ada")
    const sockets = await Promise.all(Array.from({ length: 12 }, () => open(worker!)))
    // However it is written.
    for (const [i, raw] of sockets.entries())
      raw.say({ op: 2, d: { token: ["", "Bearer ", "Bot "][i % 3]! + ada.token } })
    const outcomes = await Promise.all(
      sockets.map(raw => Promise.race([raw.event("READY").then(() => "ready"), raw.ended.then(({ code }) => code)])),
    )
    // A window that turns over in between allows five more.
    const refused = outcomes.filter(outcome => outcome === 4008).length
    expect(refused).toBeGreaterThanOrEqual(2)
    expect(outcomes.filter(outcome => outcome === "ready")).toHaveLength(12 - refused)
    for (const raw of sockets) raw.close()
  })
})

test("P6: a session that was quiet for long is given its position with a heartbeat's answer", async ({ cluster }) => {
  const [worker] = await cluster.boot(1)
  const ada = await cluster.person("ada")
  const inbox = await ada.listen(worker!)
  await inbox.heartbeatNow()
  expect(inbox.rest()).toEqual([])
  const before = inbox.seq!
  // Others' events move the log on meanwhile, and nothing of it is for her.
  const lin = await cluster.person("lin")
  await lin.listen(worker!)
  await lin.on(worker!).createServer({ name: "Elsewhere" })
  await cluster.settle()
  const real = performance.now.bind(performance)
  const clock = vi.spyOn(performance, "now").mockImplementation(() => real() + 31_000)
  try {
    await inbox.heartbeatNow()
    expect(await inbox.next("SESSION_POSITION")).toEqual({})
    expect(inbox.seq).toBeGreaterThan(before)
    await inbox.heartbeatNow()
    expect(inbox.rest()).toEqual([])
  } finally {
    clock.mockRestore()
  }
  const session = inbox.sessionId
  inbox.drop()
  await inbox.reconnect(worker!.url)
  expect(inbox.sessionId).toBe(session)
})

test("P6: what is published to a session's servers tells it a position; what others are sent does not", async ({
  cluster,
}) => {
  const [worker] = await cluster.boot(1)
  const { ada, channel } = await sharedServer(cluster)
  const lin = await cluster.person("lin")
  const elsewhere = await lin.on(worker!).createServer({ name: "Elsewhere" })
  const [other] = await lin.on(worker!).listChannels({ server_id: elsewhere.id })
  const [hers, theirs] = [await ada.listen(worker!), await lin.listen(worker!)]
  /** The worker takes itself for one that was silent, and serves once it has shown itself again. */
  const post = (by: Person, channel_id: string) =>
    until("it serves", () =>
      by
        .on(worker!)
        .createMessage({ channel_id, content: "hi" })
        .then(
          () => true,
          () => false,
        ),
    )
  const real = performance.now.bind(performance)
  const clock = vi.spyOn(performance, "now")
  try {
    clock.mockImplementation(() => real() + 31_000)
    await post(ada, channel.id)
    await hers.next("MESSAGE_CREATE")
    await hers.heartbeatNow()
    expect(hers.rest()).toEqual([])
    clock.mockImplementation(() => real() + 62_000)
    await post(lin, other!.id)
    await theirs.next("MESSAGE_CREATE")
    await hers.heartbeatNow()
    expect(await hers.next("SESSION_POSITION")).toEqual({})
  } finally {
    clock.mockRestore()
  }
})
