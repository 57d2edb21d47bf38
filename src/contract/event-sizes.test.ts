import { expect, test } from "vitest"
import { guildEmojisUpdate } from "./communities/emojis.ts"
import { limits } from "./core/limits.ts"
import { guildStickersUpdate } from "./communities/stickers.ts"

/** What docs/api/gateway.md promises of both events. */
const maxEventBytes = 256 * 1024
const id = "9223372036854775807"
const of = { guild_id: id, server_id: id }
/** Each character takes four bytes of UTF-8. */
const wide = (characters: number) => "🚢".repeat(characters)
const bytesOf = (data: unknown) => Buffer.byteLength(JSON.stringify(data))

test("an update of stickers has one pack, and the fullest one fits", () => {
  const sticker = {
    id,
    pack_id: id,
    name: wide(limits.stickerName.max),
    format: "apng",
    tags: Array.from({ length: limits.tagsPerSticker }, () => wide(limits.stickerTag)),
    related_emoji: null,
    url: `/api/v1/media/stickers/${id}`,
    width: limits.stickerSide,
    height: limits.stickerSide,
    available: true,
  }
  const pack = {
    id,
    name: "Stickers 50",
    description: null,
    pack_type: "server",
    server_id: id,
    sticker_count: limits.stickersPerPack,
    stickers: Array.from({ length: limits.stickersPerPack }, () => sticker),
  }
  const data = guildStickersUpdate.data.parse({ ...of, sticker_packs: [pack] })
  expect(bytesOf(data)).toBeLessThan(maxEventBytes)
  // Why not all of them: their ids and names alone do not fit.
  const names = Array.from({ length: limits.packsPerServer * limits.stickersPerPack }, () => ({
    id,
    name: sticker.name,
  }))
  expect(bytesOf(names)).toBeGreaterThan(maxEventBytes)
})

test("an update of emojis has all of the server, and they fit", () => {
  const emoji = {
    id,
    server_id: id,
    name: "e".repeat(limits.emojiCharacters),
    url: `/api/v1/media/emojis/${id}`,
    animated: true,
    available: true,
    created_by: id,
    uploader_username: null,
    created_at: 4_102_444_800,
  }
  const emojis = Array.from({ length: 2 * limits.emojisPerServer }, () => emoji)
  const data = guildEmojisUpdate.data.parse({ ...of, emojis })
  expect(data.emojis).toHaveLength(100)
  expect(bytesOf(data)).toBeLessThan(maxEventBytes)
})
