import { serverActor } from "../actors/server.ts"
import type { PictureUse } from "../contract/core/jobs.ts"
import { serverFile, serverFiles } from "../storage/core/blobs.ts"
import type { StoredPicture } from "../storage/communities/stored-pictures.ts"
import { deleteFiles } from "./delete-files.ts"
import { keptPicture } from "./encode-picture.ts"
import { inTurn } from "./look-at-upload.ts"
import { type JobTools, unlessGone } from "./processor.ts"
import type { Sweep } from "./sweep.ts"

const useOf: Readonly<Record<StoredPicture["kind"], PictureUse>> = {
  icon: "avatar",
  emoji: "emoji",
  sticker: "sticker",
}

/** Of one run: what comes after it is not kept waiting for long. */
const picturesPerRun = 50

/** Encodes a picture that is kept as it was uploaded. */
async function renew(tools: JobTools, picture: StoredPicture): Promise<void> {
  const { kind, id, server_id, file: from } = picture
  const bytes = await tools.blobs.get(serverFile(server_id, from))
  const encode = async (isLong: boolean) =>
    bytes && keptPicture(tools, serverFiles(server_id), useOf[kind], bytes, isLong)
  const kept = await inTurn(tools, server_id, false, encode)
  if (!kept || "refusal" in kept) return tools.storage.storedPictures.leaveAsUploaded(picture)
  const { file, content_type, hash, size } = kept.picture
  let isRenewed = false
  await unlessGone(
    "server_not_found",
    tools
      .ask(serverActor, server_id, { type: "renewPicture", kind, id, from, file: { file, content_type, hash, size } })
      .then(({ renewed }) => (isRenewed = renewed)),
  )
  // Another host was first, or the picture is gone.
  if (!isRenewed) await deleteFiles(tools, { keys: [serverFile(server_id, file)] })
}

/** Pictures that an earlier version of the program kept as they were uploaded. */
export const sweeps: readonly Sweep[] = [
  tools => async () => {
    const errors: unknown[] = []
    for (const picture of await tools.storage.storedPictures.asUploaded(picturesPerRun)) {
      tools.signal.throwIfAborted()
      await renew(tools, picture).catch((error: unknown) => errors.push(error))
    }
    if (errors.length > 0) throw errors[0]
  },
]
