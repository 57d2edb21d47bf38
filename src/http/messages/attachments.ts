import { channelActor } from "../../actors/channel.ts"
import type { AttachmentInput, routes, Upload } from "../../contract/messages/attachments.ts"
import { errors, fail, Failure, unavailable } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import type { Content, JobRequest } from "../../contract/core/registry.ts"
import { hashPicture } from "../../contract/core/jobs.ts"
import {
  attachmentPath,
  isHashable,
  thumbnailOf,
  type NewUpload,
  type UploadFacts,
  type UploadState,
} from "../../domain/messages/attachments.ts"
import { secondsAt } from "../../std/clock.ts"
import { declaredType, isExecutableType, isShown, servedType } from "../../domain/core/file-types.ts"
import {
  cleanFilename,
  contentDisposition,
  extensionOf,
  isExecutableName,
  keptExtension,
} from "../../domain/core/filenames.ts"
import { partOf } from "../../domain/core/ranges.ts"
import { limitsOf } from "../../domain/accounts/tiers.ts"
import { isUploadName, newBlobName, thumbnailFile, uploadFile, type Blobs } from "../../storage/core/blobs.ts"
import { FileExamination, typeNotAllowed } from "../../storage/messages/file-examination.ts"
import { missingBlob } from "../../storage/messages/uploads.ts"
import { deleteUnused, harmless, isUnanswered, leaveToSweep } from "../shared/files.ts"
import { maxBytesBesideFile, type StreamedFile } from "../server/form-stream.ts"
import { sizeMessage } from "../server/multipart.ts"
import type { Longer } from "../server/answer-clock.ts"
import type { Handlers } from "../server/handlers.ts"
import type { Http, Jobs, Uses } from "../shared/http.ts"

const day = 86_400
const megabyte = 1_048_576
/** Channels that show a file: the reader has to have access to one of them. */
export const maxChannelsTried = 100
const maxConcurrentChannels = 5
/** After it the reader is told to try again later. */
const channelsTimeoutMs = 3_000

/** How far an upload is. */
interface Attempt {
  /** Its row may be there although nobody said so. */
  isUndecided: boolean
}

type AttachmentNeeds = Http<"files" | "uploads" | "fileBlocks" | "thumbnails"> &
  Uses<{ readonly blobs: Blobs }> & { readonly jobs: Pick<Jobs, "add"> }

function createKeep(http: AttachmentNeeds) {
  const { storage, clock, log, jobs } = http
  const { blobs } = http.integrations
  /** The caller's file in the store with its row, or nothing of it. */
  return async function keep(
    user_id: Snowflake,
    given: StreamedFile,
    limit: number,
    attempt: Attempt,
    longer: Longer,
  ): Promise<NewUpload> {
    const filename = cleanFilename(given.filename)
    const declared = declaredType(given.type)
    refuseExecutables(filename, declared)
    if (given.announced > limit + maxBytesBesideFile) throw tooLarge(given.announced, limit)
    const blob = newBlobName()
    const key = uploadFile(blob)
    const examined = new FileExamination(declared)
    // An upload may take hours, and its file must not be swept meanwhile.
    await storage.files.announce(key, secondsAt(clock()) + day)
    let isStored = false
    try {
      await longer(() => blobs.putPieces(key, passing(given, examined, limit)))
      isStored = true
      const { size, hash, content_type } = examined.facts()
      if ((await storage.fileBlocks.reasonAgainst(hash)) !== undefined) throw fail("file_blocked")
      const missing = await missingBlob(storage.uploads, blobs, hash)
      const created_at = secondsAt(clock())
      const file = newBlobName() + keptExtension(filename)
      const row = { file, user_id, filename, content_type, size, hash, created_at, keep_until: created_at + day }
      const isPicture = isHashable(content_type, size)
      attempt.isUndecided = true
      const kept = await storage.uploads.insert(row, { blob, missing, phash: isPicture ? null : "" })
      attempt.isUndecided = false
      if (kept === undefined) throw unavailable("the upload took too long")
      if (kept !== blob) await deleteUnused(http, [key])
      else if (missing !== undefined) await deleteUnused(http, [uploadFile(missing)])
      if (isPicture) addLater(hashPicture.at({ hash, file, user_id }, { key: `hash:${hash}` }))
      return row
    } catch (error) {
      if (!isStored && isUnanswered(error)) await leaveToSweep(http, key)
      else if (!attempt.isUndecided) await deleteUnused(http, [key])
      throw error
    }
  }

  /** A sweep does what no job does. */
  function addLater(job: JobRequest): void {
    jobs.add(job).catch((cause: unknown) => log.debug({ err: cause, job: job.job }, "a job is left to the sweep"))
  }
}

/** @throws what says that files of this name or type are not taken */
export function refuseExecutables(filename: string, declared: string): void {
  if (isExecutableName(filename)) throw typeNotAllowed(`.${extensionOf(filename)}`)
  if (isExecutableType(declared)) throw typeNotAllowed(declared)
}

async function* passing(given: StreamedFile, examined: FileExamination, limit: number): AsyncGenerator<Buffer> {
  for await (const piece of given.pieces) {
    if (examined.size + piece.length > limit)
      throw tooLarge(Math.max(examined.size + piece.length, given.announced), limit)
    examined.take(piece)
    yield piece
  }
  examined.end()
}

/** Whether a user may read in a channel. */
export const createMayReadIn =
  ({ ask }: Pick<Http, "ask">) =>
  async (channel: Snowflake, user: Snowflake): Promise<boolean> => {
    try {
      await ask(channelActor, channel, { type: "requireRead", user })
      return true
    } catch (error) {
      if (error instanceof Failure && [403, 404].includes(errors[error.code].status)) return false
      throw error
    }
  }

export function createMayReadInAny(http: Pick<Http, "ask">) {
  const mayReadIn = createMayReadIn(http)

  /** Whether a user may read in any of these channels. */
  return async function mayReadInAny(channels: readonly Snowflake[], user: Snowflake): Promise<boolean> {
    const next = channels.values()
    let isDecided = false
    let timer: NodeJS.Timeout | undefined
    const decided = new Promise<boolean>((resolve, reject) => {
      timer = setTimeout(() => reject(unavailable("the file's channels took too long")), channelsTimeoutMs)
      // A channel that cannot be asked does not close the others.
      let failure: Error | undefined
      const lane = async () => {
        for (const channel of next) {
          if (isDecided) return
          const isOpen = await mayReadIn(channel, user).catch((error: Error) => {
            failure = error
            return false
          })
          if (isOpen) resolve(true)
        }
      }
      Promise.all(Array.from({ length: maxConcurrentChannels }, lane)).then(
        () => (failure ? reject(failure) : resolve(false)),
        reject,
      )
    })
    return decided.finally(() => {
      isDecided = true
      clearTimeout(timer)
    })
  }
}

export const attachments = (http: AttachmentNeeds): Handlers<typeof routes> => {
  const { ask, storage, clock, log, integrations } = http
  const { blobs } = integrations
  const keep = createKeep(http)
  const mayReadInAny = createMayReadInAny(http)
  /** A file is for its uploader, and for those who may read in a channel that shows it. */
  const mayRead = async ({ file, user_id }: UploadState, user: Snowflake): Promise<boolean> =>
    user_id === user || mayReadInAny(await storage.uploads.channelsShowing(file, user, maxChannelsTried), user)

  return {
    async uploadAttachment({ params, caller, form, longer }) {
      const user = caller.user_id
      await ask(channelActor, params.channel_id, { type: "requireUpload", user })
      if (await storage.fileBlocks.isBlockedUploader(user, secondsAt(clock()))) throw fail("uploads_blocked")
      const { max_file_size_mb, max_file_uploads_per_day } = limitsOf(caller.tier)
      const now = secondsAt(clock())
      const today = Math.floor(now / day)
      // Counted before it comes: of two at once only one has the last place.
      if (!(await storage.uploads.count(user, today, max_file_uploads_per_day)))
        throw fail("upload_limit", { retry_after: (today + 1) * day - now })
      const attempt = { isUndecided: false }
      try {
        return uploadObject(await keep(user, await form!.file(), max_file_size_mb * megabyte, attempt, longer))
      } catch (error) {
        if (!attempt.isUndecided)
          await storage.uploads
            .uncount(user, today)
            .catch((cause: unknown) => log.debug({ err: cause, user }, "a refused file stays counted"))
        throw error
      }
    },

    async getAttachment({ params: { filename }, query, caller, operator, range, ifRange }) {
      const thumbnail = thumbnailOf(filename)
      const file = thumbnail?.file ?? filename
      if (!isUploadName(file)) throw fail("invalid_filename")
      const found = (await storage.uploads.find([file])).get(file)
      if (!found || (found.is_withheld && !operator)) throw fail("file_not_found")
      // A file that was never shown is its uploader's for a while; one that no message shows any
      // longer is about to be deleted. A link checks no access to a message, so there has to be a
      // message. Operators see whatever is stored.
      const isKept = found.keep_until === null || found.keep_until > secondsAt(clock())
      if (!operator && (caller === undefined || !isKept) && !(await storage.uploads.isShown(file)))
        throw fail("file_not_found")
      if (caller && !(await mayRead(found, caller.user_id))) throw fail("file_access_denied")
      // Each time that an operator looks is recorded.
      const cacheControl = operator ? "no-store" : "private, max-age=3600"
      if (thumbnail) return thumbnailContent(http, thumbnail, cacheControl)

      const etag = `"${found.file}-${found.size}"`
      const isWhole = range === undefined || (ifRange !== undefined && ifRange !== etag)
      const part = isWhole ? undefined : partOf(range, found.size)
      if (part === null) throw fail("range_not_satisfiable", { headers: { "Content-Range": `bytes */${found.size}` } })
      const { from, length } = part ?? { from: 0, length: found.size }
      const isSaved = query.download === true || !isShown(found.content_type)
      const contentType = servedType(found.content_type)
      const disposition = contentDisposition(isSaved ? "attachment" : "inline", found.filename)
      return {
        contentType,
        ...(part && { status: 206 }),
        body: {
          size: length,
          open: () => openAt(http, found, { from, length }),
          // The operator's page may load nothing from elsewhere.
          ...(blobs.link &&
            !operator && {
              link: () => blobs.link!(uploadFile(found.blob), { contentType, disposition, cacheControl }),
            }),
        },
        headers: {
          ...harmless,
          "Accept-Ranges": "bytes",
          ...(part && { "Content-Range": `bytes ${from}-${from + length - 1}/${found.size}` }),
          "Content-Disposition": disposition,
          "Cache-Control": cacheControl,
          ETag: etag,
        },
      } satisfies Content
    },
  }
}

/**
 * What a message's input names, by the place of each: null for what is not the sender's own, or not
 * there.
 */
export async function ownUploads(
  { storage }: Pick<Http<"uploads">, "storage">,
  user: Snowflake,
  given: readonly AttachmentInput[],
): Promise<(UploadFacts | null)[]> {
  const files = given.map(fileOf)
  const found = await storage.uploads.find(files.filter(file => file !== undefined))
  return files.map((name, i) => {
    const upload = name === undefined ? undefined : found.get(name)
    if (upload?.user_id !== user || upload.is_withheld) return null
    const { file, filename, content_type, size, hash } = upload
    const { metadata } = given[i]!
    return { file, filename, content_type, size, hash, ...(metadata && { metadata }) }
  })
}

const urlShape = /^(?:https?:\/\/[^/?#]+)?\/api\/v1\/media\/attachments\/([^/?#]+)(?:[?#]|$)/i

/**
 * An upload's id is the name of its file. Clients may send the id that it has in a message; then
 * its address counts.
 */
function fileOf({ id, url }: AttachmentInput): string | undefined {
  return [id ?? undefined, urlShape.exec(url ?? "")?.[1]].find(name => name !== undefined && isUploadName(name))
}

const uploadObject = ({ file, filename, size, content_type, hash }: NewUpload): Upload => ({
  id: file,
  filename,
  size,
  content_type,
  url: attachmentPath(file),
  hash,
  thumbnails: null,
})

const tooLarge = (bytes: number, limit: number) => fail("file_over_limit", { message: sizeMessage(bytes, limit) })

/** Who may read a file may read its thumbnails. They never change. */
async function thumbnailContent(
  { storage, integrations: { blobs } }: AttachmentNeeds,
  { file, side }: { file: string; side: number },
  cacheControl: string,
): Promise<Content> {
  const made = (await storage.thumbnails.find([file])).get(file)
  const body = made && made.base !== null ? await blobs.get(thumbnailFile(made.base, side)) : undefined
  if (!body) throw fail("file_not_found")
  const headers = { ...harmless, "Cache-Control": cacheControl, ETag: `"${file}-${side}"` }
  return { contentType: "image/webp", body, headers }
}

async function openAt(
  { integrations: { blobs }, log }: Pick<Http, "log"> & Uses<{ readonly blobs: Blobs }>,
  { file, blob }: UploadState,
  { from, length }: { from: number; length: number },
) {
  const opened = await blobs.open(uploadFile(blob), { from, length })
  if (!opened) {
    // It went between the row and here, or this host keeps files elsewhere than the one that took
    // it.
    log.warn({ file }, "file of a row is missing")
    throw fail("file_not_found")
  }
  return {
    read: (at: number, bytes: number) => opened.read(from + at, bytes),
    close: () => opened.close(),
  }
}
