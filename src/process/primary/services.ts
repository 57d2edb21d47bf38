import { connect } from "node:net"
import { setTimeout as sleep } from "node:timers/promises"
import { startEmbeddedRedis } from "../../cluster/embedded.ts"
import { openRedis, trueUrl, type Redis } from "../../cluster/redis.ts"
import { mastersOf } from "../../cluster/replication.ts"
import { isSentinelUrl, sentinelPlace } from "../../domain/core/sentinel-url.ts"
import { within } from "../../std/deadline.ts"
import type { ClusterConfig } from "../../../cluster.config.ts"
import { webWorkersOf, type Config } from "../../config.ts"
import { connectionsOf } from "./connection-budget.ts"
import type { Log } from "../../observability/log.ts"
import { startEmbeddedPostgres } from "../../storage/core/embedded.ts"
import type { Ending } from "./ending.ts"
import { redisPrefix } from "./orders.ts"
import { complain, say } from "./say.ts"

/** Milliseconds that a service which starts at the same time is given. */
const serviceTimeoutMs = 30_000
/** Of the embedded PostgreSQL: what it takes anyway, and what is left for operators. */
const embeddedConnections = 200
const connectionsOfOthers = 20
const connectTimeoutMs = 5_000

/** The services that have no URL are started here; what is to be undone is put on `stops` as soon as it stands. */
export async function startServices(
  { config, topology, log }: { config: Config; topology: ClusterConfig; log: Log },
  ending: Ending,
  stops: (() => Promise<unknown>)[],
): Promise<[databaseUrl: string, redisUrl: string]> {
  const { dataDir } = config
  const count = { web: webWorkersOf(config, topology), job: topology.processes.job }
  const connections = connectionsOf(count, topology.storage).all + connectionsOfOthers
  const embed = async (
    name: string,
    url: string | undefined,
    begin: () => Promise<{ localUrl: string; exited: Promise<string>; stop(): Promise<void> }>,
  ): Promise<string> => {
    if (url !== undefined) return url
    say(`starting ${name}, data in ${dataDir}`)
    const server = await begin()
    stops.push(() => server.stop())
    server.exited.then(
      how => {
        if (ending.reason !== undefined) return
        complain(log, `the embedded ${name} has ended, and without it nothing can go on`, how)
        ending.reach("stranded")
      },
      () => {},
    )
    return server.localUrl
  }
  // Both to their end even if one fails, so that nothing is left behind.
  const started = await Promise.allSettled([
    embed("PostgreSQL", config.databaseUrl, () =>
      startEmbeddedPostgres({
        dataDir,
        log,
        ...(connections > embeddedConnections && { extraSettings: { max_connections: String(connections) } }),
      }),
    ),
    embed("Redis", config.redisUrl, () => startEmbeddedRedis({ dataDir, log })),
  ])
  const [databaseUrl, redisUrl] = started.map(result => {
    if (result.status === "rejected") throw result.reason
    return result.value
  })
  return [databaseUrl!, redisUrl!]
}

export function hostsOf(url: string): string {
  const sentinels = sentinelPlace(url)?.sentinels.map(({ host, port }) => `${host}:${port}`)
  return (sentinels ?? url.split(",").map(node => new URL(node.trim()).host)).join(", ")
}

type Kind = "PostgreSQL" | "Redis"

/** The first words of each kind's language, to which only its own kind has an answer. */
const greetings = {
  PostgreSQL: { words: Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]), answer: /^[SN]$/ }, // SSLRequest
  Redis: { words: "PING\r\n", answer: /^(\+PONG|-[A-Z]+ )/ },
} as const

/** Throws when the other kind of service listens there: waiting would not help. */
async function requireKind(kind: Kind, url: string): Promise<void> {
  const other = kind === "Redis" ? "PostgreSQL" : "Redis"
  const [sentinel] = sentinelPlace(url)?.sentinels ?? []
  const { hostname, port } = sentinel ? { ...sentinel, hostname: sentinel.host } : new URL(url.split(",")[0]!)
  const socket = connect(Number(port || (kind === "Redis" ? 6379 : 5432)), hostname)
  const heard = await new Promise<string>(resolve => {
    socket.setTimeout(2_000, () => resolve(""))
    socket.on("error", () => resolve(""))
    socket.on("close", () => resolve(""))
    socket.on("data", bytes => resolve(bytes.toString("latin1")))
    socket.write(greetings[other].words)
  })
  socket.destroy()
  if (greetings[other].answer.test(heard))
    throw new Error(`${kind} at ${hostsOf(url)} is not ${kind}: ${other} listens there; are the URLs swapped?`)
}

/** Not there yet, or not ready yet: of PostgreSQL, Redis, or the way to them. */
const passing =
  /^(ECONNREFUSED|ECONNRESET|EPIPE|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|EHOSTUNREACH|CONNECT_TIMEOUT|CONNECTION_CLOSED|CONNECTION_ENDED|57P03|53300)$/

/** Waits a while for a service that is started at the same time, as container platforms do. */
export async function retryWhileStarting<T>(
  kind: Kind,
  url: string,
  ending: Ending,
  attempt: () => Promise<T>,
): Promise<T> {
  const service = `${kind} at ${hostsOf(url)}`
  let told = false
  for (const until = Date.now() + serviceTimeoutMs; ; await sleep(500)) {
    ending.check()
    try {
      return await attempt()
    } catch (cause) {
      const { code = "", message } = cause as NodeJS.ErrnoException
      // First: whatever the other kind's client makes of its words says less.
      await requireKind(kind, url)
      const isTransient = passing.test(code) || /^(LOADING|All sentinels are unreachable)/.test(message)
      if (!isTransient || Date.now() > until) throw new Error(`${service}: ${message || code}`, { cause })
      if (!told) say(`waiting for ${service} (${code || message})`)
      told = true
    }
  }
}

/** @returns the connection, and the way to Redis as the processes are to be told it */
export async function connectRedis(url: string, log: Log): Promise<{ redis: Redis; redisUrl: string }> {
  let reason: Error | undefined
  const redis = openRedis(url, "starling primary", error => {
    reason = error
    log.debug({ err: error, connection: "primary" }, "Redis error")
  })
  try {
    // Through sentinels it is asked for without end.
    await within(connectTimeoutMs, redis.connect(), () => {
      throw new Error(`no answer within ${connectTimeoutMs} ms`)
    })
    await redis.ping()
    const redisUrl = await trueUrl(redis, url)
    if (redisUrl === url) return { redis, redisUrl }
    redis.disconnect()
    return await connectRedis(redisUrl, log)
  } catch (error) {
    redis.disconnect()
    if (reason === undefined && !isSentinelUrl(url)) await refuseReplica(url)
    // The client's own error says only that the connection is closed.
    throw reason ?? error
  }
}

/** Our connections leave a replica without a word. */
async function refuseReplica(url: string): Promise<void> {
  const redis = openRedis(url, "starling primary", () => {}, { readOnly: true })
  const facts = await redis
    .connect()
    .then(() => redis.info("replication"))
    .catch(() => "")
  redis.disconnect()
  if (/^role:slave\r?$/m.test(facts))
    throw new Error("this is a replica, which takes no writes; REDIS_URL must name the master")
}

/** Throws unless Redis can hold what is given to it. What it says of itself is not enough: what is needed is tried out. */
export async function checkRedis(redis: Redis, name: string): Promise<void> {
  for (const server of mastersOf(redis)) {
    const { host, port } = server.options
    await checkServer(server, redis.isCluster ? `Redis at ${host}:${port}` : name)
  }
  const probe = `${redisPrefix}probe`
  try {
    const made = await redis.xadd(probe, "NOMKSTREAM", "*", "m", "")
    await redis.xtrim(probe, "MINID", 0)
    await redis.eval("return redis.call('EXISTS', KEYS[1])", 1, probe)
    if (made !== null) throw new Error("XADD NOMKSTREAM has made a stream")
  } catch (cause) {
    throw new Error(`${name} does not do what is needed: ${(cause as Error).message}`, { cause })
  }
}

/** From INFO, because hosted services often refuse CONFIG. */
async function checkServer(server: ReturnType<typeof mastersOf>[number], name: string): Promise<void> {
  const facts = new Map((await server.info()).split("\r\n").map(line => line.split(":", 2) as [string, string]))
  const version = facts.get("redis_version") ?? "of an unknown version"
  const [major = 0, minor = 0] = version.split(".").map(Number)
  if (!(major > 6 || (major === 6 && minor >= 2)))
    throw new Error(`${name} is ${version}; 6.2 or later is needed, for XADD NOMKSTREAM and XTRIM MINID`)
  const policy = facts.get("maxmemory_policy")
  if (policy !== undefined && policy !== "noeviction")
    throw new Error(
      `${name} has maxmemory-policy ${policy}: when memory is short it would drop jobs and delivery logs without a word. ` +
        "Set it to noeviction",
    )
}
