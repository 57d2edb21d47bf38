import { sameHash } from "../core/hashes.ts"
import type { Snowflake } from "../../contract/core/fields.ts"

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
}

export interface UploadState extends UploadFacts {
  user_id: Snowflake
  /** Unix seconds. */
  created_at: number
  /** Until when it is kept though no message shows it; null: one may. */
  keep_until: number | null
}

/** A file of a message. */
export interface AttachmentState extends UploadFacts {
  id: Snowflake
}

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
