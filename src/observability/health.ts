import { within } from "../std/deadline.ts"
export interface Readiness {
  ok: boolean
  /** For operators: an error's message may name hosts and ports. */
  checks: Record<string, "ok" | (string & {})>
}

/**
 * Asks every check at once; a check is well when it returns, ill when it throws or takes longer
 * than `timeoutMs`. Callers within `cacheMs` of an answer share it, so a probe costs the same
 * however many send it. What is `advisory` is told and does not decide.
 */
export function createHealth(
  checks: Record<string, () => Promise<void> | void>,
  {
    timeoutMs = 1000,
    cacheMs = 500,
    advisory = new Set(),
  }: { timeoutMs?: number; cacheMs?: number; advisory?: ReadonlySet<string> } = {},
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
