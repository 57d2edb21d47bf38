import type { MessagePlace } from "../storage/messages/reactions.ts"
import type { Processor } from "./processor.ts"
import { pageRows, type Sweep } from "./sweep.ts"

/**
 * One statement deletes so many: short enough for its time-out and for those who wait behind its
 * locks.
 */
const batchSize = 5_000

export const purgeReactors: Processor<"purgeReactors"> = async ({ storage, signal }, { channel_id, message_id }) => {
  while ((await storage.reactions.purge([channel_id], message_id, batchSize)) === batchSize) signal.throwIfAborted()
}

const noMessage: MessagePlace = { channel_id: "0", message_id: "0" }

/** Reactions to messages whose job was lost. */
export const sweeps: readonly Sweep[] = [
  tools => {
    let after = noMessage
    return async () => {
      const named = await tools.storage.reactions.named(after, pageRows)
      for (const { is_gone, ...place } of named) if (is_gone) await purgeReactors(tools, place)
      after = named.length < pageRows ? noMessage : named.at(-1)!
    }
  },
]
