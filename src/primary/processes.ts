import cluster, { type Worker } from "node:cluster"
import { randomBytes } from "node:crypto"
import { availableParallelism } from "node:os"
import type { ClusterConfig } from "../../cluster.config.ts"
import type { Member } from "../cluster/members.ts"
import type { Config } from "../config.ts"
import type { Log } from "../observability/log.ts"
import type { Ending } from "./ending.ts"
import type { Graves } from "./graves.ts"
import { redisPrefix, type Order, type Report } from "./orders.ts"

/** Without PostgreSQL or Redis nothing can be handed over: a drain would only wait. */
const strandedDrain = 2_000
/** A process that ends so often before anything ever ran will not run. */
const vainStarts = 5

export interface ProcessesOptions {
  config: Config
  topology: ClusterConfig
  log: Log
  /** For the processes, on top of the primary's own environment. */
  environment: Record<string, string>
  databaseUrl: string
  redisUrl: string
  host: string
  port: number
  graves: Graves
  ending: Ending
}

export type Role = Member["role"]

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
export class Processes {
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
