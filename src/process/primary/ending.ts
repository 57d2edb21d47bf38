import cluster from "node:cluster"
import type { Log } from "../../observability/log.ts"
import { complain, say } from "./say.ts"

/** `told`: by a signal. `stranded`: without PostgreSQL or Redis, which a drain would need. */
export type Reason = "told" | "failed" | "stranded"

/** The way to the end, from wherever it is asked for; the first reason counts. */
export class Ending {
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
export function watchSignals(ending: Ending): () => void {
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

/** SIGUSR2 asks for a rolling restart, which may be asked for again once it is over. */
export function watchRestarts(restart: () => Promise<void>, log: Log): () => void {
  let running = false
  const onSignal = () => {
    if (running) return say("the processes are being replaced already")
    running = true
    say("replacing the processes, one after another")
    restart()
      .then(
        () => say("every process has been replaced"),
        (error: unknown) => complain(log, "not every process was replaced", (error as Error).message),
      )
      .finally(() => (running = false))
      .catch(() => {})
  }
  process.on("SIGUSR2", onSignal)
  return () => process.off("SIGUSR2", onSignal)
}
