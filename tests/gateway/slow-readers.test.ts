/**
 * P9: a slow reader harms only themselves; one who goes on reading has missed nothing; one who
 * stops is closed and may resume.
 */
import { readFile } from "node:fs/promises"
import { opcodes } from "../../src/contract/core/gateway-codes.ts"
import type { Cluster, Worker } from "../kit/cluster.ts"
import { sharedServer } from "../kit/seeds.ts"
import { machineBounds } from "../kit/load.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"
import { frame, opcode, upgraded } from "../kit/wire.ts"

async function counted({ metrics }: Worker, name: string, label?: string | number): Promise<number> {
  const metric = (await metrics.registry.getSingleMetric(name)!.get()) as unknown as {
    values: { value: number; labels: Record<string, unknown> }[]
  }
  return metric.values
    .filter(({ labels }) => label === undefined || Object.values(labels).includes(label))
    .reduce((sum, { value }) => sum + value, 0)
}
const fallen = (worker: Worker) => counted(worker, "starling_gateway_fallen_to_reading_total")

/** 12 kB each: the kernel's buffers on both sides are full after some megabytes. */
const large = (n: number) => `${n} ${"漢".repeat(3_990)}`

/** @param stuckAfterMs milliseconds without progress after which a reader is closed */
async function seeded(
  cluster: Cluster,
  stuckAfterMs: number,
  { budgetBytes = 64 * 1024, heartbeatIntervalMs = 45_000 } = {},
) {
  const sockets = { budgetBytes, sliceBytes: 32 * 1024, stuckAfterMs }
  const topology = { gateway: { heartbeatIntervalMs, sockets } }
  const [worker] = await cluster.boot(1, { topology })
  const seed = await cluster.seed(sharedServer)
  let sent = 0
  /** Posts until it is so. */
  async function flood(what: string, isSo: () => Promise<boolean>): Promise<void> {
    await until(
      what,
      async () => {
        await Promise.all(
          Array.from({ length: 20 }, () => {
            const n = sent++
            return seed.ada.on(worker!).createMessage({ channel_id: seed.channel.id, content: large(n), nonce: `${n}` })
          }),
        )
        return isSo()
      },
      { timeoutMs: 25_000 },
    )
  }
  const history = async () =>
    (
      await cluster.sql<{ id: string }[]>`SELECT id FROM messages WHERE channel_id = ${seed.channel.id} ORDER BY id`
    ).map(row => row.id)
  return { ...seed, worker: worker!, flood, history }
}
const ids = (events: readonly { name: string; data: unknown }[]) =>
  events.map(({ data }) => (data as { id: string }).id)

test(
  "CATCH1, CATCH2, P9: a reader that pauses and goes on gets everything once and in order; the others do not wait",
  { timeout: 60_000 },
  async ({ cluster }) => {
    const { worker, ada, lin, channel, flood, history } = await seeded(cluster, 60_000)
    const [slow, packed, quick] = await Promise.all([
      lin.listen(worker),
      lin.listen(worker, { encoding: "msgpack" }),
      ada.listen(worker),
    ])
    const bound = machineBounds()
    slow.pause()
    packed.pause()
    // One that has fallen behind may catch up for a moment, as the kernel's buffers grow.
    await flood("both have fallen behind", async () => {
      const { slow_sockets } = worker.metrics.holdings.look()["gateway"] as { slow_sockets: Record<string, unknown>[] }
      const most = Math.max(...slow_sockets.map(socket => Number(socket["buffered_bytes"])))
      return new Set(slow_sockets.map(({ encoding }) => encoding)).size === 2 && most > 64 * 1024
    })
    expect(await fallen(worker)).toBeGreaterThanOrEqual(2)
    // Nobody else is held up by them.
    const all = await history()
    let heard = quick.rest()
    await until("the quick one has it all", () => (heard = [...heard, ...quick.rest()]).length >= all.length, {
      timeoutMs: bound(3_000),
    })
    expect(ids(heard)).toEqual(all)
    const sentAt = performance.now()
    await ada.on(worker).createMessage({ channel_id: channel.id, content: "prompt" })
    await quick.next("MESSAGE_CREATE", { where: ({ content }) => content === "prompt" })
    expect(performance.now() - sentAt).toBeLessThan(bound(1_000))

    slow.unpause()
    packed.unpause()
    await ada.on(worker).createMessage({ channel_id: channel.id, content: "the end" })
    for (const inbox of [slow, packed])
      await inbox.next("MESSAGE_CREATE", { where: ({ content }) => content === "the end", timeoutMs: 20_000 })
    await cluster.settle()
    const whole = (await history()).slice(0, -1)
    for (const inbox of [slow, packed]) expect(ids(inbox.rest())).toEqual(whole)
    expect(await counted(worker, "starling_gateway_sessions", "live")).toBe(3)
    expect(await counted(worker, "starling_gateway_closes_total", 4008)).toBe(0)
  },
)

test(
  "P9: a client that stops reading is closed, and resumes with everything when it comes back",
  { timeout: 60_000 },
  async ({ cluster }) => {
    const { worker, ada, lin, flood, history } = await seeded(cluster, 1_500)
    const [stopped, quick] = await Promise.all([lin.listen(worker), ada.listen(worker)])
    stopped.pause()
    // As long as the kernel takes some of it the client makes progress: it must go on until nothing
    // is taken.
    await flood("they are closed", async () => (await counted(worker, "starling_gateway_closes_total", 4008)) === 1)
    expect(await fallen(worker)).toBeGreaterThan(0)
    await until(
      "their session waits",
      async () => (await counted(worker, "starling_gateway_sessions", "detached")) === 1,
    )
    const all = await history()
    let heard = quick.rest()
    await until("the quick one has it all", () => (heard = [...heard, ...quick.rest()]).length >= all.length)
    expect(ids(heard)).toEqual(all)
    // The position that they know is that of the last frame they have read.
    const session = stopped.sessionId
    stopped.drop()
    const before = ids(stopped.rest())
    expect(before).toEqual(all.slice(0, before.length))
    await stopped.reconnect(worker.url)
    stopped.unpause()
    await cluster.settle()
    expect(stopped.sessionId).toBe(session)
    expect([...before, ...ids(stopped.rest())]).toEqual(all)
  },
)

/** Whether a process still has the server's end of a connection, as the kernel says. */
async function isHeld(serverPort: number, clientPort: number): Promise<boolean> {
  const hex = (port: number) => port.toString(16).toUpperCase().padStart(4, "0")
  const texts = await Promise.all(["tcp", "tcp6"].map(name => readFile(`/proc/net/${name}`, "utf8").catch(() => "")))
  return texts
    .flatMap(text => text.split("\n"))
    .map(line => line.trim().split(/\s+/))
    .some(
      ([, local = "", remote = "", , , , , , , inode]) =>
        local.endsWith(`:${hex(serverPort)}`) && remote.endsWith(`:${hex(clientPort)}`) && inode !== "0",
    )
}

test(
  "a connection that is closed while its client leaves bytes untaken does not stay: it would be counted nowhere",
  { timeout: 90_000 },
  async ({ cluster }) => {
    const { worker, lin, flood } = await seeded(cluster, 60_000, {
      budgetBytes: 6 * 1024 * 1024,
      heartbeatIntervalMs: 5_000,
    })
    const port = Number(new URL(worker.url).port)
    const wire = await upgraded(worker)
    const { socket } = wire
    wire.write(frame(opcode.text, JSON.stringify({ op: opcodes.IDENTIFY.op, d: { token: lin.token } })))
    await wire.hears("READY")
    socket.pause()
    const beat = setInterval(() => wire.write(frame(opcode.text, '{"op":1}')), 1_000)
    await flood("it has fallen behind", async () => (await fallen(worker)) > 0)
    clearInterval(beat)
    const { localPort } = socket
    expect(await isHeld(port, localPort!)).toBe(true)
    wire.write(frame(opcode.close, Uint8Array.of(1_000 >> 8, 1_000 & 0xff)))
    await until("it is counted no more", async () => (await counted(worker, "starling_gateway_connections")) === 0)
    // So much that the worker can send on, and then no more.
    const from = socket.bytesRead
    socket.resume()
    await until("some is taken", () => socket.bytesRead - from > 3_000_000, { everyMs: 1 })
    socket.pause()
    await until("it is gone", async () => !(await isHeld(port, localPort!)), { timeoutMs: 40_000, everyMs: 500 })
    wire.close()
  },
)
