import type { Processor } from "./processor.ts"
import { ending, type Sweep } from "./sweep.ts"

export const deleteFiles: Processor<"deleteFiles"> = async ({ blobs, storage, signal }, { keys }) => {
  // They stay noted, and the sweep comes later.
  if (keys.length === 0 || (await storage.files.areHeld())) return
  for (const key of keys) {
    signal.throwIfAborted()
    await blobs.delete(key)
    await storage.files.forget([key])
  }
}

/** After which no turn is still about to name a file in a row. */
const unusedKeptS = 3_600

/**
 * A file that cannot be deleted delays none of the others: it is tried again when it is this old
 * once more.
 */
export const sweeps: readonly Sweep[] = [
  tools => async beforeS => {
    const errors: unknown[] = []
    const end = ending(
      ({ files }, _, limit) => files.unused(beforeS - unusedKeptS, limit),
      async (_, key) => {
        try {
          await deleteFiles(tools, { keys: [key] })
        } catch (error) {
          tools.signal.throwIfAborted()
          errors.push(error)
          await tools.storage.files.putOff(key, beforeS)
        }
      },
    )
    await end(tools)(beforeS)
    if (errors.length > 0) throw errors[0]
  },
]
