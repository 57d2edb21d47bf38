import { type Channel, type ChannelInput, channelCreate } from "../contract/channels.ts"
import { fail } from "../contract/errors.ts"
import type { Snowflake } from "../contract/fields.ts"
import { limits } from "../contract/limits.ts"
import { changesOf } from "../domain/audit.ts"
import { membersOf, viewersOf } from "../domain/audience.ts"
import { channelObject, nextPosition, visibleChannels } from "../domain/channels.ts"
import { secondsOf } from "../domain/snowflake.ts"
import type { ChannelState, ServerState } from "../domain/states.ts"
import { holdsVoice } from "../domain/voice.ts"
import { insertChannel } from "../storage/channels.ts"
import { requireMember, requirePermission } from "./access.ts"
import { audited, type Deed } from "./audit.ts"
import { member } from "./needs.ts"
import { type ActorKind, control } from "./runtime/actor.ts"

/** Which channels a server has, among its home's commands. */
export interface ChannelListCommands {
  listChannels(input: { user: Snowflake }): Channel[]
  createChannel(input: Deed & { channel: ChannelInput }): Channel
}

export const channelListCommands: ActorKind<ServerState, ServerState, ChannelListCommands>["commands"] = {
  listChannels: {
    needs: ({ user }) => [member(user)],
    turn({ state: server }, { user }) {
      const caller = requireMember(server, user)
      return { reply: visibleChannels(server, caller).map(channelObject) }
    },
  },

  createChannel: {
    needs: ({ user }) => [member(user)],
    turn({ state: server, now, newId }, { user, reason, channel: input }) {
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
        write: [
          insertChannel(created),
          audited(
            { now, newId },
            server.id,
            { user, reason },
            "CHANNEL_CREATE",
            channelTarget(created),
            changesOf(null, created, channelFields),
          ),
        ],
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
}

export const channelTarget = ({ id, name, channel_type }: Pick<ChannelState, "id" | "name" | "channel_type">) =>
  ({ type: channel_type === "category" ? "category" : "channel", id, name }) as const

/** What the audit log says of a channel. */
export const channelFields = [
  "name",
  "channel_type",
  "topic",
  "position",
  "category_id",
  "nsfw",
  "slowmode_seconds",
  "read_receipts_enabled",
  "user_limit",
  "bitrate",
] as const satisfies (keyof ChannelState)[]

export function newChannel(
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
