import cluster, { type Worker } from "node:cluster"
import { createHash, randomBytes } from "node:crypto"
import { once } from "node:events"
import { createServer, type AddressInfo } from "node:net"
import { availableParallelism, hostname } from "node:os"
import { setTimeout as sleep } from "node:timers/promises"
import type { ClusterConfig } from "../cluster.config.ts"
import { startEmbeddedRedis } from "./cluster/embedded.ts"
import { redisKeys } from "./cluster/keys.ts"
import type { Member } from "./cluster/members.ts"
import { openRedis } from "./cluster/redis.ts"
import type { Config } from "./config.ts"
import { aggregateCluster } from "./observability/aggregate.ts"
import type { Log } from "./observability/log.ts"
import { startMetricsServer } from "./observability/metrics-server.ts"
import type { Metrics } from "./observability/metrics.ts"
import { within } from "./storage/database.ts"
import { startEmbeddedPostgres } from "./storage/embedded.ts"
import { migrate } from "./storage/migrate.ts"
import { openStorage, type Storage } from "./storage/storage.ts"

/** All that a process needs to know. It goes through the channel: a command line can be read by everybody on the machine. */
export interface StartOrder {
  type: "start"
  self: Member
  config: Config
  databaseUrl: string
  redisUrl: string
  redisPrefix: string
  port: number
}
/** What the primary says to a process. */
export type Order = StartOrder | { type: "death"; id: string } | { type: "end"; patience: number }
/** What a process says to the primary. Before "here" it does not listen yet. */
export type Report = { type: "here" } | { type: "ready" }

export interface PrimaryOptions {
  config: Config
  topology: ClusterConfig
  log: Log
  metrics: Metrics
  /** For the processes, on top of the primary's own environment. */
  environment: Record<string, string>
}

type Redis = ReturnType<typeof openRedis>

/** One cluster per Redis database. */
const redisPrefix = "starling:"
/** Milliseconds that an earlier run, or a service that starts at the same time, is given. */
const portPatience = 4_000
const servicePatience = 30_000
/** Without PostgreSQL or Redis nothing can be handed over: a drain would only wait. */
const strandedDrain = 2_000
/** A process that ends so often before anything ever ran will not run. */
const vainStarts = 5

const say = (line: string) => console.log(`starling: ${line}`)

/**
 * The primary: readies the services, forks the processes and replaces those that end. No client ever reaches it.
 * @returns why it ended, once everything that it started has ended
 */
export async function runPrimary(options: PrimaryOptions): Promise<Reason> {
  const { log } = options
  const ending = new Ending()
  const stops: (() => Promise<unknown>)[] = []
  const unwatch = watchSignals(ending)
  try {
    await start(options, ending, stops)
  } catch (error) {
    if (ending.reason === undefined) {
      console.error(`starling: ${(error as Error).message}`)
      // Plain errors were written for people; any other needs its stack.
      const level = (error as Error).constructor === Error ? "debug" : "fatal"
      log[level]({ err: error }, "start failed")
      ending.reach("failed")
    }
  }
  const reason = await ending.reached
  for (const stop of stops.toReversed())
    await stop().catch((error: unknown) => log.error({ err: error }, "did not end in good order"))
  unwatch()
  if (reason !== "failed") say("ended")
  return reason
}

/** What is to be undone is put on `stops` as soon as it stands. */
async function start(options: PrimaryOptions, ending: Ending, stops: (() => Promise<unknown>)[]): Promise<void> {
  const { topology, log, metrics } = options
  const port = await claimPort(options.config, ending)
  // With PORT=0 the address is known only now.
  const config: Config =
    options.config.port === port
      ? options.config
      : {
          ...options.config,
          port,
          publicUrl: options.config.publicUrl.replace(/^http:\/\/localhost:0$/, `http://localhost:${port}`),
        }

  const aggregate = aggregateCluster(metrics.registry, cluster)
  const scraped = await startMetricsServer({
    host: config.metricsHost,
    port: config.metricsPort,
    render: () => aggregate.render(),
    log,
  })
  stops.push(() => scraped.close())

  const [databaseUrl, redisUrl] = await startServices(options, ending, stops)
  ending.check()

  const applied = await patiently(`PostgreSQL at ${placeOf(databaseUrl)}`, ending, () => migrate(databaseUrl))
  if (applied.length > 0) say(`migrated the database: ${applied.join(", ")}`)
  const redis = await patiently(`Redis at ${placeOf(redisUrl)}`, ending, () => connectRedis(redisUrl, log))
  stops.push(async () => redis.disconnect())
  await checkRedis(redis, `Redis at ${placeOf(redisUrl)}`)

  const storage = openStorage({ ...topology.storage, readConnections: 1, url: databaseUrl, name: "starling primary" })
  stops.push(() => storage.close())

  const host = hostIdentity(config)
  const graves = new Graves(storage, redis, log)
  // The port is ours, so whoever lived here is gone, however it ended.
  for (const former of await storage.placement.living()) if (former.host === host) await graves.bury(former.id)

  const processes = new Processes({ ...options, config, databaseUrl, redisUrl, host, port, graves, ending })
  stops.push(() => processes.end())
  say("starting the processes")
  await processes.start()
  ending.check()
  welcome(config, scraped.port, processes.count)
}

/** `told`: by a signal. `stranded`: without PostgreSQL or Redis, which a drain would need. */
type Reason = "told" | "failed" | "stranded"

/** The way to the end, from wherever it is asked for; the first reason counts. */
class Ending {
  readonly reached: Promise<Reason>
  reason: Reason | undefined
  #resolve!: (reason: Reason) => void

  constructor() {
    this.reached = new Promise(resolve => (this.#resolve = resolve))
  }

  reach(reason: Reason): void {
    this.reason ??= reason
    this.#resolve(this.reason)
  }

  /** Between two steps of the start. */
  check(): void {
    if (this.reason !== undefined) throw new Error("ended before it had started")
  }
}

/** The first signal ends everything in good order, the second at once. */
function watchSignals(ending: Ending): () => void {
  const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const
  const onSignal = () => {
    if (ending.reason === undefined) {
      say("ending; once more to end at once")
      return ending.reach("told")
    }
    for (const worker of Object.values(cluster.workers ?? {})) worker?.process.kill("SIGKILL")
    // Embedded services notice that we are gone and end by themselves.
    process.exit(1)
  }
  for (const signal of signals) process.on(signal, onSignal)
  return () => {
    for (const signal of signals) process.off(signal, onSignal)
  }
}

/**
 * Binds the port for a moment, alone, because the workers share it and would also share it with a stranger.
 * @returns the port, a free one for 0
 */
async function claimPort({ host, port }: Config, ending: Ending): Promise<number> {
  for (const until = Date.now() + portPatience; ; await sleep(100)) {
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

async function startServices(
  { config, log }: PrimaryOptions,
  ending: Ending,
  stops: (() => Promise<unknown>)[],
): Promise<[databaseUrl: string, redisUrl: string]> {
  const { dataDir } = config
  const embed = async (
    name: string,
    url: string | undefined,
    begin: () => Promise<{ url: string; exited: Promise<string>; stop(): Promise<void> }>,
  ): Promise<string> => {
    if (url !== undefined) return url
    say(`starting ${name}, data in ${dataDir}`)
    const server = await begin()
    stops.push(() => server.stop())
    server.exited.then(
      how => {
        if (ending.reason !== undefined) return
        console.error(`starling: the embedded ${name} ${how}, and nobody told it to; without it nothing can go on`)
        ending.reach("stranded")
      },
      () => {},
    )
    return server.url
  }
  // Both to their end even if one fails, so that nothing is left behind.
  const started = await Promise.allSettled([
    embed("PostgreSQL", config.databaseUrl, () => startEmbeddedPostgres({ dataDir, log })),
    embed("Redis", config.redisUrl, () => startEmbeddedRedis({ dataDir, log })),
  ])
  const [databaseUrl, redisUrl] = started.map(result => {
    if (result.status === "rejected") throw result.reason
    return result.value
  })
  return [databaseUrl!, redisUrl!]
}

const placeOf = (url: string) => new URL(url).host

/** Not there yet, or not ready yet: of PostgreSQL, Redis, or the way to them. */
const passing =
  /^(ECONNREFUSED|ECONNRESET|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|EHOSTUNREACH|CONNECT_TIMEOUT|CONNECTION_CLOSED|CONNECTION_ENDED|57P03|53300)$/

/** Waits a while for a service that is started at the same time, as container platforms do. */
async function patiently<T>(service: string, ending: Ending, attempt: () => Promise<T>): Promise<T> {
  let told = false
  for (const until = Date.now() + servicePatience; ; await sleep(500)) {
    ending.check()
    try {
      return await attempt()
    } catch (cause) {
      const { code = "", message } = cause as NodeJS.ErrnoException
      const isPassing = passing.test(code) || message.startsWith("LOADING")
      if (!isPassing || Date.now() > until) throw new Error(`${service}: ${message || code}`, { cause })
      if (!told) say(`waiting for ${service} (${code || message})`)
      told = true
    }
  }
}

async function connectRedis(url: string, log: Log): Promise<Redis> {
  let reason: Error | undefined
  const redis = openRedis(url, "starling primary", error => {
    reason = error
    log.debug({ err: error, connection: "primary" }, "redis trouble")
  })
  try {
    await redis.connect()
    await redis.ping()
    return redis
  } catch (error) {
    redis.disconnect()
    // The client's own error says only that the connection is closed.
    throw reason ?? error
  }
}

/** From INFO, because hosted services often refuse CONFIG. */
async function checkRedis(redis: Redis, name: string): Promise<void> {
  const facts = new Map((await redis.info()).split("\r\n").map(line => line.split(":", 2) as [string, string]))
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

/** Who this host is for the others; the same after a restart, so that it is given its shards again. */
const hostIdentity = ({ host, port }: Config): string =>
  createHash("sha256").update(`${hostname()} ${host} ${port}`).digest("hex").slice(0, 10)

/** Declares dead what is certainly gone, so that nobody has to wait for a sign of life. */
class Graves {
  readonly #storage: Storage
  readonly #redis: Redis
  readonly #log: Log

  constructor(storage: Storage, redis: Redis, log: Log) {
    this.#storage = storage
    this.#redis = redis
    this.#log = log
  }

  /** @returns false when PostgreSQL or Redis did not take it; the living then find out by themselves */
  async bury(id: string): Promise<boolean> {
    const buried = async () => {
      await this.#storage.placement.declareDead(id)
      await this.#redis.hdel(redisKeys(redisPrefix).members, id)
    }
    try {
      await within(buried(), 3_000, "declaring a death")
      return true
    } catch (error) {
      this.#log.warn({ member: id, err: error }, "death not declared")
      return false
    }
  }
}

interface ProcessesOptions extends PrimaryOptions {
  databaseUrl: string
  redisUrl: string
  host: string
  port: number
  graves: Graves
  ending: Ending
}

type Role = Member["role"]

/** Where a process stands; whoever comes after it stands in the same place. */
interface Place {
  readonly role: Role
  readonly slot: number
  readonly name: string
  /** The process; undefined between two. */
  worker: Worker | undefined
  /** The incarnation that it is. */
  id: string
  listens: boolean
  readyAt: number | undefined
  /** Resolves when the process has gone and its death is declared. */
  gone: Promise<unknown>
  /** In a row, without a good while in between. */
  deaths: number
}

/**
 * The processes of this host. A place is never empty for long: who ends is replaced by a new incarnation, the later the
 * more often it happens. A process that has gone is declared dead at once, which nobody but its parent can know so soon.
 */
class Processes {
  readonly #options: ProcessesOptions
  readonly #places: Place[]
  readonly count: Record<Role, number>
  #ending = false
  #everReady = false
  #started!: { resolve: () => void; reject: (error: Error) => void }

  constructor(options: ProcessesOptions) {
    this.#options = options
    const { config, topology } = options
    this.count = {
      web: config.workers ?? topology.processes.web ?? Math.max(2, availableParallelism()),
      job: topology.processes.job,
    }
    this.#places = (["web", "job"] as const).flatMap(role =>
      Array.from({ length: this.count[role] }, (_, slot): Place => {
        const name = `${role}-${slot}`
        return {
          role,
          slot,
          name,
          worker: undefined,
          id: "",
          listens: false,
          readyAt: undefined,
          gone: Promise.resolve(),
          deaths: 0,
        }
      }),
    )
  }

  /** Resolves when every place was ready once. */
  start(): Promise<void> {
    const started = new Promise<void>((resolve, reject) => {
      this.#started = { resolve, reject }
    })
    this.#options.ending.reached.then(
      () => this.#started.resolve(),
      () => {},
    )
    for (const place of this.#places) this.#fork(place)
    return started
  }

  /**
   * Web workers together, because all of them close: passing clients and shards from one to the next would move each of
   * them many times. Jobs go on until nobody asks for them.
   */
  async end(): Promise<void> {
    this.#ending = true
    for (const role of ["web", "job"] as const)
      await Promise.all(this.#places.filter(place => place.role === role).map(place => this.#end(place)))
  }

  #fork(place: Place): void {
    if (this.#ending) return
    const { host, environment, log } = this.#options
    cluster.setupPrimary({ args: [place.role, String(place.slot)] })
    const worker = cluster.fork(environment)
    place.worker = worker
    place.id = `${place.role}-${host}-${place.slot}-${randomBytes(4).toString("hex")}`
    place.listens = false
    place.readyAt = undefined

    worker.on("message", (report: Report) => {
      if (report.type === "here") {
        place.listens = true
        const { config, databaseUrl, redisUrl, port } = this.#options
        const self: Member = { id: place.id, role: place.role, host, slot: place.slot }
        this.#tell(place, { type: "start", self, config, databaseUrl, redisUrl, redisPrefix, port })
      } else if (report.type === "ready") {
        place.readyAt = performance.now()
        log.info({ of: place.name, member: place.id, of_pid: worker.process.pid }, "process ready")
        if (this.#places.every(each => each.readyAt !== undefined)) {
          this.#everReady = true
          this.#started.resolve()
        }
      }
    })
    worker.on("error", error => log.warn({ err: error, of: place.name }, "channel trouble"))
    place.gone = new Promise<string>(resolve => {
      worker.on("exit", (code: number | null, signal: string | null) => resolve(signal ?? `code ${code}`))
    }).then(how => this.#mourn(place, how))
  }

  async #mourn(place: Place, how: string): Promise<void> {
    const { topology, log, graves, ending } = this.#options
    const { first, factor, max, forgiveAfter } = topology.processes.restart
    const { id } = place
    const lived = place.readyAt === undefined ? 0 : performance.now() - place.readyAt
    place.worker = undefined
    place.readyAt = undefined
    if (!this.#ending) {
      place.deaths = lived >= forgiveAfter ? 1 : place.deaths + 1
      const wait = Math.min(first * factor ** (place.deaths - 1), max)
      // Told to by a person's signal, or not.
      const level = how === "code 0" ? "info" : "error"
      log[level]({ of: place.name, member: id, how, wait }, "process ended; another takes its place")
      if (!this.#everReady && place.deaths >= vainStarts)
        this.#started.reject(new Error(`${place.name} ended ${vainStarts} times before it was ready (${how})`))
      else setTimeout(() => this.#fork(place), wait)
    }
    if (ending.reason === "stranded" || !(await graves.bury(id))) return
    for (const other of this.#places) this.#tell(other, { type: "death", id })
  }

  async #end(place: Place): Promise<void> {
    const { topology, ending, log } = this.#options
    const { worker } = place
    const patience = ending.reason === "stranded" ? strandedDrain : topology.processes.drainTimeout
    const late = setTimeout(() => {
      log.warn({ of: place.name, patience }, "process did not end in time and is killed")
      worker?.process.kill("SIGKILL")
    }, patience)
    if (place.listens) this.#tell(place, { type: "end", patience })
    else worker?.process.kill("SIGKILL") // it has not begun
    await place.gone
    clearTimeout(late)
  }

  #tell(place: Place, order: Order): void {
    if (place.listens) place.worker?.send(order, () => {}) // the end of a process is its own event
  }
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

Ctrl-C ends it.`)
}
