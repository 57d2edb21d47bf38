import { call } from "./client.ts"
import type { Now, Sample } from "./wire.ts"

const hourSeconds = 3_600
let samples: readonly Sample[] = []

/** The figures of now, and those of the last hour: only what is new is asked for. */
export async function loadNow(signal?: AbortSignal): Promise<Now> {
  const last = samples.at(-1)
  const query = last === undefined ? {} : { since: last.at }
  const now = await call("GET /now", { query }, signal ? { signal } : {})
  const known = new Set(now.samples.map(({ at }) => at))
  samples = [...samples.filter(({ at }) => !known.has(at) && at > now.at - hourSeconds), ...now.samples]
  return { ...now, samples: [...samples] }
}

/** Of the whole cluster. */
export const sessionsIn = ({ processes }: Pick<Now, "processes">): number =>
  processes.reduce((sum, { sessions }) => sum + sessions, 0)

export const sessionsNow = async (): Promise<number> => sessionsIn(await loadNow())
