import type { Channel } from "../contract/communities/channels.ts"
import type { Snowflake } from "../contract/core/fields.ts"
import { channelObject, type ChannelState } from "../domain/core/channels.ts"
import type { ServerState } from "../domain/communities/servers.ts"
import { accessOf } from "./shared/access.ts"
import { channelSettingsCommands, type ChannelSettingsCommands } from "./communities/channel-settings.ts"
import { inviteChannelCommands, type InviteChannelCommands } from "./communities/invites.ts"
import { scoreCommands, type ScoreCommands } from "./messages/automod-scores.ts"
import { messageDeletion, messageDeletionCommands, type MessageDeletionCommands } from "./messages/message-deletion.ts"
import { messageEditCommands, type MessageEditCommands } from "./messages/message-edits.ts"
import { messageCommands, type MessageCommands } from "./messages/messages.ts"
import { member } from "./shared/member-facts.ts"
import { reactionCommands, reactionsDeletion, type ReactionCommands } from "./messages/reactions.ts"
import { pinCommands, pinsDeletion, type PinCommands } from "./messages/pins.ts"
import {
  readMarkNeeds,
  readMarks,
  readStateCommands,
  type ReadMarks,
  type ReadStateCommands,
  type Unmarked,
} from "./messages/read-state.ts"
import { pollCommands, type PollCommands } from "./messages/polls.ts"
import { thumbnailCommands, type ThumbnailCommands } from "./messages/thumbnails.ts"
import { webhookChannelCommands, webhooksDeletion, type WebhookChannelCommands } from "./messages/webhooks.ts"
import { notificationDefaultOf, notificationsOutside, type NotificationDefault } from "./shared/notification-levels.ts"
import { overrideCommands, type OverrideCommands } from "./communities/overrides.ts"
import { defineActor } from "../runtime/actor.ts"
import type { Storage } from "../storage/storage.ts"
import { serverHome } from "./server.ts"
import { hasHistoryName, historyDeletion, historyVersion, nameHistory } from "./messages/history-version.ts"
import { typingCommands, typingDeletion, type TypingCommands } from "./messages/typing.ts"
import { voiceChannelCommands, type VoiceChannelCommands } from "./voice/voice.ts"

/** One channel: its settings and the order of its messages (MSG1 to MSG3 in messages.ts). */
export interface ChannelCommands
  extends
    ChannelSettingsCommands,
    MessageCommands,
    MessageEditCommands,
    MessageDeletionCommands,
    ScoreCommands,
    ReactionCommands,
    PinCommands,
    ThumbnailCommands,
    PollCommands,
    ReadStateCommands,
    TypingCommands,
    OverrideCommands,
    InviteChannelCommands,
    VoiceChannelCommands,
    WebhookChannelCommands {
  readChannel(input: { user: Snowflake }): Channel
  /** Refuses a user who may not read the channel's history. */
  requireRead(input: {
    user: Snowflake
    /** Who has read these is told, too. */
    messages?: Unmarked
    /**
     * What the state of the messages is called is told, too. `known`: only of this one who has read
     * them is told.
     */
    version?: { readonly known?: string | undefined }
  }): { server_id: Snowflake; marks?: ReadMarks; version?: string }
  /**
   * The default of the server, for members who have chosen nothing; refuses a user who may not view
   * the channel.
   */
  readChannelNotificationDefault(input: { user: Snowflake }): NotificationDefault
}

const deletion = messageDeletion([reactionsDeletion, pinsDeletion])

export const channelActor = defineActor<ServerState, ChannelState, ChannelCommands, Storage>({
  kind: "channel",
  home: serverHome,
  homeOf: (id, storage) => storage.channels.homeOf(id),
  find: (home, id) => (home.deleted ? undefined : home.channels.get(id)),
  missing: "channel_not_found",
  commands: {
    readChannel: {
      needs: ({ user }) => [member(user)],
      turn({ state: channel, home: server, now }, { user }) {
        accessOf(server, channel.id, user, now)
        const other = server.participants?.find(id => id !== user) ?? null
        return { reply: { ...channelObject(channel), recipient_id: other } }
      },
    },

    requireRead: {
      needs: ({ user, messages }, { state: channel, home }) => [
        member(user),
        ...(messages ? readMarkNeeds(home, channel, user) : []),
      ],
      turn({ state: channel, home: server, now, newId }, { user, messages, version: asked }) {
        accessOf(server, channel.id, user, now).require("messages.read")
        const name = asked && !hasHistoryName(server) ? newId() : ""
        const version = asked && historyVersion(server, channel.id, name)
        const isWanted = messages && version === asked?.known
        const { reply: marks, remember } = isWanted ? readMarks(server, channel, user, messages) : {}
        return {
          remember: draft => {
            remember?.(draft)
            if (name !== "") nameHistory(draft, name)
          },
          reply: {
            server_id: server.id,
            ...(marks && { marks }),
            ...(version !== undefined && { version }),
          },
        }
      },
    },

    readChannelNotificationDefault: {
      needs: ({ user }) => [member(user)],
      turn({ state: channel, home: server, now }, { user }) {
        accessOf(server, channel.id, user, now)
        return { reply: server.participants === null ? notificationDefaultOf(server) : notificationsOutside }
      },
    },

    ...channelSettingsCommands([webhooksDeletion, historyDeletion, typingDeletion]),
    ...messageCommands,
    ...messageEditCommands(deletion),
    ...messageDeletionCommands(deletion),
    ...scoreCommands(deletion),
    ...reactionCommands,
    ...pinCommands,
    ...thumbnailCommands,
    ...pollCommands(deletion),
    ...readStateCommands,
    ...typingCommands,
    ...overrideCommands,
    ...inviteChannelCommands,
    ...voiceChannelCommands,
    ...webhookChannelCommands,
  },
})
