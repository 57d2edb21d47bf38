import { messageKey, nonceKey } from "../storage/messages.ts"
import { reactorKey } from "../storage/reactions.ts"
import { voteKey } from "../storage/polls.ts"
import type {
  BanState,
  EmojiState,
  FileState,
  InviteState,
  MemberState,
  MessageState,
  PinsState,
  SentState,
  ServerState,
  StickerPackState,
  TimeoutState,
  WebhookState,
} from "../domain/states.ts"
import { recentPost, type RecentPost } from "../domain/automod-spam.ts"
import { bytesOfReader, readersOf, type AckRange, type Readers, type ReadState } from "../domain/read-state.ts"
import { firstIdAt, msOf } from "../domain/snowflake.ts"
import { limits } from "../contract/limits.ts"
import type { Snowflake } from "../contract/fields.ts"
import { pairFacts } from "./direct-privacy.ts"
import { sentOf } from "./kept-messages.ts"
import { readMessages } from "./renames.ts"
import { needOf, type Need, type NeedKind } from "./runtime/actor.ts"
import { tailFacts } from "./tails.ts"

/** Facts that commands of a server's home can ask for. */

const memberFacts: NeedKind<ServerState, MemberState> = {
  name: "member",
  keep: 5_000,
  map: home => home.members,
  // Outside servers who takes part is known, and is no member.
  load: (storage, server, users, { participants }) =>
    participants === null ? storage.servers.members(server, users) : Promise.resolve(new Map()),
}

const banFacts: NeedKind<ServerState, BanState> = {
  name: "ban",
  keep: 100,
  map: home => home.bans,
  load: (storage, server, users) => storage.bans.find(server, users),
}

const inviteFacts: NeedKind<ServerState, InviteState> = {
  name: "invite",
  keep: 100,
  map: home => home.invites,
  load: (storage, server, codes) => storage.invites.ofServer(server, codes),
}

const leftTimeoutFacts: NeedKind<ServerState, TimeoutState> = {
  name: "leftTimeout",
  keep: 100,
  map: home => home.leftTimeouts,
  load: (storage, server, users) => storage.guildMembers.leftTimeouts(server, users),
}

const inviteCounts: NeedKind<ServerState, number> = {
  name: "inviteCount",
  keep: 1,
  map: home => home.inviteCount,
  load: async (storage, server) => new Map([["", await storage.invites.count(server)]]),
}

const messageFacts: NeedKind<ServerState, MessageState> = {
  name: "message",
  keep: 200,
  keepBytes: 2 * 1024 * 1024,
  map: home => home.messages,
  bytes: home => home.messages.bytes,
  async load(storage, _server, keys, home) {
    const found = new Map<string, MessageState>()
    for (const [channel, ids] of byChannel(keys))
      await readMessages(
        home,
        () => storage.messages.find(channel, ids),
        (rows, renames) => {
          for (const [id, row] of rows) {
            const [key, state] = [messageKey(channel, id), { ...row, ...renames.get(row.author_id) }]
            found.set(key, state)
            // A turn may have made it known meanwhile; the turn is right.
            if (!home.messages.has(key)) home.messages.set(key, state)
          }
        },
      )
    return found
  },
}
export const message = (channel: Snowflake, id: Snowflake): Need<ServerState> =>
  needOf(messageFacts)(messageKey(channel, id))

const reactorFacts: NeedKind<ServerState, true> = {
  name: "reactor",
  keep: 1_000,
  map: home => home.reactors,
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
}
export const reactor = (channel: Snowflake, id: Snowflake, user: Snowflake, emoji: string): Need<ServerState> =>
  needOf(reactorFacts)(reactorKey(channel, id, user, emoji))

const pinFacts: NeedKind<ServerState, PinsState> = {
  name: "pins",
  keep: 100,
  map: home => home.pins,
  async load(storage, _server, channels) {
    const found = new Map<string, PinsState>()
    for (const channel of channels) found.set(channel, await storage.messages.pins(channel))
    return found
  },
}
export const pins = needOf(pinFacts)

export const readStateKey = (channel: Snowflake, user: Snowflake) => `${channel}:${user}`
const readStateFacts: NeedKind<ServerState, ReadState> = {
  name: "readState",
  keep: 5_000,
  map: home => home.readStates,
  async load(storage, _server, keys) {
    const found = new Map<string, ReadState>()
    for (const [channel, users] of byChannel(keys))
      for (const [user, state] of await storage.readState.states(channel, users))
        found.set(readStateKey(channel, user), state)
    return found
  },
}
export const readState = (channel: Snowflake, user: Snowflake): Need<ServerState> =>
  needOf(readStateFacts)(readStateKey(channel, user))

export const ackRangeKey = (channel: Snowflake, user: Snowflake, after: Snowflake, upto: Snowflake) =>
  `${channel}:${user}:${after}:${upto}`
const ackRangeFacts: NeedKind<ServerState, AckRange> = {
  name: "ackRange",
  keep: 100,
  map: home => home.ackRanges,
  async load(storage, _server, keys) {
    const found = new Map<string, AckRange>()
    for (const key of keys) {
      const [channel, user, after, upto] = key.split(":")
      found.set(key, await storage.readState.range(channel!, user!, { after: after!, upto: upto! }))
    }
    return found
  },
}
export const ackRange = (...of: Parameters<typeof ackRangeKey>): Need<ServerState> =>
  needOf(ackRangeFacts)(ackRangeKey(...of))

/** Those of some 100,000 people, whatever the number of channels. */
const readersFacts: NeedKind<ServerState, Readers> = {
  name: "readers",
  keep: 100,
  keepBytes: 100_000 * bytesOfReader,
  map: home => home.readers,
  // One channel is kept though it has more, or each page would load it.
  bytes: home => (home.readers.size > 1 ? home.readers.bytes : 0),
  async load(storage, _server, channels) {
    const found = new Map<string, Readers>()
    for (const channel of channels) found.set(channel, readersOf(await storage.readState.readers(channel)))
    return found
  },
}
export const readers = needOf(readersFacts)

const nonceFacts: NeedKind<ServerState, SentState> = {
  name: "nonce",
  keep: 1_000,
  keepBytes: 1024 * 1024,
  map: home => home.nonces,
  bytes: home => home.nonces.bytes,
  async load(storage, _server, keys) {
    const found = await storage.messages.byNonces(
      keys.map(key => {
        const [channel, author, ...rest] = key.split(":")
        return { channel: channel!, author: author!, nonce: rest.join(":") }
      }),
    )
    return new Map([...found].map(([key, state]) => [key, sentOf(state)]))
  },
}
export const nonce = (channel: Snowflake, author: Snowflake, value: string): Need<ServerState> =>
  needOf(nonceFacts)(nonceKey(channel, author, value))

const pollVoteFacts: NeedKind<ServerState, readonly Snowflake[]> = {
  name: "pollVote",
  keep: 1_000,
  map: home => home.pollVotes,
  load: (storage, _server, keys) =>
    storage.polls.votes(
      keys.map(key => {
        const [poll, user] = key.split(":")
        return { poll: poll!, user: user! }
      }),
    ),
}
export const pollVote = (poll: Snowflake, user: Snowflake): Need<ServerState> =>
  needOf(pollVoteFacts)(voteKey(poll, user))

export const lastPostKey = (channel: Snowflake, author: Snowflake) => `${channel}:${author}`
const lastPostFacts: NeedKind<ServerState, number> = {
  name: "lastPost",
  keep: 1_000,
  map: home => home.lastPosts,
  async load(storage, _server, keys, _home, now) {
    const found = new Map<string, number>()
    // Slow mode looks back six hours at most. The database's own clock plays no part: ids carry the time.
    const since = firstIdAt(now - limits.slowmodeSeconds * 1000)
    for (const [channel, authors] of byChannel(keys))
      for (const [author, id] of await storage.messages.lastPosts(channel, authors, since))
        found.set(lastPostKey(channel, author), msOf(id))
    return found
  },
}
export const lastPost = (channel: Snowflake, author: Snowflake): Need<ServerState> =>
  needOf(lastPostFacts)(lastPostKey(channel, author))

const recentPostsFacts: NeedKind<ServerState, readonly RecentPost[]> = {
  name: "recentPosts",
  keep: 1_000,
  map: home => home.recentPosts,
  async load(storage, _server, keys, _home, now) {
    const found = new Map<string, RecentPost[]>()
    const since = firstIdAt(now - limits.automod.windowSeconds * 1000)
    for (const [channel, authors] of byChannel(keys))
      for (const { author_id, id, content } of await storage.automod.recentPosts(
        channel,
        authors,
        since,
        limits.automod.postsRemembered,
      )) {
        const key = lastPostKey(channel, author_id)
        const post = recentPost(id, msOf(id), content)
        const posts = found.get(key)
        if (posts) posts.push(post)
        else found.set(key, [post])
      }
    return found
  },
}
export const recentPosts = (channel: Snowflake, author: Snowflake): Need<ServerState> =>
  needOf(recentPostsFacts)(lastPostKey(channel, author))

export const member = needOf(memberFacts)
export const ban = needOf(banFacts)
export const invite = needOf(inviteFacts)
export const leftTimeout = needOf(leftTimeoutFacts)
export const inviteCount = needOf(inviteCounts)("")

/** A server has few: they are loaded all at once, under one key. */
const webhookFacts: NeedKind<ServerState, readonly WebhookState[]> = {
  name: "webhooks",
  keep: 1,
  map: home => home.webhooks,
  load: async (storage, server) => new Map([[allWebhooksKey, await storage.webhooks.ofServer(server)]]),
}
export const allWebhooksKey = "all"
export const allWebhooks = needOf(webhookFacts)(allWebhooksKey)

/** The same is so of these. */
const emojiFacts: NeedKind<ServerState, readonly EmojiState[]> = {
  name: "emojis",
  keep: 1,
  map: home => home.emojis,
  load: async (storage, server) => new Map([[allEmojisKey, await storage.emojis.ofServer(server)]]),
}
export const allEmojisKey = "all"
export const allEmojis = needOf(emojiFacts)(allEmojisKey)

const stickerFacts: NeedKind<ServerState, readonly StickerPackState[]> = {
  name: "stickerPacks",
  keep: 1,
  map: home => home.stickerPacks,
  load: async (storage, server) => new Map([[allStickerPacksKey, await storage.stickers.packs(server)]]),
}
export const allStickerPacksKey = "all"
export const allStickerPacks = needOf(stickerFacts)(allStickerPacksKey)

const iconFacts: NeedKind<ServerState, FileState> = {
  name: "icon",
  keep: 1,
  map: home => home.icons,
  async load(storage, server) {
    const icon = await storage.icons.find(server)
    return new Map(icon && [[iconKey, icon]])
  },
}
export const iconKey = "icon"
export const serverIcon = needOf(iconFacts)(iconKey)

/** All of them: a server's home forgets the oldest when it holds too many. */
export const serverFacts: readonly NeedKind<ServerState, unknown>[] = [
  memberFacts,
  banFacts,
  inviteFacts,
  inviteCounts,
  leftTimeoutFacts,
  messageFacts,
  tailFacts,
  reactorFacts,
  pinFacts,
  readStateFacts,
  ackRangeFacts,
  readersFacts,
  nonceFacts,
  pollVoteFacts,
  lastPostFacts,
  recentPostsFacts,
  webhookFacts,
  emojiFacts,
  stickerFacts,
  iconFacts,
  pairFacts,
]

function byChannel(keys: readonly string[]): Map<Snowflake, Snowflake[]> {
  const grouped = new Map<Snowflake, Snowflake[]>()
  for (const key of keys) {
    const [channel, id] = key.split(":")
    const ids = grouped.get(channel!)
    if (ids) ids.push(id!)
    else grouped.set(channel!, [id!])
  }
  return grouped
}
