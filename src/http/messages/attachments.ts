import { createHash, randomBytes } from "node:crypto"
import { channelActor } from "../../actors/channel.ts"
import type { AttachmentInput, routes, Upload } from "../../contract/messages/attachments.ts"
import { errors, fail, Failure, unavailable } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import type { Content } from "../../contract/core/registry.ts"
import { attachmentPath, thumbnailOf, type UploadFacts, type UploadState } from "../../domain/messages/attachments.ts"
import { secondsAt } from "../../std/clock.ts"
import {
  contentTypeOf,
  declaredType,
  firstBytes,
  isExecutableType,
  isProgram,
  isShown,
  servedType,
} from "../../domain/core/file-types.ts"
import {
  cleanFilename,
  contentDisposition,
  extensionOf,
  isExecutableName,
  keptExtension,
} from "../../domain/core/filenames.ts"
import { partOf } from "../../domain/core/ranges.ts"
import { limitsOf } from "../../domain/accounts/tiers.ts"
import { isUploadName, thumbnailFile, uploadFile, type Blobs } from "../../storage/core/blobs.ts"
import { harmless } from "../shared/files.ts"
import { maxBytesBesideFile, type StreamedFile } from "../server/form-stream.ts"
import { sizeMessage } from "../server/multipart.ts"
import type { Handlers } from "../server/handlers.ts"
import type { Http, Uses } from "../shared/http.ts"

const day = 86_400
const megabyte = 1_048_576
/** Channels that show a file: the reader has to have access to one of them. */
const maxChannelsTried = 100
const maxConcurrentChannels = 5
/** After it the reader is told to try again later. */
const channelsTimeoutMs = 3_000

/** How far an upload is. */
interface Attempt {
  /** Its row may be there although nobody said so. */
  isUndecided: boolean
}

type AttachmentNeeds = Http<"files" | "uploads" | "thumbnails"> & Uses<{ readonly blobs: Blobs }>

function createKeep({ storage, integrations: { blobs }, clock, log }: AttachmentNeeds) {
  /** A refused file goes at once. */
  const remove = (key: string) =>
    blobs
      .delete(key)
      .then(() => storage.files.forget([key]))
      .catch((cause: unknown) => log.debug({ err: cause, key }, "a refused file is left to the sweep"))

  /**
   * A store that did not answer may write the file yet, even after it was told to delete it. So the
   * note stays, and the sweep comes when that is over.
   */
  const leave = (key: string) =>
    storage.files
      .putOff(key, secondsAt(clock()))
      .catch((cause: unknown) => log.debug({ err: cause, key }, "an unfinished file is left to a later sweep"))

  /** The caller's file in the store with its row, or nothing of it. */
  return async function keep(
    user_id: Snowflake,
    given: StreamedFile,
    limit: number,
    attempt: Attempt,
  ): Promise<UploadState> {
    const filename = cleanFilename(given.filename)
    const declared = declaredType(given.type)
    if (isExecutableName(filename)) throw notAllowed(`.${extensionOf(filename)}`)
    if (isExecutableType(declared)) throw notAllowed(declared)
    if (given.announced > limit + maxBytesBesideFile) throw tooLarge(given.announced, limit)
    const file = randomBytes(16).toString("hex") + keptExtension(filename)
    const key = uploadFile(file)
    const content = new Examined(given, declared, limit)
    // An upload may take hours, and its file must not be swept meanwhile.
    await storage.files.announce(key, secondsAt(clock()) + day)
    let isStored = false
    try {
      await blobs.putPieces(key, content.pieces())
      isStored = true
      const created_at = secondsAt(clock())
      const { size, hash, type: content_type } = content
      const row = { file, user_id, filename, content_type, size, hash, created_at, keep_until: created_at + day }
      attempt.isUndecided = true
      const isKept = await storage.uploads.insert(row)
      attempt.isUndecided = false
      if (!isKept) throw unavailable("the upload took too long")
      return row
    } catch (error) {
      const isUnanswered = !isStored && error instanceof Failure && error.code === "unavailable"
      if (isUnanswered) await leave(key)
      else if (!attempt.isUndecided) await remove(key)
      throw error
    }
  }
}

function createMayRead({ ask, storage }: Pick<AttachmentNeeds, "ask" | "storage">) {
  async function mayReadIn(channel: Snowflake, user: Snowflake): Promise<boolean> {
    try {
      await ask(channelActor, channel, { type: "requireRead", user })
      return true
    } catch (error) {
      if (error instanceof Failure && [403, 404].includes(errors[error.code].status)) return false
      throw error
    }
  }

  /** Whether a user may read a file: it is theirs, or they may read in a channel that shows it. */
  return async function mayRead({ file, user_id }: UploadState, user: Snowflake): Promise<boolean> {
    if (user_id === user) return true
    const channels = await storage.uploads.channelsShowing(file, user, maxChannelsTried)
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
  const mayRead = createMayRead(http)

  return {
    async uploadAttachment({ params, caller, form }) {
      const user = caller.user_id
      await ask(channelActor, params.channel_id, { type: "requireUpload", user })
      const { max_file_size_mb, max_file_uploads_per_day } = limitsOf(caller.tier)
      const now = secondsAt(clock())
      const today = Math.floor(now / day)
      // Counted before it comes: of two at once only one has the last place.
      if (!(await storage.uploads.count(user, today, max_file_uploads_per_day)))
        throw fail("upload_limit", { retry_after: (today + 1) * day - now })
      const attempt = { isUndecided: false }
      try {
        return uploadObject(await keep(user, await form!.file(), max_file_size_mb * megabyte, attempt))
      } catch (error) {
        if (!attempt.isUndecided)
          await storage.uploads
            .uncount(user, today)
            .catch((cause: unknown) => log.debug({ err: cause, user }, "a refused file stays counted"))
        throw error
      }
    },

    async getAttachment({ params: { filename }, query, caller, range, ifRange }) {
      const thumbnail = thumbnailOf(filename)
      const file = thumbnail?.file ?? filename
      if (!isUploadName(file)) throw fail("invalid_filename")
      const found = (await storage.uploads.find([file])).get(file)
      if (!found) throw fail("file_not_found")
      // A file that was never shown is its uploader's for a while; one that no message shows any
      // longer is about to be deleted. A link checks no access to a message, so there has to be a
      // message.
      const isKept = found.keep_until === null || found.keep_until > secondsAt(clock())
      if ((caller === undefined || !isKept) && !(await storage.uploads.isShown(file))) throw fail("file_not_found")
      if (caller && !(await mayRead(found, caller.user_id))) throw fail("file_access_denied")
      if (thumbnail) return thumbnailContent(http, thumbnail)

      const etag = `"${found.file}-${found.size}"`
      const isWhole = range === undefined || (ifRange !== undefined && ifRange !== etag)
      const part = isWhole ? undefined : partOf(range, found.size)
      if (part === null) throw fail("range_not_satisfiable", { headers: { "Content-Range": `bytes */${found.size}` } })
      const { from, length } = part ?? { from: 0, length: found.size }
      const isSaved = query.download === true || !isShown(found.content_type)
      const contentType = servedType(found.content_type)
      const disposition = contentDisposition(isSaved ? "attachment" : "inline", found.filename)
      const cacheControl = "private, max-age=3600"
      return {
        contentType,
        ...(part && { status: 206 }),
        body: {
          size: length,
          open: () => openAt(http, found, { from, length }),
          ...(blobs.link && {
            link: () => blobs.link!(uploadFile(filename), { contentType, disposition, cacheControl }),
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
    if (upload?.user_id !== user) return null
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

const uploadObject = ({ file, filename, size, content_type, hash }: UploadState): Upload => ({
  id: file,
  filename,
  size,
  content_type,
  url: attachmentPath(file),
  hash,
  thumbnails: null,
})

const notAllowed = (what: string) => fail("file_type_not_allowed", { message: `File type not allowed: ${what}` })

const tooLarge = (bytes: number, limit: number) => fail("file_over_limit", { message: sizeMessage(bytes, limit) })

/**
 * A file that is looked at while it passes: how long it is, its hash, and what its first bytes say.
 */
class Examined {
  readonly #given: StreamedFile
  readonly #declared: string
  readonly #limit: number
  readonly #sum = createHash("sha256")
  #head = Buffer.alloc(0)
  #type: string | undefined
  size = 0

  constructor(given: StreamedFile, declared: string, limit: number) {
    this.#given = given
    this.#declared = declared
    this.#limit = limit
  }

  /** Once all of it has passed. */
  get type(): string {
    return this.#type!
  }
  get hash(): string {
    return this.#sum.digest("hex")
  }

  async *pieces(): AsyncGenerator<Buffer> {
    for await (const piece of this.#given.pieces) {
      this.size += piece.length
      if (this.size > this.#limit) throw tooLarge(Math.max(this.size, this.#given.announced), this.#limit)
      this.#sum.update(piece)
      if (this.#type === undefined) {
        this.#head = Buffer.concat([this.#head, piece.subarray(0, firstBytes - this.#head.length)])
        if (this.#head.length === firstBytes) this.#lookAtHead()
      }
      yield piece
    }
    if (this.size === 0) throw fail("empty_file")
    if (this.#type === undefined) this.#lookAtHead()
  }

  #lookAtHead(): void {
    if (isProgram(this.#head)) throw fail("file_type_not_allowed")
    this.#type = contentTypeOf(this.#declared, this.#head)
    if (this.#type === undefined) throw fail("file_type_mismatch")
  }
}

/** Who may read a file may read its thumbnails. They never change. */
async function thumbnailContent(
  { storage, integrations: { blobs } }: AttachmentNeeds,
  { file, side }: { file: string; side: number },
): Promise<Content> {
  const made = (await storage.thumbnails.find([file])).get(file)
  const body = made && made.base !== null ? await blobs.get(thumbnailFile(made.base, side)) : undefined
  if (!body) throw fail("file_not_found")
  const headers = { ...harmless, "Cache-Control": "private, max-age=3600", ETag: `"${file}-${side}"` }
  return { contentType: "image/webp", body, headers }
}

async function openAt(
  { integrations: { blobs }, log }: Pick<Http, "log"> & Uses<{ readonly blobs: Blobs }>,
  { file }: UploadState,
  { from, length }: { from: number; length: number },
) {
  const opened = await blobs.open(uploadFile(file), { from, length })
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
