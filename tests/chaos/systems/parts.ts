import type { Processes } from "../../kit/processes.ts"
import type { Host, System } from "../system.ts"

/** Several hosts share this machine's clock. */
export const noClocks: [string, string][] = ["clock +1 h", "clock -1 h", "clock +1 s", "clock -1 s"].map(fault => [
  fault,
  "the clocks of this system are this machine's",
])

export const hostOf = (name: string, program: Processes): Host => ({
  name,
  url: program.url,
  workers: () => program.workers(),
  signal: program.kill,
  metrics: () => program.metrics(),
  log: () => program.stderr(),
})

/**
 * What was started is stopped, the latest first: when the system is, or at once when something of
 * it does not start.
 */
export async function undoing(
  start: (undo: (() => Promise<unknown>)[], stop: () => Promise<void>) => Promise<System>,
): Promise<System> {
  const undo: (() => Promise<unknown>)[] = []
  const stop = async () => {
    for (const step of undo.splice(0).reverse()) await step()
  }
  try {
    return await start(undo, stop)
  } catch (error) {
    await stop()
    throw error
  }
}
