import { lookAtUpload, mayMake } from "./look-at-upload.ts"
import { Deferral, type Processor } from "./processor.ts"
import type { Sweep } from "./sweep.ts"

/** Pictures of one sweep. */
const maxSwept = 20

/**
 * Finds out what a picture that was sent looks like. If it looks like a blocked one it is blocked as
 * well: it is neither served nor taken again. As it is decoded for that, it gets its thumbnails, too.
 */
export const hashPicture: Processor<"hashPicture"> = async (tools, { hash, file, user_id }) => {
  const found = await tools.storage.uploadContents.unhashedOf(hash)
  if (!found) return
  // Who sends very many gets their thumbnails later; the hash does not wait.
  const mayHaveThumbnails = file !== undefined && user_id !== undefined && (await mayMake(tools, user_id, 1))
  await lookAtUpload(tools, user_id ?? hash, { hash, ...found, file: mayHaveThumbnails ? file : undefined })
}

export const sweeps: readonly Sweep[] = [
  tools => async () => {
    for (const hash of await tools.storage.uploadContents.unhashed(maxSwept)) {
      tools.signal.throwIfAborted()
      await hashPicture(tools, { hash }).catch((error: unknown) => {
        if (!(error instanceof Deferral)) throw error
      })
    }
  },
]
