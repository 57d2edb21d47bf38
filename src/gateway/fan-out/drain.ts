import type { Clock } from "../../std/clock.ts"
import type { Connection } from "../state/session.ts"

/** Connections that are handled in one turn of the event loop. */
export const batchSize = 250

/**
 * Does something with many connections, batch by batch, so that other work need not wait for all of
 * them. Clients whose connections were closed then do not reconnect all at once. Connections that
 * close meanwhile are left out.
 * @param pause milliseconds between two batches
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
  /** Sessions per second that are sent to the other workers. */
  readonly perSecond: number
  /** A drain is over after so many milliseconds, however many sessions there are. */
  readonly withinMs: number
}

/**
 * Milliseconds between two batches of a drain: time for the other workers to resume the sessions,
 * as far as the drain has time.
 */
export function drainPauseMs(count: number, { perSecond, withinMs }: DrainTopology): number {
  const waves = Math.ceil(count / batchSize)
  if (waves <= 1) return 0
  return Math.min((batchSize / perSecond) * 1000, withinMs / (waves - 1))
}
