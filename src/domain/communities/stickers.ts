import { stickerPath, type Sticker, type StickerPack } from "../../contract/communities/stickers.ts"
import { limits } from "../../contract/core/limits.ts"
import type { EncodedPicture } from "../core/pictures.ts"
import type { FileState } from "../core/file-types.ts"
import type { Snowflake } from "../../contract/core/fields.ts"

export interface StickerState extends FileState {
  id: Snowflake
  pack_id: Snowflake
  server_id: Snowflake
  name: string
  format: "png" | "apng" | "json"
  tags: readonly string[]
  related_emoji: string | null
  width: number | null
  height: number | null
  created_by: Snowflake
  created_at: number
}

export interface StickerPackState {
  id: Snowflake
  server_id: Snowflake
  name: string
  description: string | null
  stickers: readonly StickerState[]
}

export const stickerObject = (sticker: Readonly<StickerState>): Sticker => ({
  id: sticker.id,
  pack_id: sticker.pack_id,
  name: sticker.name,
  format: sticker.format,
  tags: [...sticker.tags],
  related_emoji: sticker.related_emoji,
  url: stickerPath(sticker.id),
  width: sticker.width,
  height: sticker.height,
  available: true,
})

export const packObject = (pack: Readonly<StickerPackState>): StickerPack => ({
  id: pack.id,
  name: pack.name,
  description: pack.description,
  pack_type: "server",
  server_id: pack.server_id,
  sticker_count: pack.stickers.length,
  stickers: pack.stickers.map(stickerObject),
})

/** The file of a sticker by its content. */
export interface StickerFile {
  readonly format: StickerState["format"]
  readonly content_type: "image/png" | "application/json"
  readonly width: number
  readonly height: number
}

export const stickerFileOf = ({ width, height, animated }: EncodedPicture): StickerFile => ({
  format: animated ? "apng" : "png",
  content_type: "image/png",
  width,
  height,
})

/** Lottie: an object with the keys that every player asks for. Undefined: it is none. */
export function lottieOf(bytes: Uint8Array): StickerFile | undefined {
  let value: unknown
  try {
    value = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes))
  } catch {
    return undefined
  }
  if (typeof value !== "object" || value === null) return undefined
  const { v, fr, ip, op, w, h, layers } = value as Record<string, unknown>
  const isSide = (side: unknown): side is number =>
    Number.isInteger(side) && (side as number) > 0 && (side as number) <= 1_000_000
  const isTimed = isPositive(fr) && Number.isFinite(ip) && Number.isFinite(op) && (op as number) > (ip as number)
  if (typeof v !== "string" || !isTimed || !isSide(w) || !isSide(h) || !Array.isArray(layers)) return undefined
  return { format: "json", content_type: "application/json", width: w, height: h }
}

const isPositive = (value: unknown) => Number.isFinite(value) && (value as number) > 0

/** The words of a text by which stickers are suggested. */
export const wordsOf = (text: string): string[] => [
  ...new Set(text.split(/[^\p{Letter}\p{Number}_]+/u).filter(word => word !== "")),
].slice(0, limits.wordsLookedUp) // prettier-ignore
