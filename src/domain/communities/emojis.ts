import { emojiPath, type Emoji } from "../../contract/communities/emojis.ts"
import type { FileState } from "../core/file-types.ts"
import type { Snowflake } from "../../contract/core/fields.ts"

export interface EmojiState extends FileState {
  id: Snowflake
  server_id: Snowflake
  name: string
  animated: boolean
  created_by: Snowflake
  /** Unix milliseconds. */
  created_at: number
}

/** As it is kept, or undefined where it is none. */
export function emojiName(given: string): string | undefined {
  const name = given.trim().toLowerCase()
  return /^[a-z0-9_]{2,32}$/.test(name) ? name : undefined
}

export const byName = (a: { readonly name: string }, b: { readonly name: string }): number => (a.name < b.name ? -1 : 1)

/** `uploader_username`: null where nobody looked it up. */
export const emojiObject = (emoji: Readonly<EmojiState>, uploader_username: string | null = null): Emoji => ({
  id: emoji.id,
  server_id: emoji.server_id,
  name: emoji.name,
  animated: emoji.animated,
  url: emojiPath(emoji.id),
  available: true,
  created_by: emoji.created_by,
  uploader_username,
  created_at: emoji.created_at,
})
