import { userActor } from "../../actors/user.ts"
import { fail } from "../../contract/core/errors.ts"
import { success, type Snowflake } from "../../contract/core/fields.ts"
import type { AvatarUpload, routes } from "../../contract/accounts/avatars.ts"
import { limits } from "../../contract/core/limits.ts"
import { lettersOf } from "../../domain/core/pictures.ts"
import { userFiles } from "../../storage/core/blobs.ts"
import { contentOf, drawn, unread, withPicture, type PictureNeeds } from "../shared/files.ts"
import type { Call, Handlers } from "../server/handlers.ts"
import type { Http } from "../shared/http.ts"

/** Makes the picture in a form that of an account: the sender's own, or their bot's. */
export async function keepAvatar(
  http: Http & PictureNeeds,
  user: Snowflake,
  { form, longer }: Pick<Call, "form" | "longer">,
  sender = user,
): Promise<AvatarUpload> {
  const given = { form: form!, maxBytes: limits.avatarBytes, use: "avatar", user_id: sender, longer } as const
  return withPicture(http, userFiles(user), given, async (file, { width, height, animated }, replaced) => {
    const { avatar_url, former } = await http.ask(userActor, user, { type: "putAvatar", file })
    replaced(former)
    return { success: true, avatar_url, width, height, size: file.size, animated }
  })
}

export const avatars = (http: Http<"avatars"> & PictureNeeds): Handlers<typeof routes> => {
  const { ask, storage } = http

  return {
    putAvatar: call => keepAvatar(http, call.caller.user_id, call),
    putOwnAvatar: call => keepAvatar(http, call.caller.user_id, call),

    async deleteAvatar({ caller }) {
      await ask(userActor, caller.user_id, { type: "deleteAvatar" })
      return success
    },

    async getAvatar({ params: { user_id } }) {
      const found = await storage.avatars.shown(user_id)
      if (!found) throw fail("user_not_found")
      const { avatar } = found
      if (!avatar) return drawnWhole(found.name)
      return unread(avatar, ofAvatars, async () => {
        const content = await contentOf(http, { ...avatar, user_id }, ofAvatars)
        if (content) return content
        // The file of a moment ago may have gone for another.
        const now = await storage.avatars.shown(user_id)
        const another = now?.avatar && (await contentOf(http, { ...now.avatar, user_id }, ofAvatars))
        return another ?? drawnWhole(now?.name ?? found.name)
      })
    },
  }
}

const ofAvatars = "max-age=86400"
const drawnWhole = (name: string) => drawn(name, lettersOf(name))
