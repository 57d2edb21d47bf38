import type { Snowflake } from "../../contract/core/fields.ts"
import { limits } from "../../contract/core/limits.ts"
import type { MessageState } from "./messages.ts"
import { shortened } from "../communities/automod.ts"

/** What a browser gets, as JSON. Its service worker shows it. */
export interface PushNote {
  readonly kind: "direct" | "mention" | "test"
  /** Who wrote; of a test the server's own name. */
  readonly author: string
  readonly server: string | null
  readonly channel: string | null
  /** Null: hidden, or nothing but files. */
  readonly text: string | null
  /** Behind the `#` of the page. */
  readonly path: string
  /** Of several under one tag a browser shows the last. */
  readonly tag: string
  /** Unix milliseconds. */
  readonly at: number
}

/** What a push service is asked. */
export interface Push {
  readonly text: string
  /** For which a push service keeps it for a browser that is away. */
  readonly ttlSeconds: number
  /** Of those under one topic that wait for a browser the service keeps the last. At most 32 of base64url. */
  readonly topic?: string
}

/** `gone`: the browser has no such subscription any longer. */
export type PushOutcome =
  | { readonly kind: "sent" | "gone" }
  | { readonly kind: "later"; readonly waitMs: number | undefined; readonly why: string }
  | { readonly kind: "refused"; readonly why: string }

/** As people read it where nothing is drawn: emoji and stickers by name, and no ids. */
const plain = (text: string): string =>
  text
    .replace(/<(?:a?|sticker):([\p{L}\p{N}_]{1,32}):\d{1,19}>/gu, ":$1:")
    .replace(/<@[!&]?\d{1,19}>/g, "@…")
    .replace(/<#\d{1,19}>/g, "#…")

export function messageNote(
  message: Pick<MessageState, "id" | "channel_id" | "server_id" | "author_username" | "content">,
  names: { readonly server: string; readonly channel: string } | undefined,
  { hidesContent, at }: { readonly hidesContent: boolean; readonly at: number },
): PushNote {
  const { id, channel_id, server_id, author_username, content } = message
  return {
    kind: server_id === null ? "direct" : "mention",
    author: author_username,
    server: names?.server ?? null,
    channel: names?.channel ?? null,
    text: hidesContent || content === null ? null : shortened(plain(content), limits.previewCharacters),
    path: pathOf(server_id, channel_id, id),
    tag: channel_id,
    at,
  }
}

const pathOf = (server: Snowflake | null, channel: Snowflake, message: Snowflake) =>
  server === null ? `dms/${channel}/${message}` : `servers/${server}/${channel}/${message}`

export const testNote = (serverName: string, at: number): PushNote => ({
  kind: "test",
  author: serverName,
  server: null,
  channel: null,
  text: null,
  path: "settings/notifications",
  tag: "test",
  at,
})
