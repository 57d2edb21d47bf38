import type { PictureUse } from "../../contract/core/jobs.ts"
import { limits } from "../../contract/core/limits.ts"
import type { FileState } from "./file-types.ts"

export type PictureType = "image/png" | "image/jpeg" | "image/gif" | "image/webp"

/** A picture as it is kept: decoded and encoded again, with nothing in it but pixels. */
export interface EncodedPicture {
  readonly content_type: PictureType
  readonly width: number
  readonly height: number
  /** Has frames, or is of a kind that may: a GIF always counts. */
  readonly animated: boolean
}
export type KeptPicture = EncodedPicture & FileState

/** Why a picture is not kept. */
export type PictureRefusal = "invalid_file" | "picture_too_large"

/** What a picture may be, and what becomes of it. */
export interface PictureRules {
  readonly types: readonly PictureType[]
  /** Pixels of a side as it is uploaded. */
  readonly maxSide: number
  /** Pixels of a side as it is kept: a larger one is made smaller. */
  readonly fitSide?: number
  /** PNG files with frames keep them. Otherwise only the first picture of them is kept. */
  readonly keepsApng?: true
}

export const pictureRules: Readonly<Record<PictureUse, PictureRules>> = {
  avatar: {
    types: ["image/jpeg", "image/png", "image/gif", "image/webp"],
    maxSide: limits.avatarSide,
    fitSide: limits.avatarSideKept,
  },
  emoji: { types: ["image/png", "image/gif", "image/webp"], maxSide: limits.emojiSide },
  sticker: { types: ["image/png"], maxSide: limits.stickerSide, keepsApng: true },
}

/** What the header of a picture says. */
export interface PictureHeader {
  readonly width: number
  /** Of a frame. */
  readonly height: number
  readonly frames: number
}

/** Whether there is too much of a picture to decode it. */
export const isTooMuch = ({ width, height, frames }: PictureHeader, maxSide: number): boolean =>
  Math.max(width, height) > maxSide ||
  width * height > limits.picturePixels ||
  frames > limits.pictureFrames ||
  (frames > 1 && width * height * frames > limits.framePixels)

const kinds: readonly { readonly type: PictureType; readonly begins: (head: string) => boolean }[] = [
  { type: "image/png", begins: head => head.startsWith("\x89PNG\r\n\x1a\n") },
  { type: "image/jpeg", begins: head => head.startsWith("\xff\xd8\xff") },
  { type: "image/gif", begins: head => /^GIF8[79]a/.test(head) },
  { type: "image/webp", begins: head => /^RIFF[^]{4}WEBPVP8[ LX]/.test(head) },
]

/** How many of a picture's bytes say what it is. */
export const pictureHeadBytes = 16

/**
 * What a picture is by its first bytes, whatever its sender called it; undefined: none of the four.
 * Everything else about it is found out by a job worker.
 */
export function pictureTypeOf(bytes: Uint8Array): PictureType | undefined {
  const head = Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(bytes.length, pictureHeadBytes)).toString("latin1")
  return kinds.find(({ begins }) => begins(head))?.type
}

/** What stands for a user or a server without a picture: initials on a colour of their own. */
export const defaultColours = ["#e94560", "#4ade80", "#fbbf24", "#60a5fa", "#a78bfa", "#f472b6"] as const

/** The initials of the first two words of a name, or the first two letters of its only one. */
export function initialsOf(name: string): string {
  const words = name.split(/\s+/u).filter(word => word !== "")
  const [first = [], second] = words.map(word => Array.from(word))
  const letters = second === undefined ? first.slice(0, 2) : [first[0]!, second[0]!]
  return letters.join("").toUpperCase() || "S"
}

/** The first two letters of a user's name. */
export const lettersOf = (username: string): string => Array.from(username).slice(0, 2).join("").toUpperCase() || "UC"

/** @param firstByte of the SHA-256 of the lower-cased seed */
export function drawnPicture(firstByte: number, letters: string): string {
  const colour = defaultColours[firstByte % defaultColours.length]!
  return (
    '<svg xmlns="http://www.w3.org/2000/svg" width="128" height="128" viewBox="0 0 128 128">' +
    `<rect width="128" height="128" fill="${colour}"/>` +
    '<text x="64" y="64" dy="0.35em" text-anchor="middle" font-family="sans-serif" font-size="52" fill="#ffffff">' +
    `${escaped(letters)}</text></svg>`
  )
}

/** XML knows no control characters but three, no lone surrogates and no U+FFFE or U+FFFF. */
const escaped = (text: string): string =>
  text
    // eslint-disable-next-line no-control-regex
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff\p{Surrogate}]/gu, "")
    .replace(/[&<>"']/g, character => `&#${character.charCodeAt(0)};`)
