import { within } from "../std/deadline.ts"
import type { Log } from "./log.ts"

export interface Readiness {
  ok: boolean
  /** For operators: an error's message may name hosts and ports. */
  checks: Record<string, "ok" | (string & {})>
}

/**
 * Asks every check at once; a check is well when it returns, ill when it throws or takes longer
 * than `timeoutMs`. Callers within `cacheMs` of an answer share it, so a probe costs the same
 * however many send it. What is `advisory` is told and does not decide. `onAnswer` sees every new answer.
 */
export function createHealth(
  checks: Record<string, () => Promise<void> | void>,
  {
    timeoutMs = 1000,
    cacheMs = 500,
    advisory = new Set(),
    onAnswer = () => {},
  }: {
    timeoutMs?: number
    cacheMs?: number
    advisory?: ReadonlySet<string>
    onAnswer?: (answer: Readiness) => void
  } = {},
) {
  let running: Promise<Readiness> | undefined
  let latest: { answer: Readiness; until: number } | undefined

  async function run(): Promise<Readiness> {
    const results = await Promise.all(
      Object.entries(checks).map(async ([name, check]) => [name, await verdict(check, timeoutMs)] as const),
    )
    const ok = results.every(([name, result]) => result === "ok" || advisory.has(name))
    const answer = { ok, checks: Object.fromEntries(results) }
    latest = { answer, until: performance.now() + cacheMs }
    running = undefined
    onAnswer(answer)
    return answer
  }

  return {
    /** Never rejects. */
    async ready(): Promise<Readiness> {
      if (running) return running
      if (latest && performance.now() < latest.until) return latest.answer
      running = run()
      return running
    },
  }
}

export type Health = ReturnType<typeof createHealth>

/** One line of the log when a process is no longer ready, with every reason, and one when it is again. */
export class ReadinessLog {
  readonly #log: Log
  #isReady = true
  #isOver = false
  #changedAt = performance.now()

  constructor(log: Log) {
    this.#log = log
  }

  note({ ok, checks }: Readiness): void {
    if (this.#isOver || ok === this.#isReady) return
    this.#isReady = ok
    const now = performance.now()
    const lastedMs = Math.round(now - this.#changedAt)
    this.#changedAt = now
    if (ok) this.#log.info({ lastedMs }, "worker ready again")
    else {
      const failing = Object.entries(checks).filter(([, verdict]) => verdict !== "ok")
      this.#log.warn({ checks: Object.fromEntries(failing) }, "worker not ready")
    }
  }

  /** The process ends: what it lacks from now on, it was told to give up. */
  stop(): void {
    this.#isOver = true
  }
}

async function verdict(check: () => Promise<void> | void, timeoutMs: number): Promise<string> {
  const well = async () => {
    await check()
    return "ok"
  }
  try {
    return await within(timeoutMs, well(), () => `no answer within ${timeoutMs} ms`)
  } catch (error) {
    return error instanceof Error && error.message ? error.message : String(error)
  }
}
