/**
 * What the chaos run needs to know of the system under test. A run is the same whether the system
 * is one program on this machine or several on several addresses: it is handed one of these, and
 * the faults ask it for what they break.
 */
import type { Link } from "./proxy.ts"

/** A server that somebody else wrote: PostgreSQL, a Redis, one master of a Redis Cluster. */
export interface Service {
  readonly name: string
  /** SIGSTOP and SIGCONT for all of its processes. */
  pause(): Promise<void>
  resume(): Promise<void>
  /** SIGKILL. What it had on the disk stays. */
  kill(): Promise<void>
  /** After `kill`: on the same address, with what the disk holds. Resolves when it answers. */
  start(): Promise<void>
}

export interface PostgresService extends Service {
  /** For the run's own look at the tables; straight, past every proxy. */
  readonly url: string
  /** Takes every connection that is left, until the answer is called. */
  exhaust(): Promise<() => Promise<void>>
  /**
   * Leaves no byte free where the data lies, until the answer is called; undefined where that is
   * not possible.
   */
  readonly fillDisk?: (() => Promise<() => Promise<void>>) | undefined
}

export interface RedisService extends Service {
  /** After `kill`: on the same address, with nothing in it. */
  startEmpty(): Promise<void>
  /** CONFIG SET. */
  configure(name: string, value: string): Promise<void>
}

export interface WorkerProcess {
  readonly pid: number
  /** Such as "web 0". */
  readonly slot: string
}

/** One program with its workers. */
export interface Host {
  readonly name: string
  /** Past every proxy, for the probes. */
  readonly url: string
  /** The processes that the primary has forked and that live now. */
  workers(): Promise<WorkerProcess[]>
  signal(pid: number, name: NodeJS.Signals): void
  /** Series of /metrics by name with labels. */
  metrics(): Promise<Map<string, number>>
  /** Moves the wall clock of one place; undefined where that is not possible. */
  readonly shiftClock?: ((place: string, seconds: number) => Promise<void>) | undefined
  /** What it wrote to its log. */
  log(): string
}

export interface System {
  /** Where clients go, REST and gateway; they are spread over them. */
  readonly urls: readonly string[]
  readonly hosts: readonly Host[]
  readonly postgres: PostgresService
  readonly redis: readonly RedisService[]
  /**
   * The proxies of ours on the way of clients, and from the programs to PostgreSQL and Redis; empty
   * where there is none.
   */
  readonly links: {
    readonly public: readonly Link[]
    readonly postgres: readonly Link[]
    readonly redis: readonly Link[]
  }
  /** Why a fault that the schedule may hold cannot be had here, by the fault's name. */
  readonly impossible: ReadonlyMap<string, string>
  stop(): Promise<void>
}

/** Starts a fresh system: empty tables, an empty Redis, rate limits off. */
export type StartSystem = (options: StartOptions) => Promise<System>

interface StartOptions {
  folder: string
  workers: number
  heapMegabytes?: number
  /** Of the program, on top of the system's own. */
  environment: Record<string, string>
}
