import { once } from "node:events"
import { connect, createServer, type AddressInfo, type Socket } from "node:net"
import { expect, onTestFinished, test } from "vitest"
import { until } from "../kit/until.ts"
import { openLink, type Link } from "./proxy.ts"

/** A server that answers every byte with itself, behind a link. */
async function echo(): Promise<{
  link: Link
  open: () => Promise<{ socket: Socket; received: () => string; closed: () => boolean }>
}> {
  const sockets = new Set<Socket>()
  const server = createServer(socket => {
    sockets.add(socket)
    socket.on("error", () => {})
    socket.on("data", data => socket.write(data))
  })
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  const link = await openLink("echo", () => ({ host: "127.0.0.1", port: (server.address() as AddressInfo).port }))
  onTestFinished(async () => {
    await link.close()
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return {
    link,
    async open() {
      const socket = connect(link.port, "127.0.0.1")
      let text = ""
      let closed = false
      socket.on("data", data => (text += String(data)))
      socket.on("error", () => {})
      socket.on("close", () => (closed = true))
      await once(socket, "connect")
      onTestFinished(() => void socket.destroy())
      return { socket, received: () => text, closed: () => closed }
    },
  }
}

test("without a fault bytes pass both ways, in order", async () => {
  const { open } = await echo()
  const { socket, received } = await open()
  const words = Array.from({ length: 200 }, (_, at) => `${at},`)
  for (const word of words) socket.write(word)
  await until("all came back", () => received() === words.join(""))
})

test("a cut ends what is open and refuses what is new, until it is over", async () => {
  const { link, open } = await echo()
  const first = await open()
  link.set({ cut: true })
  await until("ended", first.closed)
  const refused = await open().catch(() => undefined)
  await until("refused", () => refused === undefined || refused.closed())
  expect(link.counts.cut).toBeGreaterThanOrEqual(2)
  link.set({})
  const { socket, received } = await open()
  socket.write("again")
  await until("it answers", () => received() === "again")
})

test("lost replies: the request arrives, nothing comes back, nobody is told; then the connection is useless", async () => {
  const { link, open } = await echo()
  const { socket, received, closed } = await open()
  link.set({ lost: "replies" })
  socket.write("hello")
  await until("lost", () => link.counts.lostBytes === 5)
  expect(received()).toBe("")
  expect(closed()).toBe(false)
  link.set({})
  await until("ended", closed)
})

test("a delay holds for both ways and keeps the order", async () => {
  const { link, open } = await echo()
  link.set({ delayMs: 150 })
  const { socket, received } = await open()
  const began = performance.now()
  for (const letter of "abcdef") socket.write(letter)
  await until("late", () => received() === "abcdef")
  expect(performance.now() - began).toBeGreaterThan(290)
})

test("a limited bandwidth is not exceeded", async () => {
  const { link, open } = await echo()
  link.set({ bandwidth: 100_000 })
  const { socket, received } = await open()
  const began = performance.now()
  socket.write("x".repeat(40_000))
  await until("all passed", () => received().length === 40_000)
  expect(performance.now() - began).toBeGreaterThan(350)
})

test("held requests of one connection wait for their release, in order; others go on", async () => {
  const { link, open } = await echo()
  const [first, second] = [await open(), await open()]
  for (const { socket } of [first, second]) socket.write(socket === first.socket ? "one" : "two")
  await until("both answered", () => first.received() === "one" && second.received() === "two")
  const hold = link.hold(({ from, hello }) => from === first.socket.localPort && hello === "one")
  first.socket.write("a")
  second.socket.write("c")
  await until("kept", () => hold.bytes === 1 && second.received() === "twoc")
  expect(first.received()).toBe("one")
  hold.release()
  first.socket.write("b")
  await until("released", () => first.received() === "oneab")
})
