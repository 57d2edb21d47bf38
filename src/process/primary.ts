import { createHash } from "node:crypto"
import cluster from "node:cluster"
import { once } from "node:events"
import { rm } from "node:fs/promises"
import { createServer, type AddressInfo } from "node:net"
import { hostname } from "node:os"
import { setTimeout as sleep } from "node:timers/promises"
import type { ClusterConfig } from "../../cluster.config.ts"
import { changedSettings, ConfigError, type Config } from "../config.ts"
import { aggregateCluster } from "../observability/aggregate.ts"
import { debugCluster } from "../observability/debug.ts"
import type { Log } from "../observability/log.ts"
import { startMetricsServer } from "../observability/metrics-server.ts"
import type { Metrics } from "../observability/metrics.ts"
import { Ending, watchRestarts, watchSignals, type Reason } from "./primary/ending.ts"
import { connectionsOf, shortage } from "./primary/connection-budget.ts"
import { watchDisk } from "./primary/disk-watch.ts"
import { LogKeeper } from "./primary/log-keeper.ts"
import { makeSocketFolder } from "../std/socket-folder.ts"
import { systemClock as clock } from "../std/system-clock.ts"
import { DeadWorkers } from "./primary/dead-workers.ts"
import { Processes, type Role } from "./primary/processes.ts"
import { complain, say } from "./primary/say.ts"
import { sentenceOf } from "./primary/sentences.ts"
import { endFormer, noteServing, servingFrom, type Serving } from "./primary/take-over.ts"
import { secretKeyOf } from "./primary/secret-key.ts"
import { checkRedis, connectRedis, retryWhileStarting, hostsOf, startServices } from "./primary/services.ts"
import { migrate } from "../storage/core/migrate.ts"
import { openStorage, type Storage } from "../storage/storage.ts"

export interface PrimaryOptions {
  config: Config
  topology: ClusterConfig
  log: Log
  metrics: Metrics
  /** Reads the configuration anew; throws a ConfigError. */
  readConfig: () => Config
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
  let running: Running | undefined
  const unwatch = watchSignals(ending, {
    graceMs: options.config.drainGraceMs,
    leave() {
      running?.leave()
      return running !== undefined
    },
    reload: () => (running ? running.reload() : say("the configuration is read again once the start is over")),
  })
  // Before the first process is there, too: nobody would expect this signal to end the program.
  const unwatchRestarts = watchRestarts(async () => {
    if (!running) throw new Error("the start is not over yet")
    await running.restart()
  }, log)
  try {
    running = await start(options, ending, stops)
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

/** What can be asked of processes that have started. */
interface Running {
  /** The rolling restart, with the configuration as it is read now. */
  restart(): Promise<void>
  /** Reads the configuration, and changes what can be changed while they run. */
  reload(): void
  leave(): void
}

/** What is to be undone is put on `stops` as soon as it stands. */
async function start(options: PrimaryOptions, ending: Ending, stops: (() => Promise<unknown>)[]): Promise<Running> {
  const { topology, log } = options
  const former = options.config.takesOver ? await formerOf(options.config) : undefined
  const port = former?.port ?? (await claimPort(options.config, ending))
  // On another machine nobody reaches that name; on this one it is the name of the machine.
  if (!options.config.hasPublicUrl && !/^(127\.|::1$|localhost$)/.test(options.config.host))
    log.warn(
      { url: options.config.publicUrl },
      "PUBLIC_URL is not set: links in mail and of webhooks name this machine only",
    )
  // With PORT=0 the address is known only now.
  const withPort = (config: Config): Config =>
    config.port === port
      ? config
      : { ...config, port, publicUrl: config.publicUrl.replace(/^http:\/\/localhost:0$/, `http://localhost:${port}`) }
  const config = withPort(options.config)

  // Before the first process is there, which says at its start what it counts.
  const aggregate = aggregateCluster(options.metrics.registry, cluster)
  const debug = debugCluster(cluster)
  const alone = () => startWhatIsOnce({ ...options, config }, { render: () => aggregate.render(), debug }, stops)
  const metricsPort = former ? config.metricsPort : await alone()

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
  const host = hostIdentity(config, former)
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
  await warnOfShortage(host, processes, options, storage)
  say("starting the processes")
  await processes.start()
  ending.check()
  const serving = { address: config.host, port, host }
  if (!former) stops.push(await noteServing(config.dataDir, serving))
  welcome(config, metricsPort, processes.count)
  if (former) succeed(former, serving, { ...options, config }, { alone, stops })
  let settings = config
  return {
    async restart() {
      const fresh = withPort(options.readConfig())
      // The new processes run what lies in dist/ by now, which may expect a newer database.
      await migrate(databaseUrl)
      setLogLevel(fresh, log, processes)
      await processes.replaceAll(fresh)
      settings = fresh
    },
    reload: () => reload(() => withPort(options.readConfig()), settings, log, processes),
    leave: () => processes.leave(),
  }
}

function setLogLevel({ logLevel }: Config, log: Log, processes: Processes): void {
  log.level = logLevel
  processes.setLogLevel(logLevel)
}

/** `before`: what the processes were started with. A file that is wrong changes nothing. */
function reload(read: () => Config, before: Config, log: Log, processes: Processes): void {
  try {
    const fresh = read()
    setLogLevel(fresh, log, processes)
    const waiting = changedSettings(before, fresh).filter(key => key !== "log_level")
    log.info({ log_level: fresh.logLevel, at_next_restart: waiting }, "configuration read again")
    const rest =
      waiting.length === 0
        ? "nothing else has changed"
        : `with the next rolling restart (kill -USR2 ${process.pid}) also ${waiting.join(", ")}`
    say(`the configuration was read again: log level ${fresh.logLevel}; ${rest}`)
  } catch (error) {
    const problems = error instanceof ConfigError ? error.problems : [(error as Error).message]
    complain(log, "configuration not read again; everything stays as it is", problems.join("; "))
  }
}

/** Before clients find out, under load. */
async function warnOfShortage(
  host: string,
  { count }: Processes,
  { topology, log }: PrimaryOptions,
  { connections }: Storage,
): Promise<void> {
  const capacity = await connections.capacity(host)
  const lack = shortage(count, topology.storage, capacity)
  if (lack === undefined) return
  say(`warning: ${lack}`)
  log.warn({ ...capacity, ...connectionsOf(count, topology.storage) }, "PostgreSQL may refuse connections")
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

/**
 * Who this host is for the others; the same after a restart, so that it is given its shards again. A program that takes the
 * place of another serves beside it for a while, so it is another host.
 */
function hostIdentity({ host, port }: Config, former: Serving | undefined): string {
  const named = (addition: string) =>
    createHash("sha256").update(`${hostname()} ${host} ${port}${addition}`).digest("hex").slice(0, 10)
  return former?.host === named("") ? named(" next") : named("")
}

/** Throws when it cannot be taken over from. */
async function formerOf({ dataDir, databaseUrl, redisUrl, host, port }: Config): Promise<Serving | undefined> {
  const former = await servingFrom(dataDir)
  if (!former) return undefined
  if (databaseUrl === undefined || redisUrl === undefined)
    throw new Error(
      "TAKE_OVER needs DATABASE_URL and REDIS_URL: embedded services end with the program that started them",
    )
  if (former.address !== host || former.port !== port)
    throw new Error(
      `TAKE_OVER: the program that serves from ${dataDir} (pid ${former.pid}) has HOST ${former.address} and PORT ${former.port}, not ${host} and ${port}`,
    )
  say(`taking the place of the program that serves (pid ${former.pid})`)
  return former
}

/** What only one program of a host can have. @returns the port of /metrics */
async function startWhatIsOnce(
  { config, topology, log, metrics }: PrimaryOptions,
  shown: Pick<Parameters<typeof startMetricsServer>[0], "render" | "debug">,
  stops: (() => Promise<unknown>)[],
): Promise<number> {
  const { logFolder } = config
  if (logFolder !== undefined) {
    const keeper = new LogKeeper({ ...topology.logs, folder: logFolder, clock, log })
    stops.push(() => keeper.stop())
  }
  const disk = watchDisk(config.dataDir, metrics.host, clock)
  stops.push(async () => disk.stop())
  const scraped = await startMetricsServer({ host: config.metricsHost, port: config.metricsPort, ...shown, log })
  stops.push(() => scraped.close())
  return scraped.port
}

/** Everything serves: the former program ends, and this one has alone what there can be only once. */
function succeed(
  former: Serving,
  serving: Omit<Serving, "pid" | "birth">,
  { config, log }: PrimaryOptions,
  { alone, stops }: { alone: () => Promise<number>; stops: (() => Promise<unknown>)[] },
): void {
  const take = async () => {
    await endFormer(former)
    stops.push(await noteServing(config.dataDir, serving))
    await alone()
    say(`the program of before (pid ${former.pid}) has ended`)
  }
  take().catch((error: unknown) => {
    complain(log, "the former program was not replaced entirely", (error as Error).message)
  })
}

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
