import { channelActor, type ChannelCommands } from "../../actors/channel.ts"
import type { Answer, Asked } from "../../runtime/actor.ts"
import { fail, Failure, type ErrorCode } from "../../contract/core/errors.ts"
import { success, type Snowflake } from "../../contract/core/fields.ts"
import type { Poll, routes } from "../../contract/messages/polls.ts"
import { actorOf, type Handlers } from "../server/handlers.ts"
import { judged, type ModerationSource } from "./messages.ts"
import type { Http } from "../shared/http.ts"

/** A poll is found by its row, which names its channel; what counts is decided there. */
export function polls({
  ask,
  storage,
  service: { moderation },
}: Http<"polls"> & { readonly service: ModerationSource }): Handlers<typeof routes> {
  /** A channel that is not there, or is no longer, has nothing in it. */
  async function askIn<K extends keyof ChannelCommands>(
    channel: Snowflake,
    missing: ErrorCode,
    command: Asked<ChannelCommands, K>,
  ): Promise<Answer<ChannelCommands, K>> {
    try {
      return await ask(channelActor, channel, command)
    } catch (error) {
      if (error instanceof Failure && error.code === "channel_not_found") throw fail(missing)
      throw error
    }
  }

  async function find(poll_id: Snowflake) {
    const found = await storage.polls.find(poll_id)
    if (!found) throw fail("poll_not_found")
    const { channel_id: channel, message_id, author } = found
    return { channel, place: { message_id, poll_id, author } }
  }

  async function read(poll_id: Snowflake, user: Snowflake) {
    const { channel, place } = await find(poll_id)
    return askIn(channel, "poll_not_found", { type: "readPoll", user, ...place })
  }

  return {
    async createPoll({ body: { message_id, ...poll }, caller }) {
      const channel = await storage.polls.channelOf(caller.user_id, message_id)
      if (channel === undefined) throw fail("message_not_found")
      return judged<Poll>(moderation(), moderated =>
        askIn(channel, "message_not_found", {
          type: "createPoll",
          author: actorOf(caller),
          message_id,
          poll,
          ...moderated,
        }),
      )
    },

    getPoll: async ({ params: { poll_id }, caller }) => (await read(poll_id, caller.user_id)).poll,

    getPollResults: ({ params: { poll_id }, caller }) => read(poll_id, caller.user_id),

    async votePoll({ params: { poll_id }, body: { option_ids }, caller }) {
      const { channel, place } = await find(poll_id)
      const vote = { type: "votePoll", user: caller.user_id, ...place, option_ids } as const
      return askIn(channel, "poll_not_found", vote)
    },

    async closePoll({ params: { poll_id }, caller }) {
      const { channel, place } = await find(poll_id)
      return askIn(channel, "poll_not_found", { type: "closePoll", user: caller.user_id, ...place })
    },

    async deletePoll({ params: { poll_id }, caller }) {
      const { channel, place } = await find(poll_id)
      await askIn(channel, "poll_not_found", { type: "deletePoll", user: caller.user_id, ...place })
      return success
    },
  }
}
