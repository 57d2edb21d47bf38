import type { Clock } from "../../std/clock.ts"
import type { Connection } from "../state/session.ts"

/** Connections that are spoken to in one turn of the event loop. */
export const batchSize = 250

/**
 * Does something with many connections, a wave at a time: nobody else waits for all of them, and if they are closed, those
 * who come back do not come all at once. Whoever has gone meanwhile is left out.
 * @param pauseMs milliseconds between two waves
 */
export async function forEachInBatches(
  connections: readonly Connection[],
  pauseMs: number,
  clock: Pick<Clock, "sleep">,
  act: (connection: Connection) => void,
): Promise<void> {
  for (let i = 0; i < connections.length; i += batchSize) {
    if (i > 0) await clock.sleep(pauseMs)
    for (const connection of connections.slice(i, i + batchSize)) if (!connection.closed) act(connection)
  }
}

export interface DrainTopology {
  /** Sessions that the other workers are sent in a second. */
  readonly drainRate: number
  /** The drain of any number is over after so many milliseconds. */
  readonly drainWithinMs: number
}

/** Milliseconds between two waves of a drain: what others can resume in the meantime, as far as there is time. */
export function drainPauseMs(count: number, { drainRate, drainWithinMs }: DrainTopology): number {
  const waves = Math.ceil(count / batchSize)
  if (waves <= 1) return 0
  return Math.min((batchSize / drainRate) * 1000, drainWithinMs / (waves - 1))
}
