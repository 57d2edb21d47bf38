import { chmod, mkdtemp, readdir, readFile, rm } from "node:fs/promises"
import { availableParallelism, tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { pathToFileURL } from "node:url"
import { Redis } from "ioredis"
import { startOwnServer } from "../demo/own-server.ts"
import { startEmbeddedRedis } from "../src/cluster/embedded.ts"
import { startEmbeddedPostgres } from "../src/storage/core/embedded.ts"
import { migrate } from "../src/storage/core/migrate.ts"
import { startBareServer } from "./bare/bare-server.ts"
import type { BareName, BareServer } from "./bare/bare-server.ts"
import { LoadGroup } from "./load/load-group.ts"
import { settle } from "./population.ts"
import type { Population, Sizes } from "./population.ts"
import type { Parts } from "./processes.ts"

export interface Starling {
  url: string
  gatewayUrl: string
  parts: Parts<"node" | "postgres" | "redis">
  metricsUrl: string
  /** The end of what it wrote. */
  output(): string
  stop(): Promise<void>
}

/** As `npm start` has it. */
export const threadPoolSize = String(Math.max(8, 2 * availableParallelism()))

const quiet = {
  info: () => undefined,
  warn: (fields: object, message: string) => process.stderr.write(`${message} ${JSON.stringify(fields)}\n`),
  error: (fields: object, message: string) => process.stderr.write(`${message} ${JSON.stringify(fields)}\n`),
}

/**
 * Everything that runs for the benchmark and ends with it. Starling and the bare server each have a
 * PostgreSQL of their own, with the settings of the embedded one, so that neither pays for the
 * other's vacuum.
 */
export class Harness {
  readonly population: Population
  readonly databaseUrl: string
  readonly bareDatabaseUrl: string
  readonly barePostgres: number
  readonly redisUrl: string
  readonly #starlingParts: { postgres: number[]; redis: number[] }
  /** As a server has them that has started them itself. */
  readonly #local: { databaseUrl: string; redisUrl: string }
  readonly #mainFile: string
  readonly #stops: Set<() => Promise<void>>

  static async open(sizes: Sizes, mainFile: string): Promise<Harness> {
    const stops = new Set<() => Promise<void>>()
    try {
      const folder = await mkdtemp(join(tmpdir(), "starling-bench-"))
      stops.add(() => rm(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 }))
      // PostgreSQL does not run as root: its own user has to get in here.
      await chmod(folder, 0o755)
      const started = await Promise.allSettled([
        startEmbeddedPostgres({ dataDir: join(folder, "starling"), log: quiet }),
        startEmbeddedPostgres({ dataDir: join(folder, "bare"), log: quiet }),
        startEmbeddedRedis({ dataDir: join(folder, "starling"), log: quiet }),
      ])
      for (const service of started) if (service.status === "fulfilled") stops.add(() => service.value.stop())
      const [postgres, bare, redis] = started.map(service => {
        if (service.status === "rejected") throw service.reason
        return service.value
      })
      // The server's own, which are another version's where another build is measured.
      await migrate(postgres!.url, new URL("./storage/migrations/", pathToFileURL(mainFile)))
      const population = await settle(postgres!.url, sizes)
      const takesSockets = await isInBuild(mainFile, "localUrl")
      return new Harness({ postgres: postgres!, bare: bare!, redis: redis!, population, mainFile, takesSockets, stops })
    } catch (cause) {
      await endAll(stops)
      throw cause
    }
  }

  /** Opens one for some work, and closes it when that is over or the program is told to end. */
  static async use<T>(sizes: Sizes, mainFile: string, work: (harness: Harness) => Promise<T>): Promise<T> {
    const harness = await Harness.open(sizes, mainFile)
    const interrupted = () => {
      harness.close().then(
        () => process.exit(130),
        () => process.exit(130),
      )
    }
    process.once("SIGINT", interrupted).once("SIGTERM", interrupted)
    try {
      return await work(harness)
    } finally {
      await harness.close()
      process.off("SIGINT", interrupted).off("SIGTERM", interrupted)
    }
  }

  private constructor(made: {
    postgres: { url: string; localUrl: string; pid: number }
    bare: { url: string; pid: number }
    redis: { url: string; localUrl: string; pid: number }
    population: Population
    mainFile: string
    takesSockets: boolean
    stops: Set<() => Promise<void>>
  }) {
    this.population = made.population
    this.databaseUrl = made.postgres.url
    this.bareDatabaseUrl = made.bare.url
    this.barePostgres = made.bare.pid
    this.redisUrl = made.redis.url
    this.#local = made.takesSockets
      ? { databaseUrl: made.postgres.localUrl, redisUrl: made.redis.localUrl }
      : { databaseUrl: made.postgres.url, redisUrl: made.redis.url }
    this.#starlingParts = { postgres: [made.postgres.pid], redis: [made.redis.pid] }
    this.#mainFile = made.mainFile
    this.#stops = made.stops
  }

  /** `environment` comes on top of what every Starling here is given. */
  async startStarling(environment: Record<string, string> = {}): Promise<Starling> {
    const server = await startOwnServer({
      mainFile: this.#mainFile,
      environment: {
        DATABASE_URL: this.#local.databaseUrl,
        REDIS_URL: this.#local.redisUrl,
        SECRET_KEY: "one key for every server of a benchmark",
        NODE_ENV: "production",
        UV_THREADPOOL_SIZE: threadPoolSize,
        ...environment,
      },
    })
    return {
      url: server.url,
      gatewayUrl: `${server.url.replace(/^http/, "ws")}/gateway?encoding=json`,
      parts: { node: [server.pid], ...this.#starlingParts },
      metricsUrl: server.metricsUrl,
      output: () => server.output(),
      stop: this.owned(() => server.stop()),
    }
  }

  async startBare(name: BareName, args: string[], environment = {}): Promise<BareServer> {
    const server = await startBareServer(name, args, environment)
    return { ...server, stop: this.owned(() => server.stop()) }
  }

  /** While no server uses it: Redis forgets everything, and gives its memory back to the system. */
  async emptyRedis(): Promise<void> {
    const redis = new Redis(this.redisUrl)
    try {
      await redis.flushall("SYNC")
      await redis.memory("PURGE")
    } finally {
      redis.disconnect()
    }
  }

  startLoadGroup(): { loadGroup: LoadGroup; stop: () => Promise<void> } {
    const loadGroup = new LoadGroup()
    return { loadGroup, stop: this.owned(() => loadGroup.stop()) }
  }

  /** Ends whatever still runs, the latest first. */
  close(): Promise<void> {
    return endAll(this.#stops)
  }

  /** What ends when the benchmark does, unless it is ended before. */
  owned(end: () => Promise<void>): () => Promise<void> {
    const stop = () => {
      this.#stops.delete(stop)
      return end()
    }
    this.#stops.add(stop)
    return stop
  }
}

/** A build of an earlier version knows of no sockets of PostgreSQL and Redis. */
async function isInBuild(mainFile: string, word: string): Promise<boolean> {
  const folder = dirname(mainFile)
  const files = (await readdir(folder)).filter(name => name.endsWith(".js"))
  const texts = await Promise.all(files.map(name => readFile(join(folder, name), "utf8")))
  return texts.some(text => text.includes(word))
}

async function endAll(stops: Set<() => Promise<void>>): Promise<void> {
  for (const stop of [...stops].toReversed()) {
    stops.delete(stop)
    await stop().catch((cause: unknown) => process.stderr.write(`${String(cause)}\n`))
  }
}
