import { createHash, randomBytes } from "node:crypto"
import type { PictureUse } from "../contract/core/jobs.ts"
import type { KeptPicture, PictureRefusal } from "../domain/core/pictures.ts"
import { secondsAt } from "../std/clock.ts"
import { inTurn } from "./look-at-upload.ts"
import type { JobTools, Processor } from "./processor.ts"

/** After `until` nobody waits any longer, and the source is gone or about to go. */
export const encodePicture: Processor<"encodePicture"> = async (tools, { source, folder, use, ...waiting }) => {
  const { asker, request, until, user_id } = waiting
  const kept = await inTurn(tools, user_id ?? request, true, async isLong => {
    const bytes = tools.now() < until ? await tools.blobs.get(source) : undefined
    return bytes && keptPicture(tools, folder, use, bytes, isLong)
  })
  if (kept) tools.pictures.answer(asker, { request, ...kept })
}

/**
 * Encodes a picture and keeps it below a folder, with a note that no row names it yet. Another run
 * keeps another file: no file is written that a row may name already.
 */
export async function keptPicture(
  tools: JobTools,
  folder: string,
  use: PictureUse,
  bytes: Uint8Array,
  isLong: boolean,
): Promise<{ picture: KeptPicture } | { refusal: PictureRefusal } | "long"> {
  const { pictures, storage, blobs, now } = tools
  const encoded = await pictures.encode(bytes, use, isLong)
  if (encoded === "long") return encoded
  pictures.count(use, "refusal" in encoded ? encoded.refusal : "encoded")
  if ("refusal" in encoded) return encoded
  const { bytes: content, ...shown } = encoded
  const file = randomBytes(16).toString("hex")
  await storage.files.announce(folder + file, secondsAt(now()))
  await blobs.put(folder + file, content)
  const hash = createHash("sha256").update(content).digest("hex")
  return { picture: { ...shown, file, hash, size: content.length } }
}
