import type { Snowflake } from "../../contract/core/fields.ts"
import type { Reviewed } from "./reports.ts"

/** A file that nobody may send. */
export interface BlockedHash {
  hash_value: string
  hash_type: "sha256" | "phash"
  /** Of a perceptual hash: how many bits of another may differ. */
  phash_threshold: number
  reason: string
  /** Unix seconds. */
  blocked_at: number
  blocked_by: Snowflake | null
  /** Reports have done it. */
  auto_blocked: boolean
}

/** A user who may not send files. */
export interface BlockedUploader {
  user_id: Snowflake
  reason: string
  blocked_at: number
  blocked_by: Snowflake | null
  /** Null: permanently. */
  expires_at: number | null
}

/** What a user says of a file. */
export interface HashReport {
  id: Snowflake
  hash_value: string
  phash_value: string | null
  reporter_id: Snowflake
  reason: string
  details: string | null
  reported_at: number
  uploader_id: Snowflake | null
  message_id: Snowflake | null
  attachment_url: string | null
  block_uploader: boolean
  /** The reporter could read a message with such a file, and no operator has cleared it since. */
  counts: boolean
}

export const hashReportStatuses = ["pending", "blocked", "cleared", "reviewed"] as const

/** What an operator does with the report of a file, and what becomes of it. */
export const fileStatusAfter = { block: "blocked", clear: "cleared", dismiss: "reviewed" } as const
export type FileReviewAction = keyof typeof fileStatusAfter

/** A report of a file as operators see it. */
export type ListedHashReport = HashReport &
  Reviewed<(typeof hashReportStatuses)[number]> & { reporter_username: string | null }

const usualThreshold = 10
const longestPhash = 32

/**
 * The block of a hash by an operator: what is short is a perceptual hash. `hash`: 16 to 128 hex
 * digits.
 */
export function operatorsBlock(
  hash: string,
  reason: string,
  blocked_at: number,
  blocked_by: Snowflake | null,
): Omit<BlockedHash, "auto_blocked"> {
  const isPerceptual = hash.length <= longestPhash
  return {
    hash_value: hash.toLowerCase(),
    hash_type: isPerceptual ? "phash" : "sha256",
    phash_threshold: isPerceptual ? usualThreshold : 0,
    reason,
    blocked_at,
    blocked_by,
  }
}

/** The block of an uploader by an operator. `hours`: 0 is permanently. `blocked_at`: Unix seconds. */
export const uploaderBlock = (
  user_id: Snowflake,
  reason: string,
  hours: number,
  blocked_at: number,
  blocked_by: Snowflake | null,
): BlockedUploader => ({
  user_id,
  reason,
  blocked_at,
  blocked_by,
  expires_at: hours === 0 ? null : blocked_at + hours * 3_600,
})
