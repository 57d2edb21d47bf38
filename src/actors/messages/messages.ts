import { fail, Failure } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { limits } from "../../contract/core/limits.ts"
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
import type { MemberState, ServerState } from "../../domain/communities/servers.ts"
import type { UploadFacts } from "../../domain/messages/attachments.ts"
import type { Actor } from "../../domain/accounts/accounts.ts"
import { insertFullMessage, insertMessage, messageKey, nonceKey } from "../../storage/messages/messages.ts"
import { insertUploadUse } from "../../storage/messages/uploads.ts"
import type { Write } from "../../storage/core/write.ts"
import { accessOf, type Access } from "../shared/access.ts"
import { countPost, judgingNeeds, moderating, remember, type Classified, type Held } from "./automod-judging.ts"
import { pair, requireOpen } from "../social/direct-privacy.ts"
import { keep } from "./kept-messages.ts"
import { mentioning } from "./mentions.ts"
import { member, memberFacts } from "../shared/member-facts.ts"
import { authorKey, message, nonce, messageFacts, nonceFacts, byChannel } from "./message-facts.ts"
import { tallyAfter } from "./read-state.ts"
import { pollBegins } from "./polls.ts"
import { combine, type HomeEffects } from "../shared/effects.ts"
import type { Readonlied } from "../../domain/core/readonlied.ts"
import type { ActorKind, TurnContext } from "../../runtime/actor.ts"
import { toViewers } from "./viewers.ts"
import { defineMemory, type Need } from "../../runtime/facts.ts"
import { defineFact } from "../shared/facts.ts"
import { firstIdAt, msOf } from "../../domain/core/snowflake.ts"

/**
 * The messages of a channel, among its commands. They keep:
 *   MSG1  Message ids rise strictly.
 *   MSG2  An event that anyone received is already in PostgreSQL.
 *   MSG3  One author and nonce make one message, however often they arrive.
 */
export interface MessageCommands {
  createMessage(input: { author: Actor; nonce?: string | undefined } & Sent & Classified): CreatedMessage | Held
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

/** `repeats`: it was there before, so that more may be known of it than its home knows. */
export type CreatedMessage = Message & { repeats?: true }

type Server = Readonlied<ServerState>
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

/** What was refused, by nonce: repeated, it is refused again and counted once. The latest last. */
const refusedNonces = defineMemory<ServerState, Map<string, Refusal>>(() => new Map())

export const messageCommands: ActorKind<ServerState, ChannelState, MessageCommands>["commands"] = {
  createMessage: {
    needs: ({ author, nonce: sent, ...shown }, { id, state: channel, home, suspect }) => [
      member(author.id),
      ...pair(home),
      // Newer nonces are in memory, older ones are caught by their unique index; then they are
      // looked up. Before anything can be said against a message that may be a repeat it has to be
      // known (MSG3).
      ...(sent !== undefined && (suspect || isQuestionable(home, channel, author, shown))
        ? [nonce(id, author.id, sent)]
        : []),
      ...(shown.reply_to_id === undefined ? [] : [message(id, shown.reply_to_id)]),
      ...(channel.slowmode_seconds === 0 ? [] : [lastPost(id, author.id)]),
      ...judgingNeeds(home, id, author.id),
    ],
    turn(context, { author, nonce: sent, classifiers, scores, ...shown }) {
      const { state: channel, home: server, now, newId, linkTo } = context
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
      const files = requireSendable(access, channel, { author, ...shown })
      const text = shown.content ?? ""
      const words = wordsOf({ ...shown, content: text, attachments: files })
      return moderating(
        context,
        { author, caller: access.member, content: words, text, classified: { classifiers, scores } },
        () => {
          const place = { channel_id: channel.id, server_id: server.participants === null ? server.id : null }
          const state = newMessage(place, author, { ...shown, files, nonce: sent }, { now, newId }) // MSG1
          const posted = authorKey(channel.id, author.id)
          return {
            ...combine(posting(context, state, access.member), {
              apply: draft => {
                countPost(draft, state)
                // Known while slow mode was on, it is right when that is on again.
                if (channel.slowmode_seconds > 0 || lastPostFacts.of(draft).has(posted))
                  lastPostFacts.of(draft).set(posted, now)
              },
            }),
            about: state.id,
            reply: messageObject(state, { linkTo, now, reader: author.id }),
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

/**
 * All that can be said against a message of somebody who may view the channel, but for what
 * auto-moderation says; else its files.
 */
function requireSendable(
  access: Access,
  channel: Channel,
  { author, content = "", reply_to_id, attachments = [], embeds = [], poll }: Sent & { readonly author: Actor },
): Readonly<UploadFacts>[] {
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
  const files = attachments.map(file => {
    if (file === null) throw fail("invalid_attachment")
    return file
  })
  if (reply_to_id !== undefined && !messageFacts.of(server).get(messageKey(channel.id, reply_to_id)))
    throw fail("message_not_found")
  const wait = slowmodeWait(channel, lastPostFacts.of(server).get(authorKey(channel.id, author.id)), access.nowMs)
  if (wait > 0 && !passesSlowmode(access)) throw fail("slowmode", { retry_after: wait })
  return files
}

/**
 * Whether a message whose like was sent before could be refused by now, as far as it is known;
 * needs are asked for again once more is.
 */
function isQuestionable(server: Server, channel: Channel, author: Actor, shown: Sent): boolean {
  if (!memberFacts.of(server).has(author.id)) return false
  try {
    // Without a moment every time-out counts, those that are over, too; and every post is a recent
    // one.
    requireSendable(accessOf(server, channel.id, author.id, 0), channel, { author, ...shown })
    return server.automod.length > 0
  } catch (error) {
    if (error instanceof Failure) return true
    throw error
  }
}

const passesSlowmode = (access: Access) =>
  (["messages.bypass_slowmode", "messages.manage", "channels.manage"] as const).some(permission =>
    access.may(permission),
  )

/**
 * A new message in its channel, from any sender. `author`: with their permissions there; null: a
 * webhook.
 */
export function posting(
  { home: server, now, linkTo }: Pick<TurnContext<ServerState, unknown>, "home" | "now" | "linkTo">,
  state: MessageState,
  author: Member | null,
): HomeEffects {
  const { channel_id, id, poll } = state
  return combine(
    {
      apply: draft => keep(draft, state),
      write: [inserted(state), ...usesOf(state), ...tallyAfter(channel_id, id)],
      publish: toViewers(server, channel_id, messageCreate, messageObject(state, { linkTo, now, reader: null })),
    },
    poll ? pollBegins(poll, state) : undefined,
    mentioning(server, state, author, now),
  )
}

/** Most have nothing beside their text. */
const inserted = (state: MessageState): Write =>
  state.attachments || state.embeds || state.poll || state.webhook_id ? insertFullMessage(state) : insertMessage(state)

const usesOf = ({ attachments, channel_id, id }: MessageState): Write[] =>
  (attachments ?? []).map(({ file }) => insertUploadUse({ file, channel_id, message_id: id }))
