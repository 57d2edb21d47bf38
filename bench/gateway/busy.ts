/** From a post to its frame while others post, read slowly, identify or resume. */
import type { Harness, Starling } from "../harness.ts"
import type { LoadGroup } from "../load/load-group.ts"
import { latencyMeanwhile } from "../meanwhile.ts"
import type { Disturbance, Meanwhile } from "../meanwhile.ts"
import { newRun } from "../trials.ts"
import type { Extent } from "../trials.ts"
import { counted } from "./metrics.ts"

/** So many posts at once, so often. */
const burst = 32
const burstEveryMs = 500
/** Characters that a post is longer where somebody reads slowly. */
const padding = 3_000
const fallen = "starling_gateway_fallen_to_reading_total"
const slowBytesPerSecond = 64 * 1024

export interface BusyExtent extends Extent {
  readonly listeners: number
  /** Sessions of a storm; a storm follows the other. */
  readonly storming: number
  /** How long those who read slowly are flooded before: the kernel holds megabytes for each. */
  readonly floodSeconds: number
}

export interface BusyResult extends Pick<Meanwhile<number>, "meanwhile" | "ways"> {
  /** Sessions that the server sent from its log because their buffers were full, by run. */
  readonly fellBehind: number[]
}

export async function benchBusy(
  harness: Harness,
  extent: BusyExtent,
  say: (what: string) => void,
): Promise<BusyResult[]> {
  const starling = await harness.startStarling()
  try {
    const behind = async () => (await counted(starling, [fallen]))[fallen]!
    const watched = disturbancesOf(harness, starling, extent).map(({ name, begin }): Disturbance<number> => ({
      name,
      async begin() {
        const before = await behind()
        const end = await begin()
        return async () => {
          const after = await behind()
          await end()
          return after - before
        }
      },
    }))
    const results = await latencyMeanwhile(harness, starling, watched, extent, say)
    return results.map(({ meanwhile, notes, ways }) => ({ meanwhile, fellBehind: notes, ways }))
  } finally {
    await starling.stop()
  }
}

function disturbancesOf(harness: Harness, starling: Starling, extent: BusyExtent): Disturbance<void>[] {
  const { audience, idlers } = harness.population
  const listeners = audience.tokens.slice(0, extent.listeners)
  const posters = audience.posters.slice(0, burst)
  const storming = idlers.tokens.slice(0, extent.storming)

  const listening = async () => {
    const clients = harness.startLoadGroup()
    const addresses = ["127.0.0.141", "127.0.0.142"]
    await clients.loadGroup.ask("connect", {
      url: starling.gatewayUrl,
      tokens: listeners,
      addresses,
      maxConcurrent: 64,
    })
    return clients
  }
  const bursts = (loadGroup: LoadGroup, padding: number) =>
    again(() =>
      loadGroup.ask("fanOut", {
        url: starling.url,
        posters,
        inFlight: burst,
        everyMs: burstEveryMs,
        seconds: 1,
        run: newRun(),
        padding,
      }),
    )
  const slow = async (token: string, address: string, bytesPerSecond: number) => {
    const clients = harness.startLoadGroup()
    const addresses = [address]
    await clients.loadGroup.ask("connect", { url: starling.gatewayUrl, tokens: [token], addresses, maxConcurrent: 1 })
    await clients.loadGroup.ask("readSlowly", { bytesPerSecond })
    return clients
  }

  const flood = async () => {
    const { loadGroup, stop } = harness.startLoadGroup()
    const seconds = extent.floodSeconds
    await loadGroup.ask("fanOut", {
      url: starling.url,
      posters,
      inFlight: burst,
      everyMs: 0,
      seconds,
      run: newRun(),
      padding,
    })
    await stop()
  }

  return [
    { name: "nothing", begin: async () => async () => undefined },
    {
      name: `bursts to ${listeners.length.toLocaleString("en")} listeners`,
      async begin() {
        const clients = await listening()
        const end = bursts(clients.loadGroup, 0)
        return async () => {
          await end()
          await clients.stop()
        }
      },
    },
    {
      name: "long bursts, two slow readers",
      async begin() {
        const readers = [
          await slow(listeners[0]!, "127.0.0.143", slowBytesPerSecond),
          await slow(listeners[1]!, "127.0.0.144", 0),
        ]
        await flood()
        const clients = await listening()
        const end = bursts(clients.loadGroup, padding)
        return async () => {
          await end()
          for (const { stop } of [clients, ...readers]) await stop()
        }
      },
    },
    {
      name: `${storming.length.toLocaleString("en")} identify at once`,
      async begin() {
        const clients = harness.startLoadGroup()
        const addresses = ["127.0.0.145", "127.0.0.146"]
        const connecting = { url: starling.gatewayUrl, tokens: storming, addresses, maxConcurrent: 64 }
        const end = again(async () => {
          await clients.loadGroup.ask("open", connecting)
          await clients.loadGroup.ask("identify", null)
          await clients.loadGroup.ask("disconnect", null)
        })
        return async () => {
          await end()
          await clients.stop()
        }
      },
    },
    {
      name: `${storming.length.toLocaleString("en")} resume at once`,
      async begin() {
        const clients = harness.startLoadGroup()
        const addresses = ["127.0.0.147", "127.0.0.148"]
        const connecting = { url: starling.gatewayUrl, tokens: storming, addresses, maxConcurrent: 64, returns: true }
        await clients.loadGroup.ask("connect", connecting)
        const end = again(async () => {
          await clients.loadGroup.ask("drop", null)
          const { refused } = await clients.loadGroup.ask("back", { quietMs: 100 })
          if (refused > 0) throw new Error(`${refused} sessions were refused to resume`)
        })
        return async () => {
          await end()
          await clients.stop()
        }
      },
    },
  ]
}

/** Over and over, until it is ended, which waits for the last time. */
function again(work: () => Promise<unknown>): () => Promise<void> {
  const over = new AbortController()
  let failure: Error | undefined
  const working = (async () => {
    while (!over.signal.aborted) await work()
  })().catch((cause: unknown) => {
    failure = cause as Error
  })
  return async () => {
    over.abort()
    await working
    if (failure !== undefined) throw failure
  }
}
