import { channelUpdate, typingStart, typingStop, type Channel } from "../contract/channels.ts"
import { fail } from "../contract/errors.ts"
import type { Snowflake } from "../contract/fields.ts"
import { expireInvite } from "../contract/jobs.ts"
import type { Invite } from "../contract/invites.ts"
import { limits } from "../contract/limits.ts"
import { messageCreate, messageDelete, messageDeleteBulk, messageUpdate, type Message } from "../contract/messages.ts"
import type { Override as ShownOverride } from "../contract/overrides.ts"
import { permissionNames, permissionOf, type Permission } from "../contract/permissions.ts"
import { membersOf, viewersOf } from "../domain/audience.ts"
import { channelObject, holdsMessages, slowmodeWait } from "../domain/channels.ts"
import { isBlank, messageObject } from "../domain/messages.ts"
import { loosened, rankOf, type Override } from "../domain/permissions.ts"
import type { Actor, ChannelState, InviteState, MemberState, MessageState, ServerState } from "../domain/states.ts"
import { insertInvite } from "../storage/invites.ts"
import { deleteOverride, putOverride } from "../storage/overrides.ts"
import { deleteMessage, insertMessage, messageKey, nonceKey, updateContent } from "../storage/messages.ts"
import { mayIn, requirePermission, requirePermissionIn, requireRank, requireViewer } from "./access.ts"
import { lastPost, lastPostKey, member, message, nonce } from "./needs.ts"
import { control, defineActor, type Readonlied } from "./runtime/actor.ts"
import { voiceChannelCommands, voiceRechecks, type VoiceChannelCommands } from "./voice.ts"
import { serverHome } from "./server.ts"

/**
 * One channel: its settings and the order of its messages. It keeps:
 *   C1  Message ids rise strictly.
 *   C2  An event that anyone received is already in PostgreSQL.
 *   C3  One author and nonce make one message, however often they arrive.
 */
export interface ChannelCommands extends VoiceChannelCommands {
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
  /** `author`: as he is called by now; workers of the version before leave it out. */
  editMessage(input: { user: Snowflake; author?: Actor; message_id: Snowflake; content: string }): Message
  deleteMessage(input: { user: Snowflake; message_id: Snowflake }): { deleted: true }
  /** Those of these messages that are there and his. */
  deleteMessagesOf(input: { author: Snowflake; message_ids: readonly Snowflake[] }): { deleted: number }
  /** `hidden`: others are not to see it. */
  startTyping(input: { user: Actor; hidden?: boolean }): { told: boolean }
  /** Takes back what was said no longer than `timeout` milliseconds ago. */
  stopTyping(input: { user: Snowflake; timeout: number }): { told: boolean }
  readOverride(input: { user: Snowflake; target_id: Snowflake }): ShownOverride
  setOverride(input: {
    user: Snowflake
    target_id: Snowflake
    kind: Override["type"]
    allow: readonly string[]
    deny: readonly string[]
  }): ShownOverride
  deleteOverride(input: { user: Snowflake; target_id: Snowflake }): { deleted: true }
  /** Of a member whose account is gone for good. */
  eraseOverride(input: { target_id: Snowflake }): { erased: boolean }
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
        requireViewer(server, channel.id, user)
        return { reply: channelObject(channel) }
      },
    },

    requireRead: {
      needs: ({ user }) => [member(user)],
      turn({ state: channel, home: server }, { user }) {
        requirePermissionIn(server, channel.id, requireViewer(server, channel.id, user), "messages.read")
        return { reply: { server_id: server.id } }
      },
    },

    createInvite: {
      needs: ({ user }) => [member(user)],
      turn(
        { state: channel, home: server, now },
        { user, code, max_age = limits.inviteDefaultAge, max_uses = 0, temporary = false },
      ) {
        requirePermissionIn(server, channel.id, requireViewer(server, channel.id, user), "invites.create")
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
        const caller = requireViewer(server, channel.id, author.id)
        // C3
        if (repeated) return { reply: messageObject({ ...repeated, ...named(author) }, author.id) }
        requirePermissionIn(server, channel.id, caller, "messages.send")
        if (!holdsMessages(channel)) throw fail("not_a_text_channel")
        if (content === undefined || content === "") throw fail("empty_message")
        if (isBlank(content)) throw fail("invalid_content")
        if (reply_to_id !== undefined && !server.messages.get(messageKey(channel.id, reply_to_id)))
          throw fail("message_not_found")
        const wait = passesSlowmode(server, channel.id, caller)
          ? 0
          : slowmodeWait(channel, server.lastPosts.get(lastPostKey(channel.id, author.id)), now)
        if (wait > 0) throw fail("slowmode", { retry_after: wait })

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
      turn({ state: channel, home: server, now }, { user, author, message_id, content }) {
        const caller = requireViewer(server, channel.id, user)
        const found = server.messages.get(messageKey(channel.id, message_id))
        if (!found) throw fail("message_not_found")
        if (found.author_id !== user) throw fail("not_author")
        requirePermissionIn(server, channel.id, caller, "messages.send")
        if (isBlank(content)) throw fail("empty_message")
        const edited: MessageState = {
          ...found,
          author_badges: found.author_badges,
          // What is in memory may be older than his latest change of name.
          ...(author && named(author)),
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
        const caller = requireViewer(server, channel.id, user)
        const found = server.messages.get(messageKey(channel.id, message_id))
        if (!found) throw fail("message_not_found")
        if (found.author_id !== user && !mayIn(server, channel.id, caller, "messages.manage"))
          throw fail("cannot_delete_message")
        return {
          apply: draft => forget(draft, found),
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

    startTyping: {
      needs: ({ user }) => [member(user.id)],
      turn({ state: channel, home: server, now }, { user, hidden = false }) {
        const caller = requireViewer(server, channel.id, user.id)
        if (!holdsMessages(channel)) return { reply: { told: false } }
        requirePermissionIn(server, channel.id, caller, "messages.send")
        if (hidden || msSinceTyped(server, channel.id, user.id, now) < typingPause) return { reply: { told: false } }
        return {
          remember: draft => {
            const key = typingKey(channel.id, user.id)
            draft.typing.delete(key)
            draft.typing.set(key, now)
            if (draft.typing.size > mostTyping) draft.typing.delete(draft.typing.keys().next().value!)
          },
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

    stopTyping: {
      needs: ({ user }) => [member(user)],
      turn({ state: channel, home: server, now }, { user, timeout }) {
        requireViewer(server, channel.id, user)
        if (msSinceTyped(server, channel.id, user, now) > timeout) return { reply: { told: false } }
        return {
          remember: draft => {
            draft.typing.delete(typingKey(channel.id, user))
          },
          publish: [
            typingStop.to(
              viewersOf(server.id, channel.id),
              { channel_id: channel.id, user_id: user, server_id: server.id, guild_id: server.id },
              { except: [user] },
            ),
          ],
          reply: { told: true },
        }
      },
    },

    ...voiceChannelCommands,

    readOverride: {
      needs: ({ user }) => [member(user)],
      turn({ state: channel, home: server }, { user, target_id }) {
        requirePermission(server, requireViewer(server, channel.id, user), "roles.manage")
        const found = overridesOf(server, channel.id).find(override => override.target_id === target_id)
        if (!found) throw fail("override_not_found")
        return { reply: overrideObject(channel.id, found) }
      },
    },

    setOverride: {
      needs: ({ user, target_id, kind }) => [member(user), ...(kind === "member" ? [member(target_id)] : [])],
      turn({ state: channel, home: server }, { user, target_id, kind, allow, deny }) {
        const before = overridesOf(server, channel.id)
        const found = before.find(override => override.target_id === target_id)
        const override: Override = { target_id, type: kind, allow: flagsOf(allow), deny: flagsOf(deny) }
        const target = kind === "role" ? server.roles.get(target_id) : server.members.get(target_id)
        const caller = requireViewer(server, channel.id, user)
        requirePermission(server, caller, "roles.manage")
        if (!target) throw fail("member_or_role_not_found")
        if (user !== server.owner_id)
          requireRank(server, caller, "position" in target ? target.position : rankOf(server, target))
        requireLoosenable(server, channel.id, caller, found, override)
        if (!found && before.length >= limits.overridesPerChannel) throw fail("override_limit")
        const after = [...before.filter(other => other.target_id !== target_id), override]
        return {
          ...overriding(server, channel, before, after, override),
          write: [putOverride({ ...override, channel_id: channel.id, server_id: server.id })],
          reply: overrideObject(channel.id, override),
        }
      },
    },

    deleteOverride: {
      needs: ({ user, target_id }) => [member(user), member(target_id)],
      turn({ state: channel, home: server }, { user, target_id }) {
        const before = overridesOf(server, channel.id)
        const found = before.find(override => override.target_id === target_id)
        const caller = requireViewer(server, channel.id, user)
        requirePermission(server, caller, "roles.manage")
        if (!found) throw fail("override_not_found")
        const gone = { user_id: target_id, roles: [] }
        const rank =
          found.type === "role"
            ? (server.roles.get(target_id)?.position ?? 0)
            : rankOf(server, server.members.get(target_id) ?? gone)
        if (user !== server.owner_id) requireRank(server, caller, rank)
        requireLoosenable(server, channel.id, caller, found, undefined)
        const after = before.filter(other => other !== found)
        return {
          ...overriding(server, channel, before, after, found),
          write: [deleteOverride({ channel_id: channel.id, target_id })],
          reply: { deleted: true },
        }
      },
    },

    eraseOverride: {
      turn({ state: channel, home: server }, { target_id }) {
        const before = overridesOf(server, channel.id)
        const found = before.find(override => override.type === "member" && override.target_id === target_id)
        if (!found) return { reply: { erased: false } }
        const after = before.filter(other => other !== found)
        return {
          ...overriding(server, channel, before, after, found),
          write: [deleteOverride({ channel_id: channel.id, target_id })],
          reply: { erased: true },
        }
      },
    },
  },
})

/** Milliseconds in which a repeated start is not told again; how many who type a server remembers. */
const typingPause = 1_000
const mostTyping = 1_000

const typingKey = (channel: Snowflake, user: Snowflake) => `${channel} ${user}`

/** Since a member last said that he types; a clock that fell says nothing. */
function msSinceTyped(server: Readonlied<ServerState>, channel: Snowflake, user: Snowflake, now: number): number {
  const at = server.typing.get(typingKey(channel, user))
  return at === undefined || at > now ? Infinity : now - at
}

const passesSlowmode = (server: Readonlied<ServerState>, channel: Snowflake, caller: Readonlied<MemberState>) =>
  (["messages.bypass_slowmode", "messages.manage", "channels.manage"] as const).some(permission =>
    mayIn(server, channel, caller, permission),
  )

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

const overridesOf = (server: Readonlied<ServerState>, channel: Snowflake): readonly Override[] =>
  server.overrides.get(channel) ?? []

const overrideObject = (channel: Snowflake, { target_id, type, allow, deny }: Override): ShownOverride => ({
  channel_id: channel,
  target_id,
  type,
  allow: [...allow],
  deny: [...deny],
})

/** What a client's names mean. Who is an administrator is no matter of one channel. */
function flagsOf(names: readonly string[]): Permission[] {
  const named = new Set(names.map(name => permissionOf(name)))
  return permissionNames.filter(name => name !== "administrator" && named.has(name))
}

/** Nobody lets others do in a channel what he may not do there himself. */
function requireLoosenable(
  server: Readonlied<ServerState>,
  channel: Snowflake,
  caller: Readonlied<MemberState>,
  before: Override | undefined,
  after: Override | undefined,
): void {
  for (const permission of loosened(before, after)) requirePermissionIn(server, channel, caller, permission)
}

/** Who sees the channel changes with the control entry; then whoever sees it now is told. */
function overriding(
  server: Readonlied<ServerState>,
  channel: Readonlied<ChannelState>,
  before: readonly Override[],
  after: readonly Override[],
  { type, target_id }: Override,
) {
  const shown = channelObject(channel)
  return {
    apply: (draft: ServerState) => {
      draft.overrides.set(channel.id, after)
    },
    publish: [
      control(membersOf(server.id), {
        type: "overrides",
        server: server.id,
        channel: channel.id,
        shown,
        before,
        after,
      }),
      channelUpdate.to(viewersOf(server.id, channel.id), shown),
      ...voiceRechecks(
        server,
        ({ channel_id, user_id }) => channel_id === channel.id && (type === "role" || user_id === target_id),
      ),
    ],
  }
}

/** An author as he is called in his messages. */
const named = ({ username, bot = false, badges }: Actor) => ({
  author_username: username,
  author_bot: bot,
  author_badges: badges,
})
