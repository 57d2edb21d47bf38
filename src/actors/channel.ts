import type { Channel } from "../contract/channels.ts"
import type { Snowflake } from "../contract/fields.ts"
import { channelObject } from "../domain/channels.ts"
import type { ChannelState, ServerState } from "../domain/states.ts"
import { requirePermissionIn, requireViewer } from "./access.ts"
import { channelSettingsCommands, type ChannelSettingsCommands } from "./channel-settings.ts"
import { inviteChannelCommands, type InviteChannelCommands } from "./invites.ts"
import { messageCommands, type MessageCommands } from "./messages.ts"
import { member } from "./needs.ts"
import { notificationDefaultOf, type NotificationDefault } from "./notification-levels.ts"
import { overrideCommands, type OverrideCommands } from "./overrides.ts"
import { defineActor } from "./runtime/actor.ts"
import { serverHome } from "./server.ts"
import { typingCommands, type TypingCommands } from "./typing.ts"
import { voiceChannelCommands, type VoiceChannelCommands } from "./voice.ts"
import { webhookChannelCommands, type WebhookChannelCommands } from "./webhooks.ts"

/** One channel: its settings and the order of its messages (C1 to C3 in messages.ts). */
export interface ChannelCommands
  extends
    ChannelSettingsCommands,
    MessageCommands,
    TypingCommands,
    OverrideCommands,
    InviteChannelCommands,
    VoiceChannelCommands,
    WebhookChannelCommands {
  readChannel(input: { user: Snowflake }): Channel
  /** Refuses whoever may not read the channel's history. */
  requireRead(input: { user: Snowflake }): { server_id: Snowflake }
  /** What the server has chosen for those who have chosen nothing; refuses whoever may not view the channel. */
  readChannelNotificationDefault(input: { user: Snowflake }): NotificationDefault
}

export const channelActor = defineActor<ServerState, ChannelState, ChannelCommands>({
  kind: "channel",
  home: serverHome,
  homeOf: (id, storage) => storage.channels.homeOf(id),
  find: (home, id) => (home.deleted ? undefined : home.channels.get(id)),
  missing: "channel_not_found",
  commands: {
    readChannel: {
      needs: ({ user }) => [member(user)],
      turn({ state: channel, home: server }, { user }) {
        requireViewer(server, channel.id, user)
        return { reply: channelObject(channel) }
      },
    },

    requireRead: {
      needs: ({ user }) => [member(user)],
      turn({ state: channel, home: server, now }, { user }) {
        requirePermissionIn(server, channel.id, requireViewer(server, channel.id, user), "messages.read", now)
        return { reply: { server_id: server.id } }
      },
    },

    readChannelNotificationDefault: {
      needs: ({ user }) => [member(user)],
      turn({ state: channel, home: server }, { user }) {
        requireViewer(server, channel.id, user)
        return { reply: notificationDefaultOf(server) }
      },
    },

    ...channelSettingsCommands,
    ...messageCommands,
    ...typingCommands,
    ...overrideCommands,
    ...inviteChannelCommands,
    ...voiceChannelCommands,
    ...webhookChannelCommands,
  },
})
