import cluster from "node:cluster"
import type { Log } from "../../observability/log.ts"
import { complain, say } from "./say.ts"

/** `told`: by a signal. `stranded`: without PostgreSQL or Redis, which a drain would need. */
export type Reason = "told" | "failed" | "stranded"

/** The way to the end, from wherever it is asked for; the first reason counts. */
export class Ending {
  readonly reached: Promise<Reason>
  reason: Reason | undefined
  /** Another program serves on the port by now. */
  isReplaced = false
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

export interface SignalHandlers {
  /** From SIGTERM to the end. */
  readonly graceMs: number
  /** The processes serve as before, and say that they are not ready. @returns false when none is there yet */
  leave(): boolean
  /** Reads the configuration again. */
  reload(): void
}

/**
 * The first signal ends everything in good order, the second at once; while a SIGTERM is given its
 * grace, the next one ends that. SIGHUP reads the configuration again, except from a terminal that
 * is closed: nobody is there then to end the program. SIGQUIT is what a program says that has taken
 * the place of this one.
 */
export function watchSignals(ending: Ending, { graceMs, leave, reload }: SignalHandlers): () => void {
  const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const
  const isOnTerminal = process.stdin.isTTY || process.stdout.isTTY
  let grace: NodeJS.Timeout | undefined
  const onSignal = (signal: NodeJS.Signals) => {
    if (signal === "SIGHUP" && !isOnTerminal) return ending.reason === undefined ? reload() : undefined
    if (ending.reason === undefined) {
      if (signal === "SIGTERM" && graceMs > 0 && grace === undefined && leave()) {
        say(`not ready from now on, ending in ${graceMs / 1000} s; once more to end now`)
        grace = setTimeout(() => ending.reach("told"), graceMs)
        return
      }
      clearTimeout(grace)
      say("ending; once more to end at once")
      return ending.reach("told")
    }
    for (const worker of Object.values(cluster.workers ?? {})) worker?.process.kill("SIGKILL")
    // Embedded services notice that we are gone and end by themselves.
    process.exit(1)
  }
  const onReplaced = () => {
    if (ending.reason !== undefined) return
    say("another program serves in the place of this one; ending")
    ending.isReplaced = true
    ending.reach("told")
  }
  for (const signal of signals) process.on(signal, onSignal)
  process.on("SIGQUIT", onReplaced)
  return () => {
    clearTimeout(grace)
    process.off("SIGQUIT", onReplaced)
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
