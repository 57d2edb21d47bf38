import { FairPlaces } from "../../src/std/fair-places.ts"
import { randomBytes } from "node:crypto"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { inject } from "vitest"
import { clusterConfig, type ClusterConfig } from "../../cluster.config.ts"
import { readConfig } from "../../src/config.ts"
import { wantedPlace } from "../../src/domain/core/placement.ts"
import { openJobConnection } from "../../src/cluster/job-queue.ts"
import { pictureAnswered, type PictureAnswer } from "../../src/cluster/picture-requests.ts"
import { createPictures } from "../../src/integrations/pictures.ts"
import { openLocalBlobs } from "../../src/storage/core/blobs.ts"
import { openStorage } from "../../src/storage/storage.ts"
import { consumeJobs } from "../../src/workers/consumer.ts"
import type { JobTools } from "../../src/workers/processor.ts"
import { startJobWorker, type JobWorker } from "../../src/process/job-worker.ts"
import { createLog, type Log } from "../../src/observability/log.ts"
import { createMetrics, type Metrics } from "../../src/observability/metrics.ts"
import type { Sql } from "../../src/storage/core/database.ts"
import type { Member } from "../../src/cluster/members.ts"
import { tracesOf } from "../../src/process/traces.ts"
import { startWebWorker, type WebWorker } from "../../src/process/web-worker.ts"
import { noteBreaches } from "./conformance.ts"
import { cloneDatabase, type TestDatabase } from "./database.ts"
import { Person, type Endpoint } from "./person.ts"
import { cheapHashes, startProcesses, type Processes } from "./processes.ts"
import { until } from "./until.ts"

type DeepPartial<T> = { [K in keyof T]?: T[K] extends object ? DeepPartial<T[K]> : T[K] }

export interface BootOptions {
  /** With every limiter; off unless asked for. */
  limited?: boolean
  /** Environment variables for `readConfig`. */
  config?: Record<string, string>
  topology?: Topology
  /** Another way to the services of this cluster, such as a proxy. */
  databaseUrl?: string
  redisUrl?: string
  /** Return as soon as the workers listen, whichever worker owns the shards. */
  unbalanced?: boolean
  /** Workers that do not renew their lease are soon taken for dead, as in earnest. Otherwise one that is only slow is not. */
  mortal?: boolean
  /** The folder of the host's sockets, another one for another host, or none. */
  socketFolder?: string | undefined
}

export interface Worker extends WebWorker, Endpoint {
  readonly slot: number
  readonly metrics: Metrics
  /** Why its incarnation is over, if it is. */
  readonly over: string | undefined
}

export type Topology = DeepPartial<ClusterConfig>

/** A test shares the cores with many: what is only slow must not look like a refusal. The deadlines themselves are tried with whole processes. */
const longTimeouts: Topology = {
  storage: { statementTimeoutMs: 20_000, connectTimeoutMs: 10_000 },
  bus: { askTimeoutMs: 25_000 },
  http: { answerTimeoutMs: 30_000, hashTimeoutMs: 20_000 },
  presence: { askTimeoutMs: 3_000 },
  search: { turns: { withinMs: 20_000 } },
  pictures: { withinMs: 20_000 },
  gateway: { identify: { timeoutMs: 60_000 } },
}
const longLease: Topology = { membership: { serveForMs: 20_000, deadAfterMs: 30_000 } }
/** One user may stand for many. */
const manyConnections: Topology = { gateway: { connectionsPerUser: 100_000 } }
const topologyWith = (topology: Topology, { mortal, limited }: { mortal: boolean; limited: boolean }) =>
  [longTimeouts, mortal ? {} : longLease, limited ? {} : manyConnections, topology].reduce<ClusterConfig>(
    (made, more) => merged(made, more),
    clusterConfig,
  )

/** Of every worker, as of one service. */
const secretKey = randomBytes(32).toString("hex")

/** Those that are open in this process. */
export const clusters = new Set<Cluster>()

/** A database and a Redis prefix of one's own, with the workers, processes and people on them. */
export class Cluster {
  readonly #database: TestDatabase
  readonly redisUrl: string
  readonly redisPrefix: string
  /** Of all its workers, as on hosts that share one. */
  readonly dataDir: string
  readonly workers: Worker[] = []
  readonly people: Person[] = []
  /** Lines that workers logged as errors. A test that causes some must take them: what is left after it is a failure. */
  readonly errors: string[] = []
  readonly #jobWorkers: JobWorker[] = []
  readonly #endings: (() => Promise<void>)[] = []
  readonly #processes: Processes[] = []
  #slots = 0
  #names = 0

  private constructor(database: TestDatabase, redisUrl: string, dataDir: string) {
    this.dataDir = dataDir
    this.#database = database
    this.redisUrl = redisUrl
    this.redisPrefix = `${database.name}:`
  }

  /** @param redisUrl of another Redis than that of the run */
  static async create(redisUrl = inject("redis")): Promise<Cluster> {
    const cluster = new Cluster(await cloneDatabase(), redisUrl, await mkdtemp(join(tmpdir(), "starling-")))
    clusters.add(cluster)
    return cluster
  }

  get sql(): Sql {
    return this.#database.sql
  }
  get databaseUrl(): string {
    return this.#database.url
  }

  /** Starts web workers in this process; done when every shard of the cluster is where it belongs and all are ready. */
  async boot(count: number, options: BootOptions = {}): Promise<Worker[]> {
    const booted = await Promise.all(Array.from({ length: count }, () => this.#bootOne(options)))
    if (!options.unbalanced) await this.balanced()
    return booted
  }

  async #bootOne({
    limited = false,
    config = {},
    topology = {},
    mortal = false,
    ...services
  }: BootOptions): Promise<Worker> {
    const slot = this.#slots++
    const self: Member = { id: `w${slot}-${randomBytes(4).toString("hex")}`, role: "web", host: "test", slot }
    const read = readConfig({
      RATE_LIMITS: limited ? "on" : "off",
      UNLIMITED_ADDRESSES: "127.0.0.0/8",
      DATA_DIR: this.dataDir,
      ...cheapHashes,
      ...config,
    })
    const metrics = createMetrics(tracesOf(read, self))
    let over: string | undefined
    const web = await startWebWorker({
      self,
      config: read,
      topology: topologyWith(topology, { mortal, limited }),
      databaseUrl: services.databaseUrl ?? this.databaseUrl,
      redisUrl: services.redisUrl ?? this.redisUrl,
      redisPrefix: this.redisPrefix,
      secretKey,
      listen: {
        host: "127.0.0.1",
        port: 0,
        socketFolder: "socketFolder" in services ? services.socketFolder : this.dataDir,
      },
      log: this.#log(`web-${slot}`),
      metrics,
      onOver: why => {
        over = why
        worker.stop().catch(() => {})
      },
    })
    let ending: Promise<void> | undefined
    const end = (how: () => Promise<void>) => {
      if (!ending) this.workers.splice(this.workers.indexOf(worker), 1)
      const finish = async () => {
        await how()
        await metrics.finishTraces()
      }
      return (ending ??= finish().finally(() => metrics.close()))
    }
    const worker: Worker = {
      ...web,
      url: `http://127.0.0.1:${web.port}`,
      slot,
      metrics,
      get over() {
        return over
      },
      drain: () => end(() => web.drain()),
      stop: () => end(() => web.stop()),
    }
    this.workers.push(worker)
    return worker
  }

  /** Every shard has the owner that all workers wish for, its owner has opened it, and every worker is ready. */
  async balanced(): Promise<void> {
    await until("every shard is where it belongs", async () => {
      const places = this.workers.map(({ id, slot }) => ({ id, host: "test", slot }))
      const rows = await this.sql<{ shard: number; owner: string | null }[]>`SELECT shard, owner FROM shards`
      if (!rows.every(({ shard, owner }) => wantedPlace(shard, places)?.id === owner)) return false
      const owned = await Promise.all(this.workers.map(worker => gauge(worker, "starling_shards_owned")))
      return owned.every((count, i) => count === rows.filter(({ owner }) => owner === places[i]!.id).length)
    })
    await until("every worker is ready", async () => {
      const answers = await Promise.all(
        this.workers.map(async ({ url }) => {
          const answer = await fetch(`${url}/readyz`)
          await answer.arrayBuffer()
          return answer.status
        }),
      )
      return answers.every(status => status === 200)
    })
  }

  /** Starts a job worker in this process. */
  async bootJobWorker({
    topology = {},
    config = {},
    databaseUrl = this.databaseUrl,
    redisUrl = this.redisUrl,
  }: Pick<BootOptions, "topology" | "config" | "databaseUrl" | "redisUrl"> = {}): Promise<JobWorker> {
    const slot = this.#slots++
    const metrics = createMetrics()
    const job = await startJobWorker({
      self: { id: `j${slot}-${randomBytes(4).toString("hex")}`, role: "job", host: "test", slot },
      config: readConfig({ DATA_DIR: this.dataDir, ...config }),
      topology: topologyWith(topology, { mortal: true, limited: true }),
      databaseUrl,
      redisUrl,
      redisPrefix: this.redisPrefix,
      secretKey,
      socketFolder: this.dataDir,
      log: this.#log(`job-${slot}`),
      metrics,
      onOver: why => this.errors.push(`job worker over: ${why}`),
    })
    let ending: Promise<void> | undefined
    const end = (how: () => Promise<void>) => (ending ??= how().finally(() => metrics.close()))
    const worker = { ...job, drain: () => end(() => job.drain()), stop: () => end(() => job.stop()) }
    this.#jobWorkers.push(worker)
    return worker
  }

  /** Takes the jobs of pictures as a job worker does, and no others: what tests planted stays as it is. */
  async encodePictures(): Promise<void> {
    const trouble = (error: unknown) => this.errors.push(`taking pictures: ${String(error)}`)
    const taking = openJobConnection(this.redisUrl, "pictures taken", () => {})
    await taking.connect()
    const storage = openStorage({ ...clusterConfig.storage, url: this.databaseUrl, name: "pictures" })
    const { ask, bus } = this.workers[0]!.node
    const metrics = createMetrics()
    const tools = {
      ask,
      storage,
      blobs: openLocalBlobs(join(this.dataDir, "files")),
      now: Date.now,
      signal: new AbortController().signal,
      pictures: {
        ...createPictures(),
        places: new FairPlaces(2, 64),
        count: () => {},
        spend: async () => {},
        answer: (worker: string, answer: PictureAnswer) => bus.notify(worker, pictureAnswered, answer),
      },
    } as unknown as JobTools
    const about = { queue: "pictures", concurrency: 64, connection: taking, prefix: this.redisPrefix } as const
    const consumer = consumeJobs({ ...about, tools, log: this.#log("pictures"), metrics, trouble })
    this.#endings.push(async () => {
      await consumer.abandon()
      taking.disconnect()
      await storage.close()
      metrics.close()
    })
  }

  /**
   * Starts the program itself: a primary with `count` web workers and a job worker, from `dist/`. It works on this
   * cluster's database and on a Redis of its own, unless `env` names others.
   */
  async processes(count: number, env: Record<string, string> = {}): Promise<Processes> {
    const processes = await startProcesses({ WORKERS: String(count), DATABASE_URL: this.databaseUrl, ...env })
    this.#processes.push(processes)
    return processes
  }

  /** Somebody new, registered over REST. The name is made unique. */
  async person(name = "someone", at: Endpoint = this.#somewhere()): Promise<Person> {
    const person = await Person.register(at, this.newName(name))
    this.people.push(person)
    return person
  }

  /** A name that nobody in this cluster has. */
  newName(name: string): string {
    return `${name}_${++this.#names}`
  }

  seed<T>(plan: (cluster: Cluster) => Promise<T>): Promise<T> {
    return plan(this)
  }

  /**
   * Waits until nothing is on its way: outboxes are empty, every worker has read its log to the end and sent it, and every
   * client has what was sent to it. Clients that are paused are not waited for.
   */
  async settle(): Promise<void> {
    const clients = () => this.people.flatMap(person => person.clients.filter(client => client.isListening))
    let quiet = 0
    const isSettled = async () => {
      quiet = (await this.#isQuiet()) ? quiet + 1 : 0
      return quiet >= 2
    }
    await until("the cluster has settled", isSettled)
    // An answered heartbeat has everything before it in front.
    await Promise.all(clients().map(client => client.heartbeatNow().catch(() => {})))
  }

  async #isQuiet(): Promise<boolean> {
    const isPaused = this.people.some(person => person.clients.some(client => client.isPaused))
    const verdicts = await Promise.all(
      this.workers.map(async worker => {
        const { node, gateway, id } = worker
        if ((await gauge(worker, "starling_outbox_unconfirmed_rows")) > 0) return false
        if (!isPaused && (await gauge(worker, "starling_gateway_sessions", "reading")) > 0) return false
        // After a fail-over connections are made anew, at a moment of their own.
        const end = await node.logs.lastPosition(id).catch(() => undefined)
        return end !== undefined && node.streams.position >= end && gateway.settled
      }),
    )
    return verdicts.every(Boolean)
  }

  #somewhere(): Endpoint {
    const place = this.workers[this.#names % Math.max(1, this.workers.length)] ?? this.#processes[0]
    if (!place) throw new Error("nothing was booted yet")
    return place
  }

  #log(worker: string): Log {
    const write = (line: string) => {
      this.errors.push(line.trim())
    }
    return createLog({ level: "error", process: "web", worker }, { write })
  }

  /** Ends everything and drops the database. */
  async close(): Promise<void> {
    for (const person of this.people) for (const client of person.clients) client.close()
    await Promise.all([
      ...this.#endings.map(end => end()),
      ...this.#processes.map(one => one.stop()),
      ...this.#jobWorkers.map(one => one.stop()),
      ...[...this.workers].map(worker => worker.stop()),
    ])
    await this.#database.drop()
    await rm(this.dataDir, { recursive: true, force: true })
    noteBreaches(this.errors)
    clusters.delete(this)
  }
}

/** The value of one of a worker's gauges, of one label where it has some. */
export async function gauge({ metrics }: Pick<Worker, "metrics">, name: string, label?: string): Promise<number> {
  const metric = await metrics.registry.getSingleMetric(name)?.get()
  const values = (metric as { values?: { value: number; labels: Record<string, unknown> }[] } | undefined)?.values
  if (!values) throw new Error(`no metric ${name}`)
  const sample = label === undefined ? values[0] : values.find(({ labels }) => Object.values(labels).includes(label))
  return sample?.value ?? 0
}

function merged<T extends object>(base: T, over: DeepPartial<T>): T {
  const result = { ...base } as Record<string, unknown>
  for (const [key, value] of Object.entries(over as Record<string, unknown>)) {
    const below = result[key]
    const isObject = typeof value === "object" && value !== null && typeof below === "object" && below !== null
    result[key] = isObject ? merged<object>(below, value) : value
  }
  return result as T
}
