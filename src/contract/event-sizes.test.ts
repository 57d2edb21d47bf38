import { expect, test } from "vitest"
import { guildEmojisUpdate } from "./communities/emojis.ts"
import { limits } from "./core/limits.ts"
import { guildStickersUpdate } from "./communities/stickers.ts"
import { Embeds } from "./messages/embeds.ts"
import { messageUpdate } from "./messages/messages.ts"
import { limits as pollLimits } from "./messages/polls.ts"

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

test("the largest message that may be sent is an event of less than 128 KiB", () => {
  const option = { id, poll_id: id, text: wide(pollLimits.pollOption), position: 9, vote_count: 250_000 }
  const options = Array.from({ length: pollLimits.pollOptions.max }, () => option)
  const poll = {
    id,
    message_id: id,
    question: wide(pollLimits.pollQuestion),
    created_by: id,
    created_at: 4_102_444_800,
    ends_at: 4_102_444_800,
    ended_at: 4_102_444_800,
    allow_multiple_choice: false,
    results_visibility: "after_vote" as const,
    options,
    total_votes: 250_000,
    is_ended: false,
  }
  // The longest name with the longest extension, the side of a thumbnail, and a signature.
  const link = `/api/v1/media/attachments/${"x".repeat(120)}`
  const attachment = {
    metadata: { duration_seconds: 86_399.123456789, waveform: "A".repeat(limits.waveformCharacters) },
    width: 10_000,
    height: 10_000,
    thumbhash: "A".repeat(40),
    thumbnails: { "64": link, "128": link, "256": link, "512": link },
    id,
    filename: wide(limits.filename),
    content_type: "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    size: limits.attachmentBytes,
    url: link,
    hash: "f".repeat(64),
  }
  const reaction = {
    emoji: wide(limits.emojiCharacters),
    count: 250_000,
    me: false,
    url: `/api/v1/media/emojis/${id}`,
    is_custom: true,
    custom_emoji_id: id,
  }
  const embeds = Embeds.parse([{ filler: wide((limits.embed.allBytes - 100) / 4) }])
  const data = messageUpdate.data.parse({
    id,
    channel_id: id,
    server_id: id,
    guild_id: id,
    author_id: id,
    author_username: wide(limits.webhookUsername),
    author_avatar_url: "x".repeat(limits.urlCharacters),
    author_badges: Array.from({ length: limits.badgesShown }, () => "b".repeat(100)),
    author_bot: false,
    webhook_id: id,
    // A control character is six bytes of JSON, more than any other.
    content: "\u0001".repeat(limits.messageCharacters),
    created_at: 4_102_444_800,
    edited_at: 4_102_444_800,
    reply_to_id: id,
    attachments: Array.from({ length: limits.attachmentsPerMessage }, () => attachment),
    embeds,
    pinned: true,
    status: "delivered",
    delivery_count: 250_000,
    read_count: 250_000,
    read: false,
    read_by: [],
    reactions: Array.from({ length: limits.reactionsPerMessage }, () => reaction),
    nonce: wide(limits.nonceCharacters),
    metadata: { poll_id: id },
    poll,
    poll_results: { poll, options, total_votes: 250_000, user_voted: false, user_votes: [] },
  })
  expect(bytesOf(data)).toBeGreaterThan(64 * 1024)
  expect(bytesOf(data)).toBeLessThan(128 * 1024)
})
