import { serverActor } from "../../actors/server.ts"
import { fail, Failure } from "../../contract/core/errors.ts"
import { success } from "../../contract/core/fields.ts"
import { limits } from "../../contract/core/limits.ts"
import type { routes } from "../../contract/communities/stickers.ts"
import { lottieOf, stickerFileOf, stickerObject, wordsOf, type StickerFile } from "../../domain/communities/stickers.ts"
import type { FileState } from "../../domain/core/file-types.ts"
import { pictureTypeOf } from "../../domain/core/pictures.ts"
import { serverFiles } from "../../storage/core/blobs.ts"
import { stored, withFile, withPicture } from "../shared/files.ts"
import type { Handlers } from "../server/handlers.ts"
import type { Http } from "../shared/http.ts"
import type { PictureNeeds } from "../shared/files.ts"

export const stickers = (http: Http<"stickers"> & PictureNeeds): Handlers<typeof routes> => {
  const { ask, storage } = http
  return {
    listStickers: ({ params, caller }) =>
      ask(serverActor, params.server_id, { type: "listStickers", user: caller.user_id }),

    async createSticker({ params: { server_id }, body: { name, image, tags = [] }, caller, reason, longer }) {
      const user = caller.user_id
      await ask(serverActor, server_id, { type: "requireEmojiManager", user })
      const create = (file: FileState, picture: StickerFile) =>
        ask(serverActor, server_id, { type: "createSticker", user, reason, name, tags, picture, file })
      const { bytes } = image
      if (pictureTypeOf(bytes)) {
        const picture = { bytes, use: "sticker", user_id: user, longer } as const
        return withPicture(http, serverFiles(server_id), picture, (file, shown) => create(file, stickerFileOf(shown)))
      }
      const lottie = lottieOf(bytes)
      if (!lottie) throw fail("invalid_file")
      return withFile(http, server_id, { bytes, content_type: lottie.content_type }, file => create(file, lottie))
    },

    async deleteSticker({ params: { sticker_id }, caller, reason }) {
      const server_id = await storage.stickers.serverOf(sticker_id)
      if (server_id === undefined) throw fail("sticker_not_found")
      const user = caller.user_id
      await ask(serverActor, server_id, { type: "deleteSticker", user, reason, sticker_id }).catch(goneWithServer)
      return success
    },

    async sendSticker({ params: { sticker_id }, body: { message_id }, caller }) {
      const user = caller.user_id
      const [server_id, isOwn] = await Promise.all([
        storage.stickers.serverOf(sticker_id),
        storage.stickers.isOwnMessage(user, message_id),
      ])
      if (server_id === undefined || !isOwn) return { success: false }
      try {
        await ask(serverActor, server_id, { type: "countStickerUse", user, sticker_id })
        return { success: true }
      } catch (error) {
        if (error instanceof Failure && refusals.has(error.code)) return { success: false }
        throw error
      }
    },

    async suggestStickers({ query: { content, server_id, limit }, caller }) {
      const text = content.trim().toLowerCase()
      if (text === "") return []
      const names = Array.from(text).slice(-limits.charactersLookedUp).join("")
      const words = wordsOf(text)
      const found = await storage.stickers.suggested(caller.user_id, { text: names, words, server_id, limit })
      return found.map(stickerObject)
    },

    async getStickerFile({ params: { sticker_id } }) {
      return stored(http, await storage.stickers.file(sticker_id), "sticker_not_found")
    },
  }
}

const refusals: ReadonlySet<string> = new Set(["server_not_found", "sticker_not_found", "access_denied"])

/** The server went meanwhile, and the sticker with it. */
function goneWithServer(error: unknown): never {
  if (error instanceof Failure && error.code === "server_not_found") throw fail("sticker_not_found")
  throw error
}
