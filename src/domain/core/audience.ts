import type { Snowflake } from "../../contract/core/fields.ts"
import { bitOf } from "../../contract/core/intents.ts"
import type { Permission } from "../../contract/core/permissions.ts"
import type { EventDefinition } from "../../contract/core/registry.ts"

/**
 * Who an event is for. It is computed where the sessions are, from what the log says of members,
 * roles and overrides.
 */
export type Audience =
  | { readonly kind: "members"; readonly server: Snowflake }
  | { readonly kind: "holders"; readonly server: Snowflake; readonly permission: Permission }
  /**
   * With `also`: users who may view either channel. With `permission`: those viewers of the channel
   * who hold it there.
   */
  | {
      readonly kind: "viewers"
      readonly server: Snowflake
      readonly channel: Snowflake
      readonly also?: Snowflake
      readonly permission?: Permission
    }
  | { readonly kind: "user"; readonly user: Snowflake }

/**
 * The bit of the intents that an event needs for an audience; 0: none. What is for a user alone is
 * a DM's, not a server's.
 */
export function intentBit({ intent }: Pick<EventDefinition, "intent">, kind: Audience["kind"]): number {
  const needed = kind === "user" ? intent?.dm : intent?.server
  return needed ? bitOf(needed) : 0
}

export const holdersOf = (server: Snowflake, permission: Permission): Audience => ({
  kind: "holders",
  server,
  permission,
})
export const membersOf = (server: Snowflake): Audience => ({ kind: "members", server })
export const viewersOf = (server: Snowflake, channel: Snowflake): Audience => ({ kind: "viewers", server, channel })
export const eitherViewersOf = (server: Snowflake, channel: Snowflake, also: Snowflake): Audience => ({
  kind: "viewers",
  server,
  channel,
  also,
})
export const viewersHolding = (server: Snowflake, channel: Snowflake, permission: Permission): Audience => ({
  kind: "viewers",
  server,
  channel,
  permission,
})
export const userOnly = (user: Snowflake): Audience => ({ kind: "user", user })
