import { access, constants } from "node:fs/promises"
import type { ClusterConfig } from "../../../cluster.config.ts"
import { ConfigError, readConfig, webWorkersOf, type Config } from "../../config.ts"
import { openRedis } from "../../cluster/redis.ts"
import { mastersOf } from "../../cluster/replication.ts"
import { databaseFacts, oldestPostgres, type DatabaseFacts } from "../../storage/core/database-facts.ts"
import { runningPostgres } from "../../storage/core/embedded.ts"
import { connectionsOf } from "../../storage/storage.ts"
import { within } from "../../std/deadline.ts"
import { descriptorLimit } from "../../observability/descriptors.ts"
import { diskOf } from "../figures.ts"
import { builds, isBelow, thisPlatform } from "../primary/platform.ts"
import { loadTransport } from "../transport.ts"
import { urlHere } from "./url-here.ts"

export interface Finding {
  readonly check: string
  /** `fault`: the server does not start, or loses what it should keep. `warn`: it will be worse off than it could be. */
  readonly level: "ok" | "warn" | "fault"
  readonly found: string
  /** What to do about it. */
  readonly advice?: string
}

const ok = (check: string, found: string): Finding => ({ check, level: "ok", found })
const warn = (check: string, found: string, advice: string): Finding => ({ check, level: "warn", found, advice })
const fault = (check: string, found: string, advice: string): Finding => ({ check, level: "fault", found, advice })

/** Milliseconds for all that is asked of one service. */
const serviceMs = 5_000

interface Surroundings {
  readonly env: Record<string, string | undefined>
  readonly topology: ClusterConfig
}

/** Looks at everything that a server needs, whether one runs or not. It changes nothing. */
export async function doctor({ env, topology }: Surroundings): Promise<Finding[]> {
  const ours = [nodeVersion(), cLibrary(), await transport(), descriptors()]
  let config: Config
  try {
    config = readConfig(env)
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return [
      ...error.problems.map(problem => fault("configuration", problem, "see docs/operate/configuration.md")),
      ...ours,
    ]
  }
  const [server, disk, database, redis] = await Promise.all([
    runningServer(config),
    dataFolder(config),
    askedWithin("PostgreSQL", () => ofDatabase(config, topology)),
    askedWithin("Redis", () => ofRedis(config)),
  ])
  const clocks = clockFindings([...database.clocks, ...redis.clocks])
  return [ok("configuration", "valid"), ...ours, ...disk, ...database.findings, ...redis.findings, ...clocks, ...server]
}

/** One line for each finding, with what to do below it. */
export function doctorText(findings: readonly Finding[]): string {
  const width = Math.max(...findings.map(({ check }) => check.length))
  const lines = findings.flatMap(({ check, level, found, advice }) => [
    `${level.padEnd(5)}  ${check.padEnd(width)}  ${found}`,
    ...(advice === undefined ? [] : [`${" ".repeat(width + 9)}${advice}`]),
  ])
  const count = (level: Finding["level"]) => findings.filter(finding => finding.level === level).length
  return [...lines, "", `${count("ok")} ok, ${count("warn")} warnings, ${count("fault")} faults`].join("\n")
}

const oldestNode = [20, 19] as const

function nodeVersion(): Finding {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number)
  const isOld = major < oldestNode[0] || (major === oldestNode[0] && minor < oldestNode[1])
  return isOld
    ? fault("Node", process.version, `install Node ${oldestNode.join(".")} or later`)
    : ok("Node", `${process.version} on ${process.platform} ${process.arch}`)
}

function cLibrary(): Finding {
  const { system, node, abi, glibc } = thisPlatform()
  if (system !== "linux") return ok("C library", `of ${system}`)
  if (glibc === undefined)
    return fault("C library", "not glibc", "use a distribution with glibc, such as Debian: uWebSockets.js needs it")
  const build = builds[abi]
  return build && isBelow(glibc, build.glibc)
    ? fault("C library", `glibc ${glibc}`, `Node ${node} needs glibc ${build.glibc} or later here; use Node 20`)
    : ok("C library", `glibc ${glibc}`)
}

async function transport(): Promise<Finding> {
  try {
    await loadTransport()
    return ok("uWebSockets.js", "loads")
  } catch (error) {
    return fault("uWebSockets.js", (error as Error).message.split("\n")[0]!, "run npm ci again, with this Node")
  }
}

const enoughDescriptors = 65_536

function descriptors(): Finding {
  const limit = descriptorLimit()
  if (limit === 0) return ok("descriptors", "the limit is not known")
  const found = `limit ${limit === Infinity ? "unlimited" : limit}`
  const advice = `each socket takes one: raise the limit to ${enoughDescriptors} or more (LimitNOFILE=, ulimit -n)`
  if (limit < 1_024) return fault("descriptors", found, advice)
  return limit < enoughDescriptors ? warn("descriptors", found, advice) : ok("descriptors", found)
}

const gigabytes = (bytes: number) => `${(bytes / 1e9).toFixed(1)} GB`

async function dataFolder({ dataDir }: Config): Promise<Finding[]> {
  const check = "DATA_DIR"
  const isThere = await access(dataDir).then(
    () => true,
    () => false,
  )
  if (!isThere) return [ok(check, `${dataDir} is not there yet`)]
  const isWritable = await access(dataDir, constants.W_OK).then(
    () => true,
    () => false,
  )
  if (!isWritable)
    return [fault(check, `${dataDir} cannot be written`, "give the server's user the right to write there")]
  const { free_bytes: free, percent } = await diskOf(dataDir)
  if (free === null || percent === null) return [ok(check, `${dataDir} can be written`)]
  const found = `${gigabytes(free)} free, ${percent} % used`
  if (free < 512e6) return [fault(check, found, "free some space: a full disk ends commits, uploads and logs")]
  return [percent > 90 ? warn(check, found, "free some space soon") : ok(check, found)]
}

/** What one service says of itself, and what its clock says. */
interface Asked {
  readonly findings: readonly Finding[]
  readonly clocks: readonly Clock[]
}
export interface Clock {
  readonly of: string
  /** Seconds by which it is ahead of this machine's, and by which that may be wrong. */
  readonly aheadSeconds: number
  readonly uncertainSeconds: number
}

async function askedWithin(name: string, ask: () => Promise<Asked>): Promise<Asked> {
  const unanswered = (found: string): Asked => ({
    findings: [fault(name, found, `look whether ${name} runs, and whether this machine may reach it`)],
    clocks: [],
  })
  try {
    return await within(serviceMs, ask(), () => unanswered(`no answer within ${serviceMs / 1000} s`))
  } catch (error) {
    return unanswered((error as Error).message || (error as NodeJS.ErrnoException).code || "no answer")
  }
}

/** The other's clock, asked several times: the quickest answer tells it best. */
async function clockOf(of: string, secondsThere: () => Promise<number>): Promise<Clock> {
  let best: Clock | undefined
  for (let i = 0; i < 5; i++) {
    const before = Date.now()
    const startedAt = performance.now()
    const there = await secondsThere()
    const tookSeconds = (performance.now() - startedAt) / 1000
    const clock = {
      of,
      aheadSeconds: there - before / 1000 - tookSeconds / 2,
      uncertainSeconds: tookSeconds / 2 + 0.001,
    }
    if (!best || clock.uncertainSeconds < best.uncertainSeconds) best = clock
  }
  return best!
}

/** Of each against this machine, and of one against another. */
export function clockFindings(clocks: readonly Clock[]): Finding[] {
  const here: Clock = { of: "this machine", aheadSeconds: 0, uncertainSeconds: 0 }
  const all = [here, ...clocks]
  return all.flatMap((one, i) =>
    all.slice(i + 1).map(other => {
      const check = `clock of ${other.of} against ${one.of}`
      const apart = other.aheadSeconds - one.aheadSeconds
      const surely = Math.abs(apart) - one.uncertainSeconds - other.uncertainSeconds
      const found = `${Math.round(apart * 1000)} ms apart`
      const advice = "keep all clocks by NTP: ids, times and deadlines are by the clock of each machine"
      if (surely > 2) return fault(check, found, advice)
      return surely > 0.1 ? warn(check, found, advice) : ok(check, found)
    }),
  )
}

async function ofDatabase(config: Config, topology: ClusterConfig): Promise<Asked> {
  let { databaseUrl } = config
  if (databaseUrl === undefined) {
    const running = await runningPostgres(config.dataDir).catch(() => undefined)
    if (running === undefined)
      return { findings: [ok("PostgreSQL", "embedded; it runs while the server does")], clocks: [] }
    databaseUrl = running
  }
  return databaseFacts(databaseUrl, async (facts, secondsThere) => ({
    findings: postgresFindings(facts, config, topology),
    clocks: [await clockOf("PostgreSQL", secondsThere)],
  }))
}

function postgresFindings(facts: DatabaseFacts, config: Config, topology: ClusterConfig): Finding[] {
  const check = "PostgreSQL"
  const { settings } = facts
  const findings: Finding[] = [
    facts.major < oldestPostgres
      ? fault(check, facts.version, `install ${oldestPostgres} or later`)
      : ok(check, `${facts.version}${config.databaseUrl === undefined ? ", embedded" : ""}`),
  ]
  if (facts.isStandby) findings.push(fault(check, "a standby", "DATABASE_URL must name the primary"))
  if (facts.encoding !== "UTF8")
    findings.push(fault(check, `encoding ${facts.encoding}`, "make a database with ENCODING 'UTF8'"))
  const lost = "what was acknowledged is lost when the machine fails: switch it on"
  findings.push(
    settings.fsync === "on" ? ok("fsync", "on") : fault("fsync", settings.fsync, lost),
    settings.full_page_writes === "on"
      ? ok("full_page_writes", "on")
      : fault("full_page_writes", settings.full_page_writes, lost),
    settings.synchronous_commit === "on"
      ? ok("synchronous_commit", "on, as the server asks for")
      : fault(
          "synchronous_commit",
          `${settings.synchronous_commit}, although on was asked for`,
          "something in between drops the settings of a connection: connect without it",
        ),
  )
  const needed = connectionBudget(config, topology)
  const capacity = facts.maxConnections - facts.reservedConnections
  const free = capacity - facts.othersConnections
  const found = `${capacity} for ordinary users, ${facts.othersConnections} taken by others; a host needs up to ${needed}`
  findings.push(
    needed > free
      ? fault("connections", found, `raise max_connections to ${facts.maxConnections + needed - free} or more`)
      : 2 * needed > free
        ? warn(
            "connections",
            found,
            "there are not enough for a second host, nor for the former processes in a rolling restart",
          )
        : ok("connections", found),
  )
  return findings
}

/** What the processes of this host take at most. */
function connectionBudget(config: Config, topology: ClusterConfig): number {
  const { readConnections } = topology.storage
  const web = webWorkersOf(config, topology) * connectionsOf(readConnections, "web")
  const job = topology.processes.job * connectionsOf(readConnections, "job")
  return web + job + connectionsOf(1, "primary")
}

async function ofRedis(config: Config): Promise<Asked> {
  const { redisUrl } = config
  if (redisUrl === undefined) return { findings: [ok("Redis", "embedded; it runs while the server does")], clocks: [] }
  let trouble: Error | undefined
  const redis = openRedis(redisUrl, "starling doctor", error => {
    trouble = error
  })
  try {
    await redis.connect().catch((error: unknown) => {
      throw trouble ?? error
    })
    const masters = mastersOf(redis)
    const all = await Promise.all(
      masters.map(async master => {
        const name = masters.length > 1 ? `Redis ${master.options.host}:${master.options.port}` : "Redis"
        const facts = new Map((await master.info()).split("\r\n").map(line => line.split(":", 2) as [string, string]))
        const secondsThere = async () => {
          const [seconds, micros] = await master.time()
          return Number(seconds) + Number(micros) / 1e6
        }
        return { findings: redisFindings(name, facts), clock: await clockOf(name, secondsThere) }
      }),
    )
    return { findings: all.flatMap(({ findings }) => findings), clocks: all.map(({ clock }) => clock) }
  } finally {
    redis.disconnect()
  }
}

function redisFindings(name: string, facts: ReadonlyMap<string, string>): Finding[] {
  const version = facts.get("redis_version") ?? "of an unknown version"
  const [major = 0, minor = 0] = version.split(".").map(Number)
  const isNew = major > 6 || (major === 6 && minor >= 2)
  const findings = [isNew ? ok(name, version) : fault(name, version, "6.2 or later is needed")]
  if (facts.get("role") === "slave") findings.push(fault(name, "a replica", "REDIS_URL must name the master"))

  const policy = facts.get("maxmemory_policy")
  if (policy !== undefined)
    findings.push(
      policy === "noeviction"
        ? ok(`${name}: maxmemory-policy`, policy)
        : fault(`${name}: maxmemory-policy`, policy, "set it to noeviction: it would drop jobs and delivery logs"),
    )
  const [used, most] = [Number(facts.get("used_memory")), Number(facts.get("maxmemory"))]
  const memory = `${name}: memory`
  if (most > 0)
    findings.push(
      used > 0.8 * most
        ? warn(
            memory,
            `${gigabytes(used)} of ${gigabytes(most)}`,
            "raise maxmemory: at the bound nothing can be published",
          )
        : ok(memory, `${gigabytes(used)} of ${gigabytes(most)}`),
    )
  findings.push(persistenceOf(name, facts))
  return findings
}

function persistenceOf(name: string, facts: ReadonlyMap<string, string>): Finding {
  const check = `${name}: persistence`
  for (const failing of ["aof_last_write_status", "aof_last_bgrewrite_status", "rdb_last_bgsave_status"])
    if ((facts.get(failing) ?? "ok") !== "ok")
      return fault(check, `${failing} is ${facts.get(failing)}`, "look at the disk and the log of Redis")
  if (facts.get("aof_enabled") === "1") return ok(check, "appendonly on")
  return warn(
    check,
    "appendonly off",
    "after a restart of Redis every session begins anew; no acknowledged message is lost. Set appendonly yes",
  )
}

/** A server that runs here with this configuration, and what it says of itself. */
async function runningServer({ metricsHost, metricsPort, host, port }: Config): Promise<Finding[]> {
  const check = "server"
  const ask = (url: string) => fetch(url, { signal: AbortSignal.timeout(3_000) })
  const isRunning = await ask(`${urlHere(metricsHost, metricsPort)}/healthz`).then(
    reply => reply.ok,
    () => false,
  )
  if (!isRunning) return [ok(check, `none answers on METRICS_PORT ${metricsPort}`)]
  try {
    const reply = await ask(`${urlHere(host, port)}/readyz`)
    const { checks } = (await reply.json()) as { checks?: Record<string, string> }
    const ill = Object.entries(checks ?? {}).filter(([, verdict]) => verdict !== "ok")
    if (reply.ok && ill.length === 0) return [ok(check, "runs and is ready")]
    const found = ill.map(([name, verdict]) => `${name}: ${verdict}`).join("; ") || `/readyz answers ${reply.status}`
    return [fault(check, `runs, but ${found}`, "see the table of checks in docs/operate/operating.md")]
  } catch (error) {
    return [
      fault(
        check,
        `runs, but /readyz does not answer: ${(error as Error).message}`,
        "look at HOST and PORT, and at its log",
      ),
    ]
  }
}
