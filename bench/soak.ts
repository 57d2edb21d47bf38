/**
 * `npm run soak [-- --minutes 30] [--workers 2] [--samples FILE]`: the same load for a long time, with
 * large messages and slow readers, and what the workers hold meanwhile. Ends with 1 when memory grows.
 */
import { writeFile } from "node:fs/promises"
import { join } from "node:path"
import { parseArgs } from "node:util"
// @ts-expect-error plain JavaScript, because it runs before anything is installed
import { prepare } from "../scripts/prepare.mjs"
import { Harness } from "./harness.ts"
import type { Starling } from "./harness.ts"
import type { LoadGroup } from "./load/load-group.ts"
import { judge, tableOf } from "./soak/judge.ts"
import type { Sample } from "./soak/judge.ts"
import { newRun, pause } from "./trials.ts"

/** Listeners of servers of their own, and of one server whose messages are large. */
const listeners = 400
const quietServers = 8
const largeAudience = 60
const slowReaders = 6
const slowBytesPerSecond = 64 * 1024
/** Characters that a large message is longer. */
const padding = 3_800
/** Of the small and of the large messages, between two of one lane. */
const pace = { inFlight: 8, everyMs: 250 }
const largePace = { inFlight: 2, everyMs: 250 }
/** One command takes so long; there are as many as fit. */
const sliceSeconds = 20
const sampleEverySeconds = 3
/** Caches fill and code is compiled: a tenth of the run, but no more than five minutes. */
const warmUpShare = 0.1
const warmUpAtMostMs = 300_000

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "30" },
    workers: { type: "string", default: "2" },
    /** Every sample as JSON. */
    samples: { type: "string" },
  },
})
const durationMs = Number(values.minutes) * 60_000
if (!(durationMs > 0)) throw new Error("--minutes is a number above 0")

await prepare({ redis: true })
const mainFile = join(import.meta.dirname, "..", "dist", "src", "main.js")
const sizes = {
  audience: largeAudience + slowReaders,
  authors: 0,
  idlers: 0,
  spreads: { users: listeners, servers: [quietServers] },
}
const isFlat = await Harness.use(sizes, mainFile, async harness => {
  const starling = await harness.startStarling({
    WORKERS: values.workers,
    RATE_LIMITS: "off",
    CONNECTIONS_PER_USER: "100000",
    UNLIMITED_ADDRESSES: "127.0.0.0/8",
  })
  try {
    return await soak(harness, starling)
  } finally {
    await starling.stop()
  }
})
process.exitCode = isFlat ? 0 : 1

async function soak(harness: Harness, starling: Starling): Promise<boolean> {
  const { audience, spreads } = harness.population
  const [spread] = spreads
  const connected = async (tokens: string[], address: string): Promise<LoadGroup> => {
    const { loadGroup } = harness.startLoadGroup()
    const addresses = [address]
    await loadGroup.ask("connect", { url: starling.gatewayUrl, tokens, addresses, maxConcurrent: 32, returns: true })
    return loadGroup
  }
  await connected(spread!.tokens, "127.0.0.151")
  await connected(audience.tokens.slice(slowReaders), "127.0.0.152")
  const slow = await connected(audience.tokens.slice(0, slowReaders), "127.0.0.153")
  await slow.ask("readSlowly", { bytesPerSecond: slowBytesPerSecond })
  console.log(
    `soak: ${values.minutes} minutes, ${listeners + largeAudience} listeners and ${slowReaders} slow readers on ${values.workers} workers`,
  )

  const startedAt = performance.now()
  const elapsedMs = () => performance.now() - startedAt
  const isOver = () => elapsedMs() >= durationMs
  let posts = 0
  const posting = async (posters: typeof audience.posters, { inFlight, everyMs }: typeof pace, more: number) => {
    const { loadGroup } = harness.startLoadGroup()
    while (!isOver()) {
      const seconds = Math.max(1, Math.min(sliceSeconds, (durationMs - elapsedMs()) / 1_000))
      const about = { url: starling.url, posters, inFlight, everyMs, seconds, run: newRun(), padding: more }
      posts += (await loadGroup.ask("posts", about)).posts
    }
  }
  const samples: Sample[] = []
  const sampling = async () => {
    while (!isOver()) {
      samples.push(...(await sampleOf(starling, elapsedMs())))
      await pause(sampleEverySeconds)
    }
  }
  await Promise.all([
    posting(spread!.posters, pace, 0),
    posting(audience.posters.slice(slowReaders), largePace, padding),
    sampling(),
  ])

  if (values.samples !== undefined) await writeFile(values.samples, JSON.stringify(samples))
  const workers = [...new Set(samples.map(({ worker }) => worker))].toSorted()
  const verdicts = judge(samples, Math.min(durationMs * warmUpShare, warmUpAtMostMs), workers)
  console.log(tableOf(verdicts))
  console.log(`${posts} messages were acknowledged`)
  return verdicts.every(verdict => verdict.isFlat)
}

/** Of every worker that answers, and of the primary. */
async function sampleOf({ metricsUrl }: Starling, atMs: number): Promise<Sample[]> {
  const text = await (await fetch(metricsUrl, { signal: AbortSignal.timeout(10_000) })).text()
  const gauges = (name: string) =>
    new Map(
      Array.from(text.matchAll(new RegExp(`^${name}\\{[^}]*worker="([^"]+)"[^}]*\\} (\\S+)$`, "gm")), found => [
        found[1]!,
        Number(found[2]),
      ]),
    )
  const heaps = gauges("starling_process_heap_used_bytes")
  return [...gauges("starling_process_resident_memory_bytes")].map(([worker, rssBytes]) => ({
    atMs,
    worker,
    rssBytes,
    heapBytes: heaps.get(worker) ?? Number.NaN,
  }))
}
