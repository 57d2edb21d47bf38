/** What things cost, in microseconds of CPU by part of the system, as `measure.ts` finds it. */
export interface Cost {
  /** Starling's own processes. */
  readonly node: number
  readonly postgres: number
  readonly redis: number
}

export interface Costs {
  /**
   * Of an accepted post that nobody hears, its admission included, when many are committed
   * together.
   */
  readonly message: Cost
  /** Of a commit, however many messages are in it; on top of `message`. */
  readonly commit: Cost
  /** Of a post that arrives at another worker than its channel's, on top. */
  readonly ask: Cost
  /** Of a message and each worker that holds a session which hears it. */
  readonly worker: Cost
  /** Of a message and each session that hears it. */
  readonly socket: Cost
  /** Of a session that connects. */
  readonly connect: Cost
  /** Of a session that is there, each second: its heartbeats. */
  readonly session: Cost
  /** Of a worker that has nothing to do, each second. */
  readonly idle: Cost
  /** Of Redis, each second, for each pair of workers: each reads the signs of life of all. */
  readonly pair: number
  /** Bytes of memory that a session takes in Starling's processes. */
  readonly sessionBytes: number
  /**
   * Milliseconds from sending a commit to its confirmation, on a machine that does nothing else.
   */
  readonly commitMs: number
}

export const parts = ["node", "postgres", "redis"] as const
export const costOf = (of: (part: (typeof parts)[number]) => number): Cost => ({
  node: of("node"),
  postgres: of("postgres"),
  redis: of("redis"),
})
