import { z } from "zod"
import { Snowflake, Success } from "../core/fields.ts"
import { limits } from "../core/limits.ts"
import { Content, defineRoute, FormFile } from "../core/registry.ts"
import { pictureSummary } from "../core/pictures.ts"
import { Server } from "./servers.ts"

/** What `icon_url` is of a server that has one. */
export const iconPath = (id: Snowflake) => `/api/v1/avatars/servers/${id}`

export const IconUpload = z
  .object({
    success: z.literal(true),
    icon_url: z.string(),
    width: z.int(),
    height: z.int(),
    size: z.int().describe("Bytes"),
    animated: z.boolean(),
  })
  .meta({ id: "IconUploadResponse" })
export type IconUpload = z.infer<typeof IconUpload>

const byServer = z.object({ server_id: Snowflake })
const upload = z
  .object({ file: FormFile.describe("A JPEG, PNG, GIF or WebP image. The type is read from the content") })
  .meta({ id: "IconUploadRequest" })
const form = (bytes: number) =>
  ({ file: { name: "file", bytes, tooLarge: "file_too_large", isStreamed: true } }) as const
const fails = [
  "invalid_server_id",
  "server_not_found",
  "access_denied",
  "permission_denied",
  "file_too_large",
  "invalid_file",
  "picture_too_large",
] as const

export const putIcon = defineRoute({
  method: "POST",
  path: "/servers/:server_id/icon",
  summary: "Set a server's icon from a file of at most 2 MB. It is re-encoded as for the other route",
  tag: "Servers",
  auth: "user",
  isAudited: true,
  permission: ["server.manage"],
  params: byServer,
  body: upload,
  form: form(limits.iconBytes),
  reply: Server,
  fails: [...fails],
})

export const uploadIcon = defineRoute({
  method: "POST",
  path: "/avatars/servers/:server_id",
  summary: `Set a server's icon from a file of at most 5 MB. ${pictureSummary}`,
  tag: "Avatars",
  auth: "user",
  isAudited: true,
  permission: ["server.manage"],
  params: byServer,
  body: upload,
  form: form(limits.avatarBytes),
  reply: IconUpload,
  fails: [...fails],
})

export const deleteIcon = defineRoute({
  method: "DELETE",
  path: "/avatars/servers/:server_id",
  summary: "Remove a server's icon. No effect if it has none",
  tag: "Avatars",
  auth: "user",
  isAudited: true,
  permission: ["server.manage"],
  params: byServer,
  reply: Success,
  fails: ["invalid_server_id", "server_not_found", "access_denied", "permission_denied"],
})

export const getIcon = defineRoute({
  method: "GET",
  path: "/avatars/servers/:server_id",
  summary: "Get a server's icon. If it has none, an image is generated from its name",
  tag: "Avatars",
  auth: "public",
  isGated: false,
  isForAnyOrigin: true,
  params: byServer,
  produces: ["image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml"],
  reply: Content,
  fails: ["invalid_server_id", "server_not_found"],
})

export const routes = { putIcon, uploadIcon, deleteIcon, getIcon }
