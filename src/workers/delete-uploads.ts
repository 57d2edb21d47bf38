import { deleteFiles } from "./delete-files.ts"
import type { JobTools, Processor } from "./processor.ts"
import { forgetting, type Sweep } from "./sweep.ts"

/** One statement ends so many. */
const batchSize = 200

export const deleteUploads: Processor<"deleteUploads"> = async (tools, { files }) => {
  const { keys } = await tools.storage.uploads.end(Math.floor(tools.now() / 1000), files.length, files)
  await deleteFiles(tools, { keys })
}

/** Ends every upload that no message shows and whose time is over, with its file. */
export async function endLooseUploads(tools: JobTools): Promise<void> {
  for (;;) {
    tools.signal.throwIfAborted()
    const { looked, keys } = await tools.storage.uploads.end(Math.floor(tools.now() / 1000), batchSize)
    await deleteFiles(tools, { keys })
    if (looked < batchSize) return
  }
}

/** Ends some of what somebody has sent, whatever shows it. @returns how many */
export async function endUploadsOf(tools: JobTools, user: string): Promise<number> {
  const keys = await tools.storage.uploads.endOf(user, batchSize)
  await deleteFiles(tools, { keys })
  return keys.length
}

/** For which it is known how many files somebody sent: the limit looks at the current day. */
const countsKeptDays = 7

export const sweeps: readonly Sweep[] = [
  tools => () => endLooseUploads(tools),
  forgetting(({ uploads }, beforeS, limit) =>
    uploads.forgetCounts(Math.floor(beforeS / 86_400) - countsKeptDays, limit),
  ),
]
