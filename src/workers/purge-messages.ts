import { endLooseUploads } from "./delete-uploads.ts"
import type { Processor } from "./processor.ts"

/** One statement deletes so many: short enough for its time-out and for those who wait behind its locks. */
const chunk = 5_000

export const purgeMessages: Processor<"purgeMessages"> = async (tools, { channel_ids }) => {
  const { storage, signal } = tools
  while ((await storage.reactions.purge(channel_ids, null, chunk)) === chunk) signal.throwIfAborted()
  // Before the messages, which then have no counts to be taken from.
  while ((await storage.readState.purge(channel_ids, chunk)) === chunk) signal.throwIfAborted()
  while ((await storage.messages.purge(channel_ids, chunk)) === chunk) signal.throwIfAborted()
  while ((await storage.messages.purgeSearched(channel_ids, chunk)) === chunk) signal.throwIfAborted()
  while ((await storage.notifications.purge(channel_ids, chunk)) === chunk) signal.throwIfAborted()
  await endLooseUploads(tools)
}
