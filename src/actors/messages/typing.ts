import { typingStart, typingStop } from "../../contract/communities/channels.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { holdsMessages, type ChannelState } from "../../domain/core/channels.ts"
import type { ServerState } from "../../domain/communities/servers.ts"
import type { Actor } from "../../domain/accounts/accounts.ts"
import { accessOf } from "../shared/access.ts"
import type { ChannelDeletion } from "../communities/channel-settings.ts"
import { isShut, pair } from "../social/direct-privacy.ts"
import { member } from "../shared/member-facts.ts"
import type { Readonlied } from "../../domain/core/readonlied.ts"
import type { ActorKind } from "../../runtime/actor.ts"
import { inServer, toViewers } from "./viewers.ts"
import { setNewest } from "../../std/bounded-map.ts"
import { defineMemory } from "../../runtime/facts.ts"

/** Who types in a channel, among its commands. */
export interface TypingCommands {
  /** `hidden`: others are not to see it. */
  startTyping(input: { user: Actor; hidden?: boolean }): { notified: boolean }
  /** Takes back what was said no longer than `timeoutMs` ago. */
  stopTyping(input: { user: Snowflake; timeoutMs: number }): { notified: boolean }
}

/**
 * `channel user` of those who type, with when they last said so, in Unix milliseconds; the latest
 * last.
 */
const typing = defineMemory<ServerState, Map<string, number>>(() => new Map())

export const typingCommands: ActorKind<ServerState, ChannelState, TypingCommands>["commands"] = {
  startTyping: {
    needs: ({ user }, { home }) => [member(user.id), ...pair(home)],
    turn({ state: channel, home: server, now }, { user, hidden = false }) {
      accessOf(server, channel.id, user.id, now)
      if (!holdsMessages(channel) || isShut(server)) return { reply: { notified: false } }
      if (hidden || msSinceTyped(server, channel.id, user.id, now) < typingPauseMs)
        return { reply: { notified: false } }
      return {
        remember: draft => {
          setNewest(typing.of(draft), typingKey(channel.id, user.id), now, maxTyping)
        },
        publish: toViewers(
          server,
          channel.id,
          typingStart,
          { channel_id: channel.id, user_id: user.id, username: user.username, ...inServer(server) },
          { except: [user.id] },
        ),
        reply: { notified: true },
      }
    },
  },

  stopTyping: {
    needs: ({ user }, { home }) => [member(user), ...pair(home)],
    turn({ state: channel, home: server, now }, { user, timeoutMs }) {
      accessOf(server, channel.id, user, now)
      if (isShut(server) || msSinceTyped(server, channel.id, user, now) > timeoutMs)
        return { reply: { notified: false } }
      return {
        remember: draft => {
          typing.of(draft).delete(typingKey(channel.id, user))
        },
        publish: toViewers(
          server,
          channel.id,
          typingStop,
          { channel_id: channel.id, user_id: user, ...inServer(server) },
          { except: [user] },
        ),
        reply: { notified: true },
      }
    },
  },
}

/**
 * Milliseconds in which a repeated start is not told again; how many who type a server remembers.
 */
const typingPauseMs = 1_000
const maxTyping = 1_000

/** Nobody types in a channel that is deleted. */
export const typingDeletion: ChannelDeletion = {
  effects: (_, channel) => ({
    apply(draft) {
      const known = typing.of(draft)
      for (const key of known.keys()) if (key.startsWith(typingKey(channel, ""))) known.delete(key)
    },
  }),
}

const typingKey = (channel: Snowflake, user: Snowflake) => `${channel} ${user}`

/** Milliseconds since a member was last reported as typing; after the clock was set back: none. */
function msSinceTyped(server: Readonlied<ServerState>, channel: Snowflake, user: Snowflake, now: number): number {
  const at = typing.of(server).get(typingKey(channel, user))
  return at === undefined || at > now ? Infinity : now - at
}
