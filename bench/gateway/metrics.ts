import type { Starling } from "../harness.ts"

const timeoutMs = 10_000

/** What a server has counted, over the processes that live: sums of all series of a name. */
export async function counted(starling: Starling, names: readonly string[]): Promise<Record<string, number>> {
  const reply = await fetch(starling.metricsUrl, { signal: AbortSignal.timeout(timeoutMs) })
  const sums = Object.fromEntries(names.map(name => [name, 0]))
  for (const line of (await reply.text()).split("\n")) {
    const name = /^\w+/.exec(line)?.[0]
    if (name !== undefined && name in sums) sums[name]! += Number(line.slice(line.lastIndexOf(" ") + 1))
  }
  return sums
}
