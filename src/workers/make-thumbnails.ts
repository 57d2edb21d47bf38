import { randomBytes } from "node:crypto"
import { channelActor } from "../actors/channel.ts"
import { Failure } from "../contract/core/errors.ts"
import type { Snowflake } from "../contract/core/fields.ts"
import { mayHaveThumbnails, type AttachmentState, type PictureFacts } from "../domain/messages/attachments.ts"
import { secondsAt } from "../std/clock.ts"
import { thumbnailFile, uploadFile } from "../storage/core/blobs.ts"
import { deleteFiles } from "./delete-files.ts"
import { Deferral, type JobTools, type Processor } from "./processor.ts"
import type { Sweep } from "./sweep.ts"

/**
 * What was made of a file stands in a row: another message with it finds that. Of runs at the same
 * time one writes it, and the others delete what they made (P15).
 */
export const makeThumbnails: Processor<"makeThumbnails"> = async (tools, { channel_id, message_id }) => {
  const { ask, storage, signal } = tools
  const found = (await storage.messages.find(channel_id, [message_id])).get(message_id)
  const files = (found?.attachments ?? []).filter(mayHaveThumbnails)
  if (!found || files.length === 0) return storage.thumbnails.forgetRequest({ channel_id, message_id })
  const known = await storage.thumbnails.find(files.map(({ file }) => file))
  const missing = files.filter(({ file }) => !known.has(file))
  await takeTurn(tools, found.author_id, missing.length)
  for (const file of missing) {
    signal.throwIfAborted()
    await makeOf(tools, file)
  }
  const made: Record<string, PictureFacts> = {}
  for (const [file, { base, ...picture }] of await storage.thumbnails.find(files.map(one => one.file)))
    if (base !== null) made[file] = picture as PictureFacts
  try {
    await ask(channelActor, channel_id, { type: "addThumbnails", message_id, made })
  } catch (error) {
    if (!(error instanceof Failure) || !gone.has(error.code)) throw error
    await storage.thumbnails.forgetRequest({ channel_id, message_id })
  }
}

const gone: ReadonlySet<string> = new Set(["channel_not_found", "message_not_found"])

/** Somebody who sends very many pictures waits for them: others' come first. */
async function takeTurn({ pictures }: JobTools, author: Snowflake, count: number): Promise<void> {
  if (count === 0) return
  try {
    await pictures.spend(author, count)
  } catch (error) {
    if (error instanceof Failure && error.code === "rate_limited") throw new Deferral()
    throw error
  }
}

/** Each run writes files of its own, with notes that they are unused until a row names them. */
async function makeOf(tools: JobTools, { file }: AttachmentState): Promise<void> {
  const { blobs, pictures, storage, now } = tools
  const upload = (await storage.uploads.find([file])).get(file)
  const bytes = upload && (await blobs.get(uploadFile(upload.blob)))
  const made = bytes && (await pictures.thumbnailsOf(bytes))
  pictures.count("thumbnail", made ? "encoded" : "invalid_file")
  if (!made) {
    await storage.thumbnails.keep(file, { base: null })
    return
  }
  const base = randomBytes(16).toString("hex")
  const keys: string[] = []
  for (const [side, content] of made.images) {
    const key = thumbnailFile(base, side)
    keys.push(key)
    await storage.files.announce(key, secondsAt(now()))
    await blobs.put(key, content)
  }
  const { width, height, thumbhash } = made
  if (!(await storage.thumbnails.keep(file, { base, width, height, thumbhash }))) await deleteFiles(tools, { keys })
}

/** Of one run. */
const requestsPerRun = 100
/** Their jobs may wait for their turn. */
const waitS = 600

export const sweeps: readonly Sweep[] = [
  tools => async beforeS => {
    for (const request of await tools.storage.thumbnails.due(beforeS, requestsPerRun)) {
      tools.signal.throwIfAborted()
      // First, so that one that cannot be done keeps none of the others waiting.
      await tools.storage.thumbnails.putOff(request, beforeS + waitS)
      await makeThumbnails(tools, request).catch((error: unknown) => {
        if (!(error instanceof Deferral)) throw error
      })
    }
  },
]
