/** Two copies of a Redis and three sentinels of a test's own on loopback, real processes all of them. */
import { chmod, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Redis } from "ioredis"
import { freePort, spawnServer, type ChildServer } from "../../src/std/child-server.ts"
import { until } from "./until.ts"

export interface SentinelRedis {
  /** `redis+sentinel://…`, with other sentinels than all of them if named. */
  url(ports?: readonly number[]): string
  /** Ports, in the order in which they are asked. */
  readonly sentinels: readonly number[]
  /** The port of the server that the sentinels call master. */
  master(): Promise<number>
  /** Of a server or a sentinel. */
  signal(port: number, signal: NodeJS.Signals): void
  /** Whether a server copies the other by now. */
  isCopy(port: number): Promise<boolean>
  /** From here on the sentinels take no server for down; the first is not asked, as it may be paused. */
  becomePatient(): Promise<void>
  stop(): Promise<void>
}

const name = "starling"

export async function startRedisSentinel(): Promise<SentinelRedis> {
  const folder = await mkdtemp(join(tmpdir(), "starling-sentinel-"))
  await chmod(folder, 0o700)
  const servers = new Map<number, ChildServer>()
  const connections: Redis[] = []
  const start = async (port: number, settings: readonly string[], ...args: string[]) => {
    const place = join(folder, String(port))
    await mkdir(place)
    const file = join(place, "redis.conf")
    await writeFile(file, [`port ${port}`, "bind 127.0.0.1", `dir ${place}`, ...settings, ""].join("\n"))
    const server = await spawnServer({
      command: "redis-server",
      args: [file, ...args],
      logFile: join(place, "log"),
      account: undefined,
      shutdownSignals: [["SIGKILL", 5_000]],
    })
    servers.set(port, server)
    const redis = new Redis(port, "127.0.0.1", { retryStrategy: () => 50, commandTimeout: 1_000 })
    redis.on("error", () => {})
    connections.push(redis)
    await until(`${port} answers`, async () => (await redis.ping().catch(() => "")) === "PONG")
    return redis
  }
  const stop = async () => {
    for (const redis of connections) redis.disconnect()
    await Promise.all([...servers.values()].map(server => server.stop()))
    await rm(folder, { recursive: true, force: true })
  }
  try {
    const ports = await Promise.all(Array.from({ length: 5 }, () => freePort()))
    const [first, second, ...sentinels] = ports as [number, number, ...number[]]
    const data = ["appendonly yes", "maxmemory-policy noeviction", "repl-diskless-sync-delay 0"]
    const one = await start(first, data)
    const other = await start(second, [...data, `replicaof 127.0.0.1 ${first}`])
    const replication = async (redis: Redis) => redis.info("replication")
    await until("the copy is one", async () => (await replication(other)).includes("master_link_status:up"))
    const watching = [
      `sentinel monitor ${name} 127.0.0.1 ${first} 2`,
      `sentinel down-after-milliseconds ${name} 1000`,
      `sentinel failover-timeout ${name} 4000`,
    ]
    const watchers = await Promise.all(sentinels.map(port => start(port, watching, "--sentinel")))
    const asked = watchers.at(-1)!
    const sees = async (sentinel: Redis) => {
      const facts = (await sentinel.call("SENTINEL", "MASTER", name)) as string[]
      const fact = (key: string) => facts[facts.indexOf(key) + 1]
      return fact("num-other-sentinels") === "2" && fact("num-slaves") === "1"
    }
    await until("the sentinels know everybody", async () => (await Promise.all(watchers.map(sees))).every(Boolean))
    const connectionTo = new Map([
      [first, one],
      [second, other],
    ])
    return {
      url: (ports = sentinels) => `redis+sentinel://${ports.map(port => `127.0.0.1:${port}`).join(",")}/${name}`,
      sentinels,
      async master() {
        const [, port] = (await asked.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", name)) as [string, string]
        return Number(port)
      },
      signal: (port, signal) => void process.kill(servers.get(port)!.pid, signal),
      async isCopy(port) {
        const facts = await replication(connectionTo.get(port)!).catch(() => "")
        return facts.includes("role:slave") && facts.includes("master_link_status:up")
      },
      async becomePatient() {
        const setting = ["SET", name, "down-after-milliseconds", 600_000] as const
        await Promise.all(watchers.slice(1).map(sentinel => sentinel.call("SENTINEL", ...setting)))
      },
      stop,
    }
  } catch (error) {
    await stop()
    throw error
  }
}
