import cluster, { type Worker } from "node:cluster"
import { randomBytes } from "node:crypto"
import { rm } from "node:fs/promises"
import type { ClusterConfig } from "../../../cluster.config.ts"
import type { Member } from "../../cluster/members.ts"
import { socketPath } from "../../cluster/unix-sockets.ts"
import { webWorkersOf, type Config } from "../../config.ts"
import type { Log } from "../../observability/log.ts"
import type { Metrics } from "../../observability/metrics.ts"
import type { Timer } from "../../std/clock.ts"
import { systemClock as clock } from "../../std/system-clock.ts"
import type { Ending } from "./ending.ts"
import type { DeadWorkers } from "./dead-workers.ts"
import { afterDeath } from "./restarts.ts"
import { redisPrefix, signOfLifeEveryMs, type Order, type Report, type StartOrder } from "./orders.ts"

/** Without PostgreSQL or Redis nothing can be handed over: a drain would only wait. */
const strandedDrain = 2_000
/** A process that ends so often before anything ever ran will not run. */
const vainStarts = 5
/** One that is to replace another is given up after so many milliseconds, and the other stays. */
const startTimeoutMs = 30_000

export interface ProcessesOptions {
  config: Config
  topology: ClusterConfig
  log: Log
  metrics: Pick<Metrics, "processes">
  /** For the processes, on top of the primary's own environment. */
  environment: Record<string, string>
  databaseUrl: string
  redisUrl: string
  secretKey: string
  host: string
  /** Where the workers listen for clients, and for one another. */
  listen: Pick<StartOrder, "port" | "socketFolder">
  deadWorkers: DeadWorkers
  ending: Ending
}

export type Role = Member["role"]

/** The slot of a process: a successor takes the slot of the process that it replaces. */
interface Place {
  readonly role: Role
  readonly slot: number
  readonly name: string
  /** None between two, two while one is replaced. */
  readonly processes: Set<Process>
  /** In a row, without a good while in between. */
  deaths: number
}

interface Process {
  readonly worker: Worker
  /** The incarnation that it is. */
  readonly id: string
  listens: boolean
  readyAt: number | undefined
  /** It was told to end. */
  ending: boolean
  /** Milliseconds since anything came from it, as far as the primary itself was well. */
  silent: number
  readonly ready: Promise<unknown>
  /** Resolves when it has gone and its death is declared. */
  readonly gone: Promise<unknown>
}

/**
 * The processes of this host. A place is never empty for long: who ends is replaced by a new incarnation, the later the
 * more often it happens. A process that has gone is declared dead at once, which nobody but its parent can know so soon.
 */
export class Processes {
  readonly #options: ProcessesOptions
  readonly #places: Place[]
  readonly count: Record<Role, number>
  #ending = false
  #leaving = false
  #config: Config
  #everReady = false
  #watch: Timer | undefined
  #watchedAt = 0
  #started!: { resolve: () => void; reject: (error: Error) => void }

  constructor(options: ProcessesOptions) {
    this.#options = options
    const { config, topology } = options
    this.#config = config
    this.count = {
      web: webWorkersOf(config, topology),
      job: topology.processes.job,
    }
    this.#places = (["web", "job"] as const).flatMap(role =>
      Array.from({ length: this.count[role] }, (_, slot): Place => ({
        role,
        slot,
        name: `${role}-${slot}`,
        processes: new Set(),
        deaths: 0,
      })),
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
    for (const place of this.#places) this.#fill(place)
    this.#watchedAt = performance.now()
    this.#watch = clock.every(signOfLifeEveryMs, () => this.#killStuck())
    return started
  }

  /**
   * The rolling restart: in one place after another a new process is started and takes part before the old one hands over
   * to it and ends. When a new one does not get ready, it is given up and all others stay as they are.
   */
  async replaceAll(config: Config): Promise<void> {
    const former = this.#config
    this.#config = config
    for (const [replaced, place] of this.#places.entries()) {
      if (this.#ending) return
      await this.#replace(place).catch((error: unknown) => {
        // No process has it: one that ends from now on is replaced by one like the others.
        if (replaced === 0) this.#config = former
        throw error
      })
    }
  }

  /** What is written to the log from now on, by those that come as well. */
  setLogLevel(logLevel: Config["logLevel"]): void {
    this.#config = { ...this.#config, logLevel }
    this.#tellAll({ type: "log", level: logLevel })
  }

  /** Those that come meanwhile, too. */
  leave(): void {
    this.#leaving = true
    this.#tellAll({ type: "leave" })
  }

  async #replace(place: Place): Promise<void> {
    const former = staying(place)
    // It has just ended, so the next process is a new one anyway.
    if (!former) return
    const next = this.#fork(place, former.id)
    const late = setTimeout(() => next.worker.process.kill("SIGKILL"), startTimeoutMs)
    await Promise.race([next.ready, next.gone])
    clearTimeout(late)
    if (this.#ending) return
    if (next.readyAt === undefined) throw new Error(`the new ${place.name} did not get ready`)
    await this.#end(former, place, true)
  }

  /**
   * Web workers together, because all of them close: passing clients and shards from one to the next would move each of
   * them many times. Jobs go on until nobody asks for them.
   */
  async end(): Promise<void> {
    const { isReplaced } = this.#options.ending
    this.#ending = true
    this.#watch?.stop()
    for (const role of ["web", "job"] as const)
      await Promise.all(
        this.#places
          .filter(place => place.role === role)
          .flatMap(place => [...place.processes].map(each => this.#end(each, place, isReplaced))),
      )
  }

  /** A process that the system cannot make counts as one that has ended at once. */
  #fill(place: Place): void {
    try {
      this.#fork(place)
    } catch (error) {
      this.#fillAgain(place, { how: (error as Error).message, lived: undefined })
    }
  }

  /** `predecessor`: who stands there still, and is going to end once the new one is ready. */
  #fork(place: Place, predecessor?: string): Process {
    const { host, environment, log } = this.#options
    // The configuration holds maps, which JSON would lose.
    cluster.setupPrimary({ args: [place.role, String(place.slot)], serialization: "advanced" })
    const worker = cluster.fork(environment)
    const id = `${place.role}-${host}-${place.slot}-${randomBytes(4).toString("hex")}`
    let isReady!: () => void
    const ready = new Promise<void>(resolve => (isReady = resolve))
    const gone = new Promise<string>(resolve => {
      worker.on("exit", (code: number | null, signal: string | null) => resolve(signal ?? `code ${code}`))
      worker.on("error", error => {
        log.warn({ err: error, of: place.name }, "IPC error")
        // What was never made has no end that anybody would tell of.
        if (worker.process.pid === undefined) resolve(error.message)
      })
    }).then(how => this.#afterEnd(place, process, how))
    const process: Process = { worker, id, listens: false, readyAt: undefined, ending: false, silent: 0, ready, gone }
    place.processes.add(process)

    worker.on("message", (report: Report) => {
      process.silent = 0
      if (report.type === "here") {
        process.listens = true
        const { databaseUrl, redisUrl, secretKey, listen } = this.#options
        const config = this.#config
        const self: Member = { id, role: place.role, host, slot: place.slot }
        const services = { databaseUrl, redisUrl, redisPrefix, secretKey }
        this.#tell(process, { type: "start", self, predecessor, config, ...services, ...listen })
        if (this.#leaving) this.#tell(process, { type: "leave" })
      } else if (report.type === "ready") {
        process.readyAt = performance.now()
        log.info({ of: place.name, member: id, of_pid: worker.process.pid }, "process ready")
        isReady()
        if (this.#places.every(each => [...each.processes].some(({ readyAt }) => readyAt !== undefined))) {
          this.#everReady = true
          this.#started.resolve()
        }
      }
    })
    return process
  }

  async #afterEnd(place: Place, process: Process, how: string): Promise<void> {
    const { log, deadWorkers, ending } = this.#options
    const { socketFolder } = this.#options.listen
    const { id, readyAt } = process
    // Who was killed could not remove it.
    if (socketFolder !== undefined) rm(socketPath(socketFolder, id), { force: true }).catch(() => {})
    place.processes.delete(process)
    const lived = readyAt === undefined ? undefined : performance.now() - readyAt
    if (!this.#ending && !staying(place)) this.#fillAgain(place, { id, how, lived })
    else log[levelOf(how)]({ of: place.name, member: id, how }, "process ended")
    if (ending.reason === "stranded" || !(await deadWorkers.declareDead(id))) return
    this.#tellAll({ type: "death", id })
  }

  /** `lived`: for how many milliseconds it was ready, if it ever was. */
  #fillAgain(place: Place, { id, how, lived }: { id?: string; how: string; lived: number | undefined }): void {
    const { topology, log } = this.#options
    const { deaths, wait } = afterDeath({ lived, before: place.deaths }, topology.processes.restart)
    place.deaths = deaths
    log[levelOf(how)]({ of: place.name, member: id, how, wait }, "process ended; another takes its place")
    if (!this.#everReady && place.deaths >= vainStarts)
      this.#started.reject(new Error(`${place.name} ended ${vainStarts} times before it was ready (${how})`))
    else
      setTimeout(() => {
        if (!this.#ending) this.#fill(place)
      }, wait)
  }

  /** A process that lives but does nothing any more would keep its place for ever, and its part of the connections. */
  #killStuck(): void {
    const { topology, log, metrics } = this.#options
    const now = performance.now()
    // A primary that was paused has heard nobody.
    const elapsed = Math.min(now - this.#watchedAt, 2 * signOfLifeEveryMs)
    this.#watchedAt = now
    for (const { name, processes } of this.#places)
      for (const process of processes) {
        process.silent += elapsed
        const most = (process.readyAt === undefined ? 3 : 1) * topology.processes.stuckAfterMs
        if (process.silent < most || process.worker.process.killed) continue
        log.error(
          { of: name, member: process.id, silent: Math.round(process.silent) },
          "process is stuck and is killed",
        )
        metrics.processes.stuck.inc()
        process.worker.process.kill("SIGKILL")
      }
  }

  /** `replaced`: another serves in its place, so it may take the time to send its clients there. */
  async #end(process: Process, { name }: Place, replaced: boolean): Promise<void> {
    const { topology, ending, log } = this.#options
    const { worker, listens } = process
    process.ending = true
    const timeoutMs = ending.reason === "stranded" ? strandedDrain : topology.processes.drainTimeoutMs
    const late = setTimeout(() => {
      log.warn({ of: name, timeoutMs }, "process did not end in time and is killed")
      worker.process.kill("SIGKILL")
    }, timeoutMs)
    if (listens) this.#tell(process, { type: "end", timeoutMs, replaced })
    else worker.process.kill("SIGKILL") // it has not begun
    await process.gone
    clearTimeout(late)
  }

  #tellAll(order: Order): void {
    for (const { processes } of this.#places) for (const process of processes) this.#tell(process, order)
  }

  #tell({ worker, listens }: Process, order: Order): void {
    if (listens) worker.send(order, () => {}) // the end of a process is its own event
  }
}

/** Told to by a person's signal, or not. */
const levelOf = (how: string): "info" | "error" => (how === "code 0" ? "info" : "error")

/** Who goes on in a place. */
const staying = ({ processes }: Place): Process | undefined => [...processes].find(({ ending }) => !ending)
