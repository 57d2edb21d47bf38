import { fail } from "../contract/errors.ts"
import type { Snowflake } from "../contract/fields.ts"
import { messageCreate, messageDelete, messageDeleteBulk, messageUpdate, type Message } from "../contract/messages.ts"
import { viewersOf } from "../domain/audience.ts"
import { holdsMessages, slowmodeWait } from "../domain/channels.ts"
import { secondsAt } from "../domain/clock.ts"
import { isBlank, messageObject } from "../domain/messages.ts"
import type { Actor, ChannelState, MemberState, MessageState, ServerState } from "../domain/states.ts"
import { deleteMessage, insertMessage, messageKey, nonceKey, updateContent } from "../storage/messages.ts"
import { mayIn, requireFreeIn, requireViewer } from "./access.ts"
import { audited, type Deed } from "./audit.ts"
import {
  countPost,
  judging,
  judgingNeeds,
  refusalOf,
  remember,
  sanctioning,
  type Classified,
  type Held,
} from "./automod.ts"
import { lastPost, lastPostKey, member, message, nonce } from "./needs.ts"
import type { ActorKind, Readonlied } from "./runtime/actor.ts"

/**
 * The messages of a channel, among its commands. They keep:
 *   C1  Message ids rise strictly.
 *   C2  An event that anyone received is already in PostgreSQL.
 *   C3  One author and nonce make one message, however often they arrive.
 */
export interface MessageCommands {
  createMessage(
    input: {
      author: Actor
      content?: string | undefined
      reply_to_id?: Snowflake | undefined
      nonce?: string | undefined
    } & Classified,
  ): Message | Held
  /** `author`: as he is called by now; workers of the version before leave it out. */
  editMessage(
    input: { user: Snowflake; author?: Actor; message_id: Snowflake; content: string } & Classified,
  ): Message | Held
  deleteMessage(input: Deed & { message_id: Snowflake }): { deleted: true }
  /** Those of these messages that are there and his. */
  deleteMessagesOf(input: { author: Snowflake; message_ids: readonly Snowflake[] }): { deleted: number }
}

export const messageCommands: ActorKind<ServerState, ChannelState, MessageCommands>["commands"] = {
  createMessage: {
    needs: ({ author, nonce: sent, reply_to_id }, { id, state: channel, home, suspect }) => [
      member(author.id),
      // Newer nonces are in memory, older ones are caught by their unique index; then they are looked up. Before anything can
      // be said against a message that may be a repeat it has to be known (C3).
      ...(sent !== undefined && (suspect || isQuestionable(home, channel, author.id, reply_to_id))
        ? [nonce(id, author.id, sent)]
        : []),
      ...(reply_to_id === undefined ? [] : [message(id, reply_to_id)]),
      ...(channel.slowmode_seconds === 0 ? [] : [lastPost(id, author.id)]),
      ...judgingNeeds(home, id, author.id),
    ],
    turn(
      { state: channel, home: server, now, newId },
      { author, content, reply_to_id, nonce: sent, classifiers, scores },
    ) {
      const key = sent === undefined ? undefined : nonceKey(channel.id, author.id, sent)
      const repeated = key === undefined ? null : server.nonces.get(key)
      // The refusal may have thrown him out: it is what he is told again.
      const refused = key === undefined ? undefined : server.refusedNonces.get(key)
      if (refused) return { reply: { refused } }
      const caller = requireViewer(server, channel.id, author.id)
      // C3
      if (repeated) return { reply: messageObject({ ...repeated, ...named(author) }, author.id) }
      requireFreeIn(server, channel.id, caller, "messages.send", now)
      if (!holdsMessages(channel)) throw fail("not_a_text_channel")
      if (content === undefined || content === "") throw fail("empty_message")
      if (isBlank(content)) throw fail("invalid_content")
      if (reply_to_id !== undefined && !server.messages.get(messageKey(channel.id, reply_to_id)))
        throw fail("message_not_found")
      const wait = passesSlowmode(server, channel.id, caller, now)
        ? 0
        : slowmodeWait(channel, server.lastPosts.get(lastPostKey(channel.id, author.id)), now)
      if (wait > 0) throw fail("slowmode", { retry_after: wait })

      const classified = { classifiers, scores }
      const subject = { server, channel: channel.id, now, newId, author, caller, content, classified }
      const verdict = judging(subject)
      if (verdict && "unasked" in verdict) return { reply: verdict }
      if (verdict?.consequences.isRefused) {
        const refusal = refusalOf(verdict)
        const sanction = sanctioning(subject, verdict, undefined)
        return {
          ...sanction,
          apply: draft => {
            if (key !== undefined) remember(draft.refusedNonces, key, refusal)
            sanction.apply(draft)
          },
          reply: { refused: refusal },
        }
      }

      const state: MessageState = {
        id: newId(), // C1
        channel_id: channel.id,
        server_id: server.id,
        author_id: author.id,
        ...named(author),
        content,
        edited_at: null,
        reply_to_id: reply_to_id ?? null,
        nonce: sent ?? null,
        pinned: false,
      }
      const sanction = verdict && sanctioning(subject, verdict, state.id)
      return {
        apply: draft => {
          keep(draft, state)
          countPost(draft, state)
          if (channel.slowmode_seconds > 0) draft.lastPosts.set(lastPostKey(channel.id, author.id), now)
          sanction?.apply(draft)
        },
        write: [insertMessage(state), ...(sanction?.write ?? [])],
        publish: [
          messageCreate.to(viewersOf(server.id, channel.id), messageObject(state, null)),
          ...(sanction?.publish ?? []),
        ],
        reply: messageObject(state, author.id),
      }
    },
  },

  editMessage: {
    needs: ({ user, message_id }, { id, home }) => [
      member(user),
      message(id, message_id),
      ...judgingNeeds(home, id, user),
    ],
    turn({ state: channel, home: server, now, newId }, { user, author, message_id, content, classifiers, scores }) {
      const caller = requireViewer(server, channel.id, user)
      const found = server.messages.get(messageKey(channel.id, message_id))
      if (!found) throw fail("message_not_found")
      if (found.author_id !== user) throw fail("not_author")
      requireFreeIn(server, channel.id, caller, "messages.send", now)
      if (isBlank(content)) throw fail("empty_message")
      const known = author ?? { id: user, username: found.author_username, badges: found.author_badges }
      const classified = { classifiers, scores }
      const subject = {
        server,
        channel: channel.id,
        now,
        newId,
        author: known,
        caller,
        content,
        edited: message_id,
        classified,
      }
      const verdict = judging(subject)
      if (verdict && "unasked" in verdict) return { reply: verdict }
      const sanction = verdict && sanctioning(subject, verdict, message_id)
      // What the text became was never seen; the message goes with it.
      if (verdict?.consequences.isRefused)
        return {
          apply: draft => {
            forget(draft, found)
            sanction?.apply(draft)
          },
          write: [
            deleteMessage({ channel_id: channel.id, id: message_id, nonce: found.nonce }),
            ...(sanction?.write ?? []),
          ],
          publish: [
            messageDelete.to(viewersOf(server.id, channel.id), { ...goneFrom(found), automod: true }),
            ...(sanction?.publish ?? []),
          ],
          reply: { refused: refusalOf(verdict) },
        }
      const edited: MessageState = {
        ...found,
        author_badges: found.author_badges,
        // What is in memory may be older than his latest change of name.
        ...(author && named(author)),
        content,
        edited_at: secondsAt(now),
      }
      return {
        apply: draft => {
          keep(draft, edited)
          countPost(draft, edited)
          sanction?.apply(draft)
        },
        write: [
          updateContent({ channel_id: channel.id, id: message_id, content, edited_at: edited.edited_at! }),
          ...(sanction?.write ?? []),
        ],
        publish: [
          messageUpdate.to(viewersOf(server.id, channel.id), messageObject(edited, null)),
          ...(sanction?.publish ?? []),
        ],
        reply: messageObject(edited, user),
      }
    },
  },

  deleteMessage: {
    needs: ({ user, message_id }, { id }) => [member(user), message(id, message_id)],
    turn({ state: channel, home: server, now, newId }, { user, reason, message_id }) {
      const caller = requireViewer(server, channel.id, user)
      const found = server.messages.get(messageKey(channel.id, message_id))
      if (!found) throw fail("message_not_found")
      if (found.author_id !== user && !mayIn(server, channel.id, caller, "messages.manage", now))
        throw fail("cannot_delete_message")
      return {
        apply: draft => forget(draft, found),
        write: [
          deleteMessage({ channel_id: channel.id, id: message_id, nonce: found.nonce }),
          ...(found.author_id === user
            ? []
            : [
                audited(
                  { now, newId },
                  server.id,
                  { user, reason },
                  "MESSAGE_DELETE",
                  { type: "message", id: message_id },
                  { channel_id: { old: channel.id, new: null }, author_id: { old: found.author_id, new: null } },
                ),
              ]),
        ],
        publish: [messageDelete.to(viewersOf(server.id, channel.id), goneFrom(found))],
        reply: { deleted: true },
      }
    },
  },

  deleteMessagesOf: {
    needs: ({ message_ids }, { id }) => message_ids.map(message_id => message(id, message_id)),
    turn({ state: channel, home: server }, { author, message_ids }) {
      const found = message_ids.flatMap(id => {
        const one = server.messages.get(messageKey(channel.id, id))
        return one?.author_id === author ? [one] : []
      })
      if (found.length === 0) return { reply: { deleted: 0 } }
      return {
        apply: draft => {
          for (const one of found) forget(draft, one)
        },
        write: found.map(({ id, nonce: sent }) => deleteMessage({ channel_id: channel.id, id, nonce: sent })),
        publish: [
          messageDeleteBulk.to(viewersOf(server.id, channel.id), {
            ids: found.map(({ id }) => id),
            channel_id: channel.id,
            server_id: server.id,
            guild_id: server.id,
          }),
        ],
        reply: { deleted: found.length },
      }
    },
  },
}

/** Whether a message whose like was sent before could be refused by now. */
function isQuestionable(
  server: Readonlied<ServerState>,
  channel: Readonlied<ChannelState>,
  author: Snowflake,
  reply_to_id: Snowflake | undefined,
): boolean {
  if (channel.slowmode_seconds > 0 || reply_to_id !== undefined || server.automod.length > 0) return true
  // Without a moment every time-out counts, those that are over, too.
  const caller = server.members.get(author)
  return Boolean(caller) && !mayIn(server, channel.id, caller!, "messages.send", 0)
}

const passesSlowmode = (
  server: Readonlied<ServerState>,
  channel: Snowflake,
  caller: Readonlied<MemberState>,
  now: number,
) =>
  (["messages.bypass_slowmode", "messages.manage", "channels.manage"] as const).some(permission =>
    mayIn(server, channel, caller, permission, now),
  )

/** Which message viewers are told has gone. */
const goneFrom = ({ id, channel_id, server_id }: Readonlied<MessageState>) => ({
  id,
  channel_id,
  server_id,
  guild_id: server_id,
})

/** A deleted message is gone, but for its nonce. */
function forget(draft: ServerState, found: Readonlied<MessageState>): void {
  draft.messages.set(messageKey(found.channel_id, found.id), null)
  if (found.nonce !== null)
    draft.nonces.set(nonceKey(found.channel_id, found.author_id, found.nonce), {
      ...found,
      author_badges: found.author_badges,
      content: null,
      deleted: true,
    })
}

/** Keeps a message current wherever the home remembers it. */
function keep(draft: ServerState, state: MessageState): void {
  draft.messages.set(messageKey(state.channel_id, state.id), state)
  if (state.nonce !== null) draft.nonces.set(nonceKey(state.channel_id, state.author_id, state.nonce), state)
}

/** An author as he is called in his messages. */
const named = ({ username, bot = false, badges }: Actor) => ({
  author_username: username,
  author_bot: bot,
  author_badges: badges,
})
