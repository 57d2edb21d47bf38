import { fail } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { purgeReactors } from "../../contract/core/jobs.ts"
import { limits } from "../../contract/core/limits.ts"
import { messageReactionAdd, messageReactionRemove, type ReactionChange } from "../../contract/messages/reactions.ts"
import { secondsAt } from "../../std/clock.ts"
import {
  emojiKey,
  oneLess,
  oneMore,
  reactionsIn,
  tallyOf,
  type GivenEmoji,
  type ReactionTally,
} from "../../domain/messages/reactions.ts"
import type { ServerState } from "../../domain/communities/servers.ts"
import type { ChannelState } from "../../domain/core/channels.ts"
import type { MessageState } from "../../domain/messages/messages.ts"
import { messageKey } from "../../storage/messages/messages.ts"
import { deleteReactors, putReaction, reactorKey, type ReactionPlace } from "../../storage/messages/reactions.ts"
import { accessOf, type Access } from "../shared/access.ts"
import { pair, requireOpen } from "../social/direct-privacy.ts"
import { keep } from "./kept-messages.ts"
import { member } from "../shared/member-facts.ts"
import { message, messageFacts } from "./message-facts.ts"
import type { MessageDeletionPart } from "./message-deletion.ts"
import type { Readonlied } from "../../domain/core/readonlied.ts"
import type { ActorKind } from "../../runtime/actor.ts"
import { inServer, toViewers } from "./viewers.ts"
import type { Need } from "../../runtime/facts.ts"
import { defineFact } from "../shared/facts.ts"

/**
 * Reactions to the messages of a channel, among its commands. They keep:
 *   REACT1  A tally is the number of different users who use its emoji, under concurrent
 *       changes. A tally of zero is removed.
 *   REACT2  A message never has more different emoji than the limit.
 * Who reacted is not in memory: whether one user did is a fact like any other, so that a tally may
 * be as high as it likes.
 */
export interface ReactionCommands {
  /**
   * `custom`: the server of the emoji, and whether the user is in it; undefined: it does not exist
   * or is no server's emoji.
   */
  addReaction(input: {
    user: Snowflake
    message_id: Snowflake
    emoji: GivenEmoji
    custom?: { readonly server_id: Snowflake; readonly is_member: boolean } | undefined
  }): { changed: boolean }
  removeReaction(input: { user: Snowflake; message_id: Snowflake; emoji: GivenEmoji }): { changed: boolean }
  /** Removes the reactions of a deleted account. */
  eraseReactions(input: { user: Snowflake; reactions: readonly Omit<ReactionPlace, "channel_id">[] }): {
    erased: number
  }
}

type Server = Readonlied<ServerState>
type Message = Readonlied<MessageState>
/** The facts that adding or removing a reaction needs. */
const needsOfReaction = (
  { user, message_id, emoji }: { user: Snowflake; message_id: Snowflake; emoji: GivenEmoji },
  { id, home }: { id: Snowflake; home: Server },
) => [member(user), ...pair(home), message(id, message_id), reactor(id, message_id, user, emojiKey(emoji))]

const reactorFacts = defineFact<ServerState, true>({
  keep: 1_000,
  async load(storage, _server, keys) {
    const uses = keys.map(key => {
      const [channel, id, user, ...emoji] = key.split(":")
      return { channel_id: channel!, message_id: id!, user_id: user!, emoji: emoji.join(":") }
    })
    const found = await storage.reactions.among(uses)
    return new Map(
      found.map(({ channel_id, message_id, user_id, emoji }) => [
        reactorKey(channel_id, message_id, user_id, emoji),
        true,
      ]),
    )
  },
})
export const reactor = (channel: Snowflake, id: Snowflake, user: Snowflake, emoji: string): Need<ServerState> =>
  reactorFacts.need(reactorKey(channel, id, user, emoji))

export const reactionCommands: ActorKind<ServerState, ChannelState, ReactionCommands>["commands"] = {
  addReaction: {
    needs: needsOfReaction,
    turn({ state: channel, home: server, now }, { user, message_id, emoji, custom }) {
      const access = accessOf(server, channel.id, user, now)
      const found = messageFacts.of(server).get(messageKey(channel.id, message_id))
      if (!found) throw fail("message_not_found")
      requireOpen(server)
      access.requireFree("messages.add_reactions")
      const key = emojiKey(emoji)
      const reactions = found.reactions ?? []
      if (!tallyOf(reactions, key)) {
        if (emoji.id !== null) requireUsable(access, custom)
        if (reactions.length >= limits.reactionsPerMessage) throw fail("reaction_limit") // REACT2
      }
      const fact = reactorKey(channel.id, message_id, user, key)
      if (reactorFacts.of(server).get(fact)) return { reply: { changed: false } }
      const left = oneMore(reactions, emoji) // REACT1
      const reacted_at = secondsAt(now)
      return {
        apply: draft => {
          keep(draft, withReactions(found, left))
          reactorFacts.of(draft).set(fact, true)
        },
        write: [
          putReaction({ channel_id: channel.id, message_id, emoji: key, user_id: user, reacted_at, reactions: left }),
        ],
        publish: toViewers(
          server,
          channel.id,
          messageReactionAdd,
          change(server, found, user, emoji.text, tallyOf(left, key)!, tallyOf(left, key)!.count),
        ),
        reply: { changed: true },
      }
    },
  },

  removeReaction: {
    needs: needsOfReaction,
    turn({ state: channel, home: server, now }, { user, message_id, emoji }) {
      accessOf(server, channel.id, user, now)
      const found = messageFacts.of(server).get(messageKey(channel.id, message_id))
      if (!found) throw fail("message_not_found")
      requireOpen(server)
      const taken = takenBack(server, found, user, emojiKey(emoji), emoji.text)
      if (!taken) return { reply: { changed: false } }
      return {
        apply: draft => {
          keep(draft, taken.message)
          reactorFacts.of(draft).set(taken.fact, null)
        },
        write: [taken.write],
        publish: taken.publish,
        reply: { changed: true },
      }
    },
  },

  eraseReactions: {
    needs: ({ user, reactions }, { id }) =>
      reactions.flatMap(({ message_id, emoji }) => [message(id, message_id), reactor(id, message_id, user, emoji)]),
    turn({ state: channel, home: server }, { user, reactions }) {
      const messages = new Map<Snowflake, Message>()
      const taken = reactions.flatMap(({ message_id, emoji }) => {
        const found = messages.get(message_id) ?? messageFacts.of(server).get(messageKey(channel.id, message_id))
        const one = found && takenBack(server, found, user, emoji)
        if (one) messages.set(message_id, one.message)
        return one ? [one] : []
      })
      if (taken.length === 0) return { reply: { erased: 0 } }
      return {
        apply: draft => {
          for (const one of taken) {
            keep(draft, one.message)
            reactorFacts.of(draft).set(one.fact, null)
          }
        },
        write: taken.map(one => one.write),
        publish: taken.flatMap(one => one.publish),
        reply: { erased: taken.length },
      }
    },
  },
}

/** An emoji of another server may be used by its members who may use external emojis here. */
function requireUsable(
  access: Access,
  custom: { readonly server_id: Snowflake; readonly is_member: boolean } | undefined,
): void {
  const { server } = access
  if (!custom) throw fail("invalid_emoji")
  if (server.participants === null && custom.server_id === server.id) return
  if (!custom.is_member || !access.may("messages.use_external_emojis")) throw fail("invalid_emoji")
}

/** The message after a user takes an emoji back; undefined: they do not use it. */
function takenBack(server: Server, found: Message, user: Snowflake, key: string, text?: string) {
  const { id: message_id, channel_id } = found
  const fact = reactorKey(channel_id, message_id, user, key)
  const tally = tallyOf(found.reactions, key)
  if (!tally || !reactorFacts.of(server).get(fact)) return undefined
  const left = oneLess(found.reactions ?? [], key) // REACT1
  return {
    fact,
    message: withReactions(found, left),
    write: putReaction({ channel_id, message_id, emoji: key, user_id: user, reacted_at: null, reactions: left }),
    publish: toViewers(
      server,
      channel_id,
      messageReactionRemove,
      change(server, found, user, text ?? tally.emoji, tally, tally.count - 1),
    ),
  }
}

const withReactions = (found: Message, reactions: readonly Readonly<ReactionTally>[]): MessageState => ({
  ...found,
  reactions,
})

const change = (
  server: Server,
  found: Message,
  user_id: Snowflake,
  emoji: string,
  { custom_emoji_id, url }: Readonly<ReactionTally>,
  count: number,
): ReactionChange => ({
  user_id,
  message_id: found.id,
  channel_id: found.channel_id,
  ...inServer(server),
  emoji,
  url,
  is_custom: custom_emoji_id !== null,
  custom_emoji_id,
  count,
})

/** How many reactions one commit deletes with their messages. A job deletes more. */
const fewReactions = 200

/** Reactions to deleted messages are deleted too: at once, or by a job if there are many. */
export const reactionsDeletion: MessageDeletionPart = {
  effects(_channel, found) {
    const counts = found.map(({ reactions }) => reactionsIn(reactions))
    const places = found.filter((_, i) => counts[i]! > 0).map(({ channel_id, id }) => ({ channel_id, message_id: id }))
    if (counts.reduce((sum, count) => sum + count, 0) <= fewReactions)
      return { write: places.map(place => deleteReactors(place)) }
    return {
      publish: places.map(place =>
        purgeReactors.at(place, { key: `reactors:${place.channel_id}:${place.message_id}` }),
      ),
    }
  },
}
