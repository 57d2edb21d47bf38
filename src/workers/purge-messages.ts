import type { Processor } from "./processor.ts"

/** One statement deletes so many: short enough for its time-out and for those who wait behind its locks. */
const chunk = 5_000

export const purgeMessages: Processor<"purgeMessages"> = async ({ storage, signal }, { channel_ids }) => {
  while ((await storage.messages.purge(channel_ids, chunk)) === chunk) signal.throwIfAborted()
}
