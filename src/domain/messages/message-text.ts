import type { Message } from "../../contract/messages/messages.ts"
import { shownBadges } from "../accounts/badges.ts"
import { avatarOf, flagsOf, isByBot, type MessageState } from "./messages.ts"
import { secondsOf } from "../core/snowflake.ts"

/** What a message is to those who were sent it: it depends on who asks, and when. */
export type ReadBy = Pick<Message, "status" | "delivery_count" | "read_count" | "read" | "read_by">

/** Nothing on it depends on who asks, or when, but what `ReadBy` has. */
export const isPlain = ({ attachments, reactions, poll }: Readonly<MessageState>): boolean =>
  !attachments?.length && !reactions?.length && !poll

/**
 * A plain message as JSON, without `ReadBy` and what closes it: what JSON.stringify makes of its
 * `messageObject` (the test beside this compares them), in a third of the time. Pages of history
 * are made of these.
 */
export function headOf(message: Readonly<MessageState>): string {
  const { server_id, embeds, webhook_id } = message
  const server = quoted(server_id)
  return (
    `{"id":"${message.id}","channel_id":"${message.channel_id}","server_id":${server},"guild_id":${server}` +
    `,"author_id":"${message.author_id}","author_username":${JSON.stringify(message.author_username)}` +
    `,"author_avatar_url":${JSON.stringify(avatarOf(message))}` +
    `,"author_badges":${listed(shownBadges(message.author_badges))},"author_bot":${isByBot(message)},"content":${JSON.stringify(message.content)}` +
    `,"created_at":${secondsOf(message.id)},"edited_at":${message.edited_at},"reply_to_id":${quoted(message.reply_to_id)}` +
    `,"attachments":[],"embeds":${listed(embeds ?? [])}${furtherFields(flagsOf(message))},"reactions":[]` +
    `,"nonce":${JSON.stringify(message.nonce)},"metadata":null,"poll":null,"poll_results":null` +
    (webhook_id ? `,"webhook_id":"${webhook_id}",` : ",")
  )
}

/** What goes behind a `headOf`. */
export function endOf({ status, delivery_count, read_count, read, read_by }: ReadBy): string {
  return JSON.stringify({ status, delivery_count, read_count, read, read_by }).slice(1)
}

/** A new message is nobody's to have received or read but its author's. */
const untold: Omit<ReadBy, "read"> = { status: "sent", delivery_count: 0, read_count: 0, read_by: [] }
const endForAll = endOf({ ...untold, read: false })
const endForAuthor = endOf({ ...untold, read: true })

/**
 * A new message in JSON, where it is plain: as everybody is told of it, and as its author is
 * answered. It is written once for both.
 */
export function newMessageTexts(message: Readonly<MessageState>): { forAll: string; forAuthor: string } | undefined {
  if (!isPlain(message)) return undefined
  const head = headOf(message)
  return { forAll: head + endForAll, forAuthor: head + endForAuthor }
}

const quoted = (id: string | null) => (id === null ? "null" : `"${id}"`)
function furtherFields(fields: object): string {
  const text = JSON.stringify(fields).slice(1, -1)
  return text && `,${text}`
}
const listed = (values: readonly unknown[]) => (values.length === 0 ? "[]" : JSON.stringify(values))
