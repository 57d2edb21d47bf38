import { fail } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { expirePoll, purgePoll } from "../../contract/core/jobs.ts"
import { messageUpdate } from "../../contract/messages/messages.ts"
import type { Poll, PollInput, PollResults } from "../../contract/messages/polls.ts"
import { secondsAt } from "../../std/clock.ts"
import { messageObject, nothingIn, withAuthor, type MessageState } from "../../domain/messages/messages.ts"
import {
  chosenOptions,
  isEnded,
  newPoll,
  pollObject,
  pollResults,
  textOf,
  withVote,
  type PollState,
} from "../../domain/messages/polls.ts"
import type { ServerState } from "../../domain/communities/servers.ts"
import type { ChannelState } from "../../domain/core/channels.ts"
import type { Actor } from "../../domain/accounts/accounts.ts"
import { messageKey } from "../../storage/messages/messages.ts"
import { deletePoll, endPoll, insertPoll, putPollVote, setPoll, voteKey } from "../../storage/messages/polls.ts"
import type { Write } from "../../storage/core/write.ts"
import { Access, requireMember } from "../shared/access.ts"
import { judgingNeeds, moderating, type Held, type Moderated } from "./automod-judging.ts"
import { pair, requireOpen } from "../social/direct-privacy.ts"
import { keep } from "./kept-messages.ts"
import { goneFrom, type MessageDeletion } from "./message-deletion.ts"
import { member, memberFacts } from "../shared/member-facts.ts"
import { message, messageFacts } from "./message-facts.ts"
import { combine } from "../shared/effects.ts"
import type { Readonlied } from "../../domain/core/readonlied.ts"
import type { ActorKind, Publication, TurnContext } from "../../runtime/actor.ts"
import { toViewers } from "./viewers.ts"
import type { Need } from "../../runtime/facts.ts"
import { defineFact } from "../shared/facts.ts"

/**
 * Polls, each part of a message, among the commands of its channel. A user who may read the message
 * sees the poll and may vote; for everybody else there is none. They keep:
 *   POLL1  A voter has one vote, the latest. Counts always match the votes: both are in one
 *       commit.
 *   POLL2  A poll ends once. A vote that is decided later does not count, and neither does one
 *       after the end time.
 */
export interface PollCommands {
  createPoll(input: { author: Actor; message_id: Snowflake; poll: PollInput } & Moderated): Poll | Held
  readPoll(input: ByPoll): PollResults
  votePoll(input: ByPoll & { option_ids: readonly Snowflake[] }): PollResults
  closePoll(input: ByPoll): Poll
  deletePoll(input: ByPoll): { deleted: true }
  /**
   * Ends a poll whose time is over; nothing happens to any other. `there`: whether there is such a
   * poll; `left`: milliseconds that it goes on by this home's clock.
   */
  expirePoll(input: Omit<ByPoll, "user">): { there: boolean; left?: number }
}

interface ByPoll {
  user: Snowflake
  /** The poll's message, as the route found it. */
  message_id: Snowflake
  poll_id: Snowflake
  /**
   * The message's author with their current name: the home is not told about users who are not
   * members. Undefined: a webhook sent it, or there is no such message.
   */
  author: Actor | undefined
}

type Server = Readonlied<ServerState>
type Known = Readonlied<MessageState>
type Context = TurnContext<ServerState, ChannelState>

/** The options that a user voted for in a poll. */
export const pollVoteFacts = defineFact<ServerState, readonly Snowflake[]>({
  keep: 1_000,
  load: (storage, _server, keys) =>
    storage.polls.votes(
      keys.map(key => {
        const [poll, user] = key.split(":")
        return { poll: poll!, user: user! }
      }),
    ),
})
const pollVote = (poll: Snowflake, user: Snowflake): Need<ServerState> => pollVoteFacts.need(voteKey(poll, user))

type Commands = ActorKind<ServerState, ChannelState, PollCommands>["commands"]

const votingCommands: Pick<Commands, "createPoll" | "readPoll" | "votePoll" | "closePoll"> = {
  createPoll: {
    needs: ({ author, message_id }, { id, home }) => [
      member(author.id),
      ...pair(home),
      message(id, message_id),
      ...judgingNeeds(home, id, author.id),
    ],
    turn(context, { author, message_id, poll: asked, moderation, classifiers }) {
      const { state: channel, home: server, now, newId } = context
      const found = messageFacts.of(server).get(messageKey(channel.id, message_id))
      if (!found || !mayRead(server, channel.id, author.id, now)) throw fail("message_not_found")
      if (found.author_id !== author.id) throw fail("not_author")
      const access = new Access(server, channel.id, requireMember(server, author.id), now)
      requireOpen(server)
      access.requireFree("messages.send")
      if (found.poll) throw fail("poll_exists")
      // Only the poll is refused. The message stays as it is, since nothing speaks against it.
      return moderating(
        context,
        {
          author,
          caller: access.member,
          content: textOf(asked),
          edited: message_id,
          moderated: { moderation, classifiers },
        },
        () => {
          const poll = newPoll(asked, author.id, { now, newId })
          return {
            ...combine(change(context, withAuthor(found, author), poll), pollBegins(poll, found)),
            reply: pollObject(poll, message_id, now),
          }
        },
      )
    },
  },

  readPoll: {
    needs: needsVote,
    turn({ state: channel, home: server, now }, input) {
      const { poll } = visible(server, channel.id, input, now)
      return { reply: pollResults(poll, input.message_id, voteOf(server, input), now) }
    },
  },

  votePoll: {
    needs: (input, context) => [...needsVote(input, context), ...pair(context.home)],
    turn(context, { option_ids, ...input }) {
      const { state: channel, home: server, now } = context
      const { found, poll } = visible(server, channel.id, input, now)
      requireOpen(server)
      const chosen = chosenOptions(poll, option_ids, now) // POLL2
      if (typeof chosen === "string") throw fail(chosen)
      const before = voteOf(server, input)
      if (before.length === chosen.length && before.every(id => chosen.includes(id)))
        return { reply: pollResults(poll, input.message_id, chosen, now) }
      const { user, poll_id } = input
      const after = withVote(poll, before, chosen) // POLL1
      const changed = change(context, found, after)
      return {
        apply: draft => {
          changed.apply(draft)
          pollVoteFacts.of(draft).set(voteKey(poll_id, user), chosen)
        },
        write: [...changed.write, putPollVote({ poll_id, user_id: user, option_ids: chosen })],
        publish: changed.publish,
        reply: pollResults(after, input.message_id, chosen, now),
      }
    },
  },

  closePoll: {
    needs: (input, context) => [...needsMessage(input, context), ...pair(context.home)],
    turn(context, input) {
      const { state: channel, home: server, now } = context
      const { found, poll } = visible(server, channel.id, input, now)
      if (poll.created_by !== input.user) throw fail("not_poll_creator")
      requireOpen(server)
      if (isEnded(poll, now)) throw fail("poll_ended")
      return { ...ending(context, found, poll, secondsAt(now)), reply: ended(poll, secondsAt(now), found.id, now) }
    },
  },
}

export const pollCommands = (deletion: MessageDeletion): Commands => ({
  ...votingCommands,

  deletePoll: {
    needs: (input, { id, home }) => [
      member(input.user),
      ...pair(home),
      ...deletion.needs(home, id, [input.message_id]),
    ],
    turn(context, input) {
      const { state: channel, home: server, now } = context
      const { found, poll } = visible(server, channel.id, input, now)
      if (poll.created_by !== input.user) throw fail("not_poll_creator")
      requireOpen(server)
      const { content, attachments, embeds } = found
      const isAll = nothingIn({
        content: content ?? "",
        attachments: attachments ?? [],
        embeds: embeds ?? [],
      })
      return {
        ...combine(
          isAll ? deletion.effects(channel, [found], goneFrom(server, found), now) : change(context, found, null),
          {
            write: [deletePoll({ id: poll.id })],
            publish: [purgePoll.at({ poll_id: poll.id }, { key: `purge:${poll.id}` })],
          },
        ),
        reply: { deleted: true },
      }
    },
  },

  expirePoll: {
    needs: ({ message_id }, { id }) => [message(id, message_id)],
    turn(context, { message_id, poll_id, author }) {
      const { state: channel, home: server, now } = context
      const found = messageFacts.of(server).get(messageKey(channel.id, message_id))
      const poll = found?.poll
      if (!found || poll?.id !== poll_id) return { reply: { there: false } }
      if (poll.ended_at !== null || poll.ends_at === null) return { reply: { there: true } } // POLL2
      if (!isEnded(poll, now)) return { reply: { there: true, left: poll.ends_at * 1000 - now } }
      return { ...ending(context, withAuthor(found, author), poll, poll.ends_at), reply: { there: true } }
    },
  },
})

function needsMessage({ user, message_id }: ByPoll, { id }: { readonly id: Snowflake }) {
  return [member(user), message(id, message_id)]
}
function needsVote(input: ByPoll, context: { readonly id: Snowflake }) {
  return [...needsMessage(input, context), pollVote(input.poll_id, input.user)]
}

/** The further effects of a message that gets a poll. */
export function pollBegins(
  { id, ends_at }: Readonly<PollState>,
  { channel_id, id: message_id }: Pick<MessageState, "id" | "channel_id">,
): { write: Write[]; publish: Publication[] } {
  const where = { channel_id, message_id }
  return {
    write: [insertPoll({ id, ...where, ends_at })],
    publish:
      ends_at === null
        ? []
        : [expirePoll.at({ poll_id: id, ...where }, { key: `poll:${id}`, runAtMs: ends_at * 1000 })],
  }
}

function mayRead(server: Server, channel: Snowflake, user: Snowflake, now: number): boolean {
  if (server.participants !== null) return server.participants.includes(user)
  const reader = memberFacts.of(server).get(user)
  return Boolean(reader) && new Access(server, channel, reader!, now).sees("messages.read")
}

/** The poll with its message, for a user who may read that message. */
function visible(
  server: Server,
  channel: Snowflake,
  { user, message_id, poll_id, author }: ByPoll,
  now: number,
): { found: Known; poll: Readonly<PollState> } {
  const found = messageFacts.of(server).get(messageKey(channel, message_id))
  if (!found || found.poll?.id !== poll_id || !mayRead(server, channel, user, now)) throw fail("poll_not_found")
  return { found: withAuthor(found, author), poll: found.poll }
}

const voteOf = (server: Server, { poll_id, user }: ByPoll): readonly Snowflake[] =>
  pollVoteFacts.of(server).get(voteKey(poll_id, user)) ?? []

/** The effects of a change of the poll in its message. */
function change({ home: server, now, linkTo }: Context, found: Known, poll: PollState | null) {
  const changed = { ...found, poll } as MessageState
  return {
    apply: (draft: ServerState) => keep(draft, changed),
    write: [setPoll({ channel_id: found.channel_id, id: found.id, poll })],
    publish: toViewers(server, found.channel_id, messageUpdate, messageObject(changed, { linkTo, now, reader: null })),
  }
}

function ending(context: Context, found: Known, poll: Readonly<PollState>, ended_at: number) {
  const { apply, write, publish } = change(context, found, { ...poll, ended_at })
  return { apply, write: [...write, endPoll({ id: poll.id })], publish }
}

const ended = (poll: Readonly<PollState>, ended_at: number, message_id: Snowflake, now: number): Poll =>
  pollObject({ ...poll, ended_at }, message_id, now)
