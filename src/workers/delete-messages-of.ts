import { channelActor } from "../actors/channel.ts"
import { type Processor, unlessGone } from "./processor.ts"

/** As many as a channel deletes in one turn. */
const chunk = 100

export const deleteMessagesOf: Processor<"deleteMessagesOf"> = async ({ ask, storage, signal }, job) => {
  for (const channel of await storage.channels.ofServer(job.server_id)) {
    let { after } = job
    for (;;) {
      signal.throwIfAborted()
      const ids = await storage.messages.ofAuthor(channel, job.user_id, { after, before: job.before, limit: chunk })
      if (ids.length === 0) break
      await unlessGone(
        "channel_not_found",
        ask(channelActor, channel, { type: "deleteMessagesOf", author: job.user_id, message_ids: ids }),
      )
      after = ids.at(-1)!
    }
  }
}
