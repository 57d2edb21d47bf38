import { secondsAt } from "../std/clock.ts"
import { uploadFile } from "../storage/core/blobs.ts"
import type { Processor } from "./processor.ts"
import type { Sweep } from "./sweep.ts"

/** Pictures of one sweep. */
const maxSwept = 20

/**
 * Finds out what a picture that was sent looks like. If it looks like a blocked one it is blocked as
 * well: it is neither served nor taken again.
 */
export const hashPicture: Processor<"hashPicture"> = async ({ storage, blobs, pictures, now }, { hash }) => {
  const found = await storage.uploadContents.unhashedOf(hash)
  if (!found) return
  const phash = await pictures.perceptualHash(() => blobs.get(uploadFile(found.blob)))
  if (phash !== "") await storage.fileBlocks.blockAlike(hash, phash, secondsAt(now()))
  await storage.uploadContents.putPhash(hash, phash)
}

export const sweeps: readonly Sweep[] = [
  tools => async () => {
    for (const hash of await tools.storage.uploadContents.unhashed(maxSwept)) {
      tools.signal.throwIfAborted()
      await hashPicture(tools, { hash })
    }
  },
]
