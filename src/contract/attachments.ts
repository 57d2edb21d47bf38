import { z } from "zod"
import { queryFlag, Snowflake } from "./fields.ts"
import { limits } from "./limits.ts"
import { Content, defineRoute, FormFile } from "./registry.ts"

/** What an upload is answered with. Given to a message as it is, or just its `id`, it becomes an attachment. */
export const Upload = z
  .object({
    id: z.string().describe("Opaque, and another than the attachment's in messages"),
    filename: z.string(),
    size: z.int().positive().describe("Bytes"),
    content_type: z.string(),
    url: z.string().describe("A path on this server"),
    hash: z.string().nullable().describe("SHA-256 of the file, in hex"),
    thumbnails: z.record(z.string(), z.string()).nullable(),
  })
  .meta({ id: "UploadResponse" })
export type Upload = z.infer<typeof Upload>

const AttachmentInput = z
  .looseObject({
    id: z.string().max(limits.urlCharacters).nullish(),
    url: z.string().max(limits.urlCharacters).nullish(),
  })
  .describe(
    "An upload's answer, or its `id` or its `url` alone; everything else is taken from what the server knows of it",
  )
  .meta({ id: "AttachmentRequest" })
export type AttachmentInput = z.output<typeof AttachmentInput>

/** The files of one message. One more than it may have can be among them: that refusal is the route's own. */
export const AttachmentInputs = z.preprocess(
  value => (Array.isArray(value) ? value.slice(0, limits.attachmentsPerMessage + 1) : value),
  z.array(AttachmentInput),
)

export const uploadAttachment = defineRoute({
  method: "POST",
  path: "/channels/:channel_id/attachments",
  summary: "Upload a file for a message; one that no message shows is gone after a day",
  tag: "Media",
  auth: "user",
  permission: ["messages.attach_files"],
  params: z.object({ channel_id: Snowflake }),
  body: z.object({ file: FormFile.describe("As large as the caller's tier allows") }).meta({ id: "UploadRequest" }),
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
    "upload_limit",
    "file_over_limit",
    "empty_file",
    "file_type_not_allowed",
    "file_type_mismatch",
  ],
})

export const getAttachment = defineRoute({
  method: "GET",
  path: "/media/attachments/:filename",
  summary:
    "A file of a message, or some of it; for its uploader, for whoever may read such a message, and by a signed link",
  tag: "Media",
  auth: "signed",
  params: z.object({ filename: z.string() }),
  query: z.object({
    exp: z.string().optional().describe("Until when the signature holds, in Unix seconds"),
    sig: z.string().optional().describe("A signature, as the urls of messages have one"),
    download: queryFlag.optional().describe("`1`: to be saved, not shown"),
  }),
  produces: ["*/*"],
  takesRanges: true,
  reply: Content,
  fails: ["invalid_filename", "file_not_found", "file_access_denied", "range_not_satisfiable"],
})

export const routes = { uploadAttachment, getAttachment }
