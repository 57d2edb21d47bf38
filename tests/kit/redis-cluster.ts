/** A Redis Cluster of a test's own on loopback. Each master may be killed, paused, emptied, and its slots moved. */
import { execFile } from "node:child_process"
import { mkdir, rm } from "node:fs/promises"
import { join } from "node:path"
import { promisify } from "node:util"
import { Redis } from "ioredis"
import { freePort, spawnServer, type ChildServer } from "../../src/std/child-server.ts"
import { until } from "./until.ts"

export interface ClusterMaster {
  readonly name: string
  /** Where it listens; clients may be told another port. */
  readonly port: number
  readonly pid: number
  readonly command: (...words: (string | number)[]) => Promise<unknown>
  pause(): Promise<void>
  resume(): Promise<void>
  /** SIGKILL. Its append-only file stays. */
  kill(): Promise<void>
  /** After `kill`. Resolves when the cluster has it again. */
  start(): Promise<void>
  /** After `kill`: the same master of the same slots, without a key. */
  startEmpty(): Promise<void>
}

export interface RedisCluster {
  /** Of every master, with commas. */
  readonly url: string
  readonly masters: readonly ClusterMaster[]
  /** Kills a master for good. Resolves when its replica serves in its place. */
  failOver(master: ClusterMaster): Promise<void>
  /** Moves slots that hold keys, and as many that do not, from one master to another. @returns how many keys went along */
  moveSlots(from: ClusterMaster, to: ClusterMaster, most: number): Promise<number>
  stop(): Promise<void>
}

type Node = ClusterMaster & { told: number; stop(): Promise<void> }

interface Options {
  folder: string
  masters?: number
  /** Each master has one. */
  replicas?: boolean
  /** The port that clients are told, such as one of a proxy; its own when left out. */
  announce?: (port: number) => Promise<number>
}

const slots = 16_384

export async function startRedisCluster({
  folder,
  masters: count = 3,
  replicas: isReplicated = false,
  announce,
}: Options): Promise<RedisCluster> {
  const masters: Node[] = []
  const replicas = new Map<ClusterMaster, Node>()
  const stop = async () => {
    await Promise.all([...masters, ...replicas.values()].map(node => node.stop()))
    await rm(folder, { recursive: true, force: true })
  }
  try {
    for (let i = 0; i < count; i++) {
      const port = await freePort()
      const told = (await announce?.(port)) ?? port
      masters.push(await startMaster(`master ${i}`, join(folder, String(i)), port, told))
    }
    const [first, ...others] = masters
    for (const [i, master] of masters.entries()) {
      const share = [Math.floor((i * slots) / count), Math.floor(((i + 1) * slots) / count) - 1] as const
      await master.command("CLUSTER", "ADDSLOTSRANGE", ...share)
      await master.command("CLUSTER", "SET-CONFIG-EPOCH", i + 1)
    }
    const [, bus] = (await first!.command("CONFIG", "GET", "cluster-port")) as [string, string]
    for (const other of others) await other.command("CLUSTER", "MEET", "127.0.0.1", first!.port, bus)
    await until("the cluster is whole", async () => (await Promise.all(masters.map(isWhole(count)))).every(Boolean))
    if (isReplicated)
      await Promise.all(
        masters.map(async (master, i) => {
          const port = await freePort()
          const replica = await startMaster(`replica ${i}`, join(folder, `replica-${i}`), port, port)
          replicas.set(master, replica)
          await replica.command("CLUSTER", "MEET", "127.0.0.1", first!.port, bus)
          await follow(replica, master)
        }),
      )
  } catch (error) {
    await stop()
    throw error
  }
  /** A slot that comes back to a master ends the workers whose logs are in it, and nobody starts others in a test's own process. */
  const travelled = new Set<number>()
  return {
    url: masters.map(({ told }) => `redis://127.0.0.1:${told}`).join(","),
    masters,
    async failOver(master) {
      const replica = replicas.get(master)!
      await master.kill()
      const serves = async () => {
        const [role] = (await replica.command("ROLE")) as [string]
        return role === "master" && String(await replica.command("CLUSTER", "INFO")).includes("cluster_state:ok")
      }
      await until("the replica serves", serves, { timeoutMs: 60_000, everyMs: 50 })
    },
    async moveSlots(from, to, most) {
      const ids = { from: await idOf(from), to: await idOf(to) }
      const [full, empty] = (await slotsOf(from, ids.from)).map(slots => slots.filter(slot => !travelled.has(slot)))
      let moved = 0
      for (const slot of [...full!.slice(0, most), ...empty!.slice(0, most)]) {
        travelled.add(slot)
        await to.command("CLUSTER", "SETSLOT", slot, "IMPORTING", ids.from)
        await from.command("CLUSTER", "SETSLOT", slot, "MIGRATING", ids.to)
        for (;;) {
          const keys = (await from.command("CLUSTER", "GETKEYSINSLOT", slot, 20)) as string[]
          if (keys.length === 0) break
          await from.command("MIGRATE", "127.0.0.1", to.port, "", 0, 5_000, "KEYS", ...keys)
          moved += keys.length
        }
        await to.command("CLUSTER", "SETSLOT", slot, "NODE", ids.to)
        await from.command("CLUSTER", "SETSLOT", slot, "NODE", ids.to)
      }
      return moved
    },
    stop,
  }
}

/** Resolves when the replica has what its master had. */
async function follow(replica: Node, master: Node): Promise<void> {
  const id = await idOf(master)
  const isKnown = async () => String(await replica.command("CLUSTER", "NODES")).includes(id)
  await until("the replica knows its master", isKnown, { timeoutMs: 30_000 })
  await replica.command("CLUSTER", "REPLICATE", id)
  const isUp = async () => String(await replica.command("INFO", "replication")).includes("master_link_status:up")
  await until("the replica follows", isUp, { timeoutMs: 30_000 })
}

const idOf = async (master: ClusterMaster) => String(await master.command("CLUSTER", "MYID"))

const isWhole = (count: number) => async (master: ClusterMaster) => {
  const facts = String(await master.command("CLUSTER", "INFO"))
  return facts.includes("cluster_state:ok") && facts.includes(`cluster_size:${count}\r`)
}

/** A master's slots: those with keys, those without. */
async function slotsOf(master: ClusterMaster, id: string): Promise<[full: number[], empty: number[]]> {
  const ranges = (await master.command("CLUSTER", "SLOTS")) as [number, number, [string, number, string]][]
  const full: number[] = []
  const empty: number[] = []
  for (const [first, last, node] of ranges) {
    if (node[2] !== id) continue
    const own = Array.from({ length: last - first + 1 }, (_, i) => first + i)
    const counts = await Promise.all(own.map(slot => master.command("CLUSTER", "COUNTKEYSINSLOT", slot)))
    for (const [i, slot] of own.entries()) (Number(counts[i]) > 0 ? full : empty).push(slot)
  }
  return [full, empty]
}

async function startMaster(name: string, folder: string, port: number, told: number): Promise<Node> {
  await mkdir(folder, { recursive: true })
  const bus = await freePort()
  const { stdout } = await promisify(execFile)("/bin/sh", ["-c", "command -v redis-server || command -v valkey-server"])
  const command = stdout.trim()
  let server: ChildServer | undefined
  let connection: Redis | undefined
  const ask = async (...words: (string | number)[]): Promise<unknown> => {
    if (!connection) {
      connection = new Redis({ host: "127.0.0.1", port, commandTimeout: 10_000, lazyConnect: true })
      connection.on("error", () => {})
    }
    return connection.call(String(words[0]), ...words.slice(1))
  }
  const settings: Record<string, string> = {
    port: String(port),
    bind: "127.0.0.1",
    dir: folder,
    save: "",
    appendonly: "yes",
    appendfsync: "everysec",
    "maxmemory-policy": "noeviction",
    "cluster-enabled": "yes",
    "cluster-port": String(bus),
    "cluster-node-timeout": "2000",
    // A replica need not wait for others that may come.
    "repl-diskless-sync-delay": "0",
    // A master that is away takes its slots along, and no others.
    "cluster-require-full-coverage": "no",
    "cluster-announce-ip": "127.0.0.1",
    "cluster-announce-port": String(told),
  }
  const launch = async () => {
    server = await spawnServer({
      command,
      args: Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value]),
      logFile: `${folder}.log`,
      account: undefined,
      shutdownSignals: [
        ["SIGTERM", 5_000],
        ["SIGKILL", 5_000],
      ],
    })
    await until(`${name} answers`, () =>
      ask("PING").then(
        () => true,
        () => false,
      ),
    )
  }
  const signal = async (signal: NodeJS.Signals) => void process.kill(server!.pid, signal)
  const end = async () => {
    await signal("SIGKILL")
    await server!.exited
    server = undefined
  }
  const start = async () => {
    await launch()
    await until(`${name} is back`, async () => String(await ask("CLUSTER", "INFO")).includes("cluster_state:ok"))
  }
  await launch()
  return {
    name,
    port,
    told,
    get pid() {
      return server!.pid
    },
    command: ask,
    pause: () => signal("SIGSTOP"),
    resume: () => signal("SIGCONT"),
    kill: end,
    start,
    async startEmpty() {
      await rm(join(folder, "appendonlydir"), { recursive: true, force: true })
      await start()
    },
    async stop() {
      connection?.disconnect()
      if (!server) return
      await signal("SIGCONT")
      await server.stop()
    },
  }
}
