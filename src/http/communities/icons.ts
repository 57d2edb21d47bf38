import { createHash } from "node:crypto"
import { serverActor } from "../../actors/server.ts"
import { fail } from "../../contract/core/errors.ts"
import { success } from "../../contract/core/fields.ts"
import { iconPath, type routes } from "../../contract/communities/icons.ts"
import { limits } from "../../contract/core/limits.ts"
import type { Server } from "../../contract/communities/servers.ts"
import { drawnPicture, initialsOf, pictureOf, type Picture } from "../../domain/core/pictures.ts"
import { contentOf, hashOf, picture, unread, withFile } from "../shared/files.ts"
import type { Handlers } from "../server/handlers.ts"
import type { Http } from "../shared/http.ts"
import type { FileNeeds } from "../shared/files.ts"

export const icons = (http: Http<"icons"> & FileNeeds): Handlers<typeof routes> => {
  const { ask, storage } = http

  async function put(
    server_id: string,
    bytes: Uint8Array,
    entry: { user: string; reason: string | undefined },
  ): Promise<{ shown: Picture; server: Server }> {
    const { user } = entry
    await ask(serverActor, server_id, { type: "requirePermission", user, permission: "server.manage" })
    const shown = pictureOf(bytes)
    if (!shown) throw fail("invalid_file")
    if (Math.max(shown.width, shown.height) > limits.avatarSide) throw fail("picture_too_large")
    const server = await withFile(http, server_id, { bytes, content_type: shown.contentType }, file =>
      ask(serverActor, server_id, { type: "putIcon", ...entry, file }),
    )
    return { shown, server }
  }

  return {
    async putIcon({ params, body: { file }, caller, reason }) {
      return (await put(params.server_id, file.bytes, { user: caller.user_id, reason })).server
    },

    async uploadIcon({ params: { server_id }, body: { file }, caller, reason }) {
      const { shown } = await put(server_id, file.bytes, { user: caller.user_id, reason })
      const { width, height, animated } = shown
      return { success: true, icon_url: iconPath(server_id), width, height, size: file.bytes.length, animated }
    },

    async deleteIcon({ params, caller, reason }) {
      await ask(serverActor, params.server_id, { type: "deleteIcon", user: caller.user_id, reason })
      return success
    },

    async getIcon({ params: { server_id } }) {
      const found = await storage.icons.shown(server_id)
      if (!found) throw fail("server_not_found")
      const { icon } = found
      if (!icon) return drawn(server_id, found.name)
      return unread(icon, ofIcons, async () => {
        const content = await contentOf(http, { ...icon, server_id }, ofIcons)
        if (content) return content
        // The file of a moment ago may have gone for another.
        const now = await storage.icons.shown(server_id)
        if (!now) throw fail("server_not_found")
        const another = now.icon && (await contentOf(http, { ...now.icon, server_id }, ofIcons))
        return another ?? drawn(server_id, now.name)
      })
    },
  }
}

const ofIcons = "max-age=86400"

function drawn(server_id: string, name: string) {
  const [colour] = createHash("sha256").update(server_id).digest()
  const bytes = Buffer.from(drawnPicture(colour!, initialsOf(name)))
  return picture("image/svg+xml", bytes, "max-age=3600", hashOf(bytes))
}
