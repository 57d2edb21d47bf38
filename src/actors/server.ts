import { fail } from "../contract/core/errors.ts"
import type { Snowflake } from "../contract/core/fields.ts"
import { purgeServer } from "../contract/core/jobs.ts"
import type { Permission } from "../contract/core/permissions.ts"
import type { Server } from "../contract/communities/servers.ts"
import { membersOf, userOnly } from "../domain/core/audience.ts"
import { secondsAt } from "../std/clock.ts"
import { grantedAtCreation } from "../domain/core/permissions.ts"
import {
  everyoneRole,
  guildObject,
  newMember,
  serverObject,
  type ServerState,
  newServerState,
} from "../domain/communities/servers.ts"
import { secondsOf } from "../domain/core/snowflake.ts"
import type { Actor } from "../domain/accounts/accounts.ts"
import { serverFiles } from "../storage/core/blobs.ts"
import { insertChannel } from "../storage/communities/channels.ts"
import { discardFile } from "../storage/messages/files.ts"
import { deleteServer, insertMember, insertRole, insertServer } from "../storage/communities/servers.ts"
import { requireMember, requirePermission } from "./shared/access.ts"
import { audit } from "./shared/audit.ts"
import { automodCommands, type AutomodCommands } from "./communities/automod.ts"
import { channelListCommands, newChannel, type ChannelListCommands } from "./communities/channel-list.ts"
import { emojiCommands, type EmojiCommands } from "./communities/emojis.ts"
import { discarded } from "./shared/files.ts"
import { iconCommands, type IconCommands } from "./communities/icons.ts"
import { inviteServerCommands, type InviteServerCommands } from "./communities/invites.ts"
import { renameAuthor } from "./messages/history-version.ts"
import { membershipCommands, type MembershipCommands } from "./communities/membership.ts"
import { membershipChanged } from "./communities/memberships.ts"
import { memberCommands, type MemberCommands } from "./communities/members.ts"
import { member, memberFacts } from "./shared/member-facts.ts"
import { webhooksSuspension } from "./messages/webhook-facts.ts"
import { webhookServerCommands, type WebhookServerCommands } from "./messages/webhooks.ts"
import { storedPictureCommands, type StoredPictureCommands } from "./communities/stored-pictures.ts"
import { serverBotCommands, type ServerBotCommands } from "./communities/server-bots.ts"
import { stickerCommands, type StickerCommands } from "./communities/stickers.ts"
import { notificationDefaultOf, type NotificationDefault } from "./shared/notification-levels.ts"
import { roleCommands, type RoleCommands } from "./communities/roles.ts"
import { control, defineActor, type HomeKind } from "../runtime/actor.ts"
import type { Storage } from "../storage/storage.ts"
import { serverSettingsCommands, type ServerSettingsCommands } from "./communities/server-settings.ts"
import { voiceOver, voiceServerCommands, type VoiceServerCommands } from "./voice/voice.ts"

/** One server: its settings, roles, channels and who is in it (JOIN1 to JOIN3 in membership.ts). */
export interface ServerCommands
  extends
    AutomodCommands,
    MembershipCommands,
    MemberCommands,
    ChannelListCommands,
    InviteServerCommands,
    RoleCommands,
    ServerBotCommands,
    EmojiCommands,
    StickerCommands,
    StoredPictureCommands,
    IconCommands,
    ServerSettingsCommands,
    VoiceServerCommands,
    WebhookServerCommands {
  createServer(input: { owner: Actor; name: string; description: string | null; workers: string[] }): Server
  readServer(input: { user: Snowflake }): Server
  deleteServer(input: { user: Snowflake }): { deleted: true }
  /** Refuses a user who is not in the server or lacks a permission there. */
  requirePermission(input: { user: Snowflake; permission: Permission }): { server_id: Snowflake }
  /** What it has chosen for members who have chosen nothing; refuses everybody else. */
  readNotificationDefault(input: { user: Snowflake }): NotificationDefault
}

/** The home of channels: a server, or a conversation outside servers. */
export const serverHome: HomeKind<ServerState, Storage> = {
  name: "server",
  load: async (id, storage) => (await storage.servers.load(id)) ?? storage.directs.load(id),
}

export const serverActor = defineActor<ServerState, ServerState, ServerCommands, Storage>({
  kind: "server",
  home: serverHome,
  find: home => (home.deleted || home.participants !== null ? undefined : home),
  missing: "server_not_found",
  commands: {
    createServer: {
      create(turn, { owner, name, description, workers }) {
        const { id, newId } = turn
        const created_at = secondsOf(id)
        const everyone = everyoneRole(id, grantedAtCreation)
        const general = newChannel({ id: newId(), server_id: id, name: "general", position: 0 })
        // Everything that is written here comes after the founder.
        const founder = { ...newMember(owner.id, created_at), since_id: id }
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
        memberFacts.of(home).set(owner.id, founder)
        audit({ ...turn, home, user: owner.id }, "SERVER_CREATE", { type: "server", id, name })
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
          write: [deleteServer({ id: server.id }), discardFile({ key: serverFiles(server.id), since: secondsAt(now) })],
          publish: [
            ...voiceOver(server, now),
            control(membersOf(server.id), { type: "serverDeleted", server: server.id }),
            discarded(serverFiles(server.id)),
            // Whatever else is to be done once the server is gone goes here, as jobs.
            purgeServer.at(
              { server_id: server.id, channel_ids: [...server.channels.keys()] },
              { key: `purge:${server.id}` },
            ),
          ],
          reply: { deleted: true },
        }
      },
    },

    requirePermission: {
      needs: ({ user }) => [member(user)],
      turn({ state: server }, { user, permission }) {
        requirePermission(server, requireMember(server, user), permission)
        return { reply: { server_id: server.id } }
      },
    },

    readNotificationDefault: {
      needs: ({ user }) => [member(user)],
      turn({ state: server }, { user }) {
        requireMember(server, user)
        return { reply: notificationDefaultOf(server) }
      },
    },

    ...automodCommands,
    ...membershipCommands(renameAuthor, webhooksSuspension),
    ...memberCommands,
    ...channelListCommands,
    ...inviteServerCommands,
    ...roleCommands,
    ...serverBotCommands,
    ...emojiCommands,
    ...stickerCommands,
    ...storedPictureCommands,
    ...iconCommands,
    ...serverSettingsCommands,
    ...voiceServerCommands,
    ...webhookServerCommands,
  },
})
