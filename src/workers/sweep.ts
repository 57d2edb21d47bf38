import type { Log } from "../observability/log.ts"
import { isTransient } from "../runtime/transient.ts"
import { eachConcurrently } from "../std/each-concurrently.ts"
import type { JobTools } from "./processor.ts"

/**
 * Does what no job did. PostgreSQL knows what is over, so nothing depends on the queue's memory. A
 * sweep runs the processors itself, because the queue takes no second job under the key of one that
 * failed for good. Several hosts may sweep at once. It is made once per process, so it may keep how
 * far it has come: it looks at some, the next run goes on. `beforeS`: Unix seconds; what is later
 * is left to its job.
 */
export type Sweep = (tools: JobTools) => (beforeS: number) => Promise<unknown>

/** Between two runs, and how long a job has to do by itself what a sweep would do. */
const intervalMs = 60_000
const graceMs = 60_000
/** Until the first run. */
const delayMs = 5_000

/** Rows of one look; looks of one run; rows ended at a time. */
export const pageRows = 1_000
const maxPages = 100
export const maxConcurrent = 16

export interface SweepOptions {
  readonly sweeps: readonly Sweep[]
  readonly tools: JobTools
  readonly log: Log
  /** Unix milliseconds. */
  readonly now: () => number
}

/** Runs every sweep each minute, one after the other. */
export function startSweeps({ sweeps, tools, log, now }: SweepOptions) {
  let timer: NodeJS.Timeout | undefined
  let running = Promise.resolve()
  const steps = sweeps.map(sweep => sweep(tools))

  /** What one step fails at does not delay the others. A service that is away fails all of them: that is said once. */
  async function run(beforeS: number): Promise<void> {
    let isKnown = false
    for (const step of steps) {
      if (tools.signal.aborted) return
      await step(beforeS).catch((error: unknown) => {
        if (tools.signal.aborted) return
        const level = isKnown && isTransient(error) ? "debug" : "warn"
        log[level]({ err: error }, "a step of the sweep failed")
        isKnown ||= isTransient(error)
      })
    }
  }

  // Hosts that started together need not look together.
  function schedule(waitMs: number): void {
    timer = setTimeout(
      () => {
        running = run(Math.floor((now() - graceMs) / 1000))
          .catch((error: unknown) => log.warn({ err: error }, "sweep failed"))
          .then(() => {
            if (!tools.signal.aborted) schedule(intervalMs)
          })
      },
      waitMs * (0.9 + 0.2 * Math.random()),
    )
  }
  schedule(delayMs)

  return {
    /** After the tools' signal: resolves when nothing of it runs any longer. */
    async stop() {
      clearTimeout(timer)
      await running
    },
  }
}

type Find<Row> = (storage: JobTools["storage"], beforeS: number, limit: number) => Promise<Row[]>

/**
 * Ends what is found, page after page, as long as each is full and nothing was refused: what was
 * ended is not on the next one.
 */
export const ending =
  <Row>(
    find: Find<Row>,
    end: (tools: JobTools, row: Row, beforeS: number) => Promise<unknown>,
    concurrent = maxConcurrent,
  ): Sweep =>
  tools =>
  async beforeS => {
    for (let looks = 0; looks < maxPages; looks++) {
      const rows = await find(tools.storage, beforeS, pageRows)
      await eachConcurrently(rows, concurrent, tools.signal, async row => {
        await end(tools, row, beforeS)
      })
      if (rows.length < pageRows) return
    }
  }

/** Deletes rows, statement after statement, as long as each deletes as many as it may. */
export const forgetting =
  (
    forget: (storage: JobTools["storage"], beforeS: number, limit: number) => Promise<number>,
    limit = pageRows,
  ): Sweep =>
  ({ storage, signal }) =>
  async beforeS => {
    for (let looks = 0; looks < maxPages && !signal.aborted; looks++)
      if ((await forget(storage, beforeS, limit)) < limit) return
  }
