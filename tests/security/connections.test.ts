/** How much one address holds of a worker before anybody has identified: connections, sockets, requests, frames that do not end. */
import { connect, type Socket } from "node:net"
import { open, Raw } from "../kit/raw.ts"
import type { Endpoint } from "../kit/person.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const nobodyExempt = { UNLIMITED_ADDRESSES: "", TRUSTED_PROXIES: "127.0.0.1" }
const from = (address: string) => ({ headers: { "X-Forwarded-For": address } })

/** Sends text over a connection of its own. @returns what came until it ended or a while had passed */
async function spoken(place: Endpoint, text: string, forMs = 5_000): Promise<{ text: string; isEnded: boolean }> {
  const socket = connect(Number(new URL(place.url).port), "127.0.0.1")
  let received = ""
  let isEnded = false
  socket.on("error", () => {}).on("data", piece => (received += piece.toString("latin1")))
  socket.on("close", () => (isEnded = true))
  socket.write(text)
  await until("it is over", () => isEnded, { timeoutMs: forMs }).catch(() => {})
  socket.destroy()
  return { text: received, isEnded }
}

const upgrade = (version: string) =>
  `GET /gateway HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: ${version}\r\n\r\n`

test("a /64 has so many sockets that have not identified, another one its own, and who identifies makes way", async ({
  cluster,
}) => {
  const topology = { gateway: { sockets: { maxUnidentifiedPerAddress: 3, maxPerAddress: 5 } } }
  const [worker] = await cluster.boot(1, { config: nobodyExempt, topology })
  const ada = await cluster.person("ada")
  const first = await Promise.all([1, 2, 3].map(i => open(worker!, from(`2001:db8:1:2::${i}`))))
  const refused = new Raw(worker!, from("2001:db8:1:2:ffff::9"))
  expect((await refused.ended).code).toBe(1006)
  expect(refused.frames).toEqual([])
  const other = await open(worker!, from("2001:db8:1:3::1"))
  first[0]!.say({ op: 2, d: { token: ada.token } })
  await first[0]!.event("READY")
  const next = await open(worker!, from("2001:db8:1:2::4"))
  first[1]!.close()
  await until("it is gone", () => worker!.gateway.connections === 4)
  const third = await open(worker!, from("2001:db8:1:2::5"))
  for (const raw of [...first, other, next, third]) raw.close()
})

test("a /56 has four times, a /48 sixteen times as many sockets without a session as a /64", async ({ cluster }) => {
  const topology = { gateway: { sockets: { maxUnidentifiedPerAddress: 1, maxPerAddress: 50 } } }
  const [worker] = await cluster.boot(1, { config: nobodyExempt, topology })
  const attempt = async (address: string) => {
    const raw = new Raw(worker!, from(address))
    return Promise.race([raw.op(10).then(() => raw), raw.ended.then(() => undefined)])
  }
  const opened = async (addresses: string[]) => {
    const raws = await Promise.all(addresses.map(attempt))
    return raws.filter(raw => raw !== undefined)
  }
  const nets = (count: number, net: (i: number) => string) => Array.from({ length: count }, (_, i) => net(i))
  const first = await opened(nets(8, i => `2001:db8:1:${i}::1`))
  const others = await opened(nets(20, i => `2001:db8:1:${((i + 1) << 8).toString(16)}::1`))
  const beside = await opened(["2001:db8:2:1::1"])
  expect([first.length, others.length, beside.length]).toEqual([4, 12, 1])
  first[0]!.close()
  await until("it is gone", () => worker!.gateway.connections === 16)
  const next = await opened(["2001:db8:1:f000::1"])
  expect(next.length).toBe(1)
  for (const raw of [...first, ...others, ...beside, ...next]) raw.close()
})

test("a socket that does not identify is closed after its time, heartbeats or not, and so is one whose frame never ends", async ({
  cluster,
}) => {
  const topology = { gateway: { identify: { timeoutMs: 1_500 } } }
  const [worker] = await cluster.boot(1, { topology })
  const [silent, beating, dripping] = await Promise.all([open(worker!), open(worker!), open(worker!)])
  const talking = setInterval(() => beating.say({ op: 1 }), 200)
  // The beginning of a text frame of 1,000 bytes in fragments, of which one comes now and then.
  const socket: Socket = connect(Number(new URL(worker!.url).port), "127.0.0.1")
  let isEnded = false
  socket
    .on("error", () => {})
    .on("data", () => {})
    .on("close", () => (isEnded = true))
  socket.write(upgrade("13"))
  const fragments = setInterval(() => socket.write(Buffer.from([0x01, 0x81, 0, 0, 0, 0, 0x7b])), 200)
  const startedAt = Date.now()
  expect(await silent.ended).toEqual({ code: 4003, reason: "Not authenticated" })
  expect(await beating.ended).toEqual({ code: 4003, reason: "Not authenticated" })
  expect((await dripping.ended).code).toBe(4003)
  await until("the one that drips is closed", () => isEnded)
  expect(Date.now() - startedAt).toBeLessThan(30_000)
  clearInterval(talking)
  clearInterval(fragments)
})

test("an upgrade to another version of WebSocket than 13 gets 426 with the version that there is", async ({
  shared,
}) => {
  for (const version of ["8", "7", "", "14"]) {
    const { text } = await spoken(shared.east, upgrade(version), 500)
    expect(text).toMatch(/^HTTP\/1\.1 426 Upgrade Required\r\n/)
    expect(text).toContain("\r\nSec-WebSocket-Version: 13\r\n")
  }
  expect((await spoken(shared.east, upgrade("13"), 500)).text).toMatch(/^HTTP\/1\.1 101 /)
})

test("an address has so many requests under way; the others are refused until one ends", async ({ cluster }) => {
  const topology = { http: { connections: { requestsPerAddress: 4 } } }
  const [worker] = await cluster.boot(1, { config: nobodyExempt, topology })
  const head =
    "POST /api/v1/auth/login HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 192.0.2.1\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"
  const sockets = Array.from({ length: 4 }, () => {
    const socket = connect(Number(new URL(worker!.url).port), "127.0.0.1")
    socket.on("error", () => {}).write(head)
    return socket
  })
  const status = async (address: string) =>
    (await fetch(`${worker!.url}/livez`, { headers: { "X-Forwarded-For": address } })).status
  await until("they are under way", async () => (await status("192.0.2.1")) === 429)
  expect(await status("192.0.2.2")).toBe(200)
  sockets[0]!.destroy()
  await until("one has ended", async () => (await status("192.0.2.1")) === 200)
  for (const socket of sockets) socket.destroy()
})

test("an address opens so many connections in a while; those beyond are closed at once", async ({ cluster }) => {
  const topology = { http: { connections: { openedPerAddress: 20 } } }
  const config = { UNLIMITED_ADDRESSES: "", CONNECTIONS_PER_USER: "5" }
  const [worker] = await cluster.boot(1, { config, topology, unbalanced: true })
  const answers = []
  for (let i = 0; i < 30; i++)
    answers.push(await spoken(worker!, "GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
  const served = answers.filter(({ text }) => text.startsWith("HTTP/1.1 200")).length
  expect(served).toBe(20)
  expect(answers.slice(20).every(({ text, isEnded }) => text === "" && isEnded)).toBe(true)
})
