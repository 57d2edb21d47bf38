import { deleteFiles } from "./delete-files.ts"
import type { JobTools, Processor } from "./processor.ts"
import { forgetting, type Sweep } from "./sweep.ts"

/** One statement ends so many. */
const batchSize = 200

/** As many as go with each: PostgreSQL notes the thumbnails of an upload as it deletes that. */
const filesOfOne = 5

async function deleteEnded(tools: JobTools, keys: readonly string[]): Promise<void> {
  if (keys.length === 0) return
  const noted = await tools.storage.files.unused(0, filesOfOne * batchSize)
  await deleteFiles(tools, { keys: [...new Set([...keys, ...noted])] })
}

export const deleteUploads: Processor<"deleteUploads"> = async (tools, { files }) => {
  const { keys } = await tools.storage.uploads.end(Math.floor(tools.now() / 1000), files.length, files)
  await deleteEnded(tools, keys)
}

/** Ends every upload that no message shows and whose time is over, with its file. */
export async function endLooseUploads(tools: JobTools): Promise<void> {
  for (;;) {
    tools.signal.throwIfAborted()
    const { looked, keys } = await tools.storage.uploads.end(Math.floor(tools.now() / 1000), batchSize)
    await deleteEnded(tools, keys)
    if (looked < batchSize) return
  }
}

/** Ends some of what somebody has sent, whatever shows it. @returns how many */
export async function endUploadsOf(tools: JobTools, user: string): Promise<number> {
  const keys = await tools.storage.uploads.endOf(user, batchSize)
  await deleteEnded(tools, keys)
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
