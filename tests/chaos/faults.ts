/**
 * Everything that is done to the system. A fault says when it begins and when it is over, and
 * counts what it did.
 */
import { execFile } from "node:child_process"
import { readdir, readFile, readlink } from "node:fs/promises"
import { setTimeout as sleep } from "node:timers/promises"
import { promisify } from "node:util"
import { until } from "../kit/until.ts"
import type { FaultKind } from "./history.ts"
import type { Link, Weather } from "./proxy.ts"
import type { Reader } from "./reader.ts"
import type { Host, RedisService, System, WorkerProcess } from "./system.ts"

export interface Scene {
  system: System
  readers: readonly Reader[]
  /**
   * Whether some messages are as large as may be. The answer is how many were acknowledged since it
   * was last begun.
   */
  fatten: (isFat: boolean) => number
  /** Chosen by the seed: which worker, which Redis, which reader. */
  choice: number
  /** Milliseconds that it lasts. */
  hold: number
  /** From here on it counts. */
  begin(target?: string): void
  /** How often it was seen to happen; a fault that leaves this at 0 did not take place. */
  count(times?: number): void
}

export interface Fault {
  name: string
  kind: FaultKind
  /**
   * Milliseconds: how long it lasts, and what the system is left alone afterwards in a short run.
   */
  hold: number
  rest: number
  /** Too long for a short run. */
  long?: true
  /** Times in one round of a long run. */
  weight?: number
  run(scene: Scene): Promise<void>
}

const pick = <T>(list: readonly T[], choice: number): T => {
  if (list.length === 0) throw new Error("nothing to choose from")
  return list[choice % list.length]!
}

interface Target {
  host: Host
  worker: WorkerProcess
  name: string
}

async function workersOf(system: System, role: "web" | "job"): Promise<Target[]> {
  const found = await Promise.all(
    system.hosts.map(async host =>
      (await host.workers())
        .filter(({ slot }) => slot.startsWith(role))
        .map(worker => ({ host, worker, name: `${host.name} ${worker.slot}` })),
    ),
  )
  return found.flat().toSorted((a, b) => a.name.localeCompare(b.name))
}

const webWorkers = (system: System) => workersOf(system, "web")

/** Any: jobs wait while there is none. */
async function jobWorker({ system, choice }: Scene): Promise<Target> {
  let targets: Target[] = []
  await until("a job worker lives", async () => (targets = await workersOf(system, "job")).length > 0, {
    timeoutMs: 15_000,
    everyMs: 50,
  })
  return pick(targets, choice)
}

/** A fault of one worker needs another that goes on. */
async function oneWorker({ system, choice }: Scene): Promise<Target> {
  let targets: Target[] = []
  await until("two workers live", async () => (targets = await webWorkers(system)).length > 1, {
    timeoutMs: 15_000,
    everyMs: 50,
  })
  return pick(targets, choice)
}

async function serving(host: Host): Promise<number> {
  return (await host.metrics().catch(() => new Map<string, number>())).get('starling_processes{role="web"}') ?? 0
}

async function paused(scene: Scene, targets: readonly Target[], hold: number): Promise<void> {
  scene.begin(targets.map(({ name }) => name).join(", "))
  for (const { host, worker } of targets) host.signal(worker.pid, "SIGSTOP")
  scene.count(targets.length)
  await sleep(hold)
  for (const { host, worker } of targets) host.signal(worker.pid, "SIGCONT")
}

async function killed(scene: Scene, targets: readonly Target[]): Promise<void> {
  scene.begin(targets.map(({ name }) => name).join(", "))
  for (const { host, worker } of targets) host.signal(worker.pid, "SIGKILL")
  scene.count(targets.length)
}

/** The ports from which a process has connected; what the kernel tells of it. */
async function portsOf(pid: number): Promise<Set<number>> {
  const open = await readdir(`/proc/${pid}/fd`)
  const places = await Promise.all(open.map(fd => readlink(`/proc/${pid}/fd/${fd}`).catch(() => "")))
  const inodes = new Set(places.flatMap(place => /^socket:\[(\d+)\]$/.exec(place)?.[1] ?? []))
  const table = await readFile(`/proc/${pid}/net/tcp`, "utf8")
  const rows = table.trim().split("\n").slice(1)
  return new Set(
    rows.flatMap(row => {
      const columns = row.trim().split(/\s+/)
      return inodes.has(columns[9] ?? "") ? [Number.parseInt(columns[1]!.split(":")[1]!, 16)] : []
    }),
  )
}

/**
 * A batch of one is on its way to PostgreSQL and arrives when its shards have other owners: the
 * fence must refuse it.
 */
async function pausedInCommit(scene: Scene): Promise<void> {
  await oneWorker(scene)
  const owners = await Promise.all(
    (await webWorkers(scene.system)).map(async target => ({ target, ports: await portsOf(target.worker.pid) })),
  )
  // Not every worker owns something that is written to: the worker that commits next is the one.
  const lanes = owners.flatMap(({ target, ports }) =>
    scene.system.links.postgres.map(link => ({
      target,
      held: link.hold(({ from, hello }) => ports.has(from) && hello.includes(" lane ")),
    })),
  )
  try {
    await until("a batch is on its way", () => lanes.some(({ held }) => held.bytes > 0), { timeoutMs: 5_000 })
    const { host, worker, name } = lanes.find(({ held }) => held.bytes > 0)!.target
    for (const { target, held } of lanes) if (target.worker !== worker) held.release()
    scene.begin(name)
    host.signal(worker.pid, "SIGSTOP")
    await sleep(scene.hold)
    for (const { held } of lanes) held.release()
    await sleep(200) // PostgreSQL answers before the owner can think it over
    host.signal(worker.pid, "SIGCONT")
    scene.count()
  } finally {
    for (const { held } of lanes) held.release()
  }
}

/** One after the other, each when the one before has been replaced. */
async function inTurn(scene: Scene): Promise<void> {
  const targets = await webWorkers(scene.system)
  scene.begin(targets.map(({ name }) => name).join(", "))
  for (const { host, worker } of targets) {
    const all = targets.filter(other => other.host === host).length
    host.signal(worker.pid, "SIGTERM")
    scene.count()
    await until(
      `${worker.slot} is replaced`,
      async () => !(await host.workers()).some(({ pid }) => pid === worker.pid) && (await serving(host)) === all,
      { timeoutMs: 30_000, everyMs: 100 },
    )
  }
}

/** Descriptors up to the number that is open: none is left. */
async function withoutDescriptors(scene: Scene): Promise<void> {
  const { worker, name } = await oneWorker(scene)
  const run = promisify(execFile)
  const { stdout } = await run("prlimit", ["--pid", String(worker.pid), "--nofile", "--noheadings", "--output=SOFT"])
  const limit = (soft: string) => run("prlimit", ["--pid", String(worker.pid), `--nofile=${soft}:`])
  const open = (await readdir(`/proc/${worker.pid}/fd`)).length
  scene.begin(name)
  await limit(String(open))
  scene.count()
  await sleep(scene.hold)
  await limit(stdout.trim()).catch((error: Error) => {
    if (!/No such process/.test(error.message)) throw error
  })
}

type Way = "postgres" | "redis" | "public"

/** What the links have counted of what a weather does. */
const effects = (links: readonly Link[], weather: Weather) =>
  links.reduce((sum, { counts }) => {
    if (weather.cut) return sum + counts.cut
    if (weather.lost) return sum + counts.lostBytes
    return sum + (weather.delayMs ? counts.delayedPieces : counts.throttledPieces)
  }, 0)

const weather =
  (way: Way, what: Weather): Fault["run"] =>
  async scene => {
    const all = scene.system.links[way]
    // Of several ways to one place one is enough, and of several Redis all: a command may need any.
    const links = way === "public" ? [pick(all, scene.choice)] : all
    const before = effects(links, what)
    scene.begin(links.map(({ name }) => name).join(", "))
    for (const link of links) link.set(what)
    await sleep(scene.hold)
    scene.count(effects(links, what) - before)
    for (const link of links) link.set({})
  }

const clock =
  (seconds: number): Fault["run"] =>
  async scene => {
    const { host, worker, name } = await oneWorker(scene)
    if (!host.shiftClock) throw new Error("this host's clock cannot be moved")
    scene.begin(name)
    await host.shiftClock(worker.slot, seconds)
    scene.count()
    await sleep(scene.hold)
    await host.shiftClock(worker.slot, 0)
  }

const redis =
  (act: (redis: RedisService, scene: Scene) => Promise<void>): Fault["run"] =>
  async scene => {
    const one = pick(scene.system.redis, scene.choice)
    scene.begin(one.name)
    await act(one, scene)
  }

const pausedRedis = redis(async (one, scene) => {
  await one.pause()
  scene.count()
  await sleep(scene.hold)
  await one.resume()
})

export const faults: readonly Fault[] = [
  {
    name: "worker killed",
    kind: "worker",
    hold: 0,
    rest: 5_200,
    weight: 3,
    run: async scene => killed(scene, [await oneWorker(scene)]),
  },
  {
    name: "worker paused for twice its lease",
    kind: "worker",
    hold: 5_500,
    rest: 2_000,
    long: true, // the next one is this and more
    weight: 2,
    run: async scene => paused(scene, [await oneWorker(scene)], scene.hold),
  },
  {
    name: "worker paused in the middle of a commit",
    kind: "worker",
    hold: 5_000,
    rest: 2_000,
    weight: 2,
    run: pausedInCommit,
  },
  {
    name: "event loop stalled",
    kind: "worker",
    hold: 500,
    rest: 500,
    run: async scene => paused(scene, [await oneWorker(scene)], scene.hold),
  },
  {
    name: "all workers killed",
    kind: "all",
    hold: 0,
    rest: 3_500,
    run: async scene => killed(scene, await webWorkers(scene.system)),
  },
  {
    name: "all workers paused",
    kind: "all",
    hold: 3_000,
    rest: 2_000,
    long: true,
    run: async scene => paused(scene, await webWorkers(scene.system), scene.hold),
  },
  { name: "workers told to end in turn", kind: "rolling", hold: 4_500, rest: 1_000, run: inTurn },
  { name: "descriptors exhausted", kind: "worker", hold: 1_500, rest: 600, run: withoutDescriptors },

  { name: "redis paused 1 s", kind: "dependency", hold: 1_000, rest: 1_000, run: pausedRedis },
  { name: "redis paused 5 s", kind: "dependency", hold: 5_000, rest: 3_000, long: true, run: pausedRedis },
  { name: "redis paused 30 s", kind: "dependency", hold: 30_000, rest: 5_000, long: true, run: pausedRedis },
  {
    name: "redis killed, its file kept",
    kind: "dependency",
    hold: 500,
    rest: 2_500,
    run: redis(async (one, scene) => {
      await one.kill()
      scene.count()
      await sleep(scene.hold)
      await one.start()
    }),
  },
  {
    name: "redis killed, nothing kept",
    kind: "dependency",
    hold: 500,
    rest: 2_500,
    run: redis(async (one, scene) => {
      await one.kill()
      scene.count()
      await sleep(scene.hold)
      await one.startEmpty()
    }),
  },
  {
    name: "redis replaced by an empty one",
    kind: "dependency",
    hold: 0,
    rest: 3_000,
    long: true,
    run: redis(async (one, scene) => {
      await one.kill()
      await one.startEmpty()
      scene.count()
    }),
  },
  {
    name: "redis out of memory",
    kind: "dependency",
    hold: 1_500,
    rest: 1_000,
    run: redis(async (one, scene) => {
      await one.configure("maxmemory", "1mb")
      scene.count()
      await sleep(scene.hold)
      await one.configure("maxmemory", "0")
    }),
  },
  { name: "redis cut off", kind: "dependency", hold: 600, rest: 800, run: weather("redis", { cut: true }) },
  {
    name: "redis replies lost",
    kind: "dependency",
    hold: 1_200,
    rest: 1_000,
    run: weather("redis", { lost: "replies" }),
  },
  {
    name: "redis 2 s late",
    kind: "dependency",
    hold: 6_000,
    rest: 3_000,
    long: true,
    run: weather("redis", { delayMs: 1_000 }),
  },

  {
    name: "postgres killed",
    kind: "dependency",
    hold: 500,
    rest: 2_000,
    weight: 2,
    async run({ system: { postgres }, begin, count, hold }) {
      begin(postgres.name)
      await postgres.kill()
      count()
      await sleep(hold)
      await postgres.start()
    },
  },
  {
    name: "postgres paused",
    kind: "dependency",
    hold: 1_500,
    rest: 1_000,
    async run({ system: { postgres }, begin, count, hold }) {
      begin(postgres.name)
      await postgres.pause()
      count()
      await sleep(hold)
      await postgres.resume()
    },
  },
  {
    name: "postgres out of connections",
    kind: "dependency",
    hold: 1_200,
    rest: 1_200,
    async run({ system: { postgres, links }, begin, count, hold }) {
      begin(postgres.name)
      const letGo = await postgres.exhaust()
      // Clients with a connection would not notice; those that must make a new one do.
      for (const link of links.postgres) link.reset()
      count()
      await sleep(hold)
      await letGo()
    },
  },
  {
    name: "postgres disk full",
    kind: "dependency",
    hold: 1_500,
    rest: 2_000,
    async run({ system: { postgres }, begin, count, hold }) {
      if (!postgres.fillDisk) throw new Error("this disk cannot be filled")
      begin(postgres.name)
      const free = await postgres.fillDisk()
      count()
      await sleep(hold)
      await free()
      await postgres.start() // it may have given up
    },
  },
  { name: "postgres cut off", kind: "dependency", hold: 600, rest: 800, run: weather("postgres", { cut: true }) },
  {
    name: "postgres replies lost",
    kind: "dependency",
    hold: 1_200,
    rest: 1_000,
    run: weather("postgres", { lost: "replies" }),
  },
  {
    name: "postgres 2 s late",
    kind: "dependency",
    hold: 6_000,
    rest: 3_000,
    long: true,
    run: weather("postgres", { delayMs: 1_000 }),
  },

  {
    name: "clients reset",
    kind: "public",
    hold: 0,
    rest: 600,
    weight: 2,
    async run({ system: { links }, begin, count }) {
      begin("public")
      for (const link of links.public) {
        link.reset()
        count(link.counts.connections)
      }
    },
  },
  { name: "clients cut off", kind: "public", hold: 700, rest: 800, run: weather("public", { cut: true }) },
  {
    name: "clients' replies lost",
    kind: "public",
    hold: 1_200,
    rest: 1_000,
    run: weather("public", { lost: "replies" }),
  },
  {
    name: "clients 2 s late",
    kind: "public",
    hold: 5_000,
    rest: 3_000,
    long: true,
    run: weather("public", { delayMs: 1_000 }),
  },
  {
    name: "clients at 64 KiB/s",
    kind: "public",
    hold: 4_000,
    rest: 1_000,
    long: true,
    run: weather("public", { bandwidth: 65_536 }),
  },

  // These go on beside the others.
  {
    name: "fat messages",
    kind: "load",
    hold: 2_500,
    rest: 500,
    async run({ fatten, begin, count, hold }) {
      begin("some messages")
      fatten(true)
      try {
        await sleep(hold)
        await until("a fat message is acknowledged", () => fatten(true) > 0, { timeoutMs: 30_000 })
      } finally {
        count(fatten(false))
      }
    },
  },
  {
    name: "job worker killed",
    kind: "job",
    hold: 0,
    rest: 3_000,
    weight: 2,
    run: async scene => killed(scene, [await jobWorker(scene)]),
  },
  {
    name: "job worker paused",
    kind: "job",
    hold: 3_000,
    rest: 1_000,
    run: async scene => paused(scene, [await jobWorker(scene)], scene.hold),
  },
  {
    // Its primary kills one that has stood still for ten seconds.
    name: "job worker stuck",
    kind: "job",
    hold: 13_000,
    rest: 2_000,
    long: true,
    run: async scene => paused(scene, [await jobWorker(scene)], scene.hold),
  },
  { name: "clock +1 h", kind: "clock", hold: 3_000, rest: 1_500, run: clock(3_600) },
  { name: "clock -1 h", kind: "clock", hold: 3_000, rest: 1_500, run: clock(-3_600) },
  { name: "clock +1 s", kind: "clock", hold: 3_000, rest: 1_500, run: clock(1) },
  { name: "clock -1 s", kind: "clock", hold: 3_000, rest: 1_500, run: clock(-1) },
  {
    name: "reader stopped",
    kind: "reader",
    hold: 3_000,
    rest: 1_000,
    async run({ readers, choice, begin, count, hold }) {
      const reader = pick(readers, choice)
      begin(reader.name)
      reader.pause()
      count()
      await sleep(hold)
      reader.unpause()
    },
  },
  {
    name: "reader slow",
    kind: "reader",
    hold: 4_000,
    rest: 1_000,
    async run({ readers, choice, begin, count, hold }) {
      const reader = pick(readers, choice)
      begin(reader.name)
      for (const end = performance.now() + hold; performance.now() < end;) {
        reader.pause()
        await sleep(400)
        reader.unpause()
        count()
        await sleep(20)
      }
    },
  },
]
