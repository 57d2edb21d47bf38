import { fail } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { limits } from "../../contract/core/limits.ts"
import { pushMessage } from "../../contract/core/jobs.ts"
import { messageCreate, type Message } from "../../contract/messages/messages.ts"
import type { PollInput } from "../../contract/messages/polls.ts"
import type { Refusal } from "../../domain/communities/automod.ts"
import { holdsMessages, slowmodeWait, type ChannelState } from "../../domain/core/channels.ts"
import {
  messageObject,
  named,
  newMessage,
  nothingIn,
  wordsOf,
  type MessageState,
} from "../../domain/messages/messages.ts"
import { newMessageTexts } from "../../domain/messages/message-text.ts"
import type { MemberState, ServerState } from "../../domain/communities/servers.ts"
import type { UploadFacts } from "../../domain/messages/attachments.ts"
import type { Actor } from "../../domain/accounts/accounts.ts"
import { insertFullMessage, insertMessage, messageKey, nonceKey } from "../../storage/messages/messages.ts"
import { insertUploadUse } from "../../storage/messages/uploads.ts"
import type { Write } from "../../storage/core/write.ts"
import { accessOf, type Access } from "../shared/access.ts"
import { countPost, judgingNeeds, moderating, remember, type Held, type Moderated } from "./automod-judging.ts"
import { pair, requireOpen } from "../social/direct-privacy.ts"
import { keep } from "./kept-messages.ts"
import { mentioning } from "./mentions.ts"
import { member } from "../shared/member-facts.ts"
import { authorKey, message, nonce, messageFacts, nonceFacts, byChannel } from "./message-facts.ts"
import { tallyAfter } from "./read-state.ts"
import { pollBegins } from "./polls.ts"
import { combine, type HomeEffects } from "../shared/effects.ts"
import type { Readonlied } from "../../domain/core/readonlied.ts"
import type { ActorKind, TurnContext } from "../../runtime/actor.ts"
import { thumbnailsAsked } from "./thumbnails.ts"
import { textToViewers, toViewers } from "./viewers.ts"
import { defineMemory, type Need } from "../../runtime/facts.ts"
import { defineShortJson } from "../../runtime/row.ts"
import { defineFact } from "../shared/facts.ts"
import { firstIdAt, msOf } from "../../domain/core/snowflake.ts"

/**
 * The messages of a channel, among its commands. They keep:
 *   MSG1  Message ids rise strictly.
 *   MSG2  An event that anyone received is already in PostgreSQL.
 *   MSG3  One author and nonce make one message, however often they arrive.
 */
export interface MessageCommands {
  createMessage(
    input: {
      author: Actor
      nonce?: string | undefined
      /** Who asks understands `SentText`. A worker of the version before this one does not. */
      takesText?: true
      /** Who asks understands `SentBefore`, too. */
      takesName?: true
    } & Sent &
      Moderated,
  ): CreatedMessage | SentText | SentBefore | Held
  /** Refuses a user who may not send files here. */
  requireUpload(input: { user: Snowflake }): { allowed: true }
}

/** What somebody sends. */
interface Sent {
  readonly content?: string | undefined
  readonly reply_to_id?: Snowflake | undefined
  /** Null: an upload that does not exist or is not the user's. */
  readonly attachments?: readonly (Readonly<UploadFacts> | null)[] | undefined
  readonly embeds?: readonly unknown[] | undefined
  readonly poll?: PollInput | undefined
}

/** `repeats`: the message existed before, so more may be known of it than its home knows. */
export type CreatedMessage = Message & { repeats?: true }

/** A message that did not exist before, as its author is answered: JSON that is not to be made again. */
export interface SentText {
  readonly text: string
}

/**
 * A message that the same request made before, at an owner that has ended since. It is in PostgreSQL,
 * and who asked looks it up, as after a repeated nonce.
 */
export interface SentBefore {
  readonly sentBefore: Snowflake
  readonly server_id: Snowflake | null
}

type Channel = Readonlied<ChannelState>
type Member = Readonlied<MemberState>

const lastPostFacts = defineFact<ServerState, number>({
  keep: 1_000,
  async load(storage, _server, keys, _home, now) {
    const found = new Map<string, number>()
    // Slow mode looks back six hours at most. The database's own clock plays no part: ids carry the
    // time.
    const since = firstIdAt(now - limits.slowmodeSeconds * 1000)
    for (const [channel, authors] of byChannel(keys))
      for (const [author, id] of await storage.messages.lastPosts(channel, authors, since))
        found.set(authorKey(channel, author), msOf(id))
    return found
  },
})
export const lastPost = (channel: Snowflake, author: Snowflake): Need<ServerState> =>
  lastPostFacts.need(authorKey(channel, author))

/** Refused messages by nonce: a repeated one is refused again and counted once. The latest last. */
const refusedNonces = defineMemory<ServerState, Map<string, Refusal>>(() => new Map())

export const messageCommands: ActorKind<ServerState, ChannelState, MessageCommands>["commands"] = {
  createMessage: {
    needs({ author, nonce: sent, reply_to_id }, { id, state: channel, home, suspect }) {
      const needs: Need<ServerState>[] = [member(author.id), ...pair(home)]
      // Newer nonces are in memory. Older ones are caught by their unique index and then looked up.
      if (sent !== undefined && (suspect || home.automod.length > 0)) needs.push(nonce(id, author.id, sent))
      if (reply_to_id !== undefined) needs.push(message(id, reply_to_id))
      if (channel.slowmode_seconds > 0) needs.push(lastPost(id, author.id))
      needs.push(...judgingNeeds(home, id, author.id))
      return needs
    },
    turn(context, input) {
      const { state: channel, home: server, now, linkTo } = context
      const { author, nonce: sent } = input
      const key = sent === undefined ? undefined : nonceKey(channel.id, author.id, sent)
      const repeated = key === undefined ? null : nonceFacts.of(server).get(key)
      // The refusal may have removed the user from the server: the same refusal is repeated.
      const refused = key === undefined ? undefined : refusedNonces.of(server).get(key)
      if (refused) return { reply: { refused } }
      const access = accessOf(server, channel.id, author.id, now)
      // MSG3
      if (repeated)
        return {
          reply: {
            ...messageObject({ ...repeated, ...named(author) }, { linkTo, now, reader: author.id }),
            repeats: true,
          },
        }
      let files: readonly Readonly<UploadFacts>[]
      try {
        files = requireSendable(access, channel, input)
      } catch (error) {
        // A message that may be a repeat is looked up before anything can refuse it (MSG3).
        if (repeated === undefined) return { load: [nonce(channel.id, author.id, sent!)] }
        throw error
      }
      const text = input.content ?? ""
      const words = wordsOf({ content: text, embeds: input.embeds, attachments: files, poll: input.poll })
      const { moderation, classifiers } = input
      return moderating<CreatedMessage | SentText | SentBefore>(
        context,
        { author, caller: access.member, content: words, text, moderated: { moderation, classifiers } },
        () => {
          const place = { channel_id: channel.id, server_id: server.participants === null ? server.id : null }
          const state = newMessage(place, author, input, files, context) // MSG1
          const texts = newMessageTexts(state)
          const { apply, write, publish } = posting(context, state, access.member, texts?.forAll)
          const posted = authorKey(channel.id, author.id)
          return {
            apply(draft) {
              apply(draft)
              countPost(draft, state)
              // It is kept from the time while slow mode was on, and is right when slow mode is
              // on again.
              if (channel.slowmode_seconds > 0 || lastPostFacts.of(draft).has(posted))
                lastPostFacts.of(draft).set(posted, now)
            },
            write,
            publish,
            about: state.id,
            reply:
              texts && input.takesText
                ? { text: texts.forAuthor }
                : messageObject(state, { linkTo, now, reader: author.id }),
            keptReply: input.takesName && { sentBefore: state.id, server_id: state.server_id },
          }
        },
        refusal => ({
          apply: draft => {
            if (key !== undefined) remember(refusedNonces.of(draft), key, refusal)
          },
        }),
      )
    },
  },

  requireUpload: {
    needs: ({ user }, { home }) => [member(user), ...pair(home)],
    turn({ state: channel, home: server, now }, { user }) {
      const access = accessOf(server, channel.id, user, now)
      requireOpen(server)
      access.requireFree("messages.attach_files")
      if (!holdsMessages(channel)) throw fail("not_a_text_channel")
      return { reply: { allowed: true } }
    },
  },
}

const none: readonly never[] = []

/**
 * Refuses a message of a user who may view the channel, for every reason but auto-moderation.
 * @returns its files
 */
function requireSendable(
  access: Access,
  channel: Channel,
  { author, content, reply_to_id, attachments = none, embeds = none, poll }: Sent & { readonly author: Actor },
): readonly Readonly<UploadFacts>[] {
  const { server } = access
  requireOpen(server)
  access.requireFree("messages.send")
  if (!holdsMessages(channel)) throw fail("not_a_text_channel")
  if (attachments.length > limits.attachmentsPerMessage) throw fail("too_many_attachments")
  if (embeds.length > limits.embedsPerMessage) throw fail("too_many_embeds")
  const nothing = nothingIn({ content, attachments, embeds, poll })
  if (nothing) throw fail(nothing)
  if (attachments.length > 0) access.requireFree("messages.attach_files")
  if (embeds.length > 0 && !author.bot) access.requireFree("messages.embed_links")
  if (attachments.includes(null)) throw fail("invalid_attachment")
  if (reply_to_id !== undefined && !messageFacts.of(server).get(messageKey(channel.id, reply_to_id)))
    throw fail("message_not_found")
  const wait = slowmodeWait(channel, lastPostFacts.of(server).get(authorKey(channel.id, author.id)), access.nowMs)
  if (wait > 0 && !passesSlowmode(access)) throw fail("slowmode", { retry_after: wait })
  return attachments as readonly Readonly<UploadFacts>[]
}

const passesSlowmode = (access: Access) =>
  (["messages.bypass_slowmode", "messages.manage", "channels.manage"] as const).some(permission =>
    access.may(permission),
  )

/**
 * A new message in its channel, from any sender. `author`: with their permissions there; null: a
 * webhook. `text`: the message as everybody sees it, in JSON, where that is made already.
 */
export function posting(
  { home: server, now, linkTo }: Pick<TurnContext<ServerState, unknown>, "home" | "now" | "linkTo">,
  state: MessageState,
  author: Member | null,
  text?: string,
): HomeEffects {
  const { channel_id, id, poll } = state
  const posted: HomeEffects = {
    apply: draft => keep(draft, state),
    write: [inserted(state), ...usesOf(state), ...tallyAfter(channel_id, id)],
    publish:
      text !== undefined && server.participants === null
        ? [textToViewers(server, channel_id, messageCreate, text, [channel_id, id])]
        : toViewers(server, channel_id, messageCreate, messageObject(state, { linkTo, now, reader: null })),
  }
  const mentions = mentioning(server, state, author, now)
  const pictures = thumbnailsAsked(state)
  const pushes = pushing(server, state, mentions !== undefined)
  if (!poll && !mentions && !pictures && !pushes) return posted
  return combine(posted, poll ? pollBegins(poll, state) : undefined, mentions, pictures, pushes)
}

/** A message of a DM is pushed to the other; who is called in a server, by the job that notifies them. */
function pushing(
  { participants }: Pick<Readonlied<ServerState>, "participants">,
  { id, channel_id, author_id }: MessageState,
  is_mention: boolean,
): Partial<HomeEffects> | undefined {
  // As for nearly every message.
  if (participants === null) return undefined
  const users = participants.filter(user => user !== author_id)
  if (users.length === 0) return undefined
  const job = { server_id: null, channel_id, message_id: id, users, is_mention }
  return { publish: [pushMessage.at(job, { key: `pushes:${id}` })] }
}

/** Most messages have nothing but their text. */
const inserted = (state: MessageState): Write =>
  state.attachments || state.embeds || state.poll || state.webhook_id ? insertFullMessage(state) : insertMessage(state)

const usesOf = ({ attachments, channel_id, id }: MessageState): Write[] =>
  (attachments ?? []).map(({ file }) => insertUploadUse({ file, channel_id, message_id: id }))

/** A new message in a server that has nothing but its text, as a row of the outbox may have it. */
type ShortMessage = readonly [
  author_id: Snowflake,
  author_username: string,
  author_bot: boolean,
  author_badges: readonly string[],
  content: string | null,
  reply_to_id: Snowflake | null,
  nonce: string | null,
]

defineShortJson("message", ({ home: server_id, about: [channel_id, id] }, short: ShortMessage) => {
  const [author_id, author_username, author_bot, author_badges, content, reply_to_id, nonce] = short
  const author = { author_id, author_username, author_bot, author_badges }
  const message = { id: id!, channel_id, server_id, ...author, content, edited_at: null, reply_to_id, nonce }
  return newMessageTexts(message)!.forAll
})
