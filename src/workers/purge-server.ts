import { tablesLeft } from "../storage/communities/servers.ts"
import type { Processor } from "./processor.ts"
import { purgeMessages } from "./purge-messages.ts"
import { pageRows, type Sweep } from "./sweep.ts"

/**
 * One statement deletes so many: short enough for its time-out and for those who wait behind its
 * locks.
 */
const batchSize = 2_000

export const purgeServer: Processor<"purgeServer"> = async (tools, { server_id, channel_ids }) => {
  const { storage, signal } = tools
  await purgeMessages(tools, { channel_ids })
  for (const table of tablesLeft)
    while ((await storage.servers.purgeLeft(table, server_id, batchSize)) === batchSize) signal.throwIfAborted()
}

/** Servers whose job was lost. */
export const sweeps: readonly Sweep[] = [
  tools => {
    let after = "0"
    return async () => {
      const named = await tools.storage.servers.named(after, pageRows)
      for (const { id, is_gone } of named) if (is_gone) await purgeServer(tools, { server_id: id, channel_ids: [] })
      after = named.length < pageRows ? "0" : named.at(-1)!.id
    }
  },
]
