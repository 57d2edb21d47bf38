import { messageKey, nonceKey } from "../storage/messages.ts"
import type {
  BanState,
  EmojiState,
  FileState,
  InviteState,
  MemberState,
  MessageState,
  ServerState,
  StickerPackState,
  TimeoutState,
  WebhookState,
} from "../domain/states.ts"
import { recentPost, type RecentPost } from "../domain/automod-spam.ts"
import { firstIdAt, msOf } from "../domain/snowflake.ts"
import { limits } from "../contract/limits.ts"
import type { Snowflake } from "../contract/fields.ts"
import { needOf, type Need, type NeedKind } from "./runtime/actor.ts"

/** Facts that commands of a server's home can ask for. */

const memberFacts: NeedKind<ServerState, MemberState> = {
  name: "member",
  keep: 5_000,
  map: home => home.members,
  load: (storage, server, users) => storage.servers.members(server, users),
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
  map: home => home.messages,
  async load(storage, _server, keys) {
    const found = new Map<string, MessageState>()
    for (const [channel, ids] of byChannel(keys))
      for (const [id, state] of await storage.messages.find(channel, ids)) found.set(messageKey(channel, id), state)
    return found
  },
}
export const message = (channel: Snowflake, id: Snowflake): Need<ServerState> =>
  needOf(messageFacts)(messageKey(channel, id))

const nonceFacts: NeedKind<ServerState, MessageState> = {
  name: "nonce",
  keep: 1_000,
  map: home => home.nonces,
  load: (storage, _server, keys) =>
    storage.messages.byNonces(
      keys.map(key => {
        const [channel, author, ...rest] = key.split(":")
        return { channel: channel!, author: author!, nonce: rest.join(":") }
      }),
    ),
}
export const nonce = (channel: Snowflake, author: Snowflake, value: string): Need<ServerState> =>
  needOf(nonceFacts)(nonceKey(channel, author, value))

export const lastPostKey = (channel: Snowflake, author: Snowflake) => `${channel}:${author}`
const lastPostFacts: NeedKind<ServerState, number> = {
  name: "lastPost",
  keep: 1_000,
  map: home => home.lastPosts,
  async load(storage, _server, keys) {
    const found = new Map<string, number>()
    // Slow mode looks back six hours at most. The database's own clock plays no part: ids carry the time.
    const since = firstIdAt(Date.now() - limits.slowmodeSeconds * 1000)
    for (const key of keys) {
      const [channel, author] = key.split(":")
      const id = await storage.messages.lastPost(channel!, author!, since)
      if (id !== undefined) found.set(key, msOf(id))
    }
    return found
  },
}
export const lastPost = (channel: Snowflake, author: Snowflake): Need<ServerState> =>
  needOf(lastPostFacts)(lastPostKey(channel, author))

const recentPostsFacts: NeedKind<ServerState, readonly RecentPost[]> = {
  name: "recentPosts",
  keep: 1_000,
  map: home => home.recentPosts,
  async load(storage, _server, keys) {
    const found = new Map<string, readonly RecentPost[]>()
    const since = firstIdAt(Date.now() - limits.automod.windowSeconds * 1000)
    for (const key of keys) {
      const [channel, author] = key.split(":")
      const posts = await storage.automod.recentPosts(channel!, author!, since, limits.automod.postsRemembered)
      if (posts.length > 0)
        found.set(
          key,
          posts.map(({ id, content }) => recentPost(id, msOf(id), content)),
        )
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
  nonceFacts,
  lastPostFacts,
  recentPostsFacts,
  webhookFacts,
  emojiFacts,
  stickerFacts,
  iconFacts,
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
