import type { Processor } from "./processor.ts"

export const deleteFiles: Processor<"deleteFiles"> = async ({ blobs, storage, signal }, { keys }) => {
  for (const key of keys) {
    signal.throwIfAborted()
    await blobs.delete(key)
    await storage.files.forget([key])
  }
}
