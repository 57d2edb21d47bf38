import { sameHash } from "../core/hashes.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { limits } from "../../contract/core/limits.ts"
import type { Attachment } from "../../contract/messages/messages.ts"

/**
 * A file that somebody sent: its name below `/media/attachments`, and what was found out about it.
 */
export interface UploadFacts {
  file: string
  filename: string
  content_type: string
  size: number
  /** SHA-256 in hex. */
  hash: string
  /** What its sender says of it in a message. */
  metadata?: Attachment["metadata"]
}

/** One that is about to be kept. */
export interface NewUpload extends UploadFacts {
  user_id: Snowflake
  /** Unix seconds. */
  created_at: number
  /** Until when it is kept though no message shows it; null: one may. */
  keep_until: number | null
}

export interface UploadState extends NewUpload {
  /** The name under which its bytes are kept. */
  blob: string
  /** An operator has blocked what it holds. */
  is_withheld: boolean
}

/** A file of a message. */
export interface AttachmentState extends UploadFacts {
  id: Snowflake
  /** Once it is known; a file that is no picture has none. */
  picture?: PictureFacts
}

/** What is known of a picture that was made thumbnails of. */
export interface PictureFacts {
  width: number
  height: number
  /** In base64. */
  thumbhash: string
}

/** Pixels of the square that a thumbnail fits into. */
export const thumbnailSides = [64, 128, 256, 512] as const
export type ThumbnailSide = (typeof thumbnailSides)[number]

/** The name of a thumbnail below `/media/attachments`. */
export const thumbnailName = (file: string, side: ThumbnailSide): string => `${file}-${side}.webp`

/** Of which file, and how large, a thumbnail is by its name; undefined: it is none. */
export function thumbnailOf(name: string): { file: string; side: ThumbnailSide } | undefined {
  const [, file, digits] = /^(.+)-(\d+)\.webp$/.exec(name) ?? []
  const side = thumbnailSides.find(one => String(one) === digits)
  return file !== undefined && side !== undefined ? { file, side } : undefined
}

/** Whether a file may have thumbnails, as far as its type and size say. */
export const mayHaveThumbnails = ({ content_type, size }: Pick<UploadFacts, "content_type" | "size">): boolean =>
  picturesSeen.has(content_type) && size <= limits.thumbnailBytes

const picturesSeen: ReadonlySet<string> = new Set([
  "image/png",
  "image/apng",
  "image/jpeg",
  "image/jpg",
  "image/pjpeg",
  "image/gif",
  "image/webp",
])

/** As a message shows it. */
export function attachmentObject(
  { file, picture, metadata = null, ...shown }: Readonly<AttachmentState>,
  linkTo: LinkTo,
): Attachment {
  return {
    ...shown,
    url: linkTo(file),
    metadata,
    width: picture?.width ?? null,
    height: picture?.height ?? null,
    thumbhash: picture?.thumbhash ?? null,
    thumbnails: picture ? linksOf(file, linkTo) : null,
  }
}

const linksOf = (file: string, linkTo: LinkTo) => ({
  "64": linkTo(thumbnailName(file, 64)),
  "128": linkTo(thumbnailName(file, 128)),
  "256": linkTo(thumbnailName(file, 256)),
  "512": linkTo(thumbnailName(file, 512)),
})
/** Larger pictures are not looked at: they are read as a whole. */
const maxHashedBytes = 32 * 1_048_576

/** Whether a file has a perceptual hash: pictures of the formats that are decoded here. */
export const isHashable = (content_type: string, size: number): boolean =>
  size <= maxHashedBytes && /^image\/(?:png|jpe?g|gif|webp)$/.test(content_type)

/** Where a file of a message can be read. */
export type LinkTo = (file: string) => string

export const attachmentPath = (file: string): string => `/api/v1/media/attachments/${file}`

const hour = 3_600

/**
 * The path of a file with a signature that anybody may use, for a day and up to an hour more:
 * within an hour it is the same, so that what was fetched once is not fetched again. `sign`: a
 * digest of a text under a key that nobody else has.
 */
export function signedAttachmentPath(file: string, nowMs: number, sign: (text: string) => string): string {
  const exp = (Math.floor(nowMs / 1000 / hour) + 25) * hour
  return `${attachmentPath(file)}?exp=${exp}&sig=${sign(signedText(file, exp))}`
}

/** Whether a link to a file is signed, and still good. */
export function isSigned(
  file: string,
  { exp, sig }: { exp: string | null; sig: string | null },
  nowMs: number,
  sign: (text: string) => string,
): boolean {
  if (exp === null || sig === null || !/^\d{1,12}$/.test(exp)) return false
  const until = Number(exp)
  return until * 1000 > nowMs && sameHash(sig, sign(signedText(file, until)))
}

export const signedText = (file: string, exp: number): string => `attachment ${file} ${exp}`
