import { typingStart, type Channel } from "../contract/channels.ts"
import { fail } from "../contract/errors.ts"
import type { Snowflake } from "../contract/fields.ts"
import { expireInvite } from "../contract/jobs.ts"
import type { Invite } from "../contract/invites.ts"
import { limits } from "../contract/limits.ts"
import { messageCreate, messageDelete, messageUpdate, type Message } from "../contract/messages.ts"
import { viewersOf } from "../domain/audience.ts"
import { channelObject, holdsMessages, slowmodeWait } from "../domain/channels.ts"
import { isBlank, messageObject } from "../domain/messages.ts"
import { holds } from "../domain/permissions.ts"
import type { Actor, ChannelState, InviteState, MemberState, MessageState, ServerState } from "../domain/states.ts"
import { insertInvite } from "../storage/invites.ts"
import { deleteMessage, insertMessage, messageKey, nonceKey, updateContent } from "../storage/messages.ts"
import { lastPost, lastPostKey, member, message, nonce } from "./needs.ts"
import { defineActor, type Readonlied } from "./runtime/actor.ts"
import { requireMember, requirePermission, serverHome } from "./server.ts"

/**
 * One channel: its settings and the order of its messages. It keeps:
 *   C1  Message ids rise strictly.
 *   C2  An event that anyone received is already in PostgreSQL.
 *   C3  One author and nonce make one message, however often they arrive.
 */
export interface ChannelCommands {
  readChannel(input: { user: Snowflake }): Channel
  /** Refuses whoever may not read the channel's history. */
  requireRead(input: { user: Snowflake }): { server_id: Snowflake }
  createInvite(input: {
    user: Snowflake
    code: string
    max_age?: number | undefined
    max_uses?: number | undefined
    temporary?: boolean | undefined
  }): Invite
  createMessage(input: {
    author: Actor
    content?: string | undefined
    reply_to_id?: Snowflake | undefined
    nonce?: string | undefined
  }): Message
  editMessage(input: { user: Snowflake; message_id: Snowflake; content: string }): Message
  deleteMessage(input: { user: Snowflake; message_id: Snowflake }): { deleted: true }
  startTyping(input: { user: Actor }): { told: boolean }
}

export const channelActor = defineActor<ServerState, ChannelState, ChannelCommands>({
  kind: "channel",
  home: serverHome,
  homeOf: (id, storage) => storage.channels.homeOf(id),
  find: (home, id) => (home.deleted ? undefined : home.channels.get(id)),
  missing: "channel_not_found",
  commands: {
    readChannel: {
      needs: ({ user }) => [member(user)],
      turn({ state: channel, home: server }, { user }) {
        requireViewer(server, user)
        return { reply: channelObject(channel) }
      },
    },

    requireRead: {
      needs: ({ user }) => [member(user)],
      turn({ home: server }, { user }) {
        requirePermission(server, requireViewer(server, user), "messages.read")
        return { reply: { server_id: server.id } }
      },
    },

    createInvite: {
      needs: ({ user }) => [member(user)],
      turn(
        { state: channel, home: server, now },
        { user, code, max_age = limits.inviteDefaultAge, max_uses = 0, temporary = false },
      ) {
        requirePermission(server, requireViewer(server, user), "invites.create")
        const created_at = Math.floor(now / 1000)
        const invite: InviteState = {
          code,
          server_id: server.id,
          channel_id: channel.id,
          inviter_id: user,
          max_age,
          max_uses,
          temporary,
          uses: 0,
          created_at,
          expires_at: max_age === 0 ? null : created_at + max_age,
        }
        return {
          apply: draft => {
            draft.invites.set(code, { ...invite })
          },
          write: [insertInvite(invite)],
          publish:
            invite.expires_at === null
              ? []
              : [
                  expireInvite.at(
                    { server_id: server.id, code },
                    { key: `invite:${code}`, runAtMs: invite.expires_at * 1000 },
                  ),
                ],
          reply: invite,
        }
      },
    },

    createMessage: {
      needs: ({ author, nonce: sent, reply_to_id }, { id, state: channel, suspect }) => [
        member(author.id),
        // Newer nonces are in memory, older ones are caught by their unique index; then they are looked up.
        ...(sent !== undefined && suspect ? [nonce(id, author.id, sent)] : []),
        ...(reply_to_id === undefined ? [] : [message(id, reply_to_id)]),
        ...(channel.slowmode_seconds === 0 ? [] : [lastPost(id, author.id)]),
      ],
      turn({ state: channel, home: server, now, newId }, { author, content, reply_to_id, nonce: sent }) {
        const repeated = sent === undefined ? null : server.nonces.get(nonceKey(channel.id, author.id, sent))
        const caller = requireViewer(server, author.id)
        if (repeated) return { reply: messageObject(repeated, author.id) } // C3
        requirePermission(server, caller, "messages.send")
        if (!holdsMessages(channel)) throw fail("not_a_text_channel")
        if (content === undefined || content === "") throw fail("empty_message")
        if (isBlank(content)) throw fail("invalid_content")
        if (reply_to_id !== undefined && !server.messages.get(messageKey(channel.id, reply_to_id)))
          throw fail("message_not_found")
        const wait = passesSlowmode(server, caller)
          ? 0
          : slowmodeWait(channel, server.lastPosts.get(lastPostKey(channel.id, author.id)), now)
        if (wait > 0) throw fail("slowmode", { retry_after: wait })

        const state: MessageState = {
          id: newId(), // C1
          channel_id: channel.id,
          server_id: server.id,
          author_id: author.id,
          author_username: author.username,
          author_badges: author.badges,
          content,
          edited_at: null,
          reply_to_id: reply_to_id ?? null,
          nonce: sent ?? null,
          pinned: false,
        }
        return {
          apply: draft => {
            keep(draft, state)
            if (channel.slowmode_seconds > 0) draft.lastPosts.set(lastPostKey(channel.id, author.id), now)
          },
          write: [insertMessage(state)],
          publish: [messageCreate.to(viewersOf(server.id, channel.id), messageObject(state, null))],
          reply: messageObject(state, author.id),
        }
      },
    },

    editMessage: {
      needs: ({ user, message_id }, { id }) => [member(user), message(id, message_id)],
      turn({ state: channel, home: server, now }, { user, message_id, content }) {
        const caller = requireViewer(server, user)
        const found = server.messages.get(messageKey(channel.id, message_id))
        if (!found) throw fail("message_not_found")
        if (found.author_id !== user) throw fail("not_author")
        requirePermission(server, caller, "messages.send")
        if (isBlank(content)) throw fail("empty_message")
        const edited: MessageState = {
          ...found,
          author_badges: found.author_badges,
          content,
          edited_at: Math.floor(now / 1000),
        }
        return {
          apply: draft => keep(draft, edited),
          write: [updateContent({ channel_id: channel.id, id: message_id, content, edited_at: edited.edited_at! })],
          publish: [messageUpdate.to(viewersOf(server.id, channel.id), messageObject(edited, null))],
          reply: messageObject(edited, user),
        }
      },
    },

    deleteMessage: {
      needs: ({ user, message_id }, { id }) => [member(user), message(id, message_id)],
      turn({ state: channel, home: server }, { user, message_id }) {
        const caller = requireViewer(server, user)
        const found = server.messages.get(messageKey(channel.id, message_id))
        if (!found) throw fail("message_not_found")
        if (found.author_id !== user && !holds(server, caller, "messages.manage")) throw fail("cannot_delete_message")
        return {
          apply: draft => {
            draft.messages.set(messageKey(channel.id, message_id), null)
            if (found.nonce !== null)
              draft.nonces.set(nonceKey(channel.id, found.author_id, found.nonce), {
                ...found,
                author_badges: found.author_badges,
                content: null,
                deleted: true,
              })
          },
          write: [deleteMessage({ channel_id: channel.id, id: message_id, nonce: found.nonce })],
          publish: [
            messageDelete.to(viewersOf(server.id, channel.id), {
              id: message_id,
              channel_id: channel.id,
              server_id: server.id,
              guild_id: server.id,
            }),
          ],
          reply: { deleted: true },
        }
      },
    },

    startTyping: {
      needs: ({ user }) => [member(user.id)],
      turn({ state: channel, home: server }, { user }) {
        requirePermission(server, requireViewer(server, user.id), "messages.send")
        if (!holdsMessages(channel)) return { reply: { told: false } }
        return {
          publish: [
            typingStart.to(
              viewersOf(server.id, channel.id),
              {
                channel_id: channel.id,
                user_id: user.id,
                username: user.username,
                server_id: server.id,
                guild_id: server.id,
              },
              { except: [user.id] },
            ),
          ],
          reply: { told: true },
        }
      },
    },
  },
})

/** The caller's membership, or 403: the channel exists, but not for him. */
function requireViewer(server: Readonlied<ServerState>, user: Snowflake): Readonlied<MemberState> {
  const caller = requireMember(server, user)
  if (!holds(server, caller, "channels.view")) throw fail("access_denied")
  return caller
}

const passesSlowmode = (server: Readonlied<ServerState>, caller: Readonlied<MemberState>) =>
  (["messages.bypass_slowmode", "messages.manage", "channels.manage"] as const).some(permission =>
    holds(server, caller, permission),
  )

/** Keeps a message current wherever the home remembers it. */
function keep(draft: ServerState, state: MessageState): void {
  draft.messages.set(messageKey(state.channel_id, state.id), state)
  if (state.nonce !== null) draft.nonces.set(nonceKey(state.channel_id, state.author_id, state.nonce), state)
}
