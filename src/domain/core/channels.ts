import type { Channel, ChannelType } from "../../contract/communities/channels.ts"
import { limits } from "../../contract/core/limits.ts"
import type { Override } from "./overrides.ts"
import { holdsIn, type AccessRules, type Holder } from "./permissions.ts"
import type { Snowflake } from "../../contract/core/fields.ts"

/** Conversations outside servers. */
export type DirectType = "dm" | "notes"

export interface ChannelState {
  id: Snowflake
  server_id: Snowflake
  name: string
  channel_type: ChannelType | DirectType
  topic: string | null
  position: number
  category_id: Snowflake | null
  nsfw: boolean
  slowmode_seconds: number
  read_receipts_enabled: boolean
  /** Of voice channels; 0: any number. */
  user_limit: number
  bitrate: number
  created_at: number
}

export const channelObject = (channel: Readonly<ChannelState>): Channel => ({
  id: channel.id,
  server_id: channel.server_id,
  guild_id: channel.server_id,
  name: channel.name,
  type: channel.channel_type,
  channel_type: channel.channel_type,
  topic: channel.topic,
  position: channel.position,
  category_id: channel.category_id,
  nsfw: channel.nsfw,
  slowmode_seconds: channel.slowmode_seconds,
  read_receipts_enabled: channel.read_receipts_enabled,
  user_limit: channel.user_limit,
  bitrate: channel.bitrate,
  created_at: channel.created_at,
  recipient_id: null,
  recipient: null,
})

const withMessages: ReadonlySet<ChannelState["channel_type"]> = new Set(["text", "announcement", "dm", "notes"])

/** Whether messages can be sent here. */
export const holdsMessages = (channel: Pick<ChannelState, "channel_type">) => withMessages.has(channel.channel_type)

/** The position of a new channel: after all others, or beside the last where no number is left. */
export const nextPosition = (channels: Iterable<Pick<ChannelState, "position">>): number => {
  let next = 0
  for (const { position } of channels) if (position >= next) next = position + 1
  return Math.min(next, limits.channelPosition)
}

type Placed = Pick<ChannelState, "id" | "position">

/** Of equal positions the older channel stands first. */
const byPosition = (a: Placed, b: Placed): number => a.position - b.position || (BigInt(a.id) < BigInt(b.id) ? -1 : 1)

/** Seconds that an author has still to wait under slow mode; 0: none. */
export const slowmodeWait = (
  channel: Pick<ChannelState, "slowmode_seconds">,
  lastPostMs: number | null | undefined,
  nowMs: number,
): number =>
  channel.slowmode_seconds === 0 || lastPostMs === null || lastPostMs === undefined
    ? 0
    : Math.max(0, lastPostMs + channel.slowmode_seconds * 1000 - nowMs) / 1000

type Channels = AccessRules & {
  readonly channels: ReadonlyMap<string, Readonly<ChannelState>>
  readonly overrides: ReadonlyMap<string, readonly Override[]>
}

/** The channels that a member may view, in the order of the list. */
export const visibleChannels = (server: Channels, member: Holder): Readonly<ChannelState>[] =>
  [...server.channels.values()]
    .filter(({ id }) => holdsIn(server, server.overrides.get(id) ?? [], member, "channels.view"))
    .toSorted(byPosition)
