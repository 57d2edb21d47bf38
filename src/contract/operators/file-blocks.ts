import { z } from "zod"
import { sample } from "../core/examples.ts"
import { omittable, Seconds, Snowflake, SnowflakeInput, Success, text } from "../core/fields.ts"
import { defineRoute } from "../core/registry.ts"
import { FileHash } from "../messages/file-reports.ts"
import { listQuery, RowId } from "./fields.ts"

const operators = { mount: "operators", tag: "Operators", auth: "operator" } as const
const blockedBy = {
  reason: z.string(),
  blocked_at: Seconds,
  blocked_by: RowId.nullable().describe("An operator. Null: reports, or the command line"),
}
const HashType = z.enum(["sha256", "phash"])
/** A hundred years. */
const maxHours = 876_000

export const listBlockedHashes = defineRoute({
  ...operators,
  method: "GET",
  path: "/admin/blocked-hashes",
  summary: "List files that nobody may send, the latest first; not those that only look like others of the list",
  query: z.object(listQuery(100)),
  reply: z.array(
    z
      .object({
        hash_value: z.string(),
        hash_type: HashType,
        phash_threshold: z.int().describe("Of a perceptual hash: how many bits of another may differ"),
        auto_blocked: z.boolean().describe("Reports have done it"),
        ...blockedBy,
      })
      .meta({ id: "BlockedHash" }),
  ),
  fails: [],
})

export const blockHash = defineRoute({
  ...operators,
  method: "POST",
  path: "/admin/blocked-hashes",
  summary:
    "Block a file: it cannot be uploaded and is no longer served. Up to 32 digits are a perceptual hash, which blocks pictures that look alike. A block that is there is replaced",
  trail: { keeps: ["reason"], target: "hash_value" },
  body: z.object({ hash_value: FileHash, reason: text(1, 500) }).meta({ id: "HashBlockInput" }),
  example: { hash_value: sample.hash, reason: "Illegal content" },
  reply: z
    .object({ success: z.literal(true), hash_value: z.string(), hash_type: HashType })
    .meta({ id: "HashBlockResponse" }),
  fails: [],
})

export const unblockHash = defineRoute({
  ...operators,
  method: "DELETE",
  path: "/admin/blocked-hashes/:hash_value",
  summary:
    "Take a file from the block list, with those that were blocked for looking like it. Also where it is not on it",
  params: z.object({ hash_value: z.string().regex(/^[0-9A-Fa-f]{1,128}$/, "must have up to 128 hex digits") }),
  reply: Success,
  fails: [],
})

export const listBlockedUploaders = defineRoute({
  ...operators,
  method: "GET",
  path: "/admin/blocked-users",
  summary: "List users who may not send files now, the latest first",
  query: z.object(listQuery(100)),
  reply: z.array(
    z
      .object({
        user_id: Snowflake,
        username: z.string().nullable(),
        ...blockedBy,
        expires_at: Seconds.nullable().describe("Null: permanently"),
      })
      .meta({ id: "BlockedUploader" }),
  ),
  fails: [],
})

export const blockUploader = defineRoute({
  ...operators,
  method: "POST",
  path: "/admin/blocked-users",
  summary: "Block a user from sending files, and from nothing else. A block that is there is replaced",
  trail: { keeps: ["reason", "duration_hours"], target: "user_id" },
  body: z
    .object({
      user_id: SnowflakeInput,
      reason: text(1, 500),
      duration_hours: omittable(z.int().min(0).max(maxHours)).describe("Absent or 0: permanently"),
    })
    .meta({ id: "UploaderBlockInput" }),
  example: { user_id: sample.other, reason: "Sends malware", duration_hours: 24 },
  reply: z.object({ success: z.literal(true), user_id: Snowflake }).meta({ id: "UploaderBlockResponse" }),
  fails: ["user_not_found"],
})

export const unblockUploader = defineRoute({
  ...operators,
  method: "DELETE",
  path: "/admin/blocked-users/:user_id",
  summary: "Let a user send files again. Also where they could",
  params: z.object({ user_id: RowId }),
  reply: Success,
  fails: [],
})

export const routes = {
  listBlockedHashes,
  blockHash,
  unblockHash,
  listBlockedUploaders,
  blockUploader,
  unblockUploader,
}
