import {
  type Channel,
  type ChannelInput,
  type ChannelMoves,
  channelCreate,
  channelUpdate,
} from "../../contract/communities/channels.ts"
import { fail } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { limits } from "../../contract/core/limits.ts"
import { changesOf, type Changes } from "../../domain/communities/audit.ts"
import { membersOf, viewersOf } from "../../domain/core/audience.ts"
import { holds } from "../../domain/core/permissions.ts"
import { channelObject, nextPosition, visibleChannels, type ChannelState } from "../../domain/core/channels.ts"
import { secondsOf } from "../../domain/core/snowflake.ts"
import type { MemberState, ServerState } from "../../domain/communities/servers.ts"
import { holdsVoice } from "../../domain/voice/voice.ts"
import { insertChannel, placeChannel } from "../../storage/communities/channels.ts"
import { accessOf, mayView, requireMember, requirePermission } from "../shared/access.ts"
import { audit, type AuditContext } from "../shared/audit.ts"
import { member } from "../shared/member-facts.ts"
import { takeViewChange, type PacedContext } from "./view-changes.ts"
import type { Readonlied } from "../../domain/core/readonlied.ts"
import { type ActorKind, control, type Publication } from "../../runtime/actor.ts"

/**
 * Which channels a server has and in which order, among its home's commands. They keep:
 *   CHAN1  A channel keeps its position until a request changes it. No other move, creation or
 *       deletion renumbers it.
 *   CHAN2  The category of a channel is in the same server, and a category has no category.
 */
export interface ChannelListCommands {
  listChannels(input: { user: Snowflake }): Channel[]
  /** For a reader of the audit log: which channels they view. `viewsAll`: those that are deleted, too. */
  readAuditScope(input: { user: Snowflake }): { viewsAll: boolean; channels: Snowflake[] }
  createChannel(input: AuditContext & { channel: ChannelInput }): Channel
  reorderChannels(input: PacedContext & { moves: ChannelMoves["channels"] }): Channel[]
}

type Server = Readonlied<ServerState>
type StoredChannel = Readonlied<ChannelState>

export const channelListCommands: ActorKind<ServerState, ServerState, ChannelListCommands>["commands"] = {
  listChannels: {
    needs: ({ user }) => [member(user)],
    turn({ state: server }, { user }) {
      const caller = requireMember(server, user)
      return { reply: visibleChannels(server, caller).map(channelObject) }
    },
  },

  readAuditScope: {
    needs: ({ user }) => [member(user)],
    turn({ state: server }, { user }) {
      const caller = requireMember(server, user)
      requirePermission(server, caller, "server.view_audit_log")
      const channels = visibleChannels(server, caller).map(({ id }) => id)
      return { reply: { viewsAll: holds(server, caller, "administrator"), channels } }
    },
  },

  createChannel: {
    needs: ({ user }) => [member(user)],
    turn(context, { user, reason, channel: input }) {
      const { state: server, newId } = context
      const caller = requireMember(server, user)
      requirePermission(server, caller, "channels.manage")
      if (server.channels.size >= limits.channelsPerServer) throw fail("channel_limit")
      const channel_type = input.type ?? input.channel_type ?? "text"
      if (input.category_id !== undefined)
        requireCategory(server, { channel_type, category_id: null }, input.category_id, caller)
      const created = newChannel({
        id: newId(),
        server_id: server.id,
        name: input.name,
        position: nextPosition(server.channels.values()),
        channel_type,
        topic: input.topic || null,
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
      audit(
        { ...context, user, reason },
        "CHANNEL_CREATE",
        channelTarget(created),
        changesOf(null, created, channelFields),
      )
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

  reorderChannels: {
    needs: ({ user }) => [member(user)],
    turn(context, { user, reason, isLimited, moves }) {
      const { state: server, now } = context
      const caller = requireMember(server, user)
      const named = moves.map(({ id }) => server.channels.get(id))
      if (named.includes(undefined)) throw fail("channel_not_found")
      requirePermission(server, caller, "channels.manage")
      for (const { id, category_id } of moves) {
        accessOf(server, id, user, now).require("channels.manage")
        if (category_id !== undefined && category_id !== noCategory)
          requireCategory(server, server.channels.get(id)!, category_id, caller)
      }
      const moved = movedTo(server, moves)
      const list = (channels: Iterable<StoredChannel>) =>
        visibleChannels({ ...server, channels: new Map([...channels].map(each => [each.id, each])) }, caller).map(
          channelObject,
        )
      if (moved.length === 0) return { reply: list(server.channels.values()) }
      const after = new Map([...server.channels, ...moved.map(channel => [channel.id, channel] as const)])
      const placed = placing(server, moved)
      const take = takeViewChange(server, { user, isLimited }, now, { changesViews: false, events: moved.length })
      audit(
        { ...context, user, reason },
        "CHANNEL_UPDATE",
        { type: "server", id: server.id, name: server.name },
        moveChanges(server, moves, after),
      )
      return {
        ...placed,
        apply: draft => {
          take?.(draft)
          placed.apply(draft)
        },
        reply: list(after.values()),
      }
    },
  },
}

/** Takes a channel out of its category. */
export const noCategory = "0"

/** The category that a channel is in once `asked` was said of it; nothing said: where it is. */
export const categoryAsked = (
  { category_id }: Pick<ChannelState, "category_id">,
  asked: Snowflake | undefined,
): Snowflake | null => (asked === noCategory ? null : (asked ?? category_id))

/**
 * CHAN2. A user who may not view a category does not learn that it exists, but may leave a channel
 * in it.
 */
export function requireCategory(
  server: Server,
  { channel_type, category_id }: Pick<ChannelState, "channel_type" | "category_id">,
  asked: Snowflake,
  caller: Readonlied<MemberState>,
): void {
  if (asked === category_id) return
  const isCategory = server.channels.get(asked)?.channel_type === "category"
  if (channel_type === "category" || !isCategory || !mayView(server, asked, caller)) throw fail("invalid_category")
}

interface Move {
  readonly id: Snowflake
  readonly position?: number | undefined
  readonly category_id?: Snowflake | undefined
}

/** CHAN1: the channels whose position or category is another then. */
function movedTo(server: Server, moves: readonly Move[]): StoredChannel[] {
  return moves.flatMap(({ id, position: asked, category_id: category }) => {
    const channel = server.channels.get(id)!
    const position = asked ?? channel.position
    const category_id = categoryAsked(channel, category)
    return position === channel.position && category_id === channel.category_id
      ? []
      : [{ ...channel, position, category_id }]
  })
}

/** Channels get other positions and categories: part of a turn's effects. */
export function placing(server: Server, moved: readonly StoredChannel[]) {
  const placementOf = ({ position, category_id }: StoredChannel) => ({ position, category_id })
  const moves = moved.map(channel => ({
    channel: channel.id,
    before: placementOf(server.channels.get(channel.id)!),
    after: placementOf(channel),
  }))
  const publish: Publication[] =
    moved.length === 0
      ? []
      : [
          control(membersOf(server.id), { type: "channelsMoved", server: server.id, moves }),
          ...moved.map(channel => channelUpdate.to(viewersOf(server.id, channel.id), channelObject(channel))),
        ]
  return {
    apply: (draft: ServerState) => {
      for (const channel of moved) draft.channels.set(channel.id, { ...channel })
    },
    write: moved.map(channel => placeChannel({ id: channel.id, ...placementOf(channel) })),
    publish,
  }
}

/** Channels of which one entry of the audit log says where they went; of more it says how many. */
const movesNoted = 50

/** As the audit log shows them. */
function moveChanges(server: Server, moves: readonly Move[], after: ReadonlyMap<Snowflake, StoredChannel>): Changes {
  const places = moves.flatMap(({ id }) => {
    const [was, is] = [server.channels.get(id)!, after.get(id)!]
    return was.position === is.position && was.category_id === is.category_id ? [] : [{ was, is }]
  })
  if (places.length > movesNoted) return { channels: { old: null, new: places.length } }
  const shown = (field: "position" | "category_id") => {
    const changed = places.filter(({ was, is }) => was[field] !== is[field])
    const of = (side: "was" | "is") => Object.fromEntries(changed.map(place => [place[side].id, place[side][field]]))
    return changed.length === 0 ? {} : { [field]: { old: of("was"), new: of("is") } }
  }
  return { ...shown("position"), ...shown("category_id") }
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
