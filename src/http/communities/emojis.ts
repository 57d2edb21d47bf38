import { serverActor } from "../../actors/server.ts"
import type { Emoji, routes } from "../../contract/communities/emojis.ts"
import { fail } from "../../contract/core/errors.ts"
import { success } from "../../contract/core/fields.ts"
import { limits } from "../../contract/core/limits.ts"
import { pictureOf, type Picture } from "../../domain/core/pictures.ts"
import { stored, withFile } from "../shared/files.ts"
import type { Handlers } from "../server/handlers.ts"
import type { Http } from "../shared/http.ts"
import type { FileNeeds } from "../shared/files.ts"

export function emojis(http: Http<"emojis"> & FileNeeds): Handlers<typeof routes> {
  const { ask, storage, log } = http

  /** With the current names of the users who added them. */
  async function named(server_id: string, list: readonly Emoji[]): Promise<Emoji[]> {
    if (list.length === 0) return []
    const names = await storage.emojis.uploaders(server_id)
    return list.map(emoji => ({ ...emoji, uploader_username: names.get(emoji.created_by) ?? null }))
  }
  const namedOne = async (emoji: Emoji) => (await named(emoji.server_id, [emoji]))[0]!
  /** The same after a change: that is done, whether the name can be had or not. */
  const namedAfter = (emoji: Emoji) =>
    namedOne(emoji).catch((error: unknown) => {
      log.debug({ err: error, emoji: emoji.id }, "name of an emoji's uploader unknown")
      return emoji
    })

  return {
    async listEmojis({ params: { server_id }, caller }) {
      return named(server_id, await ask(serverActor, server_id, { type: "listEmojis", user: caller.user_id }))
    },

    countEmojis: ({ params, caller }) =>
      ask(serverActor, params.server_id, { type: "countEmojis", user: caller.user_id }),

    async getEmoji({ params: { server_id, emoji_id }, caller }) {
      return namedOne(await ask(serverActor, server_id, { type: "getEmoji", user: caller.user_id, emoji_id }))
    },

    async createEmoji({ params: { server_id }, body: { name, image }, caller, reason }) {
      const user = caller.user_id
      await ask(serverActor, server_id, { type: "requireEmojiManager", user })
      const { contentType, animated } = emojiPicture(image.bytes)
      const created = await withFile(http, server_id, { bytes: image.bytes, content_type: contentType }, file =>
        ask(serverActor, server_id, { type: "createEmoji", user, reason, name, animated, file }),
      )
      return namedAfter(created)
    },

    async renameEmoji({ params: { server_id, emoji_id }, body: { name }, caller, reason }) {
      return namedAfter(
        await ask(serverActor, server_id, { type: "renameEmoji", user: caller.user_id, reason, emoji_id, name }),
      )
    },

    async deleteEmoji({ params: { server_id, emoji_id }, caller, reason }) {
      await ask(serverActor, server_id, { type: "deleteEmoji", user: caller.user_id, reason, emoji_id })
      return success
    },

    async getEmojiPicture({ params: { emoji_id } }) {
      return stored(http, await storage.emojis.file(emoji_id), "emoji_not_found")
    },
  }
}

function emojiPicture(bytes: Uint8Array): Picture {
  const picture = pictureOf(bytes)
  if (!picture || picture.contentType === "image/jpeg") throw fail("invalid_file")
  if (Math.max(picture.width, picture.height) > limits.emojiSide) throw fail("picture_too_large")
  return { ...picture, animated: picture.animated && picture.contentType !== "image/png" }
}
