import type { Processor } from "./processor.ts"

/** One statement deletes so many: short enough for its time-out and for those who wait behind its locks. */
const chunk = 5_000

export const purgeReactors: Processor<"purgeReactors"> = async ({ storage, signal }, { channel_id, message_id }) => {
  while ((await storage.reactions.purge([channel_id], message_id, chunk)) === chunk) signal.throwIfAborted()
}
