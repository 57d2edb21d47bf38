import { channelCreate, type Channel, type ChannelInput } from "../contract/channels.ts"
import { fail } from "../contract/errors.ts"
import type { Snowflake } from "../contract/fields.ts"
import { deleteMessagesOf, purgeMessages } from "../contract/jobs.ts"
import { limits } from "../contract/limits.ts"
import { guildBanAdd, guildBanRemove } from "../contract/moderation.ts"
import { guildMemberAdd, guildMemberRemove, type Server } from "../contract/servers.ts"
import { userUpdate, type ShownUser } from "../contract/users.ts"
import { holdersOf, membersOf, userOnly, viewersOf } from "../domain/audience.ts"
import { channelObject, nextPosition, visibleChannels } from "../domain/channels.ts"
import { grantedAtCreation, holds, rankOf } from "../domain/permissions.ts"
import { guildObject, memberObject, serverObject } from "../domain/servers.ts"
import { firstIdAt, secondsOf } from "../domain/snowflake.ts"
import type { Actor, BanState, ChannelState, MemberState, RoleState, ServerState } from "../domain/states.ts"
import { holdsVoice } from "../domain/voice.ts"
import { insertChannel } from "../storage/channels.ts"
import { deleteBan, putBan } from "../storage/bans.ts"
import { deleteInvite, setInviteUses } from "../storage/invites.ts"
import {
  deleteMember,
  deleteServer,
  insertMember,
  insertRole,
  insertServer,
  newServerState,
  setMemberCount,
} from "../storage/servers.ts"
import { ban, invite, member, serverFacts } from "./needs.ts"
import { requireMember, requirePermission, requireRank } from "./access.ts"
import { roleCommands, type RoleCommands } from "./roles.ts"
import { control, defineActor, tell, type HomeKind, type Readonlied } from "./runtime/actor.ts"
import type { UserCommands } from "./user.ts"
import { voiceEnding, voiceOver, voiceServerCommands, type VoiceServerCommands } from "./voice.ts"

/**
 * One server: its settings, roles, channels and who is in it. It keeps:
 *   S1  `member_count` is the number of members.
 *   S2  A use of an invite is counted once, and never beyond `max_uses`.
 *   S3  Who has left sees nothing that was appended after the answer.
 */
export interface ServerCommands extends RoleCommands, VoiceServerCommands {
  createServer(input: { owner: Actor; name: string; description: string | null; workers: string[] }): Server
  readServer(input: { user: Snowflake }): Server
  deleteServer(input: { user: Snowflake }): { deleted: true }
  /** `workers` hold the user's gateway sessions: their logs take the server's events from the join on. */
  join(input: { user: Actor; code: string; workers: string[] }): { server_id: Snowflake }
  leave(input: { user: Snowflake }): { left: true }
  listChannels(input: { user: Snowflake }): Channel[]
  createChannel(input: { user: Snowflake; channel: ChannelInput }): Channel
  kick(input: { user: Snowflake; member_id: Snowflake }): { kicked: true }
  /** Anybody who exists may be banned, member or not; `username` is null for whoever does not. What he wrote in the last `days` goes. */
  ban(input: { user: Snowflake; target_id: Snowflake; username: string | null; reason: string; days: number }): {
    banned: true
  }
  unban(input: { user: Snowflake; target_id: Snowflake; username: string }): { unbanned: true }
  /** Refuses whoever may not see the bans. */
  requireBans(input: { user: Snowflake }): { server_id: Snowflake }
  /** Told by the home of somebody who is, or was, a member. */
  memberChanged(input: { user: ShownUser }): void
  /** Somebody's account is gone for good: he is neither a member nor banned any longer. The owner stays: his server goes. */
  eraseUser(input: { user: Snowflake }): { erased: boolean }
  /** Ends an invite whose time is over; nothing happens to any other. */
  expireInvite(input: { code: string }): { ended: boolean }
}

export const serverHome: HomeKind<ServerState> = {
  name: "server",
  load: (id, storage) => storage.servers.load(id),
  facts: serverFacts,
}

const userTold = { kind: "user" } as const
const membershipChanged = (user: Snowflake, server: Snowflake, isMember: boolean) =>
  tell<unknown, unknown, UserCommands, "membershipChanged">(userTold, user, {
    type: "membershipChanged",
    server,
    member: isMember,
  })

export const serverActor = defineActor<ServerState, ServerState, ServerCommands>({
  kind: "server",
  home: serverHome,
  find: home => (home.deleted ? undefined : home),
  missing: "server_not_found",
  commands: {
    createServer: {
      create({ id, newId }, { owner, name, description, workers }) {
        const created_at = secondsOf(id)
        const everyone: RoleState = {
          id,
          name: "@everyone",
          color: "#000000",
          position: 0,
          hoist: false,
          mentionable: false,
          permissions: grantedAtCreation,
        }
        const general = newChannel({ id: newId(), server_id: id, name: "general", position: 0 })
        const founder: MemberState = { user_id: owner.id, joined_at: created_at, nickname: null, roles: [] }
        const server: Server = {
          id,
          name,
          description,
          icon_url: null,
          owner_id: owner.id,
          member_count: 1,
          default_channel_id: null,
          verification_level: 0,
          default_message_notifications: 0,
          public: false,
          category: null,
          created_at,
        }
        const home = newServerState({
          server,
          roles: new Map([[id, everyone]]),
          channels: new Map([[general.id, general]]),
        })
        home.members.set(owner.id, founder)
        return {
          home,
          write: [
            insertServer(server),
            insertRole({ ...everyone, server_id: id }),
            insertChannel(general),
            insertMember({ ...founder, server_id: id }),
          ],
          publish: [
            control(userOnly(owner.id), {
              type: "joined",
              server: id,
              user: owner.id,
              roles: [],
              event: guildObject(home, founder),
            }),
            membershipChanged(owner.id, id, true),
          ],
          interest: workers,
          reply: server,
        }
      },
    },

    readServer: {
      needs: ({ user }) => [member(user)],
      turn({ state: server }, { user }) {
        requireMember(server, user)
        return { reply: serverObject(server) }
      },
    },

    deleteServer: {
      needs: ({ user }) => [member(user)],
      turn({ state: server, now }, { user }) {
        requireMember(server, user)
        if (server.owner_id !== user) throw fail("not_owner")
        return {
          apply: draft => {
            draft.deleted = true
          },
          write: [deleteServer({ id: server.id })],
          publish: [
            ...voiceOver(server, now),
            control(membersOf(server.id), { type: "serverDeleted", server: server.id }),
            purgeMessages.at({ channel_ids: [...server.channels.keys()] }, { key: `purge:${server.id}` }),
          ],
          reply: { deleted: true },
        }
      },
    },

    join: {
      needs: ({ user, code }) => [member(user.id), ban(user.id), invite(code)],
      turn({ state: server, now }, { user, code, workers }) {
        const used = server.invites.get(code)
        const seconds = Math.floor(now / 1000)
        if (!used || (used.expires_at !== null && used.expires_at <= seconds)) throw fail("invite_not_found")
        if (server.members.get(user.id)) throw fail("already_member")
        if (server.bans.get(user.id)) throw fail("banned")
        if (used.max_uses > 0 && used.uses >= used.max_uses) throw fail("invite_not_found") // S2
        if (server.member_count >= limits.membersPerServer) throw fail("member_limit")

        const joined: MemberState = { user_id: user.id, joined_at: seconds, nickname: null, roles: [] }
        const member_count = server.member_count + 1
        const uses = used.uses + 1
        const { server_id: _, ...memberFacts } = { ...memberObject(server, joined, user), server_id: server.id }
        return {
          apply: draft => {
            draft.members.set(user.id, joined)
            draft.member_count = member_count
            draft.invites.get(code)!.uses = uses
          },
          write: [
            insertMember({ ...joined, server_id: server.id }),
            setMemberCount({ id: server.id, member_count }),
            setInviteUses({ code, uses }),
          ],
          interest: workers,
          publish: [
            control(userOnly(user.id), {
              type: "joined",
              server: server.id,
              user: user.id,
              roles: [],
              event: guildObject({ ...server, member_count }, joined),
            }),
            guildMemberAdd.to(
              membersOf(server.id),
              {
                ...memberFacts,
                server_id: server.id,
                guild_id: server.id,
                user: { id: user.id, username: user.username, avatar_url: memberFacts.avatar_url },
              },
              { except: [user.id] },
            ),
            membershipChanged(user.id, server.id, true),
          ],
          reply: { server_id: server.id },
        }
      },
    },

    leave: {
      needs: ({ user }) => [member(user)],
      turn({ state: server, now }, { user }) {
        requireMember(server, user)
        if (server.owner_id === user) throw fail("owner_cannot_leave")
        return { ...removal(server, user, now), reply: { left: true } }
      },
    },

    kick: {
      needs: ({ user, member_id }) => [member(user), member(member_id)],
      turn({ state: server, now }, { user, member_id }) {
        const caller = requireMember(server, user)
        requirePermission(server, caller, "members.kick")
        const target = server.members.get(member_id)
        if (!target) throw fail("member_not_found")
        requireRank(server, caller, rankOf(server, target))
        return { ...removal(server, member_id, now), reply: { kicked: true } }
      },
    },

    ban: {
      needs: ({ user, target_id }) => [member(user), member(target_id), ban(target_id)],
      turn({ state: server, now, newId }, { user, target_id, username, reason, days }) {
        const caller = requireMember(server, user)
        requirePermission(server, caller, "members.ban")
        if (username === null) throw fail("server_or_user_not_found")
        const found = server.members.get(target_id)
        requireRank(server, caller, rankOf(server, found ?? { user_id: target_id, roles: [] }))
        const before = server.bans.get(target_id)
        const banned: BanState = {
          user_id: target_id,
          reason,
          banned_by: user,
          banned_at: before?.banned_at ?? Math.floor(now / 1000),
        }
        const removed = found ? removal(server, target_id, now) : undefined
        const deletion =
          days > 0 &&
          deleteMessagesOf.at(
            {
              server_id: server.id,
              user_id: target_id,
              after: firstIdAt(now - days * 86_400_000),
              before: newId(),
            },
            { key: `ban:${server.id}:${target_id}:${now}` },
          )
        const told = guildBanAdd.to(holdersOf(server.id, "members.ban"), {
          guild_id: server.id,
          server_id: server.id,
          user: { id: target_id, username },
        })
        return {
          apply: draft => {
            draft.bans.set(target_id, banned)
            removed?.apply(draft)
          },
          write: [putBan({ ...banned, server_id: server.id }), ...(removed?.write ?? [])],
          publish: [...(removed?.publish ?? []), ...(before ? [] : [told]), ...(deletion ? [deletion] : [])],
          reply: { banned: true },
        }
      },
    },

    unban: {
      needs: ({ user, target_id }) => [member(user), ban(target_id)],
      turn({ state: server }, { user, target_id, username }) {
        requirePermission(server, requireMember(server, user), "members.ban")
        if (!server.bans.get(target_id)) throw fail("ban_not_found")
        return {
          apply: draft => {
            draft.bans.set(target_id, null)
          },
          write: [deleteBan({ server_id: server.id, user_id: target_id })],
          publish: [
            guildBanRemove.to(holdersOf(server.id, "members.ban"), {
              guild_id: server.id,
              server_id: server.id,
              user: { id: target_id, username },
            }),
          ],
          reply: { unbanned: true },
        }
      },
    },

    eraseUser: {
      needs: ({ user }) => [member(user), ban(user)],
      turn({ state: server, now }, { user }) {
        const left = server.members.get(user) && server.owner_id !== user ? removal(server, user, now) : undefined
        const isBanned = Boolean(server.bans.get(user))
        if (!left && !isBanned) return { reply: { erased: false } }
        return {
          apply: draft => {
            left?.apply(draft)
            draft.bans.set(user, null)
          },
          write: [...(left?.write ?? []), ...(isBanned ? [deleteBan({ server_id: server.id, user_id: user })] : [])],
          publish: left?.publish ?? [],
          reply: { erased: true },
        }
      },
    },

    requireBans: {
      needs: ({ user }) => [member(user)],
      turn({ state: server }, { user }) {
        const caller = requireMember(server, user)
        if (!holds(server, caller, "bans.view")) requirePermission(server, caller, "members.ban")
        return { reply: { server_id: server.id } }
      },
    },

    ...roleCommands,
    ...voiceServerCommands,

    listChannels: {
      needs: ({ user }) => [member(user)],
      turn({ state: server }, { user }) {
        const caller = requireMember(server, user)
        return { reply: visibleChannels(server, caller).map(channelObject) }
      },
    },

    createChannel: {
      needs: ({ user }) => [member(user)],
      turn({ state: server, newId }, { user, channel: input }) {
        requirePermission(server, requireMember(server, user), "channels.manage")
        if (server.channels.size >= limits.channelsPerServer) throw fail("channel_limit")
        const category = input.category_id === undefined ? undefined : server.channels.get(input.category_id)
        if (input.category_id !== undefined && category?.channel_type !== "category") throw fail("invalid_category")
        const channel_type = input.type ?? input.channel_type ?? "text"
        const created = newChannel({
          id: newId(),
          server_id: server.id,
          name: input.name,
          position: nextPosition(server.channels.values()),
          channel_type,
          topic: input.topic ?? null,
          category_id: input.category_id ?? null,
          nsfw: input.nsfw ?? false,
          slowmode_seconds: input.slowmode_seconds ?? 0,
          read_receipts_enabled: input.read_receipts_enabled ?? true,
          ...(holdsVoice({ channel_type }) && {
            user_limit: input.user_limit ?? 0,
            bitrate: input.bitrate ?? limits.bitrate.usual,
          }),
        })
        const shown = channelObject(created)
        return {
          apply: draft => {
            draft.channels.set(created.id, created)
          },
          write: [insertChannel(created)],
          publish: [
            control(membersOf(server.id), {
              type: "channel",
              server: server.id,
              channel: created.id,
              before: null,
              after: shown,
            }),
            channelCreate.to(viewersOf(server.id, created.id), shown),
          ],
          reply: shown,
        }
      },
    },

    memberChanged: {
      forListeners: true,
      turn: ({ state: server }, { user }) => ({
        publish: [userUpdate.to(membersOf(server.id), user, { except: [user.id] })],
        reply: undefined,
      }),
    },

    expireInvite: {
      needs: ({ code }) => [invite(code)],
      turn({ state: server, now }, { code }) {
        const ended = server.invites.get(code)
        if (!ended || ended.expires_at === null || ended.expires_at > Math.floor(now / 1000))
          return { reply: { ended: false } }
        return {
          apply: draft => {
            draft.invites.set(code, null)
          },
          write: [deleteInvite({ code })],
          reply: { ended: true },
        }
      },
    },
  },
})

/** What the end of a membership does, whoever ends it. */
function removal(server: Readonlied<ServerState>, user: Snowflake, now: number) {
  const member_count = server.member_count - 1
  const inVoice = server.voice.get(user)
  const voice = inVoice && voiceEnding(server, inVoice, now)
  return {
    apply: (draft: ServerState) => {
      voice?.apply(draft)
      draft.members.set(user, null)
      draft.member_count = member_count
    },
    write: [
      ...(voice?.write ?? []),
      deleteMember({ server_id: server.id, user_id: user }),
      setMemberCount({ id: server.id, member_count }),
    ],
    publish: [
      ...(voice?.publish ?? []), // he is told of it while he is still a member
      control(membersOf(server.id), { type: "left", server: server.id, user }), // S3
      guildMemberRemove.to(membersOf(server.id), { guild_id: server.id, server_id: server.id, user: { id: user } }),
      membershipChanged(user, server.id, false),
    ],
  }
}

function newChannel(
  parts: Partial<ChannelState> & Pick<ChannelState, "id" | "server_id" | "name" | "position">,
): ChannelState {
  return {
    channel_type: "text",
    topic: null,
    category_id: null,
    nsfw: false,
    slowmode_seconds: 0,
    read_receipts_enabled: true,
    user_limit: 0,
    bitrate: limits.bitrate.usual,
    created_at: secondsOf(parts.id),
    ...parts,
  }
}
