import { createHash } from "node:crypto"
import { isBlobKey, type Blobs, type OpenFile } from "./blobs.ts"

/** What is in memory of a file that is copied or compared. */
const pieceBytes = 1024 * 1024
const maxConcurrent = 4

export interface Moved {
  copied: number
  copiedBytes: number
  /** They were there already, and are the same byte for byte. */
  same: number
  /** Their keys: other bytes are there already, or arrived. */
  readonly different: string[]
  /** Names in the place that are no files of the program's. */
  strange: number
}

/**
 * Copies every file to another place while both are in use, and reads back every byte. What is there
 * already is compared and left as it is, so an interrupted run is run again. Files that are deleted
 * meanwhile are in neither place afterwards (MOVE1).
 */
export async function moveFiles(from: Blobs, to: Blobs, note: (soFar: Readonly<Moved>) => void): Promise<Moved> {
  const moved: Moved = { copied: 0, copiedBytes: 0, same: 0, different: [], strange: 0 }
  const files = from.list()[Symbol.asyncIterator]()
  const lane = async () => {
    for (;;) {
      const next = await files.next()
      if (next.done === true) return
      const { key } = next.value
      if (isBlobKey(key)) await moveOne(from, to, key, moved)
      else moved.strange++
      note(moved)
    }
  }
  const lanes = await Promise.allSettled(Array.from({ length: maxConcurrent }, lane))
  const failed = lanes.find(result => result.status === "rejected")
  if (failed) throw failed.reason
  return moved
}

async function moveOne(from: Blobs, to: Blobs, key: string, moved: Moved): Promise<void> {
  const original = await from.open(key)
  // It was deleted since it was listed.
  if (!original) return
  try {
    let wanted: string | undefined
    const found = await hashIn(to, key)
    if (found === undefined) {
      const hash = createHash("sha256")
      await to.putPieces(key, piecesOf(original, hash))
      wanted = hash.digest("hex")
    } else wanted = await hashOf(original)
    const isSame = (found ?? (await hashIn(to, key))) === wanted
    // MOVE1: who deletes a file begins here. What was deleted before this look may have been copied after it.
    if (!(await isThere(from, key))) return await to.delete(key)
    if (!isSame) moved.different.push(key)
    else if (found !== undefined) moved.same++
    else {
      moved.copied++
      moved.copiedBytes += original.size
    }
  } finally {
    await original.close()
  }
}

async function hashIn(place: Blobs, key: string): Promise<string | undefined> {
  const file = await place.open(key)
  if (!file) return undefined
  try {
    return await hashOf(file)
  } finally {
    await file.close()
  }
}

async function hashOf(file: OpenFile): Promise<string> {
  const hash = createHash("sha256")
  for await (const _ of piecesOf(file, hash));
  return hash.digest("hex")
}

async function* piecesOf(file: OpenFile, hash: { update(bytes: Uint8Array): unknown }): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < file.size;) {
    const piece = await file.read(at, Math.min(pieceBytes, file.size - at))
    if (piece.length === 0) throw new Error("a file is shorter than it was")
    hash.update(piece)
    at += piece.length
    yield piece
  }
}

async function isThere(place: Blobs, key: string): Promise<boolean> {
  const file = await place.open(key, { from: 0, length: 1 })
  await file?.close()
  return file !== undefined
}
