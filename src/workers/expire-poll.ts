import { setTimeout } from "node:timers/promises"
import { channelActor } from "../actors/channel.ts"
import { Failure, unavailable } from "../contract/core/errors.ts"
import type { Actor } from "../domain/accounts/accounts.ts"
import type { JobTools, Processor } from "./processor.ts"
import { ending, type Sweep } from "./sweep.ts"

/**
 * Milliseconds for which a job waits that came early by the clock of the poll's home; one that is
 * earlier is tried again.
 */
const maxWaitMs = 5_000

export const expirePoll: Processor<"expirePoll"> = async (tools, { poll_id, channel_id, message_id }) => {
  for (;;) {
    const author = (await tools.storage.polls.find(poll_id))?.author
    const { there, left = 0 } = await expired(tools, channel_id, { poll_id, message_id, author })
    // Its channel took it along before the row could say so.
    if (!there) return tools.storage.polls.setGone(poll_id)
    if (left === 0) return
    if (left > maxWaitMs) throw unavailable("the poll goes on")
    await setTimeout(left, undefined, { signal: tools.signal })
  }
}

async function expired(
  { ask }: JobTools,
  channel: string,
  poll: { poll_id: string; message_id: string; author: Actor | undefined },
): Promise<{ there: boolean; left?: number }> {
  try {
    return await ask(channelActor, channel, { type: "expirePoll", ...poll })
  } catch (error) {
    if (error instanceof Failure && error.code === "channel_not_found") return { there: false }
    throw error
  }
}

export const sweeps: readonly Sweep[] = [ending(({ polls }, beforeS, limit) => polls.due(beforeS, limit), expirePoll)]
