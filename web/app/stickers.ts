import type { Snowflake, StickerPackResponse, StickerResponse } from "../../client/contract.ts"
import { base, watch } from "./session.ts"

/** A message is a sticker when this is all of its text. The name is for who cannot show it. */
const token = /^<sticker:([\p{L}\p{N}_]{1,30}):(\d{1,20})>$/u

export const stickerText = ({ id, name }: Pick<StickerResponse, "id" | "name">): string =>
  `<sticker:${name.normalize().replace(/[^\p{L}\p{N}_]+/gu, "_")}:${id}>`

export interface SentSticker {
  readonly id: Snowflake
  readonly name: string
}

export function stickerIn(text: string | null | undefined): SentSticker | undefined {
  const found = token.exec(text?.trim() ?? "")
  return found ? { id: found[2]!, name: found[1]!.replaceAll("_", " ").trim() } : undefined
}

export const stickerUrl = (id: Snowflake): string => `${base}/api/v1/media/stickers/${id}`

/** Lottie files are programs of drawing; the page has no player for them. */
export const isPicture = ({ format }: Pick<StickerResponse, "format">): boolean => format !== "json"

/** The packs of a server; in a DM those of all servers of the person. */
export function usePacks(server: Snowflake | undefined): StickerPackResponse[] {
  const { state } = watch("servers")
  const servers = server === undefined ? [...state.servers.keys()] : [server]
  watch(...servers.map(id => `server ${id}` as const))
  return servers.flatMap(id => state.servers.get(id)?.packs ?? [])
}
