import { eachConcurrently } from "../std/each-concurrently.ts"
import { isWhole } from "../storage/messages/uploads.ts"
import { deleteFiles } from "./delete-files.ts"
import type { JobTools, Processor } from "./processor.ts"
import { forgetting, maxConcurrent, type Sweep } from "./sweep.ts"

/** One statement ends so many. */
const batchSize = 200

/** As many as go with each: PostgreSQL notes the thumbnails of an upload as it deletes that. */
const filesOfOne = 5

/** `keys`: what no other upload has in common with those that ended. */
async function deleteEnded(tools: JobTools, ended: number, keys: readonly string[]): Promise<void> {
  if (ended === 0) return
  const noted = await tools.storage.files.unused(0, filesOfOne * batchSize)
  await deleteFiles(tools, { keys: [...new Set([...keys, ...noted])] })
}

export const deleteUploads: Processor<"deleteUploads"> = async (tools, { files }) => {
  const { looked, keys } = await tools.storage.uploads.end(Math.floor(tools.now() / 1000), files.length, files)
  await deleteEnded(tools, looked, keys)
}

/** Ends every upload that no message shows and whose time is over, with its file. */
export async function endLooseUploads(tools: JobTools): Promise<void> {
  for (;;) {
    tools.signal.throwIfAborted()
    const { looked, keys } = await tools.storage.uploads.end(Math.floor(tools.now() / 1000), batchSize)
    await deleteEnded(tools, looked, keys)
    if (looked < batchSize) return
  }
}

/** Ends some of what somebody has sent, whatever shows it. @returns how many */
export async function endUploadsOf(tools: JobTools, user: string): Promise<number> {
  const { ended, keys } = await tools.storage.uploads.endOf(user, batchSize)
  await deleteEnded(tools, ended, keys)
  return ended
}

/** Deletes what no upload names. */
async function endUnusedContents(tools: JobTools): Promise<void> {
  for (;;) {
    tools.signal.throwIfAborted()
    const keys = await tools.storage.uploads.endUnusedContents(batchSize)
    await deleteFiles(tools, { keys })
    if (keys.length < batchSize) return
  }
}

/** Contents of one look at whether their files are there: each is asked of the store. */
const checkedBatch = 100

/** Looks at all contents in turn, some each time: whether uploads name them, and whether their files are there. */
function checkContents(tools: JobTools) {
  let after = ""
  return async () => {
    const contents = await tools.storage.uploadContents.contentsAfter(after, checkedBatch)
    const missing: string[] = []
    const found: string[] = []
    await eachConcurrently(contents, maxConcurrent, tools.signal, async content => {
      ;((await isWhole(tools.blobs, content)) ? found : missing).push(content.hash)
    })
    await tools.storage.uploadContents.noteMissing(missing, found, Math.floor(tools.now() / 1000))
    after = contents.length < checkedBatch ? "" : contents.at(-1)!.hash
  }
}

/** For which it is known how many files somebody sent: the limit looks at the current day. */
const countsKeptDays = 7

export const sweeps: readonly Sweep[] = [
  tools => () => endLooseUploads(tools),
  checkContents,
  tools => () => endUnusedContents(tools),
  forgetting(({ uploads }, beforeS, limit) =>
    uploads.forgetCounts(Math.floor(beforeS / 86_400) - countsKeptDays, limit),
  ),
]
