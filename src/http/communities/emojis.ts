import { serverActor } from "../../actors/server.ts"
import type { Emoji, routes } from "../../contract/communities/emojis.ts"
import { success } from "../../contract/core/fields.ts"
import { serverFiles } from "../../storage/core/blobs.ts"
import { stored, withPicture } from "../shared/files.ts"
import type { Handlers } from "../server/handlers.ts"
import type { Http } from "../shared/http.ts"
import type { PictureNeeds } from "../shared/files.ts"

export function emojis(http: Http<"emojis"> & PictureNeeds): Handlers<typeof routes> {
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

    async createEmoji({ params: { server_id }, body: { name, image }, caller, reason, longer }) {
      const user = caller.user_id
      await ask(serverActor, server_id, { type: "requireEmojiManager", user })
      const picture = { bytes: image.bytes, use: "emoji", user_id: user, longer } as const
      const created = await withPicture(http, serverFiles(server_id), picture, (file, { animated }) =>
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
