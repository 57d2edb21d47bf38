import type { Processor } from "./processor.ts"
import { ending, type Sweep } from "./sweep.ts"

/** One statement deletes so many: short enough for its time-out. */
const batchSize = 5_000

export const purgePoll: Processor<"purgePoll"> = async ({ storage, signal }, { poll_id }) => {
  if (!(await storage.polls.isGone(poll_id))) return
  while ((await storage.polls.forgetVotes(poll_id, batchSize)) === batchSize) signal.throwIfAborted()
  await storage.polls.forget(poll_id)
}

export const sweeps: readonly Sweep[] = [
  ending(
    ({ polls }, _, limit) => polls.gone(limit),
    (tools, poll_id) => purgePoll(tools, { poll_id }),
  ),
]
