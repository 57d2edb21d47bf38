/**
 * Clients that break the rules of WebSocket, flood, stall or vanish: they are closed, cost little,
 * and nobody else notices.
 */
import { randomBytes } from "node:crypto"
import { deflateSync } from "node:zlib"
import { describe } from "vitest"
import { openLink } from "../chaos/proxy.ts"
import type { Worker } from "../kit/cluster.ts"
import type { Person, Endpoint } from "../kit/person.ts"
import { closedWith, identified, open, Raw } from "../kit/raw.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"
import { frame, opcode, upgraded, upgradeLines, Wire } from "../kit/wire.ts"

const heartbeat = '{"op":1}'
const ack = '{"op":11}'
/** Somebody else is served as ever. */
async function expectServed(place: Endpoint, person: Person): Promise<void> {
  const raw = await identified(place, person.token)
  raw.say({ op: 1 })
  await raw.op(11)
  raw.close()
  expect(await person.on(place).getMe()).toMatchObject({ id: person.id })
}

test("permessage-deflate is never negotiated, however it is offered", async ({ shared }) => {
  for (const offer of [
    "permessage-deflate",
    "permessage-deflate; client_max_window_bits",
    "permessage-deflate; server_no_context_takeover, permessage-deflate",
    "x-webkit-deflate-frame",
  ]) {
    const wire = await upgraded(shared.east, [`Sec-WebSocket-Extensions: ${offer}`])
    expect(wire.text).toMatch(/^HTTP\/1\.1 101 /)
    expect(wire.text.toLowerCase()).not.toContain("sec-websocket-extensions")
    wire.close()
  }
})

test("no subprotocol is chosen, whatever is offered", async ({ shared }) => {
  const wire = await upgraded(shared.east, ["Sec-WebSocket-Protocol: json, msgpack"])
  expect(wire.text.toLowerCase()).not.toContain("sec-websocket-protocol")
  wire.close()
})

test("a message in many fragments is one message, with pings in between answered", async ({ shared }) => {
  const wire = await upgraded(shared.east)
  const parts = heartbeat.split("")
  for (const [i, part] of parts.entries()) {
    wire.write(frame(i === 0 ? opcode.text : opcode.continuation, part, { fin: i === parts.length - 1 }))
    wire.write(frame(opcode.ping, "are you there"))
  }
  await wire.hears(ack)
  await until("pongs", () => wire.text.split("are you there").length === parts.length + 1)
  wire.close()
})

describe("what breaks the rules of WebSocket ends the connection, and the worker goes on", () => {
  test.for<[what: string, bytes: Uint8Array]>([
    // The four bytes after the header are taken for a mask: what comes out is nonsense.
    ["frames without a mask", Buffer.concat(Array(3).fill(frame(opcode.text, heartbeat, { masked: false })))],
    ["a reserved bit", frame(opcode.text, heartbeat, { reserved: 0x40 })],
    ["an opcode that nobody knows", frame(3, heartbeat)],
    ["a control opcode that nobody knows", frame(11, "x")],
    ["a fragmented ping", frame(opcode.ping, "x", { fin: false })],
    ["a ping of 126 bytes", frame(opcode.ping, "x".repeat(126))],
    ["a continuation of nothing", frame(opcode.continuation, heartbeat)],
    [
      "a message within another",
      Buffer.concat([frame(opcode.text, "{", { fin: false }), frame(opcode.text, heartbeat)]),
    ],
    ["text that is no UTF-8", frame(opcode.text, Uint8Array.of(0x22, 0xff, 0x22))],
    ["text that ends within a letter", frame(opcode.text, Uint8Array.of(0x22, 0xe2, 0x82))],
    ["a frame longer than any memory", frame(opcode.text, "x", { length: (1n << 62n) + 5n })],
    ["a frame larger than any that is taken", frame(opcode.binary, "x", { length: 20_000_000n })],
    ["a close frame of one byte", frame(opcode.close, "x")],
    ["a close code that may not be sent", frame(opcode.close, Uint8Array.of(0x03, 0xed))],
    ["bytes of chance", Buffer.from("ffff".repeat(50), "hex")],
  ])("%s", async ([, bytes], { shared }) => {
    const wire = await upgraded(shared.east)
    wire.write(bytes)
    await wire.ended
    expect(wire.text).not.toContain(ack)
    const next = await open(shared.east)
    next.say({ op: 1 })
    await next.op(11)
    next.close()
  })

  test("endless fragments are taken up to the size of one message", async ({ shared }) => {
    const wire = await upgraded(shared.east)
    const piece = "x".repeat(60_000)
    wire.write(frame(opcode.text, piece, { fin: false }))
    for (let i = 0; i < 30 && !wire.isEnded; i++) wire.write(frame(opcode.continuation, piece, { fin: false }))
    await wire.ended
  })

  test("what is no request at all, or half of an upgrade, opens nothing", async ({ shared }) => {
    const ada = await shared.person("ada")
    const before = shared.east.gateway.connections
    const bad = [
      randomBytes(4_000),
      Buffer.from("GET /gateway HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"),
      Buffer.from(upgradeLines().replace("GET", "POST")),
      Buffer.from(upgradeLines().replace("HTTP/1.1", "HTTP/9.9")),
    ]
    const wires = bad.map(bytes => {
      const wire = new Wire(shared.east)
      wire.write(bytes)
      return wire
    })
    await expectServed(shared.east, ada)
    for (const [i, wire] of wires.entries()) {
      expect(wire.text, bad[i]!.toString("latin1").slice(0, 200)).not.toContain(" 101 ")
      wire.close()
    }
    await until("nothing stays", () => shared.east.gateway.connections === before)
  })
})

test("1,000 upgrades that never complete hold up nobody, and are ended by timeout", async ({ shared }) => {
  const ada = await shared.person("ada")
  const wires = Array.from({ length: 1_000 }, () => new Wire(shared.east))
  for (const [i, wire] of wires.entries()) wire.write(upgradeLines().slice(0, 20 + (i % 100)))
  await expectServed(shared.east, ada)
  // Some go on byte by byte, for ever.
  const dribbling = setInterval(() => {
    for (const wire of wires.slice(0, 50)) if (!wire.isEnded) wire.write("x")
  }, 1_000)
  try {
    await until("all are ended", () => wires.every(wire => wire.isEnded), { timeoutMs: 60_000, everyMs: 200 })
  } finally {
    clearInterval(dribbling)
    for (const wire of wires) wire.close()
  }
  await expectServed(shared.east, ada)
}, 90_000)

test("a flood of pings and pongs is answered or cut, and others are served meanwhile", async ({ shared }) => {
  const ada = await shared.person("ada")
  const reading = await upgraded(shared.east)
  const deaf = await upgraded(shared.east)
  deaf.socket.pause()
  const pings = Buffer.concat(Array.from({ length: 2_000 }, () => frame(opcode.ping, "x".repeat(125))))
  const pongs = Buffer.concat(Array.from({ length: 2_000 }, () => frame(opcode.pong, "x".repeat(125))))
  for (let i = 0; i < 40; i++) for (const wire of [reading, deaf]) if (!wire.isEnded) wire.write(i % 2 ? pings : pongs)
  await expectServed(shared.east, ada)
  reading.write(frame(opcode.text, heartbeat))
  await until("the one that reads is answered, or cut", () => reading.isEnded || reading.text.includes(ack))
  for (const wire of [reading, deaf]) wire.close()
})

describe("a client that never reads is closed before much is kept for it", () => {
  test.for([false, true])("identified: %s", { timeout: 60_000 }, async (isIdentified, { cluster }) => {
    const [worker] = await cluster.boot(1, { topology: { gateway: { sockets: { budgetBytes: 64 * 1024 } } } })
    const ada = await cluster.person("ada")
    const wire = await upgraded(worker!)
    if (isIdentified) {
      wire.write(frame(opcode.text, JSON.stringify({ op: 2, d: { token: ada.token } })))
      await wire.hears("READY")
    }
    wire.socket.pause()
    const beats = Buffer.concat(Array.from({ length: 5_000 }, () => frame(opcode.text, heartbeat)))
    // The kernel takes some megabytes of answers first.
    await until(
      "it is closed",
      async () => {
        if (worker!.gateway.connections === 0) return true
        await new Promise(resolve => wire.socket.write(beats, resolve))
        return false
      },
      { timeoutMs: 40_000, everyMs: 1 },
    )
    await expectServed(worker!, ada)
    wire.close()
  })
})

test("an IDENTIFY whose token is a thousand brackets deep is refused like any other that is no token", async ({
  shared,
}) => {
  for (const depth of [10, 30_000]) {
    const raw = await open(shared.east)
    raw.say(`{"op":2,"d":{"token":${"[".repeat(depth)}${"]".repeat(depth)}}}`)
    expect(await raw.ended).toEqual(closedWith("authentication_failed"))
  }
})

describe("with heartbeats due every 500 ms", () => {
  const quick = { topology: { gateway: { heartbeatIntervalMs: 500 } } }

  test("heartbeats alone keep no connection: a client that does not identify is closed with 4003", async ({
    cluster,
  }) => {
    const [worker] = await cluster.boot(1, quick)
    const raw = await open(worker!)
    const beating = setInterval(() => raw.say({ op: 1 }), 50)
    expect(await raw.ended).toEqual(closedWith("not_authenticated"))
    clearInterval(beating)
    expect(raw.frames.filter(({ op }) => op === 11).length).toBeGreaterThan(1)
  })

  test("a refused RESUME does not extend the deadline", async ({ cluster }) => {
    const [worker] = await cluster.boot(1, quick)
    const ada = await cluster.person("ada")
    const raw = await open(worker!)
    let asked = 0
    const resuming = setInterval(() => {
      raw.say({ op: 1 })
      // One at a time: another while one is under way would be closed for that.
      if (raw.frames.filter(({ op }) => op === 9).length < asked) return
      asked++
      raw.say({ op: 6, d: { token: ada.token, session_id: "0".repeat(32), seq: 1 } })
    }, 100)
    expect(await raw.ended).toEqual(closedWith("not_authenticated"))
    clearInterval(resuming)
    await raw.op(9)
  })

  test("SUB2: sockets whose other end is gone without a word are freed, and leave their place to the user's next", async ({
    cluster,
  }) => {
    const [worker] = await cluster.boot(1, { ...quick, limited: true })
    const ada = await cluster.person("ada")
    const link = await openLink("clients", () => ({ host: "127.0.0.1", port: worker!.port }))
    const behind = { url: `http://127.0.0.1:${link.port}` }
    try {
      const cut = await Promise.all(Array.from({ length: 5 }, () => identified(behind, ada.token)))
      expect(worker!.gateway.connections).toBe(5)
      link.set({ lost: "requests" })
      await until(
        "the sixth is welcome",
        async () => {
          const sixth = await open(worker!)
          sixth.say({ op: 2, d: { token: ada.token } })
          const outcome = await Promise.race([
            sixth.event("READY").then(() => "ready"),
            sixth.ended.then(() => "closed"),
          ])
          sixth.close()
          return outcome === "ready"
        },
        { timeoutMs: 30_000, everyMs: 1_100 },
      )
      await until("none is left", () => worker!.gateway.connections === 0)
      for (const raw of cut) raw.close()
    } finally {
      await link.close()
    }
  }, 60_000)
})

describe("with limits", () => {
  const floods = (raw: Raw, count: number, what: object) => {
    for (let i = 0; i < count; i++) raw.say(what)
  }
  const acked = async (raw: Raw) => {
    const before = raw.frames.filter(({ op }) => op === 11).length
    raw.say({ op: 1 })
    await until("an answer", () => raw.frames.filter(({ op }) => op === 11).length > before)
  }

  test("120 frames a minute are taken and one more closes with 4008; frames before IDENTIFY count too", async ({
    cluster,
  }) => {
    const [worker] = await cluster.boot(1, { limited: true })
    const ada = await cluster.person("ada")
    const raw = await identified(worker!, ada.token)
    floods(raw, 119, { op: 8, d: {} })
    await acked(raw)
    raw.say({ op: 8, d: {} })
    expect(await raw.ended).toEqual(closedWith("rate_limited"))
    const stranger = await open(worker!)
    const resume = { op: 6, d: { token: ada.token, session_id: "0".repeat(32), seq: 1 } }
    for (let i = 1; i <= 120; i++) {
      stranger.say(resume)
      await until("op 9", () => stranger.frames.filter(({ op }) => op === 9).length === i, { everyMs: 1 })
    }
    stranger.say(resume)
    expect(await stranger.ended).toEqual(closedWith("rate_limited"))
  })

  test("voice signals beyond theirs are ignored, and count against nothing else", async ({ cluster }) => {
    const [worker] = await cluster.boot(1, {
      limited: true,
      topology: { gateway: { frames: { signalsPerMinute: 30 } } },
    })
    const ada = await cluster.person("ada")
    const raw = await identified(worker!, ada.token)
    floods(raw, 30, { op: 26, d: {} })
    // Malformed, which would close the connection; it is not looked at any more.
    floods(raw, 300, { op: 22, d: "nonsense" })
    floods(raw, 100, { op: 8, d: {} })
    await acked(raw)
    raw.close()
  })

  test("heartbeats, frames that are ignored, pings and pongs have their bound, too: one more closes with 4008", async ({
    cluster,
  }) => {
    const [worker] = await cluster.boot(1, { limited: true, topology: { gateway: { frames: { allPerMinute: 40 } } } })
    const acks = (wire: Wire) => wire.text.split(ack).length - 1
    for (const [kind, content] of [
      [opcode.text, heartbeat],
      [opcode.text, "null"],
      [opcode.ping, ""],
      [opcode.pong, ""],
    ] as const) {
      const wire = await upgraded(worker!)
      const each = frame(kind, content)
      wire.write(Buffer.concat(Array.from({ length: 38 }, () => each)))
      wire.write(frame(opcode.text, heartbeat))
      await until("all are taken", () => acks(wire) === (content === heartbeat ? 39 : 1))
      wire.write(Buffer.concat(Array.from({ length: 1_000 }, () => each)))
      await wire.ended
      expect(wire.text.endsWith(closedWith("rate_limited").reason)).toBe(true)
      expect(acks(wire)).toBe(content === heartbeat ? 40 : 1)
    }
  })

  test("what compressed frames hold is bounded, heartbeats included", async ({ cluster }) => {
    const [worker] = await cluster.boot(1, { limited: true })
    const bomb = deflateSync(`{"op":1,"d":"${" ".repeat(260_000)}"}`)
    expect(bomb.length).toBeLessThan(400)
    const raw = await open(worker!)
    for (let i = 0; i < 40; i++) raw.say(bomb)
    expect(await raw.ended).toEqual(closedWith("rate_limited"))
    const modest = await open(worker!)
    for (let i = 0; i < 200; i++) modest.say(deflateSync('{"op":1}'))
    await until("all answers", () => modest.frames.filter(({ op }) => op === 11).length === 200)
    modest.close()
  })

  test("tokens that do not verify count by address: beyond 100 a minute the close is 4008; those that do go on", async ({
    cluster,
  }) => {
    const [worker] = await cluster.boot(1, { limited: true, config: { TRUSTED_PROXIES: "127.0.0.1" } })
    const ada = await cluster.person("ada")
    const from = (address: string) => ({ headers: { "X-Forwarded-For": address } })
    const attempt = async (address: string, i: number, place: Worker = worker!) => {
      const raw = await open(place, from(address))
      raw.say({ op: 2, d: { token: `${1_000 + i}.${"A".repeat(43)}` } })
      return (await raw.ended).code
    }
    for (let i = 0; i < 100; i += 20) {
      const codes = await Promise.all(Array.from({ length: 20 }, (_, k) => attempt("192.0.2.7", i + k)))
      expect(new Set(codes)).toEqual(new Set([4004]))
    }
    expect(await attempt("192.0.2.7", 200)).toBe(4008)
    const resuming = await open(worker!, from("192.0.2.7"))
    resuming.say({ op: 6, d: { token: "nonsense", session_id: "0".repeat(32), seq: 1 } })
    expect(await resuming.ended).toEqual(closedWith("rate_limited"))
    const good = await identified(worker!, ada.token, from("192.0.2.7"))
    good.close()
    expect(await attempt("192.0.2.8", 201)).toBe(4004)
  })
})
