import { embedTexts, type Embed } from "../../contract/messages/embeds.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import type { Message } from "../../contract/messages/messages.ts"
import type { PollInput } from "../../contract/messages/polls.ts"
import { avatarPath } from "../../contract/accounts/users.ts"
import { attachmentObject, type AttachmentState, type LinkTo, type UploadFacts } from "./attachments.ts"
import { shownBadges } from "../accounts/badges.ts"
import { secondsOf } from "../core/snowflake.ts"
import { newPoll, pollObject, pollResults, textOf, type PollState } from "./polls.ts"
import { shownReactions, type ReactionTally } from "./reactions.ts"
import type { Actor } from "../accounts/accounts.ts"
import type { Readonlied } from "../core/readonlied.ts"

export interface MessageState {
  id: Snowflake
  channel_id: Snowflake
  server_id: Snowflake | null
  author_id: Snowflake
  author_username: string
  author_bot: boolean
  author_badges: readonly string[]
  content: string | null
  edited_at: number | null
  reply_to_id: Snowflake | null
  nonce: string | null
  /** Unix milliseconds; null: not pinned. */
  pinned_at?: number | null
  deleted?: boolean
  /**
   * For a message of a webhook: the name and the picture at that moment. The webhook is its author.
   */
  webhook_id?: Snowflake | null
  webhook_name?: string | null
  webhook_avatar_url?: string | null
  embeds?: readonly unknown[] | null
  attachments?: readonly AttachmentState[] | null
  /** How often each emoji was used, in the order of first use. */
  reactions?: readonly ReactionTally[] | null
  poll?: PollState | null
}

/** The part of a message that its home answers to a repeated nonce: the rest is looked up. */
export type SentState = Omit<MessageState, "embeds" | "attachments" | "reactions" | "poll">

/**
 * The message as everybody sees it, and as events have it. `reader` is the caller of a route, `now`
 * Unix milliseconds. The route adds what only the caller sees (their reactions, their votes, who
 * received and read it), see http/message-views.ts.
 */
export function messageObject(
  message: Readonly<MessageState>,
  { reader, linkTo, now }: { reader: Snowflake | null; linkTo: LinkTo; now: number },
): Message {
  const { poll } = message
  const shown: Message = {
    id: message.id,
    channel_id: message.channel_id,
    server_id: message.server_id,
    guild_id: message.server_id,
    author_id: message.author_id,
    author_username: message.author_username,
    author_avatar_url: avatarOf(message),
    author_badges: shownBadges(message.author_badges),
    author_bot: isByBot(message),
    content: message.content,
    created_at: secondsOf(message.id),
    edited_at: message.edited_at,
    reply_to_id: message.reply_to_id,
    attachments: (message.attachments ?? []).map(attachment => attachmentObject(attachment, linkTo)),
    embeds: message.embeds ? [...message.embeds] : [],
    pinned: isPinned(message),
    status: "sent",
    delivery_count: 0,
    read_count: 0,
    read: reader === message.author_id,
    read_by: [],
    reactions: shownReactions(message.reactions),
    nonce: message.nonce,
    metadata: poll ? { poll_id: poll.id } : null,
    poll: poll ? pollObject(poll, message.id, now) : null,
    poll_results: poll ? pollResults(poll, message.id, [], now) : null,
  }
  if (message.webhook_id) shown.webhook_id = message.webhook_id
  return shown
}

/** The facts that the flags of a message are made of. */
export type FlagFields = Pick<MessageState, "pinned_at">

/** What is true or false of a message, for every reader: fields of its object, and facts of the search index. */
export const flagsOf = (message: Readonly<FlagFields>): Pick<Message, "pinned"> => ({ pinned: isPinned(message) })

const isPinned = ({ pinned_at }: Readonly<FlagFields>): boolean => Boolean(pinned_at)

/** A webhook is not an account, so it is not a bot. */
export const isByBot = ({ author_bot, webhook_id }: Readonly<MessageState>): boolean => author_bot && !webhook_id

export function avatarOf(message: Readonly<MessageState>): string | null {
  if (message.webhook_id) return message.webhook_avatar_url ?? null
  return avatarPath(message.author_id)
}

/**
 * A new message of a user. `now`: Unix milliseconds. Every one has the same keys in the same order:
 * code that has seen one knows where to look in the next.
 */
export function newMessage(
  { channel_id, server_id }: Pick<MessageState, "channel_id" | "server_id">,
  author: Readonly<Actor>,
  shown: {
    readonly content?: string | undefined
    readonly reply_to_id?: Snowflake | undefined
    readonly nonce?: string | undefined
    readonly embeds?: readonly unknown[] | undefined
    readonly poll?: PollInput | undefined
  },
  files: readonly Readonly<UploadFacts>[],
  moment: { readonly now: number; readonly newId: () => Snowflake },
): MessageState {
  const { content, embeds, poll } = shown
  return {
    id: moment.newId(),
    channel_id,
    server_id,
    author_id: author.id,
    author_username: author.username,
    author_bot: author.bot,
    author_badges: author.badges,
    content: content === undefined || content === "" ? null : content,
    edited_at: null,
    reply_to_id: shown.reply_to_id ?? null,
    nonce: shown.nonce ?? null,
    embeds: embeds === undefined || embeds.length === 0 ? null : embeds,
    attachments: files.length === 0 ? null : files.map(file => ({ id: moment.newId(), ...file })),
    poll: poll ? newPoll(poll, author.id, moment) : null,
  }
}

/** An author with the name in their messages. */
export const named = ({ username, bot, badges }: Readonly<Actor>) => ({
  author_username: username,
  author_bot: bot,
  author_badges: badges,
})

/** A message with its author's current name, as far as it has been looked up. */
export const withAuthor = (
  message: Readonly<MessageState>,
  author: Readonly<Actor> | undefined,
): Readonly<MessageState> => (author?.id === message.author_id ? { ...message, ...named(author) } : message)

const isBlank = (content: string) => content.trim() === ""

/** The refusal of a message with nothing to see; undefined: there is something to see. */
export function nothingIn({
  content = "",
  attachments = [],
  embeds = [],
  poll,
}: {
  readonly content?: string | undefined
  readonly attachments?: readonly unknown[] | undefined
  readonly embeds?: readonly unknown[] | undefined
  readonly poll?: unknown
}): "empty_message" | "invalid_content" | undefined {
  if (!isBlank(content) || attachments.length > 0 || poll || embeds.some(holdsAnything)) return undefined
  return content === "" ? "empty_message" : "invalid_content"
}

/** Whether an embed has anything but its type and blank texts. */
function holdsAnything(embed: unknown): boolean {
  const open = Object.entries(embed as object).flatMap(([key, value]) => (key === "type" ? [] : [value as unknown]))
  while (open.length > 0) {
    const next = open.pop()
    if (typeof next === "number" || (typeof next === "string" && !isBlank(next))) return true
    if (typeof next === "object" && next !== null) for (const one of Object.values(next)) open.push(one)
  }
  return false
}

/** All texts of a message, for auto-moderation: addresses of links count as text. */
export const wordsOf = ({
  content,
  embeds,
  attachments,
  poll,
}: {
  readonly content: string
  readonly embeds?: readonly unknown[] | null | undefined
  readonly attachments?: readonly { readonly filename: string }[] | null | undefined
  readonly poll?: Pick<PollInput, "question" | "options"> | null | undefined
}): string => {
  // Most messages have nothing but their text.
  if (!embeds?.length && !attachments?.length && !poll) return content
  return [
    content,
    ...((embeds ?? []) as readonly Embed[]).flatMap(embed => [
      ...embedTexts(embed),
      ...[embed.url, embed.author?.url, embed.provider?.url].filter(url => url !== undefined),
    ]),
    ...(attachments ?? []).map(({ filename }) => filename),
    ...(poll ? [textOf(poll)] : []),
  ]
    .filter(part => part !== "")
    .join("\n")
}

/** All that a message says which is there. */
export const wordsIn = ({
  content,
  embeds,
  attachments,
  poll,
}: Readonlied<Pick<MessageState, "content" | "embeds" | "attachments" | "poll">>): string =>
  wordsOf({
    content: content ?? "",
    embeds,
    attachments,
    poll: poll && { ...poll, options: poll.options.map(({ text }) => text) },
  })
