import { randomBytes } from "node:crypto"
import { Failure } from "../contract/core/errors.ts"
import type { Snowflake } from "../contract/core/fields.ts"
import { limits } from "../contract/core/limits.ts"
import { secondsAt } from "../std/clock.ts"
import { thumbnailFile, uploadFile } from "../storage/core/blobs.ts"
import { deleteFiles } from "./delete-files.ts"
import { Deferral, type JobTools, type Looks } from "./processor.ts"

/** A picture that was sent. */
interface Sent {
  readonly hash: string
  /** What its bytes are kept under. */
  readonly blob: string
  readonly size: number
  /** The upload that gets thumbnails; absent: none does. */
  readonly file?: string | undefined
}

/**
 * Decodes a picture in its sender's turn, once for all that is to be found out about it: whether it looks like a
 * blocked one, and its thumbnails. What is known by then is not found out again.
 */
export async function lookAtUpload(tools: JobTools, holder: string, { hash, blob, size, file }: Sent): Promise<void> {
  const { storage, pictures, blobs } = tools
  await inTurn(tools, holder, false, async isLong => {
    const isUnhashed = (await storage.uploadContents.unhashedOf(hash)) !== undefined
    const lacks =
      file !== undefined && size <= limits.thumbnailBytes && !(await storage.thumbnails.find([file])).has(file)
    if (!isUnhashed && !lacks) return undefined
    const bytes = await blobs.get(uploadFile(blob))
    const looks = bytes && (await pictures.lookAt(bytes, isLong))
    if (looks === "long") return looks
    if (isUnhashed) await keepHash(tools, hash, looks?.phash ?? "")
    if (lacks) await keepThumbnails(tools, file, looks)
    return undefined
  })
}

/**
 * Decodes something when a place is free and it is the holder's turn.
 * @param task answers "long" if it takes longer than most: then it is done again when a place for
 *     such tasks is free
 */
export async function inTurn<T>(
  { pictures: { places }, signal }: JobTools,
  holder: string,
  isAwaited: boolean,
  task: (isLong: boolean) => Promise<T | "long">,
): Promise<T> {
  if (places.isFull(holder)) throw new Deferral()
  const run = (isLong: boolean) =>
    places.run(holder, { isAwaited, isLong }, async () => {
      signal.throwIfAborted()
      return task(isLong)
    })
  const short = await run(false)
  const done = short === "long" ? await run(true) : short
  if (done === "long") throw new Error("a long task may take its time")
  return done
}

/** Whether so many thumbnails may be made for a user now: somebody who sends very many pictures waits for them. */
export async function mayMake({ pictures }: JobTools, user: Snowflake, count: number): Promise<boolean> {
  try {
    if (count > 0) await pictures.spend(user, count)
    return true
  } catch (error) {
    if (error instanceof Failure && error.code === "rate_limited") return false
    throw error
  }
}

async function keepHash({ storage, now }: JobTools, hash: string, phash: string): Promise<void> {
  if (phash !== "") await storage.fileBlocks.blockAlike(hash, phash, secondsAt(now()))
  await storage.uploadContents.putPhash(hash, phash)
}

/** Each run writes files of its own, with notes that they are unused until a row names them. */
export async function keepThumbnails(tools: JobTools, file: string, looks: Looks | undefined): Promise<void> {
  const { blobs, pictures, storage, now } = tools
  pictures.count("thumbnail", looks ? "encoded" : "invalid_file")
  if (!looks) {
    await storage.thumbnails.keep(file, { base: null })
    return
  }
  const base = randomBytes(16).toString("hex")
  const images = [...looks.images].map(([side, content]) => [thumbnailFile(base, side), content] as const)
  const keys = images.map(([key]) => key)
  await storage.files.announce(keys, secondsAt(now()))
  for (const [key, content] of images) await blobs.put(key, content)
  const { width, height, thumbhash } = looks
  if (!(await storage.thumbnails.keep(file, { base, width, height, thumbhash }))) await deleteFiles(tools, { keys })
}
