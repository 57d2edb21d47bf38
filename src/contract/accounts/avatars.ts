import { z } from "zod"
import { Snowflake, Success } from "../core/fields.ts"
import { limits } from "../core/limits.ts"
import { pictureSummary } from "../core/pictures.ts"
import { Content, defineRoute, FormFile } from "../core/registry.ts"

export const AvatarUpload = z
  .object({
    success: z.literal(true),
    avatar_url: z.string(),
    width: z.int(),
    height: z.int(),
    size: z.int().describe("Bytes, as it is kept"),
    animated: z.boolean(),
  })
  .meta({ id: "AvatarUploadResponse" })
export type AvatarUpload = z.infer<typeof AvatarUpload>

const upload = {
  method: "POST",
  tag: "Avatars",
  auth: "person",
  isForRenaming: true,
  body: z
    .object({ file: FormFile.describe("A JPEG, PNG, GIF or WebP image. The type is read from the content") })
    .meta({ id: "AvatarUploadRequest" }),
  form: { file: { name: "file", bytes: limits.avatarBytes, tooLarge: "file_too_large", isStreamed: true } },
  reply: AvatarUpload,
  fails: ["file_too_large", "invalid_file", "picture_too_large"],
} as const

export const putAvatar = defineRoute({
  ...upload,
  path: "/avatars/users/@me",
  summary: `Set the caller's avatar from a file of at most 5 MB. ${pictureSummary}`,
})

export const putOwnAvatar = defineRoute({
  ...upload,
  path: "/users/@me/avatar",
  summary: "Set the caller's avatar: the same as `POST /avatars/users/@me`, for older clients",
})

export const deleteAvatar = defineRoute({
  method: "DELETE",
  path: "/avatars/users/@me",
  summary: "Remove the caller's avatar. No effect if they have none",
  tag: "Avatars",
  auth: "person",
  isForRenaming: true,
  reply: Success,
  fails: [],
})

export const getAvatar = defineRoute({
  method: "GET",
  path: "/avatars/users/:user_id",
  summary: "Get a user's avatar. If they have none, an image is generated from their name",
  tag: "Avatars",
  auth: "public",
  isGated: false,
  isForAnyOrigin: true,
  params: z.object({ user_id: Snowflake }),
  produces: ["image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml"],
  reply: Content,
  fails: ["invalid_user_id", "user_not_found"],
})

export const routes = { putAvatar, putOwnAvatar, deleteAvatar, getAvatar }
