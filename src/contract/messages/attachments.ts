import { z } from "zod"
import { omittable, queryFlag, Snowflake } from "../core/fields.ts"
import { limits } from "../core/limits.ts"
import { Content, defineRoute, FormFile } from "../core/registry.ts"

/**
 * What an upload is answered with. Given to a message as it is, or just its `id`, it becomes an
 * attachment.
 */
export const Upload = z
  .object({
    id: z.string().describe("Opaque. It differs from the id of the attachment in messages"),
    filename: z.string(),
    size: z.int().positive().describe("Bytes"),
    content_type: z.string(),
    url: z.string().describe("A path on this server"),
    hash: z.string().nullable().describe("SHA-256 of the file, in hex"),
    thumbnails: z
      .record(z.string(), z.string())
      .nullable()
      .describe("Null: thumbnails of a picture are made once a message has it"),
  })
  .meta({ id: "UploadResponse" })
export type Upload = z.infer<typeof Upload>

const duration_seconds = z.number().min(0).max(86_400)
const waveform = z.base64().max(limits.waveformCharacters)
const waveformText = "Loudness over time, one byte for each stretch, in base64"

/** What the sender of a voice message says of it; the server does not check it against the file. */
export const AttachmentMetadata = z
  .object({ duration_seconds: duration_seconds.optional(), waveform: waveform.optional().describe(waveformText) })
  .meta({ id: "AttachmentMetadata" })
const GivenMetadata = z
  .object({ duration_seconds: omittable(duration_seconds), waveform: omittable(waveform).describe(waveformText) })
  .meta({ id: "AttachmentMetadataInput" })

const AttachmentInput = z
  .looseObject({
    id: z.string().max(limits.urlCharacters).nullish(),
    url: z.string().max(limits.urlCharacters).nullish(),
    metadata: GivenMetadata.nullish(),
  })
  .describe("The response of an upload, or only its `id` or its `url`. The server fills in everything but `metadata`")
  .meta({ id: "AttachmentRequest" })
export type AttachmentInput = z.output<typeof AttachmentInput>

/**
 * The files of one message. One more than it may have can be among them: that refusal is the
 * route's own.
 */
export const AttachmentInputs = z.preprocess(
  value => (Array.isArray(value) ? value.slice(0, limits.attachmentsPerMessage + 1) : value),
  z.array(AttachmentInput),
)

export const uploadAttachment = defineRoute({
  method: "POST",
  path: "/channels/:channel_id/attachments",
  summary: "Upload a file for a message. A file that no message uses is deleted after a day",
  tag: "Media",
  auth: "user",
  permission: ["messages.attach_files"],
  params: z.object({ channel_id: Snowflake }),
  body: z.object({ file: FormFile.describe("The caller's tier limits the size") }).meta({ id: "UploadRequest" }),
  form: { file: { name: "file", bytes: limits.attachmentBytes, tooLarge: "file_over_limit", isStreamed: true } },
  reply: Upload,
  fails: [
    "invalid_channel_id",
    "channel_not_found",
    "access_denied",
    "cannot_message",
    "permission_denied",
    "timed_out",
    "not_a_text_channel",
    "uploads_blocked",
    "upload_limit",
    "file_over_limit",
    "empty_file",
    "file_type_not_allowed",
    "file_type_mismatch",
    "file_blocked",
  ],
})

export const getAttachment = defineRoute({
  method: "GET",
  path: "/media/attachments/:filename",
  summary:
    "Download a file of a message, or a byte range of it. Allowed for its uploader, for anyone who may read such a message, with a signed link, and for operators. The thumbnails of a picture are files of their own, open to the same readers",
  tag: "Media",
  auth: "signed",
  trail: { keeps: [] },
  params: z.object({ filename: z.string() }),
  query: z.object({
    exp: z.string().optional().describe("When the signature expires, in Unix seconds"),
    sig: z.string().optional().describe("The signature from the URL in a message"),
    download: queryFlag.optional().describe("`1`: save the file instead of showing it"),
  }),
  produces: ["*/*"],
  takesRanges: true,
  reply: Content,
  fails: ["invalid_filename", "file_not_found", "file_access_denied", "range_not_satisfiable"],
})

export const routes = { uploadAttachment, getAttachment }
