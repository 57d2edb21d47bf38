import type { Channel } from "../contract/channels.ts"
import { holdsIn, type AccessRules, type Holder, type Override } from "./permissions.ts"
import type { ChannelState } from "./states.ts"

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

/** Whether messages can be sent here. */
export const holdsMessages = (channel: Pick<ChannelState, "channel_type">) =>
  channel.channel_type === "text" || channel.channel_type === "announcement"

/** The next free place at the end of a server's list. */
export const nextPosition = (channels: Iterable<Pick<ChannelState, "position">>): number => {
  let next = 0
  for (const { position } of channels) if (position >= next) next = position + 1
  return next
}

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
    .toSorted((a, b) => a.position - b.position || (a.id < b.id ? -1 : 1))
