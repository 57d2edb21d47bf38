import { createHash } from "node:crypto"
import cluster from "node:cluster"
import { once } from "node:events"
import { rm } from "node:fs/promises"
import { createServer, type AddressInfo } from "node:net"
import { hostname } from "node:os"
import { setTimeout as sleep } from "node:timers/promises"
import type { ClusterConfig } from "../../cluster.config.ts"
import type { Config } from "../config.ts"
import { aggregateCluster } from "../observability/aggregate.ts"
import { debugCluster } from "../observability/debug.ts"
import type { Log } from "../observability/log.ts"
import { startMetricsServer } from "../observability/metrics-server.ts"
import type { Metrics } from "../observability/metrics.ts"
import { Ending, watchRestarts, watchSignals, type Reason } from "./primary/ending.ts"
import { watchDisk } from "./primary/disk-watch.ts"
import { LogKeeper } from "./primary/log-keeper.ts"
import { systemClock as clock } from "../std/system-clock.ts"
import { DeadWorkers } from "./primary/dead-workers.ts"
import { Processes, type Role } from "./primary/processes.ts"
import { makeSocketFolder } from "../cluster/unix-sockets.ts"
import { complain, say } from "./primary/say.ts"
import { sentenceOf } from "./primary/sentences.ts"
import { secretKeyOf } from "./primary/secret-key.ts"
import { checkRedis, connectRedis, retryWhileStarting, hostsOf, startServices } from "./primary/services.ts"
import { migrate } from "../storage/core/migrate.ts"
import { openStorage } from "../storage/storage.ts"

export interface PrimaryOptions {
  config: Config
  topology: ClusterConfig
  log: Log
  metrics: Metrics
  /** For the processes, on top of the primary's own environment. */
  environment: Record<string, string>
}

/** Milliseconds that an earlier run is given to free the port. */
const portTimeoutMs = 4_000

/**
 * The primary: readies the services, forks the processes and replaces those that end. No client ever reaches it.
 * @returns why it ended, once everything that it started has ended
 */
export async function runPrimary(options: PrimaryOptions): Promise<Reason> {
  const { log } = options
  const ending = new Ending()
  const stops: (() => Promise<unknown>)[] = []
  const unwatch = watchSignals(ending)
  // Before the first process is there, too: nobody would expect this signal to end the program.
  let restart = (): Promise<void> => Promise.reject(new Error("the start is not over yet"))
  const unwatchRestarts = watchRestarts(() => restart(), log)
  try {
    restart = await start(options, ending, stops)
  } catch (error) {
    if (ending.reason === undefined) {
      complain(log, "the start has failed", sentenceOf(error as Error))
      // Plain errors were written for people; any other needs its stack.
      const level = (error as Error).constructor === Error ? "debug" : "fatal"
      log[level]({ err: error }, "start failed")
      ending.reach("failed")
    }
  }
  const reason = await ending.reached
  for (const stop of stops.toReversed())
    await stop().catch((error: unknown) => log.error({ err: error }, "shutdown incomplete"))
  unwatch()
  unwatchRestarts()
  if (reason !== "failed") say("ended")
  return reason
}

/**
 * What is to be undone is put on `stops` as soon as it stands.
 * @returns the rolling restart
 */
async function start(
  options: PrimaryOptions,
  ending: Ending,
  stops: (() => Promise<unknown>)[],
): Promise<() => Promise<void>> {
  const { topology, log, metrics } = options
  const port = await claimPort(options.config, ending)
  const { logFolder } = options.config
  if (logFolder !== undefined) {
    const keeper = new LogKeeper({ ...topology.logs, folder: logFolder, clock, log })
    stops.push(() => keeper.stop())
  }
  // On another machine nobody reaches that name; on this one it is the name of the machine.
  if (!options.config.hasPublicUrl && !/^(127\.|::1$|localhost$)/.test(options.config.host))
    log.warn(
      { url: options.config.publicUrl },
      "PUBLIC_URL is not set: links in mail and of webhooks name this machine only",
    )
  // With PORT=0 the address is known only now.
  const config: Config =
    options.config.port === port
      ? options.config
      : {
          ...options.config,
          port,
          publicUrl: options.config.publicUrl.replace(/^http:\/\/localhost:0$/, `http://localhost:${port}`),
        }

  const disk = watchDisk(config.dataDir, metrics.host, clock)
  stops.push(async () => disk.stop())
  const aggregate = aggregateCluster(metrics.registry, cluster)
  const scraped = await startMetricsServer({
    host: config.metricsHost,
    port: config.metricsPort,
    render: () => aggregate.render(),
    debug: debugCluster(cluster),
    log,
  })
  stops.push(() => scraped.close())

  const [databaseUrl, givenRedis] = await startServices(options, ending, stops)
  ending.check()

  const applied = await retryWhileStarting("PostgreSQL", databaseUrl, ending, () => migrate(databaseUrl))
  if (applied.length > 0) say(`migrated the database: ${applied.join(", ")}`)
  const { redis, redisUrl } = await retryWhileStarting("Redis", givenRedis, ending, () => connectRedis(givenRedis, log))
  stops.push(async () => redis.disconnect())
  await checkRedis(redis, `Redis at ${hostsOf(givenRedis)}`)

  const storage = openStorage({ ...topology.storage, readConnections: 1, url: databaseUrl, name: "starling primary" })
  stops.push(() => storage.close())

  const secretKey = await secretKeyOf(config, storage)
  const host = hostIdentity(config)
  const deadWorkers = new DeadWorkers(storage, redis, log)
  await deadWorkers.declareFormerDead(host, topology.membership.renewEveryMs)

  const socketFolder = await socketFolderFor(options)
  if (socketFolder !== undefined) stops.push(() => rm(socketFolder, { recursive: true, force: true }))
  const processes = new Processes({
    ...options,
    config,
    databaseUrl,
    redisUrl,
    secretKey,
    host,
    listen: { port, socketFolder },
    deadWorkers,
    ending,
  })
  stops.push(() => processes.end())
  say("starting the processes")
  await processes.start()
  ending.check()
  welcome(config, scraped.port, processes.count)
  return async () => {
    // The new processes run what lies in dist/ by now, which may expect a newer database.
    await migrate(databaseUrl)
    await processes.replaceAll()
  }
}

/** Without it the workers of this host talk through Redis, as hosts do. */
async function socketFolderFor({ topology, log }: PrimaryOptions): Promise<string | undefined> {
  if (!topology.processes.unixSockets) return undefined
  return makeSocketFolder().catch((error: unknown) => {
    log.warn({ err: error }, "no folder for sockets; the workers of this host talk through Redis")
    return undefined
  })
}

/**
 * Binds the port for a moment, alone, because the workers share it and would also share it with a stranger.
 * @returns the port, a free one for 0
 */
async function claimPort({ host, port }: Config, ending: Ending): Promise<number> {
  for (const until = Date.now() + portTimeoutMs; ; await sleep(100)) {
    ending.check()
    const probe = createServer()
    try {
      const listening = once(probe, "listening")
      probe.listen({ host, port, exclusive: true })
      await listening
      return (probe.address() as AddressInfo).port
    } catch (cause) {
      const { code } = cause as NodeJS.ErrnoException
      // The workers of a killed primary end by themselves and take a moment.
      if (code === "EADDRINUSE" && Date.now() < until) continue
      const why = code === "EADDRINUSE" ? "is already in use" : `cannot be opened (${code})`
      throw new Error(`Port ${port} on ${host} ${why}; PORT and HOST choose another`, { cause })
    } finally {
      if (probe.listening) await new Promise(resolve => probe.close(resolve))
    }
  }
}

/** Who this host is for the others; the same after a restart, so that it is given its shards again. */
const hostIdentity = ({ host, port }: Config): string =>
  createHash("sha256").update(`${hostname()} ${host} ${port}`).digest("hex").slice(0, 10)

/** The last lines of a start: where to go. */
function welcome(config: Config, metricsPort: number, count: Record<Role, number>): void {
  const nameOf = (host: string) =>
    /^(0\.0\.0\.0|::)$/.test(host) ? "localhost" : host.includes(":") ? `[${host}]` : host
  const url = `http://${nameOf(config.host)}:${config.port}`
  const newcomer = {
    username: "ada",
    email: "ada@example.org",
    password: "Correct-Horse-7-Battery",
    ...(config.policy.age_gate_enabled &&
      (config.policy.age_verification_type === "dob" ? { dob: "1990-12-10" } : { age: 35 })),
  }
  const amount = (n: number, what: string) => `${n} ${what}${n === 1 ? "" : "s"}`
  console.log(`
Starling is ready: ${amount(count.web, "web worker")}, ${amount(count.job, "job worker")}.

  docs     ${url}/docs
  health   ${url}/health
  metrics  http://${nameOf(config.metricsHost)}:${metricsPort}/metrics

Try it:

  curl ${url}/api/v1/auth/register -H 'content-type: application/json' \\
    -d '${JSON.stringify(newcomer)}'

Ctrl-C ends it; kill -USR2 ${process.pid} replaces its processes one after another.`)
}
