/** What it costs to index: all messages by a rebuild, as an operator would have it. */
import { clusterConfig } from "../../cluster.config.ts"
import { rebuildSearchIndex, SearchIndex } from "../../src/workers/search-index.ts"
import type { Log } from "../../src/observability/log.ts"
import { openStorage } from "../../src/storage/storage.ts"
import { systemClock } from "../../src/std/system-clock.ts"

export interface FillResult {
  readonly messages: number
  readonly microseconds: number
  /** Bytes of the table with its indexes, by message. */
  readonly bytes: number
}

export async function benchFill(databaseUrl: string, say: (what: string) => void): Promise<FillResult> {
  const storage = openStorage({
    ...clusterConfig.storage,
    statementTimeoutMs: 600_000,
    readConnections: 1,
    url: databaseUrl,
    name: "bench index",
  })
  const indexing = storage.openSearchIndex()
  const log = { warn: console.error, error: console.error } as unknown as Log
  const index = new SearchIndex({
    storage: indexing,
    bounds: clusterConfig.search,
    languages: ["english"],
    clock: systemClock,
    log,
  })
  try {
    const began = performance.now()
    let told = 0
    const messages = await rebuildSearchIndex(indexing, index, done => {
      if (done < told + 100_000) return
      told = done
      say(`${done.toLocaleString("en")} messages indexed`)
    })
    const microseconds = ((performance.now() - began) * 1_000) / messages
    const bytes = (await indexing.step(step => step.size())) / messages
    return { messages, microseconds, bytes }
  } finally {
    await indexing.close()
    await storage.close()
  }
}
