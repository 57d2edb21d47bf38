import { type Channel, channelDelete, type ChannelPatch, channelUpdate } from "../../contract/communities/channels.ts"
import { purgeMessages } from "../../contract/core/jobs.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { changesOf } from "../../domain/communities/audit.ts"
import { membersOf, viewersOf } from "../../domain/core/audience.ts"
import { channelObject, type ChannelState } from "../../domain/core/channels.ts"
import type { ServerState } from "../../domain/communities/servers.ts"
import { holdsVoice } from "../../domain/voice/voice.ts"
import { deleteChannel, forgetChannel, updateChannel } from "../../storage/communities/channels.ts"
import { accessOf, requirePermission } from "../shared/access.ts"
import { audit, type AuditContext, type AuditedTurn } from "../shared/audit.ts"
import { withoutTargets } from "./automod.ts"
import { categoryAsked, channelFields, channelTarget, noCategory, placing, requireCategory } from "./channel-list.ts"
import { member } from "../shared/member-facts.ts"
import { changesViewing } from "../../domain/communities/view-changes.ts"
import { takeViewChange, type PacedContext } from "./view-changes.ts"
import { forgetInvitesTo } from "./invites.ts"
import type { Readonlied } from "../../domain/core/readonlied.ts"
import { combine, type HomeEffects } from "../shared/effects.ts"
import type { Need } from "../../runtime/facts.ts"
import { control, type ActorKind, type Publication } from "../../runtime/actor.ts"
import { changing, settingsOf } from "./server-settings.ts"
import { voiceEnding } from "../voice/voice.ts"

/**
 * What becomes of one channel, among its commands; CHAN1 and CHAN2 of channel-list.ts hold here,
 * too.
 */
export interface ChannelSettingsCommands {
  editChannel(input: AuditContext & { patch: ChannelPatch }): Channel
  deleteChannel(input: PacedContext): { deleted: true }
}

/** What another subject does in the turn in which a channel is deleted. */
export interface ChannelDeletion {
  readonly needs?: readonly Need<ServerState>[]
  /** Its publications precede the end of the channel: until then those who view it know of it. */
  readonly effects: (server: Readonlied<ServerState>, channel: Snowflake) => Partial<HomeEffects>
}

export const channelSettingsCommands = (
  deletions: readonly ChannelDeletion[],
): ActorKind<ServerState, ChannelState, ChannelSettingsCommands>["commands"] => ({
  editChannel: {
    needs: ({ user }) => [member(user)],
    turn(context, { user, reason, patch }) {
      const { state: channel, home: server, now } = context
      const access = accessOf(server, channel.id, user, now)
      access.require("channels.manage")
      const { position, category_id } = patch
      // Where it stands is the server's matter, not the channel's alone.
      if (position !== undefined || category_id !== undefined)
        requirePermission(server, access.member, "channels.manage")
      if (category_id !== undefined && category_id !== noCategory)
        requireCategory(server, channel, category_id, access.member)

      const edited: ChannelState = { ...channel, ...saidOf(channel, patch) }
      const changes = changesOf(channel, edited, channelFields)
      if (Object.keys(changes).length === 0) return { reply: channelObject(channel) }
      const shown = channelObject(edited)
      audit({ ...context, user, reason }, "CHANNEL_UPDATE", channelTarget(edited), changes)
      return {
        apply: draft => {
          draft.channels.set(edited.id, edited)
        },
        write: [updateChannel(edited)],
        publish: changed(channel, shown),
        reply: shown,
      }
    },
  },

  deleteChannel: {
    needs: ({ user }) => [member(user), ...deletions.flatMap(({ needs = [] }) => needs)],
    turn(context, { user, reason, isLimited }) {
      const { state: channel, home: server, now } = context
      const access = accessOf(server, channel.id, user, now)
      access.require("channels.manage")
      const { id } = channel
      const calls = [...server.voice.values()].filter(({ channel_id }) => channel_id === id)
      const endings = calls.map(state => voiceEnding(server, state, now))
      const inside = [...server.channels.values()].filter(({ category_id }) => category_id === id)
      const freed = placing(
        server,
        inside.map(each => ({ ...each, category_id: null })),
      )
      const changesViews = server.overrides.get(id)?.some(override => changesViewing(override, undefined)) === true
      const take = takeViewChange(server, { user, isLimited }, now, { changesViews, events: inside.length })
      const others = combine(...deletions.map(({ effects }) => effects(server, id)))
      const undefaulted =
        id === server.default_channel_id ? withoutDefault(server, { user, reason }, context) : undefined
      const moderated = withoutTargets(server, new Set([id]), { user, reason }, context)
      audit(
        { ...context, user, reason },
        "CHANNEL_DELETE",
        channelTarget(channel),
        changesOf(channel, null, channelFields),
      )
      return {
        apply: draft => {
          take?.(draft)
          for (const ending of endings) ending.apply(draft)
          freed.apply(draft)
          undefaulted?.apply(draft)
          moderated.apply(draft)
          forget(draft, channel)
          others.apply(draft)
        },
        write: [
          ...endings.flatMap(ending => ending.write),
          ...freed.write,
          deleteChannel({ id }),
          forgetChannel({ id, server_id: server.id }),
          ...(undefaulted?.write ?? []),
          ...moderated.write,
          ...others.write,
        ],
        publish: [
          ...endings.flatMap(ending => ending.publish),
          ...others.publish,
          // Before the entry: until then those who may view it know of it, and nobody else is told
          // of its end.
          channelDelete.to(viewersOf(server.id, id), { id, server_id: server.id, guild_id: server.id }),
          control(membersOf(server.id), {
            type: "channel",
            server: server.id,
            channel: id,
            before: channelObject(channel),
            after: null,
            overrides: server.overrides.get(id) ?? [],
          }),
          ...freed.publish,
          ...(undefaulted?.publish ?? []),
          purgeMessages.at({ channel_ids: [id] }, { key: `purge:${id}` }),
        ],
        reply: { deleted: true },
      }
    },
  },
})

/** What decides who sees what knows of it before anybody is told. */
const changed = (before: Readonlied<ChannelState>, after: Channel): Publication[] => [
  control(membersOf(before.server_id), {
    type: "channel",
    server: before.server_id,
    channel: before.id,
    before: channelObject(before),
    after,
  }),
  channelUpdate.to(viewersOf(before.server_id, before.id), after),
]

/** What a patch says of a channel; only calls have a limit and a bitrate. */
function saidOf(channel: Readonlied<ChannelState>, patch: ChannelPatch): Partial<ChannelState> {
  return {
    name: patch.name ?? channel.name,
    position: patch.position ?? channel.position,
    category_id: categoryAsked(channel, patch.category_id),
    topic: patch.topic === undefined ? channel.topic : patch.topic || null,
    nsfw: patch.nsfw ?? channel.nsfw,
    slowmode_seconds: patch.slowmode_seconds ?? channel.slowmode_seconds,
    read_receipts_enabled: patch.read_receipts_enabled ?? channel.read_receipts_enabled,
    ...(holdsVoice(channel) && {
      user_limit: patch.user_limit ?? channel.user_limit,
      bitrate: patch.bitrate ?? channel.bitrate,
    }),
  }
}

/** The server has no default channel any longer. */
function withoutDefault(server: Readonlied<ServerState>, by: AuditContext, turn: AuditedTurn) {
  return changing(server, { ...settingsOf(server), default_channel_id: null }, by, turn)
}

/** What the home remembers of a channel that is gone, or of what led to it. */
function forget(draft: ServerState, { id }: Readonlied<ChannelState>): void {
  draft.channels.delete(id)
  draft.overrides.delete(id)
  forgetInvitesTo(draft, id)
}
