import type { FilePlace } from "../../domain/core/file-places.ts"
import { openLocalBlobs, type Blobs, type OpenFile } from "./blobs.ts"
import { openBucketBlobs } from "./bucket-blobs.ts"
import type { BucketObservers } from "./bucket-requests.ts"

export interface FileSettings {
  readonly place: FilePlace
  /** Where files may be that are not there: they are being moved. */
  readonly fallback?: FilePlace | undefined
  /** Of this machine, for what is on its way to a bucket. */
  readonly partsFolder: string
  /** Clients that download are sent to the bucket. */
  readonly isRedirecting: boolean
}

/** A link holds so long: a client follows it at once. */
const linkSeconds = 60

export function openBlobs(
  { place, fallback, partsFolder, isRedirecting }: FileSettings,
  observers: BucketObservers = {},
): Blobs {
  const openAt = (one: FilePlace): Blobs =>
    one.kind === "folder"
      ? openLocalBlobs(one.path)
      : openBucketBlobs(one, { ...observers, partsFolder, linkSeconds: isRedirecting ? linkSeconds : undefined })
  return fallback ? withFallback(openAt(place), openAt(fallback)) : openAt(place)
}

/**
 * New files go to one place, and what is not there is read from the other. It keeps:
 *   MOVE1  A deleted file is in neither place, even while it is being copied: it goes from the place
 *       that is copied from first, and who copies looks there again afterwards (see move-files.ts).
 */
export function withFallback(main: Blobs, other: Blobs): Blobs {
  const { link } = main
  return {
    put: (key, bytes) => main.put(key, bytes),
    putPieces: (key, pieces) => main.putPieces(key, pieces),
    get: async key => (await main.get(key)) ?? other.get(key),
    open: async (key, portion) => (await main.open(key, portion)) ?? other.open(key, portion),
    async delete(key) {
      await other.delete(key)
      await main.delete(key)
    },
    async *list() {
      yield* main.list()
      yield* other.list()
    },
    async check() {
      await Promise.all([main.check(), other.check()])
    },
    ...(link && {
      async link(key, options) {
        const found: OpenFile | undefined = await main.open(key, { from: 0, length: 1 })
        await found?.close()
        return found && link(key, options)
      },
    }),
    close() {
      main.close()
      other.close()
    },
  }
}
