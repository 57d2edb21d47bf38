import { tablesLeft } from "../storage/servers.ts"
import type { Processor } from "./processor.ts"
import { purgeMessages } from "./purge-messages.ts"

/** One statement deletes so many: short enough for its time-out and for those who wait behind its locks. */
const chunk = 2_000

export const purgeServer: Processor<"purgeServer"> = async (tools, { server_id, channel_ids }) => {
  const { storage, signal } = tools
  await purgeMessages(tools, { channel_ids })
  for (const table of tablesLeft)
    while ((await storage.servers.purgeLeft(table, server_id, chunk)) === chunk) signal.throwIfAborted()
}
