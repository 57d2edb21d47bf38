import { messageKey, nonceKey } from "../storage/messages.ts"
import type { BanState, InviteState, MemberState, MessageState, ServerState } from "../domain/states.ts"
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

export const member = needOf(memberFacts)
export const ban = needOf(banFacts)
export const invite = needOf(inviteFacts)

/** All of them: a server's home forgets the oldest when it holds too many. */
export const serverFacts: readonly NeedKind<ServerState, unknown>[] = [
  memberFacts,
  banFacts,
  inviteFacts,
  messageFacts,
  nonceFacts,
  lastPostFacts,
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
