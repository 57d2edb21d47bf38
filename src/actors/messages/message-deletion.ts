import { fail } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { limits } from "../../contract/core/limits.ts"
import { messageDelete, messageDeleteBulk } from "../../contract/messages/messages.ts"
import { msOf } from "../../domain/core/snowflake.ts"
import type { ServerState } from "../../domain/communities/servers.ts"
import type { ChannelState } from "../../domain/core/channels.ts"
import type { MessageState } from "../../domain/messages/messages.ts"
import { deleteMessage, messageKey } from "../../storage/messages/messages.ts"
import { accessOf } from "../shared/access.ts"
import { audit, type AuditContext } from "../shared/audit.ts"
import { filesLeft } from "../shared/files.ts"
import { forget } from "./kept-messages.ts"
import { member } from "../shared/member-facts.ts"
import { message, messageFacts } from "./message-facts.ts"
import { combine, type HomeEffects } from "../shared/effects.ts"
import type { Readonlied } from "../../domain/core/readonlied.ts"
import type { Need } from "../../runtime/facts.ts"
import type { ActorKind, Publication } from "../../runtime/actor.ts"
import { inServer, toViewers } from "./viewers.ts"

/** What a subject contributes to the deletion of messages of one channel. */
export interface MessageDeletionPart {
  /** `found`: those of the messages that memory holds when the needs are read. */
  readonly needs?: (channel: Snowflake, found: readonly Known[]) => readonly Need<ServerState>[]
  readonly effects: (channel: Snowflake, found: readonly Known[]) => Partial<HomeEffects>
}

/** The deletion of messages, with what every subject contributes to it. */
export interface MessageDeletion {
  /** What a command needs of messages that it is about to delete. */
  readonly needs: (server: Server, channel: Snowflake, ids: readonly Snowflake[]) => Need<ServerState>[]
  /** `published`: the events that tell viewers of it. */
  readonly effects: (
    channel: Readonlied<ChannelState>,
    found: readonly Known[],
    published: readonly Publication[],
    now: number,
  ) => HomeEffects
}

/** Deletion of messages, among the commands of their channel. */
export interface MessageDeletionCommands {
  deleteMessage(input: AuditContext & { message_id: Snowflake }): { deleted: true }
  /** Those of these messages that exist and are the author's. */
  deleteMessagesOf(input: { author: Snowflake; message_ids: readonly Snowflake[] }): { deleted: number }
  /** Those of these messages that are there. */
  bulkDeleteMessages(input: AuditContext & { message_ids: readonly Snowflake[] }): { deleted: number }
}

type Server = Readonlied<ServerState>
type Known = Readonlied<MessageState>

export const messageDeletionCommands = (
  deletion: MessageDeletion,
): ActorKind<ServerState, ChannelState, MessageDeletionCommands>["commands"] => ({
  deleteMessage: {
    needs: ({ user, message_id }, { id, home }) => [member(user), ...deletion.needs(home, id, [message_id])],
    turn(context, { user, reason, message_id }) {
      const { state: channel, home: server, now } = context
      const access = accessOf(server, channel.id, user, now)
      const found = messageFacts.of(server).get(messageKey(channel.id, message_id))
      if (!found) throw fail("message_not_found")
      const isOwn = found.author_id === user
      if (!isOwn && !access.may("messages.manage")) throw fail("cannot_delete_message")
      if (!isOwn)
        audit(
          { ...context, user, reason },
          "MESSAGE_DELETE",
          { type: "message", id: message_id },
          { channel_id: { old: channel.id, new: null }, author_id: { old: found.author_id, new: null } },
        )
      return { ...deletion.effects(channel, [found], goneFrom(server, found), now), reply: { deleted: true } }
    },
  },

  deleteMessagesOf: {
    needs: ({ message_ids }, { id, home }) => deletion.needs(home, id, message_ids),
    turn({ state: channel, home: server, now }, { author, message_ids }) {
      const found = those(server, channel.id, message_ids).filter(({ author_id }) => author_id === author)
      if (found.length === 0) return { reply: { deleted: 0 } }
      return {
        ...deletion.effects(channel, found, allGone(server, channel.id, found), now),
        reply: { deleted: found.length },
      }
    },
  },

  bulkDeleteMessages: {
    needs: ({ user, message_ids }, { id, home }) => [member(user), ...deletion.needs(home, id, message_ids)],
    turn(context, { user, reason, message_ids }) {
      const { state: channel, home: server, now } = context
      const access = accessOf(server, channel.id, user, now)
      access.require("messages.manage")
      const found = those(server, channel.id, message_ids)
      if (found.length === 0) return { reply: { deleted: 0 } }
      audit(
        { ...context, user, reason },
        "MESSAGE_BULK_DELETE",
        { type: "channel", id: channel.id, name: channel.name },
        { messages: { old: found.map(({ id }) => id), new: null } },
      )
      return {
        ...deletion.effects(channel, found, allGone(server, channel.id, found), now),
        reply: { deleted: found.length },
      }
    },
  },
})

/** Each of these messages that is there, once. */
const those = (server: Server, channel: Snowflake, ids: readonly Snowflake[]): Known[] =>
  [...new Set(ids)].flatMap(id => messageFacts.of(server).get(messageKey(channel, id)) ?? [])

/**
 * Whether slow mode may have to know yet that its author posted then: an author who deletes a message
 * waits as long as before.
 */
const maySlow = (channel: Readonlied<ChannelState>, { id }: Known, now: number): boolean =>
  channel.slowmode_seconds > 0 && now - msOf(id) < limits.slowmodeSeconds * 1000

/** Deletion of messages with everything that belongs to them. */
export const messageDeletion = (parts: readonly MessageDeletionPart[]): MessageDeletion => ({
  needs(server, channel, ids) {
    const found = those(server, channel, ids)
    return [...ids.map(id => message(channel, id)), ...parts.flatMap(({ needs }) => needs?.(channel, found) ?? [])]
  },
  effects: (channel, found, published, now) =>
    combine(
      {
        apply: draft => {
          for (const one of found) forget(draft, one)
        },
        write: found.map(one =>
          deleteMessage({
            channel_id: one.channel_id,
            id: one.id,
            isLeft: one.nonce !== null || maySlow(channel, one, now),
          }),
        ),
        publish: [...published, ...filesLeft(...found)],
      },
      ...parts.map(({ effects }) => effects(channel.id, found)),
    ),
})

/** Viewers are told that a message has gone. */
export const goneFrom = (
  server: Server,
  { id, channel_id }: Known,
  why: { automod?: true } = {},
): readonly Publication[] =>
  toViewers(server, channel_id, messageDelete, { id, channel_id, ...inServer(server), ...why })

/** The same of several, in one event. */
const allGone = (server: Server, channel_id: Snowflake, found: readonly Known[]): readonly Publication[] =>
  toViewers(server, channel_id, messageDeleteBulk, { ids: found.map(({ id }) => id), channel_id, ...inServer(server) })
