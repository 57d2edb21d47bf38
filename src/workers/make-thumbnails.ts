import { channelActor } from "../actors/channel.ts"
import { Failure } from "../contract/core/errors.ts"
import { mayHaveThumbnails, type PictureFacts } from "../domain/messages/attachments.ts"
import { lookAtUpload, mayMake } from "./look-at-upload.ts"
import { Deferral, type Processor } from "./processor.ts"
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
  if (!(await mayMake(tools, found.author_id, missing.length))) throw new Deferral()
  const uploads = await storage.uploads.find(missing.map(({ file }) => file))
  for (const { file, hash, size } of missing) {
    signal.throwIfAborted()
    const upload = uploads.get(file)
    if (upload) await lookAtUpload(tools, found.author_id, { file, hash, size, blob: upload.blob })
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
