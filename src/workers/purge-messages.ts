import { endLooseUploads } from "./delete-uploads.ts"
import type { Processor } from "./processor.ts"
import type { Sweep } from "./sweep.ts"

/**
 * One statement deletes so many: short enough for its time-out and for those who wait behind its
 * locks.
 */
const batchSize = 5_000

export const purgeMessages: Processor<"purgeMessages"> = async (tools, { channel_ids }) => {
  const { storage, signal } = tools
  while ((await storage.reactions.purge(channel_ids, null, batchSize)) === batchSize) signal.throwIfAborted()
  // Before the messages, which then have no counts to be taken from.
  while ((await storage.readState.purge(channel_ids, batchSize)) === batchSize) signal.throwIfAborted()
  while ((await storage.messages.purge(channel_ids, batchSize)) === batchSize) signal.throwIfAborted()
  while ((await storage.messages.purgeSearched(channel_ids, batchSize)) === batchSize) signal.throwIfAborted()
  while ((await storage.notifications.purge(channel_ids, batchSize)) === batchSize) signal.throwIfAborted()
  await endLooseUploads(tools)
}

/** Channels of one look: each is looked for in every part of the messages. */
const pageChannels = 200

/** Channels whose job was lost. */
export const sweeps: readonly Sweep[] = [
  tools => {
    let after = "0"
    return async () => {
      const named = await tools.storage.messages.channelsNamed(after, pageChannels)
      const channel_ids = named.flatMap(({ id, is_gone }) => (is_gone ? [id] : []))
      if (channel_ids.length > 0) await purgeMessages(tools, { channel_ids })
      after = named.length < pageChannels ? "0" : named.at(-1)!.id
    }
  },
]
