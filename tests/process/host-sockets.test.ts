/** Workers of one host talk over unix sockets; Redis is the road between hosts, and the one that is left. */
import { chmod, mkdtemp, readdir, rm, stat } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { check, communities, load, machineBounds } from "../kit/load.ts"
import { startProcesses, type Processes } from "../kit/processes.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const sumOf = async (host: Processes, name: string) =>
  [...(await host.metrics())].filter(([key]) => key.startsWith(name)).reduce((sum, [, value]) => sum + value, 0)
const sockets = (host: Processes) => sumOf(host, "starling_bus_sockets{")
const sentBy = (host: Processes, road: "socket" | "redis") => sumOf(host, `starling_bus_messages_total{road="${road}"`)
/** Each process of a host has one to each other process of it. */
const isConnected = (host: Processes, processes: number) => async () =>
  (await sockets(host)) === processes * (processes - 1)

test(
  "P1 to P3: workers of one host ask one another without Redis, also after one was killed, paused, or had its socket removed; two hosts use Redis",
  { timeout: 180_000 },
  async ({ cluster }) => {
    const folder = await mkdtemp(join(tmpdir(), "starling-s-"))
    await chmod(folder, 0o755)
    const running: Processes[] = []
    const foldersOf = async () => (await readdir(folder)).filter(name => name.startsWith("starling-sockets-"))
    const start = async (workers: number, env: Record<string, string> = {}) => {
      const host = await startProcesses({
        WORKERS: String(workers),
        DATABASE_URL: cluster.databaseUrl,
        TMPDIR: folder,
        ...env,
      })
      running.unshift(host)
      return host
    }
    try {
      const host = await start(2)
      await until("its processes are connected", isConnected(host, 3), { timeoutMs: 20_000 })
      const [own] = await foldersOf()
      expect((await stat(join(folder, own!))).mode & 0o777).toBe(0o700)
      expect(await readdir(join(folder, own!))).toHaveLength(3)

      const { ada, lin, list } = await communities(cluster, 6, host)
      const inbox = await lin.listen(host, { autoReconnect: true, backoff: { firstMs: 20, maxMs: 500 } })
      const sending = load(ada, list, () => host)
      await sending.goesOn()
      const before = { socket: await sentBy(host, "socket"), redis: await sentBy(host, "redis") }
      await sending.goesOn(10)
      expect(await sentBy(host, "socket")).toBeGreaterThan(before.socket)
      expect(await sentBy(host, "redis")).toBe(before.redis)

      const bound = machineBounds()
      const workerOf = async (slot: string) => (await host.workers()).find(one => one.slot === slot)!.pid
      const killedAt = performance.now()
      host.kill(await workerOf("web 0"), "SIGKILL")
      await sending.goesOn()
      expect(sending.longestGap(killedAt)).toBeLessThan(bound(8_000))
      await until("its successor is connected", isConnected(host, 3), { timeoutMs: 20_000 })
      expect(await readdir(join(folder, own!))).toHaveLength(3)

      // Until the others take it for dead; it finds that out when it goes on.
      const paused = await workerOf("web 1")
      const pausedAt = performance.now()
      host.kill(paused, "SIGSTOP")
      await sleep(5_000)
      host.kill(paused, "SIGCONT")
      await sending.goesOn()
      expect(sending.longestGap(pausedAt)).toBeLessThan(bound(10_000))
      await until("its successor is connected", isConnected(host, 3), { timeoutMs: 20_000 })

      // Those that are connected stay so; who comes next is reached through Redis, or reaches the others.
      for (const name of await readdir(join(folder, own!))) await rm(join(folder, own!, name))
      await sending.goesOn()
      expect(await isConnected(host, 3)()).toBe(true)
      host.kill(await workerOf("web 0"), "SIGKILL")
      await sending.goesOn(10)
      await sending.end()
      await check(cluster, list, sending.acked, [inbox])

      // Another host, with the same folder for temporary files.
      const beside = await start(1, { REDIS_URL: host.redisUrl })
      await until("its processes are connected", isConnected(beside, 2), { timeoutMs: 20_000 })
      const throughRedis = await sentBy(beside, "redis")
      await until("it owns a share", async () => (await sumOf(beside, "starling_shards_owned")) > 0)
      for (const { channel } of list)
        for (const at of [host, beside]) await ada.on(at).createMessage({ channel_id: channel, content: "across" })
      expect(await sentBy(beside, "redis")).toBeGreaterThan(throughRedis)
      expect(await isConnected(beside, 2)()).toBe(true)

      // What a killed primary leaves, the next one removes.
      const [left] = (await foldersOf()).filter(name => name !== own)
      for (const { pid } of [...(await beside.workers()), { pid: beside.pid }]) beside.kill(pid, "SIGKILL")
      await beside.ended
      expect(await foldersOf()).toContain(left)
      const next = await start(1, { REDIS_URL: host.redisUrl })
      expect(await foldersOf()).not.toContain(left)
      for (const one of [next, host]) {
        one.kill(one.pid, "SIGTERM")
        expect(await one.ended).toBe(0)
      }
      expect(await foldersOf()).toEqual([])
    } finally {
      for (const host of running) await host.stop()
      await rm(folder, { recursive: true, force: true })
    }
  },
)
