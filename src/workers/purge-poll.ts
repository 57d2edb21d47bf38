import type { Processor } from "./processor.ts"

/** One statement deletes so many: short enough for its time-out. */
const chunk = 5_000

export const purgePoll: Processor<"purgePoll"> = async ({ storage, signal }, { poll_id }) => {
  if (!(await storage.polls.isGone(poll_id))) return
  while ((await storage.polls.forgetVotes(poll_id, chunk)) === chunk) signal.throwIfAborted()
  await storage.polls.forget(poll_id)
}
