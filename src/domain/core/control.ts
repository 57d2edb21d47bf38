import type { Channel } from "../../contract/communities/channels.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import type { Permission } from "../../contract/core/permissions.ts"
import type { Override } from "./overrides.ts"

/**
 * Control entries travel in the delivery log among the events and act before what follows them, so
 * that a change of access is a barrier in the stream of every session.
 */
export type Control =
  /** `event` is the GUILD_CREATE that the new member's sessions get. */
  | {
      readonly type: "joined"
      readonly server: Snowflake
      readonly user: Snowflake
      readonly roles: readonly Snowflake[]
      readonly event: unknown
    }
  | { readonly type: "left"; readonly server: Snowflake; readonly user: Snowflake }
  | { readonly type: "serverDeleted"; readonly server: Snowflake }
  /**
   * The user's own home says that their servers changed; a worker that does not know better asks
   * PostgreSQL.
   */
  | {
      readonly type: "membershipsChanged"
      readonly user: Snowflake
      readonly server: Snowflake
      readonly member: boolean
    }
  | { readonly type: "sessionEnded"; readonly user: Snowflake; readonly session: Snowflake }
  | {
      readonly type: "memberRoles"
      readonly server: Snowflake
      readonly user: Snowflake
      readonly before: readonly Snowflake[]
      readonly after: readonly Snowflake[]
    }
  | RulesChange

/**
 * What decides who sees what in a server has changed. Both sides are told, so that a session that
 * resumes can be taken back to where its client stopped; null: there is no such thing.
 */
export type RulesChange =
  | {
      readonly type: "role"
      readonly server: Snowflake
      readonly role: Snowflake
      readonly before: readonly Permission[] | null
      readonly after: readonly Permission[] | null
      /**
       * For a role that is deleted: the overrides that go with it, for readers who are reset to an
       * earlier state.
       */
      readonly overrides?: readonly (readonly [channel: Snowflake, override: Override])[]
    }
  | {
      readonly type: "channel"
      readonly server: Snowflake
      readonly channel: Snowflake
      readonly before: Channel | null
      readonly after: Channel | null
      /**
       * For a channel that is deleted: its overrides, for readers who are reset to an earlier
       * state.
       */
      readonly overrides?: readonly Override[]
    }
  /** Channels have other places: one entry, because each makes a version of the rules. */
  | { readonly type: "channelsMoved"; readonly server: Snowflake; readonly moves: readonly ChannelMove[] }
  | {
      readonly type: "overrides"
      readonly server: Snowflake
      readonly channel: Snowflake
      readonly shown: Channel
      readonly before: readonly Override[]
      readonly after: readonly Override[]
    }
  /** Who owns it, and what it is called. */
  | {
      readonly type: "server"
      readonly server: Snowflake
      readonly before: ServerIdentity
      readonly after: ServerIdentity
    }

export interface ServerIdentity {
  readonly name: string
  readonly owner_id: Snowflake
}

export type ChannelPlace = Pick<Channel, "position" | "category_id">
interface ChannelMove {
  readonly channel: Snowflake
  readonly before: ChannelPlace
  readonly after: ChannelPlace
}

/** Says it of a control entry, and of its type alone. */
export const isRulesChange = <C extends Pick<Control, "type">>(control: C): control is Extract<C, RulesChange> =>
  rulesChanges.has(control.type)

const rulesChanges: ReadonlySet<Control["type"]> = new Set<RulesChange["type"]>([
  "role",
  "channel",
  "channelsMoved",
  "overrides",
  "server",
])
