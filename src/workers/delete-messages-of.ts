import { channelActor } from "../actors/channel.ts"
import { firstIdAt } from "../domain/core/snowflake.ts"
import { type Processor, unlessGone } from "./processor.ts"
import { ending, type Sweep } from "./sweep.ts"

/** As many as a channel deletes in one turn. */
const batchSize = 100
/** One statement looks at so many messages, however few of them are the user's. */
const among = 5_000

export const deleteMessagesOf: Processor<"deleteMessagesOf"> = async ({ ask, storage, signal }, job) => {
  for (const channel of await storage.channels.ofServer(job.server_id)) {
    let after: string | undefined = job.after
    while (after !== undefined) {
      const found = await storage.messages.ofAuthor(channel, job.user_id, { after, before: job.before, among })
      for (let first = 0; first < found.ids.length; first += batchSize) {
        signal.throwIfAborted()
        const message_ids = found.ids.slice(first, first + batchSize)
        await unlessGone(
          "channel_not_found",
          ask(channelActor, channel, { type: "deleteMessagesOf", author: job.user_id, message_ids }),
        )
      }
      signal.throwIfAborted()
      after = found.last
    }
  }
  await storage.messages.endDeletion(job)
}

export const sweeps: readonly Sweep[] = [
  ending(({ messages }, beforeS, limit) => messages.deletionsDue(firstIdAt(beforeS * 1000), limit), deleteMessagesOf),
]
