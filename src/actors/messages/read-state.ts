import { fail } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { limits } from "../../contract/core/limits.ts"
import { notificationUpdate } from "../../contract/accounts/notifications.ts"
import { messageAck } from "../../contract/messages/read-state.ts"
import { userOnly } from "../../domain/core/audience.ts"
import { holdsMessages, type ChannelState } from "../../domain/core/channels.ts"
import {
  beginningOf,
  countReaders,
  noteReader,
  orderOf,
  readerOf,
  readersOf,
  readOn,
  readUpTo,
  someReaders,
  type LoadedReaders,
  type Readers,
  bytesOfReader,
  loadedReaders,
  type AckRange,
  type ReadState,
} from "../../domain/messages/read-state.ts"
import { holderRule, isHeldByAll } from "../../domain/core/holder-rule.ts"
import { compareIds } from "../../domain/core/snowflake.ts"
import type { ServerState } from "../../domain/communities/servers.ts"
import type { UserState } from "../../domain/accounts/user-state.ts"
import { markNotificationsRead } from "../../storage/accounts/notifications.ts"
import { putReadState, stretch, tallyMessages } from "../../storage/messages/read-state.ts"
import type { Write } from "../../storage/core/write.ts"
import { accessOf, mayView } from "../shared/access.ts"
import { isShut, pair } from "../social/direct-privacy.ts"
import { member, memberFacts } from "../shared/member-facts.ts"
import { byChannel } from "./message-facts.ts"
import type { Readonlied } from "../../domain/core/readonlied.ts"
import { defineMemory, type Need } from "../../runtime/facts.ts"
import { defineFact } from "../shared/facts.ts"
import type { ActorKind, Effects, Publication } from "../../runtime/actor.ts"
import { tellsOf } from "../shared/tells.ts"
import { toUser } from "../shared/relay.ts"
import { toViewers } from "./viewers.ts"
import { notificationFacts } from "../accounts/notifications.ts"
import { setNewest } from "../../std/bounded-map.ts"

/**
 * How far people have read a channel, among its commands. They keep:
 *   READ1  A position never goes back.
 *   READ2  A message is marked as read once: concurrent acknowledgements count only what the
 *       others have not.
 *   READ3  Others see no read state of users who hide it, and none in channels that hide it.
 */
export interface ReadStateCommands {
  /**
   * Everything up to a message is read; without one (the channel has none) only the permission is
   * checked. `isNewest`: the route has looked it up, so it existed. `isBulk`: one of many, which
   * others are not told about. @returns `retellMs`: after so many milliseconds somebody has to ask
   * for `tellAck`
   */
  ackMessages(input: {
    user: Snowflake
    message_id?: Snowflake | undefined
    isNewest?: boolean
    isShown: boolean
    isBulk?: boolean
  }): { marked: number; retellMs?: number }
  /** Counts messages that were sent before messages were counted, some thousands at a time. */
  countMessages(input: object): void
  /**
   * Tells others how far a user has read, where that was delayed; `isShown`: the user still shows
   * it.
   */
  tellAck(input: { user: Snowflake; isShown: boolean }): { notified: boolean }
}

/**
 * Who has read messages, in the order of the question. It is part of every page, so its names are
 * short.
 */
export interface ReadMarks {
  /** How many other users have read each message. */
  readonly counts: readonly number[]
  /** The caller has read everything up to here, and what they wrote. */
  readonly upTo: Snowflake
  /**
   * The caller's own messages that somebody has read: the index of the message, and indexes in
   * `readers`.
   */
  readonly named: readonly (readonly [message: number, readers: readonly number[]])[]
  readonly readers: readonly Snowflake[]
  /** The channel shows nobody who has read or received anything. */
  readonly isHidden?: true
}

/** Others are told at most once in so many milliseconds how far somebody has read a channel. */
const tellingPauseMs = 1_000
/** How many acknowledgements a home remembers as told. */
const maxNotified = 1_000
/** How long a count of a channel's viewers is valid. */
const viewersCountedForMs = 60_000
const nobody: Readers = readersOf(new Map())

const readStateKey = (channel: Snowflake, user: Snowflake) => `${channel}:${user}`
/** By channel and user; null: they never said how far they have read. */
const readStateFacts = defineFact<ServerState, ReadState>({
  keep: 5_000,
  async load(storage, _server, keys) {
    const found = new Map<string, ReadState>()
    for (const [channel, users] of byChannel(keys))
      for (const [user, state] of await storage.readState.states(channel, users))
        found.set(readStateKey(channel, user), state)
    return found
  },
})
const readState = (channel: Snowflake, user: Snowflake): Need<ServerState> =>
  readStateFacts.need(readStateKey(channel, user))
const ackRangeKey = (channel: Snowflake, user: Snowflake, after: Snowflake, upto: Snowflake) =>
  `${channel}:${user}:${after}:${upto}`
/** What the acknowledgements that are about to be carried out mark as read. */
const ackRangeFacts = defineFact<ServerState, AckRange>({
  keep: 100,
  async load(storage, _server, keys) {
    const found = new Map<string, AckRange>()
    for (const key of keys) {
      const [channel, user, after, upto] = key.split(":")
      found.set(key, await storage.readState.range(channel!, user!, { after: after!, upto: upto! }))
    }
    return found
  },
})
const ackRange = (...of: Parameters<typeof ackRangeKey>): Need<ServerState> => ackRangeFacts.need(ackRangeKey(...of))
/** Others are told how far somebody has read in channels of at most this many viewers. */
const maxViewersTold = 100

/** The count stops where the answer is known. `at`: Unix milliseconds. */
interface ViewerCount {
  readonly count: number
  readonly at: number
}

/**
 * How many may view a channel that not every member may. A count is valid for a while: the user of
 * an old one removes it, so that the next command counts again.
 */
const viewerCountFacts = defineFact<ServerState, ViewerCount>({
  keep: 200,
  async load(storage, server, channels, home, now) {
    const found = new Map<Snowflake, ViewerCount>()
    for (const channel of channels) {
      const rule = holderRule(home, home.overrides.get(channel) ?? [], "channels.view")
      const count = await storage.guildMembers.countHolders(server, rule, maxViewersTold + 1)
      found.set(channel, { count, at: now })
    }
    return found
  },
})

/** By channel: those of some 100,000 people, whatever the number of channels. */
const readersFacts = defineFact<ServerState, LoadedReaders | Readers>({
  keep: 100,
  keepBytes: 100_000 * bytesOfReader,
  sizeOf: ({ byUser }) => byUser.size * bytesOfReader,
  changing: true,
  async load(storage, _server, channels) {
    const found = new Map<string, LoadedReaders>()
    for (const channel of channels) found.set(channel, loadedReaders(await storage.readState.readers(channel)))
    return found
  },
})
const readers = (channel: Snowflake): Need<ServerState> => readersFacts.need(channel)

/**
 * When others were last told how far a user has read, and what they have not been told yet. By
 * `readStateKey`, the latest last.
 */
const notifiedAcks = defineMemory<ServerState, Map<string, { readonly at: number; readonly waiting?: Snowflake }>>(
  () => new Map(),
)

export const readStateCommands: ActorKind<ServerState, ChannelState, ReadStateCommands>["commands"] = {
  ackMessages: {
    needs({ user, message_id }, { id, state: channel, home }) {
      const needed = [member(user), ...pair(home), ...viewersNeeded(home, id), readState(id, user)]
      const beginning = beginningFor(home, user)
      const state = readStateFacts.of(home).get(readStateKey(id, user))
      // Nothing is counted for a caller who is about to be refused.
      if (message_id === undefined || beginning === undefined || state === undefined || !isReader(home, channel, user))
        return needed
      return [...needed, ackRange(id, user, readUpTo(state, beginning), message_id)]
    },
    turn(
      { state: channel, home: server, now },
      { user, message_id, isNewest = false, isShown: isOwnShown, isBulk = false },
    ) {
      requireReader(server, channel, user, now)
      if (message_id === undefined || !holdsMessages(channel)) return { reply: { marked: 0 } }
      const beginning = beginningFor(server, user)!
      const key = readStateKey(channel.id, user)
      const before = readStateFacts.of(server).get(key)
      const after = readUpTo(before, beginning)
      const counted = ackRangeKey(channel.id, user, after, message_id)
      const { isThere, marked, hasMentions } = ackRangeFacts.of(server).get(counted)!
      if (!isThere && !isNewest) throw fail("message_not_found")
      const forgetCount = (draft: ServerState) => void ackRangeFacts.of(draft).delete(counted)
      if (compareIds(message_id, after) <= 0) return { remember: forgetCount, reply: { marked: 0 } } // READ1

      const isShown = isOwnShown && channel.read_receipts_enabled && !isShut(server) // READ3
      const state = readOn(before, beginning, { message_id, isShown })
      const telling =
        marked > 0 && isShown && !isBulk && isToldToOthers(server, channel.id)
          ? whenNotified(server, key, now)
          : undefined
      return {
        remember: draft => {
          forgetOldCount(draft, channel.id, now)
          forgetCount(draft) // READ2: asked again, it is counted anew.
          if (telling)
            noteNotified(draft, key, telling === "now" ? { at: now } : { at: telling.since, waiting: message_id })
        },
        apply: draft => {
          readStateFacts.of(draft).set(key, state)
          const known = readersFacts.of(draft).get(channel.id)
          const reader = readerOf(user, state)
          if (!known || !reader) return
          noteReader(known, reader)
          readersFacts.of(draft).set(channel.id, known)
        },
        write: [
          putReadState({ channel_id: channel.id, user_id: user, ...state }),
          // Among so many unread messages may be some that were sent before messages were counted.
          ...(marked > 4 * stretch ? [tallyMessages({ channel_id: channel.id })] : []),
        ],
        publish: [
          ...(marked > 0 ? [toHimself(channel.id, user, message_id)] : []),
          ...(hasMentions ? [mentionsRead(channel.id, user, message_id)] : []),
          ...(telling === "now" ? toOthers(server, channel.id, user, message_id) : []),
        ],
        reply: { marked, ...(typeof telling === "object" && telling.isFirst && { retellMs: telling.retellMs }) },
      }
    },
  },

  countMessages: {
    turn: ({ state: channel }) => ({ write: [tallyMessages({ channel_id: channel.id })], reply: undefined }),
  },

  tellAck: {
    needs: ({ user }, { id, home }) => [member(user), ...pair(home), ...viewersNeeded(home, id), readState(id, user)],
    turn({ state: channel, home: server, now }, { user, isShown }) {
      const key = readStateKey(channel.id, user)
      const waiting = notifiedAcks.of(server).get(key)?.waiting
      if (waiting === undefined) return { reply: { notified: false } }
      const isNotified =
        isShown &&
        channel.read_receipts_enabled &&
        isReader(server, channel, user) &&
        isToldToOthers(server, channel.id)
      return {
        remember: draft => noteNotified(draft, key, { at: now }),
        publish: isNotified ? toOthers(server, channel.id, user, waiting) : [],
        reply: { notified: isNotified },
      }
    },
  },
}

/** The messages of which a user asks who has read them. */
export type Unmarked = readonly { readonly id: Snowflake; readonly author_id: Snowflake }[]

/** The facts that `readMarks` needs, for a caller who may read the channel. */
export const readMarkNeeds = (home: Readonlied<ServerState>, channel: Readonlied<ChannelState>, user: Snowflake) =>
  isReader(home, channel, user)
    ? [readState(channel.id, user), ...(channel.read_receipts_enabled ? [readers(channel.id)] : [])]
    : []

/** Who has read messages, as somebody who may read the channel sees it. */
export function readMarks(
  home: Readonlied<ServerState>,
  channel: Readonlied<ChannelState>,
  user: Snowflake,
  messages: Unmarked,
): Pick<Effects<ServerState, ReadMarks>, "remember" | "reply"> {
  const upTo = readUpTo(readStateFacts.of(home).get(readStateKey(channel.id, user)), beginningFor(home, user)!)
  const loaded = channel.read_receipts_enabled ? readersFacts.of(home).get(channel.id)! : nobody // READ3
  const renewed = loaded.ordered ? undefined : upToDate(home, channel.id, loaded)
  const current = loaded.ordered ? loaded : renewed!
  const places = new Map<Snowflake, number>()
  const placeIn = (reader: Snowflake): number => {
    if (!places.has(reader)) places.set(reader, places.size)
    return places.get(reader)!
  }
  const counts = messages.map(({ id, author_id }) => countReaders(current, id, author_id))
  const named = messages.flatMap(({ id, author_id }, i) =>
    author_id === user && counts[i]! > 0
      ? [[i, someReaders(current, id, author_id, limits.readersNamed).map(placeIn)] as const]
      : [],
  )
  return {
    remember: draft => {
      const known = channel.read_receipts_enabled && readersFacts.of(draft).get(channel.id)
      if (!known) return
      const kept = renewed ?? known
      // The one that was used last is forgotten last.
      readersFacts.of(draft).delete(channel.id)
      readersFacts.of(draft).set(channel.id, kept)
    },
    reply: {
      counts,
      upTo,
      named,
      readers: [...places.keys()],
      ...(!channel.read_receipts_enabled && { isHidden: true as const }),
    },
  }
}

/**
 * Counts the channel's messages after about every 1,024th message. Which one follows from its id,
 * so nobody keeps a counter. If it were more often, most large batches would become transactions;
 * without it they are one statement.
 */
export const tallyAfter = (channel: Snowflake, message: Snowflake): Write[] =>
  Math.imul(orderOf(message) % 2 ** 32, 0x9e3779b1) >>> 22 === 0 ? [tallyMessages({ channel_id: channel })] : []

/** Where a user's reading begins; undefined: they are not a member, or not known yet. */
function beginningFor(home: Readonlied<ServerState>, user: Snowflake): Snowflake | undefined {
  if (home.participants !== null) return home.participants.includes(user) ? "0" : undefined
  const found = memberFacts.of(home).get(user)
  return found ? beginningOf(found) : undefined
}

function requireReader(home: Readonlied<ServerState>, channel: Readonlied<ChannelState>, user: Snowflake, now: number) {
  accessOf(home, channel.id, user, now).require("messages.read")
}

/** The number of viewers, as far as it is known. */
function isReader(home: Readonlied<ServerState>, channel: Readonlied<ChannelState>, user: Snowflake): boolean {
  if (home.participants !== null) return home.participants.includes(user)
  const found = memberFacts.of(home).get(user)
  return Boolean(found) && mayView(home, channel.id, found!)
}

/**
 * Whether the number of viewers is known without counting: the server has few members, or all of
 * them may view the channel.
 */
const isCounted = (home: Readonlied<ServerState>, channel: Snowflake): boolean =>
  home.member_count <= maxViewersTold || isHeldByAll(home, home.overrides.get(channel) ?? [], "channels.view")

/**
 * The facts that decide whether others are told how far a user has read. In a DM these are the
 * facts of `pair`.
 */
const viewersNeeded = (home: Readonlied<ServerState>, channel: Snowflake): Need<ServerState>[] =>
  home.participants !== null || isCounted(home, channel) ? [] : [viewerCountFacts.need(channel)]

function isToldToOthers(home: Readonlied<ServerState>, channel: Snowflake): boolean {
  if (home.participants !== null) return !isShut(home)
  if (isCounted(home, channel)) return home.member_count <= maxViewersTold
  const known = viewerCountFacts.of(home).get(channel)
  // Unknown: the permissions have changed since the count was asked for.
  return known ? known.count <= maxViewersTold : false
}

/** An old count, or one from before the clock was set back, is renewed by the next caller. */
function forgetOldCount(draft: ServerState, channel: Snowflake, now: number): void {
  const at = viewerCountFacts.of(draft).get(channel)?.at
  if (at !== undefined && (at > now || now - at > viewersCountedForMs)) viewerCountFacts.of(draft).delete(channel)
}

/**
 * What was loaded may lack acknowledgements that the home has decided since. The home remembers all
 * that were not committed at that time.
 */
function upToDate(home: Readonlied<ServerState>, channel: Snowflake, loaded: Readonlied<LoadedReaders>): Readers {
  const current = new Map(loaded.byUser)
  for (const [key, state] of readStateFacts.of(home)) {
    if (!state || !key.startsWith(`${channel}:`)) continue
    const reader = readerOf(key.slice(channel.length + 1), state)
    if (reader) current.set(reader.user, reader)
  }
  return readersOf(current)
}

/**
 * Whether the others are told at once, or when the caller has to ask for it. The first
 * acknowledgement within a pause asks.
 */
function whenNotified(home: Readonlied<ServerState>, key: string, now: number) {
  const told = notifiedAcks.of(home).get(key)
  // If nobody asks in time it is told with the next acknowledgement. A clock that was set back
  // decides nothing.
  if (!told || told.at > now || now - told.at >= tellingPauseMs) return "now"
  return { since: told.at, isFirst: told.waiting === undefined, retellMs: told.at + tellingPauseMs - now }
}

function noteNotified(draft: ServerState, key: string, told: { at: number; waiting?: Snowflake }): void {
  setNewest(notifiedAcks.of(draft), key, told, maxNotified)
}

const ackOf = (channel_id: Snowflake, user_id: Snowflake, message_id: Snowflake) => ({
  channel_id,
  user_id,
  message_id,
})

const toOthers = (
  home: Readonlied<ServerState>,
  channel: Snowflake,
  user: Snowflake,
  message: Snowflake,
): Publication[] => toViewers(home, channel, messageAck, ackOf(channel, user, message), { except: [user] })

const toHimself = (channel: Snowflake, user: Snowflake, message: Snowflake): Publication =>
  toUser(user, messageAck, ackOf(channel, user, message))

const mentionsRead = (channel_id: Snowflake, user: Snowflake, upto: Snowflake): Publication =>
  tellsOf<ReadMentionCommands>("user")(user, { type: "readMentions", channel_id, upto })

/** What an acknowledgement changes in the reader's own home. */
export interface ReadMentionCommands {
  /**
   * Notifications of mentions in a channel, up to a message that the user has read, become read.
   */
  readMentions(input: { channel_id: Snowflake; upto: Snowflake }): void
}

/** Up to this many notifications that are read together are told one by one, more in one event. */
const maxSingleUpdates = 25

const mentionsKey = (channel: Snowflake, upto: Snowflake) => `${channel}:${upto}`
export const mentionFacts = defineFact<UserState, readonly Snowflake[]>({
  keep: 10,
  async load(storage, user, keys) {
    const found = new Map<string, readonly Snowflake[]>()
    for (const key of keys) {
      const [channel, upto] = key.split(":")
      found.set(key, await storage.notifications.unreadIn(user, channel!, upto!))
    }
    return found
  },
})

export const readMentionCommands: ActorKind<UserState, UserState, ReadMentionCommands>["commands"] = {
  readMentions: {
    needs: ({ channel_id, upto }) => [mentionFacts.need(mentionsKey(channel_id, upto))],
    turn({ state: user }, { channel_id, upto }) {
      const key = mentionsKey(channel_id, upto)
      const unread = (mentionFacts.of(user).get(key) ?? []).filter(id => !notificationFacts.of(user).get(id)?.read)
      if (unread.length === 0) return { remember: draft => void mentionFacts.of(draft).delete(key), reply: undefined }
      return {
        remember: draft => void mentionFacts.of(draft).delete(key),
        apply: draft => {
          for (const id of unread) notificationFacts.of(draft).set(id, { read: true })
        },
        write: [markNotificationsRead({ ids: unread })],
        publish:
          unread.length > maxSingleUpdates
            ? [notificationUpdate.to(userOnly(user.id), { ids: unread, read: true })]
            : unread.map(id => notificationUpdate.to(userOnly(user.id), { id, read: true })),
        reply: undefined,
      }
    },
  },
}
