import { serverActor } from "../../actors/server.ts"
import { fail } from "../../contract/core/errors.ts"
import { success } from "../../contract/core/fields.ts"
import { limits } from "../../contract/core/limits.ts"
import { iconPath, type routes } from "../../contract/communities/icons.ts"
import type { Server } from "../../contract/communities/servers.ts"
import type { FileState } from "../../domain/core/file-types.ts"
import { initialsOf, type EncodedPicture } from "../../domain/core/pictures.ts"
import { serverFiles } from "../../storage/core/blobs.ts"
import type { FormStream } from "../server/form-stream.ts"
import { contentOf, drawn, unread, withPicture } from "../shared/files.ts"
import type { Handlers } from "../server/handlers.ts"
import type { Http } from "../shared/http.ts"
import type { Longer } from "../server/answer-clock.ts"
import type { PictureNeeds } from "../shared/files.ts"

export const icons = (http: Http<"icons"> & PictureNeeds): Handlers<typeof routes> => {
  const { ask, storage } = http

  async function putPicture(
    server_id: string,
    given: { form: FormStream; maxBytes: number; longer: Longer },
    entry: { user: string; reason: string | undefined },
  ): Promise<{ file: FileState; shown: EncodedPicture; server: Server }> {
    const { user } = entry
    await ask(serverActor, server_id, { type: "requirePermission", user, permission: "server.manage" })
    const picture = { ...given, use: "avatar", user_id: user } as const
    return withPicture(http, serverFiles(server_id), picture, async (file, shown, replaced) => {
      const { former, ...server } = await ask(serverActor, server_id, { type: "putIcon", ...entry, file })
      replaced(former)
      return { file, shown, server }
    })
  }

  return {
    async putIcon({ params, form, caller, reason, longer }) {
      const given = { form: form!, maxBytes: limits.iconBytes, longer }
      return (await putPicture(params.server_id, given, { user: caller.user_id, reason })).server
    },

    async uploadIcon({ params: { server_id }, form, caller, reason, longer }) {
      const given = { form: form!, maxBytes: limits.avatarBytes, longer }
      const put = await putPicture(server_id, given, { user: caller.user_id, reason })
      const { width, height, animated } = put.shown
      return { success: true, icon_url: iconPath(server_id), width, height, size: put.file.size, animated }
    },

    async deleteIcon({ params, caller, reason }) {
      await ask(serverActor, params.server_id, { type: "deleteIcon", user: caller.user_id, reason })
      return success
    },

    async getIcon({ params: { server_id } }) {
      const found = await storage.icons.shown(server_id)
      if (!found) throw fail("server_not_found")
      const { icon } = found
      if (!icon) return drawnFor(server_id, found.name)
      return unread(icon, ofIcons, async () => {
        const content = await contentOf(http, { ...icon, server_id }, ofIcons)
        if (content) return content
        // The file of a moment ago may have gone for another.
        const now = await storage.icons.shown(server_id)
        if (!now) throw fail("server_not_found")
        const another = now.icon && (await contentOf(http, { ...now.icon, server_id }, ofIcons))
        return another ?? drawnFor(server_id, now.name)
      })
    },
  }
}

const ofIcons = "max-age=86400"

const drawnFor = (server_id: string, name: string) => drawn(server_id, initialsOf(name))
