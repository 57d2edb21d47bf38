import { z } from "zod"
import { sample } from "../core/examples.ts"
import { omittable, Snowflake, SnowflakeInput, text } from "../core/fields.ts"
import { refused, type LimitNotes } from "../core/limit-notes.ts"
import { defineRoute } from "../core/registry.ts"

/** Reports of one user that nobody has reviewed. */
export const limits = { pendingFileReports: 100 } as const
export const limitNotes: LimitNotes<typeof limits> = { pendingFileReports: refused("reports", "report_limit") }

/** SHA-256 in hex, or a perceptual hash: letters count as the same in either case. */
export const FileHash = z
  .string()
  .regex(/^[0-9A-Fa-f]{16,128}$/, "must have 16 to 128 hex digits")
  .transform(value => value.toLowerCase())

export const ReportResponse = z
  .object({ success: z.literal(true), report_id: Snowflake, message: z.string() })
  .meta({ id: "ReportResponse" })
export const reportSubmitted = "Report submitted successfully"

export const getCompressionStatus = defineRoute({
  method: "GET",
  path: "/media/compression/status",
  summary: "Get what the server does to pictures and films that it stores",
  tag: "Media",
  auth: "user",
  reply: z
    .object({ enabled: z.boolean(), image_compression: z.boolean(), video_compression: z.boolean() })
    .meta({ id: "CompressionStatus" }),
  fails: [],
})

export const getHashStatus = defineRoute({
  method: "GET",
  path: "/media/hash/:hash_value/status",
  summary: "Find out whether a file with this hash may be uploaded",
  tag: "Media",
  auth: "user",
  params: z.object({ hash_value: z.string().regex(/^[0-9A-Fa-f]{1,128}$/, "must have up to 128 hex digits") }),
  reply: z
    .object({ hash_value: z.string(), is_blocked: z.boolean(), reason: z.string().nullable() })
    .meta({ id: "HashStatus" }),
  fails: [],
})

export const reportFile = defineRoute({
  method: "POST",
  path: "/media/report",
  summary:
    "Report a file to the operators. Enough reports by users who can read a message with it block it from being uploaded again. Until it is reviewed, a further report by the same user changes the one before and is answered with its id",
  tag: "Media",
  auth: "user",
  body: z
    .object({
      hash_value: FileHash,
      reason: text(1, 500),
      details: omittable(text(0, 2000)),
      phash_value: omittable(z.string().max(64)),
      uploader_id: omittable(SnowflakeInput),
      message_id: omittable(SnowflakeInput),
      attachment_url: omittable(z.string().max(2000)),
      block_uploader: omittable(z.boolean()).describe("Whether the uploader should be blocked as well"),
    })
    .meta({ id: "MediaReport" }),
  example: { hash_value: sample.hash, reason: "A stolen picture" },
  reply: ReportResponse,
  fails: ["report_limit"],
})

export const routes = { getCompressionStatus, getHashStatus, reportFile }
